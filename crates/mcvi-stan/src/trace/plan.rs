//! Groups of like operations: what the engine computes at once.
//!
//! Operations that are as far from the parameters as each other cannot depend on each other. Of these, all of one
//! statement with the same operation and lengths of operands form a group, one operation of the engine with an axis for
//! its members. The iterations of a loop over data that do not read what others wrote thus become one axis. Statements
//! are kept apart, as what all members share, such as the scale of a likelihood, would otherwise be different for one.

use super::linear::{Linear, products};
use super::roll::{Rolled, Step};
use super::solve::Solver;
use super::{Cell, Flat, Node, NodeId, Op, Trace, find};
use std::collections::HashMap;
use std::sync::Arc;

/// Like operations.
#[derive(Clone, Debug)]
pub struct Group {
    pub op: Op,
    /// Numbers that each member gives.
    pub len: usize,
    pub members: usize,
    /// The statement its members come from.
    pub site: u32,
    /// For each operand, those of all members.
    pub operands: Vec<Operand>,
}

/// One operand of all members of a group.
#[derive(Clone, Debug)]
pub enum Operand {
    /// The same for all.
    Shared(Vec<Source>),
    /// One after the other, each of the same length.
    Each(Vec<Source>),
}

impl Operand {
    pub fn sources(&self) -> &[Source] {
        let (Operand::Shared(sources) | Operand::Each(sources)) = self;
        sources
    }

    /// The same with each number from elsewhere.
    pub fn map(&self, mut f: impl FnMut(Source) -> Source) -> Operand {
        match self {
            Operand::Shared(sources) => Operand::Shared(sources.iter().map(|s| f(*s)).collect()),
            Operand::Each(sources) => Operand::Each(sources.iter().map(|s| f(*s)).collect()),
        }
    }
}

/// A number, or a place in the row of numbers that a group gives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Source {
    Number(f64),
    Place { group: u32, place: u32 },
}

/// What to compute, in order, and the sum that is the result.
#[derive(Clone, Debug)]
pub struct Plan {
    pub steps: Vec<Step>,
    /// For each row of numbers that the steps give: the product that it is.
    pub products: Vec<Option<Linear>>,
    pub terms: Vec<Source>,
    /// Rows of numbers that are asked for besides.
    pub outputs: Vec<Vec<Source>>,
    pub solvers: Vec<Arc<Solver>>,
}

/// Where each operation is: its group and its number in it.
struct Places {
    group: Vec<u32>,
    member: Vec<u32>,
    len: Vec<u32>,
}

impl Places {
    fn source(&self, cell: Cell) -> Source {
        match cell {
            Cell::Number(x) => Source::Number(x),
            Cell::Element(node, i) => {
                let node = node as usize;
                Source::Place { group: self.group[node], place: self.member[node] * self.len[node] + i }
            }
        }
    }
}

impl Plan {
    /// The number of operations on arrays.
    pub fn operations(&self) -> usize {
        let count = |step: &Step| match step {
            Step::Group(_) => 1,
            Step::Loop(found) => found.body.len(),
        };
        self.steps.iter().map(count).sum()
    }

    /// The plan of the sum of some terms of a trace, and of outputs besides.
    pub fn new(trace: &Trace, terms: &[Cell], outputs: &[Flat]) -> Plan {
        let sums = Sums::new(trace, terms, outputs);
        let (depths, order) = depths(trace, &sums, terms, outputs);
        let mut keys: HashMap<Key, u32> = HashMap::new();
        let mut lists: Vec<Vec<NodeId>> = vec![];
        let count = trace.nodes.len();
        let mut places = Places { group: vec![0; count], member: vec![0; count], len: vec![0; count] };
        for node in order {
            let key = key(trace, &sums, node, depths[node as usize]);
            let group = *keys.entry(key).or_insert_with(|| {
                lists.push(vec![]);
                lists.len() as u32 - 1
            });
            let list = &mut lists[group as usize];
            places.group[node as usize] = group;
            places.member[node as usize] = list.len() as u32;
            places.len[node as usize] = trace.nodes[node as usize].len;
            list.push(node);
        }
        let groups: Vec<Group> = lists.iter().map(|members| gather(trace, &sums, members, &places)).collect();
        let terms: Vec<Source> = sums.flattened(trace, terms).into_iter().map(|c| places.source(c)).collect();
        let outputs: Vec<Vec<Source>> = outputs.iter().map(|o| o.cells().map(|c| places.source(c)).collect()).collect();
        let rolled = Rolled::new(&groups, &terms, &outputs);
        let now = |list: &Vec<Source>| list.iter().map(|s| rolled.source(*s)).collect::<Vec<_>>();
        let (terms, outputs) = (now(&terms), outputs.iter().map(now).collect());
        let products = products(&rolled.steps);
        Plan { steps: rolled.steps, products, terms, outputs, solvers: trace.solvers.clone() }
    }
}

/// Long sums of numbers, one after the other, as one sum: `x += a` in a loop need not wait for the iteration before.
struct Sums {
    add: u16,
    /// How often each operation's single number is used.
    uses: Vec<u8>,
}

impl Sums {
    fn new(trace: &Trace, terms: &[Cell], outputs: &[Flat]) -> Sums {
        let mut uses = vec![0u8; trace.nodes.len()];
        let mut count = |cell: Cell| {
            if let Cell::Element(node, _) = cell {
                let uses = &mut uses[node as usize];
                *uses = uses.saturating_add(1);
            }
        };
        for node in 0..trace.nodes.len() as NodeId {
            trace.operands(node).iter().for_each(|o| o.cells().for_each(&mut count));
        }
        terms.iter().copied().for_each(&mut count);
        // What is asked for must be there as it is.
        outputs.iter().flat_map(Flat::cells).for_each(|c| {
            count(c);
            count(c);
        });
        Sums { add: find("add").unwrap_or(u16::MAX), uses }
    }

    fn is_sum(&self, trace: &Trace, node: NodeId) -> bool {
        let node = &trace.nodes[node as usize];
        node.op == Op::Map(self.add) && node.len == 1
    }

    /// Whether a number is a sum that serves nothing else.
    fn is_inner(&self, trace: &Trace, cell: Cell) -> Option<NodeId> {
        match cell {
            Cell::Element(node, _) if self.uses[node as usize] == 1 && self.is_sum(trace, node) => Some(node),
            _ => None,
        }
    }

    /// Terms, with sums among them replaced by what they sum.
    fn flattened(&self, trace: &Trace, terms: &[Cell]) -> Vec<Cell> {
        let mut out = vec![];
        let mut stack: Vec<Cell> = terms.iter().rev().copied().collect();
        while let Some(cell) = stack.pop() {
            match self.is_inner(trace, cell) {
                Some(node) => stack.extend(trace.operands(node).iter().rev().map(|o| o.cell(0))),
                None => out.push(cell),
            }
        }
        out
    }

    /// The terms of a sum of sums; none if it is no such thing.
    fn terms(&self, trace: &Trace, node: NodeId) -> Option<Vec<Cell>> {
        if !self.is_sum(trace, node) {
            return None;
        }
        let operands: Vec<Cell> = trace.operands(node).iter().map(|o| o.cell(0)).collect();
        let any = operands.iter().any(|c| self.is_inner(trace, *c).is_some());
        any.then(|| self.flattened(trace, &operands))
    }
}

/// Visits the numbers that an operation uses.
fn visit(trace: &Trace, sums: &Sums, node: NodeId, mut f: impl FnMut(NodeId)) {
    if let Some(terms) = sums.terms(trace, node) {
        for cell in terms {
            if let Cell::Element(node, _) = cell {
                f(node);
            }
        }
        return;
    }
    for operand in trace.operands(node) {
        match operand {
            Flat::Part { node, .. } => f(*node),
            Flat::Cells(list) => list.iter().for_each(|c| {
                if let Cell::Element(node, _) = c {
                    f(*node);
                }
            }),
            _ => {}
        }
    }
}

/// How far each operation that is needed is from the parameters, and those operations by distance.
fn depths(trace: &Trace, sums: &Sums, terms: &[Cell], outputs: &[Flat]) -> (Vec<u32>, Vec<NodeId>) {
    let count = trace.nodes.len();
    let mut needed = vec![false; count];
    needed[0] = true;
    let wanted = sums.flattened(trace, terms).into_iter().chain(outputs.iter().flat_map(Flat::cells));
    for cell in wanted {
        if let Cell::Element(node, _) = cell {
            needed[node as usize] = true;
        }
    }
    for node in (0..count as NodeId).rev() {
        if needed[node as usize] {
            visit(trace, sums, node, |n| needed[n as usize] = true);
        }
    }
    let mut depths = vec![0; count];
    for node in 0..count as NodeId {
        if needed[node as usize] {
            let mut depth = 0;
            visit(trace, sums, node, |n| depth = depth.max(depths[n as usize] + 1));
            depths[node as usize] = depth;
        }
    }
    let mut order: Vec<NodeId> = (0..count as NodeId).filter(|&n| needed[n as usize]).collect();
    order.sort_by_key(|&n| depths[n as usize]);
    (depths, order)
}

/// What members of a group have in common.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    depth: u32,
    op: Op,
    len: u32,
    site: u32,
    lengths: Vec<u32>,
}

fn key(trace: &Trace, sums: &Sums, node: NodeId, depth: u32) -> Key {
    let Node { op, len, site, .. } = trace.nodes[node as usize];
    if let Some(terms) = sums.terms(trace, node) {
        return Key { depth, op: Op::Sum, len, site, lengths: vec![terms.len() as u32] };
    }
    Key { depth, op, len, site, lengths: trace.operands(node).iter().map(|o| o.len() as u32).collect() }
}

/// The group of some operations.
fn gather(trace: &Trace, sums: &Sums, members: &[NodeId], places: &Places) -> Group {
    let first = &trace.nodes[members[0] as usize];
    let op = if sums.terms(trace, members[0]).is_some() { Op::Sum } else { first.op };
    let (len, count) = (first.len as usize, members.len());
    // A sum of sums among members is one sum of all their terms.
    let of = |member: NodeId, i: usize| match sums.terms(trace, member) {
        Some(terms) => Flat::Cells(Arc::new(terms)),
        None => trace.operands(member)[i].clone(),
    };
    let operand = |i: usize| {
        let one = of(members[0], i);
        let sources = |flat: &Flat| flat.cells().map(|c| places.source(c)).collect::<Vec<_>>();
        if members.iter().all(|&m| of(m, i).is_same(&one)) {
            return Operand::Shared(sources(&one));
        }
        Operand::Each(members.iter().flat_map(|&m| sources(&of(m, i))).collect())
    };
    let operands = if op == Op::Sum { 1 } else { trace.operands(members[0]).len() };
    Group { op, len, members: count, site: first.site, operands: (0..operands).map(operand).collect() }
}

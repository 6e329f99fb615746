//! Linear predictors: groups whose numbers are sums of the same few others with known coefficients.
//!
//! `alpha + beta[1] * x1 + beta[2] * x2`, written with vectors or in a loop, is one product with a design matrix, and so is
//! its derivative. Written out it would be a pass over the data for each coefficient, and one more for each derivative.

use super::plan::{Group, Operand, Source};
use super::roll::Step;
use super::{Op, find};
use std::collections::HashMap;

/// Fewest and most numbers that a product is worth for.
const FEWEST: usize = 3;
const MOST: usize = 64;
/// Fewest sums.
const LEAST: usize = 16;
/// Terms that are kept in all.
const TERMS: usize = 4_000_000;

/// What a group gives as a product: `bases` times `matrix`, `[bases, n]`, plus what is known.
#[derive(Clone, Debug)]
pub struct Linear {
    pub bases: Vec<Source>,
    pub matrix: Vec<f64>,
    pub constant: Vec<f64>,
}

/// A sum of numbers with coefficients, and a number.
#[derive(Clone, Default)]
struct Form {
    terms: Vec<((u32, u32), f64)>,
    constant: f64,
}

impl Form {
    fn add(&mut self, other: &Form, factor: f64) {
        self.constant += factor * other.constant;
        for (base, coefficient) in &other.terms {
            match self.terms.iter_mut().find(|(b, _)| b == base) {
                Some((_, c)) => *c += factor * coefficient,
                None => self.terms.push((*base, factor * coefficient)),
            }
        }
    }

    fn number(&self) -> Option<f64> {
        self.terms.is_empty().then_some(self.constant)
    }
}

/// Which elementwise functions keep a sum a sum.
struct Names {
    add: u16,
    subtract: u16,
    minus: u16,
    multiply: u16,
    divide: u16,
}

/// For each row of numbers that some steps give: the product that it is, if that is worth it.
pub fn products(steps: &[Step]) -> Vec<Option<Linear>> {
    let name = |name: &str| find(name).unwrap_or(u16::MAX);
    let names = Names {
        add: name("add"),
        subtract: name("subtract"),
        minus: name("minus"),
        multiply: name("elt_multiply"),
        divide: name("elt_divide"),
    };
    let mut forms: Vec<Option<Vec<Form>>> = vec![];
    let mut left = TERMS;
    for step in steps {
        match step {
            Step::Group(group) => {
                let found = group_forms(group, &forms, &names);
                let found = found.filter(|list| {
                    let count = list.iter().map(|f| f.terms.len()).sum::<usize>();
                    let is_kept = count <= left;
                    left -= if is_kept { count } else { 0 };
                    is_kept
                });
                forms.push(found);
            }
            Step::Loop(found) => forms.extend(found.kept.iter().map(|_| None)),
        }
    }
    forms.into_iter().map(|list| product(&list?)).collect()
}

/// The product, if every sum has the same bases.
fn product(list: &[Form]) -> Option<Linear> {
    let count = list.first()?.terms.len();
    if !(FEWEST..=MOST).contains(&count) || list.len() < LEAST || list.iter().any(|f| f.terms.len() != count) {
        return None;
    }
    let order: HashMap<(u32, u32), usize> = list[0].terms.iter().enumerate().map(|(k, (b, _))| (*b, k)).collect();
    let mut matrix = vec![0.0; count * list.len()];
    for (i, form) in list.iter().enumerate() {
        for (base, coefficient) in &form.terms {
            matrix[order.get(base)? * list.len() + i] = *coefficient;
        }
    }
    let bases = list[0].terms.iter().map(|((group, place), _)| Source::Place { group: *group, place: *place });
    Some(Linear { bases: bases.collect(), matrix, constant: list.iter().map(|f| f.constant).collect() })
}

/// An operand's number for an element of a member.
fn source(operand: &Operand, members: usize, member: usize, i: usize) -> Source {
    match operand {
        Operand::Shared(list) => list[if list.len() == 1 { 0 } else { i }],
        Operand::Each(list) => {
            let each = list.len() / members;
            list[member * each + if each == 1 { 0 } else { i }]
        }
    }
}

fn form(source: Source, forms: &[Option<Vec<Form>>]) -> Form {
    match source {
        Source::Number(x) => Form { terms: vec![], constant: x },
        Source::Place { group, place } => match &forms[group as usize] {
            Some(list) => list[place as usize].clone(),
            None => Form { terms: vec![((group, place), 1.0)], constant: 0.0 },
        },
    }
}

/// What each number of a group is a sum of; none if one is not, or of too many.
fn group_forms(group: &Group, forms: &[Option<Vec<Form>>], names: &Names) -> Option<Vec<Form>> {
    let (members, len) = (group.members, group.len);
    let at = |k: usize, m: usize, i: usize| form(source(&group.operands[k], members, m, i), forms);
    let mut list = Vec::with_capacity(members * len);
    for m in 0..members {
        for i in 0..len {
            let mut sum = Form::default();
            match group.op {
                Op::Map(f) if f == names.add || f == names.subtract => {
                    sum = at(0, m, i);
                    sum.add(&at(1, m, i), if f == names.add { 1.0 } else { -1.0 });
                }
                Op::Map(f) if f == names.minus => sum.add(&at(0, m, i), -1.0),
                Op::Map(f) if f == names.multiply => {
                    let (a, b) = (at(0, m, i), at(1, m, i));
                    match (a.number(), b.number()) {
                        (_, Some(x)) => sum.add(&a, x),
                        (Some(x), _) => sum.add(&b, x),
                        _ => return None,
                    }
                }
                Op::Map(f) if f == names.divide => {
                    let x = at(1, m, i).number()?;
                    sum.add(&at(0, m, i), 1.0 / x);
                }
                Op::Sum => {
                    let sources = group.operands[0].sources();
                    let each = match &group.operands[0] {
                        Operand::Shared(list) => list.as_slice(),
                        Operand::Each(_) => sources.chunks(sources.len() / members).nth(m)?,
                    };
                    if each.len() > MOST {
                        return None;
                    }
                    each.iter().for_each(|s| sum.add(&form(*s, forms), 1.0));
                }
                Op::Product { rows: _, inner, cols } if inner as usize <= MOST => {
                    let (inner, cols) = (inner as usize, cols as usize);
                    let (row, col) = (i / cols, i % cols);
                    for k in 0..inner {
                        let a = at_place(&group.operands[0], members, m, row * inner + k, forms).number()?;
                        sum.add(&at_place(&group.operands[1], members, m, k * cols + col, forms), a);
                    }
                }
                _ => return None,
            }
            if sum.terms.len() > MOST || !sum.constant.is_finite() || sum.terms.iter().any(|(_, c)| !c.is_finite()) {
                return None;
            }
            list.push(sum);
        }
    }
    Some(list)
}

/// A number of an operand that is a matrix.
fn at_place(operand: &Operand, members: usize, member: usize, place: usize, forms: &[Option<Vec<Form>>]) -> Form {
    match operand {
        Operand::Shared(list) => form(list[place], forms),
        Operand::Each(list) => form(list[member * (list.len() / members) + place], forms),
    }
}

//! The columns and rows of a frame that a formula uses, and what stands on its left side.

use super::design::{Design, Products};
use super::family::Family;
use super::formula::{Formula, Kind, Node, Terms, parts};
use super::frame::{self, Frame};
use super::model::Rows;
use super::{Missing, Options, arithmetic, listed};
use crate::bayesian_model::DataDigest;
use crate::error::Result;
use crate::model::Builder;
use mcvi_expr::{Array, Expr};
use std::borrow::Cow;
use std::ops::{Deref, Range};

/// Numbers row by row, shared with the programs made of them: all rows, or those of the parts of a sum that are held here.
#[derive(Clone, Debug)]
pub(super) struct Matrix {
    held: Option<Array>,
    /// Where sums over rows are divided: the first row that is held here, and how many there are.
    divided: Option<(usize, usize)>,
}

impl Matrix {
    /// In rows of this many columns; there may be none.
    pub fn new(columns: usize, values: Vec<f64>) -> Self {
        let rows = values.len().checked_div(columns).unwrap_or(0);
        Matrix { held: Array::new([rows, columns], values).ok(), divided: None }
    }

    /// As a constant of a model; none if there are no columns.
    pub fn constant<'g>(&self, m: &Builder<'g>) -> Option<Expr<'g>> {
        let held = self.held.as_ref()?;
        Some(match self.divided {
            Some((first, total)) => m.rows_of(held, first, total),
            None => m.array(held),
        })
    }
}

/// What is held here.
impl Deref for Matrix {
    type Target = [f64];

    fn deref(&self) -> &[f64] {
        self.held.as_ref().and_then(Array::as_slice).unwrap_or_default()
    }
}

/// What is learned of the columns of the design while they are made.
pub(super) struct Made<'a> {
    /// The rows to be kept, if sums over rows are divided.
    pub held: Option<Range<usize>>,
    pub digest: &'a mut DataDigest,
    pub products: &'a mut Products,
}

impl Made<'_> {
    /// The standardised columns, of which no more than the rows to be kept are ever there at once.
    pub fn matrix(self, design: &Design, frame: &Frame) -> Result<Matrix> {
        let k = design.columns.len();
        let kept = self.held.clone().unwrap_or(0..frame.len());
        let mut values = Vec::with_capacity(kept.len() * k);
        self.digest.begin("design", frame.len() * k);
        for block in design.standardised_blocks(frame) {
            let (rows, x) = block?;
            self.digest.extend(&x);
            self.products.add(&x);
            let own = rows.start.max(kept.start)..rows.end.min(kept.end);
            if !own.is_empty() {
                values.extend_from_slice(&x[(own.start - rows.start) * k..(own.end - rows.start) * k]);
            }
        }
        Ok(Matrix { divided: self.held.map(|held| (held.start, frame.len())), ..Matrix::new(k, values) })
    }
}

/// The left side of a formula.
pub(super) struct Left {
    pub response: Node,
    pub trials: Option<Node>,
    pub weights: Option<Node>,
}

impl Left {
    pub fn of(formula: &Formula, options: &Options) -> Result<Self> {
        let (response, parts) = parts(formula)?;
        let part = |name: &str| parts.iter().find(|p| p.name == name).map(|p| p.value.clone());
        let named = |name: &String| Node { kind: Kind::Name(name.clone()), span: 0..0 };
        let weights = part("weights").or_else(|| options.weights.as_ref().map(named));
        let trials = part("trials");
        let is_binomial = options.family == Family::Binomial;
        if trials.is_some() != is_binomial {
            let what = if is_binomial {
                "a binomial response needs its numbers of trials: successes | trials(n) ~ …"
            } else {
                "trials are for the family binomial"
            };
            return Err(formula.at(formula.sides().0, what));
        }
        Ok(Left { response, trials, weights })
    }

    /// The right side: `.` are all columns that have no part elsewhere.
    pub fn terms(&self, formula: &Formula, frame: &Frame) -> Result<Terms> {
        let mut taken = self.columns(&Terms::default());
        let apart = Terms::of(formula, &[])?;
        apart.offsets.iter().chain(apart.groups.iter().flat_map(|g| &g.by)).for_each(|node| node.columns(&mut taken));
        let others: Vec<String> =
            frame.columns().filter(|c| !taken.iter().any(|t| t == c)).map(str::to_owned).collect();
        if let Some(dot) = formula.sides().1.dot().filter(|_| others.is_empty()) {
            return Err(formula.at(dot, "there are no other columns; add columns to predict it from"));
        }
        Terms::of(formula, &others)
    }

    /// All columns that are used.
    pub fn columns(&self, terms: &Terms) -> Vec<String> {
        let mut names = vec![];
        let own = [Some(&self.response), self.trials.as_ref(), self.weights.as_ref()];
        own.into_iter().flatten().for_each(|node| node.columns(&mut names));
        terms.columns().into_iter().for_each(|c| {
            if !names.contains(&c) {
                names.push(c);
            }
        });
        names
    }

    /// The rows of a frame without their columns and groups.
    pub fn rows(&self, formula: &Formula, (frame, offsets): (&Frame, &[Node]), y: Vec<f64>) -> Result<Rows> {
        let numbers =
            |node: &Option<Node>| node.as_ref().map(|node| arithmetic::evaluate(formula, node, frame)).transpose();
        let (trials, weights) = (numbers(&self.trials)?, numbers(&self.weights)?);
        let refuse = |values: &Option<Vec<f64>>, bad: &dyn Fn(usize, f64) -> bool, what: &str| {
            let values = values.as_deref().unwrap_or_default();
            let rows: Vec<usize> = (0..values.len()).filter(|row| bad(*row, values[*row])).collect();
            match rows.first() {
                None => Ok(()),
                Some(row) => {
                    Err(frame.mistake(format!("{what}, not {} {}", values[*row], frame::places(frame, &rows))))
                }
            }
        };
        refuse(&weights, &|_, w| w < 0.0, "weights are numbers of at least 0")?;
        let few = |row: usize, n: f64| n < 1.0 || n.fract() != 0.0 || y.get(row).is_some_and(|y| *y > n);
        refuse(&trials, &few, "trials are whole numbers, at least 1 and at least the successes")?;
        let mut offset: Option<Vec<f64>> = None;
        for node in offsets {
            let one = arithmetic::evaluate(formula, node, frame)?;
            offset = Some(offset.map_or(one.clone(), |sum| sum.iter().zip(&one).map(|(a, b)| a + b).collect()));
        }
        Ok(Rows { count: frame.len(), x: Matrix::new(0, vec![]), y, trials, weights, offset, groups: vec![] })
    }
}

/// The rows without missing values in these columns.
pub(super) fn complete<'a>(
    frame: &'a Frame,
    columns: &[String],
    missing: Missing,
    notes: &mut Vec<String>,
) -> Result<Cow<'a, Frame>> {
    let gaps = frame.missing(columns)?;
    let kept: Vec<usize> = (0..frame.len()).filter(|row| !gaps.contains_key(row)).collect();
    if !gaps.is_empty() {
        let count = |c: &str| gaps.values().filter(|in_row| in_row.contains(&c)).count();
        let counts =
            columns.iter().map(|c| (c, count(c))).filter(|(_, n)| *n > 0).map(|(c, n)| format!("{n} in `{c}`"));
        let (rows, counts) = (gaps.keys().copied().collect::<Vec<_>>(), listed(counts, 10));
        match missing {
            Missing::Refuse => {
                let what = format!(
                    "values are missing in {} of {} rows {}: {counts}; fill them in, or leave those rows out with \
                     --missing drop",
                    rows.len(),
                    frame.len(),
                    frame::places(frame, &rows)
                );
                return Err(frame.mistake(what));
            }
            Missing::Drop => notes.push(format!(
                "{} of {} rows are left out, where values are missing: {counts}",
                rows.len(),
                frame.len()
            )),
        }
    }
    match kept.len() {
        0 if frame.is_empty() => Err(frame.mistake("has no rows; add rows of data")),
        0 => Err(frame.mistake("no row is left where values are missing; leave out a column, or fill values in")),
        1 => Err(frame.mistake(format!("{} is the only row of data; at least two are needed", frame.place(kept[0])))),
        _ if gaps.is_empty() => Ok(Cow::Borrowed(frame)),
        _ => Ok(Cow::Owned(frame.rows(&kept))),
    }
}

//! Coefficients that differ from group to group: which rows belong to which group, and what is multiplied by them.

use super::column::Coded;
use super::design::{Coding, Design};
use super::formula::{Formula, GroupTerm, Term};
use super::frame::Frame;
use super::names::word;
use super::table::shown;
use super::variable::sorted;
use crate::error::Result;
use std::collections::HashMap;

/// Groups, and the coefficients that differ between them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Groups {
    /// The columns that tell groups apart.
    by: Vec<String>,
    /// As in the formula: `county`, `batch:cask`.
    pub label: String,
    /// The same for names of quantities.
    pub word: String,
    pub levels: Vec<String>,
    intercept: bool,
    design: Design,
    /// What differs: the intercept first, if it does.
    pub columns: Vec<GroupColumn>,
}

/// A coefficient that differs from group to group.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct GroupColumn {
    pub label: String,
    pub word: String,
    /// What the values are divided by.
    pub sd: f64,
}

/// The rows of some data.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct GroupRows {
    /// Which group each row belongs to; groups that were not fitted come after those that were.
    pub index: Vec<usize>,
    /// What each coefficient is multiplied by, divided by its unit; none for an intercept.
    pub values: Vec<Option<Vec<f64>>>,
    /// The groups that were not fitted.
    pub new: Vec<String>,
}

impl Groups {
    /// Learn the groups of a term; uncorrelated coefficients have a term each.
    pub fn learn(formula: &Formula, term: &GroupTerm, frame: &Frame) -> Result<Vec<Self>> {
        if term.correlated {
            return Ok(vec![Groups::one(formula, term, (term.intercept, &term.terms), frame)?]);
        }
        let intercept = term.intercept.then(|| Groups::one(formula, term, (true, &[]), frame));
        let slopes = term.terms.iter().map(|t| {
            let mut slope = Groups::one(formula, term, (false, std::slice::from_ref(t)), frame)?;
            // What is compared with is there already.
            if term.intercept {
                let only = std::slice::from_ref(t);
                slope.design = Design::learn(formula, only, frame, &Coding { intercept: true, centred: false })?;
                slope.columns = columns(false, &slope.design);
            }
            Ok(slope)
        });
        intercept.into_iter().chain(slopes).collect()
    }

    fn one(formula: &Formula, term: &GroupTerm, (intercept, terms): (bool, &[Term]), frame: &Frame) -> Result<Self> {
        let by: Vec<String> = term.by.iter().filter_map(|n| n.name().map(str::to_owned)).collect();
        let design = Design::learn(formula, terms, frame, &Coding { intercept, centred: false })?;
        let label = by.join(":");
        let levels = sorted(members(&by, frame)?.different);
        if let [only] = levels.as_slice() {
            let what =
                format!("`{label}` is `{}` in every row, so that there is one group; drop the term", shown(only));
            return Err(formula.at(&term.node, what));
        }
        let columns = columns(intercept, &design);
        let words: Vec<String> = by.iter().map(|b| word(b)).collect();
        Ok(Groups { label, word: words.join("."), levels, intercept, design, columns, by })
    }

    /// The rows of some data.
    pub fn rows(&self, frame: &Frame) -> Result<GroupRows> {
        let known: HashMap<&str, usize> = self.levels.iter().enumerate().map(|(i, l)| (l.as_str(), i)).collect();
        let Coded { different, codes } = members(&self.by, frame)?;
        let new = sorted(different.iter().filter(|m| !known.contains_key(m.as_str())).cloned().collect());
        let place = |m: &String| {
            known.get(m.as_str()).copied().unwrap_or_else(|| known.len() + new.iter().position(|n| n == m).unwrap_or(0))
        };
        let places: Vec<usize> = different.iter().map(place).collect();
        let index = codes.iter().map(|code| places[*code as usize]).collect();
        let raw = self.design.raw(frame)?;
        let slopes = raw.into_iter().zip(&self.columns[usize::from(self.intercept)..]);
        let slopes = slopes.map(|(raw, c)| Some(raw.values.iter().map(|x| x / c.sd).collect()));
        Ok(GroupRows { index, values: self.intercept.then_some(None).into_iter().chain(slopes).collect(), new })
    }
}

fn columns(intercept: bool, design: &Design) -> Vec<GroupColumn> {
    let one = intercept.then(|| GroupColumn { label: "intercept".to_owned(), word: "intercept".to_owned(), sd: 1.0 });
    let slope =
        |c: &super::design::DesignColumn| GroupColumn { label: c.label.clone(), word: c.word.clone(), sd: c.scale.sd };
    one.into_iter().chain(design.columns.iter().map(slope)).collect()
}

/// The names of the groups, and which of them each row belongs to.
fn members(by: &[String], frame: &Frame) -> Result<Coded> {
    let columns: Vec<Coded> = by.iter().map(|name| Ok(frame.find(name)?.coded())).collect::<Result<_>>()?;
    let mut columns = columns.into_iter();
    let first = columns.next().unwrap_or_else(|| Coded { different: vec![String::new()], codes: vec![0; frame.len()] });
    Ok(columns.fold(first, |a, b| a.crossed(&b)))
}

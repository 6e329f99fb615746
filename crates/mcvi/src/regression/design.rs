//! The columns that the terms of a formula become, standardised; new data get the same columns.

use super::Scale;
use super::formula::{Formula, Term};
use super::frame::Frame;
use super::names::Names;
use super::table::shown;
use super::variable::{Variable, VariableColumn};
use crate::error::Result;
use nalgebra::DMatrix;
use std::ops::Range;

/// Rows of which columns are made at once.
const BLOCK: usize = 8192;

/// A column that is, but for this share of its variance, a linear combination of others depends on them.
const DEPENDENT: f64 = 1e-9;

/// A column of the design.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DesignColumn {
    /// As in the formula: `x1`, `city=Oslo`, `x1:x2`.
    pub label: String,
    /// For names of quantities: `x1`, `city_Oslo`, `x1.x2`.
    pub word: String,
    /// What its coefficient is called.
    pub name: String,
    /// Its mean (or 0, where there is no intercept to take it up) and standard deviation.
    pub scale: Scale,
}

/// How terms become columns.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Design {
    formula: Formula,
    variables: Vec<Variable>,
    /// For each term its variables, and whether all levels of a categorical one have a column.
    terms: Vec<Vec<(usize, bool)>>,
    pub columns: Vec<DesignColumn>,
}

/// What decides how columns are made.
pub(super) struct Coding {
    /// Whether there is an intercept, so that a first level needs no column.
    pub intercept: bool,
    /// Whether means are subtracted.
    pub centred: bool,
}

impl Design {
    /// Learn from the data how terms become columns.
    pub fn learn(formula: &Formula, terms: &[Term], frame: &Frame, coding: &Coding) -> Result<Self> {
        let mut design = Design { formula: formula.clone(), variables: vec![], terms: vec![], columns: vec![] };
        let label = |term: &[usize]| {
            let mut sorted = term.to_vec();
            sorted.sort_unstable();
            sorted
        };
        let mut plain = vec![];
        for term in terms {
            let mut parts = vec![];
            for node in term {
                let known = design.variables.iter().position(|v| v.label() == node.to_string());
                parts.push(match known {
                    Some(i) => i,
                    None => {
                        design.variables.push(Variable::learn(formula, node, frame)?);
                        design.variables.len() - 1
                    }
                });
            }
            plain.push(parts);
        }
        let there: Vec<Vec<usize>> = plain.iter().map(|t| label(t)).collect();
        for term in &plain {
            // A level is left out where the term without its variable is in the model: there it is compared with.
            let all_levels = |i: usize| {
                let rest: Vec<usize> = term.iter().copied().filter(|v| *v != i).collect();
                if rest.is_empty() { !coding.intercept } else { !there.contains(&label(&rest)) }
            };
            // Without an intercept only the first of several categorical variables has all its levels.
            let taken = |i: usize| {
                let alone = term.len() == 1 && design.variables[i].is_categorical();
                let before =
                    |t: &&Vec<(usize, bool)>| t.len() == 1 && t[0].1 && design.variables[t[0].0].is_categorical();
                alone && design.terms.iter().any(|t| before(&t))
            };
            let coded = term.iter().map(|i| (*i, all_levels(*i) && !taken(*i))).collect();
            design.terms.push(coded);
        }
        for (VariableColumn { label, word, values }, moments) in design.moments(frame)? {
            let scale = match moments.scale(frame.len()) {
                Some(scale) if coding.centred => scale,
                Some(scale) => Scale { mean: 0.0, ..scale },
                None if moments.constant && label.contains(':') => Scale { mean: 0.0, sd: 1.0 },
                None if moments.constant => {
                    let value = shown(&values[0].to_string());
                    return Err(frame.mistake(format!("column `{label}` is `{value}` in every row; drop it")));
                }
                None => {
                    let why = "its values are too large, or too close together, to be standardised; change its unit";
                    return Err(frame.mistake(format!("column `{label}`: {why}")));
                }
            };
            design.columns.push(DesignColumn { name: String::new(), label, word, scale });
        }
        Ok(design)
    }

    /// Give the columns names that are not taken, and say what is coded how.
    pub fn name(&mut self, names: &mut Names, prefix: &str, notes: &mut Vec<String>) {
        let mut renamed = vec![];
        for column in &mut self.columns {
            column.name = names.free(&format!("{prefix}{}", column.word));
            let is_said = column.label.contains('=') && !column.label.contains(':');
            if !is_said && column.name != format!("{prefix}{}", column.label.replace(':', ".")) {
                renamed.push(format!("`{}` of `{}`", column.name, column.label));
            }
        }
        for variable in self.variables.iter().filter(|v| v.is_plain()) {
            let Some(reference) = variable.reference() else { continue };
            let label = variable.label();
            let own = |c: &&DesignColumn| {
                c.label.strip_prefix(&label).is_some_and(|rest| rest.starts_with('=') && !rest.contains(':'))
            };
            let coded: Vec<String> =
                self.columns.iter().filter(own).map(|c| format!("`{}` of `{}`", c.name, shown(&c.label))).collect();
            let compared = self.columns.iter().all(|c| c.label != format!("{label}={reference}"));
            let against = if compared { format!(", compared with `{}`", shown(reference)) } else { String::new() };
            notes.push(format!("`{label}` is categorical{against}: {}", super::listed(coded.into_iter(), 20)));
        }
        if !renamed.is_empty() {
            notes.push(format!("coefficients: {}", super::listed(renamed.into_iter(), 20)));
        }
    }

    /// The columns of some data.
    pub fn raw(&self, frame: &Frame) -> Result<Vec<VariableColumn>> {
        let made: Vec<Vec<VariableColumn>> =
            self.variables.iter().map(|v| v.columns(&self.formula, frame)).collect::<Result<_>>()?;
        let mut columns = vec![];
        for term in &self.terms {
            let mut product =
                vec![VariableColumn { label: String::new(), word: String::new(), values: vec![1.0; frame.len()] }];
            for (i, all_levels) in term {
                let skip = usize::from(self.variables[*i].is_categorical() && !all_levels);
                // The first variable varies fastest, as in R.
                product = made[*i][skip..].iter().flat_map(|b| product.iter().map(move |a| a.times(b))).collect();
            }
            columns.extend(product);
        }
        Ok(columns)
    }

    /// The mean and the squares of every column, with how it begins.
    fn moments(&self, frame: &Frame) -> Result<Vec<(VariableColumn, Moments)>> {
        let mut all: Vec<(VariableColumn, Moments)> = vec![];
        for block in self.blocks(frame) {
            let (_, columns) = block?;
            if all.is_empty() {
                all = columns.iter().map(|c| (c.clone(), Moments { sum: 0.0, squares: 0.0, constant: true })).collect();
            }
            for ((first, moments), column) in all.iter_mut().zip(&columns) {
                column.values.iter().for_each(|x| moments.sum += x);
                moments.constant &= column.values.iter().all(|x| *x == first.values[0]);
            }
        }
        let means: Vec<f64> = all.iter().map(|(_, moments)| moments.sum / frame.len() as f64).collect();
        for block in self.blocks(frame) {
            for (((_, moments), mean), column) in all.iter_mut().zip(&means).zip(block?.1) {
                column.values.iter().for_each(|x| moments.squares += (x - mean).powi(2));
            }
        }
        Ok(all)
    }

    /// The columns of the data this was learned from, some rows at a time: all of them would take as much memory as the data.
    fn blocks<'a>(
        &'a self,
        frame: &'a Frame,
    ) -> impl Iterator<Item = Result<(Range<usize>, Vec<VariableColumn>)>> + 'a {
        let mut names = vec![];
        self.variables.iter().for_each(|v| v.uses(&mut names));
        let rows = if self.terms.is_empty() { 0 } else { frame.len() };
        (0..rows).step_by(BLOCK).map(move |from| {
            let block = from..(from + BLOCK).min(rows);
            Ok((block.clone(), self.raw(&frame.slice(&names, block))?))
        })
    }

    /// The same, standardised, row by row.
    pub fn standardised_blocks<'a>(
        &'a self,
        frame: &'a Frame,
    ) -> impl Iterator<Item = Result<(Range<usize>, Vec<f64>)>> + 'a {
        self.blocks(frame).map(|block| block.map(|(rows, columns)| (rows, self.standardise(&columns))))
    }

    /// The columns of some data, standardised as those it was learned from, row by row.
    pub fn standardised(&self, frame: &Frame) -> Result<Vec<f64>> {
        Ok(self.standardise(&self.raw(frame)?))
    }

    fn standardise(&self, raw: &[VariableColumn]) -> Vec<f64> {
        let rows = raw.first().map_or(0, |c| c.values.len());
        let columns = || raw.iter().zip(&self.columns);
        (0..rows).flat_map(|row| columns().map(move |(raw, c)| c.scale.standardise(raw.values[row]))).collect()
    }

    /// Columns that are linear combinations of those before them.
    pub fn dependent(&self, products: &Products) -> Vec<&str> {
        let (k, mut left) = (self.columns.len(), products.0.clone());
        let first: Vec<f64> = left.diagonal().iter().copied().collect();
        let mut dependent = vec![];
        for j in 0..k {
            let pivot = left[(j, j)];
            if pivot <= DEPENDENT * first[j] {
                dependent.push(self.columns[j].label.as_str());
                continue;
            }
            for i in j + 1..k {
                let share = left[(i, j)] / pivot;
                for l in i..k {
                    left[(l, i)] -= share * left[(l, j)];
                }
            }
        }
        dependent
    }
}

/// Sums over the values of a column.
struct Moments {
    sum: f64,
    /// Of what is left without the mean.
    squares: f64,
    constant: bool,
}

impl Moments {
    fn scale(&self, rows: usize) -> Option<Scale> {
        Scale::checked(self.sum / rows as f64, (self.squares / (rows as f64 - 1.0)).sqrt())
    }
}

/// The products of every two standardised columns, summed over rows.
pub(super) struct Products(DMatrix<f64>);

impl Products {
    pub fn new(columns: usize) -> Self {
        Products(DMatrix::zeros(columns, columns))
    }

    /// Add some rows.
    pub fn add(&mut self, standardised: &[f64]) {
        let k = self.0.ncols();
        let x = DMatrix::from_row_slice(standardised.len().checked_div(k).unwrap_or(0), k, standardised);
        self.0.gemm_tr(1.0, &x, &x, 1.0);
    }
}

impl VariableColumn {
    fn times(&self, other: &VariableColumn) -> VariableColumn {
        if self.label.is_empty() {
            return other.clone();
        }
        let values = self.values.iter().zip(&other.values).map(|(a, b)| a * b).collect();
        let (label, word) = (format!("{}:{}", self.label, other.label), format!("{}.{}", self.word, other.word));
        VariableColumn { label, word, values }
    }
}

#[cfg(test)]
mod tests {
    use super::super::formula::Terms;
    use super::*;

    fn data() -> Frame {
        let sites = ["Oslo", "Rome", "Paris", "Rome", "Oslo", "Paris"].map(Some);
        let arms = ["a", "b", "a", "a", "b", "b"].map(Some);
        let frame = Frame::new().numbers("x", vec![1.0, 2.0, 3.0, 6.0, 5.0, 9.0]).expect("numbers");
        frame.texts("site", sites).and_then(|f| f.texts("arm", arms)).expect("texts")
    }

    fn design(text: &str) -> Design {
        let formula = Formula::parse(text).expect("a formula");
        let terms = Terms::of(&formula, &[]).expect("terms");
        let coding = Coding { intercept: terms.intercept, centred: terms.intercept };
        Design::learn(&formula, &terms.terms, &data(), &coding).unwrap_or_else(|e| panic!("{e}"))
    }

    fn labels(text: &str) -> String {
        design(text).columns.iter().map(|c| c.label.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn categories_are_coded_as_in_r() {
        assert_eq!(labels("y ~ x + site"), "x site=Paris site=Rome");
        assert_eq!(labels("y ~ 0 + site"), "site=Oslo site=Paris site=Rome");
        assert_eq!(labels("y ~ 0 + site + arm"), "site=Oslo site=Paris site=Rome arm=b");
        assert_eq!(labels("y ~ x * arm"), "x arm=b x:arm=b");
        assert_eq!(labels("y ~ x:arm"), "x:arm=a x:arm=b");
        assert_eq!(labels("y ~ arm + x:arm"), "arm=b x:arm=a x:arm=b");
        assert_eq!(labels("y ~ x + x:arm"), "x x:arm=b");
        assert_eq!(
            labels("y ~ site:arm"),
            "site=Oslo:arm=a site=Paris:arm=a site=Rome:arm=a site=Oslo:arm=b site=Paris:arm=b site=Rome:arm=b"
        );
        assert_eq!(
            labels("y ~ site + site:arm"),
            "site=Paris site=Rome site=Oslo:arm=b site=Paris:arm=b site=Rome:arm=b"
        );
    }

    #[test]
    fn columns_are_standardised_where_there_is_an_intercept() {
        let d = design("y ~ x * arm");
        let s = d.standardised(&data()).expect("columns");
        for j in 0..3 {
            let column: Vec<f64> = s.iter().skip(j).step_by(3).copied().collect();
            let scale = Scale::of(&column).expect("a scale");
            assert!(scale.mean.abs() < 1e-15 && (scale.sd - 1.0).abs() < 1e-15, "{scale:?}");
        }
        let without = design("y ~ 0 + x");
        assert_eq!(without.columns[0].scale.mean, 0.0);
        assert_eq!(without.standardised(&data()).expect("columns")[0], 1.0 / without.columns[0].scale.sd);
    }

    #[test]
    fn dependent_columns_are_found() {
        let frame = data();
        let of = |text: &str| {
            let d = design(text);
            let s = d.standardised(&frame).expect("columns");
            let mut products = Products::new(d.columns.len());
            s.chunks(2 * d.columns.len()).for_each(|rows| products.add(rows));
            d.dependent(&products).into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(of("y ~ x + I(2 * x - 1) + arm"), ["I(2 * x - 1)"]);
        assert!(of("y ~ x * arm + site").is_empty());
        assert_eq!(of("y ~ site + factor(site) + x"), ["site=Paris", "site=Rome"]);
    }
}

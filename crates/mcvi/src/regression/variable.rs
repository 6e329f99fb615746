//! Variables of a formula: the columns each becomes, with what was learned from the data so that new data get the same.

use super::arithmetic::{evaluate, is_function};
use super::column::Coded;
use super::formula::{Argument, Formula, Kind, Node};
use super::frame::{Frame, places};
use super::names::{nearest, word};
use super::table::shown;
use super::{Scale, listed};
use crate::error::Result;

/// Maximum number of levels of a categorical column with coefficients of their own.
const LEVELS: usize = 50;
/// So many levels that are numbers but for signs are no categories.
const NUMBERS: usize = 10;
/// Maximum degree of a polynomial.
const DEGREE: usize = 15;
/// Maximum number of columns of a spline.
const SPLINE: usize = 100;
/// Functions that depend on the data as a whole.
const LEARNED: [&str; 6] = ["factor", "poly", "scale", "center", "bs", "log"];

/// A variable: how its columns are made of data.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Variable {
    node: Node,
    basis: Basis,
}

#[derive(Clone, Debug, PartialEq)]
enum Basis {
    /// A number.
    Number,
    /// Categories: an indicator of each level, but perhaps the first.
    Levels { column: String, levels: Vec<String> },
    /// Minus a mean, divided by a standard deviation.
    Scaled { of: Node, scale: Scale },
    /// Powers; or polynomials that are orthonormal on the data they were learned from: in `(x − mean)/sd`, Z₀ = 1 and
    /// Z_{i+1} = (x − alpha_i) Z_i − (norm_i/norm_{i−1}) Z_{i−1}.
    Polynomials { of: Node, scale: Scale, recursion: Option<Recursion>, degree: usize },
    /// B-splines with these knots, but the first of them.
    Splines { of: Node, knots: Vec<f64>, degree: usize },
}

#[derive(Clone, Debug, PartialEq)]
struct Recursion {
    alpha: Vec<f64>,
    norm: Vec<f64>,
}

/// A column of a variable.
#[derive(Clone)]
pub(super) struct VariableColumn {
    /// What it is called: `x`, `city=Oslo`, `poly(x, 2)1`.
    pub label: String,
    /// The same in letters, digits and underscores; those of several variables are joined by dots.
    pub word: String,
    pub values: Vec<f64>,
}

impl VariableColumn {
    fn new(label: String, values: Vec<f64>) -> Self {
        VariableColumn { word: word(&label), label, values }
    }
}

impl Variable {
    /// Learn from the data how a variable becomes columns.
    pub fn learn(formula: &Formula, node: &Node, frame: &Frame) -> Result<Self> {
        let basis = match &node.kind {
            Kind::Name(name) if frame.find(name)?.is_categorical(frame)? => {
                let levels = sorted(frame.find(name)?.coded().different);
                if levels.len() > NUMBERS && levels.iter().all(|level| is_nearly_number(level)) {
                    let what = format!(
                        "column `{name}` has {} levels that are numbers but for signs, such as `{}`; remove these, or write \
                         factor({name}) for categories",
                        levels.len(),
                        shown(&levels[0])
                    );
                    return Err(frame.mistake(what));
                }
                Variable::levels(name, frame)?
            }
            Kind::Call(name, arguments) if LEARNED.contains(&name.as_str()) && name != "log" => {
                Variable::learned(formula, node, (name, arguments), frame)?
            }
            Kind::Call(name, _) if !is_function(name) => {
                let near = nearest(name, LEARNED.into_iter());
                let hint = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
                return Err(formula.at(node, format!("there is no function `{name}`{hint}")));
            }
            _ => {
                evaluate(formula, node, frame)?;
                Basis::Number
            }
        };
        Ok(Variable { node: node.clone(), basis })
    }

    fn levels(column: &str, frame: &Frame) -> Result<Basis> {
        let levels = sorted(frame.find(column)?.coded().different);
        match levels.len() {
            0 | 1 => {
                let only = levels.first().map_or("", |l| l.as_str());
                Err(frame.mistake(format!("column `{column}` is `{}` in every row; drop it", shown(only))))
            }
            n if n > LEVELS => Err(frame.mistake(format!(
                "column `{column}` has {n} levels, more than {LEVELS}; let them vary around a common mean, (1 | \
                 {column}), drop the column, or merge levels"
            ))),
            _ => Ok(Basis::Levels { column: column.to_owned(), levels }),
        }
    }

    fn learned(formula: &Formula, node: &Node, (name, arguments): (&str, &[Argument]), frame: &Frame) -> Result<Basis> {
        let Some((first, rest)) = arguments.split_first().filter(|(first, _)| first.name.is_none()) else {
            return Err(formula.at(node, format!("`{name}` needs a column, as in {name}(x)")));
        };
        let of = &first.value;
        if name == "factor" {
            return match of.name() {
                Some(column) if rest.is_empty() => Variable::levels(column, frame),
                _ => Err(formula.at(node, "expected a column, as in factor(x)")),
            };
        }
        let values = evaluate(formula, of, frame)?;
        let constant = || formula.at(of, "it is the same in every row; drop it");
        let scale = Scale::of(&values).ok_or_else(constant)?;
        let count = |names: &[&str], default: usize, range: std::ops::RangeInclusive<usize>| {
            let given = rest.iter().find(|a| a.name.as_deref().map_or(names[0] == "degree", |n| names.contains(&n)));
            let number = match given.map(|a| &a.value.kind) {
                None => return Ok(default),
                Some(Kind::Number(x)) => *x,
                _ => f64::NAN,
            };
            if number.fract() == 0.0 && range.contains(&(number as usize)) {
                return Ok(number as usize);
            }
            let what = format!("`{}` is a whole number from {} to {}", names[0], range.start(), range.end());
            Err(formula.at(given.map_or(node, |a| &a.value), what))
        };
        let of = of.clone();
        match name {
            "scale" => Ok(Basis::Scaled { of, scale }),
            "center" => Ok(Basis::Scaled { of, scale: Scale { sd: 1.0, ..scale } }),
            "poly" => {
                let degree = count(&["degree"], 1, 1..=DEGREE)?;
                let raw = rest.iter().any(|a| a.name.as_deref() == Some("raw") && is_true(&a.value));
                let different = sorted_numbers(&values).len();
                if different <= degree {
                    let what = format!(
                        "a polynomial of degree {degree} needs more than {degree} different values, there are {different}"
                    );
                    return Err(formula.at(node, what));
                }
                let recursion = (!raw).then(|| Recursion::learn(&values, scale, degree));
                Ok(Basis::Polynomials { of, scale, recursion, degree })
            }
            _ => {
                let degree = count(&["degree"], 3, 1..=5)?;
                let df = count(&["df"], degree + 2, degree + 1..=SPLINE)?;
                Ok(Basis::Splines { of, knots: knots(&values, df, degree), degree })
            }
        }
    }

    /// Whether it is categorical.
    pub fn is_categorical(&self) -> bool {
        matches!(self.basis, Basis::Levels { .. })
    }

    /// Whether it is a column as it is.
    pub fn is_plain(&self) -> bool {
        matches!(self.node.kind, Kind::Name(_))
    }

    /// The names of all columns it is made of.
    pub fn uses(&self, into: &mut Vec<String>) {
        self.node.columns(into);
    }

    /// Its label.
    pub fn label(&self) -> String {
        self.node.to_string()
    }

    /// The level that others are compared with.
    pub fn reference(&self) -> Option<&str> {
        match &self.basis {
            Basis::Levels { levels, .. } => levels.first().map(String::as_str),
            _ => None,
        }
    }

    /// Its columns in some data; of a categorical one all levels.
    pub fn columns(&self, formula: &Formula, frame: &Frame) -> Result<Vec<VariableColumn>> {
        let label = self.label();
        let numbered = |columns: Vec<Vec<f64>>| {
            let name = |(i, values): (usize, Vec<f64>)| VariableColumn::new(format!("{label}{}", i + 1), values);
            columns.into_iter().enumerate().map(name).collect()
        };
        Ok(match &self.basis {
            Basis::Number => vec![VariableColumn::new(label, evaluate(formula, &self.node, frame)?)],
            Basis::Scaled { of, scale } => {
                let values = evaluate(formula, of, frame)?.iter().map(|x| scale.standardise(*x)).collect();
                vec![VariableColumn::new(label, values)]
            }
            Basis::Levels { column, levels } => {
                let coded = frame.find(column)?.coded();
                let Coded { different, codes } = &coded;
                let is_unknown: Vec<bool> = different.iter().map(|text| !levels.contains(text)).collect();
                let unknown: Vec<usize> = (0..codes.len()).filter(|row| is_unknown[codes[*row] as usize]).collect();
                if let Some(row) = unknown.first() {
                    let (level, there) = (shown(&different[codes[*row] as usize]), places(frame, &unknown));
                    let known = listed(levels.iter().map(|l| format!("`{}`", shown(l))), 10);
                    let what =
                        format!("column `{column}`: `{level}` {there} is none of the levels that were fitted, {known}");
                    return Err(frame.mistake(what));
                }
                let hit = |level: &String| {
                    let hits: Vec<f64> = different.iter().map(|text| f64::from(u8::from(text == level))).collect();
                    coded.values(&hits)
                };
                levels.iter().map(|l| VariableColumn::new(format!("{column}={l}"), hit(l))).collect()
            }
            Basis::Polynomials { of, recursion: None, degree, .. } => {
                let values = evaluate(formula, of, frame)?;
                numbered((1..=*degree).map(|p| values.iter().map(|x| x.powi(p as i32)).collect()).collect())
            }
            Basis::Polynomials { of, scale, recursion: Some(recursion), .. } => {
                let values = evaluate(formula, of, frame)?;
                numbered(transposed(values.iter().map(|x| recursion.at(scale.standardise(*x)))))
            }
            Basis::Splines { of, knots, degree } => {
                let values = evaluate(formula, of, frame)?;
                numbered(transposed(values.iter().map(|x| b_splines(*x, knots, *degree)[1..].to_vec())))
            }
        })
    }
}

/// Different texts: in the order of numbers if all are, else alphabetically.
pub(super) fn sorted(mut texts: Vec<String>) -> Vec<String> {
    texts.sort_unstable();
    texts.dedup();
    let numbers: Option<Vec<f64>> = texts.iter().map(|t| t.parse().ok()).collect();
    if let Some(numbers) = numbers {
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_by(|a, b| numbers[*a].total_cmp(&numbers[*b]));
        return order.into_iter().map(|i| texts[i].clone()).collect();
    }
    texts
}

/// Whether a text is a number with a sign of a currency or a unit at one end, or with separators of thousands.
fn is_nearly_number(text: &str) -> bool {
    let is_sign = |c: char| !c.is_ascii() || "$%".contains(c) || c.is_whitespace();
    let digits: String = text.trim_matches(is_sign).chars().filter(|c| !",' _".contains(*c)).collect();
    digits.parse::<f64>().is_ok_and(f64::is_finite)
}

fn sorted_numbers(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.dedup();
    sorted
}

fn is_true(node: &Node) -> bool {
    matches!(node.name(), Some("TRUE" | "T" | "true" | "True"))
}

fn transposed(rows: impl Iterator<Item = Vec<f64>>) -> Vec<Vec<f64>> {
    let mut columns: Vec<Vec<f64>> = vec![];
    for row in rows {
        columns.resize(row.len(), vec![]);
        columns.iter_mut().zip(row).for_each(|(column, x)| column.push(x));
    }
    columns
}

impl Recursion {
    /// By Stieltjes' procedure.
    fn learn(values: &[f64], scale: Scale, degree: usize) -> Self {
        let x: Vec<f64> = values.iter().map(|x| scale.standardise(*x)).collect();
        let (mut before, mut now) = (vec![0.0; x.len()], vec![1.0; x.len()]);
        let (mut alpha, mut norm) = (vec![], vec![]);
        for i in 0..=degree {
            let square: f64 = now.iter().map(|z| z * z).sum();
            let mean = now.iter().zip(&x).map(|(z, x)| x * z * z).sum::<f64>() / square;
            alpha.push(mean);
            norm.push(square);
            let share = if i > 0 { square / norm[i - 1] } else { 0.0 };
            let next = x.iter().zip(&now).zip(&before).map(|((x, now), before)| (x - mean) * now - share * before);
            let next = next.collect();
            before = std::mem::replace(&mut now, next);
        }
        Recursion { alpha, norm }
    }

    /// The polynomials at a place, but the constant.
    fn at(&self, x: f64) -> Vec<f64> {
        let (mut before, mut now, mut all) = (0.0, 1.0, vec![]);
        for i in 0..self.alpha.len() - 1 {
            let share = if i > 0 { self.norm[i] / self.norm[i - 1] } else { 0.0 };
            (before, now) = (now, (x - self.alpha[i]) * now - share * before);
            all.push(now / self.norm[i + 1].sqrt());
        }
        all
    }
}

/// Knots at quantiles, and the ends as often as the splines need them.
fn knots(values: &[f64], df: usize, degree: usize) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let quantile = |p: f64| {
        let at = p * (sorted.len() - 1) as f64;
        let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
        low + (high - low) * at.fract()
    };
    let inner = df - degree;
    let ends = |x: f64| std::iter::repeat_n(x, degree + 1);
    let between = (1..=inner).map(|i| quantile(i as f64 / (inner + 1) as f64));
    ends(sorted[0]).chain(between).chain(ends(sorted[sorted.len() - 1])).collect()
}

/// All B-splines at a place, by the recursion of de Boor and Cox; beyond the ends the last piece goes on.
fn b_splines(x: f64, knots: &[f64], degree: usize) -> Vec<f64> {
    let count = knots.len() - degree - 1;
    let piece = (degree..count).rev().find(|i| knots[*i] <= x && knots[*i] < knots[*i + 1]);
    let first = || (degree..count).find(|i| knots[*i] < knots[*i + 1]).unwrap_or(degree);
    let piece = piece.unwrap_or_else(first);
    let mut basis = vec![0.0; knots.len() - 1];
    basis[piece] = 1.0;
    for d in 1..=degree {
        for i in 0..knots.len() - 1 - d {
            let part = |b: f64, from: f64, to: f64| if to > from { b / (to - from) } else { 0.0 };
            basis[i] = (x - knots[i]) * part(basis[i], knots[i], knots[i + d])
                + (knots[i + d + 1] - x) * part(basis[i + 1], knots[i + 1], knots[i + d + 1]);
        }
    }
    basis.truncate(count);
    basis
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(text: &str, frame: &Frame, new: &Frame) -> Vec<(String, Vec<f64>)> {
        let formula = Formula::parse(&format!("y ~ {text}")).expect("a formula");
        let variable = Variable::learn(&formula, formula.sides().1, frame).unwrap_or_else(|e| panic!("{e}"));
        let columns = variable.columns(&formula, new).unwrap_or_else(|e| panic!("{e}"));
        columns.into_iter().map(|c| (c.label, c.values)).collect()
    }

    fn frame(x: &[f64]) -> Frame {
        Frame::new().numbers("x", x.to_vec()).expect("a frame")
    }

    #[test]
    fn polynomials_are_those_of_r() {
        // R: poly(c(1, 2, 4, 7, 11), 2), and predict(…, 5).
        let x = frame(&[1.0, 2.0, 4.0, 7.0, 11.0]);
        let close = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-7);
        let now = columns("poly(x, 2)", &x, &x);
        assert_eq!((now[0].0.as_str(), now[1].0.as_str()), ("poly(x, 2)1", "poly(x, 2)2"));
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        for (i, a) in now.iter().enumerate() {
            assert!(a.1.iter().sum::<f64>().abs() < 1e-12);
            for (j, b) in now.iter().enumerate() {
                assert!((dot(&a.1, &b.1) - f64::from(u8::from(i == j))).abs() < 1e-12);
            }
        }
        assert!(
            close(&now[0].1, &[-0.492_365_96, -0.369_274_47, -0.123_091_49, 0.246_182_98, 0.738_548_95]),
            "{now:?}"
        );
        // New data get the same polynomials: those at 2 are what they were.
        let new = columns("poly(x, 2)", &x, &frame(&[2.0, 5.0]));
        assert!((new[1].1[0] - now[1].1[1]).abs() < 1e-12);
        let raw = columns("poly(x, 3, raw = TRUE)", &x, &frame(&[2.0]));
        assert_eq!(raw.iter().map(|c| c.1[0]).collect::<Vec<_>>(), [2.0, 4.0, 8.0]);
    }

    #[test]
    fn splines_sum_to_one_with_the_one_left_out() {
        let x: Vec<f64> = (0..40).map(|i| f64::from(i).powi(2)).collect();
        let data = frame(&x);
        let splines = columns("bs(x, df = 6)", &data, &frame(&[0.0, 3.0, 700.0, 1521.0]));
        assert_eq!(splines.len(), 6);
        let sum = |row: usize| splines.iter().map(|c| c.1[row]).sum::<f64>();
        // At the left end only the first is not 0.
        assert!(sum(0).abs() < 1e-12 && (sum(3) - 1.0).abs() < 1e-12 && sum(2) > 0.99, "{splines:?}");
        assert!(splines.iter().all(|c| c.1.iter().all(|v| (-1e-12..=1.0 + 1e-12).contains(v))));
    }

    #[test]
    fn numbers_with_signs_are_no_categories() {
        for text in ["38%", "$1,000", "1 000 €", "−3", "12'000"] {
            assert!(is_nearly_number(text), "{text}");
        }
        for text in ["18-25", "2024-01-31", "1st", "site 4", "%", "7a"] {
            assert!(!is_nearly_number(text), "{text}");
        }
        let of = |formula: &str, count: usize| {
            let texts: Vec<String> = (0..count).map(|i| format!("{i}%")).collect();
            let frame = Frame::new().texts("x", texts.iter().map(|t| Some(t.as_str()))).expect("a frame");
            let formula = Formula::parse(formula).expect("a formula");
            let node = formula.sides().1.clone();
            Variable::learn(&formula, &node, &frame).map(|v| v.is_categorical()).map_err(|e| e.to_string())
        };
        assert!(of("y ~ x", 40).is_err_and(|e| e.contains("column `x` has 40 levels that are numbers but for signs")));
        assert_eq!((of("y ~ x", 5), of("y ~ factor(x)", 40)), (Ok(true), Ok(true)));
    }

    #[test]
    fn levels_are_in_the_order_of_numbers() {
        let texts = |t: &[&str]| sorted(t.iter().map(|t| (*t).to_owned()).collect());
        assert_eq!(texts(&["10", "9", "1", "9"]), ["1", "9", "10"]);
        assert_eq!(texts(&["b", "10", "9"]), ["10", "9", "b"]);
        let x = frame(&[3.0, 1.0, 2.0, 1.0]);
        let dummies = columns("factor(x)", &x, &frame(&[2.0]));
        let expected = [("x=1", 0.0), ("x=2", 1.0), ("x=3", 0.0)].map(|(n, v)| (n.to_owned(), vec![v]));
        assert_eq!(dummies, expected);
    }
}

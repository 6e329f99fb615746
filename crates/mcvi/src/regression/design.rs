//! The data of a regression: the target as its family needs it, predictors standardised and dummy-coded.

use super::Family;
use super::names::Names;
use super::table::{Table, shown};
use crate::error::Error;
use std::collections::BTreeSet;

/// Maximum number of levels of a categorical column.
const LEVELS: usize = 50;

/// Mean and standard deviation of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    pub mean: f64,
    pub sd: f64,
}

/// A column of the design.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Predictor {
    /// The name of its coefficient.
    pub name: String,
    /// Its mean and standard deviation before it was standardised.
    pub scale: Scale,
}

/// All predictors.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Design {
    pub predictors: Vec<Predictor>,
    /// Row by row, each column with mean 0 and standard deviation 1.
    pub standardised: Vec<f64>,
}

impl Scale {
    /// None if it cannot be divided by.
    pub fn of(values: &[f64]) -> Option<Scale> {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let sd = (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
        (mean.is_finite() && sd.is_normal()).then_some(Scale { mean, sd })
    }
}

/// A column as read from the file.
enum Column {
    Numbers(Vec<f64>),
    /// With the row of the first text in it, and whether there are numbers too.
    Texts {
        first: usize,
        mixed: bool,
    },
}

fn column(table: &Table, column: usize) -> Result<Column, Error> {
    let parsed: Vec<Option<f64>> = table.cells(column).map(|cell| cell.parse().ok()).collect();
    if let Some(first) = parsed.iter().position(Option::is_none) {
        let mixed = parsed.iter().any(Option::is_some);
        return Ok(Column::Texts { first, mixed });
    }
    let numbers: Vec<f64> = parsed.into_iter().flatten().collect();
    match numbers.iter().position(|x| !x.is_finite()) {
        Some(row) => Err(table.at(row, column, "is not a finite number; correct it, or remove the row")),
        None => Ok(Column::Numbers(numbers)),
    }
}

/// The target as numbers that its family allows.
pub(super) fn outcome(
    table: &Table,
    target: usize,
    family: Family,
    notes: &mut Vec<String>,
) -> Result<Vec<f64>, Error> {
    let name = &table.columns[target];
    let mut words = false;
    let mut values = vec![];
    for (row, cell) in table.cells(target).enumerate() {
        let number = cell.parse().ok();
        let (value, what) = match family {
            Family::Logistic => {
                let value = number.filter(|x| *x == 0.0 || *x == 1.0).or_else(|| truth(cell));
                words |= number.is_none();
                (value, "is not 0 or 1, which a logistic target must be; recode it, or choose another target")
            }
            Family::Linear => (
                number.filter(|x: &f64| x.is_finite()),
                "is not a finite number, which a linear target must be; correct it, or choose another target",
            ),
            Family::Poisson => (
                number.filter(|x: &f64| x.is_finite() && *x >= 0.0 && x.fract() == 0.0),
                "is not a count, a whole number of at least 0, which a poisson target must be; correct it, or choose \
                 another family or target",
            ),
        };
        values.push(value.ok_or_else(|| table.at(row, target, what))?);
    }
    if values.iter().all(|x| *x == values[0]) {
        let cell = shown(table.cells(target).next().unwrap_or_default());
        let what =
            format!("the target `{name}` is `{cell}` in every row: there is nothing to explain; choose another target");
        return Err(table.mistake(what));
    }
    if words {
        notes.push(format!("`{name}`: yes and true are 1, no and false are 0"));
    }
    Ok(values)
}

fn truth(cell: &str) -> Option<f64> {
    let is = |words: [&str; 2]| words.iter().any(|word| cell.eq_ignore_ascii_case(word));
    if is(["true", "yes"]) {
        Some(1.0)
    } else if is(["false", "no"]) {
        Some(0.0)
    } else {
        None
    }
}

impl Design {
    /// All columns but the target.
    pub fn new(table: &Table, target: usize, names: &mut Names, notes: &mut Vec<String>) -> Result<Self, Error> {
        let mut predictors = vec![];
        let mut columns: Vec<Vec<f64>> = vec![];
        let mut renamed = vec![];
        let mut add = |name: String, label: &str, values: Vec<f64>| {
            let Some(scale) = Scale::of(&values) else {
                let why = "its values are too large, or too close together, to be standardised; change its unit";
                return Err(table.mistake(format!("column `{label}`: {why}")));
            };
            columns.push(values.iter().map(|x| (x - scale.mean) / scale.sd).collect());
            predictors.push(Predictor { name, scale });
            Ok(())
        };
        for (c, label) in table.columns.iter().enumerate().filter(|(c, _)| *c != target) {
            refuse_constant(table, c)?;
            match column(table, c)? {
                Column::Numbers(values) => {
                    let name = names.safe("beta_", label);
                    if name != format!("beta_{label}") {
                        renamed.push(format!("`{name}` of `{label}`"));
                    }
                    add(name, label, values)?;
                }
                Column::Texts { first, mixed } => {
                    let levels = levels(table, c, first, mixed)?;
                    let mut coded = vec![];
                    for level in &levels[1..] {
                        let label = format!("{label}={level}");
                        let name = names.safe("beta_", &label);
                        coded.push(format!("`{name}` of `{}`", shown(&label)));
                        add(name, &label, table.cells(c).map(|cell| f64::from(u8::from(cell == *level))).collect())?;
                    }
                    let mut note = format!("`{label}` is categorical, compared with `{}`: ", shown(levels[0]));
                    note += &coded.join(", ");
                    if mixed {
                        let cell = shown(table.cells(c).nth(first).unwrap_or_default());
                        note += &format!("; it is not numeric because of `{cell}` in line {}", table.line(first));
                    }
                    notes.push(note);
                }
            }
        }
        if !renamed.is_empty() {
            notes.push(format!("coefficients: {}", renamed.join(", ")));
        }
        let standardised = (0..table.len()).flat_map(|row| columns.iter().map(move |c| c[row])).collect();
        Ok(Design { predictors, standardised })
    }
}

fn refuse_constant(table: &Table, column: usize) -> Result<(), Error> {
    let mut cells = table.cells(column);
    let first = cells.next().unwrap_or_default();
    // `1` and `1.0` are the same number.
    let same = |cell: &str| cell == first || first.parse::<f64>().is_ok_and(|x| cell.parse() == Ok(x));
    if !cells.all(same) {
        return Ok(());
    }
    let what = format!("column `{}` is `{}` in every row; drop it", table.columns[column], shown(first));
    Err(table.mistake(what))
}

/// The levels of a column of texts, in order.
fn levels(table: &Table, column: usize, first: usize, mixed: bool) -> Result<Vec<&str>, Error> {
    let levels: BTreeSet<&str> = table.cells(column).collect();
    if levels.len() <= LEVELS {
        return Ok(levels.into_iter().collect());
    }
    let why = if mixed {
        let cell = shown(table.cells(column).nth(first).unwrap_or_default());
        format!("it is not numeric because of `{cell}` in line {}; correct that, drop the column", table.line(first))
    } else {
        "drop the column".to_owned()
    };
    let name = &table.columns[column];
    let what = format!("column `{name}` has {} levels, more than {LEVELS}; {why}, or merge levels", levels.len());
    Err(table.mistake(what))
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::{refused, table};
    use super::*;

    fn design(text: &str, target: usize) -> (Design, Vec<String>) {
        let mut notes = vec![];
        let design = Design::new(&table(text), target, &mut Names::default(), &mut notes);
        (design.unwrap_or_else(|error| panic!("{error}")), notes)
    }

    #[test]
    fn categories_are_coded_against_the_first() {
        let (design, notes) = design("y,city,x\n1,Rome,1\n0,Oslo,2\n1,Paris,3\n1,Rome,6\n", 0);
        let names: Vec<&str> = design.predictors.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["beta_city_Paris", "beta_city_Rome", "beta_x"]);
        let back = |row: usize, c: usize| {
            let Scale { mean, sd } = design.predictors[c].scale;
            (design.standardised[3 * row + c] * sd + mean).round() as i32
        };
        let rows: Vec<[i32; 3]> = (0..4).map(|row| [0, 1, 2].map(|c| back(row, c))).collect();
        assert_eq!(rows, [[0, 1, 1], [0, 0, 2], [1, 0, 3], [0, 1, 6]]);
        let says = "`city` is categorical, compared with `Oslo`: `beta_city_Paris` of `city=Paris`, `beta_city_Rome` of `city=Rome`";
        assert_eq!(notes, [says]);
    }

    #[test]
    fn predictors_have_mean_0_and_sd_1() {
        let (design, notes) = design("x,y\n1e6,1\n2e6,0\n-4e5,1\n", 1);
        let scale = Scale::of(&design.standardised).expect("a scale");
        assert!(scale.mean.abs() < 1e-15 && (scale.sd - 1.0).abs() < 1e-15, "{scale:?}");
        assert!(notes.is_empty());
    }

    #[test]
    fn a_number_that_is_none_is_pointed_out() {
        let (_, notes) = design("x,y\n1,1\n2o,0\n3,1\n", 1);
        assert!(notes[0].ends_with("; it is not numeric because of `2o` in line 3"), "{notes:?}");
    }

    #[test]
    fn targets_must_suit_their_family() {
        use Family::{Linear, Logistic, Poisson};
        let at = |family, cell: &str, line: usize, says: &str| {
            let text = format!("x,y\n1,0\n2,1\n3,{cell}\n");
            assert_eq!(refused(family, &text, "y"), format!("FILE, line {line}, column `y`: `{cell}` {says}"));
        };
        let logistic = "is not 0 or 1, which a logistic target must be; recode it, or choose another target";
        at(Logistic, "2", 4, logistic);
        at(Logistic, "maybe", 4, logistic);
        let linear = "is not a finite number, which a linear target must be; correct it, or choose another target";
        at(Linear, "tall", 4, linear);
        at(Linear, "-inf", 4, linear);
        at(Linear, "1e999", 4, linear);
        let poisson = "is not a count, a whole number of at least 0, which a poisson target must be; correct it, or \
                       choose another family or target";
        for cell in ["1.5", "-1", "inf", "many"] {
            at(Poisson, cell, 4, poisson);
        }
        for family in [Linear, Logistic, Poisson] {
            let says = "FILE: the target `y` is `1` in every row: there is nothing to explain; choose another target";
            assert_eq!(refused(family, "x,y\n1,1\n2,1\n", "y"), says);
        }
        let values = outcome(&table("x,y\n1,Yes\n2,0\n3,FALSE\n"), 1, Logistic, &mut vec![]).expect("a target");
        assert_eq!(values, [1.0, 0.0, 0.0]);
    }

    #[test]
    fn useless_columns_are_refused() {
        let refused = |text: &str| refused(Family::Linear, text, "y");
        assert_eq!(refused("a,y\n1,1\n1.0,2\n"), "FILE: column `a` is `1` in every row; drop it");
        assert_eq!(refused("a,y\nx,1\nx,2\n"), "FILE: column `a` is `x` in every row; drop it");
        assert_eq!(
            refused("a,y\n1,1\ninf,2\n"),
            "FILE, line 3, column `a`: `inf` is not a finite number; correct it, or remove the row"
        );
        let unit = "its values are too large, or too close together, to be standardised; change its unit";
        assert_eq!(refused("a,y\n1e308,1\n-1e308,2\n"), format!("FILE: column `a`: {unit}"));
        assert_eq!(refused("a,y\n0,1\n1e-320,2\n"), format!("FILE: column `a`: {unit}"));
        assert_eq!(
            refused("a,y\n0,1e308\n1,-1e308\n"),
            "FILE: the target's spread is too small or too large; change its unit"
        );
        let many = |cell: &str| (0..51).fold("a,y\n".to_owned(), |t, i| t + &format!("{cell}{i},{i}\n"));
        assert_eq!(
            refused(&many("k")),
            "FILE: column `a` has 51 levels, more than 50; drop the column, or merge levels"
        );
        assert_eq!(
            refused(&(many("") + "?,3\n")),
            "FILE: column `a` has 52 levels, more than 50; it is not numeric because of `?` in line 53; correct that, \
             drop the column, or merge levels"
        );
    }
}

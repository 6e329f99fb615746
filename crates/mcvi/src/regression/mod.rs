//! Regressions over a CSV file: a table becomes a standardised design, the design a model whose coefficients are
//! reported on the scale of the data.

mod design;
mod names;
mod table;

pub use names::nearest;

use crate::bayesian_model::{About, DataDigest, DescribedModel, Source};
use crate::error::{Error, Result};
use crate::model::{Builder, Model, bernoulli_logit, half_normal, normal, poisson_log};
use design::{Design, Scale};
use names::Names;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use table::Table;

/// An error in a user's table, with a message for them.
fn mistake(why: String) -> Error {
    Error::Table { why }
}

/// How the target depends on the predictors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// A target of 0 and 1, whose log odds are linear in the predictors.
    Logistic,
    /// A number with normal errors around a linear function of the predictors.
    Linear,
    /// A count, whose log mean is linear in the predictors.
    Poisson,
}

impl Family {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Family::Logistic => "logistic",
            Family::Linear => "linear",
            Family::Poisson => "poisson",
        }
    }
}

impl Family {
    /// All of them, each with the kind of column it is for.
    pub const ALL: [(Family, &str); 3] = [
        (Family::Logistic, "a column of 0 and 1"),
        (Family::Linear, "a column of numbers"),
        (Family::Poisson, "a column of counts"),
    ];
}

/// The kind of regressions in a [`Source`].
pub const KIND: &str = "regression";

/// The regression of a column on all other columns of a CSV file with a header.
///
/// Predictors are standardised internally, and so is the target of a linear regression; priors are on that scale.
/// Coefficients on the original scale are generated quantities: `intercept`, `beta_<column>`, and `sigma`.
pub fn load(family: Family, data: &Path, target: &str) -> Result<DescribedModel> {
    build(family, Table::read(data)?, data, target)
}

/// The same from the bytes of a file.
#[doc(hidden)]
pub fn parse(family: Family, bytes: &[u8], target: &str) -> Result<DescribedModel> {
    build(family, Table::parse(bytes, "bytes".to_owned())?, Path::new("bytes"), target)
}

fn build(family: Family, table: Table, data: &Path, target: &str) -> Result<DescribedModel> {
    let target = table.find(target)?;
    if table.columns.len() == 1 {
        return Err(table.mistake(format!("`{}` is the only column; add columns to predict it from", table.columns[0])));
    }
    table.refuse_missing()?;
    let mut notes = vec![];
    let outcome = design::outcome(&table, target, family, &mut notes)?;
    let mut names = Names::default();
    ["intercept_std", "beta_std", "sigma_std", "intercept", "sigma"].into_iter().for_each(|name| names.reserve(name));
    let observed = names.safe("", &table.columns[target]);
    if observed != table.columns[target] {
        notes.push(format!("the target `{}` is called `{observed}` in the results", table.columns[target]));
    }
    let design = Design::new(&table, target, &mut names, &mut notes)?;
    let error = if family == Family::Linear { ", `sigma_std` half-normal(1)" } else { "" };
    let also = if family == Family::Linear { " and target" } else { "" };
    notes.push(format!(
        "predictors{also} are standardised (mean 0, sd 1); priors on that scale: `intercept_std` normal(0, 5), \
         `beta_std` normal(0, 2.5){error}; `intercept` and `beta_…` are on the original scale"
    ));
    let mut digest = DataDigest::default();
    digest.add(&observed, &outcome);
    design.predictors.iter().for_each(|p| digest.add(&p.name, &[p.scale.mean, p.scale.sd]));
    digest.add("design", &design.standardised);
    let description = format!(
        "{} regression of `{}` on {}, {} rows of {}",
        family.name(),
        table.columns[target],
        match design.predictors.len() {
            1 => "1 predictor".to_owned(),
            k => format!("{k} predictors"),
        },
        table.len(),
        data.display()
    );
    // An absolute path, so that it can be found from anywhere.
    let whole = std::fs::canonicalize(data).unwrap_or_else(|_| data.to_owned());
    let source = Source::new(KIND, json!({ "family": family, "data": saved(&whole), "target": table.columns[target] }));
    let predictors: Vec<String> = design.predictors.iter().map(|p| p.name.clone()).collect();
    // A single coefficient is a number, without an axis.
    let axes = if predictors.len() > 1 { vec![predictors] } else { vec![] };
    let labels = vec![("beta_std".to_owned(), axes)];
    let model = model(family, design, observed, outcome).map_err(|error| table.mistake(error))?;
    let about = About { name: family.name().to_owned(), description, notes, log_evidence: None };
    Ok(DescribedModel { model, about, source, labels, data_digest: Some(digest.finish()) })
}

/// Reopen the regression of a saved run from its [`Source`].
pub fn reopen(source: &Source) -> Result<DescribedModel> {
    let bad = |what: &str| mistake(format!("the saved regression does not say {what}"));
    let text = |key: &str| source.settings.get(key).and_then(|v| v.as_str()).ok_or_else(|| bad(&format!("its {key}")));
    let family = serde_json::from_value(json!(text("family")?)).map_err(|_| bad("a family that is known here"))?;
    load(family, &data_file(source).ok_or_else(|| bad("its data"))?, text("target")?)
}

/// The data file of a saved regression.
pub fn data_file(source: &Source) -> Option<PathBuf> {
    match source.settings.get("data")? {
        Value::String(text) => Some(text.into()),
        other => serde_json::from_value::<OsString>(other.clone()).ok().map(PathBuf::from),
    }
}

/// A path as text, or, if it is not UTF-8, as the numbers it consists of.
fn saved(path: &Path) -> Value {
    path.to_str().map_or_else(|| json!(path.as_os_str()), |text| json!(text))
}

fn model(family: Family, design: Design, observed: String, y: Vec<f64>) -> Result<Model, String> {
    let scale = match family {
        Family::Linear => Scale::of(&y).ok_or("the target's spread is too small or too large; change its unit")?,
        _ => Scale { mean: 0.0, sd: 1.0 },
    };
    let shift: Vec<f64> = design.predictors.iter().map(|p| p.scale.mean / p.scale.sd).collect();
    let define = move |m: &Builder<'_>| {
        let k = design.predictors.len();
        let a = m.real("intercept_std", normal(0.0, 5.0));
        let b = m.reals("beta_std", k, normal(0.0, 2.5));
        let x = m.matrix(k, &design.standardised);
        let eta = a + b.matmul(x.t());
        match family {
            Family::Logistic => m.observe(&observed, &y, bernoulli_logit(eta)),
            Family::Poisson => m.observe(&observed, &y, poisson_log(eta)),
            Family::Linear => {
                // The target itself is observed, so that likelihoods and predictions refer to the data as given.
                let sigma = m.positive("sigma_std", half_normal(1.0));
                let sigma = m.generated("sigma", sigma * scale.sd);
                m.observe(&observed, &y, normal(eta * scale.sd + scale.mean, sigma))
            }
        };
        // a + Σ b (x − mean)/sd, in powers of x.
        let shift = m.data(&shift);
        m.generated("intercept", (a - (b * shift).sum(&[1]).expand(1)) * scale.sd + scale.mean);
        for (j, p) in design.predictors.iter().enumerate() {
            m.generated(&p.name, b.slice(1, j..j + 1) * (scale.sd / p.scale.sd));
        }
    };
    Model::new(define).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::{Summary, Weights, summarise};
    use crate::fit::Settings;
    use crate::infer::{ChainChoice, Posterior, Request, infer};
    use std::collections::BTreeMap;

    /// SplitMix64, as normal numbers.
    struct Noise(u64);

    impl Noise {
        fn uniform(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
        }

        fn normal(&mut self) -> f64 {
            (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
        }
    }

    /// As by default, but for fewer iterations.
    fn request(iterations: usize) -> Request {
        Request { settings: Settings { iterations, ..Request::default().settings }, ..Request::default() }
    }

    /// A Gaussian alone, where accuracy does not matter.
    fn quick() -> Request {
        Request { chain: ChainChoice::None, starts: 1, ..request(1000) }
    }

    fn fit(
        family: Family,
        text: &str,
        target: &str,
        request: &Request,
    ) -> (DescribedModel, Posterior, BTreeMap<String, Summary>) {
        let file = table::tests::file(text.as_bytes());
        let regression = load(family, file.path(), target).unwrap_or_else(|error| panic!("{error}"));
        let posterior = infer(regression.clone(), request).expect("fitted");
        let z = &posterior.draws.z[..10_000];
        let quantities = regression.model.quantities(z, 1).expect("quantities");
        let even = Weights::even(z.len());
        let summaries = quantities.generated.iter().map(|q| (q.name.clone(), summarise(&q.values, &even))).collect();
        (regression, posterior, summaries)
    }

    /// Solve the normal equations by elimination.
    fn least_squares(rows: &[Vec<f64>], y: &[f64]) -> Vec<f64> {
        let k = rows[0].len();
        let mut system: Vec<Vec<f64>> = (0..k)
            .map(|i| {
                let dot = |f: &dyn Fn(usize) -> f64| (0..y.len()).map(|r| rows[r][i] * f(r)).sum::<f64>();
                (0..k).map(|j| dot(&|r| rows[r][j])).chain([dot(&|r| y[r])]).collect()
            })
            .collect();
        for i in 0..k {
            let pivot: Vec<f64> = system[i].iter().map(|v| v / system[i][i]).collect();
            for (j, row) in system.iter_mut().enumerate() {
                let factor = if j == i { 0.0 } else { row[i] };
                row.iter_mut().zip(&pivot).for_each(|(v, p)| *v -= factor * p);
            }
            system[i] = pivot;
        }
        system.iter().map(|row| row[k]).collect()
    }

    #[test]
    fn linear_coefficients_are_those_of_least_squares() {
        let mut noise = Noise(1);
        let (mut text, mut rows, mut y) = ("dose (mg),site,weight\n".to_owned(), vec![], vec![]);
        for i in 0..36 {
            let (dose, site) = (100.0 + 20.0 * noise.normal(), ["A", "B", "C"][i % 3]);
            let weight = 7.0 - 0.3 * dose + if site == "C" { 9.0 } else { 0.0 } + 3.0 * noise.normal();
            text += &format!("{dose},{site},{weight}\n");
            let is = |s: &str| f64::from(u8::from(site == s));
            rows.push(vec![1.0, dose, is("B"), is("C")]);
            y.push(weight);
        }
        let (regression, posterior, summaries) = fit(Family::Linear, &text, "weight", &request(4000));
        assert_eq!(posterior.verdict.kind.word(), "good", "{:?}", posterior.verdict);
        let exact = least_squares(&rows, &y);
        for (name, exact) in ["intercept", "beta_dose_mg", "beta_site_B", "beta_site_C"].into_iter().zip(&exact) {
            let s = summaries[name];
            assert!((s.mean - exact).abs() < 0.1 * s.sd, "{name}: {} ± {}, exactly {exact}", s.mean, s.sd);
        }
        let fitted = |row: &[f64]| row.iter().zip(&exact).map(|(x, b)| x * b).sum::<f64>();
        let residuals: f64 = rows.iter().zip(&y).map(|(row, y)| (y - fitted(row)).powi(2)).sum();
        let sigma = summaries["sigma"];
        assert!((sigma.mean - (residuals / 32.0).sqrt()).abs() < 0.5 * sigma.sd, "{sigma:?}");
        // Predictions are on the scale of the data.
        let quantities = regression.model.quantities(&posterior.draws.z[..2000], 1).expect("quantities");
        assert_eq!(
            (quantities.predictive[0].name.as_str(), quantities.log_likelihood[0].shape.as_slice()),
            ("weight", &[36][..])
        );
        let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
        assert!((mean(&quantities.predictive[0].values) - mean(&y)).abs() < 0.2);
    }

    #[test]
    fn logistic_coefficients_are_those_the_data_were_made_with() {
        let mut noise = Noise(2);
        let exact = [-3.0, 0.8, -1.5, 0.02];
        let mut text = "a,b,c,passed\n".to_owned();
        for _ in 0..200 {
            let x = [noise.normal() + 3.0, noise.normal(), 50.0 * noise.normal()];
            let logit = exact[0] + x.iter().zip(&exact[1..]).map(|(x, b)| x * b).sum::<f64>();
            let passed = if noise.uniform() < 1.0 / (1.0 + (-logit).exp()) { "yes" } else { "no" };
            text += &format!("{},{},{},{passed}\n", x[0], x[1], x[2]);
        }
        let (regression, _, summaries) = fit(Family::Logistic, &text, "passed", &quick());
        assert!(
            regression.about.description.starts_with("logistic regression of `passed` on 3 predictors, 200 rows of ")
        );
        assert_eq!(regression.about.notes[0], "`passed`: yes and true are 1, no and false are 0");
        for (name, exact) in ["intercept", "beta_a", "beta_b", "beta_c"].into_iter().zip(exact) {
            let s = summaries[name];
            assert!((s.mean - exact).abs() < 4.0 * s.sd, "{name}: {} ± {}, exactly {exact}", s.mean, s.sd);
            assert!(s.sd < 0.3 * exact.abs().max(1.0) + 0.5, "{name}: {} ± {}", s.mean, s.sd);
        }
    }

    #[test]
    fn poisson_counts_have_a_log_linear_mean() {
        // Counts at their means: the coefficients are those of the curve.
        let counts = (0..40).map(|i| f64::from(i) / 10.0);
        let text = counts.fold("x,n\n".to_owned(), |t, x| t + &format!("{x},{}\n", (1.0 + 0.5 * x).exp().round()));
        let (_, _, summaries) = fit(Family::Poisson, &text, "n", &quick());
        for (name, exact) in [("intercept", 1.0), ("beta_x", 0.5)] {
            let s = summaries[name];
            assert!((s.mean - exact).abs() < 0.5 * s.sd, "{name}: {} ± {}", s.mean, s.sd);
        }
    }

    #[test]
    fn awkward_names_do_not_collide() {
        let text = "std,a b,a-b,$,intercept\n1,2,4,1,0\n2,1,1,5,1\n3,5,9,2,0\n";
        let file = table::tests::file(text.as_bytes());
        let regression = load(Family::Logistic, file.path(), "intercept").unwrap_or_else(|error| panic!("{error}"));
        let names = |regression: &DescribedModel| -> Vec<String> {
            let q = regression.model.quantities(&[vec![0.0; 5]], 1).expect("quantities");
            q.generated.into_iter().chain(q.predictive).map(|q| q.name).collect()
        };
        let expected = ["intercept", "beta_std_2", "beta_a_b", "beta_a_b_2", "beta_column", "intercept_2"];
        assert_eq!(names(&regression), expected);
        assert_eq!(regression.about.notes[0], "the target `intercept` is called `intercept_2` in the results");
        let says =
            "coefficients: `beta_std_2` of `std`, `beta_a_b` of `a b`, `beta_a_b_2` of `a-b`, `beta_column` of `$`";
        assert_eq!(regression.about.notes[1], says);
    }

    #[test]
    fn whatever_a_file_holds_there_is_a_model_or_a_mistake() {
        let mut noise = Noise(3);
        let pieces =
            ["x", "y", "1", "0", "-2.5", "1e308", "NA", "é", "\"", ",", ",", ",", "\n", "\n", "\r\n", " ", "inf", "="];
        let mut loaded = 0;
        for i in 0..500 {
            let mut text = if i % 2 == 0 { "x,y\n1,0\n0,1\n".to_owned() } else { String::new() };
            (0..i % 40).for_each(|_| text += pieces[(noise.uniform() * pieces.len() as f64) as usize]);
            let file = table::tests::file(text.as_bytes());
            for family in [Family::Logistic, Family::Linear, Family::Poisson] {
                match load(family, file.path(), "y") {
                    Ok(_) => loaded += 1,
                    Err(mistake) => assert!(mistake.to_string().contains(&file.path().display().to_string())),
                }
            }
        }
        assert!(loaded > 0);
    }
}

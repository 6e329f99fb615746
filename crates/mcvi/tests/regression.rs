//! Regressions as users meet them: answers against exact ones, messages, names.

use mcvi::diagnostics::{Summary, Weights, summarise};
use mcvi::fit::Settings;
use mcvi::infer::{ChainChoice, Posterior, Request, infer};
use mcvi::model::Quantity;
use mcvi::regression::{
    Coordinates, Family, Frame, Missing, NewGroups, Options, PredictionOptions, ReadOptions, Regression, reopen,
};
use mcvi::{BayesianModel, Error, Fingerprint, Hardware, Source, Target};
use std::collections::BTreeMap;
use std::io::Write;

fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(bytes).expect("written");
    file
}

fn parsed(text: &str) -> Frame {
    Frame::parse(text.as_bytes(), &ReadOptions::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn regress(formula: &str, family: Family, text: &str) -> Result<Regression, Error> {
    let frame = Frame::parse(text.as_bytes(), &ReadOptions::default())?;
    Regression::with(formula, &frame, &Options { family, ..Options::default() })
}

/// The error message for a table.
fn refused(formula: &str, family: Family, text: &str) -> String {
    regress(formula, family, text).expect_err("refused").to_string()
}

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

/// Mean and standard deviation.
fn moments(x: &[f64]) -> (f64, f64) {
    let n = x.len() as f64;
    let mean = x.iter().sum::<f64>() / n;
    (mean, (x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt())
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
    formula: &str,
    family: Family,
    text: &str,
    request: &Request,
) -> (Regression, Posterior, BTreeMap<String, Summary>) {
    let regression = regress(formula, family, text).unwrap_or_else(|error| panic!("{error}"));
    let posterior = infer(regression.clone(), request).expect("fitted");
    let z = &posterior.draws.z[..10_000];
    let quantities = regression.quantities(z, Some(1), Hardware::with_threads(1)).expect("quantities");
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
    let (regression, posterior, summaries) = fit("weight ~ .", Family::Gaussian, &text, &request(4000));
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
    let quantities =
        regression.quantities(&posterior.draws.z[..2000], Some(1), Hardware::with_threads(1)).expect("quantities");
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
    let (regression, _, summaries) = fit("passed ~ a + b + c", Family::Bernoulli, &text, &quick());
    assert!(regression.about().description.starts_with("`passed ~ a + b + c` with link logit, 200 rows of "));
    assert_eq!(regression.about().notes[0], "`passed`: yes and true are 1, no and false are 0");
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
    let (_, _, summaries) = fit("n ~ x", Family::Poisson, &text, &quick());
    for (name, exact) in [("intercept", 1.0), ("beta_x", 0.5)] {
        let s = summaries[name];
        assert!((s.mean - exact).abs() < 0.5 * s.sd, "{name}: {} ± {}", s.mean, s.sd);
    }
}

#[test]
fn awkward_names_do_not_collide() {
    let text = "std,a b,a-b,$,intercept\n1,2,4,1,0\n2,1,1,5,1\n3,5,9,2,0\n";
    let regression = regress("intercept ~ .", Family::Bernoulli, text).unwrap_or_else(|error| panic!("{error}"));
    let names = |regression: &Regression| -> Vec<String> {
        let q = regression.quantities(&[vec![0.0; 5]], Some(1), Hardware::with_threads(1)).expect("quantities");
        q.generated.into_iter().chain(q.predictive).map(|q| q.name).collect()
    };
    let expected = ["intercept", "beta_std_2", "beta_a_b", "beta_a_b_2", "beta_column", "intercept_2"];
    assert_eq!(names(&regression), expected);
    assert_eq!(regression.about().notes[0], "the response `intercept` is called `intercept_2` in the results");
    let says = "coefficients: `beta_std_2` of `std`, `beta_a_b` of `a b`, `beta_a_b_2` of `a-b`, `beta_column` of `$`";
    assert_eq!(regression.about().notes[1], says);
    let product = regress("intercept ~ std * $a-b", Family::Bernoulli, text);
    assert!(product.is_err());
    let product = regress("intercept ~ std * `a-b`", Family::Bernoulli, text).expect("a regression");
    let q = product.quantities(&[vec![0.0; 4]], None, Hardware::with_threads(1)).expect("quantities");
    let generated: Vec<&str> = q.generated.iter().map(|q| q.name.as_str()).collect();
    assert_eq!(generated, ["intercept", "beta_std_2", "beta_a_b", "beta_std.a_b"]);
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
        for (family, _) in Family::ALL {
            loaded += usize::from(regress("y ~ .", family, &text).is_ok());
        }
    }
    assert!(loaded > 0);
}

#[test]
fn cells_that_cannot_be_used_are_listed_with_their_count() {
    let linear = |text: &str| refused("y ~ x", Family::Gaussian, text);
    let rows =
        |cells: &[&str]| cells.iter().enumerate().fold("x,y\n".to_owned(), |t, (i, c)| t + &format!("{c},{i}\n"));
    assert_eq!(
        linear(&rows(&["1", "2", ".", "4", "5", "."])),
        "column `x` is numeric but for 2 of 6 cells: `.` (2 times: line 4, line 7); correct them, say that they are \
         missing with --na '.', or write factor(x) for categories"
    );
    assert!(
        linear(&rows(&["1", "inf", "3", "-inf"])).contains("`inf` is not a finite number (2 times: line 3, line 5)")
    );
    assert!(linear(&rows(&["1", "1.0"])).contains("column `x` is `1` in every row; drop it"));
    assert!(linear(&rows(&["a", "a"])).contains("column `x` is `a` in every row; drop it"));
    assert!(linear(&rows(&["1e308", "-1e308"])).contains("to be standardised; change its unit"));
    assert!(linear("x,y\n0,1e308\n1,-1e308\n").contains("the response's spread is too small or too large"));
    let many: Vec<String> = (0..51).map(|i| format!("k{i}")).collect();
    let many = linear(&rows(&many.iter().map(String::as_str).collect::<Vec<_>>()));
    assert!(
        many.contains("column `x` has 51 levels, more than 50; let them vary around a common mean, (1 | x)"),
        "{many}"
    );
    // As categories, what is nearly numeric can be used.
    let frame = parsed(&rows(&["1", "2", ".", "2", "1", "."]));
    assert!(Regression::new("y ~ factor(x)", &frame).is_ok());
    let frame = Frame::parse(rows(&["1", "2", ".", "4"]).as_bytes(), &ReadOptions { na: vec![".".to_owned()] });
    let options = Options { missing: Missing::Drop, ..Options::default() };
    let regression = Regression::with("y ~ x", &frame.expect("a frame"), &options).expect("a regression");
    assert_eq!(regression.about().notes[0], "1 of 4 rows are left out, where values are missing: 1 in `x`");
}

#[test]
fn missing_values_are_counted_where_they_are_used() {
    let text = "x,unused,y\nNA,1,2\n3,,5\n,4,\n4,1,NaN\n6,1,2\n";
    assert_eq!(
        refused("y ~ x", Family::Gaussian, text),
        "values are missing in 3 of 5 rows (3 times: line 2, line 4, line 5): 2 in `y`, 2 in `x`; fill them in, or leave \
         those rows out with --missing drop"
    );
    let few = refused("y ~ x", Family::Gaussian, "x,y\n\n1,2\n");
    assert_eq!(few, "line 3 is the only row of data; at least two are needed");
}

#[test]
fn responses_must_suit_their_family() {
    let at = |family, cell: &str, says: &str| {
        let said = refused("y ~ x", family, &format!("x,y\n1,0.5\n2,0\n3,{cell}\n4,1\n"));
        assert!(said.contains(says), "{family:?} {cell}: {said}");
    };
    at(Family::Bernoulli, "2", "the response `y` is `0.5` (2 times: line 2, line 4); a bernoulli response is 0 or 1");
    at(Family::Poisson, "-1", "a poisson response is a count");
    at(Family::Gamma, "3", "is `0` (once: line 3); a gamma response is a number above 0");
    at(Family::Beta, "0.2", "is `0` (2 times: line 3, line 5); a beta response is a number between 0 and 1");
    at(Family::Gaussian, "tall", "column `y` is numeric but for 1 of 4 cells: `tall` (once: line 4)");
    at(Family::Binomial, "1", "successes | trials(n) ~");
    for family in [Family::Gaussian, Family::Poisson, Family::Bernoulli, Family::Categorical] {
        let said = refused("y ~ x", family, "x,y\n1,1\n2,1\n");
        assert!(said.contains("is `1` in every row: there is nothing to explain"), "{said}");
    }
    let species = "x,y\n1,Adelie\n2,Gentoo\n3,Adelie\n4,Chinstrap\n";
    assert!(refused("y ~ x", Family::Bernoulli, species).contains("has 3 levels, `Adelie`, `Chinstrap`, `Gentoo`"));
    let notes = |family, text| regress("y ~ x", family, text).expect("a regression").about().notes;
    assert_eq!(
        notes(Family::Bernoulli, "x,y\n1,Yes\n2,0\n3,FALSE\n")[0],
        "`y`: yes and true are 1, no and false are 0"
    );
    assert_eq!(notes(Family::Bernoulli, "x,y\n1,m\n2,f\n3,m\n")[0], "`y`: `f` is 0, `m` is 1");
    assert_eq!(notes(Family::Cumulative, "x,y\n1,2\n2,10\n3,1\n")[0], "`y` in this order: `1` < `2` < `10`");
    assert_eq!(notes(Family::Categorical, species)[0], "`y` compared with `Adelie`: `Chinstrap`, `Gentoo`");
    let trials = refused("y | trials(n) ~ x", Family::Binomial, "x,n,y\n1,3,2\n2,3,4\n");
    assert!(trials.contains("trials are whole numbers, at least 1 and at least the successes, not 3 (once: line 3)"));
}

#[test]
fn columns_are_found_or_suggested() {
    let said = refused("weight ~ hieght", Family::Gaussian, "age,weight,height\n1,2,3\n2,3,5\n");
    assert!(
        said.contains("there is no column `hieght`; did you mean `height`? choose one of `age`, `weight`"),
        "{said}"
    );
    assert!(refused("y ~ x", Family::Gaussian, "1,2\n3,4\n").contains("the first line is numbers; add a header"));
    assert!(refused("y ~ .", Family::Gaussian, "y\n1\n2\n").contains("there are no other columns"));
    // Row names, as R and pandas write them, have no name of their own.
    let named = regress("y ~ .", Family::Gaussian, "\"\",x,y\n1,2,3\n2,3,5\n3,7,1\n").expect("a regression");
    assert_eq!(named.names(), ["intercept_std", "beta_std", "sigma_std"]);
}

#[test]
fn tables_are_read_as_they_come() {
    let (comma, expected) = ("x,y\n1.5,2\n2.5,3\n", parsed("x,y\n1.5,2\n2.5,3\n"));
    for text in
        ["x;y\n1,5;2\n2,5;3\n", "x\ty\n1.5\t2\n2.5\t3\n", "x|y\n1.5|2\n2.5|3\n", "\u{feff}x, y\r\n1.5 ,2\r\n2.5,3\r\n"]
    {
        assert_eq!(parsed(text), expected, "{text:?}");
    }
    let mut packed = flate2::write::GzEncoder::new(vec![], flate2::Compression::default());
    packed.write_all(comma.as_bytes()).expect("packed");
    let packed = packed.finish().expect("packed");
    assert_eq!(Frame::parse(&packed, &ReadOptions::default()).expect("a frame"), expected);
    let cut = Frame::parse(&packed[..packed.len() - 9], &ReadOptions::default());
    assert!(cut.expect_err("damaged").to_string().contains("gzipped data with damage"));
}

#[test]
fn priors_are_on_the_scale_of_the_data() {
    let text = "x,y\n1,10\n2,30\n3,20\n4,50\n7,40\n";
    let with = |priors: &[&str]| {
        let options = Options { priors: priors.iter().map(|p| (*p).to_owned()).collect(), ..Options::default() };
        Regression::with("y ~ x", &parsed(text), &options)
    };
    let regression = with(&["x ~ normal(1, 2)", "sigma ~ exponential(0.1)", "intercept ~ normal(20, 5)"]).expect("one");
    let drawn = regression.prior(20_000, 1).expect("draws");
    let z = regression.unconstrained(&drawn.parameters).expect("free");
    let generated = regression.quantities(&z, None, Hardware::with_threads(1)).expect("quantities").generated;
    let of = |name: &str| generated.iter().find(|q| q.name == name).expect(name).values.clone();
    let scale = moments(&of("beta_x"));
    assert!((scale.0 - 1.0).abs() < 0.06 && (scale.1 - 2.0).abs() < 0.06, "{scale:?}");
    let sigma = moments(&of("sigma"));
    assert!((sigma.0 - 10.0).abs() < 0.3, "{sigma:?}");
    // The intercept is that at the mean of x, 3.4.
    let mean: Vec<f64> = of("intercept").iter().zip(of("beta_x")).map(|(a, b)| a + 3.4 * b).collect();
    let mean = moments(&mean);
    assert!((mean.0 - 20.0).abs() < 0.2 && (mean.1 - 5.0).abs() < 0.2, "{mean:?}");
    let refused = |prior: &str| with(&[prior]).expect_err("refused").to_string();
    assert!(refused("z ~ normal(0, 1)").contains("there is no parameter `z`"));
    assert!(refused("x ~ exponential(1)").contains("it can be negative"));
    assert!(refused("sigma ~ uniform(0, 1)").contains("it is a positive number"));
    // A single coefficient overrides its class, whatever the order.
    let notes = with(&["x ~ normal(0, 1)", "beta ~ normal(0, 9)"]).expect("one").about().notes;
    let again = with(&["beta ~ normal(0, 9)", "x ~ normal(0, 1)"]).expect("one").about().notes;
    assert_eq!(notes, again);
}

/// Until 0.2 a saved regression was a family and a target.
#[test]
fn regressions_of_old_runs_are_opened() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/old_regressions");
    for name in ["logistic", "linear", "poisson"] {
        let text = std::fs::read_to_string(folder.join(format!("{name}.json"))).expect("a file");
        let mut saved: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        saved["source"]["data"] = folder.join("patients.csv").display().to_string().into();
        let source: Source = serde_json::from_value(saved["source"].clone()).expect("a source");
        let fingerprint: Fingerprint = serde_json::from_value(saved["fingerprint"].clone()).expect("one");
        let regression = reopen(&source).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(fingerprint.difference(&regression).expect("compared"), None, "{name}");
    }
}

#[test]
fn regressions_are_opened_from_their_source() {
    let text = "x,g,y\n1,a,10\n2,b,30\n3,a,20\n4,c,50\n7,b,40\n9,c,10\n";
    let regression = Regression::new("y ~ poly(x, 2) + (1 | g)", &parsed(text)).expect("a regression");
    let again = reopen(&regression.source().expect("a source")).expect("opened");
    let fingerprint = Fingerprint::of(&regression).expect("a fingerprint");
    assert_eq!(fingerprint.difference(&again).expect("compared"), None);
    let file = file(text.as_bytes());
    let frame = Frame::read(file.path(), &ReadOptions::default()).expect("a frame");
    let regression = Regression::new("y ~ poly(x, 2) + (1 | g)", &frame).expect("a regression");
    let again = reopen(&regression.source().expect("a source")).expect("opened");
    assert_eq!(fingerprint.difference(&again).expect("compared"), None);
}

#[test]
fn new_rows_are_predicted() {
    let mut noise = Noise(4);
    let mut text = "x,site,team,y\n".to_owned();
    for i in 0..60 {
        let (x, site, team) = (10.0 + noise.normal(), ["Oslo", "Rome"][i % 2], i / 2 % 6);
        let y =
            2.0 * x + if site == "Rome" { 5.0 } else { 0.0 } + [3.0, -2.0, 1.0, 0.0, -4.0, 2.0][team] + noise.normal();
        text += &format!("{x},{site},{team},{y}\n");
    }
    let regression = regress("y ~ x + site + (1 | team)", Family::Gaussian, &text).expect("a regression");
    let posterior = infer(regression.clone(), &quick()).expect("fitted");
    let new = parsed("site,x,team\nRome,10,0\nOslo,10,0\nRome,10,seventh\n");
    let predict = |frame: &Frame, groups| {
        let options = PredictionOptions { groups, ..PredictionOptions::default() };
        regression.predict(frame, &posterior.draws.z[..4000], &options, Hardware::with_threads(1))
    };
    let p = predict(&new, NewGroups::Draw).expect("predicted");
    assert_eq!((p.rows.as_slice(), p.new_groups.as_slice()), (&[0, 1, 2][..], &["team `seventh`".to_owned()][..]));
    let mean = |row: usize| moments(&p.mean.column(row));
    assert!((mean(0).0 - 28.0).abs() < 1.0 && (mean(0).0 - mean(1).0 - 5.0).abs() < 1.0, "{:?} {:?}", mean(0), mean(1));
    // A team that was not seen may be any.
    assert!((mean(2).0 - 25.0).abs() < 1.5 && mean(2).1 > 3.0 * mean(0).1, "{:?}", mean(2));
    let drawn = moments(&p.drawn.column(0));
    assert!(drawn.1 > 0.8 && drawn.1 < 1.5, "{drawn:?}");
    let says = |frame: &Frame, groups| predict(frame, groups).expect_err("refused").to_string();
    assert!(says(&new, NewGroups::Refuse).contains("`seventh` of `team` was not fitted"));
    let bergen = parsed("site,x,team\nBergen,10,0\n");
    assert!(says(&bergen, NewGroups::Draw).contains("`Bergen` (once: line 2) is none of the levels that were fitted"));
    assert!(says(&parsed("x,team\n1,2\n"), NewGroups::Draw).contains("there is no column `site`"));
    // The rows that were fitted are predicted as they were fitted.
    let fitted = predict(&parsed(&text), NewGroups::Refuse).expect("predicted");
    let q = regression.quantities(&posterior.draws.z[..1], Some(1), Hardware::with_threads(1)).expect("quantities");
    let sigma = q.generated.iter().find(|q| q.name == "sigma").expect("sigma").values[0];
    let observed = regression.observations().expect("observed");
    let log =
        -0.5 * ((observed[0].values[7] - fitted.mean.values[7]) / sigma).powi(2) - sigma.ln() - 0.918_938_533_204_672_7;
    assert!((log - q.log_likelihood[0].values[7]).abs() < 1e-9);
}

/// Rows of three columns, two groupings and responses of each kind.
fn grouped(noise: &mut Noise) -> String {
    let mut text = "x,g,h,y,n,b\n".to_owned();
    for i in 0..40 {
        let (x, g, h) = (noise.normal(), i % 5, (i * 7 + i / 9) % 4);
        let eta = 0.5 * x + [0.4, -0.6, 0.2, 0.0, 0.5][g] * (1.0 + x) + [0.3, -0.2, 0.0, 0.1][h];
        let (y, n) = (eta + noise.normal(), (eta.exp() * 2.0 * noise.uniform()).round());
        text += &format!("{x},g{g},h{h},{y},{n},{}\n", u8::from(noise.uniform() < 1.0 / (1.0 + (-eta).exp())));
    }
    text
}

/// The same regression with effects integrated out, and with plain ones.
fn both(formula: &str, family: Family, text: &str) -> [Regression; 2] {
    [Coordinates::Conditional, Coordinates::NonCentred].map(|coordinates| {
        let options = Options { family, coordinates, ..Options::default() };
        Regression::with(formula, &parsed(text), &options).unwrap_or_else(|e| panic!("{formula}: {e}"))
    })
}

fn density(r: &Regression, places: &[Vec<f64>]) -> Vec<f64> {
    mcvi::log_density(r, places).expect("densities")
}

/// Parameters at a point, and quantities generated from them.
fn at(r: &Regression, z: &[f64]) -> (Vec<Quantity>, BTreeMap<String, Vec<f64>>) {
    let q = r.quantities(&[z.to_vec()], None, Hardware::with_threads(1)).expect("quantities");
    (q.parameters, q.generated.into_iter().map(|q| (q.name, q.values)).collect())
}

/// The point of the plain model at the same parameters, where effects are 0, and by how much its other free coordinates are more
/// spread out.
fn plain_point(models: &[Regression; 2], z: &[f64]) -> (Vec<f64>, f64) {
    let plain = &models[1];
    let is_effect = |p: &&mcvi::Parameter| p.name.starts_with("z_");
    let effects = plain.parameters().iter().filter(is_effect).map(|p| p.shape.iter().product::<usize>()).sum::<usize>();
    let free = plain.dim() - effects;
    let point = |z: &[f64]| {
        let (own, _) = at(&models[0], z);
        let of = |p: &mcvi::Parameter| {
            let zero = || vec![0.0; p.shape.iter().product()];
            let values =
                own.iter().find(|q| q.name == p.name && !is_effect(&p)).map_or_else(zero, |q| q.values.clone());
            Quantity { name: p.name.clone(), shape: p.shape.clone(), values }
        };
        let parameters: Vec<Quantity> = plain.parameters().iter().map(of).collect();
        plain.unconstrained(&parameters).expect("free coordinates").remove(0)
    };
    let moved = |i: usize, by: f64| {
        let mut z = z.to_vec();
        z[i] += by;
        point(&z)
    };
    let slopes = nalgebra::DMatrix::from_fn(free, free, |i, j| (moved(j, 1e-5)[i] - moved(j, -1e-5)[i]) / 2e-5);
    (point(z), slopes.determinant().abs().ln())
}

/// ln ∫ exp(f) over some coordinates that do not depend on the others, and are 0 to begin with; relative to f there.
fn integral(r: &Regression, start: &[f64], coordinates: &[usize]) -> f64 {
    let (steps, width) = (if coordinates.len() == 1 { 401 } else { 97 }, 8.0);
    let spacing = 2.0 * width / (steps - 1) as f64;
    let count = (steps as usize).pow(coordinates.len() as u32);
    let place = |n: usize| {
        let mut z = start.to_vec();
        for (c, i) in coordinates.iter().enumerate() {
            z[*i] = -width + spacing * (n / (steps as usize).pow(c as u32) % steps as usize) as f64;
        }
        z
    };
    let here = density(r, &[start.to_vec()])[0];
    let all = density(r, &(0..count).map(place).collect::<Vec<_>>());
    let sum: f64 = all.iter().map(|f| (f - here).exp()).sum();
    sum.ln() + coordinates.len() as f64 * spacing.ln()
}

#[test]
fn the_model_is_the_same_whatever_its_coordinates() {
    let text = grouped(&mut Noise(5));
    let cases = [
        ("y ~ x + (1 | g)", Family::Gaussian, 1),
        ("y ~ x + (1 + x | g)", Family::Gaussian, 2),
        ("y ~ x + (1 | g)", Family::Student, 1),
        ("n ~ x + (1 | g)", Family::Poisson, 1),
        ("n ~ x + (1 + x | g)", Family::Negbinomial, 2),
        ("b ~ x + (0 + x | g)", Family::Bernoulli, 1),
    ];
    for (formula, family, k) in cases {
        let models = both(formula, family, &text);
        let mut noise = Noise(6);
        for _ in 0..3 {
            // All effects are integrated out, of one group after the other, unless the model does so.
            let free = models[1].dim() - 5 * k;
            let mut z: Vec<f64> = (0..free).map(|_| 0.5 * noise.normal()).collect();
            z.resize(models[0].dim(), 0.0);
            let (start, log_slopes) = plain_point(&models, &z);
            let whole = |model: &Regression, start: &[f64]| {
                let of_group = |j: usize| (0..k).map(|c| free + c * 5 + j).collect::<Vec<_>>();
                let groups = if start.len() > free { 5 } else { 0 };
                let integrals: f64 = (0..groups).map(|j| integral(model, start, &of_group(j))).sum();
                density(model, &[start.to_vec()])[0] + integrals
            };
            let (found, exact) = (whole(&models[0], &z), whole(&models[1], &start) + log_slopes);
            assert!((found - exact).abs() < 1e-5, "{formula}, {}: {found}, not {exact}", family.name());
        }
    }
}

#[test]
fn nested_effects_have_the_density_of_a_normal_distribution() {
    let text = grouped(&mut Noise(5));
    let models = both("y ~ x + (1 | g/h)", Family::Gaussian, &text);
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    let of = |name: &str| -> Vec<&str> {
        let column = lines[0].iter().position(|c| *c == name).expect("a column");
        lines[1..].iter().map(|line| line[column]).collect()
    };
    let number = |name: &str| -> Vec<f64> { of(name).iter().map(|x| x.parse().expect("a number")).collect() };
    let (x, y, g, h) = (number("x"), number("y"), of("g"), of("h"));
    let (n, groups) = (y.len(), g.iter().collect::<std::collections::BTreeSet<_>>().len());
    let free = models[0].dim() - groups;
    let mut noise = Noise(8);
    let hyper: Vec<f64> = (0..free).map(|_| 0.4 * noise.normal()).collect();
    let z = [hyper.as_slice(), &vec![0.0; groups]].concat();
    // What is left of the density once the remaining effects are integrated out, one group at a time.
    let left = (0..groups).map(|j| integral(&models[0], &z, &[free + j])).sum::<f64>();
    let found = density(&models[0], std::slice::from_ref(&z))[0] + left;

    let (start, log_slopes) = plain_point(&models, &z);
    let (_, q) = at(&models[1], &start);
    let mean: Vec<f64> = x.iter().map(|x| q["intercept"][0] + q["beta_x"][0] * x).collect();
    let (sigma, a, b) = (q["sigma"][0], q["sd_g_intercept"][0], q["sd_g.h_intercept"][0]);
    let ln_2pi = std::f64::consts::TAU.ln();
    let alone: f64 = y.iter().zip(&mean).map(|(y, m)| -0.5 * (ln_2pi + ((y - m) / sigma).powi(2)) - sigma.ln()).sum();
    let effects = (start.len() - free) as f64;
    let prior = density(&models[1], &[start])[0] - alone + 0.5 * ln_2pi * effects;
    let covariance = nalgebra::DMatrix::from_fn(n, n, |i, j| {
        let same = |yes: bool, v: f64| if yes { v } else { 0.0 };
        let (of_g, of_h) = (g[i] == g[j], g[i] == g[j] && h[i] == h[j]);
        same(i == j, sigma * sigma) + same(of_g, a * a) + same(of_h, b * b)
    });
    let factor = covariance.cholesky().expect("positive");
    let apart = nalgebra::DVector::from_fn(n, |i, _| y[i] - mean[i]);
    let log_det: f64 = factor.l().diagonal().iter().map(|d| d.ln()).sum();
    let normal = -0.5 * (n as f64 * ln_2pi + apart.dot(&factor.solve(&apart))) - log_det;
    let exact = prior + normal + log_slopes;
    assert!((found - exact).abs() < 1e-6, "{found}, not {exact}");
}

#[test]
fn effects_that_were_integrated_out_are_drawn() {
    // Given all else, e of a group is normal with the moments of a weighted mean; many draws of one point show them.
    let text = grouped(&mut Noise(5));
    let models = both("y ~ x + (1 | g)", Family::Gaussian, &text);
    let mut noise = Noise(9);
    // Points that hardly differ, with noise of their own each.
    let point: Vec<f64> = (0..models[0].dim()).map(|_| 0.5 * noise.normal()).collect();
    let z: Vec<Vec<f64>> = (0..4000).map(|i| point.iter().map(|x| x + 1e-9 * f64::from(i)).collect()).collect();
    let drawn = models[0].quantities(&z, None, Hardware::with_threads(1)).expect("quantities");
    assert_eq!(drawn, models[0].quantities(&z, None, Hardware::with_threads(2)).expect("the same"));
    let effects = drawn.generated.iter().find(|q| q.name == "r_g_intercept").expect("effects");
    let sd = drawn.generated.iter().find(|q| q.name == "sd_g_intercept").expect("their spread").values[0];
    let (start, _) = plain_point(&models, &point);
    let first = start.len() - effects.size();
    for j in 0..effects.size() {
        let grid: Vec<f64> = (0..801).map(|i| -8.0 + 0.02 * f64::from(i)).collect();
        let place = |e: &f64| {
            let mut z = start.clone();
            z[first + j] = *e;
            z
        };
        let logs = density(&models[1], &grid.iter().map(place).collect::<Vec<_>>());
        let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = logs.iter().map(|l| (l - top).exp()).collect();
        let total: f64 = weights.iter().sum();
        let mean = grid.iter().zip(&weights).map(|(e, w)| e * w).sum::<f64>() / total;
        let variance = grid.iter().zip(&weights).map(|(e, w)| (e - mean).powi(2) * w).sum::<f64>() / total;
        let (found, spread) = moments(&effects.column(j).iter().map(|r| r / sd).collect::<Vec<f64>>());
        let se = (variance / 4000.0).sqrt();
        assert!((found - mean).abs() < 4.5 * se, "{j}: {found}, not {mean} ± {se}");
        assert!((spread / variance.sqrt() - 1.0).abs() < 0.06, "{j}: {spread}, not {}", variance.sqrt());
    }
}

#[test]
fn group_effects_are_closer_to_a_gaussian_in_conditional_coordinates() {
    let mut noise = Noise(7);
    let mut text = "x,g,y\n".to_owned();
    for i in 0..200 {
        let (x, g) = (noise.normal(), i % 17);
        text += &format!("{x},g{g},{}\n", 1.0 + 0.5 * x + f64::from(g as u8 % 5) * 0.4 + noise.normal());
    }
    let regression = regress("y ~ x + (1 | g)", Family::Gaussian, &text).expect("a regression");
    let plain = Options { coordinates: Coordinates::NonCentred, ..Options::default() };
    let plain = Regression::with("y ~ x + (1 | g)", &parsed(&text), &plain).expect("a regression");
    let share = |r: Regression| infer(r, &quick()).expect("fitted").effective_share();
    let (conditional, plain) = (share(regression), share(plain));
    assert!(conditional > 0.25 && conditional > plain, "{conditional} {plain}");
    let drawn = regress("y ~ x + (1 | g)", Family::Gaussian, &text).expect("a regression").prior(50, 1).expect("draws");
    assert!(drawn.parameters.iter().all(|p| p.values.iter().all(|x| x.is_finite())));
}

#[test]
fn conditional_effects_vary_one_column_with_others_as_usual() {
    let text = "y,x,c,g\n1,0,a,p\n2,1,b,q\n4,2,a,p\n7,3,a,q\n9,4,b,p\n12,5,a,q\n";
    let r = Regression::new("y ~ x + c", &parsed(text)).expect("a model");
    let z = vec![vec![0.3, -0.2, 0.4, 0.1]];
    let (_, q) = at(&r, &z[0]);
    let effects = r.conditional_effects(&z, Hardware::with_threads(1)).expect("effects");
    assert_eq!(effects.iter().map(|e| e.column.as_str()).collect::<Vec<_>>(), ["x", "c"]);
    let of = |e: &mcvi::ConditionalEffect| e.curves[0].quantiles.iter().map(|q| q[1]).collect::<Vec<f64>>();
    // Most rows are a; the median of x is one of its values.
    assert_eq!(effects[0].places, mcvi::Places::Numbers(vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0]));
    for (x, mean) in of(&effects[0]).into_iter().enumerate() {
        let exact = q["intercept"][0] + q["beta_x"][0] * x as f64;
        assert!((mean - exact).abs() < 1e-9, "{x}: {mean}, not {exact}");
    }
    assert_eq!(effects[1].places, mcvi::Places::Levels(vec!["a".to_owned(), "b".to_owned()]));
    let apart = of(&effects[1]);
    assert!((apart[1] - apart[0] - q["beta_c_b"][0]).abs() < 1e-9, "{apart:?}");
    // With groups, the effects are those of a group that was not fitted.
    let grouped = Regression::new("y ~ x + (1 | g)", &parsed(text)).expect("a model");
    let effects = grouped.conditional_effects(&[vec![0.1; grouped.dim()]], Hardware::with_threads(1)).expect("effects");
    assert_eq!(effects.len(), 1);
}

#[test]
fn rows_of_no_weight_leave_the_density_finite() {
    let text = "y,c,g,w\n1,0,p,1\n2,0,q,1\n4,0,p,1\n7,0,q,2\n9,1,p,0\n12,1,q,0\n";
    // The column varies where weights are 0 alone, or groups have no weight at all.
    for formula in ["y | weights(w) ~ 0 + c + (1 | g)", "y | weights(w) ~ (1 | c)"] {
        let r = Regression::new(formula, &parsed(text)).expect("a model");
        let values = density(&r, &[vec![0.0; r.dim()], vec![0.5; r.dim()]]);
        assert!(values.iter().all(|v| v.is_finite()), "{formula}: {values:?}");
    }
}

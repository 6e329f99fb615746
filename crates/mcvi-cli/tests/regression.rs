//! Regressions from the command line: formulas, predictions, comparisons, programs.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// A fit of a moment.
const QUICK: [&str; 8] = ["--chain", "none", "--starts", "1", "--iterations", "300", "--draws", "200"];

fn mcvi(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mcvi")).args(arguments).output().expect("the command starts")
}

fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn refused(arguments: &[&str], says: &str) {
    let output = mcvi(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(says), "{said}");
    assert!(output.stdout.is_empty());
}

fn table(path: &Path) -> String {
    let row = |i: usize| {
        let (x, g) = (((i * 7) % 11) as f64, i % 4);
        format!("{x},g{g},{}\n", 2.0 + 0.5 * x + g as f64 + ((i * 13) % 7) as f64 / 3.0)
    };
    std::fs::write(path, format!("x,g,y\n{}", (0..40).map(row).collect::<String>())).expect("written");
    path.display().to_string()
}

#[test]
fn regressions_are_fitted_predicted_and_compared() {
    let base = tempfile::tempdir().expect("a folder");
    let at = |name: &str| base.path().join(name).display().to_string();
    let data = table(&base.path().join("d.csv"));
    for (formula, run) in [("y ~ x + (1 | g)", "a"), ("y ~ 1", "b")] {
        let fitted = mcvi(&[&["fit", formula, "--data", &data, "--json", "--out", &at(run)][..], &QUICK].concat());
        let json: Value = serde_json::from_str(&succeeded(&fitted)).expect("JSON");
        // Coefficients come first, on the scale of the data.
        let first = json["parameters"].as_object().expect("an object").keys().next().expect("one").clone();
        assert_eq!((first.as_str(), &json["model"]), ("intercept", &"gaussian".into()));
    }
    std::fs::write(at("new.csv"), "x,g\n3,g1\n3,g9\n").expect("written");
    let predicted = mcvi(&["predict", &at("a"), "--data", &at("new.csv"), "--draws", "500"]);
    assert!(String::from_utf8_lossy(&predicted.stderr).contains("the group g `g9` was not fitted"));
    let rows: Vec<Vec<f64>> = succeeded(&predicted)
        .lines()
        .skip(1)
        .map(|line| line.split(',').map(|cell| cell.parse().expect("a number")).collect())
        .collect();
    assert_eq!((rows.len(), rows[0][0], rows[1][0]), (2, 1.0, 2.0));
    // row, mean, sd, mean_low, mean_high, new_low, new_high: a group that was not fitted is less certain.
    assert!((rows[0][1] - 5.4).abs() < 1.0 && rows[1][2] > 2.0 * rows[0][2], "{rows:?}");
    assert!(rows[0][5] < rows[0][3] && rows[0][4] < rows[0][6], "{rows:?}");
    let drawn = succeeded(&mcvi(&["predict", &at("a"), "--data", &at("new.csv"), "--draws", "50", "--raw"]));
    assert_eq!((drawn.lines().count(), drawn.lines().next()), (51, Some("1,2")));
    refused(&["predict", &at("a"), "--data", &at("new.csv"), "--new-groups", "refuse"], "`g9` of `g` was not fitted");
    refused(&["predict", &at("a"), "--data", &data, "--interval", "2"], "between 0 and 1");

    let compared = succeeded(&mcvi(&["compare", &at("b"), &at("a"), "--json"]));
    let fits = serde_json::from_str::<Value>(&compared).expect("JSON")["fits"].clone();
    assert_eq!((&fits[0]["run"], &fits[0]["difference"]["value"]), (&at("a").into(), &0.0.into()));
    let worse = &fits[1]["difference"];
    assert!(worse["value"].as_f64().expect("a number") < -10.0 && worse["se"].as_f64().expect("a number") > 0.5);
    assert!(fits[0]["log_evidence"]["value"].as_f64() > fits[1]["log_evidence"]["value"].as_f64());
    let text = succeeded(&mcvi(&["compare", &at("b"), &at("a")]));
    assert!(text.lines().take(3).all(|line| line.chars().count() <= 160) && text.contains("elpd"), "{text}");
    assert!(text.contains(&format!("{} is gaussian: `y ~ 1`", at("b"))), "{text}");
}

#[test]
fn every_column_of_predicted_categories_has_its_own_name() {
    let base = tempfile::tempdir().expect("a folder");
    let at = |name: &str| base.path().join(name).display().to_string();
    let row = |i: usize| format!("{},{}\n", i % 7, ["low", "high"][(i + i % 7) / 4 % 2]);
    std::fs::write(at("d.csv"), format!("x,y\n{}", (0..30).map(row).collect::<String>())).expect("written");
    let family = ["--family", "categorical", "--out", &at("a")];
    succeeded(&mcvi(&[&["fit", "y ~ x", "--data", &at("d.csv")][..], &family, &QUICK].concat()));
    let predicted = succeeded(&mcvi(&["predict", &at("a"), "--data", &at("d.csv"), "--draws", "50"]));
    let expected = r#"row,"P(high)","sd(high)","low(high)","high(high)","P(low)","sd(low)","low(low)","high(low)""#;
    assert_eq!(predicted.lines().next(), Some(expected));
}

#[test]
fn mistakes_in_formulas_show_their_place() {
    let base = tempfile::tempdir().expect("a folder");
    let data = table(&base.path().join("d.csv"));
    refused(&["fit", "y ~ x + (1 | g", "--data", &data], "  y ~ x + (1 | g\n                ^");
    refused(&["fit", "y ~ x"], "needs data: --data FILE.csv");
    refused(&["fit", "y ~ xx", "--data", &data], "did you mean `x`?");
    refused(&["fit", "y ~ x", "--data", &data, "--family", "poison"], "did you mean poisson?");
    refused(&["fit", "y ~ x", "--data", &data, "--prior", "z ~ normal(0, 1)"], "there is no parameter `z`");
    refused(&["fit", "y ~ x", "--data", &data, "--target", "y"], "omit --target");
    refused(&["fit", "banana", "--family", "gamma"], "--family is for regressions");
    let priors = base.path().join("priors.toml").display().to_string();
    std::fs::write(&priors, "x = 3\n").expect("written");
    refused(&["fit", "y ~ x", "--data", &data, "--prior-file", &priors], "write x = \"normal(0, 1)\"");
}

#[test]
fn programs_are_shown_and_can_be_fitted() {
    let base = tempfile::tempdir().expect("a folder");
    let data = table(&base.path().join("d.csv"));
    let show = |what: &str| succeeded(&mcvi(&["fit", "y ~ x + (1 | g)", "--data", &data, "--show", what]));
    let (program, values) = (base.path().join("m.stan"), base.path().join("d.json"));
    std::fs::write(&program, show("stan")).expect("written");
    std::fs::write(&values, show("stan-data")).expect("written");
    let (program, values) = (program.display().to_string(), values.display().to_string());
    succeeded(&mcvi(&["stan", "check", &program]));
    succeeded(&mcvi(&[&["fit", &program, "--data", &values, "--json"][..], &QUICK].concat()));
    refused(&["fit", "banana", "--show", "stan"], "--show is for regressions");
}

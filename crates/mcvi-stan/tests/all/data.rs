//! Data and transformed data.

use crate::{assert_near, log_density, posterior, refusal};
use serde_json::json;

const PROGRAM: &str = "data { int<lower=1> N; array[N] int<upper=9> k; vector[N] y; matrix[2, 3] m; simplex[2] p; }
    parameters { real x; }
    model { target += x * (sum(k) + y[N] + m[1, 3] + p[2]); }";

fn good() -> serde_json::Value {
    json!({ "N": 2, "k": [1, 2], "y": [0.5, "-Inf"], "m": [[1, 2, 3], [4, 5, 6]], "p": [0.25, 0.75] })
}

fn with(key: &str, value: serde_json::Value) -> serde_json::Value {
    let mut data = good();
    data[key] = value;
    data
}

#[test]
fn every_mistake_names_the_item() {
    let cases = [
        ("k", json!([1]), "the data item k has 1 elements where 2 are declared"),
        ("k", json!([1, 2.5]), "the data item k[2] must be a whole number, not 2.5"),
        ("k", json!(1), "the data item k must be a list of 2"),
        ("k", json!([1, 12]), "`k` is 12 at element 2, above its upper bound 9"),
        ("N", json!(0), "`N` is 0, below its lower bound 1"),
        ("m", json!([[1, 2, 3], [4, 5]]), "the data item m[2] has 2 elements where 3 are declared"),
        ("y", json!([1, "one"]), "the data item y[2] must be a number, not \"one\""),
        ("p", json!([0.5, 0.6]), "`p` is not a simplex: nonnegative numbers that sum to 1"),
    ];
    for (key, value, expected) in cases {
        assert_eq!(refusal(PROGRAM, with(key, value)), expected);
    }
    let mut missing = good();
    missing.as_object_mut().unwrap().remove("y");
    assert_eq!(refusal(PROGRAM, missing), "the data item y is missing");
}

#[test]
fn matrices_are_lists_of_rows() {
    let p = posterior(PROGRAM, with("y", json!([0, 0.5])));
    assert_near(log_density(&p, &[2.0]), 2.0 * (3.0 + 0.5 + 3.0 + 0.75));
}

#[test]
fn containers_without_elements() {
    let text = "data { int N; vector[N] y; array[N, 3] int k; } parameters { real x; vector[N] b; }
        model { y ~ normal(x, 1); b ~ normal(0, 1); target += sum(y) + x; }";
    let p = posterior(text, json!({ "N": 0, "y": [], "k": [] }));
    assert_near(log_density(&p, &[1.5]), 1.5);
}

#[test]
fn transformed_data_run_on_the_host() {
    let text = "data { int N; vector[N] y; }
        transformed data {
          array[N] int order = sort_indices_desc(y);
          vector[N] z = (y - mean(y)) / sd(y);
          matrix[N, N] S = crossprod(diag_matrix(y)) + 0.5;
          real q = quad_form(inverse(S), y);
          int<lower=0> count = 0;
          for (n in 1:N) { if (z[n] > 0) count += 1; }
        }
        parameters { real x; }
        model { target += x * (order[1] + z[1] * sqrt(2) + count * 10 + q - y' * (S \\ y)); }";
    let p = posterior(text, json!({ "N": 2, "y": [3.0, 1.0] }));
    assert_near(log_density(&p, &[1.0]), 1.0 + 1.0 + 10.0);
    let negative = text.replace("count = 0", "count = -5");
    let message = refusal(&negative, json!({ "N": 2, "y": [3.0, 1.0] }));
    assert_eq!(message, "`count` is -4, below its lower bound 0");
}

#[test]
fn columns_of_a_table_are_data() {
    let folder = std::env::temp_dir().join(format!("mcvi-stan-csv-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (program, data) = (folder.join("a.stan"), folder.join("a.csv"));
    let text = "data { int<lower=1> N; vector[N] x; array[N] int y; } parameters { real a; } model { y ~ poisson_log(a * x); }";
    std::fs::write(&program, text).unwrap();
    std::fs::write(&data, "y,x,name\n1,0.5,one\n3,-2e-1,two\n").unwrap();
    let model = mcvi_stan::StanModel::open(&program, Some(&data)).unwrap();
    assert_eq!(model.posterior().data("N").unwrap().1, [2.0]);
    assert_eq!(model.posterior().data("x").unwrap().1, [0.5, -0.2]);
    std::fs::write(&data, "y,x\n1,0.5\n3,many\n").unwrap();
    let why = mcvi_stan::StanModel::open(&program, Some(&data)).unwrap_err().to_string();
    assert!(why.contains("line 3, column x: \"many\" is not a number"), "{why}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn files_may_have_numbers_that_are_not_finite() {
    let folder = std::env::temp_dir().join(format!("mcvi-stan-data-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (program, data) = (folder.join("m.stan"), folder.join("d.json"));
    let text = "data { array[4] real y; int n; } parameters { real x; } model { x ~ normal(is_nan(y[1]) + y[4], 1); }";
    std::fs::write(&program, text).unwrap();
    let open = |text: &str| {
        std::fs::write(&data, text).unwrap();
        mcvi_stan::StanModel::open(&program, Some(&data)).map_err(|e| e.to_string())
    };
    let model = open("{\"a NaN\": [NaN], \"y\": [NaN, -Infinity,Inf, 2.5e-1], \"n\":3}").unwrap();
    let (_, y) = model.posterior().data("y").unwrap();
    assert!(y[0].is_nan() && y[1] == f64::NEG_INFINITY && y[2] == f64::INFINITY && y[3] == 0.25);
    assert!(open("[1, 2]").unwrap_err().contains("must be an object"));
    assert!(open("{\"y\": [NaN, }").unwrap_err().contains("is not JSON"));
    std::fs::remove_dir_all(&folder).unwrap();
}

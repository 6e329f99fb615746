//! What is written opens with Python's tools, where there are any: `MCVI_PYTHON` may name the interpreter.

mod common;
#[path = "common/python.rs"]
mod interpreter;

use common::gaussians;
use interpreter::python;
use mcvi_cli::store::zarr::{Group, Values, Variable};
use mcvi_cli::store::{arrow, csv, zarr};
use serde_json::{Map, json};

const DRAWS: usize = 1000;
const DATA: usize = 20;

fn drawn(name: &str, seed: u64, inner: &[(&str, usize)], place: f64) -> Variable {
    let outer = [("chain", 1), ("draw", DRAWS)];
    let dims: Vec<(String, usize)> =
        outer.iter().chain(inner).map(|(dim, length)| (dim.to_string(), *length)).collect();
    let n = dims.iter().map(|(_, length)| length).product();
    let values = gaussians(seed, n).into_iter().map(|x| place + 0.1 * x).collect();
    Variable { name: name.to_owned(), dims, values: Values::F64(values) }
}

fn group(name: &str, variables: Vec<Variable>) -> Group {
    let mut attributes = Map::new();
    attributes.insert("inference_library".to_owned(), json!("mcvi"));
    Group { name: name.to_owned(), attributes, variables }
}

#[test]
fn arviz_opens_the_store() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("draws.zarr");
    let counts = (0..DATA as i64).map(|i| i % 3).collect();
    let observed =
        Variable { name: "y".to_owned(), dims: vec![("y_dim_0".to_owned(), DATA)], values: Values::I64(counts) };
    let mut lp = gaussians(9, DRAWS);
    (lp[0], lp[1]) = (f64::NAN, f64::NEG_INFINITY);
    let lp = Variable {
        name: "lp".to_owned(),
        dims: vec![("chain".to_owned(), 1), ("draw".to_owned(), DRAWS)],
        values: Values::F64(lp),
    };
    let parameters = |seed| vec![drawn("mu", seed, &[], 1.0), drawn("theta", seed + 1, &[("theta_dim_0", 3)], -2.0)];
    let groups = [
        group("posterior", parameters(1)),
        group("posterior_predictive", vec![drawn("y", 3, &[("y_dim_0", DATA)], 1.0)]),
        group("prior", parameters(5)),
        group("log_likelihood", vec![drawn("y", 7, &[("y_dim_0", DATA)], -1.0)]),
        group("observed_data", vec![observed]),
        group("sample_stats", vec![lp]),
    ];
    zarr::write(&path, &groups).expect("written");
    python("arviz, zarr", "arviz_opens.py", &[&path]);
}

#[test]
fn pandas_pyarrow_and_polars_open_the_tables() {
    let folder = tempfile::tempdir().expect("a folder");
    let (text, binary) = (folder.path().join("draws.csv"), folder.path().join("draws.arrow"));
    let mut columns: Vec<(String, Vec<f64>)> =
        ["theta[0]", "b[1,2]", "ü"].iter().zip(1..).map(|(name, i)| (name.to_string(), gaussians(i, DRAWS))).collect();
    for (column, value) in columns.iter_mut().zip([0.1, f64::NEG_INFINITY, 1e300]) {
        column.1[0] = value;
    }
    columns[1].1[1] = f64::NAN;
    csv::write(&text, &columns).expect("written");
    arrow::write(&binary, &columns).expect("written");
    python("pandas, pyarrow, polars", "tables_open.py", &[&text, &binary]);
}

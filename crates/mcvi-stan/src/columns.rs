//! Data from a CSV file with a header: each column is a data item of one dimension, and their length the sizes they have.

use crate::posterior::declarations;
use crate::syntax::ast::{Declaration, Element, ExprKind, Tree};
use serde_json::{Map, Value as Json, json};

/// The data items that a file's columns are.
pub fn read(text: &str, tree: &Tree) -> Result<Json, String> {
    let mut reader =
        csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.trim_start_matches('\u{feff}').as_bytes());
    let names: Vec<String> = reader.headers().map_err(|e| e.to_string())?.iter().map(str::to_owned).collect();
    let is_declared = |name: &String| declarations(&tree.data).any(|d| *d.name.text == **name);
    let mut columns: Vec<Vec<Json>> = vec![vec![]; names.len()];
    for (row, record) in reader.records().enumerate() {
        let record = record.map_err(|e| e.to_string())?;
        for ((name, column), cell) in names.iter().zip(&mut columns).zip(&record) {
            match number(cell) {
                Some(x) => column.push(x),
                // A column that the program does not use may hold anything.
                None if !is_declared(name) => column.push(Json::Null),
                None => return Err(format!("line {}, column {name}: {cell:?} is not a number", row + 2)),
            }
        }
    }
    let rows = columns.first().map_or(0, Vec::len);
    let mut items: Map<String, Json> = names.into_iter().zip(columns).map(|(n, c)| (n, Json::Array(c))).collect();
    let sizes: Vec<&str> =
        declarations(&tree.data).filter(|d| items.contains_key(&*d.name.text)).filter_map(size).collect();
    for name in sizes {
        items.entry(name).or_insert_with(|| json!(rows));
    }
    Ok(Json::Object(items))
}

fn number(cell: &str) -> Option<Json> {
    match (cell.parse::<i64>(), cell.parse::<f64>()) {
        (Ok(n), _) => Some(json!(n)),
        (_, Ok(x)) if x.is_finite() => Some(json!(x)),
        (_, Ok(_)) => Some(json!(cell)),
        _ => None,
    }
}

/// The variable that is the only size of a declaration.
fn size(declaration: &Declaration) -> Option<&str> {
    let Element::Base { sizes, .. } = &declaration.ty.element else { return None };
    let mut all = declaration.trailing.iter().chain(&declaration.ty.array).chain(sizes);
    match (all.next().map(|e| &e.kind), all.next()) {
        (Some(ExprKind::Variable(name)), None) => Some(&name.text),
        _ => None,
    }
}

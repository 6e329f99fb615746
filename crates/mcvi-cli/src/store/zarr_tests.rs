//! Tests of the store's bytes and documents, and of what is refused. `tests/arviz.rs` opens one with ArviZ.

use super::*;
use std::fs;

fn dims(dims: &[(&str, usize)]) -> Vec<(String, usize)> {
    dims.iter().map(|(name, length)| (name.to_string(), *length)).collect()
}

fn variable(name: &str, shape: &[(&str, usize)], n: usize) -> Variable {
    Variable { name: name.to_owned(), dims: dims(shape), values: Values::F64((0..n).map(|i| i as f64 / 2.0).collect()) }
}

fn group(variables: Vec<Variable>) -> Group {
    Group { name: "posterior".to_owned(), attributes: Map::new(), variables }
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("a file")).expect("JSON")
}

#[test]
fn arrays_are_raw_bytes_with_named_dimensions() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("draws.zarr");
    let mut posterior = group(vec![
        variable("theta", &[("chain", 1), ("draw", 3), ("theta_dim_0", 2)], 6),
        variable("one", &[], 1),
        variable("none", &[("chain", 1), ("draw", 3), ("none_dim_0", 0)], 0),
    ]);
    posterior.attributes.insert("inference_library".to_owned(), json!("mcvi"));
    write(&path, &[posterior]).expect("written");

    let at = path.join("posterior");
    let bytes: Vec<u8> = (0..6).flat_map(|i| (f64::from(i) / 2.0).to_le_bytes()).collect();
    assert_eq!(fs::read(at.join("theta/0.0.0")).expect("a chunk"), bytes);
    assert_eq!(fs::read(at.join("one/0")).expect("a chunk"), [0; 8]);
    let array = read(&at.join("theta/.zarray"));
    assert_eq!((&array["shape"], &array["chunks"]), (&json!([1, 3, 2]), &json!([1, 3, 2])));
    assert_eq!((&array["dtype"], &array["compressor"]), (&json!("<f8"), &Value::Null));
    assert_eq!(read(&at.join("theta/.zattrs"))["_ARRAY_DIMENSIONS"], json!(["chain", "draw", "theta_dim_0"]));
    assert_eq!(read(&at.join("none/.zarray"))["chunks"], json!([1, 3, 1]));
    assert_eq!(fs::read_dir(at.join("none")).expect("a folder").count(), 2, "no chunk");

    let draw: Vec<u8> = (0..3_i64).flat_map(i64::to_le_bytes).collect();
    assert_eq!(fs::read(at.join("draw/0")).expect("coordinates"), draw);
    assert_eq!(read(&at.join("draw/.zarray"))["dtype"], json!("<i8"));

    // Every document is in the consolidated one, too.
    let all = read(&path.join(".zmetadata"));
    let documents = all["metadata"].as_object().expect("an object");
    assert_eq!(documents.len(), 4 + 2 * (3 + 4));
    for (key, value) in documents {
        assert_eq!(&read(&path.join(key)), value, "{key}");
    }
}

#[test]
fn single_precision_is_compressed_and_kept_from_what_it_cannot_hold() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("draws.zarr");
    let n = 1000;
    let mut large = variable("large", &[("i", n)], n);
    large.values = Values::F64(vec![1.0 + WHOLE; n]);
    write(&path, &[group(vec![variable("theta", &[("i", n)], n).compact(), large.compact()])]).expect("written");
    let at = path.join("posterior");
    assert_eq!(read(&at.join("theta/.zarray"))["dtype"], json!("<f4"));
    assert_eq!(read(&at.join("theta/.zarray"))["compressor"]["id"], json!("zlib"));
    assert_eq!(read(&at.join("large/.zarray"))["dtype"], json!("<f8"));
    let packed = fs::read(at.join("theta/0")).expect("a chunk");
    let mut bytes = vec![];
    std::io::Read::read_to_end(&mut flate2::read::ZlibDecoder::new(&packed[..]), &mut bytes).expect("zlib");
    assert_eq!(bytes, (0..n).flat_map(|i| (i as f32 / 2.0).to_le_bytes()).collect::<Vec<u8>>());
}

#[test]
fn long_arrays_are_cut_into_slices() {
    let folder = tempfile::tempdir().expect("a folder");
    let long = variable("x", &[("chain", 1), ("draw", 7), ("x_dim_0", 2)], 14);
    write_chunked(folder.path(), &[group(vec![long])], 3 * 16).expect("written");
    let at = folder.path().join("posterior/x");
    assert_eq!(read(&at.join(".zarray"))["chunks"], json!([1, 3, 2]));
    let all: Vec<u8> = (0..3).flat_map(|i| fs::read(at.join(format!("0.{i}.0"))).expect("a chunk")).collect();
    let values = (0..14).flat_map(|i| (f64::from(i) / 2.0).to_le_bytes());
    assert_eq!(all, values.chain([0; 32]).collect::<Vec<u8>>(), "the last chunk is filled up");
    assert!(!at.join("0.3.0").exists());
}

#[test]
fn given_coordinates_are_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), &[group(vec![variable("year", &[("year", 2)], 2)])]).expect("written");
    let bytes = fs::read(folder.path().join("posterior/year/0")).expect("a chunk");
    assert_eq!(bytes[8..], 0.5_f64.to_le_bytes());
}

#[test]
fn what_does_not_fit_together_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    let x = || variable("x", &[("draw", 2)], 2);
    for (groups, says) in [
        (
            vec![group(vec![variable("x", &[("draw", 3)], 2)])],
            "group posterior: x has 2 values, which do not fill (draw: 3)",
        ),
        (vec![group(vec![x(), variable("y", &[("draw", 3)], 3)])], "draw has the length 2, but 3 in y"),
        (vec![group(vec![x(), x()])], "group posterior: there are two of the variable x"),
        (vec![group(vec![x()]), group(vec![])], "the store: there are two of the group posterior"),
        (vec![group(vec![variable("a/b", &[], 1)])], "a variable cannot be called \"a/b\""),
        (vec![group(vec![variable("..", &[], 1)])], "cannot be called"),
        (vec![group(vec![variable("x", &[("i", 1), ("i", 1)], 1)])], "two of the dimension i"),
    ] {
        let error = write(&path, &groups).expect_err(says).to_string();
        assert!(error.contains(says), "{error}");
        assert!(!path.exists());
    }
}

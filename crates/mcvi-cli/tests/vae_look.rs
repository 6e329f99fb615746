//! Looking at deep models as a user does: pictures, the report, and Table 1.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

const SIDE: usize = 8;

fn mcvi(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mcvi")).args(arguments).output().expect("the command starts")
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn json_of(arguments: &[&str]) -> Value {
    serde_json::from_str(&text(&mcvi(arguments))).expect("one JSON object")
}

/// Images of one or two bars, as NumPy saves them.
fn bars(path: &Path, count: usize, seed: usize) {
    let header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({count}, {SIDE}, {SIDE}), }}");
    let header = format!("{header:<117}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    for i in 0..count {
        let mix = (i + 1).wrapping_mul(2_654_435_761).wrapping_add(seed.wrapping_mul(40_503)) >> 7;
        let (row, column) = (mix % SIDE, mix / SIDE % (SIDE + 4));
        bytes.extend((0..SIDE * SIDE).map(|k| u8::from(k / SIDE == row || k % SIDE == column)));
    }
    std::fs::write(path, bytes).expect("written");
}

/// A small model with two leapfrogs and one without any, trained once for all tests.
static RUNS: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    std::fs::create_dir(&data).expect("a folder");
    for (i, (name, count)) in [("train", 300), ("valid", 60), ("test", 60)].into_iter().enumerate() {
        bars(&data.join(format!("{name}.npy")), count, i);
    }
    for leapfrogs in ["2", "0"] {
        let out = folder.path().join(format!("runs/l{leapfrogs}"));
        let options = "--hidden 16 --latent 4 --epochs 2 --batch 50 --threads 1".split(' ');
        let mut arguments = vec!["vae", "train", "--data", to(&data), "--out", to(&out), "--leapfrogs", leapfrogs];
        arguments.extend(options);
        text(&mcvi(&arguments));
    }
    folder
});

fn to(path: &Path) -> &str {
    path.to_str().expect("a name")
}

/// The small run with so many leapfrogs.
fn run(leapfrogs: usize) -> PathBuf {
    RUNS.path().join(format!("runs/l{leapfrogs}"))
}

/// Height, width and pixels of a grey PNG file.
fn decode(path: &Path) -> (usize, usize, Vec<u8>) {
    let file = std::io::BufReader::new(std::fs::File::open(path).expect("a file"));
    let mut reader = png::Decoder::new(file).read_info().expect("a picture");
    let mut picture = vec![0; reader.output_buffer_size().expect("a size")];
    let frame = reader.next_frame(&mut picture).expect("a picture");
    assert_eq!(frame.color_type, png::ColorType::Grayscale);
    (frame.height as usize, frame.width as usize, picture)
}

#[test]
fn samples_are_drawn_by_the_seed() {
    let run = run(2);
    assert!(text(&mcvi(&["vae", "sample", to(&run)])).contains("samples.png: 100 draws"));
    // Ten by ten images, seven times as large, a pixel between them.
    let (height, width, grey) = decode(&run.join("samples.png"));
    assert_eq!((height, width), (89 * 7, 89 * 7));
    assert!(grey.iter().any(|p| !matches!(p, 0 | 160 | 255)), "probabilities are shades");
    let drawn = |name: &str, more: &[&str]| {
        let out = RUNS.path().join(name);
        let result =
            json_of(&[&["vae", "sample", to(&run), "--json", "--count", "7", "--out", to(&out)], more].concat());
        assert_eq!((&result["file"], &result["count"]), (&json!(out), &json!(7)));
        decode(&out)
    };
    let binary = drawn("binary.png", &["--binary"]);
    assert!(binary.2.iter().all(|p| matches!(p, 0 | 160 | 255)), "drawn pixels are black or white");
    assert!(binary.2.contains(&0) && binary.2.contains(&255));
    assert_eq!(binary, drawn("again.png", &["--binary"]));
    assert_ne!(binary, drawn("other.png", &["--binary", "--seed", "2"]));
}

#[test]
fn reconstructions_stand_beside_their_images() {
    let run = run(2);
    let result = json_of(&["vae", "reconstruct", to(&run), "--json", "--count", "10"]);
    let which = result["images"].as_array().expect("a list");
    assert_eq!(which.len(), 10);
    assert_ne!(which, &(0..10).map(|i| json!(i)).collect::<Vec<_>>(), "never the head of the file");
    let (height, width, picture) = decode(Path::new(result["file"].as_str().expect("a name")));
    // Eight pairs beside each other, two below them.
    assert_eq!((height, width), ((2 * SIDE + 2) * 7, (8 * (2 * SIDE + 1) + 7 * 2) * 7));
    let first = &picture[..SIDE * 7];
    assert!(first.iter().all(|p| matches!(p, 0 | 255)), "left are the images, which are binary");
    // More images than there are: all of them.
    let all = json_of(&["vae", "reconstruct", to(&run), "--json", "--split", "valid", "--count", "1000"]);
    assert_eq!(all["count"], 60);
}

#[test]
fn the_report_has_everything_and_nothing_from_elsewhere() {
    let run = run(2);
    let page = RUNS.path().join("page.html");
    let result = json_of(&["vae", "report", to(&run), "--out", to(&page), "--json"]);
    let after = result["leapfrogs"]["after"].as_array().expect("a list");
    assert_eq!(after.len(), 3);
    assert!(after.iter().all(|s| s["bound"]["value"].is_f64() && s["log_joint"]["se"].is_f64()), "{result}");
    let html = std::fs::read_to_string(&page).expect("a page");
    for part in [
        "with an inference network and 2 leapfrogs",
        ">Training</h2>",
        ">Evaluation</h2>",
        ">What each leapfrog does</h2>",
        ">Samples</h2>",
        ">Reconstructions</h2>",
        ">The latent space</h2>",
        "as in the paper",
        "Step sizes",
        "None was made yet",
    ] {
        assert!(html.contains(part), "{part}");
    }
    assert_eq!(html.matches("<figure>").count(), 5);
    assert_eq!(html.matches("href=\"data:image/png;base64,").count(), 3);
    // The name of SVG is no address to be opened.
    let html = html.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    for part in ["http:", "https:", "src=", "@import", "url(http", "<link", "<script", "NaN"] {
        assert!(!html.contains(part), "{part}");
    }
    let elsewhere = html.split("href=\"").skip(1).any(|to| !to.starts_with('#') && !to.starts_with("data:image/png"));
    assert!(!elsewhere);

    text(&mcvi(&["vae", "evaluate", to(&run), "--samples", "20", "--split", "valid"]));
    text(&mcvi(&["vae", "report", to(&run), "--images", "30"]));
    let html = std::fs::read_to_string(run.join("report.html")).expect("a page");
    assert!(!html.contains("None was made yet") && html.contains("<th scope=\"row\">valid</th><td>60</td><td>20</td>"));
}

#[test]
fn a_model_without_a_chain_has_a_report() {
    let page = RUNS.path().join("plain.html");
    let said = text(&mcvi(&["vae", "report", to(&run(0)), "--out", to(&page)]));
    assert!(said.contains("Not evaluated yet: mcvi vae evaluate"), "{said}");
    let html = std::fs::read_to_string(&page).expect("a page");
    assert!(html.contains("This model has none") && !html.contains("Step sizes"));
}

#[test]
fn mistakes_are_named_with_their_remedy() {
    let (run, nothing) = (run(2), RUNS.path().join("nothing"));
    let blocked = RUNS.path().join("no/such/folder/a.png");
    for command in ["sample", "reconstruct", "report"] {
        refused(&["vae", command, to(&nothing)], "give the folder that was passed to `mcvi vae train --out`");
        refused(&["vae", command, to(&run), "--out", to(&blocked)], "choose another --out");
    }
    refused(&["vae", "reconstruct", to(&run), "--data", to(&nothing)], "nothing there");
    refused(&["vae", "reconstruct", to(&run), "--split", "dev"], "none of train, valid, test");
    refused(&["vae", "sample", to(&run), "--count", "0"], "0 is not in 1..=10000");
    refused(&["paper", "mnist", to(&nothing)], "is not a folder");
    let begun = RUNS.path().join("begun");
    std::fs::create_dir(&begun).expect("a folder");
    std::fs::copy(run.join("settings.toml"), begun.join("settings.toml")).expect("copied");
    refused(&["vae", "report", to(&begun)], "a model is saved after the first epoch");
    std::fs::copy(run.join("model.safetensors"), begun.join("model.safetensors")).expect("copied");
    std::fs::write(begun.join("metrics.csv"), "epoch,train_bound\n1,what\n").expect("written");
    refused(&["vae", "report", to(&begun)], "metrics.csv");
}

fn refused(arguments: &[&str], says: &str) {
    let output = mcvi(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{arguments:?} said: {said}");
    assert!(said.contains(says), "{arguments:?} said: {said}");
    assert!(output.stdout.is_empty());
}

#[test]
fn table_1_without_runs_says_what_is_missing() {
    let empty = tempfile::tempdir().expect("a folder");
    let table = text(&mcvi(&["paper", "mnist", to(empty.path())]));
    for part in [
        "-90.86       -87.16  3.70",
        "16 leapfrogs, n_h 800           -83.49       -81.94  1.55",
        "DARN 12hl                       -87.72",
        "Missing: 13 of 13 rows",
        "mcvi vae train --data DIR --out runs/conv-2 --decoder conv --leapfrogs 2",
    ] {
        assert!(table.contains(part), "{part} is not in\n{table}");
    }
    let narrow = |line: &str| line.chars().count() <= 80 || line.starts_with("Runs from");
    assert!(table.lines().all(narrow), "{table}");
    let result = json_of(&["paper", "mnist", to(empty.path()), "--json"]);
    assert_eq!(result["rows"].as_array().expect("rows").len(), 13);
    assert_eq!(result["rows"][4]["paper"], json!({"bound": -89.82, "log_p": -86.40, "gap": 3.42}));
    assert_eq!(result["quoted"][4], json!({"name": "DRAW", "bound": -80.97, "log_p": null}));
}

#[test]
fn table_1_shows_the_runs_there_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let keep = |name: &str, settings: Value, valid: f64| {
        let value = json!({
            "settings": settings, "epochs": 400, "best_epoch": 371, "seconds": 4210.0, "seed": 7, "valid_bound": valid,
            "images": 10000, "samples": 1000, "bound": {"value": -90.123, "se": 0.214},
            "log_p": {"value": -87.5, "se": 0.2}, "commit": "abc1234",
        });
        std::fs::write(folder.path().join(name), value.to_string()).expect("written");
    };
    keep("plain.json", json!({"leapfrogs": 4}), -90.3);
    let long = "gradient-and-a-very-long-name-indeed.json";
    keep(long, json!({"leapfrogs": 4, "inverse": "gradient", "momentum": "network"}), -89.9);
    keep("joined.json", json!({"leapfrogs": 4, "join": true, "momentum": "network"}), -95.0);
    keep("wide.json", json!({"leapfrogs": 4, "hidden": 500}), -89.0);
    keep("typo.json", json!({"leapfrog": 4}), -89.0);
    std::fs::write(folder.path().join("bad.json"), "{\"settings\":").expect("written");
    std::fs::write(folder.path().join("notes.txt"), "no results").expect("written");

    let output = mcvi(&["paper", "mnist", to(folder.path()), to(&RUNS.path().join("runs"))]);
    let (table, said) = (text(&output), String::from_utf8_lossy(&output.stderr).into_owned());
    assert!(said.contains("bad.json: EOF") && said.contains("typo.json: unknown field `leapfrog`"), "{said}");
    assert!(!said.contains("notes.txt"), "{said}");
    let plain = "    plain                    -90.12±0.21  -87.50±0.20  2.62 371/400 70 min    7";
    let beyond = "  + gradient-and-a-very-lo…  -90.12±0.21  -87.50±0.20  2.62 371/400 70 min    7";
    let (plain, beyond, joined) = (table.find(plain), table.find(beyond), table.find(" *~ joined"));
    assert!(plain.is_some() && beyond.is_some() && beyond < plain, "the best by validation first\n{table}");
    assert!(joined.is_some() && joined < beyond, "joined ones before them\n{table}");
    for part in [
        "Missing: 12 of 13 rows",
        "r(v|x, z) also sees ∇log p(x, z)",
        "wide: --decoder dense --inference network --leapfrogs 4 --hidden 500",
        "l2: trained on other images than binarized MNIST",
        "l0: not evaluated yet: mcvi vae evaluate",
    ] {
        assert!(table.contains(part), "{part} is not in\n{table}");
    }
    let result = json_of(&["paper", "mnist", to(folder.path()), "--json"]);
    let runs = result["rows"][4]["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 3);
    assert_eq!(
        (&runs[2]["commit"], &runs[2]["seed"], &runs[2]["beyond_paper"]),
        (&json!("abc1234"), &json!(7), &json!([]))
    );
    assert_eq!(result["left_out"].as_array().expect("a list").len(), 2);
    // What is printed of a run can be kept as a file of results.
    let again = tempfile::tempdir().expect("a folder");
    std::fs::write(again.path().join("kept.json"), runs[0].to_string()).expect("written");
    let result = json_of(&["paper", "mnist", to(again.path()), "--json"]);
    assert_eq!(result["rows"][4]["runs"][0]["bound"], runs[0]["bound"]);
}

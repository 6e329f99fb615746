//! Names of any characters, from files and paths: shown so that a terminal does not obey them, and found again.

use std::path::Path;
use std::process::{Command, Output};

/// A fit of a moment.
const QUICK: [&str; 6] = ["--steps", "1", "--leapfrogs", "1", "--iterations", "300"];

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcvi"));
    command.args(arguments);
    command
}

fn said(output: &Output) -> String {
    let all = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8(all).expect("text")
}

/// A file whose second column has this name.
fn table(path: &Path, name: &str) {
    let rows: String = (0..20).map(|i| format!("{},{}\n", (i * 7) % 5 - 3, i)).collect();
    std::fs::write(path, format!("y,{name}\n{rows}")).expect("written");
}

#[test]
fn a_column_cannot_give_orders_to_the_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a\x1b]0;title\x07.csv");
    table(&file, "\x1b[31mred\u{9b}1m\u{202e}");
    let fit = |target: &str| {
        let mut command = command(&["fit", "linear", "--target", target]);
        command.arg("--data").arg(&file).args(QUICK).output().expect("the command starts")
    };
    let shows = |output: &Output, code: i32, what: &[&str]| {
        let said = said(output);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(what.iter().all(|w| said.contains(w)), "{said}");
        let orders = |c: char| (c.is_control() && c != '\n' && c != '\t') || c == '\u{202e}';
        assert!(!said.contains(orders), "{said:?}");
    };
    shows(&fit("y"), 0, &["a\\u{1b}]0;title\\u{7}.csv", "\\u{1b}[31mred"]);
    shows(&fit("none\x1b[2J"), 2, &["none\\u{1b}[2J", "[31mred", "\\u{202e}"]);
    shows(&command(&["fit", "\x1b[2Jmodel"]).output().expect("starts"), 2, &["\\u{1b}[2Jmodel"]);
    // By the reader of arguments.
    shows(&command(&["list", "more\x07"]).output().expect("starts"), 2, &["more", "Usage"]);
}

#[test]
fn numbers_in_a_pipe_can_be_read_by_programs() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("data.csv");
    table(&file, "x");
    let output = command(&["fit", "linear", "--target", "y"]).arg("--data").arg(&file).args(QUICK).output();
    let said = said(&output.expect("the command starts"));
    assert!(!said.contains('−'), "{said}");
    let bound = said.lines().find(|line| line.contains("log p(x)")).expect("a bound");
    assert!(bound.split_whitespace().any(|word| word.parse::<f64>().is_ok_and(|x| x < 0.0)), "{bound}");
    let list = command(&["list"]).output().expect("the command starts");
    assert!(!String::from_utf8_lossy(&list.stdout).contains('−'));
}

#[cfg(unix)]
mod unix {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn a_fit_is_drawn_from_wherever_its_data_are() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join(OsStr::from_bytes(b"d\xe9j\xe0.csv"));
        table(&file, "x");
        let run = folder.path().join(OsStr::from_bytes(b"r\xfcn"));
        let mut fit = command(&["fit", "linear", "--target", "y"]);
        fit.arg("--data").arg(&file).args(QUICK).arg("--out").arg(&run);
        let output = fit.output().expect("the command starts");
        assert!(output.status.success(), "{}", said(&output));
        let draw = || command(&["draw", "--draws", "5"]).arg(&run).output().expect("the command starts");
        let output = draw();
        assert!(output.status.success(), "{}", said(&output));
        assert_eq!(said(&output).lines().count(), 6);
        // Of other data it is none, and the file is named.
        std::fs::write(&file, "y,x\n1,2\n2,3\n4,4\n").expect("written");
        let output = draw();
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains("j\u{fffd}.csv"), "{}", said(&output));
    }

    #[test]
    fn training_refuses_folders_that_its_settings_cannot_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let odd = folder.path().join(OsStr::from_bytes(b"im\xe1genes"));
        std::fs::create_dir(&odd).expect("created");
        let out = folder.path().join("run");
        let refused = |output: &Output, option: &str| {
            let said = said(output);
            assert_eq!(output.status.code(), Some(2), "{said}");
            assert!(said.contains(option) && said.contains("not UTF-8") && said.contains("rename"), "{said}");
            assert!(!out.exists(), "nothing is created");
        };
        let train = |option: &str, given: &Path| {
            let mut command = command(&["vae", "train", option]);
            command.arg(given).arg("--out").arg(&out);
            command
        };
        refused(&train("--data", &odd).output().expect("starts"), "--data");
        refused(&train("--from", &odd).output().expect("starts"), "--from");
        // Also by another name, since absolute paths are saved.
        refused(&train("--data", Path::new(".")).current_dir(&odd).output().expect("starts"), "--data");
        let sweep = folder.path().join("sweep.toml");
        std::fs::write(&sweep, "[run.a]\ndata = \".\"\n").expect("written");
        let mut command = command(&["vae", "sweep"]);
        command.arg(&sweep).arg("--out").arg(&out).current_dir(&odd);
        refused(&command.output().expect("starts"), "--data");
    }
}

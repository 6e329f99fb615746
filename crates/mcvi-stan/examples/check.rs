//! Reads every Stan program below some folders and counts those that are refused.
//!
//! `cargo run -p mcvi-stan --example check -- FOLDER...` prints a line for each refused program and the counts;
//! `--show` prints whole reports, `--good` the names of those that are read.

use mcvi_stan::Program;
use std::path::{Path, PathBuf};

fn programs(folder: &Path, out: &mut Vec<PathBuf>) {
    if folder.is_file() {
        out.push(folder.to_owned());
        return;
    }
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            programs(&path, out);
        } else if path.extension().is_some_and(|e| e == "stan") {
            out.push(path);
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|a| a == flag);
    let mut paths = vec![];
    for folder in arguments.iter().filter(|a| !a.starts_with("--")) {
        programs(Path::new(folder), &mut paths);
    }
    paths.sort();
    let mut refused = 0;
    for path in &paths {
        let text = std::fs::read(path).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let folder = path.parent().unwrap_or(Path::new("."));
        let includes = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
        match Program::read(&path.display().to_string(), &text, &includes) {
            Ok(_) if has("--good") => println!("{}", path.display()),
            Ok(_) => {}
            Err(mistakes) => {
                refused += 1;
                if has("--show") {
                    println!("{mistakes}");
                } else if !has("--good") {
                    let first = &mistakes.list[0];
                    let line = mistakes.sources.line(first.span);
                    println!("{}:{line}: {}", path.display(), first.message);
                }
            }
        }
    }
    println!("{} programs, {} read, {refused} refused", paths.len(), paths.len() - refused);
}

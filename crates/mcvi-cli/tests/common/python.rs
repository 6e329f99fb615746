//! Scripts that open what we write with the programs it is for.

use std::path::Path;
use std::process::Command;

/// Run a script with the interpreter, unless that lacks the modules.
pub fn python(modules: &str, script: &str, arguments: &[&Path]) {
    let interpreter = std::env::var_os("MCVI_PYTHON").unwrap_or_else(|| "python3".into());
    let import = Command::new(&interpreter).args(["-c", &format!("import {modules}")]).output();
    if !import.is_ok_and(|import| import.status.success()) {
        eprintln!("skipped: {} cannot import {modules}; MCVI_PYTHON may name another", interpreter.display());
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python").join(script);
    let output = Command::new(&interpreter).arg(script).args(arguments).output().expect("the interpreter starts");
    let said = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    eprintln!("{}", said.join("\n"));
    assert!(output.status.success());
}

//! What a fit and its draws leave when processes compete, are told to end, or meet special files and failing disks.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A fit of a moment.
const QUICK: [&str; 10] =
    ["banana", "--steps", "1", "--leapfrogs", "1", "--iterations", "60", "--draws", "20", "--json"];
/// A fit that takes minutes.
const LONG: [&str; 8] = ["funnel", "--steps", "2", "--leapfrogs", "2", "--iterations", "2000000", "--rate=0.001"];

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcvi"));
    command.args(arguments);
    command
}

fn mcvi(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the command starts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> =
        entries.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Start a long fit, and wait until it is at work.
fn long_fit(base: &Path, prepare: impl FnOnce(&mut Command)) -> Child {
    let out = base.join("out").display().to_string();
    let mut command = command(&[&["fit"][..], &LONG, &["--out", &out]].concat());
    prepare(&mut command);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the command starts");
    let begun = Instant::now();
    while !names(base).iter().any(|name| name.starts_with(".out.mcvi")) {
        assert!(begun.elapsed() < Duration::from_secs(20), "it has not begun");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(700));
    child
}

fn send(child: &Child, signal: &str) {
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill starts");
    assert!(sent.success());
}

/// The bytes of all files in a folder, less what depends on the clock.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    fn add(folder: &Path, prefix: &str, all: &mut BTreeMap<String, Vec<u8>>) {
        for name in names(folder) {
            let path = folder.join(&name);
            if path.is_dir() {
                add(&path, &format!("{prefix}{name}/"), all);
            } else if !["summary.json", "report.html", "state.safetensors"].contains(&name.as_str()) {
                all.insert(format!("{prefix}{name}"), std::fs::read(path).expect("read"));
            }
        }
    }
    let mut all = BTreeMap::new();
    add(folder, "", &mut all);
    all
}

#[test]
fn the_folder_of_a_fit_has_one_writer() {
    let base = tempfile::tempdir().expect("a folder");
    let mut first = long_fit(base.path(), |_| {});
    let out = base.path().join("out").display().to_string();
    let second = mcvi(&[&["fit"][..], &QUICK, &["--out", &out]].concat());
    assert_eq!(second.status.code(), Some(2), "{}", said(&second));
    let holder = format!("process {} on ", first.id());
    assert!(said(&second).contains(&holder) && said(&second).contains("choose another --out"), "{}", said(&second));
    // A crash releases the lock, and the next process removes what was left.
    first.kill().expect("killed");
    first.wait().expect("it ends");
    assert!(names(base.path()).len() == 2, "{:?}", names(base.path()));
    let third = mcvi(&[&["fit"][..], &QUICK, &["--out", &out]].concat());
    assert!(third.status.success(), "{}", said(&third));
    assert_eq!(names(base.path()), ["out"]);
}

#[test]
fn of_many_fits_with_one_folder_one_succeeds() {
    let base = tempfile::tempdir().expect("a folder");
    let out = base.path().join("out").display().to_string();
    let start = |seed: String| {
        let mut command = command(&[&["fit"][..], &QUICK, &["--out", &out, "--seed", &seed]].concat());
        (seed, command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts"))
    };
    let all: Vec<_> = (1..6).map(|seed| start(seed.to_string())).collect();
    let mut succeeded = vec![];
    for (seed, child) in all {
        let output = child.wait_with_output().expect("it ends");
        match output.status.code() {
            Some(0) => succeeded.push(seed),
            code => assert_eq!(code, Some(2), "{}", said(&output)),
        }
    }
    assert_eq!(succeeded.len(), 1);
    let settings = std::fs::read_to_string(base.path().join("out/settings.json")).expect("settings");
    assert!(settings.contains(&format!("\"seed\": {}", succeeded[0])), "the folder is that of the one that succeeded");
    assert_eq!(names(base.path()), ["out"]);
}

#[test]
fn signals_save_the_state_and_set_the_exit_code() {
    for (signal, code) in [("-TERM", 143), ("-HUP", 129)] {
        let base = tempfile::tempdir().expect("a folder");
        let mut child = long_fit(base.path(), |_| {});
        send(&child, signal);
        assert_eq!(child.wait().expect("it ends").code(), Some(code));
        assert_eq!(names(base.path()), ["out"]);
        let summary = std::fs::read_to_string(base.path().join("out/summary.json")).expect("a summary");
        assert!(summary.contains("\"interrupted\": true"), "{summary}");
        let (out, more) =
            (base.path().join("out").display().to_string(), base.path().join("more").display().to_string());
        let resumed = mcvi(&["fit", "--from", &out, "--iterations", "1000000", "--seconds", "0.2", "--out", &more]);
        assert!(resumed.status.success(), "{}", said(&resumed));
    }
}

#[test]
fn nohup_keeps_sighup_from_ending_a_fit() {
    let base = tempfile::tempdir().expect("a folder");
    let mut child = long_fit(base.path(), |command| {
        // SAFETY: signal is safe to call between fork and exec.
        unsafe {
            command.pre_exec(|| {
                (libc::signal(libc::SIGHUP, libc::SIG_IGN) != libc::SIG_ERR)
                    .then_some(())
                    .ok_or(std::io::Error::last_os_error())
            })
        };
    });
    send(&child, "-HUP");
    std::thread::sleep(Duration::from_millis(500));
    assert!(child.try_wait().expect("a status").is_none(), "it goes on");
    send(&child, "-TERM");
    assert_eq!(child.wait().expect("it ends").code(), Some(143));
}

#[test]
fn a_fit_killed_after_its_state_was_saved_goes_on_from_it() {
    let base = tempfile::tempdir().expect("a folder");
    let mut child = long_fit(base.path(), |_| {});
    send(&child, "-TERM");
    // The state has its final name before the draws are made.
    let (out, begun) = (base.path().join("out"), Instant::now());
    while !out.join("state.safetensors").exists() {
        assert!(begun.elapsed() < Duration::from_secs(20), "the state was not saved");
        std::thread::sleep(Duration::from_micros(200));
    }
    child.kill().expect("killed");
    child.wait().expect("it ends");
    let (from, end) = (out.display().to_string(), base.path().join("end").display().to_string());
    let settings = std::fs::read_to_string(out.join("settings.json")).expect("settings");
    let settings: serde_json::Value = serde_json::from_str(&settings).expect("an object");
    let more = (settings["iterations"].as_u64().expect("a number") + 50).to_string();
    let resumed = mcvi(&["fit", "--from", &from, "--iterations", &more, "--draws", "20", "--out", &end]);
    assert!(resumed.status.success(), "{}", said(&resumed));
    let whole = base.path().join("whole").display().to_string();
    let whole_fit = mcvi(
        &[&["fit"][..], &LONG[..5], &["--iterations", &more, "--rate=0.001", "--draws", "20", "--out", &whole]]
            .concat(),
    );
    assert!(whole_fit.status.success(), "{}", said(&whole_fit));
    let (end, whole) = (contents(Path::new(&end)), contents(Path::new(&whole)));
    assert!(end["draws.csv"] == whole["draws.csv"] && end["fit.safetensors"] == whole["fit.safetensors"]);
}

#[test]
fn draws_are_written_to_devices_and_pipes_and_never_replace_them() {
    let base = tempfile::tempdir().expect("a folder");
    let at = |name: &str| base.path().join(name);
    let run = at("run").display().to_string();
    assert!(mcvi(&[&["fit"][..], &QUICK, &["--out", &run]].concat()).status.success());
    let draw = |out: &str| mcvi(&["draw", &run, "--draws", "3", "--out", out]);
    let plain = at("plain.csv").display().to_string();
    assert!(draw(&plain).status.success());
    let expected = std::fs::read(&plain).expect("read");

    assert!(draw("/dev/null").status.success());
    assert!(std::fs::metadata("/dev/null").expect("there").file_type().is_char_device());
    let stdout = draw("/dev/stdout");
    assert!(stdout.status.success() && stdout.stdout == expected, "{}", said(&stdout));
    let full = draw("/dev/full");
    assert!(full.status.code() == Some(2) && said(&full).contains("/dev/full"), "{}", said(&full));

    let pipe = at("pipe").display().to_string();
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo starts").success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::read(pipe).expect("read")
    });
    assert!(draw(&pipe).status.success());
    assert!(reader.join().expect("read") == expected);
    assert!(std::fs::metadata(&pipe).expect("there").file_type().is_fifo());

    // A link stays a link.
    symlink(&plain, at("link.csv")).expect("linked");
    assert!(draw(&at("link.csv").display().to_string()).status.success());
    assert!(std::fs::symlink_metadata(at("link.csv")).expect("there").is_symlink());
    let folder = draw(&base.path().display().to_string());
    assert!(folder.status.code() == Some(2) && said(&folder).contains("it is a folder"), "{}", said(&folder));
}

/// Let every operation on the disk fail once, in turn, and return how many there are. `run` makes a run in a folder of its
/// own in which this operation fails, checks what it leaves, and returns its output.
fn with_every_fault(run: impl Fn(&Path, usize) -> Output + Sync) -> usize {
    let (next, faults) = (AtomicUsize::new(1), AtomicUsize::new(usize::MAX));
    // In memory if possible, where syncing costs nothing.
    let base = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let fault = next.fetch_add(1, Ordering::Relaxed);
                    if fault > faults.load(Ordering::Relaxed) {
                        return;
                    }
                    let folder = base.path().join(fault.to_string());
                    std::fs::create_dir(&folder).expect("a folder");
                    let output = run(&folder, fault);
                    assert!(!said(&output).contains("panicked"), "{}", said(&output));
                    if !said(&output).contains(&format!("injected fault {fault}:")) {
                        assert!(output.status.success());
                        faults.fetch_min(fault - 1, Ordering::Relaxed);
                    }
                    std::fs::remove_dir_all(folder).expect("removed");
                }
            });
        }
    });
    faults.into_inner()
}

/// Whether faults can be injected.
fn can_fail() -> bool {
    if !cfg!(debug_assertions) {
        eprintln!("skipped: faults are injected in debug builds only");
    }
    cfg!(debug_assertions)
}

#[test]
fn a_fit_survives_every_fault_of_the_disk() {
    if !can_fail() {
        return;
    }
    // Stopped by its budget, so that its state is saved before its results.
    let fit = |folder: &Path, fault: usize| {
        let arguments = ["fit", "banana", "--chain", "none", "--iterations", "60", "--draws", "20", "--threads", "1"];
        let mut command = command(&arguments);
        command.arg("--out").arg(folder.join("out")).env("MCVI_FAULT", fault.to_string());
        command.output().expect("the command starts")
    };
    let base = tempfile::tempdir().expect("a folder");
    assert!(fit(base.path(), 0).status.success());
    let expected = contents(&base.path().join("out"));
    let faults = with_every_fault(|folder, fault| {
        let output = fit(folder, fault);
        let (out, said) = (folder.join("out"), said(&output));
        let kept = || names(folder).into_iter().find(|name| name.starts_with("out.mcvi-"));
        if output.status.success() {
            // Something that does not matter failed.
            assert!(contents(&out) == expected, "{said}");
        } else if let Some(kept) = kept() {
            // The last renaming failed: the results stay under another name, which is told.
            assert!(said.contains(&kept), "{said}");
            assert!(out.exists() || contents(&folder.join(kept)) == expected, "{said}");
        } else if out.exists() {
            // The state was saved before the results were lost.
            assert!(said.contains("--from"), "{said}");
            let again = folder.join("again").display().to_string();
            let out = out.display().to_string();
            let resumed = mcvi(&["fit", "--from", &out, "--iterations", "60", "--draws", "20", "--out", &again]);
            assert!(resumed.status.success(), "{said}");
            assert!(contents(Path::new(&again)) == expected, "{said}");
        }
        if !out.exists() {
            // The next run is not disturbed by what the last one left, and removes it.
            assert!(fit(folder, 0).status.success());
            assert!(contents(&out) == expected, "{said}");
        }
        assert!(names(folder).iter().all(|name| name == "again" || name.starts_with("out")), "{said}");
        output
    });
    assert!(faults > 50, "{faults}");
}

#[test]
fn draws_survive_every_fault_of_the_disk() {
    if !can_fail() {
        return;
    }
    let base = tempfile::tempdir().expect("a folder");
    let run = base.path().join("run").display().to_string();
    assert!(mcvi(&[&["fit"][..], &QUICK, &["--out", &run]].concat()).status.success());
    let draw = |file: &Path, fault: usize| {
        let mut command = command(&["draw", &run, "--draws", "5", "--seed", "2", "--out"]);
        command.arg(file).env("MCVI_FAULT", fault.to_string()).output().expect("the command starts")
    };
    let plain = base.path().join("plain.csv");
    assert!(draw(&plain, 0).status.success());
    let new = std::fs::read(plain).expect("read");
    let faults = with_every_fault(|folder, fault| {
        let file = folder.join("draws.csv");
        std::fs::write(&file, "old").expect("written");
        let output = draw(&file, fault);
        let found = std::fs::read(&file).expect("read");
        // The old ones or the new ones, never a part; the new ones where it succeeded.
        assert!(found == new || found == b"old" && !output.status.success(), "{}", said(&output));
        assert_eq!(names(folder), ["draws.csv"]);
        output
    });
    assert!(faults >= 5, "{faults}");
}

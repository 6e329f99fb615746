//! Many fits: data sets, shards, what is joined, and the scripts of docs/machines.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

fn mcvi(folder: &Path, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcvi"));
    command.current_dir(folder).args(arguments.split_whitespace()).output().expect("it starts")
}

fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn failed(output: &Output, code: i32, parts: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    parts.iter().for_each(|part| assert!(said.contains(part), "{part} is not in: {said}"));
}

/// Every visible file with its contents.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).expect("a folder").map(|e| e.expect("an entry").path()) {
            if entry.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.')) {
                continue;
            }
            if entry.is_dir() {
                folders.push(entry);
            } else {
                let name = entry.strip_prefix(folder).expect("inside").to_owned();
                files.insert(name, std::fs::read(&entry).expect("a file"));
            }
        }
    }
    files
}

fn same(one: &Path, two: &Path) {
    let (one, two) = (contents(one), contents(two));
    assert_eq!(one.keys().collect::<Vec<_>>(), two.keys().collect::<Vec<_>>());
    for (name, bytes) in &one {
        assert!(bytes == &two[name], "{} differs", name.display());
    }
}

/// A folder `stores` with a file for each of five stores, of which one cannot be fitted, and `sales.csv` with the rows of the others.
fn data() -> TempDir {
    let dir = TempDir::new().expect("a folder");
    std::fs::create_dir(dir.path().join("stores")).expect("made");
    let mut all = "sold,store,price,size\n".to_owned();
    for (s, store) in ["a", "b", "c", "d"].iter().enumerate() {
        let mut text = "sold,price,size\n".to_owned();
        for i in 0..24 {
            let (price, size) = ((i * (s + 3)) % 11, (i * 5 + s) % 7);
            let sold = u8::from((i + s) % 3 == 0 || price > 7);
            text += &format!("{sold},{price},{size}\n");
            all += &format!("{sold},{store},{price},{size}\n");
        }
        std::fs::write(dir.path().join(format!("stores/{store}.csv")), text).expect("written");
    }
    std::fs::write(dir.path().join("stores/e.csv"), "sold,price,size\n1,2,3\n").expect("written");
    std::fs::write(dir.path().join("stores/README.md"), "not data").expect("written");
    std::fs::write(dir.path().join("sales.csv"), all).expect("written");
    dir
}

const FIT: &str = "fit logistic --each stores --target sold --draws 100";

#[test]
fn shards_are_joined_to_what_one_command_writes() {
    let dir = data();
    let whole = mcvi(dir.path(), &format!("{FIT} --out whole --threads 2"));
    failed(&whole, 1, &["1 of 5 data sets could not be fitted"]);
    let said = String::from_utf8_lossy(&whole.stdout).into_owned();
    assert!(said.contains("5 data sets fitted") && said.contains("failed: e: "), "{said}");
    // In one folder.
    let shard = |out: &str, i: usize| mcvi(dir.path(), &format!("{FIT} --out {out} --shard {i}/3 --threads 1"));
    succeeded(&shard("one", 1));
    failed(&mcvi(dir.path(), "merge one"), 2, &["3 of 5 results are missing (b, c, e)"]);
    failed(&shard("one", 2), 1, &["could not be fitted"]);
    succeeded(&shard("one", 3));
    succeeded(&mcvi(dir.path(), "merge one"));
    same(&dir.path().join("whole"), &dir.path().join("one"));
    // In several.
    (1..=3).for_each(|i| drop(shard(&format!("part{i}"), i)));
    failed(&mcvi(dir.path(), "merge part1 part2 part3"), 2, &["--out"]);
    failed(&mcvi(dir.path(), "merge part1 part3 --out several"), 2, &["2 of 5 results are missing (b, e)"]);
    assert!(!dir.path().join("several").exists());
    succeeded(&mcvi(dir.path(), "merge part1 part2 part3 --out several"));
    same(&dir.path().join("whole"), &dir.path().join("several"));
    failed(&mcvi(dir.path(), "merge part1 stores --out x"), 2, &["stores has no set.json"]);
}

#[test]
fn a_fit_among_many_is_the_fit_of_its_data_alone() {
    let dir = data();
    mcvi(dir.path(), &format!("{FIT} --out fits"));
    let read = |name: &str| -> Value {
        serde_json::from_slice(&std::fs::read(dir.path().join(name)).expect("a file")).expect("JSON")
    };
    let b = read("fits/fits/b/summary.json");
    let alone = format!("fit logistic --data stores/b.csv --target sold --draws 100 --seed {} --out alone", b["seed"]);
    succeeded(&mcvi(dir.path(), &alone));
    assert_eq!(b["parameters"], read("alone/summary.json")["parameters"]);
    for file in ["draws.arrow", "settings.json", "fit.safetensors"] {
        let bytes = |folder: &str| std::fs::read(dir.path().join(folder).join(file)).expect("a file");
        assert!(bytes("alone") == bytes("fits/fits/b"), "{file}");
    }
    assert!(succeeded(&mcvi(dir.path(), "draw fits/fits/b --draws 10")).lines().count() == 11);
}

#[test]
fn levels_of_a_column_are_data_sets_that_move_with_their_fits() {
    let dir = data();
    let fit = "fit logistic --data sales.csv --each store --target sold --draws 100 --out fits";
    succeeded(&mcvi(dir.path(), fit));
    let (a, b) = ("sold,price,size\n", std::fs::read_to_string(dir.path().join("fits/data/b.csv")).expect("rows"));
    assert!(b.starts_with(a) && b == std::fs::read_to_string(dir.path().join("stores/b.csv")).expect("rows"));
    std::fs::rename(dir.path().join("fits"), dir.path().join("moved")).expect("moved");
    succeeded(&mcvi(dir.path(), "draw moved/fits/b --draws 10"));
    failed(
        &mcvi(dir.path(), &fit.replace("--each store", "--each stor")),
        2,
        &["no column `stor`; did you mean store?"],
    );
    failed(&mcvi(dir.path(), &fit.replace(" --out fits", "")), 2, &["--out"]);
    failed(&mcvi(dir.path(), "fit eight-schools --each stores --out x"), 2, &["comes with its own data"]);
}

#[test]
fn a_killed_set_keeps_what_is_done() {
    let dir = data();
    mcvi(dir.path(), &format!("{FIT} --out whole"));
    let arguments = format!("{FIT} --out killed --threads 1");
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcvi"));
    command.current_dir(dir.path()).args(arguments.split_whitespace()).stderr(Stdio::null());
    let mut running = command.spawn().expect("it starts");
    let first = dir.path().join("killed/fits/a/summary.json");
    while !first.exists() && running.try_wait().expect("a child").is_none() {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    running.kill().expect("killed");
    running.wait().expect("ended");
    let written = || std::fs::metadata(&first).and_then(|m| m.modified()).expect("a file");
    let before = written();
    failed(&mcvi(dir.path(), &arguments), 1, &["1 of 5"]);
    assert_eq!(before, written(), "it is not fitted again");
    same(&dir.path().join("whole"), &dir.path().join("killed"));
    // Another seed or other data do not mix with what is there.
    failed(
        &mcvi(dir.path(), &format!("{arguments} --seed 2")),
        2,
        &["holds results of other settings", "`seed` was 1, now it is 2"],
    );
    std::fs::write(dir.path().join("stores/e.csv"), "sold,price,size\n1,2,3\n0,1,2\n0,1,3\n").expect("written");
    std::fs::copy(dir.path().join("stores/b.csv"), dir.path().join("stores/a.csv")).expect("copied");
    failed(&mcvi(dir.path(), &arguments), 1, &["a: its data have changed; remove", "4 of 5 are done, 1 failed"]);
    std::fs::remove_dir_all(dir.path().join("killed/fits/a")).expect("removed");
    succeeded(&mcvi(dir.path(), &arguments));
}

#[test]
fn shards_of_a_calibration_are_joined_to_the_whole() {
    let dir = data();
    std::fs::write(dir.path().join("few.csv"), "y,x\n0,1.5\n1,0.2\n0,-1\n1,0.4\n0,-0.3\n1,2\n").expect("written");
    let calibrate = "calibrate logistic --data few.csv --target y --simulations 20 --threads 2";
    let whole = succeeded(&mcvi(dir.path(), &format!("{calibrate} --out whole")));
    assert!(whole.contains("20 data sets"), "{whole}");
    succeeded(&mcvi(dir.path(), &format!("{calibrate} --out parts --shard 2/5")));
    let (whole_set, part) = (contents(&dir.path().join("whole")), contents(&dir.path().join("parts")));
    assert_eq!(part.len(), 1 + 4);
    assert!(part.iter().all(|(name, bytes)| whole_set[name] == *bytes));
    failed(&mcvi(dir.path(), "merge parts"), 2, &["16 of 20 results are missing (00001, 00003, "]);
    // As if the other shards had run.
    for (name, bytes) in whole_set.iter().filter(|(name, _)| name.starts_with("simulations")) {
        std::fs::write(dir.path().join("parts").join(name), bytes).expect("written");
    }
    assert_eq!(succeeded(&mcvi(dir.path(), "merge parts")), whole);
    same(&dir.path().join("whole"), &dir.path().join("parts"));
    failed(&mcvi(dir.path(), &format!("{calibrate} --shard 1/2")), 2, &["--out"]);
    failed(&mcvi(dir.path(), &format!("{calibrate} --out parts --shard 3/2")), 2, &["the last 2/2"]);
}

/// Run a script of docs/machines where `mcvi` is on the path.
fn script(dir: &Path, text: &str, variables: &[(&str, &str)]) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_mcvi")).parent().expect("a folder").to_owned();
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(program).chain(std::env::split_paths(&paths))).expect("a path");
    let mut command = Command::new("bash");
    command.current_dir(dir).args(["-euc", text]).env("PATH", path).envs(variables.iter().copied());
    command.output().expect("bash starts")
}

fn machine(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/machines").join(name);
    std::fs::read_to_string(path).expect("a script")
}

#[test]
fn scripts_for_schedulers_share_out_all_data_sets() {
    let dir = data();
    std::fs::remove_file(dir.path().join("stores/e.csv")).expect("removed");
    succeeded(&mcvi(dir.path(), "fit logistic --each stores --target sold --out whole"));
    let finish = |name: &str| {
        succeeded(&mcvi(dir.path(), "merge fits"));
        same(&dir.path().join("whole"), &dir.path().join("fits"));
        std::fs::rename(dir.path().join("fits"), dir.path().join(name)).expect("moved");
    };
    for id in ["1", "2", "3", "4"] {
        let variables = [
            ("SLURM_ARRAY_TASK_ID", id),
            ("SLURM_ARRAY_TASK_MIN", "1"),
            ("SLURM_ARRAY_TASK_COUNT", "4"),
            ("SLURM_CPUS_PER_TASK", "2"),
        ];
        succeeded(&script(dir.path(), &machine("slurm.sh"), &variables));
    }
    finish("slurm");
    let job = machine("kubernetes.yaml");
    let lines = job.lines().skip_while(|line| line.trim() != "- |").skip(1);
    let command: Vec<&str> = lines.take_while(|line| line.starts_with(&" ".repeat(14))).collect();
    for index in ["0", "1", "2", "3"] {
        let variables = [("JOB_COMPLETION_INDEX", index), ("SHARDS", "4")];
        succeeded(&script(dir.path(), &command.join("\n"), &variables));
    }
    finish("kubernetes");
    if Command::new("parallel").arg("--version").output().is_err() {
        eprintln!("skipped: GNU parallel is not installed");
        return;
    }
    succeeded(&script(dir.path(), &machine("parallel.sh"), &[]));
    finish("parallel");
}

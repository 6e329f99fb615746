//! Many runs from one file.

use crate::{contents, failed, images, mcvi, succeeded, text};
use tempfile::TempDir;

#[test]
fn a_sweep_trains_many_goes_on_and_one_that_fails_stops_no_other() {
    let dir = TempDir::new().unwrap();
    let (data, file, out) = (images(dir.path()), dir.path().join("s.toml"), dir.path().join("runs"));
    let all = format!("[all]\ndata = {:?}\nhidden = 8\nlatent = 2\nlayers = 1\nbatch = 10\nepochs = 3\n", text(&data));
    let listed = "[run.plain]\nleapfrogs = 0\n[run.chain]\nleapfrogs = 2\n[run.lost]\nrate = 1e18\n";
    std::fs::write(&file, format!("{all}{listed}")).unwrap();
    let sweep = |more: &[&str]| mcvi(&[&["vae", "sweep", text(&file), "--out", text(&out)], more].concat());
    let output = sweep(&["--json", "--evaluate", "20"]);
    failed(&output, 1, &["lost: fit: in epoch 1", "1 of 3 runs failed"]);
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["failed"], 1);
    for name in ["plain", "chain"] {
        assert_eq!(result["runs"][name]["epochs"], 3);
        let test = &result["runs"][name]["test"];
        assert!(test["log_p"]["value"].as_f64().unwrap() > test["bound"]["value"].as_f64().unwrap());
    }
    // Each is the same as if it had been trained alone.
    let alone = dir.path().join("alone");
    let settings = out.join("chain/settings.toml");
    succeeded(&mcvi(&["vae", "train", "--config", text(&settings), "--out", text(&alone)]));
    assert!(contents(&alone) == contents(&out.join("chain")));
    // Again, with more epochs and without the one that fails.
    std::fs::write(&file, format!("{}{listed}", all.replace("epochs = 3", "epochs = 4"))).unwrap();
    let table = succeeded(&sweep(&["--only", "plain,chain"]));
    assert!(table.contains("plain") && table.contains("chain") && !table.contains("lost"), "{table}");
    let metrics = std::fs::read_to_string(out.join("plain/metrics.csv")).unwrap();
    assert_eq!(metrics.lines().count(), 5);

    failed(&sweep(&["--device", "gpu"]), 2, &["gpu", "cuda"]);
    failed(&sweep(&["--only", "plane"]), 2, &["plane", "plain"]);
    std::fs::write(&file, "[run.\"../x\"]\n").unwrap();
    failed(&sweep(&[]), 2, &["../x"]);
    std::fs::write(&file, "[run]\n").unwrap();
    failed(&sweep(&[]), 2, &["no runs"]);
    std::fs::write(&file, "[run.a]\nlatents = 2\n").unwrap();
    failed(&sweep(&[]), 2, &["s.toml", "latents"]);
    // A number that is not finite is not taken for the default, neither here nor in a file of options.
    for (text, name) in
        [("[run.a]\nrate = nan\n", "run.a.rate = nan"), ("[all]\nclip = inf\n[run.a]\n", "all.clip = inf")]
    {
        std::fs::write(&file, text).unwrap();
        failed(&sweep(&[]), 2, &["s.toml", name, "not a finite number"]);
    }
    std::fs::write(&file, "rate = nan\n").unwrap();
    let configured = mcvi(&["vae", "train", "--config", text(&file), "--out", text(&dir.path().join("none"))]);
    failed(&configured, 2, &["s.toml", "rate = nan", "not a finite number"]);
}

#[test]
fn a_run_of_a_sweep_begins_when_the_one_it_begins_with_is_over() {
    let dir = TempDir::new().unwrap();
    let (data, file, out) = (images(dir.path()), dir.path().join("s.toml"), dir.path().join("runs"));
    let all = format!("[all]\ndata = {:?}\nhidden = 8\nlatent = 2\nlayers = 1\nbatch = 10\nepochs = 2\n", text(&data));
    let sweep = |listed: &str, more: &[&str]| {
        std::fs::write(&file, format!("{all}{listed}")).unwrap();
        mcvi(&[&["vae", "sweep", text(&file), "--out", text(&out)], more].concat())
    };
    // In the order of their names the last would be first.
    let listed = "[run.a]\nleapfrogs = 2\nfrom = \"b\"\n[run.b]\nleapfrogs = 1\nfrom = \"c\"\n[run.c]\nleapfrogs = 0\n";
    succeeded(&sweep(listed, &["--jobs", "3"]));
    for (run, from) in [("a", "b"), ("b", "c")] {
        let settings = std::fs::read_to_string(out.join(run).join("settings.toml")).unwrap();
        let from = std::fs::canonicalize(out.join(from)).unwrap();
        assert!(settings.contains(&format!("from = \"{}\"", from.display())), "{settings}");
    }
    // One alone begins with what is there.
    let before = contents(&out.join("a"));
    std::fs::remove_dir_all(out.join("a")).unwrap();
    succeeded(&sweep(listed, &["--only", "a"]));
    assert!(contents(&out.join("a")) == before);

    std::fs::remove_dir_all(&out).unwrap();
    let lost = listed.replace("leapfrogs = 0", "leapfrogs = 0\nrate = 1e18");
    failed(
        &sweep(&lost, &[]),
        1,
        &["c: fit: in epoch 1", "b: `c`, which it starts from", "a: `b`", "3 of 3 runs failed"],
    );
    failed(
        &sweep(&listed.replace("leapfrogs = 0", "from = \"a\""), &[]),
        2,
        &["s.toml", "`a` would start from its own weights"],
    );
}

#[test]
fn shards_of_a_sweep_train_what_one_command_trains() {
    let dir = TempDir::new().unwrap();
    let (data, file, out) = (images(dir.path()), dir.path().join("s.toml"), dir.path().join("runs"));
    let all = format!("[all]\ndata = {:?}\nhidden = 8\nlatent = 2\nlayers = 1\nbatch = 10\nepochs = 2\n", text(&data));
    let listed = "[run.a]\nleapfrogs = 1\nfrom = \"c\"\n[run.b]\nleapfrogs = 1\n[run.c]\nleapfrogs = 0\n";
    std::fs::write(&file, format!("{all}{listed}")).unwrap();
    let sweep = |more: &[&str]| mcvi(&[&["vae", "sweep", text(&file), "--out", text(&out)], more].concat());
    succeeded(&sweep(&[]));
    let whole: Vec<_> = ["a", "b", "c"].iter().map(|run| contents(&out.join(run))).collect();
    std::fs::remove_dir_all(&out).unwrap();
    // A run is in the shard of the run that it starts from.
    succeeded(&sweep(&["--shard", "1/2"]));
    assert!(out.join("a").exists() && !out.join("b").exists() && out.join("c").exists());
    failed(&mcvi(&["merge", text(&out)]), 2, &["1 of 3 results are missing (b)"]);
    succeeded(&sweep(&["--shard", "2/2"]));
    let table = succeeded(&mcvi(&["merge", text(&out)]));
    assert!(["a ", "b ", "c "].iter().all(|run| table.contains(run)), "{table}");
    for (run, whole) in ["a", "b", "c"].iter().zip(&whole) {
        assert!(contents(&out.join(run)) == *whole, "{run}");
    }
}

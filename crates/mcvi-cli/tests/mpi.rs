//! Fits and training by several processes. Needs the feature `mpi` and `mpirun`.

#[cfg(not(feature = "mpi"))]
#[test]
fn several_processes_train_one_model() {
    eprintln!("skipped: built without the feature `mpi`");
}

#[cfg(feature = "mpi")]
mod processes {
    use std::collections::BTreeMap;
    use std::path::Path;
    use std::process::{Command, Output, Stdio};
    use std::time::{Duration, Instant};
    use tempfile::TempDir;

    const MCVI: &str = env!("CARGO_BIN_EXE_mcvi");
    const TRAIN: &str = "vae train --data images --hidden 12 --layers 1 --latent 3 --leapfrogs 1 --batch 12 --parts 12 \
                         --threads 1 --rate 0.005";

    /// Whether there is an `mpirun` to test with.
    fn has_mpirun() -> bool {
        let found = Command::new("mpirun").arg("--version").output().is_ok();
        if !found {
            eprintln!("skipped: there is no mpirun");
        }
        found
    }

    fn mpirun(folder: &Path, ranks: usize, arguments: &str) -> Command {
        let mut command = Command::new("mpirun");
        command.current_dir(folder).stdin(Stdio::null());
        command.args(["--oversubscribe", "--allow-run-as-root", "-n", &ranks.to_string(), MCVI]);
        command.args(arguments.split_whitespace());
        command
    }

    fn run(folder: &Path, ranks: usize, arguments: &str) -> Output {
        mpirun(folder, ranks, arguments).output().expect("mpirun starts")
    }

    fn succeeded(output: &Output) -> String {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Binary pictures of 6 by 6 pixels in two splits.
    fn images(folder: &Path) {
        std::fs::create_dir(folder.join("images")).expect("made");
        for (name, count) in [("train", 240), ("valid", 120), ("test", 120)] {
            let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
            let mut header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({count}, 6, 6), }}");
            while (10 + header.len() + 1) % 64 != 0 {
                header.push(' ');
            }
            header.push('\n');
            bytes.extend((header.len() as u16).to_le_bytes());
            bytes.extend(header.bytes());
            let pixel = |i: usize| 255 * u8::from((i / 36 * 7 + i % 36 * (1 + i / 36 % 3)) % 11 < 5);
            bytes.extend((0..count * 36).map(pixel));
            std::fs::write(folder.join("images").join(format!("{name}.npy")), bytes).expect("written");
        }
    }

    /// What a run leaves, without the times it took.
    fn contents(run: &Path) -> BTreeMap<String, Vec<u8>> {
        let entries = std::fs::read_dir(run).expect("a run").map(|e| e.expect("an entry").path());
        let named = entries.map(|path| (path.file_name().unwrap_or_default().to_string_lossy().into_owned(), path));
        let kept = named.filter(|(name, _)| !name.starts_with('.') && name != "times.csv" && name != "summary.json");
        kept.map(|(name, path)| (name, std::fs::read(path).expect("a file"))).collect()
    }

    #[test]
    fn any_number_of_processes_trains_the_same_model() {
        if !has_mpirun() {
            return;
        }
        let dir = TempDir::new().expect("a folder");
        images(dir.path());
        let words = format!("{TRAIN} --epochs 2 --out alone");
        let alone = Command::new(MCVI).current_dir(dir.path()).args(words.split_whitespace()).output();
        succeeded(&alone.expect("it starts"));
        let whole = contents(&dir.path().join("alone"));
        for ranks in 1..=4 {
            let out = format!("ranks{ranks}");
            let said = succeeded(&run(dir.path(), ranks, &format!("{TRAIN} --epochs 2 --out {out}")));
            assert_eq!(said.matches("on the validation images").count(), 1, "one speaks for all: {said}");
            assert!(contents(&dir.path().join(&out)) == whole, "{ranks} ranks");
        }
        // What evaluates it does not matter either.
        let evaluate = "vae evaluate alone --samples 20 --threads 1 --json";
        let evaluated = |ranks| {
            let said = succeeded(&run(dir.path(), ranks, evaluate));
            let time = said.find("\"seconds\"").expect("a time");
            said[..time].to_owned()
        };
        let by_one = evaluated(1);
        assert!(by_one.contains("log_p") && evaluated(3) == by_one);
        // Begun by three, resumed by two.
        succeeded(&run(dir.path(), 3, &format!("{TRAIN} --epochs 2 --decay none --out begun")));
        succeeded(&run(dir.path(), 2, "vae train --resume --epochs 4 --threads 1 --out begun"));
        succeeded(&run(dir.path(), 4, &format!("{TRAIN} --epochs 4 --decay none --out through")));
        assert!(contents(&dir.path().join("begun")) == contents(&dir.path().join("through")));
    }

    #[test]
    fn a_process_that_dies_ends_all_and_the_run_goes_on() {
        if !has_mpirun() {
            return;
        }
        let dir = TempDir::new().expect("a folder");
        images(dir.path());
        let long = format!("{TRAIN} --epochs 5000 --decay none --out run");
        let mut running = mpirun(dir.path(), 3, &long).stderr(Stdio::null()).spawn().expect("mpirun starts");
        let checkpoint = dir.path().join("run/checkpoint.safetensors");
        let started = Instant::now();
        while !checkpoint.exists() {
            assert!(started.elapsed() < Duration::from_secs(60), "no checkpoint");
            std::thread::sleep(Duration::from_millis(10));
        }
        // The last of mpirun's children.
        let children = Command::new("pgrep").args(["-P", &running.id().to_string()]).output().expect("pgrep");
        let children = String::from_utf8_lossy(&children.stdout).into_owned();
        let last = children.split_whitespace().last().expect("a rank").to_owned();
        assert!(Command::new("kill").args(["-9", &last]).status().expect("kill").success());
        let killed = Instant::now();
        while running.try_wait().expect("a child").is_none() {
            assert!(killed.elapsed() < Duration::from_secs(20), "the others go on");
            std::thread::sleep(Duration::from_millis(20));
        }
        let metrics = std::fs::read_to_string(dir.path().join("run/metrics.csv")).expect("metrics");
        let epochs = metrics.lines().count() + 2;
        succeeded(&run(dir.path(), 2, &format!("vae train --resume --epochs {epochs} --threads 1 --out run")));
        succeeded(&run(dir.path(), 4, &format!("{TRAIN} --epochs {epochs} --decay none --out whole")));
        assert!(contents(&dir.path().join("run")) == contents(&dir.path().join("whole")));
    }

    #[test]
    fn mistakes_end_all_processes_with_one_message() {
        if !has_mpirun() {
            return;
        }
        let dir = TempDir::new().expect("a folder");
        images(dir.path());
        let few = run(dir.path(), 2, &format!("{} --out few", TRAIN.replace("--parts 12", "--parts 1")));
        let said = String::from_utf8_lossy(&few.stderr).into_owned();
        assert!(!few.status.success() && said.contains("2 ranks need at least as many parts, not 1"), "{said}");
        std::fs::create_dir_all(dir.path().join("taken/x")).expect("made");
        let taken = run(dir.path(), 2, &format!("{TRAIN} --epochs 1 --out taken"));
        let said = String::from_utf8_lossy(&taken.stderr).into_owned();
        assert!(!taken.status.success() && said.contains("taken already exists"), "{said}");
        let refused = |arguments: &str, why: &str| {
            let refused = run(dir.path(), 2, arguments);
            let said = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert!(!refused.status.success() && said.contains(why), "{said}");
        };
        refused("calibrate eight-schools", "MPI is for `mcvi fit`, `mcvi vae train`");
        refused("fit linear --each images --target y --out fits", "MPI is for `mcvi fit`, `mcvi vae train`");
        refused("fit linear --data images --target y", "give a CSV file");
    }

    #[test]
    fn processes_go_by_one_clock() {
        if !has_mpirun() {
            return;
        }
        let dir = TempDir::new().expect("a folder");
        table(dir.path());
        // Too little for a chain that is never good enough: where it stops depends on time.
        let words = "fit logistic --data table.csv --target y --threads 1 --chain hamiltonian --seconds 8 --out run";
        let said = succeeded(&run(dir.path(), 2, words));
        assert!(said.contains("Verdict:"), "{said}");
        let settings = std::fs::read_to_string(dir.path().join("run/settings.json")).expect("settings");
        assert!(settings.contains("\"seconds\": 8.0"), "{settings}");
    }

    /// A table long enough for two parts.
    fn table(folder: &Path) {
        let number = |i: usize| ((i * 7919) % 1009) as f64 / 504.5 - 1.0;
        let mut text = "x,group,y\n".to_owned();
        for i in 0..16_500 {
            let (x, group) = (number(3 * i + 1), i * i % 3);
            let y = usize::from(number(5 * i) < 0.6 * x + 0.2 * group as f64);
            text += &format!("{x},g{group},{y}\n");
        }
        std::fs::write(folder.join("table.csv"), text).expect("written");
    }

    /// The files of a fit, without the time it took: it stands in the summary and on the page.
    fn fit_contents(run: &Path) -> BTreeMap<String, Vec<u8>> {
        let files = ["draws.csv", "draws.arrow", "fit.safetensors", "state.safetensors", "settings.json"];
        let mut all: BTreeMap<String, Vec<u8>> =
            files.iter().map(|name| (name.to_string(), std::fs::read(run.join(name)).expect(name))).collect();
        let summary = std::fs::read_to_string(run.join("summary.json")).expect("a summary");
        let lasting = summary.lines().filter(|line| !line.contains("\"seconds\""));
        all.insert("summary".to_owned(), lasting.collect::<String>().into_bytes());
        all
    }

    #[test]
    fn any_number_of_processes_gives_the_same_fit() {
        if !has_mpirun() {
            return;
        }
        let dir = TempDir::new().expect("a folder");
        table(dir.path());
        let fit = |out: &str| format!("fit logistic --data table.csv --target y --threads 1 --out {out}");
        let alone = Command::new(MCVI).current_dir(dir.path()).args(fit("alone").split_whitespace()).output();
        succeeded(&alone.expect("it starts"));
        let whole = fit_contents(&dir.path().join("alone"));
        for ranks in [1, 2, 3] {
            let out = format!("ranks{ranks}");
            let said = succeeded(&run(dir.path(), ranks, &fit(&out)));
            assert_eq!(said.matches("Verdict:").count(), 1, "one speaks for all: {said}");
            assert!(fit_contents(&dir.path().join(&out)) == whole, "{ranks} ranks");
        }
    }
}

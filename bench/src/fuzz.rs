//! `mcvi-bench fuzz`: mutated inputs for every reader, in processes of their own with a limit on memory, each input with
//! a limit on time. What makes a reader panic, abort or hang is saved.

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use mcvi_cli::fuzz::{Rng, TARGETS, Target, mutated, seeds};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Address space of a process, in KiB.
const MEMORY: u64 = 1 << 20;
/// Time of an input.
const HANGS: Duration = Duration::from_secs(30);
/// Inputs of a process.
const PIECE: u64 = 20_000;

#[derive(Parser)]
pub struct Options {
    /// Number of inputs, over all readers.
    #[arg(long, default_value_t = 1_000_000)]
    inputs: u64,
    /// Random seed. An input depends on it, on its reader and on its number alone.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only this reader. [default: all]
    #[arg(long)]
    target: Option<String>,
    /// Valid inputs, a folder for each reader.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus"))]
    corpus: PathBuf,
    /// Folder for the inputs that are not survived.
    #[arg(long, default_value = "fuzz-found")]
    found: PathBuf,
    /// Processes at a time. [default: one for each processor]
    #[arg(long)]
    jobs: Option<usize>,
    /// What a process of the campaign is given: its first and last input, and the file that says which it is at.
    #[arg(long, num_args = 3, hide = true)]
    worker: Option<Vec<String>>,
}

/// What is known of some inputs.
#[derive(Clone, Default)]
struct Counts {
    inputs: u64,
    accepted: u64,
    slowest: Duration,
    slowest_input: u64,
    total: Duration,
    peak_kib: u64,
    found: u64,
}

impl Counts {
    fn add(&mut self, other: &Counts) {
        self.inputs += other.inputs;
        self.accepted += other.accepted;
        if other.slowest > self.slowest {
            (self.slowest, self.slowest_input) = (other.slowest, other.slowest_input);
        }
        self.total += other.total;
        self.peak_kib = self.peak_kib.max(other.peak_kib);
        self.found += other.found;
    }

    /// As a worker writes them.
    fn line(&self) -> String {
        let [slowest, total] = [self.slowest, self.total].map(|time| time.as_micros());
        format!("{} {} {slowest} {} {total} {}", self.inputs, self.accepted, self.slowest_input, self.peak_kib)
    }

    fn parse(line: &str) -> Option<Self> {
        let numbers = line.split(' ').map(|word| word.parse().ok()).collect::<Option<Vec<u64>>>()?;
        let &[inputs, accepted, slowest, slowest_input, total, peak_kib] = numbers.as_slice() else { return None };
        let [slowest, total] = [slowest, total].map(Duration::from_micros);
        Some(Counts { inputs, accepted, slowest, slowest_input, total, peak_kib, found: 0 })
    }
}

/// Some inputs of a reader.
struct Piece<'a> {
    target: &'a Target,
    from: u64,
    to: u64,
}

pub fn run(options: &Options) -> Result<()> {
    let targets: Vec<&Target> =
        TARGETS.iter().filter(|target| options.target.as_ref().is_none_or(|name| *name == target.name)).collect();
    if targets.is_empty() {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        bail!("there is no such reader; there are: {}", names.join(", "));
    }
    if let Some(worker) = &options.worker {
        return work(options, targets[0], worker);
    }
    let (started, each) = (Instant::now(), options.inputs.div_ceil(targets.len() as u64));
    let pieces: Vec<(usize, Piece<'_>)> = (0..each.div_ceil(PIECE))
        .flat_map(|i| targets.iter().enumerate().map(move |(t, target)| (t, i, *target)))
        .map(|(t, i, target)| (t, Piece { target, from: i * PIECE, to: each.min((i + 1) * PIECE) }))
        .collect();
    let counts = Mutex::new(vec![Counts::default(); targets.len()]);
    let (next, jobs) = (AtomicUsize::new(0), options.jobs.unwrap_or(std::thread::available_parallelism()?.get()));
    std::thread::scope(|scope| -> Result<()> {
        let run = || -> Result<()> {
            while let Some((t, piece)) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
                let done = watch(options, piece)?;
                if let Ok(mut counts) = counts.lock() {
                    counts[*t].add(&done);
                }
            }
            Ok(())
        };
        let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(run)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| bail!("a thread stopped")))
    })?;
    let counts = counts.into_inner().unwrap_or_default();
    let mut out = std::io::stdout().lock();
    let title = ["reader", "inputs", "accepted", "refused", "mean µs", "slowest ms", "peak MiB", "found"];
    writeln!(
        out,
        "{:<16}{:>9}{:>10}{:>10}{:>9}{:>12}{:>10}{:>7}",
        title[0], title[1], title[2], title[3], title[4], title[5], title[6], title[7]
    )?;
    let mut all = Counts::default();
    for (name, c) in targets.iter().map(|target| target.name).zip(&counts).chain([("all", &Counts::default())]) {
        all.add(c);
        let c = if name == "all" { &all } else { c };
        let (refused, mean) =
            (c.inputs - c.accepted - c.found.min(c.inputs), c.total.as_micros() as f64 / c.inputs.max(1) as f64);
        let (slowest, peak) = (c.slowest.as_secs_f64() * 1e3, c.peak_kib as f64 / 1024.0);
        writeln!(
            out,
            "{name:<16}{:>9}{:>10}{refused:>10}{mean:>9.0}{slowest:>12.1}{peak:>10.0}{:>7}",
            c.inputs, c.accepted, c.found
        )?;
    }
    writeln!(out, "{:.0} s, seed {}", started.elapsed().as_secs_f64(), options.seed)?;
    ensure!(all.found == 0, "{} inputs were not survived; they are in {}", all.found, options.found.display());
    Ok(())
}

/// Run a piece in processes of its own, a new one after each that ends early.
fn watch(options: &Options, piece: &Piece<'_>) -> Result<Counts> {
    let Piece { target, mut from, to } = *piece;
    let place = std::env::temp_dir().join(format!("mcvi-fuzz-{}-{}-{from}", std::process::id(), target.name));
    let (mut counts, seed) = (Counts::default(), options.seed.to_string());
    while from < to {
        std::fs::write(&place, from.to_le_bytes())?;
        let mut child = Command::new("sh")
            .args(["-c", &format!("ulimit -v {MEMORY}; ulimit -c 0; exec \"$0\" \"$@\"")])
            .arg(std::env::current_exe()?)
            .args(["fuzz", "--target", target.name, "--seed", &seed, "--corpus"])
            .arg(&options.corpus)
            .args(["--worker", &from.to_string(), &to.to_string()])
            .arg(&place)
            .stdout(Stdio::piped())
            .spawn()
            .context("a worker cannot be started")?;
        let lines = BufReader::new(child.stdout.take().context("no output")?).lines();
        let reader = std::thread::spawn(move || lines.map_while(Result::ok).collect::<Vec<String>>());
        let at =
            || -> Result<u64> { Ok(u64::from_le_bytes(*std::fs::read(&place)?.first_chunk().context("no number")?)) };
        let (mut last, mut since, mut hung) = (from, Instant::now(), false);
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            std::thread::sleep(Duration::from_millis(20));
            let now = at()?;
            if now != last {
                (last, since) = (now, Instant::now());
            } else if since.elapsed() > HANGS {
                hung = true;
                child.kill()?;
            }
        };
        let lines = reader.join().unwrap_or_default();
        for line in &lines {
            match line.strip_prefix("panic ").and_then(|line| line.split_once(' ')) {
                Some((number, message)) => {
                    counts.found += 1;
                    save(options, target, number.parse()?, &format!("panics: {message}"))?;
                }
                None if !line.starts_with("panic ") => {}
                None => bail!("a worker wrote `{line}`"),
            }
        }
        if let Some(done) = lines.iter().rev().find_map(|line| Counts::parse(line)) {
            counts.add(&done);
        }
        if status.success() {
            break;
        }
        // The input that was being read is the culprit.
        let number = at()?;
        counts.found += 1;
        save(
            options,
            target,
            number,
            &if hung { "takes over 30 s".to_owned() } else { format!("ends the process ({status})") },
        )?;
        from = number + 1;
    }
    let _ = std::fs::remove_file(&place);
    Ok(counts)
}

fn input(seeds: &[Vec<u8>], options: &Options, target: &Target, number: u64) -> Vec<u8> {
    mutated(seeds, &mut Rng::new(options.seed, target.name, number))
}

/// Keep an input that was not survived.
fn save(options: &Options, target: &Target, number: u64, what: &str) -> Result<()> {
    std::fs::create_dir_all(&options.found)?;
    let path = options.found.join(format!("{}-{}-{number}", target.name, options.seed));
    std::fs::write(&path, input(&seeds(&options.corpus, target)?, options, target, number))?;
    eprintln!("{}: {what}", path.display());
    Ok(())
}

/// Read inputs one after the other; the parent sees from a file which it is.
fn work(options: &Options, target: &Target, given: &[String]) -> Result<()> {
    let [from, to, place] = given else { bail!("a worker needs three arguments") };
    let (from, to): (u64, u64) = (from.parse()?, to.parse()?);
    let place = std::fs::File::options().write(true).open(Path::new(place))?;
    let seeds = seeds(&options.corpus, target)?;
    std::panic::set_hook(Box::new(|_| ()));
    let (mut counts, mut out) = (Counts::default(), std::io::stdout());
    for number in from..to {
        place.write_all_at(&number.to_le_bytes(), 0)?;
        let bytes = input(&seeds, options, target, number);
        let started = Instant::now();
        let read = std::panic::catch_unwind(AssertUnwindSafe(|| (target.run)(&bytes)));
        let time = started.elapsed();
        counts.inputs += 1;
        counts.total += time;
        if time > counts.slowest {
            (counts.slowest, counts.slowest_input) = (time, number);
        }
        match read {
            Ok(accepted) => counts.accepted += u64::from(accepted),
            Err(why) => {
                let text =
                    why.downcast_ref::<String>().cloned().or(why.downcast_ref::<&str>().map(|s| (*s).to_owned()));
                writeln!(out, "panic {number} {}", text.unwrap_or_default().replace('\n', " "))?;
            }
        }
        if counts.inputs.is_multiple_of(500) || number + 1 == to {
            counts.peak_kib = crate::peak_bytes()? / 1024;
            writeln!(out, "{}", counts.line())?;
            out.flush()?;
        }
    }
    Ok(())
}

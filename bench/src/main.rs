//! The worker that `bench/compare` drives: one workload, commands on standard input, one JSON object a line back.

mod campaign;
mod corpus;
mod fuzz;
mod jobs;
mod sums;

use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};
use mcvi::fit::{self, Training};
use mcvi::paper::stomach_cancer::StomachCancer;
use mcvi::vae::{Architecture, Deep, TrainSettings, Trainer};
use mcvi::{Approximation, Chain};
use mcvi_bench::loops::{Form, Model, ROWS, measure};
use mcvi_bench::{Workload, sonar, stomach, vae};
use mcvi_expr::{Array, DType, Device, Graph, Program};
use serde_json::json;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

#[derive(Parser)]
enum Command {
    /// Obey `check DIR`, `bound DIR`, `time N`, `memory` and `quit`.
    Worker(Settings),
    /// Print where the time of a training step goes, kernel by kernel on one thread, or level by level on a GPU.
    Profile(Settings),
    /// Compare models with a recursion as a loop, as a loop in segments, and written out.
    Loops {
        /// Where to run: cpu, cuda, cuda:NUMBER or auto.
        #[arg(long, default_value = "cpu")]
        device: Device,
        /// Seconds each model is run for.
        #[arg(long, default_value_t = 5.0)]
        seconds: f64,
    },
    /// The time that the sum of a gradient over ranks takes: `mpirun -n 2 mcvi-bench sums`.
    Sums {
        /// Millions of bytes in each part.
        #[arg(long, value_delimiter = ',', default_value = "0.0004,1.2,5")]
        megabytes: Vec<f64>,
        /// Sums of each size.
        #[arg(long, default_value_t = 100)]
        count: usize,
    },
    /// Feed mutated files to every reader; a table at the end, and an error if an input was not survived.
    Fuzz(fuzz::Options),
    /// Run inference on random targets with known answers; a table of verdicts against truth, by family.
    Verdicts(campaign::Options),
    /// Run every posterior of a posteriordb folder: log densities and fits beside Stan's.
    Posteriordb(corpus::Options),
}

#[derive(Parser)]
struct Settings {
    #[arg(long)]
    workload: Kind,
    /// Leapfrogs; of UHA steps of one leapfrog.
    #[arg(long)]
    leapfrogs: usize,
    #[arg(long, default_value_t = 100)]
    batch: usize,
    #[arg(long, default_value_t = 1)]
    draws: usize,
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Where to run: cpu, cuda, cuda:NUMBER or auto.
    #[arg(long, default_value = "cpu")]
    device: Device,
    /// Folder with `sonar.csv`.
    #[arg(long)]
    data: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    Vae,
    Stomach,
    /// The stomach-cancer iteration as the library `mcvi` builds it.
    Library,
    /// The training step of the auto-encoder as the library builds it, images gathered from 50,000.
    LibraryVae,
    /// The same with convolutional networks.
    LibraryConv,
    /// Annealed steps of UHA for logistic regression of sonar returns, as the library builds them.
    Uha,
    /// One Hamiltonian step of as many leapfrogs for the same posterior.
    UhaHamiltonian,
}

impl Settings {
    fn dtype(&self) -> DType {
        match self.workload {
            Kind::Vae | Kind::LibraryVae | Kind::LibraryConv => DType::F32,
            Kind::Stomach | Kind::Library | Kind::Uha | Kind::UhaHamiltonian => DType::F64,
        }
    }

    fn parameters(&self) -> Result<usize> {
        Ok(match self.workload {
            Kind::Vae | Kind::LibraryVae | Kind::LibraryConv => vae::parameters(self.leapfrogs),
            Kind::Stomach | Kind::Library => stomach::PARAMETERS,
            Kind::Uha | Kind::UhaHamiltonian => self.sonar()?.params().learned(),
        })
    }

    /// The chain for the sonar returns, before it is trained.
    fn sonar(&self) -> Result<Approximation> {
        let chain = match self.workload {
            Kind::UhaHamiltonian => sonar::hamiltonian(self.leapfrogs),
            _ => sonar::uha(self.leapfrogs),
        };
        sonar::approximation(chain, self.data.as_deref(), self.threads)
    }

    fn build<'g>(&self, graph: &'g Graph, initial: Array, fixed: bool) -> Result<Workload<'g>> {
        Ok(match self.workload {
            Kind::Vae | Kind::LibraryVae | Kind::LibraryConv => {
                vae::build(graph, self.leapfrogs, self.batch, initial, fixed)?
            }
            Kind::Stomach | Kind::Library => stomach::build(graph, self.leapfrogs, self.draws, initial, fixed)?,
            Kind::Uha | Kind::UhaHamiltonian => bail!("it is built by the library alone"),
        })
    }

    /// Any sensible start; speed does not depend on it.
    fn initial(&self) -> Result<Array> {
        let values = match self.workload {
            Kind::Stomach | Kind::Library => stomach::start(),
            _ => (0..self.parameters()?).map(|i| 0.05 * ((i as f64 * 12.9898).sin() * 43758.5453).fract()).collect(),
        };
        Ok(Array::new(values.len(), values)?.cast(self.dtype()))
    }

    fn training(&self) -> Result<Program> {
        let graph = Graph::new();
        let workload = self.build(&graph, self.initial()?, false)?;
        Ok(workload.training_on(self.device, self.threads)?)
    }

    /// Loss and gradient at the parameters and noise that DIR holds.
    fn check(&self, dir: &Path) -> Result<serde_json::Value> {
        if !matches!(self.workload, Kind::Vae | Kind::Stomach) {
            bail!("the library has parameters of its own kind: its gradients are tested there, not here");
        }
        let read = |name: &str| self.read(dir, name);
        let array =
            |shape: &[usize], values: Vec<f64>| -> Result<Array> { Ok(Array::new(shape, values)?.cast(self.dtype())) };
        let graph = Graph::new();
        let n = self.parameters()?;
        let workload = self.build(&graph, array(&[n], read("params.bin")?)?, true)?;
        let gradient = workload.gradient();
        let program = graph.program().output("loss", workload.loss).output("gradient", gradient);
        let mut program = program.device(self.device).threads(self.threads).compile()?;
        let names: Vec<String> = program.input_names().into_iter().map(str::to_owned).collect();
        for name in names {
            let shape = match (self.workload, name.as_str()) {
                (Kind::Vae, "x") => [self.batch, 784],
                (Kind::Vae, _) => [self.batch, 32],
                _ => [self.draws, 2],
            };
            program.write(&name, &array(&shape, read(&format!("{name}.bin"))?)?)?;
        }
        program.run(1)?;
        let path = dir.join(format!("grad-{}.bin", std::process::id()));
        let gradient = program.output("gradient")?;
        let bytes: Vec<u8> = match gradient.data() {
            mcvi_expr::Data::F32(d) => d.iter().flat_map(|x| x.to_le_bytes()).collect(),
            mcvi_expr::Data::F64(d) => d.iter().flat_map(|x| x.to_le_bytes()).collect(),
            mcvi_expr::Data::I32(_) => bail!("a gradient of integers"),
        };
        std::fs::write(&path, bytes)?;
        Ok(json!({"loss": program.output("loss")?.to_f64()[0], "grad": path}))
    }

    /// The bound at the parameters that DIR holds, by fresh draws, and its standard error.
    fn bound(&self, dir: &Path) -> Result<serde_json::Value> {
        let mut approximation = self.sonar()?;
        sonar::set(&mut approximation, &self.read(dir, "params.bin")?)?;
        let bound = sonar::bound(&approximation, 1)?;
        Ok(json!({"bound": bound.value, "se": bound.se}))
    }

    fn read(&self, dir: &Path, name: &str) -> Result<Vec<f64>> {
        let bytes = std::fs::read(dir.join(name)).with_context(|| format!("reading {name} in {}", dir.display()))?;
        Ok(match self.dtype() {
            DType::F32 => bytes.as_chunks().0.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect(),
            _ => bytes.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect(),
        })
    }
}

/// Images the library gathers its batches from.
const IMAGES: usize = 50_000;

/// Some images of random pixels.
fn pixels(images: usize) -> Result<Array> {
    let pixels = (0..images * 784).map(|i| f32::from(i * 7919 % 1000 < 200)).collect::<Vec<f32>>();
    Ok(Array::new([images, 784], pixels)?)
}

fn same_size(library: usize, workload: usize) -> Result<()> {
    if library != workload {
        bail!("the library learns {library} parameters, the workload {workload}");
    }
    Ok(())
}

fn peak_bytes() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).context("no VmHWM in /proc/self/status")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse::<u64>()? * 1024)
}

/// Seconds of processor time that the threads of this process have used.
fn cpu_seconds() -> Result<f64> {
    let mut total = 0.0;
    for thread in std::fs::read_dir("/proc/self/task")? {
        let text = std::fs::read_to_string(thread?.path().join("schedstat"))?;
        total += text.split(' ').next().context("an empty schedstat")?.parse::<f64>()? / 1e9;
    }
    Ok(total)
}

/// What is timed: a program built by hand, or the library's iteration.
enum Timed {
    Program(Box<Program>),
    Library(Box<Training>),
    Deep(Box<Trainer>, usize),
}

impl Timed {
    fn new(settings: &Settings) -> Result<Self> {
        if matches!(settings.workload, Kind::Library | Kind::Uha | Kind::UhaHamiltonian)
            && settings.device != Device::Cpu
        {
            bail!("the library's iteration is timed on the CPU only");
        }
        match settings.workload {
            Kind::Vae | Kind::Stomach => Ok(Timed::Program(Box::new(settings.training()?))),
            Kind::Library => {
                let model = Approximation::new(StomachCancer, Chain::hamiltonian(settings.leapfrogs))?;
                let model = model.on(mcvi::Hardware::with_threads(settings.threads));
                same_size(model.params().learned(), settings.parameters()?)?;
                let fit = fit::Settings { draws: settings.draws, ..fit::Settings::default() };
                Ok(Timed::Library(Box::new(Training::new(&model, &fit)?)))
            }
            Kind::Uha | Kind::UhaHamiltonian => {
                Ok(Timed::Library(Box::new(sonar::training(&settings.sonar()?, settings.draws)?)))
            }
            Kind::LibraryVae | Kind::LibraryConv => {
                let conv = matches!(settings.workload, Kind::LibraryConv);
                let decoder = if conv { mcvi::vae::Kind::Conv } else { mcvi::vae::Kind::Dense };
                let architecture = Architecture { decoder, leapfrogs: settings.leapfrogs, ..Architecture::default() };
                if !conv {
                    let learned = Deep::new(architecture.clone(), 1)?.params.learned();
                    same_size(learned, settings.parameters()?)?;
                }
                let train = TrainSettings { batch: settings.batch, ..TrainSettings::default() };
                let images = pixels(IMAGES)?;
                let trainer = Trainer::new(
                    &architecture,
                    &train,
                    (&images, &pixels(500)?, ""),
                    mcvi::Hardware { device: settings.device, ..mcvi::Hardware::with_threads(settings.threads) },
                )?;
                Ok(Timed::Deep(Box::new(trainer), settings.batch))
            }
        }
    }

    /// Some steps; returns the last loss.
    fn run(&mut self, steps: usize) -> Result<f64> {
        match self {
            Timed::Program(program) => {
                program.run(steps)?;
                Ok(program.output("loss")?.to_f64()[0])
            }
            Timed::Library(training) => {
                let done = training.run(steps, |_| 1e-2, &vec![0.01; steps])?;
                Ok(done.bounds.last().map_or(f64::NAN, |bound| -bound))
            }
            Timed::Deep(trainer, batch) => {
                let rows = (0..steps * *batch).map(|i| (i * 7919 % IMAGES) as i32).collect::<Vec<_>>();
                let rows = Array::new([steps, *batch], rows)?;
                let kl_weight = Array::new(steps, vec![1.0f32; steps])?;
                let inputs = [(mcvi::vae::ROWS, &rows), (fit::KL_WEIGHT, &kl_weight)];
                let done = trainer.training().run_with(steps, |_| 1e-3, &[], &inputs)?;
                Ok(done.bounds.last().map_or(f64::NAN, |bound| -bound))
            }
        }
    }
}

fn print_profile(timed: &mut Timed) -> Result<()> {
    timed.run(5)?;
    let mut out = std::io::stdout().lock();
    let times = match timed {
        Timed::Program(program) => program.profile(50)?,
        Timed::Library(training) => training.profile(50)?,
        Timed::Deep(trainer, _) => trainer.training().profile(50)?,
    };
    for (kernel, ns) in &times {
        writeln!(out, "{:10.2} us  {kernel}", ns / 1e3)?;
    }
    writeln!(out, "{:10.2} us  in all", times.iter().map(|t| t.1).sum::<f64>() / 1e3)?;
    Ok(())
}

/// A table of models with a recursion, each form beside the one written out.
fn loops(device: Device, seconds: f64) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{ROWS} rows, one Hamiltonian step of two leapfrogs with the gradient of its bound, on {device}")?;
    writeln!(out, "{:6} {:12} {:>9} {:>10} {:>6} {:>8}", "model", "form", "compile s", "run us", "ratio", "MB")?;
    for model in [Model::Garch, Model::Hmm] {
        let forms = [Form::Loop, Form::Checkpointed, Form::Unrolled];
        let times = measure(model, &forms, device, seconds)?;
        let unrolled = &times[2];
        for (form, t) in forms.iter().zip(&times) {
            let close = |a: f64, b: f64| (a - b).abs() <= 1e-8 * b.abs();
            if !close(t.bound, unrolled.bound) || !close(t.slope, unrolled.slope) {
                bail!("{model:?} {form:?} computes {t:?}, written out {unrolled:?}");
            }
            let (name, form, mb) = (format!("{model:?}"), format!("{form:?}"), t.bytes as f64 / 1e6);
            let ratio = t.run_us / unrolled.run_us;
            writeln!(out, "{name:6} {form:12} {:9.3} {:10.1} {ratio:6.2} {mb:8.2}", t.compile_s, t.run_us)?;
        }
    }
    Ok(())
}

fn main() -> Result<()> {
    let (settings, profile) = match Command::parse() {
        Command::Worker(settings) => (settings, false),
        Command::Profile(settings) => (settings, true),
        Command::Fuzz(options) => return fuzz::run(&options),
        Command::Verdicts(options) => return campaign::campaign(&options),
        Command::Posteriordb(options) => return corpus::corpus(&options),
        Command::Loops { device, seconds } => return loops(device, seconds),
        Command::Sums { megabytes, count } => return sums::run(&megabytes, count),
    };
    let start = Instant::now();
    let mut timed = Timed::new(&settings)?;
    let compile_seconds = start.elapsed().as_secs_f64();
    let mut about = json!({"ready": true, "compile_seconds": compile_seconds, "params": settings.parameters()?});
    if let Timed::Program(program) = &mut timed {
        if let Kind::Vae = settings.workload {
            program.write("x", &pixels(settings.batch)?)?;
        }
        let (kernels, levels) = program.kernels();
        about["kernels"] = json!(kernels);
        about["levels"] = json!(levels);
        about["bytes"] = json!(program.memory_bytes());
    }
    if profile {
        return print_profile(&mut timed);
    }
    let mut out = std::io::stdout();
    writeln!(out, "{about}")?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let answer = match line.split_once(' ').unwrap_or((&line, "")) {
            ("check", dir) => settings.check(Path::new(dir))?,
            ("bound", dir) => settings.bound(Path::new(dir))?,
            ("time", steps) => {
                let steps = steps.parse()?;
                let (cpu, start) = (cpu_seconds()?, Instant::now());
                let loss = timed.run(steps)?;
                let seconds = start.elapsed().as_secs_f64();
                json!({"seconds": seconds, "loss": loss, "cpu_seconds": cpu_seconds()? - cpu})
            }
            ("memory", _) => json!({"peak_bytes": peak_bytes()?}),
            ("quit", _) => break,
            _ => bail!("unknown command `{line}`; known are check DIR, bound DIR, time N, memory, quit"),
        };
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

//! `mcvi stan`: check a Stan program, show what it becomes, evaluate its log density.

use crate::mistake::{Mistake, mistaken};
use crate::output::{print, print_result};
use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use mcvi_stan::{StanModel, read_program};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

#[derive(Subcommand)]
pub enum Command {
    /// Check a program's syntax and types; with data, also whether it can be run.
    Check(Options),
    /// Show the parameters with their shapes, and the size of the log density.
    Show(Options),
    /// The log density and its gradient at unconstrained parameters, with all constants and the Jacobian.
    LogDensity(PointOptions),
}

#[derive(Args)]
pub struct Options {
    /// The program.
    #[arg(value_name = "FILE.stan")]
    program: PathBuf,
    /// Its data, a file of JSON.
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct PointOptions {
    #[command(flatten)]
    model: Options,
    /// A file with the unconstrained parameters in Stan's order: a list of numbers in JSON.
    #[arg(long, value_name = "FILE")]
    at: PathBuf,
}

pub fn run(command: &Command) -> Result<()> {
    match command {
        Command::Check(options) => check(options),
        Command::Show(options) => show(options),
        Command::LogDensity(options) => log_density(options),
    }
}

fn open(options: &Options) -> Result<StanModel> {
    StanModel::open(&options.program, options.data.as_deref()).map_err(|e| mistaken(e.into()))
}

fn check(options: &Options) -> Result<()> {
    read_program(&options.program).map_err(|e| mistaken(e.into()))?;
    let mut text = format!("{}: no mistakes", options.program.display());
    let mut result = json!({ "program": options.program, "ok": true });
    if options.data.is_some() {
        let model = open(options)?;
        let (printed, unused) = (model.posterior().printed(), model.posterior().unused());
        printed.iter().for_each(|line| text += &format!("\nprinted: {line}"));
        if !unused.is_empty() {
            text += &format!("\nnot declared by the program: {}", unused.join(", "));
        }
        result["printed"] = json!(printed);
        result["unused"] = json!(unused);
    }
    print_result(options.json, &result, &text)
}

fn show(options: &Options) -> Result<()> {
    let model = open(options)?;
    let posterior = model.posterior();
    let mut text = format!("{} unconstrained parameters\n\n", posterior.dim());
    let mut parameters = vec![];
    for (name, shape, free) in posterior.parameters() {
        text += &format!("  {name:<24}{:<20}{free} unconstrained\n", format!("{shape:?}"));
        parameters.push(json!({ "name": name, "shape": shape, "unconstrained": free }));
    }
    text += &format!("\nThe log density takes {} operations on arrays.", posterior.operations());
    let result = json!({ "dim": posterior.dim(), "parameters": parameters, "operations": posterior.operations() });
    print_result(options.json, &result, &text)
}

/// The numbers of a file.
fn numbers(path: &Path) -> Result<Vec<f64>> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| Mistake(format!("{}: {e}", path.display())))
        .context("unconstrained parameters")?;
    let list: Vec<f64> = serde_json::from_str(&text)
        .map_err(|e| Mistake(format!("{} is not a list of numbers: {e}", path.display())))?;
    Ok(list)
}

fn log_density(options: &PointOptions) -> Result<()> {
    let model = open(&options.model)?;
    let (posterior, point) = (model.posterior(), numbers(&options.at)?);
    let dim = posterior.dim();
    if point.len() != dim {
        let why = format!("{} has {} numbers; the program has {dim} parameters", options.at.display(), point.len());
        return Err(Mistake(why).into());
    }
    let (value, gradient) = posterior.value_and_gradient(&point).map_err(mcvi::Error::from)?;
    // JSON has no infinity: null stands for what is not finite.
    let finite = |x: f64| if x.is_finite() { json!(x) } else { Value::Null };
    let list: Vec<Value> = gradient.iter().map(|x| finite(*x)).collect();
    let result = json!({ "log_density": finite(value), "gradient": list });
    if options.model.json {
        return print_result(true, &result, "");
    }
    print(&format!("log density {value}\ngradient    {gradient:?}"))
}

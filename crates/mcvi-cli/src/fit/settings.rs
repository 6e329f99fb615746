//! The resolved settings of a fit as `settings.json`: all that is needed to repeat it or to go on with it.

use super::problem::Problem;
use super::result::Outcome;
use crate::mistake::Mistake;
use anyhow::Result;
use mcvi::fit::{Optimiser, Schedule};
use mcvi::infer::{Budget, ChainChoice, Ended, Request, Shape};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// What was asked for and what came of it.
pub fn write(outcome: &Outcome, problem: &Problem, request: &Request) -> Value {
    let (s, p) = (&request.settings, &outcome.posterior);
    let asked = match request.chain {
        ChainChoice::Auto => json!("auto"),
        ChainChoice::None => json!("none"),
        ChainChoice::Hamiltonian { steps, leapfrogs } => json!({ "steps": steps, "leapfrogs": leapfrogs }),
    };
    // The command changes neither of these two; named, so that another version can tell.
    let optimiser = match s.optimiser {
        Optimiser::Adam { beta1, beta2 } => json!({ "adam": [beta1, beta2] }),
        other => json!(format!("{other:?}")),
    };
    let schedule = if s.schedule == Schedule::Automatic { "automatic".to_owned() } else { format!("{:?}", s.schedule) };
    json!({
        "mcvi": env!("CARGO_PKG_VERSION"),
        "model": problem.name,
        "data": problem.source.as_ref().map(|s| s.0.display().to_string()),
        "target": problem.source.as_ref().map(|s| s.1.clone()),
        "chain": {
            "steps": p.shape.steps, "leapfrogs": p.shape.leapfrogs, "hidden": p.shape.hidden,
            "full_covariance": p.shape.full_covariance,
        },
        "asked": {
            "chain": asked,
            "full_covariance": request.full_covariance,
            "starts": request.starts,
            "draws": request.draws,
            "iterations": request.budget.iterations,
            "seconds": request.budget.seconds,
        },
        "fit": {
            "draws": s.draws,
            "optimiser": optimiser,
            "rate": s.rate,
            "transition_rate": s.transition_rate,
            "schedule": schedule,
            "clip": s.clip,
            "iterations": s.iterations,
            "tolerance": s.tolerance,
            "warm_start": s.warm_start,
        },
        "seed": s.seed,
        "ended": word(p.ended),
        "iterations": p.iterations,
    })
}

fn word(ended: Ended) -> &'static str {
    match ended {
        Ended::Finished => "finished",
        Ended::Budget => "budget",
        Ended::Interrupted => "interrupted",
    }
}

/// The settings of a folder written before.
pub struct Saved {
    folder: PathBuf,
    value: Value,
}

impl Saved {
    pub fn open(folder: &Path) -> Result<Self> {
        let path = folder.join("settings.json");
        let saved = Saved { folder: folder.to_owned(), value: Value::Null };
        let text = std::fs::read_to_string(&path).map_err(|e| saved.bad(&format!("{}: {e}", path.display())))?;
        let value = serde_json::from_str(&text).map_err(|e| saved.bad(&format!("settings.json: {e}")))?;
        Ok(Saved { value, ..saved })
    }

    fn bad(&self, why: &str) -> anyhow::Error {
        Mistake(format!("{} is not the folder of a fit: {why}", self.folder.display())).into()
    }

    fn lacks(&self, what: &str) -> anyhow::Error {
        self.bad(&format!("settings.json does not say {what}"))
    }

    /// A file beside the settings.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub fn problem(&self) -> Result<Problem> {
        let name = self.value["model"].as_str().ok_or_else(|| self.bad("settings.json names no model"))?;
        Problem::new(name, self.value["data"].as_str().map(Path::new), self.value["target"].as_str())
    }

    /// The chain that was fitted.
    pub fn shape(&self) -> Result<Shape> {
        let chain = &self.value["chain"];
        let number =
            |key: &str| chain[key].as_u64().map(|n| n as usize).ok_or_else(|| self.lacks("what chain was fitted"));
        Ok(Shape {
            steps: number("steps")?,
            leapfrogs: number("leapfrogs")?,
            hidden: number("hidden")?,
            full_covariance: chain["full_covariance"].as_bool().unwrap_or(false),
        })
    }

    /// What was asked for.
    pub fn request(&self) -> Result<Request> {
        let (asked, fit) = (&self.value["asked"], &self.value["fit"]);
        let count = |from: &Value, key: &str| {
            from[key].as_u64().map(|n| n as usize).ok_or_else(|| self.lacks(&format!("how many {key}")))
        };
        let number = |key: &str| fit[key].as_f64().ok_or_else(|| self.lacks(&format!("the {}", key.replace('_', " "))));
        let chain = match &asked["chain"] {
            Value::String(s) if s == "auto" => ChainChoice::Auto,
            Value::String(s) if s == "none" => ChainChoice::None,
            chain => ChainChoice::Hamiltonian { steps: count(chain, "steps")?, leapfrogs: count(chain, "leapfrogs")? },
        };
        let (beta1, beta2) = (fit["optimiser"]["adam"][0].as_f64(), fit["optimiser"]["adam"][1].as_f64());
        let (Some(beta1), Some(beta2)) = (beta1, beta2) else { return Err(self.lacks("the optimiser")) };
        if fit["schedule"] != "automatic" {
            return Err(self.lacks("a schedule that is known here"));
        }
        let mut request = Request {
            chain,
            full_covariance: asked["full_covariance"].as_bool(),
            starts: count(asked, "starts")?,
            draws: count(asked, "draws")?,
            budget: Budget {
                iterations: asked["iterations"].as_u64().map(|n| n as usize),
                seconds: asked["seconds"].as_f64(),
            },
            ..Request::default()
        };
        let s = &mut request.settings;
        (s.draws, s.iterations) = (count(fit, "draws")?, count(fit, "iterations")?);
        s.optimiser = Optimiser::Adam { beta1, beta2 };
        (s.rate, s.transition_rate) = (number("rate")?, number("transition_rate")?);
        (s.clip, s.tolerance) = (number("clip")?, number("tolerance")?);
        s.warm_start = fit["warm_start"].as_bool().ok_or_else(|| self.lacks("how it began"))?;
        s.seed = self.value["seed"].as_u64().ok_or_else(|| self.lacks("the seed"))?;
        Ok(request)
    }

    /// What to ask for to get the same again: where it was stopped early, as many iterations as it had taken.
    pub fn repeated(&self) -> Result<Request> {
        let mut request = self.request()?;
        if self.value["ended"] != word(Ended::Finished) {
            let taken = self.value["iterations"].as_u64().ok_or_else(|| self.lacks("how many iterations it took"))?;
            request.budget = Budget { iterations: Some(taken as usize), seconds: None };
        }
        Ok(request)
    }

    /// What to ask for to go on: time is given anew each time, and a budget that was used is no longer one.
    pub fn continued(&self) -> Result<Request> {
        let mut request = self.request()?;
        request.budget.seconds = None;
        let taken = self.value["iterations"].as_u64().unwrap_or(0) as usize;
        request.budget.iterations = request.budget.iterations.filter(|most| *most > taken);
        Ok(request)
    }
}

//! Folders written by mcvi 0.1, whose settings were put together by hand.

use super::catalogue;
use super::settings::Settings;
use mcvi::fit::{Optimiser, StopReason};
use mcvi::infer::{Budget, ChainChoice, Request, hamiltonian_chain};
use mcvi::{Source, Target, posteriors, regression};
use serde_json::{Value, json};

/// The settings in today's terms, or what the file does not say.
pub fn settings(value: &Value) -> Result<Settings, String> {
    let name = value["model"].as_str().ok_or("what model was fitted")?;
    let model = match value["data"].as_str() {
        None => Source::new(posteriors::KIND, json!({ "name": name })),
        Some(data) => {
            let target = value["target"].as_str().ok_or("what column was the target")?;
            Source::new(regression::KIND, json!({ "family": name, "data": data, "target": target }))
        }
    };
    let count = |from: &Value, key: &str| {
        from[key].as_u64().and_then(|n| usize::try_from(n).ok()).ok_or_else(|| format!("how many {key}"))
    };
    let dim = catalogue::reopen(&model).map_err(|e| format!("a model that can be opened: {e:#}"))?.dim();
    let chain = &value["chain"];
    let full = chain["full_covariance"].as_bool().unwrap_or(false);
    let (steps, leapfrogs, hidden) = (count(chain, "steps")?, count(chain, "leapfrogs")?, count(chain, "hidden")?);
    let stop_reason = match value["ended"].as_str() {
        Some("finished") => StopReason::Converged,
        Some("interrupted") => StopReason::Interrupted,
        _ => StopReason::Budget,
    };
    Ok(Settings {
        mcvi: value["mcvi"].as_str().unwrap_or("0.1.0").to_owned(),
        format: 1,
        model,
        fingerprint: None,
        chain: hamiltonian_chain(dim, full, steps, leapfrogs, hidden),
        request: request(value, count)?,
        stop_reason,
        iterations: count(value, "iterations")?,
    })
}

fn request(value: &Value, count: impl Fn(&Value, &str) -> Result<usize, String>) -> Result<Request, String> {
    let (asked, fit) = (&value["asked"], &value["fit"]);
    let number = |key: &str| fit[key].as_f64().ok_or_else(|| format!("the {}", key.replace('_', " ")));
    let chain = match &asked["chain"] {
        Value::String(s) if s == "auto" => ChainChoice::Auto,
        Value::String(s) if s == "none" => ChainChoice::None,
        chain => ChainChoice::Hamiltonian { steps: count(chain, "steps")?, leapfrogs: count(chain, "leapfrogs")? },
    };
    let (beta1, beta2) = (fit["optimiser"]["adam"][0].as_f64(), fit["optimiser"]["adam"][1].as_f64());
    let (Some(beta1), Some(beta2)) = (beta1, beta2) else { return Err("the optimiser".to_owned()) };
    let mut request = Request {
        chain,
        full_covariance: asked["full_covariance"].as_bool(),
        starts: count(asked, "starts")?,
        draws: count(asked, "draws")?,
        budget: Budget { iterations: count(asked, "iterations").ok(), seconds: asked["seconds"].as_f64() },
        ..Request::default()
    };
    let s = &mut request.settings;
    (s.draws, s.iterations) = (count(fit, "draws")?, count(fit, "iterations")?);
    s.optimiser = Optimiser::Adam { beta1, beta2 };
    (s.rate, s.transition_rate) = (number("rate")?, number("transition_rate")?);
    (s.clip, s.tolerance) = (number("clip")?, number("tolerance")?);
    s.warm_start = fit["warm_start"].as_bool().ok_or("how it began")?;
    s.seed = value["seed"].as_u64().ok_or("the seed")?;
    Ok(request)
}

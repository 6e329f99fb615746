//! Folders written by mcvi 0.1, whose settings had another format.

use super::catalogue;
use super::settings::Settings;
use mcvi::fit::{Optimiser, StopReason};
use mcvi::infer::{Budget, ChainChoice, Request, hamiltonian_chain};
use mcvi::{Source, Target, posteriors, regression};
use serde_json::{Value, json};

/// The settings in the current format, or what is wrong with the file.
pub fn settings(value: &Value) -> Result<Settings, String> {
    let name = value["model"].as_str().ok_or("names no model")?;
    let source = match value["data"].as_str() {
        None => Source::new(posteriors::KIND, json!({ "name": name })),
        Some(data) => {
            let target = value["target"].as_str().ok_or("does not say what column was the target")?;
            Source::new(regression::KIND, json!({ "family": name, "data": data, "target": target }))
        }
    };
    let count = |from: &Value, key: &str| {
        from[key].as_u64().and_then(|n| usize::try_from(n).ok()).ok_or_else(|| format!("does not say how many {key}"))
    };
    let dim = catalogue::reopen(&source, None).map_err(|e| format!("cannot be used: {e:#}"))?.dim();
    let chain = &value["chain"];
    let full = chain["full_covariance"].as_bool().unwrap_or(false);
    let [Ok(steps), Ok(leapfrogs), Ok(hidden)] = ["steps", "leapfrogs", "hidden"].map(|key| count(chain, key)) else {
        return Err("does not say what chain was fitted".to_owned());
    };
    let stop_reason = match value["ended"].as_str() {
        Some("finished") => StopReason::Converged,
        Some("interrupted") => StopReason::Interrupted,
        _ => StopReason::Budget,
    };
    // A folder that is only used for further draws needs no request.
    let bare = value["asked"].is_null() && value["fit"].is_null();
    let request = if bare { Request::default() } else { request(value, count)? };
    Ok(Settings {
        mcvi: value["mcvi"].as_str().unwrap_or("0.1.0").to_owned(),
        format: 1,
        model: name.to_owned(),
        source,
        fingerprint: None,
        chain: hamiltonian_chain(dim, full, steps, leapfrogs, hidden),
        seed: request.settings.seed,
        request,
        stop_reason,
        iterations: value["iterations"].as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(0),
    })
}

fn request(value: &Value, count: impl Fn(&Value, &str) -> Result<usize, String>) -> Result<Request, String> {
    let (asked, fit) = (&value["asked"], &value["fit"]);
    let number = |key: &str| fit[key].as_f64().ok_or_else(|| format!("does not give the {}", key.replace('_', " ")));
    let chain = match &asked["chain"] {
        Value::String(s) if s == "auto" => ChainChoice::Auto,
        Value::String(s) if s == "none" => ChainChoice::None,
        chain => ChainChoice::Hamiltonian { steps: count(chain, "steps")?, leapfrogs: count(chain, "leapfrogs")? },
    };
    let (beta1, beta2) = (fit["optimiser"]["adam"][0].as_f64(), fit["optimiser"]["adam"][1].as_f64());
    let (Some(beta1), Some(beta2)) = (beta1, beta2) else { return Err("does not give the optimiser".to_owned()) };
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
    s.warm_start = fit["warm_start"].as_bool().ok_or("does not say whether it had a warm start")?;
    s.seed = value["seed"].as_u64().ok_or("does not give the seed")?;
    Ok(request)
}

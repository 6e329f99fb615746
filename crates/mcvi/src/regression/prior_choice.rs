//! Which prior each parameter has: the defaults, and what users ask for instead.

use super::family::Range;
use super::model::Specification;
use super::names::{nearest, word};
use super::prior::{Prior, Request};
use super::{listed, mistake};
use crate::error::Result;

/// What a prior may be asked for, and how special that is: classes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Class,
    Groups,
    One,
}

/// Put the priors that are asked for in place of the defaults. Those of classes of parameters give way to those of single
/// ones, whatever their order.
pub(super) fn choose(specification: &mut Specification, requests: &[String]) -> Result<()> {
    let mut requests: Vec<Request> = requests.iter().map(|r| Request::parse(r)).collect::<Result<_>>()?;
    let rank = |r: &Request| places(specification, &r.target).first().map(|(rank, _)| *rank);
    requests.sort_by_key(|r| rank(r));
    for request in &requests {
        let found = places(specification, &request.target);
        if found.is_empty() {
            let known = targets(specification);
            let hint = nearest(&request.target, known.iter().map(String::as_str));
            let hint = hint.map_or_else(String::new, |near| format!("did you mean `{near}`? "));
            let all = listed(known.iter().map(|k| format!("`{k}`")), 20);
            let (text, target) = (&request.text, &request.target);
            return Err(mistake(format!(
                "in the prior `{text}`: there is no parameter `{target}`; {hint}there are {all}"
            )));
        }
        for (_, place) in found {
            place.set(specification, request)?;
        }
    }
    Ok(())
}

/// A parameter that has a prior of its own: of which predictor, which group term, which coefficient.
#[derive(Clone, Copy)]
enum Place {
    Intercept(usize),
    Coefficient(usize, usize),
    Sd(usize, usize, usize),
    Correlation(usize, usize),
    Thresholds,
    Auxiliary(usize),
}

/// All that a name stands for.
fn places(s: &Specification, target: &str) -> Vec<(Rank, Place)> {
    let mut found = vec![];
    let spelt = |names: &[&str]| names.contains(&target);
    let plain: String = target.chars().filter(|c| !c.is_whitespace()).collect();
    for (i, p) in s.predictors.iter().enumerate() {
        if p.intercept.is_some() && (spelt(&["intercept", "Intercept"]) || target == format!("intercept{}", p.suffix)) {
            found.push((Rank::Class, Place::Intercept(i)));
        }
        for (j, (name, c)) in p.names.iter().zip(&s.columns).enumerate() {
            let label: String = c.label.chars().filter(|c| !c.is_whitespace()).collect();
            if spelt(&["beta", "b"]) {
                found.push((Rank::Class, Place::Coefficient(i, j)));
            } else if spelt(&[name, &c.name, &c.word]) || plain == label || word(target) == c.word {
                found.push((Rank::One, Place::Coefficient(i, j)));
            }
        }
        for (g, effects) in p.groups.iter().enumerate() {
            for c in 0..effects.sds.len() {
                let rank = if target == "sd" {
                    Rank::Class
                } else if target == format!("sd_{}", effects.name) {
                    Rank::Groups
                } else if target == effects.sd_name(c) {
                    Rank::One
                } else {
                    continue;
                };
                found.push((rank, Place::Sd(i, g, c)));
            }
            let is_meant = target == "cor" || target == format!("cor_{}", effects.name);
            if effects.correlation.is_some() && is_meant {
                found.push((Rank::Groups, Place::Correlation(i, g)));
            }
        }
    }
    if s.thresholds.is_some() && target == "threshold" {
        found.push((Rank::Class, Place::Thresholds));
    }
    let auxiliaries = s.auxiliaries.iter().enumerate().filter(|(_, a)| a.name == target);
    found.extend(auxiliaries.map(|(i, _)| (Rank::One, Place::Auxiliary(i))));
    found
}

/// Names for which a prior can be asked.
fn targets(s: &Specification) -> Vec<String> {
    let mut names: Vec<String> = vec![];
    let mut add = |name: String| {
        if !names.contains(&name) {
            names.push(name);
        }
    };
    for p in &s.predictors {
        if p.intercept.is_some() {
            add("intercept".to_owned());
        }
        s.columns.iter().for_each(|c| add(c.label.clone()));
        for g in &p.groups {
            add("sd".to_owned());
            (0..g.sds.len()).for_each(|c| add(g.sd_name(c)));
            if g.correlation.is_some() {
                add("cor".to_owned());
            }
        }
    }
    if s.thresholds.is_some() {
        add("threshold".to_owned());
    }
    s.auxiliaries.iter().for_each(|a| add(a.name.to_owned()));
    if !s.columns.is_empty() {
        add("beta".to_owned());
    }
    names
}

impl Place {
    fn set(self, s: &mut Specification, request: &Request) -> Result<()> {
        let bad = |what: &str| mistake(format!("in the prior `{}`: {what}", request.text));
        let prior = &request.prior;
        let real = || {
            if prior.is_real() {
                Ok(())
            } else {
                Err(bad("it can be negative: choose normal, student_t, cauchy or laplace"))
            }
        };
        let positive = || {
            prior
                .positive()
                .ok_or_else(|| bad("it is a positive number: choose half_normal, student_t, exponential or gamma"))
        };
        let unit = s.scale.sd;
        match self {
            Place::Intercept(i) => {
                real()?;
                s.predictors[i].intercept = Some(prior.standardised(s.scale.mean, unit));
            }
            Place::Coefficient(i, j) => {
                real()?;
                s.predictors[i].coefficients[j] = prior.standardised(0.0, unit / s.columns[j].scale.sd);
            }
            Place::Sd(i, g, c) => {
                let effects = &mut s.predictors[i].groups[g];
                effects.sds[c] = positive()?.standardised(0.0, unit / effects.groups.columns[c].sd);
            }
            Place::Correlation(i, g) => {
                if !prior.is_lkj() {
                    return Err(bad("it is a matrix of correlations: choose lkj(eta)"));
                }
                s.predictors[i].groups[g].correlation = Some(prior.clone());
            }
            Place::Thresholds => {
                real()?;
                if let Some((_, old)) = &mut s.thresholds {
                    *old = prior.clone();
                }
            }
            Place::Auxiliary(i) => {
                let a = &mut s.auxiliaries[i];
                let is_sigma = a.name == "sigma";
                a.prior = match a.range {
                    Range::Unit if prior.to_string().starts_with("beta") => prior.clone(),
                    Range::Unit => return Err(bad("it is between 0 and 1: choose beta(a, b)")),
                    _ => positive()?.standardised(0.0, if is_sigma { unit } else { 1.0 }),
                };
            }
        }
        Ok(())
    }
}

/// The priors in words: on the scale of the model, and what that is.
pub(super) fn said(s: &Specification) -> Vec<String> {
    let (mut said, mut seen) = (vec![], vec![]);
    let mut add = |name: String, prior: &Prior| {
        let text = format!("{name} ~ {prior}");
        if !seen.contains(&text) {
            seen.push(text.clone());
            said.push(text);
        }
    };
    for p in &s.predictors {
        if let Some(prior) = &p.intercept {
            add("intercept_std".to_owned(), prior);
        }
        let is_same = p.coefficients.windows(2).all(|pair| pair[0] == pair[1]);
        match p.coefficients.first() {
            Some(prior) if is_same => add("beta_std".to_owned(), prior),
            _ => p.names.iter().zip(&p.coefficients).for_each(|(name, prior)| add(format!("{name} (std)"), prior)),
        }
    }
    if let Some((_, prior)) = &s.thresholds {
        add("threshold_std".to_owned(), prior);
    }
    for a in &s.auxiliaries {
        let std = if a.name == "sigma" { "_std" } else { "" };
        add(format!("{}{std}", a.name), &a.prior);
    }
    for g in s.predictors.iter().flat_map(|p| &p.groups) {
        let is_same = g.sds.windows(2).all(|pair| pair[0] == pair[1]);
        if is_same {
            add(format!("sd_std_{}", g.name), &g.sds[0]);
        } else {
            (0..g.sds.len()).for_each(|c| add(format!("{} (std)", g.sd_name(c)), &g.sds[c]));
        }
        if let Some(prior) = &g.correlation {
            add(format!("cor_{}", g.name), prior);
        }
    }
    let mut scale = vec![];
    if !s.columns.is_empty() {
        let means = s.columns.iter().any(|c| c.scale.mean != 0.0);
        scale.push(if means { "columns have mean 0 and sd 1" } else { "columns have sd 1" }.to_owned());
    }
    if s.family.is_scaled() {
        let mean = if s.scale.mean == 0.0 { "" } else { "mean 0 and " };
        scale.push(format!("the response has {mean}sd 1"));
    } else if !s.scale.is_unit() {
        scale.push(format!("the intercept is relative to the log mean response, {:.2}", s.scale.mean));
    }
    let scale = if scale.is_empty() { String::new() } else { format!(" on the scale where {}", scale.join(", ")) };
    vec![format!("priors{scale}: {}", said.join(", "))]
}

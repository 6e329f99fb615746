//! Built-in posteriors, with their data.

use crate::bayesian_model::{About, DescribedModel, Source};
use crate::error::{Error, Result};
use crate::model::{Model, beta_binomial, half_cauchy, normal};
use crate::paper::stomach_cancer::{AT_RISK, DEATHS};
use serde_json::json;

/// A built-in posterior.
pub struct BuiltIn {
    /// Its name.
    pub name: &'static str,
    /// A description.
    pub about: &'static str,
    /// log p(x), where it is known.
    pub log_evidence: Option<f64>,
    make: fn() -> Result<Model>,
}

impl BuiltIn {
    /// The model.
    pub fn model(&self) -> Result<DescribedModel> {
        let about = About {
            name: self.name.to_owned(),
            description: self.about.to_owned(),
            notes: vec![],
            log_evidence: self.log_evidence,
        };
        let source = Source::new(KIND, json!({ "name": self.name }));
        Ok(DescribedModel { model: (self.make)()?, about, source, labels: vec![], data_digest: None })
    }
}

/// The kind of these models in a [`Source`].
pub const KIND: &str = "built-in";

/// Reopen the posterior of a saved run.
pub fn reopen(source: &Source) -> Result<DescribedModel> {
    let name = source.settings.get("name").and_then(|v| v.as_str()).unwrap_or_default();
    let found = ALL.iter().find(|b| b.name == name);
    found.ok_or_else(|| Error::Target { why: format!("there is no model `{name}` in this version of mcvi") })?.model()
}

/// All of them, the default first.
pub const ALL: [BuiltIn; 5] = [
    BuiltIn {
        name: "stomach-cancer",
        about: "deaths from stomach cancer in 20 cities: beta-binomial, 2 dimensions (the paper's section 3.1)",
        log_evidence: Some(crate::paper::stomach_cancer::LOG_EVIDENCE),
        make: stomach_cancer,
    },
    BuiltIn {
        name: "eight-schools",
        about: "coaching in eight schools: hierarchical normal, non-centred, 10 dimensions (Rubin 1981)",
        log_evidence: None,
        make: eight_schools,
    },
    BuiltIn {
        name: "funnel",
        about: "Neal's funnel, 10 dimensions: v ~ N(0, 3²), nine x ~ N(0, exp v); log Z = 0",
        log_evidence: Some(0.0),
        make: funnel,
    },
    BuiltIn {
        name: "banana",
        about: "a bent normal, 2 dimensions: x ~ N(0, 1), y ~ N(x²/2, 1); log Z = 0",
        log_evidence: Some(0.0),
        make: banana,
    },
    BuiltIn {
        name: "gaussian-mixture",
        about: "two separate normals, 2 dimensions: 0.3 N(−4, I) + 0.7 N(4, I); log Z = 0",
        log_evidence: Some(0.0),
        make: gaussian_mixture,
    },
];

fn stomach_cancer() -> Result<Model> {
    Model::new(|m| {
        let (logit, log_k) = (m.flat("logit_eta", 1), m.flat("log_K", 1));
        // Albert's prior, with the Jacobians of both coordinates.
        m.add(log_k - log_k.softplus() * 2.0);
        let (k, eta) = (m.generated("K", log_k.exp()), m.generated("eta", logit.sigmoid()));
        let n = m.data(&AT_RISK);
        m.observe("deaths", &DEATHS, beta_binomial(n, k * eta, k * (1.0 - eta)));
        // The binomial coefficients are omitted, as in the paper's source.
        let y = m.data(&DEATHS);
        let choose = (n + 1.0).lgamma() - (y + 1.0).lgamma() - (n - y + 1.0).lgamma();
        m.add(-choose);
    })
}

fn eight_schools() -> Result<Model> {
    let effects = [28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0];
    let errors = [15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0];
    Model::new(move |m| {
        let mu = m.real("mu", normal(0.0, 5.0));
        let tau = m.positive("tau", half_cauchy(5.0));
        let eta = m.reals("eta", 8, normal(0.0, 1.0));
        let theta = m.generated("theta", mu + tau * eta);
        let sigma = m.data(&errors);
        m.observe("y", &effects, normal(theta, sigma));
    })
}

fn funnel() -> Result<Model> {
    Model::new(|m| {
        let v = m.real("v", normal(0.0, 3.0));
        m.reals("x", 9, normal(0.0, (v * 0.5).exp()));
    })
}

fn banana() -> Result<Model> {
    Model::new(|m| {
        let x = m.real("x", normal(0.0, 1.0));
        m.real("y", normal(x.square() * 0.5, 1.0));
    })
}

fn gaussian_mixture() -> Result<Model> {
    Model::new(|m| {
        let z = m.flat("z", 2);
        let part =
            |weight: f64, mean: f64| (z - mean).square().sum(&[1]) * -0.5 + (weight.ln() - std::f64::consts::TAU.ln());
        let both = m.graph().concat(&[part(0.3, -4.0).expand(1), part(0.7, 4.0).expand(1)], 1);
        m.add(both.logsumexp(&[1]));
    })
}

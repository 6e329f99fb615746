//! Brownian motion with a missing middle.

use crate::error::Result;
use crate::model::{Model, normal};

/// Brownian motion with unknown scales and a missing middle, as inference_gym has it.
pub(super) fn brownian() -> Result<Model> {
    let first = [
        0.21592641,
        0.118771404,
        -0.07945447,
        0.037677474,
        -0.27885845,
        -0.1484156,
        -0.3250906,
        -0.22957903,
        -0.44110894,
        -0.09830782,
    ];
    let last = [
        -0.8786016,
        -0.83736074,
        -0.7384849,
        -0.8939254,
        -0.7774566,
        -0.70238715,
        -0.87771565,
        -0.51853573,
        -0.6948214,
        -0.6202789,
    ];
    Model::new(move |m| {
        // Scales by softplus of a free number, LogNormal(0, 2), with the Jacobian.
        let scale = |name: &str| {
            let free = m.flat(name, 1);
            let scale = free.softplus();
            let log = scale.ln();
            m.add(log.square() * -0.125 - log - (2.0 * std::f64::consts::TAU.sqrt()).ln() + free.log_sigmoid());
            scale
        };
        let (step, noise) = (scale("innovation_scale"), scale("observation_scale"));
        let x = m.flat("x", 30);
        let before = x.graph().concat(&[x.slice(1, 0..1) * 0.0, x.slice(1, 0..29)], 1);
        m.add(((x - before) / step).square() * -0.5 - step.ln() - 0.5 * std::f64::consts::TAU.ln());
        m.observe("first", &first, normal(x.slice(1, 0..10), noise));
        m.observe("last", &last, normal(x.slice(1, 20..30), noise));
    })
}

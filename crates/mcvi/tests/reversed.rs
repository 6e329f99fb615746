//! A transition that leaves the target invariant, inverted by its reverse, adds nothing: log α = 0 on every draw.

mod common;

use common::Starts;
use mcvi::density::Gaussian;
use mcvi::transition::{Drift, Hamiltonian, Inverse, Mass, MetropolisHastings, RandomWalk};
use mcvi::{Chain, Sharing};

/// The largest |log αₜ| of each step.
fn largest(case: &common::Case) -> Vec<f64> {
    let draws = case.approximation().draw(3000, 5).unwrap();
    draws.steps.iter().map(|step| step.iter().fold(0.0, |top: f64, x| top.max(x.abs()))).collect()
}

fn chains(start: impl Fn() -> Chain) -> Vec<(&'static str, Chain)> {
    let hmc = |n| Hamiltonian::new(n).mass(Mass::Full).momentum(common::network());
    vec![
        ("random walk", start().step(MetropolisHastings::proposal(RandomWalk))),
        ("drift", start().steps(3, Sharing::Nothing, MetropolisHastings::proposal(Drift))),
        ("a proposal that does not see where it is", start().step(MetropolisHastings::proposal(Gaussian::full()))),
        ("accepted leapfrogs", start().steps(2, Sharing::Everything, MetropolisHastings::hamiltonian(hmc(3)))),
        ("accepted leapfrogs, default momentum", start().step(MetropolisHastings::hamiltonian(Hamiltonian::new(1)))),
    ]
}

#[test]
fn reversed_steps_add_nothing_to_the_bound() {
    let starts = Starts::default();
    let wide = || starts.wide.clone();
    let mut cases: Vec<_> = chains(|| starts.broad.clone())
        .into_iter()
        .map(|(name, chain)| common::Case::new(name, common::On::Skewed, chain))
        .collect();
    for on in [common::On::Tilted, common::On::Exponentials] {
        cases.push(common::Case::new("Gibbs", on, wide().steps(3, Sharing::Nothing, common::gibbs(Inverse::Reversed))));
    }
    let relaxed = wide().steps(3, Sharing::Transitions, common::relaxed(Inverse::Reversed));
    cases.push(common::Case::new("over-relaxation", common::On::Tilted, relaxed));
    let mixed = starts.learned.clone().step(common::gibbs(Inverse::Reversed)).step(MetropolisHastings::proposal(Drift));
    cases.push(common::Case::new("Gibbs, then drift", common::On::Tilted, mixed));
    for case in &cases {
        for (t, log_alpha) in largest(case).into_iter().enumerate() {
            assert!(log_alpha < 1e-9, "{}, step {}: |log α| up to {log_alpha}", case.name, t + 1);
        }
    }
}

#[test]
fn over_relaxation_with_any_alpha_adds_nothing_to_the_bound() {
    let chain = Starts::default().wide.step(common::relaxed(Inverse::Reversed));
    let mut approximation = common::Case::new("", common::On::Tilted, chain).approximation();
    for value in [-1.2, 0.7] {
        approximation.params_mut().set("step1.atanh_alpha", mcvi_expr::Array::scalar(value)).unwrap();
        let draws = approximation.draw(3000, 5).unwrap();
        assert!(draws.steps[0].iter().all(|x| x.abs() < 1e-9));
        assert_eq!(draws.log_weights.len(), 3000);
    }
}

/// Dynamics without accept/reject, reversed, has the ratio that accept/reject compares with one.
#[test]
fn the_ratio_of_reversed_dynamics_is_its_acceptance_probability() {
    let hmc = || Hamiltonian::new(2).momentum(common::network());
    let draws = |chain: Chain| common::Case::new("", common::On::Skewed, chain).approximation().draw(1000, 5).unwrap();
    let start = || Starts::default().broad;
    let plain = draws(start().step(hmc().inverse(Inverse::Reversed)));
    let accepted = draws(start().step(MetropolisHastings::hamiltonian(hmc())));
    let (name, accept) = &accepted.diagnostics[0][0];
    assert_eq!(*name, mcvi::transition::Diagnostic::Acceptance);
    assert!(accept.iter().any(|a| *a < 0.9));
    for (log_alpha, accept) in plain.steps[0].iter().zip(accept) {
        assert!((log_alpha.exp().min(1.0) - accept).abs() < 1e-9, "{log_alpha}, {accept}");
    }
}

/// Section 4.2: with ℓ = log p − log q₀, a reversed step on the bridge at β leaves L = (1 − β) ℓ(z₁) + β ℓ(z₀).
#[test]
fn reversed_steps_on_a_bridge_add_what_annealing_says() {
    let (mean, sd, beta) = ([0.9, -0.2], [1.2, 1.4], 0.3);
    for transition in [MetropolisHastings::proposal(Drift), MetropolisHastings::hamiltonian(Hamiltonian::new(2))] {
        let chain = Chain::new(Gaussian::fixed(&mean, &sd)).step(transition).annealed(&[beta]);
        let draws = common::Case::new("", common::On::Skewed, chain).approximation().draw(1000, 5).unwrap();
        for (i, z) in draws.z.iter().enumerate() {
            let log_normal = |j: usize| {
                -0.5 * ((z[j] - mean[j]) / sd[j]).powi(2) - f64::ln(sd[j]) - 0.5 * std::f64::consts::TAU.ln()
            };
            let last = draws.log_p[i] - log_normal(0) - log_normal(1);
            let expected = (1.0 - beta) * last + beta * draws.first[i];
            assert!((draws.log_weights[i] - expected).abs() < 1e-9, "{} is not {expected}", draws.log_weights[i]);
        }
    }
}

#[test]
fn learned_inverses_do_change_the_bound() {
    let learned = |case: &common::Case| !case.name.contains("reversed");
    for case in
        common::sweeps(&Starts::default()).iter().chain(&common::accepts(&Starts::default())).filter(|c| learned(c))
    {
        for (t, log_alpha) in largest(case).into_iter().enumerate() {
            assert!(log_alpha > 1e-2, "{}, step {}: |log α| only up to {log_alpha}", case.name, t + 1);
        }
    }
}

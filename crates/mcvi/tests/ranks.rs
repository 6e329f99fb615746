//! Sums over data that ranks share, which are threads here: every one of them gets the bits that one alone gets.

use mcvi::density::Gaussian;
use mcvi::model::{Model, half_normal, normal};
use mcvi::regression::{Family, Formula, Frame, Options, Regression};
use mcvi::transition::Uha;
use mcvi::{Approximation, BayesianModel, Chain, Fingerprint, Hardware, InParts, Ranks, Sharing, Target};
use mcvi_expr::ThreadRank;
use std::sync::Arc;

/// Enough for two parts.
const ROWS: usize = 16_500;
const GROUPS: usize = 3;

/// Robust regression with effects of groups, as anyone would write it.
fn model() -> Model {
    let noise = |i: usize| ((i * 7919) % 1009) as f64 / 504.5 - 1.0;
    let x: Vec<f64> = (0..ROWS).map(|i| noise(3 * i + 1)).collect();
    let group: Vec<usize> = (0..ROWS).map(|i| (i * i) % GROUPS).collect();
    let y: Vec<f64> = (0..ROWS).map(|i| 0.5 + x[i] + 0.3 * group[i] as f64 + noise(5 * i).powi(3)).collect();
    Model::new(move |m| {
        let slope = m.real("slope", normal(0.0, 2.0));
        let effects = m.reals("effects", GROUPS, normal(0.0, 2.0));
        let sigma = m.positive("sigma", half_normal(1.0));
        let mean = effects.take(1, m.index(&group)) + slope * m.data(&x);
        m.observe("y", &y, normal(mean, sigma));
    })
    .expect("a model")
}

/// A gradient of the bound, through gradients of the log density.
fn gradient(chain: &Chain, ranks: Option<Ranks>) -> Vec<u64> {
    let hardware = Hardware { ranks, ..Hardware::with_threads(1) };
    let target = InParts::new(Arc::new(model()), hardware);
    let approximation = Approximation::new(target, chain.clone()).expect("an approximation");
    let (bound, gradients) = approximation.gradient(2, 1).expect("a gradient");
    gradients.into_iter().flat_map(|(_, of)| of).chain([bound]).map(f64::to_bits).collect()
}

fn check(chain: &Chain) {
    let alone = gradient(chain, None);
    // Two have a part each; of three, every one has both.
    for size in 2..=3 {
        std::thread::scope(|scope| {
            let start = |rank| scope.spawn(move || gradient(chain, Some(Ranks::new(rank))));
            let running: Vec<_> = ThreadRank::new(size).into_iter().map(start).collect();
            running.into_iter().for_each(|rank| assert!(rank.join().expect("it ended well") == alone, "{size} ranks"));
        });
    }
}

#[test]
fn ranks_share_gradients_and_change_no_bit() {
    check(&Chain::hamiltonian(2));
}

/// Gradients within a loop are sums over ranks too.
#[test]
fn ranks_share_the_steps_of_a_loop() {
    check(&Chain::new(Gaussian::full()).steps(42, Sharing::Nothing, Uha::new(1)).annealed_learned());
}

/// A logistic regression, of whose columns ranks hold their own rows: gradients, log likelihoods of observations, replicated data,
/// and what identifies model and data.
fn regression(ranks: Option<Ranks>) -> (Vec<u64>, String) {
    let noise = |i: usize| ((i * 7919) % 1009) as f64 / 504.5 - 1.0;
    let x = |by: usize| (0..ROWS).map(|i| noise(by * i + 1)).collect::<Vec<f64>>();
    let site = (0..ROWS).map(|i| Some(["a", "b", "c"][i * i % 3]));
    let y = (0..ROWS).map(|i| f64::from(u8::from(noise(5 * i) < noise(3 * i + 1))));
    let frame = Frame::new().numbers("x", x(3)).and_then(|f| f.numbers("v", x(17))).and_then(|f| f.texts("site", site));
    let frame = frame.and_then(|f| f.numbers("y", y.collect())).expect("a frame");
    let options = Options { family: Family::Bernoulli, ..Options::default() };
    let formula = Formula::parse("y ~ x * site + poly(v, 2)").expect("a formula");
    let model = Regression::shared(&formula, &frame, &options, ranks).expect("a regression");
    let fingerprint = serde_json::to_string(&Fingerprint::of(&model).expect("a fingerprint")).expect("json");
    let hardware = Hardware { ranks, ..Hardware::with_threads(1) };
    let z: Vec<Vec<f64>> = (0..60).map(|i| (0..model.dim()).map(|j| 0.1 * noise(i + 40 * j)).collect()).collect();
    let all = model.quantities(&z, Some(7), Hardware::with_threads(1)).expect("quantities");
    assert_eq!(all.log_likelihood[0].values.len(), 60 * ROWS);
    let share = all.predictive[0].values.iter().sum::<f64>() / (60 * ROWS) as f64;
    assert!((share - 0.5).abs() < 0.05 && all.predictive[0].values[0..99] != all.predictive[0].values[ROWS..ROWS + 99]);
    let approximation = Approximation::new(InParts::new(model, hardware), Chain::hamiltonian(1)).expect("one");
    let (bound, gradients) = approximation.gradient(2, 1).expect("a gradient");
    let numbers = gradients.into_iter().flat_map(|(_, of)| of).chain([bound]);
    let pointwise = [&all.log_likelihood, &all.predictive, &all.parameters].into_iter().flatten();
    (numbers.chain(pointwise.flat_map(|q| q.values.clone())).map(f64::to_bits).collect(), fingerprint)
}

#[test]
fn ranks_hold_their_own_rows_of_a_regression() {
    let alone = &regression(None);
    for size in 2..=3 {
        std::thread::scope(|scope| {
            let start = |rank| scope.spawn(move || regression(Some(Ranks::new(rank))) == *alone);
            let running: Vec<_> = ThreadRank::new(size).into_iter().map(start).collect();
            running.into_iter().for_each(|rank| assert!(rank.join().expect("it ended well"), "{size} ranks"));
        });
    }
}

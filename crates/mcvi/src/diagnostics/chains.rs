//! Whether sequences of one quantity have converged (split R-hat: Gelman et al. 2013, "Bayesian Data Analysis", 3rd
//! edition, section 11.4), and how well their mean is known (Geyer 1992, "Practical Markov chain Monte Carlo", as in
//! Stan).

use super::moments::{average, variance};

/// Split R-hat of one quantity over one or more sequences: near 1 where the halves of all sequences look alike.
///
/// Each sequence is cut at the length of the shortest; the middle draw of an odd length is in neither half. Where
/// nothing varies R-hat is 1, and inf where the halves are constant but differ. NaN where no sequence or fewer than
/// four draws are given, or any is not finite.
pub fn split_r_hat(chains: &[Vec<f64>]) -> f64 {
    let length = chains.iter().map(Vec::len).min().unwrap_or(0);
    if length < 4 || !chains.iter().all(|chain| all_finite(chain)) {
        return f64::NAN;
    }
    let n = length / 2;
    let halves: Vec<&[f64]> = chains.iter().flat_map(|chain| [&chain[..n], &chain[length - n..length]]).collect();
    let means: Vec<f64> = halves.iter().map(|half| average(half)).collect();
    let variances: Vec<f64> = halves.iter().map(|half| variance(half)).collect();
    let between = n as f64 * variance(&means);
    let within = average(&variances);
    if between == 0.0 && within == 0.0 {
        return 1.0;
    }
    let n = n as f64;
    // The overestimate of the variance, var+ = (n - 1) / n W + B / n, over W.
    ((n - 1.0) / n + between / within / n).sqrt()
}

/// The Monte Carlo standard error of the mean of an autocorrelated sequence, sd / sqrt(ESS).
///
/// NaN for fewer than four draws or where one is not finite.
pub fn monte_carlo_se(draws: &[f64]) -> f64 {
    (variance(draws) / autocorrelated_ess(draws)).sqrt()
}

/// How many independent draws would estimate the mean as well as this autocorrelated sequence does.
///
/// It is n / tau, where tau, the autocorrelation time, is summed by Geyer's initial monotone sequence; at most
/// n log10(n), and n where nothing varies. NaN for fewer than four draws or where one is not finite.
pub fn autocorrelated_ess(draws: &[f64]) -> f64 {
    if draws.len() < 4 || !all_finite(draws) {
        return f64::NAN;
    }
    let n = draws.len() as f64;
    let centre = average(draws);
    let spread = draws.iter().map(|x| (x - centre).abs()).fold(0.0, f64::max);
    if spread == 0.0 {
        return n;
    }
    if !spread.is_finite() {
        return f64::NAN;
    }
    // In units of the spread no square overflows, nor do all of them vanish.
    let centred: Vec<f64> = draws.iter().map(|x| (x - centre) / spread).collect();
    // Antithetic sequences can have a tau near zero, or below it by noise.
    n / autocorrelation_time(&centred).max(1.0 / n.log10())
}

/// tau = -1 + 2 sum rho_t, over the pairs rho_2i + rho_2i+1 before the first that is not positive.
///
/// In theory these pairs are positive and decrease, so one that is negative or grows is noise.
fn autocorrelation_time(centred: &[f64]) -> f64 {
    let n = centred.len();
    let rho = autocorrelation(centred);
    let (mut even, mut odd) = (1.0, rho(1));
    let mut smallest_pair = f64::INFINITY;
    let mut tau = -1.0;
    let mut t = 0;
    while t + 4 < n && even + odd > 0.0 {
        smallest_pair = smallest_pair.min(even + odd);
        tau += 2.0 * smallest_pair;
        t += 2;
        (even, odd) = (rho(t), rho(t + 1));
    }
    // The even half of the pair that ended the sum, counted once, lowers the variance for antithetic sequences.
    tau + f64::max(even, 0.0)
}

/// The estimated autocorrelation at each lag, with Stan's correction for the variance being that about the mean.
fn autocorrelation(centred: &[f64]) -> impl Fn(usize) -> f64 {
    let covariance = |lag: usize| centred.iter().zip(&centred[lag..]).map(|(x, y)| x * y).sum::<f64>();
    let variance = covariance(0);
    let bias = 1.0 / (centred.len() - 1) as f64;
    move |lag| covariance(lag) / variance - bias
}

/// Whether every draw is a number.
fn all_finite(draws: &[f64]) -> bool {
    draws.iter().all(|x| x.is_finite())
}

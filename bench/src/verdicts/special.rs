//! Derivatives of ln Γ, for the exact moments of log-gamma variables.

/// ψ(x) for x > 0: recurrence up to 12, then the asymptotic series.
pub fn digamma(x: f64) -> f64 {
    if x < 12.0 {
        return digamma(x + 1.0) - 1.0 / x;
    }
    let y = 1.0 / (x * x);
    x.ln() - 0.5 / x - y * (1.0 / 12.0 - y * (1.0 / 120.0 - y * (1.0 / 252.0 - y * (1.0 / 240.0 - y / 132.0))))
}

/// ψ′(x) for x > 0, likewise.
pub fn trigamma(x: f64) -> f64 {
    if x < 12.0 {
        return trigamma(x + 1.0) + 1.0 / (x * x);
    }
    let y = 1.0 / (x * x);
    1.0 / x + 0.5 * y + y / x * (1.0 / 6.0 - y * (1.0 / 30.0 - y * (1.0 / 42.0 - y * (1.0 / 30.0 - y * 5.0 / 66.0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        let pi = std::f64::consts::PI;
        assert!((digamma(1.0) + 0.577_215_664_901_532_9).abs() < 1e-13);
        assert!((digamma(0.5) + 0.577_215_664_901_532_9 + 4f64.ln()).abs() < 1e-13);
        assert!((trigamma(1.0) - pi * pi / 6.0).abs() < 1e-13 && (trigamma(0.5) - pi * pi / 2.0).abs() < 1e-13);
    }
}

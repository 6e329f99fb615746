//! Functions of Stan that are written in Stan: log densities and gradients by Stan 2.35, compiled, at one point.

use crate::{assert_near, evaluate, posterior};
use mcvi::{BayesianModel, Hardware};
use mcvi_stan::StanModel;
use serde_json::{Value, json};

/// Checks a program where its unconstrained parameters are 0.1 + 0.05 (i mod 7) − 0.15 (i mod 3).
fn check(program: &str, data: Value, log_density: f64, gradient: &[f64], tolerance: f64) {
    let p = posterior(program, data);
    let at = |i: usize| 0.1 + 0.05 * (i % 7) as f64 - 0.15 * (i % 3) as f64;
    let (value, found) = evaluate(&p, &[(0..p.dim()).map(at).collect()]);
    assert_near(value[0], log_density);
    assert_eq!(found.len(), gradient.len());
    for (found, expected) in found.iter().zip(gradient) {
        let error = (found - expected).abs() / expected.abs().max(1.0);
        assert!(error < tolerance, "found {found}, expected {expected}");
    }
}

const HIDDEN: &str = "data { int T; int K; array[T] int y; }
    parameters { array[K] simplex[K] A; simplex[K] pi0; positive_ordered[K] lam; }
    transformed parameters {
      matrix[K, T] lo;
      matrix[K, K] G;
      for (k in 1:K) G[k] = A[k]';
      for (t in 1:T) for (k in 1:K) lo[k, t] = poisson_lpmf(y[t] | lam[k]);
    }
    model { target += hmm_marginal(lo, G, pi0); lam ~ gamma(2, .5); }
    generated quantities {
      matrix[K, T] p = hmm_hidden_state_prob(lo, G, pi0);
      array[T] int state = hmm_latent_rng(lo, G, pi0);
    }";

fn counts() -> Value {
    json!({ "T": 12, "K": 2, "y": [1, 2, 0, 5, 6, 7, 5, 1, 0, 1, 2, 6] })
}

#[test]
fn hidden_markov_models() {
    let gradient = [-0.3200939149775425, -1.177537442915989, 0.17719789053822846, 7.557845784371077, 6.771346442448445];
    check(HIDDEN, counts(), -37.91926271825333, &gradient, 1e-11);
    let model = StanModel::compile(HIDDEN, &counts()).unwrap_or_else(|e| panic!("{e}"));
    let point: Vec<f64> = (0..5).map(|i| 0.1 + 0.05 * f64::from(i % 7) - 0.15 * f64::from(i % 3)).collect();
    let draws = 4000;
    let q = model.quantities(&vec![point; draws], Some(3), Hardware::with_threads(1)).unwrap();
    let find = |name: &str| q.generated.iter().find(|q| q.name == name).unwrap();
    let shares = &find("p").values[..24];
    assert_near(shares[0], 0.6022603281014083);
    assert_near(shares[3], 0.1162833298134);
    assert_near(shares[11], 0.06561159704078118);
    // Drawn states are in state 1 as often as that.
    for (t, share) in shares[..12].iter().enumerate() {
        let ones = find("state").values.iter().skip(t).step_by(12).filter(|s| **s == 1.0).count();
        let error = (ones as f64 / draws as f64 - share) / (share * (1.0 - share) / draws as f64).sqrt();
        assert!(error.abs() < 4.0, "state {t}: {ones} against {share}");
    }
}

#[test]
fn gaussian_processes() {
    let program = "data { int N; array[N] real x; vector[N] y; array[N] vector[2] x2; }
        parameters { real<lower=0> rho; real<lower=0> al; real<lower=0> sg; vector<lower=0>[2] w; }
        model {
          matrix[N, N] K = gp_periodic_cov(x, al, rho, 2.5) + gp_dot_prod_cov(x, sg);
          target += -log_determinant(add_diag(K, 1.0));
          y ~ multi_normal(rep_vector(0, N), add_diag(gp_periodic_cov(x2, al, rho, sg), .5));
          target += sum(gp_dot_prod_cov(x2, sg)) * .01 + sum(gp_periodic_cov(x[1:2], x, al, rho, sg));
          to_matrix(append_row(y, y), 2, N) ~ multi_gp(add_diag(gp_exp_quad_cov(x, al, rho), .3), w);
          target += multi_gp_cholesky_lpdf(to_matrix(append_row(y, 2 * y), 2, N) |
                                           cholesky_decompose(add_diag(gp_exp_quad_cov(x, al, rho), .3)), w);
          rho ~ inv_gamma(5, 5); al ~ std_normal(); sg ~ std_normal(); w ~ gamma(2, 2);
        }";
    let data = json!({ "N": 5, "x": [0, 0.5, 1.1, 2, 3], "y": [0.1, 0.4, 0.3, -1, 0.2],
        "x2": [[0, 1], [0.5, 0.2], [1, 1.5], [2, -1], [0.3, 0.3]] });
    let gradient = [4.66799913923202, -0.8973413131146488, -3.085991418221645, -1.135135918825645, 0.4751577206979083];
    check(program, data, -35.99246705801997, &gradient, 1e-10);
}

#[test]
fn skew_normal_distribution_functions() {
    let program = "parameters { real a; real<lower=0> s; real al; }
        model {
          target += skew_normal_lcdf(.3 | a, s, al) + skew_normal_lccdf(.3 | a, s, al);
          target += log(skew_normal_cdf(-1.2 | a, s, 2 * al)) + skew_normal_lcdf({.1, -1.0} | a, s, -3 * al);
          target += -a^2 - s;
          a ~ skew_normal(0, s, al) T[-2, 3];
        }";
    check(program, json!({}), -8.79442335809875, &[-4.555829116233862, 3.4712397869079092, 5.695229493557163], 1e-10);
    // Far out it is the integral of the density, whose logarithm falls by half its square.
    let tail = |z: f64, shape: f64| {
        let program = format!("parameters {{ real x; }} model {{ target += skew_normal_lcdf({z} | x, 1, {shape}); }}");
        evaluate(&posterior(&program, json!({})), &[vec![0.0]]).0[0]
    };
    assert_near(tail(-12.0, 0.0), -75.41067300156881);
    assert!((tail(-3.0, 8.0) - tail(-2.9, 8.0) + 0.5 * 65.0 * (9.0 - 8.41)).abs() < 0.2);
}

#[test]
fn first_passage_times() {
    let program = "data { int N; vector[N] y; }
        parameters { real<lower=0> a; real<lower=0,upper=.2> t0; real<lower=0,upper=1> b; real d; vector[N] dv; }
        model {
          a ~ gamma(3, 2); d ~ normal(0, 2); dv ~ normal(0, 1);
          for (n in 1:N) y[n] ~ wiener(a, t0, b, d);
          target += wiener_lpdf(y | a, t0, 1 - b, dv);
        }";
    let gradient = [
        65.17999982685838,
        1.547710809276815,
        0.4490808941459729,
        1.0207669223868305,
        0.35247918747894,
        0.44497918747894005,
        -0.3950208125210599,
        0.7199791874789401,
    ];
    let data = json!({ "N": 4, "y": [0.25, 0.7, 1.4, 3] });
    // By the series summed to the end; Stan 2.35 stops at an error of 1e-6, and has -42.20845544317595.
    check(program, data, -42.208455543177976, &gradient, 1e-6);
}

#[test]
fn truncation_of_several_distributions() {
    let program = "data { int N; vector[N] y; array[N] int k; }
        parameters { real mu; real<lower=0> s; vector[N] m; }
        model {
          mu ~ normal(0, 1); s ~ normal(0, 1); m ~ normal(0, 1);
          y ~ normal(m, s) T[0, 5];
          y ~ normal(m, s) T[, 2];
          y ~ student_t(3, mu, s) T[-1, ];
          k ~ poisson(exp(m)) T[1, ];
        }";
    let gradient =
        [0.6621385952533382, -5.755167319646623, -0.6375622516990432, -0.08172732890470003, 2.8286020800419416];
    let data = json!({ "N": 3, "y": [0.2, 0.5, 0.8], "k": [1, 2, 4] });
    // The derivatives of Stan's normal distribution function have five digits.
    check(program, data, -17.114063869575855, &gradient, 1e-4);
}

/// Checks that a difference is 0 for x = 0.3.
fn vanishes(difference: &str) {
    let program = format!("parameters {{ real x; }} model {{ target += {difference}; }}");
    let value = evaluate(&posterior(&program, json!({})), &[vec![0.3]]).0[0];
    assert!(value.abs() < 1e-11, "{difference} is {value}");
}

#[test]
fn densities_that_must_agree() {
    let l = "[[1 + x, 0], [x, 0.7]]";
    vanishes(&format!(
        "multi_student_t_cholesky_lpdf([1, x]' | 3, [x, 0]', {l}) - multi_student_t_lpdf([1, x]' | 3, [x, 0]', tcrossprod({l}))"
    ));
    // The Jacobian of L ↦ L L' is 4 L₁₁² L₂₂.
    let jacobian = "log(4 * square(1 + x) * 0.7)";
    let scale = "[[1, 0], [0.2, 2]]";
    for name in ["wishart", "inv_wishart"] {
        let factor = format!("{name}_cholesky_lpdf({l} | 4 + x, {scale})");
        vanishes(&format!("{factor} - {name}_lpdf(tcrossprod({l}) | 4 + x, tcrossprod({scale})) - {jacobian}"));
    }
    let counts = ["{2, 0}", "{1, 1}", "{0, 2}"];
    let masses = counts.map(|y| format!("exp(dirichlet_multinomial_lpmf({y} | [x, 2]'))")).join(" + ");
    vanishes(&format!("{masses} - 1"));
    for (family, n) in [("beta_binomial", "3, 7, 1 + x, 2"), ("beta_neg_binomial", "3, 2, 2 + x, 1.5")] {
        let (n, rest) = n.split_once(", ").unwrap();
        let at = |f: &str| format!("exp({family}_{f}({n} | {rest}))");
        vanishes(&format!("{} + {} - 1", at("lcdf"), at("lccdf")));
        let below = format!("exp({family}_lcdf(2 | {rest}))");
        vanishes(&format!("{} - {} - {below}", at("lcdf"), at("lpmf")));
    }
    vanishes(
        "yule_simon_lcdf({2, 1} | x) - log(exp(yule_simon_lpmf(1 | x)) + exp(yule_simon_lpmf(2 | x))) - yule_simon_lpmf(1 | x)",
    );
    // Two times of a state of one number are jointly normal.
    let r = "(x^2 * 2 + 0.5)";
    vanishes(&format!(
        "gaussian_dlm_obs_lpdf([[1, -0.4]] | [[1]], [[x]], [[0.3]], [[0.5]], [0]', [[2]])
         - multi_normal_lpdf([1, -0.4]' | [0, 0]', [[{r} + 0.3, x * {r}], [x * {r}, x^2 * {r} + 0.8]])"
    ));
    vanishes("lmgamma(2, x + 1) - 0.5 * log(pi()) - lgamma(x + 1) - lgamma(x + 0.5)");
    vanishes(
        "sum(generalized_inverse([[1, x, 2], [0, 1, x]]) - [[1, 0], [x, 1], [2, x]] * inverse([[5 + x^2, 3 * x], [3 * x, 1 + x^2]]))",
    );
}

#[test]
fn containers_and_draws() {
    let program = "transformed data {
          matrix[2, 3] A = [[1, 0, 2], [0, 3, 4]];
          matrix[2, 3] B = csr_to_dense_matrix(2, 3, csr_extract_w(A), csr_extract_v(A), csr_extract_u(A));
          array[3] real q = quantile({3.0, 1.0, 2.0, 7.0}, {0.0, 0.3, 1.0});
          if (sum(abs(A - B)) + abs(q[1] - 1) + abs(q[2] - 1.9) + abs(q[3] - 7) > 1e-12) reject(\"containers\");
          if (rank({3.0, 1.0, 2.0}, 1) != 2 || quantile([5, 6]', 0.5) != 5.5) reject(\"order\");
        }
        parameters { real x; }
        model { x ~ normal(0, 1); }
        generated quantities {
          array[10] real d = {
            exp_mod_normal_rng(1, 2, 0.5), skew_double_exponential_rng(1, 2, 0.2), loglogistic_rng(2, 4),
            pareto_type_2_rng(1, 2, 4), cos(von_mises_rng(1, 2) - 1), yule_simon_rng(4), beta_neg_binomial_rng(3, 5, 2),
            hypergeometric_rng(4, 6, 3), multinomial_logit_rng([0, log(3)]', 4)[2], dirichlet_multinomial_rng([1, 3]', 4)[2]
          };
          array[2] int b = bernoulli_logit_glm_rng([[1, 0], [0, 1]], [0, 0]', [100, -100]');
        }";
    let model = StanModel::compile(program, &json!({})).unwrap_or_else(|e| panic!("{e}"));
    let draws = 20_000;
    let q = model.quantities(&vec![vec![0.0]; draws], Some(5), Hardware::with_threads(1)).unwrap();
    let values = &q.generated.iter().find(|q| q.name == "d").unwrap().values;
    // Means: of the skewed Laplace 1 + 2 (0.8² − 0.2²) / (2 · 0.2 · 0.8), of the log-logistic 2 (π/4) / sin(π/4), of the
    // cosine I₁(2)/I₀(2).
    let means =
        [3.0, 4.75, 2.221441469079183, 1.0 + 2.0 / 3.0, 0.6977746579640078, 4.0 / 3.0, 1.5, 8.0 / 3.0, 3.0, 3.0];
    for (i, mean) in means.into_iter().enumerate() {
        let each: Vec<f64> = values.iter().skip(i).step_by(10).copied().collect();
        let found = each.iter().sum::<f64>() / draws as f64;
        let variance = each.iter().map(|x| (x - found).powi(2)).sum::<f64>() / draws as f64;
        let error = (found - mean) / (variance / draws as f64).sqrt();
        assert!(error.abs() < 4.5, "draw {}: a mean of {found}, not {mean}", i + 1);
    }
    let b = &q.generated.iter().find(|q| q.name == "b").unwrap().values;
    assert_eq!(b[..2], [1.0, 0.0]);
}

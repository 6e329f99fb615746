//! The table of elementwise functions: one row each, with what the host and the engine compute.

use super::cumulative as c;
use super::densities as d;
use super::discrete as k;
use super::functions as f;
use super::number::Number;
use mcvi_expr::Expr;
use std::collections::HashMap;
use std::sync::OnceLock;

/// A function of a few numbers, applied element by element.
pub struct Elementwise {
    /// Its name in Stan, or one that no program can write.
    pub name: &'static str,
    pub host: fn(&[f64]) -> f64,
    pub expr: for<'g> fn(&[Expr<'g>]) -> Expr<'g>,
}

macro_rules! row {
    ($name:literal 1 $f:path) => {
        Elementwise { name: $name, host: |x| $f(x[0]), expr: |x| $f(x[0]) }
    };
    ($name:literal 2 $f:path) => {
        Elementwise { name: $name, host: |x| $f(x[0], x[1]), expr: |x| $f(x[0], x[1]) }
    };
    ($name:literal 3 $f:path) => {
        Elementwise { name: $name, host: |x| $f(x[0], x[1], x[2]), expr: |x| $f(x[0], x[1], x[2]) }
    };
    ($name:literal 5 $f:path) => {
        Elementwise {
            name: $name,
            host: |x| $f(x[0], x[1], x[2], x[3], x[4]),
            expr: |x| $f(x[0], x[1], x[2], x[3], x[4]),
        }
    };
    ($name:literal 4 $f:path) => {
        Elementwise { name: $name, host: |x| $f(x[0], x[1], x[2], x[3]), expr: |x| $f(x[0], x[1], x[2], x[3]) }
    };
}

macro_rules! table {
    ($($name:literal $arity:tt $f:path;)*) => {
        &[$(row!($name $arity $f)),*]
    };
}

#[rustfmt::skip]
static TABLE: &[Elementwise] = table! {
    "add" 2 f::add; "subtract" 2 f::subtract; "elt_multiply" 2 f::multiply; "elt_divide" 2 f::divide;
    "minus" 1 f::minus; "pow" 2 Number::pow; "fma" 3 f::fma; "select" 3 Number::select;
    "logical_lt" 2 Number::lt; "logical_lte" 2 Number::le; "logical_gt" 2 f::gt; "logical_gte" 2 f::ge;
    "logical_eq" 2 Number::eq; "logical_neq" 2 f::ne; "logical_negation" 1 f::not;
    "logical_and" 2 f::and; "logical_or" 2 f::or;

    "exp" 1 Number::exp; "log" 1 Number::ln; "sqrt" 1 f::sqrt; "square" 1 Number::square; "inv" 1 f::inv;
    "inv_sqrt" 1 f::inv_sqrt; "inv_square" 1 f::inv_square; "abs" 1 Number::abs; "fabs" 1 Number::abs;
    "exp2" 1 f::exp2; "log2" 1 f::log2; "log10" 1 f::log10; "expm1" 1 Number::expm1; "log1p" 1 Number::log1p;
    "log1m" 1 f::log1m; "log1m_exp" 1 f::log1m_exp; "log1p_exp" 1 Number::softplus;
    "log_inv_logit" 1 f::log_inv_logit; "log1m_inv_logit" 1 f::log1m_inv_logit;
    "inv_logit" 1 Number::sigmoid; "logit" 1 f::logit; "inv_cloglog" 1 f::inv_cloglog;
    "erf" 1 Number::erf; "erfc" 1 Number::erfc; "Phi" 1 f::phi; "Phi_approx" 1 f::phi_approx;
    "inv_Phi" 1 c::inv_phi; "std_normal_qf" 1 c::inv_phi; "std_normal_log_qf" 1 c::inv_log_phi;
    "gamma_p" 2 c::gamma_p; "gamma_q" 2 c::gamma_q; "inc_beta" 3 c::inc_beta;
    "sin" 1 Number::sin; "cos" 1 Number::cos; "tan" 1 f::tan; "tanh" 1 Number::tanh; "sinh" 1 f::sinh;
    "cosh" 1 f::cosh; "asinh" 1 f::asinh; "acosh" 1 f::acosh; "atanh" 1 f::atanh; "cbrt" 1 f::cbrt;
    "asin" 1 f::asin; "acos" 1 f::acos; "atan" 1 Number::atan; "atan2" 2 f::atan2;
    "lgamma" 1 Number::lgamma; "tgamma" 1 f::tgamma; "digamma" 1 Number::digamma; "trigamma" 1 Number::trigamma;
    "floor" 1 Number::floor; "ceil" 1 f::ceil; "round" 1 f::round; "trunc" 1 f::trunc; "step" 1 f::step;
    "fmin" 2 Number::min; "fmax" 2 Number::max; "fdim" 2 f::fdim; "fmod" 2 f::fmod; "hypot" 2 f::hypot;
    "lbeta" 2 f::lbeta; "beta" 2 f::beta; "lchoose" 2 f::lchoose; "log_diff_exp" 2 f::log_diff_exp;
    "lmultiply" 2 f::lmultiply; "multiply_log" 2 f::lmultiply; "log_falling_factorial" 2 f::log_falling_factorial;
    "log_rising_factorial" 2 f::log_rising_factorial; "falling_factorial" 2 f::falling_factorial;
    "rising_factorial" 2 f::rising_factorial; "log_inv_logit_diff" 2 f::log_inv_logit_diff;
    "binary_log_loss" 2 f::binary_log_loss; "log_sum_exp2" 2 f::log_sum_exp; "log_mix3" 3 f::log_mix;

    "std_normal_lpdf" 1 d::std_normal; "normal_lpdf" 3 d::normal; "lognormal_lpdf" 3 d::lognormal;
    "cauchy_lpdf" 3 d::cauchy; "student_t_lpdf" 4 d::student_t; "double_exponential_lpdf" 3 d::double_exponential;
    "logistic_lpdf" 3 d::logistic; "gumbel_lpdf" 3 d::gumbel; "exponential_lpdf" 2 d::exponential;
    "gamma_lpdf" 3 d::gamma; "inv_gamma_lpdf" 3 d::inv_gamma; "chi_square_lpdf" 2 d::chi_square;
    "inv_chi_square_lpdf" 2 d::inv_chi_square; "scaled_inv_chi_square_lpdf" 3 d::scaled_inv_chi_square;
    "weibull_lpdf" 3 d::weibull; "frechet_lpdf" 3 d::frechet; "rayleigh_lpdf" 2 d::rayleigh;
    "pareto_lpdf" 3 d::pareto; "pareto_type_2_lpdf" 4 d::pareto_type_2; "beta_lpdf" 3 d::beta;
    "beta_proportion_lpdf" 3 d::beta_proportion; "uniform_lpdf" 3 d::uniform; "loglogistic_lpdf" 3 d::loglogistic;
    "exp_mod_normal_lpdf" 4 d::exp_mod_normal; "skew_normal_lpdf" 4 d::skew_normal;
    "skew_double_exponential_lpdf" 4 d::skew_double_exponential; "von_mises_lpdf" 3 d::von_mises;
    "wiener_lpdf" 5 d::wiener;

    "bernoulli_lpmf" 2 k::bernoulli_lpmf; "bernoulli_logit_lpmf" 2 k::bernoulli_logit;
    "binomial_lpmf" 3 k::binomial; "binomial_logit_lpmf" 3 k::binomial_logit; "poisson_lpmf" 2 k::poisson;
    "poisson_log_lpmf" 2 k::poisson_log; "neg_binomial_lpmf" 3 k::neg_binomial;
    "neg_binomial_2_lpmf" 3 k::neg_binomial_2; "neg_binomial_2_log_lpmf" 3 k::neg_binomial_2_log;
    "beta_binomial_lpmf" 4 k::beta_binomial; "discrete_range_lpmf" 3 k::discrete_range;
    "yule_simon_lpmf" 2 k::yule_simon; "hypergeometric_lpmf" 4 k::hypergeometric;

    "std_normal_lcdf" 1 c::std_normal_lcdf; "std_normal_lccdf" 1 c::std_normal_lccdf;
    "normal_lcdf" 3 c::normal_lcdf; "normal_lccdf" 3 c::normal_lccdf;
    "lognormal_lcdf" 3 c::lognormal_lcdf; "lognormal_lccdf" 3 c::lognormal_lccdf;
    "exponential_lcdf" 2 c::exponential_lcdf; "exponential_lccdf" 2 c::exponential_lccdf;
    "uniform_lcdf" 3 c::uniform_lcdf; "uniform_lccdf" 3 c::uniform_lccdf;
    "logistic_lcdf" 3 c::logistic_lcdf; "logistic_lccdf" 3 c::logistic_lccdf;
    "gumbel_lcdf" 3 c::gumbel_lcdf; "gumbel_lccdf" 3 c::gumbel_lccdf;
    "weibull_lcdf" 3 c::weibull_lcdf; "weibull_lccdf" 3 c::weibull_lccdf;
    "frechet_lcdf" 3 c::frechet_lcdf; "frechet_lccdf" 3 c::frechet_lccdf;
    "rayleigh_lcdf" 2 c::rayleigh_lcdf; "rayleigh_lccdf" 2 c::rayleigh_lccdf;
    "pareto_lcdf" 3 c::pareto_lcdf; "pareto_lccdf" 3 c::pareto_lccdf;
    "double_exponential_lcdf" 3 c::double_exponential_lcdf; "double_exponential_lccdf" 3 c::double_exponential_lccdf;
    "bernoulli_lcdf" 2 c::bernoulli_lcdf; "bernoulli_lccdf" 2 c::bernoulli_lccdf;
    "inv_chi_square_lcdf" 2 c::inv_chi_square_lcdf; "inv_chi_square_lccdf" 2 c::inv_chi_square_lccdf;
    "scaled_inv_chi_square_lcdf" 3 c::scaled_inv_chi_square_lcdf;
    "scaled_inv_chi_square_lccdf" 3 c::scaled_inv_chi_square_lccdf;
    "beta_proportion_lcdf" 3 c::beta_proportion_lcdf; "beta_proportion_lccdf" 3 c::beta_proportion_lccdf;
    "pareto_type_2_lcdf" 4 c::pareto_type_2_lcdf; "pareto_type_2_lccdf" 4 c::pareto_type_2_lccdf;
    "loglogistic_lcdf" 3 c::loglogistic_lcdf;
    "exp_mod_normal_lcdf" 4 c::exp_mod_normal_lcdf; "exp_mod_normal_lccdf" 4 c::exp_mod_normal_lccdf;
    "skew_double_exponential_lcdf" 4 c::skew_double_exponential_lcdf;
    "skew_double_exponential_lccdf" 4 c::skew_double_exponential_lccdf;
    "skew_normal_lcdf" 4 c::skew_normal_lcdf; "skew_normal_lccdf" 4 c::skew_normal_lccdf;
    "neg_binomial_lcdf" 3 c::neg_binomial_lcdf; "neg_binomial_lccdf" 3 c::neg_binomial_lccdf;
    "discrete_range_lcdf" 3 c::discrete_range_lcdf; "discrete_range_lccdf" 3 c::discrete_range_lccdf;
    "gamma_lcdf" 3 c::gamma_lcdf; "gamma_lccdf" 3 c::gamma_lccdf;
    "inv_gamma_lcdf" 3 c::inv_gamma_lcdf; "inv_gamma_lccdf" 3 c::inv_gamma_lccdf;
    "chi_square_lcdf" 2 c::chi_square_lcdf; "chi_square_lccdf" 2 c::chi_square_lccdf;
    "beta_lcdf" 3 c::beta_lcdf; "beta_lccdf" 3 c::beta_lccdf;
    "student_t_lcdf" 4 c::student_t_lcdf; "student_t_lccdf" 4 c::student_t_lccdf;
    "cauchy_lcdf" 3 c::cauchy_lcdf; "cauchy_lccdf" 3 c::cauchy_lccdf;
    "poisson_lcdf" 2 c::poisson_lcdf; "poisson_lccdf" 2 c::poisson_lccdf;
    "binomial_lcdf" 3 c::binomial_lcdf; "binomial_lccdf" 3 c::binomial_lccdf;
    "neg_binomial_2_lcdf" 3 c::neg_binomial_2_lcdf; "neg_binomial_2_lccdf" 3 c::neg_binomial_2_lccdf;
};

/// A function of the table by its number.
pub fn get(number: u16) -> &'static Elementwise {
    &TABLE[number as usize]
}

/// The number of a function in the table.
pub fn find(name: &str) -> Option<u16> {
    static NUMBERS: OnceLock<HashMap<&'static str, u16>> = OnceLock::new();
    let numbers = NUMBERS.get_or_init(|| (0..).zip(TABLE).map(|(i, row)| (row.name, i)).collect());
    numbers.get(name).copied()
}

//! Parsing and types: what is read, and how mistakes are reported.

use crate::{mistake, read};
use mcvi_stan::Program;

/// A program with most of the language in it.
const EVERYTHING: &str = r#"
functions {
  real twice(real x);
  real twice(real x) { return 2 * x; }
  vector twice(vector x) { return 2 * x; }
  int factorial(int n) { if (n <= 1) return 1; else return n * factorial(n - 1); }
  void add_lp(real x, data real s) { x ~ normal(0, s); target += -x^2; }
  real wide_lpdf(vector y, real s) { return normal_lupdf(y | 0, s); }
  array[] real both(array[,] int a, matrix m) { return {m[1, 1], a[1, 2]}; }
  real wander_rng(int n) { real s = 0; for (i in 1:n) s += normal_rng(0, 1); return s; }
}
data {
  int<lower=1> N; // a comment
  array[N, 2] int<lower=0, upper=9> k;
  vector<lower=0>[N] y;
  real old[N];
  cov_matrix[2] S;
}
transformed data {
  array[2] vector[N] z = {y, y .* y};
  matrix[N, 2] X = append_col(y, rep_vector(1.0, N));
  int half = N %/% 2 + N / 2;
  profile("loop") { for (i in 1:N) { if (old[i] > 0 && i % 2 == 0) continue; z[1][i] += 1; } }
  for (row in k) print("row ", row, row[1]);
}
parameters {
  real<lower=0, upper=y[1]> a;
  real<offset=1, multiplier=2> b;
  ordered[3] c;
  array[N] simplex[3] theta;
  cholesky_factor_corr[2] L;
  vector<lower=to_vector(old)>[N] d;
  unit_vector[3] u;
  sum_to_zero_vector[3] s;
}
transformed parameters {
  vector[N] mu = X * [a, b]' + d;
  matrix[2, 2] M = [[a, b], [b, a]];
  mu[2:] = mu[:N - 1];
  jacobian += log(a);
}
model {
  array[N] int order = sort_indices_asc(y);
  vector[N] e = mu[order];
  y ~ normal(e, a > 1 ? 1 : twice(a));
  a ~ exponential(1) T[ , y[1]];
  e ~ wide(a);
  add_lp(b, 1);
  target += normal_lpdf(old | b, 1) + target() - 1e-3 * .5;
  while (1) { break; }
  if (a < 0) reject("never ", a); else if (!N) ;
  k[1, 1] ~ poisson(a);
  L ~ lkj_corr_cholesky(2);
}
generated quantities {
  real w = wander_rng(factorial(3));
  int<lower=0> n = poisson_rng(a);
  array[2] real q = both(k, M);
}
"#;

#[test]
fn reads_the_whole_language() {
    if let Err(mistakes) = read(EVERYTHING) {
        panic!("{mistakes}");
    }
}

#[test]
fn names_the_mistake() {
    let cases = [
        ("data { int N }", "expected `;` after `N`, found `}`"),
        ("model { real x = 1 +; }", "expected an expression, found `;`"),
        ("model { x = 1; }", "`x` is not declared"),
        ("data { int N; } model { N = 1; }", "`N` cannot be assigned to: it belongs to another block"),
        ("model { int n = 1.5; }", "a value of type real cannot be given to a variable of type int"),
        ("model { real<lower=0> x; }", "local variables have no constraints"),
        ("parameters { int n; }", "parameters cannot be whole numbers"),
        ("model { vector[2] x; matrix[2, 2] m; m = x * x; }", "`*` does not apply to vector and vector"),
        ("parameters { real x; } model { x ~ norml(0, 1); }", "there is no distribution `norml`"),
        ("parameters { real x; } model { x ~ poisson(1); }", "`poisson_lpmf` does not take (real, int)"),
        ("functions { real f(real x) { if (x > 0) return 1; } }", "`f` does not always return a value"),
        (
            "functions { real f(data real x) { return x; } } parameters { real y; } model { target += f(y); }",
            "`f` does not take (real)",
        ),
        (
            "parameters { real x; } transformed parameters { vector[2] y = [x, x]; }",
            "a value of type row_vector cannot be given to a variable of type vector",
        ),
        (
            "model { real x = normal_rng(0, 1); }",
            "`normal_rng` can only be called in transformed data, generated quantities and _rng functions",
        ),
        ("parameters { real x; } model { vector[x] y; }", "a size must be int, not real"),
        ("data { real x; real x; }", "`x` is declared twice"),
        ("model { } data { }", "the block `data` comes too late"),
        ("model { break; }", "`break` leaves a loop, and there is none around it"),
        ("data { int N; } model { target += normal_lpdf(N, 0, 1); }", "a bar follows the first argument of densities"),
        ("model { real x <- 1; }", "expected `;` after `x`, found `<`"),
        ("model { /* }", "this comment has no end"),
        ("model { int i = 3000000000; }", "this whole number is too large"),
        ("parameters { real x; } model { x < -1; }", "this value is not used"),
    ];
    for (program, expected) in cases {
        assert_eq!(mistake(program), expected, "in {program}");
    }
}

#[test]
fn reports_the_line_a_caret_and_advice() {
    let text = "data {\n  int<lower=0> count;\n}\nmodel {\n  real x = cuont;\n}\n";
    let report = read(text).unwrap_err().to_string();
    assert!(report.contains("`cuont` is not declared"), "{report}");
    assert!(report.contains("test.stan:5:12"), "{report}");
    assert!(report.contains("real x = cuont;"), "{report}");
    assert!(report.contains("did you mean `count`?"), "{report}");
}

#[test]
fn goes_on_after_a_mistake() {
    let mistakes = read("model { x = 1; y = 2; }").unwrap_err();
    assert_eq!(mistakes.list.len(), 2);
}

#[test]
fn nesting_has_a_limit_and_no_overflow() {
    let deep = 100_000;
    let programs = [
        format!("model {{ real x = {}1{}; }}", "(".repeat(deep), ")".repeat(deep)),
        format!("model {{ real x = {}1; }}", "-".repeat(deep)),
        format!("model {{ real x = 1{}; }}", " + 1".repeat(deep)),
        format!("model {{ real x = 1{}; }}", " ^ 1".repeat(deep)),
        format!("model {{ {} }}", "{".repeat(deep)),
        format!("model {{ {} ; }}", "if (1) ".repeat(deep)),
        format!("model {{ real x = {}1; }}", "1 ? 1 : ".repeat(deep)),
        format!("data {{ {} }}", "tuple(".repeat(deep)),
    ];
    for program in programs {
        let found = mistake(&program);
        assert!(found.contains("within each other"), "{found}");
    }
}

#[test]
fn nesting_up_to_the_limit_is_read() {
    let sum = format!("model {{ real x = 1{}; }}", " + 1".repeat(250));
    assert!(read(&sum).is_ok());
    let nested = format!("model {{ real x = {}1{}; }}", "(".repeat(100), ")".repeat(100));
    assert!(read(&nested).is_ok());
}

#[test]
fn includes_files_within_limits() {
    let find = |name: &str| match name {
        "f.stan" => Some("real f(real x) { return x; }".to_owned()),
        "self.stan" => Some("#include self.stan".to_owned()),
        _ => None,
    };
    let of = |text: &str| Program::read("test.stan", text, &find);
    assert!(of("functions {\n#include f.stan\n} model { target += f(1); }").is_ok());
    let message = |text: &str| of(text).unwrap_err().list[0].message.clone();
    assert_eq!(message("#include \"self.stan\"\n"), "self.stan includes itself");
    assert_eq!(message("#include <other.stan>\n"), "the file other.stan was not found");
}

#[test]
fn common_mistakes_come_with_advice() {
    let help = |text: &str| read(text).unwrap_err().list[0].help.clone().unwrap_or_default();
    let program = |model: &str| {
        format!("data {{ int N; vector[N] y; array[N] real z; }}\nparameters {{ real mu; }}\nmodel {{\n {model}\n}}")
    };
    assert_eq!(help(&program("y ~ normall(mu, 1);")), "did you mean `normal`?");
    assert!(help(&program("y ~ normal(mu, sigma);")).contains("declare it"));
    assert!(help(&program("mu ~ poisson(2);")).contains("its variate must be int"));
    assert!(help(&program("y ~ normal(mu);")).contains("`normal_lpdf` takes 3 arguments, not 2"));
    assert!(help(&program("target += sum(y * y);")).contains("`.*`"));
    assert!(help(&program("target += sum(2 * z);")).contains("to_vector"));
    // A missing semicolon is shown where it is missing.
    let mistakes = read("parameters {\n real mu\n real s;\n}\nmodel { }").unwrap_err();
    assert_eq!(mistakes.list[0].message, "expected `;` after `mu`, found `real`");
    assert_eq!(mistakes.sources.line(mistakes.list[0].span), 2);
}

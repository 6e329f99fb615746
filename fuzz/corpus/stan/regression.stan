functions { real twice(real a) { return a > 0 ? 2 * a : a; } }
data { int<lower=0> N; int<lower=1> K; vector[N] y; matrix[N, K] x; }
transformed data { vector[N] z = (y - mean(y)) / sd(y); }
parameters { real alpha; vector[K] beta; real<lower=0> sigma; simplex[3] p; }
transformed parameters { vector[N] mu = alpha + x * beta; }
model {
  for (n in 1:N) target += log_mix(p[1], normal_lpdf(z[n] | mu[n], sigma), cauchy_lpdf(z[n] | 0, 1));
  beta ~ normal(0, twice(1)) ;
  sigma ~ exponential(1) T[, 10];
}
generated quantities { array[N] real y_rep = normal_rng(mu, sigma); }

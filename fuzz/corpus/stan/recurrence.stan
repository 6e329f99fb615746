data { int N; array[N] int y; }
parameters { array[2] simplex[2] theta; cholesky_factor_corr[2] L; ordered[2] c; }
model {
  array[20] vector[2] g;
  g[1] = log(theta[1]);
  for (t in 2:20) {
    for (k in 1:2) g[t, k] = log_sum_exp(g[t - 1] + log(theta[k]));
    if (t % 2 == 0) g[t, 1] += c[2];
  }
  target += log_sum_exp(g[20]);
  y ~ poisson_log(c[1]);
  L ~ lkj_corr_cholesky(2);
  while (0) { break; }
}

// Functions of Stan that are written in Stan; names that end in __ are for use in here.
// Where the arguments fit none of a density's versions, it is summed over their elements.
functions {
  // Hidden Markov models, with states summed out by the forward algorithm; columns of log_omegas are times.
  vector hmm_filtered__(vector before, matrix Gamma, vector log_omega) {
    return (Gamma' * before) .* exp(log_omega - max(log_omega));
  }
  real hmm_marginal(matrix log_omegas, matrix Gamma, vector rho) {
    real total = 0;
    if (cols(log_omegas) == 0) return 0;
    vector[rows(log_omegas)] now = rho .* exp(log_omegas[, 1] - max(log_omegas[, 1]));
    for (t in 1:cols(log_omegas)) {
      if (t > 1) now = hmm_filtered__(now, Gamma, log_omegas[, t]);
      real share = sum(now);
      total += log(share) + max(log_omegas[, t]);
      now /= share;
    }
    return total;
  }
  matrix hmm_forward__(matrix log_omegas, matrix Gamma, vector rho) {
    matrix[rows(log_omegas), cols(log_omegas)] all = log_omegas;
    for (t in 1:cols(log_omegas)) {
      vector[rows(log_omegas)] now = t == 1 ? rho .* exp(log_omegas[, 1] - max(log_omegas[, 1]))
                                            : hmm_filtered__(all[, t - 1], Gamma, log_omegas[, t]);
      all[, t] = now / sum(now);
    }
    return all;
  }
  matrix hmm_hidden_state_prob(matrix log_omegas, matrix Gamma, vector rho) {
    int T = cols(log_omegas);
    matrix[rows(log_omegas), T] all = hmm_forward__(log_omegas, Gamma, rho);
    vector[rows(log_omegas)] after = rep_vector(1, rows(log_omegas));
    for (s in 1:(T - 1)) {
      int t = T - s;
      after = Gamma * (after .* exp(log_omegas[, t + 1] - max(log_omegas[, t + 1])));
      after /= sum(after);
      all[, t] = all[, t] .* after / dot_product(all[, t], after);
    }
    return all;
  }
  array[] int hmm_latent_rng(matrix log_omegas, matrix Gamma, vector rho) {
    int T = cols(log_omegas);
    matrix[rows(log_omegas), T] all = hmm_forward__(log_omegas, Gamma, rho);
    array[T] int states;
    for (s in 1:T) {
      int t = T - s + 1;
      vector[rows(log_omegas)] now = t == T ? all[, t] : all[, t] .* Gamma[, states[t + 1]];
      states[t] = categorical_rng(now / sum(now));
    }
    return states;
  }

  // Covariances of Gaussian processes.
  matrix gp_periodic_cov(array[] real x, array[] real y, real sigma, real l, real p) {
    matrix[size(x), size(y)] phase = rep_matrix(to_vector(x), size(y)) - rep_matrix(to_row_vector(y), size(x));
    return square(sigma) * exp(-2 * square(sin(pi() / p * phase) / l));
  }
  matrix gp_periodic_cov(array[] vector x, array[] vector y, real sigma, real l, real p) {
    matrix[size(x), size(y)] apart;
    for (i in 1:size(x)) for (j in 1:size(y)) apart[i, j] = distance(x[i], y[j]);
    return square(sigma) * exp(-2 * square(sin(pi() / p * apart) / l));
  }
  matrix gp_periodic_cov(array[] real x, real sigma, real l, real p) { return gp_periodic_cov(x, x, sigma, l, p); }
  matrix gp_periodic_cov(array[] vector x, real sigma, real l, real p) { return gp_periodic_cov(x, x, sigma, l, p); }
  matrix gp_dot_prod_cov(array[] real x, array[] real y, real sigma) {
    return square(sigma) + to_vector(x) * to_row_vector(y);
  }
  matrix gp_dot_prod_cov(array[] vector x, array[] vector y, real sigma) {
    matrix[size(x), size(y)] products;
    for (i in 1:size(x)) for (j in 1:size(y)) products[i, j] = dot_product(x[i], y[j]);
    return square(sigma) + products;
  }
  matrix gp_dot_prod_cov(array[] real x, real sigma) { return gp_dot_prod_cov(x, x, sigma); }
  matrix gp_dot_prod_cov(array[] vector x, real sigma) { return gp_dot_prod_cov(x, x, sigma); }

  // Densities of vectors and matrices.
  real multi_gp_cholesky_lpdf(matrix y, matrix L, vector w) {
    real quadratic = dot_product(w, columns_dot_self(mdivide_left_tri_low(L, y')));
    real scale = 0.5 * cols(y) * sum(log(w)) - rows(y) * sum(log(diagonal(L)));
    return scale - 0.5 * quadratic - 0.5 * num_elements(y) * log(2 * pi());
  }
  real multi_gp_lpdf(matrix y, matrix Sigma, vector w) { return multi_gp_cholesky_lpdf(y | cholesky_decompose(Sigma), w); }
  real dirichlet_multinomial_lpmf(array[] int y, vector alpha) {
    int n = sum(y);
    vector[size(y)] counts = to_vector(y);
    if (n == 0) return 0;
    return lgamma(n + 1) - sum(lgamma(counts + 1)) + sum(log_rising_factorial(alpha, counts))
           - log_rising_factorial(sum(alpha), n);
  }
  real wishart_cholesky_jacobian__(matrix L) {
    int k = rows(L);
    return k * log(2) + dot_product(linspaced_vector(k, k, 1), log(diagonal(L)));
  }
  real wishart_cholesky_lpdf(matrix L, real nu, matrix S) {
    return wishart_lpdf(tcrossprod(L) | nu, tcrossprod(S)) + wishart_cholesky_jacobian__(L);
  }
  real inv_wishart_cholesky_lpdf(matrix L, real nu, matrix S) {
    return inv_wishart_lpdf(tcrossprod(L) | nu, tcrossprod(S)) + wishart_cholesky_jacobian__(L);
  }
  // Kalman's filter; columns of y are times.
  real gaussian_dlm_obs_lpdf(matrix y, matrix F, matrix G, matrix V, matrix W, vector m0, matrix C0) {
    vector[rows(G)] m = m0;
    matrix[rows(G), rows(G)] C = C0;
    real total = 0;
    for (t in 1:cols(y)) {
      vector[rows(G)] a = G * m;
      matrix[rows(G), rows(G)] R = quad_form_sym(C, G') + W;
      matrix[rows(y), rows(y)] Q = quad_form_sym(R, F) + V;
      vector[rows(y)] f = F' * a;
      matrix[rows(G), rows(y)] gain = mdivide_right_spd(R * F, Q);
      total += multi_normal_lpdf(y[, t] | f, Q);
      m = a + gain * (y[, t] - f);
      C = R - gain * Q * gain';
    }
    return total;
  }
  real gaussian_dlm_obs_lpdf(matrix y, matrix F, matrix G, vector V, matrix W, vector m0, matrix C0) {
    return gaussian_dlm_obs_lpdf(y | F, G, diag_matrix(V), W, m0, C0);
  }

  // Counts.
  real beta_neg_binomial_lpmf(int n, real r, real a, real b) {
    return lbeta(n + r, a + b) - lbeta(r, a) + log_rising_factorial(b, n) - lgamma(n + 1);
  }
  real beta_neg_binomial_lcdf(int n, real r, real a, real b) {
    vector[max(n + 1, 0)] terms;
    for (k in 0:n) terms[k + 1] = beta_neg_binomial_lpmf(k | r, a, b);
    return log_sum_exp(terms);
  }
  real beta_neg_binomial_lccdf(int n, real r, real a, real b) { return log1m_exp(beta_neg_binomial_lcdf(n | r, a, b)); }
  real beta_binomial_lcdf(int n, int N, real a, real b) {
    if (n >= N) return 0;
    vector[max(n + 1, 0)] terms;
    for (k in 0:n) terms[k + 1] = beta_binomial_lpmf(k | N, a, b);
    return log_sum_exp(terms);
  }
  real beta_binomial_lccdf(int n, int N, real a, real b) {
    if (n < 0) return 0;
    vector[max(N - n, 0)] terms;
    for (k in (n + 1):N) terms[k - n] = beta_binomial_lpmf(k | N, a, b);
    return log_sum_exp(terms);
  }
  real yule_simon_lccdf(int n, real rho) { return n < 1 ? 0 : log(n) + lbeta(n, rho + 1); }
  real yule_simon_lcdf(int n, real rho) { return n < 1 ? negative_infinity() : log1m_exp(yule_simon_lccdf(n | rho)); }

  // Containers and matrices.
  real quantile(array[] real x, real p) {
    array[size(x)] real rising = sort_asc(x);
    real place = 1 + p * (size(x) - 1);
    int below = to_int(floor(place));
    int above = min(below + 1, size(x));
    return rising[below] + (place - below) * (rising[above] - rising[below]);
  }
  real quantile(vector x, real p) { return quantile(to_array_1d(x), p); }
  real quantile(row_vector x, real p) { return quantile(to_array_1d(x), p); }
  array[] real quantile(array[] real x, array[] real p) {
    array[size(p)] real all;
    for (i in 1:size(p)) all[i] = quantile(x, p[i]);
    return all;
  }
  array[] real quantile(vector x, array[] real p) { return quantile(to_array_1d(x), p); }
  array[] real quantile(row_vector x, array[] real p) { return quantile(to_array_1d(x), p); }
  int rank(array[] real x, int s) {
    int below = 0;
    for (each in x) below += each < x[s];
    return below;
  }
  int rank(vector x, int s) { return rank(to_array_1d(x), s); }
  int rank(row_vector x, int s) { return rank(to_array_1d(x), s); }
  vector uniform_simplex(int n) { return rep_vector(1.0 / n, n); }
  real trace_dot(matrix A, matrix B) { return sum(A' .* B); }
  matrix matrix_exp_multiply(matrix A, matrix B) { return matrix_exp(A) * B; }
  matrix scale_matrix_exp_multiply(real t, matrix A, matrix B) { return matrix_exp(t * A) * B; }
  matrix generalized_inverse(matrix A) {
    if (rows(A) == cols(A)) return inverse(A);
    if (rows(A) < cols(A)) return mdivide_right_spd(A', tcrossprod(A));
    return mdivide_left_spd(crossprod(A), A');
  }
  real lmgamma(int n, real x) {
    return 0.25 * n * (n - 1) * log(pi()) + sum(lgamma(x + 0.5 * (1 - linspaced_vector(n, 1, n))));
  }
  vector csr_extract_w(matrix A) {
    vector[num_elements(A)] w;
    int n = 0;
    for (i in 1:rows(A)) for (j in 1:cols(A)) if (A[i, j] != 0) { n += 1; w[n] = A[i, j]; }
    return w[1:n];
  }
  array[] int csr_extract_v(matrix A) {
    array[num_elements(A)] int v;
    int n = 0;
    for (i in 1:rows(A)) for (j in 1:cols(A)) if (A[i, j] != 0) { n += 1; v[n] = j; }
    return v[1:n];
  }
  array[] int csr_extract_u(matrix A) {
    array[rows(A) + 1] int u;
    u[1] = 1;
    for (i in 1:rows(A)) {
      u[i + 1] = u[i];
      for (j in 1:cols(A)) u[i + 1] += A[i, j] != 0;
    }
    return u;
  }
  matrix csr_to_dense_matrix(int m, int n, vector w, array[] int v, array[] int u) {
    matrix[m, n] A = rep_matrix(0, m, n);
    for (i in 1:m) for (k in u[i]:(u[i + 1] - 1)) A[i, v[k]] = w[k];
    return A;
  }

  // Draws.
  array[] int multinomial_logit_rng(vector gamma, int n) { return multinomial_rng(softmax(gamma), n); }
  array[] int dirichlet_multinomial_rng(vector alpha, int n) { return multinomial_rng(dirichlet_rng(alpha), n); }
  array[] int bernoulli_logit_glm_rng(matrix x, vector alpha, vector beta) { return bernoulli_logit_rng(alpha + x * beta); }
  array[] int bernoulli_logit_glm_rng(row_vector x, vector alpha, vector beta) { return bernoulli_logit_rng(alpha + x * beta); }
  int hypergeometric_rng(int n, int a, int b) {
    int left = a;
    for (i in 0:(n - 1)) left -= bernoulli_rng(left * 1.0 / (a + b - i));
    return a - left;
  }
  vector multi_student_t_cholesky_rng(real nu, vector mu, matrix L) { return multi_student_t_rng(nu, mu, tcrossprod(L)); }
  vector multi_student_t_cholesky_rng(real nu, row_vector mu, matrix L) { return multi_student_t_rng(nu, mu, tcrossprod(L)); }
  matrix wishart_cholesky_rng(real nu, matrix L) { return cholesky_decompose(wishart_rng(nu, tcrossprod(L))); }
  matrix inv_wishart_cholesky_rng(real nu, matrix L) { return cholesky_decompose(inv_wishart_rng(nu, tcrossprod(L))); }
}

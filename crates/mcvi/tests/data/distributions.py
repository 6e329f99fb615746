"""Reference values for the distributions, written to distributions.json beside this script.

Log densities and moments are SciPy's. Where SciPy's own formula cancels (very large parameters) and where it has no
such distribution (LKJ), they are computed here from the textbook formula with mpmath, to 50 digits.

    pip install scipy==1.17.1 mpmath==1.4.1 && python distributions.py
"""

import json
import warnings
from pathlib import Path

import numpy as np
from mpmath import mp
from scipy import special, stats

warnings.simplefilter("ignore")  # logarithms of 0 at the edges
mp.dps = 50
inf = float("inf")


def sigmoid(x):
    return 1 / (1 + np.exp(-np.asarray(x, float)))


def softmax(x):
    w = np.exp(np.asarray(x) - np.max(x))
    return w / w.sum()


def lower(flat):
    k = int(np.sqrt(len(flat)))
    return np.array(flat, float).reshape(k, k)


def nbinom(log_mean, phi):
    mean = np.exp(log_mean)
    return stats.nbinom(phi, phi / (phi + mean))


# name: the SciPy distribution with these parameters
SCIPY = {
    "normal": lambda m, s: stats.norm(m, s),
    "student_t": lambda df, m, s: stats.t(df, m, s),
    "cauchy": lambda m, s: stats.cauchy(m, s),
    "half_normal": lambda s: stats.halfnorm(0, s),
    "half_cauchy": lambda s: stats.halfcauchy(0, s),
    "half_student_t": None,  # below
    "laplace": lambda m, s: stats.laplace(m, s),
    "log_normal": lambda m, s: stats.lognorm(s, 0, np.exp(m)),
    "exponential": lambda r: stats.expon(0, 1 / r),
    "gamma": lambda a, b: stats.gamma(a, 0, 1 / b),
    "inverse_gamma": lambda a, b: stats.invgamma(a, 0, b),
    "weibull": lambda k, s: stats.weibull_min(k, 0, s),
    "beta": lambda a, b: stats.beta(a, b),
    "uniform": lambda a, b: stats.uniform(a, b - a),
    "bernoulli_logit": lambda l: stats.bernoulli(sigmoid(l)),
    "binomial_logit": lambda n, l: stats.binom(n, sigmoid(l)),
    "beta_binomial": lambda n, a, b: stats.betabinom(n, a, b),
    "poisson_log": lambda l: stats.poisson(np.exp(l)),
    "negative_binomial_log": nbinom,
}

REAL = [-31.0, -2.5, -0.3, 0.0, 0.7, 4.0, 250.0]
POSITIVE = [-2.0, -1e-3, 0.0, 1e-8, 0.02, 0.7, 3.5, 40.0]
UNIT = [-0.5, 0.0, 1e-9, 0.2, 0.5, 0.93, 1.0, 1.2]
COUNT = [-1.0, 0.0, 0.5, 1.0, 3.0, 7.0, 8.0, 30.0]

# name: (parameter sets, values)
POINTS = {
    "normal": ([[0, 1], [1.5, 0.3], [-2, 12]], REAL),
    "student_t": ([[4, 0, 1], [0.7, 1.2, 0.4], [150, -1, 3]], REAL),
    "cauchy": ([[0, 1], [1.2, 0.4]], REAL),
    "half_normal": ([[1], [0.3], [11]], POSITIVE),
    "half_cauchy": ([[1], [2.5]], POSITIVE),
    "half_student_t": ([[3, 1], [7, 2.5]], POSITIVE),
    "laplace": ([[0, 1], [0.5, 3]], REAL),
    "log_normal": ([[0, 1], [1.3, 0.4]], POSITIVE),
    "exponential": ([[1], [0.2]], POSITIVE),
    "gamma": ([[1, 1], [0.4, 2], [3.5, 0.7], [60, 20]], POSITIVE),
    "inverse_gamma": ([[1, 1], [0.4, 2], [3.5, 0.7]], POSITIVE),
    "weibull": ([[1, 1], [0.4, 2], [3.5, 0.9]], POSITIVE),
    "beta": ([[1, 1], [2, 2], [0.5, 0.5], [1, 3], [7, 0.9], [40, 900]], UNIT),
    "uniform": ([[0, 1], [-3, 0.75]], UNIT + [-3.0, -3.1, 0.75, 0.8]),
    "bernoulli_logit": ([[0], [-3.2], [2.1]], [-1.0, 0.0, 0.5, 1.0, 2.0]),
    "binomial_logit": ([[8, 0], [8, -2.7], [30, 1.1]], COUNT),
    "beta_binomial": ([[8, 1, 1], [8, 0.3, 4.2], [30, 12, 7]], COUNT),
    "poisson_log": ([[0], [1.7], [-4]], COUNT),
    "negative_binomial_log": ([[0, 1], [1.7, 0.3], [2, 40]], COUNT),
}


def univariate(name, parameters, x):
    if name == "half_student_t":
        return np.log(2) + stats.t(parameters[0], 0, parameters[1]).logpdf(x) if x >= 0 else -inf
    d = SCIPY[name](*parameters)
    return d.logpmf(x) if hasattr(d.dist, "logpmf") else d.logpdf(x)


def log_beta(a, b):
    return mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)


def log_choose(n, k):
    return mp.loggamma(n + 1) - mp.loggamma(k + 1) - mp.loggamma(n - k + 1)


def softplus(x):
    return mp.log1p(mp.exp(mp.mpf(x)))


def hard(name, p, x):
    """Densities with parameters at which double precision would cancel."""
    p, x = [mp.mpf(v) for v in p], mp.mpf(x)
    if name == "student_t":
        df, z = p[0], (x - p[1]) / p[2]
        constant = mp.loggamma((df + 1) / 2) - mp.loggamma(df / 2) - mp.log(df * mp.pi) / 2 - mp.log(p[2])
        return constant - (df + 1) / 2 * mp.log1p(z * z / df)
    if name == "beta":
        return (p[0] - 1) * mp.log(x) + (p[1] - 1) * mp.log(1 - x) - log_beta(p[0], p[1])
    if name == "bernoulli_logit":
        return -softplus(-p[0] if x == 1 else p[0])
    if name == "binomial_logit":
        return log_choose(p[0], x) - x * softplus(-p[1]) - (p[0] - x) * softplus(p[1])
    if name == "beta_binomial":
        n, a, b = p
        return log_choose(n, x) + log_beta(a + x, b + n - x) - log_beta(a, b)
    if name == "negative_binomial_log":
        mean, phi = mp.exp(p[0]), p[1]
        terms = x * (p[0] - mp.log(mean + phi)) + phi * (mp.log(phi) - mp.log(mean + phi))
        return log_choose(x + phi - 1, x) + terms
    raise KeyError(name)


HARD = [
    ("student_t", [1e12, 0.3, 2], 4.5),
    ("student_t", [1e20, 0.3, 2], 4.5),
    ("beta", [2, 1e9], 1e-9),
    ("bernoulli_logit", [45], 1),
    ("bernoulli_logit", [45], 0),
    ("bernoulli_logit", [-800], 1),
    ("binomial_logit", [50, 40], 50),
    ("binomial_logit", [50, 40], 48),
    ("binomial_logit", [10**9, -19], 3),
    ("binomial_logit", [0, 1], 0),
    ("beta_binomial", [1083, 3e20, 5e23], 1),
    ("beta_binomial", [53637, 1e-9, 1e-7], 54),
    ("beta_binomial", [50, 1e15, 2e15], 21),
    ("negative_binomial_log", [2, 1e15], 9),
    ("negative_binomial_log", [-40, 3], 0),
    ("negative_binomial_log", [60, 1e-4], 2),
]


def log_lkj(eta, factor):
    """Lewandowski, Kurowicka & Joe (2009), equation 16, times the Jacobian from the factor to the matrix."""
    k, eta = len(factor), mp.mpf(eta)
    if k == 1:
        return 0
    constant = mp.mpf(0)
    for i in range(1, k):
        half = eta + mp.mpf(k - i - 1) / 2
        constant += (2 * eta - 2 + k - i) * (k - i) * mp.log(2) + (k - i) * log_beta(half, half)
    logs = [mp.log(mp.mpf(float(factor[i, i]))) for i in range(k)]
    return (eta - 1) * 2 * sum(logs) - constant + sum((k - 1 - i) * logs[i] for i in range(1, k))


def corr_factor(k, seed):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(k, k + 2))
    c = a @ a.T
    d = 1 / np.sqrt(np.diag(c))
    return np.linalg.cholesky(d[:, None] * c * d)


def multivariate():
    """(name, parameters, value, log density); parameters and values are flat lists."""
    logits = [0.3, -1.2, 2.0, -0.4]
    for x in [-1.0, 0.0, 2.0, 3.0, 4.0, 1.5]:
        known = x in (0.0, 2.0, 3.0)
        yield "categorical_logit", [logits], [x], np.log(softmax(logits))[int(x)] if known else -inf
    yield "categorical_logit", [[-700.0, 700.0]], [0.0], -1400.0
    for counts in [[0, 0, 0, 0], [1, 0, 0, 0], [3, 2, 12, 1], [40, 11, 160, 0]]:
        expected = stats.multinomial(sum(counts), softmax(logits)).logpmf(counts)
        yield "multinomial_logit", [logits], counts, expected
    yield "multinomial_logit", [logits], [1, -1, 0, 2], -inf
    yield "multinomial_logit", [logits], [1, 0.5, 0, 2], -inf
    for a, x in [
        ([1, 1, 1], [0.2, 0.3, 0.5]),
        ([1, 1, 1], [0.0, 0.5, 0.5]),
        ([0.3, 4, 2.5], [0.01, 0.74, 0.25]),
        ([20, 7, 1, 0.2], [0.6, 0.3, 0.07, 0.03]),
    ]:
        yield "dirichlet", [a], x, stats.dirichlet(a).logpdf(x)
    yield "dirichlet", [[2, 1, 1]], [0.0, 0.5, 0.5], -inf
    yield "dirichlet", [[2, 1, 1]], [-0.1, 0.6, 0.5], -inf
    yield "dirichlet", [[2, 1, 1]], [0.2, 0.2, 0.2], -inf
    for mean, factor, x in [
        ([0.0], [2.0], [1.5]),
        ([0.5, -1.0], [1.0, 0.0, 0.3, 0.5], [0.0, 2.0]),
        ([0.1, 0.2, 0.3], [3.0, 0, 0, -1.0, 0.2, 0, 0.4, 0.7, 1.1], [1.0, -1.0, 4.0]),
    ]:
        l = lower(factor)
        yield "multivariate_normal_cholesky", [mean, factor], x, stats.multivariate_normal(mean, l @ l.T).logpdf(x)
    for k, eta in [(1, 2.0), (2, 1.0), (2, 0.5), (3, 1.0), (3, 4.0), (5, 0.8), (5, 30.0)]:
        factor = corr_factor(k, k)
        yield "lkj_cholesky", [[eta]], factor.ravel().tolist(), float(log_lkj(eta, factor))
    yield "lkj_cholesky", [[2.0]], [1.0, 0.0, 0.6, -0.8], -inf
    yield "lkj_cholesky", [[2.0]], [1.0, 0.0, 0.6, 0.7], -inf
    yield "lkj_cholesky", [[2.0]], [1.0, 0.1, 0.6, 0.8], -inf


# Draws: parameter sets with a finite fourth moment; the Cauchy families, which have none, are tested by quartiles.
MOMENTS = {
    "normal": [[1.5, 0.3]],
    "student_t": [[9, 1.2, 0.4]],
    "half_normal": [[2.5]],
    "laplace": [[0.5, 3]],
    "log_normal": [[1.3, 0.4]],
    "exponential": [[0.2]],
    "gamma": [[0.4, 2], [3.5, 0.7]],
    "inverse_gamma": [[7.5, 2]],
    "weibull": [[0.8, 2], [3.5, 0.7]],
    "beta": [[0.3, 0.6], [7, 2]],
    "uniform": [[-3, 0.75]],
    "bernoulli_logit": [[-1.2], [2.1]],
    "binomial_logit": [[30, 1.1], [5000, -2]],
    "beta_binomial": [[30, 2, 7]],
    "poisson_log": [[0.4], [4]],
    "negative_binomial_log": [[1.7, 2.3]],
}


def moments():
    """(name, parameters, means, variances), coordinate by coordinate."""
    for name, sets in MOMENTS.items():
        for p in sets:
            mean, variance = SCIPY[name](*p).stats("mv")
            yield name, [[v] for v in p], [mean], [variance]
    df, s = 9, 2.5
    mean = 2 * s * np.sqrt(df / np.pi) * special.gamma((df + 1) / 2) / special.gamma(df / 2) / (df - 1)
    yield "half_student_t", [[df], [s]], [mean], [s**2 * df / (df - 2) - mean**2]
    p = softmax([0.3, -1.2, 2.0])
    mean = p[1] + 2 * p[2]
    yield "categorical_logit", [[0.3, -1.2, 2.0]], [mean], [p[1] + 4 * p[2] - mean**2]
    yield "multinomial_logit", [[0.3, -1.2, 2.0], [40]], 40 * p, 40 * p * (1 - p)
    a = [0.3, 4, 2.5]
    yield "dirichlet", [a], stats.dirichlet(a).mean(), stats.dirichlet(a).var()
    factor = [3.0, 0, 0, -1.0, 0.2, 0, 0.4, 0.7, 1.1]
    l = lower(factor)
    yield "multivariate_normal_cholesky", [[0.1, 0.2, 0.3], factor], [0.1, 0.2, 0.3], np.diag(l @ l.T)
    # Every correlation is 2 Beta(h, h) - 1 with h = eta - 1 + k/2.
    for eta, k in [(1.0, 2), (2.5, 3), (0.7, 4)]:
        h, pairs = eta - 1 + k / 2, k * (k - 1) // 2
        yield "lkj_cholesky", [[eta], [k]], [0] * pairs, [1 / (2 * h + 1)] * pairs


def number(x):
    x = float(x)
    return x if np.isfinite(x) else str(x)


def numbers(values):
    return [number(v) for v in np.ravel(values)]


def main():
    densities = []
    for name, (sets, values) in POINTS.items():
        for p in sets:
            y = [number(univariate(name, p, x)) for x in values]
            densities.append({"family": name, "parameters": [[v] for v in p], "x": [[v] for v in values], "y": y})
    for name, p, x in HARD:
        case = {"family": name, "parameters": [[v] for v in p], "x": [[x]], "y": [number(hard(name, p, x))]}
        densities.append(case)
    for name, p, x, y in multivariate():
        densities.append({"family": name, "parameters": p, "x": [x], "y": [number(y)]})
    draws = [
        {"family": name, "parameters": p, "mean": numbers(m), "variance": numbers(v)} for name, p, m, v in moments()
    ]
    out = {"densities": densities, "draws": draws}
    lines = ["{" + ",\n".join(f'"{k}": [\n' + ",\n".join(map(json.dumps, v)) + "\n]" for k, v in out.items()) + "}\n"]
    Path(__file__).with_name("distributions.json").write_text("".join(lines))


main()

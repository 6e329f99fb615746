"""The posteriors of `mcvi fit` as plain numpy: log densities in unconstrained coordinates, and exact answers.

Every log density takes points as rows [n, d]. `answer` gives log p(x), with its standard error where it is an
estimate, and the mean and sd of every parameter.
"""
import math

import numpy as np
from scipy.special import betaln, expit, gammaln, logsumexp

import workloads

EFFECTS = np.array([28, 8, -3, 7, -1, 1, 18, 12], float)
ERRORS = np.array([15, 10, 16, 11, 9, 11, 10, 18], float)
MODELS = ["stomach-cancer", "eight-schools", "banana", "logistic"]
LOG_2PI = math.log(2 * math.pi)


def parameters(model, columns=25):
    """Names as mcvi prints them, in the order of the coordinates."""
    number = lambda name, n: [f"{name}[{i}]" for i in range(1, n + 1)]
    return {"stomach-cancer": ["logit_eta", "log_K"], "eight-schools": ["mu", "tau", *number("eta", 8)],
            "banana": ["x", "y"], "logistic": ["intercept_std", *number("beta_std", columns)]}[model]


def coordinates(model, values):
    """From parameters to coordinates."""
    z = np.array(values, float)
    if model == "eight-schools":
        z[:, 1] = np.log(z[:, 1])
    return z


def write_logistic(path, rows=1000, columns=25, seed=20261):
    """Correlated predictors, a few strong coefficients, most weak."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(rows, 5)) @ rng.normal(size=(5, columns))
    x = rng.normal(size=(rows, columns)) + 0.5 * common
    beta = rng.normal(size=columns) * np.where(np.arange(columns) < 5, 1.0, 0.25)
    y = rng.random(rows) < expit(-0.5 + 0.5 * x @ beta)
    with open(path, "w") as f:
        f.write(",".join([f"x{i}" for i in range(1, columns + 1)] + ["y"]) + "\n")
        for row, t in zip(x, y):
            f.write(",".join([f"{v:.6f}" for v in row] + [str(int(t))]) + "\n")


def read_logistic(path):
    """Standardised predictors (mean 0, sample sd 1) and the target."""
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    x, y = table[:, :-1], table[:, -1]
    return (x - x.mean(0)) / x.std(0, ddof=1), y


def normal(x, mean, sd):
    return -0.5 * ((x - mean) / sd) ** 2 - np.log(sd) - 0.5 * LOG_2PI


def log_density(model, z, data=None):
    """log p(x, z) of every row, in coordinates, Jacobians included."""
    if model == "stomach-cancer":
        # Without the binomial coefficients.
        k, eta = np.exp(z[:, 1]), expit(z[:, 0])
        a, b, c = ((k * w)[:, None] for w in (eta, 1 - eta, 1.0))
        y, n = workloads.DEATHS, workloads.AT_RISK
        # log Γ(a + m) − log Γ(a) by betaln, since the difference loses its digits where K is large.
        rise = lambda a, m: np.where(m > 0, gammaln(np.maximum(m, 1)) - betaln(a, np.maximum(m, 1)), 0.0)
        return (rise(a, y) + rise(b, n - y) - rise(c, n)).sum(1) + z[:, 1] - 2 * np.logaddexp(0, z[:, 1])
    if model == "eight-schools":
        mu, tau, eta = z[:, 0], np.exp(z[:, 1]), z[:, 2:]
        prior = normal(mu, 0, 5) + math.log(2 / (5 * math.pi)) - np.log1p((tau / 5) ** 2) + z[:, 1]
        return prior + (normal(eta, 0, 1) + normal(EFFECTS, mu[:, None] + tau[:, None] * eta, ERRORS)).sum(1)
    if model == "banana":
        return normal(z[:, 0], 0, 1) + normal(z[:, 1], z[:, 0] ** 2 / 2, 1)
    x, y = data
    logit = z[:, :1] + z[:, 1:] @ x.T
    likelihood = (y * logit - np.logaddexp(0, logit)).sum(1)
    return likelihood + normal(z[:, 0], 0, 5) + normal(z[:, 1:], 0, 2.5).sum(1)


def answer(model, data=None):
    """(log p(x), its standard error, means, sds)."""
    if model == "banana":
        return 0.0, 0.0, np.array([0, 0.5]), np.sqrt([1, 1.5])
    if model == "stomach-cancer":
        # On a grid; the tail in log K falls as 1/K.
        grid = np.meshgrid(np.linspace(-11, -2, 721), np.linspace(-2, 34, 1441), indexing="ij")
        z = np.stack([g.ravel() for g in grid], 1)
        log_p = np.concatenate([log_density(model, part) for part in np.array_split(z, 100)])
        total = logsumexp(log_p)
        return weighted(total + math.log(9 / 720 * 36 / 1440), 0.0, z, np.exp(log_p - total))
    if model == "eight-schools":
        # Everything but tau is normal; tau on a grid.
        s = np.linspace(-16, 8, 4801)
        tau = np.exp(s)
        precision = 1 / (tau[:, None] ** 2 + ERRORS**2)
        var = 1 / (1 / 25 + precision.sum(1))
        mean = var * (precision * EFFECTS).sum(1)
        log_p = (normal(EFFECTS, mean[:, None], precision**-0.5).sum(1) + normal(mean, 0, 5) - normal(mean, mean, var**0.5)
                 + math.log(2 / (5 * math.pi)) - np.log1p((tau / 5) ** 2) + s)
        total = logsumexp(log_p)
        weight = np.exp(log_p - total)
        slope = tau[:, None] * precision  # eta | mu, tau has mean slope (y - mu) and variance 1 - tau slope
        first = np.column_stack([mean, tau, slope * (EFFECTS - mean[:, None])])
        second = np.column_stack([var, 0 * tau, 1 - tau[:, None] * slope + slope**2 * var[:, None]]) + first**2
        means = weight @ first
        return total + math.log(24 / 4800), 0.0, means, np.sqrt(weight @ second - means**2)
    # Importance sampling with a t distribution about the mode.
    x, y = data
    design = np.column_stack([np.ones(len(y)), x])
    prior = np.array([1 / 25] + [1 / 6.25] * x.shape[1])
    mode = np.zeros(design.shape[1])
    for _ in range(30):
        p = expit(design @ mode)
        hessian = (design.T * (p * (1 - p))) @ design + np.diag(prior)
        mode += np.linalg.solve(hessian, design.T @ (y - p) - prior * mode)
    rng, d, nu, n = np.random.default_rng(1), len(mode), 40, 200_000
    root = np.linalg.cholesky(np.linalg.inv(hessian))
    e = rng.normal(size=(n, d)) / np.sqrt(rng.chisquare(nu, size=(n, 1)) / nu)
    z = mode + e @ root.T
    log_q = (gammaln((nu + d) / 2) - gammaln(nu / 2) - d / 2 * math.log(nu * math.pi) - np.log(np.diag(root)).sum()
             - (nu + d) / 2 * np.log1p((e**2).sum(1) / nu))
    log_w = np.concatenate([log_density(model, part, data) for part in np.array_split(z, 200)]) - log_q
    total = logsumexp(log_w)
    weight = np.exp(log_w - total)
    return weighted(total - math.log(n), math.sqrt((weight**2).sum() - 1 / n), z, weight)


def weighted(log_evidence, error, z, weight):
    mean = weight @ z
    return float(log_evidence), error, mean, np.sqrt(weight @ (z - mean) ** 2)

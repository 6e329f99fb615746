"""Reference values for the diagnostics, written to psis.json beside this script.

Pareto-smoothed weights are those of ArviZ's `psislw`; R-hat and the effective sample size of a sequence are computed
here with numpy, from the textbook formulas, and checked against ArviZ before they are stored.

    pip install arviz==0.23.4 && python reference.py
"""

import json
from pathlib import Path

import arviz as az
import numpy as np

rng = np.random.default_rng(20130305)


def weight_sets():
    """Log weights by name, rounded so that the file stays small."""
    normal, student = rng.standard_normal, rng.standard_t
    return {
        "gaussian light 30": (0.5 * normal(30)).round(4),
        "gaussian light 100": (0.3 * normal(100) - 50).round(4),
        "gaussian light 1000": (0.5 * normal(1000)).round(3),
        "gaussian heavy 100": (3 * normal(100)).round(4),
        "gaussian heavy 1000": (4 * normal(1000) + 700).round(3),
        "student 30": student(3, 30).round(4),
        "student 100": (student(2, 100) - 1000).round(4),
        "student 900": student(4, 900).round(3),
        "uniform weights 200": np.log(rng.uniform(0.1, 1, 200)).round(4),
        "pareto k 0.5 500": (-0.5 * np.log(rng.uniform(size=500))).round(3),
        "vanishing below 60": np.concatenate([normal(8), normal(52) - 1500]).round(3),
        "shortest tail 21": normal(21).round(4),
        "no tail 20": normal(20).round(4),
        "two draws": np.array([0.25, -1.5]),
        "constant 50": np.full(50, -3.25),
        "ties 100": (2 * normal(100)).round(0),
        "ties 400": normal(400).round(1),
        "two values 100": np.repeat([0.0, 2.0], [90, 10]),
    }


def psis_case(name, log_weights):
    # Equal weights of the tail are smoothed in no particular order, so there values are compared by rank.
    n = len(log_weights)
    order = np.argsort(log_weights, kind="stable")
    tail = log_weights[order[-(n // 5 + 1) :]]
    by_rank = len(set(tail)) < len(tail)
    smoothed, k = az.psislw(log_weights.copy())
    ranks = sorted({int(r) for r in [0, n // 2, n - n // 5, n - n // 10, n - 6, n - 4, n - 3, n - 2, n - 1] if 0 <= r < n})
    at = [int(r) if by_rank else int(order[r]) for r in ranks]
    values = (np.sort(smoothed) if by_rank else smoothed)[at]
    return {
        "name": name,
        "log_weights": log_weights.tolist(),
        "by_rank": by_rank,
        "at": at,
        "smoothed": values.tolist(),
        # JSON has no infinity.
        "k": float(k) if np.isfinite(k) else None,
    }


def autoregression(n, phi, start=0.0):
    x = [start]
    for e in rng.standard_normal(n - 1):
        x.append(phi * x[-1] + e)
    return np.array(x).round(3)


def split_r_hat(chains):
    """BDA3, equations 11.1 to 11.4."""
    n = min(map(len, chains)) // 2
    halves = np.array([half for c in chains for half in (c[:n], c[-n:])])
    between = n * halves.mean(axis=1).var(ddof=1)
    within = halves.var(axis=1, ddof=1).mean()
    return np.sqrt(((n - 1) / n * within + between / n) / within)


def ess(x):
    """Geyer's initial monotone sequence, every autocorrelation at once."""
    n = len(x)
    c = x - x.mean()
    acov = np.correlate(c, c, "full")[n - 1 :] / n
    s2 = acov[0] * n / (n - 1)
    rho = 1 - (s2 - acov) / acov[0]
    rho[0] = 1
    # The last pair is never part of the sum.
    pairs = rho[: (n - 2) // 2 * 2].reshape(-1, 2).sum(axis=1)
    m = len(pairs) - 1
    if (pairs[:m] <= 0).any():
        m = int(np.argmax(pairs[:m] <= 0))
    tau = -1 + 2 * np.minimum.accumulate(pairs[:m]).sum() + max(rho[2 * m], 0)
    return n / max(tau, 1 / np.log10(n))


def r_hat_case(name, chains):
    value = float(split_r_hat(chains))
    if len(chains) > 1:
        np.testing.assert_allclose(value, az.rhat(np.array(chains), method="split"), rtol=1e-12)
    return {"name": name, "chains": [c.tolist() for c in chains], "r_hat": value}


def ess_case(name, x):
    value = float(ess(x))
    np.testing.assert_allclose(value, az.ess(x[None], method="identity"), rtol=1e-9)
    return {"name": name, "draws": x.tolist(), "ess": value, "mcse": float(x.std(ddof=1) / np.sqrt(value))}


r_hat_cases = [
    r_hat_case("mixed", [autoregression(60, 0.3) for _ in range(4)]),
    r_hat_case("odd length", [autoregression(41, 0.5) for _ in range(2)]),
    r_hat_case("apart", [autoregression(40, 0.2) + shift for shift in (0, 3)]),
    r_hat_case("one sequence", [autoregression(80, 0.9)]),
    r_hat_case("trend", [np.linspace(0, 5, 50).round(3) + autoregression(50, 0)]),
    r_hat_case("large offset", [(autoregression(30, 0) + 1e6).round(3) for _ in range(3)]),
]
ess_cases = [
    ess_case("independent", autoregression(150, 0)),
    ess_case("autocorrelated", autoregression(300, 0.8)),
    ess_case("antithetic", autoregression(200, -0.6)),
    ess_case("random walk", autoregression(151, 1)),
    ess_case("alternating", np.tile([1.0, -1.0], 20)),
    # A pair of autocorrelations grows here, which the monotone sequence does not follow.
    ess_case("not monotone", np.array([2, 0, 2, 2, 2, 2, 1, 2, 2, 0, 1, 0, 2, 0, 0, 0.0])),
    ess_case("short", autoregression(12, 0.5)),
    ess_case("shortest", np.array([0.5, 1.25, -1, 2])),
    ess_case("large offset", (autoregression(100, 0.5) - 1e6).round(3)),
]
reference = {
    "arviz": az.__version__,
    "psis": [psis_case(*item) for item in weight_sets().items()],
    "r_hat": r_hat_cases,
    "ess": ess_cases,
}


def rows(cases):
    return "[\n" + ",\n".join(json.dumps(case, separators=(",", ":"), allow_nan=False) for case in cases) + "\n]"


text = ",\n".join(f'"{key}": {rows(v) if isinstance(v, list) else json.dumps(v)}' for key, v in reference.items())
Path(__file__).with_name("psis.json").write_text("{\n" + text + "\n}\n")

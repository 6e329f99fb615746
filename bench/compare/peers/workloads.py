"""The workloads: parameter layout, data and starting values (numpy only).

The layouts are lists of (name, shape) in the order of the flat parameter vector.
"""
import math
import os

import numpy as np

PIXELS, LATENT, HIDDEN = 784, 32, 300
SONAR = 61  # coefficients
DEATHS = np.array([0, 0, 2, 0, 1, 1, 0, 2, 1, 3, 0, 1, 1, 1, 54, 0, 0, 1, 3, 0], float)
AT_RISK = np.array([1083, 855, 3461, 657, 1208, 1025, 527, 1668, 583, 582, 917, 857, 680, 917,
                    53637, 874, 395, 581, 588, 383], float)


def layout(workload, leapfrogs):
    """(name, shape) of every parameter block."""
    if workload == "stomach":
        net = lambda n: [(n + "A", (2, 2)), (n + "B", (2, 2)), (n + "c", (2,)), (n + "s", (2,))]
        return [("q0m", (2,)), ("q0s", (2,)), *net("q"), *net("r"), ("log_mass", (2,)), ("log_eps", ())]
    if workload == "uha":  # of a step: log step size, logit of the share of momentum kept, log scales
        return [("bias", (SONAR,)), ("log_sd", (SONAR,)), ("logits", (leapfrogs,)), ("steps", (leapfrogs, 2 + SONAR))]
    d, k, h = PIXELS, LATENT, HIDDEN
    blocks = [("dW1", (k, h)), ("db1", (h,)), ("dW2", (h, h)), ("db2", (h,)), ("dW3", (h, d)), ("db3", (d,)),
              ("eW1", (d, h)), ("eb1", (h,)), ("eW2", (h, h)), ("eb2", (h,)), ("eW3", (h, 2 * k)), ("eb3", (2 * k,))]
    if leapfrogs:
        blocks += [("rWx", (d, h)), ("rWz", (k, h)), ("rb1", (h,)), ("rW2", (h, 2 * k)), ("rb2", (2 * k,)),
                   ("log_mass", (k,)), ("log_eps", ()), ("pm", (k,)), ("ps", (k,))]
    return blocks


def dtype(workload):
    return np.float32 if workload == "vae" else np.float64


def inputs(workload, batch, draws):
    """(name, shape) of the files `check` reads besides the parameters."""
    if workload == "vae":
        return [("x", (batch, PIXELS)), ("e0", (batch, LATENT)), ("e1", (batch, LATENT))]
    return [("e0", (draws, 2)), ("e1", (draws, 2))]


def start(workload, leapfrogs, rng):
    """Starting parameters of the timing run, by name."""
    fixed = {"log_eps": math.log(0.05 if workload == "vae" else 0.1),
             "q0m": [-6.82, 7.57], "q0s": [-1.5, 0.0]}
    values = {}
    for name, shape in layout(workload, leapfrogs):
        if name == "steps":
            value = np.append([math.log(0.5), 1.0], np.zeros(SONAR)) + np.zeros(shape)
        elif workload == "vae" and len(shape) == 2:
            value = rng.normal(size=shape) * math.sqrt(2 / sum(shape))
        else:
            value = np.broadcast_to(fixed.get(name, 0.0), shape)
        values[name] = np.array(value, dtype(workload))
    return values


def beginning(args):
    """Starting parameters and fixed inputs of a timing run (vae: the binary batch)."""
    rng = np.random.default_rng(args.seed)
    values = start(args.workload, args.leapfrogs, rng)
    if args.workload != "vae":
        return values, []
    return values, [(rng.random((args.batch, PIXELS)) < 0.2).astype(np.float32)]


def split(flat, blocks):
    """The blocks of a flat vector, by name."""
    parts, at = {}, 0
    for name, shape in blocks:
        size = math.prod(shape)
        parts[name] = flat[at : at + size].reshape(shape)
        at += size
    assert at == len(flat), (at, len(flat))
    return parts


def sonar(folder):
    """Design matrix and labels: columns centred and divided by their standard deviations, ones in front."""
    table = np.loadtxt(os.path.join(folder, "sonar.csv"), delimiter=",")
    x = table[:, :-1]
    return np.column_stack([np.ones(len(x)), (x - x.mean(0)) / x.std(0)]), (table[:, -1] == 1).astype(float)


def whitening(x, y):
    """Mode and Cholesky factor of the covariance there, of a logistic regression with weights N(0, 1)."""
    w = np.zeros(x.shape[1])
    for _ in range(50):
        s = 1 / (1 + np.exp(-x @ w))
        precision = (x.T * (s * (1 - s))) @ x + np.eye(len(w))
        w = w + np.linalg.solve(precision, x.T @ (y - s) - w)
    return w, np.linalg.cholesky(np.linalg.inv(precision))

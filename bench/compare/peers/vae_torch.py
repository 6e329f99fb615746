"""PyTorch peer of the "vae" workload: f32, eager, gradients of the log density by create_graph."""
import math

import protocol
import workloads

args = protocol.options("vae")

import torch
from torch.nn.functional import softplus

from torch_engine import Engine

LOG_2PI = math.log(2 * math.pi)


def dense(x, w, b):
    return torch.addmm(b, x, w)


def log_normal(e, log_sd):
    """Σ over rows of the diagonal Gaussian log density at the standardised point e."""
    return -0.5 * (e * e).sum() - log_sd.expand_as(e).sum() - 0.5 * LOG_2PI * e.numel()


def loss(p, e, x):
    h = softplus(dense(softplus(dense(x, p["eW1"], p["eb1"])), p["eW2"], p["eb2"]))
    mean, log_sd = dense(h, p["eW3"], p["eb3"]).chunk(2, dim=1)
    z = mean + log_sd.exp() * e[0]

    def log_p(z):
        h = softplus(dense(softplus(dense(z, p["dW1"], p["db1"])), p["dW2"], p["db2"]))
        logits = dense(h, p["dW3"], p["db3"])
        return (x * logits - softplus(logits)).sum() - 0.5 * (z * z).sum() - 0.5 * LOG_2PI * z.numel()

    def value_and_grad(z):
        value = log_p(z)
        return value, torch.autograd.grad(value, z, create_graph=True)[0]

    bound = -log_normal(e[0], log_sd)
    if args.leapfrogs == 0:
        return -(bound + log_p(z)) / x.shape[0]
    eps = p["log_eps"].exp()
    move = eps * (-p["log_mass"]).exp()
    v = p["pm"] + p["ps"].exp() * e[1] + 0.5 * eps * value_and_grad(z)[1]
    for _ in range(args.leapfrogs - 1):
        z = z + move * v
        v = v + eps * value_and_grad(z)[1]
    z = z + move * v
    value, g = value_and_grad(z)
    v = v + 0.5 * eps * g
    h = softplus(dense(x, p["rWx"], p["rb1"]) + z @ p["rWz"])
    mean, log_sd = dense(h, p["rW2"], p["rb2"]).chunk(2, dim=1)
    bound = bound + value + log_normal((v - mean) * (-log_sd).exp(), log_sd) - log_normal(e[1], p["ps"])
    return -bound / x.shape[0]


start, batch = workloads.beginning(args)
engine = Engine(args, loss, start, batch, (2, args.batch, workloads.LATENT), 1e-3)
protocol.serve(engine, workloads.inputs("vae", args.batch, 0), "<f4")

"""PyTorch peer of the "stomach" workload: f64, eager, torch's own lgamma and digamma.

The derivative of digamma is zeta(2, x): torch's trigamma (polygamma(1, x)) is off by 1e-10."""
import math

import protocol
import workloads

args = protocol.options("stomach")

import torch

from torch_engine import Engine

LOG_2PI = math.log(2 * math.pi)
Y, N = torch.from_numpy(workloads.DEATHS), torch.from_numpy(workloads.AT_RISK)
OFFSET = torch.nn.functional.pad(torch.stack([Y, N - Y, N]), (0, 1))  # [3, 21], last 0
WEIGHT = torch.tensor([[1.0], [1.0], [-1.0]]) * torch.tensor([1.0] * 20 + [-20.0]).double()


class Digamma(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        return torch.digamma(x)

    @staticmethod
    def backward(context, g):
        return g * torch.special.zeta(2.0, context.saved_tensors[0])


class Lgamma(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        return torch.lgamma(x)

    @staticmethod
    def backward(context, g):
        return g * Digamma.apply(context.saved_tensors[0])


def value_and_grad(z):
    """Σ over rows of the log posterior, and its gradient in z [S, 2]."""
    k, eta = z[:, 1].exp(), z[:, 0].sigmoid()
    rows = torch.stack([k * eta, k * (1 - eta), k], 1)[:, :, None] + OFFSET
    value = (WEIGHT * Lgamma.apply(rows)).sum() + (z[:, 1] - 2 * torch.log1p(k)).sum()
    return value, torch.autograd.grad(value, z, create_graph=True)[0]


def affine(p, net, z, g):
    return torch.addmm(torch.addmm(p[net + "c"], z, p[net + "A"]), g, p[net + "B"])


def log_normal(e, log_sd):
    return -0.5 * (e * e).sum() - e.shape[0] * (log_sd.sum() + LOG_2PI)


def loss(p, e):
    eps = p["log_eps"].exp()
    move = eps * (-p["log_mass"]).exp()
    z = p["q0m"] + p["q0s"].exp() * e[0]
    _, g = value_and_grad(z)
    v = affine(p, "q", z, g) + p["qs"].exp() * e[1] + 0.5 * eps * g
    for _ in range(args.leapfrogs - 1):
        z = z + move * v
        v = v + eps * value_and_grad(z)[1]
    z = z + move * v
    value, g = value_and_grad(z)
    u = (v + 0.5 * eps * g - affine(p, "r", z, g)) * (-p["rs"]).exp()
    bound = value - log_normal(e[0], p["q0s"]) - log_normal(e[1], p["qs"]) + log_normal(u, p["rs"])
    return -bound / args.draws


start, _ = workloads.beginning(args)
engine = Engine(args, loss, start, [], (2, args.draws, 2), 1e-2)
protocol.serve(engine, workloads.inputs("stomach", 0, args.draws), "<f8")

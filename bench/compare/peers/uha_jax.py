"""JAX peer of the "uha" workload: f64, steps of uncorrected Hamiltonian annealing for a logistic regression.

The chain of the library: whitened coordinates, a diagonal Gaussian q0, a kept and partially refreshed momentum, one
leapfrog a step on bridges with learned temperatures. Gradients of log p and log q0 are taken once at every point, so that
T steps take T + 1 of them, and log p itself is evaluated at the end only.
"""
import math

import protocol
import workloads

args = protocol.options("uha")

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jax_engine import Engine

jax.config.update("jax_enable_x64", True)
LOG_2PI = math.log(2 * math.pi)
BLOCKS = workloads.layout("uha", args.leapfrogs)
LOG_SERIES = [0.6666666666666735130, 0.3999999999940941908, 0.2857142874366239149, 0.2222219843214978396,
              0.1818357216161805012, 0.1531383769920937332, 0.1479819860511658591]

X, Y = workloads.sonar(args.data)
N, D = X.shape
MODE, FACTOR = workloads.whitening(X, Y)
# Logits and weights as one affine function of whitened coordinates.
MAP, SHIFT = np.vstack([X, np.eye(D)]) @ FACTOR, np.concatenate([X @ MODE, MODE])
TRANSPOSED = np.ascontiguousarray(MAP.T)
CONSTANT = np.log(np.diag(FACTOR)).sum() - 0.5 * D * LOG_2PI


def horner(coefficients, t):
    value = coefficients[-1]
    for c in coefficients[-2::-1]:
        value = value * t + c
    return value


def log(x):
    """Branch-free log of a normal positive number (XLA's own f64 log is slow on CPU)."""
    origin = 0x3FE6A09E00000000  # about sqrt(1/2): the mantissa is taken in [sqrt(1/2), sqrt 2)
    bits = lax.bitcast_convert_type(x, jnp.int64) - origin
    k = (bits >> 52).astype(x.dtype)
    f = lax.bitcast_convert_type((bits & 0xFFFFFFFFFFFFF) + origin, x.dtype) - 1
    s, h = f / (2 + f), 0.5 * f * f
    tail = s * (h + s * s * horner(LOG_SERIES, s * s)) + k * 1.90821492927058770002e-10
    return k * 6.93147180369123816490e-01 - ((h - tail) - f)


def box_muller(key, shape, dtype):
    """Normal draws: jax.random.normal evaluates an inverse error function, which takes far longer."""
    half = math.prod(shape) // 2
    bits = jax.random.bits(key, (2, half), jnp.uint64)
    u = 2 - lax.bitcast_convert_type((bits >> 12) | jnp.uint64(0x3FF0000000000000), dtype)  # in (0, 1]
    radius = jnp.sqrt(-2 * log(u[0]))
    quarter = jnp.round(4 * u[1])
    angle = (u[1] - quarter * 0.25) * (2 * math.pi)  # within an eighth of a turn
    t = angle * angle
    sine = angle * horner([(-1) ** k / math.factorial(2 * k + 1) for k in range(8)], t)
    cosine = horner([(-1) ** k / math.factorial(2 * k) for k in range(8)], t)
    q = quarter.astype(jnp.int32)
    odd = (q & 1) == 1
    a, b = jnp.where(odd, cosine, sine), jnp.where(odd, sine, cosine)
    a, b = jnp.where((q & 2) == 2, -a, a), jnp.where(((q + 1) & 2) == 2, -b, b)
    return jnp.concatenate([radius * a, radius * b]).reshape(shape)


@jax.custom_jvp
def sigmoid(x):
    return 1 / (1 + jnp.exp(-x))


@sigmoid.defjvp
def _(x, dx):
    s = sigmoid(x[0])
    return s, s * (1 - s) * dx[0]


def point(z, p):
    """Gradients of log p and log q0, and the affine function."""
    u = z @ TRANSPOSED + SHIFT
    residual = jnp.concatenate([Y - sigmoid(u[:, :N]), -u[:, N:]], 1)
    return residual @ MAP, (p["bias"] - z) * jnp.exp(-2 * p["log_sd"]), u


def loss(flat, e):
    """e: [2 + T, S, D]: of q0, of the first momentum, and of the refreshments."""
    p = workloads.split(flat, BLOCKS)
    z, v = p["bias"] + jnp.exp(p["log_sd"]) * e[0], e[1]
    beta = jnp.cumsum(jax.nn.softmax(p["logits"]))
    keep = sigmoid(p["steps"][:, 1])
    sd = jnp.sqrt(1 - keep * keep)
    size = jnp.exp(p["steps"][:, :1] + p["steps"][:, 2:])
    of_p, of_q0, u = point(z, p)
    # Twice the log density of momenta before each leapfrog less that after it, negative.
    total = jnp.zeros_like(z)
    for t in range(args.leapfrogs):
        v = keep[t] * v + sd[t] * e[2 + t]
        total = total + v * v
        v = v + 0.5 * size[t] * (of_q0 + beta[t] * (of_p - of_q0))
        z = z + size[t] * v
        of_p, of_q0, u = point(z, p)
        v = v + 0.5 * size[t] * (of_q0 + beta[t] * (of_p - of_q0))
        total = total - v * v
    logits, w = u[:, :N], u[:, N:]
    log_p = jnp.sum(Y * logits - jnp.logaddexp(logits, 0.0)) - 0.5 * jnp.sum(w * w) + args.draws * CONSTANT
    log_q0 = -0.5 * jnp.sum(e[0] * e[0]) - args.draws * (jnp.sum(p["log_sd"]) + 0.5 * D * LOG_2PI)
    return -(log_p - log_q0 + 0.5 * jnp.sum(total)) / args.draws


start, _ = workloads.beginning(args)
identity = lambda flat: flat
engine = Engine(loss, np.concatenate([start[name].ravel() for name, _ in BLOCKS]), identity, identity, (),
                (2 + args.leapfrogs, args.draws, D), 1e-2, 500, seed=args.seed, clip=10.0,
                normal=jax.random.normal if args.jax_normal else box_muller)
protocol.serve(engine, [], "<f8")

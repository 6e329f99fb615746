"""JAX peer of the "stomach" workload: f64, hand-tuned log-gamma chain (or jax.scipy's).

All 63 log-gamma arguments of a row are evaluated in one call; the parameters stay one flat
vector; with more than one draw the noise of a whole call is drawn at once.
"""
import math

import protocol
import workloads

args = protocol.options("stomach")

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jax_engine import Engine

jax.config.update("jax_enable_x64", True)
LOG_2PI = math.log(2 * math.pi)
BLOCKS = workloads.layout("stomach", args.leapfrogs)
BERNOULLI = [1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510]
LOG_SERIES = [0.6666666666666735130, 0.3999999999940941908, 0.2857142874366239149, 0.2222219843214978396,
              0.1818357216161805012, 0.1531383769920937332, 0.1479819860511658591]


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


def shift(x):
    """Moves x < 8 up by 8: the moved point and x(x+1)…(x+7) with two derivatives.

    With u = x(x+7) the product is u(u+6)(u+10)(u+12); its derivatives are in u, du/dx = 2x+7.
    """
    u = x * (x + 7)
    product = (((u + 28) * u + 252) * u + 720) * u
    first = ((4 * u + 84) * u + 504) * u + 720
    second = (12 * u + 168) * u + 504
    small = x < 8
    return small, jnp.where(small, x + 8, x), product, first, second, 2 * x + 7


@jax.custom_jvp
def lgamma(x):
    small, y, product, *_ = shift(x)
    i = 1 / y
    series = i * horner([b / (2 * k * (2 * k - 1)) for k, b in enumerate(BERNOULLI, 1)], i * i)
    return (y - 0.5) * log(y) - y + 0.5 * LOG_2PI + series - log(jnp.where(small, product, 1.0))


@jax.custom_jvp
def digamma(x):
    small, y, product, first, _, du = shift(x)
    i = 1 / y
    t = i * i
    series = t * horner([b / (2 * k) for k, b in enumerate(BERNOULLI, 1)], t)
    return log(y) - 0.5 * i - series - jnp.where(small, du * first / product, 0.0)


def trigamma(x):
    small, y, product, first, second, du = shift(x)
    i = 1 / y
    t = i * i
    q = 1 / product
    a = du * first * q
    return i + 0.5 * t + i * t * horner(BERNOULLI, t) + jnp.where(small, a * a - (2 * first + du * du * second) * q, 0.0)


lgamma.defjvp(lambda x, dx: (lgamma(*x), digamma(*x) * dx[0]))
digamma.defjvp(lambda x, dx: (digamma(*x), trigamma(*x) * dx[0]))
if args.jax_lgamma:
    lgamma = jax.scipy.special.gammaln

Y, N = workloads.DEATHS, workloads.AT_RISK
OFFSET = np.stack([np.append(o, 0.0) for o in (Y, N - Y, N)])[:, :, None]  # [3, 21, 1]
WEIGHT = np.stack([s * np.append(np.ones(20), -20.0) for s in (1, 1, -1)])[:, :, None]


def log_p(z0, z1):
    """Σ over rows of the log posterior."""
    k, eta = jnp.exp(z1), 1 / (1 + jnp.exp(-z0))
    rows = jnp.stack([k * eta, k * (1 - eta), k])[:, None, :]
    return jnp.sum(jnp.sum(WEIGHT * lgamma(rows + OFFSET), 1)) + jnp.sum(z1 - 2 * jnp.log1p(k))


def affine(p, net, z, g):
    a, b, c = p[net + "A"], p[net + "B"], p[net + "c"]
    return [z[0] * a[0, i] + z[1] * a[1, i] + g[0] * b[0, i] + g[1] * b[1, i] + c[i] for i in (0, 1)]


def log_normal(e, log_sd):
    return -0.5 * sum(jnp.sum(c * c) for c in e) - e[0].size * (jnp.sum(log_sd) + LOG_2PI)


def loss(flat, e):
    """e: [2, 2, S]; the two coordinates are kept as separate vectors."""
    p = workloads.split(flat, BLOCKS)
    e0, e1 = e
    pair = lambda f: [f(i) for i in (0, 1)]
    eps = jnp.exp(p["log_eps"])
    move = eps * jnp.exp(-p["log_mass"])
    z = pair(lambda i: p["q0m"][i] + jnp.exp(p["q0s"][i]) * e0[i])
    g = jax.grad(log_p, (0, 1))(*z)
    mean = affine(p, "q", z, g)
    v = pair(lambda i: mean[i] + jnp.exp(p["qs"][i]) * e1[i] + 0.5 * eps * g[i])
    for _ in range(args.leapfrogs - 1):
        z = pair(lambda i: z[i] + move[i] * v[i])
        g = jax.grad(log_p, (0, 1))(*z)
        v = pair(lambda i: v[i] + eps * g[i])
    z = pair(lambda i: z[i] + move[i] * v[i])
    value, g = jax.value_and_grad(log_p, (0, 1))(*z)
    mean = affine(p, "r", z, g)
    u = pair(lambda i: (v[i] + 0.5 * eps * g[i] - mean[i]) * jnp.exp(-p["rs"][i]))
    bound = value - log_normal(e0, p["q0s"]) - log_normal(e1, p["qs"]) + log_normal(u, p["rs"])
    return -bound / args.draws


start, _ = workloads.beginning(args)
identity = lambda flat: flat
engine = Engine(loss, np.concatenate([start[name].ravel() for name, _ in BLOCKS]), identity, identity, (),
                (2, 2, args.draws), 1e-2, 1000, ahead=args.draws > 1, seed=args.seed)
check = engine.check
engine.check = lambda flat, e0, e1: check(flat, e0.T, e1.T)
protocol.serve(engine, workloads.inputs("stomach", 0, args.draws), "<f8")

"""JAX peer of the "vae" workload: f32, leapfrogs unrolled, parameters and moments as a pytree."""
import math

import protocol
import workloads

args = protocol.options("vae")

import jax
import jax.numpy as jnp

from jax_engine import Engine

K, LOG_2PI = workloads.LATENT, math.log(2 * math.pi)
BLOCKS = workloads.layout("vae", args.leapfrogs)


@jax.custom_jvp
def sigmoid(x):
    return 0.5 + 0.5 * jnp.tanh(0.5 * x)


@jax.custom_jvp
def softplus(x):
    return jnp.maximum(x, 0) + jnp.log1p(jnp.exp(-jnp.abs(x)))


@sigmoid.defjvp
def _(x, dx):
    s = sigmoid(*x)
    return s, s * (1 - s) * dx[0]


softplus.defjvp(lambda x, dx: (softplus(*x), sigmoid(*x) * dx[0]))


def log_normal(e, log_sd):
    """Σ over rows of the diagonal Gaussian log density at the standardised point e."""
    return -0.5 * jnp.sum(e * e) - jnp.sum(jnp.broadcast_to(log_sd, e.shape)) - 0.5 * LOG_2PI * e.size


def loss(p, e, x):
    h = softplus(softplus(x @ p["eW1"] + p["eb1"]) @ p["eW2"] + p["eb2"])
    mean, log_sd = jnp.split(h @ p["eW3"] + p["eb3"], 2, axis=1)
    z = mean + jnp.exp(log_sd) * e[0]

    def log_p(z):
        h = softplus(softplus(z @ p["dW1"] + p["db1"]) @ p["dW2"] + p["db2"])
        logits = h @ p["dW3"] + p["db3"]
        return jnp.sum(x * logits - softplus(logits)) + log_normal(z, 0.0)

    bound = -log_normal(e[0], log_sd)
    if args.leapfrogs == 0:
        return -(bound + log_p(z)) / x.shape[0]
    v = p["pm"] + jnp.exp(p["ps"]) * e[1]
    eps = jnp.exp(p["log_eps"])
    move = eps * jnp.exp(-p["log_mass"])
    v = v + 0.5 * eps * jax.grad(log_p)(z)
    for _ in range(args.leapfrogs - 1):
        z = z + move * v
        v = v + eps * jax.grad(log_p)(z)
    z = z + move * v
    value, g = jax.value_and_grad(log_p)(z)
    v = v + 0.5 * eps * g
    h = softplus(x @ p["rWx"] + z @ p["rWz"] + p["rb1"])
    mean, log_sd = jnp.split(h @ p["rW2"] + p["rb2"], 2, axis=1)
    bound += value + log_normal((v - mean) * jnp.exp(-log_sd), log_sd) - log_normal(e[1], p["ps"])
    return -bound / x.shape[0]


start, batch = workloads.beginning(args)
engine = Engine(loss, start, lambda g: jnp.concatenate([g[name].ravel() for name, _ in BLOCKS]),
                lambda flat: workloads.split(flat, BLOCKS), batch, (2, args.batch, K), 1e-3, 20, seed=args.seed)
protocol.serve(engine, workloads.inputs("vae", args.batch, 0), "<f4")

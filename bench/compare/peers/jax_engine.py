"""Training loop of the JAX peers: Adam steps in one compiled fori_loop with donated buffers.

Import after `protocol.options`. What was tried and did not help is listed in ../README.md.
"""
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


class Engine:
    """`loss(params, e, *fixed)`; noise e is standard normal of `noise_shape` (leading 2: e0, e1).

    `start` is the pytree of starting parameters, `pack`/`unpack` turn it into the flat vector
    and back. With `ahead` the noise of all steps of a call is drawn at its start (inside the
    timed call) rather than step by step. With `clip` a step is that of the library: gradients are
    clipped at this multiple of their usual norm, one that is not finite counts as zero, and the
    iterates are averaged. `normal` draws the noise.
    """

    def __init__(self, loss, start, pack, unpack, fixed, noise_shape, rate, steps, ahead=False, seed=0, clip=None,
                 normal=jax.random.normal):
        self.pack, self.unpack, self.fixed = pack, unpack, tuple(jnp.asarray(f) for f in fixed)
        self.loss, self.noise = loss, lambda key: normal(key, noise_shape, dtype)
        self.gradient = jax.value_and_grad(loss)
        params = jax.tree.map(jnp.asarray, start)
        self.size = sum(leaf.size for leaf in jax.tree.leaves(params))
        zeros = lambda: jax.tree.map(jnp.zeros_like, params)
        dtype = jax.tree.leaves(params)[0].dtype
        number = lambda: jnp.zeros((), dtype)
        self.state = params, zeros(), zeros(), jnp.int32(0), number(), *([zeros(), number()] if clip else [])
        self.key = jax.random.key(seed)

        def clipped(g, usual):
            square = sum(jnp.sum(x * x) for x in jax.tree.leaves(g))
            usable, norm = square < jnp.inf, jnp.sqrt(square)
            short = jnp.minimum(norm, jnp.where(usual > 0, usual * clip, jnp.inf))
            factor = short / jnp.maximum(norm, 1e-30)
            after = jnp.where(usual > 0, usual + (short - usual) * 0.01, norm)
            return jax.tree.map(lambda x: jnp.where(usable, x * factor, 0), g), jnp.where(usable, after, usual)

        def step(state, e, fixed):
            p, m, v, t, _, *more = state
            value, g = self.gradient(p, e, *fixed)
            if more:
                average, usual = more
                g, usual = clipped(g, usual)
            t = t + 1
            c1, c2 = (1 / (1 - b ** t.astype(dtype)) for b in (0.9, 0.999))
            m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
            v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
            p = jax.tree.map(lambda p, m, v: p - rate * (m * c1) / (jnp.sqrt(v * c2) + 1e-8), p, m, v)
            if more:
                more = jax.tree.map(lambda a, p: a + (p - a) * 0.01, average, p), usual
            return p, m, v, t, value, *more

        def run(n, state, key, fixed):
            if ahead:
                noise = normal(jax.random.fold_in(key, state[3]), (n, *noise_shape), dtype)
                draw = lambda i, t: noise[i]
            else:
                draw = lambda i, t: self.noise(jax.random.fold_in(key, t))
            return lax.fori_loop(0, n, lambda i, s: step(s, draw(i, s[3]), fixed), state)

        self.run = jax.jit(run, donate_argnums=1, static_argnums=0 if ahead else None)
        self.ahead, self.compiled = ahead, {}
        begin = time.perf_counter()
        self.program(steps)
        self.compile_seconds = time.perf_counter() - begin

    def program(self, n):
        """The compiled loop: one for all n, unless the noise is drawn ahead."""
        name = n if self.ahead else None
        if name not in self.compiled:
            self.compiled[name] = self.run.lower(n, self.state, self.key, self.fixed).compile()
        return self.compiled[name]

    def steps(self, n):
        call = self.program(n)
        arguments = self.state, self.key, self.fixed
        self.state = jax.block_until_ready(call(*arguments) if self.ahead else call(n, *arguments))
        return self.state[4]

    def check(self, flat, *inputs):
        *fixed, e0, e1 = inputs
        params = jax.tree.map(jnp.asarray, self.unpack(flat))
        value, g = jax.jit(self.gradient)(params, jnp.stack([e0, e1]), *fixed)
        return value, np.asarray(self.pack(g))

    def bound(self, flat, samples=6250):
        """The bound at some parameters, by fresh noise, and its standard error."""
        params = jax.tree.map(jnp.asarray, self.unpack(flat))
        one = lambda key: -self.loss(params, self.noise(key), *self.fixed)
        values = jax.jit(lambda keys: lax.map(one, keys))(jax.random.split(jax.random.key(1), samples))
        return values.mean(), values.std(ddof=1) / samples**0.5

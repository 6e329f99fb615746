"""Log densities of JAX that the engine computes itself: values, gradients and Hessian-vector products are JAX's."""

import mcvi
import numpy as np
import pytest

jax = pytest.importorskip("jax")
import jax.numpy as jnp
from jax import lax
from jax.scipy import special, stats
from mcvi.models.jax import double
from mcvi.models.lowering import lower
from mcvi.models.trace import Uncovered

RNG = np.random.default_rng(7)
X, Y = RNG.normal(size=(9, 3)), RNG.normal(size=9)
GROUP = np.array([2, 0, 1, 1, 3, 0, 2, 2, 1])
COUNTS = np.array([0.0, 3, 1, 7, 2, 0, 5, 1, 2])
PLACES = np.linspace(0, 3, 6)


def covariance(z):
    apart = PLACES[:, None] - PLACES[None, :]
    return jnp.exp(2 * z[0]) * jnp.exp(-0.5 * (apart / jnp.exp(z[1])) ** 2) + 0.3 * jnp.eye(6)


def gaussian_process(z):
    factor = jnp.linalg.cholesky(covariance(z))
    half = jax.scipy.linalg.solve_triangular(factor, Y[:6] - z[2], lower=True)
    return -0.5 * half @ half - jnp.log(jnp.diagonal(factor)).sum()


def upper_and_transposed(z):
    factor = jnp.linalg.cholesky(covariance(z))
    solve = jax.scipy.linalg.solve_triangular
    upper = solve(factor.T, Y[:6], lower=False)
    back = solve(factor, z[3:9], trans=1, lower=True)
    both = solve(factor.T, z[3:9], trans=1, lower=False)
    right = lax.linalg.triangular_solve(factor, z[None, 3:9], left_side=False, lower=True)
    other = lax.linalg.triangular_solve(factor, z[None, 3:9], left_side=False, lower=True, transpose_a=True)
    return (upper + back * both + right[0] ** 2 + other[0]).sum()


def autoregression(z):
    def step(last, y):
        mean = jnp.tanh(z[0]) * last + z[1]
        return y, stats.norm.logpdf(y, mean, jnp.exp(z[2]))

    return lax.scan(step, jnp.zeros(()), Y)[1].sum()


def hidden_states(z):
    """A forward algorithm: carries that depend on the parameters, indices that are known for each iteration."""
    log_transition = jax.nn.log_softmax(z[:4].reshape(2, 2), axis=1)

    def step(carry, x):
        alpha, t = carry
        emission = stats.norm.logpdf(x, z[4:6], 1.0) + 0.1 * z[t % 3]
        alpha = special.logsumexp(alpha[:, None] + log_transition, axis=0) + emission
        return (alpha, t + 1), alpha.max() * jnp.array([1.0, 2.0])[t % 2]

    (alpha, _), tops = lax.scan(step, (jnp.zeros(2), 0), Y)
    return special.logsumexp(alpha) + 0.1 * tops.sum()


def backwards(z):
    def step(carry, x):
        shift, y = x
        carry = jnp.sin(carry) * 0.5 + shift * y
        return carry, (carry**2, y)

    last, (squares, ys) = lax.scan(step, z[0], (z[1:9], Y[1:]), reverse=True)
    return last + (squares * jnp.arange(1.0, 9)).sum() + (ys * z[1:9]).sum()


def counted(z):
    return lax.fori_loop(0, 5, lambda i, total: total + i * jnp.sin(z[i]) * total, 1.0)


def branches(z):
    which = lax.cond(z[0] > 0, lambda z: z[1] ** 2, lambda z: jnp.sin(z[1]), z)
    fixed = lax.cond(X[0, 0] > 100, lambda z: z[0], lambda z: z[2] ** 3, z)
    return which + fixed + lax.switch(1, [lambda z: z[0], lambda z: z[3] ** 2], z)


def scattered(z):
    moved = jnp.zeros(12).at[GROUP].add(z).at[jnp.array([4, 5])].set(z[:2] ** 2)
    # Places out of range are dropped.
    dropped = jnp.zeros(4).at[jnp.array([1, 9, 1])].add(z[:3], mode="drop")
    put = lax.dynamic_update_slice(moved, z[:3], (9,))
    segments = jax.ops.segment_sum(z**2, GROUP, num_segments=4)
    return (moved**2).sum() + (put**3).sum() + jnp.sin(dropped).sum() + (segments**2).sum()


def gathered(z):
    matrix = z[:9].reshape(3, 3)
    beyond = z.at[jnp.array([0, 99])].get(mode="fill", fill_value=0.5)
    return (
        (z[GROUP] * Y).sum()
        + (matrix[[0, 2, 1], [1, 1, 0]] ** 2).sum()
        + jnp.exp(matrix[:, ::-1] * 0.1)[1:, ::2].sum()
        + jnp.take_along_axis(matrix, GROUP[:3, None] % 3, axis=1).sum() ** 2
        + lax.dynamic_slice(z, (2,), (3,)).prod()
        + (beyond**2).sum()
        + jnp.diag(matrix).sum() ** 3
        + z[-1]
    )


def moved(z):
    a, b, c = jnp.split(z, [2, 5])
    matrix = z.reshape(3, 3)
    stacked = jnp.concatenate([a, b**2, jnp.zeros(2), c])
    padded = jnp.pad(matrix, ((1, 0), (0, 2)), constant_values=1.5)
    return (
        (stacked * jnp.arange(11)).sum()
        + (padded.T**2 * jnp.arange(5)[:, None]).sum()
        + (jnp.flip(z) * z).sum()
        + jnp.tril(matrix).sum() ** 2
        + (jnp.tile(a, 3) * jnp.roll(jnp.repeat(b, 2), 1)).sum()
        + jnp.stack([a, a**2], axis=1).max()
        + lax.rev(matrix, (0,))[0, 1] ** 2
        + jnp.diff(z).prod() * 0.1
    )


def reduced(z):
    matrix = z.reshape(3, 3)
    return (
        matrix.sum(0).max()
        + matrix.min(1).sum()
        + matrix.prod(axis=0).sum()
        + jnp.prod(z[:7])
        + jnp.cumsum(matrix, axis=1).prod() * 0.1
        + (lax.cumsum(z, reverse=True) * Y).sum()
        + (jnp.cumprod(z) * Y).sum()
        + (lax.cumprod(z, reverse=True) ** 2).sum()
        + (lax.cumlogsumexp(z) * Y).sum()
        + (lax.cummax(z) * Y).sum()
        + (lax.cummin(matrix, axis=1, reverse=True) * X[:3]).sum()
        + special.logsumexp(matrix, axis=1) @ z[:3]
        + matrix.mean()
        + matrix.std()
        + jnp.where((matrix > 0).all(axis=0), 1.0, 2.0) @ z[:3]
        + jnp.where((matrix > 0).any(axis=1), 1.0, 2.0) @ z[3:6]
    )


def multiplied(z):
    a, b = z.reshape(3, 3), jnp.sin(z).reshape(3, 3)
    batch = jnp.stack([a, b, a @ b])
    return (
        (X @ z[:3] * Y).sum() ** 2
        + ((X @ a) ** 2).sum()
        + ((a @ X.T) ** 3).sum() * 0.1
        + (a @ b).sum() ** 2
        + a[0] @ b @ a[1]
        + jnp.outer(z, z).sum()
        + jnp.einsum("bij,bjk->bik", batch, batch).sum() * 0.1
        + jnp.einsum("bij,jk,bk->", batch, X[:3], a)
        + jnp.einsum("ij,ij->i", a, b)[1]
        + jnp.tensordot(jnp.stack([X, X**2]), a, axes=([2], [1])).max()
        + jnp.einsum("bij,bj->bi", X.reshape(3, 3, 3), a).sum() ** 2
        + (jnp.kron(z[:2], z[2:4]) ** 2).sum()
    )


def elementary(z):
    p, u = jnp.exp(0.3 * z), jnp.tanh(0.4 * z)
    return (
        (jnp.sqrt(p) + jnp.cbrt(p) + lax.rsqrt(p) + jnp.abs(z) + 1 / p + p**1.7 + p**-3 + z**5 + 2.0**z + p**z).sum()
        + (jnp.sin(z) * jnp.cos(z) + jnp.tan(0.3 * z) + jnp.arcsin(u) * jnp.arccos(u) + jnp.arctan(z)).sum()
        + (jnp.sinh(0.5 * z) + jnp.cosh(z) + jnp.arcsinh(z) + jnp.arctanh(u) + jnp.arccosh(1 + p)).sum()
        + (jnp.arctan2(z, Y) + jnp.arctan2(Y, z) + jnp.exp2(z) + jnp.log2(p) + jnp.log10(p) + jnp.expm1(z)).sum()
        + (jnp.log1p(p) + special.expit(z) + jax.nn.softplus(z) + jax.nn.log_sigmoid(z) + jnp.logaddexp(z, Y)).sum()
        + jnp.logaddexp(z[:4], -jnp.inf).sum()
        + (z ** np.arange(9)).sum()
    )


def special_functions(z):
    p = jnp.exp(0.3 * z)
    return (
        (special.gammaln(p) + special.digamma(p) + special.erf(z) + special.erfc(z)).sum()
        + special.polygamma(1, p).sum()
        + special.betaln(p[:3], p[3:6]).sum()
        + stats.norm.logcdf(z).sum()
        + special.xlogy(COUNTS, p).sum()
        + special.xlog1py(COUNTS, p).sum()
        + special.logit(special.expit(z)).sum()
        + jax.nn.log_softmax(z)[2]
        + (jax.nn.softmax(z) ** 2).sum()
        + jax.nn.gelu(z, approximate=False).sum()
    )


def compared(z):
    positive = z > 0
    mixed = jnp.where(positive & (z < 1) | (z == 2), z**2, jnp.where(~positive ^ (z >= -1), jnp.exp(z), -z))
    signs = jnp.sign(z) * z + jnp.floor(z) * z + jnp.ceil(z) * z
    count = positive.sum() + (z != 0).astype(int).sum() + (z <= 0.5).astype(jnp.float64) @ z
    clipped = jnp.clip(z, -0.5, 0.7) + lax.clamp(-0.3, z, 0.4) + jnp.maximum(z, Y) * jnp.minimum(z, 0.2)
    chosen = jnp.select([z < -1, z < 0.5], [z, z**2], jnp.cos(z))
    turned = (z + np.pi) % (2 * np.pi) + lax.rem(z, 0.7)
    finite = jnp.where(jnp.isfinite(jnp.exp(z)) & ~jnp.isnan(z), z, 0.0)
    return (mixed + signs + clipped + chosen + turned + finite).sum() + count + jax.nn.relu(z).sum() + jax.nn.elu(z).sum()


def supported(z):
    """Terms that are −∞ outside of their support."""
    bounded = jnp.where((z[:3] > -9) & (z[:3] < 9), stats.norm.logpdf(z[:3], 0.3, 1.1), -jnp.inf)
    shared = jnp.where(z[3] < 9, z[3] ** 2, -jnp.inf)
    return bounded.sum() - jnp.where(z[4] > -9, z[4] ** 2, -jnp.inf) + shared + jnp.exp(shared) + jnp.where(z[5] < 9, -1.0, -jnp.inf)


def cross_entropy(z):
    logits = X @ z[:3]
    return -(jnp.clip(logits, 0) + jnp.log1p(jnp.exp(-jnp.abs(logits))) - (Y > 0) * logits).sum()


def guarded(z):
    """The other side of a `where` has no gradient."""
    safe = jnp.where(z > 0, z, 1.0)
    return jnp.where(z > 0, jnp.log(safe), -jnp.sqrt(jnp.where(z > 0, 1.0, -z + 0.1))).sum()


def stopped(z):
    return (lax.stop_gradient(z) * z).sum() + jax.checkpoint(lambda z: jnp.sin(z).sum())(z)


def empty(z):
    nothing = z[9:]
    return z.sum() ** 2 + nothing.sum() + jnp.concatenate([nothing, z[:2]]).prod() + (jnp.zeros((0, 3)) @ z[:3]).sum()


def mapped(z):
    rows = jax.vmap(lambda x, y: stats.norm.logpdf(y, x @ z[:3], jnp.exp(z[3])))(X, Y)
    return rows.sum() + jax.vmap(lambda a: a @ a)(z.reshape(3, 3)).prod() * 0.1


@jax.custom_jvp
def own(x):
    return jnp.sin(x)


own.defjvp(lambda primals, tangents: (own(*primals), jnp.cos(primals[0]) * tangents[0]))


def custom(z):
    return own(z).sum() + jax.jit(lambda z: z @ z)(z)


def logistic_regression(z):
    logits = X @ z[:3] + z[3]
    return (jnp.where(Y > 0, 1.0, 0.0) * logits - jax.nn.softplus(logits)).sum() - 0.5 * (z**2).sum()


MODELS = [
    gaussian_process,
    upper_and_transposed,
    autoregression,
    hidden_states,
    backwards,
    counted,
    branches,
    scattered,
    gathered,
    moved,
    reduced,
    multiplied,
    elementary,
    special_functions,
    compared,
    supported,
    cross_entropy,
    guarded,
    stopped,
    empty,
    mapped,
    custom,
    logistic_regression,
]


def derivatives(density, z, v):
    """Values, gradients and Hessian-vector products by JAX."""
    with double(True):
        gradient = jax.grad(density)
        product = lambda z, v: jax.jvp(gradient, (z,), (v,))[1]
        both = jax.jit(jax.vmap(lambda z, v: (density(z), gradient(z), product(z, v))))
        return [np.asarray(x) for x in both(z, v)]


@pytest.mark.parametrize("density", MODELS)
def test_derivatives_are_those_of_jax(density):
    z, v = np.random.default_rng(1).normal(size=(2, 7, 9))
    z[0] *= 3
    with double(True):
        lowered, _ = lower(density, 9)
    for ours, theirs in zip(lowered.derivatives(z, v), derivatives(density, z, v)):
        scale = 1 + np.abs(theirs).max()
        assert np.allclose(ours, theirs, rtol=1e-10, atol=1e-11 * scale)


def test_ties_are_shared_as_in_jax():
    """At the origin, where searches begin."""
    density = lambda z: jax.nn.softplus(z).sum() + jnp.maximum(z, 0).sum() + jax.nn.relu(z).sum() + jnp.max(z)
    smooth = lambda z: jax.nn.softplus(z).sum() + jnp.logaddexp(z[0], z[1]) ** 2
    with double(True):
        lowered, _ = lower(density, 3)
        lowered_smooth, _ = lower(smooth, 3)
    z, v = np.zeros((1, 3)), np.ones((1, 3))
    for ours, theirs in zip(lowered.derivatives(z, v)[:2], derivatives(density, z, v)):
        assert np.allclose(ours, theirs, rtol=1e-13)
    for ours, theirs in zip(lowered_smooth.derivatives(z, v), derivatives(smooth, z, v)):
        assert np.allclose(ours, theirs, rtol=1e-13)


def notes(density, dim=2):
    model = mcvi.from_jax(density, dim)
    return model._native().calls_python, " ".join(model.notes)


def test_what_is_not_covered_is_called_and_named():
    assert notes(lambda z: -(z @ z)) == (False, "")
    for density, why in [
        (lambda z: -(jnp.sort(z) ** 2).sum(), "the primitive sort"),
        (lambda z: -lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * z[0]), (0, z[1]))[1] ** 2, "the primitive while"),
        (lambda z: -(z[z[0].astype(int)] ** 2), "depend on the parameters"),
        (lambda z: lax.scan(lambda c, x: (lax.scan(lambda d, y: (d * y + x, None), c, z)[0], None), z[0], z)[0], "a loop within"),
    ]:
        called, said = notes(density)
        assert called and why in said and "calls of JAX" in said


def test_a_derivative_of_its_own_is_not_lost():
    @jax.custom_vjp
    def clipped(x):
        return x**2

    clipped.defvjp(lambda x: (x**2, x), lambda x, ct: (jnp.clip(ct * 2 * x, -1e-3, 1e-3),))
    called, said = notes(lambda z: -clipped(z).sum())
    assert called and "would differ at 8 of 8 points" in said


def test_a_fallback_gives_the_same_posterior():
    native, called = (
        mcvi.fit(mcvi.from_jax(density, 2), chain="none")
        for density in (lambda z: -(z @ z), lambda z: -(jnp.sort(z) ** 2).sum())
    )
    assert not native.notes and "the primitive sort" in called.notes[0] and "the primitive sort" in str(called)
    assert abs(native.log_evidence.value - np.log(np.pi)) < 1e-6 and abs(called.log_evidence.value - np.log(np.pi)) < 1e-6


def test_single_precision_is_not_followed():
    """Somewhere PyMC rounds to single precision; the engine does not."""
    called, said = notes(lambda z: -(z.astype(jnp.float32) ** 2).sum())
    assert not called and not said

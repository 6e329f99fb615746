"""Log densities of JAX, of a batch or of a point."""

import pickle

import mcvi
import numpy as np
import pytest

jax = pytest.importorskip("jax")
import jax.numpy as jnp


def banana(z):
    return -0.5 * (z[:, 0] ** 2 + (z[:, 1] - z[:, 0] ** 2 / 2) ** 2)


def banana_at(z):
    return -0.5 * (z[0] ** 2 + (z[1] - z[0] ** 2 / 2) ** 2)


def test_derivatives_are_right():
    model = mcvi.from_jax(banana, dim=2)
    rng = np.random.default_rng(1)
    z, v = rng.normal(size=(2, 37, 2))
    values, gradients = model.values_and_gradients(z)
    apart = z[:, 1] - z[:, 0] ** 2 / 2
    assert np.allclose(values, model.values(z), rtol=1e-14) and values.dtype == np.float64
    assert np.allclose(gradients, np.stack([-z[:, 0] + apart * z[:, 0], -apart], 1), rtol=1e-12)
    products = np.stack([(-1 + z[:, 1] - 1.5 * z[:, 0] ** 2) * v[:, 0] + z[:, 0] * v[:, 1], z[:, 0] * v[:, 0] - v[:, 1]], 1)
    assert np.allclose(model.hessian_vectors(z, v), products, rtol=1e-10)
    # The precision of the program around stays as it was.
    assert jnp.ones(1).dtype == jnp.float32


def test_functions_of_a_batch_and_of_a_point_are_the_same_model():
    posts = [mcvi.fit(mcvi.from_jax(f, dim=2), chain="none", iterations=100) for f in (banana, banana_at)]
    assert np.allclose(posts[0].draws()["z"], posts[1].draws()["z"])


def test_a_fit_is_that_of_the_same_density_elsewhere():
    post = mcvi.fit(mcvi.from_jax(banana, dim=2), iterations=400)
    native = mcvi.fit("banana", iterations=400)
    assert abs(post.log_evidence.value - np.log(2 * np.pi) - native.log_evidence.value) < 0.02


def test_rows_are_filled_up_to_few_sizes():
    from mcvi.models.jax import SIZES, batched

    seen = set()

    def traced(z):
        seen.add(len(z))
        return banana(z)

    compiled = jax.jit(traced)
    for count in (1, 3, 63, 65, 300, 2 * SIZES[-1] + 5):
        z = np.random.default_rng(1).normal(size=(count, 2))
        assert np.allclose(batched(compiled, z), banana(z))
    assert seen == {1, 4, 64, 256, 1024, SIZES[-1]}


def test_shapes_that_make_no_sense_are_named():
    with pytest.raises(mcvi.UsageError, match=r"must be \[rows\]"):
        mcvi.from_jax(lambda z: z, dim=2)
    for dim in (0, "2", 2.5):
        with pytest.raises(mcvi.UsageError, match="dim: a whole number"):
            mcvi.from_jax(banana, dim=dim)
    with pytest.raises(mcvi.UsageError, match="floating-point numbers, not int64"):
        mcvi.from_jax(lambda z: z.astype(int).sum(), dim=2)


def test_models_and_posteriors_can_be_pickled():
    post = mcvi.fit(mcvi.from_jax(banana, dim=2), chain="none", iterations=10)
    again = pickle.loads(pickle.dumps(post))
    assert np.array_equal(again.draws(100)["z"], post.draws(100)["z"])

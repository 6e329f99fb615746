"""Log densities of PyTorch."""

import mcvi
import numpy as np
import pytest

torch = pytest.importorskip("torch")


def test_derivatives_are_right_and_a_fit_is_exact():
    def banana(z):
        return -0.5 * (z[:, 0] ** 2 + (z[:, 1] - z[:, 0] ** 2 / 2) ** 2)

    model = mcvi.from_torch(banana, dim=2)
    rng = np.random.default_rng(1)
    z, v = rng.normal(size=(2, 21, 2))
    exact = np.stack([(-1 + z[:, 1] - 1.5 * z[:, 0] ** 2) * v[:, 0] + z[:, 0] * v[:, 1], z[:, 0] * v[:, 0] - v[:, 1]], 1)
    assert np.allclose(model.hessian_vectors(z, v), exact, rtol=1e-10)
    post = mcvi.fit(model, iterations=400)
    assert abs(post.log_evidence.value - np.log(2 * np.pi)) < 0.05


def test_a_linear_density_has_no_curvature():
    model = mcvi.from_torch(lambda z: z.sum(1), dim=2)
    assert (model.hessian_vectors(np.ones((3, 2)), np.ones((3, 2))) == 0).all()
    with pytest.raises(mcvi.UsageError, match=r"must be \[3\]"):
        mcvi.from_torch(lambda z: z, dim=2).values(np.ones((3, 2)))


def test_what_has_no_gradient_is_named():
    for density, why in [(lambda z: 1.0, "must be a tensor, not float"), (lambda z: z.detach().sum(1), "has no gradient")]:
        with pytest.raises(mcvi.UsageError, match=why):
            mcvi.fit(mcvi.from_torch(density, dim=2))

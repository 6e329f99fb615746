"""Models of PyMC: names, dims, coords, predictions."""

import os

import mcvi
import numpy as np
import pytest
from conftest import EFFECTS, ERRORS

pm = pytest.importorskip("pymc")
pytest.importorskip("jax")


@pytest.fixture(scope="module")
def model():
    with pm.Model(coords={"school": list("ABCDEFGH")}) as schools:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        eta = pm.Normal("eta", 0, 1, dims="school")
        theta = pm.Deterministic("theta", mu + tau * eta, dims="school")
        pm.Normal("y", theta, np.array(ERRORS), observed=EFFECTS, dims="school")
    before = os.environ.get("XLA_FLAGS")
    adapted = mcvi.from_pymc(schools)
    assert os.environ.get("XLA_FLAGS") == before
    return adapted


def test_the_density_is_pymcs(model):
    logp = model._model.compile_logp()
    for z in np.random.default_rng(1).normal(size=(3, 10)):
        point = {"mu": z[0], "tau_log__": z[1], "eta": z[2:]}
        assert np.isclose(model.log_density(z)[0], logp(point), rtol=1e-12)


def test_quantities_have_names_dims_and_predictions(model):
    z = np.random.default_rng(1).normal(size=(2000, 10))
    found = model._quantities(z, 3)
    theta = z[:, :1] + np.exp(z[:, 1:2]) * z[:, 2:]
    assert np.allclose(found["generated"]["theta"], theta) and np.allclose(found["parameters"]["tau"], np.exp(z[:, 1]))
    sigma, y = np.array(ERRORS), np.array(EFFECTS)
    assert np.allclose(found["log_likelihood"]["y"], -0.5 * ((y - theta) / sigma) ** 2 - np.log(sigma * np.sqrt(2 * np.pi)))
    noise = (found["predictive"]["y"] - theta) / sigma
    assert np.abs(noise.mean(0)).max() < 0.12 and np.abs(noise.std(0) - 1).max() < 0.1


def test_a_fit_keeps_dims_and_coords(model):
    pytest.importorskip("xarray")
    data = mcvi.fit(model, iterations=100, chain="none").to_arviz()
    assert data["posterior"]["theta"].dims == ("chain", "draw", "school")
    assert list(data["posterior"]["school"].values) == list("ABCDEFGH")
    assert "eta" in data["prior"] and data["posterior_predictive"]["y"].dims[-1] == "school"


def test_what_cannot_be_inferred_is_named():
    with pm.Model() as discrete:
        pm.Poisson("k", 3)
    with pytest.raises(mcvi.UsageError, match="discrete variables"):
        mcvi.from_pymc(discrete)
    with pytest.raises(mcvi.UsageError, match="no free variables"):
        mcvi.from_pymc(pm.Model())


def test_the_engine_computes_the_density(model, schools):
    """The same posterior as that of the program in Stan, whose prior of tau is not divided by its mass above zero."""
    assert not model._native().calls_python and not model.notes
    post, stan = mcvi.fit(model), mcvi.fit(*schools)
    assert post.verdict.is_good
    difference = post.log_evidence.value - stan.log_evidence.value - np.log(2)
    assert abs(difference) < 4 * np.hypot(post.log_evidence.se, stan.log_evidence.se)
    ours, theirs = post.draws(4000), stan.draws(4000)
    for name in ("mu", "eta", "theta"):
        spread = theirs[name].std(0)
        assert (np.abs(ours[name].mean(0) - theirs[name].mean(0)) < 0.1 * spread).all(), name


def test_single_precision_within_a_graph_is_not_followed():
    """The densities of covariances have a part that PyMC rounds to single precision."""
    x = np.random.default_rng(1).normal(size=(20, 3))
    with pm.Model() as correlated:
        factor, _, _ = pm.LKJCholeskyCov("factor", n=3, eta=2, sd_dist=pm.Exponential.dist(1.0))
        pm.MvNormal("x", np.zeros(3), chol=factor, observed=x)
    adapted = mcvi.from_pymc(correlated)
    assert not adapted._native().calls_python, adapted.notes

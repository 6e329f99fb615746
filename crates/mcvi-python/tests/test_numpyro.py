"""Models of NumPyro: names, constraints, plates, predictions."""

import mcvi
import numpy as np
import pytest
from conftest import EFFECTS, ERRORS, SCHOOLS

numpyro = pytest.importorskip("numpyro")
import jax.numpy as jnp
import numpyro.distributions as dist


def schools(sigma, y=None):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("school", len(sigma)):
        eta = numpyro.sample("eta", dist.Normal(0, 1))
        theta = numpyro.deterministic("theta", mu + tau * eta)
        numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


@pytest.fixture(scope="module")
def model():
    names = [f"school {letter}" for letter in "ABCDEFGH"]
    return mcvi.from_numpyro(schools, np.array(ERRORS), y=np.array(EFFECTS), coords={"school": names})


def test_the_density_is_that_of_the_same_model_in_stan(model):
    from mcvi._fit import open_model

    stan = open_model(SCHOOLS, {"J": 8, "y": EFFECTS, "sigma": ERRORS})
    z = np.random.default_rng(1).normal(size=(20, 10))
    # Stan's prior of tau is a Cauchy that is not divided by its mass above zero.
    assert np.allclose(model.log_density(z), stan.log_density(z) + np.log(2), rtol=1e-12)


def test_quantities_have_names_and_shapes(model):
    z = np.random.default_rng(1).normal(size=(2500, 10))
    found = model._quantities(z, 3)
    assert {name: value.shape[1:] for name, value in found["parameters"].items()} == {"mu": (), "tau": (), "eta": (8,)}
    assert np.allclose(found["parameters"]["tau"], np.exp(z[:, 1]))
    theta = z[:, :1] + np.exp(z[:, 1:2]) * z[:, 2:]
    assert np.allclose(found["generated"]["theta"], theta)
    sigma, y = np.array(ERRORS), np.array(EFFECTS)
    exact = -0.5 * ((y - theta) / sigma) ** 2 - np.log(sigma * np.sqrt(2 * np.pi))
    assert np.allclose(found["log_likelihood"]["y"], exact)
    noise = (found["predictive"]["y"] - theta) / sigma
    assert np.abs(noise.mean(0)).max() < 5 / 50 and np.abs(noise.std(0) - 1).max() < 0.1
    assert np.array_equal(model._quantities(z[:50], 3)["predictive"]["y"], model._quantities(z[:50], 3)["predictive"]["y"])


def test_a_fit_keeps_plates_and_labels(model, tmp_path):
    pytest.importorskip("xarray")
    post = mcvi.fit(model, iterations=200)
    # The same density with the same noise, computed elsewhere.
    native = mcvi.fit("eight-schools", iterations=200).result["parameters"]
    for name, row in post.result["parameters"].items():
        assert abs(row["q50"] - native[name]["q50"]) < 0.05 * (native[name]["q95"] - native[name]["q05"]), name
    data = post.to_arviz()
    assert data["posterior"]["theta"].dims == ("chain", "draw", "school")
    assert list(data["posterior"]["school"].values[:2]) == ["school A", "school B"]
    assert data["observed_data"]["y"].dims == ("school",) and data["prior"]["eta"].dims[-1] == "school"
    post.save(tmp_path / "run")
    assert mcvi.load(tmp_path / "run", model).to_arviz()["posterior"]["theta"].dims == ("chain", "draw", "school")


def test_constraints_are_kept():
    def constrained(x):
        weights = numpyro.sample("weights", dist.Dirichlet(jnp.ones(3)))
        corr = numpyro.sample("corr", dist.LKJCholesky(2, 1.0))
        lower = numpyro.sample("lower", dist.Uniform(2.0, 5.0))
        numpyro.sample("x", dist.Normal(lower + weights[0] + corr[1, 0], 1.0).expand([2]).to_event(1), obs=x)

    model = mcvi.from_numpyro(constrained, np.array([3.0, 4.0]))
    assert model.dim == 2 + 1 + 1
    found = model._quantities(np.random.default_rng(1).normal(size=(100, 4)), 1)
    parameters = found["parameters"]
    assert np.allclose(parameters["weights"].sum(1), 1) and (parameters["weights"] > 0).all()
    assert np.allclose((parameters["corr"] ** 2).sum(2), 1)
    assert ((parameters["lower"] > 2) & (parameters["lower"] < 5)).all()
    assert found["predictive"]["x"].shape == (100, 2)
    post = mcvi.fit(model, iterations=200)
    assert "corr[2,1]" in post.result["parameters"]


def test_what_cannot_be_inferred_is_named():
    def discrete():
        numpyro.sample("k", dist.Bernoulli(0.5))

    with pytest.raises(mcvi.UsageError, match="the site k is discrete"):
        mcvi.from_numpyro(discrete)
    with pytest.raises(mcvi.UsageError, match="no latent sites"):
        mcvi.from_numpyro(lambda: None)


def test_single_precision_elsewhere_is_not_disturbed(model):
    import jax
    from numpyro.infer.util import log_density

    sigma, y = np.array(ERRORS), np.array(EFFECTS)
    mcvi.from_numpyro(schools, sigma, y=y).log_density(np.zeros(10))
    point = {"mu": jnp.array(0.0), "tau": jnp.array(1.0), "eta": jnp.zeros(8)}
    single = jax.jit(lambda p: log_density(schools, (sigma,), {"y": y}, p)[0])(point)
    assert single.dtype == jnp.float32 and np.isfinite(float(single))


def test_the_engine_computes_the_density_and_finds_what_nuts_does(model):
    import jax
    from numpyro.infer import MCMC, NUTS

    assert not model._native().calls_python and not model.notes
    post = mcvi.fit(model)
    assert post.verdict.is_good
    stan = mcvi.fit(SCHOOLS, {"J": 8, "y": EFFECTS, "sigma": ERRORS})
    difference = post.log_evidence.value - stan.log_evidence.value - np.log(2)
    assert abs(difference) < 4 * np.hypot(post.log_evidence.se, stan.log_evidence.se)
    mcmc = MCMC(NUTS(schools, target_accept_prob=0.95), num_warmup=1000, num_samples=4000, progress_bar=False)
    mcmc.run(jax.random.PRNGKey(1), np.array(ERRORS), y=np.array(EFFECTS))
    ours, theirs = post.draws(4000), mcmc.get_samples()
    for name in ("mu", "eta", "theta"):
        spread = theirs[name].std(0)
        # 4000 independent draws and at least 1000 effective ones: a standard error of 0.035 standard deviations.
        assert (np.abs(ours[name].mean(0) - theirs[name].mean(0)) < 0.14 * spread).all(), name
        assert (np.abs(ours[name].std(0) - spread) < 0.12 * spread).all(), name


def test_sites_of_many_kinds_are_computed_by_the_engine():
    rng = np.random.default_rng(3)
    x, y, group = rng.normal(size=(30, 3)), rng.normal(size=30), rng.integers(0, 5, 30)

    def correlated():
        scale = numpyro.sample("scale", dist.HalfNormal(1).expand([3]).to_event(1))
        factor = numpyro.sample("factor", dist.LKJCholesky(3, 2.0))
        with numpyro.plate("groups", 5):
            effect = numpyro.sample("effect", dist.MultivariateNormal(jnp.zeros(3), scale_tril=scale[:, None] * factor))
        numpyro.sample("y", dist.Normal((effect[group] * x).sum(-1), 1.0), obs=y)

    def mixture():
        weights = numpyro.sample("weights", dist.Dirichlet(jnp.ones(3)))
        mean = numpyro.sample("mean", dist.Normal(0, 3).expand([3]).to_event(1))
        numpyro.sample("y", dist.MixtureSameFamily(dist.Categorical(weights), dist.Normal(mean, 1.0)), obs=y)

    def in_time():
        slope = numpyro.sample("slope", dist.Uniform(-1, 1))

        def step(last, now):
            state = numpyro.sample("state", dist.Normal(slope * last, 0.3))
            numpyro.sample("y", dist.Normal(state, 1.0), obs=now)
            return state, None

        numpyro.contrib.control_flow.scan(step, 0.0, jnp.array(y))

    def counts():
        rate = numpyro.sample("rate", dist.Gamma(2, 1))
        numpyro.sample("y", dist.NegativeBinomial2(jnp.exp(x[:, 0]), rate), obs=np.abs(y).round().astype(int))

    def improper():
        scale = numpyro.sample("scale", dist.ImproperUniform(dist.constraints.positive, (), ()))
        numpyro.sample("y", dist.Normal(0, scale), obs=y)

    import numpyro.contrib.control_flow

    for model in (correlated, mixture, in_time, counts, improper):
        adapted = mcvi.from_numpyro(model)
        assert not adapted._native().calls_python, adapted.notes


def test_columns_of_frames_are_arrays():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"sigma": ERRORS, "y": EFFECTS})
    adapted = mcvi.from_numpyro(schools, frame.sigma, y=frame.y)
    z = np.random.default_rng(1).normal(size=(3, 10))
    arrays = mcvi.from_numpyro(schools, np.array(ERRORS), y=np.array(EFFECTS))
    assert np.array_equal(adapted.log_density(z), arrays.log_density(z))


def test_subsampled_plates_are_refused():
    def subsampled():
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        with numpyro.plate("rows", 30, subsample_size=10):
            numpyro.sample("y", dist.Normal(mean, 1), obs=numpyro.subsample(jnp.arange(30.0), 0))

    with pytest.raises(mcvi.UsageError, match="the plate rows is subsampled"):
        mcvi.from_numpyro(subsampled)

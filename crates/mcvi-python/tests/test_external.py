"""Any log density with derivatives, or without second ones."""

import pickle
import threading

import mcvi
import numpy as np
import pytest

PRECISION = np.array([[2.0, 0.8], [0.8, 1.5]])
LOG_Z = np.log(2 * np.pi) - 0.5 * np.log(np.linalg.det(PRECISION))


def value(z):
    return -0.5 * np.einsum("ri,ij,rj->r", z, PRECISION, z)


def gradient(z):
    return -z @ PRECISION


def product(z, v):
    return -v @ PRECISION


def banana_value(z):
    return -0.5 * (z[:, 0] ** 2 + (z[:, 1] - z[:, 0] ** 2 / 2) ** 2)


def banana_gradient(z):
    apart = z[:, 1] - z[:, 0] ** 2 / 2
    return np.stack([-z[:, 0] + apart * z[:, 0], -apart], axis=1)


def test_a_gaussian_is_exact():
    post = mcvi.fit(mcvi.external(value, gradient, product, dim=2))
    assert post.verdict.is_good and abs(post.log_evidence.value - LOG_Z) < 0.01
    assert np.allclose(np.cov(post.draws(20000)["z"].T), np.linalg.inv(PRECISION), atol=0.05)
    assert post.result["model"] == "external"


def test_without_second_derivatives_a_chain_is_trained_and_says_so():
    model = mcvi.external(banana_value, banana_gradient, dim=2, name="banana")
    assert "differences" in model.notes[0]
    post = mcvi.fit(model)
    assert post.verdict.is_good and abs(post.log_evidence.value - np.log(2 * np.pi)) < 0.05
    for shown in (post.report().html, str(post), post._repr_html_()):
        assert "differences of its gradients" in shown
    assert len(post.attempts) > 1


def test_differences_are_products():
    rng = np.random.default_rng(1)
    z, v = rng.normal(size=(2, 50, 2)) * 3
    v[0] = 0
    model = mcvi.external(banana_value, banana_gradient, dim=2)
    exact = np.stack([(-1 + z[:, 1] - 1.5 * z[:, 0] ** 2) * v[:, 0] + z[:, 0] * v[:, 1], z[:, 0] * v[:, 0] - v[:, 1]], 1)
    assert np.allclose(model.hessian_vectors(z, v), exact, rtol=1e-7, atol=1e-7)


def test_log_densities_can_be_looked_at():
    z = np.array([[0.0, 0.0], [1.0, -1.0]])
    assert np.allclose(mcvi.external(value, gradient, product, dim=2).log_density(z), value(z))


def test_saved_fits_need_their_model_again(tmp_path, command):
    model = mcvi.external(value, gradient, product, dim=2)
    post = mcvi.fit(model, iterations=10)
    post.save(tmp_path / "run")
    again = mcvi.load(tmp_path / "run", model)
    assert np.array_equal(again.draws(50)["z"], post.draws(50)["z"])
    assert np.array_equal(again.draws()["z"], post.draws()["z"])
    with pytest.raises(mcvi.UsageError, match="mcvi.load"):
        mcvi.load(tmp_path / "run")
    assert "mcvi.load" in command("draw", tmp_path / "run", code=2).stderr
    with pytest.raises(mcvi.UsageError, match="another model"):
        mcvi.load(tmp_path / "run", mcvi.external(lambda z: 2 * value(z), lambda z: 2 * gradient(z), dim=2))


def test_posteriors_can_be_pickled():
    for post in (mcvi.fit("banana", chain="none"), mcvi.fit(mcvi.external(value, gradient, product, dim=2))):
        again = pickle.loads(pickle.dumps(post))
        assert again.result == post.result and again.verdict == post.verdict
        for name, values in post.draws(20).items():
            assert np.array_equal(values, again.draws(20)[name])
        twice = pickle.loads(pickle.dumps(again))
        assert twice.result == post.result


def test_fits_run_beside_each_other():
    model = mcvi.external(banana_value, banana_gradient, dim=2)
    alone = [mcvi.fit("eight-schools").result, mcvi.fit(model).result]
    together = [None] * 4

    def fit(i):
        together[i] = mcvi.fit("eight-schools" if i % 2 == 0 else model).result

    threads = [threading.Thread(target=fit, args=(i,)) for i in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    for i, result in enumerate(together):
        assert result["parameters"] == alone[i % 2]["parameters"]


def test_the_interpreter_is_free_while_a_fit_computes():
    done, ticks = threading.Event(), []

    def fit():
        mcvi.fit("funnel", iterations=1500)
        done.set()

    thread = threading.Thread(target=fit)
    thread.start()
    while not done.wait(0.01):
        ticks.append(1)
    thread.join()
    assert len(ticks) > 10

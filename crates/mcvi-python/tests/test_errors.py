"""Mistakes are exceptions, in the words of the command, and nothing is left behind."""

import mcvi
import numpy as np
import pytest


def words(command, *arguments):
    return command(*arguments, code=2).stderr.removeprefix("mcvi: ").strip()


def test_the_words_are_the_commands(command, tmp_path):
    missing = tmp_path / "none.stan"
    cases = [
        (lambda: mcvi.fit("eight-school"), ["eight-school"]),
        (lambda: mcvi.fit(missing), [missing]),
        (lambda: mcvi.fit("banana", rate=-1), ["banana", "--rate=-1"]),
        (lambda: mcvi.fit("banana", chain="none", steps=3), ["banana", "--chain", "none", "--steps", "3"]),
        (lambda: mcvi.fit("banana", device="tpu"), ["banana", "--device=tpu"]),
        (lambda: mcvi.fit("banana", leapfrogs=0), ["banana", "--leapfrogs=0"]),
    ]
    for fit, arguments in cases:
        with pytest.raises(mcvi.UsageError) as raised:
            fit()
        said = words(command, "fit", *arguments).removeprefix("error: ")
        assert str(raised.value).split("\n")[0] == said.split("\n")[0]
        assert isinstance(raised.value, ValueError) and isinstance(raised.value, mcvi.Error)


def test_programs_show_the_place():
    with pytest.raises(mcvi.UsageError, match="model.stan:1"):
        mcvi.fit("parameters { real mu } model {}")
    with pytest.raises(mcvi.UsageError, match="data item y"):
        mcvi.fit("data { real y; } parameters { real mu; } model { mu ~ normal(y, 1); }", {"y": [1.0, 2.0]})
    with pytest.raises(mcvi.UsageError, match="data item y must be of numbers"):
        mcvi.fit("data { real y; } parameters { real mu; } model { mu ~ normal(y, 1); }", {"y": "one"})


def test_folders_are_not_written_over(tmp_path):
    post = mcvi.fit("banana", chain="none", starts=1)
    post.save(tmp_path / "run")
    with pytest.raises(mcvi.UsageError, match="exists and is not empty"):
        post.save(tmp_path / "run")
    with pytest.raises(mcvi.UsageError, match="is not the folder of a fit"):
        mcvi.load(tmp_path)


def test_arguments_of_the_wrong_kind_are_named():
    with pytest.raises(mcvi.UsageError, match="a model is a name"):
        mcvi.fit(3)
    with pytest.raises(mcvi.UsageError, match="at least one is needed"):
        mcvi.fit("banana", chain="none", starts=1).draws(0)


def test_what_a_function_raises_is_raised():
    def broken(z):
        raise ZeroDivisionError("nothing to divide by")

    with pytest.raises(ZeroDivisionError, match="nothing to divide by"):
        mcvi.fit(mcvi.external(broken, lambda z: -z, dim=2))
    with pytest.raises(ValueError, match=r"the values of external have the shape \[\d+, 2\]"):
        mcvi.fit(mcvi.external(lambda z: -0.5 * z**2, lambda z: -z, dim=2))
    with pytest.raises(mcvi.UsageError, match="dim"):
        mcvi.external(np.sum, np.sum, dim=0)


def test_missing_libraries_are_named(monkeypatch):
    monkeypatch.setattr("mcvi.models.find_spec", lambda name: None)
    with pytest.raises(mcvi.UsageError, match="this needs torch: pip install torch"):
        mcvi.from_torch(lambda z: z, dim=1)
    with pytest.raises(mcvi.UsageError, match="this needs jax and numpyro: pip install jax numpyro"):
        mcvi.from_numpyro(lambda: None)


def test_missing_generated_quantities_are_warned_of():
    program = """parameters { real x; } model { x ~ std_normal(); }
        generated quantities { real y = normal_rng(x, 1); if (y < 0) reject("y is ", y); }"""
    post = mcvi.fit(program, progress=False)
    with pytest.warns(UserWarning, match="of 4000 draws are missing; line 2: the program rejects: y is"):
        drawn = post.to_arviz().posterior["y"].values
    assert 0.4 < np.isnan(drawn).mean() < 0.6

"""Regressions from frames: the same as the command's from files."""

import mcvi
import numpy as np
import pytest

QUICK = {"chain": "none", "starts": 1}


@pytest.fixture
def table():
    rng = np.random.default_rng(1)
    x, group = rng.normal(size=60), rng.choice(["a", "b", "c"], 60)
    y = 1.0 + 0.5 * x + (group == "b") + rng.normal(size=60)
    return {"x": x, "group": group, "passed": (y > 1).astype(int), "y": y}


def test_a_frame_is_a_file(table, tmp_path, command):
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    frame = pandas.DataFrame(table)
    frame.to_csv(tmp_path / "t.csv", index=False)
    post = mcvi.fit(mcvi.regression("y ~ x + group", frame), **QUICK)
    exact = post.result["parameters"]
    for other in (polars.DataFrame(table), table, frame.astype({"group": "category"})):
        assert mcvi.fit("y ~ x + group", other, **QUICK).result["parameters"] == exact
    command("fit", "y ~ x + group", "--data", tmp_path / "t.csv", "--chain", "none", "--starts", 1, "--out", tmp_path / "run")
    assert mcvi.load(tmp_path / "run").result["parameters"] == exact
    assert mcvi.fit("y ~ x + group", tmp_path / "t.csv", **QUICK).result["parameters"] == exact
    post.save(tmp_path / "saved")
    assert mcvi.load(tmp_path / "saved").draws(10)["sigma"].shape == (10,)


def test_short_names_and_families(table):
    columns = {name: table[name] for name in ("x", "group", "passed")}
    short = mcvi.fit(mcvi.logistic(columns, target="passed"), **QUICK)
    assert short.model == mcvi.fit(mcvi.regression("passed ~ .", columns, family="bernoulli"), **QUICK).model
    assert any("x" in name for name in short.result["parameters"])
    for make, target in ((mcvi.linear, "y"), (mcvi.poisson, "passed")):
        assert mcvi.fit(make({name: table[name] for name in ("x", target)}, target=target), **QUICK).draws(5)


def test_new_rows_are_predicted(table):
    post = mcvi.fit("y ~ x + group", table, **QUICK)
    found = post.predict({"x": [0.0, 1.0], "group": ["a", "b"]})
    assert found["mean"].shape == (4000, 2) == found["drawn"].shape
    assert abs((found["mean"][:, 1] - found["mean"][:, 0]).mean() - 1.5) < 0.8


def test_what_is_missing_is_named(table):
    table["x"][3] = np.nan
    with pytest.raises(mcvi.UsageError, match="x"):
        mcvi.regression("y ~ x", table)
    assert mcvi.fit(mcvi.regression("y ~ x", table, missing="drop"), **QUICK).draws(3)
    with pytest.raises(mcvi.UsageError, match="refuse or drop"):
        mcvi.regression("y ~ x", table, missing="guess")
    with pytest.raises(mcvi.UsageError):
        mcvi.regression("y ~ nothing", table)
    with pytest.raises(mcvi.UsageError, match="only regressions"):
        mcvi.fit("banana", **QUICK).predict({"x": [1.0]})

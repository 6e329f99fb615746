"""Results in ArviZ: what it summarises, compares and plots."""

import mcvi
import numpy as np
import pytest

xarray = pytest.importorskip("xarray")


@pytest.fixture(scope="module")
def post():
    return mcvi.fit("eight-schools")


def test_all_groups_are_there(post, tmp_path):
    tree = post.to_arviz()
    names = set(getattr(tree, "children", None) or tree.groups())
    expected = {"posterior", "sample_stats", "log_likelihood", "posterior_predictive", "observed_data", "prior"}
    assert expected <= names
    assert tree["posterior"]["theta"].sizes == {"chain": 4, "draw": 1000, "theta_dim_0": 8}
    assert np.allclose(tree["posterior"]["mu"].values.ravel(), post.draws()["mu"])
    assert "log_weight" in tree["sample_stats"] and tree["posterior"].attrs["verdict"] == "good"
    post.save(tmp_path / "run")
    again = mcvi.load(tmp_path / "run").to_arviz()
    for group in names:
        for name in tree[group].data_vars:
            assert again[group][name].dims == tree[group][name].dims
            assert np.array_equal(again[group][name].values, tree[group][name].values), name


def test_a_tree_needs_only_xarray(post):
    from mcvi import _arviz

    trees = xarray.DataTree.from_dict({g.name: _arviz.dataset(g) for g in post._groups()})
    assert trees["posterior/theta"].shape == (4, 1000, 8)


def test_arviz_reads_it(post):
    arviz = pytest.importorskip("arviz")
    pytest.importorskip("matplotlib").use("Agg")
    data = post.to_arviz()
    table = arviz.summary(data, var_names=["mu", "tau"])
    assert abs(float(table.loc["mu", "mean"]) - post.result["parameters"]["mu"]["mean"]) < 0.3
    assert float(table["r_hat"].max()) < 1.02
    loo = arviz.loo(data)
    elpd = loo.elpd_loo if hasattr(loo, "elpd_loo") else loo.elpd
    assert abs(elpd + 30.8) < 0.5
    arviz.plot_forest(data, var_names=["theta"])
    arviz.plot_rank(data, var_names=["mu"])


def test_the_parts_of_arviz_1_read_it(post):
    """The 1.x series is made of these three, which older Pythons can have on their own."""
    stats = pytest.importorskip("arviz_stats")
    from mcvi import _arviz

    tree = xarray.DataTree.from_dict({group.name: _arviz.dataset(group) for group in post._groups()})
    table = stats.summary(tree, var_names=["mu"])
    assert abs(float(table.loc["mu", "mean"]) - post.result["parameters"]["mu"]["mean"]) < 0.3
    assert abs(stats.loo(tree).elpd + 30.8) < 0.5
    plots = pytest.importorskip("arviz_plots")
    plots.plot_forest(tree, var_names=["theta"], backend="none")
    plots.plot_rank(tree, var_names=["mu"], backend="none")

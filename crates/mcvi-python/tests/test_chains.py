"""Chains as values, and the paper's examples."""

import pickle

import mcvi
import numpy as np
import pytest


def test_chains_are_values():
    chain = mcvi.Chain(initial="full", steps=[mcvi.Hamiltonian(leapfrogs=4, inverse="network")])
    assert "4 leapfrogs" in repr(chain)
    assert chain == mcvi.Chain("full", [mcvi.Hamiltonian(4, inverse="network")]) != mcvi.Chain()
    assert pickle.loads(pickle.dumps(chain)) == chain and hash(chain) == hash(pickle.loads(pickle.dumps(chain)))
    annealed = mcvi.Chain(steps=8 * [mcvi.Uha()], annealing="learned", whitened=True)
    assert repr(annealed) == "Chain: 8 UHA steps of 1 leapfrog, annealed at learned temperatures"
    langevin = mcvi.Chain(steps=[mcvi.Transition("langevin", {"inverse": "reversed"})])
    assert mcvi.Chain.from_dict({"steps": [{"transition": {"kind": "langevin", "inverse": "reversed"}}]}) == langevin


def test_a_chain_is_fitted_as_the_command_does(command, tmp_path):
    chain = mcvi.Chain(initial="full", steps=[mcvi.Hamiltonian(leapfrogs=2)])
    (tmp_path / "chain.json").write_text(chain.to_json())
    command("fit", "banana", "--chain", tmp_path / "chain.json", "--iterations", 200, "--out", tmp_path / "run")
    post = mcvi.fit("banana", chain=chain, iterations=200)
    assert post.result["parameters"] == mcvi.load(tmp_path / "run").result["parameters"]


def test_mistakes_are_named():
    with pytest.raises(mcvi.UsageError, match="unknown variant"):
        mcvi.Chain(steps=[mcvi.Transition("wandering")])
    with pytest.raises(mcvi.UsageError, match="a density is one of"):
        mcvi.Chain(steps=[mcvi.Hamiltonian(momentum="curved")])
    with pytest.raises(mcvi.UsageError, match="omit --steps"):
        mcvi.fit("banana", chain=mcvi.Chain(), steps=3)


def test_diagnostics_are_arrays(tmp_path):
    post = mcvi.fit("banana")
    found = post.diagnostics()
    n = len(found["log_weight"])
    assert n >= 10_000 and found["z"].shape == (n, 2) and found["log_p"].shape == (n,)
    assert found["trace"].shape[1] == 3 and (np.diff(found["trace"][:, 0]) > 0).all() and len(found["steps"]) > 0
    assert np.isclose(np.log(np.mean(np.exp(found["log_weight"]))), post.log_evidence.value, atol=0.01)
    pytest.importorskip("matplotlib").use("Agg")
    assert len(post.plot().axes) == 2
    post.save(tmp_path / "run")
    with pytest.raises(mcvi.UsageError, match="has not kept"):
        mcvi.load(tmp_path / "run").diagnostics()


def test_the_papers_example_is_learned():
    found = mcvi.paper.gaussian(sweeps=[1, 2])
    assert [row["sweeps"] for row in found["rows"]] == [1, 2] and abs(found["log_z"] - 3.447315) < 1e-5
    assert all(abs(row["gibbs"]["bound"] - row["gibbs"]["exact"]) < 0.05 for row in found["rows"])
    with pytest.raises(mcvi.UsageError, match="invalid value"):
        mcvi.paper.gaussian(sweeps=[0])

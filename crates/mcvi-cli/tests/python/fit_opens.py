"""Open the store a fit of eight-schools left with ArviZ, and do leave-one-out with it."""

import json
import os
import sys

import arviz as az
import numpy as np
import xarray as xr
import zarr

run = sys.argv[1]
path = os.path.join(run, "arviz.zarr")
print(f"arviz {az.__version__}, xarray {xr.__version__}, zarr {zarr.__version__}")
new = int(az.__version__.split(".")[0]) >= 1
if new or int(zarr.__version__.split(".")[0]) < 3:
    data = az.from_zarr(path)
else:
    # ArviZ 0.x refuses zarr 3 and says to do this.
    data = az.InferenceData.from_datatree(xr.open_datatree(path, engine="zarr"))

groups = {"posterior", "posterior_predictive", "prior", "log_likelihood", "observed_data", "sample_stats"}
present = {name.strip("/") for name in data.groups} if new else set(data.groups())
assert groups <= present, present
assert data["posterior"]["theta"].dims == ("chain", "draw", "theta_dim_0")
assert data["posterior"]["theta"].shape == (4, 175, 8)
assert data["posterior_predictive"]["y"].shape == (4, 175, 8)
assert set(data["prior"].data_vars) >= {"mu", "tau", "eta"}
assert (data["prior"]["tau"].values > 0).all()
assert data["observed_data"]["y"].values.tolist() == [28, 8, -3, 7, -1, 1, 18, 12]
stats = data["sample_stats"]
assert np.allclose(stats["lp"] - stats["log_q"], stats["log_weight"])

# The log likelihoods belong to the draws beside them.
sigma = np.array([15, 10, 16, 11, 9, 11, 10, 18.0])
error = (data["observed_data"]["y"].values - data["posterior"]["theta"].values) / sigma
expected = -0.5 * error**2 - np.log(sigma) - 0.5 * np.log(2 * np.pi)
assert np.allclose(data["log_likelihood"]["y"].values, expected)

with open(os.path.join(run, "summary.json")) as file:
    reported = json.load(file)["parameters"]["mu"]
mu = data["posterior"]["mu"].values
assert abs(mu.mean() - reported["mean"]) < 5 * reported["sd"] / np.sqrt(700), (mu.mean(), reported)

loo = az.loo(data)
value = float(loo.elpd if hasattr(loo, "elpd") else loo.elpd_loo)
print(loo)
# As published for this model.
assert abs(value - -30.8) < 0.5, value
print("opened")

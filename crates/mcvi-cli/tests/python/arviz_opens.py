"""Open a store with ArviZ of either series, the way its version offers, and use it as people do."""

import sys

import arviz as az
import numpy as np
import xarray as xr
import zarr

path = sys.argv[1]
print(f"arviz {az.__version__}, xarray {xr.__version__}, zarr {zarr.__version__}, numpy {np.__version__}")
new = int(az.__version__.split(".")[0]) >= 1
if new or int(zarr.__version__.split(".")[0]) < 3:
    data = az.from_zarr(path)
else:
    # ArviZ 0.x refuses zarr 3 and says to do this.
    data = az.InferenceData.from_datatree(xr.open_datatree(path, engine="zarr"))
tree = xr.open_datatree(path, engine="zarr") if hasattr(xr, "open_datatree") else None

groups = ["posterior", "posterior_predictive", "prior", "log_likelihood", "observed_data", "sample_stats"]
present = [name.strip("/") for name in data.groups] if new else list(data.groups())
assert set(groups) <= set(present), present
if tree is not None:
    assert set(groups) <= set(tree.children), tree

posterior = data["posterior"]
assert dict(posterior.sizes) == {"chain": 1, "draw": 1000, "theta_dim_0": 3}, posterior.sizes
assert posterior["theta"].dims == ("chain", "draw", "theta_dim_0")
assert posterior["theta"].dtype == np.float64
assert set(posterior.coords) == {"chain", "draw", "theta_dim_0"}
assert posterior["draw"].values.tolist() == list(range(1000))
assert posterior.attrs["inference_library"] == "mcvi"
assert np.isfinite(posterior["mu"]).all()
observed = data["observed_data"]["y"]
# Zeros are numbers, not gaps.
assert observed.dtype == np.int64 and observed.values[:4].tolist() == [0, 1, 2, 0], observed
assert np.isnan(data["sample_stats"]["lp"].values[0, 0]) and np.isneginf(data["sample_stats"]["lp"].values[0, 1])

summary = az.summary(data)
assert list(summary.index) == ["mu", "theta[0]", "theta[1]", "theta[2]"], summary
loo = az.loo(data)
print(summary, loo, sep="\n")
value = float(getattr(loo, "elpd", None) if hasattr(loo, "elpd") else loo.elpd_loo)
assert np.isfinite(value), loo
# The log likelihoods are Gaussian around -1: the leave-one-out estimate is near.
assert abs(value - 20 * -1.0) < 1.0, value
print("opened")

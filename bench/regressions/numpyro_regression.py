"""A regression in NumPyro, from the data that `mcvi fit … --show stan-data` gives, on the same standardised scale and with the default
priors; sampled by NUTS. Called by compare.py: numpyro_regression.py DATA.json FAMILY OUT.npz
"""

import json
import os
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS

jax.config.update("jax_enable_x64", True)
COUNTS = ("poisson", "negbinomial", "gamma")


def model(d, family):
    n, y = d["N"], np.asarray(d["y"])
    scaled = family in ("gaussian", "student")
    shift, unit = (y.mean(), y.std(ddof=1)) if scaled else (0.0, 1.0)
    offset = np.asarray(d.get("offset_eta", np.zeros(n)))
    if family in COUNTS:
        shift = np.log(y.sum() / np.exp(offset).sum())
    eta = jnp.zeros(n)
    if family != "cumulative":
        eta = eta + numpyro.sample("intercept_std", dist.Normal(0, 5))
    if "K" in d:
        b = numpyro.sample("beta_std", dist.Normal(0, 2.5).expand([d["K"]]).to_event(1))
        eta = eta + jnp.asarray(d["X"]) @ b
    sigma = numpyro.sample("sigma_std", dist.HalfNormal(1)) * unit if scaled else None
    if family == "student":
        nu = numpyro.sample("nu", dist.ImproperUniform(dist.constraints.greater_than(1.0), (), ()))
        numpyro.factor("prior of nu", dist.Gamma(2, 0.1).log_prob(nu))
    if family == "negbinomial":
        shape = numpyro.sample("shape", dist.InverseGamma(0.4, 0.3))
    if family == "gamma":
        shape = numpyro.sample("shape", dist.Exponential(0.01))
    if family == "beta":
        phi = numpyro.sample("phi", dist.Exponential(0.01))
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
    eta = eta * unit + shift + offset
    if family == "gaussian":
        numpyro.sample("y", dist.Normal(eta, sigma), obs=y)
    elif family == "student":
        numpyro.sample("y", dist.StudentT(nu, eta, sigma), obs=y)
    elif family == "bernoulli":
        numpyro.sample("y", dist.Bernoulli(logits=eta), obs=y)
    elif family == "binomial":
        numpyro.sample("y", dist.Binomial(np.asarray(d["trials"]), logits=eta), obs=y)
    elif family == "poisson":
        numpyro.sample("y", dist.Poisson(jnp.exp(eta)), obs=y)
    elif family == "negbinomial":
        numpyro.sample("y", dist.NegativeBinomial2(jnp.exp(eta), shape), obs=y)
    elif family == "gamma":
        numpyro.sample("y", dist.Gamma(shape, shape * jnp.exp(-eta)), obs=y)
    elif family == "beta":
        p = jax.nn.sigmoid(eta)
        numpyro.sample("y", dist.Beta(p * phi, (1 - p) * phi), obs=y)
    elif family == "cumulative":
        ordered = dist.transforms.OrderedTransform()
        u = numpyro.sample("u", dist.ImproperUniform(dist.constraints.real_vector, (), (y.max() - 1,)))
        cuts = numpyro.deterministic("threshold_std", ordered(u))
        numpyro.factor("prior", dist.Normal(0, 5).log_prob(cuts).sum() + ordered.log_abs_det_jacobian(u, cuts))
        numpyro.sample("y", dist.OrderedLogistic(eta, cuts), obs=y - 1)
    else:
        raise SystemExit(f"the family {family} is not written here")


def main():
    d, family = json.load(open(sys.argv[1])), sys.argv[2]
    warmup, draws, chains, seed = (int(a) for a in sys.argv[4:8])
    begun, cpu = time.time(), os.times()
    sampler = MCMC(NUTS(model), num_warmup=warmup, num_samples=draws, num_chains=chains, chain_method="sequential",
                   progress_bar=False)
    sampler.run(jax.random.PRNGKey(seed), d, family)
    samples = {k: np.asarray(v) for k, v in sampler.get_samples(group_by_chain=True).items()}
    after = os.times()
    effective = [numpyro.diagnostics.effective_sample_size(v).min() for k, v in samples.items() if not k.startswith("L_")]
    divergent = int(np.asarray(sampler.get_extra_fields()["diverging"]).sum())
    used = after.user + after.system - cpu.user - cpu.system
    kept = {k: v.reshape((-1, *v.shape[2:])) for k, v in samples.items() if not k.startswith(("z_", "L_", "u"))}
    np.savez(sys.argv[3], wall=time.time() - begun, cpu=used, effective=min(effective), divergent=divergent, **kept)


main()

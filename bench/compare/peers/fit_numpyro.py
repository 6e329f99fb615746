"""One NumPyro fit in a process of its own; prints one JSON object.

    fit_numpyro.py --model banana --method diagonal|full|dais|dais-full|nuts --started T [--data FILE] [--seed N]
    fit_numpyro.py --model banana --method check [--data FILE] < points.json

T is `time.monotonic()` before this process was started. SVI is run in blocks; the parameters at the end of every block
are kept and their bounds estimated when the clock has stopped.
"""
import argparse
import json
import sys
import time

p = argparse.ArgumentParser()
p.add_argument("--model", required=True)
p.add_argument("--method", required=True)
p.add_argument("--started", type=float, default=time.monotonic())
p.add_argument("--data")
p.add_argument("--seed", type=int, default=1)
p.add_argument("--steps", type=int)
p.add_argument("--rate", type=float)
p.add_argument("--particles", type=int, default=1)
p.add_argument("--step-max", type=float)
p.add_argument("--step", type=float)
args = p.parse_args()

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import lax, random
from jax.scipy.special import gammaln
from numpyro.infer import MCMC, NUTS, SVI, Trace_ELBO, autoguide
from numpyro.infer.util import potential_energy

import posteriors
import workloads

jax.config.update("jax_enable_x64", True)
imported = time.monotonic()
BLOCKS = 40  # points at which the parameters are kept
FINAL, CHUNK = 20_000, 1000  # draws of the final estimates
TRACE = 2000  # draws for the bound of each kept point

# Adam's rate at the beginning (it falls by a factor of 100 to the end), its steps, and AutoDAIS's eta_max and eta_init.
SETTINGS = {"stomach-cancer": dict(rate=0.05, steps=10_000, step_max=0.1, step=0.01),
            "eight-schools": dict(rate=0.03, steps=20_000, step_max=1.0, step=0.01),
            "banana": dict(rate=0.03, steps=10_000, step_max=1.0, step=0.1),
            "logistic": dict(rate=0.02, steps=16_000, step_max=0.1, step=0.01)}[args.model]
if args.method in ("diagonal", "full"):
    SETTINGS |= dict(rate=min(SETTINGS["rate"], 0.01 if args.method == "full" else 0.05), steps=10_000)


def stomach_cancer(_):
    flat = lambda: dist.ImproperUniform(dist.constraints.real, (), ())
    logit, log_k = numpyro.sample("logit_eta", flat()), numpyro.sample("log_K", flat())
    k, eta = jnp.exp(log_k), jax.nn.sigmoid(logit)
    y, n = workloads.DEATHS, workloads.AT_RISK
    # The difference loses digits where K is large, but not where any fit goes; betaln takes longer to compile.
    rise = lambda a, m: gammaln(a + m) - gammaln(a)
    likelihood = rise(k * eta, y) + rise(k * (1 - eta), n - y) - rise(k, n)  # without the binomial coefficients
    numpyro.factor("deaths", likelihood.sum() + log_k - 2 * jax.nn.softplus(log_k))


def eight_schools(_):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    eta = numpyro.sample("eta", dist.Normal(0, 1).expand([8]).to_event(1))
    numpyro.sample("y", dist.Normal(mu + tau * eta, posteriors.ERRORS), obs=posteriors.EFFECTS)


def banana(_):
    x = numpyro.sample("x", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(x**2 / 2, 1))


def logistic(data):
    x, y = data
    a = numpyro.sample("intercept_std", dist.Normal(0, 5))
    b = numpyro.sample("beta_std", dist.Normal(0, 2.5).expand([x.shape[1]]).to_event(1))
    numpyro.sample("target", dist.Bernoulli(logits=a + x @ b), obs=y)


MODEL = {"stomach-cancer": stomach_cancer, "eight-schools": eight_schools, "banana": banana, "logistic": logistic}[args.model]
NAMES = posteriors.parameters(args.model)


def rows(sites):
    """Draws of all parameters, in mcvi's order."""
    names = dict.fromkeys(name.split("[")[0] for name in NAMES)
    return np.column_stack([np.asarray(sites[name]) for name in names])


def summary(sites):
    draws = rows(sites)
    return dict(mean=dict(zip(NAMES, draws.mean(0).tolist())), sd=dict(zip(NAMES, draws.std(0).tolist())))


def check(data):
    """log p at points on stdin."""
    names, found = dict.fromkeys(name.split("[")[0] for name in NAMES), []
    for point in json.load(sys.stdin):
        at = {}
        for name in names:
            values = [v for n, v in zip(NAMES, point) if n.split("[")[0] == name]
            at[name] = jnp.array(values if f"{name}[1]" in NAMES else values[0])
        found.append(-float(potential_energy(MODEL, (data,), {}, at)))
    return dict(log_p=found)


def nuts(data):
    mcmc = MCMC(NUTS(MODEL), num_warmup=1000, num_samples=1000, num_chains=1, progress_bar=False)
    mcmc.run(random.key(args.seed), data)
    result = summary(mcmc.get_samples())
    result["divergences"] = int(mcmc.get_extra_fields()["diverging"].sum())
    return result | clock()


def clock():
    now = time.monotonic()
    return dict(seconds=now - args.started, seconds_after_import=now - imported)


def svi(data):
    rate, steps = args.rate or SETTINGS["rate"], args.steps or SETTINGS["steps"]
    extra = dict(eta_max=args.step_max or SETTINGS["step_max"], eta_init=args.step or SETTINGS["step"])
    guide = {"diagonal": lambda: autoguide.AutoDiagonalNormal(MODEL), "full": lambda: autoguide.AutoMultivariateNormal(MODEL),
             "dais": lambda: autoguide.AutoDAIS(MODEL, K=8, **extra),
             "dais-full": lambda: autoguide.AutoDAIS(MODEL, K=8, base_dist="cholesky", **extra)}[args.method]()
    optimiser = numpyro.optim.Adam(lambda i: rate * 0.01 ** (i / steps))
    engine = SVI(MODEL, guide, optimiser, Trace_ELBO(num_particles=args.particles))
    state = engine.init(random.key(args.seed), data)

    @jax.jit
    def block(state):
        return lax.scan(lambda s, _: (engine.update(s, data)[0], None), state, None, length=steps // BLOCKS)[0]

    one = Trace_ELBO()

    @jax.jit
    def many(params, keys):
        """Bounds and draws, compiled in one go."""
        return jax.vmap(lambda key: (-one.loss(key, params, MODEL, guide, data), guide.sample_posterior(key, params, data)))(keys)

    def estimate(params, draws, seed):
        parts = [many(params, keys) for keys in random.split(random.key(seed), draws).reshape(-1, CHUNK)]
        bounds = np.concatenate([part[0] for part in parts])
        sites = {name: np.concatenate([part[1][name] for part in parts]) for name in parts[0][1]}
        return dict(value=float(bounds.mean()), se=float(bounds.std() / len(bounds) ** 0.5)), summary(sites)

    kept = []
    for _ in range(BLOCKS):
        state = jax.block_until_ready(block(state))
        kept.append((time.monotonic() - args.started, engine.get_params(state)))
    bound, found = estimate(kept[-1][1], FINAL, args.seed + 1000)
    result = dict(bound=bound, **found, **clock())
    trace = [dict(seconds=at, bound=estimate(params, TRACE, args.seed + 2000)[0]) for at, params in kept]
    return result | dict(rate=rate, steps=steps, trained=kept[-1][0], trace=trace)


data = posteriors.read_logistic(args.data) if args.model == "logistic" else None
print(json.dumps({"check": check, "nuts": nuts}.get(args.method, svi)(data)))

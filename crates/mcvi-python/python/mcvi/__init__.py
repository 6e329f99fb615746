"""Markov chain variational inference: posterior draws, a lower bound on log p(x), and an honest verdict on both.

>>> import mcvi
>>> post = mcvi.fit("model.stan", data={"N": 3, "y": [1.0, 2.0, 0.5]})
>>> print(post)
"""

from mcvi import paper
from mcvi._errors import Error, UsageError
from mcvi._fit import fit, load
from mcvi._mcvi import __version__
from mcvi.chains import Chain, Hamiltonian, Transition, Uha
from mcvi.models import Model, external, from_jax, from_numpyro, from_pymc, from_torch
from mcvi.posterior import Estimate, Posterior, Report, Verdict
from mcvi.regression import linear, logistic, poisson, regression
from mcvi.vae import VAE

__all__ = [
    "Chain",
    "Error",
    "Estimate",
    "Hamiltonian",
    "Model",
    "Posterior",
    "Report",
    "Transition",
    "Uha",
    "UsageError",
    "VAE",
    "Verdict",
    "__version__",
    "external",
    "fit",
    "from_jax",
    "from_numpyro",
    "from_pymc",
    "from_torch",
    "linear",
    "load",
    "logistic",
    "paper",
    "poisson",
    "regression",
]

"""Models of NumPyro: their sites become named parameters, generated quantities, observations."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Optional, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers
from numpyro.distributions.transforms import biject_to
from numpyro.infer import Predictive, init_to_uniform, log_likelihood
from numpyro.infer.util import constrain_fn, potential_energy

from mcvi._errors import UsageError
from mcvi.models.jax import FEW_SIZES, JaxDensity, batched, double
from mcvi.models.trace import once

#: Draws whose likelihoods and predictions are computed at once.
CHUNK = 1000
#: Draws from the prior that are made one by one: the model is compiled for one more quickly than for rows.
FEW = 64


class NumPyroModel(JaxDensity):
    """See :func:`mcvi.from_numpyro`."""

    def __init__(
        self,
        model: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        dims: Mapping[str, Sequence[str]],
        coords: Mapping[str, Sequence[Any]],
    ) -> None:
        # JAX knows constants by their identity, and mistakes their type if they were first seen in double precision: others
        # may use these arrays in single precision.
        args, kwargs = jax.tree.map(own, (args, kwargs))
        self._model, self._args, self._kwargs = model, args, kwargs
        self._dims, self._coords = dict(dims), dict(coords)
        self.name = getattr(model, "__name__", type(model).__name__)
        self.description = "a NumPyro model"
        self._free = handlers.uncondition(model)
        with double(True):
            self._read()
        self._compile(lambda z: -potential_energy(model, args, kwargs, self._unravel(z)))
        # As functions that are compiled once: Predictive alone would do so in every call.
        self._predicted = jax.jit(lambda key, some: Predictive(self._free, some)(key, *args, **kwargs))
        self._drawn = once(self._draw)
        self._constrained = jax.jit(
            jax.vmap(lambda z: constrain_fn(model, args, kwargs, self._unravel(z), return_deterministic=True))
        )

    def _read(self) -> None:
        """Learn the sites of the model, from shapes alone."""
        found = {}

        def run(key: jax.Array) -> dict[str, Any]:
            # Latent sites get a value in their support, since some have no distribution that could be drawn from.
            started = handlers.substitute(handlers.seed(self._model, key), substitute_fn=init_to_uniform)
            found.update(handlers.trace(started).get_trace(*self._args, **self._kwargs))
            observed = {name: site for name, site in found.items() if site["type"] == "sample" and site["is_observed"]}
            return {name: jnp.asarray(site["value"]) for name, site in observed.items()}

        key = jax.random.PRNGKey(0)
        jax.eval_shape(run, key)
        trace = dict(found)
        for name, site in trace.items():
            if site["type"] == "plate" and site["args"][1] not in (None, site["args"][0]):
                raise UsageError(f"{self.name}: the plate {name} is subsampled; a fit needs all of its {site['args'][0]} rows")
        values = {name: site["value"] for name, site in trace.items() if site["type"] == "sample" and site["is_observed"]}
        if any(isinstance(value, jax.core.Tracer) for value in values.values()):
            values = once(run)(key)
        for name, value in values.items():
            trace[name]["value"] = value
        sites = {name: site for name, site in trace.items() if site["type"] == "sample"}
        self._latent = {name: site for name, site in sites.items() if not site["is_observed"]}
        self._observed = {name: site for name, site in sites.items() if site["is_observed"]}
        if not self._latent:
            raise UsageError(f"{self.name}: the model has no latent sites to be inferred")
        self._shapes = {}
        for name, site in self._latent.items():
            if site["fn"].support.is_discrete:
                raise UsageError(f"{self.name}: the site {name} is discrete; sum over it in the model")
            # The support of a distribution may depend on other sites; its unconstrained shape does not.
            self._shapes[name] = tuple(biject_to(site["fn"].support).inverse_shape(jnp.shape(site["value"])))
        self.dim = sum(int(np.prod(shape)) for shape in self._shapes.values())
        plates = {name: plate_dims(site) for name, site in trace.items() if site["type"] in ("sample", "deterministic")}
        self._dims = {**{name: axes for name, axes in plates.items() if axes}, **self._dims}

    def _unravel(self, z: jax.Array) -> dict[str, jax.Array]:
        """The unconstrained value of each site from a point."""
        values, start = {}, 0
        for name, shape in self._shapes.items():
            size = int(np.prod(shape))
            values[name] = z[start : start + size].reshape(shape)
            start += size
        return values

    def _parameters(self) -> list[tuple[str, list[int], int, list[list[str]]]]:
        return [
            (name, list(jnp.shape(site["value"])), int(np.prod(self._shapes[name])), []) for name, site in self._latent.items()
        ]

    def _observations(self) -> list[tuple[str, np.ndarray]]:
        return [(name, numbers(site["value"])) for name, site in self._observed.items()]

    def _axes(self) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        return (
            {name: [str(axis) for axis in axes] for name, axes in self._dims.items()},
            {name: [str(label) for label in labels] for name, labels in self._coords.items()},
        )

    def _quantities(self, z: np.ndarray, seed: Optional[int]) -> dict[str, dict[str, np.ndarray]]:
        known = batched(self._constrained, z, sizes=FEW_SIZES)
        parameters = {name: known[name] for name in self._latent}
        found: dict[str, dict[str, np.ndarray]] = {
            "parameters": parameters,
            "generated": {name: value for name, value in known.items() if name not in parameters},
        }
        if seed is not None and self._observed:
            found["log_likelihood"], found["predictive"] = self._replicated(parameters, seed)
        return found

    def _replicated(self, parameters: dict[str, np.ndarray], seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """The log likelihood of each observation, and new observations."""
        likelihoods: dict[str, list[np.ndarray]] = {name: [] for name in self._observed}
        predictions: dict[str, list[np.ndarray]] = {name: [] for name in self._observed}
        count = len(next(iter(parameters.values())))
        with double(True):
            key = jax.random.PRNGKey(seed % 2**32)
            for start in range(0, count, CHUNK):
                some = {name: value[start : start + CHUNK] for name, value in parameters.items()}
                key, now = jax.random.split(key)
                per_site = log_likelihood(self._model, some, *self._args, **self._kwargs)
                drawn = self._predicted(now, some)
                for name in self._observed:
                    likelihoods[name].append(numbers(per_site[name]))
                    predictions[name].append(numbers(drawn[name]))
        joined = [{name: np.concatenate(parts) for name, parts in all.items()} for all in (likelihoods, predictions)]
        return joined[0], joined[1]

    def _prior(self, count: int, seed: int) -> Optional[dict[str, dict[str, np.ndarray]]]:
        with double(True):
            key = jax.random.PRNGKey(seed % 2**32)
            try:
                if count > FEW:
                    drawn = Predictive(self._free, num_samples=count)(key, *self._args, **self._kwargs)
                else:
                    rows = [self._drawn(key) for key in jax.random.split(key, count)]
                    drawn = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
            except NotImplementedError:  # an improper prior
                return None
        parameters = {name: numbers(drawn[name]) for name in self._latent}
        return {"parameters": parameters, "predictive": {name: numbers(drawn[name]) for name in self._observed}}

    def _draw(self, key: jax.Array) -> dict[str, Any]:
        """All sites of one draw from the prior."""
        trace = handlers.trace(handlers.seed(self._free, key)).get_trace(*self._args, **self._kwargs)
        return {name: site["value"] for name, site in trace.items() if site["type"] == "sample"}

    def __getstate__(self) -> dict[str, Any]:
        return {"made_of": (self._model, self._args, self._kwargs, self._dims, self._coords)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        NumPyroModel.__init__(self, *state["made_of"])


def plate_dims(site: dict[str, Any]) -> list[str]:
    """Names of the axes of a site, if those before the distribution's own are all of plates."""
    axes = len(jnp.shape(site["value"]))
    batch = len(site["fn"].batch_shape) if site["type"] == "sample" else axes
    by_axis = {batch + frame.dim: frame.name for frame in site["cond_indep_stack"]}
    if not by_axis or sorted(by_axis) != list(range(batch)):
        return []
    return [by_axis.get(axis, f"{site['name']}_dim_{axis}") for axis in range(axes)]


def own(value: Any) -> Any:
    """An argument as JAX takes it: arrays as copies, columns of frames as arrays."""
    if hasattr(value, "to_numpy") and not hasattr(value, "columns"):
        value = value.to_numpy()
    return value.copy() if isinstance(value, np.ndarray) else value


def numbers(value: Any) -> np.ndarray:
    return np.ascontiguousarray(value, dtype=np.float64)

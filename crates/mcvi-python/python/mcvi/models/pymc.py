"""Models of PyMC, by way of JAX: free variables become parameters, with their dims and coords."""

from __future__ import annotations

import logging
import os
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Optional

import jax
import jax.numpy as jnp
import numpy as np
import pymc

from mcvi._errors import UsageError
from mcvi.models.jax import FEW_SIZES, JaxDensity, batched


def compiled(inputs: list[Any], outputs: list[Any]) -> Callable[..., Any]:
    """A function of JAX from a graph of PyTensor."""
    flags = os.environ.get("XLA_FLAGS")
    # PyMC asks JAX for a hundred devices when this is imported, which would slow down all else.
    from pymc.sampling.jax import get_jaxified_graph

    if flags is None:
        os.environ.pop("XLA_FLAGS", None)
    else:
        os.environ["XLA_FLAGS"] = flags
    try:
        return get_jaxified_graph(inputs=inputs, outputs=outputs)
    except NotImplementedError as error:
        raise UsageError(f"PyMC cannot compile the model for JAX: {error}") from error


class PyMCModel(JaxDensity):
    """See :func:`mcvi.from_pymc`."""

    def __init__(self, model: pymc.Model) -> None:
        self._model = model
        self.name, self.description = model.name or "pymc", "a PyMC model"
        if not model.free_RVs:
            raise UsageError("the PyMC model has no free variables to be inferred")
        if model.discrete_value_vars:
            names = ", ".join(var.name for var in model.discrete_value_vars)
            raise UsageError(f"the PyMC model has discrete variables ({names}); sum over them with pymc_extras.marginalize")
        self._values = model.value_vars
        start = model.initial_point()
        self._shapes = [np.shape(start[var.name]) for var in self._values]
        self.dim = sum(int(np.prod(shape)) for shape in self._shapes)
        self._free = [rv.name for rv in model.free_RVs]
        known = [*model.free_RVs, *model.deterministics]
        self._known = [rv.name for rv in known]
        density = compiled(self._values, [model.logp()])
        constrained = compiled(self._values, model.replace_rvs_by_values(known))
        self._compile(lambda z: density(*self._unravel(z))[0])
        self._constrained = jax.jit(jax.vmap(lambda z: tuple(constrained(*self._unravel(z)))))
        likelihood = compiled(self._values, model.logp(model.observed_RVs, sum=False)) if model.observed_RVs else None
        self._likelihood = likelihood and jax.jit(jax.vmap(lambda z: tuple(likelihood(*self._unravel(z)))))

    def _unravel(self, z: jax.Array) -> list[jax.Array]:
        """The unconstrained value of each variable from a point."""
        sizes = [int(np.prod(shape)) for shape in self._shapes]
        parts = jnp.split(z, np.cumsum(sizes)[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, self._shapes)]

    def _parameters(self) -> list[tuple[str, list[int], int, list[list[str]]]]:
        # One row tells the shapes of constrained values.
        first = dict(zip(self._known, batched(self._constrained, np.zeros((1, self.dim)), sizes=FEW_SIZES)))
        sizes = [int(np.prod(shape)) for shape in self._shapes]
        return [(name, list(first[name].shape[1:]), size, []) for name, size in zip(self._free, sizes)]

    def _observations(self) -> list[tuple[str, np.ndarray]]:
        values = self._model.rvs_to_values
        return [(rv.name, numbers(values[rv].eval())) for rv in self._model.observed_RVs]

    def _axes(self) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        dims = {
            name: [f"{name}_dim_{i}" if dim is None else str(dim) for i, dim in enumerate(axes)]
            for name, axes in self._model.named_vars_to_dims.items()
        }
        labels = {dim: [str(x) for x in values] for dim, values in self._model.coords.items() if values is not None}
        return dims, labels

    def _quantities(self, z: np.ndarray, seed: Optional[int]) -> dict[str, dict[str, np.ndarray]]:
        known = dict(zip(self._known, batched(self._constrained, z, sizes=FEW_SIZES)))
        parameters = {name: known[name] for name in self._free}
        found = {
            "parameters": parameters,
            "generated": {name: value for name, value in known.items() if name not in parameters},
        }
        if seed is not None and self._likelihood is not None:
            names = [rv.name for rv in self._model.observed_RVs]
            found["log_likelihood"] = dict(zip(names, batched(self._likelihood, z, sizes=FEW_SIZES)))
            found["predictive"] = self._predicted(parameters, names, seed)
        return found

    def _predicted(self, parameters: dict[str, np.ndarray], names: list[str], seed: int) -> dict[str, np.ndarray]:
        import xarray

        dims, _ = self._axes()

        def array(name: str, value: np.ndarray) -> Any:
            own = dims.get(name) or [f"{name}_dim_{i}" for i in range(value.ndim - 1)]
            return xarray.DataArray(value[None], dims=["chain", "draw", *own])

        arrays = {name: array(name, value) for name, value in parameters.items()}
        used = {dim for value in arrays.values() for dim in value.dims}
        # With its coords PyMC sees that nothing has changed; without them it would draw these parameters anew.
        coords = {dim: list(labels) for dim, labels in self._model.coords.items() if labels is not None and dim in used}
        with quiet():
            drawn = pymc.sample_posterior_predictive(
                xarray.Dataset(arrays, coords=coords),
                model=self._model,
                var_names=names,
                random_seed=seed % 2**32,
                progressbar=False,
                return_inferencedata=False,
            )
        return {name: numbers(drawn[name][0]) for name in names}

    def _prior(self, count: int, seed: int) -> Optional[dict[str, dict[str, np.ndarray]]]:
        with quiet():
            try:
                drawn = pymc.sample_prior_predictive(
                    count, model=self._model, random_seed=seed % 2**32, return_inferencedata=False
                )
            except NotImplementedError:  # a flat prior, or a potential
                return None
        return {"parameters": {name: numbers(drawn[name]) for name in self._free}}

    def __getstate__(self) -> dict[str, Any]:
        return {"model": self._model}

    def __setstate__(self, state: dict[str, Any]) -> None:
        PyMCModel.__init__(self, state["model"])


@contextmanager
def quiet() -> Iterator[None]:
    """PyMC announces what it draws; nobody has asked it to."""
    logger = logging.getLogger("pymc")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


def numbers(value: Any) -> np.ndarray:
    return np.ascontiguousarray(value, dtype=np.float64)

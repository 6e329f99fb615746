"""Models that are functions of Python: the base of all adapters, and one for any function with derivatives."""

from __future__ import annotations

from typing import Any, Callable, Optional, Sequence

import numpy as np

from mcvi import _mcvi
from mcvi._errors import UsageError

#: What the result says of chains that were trained without second derivatives.
DIFFERENCES = "The model offers no Hessian-vector product; chains are trained by central differences of its gradients."


class Model:
    """A log density of ``dim`` free coordinates, with derivatives, for all rows of an array at once.

    A subclass defines :meth:`values_and_gradients`, and :meth:`hessian_vectors` if it can. It may name its parameters,
    constrain them and know its observations by the methods with an underscore, whose defaults suit a density without names.
    """

    name: str = "model"
    description: str = "a log density in Python"
    notes: Sequence[str] = ()
    dim: int

    def values(self, z: np.ndarray) -> np.ndarray:
        """log p at each row of z: ``[rows, dim]`` to ``[rows]``."""
        return self.values_and_gradients(z)[0]

    def values_and_gradients(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same with gradients, ``[rows, dim]``."""
        raise NotImplementedError

    def hessian_vectors(self, z: np.ndarray, v: np.ndarray) -> np.ndarray:
        """The Hessian at each row of z times the same row of v. By default central differences of gradients."""
        return differences(lambda at: self.values_and_gradients(at)[1], z, v)

    def _parameters(self) -> list[tuple[str, list[int], int, list[list[str]]]]:
        """Name, shape, number of free coordinates and labels along each axis, in the order of the coordinates."""
        return [("z", [self.dim], self.dim, [])]

    def _observations(self) -> list[tuple[str, np.ndarray]]:
        return []

    def _quantities(self, z: np.ndarray, seed: Optional[int]) -> dict[str, dict[str, np.ndarray]]:
        """Parameters and ``generated`` quantities of draws; with a seed also ``log_likelihood`` and ``predictive``."""
        return {"parameters": {"z": z}}

    def _axes(self) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        """Names of the axes of parameters, quantities and observations, and labels along named axes."""
        return {}, {}

    def _prior(self, count: int, seed: int) -> Optional[dict[str, dict[str, np.ndarray]]]:
        """Draws of the parameters from the prior; None if it has none."""
        return None

    def _log_density(self) -> Optional[_mcvi.LogDensity]:
        """The log density as the engine computes it itself; None if it has to call this object."""
        return None

    def _native(self) -> _mcvi.Model:
        # One native object for each model: the engine knows a function by its identity.
        native = self.__dict__.get("_native_model")
        if native is None:
            native = self.__dict__["_native_model"] = _mcvi.python_model(self, self._log_density())
        return native

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_native_model"}

    def log_density(self, z: Any) -> np.ndarray:
        """log p at each row of z."""
        return self._native().log_density(np.atleast_2d(np.asarray(z, dtype=np.float64)))


def differences(gradients: Callable[[np.ndarray], np.ndarray], z: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Hessian-vector products by central differences of gradients along v, in one call for both sides."""
    size = np.linalg.norm(v, axis=1, keepdims=True)
    unit = np.divide(v, size, out=np.zeros_like(v), where=size > 0)
    h = np.cbrt(np.finfo(float).eps) * np.maximum(1.0, np.abs(z).max(axis=1, keepdims=True))
    both = gradients(np.concatenate([z + h * unit, z - h * unit]))
    return (both[: len(z)] - both[len(z) :]) / (2 * h) * size


def dimension(dim: Any) -> int:
    """A number of coordinates, checked."""
    if not isinstance(dim, (int, np.integer)) or isinstance(dim, bool) or dim < 1:
        raise UsageError(f"dim: a whole number of coordinates is needed, at least 1, not {dim!r}")
    return int(dim)


class External(Model):
    """A log density given by functions; see :func:`external`."""

    def __init__(
        self,
        value: Callable[[np.ndarray], Any],
        gradient: Callable[[np.ndarray], Any],
        hvp: Optional[Callable[[np.ndarray, np.ndarray], Any]],
        dim: int,
        name: str,
    ) -> None:
        self.dim, self.name = dimension(dim), name
        self._value, self._gradient, self._hvp = value, gradient, hvp
        self.notes = () if hvp else (DIFFERENCES,)

    def values(self, z: np.ndarray) -> np.ndarray:
        return _array(self._value(z))

    def values_and_gradients(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.values(z), _array(self._gradient(z))

    def hessian_vectors(self, z: np.ndarray, v: np.ndarray) -> np.ndarray:
        if self._hvp is None:
            return differences(lambda at: _array(self._gradient(at)), z, v)
        return _array(self._hvp(z, v))


def external(
    value: Callable[[np.ndarray], Any],
    gradient: Callable[[np.ndarray], Any],
    hvp: Optional[Callable[[np.ndarray, np.ndarray], Any]] = None,
    *,
    dim: int,
    name: str = "external",
) -> Model:
    """A model from functions of arrays: any simulator, any library.

    ``value(z)`` is log p at each row of ``z`` ``[rows, dim]``, ``gradient(z)`` its gradient there, ``hvp(z, v)`` the Hessian at
    each row of ``z`` times the same row of ``v``. Without ``hvp`` chains are trained by differences of gradients.

    >>> normal = mcvi.external(lambda z: -0.5 * (z**2).sum(1), lambda z: -z, lambda z, v: -v, dim=2)
    >>> mcvi.fit(normal).log_evidence      # log 2π
    """
    return External(value, gradient, hvp, dim, name)


def _array(value: Any) -> np.ndarray:
    return np.ascontiguousarray(value, dtype=np.float64)

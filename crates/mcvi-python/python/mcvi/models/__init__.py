"""Models from other libraries. Each adapter imports its library only when it is called."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, Sequence

from mcvi._errors import UsageError
from mcvi.models.base import Model, external

if TYPE_CHECKING:
    import jax
    import pymc
    import torch

__all__ = ["Model", "external", "from_jax", "from_numpyro", "from_pymc", "from_torch"]


def needs(*libraries: str) -> None:
    """Says what to install where an adapter's library is missing."""
    missing = [library for library in libraries if find_spec(library) is None]
    if missing:
        raise UsageError(f"this needs {' and '.join(missing)}: pip install {' '.join(missing)}")


def from_jax(log_density: Callable[[jax.Array], jax.Array], dim: int, *, name: str = "jax") -> Model:
    """A model from a function of JAX: of a batch ``[rows, dim]`` with result ``[rows]``, or of one point with one number.

    It is computed by the engine where that has its operations, else by calls of JAX (``post.notes`` says why), in double precision.

    >>> banana = lambda z: -0.5 * (z[:, 0] ** 2 + (z[:, 1] - z[:, 0] ** 2 / 2) ** 2)
    >>> mcvi.fit(mcvi.from_jax(banana, dim=2))
    """
    needs("jax")
    from mcvi.models.jax import JaxModel

    return JaxModel(log_density, dim, name)


def from_torch(log_density: Callable[[torch.Tensor], torch.Tensor], dim: int, *, name: str = "torch") -> Model:
    """A model from a function of PyTorch of a batch ``[rows, dim]``, in double precision, with result ``[rows]``.

    >>> mcvi.fit(mcvi.from_torch(lambda z: -0.5 * (z**2).sum(1), dim=3))
    """
    needs("torch")
    from mcvi.models.torch import TorchModel

    return TorchModel(log_density, dim, name)


def from_numpyro(
    model: Callable[..., Any],
    *args: Any,
    dims: Optional[Mapping[str, Sequence[str]]] = None,
    coords: Optional[Mapping[str, Sequence[Any]]] = None,
    **kwargs: Any,
) -> Model:
    """A model from NumPyro, with the arguments it is to be called with.

    Parameters keep their names, constraints and shapes; axes are named after plates. ``dims`` and ``coords`` name other axes
    and label them, as for ArviZ. The log density is computed as that of :func:`from_jax`.

    >>> mcvi.fit(mcvi.from_numpyro(eight_schools, J=8, sigma=sigma, y=y))
    """
    needs("jax", "numpyro")
    from mcvi.models.numpyro import NumPyroModel

    return NumPyroModel(model, args, kwargs, dims or {}, coords or {})


def from_pymc(model: pymc.Model) -> Model:
    """A model from PyMC. Parameters keep their names, constraints, dims and coords.

    The log density is computed as that of :func:`from_jax`.

    >>> with pm.Model(coords={"school": names}) as schools: ...
    >>> mcvi.fit(mcvi.from_pymc(schools))
    """
    needs("jax", "pymc")
    from mcvi.models.pymc import PyMCModel

    return PyMCModel(model)

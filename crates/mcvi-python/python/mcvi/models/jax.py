"""Log densities of JAX: compiled for a batch, with gradients and Hessian-vector products."""

from __future__ import annotations

from typing import Any, Callable, Optional, Sequence

import jax
import jax.numpy as jnp
import numpy as np

try:  # double precision, whatever the program around has chosen
    from jax import enable_x64 as double
except ImportError:  # before JAX 0.8
    from jax.experimental import enable_x64 as double

from mcvi import _mcvi
from mcvi._errors import UsageError
from mcvi.models.base import Model, dimension
from mcvi.models.lowering import difference, lower
from mcvi.models.trace import Uncovered, once

#: Numbers of rows that a function is compiled for: training has few, of which none should be wasted.
SIZES = (1, 2, 4, 8, 16, 32, 64, 256, 1024, 4096)
#: The same for functions of draws, which are called a few times.
FEW_SIZES = (64, 4096)


class JaxDensity(Model):
    """A model whose log density ``[rows, dim] -> [rows]`` is a function of JAX.

    The engine computes it itself where it can; else, and for all else, JAX is called.
    """

    def _compile(
        self, point: Callable[[jax.Array], jax.Array], batch: Optional[Callable[[jax.Array], jax.Array]] = None
    ) -> None:
        """From the log density of a point, and that of a batch if there is one beside."""
        self._point, density = point, batch or jax.vmap(point)

        def both(z: jax.Array) -> jax.Array:
            # One array, since each costs as much to hand over as a small model to compute.
            values, pull = jax.vjp(density, z)
            return jnp.concatenate([values[:, None], pull(jnp.ones_like(values))[0]], axis=1)

        def product(z: jax.Array, v: jax.Array) -> jax.Array:
            # Forwards through the gradient; rows do not depend on each other.
            return jax.jvp(jax.grad(lambda z: density(z).sum()), (z,), (v,))[1]

        self._value, self._both, self._product = jax.jit(density), jax.jit(both), jax.jit(product)
        self._both_once = once(both)

    def _log_density(self) -> Optional[_mcvi.LogDensity]:
        try:
            with double(True):
                lowered, near = lower(self._point, self.dim)
            why = difference(lowered, lambda z: parted(batched(self._both_once, z)), self.dim, near)
        except Uncovered as error:
            why = f"{error} is not supported there"
        except Exception as error:  # JAX has changed, say: calling it still works
            why = f"{type(error).__name__}: {error}"
        if why is None:
            return lowered
        note = f"The log density is computed by calls of JAX, which takes longer than in the engine: {why}."
        self.notes = (*self.notes, note)
        return None

    def values(self, z: np.ndarray) -> np.ndarray:
        return batched(self._value, z)

    def values_and_gradients(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return parted(batched(self._both, z))

    def hessian_vectors(self, z: np.ndarray, v: np.ndarray) -> np.ndarray:
        return batched(self._product, z, v)


class JaxModel(JaxDensity):
    """See :func:`mcvi.from_jax`."""

    def __init__(self, log_density: Callable[[jax.Array], jax.Array], dim: int, name: str) -> None:
        self.name, self.description, self.dim = name, "a log density in JAX", dimension(dim)
        self._density = log_density
        if self._takes_rows(log_density):
            self._compile(lambda z: log_density(z[None])[0], log_density)
        else:
            self._compile(log_density)

    def _takes_rows(self, density: Callable[[jax.Array], jax.Array]) -> bool:
        """Whether it is a function of a batch, and not of a point."""
        shapes = {}
        with double(True):
            # Of one row more than coordinates, so that they cannot be mistaken for each other.
            for shape in ((self.dim + 1, self.dim), (self.dim,)):
                try:
                    result = jax.eval_shape(density, jax.ShapeDtypeStruct(shape, jnp.float64))
                    shapes[shape] = result.shape if jnp.issubdtype(result.dtype, jnp.floating) else result.dtype
                except Exception as error:
                    shapes[shape] = error
        rows, point = shapes.values()
        if rows == (self.dim + 1,):
            return True
        if point == ():
            return False
        if isinstance(rows, Exception):
            raise rows
        if isinstance(rows, np.dtype):
            raise UsageError(f"the log density must be of floating-point numbers, not {rows}")
        raise UsageError(
            f"the log density of a batch [rows, {self.dim}] must be [rows], and that of a point one number; "
            f"{self.dim + 1} rows give {rows}"
        )

    def __getstate__(self) -> dict[str, Any]:
        return {"density": self._density, "dim": self.dim, "name": self.name}

    def __setstate__(self, state: dict[str, Any]) -> None:
        JaxModel.__init__(self, state["density"], state["dim"], state["name"])


def batched(function: Callable[..., Any], *arrays: np.ndarray, sizes: Sequence[int] = SIZES) -> Any:
    """What a compiled function gives for rows. JAX compiles for every number of rows, so that few numbers are used."""
    count, most = len(arrays[0]), sizes[-1]
    if count > most:
        parts = [batched(function, *(a[i : i + most] for a in arrays), sizes=sizes[-1:]) for i in range(0, count, most)]
        return jax.tree.map(lambda *values: np.concatenate(values), *parts)
    rows = next(size for size in sizes if size >= count)
    if rows > count:
        arrays = tuple(np.concatenate([a, np.repeat(a[-1:], rows - count, axis=0)]) for a in arrays)
    with double(True):
        result = function(*arrays)
    if isinstance(result, jax.Array):
        return np.asarray(result)[:count]
    return jax.tree.map(lambda value: np.asarray(value, dtype=np.float64)[:count], result)


def parted(both: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values and gradients from one array."""
    return both[:, 0], both[:, 1:]

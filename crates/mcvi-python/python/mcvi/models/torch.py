"""Log densities of PyTorch."""

from __future__ import annotations

from typing import Callable

import numpy as np
import torch

from mcvi._errors import UsageError
from mcvi.models.base import Model, dimension


class TorchModel(Model):
    """See :func:`mcvi.from_torch`."""

    def __init__(self, log_density: Callable[[torch.Tensor], torch.Tensor], dim: int, name: str) -> None:
        self.name, self.description, self.dim = name, "a log density in PyTorch", dimension(dim)
        self._density = log_density

    def _run(self, z: np.ndarray, tracked: bool) -> tuple[torch.Tensor, torch.Tensor]:
        rows = torch.from_numpy(z.copy()).requires_grad_(tracked)
        values = self._density(rows)
        if not isinstance(values, torch.Tensor):
            raise UsageError(f"the log density must be a tensor, not {type(values).__name__}")
        if tracked and not values.requires_grad:
            raise UsageError("the log density has no gradient: it does not follow from z by operations of PyTorch")
        if tuple(values.shape) != (len(z),):
            raise UsageError(f"the log density of {len(z)} rows must be [{len(z)}], not {list(values.shape)}")
        return rows, values

    def values(self, z: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return _array(self._run(z, False)[1])

    def values_and_gradients(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with torch.enable_grad():
            rows, values = self._run(z, True)
            (gradients,) = torch.autograd.grad(values.sum(), rows)
        return _array(values), _array(gradients)

    def hessian_vectors(self, z: np.ndarray, v: np.ndarray) -> np.ndarray:
        with torch.enable_grad():
            rows, values = self._run(z, True)
            (gradients,) = torch.autograd.grad(values.sum(), rows, create_graph=True)
            if not gradients.requires_grad:
                return np.zeros_like(z)  # the gradient is constant
            along = (gradients * torch.from_numpy(v.copy())).sum()
            (products,) = torch.autograd.grad(along, rows, allow_unused=True)
        return np.zeros_like(z) if products is None else _array(products)


def _array(value: torch.Tensor) -> np.ndarray:
    return np.ascontiguousarray(value.detach().cpu().numpy(), dtype=np.float64)

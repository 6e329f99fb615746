"""The worked examples of Salimans, Kingma & Welling (2015), as the command ``mcvi paper`` computes them."""

from __future__ import annotations

import json
from typing import Any, Optional, Sequence

from mcvi import _mcvi, _options


def _results(example: str, **options: Any) -> dict[str, Any]:
    words = _options.words({name: _listed(value) for name, value in options.items()})
    return json.loads(_mcvi.printed(["mcvi", "paper", example, "--json", *words]))


def _listed(value: Any) -> Any:
    return ",".join(map(str, value)) if isinstance(value, (list, tuple, range)) else value


def gaussian(
    sweeps: Optional[Sequence[int]] = None, *, seed: int = 1, threads: Optional[int] = None, out: Optional[str] = None
) -> dict[str, Any]:
    """Figure 1: Gibbs sampling and over-relaxation on a bivariate Gaussian, learned beside exact.

    ``rows`` has, for each number of sweeps, the bounds that were learned and those of the exact linear-Gaussian chain. With
    ``out`` the figure is written to a folder.
    """
    return _results("gaussian", sweeps=sweeps, seed=seed, threads=threads, out=out)


def stomach_cancer(
    leapfrogs: Optional[Sequence[int]] = None,
    *,
    momentum: Optional[str] = None,
    seed: int = 1,
    threads: Optional[int] = None,
    out: Optional[str] = None,
) -> dict[str, Any]:
    """Figures 2 and 3: Hamiltonian variational inference for deaths from stomach cancer, by number of leapfrogs."""
    return _results("stomach-cancer", leapfrogs=leapfrogs, momentum=momentum, seed=seed, threads=threads, out=out)


def claims(*, seed: int = 1, threads: Optional[int] = None, out: Optional[str] = None) -> dict[str, Any]:
    """Claims made in the text of sections 3 and 4, measured (takes minutes)."""
    return _results("claims", seed=seed, threads=threads, out=out)

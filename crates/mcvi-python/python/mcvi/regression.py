"""Regressions by formula over frames of pandas or polars, or dictionaries of columns."""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Optional, Sequence

import numpy as np

from mcvi import _mcvi
from mcvi._errors import UsageError


def regression(
    formula: str,
    frame: Any,
    *,
    family: Optional[str] = None,
    link: Optional[str] = None,
    priors: Sequence[str] = (),
    weights: Optional[str] = None,
    levels: Sequence[str] = (),
    missing: str = "refuse",
) -> _mcvi.Model:
    """A regression by a formula in the notation of lme4 and brms.

    Families, priors and everything else are those of ``mcvi fit FORMULA``; coefficients are reported on the scale of the data.

    >>> model = mcvi.regression("deaths ~ dose + (1 | clinic)", frame, family="poisson", priors=["dose ~ normal(0, 1)"])
    >>> post = mcvi.fit(model)
    >>> post.predict(new_frame)["mean"]
    """
    return _mcvi.regression(
        formula,
        columns(frame),
        family=family,
        link=link,
        priors=list(priors),
        weights=weights,
        levels=list(levels),
        missing=missing,
    )


def logistic(frame: Any, target: str, **options: Any) -> _mcvi.Model:
    """The logistic regression of a column of 0 and 1 on all others.

    >>> mcvi.fit(mcvi.logistic(frame, target="survived"))
    """
    return _mcvi.regression("logistic", columns(frame), target=target, **options)


def linear(frame: Any, target: str, **options: Any) -> _mcvi.Model:
    """The linear regression of a column of numbers on all others."""
    return _mcvi.regression("linear", columns(frame), target=target, **options)


def poisson(frame: Any, target: str, **options: Any) -> _mcvi.Model:
    """The Poisson regression of a column of counts on all others."""
    return _mcvi.regression("poisson", columns(frame), target=target, **options)


def columns(frame: Any) -> list[tuple[str, Any]]:
    """Columns of a frame: numbers as floats, all else as texts; what is missing as NaN or None."""
    if isinstance(frame, Mapping):
        named: Iterable[tuple[Any, Any]] = frame.items()
    elif hasattr(frame, "columns"):
        named = ((name, frame[name]) for name in frame.columns)
    else:
        raise UsageError(f"a frame or a dictionary of columns is needed, not {type(frame).__name__}")
    return [(str(name), column(values)) for name, values in named]


def column(values: Any) -> Any:
    """A column as floats or texts."""
    array = values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)
    if array.dtype.kind in "iuf":
        return array.astype(np.float64).tolist()
    listed = [None if is_missing(value) else value for value in array.tolist()]
    known = [value for value in listed if value is not None]
    if known and all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in known):
        return [float("nan") if value is None else float(value) for value in listed]
    # As files have them.
    return [str(value).lower() if isinstance(value, bool) else None if value is None else str(value) for value in listed]


def is_missing(value: Any) -> bool:
    return value is None or value != value or type(value).__name__ in ("NAType", "NaTType")

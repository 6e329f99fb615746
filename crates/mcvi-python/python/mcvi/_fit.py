"""From a model to a posterior, and back from a saved one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Optional, Union

from mcvi import _data, _mcvi, _options
from mcvi._errors import UsageError
from mcvi.models.base import Model
from mcvi.posterior import Posterior, watched
from mcvi.regression import regression


def open_model(model: Any, data: Any = None, target: Optional[str] = None) -> _mcvi.Model:
    """A model of any kind as the native module has it."""
    if isinstance(model, _mcvi.Model):
        return model
    if isinstance(model, Model):
        return model._native()
    if not isinstance(model, (str, os.PathLike)):
        raise UsageError(
            f"a model is a name, a Stan program, or one of mcvi.from_numpyro, from_pymc, from_jax, from_torch and external; "
            f"not {type(model).__name__}"
        )
    text = os.fspath(model)
    if isinstance(model, str) and "~" in text and "{" not in text and not isinstance(data, (str, os.PathLike, type(None))):
        return regression(text, data)
    is_program = isinstance(model, str) and ("{" in text or "\n" in text)
    if not is_program and not text.endswith(".stan"):
        return _mcvi.open_model(text, data, target)
    program = {"text": text} if is_program else {"file": text}
    if data is None:
        return _mcvi.stan_model(**program)
    if isinstance(data, (str, os.PathLike)):
        return _mcvi.stan_model(**program, data_file=data)
    return _mcvi.stan_model(**program, data=_data.to_json(data))


def fit(
    model: Any,
    data: Any = None,
    *,
    target: Optional[str] = None,
    chain: Optional[Any] = None,
    steps: Optional[int] = None,
    leapfrogs: Optional[int] = None,
    covariance: Optional[str] = None,
    starts: Optional[int] = None,
    iterations: Optional[int] = None,
    seconds: Optional[float] = None,
    rate: Optional[float] = None,
    draws: Optional[int] = None,
    raw: bool = False,
    seed: int = 1,
    threads: Optional[int] = None,
    device: Optional[str] = None,
    full_precision: bool = False,
    progress: Optional[bool] = None,
) -> Posterior:
    """Fit a posterior: independent draws, a bound on log p(x), and a verdict.

    Parameters
    ----------
    model
        A Stan program (a path ending in ``.stan``, or its text), the name of a built-in posterior (``mcvi list``), or a model
        made by :func:`mcvi.regression` (a formula may be given as it is), :func:`mcvi.from_numpyro`, :func:`mcvi.from_pymc`, :func:`mcvi.from_jax`, :func:`mcvi.from_torch` or
        :func:`mcvi.external`.
    data
        For a Stan program: a dictionary of numbers, lists, arrays, series and frames, or the path of a file of JSON. For a
        formula: a frame, or the path of a table.
    chain
        The chain after the Gaussian: ``"auto"`` (as long as needed, the default), ``"none"``, ``"hamiltonian"``, a
        :class:`mcvi.Chain`, or a file that describes one.
    steps, leapfrogs
        The length of the chain, with ``chain="hamiltonian"``.
    covariance
        Of the Gaussian: ``"full"`` or ``"diagonal"``.
    iterations, seconds
        Limits for fitting. Either ends the fit early; :meth:`Posterior.resume` goes on.
    draws, raw
        The draws to keep, 4000 by default, and whether they are kept as they are, with their weights.
    seed
        The same seed gives the same result, here and with the command.
    threads, device, full_precision
        Hardware: ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"auto"``. Results do not depend on the number of threads.
    progress
        Whether to show progress; by default in terminals and notebooks.

    Ctrl-C ends the fit and returns what there is.

    >>> post = mcvi.fit("model.stan", data={"N": 3, "y": [1.0, 2.0, 0.5]})
    >>> print(post)
    """
    opened = open_model(model, data, target)
    options = _options.words(
        {
            "chain": chain,
            "steps": steps,
            "leapfrogs": leapfrogs,
            "covariance": covariance,
            "starts": starts,
            "iterations": iterations,
            "seconds": seconds,
            "rate": rate,
            "draws": draws,
            "raw": raw,
            "seed": seed,
            "threads": _options.threads(threads, opened),
            "device": device,
            "full_precision": full_precision,
        }
    )
    return watched(lambda observer: _mcvi.fit_model(opened, options, observer), progress)


def load(folder: Union[str, Path], model: Any = None) -> Posterior:
    """A posterior that was saved, by :meth:`Posterior.save` or by ``mcvi fit --out``.

    A model that was made in Python has to be given again; it is checked to be the one that was fitted.
    """
    folder = Path(folder)
    opened = None if model is None else open_model(model)
    return Posterior(_mcvi.open_fit(folder, opened), folder)

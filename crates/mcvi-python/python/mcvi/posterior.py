"""The result of a fit: a verdict, bounds on log p(x), summaries, draws, files."""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
import warnings
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Union

import numpy as np

from mcvi import _html, _mcvi, _options, _progress, _store
from mcvi._errors import UsageError

if TYPE_CHECKING:
    import pandas


class Estimate(NamedTuple):
    """A number with its standard error."""

    value: float
    se: float

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return f"{self.value:.4f} ± {self.se:.4f}"


class Verdict(NamedTuple):
    """Whether to trust a fit: ``good``, ``reweight`` or ``do-not-trust``, why, and what to try."""

    kind: str
    reasons: list[str]
    advice: list[str]

    @property
    def is_good(self) -> bool:
        """Whether bound, draws and summaries can be used as they are."""
        return self.kind == "good"

    def __str__(self) -> str:
        lines = [self.kind, *(f"  because {reason}" for reason in self.reasons)]
        return "\n".join([*lines, *(f"  next: {advice}" for advice in self.advice)])


class Report:
    """A page of HTML: shown in a notebook, saved, or opened in a browser."""

    def __init__(self, html: str) -> None:
        self.html = html

    def save(self, path: Union[str, Path]) -> None:
        """Write the page to a file."""
        Path(path).write_text(self.html, encoding="utf-8")

    def _repr_html_(self) -> str:
        return _html.frame(self.html)


class Posterior:
    """A fitted posterior.

    >>> post = mcvi.fit("eight-schools")
    >>> post.verdict.kind, post.bound, post.log_evidence
    >>> post.summary()          # a DataFrame
    >>> post.draws(1000)        # {"mu": array of shape (1000,), "theta": array of shape (1000, 8), ...}
    >>> post.to_arviz()         # for arviz.summary, loo, plots
    >>> post.save("run")        # the folder that `mcvi fit --out run` writes
    """

    def __init__(self, fit: Union[_mcvi.Fit, _mcvi.SavedFit], folder: Optional[Path] = None) -> None:
        self._fit = fit
        self._folder = folder
        self._temporary: Optional[tempfile.TemporaryDirectory[str]] = None

    def _memory(self, otherwise: str = "the fit is not in memory") -> _mcvi.Fit:
        """The fit, if it is in memory; otherwise an error that says what to do."""
        if isinstance(self._fit, _mcvi.SavedFit):
            raise UsageError(otherwise)
        return self._fit

    @cached_property
    def result(self) -> dict[str, Any]:
        """Everything that ``summary.json`` has."""
        if self._folder is not None:
            return json.loads((self._folder / "summary.json").read_text(encoding="utf-8"))
        return json.loads(self._memory().summary())

    @property
    def model(self) -> str:
        """The name of the model."""
        return self.result["model"]

    @property
    def verdict(self) -> Verdict:
        """Whether to trust the fit, why, and what to try."""
        return Verdict(self.result["verdict"], self.result["reasons"], self.result.get("advice", []))

    @property
    def notes(self) -> list[str]:
        """Remarks on the model: its data, its priors, how it is differentiated."""
        return self._fit.model.notes

    @property
    def bound(self) -> Estimate:
        """The lower bound on log p(x)."""
        return _estimate(self.result["bound"])

    @property
    def log_evidence(self) -> Estimate:
        """log p(x) by importance weights."""
        return _estimate(self.result["log_evidence"])

    @property
    def upper_estimate(self) -> Optional[Estimate]:
        """An estimate of log p(x) from above, by the chain run backwards; None where there is none."""
        upper = self.result["upper_estimate"]
        return None if upper is None else _estimate(upper)

    @property
    def pareto_k(self) -> float:
        """The shape of the tail of the weights: above 0.7 they are not reliable."""
        return _number(self.result["pareto_k"])

    @property
    def effective_share(self) -> float:
        """The effective sample size, as a share of the draws."""
        return _number(self.result["ess_fraction"])

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the fit."""
        return self.result["interrupted"]

    @property
    def iterations(self) -> int:
        """Iterations over all chains that were tried."""
        return self.result["iterations"]

    @property
    def seconds(self) -> float:
        """What the fit took."""
        return self.result["seconds"]

    @property
    def attempts(self) -> list[dict[str, Any]]:
        """The chains that were tried, and how it went."""
        return self.result["attempts"]

    def summary(self) -> pandas.DataFrame:
        """Mean, standard deviation and quantiles of every element of every parameter and generated quantity.

        A mean or a standard deviation that the tails do not allow to be estimated is missing.
        """
        try:
            import pandas
        except ImportError:
            raise ImportError("summary() makes a DataFrame: pip install pandas; or see .result['parameters']") from None
        return pandas.DataFrame.from_dict(self.result["parameters"], orient="index", dtype=float)

    def draws(self, count: Optional[int] = None, *, raw: bool = False, seed: Optional[int] = None) -> dict[str, np.ndarray]:
        """Independent draws by name, of shape ``(count, ...)``, of equal weight unless ``raw``.

        Without a number these are the draws that are saved; with one they are new, as ``mcvi draw`` makes them. They come with
        ``log_p``, and with ``log_weight`` if they do not have equal weight: because raw ones were asked for, or because the
        weights are not reliable.
        """
        if count is None and not raw and seed is None:
            return self._saved_draws()
        if count is None:
            count = len(self._saved_draws()["log_p"])
        if count < 1:
            raise UsageError(f"draws: at least one is needed, not {count}")
        return self._fit.draw(count, raw, seed)

    def _saved_draws(self) -> dict[str, np.ndarray]:
        if self._folder is None:
            return self._memory().draws()
        groups = {group.name: group.variables for group in self._groups()}
        merged = {}
        for name, dims, values in [*groups["posterior"], *groups["sample_stats"]]:
            if dims[:2] == ("chain", "draw"):
                merged[{"lp": "log_p"}.get(name, name)] = values.reshape(-1, *values.shape[2:])
        return {name: values for name, values in merged.items() if name != "log_q"}

    def _groups(self) -> list[_store.Group]:
        if self._folder is None:
            return _store.from_native(self._memory().groups())
        return _store.read(self._folder / "arviz.zarr")

    def to_arviz(self) -> Any:
        """For ArviZ: a DataTree with its 1.x series (or where only xarray is installed), InferenceData with 0.x.

        Draws are independent; they come as four chains for tools that expect several.
        """
        from mcvi import _arviz

        return _arviz.convert(self._groups())

    def predict(self, frame: Any, *, missing: str = "refuse", seed: int = 1) -> dict[str, Any]:
        """What a regression predicts for new rows: ``mean`` (the expected response) and ``drawn`` (new responses), with a row
        for each draw. Only of a fit in memory.
        """
        from mcvi.regression import columns

        fit = self._memory("a saved fit has not kept all its draws; resume() gives them again")
        return fit.predict(columns(frame), missing, seed)

    def diagnostics(self) -> dict[str, np.ndarray]:
        """Arrays behind the verdict: ``z``, ``log_weight`` and ``log_p`` of all its draws, the ``trace`` of the fit (iteration,
        bound, standard error) and what ``steps`` of the chain add (with standard error). Only of a fit in memory.
        """
        return self._memory("a saved fit has not kept them; resume() gives them again").diagnostics()

    def plot(self) -> Any:
        """The bound during the fit, and the weights of the draws: a figure of matplotlib, where it is installed."""
        import matplotlib.pyplot as plt

        found = self.diagnostics()
        figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.5))
        iteration, bound, se = found["trace"].T
        left.plot(iteration, bound)
        left.fill_between(iteration, bound - se, bound + se, alpha=0.3)
        left.set(xlabel="iteration", ylabel="bound on log p(x)")
        weights = found["log_weight"]
        right.hist(weights[np.isfinite(weights)], bins=80)
        right.set(xlabel="log weight", title=f"Pareto k̂ = {self.pareto_k:.2f}")
        figure.tight_layout()
        return figure

    def report(self) -> Report:
        """The report, a page with figures: it shows itself in a notebook."""
        if self._folder is not None:
            return Report((self._folder / "report.html").read_text(encoding="utf-8"))
        return Report(self._memory().report())

    def save(self, folder: Union[str, Path]) -> None:
        """Write the folder that ``mcvi fit --out FOLDER`` writes; it must not exist yet. :func:`mcvi.load` reads it."""
        if self._folder is None:
            self._memory().save(folder)
            return
        import shutil

        if Path(folder).exists():
            raise UsageError(f"the folder {folder} exists; choose another, or remove it")
        shutil.copytree(self._folder, folder)

    def resume(
        self,
        *,
        iterations: Optional[int] = None,
        seconds: Optional[float] = None,
        draws: Optional[int] = None,
        threads: Optional[int] = None,
        device: Optional[str] = None,
        progress: Optional[bool] = None,
    ) -> Posterior:
        """Go on where the fit stopped: the result is what it would have been without the stop.

        ``iterations`` counts those before, ``seconds`` starts anew.
        """
        threads = _options.threads(threads, self._fit.model)
        options = {"iterations": iterations, "seconds": seconds, "draws": draws, "threads": threads, "device": device}
        return watched(lambda observer: self._fit.resume(_options.words(options), observer), progress)

    def __repr__(self) -> str:
        return f"<mcvi.Posterior of {self.model}: {self.verdict.kind}, log p(x) ≥ {self.bound}>"

    def __str__(self) -> str:
        lines = [
            f"{self.model}: {self.verdict}",
            *(f"note: {note}" for note in self.notes),
            "",
            f"log p(x) ≥ {self.bound}",
            f"log p(x) ≈ {self.log_evidence}",
        ]
        names = self.result["parameters"]
        width = max((len(name) for name in names), default=0)
        columns = ["mean", "sd", "q05", "q50", "q95"]
        lines += ["", " " * width + "".join(f"{column:>10}" for column in columns)]
        for name, row in list(names.items())[: _html.SHOWN]:
            lines.append(f"{name:<{width}}" + "".join(f"{_html.number(row[column]):>10}" for column in columns))
        if len(names) > _html.SHOWN:
            lines.append(f"… and {len(names) - _html.SHOWN} more; see summary()")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return _html.posterior(self)

    def __reduce__(self) -> Any:
        """A pickled posterior is its folder; a model made in Python is pickled with it."""
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "run"
            self.save(folder)
            packed = io.BytesIO()
            with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
                archive.add(folder, "run")
        return _unpickled, (packed.getvalue(), self._fit.model.python_object)


def _unpickled(packed: bytes, model: Any) -> Posterior:
    from mcvi._fit import load

    place = tempfile.TemporaryDirectory(prefix="mcvi-")
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(place.name, filter="data")
    posterior = load(Path(place.name) / "run", model)
    posterior._temporary = place  # removed with the posterior
    return posterior


def watched(fit: Any, progress: Optional[bool]) -> Posterior:
    """A fit while its progress is shown."""
    shown = _progress.choose(progress)
    try:
        posterior = Posterior(fit(shown))
    finally:
        if shown is not None:
            shown.close()
    if posterior.interrupted:
        warnings.warn("the fit was interrupted; this is the result so far, and resume() goes on", stacklevel=3)
    return posterior


def _number(value: Optional[float]) -> float:
    return float("nan") if value is None else value


def _estimate(value: dict[str, Optional[float]]) -> Estimate:
    # A bound of minus infinity has no number in JSON.
    at = value["value"]
    return Estimate(float("-inf") if at is None else at, _number(value["se"]))

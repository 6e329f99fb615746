"""Chains as values: an initial Gaussian, then transitions with their inverse models."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Mapping, Optional, Sequence, Union

from mcvi import _mcvi
from mcvi._errors import UsageError

#: A density: ``"constant"``, ``"linear"`` or ``"network"`` in position and gradient, or a description as in a chain's file.
Density = Union[str, Mapping[str, Any]]

INPUTS = {"position": True, "gradient": True}
HIDDEN = [32, 32]


def density(written: Density) -> Any:
    """A density as in a chain's file."""
    known: dict[str, Any] = {
        "constant": {"kind": "gaussian"},
        "linear": {"kind": "gaussian", "mean": {"linear": INPUTS}},
        "network": {
            "kind": "gaussian",
            "mean": {"network": {"inputs": INPUTS, "network": {"kind": "dense", "hidden": HIDDEN}}},
            "covariance": "predicted",
        },
    }
    if isinstance(written, Mapping):
        return dict(written)
    if written not in known:
        raise UsageError(f"a density is one of {', '.join(known)}, or a dictionary; not {written!r}")
    return known[written]


@dataclass(frozen=True)
class Transition:
    """A step of any kind that the library has (``"gibbs"``, ``"langevin"``, ...), with its settings."""

    kind: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def describe(self) -> dict[str, Any]:
        """As in a chain's file."""
        return {"kind": self.kind, **self.settings}


@dataclass(frozen=True)
class Hamiltonian:
    """Leapfrogs from a random momentum: Algorithm 3 of the paper.

    ``momentum`` and ``inverse`` are densities of position and gradient: ``"constant"``, ``"linear"``, ``"network"``, or a
    description; ``inverse`` may be ``"reversed"``, too.
    """

    leapfrogs: int = 1
    momentum: Density = "linear"
    inverse: Density = "linear"
    mass: str = "diagonal"
    initial_step_size: Optional[float] = None

    def describe(self) -> dict[str, Any]:
        """As in a chain's file."""
        inverse = "reversed" if self.inverse == "reversed" else {"learned": density(self.inverse)}
        described = {
            "kind": "hamiltonian",
            "leapfrogs": self.leapfrogs,
            "mass": self.mass,
            "momentum": density(self.momentum),
            "inverse": inverse,
        }
        return described | ({} if self.initial_step_size is None else {"initial_step_size": self.initial_step_size})


@dataclass(frozen=True)
class Uha:
    """Leapfrogs on a bridge, with a momentum that is kept from step to step: uncorrected Hamiltonian annealing."""

    leapfrogs: int = 1
    mass: str = "diagonal"
    initial_step_size: Optional[float] = None

    def describe(self) -> dict[str, Any]:
        """As in a chain's file."""
        described = {"kind": "uha", "leapfrogs": self.leapfrogs, "mass": self.mass}
        return described | ({} if self.initial_step_size is None else {"initial_step_size": self.initial_step_size})


class Chain:
    """A chain, as a value: it can be compared, printed, pickled, and given to :func:`mcvi.fit`.

    >>> chain = mcvi.Chain(initial="full", steps=[mcvi.Hamiltonian(leapfrogs=4, inverse="network")])
    >>> mcvi.Chain(steps=8 * [mcvi.Uha()], annealing="learned", whitened=True)
    Chain: 8 UHA steps of 1 leapfrog, annealed at learned temperatures
    >>> mcvi.fit("funnel", chain=chain)
    """

    def __init__(
        self,
        initial: Union[str, Mapping[str, Any]] = "diagonal",
        steps: Sequence[Union[Hamiltonian, Uha, Transition]] = (),
        annealing: Union[None, str, Sequence[float]] = None,
        whitened: bool = False,
    ) -> None:
        described: dict[str, Any] = {
            "initial": {"kind": "gaussian", "covariance": initial} if isinstance(initial, str) else dict(initial),
            "steps": [{"transition": step.describe(), "count": 1} for step in steps],
            "whitened": whitened,
        }
        if annealing is not None:
            described["annealing"] = annealing if isinstance(annealing, str) else {"fixed": [float(b) for b in annealing]}
        self._read(described)

    def _read(self, described: dict[str, Any]) -> None:
        grouped: list[dict[str, Any]] = []
        for steps in described.get("steps", []):
            # Equal steps after each other are one kind of step.
            if grouped and {**grouped[-1], "count": 0} == {**steps, "count": 0}:
                grouped[-1]["count"] += steps.get("count", 1)
            else:
                grouped.append(dict(steps))
        self._json, self._words = _mcvi.describe_chain(json.dumps({**described, "steps": grouped}))

    @classmethod
    def from_dict(cls, described: Mapping[str, Any]) -> Chain:
        """A chain as its file describes it."""
        chain = cls.__new__(cls)
        chain._read(dict(described))
        return chain

    def to_json(self) -> str:
        """The description that ``mcvi fit --chain`` reads, with every default."""
        return self._json

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Chain) and json.loads(self._json) == json.loads(other._json)

    def __hash__(self) -> int:
        return hash(self._words)

    def __repr__(self) -> str:
        return f"Chain: {self._words}"

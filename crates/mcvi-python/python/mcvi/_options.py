"""Keyword arguments as options of the command, so that both have the same meaning and the same mistakes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Mapping, Optional

if TYPE_CHECKING:
    from mcvi import _mcvi


def words(options: Mapping[str, Any]) -> list[str]:
    """``{"full_precision": True, "seed": 7}`` as ``["--full-precision", "--seed=7"]``; what is None is left out."""
    out = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            out.append(option)
        elif value is not None and value is not False:
            if hasattr(value, "to_json"):
                value = value.to_json()
            out.append(f"{option}={os.fspath(value) if isinstance(value, os.PathLike) else value}")
    return out


def threads(wanted: Optional[int], model: _mcvi.Model) -> Optional[int]:
    """The threads to use: one for a model that calls Python, since others could only wait for the interpreter's lock."""
    return 1 if wanted is None and model.calls_python else wanted

"""Data of Python as JSON, for Stan programs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from mcvi._errors import UsageError


def to_json(data: Any) -> str:
    """Numbers, lists, arrays, series and frames by name, as JSON."""
    if not isinstance(data, Mapping):
        columns = getattr(data, "columns", None)
        if columns is None:
            raise UsageError(f"data must be a dictionary or a frame, not {type(data).__name__}")
        # A frame: its columns, and their length, as Stan programs often ask for.
        data = {**({} if "N" in columns else {"N": len(data)}), **{str(name): data[name] for name in columns}}
    return json.dumps({str(name): plain(value, str(name)) for name, value in data.items()})


def plain(value: Any, name: str) -> Any:
    """A value as JSON has it: numbers and nested lists of them."""
    if isinstance(value, Mapping):
        return {str(key): plain(inner, f"{name}.{key}") for key, inner in value.items()}
    if hasattr(value, "tolist"):  # arrays and scalars of NumPy, JAX and torch, and series of pandas
        value = value.tolist()
    elif hasattr(value, "to_list"):  # series of polars
        value = value.to_list()
    elif hasattr(value, "to_numpy"):  # frames, as matrices
        value = value.to_numpy().tolist()
    if isinstance(value, (list, tuple)):
        return [plain(inner, name) for inner in value]
    if isinstance(value, complex):
        return [value.real, value.imag]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Inf" if value > 0 else "-Inf"
    if isinstance(value, (bool, int, float)):
        return value
    raise UsageError(f"the data item {name} must be of numbers, not {value!r}")

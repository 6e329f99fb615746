"""The store of a saved run (``arviz.zarr``) as arrays, without a library for it: its arrays are plain bytes and JSON."""

from __future__ import annotations

import itertools
import json
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class Variable(NamedTuple):
    """An array with names of its dimensions."""

    name: str
    dims: tuple[str, ...]
    values: np.ndarray


class Group(NamedTuple):
    """What ArviZ has a name for: ``posterior``, ``log_likelihood``, and so on."""

    name: str
    attributes: dict[str, Any]
    variables: list[Variable]


def from_native(groups: list[Any]) -> list[Group]:
    """Groups as the native module gives them."""

    def variable(name: str, dims: list[str], values: Any) -> Variable:
        return Variable(name, tuple(dims), np.asarray(values))

    return [Group(name, json.loads(attributes), [variable(*v) for v in variables]) for name, attributes, variables in groups]


def read(folder: Path) -> list[Group]:
    """Groups of a store in a folder."""

    def has(path: Path, name: str) -> bool:
        return (path / name).is_file()

    groups = sorted(path for path in folder.iterdir() if has(path, ".zgroup"))
    names = {path: sorted(inner for inner in path.iterdir() if has(inner, ".zarray")) for path in groups}
    return [Group(path.name, attributes(path), [Variable(inner.name, *array(inner)) for inner in names[path]]) for path in groups]


def attributes(path: Path) -> dict[str, Any]:
    file = path / ".zattrs"
    return json.loads(file.read_text()) if file.is_file() else {}


def array(path: Path) -> tuple[tuple[str, ...], np.ndarray]:
    """Dimensions and values of an array in chunks."""
    about = json.loads((path / ".zarray").read_text())
    shape, chunks = about["shape"], about["chunks"]
    compressor = (about["compressor"] or {"id": None})["id"]
    if compressor not in (None, "zlib", "gzip"):
        raise ValueError(f"{path}: chunks are compressed by {compressor}, which only the library zarr reads")
    values = np.empty(shape, dtype=about["dtype"])
    separator = about.get("dimension_separator", ".")
    for place in itertools.product(*[range(-(-n // c)) for n, c in zip(shape, chunks)]):
        stored = (path / (separator.join(map(str, place)) or "0")).read_bytes()
        if compressor:
            stored = zlib.decompress(stored, wbits=47)
        chunk = np.frombuffer(stored, dtype=about["dtype"]).reshape(chunks)
        to = tuple(slice(i * c, min((i + 1) * c, n)) for i, c, n in zip(place, chunks, shape))
        values[to] = chunk[tuple(slice(0, s.stop - s.start) for s in to)]
    return tuple(attributes(path).get("_ARRAY_DIMENSIONS", [])), values

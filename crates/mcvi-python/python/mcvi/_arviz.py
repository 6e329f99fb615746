"""A posterior for ArviZ: a DataTree for its 1.x series, InferenceData for 0.x."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any, Sequence

from mcvi._store import Group


def convert(groups: Sequence[Group]) -> Any:
    """Groups as the installed ArviZ has them."""
    datasets = {group.name: dataset(group) for group in groups}
    if series() == 0:
        import arviz

        return arviz.InferenceData(**datasets)
    import xarray

    return xarray.DataTree.from_dict(datasets)


def series() -> int:
    """The major version of ArviZ; where it is not installed, that of those who need only xarray."""
    try:
        return int(version("arviz").split(".")[0])
    except PackageNotFoundError:
        return 1


def dataset(group: Group) -> Any:
    """A group as a dataset of xarray."""
    try:
        import xarray
    except ImportError:
        raise ImportError("to_arviz needs xarray, which comes with ArviZ: pip install arviz") from None
    coords: dict[str, Any] = {name: values for name, axes, values in group.variables if axes == (name,)}
    arrays = {name: (axes, values) for name, axes, values in group.variables if name not in coords}
    for axes, values in arrays.values():
        for axis, n in zip(axes, values.shape):
            coords.setdefault(axis, range(n))
    return xarray.Dataset(arrays, coords=coords, attrs=group.attributes)

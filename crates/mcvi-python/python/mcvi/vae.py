"""Auto-encoders whose posterior is a Markov chain, on arrays of images: the runs and the files of ``mcvi vae``."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Optional, Union

import numpy as np

from mcvi import _mcvi, _options, _progress
from mcvi._errors import UsageError
from mcvi.posterior import Estimate


class VAE:
    """A deep generative model of binary images: Bernoulli pixels given latent variables, whose posterior is a chain.

    Parameters are the options of ``mcvi vae train``, in Python's spelling: ``leapfrogs``, ``steps``, ``kernel``, ``latent``,
    ``hidden``, ``layers``, ``decoder``, ``inference``, ``epochs``, ``batch``, ``rate``, ``seed``, and so on.

    >>> vae = mcvi.VAE(leapfrogs=4, latent=8, epochs=20).fit(images)      # [n, rows, columns]: 0..1, booleans, or bytes
    >>> vae.bound(images), vae.log_p(images, samples=1000)
    >>> vae.sample(16)
    """

    def __init__(
        self,
        leapfrogs: Optional[int] = None,
        *,
        device: str = "auto",
        threads: Optional[int] = None,
        **settings: Any,
    ) -> None:
        self.settings = {"leapfrogs": leapfrogs, "device": device, "threads": threads, **settings}
        self._folder: Optional[Path] = None
        self._temporary: Optional[tempfile.TemporaryDirectory[str]] = None
        self._deep: Optional[_mcvi.DeepModel] = None
        self.result: dict[str, Any] = {}

    def fit(
        self,
        images: Any,
        valid: Any = None,
        *,
        folder: Union[None, str, Path] = None,
        progress: Optional[bool] = None,
    ) -> VAE:
        """Train on images: an array, or a folder of images as ``mcvi vae train --data`` reads it.

        Without ``valid`` a part of the images is held out for validation. The run is kept in ``folder``, which must not exist;
        without one it lasts as long as this object, unless it is saved. Ctrl-C ends training; what there is can be used.
        """
        place = None
        if folder is None:
            place = tempfile.TemporaryDirectory(prefix="mcvi-")
            folder = Path(place.name) / "run"
        folder = Path(folder)
        if not isinstance(images, (str, os.PathLike)):
            beside = folder.with_name(folder.name + "-images")
            images = _written(beside, images, valid)
        elif valid is not None:
            raise UsageError("valid is for arrays; a folder has its validation images in it")
        options = _options.words({**self.settings, "data": images, "out": folder})
        shown = _progress.choose(progress)
        try:
            self.result = json.loads(_mcvi.train_vae(options, shown))
        finally:
            if shown is not None:
                shown.close()
        self._temporary = place
        return self._opened(folder)

    def _opened(self, folder: Path) -> VAE:
        self._folder, self._deep = folder, _mcvi.open_vae(folder)
        return self

    @classmethod
    def load(cls, folder: Union[str, Path]) -> VAE:
        """The model of a run: of :meth:`save`, or of ``mcvi vae train --out``."""
        folder = Path(folder)
        vae = cls()._opened(folder)
        summary = folder / "summary.json"
        vae.result = json.loads(summary.read_text(encoding="utf-8")) if summary.is_file() else {}
        return vae

    def save(self, folder: Union[str, Path]) -> None:
        """Copy the run to a folder, which must not exist; ``mcvi vae evaluate`` and its siblings work on it."""
        if self._folder is None:
            raise UsageError("there is no run yet: fit the model first")
        if Path(folder).exists():
            raise UsageError(f"the folder {folder} exists; choose another, or remove it")
        shutil.copytree(self._folder, folder, ignore=shutil.ignore_patterns(".lock"))
        beside = self._folder.with_name(self._folder.name + "-images")
        if beside.is_dir():
            there = Path(folder).with_name(Path(folder).name + "-images")
            shutil.copytree(beside, there)
            settings = Path(folder) / "settings.toml"
            text = settings.read_text(encoding="utf-8")
            settings.write_text(text.replace(str(beside.resolve()), str(there.resolve())), encoding="utf-8")

    @property
    def _model(self) -> _mcvi.DeepModel:
        if self._deep is None:
            raise UsageError("the model is not trained yet: call fit first")
        return self._deep

    def _images(self, images: Any) -> np.ndarray:
        array = as_bytes(images)
        if list(array.shape[1:]) != list(self._model.image):
            raise UsageError(f"images are {list(array.shape[1:])}, the model is for {list(self._model.image)}")
        return array

    def bound(self, images: Any, samples: int = 1, *, seed: int = 1) -> Estimate:
        """The mean lower bound on log p(x) of images, in nats."""
        return _mean(self._model.evidence(self._images(images), samples, seed)[0])

    def log_p(self, images: Any, samples: int = 1000, *, seed: int = 1) -> Estimate:
        """The mean log p(x) of images by importance sampling with so many draws each."""
        return _mean(self._model.evidence(self._images(images), samples, seed)[1])

    def encode(self, images: Any, *, seed: int = 1) -> np.ndarray:
        """A draw of the latent variables of each image: ``[n, latent]``."""
        return self._model.encode(self._images(images), seed)

    def decode(self, z: Any) -> np.ndarray:
        """The probability of every pixel, given latent variables: ``[n, rows, columns]``."""
        z = np.atleast_2d(np.asarray(z, dtype=np.float64))
        if z.shape[1] != self._model.latent:
            raise UsageError(f"there are {self._model.latent} latent variables, not {z.shape[1]}")
        return self._model.decode(z)

    def reconstruct(self, images: Any, *, seed: int = 1) -> np.ndarray:
        """Images encoded and decoded."""
        return self.decode(self.encode(images, seed=seed))

    def sample(self, count: int = 16, *, binary: bool = False, seed: int = 1) -> np.ndarray:
        """Images drawn from the model: the probability of every pixel, or ``binary`` ones."""
        return self._model.sample(count, binary, seed)

    def __repr__(self) -> str:
        chosen = ", ".join(f"{name}={value!r}" for name, value in self.settings.items() if value is not None)
        return f"<mcvi.VAE({chosen}){'' if self._deep is None else ', trained'}>"


def as_bytes(images: Any) -> np.ndarray:
    """Images as bytes ``[n, rows, columns]``: 0 black, 255 white."""
    array = np.asarray(images)
    if array.ndim == 2:
        array = array[None]
    if array.ndim != 3 or 0 in array.shape:
        raise UsageError(f"images must be an array [n, rows, columns], not of shape {array.shape}")
    if array.dtype == np.uint8 and array.max() > 1:
        return np.ascontiguousarray(array)
    values = array.astype(np.float64)
    if not (values.min() >= 0 and values.max() <= 1):
        raise UsageError("pixels must be between 0 and 1, booleans, or bytes from 0 to 255")
    return np.round(255 * values).astype(np.uint8)


def _written(folder: Path, images: Any, valid: Any) -> Path:
    """Images as files that the command reads: what is to be loaded."""
    array = as_bytes(images)
    folder.mkdir(parents=True)
    if valid is None:
        file = folder / "images.npy"
        np.save(file, array)
        return file
    np.save(folder / "train.npy", array)
    np.save(folder / "valid.npy", as_bytes(valid))
    return folder


def _mean(values: np.ndarray) -> Estimate:
    spread = float(values.std(ddof=1)) if len(values) > 1 else float("nan")
    return Estimate(float(values.mean()), spread / len(values) ** 0.5)

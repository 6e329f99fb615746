"""Auto-encoders on arrays: the runs and the files of the command."""

import json

import mcvi
import numpy as np
import pytest

SMALL = {"latent": 2, "hidden": 16, "layers": 1, "epochs": 3, "batch": 20, "device": "cpu"}


@pytest.fixture(scope="module")
def images():
    """Bars, upright or level, with some noise."""
    rng = np.random.default_rng(1)
    pictures = np.zeros((240, 6, 6))
    for picture in pictures:
        at = rng.integers(6)
        picture[(at, slice(None)) if rng.random() < 0.5 else (slice(None), at)] = 1
    return np.abs(pictures - (rng.random(pictures.shape) < 0.02))


@pytest.fixture(scope="module")
def vae(images):
    return mcvi.VAE(leapfrogs=1, **SMALL).fit(images[:200], images[200:])


def test_images_go_in_and_come_out(vae, images):
    few = images[:10]
    bound, log_p = vae.bound(few, samples=200), vae.log_p(few, samples=200)
    assert bound.value <= log_p.value and np.isfinite(log_p.value) and bound.se > 0
    assert vae.encode(few).shape == (10, 2) and not np.array_equal(vae.encode(few), vae.encode(few, seed=2))
    assert vae.decode([[0.0, 0.0]]).shape == (1, 6, 6) and vae.reconstruct(few).shape == few.shape
    assert vae.sample(5).shape == (5, 6, 6) and set(np.unique(vae.sample(5, binary=True))) <= {0.0, 1.0}
    as_bytes, as_flags = (255 * few).astype(np.uint8), few.astype(bool)
    assert vae.bound(as_bytes) == vae.bound(as_flags) == vae.bound(few)


def test_a_run_is_the_commands(vae, images, tmp_path, command):
    (tmp_path / "data").mkdir()
    for name, part in (("train", images[:200]), ("valid", images[200:])):
        np.save(tmp_path / "data" / f"{name}.npy", (255 * part).astype(np.uint8))
    options = [f"--{name}={value}" for name, value in SMALL.items()]
    command("vae", "train", "--data", tmp_path / "data", "--leapfrogs", 1, *options, "--out", tmp_path / "command")
    vae.save(tmp_path / "python")
    models = [(tmp_path / who / "model.safetensors").read_bytes() for who in ("command", "python")]
    assert models[0] == models[1]
    again = mcvi.VAE.load(tmp_path / "python")
    assert again.bound(images[:5]) == vae.bound(images[:5]) and again.result == vae.result
    shown = command("vae", "evaluate", tmp_path / "python", "--split", "valid", "--samples", 10, "--json")
    assert json.loads(shown.stdout)["images"] == 40


def test_mistakes_are_named(vae, images, tmp_path):
    with pytest.raises(mcvi.UsageError, match="not trained yet"):
        mcvi.VAE().sample()
    with pytest.raises(mcvi.UsageError, match="between 0 and 1"):
        vae.bound(3.0 * images[:2])
    with pytest.raises(mcvi.UsageError, match=r"images are \[3, 6\]"):
        vae.bound(images[:2, :3])
    with pytest.raises(mcvi.UsageError, match="unexpected argument"):
        mcvi.VAE(wings=2).fit(images)
    with pytest.raises(mcvi.UsageError, match="2 latent variables"):
        vae.decode(np.zeros((1, 3)))

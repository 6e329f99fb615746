"""The notebooks of the documentation run from beginning to end."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "docs" / "notebooks"
NEEDS = {"numpyro": ["numpyro"], "eight_schools": ["arviz", "matplotlib"], "autoencoder": ["matplotlib"]}


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.ipynb")), ids=lambda file: file.stem)
def test_a_notebook_runs(file):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    for library in NEEDS[file.stem]:
        pytest.importorskip(library)
    notebook = nbformat.read(file, as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    shown = "".join(str(cell.get("outputs", "")) for cell in notebook.cells)
    assert "log p(x)" in shown and "Traceback" not in shown

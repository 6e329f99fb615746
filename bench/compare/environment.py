"""The virtual environment of the comparisons."""
import hashlib
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE.parents[1] / "target" / "compare-venv"


def python(folder, wanted, who):
    """The environment's Python, made and filled with the `wanted` requirements if it is not there yet."""
    folder = pathlib.Path(folder)
    python = folder / "bin" / "python"
    if not python.exists():
        print(f"making {folder}", file=sys.stderr)
        if subprocess.run([sys.executable, "-m", "venv", str(folder)]).returncode:
            sys.exit(f"{who}: cannot make a virtual environment in {folder} (is the venv module installed?); "
                     "delete what is left of it before trying again")
    for name in wanted:
        text = (HERE / name).read_bytes()
        stamp = folder / f"{name}.done"
        if stamp.exists() and stamp.read_text() == hashlib.sha256(text).hexdigest():
            continue
        print(f"installing {name}", file=sys.stderr)
        command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(HERE / name)]
        if subprocess.run(command, stdout=sys.stderr).returncode:
            sys.exit(f"{who}: pip could not install {HERE / name} into {folder}")
        stamp.write_text(hashlib.sha256(text).hexdigest())
    return str(python)

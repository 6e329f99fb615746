"""Ctrl-C ends a fit and leaves what there is."""

import json
import signal
import subprocess
import sys

import mcvi
import numpy as np
import pytest

SCRIPT = """
import os, signal, threading, warnings, json, sys
import numpy as np, mcvi
{model}
threading.Timer(float(sys.argv[1]), lambda: os.kill(os.getpid(), signal.SIGINT)).start()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    post = mcvi.fit(model, chain="hamiltonian", steps=8, leapfrogs=8)
further = post.resume(seconds=1)
print(json.dumps([post.interrupted, post.iterations, [str(w.message) for w in caught], further.interrupted, further.iterations]))
"""

# With calls of Python, so that it takes long.
FUNNEL = """
def gradient(z):
    v, x = z.T
    return np.stack([-v / 9 + x**2 * np.exp(-v) / 2 - 0.5, -x * np.exp(-v)], axis=1)
def value(z):
    v, x = z.T
    return -v**2 / 18 - x**2 * np.exp(-v) / 2 - v / 2
model = mcvi.external(value, gradient, dim=2)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("model, seconds", [('model = "funnel"', "2.5"), (FUNNEL, "4")])
def test_the_first_ctrl_c_returns_what_there_is(model, seconds):
    script = SCRIPT.format(model=model)
    done = subprocess.run([sys.executable, "-c", script, seconds], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    interrupted, iterations, warnings, again, further = json.loads(done.stdout)
    assert interrupted and any("resume() goes on" in warning for warning in warnings)
    assert not again and further >= iterations > 0


def test_an_observer_that_fails_ends_the_fit():
    def observer(done, how):
        raise LookupError("seen enough")

    with pytest.raises(LookupError, match="seen enough"):
        mcvi._mcvi.fit_model(mcvi._mcvi.open_model("funnel"), ["--chain=hamiltonian"], observer)
    assert np.isfinite(mcvi.fit("banana", chain="none").bound.value)


def test_the_command_of_the_package_ends_as_the_other(tmp_path):
    fit = subprocess.Popen(
        [sys.executable, "-m", "mcvi", "fit", "funnel", "--chain", "hamiltonian", "--steps", "64", "--out", tmp_path / "run"],
        stderr=subprocess.PIPE,
    )
    with pytest.raises(subprocess.TimeoutExpired):
        fit.wait(4)
    fit.send_signal(signal.SIGINT)
    assert fit.wait(60) == 130
    assert mcvi.load(tmp_path / "run").interrupted


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="signals of POSIX")
def test_what_another_handler_raises_is_raised():
    def late(number, frame):
        raise TimeoutError("too late")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, 2.0)
    try:
        with pytest.raises(TimeoutError, match="too late"):
            mcvi.fit("funnel", chain="hamiltonian", steps=8, leapfrogs=8, progress=False)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

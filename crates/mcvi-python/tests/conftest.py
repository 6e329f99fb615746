"""What tests share: the command, and small models."""

import os
import subprocess
import sys

import pytest

SCHOOLS = """
data { int J; array[J] real y; array[J] real<lower=0> sigma; }
parameters { real mu; real<lower=0> tau; vector[J] eta; }
transformed parameters { vector[J] theta = mu + tau * eta; }
model {
  mu ~ normal(0, 5);
  tau ~ cauchy(0, 5);
  eta ~ std_normal();
  y ~ normal(theta, sigma);
}
generated quantities {
  vector[J] log_lik;
  vector[J] y_rep;
  for (j in 1:J) {
    log_lik[j] = normal_lpdf(y[j] | theta[j], sigma[j]);
    y_rep[j] = normal_rng(theta[j], sigma[j]);
  }
}
"""

EFFECTS = [28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0]
ERRORS = [15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0]


@pytest.fixture
def schools():
    """Eight schools as a Stan program, and its data."""
    return SCHOOLS, {"J": 8, "y": EFFECTS, "sigma": ERRORS}


@pytest.fixture
def command():
    """Run the command: that of MCVI_COMMAND (a build of mcvi-cli), else the one that came with the package."""
    words = [os.environ["MCVI_COMMAND"]] if "MCVI_COMMAND" in os.environ else [sys.executable, "-m", "mcvi"]

    def run(*arguments, code=0):
        done = subprocess.run([*words, *map(str, arguments)], capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        return done

    return run

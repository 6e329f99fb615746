"""Reference values for the constraining transforms, written to constraints.json beside this script.

Each transform is written down as in Stan's reference manual, without any care for rounding, in 200 digits; its
Jacobian is found by central differences and the determinant taken numerically.

    pip install mpmath==1.4.1 && python constraints.py
"""

import json
from pathlib import Path

from mpmath import mp

mp.dps = 200
STEP = mp.mpf(10) ** -40


def sigmoid(x):
    return 1 / (1 + mp.exp(-x))


def ordered(u):
    x = [u[0]]
    for v in u[1:]:
        x.append(x[-1] + mp.exp(v))
    return x


def positive_ordered(u):
    x = [mp.exp(u[0])]
    for v in u[1:]:
        x.append(x[-1] + mp.exp(v))
    return x


def simplex(u):
    k, x = len(u) + 1, []
    for i, v in enumerate(u):
        x.append((1 - mp.fsum(x)) * sigmoid(v - mp.log(k - 1 - i)))
    return x + [1 - mp.fsum(x)]


def correlation(u):
    k = 1
    while k * (k - 1) // 2 < len(u):
        k += 1
    z, rows = iter(u), []
    for i in range(k):
        row = []
        for _ in range(i):
            row.append(mp.tanh(next(z)) * mp.sqrt(1 - mp.fsum(v * v for v in row)))
        row.append(mp.sqrt(1 - mp.fsum(v * v for v in row)))
        rows.append(row + [mp.mpf(0)] * (k - 1 - i))
    return rows


def below(rows):
    return [rows[i][j] for i in range(len(rows)) for j in range(i)]


# name: (value, the elements of the value that are free to vary)
TRANSFORMS = {
    "real": (lambda u: list(u), lambda x: x),
    "positive": (lambda u: [mp.exp(v) for v in u], lambda x: x),
    "lower": (lambda u: [mp.exp(v) - mp.mpf(1.5) for v in u], lambda x: x),
    "upper": (lambda u: [mp.mpf(2.25) - mp.exp(v) for v in u], lambda x: x),
    "interval": (lambda u: [4 * sigmoid(v) - 1 for v in u], lambda x: x),
    "unit": (lambda u: [sigmoid(v) for v in u], lambda x: x),
    "ordered": (ordered, lambda x: x),
    "positive_ordered": (positive_ordered, lambda x: x),
    "simplex": (simplex, lambda x: x[:-1]),
    "correlation": (correlation, below),
}

SHORT = [[0.0], [-1.3], [30.0], [-40.0]]
PAIRS = [[0.4, -2.1], [12.0, -30.0]]
POINTS = {
    "real": SHORT + PAIRS,
    "positive": SHORT + PAIRS,
    "lower": SHORT + PAIRS,
    "upper": SHORT + PAIRS,
    "interval": SHORT + PAIRS,
    "unit": SHORT + PAIRS,
    "ordered": SHORT + PAIRS + [[-0.7, 0.2, 1.4, -3.0], [2.0, -9.0, 20.0, 1.0]],
    "positive_ordered": SHORT + PAIRS + [[-0.7, 0.2, 1.4, -3.0], [2.0, -9.0, 20.0, 1.0]],
    "simplex": SHORT + PAIRS + [[0.0, 0.0, 0.0, 0.0], [0.3, -1.0, 2.2, 0.1], [30.0, -30.0, 30.0], [35.0, 35.0, -3.0]],
    "correlation": SHORT
    + [[0.3, -0.8, 1.1], [30.0, -30.0, 20.0], [0.0] * 6]
    + [[0.2, -0.5, 0.9, 1.4, -0.1, 0.6], [1.0, -2.0, 30.0, 3.0, 0.0, -30.0]],
}


def log_determinant(transform, select, u):
    n = len(u)
    jacobian = mp.matrix(n, n)
    for j in range(n):
        up, down = list(u), list(u)
        up[j] += STEP
        down[j] -= STEP
        columns = zip(select(transform(up)), select(transform(down)))
        for i, (a, b) in enumerate(columns):
            jacobian[i, j] = (a - b) / (2 * STEP)
    return mp.log(abs(mp.det(jacobian)))


def main():
    cases = []
    for name, points in POINTS.items():
        transform, select = TRANSFORMS[name]
        for point in points:
            u = [mp.mpf(v) for v in point]
            value = transform(u)
            rows = value if name == "correlation" else [value]
            flat = [float(v) for row in rows for v in row]
            jacobian = float(mp.chop(log_determinant(transform, select, u)))
            cases.append({"constraint": name, "u": point, "value": flat, "log_jacobian": jacobian})
    Path(__file__).with_name("constraints.json").write_text("[\n" + ",\n".join(map(json.dumps, cases)) + "\n]\n")


main()

"""Command loop shared by all peers: options, pinning to cores, and the line protocol.

One JSON object per answer line on stdout; whatever else a library prints goes to stderr.
`options` must be called before the array library is imported, since it sets the
environment that fixes the number of threads.
"""
import argparse
import json
import os
import sys
import time

import numpy as np


def options(workload):
    """Parse the common options, pin this process, and fix the thread counts."""
    p = argparse.ArgumentParser()
    p.add_argument("--workload", choices=[workload], default=workload)
    p.add_argument("--leapfrogs", type=int, default=1)
    p.add_argument("--batch", type=int, default=100)
    p.add_argument("--draws", type=int, default=1)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--jax-lgamma", action="store_true", help="jax.scipy's lgamma (stomach_jax)")
    p.add_argument("--jax-normal", action="store_true", help="jax.random's normal draws (uha_jax)")
    p.add_argument("--data", help="folder with sonar.csv (uha_jax)")
    args = p.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < args.threads:
        sys.exit(f"{args.threads} threads asked for, only {len(cores)} cores available")
    os.sched_setaffinity(0, cores[: args.threads])
    for name in ("NPROC", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(args.threads)
    return args


def peak_bytes():
    """Peak resident memory of this process (VmHWM, which unlike ru_maxrss starts anew at exec)."""
    with open("/proc/self/status") as f:
        line = next(s for s in f if s.startswith("VmHWM:"))
    return 1024 * int(line.split()[1])


def serve(engine, inputs, dtype):
    """Answer commands until `quit` or end of input.

    `engine` has `compile_seconds`, `size` (number of parameters), `check(flat, *inputs)`
    giving the loss and the flat gradient, `bound(flat)` giving an estimate and its standard error,
    and `steps(n)` giving the last loss, finished.
    `inputs` lists the (name, shape) of the files that `check` reads besides the parameters.
    """
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def answer(**fields):
        print(json.dumps(fields), file=out, flush=True)

    def read(folder, name):
        return np.fromfile(os.path.join(folder, name + ".bin"), dtype)

    answer(ready=True, compile_seconds=engine.compile_seconds, params=engine.size)
    for line in sys.stdin:
        command, _, rest = line.strip().partition(" ")
        if command == "quit":
            break
        elif command == "check":
            given = [read(rest, name).reshape(shape) for name, shape in inputs]
            loss, grad = engine.check(read(rest, "params"), *given)
            path = os.path.join(rest, f"grad-{os.getpid()}.bin")
            np.asarray(grad, dtype).tofile(path)
            answer(loss=float(loss), grad=path)
        elif command == "bound":
            bound, se = engine.bound(read(rest, "params"))
            answer(bound=float(bound), se=float(se))
        elif command == "time":
            cpu, start = time.process_time(), time.perf_counter()
            loss = engine.steps(int(rest))
            seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
            answer(seconds=seconds, loss=float(loss), cpu_seconds=cpu)
        elif command == "memory":
            answer(peak_bytes=peak_bytes())
        elif command:
            answer(error=f"unknown command {command!r}")

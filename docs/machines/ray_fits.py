"""Many fits on a Ray cluster whose machines share a folder."""

import subprocess

import ray

SHARDS = 16


@ray.remote(num_cpus=2, max_retries=3, retry_exceptions=True)
def fit(shard):
    command = "mcvi fit logistic --each stores --target sold --out fits --threads 2"
    subprocess.run([*command.split(), "--shard", f"{shard}/{SHARDS}"], check=True)


ray.init()
ray.get([fit.remote(shard) for shard in range(1, SHARDS + 1)])
subprocess.run(["mcvi", "merge", "fits"], check=True)

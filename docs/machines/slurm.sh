#!/bin/bash
#SBATCH --array=1-4
#SBATCH --cpus-per-task=2
#SBATCH --time=01:00:00
set -euo pipefail
shard=$((SLURM_ARRAY_TASK_ID - SLURM_ARRAY_TASK_MIN + 1))
mcvi fit logistic --each stores --target sold --out fits \
    --shard "$shard/$SLURM_ARRAY_TASK_COUNT" --threads "$SLURM_CPUS_PER_TASK"

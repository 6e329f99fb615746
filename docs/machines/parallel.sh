#!/bin/bash
set -euo pipefail
seq 4 | parallel --jobs 2 --halt now,fail=1 \
    mcvi fit logistic --each stores --target sold --out fits --shard {}/4 --threads 1
mcvi merge fits

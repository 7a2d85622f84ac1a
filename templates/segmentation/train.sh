#!/usr/bin/env bash
# Train with the configuration given, or config.yaml; with several GPUs train.py starts a process for each. The exit code
# is that of the training, also behind tee.
set -euo pipefail
cd "$(dirname "$0")"
python train.py --config "${1:-config.yaml}" 2>&1 | tee -a train.log

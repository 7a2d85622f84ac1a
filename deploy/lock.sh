#!/usr/bin/env bash
# Resolve the dependencies anew into hashed locks without index addresses.
set -euo pipefail
cd "$(dirname "$0")/.."
flags=(--universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header -q "$@")
.venv/bin/uv pip compile "${flags[@]}" requirements/bootstrap.in -o requirements/bootstrap.lock
.venv/bin/uv pip compile "${flags[@]}" pyproject.toml --extra score --extra ml --extra embedded --extra dev -o requirements/all.lock
# The images of gateway and agents, of the scorer, of the tool runner: the same versions, without what others need.
pins=$(mktemp)
grep -E '^[A-Za-z0-9].*==' requirements/all.lock | sed 's/ \\$//' > "$pins"
.venv/bin/uv pip compile "${flags[@]}" pyproject.toml -c "$pins" -o requirements/core.lock
.venv/bin/uv pip compile "${flags[@]}" pyproject.toml --extra score -c "$pins" -o requirements/score.lock
.venv/bin/uv pip compile "${flags[@]}" pyproject.toml --extra score --extra ml -c "$pins" -o requirements/runner.lock
# With the address of PyTorch's CPU package index: the same versions with its CPU build, hashed, too,
# for a machine and for the runner's image.
if [ -n "${M3_TORCH_INDEX:-}" ]; then
  .venv/bin/uv pip compile "${flags[@]}" pyproject.toml --extra score --extra ml --extra embedded --extra dev -c "$pins" \
    --index "$M3_TORCH_INDEX" --index-strategy unsafe-best-match -o requirements/cpu.lock
  .venv/bin/uv pip compile "${flags[@]}" pyproject.toml --extra score --extra ml -c "$pins" \
    --index "$M3_TORCH_INDEX" --index-strategy unsafe-best-match -o requirements/runner-cpu.lock
fi
rm -f "$pins"

#!/usr/bin/env bash
# Set up .venv from the hashed locks, and bubblewrap where it is missing and may be installed. Quick when done before.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=.venv
stamp=$venv/.m3builder-setup
want=$(cat requirements/*.lock pyproject.toml deploy/setup.sh | sha256sum | cut -d' ' -f1)${M3_TORCH_INDEX:+-cpu}

if [ "$(cat "$stamp" 2>/dev/null)" != "$want" ]; then
  cat <<'TEXT'
Setting up: about 3.2 GB are downloaded the first time (most of it PyTorch with CUDA), 7 GB of disk are used.
For a CPU build of PyTorch (about 0.6 GB): set M3_TORCH_INDEX to the address of PyTorch's CPU package index, as its
installation page gives it, and run this again.
TEXT
  [ -x $venv/bin/python ] || python3 -m venv $venv
  $venv/bin/python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || {
    echo "Python 3.11, 3.12 or 3.13 is needed; python3 is $(python3 --version). Remove $venv and put one of these first in PATH." >&2
    exit 2
  }
  $venv/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/bootstrap.lock
  export VIRTUAL_ENV=$PWD/$venv
  lock=requirements/all.lock
  index=()
  if [ -n "${M3_TORCH_INDEX:-}" ] && [ -f requirements/cpu.lock ]; then
    lock=requirements/cpu.lock
    index=(--index "$M3_TORCH_INDEX" --index-strategy unsafe-best-match)
  elif [ -n "${M3_TORCH_INDEX:-}" ]; then
    echo "There is no requirements/cpu.lock ('make lock' with M3_TORCH_INDEX writes it): PyTorch comes without a hash."
    versions=$(grep -oE '^torch(vision)?==[0-9.]+' $lock)
    # shellcheck disable=SC2086
    $venv/bin/uv pip install --index-url "$M3_TORCH_INDEX" --no-deps $versions
    lock=$venv/without-torch.lock
    $venv/bin/python deploy/without_torch.py requirements/all.lock > $lock
  fi
  # Sandboxed programs cannot write bytecode, and without it they spend longer on imports than on work.
  $venv/bin/uv pip install --compile-bytecode --require-hashes "${index[@]}" -r $lock
  $venv/bin/uv pip install -q --no-deps --no-build-isolation -e .
  echo "$want" > "$stamp"
fi

if ! command -v bwrap >/dev/null && command -v apt-get >/dev/null; then
  if [ "$(id -u)" = 0 ]; then
    echo "Installing bubblewrap for the sandbox."
    { apt-get update -qq && apt-get install -y -qq bubblewrap; } >/dev/null 2>&1 ||
      echo "bubblewrap could not be installed; the sandbox will run at the landlock level."
  else
    echo "bubblewrap is missing: the sandbox will run at the landlock level ('sudo apt-get install bubblewrap' gives the stronger one)."
  fi
fi

#!/usr/bin/env bash
# Runs the benchmarks: ddprun and its peer side by side in one run, printed as ratios.
#
#   scripts/bench.sh                  all of them but build
#   scripts/bench.sh start launcher   those (tests/bench/bench_*.py)
#   scripts/bench.sh build            a build from nothing, without ccache, and after a change: half an hour to an hour of two cores
#   scripts/bench.sh gpu              on one GPU; skipped with exit code 77 where none is. --device cpu tries the program
set -euo pipefail
source "$(dirname "$0")/common.sh"

scripts/setup.sh --with-tests >&2
if [ "$*" != build ]; then  # which builds for itself
  say "building build/release" >&2
  cmake --preset release -DDDPRUN_BUILD_TESTS=ON -DDDPRUN_TORCH="$(torch_folder)" >/dev/null
  cmake --build --preset release --parallel "$(build_jobs)" >&2
fi
exec "$VENV/bin/python" tests/bench/run.py "$@"

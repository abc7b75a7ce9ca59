#!/usr/bin/env bash
# From a fresh machine to a trained model: installs what is missing, builds ddprun, and trains a small CNN on real
# digits with two workers. Run again after Ctrl-C, it goes on from the checkpoint.
set -euo pipefail
source "$(dirname "$0")/common.sh"

scripts/setup.sh

say "configuring build/quick: compiled in a fraction of the time, and not optimised; the preset release is for work"
cmake --preset quick "${toolchain[@]}" -DDDPRUN_TORCH="$(torch_folder)" >/dev/null
say "building ddprun and ddprun-worker with $(build_jobs) jobs"
cmake --build --preset quick --parallel "$(build_jobs)" --target ddprun ddprun-worker

say "build/quick/bin/ddprun --nproc-per-node 2 configs/quickstart.json"
exec build/quick/bin/ddprun --nproc-per-node 2 configs/quickstart.json

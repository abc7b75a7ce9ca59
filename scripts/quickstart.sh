#!/usr/bin/env bash
# From a fresh machine to a trained model: installs what is missing, builds ddprun, and trains a small CNN on real
# digits with two workers. Run again after Ctrl-C, it goes on from the checkpoint.
set -euo pipefail
source "$(dirname "$0")/common.sh"

scripts/setup.sh

# Without the tests, unless this build folder has them already.
tests=OFF
if grep -qs '^DDPRUN_BUILD_TESTS:BOOL=ON' build/release/CMakeCache.txt; then tests=ON; fi
say "configuring build/release"
cmake --preset release -DDDPRUN_BUILD_TESTS=$tests -DDDPRUN_WERROR="$(werror)" -DDDPRUN_TORCH="$(torch_folder)" >/dev/null
say "building ddprun and ddprun-worker with $(build_jobs) jobs"
cmake --build --preset release --parallel "$(build_jobs)" --target ddprun ddprun-worker

say "build/release/bin/ddprun --nproc-per-node 2 configs/quickstart.json"
exec build/release/bin/ddprun --nproc-per-node 2 configs/quickstart.json

#!/usr/bin/env bash
# From a fresh machine to a trained model: installs what is missing, builds ddprun, and trains a small CNN on real
# digits with two workers. Run again after Ctrl-C, it goes on from the checkpoint.
set -euo pipefail
source "$(dirname "$0")/common.sh"

scripts/setup.sh

compilers=()
if ! command -v clang++ >/dev/null; then compilers=(-DCMAKE_C_COMPILER=cc -DCMAKE_CXX_COMPILER=c++); fi
# Without the tests, unless this build folder has them already.
tests=OFF
if grep -qs '^DDPRUN_BUILD_TESTS:BOOL=ON' build/quick/CMakeCache.txt; then tests=ON; fi
say "configuring build/quick: compiled in a fraction of the time, and not optimised; the preset release is for work"
cmake --preset quick -DDDPRUN_BUILD_TESTS=$tests -DDDPRUN_TORCH="$(torch_folder)" "${compilers[@]}" >/dev/null
say "building ddprun and ddprun-worker with $(build_jobs) jobs"
cmake --build --preset quick --parallel "$(build_jobs)" --target ddprun ddprun-worker

say "build/quick/bin/ddprun --nproc-per-node 2 configs/quickstart.json"
exec build/quick/bin/ddprun --nproc-per-node 2 configs/quickstart.json

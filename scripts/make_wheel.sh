#!/usr/bin/env bash
# Builds the launcher's wheel into build/wheel: the program ddprun, linked to the C library alone, and a Python package that
# finds it. zig (from PyPI, 0.1 GB, into build/wheel/tools) compiles for a C library as old as RHEL 8's and Debian 10's;
# auditwheel holds the result to the list of what every Linux has; two packings have to give equal bytes, and the wheel has to
# pass its test.
#
#   scripts/make_wheel.sh            prints the wheel's path at the end
#
# scripts/setup.sh --launcher installs the headers, cmake and ninja that it needs; no compiler has to be there.
set -euo pipefail
source "$(dirname "$0")/common.sh"
case "${1:-}" in
  '') ;;
  -h | --help) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0 ;;
  *) fail "unknown argument $1; there is none" ;;
esac

readonly BUILD=build/wheel GLIBC=2.28 MOST_BYTES=6000000
readonly TOOLS=$BUILD/tools
# ccache hands paths to the compiler in its own way, and a release comes from no cache.
export CCACHE_DISABLE=1
version=$(project_version)

get_tools() {
  if cmp -s scripts/wheel/requirements.txt "$TOOLS/requirements.txt" && "$TOOLS/bin/python" -c 'import ziglang, auditwheel' 2>/dev/null; then return; fi
  say "installing zig and auditwheel into $TOOLS"
  python3 -m venv --clear "$TOOLS"
  PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1 "$TOOLS/bin/python" -m pip install --quiet --progress-bar off --requirement scripts/wheel/requirements.txt ||
    fail "pip could not install ziglang and auditwheel; is a package index reachable?"
  cp scripts/wheel/requirements.txt "$TOOLS"
}

pack() {
  mkdir -p "$1"
  "$TOOLS/bin/python" scripts/wheel/pack.py $BUILD/bin/ddprun "$version" $GLIBC "$1" $BUILD/licences
}

# What the program needs may be older than the wheel's name promises, never newer.
audit() {
  local report oldest
  report=$("$TOOLS/bin/python" -m auditwheel show "$1" | tr '\n' ' ') || fail "auditwheel cannot read $1"
  oldest=$(sed -n 's/.*following platform tag: "manylinux_2_\([0-9]*\)_x86_64".*/\1/p' <<<"$report")
  [ "${oldest:-99}" -le "${GLIBC#2.}" ] || fail "$1 needs more than glibc $GLIBC has: $report"
  say "auditwheel: manylinux_2_${oldest}_x86_64"
}

get_tools
zig=$(echo "$PWD/$TOOLS"/lib/python3*/site-packages/ziglang/zig)
say "building $BUILD/bin/ddprun for glibc $GLIBC"
cmake --preset core -B $BUILD --toolchain "$PWD/scripts/wheel/zig.cmake" -DDDPRUN_ZIG="$zig" -DDDPRUN_GLIBC=$GLIBC -DDDPRUN_BUILD_TESTS=OFF \
  -DDDPRUN_WERROR=OFF -DDDPRUN_UNITY_BUILD=32 >/dev/null
cmake --build $BUILD --parallel "$(build_jobs)" --target ddprun
rm -f $BUILD/ddprun-*.whl
python3 scripts/wheel/licences.py $BUILD $BUILD/licences launcher/ rendezvous/ configs/
wheel=$(pack $BUILD)
again=$(pack $BUILD/again)
cmp "$wheel" "$again" || fail "two packings of the same program differ"
rm -r $BUILD/again
audit "$wheel"
bytes=$(stat -c %s "$wheel")
[ "$bytes" -le $MOST_BYTES ] || fail "$wheel has $bytes bytes, more than $MOST_BYTES"
say "$bytes bytes; testing it"
python=python3
if [ -x "$VENV/bin/python" ]; then python=$VENV/bin/python; fi
DDPRUN_WHEEL=$PWD/$wheel python3 tests/integration/wheel/wheel_test.py $BUILD/bin/ddprun $python
echo "$wheel"

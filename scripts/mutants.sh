#!/usr/bin/env bash
# Puts defects back, one at a time, into a copy of the tree, and fails where the test that should notice one passes.
#
#   scripts/mutants.sh           all of tests/mutants/*.patch
#   scripts/mutants.sh lease     those whose names hold "lease"
#   scripts/mutants.sh --check   whether all can still be put in; builds nothing
#
# Above its diff a patch says what the defect is, "Test: NAME" of ctest, which must fail, and, where that is no program
# of this name, "Build: TARGET" of what the test runs.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v patch >/dev/null || { echo "patch is not installed: scripts/setup.sh --with-tests"; exit 1; }

if [ "${1:-}" = --check ]; then
  status=0
  for patch in tests/mutants/*.patch; do
    patch --dry-run --quiet --strip 1 <"$patch" >/dev/null || { echo "$patch does not fit the tree any more; make it anew"; status=1; }
  done
  exit $status
fi

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z | xargs -0 cp --parents -t "$copy"
export CCACHE_BASEDIR=$copy
export DDPRUN_SCHEDULES=3000  # of 10,000: defects show early
(cd "$copy" && cmake --preset core >build.log) || { cat "$copy/build.log"; exit 1; }

# Builds what the test of the patch $1 needs, and runs it.
passes() {
  local test target
  test=$(sed -n 's/^Test: //p' "$1")
  target=$(sed -n 's/^Build: //p' "$1")
  cmake --build "$copy/build/core" --target "${target:-$test}" >"$copy/build.log" || { cat "$copy/build.log"; exit 1; }
  ctest --test-dir "$copy/build/core" --tests-regex "^$test\$" --no-tests=error &>"$copy/test.log"
}

survivors=0
checked=
for patch in tests/mutants/*"${1:-}"*.patch; do
  test=$(sed -n 's/^Test: //p' "$patch")
  if [[ " $checked " != *" $test "* ]]; then
    passes "$patch" || { cat "$copy/test.log"; echo "$test fails without any defect"; exit 1; }
    checked+=" $test"
  fi
  patch --quiet --strip 1 --directory "$copy" <"$patch"
  if passes "$patch"; then
    echo "SURVIVED  $patch: $test passes"
    survivors=$((survivors + 1))
  elif grep -q '\*\*\*Timeout' "$copy/test.log"; then
    echo "TOO SLOW  $patch: $test was ended by its time-out, which says nothing"
    survivors=$((survivors + 1))
  else
    echo "noticed   $patch"
  fi
  patch --quiet --strip 1 --reverse --directory "$copy" <"$patch"
done
exit $((survivors > 0))

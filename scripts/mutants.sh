#!/usr/bin/env bash
# Puts defects back, one at a time, into a copy of the tree, and fails where the test that should notice one passes.
#
#   scripts/mutants.sh           all of tests/mutants/*.patch
#   scripts/mutants.sh lease     those whose names hold "lease"
#
# Above its diff a patch says what the defect is, and "Test: NAME": what is built, and must fail.
set -euo pipefail
cd "$(dirname "$0")/.."

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z | xargs -0 cp --parents -t "$copy"
cmake -S "$copy" -B "$copy/build" --preset core >/dev/null
survivors=0
for patch in tests/mutants/*"${1:-}"*.patch; do
  name=$(sed -n 's/^Test: //p' "$patch")
  patch --quiet --strip 1 --directory "$copy" <"$patch"
  cmake --build "$copy/build" --target "$name" >"$copy/build.log" || { cat "$copy/build.log"; exit 1; }
  if ctest --test-dir "$copy/build" --tests-regex "^$name\$" >/dev/null; then
    echo "SURVIVED  $patch: $name passes"
    survivors=$((survivors + 1))
  else
    echo "noticed   $patch"
  fi
  patch --quiet --strip 1 --reverse --directory "$copy" <"$patch"
done
exit $((survivors > 0))

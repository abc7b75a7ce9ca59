#!/usr/bin/env bash
# Installs what the tests need, builds everything and runs all tests but the long ones. This is what CI runs.
#
#   scripts/test.sh                 all tests but those labelled bench, long or fuzz
#   scripts/test.sh -L unit         what is behind goes to ctest: here, the unit tests only
set -euo pipefail
source "$(dirname "$0")/common.sh"

scripts/setup.sh --with-tests

say "configuring build/release"
cmake --preset release -DDDPRUN_BUILD_TESTS=ON -DDDPRUN_TORCH="$(torch_folder)" >/dev/null
say "building everything with $(build_jobs) jobs"
cmake --build --preset release --parallel "$(build_jobs)"

# Tests are registered with what they need (processors, RUN_SERIAL), so that two at a time disturb nobody.
say "running the tests"
status=0
ctest --preset release --parallel 2 "$@" || status=$?

log=build/release/Testing/Temporary/LastTest.log
# What a test has to say of what it left out; and that unittest has left out more than was said.
skips=$(awk '/^[0-9]+\/[0-9]+ Test: / {name = $3; said = 0}
  /^SKIPPED: / {said++; print substr($0, 10)}
  /^(OK|FAILED) \(/ && match($0, /skipped=[0-9]+/) {
    left_out = substr($0, RSTART + 8, RLENGTH - 8) - said
    if (left_out > 0) print left_out " of " name ", which did not say why"
  }' "$log" | sort | uniq -c | sed 's/^ *\([0-9]*\) /  \1 x /' || true)
if [ -n "$skips" ]; then
  say "SKIPPED on this machine, and why:"
  printf '%s\n' "$skips"
else
  say "nothing was skipped"
fi
# A failure is a failure, whatever a second run says, unless every test that failed is listed as unstable.
if [ $status -ne 0 ] && [ -s build/release/Testing/Temporary/LastTestsFailed.log ]; then
  mapfile -t failed < <(sed 's/^[0-9]*://' build/release/Testing/Temporary/LastTestsFailed.log)
  mapfile -t unlisted < <(printf '%s\n' "${failed[@]}" | grep -vxF -f <(scripts/list_unstable_tests.sh) || true)
  if [ ${#unlisted[@]} -eq 0 ]; then
    say "listed in tests/unstable.txt, now run alone: ${failed[*]}"
    if ctest --preset release --rerun-failed; then
      status=0
      say "UNSTABLE, passed at the second try: ${failed[*]}"
    fi
  fi
fi
if [ $status -eq 0 ]; then say "all tests passed"; else say "TESTS FAILED; the whole output is in $log"; fi
exit $status

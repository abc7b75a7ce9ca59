#!/usr/bin/env bash
# Installs what the tests need, builds, and runs the tests. CI runs it both ways.
#
#   scripts/test.sh                 the quick tests, compiled as the quickstart is (build/quick): more than half of all
#   scripts/test.sh --all           all but those labelled bench, long or fuzz, on the optimised build (build/release):
#                                   more than an hour on two slow cores
#   scripts/test.sh [--all] -L unit what is behind goes to ctest: here, the unit tests only; -R NAME: those with that name
set -euo pipefail
source "$(dirname "$0")/common.sh"
case "${1:-}" in
  -h | --help) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 0 ;;
  --all) preset=release; shift ;;
  *) preset=quick ;;
esac
for word in "$@"; do
  case $word in
    --all | -h | --help) fail "$word has to come first" ;;
    -LE* | --label-exclude*) fail "$word would bring back what is left out (ctest wants all of them to fit): use -L, -R or -E" ;;
  esac
done

scripts/setup.sh --with-tests

say "configuring build/$preset"
cmake --preset $preset -DDDPRUN_BUILD_TESTS=ON -DDDPRUN_TORCH="$(torch_folder)" >/dev/null
say "building everything with $(build_jobs) jobs"
cmake --build --preset $preset --parallel "$(build_jobs)"

# Tests are registered with what they need (processors, RUN_SERIAL), so that two at a time disturb nobody.
say "running the tests"
status=0
ctest --preset $preset --parallel 2 --no-tests=error "$@" || status=$?

log=build/$preset/Testing/Temporary/LastTest.log
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
failures=build/$preset/Testing/Temporary/LastTestsFailed.log
if [ $status -ne 0 ] && [ -s "$failures" ]; then
  mapfile -t failed < <(sed 's/^[0-9]*://' "$failures")
  mapfile -t unlisted < <(printf '%s\n' "${failed[@]}" | grep -vxF -f <(scripts/list_unstable_tests.sh) || true)
  if [ ${#unlisted[@]} -eq 0 ]; then
    say "listed in tests/unstable.txt, now run alone: ${failed[*]}"
    if ctest --preset $preset --rerun-failed; then
      status=0
      say "UNSTABLE, passed at the second try: ${failed[*]}"
    fi
  fi
fi
if [ $status -ne 0 ]; then
  say "TESTS FAILED, or none fits (the slow ones are with --all); the whole output is in $log"
elif [ $preset = quick ]; then
  say "all of these tests passed; scripts/test.sh --all runs the slow ones, too"
else
  say "all tests passed"
fi
exit $status

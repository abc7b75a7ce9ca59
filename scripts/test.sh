#!/usr/bin/env bash
# Installs what the tests need, builds, and runs the tests. CI runs it both ways.
#
#   scripts/test.sh                  the quick tests, compiled as the quickstart is (build/quick): nearly half of all
#   scripts/test.sh --all            all but those labelled bench, long or fuzz, on the optimised build (build/release):
#                                    more than an hour on two slow cores
#   scripts/test.sh [--all] -L unit  only those with a label like that; -R NAME: with a name like that; -E NAME: all but those
set -euo pipefail
source "$(dirname "$0")/common.sh"
preset=quick
case "${1:-}" in
  -h | --help) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 0 ;;
  --all) preset=release; shift ;;
esac
chosen=()
while [ $# -gt 0 ]; do
  case $1 in
    -L | -R | -E)
      if [[ ${2:--} == -* ]]; then fail "$1 wants a regular expression behind it"; fi
      chosen+=("$1" "$2")
      shift 2 ;;
    --all | -h | --help) fail "$1 has to come first" ;;
    *) fail "unknown argument $1; there are -L LABEL, -R NAME and -E NAME, and --all before them. What else ctest can do, it does by hand: ctest --preset $preset $1" ;;
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
failures=build/$preset/Testing/Temporary/LastTestsFailed.log
rm -f "$failures"
ctest --preset $preset --parallel 2 --no-tests=error "${chosen[@]}" || status=$?

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

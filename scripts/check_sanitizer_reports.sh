#!/usr/bin/env bash
# Prints what the sanitizers found in any process of the last run, and fails if that is anything. ctest calls it in the
# presets asan and tsan.
#
#   scripts/check_sanitizer_reports.sh build/asan/sanitizer
#   scripts/check_sanitizer_reports.sh --clear build/asan/sanitizer      forgets what was found before
set -euo pipefail

clear=false
if [ "${1:-}" = --clear ]; then clear=true; shift; fi
shopt -s nullglob
reports=("${1:?usage: $0 [--clear] FOLDER}"/report.*)
if $clear; then rm -f "${reports[@]}"; exit; fi
[ ${#reports[@]} -eq 0 ] && exit
for report in "${reports[@]}"; do
  printf '\n== %s\n' "$report"
  cat "$report"
done
printf '\n%s: the sanitizers wrote %d reports, printed above\n' "$0" ${#reports[@]} >&2
exit 1

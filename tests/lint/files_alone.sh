#!/usr/bin/env bash
# Compiles each file of the programs by itself, as one works (CONTRIBUTING.md): one that has what it uses from another of its unit,
# in which all other builds compile them, fails. Five to ten minutes of two cores.
#
#   files_alone.sh ROOT TORCH
set -euo pipefail
command -v clang++ >/dev/null || { echo "SKIPPED: clang++ is not installed"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$1"
cmake --preset quick -B "$folder" -DDDPRUN_UNITY_BUILD=OFF -DDDPRUN_TORCH="$2" >/dev/null
cmake --build "$folder" --target ddprun ddprun-worker -- -k 0

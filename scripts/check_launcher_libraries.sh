#!/usr/bin/env bash
# Holds the launcher to what starts in milliseconds: no libtorch, CUDA, Python, OpenMP or libcurl among its shared libraries.
#   scripts/check_launcher_libraries.sh build/release/bin/ddprun
set -euo pipefail

libraries=$(ldd "$1")
if heavy=$(grep -E 'torch|libc10|cuda|nccl|cupti|python|gomp|curl' <<<"$libraries"); then
  printf '%s is linked against what it must not need:\n%s\n' "$1" "$heavy" >&2
  exit 1
fi

# shellcheck shell=bash disable=SC2034
# Sourced by the scripts beside it: the repository's root, and how they speak.
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

# The release that is installed and tested, and the other one that the library compiles with.
read -r TORCH_VERSION OTHER_TORCH_VERSION < <(sed -n 's/^set(Libtorch_RELEASES \(.*\))$/\1/p' scripts/cmake/FindLibtorch.cmake) || true
if [[ ! $TORCH_VERSION =~ ^[0-9.]+$ || ! $OTHER_TORCH_VERSION =~ ^[0-9.]+$ ]]; then
  echo "scripts/cmake/FindLibtorch.cmake: expected one line, set(Libtorch_RELEASES INSTALLED OTHER)" >&2
  exit 1
fi
read -r TORCHVISION_VERSION _ < <(sed -n 's/^set(Libtorch_TORCHVISION \(.*\))$/\1/p' scripts/cmake/FindLibtorch.cmake) || true
if [[ ! $TORCHVISION_VERSION =~ ^[0-9.]+$ ]]; then
  echo "scripts/cmake/FindLibtorch.cmake: expected one line, set(Libtorch_TORCHVISION INSTALLED OTHER)" >&2
  exit 1
fi
readonly TORCH_VERSION OTHER_TORCH_VERSION TORCHVISION_VERSION
readonly VENV=.venv

say() { if [ -t 1 ]; then printf '\033[1m==>\033[0m %s\n' "$*"; else printf '==> %s\n' "$*"; fi; }
fail() { printf '\n%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

# The one place that says which version this is.
project_version() { sed -n 's/^project(ddprun VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt; }

# Debian 11 gets cmake, libtorch and headers in its own way (scripts/setup.sh), and a toolchain for them: cmake "${toolchain[@]}" …
is_debian_11() { [ "$(. /etc/os-release 2>/dev/null && echo "${VERSION_CODENAME:-}")" = bullseye ]; }
toolchain=()
if is_debian_11; then
  toolchain=(--toolchain "$PWD/scripts/cmake/debian11.cmake")
  cmake() { "$VENV/bin/cmake" "$@"; }
fi

# A translation unit that includes libtorch needs up to 1.5 GB: as many jobs as cores, and as memory allows.
build_jobs() {
  local cores by_memory
  cores=$(nproc)
  by_memory=$(awk '/^MemAvailable:/ {print int($2 / 1572864)}' /proc/meminfo)
  echo $((by_memory < 1 ? 1 : by_memory < cores ? by_memory : cores))
}

# The folder site-packages/torch that is built against: DDPRUN_TORCH, else the one in the virtual environment.
torch_folder() {
  if [ -n "${DDPRUN_TORCH:-}" ]; then echo "$DDPRUN_TORCH"; return; fi
  local candidate
  for candidate in "$VENV"/lib/python3*/site-packages/torch; do
    if [ -e "$candidate/lib/libtorch_cpu.so" ]; then echo "$PWD/$candidate"; fi
  done | tail -n 1
}

torch_version() { sed -n "s/^__version__ = '\([0-9.]*\).*/\1/p" "$1/version.py" 2>/dev/null || true; }

# Another compiler than CI's may warn of more, which is not for those to mend who only want ddprun.
werror() { if [ "$(c++ -dumpversion)" = 12 ]; then echo ON; else echo OFF; fi; }

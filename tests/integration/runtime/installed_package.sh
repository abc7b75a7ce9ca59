#!/usr/bin/env bash
# installed_package.sh BUILD SOURCE: installs the build into a folder of its own, builds the examples against it with
# find_package(ddprun), and runs each alone and, where the launcher is built, under ddprun with two workers.
set -euo pipefail
build=$1 source=$2
work=$(mktemp -d "${TMPDIR:-/tmp}/ddprun-package-XXXXXX")
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" >"$work/install.log" || { cat "$work/install.log"; exit 1; }
cmake -G Ninja -S "$source/worker/examples" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 >"$work/configure.log" 2>&1 ||
  { cat "$work/configure.log"; exit 1; }
cmake --build "$work/build" >"$work/build.log" 2>&1 || { tail -50 "$work/build.log"; exit 1; }

expect() { # NAME TEXT COMMAND…: the output must contain the text
  local name=$1 text=$2
  shift 2
  local output
  output=$("$@" 2>&1) || { echo "$name failed:"; echo "$output"; exit 1; }
  [[ $output == *"$text"* ]] || { echo "$name: expected \"$text\" in:"; echo "$output"; exit 1; }
  echo "ok: $name"
}

declare -A says=(
  [toy_ddp]="y = 3 x + 1" [checkpoint]="every rank loaded what rank 0 saved" [model_parallel]="loss after 20 steps"
  [parameter_averaging]="largest error of a weight" [custom_hook]="loss after 50 clipped steps"
  [send_receive_ring]="a ring needs two ranks")
for example in "${!says[@]}"; do
  expect "$example alone" "${says[$example]}" "$work/build/$example"
done
says[send_receive_ring]="the token came back with 1"
for example in "${!says[@]}"; do
  expect "$example with two workers" "${says[$example]}" \
    "$work/prefix/bin/ddprun" --nproc-per-node 2 "$work/build/$example"
done

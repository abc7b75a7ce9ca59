#!/usr/bin/env bash
# installed_package.sh BUILD SOURCE TORCHRUN: installs the build into a folder of its own, builds the examples and
# the programs of docs/cpp.md and docs/rpc.md against it with find_package(ddprun), and runs each alone, under ddprun and under
# torchrun with two workers.
set -euo pipefail
build=$1 source=$2 torchrun=$3
work=$(mktemp -d "${TMPDIR:-/tmp}/ddprun-package-XXXXXX")
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" >"$work/install.log" || { cat "$work/install.log"; exit 1; }
for page in man1/ddprun.1 man1/ddprun-worker.1 man5/ddprun-job.5; do
  [ -s "$work/prefix/share/man/$page" ] || { echo "cmake --install installed no $page"; exit 1; }
done
cmake -G Ninja -S "$source/worker/examples" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 >"$work/configure.log" 2>&1 ||
  { cat "$work/configure.log"; exit 1; }
cmake --build "$work/build" >"$work/build.log" 2>&1 || { tail -50 "$work/build.log"; exit 1; }

# The own words of docs/cpp.md and docs/rpc.md: program, CMakeLists.txt, and the commands, which differ in the prefix only.
block() { # LANGUAGE PAGE: its first such block
  awk -v fence="\`\`\`$1" 'on && /^```$/ {exit} on {print} $0 == fence {on = 1}' "$source/docs/$2"
}
mkdir "$work/readme" "$work/rpc"
block cpp cpp.md >"$work/readme/mine.cc"
block cpp rpc.md >"$work/rpc/mine.cc"
block sh cpp.md | sed "s|/opt/ddprun|$work/prefix|g" >"$work/readme/commands.sh"
block sh rpc.md | sed "s|/opt/ddprun|$work/prefix|g" >"$work/rpc/commands.sh"
block cmake cpp.md | tee "$work/readme/CMakeLists.txt" >"$work/rpc/CMakeLists.txt"
readme() ( cd "$work/readme" && bash -euo pipefail commands.sh )
rpc() ( cd "$work/rpc" && bash -euo pipefail commands.sh )

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
  [parameter_averaging]="largest error of a weight"
  [data_parallel]="5 outputs on" [custom_hook]="loss after 50 clipped steps"
  [rpc_pipeline]="a pipeline of two stages needs three ranks" [rpc_actors]="a learner needs an actor"
  [rpc_averaging]="largest error of a weight" [rpc_rnn]="the table needs a rank of its own"
  [send_receive_ring]="a ring needs two ranks")
for example in "${!says[@]}"; do
  expect "$example alone" "${says[$example]}" "$work/build/$example"
done
says[send_receive_ring]="the token came back with 1"
says[rpc_actors]="steps to the prize: 7"
says[rpc_rnn]="first gradients equal to one process's"
for example in "${!says[@]}"; do
  expect "$example with two workers" "${says[$example]}" \
    "$work/prefix/bin/ddprun" --nproc-per-node 2 "$work/build/$example"
done

expect "resumed, the first time" "begins at step 0" "$work/prefix/bin/ddprun" --nproc-per-node 2 "$work/build/resumed" "$work/ck" 20
expect "resumed, once more" "begins at step 20" "$work/prefix/bin/ddprun" --nproc-per-node 2 "$work/build/resumed" "$work/ck" 25

sed "s|build/libplugin.so|$work/build/libplugin.so|" "$source/worker/examples/plugin.json" >"$work/plugin.json"
expect "a job with the plug-in" "done: 10 of 10 epochs" "$work/prefix/bin/ddprun" --nproc-per-node 2 "$work/plugin.json"

expect "README's program, built and started with README's commands" "" readme
losses=$(cd "$work/readme" && "$work/prefix/bin/ddprun" --nproc-per-node 2 build/mine 2>/dev/null)
awk 'NR == 1 {first = $1} {last = $1} END {exit !(NR == 4 && last < first / 10)}' <<<"$losses" ||
  { echo "README's program should print four losses, from rank 0 alone, that fall; it printed:"; echo "$losses"; exit 1; }
echo "ok: its loss falls"
expect "the program of docs/rpc.md, built and started with that page's commands" "[ CPUFloatType{3} ]" rpc

under_torchrun() { "$torchrun" --standalone --no-python --nproc-per-node 2 "$@"; }
if [ -x "$torchrun" ]; then
  expect "README's program under torchrun" "" under_torchrun "$work/readme/build/mine"
  for example in toy_ddp checkpoint send_receive_ring; do
    expect "$example under torchrun" "${says[$example]}" under_torchrun "$work/build/$example"
  done
else
  echo "SKIPPED: the programs were not run under torchrun: it is not at $torchrun"
fi

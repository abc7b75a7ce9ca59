#!/usr/bin/env bash
# All that has to be seen on a GPU, in a folder that can be carried to one. There it needs a card and a Python with the
# torch that the build is of: no network, no compiler, no cmake.
#
#   scripts/gpu_check.sh pack FOLDER [BUILD]   makes the folder, from build/release or BUILD
#   ./gpu_check.sh [NAME…]                     in the folder: runs the tests of ctest's label gpu, and the benchmark as
#                                              bench_gpu, all or those whose names contain a NAME; writes gpu_check.md
#
# The second ends with 1 if a test failed, and with 77 if all were skipped, as they are without a card. What each test
# said is in logs/. PYTHON=/path/to/python names the Python with torch where that is not python3.
set -euo pipefail

readonly LIMIT_MB=60
readonly BENCH_SECONDS=900

say() { printf '==> %s\n' "$*"; }
fail() { printf 'gpu_check.sh: %s\n' "$*" >&2; exit 1; }
usage() { sed -n '2,11s/^# \{0,1\}//p' "$0"; exit "$1"; }

# --- where it was built ----------------------------------------------------------------------------------------------

# Reads ctest's list on stdin. Writes the file `checks.sh`, a line for each test, whose paths begin in the folder, and
# prints each file or folder of the build that a test names.
write_checks() {
  python3 - "$1" "$2" "$3" <<'EOF'
import json, os, pathlib, shlex, sys
root, build, target = (pathlib.Path(word) for word in sys.argv[1:])
tests = json.load(open("/dev/fd/3", encoding="utf-8"))["tests"]
lines = []
for test in tests:
    properties = {entry["name"]: entry["value"] for entry in test.get("properties", [])}
    words = []
    for word in test["command"]:
        path = pathlib.Path(word)
        if path.name in ("python", "python3"):
            word = '"$python"'
        elif path.is_relative_to(build):
            print(path.relative_to(build))
            word = shlex.quote(str("build/release" / path.relative_to(build)))
        elif path.is_relative_to(root):
            word = shlex.quote(str(path.relative_to(root)))
        elif path.is_absolute():
            sys.exit(f"gpu_check.sh: {test['name']} names {word}, which is in neither tree nor build: it cannot be carried")
        else:
            word = shlex.quote(word)
        words.append(word)
    environment = [shlex.quote(entry) for entry in properties.get("ENVIRONMENT", [])]
    lines.append(" ".join(["check", test["name"], f"{properties['TIMEOUT']:.0f}", "env", *environment, *words]))
(target / "checks.sh").write_text("\n".join(lines) + "\n", encoding="utf-8")
EOF
}

# Libraries that a program or library of ours needs, that lie in a system folder, and that do not come with Python itself.
libraries_of() {
  ldd "$@" 2>/dev/null | awk '$2 == "=>" && $3 ~ "^/(usr/)?lib/" {print $3}' | sort -u |
    grep -vE '/(libc|libm|libdl|librt|libpthread|libutil|libgcc_s|libstdc\+\+|libz|libssl|libcrypto)\.so' || true
}

# The first two numbers of the libtorch that a build is of.
torch_of() {
  local torch
  torch=$(sed -n 's/^DDPRUN_TORCH:PATH=//p' "$1/CMakeCache.txt")
  sed -n "s/^__version__ = '\([0-9]*\.[0-9]*\).*/\1/p" "$torch/version.py"
}

pack() {
  if [ $# -lt 1 ] || [ $# -gt 2 ]; then usage 64 >&2; fi
  local root folder build here there word
  root=$(realpath "$(dirname "$0")/..")
  folder=$(realpath -m "$1")
  build=$(realpath -m "${2:-$root/build/release}")
  [ -x "$build/tests/gpu_bench" ] || fail "no build with libtorch and tests at $build: run scripts/test.sh --all, or name its folder"
  [ -e "$build/lib/libddprun_nccl.so" ] || fail "the build at $build has no GPU support: scripts/setup.sh --with-tests brings the headers for it"
  [ -z "$(ls -A "$folder" 2>/dev/null)" ] || fail "$folder is not empty: name a new folder"
  there=$folder/build/release
  mkdir -p "$there/lib"

  say "tests of label gpu from $build"
  # Asked from a folder of its own: in the build's, ctest would empty the log of a run that is under way.
  list=$(mktemp -d)
  trap 'rm -rf "$list"' EXIT
  echo "subdirs(\"$build\")" >"$list/CTestTestfile.cmake"
  ctest --test-dir "$list" --show-only=json-v1 -L '^gpu$' >"$list/tests.json"
  while read -r word; do
    here=$build/$word
    mkdir -p "$(dirname "$there/$word")"
    if [ -d "$here" ]; then cp -r -T "$here" "$there/$word"; else cp "$here" "$there/$word"; fi
  done < <(write_checks "$root" "$build" "$folder" 3<"$list/tests.json" | sort -u; echo tests/gpu_bench)
  [ -s "$folder/checks.sh" ] || fail "the build at $build has no test of label gpu"

  cp -P "$build"/lib/*.so* "$there/lib"
  mapfile -t libraries < <(libraries_of "$there"/lib/*.so "$there"/bin/* "$there"/tests/*)
  if [ ${#libraries[@]} -gt 0 ]; then cp -L "${libraries[@]}" "$there/lib"; fi
  find "$there" -type f -exec strip --strip-unneeded {} +
  git -C "$root" -c 'safe.directory=*' ls-files -z -co --exclude-standard -- 'tests/*.py' configs/data/mnist-subset | tar -C "$root" --null -T - -c | tar -C "$folder" -x
  git -C "$root" -c 'safe.directory=*' log -1 --format='%h, %cs' >"$folder/version"
  torch_of "$build" >"$folder/torch_version"
  cp "$0" "$folder/gpu_check.sh"

  local bytes
  bytes=$(du -sb "$folder" | cut -f 1)
  say "$(wc -l <"$folder/checks.sh") tests and the benchmark, $((bytes / 1000000)) MB, in $folder"
  [ "$bytes" -lt $((LIMIT_MB * 1000000)) ] || fail "that is more than the $LIMIT_MB MB that the folder may have"
}

# --- where the card is -----------------------------------------------------------------------------------------------

# The folder of a torch that these programs can use.
find_torch() {
  local found version built
  built=$(<torch_version)
  found=$("$python" -c 'import torch; print(torch.__version__, torch.__path__[0])' 2>/dev/null) ||
    fail "$python has no torch: name one that has torch $built, PYTHON=/path/to/python ./gpu_check.sh"
  version=${found%% *}
  [[ $version == "$built".* ]] ||
    fail "$python has torch $version, and these programs are built with $built: name another, PYTHON=/path/to/python ./gpu_check.sh"
  echo "${found#* }"
}

# Python's torch finds its libraries beside itself; our programs find the same ones by this.
use_libraries() {
  local torch=$1 folder missing
  LD_LIBRARY_PATH=$PWD/build/release/lib:$torch/lib
  for folder in "$(dirname "$torch")"/nvidia/*/lib; do
    if [ -d "$folder" ]; then LD_LIBRARY_PATH+=:$folder; fi
  done
  export LD_LIBRARY_PATH
  missing=$(ldd build/release/lib/*.so build/release/bin/* build/release/tests/* 2>&1 | grep -E 'not found' | sort -u || true)
  [ -z "$missing" ] || fail "shared libraries that these programs need are not here; install them, or a torch $(<torch_version) with CUDA:"$'\n'"$missing"
}

describe_machine() {
  "$python" - <<'EOF'
import os, pathlib, platform, shutil, subprocess
import torch
cards = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
smi = shutil.which("nvidia-smi")
words = [smi, "--query-gpu=driver_version", "--format=csv,noheader"]
driver = subprocess.run(words, capture_output=True, text=True, check=False).stdout.split() if smi else []
kernel = pathlib.Path("/proc/driver/nvidia/version")
if not driver and kernel.exists():
    driver = kernel.read_text().splitlines()[:1]
nccl = ".".join(map(str, torch.cuda.nccl.version())) if cards else "not asked"
names = [f"{card.name}, {card.total_memory / 2**30:.0f} GiB, compute capability {card.major}.{card.minor}" for card in cards]
print("| | |\n|---|---|")
print(f"| ddprun | {pathlib.Path('version').read_text().strip()} |")
print(f"| card | {'; '.join(names) or '**no card**: torch sees none'} |")
print(f"| driver | {driver[0] if driver else 'none'} |")
print(f"| torch | {torch.__version__}, CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}, NCCL {nccl} |")
print(f"| machine | {len(os.sched_getaffinity(0))} cores, Linux {platform.release()}, Python {platform.python_version()} |")
EOF
}

# The page as far as it goes: again after every test, so that an interrupted run has one, too.
write_page() {
  {
    printf '# ddprun on a GPU, %s\n\n%s\n\n## Tests\n\n' "$(date -u +%F)" "$machine"
    printf '| test | result | time | why |\n|---|---|---|---|\n'
    printf '%s\n' "${rows[@]}"
    if [ -e logs/bench_gpu.txt ]; then printf '\n## Benchmark\n\n'; cat logs/bench_gpu.txt; fi
    local name
    for name in "${failed[@]}"; do
      # shellcheck disable=SC2016  # Markdown's fence
      printf '\n## The end of %s\n\n```\n%s\n```\n' "$name" "$(tail -n 60 "logs/$name.txt")"
    done
  } >gpu_check.md
}

is_chosen() {
  local word
  [ ${#chosen[@]} -gt 0 ] || return 0
  for word in "${chosen[@]}"; do
    if [[ $1 == *"$word"* ]]; then return 0; fi
  done
  return 1
}

# check NAME SECONDS COMMAND…: one test, one row.
check() {
  local name=$1 limit=$2 began=$SECONDS status=0 result why=''
  shift 2
  is_chosen "$name" || return 0
  timeout --kill-after=20 "$limit" "$@" >"logs/$name.txt" 2>&1 </dev/null || status=$?
  case $status in
    0) result=passed; passed+=("$name") ;;
    77) result=skipped; why=$(sed -n 's/^SKIPPED: //p' "logs/$name.txt" | head -n 1) ;;
    *)
      result=FAILED; failed+=("$name")
      why="exit code $status"
      if [ $status = 124 ] || [ $status = 137 ]; then why="not over after $limit s, or killed"; fi
      ;;
  esac
  say "$name $result${why:+: $why}"
  rows+=("| $name | $result | $((SECONDS - began)) s | $why |")
  write_page
}

run() {
  chosen=("$@")
  cd "$(dirname "$0")"
  [ -e checks.sh ] || fail "there is no checks.sh beside this script: make a folder with scripts/gpu_check.sh pack FOLDER, and run it there"
  python=${PYTHON:-python3}
  local torch
  torch=$(find_torch)
  use_libraries "$torch"
  machine=$(describe_machine)
  rows=() passed=() failed=()
  rm -rf logs gpu_check.md
  mkdir logs
  # shellcheck source=/dev/null
  source ./checks.sh
  check bench_gpu $BENCH_SECONDS "$python" tests/bench/run.py gpu
  [ ${#rows[@]} -gt 0 ] || fail "no test has ${chosen[*]} in its name; checks.sh lists them"
  say "${#passed[@]} passed, ${#failed[@]} failed, $((${#rows[@]} - ${#passed[@]} - ${#failed[@]})) skipped: $PWD/gpu_check.md"
  if [ ${#failed[@]} -gt 0 ]; then exit 1; fi
  if [ ${#passed[@]} -eq 0 ]; then exit 77; fi
}

case "${1:-}" in
  -h | --help) usage 0 ;;
  pack) shift; pack "$@" ;;
  *) run "$@" ;;
esac

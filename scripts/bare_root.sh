#!/usr/bin/env bash
# A bare Debian to try things in: of this machine it has the kernel, the mirror of apt, and how pip reaches its index.
#
#   scripts/bare_root.sh make RELEASE ROOT [PACKAGE…]   Debian's release (bullseye is 11, bookworm 12, trixie 13) in the folder ROOT:
#                                                       debootstrap's minbase, and the PACKAGEs
#   scripts/bare_root.sh run ROOT COMMAND [WORD…]       runs that in it, as its root; nothing that it started is left
#   scripts/bare_root.sh wheel RELEASE [WHEEL]          makes one, installs uv by pip, and by that the launcher's wheel and its own
#                                                       choice of torch, trains with DDP on two ranks, says what took how long, and
#                                                       removes it; fails where that took longer than a minute, torch's download too
#
# Needs root and debootstrap (77 without). DDPRUN_DEBIAN_MIRROR names another mirror than apt's, TMPDIR where ROOT of `wheel` is: it takes
# up to 15 GB. WHEEL is that of scripts/make_wheel.sh, which is run where there is none.
set -euo pipefail
readonly HERE=$PWD
source "$(dirname "$0")/common.sh"

readonly MOST_SECONDS=60

usage() { sed -n '2,13s/^# \{0,1\}//p' "$0"; }

absolute() { (cd "$HERE" && realpath -m -- "$1"); }

need() {
  if [ "$(id -u)" -ne 0 ]; then echo "SKIPPED: needs root for debootstrap and chroot"; exit 77; fi
  command -v debootstrap >/dev/null || { echo "SKIPPED: debootstrap is not installed; apt-get install debootstrap brings it"; exit 77; }
}

# Where apt has this machine's own release from.
mirror() {
  if [ -n "${DDPRUN_DEBIAN_MIRROR:-}" ]; then echo "$DDPRUN_DEBIAN_MIRROR"; return; fi
  local own
  own=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  # Not closed before its end, or apt-get dies of SIGPIPE.
  apt-get indextargets --format "\$(SITE) \$(RELEASE)" 'Identifier: Packages' | awk -v "own=$own" '$2 == own && !found {found = 1; print $1}'
}

make_root() { # RELEASE ROOT [PACKAGE…]
  local release=$1 root=$2 from file include
  shift 2
  from=$(mirror)
  [ -n "$from" ] || fail "apt names no mirror of Debian here: DDPRUN_DEBIAN_MIRROR=http://… names one"
  if [ -e "$root/.bare" ]; then fail "$root is one already: remove it, or use it"; fi
  mkdir -p "$root"
  include=$(IFS=,; echo "${*:-}")
  debootstrap --variant=minbase ${include:+"--include=$include"} "$release" "$root" "$from" >"$root.log" 2>&1 ||
    fail "debootstrap $release of $from failed: $(grep -E '^[EW]:' "$root.log" | tail -n 3 || tail -n 3 "$root.log")"
  rm "$root.log"
  # How apt and pip of this machine get what they get: proxies, authorities.
  apt-config dump | grep '^Acquire::' >"$root/etc/apt/apt.conf.d/90this-machine" || true
  for file in /etc/pip.conf /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt; do
    if [ -e "$file" ]; then mkdir -p "$root$(dirname "$file")"; cp -L "$file" "$root$file"; fi
  done
  touch "$root/.bare"
}

# A process namespace of its own: whatever COMMAND leaves behind ends with it. Its mounts are nobody else's.
run_in() { # ROOT COMMAND…
  local root=$1 kept
  shift
  [ -e "$root/.bare" ] || fail "$root is none of scripts/bare_root.sh make"
  mapfile -t kept < <(env | grep -E '^(PIP_|SSL_CERT_FILE=|REQUESTS_|https?_proxy|no_proxy|HTTPS?_PROXY|NO_PROXY)' | grep -v '^PIP_FIND_LINKS=' || true)
  # shellcheck disable=SC2016
  BARE_ROOT=$root unshare --mount --propagation private --pid --fork --kill-child bash -c '
    mount -t proc proc "$BARE_ROOT/proc"
    for place in sys dev; do mount --rbind "/$place" "$BARE_ROOT/$place"; done
    exec chroot "$BARE_ROOT" /usr/bin/env -i "$@"' bare \
    HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    "TERM=${TERM:-dumb}" "${kept[@]}" "$@"
}

# By the clock: the seconds that COMMAND takes, in `seconds`.
timed() {
  local began=$EPOCHREALTIME
  "$@"
  seconds=$(awk -v "from=$began" -v "to=$EPOCHREALTIME" 'BEGIN {printf "%.1f", to - from}')
}

show_wheel() { # RELEASE WHEEL
  local release=$1 wheel=$2 root seconds made venv uv installed trained all
  root=$(mktemp -d "${TMPDIR:-/tmp}/ddprun-bare-XXXXXX")
  # shellcheck disable=SC2064
  trap "rm -rf '$root' '$root.log'" EXIT
  chmod 755 "$root"
  timed make_root "$release" "$root" ca-certificates python3 python3-venv
  made=$seconds
  cp "$wheel" "$root/root/"
  timed run_in "$root" python3 -m venv /env
  venv=$seconds
  timed run_in "$root" /env/bin/pip install --quiet --no-cache-dir uv
  uv=$seconds
  timed run_in "$root" /env/bin/uv pip install --quiet --no-cache --python /env/bin/python "/root/$(basename "$wheel")" torch numpy
  installed=$seconds
  run_in "$root" /env/bin/python -c '
import os, platform, torch
system = dict(line.rstrip().split("=", 1) for line in open("/etc/os-release") if "=" in line)["PRETTY_NAME"].strip("\"")
print(f"{system}, glibc {platform.libc_ver()[1]}, Python {platform.python_version()}, torch {torch.__version__}")'
  # shellcheck disable=SC2016
  timed run_in "$root" sh -c '. /env/bin/activate && exec ddprun --nproc-per-node 2 "$(python -m ddprun --example)"' >"$root/said"
  trained=$seconds
  tail -n 1 "$root/said"
  grep -q '^2 ranks found y = ' "$root/said" || fail "$release: the example did not train: $(cat "$root/said")"
  all=$(awk -v "venv=$venv" -v "uv=$uv" -v "installed=$installed" -v "trained=$trained" 'BEGIN {printf "%.1f", venv + uv + installed + trained}')
  printf '%-10s %s s: environment %s, uv %s, wheel and torch %s (%s MB), training %s; before it debootstrap %s\n' \
    "$release" "$all" "$venv" "$uv" "$installed" "$(du -sm "$root/env" | cut -f 1)" "$trained" "$made"
  awk -v "all=$all" -v "most=$MOST_SECONDS" 'BEGIN {exit !(all <= most)}' ||
    fail "$release: from an environment to a trained model took $all s, more than $MOST_SECONDS"
}

case "${1:-}" in
  -h | --help) usage; exit 0 ;;
  make) need; [ $# -ge 3 ] || fail "make RELEASE ROOT [PACKAGE…]"; root=$(absolute "$3"); make_root "$2" "$root" "${@:4}" ;;
  run) need; [ $# -ge 3 ] || fail "run ROOT COMMAND [WORD…]"; root=$(absolute "$2"); run_in "$root" "${@:3}" ;;
  wheel)
    [ $# -eq 2 ] || [ $# -eq 3 ] || fail "wheel RELEASE [WHEEL]"
    need
    if [ $# -eq 3 ]; then wheel=$(absolute "$3"); else wheel=$(scripts/make_wheel.sh | tee >(cat >&2) | tail -n 1); fi
    show_wheel "$2" "$wheel"
    ;;
  *) fail "unknown command ${1:-}; there are make, run and wheel" ;;
esac

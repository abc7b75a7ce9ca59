#!/usr/bin/env bash
# Starts one ddprun on each host of a file, as one job, through ssh.
#
#   scripts/launch/ssh.sh HOSTS [ddprun's flags] PROGRAM [ARGUMENTS]
#   scripts/launch/ssh.sh hosts.txt --nproc-per-node 4 train.py --lr 0.1
#
# HOSTS     a file with one host a line, as ssh knows it; # begins a comment. The first one runs the coordinator:
#           the others must reach it by the same name (or --master-addr) at port 29500 (or --master-port).
# Folder    every host changes to the folder this is started in, and finds ddprun in its PATH.
# Output    as it comes, with the host before each line; stdout and stderr stay apart.
# Ctrl-C    stops the job on all hosts, workers checkpoint; once more kills it. SIGTERM and a closed terminal stop it.
# Client    if it dies, or is not heard for DDPRUN_SSH_SILENCE seconds, every host stops its part by itself.
# Secret    DDPRUN_SECRET, or a new one. It goes through ssh's standard input, never on a command line.
# Exit      the job's code; 255 when ssh could not reach a host or lost it. A fixed-size job ends with its first bad
#           host; one of --nnodes MIN:MAX goes on without it, and has the code of the last host that was not lost.
#
# DDPRUN=/opt/ddprun/bin/ddprun       the program on the hosts              [ddprun]
# DDPRUN_SSH="ssh -F my_config"       how to reach them; keys, no passwords [ssh]
# DDPRUN_EXPORT="PYTHON_EXEC NAME"    variables to hand over                [none]
# DDPRUN_SSH_SILENCE=60
set -u

case "${1:-}" in '' | -h | --help) sed -n '2,21s/^# \{0,1\}//p' "$0"; exit "$((${#} ? 0 : 64))" ;; esac
mapfile -t hosts < <(sed 's/#.*//; s/[[:space:]]//g; /^$/d' "$1")
say() { printf 'ssh.sh: %s\n' "$*" >&2; }
[ ${#hosts[@]} -gt 0 ] || { say "no host in $1; write one a line"; exit 64; }
for host in "${hosts[@]}"; do
  [[ $host =~ ^[A-Za-z0-9_][A-Za-z0-9_.:%@-]*$ ]] || { say "$1: \"$host\" is no host; write one a line, as ssh knows it"; exit 64; }
done
shift
[ $# -gt 0 ] || { say "nothing to run: name a job.json, script.py or program after the hosts"; exit 64; }

silence=${DDPRUN_SSH_SILENCE:-60}
read -ra ssh <<<"${DDPRUN_SSH:-ssh}"
ssh+=(-T -x -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveCountMax=3 -o "ServerAliveInterval=$((silence / 4 + 1))")
secret=${DDPRUN_SECRET:-$(od -An -vtx1 -N32 /dev/urandom | tr -d ' \n')}
first=$("${ssh[@]}" -G "${hosts[0]}" | sed -n 's/^hostname //p')
[[ " $*" =~ \ --nnodes[\ =][0-9]+: ]] && fixed=no code=255 || fixed=yes code=0

# What the bash of one host reads. Then the same pipe is the line to it: a blank line a second, or a signal's name.
orders() {
  echo '{'
  printf 'export %q\n' "DDPRUN_SECRET=$secret"
  local name
  for name in ${DDPRUN_EXPORT:-}; do printf 'export %q\n' "$name=${!name-}"; done
  printf 'cd %q || exit 71\nexec 3<&0\n' "$PWD"
  # shellcheck disable=SC2016 # for the host's bash, which becomes ddprun: $$
  printf '( { while read -r -t %q -u 3 signal && kill -s "${signal:-0}" $$; do :; done; kill $$; } >/dev/null 2>&1 & )\n' "$silence"
  printf '%q ' exec "${DDPRUN:-ddprun}" --nnodes ${#hosts[@]} --node-rank "$1" --master-addr "$first" \
    --rdzv-id "ssh-$HOSTNAME-$$" "${@:2}"
  printf '%s\n' '</dev/null 3<&-' '}'
}

# ssh to one host with its lines marked, then what became of it.
connect() {
  set -o pipefail
  { "${ssh[@]}" "$2" bash 2>&1 >&3 3>&- | sed -u "s|^|$2: |" >&2; } 3>&1 | sed -u "s|^|$2: |"
  echo "$2 $?" >&"$ended"
}

tell() { local line; for line in "${lines[@]}"; do echo "$1" >&"$line"; done 2>/dev/null; }
# shellcheck disable=SC2317 # a trap's
interrupted() {
  stopped=yes
  interrupts=$((interrupts + 1))
  [ "$interrupts" -le 2 ] || exit 130
  [ "$interrupts" -lt 2 ] || beat=INT  # until all are gone: two that arrive at once count as one
  tell INT
}

trap '' INT TERM HUP QUIT PIPE  # for the children, who end when their host does
lines=() beat='' interrupts=0 stopped=no patience=0
exec {ended}<> <(:)
for node in "${!hosts[@]}"; do
  exec {line}> >(for line in "${lines[@]}"; do exec {line}>&-; done; connect "$node" "${hosts[node]}")
  lines+=("$line")
  orders "$node" "$@" >&"$line"
done
trap interrupted INT
trap 'stopped=yes; tell TERM' TERM HUP QUIT

for ((left = ${#hosts[@]}; left > 0;)); do
  tell "$beat"
  if read -r -t 1 -u "$ended" host status; then
    left=$((left - 1))
    [ "$status" -ne 255 ] || say "$host: ssh could not reach it, or lost it"
    if [ "$fixed" = no ]; then [ "$status" -eq 255 ] || code=$status; elif [ "$code" -eq 0 ] && [ "$status" -ne 0 ]; then code=$status patience=5; fi
  elif [ $patience -gt 0 ]; then
    patience=$((patience - 1))
    if [ $patience -eq 0 ] && [ $stopped = no ]; then
      say "one host ended with $code; stopping the other $left"
      tell TERM
    fi
  fi
done
[ "$interrupts" -eq 0 ] || code=130
exit "$code"

#!/usr/bin/env bash
# Two hosts on one machine, in network namespaces; the network between them drops everything: in a step, and in a save. Both
# sides notice within the limit and five seconds, name the other, and leave with 70; the run goes on from its last checkpoint.
#   cut_off.sh PENSTOCK
set -euo pipefail
. "$(dirname "$0")/tiny_job.sh"
one=penstock-a-$$
other=penstock-b-$$
pids=()
clean() {
  for pid in "${pids[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
  for host in $one $other; do
    ip netns pids $host 2>/dev/null | xargs -r kill -KILL 2>/dev/null || true
    ip netns del $host 2>/dev/null || true
  done
  rm -rf "$work"
}
trap clean EXIT
if ! { ip netns add $one && ip netns add $other && ip link add vA$$ netns $one type veth peer name vB$$ netns $other; } \
  2>forbidden.log; then
  echo "skipped: this machine allows no network namespaces: $(cat forbidden.log)"
  exit 77
fi
ip -n $one addr add 10.78.0.1/24 dev vA$$
ip -n $other addr add 10.78.0.2/24 dev vB$$
for host in $one $other; do ip -n $host link set lo up; done
connect() { ip -n $one link set vA$$ "$1"; ip -n $other link set vB$$ "$1"; }

on() { # HOST RANK RUN SETTINGS…
  exec nsenter --net=/run/netns/$1 unshare --uts sh -c 'hostname "$0"; exec "$@"' "$1" env RANK=$2 WORLD_SIZE=2 \
    MASTER_ADDR=10.78.0.1 MASTER_PORT=29517 timeout 100 "$penstock" train job.toml --set "run.name=$3" \
    --set parallel.pipeline=2 --set 'comm.transport="tcp"' "${@:4}"
}
says() { grep -qE -- "$1" "$2" || { cat "$2"; fail "$2 does not say: $1"; }; }
limits=(--set watchdog.step_min_s=6 --set watchdog.first_step_s=60 --set watchdog.checkpoint_s=6)

cut() { # RUN UNTIL SETTINGS…: the network goes once UNTIL is true.
  local run=$1 until=$2 code
  connect up
  pids=()
  on $one 0 "$run" "${limits[@]}" "${@:3}" >"$run-0.log" 2>&1 &
  pids+=($!)
  on $other 1 "$run" "${limits[@]}" "${@:3}" >"$run-1.log" 2>&1 &
  pids+=($!)
  for _ in $(seq 1200); do eval "$until" && break; sleep 0.05; done
  eval "$until" || { cat "$run-0.log"; fail "$run did not come to where it is cut"; }
  connect down
  local start=$SECONDS
  for rank in 0 1; do
    code=0
    wait "${pids[rank]}" || code=$?
    [ "$code" = 70 ] || { cat "$run-$rank.log"; fail "rank $rank of $run exits $code"; }
  done
  # 6 s of the limit, 5 s to say so, and what a busy machine takes.
  [ $((SECONDS - start)) -le 16 ] || fail "$run took $((SECONDS - start)) s to end"
  says "rank 1 \(process [0-9]+ on $other\) has not been heard of" "$run-0.log"
  says "rank 0 \(process [0-9]+ on $one\) has not been heard of" "$run-1.log"
  "$penstock" status "runs/$run" --needs-resume || fail "$run does not need to be resumed"
}
cut step '[ "$(wc -l 2>/dev/null <runs/step/metrics.jsonl || echo 0)" -ge 3 ]' --set run.steps=100000000 \
  --set checkpoint.every_steps=0
# Saves of some 100 MB, one a step: it is cut while one is under way.
cut save 'compgen -G "runs/save/checkpoints/.tmp-step-*" >/dev/null' --set run.steps=100000000 --set checkpoint.every_steps=1 \
  --set checkpoint.keep_last=2 --set model.hidden_size=768 --set model.ffn_hidden_size=2048
connect up
train save -- --set run.steps=1 --set model.hidden_size=768 --set model.ffn_hidden_size=2048 >go_on.log 2>&1 ||
  { cat go_on.log; fail "the run that was cut off in a save does not go on"; }
echo "passed"

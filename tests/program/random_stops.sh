#!/usr/bin/env bash
# A run is interrupted COUNT times at random moments, by USR1 or TERM to one of its processes or by kill -9, and each time
# goes on, often as other ranks: its end is bit for bit that of a run that nobody touched.
#   random_stops.sh PENSTOCK COUNT [SEED]
set -euo pipefail
count=$2
RANDOM=${3:-$((SECONDS + $$))}
. "$(dirname "$0")/tiny_job.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
steps=$((40 * count))
settings=(--set "run.steps=$steps" --set checkpoint.every_steps=3 --set log.tensorboard=false --set parallel.threads=1)
mpi=(mpirun --oversubscribe --bind-to none -n)
timeout 600 "$penstock" train job.toml --set run.name=straight "${settings[@]}" >/dev/null

start() { # in the background, on four ranks or others
  local shape
  case $((RANDOM % 5)) in
    0 | 1) shape=("${mpi[@]}" 4 "$penstock" train job.toml --set parallel.pipeline=4) ;;
    2) shape=("${mpi[@]}" 4 "$penstock" train job.toml --set parallel.pipeline=4 --set parallel.schedule=zb-h1) ;;
    3) shape=("${mpi[@]}" 2 "$penstock" train job.toml --set parallel.pipeline=2 --set parallel.schedule=zbv) ;;
    4) shape=("$penstock" train job.toml --set parallel.pipeline=4) ;;
  esac
  timeout 120 "${shape[@]}" --set run.name=stopped "${settings[@]}" >stopped.log 2>&1 &
  job=$!
}
ranks() { # this run's processes: they stand in its folder
  local process
  for process in /proc/[0-9]*; do
    [ "$(readlink "$process/cwd" 2>/dev/null)" = "$work" ] || continue
    [ "$(readlink "$process/exe" 2>/dev/null)" = "$(readlink -f "$penstock")" ] && basename "$process"
  done
}
done_steps() { wc -l 2>/dev/null <runs/stopped/metrics.jsonl || echo 0; }

declare -A sent
for ((turn = 1; turn <= count; ++turn)); do
  before=$(done_steps)
  start
  for _ in $(seq 3000); do
    [ "$(done_steps)" -gt $((before + RANDOM % 6)) ] && break
    kill -0 "$job" 2>/dev/null || break
    sleep 0.01
  done
  mapfile -t processes < <(ranks)
  signals=(USR1 TERM KILL KILL)
  signal=${signals[RANDOM % 4]}
  if [ "${#processes[@]}" -gt 0 ]; then
    kill "-$signal" "${processes[RANDOM % ${#processes[@]}]}" 2>/dev/null && sent[$signal]=$((${sent[$signal]:-0} + 1)) || true
  fi
  code=0
  wait "$job" || code=$?
  [ "$code" != 124 ] || { cat stopped.log; fail "turn $turn: $signal and the run hangs"; }
  [ "$code" != 0 ] || { [ "$(done_steps)" -ge "$steps" ] && echo "finished in turn $turn" && break; }
  # The other processes of a killed rank go by themselves.
  for _ in $(seq 1000); do [ -z "$(ranks)" ] && break; sleep 0.01; done
  [ -z "$(ranks)" ] || { ranks; fail "turn $turn: processes are left after $signal"; }
done
timeout 600 "$penstock" train job.toml --set run.name=stopped "${settings[@]}" >stopped.log 2>&1 ||
  { cat stopped.log; fail "the run does not go on after $count interruptions"; }
"$penstock" checkpoint diff runs/stopped runs/straight || fail "another end"
echo "passed: $((turn - 1)) interruptions (USR1 ${sent[USR1]:-0}, TERM ${sent[TERM]:-0}, KILL ${sent[KILL]:-0}), $steps steps"

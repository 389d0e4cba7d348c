#!/usr/bin/env bash
# A rank of a Slurm job is killed, or stopped, under plain srun, which would wait for the others for ever: all of them leave with
# 70, and say who is to blame; a batch script requeues the run, and it goes on.
#   scripts/slurm_lab tests/program/slurm_faults.sh PENSTOCK
set -euo pipefail
scripts=$(realpath "$(dirname "$0")/../../scripts/slurm")
. "$(dirname "$0")/tiny_job.sh"
. "$programs/rank_processes.sh"
endless=(--set run.steps=100000000 --set checkpoint.every_steps=0 --set model.layers=4)
plain() { # TASKS RUN SETTINGS…: srun with its defaults, as a script or a user starts it
  timeout 120 srun --mpi=pmix --kill-on-bad-exit=0 --wait=0 -n "$1" "$penstock" train job.toml --set "run.name=$2" "${endless[@]}" \
    --set "parallel.pipeline=$1" "${@:3}"
}
without_mpi() { # the same, its ranks connected by TCP: Slurm's PMIx does not notice anything
  timeout 120 srun --mpi=none --kill-on-bad-exit=0 --wait=0 -n "$1" "$penstock" train job.toml --set "run.name=$2" "${endless[@]}" \
    --set "parallel.pipeline=$1" --set 'comm.transport="tcp"' "${@:3}"
}

for start in plain without_mpi; do
  echo "killed, $start"
  $start 4 "$start" >"$start.log" 2>&1 &
  job=$!
  begun "$start" "$start.log"
  kill -KILL "$(ranks "$start" 2)"
  all_gone "$start" 10
  code=0
  wait "$job" || code=$?
  [ "$code" != 0 ] && [ "$code" != 124 ] || { cat "$start.log"; fail "srun ends with $code"; }
  says "watchdog: a rank is lost; rank 2 \(process [0-9]+ on .*\) is gone" "$start.log"
  failed_with_70 "$start"

  echo "stopped, $start"
  $start 2 "silent_$start" --set watchdog.step_min_s=6 --set watchdog.first_step_s=6 >"silent_$start.log" 2>&1 &
  job=$!
  begun "silent_$start" "silent_$start.log"
  victim=$(ranks "silent_$start" 1)
  kill -STOP "$victim"
  # Rank 0 within the limit and 5 s. Slurm's PMIx ends the stopped process too; else nobody but the batch script's srun
  # (--kill-on-bad-exit=1) or its own watchdog does, once it goes on.
  begin=$SECONDS
  while [ -n "$(ranks "silent_$start" 0)" ]; do
    [ $((SECONDS - begin)) -le 13 ] || { cat "silent_$start.log"; fail "rank 0 is there $((SECONDS - begin)) s after rank 1 was stopped"; }
    sleep 0.1
  done
  kill -CONT "$victim" 2>/dev/null || true
  all_gone "silent_$start" 20
  code=0
  wait "$job" || code=$?
  [ "$code" != 0 ] && [ "$code" != 124 ] || { cat "silent_$start.log"; fail "srun ends with $code"; }
  says "rank 1 \(process $victim on .*\) has not been heard of" "silent_$start.log"
  failed_with_70 "silent_$start"
done

echo "requeued"
export PATH=$PATH:$(dirname "$penstock")
steps_of() { wc -l 2>/dev/null <"runs/$1/metrics.jsonl" || echo 0; }
for script in cpu tcp; do
  job=$(sbatch --parsable --nodes=1 --ntasks-per-node=2 --cpus-per-task=1 --time=30 -o "$script.log" "$scripts/$script.sbatch" \
    job.toml --set "run.name=$script" --set run.steps=1000000 --set checkpoint.every_steps=50 --set parallel.pipeline=2)
  for _ in $(seq 300); do compgen -G "runs/$script/checkpoints/step-*" >/dev/null && break; sleep 0.1; done
  victim=$(ranks "$script" 1)
  [ -n "$victim" ] || { cat "$script.log"; fail "$script: not started"; }
  kill -KILL "$victim"
  for _ in $(seq 600); do scontrol show job "$job" | grep -q "Restarts=1" && break; sleep 0.1; done
  scontrol show job "$job" | grep -q "Restarts=1" || { cat "$script.log"; fail "$script: not requeued"; }
  for _ in $(seq 600); do grep -q '"attempt": 2' "runs/$script/metrics.jsonl" && break; sleep 0.1; done
  grep -q '"attempt": 2' "runs/$script/metrics.jsonl" || { cat "$script.log"; fail "$script: does not go on"; }
  ! grep -q '"attempt": 2, "step": 1,' "runs/$script/metrics.jsonl" || fail "$script: went on from nothing"
  scancel "$job"
  for _ in $(seq 300); do [ -z "$(squeue -h -j "$job" 2>/dev/null)" ] && break; sleep 0.1; done
done
echo "passed"

#!/usr/bin/env bash
# A Slurm job on two nodes: asked to stop and requeued; a rank killed under plain srun; the nodes cut off from each other in the
# middle of a save; and a node that goes on with a job that Slurm has started anew elsewhere.
#   scripts/slurm_lab --nodes 2 tests/program/slurm_nodes.sh PENSTOCK
set -euo pipefail
scripts=$(realpath "$(dirname "$0")/../../scripts/slurm")
. "$(dirname "$0")/tiny_job.sh"
. "$programs/rank_processes.sh"
export PATH=$PATH:$(dirname "$penstock")
steps_of() { wc -l 2>/dev/null <"runs/$1/metrics.jsonl" || echo 0; }
comes() { # SECONDS COMMAND…: waits until it succeeds
  local until=$((SECONDS + $1))
  shift
  until "$@"; do
    [ "$SECONDS" -lt "$until" ] || return 1
    sleep 0.1
  done
}
restarted() { scontrol show job "$1" | grep -q "Restarts=$2"; }
at_attempt() { grep -q "\"attempt\": $2" "runs/$1/metrics.jsonl"; }
more_steps() { [ "$(steps_of "$1")" -ge "$2" ]; }
both_idle() { [ "$(sinfo -h -N -o %T | grep -cx idle)" = 2 ]; }
cancelled() { # JOB
  scancel "$1"
  comes 60 both_idle || { scontrol show job "$1"; sinfo -N; fail "the nodes are not free again"; }
}
submit() { # RUN SCRIPT SETTINGS…: one rank a node
  sbatch --parsable --nodes=2 --ntasks-per-node=1 --cpus-per-task=1 --time=10 -o "$1.log" "$scripts/$2.sbatch" job.toml \
    --set "run.name=$1" --set run.steps=100000000 --set parallel.pipeline=2 "${@:3}"
}

for script in cpu tcp; do
  echo "asked to stop, $script.sbatch"
  job=$(submit "$script" "$script")
  comes 60 more_steps "$script" 3 || { cat "$script.log"; fail "$script has not begun"; }
  scancel --signal=USR1 "$job"
  comes 60 restarted "$job" 1 || { cat "$script.log"; fail "$script was not requeued"; }
  comes 60 at_attempt "$script" 2 || { cat "$script.log"; fail "$script does not go on"; }
  cancelled "$job"
  ! grep -q '"attempt": 2, "step": 1,' "runs/$script/metrics.jsonl" || fail "$script went on from nothing"
done

echo "a rank is killed"
# Two nodes and srun's defaults: nobody else would end the other rank.
for victim in 0 1; do
  run=killed$victim
  timeout 100 srun --mpi=pmix --kill-on-bad-exit=0 --wait=0 -N 2 -n 2 "$penstock" train job.toml --set run.name=$run \
    --set run.steps=100000000 --set parallel.pipeline=2 --set checkpoint.every_steps=0 >$run.log 2>&1 &
  job=$!
  begun $run $run.log
  kill -KILL "$(ranks $run $victim)"
  all_gone $run 10
  code=0
  wait "$job" || code=$?
  [ "$code" != 0 ] && [ "$code" != 124 ] || { cat $run.log; fail "srun ends with $code"; }
  says "rank $victim \(process [0-9]+ on lab[ab]\) is gone" $run.log
  failed_with_70 $run
done

echo "cut off in a save"
saves() { compgen -G "runs/$1/checkpoints/.tmp-step-*" >/dev/null; }
job=$(submit cut tcp --set checkpoint.every_steps=1 --set checkpoint.keep_last=2 --set model.hidden_size=512 \
  --set model.ffn_hidden_size=2048 --set watchdog.step_min_s=6 --set watchdog.checkpoint_s=6 --set watchdog.first_step_s=20)
complete() { compgen -G "runs/$1/checkpoints/step-*" >/dev/null; }
comes 90 complete cut || { cat cut.log; fail "cut has not saved"; }
comes 60 saves cut || { cat cut.log; fail "cut does not save"; }
"$SLURM_LAB_CABLE" down
# The longest limit that can apply, 5 s, and what a busy machine takes.
all_gone cut 20
failed_with_70 cut
says "has not been heard of" cut.log
"$penstock" checkpoint verify runs/cut >verify.log 2>&1 || { cat verify.log; fail "a damaged checkpoint"; }
"$SLURM_LAB_CABLE" up
comes 120 restarted "$job" 1 || { cat cut.log; scontrol show job "$job"; fail "cut was not requeued"; }
comes 120 at_attempt cut 2 || { cat cut.log; fail "cut does not go on"; }
! grep -q '"attempt": 2, "step": 1,' runs/cut/metrics.jsonl || fail "cut went on from nothing"
cancelled "$job"

echo "started anew while the old one lives"
# Both ranks of the first attempt are on laba, which hangs in the middle of a save and is cut off from the controller. Slurm
# starts the job once more on labb.
cat >again.sh <<BATCH
#!/bin/bash
srun --mpi=none penstock train job.toml --set run.name=again --set run.steps=100000000 --set parallel.pipeline=2 \
  --set 'comm.transport="tcp"' --set checkpoint.every_steps=2 --set checkpoint.keep_last=2 --set model.hidden_size=128
BATCH
job=$(sbatch --parsable --requeue --open-mode=append --nodes=1 --ntasks=2 --time=10 -o again.log again.sh)
comes 60 complete again || { cat again.log; fail "again has not saved"; }
squeue -h -j "$job" -o %N | grep -qx laba || fail "the first attempt is not on laba"
old=($(ranks again))
for ((tries = 0; ; ++tries)); do
  [ $tries -lt 100 ] || fail "no save was caught"
  comes 30 saves again || { cat again.log; fail "again does not save"; }
  kill -STOP "${old[@]}"
  saves again && break
  kill -CONT "${old[@]}"
done
"$SLURM_LAB_CABLE" down
caught=$(compgen -G 'runs/again/checkpoints/.tmp-step-*')
# A file server gives up the locks of a client that it does not hear; here both nodes have the same kernel.
rm runs/again/lock
comes 120 restarted "$job" 1 || { scontrol show job "$job"; fail "again was not requeued"; }
comes 60 at_attempt again 2 || { cat again.log; fail "the second attempt does not begin"; }
comes 60 more_steps again $(($(steps_of again) + 4)) || { cat again.log; fail "the second attempt stands still"; }
[ ! -e "$caught" ] || fail "what the first attempt had begun to save is still there"
kill -CONT "${old[@]}"
for _ in $(seq 300); do
  left=0
  for process in "${old[@]}"; do ! kill -0 "$process" 2>/dev/null || left=1; done
  [ $left = 1 ] || break
  sleep 0.1
done
[ $left = 0 ] || { cat again.log; fail "the first attempt goes on beside the second"; }
says 'found attempt 2, expected 1: the run was started again elsewhere' again.log
[ -n "$(ranks again)" ] || { cat again.log; fail "the second attempt is gone as well"; }
comes 60 more_steps again $(($(steps_of again) + 4)) || { cat again.log; fail "the second attempt stands still"; }
scancel --signal=USR1 "$job"
comes 60 "$penstock" status runs/again --needs-resume || { cat again.log runs/again/status.json; fail "the second attempt does not stop"; }
grep -q '"attempt": 2' runs/again/status.json || { cat runs/again/status.json; fail "the status is the first attempt's"; }
"$SLURM_LAB_CABLE" up
cancelled "$job"
# The steps of the second attempt from where it went on: bit for bit those of an undisturbed run.
"$penstock" checkpoint verify runs/again >verify.log 2>&1 || { cat verify.log; fail "a damaged checkpoint"; }
last=$(basename "$(ls -d runs/again/checkpoints/step-* | tail -n 1)")
train straight -- --set "run.steps=$((10#${last#step-}))" --set parallel.pipeline=2 --set model.hidden_size=128 >/dev/null
"$penstock" checkpoint diff runs/again runs/straight >diff.log 2>&1 || { cat diff.log; fail "another end"; }
echo "passed"

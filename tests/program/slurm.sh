#!/usr/bin/env bash
# The program as a Slurm job: started by srun, stopped by a signal from scancel, resumed; the same losses and gradient
# norms as one rank, bit for bit. Wrong ways to start it are refused with the right one.
#   scripts/slurm_lab tests/program/slurm.sh PENSTOCK
set -euo pipefail
scripts=$(realpath "$(dirname "$0")/../../scripts/slurm")
. "$(dirname "$0")/tiny_job.sh"
srun=(srun --mpi=pmix --kill-on-bad-exit=1 -n)

echo "bits of one rank"
train one -- --set run.steps=6 >/dev/null
train four "${srun[@]}" 4 -- --set run.steps=6 --set parallel.pipeline=4 --set parallel.schedule=zb-h1 >/dev/null
same four one 6
train replicas -- --set parallel.data=2 >/dev/null
train grid "${srun[@]}" 4 -- --set parallel.pipeline=2 >/dev/null # parallel.data = "auto" becomes 2
same grid replicas 4

train tcp srun --mpi=none --kill-on-bad-exit=1 -n 2 -- --set run.steps=6 --set parallel.pipeline=2 \
  --set 'comm.transport="tcp"' >/dev/null
same tcp one 6

echo "stopped by scancel --signal=USR1"
train stopped "${srun[@]}" 4 -- --set run.steps=1000000 --set parallel.pipeline=4 >stopped.log 2>&1 &
run=$!
for _ in $(seq 300); do [ "$(wc -l 2>/dev/null <runs/stopped/metrics.jsonl || echo 0)" -ge 3 ] && break; sleep 0.1; done
job=$(squeue -h -o %i)
scancel --signal=USR1 "$job"
status=0
wait "$run" || status=$?
[ "$status" = 75 ] || { cat stopped.log; fail "srun ended with $status after USR1, not 75"; }
steps=$(numbers stopped | wc -l)
[ -d "$(printf 'runs/stopped/checkpoints/step-%08d' "$steps")" ] ||
  { ls runs/stopped/checkpoints; fail "no checkpoint at step $steps, where the run stopped"; }

echo "resumed after $steps steps, on other ranks too"
train stopped "${srun[@]}" 4 -- --set run.steps=$((steps + 2)) --set parallel.pipeline=4 >/dev/null
train stopped "${srun[@]}" 2 -- --set run.steps=$((steps + 4)) --set parallel.pipeline=2 >/dev/null
train long -- --set run.steps=$((steps + 4)) >/dev/null
same stopped long $((steps + 4))

echo "wrong starts"
refused "srun --mpi=pmix -n 4 penstock train job.toml" wrong "${srun[@]}" 3 -- --set parallel.pipeline=4
refused "srun --mpi=pmix -n 2 penstock train job.toml" alone srun --mpi=none -n 2 -- --set parallel.pipeline=2
[ "$(grep -c 'penstock: error' refused.log)" = 1 ] || { cat refused.log; fail "not one error"; }
cat >batch.sh <<BATCH
#!/bin/bash
"$penstock" train job.toml --set run.name=batch --set parallel.pipeline=4
BATCH
if sbatch --wait -n 4 -o batch.log batch.sh >/dev/null; then fail "a batch script without srun was accepted"; fi
grep -qF "srun --mpi=pmix -n 4 penstock train job.toml" batch.log || { cat batch.log; fail "no command that fits"; }
# What the batch scripts promise: saved on USR1, requeued by the run's own word, resumed. A stopped job is never lost.
export PATH=$PATH:$(dirname "$penstock")
steps_of() { wc -l 2>/dev/null <"runs/$1/metrics.jsonl" || echo 0; }
for script in cpu tcp; do
  echo "requeued by $script.sbatch"
  job=$(sbatch --parsable --nodes=1 --ntasks-per-node=2 --cpus-per-task=1 --time=30 -o "$script.log" "$scripts/$script.sbatch" \
    job.toml --set "run.name=$script" --set run.steps=1000000 --set parallel.pipeline=2)
  for _ in $(seq 300); do [ "$(steps_of "$script")" -ge 3 ] && break; sleep 0.1; done
  scancel --signal=USR1 "$job"
  for _ in $(seq 300); do "$penstock" status "runs/$script" --needs-resume && break; sleep 0.1; done
  stopped=$(steps_of "$script")
  for _ in $(seq 600); do [ "$(steps_of "$script")" -gt "$stopped" ] && break; sleep 0.1; done
  [ "$(steps_of "$script")" -gt "$stopped" ] || { cat "$script.log"; scontrol show job "$job"; fail "not resumed after $stopped steps"; }
  scontrol show job "$job" | grep -q "Restarts=1" || fail "not by a requeue"
  scancel "$job"
  for _ in $(seq 300); do [ -z "$(squeue -h -j "$job" 2>/dev/null)" ] && break; sleep 0.1; done
done

echo "links of a chain"
sbatch --wait --array=1-2%1 --nodes=1 --ntasks-per-node=2 --cpus-per-task=1 --time=30 -o 'link-%a.log' "$scripts/array.sbatch" \
  job.toml --set run.name=chain --set parallel.pipeline=2 >/dev/null || { cat link-*.log; fail "a link of the chain failed"; }
train short -- >/dev/null
same chain short 4
echo "passed"

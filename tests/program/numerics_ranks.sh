#!/usr/bin/env bash
# What ranks that are processes do about spikes and NaN, and how they compare what they hold and compute: each run is to the bit
# that of one rank, with the same rollbacks.
#   numerics_ranks.sh PENSTOCK
set -euo pipefail
. "$(dirname "$0")/tiny_job.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
# Weights that hardly move: losses vary from batch to batch, and any that is a little above the others is a spike.
sed -i 's/^steps = 4/steps = 24/; s/^max = 1e-2/max = 1e-6/' job.toml
mpi=(mpirun --oversubscribe --bind-to none -n)
events() { # RUN NAME: without times.
  grep "\"event\": *\"$2\"" "runs/$1/events.jsonl" | sed -E 's/"(time|seconds)": *[^,}]*,?//g' || true
}
same_numerics() { # RUN REFERENCE EVENT
  [ "$(events "$1" "$3" | wc -l)" -gt 0 ] || fail "$1 has no event $3"
  diff <(events "$1" "$3") <(events "$2" "$3") || fail "the events $3 of $1 differ from those of $2"
  same "$1" "$2" "$(wc -l <"runs/$2/metrics.jsonl")"
}
policy() { # on_spike
  echo --set "numerics.on_spike=\"$1\"" --set numerics.spike_z=1.3 --set numerics.spike_window=8 \
    --set numerics.max_in_a_row=20 --set checkpoint.every_steps=4
}
for what in rollback skip; do
  # shellcheck disable=SC2046
  train $what-one -- $(policy $what) >/dev/null
  # shellcheck disable=SC2046
  train $what-two "${mpi[@]}" 2 -- --set parallel.pipeline=2 $(policy $what) >/dev/null
  same_numerics $what-two $what-one spike
done
same_numerics rollback-two rollback-one rollback

# Sound replicas and a sound machine: nothing is found, and nothing is changed.
train plain -- --set parallel.data=2 >/dev/null
train checked "${mpi[@]}" 2 -- --set parallel.data=2 --set numerics.replica_check_every_steps=3 \
  --set numerics.recompute_check_every_steps=2 >/dev/null
same checked plain 24

# Weights that run away: taken back until it is enough.
status=0
train wild "${mpi[@]}" 2 -- --set parallel.pipeline=2 --set learning_rate.max=1e30 --set optimizer.clip_norm=0 \
  --set 'numerics.on_nonfinite="rollback"' --set numerics.max_in_a_row=2 >wild.log 2>&1 || status=$?
[ "$status" = 5 ] || { cat wild.log; fail "weights that run away end with exit code $status, expected 5"; }
[ "$(events wild rollback | wc -l)" = 2 ] || { cat runs/wild/events.jsonl; fail "the wild run was not taken back twice"; }
grep -q 'taken back to step 0 2 times in a row' runs/wild/status.json || { cat runs/wild/status.json; fail "the end of the wild run is not explained"; }
echo "passed"

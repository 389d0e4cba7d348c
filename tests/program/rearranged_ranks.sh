#!/usr/bin/env bash
# Ranks that are processes move units and change their schedule in mid-run: every loss, norm and parameter is that of one rank
# that does nothing of the kind. A rank that is killed in the middle of a move ends the others with its name, and the last
# checkpoint goes on bit for bit.
#   rearranged_ranks.sh PENSTOCK REARRANGING
set -euo pipefail
rearranging=$2
. "$(dirname "$0")/tiny_job.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
sed -i 's/^steps = 4/steps = 6/; s/^layers = 2/layers = 4/' job.toml

same_model() { # RUN REFERENCE
  diff <(numbers "$1") <(numbers "$2") || fail "$1 differs from $2"
  "$penstock" checkpoint diff "runs/$1" "runs/$2" >diff.log 2>&1 || { cat diff.log; fail "the checkpoint of $1 differs"; }
  grep -q 'state.budget: ' diff.log || { cat diff.log; fail "how $1 is arranged is not shown"; }
}
rearranged() { # RUN TIMES
  [ "$(grep -c '"event": *"rearranged"' "runs/$1/events.jsonl")" = "$2" ] || { cat "runs/$1/events.jsonl"; fail "$1 was not rearranged $2 times"; }
}
run() { # RUN LAUNCHER… -- ARGUMENTS…
  local name=$1 launcher=()
  shift
  while [ "$1" != -- ]; do launcher+=("$1"); shift; done
  shift
  timeout 60 "${launcher[@]}" "$rearranging" job.toml --set "run.name=$name" "$@"
}
mpi=(mpirun --oversubscribe --bind-to none -n)

train straight -- >/dev/null
train replicas -- --set parallel.data=2 >/dev/null

run two "${mpi[@]}" 2 -- --set parallel.pipeline=2 --act '1:repartition 2 8' --act '2:schedule zbv' --act '3:recompute full' \
  --act '4:schedule interleaved 2' >/dev/null
same_model two straight
rearranged two 4
run four "${mpi[@]}" 4 -- --set parallel.pipeline=4 --act '1:repartition 1 5 2 2' --act '3:schedule zb-h1' --act '4:revert' >/dev/null
same_model four straight
rearranged four 3
run grid "${mpi[@]}" 4 -- --set parallel.pipeline=2 --act '2:schedule zbv' --act '4:repartition 3 2 1 4' >/dev/null
same_model grid replicas
rearranged grid 2

# Rank 2 of four dies while units are on their way.
port=$((20000 + $$ % 10000))
tcp() { # RANK ARGUMENTS…
  RANK=$1 WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port run killed -- --set parallel.pipeline=4 \
    --set 'comm.transport="tcp"' --set checkpoint.every_steps=2 "${@:2}"
}
pids=()
for rank in 1 2 3; do
  tcp $rank --act '3:repartition 1 5 2 2' --kill 2:move >"rank$rank.log" 2>&1 &
  pids+=($!)
done
status=0
tcp 0 --act '3:repartition 1 5 2 2' --kill 2:move >rank0.log 2>&1 || status=$?
[ "$status" != 0 ] && [ "$status" != 124 ] || { cat rank0.log; fail "rank 0 exits $status after rank 2 was killed"; }
for rank in 1 2 3; do
  status=0
  wait "${pids[rank - 1]}" || status=$?
  [ "$status" != 124 ] || { cat "rank$rank.log"; fail "rank $rank did not end"; }
done
grep -q 'rank 2' rank0.log || { cat rank0.log; fail "rank 0 does not say who is gone"; }
# The run stands as its last checkpoint, in the old arrangement.
run killed -- --set parallel.pipeline=4 --set checkpoint.every_steps=2 >/dev/null
grep -q '"event": *"rearranged"' runs/killed/events.jsonl && fail "a move that failed is reported as done"
tail -n 1 runs/killed/metrics.jsonl | grep -q '"attempt": 2, "step": 6' || fail "the killed run did not go on"
"$penstock" checkpoint diff runs/killed runs/straight >diff.log 2>&1 || { cat diff.log; fail "the killed run went on otherwise"; }
echo "passed"

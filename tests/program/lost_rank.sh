#!/usr/bin/env bash
# A rank that is killed, stopped, or asked to leave at once: every other rank says in words of the pipeline where it was, who
# is to blame, and leaves with 70; nobody is left behind.
#   lost_rank.sh PENSTOCK
set -euo pipefail
. "$(dirname "$0")/tiny_job.sh"
. "$programs/rank_processes.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
endless=(--set run.steps=100000000 --set checkpoint.every_steps=0)

ends() { code=0; wait "$1" || code=$?; } # sets $code

# Killed under mpirun: 2 and 4 ranks, a middle one and rank 0. mpirun reports the killed rank's code, 137.
port=$((20000 + $$ % 10000))
for case in "two 2 1" "four 4 2" "first 2 0"; do
  read -r run count victim <<<"$case"
  timeout 60 mpirun --oversubscribe -n "$count" "$penstock" train job.toml --set run.name=$run --set parallel.pipeline=$count \
    --set model.layers=4 "${endless[@]}" >$run.log 2>&1 &
  job=$!
  begun $run $run.log
  kill -KILL $(ranks $run $victim)
  all_gone $run 10
  ends $job
  [ "$code" != 0 ] || fail "mpirun ends as if all were well"
  says "watchdog: a rank is lost; rank $victim \(process [0-9]+ on .*\) is gone" $run.log
  says "^penstock: rank [0-9], stage [0-9], step [0-9]+: " $run.log
  failed_with_70 $run
  flight=$(ls runs/$run/flight/attempt-1-rank-*.txt | head -1)
  says 'thread [0-9]+ "penstock" \(main\)' "$flight"
  says 'penstock::' "$flight"
  says 'the last [0-9]+ actions' "$flight"
done

tcp() { # RANK RANKS RUN SETTINGS…
  exec env RANK=$1 WORLD_SIZE=$2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port timeout 60 "$penstock" train job.toml \
    --set "run.name=$3" --set parallel.pipeline=$2 --set 'comm.transport="tcp"' "${endless[@]}" "${@:4}"
}
# Killed where no launcher is: each survivor leaves with 70 and the killed rank's name.
pids=()
for rank in 0 1 2; do
  tcp $rank 3 lone >lone$rank.log 2>&1 &
  pids+=($!)
done
begun lone lone0.log
kill -KILL $(ranks lone 1)
all_gone lone 10
for rank in 0 2; do
  ends "${pids[rank]}"
  [ "$code" = 70 ] || { cat lone$rank.log; fail "rank $rank exits $code after rank 1 was killed"; }
  says "^penstock: rank $rank, stage" lone$rank.log
done
says 'rank 1 \(process' lone0.log
failed_with_70 lone

# Stopped: the others notice within the limit, and name it.
pids=()
for rank in 0 1; do
  tcp $rank 2 silent --set watchdog.step_min_s=6 --set watchdog.first_step_s=6 >silent$rank.log 2>&1 &
  pids+=($!)
done
begun silent silent0.log
victim=$(ranks silent 1)
kill -STOP "$victim"
ends "${pids[0]}"
[ "$code" = 70 ] || { cat silent0.log; fail "rank 0 exits $code while rank 1 is stopped"; }
says 'no progress: step \(step [0-9]+\) of rank 0 has taken more than 6.0 s \(watchdog.step_min_s; raise it where so long is usual\); rank 1 \(process' silent0.log
says 'has not been heard of for [0-9.]+ s: stopped' silent0.log
failed_with_70 silent
# It goes on later, and finds that it is alone.
kill -CONT "$victim"
all_gone silent 10

big=(--set model.hidden_size=512 --set model.ffn_hidden_size=2048 --set model.sequence_length=512 --set batch.global=64
  --set batch.micro=8) # a step of many seconds
# A limit in one process, whose ranks are threads: a step that can never be so fast.
code=0
timeout 60 "$penstock" train job.toml --set run.name=slow --set parallel.pipeline=2 --set watchdog.first_step_s=1e-6 \
  --set watchdog.step_min_s=1e-6 "${big[@]}" "${endless[@]}" >slow.log 2>&1 || code=$?
[ "$code" = 70 ] || { cat slow.log; fail "exit code $code of a step over its limit"; }
says '^penstock: rank 0, stage 0, step 1: ' slow.log
says '^penstock: rank 1, stage 1, step 1: ' slow.log
failed_with_70 slow

# A rank that nobody joins says what it waits for, and leaves with 70; one that looks for a host that is none says that.
code=0
(tcp 0 2 alone --set watchdog.start_s=2) >alone.log 2>&1 || code=$?
[ "$code" = 70 ] || { cat alone.log; fail "exit code $code of a rank that nobody joins"; }
says 'missing: 1' alone.log

# Asked to stop, and a second later once more: at once. QUIT on the way shows where it is, and changes nothing.
timeout 60 "$penstock" train job.toml --set run.name=twice "${big[@]}" "${endless[@]}" >twice.log 2>&1 &
job=$!
for _ in $(seq 300); do grep -qs '"event":"start"' runs/twice/events.jsonl && break; sleep 0.1; done
process=$(ranks twice)
for _ in $(seq 40); do
  kill -QUIT "$process"
  sleep 0.5
  grep -q 'step 1: is in' twice.log && break
done
says '^penstock: rank 0, stage 0, step 1: is in [FB] of micro-batch [0-9]+ of stage 0 for [0-9.]+ s; calls and last' twice.log
kill -TERM "$process"
sleep 1.1
kill -TERM "$process"
ends $job
[ "$code" = 143 ] || { cat twice.log; fail "exit code $code of a run that was asked twice to stop"; }
says 'asked to stop once more: leaving at once' twice.log

# A request from before the start is nobody's.
mkdir -p runs/old/control
touch -d '1 hour ago' runs/old/control/stop
train old -- --set log.console='"auto"' >old.log
says 'control/stop is older than this start' old.log
[ "$(numbers old | wc -l)" = 4 ] || fail "an old request stopped a run"

# A start that fails leaves a run that failed, not one that was killed.
if train old -- --set run.steps=8 --set model.hidden_size=64 >refused.log 2>&1; then fail "another model went on"; fi
grep -q '"state": "failed"' runs/old/status.json || { cat runs/old/status.json; fail "a start that failed"; }
"$penstock" status runs/old >status.log
says 'failed' status.log
echo "passed"

#!/usr/bin/env bash
# Asked to stop where it is least convenient: while units move between ranks, while a checkpoint is written in the background, in
# commands that have nothing to save. Runs save and go on bit for bit; nothing is left behind.
#   stops.sh PENSTOCK REARRANGING FAULT_SHIM
set -euo pipefail
rearranging=$2
shim=$(realpath "$3")
. "$(dirname "$0")/tiny_job.sh"
. "$programs/rank_processes.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
mpi=(mpirun --oversubscribe --bind-to none -n)
ends_with() { # CODE LOG COMMAND…
  local code=0
  "${@:3}" >"$2" 2>&1 || code=$?
  [ "$code" = "$1" ] || { cat "$2"; fail "$2: exit code $code, not $1"; }
}
goes_on() { # RUN STEPS: by the same command, to where a run ends that nothing happened to
  train "$1" -- --set "run.steps=$2" --set parallel.pipeline=2 --set model.layers=4 >go_on.log 2>&1 ||
    { cat go_on.log; fail "$1 does not go on"; }
  same "$1" straight "$2"
}
train straight -- --set run.steps=8 --set model.layers=4 >/dev/null

echo "while units move"
for at in 0:build 1:move 0:moved; do
  ends_with 75 "moves-$at.log" timeout 60 "${mpi[@]}" 2 "$rearranging" job.toml --set "run.name=moves-$at" --set run.steps=8 \
    --set model.layers=4 --set parallel.pipeline=2 --act '3:repartition 2 8' --stop "$at"
  # The move ends, one more step is done, and that is saved.
  [ "$(numbers "moves-$at" | wc -l)" = 4 ] || fail "$at: $(numbers "moves-$at" | wc -l) steps, not 4"
  grep -q '"event": *"rearranged"' "runs/moves-$at/events.jsonl" || fail "$at: the move was not ended"
  [ -d "runs/moves-$at/checkpoints/step-00000004" ] || fail "$at: nothing is saved"
  goes_on "moves-$at" 8
done

echo "while a checkpoint is written"
# A write-class call in the middle of the second background save asks; every rank is a process.
faulty() { # KIND RUN RANK
  timeout 60 "${mpi[@]}" 2 env LD_PRELOAD="$shim" PENSTOCK_FAULT_PATH=/checkpoints/.tmp-step-00000004 "PENSTOCK_FAULT_KIND=$1" \
    PENSTOCK_FAULT_AT=2 "PENSTOCK_FAULT_RANK=$3" "$penstock" train job.toml --set "run.name=$2" --set run.steps=100000 \
    --set model.layers=4 --set parallel.pipeline=2 --set checkpoint.every_steps=2 --set checkpoint.keep_last=2
}
for rank in 0 1; do
  ends_with 75 "saves-$rank.log" faulty stop "saves-$rank" "$rank"
  steps=$(numbers "saves-$rank" | wc -l)
  [ "$steps" -ge 4 ] && [ "$steps" -lt 1000 ] || fail "rank $rank asked in the save of step 4, and the run stopped after $steps"
  [ -d "$(printf 'runs/saves-%s/checkpoints/step-%08d' "$rank" "$steps")" ] || fail "step $steps is not saved"
  ! ls -d "runs/saves-$rank"/checkpoints/.[to]* 2>/dev/null || fail "left over"
  "$penstock" checkpoint verify "runs/saves-$rank" >verify.log 2>&1 || { cat verify.log; fail "a damaged checkpoint"; }
  train long -- --set "run.steps=$((steps + 2))" --set model.layers=4 >/dev/null
  train "saves-$rank" -- --set "run.steps=$((steps + 2))" --set model.layers=4 --set parallel.pipeline=2 >/dev/null
  same "saves-$rank" long $((steps + 2))
  rm -r runs/long
done
# Asked twice: left at once, in the middle of the file; what was saved before stands.
code=0
faulty leave twice 0 >twice.log 2>&1 || code=$?
[ "$code" = 143 ] || { cat twice.log; fail "exit code $code after a second TERM, not 143"; }
[ -d runs/twice/checkpoints/step-00000002 ] || { ls runs/twice/checkpoints; fail "the checkpoint of step 2 is gone"; }
[ ! -d runs/twice/checkpoints/step-00000004 ] || fail "the save went on"
"$penstock" status runs/twice --needs-resume || fail "a run that was left at once does not need to be resumed"
# Steps after the last checkpoint are done once more: the end is what counts.
train twice -- --set run.steps=8 --set parallel.pipeline=2 --set model.layers=4 >go_on.log 2>&1 || { cat go_on.log; fail "twice does not go on"; }
"$penstock" checkpoint diff runs/twice runs/straight >diff.log 2>&1 || { cat diff.log; fail "twice goes on otherwise"; }

echo "where there is nothing to save"
for _ in $(seq 500); do cat text.txt; done >long.txt
"$penstock" data prepare --input long.txt --tokenizer tokenizer.json --output long >/dev/null 2>&1
leaves() { # RANKS SIGNAL CODE COMMAND…: it is gone within ten seconds
  local process code=0 count=$1
  shift
  "${@:3}" >leaves.log 2>&1 &
  process=$!
  # mpirun forgets signals that come before its ranks are there.
  for _ in $(seq 200); do [ "$(ranks | wc -l)" = "$count" ] && break; sleep 0.1; done
  sleep 1
  kill "-$1" "$process" || { cat leaves.log; fail "ended by itself: ${*:3}"; }
  for _ in $(seq 100); do kill -0 "$process" 2>/dev/null || break; sleep 0.1; done
  kill -KILL "$process" 2>/dev/null && fail "still there 10 s after $1: ${*:3}"
  wait "$process" || code=$?
  [ -z "$(ranks)" ] || fail "processes are left: ${*:3}"
  [ "$code" = "$2" ] || { cat leaves.log; fail "exit code $code after $1, not $2: ${*:3}"; }
  grep -q 'asked to stop: leaving at once' leaves.log || { cat leaves.log; fail "$1 without a word: ${*:3}"; }
}
profile=(profile job.toml --set model.hidden_size=128 --set model.ffn_hidden_size=512 --set parallel.pipeline=2 --repetitions 10000)
evaluation=(eval job.toml --set run.name=straight --set model.layers=4 --set 'data.validation="long"')
# A text may end by itself: there are many.
text=(generate job.toml --set run.name=straight --set model.layers=4 --tokens 100000000 --texts 1000000)
for signal in TERM:143 INT:130 USR1:75; do
  leaves 1 "${signal%:*}" "${signal#*:}" "$penstock" "${profile[@]}" --output profile.json
  leaves 1 "${signal%:*}" "${signal#*:}" "$penstock" "${evaluation[@]}"
  leaves 1 "${signal%:*}" "${signal#*:}" "$penstock" "${text[@]}"
done
[ ! -e profile.json ] || fail "a profile that was not measured to its end"
leaves 2 USR1 75 "${mpi[@]}" 2 "$penstock" "${profile[@]}"
leaves 2 USR1 75 "${mpi[@]}" 2 "$penstock" "${evaluation[@]}" --set parallel.pipeline=2
echo "passed"

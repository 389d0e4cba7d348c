#!/usr/bin/env bash
# A run of two ranks is killed at its k-th write-class call on its checkpoints, or that call fails, for every k or every
# STRIDE-th: then the same command goes on to the end, bit for bit where a run ends that nothing happened to.
#   crash_sweep.sh PENSTOCK FAULT_SHIM STRIDE
set -euo pipefail
shim=$(realpath "$2")
stride=$3
. "$(dirname "$0")/tiny_job.sh"
settings=(--set parallel.pipeline=2 --set run.steps=5 --set checkpoint.every_steps=1 --set log.tensorboard=false)

go() { # RUN: as it would be started by hand
  timeout 60 "$penstock" train job.toml --set "run.name=$1" "${settings[@]}" >"$1.log" 2>&1
}
faulty() { # KIND AT RUN LAUNCHER…
  local kind=$1 at=$2 name=$3
  shift 3
  { timeout 60 "$@" env LD_PRELOAD="$shim" PENSTOCK_FAULT_PATH=/checkpoints PENSTOCK_FAULT_KIND="$kind" \
    PENSTOCK_FAULT_AT="$at" PENSTOCK_FAULT_LOG="$work/$name.calls" \
    "$penstock" train job.toml --set "run.name=$name" "${settings[@]}" >"$name.log" 2>&1; } 2>/dev/null # the shell says who was killed
}
goes_on() { # RUN WHEN: whatever stands there now, it ends as the straight one
  # A checkpoint is whole or not there.
  if [ -d "runs/$1/checkpoints" ]; then
    "$penstock" checkpoint list "runs/$1" >list.log 2>&1 || { cat list.log; fail "$2: no list"; }
    ! grep -q damaged list.log || { cat list.log; fail "$2: a damaged checkpoint"; }
  fi
  go "$1" || { cat "$1.log"; fail "$2: the run does not go on"; }
  "$penstock" checkpoint diff "runs/$1" runs/straight >diff.log 2>&1 || { cat diff.log; fail "$2: another end"; }
  ! ls -d "runs/$1"/checkpoints/.[to]* 2>/dev/null || fail "$2: left over"
  rm -r "runs/$1" "$1.calls"
}

go straight || { cat straight.log; fail "the straight run"; }
faulty none 0 counted || { cat counted.log; fail "the counted run"; }
calls=$(wc -l <counted.calls)
[ "$calls" -gt 80 ] || { cat counted.calls; fail "$calls calls are too few for five saves"; }
goes_on counted "counted"

sweep() { # KIND STRIDE FIRST: at every STRIDE-th call
  local kind=$1 at code ended=0
  for ((at = $3; at <= calls; at += $2)); do
    code=0
    faulty "$kind" "$at" swept || code=$?
    # The order of the ranks' calls is not always the same: the last ones may not come.
    case $kind in
      kill) [ "$code" = 137 ] || [ "$at" -gt $((calls - 8)) ] || { cat swept.log; fail "$kind at call $at: exit code $code"; } ;;
      short) [ "$code" = 0 ] || { cat swept.log; fail "$kind at call $at: exit code $code"; } ;;
      *)
        # It is an alarm and the run goes on, or the last save failed, or no attempt could start.
        [ "$code" = 0 ] || [ "$code" = 6 ] || { cat swept.log; fail "$kind at call $at: exit code $code"; }
        if grep -q '"save_failed"' runs/swept/events.jsonl 2>/dev/null; then
          grep '"save_failed"' runs/swept/events.jsonl | grep -Eq 'checkpoints.*(No space left on device|Input/output error)' ||
            { cat runs/swept/events.jsonl; fail "$kind at call $at: file and error are not named"; }
        fi
        ;;
    esac
    [ "$code" = 0 ] || ended=$((ended + 1))
    goes_on swept "$kind at call $at ($(sed -n "${at}p" swept.calls))"
  done
  echo "$kind: $ended of $(((calls - $3) / $2 + 1)) runs ended by it"
}

sweep kill "$stride" 1
sweep ENOSPC $((stride * 2)) 2
sweep EIO $((stride * 2)) 3
sweep short $((stride * 4)) 4
sweep ENOSPC+ $((stride * 4)) 5
if [ "$stride" = 1 ] && command -v mpirun >/dev/null; then
  # Ranks that are processes: one of them is killed.
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
  for rank in 0 1; do
    for ((at = 1; at <= calls / 3; at += 3)); do
      code=0
      PENSTOCK_FAULT_RANK=$rank faulty kill "$at" swept mpirun --oversubscribe -n 2 || code=$?
      goes_on swept "rank $rank killed at call $at (exit code $code)"
    done
  done
fi
echo "passed: $calls calls"

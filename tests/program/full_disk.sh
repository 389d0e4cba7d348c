#!/usr/bin/env bash
# A run on a file system that is really full: its saves fail with an alarm that names file and error, it goes on, and once
# there is room the same command ends bit for bit where a run ends that had room. Exit code 77: no tmpfs may be mounted.
#   full_disk.sh PENSTOCK
set -euo pipefail
. "$(dirname "$0")/tiny_job.sh"
mkdir small
mount -t tmpfs -o size=64m tmpfs small 2>/dev/null || { echo "needs to mount a tmpfs"; exit 77; }
trap 'umount "$work/small"; rm -rf "$work"' EXIT
settings=(--set parallel.pipeline=2 --set run.steps=6 --set checkpoint.every_steps=2 --set log.tensorboard=false)
timeout 60 "$penstock" train job.toml --set run.name=straight "${settings[@]}" >/dev/null
bytes=$(du -sB1 runs/straight/checkpoints/step-00000006 | cut -f1)

run() { timeout 60 "$penstock" train job.toml --set run.folder=small --set run.name=full --set log.console=plain "${settings[@]}" "$@" >full.log 2>&1; }
# Room for one checkpoint and half of another.
mount -o "remount,size=$((bytes * 3 / 2 + 300000))" small
code=0
run || code=$?
[ "$code" = 6 ] || { cat full.log; df small; fail "exit code $code with a full disk"; }
grep -q 'expected .* for 3 more checkpoints' full.log || { cat full.log; df -B1 small; fail "no warning before the start ($bytes bytes a checkpoint)"; }
grep -q 'small/full/checkpoints.*No space left on device' full.log || { cat full.log; fail "file and error are not named"; }
"$penstock" checkpoint verify small/full >verify.log || { cat verify.log; fail "the checkpoint that was there is damaged"; }
grep -q 'step-00000002: whole' verify.log || { cat verify.log; fail "the checkpoint that was there is gone"; }
! ls -d small/full/checkpoints/.tmp* 2>/dev/null || fail "a failed save keeps its space"

code=0
run --set 'checkpoint.on_save_error="stop"' || code=$?
[ "$code" = 6 ] || { cat full.log; fail "exit code $code with on_save_error = stop"; }
mount -o remount,size=64m small
run || { cat full.log; fail "the run does not go on with room"; }
"$penstock" checkpoint diff small/full runs/straight || fail "another end"

# Too little for one: refused before the first step, with the numbers.
mount -o "remount,size=$((bytes * 2 + 300000))" small
code=0
timeout 60 "$penstock" train job.toml --set run.folder=small --set run.name=none "${settings[@]}" >none.log 2>&1 || code=$?
[ "$code" = 6 ] || { cat none.log; fail "exit code $code without room for a checkpoint"; }
grep -q 'bytes free .*expected at least' none.log || { cat none.log; fail "refused without the numbers"; }
echo "passed"

#!/usr/bin/env bash
# The program itself, started as users start it: one rank, threads, processes under mpirun. Every start must write the same
# losses and gradient norms, bit for bit, and a launch that does not fit must be refused with the command that does.
#   ranks.sh PENSTOCK
set -euo pipefail
. "$(dirname "$0")/tiny_job.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
mpi=(mpirun --oversubscribe -n)

train one -- >/dev/null
train threads -- --set parallel.pipeline=2 >/dev/null
same threads one 4
train processes "${mpi[@]}" 2 -- --set parallel.pipeline=2 >/dev/null
same processes one 4
# Every step of both processes is accounted for, on one clock.
accounted=$(grep -c '"bubble_ratio": .*"ranks": \[{"rank": 0, .*"fill_ms".*\]' runs/processes/metrics.jsonl)
[ "$accounted" = 4 ] || { echo "FAILED: $accounted of 4 steps are accounted for"; exit 1; }
! grep -q unexplained_ms runs/processes/metrics.jsonl || { echo "FAILED: unexplained time"; exit 1; }
grep -q '"event": *"prediction"' runs/processes/events.jsonl || { echo "FAILED: no prediction"; exit 1; }
train zero_bubble "${mpi[@]}" 3 -- --set parallel.pipeline=3 --set parallel.schedule=zb-h1 >/dev/null
same zero_bubble one 4
# Rank 0 plans, the others are told.
train planned "${mpi[@]}" 3 -- --set parallel.pipeline=3 --set parallel.schedule=auto --set recompute.mode=auto >/dev/null
same planned one 4
grep -q '"schedules"' runs/planned/plan.json || fail "a plan without its schedules"
train traced "${mpi[@]}" 2 -- --set parallel.pipeline=2 --set 'trace.steps=[3]' >/dev/null
same traced one 4
# Each of the 4 micro-batches goes forward and comes back; no message arrives before it leaves.
awk -F'[:,]' '
  /"clock_error_us":/ { match($0, /"clock_error_us":[^,}]*/); split(substr($0, RSTART, RLENGTH), part, ":"); error = part[2] }
  /"ph":"[sf]"/ { match($0, /"id":[0-9]*/); id = substr($0, RSTART, RLENGTH); if ($2 == "\"s\"") left[id] = $8; else came[id] = $8 }
  END {
    for (id in left) { messages++; if (!(id in came) || came[id] + error < left[id]) bad = bad " " id }
    if (messages != 8 || error <= 0 || error > 1e5 || bad) { print messages " messages, error " error ", wrong:" bad; exit 1 }
  }' runs/traced/trace/step-00000003.json || fail "a trace that does not fit together"
train replicas -- --set parallel.data=2 >/dev/null
# A run's own job generates, whatever its schedule asks of a step, and always the same text.
for kind in 1f1b interleaved dualpipe 2bw; do
  "$penstock" generate job.toml --set run.name=one --set parallel.pipeline=2 --set "parallel.schedule=$kind" --prompt "line 3" \
    --tokens 5 >"text-$kind" 2>refused.log || { cat refused.log; fail "no text with $kind"; }
  cmp -s "text-$kind" text-1f1b || fail "another text with $kind"
done
# A text does not depend on ranks, transport, or what is generated beside it; and it is what JSON says.
printf 'line 3\nfox\n' >prompts.txt
continued=(generate job.toml --set run.name=one --max-tokens 12 --seed 4 --texts 2)
one=("${continued[@]}" --prompts-file prompts.txt)
"$penstock" "${one[@]}" >texts
[ "$(grep -c '^----$' texts)" = 3 ] || fail "not four texts"
for batch in 1 3; do
  "$penstock" "${one[@]}" --batch $batch | cmp - texts || fail "other texts with $batch at once"
  "$penstock" "${one[@]}" --batch $batch --set parallel.pipeline=2 | cmp - texts || fail "other texts by two threads"
  "${mpi[@]}" 2 "$penstock" "${one[@]}" --batch $batch --set parallel.pipeline=2 >by_processes
  cmp by_processes texts || fail "other texts by two processes"
done
"$penstock" "${continued[@]}" --prompts-file - <prompts.txt | cmp - texts || fail "other texts from standard input"
"$penstock" "${one[@]}" --json >texts.json
python3 - <<'END' || fail "JSON that does not have the texts"
import json
answer = json.load(open("texts.json"))
# Bytes that are not UTF-8 are another sign in JSON.
def plain(text): return "".join(letter for letter in text if letter < "\x80")
printed = plain(open("texts", encoding="latin-1").read())
assert printed == "\n----\n".join(plain(t["prompt"] + t["text"]) for t in answer["texts"]) + "\n", printed
assert all(1 <= len(t["tokens"]) <= 12 and t["ended"] for t in answer["texts"])
assert answer["timings"]["made_tokens_per_second"] > 0 and answer["timings"]["share_of_memory"] > 0
END
"$penstock" generate job.toml --set run.name=one --prompt "line 3" --stop "" >refused.log 2>&1 && fail "an empty stop text was taken"
grep -q "expected a text to stop at" refused.log || { cat refused.log; fail "no word of the empty stop text"; }
"$penstock" generate job.toml --set run.name=one --set parallel.memory_limit_gib=0.07 --texts 4096 --batch 4096 >refused.log 2>&1 &&
  fail "a cache that does not fit was taken"
grep -q -- "--batch, 4096 here" refused.log || { cat refused.log; fail "no word of the cache that does not fit"; }
# Perplexity of a text, by any ranks.
seq 1 400 | sed 's/^/line /' >lines.txt
"$penstock" eval job.toml lines.txt --set run.name=one --json >eval_one.json
"${mpi[@]}" 2 "$penstock" eval job.toml lines.txt --set run.name=one --set parallel.pipeline=2 --json >eval_two.json
"$penstock" eval job.toml - --set run.name=one --json <lines.txt >eval_input.json
for key in loss tokens bytes bits_per_byte; do
  for other in two input; do
    [ "$(grep "\"$key\"" eval_one.json)" = "$(grep "\"$key\"" eval_$other.json)" ] || fail "another $key: eval_$other.json"
  done
done
grep -q "\"bytes\": $(stat -c %s lines.txt)," eval_one.json || { cat eval_one.json; fail "not the bytes of the text"; }
"$penstock" eval job.toml lines.txt --set run.name=one --stride 100000 >refused.log 2>&1 && fail "a stride beyond the window was taken"
grep -q "expected 1 to" refused.log || { cat refused.log; fail "no word of the stride"; }
# The start says where a run's bits end.
"$penstock" train job.toml --set run.name=replicas --set parallel.data=1 --set run.steps=5 >other.log 2>&1 || { cat other.log; fail "with 1 replica"; }
grep -qF "gradients of 1 replicas (or copies of the weights) are summed from here on, of 2 until now" runs/replicas/logs/*0.log ||
  { cat runs/replicas/logs/*; fail "no word of other replicas"; }
rm -r runs/replicas
train replicas -- --set parallel.data=2 >/dev/null
train grid "${mpi[@]}" 4 -- --set parallel.pipeline=2 >/dev/null # parallel.data = "auto" becomes 2
same grid replicas 4

# Stopped through mpirun: USR1 is passed on, TERM is followed by KILL unless mpirun was told to wait.
stopped() { # SIGNAL RUN MPIRUN_OPTIONS…: sends it in mid-run; the run must end with a checkpoint that it goes on from.
  local status=0
  train "$2" "${mpi[@]}" 2 "${@:3}" -- --set parallel.pipeline=2 --set run.steps=100000 \
    >stopped.log 2>&1 &
  for _ in $(seq 300); do [ -s "runs/$2/metrics.jsonl" ] && break; sleep 0.1; done
  pkill "-$1" -f "^mpirun .*run.name=$2( |$)" || fail "no mpirun to send $1 to"
  wait $! || status=$?
  grep -q '"state": "stopped"' "runs/$2/status.json" || { cat stopped.log; fail "$1 to mpirun left no stopped run"; }
  grep -q 'asked to stop' stopped.log || { cat stopped.log; fail "$1 without a word"; }
  [ "$1" = TERM ] || [ "$status" = 75 ] || fail "$1 to mpirun exits $status"
  [ "$1" = USR1 ] || grep -q ' 5 s after TERM' stopped.log || { cat stopped.log; fail "mpirun's patience is not named"; }
}
stopped USR1 user
stopped TERM term --mca odls_base_sigkill_timeout 5

# Without MPI: processes that meet over TCP, started one by one and by mpirun as a mere starter.
port=$((20000 + $$ % 10000))
RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port train tcp -- \
  --set parallel.pipeline=2 --set 'comm.transport="tcp"' >/dev/null &
RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port train tcp -- \
  --set parallel.pipeline=2 --set 'comm.transport="tcp"' >/dev/null
wait $!
same tcp one 4
train tcp_grid "${mpi[@]}" 4 -- --set parallel.pipeline=2 --set 'comm.transport="tcp"' >/dev/null
same tcp_grid replicas 4
# A rank that dies ends the others, which say who it was.
RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port train tcp_dies -- \
  --set parallel.pipeline=2 --set 'comm.transport="tcp"' --set run.steps=100000 >dies.log 2>&1 &
survivor=$!
RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port "$penstock" train job.toml --set run.name=tcp_dies \
  --set parallel.pipeline=2 --set 'comm.transport="tcp"' --set run.steps=100000 >/dev/null 2>&1 &
for _ in $(seq 300); do [ -s runs/tcp_dies/metrics.jsonl ] && break; sleep 0.1; done
kill -KILL $!
if wait $survivor; then fail "a survivor of a killed rank ends as if all were well"; fi
grep -q 'rank 0 (process [0-9]* on .*) is gone' dies.log || { cat dies.log; fail "the killed rank is not named"; }

# A rehearsal of the job in virtual time, in one process, and asleep as two.
timeout 60 "$penstock" replay job.toml --set parallel.pipeline=2 --steps 3 --disturb 'step 1 evaluation pause 1s' >replay.log
[ "$(wc -l <replay.log)" = 6 ] || { cat replay.log; fail "a replay without its lines"; }
timeout 60 "${mpi[@]}" 2 "$penstock" replay --pipeline 2 --micro-batches 4 --costs 2,2,2 --steps 3 --sleep >asleep.log
[ "$(wc -l <asleep.log)" = 6 ] || { cat asleep.log; fail "a replay asleep without its lines"; }
# 4 micro-batches of 6 ms and the other rank's first: what the ranks sent each other of their times makes sense.
awk '$1 ~ /^[0-9]+$/ && ($2 < 30 || $3 < 5 || $3 > 95) { bad = 1 } END { exit bad }' asleep.log ||
  { cat asleep.log; fail "times of a replay asleep that cannot be"; }

refused "mpirun -n 4" wrong "${mpi[@]}" 3 -- --set parallel.pipeline=2
once() { [ "$(grep -c 'penstock: error' refused.log)" = 1 ] || { cat refused.log; fail "$1: not one error"; }; }
once "a launch that does not fit"
grep -qF -- "mpirun -n 4 penstock train job.toml --set run.name=wrong --set parallel.pipeline=2" refused.log ||
  { cat refused.log; fail "the command to start is not the one that was given"; }
# Every rank finds what is wrong with files and arguments; one of them says it.
refused "nowhere.bin" missing "${mpi[@]}" 2 -- --set parallel.pipeline=2 --set 'data.train=["nowhere"]'
once "a token file that is missing"
if "${mpi[@]}" 2 "$penstock" train job.toml --nonsense >refused.log 2>&1; then fail "--nonsense was taken"; fi
once "an option that is not there"
# What cannot be written is said before anything is measured, and is storage's.
code=0
"$penstock" profile job.toml --output /dev/null/profile.json >refused.log 2>&1 || code=$?
[ "$code" = 6 ] || { cat refused.log; fail "exit code $code for an output that cannot be written"; }
! grep -q profiling refused.log || { cat refused.log; fail "measured before the output was opened"; }
echo "passed"

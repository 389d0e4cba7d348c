#!/usr/bin/env bash
# A rank's process is stopped for two seconds in the middle of a run, several times: in every step that this falls into, every
# other rank waited for that rank, not for a link and not for nobody.
#   stopped_rank.sh PENSTOCK
set -euo pipefail
. "$(dirname "$0")/tiny_job.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none

timeout 150 mpirun --oversubscribe --bind-to none -n 2 "$penstock" train job.toml --set run.name=stopped \
  --set parallel.pipeline=2 --set parallel.threads=1 --set run.steps=100000 --set checkpoint.every_steps=0 \
  --set model.hidden_size=128 --set model.ffn_hidden_size=256 --set model.sequence_length=64 >stopped.log 2>&1 &
job=$!
trap 'kill $(ranks) 2>/dev/null || true; wait "$job" 2>/dev/null || true; rm -rf "$work"' EXIT

# The processes of this run: they stand in its folder.
ranks() {
  local process
  for process in /proc/[0-9]*; do
    [ "$(readlink "$process/cwd" 2>/dev/null)" = "$work" ] || continue
    grep -zq "^OMPI_COMM_WORLD_RANK=${1:-}" "$process/environ" 2>/dev/null || continue
    [ "$(readlink "$process/exe" 2>/dev/null)" = "$(readlink -f "$penstock")" ] && basename "$process"
  done
}
steps() { cat runs/stopped/metrics.jsonl 2>/dev/null | wc -l; }

for ((i = 0; i < 300 && $(steps) < 5; ++i)); do sleep 0.1; done
[ "$(steps)" -ge 5 ] || { cat stopped.log; fail "the run has not begun"; }
for culprit in 0 1 1 0; do
  process=$(ranks $culprit)
  [ -n "$process" ] || fail "no process of rank $culprit"
  before=$(steps)
  kill -STOP "$process"
  sleep 2
  at=$(steps)
  kill -CONT "$process"
  # A step's line is written during the next one.
  for ((i = 0; i < 300 && $(steps) < at + 4; ++i)); do sleep 0.1; done
  # Of a file that grows, without a pipe: one that is closed before its end would be a failure.
  awk -v culprit=$culprit -v first="$before" -v last=$((at + 3)) '
    NR < first { next }
    NR > last { exit }
    function value(text, key) { return match(text, "\"" key "\": [-0-9.]+") ? substr(text, RSTART + length(key) + 4, RLENGTH - length(key) - 4) + 0 : -1 }
    {
      count = split($0, ranks, "{\"rank\": ")
      # Of a stop between two steps, or over the end of one, each has its part.
      if (count != 3 || value(ranks[2], "accounted_ms") < 1500) next
      ++found
      other = ranks[3 - culprit]
      if (value(other, "root_rank") != culprit || value(other, "root_link_to") >= 0 || value(other, "root_ms") < 1000) bad = bad "\n" other
      for (i = 2; i <= 3; ++i) if (value(ranks[i], "transfer_ms") > 1000) bad = bad "\n" ranks[i]
    }
    END { if (!found || bad) { print found + 0 " long steps; wrong:" bad; exit 1 } }' runs/stopped/metrics.jsonl ||
    fail "rank $culprit stood still, and was not found"
done
echo "passed"

# Sourced after tiny_job.sh: finds the processes of its runs, and says what a run must look like that lost one. Whatever is left of
# them ends with the test.
trap 'kill -KILL $(ranks) 2>/dev/null || true; rm -rf "$work"' EXIT
# The processes of a run, by its name; of one of its ranks.
ranks() { # [RUN [RANK]]
  local process
  for process in /proc/[0-9]*; do
    [ "$(readlink "$process/cwd" 2>/dev/null)" = "$work" ] || continue
    [ "$(readlink "$process/exe" 2>/dev/null)" = "$(readlink -f "$penstock")" ] || continue
    [ -z "${1:-}" ] || grep -zqx "run.name=$1" "$process/cmdline" 2>/dev/null || continue
    [ -z "${2:-}" ] || grep -zqE "^(OMPI_COMM_WORLD_RANK|RANK|SLURM_PROCID)=$2$" "$process/environ" 2>/dev/null || continue
    basename "$process"
  done
}
begun() { # RUN LOG
  for _ in $(seq 300); do [ -s "runs/$1/metrics.jsonl" ] && return; sleep 0.1; done
  cat "$2"
  fail "$1 has not begun"
}
all_gone() { # RUN SECONDS
  local start=$EPOCHREALTIME
  while [ -n "$(ranks "$1")" ]; do
    (($(microseconds_since "$start") < $2 * 1000000)) || fail "processes of $1 are left after $2 s: $(ranks "$1")"
    sleep 0.1
  done
  echo "$1: gone after $(($(microseconds_since "$start") / 1000)) ms"
}
microseconds_since() { echo $((${EPOCHREALTIME/[.,]/} - ${1/[.,]/})); } # EPOCHREALTIME
says() { grep -qE -- "$1" "$2" || { cat "$2"; fail "$2 does not say: $1"; } }
failed_with_70() { # RUN
  grep -q '"state": "failed"' "runs/$1/status.json" && grep -q '"exit_code": 70' "runs/$1/status.json" ||
    { cat "runs/$1/status.json"; fail "status.json of $1"; }
  grep -q '"event":"watchdog"' "runs/$1/events.jsonl" || { cat "runs/$1/events.jsonl"; fail "$1 without an event"; }
  "$penstock" status "runs/$1" --needs-resume || fail "$1 does not need to be resumed"
  "$penstock" status "runs/$1" >status.log
  says 'failed' status.log
}

#!/usr/bin/env bash
# Pages of `penstock report` in headless Chromium: of a run with alarms and texts that try to end the page's script, of two
# runs, and of one that has made no step. Usage: report_browser.sh PENSTOCK. Exit code 77: node or Chromium is missing.
set -euo pipefail
penstock=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
chromium=$(command -v chromium-headless-shell || command -v chromium || true)
if [ -z "$chromium" ] || ! command -v node >/dev/null; then
  echo "needs node, and chromium-headless-shell or chromium (scripts/setup full)"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

cp -r "$here/../trainer/run_view/fixtures/small_run" first
cp -r first second
cp -r first begun
rm begun/{metrics,events}.jsonl
rm -r begun/trace
cat >>first/events.jsonl <<'EVENTS'
{"schema":1,"attempt":1,"step":21,"event":"budget_alarm","limit":"bubble_ratio","limit_value":0.15,"found":0.41,"since_step":1}
{"schema":1,"attempt":1,"step":25,"event":"budget_decision","candidates":[{"action":"schedule","arrangement":"zbv","taken":true,"predicted_gain":0.3}]}
{"schema":1,"attempt":1,"step":30,"event":"budget_kept","action":"schedule","why":"its gain is sure","measured_gain":0.29}
{"schema":1,"attempt":1,"step":33,"event":"</script><script>throw new Error('escaped')</script>","reason":"<img src=x onerror=alert(1)> <!-- & \u2028"}
EVENTS
"$penstock" report first -o one.html
"$penstock" report first second -o two.html
"$penstock" report begun -o begun.html
timeout 300 node "$here/report_browser.mjs" "$chromium" one.html two.html begun.html

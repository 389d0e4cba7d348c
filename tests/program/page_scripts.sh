#!/usr/bin/env bash
# Whether node understands the scripts of the report's page: each file by itself, and what a page has of them; and its data.
# Usage: page_scripts.sh TEMPLATE_FOLDER PENSTOCK
set -euo pipefail
template=$1
penstock=$(realpath "$2")
run=$(cd "$(dirname "$0")/../trainer/run_view/fixtures/small_run" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for script in "$template"/*.js; do node --check "$script"; done
"$penstock" report "$run" -o "$work/page.html" >/dev/null
node - "$work/page.html" <<'NODE'
const text = require("fs").readFileSync(process.argv[2], "utf8");
const scripts = [...text.matchAll(/<script([^>]*)>([^]*?)<\/script>/g)];
if (scripts.length !== 2) throw new Error(`the page has ${scripts.length} scripts, not its data and one script`);
const data = JSON.parse(scripts[0][2]);
if (data.runs.length !== 1 || data.runs[0].steps.count !== 40) throw new Error("the page has not the run's data");
new Function(scripts[1][2]);  // parses it, as one
NODE

#!/usr/bin/env bash
# The program itself, started as users start it: one rank, threads, processes under mpirun. Every start must write the same
# losses and gradient norms, bit for bit, and a launch that does not fit must be refused with the command that does.
#   ranks.sh PENSTOCK
set -euo pipefail
penstock=$1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
export OMP_WAIT_POLICY=passive
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

for word in $(seq 1 400); do echo "line $word of a text that counts to four hundred"; done >text.txt
"$penstock" tokenizer train --input text.txt --vocab-size 270 --output tokenizer.json 2>/dev/null >/dev/null
"$penstock" data prepare --input text.txt --tokenizer tokenizer.json --output text 2>/dev/null >/dev/null
cat >job.toml <<'JOB'
[run]
name = "run"
steps = 4
[model]
family = "llama"
layers = 2
hidden_size = 32
heads = 4
kv_heads = 2
ffn_hidden_size = 64
sequence_length = 16
[data]
train = ["text"]
tokenizer = "tokenizer.json"
[batch]
global = 4
micro = 1
[learning_rate]
max = 1e-2
[log]
console = "quiet"
JOB

# Loss and gradient norm of every step of a run.
numbers() { sed -E 's/.*("loss": [^,]*), ("grad_norm": [^,]*),.*/\1 \2/' "runs/$1/metrics.jsonl"; }
same() { # RUN REFERENCE
  [ "$(numbers "$1" | wc -l)" = 4 ] || { echo "FAILED: run $1 has not 4 steps"; exit 1; }
  diff <(numbers "$1") <(numbers "$2") || { echo "FAILED: $1 differs from $2"; exit 1; }
}
train() { # RUN LAUNCHER… -- SETTINGS…
  local name=$1 launcher=()
  shift
  while [ "$1" != -- ]; do launcher+=("$1"); shift; done
  shift
  timeout 60 "${launcher[@]}" "$penstock" train job.toml --set "run.name=$name" "$@"
}
mpi=(mpirun --oversubscribe -n)

train one -- >/dev/null
train threads -- --set parallel.pipeline=2 >/dev/null
same threads one
train processes "${mpi[@]}" 2 -- --set parallel.pipeline=2 >/dev/null
same processes one
train zero_bubble "${mpi[@]}" 3 -- --set parallel.pipeline=3 --set parallel.schedule=zb-h1 >/dev/null
same zero_bubble one
train traced "${mpi[@]}" 2 -- --set parallel.pipeline=2 --set 'trace.steps=[3]' >/dev/null
same traced one
# Each of the 4 micro-batches goes forward and comes back; no message arrives before it leaves.
awk -F'[:,]' '
  /"clock_error_us":/ { match($0, /"clock_error_us":[^,}]*/); split(substr($0, RSTART, RLENGTH), part, ":"); error = part[2] }
  /"ph":"[sf]"/ { match($0, /"id":[0-9]*/); id = substr($0, RSTART, RLENGTH); if ($2 == "\"s\"") left[id] = $8; else came[id] = $8 }
  END {
    for (id in left) { messages++; if (!(id in came) || came[id] + error < left[id]) bad = bad " " id }
    if (messages != 8 || error <= 0 || error > 1e5 || bad) { print messages " messages, error " error ", wrong:" bad; exit 1 }
  }' runs/traced/trace/step-00000003.json || { echo "FAILED: a trace that does not fit together"; exit 1; }
train replicas -- --set parallel.data=2 >/dev/null
train grid "${mpi[@]}" 4 -- --set parallel.pipeline=2 >/dev/null # parallel.data = "auto" becomes 2
same grid replicas

if train wrong "${mpi[@]}" 3 -- --set parallel.pipeline=2 >wrong.log 2>&1; then
  echo "FAILED: 3 processes for a pipeline of 2 were accepted"; exit 1
fi
grep -q "mpirun -n 4" wrong.log || { cat wrong.log; echo "FAILED: no command that fits"; exit 1; }
[ "$(grep -c 'penstock: error' wrong.log)" = 1 ] || { cat wrong.log; echo "FAILED: not one error"; exit 1; }
echo "passed"

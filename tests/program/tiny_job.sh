# Sourced by the tests that start the program: moves to a new temporary folder with a tiny job, and says how its runs are
# started and compared. Sets $penstock from the first argument of the script, and $programs, the folder of these scripts.
penstock=$(realpath "$1")
programs=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
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
decay_style = "constant"
[log]
console = "quiet"
JOB

fail() { echo "FAILED: $1"; exit 1; }
# Loss and gradient norm of every step of a run.
numbers() { sed -E 's/.*("loss": [^,]*), ("grad_norm": [^,]*),.*/\1 \2/' "runs/$1/metrics.jsonl"; }
same() { # RUN REFERENCE STEPS
  [ "$(numbers "$1" | wc -l)" = "$3" ] || fail "run $1 has not $3 steps"
  diff <(numbers "$1") <(numbers "$2") || fail "$1 differs from $2"
  "$penstock" checkpoint diff "runs/$1" "runs/$2" >diff.log 2>&1 || { cat diff.log; fail "the checkpoint of $1 differs"; }
}
train() { # RUN LAUNCHER… -- SETTINGS…
  local name=$1 launcher=()
  shift
  while [ "$1" != -- ]; do launcher+=("$1"); shift; done
  shift
  timeout 60 "${launcher[@]}" "$penstock" train job.toml --set "run.name=$name" "$@"
}
refused() { # TEXT RUN LAUNCHER… -- SETTINGS…: the launch fails and says TEXT.
  local text=$1
  shift
  if train "$@" >refused.log 2>&1; then fail "run $1 was accepted; expected: $text"; fi
  grep -qF -- "$text" refused.log || { cat refused.log; fail "run $1 was not refused with: $text"; }
}

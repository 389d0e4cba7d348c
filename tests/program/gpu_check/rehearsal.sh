#!/usr/bin/env bash
# Every line of scripts/gpu_check.sh without a GPU: packs programs that run on the stand-in for the CUDA runtime, and runs
# both tiers and the long table from the pack, with stand-ins for NVIDIA's tools. Then a pack with broken programs, whose
# parts must fail by themselves.
#   rehearsal.sh FOLDER_OF_PROGRAMS
set -euo pipefail
binaries=$1
here=$(cd "$(dirname "$0")" && pwd)
check=$here/../../../scripts/gpu_check.sh
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PATH=$here/stand_ins:$PATH OMP_WAIT_POLICY=passive
fail() { echo "FAILED: $*"; exit 1; }
# row FILE STATUS NAME [NOTE]: the table has it.
row() { awk -v s="$2" -v n="$3" -v note="${4:-}" 'index($0, n) == 1 && substr($0, 40, 8) ~ "^" s && index($0, note) { found = 1 }
                        END { exit !found }' "$1" || { cat "$1"; fail "no row: $2 $3 ${4:-}"; }; }

"$check" --pack "$folder/pack" --binaries "$binaries" --tiny
for file in gpu_check.sh penstock.tar.gz; do [ -s "$folder/pack/$file" ] || fail "the pack has no $file"; done
# Libraries of the system travel, CUDA's do not.
tar -tzf "$folder/pack/penstock.tar.gz" >"$folder/files"
grep -q 'lib/libdnnl' "$folder/files" || fail "oneDNN is not in the pack"
! grep -qE 'lib/(libcud|libcublas|libc\.so|libnccl)' "$folder/files" || fail "the pack has what the other machine has"

cd "$folder"
"$folder/pack/gpu_check.sh" --out "$folder/out" >table 2>&1 || { cat table out/check.log; fail "a check of good programs fails"; }
grep -q 'Fake GPU, 580' table || fail "the GPU is not named"
grep -q 'libcudart.so.13: /' table || fail "the runtime's file is not named"
for name in 'device contract' 'kernels' 'attention, built in' 'transport inproc' 'C1, ranks on the GPU: 1' \
  'C1, ranks on the GPU: 2' 'C1, ranks on the GPU: 4' 'losses of a tiny training' 'quickstart beside the CPU, fp32' \
  'quickstart beside the CPU, bf16' 'compute-sanitizer memcheck' 'compute-sanitizer racecheck' 'kernel table' \
  'training tiny'; do
  row table PASS "$name"
done
row table 'NOT RUN' 'attention, cuDNN'
row table 'NOT RUN' 'compute-sanitizer synccheck' 'does not support this device'
python3 - out <<'PYTHON' || fail "the files of the check"
import json, sys
check = json.load(open(sys.argv[1] + "/check.json"))
assert check["counts"]["FAIL"] == 0 and check["counts"]["PASS"] >= 14, check["counts"]
assert any("Fake GPU" in line for line in check["machine"]), check["machine"]
table = json.load(open(sys.argv[1] + "/kernels.json"))
assert len(table["rows"]) > 30 and all("share" in row or "absent" in row for row in table["rows"]), table
row = json.load(open(sys.argv[1] + "/training-tiny.json"))
assert row["tokens_per_second"] > 0 and 0 < row["planned_bytes"] <= row["held_bytes"], row
PYTHON

# The long table: ours stand there; PyTorch's may be absent here, which is told and is no failure.
"$folder/pack/gpu_check.sh" --long --out "$folder/long" tiny:8 >long.txt 2>&1 || { cat long.txt; fail "the long table"; }
grep -qE '^\| tiny \| 8 \| [0-9]+ \|' long.txt || { cat long.txt; fail "no row in the long table"; }

# Parts that fail, hang or cannot start.
mkdir broken && tar -C broken -xzf pack/penstock.tar.gz
printf '#!/bin/sh\necho "error: planted"\nexit 3\n' >broken/bin/test_device
printf '#!/bin/sh\n' >broken/bin/test_kernels
printf '#!/bin/sh\ncase "$*" in *list*) echo "  X";; *) sleep 60;; esac\n' >broken/bin/test_transport
printf '#!/bin/sh\necho "  X"\n' >broken/bin/test_training
sed -i 's/"loss": *[0-9.]*/"loss": 3.0/' broken/data/cpu_metrics.jsonl
tar -C broken -cf - . | gzip >pack/penstock.tar.gz
sed -i 's/part "transport inproc" 40/part "transport inproc" 1/' pack/gpu_check.sh
status=0
"$folder/pack/gpu_check.sh" --tier 1 --out "$folder/out2" >table 2>&1 || status=$?
[ "$status" = 1 ] || { cat table; fail "exit $status for failures"; }
row table FAIL 'quickstart beside the CPU, fp32' 'loss of step 0'
row table FAIL 'device contract' 'error: planted'
row table FAIL 'transport inproc' 'ran past its 8 s'
row table 'NOT RUN' 'kernels' 'no such tests in this build'
row table PASS 'C1, ranks on the GPU: 2'
rm pack/penstock.tar.gz
status=0
"$folder/pack/gpu_check.sh" >table 2>&1 || status=$?
[ "$status" = 2 ] || fail "exit $status without a pack"
echo "rehearsed"

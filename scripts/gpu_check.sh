#!/usr/bin/env bash
# Proves the CUDA backend on a machine with an NVIDIA GPU, with programs that were built elsewhere. That machine needs the
# driver, CUDA 13's runtime and cuBLAS, Python 3, and, for what uses them, cuDNN, NCCL, compute-sanitizer and PyTorch; no
# compiler, no packages of a distribution, no network.
#   scripts/gpu_check.sh --pack DIR            where Penstock is built: programs, libraries and data into DIR, 64 MiB at most
#   DIR/gpu_check.sh [--tier 1|2|all] [--out OUT]                on the GPU: tier 1 (4 minutes): is it right? tier 2 (4
#                          minutes): how fast? Both by default. OUT (default: gpu_check) gets check.json, check.log and tables
#   DIR/gpu_check.sh --long [--out OUT] [MODEL:SEQUENCE…]        the long table beside PyTorch, or some rows of it
# Exit status: 0 if no part failed, 1 if one did, 2 if nothing could be run.
# The rehearsal, tests/program/gpu_check.sh, packs programs on the stand-in for the CUDA runtime and runs every line of this.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() { sed -n '2,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
die() { echo "gpu_check: $*" >&2; exit 2; }

# What is run: all of it, or, in a rehearsal, so little that the same lines take seconds on a processor.
choose_sizes() {
  training_ranks='1 2 4'
  device_tests='*'
  patience=1 # times the limits
  if [ "$1" = full ]; then
    kernel_tests='*-*AttentionTest*:*CudnnAttention*'
    attention_tests='*AttentionTest*:AttentionArguments*'
    transport_tests='GpuInproc*:*/GpuInproc*'
    training_tests='*'
    sanitizer_tests='*Shapes/NormTest*:*Shapes/AttentionTest*:*Shapes/PointwiseTest*:Embedding*:Reduce.*:FusedResidualNorm*:Bias*'
    kernel_table=()
    models='124M 1.5B'
    model_sizes=(--sequence 1024 --sequences 32 --micro-batches 4 --steps 5)
    table_sizes=()
  else
    kernel_tests='*fp32_3x7*:Reduce.GlobalNormClips'
    attention_tests='*fp32_B1_T1_H1*'
    transport_tests='*/GpuInproc*_2'
    training_tests='fp32'
    patience=8
    sanitizer_tests='*fp32_3x7*'
    kernel_table=(--tiny)
    models='tiny'
    model_sizes=(--sequence 8 --sequences 2 --micro-batches 2 --steps 1)
    table_sizes=(--tokens 16 --steps 1 --limit 60)
  fi
}

# ---------------------------------------------------------------------------------------------------------------- packing

most_bytes=$((64 << 20))
programs=(penstock test_kernels test_device test_transport test_training bench_kernels bench_training)
# Found on the GPU's machine: glibc, which belongs to its kernel and loader, and what belongs to its driver and CUDA.
left_out='^(linux-vdso|ld-linux.*|libc|libm|libdl|librt|libpthread|libresolv|libutil|libcuda|libcudart|libcublas.*|libcudnn.*|libnccl|libnv.*)[.]so'

build_programs() {
  export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
  # For any processor of the last ten years; ranks of one machine need no MPI.
  cmake --preset release -B build/gpu_pack -DPENSTOCK_CPU_ARCH=x86-64-v3 -DPENSTOCK_MPI=OFF -DPENSTOCK_CUDA=ON \
    -DPENSTOCK_TESTS=ON -DPENSTOCK_BENCHMARKS=OFF >/dev/null
  cmake --build build/gpu_pack --target gpu_binaries
}

# The newest symbol version of glibc that the programs ask for.
newest_glibc() {
  objdump -T "$1"/bin/* "$1"/lib/* 2>/dev/null | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -uV | tail -1
}

# Token files, job and the processor's losses of the training that the GPU does again.
pack_training() {
  local to=$1 tiny=$2 penstock=$3 text vocabulary=300
  mkdir -p "$to/data"
  cp configs/quickstart.toml "$to/data/job.toml"
  {
    echo 'data.train=["data/bible"]'
    echo 'data.validation=data/bible-validation'
    echo 'data.tokenizer=data/tokenizer.json'
    echo 'evaluation.every_steps=0'
    echo 'checkpoint.every_steps=0'
    echo 'precision.compute=fp32'
  } >"$to/data/overrides"
  if [ "$tiny" = 0 ]; then
    echo 'run.steps=200' >>"$to/data/overrides"
    scripts/quickstart_data "$penstock" runs/quickstart/data
    cp runs/quickstart/data/{tokenizer.json,bible.idx,bible.bin,bible-validation.idx,bible-validation.bin} "$to/data/"
  else
    printf '%s\n' run.steps=3 model.layers=2 model.hidden_size=32 model.heads=2 model.sequence_length=8 batch.global=4 \
      >>"$to/data/overrides"
    text=$to/text
    head -c 30000 README.md docs/accounting.md >"$text"
    "$penstock" tokenizer train --input "$text" --vocab-size $vocabulary --output "$to/data/tokenizer.json" >/dev/null
    "$penstock" data prepare --input "$text" --tokenizer "$to/data/tokenizer.json" --output "$to/data/bible" \
      --document-separator blank-line --validation-fraction 0.1 >/dev/null
    rm "$text"
  fi
  (cd "$to" && train_quickstart "$penstock" on_cpu parallel.device=cpu parallel.pipeline=1 "parallel.threads=$(nproc)" \
    >/dev/null && cp runs/on_cpu/metrics.jsonl data/cpu_metrics.jsonl && rm -r runs)
}

pack() {
  local to=$1 binaries=$2 tiny=$3 program library bytes
  cd "$here/.."
  if [ -z "$binaries" ]; then
    build_programs
    binaries=build/gpu_pack/gpu
  fi
  binaries=$(cd "$binaries" && pwd)
  mkdir -p "$to"
  staging=$(mktemp -d)
  trap 'rm -rf "$staging"' EXIT
  mkdir -p "$staging"/{bin,lib,models,torch}
  for program in "${programs[@]}"; do
    [ -x "$binaries/$program" ] || die "$binaries/$program is missing; build the target gpu_binaries"
    strip -o "$staging/bin/$program" "$binaries/$program"
    while read -r library; do
      cp -Lu "$library" "$staging/lib/"
    done < <(ldd "$binaries/$program" | awk -v out="$left_out" '$2 == "=>" && $3 ~ /^\// && $1 !~ out { print $3 }')
  done
  find "$staging/lib" -type f -exec strip --strip-unneeded {} +
  pack_training "$staging" "$tiny" "$binaries/penstock"
  cp tests/bench/models/*.toml "$staging/models/"
  [ "$tiny" = 0 ] || cp tests/program/gpu_check/tiny.toml "$staging/models/"
  cp tests/bench/gpu/long_table.py tests/bench/torch_baseline.py "$staging/torch/"
  if [ "$tiny" = 0 ]; then echo full; else echo tiny; fi >"$staging/sizes"
  newest_glibc "$staging" >"$staging/glibc"
  "$binaries/penstock" --version >"$staging/version"
  tar -C "$staging" -cf - . | gzip -9 >"$to/penstock.tar.gz"
  cp "$here/gpu_check.sh" "$to/gpu_check.sh"
  bytes=$(du -cb "$to/penstock.tar.gz" "$to/gpu_check.sh" | awk 'END { print $1 }')
  printf 'packed %d files, %.1f MiB (at most %d)\n' "$(find "$staging" -type f | wc -l)" \
    "$(awk -v b="$bytes" 'BEGIN { print b / 1048576 }')" $((most_bytes >> 20))
  [ "$bytes" -le "$most_bytes" ] || die "the pack has $bytes bytes; $most_bytes are allowed"
}

# In the folder of the pack: train_quickstart PENSTOCK NAME KEY=VALUE…
train_quickstart() {
  local penstock=$1 name=$2 arguments=() override
  shift 2
  while read -r override; do arguments+=(--set "$override"); done <data/overrides
  for override in "run.name=$name" run.folder=runs run.resume=never log.console=quiet "$@"; do
    arguments+=(--set "$override")
  done
  "$penstock" train data/job.toml "${arguments[@]}"
}

# ------------------------------------------------------------------------------------------------------- the GPU's machine

# Where CUDA's libraries may lie, one a line: the toolkit, the driver's mount, and the packages that PyTorch brings.
library_folders() {
  local folder
  for folder in "${CUDA_HOME:-/usr/local/cuda}/lib64" /usr/local/cuda/lib64 /usr/local/nvidia/lib64 /usr/local/nvidia/lib; do
    echo "$folder"
  done
  python3 -c '
import glob, os, sys
for entry in sys.path:
    for folder in sorted(glob.glob(os.path.join(entry, "nvidia", "*", "lib"))):
        print(folder)'
}

# Sets `found` to the file of a library, by LD_LIBRARY_PATH, then by the loader's own cache.
find_library() {
  local folder
  found=
  while read -r folder; do
    if [ -e "$folder/$1" ]; then
      found=$(readlink -f "$folder/$1")
      return 0
    fi
  done < <(tr ':' '\n' <<<"$LD_LIBRARY_PATH")
  found=$(ldconfig -p 2>/dev/null | awk -v name="$1" '$1 == name { print $NF; exit }')
  [ -n "$found" ]
}

# What the library in file $2 says of itself.
version_of() {
  python3 - "$1" "$2" <<'PYTHON' 2>/dev/null || echo "of unknown version"
import ctypes, sys
library = ctypes.CDLL(sys.argv[2])
by_pointer = {"libcudart.so.13": "cudaRuntimeGetVersion", "libnccl.so.2": "ncclGetVersion"}
if sys.argv[1] in by_pointer:
    version = ctypes.c_int()
    assert getattr(library, by_pointer[sys.argv[1]])(ctypes.byref(version)) == 0
    print(version.value)
else:
    function = getattr(library, {"libcublasLt.so.13": "cublasLtGetVersion", "libcudnn.so.9": "cudnnGetVersion"}[sys.argv[1]])
    function.restype = ctypes.c_size_t
    print(function())
PYTHON
}

describe_machine() {
  local library needed present
  echo "== $(cat version)"
  nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm,clocks.max.sm,clocks.mem,power.limit,compute_mode \
    --format=csv || die "nvidia-smi does not answer: no driver, or no GPU"
  for library in libcudart.so.13 libcublasLt.so.13 libcudnn.so.9 libnccl.so.2; do
    if find_library "$library"; then
      echo "$library: $found, $(version_of "$library" "$found")"
    else
      echo "$library: not found"
    fi
  done
  find_library libcudart.so.13 || die "no libcudart.so.13 in: $LD_LIBRARY_PATH"
  find_library libcublasLt.so.13 || die "no libcublasLt.so.13 in: $LD_LIBRARY_PATH"
  needed=$(cat glibc)
  present=$(ldd --version | awk 'NR == 1 { print $NF }')
  echo "glibc: $present, needed $needed"
  [ "$(printf '%s\n' "$needed" "$present" | sort -V | head -1)" = "$needed" ] ||
    die "the programs need glibc $needed, this machine has $present; pack them on an older system"
  LD_LIBRARY_PATH=$GIVEN_LIBRARY_PATH python3 -c 'import torch; print("PyTorch", torch.__version__, "CUDA", torch.version.cuda)' 2>/dev/null ||
    echo "PyTorch: not found"
  echo "processors: $(nproc), load $(cut -d' ' -f1-3 /proc/loadavg)"
}

# finish_part NAME STATUS SECONDS NOTE
finish_part() {
  printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" >>"$work/parts"
  printf '%-8s %-38s %5s s  %s\n' "$2" "$1" "$3" "$4"
}

# What a log says is wrong: the first test that failed and the first line that gives a reason, or else the last line.
reason_in() {
  local test line
  test=$(grep -a '^\[  FAILED  \] .* ms)$' "$1" | head -1 | sed 's/^\[  FAILED  \] //; s/, where .*//; s/ ([0-9]* ms)$//')
  line=$(grep -aE 'description "|[Ee]rror[: ]|differs|Duplicate|cannot|Actual:' "$1" | head -1 | sed 's/.*description "//')
  [ -n "$line" ] || line=$(tail -1 "$1")
  printf '%.200s' "$(tr '\t' ' ' <<<"${test:+$test: }$line")"
}

# part NAME LIMIT COMMAND…: a FAIL of its own, which stops nobody. LIMIT in seconds, and within what the tier has left. A
# command that ends with 77 was not run: its last line says why.
part() {
  local name=$1 limit=$(($2 * patience)) start status=0 left note
  shift 2
  start=$SECONDS
  left=$((tier_end - SECONDS))
  if [ "$left" -le 2 ]; then
    finish_part "$name" "NOT RUN" 0 "the tier's time is used up"
    return
  fi
  [ "$limit" -le "$left" ] || limit=$left
  printf '\n==== %s: %s\n' "$name" "$*" >>"$out/check.log"
  # A shell function needs a shell of its own for timeout(1).
  if [ "$(type -t "$1")" = function ]; then set -- bash "$work/gpu_check.sh" --in-part "$@"; fi
  timeout -k 5 "$limit" "$@" >"$work/part.log" 2>&1 </dev/null || status=$?
  cat "$work/part.log" >>"$out/check.log"
  case $status in
    0) finish_part "$name" PASS $((SECONDS - start)) "$(grep -aE '^(\[  PASSED  \]|result: )' "$work/part.log" |
      tail -1 | sed 's/^result: //; s/^\[  PASSED  \] //')" ;;
    77) finish_part "$name" "NOT RUN" $((SECONDS - start)) "$(tail -1 "$work/part.log")" ;;
    124 | 137) finish_part "$name" FAIL $((SECONDS - start)) "ran past its $limit s; log: $(reason_in "$work/part.log")" ;;
    *) note=$(reason_in "$work/part.log"); finish_part "$name" FAIL $((SECONDS - start)) "exit $status: $note" ;;
  esac
}

# Functions from here to the tiers run as parts, in $work.

# tests PROGRAM FILTER: exit 77 where the program has no such tests.
tests() {
  local listing
  listing=$("bin/$1" --gtest_list_tests "--gtest_filter=$2" 2>&1) || {
    echo "$listing"
    echo "error: $1 does not start"
    exit 1
  }
  grep -q '^  ' <<<"$listing" || {
    echo "no such tests in this build ($1 $2)"
    exit 77
  }
  "bin/$1" "--gtest_filter=$2" --gtest_brief=0
}

needs_library() {
  find_library "$1" || {
    echo "$1 is not on this machine"
    exit 77
  }
}

cudnn_tests() {
  needs_library libcudnn.so.9
  tests test_kernels 'CudnnAttention*:*/CudnnAttention*'
}

nccl_tests() {
  needs_library libnccl.so.2
  tests test_transport "$1"
}

# Newer releases let ranks share a GPU when told to; others say "Duplicate GPU".
nccl_tests_of_two() {
  local status=0
  needs_library libnccl.so.2
  NCCL_DEBUG=WARN NCCL_MULTI_RANK_GPU_ENABLE=1 bash gpu_check.sh --in-part tests test_transport "$1" >two.log 2>&1 || status=$?
  cat two.log
  if [ "$status" != 0 ] && grep -qi 'duplicate gpu' two.log; then
    echo "this NCCL does not allow two ranks on a GPU"
    exit 77
  fi
  exit "$status"
}

# sanitizer TOOL
sanitizer() {
  local program status=0
  program=$(command -v compute-sanitizer || ls "${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer" 2>/dev/null) || {
    echo "compute-sanitizer is not on this machine"
    exit 77
  }
  "$program" --tool "$1" --error-exitcode 9 bin/test_kernels "--gtest_filter=$sanitizer_tests" >sanitizer.log 2>&1 || status=$?
  cat sanitizer.log
  if grep -q 'Device not supported' sanitizer.log; then
    echo "compute-sanitizer does not support this device or its virtual machine"
    exit 77
  fi
  exit "$status"
}

# The quickstart's steps on the GPU, four ranks sharing it, beside the processor's in fp32. Sums run in other orders, and a
# training multiplies a difference from step to step: on the processor alone, products by AVX2 instead of AVX-512 move a loss
# by 2e-9 of it in the first ten steps and 3e-5 in 200, and bf16 instead of fp32 by 2e-5 and 6e-3. A GPU may differ by 1e-5 and
# 1e-3 in fp32, by 1e-3 and 2e-2 in bf16.
quickstart_steps() {
  train_quickstart bin/penstock "on_gpu_$1" parallel.device=cuda parallel.pipeline=4 parallel.share_devices=true \
    "precision.compute=$1"
  python3 - "$1" "runs/on_gpu_$1/metrics.jsonl" <<'PYTHON'
import json, sys
losses = lambda path: [json.loads(line)["loss"] for line in open(path)]
expected, found = losses("data/cpu_metrics.jsonl"), losses(sys.argv[2])
first, later = {"fp32": (1e-5, 1e-3), "bf16": (1e-3, 2e-2)}[sys.argv[1]]
assert len(expected) == len(found), f"{len(found)} steps, expected {len(expected)}"
worst = {True: (0.0, 0), False: (0.0, 0)}
for step, (a, b) in enumerate(zip(expected, found)):
    difference = abs(b - a) / a
    worst[step < 10] = max(worst[step < 10], (difference, step))
    if not difference <= (first if step < 10 else later):
        sys.exit(f"error: loss of step {step} is {b}, the processor's {a}: relative difference {difference:.2e}")
print(f"result: {len(found)} steps; largest relative difference {worst[True][0]:.1e} in the first ten, "
      f"{worst[False][0]:.1e} later; last loss {found[-1]:.4f}, the processor's {expected[-1]:.4f}")
PYTHON
}

kernel_table() {
  bin/bench_kernels ${kernel_table[@]+"${kernel_table[@]}"} --json "$out/kernels.json"
  python3 - "$out/kernels.json" <<'PYTHON'
import json, sys
table = json.load(open(sys.argv[1]))
shares = [row["share"] for row in table["rows"] if row.get("roof") == "copy"]
print(f"result: copy {table['copy_bytes_per_second'] / 1e9:.0f} GB/s, product "
      f"{table['product_flop_per_second'] / 1e12:.0f} TFLOP/s; {sum(share >= 0.85 for share in shares)} of {len(shares)} "
      f"memory-bound kernels reach 85 % of the copy")
PYTHON
}

# training MODEL
training() {
  bin/bench_training "models/$1.toml" "${model_sizes[@]}" --json "$out/training-$1.json" | tee training.log
  echo "result: $(tail -1 training.log | tr -s ' ')"
}

tier_1() {
  local ranks tool
  part "device contract" 30 tests test_device "$device_tests"
  part "kernels" 70 tests test_kernels "$kernel_tests"
  part "attention, built in" 30 tests test_kernels "$attention_tests"
  part "attention, cuDNN" 45 cudnn_tests
  part "transport inproc" 40 tests test_transport "$transport_tests"
  part "transport nccl, 1 rank" 20 nccl_tests '*/GpuNccl*_1'
  part "transport nccl, 2 ranks on a GPU" 30 nccl_tests_of_two '*/GpuNccl*_2'
  for ranks in $training_ranks; do
    part "C1, ranks on the GPU: $ranks" 30 tests test_training "*GpuTraining*/${ranks}_ranks_$training_tests"
  done
  part "losses of a tiny training" 20 tests test_training '*ProcessorsLosses*'
  part "quickstart beside the CPU, fp32" 40 quickstart_steps fp32
  part "quickstart beside the CPU, bf16" 40 quickstart_steps bf16
  for tool in memcheck racecheck synccheck; do
    part "compute-sanitizer $tool" 40 sanitizer "$tool"
  done
}

tier_2() {
  local model
  part "kernel table" 100 kernel_table
  for model in $models; do part "training $model" 70 training "$model"; done
}

long_table() {
  python3 torch/long_table.py --binaries bin --models models --baseline torch/torch_baseline.py --json "$out/long.json" \
    ${table_sizes[@]+"${table_sizes[@]}"} "$@"
}

# The table of all parts, check.json, and the exit status.
summary() {
  python3 - "$work/parts" "$out/check.json" "$out/check.log" <<'PYTHON'
import json, sys
rows = [line.rstrip("\n").split("\t") for line in open(sys.argv[1])]
machine = open(sys.argv[3], errors="replace").read().split("\n==== ")[0].splitlines()
parts = [dict(zip(("name", "status", "seconds", "note"), row)) for row in rows]
for part in parts:
    part["seconds"] = int(part["seconds"])
counts = {status: sum(part["status"] == status for part in parts) for status in ("PASS", "FAIL", "NOT RUN")}
json.dump({"schema": 1, "machine": machine, "counts": counts, "parts": parts}, open(sys.argv[2], "w"), indent=1)
print(f"\n{'part':<38} {'status':<8} {'s':>5}  note")
for part in parts:
    print(f"{part['name']:<38} {part['status']:<8} {part['seconds']:>5}  {part['note']}")
print(", ".join(f"{count} {status}" for status, count in counts.items()))
sys.exit(2 if not counts["PASS"] and not counts["FAIL"] else 1 if counts["FAIL"] else 0)
PYTHON
}

enter_pack() {
  work=$1
  cd "$work"
  choose_sizes "$(cat sizes)"
}

run_check() {
  local tier=$1 tier_end
  shift
  [ -e "$here/penstock.tar.gz" ] || die "no penstock.tar.gz beside this script; make it with --pack"
  command -v python3 >/dev/null || die "python3 is not on this machine"
  mkdir -p "$out"
  out=$(cd "$out" && pwd)
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  tar -C "$work" -xzf "$here/penstock.tar.gz"
  cp "$here/gpu_check.sh" "$work/"
  enter_pack "$work"
  GIVEN_LIBRARY_PATH=${LD_LIBRARY_PATH:-}
  LD_LIBRARY_PATH=$work/lib:${GIVEN_LIBRARY_PATH:+$GIVEN_LIBRARY_PATH:}$(library_folders | paste -sd:)
  export LD_LIBRARY_PATH GIVEN_LIBRARY_PATH out work
  : >"$work/parts"
  describe_machine 2>&1 | tee "$out/check.log"
  echo
  if [ "$tier" = 1 ] || [ "$tier" = all ]; then
    tier_end=$((SECONDS + 240 * patience))
    tier_1
  fi
  if [ "$tier" = 2 ] || [ "$tier" = all ]; then
    tier_end=$((SECONDS + 240 * patience))
    tier_2
  fi
  if [ "$tier" = long ]; then
    local start=$SECONDS status=PASS
    long_table "$@" 2>&1 | tee -a "$out/check.log" || status=FAIL
    finish_part "long table" "$status" $((SECONDS - start)) "long.json"
  fi
  summary
}

case "${1:-}" in
  --in-part) # a function of this script, within part()
    shift
    enter_pack "$work"
    "$@"
    exit
    ;;
  --pack)
    [ $# -ge 2 ] || usage
    to=$2
    shift 2
    binaries=
    tiny=0
    while [ $# -gt 0 ]; do
      case $1 in
        --binaries) binaries=$2; shift 2 ;;
        --tiny) tiny=1; shift ;;
        *) usage ;;
      esac
    done
    pack "$(mkdir -p "$to" && cd "$to" && pwd)" "${binaries:+$(cd "$binaries" && pwd)}" "$tiny"
    exit
    ;;
esac
tier=all
out=gpu_check
rows=()
while [ $# -gt 0 ]; do
  case $1 in
    --tier) tier=${2:-}; shift 2 || usage ;;
    --out) out=${2:-}; shift 2 || usage ;;
    --long) tier=long; shift ;;
    *:*) rows+=("$1"); shift ;;
    *) usage ;;
  esac
done
case $tier in 1 | 2 | all | long) ;; *) usage ;; esac
run_check "$tier" ${rows[@]+"${rows[@]}"}

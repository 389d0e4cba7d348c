#!/usr/bin/env bash
# `data prepare` is killed at its k-th write-class call on its output, or that call fails, or an interrupt comes there, for
# every STRIDE-th k: then the same command goes on, to the same bytes as where nothing happened.
#   prepare_sweep.sh PENSTOCK FAULT_SHIM STRIDE
set -euo pipefail
shim=$(realpath "$2")
stride=$3
. "$(dirname "$0")/tiny_job.sh"

mkdir texts straight
for file in 1 2 3; do for n in $(seq 1 $((file * 400))); do echo "verse $n of book $file was read by $((n * 7919 % 1000)) people"; [ $((n % 9)) != 0 ] || echo; done >texts/$file.txt; done
gzip -k texts/2.txt && rm texts/2.txt
printf '%s\n' '{"text": "one\ntwo"}' '{"text": "three"}' >texts/4.jsonl

prepare() { # OUTPUT ARGUMENTS…
  local output=$1
  shift
  timeout 60 "$penstock" data prepare --input 'texts/*' --tokenizer tokenizer.json --output "$output" \
    --save-every 9000 "${how[@]}" "$@" >prepare.log 2>&1
}
faulty() { # KIND AT
  { LD_PRELOAD="$shim" PENSTOCK_FAULT_PATH=swept/ PENSTOCK_FAULT_KIND="$1" PENSTOCK_FAULT_AT="$2" \
    PENSTOCK_FAULT_LOG="$work/calls" prepare swept/out; } 2>/dev/null
}
goes_on() { # WHEN
  prepare swept/out || { cat prepare.log; fail "$1: it does not go on"; }
  diff -r straight swept || { ls -l straight swept; fail "$1: another result"; }
  rm -r swept
}

for draw in fraction documents; do
  how=(--document-separator blank-line --validation-fraction 0.1)
  [ "$draw" = fraction ] || how+=(--validation-documents 7)
  rm -rf straight && mkdir straight
  prepare straight/out || { cat prepare.log; fail "the straight preparation"; }
  [ "$(ls straight | wc -l)" = 6 ] || { ls straight; fail "files beside the result"; }
  mkdir swept && rm -f calls
  faulty none 0 || { cat prepare.log; fail "the counted preparation"; }
  calls=$(wc -l <calls)
  [ "$calls" -gt 60 ] || { cat calls; fail "$calls calls are too few"; }
  diff -r straight swept || fail "the counted preparation gives another result"
  rm -r swept

  for kind in kill ENOSPC EIO interrupt short; do
    for ((at = 1; at <= calls; at += stride)); do
      mkdir swept
      code=0
      faulty "$kind" "$at" || code=$?
      case $kind in
        kill) [ "$code" = 137 ] || { cat prepare.log; fail "kill at call $at: exit code $code"; } ;;
        short) [ "$code" = 0 ] || { cat prepare.log; fail "short at call $at: exit code $code"; } ;;
        interrupt)
          # The last calls come when all texts are read: nothing is left to stop.
          [ "$code" = 75 ] || [ "$code" = 0 ] || { cat prepare.log; fail "interrupt at call $at: exit code $code"; }
          [ "$code" = 0 ] || grep -q 'the same command goes on' prepare.log || { cat prepare.log; fail "interrupt at call $at: not said how to go on"; }
          ;;
        *)
          # Some calls may fail: a partial file that is not removed is written over.
          [ "$code" = 6 ] || [ "$code" = 0 ] || { cat prepare.log; fail "$kind at call $at: exit code $code"; }
          [ "$code" = 0 ] || grep -Eq 'swept/.*(No space left on device|Input/output error)' prepare.log || { cat prepare.log; fail "$kind at call $at: file and error are not named"; }
          ;;
      esac
      goes_on "$kind at call $at of $calls ($(sed -n "${at}p" calls))"
    done
  done
done

# Killed twice and more: at every third call of what goes on.
mkdir swept
for ((at = 60; at > 3; at -= 3)); do faulty kill "$at" || true; done
goes_on "killed again and again"

# Another command does not go on, and says so; --restart begins again.
mkdir swept
faulty kill 40 && fail "it was not killed"
ls swept/out.preparation.json >/dev/null
how=(--document-separator line)
prepare swept/out && fail "another command went on"
grep -q 'a preparation that was left off, with document_separator 2' prepare.log || { cat prepare.log; fail "not refused with words"; }
ls swept/out-validation.*.partial >/dev/null
prepare swept/out --restart || { cat prepare.log; fail "--restart"; }
[ "$(ls swept | wc -l)" = 3 ] || { ls swept; fail "--restart leaves files of what was left off"; }
rm -r straight swept && mkdir straight
prepare straight/out
[ ! -e straight/out.preparation.json ] || fail "the state is left over"

# A text that changed meanwhile.
mkdir swept
faulty kill 40 && fail "it was not killed"
echo "one more" >>texts/3.txt
prepare swept/out && fail "it went on with another text"
grep -Eq 'texts/3.txt: found [0-9]+ bytes, expected [0-9]+, as when the preparation was left off' prepare.log ||
  { cat prepare.log; fail "a changed text is not refused"; }
head -c -9 texts/3.txt >texts/whole && mv texts/whole texts/3.txt
prepare swept/out && fail "it went on with a text of another time"
grep -Eq 'texts/3.txt: found a file that was changed 20[-0-9]+ [:.0-9]+ UTC, expected one that was changed 20' prepare.log ||
  { cat prepare.log; fail "a text of another time is not refused"; }
echo "another text" >texts/5.txt
prepare swept/out && fail "it went on with another text"
grep -q 'texts/3.txt: found a file that was changed' prepare.log || { cat prepare.log; fail "not the first that differs"; }
mv texts/5.txt texts/0.txt
prepare swept/out && fail "it went on with other texts"
grep -q 'texts/0.txt: found it as input 1, expected texts/1.txt, as when' prepare.log ||
  { cat prepare.log; fail "another text in front is not refused"; }
rm texts/0.txt

# A second one at the same time is refused; a damaged state too.
mkfifo texts.fifo
timeout 20 "$penstock" data prepare --input texts.fifo --tokenizer tokenizer.json --output held >held.log 2>&1 &
exec 7>texts.fifo
for _ in $(seq 100); do [ -e held.bin.partial ] && break; sleep 0.05; done
"$penstock" data prepare --input text.txt --tokenizer tokenizer.json --output held >refused.log 2>&1 && fail "two writers"
grep -q 'a lock of another process' refused.log || { cat refused.log; fail "two writers are not refused with words"; }
echo "some text" >&7
exec 7>&-
wait
grep -q 'held.idx/.bin' held.log || { cat held.log; fail "the one that held the lock"; }
for text in '' '{' '{"schema": 1}' '[]' '{"schema": 2, "request": {}}'; do
  printf '%s' "$text" >held.preparation.json
  "$penstock" data prepare --input text.txt --tokenizer tokenizer.json --output held >refused.log 2>&1 && fail "a damaged state: $text"
  grep -q 'held.preparation.json: found .*--restart' refused.log || { cat refused.log; fail "a damaged state is not refused with words: $text"; }
done
echo "passed: $calls calls"

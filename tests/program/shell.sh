#!/usr/bin/env bash
# Completion as bash does it, and the manual page.
# Usage: tests/program/shell.sh path/to/penstock
set -euo pipefail
penstock=$1

fail() { echo "shell.sh: $*" >&2; exit 1; }

# What bash would offer for the words, the last one being typed.
completed() {
  bash -c 'source <("$1" completion bash); shift
    compopt() { :; }   # there is no line being edited
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _penstock; printf "%s\n" "${COMPREPLY[@]}"' _ "$penstock" "$@"
}

expect() { # line, words...
  local line=$1
  shift
  completed "$@" | grep -qx -e "$line" || fail "\"$*\" does not complete to $line but to: $(completed "$@" | tr '\n' ' ')"
}

expect train penstock tr
expect diff penstock checkpoint d
expect --checkpoint penstock eval job.toml --che
expect run.steps= penstock train job.toml --set run.st
[ -z "$(completed penstock train jo)" ] || fail "files are the shell's own affair"
"$penstock" completion tcsh 2>/dev/null && fail "tcsh is not among them"

# Every command has its place in the manual, and groff has nothing to say against it.
page=$("$penstock" man)
for command in train plan 'checkpoint diff' completion; do
  grep -qF ".SS penstock ${command}" <<<"$page" || fail "the manual has no $command"
done
if command -v groff >/dev/null; then
  complaints=$(groff -man -ww -Tutf8 <<<"$page" 2>&1 >/dev/null)
  [ -z "$complaints" ] || fail "groff: $complaints"
fi

#!/usr/bin/env bash
# Runs one step of a check: says its name, then how it went and how long it took.
#
#   scripts/step.sh NAME COMMAND [ARGUMENT...]
set -uo pipefail

name=$1
shift
printf '\n==> %s: %s\n' "$name" "$*"
start=$SECONDS
"$@"
status=$?
took="$((SECONDS - start)) s"
if ((status == 0)); then
    printf '<== %s: ok, %s\n' "$name" "$took"
else
    printf '<== %s: FAILED with status %s, %s\n' "$name" "$status" "$took"
fi
exit "$status"

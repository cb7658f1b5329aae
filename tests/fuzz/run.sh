#!/bin/sh
# Usage: sh tests/fuzz/run.sh PROGRAM...
# Runs targets that are linked with libFuzzer, as many at a time as there are processors: each reads its corpus, and
# then finds inputs of its own for FUZZ_SECONDS (1; 0: none), from FUZZ_SEED (1) on: a run that has found something
# finds the same again, if the machine is as fast. One that crashes, or takes longer than ten seconds for an input, is
# printed with what it said, once more at the end, behind "== failed", and its input stays in fuzz-NAME-… of TMPDIR
# (/tmp). Last line: N passed, N failed, N skipped.
set -u
cd "$(dirname "$0")/../.."
if [ "$1" = --one ]; then
    name=$(basename "$2")
    work=$(mktemp -d)
    limit=-max_total_time=${FUZZ_SECONDS:-1}
    [ "$limit" != -max_total_time=0 ] || limit=-runs=0 # no time is no limit to libFuzzer
    if "$2" "$limit" -seed="${FUZZ_SEED:-1}" \
        -timeout=10 -artifact_prefix="${TMPDIR:-/tmp}/fuzz-${name#fuzz_}-" "$work" \
        "tests/fuzz/corpus/${name#fuzz_}" >"$work.log" 2>&1; then
        echo "ok - $name: $(sed -n 's/^Done \([0-9]*\) runs.*/\1/p' "$work.log") inputs"
    else
        echo "not ok - $name"
        tail -30 "$work.log" | sed 's/^/    /'
    fi
    rm -rf "$work" "$work.log"
    exit 0
fi
told=$(mktemp)
printf '%s\0' "$@" | xargs -0 -n1 -P"$(nproc)" sh tests/fuzz/run.sh --one | tee "$told"
passed=$(grep -c '^ok ' "$told")
[ "$passed" = $# ] || { echo '== failed'; grep -v '^ok ' "$told"; }
rm -f "$told"
echo "$passed passed, $(($# - passed)) failed, 0 skipped"
[ "$passed" = $# ]

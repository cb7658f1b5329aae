#!/bin/sh
# Usage: [MINUTES=60] [FOLDER=DIRECTORY] sh tests/quality/soak.sh [SETTING...]
# How much memory a long run takes: trains ctrdnn1 on rows in RAM and on disk, with saves and evaluations. Every 10
# seconds it notes how much of the run's memory is resident, beside the plan that the run has printed. Last line: the
# greatest resident memory over the plan. Exit status 1: more than 1.05, or the run failed. Needs ./heterps-run, some
# GB in FOLDER, and Linux' /proc.
set -eu
cd "$(dirname "$0")/../.."
h=./heterps-run
folder=$(mktemp -d "${FOLDER:-${TMPDIR:-/tmp}}/soak.XXXXXX")
pid=
trap '[ -z "$pid" ] || kill -9 $pid 2>/dev/null; rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
seconds=$((${MINUTES:-60} * 60))

$h gen criteo --rows 1000000 --vocab 500000 -o "$folder/train.tsv" -q
$h gen criteo --rows 20000 --skip 1000000 --vocab 500000 -o "$folder/test.tsv" -q
$h compile samples/ctrdnn1.cfg -o "$folder/graph.bin" -q
sets=
for setting in store.ram=80MiB store.ssd=600MiB store.path="$folder/rows" train.epochs=1000000 eval.every=20000 \
    checkpoint.every=10000 checkpoint.keep=2 "$@"; do
    sets="$sets --set $setting"
done
$h "$folder/graph.bin" --data "$folder/train.tsv" --eval "$folder/test.tsv" --out "$folder/model" $sets \
    --log json >"$folder/events" 2>"$folder/errors" &
pid=$!

value() { # nothing: the run has ended
    sed -n "s/^$1:[^0-9]*\([0-9]*\).*/\1/p" "/proc/$pid/status" 2>/dev/null || true
}
begin=$(date +%s) most=0
echo '   seconds     step   planned KiB  resident KiB   most, with files KiB'
while [ $(($(date +%s) - begin)) -lt $seconds ]; do
    sleep 10
    anon=$(value RssAnon) whole=$(value VmHWM)
    [ -n "$anon" ] || { cat "$folder/errors"; echo 'the run has ended early'; exit 1; }
    [ "$anon" -le "$most" ] || most=$anon
    planned=$(($(sed -n 's/.*"event":"start".*"memory_bytes":\([0-9]*\).*/\1/p' "$folder/events" | head -1) / 1024))
    step=$(tail -1 "$folder/events" | sed -n 's/.*"step":\([0-9]*\).*/\1/p')
    printf '%10d %8s %13d %13d %22d\n' $(($(date +%s) - begin)) "${step:-?}" "$planned" "$anon" "$whole"
done
kill -INT $pid
wait $pid || [ $? = 130 ]
pid=
grep -c '"event":"checkpoint"' "$folder/events" | sed 's/$/ saves/'
grep -c '"event":"eval"' "$folder/events" | sed 's/$/ evaluations/'
awk -v most="$most" -v planned="$planned" 'BEGIN {
    printf "resident over planned: %.3f\n", most / planned
    exit most > 1.05 * planned
}'

#!/bin/sh
# Usage: [EVERY=20] [ROWS=150000] sh tests/bench/saves.sh [SETTING...]
# How long training stands still for a save: trains ctrdnn1 with rows of 256 B and a save every EVERY steps,
# and prints what each save says, then the median and the greatest stall. A save that falls due before the one
# before it is written is made behind that one (checkpoint.wait=yes: training waits for it). Needs
# ./heterps-run.
set -eu
cd "$(dirname "$0")/../.."
folder=$(mktemp -d "${TMPDIR:-/tmp}/saves.XXXXXX")
trap 'rm -rf "$folder"' EXIT
./heterps-run gen criteo --rows "${ROWS:-150000}" --vocab 500000 -o "$folder/train.tsv" -q
./heterps-run compile samples/ctrdnn1.cfg -o "$folder/graph.bin" --set emb.dim=32 --set train.batch=2048 -q
sets=
for setting in "checkpoint.every=${EVERY:-20}" train.epochs=2 store.ram=4GiB "$@"; do sets="$sets --set $setting"; done
./heterps-run "$folder/graph.bin" --data "$folder/train.tsv" --out "$folder/model" $sets >"$folder/said" 2>&1 ||
    { cat "$folder/said"; exit 1; }
grep '^saved' "$folder/said"
sed -n 's/^saved.*stall \([0-9.]*\) ms.*/\1/p' "$folder/said" | sort -n |
    awk '{ stall[NR] = $1 }
        END {
            median = stall[int((NR + 1) / 2)]
            printf "%d saves: training stood still for %.1f ms (median), %.1f ms at most\n", NR, median, stall[NR]
        }'

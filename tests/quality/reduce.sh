#!/bin/sh
# Usage: [HETERPS=./heterps-run] sh tests/quality/reduce.sh [LANES [SEEDS]]        (default 16 lanes, 8 seeds:
#                                                                                  two minutes on two cores)
# What train.reduce = bf16 costs: samples/ctrdnn.cfg with batch 512, one pass over 200,000 generated lines, trained
# with sums in float32 and in bfloat16 from each seed. Prints a line a seed, both AUC and their difference; the last
# line has the mean difference.
set -eu
cd "$(dirname "$0")/../.."
lanes=${1:-16} seeds=${2:-8}
h=${HETERPS:-./heterps-run}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
"$h" gen criteo --rows 200000 -o "$folder/train.tsv" -q
"$h" gen criteo --rows 50000 --skip 200000 -o "$folder/test.tsv" -q
auc() { # SEED REDUCE
    "$h" compile samples/ctrdnn.cfg -o "$folder/graph.bin" -q --set train.batch=512 --set "train.lanes=$lanes" \
        --set "train.seed=$1" --set "train.reduce=$2"
    "$h" "$folder/graph.bin" --data "$folder/train.tsv" --eval "$folder/test.tsv" \
        --set train.epochs=1 --log json >"$folder/log"
    sed -n 's/.*"event":"eval".*"auc":\([0-9.]*\).*/\1/p' "$folder/log" | tail -1
}
seed=1
: >"$folder/differences"
while [ "$seed" -le "$seeds" ]; do
    f32=$(auc "$seed" f32) bf16=$(auc "$seed" bf16)
    [ -n "$f32" ] && [ -n "$bf16" ] || { echo "reduce.sh: no AUC: $(tail -1 "$folder/log")" >&2; exit 1; }
    awk "BEGIN { print $bf16 - $f32 }" | tee -a "$folder/differences" |
        awk -v s="$seed" -v a="$f32" -v b="$bf16" '{ printf "seed %d: f32 %.5f, bf16 %.5f: %+.5f\n", s, a, b, $1 }'
    seed=$((seed + 1))
done
awk -v l="$lanes" '{ sum += $1 }
    END { printf "%d lanes: bf16 less f32, mean of %d seeds: %+.5f\n", l, NR, sum / NR }' "$folder/differences"

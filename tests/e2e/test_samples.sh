#!/bin/sh
# Every sample from text to predictions: it compiles, has the layers that it should have, trains on generated
# data of its format, and evaluates, predicts and serves what it has saved. Wide models are made narrow, so
# that all of it takes seconds.
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 1
h=$HETERPS
samples=$root/samples

# layers NAME N: the graph of the sample has N layers, by the table of inspect, whose last line sums up.
layers() {
    found=$("$h" inspect "$1.bin" | awk '/^Layers:/ { getline; on = 1; next } on && !NF { exit }
        on { n++ } END { print n - 1 }')
    [ "$found" = "$2" ] || { echo "expected $2 layers, found $found"; return 1; }
}

# lines FILE N: so many lines, all of them numbers or words, none "nan".
lines() {
    [ "$(wc -l <"$1")" = "$2" ] && ! grep -q nan "$1"
}

# sample NAME LAYERS EXAMPLES [--set …]: 3,000 rows to train on, 500 to test.
sample() {
    model=$1 expected=$2 predictions=$3
    shift 3
    check "$model compiles" "$h" compile "$samples/$model.cfg" -o "$model.bin" "$@"
    check "$model has $expected layers" layers "$model" "$expected"
    if [ ! -e "$model.train" ]; then
        check "$model: data is generated" "$h" gen "$model.bin" --rows 3000 --vocab 200 -o "$model.train"
        "$h" gen "$model.bin" --rows 500 --skip 3000 --vocab 200 -o "$model.test" -q
    fi
    check "$model trains and evaluates" "$h" "$model.bin" --data "$model.train" \
        --eval "$model.test" --out "$model.model" \
        --set train.epochs=1 --set train.batch=64 --set store.ram=256MiB
    check "$model predicts" "$h" predict "$model.bin" --model "$model.model" \
        --data "$model.test" -o "$model.predictions" \
        --set store.ram=256MiB
    check "$model: a prediction for each example" lines "$model.predictions" "$predictions"
    check "$model is served, with the same answers" python3 "$root/tests/e2e/serve_same.py" \
        "$h" "$model.bin" "$model.model" \
        "$model.test" "$model.predictions" --set store.ram=256MiB
    check "$model is planned and profiled" "$h" plan-memory "$model.bin" --data "$model.train" --set store.ram=256MiB
}

for name in lr wide_deep deepfm dlrm ctrdnn7; do
    "$h" gen criteo --rows 3000 --vocab 200 -o $name.train -q
    "$h" gen criteo --rows 500 --skip 3000 --vocab 200 -o $name.test -q
done
sample lr 5 500
sample wide_deep 8 500
sample deepfm 9 500
sample dlrm 9 500
sample dcnv2 14 500 --set emb.dim=8 --set b3.units=8 --set v1.units=16 --set v2.units=16 --set v3.units=16 \
    --set u1.units=216 --set u2.units=216 --set u3.units=216 --set t1.units=32 --set t2.units=32 --set t3.units=16
sample din 16 500
sample adult 9 500
sample frappe 10 500
sample matchnet 16 500
sample 2emb 10 500
sample ctrdnn7 7 500
sample ctrdnn8 8 500
sample ctrdnn12 12 500
sample ctrdnn16 16 500
sample ctrdnn20 20 500

# Words in a fixed order with a little chance: a vocabulary is counted when the model is compiled.
awk 'BEGIN { srand(3); for (l = 0; l < 600; l++) { w = int(rand() * 50); s = "";
    for (i = 0; i < 12; i++) { s = s " w" w; w = rand() < 0.8 ? (w * 7 + 3) % 50 : int(rand() * 50) } print s } }' >text
head -500 text >nce.train
tail -100 text >nce.test
sample nce 5 1296 --set "words.path=$work/nce.train"
# Users of two tastes, items of two kinds.
awk 'BEGIN {
    srand(4)
    for (u = 0; u < 400; u++) {
        s = "u" u
        for (i = 0; i < 8; i++) s = s " i" 2 * int(rand() * 60) + (rand() < 0.9 ? u % 2 : 1 - u % 2)
        print s
    }
}' >pairs
awk '{ print $1, $4, $5, $6, $7, $8, $9 }' pairs >two_tower.train
awk '{ print $1, $2, $3 }' pairs >two_tower.test
sample two_tower 3 400 --set "items.path=$work/two_tower.train" --set "eval.exclude=$work/two_tower.train"
finish

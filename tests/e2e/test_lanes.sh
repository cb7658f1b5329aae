#!/bin/sh
# Lanes that one node computes several at a time, as one micro-batch, leave the bytes of lanes apart, which is
# what they are where train.micro is given; and both tell the same loss.
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 1
h=$HETERPS

cat >lanes.cfg <<'CFG'
[model]
name = lanes
[data]
format  = csv
dense   = d1, d2, d3
sparse  = a, b, c, d
ids_max = 4
[table emb]
dim       = 8
optimizer = adagrad 0.05
[table side]
dim       = 5
optimizer = adam 0.01
[embedding sums]
table = emb
input = a, b
[embedding means]
table = side
input = c, d
pool  = mean
[concat x]
input = sums, means, dense
[fc h]
input = x
units = 37
activation = relu
[dropout dropped]
input = h
rate  = 0.2
[fc g]
input = dropped
units = 45
activation = tanh
[fc u]
input = x
units = 29
[cross crossed]
input = x, x, u
[concat both]
input = g, crossed
[fc y]
input = both
units = 1
[loss bce]
input = y
[train]
optimizer = adam 0.003
epochs    = 2
CFG
"$h" compile lanes.cfg -o lanes.bin -q && "$h" gen lanes.bin --rows 3111 -o data.csv -q || exit 1

digits() { find "$1" -type f | sort | xargs cat | sha256sum; }
# trains WAY SETTINGS...: the exported values, and the mean loss of all examples.
trains() {
    way=$1
    shift
    rm -rf "$way" "$way.values"
    "$h" lanes.bin --data data.csv --out "$way" --log json "$@" >"$way.log" 2>&1 </dev/null &&
        "$h" export lanes.bin --model "$way" -o "$way.values" -q && digits "$way.values" >"$way.digits" &&
        grep -o '"logloss":[0-9.e+-]*' "$way.log" | tail -1 >"$way.losses"
}
# joined SETTINGS...: how many lanes are computed at a time.
joined() {
    "$h" plan-memory lanes.bin --data data.csv -v "$@" 2>&1 </dev/null |
        sed -n 's/.* \([0-9]*\) at a time as one micro-batch$/\1/p'
}
# same NAME JOINED MICRO SETTINGS...
same() {
    name=$1 joined=$2 micro=$3
    shift 3
    if trains together "$@" && trains apart "$@" --set train.micro="$micro" &&
        [ "$(joined "$@")" = "$joined" ] &&
        [ -z "$(joined "$@" --set train.micro="$micro")" ] && [ -s together.losses ] &&
        cmp -s together.digits apart.digits && cmp -s together.losses apart.losses; then
        ok "$name"
    else
        not_ok "$name"
        head -3 together.log apart.log | note
    fi
}
same '16 lanes of 64, 8 at a time: the bytes of lanes apart' 8 64 --set train.batch=1024 --set train.lanes=16
same '16 lanes of 128, 4 at a time, two threads, a bounded norm' 4 128 --set train.batch=2048 \
    --set train.lanes=16 --threads 2 \
    --set train.clip_norm=0.3
same '6 lanes of 100, 2 at a time' 2 100 --set train.batch=600 --set train.lanes=6
same '12 lanes of 100, 4 at a time' 4 100 --set train.batch=1200 --set train.lanes=12
same '64 lanes of 3, all at a time' 64 3 --set train.batch=192 --set train.lanes=64 --set train.epochs=1
same '4 lanes of 256, 2 at a time' 2 256 --set train.batch=1024 --set train.lanes=4
finish

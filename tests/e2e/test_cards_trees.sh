#!/bin/sh
# Trees on a card, end to end, on the emulated one: a loss at every node (sst), cells of several kinds (mathfunc),
# sequences; what the CPU alone learns, and the same bytes with any order of the card's work and any cut.
. "$(dirname "$0")/lib.sh"
EMU=$BUILD/heterps-emu
[ -x "$EMU" ] || { echo 'ok 1 - trees on cards # SKIP this build has no emulated card'; exit 0; }

plan() { python3 tests/e2e/make_plan.py "$@"; }
# train NAME ARGUMENT…: trains $work/$model.bin into $work/$model.NAME, its last evaluation to $work/$model.NAME.log.
train() {
    into=$work/$model.$1
    shift
    "$EMU" "$work/$model.bin" --data "$work/$model.txt" --eval "$work/$model.txt" --out "$into" --log json "$@" \
        >"$into.log" 2>"$into.err"
}
# near A B: the losses after training differ by rounding.
near() {
    python3 - "$work/$model.$1.log" "$work/$model.$2.log" <<'PYTHON'
import json, sys
a, b = [[e for e in map(json.loads, open(path)) if e["event"] == "eval"][-1] for path in sys.argv[1:]]
loss = "loss" if "loss" in a else "rmse"
print(f"{loss} {a[loss]} and {b[loss]}")
assert a["samples"] == b["samples"] > 0 and abs(a[loss] - b[loss]) <= 1e-5 * abs(a[loss]) + 1e-8
PYTHON
}
same() {
    "$EMU" export "$work/$model.bin" --model "$work/$model.$1" -o "$work/one" -q &&
        "$EMU" export "$work/$model.bin" --model "$work/$model.$2" -o "$work/other" -q &&
        diff -r "$work/one" "$work/other"
    differ=$?
    rm -rf "$work/one" "$work/other"
    return $differ
}
# tried MODEL PART ALL: by a plan with the tree on a card; by one with all layers there.
tried() {
    model=$1
    plan "$work/part.json" "$2"
    plan "$work/all.json" "$3"
    check "$model: it trains on the CPU" train cpu --gpu off
    check "$model: its tree trains on a card" train part --plan "$work/part.json"
    check "$model: the loss is the CPU's" near cpu part
    check "$model: all of it trains on a card" train all --plan "$work/all.json"
    check "$model: the loss is the CPU's, too" near cpu all
    HETERPS_EMU_SEED=3 check "$model: the card works in another order" train again --plan "$work/part.json"
    check "$model: and ends with the same bytes" same part again
    check "$model: it stops" train halves --plan "$work/part.json" --set train.steps_max=2
    check "$model: it goes on" train halves --plan "$work/part.json" --resume "$work/$model.halves"
    check "$model: and ends with the same bytes" same part halves
}

# 90 trees: the last micro-batch is smaller than the others.
"$EMU" compile samples/sst.cfg -o "$work/sst.bin" -q --set words.dim=6 --set t.units=5 --set t.dim=6 \
    --set train.batch=16 --set train.micro=8 --set train.epochs=1
"$EMU" gen "$work/sst.bin" --rows 90 -q -o "$work/sst.txt"
tried sst "0-1:cpu 2-4:emu" "0-4:emu"
cat >"$work/cluster.cfg" <<'CFG'
[type core]
device = cpu
price_per_hour = 0.04
limit = 1
[type card]
device = emu
price_per_hour = 1
limit = 1
[goal]
throughput = max
CFG
check 'sst: a card is profiled' "$EMU" profile "$work/sst.bin" --cluster "$work/cluster.cfg" --data "$work/sst.txt" \
    --no-cache --seconds 1 -o "$work/profile.json"
check 'sst: each layer has times of core and card' python3 - "$work/profile.json" <<'PYTHON'
import json, sys
layers = json.load(open(sys.argv[1]))["layers"]
assert [layer["name"] for layer in layers] == ["e", "d", "t", "y", "sentiment"]
assert all(0 < seconds < 1e9 for layer in layers for seconds in layer["oct"]), layers
PYTHON

"$EMU" compile samples/mathfunc.cfg -o "$work/mathfunc.bin" -q --set train.batch=32 --set train.epochs=1
"$EMU" gen mathfunc --rows 90 -q -o "$work/mathfunc.txt"
tried mathfunc "0-1:emu 2-3:cpu" "0-3:emu"
finish

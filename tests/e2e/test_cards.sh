#!/bin/sh
# Plans with stages on a card, end to end, on the emulated one: what the CPU alone would have learned, the
# bytes that cuts say, and every refusal. Needs build/MODE/heterps-emu, which has that card (gpu/emu).
. "$(dirname "$0")/lib.sh"
EMU=$BUILD/heterps-emu
[ -x "$EMU" ] || { echo 'ok 1 - cards # SKIP this build has no emulated card'; exit 0; }

plan() { python3 tests/e2e/make_plan.py "$@"; }

# train NAME PROGRAM ARGUMENTS…: trains $work/$model.bin into $work/NAME, events to $work/NAME.log.
train() {
    into=$1 program=$2
    shift 2
    "$program" "$work/$model.bin" --data "$work/train.tsv" --out "$work/$into" \
        --log json "$@" >"$work/$into.log" 2>"$work/$into.err"
}

# near NAME A B [LOSS PARAMETER]: the log losses after each step of two runs (1e-4) and their last parameters (1e-3).
cat >"$work/near.py" <<'PYTHON'
import json, math, struct, sys
work, a, b, loss, parameter = sys.argv[1:]
def losses(name):
    return {e["step"]: e["logloss"] for e in map(json.loads, open(f"{work}/{name}.log")) if e["event"] == "eval"}
def arrays(name):
    path = json.load(open(f"{work}/{name}/manifest.json"))["dense"]["file"]
    data = open(f"{work}/{name}/{path}", "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    parts = {k: v["data_offsets"] for k, v in json.loads(data[8:8 + size]).items() if k != "__metadata__"}
    return {k: struct.unpack(f"<{(end - begin) // 4}f", data[8 + size + begin:8 + size + end])
            for k, (begin, end) in parts.items()}
def progress(name): # what was predicted before it was learned from
    return [e for e in map(json.loads, open(f"{work}/{name}.log")) if e["event"] == "progress"][-1]
x, y = progress(a), progress(b)
assert y["window"] > 100
assert (x["window"] != y["window"] or abs(x["logloss"] - y["logloss"]) <= float(loss)
        and abs(x["auc"] - y["auc"]) < 1e-3), (x, y)
x, y = losses(a), losses(b)
assert len(y) > 2 and x.keys() >= y.keys() and max(x) == max(y), (x, y)
worst_loss = max(abs(x[step] - y[step]) for step in y)
p, q = arrays(a), arrays(b)
assert p.keys() == q.keys()
worst = max((abs(u - v), k) for k in p for u, v in zip(p[k], q[k]))
print(f"{len(y)} losses differ by {worst_loss:.1e} at most, parameters by {worst[0]:.1e} ({worst[1]})")
assert worst_loss <= float(loss) and worst[0] <= float(parameter)
PYTHON
near() {
    if python3 "$work/near.py" "$work" "$2" "$3" "${4:-1e-4}" "${5:-1e-3}" >"$work/.out" 2>&1; then
        ok "$1"
    else
        not_ok "$1"
    fi
    tail -3 "$work/.out" | note
}

# --- a model with a bit of everything ---------------------------------------------------------------------------------

cat >"$work/mixed.cfg" <<'CFG'
[model]
name = mixed
[data]
format = criteo
label = label
dense = I1..I13
sparse = C1..C26
[table emb]
dim = 4
[embedding e]
table = emb
input = sparse
[concat x]
input = e, dense
[batch_norm n]
input = x
[fc z]
input = n
units = 117
[cross c1]
input = n, n, z
[fc h1]
input = c1
units = 24
activation = relu
[dropout d]
input = h1
rate = 0.2
[fc h2]
input = d
units = 24
activation = tanh
[fc h3]
input = h2
units = 24
activation = sigmoid
share = h2
[concat both]
input = h3, n
[fc y]
input = both
units = 1
[loss bce]
input = y
label = label
[train]
batch = 64
micro = 16
lanes = 2
optimizer = adam 0.01
clip_norm = 0.5
CFG
model=mixed
"$HETERPS" gen criteo --rows 320 --vocab 50 -q -o "$work/train.tsv"
if ! "$HETERPS" compile "$work/mixed.cfg" -o "$work/mixed.bin" >"$work/.out" 2>&1; then
    not_ok 'the model compiles'
    note <"$work/.out"
    finish
fi
head -40 "$work/train.tsv" >"$work/eval.tsv"
each="--eval $work/eval.tsv --set eval.every=1"
plan "$work/cpu.json" '0-11:cpu'
plan "$work/card.json" '0-1:cpu 2-11:emu'            # e, x | n, z, c1, h1, d, h2, h3, both, y, bce
plan "$work/middle.json" '0-1:cpu 2-9:emu 10-11:cpu' # … both | y, bce
plan "$work/cards.json" '0-0:cpu 1-5:emu 6-11:emu'

check 'a plan of one stage on the CPU trains' train cpu "$HETERPS" --plan "$work/cpu.json" --threads 1 $each
for way in card middle cards; do
    check "$way: it trains" train $way "$EMU" --plan "$work/$way.json" $each
    near "$way: it learns what the CPU learns" cpu $way
done

# Bits: other orders of the card's streams, other numbers of slots, other cuts, and stopping.
same() { python3 - "$work/$1" "$work/$2" <<'PYTHON'
import json, sys
a, b = [json.load(open(d + "/manifest.json")) for d in sys.argv[1:]]
assert a["dense"]["xxh3"] == b["dense"]["xxh3"], "parameters"
assert [p["xxh3"] for p in a["tables"][0]["parts"]][-1] == [p["xxh3"] for p in b["tables"][0]["parts"]][-1], "rows"
PYTHON
}
HETERPS_EMU_SEED=5 check 'the card does its work in another order' train again "$EMU" \
    --plan "$work/card.json" --set train.in_flight=2
check 'and ends with the same bytes' same card again
check 'and with other cuts between cards too' same card cards
train halves "$EMU" --plan "$work/card.json" --set train.steps_max=2
check 'a run that was stopped goes on' train halves "$EMU" --plan "$work/card.json" --resume "$work/halves"
check 'and ends with the same bytes' same card halves
train swapped "$HETERPS" --plan "$work/cpu.json" --set train.steps_max=2
check 'a card goes on where a CPU stopped' train swapped "$EMU" --plan "$work/card.json" --resume "$work/swapped" $each
near 'and learns the same' cpu swapped

# Each stream of a card has a thread, beside those of the cores.
traced() {
    train traced "$EMU" --plan "$work/cards.json" --trace "$work/trace.json" --set train.steps_max=2 &&
        [ "$(grep -c '"thread_name".*"worker [0-9]*: ' "$work/trace.json")" = 7 ] &&
        tail -3 "$work/trace.json" | grep -q '"untraced_threads":0'
}
check 'a trace has the threads of all streams' traced

# --- several cards ----------------------------------------------------------------------------------------------------

plan "$work/pair.json" '0-1:cpu 2-11:emu=2'
export HETERPS_EMU_CARDS=3
HETERPS_EMU_SEED=9 check 'a stage on two cards trains' train pair "$EMU" --plan "$work/pair.json" $each
check 'and ends with the bytes of one' same card pair
"$EMU" "$work/mixed.bin" --data "$work/train.tsv" --out "$work/one_free" --plan "$work/card.json" \
    --set train.clip_norm=0 -q
check 'without a bound of the norm' train pair_free "$EMU" --plan "$work/pair.json" --set train.clip_norm=0
check 'too' same one_free pair_free
plan "$work/triple.json" '0-1:cpu 2-11:emu=3'
fails 1 'is on 3 cards, and steps have 2 lanes, which each run on one: raise train.lanes' 'more cards than lanes' \
    "$EMU" "$work/mixed.bin" --data "$work/train.tsv" --plan "$work/triple.json"
plan "$work/rows2.json" '0-1:emu=2 2-11:cpu'
fails 1 'is on 2 cards and looks rows up, which one card does' 'rows on two cards' \
    "$EMU" "$work/mixed.bin" --data "$work/train.tsv" --plan "$work/rows2.json"
unset HETERPS_EMU_CARDS
fails 2 'this machine has 1 card' 'more cards than there are' \
    "$EMU" "$work/mixed.bin" --data "$work/train.tsv" --plan "$work/pair.json"

# --- TF32 -------------------------------------------------------------------------------------------------------------

# Matrix units round the factors of products, processors do not: near each other, not the same, and the same every time.
ctrdnn() {
    "$HETERPS" compile samples/ctrdnn.cfg -o "$work/$1.bin" -q --set train.precision=$1 \
        --set train.batch=100 --set train.micro=50 \
        --set train.optimizer='sgd 0.05' --set emb.dim=4 --set h1.units=40 --set h2.units=24 --set h3.units=16
}
if ctrdnn f32 && ctrdnn tf32; then ok 'ctrdnn compiles in TF32'; else not_ok 'ctrdnn compiles in TF32'; fi
plan "$work/ctrdnn.json" '0-0:cpu 1-6:emu'
model=f32
check 'ctrdnn in float32' train in_f32 "$EMU" --plan "$work/ctrdnn.json" $each
model=tf32
check 'ctrdnn in TF32' train in_tf32 "$EMU" --plan "$work/ctrdnn.json" $each
near 'it learns what float32 does, within its rounding' in_f32 in_tf32 1e-3 2e-3
HETERPS_EMU_SEED=7 check 'again, in another order' train tf32_again "$EMU" --plan "$work/ctrdnn.json"
check 'with the same bytes' same in_tf32 tf32_again
if same in_tf32 in_f32 2>/dev/null; then not_ok 'and others than in float32'; else ok 'and others than in float32'; fi
HETERPS_EMU_CAPABILITY=75 check 'a card without such units' train tf32_old "$EMU" --plan "$work/ctrdnn.json"
check 'multiplies in float32' same in_f32 tf32_old
model=mixed

# --- what is moved ----------------------------------------------------------------------------------------------------

# Of 320 examples, floats: x and its gradient, 117 each, and the label; behind both, 141 each. A loss comes
# back besides.
python3 - "$work" <<'PYTHON' && ok 'cards move what the cuts say' || not_ok 'cards move what the cuts say'
import json, sys
def stages(name):
    return [s for s in map(json.loads, open(f"{sys.argv[1]}/{name}.log")) if s["event"] == "done"][0]["stages"]
card, middle = stages("card"), stages("middle")
assert card[0]["cut_bytes"] == 320 * 4 * (2 * 117 + 1), card
assert card[1].get("cut_bytes", 0) == 0 and card[1]["other_bytes"] == 320 * 4 * 2, card # loss, logit
assert middle[0]["cut_bytes"] == 320 * 4 * 2 * 117 and middle[1]["cut_bytes"] == 320 * 4 * 2 * 141, middle
PYTHON

# --- rows on a card ---------------------------------------------------------------------------------------------------

# Looked up there: gathering, pooling and updates round as the CPU's do, so with the rest on the CPU all bytes
# are the same, however many rows stay on the card.
plan "$work/rows.json" '0-1:emu 2-11:cpu'
plan "$work/whole.json" '0-11:emu'
"$HETERPS" "$work/mixed.bin" --data "$work/train.tsv" --out "$work/cpu3" --set train.epochs=3 -q --threads 1
for budget in 0 8KiB 1MiB; do
    check "rows: $budget of them stay on the card" train "rows_$budget" "$EMU" --plan "$work/rows.json" \
        --set store.gpu=$budget --set train.epochs=3 $each
    check "rows: $budget: the bytes are the CPU's" same cpu3 "rows_$budget"
done
python3 - "$work" <<'PYTHON' && ok 'rows move in, and home for others' || not_ok 'rows move in, and home for others'
import json, sys
none, few, all = [[s for s in map(json.loads, open(f"{sys.argv[1]}/rows_{b}.log"))
                   if s["event"] == "done"][0]["stages"][0] for b in ("0", "8KiB", "1MiB")]
assert none["rows_resident"] == none["rows_moved_in"] == 0 < none["rows_cold"], none
assert (0 < few["rows_resident"] < all["rows_resident"] and few["rows_moved_in"] > 8192 // (13 * 4)
        and few["rows_moved_home"] > 0), few
assert all["rows_resident"] > all["rows_cold"] and all["other_bytes"] < none["other_bytes"], (all, none)
PYTHON
check 'all layers on a card' train whole "$EMU" --plan "$work/whole.json" --set store.gpu=8KiB $each
near 'learn the same' cpu whole
check 'and end with the bytes of other plans with cards' same card whole
"$HETERPS" compile "$work/mixed.cfg" -o "$work/life.bin" --set emb.admit=2 --set emb.ttl=2 \
    --set store.period=4 >/dev/null 2>&1 ||
    "$HETERPS" compile "$work/mixed.cfg" -o "$work/life.bin" --set emb.admit=2 --set emb.ttl=2 \
        --set store.period=4 >"$work/.out" 2>&1 || note <"$work/.out"
model=life
train life "$HETERPS" --threads 1 --set train.epochs=3
check 'rows that come and go are looked up on a card' train life_card "$EMU" \
    --plan "$work/rows.json" --set train.epochs=3
check 'and the bytes are the CPU'"'"'s' same life life_card
model=mixed

# --- planning ---------------------------------------------------------------------------------------------------------

cat >"$work/cluster.cfg" <<'CFG'
[type core]
device = cpu
price_per_hour = 0.04
limit = 1
[type card]
device = emu
price_per_hour = 1
limit = 4
[goal]
throughput = max
CFG
check 'a card is profiled' "$EMU" profile "$work/mixed.bin" --cluster "$work/cluster.cfg" --data "$work/train.tsv" \
    --seconds 2 -o "$work/profile.json"
tied='a card has times, and is told which layers are tied'
python3 - "$work/profile.json" <<'PYTHON' && ok "$tied" || not_ok "$tied"
import json, sys
profile = json.load(open(sys.argv[1]))
assert profile["types"][1]["limit"] == 1 and profile["types"][1]["source"] == "measured", profile["types"]
layers = {layer["name"]: layer for layer in profile["layers"]}
for name, layer in layers.items():
    assert 0 < layer["oct"][1] < 1e9, layer
    tied = layer.get("tied_before", 0), layer.get("tied_behind", 0)
    assert tied == {"h2": (0, 1), "h3": (1, 0)}.get(name, (0, 0)), layer
# Equal shares.
assert layers["h2"]["oct"][1] >= 1e-6 and abs(layers["h2"]["oct"][1] / layers["h3"]["oct"][1] - 1) < 1e-6, layers
PYTHON
check 'a run plans for a card by itself' train planned "$EMU" --cluster "$work/cluster.cfg" $each
near 'and learns the same' cpu planned

# --- what is refused --------------------------------------------------------------------------------------------------

run() { "$EMU" "$work/mixed.bin" --data "$work/train.tsv" "$@"; }
plan "$work/torn.json" '0-1:cpu 2-7:emu 8-11:cpu'
fails 1 '\[h3\] shares its parameters with \[h2\] of another stage' 'shared parameters on both sides' \
    run --plan "$work/torn.json"
fails 1 'is on a card, which needs train.sync = bsp' 'waves' run --plan "$work/card.json" --set train.sync=wsp \
    --set train.micro=64 --set train.lanes=1 --set train.clip_norm=0
HETERPS_EMU_BYTES=1000000 fails 1 'emu: [0-9]+ bytes for stage n..bce: parameters and state .* 1000000 bytes' \
    'too little memory' run --plan "$work/card.json"
plan "$work/cuda.json" '0-1:cpu 2-11:cuda:0'
fails 2 'stage n..bce is on cuda:0; the cards here are emu' 'another kind of card' run --plan "$work/cuda.json"
fails 2 'stage n..bce is on emu; this machine has 0 cards: ' 'a program without cards' \
    "$HETERPS" "$work/mixed.bin" --data "$work/train.tsv" --plan "$work/card.json"
fails 1 'step [0-9]+: the loss is not finite; the first such value is in the output of \[' 'a loss that is not finite' \
    run --plan "$work/card.json" --set train.optimizer='sgd 1e6' --set h3.activation=none --set train.epochs=20 \
    --set train.clip_norm=0 -q

# --- the model of the samples -----------------------------------------------------------------------------------------

model=ctrdnn
"$HETERPS" compile samples/ctrdnn.cfg -o "$work/ctrdnn.bin" --set train.batch=128 \
    --set train.micro=64 --set h1.units=128 \
    --set h2.units=64 --set h3.units=32 -q
"$HETERPS" gen criteo --rows 384 --vocab 200 -q -o "$work/train.tsv"
plan "$work/one.json" '0-6:cpu'
plan "$work/two.json" '0-0:cpu 1-6:emu'
check 'ctrdnn trains on the CPU' train one "$HETERPS" --plan "$work/one.json" --threads 1 $each
check 'ctrdnn trains on CPU and card' train two "$EMU" --plan "$work/two.json" $each
near 'ctrdnn: the losses are the same' one two
moved='ctrdnn: the bytes are those of the cut'
python3 - "$work" <<'PYTHON' && ok "$moved" || not_ok "$moved"
import json, sys
done = [e for e in map(json.loads, open(sys.argv[1] + "/two.log")) if e["event"] == "done"][0]
assert done["stages"][0]["cut_bytes"] == 384 * ((416 + 13 + 1) * 4 + 416 * 4), done["stages"]
PYTHON

# --- experts ----------------------------------------------------------------------------------------------------------

# Of weighted examples, which count in the gradient of the gate, too, where the experts' stage has no loss.
"$HETERPS" gen criteo --rows 192 --seed 6 -q -o "$work/plain.tsv"
awk 'BEGIN {
    FS = "\t"; OFS = ","
    printf "label"
    for (i = 1; i <= 13; i++) printf ",I%d", i
    for (i = 1; i <= 26; i++) printf ",C%d", i
    print ",w"
} { $1 = $1; print $0, 0.5 + NR % 5 }' "$work/plain.tsv" >"$work/train.tsv"
head -60 "$work/train.tsv" >"$work/eval.tsv"
model=experts
"$HETERPS" compile samples/experts.cfg -o "$work/experts.bin" -q --set data.format=csv --set data.weight=w \
    --set train.batch=64 --set train.micro=16 --set train.lanes=2 --set m.hidden=20 --set emb.dim=2 \
    --set m.capacity=0.7 --set m.balance=0.5
plan "$work/none.json" '0-6:cpu'
plan "$work/rest.json" '0-1:cpu 2-6:emu' # e, x | gate, m, r, y, bce
plan "$work/alone.json" '0-2:cpu 3-3:emu 4-6:cpu'
check 'experts train on the CPU' train none "$HETERPS" --plan "$work/none.json" --threads 1 $each
for way in rest alone; do
    check "$way: experts train on a card" train $way "$EMU" --plan "$work/$way.json" --share $each
    near "$way: they learn what the CPU learns" none $way
done
HETERPS_EMU_SEED=8 check 'again, in another order' train rest_again "$EMU" --plan "$work/rest.json" \
    --set train.in_flight=2
check 'with the same bytes' same rest rest_again
finish

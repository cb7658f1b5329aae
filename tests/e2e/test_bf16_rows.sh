#!/bin/sh
# Tables in bfloat16 (store = bf16): half the vectors' bytes, and the same rows whatever the threads, stages,
# nodes, tiers, cards and interruptions, for how an update rounds follows from seed, step, key and column
# alone.
. "$(dirname "$0")/lib.sh"
. tests/e2e/process.sh
. tests/e2e/nodes.sh
examples=$(scaled 1500)
h=$HETERPS
cd "$work" || exit 1
"$h" gen criteo --rows "$examples" --seed 23 -o data.tsv -q &&
    "$h" gen criteo --rows 400 --skip 4000 --seed 23 -o test.tsv -q || { echo "not ok 1 - fixture"; exit 1; }
tables_model
compiled() { # NAME SETTING...
    name=$1
    shift
    "$h" compile tables.cfg -o "$name.bin" -q --set train.epochs=2 --set train.batch=128 --set train.micro=16 \
        --set train.lanes=4 --set store.ram=8MiB "$@"
}
# Of an odd width: a word is half a vector's, and half nobody's.
check 'compile' compiled half --set emb.dim=5 --set emb.store=bf16
check 'compile in float32' compiled whole --set emb.dim=5
graph=half.bin
export_of() { rm -rf "$1.out" && "$h" export $graph --model "$1.model" -o "$1.out" -q; }
trained() { # NAME ARGUMENT...: a fresh model, and what it exports
    name=$1
    shift
    rm -rf "$name.model"
    "$h" $graph --data data.tsv --out "$name.model" -q "$@" && export_of "$name"
}
like() { trained other "$@" && diff -r plain.out other.out; }
python3 "$root/tests/e2e/make_plan.py" stages.json '0-1:1:1 2-4:1:1'
python3 "$root/tests/e2e/make_plan.py" card.json '0-1:emu 2-4:cpu'

check 'train' trained plain --threads 1
check 'same bytes: two threads' like --threads 2
check 'same bytes: stages' like --plan stages.json --share
check 'same bytes: rows on disk' like --set store.ram=6600KiB --set store.ssd=8MiB --set store.path=rows
on_nodes() {
    rm -rf other.model
    "$h" launch --local 2 -- $graph --data data.tsv --out other.model -q && export_of other &&
        diff -r plain.out other.out
}
check 'same bytes: two nodes' on_nodes
exported_by_nodes() {
    rm -rf other.out && "$h" launch --local 2 -- export $graph --model plain.model -o other.out -q &&
        diff -r plain.out other.out
}
check 'same bytes: exported by two nodes' exported_by_nodes
stopped() {
    rm -rf other.model
    "$h" $graph --data data.tsv --out other.model -q --set train.steps_max=7 --set checkpoint.every=3 --threads 2 &&
        "$h" $graph --data data.tsv --resume other.model -q --threads 1 && export_of other &&
        diff -r plain.out other.out
}
check 'same bytes: stopped and resumed' stopped
on_card() { # whose tier has rows of the step before
    rm -rf other.model
    "$BUILD/heterps-emu" $graph --data data.tsv --out other.model -q --plan card.json --set store.gpu=100KiB &&
        export_of other && diff -r plain.out other.out
}
if [ -x "$BUILD/heterps-emu" ]; then
    check 'same bytes: rows on a card' on_card
else
    skip 'same bytes: rows on a card' 'this build has no emulated card'
fi

# Steps that overlap have no bytes of their own, but learn.
overlapping() { # SYNC
    "$h" $graph --data data.tsv --out other.model -q --set train.sync="$1" --set train.lanes=1 --set train.micro=128 \
        --set train.in_flight=3 --plan stages.json --share && "$h" fsck other.model &&
        "$h" eval $graph --model other.model --data test.tsv --log json >out &&
        awk -v auc="$(event_number eval auc out)" 'BEGIN { exit !(auc > 0.52) }'
}
for sync in wsp asp; do rm -rf other.model; check "$sync: it learns" overlapping $sync; done

# --- what is stored, read and said ------------------------------------------------------------------------------------

# Of a row: a key, five numbers in three words, and five floats of state; in float32 two more.
saves() {
    rm -rf float.model && "$h" whole.bin --data data.tsv --out float.model -q && "$h" fsck plain.model &&
        python3 - plain.model float.model <<'PYTHON'
import json, os, sys
def table(path):
    t = json.load(open(f"{path}/manifest.json"))["tables"][0]
    return (t["rows"], t["span_floats"], t.get("vectors"),
            sum(os.path.getsize(f"{path}/{p['file']}") for p in t["parts"]))
rows, floats, vectors, size = table(sys.argv[1])
rows_f32, floats_f32, vectors_f32, size_f32 = table(sys.argv[2])
assert (rows == rows_f32 and (floats, floats_f32) == (8, 10)
        and (vectors, vectors_f32) == ("bf16", None)), (floats, vectors)
assert size_f32 - size == rows * 8, (size, size_f32, rows)
PYTHON
}
check 'a save has half the vectors'\'' bytes' saves
check 'inspect says how they are stored' \
    sh -c "'$h' inspect half.bin | grep -q '5 bf16' && ! '$h' inspect whole.bin | grep -q bf16"
figures() { # eval, predict and a file for serving agree
    "$h" eval $graph --model plain.model --data test.tsv --log json >eval.log &&
        "$h" predict $graph --model plain.model --data test.tsv -o there -q && for store in f32 bf16; do
            "$h" export $graph --model plain.model --for serving --store $store -o lean.bin -q &&
                "$h" predict lean.bin --data test.tsv -o off -q && cmp there off || return 1
        done && "$h" predict $graph --model plain.model --data test.tsv -o off -q --set store.ssd=8MiB \
                --set store.path=rows --set store.ram=6600KiB && cmp there off
}
check 'eval, predict, rows on disk and files for serving agree' figures
imported() {
    rm -rf again.model
    "$h" import $graph plain.out --out again.model -q && "$h" export $graph --model again.model -o again.out -q &&
        diff -r plain.out again.out
}
check 'import gives what was exported' imported
# begun: a training in bfloat16 begins with a save in float32, state and all; a training in float32 with one
# in bfloat16
begun() {
    rm -rf half.model back.model
    "$h" half.bin --data data.tsv --init float.model --out half.model -q --set train.steps_max=1 &&
        "$h" whole.bin --data data.tsv --init half.model --out back.model --set train.steps_max=1 2>said &&
        ! grep -q 'vectors only' said
}
check 'one begins with the other, optimizer state and all' begun
fails 1 'emb.store was f32 when it was saved and is bf16 now, .*--init' 'another way of storing is refused' \
    "$h" half.bin --data data.tsv --resume float.model
fails 2 'store = bf16 needs \[model\] rules of 11 or more, and the text says 10' 'rules that do not know it' \
    "$h" compile tables.cfg -o no.bin --set model.rules=10 --set emb.store=bf16
fails 2 'dim of 1 to 4096 with store = bf16, found 5000' 'too wide' \
    "$h" compile tables.cfg -o no.bin --set emb.dim=5000 --set emb.store=bf16
finish

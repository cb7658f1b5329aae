#!/bin/sh
# Trainings on several nodes that have a card each, processes over loopback with emulated cards: the bytes of one node
# with such a card, saved and resumed on other numbers of nodes, with a node killed; what is refused. Needs
# build/MODE/heterps-emu. Plans and cuts of lanes drawn at random: tests/engine/device/card/test_card_nodes.c.
. "$(dirname "$0")/lib.sh"
HETERPS=$BUILD/heterps-emu
[ -x "$HETERPS" ] || { echo 'ok 1 - nodes with cards # SKIP this build has no emulated card'; exit 0; }
. tests/e2e/process.sh
. tests/e2e/nodes.sh
cd "$folder" || exit 1
h=$HETERPS

# --- a model and plans ------------------------------------------------------------------------------------------------

# Layers: e, x | n, h1, d, h2, h3 | y, bce; h3 has the weights of h2.
cat >mixed.cfg <<'CFG'
[model]
name = mixed
[data]
format = criteo
label = label
dense = I1..I13
sparse = C1..C26
[table emb]
dim = 2
optimizer = adagrad 0.05
[embedding e]
table = emb
input = sparse
[concat x]
input = e, dense
[batch_norm n]
input = x
[fc h1]
input = n
units = 16
activation = relu
[dropout d]
input = h1
rate = 0.2
[fc h2]
input = d
units = 16
activation = tanh
[fc h3]
input = h2
units = 16
activation = sigmoid
share = h2
[fc y]
input = h3
units = 1
[loss bce]
input = y
label = label
[train]
batch = 32
micro = 4
lanes = 8
optimizer = adam 0.01
clip_norm = 0.5
[store]
ram = 4MiB
[cluster]
timeout = 5
connect = 20
bucket = 1KiB
CFG
"$h" compile mixed.cfg -o mixed.bin -q && "$h" gen criteo --rows 118 --vocab 50 -q -o data.tsv || exit 1
plan() { python3 "$root/tests/e2e/make_plan.py" "$@"; }
plan card.json '0-1:cpu 2-6:emu 7-8:cpu'
plan stages.json '0-1:cpu@0+1 2-6:emu@1+2 7-8:cpu@0'
plan pair.json '0-1:cpu 2-6:emu=2 7-8:cpu'

# on_nodes NAME NODES ARGUMENT…: trains on so many nodes into $folder/NAME.model.
on_nodes() {
    nodes_name=$1 nodes_count=$2
    shift 2
    runs 0 timeout 100 "$h" launch --local "$nodes_count" -- mixed.bin --data data.tsv --share \
        --out "$nodes_name.model" "$@" && exported mixed.bin "$nodes_name.model" "$nodes_name"
}

# --- bytes ------------------------------------------------------------------------------------------------------------

check 'one node with a card trains' trains one mixed.bin --data data.tsv --share --plan card.json
lanes() { on_nodes lanes 3 --plan card.json --lanes 3,5,0 && same_bytes one lanes; }
check 'two with a card each, and a server without: the same bytes' lanes
stages() { HETERPS_EMU_SEED=3 on_nodes stages 3 --plan stages.json && same_bytes one stages; }
check 'look-ups on two nodes, and a stage on the cards of two: the same bytes' stages
several() { HETERPS_EMU_CARDS=2 on_nodes several 2 --plan pair.json && same_bytes one several; }
check 'two nodes with two cards each: the same bytes' several
on_cores() { trains cores mixed.bin --data data.tsv --share --threads 1 && ! same_bytes one cores >/dev/null; }
check 'which are others than those of cores' on_cores

# The state of the optimizer, too: a step on one node, one on two, one on three, the last one on one.
kept() { rm -rf from.model && cp -r resumed.model from.model; }
resumed() {
    trains resumed mixed.bin --data data.tsv --share --plan card.json --set train.steps_max=1 && kept &&
        on_nodes resumed 2 --plan card.json --resume from.model --set train.steps_max=2 && kept &&
        on_nodes resumed 3 --plan stages.json --resume from.model --set train.steps_max=3 && kept &&
        trains resumed mixed.bin --data data.tsv --share --plan card.json --resume from.model && same_bytes one resumed
}
check 'saved and resumed on other numbers of nodes: the same bytes' resumed

# The lanes of a node that is lost go to the other card's node, and then back.
killed() {
    start launch --local 3 -- mixed.bin --data data.tsv --share --plan stages.json --out killed.model \
        --set checkpoint.every=1 --set train.epochs=2 &&
        await 'saved ' run.err && kill -9 "$(pgrep -P "$pid" -f -- "--rank=$1( |\$)")" && ended 0 &&
        grep -q "node $1 at .* is lost" run.err && exported mixed.bin killed.model killed || return 1
    trains twice mixed.bin --data data.tsv --share --plan card.json --set train.epochs=2 && same_bytes twice killed
}
check 'a node with a card is killed: the same bytes' killed 2

# --- what is refused --------------------------------------------------------------------------------------------------

places_find
unlike() {
    set -- mixed.bin --insecure --data data.tsv --share --set cluster.min=2 --set cluster.connect=3
    pair 75 'is refused: the layers on cards \(--plan\) is none there, and 2-6 here' \
        1 'refuses this node: the layers on cards \(--plan\) is none here, and 2-6 there' "$@" --plan card.json -- "$@"
}
check 'a card on one node and none on the other' unlike
plan sim.json '0-1:cpu 2-8:sim'
sed 's/"k": 1}/"k": 1, "et": 0.001}/' sim.json >imitated.json
imitated() {
    runs 1 timeout 60 "$h" launch --local 2 -- mixed.bin --data data.tsv --share --plan imitated.json &&
        says 'stage 2 of 2 is on type sim, which computes nothing, and several nodes share the stage: give it to cores'
}
check 'a stage that computes nothing' imitated
finish

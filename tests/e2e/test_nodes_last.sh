#!/bin/sh
# Plans whose last stage lies on several nodes, and other stages on others: HeterPS's cluster, whose look-ups are on
# nodes of CPUs, and fully connected layers with the losses on nodes with cards. Processes over loopback: the bytes and
# figures of one node, saved, resumed elsewhere, with a node killed; planned from a cluster text; with emulated cards.
. "$(dirname "$0")/lib.sh"
. tests/e2e/process.sh
. tests/e2e/nodes.sh
cd "$folder" || exit 1
h=$HETERPS

# Layers: e, x, h1, y, bce; all parameters behind the look-ups are in the last stage.
tables_model
plan() { python3 "$root/tests/e2e/make_plan.py" "$@"; }
heterps compile tables.cfg -o tables.bin --set train.clip_norm=0.3 --set train.progressive=3000 &&
    heterps gen criteo --rows "$(scaled 5000)" -o data.tsv && heterps gen criteo --rows 900 --skip 6000 -o test.tsv &&
    plan cluster.json '0-1:1:1@0+1 2-4:1:1@2+3' && plan third.json '0-0:1:1@1 1-1:1:1@0 2-4:2:2@0+2' &&
    plan front.json '0-0:1:1@0 1-4:1:1@0+1' && trains tables tables.bin --data data.tsv --threads 1 ||
    { echo "not ok 1 - fixture"; exit 1; }

# launched_same N PLAN ARGUMENT...: the bytes of one node.
launched_same() {
    launched_n=$1 launched_plan=$2
    shift 2
    rm -rf again.model
    runs 0 timeout -k 5 60 "$h" launch --local "$launched_n" -- tables.bin --data data.tsv --out again.model \
        --plan "$launched_plan" --share "$@" && exported tables.bin again.model again && same_bytes tables again
}
cluster() {
    launched_same 4 cluster.json --set checkpoint.every=60 &&
        says 'nodes    4, which have the stages that the plan gives them' && says 'nodes       2        1 ' &&
        says 'nodes       3        1 '
}
check 'look-ups on two nodes, fc and loss on two others: the bytes of one node' cluster
check 'shared by node 0, which has an earlier stage alone' launched_same 2 front.json
same_figures() { # N PLAN: of evaluations in the passes, of progress, and where early stopping ends
    set -- "$@" tables.bin --data data.tsv --eval new=test.tsv --eval old=test.tsv --log json --set eval.every=50 \
        --set train.stop=auc --set train.patience=1
    figures_n=$1 figures_plan=$2
    shift 2
    [ -s one.log ] || { runs 0 "$h" "$@" --threads 1 && cp out one.log; } || return 1
    runs 0 timeout -k 5 60 "$h" launch --local "$figures_n" --log json -- "$@" --plan "$figures_plan" --share &&
        figures_same && [ ! -s err ]
}
check 'nodes 2 and 3 have the last stage: the figures of one node' same_figures 4 cluster.json
check 'nodes 0 and 2 have the last stage: the figures of one node' same_figures 3 third.json

elsewhere() { # begun by four, gone on with by two without a plan, then by three, ended by one
    rm -rf go.model
    set -- tables.bin --data data.tsv --out go.model
    runs 0 "$h" launch --local 4 -- "$@" --plan cluster.json --share --set train.steps_max=40 &&
        runs 0 "$h" launch --local 2 -- "$@" --resume go.model --set train.steps_max=90 &&
        runs 0 "$h" launch --local 3 -- "$@" --resume go.model --plan third.json --share --set train.steps_max=130 &&
        runs 0 "$h" "$@" --resume go.model && exported tables.bin go.model again && same_bytes tables again
}
check 'saved, and gone on with on other nodes' elsewhere
killed() { # RANK
    rm -rf again.model
    start launch --local 4 -- tables.bin --data data.tsv --plan cluster.json --share --out again.model \
        --set checkpoint.every=20 --eval test.tsv --set eval.every=30
    await 'saved ' run.err && kill -9 "$(pgrep -P "$pid" -f -- "--rank=$1( |\$)")" && ended 0 &&
        says 'node 3 at .* is lost: ' && exported tables.bin again.model again && same_bytes tables again
}
check 'a node of the last stage is killed: the bytes are the same' killed 3

# --- planned ------------------------------------------------------------------------------------------------------

cat >nodes.cfg <<'CFG'
[type cpu]
device = cpu
nodes = a, b
price_per_hour = 0.04
limit = 1
[type gpu]
device = cpu
nodes = c, d
price_per_hour = 0.04
limit = 1
[node a]
[node b]
[node c]
[node d]
[link]
bandwidth = 1e9
latency = 2e-6
[goal]
throughput = 1000
CFG
planned() { # where look-ups take a thousand times as long on nodes c and d, and fc on a and b
    runs 0 "$h" plan tables.bin --data data.tsv --cluster nodes.cfg --method exact --instance-out i.json -q \
        -o exact.json && python3 - <<'PYTHON' || return 1
import json
i = json.load(open("i.json"))
for l, layer in enumerate(i["layers"]):
    for name in ("oct", "fixed"):
        layer[name][0 if l > 1 else 1] *= 1000
json.dump(i, open("slow.json", "w"))
PYTHON
    for method in exact brute; do
        runs 0 "$h" plan --instance slow.json --method $method -o $method.json || return 1
    done
    python3 - <<'PYTHON' && launched_same 4 exact.json
import json
exact, brute = (json.load(open(p + ".json")) for p in ("exact", "brute"))
nodes = [s["nodes"] for s in exact["stages"]]
assert exact["proven"] and nodes == [[0, 1], [2, 3]] and abs(exact["cost"] / brute["cost"] - 1) < 1e-9, (nodes, exact)
PYTHON
}
check 'exact proposes and proves such a plan, and four nodes train so' planned

# --- cards --------------------------------------------------------------------------------------------------------

cards() {
    plan cards.json '0-1:cpu@0 2-4:emu@1+2' && plan one.json '0-1:cpu 2-4:emu' && head -n 200 data.tsv >few.tsv &&
        runs 0 "$h" tables.bin --data few.tsv --out one.model --plan one.json --share --eval few.tsv --log json &&
        cp out one.log && exported tables.bin one.model one && rm -rf again.model &&
        runs 0 "$h" launch --local 3 --log json -- tables.bin --data few.tsv --out again.model --plan cards.json \
            --share --eval few.tsv && figures_same && exported tables.bin again.model again && same_bytes one again
}
if [ -x "$BUILD/heterps-emu" ]; then
    h=$BUILD/heterps-emu
    check 'fc and loss on the cards of two nodes: the bytes and figures of one with a card' cards
else
    skip 'fc and loss on the cards of two nodes' 'this build has no emulated card'
fi
finish

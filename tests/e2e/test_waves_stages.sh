#!/bin/sh
# train.sync = wsp with workers whose stages lie on several nodes, processes over loopback: a worker alone has one
# node's bytes; two workers of two nodes are within the bounds, and evaluate, save and stop as one; the same bytes
# whatever the timing, and whoever is killed, where that is asked for; refusals in words.
. "$(dirname "$0")/lib.sh"
. tests/e2e/process.sh
. tests/e2e/nodes.sh
cd "$folder" || exit 1
h=$HETERPS
tables_model
cat >dense.cfg <<'CFG'
[model]
name = dense
[data]
dense = I1..I13
[fc h1]
input = dense
units = 16
activation = relu
[fc h2]
input = h1
units = 12
activation = relu
[fc y]
input = h2
units = 1
[loss bce]
input = y
[train]
batch = 64
optimizer = adagrad 0.02
[cluster]
timeout = 5
connect = 20
CFG
compiled() {
    "$h" compile "$1.cfg" -o "$1.bin" -q --set train.sync=wsp --set train.lanes=1 --set train.in_flight=2 \
        --set train.clock_distance=1
}
plan() { python3 "$root/tests/e2e/make_plan.py" "$@"; }
# Layers of tables: e, x, h1, y, bce; of dense: h1, h2, y, bce.
compiled tables && compiled dense && "$h" gen criteo --rows "$(scaled 6000)" --seed 5 -o data.tsv -q &&
    "$h" gen criteo --rows 1000 --skip 6000 --seed 5 -o test.tsv -q && plan one.json '0-0:1:1@1 1-3:1:1@0' &&
    plan same.json '0-0:1:1 1-3:1:1' && plan two.json '0-1:1:1@1+3 2-4:1:1@0+2' &&
    plan odd.json '0-1:1:1@1+2 2-4:1:1@0' && plan turned.json '0-1:1:1@0 2-4:1:1@1' ||
    { echo "not ok 1 - fixture"; exit 1; }
steps=$((3 * (($(scaled 6000) + 63) / 64)))
launched() { # N PLAN ARGUMENT...
    launched_n=$1 launched_plan=$2
    shift 2
    runs 0 timeout -k 5 60 "$h" launch --local "$launched_n" -- tables.bin --data data.tsv --plan "$launched_plan" \
        --share "$@"
}
is_at() { # MODEL STEP: a model after so many steps
    runs 0 "$h" eval tables.bin --model "$1" --data test.tsv --log json && [ "$(event_number eval step out)" = "$2" ]
}

alone() { # one minibatch at a time
    set -- dense.bin --data data.tsv --share --set train.in_flight=1 --set train.clock_distance=0
    runs 0 timeout -k 5 60 "$h" launch --local 2 -- "$@" --plan one.json --out alone.model &&
        says 'nodes    1 workers, on the nodes that the plan gives their stages' &&
        says 'nodes       1        0 ' &&
        says 'of the minibatches of all nodes: own updates missing: most 0; of other workers: most 0' &&
        trains same "$@" --plan same.json &&
        exported dense.bin alone.model alone && same_bytes alone same
}
check 'one worker on two nodes: the bytes of the same stages on one node' alone
within() { # it tells its staleness, and evaluates as one node does what it has saved
    launched 4 two.json --eval test.tsv --out many.model --set checkpoint.every=18 --set eval.every=25 --log json &&
        mv out many.log && is_at many.model $steps && waves_within "$(event_number eval auc out)"
}
check 'two workers of two nodes: within their bounds, saved and evaluated' within
others() {
    runs 0 "$h" tables.bin --data data.tsv --resume many.model --out many.model --set train.epochs=4 &&
        launched 4 two.json --resume many.model --out many.model --set train.epochs=5 &&
        is_at many.model $((steps * 5 / 3))
}
check 'their save goes on on one node, and on four' others

# Equal bytes: whoever is late, and whoever is lost between two saves and comes back; and equal figures within the
# passes.
looks='--set train.exact=yes --set checkpoint.every=40 --eval test.tsv --set eval.every=20'
exact() {
    launched 4 two.json --out exact.model $looks --log json && exported tables.bin exact.model "$1" &&
        grep '"event":"eval"' out | sed 's/"seconds":[^,]*,//' >"$1.eval" && [ "$(grep -c . "$1.eval")" -gt 1 ]
}
check 'exact: the same bytes again' eval 'exact first && exact second && same_bytes first second'
check 'exact: and the same figures within the passes' cmp first.eval second.eval
killed() { # RANK MIN: of four nodes
    rm -rf exact.model
    start launch --local 4 -- tables.bin --data data.tsv --plan two.json --share --out exact.model $looks \
        --set cluster.min="$2"
    await 'saved ' run.err && kill -9 "$(pgrep -P "$pid" -f -- "--rank=$1( |\$)")"
    ended 0 && exported tables.bin exact.model again
}
for rank in 2 3; do
    check "exact: node $rank killed: all go back to the save, and end with the same bytes" \
        eval "killed $rank 4 && same_bytes first again"
done
check 'node 1 killed: all go back to the save, and end' eval "killed 1 2 && is_at exact.model $steps"
stopped() {
    rm -rf stopped.model
    start launch --local 4 -- tables.bin --data data.tsv --plan two.json --share --out stopped.model \
        --set train.epochs=100000 --set checkpoint.seconds=0.1
    await 'saved ' run.err && kill -TERM $pid && ended 75 || return 1
    step=$(sed -n 's/.*have stopped after step \([0-9]*\);.*/\1/p' err | head -1)
    [ -n "$step" ] && is_at stopped.model "$step"
}
check 'SIGTERM: all stop behind the same step, and it is saved' stopped

# Plans of plan --workers are trained as they are. Cores and memory are said, and times are measured.
type_text() { # NAME DEVICE UNITS
    printf '[type %s]\ndevice = %s\nprice_per_hour = 1\nlimit = %s\nper_node = %s\nmemory = 4GiB\n' "$1" "$2" "$3" "$3"
    printf 'flops = 1e9\nmemory_bandwidth = 1e9\nlink_bandwidth = 1e9\nnetwork_bandwidth = 1e9\nbatch_overhead = 1e-5\n'
}
{ type_text a cpu 2; type_text b paced 2; } >two.cfg
type_text a cpu 2 >one.cfg
for planned_cfg in two one; do printf '[goal]\nthroughput = max\n' >>$planned_cfg.cfg; done
planned() { # NODES CLUSTER ALLOCATION
    runs 0 "$h" plan tables.bin --cluster "$2.cfg" --data data.tsv --workers "$3" --placement local --in-flight 2 \
        -o planned.json &&
        grep -q '; give --set train.sync=wsp --set train.in_flight=2 --set train.clock_distance=0$' out &&
        launched "$1" planned.json --out planned.model --set train.clock_distance=0 &&
        says "nodes    $(($1 / 2)) workers, on the nodes that the plan gives their stages" &&
        is_at planned.model $steps
}
check 'plan --workers ed: two workers of two nodes, trained' planned 4 two ed
told() { # of a graph for bsp, the last line has all settings that its training needs
    runs 0 "$h" compile tables.cfg -o steps.bin --set train.batch=64 --set train.micro=32 --set train.lanes=2 &&
        runs 0 "$h" plan steps.bin --cluster two.cfg --data data.tsv --workers ed --placement local --in-flight 2 \
            -o planned.json && sed -n 's/^plan .*; give //p' out >told && grep -q 'lanes=1$' told &&
        runs 0 timeout -k 5 60 "$h" launch --local 4 -- steps.bin --data data.tsv --plan planned.json --share \
            $(cat told) &&
        says 'batch 32 in micro-batches of 32'
}
check 'plan --workers of a graph for bsp: trained with the settings that it tells' told
check 'plan --workers np: the cards of one node, a worker, trained' planned 2 one np

refused() { # N PLAN PATTERN
    runs 1 timeout -k 5 60 "$h" launch --local "$1" -- tables.bin --data data.tsv --plan "$2" --share && says "$3"
}
check 'stages on different numbers of nodes' refused 3 odd.json 'stage 0 lies on 2 nodes and stage 1 on 1'
check 'the last stage of node 0'\''s worker on another node' \
    refused 2 turned.json 'the last stage, 1, of node 0'\''s worker is not on node 0'
finish

#!/bin/sh
# train.sync = wsp on several nodes, processes over loopback: within the bounds; saved, killed, stopped, and resumed on
# as many and on others; the same bytes whatever the timing where that is asked for; refusals in words.
. "$(dirname "$0")/lib.sh"
. tests/e2e/process.sh
. tests/e2e/nodes.sh
cd "$folder" || exit 1
h=$HETERPS
tables_model
"$h" compile tables.cfg -o tables.bin -q --set train.sync=wsp --set train.lanes=1 --set train.in_flight=2 \
    --set train.clock_distance=1 && "$h" gen criteo --rows "$(scaled 6000)" --seed 5 -o data.tsv -q &&
    "$h" gen criteo --rows 1000 --skip 6000 --seed 5 -o test.tsv -q ||
    { echo "not ok 1 - fixture"; exit 1; }
steps=$((3 * (($(scaled 6000) + 63) / 64)))
of_nodes() { # N ARGUMENT...
    of_n=$1
    shift
    runs 0 timeout -k 5 60 "$h" launch --local "$of_n" -- tables.bin --data data.tsv "$@"
}
is_at() { # MODEL STEP: a model after so many steps
    runs 0 "$h" eval tables.bin --model "$1" --data test.tsv --log json && [ "$(event_number eval step out)" = "$2" ] &&
        awk -v auc="$(event_number eval auc out)" 'BEGIN { exit !(auc > 0.52 && auc < 1) }'
}

within() { # N: it tells its staleness, and evaluates as one node does what it has saved
    of_nodes "$1" --eval test.tsv --out many.model --set checkpoint.every=18 --set eval.every=25 --log json &&
        mv out many.log && is_at many.model $steps && waves_within "$(event_number eval auc out)"
}
for n in 2 3; do check "$n nodes: within its bounds, saved and evaluated" within $n; done
# Worker 0 has no step from 40 to 41, where the data and the job end.
ends_before() {
    of_nodes 3 --set train.steps_max=40 --eval test.tsv --set eval.every=41 --log json &&
        [ "$(event_number done step out)" = 40 ]
}
check 'the data end before a bound, and a worker has no step between' ends_before
others() {
    heterps tables.bin --data data.tsv --resume many.model --set train.epochs=4 &&
        of_nodes 2 --resume many.model --out many.model --set train.epochs=5 && is_at many.model $((steps * 5 / 3))
}
check 'the save of three nodes goes on on one, and on two' others
begun() { # a save tells the rows of all nodes, before the first step, too
    of_nodes 2 --continue many.model --out day.model --set train.epochs=1 --set checkpoint.keep=9 --log json &&
        python3 - <<'PYTHON'
import glob, json
saves = [e["rows"] for e in map(json.loads, open("out")) if e["event"] == "checkpoint"]
rows = [m["tables"][0]["rows"] for m in sorted((json.load(open(p)) for p in glob.glob("day.model/manifest*.json")),
                                              key=lambda m: m["save"])]
print(saves, rows)
assert saves == rows and len(rows) == 2, (saves, rows)
PYTHON
}
check 'a pass that is begun by --continue: its saves tell all rows' begun
larger() { # a table for which no node alone has room
    "$h" gen criteo --rows 6000 --seed 5 -o large.tsv -q || return 1
    set -- --data large.tsv --set train.epochs=1 --set store.ram=1MiB
    runs 1 "$h" tables.bin "$@" && says 'table "emb" is full: 18077 rows of 58 bytes' &&
        runs 0 timeout -k 5 60 "$h" launch --local 2 -- tables.bin "$@" --out large.model &&
        says 'saved +large.model at step 94 \(19,529 rows'
}
check 'two nodes train a table that is full on one' larger
bandwidths() { # are not used, as one line of node 0 says
    of_nodes 2 --set train.steps_max=10 --set cluster.bandwidth=1e9,1e8 &&
        says '^\[0\].*warning: cluster.bandwidth is not used under train.sync = wsp' &&
        [ "$(grep -c 'cluster.bandwidth' err)" = 1 ]
}
check 'bandwidths of links are not used' bandwidths
by_nodes() { # each row is exported once
    exported tables.bin many.model alone && rm -rf nodes.values &&
        runs 0 timeout -k 5 60 "$h" launch --local 2 -- export tables.bin --model many.model -o nodes.values -q &&
        same_bytes alone nodes
}
check 'two nodes export what one does' by_nodes

# Equal bytes: whoever is late, and whoever is lost between two saves and comes back; and equal figures within the
# passes, where rows that are only read ahead have no part.
looks='--set train.exact=yes --set checkpoint.every=40 --eval test.tsv --set eval.every=20'
exact() {
    of_nodes "$1" --out exact.model $looks --log json && exported tables.bin exact.model "$2" &&
        grep '"event":"eval"' out | sed 's/"seconds":[^,]*,//' >"$2.eval" && [ "$(grep -c . "$2.eval")" -gt 1 ]
}
check 'exact, three nodes: the same bytes again' eval 'exact 3 first && exact 3 second && same_bytes first second'
check 'exact, three nodes: and the same figures within the passes' cmp first.eval second.eval
killed() { # RANK
    rm -rf exact.model
    start launch --local 3 -- tables.bin --data data.tsv --out exact.model $looks --set cluster.min=3
    await 'saved ' run.err && kill -9 "$(pgrep -P "$pid" -f -- "--rank=$1( |\$)")"
    ended 0 && exported tables.bin exact.model again && same_bytes first again
}
check 'exact: node 2 killed: all go back to the save, and end with the same bytes' killed 2
await_saves() { # N: that many
    tenths=200
    while [ "$(grep -c 'saved ' run.err)" -lt "$1" ]; do
        tenths=$((tenths - 1))
        [ $tenths -gt 0 ] || { tail -n 5 run.err; return 1; }
        sleep 0.1
    done
}
stopped() {
    rm -rf stopped.model
    start launch --local 2 -- tables.bin --data data.tsv --out stopped.model --set train.epochs=100000 \
        --set checkpoint.seconds=0.1
    await_saves 3 && kill -TERM $pid && ended 75 || return 1
    step=$(sed -n 's/.*have stopped after step \([0-9]*\);.*/\1/p' err | head -1)
    [ -n "$step" ] && is_at stopped.model "$step"
}
check 'saves by time, and SIGTERM: all stop behind the same step, and it is saved' stopped

refused() { # STATUS PATTERN ARGUMENT...
    refused_status=$1 refused_pattern=$2
    shift 2
    runs "$refused_status" timeout -k 5 60 "$h" launch --local 2 -- tables.bin --data data.tsv "$@" &&
        says "$refused_pattern"
}
check 'asp' refused 2 'train.sync = asp is for one node only: .*clock_distance' --set train.sync=asp
check 'lanes' refused 2 '--lanes divides every step between nodes; under train.sync = wsp' --lanes 1,1
check 'pipelines' refused 2 'train.pipelines = 2: on several nodes each node is one pipeline' --set train.pipelines=2
check 'servers' refused 2 'cluster.rows = servers: under train.sync = wsp every node is a worker' \
    --set cluster.rows=servers
check 'rows of more waves than an owner of an exact training can number' \
    refused 1 'a wave may change [0-9]+ rows of a table, and a node keeps those of 16390 waves' \
    --set train.exact=yes --set train.clock_distance=4096 --set train.in_flight=128
check 'rows of more waves than can be numbered' \
    refused 1 'a wave may change [0-9]+ rows of a table, and a node keeps those of 4099 waves' \
    --set train.in_flight=4096 --set train.clock_distance=4096
check 'rows in bfloat16' refused 1 'table "emb" has store = bf16: under train.sync = wsp' --set emb.store=bf16
# Nodes that are not started alike.
"$h" key -o key -q
places_find
node="tables.bin --data data.tsv --key-file key --threads 1 --set cluster.min=2"
check 'waves of other lengths' pair 1 '^' 1 \
    'its waves have 3 minibatches, and those of node 0 2: --set train.in_flight' $node -- $node --set train.in_flight=3
check 'another clock distance' pair 1 '^' 1 \
    'its clock distance is 0, and that of node 0 1: --set train.clock_distance' \
    $node -- $node --set train.clock_distance=0
check 'exact on one node' pair 1 '^' 1 'its train.exact is yes, and that of node 0 no: give all nodes the same' \
    $node -- $node --set train.exact=yes
check 'adam' refused 1 'train.sync = wsp on 2 nodes: .*state of adam.*adagrad' --set 'train.optimizer=adam 0.01'
finish

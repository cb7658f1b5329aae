#!/bin/sh
# Trainings on several nodes, processes over loopback: the bytes of one node whatever their number, what ends
# or takes a node, and each wrong start with its one sentence on the right node.
. "$(dirname "$0")/lib.sh"
. tests/e2e/process.sh
. tests/e2e/nodes.sh
cd "$folder" || exit 1
h=$HETERPS
samples=$root/samples

# --- fixture ----------------------------------------------------------------------------------------------------------

cat >dense.cfg <<'CFG'
[model]
name = dense
[data]
dense = I1..I13
[fc h1]
input = dense
units = 24
activation = relu
[batch_norm n1]
input = h1
[fc y]
input = n1
units = 1
[loss bce]
input = y
[train]
batch = 64
lanes = 8
clip_norm = 0.5
optimizer = adam 0.005
[cluster]
timeout = 5
connect = 20
CFG
tables_model
sed 's/^optimizer = adagrad 0.05/&\nttl = 3\nrows = 9000\nadmit = 2/; s/^ram = .*/&\nperiod = 10/' tables.cfg >life.cfg
sed 's/^dim = 4/dim = 16/; s/^epochs = 3/epochs = 2/;
    s/^optimizer = adagrad 0.05/&\nttl = 5\nadmit = 2\nadmit_by = bloom/;
    s/^ram = .*/&\nperiod = 9/' tables.cfg >wide.cfg
cat >pairs.cfg <<'CFG'
[model]
name = pairs
[data]
format = pairs
sparse = user
[vocabulary items]
column = item
[column item]
vocabulary = items
[candidates drawn]
of = item
negatives = 3
[table users]
dim = 5
init = normal 0.3
[table things]
dim = 5
init = normal 0.3
[embedding u]
table = users
input = user
[embedding i]
table = things
input = drawn
pool = none
[match m]
input = u, i
similarity = cosine
[loss l]
kind = sampled_softmax
input = m, drawn.log_q
[train]
batch = 64
lanes = 8
epochs = 3
optimizer = adagrad 0.1
[store]
ram = 4MiB
CFG
awk 'BEGIN {
    srand(7)
    for (u = 0; u < 90; u++) {
        t = r = u
        for (i = 0; i < 12; i++) t = t " i" int((u % 9) * 5 + 9 * rand())
        for (i = 0; i < 3; i++) r = r " i" int((u % 9) * 5 + 11 * rand())
        print t >"pairs.txt"
        print r >"pairs2.txt"
    }
}'
sed 's/^format = pairs/format = tokens/; s/^sparse = user/sparse = context\nwindow = 2/;
    s/^column = item/column = next/; s/^\[column item\]/[column next]/; s/^of = item/of = next/;
    s/^input = user/input = context/; s/^dim = 5/dim = 5/; s/similarity = cosine/scale = 2/' pairs.cfg |
    awk '/^\[column next\]/ { print "[column context]\nvocabulary = items" } { print }' >tokens.cfg
awk 'BEGIN {
    srand(8)
    for (l = 0; l < 60; l++) {
        t = ""
        w = int(40 * rand())
        for (i = 0; i < 15; i++) { w = (w + 1 + int(4 * rand())) % 40; t = t " w" w }
        print t >(l < 45 ? "tokens.txt" : "tokens2.txt")
    }
}'
heterps gen criteo --rows "$(scaled 6000)" -o data.tsv && heterps gen criteo --rows 500 --skip 6000 -o test.tsv &&
    heterps compile dense.cfg -o dense.bin &&
    heterps compile tables.cfg -o tables.bin && heterps compile life.cfg -o life.bin &&
    heterps compile wide.cfg -o wide.bin &&
    heterps compile pairs.cfg -o pairs.bin --set items.path=pairs.txt &&
    heterps compile tokens.cfg -o tokens.bin --set items.path=tokens.txt && heterps key -o key &&
    heterps key -o other.key && head -n 500 data.tsv >short.tsv &&
    trains dense dense.bin --data data.tsv --threads 1 && trains tables tables.bin --data data.tsv --threads 1 ||
    { echo "not ok 1 - fixture"; exit 1; }

# launched STATUS N ARGUMENT...: standard error in $folder/err.
launched() {
    runs_status=$1 runs_n=$2
    shift 2
    runs "$runs_status" "$h" launch --local "$runs_n" -- "$@"
}
# launched_same AS N GRAPH ARGUMENT...: the bytes that were exported as AS.
launched_same() {
    launched_as=$1 launched_n=$2 launched_graph=$3
    shift 3
    rm -rf again.model
    launched 0 "$launched_n" "$launched_graph" --data data.tsv --out again.model "$@" &&
        exported "$launched_graph" again.model again && same_bytes "$launched_as" again
}

# --- bytes ------------------------------------------------------------------------------------------------------------

for n in 1 2 3 4; do check "$n nodes, a dense model: the bytes of one node" launched_same dense $n dense.bin; done
check '2 nodes, a model with a table: the bytes of one node' launched_same tables 2 tables.bin --set checkpoint.every=50
timed() { # all save behind the same step, whenever node 0's clock says so
    launched_same tables 3 tables.bin --set checkpoint.seconds=0.001 --set checkpoint.keep=1000 &&
        [ "$(grep -c '^\[0\] saved ' err)" -ge 3 ] && silent 'no save before the end'
}
check '3 nodes that save by time: the bytes of one node' timed
one_lane() {
    trains lane tables.bin --data data.tsv --threads 1 --set train.lanes=1 &&
        launched_same lane 1 tables.bin --set train.lanes=1
}
check 'a node of a graph of one lane' one_lane
check '8 nodes, one lane each' launched_same tables 8 tables.bin --set cluster.timeout=40
check 'which come at once, and none is sent away' silent 'waits for .* before it has greeted'
check 'who saves at the end alone is warned, once' \
    eval '[ "$(grep -c "no save before the end: if a node is lost, all nodes begin this run again" err)" = 1 ]'
check 'one lane, many threads that read' launched_same tables 3 tables.bin --lanes 1,7,0 --set train.readers=16
check '3 nodes of 5, 2 and 1 lanes, by the text' launched_same dense 3 dense.bin --set cluster.lanes=5,2,1
check 'says so, as the text has it' says 'nodes    3, which have 5, 2 and 1 of 8 lanes'
unlike() { # links: rows and slices by their bandwidths, slices where they travel in several buckets
    launched_same tables 3 tables.bin --set cluster.bandwidth=1e9,1e9,1e8 --set checkpoint.every=50 &&
        says '^\[0\] nodes    cluster.bandwidth: rows are 50%, 50% and 0%$' &&
        launched_same tables 4 tables.bin --set cluster.bandwidth=1e9,1e9,3e9,1e9 --lanes 4,0,4,0 \
            --set cluster.slices=servers &&
        says 'cluster.bandwidth: rows are 33.3%, 16.7%, 33.3% and 16.7%$' &&
        launched_same dense 3 dense.bin --set cluster.bandwidth=1e9 && silent 'cluster.bandwidth' || return 1
    {
        printf '[model]\nname = deep\n[data]\ndense = I1..I13\n'
        i=0 given=dense
        while [ $i -lt 8 ]; do
            printf '[fc h%d]\ninput = %s\nunits = 24\nactivation = relu\n' $i $given
            given=h$i i=$((i + 1))
        done
        printf '[fc y]\ninput = %s\nunits = 1\n[loss bce]\ninput = y\n' $given
        printf '[train]\nbatch = 64\nlanes = 8\noptimizer = adam 0.005\n'
    } >deep.cfg
    heterps compile deep.cfg -o deep.bin && trains deep deep.bin --data data.tsv --threads 1 &&
        launched_same deep 3 deep.bin --set cluster.bandwidth=1e8,1e9,1e9 --set cluster.bucket=1 &&
        says 'cluster.bandwidth: slices are 0%, 50% and 50%$' &&
        launched_same deep 3 deep.bin --set cluster.bandwidth=1e8,1e9,1e9 && silent 'cluster.bandwidth'
}
check 'links that are unlike: the bytes of one node, and shares are told where they are uneven' unlike
check 'bandwidths of two nodes of three' launched 2 3 dense.bin --data data.tsv --set cluster.bandwidth=1e9,1e8
check 'says so, too' says 'cluster.bandwidth 1e9,1e8: expected a number for each of 3 nodes, found 2'
check 'parameter servers: two nodes of four have no lanes' launched_same tables 4 tables.bin \
    --lanes 3,0,5,0 --set checkpoint.every=50
check 'parameters in buckets, one of which some nodes have nothing of' \
    launched_same dense 4 dense.bin --set cluster.bucket=1
halved() {
    trains half dense.bin --data data.tsv --threads 1 --set train.reduce=bf16 &&
        launched_same half 4 dense.bin --set train.reduce=bf16 --lanes 3,1,4,0 || return 1
    ! same_bytes half dense >/dev/null || { echo 'nothing is rounded'; return 1; }
}
check 'sums in bfloat16: other bytes than in float32, and the same on any nodes' halved
check 'rows and slices on them alone' launched_same tables 3 tables.bin --lanes 8,0,0 --set cluster.rows=servers \
    --set cluster.slices=servers
check 'slices on them alone, rows where lanes are' launched_same tables 3 tables.bin --lanes 1,7,0 \
    --set cluster.rows=local --set cluster.slices=servers
by_speed() {
    launched_same dense 3 dense.bin --set cluster.lanes=1,1,6 --lanes auto &&
        says 'nodes    measured: [0-9,]+, [0-9,]+ and [0-9,]+ examples a second' &&
        says 'nodes    3, which have [1-6], [1-6] and [1-6] of 8 lanes'
}
check 'lanes by measurement' by_speed
check 'a dense model with a server' launched_same dense 3 dense.bin --lanes 4,0,4
check 'what each says begins with its number, and only the first speaks' says '^\[0\] done  '
check 'the others are silent' silent '^\[[1-9]\]'
saved_bytes() { # what all nodes have written
    launched 0 3 tables.bin --data data.tsv --out sized.model --log json && python3 - <<'PY'
import json, os
(e,) = [e for e in map(json.loads, open("out")) if e["event"] == "checkpoint"]
files = [os.path.getsize("sized.model/" + name) for name in os.listdir("sized.model")]
print(e, files)
assert e["bytes"] == sum(files)
PY
}
check 'a save tells the bytes of all nodes' saved_bytes

same_figures() { # GRAPH ARGUMENT...: the JSON log is that of the first node, alone
    runs 0 "$h" "$@" --data data.tsv --eval new=test.tsv --eval old=short.tsv --log json --threads 1 &&
        cp out one.log &&
        launched 0 3 "$@" --data data.tsv --eval new=test.tsv --eval old=short.tsv --log json || return 1
    figures_same
}
# --- stages on nodes: layers of tables are e, x | h1 | y, bce ---

plan() { python3 "$root/tests/e2e/make_plan.py" "$@"; }
plan two.json '0-1:1:1@0 2-4:1:1@1' && plan three.json '0-0:1:1@1 1-2:2:2@2 3-4:1:1@0'
plan front.json '0-1:1:1@0+1+2 2-2:1:1@1+2 3-4:1:1@0' && plan even.json '0-1:1:1@0+1 2-4:1:1@0+1'
plan dense3.json '0-1:1:1@0+1+2 2-3:1:1@1' &&
    plan tied.json '0-0:1:1@0+1 1-2:1:1@1 3-4:1:1@0' && plan alone.json '0-1:1:1@0 2-4:1:1@0'
staged() { # its figures, too, which node 1 has, and node 0 says
    launched_same tables 3 tables.bin --plan three.json --share --set checkpoint.every=50 &&
        says 'nodes    3, which have the stages that the plan gives them' || return 1
    runs 0 "$h" tables.bin --data data.tsv --eval test.tsv --set eval.every=60 --log json --threads 1 &&
        cp out one.log &&
        # launch's own flag is the nodes', too
        runs 0 "$h" launch --local 2 --log json -- tables.bin --data data.tsv --eval test.tsv --set eval.every=60 \
            --plan two.json --share && figures_same && [ ! -s err ]
}
check 'stages on nodes: the bytes and figures of one node' staged
check 'all of them on the only node, with which no other exchanges slots' \
    launched_same tables 1 tables.bin --plan alone.json --share
shared() { # stages on several nodes: rows and parameters by lanes; one that is even has lanes of all stages
    launched_same tables 3 tables.bin --plan front.json --share --set checkpoint.every=50 &&
        says 'nodes    3, which have the stages that the plan gives them' && says 'nodes       1      0-1' || return 1
    launched_same tables 3 tables.bin --plan front.json --share --set cluster.bandwidth=1e8,1e9,1e9 &&
        says 'cluster.bandwidth: (slices are uneven, )?rows are uneven$' || return 1
    launched_same dense 3 dense.bin --plan dense3.json --share || return 1
    launched_same tables 2 tables.bin --plan even.json --share && says 'nodes    2, which have 4 and 4 of 8 lanes' &&
        runs 0 "$h" tables.bin --data data.tsv --eval test.tsv --set eval.every=60 --log json --threads 1 &&
        cp out one.log &&
        runs 0 "$h" launch --local 3 --log json -- tables.bin --data data.tsv --eval test.tsv --set eval.every=60 \
            --plan front.json --share && figures_same && [ ! -s err ]
}
check 'stages on several nodes: the bytes and figures of one node' shared
check 'stages on several nodes, and fewer lanes' launched 1 2 tables.bin --data data.tsv --plan tied.json --share \
    --set train.lanes=1
check 'says so, too' says 'stage 0 lies on 2 nodes, which share 1 lane of a step'
check 'a plan for another number of nodes' launched 1 3 tables.bin --data data.tsv --plan two.json
check 'says so' says "the plan's stages lie on 2 nodes, and this job has 3"
check 'lanes and stages' launched 2 2 tables.bin --data data.tsv --plan two.json --lanes 4,4

check 'a dense model is evaluated, and standard output is the first node'\''s' same_figures dense.bin
check 'a model with a table is evaluated, to the last digit' same_figures tables.bin --set eval.every=60
served_figures() { # as many sets as node 0 evaluates, early stopping, and lines held out
    set -- tables.bin --data data.tsv --eval new=test.tsv --eval old=short.tsv --log json --set eval.every=60 \
        --set train.stop=auc --set train.patience=1
    runs 0 "$h" "$@" --threads 1 && cp out one.log &&
        launched 0 3 "$@" --lanes 6,0,2 --set cluster.rows=servers && figures_same
}
check 'servers evaluate nothing, and serve rows to who does' served_figures
ranks() { # GRAPH DATA TEST ARGUMENT...: all words, by the first node; the others send what they ask for
    ranked_graph=$1 ranked_data=$2 ranked_test=$3
    shift 3
    set -- "$ranked_graph" --data "$ranked_data" --eval "$ranked_test" --log json --set eval.cutoffs=1,5 "$@"
    runs 0 "$h" "$@" --threads 1 && cp out one.log && launched 0 3 "$@" && figures_same
}
check 'words are ranked for groups' ranks pairs.bin pairs.txt pairs2.txt
check 'words are ranked for examples' ranks tokens.bin tokens.txt tokens2.txt
check 'more words than the first lanes have places for' ranks pairs.bin pairs.txt pairs2.txt --set train.batch=16
life() { # rows come and go, and are evaluated meanwhile
    rm -rf life2.model
    trains life life.bin --data data.tsv --threads 1 &&
        launched 0 3 life.bin --data data.tsv --out life2.model --eval test.tsv --set eval.every=40 \
        --set checkpoint.every=70 && exported life.bin life2.model again &&
        same_bytes life again && rm -rf life2.model &&
        launched 0 3 life.bin --data data.tsv --out life2.model --eval test.tsv --lanes 4,0,4 \
            --set cluster.rows=servers --set checkpoint.every=70 &&
        exported life.bin life2.model again && same_bytes life again
}
check 'rows come and go' life
progress_same() { # what is told within a training, by a clock, one node finds behind as many steps
    rm -f long.tsv
    for i in 1 2 3 4 5 6 7 8; do cat data.tsv; done >long.tsv
    launched 0 3 tables.bin --data long.tsv --log json --set train.epochs=16 \
        --set train.progressive=900 --lanes 3,5,0 || return 1
    grep '"event":"progress"' out | sed 's/.*"step":\([0-9]*\).*"window"/\1 "window"/' >told
    [ "$(wc -l <told)" -gt 1 ] && read -r step figures <told || { cat told; return 1; }
    runs 0 "$h" tables.bin --data long.tsv --log json --set train.epochs=16 --set train.progressive=900 \
        --threads 1 --set train.steps_max=$step &&
        [ "$(grep '"event":"progress"' out | tail -1 | sed 's/.*"window"/"window"/')" = "$figures" ] ||
        { echo "step $step: $figures"; grep progress out | tail -1; return 1; }
}
check 'what nodes have predicted before they learned from it: the figures of one, within a training, too' progress_same
measured() { # what one node finds of two sets, with bins; nodes have the rows in RAM, each some
    sets='--data new=test.tsv --data old=short.tsv --bins'
    runs 0 "$h" eval life.bin --model life.model $sets && sed 's/, [0-9.]* s)$/)/' out >one.out &&
        [ "$(grep -c eval one.out)" = 2 ] &&
        launched 0 2 eval life.bin --model life.model $sets --trace eval.json --metrics 127.0.0.1:0 &&
        says '^\[1\] metrics  http://127' &&
        [ "$(grep -c '"forward"' eval.json)" -gt 2 ] && grep -q 'heterps-run node 1' eval.json &&
        sed 's/, [0-9.]* s)$/)/' out | diff one.out - &&
        launched 0 3 eval life.bin --model life.model $sets --lanes 5,3,0 &&
        sed 's/, [0-9.]* s)$/)/' out | diff one.out - &&
        launched 1 2 eval life.bin --model life.model --data - &&
        says '\[0\] .*error: - is a stream: on several nodes' &&
        runs 0 "$h" eval life.bin --model life.model $sets --by C1 --by-max 4 &&
        sed 's/, [0-9.]* s)$/)/' out >one.out &&
        launched 0 3 eval life.bin --model life.model $sets --by C1 --by-max 4 --lanes 3,0,5 &&
        sed 's/, [0-9.]* s)$/)/' out | diff one.out - && grep -q '^by ' one.out
}
check 'eval on nodes: the figures of one' measured
cut -f2- short.tsv >unlabelled.tsv
{ head -n 77 test.tsv; echo 'no line'; tail -n +78 test.tsv; } >bad.tsv
skipped() { # bad lines of a file: the bytes of one node, which says how many
    trains skip tables.bin --data bad.tsv,short.tsv --set data.bad_lines=skip --threads 1 && rm -rf again.model &&
        launched 0 3 tables.bin --data bad.tsv,short.tsv --set data.bad_lines=skip --lanes 3,0,5 --out again.model &&
        says '^\[0\] .*skipped [1-9]* malformed lines of the training data' &&
        exported tables.bin again.model again && same_bytes skip again
}
check 'bad lines that training skips' skipped
huge() { # rows that no node has room for alone, but three have: trained, exported, measured, predicted by them
    "$h" compile tables.cfg -o huge.bin -q --set emb.dim=64 --set train.epochs=1 \
        --set store.ram=$([ $sanitized = yes ] && echo 4 || echo 8)MiB && rm -rf huge.model huge2.model huge.x huge2.x
    runs 1 "$h" huge.bin --data data.tsv --threads 1 && says 'table "emb" is full' &&
        launched 0 3 huge.bin --data data.tsv --out huge.model --set checkpoint.every=50 || return 1
    more='--set store.ram=64MiB'
    heterps huge.bin --data data.tsv --out huge2.model --threads 1 $more &&
        heterps export huge.bin --model huge2.model -o huge2.x $more &&
        runs 1 "$h" export huge.bin --model huge.model -o huge.x &&
        launched 0 3 export huge.bin --model huge.model -o huge.x && diff -r huge.x huge2.x &&
        heterps predict huge.bin --model huge2.model --data test.tsv -o one.txt $more &&
        launched 0 3 predict huge.bin --model huge.model --data test.tsv -o many.txt && cmp one.txt many.txt &&
        runs 0 "$h" eval huge.bin --model huge2.model --data test.tsv $more &&
        sed 's/, [0-9.]* s)$/)/' out >one.out && grep -q eval one.out &&
        launched 0 3 eval huge.bin --model huge.model --data test.tsv && sed 's/, [0-9.]* s)$/)/' out | diff one.out -
}
check 'a model that no node can hold alone' huge
predicted_same() { # N LANES GRAPH ARGUMENT...: the bytes of one node
    predicted_n=$1 predicted_lanes=$2 predicted_graph=$3
    shift 3
    rm -f one.txt many.txt
    runs 0 "$h" predict "$predicted_graph.bin" --model "$predicted_graph.model" "$@" -o one.txt && [ -s one.txt ] &&
        launched 0 "$predicted_n" predict "$predicted_graph.bin" --model "$predicted_graph.model" "$@" -o many.txt \
            --lanes "$predicted_lanes" && cmp one.txt many.txt
}
check 'predict on nodes: the file of one, with columns of unlabelled data' predicted_same 3 4,0,4 life \
    --data unlabelled.tsv --with C1,I2 --header
check 'predict on nodes: bad lines' predicted_same 2 3,5 tables --data bad.tsv,test.tsv \
    --set data.bad_lines=skip --with label
predicted_words() {
    trains tokens tokens.bin --data tokens.txt --threads 1 && predicted_same 3 2,5,1 tokens --data tokens2.txt
}
check 'predict on nodes: words, of which node 0 ranks all' predicted_words
predict_ends() { # a bad line ends all by one sentence, and no file is left; standard output is node 0's
    launched 1 3 predict tables.bin --model tables.model --data bad.tsv -o none.txt &&
        says '^\[0\] .*error: bad.tsv:78: expected' && [ ! -e none.txt ] &&
        launched 1 2 predict tables.bin --model tables.model --data - &&
        says '\[0\] .*error: - is a stream: on several nodes' &&
        launched 0 2 predict tables.bin --model tables.model --data test.tsv && [ "$(wc -l <out)" = 500 ]
}
check 'predict on nodes: what it fails by' predict_ends
exported_same() { # N GRAPH ARGUMENT...
    exported_n=$1 exported_graph=$2
    shift 2
    rm -rf one.x many.x
    runs 0 "$h" export "$exported_graph.bin" --model "$exported_graph.model" -o one.x "$@" &&
        launched 0 "$exported_n" export "$exported_graph.bin" --model "$exported_graph.model" -o many.x "$@" &&
        diff -r one.x many.x
}
check 'export from nodes: the files of one' exported_same 3 life
check 'export from nodes: a file for serving, of rows by score' exported_same 2 life \
    --for serving --score 0.5 --store int8
export_ends() {
    launched 1 2 export life.bin --model life.model --for serving -o /dev/full && says '^\[0\] .*error: /dev/full' &&
        launched 2 2 export life.bin --model life.model -o many.x --format onnx && says 'export it from one node'
}
check 'export from nodes: what it fails by' export_ends
disk() { # rows of a node are on its disk, some die there, and one is there from the second time on
    rm -rf wide2.model rows.*
    trains wide wide.bin --data data.tsv --threads 1 &&
        launched 0 2 wide.bin --data data.tsv --out wide2.model --eval test.tsv --set checkpoint.every=100 \
            --set store.ssd=16MiB --set store.path=rows --set store.ram=6400KiB &&
        { [ $sanitized = yes ] || says 'disk     emb: [1-9][0-9,]* rows on disk' && says '[1-9][0-9,]* by age'; } &&
        [ -d rows.0 ] && [ -d rows.1 ] && exported wide.bin wide2.model again && same_bytes wide again
}
check 'rows on disks' disk
lives_same() { # what is told of rows that come and go, and die on disks: of all nodes what one has
    rm -rf rows.*
    runs 0 "$h" wide.bin --data data.tsv --log json --threads 1 && cp out one.log &&
        launched 0 2 wide.bin --data data.tsv --log json --set store.ssd=16MiB --set store.path=rows \
            --set store.ram=6400KiB || return 1
    python3 - one.log out <<'PY'
import json, sys
def done(path):
    e = [e for e in map(json.loads, open(path)) if e["event"] == "done"][-1]
    life = e["life"]["emb"]
    return (e["store"]["emb"], [life[k] for k in ("rows_made", "occurrences_not_admitted", "rows_died_by_score",
                                                  "rows_died_by_age", "rows_evicted")])
one, nodes = map(done, sys.argv[1:])
each = [e for e in map(json.loads, open(sys.argv[2])) if e["event"] == "nodes"][-1]["each"]
print(one, nodes, [n["rows"] for n in each])
sys.exit(one != nodes or min(one[1][0], one[1][1], one[1][3]) == 0 or sum(n["rows"] for n in each) != one[0])
PY
}
check 'what is told of rows that die, also on disks' lives_same
first_values() { # of another model, of which each node takes its own
    rm -rf first.model
    trains first tables.bin --data data.tsv --threads 1 --init tables.model &&
        launched 0 3 tables.bin --data data.tsv --init tables.model --out first.model &&
        exported tables.bin first.model again && same_bytes first again
}
check '--init: first values of tables' first_values
next_day() { # --continue: other data, a new pass
    cp -R tables.model day.model && cp -R tables.model day2.model && trains_on day.model --threads 1 &&
        launched 0 3 tables.bin --data short.tsv --continue day2.model --again --lanes 3,1,4 &&
        exported tables.bin day2.model again && same_bytes day again
}
trains_on() { runs 0 "$h" tables.bin --data short.tsv --continue "$@" && exported tables.bin day.model day; }
check '--continue: from day to day' next_day
done_again() { # as nodes do that have lost one behind the last save
    launched 0 3 tables.bin --data short.tsv --continue day2.model --again --lanes 3,1,4 &&
        says '^\[0\] complete the training had come to its end, at step' && silent 'nothing to train' &&
        exported tables.bin day2.model again && same_bytes day again
}
check '--again of what is done: ends as it has ended' done_again
cached() { # a file each
    rm -f cache.*
    launched_same tables 2 tables.bin --set cache.ssd=64MiB --set cache.path=cache && [ -f cache.0 ] && [ -f cache.1 ]
}
check 'a data cache: each node has a file of its own' cached
early() { # GRAPH: ends at the same step, and has the same best model
    rm -rf early.model early2.model
    patient='--set train.epochs=8 --set train.stop=auc --set train.patience=1'
    patient="$patient --set data.eval_fraction=0.1 --set data.shuffle=500"
    launched 0 2 "$1" --data data.tsv --out early.model $patient &&
        runs 0 "$h" "$1" --data data.tsv --out early2.model --threads 1 $patient &&
        exported "$1" early.model early && exported "$1" early2.model early2 && same_bytes early early2 &&
        exported "$1" early.model/best early && exported "$1" early2.model/best early2 && same_bytes early early2
}
check 'early stopping, by lines held out' early dense.bin
check 'early stopping of a model with a table' early tables.bin
sends() { # a node sends no more than its share of sums, and of values
    for n in 2 4; do
        launched 0 $n dense.bin --data data.tsv --log json --set h1.units=40000 --set train.steps_max=5 &&
            sent_is || return 1
    done
}
# sent_is [KEYS]: each node's bytes over the least, and that what the first one says; with tables by the rows
# that it was asked for, too
sent_is() {
    python3 -c 'import json, os, sys
most = float(os.environ.get("MOST", 1.03))
e = [e for e in map(json.loads, open("out")) if e["event"] == "nodes"][-1]
print(e)
for node in e["each"]:
    assert 0.9 <= node["sent_bytes_a_step"] / node["sent_bytes_least"] <= most, node
for key in "sent_bytes_a_step", "sent_bytes_least":
    assert e[key] == e["each"][0][key]
if sys.argv[1:]:
    dim, counters, steps, params = map(int, sys.argv[1:5])
    own, asked, early = ([n[k] for n in e["each"]] for k in ("rows", "asked_rows", "early_rows"))
    n = len(own)
    assert 1 <= e["rows_skew"] <= 1.1 and 1 <= e["asked_skew"] <= 1.1, e
    assert abs(max(asked) / sum(asked) * n - e["asked_skew"]) < 1e-9, e
    assert len({x["lanes"] for x in e["each"]}) == 1 and min(own) > 0
    # Of rows that come and go: none.
    assert all(0 < x < a for x, a in zip(early, asked)) if counters == 0 else not any(early), e
    # A key is asked of its owner by each node alike, so of what is asked 1 / n is asked by the owner itself.
    remote = sum(asked) / n * (n - 1) / n / steps
    least = 2 * 4 * params * (n - 1) / n + remote * (8 + counters + 8 * dim)
    mean = sum(x["sent_bytes_a_step"] for x in e["each"]) / n
    assert 0.9 <= mean / least <= 1.03, (mean, least)' "$@"
}
check 'bytes that a node sends in a step: at most 1.03 of 2 S (N - 1) / N' sends
sends_rows() { # and of keys, rows there and back, and what counts of keys
    launched 0 2 wide.bin --data data.tsv --log json --set train.steps_max=60 --set emb.ttl=0 --set emb.admit=1 &&
        sent_is 16 0 60 $((8 * 420 + 9)) &&
        launched 0 4 life.bin --data data.tsv --log json --set train.steps_max=60 --set emb.dim=16 --set emb.rows=0 &&
        sent_is 16 4 60 $((8 * 420 + 9)) &&
        launched 0 3 wide.bin --data data.tsv --log json --set train.steps_max=60 --lanes 4,4,0 \
            --set cluster.slices=servers && sent_is &&
        launched 0 4 life.bin --data data.tsv --log json --set train.steps_max=60 --set emb.dim=16 \
            --set emb.rows=4000 &&
        MOST=1.1 sent_is # and counts of rows that are too many
}
check 'and with tables: 8 bytes a remote key, 8 dim a remote row, and its counters' sends_rows
again() { # the same command twice: the second one goes on from what the first one has saved
    rm -rf twice.model
    for n in 20 40; do
        runs 0 "$h" tables.bin --data data.tsv --out twice.model --again \
            --set train.steps_max=$n -q --threads 1 || return 1
    done
    runs 0 "$h" tables.bin --data data.tsv --out twice.model --again --threads 1 && says 'resume   after step 40' &&
        exported tables.bin twice.model again && same_bytes tables again
}
check '--again goes on from a save, if there is one' again
across() { # begun on 3 nodes, one of which is a server, gone on with on one, ended on 2
    rm -rf across.model
    launched 0 3 tables.bin --data data.tsv --out across.model --set train.steps_max=20 --lanes 6,2,0 &&
        runs 0 "$h" tables.bin --data data.tsv --resume across.model --set train.steps_max=45 -q --threads 1 &&
        launched 0 2 tables.bin --data data.tsv --resume across.model &&
        exported tables.bin across.model again && same_bytes tables again
}
check 'a save of 3 nodes is gone on with on one, and on 2: the bytes of one' across

# --- stops and losses -------------------------------------------------------------------------------------------------

# begun N ARGUMENT...: launches a long training in the background, until it has saved.
begun() {
    begun_n=$1
    shift
    rm -rf long.model
    start launch --local "$begun_n" -- tables.bin --data data.tsv --out long.model --set checkpoint.every=5 "$@" &&
        await 'saved ' run.err
}
node_pid() { pgrep -P "$pid" -f -- "--rank=$1( |\$)"; }
stops() {
    begun 3 --set train.epochs=100000 "$@" && kill -TERM "$pid" && ended 75 &&
        says '^\[0\] heterps-run: error: all nodes have stopped after step [0-9]+; the model is saved' &&
        runs 0 "$h" eval tables.bin --model long.model --data test.tsv
}
check 'SIGTERM: all finish the step, save, and end with 75' stops
check 'also where every job is shorter than what the first node grants at once, or cut by time' \
    stops --set checkpoint.every=2 --set checkpoint.seconds=0.01
lost() { lost_of 3 "$@"; }
lost_of() { # NODES RANK ARGUMENT...: is killed; the same bytes all the same
    begun_nodes=$1 begun_rank=$2
    shift 2
    begun "$begun_nodes" --set train.epochs=3 "$@" && kill -9 "$(node_pid "$begun_rank")" && ended 0 &&
        exported tables.bin long.model again && same_bytes tables again
}
check 'node 0 is killed: the bytes of one node' lost 0
named() { # who was killed, and nobody who has begun anew for it
    lost 1 && grep -E '^\[[02]\].* is lost: ' err | head -n 2 >heard &&
        [ "$(grep -c 'warning: node 1 at ' heard)" = "$(wc -l <heard)" ] &&
        says '^\[0\].*warning: node 1 at .* is lost: '
}
check 'node 1 is killed: the bytes of one node, and no other is called lost' named
unlike_lost() { # those who are left divide anew, by the bandwidths that they have said before
    lost_of 4 1 --set cluster.bandwidth=1e9,1e9,1e9,1e8 &&
        says 'cluster.bandwidth: rows are 33.3%, 33.3%, 33.3% and 0%$' &&
        # with or without the node that comes again
        [ "$(grep -c '^\[0\] nodes    cluster.bandwidth: rows are .* and 0%$' err)" -ge 2 ]
}
check 'one of four nodes with unlike links is killed: shares anew, and the bytes of one node' unlike_lost
# As many saves as that take longer than all steps
check 'node 2 is killed, of nodes that save by time: the bytes of one node' lost 2 --set checkpoint.every=0 \
    --set checkpoint.seconds=0.001
for r in 0 1; do
    check "node $r is killed, on which a stage lies: the bytes of one node" lost_of 2 $r --plan two.json --share
done
check 'a server is killed: the others go on, or wait for it' lost 2 --lanes 5,3,0 --set cluster.rows=servers
paused() { # longer than cluster.timeout
    begun 3 --set train.epochs=3 --set cluster.timeout=1 && victim=$(node_pid 1) && kill -STOP "$victim" &&
        await 'is lost: it has said nothing for 1 s' run.err && kill -CONT "$victim"
    ended 0 && exported tables.bin long.model again && same_bytes tables again
}
check 'node 1 is paused for longer than cluster.timeout: the bytes of one node' paused

# json_begun ARGUMENT...: as begun, of three nodes with --log json.
json_begun() {
    rm -rf long.model
    start launch --local 3 -- tables.bin --data data.tsv --out long.model --set checkpoint.every=5 --log json "$@" &&
        await '"checkpoint"' run.out
}
told() { # a node is killed: lines of JSON, of others too, say whose they are
    json_begun --set train.epochs=3 && kill -9 "$(node_pid 2)" && ended 0 && python3 -c 'import json
lines = [json.loads(line) for line in open("run.out")]
assert {e["node"] for e in lines if e["event"] == "warning"} & {1, 2}, lines
assert {e["node"] for e in lines if e["event"] != "warning"} == {0}
each = [e for e in lines if e["event"] == "nodes"][-1]["each"]
# Node 2 may have come too late.
assert [e["rank"] for e in each] in ([0, 1], [0, 1, 2]) and sum(e["lanes"] for e in each) == 8, each
rows = [e for e in lines if e["event"] == "checkpoint"][-1]["rows"]
assert all(e["sent_bytes"] > 0 and e["update"] > 0 for e in each), (each, rows)
assert sum(e["rows"] for e in each) == rows > 0, (each, rows)'
}
check 'JSON lines say whose they are, and the last one what each node has done' told
comes_again() { # as the third node of a new generation, or it waits for another loss
    tenths=200
    until [ "$(grep -c 'nodes    3, which have' run.err)" -ge 2 ] ||
        grep -q 'takes part when another one is lost' run.err; do
        tenths=$((tenths - 1))
        [ $tenths -gt 0 ] && ! is_over || { echo 'node 2 does not come again'; tail -n 5 run.err; return 1; }
        sleep 0.1
    done
}
replaced() { # then node 1 is killed, too: at the latest now node 2 takes part, and has lanes at the end
    trains longer tables.bin --data data.tsv --threads 1 --set train.epochs="$1" && begun 3 --set train.epochs="$1" &&
        kill -9 "$(node_pid 2)" &&
        comes_again && kill -9 "$(node_pid 1)" && ended 0 && says '^\[0\] nodes +2 +[0-9]-[0-9] ' &&
        exported tables.bin long.model again && same_bytes longer again
}
next_day_lost() { # before the first save of a step
    rm -rf day.model day2.model && cp -R tables.model day.model && cp -R tables.model day2.model &&
        trains_on day.model --set train.epochs=300 || return 1
    start launch --local 3 -- tables.bin --data short.tsv --continue day2.model --set train.epochs=300
    until grep -q 'saved    day2.model' run.err; do
        is_over && { cat run.err; return 1; }
        sleep 0.05
    done
    kill -9 "$(node_pid 1)" && ended 0 && exported tables.bin day2.model again && same_bytes day again
}
check '--continue of which a node is killed: the new pass goes on' next_day_lost
check 'a killed node comes again, and trains to the end: the bytes of one node' replaced 16
# waited: node 1 stands still for a while, between two saves, for which rounds do not wait: it is the one that
# the others have waited for
waited() {
    json_begun --set train.epochs=20 --set checkpoint.every=400 && victim=$(node_pid 1) && kill -STOP "$victim" &&
        sleep 3 && kill -CONT "$victim" && ended 0 && python3 -c 'import json
each = [json.loads(line) for line in open("run.out") if "\"nodes\"" in line][-1]["each"]
print(each)
assert max(each, key=lambda e: e["came_last"])["rank"] == 1'
}
if [ $sanitized = no ]; then check 'for whom the others have waited' waited; fi

# stuck RANK PATTERN: computes no more, but its links are well; within steps, most of the time, and not within
# a save
stuck() {
    begun 3 --set train.epochs=100000 --set cluster.timeout=1 --set cluster.progress=1.5 --set checkpoint.every=1000
    python3 "$root/tests/e2e/stuck.py" "$(node_pid "$1")" 60 >stuck.out &
    helper=$!
    helpers="$helpers $helper"
    tenths=300
    while kill -0 $helper 2>/dev/null && ! grep -q stuck stuck.out && [ $tenths -gt 0 ]; do
        sleep 0.1
        tenths=$((tenths - 1))
    done
    grep -q stuck stuck.out || { cat stuck.out; kill -9 "$pid"; return 1; }
    await "$2" run.err && await 'resume   after step' run.err
    found=$?
    kill -TERM "$pid"
    kill -9 $helper
    wait "$pid"
    return $found
}
sleep 60 &
asleep=$!
helpers="$helpers $asleep"
if python3 "$root/tests/e2e/stuck.py" $asleep 0 >/dev/null; then
    check 'node 1 computes no more: the job goes on after cluster.progress' \
        stuck 1 'node 1 at .* is lost: others have waited 1.5 s for its part of a step'
else
    skip 'node 1 computes no more: the job goes on after cluster.progress' 'threads cannot be stopped here'
fi

places_find
alone() { # of two nodes one never comes: the other trains longer than cluster.progress without a save
    rm -rf alone.model
    runs 0 timeout 60 "$h" tables.bin --data data.tsv --threads 1 --insecure --nodes "$places" \
        --rank 0 --out alone.model --set cluster.connect=1 --set cluster.timeout=1 \
        --set cluster.progress=1 --set train.epochs="$1" && says 'begins without node 1'
}
check 'one of two nodes, for longer than cluster.progress' alone "$(scaled 60)"

# --- wrong starts -----------------------------------------------------------------------------------------------------

node="dense.bin --data data.tsv --key-file key --threads 1 --set cluster.min=2 --set cluster.connect=2"
few='error: fewer than cluster.min = 2 nodes have come within 2 s \(cluster.connect\): without node 1 at 127.0.0.1'
check 'two nodes by --nodes' pair 0 'done ' 0 '^' $node --out pair.model -- $node --out pair.model
check 'which have the bytes of one' eval 'exported dense.bin pair.model again && same_bytes dense again'
apart() { # a directory each: node 0 has the whole save, and serves it
    rm -rf pair.model none
    rows="life.bin --data data.tsv --key-file key --threads 1 --set cluster.min=2 --set checkpoint.every=60"
    pair 0 'node 0 writes to --out, also for node 1, which does not share it' 0 '^' $rows --out pair.model \
        --set train.steps_max=70 -- $rows --out none/model --set train.steps_max=70 &&
        pair 0 'resume   this node has sent its save to node 1: ' 0 '^' $rows --resume pair.model \
            -- $rows --resume none/model --lanes 0 &&
        exported life.bin pair.model again && same_bytes life again && [ ! -e none ]
}
check 'which share no directory: saved and resumed, with a server, the bytes of one' apart
apart_full() { # node 0's disk, by the rows of node 1
    rows="tables.bin --data data.tsv --key-file key --threads 1 --set cluster.min=2 --set checkpoint.every=6"
    unshare -m sh -c 'mount -t tmpfs -o size=$1 none pair.model && shift &&
        "$@"; status=$?; cp -R pair.model/m full.model; exit $status' sh 240k sh -c "
        timeout 60 '$h' $rows --out none/model --nodes $places --rank 1 >out1 2>err1 </dev/null &
        timeout 60 '$h' $rows --out pair.model/m --nodes $places --rank 0 >out0 2>err0 </dev/null
        [ \$? = 1 ] && ! wait \$!" || { echo 'no failure'; cat err0 err1; return 1; }
    full='pair.model/m/emb+1.12.rows.*: No space left on device' # node 1 says whose disk it is
    grep -q "error: $full" err0 && grep -q "error: node 0: $full" err1 || { cat err0 err1; return 1; }
    runs 0 "$h" fsck full.model && says 'whole    full.model: 1 save, 3 files' || cat out
}
other_full() { # of a node that is not the first: it may write no file as large as its second one
    rm -rf pair.model
    rows="tables.bin --data data.tsv --key-file key --threads 1 --set cluster.min=2 --set checkpoint.every=6"
    rows="$rows --out pair.model --nodes $places"
    (trap '' XFSZ && ulimit -f 234 && exec timeout 60 "$h" $rows --rank 1) >out1 2>err1 </dev/null &
    second=$!
    timeout 60 "$h" $rows --rank 0 >out0 2>err0 </dev/null
    [ $? = 1 ] && ! wait $second || { echo 'no failure'; cat err0 err1; return 1; }
    for r in 0 1; do
        grep -q 'error: .*pair.model/emb+1.12.rows.*: File too large' err$r || { cat err$r; return 1; }
    done
    runs 0 "$h" fsck pair.model && says 'whole    pair.model: 1 save, 3 files' || cat out
}
check 'where another node than the first cannot write, the save before stays whole' other_full
rm -rf pair.model && mkdir pair.model
if [ "$(id -u)" = 0 ] && unshare -m mount -t tmpfs none pair.model 2>/dev/null; then
    check 'and a disk that fills up leaves the save before whole' apart_full
else
    skip 'and a disk that fills up leaves the save before whole' 'needs a user who may mount'
fi
rm -rf pair.model
by_number() { # COMMAND...: three nodes, of which the first one's place alone is known
    rm -rf pair.model
    others=
    for r in 1 2; do
        timeout 60 "$@" --rank $r >out1 2>err1 </dev/null &
        others="$others $!"
    done
    runs 0 timeout 60 "$@" --rank 0 || return 1
    for other in $others; do wait "$other" || { cat err1; return 1; }; done
    exported dense.bin pair.model again && same_bytes dense again
}
three="$h dense.bin --data data.tsv --key-file key --threads 1 --out pair.model --set cluster.min=3"
check 'three nodes by their number and a coordinator: the bytes of one' by_number $three \
    --nodes 3 --coordinator "${places%,*}"
by_torchrun() { # the same by the variables that torchrun sets
    port=${places%,*} port=${port#*:}
    rm -rf pair.model
    others=
    for r in 1 2; do
        RANK=$r WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((port - 1)) timeout 60 $three >out1 2>err1 </dev/null &
        others="$others $!"
    done
    runs 0 env RANK=0 WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((port - 1)) timeout 60 $three && wait $others &&
        exported dense.bin pair.model again && same_bytes dense again
}
check 'three nodes by the variables of torchrun: the bytes of one' by_torchrun
by_slurm() { # the same by those of a step of Slurm
    rm -rf pair.model
    others=
    for r in 1 2; do
        SLURM_PROCID=$r SLURM_STEP_NUM_TASKS=3 SLURM_STEP_NODELIST='127.0.0.[1-3]' MASTER_PORT=$((port - 1)) \
            timeout 60 $three >out1 2>err1 </dev/null &
        others="$others $!"
    done
    runs 0 env SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=3 SLURM_STEP_NODELIST='127.0.0.[1-3]' MASTER_PORT=$((port - 1)) \
        timeout 60 $three && wait $others && exported dense.bin pair.model again && same_bytes dense again
}
check 'three nodes by the variables of Slurm: the bytes of one' by_slurm
by_mpi() {
    rm -rf pair.model
    runs 0 timeout 60 mpiexec -n 3 $three --coordinator "127.0.0.1:$port" &&
        exported dense.bin pair.model again && same_bytes dense again
}
if command -v mpiexec >/dev/null; then
    check 'three nodes by mpiexec: the bytes of one' by_mpi
else
    skip 'three nodes by mpiexec: the bytes of one' 'there is no mpiexec here'
fi
out_of_one() {
    pair 75 'is refused: a directory for saves \(--out\) is missing there, and given here' \
        1 'refuses this node' $node --out pair.model -- $node
}
check '--out for one of them alone' out_of_one
early='the node there has closed the connection before it has greeted'
reasons='it refuses this node for its key, job or program, or is no node'
check 'another key' pair 75 "$few" 1 "error: 127.0.0.1:[0-9]*: $early: $reasons" \
    $node -- dense.bin --data data.tsv --key-file other.key
check 'another graph' \
    pair 75 'warning: node 1 at 127.0.0.1:[0-9]* is refused: data.dense is I1..I3 there, and I1..I13 here' 1 \
    'error: node 0 at 127.0.0.1:[0-9]* refuses this node: data.dense is I1..I3 here, and I1..I13 there' $node \
    -- tables.bin --data data.tsv --key-file key
check 'another setting' pair 75 'is refused: train.batch is 128 there, and 64 here' \
    1 'refuses this node: train.batch is 128 here, and 64 there' \
    $node -- $node --set train.batch=128
check 'another instruction set' pair 75 'is refused: the instruction set \(--isa\) is base there' \
    1 'refuses this node: the instruction set \(--isa\) is base here, and avx2 there' \
    $node --isa avx2 -- $node --isa base
other='error: node 1: it reads other data: its .*short.tsv has [0-9]* bytes, and that of node 0 [0-9]*$'
check 'other data' pair 1 "$other" 1 "$other" \
    $node -- dense.bin --data short.tsv --key-file key --threads 1
sed '1s/^0/2/; 1s/^1/0/; 1s/^2/1/' data.tsv >other.tsv # the first label alone
same='as many bytes as that of node 0'
check 'other data of as many bytes' \
    pair 1 "it reads other data: its other.tsv has $same, but different ones" 1 "$same" \
    $node -- dense.bin --data other.tsv --key-file key --threads 1
other="error: node 1: it reads other data: its short.tsv has [0-9]* bytes, and that of node 0 [0-9]*$"
none='error: node 1: it evaluates 0 sets of data, and node 0 1: give all nodes the same --eval'
check 'nothing to evaluate on one of them' pair 1 "$none" 1 "$none" $node --eval test.tsv -- $node
check 'other data to evaluate' pair 1 "$other" 1 "$other" $node --eval test.tsv -- $node --eval short.tsv
own_order() { # of a node that has no cache, and would have other lines' examples than the others leave it
    pair 1 'error: node 1: cache.shuffle = blocks needs all of the data in the cache' \
        1 'error: cache.shuffle = blocks needs all of the data in the cache' $node --set cache.shuffle=blocks \
        --set train.epochs=2 --set cache.ram=8MiB -- $node --set cache.shuffle=blocks --set train.epochs=2
}
check 'an order of blocks, and a node without a cache' own_order
bad_line() { # all read all data
    cp data.tsv bad.tsv
    echo 'no line' >>bad.tsv
    pair 1 'error: (node 1: )?bad.tsv:[0-9]*: ' 1 'error: (node 0: )?bad.tsv:[0-9]*: ' dense.bin --data bad.tsv \
        --key-file key --threads 1 -- dense.bin --data bad.tsv --key-file key --threads 1
}
check 'a bad line' bad_line
cut_short() { # LANES: within a step, whose rows nobody asks for
    runs 1 timeout -k 5 60 "$h" launch --local 3 -- tables.bin --data bad.tsv --lanes "$1" --set cluster.progress=5 &&
        says '^\[0\] heterps-run: error: bad.tsv:[0-9]*: '
}
check 'a bad line, and tables' cut_short 2,3,3
check 'and a server' cut_short 5,0,3
own_cut() { # RANK: whose copy of the data ends early while it is read, or is shorter in the next pass, ends the job
    cut="tables.bin --key-file key --threads 1 --set cluster.timeout=1 --set cluster.min=2 --set train.epochs=100000"
    for r in 0 1; do cp data.tsv copy$r.tsv; done
    rm -f err0
    { await 'progress' err0 && truncate -s 200000 "copy$1.tsv"; } &
    told="error: .*copy$1.tsv( ends at byte | is another file |:[0-9]*: )"
    pair 1 "$told" 1 "$told" $cut \
        --data copy0.tsv -- $cut --data copy1.tsv
}
check 'the data of node 0 are cut while they are read' own_cut 0
check 'the data of node 1 are' own_cut 1
served() { # a server needs no data, and has none to fail by
    rm -rf pair.model
    pair 0 'nodes    2, which have 8 and 0 of 8 lanes' 0 '^' $node --out pair.model \
        -- dense.bin --key-file key --lanes 0 --out pair.model --set cluster.min=2 &&
        exported dense.bin pair.model again && same_bytes dense again &&
        pair 1 'error: bad.tsv:[0-9]*: ' 1 'error: node 0' dense.bin --data bad.tsv --key-file key \
            --threads 1 -- dense.bin --key-file key --lanes 0
}
check 'a server without data: the bytes of one; and node 0 meets a bad line' served
sum='error: .*nodes have 9 lanes \(--lanes: 5 of node 0, 4 of node 1\), and train.lanes is 8'
sum="$sum: change one of them, or --set train.lanes=9"
check 'lanes that do not add up' pair 1 "$sum" 1 "$sum" $node --lanes 5 -- $node --lanes 4
check 'rows on servers, of which there is none' pair 1 'every node has lanes: start one with --lanes 0' \
    1 'every node has lanes' $node --set cluster.rows=servers -- $node --set cluster.rows=servers
check 'another placement' pair 75 'is refused: cluster.rows is spread there, and local here' \
    1 'refuses this node: cluster.rows is spread here, and local there' \
    $node --set cluster.rows=local -- $node
check 'node 0 without lanes' fails_so 2 'node 0 reads the data for all' $node --nodes "$places" --rank 0 --lanes 0
check 'lanes of one node' fails_so 2 'give --nodes, too' dense.bin --data data.tsv --lanes 3
check 'nobody there' fails_so 75 \
    'node 0 at 127.0.0.1:[0-9]* is not found within 1 s: 127.0.0.1:[0-9]*: cannot connect: Connection refused' $node \
    --set cluster.connect=1 --nodes "$places" --rank 1 -q
# Each finds it for itself, or hears it of the other first.
few_lanes='error: (node [01]: )?1 of 2 nodes would have nothing to compute of 1 lane'
few_lanes="$few_lanes: give at most as many nodes, or --set train.lanes=2"
check 'more nodes than lanes' pair 1 "$few_lanes" 1 "$few_lanes" $node --set train.lanes=1 -- $node --set train.lanes=1
check 'as many lanes as nodes that compute' pair 0 'nodes    2, which have 1 and 0 of 1 lanes' 0 '^' $node \
    --set train.lanes=1 -- $node --set train.lanes=1 --lanes 0
check 'no key' fails_so 2 'give --key-file FILE' dense.bin --data data.tsv --nodes "$places" --rank 1
check 'a key that others may read' sh -c "cp key open.key && chmod 644 open.key &&
    ! '$h' dense.bin --data data.tsv --nodes $places --rank 1 --key-file open.key 2>err &&
    grep -q 'chmod 600 open.key' err"
check 'no rank' fails_so 2 '--rank: expected 0 to 1, the number of this node in --nodes, found none' dense.bin \
    --data data.tsv --key-file key --nodes "$places"
check 'no such rank' fails_so 2 '--rank: expected 0 to 1' dense.bin --data data.tsv --key-file key \
    --nodes "$places" --rank 2
check 'one place twice' fails_so 2 '127.0.0.1:4000 is given twice' dense.bin --data data.tsv --key-file key \
    --nodes 127.0.0.1:4000,127.0.0.1:4000 --rank 0
check 'no --nodes' fails_so 2 'give --nodes, too' dense.bin --data data.tsv --rank 1
check 'asp' fails_so 2 'train.sync = asp is for one node only' $node --set train.sync=asp --set train.lanes=1 \
    --set train.clip_norm=0 --nodes "${places%,*}" --rank 0 --set cluster.min=1 -q
check 'standard input to evaluate' fails_so 1 'is a stream: on several nodes each node reads all evaluation data' \
    dense.bin --data data.tsv --eval - --key-file key --nodes "${places%,*}" --rank 0 --set cluster.min=1 -q
check 'launch: too few lanes' launched 1 2 dense.bin --data data.tsv --set train.lanes=1
check 'launch: says which setting' \
    says 'error: 1 of 2 nodes would have nothing to compute of 1 lane:.*--set train.lanes=2'
check 'launch: nothing to launch' fails_so 2 'expected the command to launch behind --' launch --local 2
check 'launch: a verb that is for one node' fails_so 2 'serve does not run on nodes: launch starts train, or a graph' \
    launch --local 2 -- serve dense.bin --model none
check 'launch: flags that it gives' fails_so 2 'launch itself gives --rank' launch --local 2 -- dense.bin --rank 1

finish

#!/bin/sh
# From text to predictions on generated clicks; and the promise that the same graph, data and seed give the
# same bytes, whatever the threads, the way in which the data come, and the steps at which a run was stopped
# and resumed.
. "$(dirname "$0")/lib.sh"
examples=20000
case $(basename "$BUILD") in asan | tsan) examples=2000 ;; esac # a sanitizer is slow
steps=$(((examples + 127) / 128))
rows $examples "$work/train.tsv"
rows 3000 "$work/test.tsv" $examples
samples=$root/samples
cd "$work" || exit 1
h=$HETERPS

# ---- the whole round ----
check 'compile' "$h" compile "$samples/ctrdnn1.cfg" -o g.bin
"$h" g.bin --data train.tsv --eval test.tsv --out model --set eval.every=20 --set checkpoint.every=25 \
    --set checkpoint.wait=yes --log json >log 2>err
check 'train' test $? = 0 -a ! -s err
cat >events.py <<'PYTHON'
# The events of a run in steps of 128 examples, evaluated every 20 and at the end, saved every 25 and at the end.
import json, sys
examples, steps = map(int, sys.argv[1:])
def every(n): return [*range(n, steps, n), steps]
events = [json.loads(line) for line in open("log")]
names = [e["event"] for e in events]
assert names[0] == "start" and names.count("start") == 1, names
assert names.count("done") == 1 and set(names) <= {"start", "progress", "eval", "checkpoint", "done"}, names
start = events[0]
assert start["memory_bytes"] == sum(start["memory"].values()) and start["params"] == 16321, start
evals = [e for e in events if e["event"] == "eval"]
assert [e["step"] for e in evals] == every(20) and all(e["samples"] == 3000 for e in evals), evals
for key in ("auc", "logloss", "ne", "calibration"): assert 0 < evals[-1][key] < 2, evals
assert [e["step"] for e in events if e["event"] == "checkpoint"] == every(25)
progress = [e for e in events if e["event"] == "progress"]
assert (progress and progress[-1]["step"] == steps and progress[-1]["samples"] == examples
        and 0.3 < progress[-1]["loss"] < 0.8), progress
for key in ("samples_per_s", "eta_s", "epoch"): assert key in progress[-1]
done = events[names.index("done")]
assert (done["samples"] == examples and done["bad_lines"] == 0 and done["samples_per_s"] > 0
        and done["seconds"] > 0), done
PYTHON
check 'the events are as promised' python3 events.py $examples $steps
check 'the AUC is well above chance' python3 -c "import sys; sys.exit(not float(sys.argv[1]) > 0.55)" \
    "$(event_field log eval auc)"
"$h" eval g.bin --model model --data test.tsv --log json >eval.log
check 'eval' test $? = 0
check 'eval of the saved model is the last evaluation of the training' \
    test "$(event_field log eval auc) $(event_field log eval logloss)" = \
    "$(event_field eval.log eval auc) $(event_field eval.log eval logloss)"
check 'predict' "$h" predict g.bin --model model --data test.tsv -o predictions.txt
cat >predictions.py <<'PYTHON'
# Line by line a probability; AUC and log loss computed from them are those that eval gave.
import json, math, sys
p = [float(line) for line in open("predictions.txt")]
y = [int(line.split("\t", 1)[0]) for line in open("test.tsv")]
assert len(p) == len(y) == 3000 and all(0 < x < 1 for x in p)
rank, i, order = [0.0] * len(p), 0, sorted(range(len(p)), key=p.__getitem__)
while i < len(order):
    j = i
    while j < len(order) and p[order[j]] == p[order[i]]: j += 1
    for k in order[i:j]: rank[k] = (i + j + 1) / 2
    i = j
positives = sum(y)
auc = ((sum(r for r, label in zip(rank, y) if label) - positives * (positives + 1) / 2)
       / (positives * (len(y) - positives)))
loss = -sum(math.log(x if label else 1 - x) for x, label in zip(p, y)) / len(y)
event = [json.loads(line) for line in open("eval.log")][-1]
assert abs(event["auc"] - auc) < 1e-6 and abs(event["logloss"] - loss) < 1e-6, (event, auc, loss)
assert abs(event["calibration"] - sum(p) / positives) < 1e-6
PYTHON
check 'predictions are probabilities in input order and give the metrics of eval' python3 predictions.py

# One label alone orders nothing.
grep '^0' test.tsv >alike.tsv
"$h" eval g.bin --model model --data alike.tsv >alike.out 2>&1
check 'of labels that are all the same there is no AUC, and eval says why' \
    grep -q ': log loss 0[.0-9]*; no AUC: all labels are the same (' alike.out
check 'predict writes the same to standard output' \
    sh -c "'$h' predict g.bin --model model --data test.tsv | cmp - predictions.txt"
check 'predict from standard input' sh -c "'$h' predict g.bin --model model --data - <test.tsv | cmp - predictions.txt"
check 'predictions are the same with one thread and with three' \
    sh -c "for t in 1 3; do '$h' predict g.bin --model model --data test.tsv --threads \$t |
        cmp - predictions.txt || exit 1; done"
cat >export.py <<'PYTHON'
import json, struct
def tensors(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: (t["dtype"], t["shape"], data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]])
            for name, t in header.items()}
dense, table = tensors("exported/dense.safetensors"), tensors("exported/emb.safetensors")
sizes = {"h1.weight": 221 * 64, "h1.bias": 64, "h2.weight": 64 * 32, "h2.bias": 32, "y.weight": 32, "y.bias": 1}
assert {name: len(t[2]) // 4 for name, t in dense.items()} == sizes and all(t[0] == "F32" for t in dense.values())
assert dense["h1.weight"][1] == [221, 64]
keys = struct.unpack("<%dQ" % table["keys"][1][0], table["keys"][2])
assert (list(keys) == sorted(set(keys)) and table["vectors"][1] == [len(keys), 8]
        and len(table["vectors"][2]) == len(keys) * 32)
PYTHON
check 'export' "$h" export g.bin --model model -o exported
check 'exported tensors have their names and shapes, keys ascend' python3 export.py
check 'inspect' "$h" inspect g.bin
check 'inspect --dot is a drawing' sh -c "'$h' inspect g.bin --dot | grep -q '^digraph'"
check 'data.path by --set is relative to the graph too, flags to the working directory' sh -c "mkdir -p sub &&
    cp g.bin sub/s.bin && '$h' sub/s.bin -q --set data.path=../train.tsv --set train.steps_max=2 &&
    '$h' sub/s.bin -q --data train.tsv --set train.steps_max=2 &&
    ! '$h' sub/s.bin -q --data ../train.tsv --set train.steps_max=2 &&
    '$h' --help train | grep -q . && '$h' train --help | grep -q 'working directory'"
check 'the graph alone trains on its data.path, relative to the graph' sh -c "mkdir -p sub &&
    '$h' compile '$samples/ctrdnn1.cfg' -o sub/g.bin -q --set data.path=../train.tsv --set train.steps_max=5 &&
    '$h' sub/g.bin -q"

# ---- the same bytes ----
# bytes NAME ARGUMENT...: trains a fresh model, exports it to NAME.
bytes() {
    name=$1
    shift
    rm -rf m "$name"
    "$h" g.bin --out m -q "$@" && "$h" export g.bin --model m -o "$name" -q
}
same() { # DESCRIPTION NAME ARGUMENT...: as bytes, and equal to NAME
    description=$1 reference=$2
    shift 2
    bytes other "$@" && diff -r other "$reference" >/dev/null
    if [ $? = 0 ]; then ok "same bytes: $description"; else not_ok "same bytes: $description"; fi
}
differs() {
    description=$1 reference=$2
    shift 2
    if bytes other "$@" && other_bytes other "$reference" >"$work/.said"; then
        ok "other bytes: $description"
    else
        not_ok "other bytes: $description"
    fi
}
gzip -c train.tsv >train.tsv.gz
head -1777 train.tsv >a.tsv
tail -n +1778 train.tsv >b.tsv
gzip -c b.tsv >b.tsv.gz
check 'the model without evaluation and checkpoints' bytes plain --data train.tsv
check 'evaluations and checkpoints change nothing' diff -r plain exported
for threads in 1 2 3; do same "$threads threads" plain --data train.tsv --threads $threads; done
same 'gzip' plain --data train.tsv.gz
same 'two files' plain --data a.tsv,b.tsv
same 'a plain and a packed file' plain --data a.tsv,b.tsv.gz
rm -rf m other
"$h" g.bin --out m -q --data - <train.tsv && "$h" export g.bin --model m -o other -q
check 'same bytes: standard input' diff -r other plain
rm -rf m other
{ sleep 0.2; head -c 300001 train.tsv; sleep 0.3; tail -c +300002 train.tsv; } | "$h" g.bin --out m -q --data - &&
    "$h" export g.bin --model m -o other -q
check 'same bytes: a slow pipe' diff -r other plain
rm -rf m other
"$h" g.bin --out m -q --data - <train.tsv.gz && "$h" export g.bin --model m -o other -q
check 'same bytes: gzip on standard input' diff -r other plain
{ gzip -c a.tsv; cat b.tsv.gz; } >members.gz
same 'gzip of two members' plain --data members.gz
"$h" compile "$samples/ctrdnn1.cfg" -o g.bin -q --set train.seed=2
differs 'another seed' plain --data train.tsv
"$h" compile "$samples/ctrdnn1.cfg" -o g.bin -q
differs 'a step less' plain --data train.tsv --set train.steps_max=$((steps - 1))

check 'a shuffled model' bytes shuffled --data train.tsv --set data.shuffle=1000
same 'shuffled, 3 threads, two files' shuffled --data a.tsv,b.tsv --set data.shuffle=1000 --threads 3
check 'shuffled is not file order' other_bytes shuffled plain
differs 'another window' shuffled --data train.tsv --set data.shuffle=1001
check 'a model of two passes, shuffled' bytes passes --data train.tsv --set data.shuffle=1000 --set train.epochs=2
same 'two passes, shuffled, 1 thread' passes --data train.tsv.gz --set data.shuffle=1000 \
    --set train.epochs=2 --threads 1

# variant NAME TEXT SET...: g.bin becomes another model; its bytes must not depend on threads.
variant() {
    name=$1 text=$2
    shift 2
    "$h" compile "$text" -o g.bin -q "$@"
    check "a model with $name" bytes variant --data train.tsv --threads 2
    for threads in 1 3; do same "$name, $threads threads" variant --data train.tsv --threads $threads; done
}
variant 'micro-batches' "$samples/ctrdnn1.cfg" --set train.micro=32
variant 'four lanes' "$samples/ctrdnn1.cfg" --set train.lanes=4
variant 'four lanes of two micro-batches' "$samples/ctrdnn1.cfg" --set train.lanes=4 --set train.micro=16
variant 'adam' "$samples/ctrdnn1.cfg" --set 'train.optimizer=adam 0.001' --set 'emb.optimizer=adam 0.001'
variant 'mean pooling, one large step' "$samples/ctrdnn1.cfg" --set e.pool=mean --set train.batch=4096
variant 'max pooling, missing as a key' "$samples/ctrdnn1.cfg" --set e.pool=max --set data.missing=key
variant 'a ragged end' "$samples/ctrdnn1.cfg" --set train.batch=1024 --set train.micro=64 --set train.lanes=16
sed -e 's/^input = e, dense/input = e, n/' \
    -e 's/^\[concat x\].*/[data_norm n]\ninput = dense\ndecay = 1\n\n[concat x]/' "$samples/ctrdnn1.cfg" >data_norm.cfg
variant 'data normalisation, four lanes' data_norm.cfg --set train.lanes=4 --set train.micro=16
cat >data_norm.py <<'PYTHON'
# The statistics are those of all examples, in the order of size, mean and mean square distance from the means
# as they stood.
import json, math, struct, sys
data = open("variant/dense.safetensors", "rb").read()
size = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + size])
def floats(name):
    begin, end = header[name]["data_offsets"]
    return struct.unpack("<%df" % ((end - begin) // 4), data[8 + size + begin:8 + size + end])
def number(text): return math.copysign(math.log1p(abs(int(text))), int(text)) if text else 0
rows = [[number(text) for text in line.split("\t")[1:14]] for line in open("train.tsv")]
count, total, square = [1e4] * 13, [0.0] * 13, [1e4] * 13
for begin in range(0, len(rows), 128):
    step = rows[begin:begin + 128]
    for i in range(13):
        mean = total[i] / count[i]
        square[i] += sum((row[i] - mean) ** 2 + 1e-4 for row in step)
        total[i] += sum(row[i] for row in step)
        count[i] += len(step)
for name, expected in ("n.size", count), ("n.sum", total), ("n.square_sum", square):
    for found, wanted in zip(floats(name), expected):
        assert abs(found - wanted) < 1e-4 * abs(wanted) + 1e-3, (name, found, wanted)
PYTHON
check 'the statistics are sums over all examples' python3 data_norm.py
# h2, h3 and h4 have one weight and bias: in the export once, as the rest of the same bytes under any threads and plan.
h3='[fc h3]\ninput = h2\nunits = 64\nshare = h2\nactivation = tanh\n\n'
h4='[fc h4]\ninput = h3\nunits = 64\nshare = h2\n\n'
sed -e 's/^units = 32$/units = 64/' -e 's/^input = h2$/input = h4/' -e "s/^\[fc y\].*/$h3$h4&/" \
    "$samples/ctrdnn1.cfg" >shared.cfg
variant 'a shared weight, two lanes' shared.cfg --set train.lanes=2 --set train.micro=16
python3 "$root/tests/e2e/make_plan.py" shared.json '0-3:1:1 4-4:1:1 5-7:1:1'
same 'a shared weight, its uses in three stages' variant --data train.tsv --plan shared.json --share
check 'the weight is exported once' python3 -c "
import json, struct
data = open('variant/dense.safetensors', 'rb').read()
names = set(json.loads(data[8:8 + struct.unpack('<Q', data[:8])[0]])) - {'__metadata__'}
assert names == {f'{fc}.{part}' for fc in ('h1', 'h2', 'y') for part in ('weight', 'bias')}, names"
check 'inspect counts it once, and names it where it is used again' \
    sh -c "'$h' inspect g.bin >out && grep -q 'h3.weight .*those of h2.weight' out && grep -q 'h4 .*B, 64. *0 ' out"

# Two fcs that share are one whose groups go through the same weights: up to rounding, also where the norm of
# all gradients is bounded.
halves() { # NAME LAYERS
    { sed '/^\[embedding e\]/,$d' "$samples/ctrdnn1.cfg"
    printf '[embedding e1]\ntable = emb\ninput = C1..C13\n[embedding e2]\ntable = emb\ninput = C14..C26\n'
    printf "$2"
      printf '[fc y]\ninput = h\nunits = 1\n[loss bce]\ninput = y\n'
      printf '[train]\nbatch = 128\nsteps_max = 10\noptimizer = momentum 0.5\nclip_norm = 0.05\n'
      } >"$1.cfg"
    "$h" compile "$1.cfg" -o g.bin -q && bytes "$1" --data train.tsv
}
units='units = 16\nactivation = tanh'
check 'two layers that share' halves two \
    "[fc a]\ninput = e1\n$units\n[fc b]\ninput = e2\n$units\nshare = a\n[concat h]\ninput = a, b\n"
check 'one layer of two groups' halves groups \
    '[concat x]\ninput = e1, e2\n[fc a]\ninput = x\nunits = 16\ngroups = 2\nactivation = tanh\n[concat h]\ninput = a\n'
cat >same_values.py <<'PYTHON'
import json, math, struct
def tensors(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    begins = {name: 8 + size + t["data_offsets"][0] for name, t in header.items()}
    return {name: struct.unpack_from("<%df" % math.prod(t["shape"]), data, begins[name])
            for name, t in header.items() if t["dtype"] == "F32"}
for file in "dense", "emb":
    two, groups = tensors(f"two/{file}.safetensors"), tensors(f"groups/{file}.safetensors")
    assert two.keys() == groups.keys(), (two.keys(), groups.keys())
    for name in two:
        error, norm = math.dist(two[name], groups[name]), math.hypot(*two[name])
        assert error <= 1e-6 * norm, (name, error, norm)
PYTHON
check 'both come to the same' python3 same_values.py

sed -e 's/^input = h1$/input = d1/' -e 's/^\[fc h2\]/[dropout d1]\ninput = h1\nrate = 0.3\n\n[fc h2]/' \
    "$samples/ctrdnn1.cfg" | sed '/^\[dropout d1\]/,/^rate/s/input = d1/input = h1/' >dropout.cfg
variant 'dropout' dropout.cfg
check 'dropout does something' other_bytes variant plain
same 'dropout, two files, again' variant --data a.tsv,b.tsv

# ---- stop and go on ----
# resumed DESCRIPTION STEP ARGUMENT...: straight through, and stopped after STEP and resumed: the same bytes.
resumed() {
    description=$1 step=$2
    shift 2
    rm -rf m other
    if bytes straight --data train.tsv "$@" && rm -rf m &&
        "$h" g.bin --data train.tsv --out m -q "$@" --set train.steps_max="$step" &&
        "$h" g.bin --data train.tsv --resume m -q "$@" --threads 1 && "$h" export g.bin --model m -o other -q &&
        diff -r other straight >/dev/null; then
        ok "resumed: $description"
    else
        not_ok "resumed: $description"
    fi
}
resumed 'dropout, a third of the way' $((steps / 3))
"$h" compile shared.cfg -o g.bin -q --set train.lanes=2 --set train.micro=16 --set 'train.optimizer=adam 0.001'
resumed 'a shared weight, half of the way' $((steps / 2)) --plan shared.json --share
"$h" compile "$samples/ctrdnn1.cfg" -o g.bin -q
resumed 'after the first step' 1
resumed 'one step before the end' $((steps - 1))
resumed 'in the second pass, shuffled' $((steps + steps / 3)) --set data.shuffle=1000 --set train.epochs=2
resumed 'between two passes' $steps --set train.epochs=2
"$h" compile "$samples/ctrdnn1.cfg" -o g.bin -q --set 'train.optimizer=adam 0.001' \
    --set 'emb.optimizer=adam 0.001' --set train.lanes=2
resumed 'adam, two lanes, half of the way' $((steps / 2))

# ---- an op whose inputs are all columns of the data has no backward pass ----
cat >columns.cfg <<'CFG'
[data]
format = csv
label = label
dense = d0, d1, d2
sparse = f
[table t]
dim = 1
[embedding e]
table = t
input = f
[interact o]
input = dense
dim = 1
[concat c]
input = o, e
[fc y]
input = c
units = 1
[loss l]
input = y
CFG
"$h" compile columns.cfg -o columns.bin -q
"$h" gen columns.bin --rows 50 -q -o columns.csv
check 'products of columns of the data train' "$h" columns.bin --data columns.csv -q
finish

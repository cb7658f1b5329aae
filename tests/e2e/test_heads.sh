#!/bin/sh
# Models of several losses and metrics: the same bytes whatever the plan, weights of examples, figures against
# their definitions, predictions, labels that cannot be, and early stopping.
. "$(dirname "$0")/lib.sh"
. tests/e2e/process.sh

# Criteo rows as csv: two labels, a number of classes, a rating, whole weights, a group. twice.csv has each
# line as often as its weight says.
heterps gen criteo --rows 4000 --seed 5 --vocab 30 -o "$folder/rows.tsv" || { echo "not ok 1 - fixture"; exit 1; }
python3 - "$folder" <<'PYTHON'
import sys
folder = sys.argv[1]
names = (["clicked", "bought", "class", "rating", "w", "user"] + ["I%d" % i for i in range(1, 14)]
         + ["C%d" % i for i in range(1, 27)])
files = {n: open("%s/%s.csv" % (folder, n), "w") for n in ("train", "test", "twice_train", "twice_test", "wrong")}
for f in files.values(): print(",".join(names), file=f)
for i, line in enumerate(open(folder + "/rows.tsv")):
    f = line.rstrip("\n").split("\t")
    h = int(f[14] or "0", 16)
    click = f[0]
    buy = "1" if click == "1" and h % 3 else "0"
    kind = (h % 4 + int(click)) % 5
    w = 1 + i % 3
    row = [click, buy, str(kind), "%.3f" % (int(click) * 2 + (h % 7) / 7), str(w), "u%d" % (h * 7919 % 211)] + f[1:]
    part = "train" if i < 3000 else "test"
    print(",".join(row), file=files[part])
    for k in range(w): print(",".join(row), file=files["twice_" + part])
    row[2] = "5" if i == 700 else row[2]
    if i < 1000: print(",".join(row), file=files["wrong"])
PYTHON
cat >"$folder/data.cfg" <<'CFG'
[data]
format = csv
dense = I1..I13
sparse = C1..C26
[table emb]
dim = 4
[embedding e]
table = emb
input = sparse
[concat x]
input = e, dense
[fc h1]
input = x
units = 16
activation = relu
[train]
batch = 256
micro = 64
optimizer = adagrad 0.02
[store]
ram = 16MiB
CFG
model() { # NAME, the heads from standard input
    cat "$folder/data.cfg" - >"$folder/$1.cfg"
    name=$1
    shift
    heterps compile "$folder/$name.cfg" -o "$folder/$name.bin" "$@" || { check "$name compiles" false; finish; }
}
# The losses lie in stages before the last one, which has metrics only.
model many --set data.label=clicked,bought,class,rating --set data.weight=w --set data.group=user <<'CFG'
[fc y]
input = h1
units = 1
[loss click]
input = y
label = clicked
[fc z]
input = h1
units = 1
[loss buy]
input = z
label = bought
weight = 0.5
[fc r]
input = h1
units = 1
[loss rate]
kind = squared
input = r
label = rating
weight = 0.2
[loss pair]
kind = hinge
input = y, z
weight = 0.1
[fc c]
input = h1
units = 5
[loss kind]
kind = softmax
input = c
label = class
[metric hits]
kind = hit_rate
k = 2
input = c
label = class
[metric gain]
kind = ndcg
k = 3
input = c
label = class
[metric right]
input = y
label = clicked
CFG
train="$folder/train.csv" test="$folder/test.csv"

# --- the same bytes ---------------------------------------------------------------------------------------------------

# Layers 0 to 14: e x h1 y click z buy r rate pair c kind hits gain right.
python3 tests/e2e/make_plan.py "$folder/two.json" '0-4:1:1 5-14:1:1'
python3 tests/e2e/make_plan.py "$folder/four.json" '0-5:1:1 6-9:1:1 10-11:1:1 12-14:1:1'
check 'several heads train' heterps "$folder/many.bin" --data "$train" --out "$folder/one.model" --threads 1
exported "$folder/many.bin" "$folder/one.model" one
same_under() { # ARGUMENT...: the same values
    rm -rf "$folder/other.model"
    heterps "$folder/many.bin" --data "$train" --out "$folder/other.model" "$@" &&
        exported "$folder/many.bin" "$folder/other.model" other && same_bytes one other
}
check 'three threads give the same bytes' same_under --threads 3
check 'two stages give the same bytes' same_under --plan "$folder/two.json" --share
check 'four stages, the last of metrics only, give the same bytes' same_under --plan "$folder/four.json" \
    --share --set train.in_flight=3
check 'wsp trains losses of every stage' heterps "$folder/many.bin" --data "$train" --plan "$folder/four.json" --share \
    --set train.sync=wsp --set train.micro=0 --set train.batch=64

# --- what progress says -----------------------------------------------------------------------------------------------

# Of the last 1,000 examples, each as the model before its step predicts it; the last step is short.
seen="--set train.progressive=1000 --log json"
progress() {
    "$HETERPS" "$folder/many.bin" --data "$train" $seen "$@" </dev/null >"$folder/log" &&
        grep '"event":"progress"' "$folder/log" | tail -1
}
rm -rf "$folder/steps.model"
progress --threads 1 --out "$folder/steps.model" --set checkpoint.every=1 --set checkpoint.wait=yes \
    --set checkpoint.keep=13 >"$folder/progress"
head -1 "$train" >"$folder/names"
for step in 7 8 9 10 11; do
    (cat "$folder/names"; sed -n "$((step * 256 + 2)),$((step * 256 + 257))p" "$train") >"$folder/step.csv"
    heterps predict "$folder/many.bin" --model "$folder/steps.model/manifest.$step.json" \
        --data "$folder/step.csv" -o "$folder/step.out" && cat "$folder/step.out"
done >"$folder/steps.out"
progress_is_progressive() { # WINDOW
    python3 - "$folder" "$1" <<'PYTHON'
import csv, json, math, sys
folder, window = sys.argv[1], int(sys.argv[2])
event = json.load(open(folder + "/progress"))
heads = {h["name"]: h for h in event["heads"]}
rows = list(csv.DictReader(open(folder + "/train.csv")))[-window:]
out = [l.split("\t") for l in open(folder + "/steps.out").read().split("\n")[:-1]][-window:]
assert (event["window"] == len(out) == window and event["step"] == 12
        and list(heads) == ["click", "buy", "rate", "pair", "kind"]), heads
w = [float(r["w"]) for r in rows]
mean = lambda values: sum(a * b for a, b in zip(w, values)) / sum(w)
def near(found, expected, what, tolerance=1e-6):
    assert abs(found - expected) <= tolerance * max(1, abs(expected)), "%s: %r, expected %r" % (what, found, expected)
for k, (name, label) in enumerate((("click", "clicked"), ("buy", "bought"))):
    p, y = [float(o[k]) for o in out], [int(r[label]) for r in rows]
    near(heads[name]["logloss"], mean([-math.log(a if b else 1 - a) for a, b in zip(p, y)]), name + " log loss")
    wins = pairs = 0
    for a, b, u in zip(p, y, w):
        for c, d, v in zip(p, y, w):
            if b > d: pairs += u * v; wins += u * v * ((a > c) + 0.5 * (a == c))
    near(heads[name]["auc"], wins / pairs, name + " AUC")
assert event["auc"] == heads["click"]["auc"] and "group_auc" not in heads["click"]
near(heads["rate"]["rmse"],
     math.sqrt(mean([(float(o[2]) - float(r["rating"])) ** 2 for o, r in zip(out, rows)])), "RMSE")
logit = lambda p: math.log(p / (1 - p))
near(heads["pair"]["loss"], mean([max(0, 0.1 - float(o[3]) + logit(float(o[1]))) for o in out]), "hinge", 1e-5)
near(heads["kind"]["logloss"],
     mean([-math.log(float(o[4].split(" ")[int(r["class"])])) for o, r in zip(out, rows)]), "softmax")
PYTHON
}
check 'progress says how the last examples were predicted before they were learned from' progress_is_progressive 1000
cp "$folder/progress" "$folder/progress.1000"
progress --set train.progressive=60 >"$folder/progress"
check 'of fewer than a micro-batch has, too' progress_is_progressive 60
cp "$folder/progress.1000" "$folder/progress"
says_the_same() { [ "$(progress "$@" | grep -o '"window".*')" = "$(grep -o '"window".*' "$folder/progress")" ]; }
check 'three threads say the same' says_the_same --threads 3
check 'two stages say the same' says_the_same --plan "$folder/two.json" --share
check 'four stages say the same' says_the_same --plan "$folder/four.json" --share --set train.in_flight=3
lanes_say_the_same() {
    progress --threads 1 --set train.lanes=4 >"$folder/progress"
    python3 tests/e2e/make_plan.py "$folder/replicas.json" '0-4:4:4 5-14:2:2'
    says_the_same --set train.lanes=4 --plan "$folder/replicas.json" --share
}
check 'replicas say the same' lanes_say_the_same
nodes_say_the_same() { # with weights, of several heads; nodes share what they are started from
    "$HETERPS" launch --local 3 -- "$folder/many.bin" --data "$train" $seen --set train.lanes=4 \
        --lanes 1,3,0 </dev/null >"$folder/log" &&
        last=$(grep '"event":"progress"' "$folder/log" | tail -1 | grep -o '"window".*') &&
        [ "$last" = "$(grep -o '"window".*' "$folder/progress")" ]
}
check 'several nodes say the same' nodes_say_the_same
# without_order ARGUMENT...: figures hang on timing, which may let a rate swing far out; every example is
# there, once
without_order() {
    progress --set train.micro=0 --set train.batch=64 --set train.progressive=2900 "$@" >"$folder/progress"
    python3 -c 'import json, sys
e = json.load(open(sys.argv[1]))
assert e["window"] == 2900 and 0.45 < e["auc"] < 0.6 and 0.5 < e["logloss"] < 0.7, e
assert 0.8 < e["heads"][2]["rmse"] < 4, e' "$folder/progress"
}
check 'wsp says it of two pipelines' without_order --set train.sync=wsp --set train.pipelines=2 --threads 2
check 'wsp says it of four stages' without_order --set train.sync=wsp --plan "$folder/four.json" --share
progress_is_off() { progress --set train.progressive=0 | grep -q '"window":0}'; }
check 'or nothing' progress_is_off
"$HETERPS" "$folder/many.bin" --data "$train" 2>"$folder/log" </dev/null
figures='AUC 0\.[0-9]{5}, log loss 0\.[0-9]{5}, buy log loss 0\.[0-9]{5}, rate RMSE [01]\.[0-9]{5}'
figures="$figures, pair loss 0\.[0-9]{5}, kind log loss 1\.[0-9]{5}"
check 'a line says the first loss, and the main figure of others' \
    grep -qE "step 12: .*, loss [0-9.]*, last 3,000: $figures, ETA" "$folder/log"

# --- figures ----------------------------------------------------------------------------------------------------------

"$HETERPS" eval "$folder/many.bin" --model "$folder/one.model" --data "$test" --log json >"$folder/eval.log" </dev/null
"$HETERPS" eval "$folder/many.bin" --model "$folder/one.model" --data "$folder/twice_test.csv" --set data.weight= \
    --log json >"$folder/twice.log" </dev/null
weightless() { # says so, in place of a mean that is not finite, and keeps what was trained
    awk -F, -v OFS=, 'NR > 1 { $5 = 0 } 1' "$test" >"$folder/weightless.csv"
    fails_so 1 'weightless.csv: all [0-9]* examples have weight 0, so there are no means' "$folder/many.bin" \
        --data "$train" --eval "$folder/weightless.csv" --set train.stop=none --out "$folder/weightless" -q &&
        "$HETERPS" fsck "$folder/weightless" -q
}
check 'evaluation data without any weight are an error, behind the save' weightless
heterps predict "$folder/many.bin" --model "$folder/one.model" --data "$test" --header -o "$folder/predicted.txt"
figures() {
    python3 - "$folder" <<'PYTHON'
import csv, json, math, sys
folder = sys.argv[1]
events = lambda name: [e for e in map(json.loads, open("%s/%s" % (folder, name))) if e["event"] == "eval"][-1]
event = events("eval.log")
heads = {h["name"]: h for h in event["heads"]}
rows = list(csv.DictReader(open(folder + "/test.csv")))
lines = open(folder + "/predicted.txt").read().split("\n")
assert lines.pop() == "" and lines.pop(0) == "click\tbuy\trate\tpair\tkind", "header"
out = [l.split("\t") for l in lines]
assert len(out) == len(rows)
weight = [float(r["w"]) for r in rows]
total = sum(weight)
mean = lambda values: sum(w * v for w, v in zip(weight, values)) / total
def auc(items):
    wins = pairs = 0
    for p, y, w in items:
        for q, z, v in items:
            if y > z: pairs += w * v; wins += w * v * ((p > q) + 0.5 * (p == q))
    return wins / pairs if pairs else None
def near(found, expected, what, tolerance=2e-6):
    assert abs(found - expected) <= tolerance * max(1, abs(expected)), "%s: %r, expected %r" % (what, found, expected)
for k, (name, label) in enumerate((("click", "clicked"), ("buy", "bought"))):
    p, y = [float(o[k]) for o in out], [int(r[label]) for r in rows]
    near(heads[name]["logloss"], mean([-math.log(a if b else 1 - a) for a, b in zip(p, y)]), name + " log loss")
    near(heads[name]["auc"], auc(list(zip(p, y, weight))), name + " AUC")
    near(heads[name]["calibration"], mean(p) / mean(y), name + " calibration")
    items, total_of = sorted(zip(p, y, weight), reverse=True), {}
    for a, b, u in items: total_of[a] = tuple(x + z for x, z in zip(total_of.get(a, (0, 0)), (u, u * b)))
    seen = right = area = 0
    for u, v in total_of.values(): seen, right = seen + u, right + v; area += v * right / seen
    near(heads[name]["pr_auc"], area / right, name + " PR AUC")
    for i, b in enumerate(heads[name]["bins"]):
        inside = [(u, a, c) for a, c, u in items if min(int(a * 10), 9) == i]
        assert b["samples"] == len(inside), (name, i, b)
        if inside: near(b["prediction"], sum(u * a for u, a, c in inside) / sum(u for u, a, c in inside), "bin")
        if inside: near(b["label"], sum(u * c for u, a, c in inside) / sum(u for u, a, c in inside), "bin")
    groups = {}
    for r, item in zip(rows, zip(p, y, weight)): groups.setdefault(r["user"], []).append(item)
    both = [(auc(g), sum(w for _, _, w in g)) for g in groups.values()]
    both = [(a, w) for a, w in both if a is not None]
    near(heads[name]["group_auc"], sum(a * w for a, w in both) / sum(w for _, w in both), name + " group AUC")
error = [float(o[2]) - float(r["rating"]) for o, r in zip(out, rows)]
near(heads["rate"]["rmse"], math.sqrt(mean([e * e for e in error])), "RMSE")
near(heads["rate"]["mae"], mean([abs(e) for e in error]), "MAE")
logit = lambda p: math.log(p / (1 - p))
pairs = [(float(o[3]), logit(float(o[1]))) for o in out]
near(heads["pair"]["loss"], mean([max(0, 0.1 - a + b) for a, b in pairs]), "hinge", 1e-5)
near(heads["pair"]["accuracy"], mean([a > b for a, b in pairs]), "accuracy of pairs")
p = [[float(x) for x in o[4].split(" ")] for o in out]
t = [int(r["class"]) for r in rows]
rank = [sum(x > q[c] for x in q) for q, c in zip(p, t)]
assert all(abs(sum(q) - 1) < 1e-6 for q in p)
near(heads["kind"]["logloss"], mean([-math.log(q[c]) for q, c in zip(p, t)]), "softmax")
near(heads["kind"]["perplexity"], math.exp(heads["kind"]["logloss"]), "perplexity")
near(heads["kind"]["accuracy"], mean([r == 0 for r in rank]), "accuracy")
near(heads["hits"]["hit_rate"], mean([r < 2 for r in rank]), "hit rate")
near(heads["gain"]["ndcg"], mean([1 / math.log2(2 + r) if r < 3 else 0 for r in rank]), "NDCG")
near(heads["right"]["accuracy"],
     mean([(float(o[0]) > 0.5) == (r["clicked"] == "1") for o, r in zip(out, rows)]), "accuracy of a sign")
for name in ("auc", "logloss", "ne", "calibration", "pr_auc", "group_auc"):
    assert event[name] == heads["click"][name], name
twice = events("twice.log")
for h in twice["heads"]:
    for key, value in h.items():
        if isinstance(value, float): near(heads[h["name"]][key], value, "twice: %s %s" % (h["name"], key), 1e-9)
PYTHON
}
check 'every figure is its definition, and a weight is so many lines' figures

"$HETERPS" eval "$folder/many.bin" --model "$folder/one.model" --data "$test" --bins >"$folder/bins" 2>&1 </dev/null
check 'calibration by bins is a table' \
    grep -qE '^bins     .* 0\.[0-9] to 0\.[0-9] +[0-9]+ +0\.[0-9]{5} +[01]\.[0-9]{5}$' "$folder/bins"

# Where all examples have one value, its figures are those of the whole.
awk -F , 'NR == 1 || $3 == 2' "$test" >"$folder/class.csv"
"$HETERPS" eval "$folder/many.bin" --model "$folder/one.model" --data "$folder/class.csv" --by class \
    --log json >"$folder/by.log" </dev/null
by_the_same() {
    python3 - "$folder/by.log" <<'PYTHON'
import json, sys
events = {e["event"]: e for e in map(json.loads, open(sys.argv[1]))}
by, whole = events["eval_by"], events["eval"]
assert by["value"] == "2" and by["samples"] == whole["samples"] > 100 and len(by["heads"]) == len(whole["heads"]) == 8
for h, w in zip(by["heads"], whole["heads"]):
    assert len(h) > 1
    for key, value in h.items():
        if key == "group_auc": assert value is None
        elif key != "name": assert abs(value - w[key]) < 1e-6 * max(1, abs(value)), (h, w, key)
PYTHON
}
check 'eval --by measures every head' by_the_same
weightless_value() {
    awk -F, -v OFS=, 'NR > 1 && $3 == 2 { $5 = 0 } 1' "$test" >"$folder/class.csv"
    "$HETERPS" eval "$folder/many.bin" --model "$folder/one.model" --data "$folder/class.csv" --by class \
        >"$folder/by.log" &&
        [ "$(grep -c '^by  *class = 2, [a-z]*: no means, for all weights are 0 (' "$folder/by.log")" = 8 ] &&
        [ "$(grep -c 'no means' "$folder/by.log")" = 8 ] && ! grep nan "$folder/by.log"
}
check 'eval --by says which value has no weight' weightless_value
# The squares of such errors have more digits than a float; those of the second kind are greater than any float.
by_great_ratings() {
    awk -F, -v OFS=, -v CONVFMT=%.10g -v r="$1" 'NR > 1 { $3 = 2; $4 = r + NR % 7 } NR < 50' "$test" \
        >"$folder/great.csv"
    "$HETERPS" eval "$folder/many.bin" --model "$folder/one.model" --data "$folder/great.csv" --by class \
        >"$folder/by.log" 2>&1 || return
    grep -o 'rate: RMSE [0-9.]*, MAE [0-9.]*' "$folder/by.log" >"$folder/figures"
    [ "$(wc -l <"$folder/figures")" = 2 ] && [ "$(uniq "$folder/figures" | wc -l)" = 1 ]
}
check 'eval --by rounds no great error' by_great_ratings 12345.678
check 'and loses none' by_great_ratings 1e20
weightless_bins() {
    awk -F, -v OFS=, 'NR == 2 { $5 = 1 } NR > 2 { $5 = 0 } 1' "$test" >"$folder/bin.csv"
    "$HETERPS" eval "$folder/many.bin" --model "$folder/one.model" --data "$folder/bin.csv" --bins \
        >"$folder/bins" 2>&1 &&
        grep -qE '^bins     .* 0\.[0-9] to [01]\.[0-9] +[0-9,]+ +-  +-$' "$folder/bins" && ! grep nan "$folder/bins"
}
check 'a bin without weight has no means' weightless_bins
weightless_progress() {
    awk -F, -v OFS=, 'NR > 1 { $5 = 0 } 1' "$test" >"$folder/none.csv"
    "$HETERPS" "$folder/many.bin" --data "$folder/none.csv" >"$folder/none.log" 2>&1 </dev/null &&
        grep -q '^progress .*, last [0-9,]*: log loss nan, .*rate RMSE nan, ' "$folder/none.log"
}
check 'progress has no means of lines without weight' weightless_progress

# One step of plain gradients: the divisor is the number of lines, so the line that is there twice needs a greater step.
printf '[fc y]\ninput = h1\nunits = 1\n[loss click]\ninput = y\nlabel = clicked\n' |
    model one_step --set data.label=clicked --set train.batch=8192 --set train.optimizer='sgd 0.5'
one_step() { # NAME DATA RATE ARGUMENT...
    step=$1 data=$2 rate=$3
    shift 3
    heterps "$folder/one_step.bin" --data "$data" --out "$folder/$step.model" --set train.batch=8192 \
        --set train.micro=64 --set train.optimizer="sgd $rate" "$@" &&
        heterps export "$folder/one_step.bin" --model "$folder/$step.model" --format npy -o "$folder/$step.npy" "$@"
}
weights_are_lines() {
    rates=$(python3 -c 'import sys
n, m = (sum(1 for _ in open(f)) - 1 for f in sys.argv[1:])
print("%.9g" % (0.5 * m / n))' "$train" "$folder/twice_train.csv")
    one_step weighted "$train" 0.5 --set data.weight=w && one_step lines "$folder/twice_train.csv" "$rates" &&
        python3 - "$folder" <<'PYTHON'
import array, sys, os
folder = sys.argv[1]
moved = 0
for name in sorted(os.listdir(folder + "/weighted.npy")):
    if "keys" in name: continue
    read = lambda side: array.array("f", open("%s/%s.npy/%s" % (folder, side, name), "rb").read()[128:])
    a, b = read("weighted"), read("lines")
    moved = max([moved] + [abs(x) for x in a])
    far = max(abs(x - y) for x, y in zip(a, b))
    assert len(a) == len(b) and far < 2e-6, "%s differs by %g" % (name, far)
assert moved > 0.01
PYTHON
}
# The step of the second run is the greater because its divisor is: rate / n = rate' / m.
check 'a weight of 2 is a gradient of two lines' weights_are_lines

# --- a softmax of two classes is bce ----------------------------------------------------------------------------------

printf '[fc y]\ninput = h1\nunits = 1\n[loss click]\ninput = y\nlabel = clicked\n' |
    model one_loss --set data.label=clicked --set train.optimizer='adagrad 0.1'
heterps gen criteo --rows 60000 --seed 5 --vocab 200 -o "$folder/many.tsv" &&
    heterps gen criteo --rows 10000 --skip 60000 --seed 5 --vocab 200 -o "$folder/many_test.tsv"
printf '[fc y]\ninput = h1\nunits = 2\n[loss click]\nkind = softmax\ninput = y\nlabel = clicked\n' |
    model two_classes --set data.label=clicked
auc_of() { # MODEL
    heterps "$folder/$1.bin" --data "$folder/many.tsv" --eval "$folder/many_test.tsv" --log json \
        --set data.format=criteo --set train.optimizer='adagrad 0.05' >"$folder/log" &&
        event_field "$folder/log" eval auc
}
same_quality() {
    bce=$(auc_of one_loss) softmax=$(auc_of two_classes)
    python3 -c 'import sys; a, b = map(float, sys.argv[1:]); assert abs(a - b) < 0.01 and a > 0.72, (a, b)' \
        "$bce" "$softmax"
}
check 'a softmax of two classes is as good as bce' same_quality

# --- labels that cannot be --------------------------------------------------------------------------------------------

wrong='wrong.csv:702: column [0-9]+ \(class\): expected the number of a class, 0 to 4, found "5"'
fails 1 "$wrong" 'training stops at a label that is no class' \
    "$HETERPS" "$folder/many.bin" --data "$folder/wrong.csv" -q
fails 1 "$wrong" 'evaluation stops at a label that is no class' \
    "$HETERPS" eval "$folder/many.bin" --model "$folder/one.model" --data "$folder/wrong.csv" -q
skipped() {
    "$HETERPS" "$folder/many.bin" --data "$folder/wrong.csv" --set data.bad_lines=skip \
        --log json >"$folder/wrong.log" && [ "$(event_field "$folder/wrong.log" done bad_lines)" = 1 ] &&
        "$HETERPS" "$folder/many.bin" --data "$folder/wrong.csv" --set data.bad_lines=skip --set train.readers=3 \
            --log json >"$folder/wrong.log" && [ "$(event_field "$folder/wrong.log" done bad_lines)" = 1 ]
}
check 'or it is skipped and counted' skipped
check 'prediction does not ask for labels' heterps predict "$folder/many.bin" --model "$folder/one.model" \
    --data "$folder/wrong.csv" -o "$folder/wrong.txt"

# --- early stopping ---------------------------------------------------------------------------------------------------

stopping() { # OUT ARGUMENT...
    out=$1
    shift
    heterps "$folder/one_loss.bin" --data "$train" --eval "$test" ${out:+--out "$out"} \
        --set train.epochs=20 --set train.stop=auc --log json "$@" >"$folder/log"
}
stops() { # WHERE EVERY
    rm -rf "$folder/early"
    stopping "$1" --set eval.every="$2" --set train.patience=3 || return 1
    python3 - "$folder/log" "$2" <<'PYTHON'
import json, sys
events = [json.loads(l) for l in open(sys.argv[1])]
every = int(sys.argv[2]) or 12
aucs = [(e["auc"], e["step"]) for e in events if e["event"] == "eval"]
best = [e for e in events if e["event"] == "best"][-1]
value, step = max(aucs, key=lambda a: (a[0], -a[1]))
assert best["value"] == value and best["step"] == step and best["stopped"] == 1 and best["figure"] == "click.auc", best
assert [s for _, s in aucs] == [every * (i + 1) for i in range(len(aucs))], aucs
assert aucs[-1][1] == step + 3 * every < 240, "stopped at %d" % aucs[-1][1]
PYTHON
}
best_is_kept() {
    value=$(event_field "$folder/log" best value)
    heterps eval "$folder/one_loss.bin" --model "$folder/early/best" --data "$test" --log json >"$folder/best.log" &&
        [ "$(event_field "$folder/best.log" eval auc)" = "$value" ] &&
        [ "$(event_field "$folder/best.log" eval step)" = "$(event_field "$folder/log" best step)" ]
}
check 'training stops early, by steps' stops "$folder/early" 5
check 'the best model is kept' best_is_kept
check 'training stops early, by passes' stops "$folder/early" 0
check 'the best model of passes is kept' best_is_kept
# What is said of the best model is true of the directory that it names.
elsewhere() {
    rm -rf "$folder/early" "$folder/other"
    stopping "$folder/early" --set eval.every=5 --set train.patience=9 --set train.steps_max=40 \
        --set checkpoint.every=20 --set checkpoint.keep=9 &&
        "$HETERPS" "$folder/one_loss.bin" --data "$train" --eval "$test" --resume "$folder/early" \
            --out "$folder/other" --set train.epochs=20 --set train.stop=auc \
            --set train.patience=9 --set train.steps_max=41 >"$folder/out" 2>&1 &&
        step=$(sed -n "s|.*warning: the best model so far, of step \([0-9]*\), is not in $folder/other/best.*|\1|p" \
            "$folder/out") && [ -n "$step" ] && grep -q '^best ' "$folder/out" &&
        ! grep -q "^best  *step $step: .* in $folder" "$folder/out" ||
        { cat "$folder/out"; return 1; }
}
check 'a best model that is elsewhere is not said to be here' elsewhere
check 'without --out it only stops' stops '' 5
# resumed EVERY SAVES STOP...: in pieces, to the same end and the same best; a save that is due with an
# evaluation comes before it
resumed() {
    every=$1 saves=$2
    shift 2
    rm -rf "$folder/early" "$folder/pieces"
    stopping "$folder/early" --set eval.every=$every --set train.patience=2 || return 1
    expected="$(event_field "$folder/log" best step) $(event_field "$folder/log" done step)"
    for stop in "$@" 0; do
        [ -d "$folder/pieces" ] && from="--resume $folder/pieces" || from=
        stopping "$folder/pieces" $from --set eval.every=$every --set train.patience=2 --set train.steps_max=$stop \
            --set checkpoint.every=$saves || return 1
    done
    [ "$expected" = "$(event_field "$folder/log" best step) $(event_field "$folder/log" done step)" ] ||
        { echo "expected $expected"; cat "$folder/log"; return 1; }
    exported "$folder/one_loss.bin" "$folder/early/best" early &&
        exported "$folder/one_loss.bin" "$folder/pieces/best" pieces && same_bytes early pieces
}
check 'resumed between evaluations it stops alike' resumed 5 0 3 7 11
check 'resumed behind evaluations it stops alike' resumed 5 0 5 10 15 20 25 30 35 40 45
check 'resumed before evaluations it stops alike' resumed 5 5 5 10 15 20 25 30 35 40 45
check 'resumed within and after passes it stops alike' resumed 0 0 7 12 20 24 30 36
fails 1 'train.stop: expected none, or .*: auc, logloss, ne, pr_auc; found "rmse"' \
    'a figure that is not there is refused' \
    "$HETERPS" "$folder/one_loss.bin" --data "$train" --eval "$test" --set train.stop=rmse -q
fails 1 'train.stop = auc needs evaluation data' 'early stopping needs evaluation data' \
    "$HETERPS" "$folder/one_loss.bin" --data "$train" --set train.stop=auc -q
check 'it may look at any head' heterps "$folder/many.bin" --data "$train" --eval "$test" \
    --set train.stop=gain --set train.patience=1
check 'it may look at any figure' heterps "$folder/many.bin" --data "$train" --eval "$test" --set train.stop=rate.mae
finish

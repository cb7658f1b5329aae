#!/bin/sh
# Usage: sh tests/quality/generated.sh [ROWS]        (default 2,000,000; needs ./heterps-run and about 300 bytes
#                                                    of disk a row)
# Generated clicks, whose best possible AUC is known. samples/ctrdnn.cfg after one epoch must come within 0.015 of it,
# while a logistic regression over the same columns stays at least 0.03 below: the difference is what the net has
# learned of pairs of fields.
set -eu
cd "$(dirname "$0")/../.."
rows=${1:-2000000}
HETERPS=${HETERPS:-./heterps-run}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"$HETERPS" gen criteo --rows "$rows" --vocab 1000 --zipf 1.05 -o "$folder/train.tsv" -q
"$HETERPS" gen criteo --rows 200000 --skip "$rows" --vocab 1000 --zipf 1.05 -o "$folder/test.tsv" \
    --log json >"$folder/gen.json"

# A logistic regression: every value of every field has one weight, and the numeric columns one each. Two
# passes and large steps, so that it comes as far as it can.
cat >"$folder/lr.cfg" <<'CFG'
[data]
dense = I1..I13
sparse = C1..C26
[table weight]
dim = 1
init = zeros
optimizer = adagrad 0.1
[embedding e]
table = weight
input = sparse
[concat x]
input = e, dense
[fc y]
input = x
units = 1
init = uniform 1
[loss bce]
input = y
[train]
batch = 512
epochs = 2
optimizer = adagrad 0.02
CFG
for model in samples/ctrdnn.cfg "$folder/lr.cfg"; do
    "$HETERPS" compile "$model" -o "$folder/graph.bin" -q
    "$HETERPS" "$folder/graph.bin" --data "$folder/train.tsv" --eval "$folder/test.tsv" \
        --log json >"$folder/$(basename "$model").json"
done
python3 - "$folder" "$rows" <<'PYTHON'
import json, sys
folder, rows = sys.argv[1], int(sys.argv[2])
def event(path, name):
    return [e for e in map(json.loads, open(folder + "/" + path)) if e["event"] == name][-1]
best = event("gen.json", "gen")["bayes_auc"]
net, linear = (event(model + ".cfg.json", "eval")["auc"] for model in ("ctrdnn", "lr"))
speed = event("ctrdnn.cfg.json", "done")["samples_per_s"]
print("# %d rows: best possible AUC %.4f; ctrdnn %.4f (%.4f below), logistic regression %.4f (%.4f below); "
      "%.0f samples/s" % (rows, best, net, best - net, linear, best - linear, speed))
near = 0.015 if rows >= 2000000 else 0.06
print("%s 1 - ctrdnn comes within %g of the best possible AUC" % ("ok" if best - net <= near else "not ok", near))
print("%s 2 - a logistic regression stays at least 0.03 below it" % ("ok" if best - linear >= 0.03 else "not ok"))
sys.exit(best - net > near or best - linear < 0.03)
PYTHON

#!/bin/sh
# Real clicks: 12,584 rows of the Criteo challenge, shuffled; samples/ctrdnn.cfg as it is trains on 10,000 of them and is measured on the
# rest. The mean AUC over five fixed shuffles must reach 0.733.
set -u
data=../shared/data/criteo_kaggle
if [ ! -r $data/head8000.tsv ]; then
    echo "ok 1 - AUC on real clicks # SKIP no $data"
    exit 0
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$HETERPS" compile samples/ctrdnn.cfg -o "$folder/graph.bin" -q || exit 1
for seed in 1 2 3 4 5; do
    python3 - $seed "$folder" $data/head8000.tsv $data/spread4584.tsv <<'PYTHON' || exit 1
import random, sys
seed, folder, *paths = sys.argv[1:]
rows = [row for path in paths for row in open(path, "rb").read().splitlines(keepends=True)]
random.Random(int(seed)).shuffle(rows)
open(folder + "/train.tsv", "wb").writelines(rows[:10000])
open(folder + "/test.tsv", "wb").writelines(rows[10000:])
PYTHON
    "$HETERPS" "$folder/graph.bin" --data "$folder/train.tsv" --eval "$folder/test.tsv" --log json >"$folder/log" || exit 1
    grep '"event":"eval"' "$folder/log" | tail -1
done >"$folder/evals"
python3 - "$folder/evals" <<'PYTHON'
import json, sys
evals = [json.loads(line) for line in open(sys.argv[1])]
mean = lambda key: sum(e[key] for e in evals) / len(evals)
print("# AUC by shuffle: " + ", ".join("%.4f" % e["auc"] for e in evals))
print("# mean AUC %.4f (at least 0.733), log loss %.4f" % (mean("auc"), mean("logloss")))
print("%s 1 - mean AUC on real clicks reaches 0.733" % ("ok" if len(evals) == 5 and mean("auc") >= 0.733 else "not ok"))
PYTHON

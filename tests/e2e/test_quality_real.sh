#!/bin/sh
# Real clicks: 12,584 rows of the Criteo challenge, shuffled; samples train as they are on 10,000 of them and
# are measured on the rest. Over five fixed shuffles the mean AUC of ctrdnn must reach 0.733, that of the best
# sample 0.738 and that of lr, the hashed logistic regression.
set -u
data=../shared/data/criteo_kaggle
if [ ! -r $data/head8000.tsv ]; then
    for i in 1 2 3; do echo "ok $i - AUC on real clicks # SKIP no $data"; done
    exit 0
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for seed in 1 2 3 4 5; do
    python3 - $seed "$folder" $data/head8000.tsv $data/spread4584.tsv <<'PYTHON' || exit 1
import random, sys
seed, folder, *paths = sys.argv[1:]
rows = [row for path in paths for row in open(path, "rb").read().splitlines(keepends=True)]
random.Random(int(seed)).shuffle(rows)
open(folder + "/train" + seed + ".tsv", "wb").writelines(rows[:10000])
open(folder + "/test" + seed + ".tsv", "wb").writelines(rows[10000:])
PYTHON
done
for sample in lr ctrdnn wide_deep deepfm dlrm; do
    "$HETERPS" compile samples/$sample.cfg -o "$folder/graph.bin" -q || exit 1
    for seed in 1 2 3 4 5; do
        "$HETERPS" "$folder/graph.bin" --data "$folder/train$seed.tsv" --eval "$folder/test$seed.tsv" \
            --log json >"$folder/log" || exit 1
        grep '"event":"eval"' "$folder/log" | tail -1
    done >"$folder/$sample"
done
python3 - "$folder" lr ctrdnn wide_deep deepfm dlrm <<'PYTHON'
import json, sys
auc = {}
for sample in sys.argv[2:]:
    evals = [json.loads(line) for line in open(sys.argv[1] + "/" + sample)]
    mean = lambda key: sum(e[key] for e in evals) / len(evals)
    auc[sample] = mean("auc") if len(evals) == 5 else 0
    print("# %-9s mean AUC %.4f, log loss %.4f" % (sample, mean("auc"), mean("logloss")))
best = max(auc, key=auc.get)
for i, (holds, what) in enumerate((
        (auc["ctrdnn"] >= 0.733, "mean AUC of ctrdnn on real clicks reaches 0.733"),
        (auc[best] >= 0.738, "that of the best sample, %s, reaches 0.738" % best),
        (auc[best] >= auc["lr"], "and that of the logistic regression")), 1):
    print("%s %d - %s" % ("ok" if holds else "not ok", i, what))
PYTHON

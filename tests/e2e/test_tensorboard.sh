#!/bin/sh
# Figures of a training for TensorBoard: the tensorboard package reads what the log says. It is taken from pip
# once, into build/tensorboard.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/process.sh"
cd "$work" || exit 1
tiny_model
rows 2000 rows.tsv
rows 500 test.tsv 2000
h=$HETERPS
check 'a training writes figures' "$h" tiny.bin --data rows.tsv --eval main=test.tsv --eval other=rows.tsv \
    --tensorboard board --out model --set eval.every=10 --log json
cp .out log 2>/dev/null
check 'and one that goes on' "$h" tiny.bin --data rows.tsv --eval main=test.tsv --eval other=rows.tsv \
    --tensorboard board --resume model --set train.epochs=2 --log json
cp .out log.2
none() { "$h" tiny.bin --data rows.tsv -q && [ ! -e events ] && [ "$(ls board | wc -l)" = 2 ]; }
check 'a file each' none
nodes() {
    "$h" launch --local 2 -- tiny.bin --data rows.tsv --tensorboard board.nodes --set train.lanes=2 -q &&
        [ "$(ls board.nodes | wc -l)" = 1 ]
}
check 'of several nodes node 0 alone writes one' nodes
many_losses() { # whose names differ in their ends alone
    long=$(printf '%0100d' 0 | tr 0 l)
    sed '/^\[fc y\]/,/^label = label/d' tiny.cfg >many.cfg
    for i in $(seq 60); do
        printf '[fc y%d]\ninput = h1\nunits = 1\n[loss %s%d]\ninput = y%d\nlabel = label\n' "$i" "$long" "$i" "$i"
    done >>many.cfg
    "$h" compile many.cfg -o many.bin -q && "$h" many.bin --data test.tsv --eval test.tsv --tensorboard board.many -q &&
        [ "$(grep -aoE "eval/${long}[0-9]+\.(auc|pr_auc)" board.many/* | sort -u | wc -l)" = 120 ]
}
check 'and all figures of many losses, by their whole names' many_losses
fails 1 '/dev/null' 'a folder that cannot be' "$h" tiny.bin --data rows.tsv --tensorboard /dev/null/x -q

pip_python tensorboard tensorboard tensorboard 'setuptools<81' || { skip 'tensorboard reads them' "$pip_why"; finish; }
cat >read.py <<'PYTHON'
import json
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
board = EventAccumulator("board", size_guidance={"scalars": 0})
board.Reload()
tags = board.Tags()["scalars"]
logs = [json.loads(line) for name in ("log", "log.2") for line in open(name)]
evals = [e for e in logs if e["event"] == "eval"]
near = lambda a, b: abs(a - b) <= 1e-6 * max(1, abs(b))
for set_name in ("main", "other"):
    said = {e["step"]: e for e in evals if e.get("set", "") == set_name}
    prefix = "eval" + ("/" + set_name if set_name else "")
    for key in ("auc", "logloss", "calibration"):
        found = board.Scalars(f"{prefix}/bce.{key}")
        assert [s.step for s in found] == sorted(said) and len(found) > 4, (prefix, key, found)
        assert all(near(s.value, said[s.step][key]) for s in found), (found, said)
progress = [e for e in logs if e["event"] == "progress"]
for tag, key in (("train/loss", "loss"), ("train/samples_per_s", "samples_per_s")):
    found = board.Scalars(tag)
    assert len(found) == len(progress) >= 2, (found, progress)
    assert all(near(s.value / e[key], 1) and s.step == e["step"] for s, e in zip(found, progress)), (found, progress)
assert board.Scalars("progressive/bce.auc")[-1].step == progress[-1]["step"]
print("#", len(tags), "tags")
PYTHON
check 'tensorboard reads them' "$python" read.py
finish

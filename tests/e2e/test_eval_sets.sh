#!/bin/sh
# Several named sets of evaluation data: each as it is alone, in training, in early stopping, in the verb
# eval, in the plan of memory, beside data caches, and for doctor.
. "$(dirname "$0")/lib.sh"
tiny_model
heterps() { "$HETERPS" "$@" </dev/null; }
cd "$work" || exit 1
rows 2000 train.tsv
rows 400 small.tsv 10000
rows 3000 large.tsv 20000
mkdir dt=1 && cp small.tsv dt=1/part.tsv && cp small.tsv a=b.tsv

# --- training ---------------------------------------------------------------------------------------------------------

train() { heterps tiny.bin --data train.tsv --log json "$@" >log; }
train --eval large.tsv --set eval.every=10 --out one.model && cp log large.log
train --eval small.tsv --set eval.every=10 && cp log small.log
check 'two sets train' train --eval next=large.tsv --eval holdout=small.tsv --set eval.every=10 --out model
cat >same.py <<'PYTHON'
# same.py LOG NAME=LOG...: the events of each set are those of its own log, and come in that order at every step.
import json, sys
def evals(path): return [e for e in map(json.loads, open(path)) if e["event"].startswith("eval")]
def bare(e): return {k: v for k, v in e.items() if k not in ("seconds", "set")}
found, sets = evals(sys.argv[1]), [a.split("=", 1) for a in sys.argv[2:]]
for name, path in sets:
    alone = evals(path)
    assert alone and not any("set" in e for e in alone)
    assert [bare(e) for e in found if e["set"] == name] == [bare(e) for e in alone], name
if not any(e["event"] == "eval_by" for e in found):
    assert [e["set"] for e in found] == [n for n, _ in sets] * (len(found) // len(sets)), found
PYTHON
check 'each is measured as it is alone' python3 same.py log next=large.log holdout=small.log
exported() { rm -rf "$1.out"; heterps export tiny.bin --model "$1" -o "$1.out" -q; }
same_model() { exported one.model && exported model && diff -r one.model.out model.out; }
check 'and the model is the same' same_model
lines() {
    heterps tiny.bin --data train.tsv --eval next=large.tsv --eval holdout=small.tsv 2>err
    grep -q '^eval     next step 32: AUC .*(3,000 examples' err &&
        grep -q '^eval     holdout step 32: AUC .*(400 examples' err
}
check 'a line says which set it is of' lines
one_name() { train --eval next=large.tsv --set eval.every=10 && python3 same.py log next=large.log; }
check 'one set may have a name' one_name

# A set whose labels are turned round is best when another is worst.
awk 'BEGIN { FS = OFS = "\t" } { $1 = 1 - $1; print }' small.tsv >turned.tsv
stopped() { # ARGUMENT...: prints the steps at which the first set was evaluated, and the best model's figures
    rm -rf stop.model
    train --set train.stop=auc --set train.patience=2 --set eval.every=2 --set train.epochs=4 --out stop.model "$@"
    python3 -c '
import json
evals = [e for e in map(json.loads, open("log")) if e["event"] == "eval"]
print([e["step"] for e in evals if e.get("set") == evals[0].get("set")])'
    heterps eval tiny.bin --model stop.model/best --data small.tsv --log json | grep -o '"auc.*"seconds'
}
stopped --eval small.tsv >small.stop
stopped --eval turned.tsv >turned.stop
stops_by_first() {
    grep -q auc small.stop && other_bytes small.stop turned.stop || return 1
    stopped --eval a=small.tsv --eval b=turned.tsv >found && cmp found small.stop || return 1
    stopped --eval a=turned.tsv --eval b=small.tsv >found && cmp found turned.stop
}
check 'the first one decides about stopping' stops_by_first

# --- memory and caches ------------------------------------------------------------------------------------------------

planned() { heterps plan-memory tiny.bin --data train.tsv "$@" >"$plan"; }
cat large.tsv large.tsv large.tsv large.tsv large.tsv large.tsv large.tsv large.tsv large.tsv large.tsv >huge.tsv
plan_holds_the_largest() {
    plan=huge planned --eval huge.tsv && plan=small planned --eval small.tsv && other_bytes huge small || return 1
    plan=first planned --eval a=huge.tsv --eval b=small.tsv &&
        plan=second planned --eval b=small.tsv --eval a=huge.tsv || return 1
    diff huge first && diff huge second
}
check 'the plan of memory holds the largest, whatever the order' plan_holds_the_largest
caches() {
    train --eval next=large.tsv --eval holdout=small.tsv --set eval.every=10 --set cache.ssd=64MiB \
        --set cache.path=c --set cache.ram="$1" &&
        python3 same.py log next=large.log holdout=small.log && [ -s c.eval.next ] && [ -s c.eval.holdout ]
}
check 'each has a data cache of its own' caches 0
check 'which further runs read' caches 16MiB

# --- the verb ---------------------------------------------------------------------------------------------------------

measured() { heterps eval tiny.bin --model model --log json "$@"; }
measured --data large.tsv >large.eval
measured --data small.tsv >small.eval
measured --data next=large.tsv --data holdout=small.tsv >both.eval
check 'eval measures several sets, each as it is alone' python3 same.py both.eval next=large.eval holdout=small.eval
by() {
    for set in large small; do measured --data $set.tsv --by C9 --by-max 2 >$set.eval || return 1; done
    measured --data next=large.tsv --data holdout=small.tsv --by C9 --by-max 2 >both.eval &&
        grep -q eval_by both.eval && python3 same.py both.eval next=large.eval holdout=small.eval
}
check 'by values of a column, too' by
check 'and tells bins of each' \
    sh -c '[ "$("$1" eval tiny.bin --model model --data a=large.tsv --data b=small.tsv --bins 2>&1 |
        grep -c "^bins .*predicted")" = 2 ]' - "$HETERPS"
is_file() { measured --data "$@" >file.eval && ! grep -q '"set"' file.eval && grep -q '"samples":400,' file.eval; }
check 'a file whose name has = is a file' is_file a=b.tsv
check 'and a folder' is_file dt=1/part.tsv
check 'from ./ on always' is_file ./a=b.tsv
check 'a named one, too' sh -c '"$1" eval tiny.bin --model model --data day=dt=1/part.tsv --log json |
    grep -q "\"set\":\"day\".*\"samples\":400,"' - "$HETERPS"

# --- refusals ---------------------------------------------------------------------------------------------------------

fails 2 '--eval: two sets are called a, large.tsv and small.tsv' 'two sets of one name' heterps tiny.bin \
    --data train.tsv --eval a=large.tsv --eval a=small.tsv
fails 2 '--eval small.tsv has no name' 'a set without a name behind one that has' heterps tiny.bin --data train.tsv \
    --eval a=large.tsv --eval small.tsv
fails 2 '--data large.tsv has no name' 'and before it' heterps eval tiny.bin --model model \
    --data large.tsv --data a=small.tsv
fails 2 '--eval a=: expected files behind the name' 'a name alone' heterps tiny.bin --data train.tsv --eval a=
fails 2 '--data and --eval both read standard input' 'standard input twice' heterps tiny.bin --data - \
    --eval a=small.tsv --eval b=-
fails 1 'the set b is a stream' 'one of several sets from a stream' \
    sh -c 'cat small.tsv | "$1" tiny.bin --data train.tsv --eval a=large.tsv --eval b=- -q' - "$HETERPS"
fails 2 'small.tsv.* is read' 'no set is written over' heterps tiny.bin --data train.tsv --eval a=large.tsv \
    --eval b=small.tsv --trace small.tsv
looks_at_all() {
    heterps doctor tiny.bin --data train.tsv --eval a=large.tsv --eval b=nowhere.tsv >found 2>/dev/null
    grep -q 'nowhere.tsv' found || return 1
    heterps doctor tiny.bin --data train.tsv --eval a=large.tsv --eval b=small.tsv --out fresh >found 2>/dev/null
    grep -q 'ok .*evaluation a .*large.tsv' found && grep -q 'ok .*evaluation b .*small.tsv' found
}
check 'doctor looks at every set' looks_at_all
finish

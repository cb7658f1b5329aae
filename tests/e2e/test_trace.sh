#!/bin/sh
# --trace FILE: JSON that viewers load, with what every thread did; the trained bytes do not change; what is
# left of it when the disk is full, the run fails, is stopped or is killed.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/process.sh"
tiny_model
examples=$(scaled 6000)
rows "$examples" "$folder/train.tsv"
rows 300 "$folder/eval.tsv" "$examples"
steps=$(((examples + 63) / 64))
graph=$folder/tiny.bin

cat >"$folder/check.py" <<'PYTHON'
# A whole trace: FILE BACKWARD_SPANS STAGE_NAME...
import json, sys
from collections import defaultdict
from decimal import Decimal
path, backward_count, stages = sys.argv[1], int(sys.argv[2]), set(sys.argv[3:])
events = json.load(open(path), parse_float=Decimal)  # so that sums of times are exact
end = events[-1]
assert end["name"] == "trace end" and end["args"] == {"dropped_records": 0, "untraced_threads": 0}, end
names = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
assert all(names.values()) and len(names) >= 3, names  # main, a worker, reading
spans = [e for e in events if e["ph"] == "X"]
assert {e["ph"] for e in events} == {"M", "X", "i"}
of = defaultdict(list)
for e in spans:
    assert e["tid"] in names and e["pid"] == 1, e
    assert e["ts"] >= 0 and e["dur"] >= 0 and e["ts"] + e["dur"] <= end["ts"], e
    assert e["args"]["step"] >= 0 and e["args"]["micro"] >= 0, e
    of[e["tid"], e["cat"]].append(e)
kinds = {e["cat"] for e in spans}
assert kinds >= {"forward", "backward", "update", "read", "prepare", "op", "op backward", "wait"}, kinds
for (tid, kind), list_ in list(of.items()):
    list_.sort(key=lambda e: (e["ts"], e["ts"] + e["dur"]))
    for a, b in zip(list_, list_[1:]):
        assert a["ts"] + a["dur"] <= b["ts"], ("overlap", names[tid], a, b)
# Ops are the graph's, and lie within what ran them.
ops = {kind: {e["name"] for e in spans if e["cat"] == kind} for kind in ("op", "op backward")}
for kind, found in ops.items(): assert {"e", "h1", "y", "bce"} <= found <= {"e", "x", "h1", "y", "bce"}, (kind, found)
for (tid, kind), list_ in list(of.items()):
    around = {"op": ("forward", "save", "eval"), "op backward": ("backward",)}.get(kind)
    if around is None: continue
    outer = sorted((o for k in around for o in of[tid, k]), key=lambda o: o["ts"])
    at = 0
    for e in list_:
        while at < len(outer) and outer[at]["ts"] + outer[at]["dur"] < e["ts"] + e["dur"]: at += 1
        assert at < len(outer) and outer[at]["ts"] <= e["ts"], ("outside", names[tid], e)
for kind in ("forward", "backward"): assert {e["name"] for e in spans if e["cat"] == kind} == stages, (kind, stages)
assert sum(e["cat"] == "backward" for e in spans) == backward_count
updated, backward = ({e["args"]["step"] for e in spans if e["cat"] == cat} for cat in ("update", "backward"))
assert updated == backward
PYTHON
cat >"$folder/cut.py" <<'PYTHON'
# What kill -9 leaves: an array without its end; every whole line an event.
import json, sys
text = open(sys.argv[1]).read()
whole = text[:text.rindex("\n")]
lines = whole.split("\n")
assert lines[0] == "[" and len(lines) > 1000
for line in lines[1:]:
    assert line[-1] == ","
    event = json.loads(line[:-1])
    assert event["ph"] in ("M", "X") and event["pid"] == 1, event
json.loads(whole.rstrip(",") + "]")  # as viewers mend it
PYTHON
loads() { python3 -c 'import json, sys; assert json.load(open(sys.argv[1]))[-1]["name"] == "trace end"' "$1"; }

check 'a model without a trace' trains plain "$graph" --data "$folder/train.tsv"
check 'the same bytes with a trace' trains_same plain "$graph" --data "$folder/train.tsv" --trace "$folder/plain.json"
check 'the trace is whole and true' python3 "$folder/check.py" "$folder/plain.json" $steps e..bce
check 'a trace with evaluations and checkpoints' trains_same plain "$graph" \
    --data "$folder/train.tsv" --eval "$folder/eval.tsv" \
    --set eval.every=20 --set checkpoint.every=30 --trace "$folder/more.json"
check '… is whole and true' python3 "$folder/check.py" "$folder/more.json" $steps e..bce
check '… and has them' sh -c "grep -q '\"cat\":\"save\"' '$folder/more.json' &&
    grep -q '\"cat\":\"eval\"' '$folder/more.json'"

check 'a trace of a table whose rows go' runs 0 "$HETERPS" "$graph" --data "$folder/train.tsv" \
    --set store.period=5 --set emb.ttl=1 \
    --trace "$folder/life.json" -q
check '… is whole and true, and has when they went' sh -c \
    "python3 '$folder/check.py' '$folder/life.json' $steps e..bce && grep -q '\"rows go\"' '$folder/life.json'"

cat >"$folder/plan.json" <<'JSON'
{"format": "heterps-solution-1", "types": [{"name": "cpu", "device": "cpu"}],
 "layers": ["e", "x", "h1", "y", "bce"], "plan": [0, 0, 0, 0, 0],
 "stages": [{"first": 0, "last": 1, "type": 0, "k": 1}, {"first": 2, "last": 4, "type": 0, "k": 1}]}
JSON
check 'a trace of two stages' trains_same plain "$graph" --data "$folder/train.tsv" --plan "$folder/plan.json" --share \
    --trace "$folder/stages.json"
check '… is whole and true' python3 "$folder/check.py" "$folder/stages.json" $((2 * steps)) e..x h1..bce

check 'a full disk: training ends well' runs 0 "$HETERPS" "$graph" --data "$folder/train.tsv" \
    --out "$folder/full.model" --trace /dev/full -q
check '… and says once that the trace is cut' sh -c "grep -c 'warning.*/dev/full' '$folder/err' | grep -qx 1"
exported "$graph" "$folder/full.model" full
check '… and the model is as without a trace' same_bytes full plain
tells_why() { # a failure after the trace was opened, and before its first events
    runs 1 "$HETERPS" "$graph" --data "$folder/train.tsv" --trace /dev/full --tensorboard "$folder/eval.tsv" -q &&
        grep 'error: ' "$folder/err" | grep -q 'eval\.tsv'
}
check '… and another failure keeps its own message' tells_why
check 'a trace that cannot be opened is an error before training' \
    fails_so 1 /nowhere/trace.json "$graph" --data "$folder/train.tsv" --out "$folder/no.model" \
    --trace /nowhere/trace.json
check '… and nothing is made' test ! -e "$folder/no.model"

{ cat "$folder/eval.tsv"; echo nonsense; } >"$folder/bad.tsv"
check 'a run that fails' runs 1 "$HETERPS" "$graph" --data "$folder/bad.tsv" --trace "$folder/bad.json" -q
check '… leaves a whole trace' loads "$folder/bad.json"
keeps_old() { # a run that fails before it knows that the trace is to replace its own evaluation data
    cp "$folder/eval.tsv" "$folder/old.tsv"
    runs 2 "$HETERPS" "$graph" --data "$folder/train.tsv" --set data.eval="$folder/old.tsv" --set nowhere.key=1 \
        --trace "$folder/old.tsv" -q && cmp "$folder/eval.tsv" "$folder/old.tsv"
}
check 'a run that fails at once leaves an old file as it is' keeps_old
lines() { [ "$(wc -l <"$1")" -gt 1000 ]; }
await_lines() {
    for tenth in $(seq 200); do
        if [ -e "$1" ] && lines "$1"; then return 0; fi
        sleep 0.1
    done
    return 1
}
start "$graph" --data "$folder/train.tsv" --set train.epochs=100000 --trace "$folder/stopped.json" -q
check 'a long run writes its trace as it goes' await_lines "$folder/stopped.json"
kill -INT "$pid"
wait "$pid"
check '… and stopped leaves it whole' loads "$folder/stopped.json"
start "$graph" --data "$folder/train.tsv" --set train.epochs=100000 --trace "$folder/killed.json" -q
check 'another long run' await_lines "$folder/killed.json"
kill -KILL "$pid"
wait "$pid" 2>/dev/null
check '… and killed leaves whole events' python3 "$folder/cut.py" "$folder/killed.json"
long=$(for times in $(seq 3000); do printf '%s,' "$folder/eval.tsv"; done)
start "$graph" --data "$folder/eval.tsv" --set train.steps_max=1 --eval "$long$folder/eval.tsv" \
    --trace "$folder/long.json" -q
check 'a long evaluation writes its trace as it goes' await_lines "$folder/long.json"
check '… before it ends' sh -c "! grep -q '\"cat\":\"eval\"' '$folder/long.json'"
kill -KILL "$pid"
wait "$pid" 2>/dev/null
finish

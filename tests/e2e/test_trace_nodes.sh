#!/bin/sh
# --trace on several nodes: one file at the end, in which what nodes do together lies together, also where
# their clocks have begun at other times; and what there is where parts are missing.
. "$(dirname "$0")/lib.sh"
. tests/e2e/process.sh
cd "$folder" || exit 1
h=$HETERPS
tiny_model
heterps compile tiny.cfg -o tables.bin --set train.lanes=8 --set cluster.timeout=5 --set cluster.connect=20 &&
    heterps gen criteo --rows 1000 -o data.tsv && heterps key -o key &&
    trains plain tables.bin --data data.tsv --threads 1 || { echo "not ok 1 - fixture"; exit 1; }
cat >together.py <<'PYTHON'
# together.py FILE NODES: every node has the sums of every step, which end nowhere before they have begun on all.
import json, sys
events, nodes = json.load(open(sys.argv[1])), int(sys.argv[2])
names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
assert names == {r + 1: f"heterps-run node {r}" for r in range(nodes)}, names
assert sum(e["name"] == "trace end" for e in events) == nodes
within = sum(e["args"]["within_us"] for e in events if e["name"] == "clock")
assert 0 < within < 1e5, within
sums = {}
for e in events:
    if e["name"] == "sums": sums.setdefault(e["args"]["step"], {})[e["pid"]] = (e["ts"], e["ts"] + e["dur"])
assert len(sums) == 16, len(sums)
for step, spans in sums.items():
    assert set(spans) == set(names), (step, spans)
    late = max(begin for begin, _ in spans.values()) - min(end for _, end in spans.values())
    assert late <= 2 * within, (step, late, within, spans)
busy = {(e["pid"], e["cat"]) for e in events if e["ph"] == "X"}
assert {(p, c) for p in names for c in ("forward", "backward", "update", "read", "exchange")} <= busy, busy
PYTHON
launched() {
    rm -rf many.model
    runs 0 "$h" launch --local 3 -- tables.bin --data data.tsv --threads 1 --out many.model --trace t.json &&
        exported tables.bin many.model again && same_bytes plain again
}
check 'three nodes with a trace: the bytes of one' launched
check '… and one file, in which all is at its time' python3 together.py t.json 3
check 'nothing is said of it' eval '! grep warning err | grep -qv "no save before the end"'
by_hand() { mv t.json auto.json && runs 0 "$h" trace t.json && cmp t.json auto.json; }
check 'joined by hand it is the same' by_hand
lacks() { rm t.json.2 && fails_so 1 't.json.2: No such file' trace t.json && cmp t.json auto.json; }
check 'a node'\''s is missing' lacks
foreign() { cp data.tsv t.json.2 && fails_so 1 't.json.2: expected a trace of --trace' trace t.json; }
check 'a node'\''s is something else' foreign
check 'there is none' fails_so 1 'nothing.0: No such file' trace nothing

# Two nodes, of which one's clock_ns began another day; they share no directory, until the files are brought together.
places=$(python3 -c 'import socket
s = [socket.socket() for i in range(2)]
[x.bind(("127.0.0.1", 0)) for x in s]
print(",".join("127.0.0.1:%d" % x.getsockname()[1] for x in s))')
apart() {
    rm -rf far near
    mkdir far near &&
        common="../tables.bin --data ../data.tsv --threads 1 --key-file ../key --nodes $places --trace u.json"
    (cd far && exec timeout 60 "$@" "$h" $common --rank 1 >out1 2>err1 </dev/null) &
    other=$!
    (cd near && runs 0 timeout 60 "$h" $common --rank 0) && wait $other || { cat far/err1; return 1; }
    grep -q 'u.json lacks node 1: u.json.1: No such file' err &&
        grep -q 'join them: heterps-run trace u.json' err || { cat err; return 1; }
    cp far/u.json.1 near && runs 0 "$h" trace near/u.json && python3 together.py near/u.json 2
}
check 'nodes without a common directory: joined by hand' apart env
if unshare -T --monotonic 500000 --boottime 500000 --fork true 2>/dev/null; then
    check 'nodes whose clocks began at other times' apart unshare -T --monotonic 500000 --boottime 500000 --fork
else
    skip 'nodes whose clocks began at other times' 'there can be no time namespaces here'
fi
finish

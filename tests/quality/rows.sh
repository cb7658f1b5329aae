#!/bin/sh
# Usage: sh tests/quality/rows.sh [REPEATS] [PROGRAM...]    defaults: 3, ./heterps-run; RATE=200mbit BATCH=4096 STEPS=30
#                                                           COMPUTE=0.15 VOCAB=100000 LANES=1,1 ROWS=spread
# What rows of tables add to a step where the wire is slow: two nodes, in network namespaces joined by a cable
# that tc's tbf shapes, train a table of 16 floats a row, looked up in 26 columns of generated click data of
# VOCAB values each. They have LANES of the two lanes, and the rows are where ROWS (cluster.rows) says. The
# computation is that of a paced device, which takes COMPUTE seconds a step of a lane, most of which it
# sleeps. In turn, of each PROGRAM: the cable as it is, and shaped. Prints medians of seconds a step, what
# shaping adds, for how much of the time rounds between nodes were under way, which share of the rows has not
# waited for the step before, and the bytes of each node over the least. Status 77 with a sentence where there
# can be no namespaces.
set -u
repeats=${1:-3}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- ./heterps-run
rate=${RATE:-200mbit} batch=${BATCH:-4096} steps=${STEPS:-30} compute=${COMPUTE:-0.15} vocab=${VOCAB:-100000} \
    lanes=${LANES:-1,1} rows=${ROWS:-spread}
if [ "${ROWS_INSIDE:-}" != yes ]; then
    unshare --net --mount true 2>/dev/null && command -v tc >/dev/null ||
        { echo "rows.sh: there can be no network namespaces here (root, Debian: iproute2)" >&2; exit 77; }
    ROWS_INSIDE=yes exec unshare --net --mount --pid --fork --mount-proc --kill-child sh "$0" "$repeats" "$@"
fi
programs=
for h; do
    case $h in /*) ;; *) h=$PWD/$h ;; esac
    programs="$programs $h"
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
cd "$work" || exit 1
mount -t tmpfs tmpfs /run && mkdir /run/netns && ip link set lo up && ip netns add other &&
    ip link add cable type veth peer name eth0 netns other &&
    ip address add 10.77.1.1/24 dev cable && ip link set cable up && ip -n other address add 10.77.1.2/24 dev eth0 &&
    ip -n other link set eth0 up && ip -n other link set lo up || exit 1
shape() {
    tc qdisc replace dev cable root tbf rate "$rate" burst 64kb latency 50ms &&
        tc -n other qdisc replace dev eth0 root tbf rate "$rate" burst 64kb latency 50ms
}
free() { tc qdisc del dev cable root; tc -n other qdisc del dev eth0 root; } 2>/dev/null
cat >model.cfg <<CFG
[model]
name = rows
[data]
format = criteo
label = label
dense = I1..I13
sparse = C1..C26
[table emb]
dim = 16
init = uniform 0.01
optimizer = adagrad 0.03
[embedding e]
table = emb
input = sparse
[concat x]
input = e, dense
[fc h]
input = x
units = 32
activation = relu
[fc y]
input = h
units = 1
[loss bce]
input = y
label = label
[train]
batch = $batch
micro = 64
lanes = 2
optimizer = adagrad 0.01
CFG
set -- $programs
"$1" compile model.cfg -o model.bin -q &&
    "$1" gen criteo --rows $((batch * steps)) --vocab "$vocab" -o data.tsv -q || exit 1
seconds=$(awk -v c="$compute" -v b="$batch" 'BEGIN { print c / (b / 2) }')
cat >plan.json <<JSON
{"format": "heterps-solution-1",
 "stages": [{"first": 0, "last": 4, "type": 0, "k": 1, "replicas": 1, "et": $seconds}],
 "types": [{"name": "paced", "device": "paced", "price_per_hour": 1, "limit": 1}]}
JSON
train() { # NAME: a line is added to the file of that name
    name=$1
    set -- --plan plan.json --lanes "$lanes" --set cluster.rows="$rows"
    ip netns exec other "$h" model.bin --data data.tsv --nodes 10.77.1.1:4711,10.77.1.2:4711 \
        --rank 1 --insecure "$@" -q >other.out 2>&1 </dev/null &
    "$h" model.bin --data data.tsv --nodes 10.77.1.1:4711,10.77.1.2:4711 --rank 0 --insecure "$@" \
        --log json >out 2>log </dev/null || { cat log other.out; exit 1; }
    wait
    python3 - <<'PY' >>"$name" || exit 1
import json
events = [json.loads(line) for line in open("out")]
done = [e for e in events if e["event"] == "done"][-1]
each = [e for e in events if e["event"] == "nodes"][-1]["each"]
seconds = done["seconds"] / done["step"]
early = sum(n.get("early_rows", 0) for n in each) / sum(n["asked_rows"] for n in each)
print(seconds, each[0]["exchange"] * seconds, early, *(n["sent_bytes_a_step"] / n["sent_bytes_least"] for n in each))
PY
}
i=0
while [ $i -lt "$repeats" ]; do
    n=0
    for h in $programs; do
        free; train free.$n
        shape; train shaped.$n
        n=$((n + 1))
    done
    i=$((i + 1))
done
n=0
for h in $programs; do
    python3 - "$n" "$rate" "$h" <<'PY'
import statistics, sys
n, rate, h = sys.argv[1:]
free, shaped = ([statistics.median(column)
                 for column in zip(*(map(float, line.split()) for line in open(f"{name}.{n}")))]
                for name in ("free", "shaped"))
print(f"{h}: a step {free[0]:.3f} s, at {rate} {shaped[0]:.3f} s, which adds {shaped[0] - free[0]:.3f} s; "
      f"rounds {free[1]:.3f} and {shaped[1]:.3f} s; "
      f"{shaped[2]:.2f} of the rows early; bytes over the least {', '.join(f'{x:.3f}' for x in shaped[3:])}",
      flush=True)
PY
    n=$((n + 1))
done

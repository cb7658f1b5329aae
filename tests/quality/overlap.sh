#!/bin/sh
# Usage: sh tests/quality/overlap.sh [REPEATS] [PROGRAM]       defaults: 3, ./heterps-run; RATE=400mbit LAYERS=16
#                                                              UNITS=512 STEPS=20 MICROS='1 2 4'
# How much of a step the wire adds where it takes half as long as the computation. Two nodes, in network namespaces
# joined by a cable that tc's tbf shapes, train LAYERS equal layers of UNITS, a lane each, of each of MICROS
# micro-batches. The computation is that of a paced device: each pass takes the time that a plan says and sleeps for
# most of it, so two nodes may share a core and be disturbed. In turn: the cable as it is; shaped; and shaped with
# cluster.bucket = 0, which sends all after the last backward pass. Prints seconds a step of each, the wire's own time
# at that rate, and what is exposed: a shaped step less one of the cable as it is, over a shaped step. Status 1 if
# buckets expose more than 0.10 with one micro-batch, or than (1/2 - 1/m) + 0.05 with m; 77 with a sentence where
# there can be no namespaces.
set -u
repeats=${1:-3} h=${2:-./heterps-run} rate=${RATE:-400mbit} layers=${LAYERS:-16} units=${UNITS:-512} \
    steps=${STEPS:-20} all_micros=${MICROS:-1 2 4}
case $h in /*) ;; *) h=$PWD/$h ;; esac
if [ "${OVERLAP_INSIDE:-}" != yes ]; then
    unshare --net --mount true 2>/dev/null && command -v tc >/dev/null ||
        { echo "overlap.sh: there can be no network namespaces here (root, Debian: iproute2)" >&2; exit 77; }
    OVERLAP_INSIDE=yes exec unshare --net --mount --pid --fork --mount-proc --kill-child sh "$0" "$repeats" "$h"
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
cd "$work" || exit 1
mount -t tmpfs tmpfs /run && mkdir /run/netns && ip link set lo up && ip netns add other &&
    ip link add cable type veth peer name eth0 netns other &&
    ip address add 10.77.1.1/24 dev cable && ip link set cable up && ip -n other address add 10.77.1.2/24 dev eth0 &&
    ip -n other link set eth0 up && ip -n other link set lo up || exit 1
shape() {
    tc qdisc replace dev cable root tbf rate "$rate" burst 256kb latency 50ms &&
        tc -n other qdisc replace dev eth0 root tbf rate "$rate" burst 256kb latency 50ms
}
free() { tc qdisc del dev cable root; tc -n other qdisc del dev eth0 root; } 2>/dev/null

model() { # MICROS: a graph, its data, and a plan whose passes take twice the wire's time together
    batch=$((16 * $1))
    {
        printf '[model]\nname = deep\n[data]\ndense = I1..I13\n'
        input=dense i=1
        while [ $i -le "$layers" ]; do
            printf '[fc h%d]\ninput = %s\nunits = %d\nactivation = relu\n' $i $input "$units"
            input=h$i i=$((i + 1))
        done
        printf '[fc y]\ninput = %s\nunits = 1\n[loss bce]\ninput = y\n' $input
        printf '[train]\nbatch = %d\nmicro = 8\nlanes = 2\noptimizer = sgd 0.01\n' "$batch"
    } >model.cfg
    "$h" compile model.cfg -o model.bin -q && "$h" gen criteo --rows $((batch * steps)) -o data.tsv -q || exit 1
    python3 - "$rate" "$layers" "$units" "$batch" >wire <<'PY' || exit 1
import json, sys
rate, (layers, units, batch) = sys.argv[1], map(int, sys.argv[2:])
params = (layers - 1) * units * (units + 1) + 14 * units + units + 1
bits = {"gbit": 1e9, "mbit": 1e6}[rate[-4:]] * float(rate[:-4])
wire = 4 * params * 8 / bits * 1514 / 1448 # half of the sums, half of the values, each way, in packets of an Ethernet
stage = {"first": 0, "last": layers + 1, "type": 0, "k": 1, "replicas": 1, "et": 2 * wire / (batch / 2)}
with open("plan.json", "w") as file:
    json.dump({"format": "heterps-solution-1", "stages": [stage],
               "types": [{"name": "paced", "device": "paced", "price_per_hour": 1, "limit": 1}]}, file)
print(wire, 4 * params / 2**20)
PY
}
train() { # NAME SET...: seconds a step are added to the file of that name
    name=$1
    shift
    ip netns exec other "$h" model.bin --data data.tsv --nodes 10.77.1.1:4711,10.77.1.2:4711 --rank 1 --insecure \
        --plan plan.json -q "$@" >other.out 2>&1 </dev/null &
    "$h" model.bin --data data.tsv --nodes 10.77.1.1:4711,10.77.1.2:4711 --rank 0 --insecure --plan plan.json \
        --log json "$@" >out 2>log </dev/null || { cat log other.out; exit 1; }
    wait
    python3 -c 'import json
e = [e for e in map(json.loads, open("out")) if e["event"] == "done"][-1]
print(e["seconds"] / e["step"])' >>"$name" || exit 1
}
status=0
for micros in $all_micros; do
    model "$micros"
    rm -f as_it_is buckets at_once
    i=0
    while [ $i -lt "$repeats" ]; do
        free; train as_it_is
        shape; train buckets
        train at_once --set cluster.bucket=0
        i=$((i + 1))
    done
    python3 - "$rate" "$micros" <<'PY' || status=1
import statistics, sys
rate, m = sys.argv[1], int(sys.argv[2])
wire, mib = map(float, open("wire").read().split())
free, buckets, at_once = (statistics.median(map(float, open(n))) for n in ("as_it_is", "buckets", "at_once"))
bound = 0.10 if m == 1 else 0.5 - 1 / m + 0.05
print(f"{m} micro-batches a lane, {mib:.1f} MiB of parameters, {rate}: the wire's own time {wire:.3f} s; "
      f"a step {free:.3f} s, shaped {buckets:.3f} s, with one bucket {at_once:.3f} s")
print(f"exposed: {1 - free / buckets:.3f} of a step, with one bucket {1 - free / at_once:.3f}; asked: {bound:.2f}",
      flush=True)
sys.exit(1 - free / buckets > bound)
PY
done
exit $status

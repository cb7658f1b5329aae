#!/bin/sh
# Usage: sh tests/quality/apart.sh [RUNS] [PROGRAM]       defaults: 20, ./heterps-run; SEED=N repeats a series
# Trainings on 2 to 4 nodes that share no directory: node 0 writes all saves, and serves them. At a random moment one
# node is killed. A survivor starts anew and is served. Where node 0 is killed, or too few nodes are left, all are
# started again, as another number of nodes, some of which have lost what they had. Each training has to end with the
# bytes of one node, of a table whose rows come and go, and only node 0 may leave files. Prints a line a wrong run;
# status 1 if there was one.
set -u
runs=${1:-20} h=${2:-./heterps-run}
case $h in /*) ;; *) h=$PWD/$h ;; esac
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
pids=
trap 'kill $pids 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
cd "$work" || exit 1
. "$root/tests/quality/one_node.sh"
nodes_model emb.admit=2 emb.ttl=12 store.period=20 train.epochs=40 checkpoint.every=40 cluster.min=2 \
    cluster.timeout=1 cluster.connect=10 && one_node -q && "$h" key -o key -q || exit 1
seed=${SEED:-$(date +%s)}
echo "seed $seed"
awk -v seed="$seed" -v runs="$runs" 'BEGIN {
    srand(seed)
    for (i = 0; i < runs; i++) print 2 + int(rand() * 3), int(rand() * 4), 0.2 + rand() * 1.5, 2 + int(rand() * 3)
}' >draws

# nodes N: starts so many; their standard errors are err0, err1, …
nodes() {
    places=$(python3 -c 'import socket, sys
s = [socket.socket() for i in range(int(sys.argv[1]))]
[x.bind(("127.0.0.1", 0)) for x in s]
print(",".join("127.0.0.1:%d" % x.getsockname()[1] for x in s))' "$1")
    pids= rank=0
    while [ $rank -lt "$1" ]; do
        mkdir -p at$rank
        (cd at$rank &&
            exec "$h" ../model.bin --data ../data.tsv --key-file ../key --nodes "$places" --rank $rank --threads 1 \
                --again --out model >../out$rank 2>../err$rank </dev/null) &
        pids="$pids $!"
        rank=$((rank + 1))
    done
}
# Waits for all, two minutes at most: sets worst to the greatest status of those that were not killed.
all_end() {
    worst=0
    (sleep 120; kill -TERM $pids) 2>/dev/null &
    watch=$!
    for pid in $pids; do
        wait "$pid"
        got=$?
        [ $got = 137 ] || [ $got -le $worst ] || worst=$got
    done
    kill $watch 2>/dev/null
    wait $watch 2>/dev/null
}
bad=0 again=0 served=0
while read -r count victim delay next; do
    victim=$((victim % count))
    rm -rf at[0-9]
    nodes "$count"
    sleep "$delay"
    kill -9 "$(echo $pids | cut -d' ' -f$((victim + 1)))" 2>/dev/null
    all_end
    what="$count nodes, $victim killed after $delay s"
    if [ $worst != 0 ] || [ $victim = 0 ]; then
        again=$((again + 1)) what="$what, then $next nodes"
        [ $worst = 0 ] || [ $worst = 75 ] || what="$what (first $worst: $(tail -qn 1 err*))"
        nodes "$next"
        all_end
    fi
    served=$((served + $(cat err0 | grep -c 'this node has sent its save to')))
    left=$(find at[1-9] -type f | head -3)
    if [ $worst != 0 ]; then
        echo "not ok: $what: status $worst: $(tail -qn 2 err*)"
    elif [ -n "$left" ]; then
        echo "not ok: $what: left $left"
    elif as_one_node at0/model; then
        continue
    else
        echo "not ok: $what: other bytes"
    fi
    bad=$((bad + 1))
done <draws
echo "$runs runs: in $again all were started again, $served times nodes were served; $bad of them wrong"
[ $bad = 0 ]

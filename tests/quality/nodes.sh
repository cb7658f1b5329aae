#!/bin/sh
# Usage: sh tests/quality/nodes.sh [RUNS] [PROGRAM]       defaults: 100, ./heterps-run; SEED=N repeats a series; MODEL=dense: numbers alone
# Trainings on 2 to 4 nodes over loopback, of any lanes each, or of none, which serve rows and slices alone or with the
# others, of which one is killed, or stands still for a while, at a random moment, or
# none is and nothing is saved: each has to end, and with the bytes and the last figures of one node, of a table whose
# rows come and go. Prints a line a run that does not, and how many of each kind there were; status 1 if one did not.
set -u
runs=${1:-100} h=${2:-./heterps-run}
case $h in /*) ;; *) h=$PWD/$h ;; esac
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'kill $launcher 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
launcher=
cd "$work" || exit 1
. "$root/tests/quality/one_node.sh"
case ${MODEL:-} in
dense) dense_model train.epochs=40 checkpoint.every=50 eval.every=70 cluster.min=2 cluster.timeout=1 ;;
*) nodes_model emb.admit=2 emb.ttl=12 store.period=20 train.epochs=40 checkpoint.every=50 eval.every=70 cluster.min=2 cluster.timeout=1 ;;
esac && "$h" gen criteo --rows 500 --skip 6000 -o test.tsv -q && one_node --eval test.tsv --log json >one.log || exit 1
figures() { grep '"event":"eval"' "$1" | tail -1 | sed 's/"seconds":[^,]*,//; s/"time":[^,]*,//; s/"node":[^,]*,//'; }
[ -n "$(figures one.log)" ] || { echo "no evaluation: $(cat one.log)"; exit 1; }
seed=${SEED:-$(date +%s)}
echo "seed $seed"
awk -v seed="$seed" -v runs="$runs" 'function place(servers) { x = int(rand() * 3); return x == 1 ? "local" : x == 2 && servers ? "servers" : "spread" }
BEGIN {
    srand(seed)
    for (i = 0; i < runs; i++) {
        nodes = 2 + int(rand() * 3); left = 8; servers = 0; lanes = ""
        for (n = 1; n < nodes; n++) { x = rand() < 0.4 ? 0 : 1 + int(rand() * (left - nodes + n)); servers += x == 0; left -= x; lanes = lanes "," x }
        lanes = rand() < 0.2 ? "auto" : left lanes
        print nodes, int(rand() * 4), 0.1 + rand() * 1.5, int(rand() * 3), 0.1 + rand() * 3, lanes, place(lanes != "auto" && servers), place(lanes != "auto" && servers)
    }
}' >draws
killed=0 paused=0 unsaved=0 late=0 served=0
while read -r nodes victim delay kind pause lanes rows slices; do
    rm -rf many.model
    out='--out many.model' what="$nodes nodes of $lanes lanes, rows $rows, slices $slices"
    case $lanes in *,0*) served=$((served + 1)) ;; esac
    [ "$kind" != 0 ] || out=
    timeout 120 "$h" launch --local "$nodes" -- model.bin --data data.tsv --eval test.tsv $out --lanes "$lanes" --set cluster.rows="$rows" --set cluster.slices="$slices" --log json >many.log 2>log &
    launcher=$!
    if [ "$kind" = 0 ]; then
        unsaved=$((unsaved + 1)) what="$what, nothing saved"
    else
        sleep "$delay"
        pid=$(pgrep -f -- "^heterps-run model.bin .*--rank=$((victim % nodes))( |\$)" | head -1)
        [ -n "$pid" ] || late=$((late + 1))
        if [ "$kind" = 1 ]; then
            killed=$((killed + 1)) what="$what, $((victim % nodes)) killed after $delay s"
            [ -z "$pid" ] || kill -9 "$pid" 2>/dev/null
        else
            paused=$((paused + 1)) what="$what, $((victim % nodes)) paused after $delay s for $pause s"
            [ -z "$pid" ] || { kill -STOP "$pid" 2>/dev/null; sleep "$pause"; kill -CONT "$pid" 2>/dev/null; }
        fi
    fi
    wait $launcher
    status=$?
    launcher=
    if [ $status != 0 ]; then
        echo "not ok: $what: status $status"
        tail -3 log
        bad=$((bad + 1))
    elif [ "$(figures many.log)" != "$(figures one.log)" ]; then
        echo "not ok: $what: other figures"
        bad=$((bad + 1))
    elif [ -n "$out" ]; then
        as_one_node many.model || { echo "not ok: $what: other bytes"; bad=$((bad + 1)); }
    fi
done <draws
echo "$runs runs: $killed with a node killed, $paused paused, $unsaved without a save; of $late the node had ended; $served with parameter servers; $bad of them wrong"
[ $bad = 0 ]

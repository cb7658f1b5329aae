#!/bin/sh
# Usage: sh tests/quality/nodes_use.sh [RUNS] [PROGRAM]       defaults: 30, ./heterps-run; SEED=N repeats a series
# A saved model predicts, is exported and is measured on 2 to 4 nodes over loopback, of any lanes each. One node is
# killed at a random moment, or stands still. Each run has to end with what one node gives, byte for byte. Prints a
# line a wrong run, and how many of each kind there were; status 1 if one was wrong.
set -u
runs=${1:-30} h=${2:-./heterps-run}
case $h in /*) ;; *) h=$PWD/$h ;; esac
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'kill $launcher 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
launcher=
cd "$work" || exit 1
. "$root/tests/quality/one_node.sh"
tables_model
"$h" compile tables.cfg -o tables.bin --set emb.dim=16 --set emb.admit=2 --set cluster.timeout=2 -q &&
    "$h" gen criteo --rows 20000 -o data.tsv -q &&
    "$h" tables.bin --data data.tsv --out tables.model -q || exit 1
for i in 1 2 3 4 5 6 7 8; do cat data.tsv; done >many.tsv
"$h" predict tables.bin --model tables.model --data many.tsv --with C1 -o one.txt -q &&
    "$h" export tables.bin --model tables.model -o one.values -q &&
    "$h" eval tables.bin --model tables.model --data many.tsv --by C2 --by-max 3 |
    sed 's/, [0-9.]* s)$/)/' >one.figures || exit 1
seed=${SEED:-$(date +%s)}
echo "seed $seed"
awk -v seed="$seed" -v runs="$runs" 'BEGIN {
    srand(seed)
    for (i = 0; i < runs; i++) print 2 + int(rand() * 3), int(rand() * 4), rand() * 1.5, rand() < 0.7, i % 3
}' >draws
bad=0 killed=0 paused=0 late=0
while read -r nodes victim delay kills what; do
    rm -rf out out.values
    case $what in
    0) name=predict && set -- predict tables.bin --model tables.model --data many.tsv --with C1 -o out ;;
    1) name=export && set -- export tables.bin --model tables.model -o out.values ;;
    *) name=eval && set -- eval tables.bin --model tables.model --data many.tsv --by C2 --by-max 3 ;;
    esac
    timeout 300 "$h" launch --local "$nodes" -- "$@" >figures 2>log </dev/null &
    launcher=$!
    sleep "$delay"
    pid=$(pid_here "^heterps-run $name tables.bin .*--rank=$((victim % nodes))( |\$)")
    if [ -z "$pid" ]; then
        late=$((late + 1))
    elif [ "$kills" = 1 ]; then
        killed=$((killed + 1))
        kill -9 "$pid" 2>/dev/null
    else
        paused=$((paused + 1))
        kill -STOP "$pid" 2>/dev/null
        sleep 1
        kill -CONT "$pid" 2>/dev/null
    fi
    wait $launcher
    status=$?
    launcher=
    sed 's/, [0-9.]* s)$/)/' figures | tail -n "$(wc -l <one.figures)" >found
    case $what in
    0) [ $status = 0 ] && cmp -s one.txt out ;;
    1) [ $status = 0 ] && diff -r one.values out.values >/dev/null ;;
    *) [ $status = 0 ] && cmp -s one.figures found ;;
    esac || {
        echo "not ok: $name on $nodes nodes, $((victim % nodes)) after $delay s: status $status"
        tail -n 4 log
        bad=$((bad + 1))
    }
done <draws
echo "$runs runs: $killed with a node killed, $paused paused; of $late the node had ended; $bad of them wrong"
[ $bad = 0 ] && [ $((killed + paused)) -gt 0 ]

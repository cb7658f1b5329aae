#!/bin/sh
# Usage: sh tests/quality/exact.sh [RUNS [PROGRAM]]       defaults: 20, ./heterps-run; SEED=N repeats a series
# train.exact on 2, 3 and 4 nodes over loopback, of a model with a table. RUNS runs of each, in which nodes stand
# still for random times, have to end with equal bytes, and to find equal figures in evaluations on the way. Without
# train.exact, some of a few runs of three nodes have to differ. Status 1 if it is otherwise.
set -u
runs=${1:-20} h=${2:-./heterps-run}
case $h in /*) ;; *) h=$PWD/$h ;; esac
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'kill $launcher 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
launcher= bad=0
cd "$work" || exit 1
. "$root/tests/e2e/nodes.sh"
tables_model
"$h" compile tables.cfg -o model.bin -q --set train.sync=wsp --set train.lanes=1 --set train.in_flight=3 \
    --set train.clock_distance=2 --set checkpoint.every=60 && "$h" gen criteo --rows 8000 -o data.tsv -q || exit 1
seed=${SEED:-$(date +%s)}
echo "seed $seed"
# sum_of N YES_OR_NO: trains, while nodes are stopped and go on; what it has then, in $sum.
sum_of() {
    rm -rf many.model many
    "$h" launch --local "$1" -- model.bin --data data.tsv --out many.model --set train.exact="$2" \
        --eval data.tsv --set eval.every=50 --log json >events 2>log &
    launcher=$!
    for pause in $(awk -v seed="$seed" 'BEGIN { srand(seed); for (i = 0; i < 4; i++) print int(rand() * 100) }'); do
        sleep "0.$(printf %02d "$pause")"
        pid=$(pgrep -P $launcher -f -- "--rank=$((pause % $1))( |\$)" | head -1)
        [ -n "$pid" ] && kill -STOP "$pid" 2>/dev/null && sleep 0.1 && kill -CONT "$pid" 2>/dev/null
    done
    seed=$((seed + 1))
    wait $launcher || { echo "not ok: status $?"; tail -3 log; bad=$((bad + 1)); }
    launcher=
    "$h" export model.bin --model many.model -o many -q
    sum=$( (find many -type f | sort | xargs cat && grep '"event":"eval"' events | sed 's/"seconds":[^,]*,//') | md5sum)
}
for n in 2 3 4; do
    equal=0 first=
    for i in $(seq "$runs"); do
        sum_of $n yes
        [ -n "$first" ] || first=$sum
        [ "$sum" = "$first" ] && equal=$((equal + 1))
    done
    echo "$n nodes: $equal of $runs runs have equal bytes"
    [ $equal = "$runs" ] || bad=$((bad + 1))
done
sum_of 3 no && first=$sum && others=0
for i in 1 2 3; do
    sum_of 3 no
    [ "$sum" = "$first" ] || others=$((others + 1))
done
echo "without train.exact $others of 3 further runs of 3 nodes have other bytes"
[ $others -gt 0 ] || bad=$((bad + 1))
[ $bad = 0 ]

#!/bin/sh
# Usage: sh tests/quality/gowalla.sh DATA [NODES] [PROGRAM]       DATA: a folder with train.txt and test.txt of
#                                                                 Gowalla's check-ins; 4; ./heterps-run;
#                                                                 EPOCHS=N (default 3)
# Trains samples/two_tower.cfg of 16 lanes on NODES nodes over loopback, and kills the last node when there is
# a save. The others have to end with the values and the figures of one node, and with a recall@20 of at least
# 0.12. Prints what node 0 says from the loss on, and what one node finds; status 1 if anything is wrong.
set -u
[ -r "${1:-}/train.txt" ] && [ -r "$1/test.txt" ] || { sed -n 2,3p "$0"; exit 2; }
data=$(cd "$1" && pwd) nodes=${2:-4} h=${3:-./heterps-run}
case $h in /*) ;; *) h=$PWD/$h ;; esac
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
launcher=
trap 'kill $launcher 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
cd "$work" && cp "$h" program && h=$work/program || exit 1 # whatever is built meanwhile
. "$root/tests/quality/one_node.sh"
"$h" compile "$root/samples/two_tower.cfg" -o model.bin -q --set "items.path=$data/train.txt" \
    --set train.lanes=16 --set store.ram=256MiB \
    --set "train.epochs=${EPOCHS:-3}" --set "eval.exclude=$data/train.txt" --set checkpoint.every=100 \
    --set cluster.timeout=2 || exit 1
ln -s "$data/train.txt" data.tsv
one_node --eval "$data/test.txt" --log json >one.log || exit 1
"$h" launch --local "$nodes" -- model.bin --data data.tsv --eval "$data/test.txt" --out many.model >many.log 2>&1 &
launcher=$!
until ls many.model/manifest*.json >/dev/null 2>&1 || ! kill -0 $launcher 2>/dev/null; do sleep 0.1; done
kill -9 "$(pid_here "^heterps-run model.bin .*--rank=$((nodes - 1))( |\$)")" && echo "node $((nodes - 1)) is killed"
wait $launcher
status=$?
launcher=
sed -n '/ is lost/,$p' many.log | grep -E '^\[0\] (heterps-run|nodes|resume|saved|eval)' |
    awk '/saved/ { last = $0; next } last != "" { print last; last = "" } { print } END { print last }'
one=$(sed -n 's/.*"event":"eval".*"recall":\([0-9.]*\).*/\1/p' one.log | tail -1 | awk '{ printf "%.5f", $1 }')
many=$(sed -n 's/^\[0\] eval  *step .*recall \([0-9.]*\),.*/\1/p' many.log | tail -1)
echo "recall@20: one node $one, $nodes nodes $many"
told "$nodes nodes of which one is killed" many.log '[ $status = 0 ]' 'grep -q " is lost" many.log' \
    'grep -q "resume   after step" many.log' \
    'as_one_node many.model' \
    "awk 'BEGIN { exit !(${many:-0} >= 0.12 && ${many:-0} - ${one:-0} < 1e-4 && ${one:-0} - ${many:-0} < 1e-4) }'"
[ $bad = 0 ]

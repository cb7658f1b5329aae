#!/bin/sh
# Usage: sh tests/quality/nodes_samples.sh [NODES...] [-- SAMPLE...]       default: 2 3, and all of samples/; H=PROGRAM
# Trains every sample on each of these numbers of nodes over loopback, and compares what is exported with one node's,
# byte for byte. Lines come from `gen`; where a vocabulary is counted, or nodes are a chain, they are drawn here. A
# sample that one node does not train as it stands is left out, with a line that says so. Status 1 if one differs.
set -u
h=${H:-./heterps-run}
case $h in /*) ;; *) h=$PWD/$h ;; esac
root=$(cd "$(dirname "$0")/../.." && pwd)
counts= samples=
while [ $# -gt 0 ] && [ "$1" != -- ]; do counts="$counts $1" && shift; done
[ $# = 0 ] || shift
for sample in "$@"; do samples="$samples $root/samples/$sample.cfg"; done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
cd "$work" || exit 1
set_flags='--set train.lanes=8 --set train.batch=64 --set train.epochs=1 --set train.stop=none'
set_flags="$set_flags --set eval.every=0 --set checkpoint.every=0 --set data.eval_fraction=0"
bad=0 same=0 left=0
# Words of a text, 20 a line; items of users, 2 to 21 each, all different; chains of 1 to 12 words. Frequent ones first.
awk 'BEGIN {
    srand(1)
    for (i = 0; i < 300; i++) { for (j = 0; j < 20; j++) printf "w%d ", exp(rand() * 6); print "" }
}' >text
awk 'BEGIN {
    srand(2)
    for (i = 0; i < 600; i++) { split("", seen); printf "u%d", i
        for (j = 2 + int(rand() * 20); j > 0; j--) {
            item = int(exp(rand() * 6))
            if (!(item in seen)) printf " i%d", item
            seen[item] = 1
        }
        print "" } }' >users
awk 'BEGIN {
    srand(3)
    for (i = 0; i < 600; i++) { left = right = ""
        for (j = int(rand() * 12); j > 0; j--) { left = left "(step w" int(exp(rand() * 5)) " "; right = right ")" }
        print "(" i % 2 " w" i % 7 " " left "(step w1)" right ")" } }' >chains
# lines_for TEXT: the data of a sample, and in $sources what compiling it takes.
lines_for() {
    sources=
    rm -rf data
    case $(sed -n 's/^\[vocabulary \(.*\)\].*/\1/p' "$1") in
    words) cp text data && sources="--set words.path=$work/text" ;;
    '') if grep -q '^kinds *= *step$' "$1"; then cp chains data && sources=' '; fi ;;
    items) cp users data && sources="--set items.path=$work/users --set eval.exclude=$work/users" ;;
    esac
}
# shellcheck disable=SC2086
one() { # NAME TEXT
    rm -rf g.bin one.model one.values
    lines_for "$2"
    "$h" compile "$2" -o g.bin $set_flags $sources -q 2>why &&
        { [ -n "$sources" ] || "$h" gen g.bin --rows 600 -o data -q 2>why; } &&
        "$h" g.bin --data data --out one.model --threads 1 -q 2>why &&
        "$h" export g.bin --model one.model -o one.values -q 2>why ||
        { echo "left out $1: $(head -n 1 why | cut -c 1-150)"; left=$((left + 1)); return; }
    for n in ${counts:-2 3}; do
        rm -rf many.model many.values
        if timeout 300 "$h" launch --local "$n" -- g.bin --data data --out many.model --threads 1 >/dev/null 2>why &&
            "$h" export g.bin --model many.model -o many.values -q 2>why &&
            diff -r one.values many.values >/dev/null; then
            same=$((same + 1))
        else
            echo "not ok $1, $n nodes: $(tail -n 1 why | cut -c 1-150)"
            bad=$((bad + 1))
        fi
    done
}
for text in ${samples:-"$root"/samples/*.cfg}; do one "$(basename "$text" .cfg)" "$text"; done
echo "$same trainings have one node's bytes, $bad do not; $left samples left out"
[ $bad = 0 ] && [ $same -gt 0 ] && { [ -n "$samples" ] || [ $left -le 1 ]; } # cluster.cfg is no model

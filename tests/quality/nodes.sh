#!/bin/sh
# Usage: sh tests/quality/nodes.sh [RUNS] [PROGRAM]       defaults: 100, ./heterps-run; SEED=N repeats a series
# Trainings on 2 to 4 nodes over loopback, of which one is killed, or stands still for a while, at a random moment, or
# none is and nothing is saved: each has to end, and with the bytes and the last figures of one node, of a table whose
# rows come and go. Prints a line a run that does not, and how many of each kind there were; status 1 if one did not.
set -u
runs=${1:-100} h=${2:-./heterps-run}
case $h in /*) ;; *) h=$PWD/$h ;; esac
work=$(mktemp -d)
trap 'kill $launcher 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
launcher=
cd "$work" || exit 1
cat >model.cfg <<'CFG'
[model]
name = nodes
[data]
dense = I1..I13
sparse = C1..C26
[table emb]
dim = 4
optimizer = adagrad 0.05
admit = 2
ttl = 12
[embedding e]
table = emb
input = sparse
[concat x]
input = e, dense
[fc h1]
input = x
units = 32
activation = relu
[fc y]
input = h1
units = 1
[loss bce]
input = y
[train]
batch = 64
lanes = 8
epochs = 40
optimizer = adam 0.005
[store]
ram = 8MiB
period = 20
[checkpoint]
every = 50
[eval]
every = 70
[cluster]
min = 2
timeout = 1
CFG
"$h" compile model.cfg -o model.bin -q && "$h" gen criteo --rows 6000 -o data.tsv -q && "$h" gen criteo --rows 500 --skip 6000 -o test.tsv -q &&
    "$h" model.bin --data data.tsv --eval test.tsv --out one.model --log json --threads 1 >one.log &&
    "$h" export model.bin --model one.model -o one -q || exit 1
figures() { grep '"event":"eval"' "$1" | tail -1 | sed 's/"seconds":[^,]*,//; s/"time":[^,]*,//'; }
[ -n "$(figures one.log)" ] || { echo "no evaluation: $(cat one.log)"; exit 1; }
seed=${SEED:-$(date +%s)}
echo "seed $seed"
awk -v seed="$seed" -v runs="$runs" 'BEGIN { srand(seed); for (i = 0; i < runs; i++) print 2 + int(rand() * 3), int(rand() * 4), 0.1 + rand() * 1.5, int(rand() * 3), 0.1 + rand() * 3 }' >draws
bad=0 killed=0 paused=0 unsaved=0 late=0
while read -r nodes victim delay kind pause; do
    rm -rf many.model many
    out='--out many.model' what="$nodes nodes"
    [ "$kind" != 0 ] || out=
    timeout 120 "$h" launch --local "$nodes" -- model.bin --data data.tsv --eval test.tsv $out --log json >many.log 2>log &
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
        "$h" export model.bin --model many.model -o many -q && diff -r one many >/dev/null || { echo "not ok: $what: other bytes"; bad=$((bad + 1)); }
    fi
done <draws
echo "$runs runs: $killed with a node killed, $paused paused, $unsaved without a save; of $late the node had ended; $bad of them wrong"
[ $bad = 0 ]

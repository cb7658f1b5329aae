#!/bin/sh
# Usage: sh tests/quality/nodes.sh [RUNS] [PROGRAM]       defaults: 100, ./heterps-run; SEED=N repeats a series;
#                                                         MODEL=dense: numbers alone; MODEL=stay: rows that
#                                                         stay; LONG=1: pauses alone, of 10 to 60 s; VERBOSE=1:
#                                                         a line a run
# Trainings on 2 to 4 nodes over loopback, each of any lanes, or of none: then it serves rows and slices, alone or
# with the others. One node is killed, or stands still for a while; or nothing happens, and nothing is saved. Each
# training has to end with the bytes and the last figures of one node, of a table whose rows come and go. A third of
# the moments are random. The others are of a kind that aim.py waits for, in turn: handshake, recovery (after another
# kill, once there is a save), reading, rows, sums, update, save. Or one node is killed, and another when the one that
# comes in its place waits. One training in five goes on from a day before (--continue), one in five from what
# 2 to 4 nodes have left at a signal (--resume). Prints a line a wrong run, how many of each kind there were, and
# how often hit nodes were at what: a node may be at several things at once. Status 1 if a run was wrong.
set -u
runs=${1:-100} h=${2:-./heterps-run}
case $h in /*) ;; *) h=$PWD/$h ;; esac
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'kill $launcher 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
launcher=
# A node that is started again is the same program, whatever is built meanwhile.
cd "$work" && cp "$h" program && h=$work/program || exit 1
. "$root/tests/quality/one_node.sh"
case ${MODEL:-} in
dense) dense_model train.epochs=40 checkpoint.every=50 eval.every=70 cluster.min=2 cluster.timeout=1 ;;
stay) nodes_model train.epochs=40 checkpoint.every=50 eval.every=70 cluster.min=2 cluster.timeout=1 ;;
*)
    nodes_model emb.admit=2 emb.ttl=12 store.period=20 train.epochs=40 checkpoint.every=50 eval.every=70 \
        cluster.min=2 cluster.timeout=1
    ;;
esac && "$h" gen criteo --rows 500 --skip 6000 -o test.tsv -q && one_node --eval test.tsv --log json >one.log || exit 1
figures() { grep '"event":"eval"' "$1" | tail -1 | sed 's/"seconds":[^,]*,//; s/"time":[^,]*,//; s/"node":[^,]*,//'; }
[ -n "$(figures one.log)" ] || { echo "no evaluation: $(cat one.log)"; exit 1; }
"$h" gen criteo --rows 6000 --skip 7000 -o day.tsv -q && "$h" model.bin --data day.tsv --continue one.model \
        --out day.model --threads 1 --eval test.tsv --log json >day.log &&
    "$h" export model.bin --model day.model -o day -q || exit 1
seed=${SEED:-$(date +%s)}
echo "seed $seed"
awk -v seed="$seed" -v runs="$runs" -v long="${LONG:-0}" \
    -v kinds="handshake recovery reading$([ "${MODEL:-}" = dense ] || echo ' rows') sums update save" '
function place(servers) { x = int(rand() * 3); return x == 1 ? "local" : x == 2 && servers ? "servers" : "spread" }
function lanes_of(nodes,    left, n, x, lanes) {
    left = 8; servers = 0; lanes = ""
    for (n = 1; n < nodes; n++) {
        x = rand() < 0.4 ? 0 : 1 + int(rand() * (left - nodes + n))
        servers += x == 0
        left -= x
        lanes = lanes "," x
    }
    if (rand() < 0.2) { servers = 0; return "auto" }
    return left lanes
}
BEGIN {
    srand(seed); count = split(kinds, kind, " ")
    for (i = 0; i < runs; i++) {
        nodes = 2 + int(rand() * 3); lanes = lanes_of(nodes)
        what = rand() < 0.33 ? "any" : kind[1 + aimed++ % count]
        x = rand(); from = x < 0.2 ? "day" : x < 0.4 ? "half" : "new"
        x = rand(); how = x < 0.1 && what == "any" && from == "new" ? "none" : x < 0.55 && !long ? "kill" : "pause"
        if (nodes > 2 && from == "new" && what == "any" && how != "none" && !long && rand() < 0.5) {
            what = "replaced"; how = "kill"
        }
        print nodes, int(rand() * 4), 0.1 + rand() * 1.5, how, long ? 10 + rand() * 50 : 0.1 + rand() * 3, lanes,
            place(servers), place(servers), what, from, 2 + int(rand() * 3)
    }
}' >draws
: >hits
killed=0 paused=0 unsaved=0 served=0 continued=0 resumed=0 waited=0
start() { # NODES ARGUMENT...: begins a training, of the data of today
    start_nodes=$1
    shift
    timeout 300 "$h" launch --local "$start_nodes" -- model.bin --eval test.tsv --log json "$@" >many.log 2>log &
    launcher=$!
}
ended() { # STATUS: of the launcher
    wait $launcher
    status=$?
    launcher=
    [ $status = "$1" ]
}
rank() { echo "^heterps-run model.bin .*--rank=$1( |\$)"; }
aim() { # WHAT RANK: waits beside this for a moment to hit it as the draw says
    case $how in kill) set -- "$1" "$2" kill ;; *) set -- "$1" "$2" pause "$pause" ;; esac
    rm -f ready
    AIM_READY=ready python3 "$root/tests/quality/aim.py" "$3" ${4:-} "$1" 8 "$(rank "$2")" >hit &
    aimer=$!
    until [ -e ready ]; do sleep 0.02; done
}
did() { case $how in kill) echo killed ;; *) echo paused ;; esac }
aimed() { # RANK: waits until that is done, and notes at what it was
    wait $aimer
    cat hit >>hits
    if [ -s hit ] && ! grep -q gone hit; then
        case $how in kill) killed=$((killed + 1)) ;; *) paused=$((paused + 1)) ;; esac
    fi
    what="$what, $1 $(did) at: $(cat hit)"
}
saved() { # there is a save, or the training is over
    left=100
    while [ $left -gt 0 ] && ! ls many.model/manifest*.json >/dev/null 2>&1 && kill -0 $launcher 2>/dev/null; do
        left=$((left - 1))
        sleep 0.05
    done
}
while read -r nodes victim delay how pause lanes rows slices aim from before; do
    rm -rf many.model
    data=data.tsv expected=one first= victim=$((victim % nodes))
    what="$nodes nodes of $lanes lanes, rows $rows, slices $slices, from $from, at $aim after $delay s"
    case $lanes in *,0*) served=$((served + 1)) ;; esac
    set -- --out many.model --lanes "$lanes" --set cluster.rows="$rows" --set cluster.slices="$slices"
    case $from in
    day)
        continued=$((continued + 1)) data=day.tsv expected=day
        set -- "$@" --continue one.model
        ;;
    half) # so many others have begun it
        resumed=$((resumed + 1))
        start "$before" --data data.tsv --out many.model
        saved
        kill -TERM $launcher 2>/dev/null
        ended 75 || [ $status = 0 ] || {
            echo "not ok: $what: $before nodes that were to stop end with $status"
            tail -3 log
            bad=$((bad + 1))
            continue
        }
        set -- "$@" --resume many.model
        ;;
    esac
    if [ "$how" = none ]; then
        shift 2
        unsaved=$((unsaved + 1)) what="$what, nothing saved"
    fi
    case $lanes,$aim in
    *,any | auto,*) ;;
    *) [ "$(echo "$lanes" | cut -d, -f$((victim + 1)))" != 0 ] || victim=0 ;;
    esac
    case $how,$from,$aim in
    *,*,handshake | *,half,recovery | *,day,recovery) # which come at once
        aim $aim $victim
        start "$nodes" --data $data "$@"
        aimed $victim
        ;;
    *,new,recovery) # of another node, which the end of the first one leads to
        start "$nodes" --data $data "$@"
        saved
        aim recovery $(((victim + 1) % nodes))
        python3 "$root/tests/quality/aim.py" kill any 1 "$(rank $victim)" >/dev/null
        aimed $(((victim + 1) % nodes))
        ;;
    *,*,replaced) # and who comes in its place waits, until another one is killed
        start "$nodes" --data $data "$@"
        saved
        [ "$victim" != 0 ] || victim=1
        python3 "$root/tests/quality/aim.py" kill any 1 "$(rank $victim)" >/dev/null
        left=100
        while [ $left -gt 0 ] && ! grep -q 'takes part when another one is lost' many.log log &&
            kill -0 $launcher 2>/dev/null; do
            left=$((left - 1))
            sleep 0.05
        done
        if grep -q 'takes part when another one is lost' many.log log; then waited=$((waited + 1)); fi
        victim=$((victim % (nodes - 1) + 1))
        aim any $victim
        aimed $victim
        ;;
    none*) start "$nodes" --data $data "$@" ;;
    *)
        start "$nodes" --data $data "$@"
        sleep "$delay"
        aim $aim $victim
        aimed $victim
        ;;
    esac
    if ! ended 0; then
        echo "not ok: $what: status $status"
        tail -12 log
        bad=$((bad + 1))
    elif [ "$(figures many.log)" != "$(figures $expected.log)" ]; then
        echo "not ok: $what: other figures: $(figures many.log)"
        bad=$((bad + 1))
    elif [ "$how" != none ]; then
        rm -rf many
        "$h" export model.bin --model many.model -o many -q && diff -r $expected many >/dev/null ||
            { echo "not ok: $what: other bytes"; bad=$((bad + 1)); }
    fi
    [ -z "${VERBOSE:-}" ] || echo "$what"
done <draws
for kind in handshake recovery reading rows sums update save; do # what 300 runs have to reach
    [ "$runs" -lt 300 ] || [ "$kind ${MODEL:-}" = 'rows dense' ] ||
        [ "$(tr ' ' '\n' <hits | grep -cx $kind)" -ge 20 ] ||
        { echo "not ok: fewer than 20 hits at $kind"; bad=$((bad + 1)); }
done
echo "$runs runs: $killed with a node killed, $paused paused, $unsaved without a save;" \
    "$continued went on from a day before, $resumed from other nodes; $served with parameter servers;" \
    "$waited times one that came again waited until another was killed; $bad of them wrong"
tr ' ' '\n' <hits | sort | uniq -c | awk '{ line = line (NR > 1 ? ", " : "") $2 " " $1 }
        END { print "hit nodes were at: " line " (of '"$(wc -l <hits)"' hits)" }'
[ $bad = 0 ]

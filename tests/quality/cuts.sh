#!/bin/sh
# Usage: sh tests/quality/cuts.sh [RUNS] [PROGRAM]       defaults: 20, ./heterps-run; SEED=N repeats a series;
#                                                        VERBOSE=1: a line a run
# Trainings on four nodes, each in a network namespace, with a cable between every two of them. At random moments
# cables are cut for 0.2 to 3 s: one cable in one direction or in both, or all cables of a node, so that it does not
# send, does not receive, or neither. A cut that lasts loses nodes (cluster.timeout = 1, cluster.min = 2), which join
# again when the next one is lost. A node that may go on (75) is started again, unless the training has ended without
# it. Every training has to end with the bytes and the last figures of one node, of a table whose rows come and go.
# Prints a line a wrong run, how many cuts of each kind there were, and how many of them lost a node. Status 1 if a
# run was wrong; 77 with a sentence where there can be no namespaces.
set -u
runs=${1:-20} h=${2:-./heterps-run}
case $h in /*) ;; *) h=$PWD/$h ;; esac
if [ "${CUTS_INSIDE:-}" != yes ]; then
    unshare --net --mount true 2>/dev/null && command -v tc >/dev/null ||
        { echo "cuts.sh: there can be no network namespaces here (root, Debian: iproute2)" >&2; exit 77; }
    CUTS_INSIDE=yes exec unshare --net --mount --pid --fork --mount-proc --kill-child sh "$0" "$runs" "$h"
fi
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
cd "$work" && cp "$h" program && h=$work/program || exit 1
. "$root/tests/quality/one_node.sh"
nodes_model emb.admit=2 emb.ttl=12 store.period=20 train.epochs=20 cluster.connect=5 checkpoint.every=50 eval.every=70 \
    cluster.min=2 cluster.timeout=1 &&
    "$h" gen criteo --rows 500 --skip 6000 -o test.tsv -q && one_node --eval test.tsv --log json >one.log || exit 1
figures() { grep '"event":"eval"' "$1" | tail -1 | sed 's/"seconds":[^,]*,//; s/"time":[^,]*,//; s/"node":[^,]*,//'; }
[ -n "$(figures one.log)" ] || { echo "no evaluation: $(cat one.log)"; exit 1; }

# Node i has 10.77.0.i; its end of the cable to node j is to_j. Frames of a cut end go nowhere.
mount -t tmpfs tmpfs /run && mkdir /run/netns || exit 1
for i in 1 2 3 4; do
    ip netns add n$i && ip -n n$i link set lo up && ip -n n$i address add 10.77.0.$i/32 dev lo || exit 1
done
for i in 1 2 3; do
    for j in 2 3 4; do
        [ $i -lt $j ] || continue
        ip -n n$i link add to_$j type veth peer name to_$i netns n$j && ip -n n$i link set to_$j up &&
            ip -n n$j link set to_$i up &&
            ip -n n$i address add 10.77.$i$j.1/30 dev to_$j && ip -n n$j address add 10.77.$i$j.2/30 dev to_$i &&
            ip -n n$i route add 10.77.0.$j/32 via 10.77.$i$j.2 src 10.77.0.$i &&
            ip -n n$j route add 10.77.0.$i/32 via 10.77.$i$j.1 src 10.77.0.$j || exit 1
    done
done
nodes=10.77.0.1:4711,10.77.0.2:4711,10.77.0.3:4711,10.77.0.4:4711
end_cut() { tc -n n$1 qdisc replace dev to_$2 root pfifo limit 0; }
end_join() { tc -n n$1 qdisc del dev to_$2 root 2>/dev/null; }
ends() { # KIND A B: the ends that it cuts, a pair a line
    case $1 in
    oneway) echo $2 $3 ;;
    bothways) echo "$2 $3"; echo "$3 $2" ;;
    esac
    for other in 1 2 3 4; do
        [ $other != "$2" ] || continue
        case $1 in sends | alone) echo "$2 $other" ;; esac
        case $1 in receives | alone) echo "$other $2" ;; esac
    done
}
seed=${SEED:-$(date +%s)}
echo "seed $seed"
awk -v seed="$seed" -v runs="$runs" 'BEGIN {
    srand(seed); count = split("oneway bothways sends receives alone", kind, " ")
    for (i = 0; i < runs; i++) { # a run has three cuts, one behind the other
        line = ""
        for (c = 0; c < 3; c++) { a = 1 + int(rand() * 4); b = 1 + (a + int(rand() * 3)) % 4
            line = line " " 0.2 + rand() * 1.3 " " kind[1 + (3 * i + c) % count] " " a " " b
            line = line " " (rand() < 0.3 ? 0.2 + rand() * 0.6 : 1.2 + rand() * 1.8) }
        print line
    }
}' >draws
node() { # RANK: until the job is over
    while :; do
        timeout 120 ip netns exec n$(($1 + 1)) "$h" model.bin --eval test.tsv --log json --data data.tsv \
            --out many.model --lanes 2,3,1,2 --nodes $nodes --rank "$1" --insecure --again \
            >>many$1.log 2>>err$1 </dev/null
        node_status=$?
        [ $node_status = 75 ] || break
        [ ! -e status0 ] || { node_status=late; break; } # nobody is left to find
    done
    echo $node_status >status$1
}
losses() { cat many?.log err? 2>/dev/null | grep -c ' is lost'; }
: >cuts
late=0
while read -r draw; do
    rm -rf many.model many many?.log status? err?
    for rank in 0 1 2 3; do node $rank & done
    what=
    # shellcheck disable=SC2086
    set -- $draw
    while [ $# -gt 0 ] && [ ! -e status0 ]; do
        sleep "$1"
        lost=$(losses)
        [ -e status0 ] || { ends "$2" "$3" "$4" >now; what="$what, $2 of $3 and $4 for $5 s after $1 s"
            while read -r a b; do end_cut "$a" "$b"; done <now
            sleep "$5"
            while read -r a b; do end_join "$a" "$b"; done <now
            sleep 0.3
            [ "$(losses)" = "$lost" ] && echo "$2 held" >>cuts || echo "$2 lost" >>cuts; }
        shift 5
    done
    wait
    statuses=$(cat status0 status1 status2 status3 | tr '\n' ' ')
    late=$((late + $(grep -l late status? | wc -l)))
    if [ "$(echo "$statuses" | sed 's/late/0/g')" != '0 0 0 0 ' ] ||
        { grep -q late status? && ! grep -q '"nodes":[123],' many0.log; }; then
        echo "not ok$what: statuses $statuses"
        tail -qn 2 many?.log err?
        bad=$((bad + 1))
    elif [ "$(figures many0.log)" != "$(figures one.log)" ]; then
        echo "not ok$what: other figures"
        bad=$((bad + 1))
    elif ! as_one_node many.model; then
        echo "not ok$what: other bytes"
        bad=$((bad + 1))
    fi
    [ -z "${VERBOSE:-}" ] || echo "$statuses$what"
done <draws
echo "$runs runs, $bad of them wrong, in which $late nodes came back too late; cuts, and what became of the nodes:" \
    $(sort cuts | uniq -c | awk '{ print (NR > 1 ? ", " : "") $2, $3, $1 }')
[ $bad = 0 ]

#!/bin/sh
# Usage: sh tests/quality/stages.sh [RUNS] [PROGRAM]       defaults: 30, build/release/heterps-emu; SEED=N
#                                                          repeats a series
# Plans whose stages lie on 2 to 4 nodes over loopback, each on one node or on several, drawn at random, for three
# models (a CTR net, three towers of one table with skips between, DLRM), on cores and on emulated cards. In every run
# one node is killed at a random moment after the first save; before and after that nodes stand still for a while. Each
# run has to end with the bytes that the same devices have on one node. Prints a line a wrong run; status 1 if there was
# one.
set -u
runs=${1:-30} h=${2:-build/release/heterps-emu}
case $h in /*) ;; *) h=$PWD/$h ;; esac
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
launcher=
trap 'kill $launcher 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
cd "$work" || exit 1
. "$root/tests/quality/one_node.sh"
seed=${SEED:-$(date +%s)}
echo "seed $seed"

# model NAME LAYERS SETTING...: NAME.bin and NAME.tsv.
model() {
    name=$1
    shift
    for value in "$@"; do set -- "$@" --set "$value"; shift; done
    "$h" compile "$root/samples/$name.cfg" -o "$name.bin" -q --set train.batch=64 --set train.micro=8 \
        --set train.lanes=4 --set train.epochs=2 \
        --set checkpoint.every=10 --set cluster.timeout=3 --set cluster.connect=60 --set store.ram=8MiB "$@" &&
        "$h" gen "$name.bin" --rows 2000 --vocab 300 -o "$name.tsv" -q
}
model ctrdnn emb.dim=4 h1.units=24 h2.units=16 h3.units=8 train.clip_norm=0.5 &&
    model matchnet words.dim=8 query_fc.units=8 pos_title_fc.units=8 neg_title_fc.units=8 \
    query_sum_pool.dim=8 pos_title_sum_pool.dim=8 neg_title_sum_pool.dim=8 &&
    model dlrm emb.dim=4 b1.units=8 b2.units=4 dots.dim=4 t1.units=16 t2.units=8 || exit 1

# The layers of a model: how many there are.
layers() {
    "$h" inspect "$1.bin" |
        awk '/^Layers:/ { on = 1; getline; next } on && $1 == "total" { exit } on { n++ } END { print n }'
}

# pid_of MODEL RANK: the node.
pid_of() { pid_here "$1.bin .*--plan nodes.json .*--rank=$2( |\$)"; }

bad=0 done=0 killed=0 cards=0 shared=0 ends=0
awk -v seed="$seed" 'BEGIN { srand(seed); for (i = 0; i < 100000; i++) print int(rand() * 2147483647) }' >numbers
exec 3<numbers
while [ $done -lt $((runs * 3)) ]; do
    read -r number <&3
    # What lies on the same nodes: layers that share a table or parameters; the last ones, with losses and heads.
    # A card has all or none of the former.
    case $((done % 3)) in
    0) name=ctrdnn ties=0 last=2 ;;
    1) name=matchnet ties='0 3 4 7 8 11' last=4 ;;
    2) name=dlrm ties=0 last=2 ;;
    esac
    count=$(layers $name)
    awk -v seed="$number" -v layers="$count" -v ties="$ties" -v last="$last" '
    function stage_of(l,  s) { s = 0; for (i = 1; i <= l; i++) s += cut[i]; return s }
    function is_whole(  n, s, has) {
        for (n = 0; n < nodes; n++) {
            has = 0
            for (s = 0; s < stages; s++) has += index(node[s], n) > 0
            if (!has) return 0
        }
        return 1
    }
    function some(  n, list) { # one node, or any two or more
        if (rand() < 0.5) return int(rand() * nodes) ""
        list = ""
        for (n = 0; n < nodes; n++) if (rand() < 0.6) list = list (list == "" ? "" : "+") n
        return list == "" ? "0" : list
    }
    BEGIN {
        srand(seed); most = layers < 6 ? layers : 6
        do {
            nodes = 2 + int(rand() * 3); stages = nodes + int(rand() * (most - nodes + 1))
            for (i = 1; i < layers; i++) cut[i] = 0
            for (k = 1; k < stages; ) { c = 1 + int(rand() * (layers - 1)); if (!cut[c]) { cut[c] = 1; k++ } }
            for (s = 0; s < stages; s++) node[s] = some()
            tied = split(ties, tie, " ")
            for (k = 2; k <= tied; k++) node[stage_of(tie[k])] = node[stage_of(tie[1])]
            for (l = layers - last; l < layers; l++) node[stage_of(l)] = node[stages - 1]
                    is_tied = 1
            for (k = 2; k <= tied; k++) is_tied = is_tied && node[stage_of(tie[k])] == node[stage_of(tie[1])]
        } while (!is_whole() || !is_tied)
        first = 0; s = 0; text = ""
        for (l = 1; l <= layers; l++) if (l == layers || cut[l]) {
            r = rand()
            device = r < 0.35 && (tied < 2 || first > tie[tied]) ? "emu" : r < 0.5 ? "2:2" : "1:1"
            text = text first "-" (l - 1) ":" device "@" node[s] " "; first = l; s++
        }
        print nodes, int(rand() * nodes), 0.05 + rand() * 0.4, int(rand() * nodes), 0.1 + rand() * 0.4 >"draw"
        print text >"plan"
    }'
    read -r nodes victim delay still pause <draw
    plan=$(cat plan)
    python3 "$root/tests/e2e/make_plan.py" nodes.json "$plan"
    python3 "$root/tests/e2e/make_plan.py" one.json "$(echo "$plan" | sed 's/@[0-9+]*//g')"
    what="$name on $nodes nodes: $plan"
    rm -rf many.model one.model many one
    timeout 300 "$h" launch --local "$nodes" -- $name.bin --data $name.tsv --share --plan nodes.json \
        --out many.model >log 2>&1 &
    launcher=$!
    while kill -0 $launcher 2>/dev/null && ! grep -q 'saved ' log; do sleep 0.05; done
    for turn in before after; do
        pid=$(pid_of $name "$still")
        [ -z "$pid" ] || { kill -STOP "$pid" 2>/dev/null; sleep "$pause"; kill -CONT "$pid" 2>/dev/null; }
        [ $turn = after ] && break
        sleep "$delay"
        pid=$(pid_of $name "$victim")
        [ -z "$pid" ] || { kill -9 "$pid" 2>/dev/null && killed=$((killed + 1)); }
    done
    wait $launcher
    status=$?
    launcher=
    done=$((done + 1))
    case $plan in *emu*) cards=$((cards + 1)) ;; esac
    case $plan in *+*) shared=$((shared + 1)) ;; esac
    case ${plan##*@} in *+*) ends=$((ends + 1)) ;; esac
    if [ $status != 0 ]; then
        echo "not ok: $what: status $status"
        tail -3 log
        bad=$((bad + 1))
        continue
    fi
    "$h" $name.bin --data $name.tsv --share --plan one.json --out one.model -q &&
        "$h" export $name.bin --model one.model -o one -q &&
        "$h" export $name.bin --model many.model -o many -q && diff -r one many >/dev/null && continue
    echo "not ok: $what: other bytes"
    bad=$((bad + 1))
done
echo "$done runs: $killed with a node killed, $cards with emulated cards, $shared with a stage on several nodes," \
    "$ends of them the last one;" \
    "$bad of them wrong"
[ $bad = 0 ] && [ $killed -gt 0 ]

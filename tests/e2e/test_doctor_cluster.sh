#!/bin/sh
# doctor --cluster: nodes that are well are measured pair by pair; each thing that is wrong has its one
# sentence on the right node, and the others are looked at all the same.
. "$(dirname "$0")/lib.sh"
. tests/e2e/process.sh
cd "$folder" || exit 1
h=$HETERPS
heterps key -o key && heterps key -o other.key || { echo "not ok 1 - fixture"; exit 1; }

says() { grep -Eq -- "$1" "$2" || { echo "expected /$1/ in $2, found:"; cat "$2"; return 1; }; }
silent() { ! grep -Eq -- "$1" "$2" || { echo "did not expect /$1/ in $2, found:"; cat "$2"; return 1; }; }
count() { # N PATTERN FILE
    [ "$(grep -Ec -- "$2" "$3")" = "$1" ] || { echo "expected $1 times /$2/ in $3, found:"; cat "$3"; return 1; }
}

# --- all is well ------------------------------------------------------------------------------------------------------

table() { # a line a node, a line a pair
    place='127\.0\.0\.1:[0-9]+' cipher='(AES-GCM|ChaCha20)'
    runs 0 timeout 100 "$h" launch --local 3 -- doctor --cluster --links links.cfg &&
        count 3 "^  (ok|warn)  +node [0-2]  +$place " out &&
        count 3 "^  (ok|warn)  +node [12] - node [01]  +$place > $place +$cipher +[0-9]+ .* [kKMG]iB/s .* ± " out &&
        [ "$(tail -n 1 out)" = 'these nodes can train together' ]
}
check 'three nodes: a line a node, and a line a pair' table
same_port() { # the route is that of training: each node's listening port is the end of its pairs
    port=$(sed -n 's/^  ok    node 0  *127.0.0.1:\([0-9]*\) .*/\1/p' out) && [ -n "$port" ] &&
        count 2 "node [12] - node 0 .*> 127.0.0.1:$port " out
}
check 'a pair'\''s route ends at the port that its lower node listens at' same_port
events() {
    runs 0 timeout 100 "$h" launch --local 3 -- doctor --cluster --log json && python3 - out <<'PY'
import json, sys
events = [json.loads(line) for line in open(sys.argv[1])]
links = [e for e in events if e["event"] == "link"]
assert [(e["from"], e["to"]) for e in links] == [(1, 0), (2, 0), (2, 1)], links
for e in links:
    assert e["is_sealed"] == 1 and e["mtu_bytes"] >= e["segment_bytes"] > 500, e
    for name in "bytes_a_second", "bytes_a_second_back", "bytes_a_second_both":
        assert 1e5 < e[name] < 1e12, e
    assert 0 < e["round_trip_seconds"] < 5 and 0 < e["clock_within_seconds"], e
    # one machine has one clock
    assert abs(e["clock_ahead_seconds"]) <= e["clock_within_seconds"] * 1.001 + 1e-6, e
lines = [e for e in events if e["event"] == "doctor"]
assert [e["section"] for e in lines] == ["nodes"] * 3 + ["links"] * 3, lines
assert all(set(e) == {"event", "section", "state", "what", "needed", "found", "todo"} for e in lines)
assert events[-1]["event"] == "verdict" and events[-1]["fails"] == 0, events[-1]
PY
}
check '--log json' events
# What that run has measured is what plan takes: a type a node, joined by these sections.
links() {
    count 3 '^\[link [01]\.\.[12]\]$' links.cfg &&
        count 3 '^\[node [012]\]$' links.cfg && count 3 '^cores = [1-9][0-9]*$' links.cfg &&
        count 3 '^bandwidth = [0-9.e+]+$' links.cfg && count 3 '^latency = [0-9.e-]+$' links.cfg || return 1
    for node in 0 1 2; do
        printf '[type t%s]\nprice_per_hour = 0.%s\nlimit = 4\nflops = 1e9\n' $node $((node + 1))
        printf 'memory_bandwidth = 1e9\nlink_bandwidth = 1e9\nnode = %s\n' $node
    done >planned.cfg
    printf '[goal]\nexamples = 1000\n' | cat - links.cfg >>planned.cfg
    printf '[model]\n[layer a]\ntype = fc\nout_bytes = 1000\nflops = 9\n[layer b]\ntype = fc\nflops = 9\n' >layers.cfg
    runs 0 "$h" plan --layers layers.cfg --cluster planned.cfg --instance-out i.json --method cpu && python3 - <<'PY'
import json
i, lines = json.load(open("i.json")), [l.split(" = ") for l in open("links.cfg") if "=" in l and "cores" not in l]
assert i["format"] == "heterps-instance-2" and [n["name"] for n in i["nodes"]] == ["0", "1", "2"], i
assert [str(n["cores"]) for n in i["nodes"]] == [l[8:-1] for l in open("links.cfg") if l.startswith("cores = ")], i
found = {(l["from"], l["to"]): l for l in i["links"]}
first = {k: float(v) for k, v in lines[:3]}  # 0..1
assert found[0, 1]["bandwidth"] == first["bandwidth"], (found, first)
assert found[1, 0]["bandwidth"] == first["bandwidth_back"], (found, first)
assert found[0, 1]["latency"] == found[1, 0]["latency"] == first["latency"] > 0, (found, first)
PY
}
check '--links writes the sections that a plan is made with' links
alone() {
    runs 0 timeout 60 "$h" launch --local 1 -- doctor --cluster && count 1 '^  ok  +node 0 ' out && silent ' - node' out
}
check 'one node has no pairs' alone

# --- something is wrong -----------------------------------------------------------------------------------------------

# Ports that were free a moment ago: 1, 2, 3, and one where nobody listens.
python3 -c 'import socket
s = [socket.socket() for i in range(4)]
[x.bind(("127.0.0.1", 0)) for x in s]
print(*["127.0.0.1:%d" % x.getsockname()[1] for x in s])' >places
read -r a b c closed <places
# node RANK STATUS ARGUMENT...: in the background; what it is expected to end with is kept.
node() {
    node_rank=$1
    echo "$2" >"want$1"
    shift 2
    (
        timeout 100 "$h" doctor --cluster --rank "$node_rank" "$@" >"out$node_rank" 2>"err$node_rank" </dev/null
        echo $? >"got$node_rank"
    ) &
    nodes="$nodes $node_rank"
}
ends() {
    wait
    for r in $nodes; do
        cmp -s "want$r" "got$r" || {
            echo "node $r: exit status $(cat "got$r") instead of $(cat "want$r")"
            cat err0 err1 err2
            nodes=
            return 1
        }
    done
    nodes=
}
nodes=
all=$a,$b,$c
by_number() { # only node 0's place is known
    for r in 0 1 2; do node $r 0 --nodes 3 --coordinator "$a" --key-file key; done
    ends && count 3 'node [12] - node [01] .* ± ' out0 && says 'these nodes can train together' out0 &&
        [ ! -s out1 ] && [ ! -s err1 ]
}
check 'by their number and a coordinator; the others are silent' by_number
missing() {
    for r in 0 1; do node $r 1 --nodes "$all" --key-file key --wait 3; done
    ends && says "warning: waits for node 2 at $c" err0 && says "fail +node 2 +$c" out0 &&
        says 'has not come within 3 s' out0 &&
        says 'node 1 - node 0 .* ± ' out0 && says 'error: 1 thing is in the way of these nodes' err0 &&
        says 'error: node 0: 1 thing is in the way' err1
}
check 'a node is missing: said after two seconds, and the rest is measured' missing
other_key() {
    node 0 1 --nodes "$all" --key-file key --wait 6
    node 1 1 --nodes "$all" --key-file key --wait 6
    node 2 1 --nodes "$all" --key-file other.key --wait 6
    early='the node there has closed the connection before it has greeted'
    ends && says "error: 127.0.0.1:[0-9]*: $early: it refuses this node for its key" err2 &&
        says 'waits for node 2 at .*connections were refused' err0 &&
        says 'has not come within 6 s: [0-9]+ connections? (was|were) refused here, the last one of 127' out0 &&
        silent 'refuse' err1 && says 'node 1 - node 0 .* ± ' out0
}
check 'another key: said on that node, and on node 0' other_key
closed_port() { # node 2 is told of a port of node 1 at which nobody listens
    node 0 1 --nodes "$all" --key-file key
    node 1 1 --nodes "$all" --key-file key
    node 2 1 --nodes "$a,$closed,$c" --key-file key
    none="$closed: cannot connect: Connection refused"
    ends && says "fail +node 2 - node 1 +no link" out0 &&
        says "node 2 does not reach node 1: $none; is that the address and the port of node 1" out0 &&
        says "waits for node 1 at $closed: $none" err2 &&
        count 2 'node [12] - node 0 .* ± ' out0 &&
        says 'error: 1 thing is in the way' err0 && says 'error: node 0: 1 thing is in the way' err1
}
check 'a closed port between two nodes: said on the one, and of the pair; the rest is measured' closed_port
no_first() {
    fails_so 75 "node 0 at $closed is not found within 1 s: $closed: cannot connect: Connection refused" doctor \
        --cluster --nodes "$closed,$b" --rank 1 --key-file key --wait 1 -q
}
check 'nobody at the first one'\''s port' no_first
training() { # a training's node comes among them
    tiny_model && rows 300 "$folder/train.tsv" || return 1
    node 0 1 --nodes "$a,$b" --key-file key --wait 4
    runs 1 timeout 60 "$h" tiny.bin --data train.tsv --nodes "$a,$b" --rank 1 --key-file key --set train.lanes=2 &&
        says 'refuses this node: the verb is doctor --cluster here, and train there' err
    ends && says 'is refused: the verb is train there, and doctor --cluster here' err0 &&
        says 'has not come within 4 s: the verb is train there' out0
}
check 'a training'\''s node among them is refused in words' training
insecure() {
    for r in 0 1; do node $r 0 --nodes "$a,$b" --insecure; done
    ends && says 'node 1 - node 0 .*\(no key\)' out0 && says 'warning: --insecure' err0
}
check '--insecure: the table has no key' insecure
lost() { # in the midst of it
    node 0 75 --nodes "$a,$b" --key-file key --wait 60
    "$h" doctor --cluster --rank 1 --nodes "$a,$b" --key-file key >out1 2>err1 </dev/null &
    victim=$!
    helpers="$helpers $victim"
    kill -STOP $victim
    await 'waits for node 1' err0 && kill -9 $victim
    sh -c "exec timeout 60 '$h' doctor --cluster --rank 1 --nodes $a,$b --key-file key --wait 60" >out1 \
        2>err1 </dev/null
    echo 0 >want0
    ends && says 'node 1 - node 0 .* ± ' out0
}
check 'a process that is killed while it comes is followed by another' lost

check 'no nodes' fails_so 2 'expected the flags by which a training finds its nodes: --nodes' doctor --cluster
check 'no key' fails_so 2 'give --key-file FILE' doctor --cluster --nodes "$a,$b" --rank 0
check 'a graph is none of its business' fails_so 2 'unexpected argument "graph.bin"' doctor graph.bin \
    --cluster --nodes "$a,$b" --rank 0
check 'with a file it is the cluster of a training, as ever' fails_so 2 'expected GRAPH' doctor --cluster cluster.cfg

finish

#!/bin/sh
# Plans whose stages lie on several nodes, from a cluster text to trained bytes: what plan proposes and says, and that
# launch trains so, with one node's bytes; and what plan refuses.
. "$(dirname "$0")/lib.sh"
. tests/e2e/process.sh
. tests/e2e/nodes.sh
cd "$folder" || exit 1
h=$HETERPS

# tables, with most parameters behind h1.
tables_model
sed 's/^epochs = 3/epochs = 1/; s/^input = h1/input = f/;
    s/^activation = relu/&\n[fc g]\ninput = h1\nunits = 64\n[fc f]\ninput = g\nunits = 64/' tables.cfg >skew.cfg
cat >nodes.cfg <<'CFG'
[type worker]
device = cpu
nodes = a, b
price_per_hour = 0.04
limit = 2
[type back]
device = cpu
node = c
price_per_hour = 0.04
limit = 2
[node a]
[node b]
[node c]
price_per_hour = 0.01
[link]
bandwidth = 1e9
latency = 2e-5
[goal]
throughput = 1000
CFG
sed 's/^node = c/node = b/' nodes.cfg >two.cfg
heterps gen criteo --rows "$(scaled 4000)" -o data.tsv && heterps compile skew.cfg -o skew.bin &&
    trains skew skew.bin --data data.tsv --threads 1 || { echo "not ok 1 - fixture"; exit 1; }

# stages_are PLAN TEXT: "FIRST-LAST NODES | …", nodes as JSON has them.
stages_are() {
    python3 - "$1" "$2" <<'PYTHON'
import json, sys
stages = json.load(open(sys.argv[1]))["stages"]
found = " | ".join(f"{s['first']}-{s['last']} {s.get('nodes', s.get('node'))}" for s in stages)
print("expected", sys.argv[2], "found", found)
sys.exit(found != sys.argv[2])
PYTHON
}
# launched_same N PLAN: the bytes of one node.
launched_same() {
    rm -rf again.model
    runs 0 "$h" launch --local "$1" -- skew.bin --data data.tsv --out again.model --plan "$2" --share &&
        exported skew.bin again.model again && same_bytes skew again
}
ralp_split() { # a front on both workers, a back on the third node
    runs 0 "$h" plan skew.bin --data data.tsv --cluster nodes.cfg --method ralp --instance-out i.json -o ralp.json &&
        grep -q 'plan  *2 stages: e..h1 on [12] worker, nodes 0, 1 | g..bce on [12] back, node 2' out &&
        grep -q '^units .* of 2 worker on each of 2 nodes, .* of 2 back: ' out &&
        grep -q '^link  *from node a to c (e..h1 to g..bce): ' out &&
        grep -q '^link  *from node b to c (e..h1 to g..bce): ' out &&
        grep -q '^link  *between nodes a and b (e..h1): .* on each link, ' out &&
        stages_are ralp.json '0-2 [0, 1] | 3-6 2'
}
check 'ralp: the front on the nodes of the workers, the back on one' ralp_split
check 'three nodes train so: the bytes of one' launched_same 3 ralp.json
exact_same() { # the same problem in a file; exact and brute agree
    for method in exact brute; do
        runs 0 "$h" plan --instance i.json --method $method -o $method.json || return 1
    done
    python3 -c "
import json
exact, brute, ralp = (json.load(open(p + '.json')) for p in ('exact', 'brute', 'ralp'))
assert exact['proven'] and abs(exact['cost'] / brute['cost'] - 1) < 1e-9, (exact['cost'], brute['cost'])
assert exact['cost'] <= ralp['cost'] * (1 + 1e-9)
"
}
check 'exact and brute find the same cost' exact_same
both() { # the back shares a node with a worker; --explain and --compare tell links
    runs 0 "$h" plan skew.bin --data data.tsv --cluster two.cfg --method ralp --explain --compare \
        --evaluations 300 -o both.json &&
        grep -q '^links  *from node a to b (e..h1 to g..bce): .*; 2 cuts and exchanges' out &&
        grep -q '^  *between nodes a and b (e..h1): .* on each link' out &&
        grep -q '^ralp  *h1 to g: a..b .*, shared | e with h1: a..b .*, shared' out &&
        stages_are both.json '0-2 [0, 1] | 3-6 1' && launched_same 2 both.json
}
check 'a back on a node of the workers: explained, and trained by two nodes' both
even() { # where the third node costs too much, both have all layers
    sed 's/^price_per_hour = 0.01/price_per_hour = 100/' nodes.cfg >dear.cfg
    runs 0 "$h" plan skew.bin --data data.tsv --cluster dear.cfg --method exact -o even.json &&
        stages_are even.json '0-6 [0, 1]' && launched_same 2 even.json &&
        grep -q 'nodes    2, which have 4 and 4 of 8 lanes' err
}
check 'all layers on the nodes of one type: they share the lanes' even
refused() {
    fails_so 1 'nodes.cfg:1: \[type worker\]: expected at most as many nodes as a step has lanes, 1, found 2' \
        plan skew.bin --data data.tsv --cluster nodes.cfg --set train.lanes=1 &&
        runs 2 "$h" plan skew.bin --data data.tsv --cluster nodes.cfg --try 1 &&
        grep -q 'error: --try trains on this machine alone, and the types lie on 3 nodes' err &&
        sed 's/^nodes = a, b/node = a/' nodes.cfg >apart.cfg &&
        runs 2 "$h" plan skew.bin --data data.tsv --cluster apart.cfg --try 1 &&
        grep -q 'error: --try trains on this machine alone, and the types lie on 2 nodes' err &&
        fails_so 2 'nodes.cfg: its types lie on nodes: make a plan by .heterps-run plan' \
            skew.bin --data data.tsv --cluster nodes.cfg
}
check 'more nodes than lanes, and training at once are refused' refused
cards() { # the same problem with a card on each node: the bytes of one node with cards
    python3 -c "
import json
i = json.load(open('i.json'))
for t in i['types']: t.update(device='emu', limit=1)
json.dump(i, open('cards.i.json', 'w'))" &&
        python3 "$root/tests/e2e/make_plan.py" one.json '0-2:emu 3-6:emu' && head -n 256 data.tsv >few.tsv &&
        runs 0 "$BUILD/heterps-emu" skew.bin --data few.tsv --out skew.model --plan one.json --share &&
        exported skew.bin skew.model skew && rm -rf again.model &&
        runs 0 "$h" plan --instance cards.i.json --method ralp -o cards.json &&
        stages_are cards.json '0-2 [0, 1] | 3-6 2' &&
        runs 0 "$BUILD/heterps-emu" launch --local 3 -- skew.bin --data few.tsv --out again.model --plan cards.json \
            --share && exported skew.bin again.model again && same_bytes skew again
}
if [ -x "$BUILD/heterps-emu" ]; then
    check 'workers with a card each: planned, and trained' cards
else
    skip 'workers with a card each: planned, and trained' 'this build has no emulated card'
fi

finish

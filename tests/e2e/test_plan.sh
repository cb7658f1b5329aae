#!/bin/sh
# The verbs plan and pretrain from outside: every method's plan reads back, the same seed gives the same plan,
# what cannot be is explained, malformed files are refused by place; and training on a cluster: profiled,
# planned, planned anew.
. "$(dirname "$0")/lib.sh"
export HETERPS

# A small instance with room for wrong turns: 6 layers, 3 types.
python3 - "$work" <<'PYTHON'
import json, sys
kinds = ["embedding", "pool", "fc", "fc", "fc", "loss"]
work = [(0.30, 0.05, 0.06), (0.10, 0.03, 0.03), (0.90, 0.02, 0.015), (0.5, 0.012, 0.01),
        (0.1, 0.004, 0.003), (0.002, 0.001, 0.001)]
move = [0.2, 0.05, 0.01, 0.005, 0.002, 0.0]
layers = [{"name": f"l{i}", "type": kinds[i], "in_bytes": 4096 >> i, "weight_bytes": 1000,
           "cut_bytes": 4096 >> i, "oct": list(work[i]),
           "alpha": [0.99, 0.9, 0.9], "odt": [move[i]] * 3, "beta": [0.95, 0.8, 0.8]} for i in range(6)]
types = [{"name": "core", "price_per_hour": 0.04, "limit": 64}, {"name": "t4", "price_per_hour": 0.5, "limit": 4},
         {"name": "a10", "price_per_hour": 1.2, "limit": 4}]
instance = {"format": "heterps-instance-1", "name": "small", "L": 6, "T": 3, "B_o": 256, "M": 1e6, "epochs": 1,
            "throughput_limit": 9000, "types": types, "layers": layers}
json.dump(instance, open(sys.argv[1] + "/small.json", "w"))
json.dump(dict(instance, throughput_limit=1e9), open(sys.argv[1] + "/fast.json", "w"))
json.dump(dict(instance, layers=layers[:5]), open(sys.argv[1] + "/short.json", "w"))
layers[2]["oct"][1] = -1
json.dump(instance, open(sys.argv[1] + "/negative.json", "w"))
PYTHON

# --- methods ----------------------------------------------------------------------------------------------------------

plan() { "$HETERPS" plan --instance "$work/small.json" --seconds 0.2 "$@"; }
cost() { python3 -c "import json, sys; print(repr(json.load(open(sys.argv[1]))['cost']))" "$1"; }
check 'auto plans' plan -o "$work/auto.json"
check 'exact plans' plan --method exact -o "$work/exact.json"
check 'brute plans' plan --method brute -o "$work/brute.json"
if [ "$(cost "$work/exact.json")" = "$(cost "$work/brute.json")" ] &&
    [ "$(cost "$work/auto.json")" = "$(cost "$work/exact.json")" ]; then
    ok 'auto, exact and brute agree to the last bit'
else
    not_ok 'auto, exact and brute agree to the last bit'
fi
for method in rl rl-rnn rl+polish climb genetic greedy cpu gpu heuristic inverse; do
    "$HETERPS" plan --instance "$work/small.json" --method $method \
        --evaluations 2000 --seed 7 -o "$work/first.json" >"$work/first.out" 2>"$work/first.err"
    first=$?
    "$HETERPS" plan --instance "$work/small.json" --method $method \
        --evaluations 2000 --seed 7 -o "$work/second.json" >"$work/second.out" 2>"$work/second.err"
    if [ $first = 0 ] || grep -q '^heterps-run: error: infeasible: at most' "$work/first.err"; then
        if cmp -s "$work/first.json" "$work/second.json"; then
            ok "$method: the same seed, the same plan"
        else
            not_ok "$method: the same seed, the same plan"
        fi
    else
        not_ok "$method plans, or says how near it comes"
        note <"$work/first.err"
    fi
done
# A network by name, and RALP's split of it.
"$HETERPS" plan --net vgg11 --batch 64 --cluster cfg/paper2.cfg --method ralp >"$work/net.out" 2>/dev/null
if grep -q '2 stages: conv0..mpool4 on .* | affine0..affine2 on' "$work/net.out" &&
    grep -q 'split behind mpool4: skewness -3.62' "$work/net.out"; then
    ok 'ralp splits vgg11 before what is fully connected'
else
    not_ok 'ralp splits vgg11 before what is fully connected'
    note <"$work/net.out"
fi
# Virtual workers of four nodes, as HetPipe's.
"$HETERPS" plan --net vgg19 --batch 32 --cluster cfg/hetpipe-vgg19.cfg --workers ed --placement local \
    --in-flight 5 >"$work/workers.out" 2>&1
if grep -q '^workers    ed: 4 of 1 V + 1 R + 1 G + 1 Q; .*(local)$' "$work/workers.out" &&
    grep -q '^in flight  5 minibatches a worker, as asked$' "$work/workers.out" &&
    grep -q '^bytes      102 MiB a minibatch' "$work/workers.out" &&
    grep -q '^rate       588.1 examples/s, in simulation; as nodes train it, .*: 1,211; ' "$work/workers.out" &&
    grep -q '^  R  *conv0..mpool2 .* the slowest$' "$work/workers.out"; then
    ok 'virtual workers are proposed and explained'
else
    not_ok 'virtual workers are proposed and explained'
    note <"$work/workers.out"
fi
cheapest='no method is cheaper than the proven optimum; rl finds it here'
python3 - "$work" <<'PYTHON' && ok "$cheapest" || not_ok "$cheapest"
import json, subprocess, os, sys
work, program = sys.argv[1], os.environ["HETERPS"]
best = json.load(open(work + "/exact.json"))
out = subprocess.run([program, "plan", "--instance", work + "/small.json", "--seconds", "0.2", "--compare",
                      "--log", "json"], capture_output=True, text=True).stdout
events = {e["method"]: e for e in map(json.loads, out.splitlines()) if e["event"] == "plan"}
assert len(events) >= 12, events.keys()
for method, e in events.items():
    assert not e["feasible"] or e["cost"] >= best["cost"] * (1 - 1e-12), (method, e["cost"])
assert events["rl"]["cost"] <= best["cost"] * (1 + 1e-6)
PYTHON
one() { "$HETERPS" plan --instance "$work/small.json" --method rl --evaluations 1 --seed 3 -o "$work/one.json"; }
one >/dev/null 2>&1
python3 -c "
import json, sys
one, best = (json.load(open(p)) for p in sys.argv[1:])
sys.exit(one['feasible'] and one['cost'] < 1.02 * best['cost'])" "$work/one.json" "$work/exact.json" &&
    ok 'rl with one evaluation is visibly worse' || not_ok 'rl with one evaluation is visibly worse'

# --- what else it writes ----------------------------------------------------------------------------------------------

check 'compares, explains, draws, writes curves' plan --compare --explain \
    --html "$work/plan.html" --curve "$work/curve.tsv"
if [ "$(head -1 "$work/curve.tsv")" = "$(printf 'method\tevaluations\tseconds\tcost')" ] &&
    [ "$(cut -f1 "$work/curve.tsv" | sort -u | wc -l)" -gt 8 ]; then
    ok 'the curve has a line an improvement, of every method'
else
    not_ok 'the curve has a line an improvement, of every method'
fi
check 'the page is whole' python3 tests/e2e/page_check.py "$work/plan.html"
check 'pretrains a policy' "$HETERPS" pretrain -o "$work/policy" --count 3 --evaluations 500
check 'applies it' "$HETERPS" plan --instance "$work/small.json" --method policy \
    --policy "$work/policy" -o "$work/applied.json"
check 'begins with it and keeps what rl has learned' plan --method rl --policy "$work/policy" \
    --policy-out "$work/policy2"
printf 'x' | dd of="$work/policy2" bs=1 seek=100 conv=notrunc 2>/dev/null
fails 1 'policy2: ' 'a policy with a wrong byte' "$HETERPS" plan --instance "$work/small.json" \
    --method policy --policy "$work/policy2"
check 'a layer table on a stock cluster' "$HETERPS" plan --layers cfg/matchnet.layers.cfg --cluster cfg/paper2.cfg \
    --seconds 0.1 --instance-out "$work/matchnet.json" -o "$work/a.json"
check 'as an instance' "$HETERPS" plan --instance "$work/matchnet.json" --seconds 0.1 -o "$work/b.json"
check 'the same plan' cmp "$work/a.json" "$work/b.json"

# --- what cannot be ---------------------------------------------------------------------------------------------------

"$HETERPS" plan --instance "$work/fast.json" --seconds 0.1 -o "$work/nearest.json" >"$work/.out" 2>"$work/.err"
if [ $? = 1 ] &&
    grep -qE '^heterps-run: error: infeasible: at most [0-9.e+]+ examples/s of 1e\+09 asked: stage .* on ' \
        "$work/.err" &&
    grep -q '"feasible": false' "$work/nearest.json"; then
    ok 'an infeasible goal: the nearest throughput, and what limits it'
else
    not_ok 'an infeasible goal: the nearest throughput, and what limits it'
    note <"$work/.err"
fi
fails 1 'negative.json: layers\[2\].oct\[1\]: expected .*, found -1' 'an instance with a wrong number' \
    "$HETERPS" plan --instance "$work/negative.json"
fails 1 'short.json: layers: expected ' 'an instance with too few layers' "$HETERPS" plan --instance "$work/short.json"
printf '[type a]\nprice_per_hour = 1\nlimit = 0\n' >"$work/bad.cfg"
fails 1 'bad.cfg:3: \[type a\] limit: ' 'a cluster with a wrong number' \
    "$HETERPS" plan --layers cfg/nce.layers.cfg --cluster "$work/bad.cfg"
fails 2 "unknown method \"magic\"; expected auto, rl" 'an unknown method' \
    "$HETERPS" plan --instance "$work/small.json" --method magic
for flag in '--data none' '--set a.b=1' '--isa base' --no-cache; do
    # shellcheck disable=SC2086
    fails 2 '--no-cache are for a graph that is measured' "$flag where nothing is measured" \
        "$HETERPS" plan --instance "$work/small.json" $flag
done
fails 2 '--batch is for --layers and --net; an instance has its own' 'a batch of an instance' \
    "$HETERPS" plan --instance "$work/small.json" --batch 256
fails 2 '--classes is for --net' 'classes of no net' \
    "$HETERPS" plan --layers cfg/ctrdnn16.layers.cfg --cluster cfg/paper2.cfg --classes 1000
fails 2 '--no-cache are for a graph that is measured' 'data for workers of a net' \
    "$HETERPS" plan --net vgg19 --cluster cfg/hetpipe-vgg19.cfg --workers auto --data none
fails 2 '--skewness is for --method ralp and --compare' 'skewness where ralp does not plan' \
    "$HETERPS" plan --instance "$work/small.json" --skewness 3
fails 2 'expected one of GRAPH, --instance FILE, --layers FILE and --net NAME, found none' \
    'nothing to plan' "$HETERPS" plan
fails 2 'a graph needs --cluster FILE' 'a graph without a cluster' "$HETERPS" plan "$work/none.bin"
net='--batch 64 --cluster cfg/paper2.cfg --method ralp'
fails 1 'resnet152 is not split: the skewness of its parameters is -0.38' 'ralp declines resnet152' \
    "$HETERPS" plan --net resnet152 $net
fails 1 "no net 'vgg12'; there are alexnet, " 'a net that there is not' "$HETERPS" plan --net vgg12 $net
cat >"$work/one.cfg" <<'CFG'
[type G]
price_per_hour = 1
limit = 1
memory = 6GiB
flops = 3.8e12
memory_bandwidth = 336e9
link_bandwidth = 1e9
CFG
fails 1 'resnet152, batch 32, does not fit a worker of 1 G: .* = 7.98 GiB, of 6.00 GiB' \
    'a card too small for a worker' "$HETERPS" plan --net resnet152 --batch 32 --cluster "$work/one.cfg" --workers auto
fails 1 'cfg/paper2.cfg:16: \[type cpu-core\]: expected memory, ' 'workers of a cluster that says no memory' \
    "$HETERPS" plan --net vgg19 --cluster cfg/paper2.cfg --workers np
fails 2 'asks a cluster for nodes and memory, which --instance does not have' 'workers of an instance' \
    "$HETERPS" plan --instance none --workers np
fails 2 '\-\-workers: expected auto, np, ed or hd, found "vw"' 'workers by a name that there is not' \
    "$HETERPS" plan --net vgg19 --cluster "$work/one.cfg" --workers vw
fails 2 'are for virtual workers: give --workers, too' 'a clock distance without workers' \
    "$HETERPS" plan --net vgg19 --cluster "$work/one.cfg" --distance 4
workers_refused() { # PATTERN WHAT CLUSTER FLAG...
    refused_pattern=$1 refused_what=$2 refused_cluster=$3
    shift 3
    fails 1 "$refused_pattern" "$refused_what" "$HETERPS" plan --net vgg19 --batch 32 --cluster "$refused_cluster" \
        --in-flight 2 -o "$work/workers.json" "$@"
}
workers_refused '-o: np has workers of 4 V and of 4 R, .*: give --workers ed --placement local' \
    'workers on unlike nodes as a plan' cfg/hetpipe-vgg19.cfg --workers np
workers_refused '-o: ed has its parameters by turns .*: give --workers ed --placement local' \
    'parameters elsewhere than their stage as a plan' cfg/hetpipe-vgg19.cfg --workers ed --placement default
sed 's/^device = sim/device = cuda/' cfg/hetpipe-vgg19.cfg >"$work/cuda.cfg"
workers_refused '-o: type [VRGQ] is a card, and train.sync = wsp trains on cores' 'workers of cards as a plan' \
    "$work/cuda.cfg" --workers ed --placement local
sed 's/^limit = 4/limit = 17/; s/^per_node = 4/per_node = 17/' cfg/hetpipe-vgg19.cfg >"$work/many.cfg"
workers_refused '-o: 68 cards, a node each, are more than the 64 nodes of a plan' 'more nodes than a plan has' \
    "$work/many.cfg" --workers ed --placement local
fails 1 'brute: ' 'brute force over too many plans' "$HETERPS" plan --layers cfg/ctrdnn20.layers.cfg \
    --cluster cfg/paper64.cfg --method brute

# --- training on a cluster --------------------------------------------------------------------------------------------

tiny_model
rows 6000 "$work/data.tsv"
XDG_CACHE_HOME=$work/cache
export XDG_CACHE_HOME
printf '[type core]\ndevice = cpu\nprice_per_hour = 0.04\nlimit = 2\n[goal]\nthroughput = max\n' >"$work/here.cfg"
check 'trains on a cluster' "$HETERPS" "$work/tiny.bin" --cluster "$work/here.cfg" \
    --data "$work/data.tsv" --out "$work/model"
cp "$work/.err" "$work/profiled.err"
check 'trains without one' "$HETERPS" "$work/tiny.bin" --data "$work/data.tsv" --out "$work/plain"
"$HETERPS" export "$work/tiny.bin" --model "$work/model" -o "$work/a" -q &&
    "$HETERPS" export "$work/tiny.bin" --model "$work/plain" -o "$work/b" -q
if cmp -s "$work/a/dense.safetensors" "$work/b/dense.safetensors" &&
    cmp -s "$work/a/emb.safetensors" "$work/b/emb.safetensors"; then
    ok 'the same bytes with and without a plan'
else
    not_ok 'the same bytes with and without a plan'
fi
if ls "$work"/cache/heterps-run/profile-*.json >/dev/null 2>&1 ||
    grep -q 'while the machine was busy' "$work/profiled.err"; then
    ok 'the profile is kept, unless the machine was busy'
else
    not_ok 'the profile is kept, unless the machine was busy'
fi

# Plans that are tried: a line each, the best in the file with what was measured; and a training that tries them first.
"$HETERPS" plan "$work/tiny.bin" --cluster "$work/here.cfg" --data "$work/data.tsv" --seconds 0.1 \
    --try 0.05 -o "$work/tried.json" >"$work/tried.out" 2>"$work/tried.err"
check 'plans are tried' \
    grep -qE '^measured +[0-9,.]+ examples/s, [0-9.,]+ % of what is predicted; without the [0-9.,]+ % of the time' \
    "$work/tried.out"
check 'each has its line' grep -qE '^cpu +[0-9,.]+ +[0-9,.]+ +[0-9.,]+ %  ' "$work/tried.out"
run_expected() { # one stage, drained after each step, beside reading: less than the formula says, in text and plan
    grep -qE '^expected +[0-9,.]+ examples/s in a run, [0-9.]+ % of what is asked, for .* USD, ' "$work/tried.out" &&
        grep -qE ', where the pipeline is drained after (each|every [0-9]+) micro-batch' "$work/tried.out" &&
        python3 - "$work/tried.json" <<'PYTHON'
import json, sys
plan = json.load(open(sys.argv[1]))
assert 0 < plan["expected"] <= plan["throughput"] * 1.000001, plan
PYTHON
}
check 'and what a run is expected to reach' run_expected
check 'the plan says what was measured' grep -q '"measured": [0-9]' "$work/tried.json"
check 'it trains' "$HETERPS" "$work/tiny.bin" --plan "$work/tried.json" --data "$work/data.tsv" -q
check 'a training tries them, too' "$HETERPS" "$work/tiny.bin" --cluster "$work/here.cfg" --try 0.05 \
    --data "$work/data.tsv" -q
check 'a stream is left to the training' \
    sh -c "'$HETERPS' '$work/tiny.bin' --cluster '$work/here.cfg' --try 0.05 --data - --log json <'$work/data.tsv' |
        grep -q '\"event\":\"done\".*\"samples\":6000'"
fails 2 'try tries plans for a cluster: give --cluster FILE' 'trying without a cluster' \
    "$HETERPS" "$work/tiny.bin" --try 1 --data "$work/data.tsv"
fails 2 'try trains plans of a graph: give GRAPH and --cluster' 'trying an instance' \
    "$HETERPS" plan --instance "$work/small.json" --try 1

# A cluster on paper: types that take their time on sim, one of which slows down threefold during the run.
sim_type() {
    printf '[type %s]\ndevice = sim\nprice_per_hour = %s\nlimit = %s\n' "$1" "$2" "$3"
    printf 'flops = %s\nmemory_bandwidth = %s\nlink_bandwidth = 1e8\n%s\n' "$4" "$5" "$6"
}
{
    sim_type a 0.04 2 2e7 1e7 'slow = all 3
slow_from = 40'
    sim_type b 0.1 3 4e7 5e6 ''
    printf '[goal]\nthroughput = max\n'
} >"$work/sim.cfg"
"$HETERPS" "$work/tiny.bin" --cluster "$work/sim.cfg" --data "$work/data.tsv" --log json --set train.batch=128 \
    --set train.micro=8 --set train.epochs=10 --set train.steps_max=160 >"$work/sim.log" 2>"$work/sim.err"
# Without steps a bound on the norm of gradients keeps all layers together: two stages could not be trained.
waves() { # MODEL CUT SET...: the plan has that many stages
    waves_model=$1 waves_stages=$2
    shift 2
    "$HETERPS" "$waves_model" --cluster "$work/sim.cfg" --data "$work/data.tsv" --set train.sync=wsp \
        --set train.steps_max=20 --set train.batch=16 "$@" >"$work/waves.out" 2>"$work/waves.err" &&
        grep -q "^plan     $waves_stages" "$work/waves.err"
}
check 'wsp on a cluster: in stages' waves "$work/tiny.bin" '2 stages'
check 'with a bound on gradients: in one' waves "$work/tiny.bin" '1 stage:' --set train.clip_norm=1
slower='a type that slows down: planned anew, and the rate recovers'
python3 - "$work/sim.log" <<'PYTHON' && ok "$slower" || { not_ok "$slower"; note <"$work/sim.err"; }
import json, sys
events = list(map(json.loads, open(sys.argv[1])))
replans = [e for e in events if e["event"] == "replan" and e["changed"]]
assert replans, "not planned anew"
assert replans[0]["step"] > 40
last = [e for e in events if e["event"] == "progress"][-2:]
rate = max(e["samples_per_s"] for e in last)
assert rate > 0.8 * replans[-1]["samples_per_s"], (rate, replans)
PYTHON
finish

#!/bin/sh
# heterps-run simulate: plans for clusters that are not here reach their predicted throughput in the real
# pipeline, and move exactly the bytes that cross the cuts; a plan on sim trains like any other; what cannot
# be simulated is refused. It compares times.
. "$(dirname "$0")/lib.sh"
tiny_model
graph=$work/tiny.bin

cat >"$work/check.py" <<'PYTHON'
# Usage: check.py TOLERANCE STAGES SYNC <events: the one event, its ratio and its cuts.
import json, sys
tolerance, stages = float(sys.argv[1]), int(sys.argv[2])
events = [json.loads(line) for line in sys.stdin]
(e,) = [e for e in events if e["event"] == "simulate"]
assert len(e["stages"]) == stages, e
assert abs(e["ratio"] - 1) <= tolerance and abs(e["measured"] / e["predicted"] / e["ratio"] - 1) < 1e-9, e
assert abs(e["predicted"] * max(s["et"] for s in e["stages"]) - 1) < 1e-9, e
assert e["measured_micro_batches"] < e["micro_batches"] and e["sync"] == sys.argv[3], e
for s in e["stages"]:
    assert s["cut_predicted_bytes"] == s["cut_moved_bytes"], s
    assert (s["cut_moved_bytes"] > 0) == (s is not e["stages"][-1]), s
print("# %s, %s: %.1f%% of the prediction" % (e["name"], e["sync"], 100 * e["ratio"]))
PYTHON

cat >"$work/make.py" <<'PYTHON'
# Usage: make.py DIRECTORY: an instance whose layers have any names, and plans for it and for the tiny model.
import json, sys
d = sys.argv[1]
T = [{"name": "core", "price_per_hour": 0.04, "limit": 64}, {"name": "card 1", "price_per_hour": 2.42, "limit": 8}]
names = ["slot / emb", "pool", "[fc] 1", "fc2; relu", "loss"]
layers = [{"name": n, "type": "fc", "in_bytes": 4000, "weight_bytes": 1e6,
           "oct": [0.02 * (i + 1), 0.002], "alpha": [0.9, 0.8],
           "odt": [0.001, 0.002], "beta": [0.5, 0.5]} for i, n in enumerate(names)]
layers[1]["cut_bytes"] = 123456
instance = {"format": "heterps-instance-1", "name": "odd names", "L": 5, "T": 2, "B_o": 128, "M": 1000000, "epochs": 1,
            "throughput_limit": 1000, "types": T, "layers": layers}
json.dump(instance, open(d + "/odd.inst.json", "w"))
types = [dict(T[0], device="cpu"), dict(T[1], device="cuda:0")]
def plan(name, stages, **more):
    json.dump(dict({"format": "heterps-solution-1", "types": types, "stages": stages}, **more),
              open(d + "/" + name, "w"))
def stage(first, last, type, k, et=None):
    return dict({"first": first, "last": last, "type": type, "k": k}, **({"et": et} if et else {}))
plan("odd.plan.json", [stage(0, 1, 0, 9), stage(2, 3, 1, 2), stage(4, 4, 0, 5)], layers=names)
plan("tiny.plan.json", [stage(0, 1, 0, 3, 20e-6), stage(2, 2, 1, 2, 30e-6), stage(3, 4, 0, 1, 10e-6)])
plan("no_et.plan.json", [stage(0, 1, 0, 3, 20e-6), stage(2, 4, 1, 2)])
types = [{"name": "card", "device": "sim"}]
plan("sim.plan.json", [stage(0, 1, 0, 300, 1e-6), stage(2, 4, 0, 200, 2e-6)], time_scale=2)
PYTHON
check "the test's files" python3 "$work/make.py" "$work"

# The tolerance is for a machine that others use; alone it is 1 %.
simulate() { # NAME TOLERANCE STAGES ARGUMENTS...
    name=$1 tolerance=$2 stages=$3 sync=wsp
    shift 3
    case "$*" in *"--sync bsp"*) sync=bsp ;; esac
    if "$HETERPS" simulate "$@" --log json >"$work/events" 2>"$work/.err" &&
        python3 "$work/check.py" "$tolerance" "$stages" $sync <"$work/events" >"$work/.out" 2>>"$work/.err"; then
        ok "$name"
        cat "$work/.out"
    else
        not_ok "$name"
        tail -5 "$work/.err" | note
        tail -2 "$work/events" | note
    fi
}
simulate "an instance under a plan without times" 0.15 3 --instance "$work/odd.inst.json" \
    --plan "$work/odd.plan.json" --batches 60
simulate "the same at a chosen pace" 0.15 3 --instance "$work/odd.inst.json" --plan "$work/odd.plan.json" \
    --batches 50 --time-scale 5
simulate "a graph, wsp" 0.15 3 "$graph" --plan "$work/tiny.plan.json" --batches 60
simulate "a graph, bsp" 0.2 3 "$graph" --plan "$work/tiny.plan.json" --sync bsp --batches 60
check "an instance of a network on paper" "$HETERPS" plan --net alexnet --batch 512 --cluster cfg/paper2.cfg \
    --method ralp --instance-out "$work/alexnet.inst.json"
simulate "a network that ralp splits" 0.15 2 --instance "$work/alexnet.inst.json" --method ralp --batches 60

instances=$root/../shared/instances
if [ -d "$instances" ]; then
    cat >"$work/convert.py" <<'PYTHON'
# Usage: convert.py INSTANCE SOLUTION PLAN: gives a solution the types that a plan names.
import json, sys
instance, solution = json.load(open(sys.argv[1])), json.load(open(sys.argv[2]))
solution["types"] = [dict(t, device="sim") for t in instance["types"]]
json.dump(solution, open(sys.argv[3], "w"))
print(len(solution["stages"]))
PYTHON
    for instance in L5_T2_s101 L20_T16_s113; do
        [ -e "$instances/$instance.inst.json" ] || continue
        stages=$(python3 "$work/convert.py" "$instances/$instance.inst.json" \
            "$instances/$instance.sol.json" "$work/plan.json")
        simulate "$instance, its optimum" 0.15 "$stages" --instance "$instances/$instance.inst.json" \
            --plan "$work/plan.json" --batches 60
    done
else
    skip "instances with their optima" "no ../shared/instances"
fi

"$HETERPS" simulate --instance "$work/odd.inst.json" --plan "$work/odd.plan.json" --batches 20 >"$work/told"
check "people are told stages and cuts by the instance's names" \
    grep -qE '^stage    slot / emb\.\.pool on 9 core: [0-9.]+ us an example, measured' "$work/told"
check "and how the figures compare" \
    grep -qE '^done     predicted [0-9,.]+ examples/s, measured [0-9,.]+ \([0-9.]+%\)' "$work/told"
check "and that bytes are the same number" grep -qE '^cut      after it: predicted .* \(the same number\)' "$work/told"

# A plan on sim in training: two threads stand for 500 units.
rows 640 "$work/train.tsv"
check "a plan on sim trains" "$HETERPS" "$graph" --data "$work/train.tsv" --plan "$work/sim.plan.json" \
    --threads 1 --set train.epochs=1
"$HETERPS" "$graph" --data "$work/train.tsv" --plan "$work/sim.plan.json" \
    --threads 1 --log json -v >"$work/events" 2>/dev/null
check "and says so" grep -q '"done"' "$work/events"

# The same plan on paced: it computes, to the bytes of cores.
sed 's/"sim"/"paced"/' "$work/sim.plan.json" >"$work/paced.plan.json"
"$HETERPS" "$graph" --data "$work/train.tsv" --threads 1 --set train.epochs=1 --out "$work/cores" -q
check "a plan on paced trains" "$HETERPS" "$graph" --data "$work/train.tsv" --plan "$work/paced.plan.json" \
    --threads 1 --set train.epochs=1 --out "$work/paced" -q
"$HETERPS" export "$graph" --model "$work/cores" -o "$work/cores.out" -q &&
    "$HETERPS" export "$graph" --model "$work/paced" -o "$work/paced.out" -q
check "and learns what cores do" diff -r "$work/cores.out" "$work/paced.out"

fails 2 'expected a graph, or --instance FILE; found neither' "nothing to simulate" "$HETERPS" simulate
fails 2 'found both' "two things to simulate" "$HETERPS" simulate "$graph" --instance "$work/odd.inst.json"
fails 2 'a graph needs --plan FILE' "a graph without a plan" "$HETERPS" simulate "$graph"
fails 2 'expected wsp or bsp, found "asp"' "another sync" "$HETERPS" simulate "$graph" \
    --plan "$work/tiny.plan.json" --sync asp
fails 1 'stages\[1\] of the plan \(h1\.\.bce\): expected et' "a plan without times" \
    "$HETERPS" simulate "$graph" --plan "$work/no_et.plan.json"
for flag in '--method exact' '--seed 1' '--seconds 10'; do
    # shellcheck disable=SC2086
    fails 2 'solve an instance; give them without --plan' "$flag where nothing is solved" \
        "$HETERPS" simulate "$graph" --plan "$work/tiny.plan.json" $flag
done
fails 2 '--set is for a graph' "settings of an instance" \
    "$HETERPS" simulate --instance "$work/odd.inst.json" --set a.b=c

"$HETERPS" simulate "$graph" --plan "$work/tiny.plan.json" --batches 6000000 >/dev/null 2>&1 &
child=$!
sleep 0.5
kill -INT $child
wait $child
check "an interrupted run ends at once" [ $? = 130 ]
finish

#!/bin/sh
# Usage: sh tests/quality/wsp.sh [ROWS [SEEDS [BOUND]]]        (default 2,000,000 rows, 3 seeds, 0.003; needs
#                                                              ./heterps-run)
# Generated clicks: what wsp and asp lose against bsp. samples/ctrdnn1.cfg, one epoch, two pipelines of two stages (k
# = 1), in_flight as the plan needs, wsp with a clock distance of 1. The AUC, a mean over seeds, must be no more than
# BOUND below bsp's; three times BOUND under asp, which bounds nothing: the busier the machine, the more its pipelines
# miss. The AUC of two seeds differs by about 0.002 at 300,000 rows, whatever the synchronisation; hence the mean.
set -eu
cd "$(dirname "$0")/../.."
rows=${1:-2000000} seeds=${2:-3} bound=${3:-0.003}
HETERPS=${HETERPS:-./heterps-run}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"$HETERPS" gen criteo --rows "$rows" -o "$folder/train.tsv" -q
"$HETERPS" gen criteo --rows 100000 --skip "$rows" -o "$folder/test.tsv" -q
"$HETERPS" compile samples/ctrdnn1.cfg -o "$folder/graph.bin" -q
python3 tests/e2e/make_plan.py "$folder/plan.json" '0-1:1:1 2-5:1:1'
run() { # NAME SEED ARGUMENT...
    name=$1 seed=$2
    shift 2
    "$HETERPS" "$folder/graph.bin" --data "$folder/train.tsv" --eval "$folder/test.tsv" --log json \
        --set train.seed="$seed" "$@" >"$folder/$name.$seed.json" </dev/null
}
for seed in $(seq "$seeds"); do
    run bsp "$seed"
    for sync in wsp asp; do
        run $sync "$seed" --plan "$folder/plan.json" --share --set train.sync=$sync --set train.pipelines=2 \
            --set train.clock_distance=1
    done
done
python3 - "$folder" "$rows" "$seeds" "$bound" <<'PYTHON'
import json, sys
folder, rows, seeds, bound = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
def event(sync, seed, name):
    return [e for e in map(json.loads, open("%s/%s.%d.json" % (folder, sync, seed))) if e["event"] == name][-1]
auc, failed = {}, 0
for sync in ("bsp", "wsp", "asp"):
    values = [event(sync, seed, "eval")["auc"] for seed in range(1, seeds + 1)]
    auc[sync] = sum(values) / seeds
    line = "# %d rows, %s: AUC %.4f, a mean of %s" % (rows, sync, auc[sync], " ".join("%.4f" % v for v in values))
    if sync != "bsp":
        s = [event(sync, seed, "done")["staleness"] for seed in range(1, seeds + 1)]
        line += "; missing %.2f updates of its own and %.2f of the other pipeline" % (
            sum(x["local_mean"] for x in s) / seeds, sum(x["global_mean"] for x in s) / seeds)
        # Where nothing was stale, nothing would be shown.
        stale = all(x["global_max"] >= 1 and x["global_mean"] > 0 for x in s)
    print(line)
    if sync == "bsp": continue
    allowed = bound if sync == "wsp" else 3 * bound
    is_good = auc["bsp"] - auc[sync] <= allowed and stale
    failed += not is_good
    print("%s %d - %s with two pipelines is stale and no more than %g below bsp"
          % ("ok" if is_good else "not ok", len(auc) - 1, sync, allowed))
sys.exit(failed > 0)
PYTHON

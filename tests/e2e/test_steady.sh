#!/bin/sh
# Steady state: between the first step and the last nobody allocates and nobody takes a lock, whatever the
# plan, the synchronisation and the form of the data. The program counts its own calls and the libraries'
# (engine/base/steady.h) and tells them at the end.
. "$(dirname "$0")/lib.sh"
. tests/e2e/process.sh
if [ "$(basename "$BUILD")" = asan ]; then
    echo 'ok 1 - steady state # SKIP AddressSanitizer allocates when a thread starts,' \
        'and that may be after the first step'
    exit 77
fi
data=$folder/data.tsv graph=$folder/graph.bin
heterps gen criteo --rows "$(scaled 12000)" --seed 81 --vocab 20000 --zipf 0.7 -o "$data" &&
    heterps compile samples/ctrdnn1.cfg -o "$graph" --set store.ram=64MiB &&
    heterps gen criteo --rows 500 --skip 12000 --seed 81 -o "$folder/test.tsv" &&
    gzip -1 -c "$data" >"$folder/data.gz" && split -n l/3 "$data" "$folder/part." &&
    python3 tests/e2e/make_plan.py "$folder/three.json" '0-1:1:1 2-3:2:2 4-5:1:1' &&
    python3 tests/e2e/make_plan.py "$folder/two.json" '0-2:1:1 3-5:1:1' &&
    python3 tests/e2e/make_plan.py "$folder/gang.json" '0-5:2:1 +1' || { echo "not ok 1 - fixture"; exit 1; }

{ head -n 20 "$data"; echo nonsense; echo; tail -n 20 "$data"; } >"$folder/bad.tsv"

steady() { # NAME ARGUMENT...: whole runs of enough steps, with new rows to the end
    steady_name=$1
    shift
    steady_run() {
        runs 0 "$HETERPS" "$graph" --log json "$@" || return 1
        steps=$(event_number done step "$folder/out")
        allocations=$(event_number done allocations "$folder/out") &&
            locks=$(event_number done locks "$folder/out") || return 1
        echo "$steps steps, $allocations allocations, $locks locks"
        [ "$steps" -ge $(($(scaled 12000) / 128)) ] && [ "$allocations" = 0 ] && [ "$locks" = 0 ]
    }
    check "$steady_name: 0 allocations, 0 locks" steady_run "$@"
}
steady 'bsp, all cores' --data "$data"
steady 'bsp, one thread, two epochs' --data "$data" --threads 1 --set train.epochs=2
lives='--set emb.admit=2 --set store.period=20 --set emb.ttl=2 --set emb.delete_score=0.12'
lives="$lives --set emb.rows=9000 --set emb.vector_score=0.3"
steady 'rows that come and go' --data "$data" $lives --set train.epochs=2
steady 'gzip' --data "$folder/data.gz"
steady 'shuffled, two epochs' --data "$data" --set data.shuffle=3000 --set train.epochs=2
steady 'several files, one of them gzip' --data "$folder/part.aa,$folder/part.ab,$folder/part.ac,$folder/data.gz"
steady 'two stages of one core' --data "$data" --plan "$folder/two.json" --threads 2
steady 'three stages with replicas share a pool, four lanes' --data "$data" --plan "$folder/three.json" --share \
    --set train.lanes=4 --set train.epochs=2
steady 'a gang of two and a service core' --data "$data" --plan "$folder/gang.json" --threads 3
steady 'wsp, two pipelines' --data "$data" --plan "$folder/two.json" --share --set train.sync=wsp \
    --set train.pipelines=2 --set train.clock_distance=1
steady 'asp, two pipelines' --data "$data" --plan "$folder/three.json" --share \
    --set train.sync=asp --set train.pipelines=2
steady 'with --trace' --data "$data" --plan "$folder/two.json" --share --trace "$folder/trace.json"
# Checkpoints and evaluations are pauses, and steady state goes on after them.
steady 'checkpoints and evaluations between' --data "$data" --eval "$folder/test.tsv" --out "$folder/model" \
    --set checkpoint.every=10 --set eval.every=20
steady 'bad lines skipped' --data "$data,$folder/bad.tsv" --set data.bad_lines=skip
mkfifo "$folder/pipe"
cat "$data" >"$folder/pipe" &
helpers="$helpers $!"
steady 'a pipe' --data "$folder/pipe"

# While somebody asks for figures as fast as they come.
cat >"$folder/ask.py" <<'PYTHON'
import http.client, json, subprocess, sys
with open(sys.argv[1], "w") as out:
    run = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL, stdout=out)
asked, address = 0, None
while run.poll() is None:
    try:
        for line in open(sys.argv[1]) if address is None else ():
            if line.startswith('{"event":"metrics"') and line.endswith("\n"):
                address = json.loads(line)["address"]
        if address:
            c = http.client.HTTPConnection(address, timeout=60)
            c.request("GET", "/metrics")
            asked += b"heterps_train_step" in c.getresponse().read()
            c.close()
    except (OSError, http.client.HTTPException):
        pass
print(asked, "answers", file=sys.stderr)
sys.exit(run.returncode or asked < 3)
PYTHON
asked() {
    timeout 300 python3 "$folder/ask.py" "$folder/asked.out" "$HETERPS" "$graph" --log json \
        --metrics 127.0.0.1:0 "$@" && [ "$(event_number done allocations "$folder/asked.out")" = 0 ] &&
        [ "$(event_number done locks "$folder/asked.out")" = 0 ]
}
check 'asked for figures: 0 allocations, 0 locks' asked --data "$data" --set train.epochs=20
check 'asked for figures, saving and evaluating: 0 allocations, 0 locks' asked --data "$data" \
    --eval "$folder/test.tsv" --out "$folder/model" --set checkpoint.every=10 --set eval.every=20 --set train.epochs=5
finish

# What tests of trainings on several nodes share, sourced behind process.sh; in $folder.

# tables_model: tables.cfg, a model with a table, three passes of it.
tables_model() {
    cat >tables.cfg <<'CFG'
[model]
name = tables
[data]
dense = I1..I3
sparse = C1..C26
[table emb]
dim = 4
optimizer = adagrad 0.05
[embedding e]
table = emb
input = sparse
[concat x]
input = e, dense
[fc h1]
input = x
units = 8
activation = relu
[fc y]
input = h1
units = 1
[loss bce]
input = y
[train]
batch = 64
lanes = 8
epochs = 3
[store]
ram = 4MiB
[cluster]
timeout = 5
connect = 20
CFG
}

# ended STATUS: the started launcher ends so, within a minute.
ended() {
    tenths=600
    while ! is_over; do
        tenths=$((tenths - 1))
        [ $tenths -gt 0 ] || { echo "still runs after a minute"; tail -n 5 run.err; kill "$pid"; return 1; }
        sleep 0.1
    done
    wait "$pid"
    got=$?
    cp run.err err
    [ $got = "$1" ] || { echo "exit status $got instead of $1"; tail -n 6 run.err; return 1; }
}

# What the last one has said on standard error.
says() { grep -Eq -- "$1" "$folder/err" || { echo "expected /$1/, found:"; tail -n 6 "$folder/err"; return 1; }; }
silent() {
    ! grep -Eq -- "$1" "$folder/err" ||
        { echo "did not expect /$1/, found:"; grep -E "$1" "$folder/err" | head -3; return 1; }
}

# Sets places: two addresses whose ports were free a moment ago.
places_find() {
    places=$(python3 -c 'import socket
s = [socket.socket() for i in range(2)]
[x.bind(("127.0.0.1", 0)) for x in s]
print(",".join("127.0.0.1:%d" % x.getsockname()[1] for x in s))')
}
# pair STATUS PATTERN STATUS PATTERN [GRAPH0] ARGUMENT... -- [GRAPH1] ARGUMENT...: how node 0 ends, and node 1.
pair() {
    pair_status0=$1 pair_says0=$2 pair_status1=$3 pair_says1=$4
    shift 4
    words0=
    while [ "$1" != -- ]; do words0="$words0 $1"; shift; done
    shift
    timeout 60 "$h" $words0 --nodes "$places" --rank 0 >out0 2>err0 </dev/null &
    first=$!
    timeout 60 "$h" "$@" --nodes "$places" --rank 1 >out1 2>err1 </dev/null
    got1=$?
    wait $first
    got0=$?
    [ $got0 = "$pair_status0" ] && [ $got1 = "$pair_status1" ] ||
        { echo "exit status $got0 and $got1 instead of $pair_status0 and $pair_status1"; cat err0 err1; return 1; }
    grep -Eq -- "$pair_says0" err0 || { echo "node 0: expected /$pair_says0/, found:"; cat err0; return 1; }
    [ "$pair_says1" = '^' ] || grep -Eq -- "$pair_says1" err1 ||
        { echo "node 1: expected /$pair_says1/, found:"; cat err1; return 1; }
}

# figures_same: evaluations and progress are those of one.log in out, too.
figures_same() {
    python3 - one.log out <<'PY'
import json, sys
def figures(path):
    events = [e for e in map(json.loads, open(path)) if e["event"] in ("eval", "progress")]
    told = [e for e in events if e["event"] == "progress"]
    events = [e for e in events if e not in told[:-1]] # when the others come is the clock's
    for e in events:
        for key in ("seconds", "samples_per_s", "eta_s", "loss" if e in told else "time"):
            e.pop(key, None)
        e.pop("time", None)
        e.pop("node", None)
    return events
one, nodes = map(figures, sys.argv[1:])
print(len(one), len(nodes), [(a, b) for a, b in zip(one, nodes) if a != b][:1])
sys.exit(one != nodes or len(one) < 1)
PY
}

# waves_within AUC: what a training under wsp, of two minibatches a wave and a clock distance of 1, tells in many.log:
# staleness within HetPipe's bounds, three saves at least, and an evaluation with that AUC at its end.
waves_within() {
    python3 - "$1" <<'PYTHON'
import json, sys
events = [json.loads(line) for line in open("many.log")]
s = [e for e in events if e["event"] == "done"][-1]["staleness"]
print(s)
assert s["local_bound"] == 1 and s["global_bound"] == 4 and 0 < s["global_max"] <= 4 and s["local_max"] <= 1
each = [e for e in events if e["event"] == "nodes"][-1]["each"]
assert each[0]["local_max"] == s["local_max"] and each[0]["global_max"] == s["global_max"]
assert all(e["local_max"] <= 1 and e["global_max"] <= 4 for e in each), each
assert len([e for e in events if e["event"] == "checkpoint"]) >= 3
assert [e for e in events if e["event"] == "eval"][-1]["auc"] == float(sys.argv[1]) > 0.52
PYTHON
}

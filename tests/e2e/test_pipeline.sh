#!/bin/sh
# A plan, its threads and its slots never change what is trained: also through stops, signals and resumes
# under other plans; and what becomes of a run under a plan when something fails.
. "$(dirname "$0")/lib.sh"
. tests/e2e/process.sh
data=$folder/data.tsv test=$folder/test.tsv graph=$folder/graph.bin
examples=$(scaled 3000)
heterps gen criteo --rows $examples --seed 61 -o "$data" &&
    heterps gen criteo --rows 500 --skip 3000 --seed 61 -o "$test" || { echo "not ok 1 - fixture"; exit 1; }

# Layers: 0 e, 1 w, 2 x, 3 h1, 4 n1, 5 d1, 6 e2, 7 x2, 8 h2, 9 y, 10 bce. One table is looked up in two of them.
cat >"$folder/all.cfg" <<'CFG'
[data]
dense = I1..I13
sparse = C1..C26
shuffle = 500
[table emb]
dim = 4
optimizer = adagrad 0.03
[table side]
dim = 3
optimizer = adam 0.01
[embedding e]
table = emb
input = C1..C12
[embedding w]
table = side
input = C26
[data_norm i]
input = dense
layer = x
[concat x]
input = e, w, i
[fc h1]
input = x
units = 24
activation = relu
[batch_norm n1]
input = h1
[dropout d1]
input = n1
rate = 0.2
[embedding e2]
table = emb
input = C13..C25
[data_norm n2]
input = e2
layer = x2
[concat x2]
input = d1, n2
[fc h2]
input = x2
units = 16
activation = tanh
[fc y]
input = h2
units = 1
[loss bce]
input = y
[train]
batch = 100
micro = 25
lanes = 2
epochs = 2
optimizer = adam 0.005
[store]
ram = 16MiB
CFG
heterps compile "$folder/all.cfg" -o "$graph" || { echo "not ok 1 - the model compiles"; exit 1; }
steps=$((2 * ((examples + 99) / 100)))
plan_count=6
plan() { python3 tests/e2e/make_plan.py "$folder/plan$1.json" "$2"; }
plan 1 '0-5:1:1 6-10:1:1'
plan 2 '0-2:1:1 3-6:2:2 7-10:1:1'
plan 3 '0-3:2:2 4-10:2:1'
plan 4 '0-0:1:1 1-1:1:1 2-2:1:1 3-3:1:1 4-4:1:1 5-5:1:1 6-6:1:1 7-7:1:1 8-8:1:1 9-9:1:1 10-10:1:1'
plan 5 '0-10:2:2'
plan 6 '0-7:1:1 8-10:1:1 +1'

# --- the same bytes ---------------------------------------------------------------------------------------------------

check 'without a plan: trains' trains whole "$graph" --data "$data" --threads 1
check 'two stages of one core' trains_same whole "$graph" --data "$data" --plan "$folder/plan1.json" --threads 2
check 'three stages with replicas share two threads' trains_same whole "$graph" --data "$data" \
    --plan "$folder/plan2.json" --share --threads 2
check 'a gang of two beside two replicas, on four threads' trains_same whole "$graph" --data "$data" \
    --plan "$folder/plan3.json" --threads 4
check 'a stage a layer, three threads, 7 slots' trains_same whole "$graph" --data "$data" --plan "$folder/plan4.json" \
    --share --threads 3 --set train.in_flight=7
check 'two replicas of all' trains_same whole "$graph" --data "$data" --plan "$folder/plan5.json" \
    --threads 2 --set train.in_flight=4
check 'two stages and a service core' trains_same whole "$graph" --data "$data" --plan "$folder/plan6.json" --threads 3
check 'two stages, one slot' trains_same whole "$graph" --data "$data" --plan "$folder/plan1.json" --share \
    --threads 1 --set train.in_flight=1
other() {
    heterps compile "$folder/all.cfg" -o "$folder/other.bin" --set train.seed=2 &&
        trains other "$folder/other.bin" --data "$data" --plan "$folder/plan1.json" --share &&
        other_bytes "$folder/whole.values" "$folder/other.values"
}
check 'another seed: other bytes' other

# --- stopped and resumed ----------------------------------------------------------------------------------------------

seed=$(date +%s)
# draw N: a number from 1 to N.
draws=0
draw() {
    draws=$((draws + 1))
    awk -v seed="$seed$draws" -v n="$1" 'BEGIN { srand(seed); rand(); print 1 + int(rand() * n) }'
}
random_way() {
    echo "--plan $folder/plan$(draw $plan_count).json --share --threads $(draw 4) --set train.in_flight=$(draw 6)"
}

stopped() { # COUNT: so many runs, each stopped after a random step and resumed under another plan
    for round in $(seq "$1"); do
        rm -rf "$folder/part"
        before=$(random_way) stop=$(draw $((steps - 1)))
        after=$(random_way)
        heterps "$graph" --data "$data" --out "$folder/part" $before --set train.steps_max="$stop" &&
            heterps "$graph" --data "$data" --resume "$folder/part" $after &&
            exported "$graph" "$folder/part" part && same_bytes whole part ||
            { echo "after step $stop: $before; then $after"; return 1; }
    done
}
chained() { # through many stops to the end, under another plan each time
    rm -rf "$folder/part"
    from="--out $folder/part" step=0
    while [ $step -lt $steps ]; do
        step=$((step + $(draw $((steps / 6)))))
        way=$(random_way)
        heterps "$graph" --data "$data" $from $way --set train.steps_max="$step" ||
            { echo "to step $step: $way"; return 1; }
        from="--resume $folder/part"
    done
    exported "$graph" "$folder/part" part && same_bytes whole part
}
interrupted() { # SIGINT or SIGTERM at random times, until it is through
    rm -rf "$folder/part"
    from="--out $folder/part" interruptions=0
    while :; do
        way=$(random_way)
        start "$long" --data "$data" $from $way --log json
        await '"start"' "$folder/run.out" || return 1
        sleep "0.$(printf %03d "$(draw 250)")"
        signal=INT expected=130
        [ "$(draw 2)" = 1 ] || { signal=TERM expected=143; }
        [ $interruptions -ge $interruptions_max ] || kill -$signal $pid 2>/dev/null
        wait $pid
        status=$?
        [ $status = 0 ] && break
        [ $status = $expected ] || { echo "exit status $status: $way"; cat "$folder/run.err"; return 1; }
        [ -e "$folder/part/manifest.json" ] && from="--resume $folder/part" && interruptions=$((interruptions + 1))
    done
    exported "$long" "$folder/part" part && same_bytes long part
}
check 'stopped at random steps, resumed under other plans' stopped "$(scaled 10)"
check 'stopped again and again, each time another plan' chained
long=$folder/long.bin interruptions_max=$(scaled 8)
heterps compile "$folder/all.cfg" -o "$long" --set train.epochs="$(scaled 150)"
check 'a longer run' trains long "$long" --data "$data"
check 'signals at random times, resumed under other plans' interrupted
echo "# $interruptions signals, seed $seed"

# --- failures under a plan --------------------------------------------------------------------------------------------

loads() { runs 0 "$HETERPS" eval "$1" --model "$2" --data "$test" --log json; }
# The model's directory holds the save of that step, and it loads and evaluates.
last_save() { # GRAPH MODEL STEP
    loads "$1" "$2" && [ "$(event_number eval step "$folder/out")" = "$3" ] &&
        [ "$(event_number eval samples "$folder/out")" = 500 ]
}
plan 7 '0-1:1:1 2-3:1:1 4-5:1:1' # of samples/ctrdnn1.cfg, e and x, h1 and h2, y and bce
heterps compile samples/ctrdnn1.cfg -o "$folder/wild.bin" --set store.ram=16MiB --set train.optimizer='sgd 1' \
    --set train.epochs=20 --set train.batch=50
diverges() { # ARGUMENT...
    rm -rf "$folder/model"
    "$HETERPS" "$folder/wild.bin" --data "$data" --out "$folder/model" --set checkpoint.every=3 \
        --set train.steps_max=9 -q </dev/null || return 1
    # From a good save on, with steps that no model survives. Warnings say that the recipe is another.
    runs 1 "$HETERPS" "$folder/wild.bin" --data "$data" --resume "$folder/model" --set train.optimizer='sgd 1000000' \
        --set checkpoint.every=1 -q "$@" &&
        first='the first such value is in the output of \[[a-z]+ [a-z0-9]+\]' &&
        why="(the loss is not finite; $first|its update made a parameter|after its update)" &&
        tail -n 1 "$folder/err" | grep -Eq \
            "^heterps-run: error: step [0-9]+: $why.*; the model in .*/model is from step [0-9]+$" ||
        { cat "$folder/err"; return 1; }
    named=$(sed -n 's/.*is from step \([0-9]*\)$/\1/p' "$folder/err")
    last_save "$folder/wild.bin" "$folder/model" "$named"
}
check 'diverges: names step, op and save, which loads' diverges --threads 1
check 'diverges under three stages: the same' diverges --plan "$folder/plan7.json" --share
check 'diverges under wsp with two pipelines: the same' diverges --plan "$folder/plan7.json" --share \
    --set train.sync=wsp --set train.pipelines=2

{ head -n 420 "$data"; echo nonsense; tail -n +421 "$data"; } >"$folder/bad.tsv"
bad_line() { # LAST_SAVE ARGUMENT...: a line that is wrong in the middle; the last checkpoint stays
    expected_save=$1
    shift
    rm -rf "$folder/model"
    fails_so 1 'bad\.tsv:421: ' "$graph" --data "$folder/bad.tsv" --out "$folder/model" --set data.shuffle=0 \
        --set checkpoint.every=2 --set checkpoint.wait=yes -q "$@" &&
        last_save "$graph" "$folder/model" "$expected_save"
}
for p in 1 2 4 5; do
    check "a bad line under plan $p: names it, the last checkpoint loads" \
        bad_line 4 --plan "$folder/plan$p.json" --share
done

heterps compile "$folder/all.cfg" -o "$folder/small.bin" --set store.ram=1MiB --set emb.dim=64 --set side.dim=64
full() { # ARGUMENT...: what was trained is saved, the same whatever the plan
    rm -rf "$folder/model"
    fails_so 1 'store\.ram' "$folder/small.bin" --data "$data" --out "$folder/model" -q "$@" &&
        exported "$folder/small.bin" "$folder/model" "$full_as"
}
full_as=full
check 'a full store: saves the last step' full --threads 1
full_as=full_again
full_same() { full "$@" && same_bytes full full_again; }
check 'a full store under two stages: the same bytes' full_same --plan "$folder/plan1.json" --threads 2
check 'a full store under a stage a layer: the same bytes' full_same --plan "$folder/plan4.json" --share --threads 2

check 'a plan that needs more cores: says how many and --share' \
    fails_so 2 'needs 4 cores \(stages 1 \+ 2 \+ 1\), this process may use 2; .*--share' "$graph" --data "$data" \
    --plan "$folder/plan2.json" --threads 2 -q
check 'pipelines under bsp are refused' fails_so 1 'train.pipelines = 2 needs train.sync = wsp or asp' "$graph" \
    --data "$data" --set train.pipelines=2 -q
check 'a plan of another graph is refused' fails_so 1 'plan4.json: stages: expected a list of 1 to 6 objects' \
    "$folder/wild.bin" --data "$data" --plan "$folder/plan4.json" --share -q

# --- input that comes slowly ------------------------------------------------------------------------------------------

# 200 lines a second for 3 s into a pipe: whoever waits sleeps.
cat >"$folder/slow.py" <<'PYTHON'
import os, sys, time
lines = open(sys.argv[1]).readlines()[:600]
pipe, most, command = sys.argv[2], float(sys.argv[3]), sys.argv[4:]
pid = os.fork()
if pid == 0:
    null = os.open(os.devnull, os.O_RDWR)
    for to in 0, 1: os.dup2(null, to)
    os.execv(command[0], command)
begin = time.monotonic()
with open(pipe, "w") as out:
    for i, line in enumerate(lines):
        while time.monotonic() < begin + i / 200: time.sleep(0.002)
        out.write(line)
        out.flush()
_, status, usage = os.wait4(pid, 0)
wall, cpu = time.monotonic() - begin, usage.ru_utime + usage.ru_stime
print("%.1f s, of the processor %.3f s: %.1f %%" % (wall, cpu, 100 * cpu / wall))
sys.exit(status != 0 or wall < 2.9 or cpu > most * wall)
PYTHON
slow() {
    python3 "$folder/slow.py" "$data" "$folder/pipe" 0.15 "$HETERPS" "$graph" --data "$folder/pipe" \
        --set train.epochs=1 --set data.shuffle=0 --set train.batch=50 -q "$@" >"$folder/slow.out"
}
mkfifo "$folder/pipe"
if [ $sanitized = yes ]; then
    skip 'a slow input burns no cores' 'a sanitizer costs time of its own'
else
    check 'a slow input burns no cores' slow
    note <"$folder/slow.out"
    check 'a slow input burns no cores: two stages of one core' slow --plan "$folder/plan1.json" --threads 2
    note <"$folder/slow.out"
    check 'a slow input burns no cores: a stage a layer in a pool' slow --plan "$folder/plan4.json" --share
    note <"$folder/slow.out"
fi
finish

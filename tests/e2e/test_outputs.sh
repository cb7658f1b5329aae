#!/bin/sh
# Outputs belong to whoever opened them: predictions go where the shell has come to, a closed output is
# nobody's file, a disk that fills up takes nothing from what was there; and a budget that cannot be had names
# its setting.
. "$(dirname "$0")/lib.sh"
. tests/e2e/process.sh
graph=$folder/graph.bin data=$folder/data.tsv model=$folder/model
heterps gen criteo --rows 2000 --seed 5 -o "$data" &&
    heterps compile samples/ctrdnn1.cfg -o "$graph" --set store.ram=4MiB --set train.batch=64 &&
    heterps "$graph" --data "$data" --out "$model" || { echo "not ok 1 - fixture"; exit 1; }
# Standard output belongs to whoever opened it.
predicted() { heterps predict "$graph" --model "$model" --data "$data" "$@"; }
predicted -o "$folder/expected" || echo "not ok 999 - predict"
appends() {
    { echo first; } >"$folder/appended" && predicted >>"$folder/appended" &&
        { echo first; cat "$folder/expected"; } | cmp - "$folder/appended"
}
follows() {
    { echo first; predicted; echo last; } >"$folder/followed" &&
        { echo first; cat "$folder/expected"; echo last; } | cmp - "$folder/followed"
}
pipes() { predicted | cmp - "$folder/expected"; }
spares() { # with standard output closed no file of ours may get its number
    cp "$data" "$folder/spared.tsv" && cp -R "$model" "$folder/spared" && cp "$graph" "$folder/spared.bin"
    "$HETERPS" predict "$folder/spared.bin" --model "$folder/spared" --data "$folder/spared.tsv" -q >&- </dev/null
    cmp "$data" "$folder/spared.tsv" && cmp "$graph" "$folder/spared.bin" && diff -r "$model" "$folder/spared"
}
check 'predict: a pipe' pipes
check 'predict >>: appends' appends
check 'predict >: begins where the shell has come to' follows
check 'predict >&-: no file is written to' spares

# ends_quietly COMMAND...: into a pipe whose reader has gone, as `COMMAND | head` soon has.
ends_quietly() {
    python3 - "$HETERPS" "$@" <<'PYTHON'
import os, subprocess, sys
read_end, write_end = os.pipe()
os.close(read_end)
ended = subprocess.run(sys.argv[1:], stdout=write_end, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
print(ended.returncode, ended.stderr)
sys.exit(ended.returncode != 141 or ended.stderr != b"")
PYTHON
}
takes_the_head() { [ "$(predicted | head -n 3)" = "$(head -n 3 "$folder/expected")" ]; }
check 'predict | head: its lines' takes_the_head
check 'predict into a pipe that nobody reads: a quiet end' ends_quietly predict "$graph" \
    --model "$model" --data "$data" -q
check 'gen into a pipe that nobody reads: a quiet end' ends_quietly gen criteo --rows 2000 -o - -q
check 'inspect into a pipe that nobody reads: a quiet end' ends_quietly inspect "$graph"

# A pipe that trickles has its answers at once, and they are those of a file.
answers() {
    python3 - "$HETERPS" "$graph" "$model" "$data" "$folder/expected" <<'PYTHON'
import os, select, subprocess, sys
program, graph, model, data, expected = sys.argv[1:]
lines, answers = open(data, "rb").readlines(), open(expected, "rb").readlines()
p = subprocess.Popen([program, "predict", graph, "--model", model, "--data", "-", "-q"],
                     stdin=subprocess.PIPE, stdout=subprocess.PIPE)
got = b""
def ask(text, count):
    global got
    p.stdin.write(text)
    p.stdin.flush()
    while got.count(b"\n") < count:
        assert select.select([p.stdout], [], [], 60)[0], "no answer to line %d" % count
        got += os.read(p.stdout.fileno(), 1 << 16)
for n in range(5): ask(lines[n], n + 1)
ask(b"".join(lines[5:9]) + lines[9][:30], 9)
ask(lines[9][30:], 10)
p.stdin.write(b"".join(lines[10:]))
p.stdin.close()
got += p.stdout.read()
assert p.wait() == 0 and got.splitlines(True) == answers, (len(got), len(answers))
PYTHON
}
check 'predict from a pipe that trickles: an answer when its line has come' answers

# A result is text on standard output, the only one there, and nothing of it is lost.
is_result() { # PATTERN ARGUMENT...
    pattern=$1
    shift
    "$HETERPS" "$@" >"$folder/out" 2>"$folder/err" </dev/null && grep -qE "$pattern" "$folder/out" &&
        ! grep -qE "$pattern" "$folder/err" || return 1
    "$HETERPS" "$@" -q >"$folder/again" 2>"$folder/err" </dev/null && [ ! -s "$folder/err" ] &&
        grep -qE "$pattern" "$folder/again"
}
check 'eval: the figures go to standard output' is_result '^eval     step [0-9]+: AUC 0\.' eval "$graph" \
    --model "$model" --data "$data"
check 'and nothing else' [ "$(wc -l <"$folder/out")" = 1 ]
eval_full() {
    "$HETERPS" eval "$graph" --model "$model" --data "$data" -q >/dev/full 2>"$folder/err" </dev/null
    [ $? = 1 ] && grep -q 'error: .*standard output' "$folder/err"
}
check 'eval to a full disk: an error' eval_full
launched_full() { # what node 0 says to launch, launch cannot write
    for verb in predict eval; do
        "$HETERPS" launch --local 1 -- $verb "$graph" --model "$model" --data "$data" -q >/dev/full \
            2>"$folder/err" </dev/null
        got=$?
        [ $got = 1 ] && grep -q 'error: standard output: results could not be written: No space' "$folder/err" ||
            { echo "$verb: exit status $got"; cat "$folder/err"; return 1; }
    done
}
check 'the same of nodes that launch has started' launched_full
check 'plan-memory: the plan goes to standard output' \
    is_result '^memory   .* planned: ' plan-memory "$graph" --data "$data"
cat >"$folder/plan.py" <<'PYTHON'
# The event `plan_memory` has the parts of the plan, whose sum is its memory, and room for rows.
import json, sys
(event,) = map(json.loads, open(sys.argv[1]))
assert event["event"] == "plan_memory" and event["memory_bytes"] == sum(event["memory"].values()) > 0, event
assert event["tables"] and all(t["ram_rows"] > 0 and t["row_bytes"] % 4 == 0 for t in event["tables"]), event
PYTHON
plan_event() { # without data, a file of any kind is planned for, also for several passes
    "$HETERPS" plan-memory "$graph" --set train.epochs=3 --log json >"$folder/event" </dev/null &&
        python3 "$folder/plan.py" "$folder/event"
}
check 'plan-memory: the plan as an event, of several passes and without data' plan_event
keeps_nothing() { # without --out it says so, at the start and at the end
    "$HETERPS" "$graph" --data "$data" >"$folder/out" 2>"$folder/err" </dev/null && [ ! -s "$folder/out" ] &&
        [ "$(grep -nE '^train |^unsaved .*--out DIR' "$folder/err" | sed 's/^[0-9]*:\([a-z]*\).*/\1/' |
            tr '\n' ' ')" = 'train unsaved unsaved ' ]
}
check 'training without --out says that nothing is kept' keeps_nothing
is_quiet_of_it() {
    "$HETERPS" "$graph" --data "$data" --out "$folder/kept" 2>&1 </dev/null | grep -c unsaved | grep -qx 0
}
check 'and with it says no such thing' is_quiet_of_it

of_batch() { "$HETERPS" "$graph" --data "$data" --set train.batch="$1" 2>&1 </dev/null | grep '^steps'; }
few_steps() {
    smaller='a smaller train.batch, such as 16, would learn more in a pass'
    of_batch 64 | grep -qx "steps    a pass has 32 steps of 64 examples: $smaller" && ! of_batch 16
}
check 'few steps a pass: a smaller batch is named' few_steps

measured "$graph" "$model" "$data" >"$folder/expected" || echo "not ok 999 - eval"
still_whole() { measured "$graph" "$model" "$data" >"$folder/now" && diff "$folder/expected" "$folder/now"; }
cfg=samples/ctrdnn1.cfg table_file=$(basename "$model"/emb.*)
# A file-size limit, in blocks of 512 bytes, stands for a disk that fills up.
limited() { # BLOCKS PATTERN ARGUMENT...
    blocks=$1 pattern=$2
    shift 2
    (ulimit -f "$blocks" && "$HETERPS" "$@" >"$folder/out" 2>"$folder/err" </dev/null)
    [ $? = 1 ] && is_one_error "$pattern"
}
save_blocks=$(($(wc -c <"$model/$table_file") / 512 / 2))
limited_save() {
    find "$model" -type f | sort >"$folder/names"
    limited "$save_blocks" 'model/emb\.[0-9].*: .*(large|space)' "$graph" --data "$data" --resume "$model" \
        --set train.epochs=2 -q && still_whole && find "$model" -type f | sort | diff "$folder/names" -
}
limited_predict() {
    echo old >"$folder/old" && limited 1 'old' predict "$graph" --model "$model" --data "$data" -o "$folder/old" &&
        [ "$(cat "$folder/old")" = old ]
}
limited_compile() {
    echo old >"$folder/old" && limited 1 'old' compile "$cfg" -o "$folder/old" && [ "$(cat "$folder/old")" = old ]
}
limited_gen() {
    echo old >"$folder/old" && limited 10 'old' gen criteo --rows 5000 -o "$folder/old" &&
        [ "$(cat "$folder/old")" = old ]
}
limited_export() {
    mkdir -p "$folder/x" && echo old >"$folder/x/emb.safetensors" &&
        limited 1 'x/' export "$graph" --model "$model" -o "$folder/x" && [ "$(cat "$folder/x/emb.safetensors")" = old ]
}
check 'saving beyond a file-size limit: error, the old model is whole, nothing is left' limited_save
check 'predict beyond a file-size limit: error, the old file stays' limited_predict
check 'compile beyond a file-size limit: error, the old file stays' limited_compile
check 'gen beyond a file-size limit: error, the old file stays' limited_gen
check 'export beyond a file-size limit: error, the old file stays' limited_export
# An export is whole or not there, and what a killed one leaves goes with the next.
killed_export() {
    for moment in 0.002 0.004 0.006 0.008 0.01 0.013 0.016 0.02 0.03; do
        rm -f "$folder"/k/*.safetensors
        "$HETERPS" export "$graph" --model "$model" -o "$folder/k" -q &
        sleep $moment
        kill -KILL $! 2>/dev/null
        wait $! # a process that is being killed ends its call of the system
        found=$(ls "$folder/k" 2>/dev/null | grep -c 'safetensors$')
        [ "$found" = 0 ] || [ "$found" = 2 ] || { ls "$folder/k"; return 1; }
    done
    mkdir -p "$folder/k" && sh -c 'echo left >"$1.tmp.$$"' sh "$folder/k/emb.safetensors" &&
        ls "$folder/k" | grep -q tmp &&
        heterps export "$graph" --model "$model" -o "$folder/k" &&
        [ "$(ls "$folder/k" | tr '\n' ' ')" = 'dense.safetensors emb.safetensors ' ]
}
check 'export: killed at any moment, it is whole or not there' killed_export
part_export() { # a limit that the first file keeps, and the second does not
    rm -rf "$folder/x" && blocks=$(($(wc -c <"$folder/k/dense.safetensors") / 512 + 1)) &&
        [ "$(wc -c <"$folder/k/emb.safetensors")" -gt $((blocks * 512)) ] &&
        limited $blocks 'x/emb' export "$graph" --model "$model" -o "$folder/x" && [ -z "$(ls "$folder/x")" ]
}
check 'export: of which a part fails, nothing is there' part_export

# In a mount namespace of its own, so that nothing is left mounted.
disk_full() {
    unshare -m sh -c '
        mount -t tmpfs -o size=$(($(du -sk "$2" | cut -f 1) * 3 / 2))k none "$5" && cp -R "$2" "$5/model" || exit 9
        "$1" "$3" --data "$4" --resume "$5/model" --set train.epochs=2 -q >"$5.out" 2>"$5.err" </dev/null
        echo $? >"$5.status"
        rm -rf "$2" && cp -R "$5/model" "$2"' \
        sh "$HETERPS" "$folder/disk.model" "$graph" "$data" "$folder/disk" || return 1
    mv "$folder/disk.out" "$folder/out" && mv "$folder/disk.err" "$folder/err" &&
        [ "$(cat "$folder/disk.status")" = 1 ] && is_one_error 'disk/model/.*No space left' || return 1
    diff -r "$model" "$folder/disk.model"
}
cp -R "$model" "$folder/disk.model" && mkdir "$folder/disk"
if [ "$(id -u)" = 0 ] && unshare -m mount -t tmpfs none "$folder/disk" 2>/dev/null; then
    check 'saving on a full disk: error, the old model is whole, nothing is left' disk_full
else
    skip 'saving on a full disk' 'needs a user who may mount'
fi
check 'the model is as it was' still_whole
check 'store.ram: more than there is: error names it' fails_so 1 'store\.ram' "$graph" \
    --data "$data" --set store.ram=100TiB -q
finish

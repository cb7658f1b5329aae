#!/bin/sh
# Every end is told: results that could not be written are a failure, a graph that is a pipe, a folder or a
# device is refused and not waited for, and what a verb started ends with it.
. "$(dirname "$0")/lib.sh"
tiny_model && rows 600 "$work/data.tsv" && "$HETERPS" "$work/tiny.bin" --data "$work/data.tsv" --out "$work/model" -q ||
    { echo "not ok 1 - fixture"; exit 1; }
cd "$work" || exit 1
cat >cluster.cfg <<'CFG'
[type cpu]
device = cpu
price_per_hour = 1
limit = 2
[goal]
throughput = 1000
CFG

# full NAME ARGUMENT...: to a full disk, the exit status is 1, and the last line of standard error says why.
full() {
    name=$1
    shift
    "$HETERPS" "$@" >/dev/full 2>.err
    status=$?
    if [ $status = 1 ] && tail -1 .err |
        grep -q '^heterps-run: error: standard output: .*could not be written: No space left on device$'; then
        ok "a full disk: $name"
    else
        not_ok "a full disk: $name"
        { echo "exit status $status"; tail -3 .err; } | note
    fi
}
full eval eval tiny.bin --model model --data data.tsv --log json
full training tiny.bin --data data.tsv --out model2 --log json
full plan plan tiny.bin --cluster cluster.cfg --log json -o plan.json
full 'plan, as text' plan tiny.bin --cluster cluster.cfg
full doctor doctor tiny.bin --data data.tsv --log json
full 'doctor, as text' doctor tiny.bin --data data.tsv
full fsck fsck model
full inspect inspect tiny.bin
full devices devices --json
full --help --help
full 'help settings' help settings
full 'a verb'\''s help' help eval
full 'a verb --help' eval --help
full --version --version
check '… and what was trained is saved' "$HETERPS" fsck model2 -q

# Not a graph.
mkfifo pipe
mkdir folder
for verb in '' eval predict inspect export plan-memory doctor gen profile compile; do
    case $verb in
    eval | predict) more='--model model --data data.tsv' ;;
    export) more='--model model -o out' ;;
    gen) more='--rows 1 -o out' ;;
    profile) more='--cluster cluster.cfg' ;;
    compile) more='-o out' ;;
    inspect) more= ;;
    *) more='--data data.tsv' ;;
    esac
    for graph in ./pipe ./folder /dev/zero; do
        timeout 5 "$HETERPS" $verb $graph $more >.out 2>.err
        [ $? = 1 ] && grep -qE "(error:|fail ).*expected a (graph|regular) file, found a (pipe|directory|device)" .err \
                .out || { not_ok "$verb $graph"; tail -2 .err | note; continue 2; }
    done
    ok "${verb:-train}: a pipe, a folder, a device"
done
check 'a pipe without a path in its name' \
    sh -c "timeout 5 '$HETERPS' pipe 2>&1 | grep -q 'expected a graph file, found a pipe'"

# doctor's look at a training that waits for a pipe's data is ended with it.
mkfifo waits
"$HETERPS" doctor tiny.bin --data waits --set data.transform=none >.out 2>&1 &
doctor=$!
child=
for _ in $(seq 100); do
    child=$(cat /proc/$doctor/task/$doctor/children 2>/dev/null)
    [ -z "$child" ] || break
    sleep 0.02
done
kill -KILL $doctor 2>/dev/null
wait $doctor 2>/dev/null
for _ in $(seq 100); do
    [ -n "$child" ] && kill -0 $child 2>/dev/null || break
    sleep 0.02
done
if [ -n "$child" ]; then
    check 'doctor is killed: its child ends, too' sh -c "! kill -0 $child 2>/dev/null"
else
    skip 'doctor is killed: its child ends, too' 'it was over before'
fi
finish

#!/bin/sh
# SIGINT and SIGTERM finish the step, save, and say how to go on; kill -9 at any moment leaves a model that loads.
. "$(dirname "$0")/lib.sh"
. tests/e2e/process.sh
graph=$folder/graph.bin data=$folder/data.tsv test=$folder/test.tsv
heterps gen criteo --rows "$(scaled 4000)" --seed 21 -o "$data" &&
    heterps gen criteo --rows 500 --skip 4000 --seed 21 -o "$test" &&
    heterps compile samples/ctrdnn1.cfg -o "$graph" --set store.ram=16MiB --set train.epochs=100000 ||
    { echo "not ok 1 - fixture"; exit 1; }
loads() { runs 0 "$HETERPS" eval "$graph" --model "$1" --data "$test"; }
now_ms() { date +%s%3N; }

# ended STATUS MILLISECONDS: the started process ends so, within that time.
ended() {
    begin=$(now_ms)
    while ! is_over; do
        [ $(($(now_ms) - begin)) -lt "$2" ] || { echo "still runs after $2 ms"; kill -9 $pid; wait $pid; return 1; }
        sleep 0.02
    done
    wait $pid
    got=$?
    [ $got = "$1" ] || { echo "exit status $got instead of $1"; tail -n 3 "$folder/run.err"; return 1; }
}
says() {
    grep -Eq -- "^heterps-run: error: $1" "$folder/run.err" ||
        { echo "expected /$1/, found:"; tail -n 3 "$folder/run.err"; return 1; }
}
# Patience: a step and a save take no time here, but the machine may be busy or the program slow.
patience=10000
[ $sanitized = no ] || patience=40000

# --- during training --------------------------------------------------------------------------------------------------

stops() { # SIGNAL STATUS
    rm -rf "$folder/model"
    start "$graph" --data "$data" --out "$folder/model" --log json
    await '"start"' "$folder/run.out" && sleep 0.4 && kill "-$1" $pid && ended "$2" $patience &&
        says 'stopped after step [0-9]+; the model is saved; go on with: heterps-run .*--resume ' &&
        loads "$folder/model"
}
goes_on() { # the command that the message names
    command=$(sed -n 's/.*go on with: heterps-run //p' "$folder/run.err" | head -n 1)
    step=$(sed -n 's/.*stopped after step \([0-9]*\);.*/\1/p' "$folder/run.err" | head -n 1)
    runs 0 "$HETERPS" $command --set train.steps_max=$((step + 3)) --log json &&
        [ "$(event_number done step "$folder/out")" = $((step + 3)) ] &&
        [ "$(event_number start step "$folder/out")" = "$step" ]
}
saves_nothing() {
    start "$graph" --data "$data" --log json
    await '"start"' "$folder/run.out" && sleep 0.4 && kill -INT $pid && ended 130 $patience &&
        says 'stopped after step [0-9]+; nothing was saved, because --out DIR was not given'
}
old_stays_whole() { # a signal while it resumes into the same directory, again and again
    for delay in 0.0 0.05 0.1 0.2 0.3; do
        start "$graph" --data "$data" --resume "$folder/model" --set checkpoint.every=1 -q
        sleep $delay
        kill -TERM $pid 2>/dev/null
        ended 143 $patience && loads "$folder/model" || return 1
    done
}
check 'SIGINT: ends the step, saves, says how to go on' stops INT 130
check 'SIGINT: what it says works' goes_on
check 'SIGTERM: ends the step, saves, says how to go on' stops TERM 143
check 'SIGINT without --out: says that nothing was saved' saves_nothing
check 'SIGTERM at any moment of a resumed run: the model loads' old_stays_whole

# --- while standard input has nothing to read -------------------------------------------------------------------------

stalled() { # ARGUMENT...: starts the program on a pipe that gives the data and then nothing
    [ -p "$folder/pipe" ] || mkfifo "$folder/pipe"
    { cat "$data"; exec sleep 60; } >"$folder/pipe" &
    writer=$!
    helpers="$helpers $writer"
    env --default-signal=INT,TERM "$HETERPS" "$@" <"$folder/pipe" >"$folder/run.out" 2>"$folder/run.err" &
    pid=$!
    helpers="$helpers $pid"
    await_program
    sleep 0.7
}
stalled_train() {
    rm -rf "$folder/model"
    stalled "$graph" --data - --set train.epochs=1 --out "$folder/model" && kill -INT $pid &&
        ended 130 $((patience / 2)) && says 'stopped after step [0-9]+; the model is saved' && loads "$folder/model"
    stalled_result=$?
    kill $writer 2>/dev/null
    return $stalled_result
}
stalled_eval() {
    stalled eval "$graph" --model "$folder/model" --data - -q && kill -INT $pid && ended 130 $((patience / 2)) &&
        says 'stopped by a signal'
    stalled_result=$?
    kill $writer 2>/dev/null
    return $stalled_result
}
twice() {
    stalled "$graph" --data - --set train.epochs=1 && kill -INT $pid && sleep 0.3 && kill -INT $pid && ended 130 1500
    stalled_result=$?
    kill $writer 2>/dev/null
    return $stalled_result
}
unwritten() { # a prediction that is interrupted leaves the old file
    echo old >"$folder/old"
    stalled predict "$graph" --model "$folder/model" --data - -q -o "$folder/old" && kill -TERM $pid &&
        ended 143 $((patience / 2)) && [ "$(cat "$folder/old")" = old ] && [ -z "$(find "$folder" -name 'old?*')" ]
    stalled_result=$?
    kill $writer 2>/dev/null
    return $stalled_result
}
half_gone() { # generated rows that are interrupted leave nothing
    start gen criteo --rows 100000000 -o "$folder/gen"
    await_program
    sleep 0.3
    kill -INT $pid && ended 130 $patience && says 'stopped by a signal after [0-9]+ rows' &&
        [ -z "$(find "$folder" -name 'gen*')" ]
}
check 'gen: SIGINT: nothing is left' half_gone
# ThreadSanitizer holds a signal back while its thread sleeps in a system call that it does not know.
if [ "$(basename "$BUILD")" = tsan ]; then
    skip 'signals while a pipe stalls' 'ThreadSanitizer delays them'
else
    check 'SIGINT while standard input stalls: ends within seconds, saves' stalled_train
    check 'eval: SIGINT while standard input stalls: ends within seconds' stalled_eval
    check 'a second SIGINT: ends at once' twice
    check 'predict -o: SIGTERM while standard input stalls: the old file stays, nothing is left' unwritten
fi

# --- during evaluation: what was trained is not lost ------------------------------------------------------------------

# The data to evaluate on comes through a pipe that stalls, so that the signal certainly falls into the evaluation.
evaluating() { # SIGNAL STATUS
    rm -rf "$folder/model"
    [ -p "$folder/evaluation" ] || mkfifo "$folder/evaluation"
    { cat "$test"; exec sleep 60; } >"$folder/evaluation" &
    writer=$!
    helpers="$helpers $writer"
    start "$graph" --data "$data" --eval "$folder/evaluation" --out "$folder/model" --set train.epochs=1 --log json
    await '"done"' "$folder/run.out" && sleep 0.5 && kill "-$1" $pid &&
        ended "$2" $((patience / 2)) && loads "$folder/model"
    evaluating_result=$?
    kill $writer 2>/dev/null
    return $evaluating_result
}
# A large set, evaluated after every step: nearly all of the time is evaluation.
evaluating_often() {
    rm -rf "$folder/model"
    [ -s "$folder/large.tsv" ] || heterps gen criteo --rows "$(scaled 100000)" --seed 22 -o "$folder/large.tsv"
    start "$graph" --data "$data" --eval "$folder/large.tsv" --out "$folder/model" --set eval.every=1 --log json
    await '"eval"' "$folder/run.out" && sleep 0.1 && kill -INT $pid && ended 130 $patience &&
        says 'stopped after step [0-9]+; the model is saved' && loads "$folder/model"
}
[ "$(basename "$BUILD")" = tsan ] ||
    check 'SIGINT during the last evaluation: ends within seconds, the model is saved' evaluating INT 130
check 'SIGINT during an evaluation between steps: the model is saved' evaluating_often

# --- kill -9 ----------------------------------------------------------------------------------------------------------

seed=$(date +%s) kills=20
[ $sanitized = no ] || kills=6
killed() {
    rm -rf "$folder/model"
    heterps "$graph" --data "$data" --out "$folder/model" --set train.steps_max=1 || return 1
    for delay in $(awk -v seed="$seed" -v n=$kills 'BEGIN { srand(seed);
        for (i = 0; i < n; i++) printf "%.3f ", 0.01 + rand() * 0.25 }'); do
        start "$graph" --data "$data" --resume "$folder/model" --set checkpoint.every=2 -q
        sleep "$delay"
        kill -9 $pid
        wait $pid 2>/dev/null
        loads "$folder/model" || { echo "after $delay s"; ls -l "$folder/model"; return 1; }
    done
    leftovers=$(find "$folder/model" -type f | wc -l)
    heterps "$graph" --data "$data" --resume "$folder/model" --set train.steps_max=$(($(last_step) + 1)) &&
        loads "$folder/model" &&
        [ "$(find "$folder/model" -type f ! -name lock | wc -l)" = 3 ] # the next save removes what was left
}
last_step() {
    "$HETERPS" eval "$graph" --model "$folder/model" --data "$test" --log json </dev/null >"$folder/log" &&
        event_number eval step "$folder/log"
}
check "kill -9 at $kills random moments of saving every 2 steps: the model always loads" killed
echo "# step $(last_step) after $kills kills, $leftovers files in the directory before the last save; seed $seed"
killed_first() { # the first save of all: nothing, or a model; and training into the directory works afterwards
    for delay in 0.03 0.06 0.1 0.15 0.2; do
        rm -rf "$folder/first"
        start "$graph" --data "$data" --out "$folder/first" --set checkpoint.every=1 -q
        sleep $delay
        kill -9 $pid
        wait $pid 2>/dev/null
        [ ! -e "$folder/first/manifest.json" ] || loads "$folder/first" || return 1
        heterps "$graph" --data "$data" --out "$folder/first" --set train.steps_max=1 &&
            loads "$folder/first" || return 1
    done
}
check 'kill -9 during a first run: the directory can be trained into again' killed_first
two_writers() { # a second process on one directory is refused, the first goes on
    rm -rf "$folder/shared"
    start "$graph" --data "$data" --out "$folder/shared" --set checkpoint.every=5 --log json
    await '"checkpoint"' "$folder/run.out" &&
        fails_so 1 'another process writes to this directory' "$graph" --data "$data" --out "$folder/shared" -q &&
        loads "$folder/shared" && kill -TERM $pid && ended 143 $patience && loads "$folder/shared"
}
check 'two processes, one directory: the second is refused' two_writers
finish

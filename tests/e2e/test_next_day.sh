#!/bin/sh
# A model lives for a week: every day brings a file, on which the model is trained where the day before has
# left it; a run is killed and resumed, the model is measured on the day that comes, and a day is rolled back.
# And what is not the data of a save is not taken for it.
. "$(dirname "$0")/lib.sh"
. tests/e2e/process.sh
tiny_model
graph=$work/tiny.bin model=$work/m
rows=$(scaled 3000)
for day in 1 2 3 4 5 6 7 8; do rows "$rows" "$work/day$day.tsv" $((day * rows)); done
steps=$(((rows + 127) / 128)) # a day
settings='--set train.batch=128 --set checkpoint.keep=9 --set data.shuffle=200'
progress() { # FIELD [MODEL]: of the newest save
    python3 -c 'import json, sys; print(json.load(open(sys.argv[2] + "/manifest.json"))["progress"][sys.argv[1]])' \
        "$1" "${2:-$model}"
}
day() { # DAY ARGUMENT...
    file=$work/day$1.tsv
    shift
    # shellcheck disable=SC2086
    runs 0 "$HETERPS" "$graph" --data "$file" $settings "$@"
}

# --- a week -------------------------------------------------------------------------------------

first() { day 1 --out "$model" && [ "$(progress step)" = $steps ] && [ "$(progress examples)" = "$rows" ]; }
check 'day 1: a new model' first
second() {
    day 2 --continue "$model" && [ "$(progress step)" = $((2 * steps)) ] &&
        [ "$(progress examples)" = $((2 * rows)) ] &&
        [ "$(progress epoch)" = 1 ] && grep -q "continue after step $steps: a new pass begins" "$folder/err"
}
check 'day 2: goes on behind day 1, and reads all of its file' second
third() { # kill -9 after some save within the pass: what is resumed from it ends as a day that was not killed
    cp -r "$model" "$work/straight"
    # shellcheck disable=SC2086
    start "$graph" --data "$work/day3.tsv" $settings --continue "$model" --set checkpoint.every=1 --log json
    await '"checkpoint"' "$folder/run.out"
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
    [ "$(progress first_step)" = $((2 * steps)) ] && day 3 --resume "$model" && day 3 --continue "$work/straight" &&
        [ "$(progress step)" = $((3 * steps)) ] && exported "$graph" "$model" killed &&
        exported "$graph" "$work/straight" straight && same_bytes killed straight
}
check 'day 3: killed within the pass and resumed, the bytes of a day that was not' third
measured() { # EVALUATED-DAY: its log loss by the model as it is
    "$HETERPS" eval "$graph" --model "$model" --data "$work/day$1.tsv" --log json 2>/dev/null >"$folder/eval" &&
        [ "$(event_field "$folder/eval" eval samples)" = "$rows" ]
}
fourth() { measured 4 && day 4 --continue "$model" && [ "$(progress step)" = $((4 * steps)) ]; }
check 'day 4: measured before it is learnt' fourth
fifth() { # two passes over it
    day 5 --continue "$model" --set train.epochs=2 && [ "$(progress step)" = $((6 * steps)) ] &&
        [ "$(progress examples)" = $((6 * rows)) ] &&
        [ "$(progress epoch)" = 5 ] && [ "$(progress first_epoch)" = 4 ]
}
check 'day 5: train.epochs counts the passes over its data' fifth
sixth() { # by mistake, twice: back to the save before it
    cp -r "$model" "$work/before6" && day 6 --continue "$model" && ! grep -q 'very data' "$folder/err" &&
        day 6 --continue "$model" && [ "$(progress step)" = $((8 * steps)) ] &&
        grep -q "warning: $model has been trained on this very data (.*day6.tsv): --continue trains on it once more" \
            "$folder/err" &&
        day 6 --continue "$model/manifest.$((6 * steps)).json" && [ "$(progress step)" = $((7 * steps)) ] &&
        day 6 --continue "$work/before6" && exported "$graph" "$model" back &&
        exported "$graph" "$work/before6" once && same_bytes back once
}
check 'day 6: rolled back to the day before, and learnt once' sixth
seventh() { # with bounds of its own
    day 7 --continue "$model" --set train.steps_max=3 && [ "$(progress step)" = $((7 * steps + 3)) ] &&
        cp -r "$model" "$work/within7" &&
        day 7 --continue "$work/within7" --set train.steps_max=1 --set checkpoint.keep=1 && rm -r "$work/within7" &&
        anew='--continue begins it anew, and leaves out what follows the first 384 examples of its pass' &&
        grep -q "within7 has stopped training in this very data (.*day7.tsv): $anew, .*--resume in place" \
            "$folder/err" &&
        grep -q 'the next save takes the place of this one (checkpoint.keep = 1)' "$folder/err" &&
        day 7 --resume "$model" &&
        [ "$(progress step)" = $((8 * steps)) ] && measured 8 && runs 0 "$HETERPS" fsck "$model"
}
check 'day 7: train.steps_max counts from its beginning; resumed without it, the rest is trained' seventh
# A command that is started again unchanged: it begins the day, goes on with it, and does no more than it.
often() {
    cp -r "$model" "$work/often"
    for at in 1 2 "$steps" "$steps"; do
        day 8 --continue "$work/often" --again --set "train.steps_max=$at" &&
            [ "$(progress step "$work/often")" = $((8 * steps + at)) ] &&
            [ "$(progress first_step "$work/often")" = $((8 * steps)) ] || return 1
    done
    grep -q 'complete the training had come to its end, at step' "$folder/err" && ! grep -q warning "$folder/err" &&
        cp -r "$model" "$work/once" && day 8 --continue "$work/once" &&
        exported "$graph" "$work/often" often && exported "$graph" "$work/once" once8 && same_bytes often once8
}
check 'day 8: --continue --again begins the day, is stopped, and goes on with it' often

# shellcheck disable=SC2086
# --- what is not the data of a save -------------------------------------------------------------

cp -r "$model" "$work/m8"
other='its training has stopped in .*day7.tsv of [0-9]* bytes, found .*day8.tsv of [0-9]* bytes.*--continue'
fails 1 "$other" 'a finished pass is not resumed on other data' "$HETERPS" "$graph" --data "$work/day8.tsv" \
    --resume "$model" -q $settings
unchanged() { diff -r "$model" "$work/m8"; }
check 'and the model stays as it was' unchanged
within() { day 8 --continue "$work/m8" --set train.steps_max=4; }
check 'a save within a pass' within
fails 1 'its training has stopped in .*day8.tsv' 'a save within a pass is not resumed on other data' \
    "$HETERPS" "$graph" --data "$work/day1.tsv" --resume "$work/m8" -q $settings
head -c -7 "$work/day8.tsv" >"$work/shorter.tsv"
fails 1 'found .*shorter.tsv of' 'nor on a part of it' "$HETERPS" "$graph" --data "$work/shorter.tsv" \
    --resume "$work/m8" -q $settings
sed '1s/^./7/' "$work/day8.tsv" >"$work/changed.tsv"
fails 1 'which has as many bytes, but different ones' 'nor where a byte has changed' \
    "$HETERPS" "$graph" --data "$work/changed.tsv" --resume "$work/m8" -q $settings
fails 1 'has stopped in 1 file of data .*found 2' 'nor on more files' \
    "$HETERPS" "$graph" --data "$work/day8.tsv,$work/day1.tsv" --resume "$work/m8" -q $settings
moved() {
    mv "$work/day8.tsv" "$work/moved.tsv" && ln -s moved.tsv "$work/day8.tsv" && mkdir "$work/sub" &&
        cp "$work/moved.tsv" "$work/sub/x.tsv" && runs 0 "$HETERPS" "$graph" --data "$work/sub/x.tsv" $settings \
            --resume "$work/m8" && [ "$(progress step "$work/m8")" = $((9 * steps)) ]
}
check 'but on the same file under another name' moved
: >"$work/empty.tsv"
fails 1 'empty.tsv: no examples' 'an empty day is an error' "$HETERPS" "$graph" --data "$work/empty.tsv" \
    --continue "$work/m8" -q $settings --out "$work/e"
fails 2 'give one of them' '--resume and --continue exclude each other' \
    "$HETERPS" "$graph" --data "$work/day1.tsv" --continue "$model" --resume "$model"
fails 2 'give --out' '--again without a place to go on from' "$HETERPS" "$graph" --data "$work/day1.tsv" --again
fails 2 'give --cluster FILE' '--method without a cluster' "$HETERPS" "$graph" --data "$work/day1.tsv" --method exact
fails 2 'give --cluster FILE' '--no-cache without a cluster' "$HETERPS" "$graph" --data "$work/day1.tsv" --no-cache
fails 2 'emb.ssd is a part of store.ssd, which is 0' 'a disk of a table alone' \
    "$HETERPS" "$graph" --data "$work/day1.tsv" --set emb.ssd=64MiB
fails 2 'give one of them' '--init and --continue exclude each other' \
    "$HETERPS" "$graph" --data "$work/day1.tsv" --continue "$model" --init "$model"
piped_in() { # standard input has no name: a new pass over it can be begun
    # shellcheck disable=SC2086
    "$HETERPS" "$graph" --data - $settings --continue "$model" -q <"$work/day1.tsv" &&
        [ "$(progress step)" = $((9 * steps)) ]
}
check 'a day may come through a pipe' piped_in

short_stream() { # what a save stands in has more than this
    # shellcheck disable=SC2086
    "$HETERPS" "$graph" --data - $settings --out "$work/piped" --set train.steps_max=2 -q <"$work/day1.tsv" &&
        ! head -100 "$work/day1.tsv" |
        "$HETERPS" "$graph" --data - $settings --resume "$work/piped" >/dev/null 2>"$folder/err" &&
        grep -q 'expected more than the 256 examples of the pass that are done' "$folder/err"
}
check 'a pipe that ends before the place of the save is an error' short_stream
other_stream() {
    # shellcheck disable=SC2086
    ! { head -100 "$work/day1.tsv"; tail -n +101 "$work/day1.tsv" | tr 'f' 'e'; } |
        "$HETERPS" "$graph" --data - $settings --resume "$work/piped" >/dev/null 2>"$folder/err" &&
        other='it is not the stream in which the save.s training has stopped: the first [0-9]* bytes differ' &&
        grep -q "error: standard input: $other; .* --continue in place of --resume" "$folder/err" &&
        "$HETERPS" "$graph" --data - $settings --resume "$work/piped" -q <"$work/day1.tsv"
}
check 'and so is another one; the same one is gone on with' other_stream
fails 2 "lies in the model's directory" 'a trace has no place in a model' \
    "$HETERPS" "$graph" --data "$work/day1.tsv" --init "$model" --trace "$model/trace.json" -q
other_day() { # of two streams, each a whole pass, the second is another one
    # shellcheck disable=SC2086
    "$HETERPS" "$graph" --data - $settings --out "$work/daily" -q <"$work/day1.tsv" &&
        "$HETERPS" "$graph" --data - $settings --continue "$work/daily" --again --out "$work/daily" -q \
            <"$work/day2.tsv" && [ "$(progress step "$work/daily")" = $((2 * steps)) ]
}
check '--continue --again begins the next day of a pipe' other_day
elsewhere() { # nothing is left to train, and the model is in the other directory all the same
    day 1 --resume "$work/daily/manifest.$steps.json" --out "$work/other" && grep -q 'nothing to train' "$folder/err" &&
        exported "$graph" "$work/other" other && day 1 --out "$work/straight1" &&
        exported "$graph" "$work/straight1" straight1 && same_bytes other straight1
}
fewer() { # saves that go are named
    cp -r "$work/daily" "$work/fewer" && day 3 --continue "$work/fewer" --set checkpoint.every=10 \
            --set checkpoint.wait=yes &&
        ! grep -q 'the next save removes' "$folder/err" && files=$(ls "$work/fewer"/manifest*.json | wc -l) &&
        day 4 --continue "$work/fewer" --set checkpoint.keep=1 &&
        those="$files older ones, of steps $steps to $((3 * steps)) (checkpoint.keep = 1)" &&
        grep -q "fewer: the next save removes $those" \
            "$folder/err" && [ "$(ls "$work/fewer"/manifest*.json | wc -l)" = 1 ]
}
check 'nothing left to train, and another directory: it has the model' elsewhere
check 'a run that keeps fewer saves says which go' fewer
whole() { grep -q 'progress 100% step' "$folder/err"; }
check 'a run that has read all of its data is at 100 %' whole
told() {
    day 1 --out "$work/piped" &&
        grep -q 'out .*piped holds a model: the saves of this training take the place of its own' "$folder/err"
}
check 'a new training into an old model says that it takes its place' told
other_rules() { # of a graph by older rules: what to do is said before the directory is found to hold another model
    ! "$HETERPS" "$work/eight.bin" --data "$work/day1.tsv" --continue "$model" -q 2>"$folder/err" &&
        grep -q "set model.rules=$(rules_newest)" "$folder/err"
}
"$HETERPS" compile "$work/tiny.cfg" -o "$work/eight.bin" -q --set model.rules=8
check 'a model of other rules: how to go on' other_rules

# --- a file so large that marks are kept ----------------------------------------------------------

large() { # resumed in its second half: the bytes of a run that was not stopped, and most of the file is not read again
    rows 40000 "$work/large.tsv"
    for mix in 0 500; do
        "$HETERPS" "$graph" --data "$work/large.tsv" --out "$work/w$mix" -q --set train.batch=128 \
            --set data.shuffle=$mix &&
            "$HETERPS" "$graph" --data "$work/large.tsv" --out "$work/p$mix" -q \
                --set train.batch=128 --set data.shuffle=$mix --set train.steps_max=250 &&
            { [ $mix != 0 ] || cp -r "$work/p0" "$work/at250"; } &&
            "$HETERPS" "$graph" --data "$work/large.tsv" --resume "$work/p$mix" --set train.batch=128 \
                --set data.shuffle=$mix -q &&
            exported "$graph" "$work/w$mix" "whole$mix" && exported "$graph" "$work/p$mix" "part$mix" &&
            same_bytes "whole$mix" "part$mix" || return 1
        grep -q '"marks": \[$' "$work/p$mix/manifest.json" || return 1
    done
}
check 'a large file is gone on with from a mark of its text' large
# A line that is done and that no sample of the file has may be malformed: it is not parsed again, but from
# the front it is an error.
unread() {
    sed '5000s/\t/x/' "$work/large.tsv" >"$work/garbled.tsv"
    ! "$HETERPS" "$graph" --data "$work/garbled.tsv" --set train.batch=128 -q 2>"$folder/err" &&
        grep -q 'garbled.tsv:5000: expected' "$folder/err" &&
        "$HETERPS" "$graph" --data "$work/garbled.tsv" --resume "$work/at250" --set train.batch=128 -q
}
check '… and what is done is not parsed again' unread
finish

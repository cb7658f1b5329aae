#!/bin/sh
# Several saves are kept, whole at every moment: after a kill, on a full disk, from an older one on; and a
# save knows its recipe.
. "$(dirname "$0")/lib.sh"
. tests/e2e/process.sh
graph=$folder/graph.bin data=$folder/data.tsv test=$folder/test.tsv model=$folder/model
heterps gen criteo --rows 3000 --seed 51 -o "$data" && heterps gen criteo --rows 200 --skip 3000 --seed 51 -o "$test" &&
    heterps compile samples/ctrdnn1.cfg -o "$graph" --set store.ram=16MiB --set train.batch=200 --set train.epochs=2 \
        --set checkpoint.keep=3 --set checkpoint.wait=yes ||
    { echo "not ok 1 - fixture"; exit 1; }
# A pass has 15 steps, the whole run 30.

# step_of PATH: the step of the model there, which thereby loads.
step_of() {
    "$HETERPS" eval "$graph" --model "$1" --data "$test" \
        --log json </dev/null >"$folder/step.log" 2>"$folder/step.err" && event_number eval step "$folder/step.log"
}
manifests() { (cd "$1" && echo manifest*.json); }
# Every manifest of a directory loads, and the step in a name is that of the save.
all_whole() { # DIRECTORY
    for manifest in "$1"/manifest*.json; do
        step=$(step_of "$manifest") ||
            { echo "$manifest does not load:"; cat "$folder/step.err"; ls -l "$1"; return 1; }
        case ${manifest##*/} in
        manifest.json | manifest."$step".json | manifest."$step"-[0-9]*.json) ;;
        *) echo "$manifest is of step $step"; return 1 ;;
        esac
    done
}

# --- how many, and which ----------------------------------------------------------------------------------------------

no_leftover() { "$HETERPS" fsck "$1" >"$folder/fsck" && ! grep '^leftover' "$folder/fsck"; }
kept_three() {
    rm -rf "$model"
    runs 0 "$HETERPS" "$graph" --data "$data" --out "$model" --set checkpoint.every=2 --set train.steps_max=11 \
        --log json && cp "$folder/out" "$folder/kept.log" &&
        [ "$(manifests "$model")" = 'manifest.10.json manifest.8.json manifest.json' ] && all_whole "$model" &&
        [ "$(step_of "$model")" = 11 ] && no_leftover "$model"
}
bytes_told() { # the event says how much the save wrote
    [ "$(event_number checkpoint bytes "$folder/kept.log")" = \
        "$(cat "$model"/manifest.json "$model"/*.11.* | wc -c)" ] &&
        [ "$(grep -c '"event":"checkpoint"' "$folder/kept.log")" = 6 ]
}
kept_one() {
    rm -rf "$folder/one"
    heterps "$graph" --data "$data" --out "$folder/one" --set checkpoint.every=2 --set train.steps_max=7 \
        --set checkpoint.keep=1 &&
        [ "$(manifests "$folder/one")" = manifest.json ] &&
        [ "$(step_of "$folder/one")" = 7 ] && no_leftover "$folder/one"
}
others_read_it() {
    heterps predict "$graph" --model "$model/manifest.8.json" --data "$test" -o "$folder/p8" &&
        heterps predict "$graph" --model "$model" --data "$test" -o "$folder/p11" &&
        other_bytes "$folder/p8" "$folder/p11" && exported "$graph" "$model/manifest.8.json" eight &&
        trains straight "$graph" --data "$data" --set train.steps_max=8 && same_bytes straight eight
}
check 'checkpoint.keep=3: the last three saves, by name' kept_three
check '… and the events say the bytes of a save' bytes_told
check 'checkpoint.keep=1: the last one only' kept_one
check 'predict and export take an older manifest' others_read_it
check 'a manifest that is not there' fails_so 1 'manifest.9.json: holds no model' eval "$graph" \
    --model "$model/manifest.9.json" --data "$test"
check 'a file that is no manifest' fails_so 1 'expected a model.s directory, or a manifest' "$graph" \
    --data "$data" --resume "$data" -q

# --- from an older save on --------------------------------------------------------------------------------------------

from_older_elsewhere() {
    rm -rf "$folder/copy" "$folder/else"
    cp -R "$model" "$folder/copy" && heterps "$graph" --data "$data" --resume "$model/manifest.8.json" \
            --out "$folder/else" --set train.steps_max=12 &&
        diff -r "$model" "$folder/copy" && exported "$graph" "$folder/else" older &&
        trains whole "$graph" --data "$data" --set train.steps_max=12 && same_bytes whole older
}
# The saves of later steps stay until three newer ones are written.
from_older_here() {
    runs 0 "$HETERPS" "$graph" --data "$data" --resume "$model/manifest.8.json" --set checkpoint.every=2 \
        --set train.steps_max=11 --log json &&
        [ "$(event_number start step "$folder/out")" = 8 ] &&
        [ "$(manifests "$model")" = 'manifest.10-1.json manifest.11.json manifest.json' ] && all_whole "$model" &&
        heterps "$graph" --data "$data" --resume "$model" --set train.steps_max=12 &&
        [ "$(manifests "$model")" = 'manifest.10-1.json manifest.11-1.json manifest.json' ] &&
        all_whole "$model" && exported "$graph" "$model" here && same_bytes whole here
}
check 'resume from an older save, --out elsewhere: the same bytes, and the directory stays' from_older_elsewhere
check 'resume from an older save in its directory: the same bytes, and nothing is lost at once' from_older_here

# --- kill -9 ----------------------------------------------------------------------------------------------------------

seed=$(date +%s) kills=14
[ $sanitized = no ] || kills=4
killed() {
    rm -rf "$model"
    heterps "$graph" --data "$data" --out "$model" --set train.steps_max=1 || return 1
    most=0 last=1
    for delay in $(awk -v seed="$seed" -v n=$kills 'BEGIN { srand(seed);
        for (i = 0; i < n; i++) printf "%.3f ", 0.05 + rand() * 0.3 }'); do
        start "$graph" --data "$data" --resume "$model" --set checkpoint.every=1 --set train.epochs=100000 -q
        sleep "$delay"
        kill -9 $pid
        wait $pid 2>/dev/null
        all_whole "$model" || { echo "after $delay s"; return 1; }
        now=$(step_of "$model")
        [ "$now" -ge "$last" ] || { echo "the newest is of step $now, and was of step $last"; return 1; }
        last=$now files=$(find "$model" -type f | wc -l)
        [ "$files" -le $most ] || most=$files
    done
    heterps "$graph" --data "$data" --resume "$model" --set train.epochs=100000 --set train.steps_max=$((last + 1)) &&
        all_whole "$model" &&
        [ "$(manifests "$model" | wc -w)" = 3 ] && no_leftover "$model" # the next save removes what was left
}
check "kill -9 at $kills moments, three kept: every manifest is whole, the newest never goes back" killed
echo "# step $last after $kills kills, at most $most files in the directory; seed $seed"

# --- a full disk ------------------------------------------------------------------------------------------------------

# Room for two saves and a half. In a mount namespace of its own, so that nothing is left mounted.
disk_full() {
    rm -rf "$model" && heterps "$graph" --data "$data" --out "$model" --set train.steps_max=1 || return 1
    unshare -m sh -c '
        mount -t tmpfs -o size=$(($(du -sk "$2" | cut -f 1) * 5 / 2))k none "$5" && cp -R "$2" "$5/model" || exit 9
        "$1" "$3" --data "$4" --resume "$5/model" --set train.steps_max=9 --set checkpoint.every=1 \
            -q >"$5.out" 2>"$5.err" </dev/null
        echo $? >"$5.status"
        rm -rf "$2" && cp -R "$5/model" "$2"' sh "$HETERPS" "$model" "$graph" "$data" "$folder/disk" || return 1
    mv "$folder/disk.out" "$folder/out" && mv "$folder/disk.err" "$folder/err" &&
        [ "$(cat "$folder/disk.status")" = 1 ] && is_one_error 'disk/model/.*No space left' &&
        [ "$(manifests "$model")" = 'manifest.1.json manifest.json' ] && all_whole "$model" && no_leftover "$model"
}
mkdir "$folder/disk"
if [ "$(id -u)" = 0 ] && unshare -m mount -t tmpfs none "$folder/disk" 2>/dev/null; then
    check 'a disk that fills up: error, every save that was whole still is, nothing is left' disk_full
else
    skip 'a disk that fills up' 'needs a user who may mount'
fi

# --- the recipe -------------------------------------------------------------------------------------------------------

order_within_a_pass() {
    rm -rf "$model"
    heterps "$graph" --data "$data" --out "$model" --set data.shuffle=300 --set train.steps_max=4 &&
        cp -R "$model" "$folder/pass" &&
        fails_so 1 'data.shuffle was 300 when it was saved and is 500 now, but 800 examples of a pass are done' \
            "$graph" --data "$data" --resume "$model" --set data.shuffle=500 -q &&
        diff -r "$model" "$folder/pass"
}
as_it_says() { # the pass is finished as the message says; then the order may be another
    advice=$(sed -n 's/.*finish the pass first (\(.*\)), or start.*/\1/p' "$folder/err")
    [ -n "$advice" ] && heterps "$graph" --data "$data" --resume "$model" $advice && [ "$(step_of "$model")" = 15 ] &&
        runs 0 "$HETERPS" "$graph" --data "$data" --resume "$model" --set data.shuffle=500 -q &&
        grep -q 'warning: data.shuffle: 300 when it was saved, 500 now' "$folder/err" && [ "$(step_of "$model")" = 30 ]
}
# Stopped by a bound exactly at the end of a pass: whether it was the end is only known once somebody has looked.
as_it_says_at_the_end() {
    rm -rf "$model"
    heterps "$graph" --data "$data" --out "$model" --set data.shuffle=300 --set train.steps_max=15 &&
        fails_so 1 'data.shuffle was 300' "$graph" --data "$data" --resume "$model" \
            --set data.shuffle=500 -q && as_it_says
}
another_recipe() {
    rm -rf "$model"
    heterps "$graph" --data "$data" --out "$model" --set train.steps_max=4 &&
        runs 0 "$HETERPS" "$graph" --data "$data" --resume "$model" --set train.batch=100 \
            --set train.optimizer='adagrad 0.5' --set train.steps_max=6 --set store.ram=20MiB -q &&
        grep -q 'warning: train.batch: 200 when it was saved, 100 now' "$folder/err" &&
        grep -q 'warning: train.optimizer: .* when it was saved, adagrad 0.5 now' "$folder/err" &&
        [ "$(wc -l <"$folder/err")" = 2 ] && [ "$(step_of "$model")" = 6 ]
}
another_seed() {
    fails_so 1 'train.seed was 1 when it was saved and is 7 now' "$graph" --data "$data" \
        --resume "$model" --set train.seed=7 -q
}
check 'another order within a pass is refused, and nothing is touched' order_within_a_pass
check '… and what the message says goes on' as_it_says
check '… also where a bound stopped it at the end of the pass' as_it_says_at_the_end
check 'another recipe is one warning a setting' another_recipe
check 'another seed is refused by name' another_seed
finish

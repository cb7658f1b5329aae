#!/bin/sh
# Saves beside training: they change nothing, whatever their buffer, tier and back end; each loads to what a
# run that stops there has; and one that fails ends the run with a sentence.
. "$(dirname "$0")/lib.sh"
. tests/e2e/process.sh
data=$folder/data.tsv graph=$folder/graph.bin
examples=$(scaled 6400)
steps=$((examples / 64))
heterps gen criteo --rows $examples --seed 9 -o "$data" &&
    heterps compile samples/ctrdnn1.cfg -o "$graph" --set train.batch=64 --set train.micro=32 ||
    { echo "not ok 1 - fixture"; exit 1; }
check 'a run without saves between' trains whole "$graph" --data "$data"

like_whole() { # NAME ARGUMENT... : ends with the bytes of the run without saves, and all its saves are whole
    run=$1
    shift
    rm -rf "$folder/$run.model"
    heterps "$graph" --data "$data" --out "$folder/$run.model" "$@" && heterps fsck "$folder/$run.model" &&
        exported "$graph" "$folder/$run.model" "$run" && same_bytes whole "$run"
}
disk="--set store.ssd=32MiB --set store.path=$folder/rows"
check 'a save at every step' like_whole every --set checkpoint.every=1 --set checkpoint.keep=3 --set checkpoint.wait=yes
# late: no step waits for a save: what falls due meanwhile is one save, behind that, however slow the disk;
# evaluations come when they are due
late() {
    rm -rf "$folder/late.model"
    runs 0 "$HETERPS" "$graph" --data "$data" --out "$folder/late.model" --set checkpoint.every=1 \
        --set checkpoint.keep=1000 --eval "$data" --set eval.every=$((steps / 2)) --log json &&
        heterps fsck "$folder/late.model" && exported "$graph" "$folder/late.model" late &&
        same_bytes whole late || return 1
    late=$(event_number done saves_late "$folder/out") saves=$(grep -c '"event":"checkpoint"' "$folder/out") \
        evals=$(grep -c '"event":"eval"' "$folder/out")
    echo "$saves saves, $late late, $evals evaluations, $steps steps"
    [ "$late" -gt 0 ] && [ "$saves" -ge 2 ] && [ $((saves + late - steps)) -ge 0 ] &&
        [ $((saves + late - steps)) -le 1 ] && [ "$evals" = 2 ]
}
check '… or at as many as there is time for' late
check 'the least buffer' like_whole least --set checkpoint.every=1 --set checkpoint.buffer=64KiB
timed() { # a save whenever the one before it began a moment ago: some, though fewer than steps
    rm -rf "$folder/timed.model"
    runs 0 "$HETERPS" "$graph" --data "$data" --out "$folder/timed.model" --set checkpoint.seconds=0.001 \
        --set checkpoint.keep=1000 --set train.epochs=12 --log json && heterps fsck "$folder/timed.model" || return 1
    saves=$(grep -c '"event":"checkpoint"' "$folder/out")
    echo "$saves saves, $((12 * steps)) steps"
    [ "$saves" -ge 2 ] && [ "$saves" -lt $((12 * steps)) ] && exported "$graph" "$folder/timed.model" timed &&
        trains_same timed "$graph" --data "$data" --set train.epochs=12
}
check 'a save each time so much time has passed' timed
check 'three threads, more micro-batches in flight' like_whole threads \
    --threads 3 --set checkpoint.every=1 --set train.in_flight=4
check 'rows on disk, by io_uring' like_whole tiers $disk --set store.ram=10MiB --set checkpoint.every=3
check 'rows on disk, by threads' like_whole blocking $disk --set store.ram=10MiB \
    --set checkpoint.every=3 --set data.io=threads

older() { # each save that is kept is the model of a run that ends at its step
    heterps "$graph" --data "$data" --out "$folder/kept.model" --set checkpoint.every=7 \
        --set checkpoint.keep=4 || return 1
    for manifest in "$folder"/kept.model/manifest.*.json; do
        step=${manifest##*/manifest.}
        step=${step%.json}
        rm -rf "$folder/until.model"
        heterps "$graph" --data "$data" --out "$folder/until.model" --set train.steps_max="$step" &&
            exported "$graph" "$folder/until.model" until &&
            heterps export "$graph" --model "$manifest" -o "$folder/then" &&
            cmp "$folder/then/emb.safetensors" "$folder/until.values/emb.safetensors" &&
            cmp "$folder/then/dense.safetensors" "$folder/until.values/dense.safetensors" || return 1
        rm -rf "$folder/then"
    done
}
check 'a save that is kept is the model of its step' older

fails() { # the manifest that the next save would follow on is not one any more
    rm -rf "$folder/lost.model"
    heterps "$graph" --data "$data" --out "$folder/lost.model" --set train.steps_max=10 || return 1
    "$HETERPS" "$graph" --data "$data" --resume "$folder/lost.model" --set checkpoint.every=5 \
        --set checkpoint.buffer=64KiB --set train.epochs=$((500000 / examples)) \
        >"$folder/out" 2>&1 &
    process=$!
    until ls "$folder"/lost.model/dense.[2-9]*.safetensors >/dev/null 2>&1; do sleep 0.01; done
    until rm -f "$folder/lost.model/manifest.json" && mkdir "$folder/lost.model/manifest.json" 2>/dev/null; do :; done
    wait $process
    status=$?
    [ $status = 1 ] && grep -q 'manifest.json' "$folder/out"
}
check 'a save that fails ends the run' fails
finish

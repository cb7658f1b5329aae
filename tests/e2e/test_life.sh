#!/bin/sh
# Rows that come and go, from the command line: the same bytes for every budget, plan, back end and stop; what
# is said at the end; what is refused; and that a save with its counts of admission is whole, or known to be
# damaged.
. "$(dirname "$0")/lib.sh"
. tests/e2e/process.sh
data=$folder/data.tsv test=$folder/test.tsv graph=$folder/graph.bin
examples=$(scaled 16000)
steps=$((examples / 64 * 2))
heterps gen criteo --rows $examples --seed 5 -o "$data" &&
    heterps gen criteo --rows 500 --skip 20000 --seed 5 -o "$test" &&
    heterps compile samples/ctrdnn1.cfg -o "$graph" --set train.batch=64 --set train.micro=32 \
        --set train.epochs=2 --set store.period=50 \
        --set emb.admit=2 --set emb.admit_keys=200000 --set emb.ttl=2 --set emb.delete_score=0.12 --set emb.rows=6000 \
        --set emb.vector_score=0.3 &&
    python3 tests/e2e/make_plan.py "$folder/two.json" '0-2:1:1 3-5:1:1' || { echo "not ok 1 - fixture"; exit 1; }

like_whole() { # NAME ARGUMENT... : ends with the bytes of the run in RAM
    run=$1
    shift
    rm -rf "$folder/$run.model"
    heterps "$graph" --data "$data" --out "$folder/$run.model" "$@" &&
        exported "$graph" "$folder/$run.model" "$run" && same_bytes whole "$run"
}
disk="--set store.ssd=16MiB --set store.path=$folder/rows"
check 'all rows in RAM' trains whole "$graph" --data "$data"
check 'one thread' like_whole one --threads 1
check 'two stages' like_whole two --plan "$folder/two.json" --share
check 'RAM for half of the rows' like_whole half $disk --set store.ram=7300KiB
check 'RAM for a tenth of them, threads in place of io_uring' like_whole tenth $disk \
    --set store.ram=7150KiB --set data.io=threads
check 'saves and evaluations between steps' like_whole between $disk --set store.ram=7300KiB --set checkpoint.every=37 \
    --set eval.every=45 --eval "$test"

crossed() { # stopped and resumed across budgets, once at the very end of a period
    rm -rf "$folder/crossed.model"
    heterps "$graph" --data "$data" --out "$folder/crossed.model" --set train.steps_max=33 &&
        heterps "$graph" --data "$data" --resume "$folder/crossed.model" $disk --set store.ram=7300KiB \
            --set train.steps_max=100 &&
        heterps "$graph" --data "$data" --resume "$folder/crossed.model" --set train.steps_max=$((steps / 2 + 5)) &&
        heterps "$graph" --data "$data" --resume "$folder/crossed.model" $disk --set store.ram=7150KiB &&
        exported "$graph" "$folder/crossed.model" crossed && same_bytes whole crossed &&
        cmp "$folder/whole.model/emb.$(step_of whole).admission" \
            "$folder/crossed.model/emb.$(step_of crossed).admission"
}
step_of() { sed -n 's/.*"step": \([0-9]*\).*/\1/p' "$folder/$1.model/manifest.json" | head -1; }
check 'stopped and resumed across budgets' crossed

evaluates() {
    heterps eval "$graph" --model "$folder/whole.model" --data "$test" &&
        heterps predict "$graph" --model "$folder/whole.model" --data "$test" -o "$folder/p.ram" &&
        heterps predict "$graph" --model "$folder/half.model" --data "$test" $disk \
            --set store.ram=8MiB -o "$folder/p.disk" && cmp "$folder/p.ram" "$folder/p.disk"
}
check 'evaluates and predicts' evaluates

told() {
    "$HETERPS" "$graph" --data "$data" >"$folder/out" 2>"$folder/err" || return 1
    died='[0-9,]+ rows died by score, [0-9,]+ by age; [0-9,]+ evicted'
    grep -qE "life +emb: [0-9,]+ rows made, [0-9,]+ occurrences of keys not admitted; $died" \
        "$folder/out" "$folder/err" &&
        grep -qE 'life +emb: [0-9,]+ of [0-9,]+ rows have a vector' "$folder/out" "$folder/err" ||
        { cat "$folder/out" "$folder/err"; return 1; }
}
check 'what became of rows is told' told
fsck_whole() { heterps fsck "$folder/whole.model"; }
check 'fsck of a whole save' fsck_whole
damaged() { # a byte of the counts flipped: named, and the save is lost
    cp -r "$folder/whole.model" "$folder/damaged.model"
    file=$(ls "$folder"/damaged.model/emb.*.admission)
    printf '\377' | dd of="$file" bs=1 seek=100 conv=notrunc 2>/dev/null
    ! heterps fsck "$folder/damaged.model" >"$folder/fsck" 2>&1 && grep -q 'admission' "$folder/fsck" ||
        { cat "$folder/fsck"; return 1; }
}
check 'fsck of damaged counts' damaged
# Rows that were saved without a vector get it in the next step where no score is asked for any more.
scoreless() { # NODES
    rm -rf "$folder/scoreless" && cp -r "$folder/whole.model" "$folder/scoreless"
    heterps compile samples/ctrdnn1.cfg -o "$folder/other.bin" --set train.batch=64 --set train.micro=32 \
        --set train.lanes=2 --set store.period=50 --set emb.ttl=2 --set emb.delete_score=0.12 --set emb.rows=6000 &&
        if [ "$1" = 1 ]; then
            heterps "$folder/other.bin" --data "$test" --init "$folder/whole.model" --out "$folder/scoreless1"
        else
            "$HETERPS" launch --local "$1" -- "$folder/other.bin" --data "$test" --init "$folder/whole.model" \
                --out "$folder/scoreless$1" -q >"$folder/.launched" 2>&1 || { cat "$folder/.launched"; return 1; }
        fi && exported "$folder/other.bin" "$folder/scoreless$1" "scoreless$1"
}
check 'rows without a vector, and no score for one' scoreless 1
check 'on two nodes, too' scoreless 2
check 'the bytes of one' same_bytes scoreless1 scoreless2

fails 2 'rows that come and go need train.sync = bsp' 'wsp' heterps "$graph" --data "$data" \
    --set train.sync=wsp --set train.micro=64
fails 1 'ttl needs an end of periods' 'no periods' heterps "$graph" --data "$data" --set store.period=0
fails 2 'expected a label of \[data\]' 'no such label' heterps "$graph" --data "$data" --set emb.click_label=nothing
fails 1 'admission counts; raise admit_keys, or set admit_by = bloom' 'more keys than are counted' heterps "$graph" \
    --data "$data" --set emb.admit_keys=500
other() { # resumed with another admission
    rm -rf "$folder/other.model" "$folder/bloom.model" && cp -r "$folder/whole.model" "$folder/other.model" &&
        heterps "$graph" --data "$data" --resume "$folder/other.model" --set emb.admit=3 \
            --set train.epochs=3 2>"$folder/err" &&
        grep -q 'warning: emb.admit: 2 when it was saved, 3 now' "$folder/err" &&
        heterps fsck "$folder/other.model" >/dev/null || { cat "$folder/err"; return 1; }
    # Counters of one bit cannot count to 2.
    heterps "$graph" --data "$data" --out "$folder/bloom.model" --set emb.admit_by=bloom --set train.steps_max=5 &&
        ! heterps "$graph" --data "$data" --resume "$folder/bloom.model" --set emb.admit_by=bloom \
            --set emb.admit=3 2>"$folder/err" &&
        grep -q 'has counted for admit = 2, admit_by = bloom, .*of admit any from 2 to 2' "$folder/err" ||
        { cat "$folder/err"; return 1; }
}
check 'resumed with another admission' other
raised() { # full, with a save of the last step: goes on as if there had been room from the start, or as bloom
    rm -rf "$folder/raised.model"
    ! "$HETERPS" "$graph" --data "$data" --out "$folder/raised.model" --set emb.admit_keys=9000 -q 2>"$folder/err" &&
        grep -q 'raise admit_keys.*the model in .*raised.model is from step [0-9]' "$folder/err" ||
        { cat "$folder/err"; return 1; }
    rm -rf "$folder/bloomed.model" && cp -r "$folder/raised.model" "$folder/bloomed.model" &&
        heterps "$graph" --data "$data" --resume "$folder/bloomed.model" --set emb.admit_by=bloom &&
        heterps fsck "$folder/bloomed.model" >/dev/null &&
        heterps "$graph" --data "$data" --resume "$folder/raised.model" &&
        exported "$graph" "$folder/raised.model" raised && same_bytes whole raised
}
check 'a full admission, raised at resume' raised
finish

#!/bin/sh
# The data cache under training: the bytes of training without it, in RAM and in a file, beside evaluations;
# the order of blocks, the same wherever the cache is and wherever a run was stopped; a full disk, a killed
# run, two runs with one file, data that has changed.
. "$(dirname "$0")/lib.sh"
. tests/e2e/process.sh
data=$folder/data.tsv graph=$folder/graph.bin
examples=$(scaled 20000)
steps=$((examples / 500))
heterps gen criteo --rows $examples --seed 5 -o "$data" &&
    heterps compile samples/ctrdnn1.cfg -o "$graph" --set train.batch=500 --set train.micro=250 --set train.epochs=3 ||
    { echo "not ok 1 - fixture"; exit 1; }

check 'without a cache' trains plain "$graph" --data "$data"
check 'in RAM' trains_same plain "$graph" --data "$data" --set cache.ram=64MiB
check 'in a file' trains_same plain "$graph" --data "$data" --set cache.ssd=64MiB
reads() { # a later run, not from the text
    "$HETERPS" "$graph" --data "$data" --set cache.ssd=64MiB --out "$folder/later.model" 2>"$folder/log" &&
        grep -q "data.tsv.cache: $examples examples, .* read in place" "$folder/log" &&
        exported "$graph" "$folder/later.model" later && same_bytes plain later && [ ! -e "$data.cache.new" ]
}
check 'and a later run from it' reads
check 'threads in place of io_uring, a part in RAM' trains_same plain "$graph" --data "$data" --set cache.ssd=64MiB \
    --set cache.ram=2MiB --set data.io=threads

figures() { grep -o '"event":"eval","step":[0-9]*,"auc":[0-9.]*,"logloss":[0-9.]*' "$1"; }
evaluates() { # beside training, of lines that are held out: the same figures, and files for both
    rm -f "$folder"/c*
    for cache in 'cache.ssd=0' "cache.ssd=64MiB --set cache.path=$folder/c" 'cache.ram=64MiB'; do
        heterps "$graph" --data "$data" --set data.eval_fraction=0.1 --set eval.every=$((steps / 3)) --set $cache \
            --log json >"$folder/log" || return 1
        figures "$folder/log" >"$folder/figures"
        [ -e "$folder/figures.plain" ] || cp "$folder/figures" "$folder/figures.plain"
        cmp "$folder/figures" "$folder/figures.plain" || return 1
    done
    [ "$(wc -l <"$folder/figures")" -gt 5 ] && [ -e "$folder/c" ] && [ -e "$folder/c.eval" ]
}
check 'evaluations read one, too' evaluates

# The order of blocks.
blocks='--set cache.shuffle=blocks --set cache.window=2'
check 'in an order of blocks' trains mixed "$graph" --data "$data" --set cache.ram=64MiB $blocks
check 'which is another' other_bytes "$folder/plain.values" "$folder/mixed.values"
check 'the same from a file, by three readers' trains_same mixed "$graph" --data "$data" --set cache.ssd=64MiB \
    --set train.readers=3 $blocks
check 'the same by one thread' trains_same mixed "$graph" --data "$data" --set cache.ram=2MiB \
    --set cache.ssd=64MiB --threads 1 $blocks
resumed() { # within an epoch, without the cache that was there
    rm -rf "$folder/part.model"
    heterps "$graph" --data "$data" --out "$folder/part.model" --set cache.ram=64MiB $blocks \
        --set train.steps_max=$((steps * 3 / 2)) &&
        heterps "$graph" --data "$data" --resume "$folder/part.model" --set cache.ram=64MiB $blocks &&
        exported "$graph" "$folder/part.model" part && same_bytes mixed part
}
check 'stopped and resumed within an epoch' resumed
fails 1 'cache.shuffle = blocks needs all of the data in the cache' 'no room for an order of blocks' heterps "$graph" \
    --data "$data" --set cache.ram=64KiB $blocks
fails 1 'cache.shuffle = blocks needs all of the data in the cache for passes 2 to [0-9]*, found cache.ram = 0' \
    'no cache for an order of blocks' heterps "$graph" --data "$data" $blocks
bounded() { # a run that ends within its first pass needs no second one; one that does not is refused where that begins
    heterps "$graph" --data "$data" --set cache.ram=64KiB $blocks \
        --set train.steps_max=$((steps - 1)) 2>"$folder/log" &&
        grep -q 'warning: cache: .* a second pass would be refused' "$folder/log" || { cat "$folder/log"; return 1; }
    rm -rf "$folder/bounded.model"
    ! heterps "$graph" --data "$data" --out "$folder/bounded.model" --set cache.ram=64KiB $blocks \
        --set train.steps_max=$((steps + 1)) 2>"$folder/log" &&
        grep -q "error: cache.shuffle = blocks needs all .*; the model in .* is from step $steps" "$folder/log" ||
        { cat "$folder/log"; return 1; }
}
if [ $sanitized = yes ]; then
    skip 'a bound on steps within the first pass' "a sanitizer's few examples do not fill a block of the cache"
else
    check 'a bound on steps within the first pass' bounded
fi
unkept() { # PATTERN ARGUMENT... : an order of blocks without a file is refused before the first step
    pattern=$1
    shift
    rm -rf "$folder/no.model"
    ! "$HETERPS" "$graph" --data "$data" --out "$folder/no.model" \
        --set cache.ssd=64MiB $blocks "$@" -q 2>"$folder/log" &&
        grep -q "error: cache.shuffle = blocks needs all .*, and $pattern; give another cache.path" "$folder/log" &&
        [ "$(wc -l <"$folder/log")" = 1 ] && [ ! -e "$folder/no.model/manifest.json" ] ||
        { cat "$folder/log"; return 1; }
}
check 'no file for an order of blocks' unkept '/proc/nope/c.new: opening: No such file or directory' \
    --set cache.path=/proc/nope/c
check 'a directory in its place' unkept "$folder: Is a directory" --set cache.path="$folder"
locked() {
    rm -f "$data.cache"
    (
        flock 9
        unkept '.*cache.new: another run writes it'
    ) 9>>"$data.cache.new"
}
check 'another run that writes it' locked
rm -f "$data.cache.new"
# lost: the cache cannot be kept in the end: named, and what has been trained is saved, and goes on, without
# the cache, too
lost() {
    rm -rf "$folder/lost.model"
    why='after [0-9]* examples .*takes more than cache.ssd = 1048576 bytes; give more room, .*'
    ! "$HETERPS" "$graph" --data "$data" --out "$folder/lost.model" --set cache.ssd=1MiB $blocks -q 2>"$folder/log" &&
        grep -q "$why; the model in .*lost.model is from step [1-9]" "$folder/log" || { cat "$folder/log"; return 1; }
    rm -rf "$folder/left.model" && cp -r "$folder/lost.model" "$folder/left.model" &&
        heterps "$graph" --data "$data" --resume "$folder/left.model" &&
        exported "$graph" "$folder/left.model" left && same_bytes plain left || return 1
    heterps "$graph" --data "$data" --resume "$folder/lost.model" --set cache.ssd=64MiB $blocks &&
        exported "$graph" "$folder/lost.model" lost && same_bytes mixed lost
}
[ $sanitized = yes ] || check 'a cache that fails late' lost

# The file.
rm -f "$data.cache"
changed() { # data that has grown: said, and cached anew
    heterps "$graph" --data "$data" --set cache.ssd=64MiB && head -n 1000 "$data" >>"$data" &&
        "$HETERPS" "$graph" --data "$data" --set cache.ssd=64MiB 2>"$folder/log" &&
        grep -q 'data.tsv has [0-9]* bytes, and had [0-9]*; it is written anew' "$folder/log" &&
        heterps "$graph" --data "$data" --out "$folder/grown.model" --set cache.ssd=64MiB &&
        exported "$graph" "$folder/grown.model" grown && trains_same grown "$graph" --data "$data"
}
check 'data that has changed' changed
killed() { # while the file is written: the next run believes nothing of it
    rm -f "$data.cache"
    start "$graph" --data "$data" --set cache.ssd=64MiB
    for i in $(seq 400); do [ -s "$data.cache.new" ] && break; sleep 0.005; done
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
    trains_same grown "$graph" --data "$data" --set cache.ssd=64MiB && [ -e "$data.cache" ] &&
        [ ! -e "$data.cache.new" ]
}
check 'a run that was killed while it wrote' killed
shared() { # two runs at once: one writes, both give what they should
    rm -f "$data.cache"
    start "$graph" --data "$data" --set cache.ssd=64MiB --out "$folder/first.model"
    trains_same grown "$graph" --data "$data" --set cache.ssd=64MiB && wait $pid &&
        exported "$graph" "$folder/first.model" first && same_bytes grown first
}
check 'two runs with one file' shared
full() { # a disk without room: said once, and trained from the text
    rm -f "$data.cache"
    (
        trap '' XFSZ
        ulimit -f 600
        exec "$HETERPS" "$graph" --data "$data" --set cache.ssd=64MiB
    ) 2>"$folder/log" && [ "$(grep -c 'cache.new: writing: .*; no file is kept' "$folder/log")" -ge 1 ] &&
        [ ! -e "$data.cache" ] && [ ! -e "$data.cache.new" ]
}
check 'a file that cannot grow' full
small() {
    "$HETERPS" "$graph" --data "$data" --set cache.ssd=1MiB 2>"$folder/log" &&
        grep -q 'the data takes more than cache.ssd = 1048576 bytes' "$folder/log" && [ ! -e "$data.cache.new" ]
}
[ $sanitized = yes ] || check 'a budget that is too small' small
garbled() {
    rm -f "$data.cache"
    heterps "$graph" --data "$data" --set cache.ssd=64MiB &&
        printf '\377' | dd of="$data.cache" bs=1 seek=9000 conv=notrunc 2>/dev/null &&
        "$HETERPS" "$graph" --data "$data" --out "$folder/garbled.model" --set cache.ssd=64MiB 2>"$folder/log" &&
        grep -q 'data.tsv.cache: block 0 of the data cache, at byte 4096: its xxh3' "$folder/log" &&
        exported "$graph" "$folder/garbled.model" garbled && same_bytes grown garbled
}
check 'a garbled block' garbled
finish

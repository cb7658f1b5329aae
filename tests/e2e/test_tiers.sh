#!/bin/sh
# Rows that live in RAM and on disk: the bytes of training with all rows in RAM, whatever the budgets, the
# back end, stops and saves; and what is said when the disk or the budgets do not suffice.
. "$(dirname "$0")/lib.sh"
. tests/e2e/process.sh
data=$folder/data.tsv test=$folder/test.tsv graph=$folder/graph.bin
examples=$(scaled 20000)
epoch=$((examples / 64))
heterps gen criteo --rows $examples --seed 5 -o "$data" &&
    heterps gen criteo --rows 500 --skip 20000 --seed 5 -o "$test" &&
    heterps compile samples/ctrdnn1.cfg -o "$graph" --set train.batch=64 --set train.micro=32 --set train.epochs=2 ||
    { echo "not ok 1 - fixture"; exit 1; }

tiered() { # RAM SSD ARGUMENT... : a run with a disk
    ram=$1 ssd=$2
    shift 2
    heterps "$graph" --data "$data" --set store.ram="$ram" --set store.ssd="$ssd" --set store.path="$folder/rows" "$@"
}
like_whole() { # NAME RAM SSD ARGUMENT... : ends with the bytes of the run in RAM
    run=$1
    shift
    rm -rf "$folder/$run.model"
    tiered "$@" --out "$folder/$run.model" && exported "$graph" "$folder/$run.model" "$run" &&
        same_bytes whole "$run" && [ "$(ls "$folder/rows")" = lock ] || { ls "$folder/rows"; return 1; }
}
check 'all rows in RAM' trains whole "$graph" --data "$data"
check 'RAM for a third of the rows' like_whole third 8MiB 16MiB
check 'RAM for a fifth of the rows' like_whole fifth 7500KiB 16MiB
check 'threads in place of io_uring' like_whole threads 7500KiB 16MiB --set data.io=threads
check 'saves and evaluations between steps' like_whole between 7500KiB 16MiB --set checkpoint.every=70 \
    --set eval.every=45 --eval "$test"
check 'one thread' like_whole one 7500KiB 16MiB --threads 1

evaluates() { # what a model gives, with its rows on disk or not
    heterps eval "$graph" --model "$folder/whole.model" --data "$test" --log json >"$folder/log.ram" &&
        heterps eval "$graph" --model "$folder/whole.model" --data "$test" --log json --set store.ram=7500KiB \
            --set store.ssd=16MiB --set store.path="$folder/rows" >"$folder/log.disk" &&
        [ "$(event_number eval auc "$folder/log.ram")" = "$(event_number eval auc "$folder/log.disk")" ] &&
        [ -n "$(event_number eval auc "$folder/log.ram")" ] &&
        heterps predict "$graph" --model "$folder/whole.model" --data "$test" -o "$folder/p.ram" &&
        heterps predict "$graph" --model "$folder/whole.model" --data "$test" -o "$folder/p.disk" \
            --set store.ram=7500KiB --set store.ssd=16MiB --set store.path="$folder/rows" &&
        cmp "$folder/p.ram" "$folder/p.disk"
}
check 'evaluates and predicts alike' evaluates

crossed() { # stopped in RAM, resumed with a disk, stopped, resumed in RAM
    rm -rf "$folder/crossed.model"
    heterps "$graph" --data "$data" --out "$folder/crossed.model" --set train.steps_max=$((epoch / 3)) &&
        tiered 7500KiB 16MiB --resume "$folder/crossed.model" --set train.steps_max=$((epoch + 5)) &&
        tiered 8MiB 12MiB --resume "$folder/crossed.model" --set train.steps_max=$((epoch * 5 / 3)) &&
        heterps "$graph" --data "$data" --resume "$folder/crossed.model" &&
        exported "$graph" "$folder/crossed.model" crossed && same_bytes whole crossed
}
check 'stopped and resumed across budgets' crossed

two_tables() { # that look up the same fields
    heterps compile samples/wide_deep.cfg -o "$folder/wide.bin" --set train.batch=64 --set train.micro=64 &&
        trains wide "$folder/wide.bin" --data "$data" &&
        heterps "$folder/wide.bin" --data "$data" --out "$folder/wide_disk.model" --set store.ram=24MiB \
            --set store.ssd=100MiB --set store.path="$folder/rows" &&
        exported "$folder/wide.bin" "$folder/wide_disk.model" wide_disk && same_bytes wide wide_disk
}
check 'two tables over the same fields' two_tables

own_budgets() { # of one of two tables: what is said at the start, and the same bytes
    "$HETERPS" "$folder/wide.bin" --data "$data" --out "$folder/wide_own.model" --set store.ram=32MiB \
        --set store.ssd=100MiB --set store.path="$folder/rows" \
        --set wide.ram=6MiB --set wide.ssd=20MiB 2>"$folder/log.own" && cat "$folder/log.own" &&
        room='room for 17[0-9],[0-9]* rows of 12 B in RAM and [0-9,]* on disk' &&
        grep -q "table    wide: $room (store.ram = 32 MiB, store.ssd = 100 MiB)" "$folder/log.own" &&
        exported "$folder/wide.bin" "$folder/wide_own.model" wide_own && same_bytes wide wide_own
}
check 'a table with budgets of its own' own_budgets

planned() { # by a profile that has the same budgets, of which the rows that it reads need the disk
    printf '[type cpu]\ndevice = cpu\nprice_per_hour = 1\nlimit = 2\n[goal]\nthroughput = 100\n' >"$folder/cluster.cfg"
    "$HETERPS" profile "$graph" --cluster "$folder/cluster.cfg" --data "$data" --no-cache --seconds 0.5 \
        --set store.ram=7500KiB --set store.ssd=16MiB --set store.path="$folder/rows" \
        -o "$folder/instance.json" 2>"$folder/log.profile" >/dev/null &&
        grep -q 'these times do not include waiting for rows on disk' "$folder/log.profile" &&
        [ "$(ls "$folder/rows")" = lock ] &&
        XDG_CACHE_HOME="$folder/cache" like_whole planned 7500KiB 16MiB --cluster "$folder/cluster.cfg"
}
check 'profiled, planned and trained with a disk' planned

interrupted() { # in the middle of an evaluation beside training: saved, and nothing else
    rm -rf "$folder/stop.model"
    start "$graph" --data "$data" --set store.ram=7500KiB --set store.ssd=16MiB --set store.path="$folder/rows" \
        --out "$folder/stop.model" \
        --set eval.every=20 --eval "$data" --set train.epochs=100
    sleep 0.7
    kill -INT $pid
    wait $pid
    [ $? = 130 ] && [ -e "$folder/stop.model/manifest.json" ] || { cat "$folder/run.err"; return 1; }
}
check 'Ctrl-C among evaluations' interrupted

killed() { # a run that died leaves segments, which the next one removes
    rm -rf "$folder/killed.model"
    start "$graph" --data "$data" --set store.ram=7500KiB --set store.ssd=16MiB --set store.path="$folder/rows" \
        --out "$folder/killed.model" \
        --set checkpoint.every=50 --set train.epochs=2000
    for i in $(seq 200); do
        [ -e "$folder/killed.model/manifest.json" ] && ls "$folder/rows" | grep -q segment && break
        sleep 0.05
    done
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
    ls "$folder/rows" | grep -q segment || { echo "no segment was left"; return 1; }
    tiered 7500KiB 16MiB --resume "$folder/killed.model" --set train.epochs=2000 --set train.steps_max=$((epoch * 3)) &&
        [ "$(ls "$folder/rows")" = lock ]
}
check 'what a killed run left is removed' killed

fails 1 'store.path: .*crossed.model has a saved model in it' "rows in a saved model's directory" heterps "$graph" \
    --data "$data" --set store.ssd=16MiB --set store.path="$folder/crossed.model"
fails 2 'store.path=DIR' 'no directory' heterps "$graph" --data "$data" --set store.ssd=16MiB
fails 1 'raise store.ram, or lower store.ssd' 'too little RAM for the index' heterps "$graph" --data "$data" \
    --set store.ram=4MiB --set store.ssd=100MiB --set store.path="$folder/rows"
fails 1 'raise store.ssd' 'too little disk' heterps "$graph" --data "$data" --set store.ram=8MiB --set store.ssd=1MiB \
    --set store.path="$folder/rows"
fails 1 'table "emb".*raise store.ssd; store.ssd is 1048576 bytes for 1 table' 'and whose it is, of how much' \
    heterps "$graph" --data "$data" --set store.ram=8MiB --set store.ssd=1MiB --set store.path="$folder/rows"
fails 1 "tables' own budgets .*ram.* are 94371840 bytes together" 'more RAM than there is' heterps "$graph" \
    --data "$data" --set store.ram=60MiB --set emb.ram=90MiB
fails 1 "tables' own budgets .*ssd.* are 94371840 bytes together" 'more disk than there is' heterps "$graph" \
    --data "$data" --set store.ram=60MiB --set store.ssd=16MiB --set store.path="$folder/rows" --set emb.ssd=90MiB
fails 2 'needs train.sync = bsp, .*: give store.ram room for all rows' 'wsp' heterps "$graph" --data "$data" \
    --set store.ssd=16MiB --set store.path="$folder/rows" --set train.sync=wsp --set train.micro=64
mkdir -p "$folder/rows"
flock "$folder/rows/lock" sleep 3 &
sleep 0.3
fails 1 'give store.path a directory of its own' 'a directory that is in use' heterps "$graph" --data "$data" \
    --set store.ram=8MiB --set store.ssd=16MiB --set store.path="$folder/rows"
wait
# Tables that look up the same fields have room for as many rows, a 1-wide and a 16-wide one.
"$HETERPS" compile samples/wide_deep.cfg -o "$work/wide.bin" -q && rows 100 "$work/few.tsv"
even() { # MOST SETTING...: the rows of both tables, in RAM or on disk, differ by MOST
    most=$1
    shift
    "$HETERPS" "$work/wide.bin" --data "$work/few.tsv" "$@" >"$work/said" 2>&1 &&
        sed -n 's/^table .*room for \([0-9,]*\) rows.*/\1/p' "$work/said" | tr -d , | tee "$work/found" | sort -n |
        awk -v most="$most" 'NR == 1 { least = $1 } END { exit !(NR == 2 && $1 <= least * most) }' ||
        { cat "$work/found"; grep '^table' "$work/said"; return 1; }
}
check 'tables share store.ram by bytes, so that each has room for as many rows' even 1.01
finish

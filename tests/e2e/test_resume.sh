#!/bin/sh
# Training that is stopped and resumed gives the bytes of training that was not, wherever it stopped and with
# whatever threads.
. "$(dirname "$0")/lib.sh"
. tests/e2e/process.sh
data=$folder/data.tsv test=$folder/test.tsv
examples=$(scaled 3000)
heterps gen criteo --rows $examples --seed 31 -o "$data" &&
    heterps gen criteo --rows 500 --skip 3000 --seed 31 -o "$test" || { echo "not ok 1 - fixture"; exit 1; }

# resumed STEP... : through these stops to the end, another number of threads each time
resumed() {
    rm -rf "$folder/part"
    from="--out $folder/part" threads=1
    for stop in "$@" 0; do
        "$HETERPS" "$graph" --data "$data" $from --threads $threads \
            --set train.steps_max="$stop" -q </dev/null || return 1
        if [ "$stop" != 0 ]; then
            "$HETERPS" eval "$graph" --model "$folder/part" --data "$test" --log json </dev/null >"$folder/log" &&
                [ "$(event_number eval step "$folder/log")" = "$stop" ] || { echo "not at step $stop"; return 1; }
        fi
        from="--resume $folder/part" threads=$((threads % 3 + 1))
    done
    exported "$graph" "$folder/part" part && same_bytes whole part
}
family() { # NAME TEXT ARGUMENT...: a kind of run, and where it stops
    family=$1
    shift
    graph=$folder/graph.bin
    heterps compile "$@" -o "$graph" --set store.ram=16MiB --set train.batch=200 ||
        { check "$family: compiles" false; return; }
    check "$family: the whole run" trains whole "$graph" --data "$data"
    epoch=$(((examples + 199) / 200))
    for k in 1 $((epoch / 2)) $epoch $((epoch + 1)) $((2 * epoch - 1)) $((2 * epoch)); do
        [ "$k" -ge 1 ] && check "$family: stopped after step $k" resumed "$k"
    done
    check "$family: stopped four times" resumed 1 2 $epoch $((epoch + 2))
}
sed -e '/^\[fc h2\]/,/^units/s/^input = h1/input = d/' \
    -e 's/^\[fc h2\]/[dropout d]\ninput = h1\nrate = 0.3\n\n[fc h2]/' samples/ctrdnn1.cfg >"$folder/drop.cfg"
family 'two epochs' samples/ctrdnn1.cfg --set train.epochs=2
family 'shuffled, two epochs' samples/ctrdnn1.cfg --set train.epochs=2 --set data.shuffle=500
family 'dropout, Adam, 4 lanes, shuffled, two epochs' "$folder/drop.cfg" --set train.epochs=2 \
    --set data.shuffle=300 --set train.lanes=4 \
    --set 'train.optimizer=adam 0.002' --set 'emb.optimizer=adam 0.01'

# --- other ways to stop and to go on ----------------------------------------------------------------------------------

elsewhere() { # --resume A --out B leaves A as it is
    rm -rf "$folder/a" "$folder/b"
    heterps "$graph" --data "$data" --out "$folder/a" --set train.steps_max=3 && cp -R "$folder/a" "$folder/a.copy" &&
        heterps "$graph" --data "$data" --resume "$folder/a" --out "$folder/b" &&
        diff -r "$folder/a" "$folder/a.copy" && exported "$graph" "$folder/b" b && same_bytes whole b
}
from_gzip() {
    gzip -1 -c "$data" >"$folder/data.gz"
    rm -rf "$folder/a"
    heterps "$graph" --data "$folder/data.gz" --out "$folder/a" --set train.steps_max=4 && heterps "$graph" \
            --data "$folder/data.gz" --resume "$folder/a" && exported "$graph" "$folder/a" a && same_bytes whole a
}
with_checkpoints() {
    rm -rf "$folder/a"
    heterps "$graph" --data "$data" --out "$folder/a" --set train.steps_max=5 --set checkpoint.every=2 \
        --eval "$test" --set eval.every=1 &&
        heterps "$graph" --data "$data" --resume "$folder/a" --set checkpoint.every=3 &&
        exported "$graph" "$folder/a" a && same_bytes whole a
}
nothing_to_do() { # a finished run stays what it is
    heterps "$graph" --data "$data" --resume "$folder/whole.model" &&
        exported "$graph" "$folder/whole.model" same && same_bytes whole same
}
killed() { # kill -9 between checkpoints: the last one goes on to the same end
    rm -rf "$folder/a"
    start "$graph" --data "$data" --out "$folder/a" --set checkpoint.every=1 --log json
    await '"checkpoint"' "$folder/run.out"
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
    heterps "$graph" --data "$data" --resume "$folder/a" && exported "$graph" "$folder/a" a && same_bytes whole a
}
check 'resume with --out elsewhere: the first directory stays' elsewhere
check 'resume from packed data' from_gzip
check 'resume from a run with checkpoints and evaluations' with_checkpoints
check 'resume after kill -9' killed
check 'resume of a finished run: nothing changes' nothing_to_do

epochs=80
[ $sanitized = no ] || epochs=10
heterps compile samples/ctrdnn1.cfg -o "$graph" --set store.ram=16MiB --set train.batch=200 \
    --set train.epochs=$epochs --set data.shuffle=500
interrupted() { # SIGNAL STATUS
    rm -rf "$folder/a"
    interruptions=0
    from="--out $folder/a"
    for delay in 0.02 0.2 0.05 0.1; do
        start "$graph" --data "$data" $from --log json
        await '"start"' "$folder/run.out" || return 1
        sleep $delay
        kill "-$1" $pid 2>/dev/null
        wait $pid
        status=$?
        [ $status = 0 ] && break
        # Before the first step a signal ends the program as any other: nothing is there yet.
        [ $status = "$2" ] || { cat "$folder/run.err"; return 1; }
        [ -e "$folder/a/manifest.json" ] && from="--resume $folder/a" && interruptions=$((interruptions + 1))
    done
    [ $interruptions -gt 0 ] || { echo 'no signal came during training'; return 1; }
    heterps "$graph" --data "$data" $from && exported "$graph" "$folder/a" a && same_bytes long a
}
check "$epochs epochs: the whole run" trains long "$graph" --data "$data"
check 'resume after SIGINT, several times' interrupted INT 130
echo "# $interruptions interruptions"
check 'resume after SIGTERM, several times' interrupted TERM 143
echo "# $interruptions interruptions"
finish

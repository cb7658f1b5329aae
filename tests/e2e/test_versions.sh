#!/bin/sh
# Files of every kind that were written by earlier versions (tests/golden) are read, with the values that they
# had; io/README.md says which are. Never write tests/golden anew: a file there that cannot be read any more
# is one that somebody has.
. "$(dirname "$0")/lib.sh"
golden=$root/tests/golden
cp -R "$golden/model" "$work/model" && cp "$golden/model8.bin" "$work/golden.bin" &&
    "$HETERPS" gen criteo --rows 64 --seed 7 -o "$work/data.tsv" -q || { echo "not ok 1 - fixture"; exit 1; }

# values MODEL CHECKSUM...: the sums of what export writes of it.
values() {
    rm -rf "$work/export"
    "$HETERPS" export "${graph:-$work/golden.bin}" --model "$1" -o "$work/export" -q || return 1
    shift
    found=$(cat "$work/export/dense.safetensors" "$work/export/emb.safetensors" | cksum)
    [ "$found" = "$*" ] || { echo "the values have the sum $found, not $*"; return 1; }
}
goes_on() {
    "$HETERPS" "$work/golden.bin" --data "$work/data.tsv" --resume "$work/model" --set train.epochs=2 \
        --log json -q >"$work/log" && [ "$(event_field "$work/log" start step)" = 4 ] &&
        [ "$(event_field "$work/log" checkpoint step)" = 8 ]
}
# model3 and model4 have 2,048 rows of `gen criteo --vocab 100000 --seed 7` in steps of 64, some of their rows
# in segments.
parts() { # VERSION: every save is whole, and has its values
    "$HETERPS" fsck "$golden/model$1" >"$work/said" &&
        [ "$(grep -c '^note .*no checksums of segments' "$work/said")" = "$2" ] || { cat "$work/said"; return 1; }
    values "$golden/model$1" 405829493 31844 && values "$golden/model$1/manifest.25.json" 3579808652 25876
}
# model5 stands in the second of two passes over data.tsv, and knows it.
version_5() {
    cp -R "$golden/model5" "$work/five" && "$HETERPS" fsck "$work/five" >"$work/said" || { cat "$work/said"; return 1; }
    "$HETERPS" gen criteo --rows 64 --seed 8 -o "$work/other.tsv" -q && ! "$HETERPS" "$golden/graph9.bin" \
            --data "$work/other.tsv" --resume "$work/five" --set train.epochs=2 >"$work/said" 2>&1 &&
        grep -q 'give --continue' "$work/said" || { cat "$work/said"; return 1; }
    (cd "$work" && "$HETERPS" "$golden/graph9.bin" --data data.tsv --resume five --set train.epochs=2 --isa base -q) ||
        return 1
    graph=$golden/graph9.bin values "$golden/model5" 3404657663 1780 &&
        graph=$golden/graph9.bin values "$work/five" 800837597 1780
}
# model6 stands in a pass over data.tsv as a stream, and knows how that begins.
version_6() {
    cp -R "$golden/model6" "$work/six" && "$HETERPS" fsck "$work/six" >"$work/said" || { cat "$work/said"; return 1; }
    "$HETERPS" gen criteo --rows 64 --seed 8 -o "$work/other.tsv" -q && ! "$HETERPS" "$golden/graph9.bin" --data - \
            --resume "$work/six" --isa base <"$work/other.tsv" >"$work/said" 2>&1 &&
        grep -q 'it is not the stream in which the save.s training has stopped' "$work/said" ||
        { cat "$work/said"; return 1; }
    "$HETERPS" "$golden/graph9.bin" --data - --resume "$work/six" --isa base -q <"$work/data.tsv" || return 1
    graph=$golden/graph9.bin values "$golden/model6" 3761800740 1268 &&
        graph=$golden/graph9.bin values "$work/six" 3125352371 1780
}
# Graphs of before version 10 have one Bloom filter for all keys, that counts in the order of the data.
counted_as_then() {
    "$HETERPS" gen criteo --rows 640 --seed 7 --vocab 3000 -o "$work/many.tsv" -q && rm -rf "$work/nine" &&
        "$HETERPS" "$golden/graph9.bin" --data "$work/many.tsv" --set emb.admit=4 --set emb.admit_by=bloom \
            --set emb.admit_keys=100 --set train.epochs=2 --isa base --out "$work/nine" -q || return 1
    graph=$golden/graph9.bin values "$work/nine" 2958009496 3156
}
swapped() { # a segment of the same number, table and shape, every block of it whole
    cp -R "$golden/model4" "$work/swapped" && cp "$golden/model3/emb.00000001.32.segment" "$work/swapped" || return 1
    ! "$HETERPS" fsck "$work/swapped" >"$work/said" 2>&1 &&
        grep -q 'fault .*emb.00000001.32.segment: blocks 5 to 7 are whole, but not those of this save' "$work/said" &&
        grep -q 'manifest.25.json: .*: whole' "$work/said" || { cat "$work/said"; return 1; }
    ! "$HETERPS" export "$work/golden.bin" --model "$work/swapped" -o "$work/none" -q 2>"$work/said" &&
        grep -q 'are whole, but not those of this save' "$work/said"
}
refused() { # PATTERN FILE SED
    sed "$3" "$golden/$2" >"$work/newer.json"
    case $2 in
    plan.json) set -- "$1" --instance "$golden/instance.json" --plan "$work/newer.json" ;;
    *) set -- "$1" --instance "$work/newer.json" --plan "$golden/plan.json" ;;
    esac
    pattern=$1
    shift
    ! "$HETERPS" simulate "$@" --batches 2 >"$work/out" 2>&1 && grep -q "$pattern" "$work/out"
}
# graph8.bin was compiled while graphs had version 8, of a text that leaves much to defaults: models of it are
# trained to the sum that they had then, by defaults that have changed since, also when --set compiles it
# anew.
trained_as_then() { # SETTING...
    awk 'BEGIN {
        s = 1
        for (i = 0; i < 5000; i++) {
            line = i % 3 == 0
            for (k = 0; k < 2 + i % 4; k++) { s = s * 16807 % 2147483647; line = line " " s % 500 ":" 1 + k / 4 }
            print line
        }
    }' >"$work/libfm"
    [ "$(cksum <"$work/libfm")" = '4069969937 140993' ] || { echo "awk makes other data"; return 1; }
    rm -rf "$work/model8" "$work/export"
    "$HETERPS" "$golden/graph8.bin" --data "$work/libfm" --isa base --out "$work/model8" -q "$@" &&
        "$HETERPS" export "$golden/graph8.bin" --model "$work/model8" -o "$work/export" --format npy -q || return 1
    found=$(cat "$work/export"/*.npy | cksum)
    [ "$found" = '2878493203 15132' ] || { echo "the values have the sum $found"; return 1; }
}
check 'a graph of version 9 counts keys for their admission as then' counted_as_then
check 'a graph of version 8 trains to the bytes of then' trained_as_then
check '… compiled anew by --set, too' trained_as_then --set train.epochs=1
newer_graph() { # the save of version 4 by a graph of other rules
    "$HETERPS" compile "$golden/model.cfg" -o "$work/newer.bin" -q &&
        ! "$HETERPS" export "$work/newer.bin" --model "$golden/model4" -o "$work/none" -q 2>"$work/said" &&
        newest="the graph is of version $(rules_newest); compile the model text with --set model.rules=8" &&
        grep -q "trained by the rules of version 8, and $newest" "$work/said" || { cat "$work/said"; return 1; }
    "$HETERPS" compile "$golden/model.cfg" -o "$work/newer.bin" -q --set model.rules=8 &&
        "$HETERPS" export "$work/newer.bin" --model "$golden/model4" -o "$work/none" -q
}
check 'a model of older rules and a graph of newer ones: what to do is said' newer_graph
# What a tree's nodes need is in the graph, so a graph says how their memory lies.
tree_trained_as_then() {
    "$HETERPS" gen "$golden/tree10.bin" --rows 200 --seed 7 -o "$work/trees.txt" -q &&
        rm -rf "$work/tree" "$work/export" &&
        "$HETERPS" "$golden/tree10.bin" --data "$work/trees.txt" --isa base --out "$work/tree" -q &&
        "$HETERPS" export "$golden/tree10.bin" --model "$work/tree" -o "$work/export" -q || return 1
    found=$(cat "$work/export/dense.safetensors" "$work/export/words.safetensors" | cksum)
    [ "$found" = '1800746130 8892' ] || { echo "the values have the sum $found"; return 1; }
}
check 'a graph with a tree trains to the bytes of then' tree_trained_as_then
check 'a model, every save, by fsck' "$HETERPS" fsck "$work/model"
check '… its values' values "$work/model" 1930941339 1780
check '… those of the older save' values "$work/model/manifest.2.json" 3939050590 1268
too_short() { # nothing tells which data it stands in, but there must be as many
    cp -R "$golden/model" "$work/short" && head -n 20 "$work/data.tsv" >"$work/short.tsv" || return 1
    ! "$HETERPS" "$work/golden.bin" --data "$work/short.tsv" --resume "$work/short" \
        --set train.epochs=2 >"$work/said" 2>&1 &&
        grep -q 'does not tell in which data its training has stopped' "$work/said" &&
        grep -q 'expected more than the 64 examples of the pass that are done' "$work/said" ||
        { cat "$work/said"; return 1; }
}
check '… but not on data that has less than is done' too_short
check '… and its training goes on' goes_on
check 'rows in segments without checksums, version 3' parts 3 2
check 'rows in segments, version 4' parts 4 0
check 'a model that knows its data, version 5: its values, those it goes on to, and no other data' version_5
check 'a model that knows its stream, version 6: its values, those it goes on to, and no other stream' version_6
check 'another segment in the place of one' swapped
check 'a policy' "$HETERPS" plan --instance "$golden/instance.json" --policy "$golden/policy" \
    --method policy -o "$work/plan.json"
check 'an instance and a plan' "$HETERPS" simulate --instance "$golden/instance.json" \
    --plan "$golden/plan.json" --batches 2
check 'a newer plan is refused by name' refused 'expected "heterps-solution-1", found "heterps-solution-2"' plan.json \
    s/heterps-solution-1/heterps-solution-2/
check 'a newer instance, too' \
    refused 'expected "heterps-instance-1" or "heterps-instance-2", found "heterps-instance-3"' instance.json \
    s/heterps-instance-1/heterps-instance-3/
finish

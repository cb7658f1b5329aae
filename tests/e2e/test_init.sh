#!/bin/sh
# --init starts from the values of another model: its directory, what was exported of it, or a file made elsewhere.
. "$(dirname "$0")/lib.sh"
. tests/e2e/process.sh
graph=$folder/graph.bin wide=$folder/wide.bin data=$folder/data.tsv test=$folder/test.tsv
heterps gen criteo --rows 4000 --seed 61 -o "$data" &&
    heterps gen criteo --rows 1000 --skip 4000 --seed 61 -o "$test" &&
    heterps compile samples/ctrdnn1.cfg -o "$graph" --set store.ram=16MiB --set train.batch=200 &&
    heterps compile samples/ctrdnn1.cfg -o "$wide" --set store.ram=16MiB --set train.batch=200 --set h2.units=48 &&
    heterps "$graph" --data "$data" --out "$folder/from" &&
    heterps export "$graph" --model "$folder/from" -o "$folder/exported" || { echo "not ok 1 - fixture"; exit 1; }

logloss_of() {
    "$HETERPS" eval "$1" --model "$2" --data "$test" --log json </dev/null >"$folder/logloss.log" &&
        event_number eval logloss "$folder/logloss.log"
}
step_of() { logloss_of "$graph" "$1" >"$folder/logloss" && event_number eval step "$folder/logloss.log"; }
less() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a < b) }'; }

# started INTO GRAPH PATH ARGUMENT...: one step from PATH on, saved as INTO; what was printed is in $folder/err.
started() {
    into=$1 started_graph=$2 from=$3
    shift 3
    rm -rf "$folder/$into"
    runs 0 "$HETERPS" "$started_graph" --data "$data" --init "$from" --out "$folder/$into" --set train.steps_max=1 "$@"
}

# After one step, which is small so that it does not undo anything, the other model's values are better than
# those of a fresh one.
directory() {
    started warm "$graph" "$folder/from" --set train.optimizer='adagrad 1e-5' --set emb.optimizer='adagrad 1e-5' &&
        grep -Eq "^init     from $folder/from: ([0-9]+) of \\1 tensors, [0-9,]+ rows of emb\$" "$folder/err" &&
        heterps "$graph" --data "$data" --out "$folder/cold" --set train.steps_max=1 \
            --set train.optimizer='adagrad 1e-5' --set emb.optimizer='adagrad 1e-5' &&
        warm=$(logloss_of "$graph" "$folder/warm") && cold=$(logloss_of "$graph" "$folder/cold") &&
        less "$warm" "$cold" && [ "$(step_of "$folder/warm")" = 1 ] && [ "$(step_of "$folder/from")" = 20 ]
}
# With rates of zero a step leaves exactly the other's values.
exactly() {
    for from in "$folder/from" "$folder/from/manifest.json" "$folder/exported"; do
        rm -rf "$folder/exact"
        head -n 1 "$data" >"$folder/one.tsv"
        heterps "$graph" --data "$folder/one.tsv" --init "$from" --out "$folder/exact" \
            --set train.optimizer='adagrad 0' --set emb.optimizer='adagrad 0' &&
            exported "$graph" "$folder/exact" exact && diff -r "$folder/exact.values" "$folder/exported" ||
            { echo "from $from"; return 1; }
    done
}
same_twice() {
    rm -rf "$folder/a" "$folder/b"
    heterps "$graph" --data "$data" --init "$folder/from" --out "$folder/a" --threads 1 &&
        heterps "$graph" --data "$data" --init "$folder/from" --out "$folder/b" --threads 3 &&
        exported "$graph" "$folder/a" a && exported "$graph" "$folder/b" b && same_bytes a b &&
        [ "$(step_of "$folder/a")" = 20 ]
}
other_width() {
    started other "$wide" "$folder/from" && grep -Eq \
            'initial values: h2.weight \([0-9]+x[0-9]+ there, [0-9]+x48 here\), h2.bias \(1x[0-9]+ there, 1x48 here\)' \
            "$folder/err" &&
        heterps eval "$wide" --model "$folder/other" --data "$test"
}
tensors_file() { # its tensors, and the rows as they begin
    started file "$graph" "$folder/exported/dense.safetensors" &&
        grep -Eq '([0-9]+) of \1 tensors; initial values: table emb \(absent\)' "$folder/err"
}
untouched() { rm -rf "$folder/none" && fails_so "$@" && [ ! -e "$folder/none/manifest.json" ]; }
damaged() {
    rm -rf "$folder/broken" && cp -R "$folder/from" "$folder/broken" &&
        printf x | dd of="$(echo "$folder"/broken/emb.*)" bs=1 seek=3000 conv=notrunc 2>/dev/null &&
        untouched 1 'broken/emb' "$graph" --data "$data" --init "$folder/broken" --out "$folder/none" -q
}
check 'a model directory: what it knew is there, and the step is the first' directory
check 'each kind of source: exactly its values' exactly
check 'the same start, the same bytes, whatever the threads' same_twice
check 'another width: what does not fit is named' other_width
check 'a file of tensors: rows as they begin' tensors_file
check 'a damaged file is refused by name' damaged
check 'a path that is not there' untouched 1 'nowhere' "$graph" --data "$data" \
    --init "$folder/nowhere" --out "$folder/none" -q
check 'a folder of something else' untouched 1 'holds neither a saved model' "$graph" --data "$data" \
    --init samples --out "$folder/none" -q
check 'more rows than the budget' \
    untouched 1 'rows of table emb, where its budget has room for [0-9]+; raise store.ram' \
    "$graph" --data "$data" --init "$folder/from" --out "$folder/none" --set store.ram=1MiB --set train.batch=8 -q
# Rows whose keys cannot be those of the graph: of older rules, of columns of other names. Those of the same
# names may come from another format.
small='[table emb]\ndim = 4\n[embedding e]\ntable = emb\ninput = sparse\n[fc y]\ninput = e\nunits = 1\n'
small="$small"'[loss bce]\ninput = y\n[train]\nbatch = 64\n[store]\nram = 16MiB\n'
small() { # NAME LINE...: compiles and trains a model of these lines of [data] on $folder/NAME.data
    name=$1
    shift
    { printf '[data]\n' && printf '%s\n' "$@" && printf "$small"; } >"$folder/$name.cfg" &&
        heterps compile "$folder/$name.cfg" -o "$folder/$name.bin" &&
        heterps "$folder/$name.bin" --data "$folder/$name.data" --out "$folder/$name"
}
head -n 200 "$data" >"$folder/criteo.data"
{ echo label,C1,C2 && cut -f 1,15,16 "$folder/criteo.data" | tr '\t' ,; } >"$folder/csv.data"
sed '1s/.*/label,site,app/' "$folder/csv.data" >"$folder/named.data"
small criteo 'sparse = C1, C2' && small csv 'format = csv' 'sparse = C1, C2' &&
    small named 'format = csv' 'sparse = site, app' || not_ok 'models of three formats'
crossed() { # what training on csv found is what evaluation of Criteo's lines sees
    heterps "$folder/criteo.bin" --data "$folder/criteo.data" --init "$folder/csv" --out "$folder/crossed" \
        --set train.optimizer='adagrad 0' || return 1
    for from in csv:csv criteo:crossed; do
        "$HETERPS" eval "$folder/${from%:*}.bin" --model "$folder/${from#*:}" --data "$folder/${from%:*}.data" \
            --log json </dev/null >"$folder/$from.log" || return 1
    done
    [ "$(event_number eval logloss "$folder/csv:csv.log")" = \
        "$(event_number eval logloss "$folder/criteo:crossed.log")" ]
}
check 'rows of a csv model under a graph of the same columns in the format of Criteo' crossed
check 'rows of columns of other names' untouched 1 \
    'no row of table emb would ever be found: its keys are of the columns site, app, and the graph looks up C1, C2' \
    "$folder/criteo.bin" --data "$folder/criteo.data" --init "$folder/named" --out "$folder/none" -q
older="its keys are by the rules of version $(rules_newest), and the graph is of version 8; compile"
check 'rows of older rules' untouched 1 "no row of table emb would ever be found: $older" \
    "$folder/criteo.bin" --data "$folder/criteo.data" --init "$folder/criteo" \
    --out "$folder/none" -q --set model.rules=8
# Of an export, which says nothing of its columns, the first lines tell.
heterps export "$folder/named.bin" --model "$folder/named" -o "$folder/named.export"
expected='expected rows for keys of the first [0-9]+ examples of .*criteo.data'
check 'an export none of whose keys is in the data' untouched 1 \
    "named.export: $expected, found none for any of 100 keys or more" \
    "$folder/criteo.bin" --data "$folder/criteo.data" --init "$folder/named.export" \
    --out "$folder/none" --set train.batch=200 -q
sorted() { # the first lines have one key, many times
    { echo label,C1,C2 && for i in $(seq 200); do echo 1,new,new; done && tail -n +2 "$folder/csv.data"; } \
        >"$folder/sorted.data"
    heterps export "$folder/csv.bin" --model "$folder/csv" -o "$folder/csv.export" &&
        heterps "$folder/csv.bin" --data "$folder/sorted.data" --init "$folder/csv.export" 2>/dev/null
}
check 'one key that fills the first lines and has no row is no error' sorted
heterps export "$folder/csv.bin" --model "$folder/csv" -o "$folder/csv.export"
# Few keys, and a stream, whose lines are looked at as they come.
head -200 "$folder/csv.data" | awk -F, -v OFS=, 'NR > 1 { $2 = "c" NR % 5; $3 = "d" NR % 5 } 1' >"$folder/few.data"
sed '1s/.*/label,site,app/' "$folder/few.data" >"$folder/few.named"
heterps "$folder/named.bin" --data "$folder/few.named" --out "$folder/few" &&
    heterps export "$folder/named.bin" --model "$folder/few" -o "$folder/few.export"
few='few.export: expected rows for keys of the first 199 examples of [^ ]*, found none for any of 10 keys: '
check 'ten keys, none of which has a row' untouched 1 "$few" "$folder/csv.bin" --data "$folder/few.data" \
    --init "$folder/few.export" --out "$folder/none" -q
fails 1 "$few" 'the same of a stream' sh -c \
    "'$HETERPS' '$folder/csv.bin' --data - --init '$folder/few.export' --out '$folder/none' -q <'$folder/few.data'"
stream() { "$HETERPS" "$folder/named.bin" --data - --init "$folder/few.export" -q <"$folder/few.named"; }
check 'a stream of the keys' stream
check 'an export of the same columns' heterps "$folder/criteo.bin" --data "$folder/criteo.data" \
    --init "$folder/csv.export"
check '--init with --resume' fails_so 2 '(--init.*--resume|--resume.*--init)' "$graph" --data "$data" \
    --init "$folder/from" --resume "$folder/from" -q
finish

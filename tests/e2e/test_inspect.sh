#!/bin/sh
# inspect: the whole page and the whole drawing of a model that has something in every part of them
# (tests/e2e/inspect), but for the hash of the model and the size of the file.
. "$(dirname "$0")/lib.sh"
look() {
    "$HETERPS" inspect "$work/look.bin" "$@" |
        sed -E '1s/model [0-9a-f]{16} +format [0-9]+ +[0-9.]+ KiB/model HASH   format N   SIZE/'
}
check 'the model compiles' "$HETERPS" compile tests/e2e/inspect/look.cfg -o "$work/look.bin" -q
look >"$work/page"
check 'the page' diff "$work/page" tests/e2e/inspect/look.txt
look --dot >"$work/drawing"
check 'the drawing' diff "$work/drawing" tests/e2e/inspect/look.dot

# Of few things: singular, and no part that would be empty.
cat >"$work/few.cfg" <<'CFG'
[model]
name = few
[data]
format = csv
label = y
dense = d
sparse = a
[table t]
dim = 1
[embedding e]
table = t
input = a
[loss l]
input = e
[train]
batch = 8
CFG
check 'a model of few things compiles' "$HETERPS" compile "$work/few.cfg" -o "$work/few.bin" -q
"$HETERPS" inspect "$work/few.bin" >"$work/few"
has() { check "a model of few things: $1" grep -qE -- "$2" "$work/few"; }
has 'its batch' '^  batch  8 examples = 1 micro-batch of 8, in 1 lane$'
has 'its input' '^  input  1 numeric column, 1 sparse field with at most 1 key an example$'
has 'its rates' '^  rates  times the schedule passes'
check 'a model of few things: no parameters, no lives' sh -c "! grep -qE '^Parameters|^life of' '$work/few'"
finish

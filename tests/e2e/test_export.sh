#!/bin/sh
# Exports as files: from several nodes the same as from one, of every format and for serving; what is said of
# them; what is refused.
. "$(dirname "$0")/lib.sh"
. tests/e2e/process.sh
. tests/e2e/nodes.sh
cd "$folder" || exit 1
h=$HETERPS

tables_model
check 'the data' heterps gen criteo --rows 400 -o data.tsv
sed 's/^optimizer = adagrad 0.05/&\nttl = 3/; s/^epochs = 3/epochs = 1/
    s/^ram = .*/&\nperiod = 4/' tables.cfg >scored.cfg
check 'the graph' heterps compile scored.cfg -o t.bin
check 'the model' heterps t.bin --data data.tsv --out t.model

# once NAME ARGUMENT..., nodes N NAME ARGUMENT...: exported as NAME by one process, and by N nodes.
once() { once_name=$1 && shift && runs 0 "$h" export t.bin --model t.model -o "$once_name" "$@"; }
nodes() {
    nodes_n=$1 nodes_name=$2
    shift 2
    runs 0 "$h" launch --local "$nodes_n" -- export t.bin --model t.model -o "$nodes_name" "$@"
}

safetensors() {
    once one && says 'exported 2 files, .* rows, .* -> one$' && [ -s one/dense.safetensors ] && nodes 2 two &&
        says '^\[0\] exported 2 files, .* rows, .* -> two$' && diff -r one two &&
        once three --format safetensors && diff -r one three
}
check 'safetensors: the files of one' safetensors
npy() {
    once one.npy --format npy && ls one.npy | grep -q '\.npy$' && nodes 2 two.npy --format npy &&
        diff -r one.npy two.npy
}
check 'npy: likewise' npy
serving() {
    once one.bin --for serving --store bf16 --score 2 &&
        says 'vectors as bf16 of .* rows below the score; .* -> one.bin$' &&
        nodes 3 two.bin --for serving --store bf16 --score 2 && cmp one.bin two.bin &&
        says '^\[0\] exported .* vectors as bf16 of .* rows below the score; .* -> two.bin$'
}
check 'for serving: likewise' serving

fails 2 'expected safetensors, npy or onnx, found "csv"' 'another format' "$h" export t.bin --model t.model -o x \
    --format csv
fails 2 'expected serving, found "fun"' 'another purpose' "$h" export t.bin --model t.model -o x --for fun
fails 2 'expected f32, bf16 or int8, found "f8"' 'another store' "$h" export t.bin --model t.model -o x \
    --for serving --store f8
fails 2 'exclude each other' 'a format of a file for serving' "$h" export t.bin --model t.model -o x --for serving \
    --format npy
refused() {
    runs 2 "$h" launch --local 2 -- export t.bin --model t.model -o x --format onnx && says 'export it from one node'
}
check 'a net from nodes' refused
finish

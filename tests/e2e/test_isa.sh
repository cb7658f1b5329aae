#!/bin/sh
# One binary for every x86-64: it starts, compiles a graph and trains on a processor without AVX and SSE4
# (emulated by qemu-user), to the bytes of --isa base on this one; so code outside of engine/device/cpu/isa
# needs no more than SSE2.
. "$(dirname "$0")/lib.sh"
rows 600 "$work/train.tsv"
samples=$root/samples
cd "$work" || exit 1
h=$HETERPS
old() { qemu-x86_64 -cpu core2duo "$h" "$@"; }
train() { # NAME COMMAND...: a few steps, all that ends in the exported tensors
    out=$1
    shift
    "$@" g.bin --data train.tsv --out "$out.model" --threads 1 && "$@" export g.bin --model "$out.model" -o "$out"
}
same() { cmp "$1/dense.safetensors" "$2/dense.safetensors" && cmp "$1/emb.safetensors" "$2/emb.safetensors"; }

with_base() { # export has no --isa: it computes nothing
    verb=$1
    shift
    if [ "$verb" = export ]; then "$h" export "$@"; else "$h" "$verb" --isa base "$@"; fi
}
check 'compile' "$h" compile "$samples/ctrdnn1.cfg" -o g.bin
check 'train with the instructions of every x86-64' train base with_base

name='on a processor without AVX and SSE4'
if ! command -v qemu-x86_64 >/dev/null; then
    skip "$name" 'qemu-x86_64 is not installed (package qemu-user)'
elif [ "$(basename "$BUILD")" != release ] && [ "$(basename "$BUILD")" != debug ]; then
    skip "$name" 'a sanitizer does not run under an emulator'
else
    check "$name: compile gives the same graph" \
        sh -c "qemu-x86_64 -cpu core2duo '$h' compile '$samples/ctrdnn1.cfg' -o old.bin && cmp g.bin old.bin"
    check "$name: trains" train old old
    check "$name: the same bytes as --isa base here" same base old
    fails 2 'avx2 does not run on this processor; the best here is base' "$name: --isa avx2 is refused" old g.bin \
        --data train.tsv --isa avx2
fi
finish

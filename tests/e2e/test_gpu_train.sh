#!/bin/sh
# The release binary with cards, end to end, by a driver whose cards are emulated (tests/gpu/libcuda_emu.c):
# from the file that is shipped through the image and gpu/cuda to the kernels. What it learns is what the
# program with an emulated card linked in learns, byte for byte; how near that is to the CPU test_cards.sh
# says.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/process.sh"
driver=$BUILD/tests/gpu/driver
if ! has_cuda_side; then
    skip 'training on cards of a driver' 'this build has no CUDA side: a release build with nvcc has'
    finish
fi
unset HETERPS_GPU
tiny_model
rows 640 "$work/data.tsv"
cd "$work" || exit 1

plan() { python3 "$root/tests/e2e/make_plan.py" "$@"; }
plan emu.json '0-1:cpu 2-4:emu' # e, x | h1, y, bce
plan cuda.json '0-1:cpu 2-4:cuda:0'
plan cuda2.json '0-1:cpu 2-2:cuda:1 3-4:cuda:0'

train_emu() {
    "$BUILD/heterps-emu" tiny.bin --data data.tsv --plan emu.json --out emu.model -q && exported tiny.bin emu.model emu
}
check 'a program with an emulated card trains' train_emu
export LD_LIBRARY_PATH="$driver"
check 'the one that is shipped learns the same on a driver'\''s card' trains_same emu tiny.bin \
    --data data.tsv --plan cuda.json --gpu on
export HETERPS_EMU_CARDS=2 HETERPS_EMU_SEED=11
check 'on two cards, in another order of their work' trains_same emu tiny.bin --data data.tsv --plan cuda2.json
unset HETERPS_EMU_CARDS HETERPS_EMU_SEED
halves() {
    rm -rf halves.model
    "$HETERPS" tiny.bin --data data.tsv --plan cuda.json --out halves.model --set train.steps_max=4 -q &&
        "$HETERPS" tiny.bin --data data.tsv --plan cuda.json --out halves.model --resume halves.model -q &&
        exported tiny.bin halves.model halves && same_bytes emu halves
}
check 'in two runs' halves
# A model from a card serves as any; where there is a card, too.
scored() {
    "$HETERPS" predict tiny.bin --model emu.model --data data.tsv -o there -q &&
        LD_LIBRARY_PATH= "$HETERPS" predict tiny.bin --model emu.model --data data.tsv -o off -q && cmp there off
}
check 'predict' scored
# Of ours only: a driver's own calls nobody counts. A list of work is made once for each of 5 slots, 3 streams
# and 2 passes, when it first comes.
steady() {
    "$HETERPS" tiny.bin --data data.tsv --plan cuda.json --set train.epochs=4 --log json >steady.log &&
        [ "$(event_number done allocations steady.log)" -le 30 ] && [ "$(event_number done locks steady.log)" = 0 ]
}
check 'while steps run nothing is allocated but lists of work, no lock is taken' steady

# The slots of an evaluation are given back behind it, and others come where they were: a card that goes on
# with the pages it knows reads those. A preloaded stand-in ends a program that gives back memory which a card
# has.
evaluates() {
    for how in cuda emu; do
        case $how in
        cuda) program=$HETERPS preload=$driver/libcuda.so.1 ;;
        *) program=$BUILD/heterps-emu preload= ;;
        esac
        LD_PRELOAD=$preload "$program" tiny.bin --data data.tsv --plan $how.json --eval data.tsv --set eval.every=8 \
            --set train.epochs=2 --log json >$how.log || return 1
        grep '"event":"eval"' $how.log | sed -E 's/.*"logloss":([-0-9.e]+).*/\1/' >$how.losses
    done
    [ "$(wc -l <cuda.losses)" -gt 2 ] && cmp cuda.losses emu.losses
}
check 'evaluations beside training, from memory that comes and goes' evaluates
unwritten() {
    rm -rf unwritten.model
    HETERPS_STANDIN=uncaptured "$HETERPS" tiny.bin --data data.tsv --plan cuda.json \
        --out unwritten.model -v >unwritten.log 2>&1 &&
        grep -q 'stage h1..bce: a pass cannot be written down, and no other is tried: .*STREAM_CAPTURE_INVALIDATED' \
            unwritten.log &&
        exported tiny.bin unwritten.model unwritten && same_bytes emu unwritten
}
check 'a driver that writes no work down: it is given piece by piece, and learns the same' unwritten

# ---- what is refused, or fails ----
fails 2 'stage h1..bce is on cuda:0; this machine has 0 cards: --gpu is off' 'a plan with a card, and --gpu off' \
    "$HETERPS" tiny.bin --data data.tsv --plan cuda.json --gpu off
HETERPS_STANDIN=crash fails 2 'this machine has 0 cards: the driver crashes when it is started' \
    'a plan with a card, and a driver that crashes' \
    "$HETERPS" tiny.bin --data data.tsv --plan cuda.json
fails 2 'stage h1 is on cuda:1; this machine has 1 card' 'a plan with more cards than there are' \
    "$HETERPS" tiny.bin --data data.tsv --plan cuda2.json
free='of its 20000 bytes 20000 are free: cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY'
HETERPS_EMU_BYTES=20000 fails 1 "card 0 .emulated card 0.: [0-9]+ bytes for stage h1..bce: .*: $free" \
    'a card with too little memory' "$HETERPS" tiny.bin --data data.tsv --plan cuda.json -q

# ---- signals ----
start tiny.bin --data data.tsv --plan cuda.json --out long.model --set train.epochs=10000 --log json
await '"event":"progress' run.out
kill -TERM "$pid"
wait "$pid"
check 'SIGTERM saves and ends with 143' test $? = 143 -a -s long.model/manifest.json
finish

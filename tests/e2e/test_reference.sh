#!/bin/sh
# Ten steps of samples/ctrdnn1.cfg against a double-precision program that shares no code with ours (tests/reference), from exported
# initial values: a run whose learning rates are 0 leaves them as they were. Also with the batch cut into lanes and
# micro-batches, whose sums must be the same up to rounding; and against a reference that is wrong by one per cent, which must not pass.
#
# Where a number before ReLU is zero up to rounding, or a first Adagrad gradient is, the two may legitimately part by more than the
# tolerance; with these rows none is.
. "$(dirname "$0")/lib.sh"
rows 1300 "$work/data.tsv"
if ! ${CC:-gcc} -std=gnu11 -O2 -Wall -Wextra -Werror -D_GNU_SOURCE -o "$work/reference" tests/reference/ctrdnn1_reference.c -lxxhash -lm 2>"$work/gcc"; then
    not_ok 'the reference compiles'
    note <"$work/gcc"
    finish
fi

# values OPTIMIZER FOLDER [--set …]: ten steps with that optimizer of parameters and rows, exported to FOLDER.
values() {
    optimizer=$1 folder=$2
    shift 2
    rm -rf "$work/model" "$folder"
    "$HETERPS" compile samples/ctrdnn1.cfg -o "$work/graph.bin" -q --set train.batch=128 --set train.steps_max=10 --set train.optimizer="$optimizer" \
        --set emb.optimizer="$optimizer" "$@" &&
        "$HETERPS" "$work/graph.bin" --data "$work/data.tsv" --out "$work/model" -q &&
        "$HETERPS" export "$work/graph.bin" --model "$work/model" -o "$folder" -q
}

# compare NAME RULE RATE: takes over the reference's lines, with our numbers.
compare() {
    "$work/reference" "$work/data.tsv" "$work/initial" "$work/trained" "$2" "$3" "$3" 128 10 >"$work/tap" || true
    grep -vE '^(ok|not ok) ' "$work/tap"
    grep -qE '^(ok|not ok) ' "$work/tap" || not_ok "$1"
    while read -r line; do
        case $line in
        ok*) ok "$1: ${line#ok * - }" ;;
        not*) not_ok "$1: ${line#not ok * - }" ;;
        esac
    done <<LINES
$(grep -E '^(ok|not ok) ' "$work/tap")
LINES
}

check 'initial values are exported' values 'sgd 0' "$work/initial"
check 'ten steps of sgd' values 'sgd 0.1' "$work/trained"
compare 'sgd 0.1' sgd 0.1
check 'ten steps of sgd in two lanes of two micro-batches' values 'sgd 0.1' "$work/trained" --set train.micro=32 --set train.lanes=2
compare 'sgd 0.1 in lanes' sgd 0.1
check 'ten steps of adagrad' values 'adagrad 0.01' "$work/trained"
compare 'adagrad 0.01' adagrad 0.01
REFERENCE_FAULT=1 "$work/reference" "$work/data.tsv" "$work/initial" "$work/trained" adagrad 0.01 0.01 128 10 >"$work/tap"
check 'a reference whose rates are 1 % too great is refused for every tensor' test "$(grep -c '^not ok' "$work/tap")" = 7
finish

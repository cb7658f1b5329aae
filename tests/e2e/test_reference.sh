#!/bin/sh
# Ten steps of samples in a small form against a double-precision program that shares no code with ours
# (tests/reference), from exported initial values: a run whose learning rates are 0 leaves them as they were.
# Also with the batch cut into lanes and micro-batches, whose sums must be the same up to rounding; and
# against a reference that is wrong by one per cent, which must not pass.
#
# Where a number before ReLU is zero up to rounding the two may legitimately part by more than the tolerance;
# with these rows none is.
. "$(dirname "$0")/lib.sh"
if ! ${CC:-gcc} -std=gnu11 -O2 -Wall -Wextra -Werror -D_GNU_SOURCE -o "$work/reference" \
    tests/reference/*.c -lxxhash -lm 2>"$work/gcc"; then
    not_ok 'the reference compiles'
    note <"$work/gcc"
    finish
fi

# values OPTIMIZER FOLDER SETTING...: ten steps of $model with that optimizer of parameters and rows, exported
# to FOLDER.
values() {
    optimizer=$1 folder=$2 settings=
    shift 2
    for setting in train.batch=128 train.steps_max=10 $small "$@"; do settings="$settings --set $setting"; done
    set --
    for section in train $tables; do set -- "$@" --set "$section.optimizer=$optimizer"; done
    rm -rf "$work/model" "$folder"
    "$HETERPS" compile "samples/$model.cfg" -o "$work/graph.bin" -q $settings "$@" &&
        "$HETERPS" "$work/graph.bin" --data "$work/data" --out "$work/model" -q &&
        "$HETERPS" export "$work/graph.bin" --model "$work/model" -o "$folder" -q
}

# compared STATUS: the reference ended with that, and has said something of every tensor and table that is exported.
compared() {
    [ $status = "$1" ] || { echo "the reference's exit status is $status"; return 1; }
    python3 - "$work/trained" "$work/tap" <<'PYTHON'
import glob, json, os, re, struct, sys
def names(path):
    file = open(path, "rb")
    return [name for name in json.loads(file.read(struct.unpack("<Q", file.read(8))[0])) if name != "__metadata__"]
folder, tap = sys.argv[1:]
found = sorted(re.findall(r"^(?:not )?ok \d+ - (.*?): relative error", open(tap).read(), re.M))
tables = [os.path.basename(path)[:-len(".safetensors")] for path in glob.glob(folder + "/*.safetensors")]
expected = sorted(names(folder + "/dense.safetensors") + ["rows of " + table for table in tables if table != "dense"])
if found != expected or len(tables) < 2: sys.exit("compared: %s\nexported: %s" % (found, expected))
PYTHON
}

# compare NAME RULE RATE ACCUMULATOR: takes over the reference's lines, with our numbers.
compare() {
    "$work/reference" $model "$work/data" "$work/initial" "$work/trained" "$2" "$3" "$4" 128 10 >"$work/tap"
    status=$?
    grep -vE '^(ok|not ok) ' "$work/tap"
    check "$model, $1: all that is exported is compared" compared 0
    while read -r line; do
        case $line in
        ok*) ok "$model, $1: ${line#ok * - }" ;;
        not*) not_ok "$model, $1: ${line#not ok * - }" ;;
        esac
    done <<LINES
$(grep -E '^(ok|not ok) ' "$work/tap")
LINES
}

# reference MODEL TABLES SMALL: all of it for one model, made small by those settings. Data: generated from
# the graph's own planted truth.
reference() {
    model=$1 tables=$2 small=$3
    settings=
    for setting in $small; do settings="$settings --set $setting"; done
    check "$model: data are generated" sh -c "'$HETERPS' compile samples/$model.cfg -o '$work/graph.bin' -q $settings &&
        '$HETERPS' gen '$work/graph.bin' --rows 1300 -o '$work/data' -q"
    check "$model: initial values are exported" values 'sgd 0' "$work/initial"
    check "$model: ten steps of sgd" values 'sgd 0.1' "$work/trained"
    compare 'sgd 0.1' sgd 0.1 0
    check "$model: ten steps of sgd in two lanes of two micro-batches" \
        values 'sgd 0.1' "$work/trained" train.micro=32 train.lanes=2
    compare 'sgd 0.1 in lanes' sgd 0.1 0
    check "$model: ten steps of adagrad" values 'adagrad 0.01' "$work/trained"
    compare 'adagrad 0.01' adagrad 0.01 0
    check "$model: ten steps of adagrad from an accumulator" \
        values 'adagrad 0.01 initial_accumulator=1e-6' "$work/trained"
    compare 'adagrad 0.01 from an accumulator' adagrad 0.01 1e-6
    REFERENCE_FAULT=1 "$work/reference" $model "$work/data" "$work/initial" \
        "$work/trained" adagrad 0.01 1e-6 128 10 >"$work/tap"
    status=$?
    check "$model: a reference whose rates are 1 % too great ends so" compared 1
    check "$model: … and is refused for every tensor" test "$(grep -c '^ok .*relative error' "$work/tap")" = 0
}

reference ctrdnn1 emb 'train.seed=2'
reference deepfm 'first emb' 'emb.dim=4 pairs.dim=4 h1.units=16 h2.units=8'
reference dcnv2 emb \
    'emb.dim=4 b1.units=8 b2.units=6 b3.units=4 v1.units=5 v2.units=5 v3.units=5 u1.units=108 u2.units=108 u3.units=108
    t1.units=16 t2.units=12 t3.units=8 t4.units=6'
reference din 'user item category' 'user.dim=3 item.dim=4 category.dim=4 a1.units=6 h1.units=10 h2.units=6'
reference matchnet words \
    'words.dim=8 query_sum_pool.dim=8 pos_title_sum_pool.dim=8 neg_title_sum_pool.dim=8 query_fc.units=6
    pos_title_fc.units=6 neg_title_fc.units=6 hinge_loss.margin=0.5'
finish

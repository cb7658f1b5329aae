#!/bin/sh
# Usage: sh tests/quality/bytes.sh [HETERPS]        (default ./heterps-run; takes about a minute)
# Shows whether two binaries train the same bytes. Prints a table, a line for each sample, way and instruction set of
# this processor: the first 16 digits of SHA-256 of all exported values, and of the predictions for the training data.
# A change of structure leaves the table as it was:
#     sh tests/quality/bytes.sh OLD >old; sh tests/quality/bytes.sh NEW >new; diff old new
# Every model text in samples/ trains some 32 steps, the last one ragged, on generated data. Some train in further
# ways, and so does a model of the ops that no sample has. A line `data` has the generated data themselves. Left out
# is what depends on time: asp, and wsp with more than one micro-batch in flight or more than one pipeline. Tables of
# two machines may differ. Exit status 1: a run has failed; its line says so.
set -eu
h=${1:-./heterps-run}
case $h in /*) ;; *) h=$PWD/$h ;; esac
cd "$(dirname "$0")/../.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
export HETERPS_GPU=off LC_ALL=C
sets=$("$h" devices --json | sed -n 's/.*"isas":\[\([^]]*\)\].*/\1/p' | tr -d '"' | tr , ' ')
[ -n "$sets" ] || { echo "$h devices names no instruction set" >&2; exit 1; }
failed=0

digits() { sha256sum | cut -c 1-16; }
row() { printf '%-10s %-10s %-10s  %-16s  %s\n' "$@"; }

# ops: a model with the ops, losses and optimizers that no sample has.
cat >"$folder/ops.cfg" <<'CFG'
[data]
format  = csv
dense   = d1, d2, d3
sparse  = a, b, c, d
ids_max = 4
[table emb]
dim       = 4
optimizer = adam 0.01
[table side]
dim       = 3
optimizer = adagrad_row 0.05
[embedding mean]
table = emb
input = a, b
pool  = mean
[embedding max]
table = emb
input = c, d
pool  = max
[embedding none]
table = side
input = a
pool  = none
[data_norm numbers]
input = dense
[softmax shares]
input  = none
groups = 4
[leaky_relu leaky]
input = mean
[sigmoid gate]
input = max
[mul gated]
input = leaky, gate
[add sum]
input = gated, mean
[slice part]
input = max
begin = 2
end   = 6
[reshape turned]
input     = none
rows      = 4
transpose = yes
[embedding q]
table = side
input = b
[attention_pairs pairs]
input = q, none
[fc scores]
input  = pairs
groups = 4
units  = 1
[attention_pool interest]
input     = scores, none, a
normalise = softmax
[concat x]
input = sum, part, turned, shares, interest, numbers
[fc h1]
input = x
units = 20
activation = tanh
[fc h2]
input = h1
units = 20
activation = softsign
[fc h3]
input = h2
units = 20
share = h2
[relu h4]
input = h3
[busy h5]
input  = h4
rounds = 3
[fc y]
input = h5
units = 1
[fc k]
input = h5
units = 2
[fc v]
input = h5
units = 1
[loss click]
input = y
[loss class]
kind   = softmax
input  = k
weight = 0.5
[loss value]
kind  = squared
input = v
[train]
optimizer = adamw 0.01
CFG

# Words, each of which mostly says which one follows; and users of two tastes: what `gen` has no form for.
words() {
    awk 'BEGIN { x = 3; for (l = 0; l < 160; l++) { w = l % 50; s = "w" w
        for (i = 1; i < 12; i++) {
            x = x * 16807 % 2147483647
            w = x % 10 < 8 ? (w * 7 + 3) % 50 : x % 50
            s = s " w" w
        }
        print s } }'
}
users() {
    awk 'BEGIN { x = 4; for (u = 0; u < 250; u++) { s = "u" u
        for (i = 0; i < 8; i++) { x = x * 16807 % 2147483647; s = s " i" 2 * (x % 60) + u % 2 } print s } }'
}

fixture() { # MODEL TEXT: its graph and its data
    model=$1 text=$2
    data=$folder/$model.data
    set -- --set train.batch=64 --set train.epochs=1 --set store.ram=64MiB
    case $(sed -n 's/^format *= *\([a-z]*\).*/\1/p' "$text") in
    tokens) words >"$data" ;;
    pairs) users >"$data" ;;
    esac
    for vocabulary in $(sed -n 's/^\[vocabulary \(.*\)\]/\1/p' "$text"); do
        set -- "$@" --set "$vocabulary.path=$data"
    done
    "$h" compile "$text" -o "$folder/$model.bin" -q "$@" &&
        { [ -e "$data" ] || "$h" gen "$folder/$model.bin" --rows 2000 --vocab 200 -o "$data" -q; }
}

once() { # MODEL ISA SETTING...: trains, prints both hashes
    graph=$folder/$1.bin isa=$2
    shift 2
    rm -rf "$folder/model" "$folder/exported" "$folder/cache" "$folder/rows"
    into=--out
    if [ "$way" = resumed ]; then
        "$h" "$graph" --data "$data" --out "$folder/model" --isa "$isa" --threads 2 -q "$@" \
            --set train.steps_max=11 || return 1
        into=--resume
    fi
    "$h" "$graph" --data "$data" $into "$folder/model" ${plan:+--plan "$plan" --share} --isa "$isa" \
        --threads 2 --log json "$@" >"$folder/log" &&
        "$h" export "$graph" --model "$folder/model" -o "$folder/exported" -q "$@" &&
        "$h" predict "$graph" --model "$folder/model" --data "$data" \
            --isa "$isa" -o "$folder/predictions" -q "$@" || return 1
    # If no row came back from the disk, this way would show nothing.
    [ "$way" != disk ] || grep -q '"rows_fetched":[1-9]' "$folder/log" ||
        { echo 'no row was fetched from the disk' >&2; return 1; }
    cat "$folder"/exported/* | digits
    digits <"$folder/predictions"
}

try() { # MODEL SETTING...: a line for each instruction set
    model=$1
    shift
    [ -e "$folder/$model.bin" ] || return 0 # its text has failed, which is told and counted
    for isa in $sets; do
        if hashes=$(once "$model" "$isa" "$@"); then
            row "$model" "$way" "$isa" $hashes
        else
            row "$model" "$way" "$isa" failed -
            failed=$((failed + 1))
        fi
    done
}

# The plan of a model: a third of its layers a stage, the middle one on two cores, as REPLICAS workers.
thirds() { # MODEL REPLICAS
    n=$("$h" inspect "$folder/$1.bin" | awk '/^Layers:/ { getline; on = 1; next } on && !NF { exit }
        on { n++ } END { print n - 1 }')
    a=$((n / 3)) b=$((n * 2 / 3))
    cat <<PLAN
{"format": "heterps-solution-1",
 "types": [{"name": "cpu", "device": "cpu", "price_per_hour": 0.04, "limit": 64}],
 "stages": [{"first": 0, "last": $((a - 1)), "type": 0, "k": 1},
            {"first": $a, "last": $((b - 1)), "type": 0, "k": 2, "replicas": $2},
            {"first": $b, "last": $((n - 1)), "type": 0, "k": 1}]}
PLAN
}

ways() { # WAY MODELS SETTING...: each model trains with the settings; with replicas=N by a plan of three stages
    way=$1 models=$2
    shift 2
    for setting; do
        shift
        set -- "$@" --set "$setting"
    done
    for model in $models; do
        plan=
        if [ -n "$replicas" ]; then
            plan=$folder/plan.json
            thirds "$model" "$replicas" >"$plan"
        fi
        data=${criteo:-$folder/$model.data}
        try "$model" "$@"
    done
}

row sample way isa values predictions
replicas='' criteo=''
for text in samples/*.cfg "$folder/ops.cfg"; do
    model=$(basename "$text" .cfg)
    grep -q '^\[loss' "$text" || continue # a cluster
    if fixture "$model" "$text"; then
        row "$model" data - "$(digits <"$folder/$model.data")" -
    else
        row "$model" data - failed -
        failed=$((failed + 1))
        rm -f "$folder/$model.bin"
    fi
    ways plain "$model"
done

ways lanes 'ctrdnn1 adult din ops' train.micro=16 train.lanes=4
ways large 'ctrdnn dlrm din' train.batch=1000 train.micro=500 train.epochs=3
ways bf16 'ctrdnn ctrdnn12 dlrm din' train.precision=bf16
ways clip 'ctrdnn1 deepfm' train.clip_norm=0.05 train.clip_value=0.01 train.l1=0.0001 emb.clip_norm=0.001
ways cosine ctrdnn1 'train.schedule=cosine steps=30 warmup=5'
for optimizer in 'sgd 0.1' 'momentum 0.05' 'adam 0.005' 'adamw 0.005' 'ftrl 0.05'; do
    ways "${optimizer% *}" ctrdnn1 "train.optimizer=$optimizer" "emb.optimizer=$optimizer"
done
ways rules ctrdnn1 store.period=8 emb.admit=2 emb.ttl=1 emb.rows=2000 emb.vector_score=0.3
ways shuffle 'ctrdnn1 din' data.shuffle=300 train.epochs=2
ways cache 'ctrdnn1 din' cache.ram=64MiB cache.ssd=64MiB cache.path="$folder/cache" cache.shuffle=blocks train.epochs=3
ways resumed 'ctrdnn1 frappe ops'

# Plans of three stages.
replicas=1
ways stages 'ctrdnn1 ctrdnn8 dlrm din matchnet nce two_tower ops' train.micro=16 train.in_flight=5
ways wsp 'ctrdnn1 lr' train.sync=wsp train.in_flight=1
replicas=2
ways replicas 'ctrdnn1 dlrm din' train.micro=16 train.lanes=2
replicas=''

# More values than RAM has room for: all in a larger RAM, then some on the disk.
criteo=$folder/criteo.data
"$h" gen criteo --rows 4000 --vocab 50000 -o "$criteo" -q
row criteo data - "$(digits <"$criteo")" -
ways many 'ctrdnn1 wide_deep' train.micro=32 train.epochs=2
ways disk ctrdnn1 train.micro=32 train.epochs=2 store.ram=7MiB store.ssd=8MiB store.path="$folder/rows"
ways disk wide_deep train.micro=32 train.epochs=2 store.ram=24MiB store.ssd=100MiB store.path="$folder/rows"

[ $failed = 0 ] || { echo "$failed of these failed" >&2; exit 1; }

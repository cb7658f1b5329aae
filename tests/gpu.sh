#!/bin/sh
# Usage: [HETERPS=./heterps-run] [CHECKS=build/release/tests/gpu] [CARD=0] [PARTS=PATTERN]
#        [MODELS='ctrdnn2 …'] [KEEP=DIR] [LIMIT=570] sh tests/gpu.sh [--quick]
# What a machine with a card is asked for, measured on it, in at most ten minutes, without a network: whether
# its results are right, and how fast training there is. With HETERPS= nothing is built: that file, the
# programs check_ops and driver_start in CHECKS, and samples/ and tests/ are enough, from another machine.
# Without it ./build.sh card comes first. What is missing (a driver, cuBLASLt, PyTorch) is named and left out.
#   ops    every op and update against the reference          check: exit status 1 if it fails
#   same   samples on the CPU, the card and both: their losses; two runs on the card: their bytes   check
#   plans  profile, plan by trials and by every method, train what they plan: MODELS; KEEP: where their logs
#          and instances stay
#   bench  copies, products and updates against the card's own
#   torch  ctrdnn2 and dcnv2 in bfloat16 beside PyTorch
#   start  what a card adds to the start
#   busy   the share of time in which the card works
# Each line of the table (what, asked, found) is printed when it is known, and all of them at the end. Figures
# short of what is asked are only told. What would end later than LIMIT seconds after the start is left out.
# --quick: tiny sizes, for cards that are emulated.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" || exit 1
quick=no
for word; do
    case $word in
    --quick) quick=yes ;;
    *) echo "gpu.sh: unknown word '$word'; see the head of tests/gpu.sh" >&2; exit 2 ;;
    esac
done
if [ -z "${HETERPS:-}" ]; then
    ./build.sh card || exit 1
    HETERPS=./heterps-run
fi
case $HETERPS in /*) h=$HETERPS ;; *) h=$root/$HETERPS ;; esac
checks=${CHECKS:-build/release/tests/gpu} card=${CARD:-0} parts=${PARTS:-.}
work=$(mktemp -d)
failed=0 deadline=$(($(date +%s) + ${LIMIT:-570}))
: >"$work/table"
line='%-62s %-8s %s\n'
table() {
    echo
    printf "$line" what asked found
    cat "$work/table"
}
trap 'rm -rf "$work"' EXIT
trap 'table; exit 143' TERM
trap 'table; exit 130' INT

told() { printf "$line" "$1" "$2" "$3" | tee -a "$work/table"; } # WHAT ASKED FOUND
left_out() { told "$1" '' "left out: $2"; }                      # WHAT WHY
broken() { failed=1; told "$1" right FAILED; }
# left SECONDS: how many of these there are still.
left() {
    until_then=$((deadline - $(date +%s)))
    [ $until_then -ge 1 ] || until_then=1
    if [ $until_then -lt "$1" ]; then echo $until_then; else echo "$1"; fi
}
# wanted PART SECONDS: it is, and there are so many left, which is what it takes if all goes well.
wanted() {
    echo "$1" | grep -qE "$parts" || return 1
    if [ $quick = no ] && [ "$(left "$2")" -lt "$2" ]; then
        left_out "$1" "no time: of the $2 s that it takes $(left "$2") are left"
        return 1
    fi
    echo "
== $1"
}
number() { awk "BEGIN { printf \"%.${2:-2}f\", $1 }"; }
# The number or the word behind "NAME": in lines of JSON, the last one.
field() { grep -oE "\"$1\": ?\"?[^,\"}]*" "$2" | tail -1 | sed 's/^"[^"]*": *"*//'; }
now() { date +%s.%N; }
# model NAME [SETTING...]: $work/NAME.bin, with these settings.
model() {
    name=$1
    shift
    "$h" compile "samples/$name.cfg" -o "$work/$name.bin" -q "$@"
}
# plan FILE FIRST-LAST:DEVICE...: stages of one unit each; cpu: $cores.
plan() {
    file=$1 types= stages= count=0
    shift
    for stage; do
        layers=${stage%%:*} device=${stage#*:} k=1
        [ "$device" != cpu ] || k=$cores
        types="$types, {\"name\": \"type$count\", \"device\": \"$device\", \"price_per_hour\": 1}"
        stages="$stages, {\"first\": ${layers%-*}, \"last\": ${layers#*-}, \"type\": $count, \"k\": $k}"
        count=$((count + 1))
    done
    echo "{\"format\": \"heterps-solution-1\", \"types\": [${types#, }], \"stages\": [${stages#, }]}" >"$file"
}
# The number of a graph's last layer.
last_layer() {
    "$h" inspect "$1" |
        awk '$1 == "layer" && $2 == "ops" { on = 1; next } on && $1 == "total" { print n - 1; exit } on { n++ }'
}
# Examples a second of a log: of what was made behind the first second; of a run so short that there is
# nothing else, of all.
rate() {
    found=$(grep '"event":"progress"' "$1" | sed -E 's/.*"samples":([0-9]+).*"samples_per_s":([0-9.e+]+).*/\1 \2/' |
        awk 'NR > 1 && $2 > 0 { n += $1 - before; s += ($1 - before) / $2 }
            { before = $1 }
            END { if (s > 0) printf "%.0f", n / s }')
    [ -n "$found" ] || found=$(field samples_per_s "$1")
    number "${found:-0}" 0
}
# runs GRAPH DATA LOG ARGUMENT...: trains for $run_seconds (--quick: a few steps), without keeping the model.
runs() {
    graph=$1 data=$2 log=$3
    shift 3
    if [ $quick = yes ]; then
        timeout 60 "$h" "$graph" --data "$data" --log json --set train.steps_max=2 "$@" >"$log" 2>"$log.err"
    else
        timeout -k 20 -s TERM "$(left $run_seconds)" "$h" "$graph" --data "$data" --log json \
            --set train.epochs=100000 "$@" >"$log" 2>"$log.err"
    fi
    status=$?
    [ $status = 0 ] || [ $status = 143 ] || [ $status = 124 ] || { head -3 "$log.err"; return 1; }
}
run_seconds=8 rows=100000 repeats='1 2 3 4 5'
if [ $quick = yes ]; then rows=256 repeats=1; fi
# Small enough for an emulated card.
sizes() {
    [ $quick = yes ] || return 0
    echo "--set train.batch=32 --set train.micro=16"
    case $1 in
    sst) echo "--set words.dim=6 --set t.dim=6 --set t.units=5" ;;
    experts) echo "--set emb.dim=4 --set m.hidden=8 --set m.units=8" ;;
    ctrdnn) echo "--set emb.dim=4 --set h1.units=16 --set h2.units=8 --set h3.units=8" ;;
    ctrdnn2) echo "--set emb.dim=4 --set h1.units=16 --set h2.units=8 --set h3.units=8 --set h4.units=8" ;;
    dcnv2)
        echo "--set emb.dim=2 --set b1.units=8 --set b2.units=8 --set b3.units=2"
        echo "--set v1.units=4 --set v2.units=4 --set v3.units=4"
        echo "--set u1.units=54 --set u2.units=54 --set u3.units=54"
        echo "--set t1.units=8 --set t2.units=8 --set t3.units=8 --set t4.units=8" ;;
    esac
}

cores=$(nproc)
[ -x "$h" ] || { echo "gpu.sh: no $h" >&2; exit 2; }
if ! "$h" devices --gpu on >"$work/devices" 2>"$work/devices.err"; then
    sed 's/^heterps-run: error: //' "$work/devices.err"
    echo 'nothing is measured: there is no card'
    exit 77
fi
"$h" --version
# A PyTorch that was installed by pip has brought a cuBLASLt that the loader does not find.
if ! grep -q '^  cuBLASLt *lib' "$work/devices"; then
    brought=$(python3 -c 'import glob, os, sys
for p in sys.path:
    for f in sorted(glob.glob(os.path.join(p, "nvidia", "*", "lib", "libcublasLt.so.1[123]"))):
        print(os.path.dirname(f))' 2>/dev/null | head -1)
    if [ -n "$brought" ]; then
        export LD_LIBRARY_PATH="$brought${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
        "$h" devices --gpu on >"$work/devices" 2>"$work/devices.err"
        echo "cuBLASLt of python3: LD_LIBRARY_PATH=$LD_LIBRARY_PATH"
    fi
fi
sed -n '/^cards/,$p' "$work/devices"
echo "cores      $cores"
"$h" gen criteo --rows $rows -o "$work/criteo" -q || exit 1

# --- ops ---
if wanted ops 20; then
    if [ -x "$checks/check_ops" ]; then
        timeout "$(left 150)" "$checks/check_ops" "$card" >"$work/ops"
        status=$?
        grep -vE '^ok ' "$work/ops" | head -60
        if [ $status = 0 ]; then
            told "ops and updates that are right: $(grep -c '^ok ' "$work/ops")" all all
        else
            broken "ops and updates: status $status, $(grep -c '^not ok ' "$work/ops") are wrong"
        fi
    else
        left_out ops "no $checks/check_ops: ./build.sh card makes it"
    fi
fi

# --- same ---
# train_as NAME HOW ARGUMENT...: $work/NAME.HOW.log, the evaluation of what was learned, and its values, $work/NAME.HOW.
train_as() {
    name=$1 how=$2 graph=$work/$1.bin
    shift 2
    rm -rf "$work/model"
    timeout "$(left 90)" "$h" "$graph" --data "$work/$name.data" --log json --out "$work/model" \
        --set train.epochs=1 "$@" >"$work/$name.$how.log" 2>"$work/$name.$how.err" &&
        "$h" eval "$graph" --model "$work/model" --data "$work/$name.data" \
            --log json >"$work/$name.$how.eval" 2>"$work/$name.$how.err" &&
        "$h" export "$graph" --model "$work/model" -o "$work/$name.$how" -q && return 0
    head -3 "$work/$name.$how.err"
    broken "$name trains on $how"
    return 1
}
loss_of() { sed -E 's/.*"(logloss|loss)":([-0-9.e]+).*/\2/' "$1"; }
# near NAME HOW: the loss of what was learned there is that of the CPU's.
near() {
    there=$(loss_of "$work/$1.$2.eval") here=$(loss_of "$work/$1.cpu.eval")
    off=$(awk "BEGIN { d = ($there - $here) / $here; printf \"%.1e\", d < 0 ? -d : d }")
    if awk "BEGIN { exit !($off <= 1e-4) }"; then
        told "$1: loss, $2 against the CPU, relative" '<= 1e-4' "$off"
    else
        broken "$1: loss $there on $2, $here on the CPU"
    fi
}
if wanted same 60; then
    for name in ctrdnn ctrdnn2 dcnv2 matchnet experts sst; do
        # Where the CPU ends if both train: behind the rows, and what has parameters in common with a layer there.
        case $name in
        matchnet) cut=11 batch=512 ;;
        dcnv2) cut=0 batch=2048 ;;
        sst) cut=1 batch=64 ;;
        *) cut=0 batch=512 ;;
        esac
        same_rows=$((batch * 16))
        [ $quick = no ] || same_rows=64
        [ $quick = no ] || [ $name != matchnet ] || same_rows=16
        settings="--set train.batch=$batch"
        [ $quick = no ] || settings=$(sizes $name)
        # By gradient descent: Adagrad's first steps are as long as its rate, whatever the gradient, so where
        # one is nearly 0 its rounding decides which way a weight goes; after 8 steps losses by AVX2 and
        # AVX-512 differ by 1e-3.
        case $name in
        matchnet) model $name $settings ;;
        sst) model $name $settings --set 'train.optimizer=sgd 0.1' --set 'words.optimizer=sgd 0.1' ;;
        *) model $name $settings --set 'train.optimizer=sgd 0.1' --set 'emb.optimizer=sgd 0.1' ;;
        esac || { broken "$name compiles"; continue; }
        case $name in
        ctrdnn*) head -$same_rows "$work/criteo" >"$work/$name.data" ;;
        *)
            "$h" gen "$work/$name.bin" --rows $same_rows -o "$work/$name.data" -q ||
                { broken "data of $name"; continue; }
            ;;
        esac
        last=$(last_layer "$work/$name.bin")
        plan "$work/card.json" "0-$last:cuda:$card"
        plan "$work/both.json" "0-$cut:cpu" "$((cut + 1))-$last:cuda:$card"
        train_as $name cpu --gpu off || continue
        train_as $name card --plan "$work/card.json" && near $name card
        train_as $name both --plan "$work/both.json" && near $name both
        train_as $name again --plan "$work/card.json"
        if diff -r "$work/$name.card" "$work/$name.again" >/dev/null; then
            told "$name: two runs on the card" 'the same' 'the same bytes'
        else
            broken "$name: two runs on the card differ"
        fi
        rates="CPU $(rate "$work/$name.cpu.log"), card $(rate "$work/$name.card.log")"
        rates="$rates, both $(rate "$work/$name.both.log")"
        echo "$name: $same_rows examples, start and all, examples/s: $rates"
        rm -rf "$work/$name.cpu" "$work/$name.card" "$work/$name.both" "$work/$name.again"
    done
fi

# --- plans ---
# plans_of NAME[-cold]: a profile of the sample, the plan that trials choose, that of every method, and a run of each.
# cold: hardly any row stays on the card, as of tables far beyond its memory.
plans_of() {
    name=${1%-cold} settings='--set train.batch=32768 --set train.micro=1024' try_seconds=2 plan_seconds=3
    [ $name != dcnv2 ] || settings='--set train.batch=8192 --set train.micro=1024' # a step of the CPU takes seconds
    if [ $quick = yes ]; then settings=$(sizes $name) try_seconds=0.1 plan_seconds=0.1; fi
    [ $name = "$1" ] || settings="$settings --set store.gpu=1MiB"
    model $name $settings || { broken "$name compiles"; return; }
    graph=$work/$name.bin
    case $name in
    ctrdnn*) data=$work/criteo ;;
    *)
        data=$work/$name.plans && "$h" gen "$work/$name.bin" --rows $((rows / 2)) -o "$data" -q ||
            { broken "data of $name"; return; }
        ;;
    esac
    name=$1
    if ! timeout "$(left 120)" "$h" plan "$graph" --cluster "$work/cluster" \
        --data "$data" --no-cache --try $try_seconds --seconds $plan_seconds \
        --instance-out "$work/instance" -o "$work/tried.plan" >"$work/tried" 2>"$work/err"; then
        left_out "plans of $name" "$(tail -1 "$work/err")"
        return
    fi
    sed -n '/^tried /,$p' "$work/tried"
    : >"$work/rates"
    for method in tried auto cpu gpu heuristic inverse rl; do
        [ $method = tried ] || timeout "$(left 30)" "$h" plan --instance "$work/instance" --method $method \
                --seconds $plan_seconds -o "$work/$method.plan" -q >/dev/null 2>"$work/err" ||
            [ -s "$work/$method.plan" ] || { echo "$name, $method: $(cat "$work/err")"; continue; }
        # One that is slower than what the goal asks for, which is the best, is run all the same.
        sed -i 's/"feasible": false/"feasible": true/' "$work/$method.plan"
        # What is planned twice is trained once.
        key=$(tr -d ' \n' <"$work/$method.plan" | sed 's/.*"stages":\[//' |
            grep -oE '"(first|last|type|k)":[0-9]+' | tr -d '\n')
        known=$(awk -v key="$key" '$4 == key { print $2; exit }' "$work/rates")
        if [ -z "$known" ]; then
            if runs "$graph" "$data" "$work/log" --plan "$work/$method.plan"; then
                known=$(rate "$work/log")
            else
                echo "$name, $method: its plan does not train"
                continue
            fi
            [ -z "${KEEP:-}" ] || cp "$work/log" "$KEEP/$name.$method.log"
        fi
        figure=throughput
        [ $method != tried ] || figure=measured
        echo "$method $known $(field $figure "$work/$method.plan") $key" >>"$work/rates"
        devices=$(sed -n 's/^ *"device": "\(.*\)".*/\1/p' "$work/$method.plan" | tr '\n' ' ')
        predicted=$(number "$(field throughput "$work/$method.plan")" 0)
        echo "$name, $method: $devices$key: predicted $predicted, measured $known examples/s"
    done
    [ -z "${KEEP:-}" ] || cp "$work/instance" "$KEEP/$name.instance"
    of() { awk -v m=$1 -v c=$2 '$1 == m { print $c }' "$work/rates"; }
    best=$(sort -k2 -g "$work/rates" | awk 'END { print $2 }')
    mixed=$(awk '{ stages = gsub(/"first"/, "&", $4) } stages > 1' "$work/rates" | sort -k2 -g | awk 'END { print $2 }')
    single=$(awk '$1 == "cpu" || $1 == "gpu"' "$work/rates" | sort -k2 -g | awk 'END { print $2 }')
    for method in tried auto; do
        took=$(of $method 2)
        [ -n "$took" ] && [ "$took" != 0 ] || continue
        what='the plan of auto' than=predicted
        [ $method = auto ] || what='the plan of --try' than='what its trial measured'
        told "$name: $what, of the best measured" '>= 0.98' "$(number "$took / $best")"
        told "$name: $what, measured over $than" '1 +- 0.1' "$(number "$took / $(of $method 3)")"
    done
    if [ -n "$mixed" ] && [ -n "$single" ]; then
        told "$name: the best plan of CPU and card over the better of either" '>= 1.5' "$(number "$mixed / $single")"
    else
        left_out "$name: CPU and card over either" 'no such plan, or none of one device'
    fi
}
if wanted plans 80; then
    "$h" devices --cluster >"$work/cluster" 2>/dev/null
    models="ctrdnn2 matchnet dcnv2 dcnv2-cold ctrdnn"
    [ $quick = no ] || models=ctrdnn2
    for name in ${MODELS:-$models}; do
        [ $quick = yes ] || [ "$(left 80)" = 80 ] || { left_out "plans of $name" 'no time'; continue; }
        plans_of $name
    done
fi

# --- bench ---
if wanted bench 30; then
    sizes='--repeats 5'
    [ $quick = no ] || sizes='--quick --repeats 2 --bytes 16KiB --shape 64x64x64'
    if timeout "$(left 120)" "$h" bench card --card "$card" $sizes --json >"$work/bench"; then
        grep '"event":"bench"' "$work/bench" |
            sed -E 's/.*"name":"([^"]*)".*"unit":"([^"]*)".*"median":([^,]*),.*/\1|\3|\2|&/;
                s/\|[^|]*"share":([0-9.]*).*/|\1/; s/\|\{.*/|/' >"$work/shares"
        awk -F'|' '{ printf "  %-42s %10.4g %-8s %s\n", $1, $2, $3, $4 == "" ? "" : sprintf("share %.2f", $4) }' \
            "$work/shares"
        # share_of NAMES WHAT ASKED: the least of these.
        share_of() {
            least=$(grep -E "$1" "$work/shares" | awk -F'|' '$4 != "" { print $4 }' | sort -g | head -1)
            if [ -n "$least" ]; then
                told "$2" "$3" "$(number "$least")"
            else
                left_out "$2" 'nothing to compare with here'
            fi
        }
        share_of '^copy' 'our copy, of the driver'\''s' ''
        share_of '^(bf16|tf32) .*, M ([0-9]{4,}) N ([0-9]{4,}) K ([0-9]{4,})' \
            'own bf16 and tf32 products, the worst of M, N, K >= 1024, of cuBLASLt' '>= 0.7'
        share_of '^bf16 .*, M ' 'bfloat16 products, the worst, of cuBLASLt on the same factors' ''
        share_of '^tf32 .*, M ' 'TF32 products, the worst, of cuBLASLt on the same factors' ''
        share_of '^f32 ' 'float32 products, the worst, of the card'\''s multiply-adds' ''
        share_of '^update' 'updates, the worse, of the driver'\''s copy' ''
    else
        left_out bench 'bench card failed'
    fi
fi

# --- torch, busy ---
# on_card NAME PRECISION BATCH: the rate of the sample on the card alone, $ours.
on_card() {
    settings="--set train.batch=$3 --set train.micro=$3"
    [ $quick = no ] || settings=$(sizes $1)
    model $1 $settings --set train.precision=$2
    case $1 in
    ctrdnn*) data=$work/criteo ;;
    *) data=$work/$1.data && "$h" gen "$work/$1.bin" --rows $((rows / 4)) -o "$data" -q ;;
    esac
    plan "$work/card.json" "0-$(last_layer "$work/$1.bin"):cuda:$card"
    shift 3
    runs "$work/${name}.bin" "$data" "$work/log" --plan "$work/card.json" "$@" && ours=$(rate "$work/log")
}
if wanted torch 80; then
    if python3 -c 'import torch; raise SystemExit(not torch.cuda.is_available())' 2>/dev/null; then
        for name in ctrdnn2 dcnv2; do
            asked=1.5
            [ $name = ctrdnn2 ] || asked=1.2
            [ "$(left 40)" = 40 ] || { left_out "$name: PyTorch" 'no time'; continue; }
            # Told to end, it still says what it has found.
            theirs=$(timeout -k 5 "$(left 90)" \
                python3 tests/others/torch_card.py $name 2048 bf16 "$run_seconds" 2>"$work/err")
            [ -n "$theirs" ] || { left_out "$name: PyTorch" "$(tail -1 "$work/err")"; continue; }
            on_card $name bf16 2048 || { left_out "$name: ours" 'does not train'; continue; }
            echo "$name, bfloat16, batch 2048: ours, from text, $ours; PyTorch, batches in memory, $theirs examples/s"
            told "$name, bfloat16, over PyTorch on this card" ">= $asked" "$(number "$ours / ${theirs%% *}")"
        done
    else
        left_out 'ctrdnn2 and dcnv2 beside PyTorch' 'no python3 with torch that has CUDA'
    fi
fi

# --- start ---
# took COMMAND...: the median of as many as $repeats has, in seconds.
took() {
    for i in $repeats; do
        begin=$(now)
        timeout 60 "$@" >/dev/null 2>&1
        end=$(now)
        number "$end - $begin" 4
        echo
    done | sort -g | sed -n "$(((${#repeats} + 3) / 4))p"
}
if wanted start 30; then
    model ctrdnn --set emb.dim=4 --set h1.units=8 --set h2.units=8 --set h3.units=8
    head -64 "$work/criteo" >"$work/few"
    plan "$work/card.json" "0-$(last_layer "$work/ctrdnn.bin"):cuda:$card"
    without=$(took "$h" "$work/ctrdnn.bin" --data "$work/few" --gpu off)
    with=$(took "$h" "$work/ctrdnn.bin" --data "$work/few" --gpu on)
    there=$(took "$h" "$work/ctrdnn.bin" --data "$work/few" --gpu on --plan "$work/card.json")
    echo "devices $(took "$h" devices --gpu on) s; a tiny training without cards $without s," \
        "with --gpu on $with s, on the card $there s"
    if started=$("$checks/driver_start" 2>/dev/null); then
        echo "the driver alone: cuInit ${started% *} s, a context ${started#* } s"
        told 'a training with --gpu on starts later by, s beyond a bare cuInit' '<= 0.3' \
            "$(number "$with - $without - ${started% *}")"
    else
        told 'a training with --gpu on starts later by, s, cuInit included' '<= 0.3' "$(number "$with - $without")"
    fi
fi

# --- busy ---
# The share of the middle half of a run in which some stream has work: from a trace of one whose stages are
# all on the card.
busy_share() {
    sed -nE 's/.*"cat":"(forward|backward|update)".*"ts":([0-9.]+),"dur":([0-9.]+).*/\2 \3/p' "$1" | sort -g | awk '
        { begin[NR] = $1; end[NR] = $1 + $2; if (end[NR] > last) last = end[NR] }
        END {
            if (NR == 0) exit
            from = begin[1] + (last - begin[1]) / 4; to = last - (last - begin[1]) / 4; at = from
            for (i = 1; i <= NR; i++) {
                b = begin[i] > at ? begin[i] : at; e = end[i] < to ? end[i] : to
                if (e > b) { busy += e - b; at = e }
            }
            if (to > from) printf "%.2f", busy / (to - from)
        }'
}
if wanted busy 15; then
    name=ctrdnn2
    if command -v nvidia-smi >/dev/null && [ $quick = no ]; then
        timeout "$run_seconds" nvidia-smi --id="$card" --query-gpu=utilization.gpu \
            --format=csv,noheader,nounits -l 1 >"$work/smi" 2>/dev/null &
        smi=$!
    else
        smi=
    fi
    if on_card $name f32 2048 --trace "$work/trace"; then
        [ -z "$smi" ] || { wait "$smi"; echo "nvidia-smi: busy, percent, by the second: $(tr '\n' ' ' <"$work/smi")"; }
        told 'share of time in which streams of the card have work, ctrdnn2' '>= 0.85' "$(busy_share "$work/trace")"
    else
        left_out busy 'ctrdnn2 does not train on the card'
    fi
fi

table
exit $failed

#!/bin/sh
# Routed experts: samples/experts.cfg trains to the same bytes by any threads, stages and nodes, predicts an
# example alone as among others, and says what it cannot be exported as.
. "$(dirname "$0")/lib.sh"
. tests/e2e/process.sh
data=$folder/data graph=$folder/graph.bin
small='--set store.ram=16MiB --set train.batch=64 --set train.micro=16 --set train.lanes=2 --set m.hidden=20'
heterps gen criteo --rows 2000 --seed 6 -o "$data" && heterps compile samples/experts.cfg -o "$graph" $small ||
    { echo "not ok 1 - fixture"; exit 1; }

check 'trains' trains plain "$graph" --data "$data" --threads 2
check 'the same by one thread' trains_same plain "$graph" --data "$data" --threads 1
python3 tests/e2e/make_plan.py "$folder/stages.json" '0-2:1:1 3-3:1:1 4-6:1:1'
check 'the same in three stages' trains_same plain "$graph" --data "$data" --plan "$folder/stages.json" --share
nodes() {
    "$HETERPS" export "$graph" --model "$folder/plain.model" -o "$folder/one" -q &&
        "$HETERPS" launch --local 2 -- "$graph" --data "$data" --out "$folder/two.model" \
            --threads 1 >"$folder/log" 2>&1 &&
        "$HETERPS" export "$graph" --model "$folder/two.model" -o "$folder/two" -q &&
        diff -r "$folder/one" "$folder/two"
}
check 'the same on two nodes' nodes
alone() { # an example's prediction does not depend on who comes with it
    head -n 12 "$data" >"$folder/few"
    "$HETERPS" predict "$graph" --model "$folder/plain.model" --data "$folder/few" -o "$folder/together" -q || return 1
    for i in 1 5 12; do
        sed -n ${i}p "$folder/few" >"$folder/line"
        "$HETERPS" predict "$graph" --model "$folder/plain.model" --data "$folder/line" -o "$folder/alone" -q &&
            [ "$(cat "$folder/alone")" = "$(sed -n ${i}p "$folder/together")" ] || return 1
    done
}
check 'predicts an example alone as among others' alone
check 'is served, with the same answers' python3 "$root/tests/e2e/serve_same.py" "$HETERPS" "$graph" \
    "$folder/plain.model" "$folder/few" "$folder/together" \
    --set store.ram=16MiB
onnx() {
    ! "$HETERPS" export "$graph" --model "$folder/plain.model" -o "$folder/net.onnx" --format onnx 2>"$folder/log" &&
        grep -q 'onnx: \[experts m\] has no equivalent' "$folder/log"
}
check 'is no net of onnx' onnx
learns() { # better than what does not look at the example
    "$HETERPS" eval "$graph" --model "$folder/plain.model" --data "$data" >"$folder/eval" 2>&1
    grep -Eq ' AUC 0\.(6[5-9]|[789])' "$folder/eval"
}
check 'learns' learns
finish

#!/bin/sh
# All steps on generated data, in about a minute: generate, compile, inspect, train, evaluate, predict, export.
# Needs ./heterps-run beside the samples folder (./build.sh makes it); writes only to ./demo.
set -eu
cd "$(dirname "$0")/.."
mkdir -p demo

run() {
    printf '\n$ %s\n' "$*"
    "$@"
}

run ./heterps-run gen criteo --rows 300000 -o demo/train.tsv
run ./heterps-run gen criteo --rows 30000 --skip 300000 -o demo/test.tsv
run ./heterps-run compile samples/ctrdnn.cfg -o demo/ctrdnn.bin
run ./heterps-run inspect demo/ctrdnn.bin
run ./heterps-run demo/ctrdnn.bin --data demo/train.tsv --eval demo/test.tsv --out demo/model
run ./heterps-run eval demo/ctrdnn.bin --model demo/model --data demo/test.tsv
run ./heterps-run predict demo/ctrdnn.bin --model demo/model --data demo/test.tsv -o demo/predictions.txt
printf '\n$ head -3 demo/predictions.txt\n'
head -3 demo/predictions.txt
run ./heterps-run export demo/ctrdnn.bin --model demo/model -o demo/export
printf '\nAll of it is in ./demo. The models to copy from are in ./samples.\n'

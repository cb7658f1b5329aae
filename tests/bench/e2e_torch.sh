#!/bin/sh
# Usage: sh tests/bench/e2e_torch.sh [ROUNDS]        (default 5)
# Training samples/ctrdnn.cfg from a Criteo text file, by heterps-run and by PyTorch with its DataLoader, in
# turn on the same file and the same machine: same layers, Adagrad, float32, batch 2048. PyTorch runs three
# times a round, with 0, 1 and 2 worker processes, and the best counts. Prints medians and the ratio. Needs
# ./heterps-run, python3-torch, libopenblas0-openmp and ../shared/peers (OTHERS).
set -eu
cd "$(dirname "$0")/../.."
rounds=${1:-5}
OTHERS=${OTHERS:-../shared/peers}
PYTHON=${PYTHON:-/usr/bin/python3}
HETERPS=${HETERPS:-./heterps-run}
# Without it Debian's PyTorch multiplies with the reference BLAS, which would flatter us
BLAS=$(echo /usr/lib/*/openblas-openmp)
if ! "$PYTHON" -c 'import torch' 2>/dev/null || [ ! -r "$OTHERS/torch_e2e.py" ] || [ ! -d "$BLAS" ]; then
    echo "skipped: needs $OTHERS/torch_e2e.py; apt-get install python3-torch libopenblas0-openmp"
    exit 0
fi
export LD_LIBRARY_PATH="$BLAS"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TSV="$folder/clicks.tsv" SECS="${SECS:-8}"
"$HETERPS" gen criteo --rows 300000 --vocab 38461 -o "$TSV" -q
"$HETERPS" compile samples/ctrdnn.cfg -o "$folder/graph.bin" --set train.batch=2048 -q

for round in $(seq "$rounds"); do
    ours=$("$HETERPS" "$folder/graph.bin" --data "$TSV" --log json |
        sed -n 's/.*"event":"done".*"samples_per_s":\([0-9]*\).*/\1/p')
    theirs=0
    for reader in 'dl0 2' 'dl1 1' 'dl2 1'; do
        # shellcheck disable=SC2086 # two words on purpose
        rate=$("$PYTHON" "$OTHERS/torch_e2e.py" $reader 1 2048 adagrad 2>/dev/null |
            sed -n 's/.*: *\([0-9]*\) samples\/s.*/\1/p')
        [ "${rate:-0}" -le "$theirs" ] || theirs=$rate
    done
    echo "round $round: heterps-run $ours samples/s, PyTorch $theirs samples/s"
    echo "$ours $theirs" >>"$folder/rates"
done
median() { sort -n | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }
ours=$(cut -d' ' -f1 "$folder/rates" | median)
theirs=$(cut -d' ' -f2 "$folder/rates" | median)
ratio=$(awk '{print $1 / $2}' "$folder/rates" | median)
echo "medians of $rounds: heterps-run $ours samples/s, PyTorch with DataLoader $theirs samples/s; ratio by round $ratio"

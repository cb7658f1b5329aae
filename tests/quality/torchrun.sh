#!/bin/sh
# Usage: sh tests/quality/torchrun.sh [PROGRAM] [TORCHRUN]       defaults: ./heterps-run; torchrun of
#                                                                build/torch, or of PATH
# Trainings that a real torchrun starts: three processes of one agent; two agents that meet, with a process each; and
# a training of which one process is killed, on which torchrun ends the others and starts all anew. Each has to end
# with the bytes of one node. Prints a line a job. Status 1 if one is wrong; 77 with a sentence where there is no
# torchrun (python3 -m venv build/torch && build/torch/bin/pip install torch: some GiB).
set -u
h=${1:-./heterps-run}
case $h in /*) ;; *) h=$PWD/$h ;; esac
root=$(cd "$(dirname "$0")/../.." && pwd)
run=${2:-$root/build/torch/bin/torchrun}
[ -x "$run" ] || run=$(command -v torchrun) || {
    echo "torchrun.sh: there is no torchrun here (python3 -m venv build/torch && build/torch/bin/pip install torch)" >&2
    exit 77
}
work=$(mktemp -d)
trap 'kill $other 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
other=
cd "$work" || exit 1
. "$root/tests/quality/one_node.sh"
nodes_model train.lanes=4 train.epochs=80 checkpoint.every=100 cluster.timeout=5 &&
    "$h" key -o key -q && one_node -q || exit 1
train="--no-python $h model.bin --data data.tsv --out many.model --again --key-file key --threads 1"
same() { # NAME STATUS PATTERN
    status=$2 pattern=$3
    told "$1" log '[ $status = 0 ]' 'as_one_node many.model' 'grep -q "$pattern" log'
    rm -rf many.model
}
timeout 120 "$run" --standalone --nproc-per-node 3 $train >log 2>&1
same 'three processes of one agent' $? 'nodes    3,'

port=$(python3 -c 'import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])')
two="$run --nnodes 2 --nproc-per-node 1 --rdzv-backend c10d --rdzv-id job"
two="$two --rdzv-endpoint 127.0.0.1:$port --local-addr 127.0.0.1"
timeout 120 $two $train >other.log 2>&1 &
other=$!
timeout 120 $two $train >log 2>&1
status=$?
wait $other || status=1
cat other.log >>log
same 'two agents' $status 'nodes    2,'

timeout 120 "$run" --standalone --max-restarts 3 --nproc-per-node 2 $train >log 2>&1 &
other=$!
while ! grep -q 'saved ' log && kill -0 $other 2>/dev/null; do sleep 0.05; done
for pid in $(pgrep -f "^$h model.bin --data data.tsv"); do
    if tr '\0' '\n' <"/proc/$pid/environ" | grep -qx RANK=1 && [ "$(readlink "/proc/$pid/cwd")" = "$work" ]; then
        kill -9 "$pid"
    fi
done
wait $other
same 'a process is killed' $? 'resume   after step'
echo "3 jobs, $bad of them wrong"
[ $bad = 0 ]

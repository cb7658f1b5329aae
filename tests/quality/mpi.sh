#!/bin/sh
# Usage: [MPICH=mpirun.mpich] [OPENMPI=mpirun.openmpi] sh tests/quality/mpi.sh [PROGRAM]       default: ./heterps-run
# Trainings on three nodes of this machine that samples/nodes.mpirun starts, by MPICH's mpirun and by Open MPI's,
# which have to end with the bytes of one node. Then a training that is ended by a signal to mpirun, and goes on when
# it is started again. MPICH and OPENMPI say where the two are, and each has to be what it is called; one that is not
# there is skipped, with a line that says so. Prints a line a job. Status 1 if one is wrong; 77 where one of
# the two is not there. A minute.
set -u
h=${1:-./heterps-run}
case $h in /*) ;; *) h=$PWD/$h ;; esac
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
cd "$work" || exit 1
. "$root/tests/quality/one_node.sh"
nodes_model train.lanes=4 train.epochs=20 checkpoint.every=100 cluster.timeout=5 &&
    "$h" key -o cluster.key -q && one_node -q || exit 1
cp "$h" heterps-run && mv model.bin graph.bin && ln -s graph.bin model.bin && mv data.tsv train.tsv || exit 1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
free_port() {
    python3 -c 'import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])'
}
by() { # MPIRUN: the sample, on three nodes
    PORT=$(free_port) MPIRUN=$1 timeout 120 sh "$root/samples/nodes.mpirun" localhost,localhost,localhost >log 2>&1
}
found() { # NAME MPIRUN PATTERN: whether it is there, and is that one
    version=$("$2" --version 2>&1) && echo "$version" | grep -qi "$3" && return 0
    echo "skipped: $1: $2 is not there, or not that of $1"
    return 1
}
jobs=0
both() { # NAME MPIRUN
    jobs=$((jobs + 2))
    rm -rf model
    by "$2"
    status=$?
    told "$1: three nodes" log '[ $status = 0 ]' 'as_one_node model' 'grep -q "nodes    3, which have" log'
    rm -rf model
    PORT=$(free_port) MPIRUN=$2 sh "$root/samples/nodes.mpirun" localhost,localhost,localhost >log 2>&1 &
    job=$!
    tenths=300
    while ! grep -q 'saved ' log && kill -0 $job 2>/dev/null && [ $tenths -gt 0 ]; do
        sleep 0.1
        tenths=$((tenths - 1))
    done
    kill -TERM $job
    wait $job
    status=$?
    by "$2"
    again=$?
    told "$1: ended by a signal, and started again" log '[ $status != 0 ]' '[ $again = 0 ]' \
        'grep -q "resume   after step" log' 'as_one_node model'
}
mpich=${MPICH:-mpirun.mpich} openmpi=${OPENMPI:-mpirun.openmpi}
if found MPICH "$mpich" 'hydra\|mpich'; then both MPICH "$mpich"; fi
if found 'Open MPI' "$openmpi" 'open *mpi\|openrte'; then both 'Open MPI' "$openmpi"; fi
echo "$jobs jobs of 4, $bad of them wrong"
[ $bad = 0 ] || exit 1
[ $jobs = 4 ] || exit 77

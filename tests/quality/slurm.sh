#!/bin/sh
# Usage: sh tests/quality/slurm.sh [PROGRAM]       default: ./heterps-run
# samples/nodes.slurm under a real Slurm: munged, slurmctld and two slurmd under a temporary directory, in namespaces
# of their own, in which both nodes are this machine. A job of two nodes has to end with the bytes of one:
# undisturbed, with a node killed on the way, and ended by SIGTERM and submitted again. Prints a line a job. Status 1
# if one is wrong; 77 with a sentence where there is no Slurm, or there can be no namespaces.
set -u
h=${1:-./heterps-run}
case $h in /*) ;; *) h=$PWD/$h ;; esac
root=$(cd "$(dirname "$0")/../.." && pwd)
if [ "${SLURM_INSIDE:-}" != yes ]; then
    PATH=$PATH:/usr/sbin
    for program in munged slurmctld slurmd sbatch srun scancel ip; do
        command -v $program >/dev/null || {
            echo "slurm.sh: there is no $program here (Debian: slurmctld slurmd slurm-client munge iproute2)" >&2
            exit 77
        }
    done
    unshare --net --mount --pid --fork true 2>/dev/null ||
        { echo "slurm.sh: there can be no namespaces here (root)" >&2; exit 77; }
    export PATH
    SLURM_INSIDE=yes exec unshare --net --mount --pid --fork --mount-proc --kill-child sh "$0" "$h"
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
cd "$work" || exit 1

# --- a cluster of two nodes -------------------------------------------------------------------------------------------

# Slurm looks names up only where there is an address beside loopback's.
ip link set lo up && ip link add cable0 type veth peer name cable1 && ip address add 10.78.0.1/24 dev cable0 &&
    ip link set cable0 up && ip link set cable1 up || exit 1
here=$(hostname)
printf '127.0.0.1 localhost\n10.78.0.1 n1 n2 %s\n' "$here" >hosts && mount --bind hosts /etc/hosts || exit 1
mkdir munge state spool.n1 spool.n2 job && head -c 1024 /dev/urandom >munge.key &&
    chmod 600 munge.key && chmod 755 munge
cat >slurm.conf <<CONF
ClusterName=test
SlurmctldHost=$here
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
AuthInfo=socket=$work/munge/socket
CredType=cred/munge
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool.%n
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.%n.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
NodeName=n1 NodeHostname=$here NodeAddr=10.78.0.1 Port=7001 CPUs=1
NodeName=n2 NodeHostname=$here NodeAddr=10.78.0.1 Port=7002 CPUs=1
PartitionName=all Nodes=ALL Default=YES State=UP
CONF
export SLURM_CONF="$work/slurm.conf"
munged --key-file="$work/munge.key" --socket="$work/munge/socket" --pid-file="$work/munge/pid" \
    --log-file="$work/munge/log" --seed-file="$work/munge/seed" --force 2>munged.err &&
    slurmctld && slurmd -N n1 && slurmd -N n2
tenths=300
while [ "$(sinfo -h -t idle -o %D 2>/dev/null)" != 2 ]; do
    tenths=$((tenths - 1))
    [ $tenths -gt 0 ] || {
        why=$(tail -qn 2 munged.err munge/log slurmctld.log slurmd.n1.log 2>/dev/null | tr '\n' ' ')
        echo "slurm.sh: Slurm does not start here: $why" >&2
        exit 77
    }
    sleep 0.1
done

# --- jobs -------------------------------------------------------------------------------------------------------------

. "$root/tests/quality/one_node.sh"
nodes_model train.lanes=4 train.epochs=60 cluster.timeout=5 && one_node -q && cp "$h" job/heterps-run &&
    cp model.bin job/graph.bin && mv data.tsv job/train.tsv && "$h" key -o job/cluster.key -q || exit 1
submit() { id=$(cd job && sbatch --parsable --nodes=2 --cpus-per-task=1 -o "$1.log" "$root/samples/nodes.slurm"); }
ended() { while [ -n "$(squeue -h -j "$id" 2>/dev/null)" ]; do sleep 0.1; done; }
begun() {
    while ! grep -q 'saved ' "job/$1.log" 2>/dev/null && [ -n "$(squeue -h -j "$id" 2>/dev/null)" ]; do sleep 0.05; done
}
same() { # LOG NAME CONDITION: of the job's log
    told "$2" "job/$1.log" 'as_one_node job/model' "$3"
    rm -rf job/model
}
submit whole
ended
same whole 'two nodes by samples/nodes.slurm' 'grep -q "nodes    2," job/whole.log'
submit killed
begun killed
for pid in $(pgrep -f '^[^ ]*heterps-run graph.bin'); do # node 1's
    ! tr '\0' '\n' <"/proc/$pid/environ" | grep -qx SLURM_PROCID=1 || kill -9 "$pid"
done
ended
same killed 'a node is killed' 'grep -q "node 1 at .* is lost" job/killed.log'
submit first
begun first
scancel --signal=TERM "$id"
ended
submit second
ended
same second 'ended by SIGTERM, and submitted again' \
    'grep -q "all nodes have stopped after step" job/first.log && grep -q "resume   after step" job/second.log'
echo "3 jobs, $bad of them wrong"
[ $bad = 0 ]

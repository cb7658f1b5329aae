#!/bin/sh
# Usage: sh tests/quality/hosts.sh [RUNS] [PROGRAM]       defaults: 12, ./heterps-run; SEED=N repeats a series
# launch --hosts on three hosts, each a network namespace with an sshd and a cable of its own. Trainings of a model
# with tables, in which a node or a connection of ssh is killed, a host's cable is out for some seconds, or nothing
# happens; each has to end with the bytes of one node. Then a host whose cable is out before the start, which one
# sentence has to say. Prints a line a run. Status 1 if one is wrong; 77 with a sentence where there is no sshd, or
# there can be no namespaces.
set -u
runs=${1:-12} h=${2:-./heterps-run}
case $h in /*) ;; *) h=$PWD/$h ;; esac
root=$(cd "$(dirname "$0")/../.." && pwd)
if [ "${HOSTS_INSIDE:-}" != yes ]; then
    [ -x "${SSHD:-/usr/sbin/sshd}" ] ||
        { echo "hosts.sh: there is no sshd here (Debian: openssh-server)" >&2; exit 77; }
    unshare --net --mount true 2>/dev/null && command -v ip >/dev/null ||
        { echo "hosts.sh: there can be no network namespaces here (root, Debian: iproute2)" >&2; exit 77; }
    HOSTS_INSIDE=yes exec unshare --net --mount --pid --fork --mount-proc --kill-child sh "$0" "$runs" "$h"
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
cd "$work" || exit 1

# --- three hosts, and a bridge between them that the launcher has a place at ------------------------------------------

mount -t tmpfs tmpfs /run && mkdir /run/netns /run/sshd && ip link set lo up && ip link add bridge type bridge &&
    ip link set bridge up && ip address add 10.77.0.254/24 dev bridge || exit 1
names='one two three'
: >known_hosts
i=1
for name in $names; do
    ip netns add $name && ip link add cable$i type veth peer name eth0 netns $name &&
        ip link set cable$i master bridge up &&
        ip -n $name address add 10.77.0.$i/24 dev eth0 && ip -n $name link set eth0 up &&
        ip -n $name link set lo up || exit 1
    ip netns exec $name python3 "$root/tests/e2e/sshd.py" --at 10.77.0.$i hosts $name &
    while [ ! -f hosts/$name.port ]; do sleep 0.05; done
    port=$(cat hosts/$name.port)
    echo "$name $(cat hosts/$name/key.pub)" >>known_hosts
    printf 'Host %s\nHostName 10.77.0.%s\nHostKeyAlias %s\nPort %s\n' $name $i $name "$port" >>ssh_config
    i=$((i + 1))
done
printf 'Host *\nUser root\nIdentityFile %s/hosts/user\nIdentitiesOnly yes\nUserKnownHostsFile %s/known_hosts\n' \
    "$work" "$work" >>ssh_config

. "$root/tests/quality/one_node.sh"
nodes_model train.epochs=40 checkpoint.every=50 cluster.min=2 cluster.timeout=2 && one_node -q || exit 1
launches() {
    timeout 300 "$h" launch --hosts one,two,three --ssh-config ssh_config \
        -- model.bin --data data.tsv --out many.model --threads 1
}

# --- trainings --------------------------------------------------------------------------------------------------------

seed=${SEED:-$(date +%s)}
echo "seed $seed"
awk -v seed="$seed" -v runs="$runs" 'BEGIN {
    srand(seed)
    for (i = 0; i < runs; i++) print int(rand() * 4), int(rand() * 3), 0.1 + rand() * 4, 1 + rand() * 8
}' >draws
while read -r kind victim delay pause; do
    rm -rf many.model
    launches >out 2>log </dev/null &
    launcher=$!
    while ! grep -q 'saved ' log && kill -0 $launcher 2>/dev/null; do sleep 0.05; done
    sleep "$delay"
    name=$(echo $names | cut -d ' ' -f $((victim + 1)))
    case $kind in
    0) what='nothing' ;;
    1) what="node $victim is killed" && pkill -9 -f "^heterps-run model.bin .*--rank=$victim( |\$)" ;;
    2) what="ssh to $name ends" && kill -9 "$(tail -n 1 hosts/$name.pids)" 2>/dev/null ;;
    3)
        what="$name's cable is out for $pause s" && ip link set cable$((victim + 1)) down && sleep "$pause" &&
            ip link set cable$((victim + 1)) up
        ;;
    esac
    wait $launcher
    status=$?
    told "$what, $(grep -c 'started again' log) times started again, $(grep -c 'is lost' log) times told lost" log \
        '[ $status = 0 ]' 'as_one_node many.model'
done <draws

# --- hosts that go ----------------------------------------------------------------------------------------------------

rm -rf many.model
launches >out 2>log </dev/null &
launcher=$!
while ! grep -q 'saved ' log && kill -0 $launcher 2>/dev/null; do sleep 0.05; done
ip link set cable3 down
begin=$(date +%s)
wait $launcher
status=$?
took=$(($(date +%s) - begin))
ip link set cable3 up
told "a host's cable is out for good: the others end after $took s" log '[ $status = 0 ]' \
    'as_one_node many.model' '[ $took -lt 60 ]'

ip link set cable3 down
launches >out 2>log </dev/null
status=$?
ip link set cable3 up
unreached='error: host three is not reached: ssh: connect to host 10.77.0.3 port [0-9]*: .*'
unreached="$unreached; this command has to succeed without a question: ssh "
told 'a host without a cable' log '[ $status = 1 ]' 'tail -n 1 log | grep -q "$unreached"'
echo "$((runs + 2)) runs, $bad of them wrong"
[ $bad = 0 ]

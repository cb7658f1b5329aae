#!/bin/sh
# Usage: sh tests/quality/hostile.sh [CONNECTIONS] [PROGRAM]       defaults: 1000000, ./heterps-run; RATE=5000
#                                                                  a second, PROCESSES=2, EPOCHS=300: of a
#                                                                  training; ten minutes on two cores that do
#                                                                  nothing else
# Three nodes train behind a key while others connect to them as fast as RATE says (hostile.py): with garbage; with
# greetings of this key and of another, sent again, cut short or reflected; slowly; and as nodes of a rank that is
# there already, with the right key and with a wrong one. In turn with these trainings the same load goes to a port
# where nobody listens, until there were CONNECTIONS of the first kind. Each training has to leave the bytes of one
# node; no node may start anew. Prints seconds and processor seconds of each. Status 1 if bytes are others, a node too
# many gets in, or trainings under attack take more than 5 % longer.
set -u
wanted=${1:-1000000} h=${2:-./heterps-run} rate=${RATE:-5000} processes=${PROCESSES:-2} began=$(date +%s)
case $h in /*) ;; *) h=$PWD/$h ;; esac
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
attacker=
trap 'kill $attacker $nodes 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
cd "$work" || exit 1
nodes=
. "$root/tests/quality/one_node.sh"
nodes_model train.epochs=${EPOCHS:-300} cluster.min=3 cluster.timeout=20 && one_node -q && "$h" key -o key -q &&
    "$h" key -o other -q || exit 1

free_ports() { python3 -c 'import socket
s = [socket.socket() for _ in range(4)]
for x in s: x.bind(("127.0.0.1", 0))
print(*(x.getsockname()[1] for x in s))'; }
read -r a b c closed <<PORTS
$(free_ports)
PORTS
places=127.0.0.1:$a,127.0.0.1:$b,127.0.0.1:$c
node() { # RANK KEY SET...
    rank=$1 key=$2
    shift 2
    "$h" model.bin --data data.tsv --nodes "$places" --rank "$rank" --key-file "$key" --threads 1 "$@"
}

# --- greetings: what nodes say to a node 0 that only listens ----------------------------------------------------------

for key in key other; do
    python3 "$root/tests/quality/hostile.py" listen "$a" greeting.$key &
    listener=$!
    sleep 0.5
    node 1 $key --out none.model --set cluster.connect=2 -q >/dev/null 2>&1 </dev/null
    wait $listener || { echo "no greeting of a node with the key $key"; exit 1; }
done

# --- trainings --------------------------------------------------------------------------------------------------------

train() { # NAME PORT...: under attack at these ports; seconds and the nodes' processor seconds are added to NAME
    name=$1
    shift
    rm -rf many.model
    python3 "$root/tests/quality/hostile.py" attack "$rate" "$processes" greeting.key,greeting.other "$@" >attack.out &
    attacker=$!
    nodes=
    for rank in 1 2; do
        (node $rank key --out many.model -q; times) >node$rank.out 2>node$rank.log </dev/null &
        nodes="$nodes $!"
    done
    (node 0 key --out many.model --log json; times) >node0.out 2>node0.log </dev/null &
    first=$!
    if [ "$name" = attacked ]; then # they are there already, or have no key
        sleep 2
        for key in key other; do
            timeout 60 "$h" model.bin --data data.tsv --nodes "$places" --rank 1 --key-file $key --listen 127.0.0.1:0 \
                --threads 1 --set cluster.connect=1 -q >again.out 2>again.log </dev/null
            [ $? != 0 ] || { echo "not ok: a node of too many, with the key $key, got in"; bad=$((bad + 1)); }
        done
    fi
    wait $first && wait $nodes || { echo "not ok: $name: $(tail -n 3 node0.log)"; bad=$((bad + 1)); }
    kill $attacker
    wait $attacker
    attacker= nodes=
    as_one_node many.model || { echo "not ok: $name: other bytes"; bad=$((bad + 1)); }
    ! grep -q 'start anew\|is lost' node?.log ||
        { echo "not ok: $name: $(grep -h 'anew\|lost' node?.log | head -2)"; bad=$((bad + 1)); }
    python3 - node0.out node1.out node2.out >>"$name" <<'PY'
import json, re, sys
seconds = [json.loads(line)["seconds"] for line in open(sys.argv[1]) if line.startswith("{")
           and '"event":"done"' in line][-1]
cpu = 0
for path in sys.argv[1:]: # the second line of `times` is of children
    children = re.findall(r"^(\d+)m([\d.]+)s (\d+)m([\d.]+)s$", open(path).read(), re.M)[-1]
    cpu += sum(60 * float(children[i]) + float(children[i + 1]) for i in (0, 2))
print(seconds, cpu)
PY
    echo "$name: $(tail -1 "$name") s; connections: $(cat attack.out)"
}
total=0
while [ $total -lt "$wanted" ]; do
    train closed "$closed"
    train attacked "$a" "$b" "$c"
    total=$((total + $(cut -d' ' -f1 attack.out)))
done
python3 - $total $bad $(($(date +%s) - began)) <<'PY'
import statistics, sys
closed, attacked = ([tuple(map(float, line.split())) for line in open(name)] for name in ("closed", "attacked"))
wall, cpu = (statistics.median(a[i] / c[i] for a, c in zip(attacked, closed)) for i in (0, 1))
print(f"{sys.argv[1]} hostile connections in {len(attacked)} trainings of "
      f"{statistics.median(w for w, _ in attacked):.1f} s, {sys.argv[3]} s in all, {sys.argv[2]} wrong; "
      f"over the same load on a closed port: {wall:.3f} of the time, {cpu:.3f} of the nodes' processor time")
sys.exit(int(sys.argv[2]) > 0 or wall > 1.05)
PY

#!/bin/sh
# Usage: sh tests/quality/web.sh [MIB] [TURNS] [RATE]         defaults: 256 MiB, 5 turns, 1gbit; needs root, nginx
#                                                             and ./build.sh bench
# Reads a file that nginx has in a network namespace from another one, over a link that tc holds to RATE: as a source
# of data and, in turn, by one plain connection that does nothing with the bytes. Prints the lines of
# tests/bench/web_bench.c, which does both. Status 1 if the median of the ratios is below 0.95 at the default rate; at
# another rate it only prints the ratio, which the machine may bound. Where there can be no namespaces it says so,
# with status 77.
set -u
default_rate=1gbit
mib=${1:-256} turns=${2:-5} rate=${3:-$default_rate}
bound=0
[ "$rate" != $default_rate ] || bound=0.95
cd "$(dirname "$0")/../.." || exit 1
bench=$PWD/build/release/tests/bench/web_bench
a=web$$a b=web$$b
skip() { echo "skipped: $1"; exit 77; }
[ -x "$bench" ] || { echo "web.sh: no $bench; run ./build.sh bench" >&2; exit 2; }
for tool in nginx ip tc; do command -v $tool >/dev/null || skip "no $tool here"; done
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || { kill "$server" 2>/dev/null; wait "$server" 2>/dev/null; }
    ip netns del $a 2>/dev/null
    ip netns del $b 2>/dev/null
    rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
ip netns add $a 2>"$work/why" && ip netns add $b 2>>"$work/why" ||
    skip "network namespaces are not permitted: $(head -1 "$work/why")"
{ ip -n $a link add to_b type veth peer name to_a netns $b && ip -n $a addr add 10.77.0.1/24 dev to_b &&
    ip -n $b addr add 10.77.0.2/24 dev to_a &&
    ip -n $a link set to_b up && ip -n $b link set to_a up && ip -n $a link set lo up; } 2>"$work/why" ||
    skip "no link between namespaces: $(head -1 "$work/why")"
tc -n $a qdisc add dev to_b root tbf rate "$rate" burst 256kb latency 50ms 2>"$work/why" ||
    skip "tc cannot shape the link: $(head -1 "$work/why")"
chmod 755 "$work"
head -c "${mib}M" /dev/urandom >"$work/data"
cat >"$work/nginx.conf" <<CFG
daemon off; pid $work/pid; error_log $work/error.log; worker_processes 1;
events {}
http { access_log off; sendfile on; client_body_temp_path $work/t1; proxy_temp_path $work/t2;
       fastcgi_temp_path $work/t3; uwsgi_temp_path $work/t4; scgi_temp_path $work/t5;
       server { listen 10.77.0.1:80; root $work; } }
CFG
ip netns exec $a nginx -c "$work/nginx.conf" 2>"$work/why" &
server=$!
n=0
until ip netns exec $b "$bench" http://10.77.0.1/nginx.conf 1 >/dev/null 2>&1; do
    n=$((n + 1))
    [ $n -lt 50 ] || { echo "web.sh: nginx does not answer: $(cat "$work/why" "$work/error.log")" >&2; exit 1; }
    sleep 0.1
done
ip netns exec $b "$bench" http://10.77.0.1/data "$turns" >"$work/out" || exit 1
cat "$work/out"
awk '$1 == "median" {
    print "over a link of '"$rate"' the source has " $4 " of what a plain connection has"; exit $4 < '"$bound"' }' \
    "$work/out"

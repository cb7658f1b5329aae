#!/bin/sh
# Usage: sh tests/quality/prometheus.sh [PROGRAM]       default: ./heterps-run
# Debian's prometheus scrapes a training on two nodes while it runs: both are up, and prometheus then answers what the
# nodes have said; promtool finds nothing wrong with their figures. Without prometheus (apt-get install prometheus) it
# says so, with status 77.
set -u
h=${1:-./heterps-run}
case $h in /*) ;; *) h=$PWD/$h ;; esac
root=$(cd "$(dirname "$0")/../.." && pwd)
command -v prometheus >/dev/null && command -v promtool >/dev/null || { echo 'no prometheus here'; exit 77; }
work=$(mktemp -d)
job= server=
# shellcheck disable=SC2086
trap 'kill $job $server 2>/dev/null; wait; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
cd "$work" || exit 1
base=$((20000 + $$ % 10000))
cat >prometheus.yml <<YML
global:
  scrape_interval: 250ms
scrape_configs:
  - job_name: heterps
    static_configs:
      - targets: ['127.0.0.1:$base', '127.0.0.1:$((base + 1))']
YML
. "$root/tests/e2e/nodes.sh"
tables_model
promtool check config prometheus.yml >/dev/null && "$h" compile tables.cfg -o tables.bin --set train.epochs=4000 -q &&
    "$h" gen criteo --rows 6000 -o data.tsv -q || exit 1
"$h" launch --local 2 -- tables.bin --data data.tsv --out tables.model --metrics 127.0.0.1:$base >job.log 2>&1 &
job=$!
prometheus --config.file=prometheus.yml --storage.tsdb.path=tsdb --web.listen-address=127.0.0.1:$((base + 2)) \
    --log.level=error >server.log 2>&1 &
server=$!
bad=0
ask() { # QUERY: the values of both nodes, in order of ranks
    promtool query instant "http://127.0.0.1:$((base + 2))" "$1" 2>/dev/null |
        sed -n "s/.*instance=\"127.0.0.1:\([0-9]*\)\".*=> \([^ ]*\) @.*/\1 \2/p" | sort |
        sed 's/.* //' | paste -sd ' ' -
}
holds() { # NAME QUERY CONDITION: of $1 and $2, the two values
    values=$(ask "$2")
    if [ -n "$values" ] && echo "$values" | awk "{ exit !($3) }"; then
        echo "ok $1: $values"
    else
        echo "not ok $1: ${values:-nothing}"
        bad=$((bad + 1))
    fi
}
tries=0
while [ "$(ask 'heterps_train_step > 200')" = '' ] && [ $tries -lt 100 ]; do sleep 0.3; tries=$((tries + 1)); done
sleep 3
holds 'both nodes are up' up '$1 == 1 && $2 == 1'
holds 'which they are' heterps_train_rank '$1 == 0 && $2 == 1'
holds 'they make steps' 'rate(heterps_train_step[2s])' '$1 > 0 && $2 > 0'
holds 'examples a second' 'rate(heterps_train_examples_total[2s])' '$1 > 0 && $2 > 0'
holds 'both have rows' 'heterps_train_rows{table="emb"}' '$1 > 100 && $2 > 100'
holds 'bytes sent over the least' 'heterps_train_sent_bytes_total / heterps_train_sent_bytes_least_total' \
    '$1 >= 1 && $1 < 2 && $2 >= 1 && $2 < 2'
holds 'time for which the other was waited for' 'rate(heterps_train_round_last_seconds_total[2s])' '$1 > 0 && $2 > 0'
for n in 0 1; do
    for path in healthz readyz; do
        [ "$(curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:$((base + n))/$path")" = 200 ] ||
            { echo "not ok node $n: $path"; bad=$((bad + 1)); }
    done
    curl -s "http://127.0.0.1:$((base + n))/metrics" >figures && [ -s figures ] &&
        promtool check metrics <figures >said 2>&1 && [ ! -s said ] ||
        { echo "not ok node $n: promtool says"; head -3 said; bad=$((bad + 1)); }
done
kill -TERM $job
wait $job
[ $? = 75 ] || { echo 'not ok: the training has not stopped and saved'; tail -3 job.log; bad=$((bad + 1)); }
job=
[ $bad = 0 ] && echo 'prometheus scrapes both nodes of a training'
[ $bad = 0 ]

#!/bin/sh
# Usage: sh tests/quality/nodes_speed.sh [ROUNDS] [PROGRAM]       defaults: 5 rounds, ./heterps-run;
#                                                                 BATCH=4096 ROWS=131072 PASSES=4
# Two nodes of one core each beside one node of two threads, of samples/ctrdnn.cfg and ctrdnn2.cfg: the same graph,
# with two lanes on both sides, from memory. What counts is PASSES further passes over ROWS generated lines that the
# first pass has kept; the time of a run of one pass, which is measured beside, is taken off. A round runs both in
# turn, the next round in the other order. Prints for each model the medians of examples/s and of the rounds' ratios
# two nodes / one, with the least and the greatest; and the ratio one / two of the processor time of an example, which
# other work of the machine changes less. Status 1 if a median is below 0.90 (ctrdnn) or 0.95 (ctrdnn2).
set -eu
rounds=${1:-5} h=${2:-./heterps-run}
case $h in /*) ;; *) h=$PWD/$h ;; esac
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/speed.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
[ -x /usr/bin/time ] || { echo 'nodes_speed.sh: there is no /usr/bin/time here (Debian: time)' >&2; exit 77; }
export HETERPS_GPU=off LC_ALL=C
awk '$1 >= 1 { print "warning: other programs keep this machine busy (load " $1 "): the ratios will swing" }' \
    /proc/loadavg >&2
cd "$work"
slow=0 rows=${ROWS:-131072} passes=${PASSES:-4} batch=${BATCH:-4096}
"$h" gen criteo --rows "$rows" -o data.tsv -q
for model in ctrdnn ctrdnn2; do
    "$h" compile "$root/samples/$model.cfg" -o $model.bin --set train.batch="$batch" \
        --set train.lanes=2 --set cache.ram=1GiB -q
done

# taken NODES MODEL PASSES: seconds of training, and of processors, into log.
taken() {
    set -- "$1" "$2" --data data.tsv --set train.epochs="$3" --log json
    nodes=$1
    shift
    if [ "$nodes" = 1 ]; then set -- "$h" "$@" --threads 2; else set -- "$h" launch --local 2 -- "$@" --threads 1; fi
    /usr/bin/time -f '%U %S' -o cpu "$@" >log 2>err || { tail -n 3 err >&2; exit 1; }
    [ "$(awk '{ print $1 + $2 }' cpu)" ] && sed -n 's/.*"event":"done".*"seconds":\([0-9.e+-]*\).*/\1/p' log |
        awk -v cpu="$(awk '{ print $1 + $2 }' cpu)" '{ print $1, cpu }'
}
one_round() { # ROUND MODEL
    order='1 2'
    [ $(($1 % 2)) = 0 ] || order='2 1'
    for n in $order; do
        echo "$n $(taken "$n" "$2.bin" 1) $(taken "$n" "$2.bin" $((passes + 1)))"
    done | awk -v examples=$((rows * passes)) -v model="$2" '
        NF != 5 || $4 <= $2 || $5 <= $3 { exit failed = 1 }
        { rate[$1] = examples / ($4 - $2); cpu[$1] = ($5 - $3) / examples }
        END {
            if (failed || NR != 2) { print "not ok: a run has failed, or was too short" >"/dev/stderr"; exit 1 }
            print model, rate[1], rate[2], rate[2] / rate[1], cpu[1] / cpu[2]
        }' >>rounds
}
for round in $(seq "$rounds"); do for model in ctrdnn ctrdnn2; do one_round "$round" $model; done; done
median() { sort -g | awk '{ x[NR] = $1 } END { print NR % 2 ? x[(NR + 1) / 2] : (x[NR / 2] + x[NR / 2 + 1]) / 2 }'; }
for model in ctrdnn ctrdnn2; do
    awk -v m=$model '$1 == m' rounds >of
    awk '{ print $4 }' of | sort -g >ratios
    printf '%-8s one node of two threads %8.0f, two nodes of one %8.0f examples/s; ' \
        $model "$(awk '{ print $2 }' of | median)" "$(awk '{ print $3 }' of | median)"
    printf 'two / one %.3f (%.3f to %.3f), by processor time %.3f\n' \
        "$(median <ratios)" "$(head -n 1 ratios)" "$(tail -n 1 ratios)" "$(awk '{ print $5 }' of | median)"
    least=$([ $model = ctrdnn ] && echo 0.90 || echo 0.95)
    awk -v found="$(median <ratios)" -v least="$least" 'BEGIN { exit found + 0 < least }' ||
        { echo "not ok: $model: less than $least"; slow=1; }
done
exit $slow

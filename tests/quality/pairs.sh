#!/bin/sh
# Usage: sh tests/quality/pairs.sh OLD NEW [ROUNDS]        (default 5 rounds, which take 3 to 5 minutes on two cores)
# Compares the speed of two binaries. A round runs every case twice with each of them, in the order old new new old,
# the next round new old old new. The better of its two speeds is a binary's speed in that round, since other work of
# the machine only slows. Prints for each case the medians of samples/s and of the rounds' ratios NEW/OLD, and the
# least and the greatest ratio; the last line has the smallest median. Cases: ctrdnn and ctrdnn1, from text (a whole
# training) and from memory (`bench train`, which replays micro-batches); and ctrdnn1 with most of its rows on the
# disk of TMPDIR, which has to have 250 MB free. All cores. If a run fails, the exit status is 1.
set -eu
[ $# -ge 2 ] || { echo 'usage: sh tests/quality/pairs.sh OLD NEW [ROUNDS]' >&2; exit 2; }
case $1 in /*) old=$1 ;; *) old=$PWD/$1 ;; esac
case $2 in /*) new=$2 ;; *) new=$PWD/$2 ;; esac
rounds=${3:-5}
cd "$(dirname "$0")/../.."
folder=$(mktemp -d "${TMPDIR:-/tmp}/pairs.XXXXXX")
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
export HETERPS_GPU=off LC_ALL=C
cores=$(nproc)
awk '$1 >= 1 { print "warning: other programs keep this machine busy (load " $1 "): the ratios will swing" }' \
    /proc/loadavg >&2

take() { # SIDE
    side=$1 h=$old
    [ "$side" = old ] || h=$new
}

# Both binaries read the same files, but graphs of their own.
"$old" gen criteo --rows 300000 -o "$folder/text.tsv" -q
"$old" gen criteo --rows 150000 --vocab 500000 -o "$folder/disk.tsv" -q
for side in old new; do
    take "$side"
    for model in ctrdnn ctrdnn1; do
        "$h" compile samples/$model.cfg -o "$folder/$side.$model" --set train.batch=2048 -q
    done
done

text() { # MODEL EPOCHS
    "$h" "$folder/$side.$1" --data "$folder/text.tsv" --set train.epochs="$2" --log json >"$folder/log" </dev/null &&
        sed -n 's/.*"event":"done".*"samples_per_s":\([0-9.e+]*\).*/\1/p' "$folder/log"
}
memory() { # MODEL
    "$h" bench train "$1" --precision f32 --threads "$cores" --quick --repeats 15 --set train.batch=2048 \
        --json >"$folder/log" </dev/null && sed -n 's/.*"event":"bench".*"median":\([0-9.e+]*\).*/\1/p' "$folder/log"
}
disk() {
    rm -rf "$folder/rows"
    "$h" "$folder/$side.ctrdnn1" --data "$folder/disk.tsv" --set store.ram=40MiB --set store.ssd=200MiB \
        --set store.path="$folder/rows" --log json \
        >"$folder/log" </dev/null && grep -q '"rows_fetched":[1-9]' "$folder/log" &&
        sed -n 's/.*"event":"done".*"samples_per_s":\([0-9.e+]*\).*/\1/p' "$folder/log"
}
run() { # CASE
    case $1 in
    ctrdnn-text) text ctrdnn 1 ;;
    ctrdnn-memory) memory ctrdnn ;;
    ctrdnn1-text) text ctrdnn1 12 ;;
    ctrdnn1-memory) memory ctrdnn1 ;;
    ctrdnn1-disk) disk ;;
    esac
}

cases='ctrdnn-text ctrdnn-memory ctrdnn1-text ctrdnn1-memory ctrdnn1-disk'
for round in $(seq "$rounds"); do
    sides='old new new old'
    [ $((round % 2)) = 1 ] || sides='new old old new'
    for case in $cases; do
        for side in $sides; do
            take "$side"
            speed=$(run "$case") || speed=
            [ -n "$speed" ] || { echo "$case fails with $h" >&2; exit 1; }
            echo "$case $round $side $speed" >>"$folder/speeds"
        done
    done
done

awk -v cases="$cases" -v rounds="$rounds" '
    $4 > speed[$1, $2, $3] { speed[$1, $2, $3] = $4 }
    function sort(a, n,    i, j, x) {
        for (i = 2; i <= n; i++) {
            x = a[i]
            for (j = i; j > 1 && a[j - 1] > x; j--) a[j] = a[j - 1]
            a[j] = x
        }
    }
    function median(a, n) { sort(a, n); return (a[int((n + 1) / 2)] + a[int(n / 2) + 1]) / 2 }
    END {
        printf "%-16s %12s %12s  samples/s, medians of %d\n", "case", "old", "new", rounds
        n = split(cases, name, " ")
        for (c = 1; c <= n; c++) {
            for (r = 1; r <= rounds; r++) {
                o[r] = speed[name[c], r, "old"]
                w[r] = speed[name[c], r, "new"]
                ratio[r] = w[r] / o[r]
            }
            m = median(ratio, rounds)
            printf "%-16s %12.0f %12.0f  new/old %.3f (%.3f - %.3f)\n",
                name[c], median(o, rounds), median(w, rounds), m, ratio[1], ratio[rounds]
            if (c == 1 || m < least) { least = m; where = name[c] }
        }
        printf "smallest ratio: %.3f (%s)\n", least, where
    }' "$folder/speeds"

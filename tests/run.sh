#!/bin/sh
# Usage: [TESTS=PATTERN] [BUT=PATTERN] [BESIDE=PID] sh tests/run.sh BUILD_DIR PROGRAM...
# Runs every test program named and every tests/*/test_*.sh whose path matches the extended regular expression
# TESTS and not BUT, each within its time limit, and counts. As many run at a time as there are processors; beside them,
# one by one, those that tests/waiting lists, which hardly compute; behind them, one by one, those of
# tests/alone, after the process BESIDE has ended.
# A program prints TAP ("ok 1 - name", "not ok 2 - name", "ok 3 - name # SKIP why"); one that dies without saying
# "not ok", or says nothing, counts as one failure; exit status 77 with nothing printed as one skip.
# A program that fails runs once more, alone: if it passes then, the failure counts as a skip, for a machine that stops
# for a moment fails what waits or compares times. Not so where a sanitizer has found something.
# Last, if anything failed: "== failed", what failed once more, and exit status 1. Last line: N passed, N failed, N
# skipped.
set -u
cd "$(dirname "$0")/.."

# Runs test $2 of build $1, prints its lines in one piece, and appends "OK FAILED SKIPPED" to $1/counts.
one() {
    out=$1 test=$2
    name=${test#"$out"/}
    log=$out/logs/$(echo "$name" | tr / .)
    case $test in
    *.sh) runner=sh ;;
    *) runner= ;;
    esac
    begin=$(date +%s)
    timeout "${TEST_SECONDS:-600}" $runner "$test" >"$log" 2>&1 </dev/null
    status=$?
    times >"$log.times" # the second line: of its children, user and system, as 1m2.3s
    computed=$(sed -n '2s/[ms]/ /gp' "$log.times" | awk '{ printf "%.0f", $1 * 60 + $2 + $3 * 60 + $4 }')
    # cmocka writes a skip as "not ok … # SKIP".
    skip=$(grep -ciE '^(not )?ok .*# *skip' "$log")
    ok=$(grep '^ok ' "$log" | grep -civE '# *skip') bad=$(grep '^not ok ' "$log" | grep -civE '# *skip')
    if [ $status = 77 ]; then [ $skip -gt 0 ] || skip=1
    elif [ $status != 0 ] && [ $bad = 0 ]; then bad=1
    elif [ $status = 0 ] && [ $((ok + skip + bad)) = 0 ]; then bad=1; echo "printed no result" >>"$log"; fi
    echo "$ok $bad $skip $test" >>"$out/counts"
    {
        printf '%-58s %3d ok %3d failed %3d skipped %4d s, %d of the processor\n' \
            "$name" $ok $bad $skip $(($(date +%s) - begin)) "$computed"
        if [ $bad != 0 ]; then sed 's/^/    /' "$log" | grep -vE '^ +ok ' | tail -40; echo "    exit status $status"; fi
        grep -iE '^(not )?ok .*# *skip' "$log" | sed -E 's/^(not )?ok [0-9]* *-* */    skipped: /'
        grep '^# ' "$log" | grep -v '^# ok - tests' | sed 's/^# /    /'
    } >"$log.told"
    flock "$out/counts" cat "$log.told"
    if [ $bad = 0 ]; then rm -f "$log.failed"; else cp "$log.told" "$log.failed"; fi
}
if [ "$1" = --one ]; then
    one "$2" "$3"
    exit 0
fi

listed() { # LIST: the tests of it
    sed -e '/^#/d' -e 's/ .*//' "tests/$1" | while read -r source; do
        [ -f "$source" ] || { echo "tests/$1: $source is not there" >&2; exit 2; }
        echo "$source"
    done
}
alone=$(listed alone) && waiting=$(listed waiting) || exit 2

out=$1
shift
pattern=${TESTS:-.}
HETERPS=$PWD/$out/heterps-run
BUILD=$PWD/$out
export HETERPS BUILD CMOCKA_MESSAGE_OUTPUT=TAP
rm -rf "$out/logs"
mkdir -p "$out/logs"
: >"$out/counts"
: >"$out/together"
: >"$out/alone"
: >"$out/waiting"
for test in "$@" $(find tests -name 'test_*.sh' | sort); do
    echo "$test" | grep -E "$pattern" | grep -Eqv "${BUT:-^$}" || continue
    source=${test#"$out"/}
    case $source in
    *.sh) ;;
    *) source=$source.c ;;
    esac
    if echo "$alone" | grep -qxF "$source"; then echo "$test" >>"$out/alone"
    elif echo "$waiting" | grep -qxF "$source"; then echo "$test" >>"$out/waiting"
    else echo "$test" >>"$out/together"; fi
done
xargs -r -n1 sh tests/run.sh --one "$out" <"$out/waiting" &
xargs -r -n1 -P"$(nproc)" sh tests/run.sh --one "$out" <"$out/together"
wait
while [ -s "$out/alone" ] && [ -n "${BESIDE:-}" ] && kill -0 "$BESIDE" 2>/dev/null; do sleep 1; done
xargs -r -n1 sh tests/run.sh --one "$out" <"$out/alone"
awk '$2 { print $4 }' "$out/counts" >"$out/again"
[ "$(wc -l <"$out/again")" -le 10 ] || : >"$out/again" # this is no moment's stop
while read -r test; do
    log=$out/logs/$(echo "${test#"$out"/}" | tr / .)
    grep -qE '(Address|Thread|Leak|UndefinedBehavior)Sanitizer|runtime error: ' "$log" && continue
    echo "once more: ${test#"$out"/}"
    mv "$log.failed" "$log.once"
    sh tests/run.sh --one "$out" "$test"
done <"$out/again"
for log in "$out"/logs/*.once; do
    [ -f "$log" ] && [ ! -f "${log%.once}.failed" ] && { echo '== failed once, and passed alone'; cat "$log"; }
done
for log in "$out"/logs/*.failed; do [ -f "$log" ] && { echo '== failed'; cat "$log"; }; done
awk '{ ok[$4] = $1; skip[$4] = $3 + ($4 in bad && bad[$4] && !$2); bad[$4] = $2 }
    END {
        for (test in ok) { passed += ok[test]; failed += bad[test]; skipped += skip[test] }
        if (!NR) print "no test matches " pattern >"/dev/stderr"
        printf "%d passed, %d failed, %d skipped\n", passed, failed + !NR, skipped
        exit NR == 0 || failed != 0
    }' pattern="$pattern" "$out/counts"

#!/bin/sh
# Usage: [TESTS=PATTERN] sh tests/run.sh BUILD_DIR PROGRAM...
# Runs every test program named and every tests/*/test_*.sh whose path matches the extended regular expression PATTERN, each within its time limit, and
# counts. A program prints TAP ("ok 1 - name", "not ok 2 - name", "ok 3 - name # SKIP why"); one that dies without saying
# "not ok", or says nothing, counts as one failure; exit status 77 with nothing printed as one skip.
# Last line: N passed, N failed, N skipped. Exit status 1 if anything failed.
set -u
cd "$(dirname "$0")/.."
out=$1
shift
pattern=${TESTS:-.}
HETERPS=$PWD/$out/heterps-run
BUILD=$PWD/$out
export HETERPS BUILD CMOCKA_MESSAGE_OUTPUT=TAP
passed=0 failed=0 skipped=0
log=$out/test.log
for test in "$@" $(find tests -name 'test_*.sh' | sort); do
    echo "$test" | grep -Eq "$pattern" || continue
    case $test in
    *.sh) runner=sh ;;
    *) runner= ;;
    esac
    begin=$(date +%s)
    timeout "${TEST_SECONDS:-600}" $runner "$test" >"$log" 2>&1 </dev/null
    status=$?
    # cmocka writes a skip as "not ok … # SKIP".
    skip=$(grep -ciE '^(not )?ok .*# *skip' "$log")
    ok=$(grep '^ok ' "$log" | grep -civE '# *skip') bad=$(grep '^not ok ' "$log" | grep -civE '# *skip')
    if [ $status = 77 ]; then [ $skip -gt 0 ] || skip=1
    elif [ $status != 0 ] && [ $bad = 0 ]; then bad=1
    elif [ $status = 0 ] && [ $((ok + skip + bad)) = 0 ]; then bad=1; echo "printed no result" >>"$log"; fi
    passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + skip))
    printf '%-58s %3d ok %3d failed %3d skipped %4d s\n' "${test#"$out"/}" $ok $bad $skip $(($(date +%s) - begin))
    if [ $bad != 0 ]; then sed 's/^/    /' "$log" | grep -vE '^ +ok ' | tail -40; echo "    exit status $status"; fi
    grep -iE '^(not )?ok .*# *skip' "$log" | sed -E 's/^(not )?ok [0-9]* *-* */    skipped: /'
    grep '^# ' "$log" | grep -v '^# ok - tests' | sed 's/^# /    /'
done
if [ $((passed + failed + skipped)) = 0 ]; then
    echo "no test matches $pattern" >&2
    failed=1
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]

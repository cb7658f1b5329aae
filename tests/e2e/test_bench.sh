#!/bin/sh
# `bench`: every subject ends, with figures that can be, as a table that fits a terminal and as JSON; wrong
# command lines are named; it needs no file, leaves none, and makes do with less memory. How fast anything is
# decides nothing here.
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 1
h=$HETERPS

figures() { # SUBJECT COUNT CODE: the log has a machine and COUNT figures of SUBJECT, and CODE holds for each (as f)
    python3 - "$@" <<'PYTHON'
import json, sys
subject, count, code = sys.argv[1], int(sys.argv[2]), sys.argv[3]
events = [json.loads(line) for line in open("log")]
assert (events[0]["event"] == "machine" and events[0]["cores"] >= 1
        and events[0]["isa"] in ("base", "avx2", "avx512", "avx512bf16", "amx")), events[0]
found = [f for f in events if f["event"] == "bench"]
assert len(found) >= count and all(f["subject"] == subject for f in found), (len(found), found)
for f in found:
    assert 0 < f["least"] <= f["median"] <= f["greatest"] and f["repeats"] >= 2 and f["threads"] >= 1 and f["unit"], f
    assert eval(code), f
    if "limit" not in f: continue
    assert 0 < f["limit_least"] <= f["limit"] <= f["limit_greatest"] and f["limit_name"], f
    # Of repeats taken in turn, so it lies between what the extremes would give, however noisy the machine is.
    low, high = f["least"] / f["limit_greatest"], f["greatest"] / f["limit_least"]
    if f["unit"] in ("ns", "us", "ms", "s"): low, high = 1 / high, 1 / low
    assert low * 0.999 <= f["share"] <= high * 1.001, f
PYTHON
}

run() { "$h" "$@" >log; }

cores=$(nproc)
subject() { # NAME COUNT CODE ARGUMENT...
    what=$1 least=$2 code=$3
    shift 3
    check "$what: ends" run bench "$what" --quick --repeats 2 --json "$@"
    check "$what: figures that can be" figures "$what" "$least" "$code"
}
subject gemm 27 'f["unit"] == "GFLOP/s" and f["precision"] in ("f32", "bf16") and f["M"] * f["N"] * f["K"] > 0' \
    --threads 1 --precision bf16
subject gemm 4 '(f["M"], f["N"], f["K"]) == (40, 24, 33)' --threads 1 --precision f32 --shape 40x24x33
subject gather 2 'f["row_bytes"] in (64, 256) and f["table_bytes"] == 64 << 20' --threads "$cores"
subject update 2 'f["row_bytes"] in (64, 256)' --threads 1
subject lookup 1 'f["rows"] > 1e5'
subject parse 12 '"bytes" not in f or 100 < f["bytes"] / f["rows"] < 600' --vocab 1000
subject parse 2 'f["name"].startswith("csv-quoted")' csv-quoted
[ "$cores" -lt 2 ] || subject ring 8 'f["threads"] == 2'
[ "$cores" -lt 2 ] || subject net 12 '(f["threads"] == f.get("nodes", 2) and f["unit"] in ("GB/s", "us") and
    (f["summed_bytes"] in (4194240, 1024) if "nodes" in f else f["bytes"] in (8 << 20, 1024)))'
subject disk 24 'f["bytes"] == 4096 and f["depth"] in (1, 4, 16, 64, 128, 256)' .
subject train 1 'f["batch"] == 64 and f["kflop"] > 0 and 0 < f["forward"] + f["backward"] + f["update"] <= 1.01' \
    ctrdnn1 --threads 1 --set train.batch=64 --precision f32
subject train 1 'f["batch"] == 512 and f["precision"] == "bf16"' ctrdnn \
    --threads 1 --set train.precision=bf16 --isa base
if [ "$cores" -ge 2 ]; then subject train 4 'f["threads"] in (1, '"$cores"')' ctrdnn1; fi

tiny_model
check 'train: a graph of its own' run bench train tiny.bin --quick --repeats 2 --threads 1 --json
check 'train: with its own batch' figures train 1 'f["batch"] == 64'
check 'train: a model text' run bench train tiny.cfg --quick --repeats 2 --threads 1 --log json --set train.batch=32
check 'train: and its settings' figures train 1 'f["batch"] == 32'

check 'a table' run bench gather --quick --repeats 2 --threads 1
check 'the table says which machine, and fits' python3 -c '
lines = open("log").read().split("\n")
assert lines[0].startswith("machine  ") and "huge pages" in lines[1], lines
assert max(map(len, lines)) <= 120 and sum(line.startswith("  rows of") for line in lines) == 2, lines'
check 'a table of Markdown' run bench gather --quick --repeats 2 --threads 1 --markdown
check 'has the machine, rows of eight columns, and nothing else' python3 -c '
lines = open("log").read().rstrip("\n").split("\n")
assert lines[0].startswith("heterps-run ") and ", medians of 2 repeats" in lines[0].replace(";", ","), lines[0]
rows = lines[2:]
assert lines[1] == "" and rows[0].startswith("| subject | figure |") and all(row.count("|") == 9 for row in rows), lines
assert len(rows) == 4 and all(row.startswith("| gather | rows of ") for row in rows[2:]), rows'
fails 2 'expected one of --markdown and --json, found both' 'two forms' \
    sh -c '"$0" bench gather --markdown --json >log' "$h"
check 'all of it' run bench --quick --repeats 2 --threads 1 --json --bytes 64MiB
check 'all of it: every subject' python3 -c '
import json
found = {json.loads(line).get("subject") for line in open("log")}
assert found >= {"gemm", "gather", "update", "lookup", "parse", "disk", "train"}, found'

if [ "$BUILD" = "${BUILD%/release}" ]; then
    skip 'less memory than asked for' 'sanitizers reserve more than any limit'
else
    check 'less memory than asked for' \
        sh -c 'ulimit -v 1500000; '"$h"' bench gather --repeats 2 --threads 1 --quick --bytes 4GiB 2>warnings'
    check 'is said' grep -q 'warning: not enough memory for a table of 4 GiB: going on with' warnings
fi

fails 2 'expected gemm, gather, update, lookup, parse, feed, ring, disk, net, trees, train, card or all, found "gem"' \
    'a subject that is none' "$h" bench gem
unhelped() { # subjects that the error lists, and the help does not
    "$h" bench --help >log
    for named in $("$h" bench gem 2>&1 | sed -n 's/.*expected \(.*\) or all.*/\1/p' | tr -d ,); do
        grep -q "^    $named  " log || echo "$named"
    done
}
check 'the help has every subject' [ -z "$(unhelped)" ]
fails 2 'bench gemm takes no "x.bin"; only `bench train GRAPH`' 'a graph for another subject' "$h" bench gemm x.bin
fails 2 'bench parse: expected criteo, .*libffm, found "cvs"' 'a format that is none' "$h" bench parse cvs
fails 2 "--threads: expected at most $cores, the cores" 'more threads than cores' \
    "$h" bench gemm --threads $((cores + 1))
fails 2 'unknown flag --quik; did you mean --quick' 'an unknown flag' "$h" bench --quik
fails 2 '--threads: expected a whole number from 1' 'no threads' "$h" bench --threads 0
fails 2 '--bytes: expected a size such as 2GiB, found "many"' 'a size that is none' "$h" bench --bytes many
fails 2 '--shape: bench ring has no use for it; only gemm' 'shapes of no product' "$h" bench ring --shape 64x64x64
fails 2 '--shape: expected MxNxK' 'a shape that is none, of a card' "$h" bench card --gpu off --shape 64x64
fails 2 'no card 0: --gpu is off' 'a card where there is none' "$h" bench card --gpu off
fails 2 '--card: bench gemm has no use for it; only card' 'a card for processors' "$h" bench gemm --card 1
fails 2 '--precision: expected f32, bf16 or tf32, found "f16"' 'an unknown precision' "$h" bench gemm --precision f16
fails 2 '--precision: only bench card has tf32' 'a precision of cards alone' "$h" bench gemm --precision tf32
fails 2 '--isa: expected base, avx2, avx512, avx512bf16 or amx, found "sse9"' \
    'an unknown instruction set' "$h" bench --isa sse9
fails 2 '--set: bench gemm has no use for it; only train' 'settings where there are none' \
    "$h" bench gemm --set train.batch=1
fails 2 '--threads: bench lookup has no use for it; only gemm, gather, update, feed and train' \
    'threads of what has one' "$h" bench lookup --threads 2
fails 2 '--precision: bench parse has no use' 'a precision without products' "$h" bench parse --precision f32
fails 2 '--bytes: bench gemm has no use' 'a table that nobody visits' "$h" bench gemm --bytes 1GiB
fails 2 '--vocab: bench gather has no use' 'values without data' "$h" bench gather --vocab 5
fails 2 '--shape: expected MxNxK.*found "64x64"' 'a shape that is none' "$h" bench gemm --shape 8x8x8 --shape 64x64
fails 1 'bench disk: cannot make a file in nowhere' 'a directory that is not there' "$h" bench disk nowhere --quick
fails 1 'nothing.bin: No such file' 'a graph that is not there' "$h" bench train nothing.bin --quick
fails 2 'no section of .* called "trian"' 'a setting that is none' "$h" bench train ctrdnn1 --quick --set trian.batch=1
fails 2 'no section of .* called "trian"' 'a setting that is none, for all subjects' \
    "$h" bench --quick --set trian.batch=1

"$h" bench gemm --repeats 8 --threads 1 >.out 2>.err &
pid=$!
sleep 0.3
begin=$(date +%s)
kill -INT $pid 2>/dev/null
kill -TERM $pid 2>/dev/null # the shell has its background programs ignore the first
wait $pid
status=$?
if [ $status -ge 128 ] && [ $(($(date +%s) - begin)) -le 5 ]; then
    ok 'a signal ends it at once'
else
    not_ok "a signal ends it at once (status $status)"
fi
check 'nothing is left behind' python3 -c '
import os
left = [name for name in os.listdir(".") if name not in ("tiny.cfg", "tiny.bin", "log", ".out", ".err", "warnings")]
assert not left, left'
finish

#!/bin/sh
# The memory plan that is printed before training bounds what the process takes: at most 1.05 times as much,
# even when the rows fill their budget; and it is not a bound far from what is used. A plan that the process
# cannot have is refused before anything is trained, and the limit that binds is named.
. "$(dirname "$0")/lib.sh"
. tests/e2e/process.sh
if [ $sanitized = yes ]; then
    skip 'memory' 'a sanitizer takes memory of its own'
    finish
fi

# planned NAME LEAST ARGUMENT...: LEAST <= peak resident bytes / planned bytes <= 1.05. Whoever starts it must
# be small: a process inherits the peak of the one that it was forked from, so a shell does. A run that stays
# below its starter's peak tells its own.
cat >"$folder/peak.py" <<'END'
import os, resource, sys
log, result = sys.argv[1:3]
pid = os.fork()
if pid == 0:
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 1)
    os.execv(sys.argv[3], sys.argv[3:])
_, status, usage = os.wait4(pid, 0)
own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
open(result, "w").write("%d\n" % (usage.ru_maxrss * 1024 if usage.ru_maxrss > own + 1024 else 0))
sys.exit(os.waitstatus_to_exitcode(status))
END
planned() {
    name=$1 least=$2
    shift 2
    check "$name" planned_run "$@"
    echo "# $name: $figures"
}
planned_run() {
    figures='did not run'
    python3 "$folder/peak.py" "$folder/log" "$folder/peak" "$HETERPS" "$@" --log json </dev/null ||
        { tail -n 3 "$folder/log"; return 1; }
    peak=$(cat "$folder/peak") plan=$(event_number start memory_bytes "$folder/log") \
        said=$(event_number done resident_bytes_max "$folder/log") &&
        rows=$(event_number done used_bytes "$folder/log") || return 1
    [ "$peak" != 0 ] || peak=$said
    figures=$(awk -v peak="$peak" -v plan="$plan" -v rows="$rows" 'BEGIN {
        mib = 1048576
        printf "peak %.1f MiB, plan %.1f MiB (%.3f), rows %.1f MiB", peak / mib, plan / mib, peak / plan, rows / mib
    }')
    echo "$figures"
    head -n 1 "$folder/log"
    # What the program says of itself is what the system says, but for the kernel's rounding and what the end
    # of the run still takes.
    awk -v peak="$peak" -v plan="$plan" -v least="$least" -v said="$said" \
        'BEGIN { exit !(peak <= 1.05 * plan && peak >= least * plan && said <= 1.02 * peak) }'
}

small=$folder/ctrdnn1.bin large=$folder/ctrdnn.bin
heterps compile samples/ctrdnn1.cfg -o "$small" --set store.ram=64MiB &&
    heterps compile samples/ctrdnn.cfg -o "$large" --set store.ram=64MiB &&
    heterps gen criteo --rows 90000 --seed 41 --vocab 28000 --zipf 0 -o "$folder/small.tsv" &&
    heterps gen criteo --rows 40000 --seed 41 --vocab 17500 --zipf 0 -o "$folder/large.tsv" &&
    heterps gen criteo --rows 30000 --seed 42 --vocab 28000 --zipf 0 -o "$folder/test.tsv" ||
    { echo "not ok 1 - fixture"; exit 1; }
gzip -1 -c "$folder/small.tsv" >"$folder/small.gz"

planned 'ctrdnn1, rows fill the budget' 0.8 "$small" --data "$folder/small.tsv" --threads 2
planned 'ctrdnn1, gzip' 0.8 "$small" --data "$folder/small.gz" --threads 1
planned 'ctrdnn1, shuffled, with an evaluation and a save' 0.8 "$small" --data "$folder/small.tsv" \
    --eval "$folder/test.tsv" --out "$folder/model" --set data.shuffle=20000
planned 'ctrdnn1, resumed from a model that fills the budget' 0.8 "$small" --data "$folder/small.tsv" \
    --resume "$folder/model" --set data.shuffle=20000
planned 'ctrdnn1, few rows' 0.3 "$small" --data "$folder/test.tsv" --set train.steps_max=60
planned 'ctrdnn, rows fill the budget' 0.8 "$large" --data "$folder/large.tsv" --threads 3
# Nothing hides what the program takes beside the rows: 880 keys a field nearly fill 2 MiB.
heterps gen criteo --rows 40000 --seed 41 --vocab 880 --zipf 0 -o "$folder/tiny.tsv"
gzip -1 -k "$folder/tiny.tsv"
planned 'ctrdnn1, 2 MiB of rows' 0.5 "$small" --data "$folder/tiny.tsv" --threads 1 --set store.ram=2MiB
planned 'ctrdnn1, 2 MiB of rows, gzip, an evaluation and a save' 0.4 "$small" --data "$folder/tiny.tsv.gz" \
    --eval "$folder/tiny.tsv.gz" \
    --out "$folder/tiny" --threads 2 --set store.ram=2MiB
planned 'ctrdnn, large batch in 4 lanes' 0.3 "$large" --data "$folder/large.tsv" --set train.batch=4096 \
    --set train.lanes=4 --set train.steps_max=6

# refused PATTERN ULIMIT_FLAG KIB ARGUMENT...: under that limit (- for none) the run ends with one error that
# matches, and leaves no model.
refused() {
    pattern=$1 flag=$2 kib=$3
    shift 3
    rm -rf "$folder/refused"
    ([ $flag = - ] || ulimit $flag $kib &&
        "$HETERPS" "$@" --data "$folder/small.tsv" --out "$folder/refused" -q >"$folder/out" 2>"$folder/err" </dev/null)
    [ $? = 1 ] && is_one_error "$pattern" && [ ! -e "$folder/refused/manifest.json" ]
}
check 'half the address space that the plan needs: error names RLIMIT_AS and store.ram' refused \
    'RLIMIT_AS of 39 MiB.*ulimit -v.*store\.ram' -v 40000 "$small"
check 'half the data segment: error names RLIMIT_DATA and store.ram' \
    refused 'RLIMIT_DATA of 39 MiB.*ulimit -d.*store\.ram' -d 40000 "$small"

# Rows for all memory of the machine: the kernel lends the addresses, so the check of the plan must refuse.
heterps compile samples/ctrdnn2.cfg -o "$folder/ctrdnn2.bin"
total_kib=$(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo)
limits='(free memory|memory\.[a-z_]* of control group [^ ]*|CommitLimit.*)'
check 'all memory of the machine: error names the limit and store.ram' \
    refused "(the plan needs .* of memory, but|Cannot allocate memory:) $limits of .*store\.ram" - 0 \
    "$folder/ctrdnn2.bin" --set store.ram=${total_kib}KiB

# A limit that leaves room for the plan and for what is mapped beside it (stacks, the image) refuses nothing.
fits() {
    "$HETERPS" "$small" --data "$folder/test.tsv" --set train.steps_max=1 --log json >"$folder/log" </dev/null &&
        plan=$(event_number start memory_bytes "$folder/log") || return 1
    (ulimit $1 $((plan / 1024 + 32768)) &&
        "$HETERPS" "$small" --data "$folder/test.tsv" --set train.steps_max=20 -q </dev/null)
}
check 'an address space with room for the plan: trains' fits -v
check 'a data segment with room for the plan: trains' fits -d
finish

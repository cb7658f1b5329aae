#!/bin/sh
# devices: the page, the object and the cluster text agree with what the system says of itself, under limits,
# too; and profile, plan and training take the cluster text as it is.
. "$(dirname "$0")/lib.sh"

page() { "$HETERPS" devices "$@" >"$work/page" 2>"$work/err" && [ ! -s "$work/err" ]; }
check 'the page' page
for word in processors usable kernels caches memory available limits \
    'huge pages' locked files disk free O_DIRECT requests cards; do
    check "the page has $word" grep -q "^ *$word " "$work/page"
done

# is CONDITION [ARGUMENT...]: of what devices --json prints, d, CONDITION, in Python, is true.
is() {
    condition=$1
    shift
    "$HETERPS" devices --json "$@" >"$work/object" || return 1
    python3 - "$work/object" "$condition" <<'PYTHON'
import json, os, resource, shutil, sys
lines = open(sys.argv[1]).read().splitlines()
assert len(lines) == 1, lines
d = json.loads(lines[0])
p, m, k = d["processors"], d["memory"], d["disk"]
assert eval(sys.argv[2]), d
PYTHON
}
check 'the object: processors as the system has them' is \
    '(d["event"] == "devices" and p["numbers"] == sorted(os.sched_getaffinity(0)) and
    1 <= p["usable"] <= len(p["numbers"]) and p["isa"] == p["isas"][-1] and p["isas"][0] == "base")'
check 'the object: memory as the system has it' is \
    '(m["bytes"] == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE") and
    0 < m["available_bytes"] <= m["bytes"] and
    m["open_files_max"] == resource.getrlimit(resource.RLIMIT_NOFILE)[1])'
check 'the object: the disk of a directory' is \
    '(k["path"] == os.path.realpath(sys.argv[1] + "/..") and k["bytes"] == shutil.disk_usage(k["path"]).total and
    k["is_writable"] == 1 and "Linux " in k["requests"])' --path "$work"
check 'nothing is left in that directory' sh -c "[ -z \"\$(ls -A '$work' | grep heterps-run)\" ]"
check '--log json is the same' \
    sh -c "'$HETERPS' devices --log json | python3 -c 'import json; json.loads(input())[\"cards\"]'"

# Fewer processors, less memory, fewer files.
check 'a mask of one processor' taskset -c "$(taskset -cp $$ | sed 's/.*: //;s/[-,].*//')" \
    sh -c "'$HETERPS' devices | grep -q '^  usable  *1\$'"
case $BUILD in
*/asan | */tsan) skip 'a limit of address space' 'a sanitizer takes addresses of its own' ;;
*)
    check 'a limit of address space is named, with what is left of it' sh -c "ulimit -v 500000
        '$HETERPS' devices | grep -q 'RLIMIT_AS: .* left of 488.3 MiB'"
    ;;
esac
check 'a limit of open files' sh -c "ulimit -n 77; '$HETERPS' devices | grep -q '^  files  *77 may be open'"

alone() { # where no kernel's files are mounted
    mkdir "$work/root" && cp "$HETERPS" "$work/root/heterps-run" &&
        chroot "$work/root" /heterps-run devices >"$work/page" &&
        grep -qx 'memory        unknown' "$work/page" && grep -qx '  available   unknown' "$work/page" &&
        chroot "$work/root" /heterps-run devices --json | grep -q '"memory":{"bytes":0,"available_bytes":0,'
}
if [ "$(id -u)" = 0 ] && ! readelf -l "$HETERPS" | grep -q INTERP; then
    check 'in an empty root what is not told is unknown' alone
else
    skip 'in an empty root what is not told is unknown' 'needs root and a static program'
fi

if [ -x "$BUILD/heterps-emu" ]; then
    "$BUILD/heterps-emu" devices >"$work/emu"
    bytes='[0-9.]* [KMGT]iB'
    check 'a card, and what it is' grep -qx \
        "  emu         emulated card, compute capability 9.0, 1 multiprocessor; $bytes, $bytes of it free" "$work/emu"
    check 'how many cards there are' grep -qx 'cards         1' "$work/emu"
fi

fails 1 'nowhere: No such file or directory' 'a directory that is not there' "$HETERPS" devices --path "$work/nowhere"
fails 2 'give one of them' 'a text and an object' "$HETERPS" devices --json --cluster
if [ "$(id -u)" != 0 ]; then
    mkdir -p "$work/closed" && chmod 555 "$work/closed"
    check 'a directory that cannot be written to' \
        sh -c "'$HETERPS' devices --path '$work/closed' | grep -q 'O_DIRECT .*cannot make a file: Permission denied'"
else
    check 'a directory that cannot be written to' \
        sh -c "'$HETERPS' devices --path /proc | grep -q 'O_DIRECT .*cannot make a file: '"
fi

tiny_model
rows 2000 "$work/train.tsv"
"$HETERPS" devices --cluster >"$work/cluster.cfg"
check 'the cluster text says how many cores' grep -qx "limit = $("$HETERPS" devices --json |
    python3 -c 'import json; print(json.loads(input())["processors"]["usable"])')" "$work/cluster.cfg"
XDG_CACHE_HOME=$work/cache
export XDG_CACHE_HOME
check 'plan takes it' "$HETERPS" plan "$work/tiny.bin" --cluster "$work/cluster.cfg" \
    --data "$work/train.tsv" -o "$work/plan.json"
check 'and training' "$HETERPS" "$work/tiny.bin" --cluster "$work/cluster.cfg" --data "$work/train.tsv" -q
check 'and profile' "$HETERPS" profile "$work/tiny.bin" --cluster "$work/cluster.cfg" \
    --data "$work/train.tsv" -o "$work/instance.json"
finish

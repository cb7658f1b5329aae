# What the end-to-end tests share; each script sources it first and ends with `finish`. Gives a folder $work
# of its own, removed at the end, and TAP lines numbered from 1. HETERPS and BUILD come from tests/run.sh; run
# alone, a script takes ./heterps-run.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root" || exit 1
HETERPS=${HETERPS:-$root/heterps-run}
BUILD=${BUILD:-$root/build/release}
SHARED=$root/../shared/data
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
count=0 failed=0

ok() {
    count=$((count + 1))
    echo "ok $count - $1"
}
not_ok() {
    count=$((count + 1)) failed=$((failed + 1))
    echo "not ok $count - $1"
}
skip() { # NAME REASON
    count=$((count + 1))
    echo "ok $count - $1 # SKIP $2"
}
note() { sed 's/^/# /'; }

# check NAME COMMAND...: the command succeeds. What it printed is shown only if it does not.
check() {
    name=$1
    shift
    if "$@" >"$work/.out" 2>"$work/.err"; then
        ok "$name"
    else
        not_ok "$name"
        echo "# $*"
        head -5 "$work/.out" | note
        head -5 "$work/.err" | note
    fi
}

# fails STATUS PATTERN NAME COMMAND...: the command ends with that status, prints nothing to standard output,
# and to standard error exactly one line, an error that matches PATTERN (grep -E).
fails() {
    expected=$1 pattern=$2 name=$3
    shift 3
    "$@" >"$work/.out" 2>"$work/.err"
    status=$?
    if [ $status = "$expected" ] && [ "$(wc -l <"$work/.err")" = 1 ] && [ ! -s "$work/.out" ] &&
        grep -qE '^heterps-run: error: ' "$work/.err" && grep -qE -e "$pattern" "$work/.err"; then
        ok "$name"
    else
        not_ok "$name"
        echo "# $*"
        echo "# exit status $status, expected $expected with one line of error that matches '$pattern'; found:"
        head -5 "$work/.err" | note
        head -3 "$work/.out" | note
    fi
}

# lists_model: $work/csv.bin, of csv with a number, a word and a list of words, which columns of the file are
# in any order.
lists_model() {
    cat >"$work/csv.cfg" <<'CFG'
[data]
format = csv
label = click
dense = age
sparse = job, tags
[column tags]
ids_max = 3
[table t]
dim = 2
[embedding e]
table = t
input = job, tags
[concat x]
input = e, age
[fc y]
input = x
units = 1
[loss bce]
input = y
[train]
batch = 16
[store]
ram = 4MiB
CFG
    "$HETERPS" compile "$work/csv.cfg" -o "$work/csv.bin" -q
}

# client_checks LEAST PROGRAM ARGUMENT...: what a client in Python says of each test, of which there are more
# than LEAST.
client_checks() {
    checks_least=$1
    shift
    python3 "$@" >"$work/checks" 2>&1
    while read -r line; do
        case $line in
        'ok '*) ok "${line#ok }" ;;
        'not ok '*) not_ok "${line#not ok }" ;;
        *) echo "# $line" ;;
        esac
    done <"$work/checks"
    [ "$(grep -c '^ok \|^not ok ' "$work/checks")" -gt "$checks_least" ] || not_ok 'the client ran'
}

# pip_python FOLDER MODULES PACKAGE...: sets $python to one that imports the modules (with commas between). It
# is taken from pip once, into build/FOLDER. If pip gives none, it fails, $python is empty, and $pip_why is a
# reason to skip.
pip_python() {
    pip_folder=$root/build/$1 pip_modules=$2
    shift 2
    python=$pip_folder/bin/python pip_why=
    "$python" -c "import $pip_modules" 2>/dev/null && return 0
    rm -rf "$pip_folder"
    { python3 -m venv "$pip_folder" && "$pip_folder/bin/pip" install -q "$@"; } >"$work/.pip" 2>&1 && return 0
    rm -rf "$pip_folder"
    python= pip_why="pip gives no $* here: $(tail -1 "$work/.pip" | cut -c 1-200)"
    return 1
}

# A model that trains in a moment: $work/tiny.cfg, compiled to $work/tiny.bin.
tiny_model() {
    cat >"$work/tiny.cfg" <<'CFG'
[model]
name = tiny
[data]
format = criteo
label = label
dense = I1..I13
sparse = C1..C26
[table emb]
dim = 4
[embedding e]
table = emb
input = sparse
[concat x]
input = e, dense
[fc h1]
input = x
units = 8
activation = relu
[fc y]
input = h1
units = 1
[loss bce]
input = y
label = label
[train]
batch = 64
[store]
ram = 16MiB
CFG
    "$HETERPS" compile "$work/tiny.cfg" -o "$work/tiny.bin" -q || { echo "not ok 1 - the tiny model compiles"; exit 1; }
}

# rows N FILE [SKIP]: N generated rows.
rows() { "$HETERPS" gen criteo --rows "$1" --skip "${3:-0}" -o "$2" -q || exit 1; }

# The field of the last event of a JSON log:  event_field LOG EVENT FIELD
event_field() {
    python3 - "$@" <<'PYTHON'
import json, sys
log, event, field = sys.argv[1:]
print([e for e in map(json.loads, open(log)) if e["event"] == event][-1][field])
PYTHON
}

# As commands. same_field EVENT FIELD LOG LOG: the last such events of two JSON logs both have the field, with
# one value. Two that have none are not the same.
same_field() {
    one=$(event_field "$3" "$1" "$2") && other=$(event_field "$4" "$1" "$2") || return 1
    case $one in
    '' | None | nan) false ;;
    *) [ "$one" = "$other" ] ;;
    esac || { echo "$2 is '$one' in $3, and '$other' in $4"; return 1; }
}
# other_bytes A B: two files, or two folders with files of the same names, that do not hold the same. What is
# not there is not another.
other_bytes() {
    LC_ALL=C diff -rq "$1" "$2" >"$work/.differs"
    [ $? = 1 ] && ! grep -q '^Only in ' "$work/.differs" ||
        { echo "not two that differ: $1 and $2"; cat "$work/.differs"; return 1; }
}

# Whether this build, and not only an earlier one in the same folder, has the CUDA side, and a driver that is
# stood in for.
has_cuda_side() {
    [ -e "$BUILD/image" ] && [ -e "$BUILD/tests/gpu/driver/libcuda.so.1" ] && grep -q carried "$BUILD/heterps-run.list"
}

# has_cores COUNT NAME...: whether this process may use so many; if not, the tests of these names are skipped.
has_cores() {
    cores=$1
    shift
    [ "$(nproc)" -lt "$cores" ] || return 0
    for name; do skip "$name" "it needs $cores cores, and may use $(nproc)"; done
    return 1
}

finish() {
    echo "1..$count"
    [ $failed = 0 ]
    exit
}

rules_newest() { # of the source
    sed -n 's/.*RULES_NEWEST = \([0-9]*\).*/\1/p' "$root/cfg/rules.h"
}

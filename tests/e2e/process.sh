# What the tests that watch processes share, on top of lib.sh: sourced after it. Sets $folder and $sanitized
# (yes or no); helpers that still run at the end are ended.
folder=$work
helpers=
case $(basename "$BUILD") in
asan | tsan) sanitized=yes ;;
*) sanitized=no ;;
esac

clean() {
    for helper in $helpers; do kill -9 "$helper" 2>/dev/null; done
    wait 2>/dev/null
    rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM HUP

# scaled N: N, or fewer where a sanitizer makes everything slow.
scaled() { if [ $sanitized = yes ]; then echo $(($1 / 5)); else echo "$1"; fi; }

# runs STATUS COMMAND...: keeps standard output and error in $folder/out and $folder/err.
runs() {
    runs_status=$1
    shift
    "$@" >"$folder/out" 2>"$folder/err" </dev/null
    runs_got=$?
    [ $runs_got = "$runs_status" ] && return 0
    echo "exit status $runs_got instead of $runs_status: $*"
    head -n 5 "$folder/err"
    return 1
}

# An error is one line on standard error, for people, and nothing on standard output.
is_one_error() { # PATTERN
    [ ! -s "$folder/out" ] || { echo "standard output:"; head -n 3 "$folder/out"; return 1; }
    if [ "$(wc -l <"$folder/err")" != 1 ] || ! grep -q '^heterps-run: error: ' "$folder/err"; then
        echo "expected one line \"heterps-run: error: ...\", found:"
        head -n 8 "$folder/err"
        return 1
    fi
    grep -Eq -- "$1" "$folder/err" || { echo "expected /$1/, found:"; cat "$folder/err"; return 1; }
}

# As a command: the program fails so, in one line that matches.
fails_so() { # STATUS PATTERN ARGUMENT...
    fails_status=$1 fails_pattern=$2
    shift 2
    runs "$fails_status" "$HETERPS" "$@" && is_one_error "$fails_pattern"
}

heterps() { "$HETERPS" "$@" -q </dev/null; }

# exported GRAPH MODEL NAME: the model's values as files in $folder/NAME.values, equal bytes for equal values.
exported() {
    rm -rf "${folder:?}/$3.values"
    "$HETERPS" export "$1" --model "$2" -o "$folder/$3.values" -q && [ -s "$folder/$3.values/dense.safetensors" ]
}

same_bytes() { diff -r "$folder/$1.values" "$folder/$2.values"; }

# trains NAME GRAPH ARGUMENT...: trains into $folder/NAME.model and exports it as NAME.
trains() {
    run_name=$1 run_graph=$2
    shift 2
    rm -rf "$folder/$run_name.model"
    "$HETERPS" "$run_graph" "$@" --out "$folder/$run_name.model" -q </dev/null &&
        exported "$run_graph" "$folder/$run_name.model" "$run_name"
}

# trains_same AS GRAPH ARGUMENT...: gives the bytes that were exported as AS.
trains_same() {
    as=$1
    shift
    trains again "$@" && same_bytes "$as" again
}

# In the background with signals as a terminal's child has them (a shell's background commands ignore SIGINT).
# Sets $pid.
start() {
    rm -f "$folder/run.out" "$folder/run.err"
    env --default-signal=INT,TERM "$HETERPS" "$@" >"$folder/run.out" 2>"$folder/run.err" </dev/null &
    pid=$!
    helpers="$helpers $pid"
    await_program
}

# Until $pid is the program, and no more the shell that becomes it.
await_program() {
    while [ -d "/proc/$pid" ] && [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != "${HETERPS##*/}" ] && ! is_over; do
        sleep 0.005
    done
}

is_over() { [ ! -d "/proc/$pid" ] || grep -q '^State:.*Z' "/proc/$pid/status" 2>/dev/null; }

# await PATTERN FILE [TENTHS]: until a line of the file matches; 20 s at most.
await() {
    tenths=${3:-200}
    while ! grep -q -- "$1" "$2" 2>/dev/null; do
        tenths=$((tenths - 1))
        [ $tenths -gt 0 ] || { echo "no /$1/ in $2"; return 1; }
        sleep 0.1
    done
}

# event_number EVENT FIELD FILE: a number of the last such event of a JSON log, its first of that name.
# Without python3, whose start costs more than most tests; that the log is JSON is tested where the events
# are.
event_number() {
    field_value=$(grep "^{\"event\":\"$1\"" "$3" | tail -n 1 | grep -o "\"$2\":[-0-9.e+]*" | head -n 1 | cut -d : -f 2)
    [ -n "$field_value" ] || { echo "no number $2 in an event $1 of $3" >&2; return 1; }
    echo "$field_value"
}

# Metrics of a model on data, as exact text.
measured() { # GRAPH MODEL DATA
    "$HETERPS" eval "$1" --model "$2" --data "$3" --log json </dev/null >"$folder/measured.log" || return 1
    for field in step auc logloss ne calibration samples; do event_number eval $field "$folder/measured.log"; done
}

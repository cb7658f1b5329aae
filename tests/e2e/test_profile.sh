#!/bin/sh
# heterps-run profile: an instance that can be read again, its table and event, what it keeps, and what it
# refuses. A profile is kept only if the machine was quiet.
. "$(dirname "$0")/lib.sh"
XDG_CACHE_HOME=$work/cache
export XDG_CACHE_HOME
tiny_model
rows 2000 "$work/rows.tsv"
cat >"$work/cluster.cfg" <<'CFG'
[type core]
device = cpu
price_per_hour = 0.04
limit = 48
[type card]
device = cuda
price_per_hour = 2.4
limit = 8
flops = 1e12
memory_bandwidth = 1e11
link_bandwidth = 1e9
[goal]
throughput = 1000
examples = 50000
CFG
profile() { "$HETERPS" profile "$work/tiny.bin" --cluster "$work/cluster.cfg" "$@"; }

# What the instance says, by a reader of our own.
says() {
    profile --data "$work/rows.tsv" --seconds 0.2 -o "$work/i.json" >"$work/table" 2>"$work/log" || return 1
    python3 - "$work/i.json" <<'PYTHON'
import json, sys
i = json.load(open(sys.argv[1]))
assert i["format"] == "heterps-instance-1" and i["L"] == 5 and i["T"] == 2 and i["B_o"] == 64 and i["M"] == 50000, i
assert i["throughput_limit"] == 1000 and i["service"]["seconds"] > 0, i
assert [t["source"] for t in i["types"]] == ["measured", "declared"], i
assert [l["name"] for l in i["layers"]] == ["e", "x", "h1", "y", "bce"], i
assert [l["type"] for l in i["layers"]] == ["embedding", "concat", "fc", "fc", "loss"], i
for l in i["layers"]:
    assert all(0 < o < 1 for o in l["oct"]) and all(0 <= a <= 1 for a in l["alpha"] + l["beta"]), l
    assert all(f <= o for f, o in zip(l.get("fixed", [0, 0]), l["oct"])), l
assert i["layers"][-1]["odt"] == [0, 0] and all(l["odt"][0] > 0 for l in i["layers"][:-1]), i
PYTHON
}
check 'profile -o: an instance of the measured and the declared type' says
tells() {
    head -2 "$work/table" | tail -1 | grep -qE '^layer +op +cut bytes +type +ms +fixed +alpha +move ms +source$' &&
        grep -qE '^e +embedding +[0-9,]+ +core .* measured$' "$work/table" &&
        grep -qE '^ +card .* declared$' "$work/table" &&
        grep -qE '^reading: .* us an example' "$work/table" && [ "$(wc -l <"$work/table")" = 13 ]
}
check 'profile: the table says it too' tells
events() {
    profile --data "$work/rows.tsv" --seconds 0.2 --log json >"$work/events" 2>/dev/null &&
        [ "$(event_field "$work/events" profile name)" = tiny ] &&
        event_field "$work/events" profile layers | grep -q "'h1'"
}
check 'profile --log json: an event' events

quiet() { # warnings may be said
    profile --data "$work/rows.tsv" --no-cache --seconds 0.1 -q -o "$work/q.json" >"$work/table" 2>"$work/log" &&
        [ ! -s "$work/table" ] && [ -s "$work/q.json" ] && ! grep -qv ': warning: ' "$work/log"
}
check 'profile -q: nothing but warnings' quiet
listens() { # PID: it is the program, and has a way of its own to take SIGTERM
    [ "$(cat "/proc/$1/comm" 2>/dev/null)" = heterps-run ] &&
        mask=$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null) && [ $((0x${mask:-0} & 0x4000)) != 0 ]
}
# stopped: a layer whose rounds take most of a minute: the small one is measured in less than a second where
# the machine is idle
stopped() {
    "$HETERPS" profile "$work/tiny.bin" --cluster "$work/cluster.cfg" --no-cache \
        --seconds 60 --set h1.units=16384 >"$work/table" 2>"$work/log" &
    profiler=$!
    tenths=200
    until listens $profiler || [ $tenths = 0 ]; do tenths=$((tenths - 1)) && sleep 0.1; done
    kill -TERM $profiler
    wait $profiler
    [ $? = 143 ] && grep -q 'stopped by a signal while the graph was measured' "$work/log" && [ ! -s "$work/table" ]
}
check 'profile: a signal ends it with a sentence' stopped

same() { # the second one is answered from the file, unless the machine was busy in all of a few tries
    for try in 1 2 3 4 5; do
        profile --data "$work/rows.tsv" --seconds 0.5 >/dev/null 2>"$work/log" || return 1
        grep -q 'warning: .* while the machine was busy: .* not kept; --no-cache measures anew' "$work/log" || break
    done
    grep -q 'machine was busy' "$work/log" && return
    profile --data "$work/rows.tsv" -o "$work/a.json" >/dev/null 2>"$work/log" &&
        grep -q "from $work/cache/heterps-run/" "$work/log" &&
        profile --data "$work/rows.tsv" -o "$work/b.json" >/dev/null 2>&1 && cmp "$work/a.json" "$work/b.json"
}
check 'profile: what was measured is kept' same
anew() {
    profile --data "$work/rows.tsv" --no-cache --seconds 0.1 -o "$work/c.json" >/dev/null 2>"$work/log" &&
        ! grep -q 'from ' "$work/log" && other_bytes "$work/i.json" "$work/c.json"
}
check 'profile --no-cache: measured anew' anew
without() {
    XDG_CACHE_HOME=/proc/none profile --seconds 0.1 >/dev/null 2>"$work/log" &&
        grep -q '/proc/none/heterps-run: .*measured each time' "$work/log"
}
check 'profile: nowhere to keep it is a remark' without
set_micro() {
    profile --no-cache --seconds 0.1 --set train.micro=16 -o "$work/d.json" >/dev/null 2>&1 &&
        grep -q '"B_o": 16' "$work/d.json"
}
check 'profile --set: the graph that it makes' set_micro
batch() {
    profile --no-cache --seconds 0.1 --batch 512 -o "$work/d.json" >/dev/null 2>&1 &&
        grep -q '"B_o": 512' "$work/d.json"
}
check 'profile --batch: of so many examples' batch
stored() { # a type that was measured elsewhere
    sed 's/^device = cuda/profile = i.json/; s/^\[type card\]/[type core2]/; /^flops/d; /_bandwidth/d' \
        "$work/cluster.cfg" >"$work/stored.cfg"
    sed 's/"name": "core"/"name": "core2"/' "$work/i.json" >"$work/i2.json" && mv "$work/i2.json" "$work/i.json"
    "$HETERPS" profile "$work/tiny.bin" --cluster "$work/stored.cfg" --no-cache \
        --seconds 0.1 -o "$work/e.json" >/dev/null 2>&1 && grep -q '"source": "stored"' "$work/e.json"
}
check 'profile: a stored type' stored

fails 2 '--cluster FILE is missing' 'profile without a cluster' "$HETERPS" profile "$work/tiny.bin"
fails 1 'none.cfg' 'a cluster that is not there' "$HETERPS" profile "$work/tiny.bin" --cluster "$work/none.cfg"
fails 1 'none.tsv' 'data that is not there' "$HETERPS" profile "$work/tiny.bin" --cluster "$work/cluster.cfg" \
    --data "$work/none.tsv" --no-cache
sed '/^flops/d; /_bandwidth/d' "$work/cluster.cfg" >"$work/bare.cfg"
fails 1 'bare.cfg:5: \[type card\]: device cuda:0 is not here .*profile = FILE.*rates' \
    'a type that is neither here nor stored nor declared' \
    "$HETERPS" profile "$work/tiny.bin" --cluster "$work/bare.cfg"
fails 2 'unknown instruction set' 'an unknown instruction set' "$HETERPS" profile "$work/tiny.bin" \
    --cluster "$work/cluster.cfg" --isa z80 --no-cache
fails 2 '--seconds' 'a bound that is none' "$HETERPS" profile "$work/tiny.bin" --cluster "$work/cluster.cfg" --seconds 0
finish

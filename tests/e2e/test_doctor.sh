#!/bin/sh
# doctor: whatever training refuses before its first step, doctor refuses in the same words, all of it at
# once; what it advises is enough; where it finds nothing training begins; and it leaves nothing behind.
. "$(dirname "$0")/lib.sh"
case $BUILD in
*/asan | */tsan) sanitized=yes ;;
*) sanitized=no ;;
esac
tiny_model
rows 7000 "$work/train.tsv"
rows 500 "$work/test.tsv" 3000
tiny=$work/tiny.bin data=$work/train.tsv
mkdir "$work/other" "$work/empty"
echo something >"$work/other/file"

# doctor ARGUMENT...: its page in $work/page.
doctor() { "$HETERPS" doctor "$@" >"$work/page" 2>"$work/page.err" </dev/null; }
# section NAME: its lines on that page.
section() { sed -n "/^$1\$/,/^[a-z]/p" "$work/page" | grep -v "^[a-z]"; }

# --- what training accepts --------------------------------------------------------------------------

begins() {
    ls -A "$work" >"$work/.before" &&
        doctor "$tiny" --data "$data" --eval "$work/test.tsv" --out "$work/model" --set train.steps_max=3 &&
        tail -1 "$work/page" | grep -qx 'training can begin' && ! grep -qE '^  (fail|warn)' "$work/page" &&
        ls -A "$work" >"$work/.after" &&
        sed -i '/^page/d;/^\.before$/d;/^\.after$/d' "$work/.before" "$work/.after" &&
        cmp "$work/.before" "$work/.after" &&
        "$HETERPS" "$tiny" --data "$data" --eval "$work/test.tsv" --out "$work/model" --set train.steps_max=3 -q
}
check 'nothing in the way: status 0, nothing left behind, and training begins' begins
for heading in model data memory rows disk 'save directory' plan cards; do
    check "a section $heading" grep -qx "$heading" "$work/page"
done
few_steps() {
    doctor "$tiny" --data "$work/test.tsv" && section data | grep -qE 'warn +steps a pass .*about 8' &&
        section data | grep -qF 'a smaller train.batch than 64' &&
        section data | grep -qF -e '--set train.batch=16'
}
check 'few data for the batch: worth a look' few_steps
held_out() {
    doctor "$tiny" --data "$data" --set data.eval_fraction=0.75 &&
        section data | grep -qE 'ok +training .*about 1,[67][0-9]{2} examples' &&
        section data | grep -qE 'steps a pass +about 2[78]' &&
        section data | grep -qE 'ok +evaluation .*about 5,[23][0-9]{2} examples'
}
check 'lines that are held out are of the evaluation' held_out
doctor "$tiny" --data "$data" --eval "$work/test.tsv"
same_memory() {
    "$HETERPS" plan-memory "$tiny" --data "$data" --eval "$work/test.tsv" 2>/dev/null | tr '\n' ' ' |
        tr -s ' ' >"$work/plan" && doctor "$tiny" --data "$data" --eval "$work/test.tsv" || return 1
    section memory | sed -n 's/^  ok    \(.*[^ ]\)  *needs \(.*\)$/\1 \2/p' | grep -v '^in all' >"$work/parts"
    [ "$(wc -l <"$work/parts")" -gt 8 ] || return 1
    # The program's own part is what its heap is at that moment.
    grep -v '^program' "$work/parts" | while read -r part; do
        grep -qF " $part" "$work/plan" || { echo "$part is not in $(cat "$work/plan")"; exit 1; }
    done
}
check 'memory part by part is what plan-memory says' same_memory
check 'an existing model: goes on' doctor "$tiny" --data "$data" --resume "$work/model"
claim_kept() {
    ls "$work/model" >"$work/.before"
    doctor "$tiny" --data "$data" --out "$work/model"
    ls "$work/model" | cmp - "$work/.before"
}
check 'an existing directory stays as it is' claim_kept
parsed() {
    "$HETERPS" doctor "$tiny" --data "$work/nowhere" --log json </dev/null 2>/dev/null | python3 -c '
import json, sys
events = [json.loads(line) for line in sys.stdin]
lines = [e for e in events if e["event"] == "doctor"]
assert {e["state"] for e in lines} <= {"ok", "warn", "fail"}
assert {"memory", "plan", "data"} <= {e["section"] for e in lines}
assert all(set(e) == {"event", "section", "state", "what", "needed", "found", "todo"} for e in lines)
verdicts = [e for e in events if e["event"] == "verdict"]
assert len(verdicts) == 1 and verdicts[0]["fails"] == sum(e["state"] == "fail" for e in lines) == 1, verdicts'
}
check '--log json' parsed

# --- what training refuses ------------------------------------------------------------------------

# both SECTION NAME ARGUMENT...: training is refused, and doctor says the same in that section. Standard input
# is the script's.
both() {
    of=$1 name=$2
    shift 2
    if same_refusal "$@" >"$work/.out" 2>&1; then ok "$name"; else
        not_ok "$name"
        echo "# $*"
        cat "$work/train.err" "$work/.out" | head -20 | note
    fi
}
same_refusal() {
    "$HETERPS" "$@" -q >/dev/null 2>"$work/train.err" </dev/null
    case $? in 1 | 2) ;; *) return 1 ;; esac
    sed -n 's/^heterps-run: error: //p' "$work/train.err" >"$work/refusal"
    [ -s "$work/refusal" ] || return 1
    doctor "$@"
    [ $? = 1 ] && section "$of" | grep -qF -- "$(cat "$work/refusal")" && return 0
    section "$of"
    return 1
}
python3 tests/e2e/make_plan.py "$work/wide.json" "0-1:400:1 2-4:1:1"
python3 tests/e2e/make_plan.py "$work/short.json" "0-1:1:1"
printf '[type cpu]\ndevice = cpu\nprice_per_hour = 1\nlimit = 1\n[goal]\nthroughput = max\n' >"$work/cluster.cfg"
printf '[type cpu]\ndevice = cpu\nlimit = 1\n' >"$work/cheap.cfg"
{ head -5 "$data"; echo 'no line of criteo'; } >"$work/wrong.tsv"
head -c 0 "$data" >"$work/nothing.tsv"
sed 's/units = 8/units = 16/' "$work/tiny.cfg" >"$work/wider.cfg"
"$HETERPS" compile "$work/wider.cfg" -o "$work/wider.bin" -q
"$HETERPS" "$work/wider.bin" --data "$data" --out "$work/wider" --set train.steps_max=1 -q

both model 'no graph' "$work/nowhere.bin" --data "$data"
both model 'a graph that is none' "$data" --data "$data"
both model 'an unknown setting' "$tiny" --data "$data" --set train.bach=64
both model 'a setting out of range' "$tiny" --data "$data" --set train.batch=0
both model 'an unknown instruction set' "$tiny" --data "$data" --isa avx3
both data 'no data' "$tiny"
both data 'data that is not there' "$tiny" --data "$work/nowhere.tsv"
both data 'the second file is not there' "$tiny" --data "$data,$work/nowhere.tsv"
both data 'a malformed line among the first' "$tiny" --data "$work/wrong.tsv"
both data 'evaluation data that is not there' "$tiny" --data "$data" --eval "$work/nowhere.tsv"
both data 'one stream for both' "$tiny" --data - --eval -
both data 'a stream for two passes' "$tiny" --data - --set train.epochs=2
both data 'a stream, and a cache without a name' "$tiny" --data - --set cache.ssd=1MiB
both data 'lines held out of a stream' "$tiny" --data - --set data.eval_fraction=0.5
both data 'early stopping without evaluation' "$tiny" --data "$data" --set train.stop=auc
both data 'early stopping by no figure' "$tiny" --data "$data" --eval "$work/test.tsv" --set train.stop=nonsense
both plan 'more cores than there are' "$tiny" --data "$data" --plan "$work/wide.json"
both plan 'a plan of too few layers' "$tiny" --data "$data" --plan "$work/short.json"
both plan 'no plan' "$tiny" --data "$data" --plan "$work/nowhere.json"
both plan 'a plan and a cluster' "$tiny" --data "$data" --plan "$work/short.json" --cluster "$work/cluster.cfg"
both plan 'a cluster without prices' "$tiny" --data "$data" --cluster "$work/cheap.cfg"
printf '[type %s]\ndevice = %s\nprice_per_hour = 1\nlimit = 1\n' cpu cpu far cuda:7 >"$work/far.cfg"
both plan 'a cluster with a device that is not here' "$tiny" --data "$data" --cluster "$work/far.cfg"
has_cores 2 'a cluster of too few units' && both plan 'a cluster of too few units' "$tiny" --data "$data" \
        --cluster "$work/cluster.cfg" --set train.pipelines=2 --set train.sync=wsp
both plan 'an unknown method' "$tiny" --data "$data" --cluster "$work/cluster.cfg" --method guess
both plan 'pipelines under bsp' "$tiny" --data "$data" --set train.pipelines=2 --share
both plan 'too many slots' "$tiny" --data "$data" --set train.in_flight=60000 --set train.sync=wsp \
    --set train.pipelines=2 --share
both 'save directory' 'a directory of something else' "$tiny" --data "$data" --out "$work/other"
both 'save directory' 'a file in place of a directory' "$tiny" --data "$data" --out "$data"
both 'save directory' "another graph's model" "$tiny" --data "$data" --out "$work/wider"
both 'save directory' 'nothing to go on from' "$tiny" --data "$data" --resume "$work/empty"
both 'save directory' "going on from another graph's model" "$tiny" --data "$data" --resume "$work/wider"
both 'save directory' 'beginning and going on' "$tiny" --data "$data" --resume "$work/model" --init "$work/model"
both 'save directory' 'nothing to begin with' "$tiny" --data "$data" --init "$work/nowhere"
both 'save directory' 'nothing of that name to begin with' "$tiny" --data "$data" --init "$work/empty"
both disk 'a disk without a directory' "$tiny" --data "$data" --set store.ssd=64MiB
both disk 'a directory that cannot be made' "$tiny" --data "$data" --set store.ram=64MiB --set store.ssd=64MiB \
    --set store.path="$work/no/where"
both disk 'too little of a disk' "$tiny" --data "$data" --set store.ssd=1MiB --set store.path="$work/rows"
both disk 'rows on disk without the barrier' "$tiny" --data "$data" --set store.ssd=64MiB \
    --set store.path="$work/rows" --set train.sync=wsp
both rows 'rows that come and go without the barrier' "$tiny" --data "$data" --set emb.ttl=2 \
    --set store.period=2 --set train.sync=wsp
both memory 'RAM for no micro-batch' "$tiny" --data "$data" --set store.ram=1MiB \
    --set train.batch=4096 --set train.micro=4096
check 'and says how much is enough' sh -c "grep -qE 'store\.ram=[0-9]+MiB fits' '$work/page'"

locked() {
    python3 - "$1" "$@" <<'PYTHON'
import fcntl, os, subprocess, sys
os.makedirs(sys.argv[1], exist_ok=True)
lock = open(sys.argv[1] + "/lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
r = subprocess.run([os.environ["HETERPS"], "doctor", *sys.argv[3:]], capture_output=True, text=True,
                   stdin=subprocess.DEVNULL)
print(r.stdout)
sys.exit(0 if r.returncode == 1
         and ("another process writes to this directory" in r.stdout or "has locked it" in r.stdout) else 1)
PYTHON
}
export HETERPS
check 'a directory that another training has' locked "$work/model" "$tiny" --data "$data" --out "$work/model"
check 'rows of another training' locked "$work/rows2" "$tiny" --data "$data" --set store.ssd=64MiB \
    --set store.path="$work/rows2"
files() {
    (ulimit -n 70; doctor "$tiny" --data "$data" --set store.ssd=64MiB --set store.path="$work/rows3")
    [ $? = 1 ] && section disk | grep -q 'rows on disk need [0-9]* open files, and this process may have 70'
}
check 'too few open files' files
# disk_of SIZE: doctor's page where rows on disk may take 16 MiB and the disk has this.
mkdir "$work/disk"
disk_of() {
    unshare -rm sh -c "mount -t tmpfs -o size=$1 none '$work/disk' && shift && exec \"\$@\"" - - "$HETERPS" doctor \
        "$tiny" --data "$data" --set store.ssd=16MiB --set store.path="$work/disk/rows" >"$work/page" 2>/dev/null
    [ $? = 1 ] && section disk | grep -qE 'fail +rows +needs 16 MiB'
}
small_disk() {
    disk_of 9m && section disk | grep -q 'another store.path; or --set store.ssd=9MiB$' || return 1
    # A table needs eight segments of a MiB.
    disk_of 4m && section disk | grep -q 'another store.path$' && ! section disk | grep -q 'store.ssd'
}
name='a disk with too little room: a budget is advised that is enough for training'
if unshare -rm mount -t tmpfs none "$work/disk" 2>/dev/null; then check "$name" small_disk; else
    skip "$name" 'no file system can be mounted here'
fi
both 'save directory' 'figures for everybody' "$tiny" --data "$data" --metrics 0.0.0.0:0
both 'save directory' 'figures at no address' "$tiny" --data "$data" --metrics here
both 'save directory' 'figures into a file in place of a folder' "$tiny" --data "$data" --tensorboard "$data"
both 'save directory' 'tokens for no figures' "$tiny" --data "$data" --token-file "$work/tiny.cfg"
both 'save directory' 'a trace where there is no folder' "$tiny" --data "$data" --trace "$work/no/where"
both 'save directory' 'a folder as a trace' "$tiny" --data "$data" --trace "$work"
mkdir "$work/traced"
both 'save directory' 'a trace in the directory of the model' "$tiny" --data "$data" --out "$work/traced" \
    --trace "$work/traced/t.json"
check '… and none is left' sh -c "[ -z \"\$(ls '$work/traced')\" ]"

all_at_once() {
    doctor "$tiny" --data "$work/nowhere.tsv" --eval "$work/nowhere2.tsv" --out "$work/other" \
        --plan "$work/short.json" --isa avx3 --set train.bach=1 \
        --set store.ssd=1MiB --set store.path="$work/rows" --set train.stop=nonsense --set store.ram=64KiB
    [ $? = 1 ] && tail -1 "$work/page.err" | grep -q '9 things are in the way' &&
        [ "$(grep -c '^  fail' "$work/page")" = 9 ]
}
check 'nine refusals at once' all_at_once
check 'and nothing of them is left' sh -c "[ ! -e '$work/rows' ] && [ ! -e '$work/rows3' ] && [ ! -e '$work/no' ] &&
    [ ! -e '$work/other/lock' ] && [ ! -e '$work/empty/lock' ]"

# --- cards ------------------------------------------------------------------------------------------

plan() { python3 tests/e2e/make_plan.py "$@"; }
plan "$work/card.json" '0-1:cpu 2-4:emu'
plan "$work/two.json" '0-1:cpu 2-4:emu=2'
plan "$work/cuda.json" '0-1:cpu 2-4:cuda:0'
both plan 'a card that is not here' "$tiny" --data "$data" --plan "$work/cuda.json" --gpu off
if [ -x "$BUILD/heterps-emu" ]; then
    static=$HETERPS HETERPS=$BUILD/heterps-emu
    on_card() {
        doctor "$tiny" --data "$data" --plan "$work/card.json" &&
            section cards | grep -qE 'ok    stages on cards +needs 1, has 1' && section cards | grep -q ' free$'
    }
    check 'a stage on a card that is here' on_card
    both plan 'a stage on two cards' "$tiny" --data "$data" --plan "$work/two.json"
    both plan 'a card without the barrier' "$tiny" --data "$data" --plan "$work/card.json" --set train.sync=wsp
    both plan 'another kind of card' "$tiny" --data "$data" --plan "$work/cuda.json"
    other_plan() {
        doctor "$tiny" --data "$data" --plan "$work/cuda.json"
        ! grep -E '^  ok +(stages|cores|stages on cards)  ' "$work/page"
    }
    check 'what it would be without the refused plan is not said of the plan' other_plan
    HETERPS_EMU_BYTES=20000
    export HETERPS_EMU_BYTES
    both plan 'a card with too little memory' "$tiny" --data "$data" --plan "$work/card.json"
    HETERPS_EMU_BYTES=250000000
    plan "$work/whole.json" '0-4:emu'
    both plan 'a card with too little memory for store.gpu' "$tiny" --data "$data" --plan "$work/whole.json" \
        --set store.ram=1GiB
    less_rows() {
        section plan | grep -q 'lower store.gpu' && section cards | grep -q 'stages on cards *needs 1, has 1' &&
            ! grep -q 'low enough' "$work/page"
    }
    check 'and what is told besides is of the plan' less_rows
    unset HETERPS_EMU_BYTES
    HETERPS=$static
else
    skip 'stages on cards' 'this build has no emulated card'
fi

# --- what training does not see before it is too late -------------------------------------------------

check 'a line below the first micro-batch is not looked at' sh -c "head -2000 '$data' >'$work/late.tsv'
    echo x >>'$work/late.tsv'
    '$HETERPS' doctor '$tiny' --data '$work/late.tsv' </dev/null"
skipped() {
    doctor "$tiny" --data "$work/wrong.tsv" --set data.bad_lines=skip && section data | grep -q 'warn .*training' &&
        section data | grep -q '1 of the first 6 lines are malformed'
}
check 'malformed lines that are skipped: a warning' skipped
nothing() { doctor "$tiny" --data "$work/nothing.tsv"; [ $? = 1 ] && section data | grep -q 'no examples'; }
check 'data without an example' nothing
unsaved() {
    doctor "$tiny" --data "$data" && section 'save directory' | grep -q 'warn .*--out' &&
        section 'save directory' | grep -q 'nothing will be saved'
}
check 'nothing is saved: a warning' unsaved
resumed_rows() {
    rows 20000 "$work/many.tsv"
    "$HETERPS" "$tiny" --data "$work/many.tsv" --out "$work/many" -q &&
        doctor "$tiny" --data "$data" --continue "$work/many" --set store.ram=1MiB
    [ $? = 1 ] && section rows | grep -q 'fail .*emb of the save .*needs .* rows, has room for'
}
check 'more rows to go on with than there is room for' resumed_rows
other_data() {
    doctor "$tiny" --data "$data" --resume "$work/many"
    [ $? = 1 ] && section 'save directory' | grep -q 'fail .*its training has stopped in .*many.tsv'
}
check 'a save of other data' other_data
full() { # in a name space of its own: a small disk
    unshare -m sh -c "mount -t tmpfs -o size=1m none '$work/empty' && {
            head -c 1m /dev/zero >'$work/empty/zeros' 2>/dev/null
            '$HETERPS' doctor '$tiny' --data '$data' --set store.ssd=64MiB --set store.path='$work/empty/rows' \
                --out '$work/empty/model'
        } >'$work/page' 2>&1"
    [ $? = 1 ] && section disk | grep -q 'fail  rows .*needs 64 MiB, has [0-9.]* K*i*B free in ' &&
        section 'save directory' | grep -q '^  fail  '
}
if unshare -m mount -t tmpfs none "$work/empty" 2>/dev/null; then
    check 'a full disk for rows, and for saves' full
else
    skip 'a full disk' 'a file system cannot be mounted here'
fi
read_only() { doctor "$tiny" --data "$data" --out "$1"; [ $? = 1 ] && section 'save directory' | grep -q '^  fail  '; }
if [ "$(id -u)" != 0 ]; then
    mkdir "$work/closed" && chmod 555 "$work/closed"
    check 'a directory that cannot be written to' read_only "$work/closed"
else
    check 'a directory that cannot be written to' read_only /proc/sys
fi

# --- memory ---------------------------------------------------------------------------------------

if [ $sanitized = yes ]; then
    skip 'limits of memory' 'a sanitizer takes memory of its own'
    finish
fi
# advised LIMIT_KIB ARGUMENT...: under that limit doctor refuses, and training is refused; with the store.ram
# that doctor names both are well.
advised() {
    kib=$1
    shift
    (ulimit -v "$kib"; doctor "$@")
    [ $? = 1 ] && section memory | grep -q 'fail' || return 1
    (ulimit -v "$kib"; "$HETERPS" "$@" -q --set train.steps_max=2 </dev/null) 2>"$work/train.err" && return 1
    ram=$(sed -n 's/.*--set store.ram=\([0-9]*MiB\) fits.*/\1/p' "$work/page" | head -1)
    [ -n "$ram" ] && (ulimit -v "$kib"; "$HETERPS" "$@" -q --set train.steps_max=2 --set store.ram="$ram" </dev/null &&
        "$HETERPS" doctor "$@" --set store.ram="$ram" </dev/null)
}
check 'too little address space: what is advised is enough' advised 200000 "$tiny" --data "$data" --set store.ram=1GiB
check 'a little too little' advised 300000 "$tiny" --data "$data" --set store.ram=300MiB
total_kib=$(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo)
beyond() {
    doctor "$tiny" --data "$data" --set store.ram="$((total_kib * 2))KiB"
    [ $? = 1 ] && section memory | grep -qE 'store\.ram=[0-9]+MiB fits'
}
check 'more than the machine has' beyond
fewer_examples() {
    (ulimit -v 120000; doctor "$tiny" --data "$data" --set train.batch=65536 --set train.micro=65536)
    [ $? = 1 ] || return 1
    advice=$(sed -n 's/.*; \(--set train.batch=[0-9]* --set store.ram=[0-9]*MiB\) fits.*/\1/p' "$work/page" | head -1)
    [ -n "$advice" ] &&
        (ulimit -v 120000; "$HETERPS" "$tiny" --data "$data" -q --set train.steps_max=2 $advice </dev/null)
}
check 'steps of too many examples for any budget of rows: what is advised is enough' fewer_examples
# The program, and hardly what the page takes beside it.
nothing_fits() {
    (ulimit -v $(($(wc -c <"$HETERPS") / 1024 + 10000)); doctor "$tiny" --data "$data")
    [ $? = 1 ] && section memory | grep -q 'fail.*'
}
check 'too little for anything' nothing_fits
finish

#!/bin/sh
# heterps-run fsck: what is whole is said to be, and every flipped bit, cut file, empty file and file of
# another model is found, by fsck with its place and by `eval --model`, which never uses it. FLIPS=N: so many
# flipped bits (tests/quality/crash.sh: 1,000).
. "$(dirname "$0")/lib.sh"
. tests/e2e/process.sh
tiny_model
graph=$work/tiny.bin data=$work/data.tsv model=$work/model
rows 1500 "$data" && head -50 "$data" >"$work/few.tsv" &&
    "$HETERPS" "$graph" --data "$data" --out "$model" --set checkpoint.every=8 --set checkpoint.wait=yes \
        --set checkpoint.keep=3 -q &&
    "$HETERPS" "$graph" --data "$data" --out "$work/other" --set checkpoint.every=8 --set checkpoint.wait=yes \
        --set checkpoint.keep=3 --set train.seed=2 -q &&
    "$HETERPS" export "$graph" --model "$model" --for serving -o "$work/lean.bin" -q &&
    "$HETERPS" pretrain --count 1 --evaluations 10 -o "$work/a.policy" -q || { echo "not ok 1 - fixture"; exit 1; }

# says STATUS PATTERN... -- PATH [ARGUMENT...]: fsck ends so, and its report (standard output, then the error)
# has a line for each pattern.
says() {
    says_status=$1 patterns=
    shift
    while [ "$1" != -- ]; do patterns="$patterns$1
"; shift; done
    shift
    "$HETERPS" fsck "$@" >"$work/said" 2>"$work/said.err" </dev/null
    said=$?
    cat "$work/said.err" >>"$work/said"
    [ $said = "$says_status" ] || { echo "exit status $said"; cat "$work/said"; return 1; }
    printf '%s' "$patterns" | while read -r pattern; do
        grep -Eq -- "$pattern" "$work/said" || { echo "no /$pattern/ in:"; cat "$work/said"; exit 1; }
    done
}

# --- whole ---
# The rows of step 24 are those of three files: two saves wrote what had changed.
three='^save +.*/manifest.json: step 24, .* rows, 4 files, .*: whole$'
check 'a directory: its saves, the newest first' says 0 "$three" 'manifest.16.json: step 16.*whole' \
    'manifest.8.json: step 8' '^whole .*: 3 saves, 6 files' -- "$model"
check 'a save by its manifest' says 0 'manifest.8.json: step 8.*whole$' -- "$model/manifest.8.json"
check 'a graph' says 0 '^file .*tiny.bin: graph, whole' -- "$graph"
check 'a graph with a model' says 0 '^file .*lean.bin: graph and model, whole' -- "$work/lean.bin"
check 'a policy' says 0 '^file .*a.policy: policy, whole' -- "$work/a.policy"
check 'a file of rows' says 0 '^file .*emb.8.rows: rows, whole' -- "$model/emb.8.rows"
check 'a file of tensors: what cannot be known is said' \
    says 0 'dense.8.safetensors: safetensors, whole: its header; of its data there is no checksum' \
    -- "$model/dense.8.safetensors"
check 'under --log json: events' says 0 '^\{"event":"save","path":".*manifest.json","step":24,.*"state":"whole"\}$' \
    '^\{"event":"fsck","saves":3,"whole":3,"files":6,.*"faults":0,"usable":' -- "$model" --log json
quiet() { "$HETERPS" fsck "$model" -q >"$work/said" && [ ! -s "$work/said" ]; }
check 'under -q: nothing, if all is well' quiet
leftover() {
    echo half >"$model/emb.24.rows.tmp.77" && echo more >"$model/emb.9.rows" &&
        says 0 '^leftover .*emb.24.rows.tmp.77, 5 B: no manifest names it' '^leftover .*emb.9.rows' '^whole ' \
            -- "$model" && rm "$model/emb.24.rows.tmp.77" "$model/emb.9.rows"
}
check 'what no manifest names is told, and no fault' leftover
in_use() { # as a training does, by flock(2)
    { flock 9 && exec sleep 30; } 9<>"$model/lock" &
    holder=$!
    helpers="$helpers $holder"
    tenths=50
    while flock -n "$model/lock" true && [ $tenths -gt 0 ]; do tenths=$((tenths - 1)); sleep 0.1; done
    says 0 '^lock +process [0-9]+ writes to' '^whole ' -- "$model"
    is_said=$?
    kill $holder
    wait $holder 2>/dev/null
    return $is_said
}
check 'a directory that a process writes to' in_use
best() {
    cp -R "$model" "$work/with_best" && cp -R "$model" "$work/with_best/best" &&
        says 0 '^whole .*/best: 3|: 6 saves, 12 files' -- "$work/with_best" &&
        printf x >>"$work/with_best/best/emb.24.rows" &&
        says 1 'best/emb.24.rows: .* bytes, where .* are too many' '5 of 6 saves can be used' -- "$work/with_best"
}
check 'the best model beside it is looked at, too' best

# --- lost saves, and which can be used ---
newest_lost() {
    cp -R "$model" "$work/lost" && rm "$work/lost/emb.24.rows" &&
        says 1 'manifest.json: step 24.*: lost' '^fault .*emb.24.rows: No such file' 'manifest.16.json.*: whole' \
            '^use .*--resume .*/lost/manifest.16.json, or' '2 of 3 saves can be used' -- "$work/lost" &&
        "$HETERPS" "$graph" --data "$data" --resume "$work/lost/manifest.16.json" -q && says 0 '^whole ' -- "$work/lost"
}
manifest_lost() { # then the directory cannot be saved to, and the advice says so
    rm -rf "$work/lost" && cp -R "$model" "$work/lost" && rm "$work/lost/manifest.json" &&
        says 1 '^fault .*manifest.json: is missing' '^use .*--resume .*/lost/manifest.16.json --out ANOTHER' \
            -- "$work/lost" &&
        "$HETERPS" "$graph" --data "$data" --resume "$work/lost/manifest.16.json" --out "$work/another" -q &&
        says 0 '^whole' -- "$work/another" &&
        rm "$work/lost/manifest.16.json" && says 1 '^fault .*manifest.json: is missing' -- "$work/lost"
}
older_lost() {
    rm -rf "$work/lost" && cp -R "$model" "$work/lost" && : >"$work/lost/manifest.16.json" &&
        says 1 '^fault .*manifest.16.json: ' \
            '^leftover .*dense.16.safetensors, .*: no manifest that can be read names it' \
            '^use .*--resume .*/lost, or' -- "$work/lost"
}
check 'the newest is lost: an older one goes on, as it says' newest_lost
check 'the manifest is gone' manifest_lost
check 'an older manifest is empty' older_lost
mkdir "$work/none"
check 'a directory without a save' says 1 'expected a save, found no' -- "$work/none"
check 'a path that is not there' says 1 'No such file' -- "$work/nope"
check 'a file of another kind' says 1 'bytes 0 to 7: expected the beginning of a graph' -- "$data"

# --- every bit ---
python3 - "$HETERPS" "$work" "${FLIPS:-60}" "${SEED:-$(date +%s)}" "$count" <<'PYTHON'
import json, os, random, shutil, subprocess, sys
program, work, flips, seed, number = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])
pick, model, failed = random.Random(seed), work + "/model", False
files = ([model + "/" + name for name in sorted(os.listdir(model)) if name != "lock"]
         + [work + "/tiny.bin", work + "/lean.bin", work + "/a.policy"])

def heterps(*arguments):
    return subprocess.run([program, *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, errors="replace")

# The save that a file belongs to, by the tag in its name.
def manifest_of(path):
    tag = os.path.basename(path).split(".")[1]
    return path if "manifest" in path else model + ("/manifest.json" if tag == "24" else "/manifest.%s.json" % tag)

def unnoticed(path, begin, end):
    """What does not report that bytes [begin, end) of a file have changed; "" if everything does."""
    name, is_alone = os.path.basename(path), not path.startswith(model)
    done = heterps("fsck", path if is_alone else model, "--log", "json")
    faults = [e for e in map(json.loads, done.stdout.splitlines()) if e["event"] == "fault"]
    if done.returncode != 1 or not any(f["file"].endswith(name) and f.get("begin", 0) <= begin
                                       and f.get("end", 1 << 60) >= end for f in faults):
        return "fsck ends with %d: %s" % (done.returncode, done.stdout + done.stderr)
    if name == "a.policy": return ""
    graph = [path] if name == "lean.bin" else [work + "/tiny.bin", "--model",
                                               model if is_alone else manifest_of(path)]
    done = heterps("eval", *graph, "--data", work + "/few.tsv", "-q")
    if done.returncode != 1 or name not in done.stderr or done.stderr.count("\n") != 1:
        return "eval ends with %d: %s" % (done.returncode, done.stderr)
    return ""

def told(what, wrong):
    global number, failed
    number, failed = number + 1, failed or bool(wrong)
    print("%s %d - %s" % ("not ok" if wrong else "ok", number, what))
    for text in wrong.splitlines(): print("#", text)

def spoiled(path, content, begin, end):
    whole = open(path, "rb").read()
    with open(path, "wb") as file: file.write(content(whole))
    wrong = unnoticed(path, begin(whole), end(whole))
    with open(path, "wb") as file: file.write(whole)
    return wrong and "%s, bytes from %d: %s" % (path, begin(whole), wrong)

wrong = ""
for n in range(flips):
    path = pick.choice(files)
    at, bit = pick.randrange(os.path.getsize(path)), 1 << pick.randrange(8)
    wrong = wrong or spoiled(path, lambda b: b[:at] + bytes([b[at] ^ bit]) + b[at + 1:], lambda b: at, lambda b: at + 1)
told("%d flipped bits: fsck names file and place, and eval does not use it (seed %d)" % (flips, seed), wrong)
wrong = ""
for path in files:
    for size in (0, 1, pick.randrange(os.path.getsize(path)), os.path.getsize(path) - 1):
        if path.endswith("lean.bin") and size == os.path.getsize(work + "/tiny.bin"): continue  # a whole graph
        wrong = wrong or spoiled(path, lambda b: b[:size], lambda b: size, lambda b: size)
told("cut and empty files", wrong)
wrong = ""
for path in files:
    other = path.replace(model, work + "/other") if "/model/" in path and "manifest" not in path else ""
    if other:
        wrong = wrong or spoiled(path, lambda b: open(other, "rb").read(), lambda b: 0, lambda b: os.path.getsize(path))
told("files of another model", wrong)
def blocks_told(path, first, end):
    """Damages neighbouring blocks of a file of rows, or with end 0 all; "" if one place is told, in words, too."""
    whole = open(path, "rb").read()
    span, rows, per = (int.from_bytes(whole[at:at + n], "little") for at, n in ((20, 4), (24, 8), (32, 4)))
    end = end or (rows + per - 1) // per
    begin = lambda block: 64 + min(block * per, rows) * (8 + 4 * span) + block * 8
    spoilt = bytearray(whole)
    for block in range(first, end): spoilt[begin(block) + 3] ^= 1
    text = "%s: bytes %d to %d (rows %d to %d) do not match their checksum" % (
        path, begin(first), begin(end) - 1, first * per, min(end * per, rows) - 1)
    with open(path, "wb") as file: file.write(spoilt)
    done = heterps("fsck", path, "--log", "json")
    with open(path, "wb") as file: file.write(whole)
    events = map(json.loads, done.stdout.splitlines())
    told = [(e["begin"], e["end"], e["text"]) for e in events if e["event"] == "fault"]
    expected = [(begin(first), begin(end), text)]
    return "" if end > first and told == expected else "expected %s, found %s" % (expected, told)

rows = model + "/emb.8.rows" # of two blocks
wrong = blocks_told(rows, 0, 1) or blocks_told(rows, 1, 0) or blocks_told(rows, 0, 0)
told("blocks of rows: neighbours are one place, with its bytes and rows", wrong)
told("and whole again", "" if heterps("fsck", model).returncode == 0 else "fsck says otherwise")
open(work + "/count", "w").write("%d %d" % (number, failed))
PYTHON
read -r count more <"$work/count"
failed=$((failed + more))
finish

#!/bin/sh
# Broken model texts, graphs, model directories and data: each gives one line that names the place and the
# reason, and exit status 1.
. "$(dirname "$0")/lib.sh"
tiny_model
rows 500 "$work/data.tsv"
cd "$work" || exit 1
h=$HETERPS
"$h" tiny.bin --data data.tsv --out model -q || exit 1

# ---- model texts ----
# text PATTERN NAME LINE...: those lines are a model text that must be refused.
text() {
    pattern=$1 name=$2
    shift 2
    printf '%s\n' "$@" >broken.cfg
    fails 1 "^heterps-run: error: broken.cfg($pattern)" "text: $name" "$h" compile broken.cfg -o broken.bin
}
text ': .*no loss' 'empty' ''
text ':1: .*unknown section' 'unknown section' '[nonsense]'
text ':1: .*did you mean' 'a section with a slip' '[trian]'
text ':1: .*before the first key' 'a key outside sections' 'x = 1'
text ':1: .*\]' 'an open bracket' '[fc'
text ':3: .*did you mean "units"' 'a key with a slip' '[fc h1]' 'input = dense' 'unit = 3'
text ':3: .*no such key' 'a key that nothing is like' '[fc h1]' 'input = dense' 'qqqqqq = 3'
text ':2: .*whole number' 'a word for a number' '[train]' 'batch = many'
text ':2: .*whole number from 1' 'a number out of range' '[train]' 'batch = 0'
text ':2: .*criteo' 'a choice that is none' '[data]' 'format = tsv'
text ':2: .*bytes|:2: .*KiB|:2: .*expected' 'bytes that are none' '[store]' 'ram = much'
text ':3: .*second time' 'a key twice' '[train]' 'batch = 1' 'batch = 2'
text ':2: .*second time' 'a section twice' '[train]' '[train]'
text ':2: .*0x01' 'a control character' '[data]' "path = $(printf '\001')"
text ':2: .*C27' 'a column beyond the format' '[data]' 'sparse = C1..C27'
text ':2: .*I3..I1' 'a range backwards' '[data]' 'dense = I3..I1'
text ':2: .*twice' 'a column twice' '[data]' 'dense = I1,I1'
data='[data]
dense = I1..I3
sparse = C1..C3'
loss='[loss bce]
input = y'
fc='[fc y]
input = dense
units = 1'
text ':4: .*expected a key "input"' 'an op without input' "$data" '[fc y]' 'units = 1' "$loss"
text ':5: .*"h9"' 'an input that is not there' "$data" '[fc y]' 'input = h9' 'units = 1' "$loss"
text ':5: .*"y"' 'an op that reads itself' "$data" '[fc y]' 'input = y' 'units = 1' "$loss"
text ':5: .*"b"' 'a circle of two' "$data" '[fc a]' 'input = b' 'units = 1' '[fc b]' 'input = a' \
    'units = 1' '[loss l]' 'input = b'
text ':5: .*no \[table emb\]' 'a table that is not there' "$data" '[embedding e]' 'table = emb' 'input = sparse'
text ':4: .*"dim"' 'a table without width' "$data" '[table emb]' '[embedding e]' 'table = emb' 'input = sparse'
text ':4: .*no \[embedding\] uses' 'a table that nothing uses' "$data" '[table emb]' 'dim = 4' "$fc" "$loss"
text ':[0-9]+: .*sparse fields' 'an embedding of numbers' "$data" '[table emb]' 'dim = 4' '[embedding e]' \
    'input = dense' 'table = emb'
text ':7: .*nothing that leads to the loss' 'an op that leads nowhere' "$data" "$fc" '[fc z]' \
    'input = dense' 'units = 1' "$loss"
text ':4: .*taken' 'a name that is taken' "$data" '[fc dense]' 'input = dense' 'units = 1'
text ':[0-9]+: .*1 column, found 2' 'a prediction of two columns' "$data" '[fc y]' 'input = dense' 'units = 2' "$loss"
text ':[0-9]+: .*expected two inputs, found 1' 'a loss of pairs with one input' "$data" "$fc" "$loss" '[loss l]' \
    'kind = hinge' 'input = y'
text ':[0-9]+: .*a section below reads this' 'a loss that is an input' "$data" "$fc" "$loss" \
    '[metric m]' 'input = bce, y'
text ':[0-9]+: .*not a multiple' 'a batch that lanes do not divide' "$data" "$fc" "$loss" \
    '[train]' 'batch = 10' 'lanes = 3'
text ':[0-9]+: .*not a multiple' 'a batch that micro does not divide' "$data" "$fc" "$loss" \
    '[train]' 'batch = 10' 'micro = 3'
text ':[0-9]+: .*adagrad' 'an optimizer that is none' "$data" "$fc" "$loss" '[train]' 'optimizer = adagard 0.1'
text ':[0-9]+: .*0 to 0.99' 'a dropout that drops all' "$data" '[dropout d]' 'input = dense' 'rate = 1'
head -c 3000000 /dev/zero | tr '\0' 'a' >broken.cfg
fails 1 'broken.cfg: .*1048576' 'text: too long' "$h" compile broken.cfg -o broken.bin
check 'no refused text left a graph' test ! -e broken.bin

# ---- graphs ----
cat >graphs.py <<'PYTHON'
# Alters a graph at many places; every one must be refused in one line that names the file.
import random, subprocess, sys
program, graph = sys.argv[1:]
whole = open(graph, "rb").read()
rng = random.Random(1)
def refused(data):
    open("altered.bin", "wb").write(data)
    r = subprocess.run([program, "inspect", "altered.bin"], capture_output=True, text=True, errors="replace")
    good = (r.returncode == 1 and r.stdout == "" and r.stderr.count("\n") == 1
            and r.stderr.startswith("heterps-run: error: altered.bin: "))
    if not good: print(r.returncode, r.stdout[:200], r.stderr[:200], file=sys.stderr)
    return good
cuts = [0, 1, 7, 8, 63, 64, len(whole) // 2, len(whole) - 1] + [rng.randrange(len(whole)) for _ in range(20)]
flips = list(range(0, 64)) + [rng.randrange(len(whole)) for _ in range(60)]
def flipped(at):
    data = bytearray(whole)
    data[at] ^= 1 << rng.randrange(8)
    return data
sys.exit(not all([refused(whole[:n]) for n in cuts] + [refused(flipped(at)) for at in flips] + [refused(whole + b"x")]))
PYTHON
check 'graphs cut or altered anywhere are refused' python3 graphs.py "$h" tiny.bin

# ---- model directories ----
# model_broken PATTERN NAME COMMAND: copies the model, runs the command within the copy, and eval must refuse it.
model_broken() {
    pattern=$1 name=$2
    rm -rf altered && cp -r model altered && (cd altered && eval "$3") || exit 1
    fails 1 "$pattern" "model: $name" "$h" eval tiny.bin --model altered --data data.tsv
    cp -r altered again
    fails 1 "$pattern" "model: $name, resumed" "$h" tiny.bin --data data.tsv --resume altered -q
    check "model: $name, is left as it was" diff -r altered again
    rm -rf again
}
model_broken 'manifest' 'no manifest' 'rm manifest.json'
model_broken 'altered/manifest.json' 'an empty manifest' ': >manifest.json'
model_broken 'altered/manifest.json' 'a manifest cut short' 'head -c 300 manifest.json >m; mv m manifest.json'
model_broken 'altered/manifest.json' 'a manifest with another step' \
    'sed "s/\"step\": [0-9]*/\"step\": 77/" manifest.json >m; mv m manifest.json'
model_broken 'altered/manifest.json' 'a manifest that is a list' 'echo "[]" >manifest.json'
model_broken 'altered/dense' 'no dense file' 'rm dense.*'
model_broken 'altered/emb' 'no rows' 'rm emb.*'
model_broken 'altered/dense' 'a dense file cut short' 'f=$(echo dense.*); head -c 500 $f >m; mv m $f'
model_broken 'altered/emb' 'rows cut short' 'f=$(echo emb.*); head -c 5000 $f >m; mv m $f'
model_broken 'altered/emb' 'rows with more behind them' 'echo x >>$(echo emb.*)'
model_broken 'altered/dense' 'a dense file with one bit turned' 'python3 -c "
import glob; f = glob.glob(\"dense.*\")[0]; b = bytearray(open(f, \"rb\").read()); b[-9] ^= 1
open(f, \"wb\").write(b)"'
model_broken 'altered/emb' 'rows with one bit turned' 'python3 -c "
import glob; f = glob.glob(\"emb.*\")[0]; b = bytearray(open(f, \"rb\").read()); b[777] ^= 1
open(f, \"wb\").write(b)"'
sed 's/units = 8/units = 9/' tiny.cfg >other.cfg && "$h" compile other.cfg -o other.bin -q
units='h1.units was 8 when it was saved and is 9 now'
fails 1 "$units" 'model: of another graph, eval' "$h" eval other.bin --model model --data data.tsv
fails 1 "$units" 'model: of another graph, --resume' "$h" other.bin --data data.tsv --resume model -q
fails 1 "$units" 'model: of another graph, --out' "$h" other.bin --data data.tsv --out model -q
sed 's/dim = 4/dim = 8/' tiny.cfg >other.cfg && "$h" compile other.cfg -o other.bin -q
fails 1 'emb.dim was 4 when it was saved and is 8 now' 'model: of a table of another width' \
    "$h" predict other.bin --model model --data data.tsv -o x
sed 's/activation = relu/activation = tanh/' tiny.cfg >other.cfg && "$h" compile other.cfg -o other.bin -q
fails 1 'h1.activation was relu when it was saved and is tanh now' 'model: of another activation' \
    "$h" eval other.bin --model model --data data.tsv
grep -v 'activation' tiny.cfg >other.cfg && "$h" compile other.cfg -o other.bin -q
fails 1 'h1.activation was relu when it was saved and is its default now' 'model: of no activation' \
    "$h" eval other.bin --model model --data data.tsv
sed 's/h1$/h2/; s/fc h1/fc h2/' tiny.cfg | sed 's/\[fc h1\]/[fc h2]/' >other.cfg &&
    "$h" compile other.cfg -o other.bin -q
fails 1 '\[fc h1\] was there when it was saved and is not now' 'model: of another layer' \
    "$h" eval other.bin --model model --data data.tsv
fails 1 'train.seed was 1 when it was saved and is 9 now' 'model: of another seed' \
    "$h" tiny.bin --data data.tsv --out model --set train.seed=9 -q
fails 1 'store.ram|budget' 'model: more rows than the budget holds' \
    sh -c "'$h' gen criteo --rows 40000 --vocab 100000 -o many.tsv -q &&
    '$h' tiny.bin --data many.tsv --set store.ram=4MiB -q"

# ---- data ----
cat >lines.py <<'PYTHON'
# Breaks one line of the data in many ways: the error names file, line and column; bad_lines = skip counts it;
# predict keeps its place.
import json, subprocess, sys
program = sys.argv[1]
lines = open("data.tsv", "rb").read().split(b"\n")[:20]
columns = lines[9].split(b"\t")
def with_column(index, value):
    return b"\t".join(columns[:index] + [value] + columns[index + 1:])
cases = {
    "a column too few": (b"\t".join(columns[:-2]), "40"),
    "a column too many": (lines[9] + b"\tx", "40 columns"),
    "an empty line": (b"", "empty"),
    "blanks": (b"   ", "columns"),
    "a longer line than there may be": (with_column(20, b"x" * 5000000), "longer than"),
    "label 2": (with_column(0, b"2"), "label"),
    "label 1.0": (with_column(0, b"1.0"), "label"),
    "a float": (with_column(3, b"1.5"), "column 4 (I3): "),
    "a word": (with_column(3, b"word"), "column 4 (I3): "),
    "a hexadecimal number": (with_column(13, b"0x10"), "column 14 (I13): "),
    "a number of 70 bits": (with_column(1, b"999999999999999999999"), "column 2 (I1): "),
    "a lonely minus": (with_column(2, b"-"), "column 3 (I2): "),
    "nan": (with_column(3, b"nan"), "column 4 (I3): "),
    "a zero byte in a number": (with_column(3, b"1\0"), "column 4 (I3): "),
    "control characters": (with_column(3, b"\x1b[31m\x07"), "column 4 (I3): "),
}
good_cases = {
    "any bytes in a category": with_column(20, b"\xff\0 text"),
    "a category of 100,000 bytes": with_column(20, b"x" * 100000),
    "a carriage return before the end": lines[9] + b"\r",
    "numbers of 63 bits": with_column(3, b"-9223372036854775807"),
}
number = 0
def result(good, name, note=""):
    global number
    number += 1
    print("%s - %s" % ("ok" if good else "not ok", name))
    if not good: print("# " + repr(note)[:300])
def run(*arguments):
    return subprocess.run([program, *arguments], capture_output=True, text=True, errors="replace")
def write(line):
    open("broken.tsv", "wb").write(b"\n".join(lines[:9] + [line] + lines[10:]) + b"\n")
for name, (line, word) in cases.items():
    write(line)
    r = run("tiny.bin", "--data", "broken.tsv", "-q")
    good = (r.returncode == 1 and r.stderr.startswith("heterps-run: error: broken.tsv:10: ")
            and r.stderr.count("\n") == 1 and word in r.stderr)
    result(good and len(r.stderr) < 400 and "\x1b" not in r.stderr,
           "line: %s is an error with its place" % name, r.stderr)
    r = run("tiny.bin", "--data", "broken.tsv", "--log", "json", "--set", "data.bad_lines=skip")
    done = [e for e in map(json.loads, r.stdout.splitlines()) if e["event"] == "done"]
    result(r.returncode == 0 and done[0]["samples"] == 19 and done[0]["bad_lines"] == 1,
           "line: %s is skipped and counted" % name, r.stderr)
    if name == "label 2" or name == "label 1.0": continue
    r = run("predict", "tiny.bin", "--model", "model", "--data", "broken.tsv", "--set", "data.bad_lines=skip")
    where = [i for i, p in enumerate(r.stdout.split()) if p == "nan"]
    result(r.returncode == 0 and where == [9] and len(r.stdout.split()) == 20,
           "line: %s is nan in its place" % name, r.stderr)
for name, line in good_cases.items():
    write(line)
    r = run("tiny.bin", "--data", "broken.tsv", "-q")
    result(r.returncode == 0 and r.stderr == "", "line: %s is read" % name, r.stderr)
PYTHON
python3 lines.py "$h" >tap || echo 'not ok - lines.py ends well' >>tap
while read -r line; do
    case $line in
    'ok - '*) ok "${line#ok - }" ;;
    'not ok - '*) not_ok "${line#not ok - }" ;;
    *) echo "$line" ;;
    esac
done <tap

: >empty.tsv
fails 1 'empty.tsv.*no examples|no examples' 'data: an empty file, trained' "$h" tiny.bin --data empty.tsv -q
fails 1 'no examples' 'data: an empty file, evaluated' "$h" eval tiny.bin --model model --data empty.tsv -q
check 'data: an empty file, predicted, gives no lines' \
    sh -c "'$h' predict tiny.bin --model model --data empty.tsv -o none.txt && [ ! -s none.txt ]"
fails 1 'no examples' 'data: an empty standard input' sh -c "'$h' tiny.bin --data - -q </dev/null"
gzip -c data.tsv >data.tsv.gz
head -c 5000 data.tsv.gz >cut.gz
fails 1 'cut.gz: .*gzip' 'data: gzip cut short' "$h" tiny.bin --data cut.gz -q
{ cat data.tsv.gz; echo junk; } >junk.gz
fails 1 'junk.gz: .*gzip' 'data: gzip with something else behind it' "$h" tiny.bin --data junk.gz -q
python3 -c 'b = bytearray(open("data.tsv.gz", "rb").read()); b[9000] ^= 255; open("flip.gz", "wb").write(b)'
fails 1 'flip.gz: .*gzip' 'data: gzip with a byte turned' "$h" tiny.bin --data flip.gz -q
cut -f 2- data.tsv >unlabelled.tsv
fails 1 'zero:1: the line is longer than' 'data: a line that never ends' timeout 20 "$h" tiny.bin --data /dev/zero -q
head -c 3000000 /dev/zero >zeros
fails 1 'zeros:1: the line is longer than' 'data: a line without end, by several parsers' \
    "$h" tiny.bin --data zeros -q --set train.readers=2
fails 2 '--out: expected a value, DIR, found nothing' 'an empty name of a directory' \
    "$h" tiny.bin --data data.tsv --out ''
check 'data: predict needs no label' sh -c "'$h' predict tiny.bin --model model --data unlabelled.tsv -o a.txt &&
    '$h' predict tiny.bin --model model --data data.tsv -o b.txt && cmp a.txt b.txt"
fails 1 'unlabelled.tsv:1: ' 'data: eval needs labels' "$h" eval tiny.bin --model model --data unlabelled.tsv -q
fails 1 'once|stream' 'data: two passes over standard input' \
    sh -c "'$h' tiny.bin --data - --set train.epochs=2 -q <data.tsv"

# ---- outputs that cannot be written ----
fails 1 '/dev/full.*No space' 'output: predict to a full device' "$h" predict tiny.bin --model model \
    --data data.tsv -o /dev/full
fails 1 'No space' 'output: predict to a full standard output' \
    sh -c "'$h' predict tiny.bin --model model --data data.tsv >/dev/full"
fails 1 'No space' 'output: gen to a full standard output' sh -c "'$h' gen criteo --rows 10 -o - >/dev/full"
fails 1 'standard output' 'output: help to a full standard output' sh -c "'$h' gen --help >/dev/full"
if [ "$(id -u)" != 0 ]; then
    mkdir locked && chmod 500 locked
    fails 1 'locked/x.*denied' 'output: a folder without permission' "$h" compile tiny.cfg -o locked/x
else
    skip 'output: a folder without permission' 'root may write everywhere'
fi
mkdir small
if mount -t tmpfs -o size=200k tmpfs small 2>/dev/null; then
    trap 'umount "$work/small"; rm -rf "$work"' EXIT
    echo precious >small/out
    fails 1 'small/out.*No space' 'output: gen to a full disk' "$h" gen criteo --rows 2000 -o small/out
    check 'output: what stood there is untouched, and nothing lies beside it' \
        sh -c '[ "$(cat small/out)" = precious ] && [ "$(ls small)" = out ]'
    fails 1 'small/.*No space' 'output: a model to a full disk' \
        sh -c "'$h' gen criteo --rows 5000 -o many.tsv -q && '$h' tiny.bin --data many.tsv --out small/model -q"
    head -20 data.tsv >few.tsv && rm -rf small/model
    "$h" tiny.bin --data few.tsv --out small/model -q && cp -r small/model before
    fails 1 'small/.*No space' 'output: a greater model over one that fits' \
        "$h" tiny.bin --data many.tsv --continue small/model -q
    check 'output: the model that fits still loads' "$h" eval tiny.bin --model small/model --data data.tsv -q
else
    skip 'output: a full disk' 'no tmpfs can be mounted here'
fi
finish

#!/bin/sh
# csv, libsvm, libffm and libfm from files to predictions: each compiles, trains, evaluates and predicts; what
# is written in another way gives the same predictions; what is wrong is said in one sentence; and the lines
# that data.eval_fraction holds out are evaluated alone.
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 1
h=$HETERPS

# The same 600 examples in every format: three fields, of which the third is a list, a number, a label that
# depends on them.
python3 - <<'PYTHON'
import random
r = random.Random(4)
rows = []
for n in range(600):
    a, b, tags, x = (r.randrange(20), r.randrange(30), sorted(r.sample(range(10), r.randrange(4))),
                     r.choice(["", "%g" % r.uniform(-9, 9)]))
    score = (a % 3 - 1) + (b % 2) + (3 in tags) - 0.5 + float(x or 0) / 6
    rows.append((a, b, tags, x, int(score + r.gauss(0, 0.5) > 0), r.randrange(8)))
out = lambda name, lines: open(name, "w").write("".join(line + "\n" for line in lines))
text = lambda row: "%d,a%d,b%d,%s,%s" % (row[4], row[0], row[1], "|".join("t%d" % t for t in row[2]), row[3])
head = "label,a,b,tags,x"
train, test = rows[:500], rows[500:]
out("train.csv", [head] + [text(row) for row in train])
out("test.csv", [head] + [text(row) for row in test])
# Other orders, separators, quotation marks, spaces, columns that nobody uses, line ends.
quote = lambda value: '"' + value.replace('"', '""') + '"'
out("other.csv", ["x ;unused;tags; a;b;label\r"] + [
    '%s ; "%s" ; %s;%s ;%s;%d\r' % (row[3] or "?", 'no; ""', quote("/".join("t%d" % t for t in row[2])),
                                    quote("a%d" % row[0]), "b%d" % row[1], row[4])
    for row in test])
out("bare.csv", [text(row).split(",", 1)[1] for row in test])             # neither header nor label
out("unlabelled.csv", [head.split(",", 1)[1]] + [text(row).split(",", 1)[1] for row in test])
out("words.csv", [head.replace("label", "answer")]
    + [text(row).replace("1," if row[4] else "0,", "yes," if row[4] else "no,", 1) for row in train])
bad = [text(row) for row in test[:4]]
out("bad.csv", [head, bad[0], "1,a,b", bad[1], '1,"a,b,c,d', "1,a,b,t,abc", bad[2], "", bad[3]])
# Ids of the fields lie apart: 0.., 100.., 200..
pairs = lambda row: [(0, row[0], 1), (1, 100 + row[1], 1)] + [(2, 200 + t, 0.5) for t in row[2]]
for name, part in ("train", train), ("test", test):
    out(name + ".libsvm",
        ["%d qid:%d %s" % (row[4], row[5], " ".join("%d:%g" % (i, v) for _, i, v in pairs(row))) for row in part])
    out(name + ".libffm", ["%d %s # note" % (row[4], " ".join("%d:%d:%g" % p for p in pairs(row))) for row in part])
    out(name + ".libfm",
        ["%d %s" % (2 * row[4] - 1, " ".join("%d:1" % i for _, i, _ in pairs(row)[:2])) for row in part])
    out(name + ".two.libffm",
        ["%d %s" % (row[4], " ".join("%d:%d" % (f, i) for f, i, _ in pairs(row)[:2])) for row in part])
PYTHON

# model NAME DATA-LINES INPUTS: NAME.cfg and NAME.bin.
model() {
    cat >"$1.cfg" <<CFG
[model]
name = $1
[data]
$2
[table emb]
dim = 4
optimizer = adagrad 0.1
[embedding e]
table = emb
input = $3
[concat x]
input = e${4:+, $4}
[fc y]
input = x
units = 1
[loss bce]
input = y
[train]
batch = 50
epochs = 8
optimizer = adagrad 0.05
[store]
ram = 16MiB
CFG
    check "$1 compiles" "$h" compile "$1.cfg" -o "$1.bin" -q
}

# rounds NAME TRAIN TEST EXAMPLES: trains, evaluates as training does, predicts.
rounds() {
    check "$1 trains" "$h" "$1.bin" --data "$2" --eval "$3" --out "$1.model" --log json
    cp .out "$1.log"
    check "$1 learns" python3 -c 'import sys; sys.exit(float(sys.argv[1]) < 0.8)' "$(event_field "$1.log" eval auc)"
    check "$1 evaluates" "$h" eval "$1.bin" --model "$1.model" --data "$3" --log json
    cp .out "$1.eval"
    check "$1: eval measures what training did" same_field eval auc "$1.log" "$1.eval"
    check "$1: no line is bad" \
        test "$(event_field "$1.log" done bad_lines) $(event_field "$1.eval" eval bad_lines)" = '0 0'
    check "$1 predicts" "$h" predict "$1.bin" --model "$1.model" --data "$3" -o "$1.predictions"
    check "$1: a prediction for each example" test "$(wc -l <"$1.predictions")" = "$4"
}

# --- criteo: integers as texts ---------------------------------------------------------------------

"$h" gen criteo --rows 2000 -o clicks.tsv -q
model buckets 'format = criteo
sparse = I1..I13, C1..C26
dense = I1..I13' 'sparse' dense
check 'criteo: integers as texts train' "$h" buckets.bin --data clicks.tsv --log json --set train.epochs=1
cp .out buckets.log
own_keys() {
    python3 - buckets.log clicks.tsv <<'PYTHON'
import json, sys
rows = [e for e in map(json.loads, open(sys.argv[1])) if e["event"] == "done"][-1]["store"]["emb"]
texts = {(i, t) for line in open(sys.argv[2]) for i, t in enumerate(line.rstrip("\n").split("\t")) if i and t}
assert rows == len(texts), (rows, len(texts))
PYTHON
}
check 'criteo: each has keys of its own' own_keys
rm -f clicks.tsv

# --- csv -------------------------------------------------------------------------------------------

csv='format = csv
dense = x
sparse = a, b, tags
transform = none
label = label'
model csv "$csv
[column tags]
ids_max = 4" 'a, b, tags' dense
rounds csv train.csv test.csv 100
same() { # NAME DATA [--set …]: the predictions of other.csv and its like are those of test.csv
    name=$1 data=$2
    shift 2
    check "csv: $name predicts" "$h" predict csv.bin --model csv.model --data "$data" -o same.predictions "$@"
    check "csv: $name gives the same predictions" cmp csv.predictions same.predictions
}
same 'another order, separator and form' other.csv --set data.separator=semicolon --set data.list_separator=/ \
    --set 'data.missing_text=?'
same 'a file without labels' unlabelled.csv
same 'a file without a header and labels' bare.csv --set data.header=no --set 'data.columns=label, a, b, tags, x'
gzip -k test.csv
same 'gzip' test.csv.gz
same 'standard input' - <test.csv

model map "$(echo "$csv" | sed 's/^label.*/label = answer/')
ids_max = 4
label_map = yes=1, *=0" 'a, b, tags' dense
check 'csv: labels as texts train' "$h" map.bin --data words.csv --out map.model -q
"$h" predict map.bin --model map.model --data test.csv -o map.predictions -q
check 'csv: labels as texts train the same model' cmp csv.predictions map.predictions

model both "$(echo "$csv" | sed 's/^sparse = .*/sparse = a, label/')" 'a, label' dense
check 'csv: a label may be a field as well' "$h" both.bin --data train.csv --eval test.csv --log json
check 'csv: and says what it is' python3 -c 'import sys; sys.exit(float(sys.argv[1]) < 0.99)' \
    "$(event_field .out eval auc)"
check 'csv: such a graph has data generated' \
    sh -c "'$h' gen both.bin --rows 50 -o both.csv -q && '$h' both.bin --data both.csv -q"

fails 1 'bad.csv:3: expected 5 columns, found 3$' 'csv: a line with too few columns' "$h" csv.bin --data bad.csv -q
check 'csv: bad lines are skipped' "$h" csv.bin --data bad.csv --set data.bad_lines=skip --log json
check 'csv: bad lines are counted' test "$(event_field .out done samples) $(event_field .out done bad_lines)" = '32 32'
check 'csv: bad lines are predicted' "$h" predict csv.bin --model csv.model \
    --data bad.csv -o bad.predictions --set data.bad_lines=skip
head -4 csv.predictions >expected
sed -i -e '1a nan' -e '2a nan\nnan' -e '3a nan' expected
check 'csv: predictions align with lines' cmp bad.predictions expected
sed 's/,x$/,X/' test.csv >lacking.csv
fails 1 'lacking.csv:1: .*lacks the column "x"; .*[Ii]t has label, a, b, tags, X$' 'csv: a column that is not there' \
    "$h" eval csv.bin --model csv.model --data lacking.csv --set data.bad_lines=skip
fails 1 'test.csv:1: .*lacks the column "labels"; did you mean "label"' 'csv: a mistyped label' \
    sh -c "sed 's/^label = label/label = labels/' csv.cfg >typo.cfg; '$h' compile typo.cfg -o typo.bin -q &&
    '$h' typo.bin --data test.csv -q"
fails 1 'data.label_map: expected TEXT=NUMBER' 'csv: a label map of another form' \
    "$h" csv.bin --data train.csv -q --set data.label_map=yes
fails 1 'data.columns' 'csv: neither header nor names' "$h" csv.bin --data train.csv -q --set data.header=no
fails 1 'data.separator' 'csv: a separator of two letters' "$h" csv.bin --data train.csv -q --set data.separator=,,
sed 's/^ids_max = 4/ids_max = 2/' csv.cfg >short.cfg
"$h" compile short.cfg -o short.bin -q
fails 1 'test.csv:[0-9]*: column 4 \(tags\): expected at most 2 keys, not 3, found' 'csv: a list that is too long' \
    "$h" short.bin --data test.csv -q --set data.ids_over=error
fails 1 'test.csv: 26 of 352 keys are lost, because lists are longer than ids_max: one has 3 keys; .* ids_max = 3' \
    'csv: more than one key in a hundred is lost' \
    "$h" short.bin --data test.csv -q
check 'csv: lists are cut' "$h" short.bin --data test.csv -q --set data.ids_over=cut
# Of a long file it is said after its first 10,000 keys, whoever parses; one key in two hundred may be lost;
# predict goes on, and says it once.
awk 'BEGIN { for (i = 0; i < 20000; i++) print i % 2 (i % 200 ? ",a" : ",a|b|c") }' >few.csv
awk 'BEGIN { for (i = 0; i < 200000; i++) print i % 2 ",a" i % 50 (i % 2 ? "" : "|b|c|d") }' >many.csv
cat >tags.cfg <<CFG
[data]
format = csv
header = no
columns = label,tags
sparse = tags
[table emb]
dim = 2
[embedding e]
table = emb
input = tags
[fc y]
input = e
units = 1
[loss bce]
input = y
[column tags]
ids_max = 2
[store]
ram = 1MiB
CFG
"$h" compile tags.cfg -o tags.bin -q
for readers in 1 3; do
    fails 1 'many.csv: 4[0-9]{3} of 10[0-9]{3} keys are lost, .*one has 4 keys' \
        "csv: two fifths of a long file, early, $readers readers" \
        "$h" tags.bin --data many.csv -q --set train.readers=$readers
done
check 'csv: a list in two hundred is too long' "$h" tags.bin --data few.csv --out tags.model -q
# Where the long lists lie at the end, a run that begins behind most lines sees a greater part of them.
awk 'BEGIN { pad = sprintf("%200s", ""); gsub(/ /, "p", pad)
    for (i = 0; i < 60000; i++) print i % 2 "," (i < 59500 ? "a|b" : "a|b|c|d") "," pad i }' >late.csv
"$h" compile tags.cfg -o late.bin -q --set data.columns='label, tags, rest'
goes_on() {
    "$h" late.bin --data late.csv --out late.model -q --set train.batch=128 &&
        "$h" late.bin --data late.csv --out part.model -q --set train.batch=128 --set train.steps_max=455 &&
        "$h" late.bin --data late.csv --resume part.model -q --set train.batch=128 --set train.steps_max=0 2>late.err &&
        cat late.err && grep -q 'warning: late.csv: 1000 of [0-9]* keys are lost' late.err
}
check 'csv: nor does what is left of a pass stop its run' goes_on
predicts_and_tells() {
    "$h" predict tags.bin --model tags.model --data many.csv -o tags.out -q 2>tags.err &&
        [ "$(wc -l <tags.out)" = 200000 ] && [ "$(wc -l <tags.err)" = 1 ] &&
        lost='200000 of 500000 keys are lost, because .* one has 4 keys' &&
        grep -q "warning: many.csv: $lost; give ids_max = 4 .*, and train anew$" tags.err
}
check 'csv: predict cuts what it gets, and says what is lost' predicts_and_tells
check 'csv: … but where ids_over = cut asks for it' \
    sh -c "'$h' predict tags.bin --model tags.model --data few.csv -o tags.out -q --set data.ids_over=cut 2>tags.err &&
        [ ! -s tags.err ]"
# All features of a line are one list, whose length is no matter of defaults; and factorization machines need pairs.
cat >list.cfg <<'CFG'
[data]
format = libsvm
sparse = features
[table t]
dim = 2
[embedding e]
table = t
input = features
[fm f]
input = e
dim = 2
[loss bce]
input = f
CFG
fails 1 'list.cfg:3: \[data\] sparse: "features" is a list of all features of a line; say how many' \
    'libsvm: features without ids_max' "$h" compile list.cfg -o list.bin
fails 1 'list.cfg:9: \[fm f\]: expected two vectors or more of dim 2, found one' 'fm: of one vector' \
    "$h" compile list.cfg -o list.bin --set data.ids_max=3
check 'fm: of the vectors of a list' "$h" compile list.cfg -o list.bin --set data.ids_max=3 --set e.pool=none
check 'by rules up to 8 both pass' "$h" compile list.cfg -o list.bin --set model.rules=8

model words "$(echo "$csv" | sed 's/= none/= standard/')
path = train.csv
ids_max = 4
[vocabulary as]
column = a
count_min = 20
unknown = <unk>
[vocabulary tag]
column = tags
[column a]
vocabulary = as
ids_max = 1
[column tags]
vocabulary = tag" 'a, b, tags' dense
rounds words train.csv test.csv 100
check 'csv: a vocabulary is counted in a column, and in lists' "$h" predict words.bin --model words.model \
    --data other.csv -o same.predictions \
    --set data.separator=semicolon --set data.list_separator=/ --set 'data.missing_text=?'
check 'csv: words and standard numbers give the same predictions' cmp words.predictions same.predictions

# --- libsvm, libffm, libfm ---------------------------------------------------------------------------

model libsvm 'format = libsvm
sparse = features
group = qid
ids_max = 5' features
rounds libsvm train.libsvm test.libsvm 100
cut -d' ' -f3- test.libsvm >bare.libsvm
check 'libsvm: lines without labels and groups are predicted' "$h" predict libsvm.bin --model libsvm.model \
    --data bare.libsvm -o bare.predictions
check 'libsvm: they give the same predictions' cmp libsvm.predictions bare.predictions
# Lines of blanks or with comments alone are no examples; malformed ones, empty ones among them, are, and keep
# their places.
awk '{ print } NR % 3 == 0 { print "  " } NR % 5 == 0 { print "# none" } NR % 7 == 0 { print " \t # 1 3:1" }
    NR == 50 { print "1 3:x" }
    NR == 60 { print "" }' test.libsvm >holes.libsvm
awk '{ print } NR == 50 || NR == 60 { print "nan" }' libsvm.predictions >expected.predictions
check 'libsvm: a file with blank lines, comments and malformed lines is predicted' \
    "$h" predict libsvm.bin --model libsvm.model --data holes.libsvm \
    -o holes.predictions --set data.bad_lines=skip
check 'libsvm: a prediction for each example, in order' cmp expected.predictions holes.predictions
printf '1 qid:1 3:1\n1 qid:1 3:x\n' >bad.libsvm
fails 1 'bad.libsvm:2: byte 9: expected id:value, .*found "3:x"$' 'libsvm: a value that is no number' \
    "$h" libsvm.bin --data bad.libsvm -q
fails 1 'group is user' 'libsvm: another group' "$h" libsvm.bin --data train.libsvm -q --set data.group=user

sed 's/^0/-1/' train.libsvm >minus.libsvm
fails 1 'minus.libsvm:[0-9]+: byte 1: expected a label, 0 to 1 \(data.label_map .*, found "-1"' \
    'libsvm: labels of -1 without a map stop training' \
    "$h" libsvm.bin --data minus.libsvm -q
fails 1 'minus.libsvm:[0-9]+: byte 1: expected a label, 0 to 1 ' 'libsvm: and evaluation' \
    "$h" eval libsvm.bin --model libsvm.model --data minus.libsvm -q

model libffm 'format = libffm
sparse = F0..F2
ids_max = 3' F0..F2
rounds libffm train.libffm test.libffm 100

model libfm 'format = libfm
sparse = F1, F2
label_map = -1=0, 1=1' 'F1, F2'
model two 'format = libffm
sparse = F0, F1' 'F0, F1'
check 'libfm trains' "$h" libfm.bin --data train.libfm --eval test.libfm --out libfm.model --log json
cp .out libfm.log
check 'libffm of the same features trains' "$h" two.bin --data train.two.libffm --eval test.two.libffm --log json
cp .out two.log
check 'libfm and libffm of the same features give the same model' same_field eval logloss libfm.log two.log
check 'libfm predicts' "$h" predict libfm.bin --model libfm.model --data test.libfm -o libfm.predictions
check 'libfm: a prediction for each example' test "$(wc -l <libfm.predictions)" = 100

# --- empty lines at a file's end: as many are passed whatever reads them ----------------------------------------------

{ head -20 train.csv; yes '' | head -4097; } >empty_end.csv
for readers in 1 3; do
    check "4,097 empty lines at the end, $readers readers" "$h" csv.bin --data empty_end.csv --set train.epochs=1 \
        --set train.readers=$readers --set data.bad_lines=error -q
done
mkfifo once.fifo
cat >twice.cfg <<'CFG'
[data]
format = csv
columns = click, a, b
header = no
label = click
sparse = a, b
path = once.fifo
[column a]
vocabulary = va
[column b]
vocabulary = vb
[vocabulary va]
column = a
[vocabulary vb]
column = b
[table emb]
dim = 2
[embedding e]
table = emb
input = sparse
[fc y]
input = e
units = 1
[loss bce]
input = y
CFG
once() { # is not waited for a second time
    printf '1,x,u\n0,y,v\n' >once.fifo &
    ! timeout 20 "$h" compile twice.cfg -o twice.bin -q 2>once.err &&
        grep -q 'once.fifo is a stream and can be read once' once.err
}
check 'words of two columns of a stream' once

# --- lines that are held out ---------------------------------------------------------------------------

held='--set data.eval_fraction=0.2'
check 'held out: training evaluates them' "$h" csv.bin --data train.csv --out held.model \
    --log json $held --set train.epochs=1
cp .out held.log
trained=$(event_field held.log done samples) evaluated=$(event_field held.log eval samples)
check 'held out: each line is in one part' test $((trained + evaluated)) = 500
check 'held out: about a fifth' test $evaluated -gt 60 -a $evaluated -lt 150
check 'held out: eval --held-out' "$h" eval csv.bin --model held.model --data train.csv --held-out $held --log json
cp .out held.eval
check 'held out: eval measures what training did' same_field eval auc held.log held.eval
check 'held out: eval without it' "$h" eval csv.bin --model held.model --data train.csv $held --log json
check 'held out: measures all lines' test "$(event_field .out eval samples)" = 500
ln -s train.csv link.csv
check 'held out: --eval of the same file' "$h" csv.bin --data train.csv --eval ./link.csv \
    --log json $held --set train.epochs=1
cp .out held.eval
check 'held out: is the same' same_field eval auc held.log held.eval
check 'held out: --eval of another file' "$h" csv.bin --data train.csv --eval test.csv \
    --log json $held --set train.epochs=1
check 'held out: is all of it' test "$(event_field .out eval samples)" = 100
fails 1 'train.csv,test.csv: 1 of 2 files are training data' 'held out: a set of it and of another file' \
    "$h" csv.bin --data train.csv --eval train.csv,test.csv $held -q
fails 1 'is a stream and can be read once, but data.eval_fraction' 'held out: of standard input' \
    sh -c "'$h' csv.bin --data - $held --set train.epochs=1 -q <train.csv"
fails 2 'held-out.*eval_fraction is 0' 'held out: of nothing' "$h" eval csv.bin --model csv.model \
    --data train.csv --held-out

# --- files from elsewhere ------------------------------------------------------------------------------

fixtures=$SHARED/criteo_misc
if [ -r "$fixtures/xlearn_small_train.txt" ]; then
    model xlearn 'format = libffm
sparse = F0..F17
ids_max = 4
ids_over = cut' F0..F17
    check 'libffm: a file of xlearn trains' "$h" xlearn.bin --data "$fixtures/xlearn_small_train.txt" \
        --eval "$fixtures/xlearn_small_test.txt" --log json
    check 'libffm: all its lines are read' \
        test "$(event_field .out done samples) $(event_field .out done bad_lines)" = '1600 0'
    model deepctr 'format = csv
dense = I1..I13
sparse = C1..C26' C1..C26 dense
    check 'csv: a file of DeepCTR trains' "$h" deepctr.bin --data "$fixtures/deepctr_criteo_sample.txt" --log json
    check 'csv: all its lines are read' \
        test "$(event_field .out done samples) $(event_field .out done bad_lines)" = '1600 0'
else
    skip 'files of xlearn and DeepCTR' "no $fixtures"
fi
finish

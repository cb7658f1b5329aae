#!/bin/sh
# `gen GRAPH` writes what the graph reads: columns in the order of data.columns, values in quotation marks
# where they need them, groups, fields by their place; each file trains, and is the same again.
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 1
h=$HETERPS

# model NAME DATA-LINES INPUTS [DENSE]
model() {
    cat >"$1.cfg" <<CFG
[data]
$2
[table emb]
dim = 2
[embedding e]
table = emb
input = $3
[concat x]
input = e${4:+, $4}
[fc o]
input = x
units = 1
[loss bce]
input = o
[train]
batch = 10
[store]
ram = 16MiB
CFG
    check "$1 compiles" "$h" compile "$1.cfg" -o "$1.bin" -q
}
# rounds NAME: generates and reads all of it
rounds() {
    check "$1: gen" "$h" gen "$1.bin" --rows 200 -o "$1.txt" -q
    check "$1: what gen wrote trains" "$h" "$1.bin" --data "$1.txt" --log json
    check "$1: all lines are read" test "$(event_field .out done samples) $(event_field .out done bad_lines)" = '200 0'
    "$h" gen "$1.bin" --rows 100 -o "$1.first" -q
    "$h" gen "$1.bin" --rows 100 --skip 100 -o - -q | sed "${2:-}" | cat "$1.first" - >"$1.parts"
    check "$1: rows depend on their number alone" cmp "$1.txt" "$1.parts"
}

model bare 'format = csv
header = no
columns = id, tags, number, label, user, w
dense = number
sparse = user, tags
weight = w
group = user
ids_max = 3' 'user, tags' dense
rounds bare
check 'bare: each column is where data.columns has it' python3 -c '
for line in open("bare.txt"):
    id, tags, number, label, user, w = line.rstrip("\n").split(",")
    assert id == "" and 1 <= len(tags.split("|")) <= 3 and label in "01", line
    assert 0.5 <= float(w) <= 1.5 and user.split("|"), line
    assert number == "" or int(number) >= 0, line'
sed 's/, number,/, other,/' bare.cfg >lacking.cfg
"$h" compile lacking.cfg -o lacking.bin -q
fails 1 'data.columns lacks the column "number"' 'a column that data.columns lacks' \
    "$h" gen lacking.bin --rows 10 -o lacking.txt

model header 'format = csv
dense = number
sparse = user, tags
weight = w
group = user' 'user, tags' dense
rounds header 1d
check 'header: names each column once' test "$(head -1 header.txt)" = label,w,number,user,tags

printf 'label,a,b\n1,"x, ""y""",u\n0," z",v\n1,"a|b",u\n' >words.csv
model words 'format = csv
sparse = a, b
label_map = "yes, sir"=1, *=0
[vocabulary words]
path = words.csv
column = a
[column a]
vocabulary = words' 'a, b'
rounds words 1d
check 'words: are those of the vocabulary' python3 -c '
import csv
rows = list(csv.reader(open("words.txt")))[1:]
assert {row[1] for row in rows} == {"x, \"y\"", " z", "a|b"}, rows[:5]
assert {row[0] for row in rows} == {"yes, sir", "other"}, rows[:5]'

mkdir sub
cp words.cfg sub
fails 1 'sub/words.csv: No such file' 'words: a path in the text is beside the text' \
    "$h" compile sub/words.cfg -o sub.bin -q
check 'words: a path of --set is not' "$h" compile sub/words.cfg -o sub.bin --set words.path=words.csv -q

model spaces 'format = csv
separator = space
sparse = a, b
dense = n
label_map = "yes, sir, and with pleasure whenever you ask"=1, *=0' 'a, b' n
rounds spaces 1d

model criteo 'sparse = C1
label_map = 0=1, 1=0' C1
rows 10 criteo.txt
fails 2 '--set is for a graph; gen criteo has none' 'settings where there is no graph' \
    "$HETERPS" gen criteo --rows 1 --set data.format=csv -o "$work/none"
fails 2 '--vocab and --zipf are for fields of keys' 'a vocabulary of expressions' \
    "$HETERPS" gen mathfunc --rows 1 --vocab 1000 -o "$work/none"
fails 2 '--vocab and --zipf are for fields of keys' 'weights of values of expressions' \
    "$HETERPS" gen mathfunc --rows 1 --zipf 0 -o "$work/none"
fails 1 "criteo's label is 0 or 1; data.label_map" 'criteo: a label map is refused, for it would have no effect' \
    "$h" criteo.bin --data criteo.txt -q

model libsvm 'format = libsvm
sparse = features
ids_max = 4
group = qid
label_map = yes_sir_and_with_pleasure_whenever_you_ask=1, *=0' features
rounds libsvm
check 'libsvm: groups follow the labels' \
    test "$(grep -cE '^(yes_sir_and_with_pleasure_whenever_you_ask|other) qid:[0-9]+ [0-9]+:1' libsvm.txt)" = 200

model libfm 'format = libfm
sparse = features, F4, F2
ids_max = 6' 'features, F4, F2'
rounds libfm
check 'libfm: fields are in their places' \
    test "$(grep -cE '^[01] 0:0 [1-9][0-9]*:1 0:0 [1-9][0-9]*:1( [0-9]+:1)+$' libfm.txt)" = 200

sed 's/ids_max = 128/ids_max = 20/; s/^epochs.*/epochs = 1/' "$root/samples/sst.cfg" >trees.cfg
check 'trees: compiles' "$h" compile trees.cfg -o trees.bin -q --set words.dim=4 --set t.dim=4 --set t.units=4 \
    --set y.units=2 --set y.groups=20
rounds trees
check 'trees: no line has more nodes than ids_max, and some have as many as fit' python3 -c '
most = max(line.count("(") for line in open("trees.txt"))
assert most == 19, most'

# Nodes of several kinds, with numbers, of one child or more (a node without a name is a sin); labels are what
# data.label_map has.
cat >typed.cfg <<CFG
[data]
format = trees
sparse = tree
label = label
label_map = -1=0, 2.5=1
ids_max = 40
kinds = const, sin, add, if
[cell const]
h = number
[cell sin]
h = sin(left.h)
[cell add]
h = sum(child.h)
[cell if]
h = left.h * right.h + child3.h
[tree t]
input = tree
units = 2
[fc o]
input = t
units = 1
[loss bce]
input = o
[train]
batch = 10
CFG
check 'typed trees: compiles' "$h" compile typed.cfg -o typed.bin -q
rounds typed
check 'typed trees: all kinds, and roots as data.label_map has them' test "$(cut -d: -f2 typed.txt | cut -d' ' -f1 |
    sort -u | tr '\n' ' ') $(grep -o '[a-z]*:' typed.txt | sort -u | tr -d '\n')" = '-1 2.5  add:const:if:'
check 'typed trees: chains' grep -qE '\((0|1|-1|2\.5) \((add|if|const)' typed.txt
"$h" compile typed.cfg -o words.bin -q --set data.label_map='no=0, yes=1'
fails 1 'data.label_map: expected a number for each text' 'trees: labels that are no numbers' \
    "$h" gen words.bin --rows 1 -o no.txt
sed -e '/^.cell add/,+1d; /^.cell if/,+1d; s/^kinds.*/kinds = const, sin/' typed.cfg >chains.cfg
"$h" compile chains.cfg -o words.bin -q
fails 1 'a kind of nodes that may be leaves and one that takes two children' 'trees: kinds that make none' \
    "$h" gen words.bin --rows 1 -o no.txt

# What gen says of its rows is what is in them.
"$h" gen mathfunc --rows 5 -o math.txt --log json >math.json
check 'rows whose best AUC is not known are told as an event, too' \
    grep -qx "{\"event\":\"gen\",\"rows\":5,\"bytes\":$(wc -c <math.txt),\"measured_rows\":0}" math.json
"$h" gen criteo --rows 1000 --seed 3 -o told.tsv --log json >told
check 'figures of what is written' python3 -c '
import json, os
(e,) = [json.loads(line) for line in open("told")]
lines = open("told.tsv").read().split("\n")
assert len(lines) == 1001 and lines[-1] == "", len(lines)
assert e["rows"] == e["measured_rows"] == 1000 and e["bytes"] == os.path.getsize("told.tsv"), e
assert e["ctr"] == sum(line[0] == "1" for line in lines[:-1]) / 1000, e
assert abs(e["bayes_auc"] - 0.80651227) < 1e-8 and abs(e["bayes_logloss"] - 0.41789413) < 1e-8, e'
finish

#!/bin/sh
# Two towers whose user is his history, over words that a micro-batch shares: trained to the same bytes by any
# number of threads and after a resume; evaluated with the histories of the training data, and never with
# those of the lines; a user who has not been seen is served by his items.
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 1
h=$HETERPS
# Users of two tastes: items of one kind each, some in train, some in test.
awk 'BEGIN { srand(5); for (u = 0; u < 300; u++) {
    train = test = "u" u
    for (i = u % 2; i < 60; i += 2) {
        r = rand()
        if (r < 0.3) train = train " i" i; else if (r < 0.5) test = test " i" i
    }
    print train > "train"; print test > "test" } }'
cat >towers.cfg <<'CFG'
[data]
format = pairs
path = train
sparse = history
shuffle = 1000
[column item]
vocabulary = items
[column history]
ids_max = 20
keys_of = item
[vocabulary items]
column = item
[candidates drawn]
of = item
negatives = 2
sampler = empirical
[table rows]
dim = 8
init = normal 0.1
optimizer = adagrad 0.1
[embedding q]
table = rows
input = history
pool = mean
[embedding c]
table = rows
input = drawn
pool = none
[loss l]
kind = shared_softmax
input = q, c, drawn
scale = 5
[train]
batch = 64
micro = 16
epochs = 4
[eval]
exclude = train
top = 10
[store]
ram = 4MiB
CFG
check 'compiling' "$h" compile towers.cfg -o towers.bin
"$h" towers.bin --data train --eval test --out one --threads 1 --log json -q >log || not_ok 'training'
recall=$(event_field log eval recall)
# Of all 51 items that are left, 10 hold a fifth.
python3 -c "import sys; sys.exit(not $recall > 0.35)" && ok "recall@10 $recall is above 0.35" ||
    not_ok "recall@10 $recall is above 0.35"
"$h" towers.bin --data train --out two --threads 2 -q
"$h" towers.bin --data train --out part --set train.steps_max=37 -q &&
    "$h" towers.bin --data train --resume part --out part -q
same_bytes() {
    for model in one two part; do "$h" export towers.bin --model $model -o $model.x -q || return 1; done
    diff -r one.x two.x && diff -r one.x part.x
}
check 'any number of threads and a resume give the same bytes' same_bytes
same_on_nodes() {
    for model in alone nodes; do
        [ $model = nodes ] && set -- launch --local 2 -- || set --
        "$h" "$@" towers.bin --data train --eval test --out $model --threads 1 --set train.lanes=2 \
            --set train.epochs=1 -q || return 1
        "$h" export towers.bin --model $model -o $model.x --set train.lanes=2 -q || return 1
    done
    diff -r alone.x nodes.x
}
check 'so do two nodes' same_on_nodes

# On a card: its words, and who has drawn them, are copied there, wherever the rows are.
cat >near.py <<'PYTHON'
import json, struct, sys
def rows(name):
    data = open(name + ".x/rows.safetensors", "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    begin, end = json.loads(data[8:8 + size])["vectors"]["data_offsets"]
    return struct.unpack(f"<{(end - begin) // 4}f", data[8 + size + begin:8 + size + end])
cpu = rows("host")
for name in sys.argv[1:]:
    worst = max(abs(x - y) for x, y in zip(cpu, rows(name)))
    print(f"{name}: {len(cpu)} numbers of rows differ by {worst:.1e} at most")
    assert len(cpu) == len(rows(name)) > 400 and worst < 1e-5
PYTHON
few='--set train.steps_max=12 --set train.batch=32'
on_card() {
    "$h" towers.bin --data train --out host --threads 1 -q $few &&
        "$h" export towers.bin --model host -o host.x -q || return 1
    for way in '0-1:cpu 2-2:emu' '0-2:emu'; do
        name=card${way%%:*}
        python3 "$root/tests/e2e/make_plan.py" plan.json "$way" &&
            "$BUILD/heterps-emu" towers.bin --data train --out $name --plan plan.json -q $few &&
            "$h" export towers.bin --model $name -o $name.x -q || return 1
    done
    python3 near.py card0-1 card0-2 >near.log 2>&1
}
case $BUILD in /*) ;; *) BUILD=$root/$BUILD ;; esac
if [ -x "$BUILD/heterps-emu" ]; then
    check 'a card learns what the CPU learns' on_card
    note <near.log
else
    skip 'a card learns what the CPU learns' 'this build has no emulated card'
fi

awk '{ printf "%s", $1; for (i = NF; i > 1; i--) printf " %s", $i; print " " }' test >turned
"$h" eval towers.bin --model one --data turned --log json -q >measured
[ "$(event_field measured eval recall)" = "$recall" ] && ok 'a line that is evaluated tells nothing of its user' ||
    not_ok 'a line that is evaluated tells nothing of its user'
fails 1 'test: the model reads users. histories, .* --set eval.exclude=TRAIN' 'evaluation without histories' \
    "$h" eval towers.bin --model one --data test --set eval.exclude= -q

# Items of a kind are even or odd.
printf 'new i0 i4 i8 i12\nother i1 i5 i9 i13\nu0\nu1\n' >asked
kinds() {
    "$h" predict towers.bin --model one --data asked -q >answers &&
        ! head -1 answers | tr '\t' '\n' | grep -xE 'i(0|4|8|12)' &&
        awk '{ n = 0; for (i = 1; i <= NF; i++) n += substr($i, 2) % 2 == (NR + 1) % 2; if (n < 8) exit 1 }
            END { exit NR != 4 }' answers
}
check 'users who have not been seen are served by their items, and not with these; others by the histories' kinds
# More items of a kind than a history holds; then i50 to i58 are left of it.
{ printf 'much'; for i in 0 2 4 6 8 10 12 14 16 18 20 22 24 26 28 30 32 34 36 38 40 42 44 46 48; do
    printf ' i%d' $i; done; echo; } >asked_much
much() {
    "$h" predict towers.bin --model one --data asked_much -q >answers && [ "$(wc -l <answers)" = 1 ] &&
        tr '\t' '\n' <answers | awk '{ i = substr($1, 2); if (i % 2 == 0 && i < 50) exit 1 } END { exit NR != 10 }'
}
check 'nor with those for which a history has no room' much
sed 's/ids_max = 20//' towers.cfg >bare.cfg
fails 1 '"history" is a list of a user.s items; say how many of them count' 'a history without a length' \
    "$h" compile bare.cfg -o bare.bin -q
finish

#!/bin/sh
# Models whose words are counted at compile time: pairs with drawn negatives are trained to the same bytes by
# any number of threads and after a resume, evaluated and predicted over all words; what is known already is
# not recommended; a setting that would change the words is refused.
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 1
h=$HETERPS
# Users of two tastes: items of one kind each, every second one in train, the rest in test.
awk 'BEGIN { srand(5); for (u = 0; u < 300; u++) {
    train = test = "u" u
    for (i = u % 2; i < 60; i += 2) {
        r = rand()
        if (r < 0.3) train = train " i" i; else if (r < 0.5) test = test " i" i
    }
    print train > "train"; print test > "test" } }'
cat >two.cfg <<'CFG'
[data]
format = pairs
path = train
sparse = user
shuffle = 1000
[column item]
vocabulary = items
[vocabulary items]
column = item
[candidates drawn]
of = item
negatives = 10
sampler = uniform
[table users]
dim = 8
init = normal 0.1
optimizer = adagrad 0.1
[table rows]
dim = 8
init = normal 0.1
optimizer = adagrad 0.1
[embedding q]
table = users
input = user
[embedding c]
table = rows
input = drawn
pool = none
[match m]
input = q, c
similarity = cosine
scale = 5
[loss l]
kind = sampled_softmax
input = m, drawn.log_q
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
check 'compiling counts words' "$h" compile two.cfg -o two.bin
grep -q 'vocabulary items: 60 words' "$work/.err" && ok 'and tells how many' ||
    { not_ok 'and tells how many'; note <"$work/.err"; }

"$h" two.bin --eval test --out one --threads 1 --set eval.every=50 --set cache.ram=16MiB --log json -q >log ||
    not_ok 'training'
recall=$(event_field log eval recall)
# 10 of the 21 items of the user's kind that are left hold almost half of the 6 of test; of all 51 that are
# left a fifth.
python3 -c "import sys; sys.exit(not $recall > 0.35)" && ok "recall@10 $recall is above 0.35" ||
    not_ok "recall@10 $recall is above 0.35"
"$h" eval two.bin --model one --data test --log json -q >again
[ "$(event_field again eval recall)" = "$recall" ] && ok 'a saved model is measured alike, after others before it' ||
    not_ok 'a saved model is measured alike'

# A user is one query, wherever his lines are; what is no word is never found.
awk '{ for (i = 2; i <= NF; i++) print $1, $i }' test | sort -k 2 >apart
awk '{ print $0, "new" NR, "new" NR }' test >unknown
awk 'BEGIN { for (u = 0; u < 6000; u++) print "v" u, "i" u % 60, "i" (u + 7) % 60 }' >many
awk '{ print $1, $2 }' many >split && awk '{ print $1, $3 }' many >>split
figure() { # DATA FIGURE...
    if [ "$1" = - ]; then cat split; fi | "$h" eval two.bin --model one --data "$1" --log json -q >measured
    shift
    for figure; do event_field measured eval "$figure"; done
}
alike() { # DATA OTHER
    expected=$(figure "$1" recall hit_rate ndcg queries targets)
    [ "$(figure "$2" recall hit_rate ndcg queries targets)" = "$expected" ]
}
check 'lines of a user that are apart are one query' alike test apart
at_cutoffs() { # each k as eval.top has it
    "$h" eval two.bin --model one --data test --set eval.cutoffs='1, 30,3' --log json -q >cutoffs || return 1
    [ "$(event_field cutoffs eval recall)" = "$recall" ] || return 1
    for k in 1 30 3; do
        "$h" eval two.bin --model one --data test --set eval.top=$k --log json -q >measured
        python3 -c 'import json, sys
k = int(sys.argv[1])
last = lambda name: [e for e in map(json.loads, open(name)) if e["event"] == "eval"][-1]
at, top = {c["k"]: c for c in last("cutoffs")["cutoffs"]}, last("measured")
assert list(at) == [1, 30, 3]
assert all(at[k][f] == top[f] for f in ("recall", "hit_rate", "ndcg")), (at, top)' $k || return 1
    done
    "$h" predict two.bin --model one --data test -q >ten &&
        "$h" predict two.bin --model one --data test --set eval.cutoffs=30 -q | cmp - ten &&
        "$h" eval two.bin --model one --data test --set eval.cutoffs=5 2>&1 |
        grep -qE '^eval     at 5: recall 0\.[0-9]{5}, hit rate 0\.[0-9]{5}, NDCG 0\.[0-9]{5}$'
}
check 'recall, hit rate and NDCG at several cutoffs' at_cutoffs
fails 1 'eval.cutoffs: expected at most 8 numbers from 1 to 1000, .* found "5,x"' 'a cutoff that is none' \
    "$h" eval two.bin --model one --data test --set eval.cutoffs=5,x -q
check 'thousands of them, of a stream, too' alike many -
unknown_is_missed() {
    set -- $(figure unknown recall known_recall queries targets targets_unknown samples)
    python3 - "$recall" "$@" <<'PYTHON'
import sys
before, recall, known, queries, targets, unknown, samples = map(float, sys.argv[1:])
assert known == before and queries == 300 and unknown == 300, sys.argv
wanted = [len(set(l.split()[1:])) for l in open("test")]
assert targets == sum(wanted) + 300 and samples == sum(len(l.split()) - 1 for l in open("test"))
assert 0.5 * before < recall < 0.95 * before, (recall, before)
PYTHON
    "$h" eval two.bin --model one --data unknown 2>&1 |
        grep -q '300 of .* targets are no words of the vocabulary, and count as not found; over the others: recall '
}
check 'targets that are no words count as not found, and are told' unknown_is_missed
sed 's/ .*/ new/' test >none
fails 1 'none: no examples to evaluate: no target is a word of the vocabulary' 'nothing but targets that are no words' \
    "$h" eval two.bin --model one --data none
fails 1 'none: no examples: no label or target is a word of its vocabulary' 'and to train on' \
    "$h" two.bin --data none -q
case $BUILD in
*/asan | */tsan) skip 'more users than memory holds' 'a sanitizer takes addresses of its own' ;;
*)
    awk 'BEGIN { for (u = 0; u < 60000; u++) print "v" u, "i" u % 60 }' >split
    too_many() {
        # Twice the address space that the plan asks for, a quarter of what 60,000 users need.
        (ulimit -v 100000; "$h" eval two.bin --model one --data - --set eval.top=1000 <split -q 2>too_many) && return 1
        said='error: no memory to rank words for more groups than the [0-9]* that have come, with .*'
        grep -q "$said evaluate fewer at a time, or lower eval.top" too_many || { cat too_many; return 1; }
    }
    check 'more users than memory holds are refused' too_many ;;
esac

"$h" two.bin --out three --threads 3 -q && "$h" two.bin --out part --set train.steps_max=37 -q &&
    "$h" two.bin --resume part --out part -q
for other in three part; do
    for model in one $other; do "$h" export two.bin --model $model -o $model.x -q; done
    check "$other: the same bytes" diff -r one.x $other.x
    rm -r one.x
done

"$h" predict two.bin --model one --data test -o words -q
check 'a line a user, ten words each, none of train' python3 - <<'PYTHON'
train = {line.split()[0]: set(line.split()[1:]) for line in open("train")}
users = [line.split()[0] for line in open("test")]
lines = [line.rstrip("\n").split("\t") for line in open("words")]
assert len(lines) == 300, len(lines)
alike = 0
for user, words in zip(users, lines):
    assert len(set(words)) == 10 and not train[user] & set(words), (user, words)
    alike += sum(int(w[1:]) % 2 == int(user[1:]) % 2 for w in words)
assert alike > 2400, alike
PYTHON
fails 2 '--with takes columns of csv, .*; leave it out: .* in the order in which the data first names each user, and' \
    'no columns beside words of pairs' \
    "$h" predict two.bin --model one --data test --with user -q
check 'of a pipe as soon as the line has come' python3 - "$h" <<'PYTHON'
import select, subprocess, sys
expected = open("words", "rb").readline()
user = open("test", "rb").readline()
with subprocess.Popen([sys.argv[1], "predict", "two.bin", "--model", "one", "--data", "-", "-q"], stdin=subprocess.PIPE,
                      stdout=subprocess.PIPE) as p:
    p.stdin.write(user)
    p.stdin.flush()
    ready = select.select([p.stdout], [], [], 60)[0]  # nothing more comes before it has answered
    assert ready and p.stdout.readline() == expected
    p.stdin.close()
    assert p.stdout.read() == b""
PYTHON
fails 1 'its words were counted when the graph was compiled' 'other words at run time' \
    "$h" two.bin --set items.count_min=2
fails 1 'nowhere: No such file' 'exclude a file that is not there' "$h" eval two.bin --model one --data test \
    --set eval.exclude=nowhere
mkdir away && cp two.bin away
fails 1 'away/train: No such file.*; train is taken relative to the folder of away/two.bin' \
    'exclude a file beside the graph' "$h" eval away/two.bin --model one --data test
finish

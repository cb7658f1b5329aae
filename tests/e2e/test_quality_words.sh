#!/bin/sh
# Real text (WikiText-2, its valid file to train on, its test file to test):
#   nce       perplexity over the whole vocabulary is within 15 % of that of the same net trained by the full
#             softmax, and below that of a unigram model; words seen three times and more
#   matchnet  a paragraph finds the one that follows it, among it and one from elsewhere, at least 0.70 of the
#             time, on pages held out
. "$(dirname "$0")/lib.sh"
text=$SHARED/wikitext2
if [ ! -r "$text/valid.txt" ]; then
    skip 'the quality of nce and matchnet on real text' "no $text"
    finish
fi
h=$HETERPS
cd "$work" || exit 1

# --- nce -------------------------------------------------------------------------------------------

small='--set in.dim=64 --set out.dim=65 --set hidden.units=64'
cat >full.cfg <<'CFG'
[model]
name = full
[data]
format = tokens
sparse = context
label  = next
window = 4
[vocabulary words]
column    = next
count_min = 3
unknown   = <unk>
[column context]
vocabulary = words
[column next]
vocabulary = words
[table in]
dim       = 64
init      = uniform 0.05
optimizer = adagrad 0.1
[embedding word_emb_x4]
table = in
input = context
pool  = none
[fc hidden]
input = word_emb_x4
units = 64
activation = tanh
[fc logits]
input = hidden
units = 1
[loss full]
kind  = softmax
input = logits
label = next
[train]
batch     = 256
optimizer = adagrad 0.05
CFG
# The vocabulary's size is what compiling prints.
"$h" compile "$root/samples/nce.cfg" -o nce.bin --set "words.path=$text/valid.txt" $small >compile.log 2>&1 ||
    note <compile.log
words=$(sed -n 's/^vocabulary *words: *\([0-9,]*\) words.*/\1/p' compile.log | tr -d ,)
"$h" compile full.cfg -o full.bin --set "words.path=$text/valid.txt" --set "logits.units=${words:-1}" -q || exit 1
for net in nce full; do
    "$h" $net.bin --data "$text/valid.txt" --eval "$text/test.txt" --log json --set train.epochs=${EPOCHS:-1} \
        --set store.ram=64MiB >$net.log || { not_ok "$net trains on real text"; finish; }
done
python3 - nce.log full.log "$text" <<'PYTHON' >verdict
import collections, json, math, sys
nce, full = [[e for e in map(json.loads, open(p)) if e["event"] == "eval"][-1]["perplexity"] for p in sys.argv[1:3]]
def tokens(name):
    for line in open(sys.argv[3] + "/" + name + ".txt", encoding="utf-8"):
        if line.split(): yield from line.split() + ["<eos>"]
count = collections.Counter(tokens("valid"))
known = {w: n for w, n in count.items() if n >= 3}
known["<unk>"] = sum(n for w, n in count.items() if w not in known or w == "<unk>")
total = sum(known.values())
loss = [-math.log(known.get(w, known["<unk>"]) / total) for w in tokens("test")]
unigram = math.exp(sum(loss) / len(loss))
print("# perplexity on the test text: nce %.1f, full softmax %.1f, unigram %.1f" % (nce, full, unigram))
print("ok" if nce <= 1.15 * full and nce < unigram else "not ok")
PYTHON
grep '^#' verdict
if [ "$(tail -1 verdict)" = ok ]; then
    ok 'nce comes within 15 % of the full softmax'
else
    not_ok 'nce comes within 15 % of the full softmax'
fi

# --- matchnet --------------------------------------------------------------------------------------

python3 - "$text" <<'PYTHON' || exit 1
import collections, random, re, sys
draw = random.Random(5)
pages = []
for name in ("valid", "test"):
    for line in open(sys.argv[1] + "/" + name + ".txt", encoding="utf-8"):
        words = line.split()
        if re.fullmatch(r" = [^=].*[^=] = \n", line): pages.append([])
        elif len(words) > 20 and pages: pages[-1].append(words)
draw.shuffle(pages)
common = {w for w, n in collections.Counter(w for page in pages for words in page for w in words).most_common(150)}
pages = [[[w for w in words if w not in common and '"' not in w] for words in page] for page in pages]
held_out = len(pages) // 5
for name, some, rounds in (("test", pages[:held_out], 1), ("train", pages[held_out:], 8)):
    everything = [(p, words) for p, page in enumerate(some) for words in page]
    rows = []
    for _ in range(rounds):
        for p, page in enumerate(some):
            for query, answer in zip(page, page[1:]):
                other = p
                while other == p: other, wrong = draw.choice(everything)
                rows.append("\t".join(" ".join(draw.sample(w, min(len(w), 20))) for w in (query, answer, wrong)))
    draw.shuffle(rows)
    open(name + ".tsv", "w", encoding="utf-8").write("query\tpos_title\tneg_title\n" + "\n".join(rows) + "\n")
PYTHON
"$h" compile "$root/samples/matchnet.cfg" -o matchnet.bin -q &&
    "$h" matchnet.bin --data train.tsv --eval test.tsv --log json --set store.ram=256MiB \
        --set train.epochs=2 >matchnet.log ||
    { not_ok 'matchnet trains on real text'; finish; }
accuracy=$(event_field matchnet.log eval accuracy)
echo "# matchnet: $(wc -l <train.tsv) pairs to train on, pair accuracy on pages held out $accuracy (at least 0.70)"
if python3 -c "import sys; sys.exit(not $accuracy >= 0.70)"; then
    ok 'matchnet finds the paragraph that follows'
else
    not_ok 'matchnet finds the paragraph that follows'
fi
finish

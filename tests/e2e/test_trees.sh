#!/bin/sh
# A Tree-LSTM from bracketed text: it learns, and gives the same bytes on one thread and on several, and from the
# cache; a child-sum one; bad lines and bad cells.
. "$(dirname "$0")/lib.sh"
. tests/e2e/process.sh
data=$folder/trees.txt graph=$folder/graph.bin
# The root's class is that of the greater part of its words; each inner node says its own parts'.
python3 - "$data" <<'PYTHON'
import random, sys
random.seed(3)
def tree(words):
    good = sum(w.startswith("good") for w in words) * 2 > len(words)
    if len(words) == 1: return "(%d %s)" % (good, words[0])
    cut = random.randrange(1, len(words))
    return "(%d %s %s)" % (good, tree(words[:cut]), tree(words[cut:]))
with open(sys.argv[1], "w") as file:
    for _ in range(600):
        print(tree([random.choice(("good%d", "bad%d")) % random.randrange(20) for _ in range(random.randrange(1, 12))]),
              file=file)
PYTHON
small='--set words.dim=12 --set t.dim=12 --set t.units=8 --set y.units=2 --set train.micro=5 --set train.epochs=3'
heterps compile samples/sst.cfg -o "$graph" $small || { echo "not ok 1 - fixture"; exit 1; }

check 'trains' trains plain "$graph" --data "$data"
check 'the same by one thread' trains_same plain "$graph" --data "$data" --threads 1
for by in agenda node learned; do
    heterps compile samples/sst.cfg -o "$folder/by.bin" $small --set t.batching=$by --set data.path="$data"
    check "the same by batches of $by" trains_same plain "$folder/by.bin" --data "$data"
done
check 'the same from the cache' trains_same plain "$graph" --data "$data" --set cache.ram=64MiB
check 'the same by three readers' trains_same plain "$graph" --data "$data" --set train.readers=3
learns() {
    heterps eval "$graph" --model "$folder/plain.model" --data "$data" >"$folder/eval" 2>&1
    grep -Eq 'accuracy of roots (0\.9[5-9]|1)' "$folder/eval"
}
check 'learns what the words say' learns
predicts() { # a line an example, and of one without a number, too
    printf '(leaf good1)\n(inner (leaf bad1) (leaf bad2))\n' >"$folder/lines"
    heterps predict "$graph" --model "$folder/plain.model" --data "$folder/lines" -o "$folder/out" &&
        [ "$(wc -l <"$folder/out")" = 2 ] &&
        awk 'NR == 1 { good = $1 } NR == 2 { exit !(good > $1) }' "$folder/out"
}
check 'predicts lines without a number' predicts
nodes() { # the root's line is the example's; a word's that of a tree of this word alone
    printf '(inner (leaf bad1) (inner (leaf good2) (leaf bad2)))\n(leaf good2)\n(inner (leaf a) (#0))\n' \
        >"$folder/lines"
    heterps predict "$graph" --model "$folder/plain.model" --data "$folder/lines" -o "$folder/out" &&
        heterps predict "$graph" --model "$folder/plain.model" --data "$folder/lines" --tree-nodes \
            --header -o "$folder/nodes" &&
        [ "$(cut -f 1,2 "$folder/nodes" | tr '\t\n' ': ')" = 'example:node 0:0 0:1 0:2 0:3 0:4 1:0 2:0 2:1 ' ] &&
        [ "$(sed -n '6p;7p;9p' "$folder/nodes" | cut -f 3)" = "$(cat "$folder/out")" ] &&
        [ "$(sed -n 3p "$folder/nodes" | cut -f 3)" = "$(sed -n 2p "$folder/out")" ]
}
check 'predict --tree-nodes gives a line a node' nodes
places() { # every policy, the tables, a page; the same seed learns the same (but for what is measured)
    heterps compile samples/sst.cfg -o "$folder/places.bin" --set t.units=40 &&
        "$HETERPS" plan "$folder/places.bin" --cluster cfg/h100.cfg \
            --trees 2 --evaluations 20 --html "$folder/places.html" \
            >"$folder/places" 2>&1 && python3 tests/e2e/page_check.py --quiet "$folder/places.html" &&
        methods='processor|card|left-right|state-output|random|DQN|climbed|learned|learned, climbed' &&
        [ "$(grep -Ec "^\| ($methods) \|" "$folder/places")" = 17 ]
}
check 'plan --trees places nodes' places
refuses_to_place() {
    refused "$1" heterps plan "$folder/places.bin" --trees 2 $2
}
refused() {
    expected=$1
    shift
    ! "$@" >"$folder/refused" 2>&1 && grep -Fq -e "$expected" "$folder/refused"
}
printf '[type a]\ndevice = cpu\nprice_per_hour = 1\nlimit = 1\n' >"$folder/host.cfg"
check 'plan --trees without a cluster' refuses_to_place 'give GRAPH and --cluster FILE' ''
check 'plan --trees without a card' refuses_to_place 'needs a type of another device' "--cluster $folder/host.cfg"
check 'plan --trees makes no plan' refuses_to_place '--trees makes no plan of layers' \
    "--cluster cfg/h100.cfg -o $folder/p"
check 'plan --grid alone' refused '--grid needs --trees N' heterps plan "$folder/places.bin" \
    --cluster cfg/h100.cfg --grid
no_trees() {
    heterps compile samples/lr.cfg -o "$folder/lr.bin" &&
        refused 'expected a graph with a [tree]' heterps plan "$folder/lr.bin" --cluster cfg/h100.cfg --trees 2
}
check 'plan --trees of a graph without trees' no_trees
check 'predict --tree-nodes of a graph without trees' refused 'expected a model whose only loss is' \
    heterps predict "$folder/lr.bin" --model "$folder/plain.model" --data "$folder/lines" --tree-nodes
refuses() {
    printf '(1 (0 a) (0 b))\n(1 (0 a))\n' >"$folder/bad"
    heterps "$graph" --data "$folder/bad" 2>"$folder/log"
    [ $? != 0 ] && grep -q 'bad:2: column 9: a node of kind inner takes 2 children, found 1' "$folder/log"
}
check 'refuses a node with too few children' refuses
node_labels() { # the root's is right, a part's is not; predict takes it
    printf '(1 (0 a) (0 b))\n(1 (0 a) (2 b))\n' >"$folder/bad"
    heterps "$graph" --data "$folder/bad" 2>"$folder/log"
    [ $? != 0 ] &&
        grep -q "bad:2: column 11: a node's number is its label: expected the number of a class, 0 to 1, found" \
            "$folder/log" &&
        heterps predict "$graph" --model "$folder/plain.model" --data "$folder/bad" -o "$folder/out"
}
check 'refuses a node of no class' node_labels
node_map() {
    heterps compile samples/sst.cfg -o "$folder/map.bin" $small --set data.label_map=1=1,*=0 &&
        ! heterps "$folder/map.bin" --data "$data" 2>"$folder/log" &&
        grep -q 'data.label_map maps roots, and the model has a loss at every node' "$folder/log"
}
check 'labels of nodes are not mapped' node_map
dot() {
    heterps inspect "$graph" --dot >"$folder/dot" && [ "$(grep -c 'shape=ellipse, label="tree"' "$folder/dot")" = 2 ]
}
check 'inspect draws the trees that nodes read' dot
# Words at all nodes, gates of each child: a child-sum Tree-LSTM.
dependencies() {
    cat >"$folder/sum.cfg" <<'CFG'
[data]
format = trees
sparse = word, tree
ids_max = 32
kinds = node
[table words]
dim = 6
[embedding e]
table = words
input = word
pool = none
[cell node]
s = sum(child.h)
c = sigmoid(affine(x, s)) * tanh(affine(x, s)) + sum(sigmoid(affine(x, child.h)) * child.c)
h = sigmoid(affine(x, s)) * tanh(c)
[tree t]
input = tree, e
units = 6
state = h, c
[fc y]
input = t
units = 1
[loss l]
input = y
[train]
batch = 20
epochs = 4
optimizer = adagrad 0.2
CFG
    sed -e :a -e 's/(\([01]\) (/(\1 of (/;ta' "$data" >"$folder/sum.txt"
    heterps compile "$folder/sum.cfg" -o "$folder/sum.bin" && trains sum "$folder/sum.bin" --data "$folder/sum.txt" &&
        trains_same sum "$folder/sum.bin" --data "$folder/sum.txt" --threads 1 &&
        "$HETERPS" eval "$folder/sum.bin" --model "$folder/sum.model" --data "$folder/sum.txt" 2>&1 |
        grep -Eq ' AUC (0\.9|1)'
}
check 'words of parents, and any number of children' dependencies
sequences() { # the class is the first word's, of one to six
    python3 - "$folder/sequences.txt" <<'PYTHON'
import random, sys
random.seed(5)
with open(sys.argv[1], "w") as file:
    for _ in range(1200):
        words = [random.choice(("good%d", "bad%d")) % random.randrange(5) for _ in range(random.randrange(1, 7))]
        line = ""
        for i, word in enumerate(words):
            kind = "step" if i + 1 < len(words) else int(words[0].startswith("good"))
            line = "(%s %s%s)" % (kind, word, line and " " + line)
        print(line, file=file)
PYTHON
    for what in lstm elman; do
        sed "$1" samples/sequence.cfg >"$folder/$what.cfg"
        [ $what = lstm ] || sed -i -e '/^[ifouc] = /d' -e 's/^h = .*/h = tanh(affine(x, s))/' \
                -e 's/^state = .*/state = h/' "$folder/$what.cfg"
        heterps compile "$folder/$what.cfg" -o "$folder/$what.bin" --set t.units=24 --set words.dim=12 --set t.dim=12 &&
            trains $what "$folder/$what.bin" --data "$folder/sequences.txt" &&
            "$HETERPS" eval "$folder/$what.bin" --model "$folder/$what.model" \
                --data "$folder/sequences.txt" >"$folder/$what.eval" 2>&1 || return 1
    done
    grep -Eq ' AUC (0\.9[5-9]|1)' "$folder/lstm.eval" && grep -Eq ' AUC (0\.[89]|1)' "$folder/elman.eval"
}
check 'an LSTM, and Elman'"'"'s net, over sequences' sequences ''
math() { # values of 200 expressions; the longest chains of float32 may be a few units of its last place away
    heterps compile samples/mathfunc.cfg -o "$folder/math.bin" &&
        heterps gen mathfunc --rows 200 -o "$folder/math.txt" &&
        trains math "$folder/math.bin" --data "$folder/math.txt" &&
        heterps predict "$folder/math.bin" --model "$folder/math.model" \
            --data "$folder/math.txt" -o "$folder/math.out" &&
        sed 's/^([a-z]*:\([^ )]*\).*/\1/' "$folder/math.txt" | paste - "$folder/math.out" |
        awk '{ d = $1 - $2; s = $1 * $1 > 1 ? $1 : 1; if ((d / s) ^ 2 > 1e-12) far++ }
            END { exit !(NR == 200 && far <= 1) }'
}
check 'cells compute MathFunc' math
says() { # PATTERN SED: what compiling samples/sst.cfg changed so says
    sed "$2" samples/sst.cfg >"$folder/changed.cfg"
    ! "$HETERPS" compile "$folder/changed.cfg" -o "$folder/changed.bin" 2>"$folder/log" && grep -q "$1" "$folder/log"
}
check 'cells that read x need its vectors' says 'expected an \[embedding\] with pool = none as the second input' \
    's/^input = tree, d$/input = tree/'
check 'outside of affine x is a state wide' says 'expected dim = units = 150, found dim = 300' \
    's/^c = affine(x)$/c = x + number/'
check 'nodes are no words' says 'the column tree holds nodes, which go into a \[tree\]; expected word' \
    's/^input = word$/input = tree/'
check 'words are no nodes' says 'expected the column tree of data.format = trees, found word of trees' \
    's/^input = tree, d$/input = word, d/'
check 'nor are columns of another format' says 'expected the column tree of data.format = trees, found tree of csv' \
    's/^format = trees$/format = csv/'
scores='expected scores of 2 classes or more for each of 128 nodes (ids_max of the trees)'
check 'scores are of each node' says "$scores, found 320 columns; \[fc\] groups = 128" \
    's/^groups = 128 .*/groups = 64/'
check 'a loss of nodes needs the trees' \
    says 'expected two inputs, scores of all nodes and the field of trees, found 1' 's/^input = y, tree$/input = y/'
check 'a cell of no kind' says 'expected the name of a kind of nodes, data.kinds = leaf, inner' \
    's/^\[cell leaf\]/[cell leave]/'
finish

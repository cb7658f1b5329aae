#!/bin/sh
# Models as ONNX: onnxruntime predicts what `predict` does, of samples and of a net that has the rest of the
# operators; and what has no equivalent is refused by its name. onnxruntime is taken from pip once, into
# build/onnx.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/process.sh"
here=$root/tests/e2e
cd "$work" || exit 1
h=$HETERPS
samples=$root/samples

exports() {
    heterps export "$1.bin" --model "$1.model" --format onnx -o "$1.onnx" --set store.ram=64MiB && [ -s "$1.onnx" ]
}
runs_as() { # NAME FORMAT [MISSING]
    heterps predict "$1.bin" --model "$1.model" --data "$1.test" -o "$1.predictions" --set store.ram=64MiB &&
        "$python" "$here/onnx_check.py" "$1.onnx" "$2" "$1.test" "$1.predictions" ${3:-} >checked ||
        { cat checked; return 1; }
    cat checked
}
# net WHAT NAME FORMAT [MISSING]: as a net, which onnxruntime runs.
net() {
    what=$1
    shift
    check "$what: a net is written" exports "$1"
    if [ -n "$python" ]; then
        check "$what: onnxruntime predicts the same" runs_as "$@"
    else
        skip "$what: onnxruntime predicts the same" "$pip_why"
    fi
}
trained() {
    heterps "$1.bin" --data "$1.train" --out "$1.model" --set train.batch=64 --set train.epochs=1 --set store.ram=64MiB
}

pip_python onnx 'numpy, onnx, onnxruntime, xxhash' numpy onnx onnxruntime xxhash || echo "# $pip_why"

# sample NAME FORMAT MISSING [--set …]: 1,500 rows to train on, 300 to test, half of whose keys have been seen.
sample() {
    name=$1 format=$2 missing=$3
    shift 3
    heterps compile "$samples/$name.cfg" -o "$name.bin" "$@" --set train.precision=f32
    if [ "$format" = criteo ]; then what=criteo; else what=$name.bin; fi
    heterps gen "$what" --rows 1500 --vocab 100 -o "$name.train" && heterps gen "$what" \
            --rows 300 --skip 1500 --vocab 100 -o "$name.test" && trained "$name" || not_ok "$name trains"
    net "$name" "$name" "$format" "$missing"
}
sample wide_deep criteo ''
sample deepfm criteo ''
sample dlrm criteo ''
sample din csv ''
sample adult csv '?'
sample 2emb libsvm ''
sample ctrdnn8 libffm ''
sample dcnv2 tsv '' --set emb.dim=8 --set b3.units=8 --set v1.units=16 --set v2.units=16 --set v3.units=16 \
    --set u1.units=216 --set u2.units=216 --set u3.units=216 \
    --set t1.units=32 --set t2.units=32 --set t3.units=16

# What samples do not have.
cat >rest.cfg <<'CFG'
[data]
format = csv
label = click, kind, amount
dense = age, 2
sparse = job, tags, place, other
transform = none
missing_value = 0.25
[column tags]
ids_max = 3
[column other]
ids_max = 3
[table t]
dim = 4
init = uniform 0.5
[embedding most]
table = t
input = tags, job
pool = max
[embedding mean]
table = t
input = tags
pool = mean
[embedding apart]
table = t
input = tags, other
pool = none
[embedding place_e]
table = t
input = place
[slice tags_e]
input = apart
end = 12
[fc score]
input = tags_e
groups = 3
units = 1
activation = softsign
[attention_pool pooled]
input = score, tags_e, tags
normalise = softmax
[attention_pairs pairs]
input = place_e, tags_e
[sum_pool summed]
input = apart
dim = 4
rows = 3
[reshape turned]
input = apart
rows = 6
transpose = yes
[match near]
input = place_e, apart
similarity = cosine
scale = 3
[match dots]
input = mean, apart
[softmax parts]
input = turned
groups = 4
[fm squares]
input = apart
dim = 4
reduce = no
[concat all]
input = most, mean, pooled, pairs, summed, near, dots, parts, squares, dense
[batch_norm normal]
input = all
[data_norm scaled]
input = dense
[fc h]
input = normal
units = 8
activation = tanh
[leaky_relu bent]
input = h
slope = 0.2
[dropout dropped]
input = bent
rate = 0.3
[concat numbers]
input = scaled, 2
[fc g]
input = numbers
units = 8
activation = leaky_relu
[mul both]
input = dropped, g
[sigmoid gate]
input = both
[add sum]
input = gate, h
[relu cut]
input = sum
[tanh th]
input = cut
[softsign soft]
input = th
[fc y]
input = soft
units = 1
[fc classes]
input = soft
units = 4
[fc two]
input = soft
units = 2
[fc value]
input = soft
units = 1
[loss bce]
input = y
label = click
[loss classes_loss]
kind = softmax
input = classes
label = kind
[loss two_loss]
kind = softmax
input = two
label = click
[loss squared_loss]
kind = squared
input = value
label = amount
[metric right]
kind = accuracy
input = classes
label = kind
[store]
ram = 64MiB
CFG
awk 'BEGIN { srand(7); print "age,2,job,tags,place,other,click,kind,amount"
    for (i = 0; i < 1800; i++) {
        t = ""
        n = int(rand() * 4)
        for (k = 0; k < n; k++) t = t (k ? "|" : "") "t" int(rand() * 60)
        printf "%s,%.3f,j%d,%s,%s,%s,%d,%d,%.3f\n",
            rand() < 0.1 ? "" : int(rand() * 80) - 20, rand() * 5, rand() * 90, t,
            rand() < 0.2 ? "" : "p" int(rand() * 9), rand() < 0.3 ? "" : "t1|t2",
            rand() < 0.4, rand() * 4, rand() * 10
    } }' >rest.all
head -1501 rest.all >rest.train
{ head -1 rest.all; tail -299 rest.all; } >rest.test
check 'a net of the other operators compiles' heterps compile rest.cfg -o rest.bin
check 'and trains' trained rest
net 'the other operators' rest csv

# Columns of which only words of a vocabulary count, and absent texts that have a key.
cat >words.cfg <<'CFG'
[data]
format = csv
label = click
sparse = job, tags, place
path = rest.train
missing = key
[column job]
vocabulary = jobs
[column tags]
ids_max = 3
vocabulary = tags
[vocabulary jobs]
column = job
count_min = 18
[vocabulary tags]
column = tags
count_min = 36
unknown = <unk>
[table t]
dim = 4
init = uniform 0.5
[embedding mean]
table = t
input = tags
pool = mean
[embedding apart]
table = t
input = tags
pool = none
[embedding one]
table = t
input = job, place
[concat all]
input = mean, apart, one
[fc y]
input = all
units = 1
[loss bce]
input = y
label = click
CFG
heterps compile words.cfg -o words.bin && cp rest.train words.train && cp rest.test words.test && trained words ||
    not_ok 'a model of vocabularies trains'
net 'words of vocabularies and keys of absent texts' words csv

awk 'BEGIN {
    srand(4)
    for (u = 0; u < 50; u++) { s = "u" u; for (i = 0; i < 8; i++) s = s " i" int(rand() * 30); print s }
}' >two_tower.train
heterps compile "$samples/two_tower.cfg" -o two_tower.bin --set "items.path=$work/two_tower.train" &&
    trained two_tower || not_ok 'two towers train'
fails 1 'ranks the words of a vocabulary, which has no equivalent' 'words' \
    "$h" export two_tower.bin --model two_tower.model --format onnx -o x
heterps compile rest.cfg -o half.bin --set train.precision=bf16 --set model.rules=11 &&
    heterps half.bin --data rest.train --out half.model || not_ok 'training in bfloat16'
fails 1 '\[fc (h|score|g)\] multiplies in bf16, which has no equivalent' 'bfloat16' \
    "$h" export half.bin --model half.model --format onnx -o x
fails 1 'table t reads keys without a row as their initial values' 'first values' \
    "$h" export rest.bin --model rest.model --format onnx -o x --set t.unseen=init
finish

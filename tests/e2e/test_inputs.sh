#!/bin/sh
# Nothing that a run writes takes the place of what it reads, by whatever name; and a data cache replaces data
# caches only.
. "$(dirname "$0")/lib.sh"
tiny_model && "$HETERPS" gen criteo --rows 600 -o "$work/data.tsv" -q &&
    "$HETERPS" gen criteo --rows 100 --seed 3 -o "$work/more.tsv" -q &&
    "$HETERPS" "$work/tiny.bin" --data "$work/data.tsv" --out "$work/model" -q || { echo "not ok 1 - fixture"; exit 1; }
cd "$work" || exit 1
cat >cluster.cfg <<'CFG'
[type cpu]
device = cpu
price_per_hour = 1
limit = 2
[goal]
throughput = 1000
CFG
ln data.tsv hard.tsv && ln -s data.tsv soft.tsv && ln -s model/manifest.json link.json
"$HETERPS" compile tiny.cfg -o path.bin --set data.path=data.tsv --set data.eval=more.tsv -q
sed 's/^dense = .*/&\ntransform = standard\npath = data.tsv/' tiny.cfg >standard.cfg
dense=$(ls model/dense.*) rows=$(ls model/emb.*)
sums() { find . -type f ! -name '.*' -exec md5sum {} + | sort; }
sums >.before
# spares PATTERN NAME ARGUMENT...: a wrong command line, and every file is as it was.
spares() {
    pattern=$1 name=$2
    shift 2
    fails 2 "$pattern" "$name" "$HETERPS" "$@"
    sums | cmp -s .before - || { not_ok "$name: a file has changed"; sums | diff .before - | head -3 | note; }
}
spares 'tiny.cfg is to be written, and is the same file as tiny.cfg, which is read; give another name' \
    'compile onto its text' compile tiny.cfg -o tiny.cfg
spares 'same file as .*data.tsv' 'compile onto what its text reads' compile standard.cfg -o soft.tsv
spares 'same file as --data data.tsv' 'predict onto its data' predict tiny.bin --model model --data data.tsv -o data.tsv
spares 'hard.tsv is to be written, and is the same file as --data more.tsv,data.tsv|same file as --data data.tsv' \
    'by a hard link, of several' predict tiny.bin --model model --data more.tsv,data.tsv -o hard.tsv
spares 'soft.tsv .* data.tsv' 'by a symbolic link' predict tiny.bin --model model --data data.tsv -o soft.tsv
spares 'link.json is to be written, and is the manifest of a saved model' \
    'predict onto the manifest of its model' predict tiny.bin --model model --data data.tsv -o link.json
spares 'emb.*rows' 'predict onto the rows of its model' predict tiny.bin --model model --data data.tsv -o "$rows"
spares 'tiny.bin' 'predict onto its graph' predict tiny.bin --model model --data data.tsv -o tiny.bin
fails 2 'standard output is to be written, and is the same file as --data data.tsv' 'predict >> its data' \
    sh -c "'$HETERPS' predict tiny.bin --model model --data data.tsv >>data.tsv"
spares 'tiny.bin' 'gen onto its graph' gen tiny.bin --rows 5 -o tiny.bin
spares 'same file as --data' 'a trace onto the data' tiny.bin --data data.tsv --trace hard.tsv
spares 'same file as data.path' 'a trace onto the data that the graph names' path.bin --trace data.tsv
spares 'same file as data.eval' 'a trace onto the evaluation data that the graph names' path.bin --trace more.tsv
spares 'same file as --cluster' 'profile onto its cluster' profile tiny.bin --cluster cluster.cfg -o cluster.cfg
spares 'same file as --cluster' 'plan onto its cluster' plan tiny.bin --cluster cluster.cfg -o cluster.cfg
spares 'same file as --cluster' 'plan --html onto its cluster' plan tiny.bin --cluster cluster.cfg --html cluster.cfg
spares 'same file as --cluster' 'plan --instance-out' plan tiny.bin --cluster cluster.cfg --instance-out cluster.cfg
spares 'tiny.bin' 'plan --curve onto the graph' plan tiny.bin --cluster cluster.cfg --curve tiny.bin
# Nor of what another run would read.
cp -r model second && "$HETERPS" export tiny.bin --model model --for serving -o lean.bin -q &&
    "$HETERPS" compile tiny.cfg -o exclude.bin --set eval.exclude=more.tsv -q && sums >.before
lost='which would be lost; give another name, or remove the file first'
spares "second/manifest.json is to be written, and is the manifest of a saved model, $lost" \
    'a trace onto a manifest' tiny.bin --data data.tsv --trace second/manifest.json
spares "is the manifest of a saved model" 'compile onto a manifest' compile tiny.cfg -o second/manifest.json
spares "is rows of a model, $lost" 'gen onto rows' gen criteo --rows 5 -o "second/${rows##*/}"
spares "is rows of a model, $lost" 'export --for serving onto rows' export tiny.bin --model model \
    --for serving -o "second/${rows##*/}"
spares "is a file of a saved model, $lost" 'export of onnx onto parameters' export tiny.bin --model model \
    --format onnx -o "second/${dense##*/}"
spares "is the lock of a saved model, $lost" 'predict onto a lock' predict tiny.bin --model model \
    --data data.tsv -o second/lock
spares "is a graph, $lost" 'predict onto a graph' predict tiny.bin --model model --data data.tsv -o path.bin
spares "is a graph with its model, $lost" 'compile onto a model for serving' compile tiny.cfg -o lean.bin
spares "is a graph, $lost" 'export --for serving onto a graph' export tiny.bin --model model --for serving -o path.bin
spares 'same file as eval.exclude' 'a trace onto whose users are known' exclude.bin --data data.tsv --trace more.tsv
mkdir out && ln "$dense" out/dense.safetensors && sums >.before
spares "out/dense.safetensors .* $dense" 'export onto a file of its model' export tiny.bin --model model -o out

# The data cache.
for victim in data.tsv tiny.bin model/manifest.json "$dense" soft.tsv /dev/null; do
    fails 1 "$victim: expected a data cache, or nothing, found another file, .*give another cache.path" \
        "a data cache onto $victim" \
        "$HETERPS" tiny.bin --data data.tsv --set cache.ssd=64MiB --set cache.path="$victim"
done
cp more.tsv free.new && cp more.tsv other.eval && sums >.before
fails 1 'free.new: expected a data cache' 'a data cache beside which lies another file' \
    "$HETERPS" tiny.bin --data data.tsv --set cache.ssd=64MiB --set cache.path=free
fails 1 'other.eval: expected a data cache' 'the cache of evaluation' \
    "$HETERPS" tiny.bin --data data.tsv --eval more.tsv --set eval.every=2 --set cache.ssd=64MiB \
    --set cache.path=other
sums | cmp -s .before - && [ -c /dev/null ] && ok 'all of them are as they were' ||
    not_ok 'all of them are as they were'
: >empty.cache
check 'an empty file is taken' "$HETERPS" tiny.bin --data data.tsv -q --set cache.ssd=64MiB --set cache.path=empty.cache
kept() {
    [ -s empty.cache ] && cp empty.cache first.cache && cat more.tsv >>data.tsv && "$HETERPS" tiny.bin \
            --data data.tsv -q --set cache.ssd=64MiB --set cache.path=empty.cache && other_bytes empty.cache first.cache
}
check 'a data cache of other data is replaced' kept
# What is replaced rightly.
again() {
    "$HETERPS" tiny.bin --data data.tsv --continue model -q &&
        "$HETERPS" tiny.bin --data data.tsv --init model --out model2 -q
}
check 'a model that is resumed is saved where it was' again
check 'compile anew, and export --for serving' sh -c "'$HETERPS' compile tiny.cfg -o path.bin -q &&
    '$HETERPS' export tiny.bin --model model --for serving -o lean.bin -q"
check 'predict onto another file' "$HETERPS" predict tiny.bin --model model --data data.tsv -o more.tsv -q

# Names with commas.
rows 600 data.tsv && rows 100 more.tsv 900 && mkdir 'g,h' && cp data.tsv 'g,h/a,b.tsv' && cp more.tsv 'g,h/c,d.tsv' &&
    "$HETERPS" compile tiny.cfg -o 'g,h/own.bin' --set 'data.path=a\,b.tsv, c\,d.tsv' -q ||
    not_ok 'names with commas: fixture'
with_commas() {
    set -- tiny.bin --data 'g\,h/a\,b.tsv, g\,h/c\,d.tsv' --eval 'day=g\,h/c\,d.tsv' --set cache.ssd=64MiB -q
    "$HETERPS" "$@" --out part --set train.steps_max=3 && grep -q '"g,h/a,b.tsv"' part/manifest.json &&
        grep -q '"g,h/c,d.tsv"' part/manifest.json && "$HETERPS" "$@" --resume part &&
        [ -s 'g,h/a,b.tsv.cache' ] && [ -s 'g,h/c,d.tsv.eval.day.cache' ] &&
        "$HETERPS" tiny.bin --data data.tsv,more.tsv --out plain -q && "$HETERPS" 'g,h/own.bin' --out own -q || return 1
    for model in part plain own; do "$HETERPS" export tiny.bin --model $model -o $model.x -q || return 1; done
    diff -r part.x plain.x && diff -r own.x plain.x
}
check 'names with commas: trained, cached and resumed as others' with_commas
sums >.before
spares 'same file as --data g,h/c,d.tsv' 'predict onto one of them' predict tiny.bin --model model \
    --data 'data.tsv,g\,h/c\,d.tsv' -o 'g,h/c,d.tsv'
fails 1 'error: g: No such file or directory; a comma in a name is written as \\,: g,h/c,d.tsv' 'a comma that is not' \
    "$HETERPS" predict tiny.bin --model model --data g,h/c,d.tsv -q
finish

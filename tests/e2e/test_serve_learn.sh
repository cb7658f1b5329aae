#!/bin/sh
# Learning from lines that are sent, beside predicting: the bytes are those of a training from a file,
# whatever the requests, whoever is killed, and however late labels come.
. "$(dirname "$0")/lib.sh"
here=$root/tests/e2e
cd "$work" || exit 1
h=$HETERPS
tiny_model
rows 1000 rows.tsv
rows 3840 next.tsv 1000
"$h" tiny.bin --data rows.tsv --out model -q </dev/null || not_ok 'training'
lists_model
printf 'id,age,job,tags,click\n1,30,smith,a|b,1\n2,40,cook,,0\n' >one.csv
"$h" csv.bin --data one.csv --out csv.model -q

client_checks 4 "$here/learn_check.py" "$h" "$work"

fails 1 'no model' 'a model that is not there' "$h" serve tiny.bin --model nowhere --listen 127.0.0.1:0 --learn
ln -s model again
fails 2 'expected a directory of its own for each model, found again for both one and two' 'a directory of two models' \
    "$h" serve --model one=tiny.bin:model --model two=tiny.bin:again --listen 127.0.0.1:0 --learn -q
cp -r model ssd
fails 2 'expected rows in memory, found store.ssd' 'rows on disk' "$h" serve tiny.bin --model ssd --listen 127.0.0.1:0 \
    --learn -q --set store.ssd=16MiB --set store.path=rows
finish

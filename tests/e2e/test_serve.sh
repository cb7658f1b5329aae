#!/bin/sh
# Predictions over HTTP: answers are those of predict, whoever asks beside; what is refused, what is bounded,
# and how it ends.
. "$(dirname "$0")/lib.sh"
here=$root/tests/e2e
cd "$work" || exit 1
h=$HETERPS
tiny_model
rows 3000 rows.tsv
"$h" tiny.bin --data rows.tsv --out model -q </dev/null || not_ok 'training'
"$h" predict tiny.bin --model model --data rows.tsv -o plain -q
lists_model
printf 'id,age,job,"day",tags,click\n1, 30 ,"smith, ""J""",mon,a|b,1\n2,40,cook,tue,,0\n' >one.csv
"$h" csv.bin --data one.csv --out csv.model -q
"$h" predict csv.bin --model csv.model --data one.csv -o csv.plain -q

awk 'BEGIN {
    srand(4)
    for (u = 0; u < 150; u++) { s = "u" u; for (i = 0; i < 8; i++) s = s " i" int(rand() * 30); print s }
}' >pairs
cut -d ' ' -f 1 pairs >users.txt
"$h" compile "$root/samples/two_tower.cfg" -o towers.bin --set "items.path=$work/pairs" \
    --set "eval.exclude=$work/pairs" --set items_table.dim=8 -q
"$h" towers.bin --data pairs --out towers.model --set train.batch=128 -q </dev/null || not_ok 'training of two towers'
"$h" predict towers.bin --model towers.model --data users.txt -o towers.plain -q

client_checks 13 "$here/serve_check.py" "$h" "$work"

# --- what it does not start with --------------------------------------------------------------------------------------

fails 2 '--learn-threads is for --learn: give --learn' 'threads that learn where nothing is learned' \
    "$h" serve tiny.bin --model model --listen 127.0.0.1:0 --learn-threads 2
fails 2 'expected ADDR:PORT in numbers' 'an address that is none' "$h" serve tiny.bin --model model --listen here:80
fails 2 'expected ADDR:PORT in numbers' 'a port that is none' "$h" serve tiny.bin --model model --listen 127.0.0.1:65536
fails 2 'reached from other machines: give --token-file FILE, or --insecure' 'an address of other machines' \
    "$h" serve tiny.bin --model model --listen 0.0.0.0:0
fails 2 'reached from other machines' 'all addresses of IPv6' "$h" serve tiny.bin --model model --listen '[::]:0'
echo '# none' >none
fails 1 'expected a token of 16 bytes or more on each line, found none' 'a file without tokens' \
    "$h" serve tiny.bin --model model --listen 127.0.0.1:0 --token-file none
echo 0123456789abcdef >tokens
fails 2 'exclude each other' 'tokens, and none' "$h" serve tiny.bin --model model --listen 127.0.0.1:0 \
    --token-file tokens --insecure
fails 2 'expected NAME=GRAPH:DIR' 'a model without a graph' "$h" serve --model model --listen 127.0.0.1:0
fails 2 'two models are called a' 'a name twice' "$h" serve --model a=tiny.bin:model \
    --model a=tiny.bin:model --listen 127.0.0.1:0
fails 2 'given twice' 'two models of a graph' "$h" serve tiny.bin --model model --model model --listen 127.0.0.1:0
fails 1 'no model' 'a model that is not there' "$h" serve tiny.bin --model nowhere --listen 127.0.0.1:0
fails 1 'the graph has' "another graph's model" "$h" serve csv.bin --model model --listen 127.0.0.1:0
finish

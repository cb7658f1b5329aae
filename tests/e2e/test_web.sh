#!/bin/sh
# Data at addresses of the web: the bytes of training from the file, whatever the server is like; resumed in
# the middle, from the file and from the address; kept by the data cache; on two nodes; predicted; what is
# refused, and in which words.
. "$(dirname "$0")/lib.sh"
. tests/e2e/process.sh
data=$folder/data.tsv graph=$folder/graph.bin test=$folder/test.tsv
examples=$(scaled 20000)
heterps gen criteo --rows $examples --seed 5 -o "$data" &&
    heterps gen criteo --rows 1000 --seed 5 --skip $examples -o "$test" &&
    heterps compile samples/ctrdnn1.cfg -o "$graph" --set train.batch=500 --set train.micro=125 \
        --set train.lanes=4 --set train.epochs=2 &&
    gzip -k "$data" || { echo "not ok 1 - fixture"; exit 1; }
python3 tests/e2e/web_server.py "$folder" "$folder/asked" >"$folder/port" 2>"$folder/server.err" &
helpers="$helpers $!"
for look in $(seq 200); do
    [ ! -s "$folder/port" ] || break
    sleep 0.1
done
at=http://127.0.0.1:$(cat "$folder/port")

check 'from the file' trains plain "$graph" --data "$data"
check 'from its address' trains_same plain "$graph" --data "$at/data.tsv?secret=abc"
check 'packed' trains_same plain "$graph" --data "$at/data.tsv.gz"
check 'by several readers' trains_same plain "$graph" --data "$at/data.tsv" --set train.readers=2
check 'from a server that cuts connections' trains_same plain "$graph" --data "$at/data.tsv?cut=150000"
check 'from one that is busy now and then' trains_same plain "$graph" --data "$at/data.tsv?busy"
check 'from WebHDFS, whose data node is elsewhere' trains_same plain "$graph" \
    --data "$at/webhdfs/v1/data.tsv?op=OPEN&user.name=me"
whole() {
    trains_same plain "$graph" --data "$at/data.tsv?whole" || return 1
    rm -rf "$folder/whole.model"
    # Each address once, however often it is asked: to read, and what it is for the data cache and for the save.
    "$HETERPS" "$graph" --data "$at/data.tsv?whole,$at/test.tsv?whole" --set train.epochs=1 --set cache.ssd=64MiB \
        --set cache.path="$folder/w" \
        --out "$folder/whole.model" 2>"$folder/log" >"$folder/out" &&
        [ "$(grep -c 'without ranges' "$folder/log")" = 2 ] &&
        [ "$(grep -c 'data.tsv: its server answers without ranges' "$folder/log")" = 1 ]
}
check 'from one without ranges, which is said once' whole
chunked() { # a stream: for several passes by a cache alone
    ! heterps "$graph" --data "$at/data.tsv?chunked&secret=abc" 2>"$folder/log" &&
        grep -q 'data.tsv is a stream and can be read once' "$folder/log" && ! grep -q secret "$folder/log" &&
        trains_same plain "$graph" --data "$at/data.tsv?chunked" --set cache.ram=64MiB
}
check 'from one that tells no size, by a data cache' chunked
named() { # by the graph
    heterps compile samples/ctrdnn1.cfg -o "$folder/named.bin" --set train.batch=500 --set train.micro=125 \
        --set train.lanes=4 --set train.epochs=2 --set "data.path=$at/data.tsv" &&
        trains_same plain "$folder/named.bin" --trust-paths
}
check 'named by the graph' named
steady() {
    "$HETERPS" "$graph" --data "$at/data.tsv" --set cache.ssd=64MiB --set cache.path="$folder/s" \
        --log json >"$folder/log" && grep -q '"allocations":0,"locks":0' "$folder/log"
}
if [ $sanitized = yes ]; then
    skip 'steps allocate nothing' 'a sanitizer counts in its own way'
else
    check 'steps allocate nothing' steady
fi

cached() { # and read by later runs, for which the address is signed anew
    rm -f "$folder/c"
    trains_same plain "$graph" --data "$at/data.tsv?signed=1" --set cache.ssd=64MiB \
        --set cache.path="$folder/c" || return 1
    trains_same plain "$graph" --data "$at/data.tsv?signed=2" --set cache.ssd=64MiB \
        --set cache.path="$folder/c" -v 2>"$folder/log" || return 1
    rm -rf "$folder/later.model"
    "$HETERPS" "$graph" --data "$at/data.tsv?signed=3" --set cache.ssd=64MiB \
        --set cache.path="$folder/c" 2>"$folder/log" >"$folder/out" &&
        grep -q "$examples examples, .* read in place" "$folder/log"
}
check 'kept by the data cache' cached
# changed: of the same size and version, or without one: another run reads it anew, and asks for little where
# nothing has changed
changed() {
    for way in version plain; do
        rm -f "$folder/d"
        cp "$test" "$folder/day.tsv"
        for is in 0 0 1; do
            printf $is | dd of="$folder/day.tsv" conv=notrunc status=none
            rm -rf "$folder/$way.model"
            : >"$folder/asked"
            "$HETERPS" "$graph" --data "$at/day.tsv?$way" --out "$folder/$way.model" --set cache.ssd=64MiB \
                --set cache.path="$folder/d" \
                2>"$folder/log" >"$folder/out" || return 1
            [ $is = 1 ] || [ $way = plain ] || bytes=$(awk '{ sum += $4 } END { print sum }' "$folder/asked")
        done
        grep -q 'day.tsv has changed; it is written anew' "$folder/log" || return 1
    done
    exported "$graph" "$folder/version.model" version &&
        trains_same version "$graph" --data "$folder/day.tsv" || return 1
    echo "$bytes bytes of $(wc -c <"$test")"
    [ "$bytes" -lt 50000 ]
}
check 'changed without another version' changed
fails 1 'the data is an address, which gives the file no name; give cache.path' 'a cache without a path' \
    heterps "$graph" --data "$at/data.tsv" --set cache.ssd=64MiB

resumed() { # FIRST SECOND: stopped in the middle of a pass over the one, gone on with over the other
    rm -rf "$folder/part.model"
    heterps "$graph" --data "$1" --out "$folder/part.model" \
        --set train.steps_max=$((examples / 500 * 3 / 4)) || return 1
    heterps "$graph" --data "$2" --resume "$folder/part.model" &&
        exported "$graph" "$folder/part.model" part && same_bytes plain part
}
check 'stopped, and resumed at the address' resumed "$at/data.tsv" "$at/data.tsv?signed=2"
check 'resumed from the file at the address' resumed "$data" "$at/data.tsv"
check 'resumed from the address on the file' resumed "$at/data.tsv?whole" "$data"
check 'resumed where there are no ranges' resumed "$data" "$at/data.tsv?whole"
no_secret() {
    resumed "$at/data.tsv?secret=abc" "$at/data.tsv" && grep -q "$at/data.tsv\"" "$folder/part.model/manifest.json" &&
        ! grep -rq secret=abc "$folder/part.model"
}
check 'a save keeps no query' no_secret
other() {
    rm -rf "$folder/part.model"
    heterps "$graph" --data "$at/data.tsv" --out "$folder/part.model" --set train.steps_max=3 || return 1
    ! heterps "$graph" --data "$at/test.tsv" --resume "$folder/part.model" 2>"$folder/log" &&
        grep -q 'it is other data' "$folder/log"
}
check 'other data is refused' other

evaluates() {
    heterps eval "$graph" --model "$folder/plain.model" --data "$test" --log json >"$folder/of_file" &&
        heterps eval "$graph" --model "$folder/plain.model" --data "$at/test.tsv" \
            --log json >"$folder/of_web" || return 1
    for f in of_file of_web; do
        sed 's/"seconds":[^,}]*//; s/"time":[^,}]*//; s/"[a-z_]*_per_s":[^,}]*//' "$folder/$f" |
            grep -o '"auc":[0-9.]*\|"logloss":[0-9.]*' >"$folder/$f.figures"
    done
    [ -s "$folder/of_file.figures" ] && cmp "$folder/of_file.figures" "$folder/of_web.figures"
}
check 'evaluated' evaluates
predicts() {
    heterps predict "$graph" --model "$folder/plain.model" --data "$test" -o "$folder/p1" &&
        heterps predict "$graph" --model "$folder/plain.model" --data "$at/test.tsv?cut=5000" -o "$folder/p2" &&
        cmp "$folder/p1" "$folder/p2"
}
check 'predicted' predicts
nodes() {
    rm -rf "$folder/nodes.model"
    "$HETERPS" launch --local 2 -- "$graph" --data "$at/data.tsv?cut=200000" --out "$folder/nodes.model" \
        -q >"$folder/log" 2>&1 && exported "$graph" "$folder/nodes.model" nodes && same_bytes plain nodes
}
check 'on two nodes' nodes
unsized() {
    ! "$HETERPS" launch --local 2 -- "$graph" --data "$at/data.tsv?chunked" \
        --set train.epochs=1 -q >"$folder/log" 2>&1 &&
        grep 'error: .*data.tsv is a stream, and node 0.s data are not: .* only addresses whose server tells the size' \
            "$folder/log" || { cat "$folder/log"; false; }
}
check 'on two nodes, of a server that tells no size: refused' unsized

fails 1 'data.txt: 127.0.0.1:[0-9]* answers 404 Not Found; look whether' 'nothing there' heterps "$graph" \
    --data "$at/data.txt?secret=abc"
for address in 's3://bucket/data.tsv presigned' 'hdfs://name/data.tsv WebHDFS' 'FTP://host/data.tsv copy.it.here'; do
    fails 1 "^heterps-run: error: ${address% *}: this program reads files and http://; .*${address#* }" \
        "${address%%:*}" heterps "$graph" --data "${address% *}"
done
fails 1 'this program does not speak https; run a proxy' 'https' heterps "$graph" --data "https://127.0.0.1/data.tsv"
versions='tells the version "new", and told "old" before'
fails 1 "data.tsv has changed while it was read: 127.0.0.1:[0-9]* $versions; start anew" 'data that changes' \
    heterps "$graph" --data "$at/data.tsv?change=3&cut=100000"
fails 1 'no answer from 127.0.0.1:1: the connection was refused' 'nobody there' heterps "$graph" \
    --data http://127.0.0.1:1/data.tsv
finish

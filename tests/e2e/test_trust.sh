#!/bin/sh
# A graph may be a stranger's: what it names to be written lies below its own folder, or is refused, unless
# the command line says otherwise.
. "$(dirname "$0")/lib.sh"
tiny_model && rows 300 "$work/data.tsv"
mkdir "$work/home" "$work/away" && cd "$work" || exit 1
data=$work/data.tsv away=$work/away
ln -s "$away" home/link && ln -s "$away/nothing" home/dangling
disk='--set store.ssd=16MiB --set store.ram=16MiB'
make() { # NAME ASSIGNMENT...
    name=$1
    shift
    sets=
    for one in "$@"; do sets="$sets --set $one"; done
    "$HETERPS" compile tiny.cfg -o "home/$name.bin" $disk $sets -q || { not_ok "$name compiles"; exit 1; }
}
out='so you have to allow it: --trust-paths, or --set store.path=PATH'
make far store.path="$away/rows"
make up store.path="home/../away/rows"
make link store.path="home/link/rows"
make dangling store.path=home/dangling
make later store.path=home/none/../../away
make near store.path=home/rows/deep
mkdir home/rows
for name in far up link dangling later; do
    fails 2 "home/$name.bin: its store.path would write to .*, outside its own folder $work/home; .*$out" \
        "rows on disk, $name" "$HETERPS" home/$name.bin --data "$data"
done
for verb in plan-memory 'eval --model model' 'predict --model model' 'export --model model -o out' \
    'import tensors --out out'; do
    fails 2 "$out" "$verb" "$HETERPS" ${verb%% *} home/far.bin \
        $(case $verb in *\ *) echo "${verb#* }" ;; esac) \
        $(case $verb in export* | import*) ;; *) echo "--data $data" ;; esac)
done
printf '[type cpu]\ndevice = cpu\nprice_per_hour = 1\nlimit = 1\n[goal]\nthroughput = 10\n' >cluster.cfg
fails 2 "$out" profile "$HETERPS" profile home/far.bin --cluster cluster.cfg --no-cache --seconds 0.1
fails 2 "$out" plan "$HETERPS" plan home/far.bin --cluster cluster.cfg --no-cache
check 'doctor says it' sh -c "! '$HETERPS' doctor home/far.bin --data '$data' >.out 2>&1 &&
    grep -q 'fail.*trust-paths' .out"
[ -z "$(ls -A "$away")" ] && ok 'nothing was written there' || not_ok 'nothing was written there'
check 'below its folder' "$HETERPS" home/near.bin --data "$data" -q
check '--trust-paths' "$HETERPS" home/far.bin --data "$data" -q --trust-paths
check 'by the command line' "$HETERPS" home/far.bin --data "$data" -q --set store.path="$away/rows2"
check 'and by another folder of the process' \
    sh -c "cd home && '$HETERPS' far.bin --data '$data' -q --set store.path=rows"
rm -rf "$away"/*
# A link in the folder of rows to a file elsewhere that would be made.
mkdir home/trap && ln -s "$away/made" home/trap/lock
make trap store.path=home/trap
fails 1 'home/trap/lock: Too many levels of symbolic links' 'the lock of rows on disk is no link' \
    "$HETERPS" home/trap.bin --data "$data"
check '… and nothing is made elsewhere' test ! -e "$away/made"

# Servers that a graph names: nobody listens at this port, and nobody is asked.
web=http://127.0.0.1:1/x.tsv
asks='would make this machine ask a server, .*http://127.0.0.1:1/x.tsv; .*: --trust-paths, or --set'
disk=
make web data.path="x.tsv,$web?secret"
make weval data.path=../data.tsv data.eval="$web"
fails 2 "home/web.bin: its data.path $asks data.path=ADDRESS" 'a server' "$HETERPS" home/web.bin
fails 2 "home/web.bin: its data.path $asks data.path=ADDRESS" 'a server, profile' \
    "$HETERPS" profile home/web.bin --cluster cluster.cfg --no-cache --seconds 0.1
check 'doctor says a server' \
    sh -c "! '$HETERPS' doctor home/web.bin >.out 2>&1 && grep -q 'ask a server.*trust-paths' .out"
fails 2 "its data.eval $asks data.eval=" 'a server for evaluation' "$HETERPS" home/weval.bin
fails 1 'no answer from 127.0.0.1:1' 'a server, --trust-paths' \
    "$HETERPS" home/web.bin --trust-paths --set data.path="$web"
fails 1 'no answer from 127.0.0.1:1' 'a server, by the command line' "$HETERPS" home/web.bin --set data.path="$web"
printf \
    '[data]\npath = %s\nformat = csv\nlabel = y\nsparse = a\n[vocabulary v]\ncolumn = a\n[column a]\nvocabulary = v\n' \
    "$web" >words.cfg
sed -n '/^\[table/,$p' tiny.cfg | sed 's/, dense//' >>words.cfg
fails 1 "words.cfg: its data.path $asks data.path=" 'a server that a text names' \
    "$HETERPS" compile words.cfg -o words.bin
sed "/^\[vocab/a path = $web" words.cfg >names.cfg
fails 1 "names.cfg: its v.path $asks v.path=" 'a server that a vocabulary names' \
    "$HETERPS" compile names.cfg -o words.bin
# The data cache.
"$HETERPS" compile tiny.cfg -o home/cached.bin -q --set cache.ssd=64MiB --set cache.path="$away/c"
cp "$data" away.tsv
"$HETERPS" compile tiny.cfg -o home/beside.bin -q --set cache.ssd=64MiB --set data.path="../away.tsv"
fails 2 'its cache.path would write to .*/away/c, .*--set cache.path=PATH' 'a data cache' \
    "$HETERPS" home/cached.bin --data "$data"
fails 2 'its data.path would write to .*away.tsv, .*--set data.path=PATH' \
    'a data cache beside data that the graph names' "$HETERPS" home/beside.bin
check 'beside data of the command line' "$HETERPS" home/beside.bin --data "$data" -q
check 'the cache, by the command line' "$HETERPS" home/cached.bin --data "$data" -q --set cache.path="$away/d"
check 'the cache, --trust-paths' "$HETERPS" home/cached.bin --data "$data" -q --trust-paths
check 'all that was to be written' test -e data.tsv.cache -a -e away/c -a -e away/d -a ! -e away.tsv.cache
finish

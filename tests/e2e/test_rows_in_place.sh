#!/bin/sh
# Tables larger than RAM are predicted with, measured and served where they lie, in the files of their save:
# the bytes of an answer are those of rows in RAM, whatever the save is made of.
. "$(dirname "$0")/lib.sh"
. tests/e2e/process.sh
cd "$work" || exit 1
h=$HETERPS
tiny_model
examples=30000
"$h" compile tiny.cfg -o big.bin --set emb.dim=16 --set store.ram=64MiB -q
"$h" gen criteo --rows "$examples" --seed 3 -o train.tsv -q &&
    "$h" gen criteo --rows 2000 --skip "$((examples - 1000))" --seed 3 -o new.tsv -q || not_ok 'data'
few='--set store.ram=1500KiB'

# same NAME MODEL FLAG...: predicted from RAM, and from the files.
same() {
    of=$1
    shift
    heterps predict big.bin --model "$of" --data new.tsv -o plain || return 1
    "$h" predict big.bin --model "$of" --data new.tsv -o found $few "$@" 2>said || { cat said; return 1; }
    cmp plain found && grep -q 'they stay in the files of' said || { cat said; return 1; }
}
check 'training' heterps big.bin --data train.tsv --out model --set checkpoint.every=150 \
    --set checkpoint.keep=4 --set checkpoint.wait=yes
check 'rows of a whole save' same model
check 'read by threads' same model --set data.io=threads
older=model/manifest.300.json
parts() { [ "$(grep -c '\.rows"' "$older")" -gt 1 ] || { cat "$older"; return 1; }; }
check 'an older save has what has changed alone' parts
check 'rows of several files' same "$older"
check 'training with rows on disk' heterps big.bin --data train.tsv --out disk --set checkpoint.every=200 \
    --set store.ram=13MiB --set store.ssd=64MiB --set store.path="$work/rows" --set emb.dim=64
segments() { ls disk/*.segment >/dev/null; }
check 'it saves segments' segments
cp big.bin narrow.bin
"$h" compile tiny.cfg -o big.bin --set emb.dim=64 --set store.ram=64MiB -q
few='--set store.ram=2MiB'
check 'rows of segments' same disk
few='--set store.ram=1500KiB'
cp narrow.bin big.bin

# Some 26,000 rows of 64 bytes, and as much of optimizer state.
bare() {
    heterps predict big.bin --model model --data new.tsv -o plain &&
        "$h" predict big.bin --model model --data new.tsv -o found --set store.ram=2700KiB 2>said && cmp plain found &&
        ! grep 'files of' said && ! heterps big.bin --data new.tsv --continue model --out lost \
            --set store.ram=2700KiB 2>said && grep -q 'store.ram' said || { cat said; return 1; }
}
check 'without optimizer state they fit into less RAM' bare

measured() {
    "$h" eval big.bin --model model --data new.tsv --log json >one &&
        "$h" eval big.bin --model model --data new.tsv $few --log json >other &&
        same_field eval auc one other && same_field eval logloss one other
}
check 'it measures the same' measured

cat >ask.py <<'PYTHON'
import json, os, shutil, sys
sys.path.insert(0, sys.argv[2])
import serve_server
text, lines = open("new.tsv", "rb").read(), open("new.tsv", "rb").readlines()
plain = open("plain", "rb").read()
shutil.copytree("model", "served")
with serve_server.Server(sys.argv[1], "big.bin", "--model", "served", "--set", "store.ram=1500KiB",
                         "--set", "serve.wait=0") as server:
    assert "they stay in the files of" in server.said, server.said
    assert server.ask(text)[2] == plain
    rows = json.load(open("model/manifest.json"))["tables"][0]["rows"]
    assert b"<strong>%s</strong>" % f"{rows:,}".encode() in server.ask(path="/")[2], rows
    c = server.connect()
    for i, line in enumerate(lines[:50]):
        assert server.ask(line, connection=c)[2] == plain.splitlines(True)[i]
    shutil.copy(sys.argv[3], "next.json")
    os.replace("next.json", "served/manifest.json")
    server.line("in place of")
    assert server.ask(text)[2] == open("older", "rb").read()
PYTHON
served() {
    heterps predict big.bin --model model --data new.tsv -o plain && heterps predict big.bin --model "$older" \
            --data new.tsv -o older && python3 ask.py "$h" "$root/tests/e2e" "$older"
}
check 'it is served, and another save in its place is taken' served

cp -r model damaged
rows=$(ls damaged/emb.*.rows | tail -1)
printf x | dd of="$rows" bs=1 seek=5000 conv=notrunc 2>/dev/null
fails 1 'do not match their checksum' 'a damaged file' "$h" predict big.bin --model damaged --data new.tsv $few -q
fails 1 'bytes of RAM for their index' 'too little RAM for the index' \
    "$h" predict big.bin --model model --data new.tsv --set store.ram=1MiB -q
finish

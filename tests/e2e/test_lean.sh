#!/bin/sh
# A graph and its model in one file, for the edge: predicted with, served and measured as the model that it
# was made of, without anything else, and how much smaller it is.
. "$(dirname "$0")/lib.sh"
. tests/e2e/process.sh
cd "$work" || exit 1
h=$HETERPS
tiny_model
"$h" gen criteo --rows 6000 --seed 5 -o rows.tsv -q &&
    "$h" gen criteo --rows 2000 --skip 6000 --seed 5 -o new.tsv -q || not_ok 'data'
cut -f 2- new.tsv >unlabelled.tsv
"$h" compile tiny.cfg -o life.bin --set emb.dim=16 --set store.period=20 --set emb.delete_score=0.05 -q
"$h" life.bin --data rows.tsv --out life -q </dev/null &&
    "$h" tiny.bin --data rows.tsv --out model -q </dev/null || not_ok 'training'
"$h" predict tiny.bin --model model --data unlabelled.tsv -o plain -q

whole() {
    "$h" export tiny.bin --model model --for serving -o f32 -q &&
        "$h" predict f32 --data unlabelled.tsv -o found -q && cmp plain found &&
        "$h" predict tiny.bin --model f32 --data unlabelled.tsv -o found -q && cmp plain found &&
        "$h" inspect f32 >/dev/null
}
check 'as float32 it predicts the same bytes' whole
# Tensors are not read from such a file; what the error says to do gives them.
taken_apart() {
    ! "$h" import tiny.bin f32 --out apart -q 2>said &&
        grep -q 'f32: expected tensors, found a graph with a model behind it; .*export f32 --model f32 -o DIR' said &&
        "$h" export f32 --model f32 -o values -q && "$h" import tiny.bin values --out apart -q &&
        "$h" predict tiny.bin --model apart --data unlabelled.tsv -o found -q && cmp plain found
}
check 'import says how to get its values' taken_apart

# measured STORE RATIO LOSS: bytes of vectors, and what they cost.
measured() {
    "$h" export life.bin --model life --for serving --store "$1" -o "life.$1" --eval new.tsv --log json >said &&
        "$h" eval life.bin --model life --data new.tsv --log json >was &&
        "$h" eval "life.$1" --data new.tsv --log json >is && python3 - "$2" "$3" <<'PYTHON'
import json, sys
ratio, loss = map(float, sys.argv[1:])
read = lambda path: [json.loads(line) for line in open(path)]
e, = [e for e in read("said") if e["event"] == "exported"]
was, now = [[e for e in read(p) if e["event"] == "eval"][-1]["auc"] for p in ("was", "is")]
print(e, was, now)
assert e["vector_bytes"] <= ratio * e["rows"] * 64 and e["rows"] > 1000, e
assert abs(e["before"] - was) < 1e-9 and abs(e["after"] - now) < 1e-9 and abs(was - now) <= loss, (was, now)
PYTHON
}
check 'f32 costs nothing' measured f32 1 0
check 'bf16 takes half' measured bf16 0.5 0.001
check 'int8 takes (dim + 2) / (4 dim)' measured int8 0.28125 0.001

# A vector is written in pieces of 4,096 numbers.
long() {
    head -n 40 rows.tsv >few.tsv && "$h" compile tiny.cfg -o long.bin --set emb.dim=4099 --set store.ram=128MiB -q &&
        "$h" long.bin --data few.tsv --out long -q </dev/null &&
        "$h" eval long.bin --model long --data new.tsv --log json >was || return 1
    for store in bf16 int8; do
        "$h" export long.bin --model long --for serving --store $store -o long.$store -q && "$h" fsck long.$store -q &&
            "$h" eval long.$store --data new.tsv --log json >is && python3 - <<'PYTHON' || return 1
import json
was, now = [[e for e in map(json.loads, open(p)) if e["event"] == "eval"][-1]["auc"] for p in ("was", "is")]
assert abs(was - now) <= 0.002, (was, now)
PYTHON
    done
}
check 'vectors of more than 4,096 numbers' long

scored() {
    "$h" export life.bin --model life --for serving --score 0.5 -o scored --log json >said &&
        "$h" predict scored --data unlabelled.tsv -o found -q &&
        "$h" predict life.bin --model life --data unlabelled.tsv -o was -q && ! cmp -s was found &&
        "$h" export life.bin --model life --for serving --score 0 -o whole -q &&
        cmp whole life.f32 && [ "$(event_field said exported rows)" -gt 100 ] &&
        [ "$(event_field said exported left_out)" -gt 100 ]
}
check 'rows below a score are left out' scored

cat >ask.py <<'PYTHON'
import os, sys
folder, program, other, *arguments = sys.argv[1:]
sys.path.insert(0, folder)
import serve_server
text, plain = open("unlabelled.tsv", "rb").read(), open("plain", "rb").read()
with serve_server.Server(program, *arguments) as server:
    status, headers, body = server.ask(text)
    assert status == 200 and body == plain, (status, body[:200])
    assert headers["Heterps-Version"] == "94", headers
    if other != "-":
        os.replace(other, arguments[0])
        server.line("in place of")
        assert server.ask(text)[2] != plain
PYTHON
served() { cp life.f32 other && cp f32 f32.kept && python3 ask.py "$root/tests/e2e" "$h" other f32 && mv f32.kept f32; }
check 'it is served, and another in its place is taken' served
named() { cat >two.py <<'PYTHON'
import sys
sys.path.insert(0, sys.argv[2])
import serve_server
with serve_server.Server(sys.argv[1], "--model", "a=f32", "--model", "b=life.bin:life") as server:
    text = open("unlabelled.tsv", "rb").read()
    assert server.ask(text, path="/predict/a")[2] == open("plain", "rb").read()
    assert server.ask(text, path="/predict/b")[2] != open("plain", "rb").read()
PYTHON
    python3 two.py "$h" "$root/tests/e2e"
}
check 'by a name beside others' named

empty_root() {
    mkdir -p empty && cp "$h" empty/heterps-run && cp f32 unlabelled.tsv empty/ &&
        chroot empty /heterps-run predict f32 --data unlabelled.tsv -o found -q && cmp plain empty/found
}
served_from_empty_root() {
    cat >chroot.sh <<SH
#!/bin/sh
exec chroot "$work/empty" /heterps-run "\$@"
SH
    chmod +x chroot.sh && python3 ask.py "$root/tests/e2e" ./chroot.sh - f32
}
if [ "$(id -u)" = 0 ] && [ $sanitized = no ]; then
    check 'in an empty root it predicts' empty_root
    check 'in an empty root it serves' served_from_empty_root
else
    skip 'in an empty root it predicts and serves' 'chroot needs root, and a static program'
fi

cp f32 damaged && printf x | dd of=damaged bs=1 seek=$(($(wc -c <f32) - 500)) conv=notrunc 2>/dev/null
fails 1 'does not match its checksum' 'a damaged file' "$h" predict damaged --data new.tsv
head -c 300 /dev/urandom >nothing
fails 1 'nothing: byte 0: expected HPSGRAPH' 'a file that is neither' "$h" predict nothing --data new.tsv
fails 2 '--model is needed: tiny.bin is a graph without a model' 'a graph without a model' \
    "$h" predict tiny.bin --data new.tsv
fails 2 '--model is needed' 'serve without a model' "$h" serve tiny.bin --listen 127.0.0.1:0
fails 1 'expected a model of hash' "another graph's" "$h" predict life.bin --model f32 --data new.tsv
fails 1 'rows of table emb have no score' 'a score that rows do not have' \
    "$h" export tiny.bin --model model --for serving -o x --score 1
fails 2 'expected f32, bf16 or int8' 'a store that is none' "$h" export tiny.bin --model model \
    --for serving -o x --store int4
fails 2 'need --for serving' 'a store of another export' "$h" export tiny.bin --model model -o x --store int8
fails 2 'expected serving' 'a purpose that is none' "$h" export tiny.bin --model model -o x --for training
fails 1 'holds no model' 'it is not for training' "$h" tiny.bin --data new.tsv --resume f32
finish

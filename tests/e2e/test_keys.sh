#!/bin/sh
# The key of a text in a column is one rule for all formats, which io/README.md states: xxh3-64 of the text,
# with xxh3-64 of the column's name as seed. The numbers here are of Python's xxhash; who makes tables
# elsewhere counts on them. Graphs of version 8 keep the rule that they were compiled by.
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 1

model() { # LINE OF [data]...
    { echo '[data]'; printf '%s\n' "$@"; cat <<'CFG'
[table emb]
dim = 2
[embedding e]
table = emb
input = sparse
[fc y]
input = e
units = 1
[loss bce]
input = y
[train]
batch = 4
[store]
ram = 1MiB
CFG
    } >m.cfg
}
# keys KEY...: training on `data` makes rows of these keys and no other.
keys() {
    rm -rf model export
    "$HETERPS" m.bin --data data --out model -q &&
        "$HETERPS" export m.bin --model model -o export --format npy -q && python3 - "$@" <<'PYTHON'
import struct, sys
data = open("export/emb.keys.npy", "rb").read()
found = {"%016x" % k for k, in struct.iter_unpack("<Q", data[10 + struct.unpack("<H", data[8:10])[0]:])}
if found != set(sys.argv[1:]): sys.exit("found %s, expected %s" % (sorted(found), sorted(sys.argv[1:])))
PYTHON
}
compiled() { "$HETERPS" compile m.cfg -o m.bin -q "$@"; }
C1_68fd1e64=bb7b4148340ac23e C1_absent=a6a7a7b5f160f36a C2_a=38879c02fe05416b features_17=61be724ee1c60db3

{
    printf '1'
    for i in 1 2 3 4 5 6 7 8 9 10 11 12 13; do printf '\t%d' $i; done
    printf '\t68fd1e64\ta'
    for i in 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26; do printf '\t'; done
    echo
} >data
model 'format = criteo' 'sparse = C1, C2'
compiled && check 'criteo: of texts in C1 and C2' keys $C1_68fd1e64 $C2_a
compiled --set model.rules=8 &&
    check '… by rules up to 8, with the number of the column' keys 00b0431058060b4d d2f6d0996f37a720
printf 'label,C2,C1\n1,a,68fd1e64\n' >data
model 'format = csv' 'sparse = C1, C2'
compiled && check 'csv: the same, whatever the order of columns' keys $C1_68fd1e64 $C2_a
printf 'label,C2,C1\n1,a,\n' >data
compiled --set data.missing=key && check '… an absent value that is a key is the empty text' keys $C1_absent $C2_a
echo '1 17:0.5' >data
model 'format = libsvm' 'sparse = features' 'ids_max = 4'
compiled && check 'libsvm: of the id, in "features"' keys $features_17
model 'format = libfm' 'sparse = F1'
compiled && check 'libfm: likewise' keys $features_17
echo '1 3:17:0.5' >data
model 'format = libffm' 'sparse = F3'
compiled && check 'libffm: likewise, in every field' keys $features_17
printf 'label,C1,other\n1,68fd1e64,68fd1e64\n' >data
model 'format = csv' 'sparse = C1, other' && printf '[column other]\nkeys_of = C1\n' >>m.cfg
compiled && check 'keys_of: the name of the other column' keys $C1_68fd1e64
# What a key is read as that has no row: rates of 0 leave first values as they are, so zeros give a logit of 0.
printf 'label,C1\n1,a\n' >data
printf 'C1\nb\n' >new
model 'format = csv' 'sparse = C1'
compiled --set 'train.optimizer=sgd 0' --set 'emb.init=uniform 0.9' --set train.seed=5
predicted() { # SETTING...: for a key that training has not seen
    rm -rf model
    "$HETERPS" m.bin --data data --out model -q "$@" &&
        "$HETERPS" predict m.bin --model model --data new -o out -q "$@" && cat out
}
zeros() { found=$(predicted "$@") && [ "$found" = 0.5 ] || { echo "predicted $found"; return 1; }; }
values() { found=$(predicted "$@") && [ "$found" != 0.5 ] || { echo "predicted $found"; return 1; }; }
check 'a key without a row is read as zeros' zeros
check '… with rows on disk, too' zeros --set store.ram=48MiB --set store.ssd=64MiB --set store.path=rows
check '… or as its first values, where the text says so' values --set emb.unseen=init
check '… or by rules up to 8' values --set model.rules=8
# The function of io/README.md, as it stands there, gives the first values that are exported.
first_values() {
    rm -rf model export
    "$HETERPS" m.bin --data data --out model -q && "$HETERPS" export m.bin --model model -o export --format npy -q &&
        python3 - "$root/io/README.md" <<'PYTHON'
import re, struct, sys
code = [c for c in re.findall(r"```python\n(.*?)```", open(sys.argv[1]).read(), re.S) if "philox" in c]
assert len(code) == 1
exec(code[0])
def array(name, kind):
    data = open("export/%s.npy" % name, "rb").read()
    return [v for v, in struct.iter_unpack(kind, data[10 + struct.unpack("<H", data[8:10])[0]:])]
keys, vectors = array("emb.keys", "<Q"), array("emb.vectors", "<f")
expected = [struct.unpack("<f", struct.pack("<f", 0.8999999761581421 * first(5, 0, key, column)))[0]
            for key in keys for column in range(2)]
assert len(keys) == 1 and vectors == expected, (vectors, expected)
PYTHON
}
check 'first values are those of the function in io/README.md' first_values
finish

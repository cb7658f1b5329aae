#!/bin/sh
# import makes a model of tensors made elsewhere: of an export, of .npy files, of a net with weights the other
# way round and other names; what does not fit is refused, and then nothing is written.
. "$(dirname "$0")/lib.sh"
. tests/e2e/process.sh
tiny_model
graph=$folder/tiny.bin data=$folder/data.tsv
rows 1500 "$data"
heterps "$graph" --data "$data" --out "$folder/from" &&
    heterps export "$graph" --model "$folder/from" -o "$folder/exported" &&
    heterps predict "$graph" --model "$folder/from" --data "$data" -o "$folder/expected" ||
    { echo "not ok 1 - fixture"; exit 1; }

# foreign SCRIPT DIR [ARGUMENT...]: python3 with what an export's files hold: `dense`, name to (shape,
# numbers); `keys`, `vectors`; and with npy(name, descr, shape, bytes) and safetensors(name, {tensor: (dtype,
# shape, bytes)}), which write into DIR.
foreign() {
    python3 - "$folder/exported" "$@" <<'PYTHON'
import json, os, struct, sys
source, script, out = sys.argv[1:4]
os.makedirs(out, exist_ok=True)
def tensors(path):
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    header.pop("__metadata__", None)
    return {k: (v["shape"], data[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]]) for k, v in header.items()}
def floats(b): return struct.unpack("<%df" % (len(b) // 4), b)
dense = {k: (s, floats(b)) for k, (s, b) in tensors(source + "/dense.safetensors").items()}
table = tensors(source + "/emb.safetensors")
keys, vectors = table["keys"], table["vectors"]
def shape_text(shape): return "(" + "".join("%d," % n for n in shape) + ")"
def npy(name, descr, shape, data, fortran=False):
    header = "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }" % (descr, fortran, shape_text(shape))
    header += " " * (-(11 + len(header)) % 64) + "\n"
    begin = b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode()
    open(os.path.join(out, name), "wb").write(begin + data)
def safetensors(name, items):
    header, data = {}, b""
    for k, (dtype, shape, b) in items.items():
        header[k] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(b)]}
        data += b
    text = json.dumps(header).encode()
    open(os.path.join(out, name), "wb").write(struct.pack("<Q", len(text)) + text + data)
def packed(values, code="f"): return struct.pack("<%d%s" % (len(values), code), *values)
def turned(shape, values):
    return [shape[1], shape[0]], [values[r * shape[1] + c] for c in range(shape[1]) for r in range(shape[0])]
exec(script)
PYTHON
}
# imported PATH FLAG...: as $folder/to.
imported() {
    path=$1
    shift
    rm -rf "$folder/to"
    runs 0 "$HETERPS" import "$graph" "$path" --out "$folder/to" "$@"
}
predicts_the_same() {
    heterps predict "$graph" --model "$folder/to" --data "$data" -o "$folder/predicted" &&
        cmp "$folder/predicted" "$folder/expected"
}
refused() { # STATUS PATTERN PATH FLAG...
    refused_status=$1 refused_pattern=$2
    shift 2
    rm -rf "$folder/to"
    fails_so "$refused_status" "$refused_pattern" import "$graph" "$@" --out "$folder/to" -q &&
        [ ! -e "$folder/to/manifest.json" ]
}

round_trip() {
    imported "$folder/exported" --strict &&
        grep -Eq "^import   from $folder/exported: 4 of 4 tensors, [0-9,]+ rows of emb" "$folder/err" &&
        predicts_the_same && exported "$graph" "$folder/to" again && diff -r "$folder/again.values" "$folder/exported"
}
round_trip_npy() {
    rm -rf "$folder/arrays" "$folder/arrays.again"
    heterps export "$graph" --model "$folder/from" -o "$folder/arrays" --format npy &&
        imported "$folder/arrays" --strict && predicts_the_same &&
        heterps export "$graph" --model "$folder/to" -o "$folder/arrays.again" --format npy &&
        diff -r "$folder/arrays" "$folder/arrays.again" &&
        exported "$graph" "$folder/to" again && diff -r "$folder/again.values" "$folder/exported" &&
        names='emb.keys.npy emb.vectors.npy h1.bias.npy h1.weight.npy y.bias.npy y.weight.npy ' &&
        [ "$(ls "$folder/arrays" | tr '\n' ' ')" = "$names" ]
}
# Step 0 and fresh state: continuing is the same as starting from there.
continues() {
    imported "$folder/exported" && heterps "$graph" --data "$data" --resume "$folder/to" &&
        heterps "$graph" --data "$data" --init "$folder/exported" --out "$folder/init" &&
        exported "$graph" "$folder/to" resumed && exported "$graph" "$folder/init" init && same_bytes resumed init
}
npy_files() {
    foreign '
for name, (shape, values) in dense.items(): npy(name + ".npy", "<f4", shape, packed(values))
npy("emb.keys.npy", "<u8", keys[0], keys[1]); npy("emb.vectors.npy", "<f4", vectors[0], vectors[1])' "$folder/npy" &&
        imported "$folder/npy" --strict && predicts_the_same &&
        heterps "$graph" --data "$data" --init "$folder/npy" --out "$folder/init.npy" &&
        heterps "$graph" --data "$data" --init "$folder/exported" --out "$folder/init.exported" &&
        exported "$graph" "$folder/init.npy" init.npy && exported "$graph" "$folder/init.exported" init.exported &&
        same_bytes init.npy init.exported
}
# As PyTorch would have it: [outputs, inputs], biases of one dimension, names of its own; doubles that are floats.
torch() {
    foreign '
items = {}
for ours, theirs in (("h1", "net.0"), ("y", "net.2")):
    shape, values = turned(*dense[ours + ".weight"])
    items[theirs + ".weight"] = ("F64", shape, packed(values, "d"))
    items[theirs + ".bias"] = ("F32", [shape[0]], packed(dense[ours + ".bias"][1]))
items["ids"] = ("U64", keys[0], keys[1]); items["rows"] = ("F32", vectors[0], vectors[1])
safetensors("net.safetensors", items)
open(out + "/names.txt", "w").write("# theirs = ours\nnet.0.weight = h1.weight\nnet.0.bias = h1.bias\n"
                                    "net.2.weight = y.weight # the last\nnet.2.bias = y.bias\n"
                                    "ids = emb.keys\nrows = emb.vectors\n")' "$folder/torch"
}
torch_taken() {
    torch && imported "$folder/torch/net.safetensors" --map "$folder/torch/names.txt" --transpose all --strict &&
        grep -q '; 2 of F64 converted to F32$' "$folder/err" && predicts_the_same &&
        imported "$folder/torch/net.safetensors" --map "$folder/torch/names.txt" --transpose h1.weight,y.weight \
            --strict && predicts_the_same
}
# Layers that share weights have one of them, whichever of them --transpose finds first.
shared_turned() {
    cat >"$folder/shared.cfg" <<'CFG'
[model]
name = shared
[data]
dense = I1..I13
[fc h1]
input = dense
units = 6
bias = no
[fc h2]
input = h1
units = 6
bias = no
[fc h3]
input = h2
units = 6
bias = no
share = h2
[fc h4]
input = h3
units = 3
[fc y]
input = h4
units = 1
[loss bce]
input = y
CFG
    heterps gen criteo --rows 200 -o "$folder/shared.tsv" &&
        heterps compile "$folder/shared.cfg" -o "$folder/shared.bin" &&
        heterps "$folder/shared.bin" --data "$folder/shared.tsv" --out "$folder/shared" &&
        heterps export "$folder/shared.bin" --model "$folder/shared" -o "$folder/turned" --format npy &&
        python3 - "$folder/turned" <<'PYTHON' &&
import glob, struct, sys
for path in glob.glob(sys.argv[1] + "/*.weight.npy"):
    data = open(path, "rb").read()
    begin = 10 + struct.unpack("<H", data[8:10])[0]
    head, values = data[:begin].decode("latin1"), struct.unpack(f"<{(len(data) - begin) // 4}f", data[begin:])
    at = head.index("(") + 1
    rows, cols = map(int, head[at : head.index(")")].split(","))
    turned = head[:at] + f"{cols}, {rows}" + head[head.index(")"):]
    assert len(turned) == len(head)
    values = [values[r * cols + c] for c in range(cols) for r in range(rows)]
    open(path, "wb").write(turned.encode("latin1") + struct.pack(f"<{len(values)}f", *values))
PYTHON
        heterps import "$folder/shared.bin" "$folder/turned" --out "$folder/shared.to" --transpose all --strict &&
        exported "$folder/shared.bin" "$folder/shared" shared && exported "$folder/shared.bin" "$folder/shared.to" to &&
        same_bytes shared to
}
missing_and_extra() {
    foreign '
npy("h1.bias.npy", "<f4", *[dense["h1.bias"][0], packed(dense["h1.bias"][1])])
npy("optimizer.npy", "<i8", [1], b"\0" * 8)' "$folder/part" && imported "$folder/part" &&
        absent='h1.weight (absent), y.weight (absent), y.bias (absent), table emb (absent)' &&
        grep -q "1 of 4 tensors; initial values: $absent\$" "$folder/err" &&
        grep -q '^         not in the graph: optimizer$' "$folder/err"
}
half() { # FILE: cut to its half
    rm -rf "$folder/half" && cp -R "$1" "$folder/half" &&
        truncate -s "$(($(wc -c <"$folder/half/$2") / 2))" "$folder/half/$2"
}
half_safetensors() { half "$folder/exported" emb.safetensors && refused 1 'half/emb.safetensors: ' "$folder/half"; }
half_npy() {
    half "$folder/npy" emb.vectors.npy &&
        refused 1 'half/emb.vectors.npy: byte 128: expected the [0-9]+ bytes of its shape, found [0-9]+' "$folder/half"
}
# A table by the texts of a field; the rest of the model begins.
words() {
    foreign '
npy("emb.vectors.npy", "<f4", [2, 4], packed([1, 2, 3, 4, 5, 6, 7, 8]))
open(out + "/emb.words.txt", "w").write("68fd1e64\n05db9164\n")' "$folder/words" &&
        imported "$folder/words" --field C1 && grep -q ' 2 rows of emb' "$folder/err" &&
        refused 1 'emb.words.txt:1: .*expected a field of it, a tab and the text, found "68fd1e64"; or say by --field' \
            "$folder/words" && refused 2 'looks up none|no sparse field' "$folder/words" --field C99
}
# A table that several fields look up: each line says its field.
words_of_fields() {
    foreign '
npy("emb.vectors.npy", "<f4", [3, 4], packed(range(12)))
open(out + "/emb.words.txt", "w").write("C2\ta\nC1\t68fd1e64\nC1\ta\n")' "$folder/fields" &&
        imported "$folder/fields" &&
        grep -q ' 3 rows of emb' "$folder/err" && heterps export "$graph" \
            --model "$folder/to" -o "$folder/fields/export" --format npy && python3 - "$folder/fields/export" <<'PYTHON'
import struct, sys
def array(name, kind):
    data = open("%s/%s.npy" % (sys.argv[1], name), "rb").read()
    return [v for v, in struct.iter_unpack(kind, data[10 + struct.unpack("<H", data[8:10])[0]:])]
rows = dict(zip(array("emb.keys", "<Q"), array("emb.vectors", "<f")[::4]))
# Python's xxhash of C2 a, C1 68fd1e64.
assert len(rows) == 3 and rows[0x38879c02fe05416b] == 0 and rows[0xbb7b4148340ac23e] == 4, rows
PYTHON
}
other_model() {
    "$HETERPS" compile "$folder/tiny.cfg" -o "$folder/wide.bin" --set h1.units=12 -q && rm -rf "$folder/to" &&
        cp -R "$folder/from" "$folder/to" &&
        fails_so 1 'to: holds a model of another graph' import "$folder/wide.bin" "$folder/words" --field C1 \
            --out "$folder/to" -q && diff -r "$folder/from" "$folder/to"
}
# The place is looked at before the tensors are read.
over_a_model() {
    heterps "$graph" --data "$data" --out "$folder/over" --set train.batch=100 --set checkpoint.every=4 \
        --set checkpoint.wait=yes --set checkpoint.keep=3 &&
        runs 0 "$HETERPS" import "$graph" "$folder/exported" --out "$folder/over" &&
        sed 's/^/# /' "$folder/err" &&
        grep -q "^out      $folder/over holds a model: the imported one takes its place" "$folder/err" &&
        grep -q 'warning: out .*: the next save removes 3 older ones, of steps 8 to 15 (checkpoint.keep = 1)' \
            "$folder/err"
}
over_other_files() {
    mkdir "$folder/other" && echo mine >"$folder/other/notes" &&
        fails_so 1 'other: not empty, and holds no model \("notes" is there' import "$graph" "$folder/exported" \
            --out "$folder/other" && ! grep -q '^import   from' "$folder/err" && [ "$(ls "$folder/other")" = notes ]
}

check 'an export: the same model' round_trip
check 'over a model: what it takes the place of is told' over_a_model
check 'over other files: refused at once' over_other_files
check 'an export as .npy files: the same model' round_trip_npy
check 'a format that there is not' fails_so 2 '--format: expected safetensors, npy or onnx, found "csv"' export \
    "$graph" --model "$folder/from" -o "$folder/csv" --format csv -q
check 'what was imported goes on like what was begun with --init' continues
check 'a folder of .npy files: the same model; --init takes it too' npy_files
check 'other names, weights the other way round, doubles' torch_taken
check 'weights that layers share, the other way round' shared_turned
check 'missing and extra tensors are listed' missing_and_extra
check '--strict: missing and extra tensors are refused' \
    refused 1 '--strict: only in the graph: h1.weight .*; not in the graph: optimizer' "$folder/part" --strict
check 'a weight the other way round needs its flag' \
    refused 1 'net.0.weight: expected [0-9]+x8, as the graph has it, found 8x.*--transpose h1.weight' \
    "$folder/torch/net.safetensors" --map "$folder/torch/names.txt"
check 'half a .safetensors file' half_safetensors
check 'half a .npy file' half_npy
check 'keys of words' words
check 'keys of words of several fields' words_of_fields
check 'into the directory of another model' other_model
check 'of a saved model' refused 1 'from: a saved model, not tensors made elsewhere' "$folder/from"
check 'of a folder of something else' refused 1 'samples: holds neither' samples
check 'of nothing' refused 1 'nowhere' "$folder/nowhere"
check 'a map that names nothing' refused 1 'names.txt:[0-9]: there is no tensor "ids" to be renamed' \
    "$folder/exported" --map "$folder/torch/names.txt"
check 'a parameter that there is not' refused 2 'no parameter "h2.weight"; did you mean h1.weight' \
    "$folder/exported" --transpose h2.weight
finish

#!/bin/sh
# train.precision = bf16: what of a model it changes and what not; the same bytes for any threads, plan and
# interruption, and on every set of instructions that differs from another in nothing else; and that a model
# learns with it what it learns in float32.
. "$(dirname "$0")/lib.sh"
examples=12000 learned=60000
case $(basename "$BUILD") in asan | tsan) examples=3000 learned=0 ;; esac # a sanitizer is slow
rows $examples "$work/train.tsv"
samples=$root/samples
cd "$work" || exit 1
h=$HETERPS
small='--set h1.units=70 --set h2.units=33 --set train.batch=300 --set train.micro=100'

check 'compile' "$h" compile "$samples/ctrdnn.cfg" -o g.bin -q $small --set train.precision=bf16
check 'compile in float32' "$h" compile "$samples/ctrdnn.cfg" -o f32.bin -q $small
fails 2 'train.precision: expected one of f32, bf16, tf32' 'another precision is refused' \
    "$h" compile "$samples/ctrdnn.cfg" -o no.bin --set train.precision=f16
check 'inspect says which products are in bfloat16: not that of one unit' \
    sh -c "'$h' inspect g.bin | grep -c 'fc.*bf16' | grep -qx 3 && ! '$h' inspect f32.bin | grep -q bf16"

# bytes NAME ARGUMENT...: trains a fresh model, exports it to NAME; same: as an earlier one.
bytes() {
    name=$1
    shift
    rm -rf m "$name"
    "$h" g.bin --data train.tsv --out m -q "$@" && "$h" export g.bin --model m -o "$name" -q
}
same() {
    description=$1
    shift
    bytes other "$@" && diff -r other plain >/dev/null
    if [ $? = 0 ]; then ok "same bytes: $description"; else not_ok "same bytes: $description"; fi
}
check 'train' bytes plain
for threads in 1 2 3; do same "$threads threads" --threads $threads; done
cp "$samples/ctrdnn.plan.json" plan.json
if "$h" g.bin --data train.tsv --out m -q --plan plan.json --threads 2 2>err; then
    rm -rf m
    same 'stages of a plan' --plan plan.json --threads 2
else
    not_ok 'stages of a plan'
    note <err
fi
best=$("$h" devices | sed -n 's/^ *kernels *\([a-z0-9]*\).*/\1/p')
case $best in
amx) # has an order of its own
    check 'train without tiles' bytes pairs --isa avx512bf16
    check 'tiles add in another order' sh -c '! diff -r pairs plain >/dev/null'
    check 'train without AVX512_BF16' bytes single --isa avx512
    check 'same bytes: without AVX512_BF16' diff -r pairs single ;;
avx512bf16) same 'without AVX512_BF16' --isa avx512 ;;
*) skip 'same bytes: without AVX512_BF16' 'this processor has none' ;;
esac
rm -rf m other
"$h" g.bin --data train.tsv --out m -q --set train.steps_max=7 && "$h" g.bin --data train.tsv --resume m -q &&
    "$h" export g.bin --model m -o other -q
check 'same bytes: stopped and resumed' diff -r other plain

cat >dtype.py <<'PYTHON'
# Every exported tensor is float32, as in a model of float32: the names, shapes and types are the same, the numbers not.
import json, struct
def read(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: (t["dtype"], t["shape"]) for name, t in header.items()}, data
bf16, f32 = read("plain/dense.safetensors"), read("in_f32/dense.safetensors")
assert bf16[0] == f32[0] and all(dtype == "F32" for dtype, shape in bf16[0].values()), (bf16[0], f32[0])
assert bf16[1] != f32[1]
words = struct.unpack("<%dI" % 70, bf16[1][-280:])
assert any(word & 0xffff for word in words), "parameters are rounded to bfloat16"
PYTHON
rm -rf m
"$h" f32.bin --data train.tsv --out m -q && "$h" export f32.bin --model m -o in_f32 -q
check 'what is exported is float32' python3 dtype.py
check 'compile in TF32' "$h" compile "$samples/ctrdnn.cfg" -o tf32.bin -q $small --set train.precision=tf32
check 'inspect says so' sh -c "'$h' inspect tf32.bin | grep -c 'fc.*tf32' | grep -qx 3"
rm -rf m
"$h" tf32.bin --data train.tsv --out m -q && "$h" export tf32.bin --model m -o in_tf32 -q
check 'processors train the bytes of float32 in TF32' diff -r in_tf32 in_f32
check 'and doctor says so' \
    sh -c "'$h' doctor tf32.bin --data train.tsv | grep -q 'tf32 needs cards .* here every product is in float32'"
check 'a model of float32 goes on in bfloat16' "$h" g.bin --data train.tsv --resume m -q --set train.epochs=2

if [ $learned = 0 ]; then
    skip 'AUC of bfloat16 is that of float32' 'a sanitizer is too slow, and changes no number'
    finish
fi
rows $learned train.tsv
rows 20000 test.tsv $learned
for seed in 1 2 3; do
    for precision in f32 bf16; do
        "$h" compile "$samples/ctrdnn.cfg" -o l.bin -q --set train.precision=$precision --set train.seed=$seed &&
            "$h" l.bin --data train.tsv --eval test.tsv --log json >$precision.$seed.log || echo 'training failed'
    done
done
cat >auc.py <<'PYTHON'
import json
def auc(precision):
    return [[json.loads(l) for l in open(f"{precision}.{seed}.log") if '"eval"' in l][-1]["auc"] for seed in (1, 2, 3)]
f32, bf16 = auc("f32"), auc("bf16")
print("AUC, three seeds: float32", f32, "bfloat16", bf16)
assert f32 != bf16 and min(f32) > 0.6
difference = (sum(bf16) - sum(f32)) / 3
assert abs(difference) < 0.001, difference
PYTHON
check 'AUC of bfloat16 is within 0.001 of that of float32, mean of three seeds' python3 auc.py
note <.out
finish

#!/bin/sh
# tests/gpu.sh, which is for machines with a card, on a driver whose cards are emulated: every part runs and
# has its line in the table; a check that fails is told by the exit status; what is missing is named.
. "$(dirname "$0")/lib.sh"
driver=$BUILD/tests/gpu/driver
if ! has_cuda_side || [ ! -x "$BUILD/tests/gpu/check_ops" ]; then
    skip 'tests/gpu.sh' 'this build has no CUDA side: a release build with nvcc has'
    finish
fi
unset HETERPS_GPU
script() {
    HETERPS=$HETERPS CHECKS=${CHECKS:-$BUILD/tests/gpu} LD_LIBRARY_PATH=$driver sh "$root/tests/gpu.sh" --quick
}
check 'all parts but ops run' sh -c "PARTS='same|plans|bench|torch|start|busy' HETERPS='$HETERPS' \
    CHECKS='$BUILD/tests/gpu' LD_LIBRARY_PATH='$driver' sh tests/gpu.sh --quick >'$work/all'"
has() { check "$1" grep -qE "$2" "$work/all"; }
has 'losses' '^dcnv2: loss, both against the CPU, relative +<= 1e-4 +[0-9.e-]+$'
has 'bytes' '^matchnet: two runs on the card +the same the same bytes$'
has 'plans' '^ctrdnn2: the plan of auto, of the best measured +>= 0.98 +[0-9.]+$'
has 'plans that are tried' '^ctrdnn2: the plan of --try, of the best measured +>= 0.98 +[0-9.]+$'
has 'every method has a plan that trains' '^ctrdnn2, inverse: cpu cuda:0 .* measured [1-9][0-9]* examples/s$'
has 'benchmarks' '^  bf16 d weight, M 64 N 64 K 64 +[0-9.e-]+ TFLOP/s'
has 'benchmarks of TF32' '^  tf32 d input, M 64 N 64 K 64 +[0-9.e-]+ TFLOP/s'
has 'what is asked of them' \
    '^own bf16 and tf32 products, the worst of M, N, K >= 1024, of cuBLASLt +left out: nothing to compare with here$'
has 'the start' '^a training with --gpu on starts later by, s beyond a bare cuInit +<= 0.3 +-?[0-9.]+$'
has 'how busy the card is' '^share of time in which streams of the card have work, ctrdnn2 +>= 0.85 +[01]\.[0-9]+$'
has 'what is left out' '^ctrdnn2 and dcnv2 beside PyTorch +left out: no python3 with torch that has CUDA$'

mkdir "$work/bad"
printf '#!/bin/sh\necho "ok 1 - a"\necho "not ok 2 - b"\nexit 1\n' >"$work/bad/check_ops"
chmod +x "$work/bad/check_ops"
failing() {
    PARTS=ops CHECKS=$work/bad script >"$work/failing"
    [ $? = 1 ] && grep -qE '^ops and updates: status 1, 1 are wrong +right +FAILED$' "$work/failing"
}
check 'a check that fails' failing
missing() { PARTS=ops CHECKS=$work script | grep -qE '^ops +left out: no .*/check_ops: ./build.sh card makes it'; }
check 'a program that is not there' missing
no_card() {
    HETERPS=$HETERPS HETERPS_GPU=off LD_LIBRARY_PATH=$driver HETERPS_EMU_CARDS=0 sh tests/gpu.sh --quick >"$work/none"
    [ $? = 77 ] && grep -q '^nothing is measured: there is no card$' "$work/none"
}
check 'no card' no_card
late() { # only what is quick, and is said to be
    HETERPS=$HETERPS CHECKS=$BUILD/tests/gpu LD_LIBRARY_PATH=$driver LIMIT=1 PARTS='ops|torch' \
        sh tests/gpu.sh >"$work/late"
    [ $? = 0 ] &&
        [ "$(grep -cE '^(ops|torch) +left out: no time: of the [0-9]+ s that it takes 1 are left$' "$work/late")" = 4 ]
}
check 'no time' late
finish

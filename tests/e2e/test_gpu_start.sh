#!/bin/sh
# How the program starts with and without cards: --gpu, drivers that are missing, broken or slow, and that the
# image which takes over is the same process with the same words, streams and signals. Drivers are stood in
# for (tests/gpu/libcuda_emu.c); where there is no nvcc, and so no image, most of it is skipped.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/process.sh"
if [ "$(basename "$BUILD")" != release ]; then
    skip 'starting with cards' "a $(basename "$BUILD") build has no CUDA side"
    finish
fi
unset HETERPS_GPU
tiny_model
rows 2000 "$work/data.tsv"
cd "$work" || exit 1
driver=$BUILD/tests/gpu/driver
has_image=no
! has_cuda_side || has_image=yes
with_driver() { LD_LIBRARY_PATH=$driver "$@"; }

# ---- words ----
fails 2 '--gpu: expected off, auto or on, found "yes"' '--gpu yes' "$HETERPS" devices --gpu yes
fails 2 'HETERPS_GPU: expected off, auto or on, found "1"' 'HETERPS_GPU=1' env HETERPS_GPU=1 "$HETERPS" devices
check 'an empty HETERPS_GPU is none' env HETERPS_GPU= "$HETERPS" devices
fails 2 'unknown flag --gpu' 'a verb that runs no model has no --gpu' "$HETERPS" gen criteo --rows 1 -o x --gpu off
for verb in eval predict serve; do # which have no plan, and compute on processors
    fails 2 'unknown flag --gpu' "$verb has no --gpu" "$HETERPS" $verb tiny.bin --model m --gpu on
done
check '--gpu is explained' sh -c "'$HETERPS' train --help | grep -q '^  --gpu WHEN '"
check '--gpu off is off' sh -c "'$HETERPS' devices --gpu off | grep -q '^cards  *none: --gpu is off$'"
check 'HETERPS_GPU=off, too' sh -c "HETERPS_GPU=off '$HETERPS' devices | grep -q '^cards  *none: HETERPS_GPU is off$'"
check '--gpu is stronger than HETERPS_GPU' \
    sh -c "HETERPS_GPU=on '$HETERPS' devices --gpu off | grep -q '^cards  *none: --gpu is off$'"

# ---- the one file, with nothing around it ----
# In a root directory that has the program and data only: trains as it does outside.
runs_in_empty_root() {
    rm -rf root && mkdir -p root/tmp && cp "$HETERPS" root/heterps-run && cp tiny.cfg data.tsv root/ || return 1
    chroot root /heterps-run --version >/dev/null || return 1
    chroot root /heterps-run compile tiny.cfg -o tiny.bin -q || return 1
    chroot root /heterps-run tiny.bin --data data.tsv --out model -q || return 1
    trains plain tiny.bin --data data.tsv && exported root/tiny.bin root/model rooted && same_bytes plain rooted
}
if [ "$(id -u)" = 0 ]; then
    check 'in an empty root it compiles and trains, the same bytes' runs_in_empty_root
else
    skip 'in an empty root it compiles and trains' 'chroot needs root'
    trains plain tiny.bin --data data.tsv
fi

if [ $has_image = no ]; then
    fails 1 '--gpu on: there is no card: this program is built without the CUDA side; without a card: --gpu off' \
        '--gpu on' "$HETERPS" devices --gpu on
    skip 'starting with a driver' 'there is no nvcc, and so no CUDA side'
    finish
fi

# ---- a driver that hangs: takes the probe's whole time, so it goes on beside the rest ----
LD_LIBRARY_PATH=$driver HETERPS_STANDIN=hang "$HETERPS" nothing.bin --data d -v >hang.out 2>hang.err &
hanging=$!
helpers="$helpers $hanging"

# ---- no driver, or a bad one: says why, goes on ----
goes_on() { # PATTERN [VARIABLE=VALUE...]
    pattern=$1
    shift
    env "$@" "$HETERPS" nothing.bin --data d -v >out 2>err
    status=$?
    grep -qE "^no cards: $pattern" err && grep -q 'error: nothing.bin: No such file' err &&
        [ $status = 1 ] && [ ! -s out ] && return 0
    cat err
    return 1
}
if [ -e /dev/nvidiactl ] || [ -e /dev/dxg ]; then
    skip 'no driver' 'this machine has one'
else
    check 'no driver: goes on, and says why' \
        goes_on 'no driver of a card: neither /dev/nvidiactl nor /dev/dxg is there, nor libcuda.so.1'
    fails 1 '--gpu on: there is no card: no driver of a card.*; without a card: --gpu off' 'no driver: --gpu on fails' \
        "$HETERPS" devices --gpu on
    check 'without -v it is silent' \
        sh -c "'$HETERPS' tiny.bin --data data.tsv --set train.batch=500 2>&1 | grep -i -c card | grep -qx 0"
fi
mkdir -p empty text && echo 'no library' >text/libcuda.so.1
echo 'int nothing;' >nothing.c && ${CC:-gcc} -shared -o empty/libcuda.so.1 nothing.c
check 'a library that is none' goes_on '.*(invalid ELF header|file too short)' LD_LIBRARY_PATH="$work/text"
check 'a library without the calls' goes_on 'the driver library lacks cu[A-Za-z]+, .*install a newer driver' \
    LD_LIBRARY_PATH="$work/empty"
check 'no device' goes_on 'the driver does not start: cuInit: CUDA_ERROR_NO_DEVICE' \
    LD_LIBRARY_PATH="$driver" HETERPS_STANDIN=none
check 'no cards' goes_on 'the driver has no cards' LD_LIBRARY_PATH="$driver" HETERPS_EMU_CARDS=0
check 'an old driver' goes_on 'the driver is made for CUDA 12.4, and .* need 1[0-9].0' \
    LD_LIBRARY_PATH="$driver" HETERPS_STANDIN=old
ulimit -c unlimited 2>/dev/null
check 'a driver that crashes' goes_on 'the driver crashes when it is started .Segmentation fault' \
    LD_LIBRARY_PATH="$driver" HETERPS_STANDIN=crash
check 'its crash leaves no core' sh -c '! ls core* 2>/dev/null'
fails 1 '--gpu on: there is no card: the driver crashes' 'a driver that crashes: --gpu on fails' \
    env LD_LIBRARY_PATH="$driver" HETERPS_STANDIN=crash "$HETERPS" devices --gpu on

# ---- where files of memory cannot be run, or there is no loader ----
no_loader() {
    mkdir -p root/usr/local/nvidia/lib64 && cp "$driver/libcuda.so.1" root/usr/local/nvidia/lib64/ || return 1
    chroot root /heterps-run devices -v >out 2>err || { cat err; return 1; }
    grep -q '^no cards: it cannot be run: No such file or directory (no dynamic loader, /lib64/ld-linux' err ||
        { cat err; return 1; }
    grep -q '^cards  *none: it cannot be run' out
}
if [ "$(id -u)" = 0 ]; then check 'no dynamic loader' no_loader; else skip 'no dynamic loader' 'chroot needs root'; fi
refused='echo 2 >/proc/sys/vm/memfd_noexec'
if unshare -pf sh -c "$refused" 2>/dev/null; then
    refuses() {
        LD_LIBRARY_PATH=$driver unshare -pf sh -c "$refused; exec '$HETERPS' devices -v" >out 2>err ||
            { cat err; return 1; }
        grep -q '^no cards: no file in memory for the CUDA side: memfd_create: Permission denied' err ||
            { cat err; return 1; }
    }
    check 'files of memory that may not be run' refuses
else
    skip 'files of memory that may not be run' 'unshare needs root, the setting Linux 6.3'
fi
noexec='mount -t tmpfs -o noexec,nosuid none /tmp && mount -t tmpfs -o ro none /mnt'
if unshare -m sh -c "$noexec" 2>/dev/null; then
    check 'no place to write or to run anything from' \
        unshare -m sh -c "cp '$HETERPS' /var/tmp/heterps-run.$$ && mkdir -p /var/tmp/driver.$$ &&
        cp '$driver/libcuda.so.1' /var/tmp/driver.$$/ && $noexec && cd /mnt &&
        LD_LIBRARY_PATH=/var/tmp/driver.$$ TMPDIR=/mnt /var/tmp/heterps-run.$$ devices --gpu on"
    rm -rf "/var/tmp/heterps-run.$$" "/var/tmp/driver.$$"
else
    skip 'no place to write or to run anything from' 'unshare and mount need root'
fi

# ---- a driver that answers: the image takes over ----
fails 1 'nothing is left of its 64.0 GiB: other processes hold them' 'a card whose memory others hold' \
    env LD_LIBRARY_PATH="$driver" HETERPS_STANDIN=taken "$HETERPS" devices --gpu on
check 'cards are found' sh -c "LD_LIBRARY_PATH='$driver' HETERPS_EMU_CARDS=2 '$HETERPS' devices --gpu on |
    grep -q 'cuda:1 *emulated card 1'"
check '--gpu off leaves them alone' sh -c "LD_LIBRARY_PATH='$driver' HETERPS_STANDIN=hang '$HETERPS' devices --gpu off |
    grep -q '^cards  *none: --gpu is off$'"
check 'nor do other verbs start it' sh -c "LD_LIBRARY_PATH='$driver' HETERPS_STANDIN=hang '$HETERPS' inspect tiny.bin"
check 'nor does predict' sh -c "LD_LIBRARY_PATH='$driver' HETERPS_STANDIN=hang timeout 5 '$HETERPS' predict tiny.bin \
    --model plain.model --data data.tsv -o scores -q"
check 'the image itself needs no probe' \
    sh -c "LD_LIBRARY_PATH='$driver' '$BUILD/image' devices --gpu on | grep -q 'emulated card 0'"
check 'SIGCHLD may be ignored' \
    sh -c "trap '' CHLD; LD_LIBRARY_PATH='$driver' '$HETERPS' devices --gpu on | grep -q 'emulated card 0'"

same_as_without() {
    LD_LIBRARY_PATH=$driver trains carded tiny.bin --data data.tsv --gpu on && same_bytes plain carded
}
check 'a plan of processors gives the same bytes' same_as_without
from_input() {
    rm -rf input.model
    with_driver "$HETERPS" tiny.bin --data - --out input.model --gpu on -q <data.tsv &&
        exported tiny.bin input.model input && same_bytes plain input
}
check 'standard input is all there' from_input
LD_LIBRARY_PATH=$driver fails 1 'nothing.bin: No such file' 'exit status 1' "$HETERPS" nothing.bin \
    --data d --gpu on
LD_LIBRARY_PATH=$driver fails 2 'did you mean --data' 'exit status 2' "$HETERPS" tiny.bin --gpu on --dat x

# A long run: the same process, called the same, with its words; nothing of the start is left.
export LD_LIBRARY_PATH="$driver"
start tiny.bin --data data.tsv --set train.epochs=100000 --out long.model --gpu on --log json
unset LD_LIBRARY_PATH
await '"event":"\(step\|progress\|train\)' run.out
is_image() { readlink "/proc/$pid/exe" | grep -q '^/memfd:heterps-run'; }
is_called() { grep -qx heterps-run "/proc/$pid/comm"; }
has_words() {
    tr '\0' ' ' <"/proc/$pid/cmdline" |
        grep -q "^$HETERPS tiny.bin --data data.tsv --set train.epochs=100000 --out long.model --gpu on --log json $"
}
has_no_child() { [ -z "$(cat "/proc/$pid/task/$pid/children")" ]; }
has_no_file() { ! ls -l "/proc/$pid/fd" | grep -q memfd; }
check 'the process that was started is the image' is_image
check 'it is called as before' is_called
check 'it has its words' has_words
check 'no child is left' has_no_child
check 'nor its file' has_no_file
kill -INT "$pid"
wait "$pid"
status=$?
check 'Ctrl-C saves and ends with 130' test $status = 130 -a -s long.model/manifest.json

# ---- the end of the one that hangs ----
# Whoever is killed while probing leaves no probe behind.
LD_LIBRARY_PATH=$driver HETERPS_STANDIN=hang "$HETERPS" devices --gpu on >/dev/null 2>&1 &
killed=$!
probe=
for tenth in 1 2 3 4 5 6 7 8 9 10; do
    probe=$(cat "/proc/$killed/task/$killed/children" 2>/dev/null | tr -d ' ')
    [ -z "$probe" ] || break
    sleep 0.1
done
sleep 0.2
kill -KILL $killed
wait $killed 2>/dev/null
sleep 0.2
pid=$probe
has_ended() { [ -n "$pid" ] && is_over; }
check 'a probe ends with who has started it' has_ended
wait $hanging
status=$?
check 'a driver that hangs ends the wait, not us' test $status = 1 -a ! -s hang.out
check 'and is told' grep -q -- '^no cards: the driver does not answer within 10 s: does `nvidia-smi`?$' hang.err
finish

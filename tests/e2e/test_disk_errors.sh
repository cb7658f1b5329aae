#!/bin/sh
# A disk that gives no more, and a neighbour that cuts a file while it is read: a sentence with file and byte, never a signal's end.
. "$(dirname "$0")/lib.sh"
tiny_model
rows 4000 "$work/data.tsv"
"$HETERPS" compile "$work/tiny.cfg" -o "$work/graph.bin" --set emb.dim=64 -q &&
    "$HETERPS" "$work/graph.bin" --data "$work/data.tsv" --out "$work/model" -q && "$HETERPS" export "$work/graph.bin" --model "$work/model" -o "$work/tensors" -q ||
    { echo "not ok 1 - fixture"; exit 1; }
graph=$work/graph.bin
emb=$(basename "$work"/model/emb.*.rows)

# told DIRECTORY: every verb that reads files of DIRECTORY/model and DIRECTORY/tensors.
verbs() {
    cat <<VERBS
fsck fsck $1/model
eval eval $graph --model $1/model --data $work/data.tsv
export export $graph --model $1/model -o $work/out
resume $graph --data $work/data.tsv --resume $1/model --out $work/resumed --set train.epochs=2 -q
init $graph --data $work/data.tsv --init $1/model --out $work/new -q
init-of-tensors $graph --data $work/data.tsv --init $1/tensors --out $work/new -q
import import $graph $1/tensors --out $work/imported
VERBS
}

# A neighbour: what is read now is cut a moment later. When, no test can say: any end will do that is told.
neighbour() {
    verbs "$work/cut" >"$work/verbs"
    while read -r name line; do
        for moment in 0 0.005 0.012; do
            rm -rf "$work/cut" "$work/out" "$work/resumed" "$work/new" "$work/imported"
            mkdir "$work/cut" && cp -r "$work/model" "$work/tensors" "$work/cut"
            { sleep $moment; truncate -s 5000 "$work/cut/model/$emb" "$work"/cut/tensors/emb*; } &
            "$HETERPS" $line >"$work/.out" 2>"$work/.err"
            status=$?
            wait
            [ $status -le 1 ] && { [ $status = 0 ] || tail -1 "$work/.err" | grep -q '^heterps-run: error: '; } || { echo "# $name: status $status"; tail -2 "$work/.err" | note; return 1; }
        done
    done <"$work/verbs"
}
if neighbour; then ok 'a neighbour cuts files while they are read'; else not_ok 'a neighbour cuts files while they are read'; fi

# A disk that ends early: a file system in a file, on a loop device, of which the end is cut off.
mounted=
disk_make() {
    truncate -s 24M "$work/disk" && mkfs.ext2 -q -b 4096 -I 128 -m 0 "$work/disk" >"$work/.log" 2>&1 && mkdir "$work/mounted" && mount -o loop "$work/disk" "$work/mounted" >>"$work/.log" 2>&1 &&
        mounted=$work/mounted && cp -r "$work/model" "$work/tensors" "$mounted" && sync && echo 3 >/proc/sys/vm/drop_caches
}
trap '[ -z "$mounted" ] || umount "$mounted"; rm -rf "$work"' EXIT
if disk_make 2>>"$work/.log"; then
    # What is there is read first: only the data of the large files are to be lost.
    ls -lR "$mounted" >/dev/null
    head -c 4096 "$mounted/model/manifest.json" >/dev/null
    cat "$mounted"/model/dense* >/dev/null
    first=$(filefrag -v "$mounted/model/$emb" 2>/dev/null | awk '$1 == "0:" { sub(/\.\..*/, "", $4); print $4 }')
    truncate -s $(((${first:-1000} + 20) * 4096)) "$work/disk"
    verbs "$mounted" >"$work/verbs"
    while read -r name line; do
        rm -rf "$work/out" "$work/resumed" "$work/new" "$work/imported"
        "$HETERPS" $line >"$work/.out" 2>"$work/.err"
        status=$?
        if [ $status = 1 ] && grep -qE "^heterps-run: error: $mounted/(model|tensors)/[^ ]*: byte [0-9]+ cannot be read: Input/output error$|^fault +$mounted/model/$emb: byte [0-9]+ cannot be read: Input/output error$" "$work/.out" "$work/.err" -h &&
            [ ! -e "$work/out/emb.safetensors" ] && [ ! -e "$work/new/manifest.json" ] && [ ! -e "$work/imported/manifest.json" ]; then
            ok "a disk that ends early: $name"
        else
            not_ok "a disk that ends early: $name"
            { echo "exit status $status"; cat "$work/.out" "$work/.err" | tail -4; } | note
        fi
    done <"$work/verbs"
else
    skip 'a disk that ends early' "no loop device: $(tail -1 "$work/.log" 2>/dev/null)"
fi
finish

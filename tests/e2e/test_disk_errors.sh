#!/bin/sh
# A disk that gives no more, and a neighbour that cuts a file while it is read: a sentence with file and byte,
# never a signal's end.
. "$(dirname "$0")/lib.sh"
tiny_model
rows 4000 "$work/data.tsv"
"$HETERPS" compile "$work/tiny.cfg" -o "$work/graph.bin" --set emb.dim=64 -q &&
    "$HETERPS" "$work/graph.bin" --data "$work/data.tsv" --out "$work/model" -q &&
    "$HETERPS" export "$work/graph.bin" --model "$work/model" -o "$work/tensors" -q ||
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

# A neighbour: what is read is cut when it has been mapped, and before its bytes are touched. eval and
# --resume map the rows twice: to look at their header, and to read them. fsck looks again at what it could
# not read, and then counts the bytes.
verbs "$work/cut" >"$work/verbs"
while read -r name line; do
    rm -rf "$work/cut" "$work/out" "$work/resumed" "$work/new" "$work/imported"
    mkdir "$work/cut" && cp -r "$work/model" "$work/tensors" "$work/cut"
    case $name in init-of-tensors | import) cut=$work/cut/tensors/emb.safetensors ;; *) cut=$work/cut/model/$emb ;; esac
    case $name in eval | resume) time=2 ;; *) time=1 ;; esac
    python3 tests/e2e/cut_mapped.py "$cut" 5000 $time "$HETERPS" $line >"$work/.out" 2>"$work/.err"
    status=$?
    if [ $status = 77 ]; then
        skip "a neighbour cuts a file: $name" 'no process may be traced here'
    elif [ $status = 1 ] &&
        told="^heterps-run: error: $cut: byte 5000 cannot be read: the file had [0-9]+ bytes, and has been cut$" &&
        grep -qE "$told|^fault +$cut: 5000 bytes, .* bytes 5000 to [0-9]+ are missing$" \
            "$work/.out" "$work/.err" -h &&
        [ ! -e "$work/out/emb.safetensors" ] && [ ! -e "$work/new/manifest.json" ] &&
        [ ! -e "$work/imported/manifest.json" ]; then
        ok "a neighbour cuts a file: $name"
    else
        not_ok "a neighbour cuts a file: $name"
        { echo "exit status $status"; cat "$work/.out" "$work/.err" | tail -4; } | note
    fi
done <"$work/verbs"

# A disk that ends early: a file system in a file, on a loop device, of which the end is cut off.
mounted=
disk_make() {
    truncate -s 24M "$work/disk" && mkfs.ext2 -q -b 4096 -I 128 -m 0 "$work/disk" >"$work/.log" 2>&1 &&
        mkdir "$work/mounted" && mount -o loop "$work/disk" "$work/mounted" >>"$work/.log" 2>&1 &&
        mounted=$work/mounted && cp -r "$work/model" "$work/tensors" "$mounted" && sync &&
        echo 3 >/proc/sys/vm/drop_caches
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
        unread='byte [0-9]+ cannot be read: Input/output error$'
        told="^heterps-run: error: $mounted/(model|tensors)/[^ ]*: $unread|^fault +$mounted/model/$emb: $unread"
        if [ $status = 1 ] && grep -qE "$told" "$work/.out" "$work/.err" -h &&
            [ ! -e "$work/out/emb.safetensors" ] && [ ! -e "$work/new/manifest.json" ] &&
            [ ! -e "$work/imported/manifest.json" ]; then
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

#!/bin/sh
# `key`: a new one each time, in a file for its owner alone, or on standard output; never over a file that is there.
. "$(dirname "$0")/lib.sh"
cd "$work" || exit 1
h=$HETERPS

is_key() { # FILE: 64 hexadecimal digits and a line's end
    [ "$(wc -c <"$1")" = 65 ] && [ "$(wc -l <"$1")" = 1 ] && grep -qE '^[0-9a-f]{64}$' "$1"
}
umask 0
check 'key -o FILE' "$h" key -o a.key
check 'it is a key' is_key a.key
check 'its owner alone can open it' sh -c '[ "$(stat -c %a a.key)" = 600 ]'
check 'key' sh -c "'$h' key >b.key 2>said && [ ! -s said ]"
check 'it is one, too' is_key b.key
check 'key -o c.key' sh -c "'$h' key -o c.key >said 2>&1"
check 'of which nothing else is said' sh -c '! grep -q "$(cat c.key)" said'
check 'no two are the same' sh -c '! cmp -s a.key b.key'
cp a.key before
fails 2 'a.key is there already' 'a key that is there stays' "$h" key -o a.key
check 'as it was' cmp a.key before
fails 1 'none/a.key: No such file' 'no folder' "$h" key -o none/a.key
fails 1 'standard output' 'a full disk' sh -c "'$h' key >/dev/full"
finish

#!/bin/sh
# The program as it is shipped: one static, stripped file under 40 MB that runs with nothing around it.
set -u
name=$(basename "$BUILD")
if [ "$name" != release ]; then
    echo "ok 1 - shipped file # SKIP a $name build is not shipped"
    exit 0
fi
count=0
check() { # DESCRIPTION, then a command
    description=$1
    shift
    count=$((count + 1))
    if "$@"; then echo "ok $count - $description"; else echo "not ok $count - $description"; fi
}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

is_static() { ! readelf -l "$HETERPS" | grep -q INTERP && ! readelf -d "$HETERPS" | grep -q NEEDED; }
is_stripped() { ! readelf -S "$HETERPS" | grep -q '\.symtab'; }
is_small() { [ "$(wc -c <"$HETERPS")" -lt 40000000 ]; }
runs_alone() { # in a root directory that holds nothing else
    [ "$(id -u)" = 0 ] || return 0
    cp "$HETERPS" "$folder/heterps-run" && chroot "$folder" /heterps-run --version >/dev/null
}
check 'heterps-run is fully static' is_static
check 'heterps-run is stripped' is_stripped
check 'heterps-run is under 40 MB' is_small
check 'heterps-run starts in an empty root' runs_alone

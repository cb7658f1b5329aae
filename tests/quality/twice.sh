#!/bin/sh
# Usage: sh tests/quality/twice.sh [PROGRAM]
# Builds the checked-out commit twice, in two new directories of different names, and compares the programs byte by
# byte. With the PROGRAM that ./build.sh has made of this commit it builds once, and takes from build/release what
# compiles longest, the kernels of cards, which are nvcc's work, and those of processors, and three quarters of the
# other objects: another three of four with another commit. Prints their SHA-256. Exit status 1 if they differ; 77
# with a sentence if PROGRAM cannot be the commit's.
set -eu
cd "$(dirname "$0")/../.."
tree=$PWD
if [ $# -gt 0 ]; then
    git diff --quiet HEAD -- 2>/dev/null || { echo 'twice.sh: files have changed since the commit'; exit 77; }
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
one=$work/one/heterps-run
made='one another/place'
if [ $# -gt 0 ]; then
    one=$1 made=another/place
fi
for name in $made; do
    mkdir -p "$(dirname "$work/$name")"
    git clone -q "$tree" "$work/$name"
    if [ $# -gt 0 ]; then # younger than the sources and their flags, so nothing to do
        mkdir -p "$work/$name/build/release"
        cp build/release/flags "$work/$name/build/release"
        quarter=$((0x$(git rev-parse HEAD | cut -c1-4) % 4))
        (
            cd build/release
            [ ! -d fatbin ] || echo fatbin
            find engine/device/cpu/isa -name '*.o'
            find cfg engine graph io sched gpu -name '*.o' -not -path 'engine/device/cpu/isa/*' | sort |
                awk "NR % 4 != $quarter"
        ) | sed 'p; s/\.o$/.d/' | sort -u | tar c -C build/release -T - | tar xm -C "$work/$name/build/release"
    fi
    (cd "$work/$name" && ./build.sh release | tail -1)
done
sha256sum "$one" "$work/another/place/heterps-run"
cmp "$one" "$work/another/place/heterps-run" && echo 'the same bytes'

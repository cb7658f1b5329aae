#!/bin/sh
# Usage: sh tests/quality/twice.sh
# Builds the checked-out commit twice, in two new directories of different names, and compares the programs byte by
# byte. Takes two whole builds. Prints their SHA-256; exit status 1 if they differ.
set -eu
cd "$(dirname "$0")/../.."
tree=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for name in one another/place; do
    mkdir -p "$(dirname "$work/$name")"
    git clone -q "$tree" "$work/$name"
    (cd "$work/$name" && ./build.sh release | tail -1)
done
(cd "$work" && sha256sum one/heterps-run another/place/heterps-run)
cmp "$work/one/heterps-run" "$work/another/place/heterps-run" && echo 'the same bytes'

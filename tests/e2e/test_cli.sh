#!/bin/sh
# The command line: help and version, and every way to get it wrong. A wrong command line ends with 2, a failure with 1, each with one line
# that says what and where; nothing that stood before is touched.
. "$(dirname "$0")/lib.sh"
tiny_model
rows 500 "$work/data.tsv"
check 'a model is trained' "$HETERPS" "$work/tiny.bin" --data "$work/data.tsv" --out "$work/model"
graph=$work/tiny.bin model=$work/model data=$work/data.tsv
verbs='compile train eval predict export inspect gen'

# ---- help and version ----
for arguments in '--help' 'help' '-h' 'help settings' '--version' $(printf '%s--help ' $(printf '%s=' $verbs | sed 's/=/= /g') | tr '=' '+'); do
    arguments=$(echo "$arguments" | tr '+' ' ')
    # shellcheck disable=SC2086
    "$HETERPS" $arguments >"$work/.out" 2>"$work/.err"
    check "$arguments: prints to standard output and succeeds" test $? = 0 -a -s "$work/.out" -a ! -s "$work/.err"
done
check '--version: names the version' grep -qx "heterps-run $(cat engine/VERSION)" "$work/.out" || true
for verb in $verbs; do check "--help lists $verb" sh -c "'$HETERPS' --help | grep -q '^  $verb '"; done
for flag in --data --eval --out --threads --set --log --help; do check "train --help explains $flag" sh -c "'$HETERPS' train --help | grep -q -e '^  $flag '"; done
finish

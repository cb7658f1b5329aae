#!/bin/sh
# Usage: sh tests/e2e/flags.sh PROGRAM >tests/golden/flags
# What every verb says of itself and of its flags: its help; each flag with a value that is none, from which
# the bounds of numbers show, and given twice; and the verb without arguments, with one that is nowhere, with
# too many. test_cli.sh compares it with tests/golden/flags, which is to be written anew, and looked through,
# when a verb or a flag is meant to change.
h=$1
for verb in $("$h" help | sed -n 's/^  \([a-z-]*\)  .*/\1/p' | grep -v '^heterps-run$'); do
    echo "== $verb"
    "$h" "$verb" --help
    for flag in $("$h" "$verb" --help | sed -n 's/^  \(--*[a-zA-Z-]*\) .*/\1/p'); do
        case $flag in --*) "$h" "$verb" "$flag=?" --nonsense ;; esac
        "$h" "$verb" "$flag" 1 "$flag" 1 --nonsense
    done
    case $verb in bench | devices | pretrain) continue ;; esac # they would run
    "$h" "$verb"
    "$h" "$verb" nowhere
    "$h" "$verb" a b c d
done 2>&1 | sed -E 's/^[0-9a-f]{64}$/KEY/' # a new one each time

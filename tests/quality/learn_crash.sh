#!/bin/sh
# Usage: sh tests/quality/learn_crash.sh [N]        (default 300; needs ./heterps-run)
# Learning beside serving, with N times kill -9 at a random moment: nothing that is said to be saved is lost,
# nothing is learned twice, and in the end the model has the bytes of a training from a file.
. "$(dirname "$0")/../e2e/lib.sh"
kills=${1:-300}
here=$root/tests/e2e
cd "$work" || exit 1
tiny_model
rows 1000 rows.tsv
rows $((kills * 640)) next.tsv 1000
"$HETERPS" tiny.bin --data rows.tsv --out model -q </dev/null
check "$kills times kill -9" python3 "$here/learn_check.py" "$HETERPS" "$work" "$kills"
finish

#!/bin/sh
# A training asked for its figures over HTTP while it runs: they are those of its report, and the model's
# bytes are as without them.
. "$(dirname "$0")/lib.sh"
here=$root/tests/e2e
cd "$work" || exit 1
h=$HETERPS
tiny_model
rows 3200 rows.tsv
"$h" gen criteo --rows 6400 --vocab 200000 -o wide.tsv -q || not_ok 'data'

client_checks 4 "$here/metrics_check.py" "$h" "$work"

# --- what it does not start with --------------------------------------------------------------------------------------

fails 2 '--metrics: expected ADDR:PORT in numbers' 'an address that is none' \
    "$h" tiny.bin --data rows.tsv --metrics here:80 -q
fails 2 '--metrics 0.0.0.0:0 can be reached from other machines: give --token-file FILE, or --insecure' \
    'an address of other machines' "$h" tiny.bin --data rows.tsv --metrics 0.0.0.0:0 -q
echo 0123456789abcdef >tokens
fails 2 'exclude each other' 'tokens, and none' "$h" tiny.bin --data rows.tsv --metrics 127.0.0.1:0 \
    --token-file tokens --insecure -q
fails 2 'exclude each other' 'tokens, and none, on nodes' "$h" tiny.bin --data rows.tsv --metrics 127.0.0.1:0 \
    --token-file tokens --insecure --nodes 127.0.0.1:5,127.0.0.1:6 --rank 0 -q
fails 2 '--token-file is for --metrics' 'tokens for nothing' "$h" tiny.bin --data rows.tsv --token-file tokens -q
fails 2 'are for a training on several nodes' 'trust for nothing' "$h" tiny.bin --data rows.tsv --insecure -q
fails 2 '--metrics: 64 connections need 320 descriptors, and this process may have 70; raise the limit' \
    'few descriptors' sh -c "ulimit -n 70 && exec '$h' tiny.bin --data rows.tsv --metrics 127.0.0.1:0 -q"
fails 1 'wide.txt' 'tokens that are not there' "$h" tiny.bin --data rows.tsv \
    --metrics 127.0.0.1:0 --token-file wide.txt -q
open_to_all() {
    "$h" tiny.bin --data rows.tsv --metrics 0.0.0.0:0 --insecure 2>err &&
        grep -q 'whoever reaches 0.0.0.0:0 may ask' err && grep -q 'metrics  http://0.0.0.0:' err
}
check 'whoever reaches it, as is said' open_to_all
check 'whose --insecure is of figures, and not of nodes that a launcher names' \
    env JOB_COMPLETION_INDEX=0 "$h" tiny.bin --data rows.tsv \
    --metrics 127.0.0.1:0 --insecure -q
planned() { "$h" tiny.bin --data rows.tsv --metrics 127.0.0.1:0 --dry-run >out 2>&1 && ! grep -q 'metrics  http' out; }
check 'a plan of memory asks for nobody' planned
finish

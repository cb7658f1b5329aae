#!/bin/sh
# A client that others wrote, tritonclient[http], asks for predictions. It is taken from pip once, into
# build/tritonclient.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/process.sh"
pip_python tritonclient tritonclient.http 'tritonclient[http]' || { skip 'tritonclient asks' "$pip_why"; finish; }
tiny_model
rows 1000 "$work/rows.tsv"
heterps "$work/tiny.bin" --data "$work/rows.tsv" --out "$work/model"
heterps predict "$work/tiny.bin" --model "$work/model" --data "$work/rows.tsv" -o "$work/plain"
start serve "$work/tiny.bin" --model "$work/model" --listen 127.0.0.1:0
await 'http://' "$work/run.err" || not_ok 'the server starts'
address=$(sed -n 's,.*http://,,p' "$work/run.err")
check 'tritonclient asks, and is answered what predict says' \
    "$python" "$root/tests/e2e/serve_triton.py" "$address" "$work/rows.tsv" "$work/plain"
kill -TERM "$pid"
wait "$pid"
check 'and the server ends' [ $? = 0 ]
finish

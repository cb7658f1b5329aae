#!/bin/sh
# A client that others wrote, tritonclient[http], asks for predictions. It is taken from pip once, into build/tritonclient.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/process.sh"
client=$root/build/tritonclient
if ! "$client/bin/python" -c 'import tritonclient.http' 2>/dev/null; then
    rm -rf "$client"
    { python3 -m venv "$client" && "$client/bin/pip" install -q 'tritonclient[http]'; } >"$work/pip" 2>&1 || {
        rm -rf "$client"
        skip 'tritonclient asks' "pip gives no tritonclient[http] here: $(tail -1 "$work/pip" | cut -c 1-200)"
        finish
    }
fi
tiny_model
rows 1000 "$work/rows.tsv"
heterps "$work/tiny.bin" --data "$work/rows.tsv" --out "$work/model"
heterps predict "$work/tiny.bin" --model "$work/model" --data "$work/rows.tsv" -o "$work/plain"
start serve "$work/tiny.bin" --model "$work/model" --listen 127.0.0.1:0
await 'http://' "$work/run.err" || not_ok 'the server starts'
address=$(sed -n 's,.*http://,,p' "$work/run.err")
check 'tritonclient asks, and is answered what predict says' "$client/bin/python" "$root/tests/e2e/serve_triton.py" "$address" "$work/rows.tsv" "$work/plain"
kill -TERM "$pid"
wait "$pid"
check 'and the server ends' [ $? = 0 ]
finish

#!/bin/sh
# The proxy of engine/serve/README.md in front of a server: what it says there is run as it is, but for paths
# and ports, and asked over TLS.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/process.sh"
for needed in nginx openssl curl; do
    command -v $needed >/dev/null || { skip 'nginx stands in front' "there is no $needed here"; finish; }
done
tiny_model
rows 300 "$work/rows.tsv"
heterps "$work/tiny.bin" --data "$work/rows.tsv" --out "$work/model"
heterps predict "$work/tiny.bin" --model "$work/model" --data "$work/rows.tsv" -o "$work/plain"
start serve "$work/tiny.bin" --model "$work/model" --listen 127.0.0.1:0
await 'http://' "$work/run.err" || not_ok 'the server starts'
address=$(sed -n 's,.*http://,,p' "$work/run.err")
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout "$work/serve.key" \
    -out "$work/serve.pem" 2>/dev/null

# nginx takes no port 0: one that was free a moment ago, and another if somebody was faster.
proxied=no
for try in 1 2 3 4 5; do
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    {
        [ "$(id -u)" != 0 ] || echo 'user root;' # its workers write below $work
        echo "pid $work/nginx.pid; error_log $work/nginx.log; daemon off; events {} http { access_log off;"
        for kind in client_body proxy fastcgi uwsgi scgi; do echo "${kind}_temp_path $work/$kind;"; done
        sed -n '/^```nginx$/,/^```$/p' "$root/engine/serve/README.md" | grep -v '^```' |
            sed "s,/etc/ssl/,$work/,; s,listen 443,listen 127.0.0.1:$port,; s,http://127.0.0.1:8080,http://$address,"
        echo '}'
    } >"$work/nginx.conf"
    nginx -p "$work" -c "$work/nginx.conf" >"$work/nginx.out" 2>&1 &
    proxy=$!
    helpers="$helpers $proxy"
    for look in $(seq 100); do
        curl -sk "https://127.0.0.1:$port/healthz" 2>/dev/null | grep -q '^ok$' && { proxied=yes; break 2; }
        kill -0 "$proxy" 2>/dev/null || break
        sleep 0.1
    done
done
check 'nginx stands in front' [ $proxied = yes ] || note <"$work/nginx.out"
curl -sk --data-binary "@$work/rows.tsv" "https://127.0.0.1:$port/predict" -o "$work/answer"
check 'answers come through it' cmp "$work/answer" "$work/plain"
check 'its page may ask' sh -c \
    "curl -sk -H 'Origin: https://127.0.0.1:$port' -d c0=1 https://127.0.0.1:$port/page/model | grep -q Prediction"
check "another's page may not" sh -c "curl -sk -o /dev/null -w '%{http_code}' -H 'Origin: https://other.example' \
    -d c0=1 https://127.0.0.1:$port/page/model | grep -q 403"
kill "$proxy"
kill -TERM "$pid"
wait "$pid"
check 'and the server ends' [ $? = 0 ]
finish

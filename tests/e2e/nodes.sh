# What tests of trainings on several nodes share, sourced behind process.sh; in $folder.

# tables_model: tables.cfg, a model with a table, three passes of it.
tables_model() {
    cat >tables.cfg <<'CFG'
[model]
name = tables
[data]
dense = I1..I3
sparse = C1..C26
[table emb]
dim = 4
optimizer = adagrad 0.05
[embedding e]
table = emb
input = sparse
[concat x]
input = e, dense
[fc h1]
input = x
units = 8
activation = relu
[fc y]
input = h1
units = 1
[loss bce]
input = y
[train]
batch = 64
lanes = 8
epochs = 3
[store]
ram = 4MiB
[cluster]
timeout = 5
connect = 20
CFG
}

# ended STATUS: the started launcher ends so, within a minute.
ended() {
    tenths=600
    while ! is_over; do
        tenths=$((tenths - 1))
        [ $tenths -gt 0 ] || { echo "still runs after a minute"; tail -n 5 run.err; kill "$pid"; return 1; }
        sleep 0.1
    done
    wait "$pid"
    got=$?
    cp run.err err
    [ $got = "$1" ] || { echo "exit status $got instead of $1"; tail -n 6 run.err; return 1; }
}

# What the last one has said on standard error.
says() { grep -Eq -- "$1" "$folder/err" || { echo "expected /$1/, found:"; tail -n 6 "$folder/err"; return 1; }; }
silent() {
    ! grep -Eq -- "$1" "$folder/err" ||
        { echo "did not expect /$1/, found:"; grep -E "$1" "$folder/err" | head -3; return 1; }
}

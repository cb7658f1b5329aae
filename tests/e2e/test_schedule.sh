#!/bin/sh
# Whatever the system does with the threads, the same graph, data and seed give the same bytes: beside busy
# processes, on one core, stopped and continued.
. "$(dirname "$0")/lib.sh"
. tests/e2e/process.sh
data=$folder/data.tsv
heterps gen criteo --rows "$(scaled 3000)" --seed 11 -o "$data" || { echo "not ok 1 - fixture"; exit 1; }
heterps compile samples/ctrdnn.cfg -o "$folder/wide.bin" --set store.ram=64MiB --set train.lanes=2 ||
    echo 'not ok 999 - compile'
check 'ctrdnn: trains' trains wide "$folder/wide.bin" --data "$data" --threads 1
beside_a_hog() {
    sh -c 'while :; do :; done' &
    hog=$!
    sh -c 'while :; do :; done' &
    helpers="$helpers $hog $!"
    trains_same wide "$folder/wide.bin" --data "$data" --threads 3
    hog_result=$?
    kill $hog $! 2>/dev/null
    wait $hog $! 2>/dev/null
    return $hog_result
}
on_one_core() {
    rm -rf "$folder/again.model"
    taskset -c "$(taskset -cp $$ | sed 's/.*: *//; s/[,-].*//')" "$HETERPS" "$folder/wide.bin" --data "$data" \
        --threads 2 --out "$folder/again.model" -q </dev/null &&
        exported "$folder/wide.bin" "$folder/again.model" again && same_bytes wide again
}
stopped_at_random() {
    rm -rf "$folder/again.model"
    start "$folder/wide.bin" --data "$data" --threads 3 --out "$folder/again.model" -q
    stops=0
    for pause in $(awk -v seed="$seed" 'BEGIN { srand(seed);
        for (i = 0; i < 200; i++) printf "%.3f ", rand() * 0.03 }'); do
        kill -STOP $pid 2>/dev/null || break
        sleep "$pause"
        kill -CONT $pid 2>/dev/null
        stops=$((stops + 1))
        sleep 0.01
        ! is_over || break
    done
    wait $pid || { cat "$folder/run.err"; return 1; }
    exported "$folder/wide.bin" "$folder/again.model" again && same_bytes wide again
}
check 'ctrdnn: the same bytes beside two busy processes' beside_a_hog
if command -v taskset >/dev/null; then
    check 'ctrdnn: the same bytes, two threads on one core' on_one_core
else
    skip 'two threads on one core' 'no taskset'
fi
seed=$(date +%s)
check 'ctrdnn: the same bytes, stopped and continued at random' stopped_at_random
echo "# stopped $stops times, seed $seed"
finish

#!/bin/sh
# What becomes of the work that is done when something fails late: evaluation data with a bad line, a full
# store, a signal that also cuts off the pipe that feeds us, weights that diverge.
. "$(dirname "$0")/lib.sh"
tiny_model
rows 3000 "$work/data.tsv"
head -200 "$work/data.tsv" >"$work/eval.tsv"
{ cat "$work/eval.tsv"; echo nonsense; } >"$work/bad.tsv"
loads() { "$HETERPS" eval "$work/$2" --model "$1" --data "$work/eval.tsv" -q; }

fails 1 'bad.tsv:201' 'a bad line in the evaluation data is an error' \
    "$HETERPS" "$work/tiny.bin" --data "$work/data.tsv" --eval "$work/bad.tsv" --out "$work/late" -q
check '… and the trained model is saved all the same' loads "$work/late" tiny.bin
fails 1 'bad.tsv:201' 'a bad line in the evaluation data between steps is an error' \
    "$HETERPS" "$work/tiny.bin" --data "$work/data.tsv" --eval "$work/bad.tsv" \
    --out "$work/between" --set eval.every=3 -q
check '… and the model so far is saved' loads "$work/between" tiny.bin

"$HETERPS" compile "$work/tiny.cfg" -o "$work/small.bin" --set store.ram=1MiB --set emb.dim=256 --set train.batch=8 -q
fails 1 'store.ram' 'a full store is an error that names the setting to raise' \
    "$HETERPS" "$work/small.bin" --data "$work/data.tsv" --out "$work/full" -q
check '… and the model so far is saved' loads "$work/full" small.bin

"$HETERPS" compile "$work/tiny.cfg" -o "$work/wild.bin" --set train.optimizer='sgd 1e6' -q
fails 1 'not finite.*(the model in|nothing was saved)' \
    'a loss that is not finite is an error with the save to return to' \
    "$HETERPS" "$work/wild.bin" --data "$work/data.tsv" --out "$work/wild" \
    --set checkpoint.every=1 --set train.epochs=20 -q

fails 2 'standard input' 'training and evaluation data cannot both be standard input' \
    "$HETERPS" "$work/tiny.bin" --data - --eval - -q
"$HETERPS" predict "$work/tiny.bin" --model "$work/late" --data "$work/eval.tsv" \
    --log json >"$work/both" 2>"$work/both.err"
check 'events and predictions cannot both go to standard output' test $? = 2
check '… and no prediction is among the events' test "$(grep -vc '"event":"error"' "$work/both")" = 0

# Ctrl-C reaches the writer of our pipe too, which leaves half a line behind.
mkfifo "$work/pipe"
{ cat "$work/data.tsv"; printf '1\t2\t3'; exec sleep 30; } >"$work/pipe" &
writer=$!
"$HETERPS" "$work/tiny.bin" --data "$work/pipe" --out "$work/cut" -q 2>"$work/cut.err" &
trainer=$!
sleep 1
kill -INT $trainer
kill $writer
wait $trainer
check 'a pipe that is cut off by the same Ctrl-C is no error' test $? = 130
check '… and the model is saved' loads "$work/cut" tiny.bin

"$HETERPS" "$work/tiny.bin" --data "$work/data.tsv" --resume "$work/late" >"$work/again.out" 2>"$work/again.err"
check 'resuming a finished run says that there is nothing to train' grep -q 'nothing to train' "$work/again.err"
finish

#!/bin/sh
# Real check-ins (Gowalla): samples/two_tower.cfg on the training file must find at least 0.138 of what the
# test file holds among the 20 best of all items that are new to a user, in one epoch; with EPOCHS=3 0.15.
. "$(dirname "$0")/lib.sh"
data=$SHARED/gowalla
if [ ! -r "$data/train.txt" ]; then
    skip 'recall of two_tower on real check-ins' "no $data"
    finish
fi
cd "$work" || exit 1
epochs=${EPOCHS:-1} least=0.138
[ "$epochs" -lt 3 ] || least=0.15
"$HETERPS" compile "$root/samples/two_tower.cfg" -o two_tower.bin --set "items.path=$data/train.txt" -q &&
    "$HETERPS" two_tower.bin --data "$data/train.txt" --eval "$data/test.txt" --set "eval.exclude=$data/train.txt" \
        --set train.epochs="$epochs" --set store.ram=256MiB --log json >log ||
        { not_ok 'two_tower trains on real check-ins'; finish; }
recall=$(event_field log eval recall)
echo "# recall@20 $recall (at least $least), NDCG@20 $(event_field log eval ndcg)"
if python3 -c "import sys; sys.exit(not $recall >= $least)"; then
    ok "recall@20 reaches $least"
else
    not_ok "recall@20 reaches $least"
fi
finish

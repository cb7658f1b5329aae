#!/bin/sh
# Every optimizer learns from generated clicks, with schedules, penalties and clips; what does not fit is
# refused where it stands.
. "$(dirname "$0")/lib.sh"
examples=8000
case $(basename "$BUILD") in asan | tsan) examples=4000 ;; esac # a sanitizer is slow
tiny_model
rows $examples "$work/train.tsv"
rows 3000 "$work/test.tsv" $examples
cd "$work" || exit 1

# learns NAME SETTING...: the log loss on other examples falls from its value after one step, by 0.02 at least.
learns() {
    name=$1
    shift
    for setting; do set -- "$@" --set "$setting" && shift; done
    "$HETERPS" compile tiny.cfg -o g.bin -q "$@" || { not_ok "$name: compiles"; return; }
    before=$("$HETERPS" g.bin --data train.tsv --eval test.tsv --log json --set train.steps_max=1 >log &&
        event_field log eval logloss)
    after=$("$HETERPS" g.bin --data train.tsv --eval test.tsv --log json >log && event_field log eval logloss)
    check "$name: log loss $before, then $after" \
        python3 -c "import sys; a, b = map(float, sys.argv[1:]); sys.exit(not b < a - 0.02)" "$before" "$after"
}
learns sgd 'train.optimizer=sgd 0.1'
learns adagrad 'train.optimizer=adagrad 0.05'
learns adam 'train.optimizer=adam 0.003'
learns 'momentum, linear' 'train.optimizer=momentum 0.03' 'train.schedule=linear steps=500 warmup=20'
learns 'momentum, nesterov' 'train.optimizer=momentum 0.03 nesterov=1' train.l1=1e-5
learns 'ftrl, step' 'train.optimizer=ftrl 0.1 l2=0.001' 'train.schedule=step every=100 factor=0.7'
learns 'adamw, cosine' 'train.optimizer=adamw 0.005 decay=0.01' 'train.schedule=cosine steps=200 floor=0.1'
learns 'adagrad_row' 'train.optimizer=adagrad 0.05' 'emb.optimizer=adagrad_row 0.1'
learns 'bounded norms' 'train.optimizer=adagrad 0.05' train.clip_norm=0.5 emb.clip_norm=0.01 train.clip_value=0.1

fails 2 'train.optimizer: expected a rule for parameters, found "adagrad_row 0.1"' \
    'a rule of rows for parameters is refused' \
    "$HETERPS" compile tiny.cfg -o g.bin --set 'train.optimizer=adagrad_row 0.1'
fails 2 'train.*schedule: expected a schedule, found "cosin"; did you mean cosine' 'an unknown schedule is refused' \
    "$HETERPS" compile tiny.cfg -o g.bin --set 'train.schedule=cosin steps=10'
"$HETERPS" help settings >help
check 'help lists optimizers and schedules' \
    sh -c "grep -q '^  adagrad_row ' help && grep -q '^  cosine .*warmup=0 steps=100000' help"
"$HETERPS" compile tiny.cfg -o g.bin -q --set 'train.schedule=cosine warmup=5' --set train.clip_norm=2
check 'inspect shows schedule and clips' sh -c "'$HETERPS' inspect g.bin >shown &&
    grep -q 'cosine warmup=5 steps=100000 floor=0' shown && grep -q clip_norm=2 shown"
finish

#!/bin/sh
# The command line: help and version, and every way to get it wrong. A wrong command line ends with 2, a
# failure with 1, each with one line that says what and where; nothing that stood before is touched.
. "$(dirname "$0")/lib.sh"
tiny_model
rows 500 "$work/data.tsv"
check 'a model is trained' "$HETERPS" "$work/tiny.bin" --data "$work/data.tsv" --out "$work/model" -q
cd "$work" || exit 1
h=$HETERPS

# ---- help and version ----
speaks() { # prints to standard output only
    "$h" "$@" >out 2>err && [ -s out ] && [ ! -s err ]
}
check '--version names the version' sh -c "'$h' --version | grep -qx 'heterps-run $(cat "$root/engine/VERSION")'"
for word in --help -h help; do check "$word" speaks $word; done
check 'help settings' speaks help settings
for verb in compile train eval predict export fsck inspect gen; do
    check "$verb --help" speaks $verb --help
    check "help $verb" speaks help $verb
    check "--help names $verb" sh -c "'$h' --help | grep -q '^  $verb '"
done
looked_up() { # WORD PATTERN...: what there is to the word, each line by itself
    "$h" help "$1" >out 2>err && [ ! -s err ] || return 1
    shift
    for pattern; do grep -qE -e "$pattern" out || return 1; done
}
check 'help: an op, with all its keys' looked_up fc '^\[fc\]: takes one input' '^  input ' '^  units +u32 +required' \
    '^  activation +choice +none'
check 'help: a kind of loss' looked_up softmax '^\[softmax\]' \
    '^\[loss\] kind = softmax: takes a prediction; a label' '^  weight '
check 'help: a format, with its keys' looked_up csv '^data.format = csv' '^  csv +values' '^  separator +text +comma'
check 'help: a section' looked_up checkpoint '^\[checkpoint\]$' '^  every +u64 +0'
check 'help: a key, in every section that has it' looked_up l2 '^\[train\]$' '^\[table NAME\]$' 'l2 w is added'
check 'help: a key of one section' \
    sh -c "'$h' help train.every >out 2>&1; [ \$? = 2 ] && '$h' help eval.every | grep -c '^  every' | grep -qx 1"
check 'help: an optimizer' looked_up adam '^optimizer = adam RATE' 'beta1=0.9 '
check 'help: a schedule' looked_up cosine '^train.schedule = cosine' 'steps=100000'
check 'help: a verb that is a section as well' looked_up eval '^heterps-run eval GRAPH' '^\[eval\]$' '^  top '
check 'help: a verb, with its own flags and those of all' looked_up predict '^heterps-run predict GRAPH' \
    '^  --with COLUMNS ' '^  --threads N '
check 'help: no flag of all verbs is required' \
    sh -c "'$h' help train | grep -E '^  (--(log|help|trust-paths|gpu|blas)|-[vq]) ' >own && [ \$(wc -l <own) = 7 ] &&
        ! grep -q '(required)' own"
check 'help: a section of a cluster' looked_up goal '^\[goal, of a cluster\]' '^  throughput '
fails 2 'no help on "bacth": .*; similar words: batch$' 'help: a word with a slip' "$h" help bacth
fails 2 'no help on "form": .*; similar words: format, transform$' 'help: part of a word' "$h" help form
fails 2 'no help on "xyzzy": expected a verb.* or notices$' 'help: no word' "$h" help xyzzy
explains() { # VERB FLAG...
    "$h" "$1" --help >out
    shift
    for flag; do grep -q -e "^  $flag " out || return 1; done
}
common='--log -v -q --help'
# shellcheck disable=SC2086
{
    check 'compile explains its flags' explains compile -o --set $common
    check 'train explains its flags' explains train --data --eval --out --resume --threads --isa --set $common
    check 'eval explains its flags' explains eval --model --data --threads --isa --set $common
    check 'predict explains its flags' explains predict --model --data -o --threads --isa --set $common
    check 'export explains its flags' explains export --model -o --set $common
    check 'fsck explains its flags' explains fsck $common
    check 'inspect explains its flags' explains inspect --dot $common
    check 'gen explains its flags' explains gen --rows --skip --seed --vocab --zipf -o $common
}
case $(basename "$BUILD") in
asan | tsan) skip 'what every verb says of itself and its flags' 'a sanitizer is slow to start, hundreds of times' ;;
*)
    sh "$root/tests/e2e/flags.sh" "$h" >flags 2>&1
    check 'what every verb says of itself and its flags (tests/e2e/flags.sh)' diff "$root/tests/golden/flags" flags
    ;;
esac
check 'a flag and its value may be one word' "$h" gen criteo --rows=2 --zipf=1 -o two.tsv
check '-- ends the flags' "$h" inspect -- tiny.bin

# ---- verbs and positionals ----
fails 2 'expected a verb or a graph' 'nothing at all' "$h"
fails 2 'unknown verb "trian"; did you mean "train"' 'a verb with a slip' "$h" trian
fails 2 'neither a verb nor a file' 'no verb at all' "$h" qqqqqqqq
fails 2 'neither a verb nor a file' 'an empty word' "$h" ''
fails 2 'expected MODEL' 'compile without a model' "$h" compile -o x
fails 2 'unexpected argument "b"' 'compile with two models' "$h" compile a b -o x
fails 2 'expected GRAPH' 'train without a graph' "$h" train --data data.tsv
fails 2 'expected GRAPH' 'flags without a graph' "$h" --data data.tsv
fails 2 'unexpected argument' 'train with two graphs' "$h" tiny.bin tiny.bin
fails 2 'unexpected argument' 'four positionals' "$h" tiny.bin a b c d
for verb in eval predict export; do
    out=; [ $verb = eval ] || out='-o x'
    data='--data data.tsv'; [ $verb != export ] || data=
    # shellcheck disable=SC2086
    fails 2 'expected GRAPH' "$verb without a graph" "$h" $verb --model model $data $out
done
fails 2 'expected GRAPH' 'inspect without a graph' "$h" inspect
fails 2 'expected PATH' 'fsck without a path' "$h" fsck
fails 2 'expected WHAT' 'gen without a format' "$h" gen --rows 1 -o x
fails 1 'csv: No such file' 'gen of no graph' "$h" gen csv --rows 1 -o x

# ---- flags ----
for verb in compile train eval predict export fsck inspect gen; do
    fails 2 'unknown flag --nonsense' "$verb: an unknown flag" "$h" $verb --nonsense 1
    fails 2 'did you mean --help' "$verb: a flag with a slip" "$h" $verb --hlep
    fails 2 'unknown flag -z' "$verb: an unknown short flag" "$h" $verb -z
    fails 2 '--log: expected a value' "$verb: --log without a value" "$h" $verb --log
    fails 2 '-q takes no value|unknown flag -q=1' "$verb: a switch with a value" "$h" $verb -q=1
    fails 2 'is given twice' "$verb: a flag twice" "$h" $verb --log text --log text
done
fails 2 '--log: expected text or json, found "yaml"' '--log yaml' "$h" inspect tiny.bin --log yaml
fails 2 '--dot takes no value' '--dot=1' "$h" inspect tiny.bin --dot=1
fails 2 '-o FILE is missing' 'compile without -o' "$h" compile tiny.cfg
fails 2 '-o: expected a value' 'compile -o without a value' "$h" compile tiny.cfg -o
fails 2 '--model is needed: tiny.bin is a graph without a model' 'eval without a model' \
    "$h" eval tiny.bin --data data.tsv
fails 2 '--data FILE is missing' 'eval without data' "$h" eval tiny.bin --model model
fails 2 '--model is needed' 'predict without a model' "$h" predict tiny.bin --data data.tsv
fails 2 '--data FILE is missing' 'predict without data' "$h" predict tiny.bin --model model
fails 2 '--model DIR is missing' 'export without a model' "$h" export tiny.bin -o x
fails 2 '-o DIR is missing' 'export without -o' "$h" export tiny.bin --model model
fails 2 '--rows N is missing' 'gen without --rows' "$h" gen criteo -o x
fails 2 '-o FILE is missing' 'gen without -o' "$h" gen criteo --rows 1
fails 2 'no training data' 'train without data' "$h" tiny.bin

# ---- values ----
for value in 0 -1 1.5 x '' ' 1' 1x 0x10 1e3 99999999999999999999; do
    fails 2 '--rows: expected a whole number' "--rows '$value'" "$h" gen criteo --rows "$value" -o x
    fails 2 '--threads: expected a whole number' "--threads '$value'" "$h" tiny.bin --data data.tsv --threads "$value"
done
for value in -0.1 10.5 nan inf x ''; do
    fails 2 '--zipf: expected a number' "--zipf '$value'" "$h" gen criteo --rows 1 -o x --zipf "$value"
done
fails 2 '--vocab: expected' '--vocab 0' "$h" gen criteo --rows 1 -o x --vocab 0
fails 2 '--vocab: expected' '--vocab 2000000000' "$h" gen criteo --rows 1 -o x --vocab 2000000000
fails 2 '--threads: expected' '--threads 2000' "$h" tiny.bin --data data.tsv --threads 2000
fails 2 'instruction set' '--isa sse' "$h" tiny.bin --data data.tsv --isa sse

# ---- --set, where a model is compiled and where a graph is run ----
set_fails() { # PATTERN ASSIGNMENT
    fails 2 "$1" "compile --set '$2'" "$h" compile tiny.cfg -o x --set "$2"
    fails 2 "$1" "train --set '$2'" "$h" tiny.bin --data data.tsv --set "$2"
    fails 2 "$1" "eval --set '$2'" "$h" eval tiny.bin --model model --data data.tsv --set "$2"
}
set_fails 'section.key=value' ''
set_fails 'section.key=value' '='
set_fails 'section.key=value' 'train'
set_fails 'section.key=value' 'train.batch'
set_fails 'section.key=value' 'batch=1'
set_fails 'no section' 'nowhere.units=1'
set_fails 'did you mean "units"' 'h1.unit=1'
set_fails 'did you mean "batch"' 'train.bach=1'
set_fails 'whole number' 'train.batch='
set_fails 'whole number' 'train.batch=x'
set_fails 'whole number from 1' 'train.batch=0'
set_fails 'whole number' 'train.batch=-1'
set_fails 'whole number' 'h1.units=1.5'
set_fails 'adagrad' 'train.optimizer=adagard 0.1'
set_fails 'learning rate' 'train.optimizer=adagrad'
set_fails 'learning rate' 'train.optimizer=sgd x'
set_fails 'relu' 'h1.activation=rellu'
set_fails 'criteo' 'data.format=cvs'
set_fails 'bytes|KiB|MiB|expected' 'store.ram=lots'

# ---- paths ----
fails 1 'nope: No such file' 'a graph that is not there' "$h" ./nope
fails 1 'nope.bin: No such file' 'a graph by name that is not there' "$h" nope.bin
fails 1 'directory' 'a graph that is a directory' "$h" ./model --data data.tsv
fails 1 'data.tsv: byte 0: .*not a graph' 'a graph that is data' "$h" data.tsv --data data.tsv
fails 1 'tiny.cfg: byte 0: .*not a graph' 'a graph that is text' "$h" inspect tiny.cfg
fails 1 'tiny.bin:' 'a model text that is a graph' "$h" compile tiny.bin -o x
fails 1 'nope.cfg: No such file' 'a model text that is not there' "$h" compile nope.cfg -o x
fails 1 'nope.tsv: No such file' 'data that are not there' "$h" tiny.bin --data nope.tsv
fails 1 'nope.tsv: No such file' 'the second of two data files is not there' "$h" tiny.bin --data data.tsv,nope.tsv
check 'a list of files may have spaces' "$h" predict tiny.bin --model model --data 'data.tsv, data.tsv' -o twice.txt
check 'and all of them are read' sh -c '[ "$(wc -l <twice.txt)" = 1000 ]'
fails 1 'empty name' 'an empty name among the data files' "$h" tiny.bin --data data.tsv,
fails 1 'directory' 'data that are a directory' "$h" tiny.bin --data model
fails 1 'nope.tsv: No such file' 'evaluation data that are not there' "$h" tiny.bin --data data.tsv --eval nope.tsv
fails 1 'nope: holds no model' 'a model that is not there' "$h" eval tiny.bin --model nope --data data.tsv
fails 1 'holds no model|directory' 'a model that is a file' "$h" predict tiny.bin --model data.tsv --data data.tsv -o x
fails 1 'nope: holds no model' '--resume of nothing' "$h" tiny.bin --data data.tsv --resume nope
fails 1 'nowhere/m: cannot make the directory' '--out in a folder that is not there' \
    "$h" tiny.bin --data data.tsv --out nowhere/m
fails 1 'data.tsv: expected a directory' '--out that is a file' "$h" tiny.bin --data data.tsv --out data.tsv
mkdir precious_folder && echo precious >precious_folder/file
fails 1 'precious_folder: .*holds no model' '--out that is a folder of something else' \
    "$h" tiny.bin --data data.tsv --out precious_folder
fails 1 'expected a directory' 'export to a file' "$h" export tiny.bin --model model -o data.tsv
fails 1 'saved model' 'export into the model' "$h" export tiny.bin --model model -o model
for verb in "compile tiny.cfg" "gen criteo --rows 1" "predict tiny.bin --model model --data data.tsv"; do
    # shellcheck disable=SC2086
    {
        fails 1 'nowhere/x: ' "$verb -o in a folder that is not there" "$h" $verb -o nowhere/x
        fails 1 'model: expected a file' "$verb -o that is a folder" "$h" $verb -o model
    }
done
fails 2 '-o: expected a value, FILE, found nothing' 'gen -o with an empty name' "$h" gen criteo --rows 1 -o ''
fails_json() { # under JSON the error is an event as well
    "$h" tiny.bin --data nope.tsv --log json >out 2>err
    [ $? = 1 ] && [ "$(wc -l <err)" = 1 ] && python3 -c 'import json, sys
e = json.load(sys.stdin)
sys.exit(not (e["event"] == "error" and "nope.tsv" in e["text"]))' <out
}
check 'under --log json an error is an event too' fails_json

# ---- what stood before stays ----
for name in out.bin out.tsv out.txt; do echo precious >$name; done
is_untouched() {
    for name in out.bin out.tsv out.txt precious_folder/file; do [ "$(cat $name)" = precious ] || return 1; done
    ls | grep -q '\.tmp\.' && return 1
    return 0
}
sed 's/units = 8/units = eight/' tiny.cfg >broken.cfg
{ head -20 data.tsv; echo broken; } >broken.tsv
"$h" compile broken.cfg -o out.bin 2>/dev/null
"$h" compile tiny.cfg -o out.bin --set h1.units=x 2>/dev/null
"$h" gen criteo --rows 1 --zipf 99 -o out.tsv 2>/dev/null
"$h" gen csv --rows 1 -o out.tsv 2>/dev/null
"$h" predict tiny.bin --model model --data broken.tsv -o out.txt 2>/dev/null
"$h" predict tiny.bin --model nope --data data.tsv -o out.txt 2>/dev/null
check 'outputs that stood before a failure are untouched, and nothing lies beside them' is_untouched
cp -r model before
fails 1 'broken.tsv:21: ' 'training on broken data' "$h" tiny.bin --data broken.tsv --out model -q
check 'a model that stood before a failed training is untouched' diff -r model before
finish

#!/bin/sh
# tests/quality/mutate.py in a tree of one function and a header: what a test notices, what none does, and
# what no test executes.
. "$(dirname "$0")/lib.sh"
case $(basename "$BUILD") in release) ;; *) skip 'planting bugs' 'runs with release'; finish ;; esac
tool=$root/tests/quality/mutate.py
tree=$work/tree
mkdir -p "$tree/engine/base" "$tree/engine/cmd" "$tree/tests/cfg" "$tree/tests/e2e" "$tree/tests/gpu" \
    "$tree/tests/quality" "$tree/gpu/emu"
for folder in cfg graph io sched; do mkdir -p "$tree/$folder"; done
cp "$root/build.sh" "$tree"
cp "$root/tests/run.sh" "$tree/tests"
: >"$tree/tests/alone"
: >"$tree/tests/waiting"
: >"$tree/engine/base/steady.def"
echo 1 >"$tree/engine/VERSION"
cat >"$tree/cfg/clamp.h" <<'C'
/* a < b */
#define LEAST 3
int clamp(int value, int most);
int spare(int value);
static inline int twice(int value) { return value * 2; }
C
cat >"$tree/cfg/clamp.c" <<'C'
#include "cfg/clamp.h"
int clamp(int value, int most)
{
    if (value < LEAST && "&&"[0]) return LEAST;
    return value > most ? most : twice(value) / 2;
}
int spare(int value)
{
    return value + 4;
}
C
cat >"$tree/engine/cmd/main.c" <<'C'
#include "cfg/clamp.h"
int main(int count, char **words)
{
    (void)words;
    return clamp(count + 100, 50);
}
C
cat >"$tree/tests/cfg/test_clamp.c" <<'C'
#include <stdio.h>
#include "cfg/clamp.h"
int main(void)
{
    int is_good = clamp(1, 9) == 3 && clamp(5, 9) == 5 && clamp(4, 9) == 4;
    puts(is_good ? "ok 1 - clamp" : "not ok 1 - clamp");
    return !is_good;
}
C
cat >"$tree/tests/e2e/test_most.sh" <<'C'
"$HETERPS"
[ $? = 50 ] && echo "ok 1 - most"
C
export NVCC=none
mutate() { python3 "$tool" --tree "$tree" --work "$work/mutate" "$@"; }

check 'the same seed draws the same bugs' sh -c "python3 '$tool' --list --seed 7 --count 9 cfg sched >'$work/one' &&
    python3 '$tool' --list --seed 7 --count 9 cfg sched | cmp - '$work/one' && [ \$(wc -l <'$work/one') = 10 ]"
check 'every entry of the list of equivalents is there' python3 "$tool" --check
ids=$(python3 - "$root" "$tree" <<'P'
import sys
sys.path.insert(0, sys.argv[1] + '/tests/quality')
from mutations import mutations_of
for file in ('cfg/clamp.h', 'cfg/clamp.c', 'engine/cmd/main.c'):
    for m in mutations_of(file, open(f'{sys.argv[2]}/{file}').read()):
        print(f'{m.id}  {file}:{m.line} {m.change}')
P
)
id() { echo "$ids" | sed -n "s|^\([0-9a-f]*\)  $1\$|\1|p"; } # of a bug, by place and change
check 'no bug in comments, strings and includes' \
    sh -c "! echo '$ids' | grep -qE 'clamp.h:1 |clamp.c:1 |main.c:1 |&& to .*place 2'"
again=$(id 'cfg/clamp.h:2 3 to 4'),$(id 'cfg/clamp.c:5 > to >='),$(id 'cfg/clamp.c:4 < to <=')
again=$again,$(id 'cfg/clamp.c:9 + to -'),$(id 'engine/cmd/main.c:5 50 to 25')
mutate --again "$again" >"$work/again" 2>&1
told() { check "$1" grep -qE "$2" "$work/again"; }
told 'a test of the mirror notices a bug in a header' \
    'cfg/clamp.h:2 LEAST: 3 to 4: killed by the mirror: tests/cfg/test_clamp$'
told 'a script notices what no program does' \
    'main.c:5 main: 50 to 25: killed by a broader test: tests/e2e/test_most.sh$'
told 'a bug that nobody can see survives' 'clamp.c:4 clamp: < to <=: SURVIVED: 1 of the mirror, 1 broader ran$'
told 'a line that no test executes' 'clamp.c:9 spare: \+ to -: SURVIVED: no test executes it$'
told 'the end says how many' \
    '^1 killed by the mirror, 1 by broader tests, 2 survived, 1 equivalent .0 of them listed.; 0 did not compile$'
check 'the report has the difference' grep -qF \
    -- '-    if (value < LEAST && "&&"[0]) return LEAST;' "$work/mutate/report.txt"

printf '%s\n    %s\n    %s\n    %s\n' 'cfg/clamp.c: clamp' 'if (value < LEAST && "&&"[0]) return LEAST;' '< to <=' \
    'LEAST is LEAST.' >"$tree/tests/quality/equivalent.txt"
check 'an entry that is there' mutate --check
mutate --list --count 100 cfg >"$work/list"
check 'what is listed is not planted' sh -c "! grep -q 'clamp.c:4 clamp: < to <=' '$work/list'"
sed -i 's/value < LEAST/value  < LEAST + 1/' "$tree/tests/quality/equivalent.txt"
mutate --check 2>"$work/gone"
check 'an entry that matches nothing is told' grep -q 'lists what is not there: cfg/clamp.c: clamp: ' "$work/gone"
[ $failed = 0 ] || note <"$work/again"
finish

#!/bin/sh
# What ./build.sh install leaves: a program that runs, a page that lists every verb and flag, completion that
# completes, a unit that names the program where it lies; licences of all that is linked in; and a program
# that knows nothing of where it was built.
. "$(dirname "$0")/lib.sh"
if [ "$(basename "$BUILD")" != release ]; then
    echo 'ok 1 - install # SKIP only a release build is installed'
    exit 0
fi
into=$work/root
# While another build has the folder, until this one says that it waits.
(
    flock 9
    : >"$work/held"
    for tenth in $(seq 300); do
        if grep -q 'waits for another build' "$work/.out" 2>/dev/null; then break; fi
        sleep 0.1
    done
) 9>"$BUILD/lock" &
until [ -e "$work/held" ]; do sleep 0.05; done
if DESTDIR=$into PREFIX=/opt/heterps ./build.sh install >"$work/.out" 2>&1; then
    ok 'build.sh install'
else
    not_ok 'build.sh install'
    tail -5 "$work/.out" | note
fi
if grep -q 'waits for another build of release' "$work/.out"; then
    ok 'a build waits for another one'
else
    not_ok 'a build waits for another one'
fi
share=$into/opt/heterps/share program=$into/opt/heterps/bin/heterps-run

same() { # NAME EXPECTED FOUND
    if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1"; echo "expected $2, found $3" | note; fi
}
same 'the program is installed' "$("$HETERPS" --version)" "$("$program" --version)"
same 'four files are installed' 4 "$(find "$into" -type f | wc -l)"

# --- the page ---------------------------------------------------------------------------------------------------------
zcat "$share/man/man1/heterps-run.1.gz" >"$work/page"
sed 's/\\-/-/g' "$work/page" >"$work/plain"
missing= verbs=$("$HETERPS" help | sed -n 's/^  \([a-z-]*\)  .*/\1/p' | grep -v '^heterps-run$')
same 'help lists plan-memory, its longest name, as it does the others' plan-memory \
    "$(echo "$verbs" | grep -x plan-memory)"
for verb in $verbs; do
    grep -q "^\.SS \"$verb[ \"]" "$work/plain" || missing="$missing $verb"
    for flag in $("$HETERPS" "$verb" --help | sed -n 's/^  \(--*[a-zA-Z-]*\) .*/\1/p'); do
        sed -n "/^\.SS \"$verb[ \"]/,/^\.SS/p; /^\.SH \"FLAGS OF/,\$p" "$work/plain" |
            grep -qE -- "^(\.B )?$flag( |\$)" || missing="$missing $verb:$flag"
    done
done
same 'the page has every verb and flag' '' "$missing"
same 'the page has a description' 1 "$(grep -c '^\.SH DESCRIPTION$' "$work/page")"
same 'lines of the page begin with the macros of man' '' \
    "$(grep -oE "^[.'][^ ]*" "$work/page" | grep -vxE '\.(TH|SH|SS|PP|TP|B|I|br|nf|fi)' | sort -u)"
same 'what is kept as it is ends' "$(grep -c '^\.nf$' "$work/page")" "$(grep -c '^\.fi$' "$work/page")"
if command -v groff >/dev/null; then
    same 'groff sets the page without a warning' '' "$(groff -man -Tutf8 -K utf8 -ww "$work/page" 2>&1 >/dev/null)"
fi

# --- completion -------------------------------------------------------------------------------------------------------
complete() { # WORD…: what the last word may become
    bash -c 'cd "$1" && . "$2" && shift 2 && COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) &&
        _heterps_run && echo "${COMPREPLY[*]}"' - \
        "$work/files" "$share/bash-completion/completions/heterps-run" heterps-run "$@"
}
mkdir "$work/files" && touch "$work/files/planned.bin"
same 'completes verbs and files' 'plan-memory plan planned.bin' "$(complete plan)"
same 'completes the flags of the verb alone' '' "$(complete key --thr)"
same 'completes flags of a training' '--method --metrics' "$(complete planned.bin --met)"
same 'completes flags of every verb' '--trust-paths' "$(complete planned.bin --trust)"
same 'completes the values of --gpu' 'auto' "$(complete planned.bin --gpu a)"
same 'completes files behind a flag that takes one' 'planned.bin' "$(complete eval --data pl)"
same 'completes the command that is launched' '--isa' "$(complete launch --local 2 -- planned.bin --is)"
same 'completes words of help' 'notices' "$(complete help not)"

# --- the unit ---------------------------------------------------------------------------------------------------------
unit=$into/opt/heterps/lib/systemd/system/heterps-serve@.service
same 'the unit starts the program that is installed' \
    1 "$(grep -c '^ExecStart=/opt/heterps/bin/heterps-run serve ' "$unit")"
for flag in $(sed -n 's/^ExecStart=//p; s/^#  *HETERPS_FLAGS=//p;
    s/^Environment=//p' "$unit" | grep -oE -- '--[a-z-]+' | sort -u); do
    if "$HETERPS" serve --help | grep -q -- "^  $flag "; then
        ok "serve takes $flag"
    else
        not_ok "serve takes $flag"
    fi
done

# --- licences ---------------------------------------------------------------------------------------------------------
"$HETERPS" help notices >"$work/notices"
missing=
for library in $(sed -n "s/^packages=['\"]\(.*\)['\"]$/\1/p" build.sh | tr ' ' '\n' | grep -- -dev); do
    grep -q "^=== $library " "$work/notices" || missing="$missing $library"
done
same 'the licences of every library' '' "$missing"
for text in 'GNU LESSER GENERAL PUBLIC LICENSE' 'GNU GENERAL PUBLIC LICENSE'; do
    if grep -q "^ *$text$" "$work/notices"; then
        ok "the whole text of the $text"
    else
        not_ok "the whole text of the $text"
    fi
done

# --- the same bytes wherever it is built ------------------------------------------------------------------------------
if grep -qF "$PWD" "$HETERPS"; then
    not_ok 'nothing in the program names where it was built'
else
    ok 'nothing in the program names where it was built'
fi
mkdir -p "$work/elsewhere/a" &&
    ln -s "$PWD/engine" "$PWD/graph" "$PWD/cfg" "$PWD/io" "$PWD/sched" "$PWD/gpu" "$work/elsewhere/a"
for source in engine/base/status.c engine/cmd/verb_help.c; do
    command=$(python3 -c 'import json,sys
commands = json.load(open("compile_commands.json"))
print(next(e["command"] for e in commands if e["file"] == sys.argv[1]))' "$source")
    (cd "$work/elsewhere/a" && eval "$(echo "$command" | sed 's/ -o .*//') -o object.o")
    objcopy -g "$BUILD/${source%.c}.o" "$work/here.o" && objcopy -g "$work/elsewhere/a/object.o" "$work/there.o"
    if cmp -s "$work/here.o" "$work/there.o"; then
        ok "$source compiles to the same bytes elsewhere"
    else
        not_ok "$source compiles to the same bytes elsewhere"
    fi
done
finish

#!/bin/sh
# Usage: ./build.sh [release|debug|asan|tsan|deps|test|demo|bench]        output of the first four: ./heterps-run
#   release  optimised, stripped, fully static (default)      debug  -O1 -g, static
#   asan     AddressSanitizer and UndefinedBehaviorSanitizer  tsan   ThreadSanitizer
#   deps     installs the Debian packages that are missing    test   builds and runs every test, or TESTS=PATTERN; MODE=asan|tsan
#   demo     generates data, compiles, trains, evaluates, predicts
#   bench    builds the programs of tests/bench into build/release
# Needs a C11 compiler (CC, default gcc). Only what changed is rebuilt. Everything is made under build/MODE.
set -eu
cd "$(dirname "$0")"
verb=${1:-release}
CC=${CC:-gcc}
packages='gcc libc6-dev libjansson-dev liblz4-dev liburing-dev libxxhash-dev zlib1g-dev'
test_packages='libcmocka-dev python3 qemu-user'

# Installs what is missing of "$@": as root or by sudo; else says how, and ends with 2.
need_packages() {
    missing=
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" = 0 ]; then sudo=; elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then sudo=sudo; else
        echo "build.sh: missing packages; run: sudo apt-get install -y$missing" >&2
        exit 2
    fi
    echo "installing$missing"
    { $sudo apt-get update -q && DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -q --no-install-recommends $missing; } \
        >build/apt.log 2>&1 || { cat build/apt.log >&2; exit 2; }
}

# One compiler call for a source and its object; an object under isa/ carries its instruction set in its name.
compile() {
    extra=
    case $2 in
    */io/isa/*.avx2.o) extra='-DISA=avx2 -mavx2 -mbmi -mbmi2' ;;
    */io/isa/*.avx512.o) extra='-DISA=avx512 -mbmi -mbmi2 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vbmi2 -mavx512vpopcntdq -mprefer-vector-width=512' ;;
    # Kernels for the emulation (gpu/emu/emu.h), whose checks are the calls of -fsanitize=thread.
    *.emu.o) extra='-x c -fno-sanitize=all -fsanitize=thread' ;;
    *.base.o) extra='-DISA=base' ;;
    *.avx2.o) extra='-DISA=avx2 -mavx2 -mfma' ;;
    *.avx512.o) extra='-DISA=avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mprefer-vector-width=512' ;;
    *.avx512bf16.o) extra='-DISA=avx512bf16 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512bf16 -mfma -mprefer-vector-width=512' ;;
    esac
    echo "$CC $flags $extra -c $1 -o $2"
}

# Object o of source s is stale if it is absent or older than anything that it was made from, or than the flags.
stale() {
    [ -e "$2" ] || return 0
    deps=$(sed -e 's/^[^:]*://' -e 's/\\$//' "${2%.o}.d")
    case $1 in */samples.c) deps="$deps $(sed -n 's/.*\.incbin \\"\(.*\)\\".*/\1/p' "$1")" ;; esac # the compiler does not list these
    [ -n "$(find $deps "$out/flags" -newer "$2" -print -quit 2>/dev/null || echo gone)" ]
}

# Builds the objects of "$@" (sources) that are stale; lists all in $objects.
build_objects() {
    objects=
    : >"$out/todo"
    for source in "$@"; do
        case $source in
        engine/cpu/isa/*) suffixes='.base.o .avx2.o .avx512.o .avx512bf16.o' ;;
        io/isa/*) suffixes='.base.o .avx2.o .avx512.o' ;;
        *.cu) suffixes=.emu.o ;;
        *) suffixes=.o ;;
        esac
        for suffix in $suffixes; do
            object=$out/${source%.c*}$suffix
            objects="$objects $object"
            mkdir -p "${object%/*}"
            command=$(compile "$source" "$object")
            printf '{"directory": "%s", "command": "%s", "file": "%s"},\n' "$PWD" "$(printf '%s\n' "$command" | sed 's/[\\"]/\\&/g')" "$source" >>"$out/commands"
            if stale "$source" "$object"; then echo "$command" >>"$out/todo"; fi
        done
    done
    do_all
}

# Runs the commands of $out/todo, a line each, as many at a time as there are processors; stops at the first that fails.
do_all() { tr '\n' '\0' <"$out/todo" | xargs -0 -r -n1 -P"$(nproc)" sh -c 'eval "$0" || exit 255'; }

# archive LIBRARY OBJECT...: makes it anew if an object is newer, or another: one whose source is gone must not stay.
archive() {
    made=$1
    shift
    [ "$(cat "$made.list" 2>/dev/null)" != "$*" ] || [ ! -e "$made" ] || [ -n "$(find "$@" -newer "$made" -print -quit)" ] || return 0
    echo "$*" >"$made.list"
    rm -f "$made"
    ar rcs "$made" "$@"
}

# build MODE: objects, library without main, program.
build() {
    mode=$1
    link=-static
    case $mode in
    release) opt='-O3 -g' ;;
    debug) opt='-O1 -g' ;;
    # No static runtime. Lines of source but no variables (-g1), and no checks that AddressSanitizer makes anyway: compiles in half the time.
    asan) opt='-O1 -g1 -fsanitize=address,undefined -fno-sanitize=null,object-size -fno-sanitize-recover=undefined -fno-omit-frame-pointer'; link= ;;
    tsan) opt='-O1 -g1 -fsanitize=thread'; link= ;;
    *) echo "build.sh: unknown mode '$mode'; see the head of build.sh" >&2; exit 2 ;;
    esac
    out=build/$mode
    mkdir -p "$out"
    # No contraction: the same bytes whatever the compiler fuses; kernels that want fma ask for it.
    flags="-std=gnu11 $opt -ffp-contract=off -fno-math-errno -fno-trapping-math -Wall -Wextra -Werror -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes -D_GNU_SOURCE -DHETERPS_VERSION=\\\"$(cat engine/VERSION)\\\" -I. -pthread -MMD"
    [ "$(cat "$out/flags" 2>/dev/null)" = "$CC $flags" ] || echo "$CC $flags" >"$out/flags"
    : >"$out/commands"
    build_objects $(find engine cfg graph io sched gpu -name '*.c' -not -path 'gpu/emu/*' | sort)
    library=$out/libheterps.a
    # Calls that pass through engine/base/steady.c, which the library must give up even if none of our own objects makes one.
    wrap="-Wl,-u,__wrap_malloc $(sed -n 's/^[A-Z]*([^,]*, \([a-z0-9_]*\),.*/-Wl,--wrap=\1/p' engine/base/steady.def | tr '\n' ' ')"
    program_objects=$(echo "$objects" | tr ' ' '\n' | grep -v '/engine/cmd/main\.o$')
    archive "$library" $program_objects
    # By file: static in every build, so that steady.c sees their calls.
    libraries='-l:libjansson.a -l:liburing.a -l:libxxhash.a -l:liblz4.a -l:libz.a -lm'
    if [ ! -e "$out/heterps-run" ] || [ "$library" -nt "$out/heterps-run" ] || [ "$out/engine/cmd/main.o" -nt "$out/heterps-run" ]; then
        $CC $opt $link $wrap -pthread -o "$out/heterps-run.new" "$out/engine/cmd/main.o" "$library" $libraries
        [ "$mode" != release ] || strip "$out/heterps-run.new"
        mv "$out/heterps-run.new" "$out/heterps-run"
    fi
    { echo '['; sed '$ s/,$//' "$out/commands"; echo ']'; } >compile_commands.json
    echo "mode $mode   gpu none   $out/heterps-run $(wc -c <"$out/heterps-run") bytes"
}

# build_programs SOURCE...: each becomes build/MODE/…/NAME, linked with the library; with cmocka, which has no static form, dynamically,
# else as heterps-run is.
build_programs() {
    emulation=$out/libemulation.a
    if [ "$mode" != tsan ]; then
        build_objects $(find gpu tests/gpu -name '*.cu' | sort) $(find gpu/emu -name '*.c' | sort)
        archive "$emulation" $objects
    fi
    build_objects "$@"
    : >"$out/todo"
    for object in $objects; do
        program=${object%.o}
        programs="$programs $program"
        case $object in */tests/gpu/*) emulated=$emulation ;; *) emulated= ;; esac
        if [ ! -e "$program" ] || [ -n "$(find "$object" "$library" $emulated -newer "$program" -print -quit)" ]; then
            how=$link
            if nm "$object" | grep -q _cmocka_run_group_tests; then how=-lcmocka; fi
            echo "$CC $opt $wrap -pthread -o $program $object $emulated $library $libraries $how" >>"$out/todo"
        fi
    done
    do_all
}

mkdir -p build
case $verb in
deps) need_packages $packages $test_packages ;;
release | debug | asan | tsan)
    need_packages $packages
    build "$verb"
    ln -f "$out/heterps-run" heterps-run 2>/dev/null || cp "$out/heterps-run" heterps-run ;;
test)
    programs=
    need_packages $packages $test_packages
    build "${MODE:-release}"
    ln -f "$out/heterps-run" heterps-run 2>/dev/null || cp "$out/heterps-run" heterps-run
    # Not under ThreadSanitizer: the emulation takes its calls, and its fibers are no threads.
    case $mode in tsan) emulated_tests='-not -path tests/gpu/*' ;; *) emulated_tests= ;; esac
    build_programs $(set -f; find tests -name 'test_*.c' $emulated_tests | sort)
    build_programs $(find tests/fuzz -name 'fuzz_*.c' 2>/dev/null | sort)
    exec sh tests/run.sh "$out" $programs ;;
bench)
    programs=
    need_packages $packages
    build release
    build_programs $(find tests/bench -name '*.c' | sort) ;;
demo)
    need_packages $packages
    build release
    ln -f "$out/heterps-run" heterps-run 2>/dev/null || cp "$out/heterps-run" heterps-run
    exec sh samples/demo.sh ;;
*) echo "build.sh: unknown verb '$verb'; see the head of build.sh" >&2; exit 2 ;;
esac

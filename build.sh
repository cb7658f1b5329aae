#!/bin/sh
# Usage: ./build.sh [release|debug|asan|tsan|deps|test|tests|fuzz|demo|install|bench|card]
# The output of the first four: ./heterps-run
#   release  optimised, stripped, fully static (default)      debug  -O1 -g, static
#   asan     AddressSanitizer and UndefinedBehaviorSanitizer  tsan   ThreadSanitizer
#   deps     installs the Debian packages that are missing
#   test     builds and runs every test, or TESTS=PATTERN, and not BUT=PATTERN; MODE=asan|tsan
#   tests    builds what `test` does, and runs nothing
#   fuzz     builds everything with clang (CLANG, default clang), and runs each target of tests/fuzz under
#            libFuzzer for FUZZ_SECONDS (1)
#   demo     generates data, compiles, trains, evaluates, predicts; with kernels for the cards of this machine alone
#   install  into $DESTDIR$PREFIX (PREFIX: /usr/local): program, manual page, completion, a unit for systemd that serves
#   bench    builds the programs of tests/bench into build/release
#   card     builds heterps-run and the programs that tests/gpu.sh runs, check_ops and driver_start of
#            build/release/tests/gpu
# Needs a C11 compiler (CC, default gcc). Only what changed is rebuilt. All output is under build/MODE.
# Cards: release has the CUDA side if there is an nvcc (NVCC, PATH, /usr/local/cuda/bin; NVCC=none: no CUDA side, builds
# faster), for the architectures of GPU_ARCHS; default: those of gpu_archs below that the nvcc knows.
set -eu
cd "$(dirname "$0")"
verb=${1:-release}
CC=${CC:-gcc}
packages='gcc libc6-dev libevent-dev libipsec-mb-dev libjansson-dev liblz4-dev libsodium-dev liburing-dev'
packages="$packages libxxhash-dev libzstd-dev zlib1g-dev"
test_packages='clang-format libcmocka-dev mpich python3 qemu-user'
fuzz_packages='clang libclang-rt-dev'
gpu_archs='sm_75 sm_80 sm_86 sm_89 sm_90a sm_100 sm_120'

# Installs the missing packages of "$@", as root or by sudo; else says how to, and exits with 2.
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
    {
        $sudo apt-get update -q &&
            DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -q --no-install-recommends $missing
    } >build/apt.log 2>&1 || { cat build/apt.log >&2; exit 2; }
}

# Gathers the licences of linked libraries, which `heterps-run help notices` prints, in build/licences.
gather_licences() {
    {
        files=
        echo 'heterps-run has code of these libraries in it. Their licences, as their packages state them:'
        # The newest licence of a compiler, whatever CC is: every mode gets the same text.
        newest=$(ls -d /usr/share/doc/libgcc-*-dev 2>/dev/null | sort -V | tail -1 | sed 's|.*/||')
        for package in $packages $newest; do
            file=/usr/share/doc/$package/copyright
            if [ "$package" = gcc ] || [ ! -e "$file" ]; then continue; fi
            printf '\n=== %s\n\n' "$(dpkg-query -W -f '${Package} ${Version}' "$package")"
            cat "$file"
            files="$files $file"
        done
        # The texts that these files point to; GPL is a link to the newest.
        for file in $(cat $files /dev/null | grep -o '/usr/share/common-licenses/[A-Za-z0-9.-]*[A-Za-z0-9]' | sort -u |
            xargs -r readlink -e | sort -u); do
            printf '\n=== %s, whole\n\n' "${file##*/}"
            cat "$file"
        done
    } >build/licences.$$
    if cmp -s build/licences.$$ build/licences; then rm build/licences.$$; else mv build/licences.$$ build/licences; fi
}

# Prints the compiler call for a source and its object; the name of an object under isa/ has its instruction set.
compile() {
    extra= without=
    # ccache does not see files that assembly includes.
    case $1 in
    */samples.c | */manual.c | */fatbins.c | */carried.c) without='CCACHE_DISABLE=1 ' ;;
    esac
    case $2 in
    */gpu/cuda/*.o) extra="$cuda_include -I$out/fatbin" ;;
    */tests/gpu/test_abi.o) extra=${cuda_include:-} ;; # without an nvcc: the headers that the compiler finds, if any
    */io/isa/*.avx2.o) extra='-DISA=avx2 -mavx2 -mbmi -mbmi2' ;;
    */io/isa/*.avx512.o)
        extra='-DISA=avx512 -mbmi -mbmi2 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vbmi2'
        extra="$extra -mavx512vpopcntdq -mprefer-vector-width=512"
        ;;
    */fuzz/tests/fuzz/*.o) extra=-DFUZZ_LIBFUZZER ;;
    *.emu.o) extra=$emulated ;;
    # The emulation itself checks every access of a kernel, and takes most of its tests' time.
    */gpu/emu/*.o) extra='-O2 -fno-sanitize=all' ;;
    # Tests' own sources need no speed, and -O3 takes two to three times as long; nor checks of undefined behaviour,
    # a third of the time. The library has the mode's.
    */tests/*/test_*.o) extra='-Og -fno-sanitize=undefined' ;;
    *.base.o) extra='-DISA=base' ;;
    *.avx2.o) extra='-DISA=avx2 -mavx2 -mfma' ;;
    *.avx512.o) extra='-DISA=avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mprefer-vector-width=512' ;;
    *.avx512bf16.o)
        extra='-DISA=avx512bf16 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512bf16 -mfma -mprefer-vector-width=512'
        ;;
    *.amx.o)
        extra='-DISA=amx -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512bf16 -mfma -mamx-tile -mamx-bf16'
        extra="$extra -mprefer-vector-width=512"
        ;;
    esac
    case $2 in *.pic.o) extra="$extra -fPIC -fvisibility=hidden $cuda_include" ;; esac
    # One text of a kernel for every instruction set: that of base is checked for undefined behaviour.
    case $2 in *.avx*.o | *.amx.o) extra="$extra -fno-sanitize=undefined" ;; esac
    echo "$without$CC $flags $extra -c $1 -o $2"
}

# stale SOURCE OBJECT [FLAGS]: true if the object is absent, or older than the flags or any file that it was made
# from.
stale() {
    [ -e "$2" ] || return 0
    deps=$(sed -e 's/^[^:]*://' -e 's/\\$//' "${2%.*}.d")
    case $1 in # the compiler does not list files that assembly includes
    */samples.c | */manual.c | */carried.c) deps="$deps $(sed -n 's/.*\.incbin \\"\(.*\)\\".*/\1/p' "$1")" ;;
    */fatbins.c) deps="$deps $fatbins" ;;
    esac
    [ -n "$(find $deps "${3:-$out/flags}" -newer "$2" -print -quit 2>/dev/null || echo gone)" ]
}

# Builds the stale objects of "$@" (sources), and lists all objects in $objects. pic=.pic: for a shared library.
build_objects() {
    objects=
    : >"$out/todo"
    for source in "$@"; do
        case $source in
        engine/device/cpu/isa/bf16/*) suffixes='.base.o .avx2.o .avx512.o .avx512bf16.o .amx.o' ;;
        engine/device/cpu/isa/* | io/isa/*) suffixes='.base.o .avx2.o .avx512.o' ;;
        *.cu) suffixes=.emu.o ;;
        *) suffixes=.o ;;
        esac
        for suffix in $suffixes; do
            object=$out/${source%.c*}${suffix%.o}$pic.o
            [ "$suffix" != .emu.o ] || object=$out/${source%.cu}$suffix
            objects="$objects $object"
            mkdir -p "${object%/*}"
            command=$(compile "$source" "$object")
            printf '{"directory": "%s", "command": "%s", "file": "%s"},\n' "$PWD" \
                "$(printf '%s\n' "$command" | sed 's/[\\"]/\\&/g')" "$source" >>"$out/commands"
            if stale "$source" "$object"; then echo "$command" >>"$out/todo"; fi
        done
    done
    do_all
}

# Runs the commands of $out/todo, one a line, as many at a time as processors; stops at the first that fails.
do_all() { tr '\n' '\0' <"$out/todo" | xargs -0 -r -n1 -P"$(nproc)" sh -c 'eval "$0" || exit 255'; }

# archive LIBRARY OBJECT...: makes the library anew if an object is newer or the list has changed: an object
# without a source must not stay.
archive() {
    made=$1
    shift
    [ "$(cat "$made.list" 2>/dev/null)" != "$*" ] || [ ! -e "$made" ] ||
        [ -n "$(find "$@" -newer "$made" -print -quit)" ] || return 0
    echo "$*" >"$made.list"
    rm -f "$made"
    ar rcs "$made" "$@"
}

# link_program PROGRAM HOW OBJECT...: links the program anew if an object is newer or the list has changed. Without a
# build ID, which would be of the folder, too, in which it is built: objects name it for debuggers. PROGRAM.how has the
# command, for tests/quality/mutate.py.
link_program() {
    made=$1 how=$2
    shift 2
    [ "$(cat "$made.list" 2>/dev/null)" != "$*" ] || [ ! -e "$made" ] ||
        [ -n "$(find "$@" -newer "$made" -print -quit)" ] || return 0
    $CC $opt $how $wrap -Wl,--build-id=none -pthread -o "$made.new" "$@" $libraries
    [ "$mode" != release ] || strip "$made.new"
    mv "$made.new" "$made"
    echo "$CC $opt $how $wrap -pthread -o $made $* $libraries" >"$made.how"
    echo "$*" >"$made.list"
}

# Sets gpu to what is found, and nvcc to nothing if it is of no use. An nvcc is tried once: many lack the C++
# compiler that they need. An nvcc that was asked for by name must work.
find_nvcc() {
    nvcc=${NVCC:-$(command -v nvcc || command -v /usr/local/cuda/bin/nvcc || true)}
    case $mode:$nvcc in
    release:none) nvcc= gpu='none (NVCC=none)'; return ;;
    release:) gpu='none (no nvcc in PATH or /usr/local/cuda/bin)'; return ;;
    release:*) ;;
    *) nvcc= gpu='none (release has it)'; return ;;
    esac
    release=$("$nvcc" --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\).*/\1/p')
    known=$("$nvcc" --list-gpu-code 2>/dev/null || true)
    archs=
    for arch in ${GPU_ARCHS:-$gpu_archs}; do
        # With the instructions of compute capability 9.0 alone (gpu/wgmma.h), which an nvcc before 12.0 does not
        # know.
        case $arch in sm_90 | sm_90a) if "$nvcc" --help | grep -q sm_90a; then arch=sm_90a; else arch=sm_90; fi ;; esac
        if echo "$known" | grep -qx "${arch%a}"; then
            archs="${archs:+$archs }$arch"
        elif [ -n "${GPU_ARCHS:-}" ]; then
            echo "build.sh: GPU_ARCHS: $nvcc ${release:-} does not know $arch, but" $known >&2
            exit 2
        fi
    done
    newest=${archs##*sm_} newest=${newest%a}
    code=
    for arch in $archs; do code="$code -gencode arch=compute_${arch#sm_},code=$arch"; done
    # IEEE arithmetic without contraction, as on the emulation and the CPU. Cards newer than all architectures get
    # PTX.
    nvcc_flags="-std=c++17 -O3 -fmad=false -ftz=false -prec-div=true -prec-sqrt=true -Werror all-warnings -I."
    nvcc_flags="$nvcc_flags -fatbin -Xfatbin -compress-all$code -gencode arch=compute_$newest,code=compute_$newest"
    cuda_include=${nvcc%/bin/*}/include
    if [ "$cuda_include" = /usr/include ]; then cuda_include=; else cuda_include="-isystem $cuda_include"; fi
    mkdir -p "$out/fatbin"
    if [ "$(cat "$out/fatbin/flags" 2>/dev/null)" != "$nvcc $release $nvcc_flags" ]; then
        "$nvcc" --version >"$out/fatbin/try.log" 2>&1 || true
        echo 'extern "C" __global__ void kernel() {}' >"$out/fatbin/try.cu"
        echo '#include <cuda.h>' >"$out/fatbin/try.c"
        if [ -z "$archs" ] ||
            ! "$nvcc" $nvcc_flags -o "$out/fatbin/try.fatbin" "$out/fatbin/try.cu" >>"$out/fatbin/try.log" 2>&1 ||
            ! $CC $cuda_include -fsyntax-only "$out/fatbin/try.c" >>"$out/fatbin/try.log" 2>&1; then
            gpu="none ($nvcc ${release:-} does not compile: $out/fatbin/try.log)" nvcc=
            [ -z "${NVCC:-}" ] || { echo "build.sh: gpu $gpu" >&2; exit 2; }
            return
        fi
        echo "$nvcc $release $nvcc_flags" >"$out/fatbin/flags"
    fi
    gpu="cuda $release ($archs)"
}

# The image (engine/image/image.h): the program linked dynamically, with the CUDA side and the kernels. Sets
# $carried, the object that has the image.
build_image() {
    carried= fatbins= cuda_objects=
    [ -n "$nvcc" ] || return 0
    : >"$out/todo"
    echo "#define GPU_ARCHS \"$archs\"" >"$out/fatbin/fatbins.new"
    for source in $(find gpu -maxdepth 1 -name '*.cu' | sort); do
        name=$(basename "$source" .cu)
        fatbin=$out/fatbin/$name.fatbin
        fatbins="$fatbins $fatbin"
        echo "FATBIN($name, \"$fatbin\")" >>"$out/fatbin/fatbins.new"
        if stale "$source" "$fatbin" "$out/fatbin/flags"; then
            echo "$nvcc --threads 2 $nvcc_flags -MMD -MF ${fatbin%.*}.d -o $fatbin $source" >>"$out/todo"
        fi
    done
    do_all
    cmp -s "$out/fatbin/fatbins.new" "$out/fatbin/fatbins.def" || mv "$out/fatbin/fatbins.new" "$out/fatbin/fatbins.def"
    build_objects $(find gpu/cuda -name '*.c' | sort)
    cuda_objects=$objects
    build_objects engine/image/self.c
    link_program "$out/image" '' "$out/engine/cmd/main.o" $objects $cuda_objects "$library"
    build_objects engine/image/carried.c
    carried=$objects
}

# build MODE: objects, library without main, program.
build() {
    mode=$1
    link=-static
    case $mode in
    # Lines of source but no variables: following variables through -O3's kernels takes as long as compiling them.
    release) opt='-O3 -g1' ;;
    debug) opt='-O1 -g' ;;
    # No static runtime. Without checks that AddressSanitizer makes anyway it compiles in half the time; functions of
    # many accesses, the kernels, call what checks them, which compiles in a sixth of the time.
    asan)
        opt='-O1 -g1 -fsanitize=address,undefined -fno-sanitize=null,object-size -fno-sanitize-recover=undefined'
        opt="$opt -fno-omit-frame-pointer --param asan-instrumentation-with-call-threshold=500"
        link=
        ;;
    tsan) opt='-O1 -g1 -fsanitize=thread'; link= ;;
    fuzz) opt='-O1 -fsanitize=fuzzer-no-link'; link= ;;
    *) echo "build.sh: unknown mode '$mode'; see the head of build.sh" >&2; exit 2 ;;
    esac
    out=build/$mode
    mkdir -p "$out"
    # Two builds of a mode at a time would write the same files.
    exec 9>"$out/lock"
    flock -n 9 || { echo "build.sh: waits for another build of $mode in this folder" >&2; flock 9; }
    # No contraction: the same bytes with every compiler; kernels that want fma ask for it.
    flags="-std=gnu11 $opt -ffp-contract=off -fno-math-errno -fno-trapping-math"
    flags="$flags -Wall -Wextra -Werror -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes"
    flags="$flags -D_GNU_SOURCE -DHETERPS_VERSION=\\\"$(cat engine/VERSION)\\\" -I. -pthread -MMD"
    # Kernels for the emulation (gpu/emu.h), which checks by the calls of -fsanitize=thread: with a call an access, -O3
    # makes nothing faster, and takes three times as long. Of programs and of the stand-in for CUDA's driver alike.
    emulated='-x c -O1 -fPIC -fvisibility=hidden -fno-sanitize=all -fsanitize=thread'
    [ "$(cat "$out/flags" 2>/dev/null)" = "$CC $flags $emulated" ] || echo "$CC $flags $emulated" >"$out/flags"
    : >"$out/commands"
    find_nvcc
    gather_licences
    build_objects $(find engine cfg graph io sched gpu -name '*.c' -not -path 'gpu/emu/*' -not -path 'gpu/cuda/*' \
        -not -path engine/image/carried.c -not -path engine/image/self.c | sort)
    library=$out/libheterps.a
    # Calls that pass through engine/base/steady.c, which the library must link even if no object of ours makes
    # one.
    wrap="-Wl,-u,__wrap_malloc $(sed -n 's/^[A-Z]*([^,]*, \([a-z0-9_]*\),.*/-Wl,--wrap=\1/p' engine/base/steady.def |
        tr '\n' ' ')"
    program_objects=$(echo "$objects" | tr ' ' '\n' | grep -v '/engine/cmd/main\.o$')
    archive "$library" $program_objects
    # Look-ups of host names, which libevent never makes here (engine/http/resolve.c).
    wrap="$wrap -Wl,--wrap=getaddrinfo,--wrap=getservbyname,--wrap=getprotobynumber,-u,__wrap_getaddrinfo"
    # Libraries by file: static in every build, so that steady.c sees their calls.
    libraries='-l:libevent_extra.a -l:libevent_core.a -l:libjansson.a -l:liburing.a -l:libxxhash.a -l:liblz4.a'
    libraries="$libraries -l:libz.a -l:libzstd.a -l:libsodium.a -l:libIPSec_MB.a -lm"
    build_image
    link_program "$out/heterps-run" "$link" "$out/engine/cmd/main.o" $carried "$library"
    { echo '['; sed '$ s/,$//' "$out/commands"; echo ']'; } >compile_commands.json
    echo "mode $mode   gpu $gpu   $out/heterps-run $(wc -c <"$out/heterps-run") bytes"
}

# Leaves the program that is built where users look for it.
leave_program() { ln -f "$out/heterps-run" heterps-run 2>/dev/null || cp "$out/heterps-run" heterps-run; }

# build_programs SOURCE...: builds build/MODE/…/NAME of each, linked with the library: dynamically with cmocka,
# which has no static form, else as heterps-run.
build_programs() {
    emulation=$out/libemulation.a
    if [ "$mode" != tsan ] && [ "$mode" != fuzz ]; then
        build_objects $(find gpu tests/gpu -name '*.cu' | sort) $(find gpu/emu -name '*.c' | sort)
        archive "$emulation" $objects
        # The program with an emulated card.
        made=$out/heterps-emu main=$out/engine/cmd/main.o
        if [ ! -e "$made" ] || [ -n "$(find "$library" "$emulation" "$main" -newer "$made" -print -quit)" ]; then
            how="$CC $opt $link $wrap -pthread -o $made -u gpu_count $main $emulation $library $libraries"
            $how
            echo "$how" >"$made.how"
        fi
    fi
    build_objects "$@"
    linker= # gold takes two thirds of the time, a program a test
    if command -v ld.gold >/dev/null; then linker=-fuse-ld=gold; fi
    : >"$out/todo"
    for object in $objects; do
        program=${object%.o}
        programs="$programs $program"
        case $object in # programs that have cards or open CUDA's driver find the stand-in
        */tests/gpu/test_cuda.o) cards="$cuda_objects -Wl,-rpath,\\\$ORIGIN/driver:\\\$ORIGIN/blas" ;;
        */tests/gpu/*) cards=$emulation ;;
        */tests/engine/bench/test_bench_card.o) cards="$emulation -Wl,-u,gpu_count" ;; # not the library's cards
        */tests/engine/device/card/*) # card_fixture.h stands between stages and these cards
            cards="$emulation -Wl,--wrap=gpu_open"
            ;;
        */tests/engine/device/cpu/test_block_amx.o) cards=' -Wl,--wrap=isa_runs_here' ;; # tiles in memory
        *) cards= ;;
        esac
        if [ ! -e "$program" ] || [ "$(cat "$program.list" 2>/dev/null)" != "$cards" ] ||
            [ -n "$(find "$object" "$library" ${cards%% -Wl*} -newer "$program" -print -quit)" ]; then
            how=$link$fuzzer
            if nm "$object" | grep -q _cmocka_run_group_tests; then how=-lcmocka; fi
            echo "$CC $opt $linker $wrap -pthread -o $program $object $cards $library $libraries $how" |
                tee "$program.how" >>"$out/todo"
            rm -f "$program"
            echo "$cards" >"$program.list"
        fi
    done
    do_all
}

# The tests' sources whose programs are wanted: those that TESTS matches and BUT does not, as in tests/run.sh.
wanted() {
    sed -e "s|^|$out/|" -e 's/\.c$//' | grep -E "${TESTS:-.}" | grep -Ev "${BUT:-^$}" | sed -e "s|^$out/||" -e 's/$/.c/'
}

# Programs that open the machine's driver: dynamic, because a driver can only be loaded, and without any other
# library.
build_card_programs() {
    [ -n "$nvcc" ] || return 0
    build_objects tests/gpu/check_ops.c tests/gpu/driver_start.c
    for object in $objects; do link_program "${object%.o}" '' "$object" $cuda_objects "$library"; done
}

# Stand-ins for CUDA's driver in tests of the image (tests/gpu/libcuda_emu.c), and for cuBLASLt in
# tests/gpu/test_cuda.c.
build_stand_in() {
    [ -n "$nvcc" ] || return 0
    pic=.pic
    build_objects tests/gpu/libcuda_emu.c gpu/gpu.c engine/base/status.c \
        engine/base/heap.c $(find gpu -maxdepth 1 -name '*.cu' | sort) $(find gpu/emu -name '*.c' | sort)
    pic=
    mkdir -p "$out/tests/gpu/driver"
    made=$out/tests/gpu/driver/libcuda.so.1
    if [ ! -e "$made" ] || [ -n "$(find $objects -newer "$made" -print -quit)" ]; then
        $CC -shared -pthread -Wl,-z,defs -o "$made" $objects -lm
    fi
    pic=.pic
    build_objects tests/gpu/libcublaslt_emu.c
    pic=
    mkdir -p "$out/tests/gpu/blas"
    made=$out/tests/gpu/blas/libcublasLt.so.13
    if [ ! -e "$made" ] || [ -n "$(find $objects -newer "$made" -print -quit)" ]; then
        $CC -shared -Wl,-z,defs '-Wl,-rpath,$ORIGIN/../driver' -o "$made" $objects
    fi
}

# install_files ROOT PREFIX
install_files() {
    install -D -m 755 "$out/heterps-run" "$1$2/bin/heterps-run"
    install -d "$1$2/share/man/man1" "$1$2/share/bash-completion/completions" "$1$2/lib/systemd/system"
    "$out/heterps-run" help man | gzip -9n >"$1$2/share/man/man1/heterps-run.1.gz"
    "$out/heterps-run" help bash >"$1$2/share/bash-completion/completions/heterps-run"
    sed "s|^ExecStart=heterps-run |ExecStart=$2/bin/heterps-run |" \
        samples/heterps-serve@.service >"$1$2/lib/systemd/system/heterps-serve@.service"
    echo "installed in $1$2: bin/heterps-run, its manual page, its completion, heterps-serve@.service"
}

mkdir -p build
pic= fuzzer=
case $verb in
deps) need_packages $packages $test_packages $fuzz_packages ;;
release | debug | asan | tsan)
    need_packages $packages
    build "$verb"
    leave_program ;;
test | tests)
    programs=
    need_packages $packages $test_packages
    build "${MODE:-release}"
    # Tests run the program of their mode; sanitizers' is not what users find here.
    [ "$mode" != release ] || leave_program
    # Not under ThreadSanitizer: the emulation takes over its calls, and the emulation's fibers are no threads.
    case $mode in
    tsan) emulated_tests='-not -path tests/gpu/* -not -path tests/engine/device/card/* -not -name test_bench_card.c' ;;
    *) emulated_tests= ;;
    esac
    build_programs $(set -f; find tests -name 'test_*.c' $emulated_tests | sort | wanted)
    build_programs $(find tests/fuzz -name 'fuzz_*.c' 2>/dev/null | sort | wanted)
    build_stand_in
    build_card_programs
    [ "$verb" = tests ] || exec sh tests/run.sh "$out" $programs 9>&- ;;
fuzz)
    programs=
    CC=${CLANG:-clang}
    need_packages $packages $fuzz_packages
    build fuzz
    fuzzer=-fsanitize=fuzzer
    build_programs $(find tests/fuzz -name 'fuzz_*.c' | sort)
    exec sh tests/fuzz/run.sh $programs 9>&- ;;
bench)
    programs=
    need_packages $packages
    build release
    build_programs $(find tests/bench -name '*.c' | sort) ;;
card)
    need_packages $packages
    build release
    leave_program
    build_card_programs ;;
install)
    need_packages $packages
    build release
    install_files "${DESTDIR:-}" "${PREFIX:-/usr/local}" ;;
demo)
    need_packages $packages
    # A minute is too short for all architectures: builds those that nvidia-smi names, or none. The next ./build.sh
    # makes the rest.
    if [ -z "${GPU_ARCHS:-}" ]; then
        GPU_ARCHS=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null |
            sed -n 's/^\([0-9]*\)\.\([0-9]*\)$/sm_\1\2/p' | sort -u)
        [ -n "$GPU_ARCHS" ] || NVCC=none
    fi
    build release
    leave_program
    exec sh samples/demo.sh 9>&- ;;
*) echo "build.sh: unknown verb '$verb'; see the head of build.sh" >&2; exit 2 ;;
esac

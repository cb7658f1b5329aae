/* A fuzz driver of one file and no dependencies. A target defines FUZZ_NAME, includes this, and defines
 *
 *     int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
 *
 * main replays every file of tests/fuzz/corpus/FUZZ_NAME (or of the directory or files given as arguments),
 * then feeds it mutations of them for FUZZ_SECONDS seconds (2 unless set) from FUZZ_SEED (1 unless set), and
 * prints TAP. The n-th input is a function of (seed, n, corpus), so a failure repeats. An input that crashes,
 * or takes longer than FUZZ_INPUT_SECONDS (10), is written to fuzz-FUZZ_NAME-PID.bin in TMPDIR (/tmp), which
 * the message names. The input lies at the end of a block of its own size, so that AddressSanitizer sees a
 * read beyond it; it has no final NUL. Under -DFUZZ_LIBFUZZER there is no main: link with -fsanitize=fuzzer
 * (./build.sh fuzz). */
#ifndef HETERPS_FUZZ_DRIVER_H
#define HETERPS_FUZZ_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/status.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Whether a file of any bytes was refused for how it is packed (io/read/source.h). */
static inline bool fuzz_is_unpackable(status st)
{
    return st == ST_CORRUPT || st == ST_MEMORY || (st == ST_INVALID && strstr(status_message(), " is packed by "));
}

#ifndef FUZZ_LIBFUZZER
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>

#ifndef FUZZ_NAME
#error "define FUZZ_NAME before including tests/fuzz/driver.h"
#endif

#define FUZZ_BYTES_MAX  ((size_t)64 << 10) /* of a mutated input; the corpus may hold longer files */
#define FUZZ_CORPUS_MAX 4096u

struct fuzz_input {
    uint8_t *data;
    size_t bytes;
};

static struct fuzz_input fuzz_corpus[FUZZ_CORPUS_MAX];
static size_t fuzz_corpus_count;

/* Read by the signal handler: what the target is working on, and where it goes if the target crashes. */
static const uint8_t *volatile fuzz_current;
static volatile size_t fuzz_current_bytes;
static char fuzz_crash_path[4096];
static unsigned fuzz_input_seconds = 10;

/* Only calls that are safe in a signal handler. */
static void fuzz_say(const char *text)
{
    ssize_t ignored = write(STDOUT_FILENO, text, strlen(text));
    (void)ignored;
}

static void fuzz_crashed(int number)
{
    static volatile sig_atomic_t is_second;
    signal(number, SIG_DFL);
    if (is_second) raise(number);
    is_second = 1;
    int fd = open(fuzz_crash_path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    for (size_t done = 0; fd >= 0 && fuzz_current && done < fuzz_current_bytes;) {
        ssize_t written = write(fd, (const uint8_t *)fuzz_current + done, fuzz_current_bytes - done);
        if (written <= 0) break;
        done += (size_t)written;
    }
    fuzz_say("not ok 1 - fuzz_" FUZZ_NAME ": ");
    fuzz_say(number == SIGALRM ? "an input takes too long" : "crashed");
    fuzz_say("; the input is in ");
    fuzz_say(fuzz_crash_path);
    fuzz_say("\n");
    raise(number);
}

/* A sanitizer ends the process by abort() instead of exit() under these, and so passes the handler above. */
const char *__asan_default_options(void);
const char *__ubsan_default_options(void);
const char *__asan_default_options(void) { return "abort_on_error=1:handle_abort=0:handle_segv=0:handle_sigbus=0"; }
const char *__ubsan_default_options(void) { return "abort_on_error=1:halt_on_error=1:print_stacktrace=1"; }

/* splitmix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014, fig. 17). */
static uint64_t fuzz_state;
static uint64_t fuzz_random(void)
{
    uint64_t z = fuzz_state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}
static size_t fuzz_below(size_t bound) { return bound == 0 ? 0 : (size_t)(fuzz_random() % bound); }

static void fuzz_run(const uint8_t *data, size_t bytes)
{
    /* One byte for an empty input, whose pointer then is beyond the block as in any other. */
    uint8_t *block = malloc(bytes == 0 ? 1 : bytes);
    if (!block) abort();
    uint8_t *input = bytes == 0 ? block + 1 : block;
    if (bytes > 0) memcpy(input, data, bytes);
    fuzz_current = input;
    fuzz_current_bytes = bytes;
    alarm(fuzz_input_seconds);
    LLVMFuzzerTestOneInput(input, bytes);
    alarm(0);
    fuzz_current = NULL;
    free(block);
}

static void fuzz_corpus_add(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file || fuzz_corpus_count == FUZZ_CORPUS_MAX) {
        printf("not ok 1 - fuzz_" FUZZ_NAME ": cannot read %s\n", path);
        exit(1);
    }
    struct fuzz_input input = {.data = NULL};
    uint8_t piece[4096];
    for (size_t got; (got = fread(piece, 1, sizeof piece, file)) > 0;) {
        uint8_t *grown = realloc(input.data, input.bytes + got);
        if (!grown) abort();
        memcpy(grown + input.bytes, piece, got);
        input.data = grown;
        input.bytes += got;
    }
    fclose(file);
    fuzz_corpus[fuzz_corpus_count++] = input;
}

/* The files of a directory in the order of their names, or one file.
 * A directory that is absent is an empty corpus. */
static void fuzz_corpus_read(const char *path)
{
    struct stat stat_of_path;
    if (stat(path, &stat_of_path) == 0 && !S_ISDIR(stat_of_path.st_mode)) {
        fuzz_corpus_add(path);
        return;
    }
    struct dirent **entries;
    int count = scandir(path, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char name[4096];
        int length = snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
        if (length < (int)sizeof name && stat(name, &stat_of_path) == 0 && S_ISREG(stat_of_path.st_mode))
            fuzz_corpus_add(name);
        free(entries[i]);
    }
    if (count >= 0) free(entries);
}

/* Moves what is behind `at` by `gap` bytes to make room for them; false if the result would be too long. */
static bool fuzz_gap_make(uint8_t *data, size_t *bytes, size_t at, size_t gap)
{
    if (*bytes + gap > FUZZ_BYTES_MAX) return false;
    memmove(data + at + gap, data + at, *bytes - at);
    *bytes += gap;
    return true;
}

/* One random change of the input, in place. */
static void fuzz_mutate(uint8_t *data, size_t *bytes)
{
    static const uint64_t integers[] = {
        0,
        1,
        2,
        7,
        8,
        15,
        16,
        63,
        64,
        127,
        128,
        255,
        256,
        4095,
        4096,
        32767,
        32768,
        65535,
        65536,
        0x7FFFFFFF,
        0x80000000,
        0xFFFFFFFE,
        0xFFFFFFFF,
        0x100000000,
        0x7FFFFFFFFFFFFFFF,
        0x8000000000000000,
        0xFFFFFFFFFFFFFFFE,
        0xFFFFFFFFFFFFFFFF,
    };
    static const char *const words[] = {
        "0",
        "-1",
        "4294967295",
        "4294967296",
        "18446744073709551616",
        "1e308",
        "1e-400",
        "nan",
        "inf",
        "-0",
        "0x1p4",
        "\t",
        "\n",
        "\r\n",
        ",",
        ":",
        "=",
        "[",
        "]",
        "\"",
        ";",
        "#",
        "\xff\xfe",
        "\xed\xa0\x80",
        "..",
        "%s%n",
    };
    const size_t integer_count = sizeof integers / sizeof *integers, word_count = sizeof words / sizeof *words;
    size_t at = fuzz_below(*bytes), left = *bytes - at;
    size_t chunk = left == 0 ? 0 : 1 + fuzz_below(left < 64 || fuzz_below(8) == 0 ? left : 64);
    switch (fuzz_below(10)) {
    case 0: /* a bit */
        if (left > 0) data[at] ^= (uint8_t)(1u << fuzz_below(8));
        break;
    case 1: /* a byte */
        if (left > 0) data[at] = (uint8_t)fuzz_random();
        break;
    case 2: /* an integer, of 1, 2, 4 or 8 bytes, little-endian */
    {
        size_t width = (size_t)1 << fuzz_below(4);
        uint64_t value = integers[fuzz_below(integer_count)] + fuzz_below(3) - 1;
        if (left >= width)
            for (size_t i = 0; i < width; i++) data[at + i] = (uint8_t)(value >> (8 * i));
        break;
    }
    case 3: /* a word goes in */
    {
        const char *word = words[fuzz_below(word_count)];
        size_t word_bytes = strlen(word);
        if (fuzz_gap_make(data, bytes, at, word_bytes)) memcpy(data + at, word, word_bytes);
        break;
    }
    case 4: /* random bytes go in */
    {
        size_t gap = 1 + fuzz_below(16);
        if (fuzz_gap_make(data, bytes, at, gap))
            for (size_t i = 0; i < gap; i++) data[at + i] = (uint8_t)fuzz_random();
        break;
    }
    case 5: /* a chunk goes */
        memmove(data + at, data + at + chunk, left - chunk);
        *bytes -= chunk;
        break;
    case 6: /* a chunk is doubled */
        if (chunk > 0 && fuzz_gap_make(data, bytes, at, chunk)) memmove(data + at, data + at + chunk, chunk);
        break;
    case 7: /* a chunk is copied over another place */
    {
        size_t to = fuzz_below(*bytes);
        size_t copied = chunk < *bytes - to ? chunk : *bytes - to;
        memmove(data + to, data + at, copied);
        break;
    }
    case 8: /* the end goes */
        if (fuzz_below(4) == 0) *bytes = at;
        break;
    default: /* from here on it is another file of the corpus, from some place on */
    {
        if (fuzz_corpus_count == 0) break;
        const struct fuzz_input *other = &fuzz_corpus[fuzz_below(fuzz_corpus_count)];
        size_t from = fuzz_below(other->bytes), taken = other->bytes - from;
        if (taken > FUZZ_BYTES_MAX - at) taken = FUZZ_BYTES_MAX - at;
        if (taken > 0) memcpy(data + at, other->data + from, taken);
        *bytes = at + taken;
        break;
    }
    }
}

static double fuzz_now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static double fuzz_setting(const char *name, double fallback)
{
    const char *text = getenv(name);
    return text && *text ? atof(text) : fallback;
}

int main(int argc, char **argv)
{
    const double seconds = fuzz_setting("FUZZ_SECONDS", 2);
    const uint64_t seed = (uint64_t)fuzz_setting("FUZZ_SEED", 1);
    const char *directory = getenv("TMPDIR");
    fuzz_input_seconds = (unsigned)fuzz_setting("FUZZ_INPUT_SECONDS", 10);
    snprintf(fuzz_crash_path, sizeof fuzz_crash_path, "%s/fuzz-" FUZZ_NAME "-%ld.bin",
             directory && *directory ? directory : "/tmp", (long)getpid());
    const int signals[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGALRM};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) signal(signals[i], fuzz_crashed);
    setvbuf(stdout, NULL, _IOLBF, 0);

    if (argc < 2) fuzz_corpus_read("tests/fuzz/corpus/" FUZZ_NAME);
    for (int i = 1; i < argc; i++) fuzz_corpus_read(argv[i]);
    uint64_t input_count = 0;
    fuzz_run(NULL, 0);
    for (size_t i = 0; i < fuzz_corpus_count; i++) fuzz_run(fuzz_corpus[i].data, fuzz_corpus[i].bytes);
    input_count += 1 + fuzz_corpus_count;

    static uint8_t data[FUZZ_BYTES_MAX];
    const double end_s = fuzz_now_s() + seconds;
    for (uint64_t n = 0; fuzz_now_s() < end_s; n++, input_count++) {
        fuzz_state = seed * UINT64_C(0x2545F4914F6CDD1D) + n;
        size_t bytes = 0;
        if (fuzz_corpus_count > 0) {
            const struct fuzz_input *origin = &fuzz_corpus[fuzz_below(fuzz_corpus_count)];
            bytes = origin->bytes < sizeof data ? origin->bytes : sizeof data;
            if (bytes > 0) memcpy(data, origin->data, bytes);
        }
        for (size_t change_count = (size_t)1 << fuzz_below(6); change_count > 0; change_count--)
            fuzz_mutate(data, &bytes);
        fuzz_run(data, bytes);
    }
    printf("ok 1 - fuzz_" FUZZ_NAME ": %llu inputs, %zu files, seed %llu\n", (unsigned long long)input_count,
           fuzz_corpus_count, (unsigned long long)seed);
    for (size_t i = 0; i < fuzz_corpus_count; i++) free(fuzz_corpus[i].data);
    return 0;
}
#endif

#endif

/* How fast Criteo lines become micro-batches, beside what merely reading the file costs.
 *
 * Usage: parse_bench [MEGABYTES]      writes a temporary file (256 MB unless said otherwise) into TMPDIR, and removes it
 *
 * Five repeats of each, in turn, on one core; the file is in the page cache. Values are skewed as those of click logs are: small
 * integers with a long tail, a fifth of the columns empty, categories of 8 hexadecimal digits. */
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/random.h"
#include "io/reader.h"

#define REPEATS 5
#define MICRO   256u

/* One line; returns its bytes. */
static size_t line_make(char *out, struct random_stream stream, uint64_t n)
{
    uint32_t bits[4] = {0};
    char *at = out;
    random_block(stream, n, 0, bits);
    at += sprintf(at, "%d", bits[0] % 4 == 0);
    for (uint32_t i = 0; i < 13; i++) {
        random_block(stream, n, 1 + i, bits);
        *at++ = '\t';
        if (bits[0] % 5 == 0) continue;
        double u = random_unit_f32(bits[1]), scale = i == 4 ? 5e4 : i % 4 == 1 ? 500 : 10;
        at += sprintf(at, "%s%ld", i == 1 && bits[2] % 10 == 0 ? "-" : "", (long)(scale * -log(u)));
    }
    for (uint32_t i = 0; i < 26; i++) {
        random_block(stream, n, 14 + i, bits);
        *at++ = '\t';
        if (bits[0] % 16 == 0) continue;
        /* Skewed: the square of a uniform number, times a vocabulary of up to a million. */
        double u = random_unit_f32(bits[1]);
        uint32_t value = (uint32_t)(u * u * (i % 3 == 0 ? 1e6 : 1e3)) * 2654435761u + i;
        at += sprintf(at, "%08" PRIx32, value);
    }
    *at++ = '\n';
    return (size_t)(at - out);
}

static uint64_t file_make(int fd, uint64_t target_bytes)
{
    static char buffer[1 << 20];
    struct random_stream stream = random_stream(1, RANDOM_GEN, 0);
    uint64_t written_bytes = 0, n = 0;
    while (written_bytes < target_bytes) {
        size_t used = 0;
        /* The same thousands of lines over again would suit the branch predictor too well: every line is new. */
        while (used < sizeof buffer - 2000) used += line_make(buffer + used, stream, n++);
        if (write(fd, buffer, used) != (ssize_t)used) {
            perror("parse_bench: write");
            exit(1);
        }
        written_bytes += used;
    }
    return written_bytes;
}

static double seconds_of_read(const char *path, uint64_t bytes)
{
    static char block[256 << 10];
    uint64_t begin_ns = clock_ns(), sum = 0;
    int fd = open(path, O_RDONLY);
    for (ssize_t got; (got = read(fd, block, sizeof block)) > 0;) sum += (uint64_t)got;
    close(fd);
    if (sum != bytes) exit(1);
    return (double)(clock_ns() - begin_ns) * 1e-9;
}

static void must(status st)
{
    if (st == ST_OK) return;
    fprintf(stderr, "parse_bench: %s\n", status_message());
    exit(1);
}

static double seconds_of_fill(const char *path, uint32_t window, uint64_t *example_count, uint64_t *key_count)
{
    const struct example_shape shape = {.dense_count = 13, .dense_stride = 16, .field_count = 26, .key_count_max = 26, .label_count = 1};
    const struct batch_shape batch = {.batch = MICRO, .micro = MICRO, .lanes = 1};
    const struct reader_options options = {.format = READER_CRITEO,
                                           .paths = path,
                                           .shuffle = window,
                                           .part = "reader",
                                           .schema = {.example = shape, .log1p = true}};
    struct arena arena;
    struct micro_batch m;
    struct reader *reader;
    must(arena_open(&arena, "batch", micro_batch_bytes(batch, shape)));
    micro_batch_place(&m, &arena, batch, shape);
    must(reader_open(&reader, &options));
    must(reader_start(reader, 0));
    *example_count = *key_count = 0;
    uint64_t begin_ns = clock_ns();
    for (bool end = false; !end;) {
        micro_batch_clear(&m);
        must(reader_fill(reader, &m, MICRO, &end));
        *example_count += m.example_count;
        *key_count += m.key_count;
    }
    double seconds = (double)(clock_ns() - begin_ns) * 1e-9;
    reader_close(reader);
    arena_close(&arena);
    return seconds;
}

static int double_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values)
{
    qsort(values, REPEATS, sizeof *values, double_compare);
    return values[REPEATS / 2];
}

int main(int argc, char **argv)
{
    uint64_t megabytes = argc > 1 ? strtoull(argv[1], NULL, 10) : 256;
    const char *directory = getenv("TMPDIR");
    char path[4096];
    snprintf(path, sizeof path, "%s/parse_bench.XXXXXX", directory && *directory ? directory : "/tmp");
    int fd = mkstemp(path);
    if (fd < 0) {
        perror(path);
        return 1;
    }
    uint64_t bytes = file_make(fd, megabytes * 1000000);
    close(fd);

    double read_s[REPEATS], fill_s[REPEATS], shuffle_s[REPEATS];
    uint64_t example_count = 0, key_count = 0;
    seconds_of_read(path, bytes);
    for (int i = 0; i < REPEATS; i++) {
        read_s[i] = seconds_of_read(path, bytes);
        fill_s[i] = seconds_of_fill(path, 0, &example_count, &key_count);
        shuffle_s[i] = seconds_of_fill(path, 10000, &example_count, &key_count);
    }
    unlink(path);
    double read = median(read_s), fill = median(fill_s), shuffled = median(shuffle_s), mb = (double)bytes * 1e-6;
    printf("file       %.0f MB, %" PRIu64 " examples of %.0f bytes, %.1f keys each; medians of %d\n", mb, example_count,
           (double)bytes / (double)example_count, (double)key_count / (double)example_count, REPEATS);
    printf("read(2)    %7.0f MB/s\n", mb / read);
    printf("parse      %7.0f MB/s  %10.0f examples/s   %.2f of read(2)\n", mb / fill, (double)example_count / fill,
           read / fill);
    printf("shuffled   %7.0f MB/s  %10.0f examples/s   %.2f of read(2)   window 10000\n", mb / shuffled,
           (double)example_count / shuffled, read / shuffled);
    return 0;
}

/* How fast lines of criteo, csv, quoted csv, libsvm and libffm become micro-batches, beside what merely reading the file costs.
 *
 * Usage: parse_bench [MEGABYTES [FORMAT]]     writes temporary files (256 MB unless said otherwise) into TMPDIR, and removes them
 *
 * Five repeats of each, in turn, in time of one core; the file is in the page cache. All formats hold the same values, which are skewed as those of click logs are: small
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

#define DENSE   13u
#define SPARSE  26u

/* The values of one example, as texts: label, I1 .. I13, C1 .. C26. */
static void example_make(char value[1 + DENSE + SPARSE][16], struct random_stream stream, uint64_t n)
{
    uint32_t bits[4] = {0};
    random_block(stream, n, 0, bits);
    sprintf(value[0], "%d", bits[0] % 4 == 0);
    for (uint32_t i = 0; i < DENSE; i++) {
        random_block(stream, n, 1 + i, bits);
        value[1 + i][0] = 0;
        if (bits[0] % 5 == 0) continue;
        double u = random_unit_f32(bits[1]), scale = i == 4 ? 5e4 : i % 4 == 1 ? 500 : 10;
        sprintf(value[1 + i], "%s%ld", i == 1 && bits[2] % 10 == 0 ? "-" : "", (long)(scale * -log(u)));
    }
    for (uint32_t i = 0; i < SPARSE; i++) {
        random_block(stream, n, 14 + i, bits);
        value[1 + DENSE + i][0] = 0;
        if (bits[0] % 16 == 0) continue;
        /* Skewed: the square of a uniform number, times a vocabulary of up to a million. */
        double u = random_unit_f32(bits[1]);
        uint32_t word = (uint32_t)(u * u * (i % 3 == 0 ? 1e6 : 1e3)) * 2654435761u + i;
        sprintf(value[1 + DENSE + i], "%08" PRIx32, word);
    }
}

enum kind { KIND_CRITEO, KIND_CSV, KIND_QUOTED, KIND_LIBSVM, KIND_LIBFFM, KIND_COUNT };
static const char *const kind_names[KIND_COUNT] = {"criteo", "csv", "quoted csv", "libsvm", "libffm"};

/* One line; returns its bytes. */
static size_t line_make(char *out, enum kind kind, char value[1 + DENSE + SPARSE][16])
{
    char *at = out + sprintf(out, "%s", value[0]);
    for (uint32_t i = 1; i < 1 + DENSE + SPARSE; i++) {
        bool is_dense = i <= DENSE;
        switch (kind) {
        case KIND_CRITEO: at += sprintf(at, "\t%s", value[i]); break;
        case KIND_CSV: at += sprintf(at, ",%s%s", value[i], is_dense && value[i][0] && i % 2 ? ".0" : ""); break;
        case KIND_QUOTED: at += sprintf(at, is_dense ? ",%s" : ",\"%s\"", value[i]); break;
        case KIND_LIBSVM:
        case KIND_LIBFFM:
            if (!value[i][0]) break;
            *at++ = ' ';
            if (kind == KIND_LIBFFM) at += sprintf(at, "%u:", i - 1);
            if (is_dense)
                at += sprintf(at, "%u:%.4f", i, atof(value[i]) / 10);
            else
                at += sprintf(at, "%lu:1", strtoul(value[i], NULL, 16) % 10000000);
            break;
        case KIND_COUNT: break;
        }
    }
    *at++ = '\n';
    return (size_t)(at - out);
}

static uint64_t file_make(int fd, enum kind kind, uint64_t target_bytes)
{
    static char buffer[1 << 20], value[1 + DENSE + SPARSE][16];
    struct random_stream stream = random_stream(1, RANDOM_GEN, 0);
    uint64_t written_bytes = 0, n = 0;
    size_t used = 0;
    if (kind == KIND_CSV || kind == KIND_QUOTED) {
        used += (size_t)sprintf(buffer, "label");
        for (uint32_t i = 1; i <= DENSE; i++) used += (size_t)sprintf(buffer + used, ",I%u", i);
        for (uint32_t i = 1; i <= SPARSE; i++) used += (size_t)sprintf(buffer + used, ",C%u", i);
        buffer[used++] = '\n';
    }
    while (written_bytes < target_bytes) {
        /* The same thousands of lines over again would suit the branch predictor too well: every line is new. */
        for (; used < sizeof buffer - 2000; n++) {
            example_make(value, stream, n);
            used += line_make(buffer + used, kind, value);
        }
        if (write(fd, buffer, used) != (ssize_t)used) {
            perror("parse_bench: write");
            exit(1);
        }
        written_bytes += used;
        used = 0;
    }
    return written_bytes;
}

static double seconds_of_read(const char *path, uint64_t bytes)
{
    static char block[256 << 10];
    uint64_t begin_ns = clock_thread_ns(), sum = 0;
    int fd = open(path, O_RDONLY);
    for (ssize_t got; (got = read(fd, block, sizeof block)) > 0;) sum += (uint64_t)got;
    close(fd);
    if (sum != bytes) exit(1);
    return (double)(clock_thread_ns() - begin_ns) * 1e-9;
}

static void must(status st)
{
    if (st == ST_OK) return;
    fprintf(stderr, "parse_bench: %s\n", status_message());
    exit(1);
}

static char names[DENSE + SPARSE][8];
static struct reader_column dense[DENSE], field[SPARSE], features[DENSE + SPARSE];
static const struct reader_column label = {.name = "label", .vocabulary = READER_NONE};

static struct reader_options options_of(enum kind kind)
{
    static const enum reader_format formats[KIND_COUNT] = {READER_CRITEO, READER_CSV, READER_CSV, READER_LIBSVM,
                                                           READER_LIBFFM};
    struct reader_options o = {.format = formats[kind], .part = "reader"};
    struct reader_schema *s = &o.schema;
    s->label = &label;
    s->example.label_count = 1;
    s->log1p = true;
    s->has_header = s->has_quotes = true;
    s->separator = ',';
    s->list_separator = '|';
    for (uint32_t i = 0; i < DENSE + SPARSE; i++) {
        bool is_dense = i < DENSE;
        if (kind == KIND_LIBFFM)
            snprintf(names[i], sizeof names[i], "F%u", i);
        else
            snprintf(names[i], sizeof names[i], "%c%u", is_dense ? 'I' : 'C', is_dense ? i + 1 : i + 1 - DENSE);
        if (is_dense)
            dense[i] = (struct reader_column){.name = names[i], .scale = 1};
        else
            field[i - DENSE] =
                (struct reader_column){.name = names[i], .seed = i - DENSE, .ids_max = 1, .vocabulary = READER_NONE};
        features[i] = (struct reader_column){.name = names[i], .seed = 1, .ids_max = 1, .vocabulary = READER_NONE};
    }
    s->dense = dense;
    s->field = field;
    s->example.dense_count = DENSE;
    s->example.dense_stride = 16;
    s->example.field_count = s->example.key_count_max = SPARSE;
    if (kind < KIND_LIBSVM) return o;
    s->field = features;
    s->example.dense_count = 0;
    s->example.field_count = s->example.key_count_max = DENSE + SPARSE;
    s->example.has_value = true;
    if (kind != KIND_LIBSVM) return o;
    features[0].name = "features";
    features[0].ids_max = s->example.key_count_max;
    s->example.field_count = 1;
    return o;
}

static double seconds_of_fill(const char *path, enum kind kind, uint32_t window, uint64_t *example_count,
                              uint64_t *key_count)
{
    const struct batch_shape batch = {.batch = MICRO, .micro = MICRO, .lanes = 1};
    struct reader_options options = options_of(kind);
    const struct example_shape shape = options.schema.example;
    options.paths = path;
    options.shuffle = window;
    struct arena arena;
    struct micro_batch m;
    struct reader *reader;
    must(arena_open(&arena, "batch", micro_batch_bytes(batch, shape)));
    micro_batch_place(&m, &arena, batch, shape);
    must(reader_open(&reader, &options));
    must(reader_start(reader, 0));
    *example_count = *key_count = 0;
    uint64_t begin_ns = clock_thread_ns();
    for (bool end = false; !end;) {
        micro_batch_clear(&m);
        must(reader_fill(reader, &m, MICRO, &end));
        *example_count += m.example_count;
        *key_count += m.key_count;
    }
    double seconds = (double)(clock_thread_ns() - begin_ns) * 1e-9;
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

static void measure(enum kind kind, const char *path, uint64_t bytes)
{
    double read_s[REPEATS], fill_s[REPEATS], shuffle_s[REPEATS];
    uint64_t example_count = 0, key_count = 0;
    seconds_of_read(path, bytes);
    for (int i = 0; i < REPEATS; i++) {
        read_s[i] = seconds_of_read(path, bytes);
        fill_s[i] = seconds_of_fill(path, kind, 0, &example_count, &key_count);
        shuffle_s[i] = seconds_of_fill(path, kind, 10000, &example_count, &key_count);
    }
    double read = median(read_s), fill = median(fill_s), shuffled = median(shuffle_s), mb = (double)bytes * 1e-6;
    printf("%-10s %.0f MB, %" PRIu64 " examples of %.0f bytes, %.1f keys each; medians of %d\n", kind_names[kind], mb,
           example_count, (double)bytes / (double)example_count, (double)key_count / (double)example_count, REPEATS);
    printf("  read(2)    %7.0f MB/s\n", mb / read);
    printf("  parse      %7.0f MB/s  %10.0f examples/s   %.2f of read(2)\n", mb / fill, (double)example_count / fill,
           read / fill);
    printf("  shuffled   %7.0f MB/s  %10.0f examples/s   %.2f of read(2)   window 10000\n", mb / shuffled,
           (double)example_count / shuffled, read / shuffled);
}

int main(int argc, char **argv)
{
    uint64_t megabytes = argc > 1 ? strtoull(argv[1], NULL, 10) : 256;
    const char *directory = getenv("TMPDIR");
    for (enum kind kind = 0; kind < KIND_COUNT; kind++) {
        char path[4096];
        if (argc > 2 && strcmp(argv[2], kind_names[kind]) != 0) continue;
        snprintf(path, sizeof path, "%s/parse_bench.XXXXXX", directory && *directory ? directory : "/tmp");
        int fd = mkstemp(path);
        if (fd < 0) {
            perror(path);
            return 1;
        }
        uint64_t bytes = file_make(fd, kind, megabytes * 1000000);
        close(fd);
        measure(kind, path, bytes);
        unlink(path);
    }
    return 0;
}

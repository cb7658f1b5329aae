/* Any bytes as a Criteo file: the reader gives micro-batches that hold together, or a located error. The
 * first byte chooses the options, the rest is the file (gzip if it happens to begin so). */
#define FUZZ_NAME "criteo"
#include "tests/fuzz/driver.h"

#include <math.h>
#include <sys/mman.h>

#include "io/read/reader.h"
#include "io/read/text_isa.h"

#define MICRO 8u

static void must(bool condition)
{
    if (!condition) abort();
}

/* What every micro-batch promises, whatever was read. */
static void batch_check(const struct micro_batch *m, struct example_shape shape, bool may_be_bad)
{
    must(m->example_count <= MICRO);
    must(m->key_count <= m->example_count * shape.key_count_max);
    must(m->key_begin[0] == 0);
    must(m->key_begin[m->example_count * shape.field_count] == m->key_count);
    for (uint32_t home = 0; home < m->example_count * shape.field_count; home++) {
        must(m->key_begin[home] <= m->key_begin[home + 1] && m->key_begin[home + 1] <= m->key_begin[home] + 1);
        for (uint32_t p = m->key_begin[home]; p < m->key_begin[home + 1]; p++) must(m->key_home[p] == home);
    }
    for (uint32_t e = 0; e < m->example_count; e++) {
        must(m->label[e] == 0 || m->label[e] == 1);
        must(m->is_bad[e] <= may_be_bad);
        for (uint32_t i = 0; i < shape.dense_count; i++) must(isfinite(m->dense[e * shape.dense_stride + i]));
    }
}

/* One pass. `hash` is a function of all examples and of where the pass failed. */
static uint64_t pass_hash(struct reader *reader, struct micro_batch *m, struct example_shape shape,
                          const struct reader_options *options, uint64_t *example_count)
{
    uint64_t hash = 1;
    *example_count = 0;
    must(reader_start(reader, 0) == ST_OK);
    for (bool end = false; !end;) {
        micro_batch_clear(m);
        status st = reader_fill(reader, m, MICRO, &end);
        batch_check(m, shape, options->bad_keep);
        *example_count += m->example_count;
        for (uint32_t p = 0; p < m->key_count; p++) hash = hash * 31 + m->key[p] + m->key_home[p];
        for (uint32_t e = 0; e < m->example_count; e++) hash = hash * 31 + (uint64_t)m->label[e] + m->is_bad[e];
        if (fuzz_is_unpackable(st)) return hash;
        if (st != ST_OK) {
            must(st == ST_INVALID && !options->bad_skip);
            must(strlen(status_message()) > 0);
            hash = hash * 31 + 7; /* and on behind the bad line */
        }
    }
    return hash;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct arena arena;
    static struct micro_batch m;
    static const struct reader_column dense[] = {{.name = "I13", .scale = 1}, {.name = "I4", .mean = 1, .scale = 2}},
                                      field[] = {{.name = "C26", .seed = 25},
                                                 {.name = "C1"},
                                                 {.name = "C1"},
                                                 {.name = "C14", .seed = 13}};
    const struct example_shape whole = {
        .dense_count = 13, .dense_stride = 13, .field_count = 26, .key_count_max = 26, .label_count = 1};
    const struct example_shape part = {
        .dense_count = 2, .dense_stride = 3, .field_count = 4, .key_count_max = 4, .label_count = 1};
    const struct batch_shape batch = {.batch = MICRO, .micro = MICRO, .lanes = 1};
    static int fd = -1;
    static char path[64];
    if (fd < 0) {
        fd = memfd_create("fuzz", 0);
        must(fd >= 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        must(arena_open(&arena, "fuzz", micro_batch_bytes(batch, whole)) == ST_OK);
        micro_batch_place(&m, &arena, batch, whole);
    }
    uint8_t flags = bytes ? data[0] : 0;
    if (bytes) data++, bytes--;
    must(ftruncate(fd, 0) == 0);
    must(pwrite(fd, data, bytes, 0) == (ssize_t)bytes);

    struct reader_options options = {.format = READER_CRITEO, .paths = path, .part = "fuzz"};
    options.schema.example = flags & 1 ? part : whole;
    options.schema.dense = flags & 1 ? dense : NULL;
    options.schema.field = flags & 1 ? field : NULL;
    options.schema.log1p = flags & 2;
    options.schema.missing_is_key = flags & 4;
    options.label_optional = flags & 8;
    options.bad_skip = flags & 16;
    options.bad_keep = (flags & 16) && (flags & 32);
    options.shuffle = flags & 64 ? 5 : 0;
    struct reader *reader;
    status st = reader_open(&reader, &options);
    if (st != ST_OK) {
        must(fuzz_is_unpackable(st) || (st == ST_INVALID && !options.bad_skip));
        return 0;
    }
    uint64_t first_count, second_count;
    uint64_t first = pass_hash(reader, &m, options.schema.example, &options, &first_count);
    struct reader_counts counts = reader_counts(reader);
    must(counts.bad_count <= counts.line_count);
    must(first_count <= counts.line_count);
    bool is_packed = bytes > 1 && ((data[0] == 0x1f && data[1] == 0x8b) || (data[0] == 0x28 && data[1] == 0xb5) ||
                                   (data[0] == 0x50 && data[1] == 0x2a));
    if (options.bad_keep && !is_packed) must(first_count == counts.line_count);
    /* The second pass is the first again. */
    uint64_t second = pass_hash(reader, &m, options.schema.example, &options, &second_count);
    must(first == second && first_count == second_count);
    must(reader_counts(reader).line_count == 2 * counts.line_count);
    must(reader_counts(reader).byte_count == 2 * counts.byte_count);
    reader_close(reader);
    /* And so it is with the parsers of every instruction set, and with several threads. */
    for (uint32_t i = 0; i < 3; i++) {
        options.isa = i == 0 ? "base" : i == 1 ? "avx2" : NULL;
        options.readers = i == 2 ? 2 : 1;
        if (i == 2 && first % 8) continue; /* threads take longer to start than such a file to read */
        if (!text_kernels_of(options.isa)) continue;
        must(reader_open(&reader, &options) == ST_OK);
        must(pass_hash(reader, &m, options.schema.example, &options, &second_count) == first);
        must(second_count == first_count && reader_counts(reader).bad_count == counts.bad_count);
        reader_close(reader);
    }
    return 0;
}

/* The data cache under a reader: every pass gives the bytes that the text gives, in whatever order, skipped,
 * counted; what is garbled or has changed is noticed; what does not fit is not kept. */
#include "tests/io/read/criteo_test.h"

#include <time.h>
#include <xxhash.h>

#include "engine/base/random.h"
#include "io/cache/cached_reader.h"
#include "io/read/text_isa.h"

#define ROWS   40000u /* more than two blocks */
#define BUDGET (UINT64_C(64) << 20)
#define WINDOW 2u /* blocks in an order of blocks */

/* What a pass has given. */
struct digest {
    uint64_t hash, example_count, bad_count;
};

static const char *data_make(uint32_t rows)
{
    static char path[1024];
    strcpy(path, test_path("data"));
    uint64_t state = 3;
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (uint32_t i = 0; i < rows; i++) {
        if (test_random(&state) % 1000 == 0) fputs("no line\n", file);
        fputs(i % 3 ? "0" : "1", file);
        for (int c = 0; c < 13; c++) {
            uint64_t n = test_random(&state);
            n % 4 ? fprintf(file, "\t%d", (int)(n >> 8) % (c % 2 ? 9 : 100000)) : fputs("\t", file);
        }
        for (int c = 0; c < 26; c++) {
            uint64_t n = test_random(&state);
            n % (unsigned)(c + 2) ? fprintf(file, "\t%08x", (unsigned)(n >> 8) % (c % 2 ? 50 : 60000))
                                  : fputs("\t", file);
        }
        fputs("\n", file);
    }
    fputs("the last is bad, too\n", file);
    fclose(file);
    return path;
}

struct cached_options {
    struct reader_options reader;
    struct data_cache_budget cache;
};

static struct cached_options options_make(const char *path, uint64_t ram, uint64_t ssd)
{
    struct cached_options o = {.reader = criteo_options(path), .cache = {.ram_bytes = ram, .ssd_bytes = ssd}};
    o.reader.bad_skip = true;
    return o;
}

static status open_reader(struct reader **reader, const struct cached_options *o)
{
    return cached_reader_open(reader, &o->reader, &o->cache, NULL);
}

static void fold(struct digest *d, const void *data, size_t bytes)
{
    d->hash = XXH3_64bits_withSeed(data, bytes, d->hash);
}

/* The pass `epoch` behind its first `skip` examples. */
static struct digest pass_digest(struct reader *reader, uint64_t epoch, uint64_t skip)
{
    static struct arena arena;
    static struct micro_batch m;
    struct batch_shape batch = {.batch = 300, .micro = 300, .lanes = 1};
    struct digest d = {.bad_count = reader_counts(reader).bad_count};
    bool is_end = false;
    if (!arena.base) {
        assert_ok(arena_open(&arena, "test", micro_batch_bytes(batch, criteo_shape)));
        micro_batch_place(&m, &arena, batch, criteo_shape);
    }
    assert_ok(reader_start(reader, epoch));
    if (skip) assert_ok(reader_skip(reader, skip, NULL, &is_end));
    while (!is_end) {
        micro_batch_clear(&m);
        assert_ok(reader_fill(reader, &m, 300, &is_end));
        uint32_t homes = m.example_count * criteo_shape.field_count;
        d.example_count += m.example_count;
        fold(&d, m.label, m.example_count * sizeof *m.label);
        for (uint32_t i = 0; i < m.example_count; i++) fold(&d, m.dense + i * 16, 13 * sizeof *m.dense);
        fold(&d, m.key, m.key_count * sizeof *m.key);
        fold(&d, m.key_home, m.key_count * sizeof *m.key_home);
        fold(&d, m.key_begin, (homes + 1) * sizeof *m.key_begin);
    }
    d.bad_count = reader_counts(reader).bad_count - d.bad_count;
    return d;
}

/* Passes of readers with and without a cache are the same; the first of `epochs`
 * passes skips, as a resumed run does. */
static void compare(struct cached_options o, uint64_t epochs, uint64_t skip)
{
    struct reader *plain, *cached;
    struct cached_options without = o;
    without.cache = (struct data_cache_budget){0};
    assert_ok(open_reader(&plain, &without));
    assert_ok(open_reader(&cached, &o));
    for (uint64_t epoch = 0; epoch < epochs; epoch++) {
        struct digest expected = pass_digest(plain, epoch, epoch ? 0 : skip),
                      found = pass_digest(cached, epoch, epoch ? 0 : skip);
        assert_memory_equal(&found, &expected, sizeof found);
    }
    reader_close(plain);
    reader_close(cached);
}

static bool cache_exists(const char *suffix)
{
    char path[1100];
    snprintf(path, sizeof path, "%s%s", test_path("data"), suffix);
    return access(path, F_OK) == 0;
}

static int cache_remove(void **state)
{
    (void)state;
    unlink(test_path("data.cache"));
    return 0;
}

static void data_cache__ram_or_file__passes_are_the_texts(void **state)
{
    (void)state;
    const char *path = data_make(ROWS);
    for (uint32_t way = 0; way < 12; way++) {
        struct cached_options o =
            options_make(path, way % 3 != 1 ? way % 3 ? 2500000 : BUDGET : 0, way % 3 ? BUDGET : 0);
        if (way % 4 == 1) o.reader.shuffle = 1000;
        if (way % 4 == 2) o.reader.readers = 3;
        if (way % 4 == 3) o.reader.bad_keep = true;
        if (way >= 6) cache_remove(NULL); /* else a file of the run before may serve, or must not */
        compare(o, 3, way % 2 ? 0 : 20001);
        assert_int_equal(cache_exists(".cache"), way % 3 != 0 || (way < 6 && way > 0));
        assert_false(cache_exists(".cache.new"));
    }
    /* Of the same data and settings the file is believed: a bit of it that the reader now reads shows. */
    struct cached_options o = options_make(path, 0, BUDGET);
    cache_remove(NULL);
    compare(o, 1, 0);
    compare(o, 1, 39000);
}

static void data_cache__flipped_bit__goes_on_from_the_text(void **state)
{
    (void)state;
    const char *path = data_make(ROWS);
    for (uint32_t way = 0; way < 4; way++) {
        struct cached_options o = options_make(path, 0, BUDGET);
        if (way % 2) o.reader.shuffle = 500;
        compare(o, 1, 0);
        FILE *file = fopen(test_path("data.cache"), "r+b");
        assert_non_null(file);
        fseek(file, way < 2 ? 2500000 : 5000, SEEK_SET);
        int byte = fgetc(file);
        fseek(file, -1, SEEK_CUR);
        fputc(byte ^ 4, file);
        fclose(file);
        compare(o, 1, 0);
        assert_false(cache_exists(".cache"));
    }
}

/* The notices so far but for details, a line each: the kind's number, and the text. */
struct told {
    char text[4096];
    size_t bytes;
};
static void told_add(void *context, enum notice kind, const char *text)
{
    struct told *t = context;
    if (kind == NOTICE_DETAIL) return; /* depends on the page cache */
    t->bytes += (size_t)snprintf(t->text + t->bytes, sizeof t->text - t->bytes, "%d %s\n", (int)kind, text);
    assert_true(t->bytes < sizeof t->text);
}

static void line_add(const char *path)
{
    FILE *file = fopen(path, "ab");
    char line[2000];
    assert_non_null(file);
    criteo_line(line, "1", "2", 3);
    fprintf(file, "%s\n", line);
    assert_int_equal(fclose(file), 0);
}

static void data_cache__changed_source__is_read_anew(void **state)
{
    (void)state;
    const char *path = data_make(ROWS);
    struct cached_options o = options_make(path, 0, BUDGET);
    compare(o, 1, 0);
    /* One byte, of the same size; and of the same time. */
    for (int keeps_time = 0; keeps_time < 2; keeps_time++) {
        struct stat before;
        assert_int_equal(stat(path, &before), 0);
        FILE *file = fopen(path, "r+b");
        assert_non_null(file);
        fputc(keeps_time ? '7' : '5', file);
        fclose(file);
        struct timespec times[2] = {before.st_atim, before.st_mtim};
        if (keeps_time) assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
        compare(o, 2, 0);
    }
    /* Longer, between two passes of a run. */
    struct reader *reader;
    o.cache = (struct data_cache_budget){.ram_bytes = BUDGET};
    assert_ok(open_reader(&reader, &o));
    uint64_t count = pass_digest(reader, 0, 0).example_count;
    line_add(path);
    assert_int_equal(pass_digest(reader, 1, 0).example_count, count + 1);
    assert_int_equal(pass_digest(reader, 2, 0).example_count, count + 1);
    reader_close(reader);
    /* What is then in the file is of the longer text, and serves the next run. */
    struct told told = {0};
    o = options_make(path, 0, BUDGET);
    o.reader.notices = &(struct notices){.tell = told_add, .context = &told};
    assert_ok(open_reader(&reader, &o));
    assert_int_equal(pass_digest(reader, 0, 0).example_count, count + 1);
    line_add(path);
    assert_int_equal(pass_digest(reader, 1, 0).example_count, count + 2);
    reader_close(reader);
    told = (struct told){0};
    assert_ok(open_reader(&reader, &o));
    if (strstr(told.text, ".cache: 40001 examples, ") == NULL) fail_msg("%s", told.text);
    reader_close(reader);
    /* Other settings. */
    o = options_make(path, 0, BUDGET);
    compare(o, 1, 0);
    o.reader.schema.log1p = true;
    compare(o, 1, 0);
    /* What a killed run leaves. */
    cache_remove(NULL);
    test_text("data.cache.new", "hpcache1 and nothing more");
    compare(o, 2, 0);
    test_text("data.cache", "hpcache1 and nothing more");
    compare(o, 1, 0);
    test_text("data.cache", "");
    compare(o, 1, 0);
    /* A cache that has lost its end. */
    assert_int_equal(truncate(test_path("data.cache"), 2000000), 0);
    compare(o, 1, 0);
}

static void data_cache__too_small__passes_are_the_texts(void **state)
{
    (void)state;
    const char *path = data_make(ROWS);
    compare(options_make(path, 2500000, 0), 3, 0);
    compare(options_make(path, 0, 2500000), 2, 0);
    assert_false(cache_exists(".cache"));
    compare(options_make(path, 0, 1000), 2, 0);
}

/* What criteo's lines lack: weights, groups, more fields, a second label. */
static void data_cache__csv__keeps_weights_groups_and_labels(void **state)
{
    (void)state;
    static const struct reader_column denses[] = {{.name = "d", .scale = 1}},
                                      fields[] = {{.name = "f", .seed = 7, .ids_max = 3, .vocabulary = READER_NONE},
                                                  {.name = "g", .seed = 8, .ids_max = 1, .vocabulary = READER_NONE}},
                                      labels[] = {{.name = "l", .vocabulary = READER_NONE},
                                                  {.name = "k", .vocabulary = READER_NONE}};
    const struct example_shape shape = {.dense_count = 1,
                                        .dense_stride = 1,
                                        .field_count = 2,
                                        .key_count_max = 4,
                                        .label_count = 2,
                                        .has_weight = true,
                                        .has_group = true};
    const struct batch_shape batch = {.batch = 64, .micro = 64, .lanes = 1};
    struct cached_options o = {.reader = {.format = READER_CSV,
                                          .part = "test",
                                          .schema = {.example = shape,
                                                     .dense = denses,
                                                     .field = fields,
                                                     .label = labels,
                                                     .weight = "w",
                                                     .group = "u",
                                                     .has_header = true,
                                                     .separator = ',',
                                                     .list_separator = '|'}},
                               .cache = {.ram_bytes = BUDGET}};
    o.reader.paths = test_text("data.csv", "w,u,d,f,g,l,k\n0.5,a,1,x|y,z,1,0\n2,b,2,,z,0,1\n0,a,3,x|y|q,,1,1\n");
    struct arena arena;
    struct micro_batch m;
    struct reader *reader;
    assert_ok(arena_open(&arena, "test", micro_batch_bytes(batch, shape)));
    micro_batch_place(&m, &arena, batch, shape);
    assert_ok(open_reader(&reader, &o));
    for (uint64_t epoch = 0; epoch < 3; epoch++) { /* of the text, then of the cache */
        static const float weight[] = {0.5f, 2, 0}, label[] = {1, 0, 0, 1, 1, 1};
        static const uint32_t begin[] = {0, 2, 3, 3, 4, 7, 7};
        bool is_end;
        micro_batch_clear(&m);
        memset(m.group, 0xff, 3 * sizeof *m.group);
        assert_ok(reader_start(reader, epoch));
        assert_ok(reader_fill(reader, &m, 64, &is_end));
        assert_true(is_end && m.example_count == 3);
        assert_memory_equal(m.weight, weight, sizeof weight);
        assert_memory_equal(m.label, label, sizeof label);
        assert_memory_equal(m.key_begin, begin, sizeof begin);
        for (uint32_t i = 0; i < 3; i++) {
            assert_int_equal(m.group[i], reader_key(0, i == 1 ? "b" : "a", 1));
            assert_true(m.dense[i] == (float)i + 1);
        }
        assert_int_equal(m.key[6], reader_key(7, "q", 1));
    }
    reader_close(reader);
    arena_close(&arena);
}

static const char *const counted_words[] = {"0", "1"};

/* The first byte behind its head is another. */
static void garble(const char *path)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, 5000, SEEK_SET);
    int byte = fgetc(file);
    assert_true(byte != EOF);
    fseek(file, -1, SEEK_CUR);
    fputc(byte ^ 4, file);
    fclose(file);
}

/* Bad lines, lists that are cut, words that nobody knows: whatever is read for whom,
 * each pass counts its own. */
static void data_cache__csv__each_pass_counts_what_the_text_has(void **state)
{
    (void)state;
    enum { LINES = 6000, PASSES = 3 };
    static const struct reader_column fields[] = {{.name = "f", .seed = 7, .ids_max = 2, .vocabulary = READER_NONE}},
                                      labels[] = {{.name = "l", .vocabulary = 0}};
    static const struct reader_vocabulary vocabulary = {.word_count = 2, .unknown = READER_NONE, .text = counted_words};
    const struct example_shape shape = {.field_count = 1, .key_count_max = 2, .label_count = 1};
    const struct batch_shape batch = {.batch = 64, .micro = 64, .lanes = 1};
    struct cached_options o = {.reader = {.format = READER_CSV,
                                          .part = "test",
                                          .bad_skip = true,
                                          .seed = 11,
                                          .schema = {.example = shape,
                                                     .field = fields,
                                                     .label = labels,
                                                     .vocabulary = &vocabulary,
                                                     .vocabulary_count = 1,
                                                     .has_header = true,
                                                     .separator = ',',
                                                     .list_separator = '|'}}};
    static char path[1024];
    snprintf(path, sizeof path, "%s", test_path("data"));
    FILE *file = fopen(path, "wb");
    struct arena arena;
    struct micro_batch m;
    struct reader_counts expected[PASSES];
    assert_non_null(file);
    fputs("f,l\n", file);
    for (uint32_t i = 0; i < LINES; i++)
        fputs(i % 11 == 3 ? "x|y|x|y,1\n" : i % 13 == 5 ? "q,2\n" : i % 17 == 8 ? "none\n" : "y|x,0\n", file);
    assert_int_equal(fclose(file), 0);
    o.reader.paths = path;
    assert_ok(arena_open(&arena, "test", micro_batch_bytes(batch, shape)));
    micro_batch_place(&m, &arena, batch, shape);
    for (uint32_t way = 0; way < 7; way++) {
        struct reader *reader;
        o.cache = (struct data_cache_budget){.ram_bytes = way == 1 || way == 4 ? BUDGET : 0,
                                             .ssd_bytes = way == 2 || way == 3 || way > 4 ? BUDGET : 0,
                                             .window = way > 3 ? WINDOW : 0};
        if (way == 5) cache_remove(NULL);
        if (way == 3 || way == 6) garble(test_path("data.cache"));
        assert_ok(open_reader(&reader, &o));
        for (uint32_t pass = 0; pass < PASSES; pass++) {
            bool is_end = false;
            assert_ok(reader_start(reader, pass + (way == 6))); /* begins with an order of blocks */
            while (!is_end) {
                micro_batch_clear(&m);
                assert_ok(reader_fill(reader, &m, 64, &is_end));
            }
            const struct reader_counts is = reader_counts(reader);
            if (way == 0) expected[pass] = is;
            if (is.bad_count != expected[pass].bad_count || is.cut_count != expected[pass].cut_count ||
                is.unknown_count != expected[pass].unknown_count)
                fail_msg("way %u, pass %u: bad %d of %d, cut %d of %d, unknown %d of %d", way, pass, (int)is.bad_count,
                         (int)expected[pass].bad_count, (int)is.cut_count, (int)expected[pass].cut_count,
                         (int)is.unknown_count, (int)expected[pass].unknown_count);
        }
        reader_close(reader);
    }
    assert_true(expected[0].bad_count > 250 && expected[0].cut_count > 500 && expected[0].unknown_count > 350);
    assert_true(expected[2].bad_count == 3 * expected[0].bad_count &&
                expected[2].cut_count == 3 * expected[0].cut_count);
    arena_close(&arena);
}

/* --- what is told ------------------------------------------------------------------------------- */

static void data_cache__notices__are_told_when_it_happens(void **state)
{
    (void)state;
    const char *path = data_make(ROWS);
    struct cached_options o = options_make(path, 2500000, 0);
    struct told told = {0};
    struct reader *reader;
    char expected[4096];
    o.reader.notices = &(struct notices){.tell = told_add, .context = &told};
    assert_ok(open_reader(&reader, &o));
    assert_string_equal(told.text, "");
    pass_digest(reader, 0, 0);
    assert_non_null(strstr(told.text,
                           "2 cache: after 32768 examples it no longer fits into cache.ram = 2500000 and cache.ssd = 0 "
                           "bytes; every pass reads the text\n"));
    reader_close(reader);

    compare(options_make(path, 0, BUDGET), 1, 0);
    o = options_make(path, 0, BUDGET);
    o.reader.notices = &(struct notices){.tell = told_add, .context = &told};
    told = (struct told){0};
    assert_ok(open_reader(&reader, &o));
    snprintf(expected, sizeof expected, "1 cache    %s.cache: %u examples, ", path, ROWS);
    assert_memory_equal(told.text, expected, strlen(expected));
    assert_int_equal(unlink(test_path("data.cache")), 0);
    reader_close(reader);
}

static void data_cache__stream__can_be_read_again(void **state)
{
    (void)state;
    const char *path = data_make(ROWS);
    struct reader *plain, *cached;
    struct cached_options o = options_make(path, 0, 0);
    assert_ok(open_reader(&plain, &o));
    o = options_make("-", BUDGET, 0);
    int saved = test_stdin_replace(open(path, O_RDONLY));
    assert_ok(open_reader(&cached, &o));
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        struct digest expected = pass_digest(plain, epoch, 0), found = pass_digest(cached, epoch, 0);
        assert_memory_equal(&found, &expected, sizeof found);
    }
    reader_close(cached);
    reader_close(plain);
    test_stdin_restore(saved);
    o.cache.ssd_bytes = BUDGET;
    saved = test_stdin_replace(open(path, O_RDONLY));
    assert_fails(INVALID, "cache.path", open_reader(&cached, &o));
    test_stdin_restore(saved);
    /* In the place of the cache of a file. */
    char *kept = strdup(test_path("data.cache"));
    compare(options_make(path, 0, BUDGET), 1, 0);
    o.cache.path = kept;
    saved = test_stdin_replace(open(path, O_RDONLY));
    const struct cached_options text = options_make(path, 0, 0);
    assert_ok(open_reader(&plain, &text));
    assert_ok(open_reader(&cached, &o));
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        struct digest expected = pass_digest(plain, epoch, 0), found = pass_digest(cached, epoch, 0);
        assert_memory_equal(&found, &expected, sizeof found);
    }
    reader_close(cached);
    reader_close(plain);
    test_stdin_restore(saved);
    free(kept);
}

/* What is no data cache stays, in the file's place and beside it. */
static void data_cache__other_file__is_refused_and_stays(void **state)
{
    (void)state;
    const char *path = data_make(100), *const names[] = {"data.cache", "data.cache.new"};
    struct cached_options o = options_make(path, 0, BUDGET);
    for (size_t i = 0; i < 2; i++) {
        struct reader *reader;
        char found[32] = "";
        test_text(names[i], "something else");
        const size_t planned_bytes = memory_planned_bytes();
        assert_fails(INVALID, "found another file, which the cache would replace", open_reader(&reader, &o));
        assert_int_equal(memory_planned_bytes(), planned_bytes);
        FILE *file = fopen(test_path(names[i]), "rb");
        assert_non_null(file);
        assert_non_null(fgets(found, sizeof found, file));
        fclose(file);
        assert_string_equal(found, "something else");
        assert_int_equal(unlink(test_path(names[i])), 0);
    }
}

/* --- the order of blocks ------------------------------------------------------------------------- */

#define EXAMPLES_MAX (ROWS + 100)
#define SEED         11u

/* The examples of the pass `epoch` behind its first `skip`, each as a hash. */
static uint32_t examples_of(struct reader *reader, uint64_t epoch, uint64_t skip, uint64_t *hash)
{
    static struct arena arena;
    static struct micro_batch m;
    struct batch_shape batch = {.batch = 300, .micro = 300, .lanes = 1};
    uint32_t count = 0;
    bool is_end = false;
    if (!arena.base) {
        assert_ok(arena_open(&arena, "test", micro_batch_bytes(batch, criteo_shape)));
        micro_batch_place(&m, &arena, batch, criteo_shape);
    }
    assert_ok(reader_start(reader, epoch));
    if (skip) assert_ok(reader_skip(reader, skip, NULL, &is_end));
    while (!is_end) {
        micro_batch_clear(&m);
        assert_ok(reader_fill(reader, &m, 300, &is_end));
        for (uint32_t i = 0; i < m.example_count; i++) {
            struct digest d = {0};
            const uint32_t *begin = m.key_begin + i * criteo_shape.field_count;
            uint32_t fields = criteo_shape.field_count, homes[64];
            for (uint32_t k = begin[0]; k < begin[fields]; k++) homes[k - begin[0]] = m.key_home[k] - i * fields;
            fold(&d, &m.label[i], sizeof m.label[i]);
            fold(&d, &m.is_bad[i], sizeof m.is_bad[i]);
            fold(&d, m.dense + i * 16, 13 * sizeof *m.dense);
            fold(&d, m.key + begin[0], (begin[fields] - begin[0]) * sizeof *m.key);
            fold(&d, homes, (begin[fields] - begin[0]) * sizeof *homes);
            assert_true(count < EXAMPLES_MAX);
            hash[count++] = d.hash;
        }
    }
    return count;
}

/* A permutation as io/cache/block_order.h says, word by word. */
static void permute(uint32_t *number, uint32_t count, uint64_t epoch, uint32_t level, uint64_t item)
{
    struct random_stream stream = random_stream(SEED, RANDOM_BLOCKS, epoch);
    for (uint32_t i = 0; i < count; i++) number[i] = i;
    for (uint32_t i = count - 1; i != 0 && count; i--) {
        uint32_t word[4];
        random_block(stream, item << 32 | i / 4, level, word);
        uint32_t j = (uint32_t)((double)word[i % 4] * 0x1p-32 * (i + 1)), kept = number[i];
        number[i] = number[j];
        number[j] = kept;
    }
}

/* The order of blocks for examples that lie in `in` as in the files. */
static void reorder(const uint64_t *in, uint32_t count, uint64_t epoch, uint64_t *out)
{
    static uint32_t blocks[64], pieces[64 * WINDOW], rows[16384], begin[64 * WINDOW], length[64 * WINDOW], from[16384];
    const uint32_t block_rows = 16384, piece_rows = 256;
    uint32_t block_count = (count + block_rows - 1) / block_rows, at = 0;
    permute(blocks, block_count, epoch, 0, 0);
    for (uint32_t window = 0; window * WINDOW < block_count; window++) {
        uint32_t piece_count = 0;
        for (uint32_t b = window * WINDOW; b < (window + 1) * WINDOW && b < block_count; b++) {
            uint32_t row = blocks[b] * block_rows, end = row + block_rows < count ? row + block_rows : count;
            for (; row < end; row += piece_rows, piece_count++) {
                begin[piece_count] = row;
                length[piece_count] = end - row < piece_rows ? end - row : piece_rows;
            }
        }
        permute(pieces, piece_count, epoch, 1, window);
        for (uint32_t group = 0; group * 8 < piece_count; group++) {
            uint32_t n = 0;
            for (uint32_t p = group * 8; p < group * 8 + 8 && p < piece_count; p++)
                for (uint32_t i = 0; i < length[pieces[p]]; i++) from[n++] = begin[pieces[p]] + i;
            permute(rows, n, epoch, 2, window * WINDOW * 8 + group);
            for (uint32_t i = 0; i < n; i++) out[at++] = in[from[rows[i]]];
        }
    }
    assert_int_equal(at, count);
}

static uint64_t file_order[EXAMPLES_MAX], expected[EXAMPLES_MAX], found[EXAMPLES_MAX];

static void data_cache__blocks__order_is_the_documented_one(void **state)
{
    (void)state;
    const char *path = data_make(ROWS);
    struct reader *reader;
    struct cached_options plain = options_make(path, 0, 0);
    assert_ok(open_reader(&reader, &plain));
    uint32_t count = examples_of(reader, 0, 0, file_order);
    uint64_t bad_count = reader_counts(reader).bad_count;
    reader_close(reader);
    for (uint32_t way = 0; way < 8; way++) {
        static const char *const isas[] = {NULL, "base", "avx2"};
        struct cached_options o = options_make(path, way % 2 ? 0 : way % 4 ? BUDGET : 2500000, way % 4 ? BUDGET : 0);
        if (way % 4 == 0) o.cache.ram_bytes = BUDGET;
        o.cache.window = WINDOW;
        o.reader.seed = SEED;
        o.reader.readers = way % 3 ? 1 : 3;
        o.reader.io_threads = way % 2;
        if (text_kernels_of(isas[way % 3])) o.reader.isa = isas[way % 3];
        if (way & 1) o.reader.shuffle = 777;
        if (way & 4) cache_remove(NULL); /* a resumed run may have to make the cache first */
        assert_ok(open_reader(&reader, &o));
        if (!(way & 4)) assert_int_equal(examples_of(reader, 0, 0, found), count);
        for (uint64_t epoch = 1; epoch < 3; epoch++) {
            uint32_t skip = epoch == 1 ? (way * 5003) % count : 0;
            uint64_t bad_before = reader_counts(reader).bad_count;
            reorder(file_order, count, epoch, expected);
            assert_int_equal(examples_of(reader, epoch, skip, found), count - skip);
            assert_memory_equal(found, expected + skip, (count - skip) * sizeof *found);
            assert_int_equal(reader_counts(reader).bad_count - bad_before, bad_count);
        }
        reader_close(reader);
    }
}

/* As nodes skip what others compute: lines behind the last example count once in a pass. */
static void data_cache__skipped_to_its_end__counts_each_bad_line_once(void **state)
{
    (void)state;
    const char *path = data_make(3000);
    struct reader *reader;
    struct cached_options o = options_make(path, BUDGET, 0);
    assert_ok(open_reader(&reader, &o));
    const uint32_t count = examples_of(reader, 0, 0, found);
    const uint64_t bad_count = reader_counts(reader).bad_count;
    assert_true(bad_count > 1);
    for (uint64_t epoch = 1; epoch < 3; epoch++) {
        bool is_end = false;
        assert_ok(reader_start(reader, epoch));
        assert_ok(reader_skip(reader, count + 100, NULL, &is_end));
        assert_true(is_end);
        assert_int_equal(reader_counts(reader).bad_count, (epoch + 1) * bad_count);
    }
    reader_close(reader);
}

static void data_cache__blocks__garbled_is_made_anew(void **state)
{
    (void)state;
    const char *path = data_make(ROWS);
    struct reader *reader;
    struct cached_options o = options_make(path, 0, BUDGET);
    o.cache.window = WINDOW;
    o.reader.seed = SEED;
    assert_ok(open_reader(&reader, &o));
    uint32_t count = examples_of(reader, 0, 0, file_order);
    reader_close(reader);
    FILE *file = fopen(test_path("data.cache"), "r+b");
    assert_non_null(file);
    fseek(file, 5000, SEEK_SET);
    int byte = fgetc(file);
    fseek(file, -1, SEEK_CUR);
    fputc(byte ^ 1, file);
    fclose(file);
    assert_ok(open_reader(&reader, &o));
    for (uint64_t epoch = 1; epoch < 3; epoch++) {
        reorder(file_order, count, epoch, expected);
        assert_int_equal(examples_of(reader, epoch, 0, found), count);
        assert_memory_equal(found, expected, count * sizeof *found);
    }
    reader_close(reader);
}

static void data_cache__blocks__too_small_is_an_error(void **state)
{
    (void)state;
    const char *path = data_make(ROWS);
    for (uint32_t way = 0; way < 2; way++) {
        struct reader *reader;
        struct cached_options o = options_make(path, 2500000, 0);
        o.cache.window = WINDOW;
        assert_ok(open_reader(&reader, &o));
        if (way == 0) {
            static struct arena arena;
            struct micro_batch m;
            struct batch_shape batch = {.batch = ROWS, .micro = ROWS, .lanes = 1};
            bool is_end;
            assert_ok(arena_open(&arena, "test", micro_batch_bytes(batch, criteo_shape)));
            micro_batch_place(&m, &arena, batch, criteo_shape);
            assert_ok(reader_start(reader, 0));
            assert_fails(INVALID, "cache.shuffle = blocks needs all", reader_fill(reader, &m, ROWS, &is_end));
            arena_close(&arena);
        } else {
            assert_fails(INVALID, "cache.shuffle = blocks needs all", reader_start(reader, 1));
        }
        reader_close(reader);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(data_cache__ram_or_file__passes_are_the_texts, cache_remove),
        cmocka_unit_test_teardown(data_cache__flipped_bit__goes_on_from_the_text, cache_remove),
        cmocka_unit_test_teardown(data_cache__changed_source__is_read_anew, cache_remove),
        cmocka_unit_test(data_cache__other_file__is_refused_and_stays),
        cmocka_unit_test_teardown(data_cache__too_small__passes_are_the_texts, cache_remove),
        cmocka_unit_test(data_cache__csv__keeps_weights_groups_and_labels),
        cmocka_unit_test_teardown(data_cache__csv__each_pass_counts_what_the_text_has, cache_remove),
        cmocka_unit_test_teardown(data_cache__notices__are_told_when_it_happens, cache_remove),
        cmocka_unit_test_teardown(data_cache__stream__can_be_read_again, cache_remove),
        cmocka_unit_test_teardown(data_cache__blocks__order_is_the_documented_one, cache_remove),
        cmocka_unit_test_teardown(data_cache__skipped_to_its_end__counts_each_bad_line_once, cache_remove),
        cmocka_unit_test_teardown(data_cache__blocks__garbled_is_made_anew, cache_remove),
        cmocka_unit_test_teardown(data_cache__blocks__too_small_is_an_error, cache_remove),
    };
    return cmocka_run_group_tests_name("data_cache", tests, test_directory_make, test_directory_remove);
}

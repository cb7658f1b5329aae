/* Files read by several threads against the same files read by one: the same examples, messages, counts. */
#include "tests/io/read/criteo_test.h"

/* A function of all that passes give: examples, and the messages of what is wrong. */
static uint64_t files_hash(struct reader_options options, uint32_t readers, uint64_t skip, struct reader_counts *counts)
{
    struct test_batch b;
    struct reader *reader;
    uint64_t hash = 0;
    options.readers = readers;
    test_batch_open(&b, options.schema.example, TEST_MICRO);
    assert_ok(reader_open(&reader, &options));
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        bool end = false;
        assert_ok(reader_start(reader, epoch));
        if (skip) assert_ok(reader_skip(reader, skip, NULL, &end));
        for (uint32_t n = 0; !end; n++) {
            micro_batch_clear(&b.m);
            status st = reader_fill(reader, &b.m, 1 + n % TEST_MICRO, &end);
            if (st != ST_OK) hash = reader_key(hash, status_message(), strlen(status_message()));
            hash = test_batch_hash(&b, options.schema.example, hash);
            if (st == ST_CORRUPT || st == ST_IO) break;
            if (epoch == 0 && n == 40 && options.bad_keep) break; /* a pass that is left early */
        }
    }
    *counts = reader_counts(reader);
    reader_close(reader);
    test_batch_close(&b);
    return hash;
}

static void readers_agree(struct reader_options options, uint64_t skip)
{
    static const uint32_t readers[] = {2, 5};
    struct reader_counts one, counts;
    uint64_t hash = files_hash(options, 1, skip, &one);
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
        if (files_hash(options, readers[i], skip, &counts) != hash)
            fail_msg("%u threads read another file", readers[i]);
        assert_int_equal(counts.line_count, one.line_count);
        assert_int_equal(counts.bad_count, one.bad_count);
        assert_int_equal(counts.unknown_count, one.unknown_count);
        assert_int_equal(counts.cut_count, one.cut_count);
        if (!options.bad_keep) assert_int_equal(counts.byte_count, one.byte_count);
    }
}

/* Lines of Criteo of which some are bad, in whatever way; no line end behind the last. */
static size_t lines_make(char *out, uint64_t seed, uint32_t count)
{
    char *at = out;
    uint64_t random = seed;
    for (uint32_t n = 0; n < count; n++) {
        char integer[24];
        uint64_t kind = n ? test_random(&random) % 50 : 9;
        snprintf(integer, sizeof integer, "%" PRIu64, test_random(&random) % 100000);
        at += criteo_line(at, kind == 0 ? "x" : "1", kind == 1 ? "none" : integer, test_random(&random) % 1000);
        if (kind == 2) at -= 9;
        at = stpcpy(at, kind == 3 ? "\r\n" : kind == 4 ? "\n\n" : "\n");
    }
    return (size_t)(at - out) - seed % 2;
}

static char *text;

static void readers__files_of_criteo_under_all_options__give_the_same(void **state)
{
    (void)state;
    char paths[4096];
    for (uint64_t flags = 0; flags < 32; flags += 3) {
        const char *first = test_file("first", text, lines_make(text, flags, 3000));
        const char *empty = test_text("empty", "");
        size_t bytes = lines_make(text, flags + 1, 1500), gzip_bytes;
        uint8_t *gzip = test_gzip(text, bytes, &gzip_bytes);
        snprintf(paths, sizeof paths, "%s,%s,%s,%s", first, empty, test_file("second.gz", gzip, gzip_bytes),
                 test_text("third", "\xef\xbb\xbf"
                                    "0\n"));
        free(gzip);
        struct reader_options options = criteo_options(paths);
        options.bad_skip = flags & 1;
        options.bad_keep = (flags & 1) && (flags & 2);
        options.shuffle = flags & 4 ? 500 : 0;
        options.lines = flags & 8 ? READER_TRAIN : flags & 2 ? READER_HELD_OUT : READER_ALL;
        options.held_out = 0.4f;
        options.schema.log1p = true;
        readers_agree(options, (flags & 16) && (flags & 1) ? 700 : 0);
    }
}

/* Lines longer than a block, longer than a line may be, and none at all. */
static void readers__long_lines__give_the_same(void **state)
{
    (void)state;
    for (int kind = 0; kind < 8; kind++) {
        char *at = text;
        at += lines_make(at, 2, 20);
        size_t bytes = kind < 4 ? 700000 : READER_LINE_BYTES_MAX + (kind < 6 ? 100000 : 900000);
        at += criteo_line(at, "1", "5", 1);
        memset(at, 'x', bytes);
        at += bytes;
        if (kind % 2) at = stpcpy(at, "\n");
        if (kind % 2) at += lines_make(at, 3, 2000);
        struct reader_options options = criteo_options(test_file("long", text, (size_t)(at - text)));
        options.bad_skip = kind % 4 > 1;
        readers_agree(options, 0);
    }
}

/* So short that a block's text has more examples than there is room for. */
static void readers__short_lines_of_libsvm__give_the_same(void **state)
{
    (void)state;
    static const struct reader_column field = {.name = "features", .seed = 1, .ids_max = 3, .vocabulary = READER_NONE};
    char *at = text;
    for (uint32_t n = 0; n < 100000; n++)
        at += sprintf(at,
                      n % 1000 == 999 ? "1 x\n"
                      : n % 77 == 5   ? "\n"
                      : n % 50 == 6   ? "# none\n"
                                      : "%u %u:1 2:2\n",
                      n % 2, n % 7);
    struct reader_options options = {.format = READER_LIBSVM, .part = "test"};
    options.schema.example = (struct example_shape){
        .field_count = 1, .key_count_max = 3, .label_count = 1, .has_value = true, .dense_stride = 1};
    options.schema.field = &field;
    for (int i = 0; i < 4; i++) {
        options.paths = test_file("short", text, (size_t)(at - text));
        options.bad_skip = i % 2;
        options.shuffle = i / 2 ? 1000 : 0;
        readers_agree(options, 0);
    }
}

static void readers__csv_without_header__gives_the_same(void **state)
{
    (void)state;
    static const struct reader_column field[] = {{.name = "f", .seed = 1, .ids_max = 1, .vocabulary = READER_NONE},
                                                 {.name = "g", .seed = 2, .ids_max = 3, .vocabulary = READER_NONE}},
                                      dense = {.name = "x", .scale = 1},
                                      label = {.name = "l", .vocabulary = READER_NONE};
    char *at = text;
    for (uint32_t n = 0; n < 30000; n++)
        at += sprintf(at,
                      n % 999 == 998 ? "1,2\n"
                      : n % 5        ? "%u,word%u,a|b%u|c,%u.5\n"
                                     : "%u,\"quoted, %u\", x | %u |a|b,%u\n",
                      n % 2, n % 100, n % 10, n);
    struct reader_options options = {.format = READER_CSV, .part = "test"};
    struct reader_schema *s = &options.schema;
    s->example = (struct example_shape){
        .dense_count = 1, .dense_stride = 1, .field_count = 2, .key_count_max = 4, .label_count = 1};
    s->field = field;
    s->dense = &dense;
    s->label = &label;
    s->columns = "l,f,g,x";
    s->has_quotes = true;
    s->separator = ',';
    s->list_separator = '|';
    options.paths = test_file("csv", text, (size_t)(at - text));
    for (int i = 0; i < 2; i++) {
        options.bad_skip = i;
        readers_agree(options, 0);
    }
}

/* What has been cut before a garbled place comes before its message. */
static void readers__gzip_cut_off__fails_at_the_same_example(void **state)
{
    (void)state;
    size_t gzip_bytes, bytes = lines_make(text, 4, 3000);
    uint8_t *gzip = test_gzip(text, bytes, &gzip_bytes);
    struct reader_options options = criteo_options(test_file("cut.gz", gzip, gzip_bytes * 2 / 3));
    options.bad_skip = true;
    uint64_t count[2] = {0};
    for (uint32_t i = 0; i < 2; i++) {
        struct test_batch b;
        struct reader *reader;
        status st = ST_OK;
        options.readers = 1 + 2 * i;
        test_batch_open(&b, criteo_shape, TEST_MICRO);
        assert_ok(reader_open(&reader, &options));
        assert_ok(reader_start(reader, 0));
        for (bool end = false; !end && st == ST_OK; count[i] += b.m.example_count) {
            micro_batch_clear(&b.m);
            st = reader_fill(reader, &b.m, TEST_MICRO, &end);
        }
        assert_int_equal(st, ST_CORRUPT);
        assert_non_null(strstr(status_message(), "the gzip data ends early"));
        reader_close(reader);
        test_batch_close(&b);
    }
    assert_true(count[0] > 0);
    assert_int_equal(count[0], count[1]);
    free(gzip);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers__files_of_criteo_under_all_options__give_the_same),
        cmocka_unit_test(readers__long_lines__give_the_same),
        cmocka_unit_test(readers__short_lines_of_libsvm__give_the_same),
        cmocka_unit_test(readers__csv_without_header__gives_the_same),
        cmocka_unit_test(readers__gzip_cut_off__fails_at_the_same_example),
    };
    text = malloc(8000000);
    int failed = cmocka_run_group_tests(tests, test_directory_make, test_directory_remove);
    free(text);
    return failed ? 1 : 0;
}

/* Marks: a pass that goes on from one gives what a pass gives that was read to there, and has read little. */
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>

#include "tests/io/read/criteo_test.h"

#define LINES 12000u

/* Lines of Criteo, one in fifty bad, one in a thousand far longer than most. */
static char *lines_make(uint64_t seed, uint32_t count, size_t *bytes)
{
    char *out = malloc((size_t)count * 1200), *at = out;
    uint64_t random = seed;
    assert_non_null(out);
    for (uint32_t n = 0; n < count; n++) {
        uint64_t kind = test_random(&random) % 50;
        char integer[24];
        snprintf(integer, sizeof integer, "%u", n % 1000);
        at += criteo_line(at, kind == 0 ? "x" : "1", integer, test_random(&random) % 100000);
        at = stpcpy(at, kind == 1 ? "\r\n" : "\n");
    }
    *bytes = (size_t)(at - out);
    return out;
}

/* What is left of a pass behind its first `count` examples: a function of the examples, how many they
 * are, and the counts at the end. */
struct rest {
    uint64_t hash, examples, passed;
    struct reader_counts before, counts;
};

static struct rest rest_read(const struct reader_options *options, struct reader *reader, uint64_t count,
                             const struct reader_mark *mark, uint32_t mark_count)
{
    struct rest rest = {0};
    struct test_batch b;
    bool end = false;
    test_batch_open(&b, options->schema.example, TEST_MICRO);
    rest.before = reader_counts(reader);
    assert_ok(reader_pass_start(reader, (struct reader_pass){.number = 0, .epoch = 3}));
    assert_ok(reader_seek(reader, count, mark, mark_count, &rest.passed));
    assert_true(rest.passed <= count);
    if (count > rest.passed) assert_ok(reader_skip(reader, count - rest.passed, NULL, &end));
    while (!end) {
        micro_batch_clear(&b.m);
        assert_ok(reader_fill(reader, &b.m, TEST_MICRO, &end));
        rest.hash = test_batch_hash(&b, options->schema.example, rest.hash);
        rest.examples += b.m.example_count;
    }
    rest.counts = reader_counts(reader);
    test_batch_close(&b);
    return rest;
}

/* Reads all once, and then goes on at `counts` in readers that have seen nothing, with the marks that this
 * has kept. Returns how many marks there are. */
static uint32_t seek_check(struct reader_options options, const uint64_t *counts, size_t count)
{
    struct reader *first, *reader;
    uint32_t mark_count;
    options.marks = true;
    assert_ok(reader_open(&first, &options));
    uint64_t examples = rest_read(&options, first, 0, NULL, 0).examples;
    const struct reader_mark *mark = reader_marks(first, &mark_count);
    for (uint32_t i = 1; i < mark_count; i++) assert_true(mark[i].example > mark[i - 1].example);
    for (size_t i = 0; i < count; i++) {
        if (counts[i] > examples) continue;
        assert_ok(reader_open(&reader, &options));
        struct rest skipped = rest_read(&options, reader, counts[i], NULL, 0);
        reader_close(reader);
        assert_ok(reader_open(&reader, &options));
        struct rest sought = rest_read(&options, reader, counts[i], mark, mark_count);
        assert_int_equal(sought.examples, examples - counts[i]);
        assert_int_equal(sought.hash, skipped.hash);
        assert_int_equal(sought.counts.bad_count, skipped.counts.bad_count);
        assert_int_equal(sought.counts.cut_count, skipped.counts.cut_count);
        assert_int_equal(sought.counts.byte_count, skipped.counts.byte_count);
        if (sought.passed) assert_true(sought.counts.line_count < skipped.counts.line_count);
        /* A reader has the marks that it was given, and keeps on making others: a run that is stopped
         * again can be gone on with again. */
        uint32_t own_count;
        const struct reader_mark *own = reader_marks(reader, &own_count);
        if (sought.passed) assert_memory_equal(&own[own_count - 1], &mark[mark_count - 1], sizeof *mark);
        reader_close(reader);
    }
    reader_close(first);
    return mark_count;
}

static const uint64_t counts[] = {0, 1, 100, 5000, 11000, 11760, 12000, 20000, 23456, 30000, 34000, 35200};
#define COUNTS (sizeof counts / sizeof *counts)

static const char *three_files(bool with_gzip)
{
    static char paths[4096];
    size_t bytes[3], gzip_bytes;
    char *lines[3];
    for (uint32_t i = 0; i < 3; i++) lines[i] = lines_make(i + 1, LINES, &bytes[i]);
    uint8_t *gzip = test_gzip(lines[1], bytes[1], &gzip_bytes);
    /* The first one lacks its last line end. */
    snprintf(paths, sizeof paths, "%s,%s,%s", test_file("a.tsv", lines[0], bytes[0] - 1),
             with_gzip ? test_file("b.gz", gzip, gzip_bytes) : test_file("b.tsv", lines[1], bytes[1]),
             test_file("c.tsv", lines[2], bytes[2]));
    for (uint32_t i = 0; i < 3; i++) free(lines[i]);
    free(gzip);
    return paths;
}

static void reader_seek__any_count__continues_as_without(void **state)
{
    (void)state;
    struct reader_options options = criteo_options(three_files(false));
    options.bad_skip = true;
    const uint32_t windows[] = {0, 50, 2000};
    for (size_t w = 0; w < sizeof windows / sizeof *windows; w++)
        for (uint32_t readers = 1; readers <= 3; readers++) {
            options.shuffle = windows[w];
            options.readers = readers;
            assert_true(seek_check(options, counts, COUNTS) >= 8);
        }
    options.lines = READER_TRAIN;
    options.held_out = 0.25f;
    assert_true(seek_check(options, counts, COUNTS) >= 8);
    options.bad_keep = true;
    options.readers = 1;
    assert_true(seek_check(options, counts, COUNTS) >= 8);
}

static void reader_seek__packed_file__is_read_from_its_beginning(void **state)
{
    (void)state;
    struct reader_options options = criteo_options(three_files(true));
    options.bad_skip = true;
    for (options.readers = 1; options.readers <= 2; options.readers++) {
        seek_check(options, counts, COUNTS);
        struct reader *reader;
        uint32_t mark_count, packed = 0;
        options.marks = true;
        assert_ok(reader_open(&reader, &options));
        rest_read(&options, reader, 0, NULL, 0);
        const struct reader_mark *mark = reader_marks(reader, &mark_count);
        for (uint32_t i = 0; i < mark_count; i++) {
            if (mark[i].path != 1) continue;
            packed++;
            assert_int_equal(mark[i].byte, 0);
        }
        assert_int_equal(packed, 1);
        reader_close(reader);
    }
}

static void reader_seek__after_a_seek__reads_only_what_follows(void **state)
{
    (void)state;
    struct reader_options options = criteo_options(three_files(false));
    options.bad_skip = options.marks = true;
    struct reader *reader;
    uint32_t mark_count;
    assert_ok(reader_open(&reader, &options));
    rest_read(&options, reader, 0, NULL, 0);
    const struct reader_mark *mark = reader_marks(reader, &mark_count);
    struct rest rest = rest_read(&options, reader, 34000, mark, mark_count);
    assert_true(rest.passed > 30000);
    /* The distance of two marks, and the block that was read ahead. */
    assert_true(rest.counts.line_count - rest.before.line_count < 35280 - 34000 + 5000);
    reader_close(reader);
}

static void reader_seek__csv__has_the_header_of_its_file(void **state)
{
    (void)state;
    static const struct reader_column denses[] = {{.name = "n", .scale = 1}};
    static const struct reader_column fields[] = {{.name = "c", .seed = 7, .ids_max = 1, .vocabulary = READER_NONE}};
    static const struct reader_column labels[] = {{.name = "label", .vocabulary = READER_NONE}};
    struct reader_options options = {
        .format = READER_CSV,
        .part = "test",
        .schema = {
            .example = {.dense_count = 1, .dense_stride = 1, .field_count = 1, .key_count_max = 1, .label_count = 1},
            .dense = denses,
            .field = fields,
            .label = labels,
            .has_header = true,
            .separator = ','}};
    char *first = malloc(100 * LINES), *second = malloc(100 * LINES), *a = first, *b = second, paths[4096];
    assert_non_null(first);
    assert_non_null(second);
    a = stpcpy(a, "label,n,c,x\n");
    b = stpcpy(b, "x,c,n,label\n");
    for (uint32_t i = 0; i < LINES; i++) {
        a += sprintf(a, "1,%u,key%u,what else there is, and is not read in any example of it\n", i, i % 77);
        b += sprintf(b, "what else there is and is not read in any example of it,key%u,%u,0\n", i % 77, i);
    }
    snprintf(paths, sizeof paths, "%s,%s", test_file("a.csv", first, (size_t)(a - first)),
             test_file("b.csv", second, (size_t)(b - second)));
    options.paths = paths;
    options.bad_skip = true; /* a line behind a comma too many */
    assert_true(seek_check(options, counts, COUNTS) >= 2);
    free(first);
    free(second);
}

static void reader_seek__tokens__goes_to_the_beginning_of_a_file(void **state)
{
    (void)state;
    static const struct reader_column fields[] = {
        {.name = "context", .seed = 7, .ids_max = 3, .vocabulary = READER_NONE},
        {.name = "next", .seed = 7, .ids_max = 1, .vocabulary = READER_NONE}};
    struct reader_options options = {
        .format = READER_TOKENS,
        .part = "test",
        .schema = {.example = {.field_count = 2, .key_count_max = 4}, .field = fields, .window = 3}};
    char *text = malloc(2 << 20), *at = text, paths[4096];
    assert_non_null(text);
    for (uint32_t i = 0; i < 200000; i++) at += sprintf(at, "w%u%c", i % 300, i % 10 ? ' ' : '\n');
    size_t bytes = (size_t)(at - text);
    const char *path = test_file("a.txt", text, bytes);
    snprintf(paths, sizeof paths, "%s,%s,%s", path, path, path);
    options.paths = paths;
    const uint64_t places[] = {1000, 219996, 219997, 250000, 450000};
    assert_int_equal(seek_check(options, places, 5), 2); /* one a file that follows another */
    free(text);
}

static void reader_seek__other_text__is_refused(void **state)
{
    (void)state;
    struct reader_options options = criteo_options(criteo_file("short", 100));
    struct reader_mark mark[] = {{.example = 10, .byte = 1 << 20}, {.example = 20, .path = 7}};
    struct reader *reader;
    uint64_t passed;
    assert_ok(reader_open(&reader, &options));
    assert_ok(reader_start(reader, 0));
    assert_fails(INVALID, "has no byte 1048576 of file 1", reader_seek(reader, 15, mark, 2, &passed));
    assert_ok(reader_start(reader, 0));
    assert_fails(INVALID, "has no byte 0 of file 8", reader_seek(reader, 25, mark, 2, &passed));
    assert_ok(reader_start(reader, 0));
    assert_ok(reader_seek(reader, 9, mark, 2, &passed));
    assert_int_equal(passed, 0);
    reader_close(reader);
}

/* --- streams ------------------------------------------------------------------------------------ */

/* Writes a text into a pipe, from a thread, as fast as it is read. */
struct pouring {
    const char *path, *text;
    size_t bytes;
};
static void *pouring_main(void *context)
{
    const struct pouring *p = context;
    FILE *file = fopen(p->path, "w");
    CHECK(file != NULL);
    (void)!fwrite(p->text, 1, p->bytes, file); /* it may be closed before the end */
    (void)fclose(file);
    return NULL;
}

/* The text as a stream from `count` examples on. What reading comes to; *examples: of all
 * that is read, and their marks. */
static status stream_read(const char *text, size_t bytes, uint64_t count, uint32_t shuffle, struct reader_mark *mark,
                          uint32_t *mark_count, uint64_t *examples)
{
    const struct pouring p = {test_path("stream.fifo"), text, bytes};
    struct reader_options options = criteo_options(p.path);
    struct reader *reader;
    const struct reader_example *found;
    pthread_t thread;
    bool end = false;
    uint64_t passed = 0;
    options.marks = options.bad_skip = true;
    options.shuffle = shuffle;
    unlink(p.path);
    assert_int_equal(mkfifo(p.path, 0600), 0);
    assert_int_equal(pthread_create(&thread, NULL, pouring_main, (void *)(uintptr_t)&p), 0);
    assert_ok(reader_open(&reader, &options));
    assert_ok(reader_pass_start(reader, (struct reader_pass){0}));
    status st = reader_seek(reader, count, mark, *mark_count, &passed);
    assert_int_equal(passed, 0);
    if (st == ST_OK) st = reader_skip(reader, count, NULL, &end);
    for (*examples = count; st == ST_OK && !end; *examples += !end) st = reader_next(reader, NULL, &found, &end);
    if (*mark_count == 0) {
        const struct reader_mark *kept = reader_marks(reader, mark_count);
        memcpy(mark, kept, *mark_count * sizeof *mark);
    }
    reader_close(reader);
    assert_int_equal(pthread_join(thread, NULL), 0);
    return st;
}

/* Whatever byte before the last mark is another one, or is missing, and wherever the marks and the buffer's
 * ends lie; behind the mark nobody knows. */
static void reader_seek__another_stream__is_refused(void **state)
{
    (void)state;
    static struct reader_mark mark[READER_MARKS_MAX];
    size_t bytes, longest = READER_LINE_BYTES_MAX + (300 << 10);
    char *lines = lines_make(3, 1000, &bytes), *text = malloc(bytes + longest + 1), *other;
    uint64_t examples, again;
    assert_non_null(text);
    signal(SIGPIPE, SIG_IGN);
    for (uint32_t shuffle = 0; shuffle <= 500; shuffle += 500) {
        for (int has_long = 0; has_long < 2; has_long++) { /* a line that fits into no buffer, in front */
            uint32_t count = 0;
            const size_t front = has_long ? longest + 1 : 0;
            memset(text, 'y', front);
            if (has_long) text[front - 1] = '\n';
            memcpy(text + front, lines, bytes);
            assert_ok(stream_read(text, front + bytes, 0, shuffle, mark, &count, &examples));
            assert_in_range(examples, 900, 1000);
            assert_in_range(count, has_long ? 20 : 60, 300);
            for (uint32_t i = 0; i < count; i++)
                assert_true(mark[i].is_hashed && (i == 0 || mark[i].byte > mark[i - 1].byte));
            assert_ok(stream_read(text, front + bytes, examples / 2, shuffle, mark, &count, &again));
            assert_int_equal(again, examples);
            uint32_t last = 0;
            while (last + 1 < count && mark[last + 1].example <= examples / 2) last++;
            const uint64_t places[] = {0, front + 5, mark[last].byte / 2, mark[last].byte - 3};
            for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
                text[places[i]] ^= 2;
                const status st = stream_read(text, front + bytes, examples / 2, shuffle, mark, &count, &again);
                if (st == ST_OK) fail_msg("byte %u is not missed", (unsigned)places[i]);
                assert_int_equal(st, ST_INVALID);
                text[places[i]] ^= 2;
            }
            assert_non_null(
                strstr(status_message(), "it is not the stream in which the save's training has stopped: the first "));
            text[mark[last].byte + 5] ^= 2;
            assert_ok(stream_read(text, front + bytes, examples / 2, shuffle, mark, &count, &again));
            other = text + 200; /* a part is missing */
            assert_int_equal(stream_read(other, front + bytes - 200, examples / 2, shuffle, mark, &count, &again),
                             ST_INVALID);
        }
    }
    free(text);
    free(lines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reader_seek__any_count__continues_as_without),
        cmocka_unit_test(reader_seek__packed_file__is_read_from_its_beginning),
        cmocka_unit_test(reader_seek__after_a_seek__reads_only_what_follows),
        cmocka_unit_test(reader_seek__csv__has_the_header_of_its_file),
        cmocka_unit_test(reader_seek__tokens__goes_to_the_beginning_of_a_file),
        cmocka_unit_test(reader_seek__other_text__is_refused),
        cmocka_unit_test(reader_seek__another_stream__is_refused),
    };
    return cmocka_run_group_tests(tests, test_directory_make, test_directory_remove) ? 1 : 0;
}

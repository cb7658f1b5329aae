/* What all formats share: lines, bad lines, passes, skipping. Criteo is the format here. */
#include "tests/io/read/criteo_test.h"

#include "io/read/reader_internal.h"
#include "io/read/shuffle.h"
#include "io/read/text_isa.h"

static uint64_t number[100000];

static void reader_fill__several_files__gives_every_line_once(void **state)
{
    (void)state;
    char paths[4096];
    size_t bytes, gzip_bytes;
    char *lines = criteo_lines(3000, "\n", &bytes);
    uint8_t *gzip = test_gzip(lines, bytes, &gzip_bytes);
    /* The second file lacks its last line end, which must not join it with the third. */
    snprintf(paths, sizeof paths, "%s,%s,%s", test_file("a.gz", gzip, gzip_bytes), test_file("b.tsv", lines, bytes - 1),
             test_file("c.tsv", lines, bytes));
    struct reader_options options = criteo_options(paths);
    struct reader *reader;
    assert_ok(reader_open(&reader, &options));
    assert_false(reader->is_stream);
    assert_int_equal(reader->size_bytes, gzip_bytes + 2 * bytes - 1);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        assert_ok(reader_start(reader, epoch));
        assert_int_equal(pass_numbers(reader, number, 100000), 9000);
        for (size_t i = 0; i < 9000; i++) assert_int_equal(number[i], i % 3000);
    }
    struct reader_counts counts = reader_counts(reader);
    assert_int_equal(counts.line_count, 27000);
    assert_int_equal(counts.bad_count, 0);
    assert_int_equal(counts.byte_count, 3 * (gzip_bytes + 2 * bytes - 1));
    reader_close(reader);
    free(gzip);
    free(lines);
}

static void reader_fill__bad_line_in_a_later_file__is_counted_in_that_file(void **state)
{
    (void)state;
    char paths[4096];
    snprintf(paths, sizeof paths, "%s,%s", criteo_file("first.tsv", 40), test_text("second.tsv", "x\n"));
    struct reader_options options = criteo_options(paths);
    struct reader *reader;
    struct test_batch b;
    bool end;
    test_batch_open(&b, criteo_shape, TEST_MICRO);
    assert_ok(reader_open(&reader, &options));
    assert_ok(reader_start(reader, 0));
    assert_fails(INVALID, "second.tsv:1: ", reader_fill(reader, &b.m, TEST_MICRO, &end));
    assert_int_equal(b.m.example_count, 40);
    /* Starting over in the middle of a file forgets where the reader was. */
    assert_ok(reader_start(reader, 0));
    micro_batch_clear(&b.m);
    assert_ok(reader_fill(reader, &b.m, 5, &end));
    assert_ok(reader_start(reader, 1));
    micro_batch_clear(&b.m);
    assert_fails(INVALID, "second.tsv:1: ", reader_fill(reader, &b.m, TEST_MICRO, &end));
    for (uint32_t i = 0; i < 40; i++) assert_int_equal(example_check(&b.m, i), i);
    reader_close(reader);
    test_batch_close(&b);
}

static void reader_fill__end_of_pass__stays_the_end(void **state)
{
    (void)state;
    struct reader_options options = criteo_options(criteo_file("three", 3));
    struct reader *reader;
    struct test_batch b;
    bool end;
    test_batch_open(&b, criteo_shape, TEST_MICRO);
    assert_ok(reader_open(&reader, &options));
    assert_ok(reader_start(reader, 0));
    assert_ok(reader_fill(reader, &b.m, 2, &end));
    assert_false(end);
    assert_ok(reader_fill(reader, &b.m, 3, &end));
    assert_false(end);
    for (int i = 0; i < 3; i++) {
        assert_ok(reader_fill(reader, &b.m, 4 + (uint32_t)i, &end));
        assert_true(end);
        assert_int_equal(b.m.example_count, 3);
    }
    for (uint32_t i = 0; i < 3; i++) assert_int_equal(example_check(&b.m, i), i);
    reader_close(reader);
    test_batch_close(&b);
}

static void reader_fill__empty_file__is_the_end(void **state)
{
    (void)state;
    struct reader_options options = criteo_options(test_text("empty", ""));
    struct reader *reader;
    assert_ok(reader_open(&reader, &options));
    assert_ok(reader_start(reader, 0));
    assert_int_equal(pass_numbers(reader, number, 10), 0);
    assert_int_equal(reader_counts(reader).line_count, 0);
    reader_close(reader);
}

static void reader_fill__empty_lines_that_end_a_file__are_no_examples(void **state)
{
    (void)state;
    static const char *const ends[] = {"\n", "\r\n", "\r"};
    size_t bytes;
    char paths[4096], *lines = criteo_lines(5000, "\n", &bytes);
    for (uint32_t i = 0; i < 6; i++) {
        char first[512];
        strcpy(lines + bytes, ends[i / 2]);
        snprintf(first, sizeof first, "%s", test_text("first", lines));
        snprintf(paths, sizeof paths, "%s,%s,%s", first, test_text("empty", ends[i / 2]), first);
        struct reader_options options = criteo_options(paths);
        struct reader *reader;
        options.readers = i % 2 ? 3 : 1;
        assert_ok(reader_open(&reader, &options));
        assert_ok(reader_start(reader, 0));
        assert_int_equal(pass_numbers(reader, number, 20000), 10000);
        assert_int_equal(reader_counts(reader).line_count, 10000);
        reader_close(reader);
    }
    /* Several, but not without end; and before a line they are lines. */
    static char many[5001];
    memset(many, '\n', sizeof many - 1);
    const struct {
        const char *end;
        uint64_t bad_count;
    } cases[] = {{"\n\n", 0}, {"\n\r\n\n\r\n", 0}, {"\n\n\r", 0}, {"\n\n \n", 3}, {many, 1}};
    for (uint32_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        strcpy(lines + bytes, cases[i / 2].end);
        struct reader_options options = criteo_options(test_text("several", lines));
        struct reader *reader;
        options.readers = i % 2 ? 3 : 1;
        options.bad_skip = true;
        assert_ok(reader_open(&reader, &options));
        assert_ok(reader_start(reader, 0));
        assert_int_equal(pass_numbers(reader, number, 20000), 5000);
        if (cases[i / 2].end == many)
            assert_in_range(reader_counts(reader).bad_count, 1, sizeof many);
        else
            assert_int_equal(reader_counts(reader).bad_count, cases[i / 2].bad_count);
        reader_close(reader);
    }
    assert_true(bytes + sizeof many < 2 * bytes); /* there is room */
    free(lines);
}

static void reader_fill__crlf__is_a_line_end(void **state)
{
    (void)state;
    size_t bytes;
    char *lines = criteo_lines(50, "\r\n", &bytes);
    for (size_t cut = 0; cut <= 2; cut++) {
        struct reader_options options = criteo_options(test_file("crlf", lines, bytes - cut));
        struct reader *reader;
        assert_ok(reader_open(&reader, &options));
        assert_ok(reader_start(reader, 0));
        assert_int_equal(pass_numbers(reader, number, 100), 50);
        reader_close(reader);
    }
    free(lines);
}

/* Three good lines, of which the second is followed by `bad`, a line. */
static const char *file_with(const char *bad, size_t bad_bytes)
{
    size_t bytes, used = 0;
    char *lines = criteo_lines(3, "\n", &bytes), *all = malloc(bytes + bad_bytes + 1);
    for (int i = 0; i < 2; i++) used = (size_t)(strchr(lines + used, '\n') - lines) + 1;
    memcpy(all, lines, used);
    memcpy(all + used, bad, bad_bytes);
    all[used + bad_bytes] = '\n';
    memcpy(all + used + bad_bytes + 1, lines + used, bytes - used);
    const char *path = test_file("bad.tsv", all, bytes + bad_bytes + 1);
    free(lines);
    free(all);
    return path;
}

static void bad_line_check(const char *bad, size_t bad_bytes, const char *words)
{
    struct reader_options options = criteo_options(file_with(bad, bad_bytes));
    struct reader *reader;
    struct test_batch b;
    bool end;
    test_batch_open(&b, criteo_shape, TEST_MICRO);

    /* An error; what came before is there, and the rest can be read. */
    assert_ok(reader_open(&reader, &options));
    assert_ok(reader_start(reader, 0));
    assert_fails(INVALID, "bad.tsv:3: ", reader_fill(reader, &b.m, TEST_MICRO, &end));
    if (!strstr(status_message(), words)) fail_msg("\"%s\" lacks \"%s\"", status_message(), words);
    assert_int_equal(b.m.example_count, 2);
    assert_ok(reader_fill(reader, &b.m, TEST_MICRO, &end));
    assert_int_equal(b.m.example_count, 3);
    for (uint32_t i = 0; i < 3; i++) assert_int_equal(example_check(&b.m, i), i);
    assert_int_equal(reader_counts(reader).bad_count, 1);
    assert_int_equal(reader_counts(reader).line_count, 4);
    reader_close(reader);

    options.bad_skip = true;
    assert_ok(reader_open(&reader, &options));
    assert_ok(reader_start(reader, 0));
    assert_int_equal(pass_numbers(reader, number, 100), 3);
    for (size_t i = 0; i < 3; i++) assert_int_equal(number[i], i);
    assert_int_equal(reader_counts(reader).bad_count, 1);
    reader_close(reader);

    options.bad_keep = true;
    micro_batch_clear(&b.m);
    memset(b.m.dense, 0x7f, sizeof(float) * 16 * TEST_MICRO);
    assert_ok(reader_open(&reader, &options));
    assert_ok(reader_start(reader, 0));
    assert_ok(reader_fill(reader, &b.m, TEST_MICRO, &end));
    assert_true(end);
    assert_int_equal(b.m.example_count, 4);
    assert_int_equal(b.m.key_count, 3 * 26);
    const uint8_t is_bad[] = {0, 0, 1, 0};
    assert_memory_equal(b.m.is_bad, is_bad, 4);
    assert_int_equal(example_check(&b.m, 1), 1);
    assert_int_equal(example_check(&b.m, 3), 2);
    for (uint32_t i = 0; i < 13; i++) assert_true(b.m.dense[2 * 16 + i] == 0);
    for (uint32_t h = 2 * 26; h <= 3 * 26; h++) assert_int_equal(b.m.key_begin[h], 2 * 26);
    assert_int_equal(reader_counts(reader).bad_count, 1);
    reader_close(reader);
    test_batch_close(&b);
}

static void reader_fill__bad_line__fails_or_is_skipped_or_kept(void **state)
{
    (void)state;
    bad_line_check("", 0, "the line is empty");
    bad_line_check("\r", 1, "the line is empty");
    bad_line_check("a\tb\0c", 5, "expected 40 columns separated by tabs, found 2");
}

static void reader_fill__line_too_long__is_a_bad_line(void **state)
{
    (void)state;
    size_t bytes = READER_LINE_BYTES_MAX + 1;
    char *line = malloc(5 * READER_LINE_BYTES_MAX);
    memset(line, 'x', 5 * READER_LINE_BYTES_MAX);
    bad_line_check(line, bytes, "the line is longer than 1048576 bytes");
    bad_line_check(line, 4 * READER_LINE_BYTES_MAX + 12345, "the line is longer than 1048576 bytes");
    /* At the limit the line is only wrong. */
    bad_line_check(line, bytes - 1, "expected 40 columns separated by tabs, found 1");

    /* As the last line, without an end. */
    const size_t sizes[] = {bytes, 3 * READER_LINE_BYTES_MAX};
    for (int i = 0; i < 2; i++) {
        struct reader_options options = criteo_options(test_file("last", line, sizes[i]));
        struct reader *reader;
        struct test_batch b;
        bool end;
        test_batch_open(&b, criteo_shape, TEST_MICRO);
        assert_ok(reader_open(&reader, &options));
        assert_ok(reader_start(reader, 0));
        assert_fails(INVALID, "last:1: the line is longer", reader_fill(reader, &b.m, 1, &end));
        assert_ok(reader_fill(reader, &b.m, 1, &end));
        assert_true(end);
        assert_int_equal(reader_counts(reader).line_count, 1);
        reader_close(reader);
        test_batch_close(&b);
    }
    free(line);
}

static void reader_fill__longest_line__is_read(void **state)
{
    (void)state;
    char *line = malloc(READER_LINE_BYTES_MAX + 1), *filler = malloc(READER_LINE_BYTES_MAX);
    size_t bytes = criteo_line(line, "1", "3", 3);
    memset(filler, 'y', READER_LINE_BYTES_MAX);
    memcpy(line + bytes, filler, READER_LINE_BYTES_MAX - bytes);
    line[READER_LINE_BYTES_MAX] = '\n';
    struct reader_options options = criteo_options(test_file("longest", line, READER_LINE_BYTES_MAX + 1));
    struct reader *reader;
    struct test_batch b;
    bool end;
    test_batch_open(&b, criteo_shape, TEST_MICRO);
    assert_ok(reader_open(&reader, &options));
    assert_ok(reader_start(reader, 0));
    assert_ok(reader_fill(reader, &b.m, 1, &end));
    assert_int_equal(b.m.example_count, 1);
    char *last = memrchr(line, '\t', READER_LINE_BYTES_MAX) + 1;
    assert_int_equal(b.m.key[25], reader_key(25, last, (size_t)(line + READER_LINE_BYTES_MAX - last)));
    reader_close(reader);
    test_batch_close(&b);
    free(line);
    free(filler);
}

static void reader_open__wrong_file__fails_at_once(void **state)
{
    (void)state;
    struct reader_options options = criteo_options(test_path("nowhere.tsv"));
    struct reader *reader;
    assert_fails(IO, "nowhere.tsv", reader_open(&reader, &options));
    options.paths = test_text("prose.txt", "Once upon a time\nthere was a line.\n");
    assert_fails(INVALID, "prose.txt:1: expected 40 columns separated by tabs, found 1",
                 reader_open(&reader, &options));
    options.bad_skip = true;
    assert_ok(reader_open(&reader, &options));
    reader_close(reader);
    reader_close(NULL);
}

static void reader_start__stream__is_read_once(void **state)
{
    (void)state;
    for (int is_first = 0; is_first < 2; is_first++) {
        int saved = test_stdin_replace(open(criteo_file("in", 1000), O_RDONLY));
        struct reader_options options = criteo_options("-");
        struct reader *reader;
        assert_ok(reader_open(&reader, &options));
        assert_true(reader->is_stream);
        assert_int_equal(reader->size_bytes, 0);
        assert_fails(INVALID, "standard input can be read only once", reader_start(reader, 1));
        assert_ok(reader_start(reader, 0));
        if (is_first) assert_int_equal(pass_numbers(reader, number, 2000), 1000);
        assert_fails(INVALID, "standard input can be read only once", reader_start(reader, 0));
        assert_fails(INVALID, "standard input can be read only once", reader_start(reader, 1));
        reader_close(reader);
        test_stdin_restore(saved);
    }
}

/* Appends the lines [from, to) and a part of the next one, to a pipe. */
static void lines_send(int fd, const char *lines, uint64_t from, uint64_t to, size_t more_bytes)
{
    const char *at = lines, *end;
    for (uint64_t line = 0; line < from; line++) at = strchr(at, '\n') + 1;
    end = at;
    for (uint64_t line = from; line < to; line++) end = strchr(end, '\n') + 1;
    end += more_bytes;
    assert_int_equal(write(fd, at, (size_t)(end - at)), end - at);
}

static void reader_fill__stream_that_gives_early__gives_what_is_there(void **state)
{
    (void)state;
    int ends[2];
    size_t bytes;
    char *lines = criteo_lines(10, "\n", &bytes);
    struct reader_options options = criteo_options("-");
    struct reader *reader;
    struct test_batch b;
    bool end;
    options.gives_early = true;
    assert_int_equal(pipe(ends), 0);
    int saved = test_stdin_replace(ends[0]);
    test_batch_open(&b, criteo_shape, TEST_MICRO);
    lines_send(ends[1], lines, 0, 3, 20);
    assert_ok(reader_open(&reader, &options));
    assert_ok(reader_start(reader, 0));
    assert_ok(reader_fill(reader, &b.m, TEST_MICRO, &end));
    assert_int_equal(b.m.example_count, 3);
    assert_false(end);
    lines_send(ends[1], lines, 3, 4, 0); /* behind the part that is there: a bad line */
    assert_fails(INVALID, "standard input:4: ", reader_fill(reader, &b.m, TEST_MICRO, &end));
    lines_send(ends[1], lines, 4, 6, 0);
    assert_int_equal(write(ends[1], "\n", 1), 1); /* perhaps the last, which is none */
    micro_batch_clear(&b.m);
    assert_ok(reader_fill(reader, &b.m, TEST_MICRO, &end));
    assert_int_equal(b.m.example_count, 2);
    assert_false(end);
    close(ends[1]);
    micro_batch_clear(&b.m);
    assert_ok(reader_fill(reader, &b.m, TEST_MICRO, &end));
    assert_int_equal(b.m.example_count, 0);
    assert_true(end);
    reader_close(reader);
    test_batch_close(&b);
    test_stdin_restore(saved);
    free(lines);
}

static void reader_skip__any_count__continues_as_without_skip(void **state)
{
    (void)state;
    static uint64_t whole[5000];
    const uint32_t windows[] = {0, 1, 2, 100, 4999, 5000, 20000};
    const char *path = criteo_file("skip", 5000);
    for (size_t w = 0; w < sizeof windows / sizeof *windows; w++) {
        struct reader_options options = criteo_options(path);
        options.shuffle = windows[w];
        options.seed = 5;
        struct reader *reader;
        assert_ok(reader_open(&reader, &options));
        assert_ok(reader_start(reader, 3));
        assert_int_equal(pass_numbers(reader, whole, 5000), 5000);
        const uint64_t counts[] = {0, 1, 77, 4998, 4999, 5000, 6000};
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            bool end;
            uint64_t rest = counts[i] < 5000 ? 5000 - counts[i] : 0;
            assert_ok(reader_start(reader, 3));
            assert_ok(reader_skip(reader, counts[i], NULL, &end));
            assert_int_equal(end, counts[i] > 5000);
            assert_int_equal(pass_numbers(reader, number, 6000), rest);
            if (rest) assert_memory_equal(number, whole + counts[i], rest * sizeof *number);
        }
        reader_close(reader);
    }
}

/* A reader that has no more than it must: `left` examples without fields whose label is their number. */
struct numbers {
    struct reader reader;
    uint32_t given, left;
    float label;
};
static status numbers_start(struct reader *reader, struct reader_pass pass)
{
    struct numbers *n = (struct numbers *)reader;
    n->given = (uint32_t)pass.epoch * 100;
    n->left = 5;
    return ST_OK;
}
static status numbers_next(struct reader *reader, struct reader_example *place, const struct reader_example **found,
                           bool *end)
{
    static struct reader_example own;
    static uint64_t no_key;
    static uint32_t no_key_end;
    struct numbers *n = (struct numbers *)reader;
    *end = n->left == 0;
    if (*end) return ST_OK;
    if (n->given % 2 || place == NULL) { /* lies elsewhere */
        place = &own;
        own = (struct reader_example){
            .label = &n->label, .dense = &n->label, .key = &no_key, .key_end = &no_key_end, .weight = 1};
    }
    n->left--;
    *place->label = (float)n->given++;
    place->is_bad = false;
    *found = place;
    return ST_OK;
}

/* Every third run of examples of a pass, the first of each three; the runs between are passed over. */
static size_t pass_striped(struct reader *reader, uint64_t *out, uint64_t *all)
{
    struct test_batch b;
    size_t count = 0;
    bool end = false;
    test_batch_open(&b, criteo_shape, TEST_MICRO);
    assert_ok(reader_start(reader, 0));
    for (*all = 0; !end;) {
        uint64_t passed = 0;
        micro_batch_clear(&b.m);
        assert_ok(reader_fill(reader, &b.m, TEST_MICRO, &end));
        for (uint32_t i = 0; i < b.m.example_count; i++) out[count++] = example_check(&b.m, i);
        if (!end) assert_ok(reader_skip(reader, 2 * TEST_MICRO, &passed, &end));
        assert_true(end || passed == 2 * TEST_MICRO);
        *all += b.m.example_count + passed;
    }
    test_batch_close(&b);
    return count;
}

static void reader_skip__behind_a_whole_pass__gives_the_same(void **state)
{
    (void)state;
    static uint64_t striped[10000];
    char paths[4096];
    size_t bytes, gzip_bytes;
    char *lines = criteo_lines(3000, "\r\n", &bytes);
    memcpy(lines + bytes, "\n\r\n\n", 4); /* which do not count */
    uint8_t *gzip = test_gzip(lines, bytes, &gzip_bytes);
    snprintf(paths, sizeof paths, "%s,%s,%s", test_file("a.tsv", lines, bytes + 4), test_file("b.gz", gzip, gzip_bytes),
             test_file("c.tsv", lines, bytes - 2));
    for (int way = 0; way < 4; way++) {
        struct reader_options options = criteo_options(paths);
        struct reader *reader;
        uint64_t first_all, again_all;
        options.marks = true;
        options.readers = way == 1 ? 2 : 1;
        options.shuffle = way == 2 ? 100 : 0;
        options.lines = way == 3 ? READER_TRAIN : READER_ALL;
        options.held_out = 0.25f;
        assert_ok(reader_open(&reader, &options));
        const size_t first = pass_striped(reader, number, &first_all),
                     again = pass_striped(reader, striped, &again_all);
        assert_int_equal(first, again);
        assert_int_equal(first_all, again_all);
        assert_true(way == 3 ? first_all > 6000 && first_all < 7500 : first_all == 9000);
        assert_memory_equal(number, striped, first * sizeof *number);
        const struct reader_counts counts = reader_counts(reader);
        assert_int_equal(counts.line_count, 18000);
        assert_int_equal(counts.byte_count, 2 * (bytes + 4 + gzip_bytes + bytes - 2));
        reader_close(reader);
    }
    free(gzip);
    free(lines);
}

/* Lines 0 to 999 with a malformed one. */
static void bad_at(uint32_t bad)
{
    size_t bytes;
    char *lines = criteo_lines(1000, "\n", &bytes), *at = lines;
    for (uint32_t i = 0; i < bad; i++) at = strchr(at, '\n') + 1;
    if (bad < 1000) *at = 'x';
    test_file("passed.tsv", lines, bytes);
    free(lines);
}

/* What is not parsed cannot be malformed; what is, is told by its line. */
static void reader_skip__behind_a_whole_pass__parses_nothing(void **state)
{
    (void)state;
    static const struct {
        uint32_t bad;
        bool whole_first, bad_skip, is_told;
    } cases[] = {
        {500, true, false, false}, {500, false, false, true}, {99, true, false, true},
        {700, true, false, true},  {500, true, true, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct reader_options options = criteo_options(test_path("passed.tsv"));
        struct reader *reader;
        struct test_batch b;
        uint64_t passed;
        char where[40];
        bool end = false;
        options.bad_skip = cases[i].bad_skip;
        bad_at(1000);
        options.paths = strdup(options.paths);
        assert_ok(reader_open(&reader, &options));
        test_batch_open(&b, criteo_shape, 200);
        assert_ok(reader_start(reader, 0));
        const size_t first = pass_numbers(reader, number, cases[i].whole_first ? 2000 : 999);
        assert_int_equal(first, cases[i].whole_first ? 1000 : 999);
        bad_at(cases[i].bad);
        assert_ok(reader_start(reader, 1));
        snprintf(where, sizeof where, "passed.tsv:%u: ", cases[i].bad + 1);
        status st = reader_fill(reader, &b.m, 100, &end);
        if (st == ST_OK) st = reader_skip(reader, 500, &passed, &end);
        micro_batch_clear(&b.m);
        if (st == ST_OK) st = reader_fill(reader, &b.m, 200, &end);
        assert_int_equal(st, cases[i].is_told ? ST_INVALID : ST_OK);
        if (cases[i].is_told && !strstr(status_message(), where)) fail_msg("%s", status_message());
        if (!cases[i].is_told) assert_int_equal(example_check(&b.m, 0), 600 + cases[i].bad_skip);
        reader_close(reader);
        test_batch_close(&b);
        free((void *)(uintptr_t)options.paths);
    }
}

/* Data that is shorter or longer than in the whole pass, by whole lines or by half
 * a line, where nobody parses. */
static void reader_skip__data_of_another_length__is_told(void **state)
{
    (void)state;
    size_t bytes;
    char *lines = criteo_lines(1200, "\n", &bytes), *end_of[1200];
    for (char *at = lines, **end_at = end_of; *at; at = *end_at++) *end_at = strchr(at, '\n') + 1;
    const struct {
        size_t bytes;
        uint32_t count;
    } cases[] = {{(size_t)(end_of[999] - lines), 1000},
                 {(size_t)(end_of[999] - lines), 997}, /* and empty lines, which at the end are none */
                 {(size_t)(end_of[1099] - lines), 1100}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct reader *reader;
        struct test_batch b;
        char expected[80];
        bool end = false;
        char *path = strdup(test_file("length.tsv", lines, (size_t)(end_of[999] - lines)));
        struct reader_options options = criteo_options(path);
        assert_ok(reader_open(&reader, &options));
        test_batch_open(&b, criteo_shape, 100);
        assert_ok(reader_start(reader, 0));
        assert_int_equal(pass_numbers(reader, number, 2000), 1000);
        char *changed = strdup(lines);
        assert_non_null(changed);
        if (cases[i].count < 1000)
            memset(changed + (end_of[cases[i].count - 1] - lines), '\n',
                   (size_t)(end_of[999] - end_of[cases[i].count - 1]));
        test_file("length.tsv", changed, cases[i].bytes);
        free(changed);
        assert_ok(reader_start(reader, 1));
        assert_ok(reader_fill(reader, &b.m, 100, &end));
        const status st = reader_skip(reader, 2000, NULL, &end);
        assert_int_equal(st, cases[i].count == 1000 ? ST_OK : ST_MISMATCH);
        snprintf(expected, sizeof expected, "ends after %u examples, and had 1000 in the pass before", cases[i].count);
        if (st != ST_OK && !strstr(status_message(), expected)) fail_msg("%s", status_message());
        reader_close(reader);
        test_batch_close(&b);
        free(path);
    }
    free(lines);
}

/* Unless its length tells it before. */
static void reader_start__data_that_have_been_cut__is_told(void **state)
{
    (void)state;
    size_t bytes;
    char *lines = criteo_lines(100, "\n", &bytes);
    struct reader *reader;
    char *path = strdup(test_file("shorter.tsv", lines, bytes));
    struct reader_options options = criteo_options(path);
    assert_ok(reader_open(&reader, &options));
    assert_ok(reader_start(reader, 0));
    assert_int_equal(pass_numbers(reader, number, 2000), 100);
    test_file("shorter.tsv", lines, bytes / 2);
    assert_fails(IO, "is another file than it was when this run began", reader_start(reader, 1));
    reader_close(reader);
    free(path);
    free(lines);
}

static void reader__only_what_is_required__has_the_rest(void **state)
{
    (void)state;
    static const struct reader_vt vt = {.start = numbers_start, .next = numbers_next};
    const struct example_shape shape = {.label_count = 1};
    uint32_t key_end;
    struct numbers n = {.reader = {.vt = &vt, .shape = shape, .kernels = text_kernels_of(NULL), .key_end = &key_end}};
    struct test_batch b;
    bool end;
    test_batch_open(&b, shape, TEST_MICRO);
    assert_ok(reader_start(&n.reader, 1));
    assert_ok(reader_skip(&n.reader, 1, NULL, &end));
    assert_ok(reader_fill(&n.reader, &b.m, 2, &end));
    assert_false(end);
    assert_ok(reader_fill(&n.reader, &b.m, TEST_MICRO, &end));
    assert_true(end);
    assert_int_equal(b.m.example_count, 4);
    for (uint32_t i = 0; i < 4; i++) assert_true(b.m.label[i] == 101 + (float)i);
    assert_ok(reader_start(&n.reader, 0));
    assert_ok(reader_skip(&n.reader, 9, NULL, &end));
    assert_true(end);
    assert_int_equal(reader_counts(&n.reader).line_count, 0);
    assert_false(reader_is_mixed(&n.reader));
    reader_close(&n.reader);
    test_batch_close(&b);
}

/* A line is held out if its hash is below the bound: at it, it is not. */
static void reader_line_counts__hash_at_the_bound__is_trained_on(void **state)
{
    (void)state;
    static const char line[] = "a line";
    const uint64_t hash = XXH3_64bits_withSeed(line, sizeof line - 1, READER_HELD_OUT_SEED);
    for (int above = 0; above <= 1; above++) {
        assert_int_equal(reader_line_counts(READER_HELD_OUT, hash + (uint64_t)above, line, sizeof line - 1), above);
        assert_int_equal(reader_line_counts(READER_TRAIN, hash + (uint64_t)above, line, sizeof line - 1), !above);
        assert_true(reader_line_counts(READER_ALL, hash + (uint64_t)above, line, sizeof line - 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reader_fill__several_files__gives_every_line_once),
        cmocka_unit_test(reader_fill__bad_line_in_a_later_file__is_counted_in_that_file),
        cmocka_unit_test(reader_fill__end_of_pass__stays_the_end),
        cmocka_unit_test(reader_fill__empty_file__is_the_end),
        cmocka_unit_test(reader_fill__empty_lines_that_end_a_file__are_no_examples),
        cmocka_unit_test(reader_fill__crlf__is_a_line_end),
        cmocka_unit_test(reader_fill__bad_line__fails_or_is_skipped_or_kept),
        cmocka_unit_test(reader_fill__line_too_long__is_a_bad_line),
        cmocka_unit_test(reader_fill__longest_line__is_read),
        cmocka_unit_test(reader_open__wrong_file__fails_at_once),
        cmocka_unit_test(reader_start__stream__is_read_once),
        cmocka_unit_test(reader_fill__stream_that_gives_early__gives_what_is_there),
        cmocka_unit_test(reader_skip__any_count__continues_as_without_skip),
        cmocka_unit_test(reader_skip__behind_a_whole_pass__gives_the_same),
        cmocka_unit_test(reader_skip__behind_a_whole_pass__parses_nothing),
        cmocka_unit_test(reader_skip__data_of_another_length__is_told),
        cmocka_unit_test(reader_start__data_that_have_been_cut__is_told),
        cmocka_unit_test(reader__only_what_is_required__has_the_rest),
        cmocka_unit_test(reader_line_counts__hash_at_the_bound__is_trained_on),
    };
    return cmocka_run_group_tests(tests, test_directory_make, test_directory_remove) ? 1 : 0;
}

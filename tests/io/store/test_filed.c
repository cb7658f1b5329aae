/* Rows in files: every key's last row is found, whatever is kept of them, however few bits tell keys
 * apart, and however reads come. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>

#include "engine/base/memory.h"
#include "engine/base/random.h"
#include "io/store/filed.h"
#include "io/uring.h"
#include "tests/engine/fixture_files.h"

#define SPAN      5u
#define ROW_BYTES (8 + SPAN * sizeof(float))
#define TAIL      12u /* of a row, that nobody asks for */
#define KEYS      4000u
#define FETCH_MAX 700u

static int directory_make(void **state)
{
    (void)state;
    return fixture_directory_make("test_filed");
}
static int directory_remove(void **state)
{
    (void)state;
    return fixture_directory_remove();
}

static uint64_t key_of(uint32_t i)
{
    uint32_t bits[4];
    random_block(random_stream(3, RANDOM_GEN, 0), i, 0, bits);
    return (uint64_t)bits[0] << 32 | bits[1];
}

/* What the row of a key of that version holds. */
static float value_of(uint32_t i, uint32_t version, uint32_t d)
{
    return (float)i + (float)version * 0.25f + (float)d * 1e4f;
}

/* A file of keys [begin, end), in groups of `group` rows with `gap` bytes behind each, after `head` bytes. */
static struct filed_part part_write(const char *name, uint32_t begin, uint32_t end, uint32_t version, uint32_t head,
                                    uint32_t group, uint32_t gap)
{
    FILE *file = fopen(fixture_path(name), "wb");
    assert_non_null(file);
    for (uint32_t i = 0; i < head; i++) fputc('h', file);
    for (uint32_t i = begin; i < end; i++) {
        const uint64_t key = key_of(i);
        fwrite(&key, sizeof key, 1, file);
        for (uint32_t d = 0; d < SPAN; d++) fwrite(&(float){value_of(i, version, d)}, sizeof(float), 1, file);
        for (uint32_t d = 0; d < TAIL; d++) fputc('t', file);
        if ((i - begin) % group == group - 1)
            for (uint32_t g = 0; g < gap; g++) fputc('g', file);
    }
    fclose(file);
    return (struct filed_part){.path = fixture_path(name),
                               .fd = open(fixture_path(name), O_RDONLY | O_CLOEXEC),
                               .offset_bytes = head,
                               .group_bytes = group * (ROW_BYTES + TAIL) + gap,
                               .group_rows = group,
                               .row_bytes = ROW_BYTES + TAIL,
                               .row_count = end - begin};
}

struct asker {
    uint32_t found[KEYS], missing[KEYS];
    uint32_t arrived;
};

static void arrived(void *context, const struct home_row *row, bool is_found)
{
    struct asker *a = context;
    const uint32_t i = row->ticket; /* the asker's own number */
    *(is_found ? &a->found[i] : &a->missing[i]) += 1;
    a->arrived++;
}

static status open_with(struct home **home, struct asker *a, uint64_t rows, uint64_t bytes, uint32_t tag_bits,
                        bool threads, struct uring_faults *faults)
{
    const struct home_table_options table = {.name = "t", .span_floats = SPAN, .bytes = bytes, .rows = rows};
    return filed_home.open(home, &(struct home_options){.table_count = 1,
                                                        .table = &table,
                                                        .fetch_max = FETCH_MAX,
                                                        .context = a,
                                                        .arrived = arrived,
                                                        .io_threads = threads,
                                                        .faults = faults,
                                                        .tag_bits = tag_bits});
}

/* Two parts of which the second has the last word on some keys, and keys of its own. */
static void parts_add(struct home *home)
{
    struct filed_part one = part_write("one", 0, 3000, 0, 64, 7, 8),
                      two = part_write("two", 2500, KEYS, 1, 16, 100, 40);
    assert_ok(filed_part_add(home, 0, &one));
    for (uint32_t i = 0; i < 3000; i++) assert_ok(filed_row(home, 0, i, key_of(i)));
    assert_ok(filed_part_add(home, 0, &two));
    for (uint32_t i = 2500; i < KEYS; i++) assert_ok(filed_row(home, 0, i - 2500, key_of(i)));
}

/* Asks for random keys, some of which there are not, several batches at a time. */
static void ask_all(struct home *home, struct asker *a, uint32_t rounds)
{
    static float span[KEYS][SPAN];
    static uint8_t is_asked[KEYS];
    struct random_stream stream = random_stream(9, RANDOM_GEN, 0);
    uint64_t fetched = home_counts(home, 0).fetched;
    for (uint32_t round = 0; round < rounds; round++) {
        memset(a, 0, sizeof *a);
        memset(is_asked, 0, sizeof is_asked);
        uint64_t batch = 0;
        for (uint32_t b = 0; b < 4; b++) {
            assert_ok(home_ask(home));
            for (uint32_t n = 0; n < FETCH_MAX; n++) {
                uint32_t bits[4];
                random_block(stream, round * 10000 + b * 1000 + n, 0, bits);
                const uint32_t i = bits[0] % KEYS;
                if (is_asked[i]) continue;
                is_asked[i] = 1;
                const bool is_there = bits[1] % 8 != 0;
                const struct home_row row = {
                    .key = is_there ? key_of(i) : key_of(i) + 1, .span = span[i], .ticket = i, .is_copy = true};
                home_prefetch(home, 0, row.key);
                if (!home_find(home, &row)) {
                    assert_false(is_there);
                    is_asked[i] = 3;
                } else if (!is_there) {
                    is_asked[i] = 2; /* taken for another, until its read */
                }
            }
            assert_ok(home_bring(home, &batch));
        }
        while (!home_has_arrived(home, batch)) assert_ok(home_poll(home, true));
        for (uint32_t i = 0; i < KEYS; i++) {
            assert_int_equal(a->found[i], is_asked[i] == 1);
            assert_int_equal(a->missing[i], is_asked[i] == 2);
            for (uint32_t d = 0; d < SPAN && is_asked[i] == 1; d++)
                assert_true(span[i][d] == value_of(i, i >= 2500, d));
            fetched += is_asked[i] == 1;
        }
        assert_int_equal(home_counts(home, 0).fetched, fetched);
        assert_ok(home_settle(home));
    }
}

static void check(uint64_t bytes, uint32_t tag_bits, bool threads, struct uring_faults *faults)
{
    static struct asker asker;
    struct home *home;
    assert_ok(open_with(&home, &asker, KEYS, bytes, tag_bits, threads, faults));
    assert_true(filed_is(home));
    parts_add(home);
    assert_int_equal(home_counts(home, 0).row_count, KEYS);
    ask_all(home, &asker, 6);
    home_close(home);
}

static void filed__keys__their_last_rows(void **state)
{
    (void)state;
    check(filed_table_least(KEYS), 0, false, NULL);                                      /* nothing is kept */
    check((filed_table_least(KEYS) + filed_table_most(KEYS, SPAN)) / 2, 0, false, NULL); /* half of them */
    check(filed_table_most(KEYS, SPAN), 0, true, NULL);
}

static void filed__few_bits__others_rows_are_told_apart(void **state)
{
    (void)state;
    check(filed_table_least(KEYS), 6, false, NULL);
    check(filed_table_most(KEYS, SPAN), 6, false, NULL);
}

static void filed__short_reads__go_on(void **state)
{
    (void)state;
    struct uring_faults faults = {.seed = 4, .one_in = {[URING_SHORT] = 3, [URING_AGAIN] = 5}, .align_bytes = 1};
    check(filed_table_least(KEYS), 0, false, &faults);
    assert_true(faults.hit_count[URING_SHORT] > 100 && faults.hit_count[URING_AGAIN] > 100);
}

static void filed__kept_rows__are_not_read_again(void **state)
{
    (void)state;
    static struct asker asker;
    struct home *home;
    assert_ok(open_with(&home, &asker, KEYS, filed_table_most(KEYS, SPAN), 0, false, NULL));
    parts_add(home);
    for (int i = 0; i < 2; i++) {
        ask_all(home, &asker, 1);
        const uint64_t reads = home_counts(home, 0).read_count;
        static uint64_t before;
        if (i == 0) before = reads;
        /* Only rows that shared a place with another row, of which one was kept, are read again:
         * 4,000 places, of 4,500 rows. */
        if (i == 1) assert_in_range(reads - before, 0, before / 4);
    }
    home_close(home);
}

static void filed__failures__are_told(void **state)
{
    (void)state;
    static struct asker asker;
    struct home *home;
    uint64_t batch;
    float span[SPAN];
    assert_int_equal(open_with(&home, &asker, KEYS, filed_table_least(KEYS) - 1, 0, false, NULL), ST_INVALID);
    assert_ok(open_with(&home, &asker, 10, filed_table_least(10), 0, false, NULL));
    struct filed_part few = part_write("few", 0, 4, 0, 0, 100, 0);
    few.row_count = 20;
    assert_ok(filed_part_add(home, 0, &few));
    for (uint32_t i = 0; i < 10; i++) assert_ok(filed_row(home, 0, i, key_of(i)));
    assert_int_equal(filed_row(home, 0, 10, key_of(10)), ST_INVALID);
    assert_message("expected at most 10 keys");
    assert_ok(home_ask(home));
    assert_true(home_find(home, &(struct home_row){.key = key_of(7), .span = span, .is_copy = true}));
    assert_ok(home_bring(home, &batch));
    status st = ST_OK;
    while (st == ST_OK && !home_has_arrived(home, batch)) st = home_poll(home, true);
    assert_int_equal(st, ST_IO);
    assert_message("it ends there");
    assert_int_equal(home_poll(home, true), ST_IO);
    assert_int_equal(home_put(home, 0, 1, span), ST_FULL);
    home_close(home);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(filed__keys__their_last_rows), cmocka_unit_test(filed__few_bits__others_rows_are_told_apart),
        cmocka_unit_test(filed__short_reads__go_on),    cmocka_unit_test(filed__kept_rows__are_not_read_again),
        cmocka_unit_test(filed__failures__are_told),
    };
    return cmocka_run_group_tests(tests, directory_make, directory_remove) ? 1 : 0;
}

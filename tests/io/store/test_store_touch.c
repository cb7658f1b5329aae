/* Memory of a store that is touched ahead: how much of it, and that rows stay what they are. */
#include "tests/io/io_test.h"

#include <sys/mman.h>
#include <unistd.h>

#include "io/store/store_rows.h"
#include "io/store/store_ticket.h"
#include "io/store/store_touch.h"

#define SPAN 8u
#define MIB  ((size_t)1 << 20)

static const struct batch_shape batch = {.batch = 64, .micro = 64, .lanes = 1};
static const struct example_shape shape = {.field_count = 1, .key_count_max = 1};

static void init_row(void *context, uint32_t table, uint64_t key, float *span)
{
    (void)context, (void)table;
    for (uint32_t i = 0; i < SPAN; i++) {
        assert_true(span[i] == 0);
        span[i] = (float)(key % 1000003) + (float)i;
    }
}

static struct store *store_of(uint64_t ram_bytes)
{
    static const uint8_t serves[1] = {1};
    const struct store_table_options table = {
        .name = "emb", .span_floats = SPAN, .serves = serves, .share = 1, .row_init = init_row};
    const struct store_options options = {
        .ram_bytes = ram_bytes, .table_count = 1, .table = &table, .batch = batch, .example = shape};
    struct store *store;
    assert_ok(store_open(&store, &options));
    return store;
}

static bool kernel_touches(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *at = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(at != MAP_FAILED);
    bool is_done = memory_touch(at, page);
    munmap(at, page);
    if (!is_done) print_message("# this kernel touches nothing for others\n");
    return is_done;
}

/* Waits until at least so much of the part is resident. */
static void resident_await(const char *part, size_t bytes)
{
    for (int i = 0; i < 2000 && memory_part_resident_bytes(part) < bytes; i++) usleep(5000);
    assert_true(memory_part_resident_bytes(part) >= bytes);
}

static size_t planned_of(const char *part)
{
    struct memory_part found;
    for (size_t i = 0; memory_part_get(i, &found); i++)
        if (strcmp(found.name, part) == 0) return found.planned_bytes;
    return 0;
}

static void store_touch__much_data__has_the_index_and_rows_ahead(void **state)
{
    (void)state;
    if (!kernel_touches()) skip();
    struct store *store = store_of(128 * MIB);
    assert_ok(store_touch_start(store, 10000000));
    /* The index is buckets, which are touched, and places of rows, which are not: a sixth at most. */
    resident_await("store index", planned_of("store index") / 6 * 5);
    resident_await("store rows", 16 * MIB);
    usleep(20000);
    assert_true(memory_part_resident_bytes("store rows") == 16 * MIB);
    float *span;
    for (uint64_t key = 1; key <= 200000; key++) assert_ok(store_insert(store, 0, key, &span));
    resident_await("store rows", 200000 * SPAN * sizeof(float) + 12 * MIB);
    store_close(store);
}

static void store_touch__little_or_unknown_data__leaves_the_index(void **state)
{
    (void)state;
    if (!kernel_touches()) skip();
    static const uint64_t estimates[2] = {4, 0};
    for (int i = 0; i < 2; i++) {
        struct store *store = store_of(128 * MIB);
        assert_ok(store_touch_start(store, estimates[i]));
        resident_await("store rows", 1);
        usleep(20000);
        assert_true(memory_part_resident_bytes("store index") == 0);
        assert_true(memory_part_resident_bytes("store rows") <= (estimates[i] ? 2 : 16) * MIB);
        store_close(store);
    }
}

/* Rows are made while their memory is touched, and the store closes whenever it likes. */
static void store_touch__beside_rows_that_are_made__changes_none_race(void **state)
{
    (void)state;
    for (uint64_t rows = 1; rows <= 100000; rows *= 10) {
        struct store *store = store_of(32 * MIB);
        struct micro_batch m;
        struct ticket ticket;
        struct arena arena;
        const uint32_t span_floats = SPAN;
        assert_ok(arena_open(&arena, "test",
                             micro_batch_bytes(batch, shape) + ticket_bytes(batch, shape, 1, &span_floats, false)));
        micro_batch_place(&m, &arena, batch, shape);
        ticket_place(&ticket, &arena, batch, shape, 1, &span_floats, false);
        assert_ok(store_touch_start(store, rows));
        for (uint64_t key = 0; key < rows;) {
            micro_batch_clear(&m);
            for (; m.example_count < batch.micro && key < rows; key++) {
                m.key_begin[m.example_count] = m.key_count;
                m.key_home[m.key_count] = m.example_count;
                m.key[m.key_count++] = key + 1;
                m.key_begin[++m.example_count] = m.key_count;
            }
            assert_ok(store_prepare(store, &m, STORE_CREATE, &ticket));
        }
        assert_int_equal(store_row_count(store, 0), rows);
        for (uint64_t row = 0; row < rows; row++) {
            assert_int_equal(store_key(store, 0, row), row + 1);
            for (uint32_t i = 0; i < SPAN; i++)
                assert_true(store_span(store, 0, row)[i] == (float)((row + 1) % 1000003) + (float)i);
        }
        arena_close(&arena);
        store_close(store);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(store_touch__much_data__has_the_index_and_rows_ahead),
        cmocka_unit_test(store_touch__little_or_unknown_data__leaves_the_index),
        cmocka_unit_test(store_touch__beside_rows_that_are_made__changes_none_race),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}

/* The loop over the keys of a ticket (io/isa/key_run.c) in every instruction set that runs here: gives what
 * naive code gives, for micro-batches of all sizes about those of its blocks. */
#include "tests/io/io_test.h"

#include "engine/base/isa.h"
#include "io/store/store_internal.h"
#include "io/store/store_rows.h"

#define MICRO  400u
#define FIELDS 3u
#define TABLES 4u
#define KEYS   20000u
#define ADMIT  3u

static const struct batch_shape batch = {.batch = MICRO, .micro = MICRO, .lanes = 1};
static const struct example_shape shape = {.field_count = FIELDS, .key_count_max = FIELDS};
/* The last table admits keys from their third occurrence on, the one before serves no field. */
static const uint8_t serves[TABLES][FIELDS] = {{1, 1, 1}, {1, 0, 1}, {0, 0, 0}, {0, 1, 1}};
static const uint32_t spans[TABLES] = {4, 4, 4, 4};

static void init_row(void *context, uint32_t table, uint64_t key, float *span)
{
    (void)context;
    span[0] = (float)key;
    span[1] = (float)table;
}

/* Table 0 has hardly more room than there are keys, so that many lie behind their first bucket. */
static struct store *store_of(const char *isa)
{
    struct store_table_options tables[TABLES];
    for (uint32_t t = 0; t < TABLES; t++)
        tables[t] = (struct store_table_options){.name = "t",
                                                 .span_floats = spans[t],
                                                 .serves = serves[t],
                                                 .share = 1,
                                                 .ram_bytes = (KEYS + 1) * 42,
                                                 .life.admit = t == TABLES - 1 ? ADMIT : 1,
                                                 .life.admit_keys = KEYS,
                                                 .row_init = init_row};
    struct store *store;
    assert_ok(store_open(&store, &(struct store_options){.ram_bytes = 8 << 20,
                                                         .ticket_max = 1,
                                                         .isa = isa,
                                                         .table_count = TABLES,
                                                         .table = tables,
                                                         .batch = batch,
                                                         .example = shape}));
    return store;
}

/* What is known of a table's keys, the naive way. */
struct naive {
    uint32_t row_count, row[KEYS], seen[KEYS], unique[KEYS]; /* of key k: row + 1, occurrences so far, unique + 1 */
};

/* Keys 0 .. KEYS - 1, often the same ones. */
static void batch_fill(struct micro_batch *m, uint64_t *random, uint32_t example_count)
{
    micro_batch_clear(m);
    for (uint32_t home = 0; home < example_count * FIELDS; home++) {
        if (test_random(random) % 8 != 0) {
            m->key_home[m->key_count] = home;
            m->key[m->key_count++] = test_random(random) % (test_random(random) % 2 ? 50 : KEYS);
        }
        m->key_begin[home + 1] = m->key_count;
    }
    m->example_count = example_count;
    m->is_last = true;
}

static void ticket_check(struct store *store, const struct micro_batch *m, const struct ticket_table *out, uint32_t t,
                         struct naive *naive)
{
    uint32_t unique_count = 0, served_count = 0;
    memset(naive->unique, 0, sizeof naive->unique);
    for (uint32_t p = 0; p < m->key_count; p++) {
        if (!serves[t][m->key_home[p] % FIELDS]) continue;
        const uint64_t key = m->key[p];
        served_count++;
        if (naive->unique[key] == 0) {
            const uint32_t u = unique_count++;
            naive->unique[key] = u + 1;
            if (naive->row[key] == 0 && (t != TABLES - 1 || naive->seen[key] + 1 >= ADMIT))
                naive->row[key] = ++naive->row_count;
            assert_int_equal(out->row[u], naive->row[key] - 1); /* ROW_NONE: has none */
            assert_ptr_equal(out->span[u],
                             naive->row[key] ? store_span(store, t, out->row[u]) : out->scratch + (size_t)u * spans[t]);
            assert_true(out->span[u][0] == (float)key && out->span[u][1] == (float)t);
        }
        assert_int_equal(out->unique_of[p], naive->unique[key] - 1);
        assert_true(out->occurrence_begin[naive->unique[key] - 1] < out->occurrence_begin[naive->unique[key]]);
    }
    assert_int_equal(out->unique_count, unique_count);
    assert_int_equal(out->occurrence_begin[unique_count], served_count);
    assert_int_equal(out->row_count, naive->row_count);
    for (uint32_t u = 0; u < unique_count; u++)
        for (uint32_t o = out->occurrence_begin[u]; o < out->occurrence_begin[u + 1]; o++) {
            assert_int_equal(out->unique_of[out->occurrence[o]], u);
            if (o > out->occurrence_begin[u]) assert_true(out->occurrence[o - 1] < out->occurrence[o]);
        }
    for (uint32_t p = 0; p < m->key_count; p++)
        if (serves[t][m->key_home[p] % FIELDS] && naive->row[m->key[p]] == 0) naive->seen[m->key[p]]++;
}

static void store_prepare__every_instruction_set__gives_what_naive_code_does(void **state)
{
    (void)state;
    static struct naive naive[TABLES];
    struct arena arena;
    struct micro_batch m;
    struct ticket ticket;
    assert_ok(
        arena_open(&arena, "test", micro_batch_bytes(batch, shape) + ticket_bytes(batch, shape, TABLES, spans, true)));
    micro_batch_place(&m, &arena, batch, shape);
    ticket_place(&ticket, &arena, batch, shape, TABLES, spans, true);
    for (int isa = 0; isa < ISA_IO_COUNT; isa++) {
        if (!isa_io_runs_here((enum isa_io)isa)) {
            print_message("# %s does not run here\n", isa_io_names[isa]);
            continue;
        }
        struct store *store = store_of(isa_io_names[isa]);
        uint64_t random = 3;
        memset(naive, 0, sizeof naive);
        for (uint32_t n = 0; n < 300; n++) {
            batch_fill(&m, &random, n < 100 ? n : (uint32_t)(test_random(&random) % (MICRO + 1)));
            assert_ok(store_prepare(store, &m, STORE_CREATE, &ticket));
            for (uint32_t t = 0; t < TABLES; t++) ticket_check(store, &m, &ticket.table[t], t, &naive[t]);
            store_release(store, ticket.number);
        }
        /* Of keys that are there, keys that are not, and keys that have been refused there have been many. */
        assert_true(naive[0].row_count > KEYS / 2 && naive[0].row_count < KEYS);
        assert_true(naive[3].row_count > 1000 && naive[3].row_count < naive[0].row_count);
        store_close(store);
    }
    arena_close(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(store_prepare__every_instruction_set__gives_what_naive_code_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}

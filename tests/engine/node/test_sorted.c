/* Rows of all nodes by ascending key: every row once, with its vector, as often as wanted, of
 * several tables, of which nodes have any number of rows; what whoever writes fails with ends it;
 * rows that are not in order are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "engine/model/model_sorted.h"
#include "engine/node/sorted.h"
#include "engine/node/talk.h"
#include "io/store/store_rows.h"

#define NODES 3u
#define ENDS_MODEL                                                                                                     \
    "[data]\nsparse = C1..C3\n[table a]\ndim = 3\n[table b]\ndim = 7\n[table c]\ndim = 2\n"                            \
    "[embedding e]\ntable = a\ninput = C1\n[embedding f]\ntable = b\ninput = C2\n"                                     \
    "[embedding g]\ntable = c\ninput = C3\n[concat x]\ninput = e, f, g\n[fc y]\ninput = x\nunits = 1\n"                \
    "[loss bce]\ninput = y\n[train]\nbatch = 12\nmicro = 3\nlanes = 4\n[store]\nram = 4MiB\n"
static const uint32_t lane_begin[NODES + 1] = {0, 1, 3, 4};
#include "tests/engine/node/ends_fixture.h"

#define TABLES 3u
/* Of table a node 1 has many blocks; of table b node 2 alone has some, of table c node 0 alone has rows. */
static const uint32_t counts[TABLES][NODES] = {{40, 9000, 700}, {0, 0, 3000}, {5, 0, 0}};
static struct failure served[NODES]; /* what it has come to */

static uint64_t mixed(uint64_t x) { return (x + 1) * UINT64_C(0x9E3779B97F4A7C15); }
static float value_of(uint64_t key, uint32_t i) { return (float)(key >> 40) + (float)i; }

static void rows_insert(void)
{
    for (uint32_t t = 0; t < TABLES; t++)
        for (uint32_t n = 0; n < NODES; n++)
            for (uint32_t i = 0; i < counts[t][n]; i++) {
                const uint64_t key = mixed((uint64_t)i * NODES + n);
                float *span;
                assert_ok(store_insert(ends[n].model.store, t, key, &span));
                for (uint32_t d = 0; d < graph.tables[t].dim; d++) span[d] = value_of(key, d);
            }
}

static void *serve_main(void *context)
{
    struct end *end = context;
    end->st = sorted_serve(end->reduce, &end->model);
    failure_keep(&served[end - ends], end->st);
    return NULL;
}

/* With rows, after what begins steps, as in a job. */
static void exchange_begin(uint64_t seed)
{
    ends_open(seed);
    rows_insert();
    memset(served, 0, sizeof served);
    for (uint32_t n = 0; n < NODES; n++) reduce_start(ends[n].reduce, 0);
    post_start(&net);
}

static void all_begin(uint64_t seed)
{
    exchange_begin(seed);
    for (uint32_t n = 1; n < NODES; n++)
        assert_int_equal(pthread_create(&ends[n].thread, NULL, serve_main, &ends[n]), 0);
}

static void all_end(void)
{
    for (uint32_t n = 1; n < NODES; n++) assert_int_equal(pthread_join(ends[n].thread, NULL), 0);
    all_close();
}

static int by_key(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void table_check(struct model_sorted *sorted, uint32_t t, bool has_vectors)
{
    static uint64_t keys[16384];
    uint32_t count = 0;
    for (uint32_t n = 0; n < NODES; n++)
        for (uint32_t i = 0; i < counts[t][n]; i++) keys[count++] = mixed((uint64_t)i * NODES + n);
    qsort(keys, count, sizeof *keys, by_key);
    assert_int_equal(sorted->table[t].row_count, count);
    assert_ok(sorted->vt->begin(sorted, t, has_vectors));
    const struct sorted_nodes *rows = (const struct sorted_nodes *)sorted;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t key;
        const float *vector = NULL;
        assert_ok(sorted->vt->next(sorted, &key, &vector));
        assert_int_equal(rows->is_under_way, i + 1 < count);
        if (key != keys[i]) fail_msg("row %u: another key", i);
        for (uint32_t d = 0; d < graph.tables[t].dim && has_vectors; d++)
            if (vector[d] != value_of(key, d)) fail_msg("row %u: number %u is another", i, d);
    }
    for (uint32_t n = 0; n < NODES; n++) assert_false(rows->from[n].is_held);
}

static void sorted__tables_of_three_nodes__each_row_once_in_order(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 3; seed++) {
        static struct sorted_nodes rows;
        all_begin(seed);
        assert_ok(sorted_nodes_open(&rows, ends[0].reduce, &ends[0].model));
        struct model_sorted *sorted = &rows.sorted;
        for (uint32_t t = 0; t < TABLES; t++) assert_ok(sorted->vt->open(sorted, t, &(struct model_sorted_filter){0}));
        for (int pass = 0; pass < 2; pass++)
            for (uint32_t t = 0; t < TABLES; t++) {
                table_check(sorted, t, false);
                table_check(sorted, t, true);
            }
        for (uint32_t t = 0; t < TABLES; t++) sorted->vt->close(sorted, t);
        assert_ok(sorted_nodes_end(&rows));
        sorted_nodes_close(&rows);
        all_end();
        for (uint32_t n = 1; n < NODES; n++) assert_int_equal(served[n].code, ST_OK);
    }
}

/* As where a disk is full: node 0 ends the job in the middle of a pass. */
static void sorted__who_writes_fails__the_others_have_its_failure(void **state)
{
    (void)state;
    static struct sorted_nodes rows;
    uint64_t key;
    all_begin(5);
    assert_ok(sorted_nodes_open(&rows, ends[0].reduce, &ends[0].model));
    struct model_sorted *sorted = &rows.sorted;
    assert_ok(sorted->vt->open(sorted, 0, &(struct model_sorted_filter){0}));
    assert_ok(sorted->vt->begin(sorted, 0, false));
    for (uint32_t i = 0; i < 100; i++) assert_ok(sorted->vt->next(sorted, &key, NULL));
    sorted->vt->close(sorted, 0); /* it waits for nobody */
    sorted_nodes_close(&rows);
    atomic_store(&net.shared_fails, ST_IO);
    all_end();
    for (uint32_t n = 1; n < NODES; n++) {
        assert_int_equal(served[n].code, ST_IO);
        assert_string_equal(served[n].message, "node 0: the disk is full");
    }
}

static void sorted__rows_without_scores_by_score__refused(void **state)
{
    (void)state;
    struct model_sorted_own own;
    ends_open(1);
    rows_insert();
    assert_ok(model_sorted_own_open(&own, &ends[2].model));
    assert_int_equal(own.sorted.vt->open(&own.sorted, 1, &(struct model_sorted_filter){true, 1}), ST_INVALID);
    model_sorted_own_close(&own);
    post_start(&net);
    all_close();
}

/* --- what is none ------------------------------------------------------------------------------- */

/* Two rows, the second of which has a lesser key; or a third one. */
static bool has_third;

static void *hostile_main(void *context)
{
    struct end *end = context;
    uint64_t wish[2], words[3] = {2, 0, 0};
    end->st = reduce_hear_all(end->reduce, 0, wish, sizeof wish);
    if (end->st == ST_OK) end->st = reduce_say_all(end->reduce, 0, words, 2 * sizeof *words);
    if (end->st == ST_OK) end->st = reduce_hear_all(end->reduce, 0, wish, sizeof wish);
    memcpy(words, has_third ? (uint64_t[]){5, 9, 10} : (uint64_t[]){9, 5, 10}, sizeof words);
    if (end->st == ST_OK) end->st = reduce_say_all(end->reduce, 0, words, (has_third ? 3 : 2) * sizeof *words);
    return NULL;
}

static status rows_hear(struct model_sorted *sorted)
{
    uint64_t key;
    TRY(sorted->vt->open(sorted, 1, &(struct model_sorted_filter){0}));
    TRY(sorted->vt->begin(sorted, 1, false));
    for (uint64_t i = 0; i < sorted->table[1].row_count; i++) TRY(sorted->vt->next(sorted, &key, NULL));
    return ST_OK;
}

static void sorted__rows_out_of_order_or_too_many__refused(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 2; i++) {
        static struct sorted_nodes rows;
        has_third = i == 1;
        exchange_begin(i);
        assert_int_equal(pthread_create(&ends[1].thread, NULL, hostile_main, &ends[1]), 0);
        assert_int_equal(pthread_create(&ends[2].thread, NULL, serve_main, &ends[2]), 0);
        assert_ok(sorted_nodes_open(&rows, ends[0].reduce, &ends[0].model));
        assert_int_equal(rows_hear(&rows.sorted), ST_INVALID);
        assert_non_null(strstr(status_message(), has_third ? "node 1 sends more rows than it has"
                                                           : "node 1 sends rows that are not in order"));
        sorted_nodes_close(&rows);
        atomic_store(&net.shared_fails, ST_IO);
        all_end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sorted__tables_of_three_nodes__each_row_once_in_order),
        cmocka_unit_test(sorted__who_writes_fails__the_others_have_its_failure),
        cmocka_unit_test(sorted__rows_without_scores_by_score__refused),
        cmocka_unit_test(sorted__rows_out_of_order_or_too_many__refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* An owner's side of requests for rows: rows are made in the order of steps and askers, whenever letters
 * come; values are the store's; what a node asks out of turn, or twice, is refused. How rows are updated is
 * tested with whole trainings (test_reduce.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "engine/node/owned.h"
#include "io/store/store_rows.h"
#include "tests/engine/fixture_files.h"

static const char model_text[] = "[data]\nsparse = C1..C2\n"
                                 "[table emb]\ndim = 3\ninit = uniform 0.1\noptimizer = adagrad_row 0.05\n"
                                 "[embedding e]\ntable = emb\ninput = C1..C2\n"
                                 "[fc y]\ninput = e\nunits = 1\n"
                                 "[loss bce]\ninput = y\n"
                                 "[train]\nbatch = 12\nmicro = 3\nlanes = 4\n[store]\nram = 1MiB\n";

/* Node 0 has lane 0, node 1 has lanes 1 to 3: runs 1 and 2-3. */
static const struct fold_lanes runs[] = {{0, 1}, {1, 1}, {2, 2}};
static struct graph graph;
static struct model model;
static struct asked_shape shapes[2];
static struct owned *owned;

static void open_all(void)
{
    assert_ok(graph_compile(&graph, "test.cfg", model_text, strlen(model_text), NULL, 0, NULL));
    assert_ok(model_open(&model, &graph, &(struct model_budget){.ram_bytes = 1 << 20}));
    model_init(&model);
    for (uint32_t n = 0; n < 2; n++)
        shapes[n] = (struct asked_shape){
            .graph = &graph, .owner_count = 2, .example_max = n ? 9 : 3, .run_count = n ? 2 : 1, .shows = {true}};
    assert_ok(owned_open(
        &owned,
        &(struct owned_options){.graph = &graph, .model = &model, .node_count = 2, .shape = shapes, .runs = runs}));
    owned_start(owned, 5);
}

static void close_all(void)
{
    owned_close(owned);
    model_close(&model);
    graph_close(&graph);
}

/* A letter of `count` keys, of which the second occurs twice. */
static status letter_give(uint32_t asker, uint64_t step, const uint64_t *key, uint32_t count)
{
    uint32_t *at = (uint32_t *)owned_letter_place(owned, asker, step);
    uint64_t *to = (uint64_t *)at + 1;
    at[0] = count;
    at[1] = 0;
    memcpy(to, key, count * sizeof *to);
    for (uint32_t k = 0; k < count; k++) ((uint32_t *)(to + count))[k] = 1 + (k == 1);
    return owned_letter_arrived(owned, asker, step, 8 + count * 8u + (count * 4u + 7) / 8 * 8);
}

static void owned__letters_in_any_order__rows_by_step_and_asker(void **state)
{
    (void)state;
    open_all();
    assert_ok(letter_give(1, 5, (const uint64_t[]){30, 20, 40}, 3));
    assert_ok(letter_give(0, 6, (const uint64_t[]){50, 20}, 2)); /* a step ahead of the other node */
    assert_ok(owned_settle(owned, 5));
    assert_false(owned_is_settled(owned, 1, 5)); /* the first node's is not there */
    assert_int_equal(store_row_count(model.store, 0), 0);
    assert_ok(letter_give(0, 5, (const uint64_t[]){10, 20}, 2));
    assert_ok(owned_settle(owned, 5));
    assert_true(owned_is_whole(owned, 5) && owned_is_settled(owned, 0, 6) && !owned_is_settled(owned, 1, 6));
    static const uint64_t expected[] = {10, 20, 30, 40, 50};
    assert_int_equal(store_row_count(model.store, 0), 5);
    for (uint32_t r = 0; r < 5; r++) assert_int_equal(store_key(model.store, 0, r), expected[r]);
    assert_int_equal(owned_row_count(owned, 5)[0], 4);

    const struct step_rows *rows = owned_rows(owned, 5);
    static const uint32_t occurrences[] = {1, 2 + 2, 1, 1}, lanes[4][3] = {{0}, {0, 1, 2}, {1, 2}, {1, 2}},
                          lane_count[] = {1, 3, 2, 2};
    assert_int_equal(rows->row_count, 4);
    for (uint32_t r = 0; r < 4; r++) {
        assert_ptr_equal(rows->span[r], store_span(model.store, 0, r));
        assert_int_equal(rows->occurrence_count[r], occurrences[r]);
        uint32_t left = lane_count[r];
        for (uint32_t at = rows->last_lane_row[r]; at != ROW_NONE; at = rows->lane_rows[at].before)
            assert_int_equal(rows->lane_rows[at].lane, lanes[r][--left]);
        assert_int_equal(left, 0);
    }
    /* Key 20, second of the first node and second of the other, whose keys have two pieces each. */
    const float *pieces = owned_gradients(owned)->of_table[0];
    assert_ptr_equal(owned_pieces(owned, 0, 0), pieces);
    assert_int_equal(owned_pieces(owned, 1, 0) - pieces, 3 * 2 * 3);
    assert_int_equal(rows->last_lane_row[1], 6 + 2 * 1 + 1);

    float values[9], row[4];
    assert_int_equal(owned_floats(owned, 1, 5), 9);
    owned_values(owned, 1, 5, OWNED_ALL, false, values);
    for (uint32_t k = 0; k < 3; k++) {
        memset(row, 0, sizeof row);
        model_row_init(&model, 0, (const uint64_t[]){30, 20, 40}[k], row);
        assert_memory_equal(values + 3 * k, row, 3 * sizeof *row);
    }
    close_all();
}

/* Rows that the step before has, of whomever, wait for it; a key's bit goes by its place in the letter. */
static void owned_shared__rows_of_two_steps__those_of_both(void **state)
{
    (void)state;
    float values[12], row[4];
    size_t bytes;
    open_all();
    assert_ok(letter_give(0, 5, (const uint64_t[]){10, 20}, 2));
    assert_ok(letter_give(1, 5, (const uint64_t[]){30, 40}, 2));
    assert_ok(letter_give(0, 6, (const uint64_t[]){50, 20}, 2));
    assert_ok(letter_give(1, 6, (const uint64_t[]){40, 50, 60, 10}, 4)); /* 50: its own step's is none before */
    assert_ok(owned_settle(owned, 4));
    assert_int_equal(owned_shared(owned, 0, 6, &bytes)[0], 2);
    assert_int_equal(owned_shared(owned, 1, 6, &bytes)[0], 1 | 8);
    assert_int_equal(bytes, 8);
    assert_int_equal(owned_shared(owned, 0, 5, &bytes)[0], 0); /* the first step of all */
    assert_int_equal(owned_part_floats(owned, 1, 6, OWNED_EARLY), 6);
    assert_int_equal(owned_part_floats(owned, 1, 6, OWNED_SHARED), 6);
    for (uint32_t k = 0; k < 12; k++) values[k] = -1;
    owned_values(owned, 1, 6, OWNED_EARLY, true, values);
    for (uint32_t k = 0; k < 4; k++) {
        static const float none[3] = {-1, -1, -1};
        memset(row, 0, sizeof row);
        model_row_init(&model, 0, (const uint64_t[]){40, 50, 60, 10}[k], row);
        assert_memory_equal(values + 3 * k, k == 0 || k == 3 ? none : row, sizeof none);
    }
    owned_values(owned, 1, 6, OWNED_SHARED, false, values + 3);
    model_row_init(&model, 0, 10, row);
    assert_memory_equal(values + 6, row, 3 * sizeof *row);

    assert_ok(owned_step_end(owned, 5));
    assert_ok(letter_give(0, 7, (const uint64_t[]){10, 30}, 2)); /* what two steps before had does not count */
    assert_ok(owned_settle(owned, 6));
    assert_int_equal(owned_shared(owned, 0, 7, &bytes)[0], 1);
    owned_start(owned, 9);
    assert_ok(letter_give(0, 9, (const uint64_t[]){30, 10}, 2));
    assert_ok(owned_settle(owned, 8));
    assert_int_equal(owned_shared(owned, 0, 9, &bytes)[0], 0);
    assert_ok(letter_give(1, 9, (const uint64_t[]){10}, 1));
    assert_ok(letter_give(0, 10, (const uint64_t[]){10, 40}, 2));
    assert_ok(owned_settle(owned, 10));
    assert_int_equal(owned_shared(owned, 0, 10, &bytes)[0], 2); /* as of step 6: after the update nobody looks */
    close_all();
}

static void owned__out_of_turn_or_twice__refused(void **state)
{
    (void)state;
    open_all();
    assert_int_equal(letter_give(0, 7, (const uint64_t[]){1}, 1), ST_INVALID);
    assert_string_equal(status_message(), "node 0 asks for rows of step 7 while those of step 5 are asked for");
    assert_int_equal(letter_give(0, 4, (const uint64_t[]){1}, 1), ST_INVALID);
    assert_ok(letter_give(0, 5, (const uint64_t[]){1}, 1));
    assert_int_equal(letter_give(0, 5, (const uint64_t[]){1}, 1), ST_INVALID);
    *(uint32_t *)owned_letter_place(owned, 1, 5) = 19; /* of nine examples of two keys */
    assert_int_equal(owned_letter_arrived(owned, 1, 5, 8), ST_INVALID);
    assert_ok(letter_give(1, 5, (const uint64_t[]){2, 3, 2}, 3));
    assert_int_equal(owned_settle(owned, 5), ST_INVALID);
    assert_string_equal(status_message(), "a request for rows of table \"emb\" has a key twice; expected each once");
    close_all();
}

/* A ticket takes a micro-batch's six keys; those of other askers may be the same. */
static void owned_settle__key_twice_in_two_tickets__refused(void **state)
{
    (void)state;
    open_all();
    assert_ok(letter_give(0, 5, (const uint64_t[]){1, 2, 7, 8}, 4));
    assert_ok(letter_give(1, 5, (const uint64_t[]){1, 3, 4, 5, 6, 9, 7, 10}, 8));
    assert_ok(letter_give(0, 6, (const uint64_t[]){1, 2}, 2));
    assert_ok(letter_give(1, 6, (const uint64_t[]){1, 3, 4, 5, 6, 9, 7, 3}, 8));
    assert_int_equal(owned_settle(owned, 4), ST_INVALID);
    assert_string_equal(status_message(), "a request for rows of table \"emb\" has a key twice; expected each once");
    assert_true(owned_is_whole(owned, 5));
    close_all();
}

static void owned_settle__key_of_another_owner__refused(void **state)
{
    (void)state;
    static uint8_t owner_of[SHARD_COUNT];
    uint64_t key[] = {1, 2};
    open_all();
    for (uint32_t shard = 0; shard < SHARD_COUNT; shard++) owner_of[shard] = shard >= SHARD_COUNT / 2;
    model.share = (struct model_share){.owner = 1, .owner_count = 2, .owner_of = owner_of};
    while (owner_of[shard_of(key[0])] == 0) key[0]++;
    while (owner_of[shard_of(key[1])] == 1) key[1]++;
    assert_ok(letter_give(0, 5, key, 1));
    assert_ok(owned_settle(owned, 5));
    assert_ok(letter_give(1, 5, key, 2));
    assert_int_equal(owned_settle(owned, 5), ST_INVALID);
    assert_string_equal(status_message(),
                        "node 1 asks for a row of table \"emb\" whose owner is node 0; "
                        "expected rows of this node, which is node 1: they do not share rows in the same way");
    assert_int_equal(store_row_count(model.store, 0), 1);
    close_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(owned__letters_in_any_order__rows_by_step_and_asker),
        cmocka_unit_test(owned_shared__rows_of_two_steps__those_of_both),
        cmocka_unit_test(owned__out_of_turn_or_twice__refused),
        cmocka_unit_test(owned_settle__key_twice_in_two_tickets__refused),
        cmocka_unit_test(owned_settle__key_of_another_owner__refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

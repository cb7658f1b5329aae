/* Itineraries: what every policy owes, on structures of every form; counts that are known; the bound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "sched/trees/frontier.h"
#include "tests/sched/trees/trees_fixture.h"

/* Every policy; `expected` [BATCHING_ID_COUNT], and the bound; NULL: whatever is right. */
static void check_all(struct trees_fixture *f, uint32_t kind_count, const uint32_t *expected)
{
    uint32_t bound = itinerary_bound(&f->nodes, kind_count, &f->scratch);
    for (uint32_t id = 0; id < BATCHING_ID_COUNT; id++) {
        uint32_t count = batches(f, (batching_id)id, kind_count);
        itinerary_check(f);
        assert_in_range(bound, 0, count);
        if (expected && count != expected[id])
            fail_msg("%s: %u batches; expected %u", batching_table[id].name, count, expected[id]);
    }
    if (expected) assert_int_equal(bound, expected[BATCHING_ID_COUNT]);
}

#define EXPECT(...) ((const uint32_t[BATCHING_ID_COUNT + 1]){__VA_ARGS__})

static void itinerary__small_structures__have_known_counts(void **state)
{
    (void)state;
    struct trees_fixture f;
    fixture_open(&f, 64, 64);
    check_all(&f, 3, EXPECT(0, 0, 0, 0, 0)); /* nothing */
    put(&f, 0, 0, 0, 0);
    check_all(&f, 1, EXPECT(1, 1, 1, 1, 1));
    put(&f, 0, 0, 0, 0);
    put(&f, 1, 2, 0, 1);
    check_all(&f, 2, EXPECT(3, 2, 2, 2, 2)); /* a tree */
    put(&f, 1, 2, 2, 2);                     /* the same child twice */
    put(&f, 1, 2, 0, 2);                     /* several parents */
    check_all(&f, 2, EXPECT(5, 3, 3, 3, 3));
    put(&f, TREE_KINDS_MAX - 1, 2, 3, 4);
    check_all(&f, TREE_KINDS_MAX, EXPECT(6, 4, 4, 4, 4));
    fixture_clear(&f);
    for (uint32_t i = 0; i < 4; i++) put(&f, 0, 0, 0, 0); /* a forest of two, the second one higher by one */
    put(&f, 1, 2, 0, 1);
    put(&f, 2, 1, 2, 0);
    put(&f, 1, 2, 3, 5);
    check_all(&f, 3, EXPECT(7, 4, 4, 4, 3));
    fixture_clear(&f);
    put(&f, 0, 0, 0, 0); /* a node's first parent is not the one under the longest chain */
    put(&f, 1, 1, 0, 0);
    put(&f, 0, 1, 0, 0);
    put(&f, 0, 1, 2, 0);
    check_all(&f, 2, EXPECT(4, 4, 4, 4, 4));
    fixture_close(&f);
}

/* Kind 33 waits lower than kind 5, which then has two. */
static void itinerary__many_kinds__agenda_takes_the_lowest(void **state)
{
    (void)state;
    struct trees_fixture f;
    fixture_open(&f, 16, 16);
    put(&f, 0, 0, 0, 0);
    put(&f, 1, 1, 0, 0);
    put(&f, 33, 1, 0, 0);
    put(&f, 5, 1, 1, 0);
    put(&f, 5, 1, 2, 0);
    check_all(&f, 34, EXPECT(5, 4, 4, 4, 4));
    fixture_close(&f);
}

static void frontier_sight__equal_counts__most_is_the_first(void **state)
{
    (void)state;
    struct trees_fixture f;
    struct frontier frontier;
    fixture_open(&f, 16, 16);
    for (uint32_t i = 0; i < 5; i++) put(&f, (const uint8_t[]){2, 40, 40, 99, 99}[i], 0, 0, 0);
    put(&f, 3, 1, 0, 0);
    frontier_open(&frontier, &f.nodes, 100, &f.scratch);
    frontier_begin(&frontier);
    struct automaton_sight sight = frontier_sight(&frontier);
    const uint32_t kinds[KIND_WORDS] = {1 << 2, 1 << 8, 0, 1 << 3};
    assert_int_equal(sight.most, 40);
    assert_memory_equal(sight.kinds, kinds, sizeof kinds);
    frontier_take(&frontier, 40, 0, f.scratch.batch);
    assert_int_equal(frontier_sight(&frontier).most, 99);
    fixture_close(&f);
}

/* Chains a-b-a and b-a-b side by side: heights meet no equal kinds, the frontier does. */
static void itinerary__interleaved_chains__agenda_needs_half(void **state)
{
    (void)state;
    struct trees_fixture f;
    fixture_open(&f, 64, 64);
    for (uint32_t begin = 0; begin < 2; begin++)
        for (uint32_t i = 0; i < 10; i++) put(&f, (begin + i) % 2, i > 0, f.nodes.count - 1, 0);
    check_all(&f, 2, EXPECT(20, 20, 11, 11, 10));
    fixture_close(&f);
}

static void itinerary__order__is_as_expected(void **state)
{
    (void)state;
    struct trees_fixture f;
    fixture_open(&f, 16, 16);
    put(&f, 1, 0, 0, 0);
    put(&f, 0, 0, 0, 0);
    put(&f, 0, 2, 0, 1);
    put(&f, 1, 0, 0, 0);
    put(&f, 0, 2, 2, 3);
    const uint32_t order[] = {1, 0, 3, 2, 4}, begin[] = {0, 1, 3, 4, 5};
    const uint8_t kinds[] = {0, 1, 0, 0};
    for (batching_id id = BATCHING_ID_by_height; id < BATCHING_ID_COUNT; id++) {
        assert_int_equal(batches(&f, id, 2), 4);
        assert_memory_equal(f.itinerary.order, order, sizeof order);
        assert_memory_equal(f.itinerary.batch_begin, begin, sizeof begin);
        assert_memory_equal(f.itinerary.batch_kind, kinds, sizeof kinds);
    }
    fixture_close(&f);
}

static void itinerary__random_structures__every_policy_is_right(void **state)
{
    (void)state;
    struct trees_fixture f;
    struct draw d = draw_make(7, DRAW_TREES);
    fixture_open(&f, 2000, 6000);
    for (uint32_t round = 0; round < 300; round++) {
        uint32_t kind_count = round % 3 == 0 ? BINARY_KINDS : round % 3 == 1 ? MATH_KINDS : 1 + draw_below(&d, 100);
        fixture_clear(&f);
        for (uint32_t trees = draw_below(&d, 20), t = 0; t < trees; t++)
            if (round % 3 == 0)
                random_binary_add(&f.nodes, 1 + draw_below(&d, 50), &d);
            else if (round % 3 == 1)
                random_math_add(&f.nodes, f.value, 1 + draw_below(&d, 100), &d);
            else
                random_graph_add(&f.nodes, 1 + draw_below(&d, 100), kind_count, 1 + draw_below(&d, 30), &d);
        check_all(&f, kind_count, NULL);
    }
    fixture_close(&f);
}

static void itinerary__chain_of_100000__is_made(void **state)
{
    (void)state;
    const uint32_t count = 100000;
    struct trees_fixture f;
    fixture_open(&f, count, count);
    put(&f, 0, 0, 0, 0);
    for (uint32_t i = 1; i < count; i++) put(&f, 0, 1, i - 1, 0);
    check_all(&f, 1, EXPECT(count, count, count, count, count));
    fixture_clear(&f); /* and a root with as many children as a node has */
    uint32_t *children = malloc(TREE_CHILDREN_MAX * sizeof *children);
    for (uint32_t i = 0; i < TREE_CHILDREN_MAX; i++) children[i] = put(&f, i & 1, 0, 0, 0);
    tree_node_put(&f.nodes, 0, children, TREE_CHILDREN_MAX);
    check_all(&f, 2, EXPECT(TREE_CHILDREN_MAX + 1, 3, 3, 3, 3));
    free(children);
    fixture_close(&f);
}

/* Itineraries over graphs whose kinds are mixed: agenda needs fewer batches than heights, on average. */
static void itinerary__mixed_kinds__agenda_needs_fewer_than_heights(void **state)
{
    (void)state;
    uint32_t sum[2][BATCHING_ID_COUNT] = {{0}};
    struct trees_fixture f;
    struct draw d = draw_make(3, DRAW_TREES);
    fixture_open(&f, 4000, 6000);
    for (uint32_t round = 0; round < 100; round++) {
        fixture_clear(&f);
        if (round % 2)
            for (uint32_t t = 0; t < 25; t++) random_math_add(&f.nodes, f.value, 40 + t, &d);
        else
            random_graph_add(&f.nodes, 1000, GRAPH_KINDS, 50, &d);
        for (uint32_t id = 0; id < BATCHING_ID_COUNT; id++)
            sum[round % 2][id] += batches(&f, (batching_id)id, round % 2 ? MATH_KINDS : GRAPH_KINDS);
    }
    for (uint32_t family = 0; family < 2; family++) {
        printf("# %s: by height %u batches, agenda %u\n", family ? "MathFunc" : "three kinds",
               sum[family][BATCHING_ID_by_height], sum[family][BATCHING_ID_agenda]);
        assert_true(sum[family][BATCHING_ID_agenda] * 10 < sum[family][BATCHING_ID_by_height] * 9);
    }
    fixture_close(&f);
}

static void batching_find__a_name__is_found_or_refused_with_all_names(void **state)
{
    (void)state;
    batching_id id;
    for (uint32_t i = 0; i < BATCHING_ID_COUNT; i++) {
        assert_int_equal(batching_find(&id, batching_table[i].name), ST_OK);
        assert_int_equal(id, i);
    }
    assert_int_equal(batching_find(&id, "depth"), ST_USAGE);
    assert_string_equal(status_message(), "unknown batching \"depth\"; expected one of node, height, agenda, learned");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(itinerary__small_structures__have_known_counts),
        cmocka_unit_test(itinerary__many_kinds__agenda_takes_the_lowest),
        cmocka_unit_test(frontier_sight__equal_counts__most_is_the_first),
        cmocka_unit_test(itinerary__interleaved_chains__agenda_needs_half),
        cmocka_unit_test(itinerary__order__is_as_expected),
        cmocka_unit_test(itinerary__random_structures__every_policy_is_right),
        cmocka_unit_test(itinerary__chain_of_100000__is_made),
        cmocka_unit_test(itinerary__mixed_kinds__agenda_needs_fewer_than_heights),
        cmocka_unit_test(batching_find__a_name__is_found_or_refused_with_all_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Random structures: as many nodes as asked for, values in their bounds and as the
 * expressions say, repeatable. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "tests/sched/trees/trees_fixture.h"

/* Of a whole tree: every node but the last is one node's child, once. */
static void check_tree(const struct tree_nodes *nodes, uint32_t first)
{
    uint8_t *parents = calloc(nodes->count, 1);
    assert_non_null(parents);
    for (uint32_t e = nodes->child_begin[first]; e < nodes->child_begin[nodes->count]; e++) parents[nodes->child[e]]++;
    for (uint32_t i = first; i < nodes->count; i++) assert_int_equal(parents[i], i + 1 < nodes->count);
    free(parents);
}

static void random_binary_add__any_count__has_that_many_leaves(void **state)
{
    (void)state;
    struct trees_fixture f;
    struct draw d = draw_make(1, DRAW_TREES);
    fixture_open(&f, 4000, 4000);
    for (uint32_t leaves = 1; leaves < 60; leaves++) {
        uint32_t first = f.nodes.count, words = 0;
        random_binary_add(&f.nodes, leaves, &d);
        assert_int_equal(f.nodes.count - first, 2 * leaves - 1);
        check_tree(&f.nodes, first);
        for (uint32_t i = first; i < f.nodes.count; i++) {
            bool is_leaf = f.nodes.kind[i] == BINARY_LEAF;
            assert_int_equal(f.nodes.child_begin[i + 1] - f.nodes.child_begin[i], is_leaf ? 0 : 2);
            assert_int_equal(f.nodes.word[i], is_leaf ? words++ : TREE_NONE);
        }
    }
    fixture_close(&f);
}

/* An expression's value by recursion, and what it is made of. */
static double value_of(const struct tree_nodes *nodes, uint32_t node)
{
    const uint32_t begin = nodes->child_begin[node], end = nodes->child_begin[node + 1];
    double sum = 0, product = 1, last = 0;
    for (uint32_t e = begin; e < end; e++) {
        last = value_of(nodes, nodes->child[e]);
        sum += last;
        product *= last;
    }
    switch (nodes->kind[node]) {
    case MATH_CONSTANT:
        assert_int_equal(begin, end);
        assert_true(fabsf(nodes->number[node]) <= 2);
        return nodes->number[node];
    case MATH_SIN: assert_int_equal(end - begin, 1); return sin(last);
    case MATH_COS: assert_int_equal(end - begin, 1); return cos(last);
    case MATH_ADD: assert_in_range(end - begin, 2, 4); return sum;
    default:
        assert_int_equal(nodes->kind[node], MATH_MULTIPLY);
        assert_in_range(end - begin, 2, 4);
        return product;
    }
}

static void random_math_add__any_count__is_an_expression_within_its_bounds(void **state)
{
    (void)state;
    struct trees_fixture f;
    struct draw d = draw_make(2, DRAW_TREES);
    uint32_t full = 0, of_kind[MATH_KINDS] = {0};
    fixture_open(&f, 1000, 1000);
    for (uint32_t round = 0; round < 3000; round++) {
        uint32_t node_max = 1 + round % 128;
        fixture_clear(&f);
        random_binary_add(&f.nodes, 3, &d); /* others stand before it */
        uint32_t first = f.nodes.count, root;
        random_math_add(&f.nodes, f.value, node_max, &d);
        root = f.nodes.count - 1;
        assert_in_range(f.nodes.count - first, 1, node_max);
        full += f.nodes.count - first == node_max;
        check_tree(&f.nodes, first);
        for (uint32_t i = first; i < f.nodes.count; i++) {
            assert_true(fabs(f.value[i]) <= MATH_VALUE_MAX);
            of_kind[f.nodes.kind[i]]++;
        }
        assert_true(fabs(f.value[root] - value_of(&f.nodes, root)) < 1e-12);
    }
    printf("# 3000 expressions, %u of all nodes asked for; constants %u, sin %u, cos %u, + %u, * %u\n", full,
           of_kind[0], of_kind[1], of_kind[2], of_kind[3], of_kind[4]);
    assert_true(full > 1500);
    for (uint32_t k = 0; k < MATH_KINDS; k++) assert_true(of_kind[k] > 10000);
    fixture_close(&f);
}

static void random_math_add__most_nodes__is_made(void **state)
{
    (void)state;
    struct trees_fixture f;
    struct draw d = draw_make(3, DRAW_TREES);
    fixture_open(&f, MATH_NODES_MAX, MATH_NODES_MAX);
    random_math_add(&f.nodes, f.value, MATH_NODES_MAX, &d);
    check_tree(&f.nodes, 0);
    assert_true(fabs(f.value[f.nodes.count - 1] - value_of(&f.nodes, f.nodes.count - 1)) < 1e-12);
    fixture_close(&f);
}

static void random_graph_add__any_counts__children_come_before_and_within_reach(void **state)
{
    (void)state;
    struct trees_fixture f, again;
    fixture_open(&f, 1000, 3000);
    fixture_open(&again, 1000, 3000);
    for (uint32_t pass = 0; pass < 2; pass++) {
        struct draw d = draw_make(4, DRAW_TREES);
        struct tree_nodes *nodes = pass ? &again.nodes : &f.nodes;
        random_graph_add(nodes, 300, GRAPH_KINDS, 1, &d);
        random_graph_add(nodes, 600, TREE_KINDS_MAX, 30, &d);
    }
    uint32_t twice = 0;
    for (uint32_t i = 0; i < f.nodes.count; i++)
        for (uint32_t e = f.nodes.child_begin[i]; e < f.nodes.child_begin[i + 1]; e++) {
            uint32_t least = i < 300 ? 0 : 300, back = i < 300 ? 1 : 30;
            assert_in_range(f.nodes.child[e], i - least > back ? i - back : least, i - 1);
            twice += e > f.nodes.child_begin[i] && f.nodes.child[e] == f.nodes.child[e - 1];
        }
    assert_true(twice > 0);
    assert_int_equal(f.nodes.count, 900);
    assert_int_equal(again.nodes.count, 900);
    assert_memory_equal(f.nodes.kind, again.nodes.kind, 900);
    assert_memory_equal(f.nodes.child_begin, again.nodes.child_begin, 901 * sizeof(uint32_t));
    assert_memory_equal(f.nodes.child, again.nodes.child, f.nodes.child_begin[900] * sizeof(uint32_t));
    fixture_close(&f);
    fixture_close(&again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_binary_add__any_count__has_that_many_leaves),
        cmocka_unit_test(random_math_add__any_count__is_an_expression_within_its_bounds),
        cmocka_unit_test(random_math_add__most_nodes__is_made),
        cmocka_unit_test(random_graph_add__any_counts__children_come_before_and_within_reach),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What nodes of a graph's trees take: counted by hand for cells, by declared rates, and measured. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/bench/cell_times.h"
#include "graph/compiler.h"

/* Leaves of a wide word, inner nodes that only add. */
static const char uneven[] =
    "[data]\nformat = trees\nsparse = word, tree\nids_max = 9\nkinds = leaf, inner\n[train]\nbatch = 2\n"
    "optimizer = sgd 0.1\n[table emb]\ndim = 300\n[embedding e]\ntable = emb\ninput = word\npool = none\n"
    "[cell leaf]\nh = affine(x)\n[cell inner]\nh = left.h + right.h\n"
    "[tree t]\ninput = tree, e\nunits = 100\ndim = 300\nstate = h\n"
    "[fc y]\ninput = t\nunits = 1\n[loss l]\nkind = bce\ninput = y\n";
static const char text[] =
    "[data]\nformat = trees\nsparse = word, tree\nids_max = 9\nkinds = leaf, inner\n[train]\nbatch = 2\n"
    "optimizer = sgd 0.1\n[table emb]\ndim = 3\n[embedding e]\ntable = emb\ninput = word\npool = none\n"
    "[cell leaf]\nc = affine(x)\nh = tanh(c)\n"
    "[cell inner]\nc = tanh(affine(left.h, right.h)) * left.c\nh = tanh(c)\n"
    "[tree t]\ninput = tree, e\nunits = 5\ndim = 3\nstate = h, c\n"
    "[fc y]\ninput = t\nunits = 1\n[loss l]\nkind = bce\ninput = y\n";

static struct graph graph;

static int group_open(void **state)
{
    (void)state;
    if (graph_compile(&graph, "test.cfg", text, strlen(text), NULL, 0, NULL) == ST_OK) return 0;
    print_message("%s\n", status_message());
    return 1;
}

static int group_close(void **state)
{
    (void)state;
    graph_close(&graph);
    return 0;
}

static void place_cells__of_a_small_graph__are_counted(void **state)
{
    (void)state;
    struct place_cells c;
    uint32_t tree;
    assert_int_equal(place_cells_of_graph(&c, &tree, &graph, "test.cfg", 0, 4), ST_OK);
    assert_int_equal(graph.nodes[tree].op, OP_ID_tree);
    assert_int_equal(c.kind_count, 2);
    assert_int_equal(c.units, 5);
    assert_int_equal(c.children[0], 0);
    assert_int_equal(c.children[1], 2);
    assert_float_equal(c.work[0].weight_bytes, (3 + 1) * 5 * 4, 0);
    assert_float_equal(c.work[1].weight_bytes, (10 + 1) * 5 * 4, 0);
    /* Products, and at least a step of 5 numbers for each function and product of two. */
    assert_true(c.work[0].flops >= 2 * 3 * 5 + 5 && c.work[0].flops <= 2 * 3 * 5 + 4 * 5);
    assert_true(c.work[1].flops >= 2 * 10 * 5 + 3 * 5 && c.work[1].flops <= 2 * 10 * 5 + 6 * 5);
    assert_float_equal(c.work[2].flops, 2 * 5 * 4, 0);
    assert_float_equal(c.value_bytes, 2 * 5 * 4, 0); /* h, c */
    assert_float_equal(c.word_bytes[0], 3 * 4, 0);
    assert_float_equal(c.word_bytes[1], 0, 0);
    assert_int_equal(place_cells_of_graph(&c, &tree, &graph, "test.cfg", 50, 4), ST_OK);
    assert_float_equal(c.work[1].weight_bytes, (100 + 1) * 50 * 4, 0);
}

static void place_seconds_declare__rates__are_the_longer_of_both(void **state)
{
    (void)state;
    const struct cluster_rates rates = {.flops = 100,
                                        .memory_bandwidth = 10,
                                        .link_bandwidth = 4,
                                        .batch_overhead = 3,
                                        .link_latency = 0.5},
                               *of[] = {&(struct cluster_rates){.link_bandwidth = 8}, &rates, &rates};
    const struct place_work products = {.flops = 1000, .moved_bytes = 1, .weight_bytes = 50},
                            moves = {.flops = 1, .moved_bytes = 10, .weight_bytes = 50};
    const struct place_cells cells = {.kind_count = 1, .value_bytes = 8, .root_bytes = 4, .word_bytes = {12}};
    double seconds[PLACE_SIZES];
    struct place_machine m = {.device_count = 3};
    place_seconds_declare(seconds, &products, &rates);
    assert_float_equal(seconds[0], 3 + 10, 1e-12);
    assert_float_equal(seconds[3], 3 + 80, 1e-12);
    place_seconds_declare(seconds, &moves, &rates);
    assert_float_equal(seconds[0], 3 + 6, 1e-12);
    assert_float_equal(seconds[3], 3 + 13, 1e-12);
    place_links_declare(&m, &cells, false, of);
    assert_float_equal(m.link[0][1].latency, 0.5, 0);
    assert_float_equal(m.link[0][1].a_byte, 0.25, 0);
    assert_float_equal(m.link[2][0].a_byte, 0.25, 0);
    assert_float_equal(m.link[1][2].latency, 1, 0);
    assert_float_equal(m.link[1][2].a_byte, 0.5, 0);
    assert_float_equal(m.bytes[0], 8, 0);
    assert_float_equal(m.input_bytes[0], 12, 0);
    assert_float_equal(m.root_bytes, 4, 0);
}

static void cell_times_measure__many_together__take_less_each(void **state)
{
    (void)state;
    double seconds[PLACE_KINDS_MAX][PLACE_SIZES] = {{0}};
    struct place_cells c;
    struct graph g;
    struct cell_times_options o = {.graph = &g, .cells = &c, .threads = 1, .seconds = 0.4};
    assert_int_equal(graph_compile(&g, "test.cfg", uneven, strlen(uneven), NULL, 0, NULL), ST_OK);
    assert_int_equal(place_cells_of_graph(&c, &o.tree, &g, "test.cfg", 0, 4), ST_OK);
    assert_int_equal(cell_times_measure(seconds, &o), ST_OK);
    for (uint32_t k = 0; k < 2; k++) {
        assert_true(seconds[k][0] > 0 && seconds[k][PLACE_SIZES - 1] < 100);
        for (uint32_t i = 1; i < PLACE_SIZES; i++) assert_true(seconds[k][i] >= seconds[k][i - 1]);
        assert_true(seconds[k][PLACE_SIZES - 1] > 16 * seconds[k][0]);
    }
    print_message("    256 leaves %.1f us, as many inner nodes %.1f us\n", seconds[0][8] * 1e6, seconds[1][8] * 1e6);
    /* The leaves below the inner nodes are not counted with these. */
    assert_true(seconds[1][8] < 0.7 * seconds[0][8]);
    c.children_min[0] = 1;
    assert_int_equal(cell_times_measure(seconds, &o), ST_INVALID);
    assert_string_equal(status_message(), "expected a [cell] whose nodes need no children, found none");
    graph_close(&g);
}

/* Of a graph that trains node by node a launch has as many nodes, too. */
static void cell_times_measure__batching_of_the_graph__does_not_matter(void **state)
{
    (void)state;
    static const char *const set[] = {"t.batching=node"};
    double together[PLACE_KINDS_MAX][PLACE_SIZES] = {{0}}, alone[PLACE_KINDS_MAX][PLACE_SIZES] = {{0}};
    struct place_cells c;
    struct graph g;
    struct cell_times_options o = {.cells = &c, .threads = 1, .seconds = 0.2};
    assert_int_equal(place_cells_of_graph(&c, &o.tree, &graph, "test.cfg", 0, 4), ST_OK);
    assert_int_equal(graph_compile(&g, "test.cfg", text, strlen(text), set, 1, NULL), ST_OK);
    bool is_alike = false;
    for (uint32_t turn = 0; turn < 5 && !is_alike; turn++) { /* the machine may stop during one of them */
        o.graph = &graph;
        assert_int_equal(cell_times_measure(together, &o), ST_OK);
        o.graph = &g;
        assert_int_equal(cell_times_measure(alone, &o), ST_OK);
        is_alike = alone[0][8] < 2 * together[0][8] && alone[1][8] < 2 * together[1][8];
        for (uint32_t k = 0; k < 2; k++)
            print_message("    256 nodes of kind %u: %.1f us, of the other graph %.1f us\n", k, together[k][8] * 1e6,
                          alone[k][8] * 1e6);
    }
    assert_true(is_alike);
    graph_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(place_cells__of_a_small_graph__are_counted),
        cmocka_unit_test(place_seconds_declare__rates__are_the_longer_of_both),
        cmocka_unit_test(cell_times_measure__many_together__take_less_each),
        cmocka_unit_test(cell_times_measure__batching_of_the_graph__does_not_matter),
    };
    return cmocka_run_group_tests(tests, group_open, group_close);
}

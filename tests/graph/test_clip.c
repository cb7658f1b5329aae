/* Blocks of parameters whose gradients' norm is bounded, and the scale that bounds it;
 * and what labels losses take. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "graph/clip.h"
#include "graph/op_rules.h"
#include "tests/graph/rig.h"

static void compile(struct graph *g, const char *text)
{
    if (graph_compile(g, "m.cfg", text, strlen(text), NULL, 0, NULL) != ST_OK) fail_msg("%s", status_message());
}

/* h has 13 x 700 weights: two blocks of 4,096 and one of 908, and one of its biases; s uses
 * those of h and has none of its own. */
#define MODEL                                                                                                          \
    "[data]\ndense = I1..I13\n[fc h]\ninput = dense\nunits = 700\n[fc s]\ninput = dense\nunits = 700\nshare = h\n"     \
    "[add a]\ninput = h, s\n[batch_norm n]\ninput = a\n[fc y]\ninput = n\nunits = 1\n[loss l]\ninput = y\n"

static const struct graph_tensor *param_of(const struct graph *g, const char *name)
{
    for (uint32_t t = 0; t < g->tensor_count; t++)
        if (g->tensors[t].kind == TENSOR_PARAM && strcmp(graph_string(g, g->tensors[t].name), name) == 0)
            return &g->tensors[t];
    fail_msg("no parameter %s", name);
    return NULL;
}

static void clip_blocks_list__parameters__in_blocks_of_4096_and_what_is_left(void **state)
{
    (void)state;
    struct graph g;
    struct param_block blocks[16];
    compile(&g, MODEL "[train]\nclip_norm = 2\n");
    assert_non_null(clip_optimizer(&g));
    assert_true(clip_optimizer(&g)->clip_norm == 2);
    const uint32_t count = clip_blocks_list(&g, 0, g.forward_count, NULL);
    assert_in_range(count, 8, 16);
    memset(blocks, 0, sizeof blocks);
    assert_int_equal(clip_blocks_list(&g, 0, g.forward_count, blocks), count);
    const uint64_t weight = param_of(&g, "h.weight")->offset;
    const struct param_block expected[] = {
        {weight, 4096}, {weight + 4096, 4096}, {weight + 8192, 908}, {param_of(&g, "h.bias")->offset, 700}};
    for (size_t i = 0; i < 4; i++) assert_memory_equal(&blocks[i], &expected[i], sizeof *blocks);
    uint64_t floats = 0, owned = 0;
    for (uint32_t i = 0; i < count; i++) {
        assert_in_range(blocks[i].count, 1, 4096);
        floats += blocks[i].count;
    }
    for (uint32_t t = 0; t < g.tensor_count; t++)
        if (g.tensors[t].kind == TENSOR_PARAM && g.tensors[t].update == 0 && !g.tensors[t].is_alias)
            owned += (uint64_t)g.tensors[t].rows * g.tensors[t].cols;
    assert_int_equal(floats, owned);
    /* Of a part of the nodes: the second half's are those behind the first half's. */
    for (uint32_t cut = 0; cut <= g.forward_count; cut++) {
        struct param_block some[16];
        const uint32_t first = clip_blocks_list(&g, 0, cut, some);
        assert_int_equal(first + clip_blocks_list(&g, cut, g.forward_count, some + first), count);
        assert_memory_equal(some, blocks, count * sizeof *blocks);
    }
    graph_close(&g);
    compile(&g, MODEL);
    assert_null(clip_optimizer(&g));
    assert_int_equal(clip_blocks_list(&g, 0, g.forward_count, blocks), 0);
    graph_close(&g);
    compile(&g, "[data]\nsparse = C1\n[table t]\ndim = 1\nclip_norm = 1\n[embedding e]\ntable = t\ninput = C1\n"
                "[loss l]\ninput = e\n[train]\nclip_norm = 3\n");
    assert_null(clip_optimizer(&g)); /* rows alone */
    graph_close(&g);
}

static void clip_scale__squares__bounds_the_norm_of_the_mean(void **state)
{
    (void)state;
    const struct graph_optimizer o = {.clip_norm = 2};
    const double small[] = {9, 7}, edge[] = {256, 768}, large[] = {1600, 0, 900};
    /* Over ten examples norms of 0.4, 3.2, 5: the first is less than 2. */
    assert_true(clip_scale(&o, 0.1f, small, 2) == 0.1f);
    assert_true(clip_scale(&o, 0.1f, NULL, 0) == 0.1f);
    assert_true(fabs((double)clip_scale(&o, 0.1f, edge, 2) - 2 / 32.0) < 1e-6);
    assert_true(fabs((double)clip_scale(&o, 0.1f, large, 3) - 2 / 50.0) < 1e-6);
    assert_true(fabs((double)clip_scale(&o, 0.1f, large, 1) - 2 / 40.0) < 1e-6);
}

static void graph_label_range__losses_of_a_label__the_least_of_them(void **state)
{
    (void)state;
    struct graph g;
    compile(&g, "[data]\nformat = csv\nlabel = a, b, c, d\ndense = x, y\n[fc f]\ninput = dense\nunits = 1\n"
                "[fc five]\ninput = dense\nunits = 5\n[fc three]\ninput = dense\nunits = 3\n"
                "[loss l1]\ninput = f\nlabel = a\n[loss l2]\nkind = squared\ninput = f\nlabel = b\n"
                "[loss l3]\nkind = softmax\ninput = five\nlabel = c\n[loss l4]\nkind = softmax\ninput = three\n"
                "label = d\n[loss l5]\nkind = softmax\ninput = five\nlabel = d\n[metric m]\ninput = five\nlabel = c\n");
    static const struct label_range expected[] = {{.max = 1, .is_class = false},
                                                  {.max = 0, .is_class = false},
                                                  {.max = 4, .is_class = true},
                                                  {.max = 2, .is_class = true}};
    for (uint32_t i = 0; i < 4; i++) {
        const struct label_range found = graph_label_range(&g, i);
        assert_true(found.max == expected[i].max && found.is_class == expected[i].is_class);
    }
    graph_close(&g);
}

/* The status of the first head whose label of example 2 is `y`. */
static status label_checked(const struct graph *g, float y)
{
    struct rig r;
    status st = ST_OK;
    rig_open(&r, g, 1, 4);
    const uint32_t head = graph_head_next(g, 0);
    for (uint32_t b = 0; b < 4; b++) *view_row(op_in(&r.context, &g->nodes[head], 1), b) = b == 2 ? y : 0;
    st = op_labels_check(&r.context, &g->nodes[head], "line", 100);
    rig_close(&r);
    return st;
}

static void op_labels_check__labels__within_their_range(void **state)
{
    (void)state;
    struct graph g;
    compile(&g, "[data]\ndense = I1..I2\n[fc f]\ninput = dense\nunits = 1\n[loss l]\ninput = f\n"
                "[train]\nbatch = 4\nmicro = 4\n");
    assert_int_equal(label_checked(&g, 0), ST_OK);
    assert_int_equal(label_checked(&g, 0.25f), ST_OK);
    assert_int_equal(label_checked(&g, 1), ST_OK);
    assert_int_equal(label_checked(&g, 1.001f), ST_INVALID);
    assert_non_null(strstr(status_message(), "line 102: label \"label\" of [loss l] is 1.001; expected 0 to 1"));
    assert_int_equal(label_checked(&g, -0.001f), ST_INVALID);
    assert_int_equal(label_checked(&g, NAN), ST_INVALID);
    graph_close(&g);
    compile(&g, "[data]\ndense = I1..I2\n[fc f]\ninput = dense\nunits = 3\n[loss l]\nkind = softmax\ninput = f\n"
                "[train]\nbatch = 4\nmicro = 4\n");
    assert_int_equal(label_checked(&g, 2), ST_OK);
    assert_int_equal(label_checked(&g, 3), ST_INVALID);
    assert_non_null(
        strstr(status_message(), "line 102: label \"label\" of [loss l] is 3; expected the number of a class, 0 to 2"));
    assert_int_equal(label_checked(&g, 1.5f), ST_INVALID);
    assert_int_equal(label_checked(&g, -1), ST_INVALID);
    graph_close(&g);
    compile(&g, "[data]\ndense = I1..I2\n[fc f]\ninput = dense\nunits = 1\n[loss l]\nkind = squared\ninput = f\n"
                "[train]\nbatch = 4\nmicro = 4\n");
    assert_int_equal(label_checked(&g, -1e9f), ST_OK);
    graph_close(&g);
}

static void loss_attr_check__numbers__within_their_bounds(void **state)
{
    (void)state;
    static const struct {
        float weight, margin, log_z;
        uint8_t corrects;
        const char *message;
    } cases[] = {{1, 1, 0, 0, NULL},
                 {0, 0, -100, 1, NULL},
                 {1e6f, 1e6f, 100, 1, NULL},
                 {-1, 1, 0, 0, "expected a weight of 0 to 1e6, found -1"},
                 {2e6f, 1, 0, 0, "expected a weight of 0 to 1e6, found 2e+06"},
                 {NAN, 1, 0, 0, "expected a weight of 0 to 1e6, found nan"},
                 {1, -1, 0, 0, "expected a margin of 0 to 1e6, found -1"},
                 {1, 2e6f, 0, 0, "expected a margin of 0 to 1e6, found 2e+06"},
                 {1, 1, -101, 0, "expected a log_z of -100 to 100, found -101"},
                 {1, 1, 101, 0, "expected a log_z of -100 to 100, found 101"},
                 {1, 1, 0, 2, "expected a flag of 0 or 1, found 2"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct loss_attr attr = {.weight = cases[i].weight,
                                 .margin = cases[i].margin,
                                 .log_z = cases[i].log_z,
                                 .corrects = cases[i].corrects};
        uint8_t bytes[NODE_ATTR_BYTES] = {0};
        memcpy(bytes, &attr, sizeof attr);
        assert_int_equal(loss_attr_check(bytes), cases[i].message ? ST_INVALID : ST_OK);
        if (cases[i].message && strstr(status_message(), cases[i].message) == NULL) fail_msg("%s", status_message());
        assert_true(loss_attr_of(bytes).log_z == cases[i].log_z);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clip_blocks_list__parameters__in_blocks_of_4096_and_what_is_left),
        cmocka_unit_test(clip_scale__squares__bounds_the_norm_of_the_mean),
        cmocka_unit_test(graph_label_range__losses_of_a_label__the_least_of_them),
        cmocka_unit_test(op_labels_check__labels__within_their_range),
        cmocka_unit_test(loss_attr_check__numbers__within_their_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}

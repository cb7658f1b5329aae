/* Trees, many nodes together, against the reference, which computes node by node: of every instruction set
 * that runs here, by teams whose bytes are the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/device/cpu/cpu_device.h"
#include "graph/automaton.h"
#include "graph/tree_frame.h"
#include "tests/engine/device/cpu/kernel_check.h"
#include "tests/graph/rig.h"
#include "tests/graph/tree_texts.h"

#define SEED      11
#define POLICIES  4u
#define TOLERANCE 1e-4 /* of sums of some thousand terms, in another order */

/* Wide enough for whole tiles of products. */
static const struct op_text wide = {
    "wide",
    "[data]\nformat = trees\nsparse = word, tree\nids_max = 60\nkinds = leaf, inner\n[train]\nbatch = 9\n"
    "optimizer = sgd 0.1\nseed = 5\n[table emb]\ndim = 21\n[embedding e]\ntable = emb\ninput = word\npool = none\n" LEAF
    "[cell inner]\nu = tanh(affine(left.h, right.h))\n"
    "c = u * sigmoid(affine(left.h, right.h)) + left.c * sigmoid(affine(left.h, right.h)) "
    "+ right.c * sigmoid(affine(left.h, right.h))\nh = tanh(c)\n"
    "[tree h]\ninput = tree, e\nunits = 70\ndim = 21\nstate = h, c\ngives = nodes\n" OUT};

static void run(struct rig *r, struct device *device)
{
    const struct graph *g = r->g;
    memset(r->slot, 0xff, g->header->slot_bytes);
    assert_int_equal(device_submit(device, &r->context, g->nodes, g->forward_count), ST_OK);
    assert_int_equal(device_submit(device, &r->context, g->nodes + g->forward_count, g->node_count - g->forward_count),
                     ST_OK);
}

static void compare(const char *what, const struct rig *r, const struct rig *expected, double tolerance)
{
    const struct graph *g = r->g;
    char name[128];
    const uint32_t loss = graph_loss_next(g, 0); /* their arguments may lie elsewhere */
    struct view out = op_out(&r->context, &g->nodes[loss]),
                out_expected = op_out(&expected->context, &expected->g->nodes[loss]);
    snprintf(name, sizeof name, "%s, loss", what);
    floats_compare(name, out.data, out_expected.data, out.rows, 1, out.stride, tolerance);
    snprintf(name, sizeof name, "%s, parameters", what);
    floats_compare(name, r->param_grad, expected->param_grad, 1, g->header->grad_floats, g->header->grad_floats,
                   tolerance);
    for (uint32_t i = 0; i < g->lookup_count; i++) {
        size_t floats = (size_t)r->ticket.table[0].unique_count * g->tables[0].dim;
        snprintf(name, sizeof name, "%s, rows", what);
        floats_compare(name, r->table_grad[i], expected->table_grad[i], 1, floats, floats, tolerance);
    }
}

/* An automaton that takes the last of the ready kinds where there are several. */
static status last_kinds(void *context, const char *tree, uint32_t kind_count, uint32_t *words, size_t *word_count)
{
    (void)context, (void)tree;
    words[0] = kind_count;
    *word_count = 1;
    for (uint32_t kinds = 1; kinds < 1u << kind_count; kinds++)
        for (uint32_t most = 0; most < kind_count; most++)
            if (kinds >> most & 1)
                automaton_put(words, word_count, &(struct automaton_sight){{kinds}, most},
                              31 - (uint32_t)__builtin_clz(kinds));
    return ST_OK;
}

/* Compiles a text whose trees are batched by `policy`. */
static void text_compile(struct graph *g, const struct op_text *text, const char *policy)
{
    static const char *const names[] = {"h", "t", "a", "b"};
    const struct graph_source source = {.automaton = last_kinds};
    char sets[4][32];
    const char *list[4];
    uint32_t count = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char header[16];
        snprintf(header, sizeof header, "[tree %s]", names[i]);
        if (strstr(text->text, header) == NULL) continue;
        snprintf(sets[count], sizeof sets[count], "%s.batching=%s", names[i], policy);
        list[count] = sets[count];
        count++;
    }
    assert_true(count > 0);
    if (graph_compile(g, "test.cfg", text->text, strlen(text->text), list, count, &source) != ST_OK)
        fail_msg("%s", status_message());
}

/* Against the reference; by every team and every policy of batching the same bytes. */
static void text_check(const struct op_text *text, uint32_t examples, uint64_t seed)
{
    static const char *const policies[POLICIES] = {"height", "agenda", "node", "learned"};
    struct graph g[POLICIES];
    struct rig expected;
    for (uint32_t p = 0; p < POLICIES; p++) text_compile(&g[p], text, policies[p]);
    rig_open(&expected, &g[0], seed, examples);
    rig_forward(&expected);
    rig_backward(&expected);
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        struct rig first;
        if (!isa_runs_here((enum isa)isa)) continue;
        for (uint32_t turn = 0; turn < POLICIES * MEMBERS_TRIED; turn++) {
            const uint32_t members = members_tried[turn / POLICIES], p = turn % POLICIES;
            struct device *device;
            struct rig r;
            char what[96];
            snprintf(what, sizeof what, "%s of %u, %s by %u, %s", text->name, examples, isa_names[isa], members,
                     policies[p]);
            rig_open(&r, &g[p], seed, examples);
            assert_int_equal(cpu_device_open(&device, &g[p], members, NULL, isa_names[isa]), ST_OK);
            run(&r, device);
            device_close(device);
            compare(what, &r, &expected, TOLERANCE);
            if (turn > 0) compare(what, &r, &first, EXACT);
            if (turn > 0) rig_close(&r);
            if (turn == 0) first = r, first.context.tensor = r.tensor;
        }
        rig_close(&first);
    }
    rig_close(&expected);
    for (uint32_t p = 0; p < POLICIES; p++) graph_close(&g[p]);
}

static void tree__every_text__equals_reference(void **state)
{
    (void)state;
    for (size_t i = 0; i < TREE_TEXT_COUNT; i++)
        for (uint32_t examples = 1; examples <= 6; examples += 5) text_check(&tree_texts[i], examples, SEED + i);
}

static void tree__whole_tiles__equals_reference(void **state)
{
    (void)state;
    text_check(&wide, 9, SEED);
}

/* Batches of the first tree's nodes after a forward pass, and its gradients' begin,
 * which finds what has been saved. */
static uint32_t batches_of(const struct graph *g, uint64_t seed)
{
    struct rig r;
    struct device *device;
    struct tree_run run;
    uint32_t node = 0;
    while (g->nodes[node].op != OP_ID_tree) node++;
    rig_open(&r, g, seed, 6);
    assert_int_equal(cpu_device_open(&device, g, 1, NULL, isa_names[isa_best()]), ST_OK);
    assert_int_equal(device_submit(device, &r.context, g->nodes, g->forward_count), ST_OK);
    device_close(device);
    tree_backward_begin(&run, &r.context, &g->nodes[node]);
    const uint32_t batches = *run.frame.batch_count;
    rig_close(&r);
    return batches;
}

/* An automaton is asked, and what it says is taken where it is shorter. */
static void tree__learned_batches__are_fewer_or_agendas(void **state)
{
    (void)state;
    struct graph learned, agenda;
    uint32_t fewer = 0;
    text_compile(&learned, &tree_texts[2], "learned");
    text_compile(&agenda, &tree_texts[2], "agenda");
    for (uint64_t seed = 1; seed <= 60; seed++) {
        const uint32_t by_automaton = batches_of(&learned, seed), by_agenda = batches_of(&agenda, seed);
        assert_true(by_automaton > 0 && by_automaton <= by_agenda);
        fewer += by_automaton < by_agenda;
    }
    printf("# fewer batches in %u of 60\n", fewer);
    assert_in_range(fewer, 1, 59);
    graph_close(&learned);
    graph_close(&agenda);
}

/* A graph of 15 nodes, each but the first over three of those before: more edges than nodes. */
static void graph_put(struct rig *r)
{
    struct micro_batch *m = &r->m;
    uint32_t count = 1;
    m->key = realloc(m->key, 60 * sizeof *m->key);
    assert_non_null(m->key);
    m->key[0] = tree_key(0, 0, false, 0.5f);
    for (uint32_t node = 1; node < 15; node++) {
        for (uint32_t c = 0; c < 3; c++) m->key[count++] = tree_key_again((node * (c + 3) + c) % node);
        m->key[count++] = tree_key(node % 3, 3, false, 0.25f);
    }
    m->key_begin[1] = m->key_count = count;
}

static void tree__more_edges_than_nodes__same_by_every_policy(void **state)
{
    (void)state;
    static const struct op_text text = {
        "graph", "[data]\nformat = trees\nsparse = tree\nids_max = 60\nkinds = a, b, c\n[train]\nbatch = 1\n"
                 "[cell a]\nv = number + sum(child.v) * 0.3\n[cell b]\nv = tanh(affine(left.v) + sum(child.v))\n"
                 "[cell c]\nv = sin(sum(child.v))\n[tree h]\ninput = tree\nunits = 5\nstate = v\ngives = nodes\n" OUT};
    static const char *const policies[POLICIES] = {"height", "agenda", "node", "learned"};
    struct graph g[POLICIES];
    struct rig r[POLICIES];
    for (uint32_t p = 0; p < POLICIES; p++) {
        struct device *device;
        text_compile(&g[p], &text, policies[p]);
        rig_open(&r[p], &g[p], SEED, 1);
        graph_put(&r[p]);
        assert_int_equal(cpu_device_open(&device, &g[p], 2, NULL, isa_names[isa_best()]), ST_OK);
        run(&r[p], device);
        device_close(device);
        assert_false(isnan(op_out(&r[p].context, &g[p].nodes[graph_loss_next(&g[p], 0)]).data[0]));
        compare(policies[p], &r[p], &r[0], EXACT);
    }
    for (uint32_t p = 0; p < POLICIES; p++) rig_close(&r[p]), graph_close(&g[p]);
}

/* Keys that are no trees give NaN. */
static void tree__strange_keys__are_not_a_number(void **state)
{
    (void)state;
    const struct op_text *text = &tree_texts[0];
    struct graph g;
    struct rig r;
    assert_int_equal(graph_compile(&g, "test.cfg", text->text, strlen(text->text), NULL, 0, NULL), ST_OK);
    rig_open(&r, &g, SEED, 3);
    r.m.key[r.m.key_begin[g.field_count + 1]] = tree_key(1, 2, false, 0); /* two children of a first node */
    struct device *device;
    assert_int_equal(cpu_device_open(&device, &g, 1, NULL, isa_names[isa_best()]), ST_OK);
    assert_int_equal(device_submit(device, &r.context, g.nodes, g.forward_count), ST_OK);
    device_close(device);
    uint32_t node = 0;
    while (g.nodes[node].op != OP_ID_tree) node++;
    struct view out = op_out(&r.context, &g.nodes[node]);
    assert_true(!isnan(out.data[0]) && isnan(out.data[out.stride]) && !isnan(out.data[2 * out.stride]));
    rig_close(&r);
    graph_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tree__every_text__equals_reference),
        cmocka_unit_test(tree__whole_tiles__equals_reference),
        cmocka_unit_test(tree__learned_batches__are_fewer_or_agendas),
        cmocka_unit_test(tree__more_edges_than_nodes__same_by_every_policy),
        cmocka_unit_test(tree__strange_keys__are_not_a_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}

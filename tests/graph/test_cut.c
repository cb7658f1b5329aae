/* What crosses a cut: by hand for a chain and for a skip, and for every cut of a graph with towers and skips
 * by running it on two slots that share nothing but what the lists say: then the gradients are those of one
 * slot, and without any one of the tensors they are not. What a stage takes and gives: from the cuts around
 * it, for every stage of that graph. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/crossing.h"
#include "graph/cut.h"
#include "tests/graph/rig.h"

#define EXAMPLES 3u
#define SEED     17u

static void compile(struct graph *g, const char *text)
{
    if (graph_compile(g, "test.cfg", text, strlen(text), NULL, 0, NULL) != ST_OK) fail_msg("%s", status_message());
}

static uint32_t tensor_of(const struct graph *g, const char *name)
{
    for (uint32_t i = 0; i < g->tensor_count; i++)
        if (strcmp(graph_string(g, g->tensors[i].name), name) == 0) return i;
    fail_msg("no tensor %s", name);
    return GRAPH_NONE;
}

/* The names of tensors, "x h1". */
static const char *names(const struct graph *g, const uint32_t *tensors, uint32_t count)
{
    static char text[512];
    size_t used = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? " " : "",
                                 graph_string(g, g->tensors[tensors[i]].name));
    return text;
}

static void assert_cut(const struct graph *g, uint32_t layer, const char *forward_names, uint64_t forward_bytes,
                       const char *backward_names, uint64_t backward_bytes)
{
    uint32_t forward[64], backward[64], forward_count, backward_count;
    assert_true(g->tensor_count <= 64);
    struct cut cut, alone;
    assert_int_equal(graph_cut(g, layer, &cut, forward, &forward_count, backward, &backward_count), ST_OK);
    assert_string_equal(names(g, forward, forward_count), forward_names);
    assert_string_equal(names(g, backward, backward_count), backward_names);
    assert_int_equal(cut.forward_bytes, forward_bytes);
    assert_int_equal(cut.backward_bytes, backward_bytes);
    assert_int_equal(cut.micro_bytes, 0);
    assert_int_equal(graph_cut(g, layer, &alone, NULL, NULL, NULL, NULL), ST_OK);
    assert_memory_equal(&alone, &cut, sizeof cut);
}

static void graph_cut__chain__is_output_and_label_and_gradient(void **state)
{
    (void)state;
    struct graph g;
    compile(&g, "[data]\ndense = I1..I3\nsparse = C1, C2\nids_max = 2\n[table t]\ndim = 4\n"
                "[embedding e]\ntable = t\ninput = sparse\n"
                "[concat x]\ninput = e, dense\n"
                "[fc h]\ninput = x\nunits = 5\nactivation = relu\n"
                "[fc y]\ninput = h\nunits = 1\n[loss l]\ninput = y\n");
    assert_cut(&g, 0, "dense label e", 12 + 4 + 32, "d.e", 32);
    assert_cut(&g, 1, "label x", 4 + 44, "d.x", 44);
    assert_cut(&g, 2, "label h", 4 + 20, "d.h", 20);
    assert_cut(&g, 3, "label y", 4 + 4, "d.y", 4);
    assert_cut(&g, 4, "", 0, "", 0);
    graph_close(&g);
}

static void graph_cut__look_up_behind_it__sends_the_keys(void **state)
{
    (void)state;
    struct graph g;
    compile(&g, "[data]\ndense = I1..I3\nsparse = C1, C2\nids_max = 2\n[table t]\ndim = 4\n"
                "[fc d]\ninput = dense\nunits = 6\n"
                "[embedding e]\ntable = t\ninput = C2\n"
                "[concat x]\ninput = e, d\n"
                "[fc y]\ninput = x\nunits = 1\n[loss l]\ninput = y\n");
    assert_cut(&g, 0, "C2 label d", 2 * 8 + 4 + 24, "d.d", 24);
    /* A skip: d passes two cuts. */
    assert_cut(&g, 1, "label d e", 4 + 24 + 16, "d.d d.e", 24 + 16);
    assert_cut(&g, 2, "label x", 4 + 40, "d.x", 40);
    assert_int_equal(graph_cut_tensor_bytes(&g, tensor_of(&g, "C1")), 16);
    graph_close(&g);
}

/* A column that nobody trains behind the cut sends no gradient back, and one read by many is sent once. */
static void graph_cut__read_twice__is_sent_once(void **state)
{
    (void)state;
    struct graph g;
    compile(&g, "[data]\ndense = I1..I3\n"
                "[fc a]\ninput = dense\nunits = 2\n"
                "[fc b]\ninput = a\nunits = 2\n"
                "[concat x]\ninput = a, b, dense, a\n"
                "[fc y]\ninput = x\nunits = 1\n[loss l]\ninput = y\n");
    assert_cut(&g, 0, "dense label a", 12 + 4 + 8, "d.a", 8);
    assert_cut(&g, 1, "dense label a b", 12 + 4 + 8 + 8, "d.a d.b", 16);
    graph_close(&g);
}

/* --- two slots -------------------------------------------------------------------------------- */

static const char towers_text[] = "[data]\ndense = I1..I5\nsparse = C1..C5\nids_max = 2\n"
                                  "[train]\nbatch = 4\nmicro = 4\n"
                                  "[table s]\ndim = 3\n[table t]\ndim = 4\n"
                                  "[embedding e]\ntable = s\ninput = C1..C3\n"
                                  "[embedding w]\ntable = t\ninput = C4\npool = max\n"
                                  "[fc q]\ninput = e\nunits = 6\nactivation = tanh\n"
                                  "[batch_norm n]\ninput = q\n"
                                  "[fc p]\ninput = w\nunits = 6\nactivation = relu\n"
                                  "[dropout o]\ninput = p\nrate = 0.3\n"
                                  "[embedding e2]\ntable = s\ninput = C5\npool = mean\n"
                                  "[concat x]\ninput = n, o, e2, dense\n"
                                  "[fc h1]\ninput = x\nunits = 7\nactivation = leaky_relu\n"
                                  "[sigmoid g]\ninput = h1\n"
                                  "[busy z]\ninput = g\nrounds = 1\n"
                                  "[concat x2]\ninput = z, q, h1, dense, o\n"
                                  "[relu r]\ninput = x2\n"
                                  "[fc y]\ninput = r\nunits = 1\n[loss l]\ninput = y\n";

/* The slot and the input columns of a second device, full of NaN. */
struct second {
    uint8_t *slot;
    float *dense, *label;
    struct view *tensor;
    struct op_context context;
};
static void second_open(struct second *s, const struct rig *r)
{
    const struct graph *g = r->g;
    size_t dense_floats = (size_t)g->header->micro * g->header->dense_stride;
    *s = (struct second){.slot = rig_take(g->header->slot_bytes),
                         .dense = rig_take(dense_floats * sizeof(float)),
                         .label = rig_take((size_t)g->header->micro * g->label_count * sizeof(float)),
                         .tensor = rig_take(g->tensor_count * sizeof *s->tensor),
                         .context = r->context};
    memset(s->slot, 0xff, g->header->slot_bytes);
    memset(s->dense, 0xff, dense_floats * sizeof(float));
    memset(s->label, 0xff, g->header->micro * sizeof(float));
    for (uint32_t t = 0; t < g->tensor_count; t++) {
        s->tensor[t] = r->tensor[t];
        if (g->tensors[t].kind == TENSOR_ACTIVATION)
            s->tensor[t].data = (float *)(void *)(s->slot + g->tensors[t].offset);
        if (g->tensors[t].kind == TENSOR_DENSE) s->tensor[t].data = s->dense + g->tensors[t].offset;
        if (g->tensors[t].kind == TENSOR_LABEL) s->tensor[t].data = s->label + g->tensors[t].offset;
    }
    s->context.tensor = s->tensor;
}
static void second_close(struct second *s) { free(s->slot), free(s->dense), free(s->label), free(s->tensor); }

static void nodes_run(const struct op_context *c, enum graph_pass pass, uint32_t layer, bool is_behind)
{
    const struct graph *g = c->graph;
    for (uint32_t i = 0; i < g->node_count; i++) {
        const struct graph_node *n = &g->nodes[i];
        if (n->pass != pass || (n->layer > layer) != is_behind) continue;
        if (pass == PASS_FORWARD)
            op_table[n->op].forward(c, n);
        else
            op_table[n->op].backward(c, &g->nodes[n->other]);
    }
}

static void tensors_move(struct view *to, const struct view *from, const uint32_t *tensors, uint32_t count,
                         uint32_t but)
{
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t b = 0; from[tensors[i]].data != NULL && tensors[i] != but && b < from[tensors[i]].rows; b++)
            memcpy(to[tensors[i]].data + (size_t)b * to[tensors[i]].stride,
                   from[tensors[i]].data + (size_t)b * from[tensors[i]].stride, to[tensors[i]].cols * sizeof(float));
}

/* The examples' losses, which stay until the end of the forward pass. */
static void loss_copy(float *loss, const struct graph *g, const struct view *tensor)
{
    const struct graph_node *n = &g->nodes[graph_loss_next(g, 0)];
    memcpy(loss, tensor[g->args[n->arg_begin + n->input_count]].data, EXAMPLES * sizeof *loss);
}

/* What the passes leave: the loss, the parameters' gradients, the rows' gradients; malloc'd. */
static float *outcome(const struct rig *r, const float *loss, size_t *floats)
{
    const struct graph *g = r->g;
    uint32_t *lookups = rig_take(g->lookup_count * sizeof *lookups);
    float *all = rig_take((1u << 16) * sizeof *all);
    size_t used = 0;
    for (uint32_t b = 0; b < EXAMPLES; b++) all[used++] = loss[b];
    for (uint64_t i = 0; i < g->header->param_floats; i++) all[used++] = r->param_grad[i];
    for (uint32_t t = 0; t < g->table_count; t++) {
        uint32_t lookup_count = graph_table_lookups(g, t, lookups);
        size_t row_floats = (size_t)r->ticket.table[t].unique_count * g->tables[t].dim;
        for (uint32_t k = 0; k < lookup_count; k++, used += row_floats)
            memcpy(all + used, r->table_grad[lookups[k]], row_floats * sizeof(float));
    }
    assert_true(used <= 1u << 16);
    free(lookups);
    *floats = used;
    return all;
}

/* Whether the two slots give what one gives, when tensor `but` is not moved (GRAPH_NONE: all are). */
static bool same_on_two_slots(const struct graph *g, uint32_t layer, uint32_t but)
{
    struct rig one, two;
    struct second behind;
    uint32_t forward[128], backward[128], forward_count, backward_count;
    assert_true(g->tensor_count <= 128);
    struct cut cut;
    assert_int_equal(graph_cut(g, layer, &cut, forward, &forward_count, backward, &backward_count), ST_OK);
    rig_open(&one, g, SEED, EXAMPLES);
    float loss[2][EXAMPLES];
    rig_forward(&one);
    loss_copy(loss[0], g, one.tensor);
    rig_backward(&one);
    rig_open(&two, g, SEED, EXAMPLES);
    second_open(&behind, &two);
    memset(two.slot, 0xff, g->header->slot_bytes);
    nodes_run(&two.context, PASS_FORWARD, layer, false);
    tensors_move(behind.tensor, two.tensor, forward, forward_count, but);
    nodes_run(&behind.context, PASS_FORWARD, layer, true);
    loss_copy(loss[1], g, layer + 1 == g->layer_count ? two.tensor : behind.tensor);
    nodes_run(&behind.context, PASS_BACKWARD, layer, true);
    tensors_move(two.tensor, behind.tensor, backward, backward_count, but);
    nodes_run(&two.context, PASS_BACKWARD, layer, false);
    size_t floats, floats_two;
    float *expected = outcome(&one, loss[0], &floats), *found = outcome(&two, loss[1], &floats_two);
    assert_int_equal(floats, floats_two);
    bool is_same = memcmp(expected, found, floats * sizeof *found) == 0;
    free(expected);
    free(found);
    second_close(&behind);
    rig_close(&one);
    rig_close(&two);
    return is_same;
}

static void graph_cut__two_slots__need_all_that_is_listed_and_no_more(void **state)
{
    (void)state;
    struct graph g;
    uint32_t tensors = 0;
    compile(&g, towers_text);
    for (uint32_t layer = 0; layer < g.layer_count; layer++) {
        uint32_t forward[128], backward[128], forward_count, backward_count;
        struct cut cut;
        assert_int_equal(graph_cut(&g, layer, &cut, forward, &forward_count, backward, &backward_count), ST_OK);
        uint64_t forward_bytes = 0, backward_bytes = 0;
        if (!same_on_two_slots(&g, layer, GRAPH_NONE)) fail_msg("behind layer %u: the lists do not suffice", layer);
        for (uint32_t i = 0; i < forward_count; i++) {
            forward_bytes += graph_cut_tensor_bytes(&g, forward[i]);
            if (g.tensors[forward[i]].kind == TENSOR_FIELD) continue; /* both slots have the keys */
            if (same_on_two_slots(&g, layer, forward[i]))
                fail_msg("behind layer %u: %s is not needed", layer, graph_string(&g, g.tensors[forward[i]].name));
            tensors++;
        }
        for (uint32_t i = 0; i < backward_count; i++) {
            backward_bytes += graph_cut_tensor_bytes(&g, backward[i]);
            if (same_on_two_slots(&g, layer, backward[i]))
                fail_msg("behind layer %u: %s is not needed", layer, graph_string(&g, g.tensors[backward[i]].name));
            tensors++;
        }
        assert_int_equal(cut.forward_bytes, forward_bytes);
        assert_int_equal(cut.backward_bytes, backward_bytes);
        /* A field is sent as long as an embedding behind the cut reads it. */
        for (uint32_t node = 0; node < g.forward_count; node++) {
            if (g.nodes[node].op != OP_ID_embed_bag || g.nodes[node].layer <= layer) continue;
            for (uint32_t k = 0; k < g.nodes[node].input_count; k++) {
                bool is_sent = false;
                for (uint32_t i = 0; i < forward_count; i++)
                    is_sent |= forward[i] == g.args[g.nodes[node].arg_begin + k];
                assert_true(is_sent);
            }
        }
    }
    printf("# %u cuts, %u tensors left out one at a time\n", g.layer_count, tensors);
    graph_close(&g);
}

/* --- stages ----------------------------------------------------------------------------------- */

static bool list_has(const struct crossing *crossing, enum crossing_list list, uint32_t tensor)
{
    for (uint32_t i = 0; i < crossing->count[list]; i++)
        if (crossing->tensor[list][i] == tensor) return true;
    return false;
}

/* Whether nodes of the layers write the tensor on the way forward. */
static bool is_made(const struct graph *g, uint32_t first, uint32_t last, uint32_t tensor)
{
    for (uint32_t i = 0; i < g->forward_count; i++) {
        const struct graph_node *n = &g->nodes[i];
        const uint32_t *made = &g->args[n->arg_begin + n->input_count + n->param_count];
        for (uint32_t k = 0; k < n->output_count + n->saved_count && n->layer >= first && n->layer <= last; k++)
            if (made[k] == tensor) return true;
    }
    return false;
}

static void crossing_find__any_stage__agrees_with_the_cuts_around_it(void **state)
{
    (void)state;
    enum { FRONT_SENT, FRONT_RETURNED, BEHIND_SENT, BEHIND_RETURNED, CUT_LISTS };
    struct graph g;
    compile(&g, towers_text);
    for (uint32_t first = 0; first < g.layer_count; first++)
        for (uint32_t last = first; last < g.layer_count; last++) {
            uint32_t list[CUT_LISTS][128], count[CUT_LISTS] = {0}, losses = 0;
            bool has[CUT_LISTS][128] = {{false}};
            struct crossing crossing;
            assert_true(g.tensor_count <= 128);
            struct cut cut;
            if (first > 0)
                assert_int_equal(graph_cut(&g, first - 1, &cut, list[FRONT_SENT], &count[FRONT_SENT],
                                           list[FRONT_RETURNED], &count[FRONT_RETURNED]),
                                 ST_OK);
            assert_int_equal(graph_cut(&g, last, &cut, list[BEHIND_SENT], &count[BEHIND_SENT], list[BEHIND_RETURNED],
                                       &count[BEHIND_RETURNED]),
                             ST_OK);
            for (uint32_t l = 0; l < CUT_LISTS; l++)
                for (uint32_t i = 0; i < count[l]; i++) has[l][list[l][i]] = true;
            assert_int_equal(crossing_find(&crossing, &g, first, last), ST_OK);
            for (uint32_t t = 0; t < g.tensor_count; t++) {
                bool is_own = is_made(&g, first, last, t), is_activation = g.tensors[t].kind == TENSOR_ACTIVATION;
                assert_int_equal(list_has(&crossing, CROSSING_FRONT, t), has[FRONT_SENT][t]);
                assert_int_equal(list_has(&crossing, CROSSING_BEHIND, t), has[BEHIND_RETURNED][t]);
                assert_int_equal(list_has(&crossing, CROSSING_FORWARD_OUT, t), has[BEHIND_SENT][t] && is_own);
                assert_int_equal(list_has(&crossing, CROSSING_BACKWARD_BEGUN, t),
                                 has[FRONT_RETURNED][t] && !has[BEHIND_RETURNED][t]);
                /* What is neither read here nor added to only passes by. */
                if (list_has(&crossing, CROSSING_FORWARD_IN, t) && is_activation)
                    assert_true(has[FRONT_SENT][t] && !is_own);
                if (list_has(&crossing, CROSSING_BACKWARD_IN, t)) assert_true(has[BEHIND_RETURNED][t]);
                if (list_has(&crossing, CROSSING_BACKWARD_OUT, t)) assert_true(has[FRONT_RETURNED][t]);
                if (list_has(&crossing, CROSSING_HEADS, t)) assert_true(is_own && !has[BEHIND_SENT][t]);
                losses += list_has(&crossing, CROSSING_LOSSES, t);
            }
            assert_int_equal(crossing.reads_weights, last + 1 == g.layer_count);
            assert_int_equal(losses > 0, crossing.reads_weights);
            crossing_free(&crossing);
        }
    graph_close(&g);
}

/* e and e2 look up one table, c uses the weight of a: with b and d between them one run. f has nothing in
 * common with others. */
static void graph_ties__rows_and_weights_in_common__are_runs_of_layers(void **state)
{
    (void)state;
    static const char text[] = "[data]\ndense = I1..I5\nsparse = C1..C5\n[table s]\ndim = 5\n"
                               "[fc a]\ninput = dense\nunits = 5\n[embedding e]\ntable = s\ninput = C1\n"
                               "[fc b]\ninput = e\nunits = 5\n[fc c]\ninput = dense\nunits = 5\nshare = a\n"
                               "[embedding e2]\ntable = s\ninput = C2\n[concat x]\ninput = a, b, c, e2\n"
                               "[fc f]\ninput = x\nunits = 1\n[loss l]\ninput = f\n";
    static const uint32_t expected[][2] = {{0, 4}, {0, 4}, {2, 2}, {0, 4}, {0, 4}, {5, 5}, {6, 6}, {7, 7}};
    struct graph g;
    uint32_t first[16], last[16];
    compile(&g, text);
    assert_int_equal(g.layer_count, 8);
    graph_ties(&g, first, last);
    for (uint32_t l = 0; l < 8; l++) {
        assert_int_equal(first[l], expected[l][0]);
        assert_int_equal(last[l], expected[l][1]);
    }
    graph_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graph_cut__chain__is_output_and_label_and_gradient),
        cmocka_unit_test(graph_cut__look_up_behind_it__sends_the_keys),
        cmocka_unit_test(graph_cut__read_twice__is_sent_once),
        cmocka_unit_test(graph_cut__two_slots__need_all_that_is_listed_and_no_more),
        cmocka_unit_test(graph_ties__rows_and_weights_in_common__are_runs_of_layers),
        cmocka_unit_test(crossing_find__any_stage__agrees_with_the_cuts_around_it),
    };
    int failure_count = cmocka_run_group_tests(tests, NULL, NULL);
    return failure_count ? 1 : 0;
}

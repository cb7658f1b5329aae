/* How what a stage's updates change is cut, on random small models: parts cover every float once,
 * in order, at blocks, evenly or by weights; their numbers of blocks are those of the list of all blocks; and
 * state lies where the model says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/slot/extent.h"
#include "graph/clip.h"
#include "graph/optimizer.h"
#include "tests/engine/fixture_files.h"

#define MODELS     100u
#define PARTS_MAX  64u
#define BLOCKS_MAX 256u

static uint64_t seed = 1;
static uint32_t draw_below(uint32_t bound)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (uint32_t)((seed >> 32) * bound >> 32);
}

/* --- random models ------------------------------------------------------------------------------- */

struct text {
    char data[4096];
    size_t length;
};
__attribute__((format(printf, 2, 3))) static void text_add(struct text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    t->length += (size_t)vsnprintf(t->data + t->length, sizeof t->data - t->length, format, args);
    va_end(args);
    assert_true(t->length < sizeof t->data);
}

/* Look-ups of two tables, then fully connected layers of random widths, some wide enough for several blocks,
 * some that share parameters, with norms between them, whose statistics have updates of their own. */
static void text_draw(struct text *t)
{
    static const char *const optimizers[] = {"sgd 0.1", "adam 0.01", "adagrad 0.02"};
    uint32_t before = 0, width = 0;
    bool is_shareable = false;
    t->length = 0;
    text_add(t, "[data]\ndense = I1..I3\nsparse = C1..C4\n[table emb]\ndim = 4\n[table side]\ndim = 2\n"
                "[embedding e]\ntable = emb\ninput = C1..C3\n[embedding w]\ntable = side\ninput = C4\n"
                "[concat x0]\ninput = e, w, dense\n");
    for (uint32_t layer = 1, count = 1 + draw_below(6); layer <= count; layer++) {
        const uint32_t kind = draw_below(6);
        if (kind == 0) {
            text_add(t, "[batch_norm x%u]\ninput = x%u\n", layer, layer - 1);
        } else if (kind == 1) {
            text_add(t, "[data_norm x%u]\ninput = x%u\n", layer, layer - 1);
        } else if (kind == 2 && is_shareable) { /* from as many columns to as many */
            text_add(t, "[fc x%u]\ninput = x%u\nunits = %u\nshare = x%u\n", layer, layer - 1, width, before);
        } else {
            const uint32_t units = width > 0 && draw_below(2) ? width : 1 + draw_below(draw_below(2) ? 140 : 12);
            text_add(t, "[fc x%u]\ninput = x%u\nunits = %u\nactivation = relu\n", layer, layer - 1, units);
            is_shareable = units == width;
            width = units;
            before = layer;
        }
        if (layer == count) text_add(t, "[fc y]\ninput = x%u\nunits = 1\n", layer);
    }
    text_add(
        t,
        "[embedding late]\ntable = emb\ninput = C4\n[concat both]\ninput = y, late\n[fc z]\ninput = both\nunits = 1\n"
        "[loss bce]\ninput = z\n[train]\nbatch = 8\noptimizer = %s\nclip_norm = %u\n",
        optimizers[draw_below(3)], draw_below(2));
}

/* --- what is expected ------------------------------------------------------------------------------ */

/* A block of what a stage's updates change, found from the tensors; in the order of the nodes. */
struct expected {
    uint32_t count;
    uint64_t floats; /* of all */
    struct {
        uint32_t run;
        uint64_t offset, floats;
        bool is_bounded;
    } block[BLOCKS_MAX];
};

static uint32_t run_of(const struct extent *e, uint64_t offset)
{
    uint32_t run = 0;
    while (run < e->run_count && (offset < e->runs[run].offset || offset >= e->runs[run].offset + e->runs[run].count))
        run++;
    assert_true(run < e->run_count);
    return run;
}

static void expected_find(struct expected *x, const struct graph *g, const struct extent *e)
{
    x->count = 0;
    x->floats = 0;
    for (uint32_t n = e->forward_begin; n < e->forward_end; n++)
        for (uint32_t k = 0; k < g->nodes[n].param_count; k++) {
            const struct graph_tensor *tensor =
                &g->tensors[g->args[g->nodes[n].arg_begin + g->nodes[n].input_count + k]];
            assert_int_equal(tensor->kind, TENSOR_PARAM);
            uint64_t left = (uint64_t)tensor->rows * tensor->cols, offset = tensor->offset;
            while (left > 0 && !tensor->is_alias) {
                const uint64_t floats = left < CLIP_BLOCK_FLOATS ? left : CLIP_BLOCK_FLOATS;
                assert_true(x->count < BLOCKS_MAX);
                x->block[x->count].run = run_of(e, offset);
                x->block[x->count].offset = offset;
                x->block[x->count].floats = floats;
                x->block[x->count++].is_bounded = clip_optimizer(g) != NULL && tensor->update == 0;
                x->floats += floats;
                offset += floats;
                left -= floats;
            }
        }
}

/* Every float of a run is of one part, cuts are where blocks begin, and ascend. */
static void cuts_check(const struct extent *e, const struct expected *x)
{
    for (uint32_t run = 0; run < e->run_count; run++) {
        uint64_t at = e->runs[run].offset, begin, end;
        for (uint32_t part = 0; part < e->part_count; part++) {
            extent_part(e, part, run, &begin, &end);
            assert_int_equal(begin, at);
            assert_true(end >= begin);
            uint32_t block = 0;
            while (block < x->count && x->block[block].offset != begin) block++;
            if (begin < e->runs[run].offset + e->runs[run].count) assert_true(block < x->count);
            at = end;
        }
        assert_int_equal(at, e->runs[run].offset + e->runs[run].count);
    }
}

static uint32_t part_of_block(const struct extent *e, uint32_t run, uint64_t offset)
{
    for (uint32_t part = 0; part < e->part_count; part++) {
        uint64_t begin, end;
        extent_part(e, part, run, &begin, &end);
        if (begin <= offset && offset < end) return part;
    }
    fail_msg("float %d is of no part", (int)offset);
    return 0;
}

/* Parts are runs of whole blocks in the order of the nodes, of about as many floats each; and those of them
 * whose norm is bounded are cut alike in the list of all blocks. */
static void parts_check(const struct extent *e, const struct expected *x, const struct param_block *blocks,
                        const uint16_t *weights)
{
    uint64_t floats[PARTS_MAX] = {0};
    uint32_t part = 0, bounded = e->block_begin, all = 0;
    assert_int_equal(e->cut_block[0], 0);
    for (uint32_t b = 0; b < x->count; b++) {
        const uint32_t owner = part_of_block(e, x->block[b].run, x->block[b].offset);
        assert_true(owner >= part);
        for (; part < owner; part++) assert_int_equal(e->block_begin + e->cut_block[part + 1], bounded);
        floats[owner] += x->block[b].floats;
        if (!x->block[b].is_bounded) continue;
        assert_int_equal(blocks[bounded].offset, x->block[b].offset);
        assert_int_equal(blocks[bounded].count, x->block[b].floats);
        bounded++;
    }
    for (; part < e->part_count; part++) assert_int_equal(e->block_begin + e->cut_block[part + 1], bounded);
    assert_int_equal(bounded, e->block_begin + e->block_count);
    for (part = 0; part < e->part_count; part++) all += weights ? weights[part] : 1;
    for (part = 0; part < e->part_count; part++) {
        const double wanted = (double)x->floats * (weights ? weights[part] : 1) / all;
        if ((double)floats[part] > wanted + CLIP_BLOCK_FLOATS || (double)floats[part] < wanted - CLIP_BLOCK_FLOATS ||
            (weights && weights[part] == 0 && floats[part] > 0))
            fail_msg("part %u of %u has %d floats of %d", part, e->part_count, (int)floats[part], (int)x->floats);
    }
}

static void runs_check(const struct extent *e, const struct graph *g, const struct model *model)
{
    for (uint32_t r = 0; r < e->run_count; r++) {
        const struct param_run *run = &e->runs[r];
        const struct graph_update *update = &g->updates[run->update];
        assert_int_equal(update->table, GRAPH_NONE);
        assert_int_equal(run->state_count, optimizer_table[g->optimizers[update->optimizer].kind].state_count);
        assert_int_equal(run->state_stride, update->param_count);
        assert_int_equal(run->state_offset - model->state_offset[run->update], run->offset - update->param_offset);
        if (run->state_count > 0)
            assert_true(run->state_offset + (run->state_count - 1) * run->state_stride + run->count <=
                        g->header->state_floats);
    }
}

/* --- stages ---------------------------------------------------------------------------------------- */

static void extent_open(struct extent *e, struct arena *arena, const struct graph *g, const struct model *model,
                        uint32_t first, uint32_t last, uint32_t parts, const uint16_t *weights)
{
    struct layout sum = {0}, taken = {.arena = arena};
    memset(e, 0, sizeof *e);
    extent_nodes_find(e, g, first, last);
    extent_layout_by(e, &sum, g, model, parts, weights);
    assert_ok(arena_open(arena, "test", sum.bytes));
    extent_layout_by(e, &taken, g, model, parts, weights);
}

/* Weights of which some are 0; their sum is SHARE_PARTS. */
static void weights_draw(uint16_t *weights, uint32_t parts)
{
    uint32_t left = 4096;
    for (uint32_t part = 0; part + 1 < parts; part++) {
        weights[part] = (uint16_t)(draw_below(3) ? draw_below(left + 1) / 2 : 0);
        left -= weights[part];
    }
    weights[parts - 1] = (uint16_t)left;
}

/* What neighbouring stages have lies side by side, and together is all. */
struct walk {
    uint64_t run_end[32]; /* [update_count]: where the next stage's run begins */
    uint32_t forward_end, backward_begin, block_end, table_count, lookups;
};

static void stage_check(const struct graph *g, const struct model *model, uint32_t first, uint32_t last,
                        const struct param_block *blocks, struct walk *w)
{
    static struct expected x;
    for (uint32_t parts = 1; parts <= PARTS_MAX; parts += parts < 5 ? 1 : 1 + draw_below(20)) {
        struct extent e;
        struct arena arena;
        uint16_t weights[PARTS_MAX];
        weights_draw(weights, parts);
        extent_open(&e, &arena, g, model, first, last, parts, weights);
        expected_find(&x, g, &e);
        cuts_check(&e, &x);
        parts_check(&e, &x, blocks, weights);
        arena_close(&arena);
        extent_open(&e, &arena, g, model, first, last, parts, NULL);
        cuts_check(&e, &x);
        parts_check(&e, &x, blocks, NULL);
        runs_check(&e, g, model);
        if (parts == 1) {
            assert_int_equal(e.forward_begin, w->forward_end);
            assert_int_equal(e.backward_end, w->backward_begin);
            assert_int_equal(e.block_begin, w->block_end);
            w->forward_end = e.forward_end;
            w->backward_begin = e.backward_begin;
            w->block_end = e.block_begin + e.block_count;
            w->lookups += e.looks_up;
            for (uint32_t r = 0; r < e.run_count; r++) {
                assert_int_equal(e.runs[r].offset, w->run_end[e.runs[r].update]);
                w->run_end[e.runs[r].update] += e.runs[r].count;
            }
            for (uint32_t table = 0; table < e.table_count; table++, w->table_count++) {
                const uint32_t node = graph_table_first_node(g, e.tables[table]);
                assert_true(e.forward_begin <= node && node < e.forward_end);
            }
        }
        arena_close(&arena);
    }
}

static void model_check(const struct graph *g, const struct model *model)
{
    static struct param_block blocks[BLOCKS_MAX];
    struct walk w = {.backward_begin = g->node_count};
    assert_true(g->update_count <= 32 && clip_blocks_list(g, 0, g->forward_count, NULL) <= BLOCKS_MAX);
    (void)clip_blocks_list(g, 0, g->forward_count, blocks);
    for (uint32_t u = 0; u < g->update_count; u++) w.run_end[u] = g->updates[u].param_offset;
    for (uint32_t first = 0, last; first < g->layer_count; first = last + 1) {
        last = first + draw_below(g->layer_count - first);
        stage_check(g, model, first, last, blocks, &w);
    }
    for (uint32_t u = 0; u < g->update_count; u++)
        if (g->updates[u].table == GRAPH_NONE)
            assert_int_equal(w.run_end[u], g->updates[u].param_offset + g->updates[u].param_count);
    assert_int_equal(w.forward_end, g->forward_count);
    assert_int_equal(w.block_end, clip_blocks_list(g, 0, g->forward_count, NULL));
    assert_int_equal(w.table_count, g->table_count);
    assert_true(w.lookups > 0);
}

static void extent__random_models_and_parts__every_float_once_at_blocks_evenly(void **state)
{
    (void)state;
    static struct text text;
    uint32_t bounded = 0, shared = 0, several = 0;
    for (uint32_t i = 0; i < MODELS; i++) {
        struct graph g;
        struct model model;
        text_draw(&text);
        assert_ok(graph_compile(&g, "random.cfg", text.data, text.length, NULL, 0, NULL));
        assert_ok(model_open(&model, &g, &(struct model_budget){.ram_bytes = (uint64_t)1 << 20}));
        model_check(&g, &model);
        bounded += clip_optimizer(&g) != NULL;
        shared += graph_aliases(&g, 0, g.header->param_floats, NULL) > 0;
        several += g.header->param_floats > 4 * CLIP_BLOCK_FLOATS;
        model_close(&model);
        graph_close(&g);
    }
    assert_true(bounded > MODELS / 5 && shared > 0 && several > 0);
    printf("# of %u models %u have a bounded norm, %u shared parameters, %u more than four blocks\n", MODELS, bounded,
           shared, several);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(extent__random_models_and_parts__every_float_once_at_blocks_evenly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What an updater makes of a step's sums of gradients, against the rules applied float by float: whole and in
 * parts the same bytes, with lanes, shared parameters, several look-ups of a table, and with and without a
 * bound of the norm; and all sums are zero afterwards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/parts.h"
#include "engine/device/cpu/cpu_device.h"
#include "engine/slot/step_update.h"
#include "graph/clip.h"
#include "graph/optimizer.h"
#include "tests/engine/fixture_files.h"
#include "tests/engine/lanes_drawn.h"

/* One weight of more than a block that three layers use, in two of which it is an alias; statistics with a
 * rule of their own; a table that is looked up twice, whose rule reads shows, and one whose rows count their
 * updates. Layers: 0 e, 1 e2, 2 w, 3 x, 4 n, 5 h1, 6 h2, 7 h3, 8 h4, 9 y, 10 bce. */
static const char model_text[] =
    "[data]\ndense = I1..I3\nsparse = C1..C4\n"
    "[table emb]\ndim = 3\noptimizer = adagrad_row 0.05\n"
    "[table side]\ndim = 2\noptimizer = adam 0.01\n"
    "[embedding e]\ntable = emb\ninput = C1..C2\n"
    "[embedding e2]\ntable = emb\ninput = C3\n"
    "[embedding w]\ntable = side\ninput = C4\n"
    "[concat x]\ninput = e, e2, w, dense\n"
    "[batch_norm n]\ninput = x\n"
    "[fc h1]\ninput = n\nunits = 65\nactivation = relu\n"
    "[fc h2]\ninput = h1\nunits = 65\n"
    "[fc h3]\ninput = h2\nunits = 65\nshare = h2\n"
    "[fc h4]\ninput = h3\nunits = 65\nshare = h2\n"
    "[fc y]\ninput = h4\nunits = 1\n"
    "[loss bce]\ninput = y\n"
    "[train]\nbatch = 24\nmicro = 4\noptimizer = adam 0.01\nschedule = step every=2 factor=0.5\n";

#define ROWS      23u /* of a step, in each table */
#define EXAMPLES  17u /* a short step */
#define UPDATE    3u  /* of the third step */
#define LANES_MAX 6u

static uint64_t seed = 1;
static float draw(void)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (float)(int64_t)(seed >> 40) / (1 << 23) - 1;
}
static float *floats_copy(const float *from, uint64_t count)
{
    float *copy = malloc((count + 1) * sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, from, count * sizeof *copy);
    return copy;
}

/* --- a step to update ------------------------------------------------------------------------------ */

struct rig {
    struct graph graph;
    struct model model;
    struct extent extent;
    struct gradients gradients;
    struct arena arena;
    struct updater updater;
    struct step_rows rows[2];
    struct lanes_drawn drawn[2];
    float *spans[2]; /* [ROWS, span_floats] */
    uint32_t lanes, block_count;
    struct param_block *blocks;
    double *squares;
};

static void rig_layout(struct rig *r, struct layout *layout, uint32_t parts)
{
    const struct graph *g = &r->graph;
    extent_layout(&r->extent, layout, g, &r->model, parts);
    gradients_layout(&r->gradients, layout, g, r->lanes, g->header->batch * LANES_MAX);
    LAYOUT_TAKE(layout, r->updater.scratch, gradients_scratch(g, r->lanes));
    r->block_count = clip_blocks_list(g, 0, g->forward_count, NULL);
    LAYOUT_TAKE(layout, r->blocks, r->block_count);
    LAYOUT_TAKE(layout, r->squares, r->block_count);
    for (uint32_t t = 0; t < g->table_count; t++) {
        LAYOUT_TAKE(layout, r->rows[t].span, ROWS);
        LAYOUT_TAKE(layout, r->rows[t].occurrence_count, ROWS);
        LAYOUT_TAKE(layout, r->spans[t], (size_t)ROWS * g->tables[t].span_floats);
    }
}

static void rows_fill(struct rig *r)
{
    for (uint32_t t = 0; t < 2; t++) {
        const struct graph_table *table = &r->graph.tables[t];
        const bool counts = optimizer_counts(&r->graph.optimizers[table->optimizer]);
        r->rows[t].row_count = ROWS;
        lanes_draw(&r->drawn[t], r->lanes, ROWS, t + 1);
        r->rows[t].lane_rows = r->drawn[t].rows;
        r->rows[t].lane_row_count = r->drawn[t].count;
        r->rows[t].last_lane_row = r->drawn[t].last;
        for (uint32_t i = 0; i < ROWS; i++) {
            float *span = r->spans[t] + (size_t)i * table->span_floats;
            const uint32_t t_before = i % 5;
            for (uint32_t k = 0; k < table->span_floats; k++) span[k] = fabsf(draw());
            if (counts) memcpy(&span[table->span_floats - 1], &t_before, sizeof t_before);
            r->rows[t].span[ROWS - 1 - i] = span;
            r->rows[t].occurrence_count[i] = 1 + i % 4;
        }
        if (!optimizer_reads_shows(&r->graph.optimizers[table->optimizer])) r->rows[t].occurrence_count = NULL;
    }
}

/* Of the sums of a look-up, of which the first two are of the first table. */
static uint32_t sum_floats(const struct rig *r, uint32_t lookup)
{
    return r->drawn[lookup >= 2].count * r->graph.tables[lookup >= 2].dim;
}

/* Everything is a function of the lanes and the bound: rigs of different parts begin with the same bytes. */
static void rig_open(struct rig *r, uint32_t lanes, bool is_bounded, uint32_t parts)
{
    char set[2][32];
    const char *const assignments[] = {set[0], set[1]};
    struct layout sum = {0}, taken = {.arena = &r->arena};
    memset(r, 0, sizeof *r);
    snprintf(set[0], sizeof set[0], "train.lanes=%u", lanes);
    snprintf(set[1], sizeof set[1], "train.clip_norm=%s", is_bounded ? "0.7" : "0");
    assert_ok(graph_compile(&r->graph, "test.cfg", model_text, sizeof model_text - 1, assignments, 2, NULL));
    const struct graph *g = &r->graph;
    assert_ok(model_open(&r->model, g, &(struct model_budget){.ram_bytes = (uint64_t)1 << 20}));
    r->lanes = lanes;
    extent_nodes_find(&r->extent, g, 0, g->layer_count - 1);
    rig_layout(r, &sum, parts);
    assert_ok(arena_open(&r->arena, "test", sum.bytes));
    rig_layout(r, &taken, parts);
    (void)clip_blocks_list(g, 0, g->forward_count, r->blocks);
    r->updater.graph = g;
    r->updater.gradients = &r->gradients;
    assert_ok(cpu_device_open(&r->updater.device, g, 1, NULL, NULL));
    seed = lanes;
    rows_fill(r);
    for (uint64_t i = 0; i < g->header->param_floats; i++) r->model.param[i] = draw();
    for (uint64_t i = 0; i < g->header->state_floats; i++) r->model.state[i] = fabsf(draw());
    for (uint32_t lane = 0; lane < lanes; lane++)
        for (uint64_t i = 0; i < g->header->grad_floats; i++) r->gradients.param[lane][i] = draw();
    for (uint32_t k = 0; k < g->lookup_count; k++)
        for (uint32_t i = 0; i < sum_floats(r, k); i++) r->gradients.table[k][i] = draw();
}

static void rig_close(struct rig *r)
{
    device_close(r->updater.device);
    arena_close(&r->arena);
    model_close(&r->model);
    graph_close(&r->graph);
    for (uint32_t t = 0; t < 2; t++) lanes_drawn_free(&r->drawn[t]);
}

static struct update update_of(const struct rig *r)
{
    return (struct update){.param = r->model.param,
                           .state = r->model.state,
                           .param_grad = r->gradients.param,
                           .lanes = r->lanes,
                           .rows = r->rows,
                           .example_count = EXAMPLES,
                           .t = UPDATE};
}

/* All parts, the last one first. */
static void rig_update(struct rig *r)
{
    const struct extent *e = &r->extent;
    struct update u = update_of(r);
    const struct graph_optimizer *clipped = clip_optimizer(&r->graph);
    uint64_t begin, end;
    for (uint32_t part = e->part_count; part-- > 0 && clipped;) {
        const uint32_t first = e->cut_block[part], count = e->cut_block[part + 1] - first;
        assert_ok(update_sum(&r->updater, &u, r->blocks + first, count, r->squares + first));
    }
    if (clipped) u.clip_scale = clip_scale(clipped, 1.0f / EXAMPLES, r->squares, r->block_count);
    for (uint32_t part = e->part_count; part-- > 0;) {
        for (uint32_t run = 0; run < e->run_count; run++) {
            extent_part(e, part, run, &begin, &end);
            assert_ok(update_params(&r->updater, &u, &e->runs[run], begin, end));
        }
        for (uint32_t t = 0; t < r->graph.table_count; t++) {
            part_of(ROWS, part, e->part_count, 1, &begin, &end);
            assert_ok(update_rows(&r->updater, &u, t, (uint32_t)begin, (uint32_t)end));
        }
    }
}

/* --- what is expected ------------------------------------------------------------------------------- */

/* Level by level: sum[i] = sum[2i] + sum[2i+1], an odd last one passing through (graph/device.h). */
static float tree_sum(float *level, uint32_t lanes)
{
    for (uint32_t count = lanes; count > 1; count = (count + 1) / 2)
        for (uint32_t l = 0; l < (count + 1) / 2; l++)
            level[l] = 2 * l + 1 < count ? level[2 * l] + level[2 * l + 1] : level[2 * l];
    return level[0];
}

/* Sums of all parameters; of an alias with the others' of its owner, in the order of nodes. */
static float *param_sums(const struct rig *r)
{
    const struct graph *g = &r->graph;
    float *sum = malloc(g->header->param_floats * sizeof *sum);
    struct graph_alias aliases[8];
    const uint32_t alias_count = graph_aliases(g, 0, g->header->param_floats, NULL);
    assert_true(sum != NULL && alias_count > 2 && alias_count <= 8);
    (void)graph_aliases(g, 0, g->header->param_floats, aliases);
    for (uint64_t i = 0; i < g->header->param_floats; i++) {
        float lane_sum[LANES_MAX];
        for (uint32_t lane = 0; lane < r->lanes; lane++) {
            lane_sum[lane] = r->gradients.param[lane][i];
            for (uint32_t a = 0; a < alias_count; a++)
                if (aliases[a].offset <= i && i < aliases[a].offset + aliases[a].count)
                    lane_sum[lane] += r->gradients.param[lane][aliases[a].grad + i - aliases[a].offset];
        }
        sum[i] = tree_sum(lane_sum, r->lanes);
    }
    return sum;
}

/* The norm of the sums of all trained parameters' floats, in plain double. */
static double norm_of(const struct rig *r, const float *sum)
{
    double squares = 0;
    for (uint32_t b = 0; b < r->block_count; b++)
        for (uint64_t i = 0; i < r->blocks[b].count; i++)
            squares += (double)sum[r->blocks[b].offset + i] * (double)sum[r->blocks[b].offset + i];
    return sqrt(squares);
}

/* Changes the copies `param` and `state` as the rules say, float by float. */
static void params_expect(const struct rig *r, float *param, float *state)
{
    const struct graph *g = &r->graph;
    float *sum = param_sums(r);
    for (uint32_t update = 0; update < g->update_count; update++) {
        const struct graph_update *of = &g->updates[update];
        const struct graph_optimizer *o = &g->optimizers[of->optimizer];
        float scale = 1.0f / EXAMPLES;
        if (of->table != GRAPH_NONE) continue;
        if (o->clip_norm > 0) {
            const double norm = norm_of(r, sum), squares = norm * norm;
            scale = optimizer_clip_scale(scale, squares, o->clip_norm);
            assert_true(fabs((double)scale * norm - (double)o->clip_norm) < 1e-5); /* it is cut */
        }
        for (uint64_t i = 0; i < of->param_count; i++) {
            float *own = state + r->model.state_offset[update] + i, s[4];
            const uint32_t count = optimizer_table[o->kind].state_count;
            for (uint32_t k = 0; k < count; k++) s[k] = own[k * of->param_count];
            optimizer_table[o->kind].update(o, &param[of->param_offset + i], s, &sum[of->param_offset + i], 1, scale,
                                            optimizer_rate(g, o, UPDATE, 0), UPDATE);
            for (uint32_t k = 0; k < count; k++) own[k * of->param_count] = s[k];
        }
    }
    free(sum);
}

static void row_expect(const struct rig *r, uint32_t t, uint32_t row, float *span)
{
    const struct graph *g = &r->graph;
    const struct graph_table *table = &g->tables[t];
    const struct graph_optimizer *o = &g->optimizers[table->optimizer];
    uint32_t lookups[4], own_t = UPDATE;
    const uint32_t uses = graph_table_lookups(g, t, lookups);
    float sum[4], scale = 1.0f / EXAMPLES;
    for (uint32_t d = 0; d < table->dim; d++) {
        float lane_sum[LANES_MAX];
        for (uint32_t lane = 0; lane < r->lanes; lane++) {
            lane_sum[lane] = 0;
            for (uint32_t use = 0; use < uses; use++) {
                const float *grad = r->gradients.table[lookups[use]];
                const float x = lanes_drawn_sum(&r->drawn[t], grad, lane, row, table->dim, d);
                lane_sum[lane] = use == 0 ? x : lane_sum[lane] + x;
            }
        }
        sum[d] = tree_sum(lane_sum, r->lanes);
    }
    if (optimizer_reads_shows(o)) scale = 1.0f / (float)r->rows[t].occurrence_count[row];
    if (optimizer_counts(o)) {
        memcpy(&own_t, &span[table->span_floats - 1], sizeof own_t);
        own_t++;
        memcpy(&span[table->span_floats - 1], &own_t, sizeof own_t);
    }
    optimizer_table[o->kind].update(o, span, span + table->dim, sum, table->dim, scale, optimizer_rate(g, o, UPDATE, 0),
                                    own_t);
}

/* --- comparisons ------------------------------------------------------------------------------------ */

static void floats_check(const char *what, const float *x, const float *expected, uint64_t count, uint32_t parts)
{
    for (uint64_t i = 0; i < count; i++)
        if (memcmp(&x[i], &expected[i], sizeof x[i]) != 0)
            fail_msg("%s, %u parts: float %d is %a, expected %a", what, parts, (int)i, (double)x[i],
                     (double)expected[i]);
}
static void zeros_check(const char *what, const float *x, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        if (x[i] != 0) fail_msg("%s: float %d is left with %a", what, (int)i, (double)x[i]);
}

/* What no tensor has is no gradient: alignment between tensors. Sets it to zero, as it is in a run. */
static void gaps_clear(struct rig *r)
{
    const struct graph *g = &r->graph;
    uint8_t *is_used = calloc(g->header->grad_floats, 1);
    assert_non_null(is_used);
    for (uint32_t t = 0; t < g->tensor_count; t++)
        if (g->tensors[t].kind == TENSOR_PARAM_GRAD)
            memset(is_used + g->tensors[t].offset, 1, (size_t)g->tensors[t].rows * g->tensors[t].cols);
    for (uint64_t i = 0; i < g->header->grad_floats; i++)
        for (uint32_t lane = 0; lane < r->lanes && !is_used[i]; lane++) r->gradients.param[lane][i] = 0;
    free(is_used);
}

static void update_check(uint32_t lanes, bool is_bounded, uint32_t parts)
{
    struct rig r;
    rig_open(&r, lanes, is_bounded, parts);
    gaps_clear(&r);
    const struct graph *g = &r.graph;
    float *param = floats_copy(r.model.param, g->header->param_floats),
          *state = floats_copy(r.model.state, g->header->state_floats), *spans[2];
    params_expect(&r, param, state);
    for (uint32_t t = 0; t < 2; t++) {
        spans[t] = floats_copy(r.spans[t], (uint64_t)ROWS * g->tables[t].span_floats);
        for (uint32_t row = 0; row < ROWS; row++) row_expect(&r, t, row, spans[t] + (r.rows[t].span[row] - r.spans[t]));
    }
    rig_update(&r);
    floats_check("parameters", r.model.param, param, g->header->param_floats, parts);
    floats_check("state", r.model.state, state, g->header->state_floats, parts);
    for (uint32_t lane = 0; lane < lanes; lane++)
        zeros_check("sums of parameters", r.gradients.param[lane], g->header->grad_floats);
    for (uint32_t t = 0; t < 2; t++) {
        floats_check("rows", r.spans[t], spans[t], (uint64_t)ROWS * g->tables[t].span_floats, parts);
        free(spans[t]);
    }
    for (uint32_t k = 0; k < g->lookup_count; k++) zeros_check("sums of rows", r.gradients.table[k], sum_floats(&r, k));
    free(param), free(state);
    rig_close(&r);
}

static const uint32_t lanes_tried[] = {1, 2, 3, 6}, parts_tried[] = {1, 2, 3, 7};

static void update__lanes_and_parts__equals_the_rules(void **state)
{
    (void)state;
    for (size_t l = 0; l < sizeof lanes_tried / sizeof *lanes_tried; l++)
        for (size_t p = 0; p < sizeof parts_tried / sizeof *parts_tried; p++)
            update_check(lanes_tried[l], false, parts_tried[p]);
}

static void update__norm_bounded__equals_the_rules(void **state)
{
    (void)state;
    for (size_t l = 0; l < sizeof lanes_tried / sizeof *lanes_tried; l++)
        for (size_t p = 0; p < sizeof parts_tried / sizeof *parts_tried; p++)
            update_check(lanes_tried[l], true, parts_tried[p]);
}

/* Sums of rows are as many with any lanes: those of parameters alone grow. */
static void gradients_layout__more_lanes__rows_as_before(void **state)
{
    (void)state;
    struct graph g;
    struct layout sum[2] = {{0}, {0}};
    struct gradients gradients;
    assert_ok(graph_compile(&g, "test.cfg", model_text, sizeof model_text - 1, NULL, 0, NULL));
    for (uint32_t i = 0; i < 2; i++) gradients_layout(&gradients, &sum[i], &g, i ? 6 : 1, g.header->batch);
    const size_t more = sum[1].bytes - sum[0].bytes, sets = 5 * arena_bytes(g.header->grad_floats * sizeof(float));
    assert_true(more >= sets && more <= sets + 5 * CACHE_LINE_BYTES); /* and their pointers */
    graph_close(&g);
}

static status refuse_params(struct device *device, const struct param_update *update)
{
    (void)device, (void)update;
    FAIL(SYSTEM, "refused");
}
static status refuse_sums(struct device *device, const struct param_sums *sums)
{
    (void)device, (void)sums;
    FAIL(SYSTEM, "refused");
}
static status refuse_rows(struct device *device, const struct table_update *update)
{
    (void)device, (void)update;
    FAIL(SYSTEM, "refused");
}

/* None of it asks the device for nothing, and what it fails with comes through. */
static void update__of_nothing_or_refused__as_said(void **state)
{
    (void)state;
    static const struct device_vt vt = {
        .update_params = refuse_params, .sum_params = refuse_sums, .update_rows = refuse_rows};
    struct device refusing = {&vt};
    struct rig r;
    rig_open(&r, 2, true, 1);
    const struct update u = update_of(&r);
    const struct param_run *run = &r.extent.runs[0];
    struct updater updater = r.updater;
    updater.device = &refusing;
    assert_ok(update_sum(&updater, &u, r.blocks, 0, r.squares));
    assert_ok(update_params(&updater, &u, run, run->offset + 16, run->offset + 16));
    assert_ok(update_rows(&updater, &u, 1, 5, 5));
    assert_int_equal(update_sum(&updater, &u, r.blocks, 1, r.squares), ST_SYSTEM);
    assert_int_equal(update_params(&updater, &u, run, run->offset, run->offset + 16), ST_SYSTEM);
    assert_int_equal(update_rows(&updater, &u, 1, 5, 6), ST_SYSTEM);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(update__lanes_and_parts__equals_the_rules),
        cmocka_unit_test(update__norm_bounded__equals_the_rules),
        cmocka_unit_test(gradients_layout__more_lanes__rows_as_before),
        cmocka_unit_test(update__of_nothing_or_refused__as_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Updates of parameters and rows by every instruction set that runs here: the reference rules' bits, for any
 * number of threads and order of the pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/base/bf16.h"
#include "engine/bench/hand_graph.h"
#include "engine/device/cpu/cpu_device.h"
#include "graph/optimizer.h"
#include "graph/row_vector.h"
#include "tests/engine/device/cpu/kernel_check.h"
#include "tests/engine/lanes_drawn.h"

static bool is_bf16; /* every sum is rounded */
static float rounded(float x) { return is_bf16 ? bf16_round(x) : x; }

/* Level by level, as the contract says it; `grad` are lanes of one use each. */
static float lanes_sum(const float *const *grad, uint32_t lanes, size_t i)
{
    float level[64];
    for (uint32_t l = 0; l < lanes; l++) level[l] = rounded(grad[l][i]);
    for (uint32_t count = lanes; count > 1; count = (count + 1) / 2)
        for (uint32_t l = 0; l < (count + 1) / 2; l++)
            level[l] = 2 * l + 1 < count ? rounded(level[2 * l] + level[2 * l + 1]) : level[2 * l];
    return level[0];
}

static struct graph_optimizer optimizer_of(uint32_t kind)
{
    struct graph_optimizer o = {.kind = kind, .learning_rate = 0.05f, .l2 = 0.001f};
    for (uint32_t i = 0; optimizer_table[kind].params[i].name != NULL; i++)
        o.param[i] = (float)optimizer_table[kind].params[i].fallback;
    return o;
}

static float *floats_random(struct hand_graph *h, size_t count, bool positive)
{
    float *p = malloc(count * sizeof *p);
    assert_non_null(p);
    for (size_t i = 0; i < count; i++) p[i] = positive ? hand_random(h) + 1 : hand_random(h);
    return p;
}
static float *floats_copy(const float *from, size_t count)
{
    float *p = malloc(count * sizeof *p);
    assert_non_null(p);
    memcpy(p, from, count * sizeof *p);
    return p;
}
static void zeros_check(const float *p, size_t count)
{
    for (size_t i = 0; i < count; i++) assert_true(p[i] == 0);
}

/* The whole run in one update, then its halves in two: the same bits, and nothing beyond. */
static void params_check(struct device *device, struct graph_optimizer o, uint32_t lanes, size_t count)
{
    struct hand_graph h = {.draw = count};
    uint32_t kind = o.kind;
    uint32_t state_count = optimizer_table[kind].state_count;
    float *grad[64], *weight = floats_random(&h, count, false),
                     *state = floats_random(&h, state_count * count + 1, true);
    for (size_t i = 1; i < count; i += 5)
        if (i != count / 3) weight[i] = 0; /* where l1 and ftrl tell cases apart */
    float *weight_expected = floats_copy(weight, count), *state_expected = floats_copy(state, state_count * count + 1);
    float *sum = malloc(count * sizeof *sum);
    for (uint32_t l = 0; l < lanes; l++) grad[l] = floats_random(&h, count, false);
    for (size_t i = 0; i < count; i++) sum[i] = lanes_sum((const float *const *)grad, lanes, i);
    optimizer_table[kind].update(&o, weight_expected, state_expected, sum, count, 1.0f / 256, 0.04f, 3);
    float *weight_halves = floats_copy(weight, count), *state_halves = floats_copy(state, state_count * count + 1);
    float *grad_halves[64], *grad_at[64];
    for (uint32_t l = 0; l < lanes; l++) grad_halves[l] = floats_copy(grad[l], count);
    struct param_update param_update = {.optimizer = &o,
                                        .weight = weight,
                                        .state = state,
                                        .state_stride = count,
                                        .grad = grad,
                                        .lanes = lanes,
                                        .is_bf16 = is_bf16,
                                        .count = count,
                                        .scale = 1.0f / 256,
                                        .rate = 0.04f,
                                        .t = 3};
    assert_int_equal(device_update_params(device, &param_update), ST_OK);
    floats_compare("weights", weight, weight_expected, 1, count, count, EXACT);
    floats_compare("states", state, state_expected, 1, state_count * count + 1, state_count * count + 1, EXACT);
    for (size_t begin = 0, half = count / 3; begin < count; begin += half, half = count - begin) {
        for (uint32_t l = 0; l < lanes; l++) grad_at[l] = grad_halves[l] + begin;
        param_update.weight = weight_halves + begin;
        param_update.state = state_halves + begin;
        param_update.grad = grad_at;
        param_update.count = half;
        assert_int_equal(device_update_params(device, &param_update), ST_OK);
        if (begin == 0) assert_true(weight_halves[half] != weight_expected[half]);
    }
    floats_compare("weights in two parts", weight_halves, weight_expected, 1, count, count, EXACT);
    floats_compare("states in two parts", state_halves, state_expected, 1, state_count * count + 1,
                   state_count * count + 1, EXACT);
    for (uint32_t l = 0; l < lanes; l++) {
        zeros_check(grad[l], count), free(grad[l]);
        zeros_check(grad_halves[l], count), free(grad_halves[l]);
    }
    free(weight), free(state), free(weight_expected), free(state_expected), free(sum);
    free(weight_halves), free(state_halves);
}

/* How the table of rows_update_check stores its vectors. */
static enum table_store row_store;

static const float *vector_random(struct hand_graph *h, float *vector, uint32_t dim)
{
    for (uint32_t i = 0; i < dim; i++) vector[i] = hand_random(h);
    return vector;
}

static void rows_update_check(struct device *device, struct graph_optimizer o, uint32_t lanes, uint32_t use_count,
                              uint32_t dim, uint32_t row_count)
{
    struct hand_graph h = {.draw = dim};
    uint32_t kind = o.kind;
    struct graph_table table = {.dim = dim, .store = row_store};
    table.span_floats = optimizer_table_floats(&o, &table);
    const struct random_stream noise = row_noise(5, 2, 12);
    size_t span_floats = table.span_floats, floats = row_count * span_floats, grad_floats = (size_t)row_count * dim;
    struct lanes_drawn drawn;
    lanes_draw(&drawn, lanes, row_count, dim);
    float *spans = floats_random(&h, floats, true), **span = malloc(row_count * sizeof *span), *grad[64],
          *sum = malloc(dim * sizeof *sum);
    float vector[64]; /* the widest below */
    for (uint32_t r = 0; r < row_count; r++) {
        span[r] = spans + (row_count - 1 - r) * span_floats;
        uint32_t t = r % 7;
        if (row_store == TABLE_BF16) row_vector_write(&table, span[r], vector_random(&h, vector, dim));
        for (uint32_t i = 0; i < dim; i += 3) row_vector_put(&table, span[r], i, -0.0f); /* what a sum of -0 shows in */
        if (optimizer_counts(&o)) memcpy(span[r] + span_floats - 1, &t, sizeof t);
    }
    float *expected = floats_copy(spans, floats);
    /* What each lane adds up to, use by use. */
    float *lane_sum[64];
    const size_t sum_floats = (size_t)drawn.count * dim;
    for (uint32_t use = 0; use < use_count; use++) {
        grad[use] = floats_random(&h, sum_floats, false);
        for (size_t i = 0; i < sum_floats; i += 3) grad[use][i] = i % 2 ? -0.0f : 0; /* zeros of either sign */
    }
    for (uint32_t l = 0; l < lanes; l++) {
        lane_sum[l] = calloc(grad_floats + 1, sizeof(float));
        assert_non_null(lane_sum[l]);
        for (size_t i = 0; i < grad_floats; i++)
            for (uint32_t use = 0; use < use_count; use++) {
                float x = lanes_drawn_sum(&drawn, grad[use], l, (uint32_t)(i / dim), dim, (uint32_t)(i % dim));
                lane_sum[l][i] = use == 0 ? x : lane_sum[l][i] + x;
            }
    }
    const uint64_t step = 12;
    uint32_t *occurrence_count = malloc((row_count + 1) * sizeof *occurrence_count);
    uint64_t *key = malloc((row_count + 1) * sizeof *key);
    for (uint32_t r = 0; r < row_count; r++) {
        float *row = expected + (span[r] - spans);
        occurrence_count[r] = r % 9 + 1;
        float scale = optimizer_reads_shows(&o) ? 1 / (float)occurrence_count[r] : 0.25f;
        uint32_t t = (uint32_t)step;
        if (optimizer_counts(&o)) {
            memcpy(&t, row + span_floats - 1, sizeof t);
            t++;
            memcpy(row + span_floats - 1, &t, sizeof t);
        }
        for (uint32_t d = 0; d < dim; d++)
            sum[d] = lanes_sum((const float *const *)lane_sum, lanes, (size_t)r * dim + d);
        if (o.clip_norm > 0) scale = optimizer_clip_scale(scale, optimizer_squares(sum, dim), o.clip_norm);
        row_vector_read(&table, row, vector);
        optimizer_table[kind].update(&o, vector, row + row_vector_floats(&table), sum, dim, scale, 0.04f, t);
        key[r] = (uint64_t)r << 30 ^ r;
        if (row_store == TABLE_BF16)
            row_vector_round(noise, key[r], vector, dim, row);
        else
            row_vector_write(&table, row, vector);
    }
    struct table_update table_update = {.table = &table,
                                        .optimizer = &o,
                                        .row_count = row_count,
                                        .span = span,
                                        .grad = grad,
                                        .lanes = lanes,
                                        .use_count = use_count,
                                        .last_lane_row = drawn.last,
                                        .lane_rows = drawn.rows,
                                        .lane_row_count = drawn.count,
                                        .occurrence_count = optimizer_reads_shows(&o) ? occurrence_count : NULL,
                                        .key = key,
                                        .noise = noise,
                                        .scale = 0.25f,
                                        .rate = 0.04f,
                                        .t = step};
    assert_int_equal(device_update_rows(device, &table_update), ST_OK);
    for (size_t i = 0; i < floats; i++)
        if (memcmp(&spans[i], &expected[i], sizeof(float)) != 0)
            fail_msg("%s %s dim %u lanes %u: float %zu of a row is %a, expected %a", optimizer_table[kind].name,
                     row_store == TABLE_BF16 ? "bf16" : "f32", dim, lanes, i % span_floats, (double)spans[i],
                     (double)expected[i]);
    for (uint32_t i = 0; i < use_count; i++) zeros_check(grad[i], sum_floats), free(grad[i]);
    lanes_drawn_free(&drawn);
    for (uint32_t l = 0; l < lanes; l++) free(lane_sum[l]);
    free(spans), free(span), free(expected), free(sum), free(occurrence_count), free(key);
}

/* The rules use no fma, so every instruction set gives the reference's bits. */
static void updates__every_optimizer__equal_reference_to_the_bit(void **state)
{
    (void)state;
    struct hand_graph h;
    hand_open(&h, 1, 1);
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        if (!isa_runs_here((enum isa)isa)) continue;
        for (size_t m = 0; m < MEMBERS_TRIED; m++) {
            struct device *device;
            assert_int_equal(cpu_device_open(&device, &h.graph, members_tried[m], NULL, isa_names[isa]), ST_OK);
            team_delay_set(cpu_device_team(device), m, 2000);
            for (uint32_t k = 0; k < 3 * OPTIMIZER_ID_COUNT; k++) {
                struct graph_optimizer o = optimizer_of(k % OPTIMIZER_ID_COUNT);
                if (optimizer_table[o.kind].is_internal && k >= OPTIMIZER_ID_COUNT) continue;
                if (k >= OPTIMIZER_ID_COUNT) { /* again, with every branch of it */
                    o.l1 = 0.01f, o.clip_value = 0.2f;
                    if (o.kind == OPTIMIZER_ID_sgd) o.param[0] = 0.5f;
                    if (o.kind == OPTIMIZER_ID_momentum || o.kind == OPTIMIZER_ID_ftrl) o.param[1] = 1;
                    if (o.kind == OPTIMIZER_ID_adagrad_row) o.param[1] = 0.5f;
                }
                if (k >= 2 * OPTIMIZER_ID_COUNT) o.clip_norm = 0.3f;
                for (uint32_t lanes = 1; lanes <= 9 && !optimizer_is_for_rows(&o) && o.clip_norm == 0; lanes++) {
                    is_bf16 = lanes % 3 == 0 || lanes == 1;
                    params_check(device, o, lanes, lanes * 1001);
                }
                is_bf16 = false;
                for (uint32_t dim = 1; dim <= 33; dim += 4) {
                    row_store = dim % 8 == 1 ? TABLE_BF16 : TABLE_F32;
                    rows_update_check(device, o, dim % 7 + 1, dim % 3 + 1, dim, 300);
                }
                static const uint32_t widths[] = {4, 8, 13, 16, 32, 64};
                for (size_t w = 0; w < 2 * sizeof widths / sizeof *widths; w++) {
                    row_store = w % 2 ? TABLE_BF16 : TABLE_F32;
                    rows_update_check(device, o, 1, 1, widths[w / 2], 301);
                    rows_update_check(device, o, 1, 1, 16, 0);
                }
                row_store = TABLE_F32;
            }
            device_close(device);
        }
    }
    hand_close(&h);
}

/* The sums of lanes in the first of them, zeros in the others, and squares in the fixed order, block by
 * block; what lies between blocks stays. */
static void sum_params__any_lanes__sums_and_squares(void **state)
{
    (void)state;
    enum { BLOCKS = 5, COUNT = 9000 };
    static const struct param_block blocks[BLOCKS] = {{0, 4096}, {4096, 1}, {4112, 37}, {4160, 4096}, {8320, 600}};
    struct hand_graph h;
    hand_open(&h, 1, 1);
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        if (!isa_runs_here((enum isa)isa)) continue;
        struct device *device;
        assert_int_equal(cpu_device_open(&device, &h.graph, 3, NULL, isa_names[isa]), ST_OK);
        for (uint32_t k = 0; k < 18; k++) {
            const uint32_t lanes = 1 + k / 2;
            float *grad[9], *kept[9];
            is_bf16 = k % 2;
            double squares[BLOCKS];
            struct hand_graph draws = {.draw = lanes};
            for (uint32_t l = 0; l < lanes; l++)
                grad[l] = floats_random(&draws, COUNT, false), kept[l] = floats_copy(grad[l], COUNT);
            struct param_sums param_sums = {.grad = grad,
                                            .lanes = lanes,
                                            .is_bf16 = is_bf16,
                                            .block_count = BLOCKS,
                                            .block = blocks,
                                            .squares = squares,
                                            .t = 1};
            assert_int_equal(device_sum_params(device, &param_sums), ST_OK);
            size_t at = 0;
            for (uint32_t b = 0; b < BLOCKS; b++) {
                for (; at < blocks[b].offset; at++)
                    for (uint32_t l = 0; l < lanes; l++) assert_true(grad[l][at] == kept[l][at]);
                for (; at < blocks[b].offset + blocks[b].count; at++) {
                    assert_true(grad[0][at] == lanes_sum((const float *const *)kept, lanes, at));
                    for (uint32_t l = 1; l < lanes; l++) assert_true(grad[l][at] == 0);
                }
                double part[16] = {0};
                for (size_t i = 0; i < blocks[b].count; i++)
                    part[i % 16] += (double)grad[0][blocks[b].offset + i] * (double)grad[0][blocks[b].offset + i];
                for (int width = 8; width > 0; width /= 2)
                    for (int i = 0; i < width; i++) part[i] += part[i + width];
                assert_true(squares[b] == part[0]);
            }
            /* Without squares: what is in the first lane stays there. */
            float *before = floats_copy(grad[0], COUNT);
            param_sums.squares = NULL;
            assert_int_equal(device_sum_params(device, &param_sums), ST_OK);
            for (size_t i = 0; i < COUNT; i++) assert_true(grad[0][i] == before[i]);
            free(before);
            for (uint32_t l = 0; l < lanes; l++) free(grad[l]), free(kept[l]);
            is_bf16 = false;
        }
        device_close(device);
    }
    hand_close(&h);
}

/* Rows of whose lanes only those from `begin` on are there: the sums of each run of lanes
 * along its tree, zeros for lanes that do not have the row, zeros of either sign among what is
 * added; and all sums are clear. */
static void rows_sum_check(struct device *device, uint32_t begin, const uint32_t *run_begin, uint32_t run_count,
                           uint32_t use_count, uint32_t dim, uint32_t row_count)
{
    struct hand_graph h = {.draw = dim + begin};
    struct lanes_drawn drawn;
    const uint32_t lanes = run_begin[run_count] - begin;
    lanes_draw(&drawn, lanes, row_count, dim);
    float *grad[4], *lane_sum[16], *kept[4], **to = malloc((row_count + 1) * sizeof *to);
    const size_t floats = (size_t)drawn.count * dim, to_floats = (size_t)row_count * run_count * dim;
    float *sums = floats_random(&h, to_floats, false);
    for (uint32_t r = 0; r < row_count; r++) to[r] = sums + (size_t)(row_count - 1 - r) * run_count * dim;
    for (uint32_t i = 0; i < drawn.count; i++) drawn.rows[i].lane += begin;
    for (uint32_t use = 0; use < use_count; use++) {
        grad[use] = floats_random(&h, floats, false);
        for (size_t i = 0; i < floats; i += 3) grad[use][i] = i % 2 ? -0.0f : 0;
        kept[use] = floats_copy(grad[use], floats);
    }
    const struct table_sums table_sums = {.dim = dim,
                                          .row_count = row_count,
                                          .use_count = use_count,
                                          .grad = grad,
                                          .last_lane_row = drawn.last,
                                          .lane_rows = drawn.rows,
                                          .run_begin = run_begin,
                                          .run_count = run_count,
                                          .to = to,
                                          .t = 1};
    assert_int_equal(device_sum_rows(device, &table_sums), ST_OK);
    for (uint32_t l = 0; l < lanes; l++) lane_sum[l] = malloc(sizeof(float));
    for (uint32_t r = 0; r < row_count; r++)
        for (uint32_t run = 0; run < run_count; run++)
            for (uint32_t d = 0; d < dim; d++) {
                const uint32_t first = run_begin[run] - begin, count = run_begin[run + 1] - run_begin[run];
                for (uint32_t l = 0; l < count; l++)
                    for (uint32_t use = 0; use < use_count; use++) {
                        const float x = lanes_drawn_sum(&drawn, kept[use], first + l, r, dim, d);
                        *lane_sum[l] = use == 0 ? x : *lane_sum[l] + x;
                    }
                const float expected = lanes_sum((const float *const *)lane_sum, count, 0);
                const float *found = to[r] + run * dim + d;
                if (memcmp(found, &expected, sizeof expected) != 0)
                    fail_msg("row %u, run %u of %u from lane %u: %a, expected %a", r, run, run_count, run_begin[run],
                             (double)*found, (double)expected);
            }
    for (uint32_t l = 0; l < lanes; l++) free(lane_sum[l]);
    for (uint32_t use = 0; use < use_count; use++) zeros_check(grad[use], floats), free(grad[use]), free(kept[use]);
    lanes_drawn_free(&drawn);
    free(sums), free(to);
}

static void sum_rows__runs_of_lanes__the_trees_sums_to_the_bit(void **state)
{
    (void)state;
    static const struct {
        uint32_t count, begin[5];
    } cuts[] = {{1, {0, 4}}, {2, {1, 2, 4}}, {3, {3, 4, 8, 9}}, {1, {8, 16}}, {4, {6, 8, 12, 14, 15}}};
    struct hand_graph h;
    hand_open(&h, 1, 1);
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        if (!isa_runs_here((enum isa)isa)) continue;
        for (size_t m = 0; m < MEMBERS_TRIED; m++) {
            struct device *device;
            assert_int_equal(cpu_device_open(&device, &h.graph, members_tried[m], NULL, isa_names[isa]), ST_OK);
            for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++)
                for (uint32_t dim = 1; dim <= 33; dim += 8)
                    rows_sum_check(device, cuts[c].begin[0], cuts[c].begin, cuts[c].count, dim % 3 + 1, dim,
                                   dim == 1   ? 300
                                   : dim == 9 ? 0
                                              : 40);
            device_close(device);
        }
    }
    hand_close(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(updates__every_optimizer__equal_reference_to_the_bit),
        cmocka_unit_test(sum_params__any_lanes__sums_and_squares),
        cmocka_unit_test(sum_rows__runs_of_lanes__the_trees_sums_to_the_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}

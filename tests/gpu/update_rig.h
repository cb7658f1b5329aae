/* Updates on a card against the CPU's: the same bits, for every rule, with several lanes and uses, with
 * bounds and penalties. Which card, whoever includes this says (card_open.h). */
#ifndef HETERPS_TESTS_GPU_UPDATE_RIG_H
#define HETERPS_TESTS_GPU_UPDATE_RIG_H

#include <stdio.h>

#include "engine/bench/hand_graph.h"
#include "engine/device/cpu/cpu_device.h"
#include "gpu/ops.h"
#include "graph/row_vector.h"
#include "tests/engine/lanes_drawn.h"
#include "tests/gpu/card_open.h"

#define ROWS  37u
#define LANES 3u
#define USES  2u

/* A card, and what has been copied to it. */
struct update_card {
    struct gpu_work work;
    struct gpu_event *event;
    struct copied {
        void *card, *host;
        size_t bytes;
    } copied[256];
    uint32_t count;
};

static inline void update_card_open(struct update_card *c)
{
    *c = (struct update_card){0};
    ok(rig_gpu_open(5, &c->work.gpu));
    ok(gpu_stream_open(c->work.gpu, &c->work.stream));
    ok(gpu_event_open(c->work.gpu, &c->event));
}
static inline void update_finish(struct update_card *c)
{
    ok(gpu_record(c->work.gpu, c->work.stream, c->event));
    ok(gpu_wait(c->work.gpu, c->event));
}
static inline void *update_copy(struct update_card *c, const void *host, size_t bytes)
{
    struct copied *n = &c->copied[c->count++];
    CHECK(c->count <= 256);
    ok(gpu_take(c->work.gpu, bytes, "an array of a test", &n->card));
    ok(gpu_copy(c->work.gpu, c->work.stream, n->card, host, bytes));
    update_finish(c);
    n->bytes = bytes;
    n->host = malloc(bytes);
    CHECK(n->host != NULL);
    return n->card;
}
/* What is on the card now. */
static inline const void *update_back(struct update_card *c, const void *card)
{
    for (uint32_t i = 0; i < c->count; i++)
        if (c->copied[i].card == card) {
            ok(gpu_copy(c->work.gpu, c->work.stream, c->copied[i].host, card, c->copied[i].bytes));
            update_finish(c);
            return c->copied[i].host;
        }
    fail_msg("never copied");
    return NULL;
}
static inline void update_card_close(struct update_card *c)
{
    gpu_stream_close(c->work.gpu, c->work.stream);
    gpu_event_close(c->work.gpu, c->event);
    for (uint32_t i = 0; i < c->count; i++) {
        gpu_give(c->work.gpu, c->copied[i].card);
        free(c->copied[i].host);
    }
    rig_gpu_close(c->work.gpu);
}

static inline float *update_floats(struct hand_graph *h, size_t count, bool is_positive)
{
    float *x = malloc(count * sizeof *x);
    CHECK(x != NULL);
    for (size_t i = 0; i < count; i++) {
        const float drawn = hand_random(h);
        x[i] = is_positive && drawn < 0 ? -drawn : drawn;
    }
    return x;
}

static const char *const rules[] = {"sgd 0.1",         "sgd 0.1 power=0.5",       "adagrad 0.1",
                                    "adam 0.01",       "adamw 0.01 decay=0.1",    "momentum 0.1",
                                    "ftrl 0.1 l1=0.2", "momentum 0.1 nesterov=1", "adagrad_row 0.1"};
static inline struct graph_optimizer rule_parse(const char *text, uint32_t bounds)
{
    struct graph_optimizer o;
    ok(optimizer_parse(text, RULES_NEWEST, &o));
    if (bounds & 1) o.l1 = 0.01f, o.l2 = 0.02f;
    if (bounds & 2) o.clip_value = 0.3f;
    if (bounds & 4) o.clip_norm = 0.5f;
    return o;
}

static inline void update_same(struct update_card *c, const char *what, const float *card, const float *host,
                               size_t count)
{
    const float *got = update_back(c, card);
    for (size_t i = 0; i < count; i++)
        if (memcmp(&got[i], &host[i], sizeof *got) != 0)
            fail_msg("%s: number %zu is %a, on the CPU %a", what, i, (double)got[i], (double)host[i]);
}

static inline void update_rows_check(const struct graph_optimizer *o, const char *text, uint32_t dim, uint32_t lanes,
                                     uint32_t uses, enum table_store store)
{
    struct hand_graph h;
    struct device *cpu;
    struct update_card card;
    hand_open(&h, 4, dim + lanes);
    ok(cpu_device_open(&cpu, &h.graph, 1, NULL, "base"));
    update_card_open(&card);
    struct graph_table table = {.dim = dim, .store = (uint16_t)store};
    table.span_floats = optimizer_table_floats(o, &table);
    uint64_t key[ROWS];
    struct lanes_drawn drawn;
    lanes_draw(&drawn, lanes, ROWS, dim);
    const size_t sum_floats = (size_t)drawn.count * dim;
    float *span[ROWS], *grad[USES], *card_span[ROWS], *card_grad[USES];
    uint32_t occurrences[ROWS];
    for (uint32_t r = 0; r < ROWS; r++) {
        span[r] = update_floats(&h, table.span_floats, true);
        for (uint32_t i = 0; i < dim && store == TABLE_BF16; i++) row_vector_put(&table, span[r], i, hand_random(&h));
        row_vector_put(&table, span[r], 0, r % 5 ? row_vector_get(&table, span[r], 0) - 0.5f : 0);
        if (store == TABLE_BF16 && dim % 2) bf16_put(span[r], dim, 0);
        key[r] = UINT64_C(0x123456789) * (r + 1);
        if (optimizer_counts(o)) memcpy(&span[r][table.span_floats - 1], &(uint32_t){r == 7 ? UINT32_MAX : r}, 4);
        occurrences[r] = 1 + r % 3;
        card_span[r] = update_copy(&card, span[r], table.span_floats * sizeof(float));
    }
    for (uint32_t i = 0; i < uses; i++) {
        grad[i] = update_floats(&h, sum_floats, false);
        card_grad[i] = update_copy(&card, grad[i], sum_floats * sizeof(float));
    }
    struct table_update u = {.table = &table,
                             .optimizer = o,
                             .row_count = ROWS,
                             .span = span,
                             .grad = grad,
                             .lanes = lanes,
                             .use_count = uses,
                             .last_lane_row = drawn.last,
                             .lane_rows = drawn.rows,
                             .lane_row_count = drawn.count,
                             .occurrence_count = optimizer_reads_shows(o) ? occurrences : NULL,
                             .key = key,
                             .noise = row_noise(3, 1, 11),
                             .scale = 0.25f,
                             .rate = o->learning_rate,
                             .t = 11};
    struct table_update on_card = u;
    on_card.span = update_copy(&card, card_span, sizeof card_span);
    on_card.grad = update_copy(&card, card_grad, uses * sizeof *card_grad);
    if (lanes > 1) {
        on_card.last_lane_row = update_copy(&card, drawn.last, ROWS * sizeof *drawn.last);
        on_card.lane_rows = update_copy(&card, drawn.rows, drawn.count * sizeof *drawn.rows);
    }
    on_card.key = update_copy(&card, key, sizeof key);
    if (u.occurrence_count) on_card.occurrence_count = update_copy(&card, occurrences, sizeof occurrences);
    ok(device_update_rows(cpu, &u));
    ok(gpu_update_rows(&card.work, &on_card));
    char what[128];
    snprintf(what, sizeof what, "%s, clip_norm %g, dim %u, %u lanes, %u uses, store %d", text, (double)o->clip_norm,
             dim, lanes, uses, store);
    for (uint32_t r = 0; r < ROWS; r++) update_same(&card, what, card_span[r], span[r], table.span_floats);
    for (uint32_t i = 0; i < uses; i++) update_same(&card, "cleared sums", card_grad[i], grad[i], sum_floats);
    for (uint32_t r = 0; r < ROWS; r++) free(span[r]);
    for (uint32_t i = 0; i < uses; i++) free(grad[i]);
    lanes_drawn_free(&drawn);
    update_card_close(&card);
    device_close(cpu);
    hand_close(&h);
}

static inline void update_rows_check_all(void)
{
    static const uint32_t dims[] = {1, 16, 37};
    for (size_t r = 0; r < sizeof rules / sizeof *rules; r++)
        for (uint32_t bounds = 0; bounds < 8; bounds += 1 + bounds % 3)
            for (size_t d = 0; d < 3; d++) {
                const struct graph_optimizer o = rule_parse(rules[r], bounds);
                const enum table_store store = (bounds + d) % 2 ? TABLE_BF16 : TABLE_F32;
                update_rows_check(&o, rules[r], dims[d], 1, 1, store);
                update_rows_check(&o, rules[r], dims[d], LANES, USES, store);
            }
}

static inline void update_params_check_all(void)
{
    const uint32_t count = 1000;
    for (size_t r = 0; r < sizeof rules / sizeof *rules; r++)
        for (uint32_t k = 0; k < 2 * LANES; k++) {
            const uint32_t lanes = 1 + k / 2;
            struct graph_optimizer o = rule_parse(rules[r], lanes);
            if (optimizer_is_for_rows(&o)) continue;
            if (lanes == 3) o.clip_norm = 0;
            struct hand_graph h;
            struct device *cpu;
            struct update_card card;
            hand_open(&h, 4, lanes);
            ok(cpu_device_open(&cpu, &h.graph, 1, NULL, "base"));
            update_card_open(&card);
            float *weight = update_floats(&h, count, false), *start = update_floats(&h, 2 * count, true), *grad[LANES],
                  *card_grad[LANES];
            for (uint32_t i = 0; i < lanes; i++) {
                grad[i] = update_floats(&h, count, false);
                card_grad[i] = update_copy(&card, grad[i], count * sizeof(float));
            }
            struct param_update on_cpu = {.optimizer = &o,
                                          .weight = weight,
                                          .state = start,
                                          .state_stride = count,
                                          .grad = grad,
                                          .lanes = lanes,
                                          .is_bf16 = k % 2,
                                          .count = count,
                                          .scale = 0.25f,
                                          .rate = o.learning_rate,
                                          .t = 9};
            struct param_update on_card = on_cpu;
            on_card.weight = update_copy(&card, weight, count * sizeof(float));
            on_card.state = update_copy(&card, start, 2 * count * sizeof(float));
            on_card.grad = update_copy(&card, card_grad, lanes * sizeof *card_grad);
            ok(device_update_params(cpu, &on_cpu));
            ok(gpu_update_params(&card.work, &on_card, 0));
            update_same(&card, rules[r], on_card.weight, weight, count);
            update_same(&card, rules[r], on_card.state, start, 2 * count);
            for (uint32_t i = 0; i < lanes; i++) update_same(&card, "cleared sums", card_grad[i], grad[i], count);
            for (uint32_t i = 0; i < lanes; i++) free(grad[i]);
            free(weight), free(start);
            update_card_close(&card);
            device_close(cpu);
            hand_close(&h);
        }
}

static inline void sum_params_check(bool is_bf16)
{
    struct hand_graph h;
    struct device *cpu;
    struct update_card card;
    hand_open(&h, 4, 3);
    ok(cpu_device_open(&cpu, &h.graph, 1, NULL, "base"));
    update_card_open(&card);
    const struct param_block blocks[] = {{0, 100}, {112, 1}, {128, 517}, {1000, 33}};
    enum { COUNT = 1040, BLOCKS = sizeof blocks / sizeof *blocks };
    float *grad[LANES], *card_grad[LANES];
    double squares[BLOCKS] = {0};
    for (uint32_t i = 0; i < LANES; i++) {
        grad[i] = update_floats(&h, COUNT, false);
        card_grad[i] = update_copy(&card, grad[i], COUNT * sizeof(float));
    }
    struct param_sums on_cpu = {
        .grad = grad, .lanes = LANES, .is_bf16 = is_bf16, .block_count = BLOCKS, .block = blocks, .squares = squares};
    struct param_sums on_card = on_cpu;
    on_card.grad = update_copy(&card, card_grad, sizeof card_grad);
    on_card.block = update_copy(&card, blocks, sizeof blocks);
    on_card.squares = update_copy(&card, squares, sizeof squares);
    ok(device_sum_params(cpu, &on_cpu));
    ok(gpu_sum_params(&card.work, &on_card));
    update_same(&card, "squares", (const float *)on_card.squares, (const float *)squares, 2 * BLOCKS);
    for (uint32_t i = 0; i < LANES; i++) update_same(&card, "sums", card_grad[i], grad[i], COUNT);
    for (uint32_t i = 0; i < LANES; i++) free(grad[i]);
    update_card_close(&card);
    device_close(cpu);
    hand_close(&h);
}
static inline void sum_params_check_all(void)
{
    sum_params_check(false);
    sum_params_check(true);
}

#endif

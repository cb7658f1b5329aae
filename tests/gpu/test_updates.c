/* Updates on a card, emulated, against the CPU's: the same bits, for every rule, with several lanes and uses, with bounds and penalties. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "engine/bench/hand_graph.h"
#include "engine/cpu/device.h"
#include "gpu/emu/gpu_emu.h"
#include "gpu/ops.h"

#define ROWS  37u
#define LANES 3u
#define USES  2u

static void ok(status st)
{
    if (st != ST_OK) fail_msg("%s", status_message());
}

/* A card, and what has been copied to it. */
struct card {
    struct gpu_work work;
    struct gpu_event *event;
    struct copied {
        void *card, *host;
        size_t bytes;
    } copied[256];
    uint32_t count;
};

static void card_open(struct card *c)
{
    *c = (struct card){0};
    ok(gpu_emu_open(&c->work.gpu, 0, 5));
    ok(gpu_stream_open(c->work.gpu, &c->work.stream));
    ok(gpu_event_open(c->work.gpu, &c->event));
}
static void finish(struct card *c)
{
    ok(gpu_record(c->work.gpu, c->work.stream, c->event));
    ok(gpu_wait(c->work.gpu, c->event));
}
static void *copy_of(struct card *c, const void *host, size_t bytes)
{
    struct copied *n = &c->copied[c->count++];
    assert_true(c->count <= 256);
    ok(gpu_take(c->work.gpu, bytes, "an array of a test", &n->card));
    ok(gpu_copy(c->work.gpu, c->work.stream, n->card, host, bytes));
    finish(c);
    n->bytes = bytes;
    n->host = malloc(bytes);
    assert_non_null(n->host);
    return n->card;
}
/* What is on the card now. */
static const void *back_of(struct card *c, const void *card)
{
    for (uint32_t i = 0; i < c->count; i++)
        if (c->copied[i].card == card) {
            ok(gpu_copy(c->work.gpu, c->work.stream, c->copied[i].host, card, c->copied[i].bytes));
            finish(c);
            return c->copied[i].host;
        }
    fail_msg("never copied");
    return NULL;
}
static void card_close(struct card *c)
{
    gpu_stream_close(c->work.gpu, c->work.stream);
    gpu_event_close(c->work.gpu, c->event);
    for (uint32_t i = 0; i < c->count; i++) {
        gpu_give(c->work.gpu, c->copied[i].card);
        free(c->copied[i].host);
    }
    gpu_close(c->work.gpu);
}

static float *floats(struct hand_graph *h, size_t count, bool is_positive)
{
    float *x = malloc(count * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < count; i++) {
        const float r = hand_random(h);
        x[i] = is_positive && r < 0 ? -r : r;
    }
    return x;
}

static const char *const rules[] = {"sgd 0.1",         "sgd 0.1 power=0.5",       "adagrad 0.1",
                                    "adam 0.01",       "adamw 0.01 decay=0.1",    "momentum 0.1",
                                    "ftrl 0.1 l1=0.2", "momentum 0.1 nesterov=1", "adagrad_row 0.1"};
static struct graph_optimizer rule_parse(const char *text, uint32_t bounds)
{
    struct graph_optimizer o;
    ok(optimizer_parse(text, &o));
    if (bounds & 1) o.l1 = 0.01f, o.l2 = 0.02f;
    if (bounds & 2) o.clip_value = 0.3f;
    if (bounds & 4) o.clip_norm = 0.5f;
    return o;
}

static void same(struct card *c, const char *what, const float *card, const float *host, size_t count)
{
    const float *got = back_of(c, card);
    for (size_t i = 0; i < count; i++)
        if (memcmp(&got[i], &host[i], sizeof *got) != 0)
            fail_msg("%s: number %zu is %a, on the CPU %a", what, i, (double)got[i], (double)host[i]);
}

static void rows_check(const struct graph_optimizer *o, const char *text, uint32_t dim, uint32_t lanes, uint32_t uses)
{
    struct hand_graph h;
    struct device *cpu;
    struct card card;
    hand_open(&h, 4, dim + lanes);
    ok(cpu_device_open(&cpu, &h.graph, 1, NULL, "base"));
    card_open(&card);
    const struct graph_table table = {.dim = dim, .span_floats = optimizer_span_floats(o, dim)};
    float *span[ROWS], *grad[LANES * USES], *card_span[ROWS], *card_grad[LANES * USES];
    uint32_t occurrences[ROWS];
    for (uint32_t r = 0; r < ROWS; r++) {
        span[r] = floats(&h, table.span_floats, true);
        span[r][0] = r % 5 ? span[r][0] - 0.5f : 0;
        if (optimizer_counts(o)) memcpy(&span[r][table.span_floats - 1], &(uint32_t){r == 7 ? UINT32_MAX : r}, 4);
        occurrences[r] = 1 + r % 3;
        card_span[r] = copy_of(&card, span[r], table.span_floats * sizeof(float));
    }
    for (uint32_t i = 0; i < lanes * uses; i++) {
        grad[i] = floats(&h, (size_t)ROWS * dim, false);
        card_grad[i] = copy_of(&card, grad[i], (size_t)ROWS * dim * sizeof(float));
    }
    struct table_update u = {.table = &table,
                             .optimizer = o,
                             .row_count = ROWS,
                             .span = span,
                             .grad = grad,
                             .lanes = lanes,
                             .use_count = uses,
                             .occurrence_count = optimizer_reads_shows(o) ? occurrences : NULL,
                             .scale = 0.25f,
                             .rate = o->learning_rate,
                             .t = 11};
    struct table_update on_card = u;
    on_card.span = copy_of(&card, card_span, sizeof card_span);
    on_card.grad = copy_of(&card, card_grad, lanes * uses * sizeof *card_grad);
    if (u.occurrence_count) on_card.occurrence_count = copy_of(&card, occurrences, sizeof occurrences);
    ok(cpu->vt->update_rows(cpu, &u));
    ok(gpu_update_rows(&card.work, &on_card));
    char what[128];
    snprintf(what, sizeof what, "%s, clip_norm %g, dim %u, %u lanes, %u uses", text, (double)o->clip_norm, dim, lanes,
             uses);
    for (uint32_t r = 0; r < ROWS; r++) same(&card, what, card_span[r], span[r], table.span_floats);
    for (uint32_t i = 0; i < lanes * uses; i++) same(&card, "cleared sums", card_grad[i], grad[i], (size_t)ROWS * dim);
    for (uint32_t r = 0; r < ROWS; r++) free(span[r]);
    for (uint32_t i = 0; i < lanes * uses; i++) free(grad[i]);
    card_close(&card);
    cpu->vt->close(cpu);
    hand_close(&h);
}

static void update_rows__every_rule__same_bits(void **state)
{
    (void)state;
    static const uint32_t dims[] = {1, 16, 37};
    for (size_t r = 0; r < sizeof rules / sizeof *rules; r++)
        for (uint32_t bounds = 0; bounds < 8; bounds += 1 + bounds % 3)
            for (size_t d = 0; d < 3; d++) {
                const struct graph_optimizer o = rule_parse(rules[r], bounds);
                rows_check(&o, rules[r], dims[d], 1, 1);
                rows_check(&o, rules[r], dims[d], LANES, USES);
            }
}

static void update_params__every_rule__same_bits(void **state)
{
    (void)state;
    const uint32_t count = 1000;
    for (size_t r = 0; r < sizeof rules / sizeof *rules; r++)
        for (uint32_t lanes = 1; lanes <= LANES; lanes++) {
            struct graph_optimizer o = rule_parse(rules[r], lanes);
            if (optimizer_is_for_rows(&o)) continue;
            if (lanes == 3) o.clip_norm = 0;
            struct hand_graph h;
            struct device *cpu;
            struct card card;
            hand_open(&h, 4, lanes);
            ok(cpu_device_open(&cpu, &h.graph, 1, NULL, "base"));
            card_open(&card);
            float *weight = floats(&h, count, false), *start = floats(&h, 2 * count, true), *grad[LANES],
                  *card_grad[LANES];
            for (uint32_t i = 0; i < lanes; i++) {
                grad[i] = floats(&h, count, false);
                card_grad[i] = copy_of(&card, grad[i], count * sizeof(float));
            }
            struct param_update u = {.optimizer = &o,
                                     .weight = weight,
                                     .state = start,
                                     .state_stride = count,
                                     .grad = grad,
                                     .lanes = lanes,
                                     .count = count,
                                     .scale = 0.25f,
                                     .rate = o.learning_rate,
                                     .t = 9};
            struct param_update on_card = u;
            on_card.weight = copy_of(&card, weight, count * sizeof(float));
            on_card.state = copy_of(&card, start, 2 * count * sizeof(float));
            on_card.grad = copy_of(&card, card_grad, lanes * sizeof *card_grad);
            ok(cpu->vt->update_params(cpu, &u));
            ok(gpu_update_params(&card.work, &on_card, 0));
            same(&card, rules[r], on_card.weight, weight, count);
            same(&card, rules[r], on_card.state, start, 2 * count);
            for (uint32_t i = 0; i < lanes; i++) same(&card, "cleared sums", card_grad[i], grad[i], count);
            for (uint32_t i = 0; i < lanes; i++) free(grad[i]);
            free(weight), free(start);
            card_close(&card);
            cpu->vt->close(cpu);
            hand_close(&h);
        }
}

static void sum_params__blocks__same_bits(void **state)
{
    (void)state;
    struct hand_graph h;
    struct device *cpu;
    struct card card;
    hand_open(&h, 4, 3);
    ok(cpu_device_open(&cpu, &h.graph, 1, NULL, "base"));
    card_open(&card);
    const struct param_block blocks[] = {{0, 100}, {112, 1}, {128, 517}, {1000, 33}};
    enum { COUNT = 1040, BLOCKS = sizeof blocks / sizeof *blocks };
    float *grad[LANES], *card_grad[LANES];
    double squares[BLOCKS] = {0};
    for (uint32_t i = 0; i < LANES; i++) {
        grad[i] = floats(&h, COUNT, false);
        card_grad[i] = copy_of(&card, grad[i], COUNT * sizeof(float));
    }
    struct param_sums u = {.grad = grad, .lanes = LANES, .block_count = BLOCKS, .block = blocks, .squares = squares};
    struct param_sums on_card = u;
    on_card.grad = copy_of(&card, card_grad, sizeof card_grad);
    on_card.block = copy_of(&card, blocks, sizeof blocks);
    on_card.squares = copy_of(&card, squares, sizeof squares);
    ok(cpu->vt->sum_params(cpu, &u));
    ok(gpu_sum_params(&card.work, &on_card));
    same(&card, "squares", (const float *)on_card.squares, (const float *)squares, 2 * BLOCKS);
    for (uint32_t i = 0; i < LANES; i++) same(&card, "sums", card_grad[i], grad[i], COUNT);
    for (uint32_t i = 0; i < LANES; i++) free(grad[i]);
    card_close(&card);
    cpu->vt->close(cpu);
    hand_close(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(update_rows__every_rule__same_bits),
        cmocka_unit_test(update_params__every_rule__same_bits),
        cmocka_unit_test(sum_params__blocks__same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

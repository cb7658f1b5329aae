/* Kernels of ops on vectors that lie side by side: fm, interact, attention, match. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/engine/device/cpu/kernel_case.h"

struct fm_params {
    uint32_t B, S, dim, gap;
    bool is_reduced, adds;
};
static void fm_build(struct fixture *f, const void *params)
{
    const struct fm_params *fm = params;
    struct hand_graph *h = &f->h;
    uint32_t adds[1] = {fm->adds}, cols = fm->S * fm->dim, out_cols = fm->is_reduced ? 1 : fm->dim;
    hand_open(h, fm->B, fm->B + cols);
    uint32_t e = hand_tensor_grad(h, fm->B, cols, cols + fm->gap),
             out = hand_tensor_grad(h, fm->B, out_cols, out_cols + fm->gap);
    struct fm_attr attr = {.dim = fm->dim, .is_reduced = fm->is_reduced};
    hand_node(h, OP_ID_fm, (struct hand_tensors){1, {e}}, (struct hand_tensors){0}, out, (struct hand_tensors){0},
              &attr, sizeof attr, adds);
}

static void fm__odd_shapes__equals_reference(void **state)
{
    (void)state;
    static const uint32_t dims[] = {1, 3, 8, 16, 17, 33, 64, 70, 130}, vectors[] = {1, 2, 27};
    char what[96];
    for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++)
        for (uint32_t flags = 0; flags < 4; flags++) {
            struct fm_params fm = {i % 2 ? 3 : 300, vectors[(i + flags) % 3], dims[i], i % 3, flags & 1, flags >> 1};
            snprintf(what, sizeof what, "fm B %u S %u dim %u flags %u", fm.B, fm.S, fm.dim, flags);
            case_check(what, fm_build, &fm, PRODUCT_TOLERANCE);
        }
}

struct interact_params {
    uint32_t B, dim, gap, vectors[4]; /* vectors: of each input; 0: no such input */
    bool has_self, adds, wants_first, repeats;
};
static void interact_build(struct fixture *f, const void *params)
{
    const struct interact_params *interact = params;
    struct hand_graph *h = &f->h;
    struct interact_attr attr = {.dim = interact->dim, .has_self = interact->has_self};
    struct hand_tensors in = {0};
    uint32_t adds[5] = {interact->adds, 0, interact->adds, 0, 1}, S = 0;
    hand_open(h, interact->B, interact->B + interact->dim);
    for (uint32_t i = 0; i < 4 && interact->vectors[i] > 0; i++) {
        uint32_t cols = interact->vectors[i] * interact->dim;
        in.t[in.count++] = i > 0 || interact->wants_first ? hand_tensor_grad(h, interact->B, cols, cols + interact->gap)
                                                          : hand_tensor(h, interact->B, cols, cols + interact->gap);
        S += interact->vectors[i];
    }
    if (interact->repeats) {
        adds[in.count] = 1;
        in.t[in.count++] = in.t[0];
        S += interact->vectors[0];
    }
    uint32_t pairs = S * (S - 1) / 2 + (interact->has_self ? S : 0);
    uint32_t out = hand_tensor_grad(h, interact->B, pairs, pairs + interact->gap);
    hand_node(h, OP_ID_interact, in, (struct hand_tensors){0}, out, (struct hand_tensors){0}, &attr, sizeof attr, adds);
}

static void interact__odd_shapes__equals_reference(void **state)
{
    (void)state;
    static const uint32_t dims[] = {1, 3, 8, 16, 17, 31, 32, 33, 64, 70},
                          vectors[][4] = {{2}, {1, 1}, {1, 2, 1, 1}, {26, 1}, {1, 5, 3, 2}, {9, 7, 15}};
    char what[96];
    for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++)
        for (uint32_t flags = 0; flags < 16; flags++) {
            const uint32_t *v = vectors[(i + flags) % 6];
            struct interact_params interact = {i % 3 ? 3 : 40,           dims[i],   i % 2,
                                               {v[0], v[1], v[2], v[3]}, flags & 1, flags & 2,
                                               (flags & 4) == 0,         flags & 8};
            snprintf(what, sizeof what, "interact B %u dim %u vectors %u %u flags %u", interact.B, interact.dim, v[0],
                     v[1], flags);
            case_check(what, interact_build, &interact, PRODUCT_TOLERANCE);
        }
}

struct attention_params {
    op_id op;
    uint32_t B, T, D, gap;
    bool is_softmax, adds, wants_first, wants_second, is_one; /* is_one: both inputs are one tensor */
};
static void attention_build(struct fixture *f, const void *params)
{
    const struct attention_params *attention = params;
    struct hand_graph *h = &f->h;
    bool is_pool = attention->op == OP_ID_attention_pool;
    uint32_t adds[3] = {attention->adds, attention->adds || attention->is_one, 0}, cols = attention->T * attention->D,
             first_cols = is_pool ? attention->T : attention->D;
    hand_open(h, attention->B, attention->B + cols);
    uint32_t first = attention->wants_first ? hand_tensor_grad(h, attention->B, first_cols, first_cols + attention->gap)
                                            : hand_tensor(h, attention->B, first_cols, first_cols + attention->gap);
    uint32_t second = first;
    if (!attention->is_one)
        second = attention->wants_second ? hand_tensor_grad(h, attention->B, cols, cols + attention->gap)
                                         : hand_tensor(h, attention->B, cols, cols + attention->gap);
    struct hand_tensors in = {2, {first, second}}, saved = {0};
    if (is_pool) {
        /* Every number of keys, none and all among them. */
        in.t[in.count++] = hand_field(h, 0);
        h->graph.field_count = 1;
        h->batch.key_begin = calloc(attention->B + 1, sizeof *h->batch.key_begin);
        for (uint32_t b = 0; b < attention->B; b++)
            h->batch.key_begin[b + 1] = h->batch.key_begin[b] + (attention->T + 2 * b) % (attention->T + 1);
    }
    uint32_t out_cols = is_pool ? attention->D : 4 * cols,
             out = hand_tensor_grad(h, attention->B, out_cols, out_cols + attention->gap);
    if (attention->is_softmax)
        saved = (struct hand_tensors){1, {hand_tensor(h, attention->B, attention->T, attention->T + attention->gap)}};
    struct attention_pool_attr attr = {.is_softmax = attention->is_softmax};
    hand_node(h, attention->op, in, (struct hand_tensors){0}, out, saved, &attr, is_pool ? sizeof attr : 0, adds);
}

static void attention_check(op_id op, double tolerance)
{
    static const uint32_t shapes[][3] = {{1, 1, 1}, {9, 3, 4}, {40, 50, 16}, {3, 17, 33}, {5, 2, 70}, {30, 16, 8}};
    char what[96];
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (uint32_t flags = 0; flags < 16; flags++) {
            struct attention_params attention = {op,
                                                 shapes[i][0],
                                                 shapes[i][1],
                                                 shapes[i][2],
                                                 i % 3,
                                                 .is_softmax = op == OP_ID_attention_pool && flags & 8,
                                                 .adds = flags & 1,
                                                 .wants_first = (flags & 6) != 2,
                                                 .wants_second = (flags & 6) != 4,
                                                 .is_one = (flags & 6) == 6};
            if (attention.is_one && op == OP_ID_attention_pairs) attention.T = 1;
            if (attention.is_one && op == OP_ID_attention_pool) attention.D = 1;
            snprintf(what, sizeof what, "%s B %u T %u D %u flags %u", op_table[op].name, attention.B, attention.T,
                     attention.D, flags);
            case_check(what, attention_build, &attention, tolerance);
        }
}
static void attention_pairs__odd_shapes__equals_reference_to_the_bit(void **state)
{
    (void)state, attention_check(OP_ID_attention_pairs, EXACT);
}
static void attention_pool__odd_shapes__equals_reference(void **state)
{
    (void)state, attention_check(OP_ID_attention_pool, PRODUCT_TOLERANCE);
}

struct match_params {
    uint32_t B, D, n, gap;
    struct match_attr attr;
    bool adds, wants_dq, wants_dc, is_one; /* is_one: q is c, too */
};
static void match_build(struct fixture *f, const void *params)
{
    const struct match_params *match = params;
    struct hand_graph *h = &f->h;
    uint32_t adds[2] = {match->adds, match->adds || match->is_one}, cols = match->n * (match->D + match->attr.has_bias);
    hand_open(h, match->B, match->B + match->D);
    uint32_t q = match->wants_dq ? hand_tensor_grad(h, match->B, match->D, match->D + match->gap)
                                 : hand_tensor(h, match->B, match->D, match->D + match->gap);
    uint32_t c = q;
    if (!match->is_one)
        c = match->wants_dc ? hand_tensor_grad(h, match->B, cols, cols + match->gap)
                            : hand_tensor(h, match->B, cols, cols + match->gap);
    uint32_t out = hand_tensor_grad(h, match->B, match->n, match->n + match->gap);
    struct hand_tensors saved = {0};
    if (match->attr.similarity == MATCH_COSINE)
        saved = (struct hand_tensors){2,
                                      {hand_tensor(h, match->B, match->n + 1, match->n + 1 + match->gap),
                                       hand_tensor(h, match->B, match->n, match->n)}};
    hand_node(h, OP_ID_match, (struct hand_tensors){2, {q, c}}, (struct hand_tensors){0}, out, saved, &match->attr,
              sizeof match->attr, adds);
}

static void match__odd_shapes__equals_reference(void **state)
{
    (void)state;
    static const uint32_t shapes[][3] = {{1, 1, 1},  {3, 4, 2},   {2, 16, 5},   {5, 17, 17}, {2, 64, 33},
                                         {3, 70, 3}, {1, 256, 9}, {40, 33, 20}, {2, 129, 1}};
    char what[96];
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (uint32_t flags = 0; flags < 24; flags++) {
            struct match_params match = {
                shapes[i][0],
                shapes[i][1],
                shapes[i][2],
                i % 3,
                {.similarity = flags / 8 == 2, .has_bias = flags / 8 == 1, .scale = 1.5f, .eps = 0.01f},
                .adds = flags & 1,
                .wants_dq = (flags & 6) != 2,
                .wants_dc = (flags & 6) != 4,
                .is_one = (flags & 6) == 6 && flags / 8 != 1};
            if (match.is_one) match.n = 1;
            snprintf(what, sizeof what, "match B %u D %u n %u flags %u", match.B, match.D, match.n, flags);
            case_check(what, match_build, &match, PRODUCT_TOLERANCE);
        }
}

struct shared_params {
    uint32_t B, D, words, gap;
    bool is_cosine, adds, wants_dq, wants_dc, is_drawn; /* is_drawn: the field is of candidates */
};
static void shared_build(struct fixture *f, const void *params)
{
    const struct shared_params *shared = params;
    struct hand_graph *h = &f->h;
    uint32_t adds[3] = {shared->adds, shared->adds, 0}, keys = 1 + shared->words, cols = keys * shared->D;
    hand_open(h, shared->B, shared->B + shared->D);
    h->graph.fields = f->field;
    h->graph.field_count = 1;
    f->field[0] = (struct graph_field){.ids_max = keys, .negative_count = shared->is_drawn ? shared->words : 0};
    h->header.dense_stride = keys;
    h->batch.dense = h->view[hand_tensor(h, shared->B, keys, keys)].data;
    uint32_t q = shared->wants_dq ? hand_tensor_grad(h, shared->B, shared->D, shared->D + shared->gap)
                                  : hand_tensor(h, shared->B, shared->D, shared->D + shared->gap);
    uint32_t c = shared->wants_dc ? hand_tensor_grad(h, shared->B, cols, cols + shared->gap)
                                  : hand_tensor(h, shared->B, cols, cols + shared->gap);
    /* Words are often targets; every fifth example lacks its last word, every seventh
     * all keys; some are drawn in vain. */
    h->batch.key_begin = calloc(shared->B + 1, sizeof *h->batch.key_begin);
    h->batch.key = calloc((size_t)shared->B * keys, sizeof *h->batch.key);
    uint32_t at = 0;
    for (uint32_t b = 0; b < shared->B; b++) {
        const uint32_t count = b % 7 == 6 ? 0 : keys - (b % 5 == 4);
        for (uint32_t k = 0; k < count; k++) h->batch.key[at++] = (b * 3 + k * 5) % 11;
        h->batch.key_begin[b + 1] = at;
        for (uint32_t k = 0; k < keys; k++) {
            float *log_q = &h->batch.dense[b * keys + k];
            *log_q = k > 0 && (b + k) % 6 == 0 ? 1e30f : *log_q - 2;
        }
    }
    uint32_t out = hand_tensor(h, shared->B, 1, 1);
    struct hand_tensors saved = {2,
                                 {hand_tensor(h, shared->B, LOSS_SAVED_COLS, LOSS_SAVED_COLS),
                                  hand_tensor(h, shared->B, 1 + keys, 1 + keys + shared->gap)}};
    const struct shared_softmax_attr attr = {.loss = {.weight = 0.75f},
                                             .match = {.similarity = shared->is_cosine, .scale = 1.5f, .eps = 0.01f}};
    const struct hand_tensors in = {3, {q, c, hand_field(h, 0)}};
    hand_node(h, OP_ID_shared_softmax, in, (struct hand_tensors){0}, out, saved, &attr, sizeof attr, adds);
}

static void shared_softmax__odd_shapes__equals_reference(void **state)
{
    (void)state;
    static const uint32_t shapes[][3] = {{1, 1, 1},   {3, 4, 2},   {2, 16, 5}, {17, 17, 3}, {37, 64, 2},
                                         {33, 70, 1}, {5, 130, 9}, {70, 8, 1}, {16, 33, 40}};
    char what[96];
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (uint32_t flags = 0; flags < 16; flags++) {
            struct shared_params shared = {shapes[i][0],
                                           shapes[i][1],
                                           shapes[i][2],
                                           i % 3,
                                           .is_cosine = flags & 8,
                                           .adds = flags & 1,
                                           .wants_dq = (flags & 6) != 2,
                                           .wants_dc = (flags & 6) != 4,
                                           .is_drawn = (flags + i) % 3};
            snprintf(what, sizeof what, "shared_softmax B %u D %u words %u flags %u", shared.B, shared.D, shared.words,
                     flags);
            case_check(what, shared_build, &shared, PRODUCT_TOLERANCE);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fm__odd_shapes__equals_reference),
        cmocka_unit_test(interact__odd_shapes__equals_reference),
        cmocka_unit_test(attention_pairs__odd_shapes__equals_reference_to_the_bit),
        cmocka_unit_test(attention_pool__odd_shapes__equals_reference),
        cmocka_unit_test(match__odd_shapes__equals_reference),
        cmocka_unit_test(shared_softmax__odd_shapes__equals_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}

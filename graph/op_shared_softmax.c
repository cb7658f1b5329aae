/* Cross-entropy of a target among candidates that a micro-batch shares: each example's drawn words are
 * candidates of all its examples, so that B examples with K words each have B * K candidates for the price of
 * K (mixed negative sampling: Yang et al., WWW 2020 Companion; corrected by the sampler's probabilities as in
 * Jean, Cho, Memisevic, Bengio, ACL 2015, section 3, and Yi et al., RecSys 2019).
 *
 *   q [B, D]               the queries
 *   c [B, (1+K)*D]         the vector of each example's target, then those of its K words
 *   field                  its keys are the targets and the words; [candidates] also have log_q, else log_q is 0
 *
 *   z_b,0 = s(q_b, c_b,0) - log_q_b,0       z_b,j = s(q_b, c_j) - log_q_j       over all words, example by example
 *   s     = scale * dot, or scale * cosine, as [match] has it
 *   loss  = log sum_j exp(z_j - m) - (z_0 - m)          dz_j = exp(z_j - m) / sum - [j = 0]          m = max z
 *
 * A word with the key of b's target is no candidate of b. A word that its example lacks (fewer keys), or that
 * the sampler drew although it was the example's target, is no candidate of any. A micro-batch with fewer
 * examples has fewer candidates. So the candidates depend on the drawn words and on train.micro alone.
 *
 * Saved are the loss's row and the inverse norms (1 with dot): u of q, v_0 of the target, v_1 … of the words.
 * Sums run over d, over j and over b, in order. The gradient is that of the sum of the examples' losses; this
 * op starts the backward pass, so it reads no dout. */
#include "engine/base/fmath.h"
#include "graph/op_rules.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Flops cannot depend on train.micro: they are those of the usual one. */
#define MICRO_USUAL 512u

static const char *const similarity_names[] = {"dot", "cosine", NULL};
struct shared_softmax_keys {
    struct loss_keys loss;
    struct match_similarity_keys match;
};
static const struct cfg_key shared_softmax_keys[] = {
    LOSS_WEIGHT_KEY,
    {.name = "similarity",
     .type = CFG_CHOICE,
     .fallback = "cosine",
     .unit = "",
     .meaning = "of the first input with the vectors that the second one holds",
     .offset = offsetof(struct shared_softmax_keys, match.similarity),
     .choices = similarity_names},
    {.name = "scale",
     .type = CFG_F32,
     .fallback = "10",
     .min = MATCH_SCALE_MIN,
     .max = MATCH_SCALE_MAX,
     .unit = "",
     .meaning = "factor of the similarity: one over the temperature",
     .offset = offsetof(struct shared_softmax_keys, match.scale)},
    {.name = "eps",
     .type = CFG_F32,
     .fallback = "1e-12",
     .min = MATCH_EPS_MIN,
     .max = MATCH_EPS_MAX,
     .unit = "",
     .meaning = "of cosine: added to the squares of both norms",
     .offset = offsetof(struct shared_softmax_keys, match.eps)},
};
const struct op_keys op_shared_softmax_keys = OP_KEYS(shared_softmax_keys, struct shared_softmax_keys);

static struct shared_softmax_attr attr_of(const uint8_t *bytes)
{
    struct shared_softmax_attr attr;
    memcpy(&attr, bytes, sizeof attr);
    return attr;
}

status op_shared_softmax_parse(const struct op_parse *p)
{
    const struct shared_softmax_keys *keys = p->keys;
    struct shared_softmax_attr attr = {
        .loss = {.weight = keys->loss.weight},
        .match = {.similarity = keys->match.similarity, .scale = keys->match.scale, .eps = keys->match.eps}};
    memcpy(p->attr, &attr, sizeof attr);
    return ST_OK;
}

void op_shared_softmax_words(const uint8_t *bytes_of_attr, char *text, size_t bytes)
{
    const struct match_attr match = attr_of(bytes_of_attr).match;
    snprintf(text, bytes, ", %s, scale %g", similarity_names[match.similarity == MATCH_COSINE], (double)match.scale);
}

status op_shared_softmax_shape(struct op_shape *s, const struct graph_table *tables, uint32_t table_count)
{
    (void)tables, (void)table_count;
    const struct match_attr match = attr_of(s->attr).match;
    if (s->input_count != 3 || s->input_cols[0] == 0 || s->input_cols[1] == 0 || s->input_keys[2] == 0)
        FAIL(INVALID, "expected two inputs that are not sparse fields and one that is, found %u inputs",
             s->input_count);
    if (match.has_bias) FAIL(INVALID, "expected no bias, found %u", match.has_bias);
    TRY(match_attr_check(&match));
    const uint32_t D = s->input_cols[0], keys = s->input_keys[2];
    if (keys < 2)
        FAIL(INVALID, "expected a field of a target and words that are drawn for it, ids_max = 2 or more, found 1 key");
    if ((uint64_t)D * keys != s->input_cols[1])
        FAIL(INVALID, "expected a second input of %u vectors of %u columns, one a key of the field, found %u columns",
             keys, D, s->input_cols[1]);
    s->output_cols = 1;
    s->saved[0].name = "row";
    s->saved[0].cols = LOSS_SAVED_COLS;
    s->saved[1].name = "inverse_norms";
    s->saved[1].cols = 1 + keys;
    s->saved_count = 2;
    const uint64_t candidates = (uint64_t)(keys - 1) * MICRO_USUAL;
    s->flops_forward = candidates * (2 * (uint64_t)D + 14);
    s->flops_backward = candidates * (6 * (uint64_t)D + 14);
    return loss_attr_check(s->attr);
}

/* The working state of the passes. */
struct shared {
    const struct op_context *c;
    const struct graph_node *n;
    struct match_attr attr;
    struct view q, vectors, row, norm;
    uint32_t D, words; /* K */
};

static struct shared shared_of(const struct op_context *c, const struct graph_node *n)
{
    struct shared shared = {.c = c,
                            .n = n,
                            .attr = attr_of(n->attr).match,
                            .q = op_in(c, n, 0),
                            .vectors = op_in(c, n, 1),
                            .row = op_saved(c, n, 0),
                            .norm = op_saved(c, n, 1)};
    shared.D = shared.q.cols;
    shared.words = shared.vectors.cols / shared.D - 1;
    return shared;
}

static float dot(const float *left, const float *right, uint32_t count)
{
    float sum = 0;
    for (uint32_t i = 0; i < count; i++) sum += left[i] * right[i];
    return sum;
}

static float inverse_norm(const struct shared *shared, const float *x)
{
    return shared->attr.similarity == MATCH_COSINE ? 1 / sqrtf(dot(x, x, shared->D) + shared->attr.eps) : 1;
}

/* Vector j of example `owner`: 0 the target's. */
static const float *vector_of(const struct shared *shared, uint32_t owner, uint32_t j)
{
    return view_row(shared->vectors, owner) + (size_t)j * shared->D;
}

/* The similarity, without scale, of b and vector j of an owner. */
static float similarity_of(const struct shared *shared, uint32_t b, uint32_t owner, uint32_t j)
{
    return dot(view_row(shared->q, b), vector_of(shared, owner, j), shared->D) * view_row(shared->norm, b)[0] *
           view_row(shared->norm, owner)[1 + j];
}

/* z of b with word j > 0 of an owner, which counts, or with its own target. */
static float logit_of(const struct shared *shared, const struct shared_keys *keys, uint32_t b, uint32_t j)
{
    return shared->attr.scale * similarity_of(shared, b, keys->owner, j) - (keys->log_q ? keys->log_q[j] : 0);
}

void op_shared_softmax_forward(const struct op_context *c, const struct graph_node *n)
{
    const struct shared shared = shared_of(c, n);
    for (uint32_t b = 0; b < shared.q.rows; b++) {
        view_row(shared.norm, b)[0] = inverse_norm(&shared, view_row(shared.q, b));
        for (uint32_t j = 0; j <= shared.words; j++)
            view_row(shared.norm, b)[1 + j] = inverse_norm(&shared, vector_of(&shared, b, j));
    }
    for (uint32_t b = 0; b < shared.q.rows; b++) {
        const struct shared_keys own = shared_keys_of(c, n, b);
        const float target = logit_of(&shared, &own, b, 0);
        float greatest = target;
        for (uint32_t owner = 0; owner < shared.q.rows; owner++) {
            const struct shared_keys of = shared_keys_of(c, n, owner);
            for (uint32_t j = 1; j <= shared.words; j++) {
                if (!shared_keys_count(&of, j) || shared_keys_hit(&own, &of, j)) continue;
                const float z = logit_of(&shared, &of, b, j);
                if (z > greatest) greatest = z;
            }
        }
        double sum = fmath_exp((double)target - (double)greatest);
        for (uint32_t owner = 0; owner < shared.q.rows; owner++) {
            const struct shared_keys of = shared_keys_of(c, n, owner);
            for (uint32_t j = 1; j <= shared.words; j++)
                if (shared_keys_count(&of, j) && !shared_keys_hit(&own, &of, j))
                    sum += fmath_exp((double)logit_of(&shared, &of, b, j) - (double)greatest);
        }
        const double loss = fmath_log(sum) - ((double)target - (double)greatest);
        float *row = view_row(shared.row, b);
        row[LOSS_SAVED_LOSS] = (float)loss;
        row[LOSS_SAVED_GREATEST] = greatest;
        row[LOSS_SAVED_SUM] = (float)sum;
        *view_row(op_out(c, n), b) = (float)((double)loss_scale(c, n, b) * loss);
    }
}

/* Adds the gradients of b and vector j of an owner, from g = d loss / d (scale * similarity). */
static void gradients_add(const struct shared *shared, uint32_t b, uint32_t owner, uint32_t j, float g)
{
    const bool is_cosine = shared->attr.similarity == MATCH_COSINE;
    const struct view dq = op_din(shared->c, shared->n, 0), dc = op_din(shared->c, shared->n, 1);
    const float *q_b = view_row(shared->q, b), *x = vector_of(shared, owner, j);
    const float u = view_row(shared->norm, b)[0], v = view_row(shared->norm, owner)[1 + j];
    const float along = is_cosine ? similarity_of(shared, b, owner, j) : 0;
    g *= shared->attr.scale;
    for (uint32_t d = 0; d < shared->D; d++) {
        if (dq.data != NULL) view_row(dq, b)[d] += g * u * (v * x[d] - along * u * q_b[d]);
        if (dc.data != NULL) view_row(dc, owner)[(size_t)j * shared->D + d] += g * v * (u * q_b[d] - along * v * x[d]);
    }
}

static void zeros_put(struct view view)
{
    for (uint32_t b = 0; b < view.rows && view.data != NULL; b++)
        memset(view_row(view, b), 0, view.cols * sizeof(float));
}

void op_shared_softmax_backward(const struct op_context *c, const struct graph_node *n)
{
    const struct shared shared = shared_of(c, n);
    for (uint32_t k = 0; k < 2; k++)
        if (!op_din_adds(c, n, k)) zeros_put(op_din(c, n, k));
    for (uint32_t b = 0; b < shared.q.rows; b++) {
        const struct shared_keys own = shared_keys_of(c, n, b);
        const float *row = view_row(shared.row, b);
        const double factor = (double)loss_scale(c, n, b) / (double)row[LOSS_SAVED_SUM],
                     greatest = (double)row[LOSS_SAVED_GREATEST];
        const double probability = factor * fmath_exp((double)logit_of(&shared, &own, b, 0) - greatest);
        gradients_add(&shared, b, b, 0, (float)(probability - (double)loss_scale(c, n, b)));
        for (uint32_t owner = 0; owner < shared.q.rows; owner++) {
            const struct shared_keys of = shared_keys_of(c, n, owner);
            for (uint32_t j = 1; j <= shared.words; j++)
                if (shared_keys_count(&of, j) && !shared_keys_hit(&own, &of, j))
                    gradients_add(&shared, b, owner, j,
                                  (float)(factor * fmath_exp((double)logit_of(&shared, &of, b, j) - greatest)));
        }
    }
}

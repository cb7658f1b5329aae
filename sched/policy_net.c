/* The network's arithmetic: a batch of plans drawn layer by layer, the backward pass
 * of the few that push, and Adam.
 *
 * Per plan and layer a draw costs some 250 multiplications for the LSTM's gates and type (L = 20, T = 64:
 * 2,000 in all), half as many exponentials; a plan's backward pass costs three times as much, for one plan in
 * ten. Rows over gates, types and queries are multiples of NET_LANES floats, and every sum over such a row is
 * taken lane by lane, then over the lanes in a fixed order: so the functions below give the same bits with
 * registers of four floats and of eight, and are compiled for both. */
#include "sched/policy_net.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "engine/base/fmath.h"
#include "engine/base/isa.h"

#pragma GCC diagnostic ignored "-Wpsabi"
#define INLINE static inline __attribute__((always_inline))

/* --- an instance as the network reads it ------------------------------------------------------ */

/* The logarithm of a positive number, which is kept within 1e-30 to 1e30. */
static float log_of(double x) { return (float)fmath_log(x > 1e-30 ? (x < 1e30 ? x : 1e30) : 1e-30); }

/* Subtracts the mean, divides by the standard deviation: only the comparison of types, or layers, counts. */
static void relative(float *row, uint32_t count)
{
    float mean = 0, square = 0;
    for (uint32_t t = 0; t < count; t++) mean += row[t];
    mean /= (float)count;
    for (uint32_t t = 0; t < count; t++) square += (row[t] - mean) * (row[t] - mean);
    float deviation = (float)sqrt((double)(square / (float)count));
    for (uint32_t t = 0; t < count; t++) row[t] = deviation > 1e-6f ? (row[t] - mean) / (deviation + 0.1f) : 0;
}

#define NEAR_LAYERS 4u    /* how far features look ahead and back */
#define TINY        1e-30 /* below any time or price that occurs  */

/* Parallel and sequential seconds an example of layers first … last - 1 on one unit of a type. */
static double compute_of(const struct cost_model *m, uint32_t first, uint32_t last, uint32_t type)
{
    double sum = 0;
    for (uint32_t l = first; l < last; l++) {
        const struct cost_time *of = &m->times[(size_t)l * m->type_count + type];
        sum += of->compute + of->compute_shared;
    }
    return sum;
}

/* Seconds of the links that a stage of the layer alone would take: the mean over the other types behind
 * it. */
static double link_of(const struct cost_model *m, uint32_t layer, uint32_t type)
{
    double sum = 0;
    if (m->node_count == 1) return 0;
    if (m->type_count == 1 || layer + 1 == m->layer_count) return cost_links_seconds(m, layer, layer, type, 0);
    for (uint32_t t = 0; t < m->type_count; t++)
        if (t != type) sum += cost_links_seconds(m, layer, layer, type, cost_nodes(m, t));
    return sum / (m->type_count - 1);
}

/* Sets the features of all types for a layer: logarithms, compared among the types. */
static void features(struct net_view *v, const struct cost_model *m, uint32_t l)
{
    uint32_t L = m->layer_count, T = m->type_count, width = v->width;
    uint32_t begin = l + 1 > NEAR_LAYERS ? l + 1 - NEAR_LAYERS : 0, end = l + NEAR_LAYERS < L ? l + NEAR_LAYERS : L;
    float *keys = v->keys + (size_t)l * NET_FEATURES * width;
    double tau = isinf(m->tau_max) ? 0 : m->tau_max;
    for (uint32_t t = 0; t < T; t++) {
        const struct cost_time *of = &m->times[(size_t)l * T + t];
        double oct = of->compute + of->compute_shared, link = link_of(m, l, t), odt = of->move + of->move_shared + link;
        double price = m->price[t];
        const double feature[NET_FEATURES] = {
            price * oct,
            price * odt,
            price,
            oct,
            price * compute_of(m, l, end, t),
            price * compute_of(m, begin, l + 1, t),
            price * ((oct > odt ? oct : odt) + tau),    /* units for the least throughput, one of them begun */
            of->compute + of->move + link + 0.01 * tau, /* no number of units shortens this time             */
            m->limit[t],
            odt,
        };
        for (uint32_t f = 0; f < NET_FEATURES; f++) keys[f * width + t] = log_of(feature[f] + TINY);
    }
    for (uint32_t f = 0; f < NET_FEATURES; f++) relative(keys + f * width, T);
    for (uint32_t t = 0; t < T; t++)
        for (uint32_t f = 0; f < NET_FEATURES; f++)
            v->values[((size_t)l * T + t) * NET_FEATURES + f] = keys[f * width + t];
}

status net_view_open(struct net_view *v, const struct cost_model *m)
{
    uint32_t L = m->layer_count, T = m->type_count, width = net_width(T);
    *v = (struct net_view){.layer_count = L, .type_count = T, .width = width};
    size_t keys = (size_t)L * NET_FEATURES * width, values = (size_t)L * T * NET_FEATURES;
    float *memory = calloc(keys + values + (size_t)L * (NET_SCALARS + 1), sizeof *memory);
    if (memory == NULL) FAIL(MEMORY, "no memory for the policy's view of %u layers on %u types", L, T);
    v->memory = memory;
    v->keys = memory;
    v->values = v->keys + keys;
    v->scalars = v->values + values;
    v->kind = (uint32_t *)(v->scalars + (size_t)L * NET_SCALARS);
    net_view_set(v, m);
    return ST_OK;
}

void net_view_set(struct net_view *v, const struct cost_model *m)
{
    const uint32_t L = v->layer_count, T = v->type_count;
    for (uint32_t l = 0; l < L; l++) {
        const struct instance_layer *layer = &m->instance->layers[l];
        float *scalar = v->scalars + (size_t)l * NET_SCALARS;
        double odt = INFINITY, oct = INFINITY;
        for (uint32_t t = 0; t < T; t++) {
            const struct cost_time *of = &m->times[(size_t)l * T + t];
            double move = of->move + of->move_shared + link_of(m, l, t);
            if (move < odt) odt = move;
            if (of->compute + of->compute_shared < oct) oct = of->compute + of->compute_shared;
        }
        v->kind[l] = layer->kind ? (uint32_t)(XXH3_64bits(layer->kind, strlen(layer->kind)) % NET_KINDS) : 0;
        scalar[0] = (float)l / (float)L;
        scalar[1] = 0.1f * log_of(layer->in_bytes + 1);
        scalar[2] = 0.1f * log_of(layer->weight_bytes + 1);
        scalar[3] = log_of(odt + TINY);
        scalar[4] = log_of(oct + TINY);
        scalar[5] = l + 1 == L;
        features(v, m, l);
    }
    for (uint32_t k = 3; k < 5; k++) {
        float column[INSTANCE_LAYERS_MAX];
        for (uint32_t l = 0; l < L; l++) column[l] = v->scalars[(size_t)l * NET_SCALARS + k];
        relative(column, L);
        for (uint32_t l = 0; l < L; l++) v->scalars[(size_t)l * NET_SCALARS + k] = column[l];
    }
}

void net_view_close(struct net_view *v)
{
    free(v->memory);
    *v = (struct net_view){0};
}

/* --- parameters ------------------------------------------------------------------------------- */

struct net_layout net_layout(enum policy_cell cell, uint32_t layer_count, uint32_t width)
{
    uint32_t gates = cell == POLICY_LSTM ? 4 * NET_HIDDEN : NET_HIDDEN;
    struct net_layout at = {.gates = gates};
    size_t count = 0;
    at.recurrent = count, count += NET_HIDDEN * gates;
    at.feedback = count, count += NET_FEATURES * gates;
    at.index = count, count += NET_INDEXES * gates;
    at.kind = count, count += NET_KINDS * gates;
    at.scalar = count, count += NET_SCALARS * gates;
    at.start = count, count += gates;
    at.query = count, count += NET_HIDDEN * NET_QUERY;
    at.query_bias = count, count += NET_QUERY;
    at.shared_count = count;
    at.embedding = count, count += NET_EMBEDDING * (size_t)width;
    at.bias = count, count += width;
    at.stay = count, count += ((size_t)layer_count + NET_LANES - 1) / NET_LANES * NET_LANES;
    at.table = count, count += (size_t)layer_count * width;
    at.count = count;
    return at;
}

/* The parts of the tape that a replayed step leaves for the backward pass. */
enum {
    TAPE_GATES = 0,
    TAPE_CELL = NET_GATES_MAX,
    TAPE_STATE = TAPE_CELL + NET_HIDDEN,
    TAPE_QUERY = TAPE_STATE + NET_HIDDEN,
    TAPE_HEAD = TAPE_QUERY + NET_QUERY
};

status net_open(struct net *n, enum policy_cell cell, const struct net_view *v, uint32_t batch_max)
{
    struct net_layout at = net_layout(cell, v->layer_count, v->width);
    *n = (struct net){.cell = cell, .view = v, .at = at, .batch_max = batch_max, .is_wide = isa_runs_here(ISA_avx2)};
    size_t L = v->layer_count, cells = L * v->type_count;
    size_t floats = 4 * at.count + 2 * L * at.gates + cells * at.gates + L * (TAPE_HEAD + v->width) +
                    (size_t)batch_max * 2 * NET_HIDDEN + v->width;
    size_t words = cells + 4 * (size_t)batch_max;
    float *memory = calloc(floats + words, sizeof *memory);
    if (memory == NULL) FAIL(MEMORY, "no memory for a policy of %zu layers on %u types", L, v->type_count);
    n->memory = memory;
    float *p = memory;
    n->parameters = p, p += at.count;
    n->gradient = p, p += at.count;
    n->mean = p, p += at.count;
    n->square = p, p += at.count;
    n->before = p, p += L * at.gates;
    n->dbefore = p, p += L * at.gates;
    n->fed = p, p += cells * at.gates;
    n->tape = p, p += L * (TAPE_HEAD + v->width);
    n->state = p, p += (size_t)batch_max * 2 * NET_HIDDEN;
    n->row = p, p += v->width;
    n->fed_stamp = (uint32_t *)p;
    n->bits = n->fed_stamp + cells;
    return ST_OK;
}

void net_close(struct net *n)
{
    free(n->memory);
    *n = (struct net){0};
}

void net_reset(struct net *n)
{
    memset(n->mean, 0, n->at.count * sizeof *n->mean);
    memset(n->square, 0, n->at.count * sizeof *n->square);
    n->update_count = 0;
}

void net_draw_shared(float *shared, enum policy_cell cell, struct random_stream stream)
{
    struct net_layout at = net_layout(cell, 0, 0);
    random_fill(shared, at.query, INIT_UNIFORM, 0.25f, stream, 0);
    random_fill(shared + at.query, at.query_bias - at.query, INIT_UNIFORM, 0.1f, stream, 1);
    for (size_t i = at.query_bias; i < at.shared_count; i++) shared[i] = 0;
    for (size_t i = 0; i < at.gates; i++) shared[at.start + i] = 0;
    if (cell == POLICY_LSTM) /* the forget gate begins open: Gers, Schmidhuber, Cummins 2000 */
        for (size_t i = NET_HIDDEN; i < 2 * NET_HIDDEN; i++) shared[at.start + i] = 1;
}

/* --- elementary functions --------------------------------------------------------------------- */

/* Eight floats, computed element by element, so the bits do not depend on the registers. */
typedef float v8 __attribute__((vector_size(4 * NET_LANES), aligned(4), may_alias));
typedef int32_t v8i __attribute__((vector_size(4 * NET_LANES), aligned(4), may_alias));
#define LOAD(p)  (*(const v8 *)(p))
#define STORE(p) (*(v8 *)(p))

INLINE v8 select_v8(v8i mask, v8 a, v8 b) { return (v8)((mask & (v8i)a) | (~mask & (v8i)b)); }
INLINE v8 max_v8(v8 a, v8 b) { return select_v8(a > b, a, b); }
INLINE v8 min_v8(v8 a, float b)
{
    v8 all = {b, b, b, b, b, b, b, b};
    return select_v8(a < all, a, all);
}

/* 2^x for x < 127; x below -126 counts as -126. Relative error < 3e-6:
 * Taylor's series about the nearest integer. */
INLINE v8 exp2_v8(v8 x)
{
    const v8 low = {-126, -126, -126, -126, -126, -126, -126, -126};
    x = max_v8(x, low);
    /* Adding 1.5 * 2^23 leaves no bits for a fraction, and the integer in the lowest bits. */
    v8 shifted = x + 0x1.8p23f, f = x - (shifted - 0x1.8p23f);
    v8 p = 0x1.5d87fep-10f * f + 0x1.3b2ab6p-7f;
    p = p * f + 0x1.c6b08ep-5f;
    p = p * f + 0x1.ebfbep-3f;
    p = p * f + 0x1.62e43p-1f;
    p = p * f + 1.0f;
    return p * (v8)(((v8i)shifted << 23) + 0x3f800000);
}
#define LOG2_E 1.44269504f

INLINE v8 sigmoid_v8(v8 x) { return 1.0f / (1.0f + exp2_v8(min_v8(-LOG2_E * x, 126))); }
INLINE v8 tanh_v8(v8 x) { return 2.0f / (1.0f + exp2_v8(min_v8(-2 * LOG2_E * x, 126))) - 1.0f; }

/* --- forward ---------------------------------------------------------------------------------- */

/* sum += x * row; count is a multiple of NET_LANES. */
INLINE void add_scaled(float *sum, const float *row, float x, uint32_t count)
{
    for (uint32_t i = 0; i < count; i += NET_LANES) STORE(sum + i) = LOAD(sum + i) + x * LOAD(row + i);
}

void net_prepare(struct net *n)
{
    const struct net_view *v = n->view;
    const struct net_layout *at = &n->at;
    const float *p = n->parameters;
    n->stamp++;
    for (uint32_t l = 0; l < v->layer_count; l++) {
        float *before = n->before + (size_t)l * at->gates;
        uint32_t index = l < NET_INDEXES ? l : NET_INDEXES - 1;
        for (uint32_t gate = 0; gate < at->gates; gate++)
            before[gate] = p[at->start + gate] + p[at->index + index * at->gates + gate] +
                           p[at->kind + v->kind[l] * at->gates + gate];
        for (uint32_t s = 0; s < NET_SCALARS; s++)
            add_scaled(before, p + at->scalar + s * at->gates, v->scalars[(size_t)l * NET_SCALARS + s], at->gates);
    }
}

/* The part of the gates of layer l that comes from the layer, and from the type of the layer before. */
INLINE const float *gates_fed(struct net *n, uint32_t l, uint32_t type_before)
{
    const struct net_view *v = n->view;
    uint32_t gates = n->at.gates;
    if (l == 0) return n->before;
    size_t cell = (size_t)l * v->type_count + type_before;
    float *fed = n->fed + cell * gates;
    if (n->fed_stamp[cell] != n->stamp) {
        n->fed_stamp[cell] = n->stamp;
        const float *value = v->values + (cell - v->type_count) * NET_FEATURES;
        memcpy(fed, n->before + (size_t)l * gates, gates * sizeof *fed);
        for (uint32_t f = 0; f < NET_FEATURES; f++)
            add_scaled(fed, n->parameters + n->at.feedback + f * gates, value[f], gates);
    }
    return fed;
}

/* out = fed + recurrent' h, for `count` (at most 4 times NET_LANES) of the gates. */
INLINE void gates_sum(const float *recurrent, uint32_t gates, const float *fed, const float *h, v8 *out, uint32_t count)
{
    for (uint32_t j = 0; j < count; j++) out[j] = LOAD(fed + j * NET_LANES);
    for (uint32_t i = 0; i < NET_HIDDEN; i++) {
        float x = h[i];
        for (uint32_t j = 0; j < count; j++) out[j] += x * LOAD(recurrent + i * gates + j * NET_LANES);
    }
}

/* One step of the cell: sets h and c to their values after the layer. z keeps the gates' outputs. */
INLINE void cell_step(enum policy_cell cell, const float *recurrent, const float *fed, float *h, float *c, float *z)
{
    enum { H = NET_HIDDEN, V = NET_HIDDEN / NET_LANES };
    if (cell == POLICY_LSTM) {
        v8 sum[4 * V];
        gates_sum(recurrent, 4 * H, fed, h, sum, 2 * V);
        gates_sum(recurrent + 2 * H, 4 * H, fed + 2 * H, h, sum + 2 * V, 2 * V);
        for (uint32_t j = 0; j < V; j++) {
            v8 in = sigmoid_v8(sum[j]), keep = sigmoid_v8(sum[V + j]), out = sigmoid_v8(sum[2 * V + j]);
            v8 new = tanh_v8(sum[3 * V + j]), cell_now = keep *LOAD(c + j * NET_LANES) + in *new;
            STORE(z + j * NET_LANES) = in;
            STORE(z + H + j * NET_LANES) = keep;
            STORE(z + 2 * H + j * NET_LANES) = out;
            STORE(z + 3 * H + j * NET_LANES) = new;
            STORE(c + j * NET_LANES) = cell_now;
            STORE(h + j * NET_LANES) = out * tanh_v8(cell_now);
        }
    } else {
        v8 sum[V];
        gates_sum(recurrent, H, fed, h, sum, V);
        for (uint32_t j = 0; j < V; j++) STORE(h + j * NET_LANES) = STORE(z + j * NET_LANES) = tanh_v8(sum[j]);
    }
}

INLINE void query_of(const struct net *n, const float *h, float *query)
{
    const float *w = n->parameters + n->at.query, *b = n->parameters + n->at.query_bias;
    v8 sum[NET_QUERY / NET_LANES];
    for (uint32_t j = 0; j < NET_QUERY / NET_LANES; j++) sum[j] = LOAD(b + j * NET_LANES);
    for (uint32_t i = 0; i < NET_HIDDEN; i++)
        for (uint32_t j = 0; j < NET_QUERY / NET_LANES; j++) sum[j] += h[i] * LOAD(w + i * NET_QUERY + j * NET_LANES);
    for (uint32_t j = 0; j < NET_QUERY / NET_LANES; j++) STORE(query + j * NET_LANES) = sum[j];
}

/* Sets `row` to e^(logit - greatest logit) of layer l, 0 in the padding,
 * and `lanes` to its sums lane by lane. */
INLINE void weigh(const struct net *n, uint32_t l, uint32_t type_before, const float *query, float *row, float *lanes)
{
    const struct net_view *v = n->view;
    const float *p = n->parameters;
    uint32_t width = v->width;
    const float *keys = v->keys + (size_t)l * NET_FEATURES * width, *table = p + n->at.table + (size_t)l * width;
    const float *embedding = p + n->at.embedding, *bias = p + n->at.bias;
    for (uint32_t at = 0; at < width; at += NET_LANES) {
        v8 sum = LOAD(table + at) + LOAD(bias + at);
        for (uint32_t f = 0; f < NET_FEATURES; f++) sum += query[f] * LOAD(keys + f * width + at);
        for (uint32_t e = 0; e < NET_EMBEDDING; e++) sum += query[NET_FEATURES + e] * LOAD(embedding + e * width + at);
        STORE(row + at) = sum;
    }
    if (l > 0) row[type_before] += query[NET_STAY] + p[n->at.stay + l];
    for (uint32_t t = v->type_count; t < width; t++) row[t] = -1e30f;
    v8 top = LOAD(row), total = {0};
    for (uint32_t at = NET_LANES; at < width; at += NET_LANES) top = max_v8(LOAD(row + at), top);
    float greatest = top[0];
    for (uint32_t i = 1; i < NET_LANES; i++) greatest = top[i] > greatest ? top[i] : greatest;
    for (uint32_t at = 0; at < width; at += NET_LANES) {
        v8 e = exp2_v8((LOAD(row + at) - greatest) * LOG2_E);
        STORE(row + at) = e;
        total += e;
    }
    STORE(lanes) = total;
}

INLINE float lanes_sum(const float *lanes)
{
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

INLINE uint32_t pick(const float *row, const float *lanes, uint32_t type_count, uint32_t width, float unit)
{
    float sum = 0;
    for (uint32_t i = 0; i < NET_LANES; i++) sum += lanes[i];
    float left = unit * sum;
    uint32_t lane = 0;
    while (lane + 1 < NET_LANES && left >= lanes[lane]) left -= lanes[lane++];
    uint32_t at = lane, last = lane;
    for (; at < width; at += NET_LANES) {
        if (at < type_count && row[at] > 0) last = at;
        if (left < row[at]) break;
        left -= row[at];
    }
    return at < type_count ? at : last < type_count ? last : type_count - 1;
}

INLINE void sample_body(struct net *n, struct random_stream stream, uint64_t item, uint32_t count, float uniform,
                        type_index *types, enum policy_cell cell)
{
    const struct net_view *v = n->view;
    uint32_t L = v->layer_count;
    float z[NET_GATES_MAX], query[NET_QUERY], lanes[NET_LANES];
    memset(n->state, 0, (size_t)count * 2 * NET_HIDDEN * sizeof *n->state);
    for (uint32_t l = 0; l < L; l++) {
        for (uint32_t s = 0; s < count; s++) {
            float *h = n->state + (size_t)s * 2 * NET_HIDDEN, *c = h + NET_HIDDEN;
            type_index *plan = types + (size_t)s * L;
            uint32_t before = l > 0 ? plan[l - 1] : 0;
            if (l % 4 == 0) random_block(stream, item + s, l / 4, n->bits + 4 * (size_t)s);
            cell_step(cell, n->parameters + n->at.recurrent, gates_fed(n, l, before), h, c, z);
            query_of(n, h, query);
            weigh(n, l, before, query, n->row, lanes);
            float unit = random_unit_f32(n->bits[4 * (size_t)s + l % 4]);
            uint32_t t;
            if (unit < uniform) {
                t = (uint32_t)(unit / uniform * (float)v->type_count);
                if (t >= v->type_count) t = v->type_count - 1;
            } else {
                t = pick(n->row, lanes, v->type_count, v->width, (unit - uniform) / (1 - uniform));
            }
            plan[l] = (type_index)t;
        }
    }
}

__attribute__((target("avx2"))) static void sample_avx2(struct net *n, struct random_stream stream, uint64_t item,
                                                        uint32_t count, float uniform, type_index *types)
{
    if (n->cell == POLICY_LSTM)
        sample_body(n, stream, item, count, uniform, types, POLICY_LSTM);
    else
        sample_body(n, stream, item, count, uniform, types, POLICY_ELMAN);
}

static void sample_base(struct net *n, struct random_stream stream, uint64_t item, uint32_t count, float uniform,
                        type_index *types)
{
    if (n->cell == POLICY_LSTM)
        sample_body(n, stream, item, count, uniform, types, POLICY_LSTM);
    else
        sample_body(n, stream, item, count, uniform, types, POLICY_ELMAN);
}

void net_sample(struct net *n, struct random_stream stream, uint64_t item, uint32_t count, float uniform,
                type_index *types)
{
    CHECK(count <= n->batch_max);
    if (n->is_wide)
        sample_avx2(n, stream, item, count, uniform, types);
    else
        sample_base(n, stream, item, count, uniform, types);
}

void net_argmax(struct net *n, type_index *types)
{
    const struct net_view *v = n->view;
    float h[2 * NET_HIDDEN] = {0}, z[NET_GATES_MAX], query[NET_QUERY], lanes[NET_LANES];
    for (uint32_t l = 0; l < v->layer_count; l++) {
        uint32_t before = l > 0 ? types[l - 1] : 0, best = 0;
        cell_step(n->cell, n->parameters + n->at.recurrent, gates_fed(n, l, before), h, h + NET_HIDDEN, z);
        query_of(n, h, query);
        weigh(n, l, before, query, n->row, lanes);
        for (uint32_t t = 1; t < v->type_count; t++)
            if (n->row[t] > n->row[best]) best = t;
        types[l] = (type_index)best;
    }
}

/* --- backward --------------------------------------------------------------------------------- */

/* Sum of a * b, taken in lanes; count is a multiple of NET_LANES. */
INLINE float dot(const float *a, const float *b, uint32_t count)
{
    v8 sum = {0};
    for (uint32_t at = 0; at < count; at += NET_LANES) sum += LOAD(a + at) * LOAD(b + at);
    float lanes[NET_LANES];
    STORE(lanes) = sum;
    return lanes_sum(lanes);
}

INLINE double learn_body(struct net *n, const type_index *types, float weight, enum policy_cell cell)
{
    enum { H = NET_HIDDEN };
    const struct net_view *v = n->view;
    const struct net_layout *at = &n->at;
    const float *p = n->parameters;
    float *d = n->gradient;
    uint32_t L = v->layer_count, width = v->width, gates = cell == POLICY_LSTM ? 4 * H : H;
    size_t step = TAPE_HEAD + width;
    double log_p = 0;
    float h[H] = {0}, c[H] = {0}, zero[H] = {0}, lanes[NET_LANES];
    for (uint32_t l = 0; l < L; l++) {
        float *tape = n->tape + l * step;
        uint32_t before = l > 0 ? types[l - 1] : 0;
        cell_step(cell, p + at->recurrent, gates_fed(n, l, before), h, c, tape + TAPE_GATES);
        memcpy(tape + TAPE_CELL, c, sizeof c);
        memcpy(tape + TAPE_STATE, h, sizeof h);
        query_of(n, h, tape + TAPE_QUERY);
        float *row = tape + TAPE_HEAD;
        weigh(n, l, before, tape + TAPE_QUERY, row, lanes);
        float scale = 1 / lanes_sum(lanes);
        for (uint32_t t = 0; t < width; t++) row[t] *= scale;
        log_p += fmath_log((double)row[types[l]]);
    }
    float dh[H] = {0}, dc[H] = {0};
    for (uint32_t l = L; l-- > 0;) {
        const float *tape = n->tape + l * step, *row = tape + TAPE_HEAD, *query = tape + TAPE_QUERY;
        const float *h_before = l > 0 ? tape - step + TAPE_STATE : zero,
                    *c_before = l > 0 ? tape - step + TAPE_CELL : zero;
        const float *keys = v->keys + (size_t)l * NET_FEATURES * width;
        uint32_t before = l > 0 ? types[l - 1] : 0;
        float *dlogit = n->row, dquery[NET_QUERY] = {0}, dz[NET_GATES_MAX];
        for (uint32_t t = 0; t < width; t++) dlogit[t] = -weight * row[t];
        dlogit[types[l]] += weight;
        add_scaled(d + at->table + (size_t)l * width, dlogit, 1, width);
        add_scaled(d + at->bias, dlogit, 1, width);
        for (uint32_t f = 0; f < NET_FEATURES; f++) dquery[f] = dot(keys + f * width, dlogit, width);
        for (uint32_t e = 0; e < NET_EMBEDDING; e++) {
            dquery[NET_FEATURES + e] = dot(p + at->embedding + e * width, dlogit, width);
            add_scaled(d + at->embedding + e * width, dlogit, query[NET_FEATURES + e], width);
        }
        if (l > 0) {
            dquery[NET_STAY] = dlogit[before];
            d[at->stay + l] += dlogit[before];
        }
        add_scaled(d + at->query_bias, dquery, 1, NET_QUERY);
        for (uint32_t i = 0; i < H; i++) {
            add_scaled(d + at->query + i * NET_QUERY, dquery, tape[TAPE_STATE + i], NET_QUERY);
            dh[i] += dot(p + at->query + i * NET_QUERY, dquery, NET_QUERY);
        }
        const float *z = tape + TAPE_GATES;
        if (cell == POLICY_LSTM) {
            float tanh_c[H];
            for (uint32_t i = 0; i < H; i += NET_LANES) STORE(tanh_c + i) = tanh_v8(LOAD(tape + TAPE_CELL + i));
            for (uint32_t i = 0; i < H; i++) {
                float in = z[i], keep = z[H + i], out = z[2 * H + i], new = z[3 * H + i], th = tanh_c[i];
                float dci = dc[i] + dh[i] * out * (1 - th * th);
                dz[i] = dci * new *in *(1 - in);
                dz[H + i] = dci * c_before[i] * keep * (1 - keep);
                dz[2 * H + i] = dh[i] * th * out * (1 - out);
                dz[3 * H + i] = dci * in * (1 - new *new);
                dc[i] = dci * keep;
            }
        } else {
            for (uint32_t i = 0; i < H; i++) dz[i] = dh[i] * (1 - z[i] * z[i]);
        }
        add_scaled(n->dbefore + (size_t)l * gates, dz, 1, gates);
        if (l == 0) break;
        const float *value = v->values + ((size_t)(l - 1) * v->type_count + before) * NET_FEATURES;
        for (uint32_t f = 0; f < NET_FEATURES; f++) add_scaled(d + at->feedback + f * gates, dz, value[f], gates);
        for (uint32_t i = 0; i < H; i++) {
            add_scaled(d + at->recurrent + i * gates, dz, h_before[i], gates);
            dh[i] = dot(p + at->recurrent + i * gates, dz, gates);
        }
    }
    return log_p;
}

__attribute__((target("avx2"))) static double learn_avx2(struct net *n, const type_index *types, float weight)
{
    return n->cell == POLICY_LSTM ? learn_body(n, types, weight, POLICY_LSTM)
                                  : learn_body(n, types, weight, POLICY_ELMAN);
}

static double learn_base(struct net *n, const type_index *types, float weight)
{
    return n->cell == POLICY_LSTM ? learn_body(n, types, weight, POLICY_LSTM)
                                  : learn_body(n, types, weight, POLICY_ELMAN);
}

double net_learn(struct net *n, const type_index *types, float weight)
{
    return n->is_wide ? learn_avx2(n, types, weight) : learn_base(n, types, weight);
}

/* The gradients of the parameters that net_prepare summed up. */
void net_gather(struct net *n)
{
    const struct net_view *v = n->view;
    const struct net_layout *at = &n->at;
    float *d = n->gradient;
    for (uint32_t l = 0; l < v->layer_count; l++) {
        float *dbefore = n->dbefore + (size_t)l * at->gates;
        uint32_t index = l < NET_INDEXES ? l : NET_INDEXES - 1;
        add_scaled(d + at->start, dbefore, 1, at->gates);
        add_scaled(d + at->index + index * at->gates, dbefore, 1, at->gates);
        add_scaled(d + at->kind + v->kind[l] * at->gates, dbefore, 1, at->gates);
        for (uint32_t s = 0; s < NET_SCALARS; s++)
            add_scaled(d + at->scalar + s * at->gates, dbefore, v->scalars[(size_t)l * NET_SCALARS + s], at->gates);
    }
    memset(n->dbefore, 0, (size_t)v->layer_count * at->gates * sizeof *n->dbefore);
}

INLINE void adam_body(float *restrict p, float *restrict d, float *restrict mean, float *restrict square, size_t count,
                      float rate, float scale)
{
    const float b1 = 0.9f, b2 = 0.99f;
    for (size_t i = 0; i < count; i++) {
        float g = d[i];
        mean[i] = b1 * mean[i] + (1 - b1) * g;
        square[i] = b2 * square[i] + (1 - b2) * g * g;
        p[i] += rate * mean[i] / (__builtin_sqrtf(square[i] * scale) + 1e-6f);
        d[i] = 0;
    }
}
__attribute__((target("avx2"))) static void adam_avx2(float *p, float *d, float *mean, float *square, size_t count,
                                                      float rate, float scale)
{
    adam_body(p, d, mean, square, count, rate, scale);
}
static void adam_base(float *p, float *d, float *mean, float *square, size_t count, float rate, float scale)
{
    adam_body(p, d, mean, square, count, rate, scale);
}

void net_update(struct net *n, float rate_shared, float rate_own)
{
    net_gather(n);
    n->update_count++;
    double power1 = 1, power2 = 1;
    for (uint64_t i = 0; i < n->update_count && i < 2000; i++) power1 *= 0.9, power2 *= 0.99;
    float unbias = (float)(1 / (1 - power1)), scale = (float)(1 / (1 - power2));
    size_t own = n->at.shared_count, own_count = n->at.count - own;
    (n->is_wide ? adam_avx2 : adam_base)(n->parameters, n->gradient, n->mean, n->square, own, rate_shared * unbias,
                                         scale);
    (n->is_wide ? adam_avx2 : adam_base)(n->parameters + own, n->gradient + own, n->mean + own, n->square + own,
                                         own_count, rate_own * unbias, scale);
    net_prepare(n);
}

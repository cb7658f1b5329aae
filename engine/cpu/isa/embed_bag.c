/* Gathers and pools table rows, and adds up their gradients. Bound by memory: a micro-batch of 256 examples with 26 fields touches some
 * 6,600 rows that lie anywhere in the table, so every piece asks for the rows of the next examples while it pools this one.
 *
 * Forward is cut by examples, backward by uniques: a row's gradient belongs to one piece, which walks its occurrences in
 * example order. Both give the bits of the reference (graph/op_embed_bag.c). */
#include "engine/cpu/isa/kernels_isa.h"

#define FORWARD_EXAMPLES 16u
#define BACKWARD_UNIQUES 64u
/* Two examples are some 50 rows: about what is in flight between asking for a row and using it. */
#define EXAMPLES_AHEAD 2u
#define UNIQUES_AHEAD  8u

struct bag_call {
    const struct op_context *c;
    const struct graph_node *n;
    const struct ticket_table *ticket;
    struct embed_bag_attr attr;
    struct view out, saved; /* backward: out is dout */
    const uint32_t *column_of_field;
    float *table_grad;
};

static struct bag_call call_of(const struct op_context *c, const struct graph_node *n)
{
    struct bag_call call = {.c = c, .n = n};
    memcpy(&call.attr, n->attr, sizeof call.attr);
    call.ticket = &c->ticket->table[call.attr.table];
    if (call.attr.pool == POOL_MAX) call.saved = op_saved(c, n, 0);
    return call;
}

static uint32_t field_of(const struct bag_call *call, uint32_t s)
{
    return call->c->graph->tensors[op_arg(call->c, call->n, s)].cols;
}
static uint32_t home_of(const struct bag_call *call, uint32_t b, uint32_t s)
{
    return b * call->c->graph->field_count + field_of(call, s);
}

static void floats_prefetch(const float *p, uint32_t count)
{
    for (uint32_t i = 0; i < count; i += CACHE_LINE_BYTES / sizeof(float)) prefetch_read(p + i);
}

static void example_prefetch(const struct bag_call *call, uint32_t b)
{
    const uint32_t *key_begin = call->c->batch->key_begin, *unique_of = call->ticket->unique_of;
    for (uint32_t s = 0; s < call->n->input_count; s++) {
        uint32_t home = home_of(call, b, s);
        for (uint32_t position = key_begin[home]; position < key_begin[home + 1]; position++)
            floats_prefetch(call->ticket->span[unique_of[position]], call->attr.dim);
    }
}

ALWAYS_INLINE void bag_sum(const struct bag_call *call, const float *value, float *out, uint32_t begin, uint32_t end)
{
    uint32_t dim = call->attr.dim;
    const uint32_t *unique_of = call->ticket->unique_of;
    float *const *span = call->ticket->span;
    bool is_mean = call->attr.pool == POOL_MEAN && end > begin;
    float share = is_mean ? 1.0f / (float)(end - begin) : 1;
    for (uint32_t d = 0; d < dim; d += VF) {
        vf sum = {0};
        for (uint32_t position = begin; position < end; position++) {
            vf row = vf_load_upto(span[unique_of[position]] + d, dim - d);
            sum += value != NULL ? row * value[position] : row;
        }
        if (is_mean) sum *= share;
        vf_store_upto(out + d, sum, dim - d);
    }
}

ALWAYS_INLINE void bag_max(const struct bag_call *call, const float *value, float *out, uint32_t *argmax,
                           uint32_t begin, uint32_t end)
{
    uint32_t dim = call->attr.dim;
    const float *first = begin < end ? call->ticket->span[call->ticket->unique_of[begin]] : NULL;
    for (uint32_t d = 0; d < dim; d++) {
        out[d] = first == NULL ? 0 : value != NULL ? first[d] * value[begin] : first[d];
        argmax[d] = first != NULL ? begin : ROW_NONE;
    }
    for (uint32_t position = begin + 1; position < end; position++) {
        const float *row = call->ticket->span[call->ticket->unique_of[position]];
        for (uint32_t d = 0; d < dim; d++) {
            float x = value != NULL ? row[d] * value[position] : row[d];
            argmax[d] = x > out[d] ? position : argmax[d];
            out[d] = x > out[d] ? x : out[d];
        }
    }
}

/* Without pooling: row after row, then zeros up to the width. */
ALWAYS_INLINE void bag_rows(const struct bag_call *call, const float *value, float *out, uint32_t width, uint32_t begin,
                            uint32_t end)
{
    uint32_t dim = call->attr.dim;
    CHECK((uint64_t)(end - begin) * dim <= width);
    for (uint32_t position = begin; position < end; position++, out += dim) {
        const float *row = call->ticket->span[call->ticket->unique_of[position]];
        for (uint32_t d = 0; d < dim; d += VF) {
            vf x = vf_load_upto(row + d, dim - d);
            vf_store_upto(out + d, value != NULL ? x * value[position] : x, dim - d);
        }
    }
    memset(out, 0, (width - (end - begin) * dim) * sizeof *out);
}

/* One field of one example: `out` and `argmax` are where its columns begin; returns how many these are. */
ALWAYS_INLINE uint32_t bag_pool(const struct bag_call *call, const float *value, uint32_t s, float *out,
                                uint32_t *argmax, uint32_t begin, uint32_t end)
{
    if (argmax != NULL) {
        bag_max(call, value, out, argmax, begin, end);
    } else if (call->attr.pool == POOL_NONE) {
        uint32_t width = call->c->graph->fields[field_of(call, s)].ids_max * call->attr.dim;
        bag_rows(call, value, out, width, begin, end);
        return width;
    } else {
        bag_sum(call, value, out, begin, end);
    }
    return call->attr.dim;
}

static void forward_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct bag_call *call = context;
    const uint32_t *key_begin = call->c->batch->key_begin;
    const float *value = call->c->batch->value;
    uint32_t begin = piece * FORWARD_EXAMPLES, rows = call->out.rows;
    uint32_t end = begin + FORWARD_EXAMPLES < rows ? begin + FORWARD_EXAMPLES : rows;
    for (uint32_t b = begin; b < end && b < begin + EXAMPLES_AHEAD; b++) example_prefetch(call, b);
    for (uint32_t b = begin; b < end; b++) {
        if (b + EXAMPLES_AHEAD < end) example_prefetch(call, b + EXAMPLES_AHEAD);
        float *out_b = call->out.data + (size_t)b * call->out.stride;
        uint32_t *argmax_b = NULL;
        if (call->saved.data != NULL)
            argmax_b = (uint32_t *)(void *)(call->saved.data + (size_t)b * call->saved.stride);
        for (uint32_t s = 0, col = 0; s < call->n->input_count; s++) {
            uint32_t home = home_of(call, b, s), *argmax = argmax_b != NULL ? argmax_b + col : NULL;
            /* Two instances: keys without values pay nothing for those with. */
            if (value == NULL)
                col += bag_pool(call, NULL, s, out_b + col, argmax, key_begin[home], key_begin[home + 1]);
            else
                col += bag_pool(call, value, s, out_b + col, argmax, key_begin[home], key_begin[home + 1]);
        }
    }
}

void KERNEL(embed_bag_forward_f32)(const struct cpu_work *work, const struct op_context *c, const struct graph_node *n)
{
    struct bag_call call = call_of(c, n);
    call.out = op_out(c, n);
    team_run(work->team, forward_piece, &call, (call.out.rows + FORWARD_EXAMPLES - 1) / FORWARD_EXAMPLES);
}

/* Adds what one occurrence contributes to its row's gradient, if its field is an input of this op. */
static void occurrence_add(const struct bag_call *call, float *drow, uint32_t position)
{
    const struct micro_batch *m = call->c->batch;
    uint32_t field_count = call->c->graph->field_count, dim = call->attr.dim;
    uint32_t home = m->key_home[position], b = home / field_count, col = call->column_of_field[home % field_count];
    if (col == GRAPH_NONE) return;
    const float *dout = call->out.data + (size_t)b * call->out.stride + col;
    float factor = m->value != NULL ? m->value[position] : 1;
    if (call->saved.data != NULL) {
        const uint32_t *argmax =
            (const uint32_t *)(const void *)(call->saved.data + (size_t)b * call->saved.stride) + col;
        for (uint32_t d = 0; d < dim; d++)
            if (argmax[d] == position) drow[d] += dout[d] * factor;
        return;
    }
    if (call->attr.pool == POOL_NONE) dout += (size_t)(position - m->key_begin[home]) * dim;
    if (call->attr.pool == POOL_MEAN) factor *= 1.0f / (float)(m->key_begin[home + 1] - m->key_begin[home]);
    for (uint32_t d = 0; d < dim; d += VF)
        vf_store_upto(drow + d, vf_load_upto(drow + d, dim - d) + vf_load_upto(dout + d, dim - d) * factor, dim - d);
}

static void backward_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct bag_call *call = context;
    const struct ticket_table *t = call->ticket;
    uint32_t begin = piece * BACKWARD_UNIQUES, dim = call->attr.dim;
    uint32_t end = begin + BACKWARD_UNIQUES < t->unique_count ? begin + BACKWARD_UNIQUES : t->unique_count;
    for (uint32_t u = begin; u < end; u++) {
        if (u + UNIQUES_AHEAD < end) prefetch_write(call->table_grad + (size_t)t->step_row[u + UNIQUES_AHEAD] * dim);
        float *drow = call->table_grad + (size_t)t->step_row[u] * dim;
        for (uint32_t i = t->occurrence_begin[u]; i < t->occurrence_begin[u + 1]; i++)
            occurrence_add(call, drow, t->occurrence[i]);
    }
}

void KERNEL(embed_bag_backward_f32)(const struct cpu_work *work, const struct op_context *c, const struct graph_node *n)
{
    struct bag_call call = call_of(c, n);
    call.column_of_field = work->column_of_field[n - work->graph->nodes];
    if (call.column_of_field == NULL) {
        op_table[OP_ID_embed_bag].backward(c, n);
        return;
    }
    call.out = op_dout(c, n);
    call.table_grad = c->table_grad[call.attr.lookup];
    team_run(work->team, backward_piece, &call, (call.ticket->unique_count + BACKWARD_UNIQUES - 1) / BACKWARD_UNIQUES);
}

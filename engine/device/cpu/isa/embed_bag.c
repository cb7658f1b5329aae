/* Gathers and pools table rows, and adds up their gradients. Bound by memory: a micro-batch of 2048
 * examples with 26 fields touches some 53,000 rows anywhere in the table. So a piece asks for rows
 * ROWS_AHEAD keys before it pools them; backward it asks for the gradients of all rows of a block
 * of keys before it adds to one.
 *
 * Forward is cut by examples, backward by rows: a row's gradient belongs to one piece, which goes through
 * all keys in the order of the data and adds the gradients of its own rows. So dout is read from front to
 * back, and nothing branches on how often a key occurs: with dim 8 2.9 ns a key, where a walk from row to
 * row takes 7.8 (tests/bench/sparse_bench, one core of a Xeon with AVX-512). Both passes give the bits of
 * the reference (graph/op_embed_bag.c).
 *
 * The common case, sums and rows side by side of keys without values, of fields that follow one another, has
 * loops of its own for the widths that models use. */
#include "engine/device/cpu/isa/kernels_isa.h"
#include "engine/device/cpu/isa/row_bf16.h"

/* Keys of a piece: enough that the rows at its beginning, which nobody has asked for ahead, do not count. */
#define PIECE_KEYS_MIN 512u
#define PIECE_KEYS_MAX 8192u
/* Two examples are some 50 rows: about what is in flight between asking for a row and using it. */
#define EXAMPLES_AHEAD 2u
#define ROWS_AHEAD     48u
#define LINES_AHEAD    96u /* ... but no more cache lines than these */
/* Backward: keys of a block, whose gradients are asked for at once;
 * uniques of one piece that lie side by side. */
#define BLOCK_KEYS  64u
#define RUN_UNIQUES 16u
/* Vectors of a row that are summed in registers at once. */
#define SUM_VECTORS 8u

struct bag_call {
    const struct op_context *c;
    const struct graph_node *n;
    const struct ticket_table *ticket;
    struct embed_bag_attr attr;
    bool is_bf16;           /* vectors are bfloat16: graph/row_vector.h */
    struct view out, saved; /* backward: out is dout */
    const uint32_t *column_of_field;
    float *table_grad;
    uint32_t piece_count_of; /* forward: examples of a piece                                             */
    uint32_t piece_count;    /* backward: a power of two                                                 */
    bool is_joined;          /* backward: keys have lane rows, of several lanes; else uniques            */
    bool has_all_fields;     /* backward: the output has a place for every key                           */
    uint32_t first_field;    /* of inputs that are fields one after another; GRAPH_NONE: they are not */
    uint64_t home_scale;     /* 2^64 / field_count, rounded up; 0 for one field                          */
};

static struct bag_call call_of(const struct op_context *c, const struct graph_node *n)
{
    struct bag_call call = {.c = c, .n = n};
    memcpy(&call.attr, n->attr, sizeof call.attr);
    call.ticket = &c->ticket->table[call.attr.table];
    call.is_bf16 = c->graph->tables[call.attr.table].store == TABLE_BF16;
    if (call.attr.pool == POOL_MAX) call.saved = op_saved(c, n, 0);
    return call;
}

/* The number of things a piece, of `count` things with key_count keys together: each member gets several
 * pieces, but not too small ones. A single member gets one piece. */
static uint32_t piece_of(const struct cpu_work *work, uint32_t count, uint32_t key_count)
{
    if (team_member_count(work->team) == 1) return count > 0 ? count : 1;
    uint64_t keys = key_count / (8u * team_member_count(work->team)) + 1;
    keys = keys < PIECE_KEYS_MIN ? PIECE_KEYS_MIN : keys > PIECE_KEYS_MAX ? PIECE_KEYS_MAX : keys;
    uint64_t things = key_count > 0 ? keys * count / key_count : count;
    return things > 0 ? (uint32_t)(things < count ? things : count) : 1;
}

static uint32_t field_of(const struct bag_call *call, uint32_t s)
{
    return call->c->graph->tensors[op_arg(call->c, call->n, s)].cols;
}
/* The first field, if the inputs are fields one after another. */
static uint32_t first_field_of(const struct bag_call *call)
{
    uint32_t first = field_of(call, 0);
    for (uint32_t s = 1; s < call->n->input_count; s++)
        if (field_of(call, s) != first + s) return GRAPH_NONE;
    return first;
}
static uint32_t home_of(const struct bag_call *call, uint32_t b, uint32_t s)
{
    return b * call->c->graph->field_count + field_of(call, s);
}

static void floats_prefetch(const float *p, uint32_t count)
{
    for (uint32_t i = 0; i < count; i += CACHE_LINE_BYTES / sizeof(float)) prefetch_read(p + i);
}

/* Floats of memory that a vector of `dim` takes. */
ALWAYS_INLINE uint32_t floats_of(uint32_t dim, bool is_bf16) { return is_bf16 ? bf16_words(dim) : dim; }

static void example_prefetch(const struct bag_call *call, uint32_t b)
{
    const uint32_t floats = floats_of(call->attr.dim, call->is_bf16);
    const uint32_t *key_begin = call->c->batch->key_begin, *unique_of = call->ticket->unique_of;
    for (uint32_t s = 0; s < call->n->input_count; s++) {
        uint32_t home = home_of(call, b, s);
        for (uint32_t position = key_begin[home]; position < key_begin[home + 1]; position++)
            floats_prefetch(call->ticket->span[unique_of[position]], floats);
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
            vf row = row_load_upto(span[unique_of[position]], d, dim - d, call->is_bf16);
            sum += value != NULL ? row * value[position] : row;
        }
        if (is_mean) sum *= share;
        vf_store_upto(out + d, sum, dim - d);
    }
}

/* Column d of a row. */
ALWAYS_INLINE float row_number(const struct bag_call *call, const float *row, uint32_t d)
{
    return call->is_bf16 ? bf16_get(row, d) : row[d];
}

ALWAYS_INLINE void bag_max(const struct bag_call *call, const float *value, float *out, uint32_t *argmax,
                           uint32_t begin, uint32_t end)
{
    uint32_t dim = call->attr.dim;
    const float *first = begin < end ? call->ticket->span[call->ticket->unique_of[begin]] : NULL;
    for (uint32_t d = 0; d < dim; d++) {
        const float x = first == NULL ? 0 : row_number(call, first, d);
        out[d] = first != NULL && value != NULL ? x * value[begin] : x;
        argmax[d] = first != NULL ? begin : ROW_NONE;
    }
    for (uint32_t position = begin + 1; position < end; position++) {
        const float *row = call->ticket->span[call->ticket->unique_of[position]];
        for (uint32_t d = 0; d < dim; d++) {
            float x = row_number(call, row, d);
            if (value != NULL) x *= value[position];
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
            vf numbers = row_load_upto(row, d, dim - d, call->is_bf16);
            vf_store_upto(out + d, value != NULL ? numbers * value[position] : numbers, dim - d);
        }
    }
    memset(out, 0, (width - (end - begin) * dim) * sizeof *out);
}

/* Pools one field of one example into the columns at `out` and `argmax`; returns how many columns. */
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

/* --- forward ------------------------------------------------------------------------------------ */

/* Any inputs, any pool, values or not. */
static void forward_any(const struct bag_call *call, uint32_t begin, uint32_t end)
{
    const uint32_t *key_begin = call->c->batch->key_begin;
    const float *value = call->c->batch->value;
    for (uint32_t b = begin; b < end && b < begin + EXAMPLES_AHEAD; b++) example_prefetch(call, b);
    for (uint32_t b = begin; b < end; b++) {
        if (b + EXAMPLES_AHEAD < end) example_prefetch(call, b + EXAMPLES_AHEAD);
        float *out_b = call->out.data + (size_t)b * call->out.stride;
        uint32_t *argmax_b = NULL;
        if (call->saved.data != NULL)
            argmax_b = (uint32_t *)(void *)(call->saved.data + (size_t)b * call->saved.stride);
        for (uint32_t s = 0, col = 0; s < call->n->input_count; s++) {
            uint32_t home = home_of(call, b, s), *argmax = argmax_b != NULL ? argmax_b + col : NULL;
            /* Two instances: keys without values pay nothing for values. */
            if (value == NULL)
                col += bag_pool(call, NULL, s, out_b + col, argmax, key_begin[home], key_begin[home + 1]);
            else
                col += bag_pool(call, value, s, out_b + col, argmax, key_begin[home], key_begin[home + 1]);
        }
    }
}

/* Walks the keys of a piece's examples ahead of the keys that are pooled. */
struct ahead {
    uint32_t example, end_example, position, end; /* the keys that are left of the present example */
};

/* Asks for the rows of the next `count` keys, of `floats` each. */
ALWAYS_INLINE void rows_ask(const struct bag_call *call, struct ahead *ahead, uint32_t count, uint32_t floats)
{
    const struct ticket_table *t = call->ticket;
    for (; count > 0; count--) {
        while (ahead->position == ahead->end) {
            if (ahead->example == ahead->end_example) return;
            const uint32_t *home =
                call->c->batch->key_begin + (size_t)ahead->example++ * call->c->graph->field_count + call->first_field;
            ahead->position = home[0];
            ahead->end = home[call->n->input_count];
        }
        const float *row = t->span[t->unique_of[ahead->position++]];
        for (uint32_t i = 0; i < floats; i += CACHE_LINE_BYTES / sizeof(float)) prefetch_far(row + i);
    }
}

/* The sum of the rows of keys [begin, end). */
ALWAYS_INLINE void rows_sum(const struct ticket_table *t, float *out, uint32_t begin, uint32_t end, uint32_t dim,
                            bool is_bf16)
{
    for (uint32_t from = 0; from < dim; from += SUM_VECTORS * VF) {
        vf sum[SUM_VECTORS] = {{0}};
        for (uint32_t position = begin; position < end; position++) {
            const float *row = t->span[t->unique_of[position]];
#pragma GCC unroll 8
            for (uint32_t k = 0; k < SUM_VECTORS; k++)
                if (from + k * VF < dim) sum[k] += row_load_upto(row, from + k * VF, dim - from - k * VF, is_bf16);
        }
#pragma GCC unroll 8
        for (uint32_t k = 0; k < SUM_VECTORS; k++)
            if (from + k * VF < dim) vf_store_upto(out + from + k * VF, sum[k], dim - from - k * VF);
    }
}

/* Sums of keys without values, of fields that follow one another. */
ALWAYS_INLINE void forward_run(const struct bag_call *call, uint32_t begin, uint32_t end, uint32_t dim, bool is_bf16)
{
    const uint32_t *key_begin = call->c->batch->key_begin;
    const uint32_t floats = floats_of(dim, is_bf16);
    uint32_t lines = (floats + 15) / 16, field_count = call->c->graph->field_count, inputs = call->n->input_count;
    struct ahead ahead = {.example = begin, .end_example = end};
    rows_ask(call, &ahead, ROWS_AHEAD * lines < LINES_AHEAD ? ROWS_AHEAD : (LINES_AHEAD + lines - 1) / lines, floats);
    for (uint32_t b = begin; b < end; b++) {
        const uint32_t *home = key_begin + (size_t)b * field_count + call->first_field;
        float *out = call->out.data + (size_t)b * call->out.stride;
        uint32_t position = home[0];
        for (uint32_t s = 0; s < inputs; s++, out += dim) {
            uint32_t next = home[s + 1];
            rows_ask(call, &ahead, next - position, floats);
            rows_sum(call->ticket, out, position, next, dim, is_bf16);
            position = next;
        }
    }
}

ALWAYS_INLINE void forward_widths(const struct bag_call *call, uint32_t begin, uint32_t end, bool is_bf16)
{
    switch (call->attr.dim) {
    case 8: forward_run(call, begin, end, 8, is_bf16); break;
    case 16: forward_run(call, begin, end, 16, is_bf16); break;
    case 32: forward_run(call, begin, end, 32, is_bf16); break;
    case 64: forward_run(call, begin, end, 64, is_bf16); break;
    case 128: forward_run(call, begin, end, 128, is_bf16); break;
    default: forward_run(call, begin, end, call->attr.dim, is_bf16);
    }
}

static void forward_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct bag_call *call = context;
    uint32_t begin = piece * call->piece_count_of, rows = call->out.rows;
    uint32_t end = rows - begin < call->piece_count_of ? rows : begin + call->piece_count_of;
    if (call->attr.pool != POOL_SUM || call->c->batch->value != NULL || call->first_field == GRAPH_NONE) {
        forward_any(call, begin, end);
        return;
    }
    if (call->is_bf16)
        forward_widths(call, begin, end, true);
    else
        forward_widths(call, begin, end, false);
}

void KERNEL(embed_bag_forward_f32)(const struct cpu_work *work, const struct op_context *c, const struct graph_node *n)
{
    struct bag_call call = call_of(c, n);
    call.out = op_out(c, n);
    call.first_field = first_field_of(&call);
    call.piece_count_of = piece_of(work, call.out.rows, c->batch->key_count);
    team_run(work->team, forward_piece, &call, (call.out.rows + call.piece_count_of - 1) / call.piece_count_of);
}

/* --- backward ----------------------------------------------------------------------------------- */

/* Whether the unique's row belongs to the piece: runs of uniques go round, since rows that are new in a step
 * lie side by side. */
ALWAYS_INLINE bool is_of_piece(const struct bag_call *call, uint32_t piece, uint32_t unique)
{
    return (unique / RUN_UNIQUES & (call->piece_count - 1)) == piece;
}

/* Where the op's output has a field of an example. */
struct bag_place {
    uint32_t example, col; /* col GRAPH_NONE: another op has it */
};
ALWAYS_INLINE struct bag_place place_of(const struct bag_call *call, uint32_t position)
{
    uint32_t home = call->c->batch->key_home[position];
    /* home / field_count: exact for 32 bits (Lemire, Kaser, Kurz, 2019, "Faster remainder by direct
     * computation", theorem 1). */
    uint32_t b = call->home_scale ? (uint32_t)((unsigned __int128)call->home_scale * home >> 64) : home;
    return (struct bag_place){b, call->column_of_field[home - b * call->c->graph->field_count]};
}

/* Lists the keys of [begin, end) whose rows belong to the piece, and returns their number. No processor can
 * predict which keys do. `position` has room for VF - 1 entries more than there are keys. */
ALWAYS_INLINE uint32_t positions_list(const struct bag_call *call, uint32_t piece, uint32_t begin, uint32_t end,
                                      uint32_t *position)
{
    const uint32_t *unique_of = call->ticket->unique_of;
    uint32_t count = 0, at = begin;
    if (!call->has_all_fields) {
        for (; at < end; at++) {
            position[count] = at;
            count += (uint32_t)(place_of(call, at).col != GRAPH_NONE) & is_of_piece(call, piece, unique_of[at]);
        }
        return count;
    }
#if defined(__AVX512F__)
    const __m512i ramp = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for (; at + VF <= end; at += VF) {
        vu run = (vu)_mm512_loadu_si512(unique_of + at) / RUN_UNIQUES & (call->piece_count - 1);
        __mmask16 is_own = _mm512_cmpeq_epi32_mask((__m512i)run, _mm512_set1_epi32((int)piece));
        __m512i list = _mm512_maskz_compress_epi32(is_own, _mm512_add_epi32(ramp, _mm512_set1_epi32((int)at)));
        _mm512_storeu_si512(position + count, list);
        count += (uint32_t)__builtin_popcount(is_own);
    }
#endif
    for (; at < end; at++) {
        position[count] = at;
        count += is_of_piece(call, piece, unique_of[at]);
    }
    return count;
}

ALWAYS_INLINE float *drow_of(const struct bag_call *call, uint32_t position, uint32_t dim)
{
    const uint32_t at = call->is_joined ? position : call->ticket->unique_of[position];
    return call->table_grad + (size_t)call->ticket->lane_row[at] * dim;
}

/* Any pool, values or not: adds what one occurrence contributes to its row's gradient. */
static void occurrence_add(const struct bag_call *call, uint32_t position)
{
    const struct micro_batch *m = call->c->batch;
    struct bag_place place = place_of(call, position);
    uint32_t dim = call->attr.dim, home = m->key_home[position];
    const float *dout = call->out.data + (size_t)place.example * call->out.stride + place.col;
    float *drow = drow_of(call, position, dim), factor = m->value != NULL ? m->value[position] : 1;
    if (call->saved.data != NULL) {
        const uint32_t *argmax =
            (const uint32_t *)(const void *)(call->saved.data + (size_t)place.example * call->saved.stride) + place.col;
        for (uint32_t d = 0; d < dim; d++)
            if (argmax[d] == position) drow[d] += dout[d] * factor;
        return;
    }
    if (call->attr.pool == POOL_NONE) dout += (size_t)(position - m->key_begin[home]) * dim;
    if (call->attr.pool == POOL_MEAN) factor *= 1.0f / (float)(m->key_begin[home + 1] - m->key_begin[home]);
    for (uint32_t d = 0; d < dim; d += VF)
        vf_store_upto(drow + d, vf_load_upto(drow + d, dim - d) + vf_load_upto(dout + d, dim - d) * factor, dim - d);
}

/* Keys without values, summed or side by side: asks for all rows of a block before it adds to any. */
ALWAYS_INLINE void positions_add(const struct bag_call *call, const uint32_t *position, uint32_t count, uint32_t dim,
                                 bool pools)
{
    const struct micro_batch *m = call->c->batch;
    const float *dout[BLOCK_KEYS];
    float *drow[BLOCK_KEYS];
    for (uint32_t i = 0; i < count; i++) {
        struct bag_place place = place_of(call, position[i]);
        dout[i] = call->out.data + (size_t)place.example * call->out.stride + place.col;
        if (!pools) dout[i] += (size_t)(position[i] - m->key_begin[m->key_home[position[i]]]) * dim;
        drow[i] = drow_of(call, position[i], dim);
        prefetch_read(dout[i]);
        prefetch_write(drow[i]);
    }
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t d = 0; d < dim; d += VF)
            vf_store_upto(drow[i] + d, vf_load_upto(drow[i] + d, dim - d) + vf_load_upto(dout[i] + d, dim - d),
                          dim - d);
}

ALWAYS_INLINE void positions_add_of(const struct bag_call *call, const uint32_t *position, uint32_t count, bool pools)
{
    switch (call->attr.dim) {
    case 8: positions_add(call, position, count, 8, pools); break;
    case 16: positions_add(call, position, count, 16, pools); break;
    case 32: positions_add(call, position, count, 32, pools); break;
    case 64: positions_add(call, position, count, 64, pools); break;
    case 128: positions_add(call, position, count, 128, pools); break;
    default: positions_add(call, position, count, call->attr.dim, pools);
    }
}

static void backward_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct bag_call *call = context;
    const uint32_t key_count = call->c->batch->key_count;
    const bool is_plain = call->c->batch->value == NULL && call->saved.data == NULL;
    uint32_t position[BLOCK_KEYS + VF];
    for (uint32_t begin = 0; begin < key_count; begin += BLOCK_KEYS) {
        uint32_t end = key_count - begin < BLOCK_KEYS ? key_count : begin + BLOCK_KEYS;
        uint32_t count = positions_list(call, piece, begin, end, position);
        if (is_plain && call->attr.pool == POOL_SUM)
            positions_add_of(call, position, count, true);
        else if (is_plain && call->attr.pool == POOL_NONE)
            positions_add_of(call, position, count, false);
        else
            for (uint32_t i = 0; i < count; i++) occurrence_add(call, position[i]);
    }
}

/* Two pieces a member, raised to a power of two, but fewer where finding a piece's keys would take longer
 * than adding their gradients. */
static uint32_t backward_piece_count(const struct cpu_work *work, uint32_t key_count)
{
    uint32_t members = team_member_count(work->team), count = 1;
    while (members > 1 && count < 2 * members && count * 2 * PIECE_KEYS_MIN <= key_count) count *= 2;
    return count;
}

void KERNEL(embed_bag_backward_f32)(const struct cpu_work *work, const struct op_context *c, const struct graph_node *n)
{
    struct bag_call call = call_of(c, n);
    call.column_of_field = work->node_words[n - work->graph->nodes]; /* NULL: a field is an input twice */
    if (call.column_of_field == NULL) {
        op_table[OP_ID_embed_bag].backward(c, n);
        return;
    }
    call.out = op_dout(c, n);
    call.table_grad = c->table_grad[call.attr.lookup];
    call.home_scale = UINT64_MAX / c->graph->field_count + 1;
    call.is_joined = graph_joined(c->graph) > 1;
    call.has_all_fields = n->input_count == c->graph->field_count;
    call.piece_count = backward_piece_count(work, c->batch->key_count);
    team_run(work->team, backward_piece, &call, call.piece_count);
}

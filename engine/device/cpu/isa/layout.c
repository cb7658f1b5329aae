/* Ops that move columns: slice, reshape, sum_pool. Bound by memory, cut by examples. As the references, with
 * their bits. */
#include "engine/device/cpu/isa/kernels_isa.h"
#include "engine/device/cpu/isa/rows.h"

struct layout_call {
    struct view to, from; /* out and in, or din and dout */
    bool adds;
    uint32_t begin;       /* slice                                                           */
    uint32_t rows, width; /* reshape: of a matrix in `from`; sum_pool: vectors, and their dim */
};

/* to[0 .. count - 1] (+)= from */
ALWAYS_INLINE void floats_put(float *to, const float *from, uint32_t count, bool adds)
{
    for (uint32_t i = 0; i < count; i += VF) {
        vf v = vf_load_upto(from + i, count - i);
        if (adds) v = vf_load_upto(to + i, count - i) + v;
        vf_store_upto(to + i, v, count - i);
    }
}

/* --- slice ------------------------------------------------------------------------------------ */

static void slice_forward_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct layout_call *call = context;
    for (uint32_t b = piece * PIECE_ROWS; b < piece_end(piece, call->to.rows); b++)
        floats_put(row_of(call->to, b), row_of(call->from, b) + call->begin, call->to.cols, false);
}

static void slice_backward_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct layout_call *call = context;
    uint32_t end = call->begin + call->from.cols;
    for (uint32_t b = piece * PIECE_ROWS; b < piece_end(piece, call->to.rows); b++) {
        float *to = row_of(call->to, b);
        floats_put(to + call->begin, row_of(call->from, b), call->from.cols, call->adds);
        if (call->adds) continue;
        memset(to, 0, call->begin * sizeof *to);
        memset(to + end, 0, (call->to.cols - end) * sizeof *to);
    }
}

static uint32_t slice_begin(const struct graph_node *n)
{
    struct slice_attr attr;
    memcpy(&attr, n->attr, sizeof attr);
    return attr.begin;
}

void KERNEL(slice_forward_f32)(const struct cpu_work *work, const struct op_context *c, const struct graph_node *n)
{
    struct layout_call call = {.to = op_out(c, n), .from = op_in(c, n, 0), .begin = slice_begin(n)};
    rows_run(work, slice_forward_piece, &call, call.to.rows);
}

void KERNEL(slice_backward_f32)(const struct cpu_work *work, const struct op_context *c, const struct graph_node *n)
{
    struct layout_call call = {
        .to = op_din(c, n, 0), .from = op_dout(c, n), .adds = op_din_adds(c, n, 0), .begin = slice_begin(n)};
    if (call.to.data != NULL) rows_run(work, slice_backward_piece, &call, call.to.rows);
}

/* --- reshape ---------------------------------------------------------------------------------- */

typedef float v4 __attribute__((vector_size(16)));
typedef float v4_memory __attribute__((vector_size(16), aligned(4), may_alias));
#define BLOCK 4u

/* A block of 4 by 4: to[k rows + r] (+)= from[r width + k]. */
ALWAYS_INLINE void block_transpose(float *to, const float *from, uint32_t rows, uint32_t width, bool adds)
{
#define LOW(a, b)    __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define HIGH(a, b)   __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define FIRST(a, b)  __builtin_shufflevector(a, b, 0, 1, 4, 5)
#define SECOND(a, b) __builtin_shufflevector(a, b, 2, 3, 6, 7)
    v4 row[BLOCK];
    for (uint32_t r = 0; r < BLOCK; r++) row[r] = *(const v4_memory *)(from + r * width);
    v4 low01 = LOW(row[0], row[1]), low23 = LOW(row[2], row[3]);
    v4 high01 = HIGH(row[0], row[1]), high23 = HIGH(row[2], row[3]);
    const v4 column[BLOCK] = {FIRST(low01, low23), SECOND(low01, low23), FIRST(high01, high23), SECOND(high01, high23)};
    for (uint32_t k = 0; k < BLOCK; k++) {
        v4_memory *place = (v4_memory *)(to + k * rows);
        if (adds)
            *place += column[k];
        else
            *place = column[k];
    }
}

/* to[k rows + r] (+)= from[r width + k], block by block, then what is left at the right and below. */
static void row_transpose(float *to, const float *from, uint32_t rows, uint32_t width, bool adds)
{
    uint32_t rows_whole = rows - rows % BLOCK, width_whole = width - width % BLOCK;
    for (uint32_t k = 0; k < width_whole; k += BLOCK)
        for (uint32_t r = 0; r < rows_whole; r += BLOCK)
            block_transpose(to + k * rows + r, from + r * width + k, rows, width, adds);
    for (uint32_t k = 0; k < width; k++)
        for (uint32_t r = k < width_whole ? rows_whole : 0; r < rows; r++) {
            float value = from[r * width + k];
            to[k * rows + r] = adds ? to[k * rows + r] + value : value;
        }
}

static void reshape_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct layout_call *call = context;
    for (uint32_t b = piece * PIECE_ROWS; b < piece_end(piece, call->to.rows); b++) {
        if (call->rows == 1 || call->width == 1)
            floats_put(row_of(call->to, b), row_of(call->from, b), call->to.cols, call->adds);
        else
            row_transpose(row_of(call->to, b), row_of(call->from, b), call->rows, call->width, call->adds);
    }
}

/* Rows of the matrix in the op's input. */
static uint32_t reshape_rows(const struct graph_node *n)
{
    struct reshape_attr attr;
    memcpy(&attr, n->attr, sizeof attr);
    return attr.is_transposed ? attr.rows : 1;
}

void KERNEL(reshape_forward_f32)(const struct cpu_work *work, const struct op_context *c, const struct graph_node *n)
{
    struct layout_call call = {.to = op_out(c, n), .from = op_in(c, n, 0), .rows = reshape_rows(n)};
    call.width = call.to.cols / call.rows;
    rows_run(work, reshape_piece, &call, call.to.rows);
}

void KERNEL(reshape_backward_f32)(const struct cpu_work *work, const struct op_context *c, const struct graph_node *n)
{
    struct layout_call call = {
        .to = op_din(c, n, 0), .from = op_dout(c, n), .adds = op_din_adds(c, n, 0), .width = reshape_rows(n)};
    call.rows = call.from.cols / call.width;
    if (call.to.data != NULL) rows_run(work, reshape_piece, &call, call.to.rows);
}

/* --- sum_pool --------------------------------------------------------------------------------- */

static void sum_pool_forward_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct layout_call *call = context;
    uint32_t dim = call->width;
    for (uint32_t b = piece * PIECE_ROWS; b < piece_end(piece, call->to.rows); b++) {
        const float *from = row_of(call->from, b);
        for (uint32_t at = 0; at < call->to.cols; at += dim, from += (size_t)call->rows * dim)
            for (uint32_t i = 0; i < dim; i += VF) {
                vf sum = vf_load_upto(from + i, dim - i);
                for (uint32_t r = 1; r < call->rows; r++) sum += vf_load_upto(from + r * dim + i, dim - i);
                vf_store_upto(row_of(call->to, b) + at + i, sum, dim - i);
            }
    }
}

static void sum_pool_backward_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct layout_call *call = context;
    uint32_t dim = call->width;
    for (uint32_t b = piece * PIECE_ROWS; b < piece_end(piece, call->to.rows); b++) {
        float *to = row_of(call->to, b);
        for (uint32_t at = 0; at < call->from.cols; at += dim)
            for (uint32_t r = 0; r < call->rows; r++, to += dim)
                floats_put(to, row_of(call->from, b) + at, dim, call->adds);
    }
}

static struct layout_call sum_pool_call(const struct graph_node *n, struct view to, struct view from)
{
    struct sum_pool_attr attr;
    memcpy(&attr, n->attr, sizeof attr);
    return (struct layout_call){.to = to, .from = from, .rows = attr.rows, .width = attr.dim};
}

void KERNEL(sum_pool_forward_f32)(const struct cpu_work *work, const struct op_context *c, const struct graph_node *n)
{
    struct layout_call call = sum_pool_call(n, op_out(c, n), op_in(c, n, 0));
    rows_run(work, sum_pool_forward_piece, &call, call.to.rows);
}

void KERNEL(sum_pool_backward_f32)(const struct cpu_work *work, const struct op_context *c, const struct graph_node *n)
{
    struct layout_call call = sum_pool_call(n, op_din(c, n, 0), op_dout(c, n));
    call.adds = op_din_adds(c, n, 0);
    if (call.to.data != NULL) rows_run(work, sum_pool_backward_piece, &call, call.to.rows);
}

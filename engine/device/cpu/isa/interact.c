/* Dot products of all pairs of an example's vectors (graph/op_interact.c). The vectors, some tens of some
 * tens of numbers, are copied side by side into the scratch, each padded with zeros to a multiple of
 * INTERACT_PAD floats. From then on they stay in the first-level cache, and the number of loads from there is
 * what counts, so both passes work on blocks:
 *
 *             j0   j0+PAIR_COLS
 *        ┌──────────┐               forward    PAIR_ROWS x PAIR_COLS dot products at once, a vector of sums each,
 *     i0 │ # # . .  │  VF pairs                which are then added up together (vf_sums)
 *        │ # # . .  │               backward   ROWS vectors' gradients at once: sums over j of g_ij e_j, g_ij broadcast
 *        └──────────┘                          from row i of dout before the block, from column i behind it
 *
 * A dot product has a sum in each lane, over every VF-th term in order, and then adds the lanes along a tree;
 * a gradient adds its terms in the order of j. Both depend on S and D alone. */
#include "engine/device/cpu/isa/kernels_isa.h"

#define PAIR_ROWS (VF >= 8 ? 4u : 2u)
#define PAIR_COLS (VF / PAIR_ROWS)
#define ROWS      8u
/* Vectors of a gradient's columns that are summed side by side; 16 sums fit into the 32
 * registers of AVX-512, 8 into 16. */
#define CHAINS (VF == 16 ? 2u : 1u)
/* Numbers of the inputs in a piece, roughly: some tens of microseconds of work. */
#define PIECE_FLOATS 8192u
_Static_assert(INTERACT_PAD % VF == 0 && INTERACT_ROWS_MORE >= PAIR_ROWS - 1,
               "the scratch is whole vectors and blocks");

struct interact_call {
    const struct op_context *c;
    const struct graph_node *n;
    struct interact_attr attr;
    struct view out;          /* dout in the backward pass */
    uint32_t vectors, stride; /* of an example; floats from one to the next in the scratch */
    uint32_t piece_rows;
};

static struct interact_call call_of(const struct op_context *c, const struct graph_node *n)
{
    struct interact_call call = {.c = c, .n = n};
    uint32_t cols = 0;
    memcpy(&call.attr, n->attr, sizeof call.attr);
    for (uint32_t k = 0; k < n->input_count; k++) cols += op_in(c, n, k).cols;
    call.vectors = cols / call.attr.dim;
    call.stride = interact_stride(call.attr.dim);
    call.piece_rows = cols < PIECE_FLOATS ? PIECE_FLOATS / cols : 1;
    return call;
}

static uint32_t piece_end(const struct interact_call *call, uint32_t piece)
{
    uint32_t end = (piece + 1) * call->piece_rows;
    return end < call->out.rows ? end : call->out.rows;
}

static void interact_run(const struct cpu_work *work, team_work *piece, struct interact_call *call)
{
    team_run(work->team, piece, call, (call->out.rows + call->piece_rows - 1) / call->piece_rows);
}

static void zeros_put(float *to, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) to[i] = 0;
}

/* Puts an example's vectors into the scratch. */
static void vectors_gather(const struct interact_call *call, uint32_t b, float *e)
{
    uint32_t dim = call->attr.dim;
    for (uint32_t k = 0; k < call->n->input_count; k++) {
        struct view in = op_in(call->c, call->n, k);
        const float *in_b = in.data + (size_t)b * in.stride;
        for (uint32_t col = 0; col < in.cols; col += dim, e += call->stride) {
            for (uint32_t d = 0; d < dim; d += VF) vf_store_upto(e + d, vf_load_upto(in_b + col + d, dim - d), dim - d);
            zeros_put(e + dim, call->stride - dim);
        }
    }
}

/* Goes through the vectors of an example, input by input. */
struct walk {
    uint32_t input, col;
    struct view in, de; /* the input, and its gradient */
    bool adds;
};

static void walk_enter(const struct interact_call *call, struct walk *walk, uint32_t input)
{
    walk->input = input;
    walk->col = 0;
    if (input == call->n->input_count) return;
    walk->in = op_in(call->c, call->n, input);
    walk->de = op_din(call->c, call->n, input);
    walk->adds = op_din_adds(call->c, call->n, input);
}
static void walk_step(const struct interact_call *call, struct walk *walk)
{
    walk->col += call->attr.dim;
    if (walk->col == walk->in.cols) walk_enter(call, walk, walk->input + 1);
}

/* Asks for `count` vectors of an example that is wanted soon: a few at a time between the products of the
 * example before, because many at once would wait for one another. */
static void vectors_prefetch(const struct interact_call *call, uint32_t b, struct walk *walk, uint32_t count)
{
    for (; count > 0 && walk->input < call->n->input_count; count--) {
        const float *from = walk->in.data + (size_t)b * walk->in.stride + walk->col;
        for (uint32_t d = 0; d < call->attr.dim; d += CACHE_LINE_BYTES / sizeof(float)) prefetch_read(from + d);
        walk_step(call, walk);
    }
}

/* --- forward ---------------------------------------------------------------------------------- */

/* The pairs of PAIR_ROWS vectors with PAIR_COLS. */
ALWAYS_INLINE vf pairs_multiply(const float *rows, const float *cols, size_t stride)
{
    vf sum[VF] = {{0}};
    for (size_t d = 0; d < stride; d += VF) {
        vf right[PAIR_COLS];
#pragma GCC unroll 4
        for (uint32_t col = 0; col < PAIR_COLS; col++) right[col] = vf_load(cols + col * stride + d);
#pragma GCC unroll 4
        for (uint32_t r = 0; r < PAIR_ROWS; r++) {
            vf left = vf_load(rows + r * stride + d);
#pragma GCC unroll 4
            for (uint32_t col = 0; col < PAIR_COLS; col++)
                sum[r * PAIR_COLS + col] = vf_fma(left, right[col], sum[r * PAIR_COLS + col]);
        }
    }
    return vf_sums(sum);
}

/* `count` of the PAIR_COLS products of one row. */
ALWAYS_INLINE void row_store(float *to, const float *from, uint32_t count)
{
    switch (count) {
    case 4: memcpy(to, from, 4 * sizeof *to); break;
    case 3: memcpy(to, from, 3 * sizeof *to); break;
    case 2: memcpy(to, from, 2 * sizeof *to); break;
    case 1: *to = *from; break;
    default: break;
    }
}
_Static_assert(PAIR_COLS <= 4, "row_store");

static void forward_piece(void *context, uint32_t piece, void *scratch)
{
    const struct interact_call *call = context;
    float *e = scratch;
    uint32_t has_self = call->attr.has_self;
    size_t stride = call->stride;
    zeros_put(e + call->vectors * stride, INTERACT_ROWS_MORE * call->stride); /* for blocks beyond the last vector */
    for (uint32_t b = piece * call->piece_rows; b < piece_end(call, piece); b++) {
        float *out_b = call->out.data + (size_t)b * call->out.stride;
        struct walk next;
        walk_enter(call, &next, b + 1 < call->out.rows ? 0 : call->n->input_count);
        vectors_gather(call, b, e);
        for (uint32_t i0 = 0; i0 < call->vectors; i0 += PAIR_ROWS) {
            uint32_t rows = call->vectors - i0 < PAIR_ROWS ? call->vectors - i0 : PAIR_ROWS;
            vectors_prefetch(call, b + 1, &next, PAIR_ROWS);
            for (uint32_t j0 = 0; j0 + 1 < i0 + rows + has_self; j0 += PAIR_COLS) {
                float result[VF];
                vf_store(result, pairs_multiply(e + i0 * stride, e + j0 * stride, stride));
                float *to = out_b + interact_pair(call->attr, i0, j0);
                for (uint32_t r = 0; r < rows; to += i0 + r + has_self, r++) {
                    uint32_t j_end = i0 + r + has_self, count = j_end > j0 ? j_end - j0 : 0;
                    row_store(to, result + r * PAIR_COLS, count < PAIR_COLS ? count : PAIR_COLS);
                }
            }
        }
    }
}

void KERNEL(interact_forward_f32)(const struct cpu_work *work, const struct op_context *c, const struct graph_node *n)
{
    struct interact_call call = call_of(c, n);
    call.out = op_out(c, n);
    interact_run(work, forward_piece, &call);
}

/* --- backward --------------------------------------------------------------------------------- */

/* Where the gradients of successive vectors go. */
struct target {
    float *de; /* NULL: nowhere */
    bool adds;
};
static void targets_next(const struct interact_call *call, uint32_t b, struct walk *walk, uint32_t count,
                         struct target *target)
{
    for (uint32_t r = 0; r < count; r++) {
        target[r].de = walk->de.data != NULL ? walk->de.data + (size_t)b * walk->de.stride + walk->col : NULL;
        target[r].adds = walk->adds;
        walk_step(call, walk);
    }
}

/* The factors of the pairs within the block of vectors [i0, i0 + rows): g[j - i0][r], both ways round. */
static void block_factors(const struct interact_call *call, const float *dout_b, uint32_t i0, uint32_t rows,
                          float g[ROWS][ROWS])
{
    for (uint32_t r = 0; r < rows; r++) {
        const float *pair = dout_b + interact_pair(call->attr, i0 + r, i0);
        for (uint32_t j = 0; j < r; j++) g[r][j] = g[j][r] = pair[j];
        g[r][r] = call->attr.has_self ? 2 * pair[r] : 0;
    }
}

#define TERM_ADD(r, factor)                                                                                            \
    do {                                                                                                               \
        vf f_ = vf_splat(factor);                                                                                      \
        _Pragma("GCC unroll 2") for (uint32_t k = 0; k < chains; k++) sum[r][k] = vf_fma(f_, term[k], sum[r][k]);      \
    } while (0)
#define TERMS_LOAD(j)                                                                                                  \
    vf term[CHAINS];                                                                                                   \
    _Pragma("GCC unroll 2") for (uint32_t k = 0; k < chains; k++) term[k] = vf_load(e + (j)*stride + k * VF)

/* Columns [d, d + chains * VF), or those that are left, of the gradients of vectors [i0, i0 + rows). */
ALWAYS_INLINE void gradients_sum(const uint32_t rows, const uint32_t chains, const struct interact_call *call,
                                 const float *e, const float *dout_b, const float g[ROWS][ROWS], uint32_t i0,
                                 uint32_t d, const struct target *target)
{
    struct interact_attr attr = call->attr;
    size_t stride = call->stride;
    vf sum[ROWS][CHAINS] = {{{0}}};
    const float *before[ROWS];
    e += d;
    for (uint32_t r = 0; r < rows; r++) before[r] = dout_b + interact_pair(attr, i0 + r, 0);
    for (size_t j = 0; j < i0; j++) {
        TERMS_LOAD(j);
#pragma GCC unroll 8
        for (uint32_t r = 0; r < rows; r++) TERM_ADD(r, before[r][j]);
    }
    for (size_t j = 0; j < rows; j++) {
        TERMS_LOAD(i0 + j);
#pragma GCC unroll 8
        for (uint32_t r = 0; r < rows; r++) TERM_ADD(r, g[j][r]);
    }
    const float *behind = dout_b + interact_pair(attr, i0 + rows, i0);
    for (size_t j = i0 + rows; j < call->vectors; behind += j + attr.has_self, j++) {
        TERMS_LOAD(j);
#pragma GCC unroll 8
        for (uint32_t r = 0; r < rows; r++) TERM_ADD(r, behind[r]);
    }
#pragma GCC unroll 8
    for (uint32_t r = 0; r < rows; r++) {
        if (target[r].de == NULL) continue;
        float *de = target[r].de + d;
#pragma GCC unroll 2
        for (uint32_t k = 0; k < chains; k++) {
            size_t left = attr.dim - d - k * VF;
            vf grad = target[r].adds ? vf_load_upto(de + k * VF, left) + sum[r][k] : sum[r][k];
            vf_store_upto(de + k * VF, grad, left);
        }
    }
}

ALWAYS_INLINE void rows_backward(const uint32_t rows, const struct interact_call *call, const float *e,
                                 const float *dout_b, uint32_t i0, const struct target *target)
{
    uint32_t d = 0;
    float g[ROWS][ROWS];
    block_factors(call, dout_b, i0, rows, g);
    if (CHAINS > 1)
        for (; d + (CHAINS - 1) * VF < call->attr.dim; d += CHAINS * VF)
            gradients_sum(rows, CHAINS, call, e, dout_b, g, i0, d, target);
    for (; d < call->attr.dim; d += VF) gradients_sum(rows, 1, call, e, dout_b, g, i0, d, target);
}

static void backward_piece(void *context, uint32_t piece, void *scratch)
{
    const struct interact_call *call = context;
    float *e = scratch;
    for (uint32_t b = piece * call->piece_rows; b < piece_end(call, piece); b++) {
        const float *dout_b = call->out.data + (size_t)b * call->out.stride;
        struct walk walk, next;
        struct target target[ROWS];
        walk_enter(call, &walk, 0);
        walk_enter(call, &next, b + 1 < call->out.rows ? 0 : call->n->input_count);
        vectors_gather(call, b, e);
        for (uint32_t i = 0, rows = ROWS; i < call->vectors; i += rows) {
            while (rows > call->vectors) rows /= 2;
            /* The last block begins earlier if it would end behind the last vector:
             * sums that it repeats go nowhere. */
            uint32_t done = i + rows > call->vectors ? i + rows - call->vectors : 0;
            i -= done;
            for (uint32_t r = 0; r < done; r++) target[r].de = NULL;
            targets_next(call, b, &walk, rows - done, target + done);
            vectors_prefetch(call, b + 1, &next, rows);
            switch (rows) {
            case 8: rows_backward(8, call, e, dout_b, i, target); break;
            case 4: rows_backward(4, call, e, dout_b, i, target); break;
            case 2: rows_backward(2, call, e, dout_b, i, target); break;
            default: rows_backward(1, call, e, dout_b, i, target); break;
            }
        }
    }
}

void KERNEL(interact_backward_f32)(const struct cpu_work *work, const struct op_context *c, const struct graph_node *n)
{
    struct interact_call call = call_of(c, n);
    call.out = op_dout(c, n);
    interact_run(work, backward_piece, &call);
}

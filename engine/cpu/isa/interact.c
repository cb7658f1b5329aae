/* Dot products of all pairs of an example's vectors (graph/op_interact.c). Its vectors, some tens of some tens of numbers, stay in the
 * first-level cache; what counts is how often they are loaded from there, so both passes work on blocks:
 *
 *             j0   j0+PAIR_COLS
 *        ┌──────────┐                        forward    PAIR_ROWS x PAIR_COLS dot products at once, a vector of partial sums each,
 *     i0 │ # # . .  │  VF pairs                         which are then added up together (vf_sums)
 *        │ # # . .  │                        backward   ROWS vectors' gradients at once: sums over j of g_ij e_j, g_ij broadcast from
 *        └──────────┘                                   row i of dout before the block, from column i behind it
 *
 * A dot product has a sum in each lane, over every VF-th term in order, and then adds the lanes along a tree; a gradient adds its terms
 * in the order of j. Both depend on S and D alone. */
#include "engine/cpu/isa/kernels_isa.h"

#define PAIR_ROWS (VF >= 8 ? 4u : 2u)
#define PAIR_COLS (VF / PAIR_ROWS)
#define ROWS      8u
/* Vectors of a gradient's columns that are summed side by side; 16 sums fit into the 32 registers of AVX-512, 8 into 16. */
#define CHAINS (VF == 16 ? 2u : 1u)
/* Numbers of the inputs in a piece, roughly: some tens of microseconds of work. */
#define PIECE_FLOATS 8192u
/* A piece lists its example's vectors in its scratch; one more than these would have more than OP_COLS_MAX pairs. */
#define VECTORS_MAX 5793u
_Static_assert((uint64_t)VECTORS_MAX *(VECTORS_MAX + 1) / 2 > OP_COLS_MAX &&
                   VECTORS_MAX * sizeof(float *) <= CPU_SCRATCH_BYTES,
               "the list of an example's vectors");

struct interact_call {
    const struct op_context *c;
    const struct graph_node *n;
    struct interact_attr attr;
    struct view out;  /* dout in the backward pass */
    uint32_t vectors; /* of an example */
    uint32_t piece_rows;
};

static struct interact_call call_of(const struct op_context *c, const struct graph_node *n)
{
    struct interact_call call = {.c = c, .n = n};
    uint32_t cols = 0;
    memcpy(&call.attr, n->attr, sizeof call.attr);
    for (uint32_t k = 0; k < n->input_count; k++) cols += op_in(c, n, k).cols;
    call.vectors = cols / call.attr.dim;
    call.piece_rows = cols < PIECE_FLOATS ? PIECE_FLOATS / cols : 1;
    CHECK(call.vectors <= VECTORS_MAX);
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

static void vectors_list(const struct interact_call *call, uint32_t b, const float **e)
{
    for (uint32_t k = 0; k < call->n->input_count; k++) {
        struct view in = op_in(call->c, call->n, k);
        const float *in_b = in.data + (size_t)b * in.stride;
        for (uint32_t col = 0; col < in.cols; col += call->attr.dim) *e++ = in_b + col;
    }
}

/* --- forward ---------------------------------------------------------------------------------- */

/* The pairs of vectors i0 … and j0 …, as far as there are such vectors. */
ALWAYS_INLINE void pairs_multiply(const struct interact_call *call, const float *const *e, uint32_t i0, uint32_t j0,
                                  float result[VF])
{
    const float *row[PAIR_ROWS], *col[PAIR_COLS];
    uint32_t last = call->vectors - 1, dim = call->attr.dim;
    for (uint32_t r = 0; r < PAIR_ROWS; r++) row[r] = e[i0 + r < last ? i0 + r : last];
    for (uint32_t c = 0; c < PAIR_COLS; c++) col[c] = e[j0 + c < last ? j0 + c : last];
    vf sum[VF] = {{0}};
    for (uint32_t d = 0; d < dim; d += VF) {
        vf right[PAIR_COLS];
#pragma GCC unroll 4
        for (uint32_t c = 0; c < PAIR_COLS; c++) right[c] = vf_load_upto(col[c] + d, dim - d);
#pragma GCC unroll 4
        for (uint32_t r = 0; r < PAIR_ROWS; r++) {
            vf left = vf_load_upto(row[r] + d, dim - d);
#pragma GCC unroll 4
            for (uint32_t c = 0; c < PAIR_COLS; c++)
                sum[r * PAIR_COLS + c] = vf_fma(left, right[c], sum[r * PAIR_COLS + c]);
        }
    }
    vf_store(result, vf_sums(sum));
}

static void forward_piece(void *context, uint32_t piece, void *scratch)
{
    const struct interact_call *call = context;
    const float **e = scratch;
    uint32_t has_self = call->attr.has_self;
    for (uint32_t b = piece * call->piece_rows; b < piece_end(call, piece); b++) {
        float *out_b = call->out.data + (size_t)b * call->out.stride;
        vectors_list(call, b, e);
        for (uint32_t i0 = 0; i0 < call->vectors; i0 += PAIR_ROWS) {
            uint32_t i_end = i0 + PAIR_ROWS < call->vectors ? i0 + PAIR_ROWS : call->vectors;
            for (uint32_t j0 = 0; j0 + 1 < i_end + has_self; j0 += PAIR_COLS) {
                float result[VF];
                pairs_multiply(call, e, i0, j0, result);
                for (uint32_t i = i0; i < i_end; i++) {
                    uint32_t j_end = i + has_self;
                    if (j_end <= j0) continue;
                    float *to = out_b + interact_pair(call->attr, i, j0);
                    const float *from = result + (i - i0) * PAIR_COLS;
                    if (j_end - j0 >= PAIR_COLS)
                        memcpy(to, from, PAIR_COLS * sizeof *to);
                    else
                        for (uint32_t j = j0; j < j_end; j++) *to++ = *from++;
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
struct target_walk {
    uint32_t input, col;
};

static void targets_next(const struct interact_call *call, uint32_t b, struct target_walk *walk, uint32_t count,
                         struct target *target)
{
    for (uint32_t r = 0; r < count; r++) {
        while (walk->col == op_in(call->c, call->n, walk->input).cols) walk->input++, walk->col = 0;
        struct view de = op_din(call->c, call->n, walk->input);
        target[r].de = de.data != NULL ? de.data + (size_t)b * de.stride + walk->col : NULL;
        target[r].adds = op_din_adds(call->c, call->n, walk->input);
        walk->col += call->attr.dim;
    }
}

ALWAYS_INLINE void terms_add(const uint32_t rows, const uint32_t chains, vf sum[ROWS][CHAINS], const float g[ROWS],
                             const float *e_j, size_t left)
{
    vf term[CHAINS];
#pragma GCC unroll 2
    for (uint32_t k = 0; k < chains; k++) term[k] = chains > 1 ? vf_load(e_j + k * VF) : vf_load_upto(e_j, left);
#pragma GCC unroll 8
    for (uint32_t r = 0; r < rows; r++) {
        vf factor = vf_splat(g[r]);
#pragma GCC unroll 2
        for (uint32_t k = 0; k < chains; k++) sum[r][k] = vf_fma(factor, term[k], sum[r][k]);
    }
}

/* Columns [d, d + chains * VF), or those that are left, of the gradients of vectors [i0, i0 + rows). */
ALWAYS_INLINE void gradients_sum(const uint32_t rows, const uint32_t chains, const struct interact_call *call,
                                 const float *const *e, const float *dout_b, uint32_t i0, uint32_t d,
                                 const struct target *target)
{
    struct interact_attr attr = call->attr;
    uint32_t left = attr.dim - d;
    vf sum[ROWS][CHAINS] = {{{0}}};
    float g[ROWS];
    const float *before[ROWS];
    for (uint32_t r = 0; r < rows; r++) before[r] = dout_b + interact_pair(attr, i0 + r, 0);
    for (uint32_t j = 0; j < i0; j++) {
#pragma GCC unroll 8
        for (uint32_t r = 0; r < rows; r++) g[r] = before[r][j];
        terms_add(rows, chains, sum, g, e[j] + d, left);
    }
    for (uint32_t j = i0; j < i0 + rows; j++) {
        for (uint32_t r = 0; r < rows; r++) {
            uint32_t i = i0 + r;
            g[r] = i > j ? before[r][j] : i < j ? dout_b[interact_pair(attr, j, i)] : 0;
            if (i == j && attr.has_self) g[r] = 2 * before[r][j];
        }
        terms_add(rows, chains, sum, g, e[j] + d, left);
    }
    for (uint32_t j = i0 + rows; j < call->vectors; j++) {
        const float *behind = dout_b + interact_pair(attr, j, i0);
        terms_add(rows, chains, sum, behind, e[j] + d, left);
    }
    for (uint32_t r = 0; r < rows; r++) {
        if (target[r].de == NULL) continue;
        float *de = target[r].de + d;
        for (uint32_t k = 0; k < chains; k++) {
            size_t here = left - k * VF;
            vf grad = target[r].adds ? vf_load_upto(de + k * VF, here) + sum[r][k] : sum[r][k];
            vf_store_upto(de + k * VF, grad, here);
        }
    }
}

ALWAYS_INLINE void rows_backward(const uint32_t rows, const struct interact_call *call, const float *const *e,
                                 const float *dout_b, uint32_t i0, const struct target *target)
{
    uint32_t d = 0;
    if (CHAINS > 1)
        for (; d + CHAINS * VF <= call->attr.dim; d += CHAINS * VF)
            gradients_sum(rows, CHAINS, call, e, dout_b, i0, d, target);
    for (; d < call->attr.dim; d += VF) gradients_sum(rows, 1, call, e, dout_b, i0, d, target);
}

static void backward_piece(void *context, uint32_t piece, void *scratch)
{
    const struct interact_call *call = context;
    const float **e = scratch;
    for (uint32_t b = piece * call->piece_rows; b < piece_end(call, piece); b++) {
        const float *dout_b = call->out.data + (size_t)b * call->out.stride;
        struct target_walk walk = {0, 0};
        struct target target[ROWS];
        vectors_list(call, b, e);
        for (uint32_t i = 0, rows = ROWS; i < call->vectors; i += rows) {
            while (i + rows > call->vectors) rows /= 2;
            targets_next(call, b, &walk, rows, target);
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

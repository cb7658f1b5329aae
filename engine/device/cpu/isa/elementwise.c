/* Ops that pass over their rows once: relu, leaky_relu, sigmoid, tanh, softsign, concat, dropout, busy. Bound
 * by memory (dropout by its random numbers, busy by the time that it is told to spend), cut by examples. They
 * write only columns of the op: its output may be part of a wider row. */
#include "engine/device/cpu/isa/act.h"
#include "engine/device/cpu/isa/kernels_isa.h"
#include "engine/device/cpu/isa/philox.h"
#include "engine/device/cpu/isa/rows.h"

struct rows_call {
    const struct op_context *c;
    const struct graph_node *n;
    struct view to, from, out; /* out: the op's output, for slopes */
    bool is_backward, adds;
    enum activation activation;
    float slope;
    /* dropout */
    float rate;
    struct random_stream stream;
    uint64_t item; /* of the micro-batch's first example */
};

/* --- activations ------------------------------------------------------------------------------ */

static void activation_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct rows_call *call = context;
    for (uint32_t b = piece * PIECE_ROWS; b < piece_end(piece, call->to.rows); b++) {
        float *to = row_of(call->to, b);
        const float *from = row_of(call->from, b);
        for (uint32_t i = 0; i < call->to.cols; i += VF) {
            size_t left = call->to.cols - i;
            vf v = vf_load_upto(from + i, left);
            if (!call->is_backward) {
                v = vf_activation(call->activation, call->slope, v);
            } else {
                v = vf_activation_grad(call->activation, call->slope, vf_load_upto(row_of(call->out, b) + i, left), v);
                if (call->adds) v = vf_load_upto(to + i, left) + v;
            }
            vf_store_upto(to + i, v, left);
        }
    }
}

static void activation_forward(const struct cpu_work *work, const struct op_context *c, const struct graph_node *n,
                               enum activation a, float slope)
{
    struct rows_call call = {.to = op_out(c, n), .from = op_in(c, n, 0), .activation = a, .slope = slope};
    rows_run(work, activation_piece, &call, call.to.rows);
}

static void activation_backward(const struct cpu_work *work, const struct op_context *c, const struct graph_node *n,
                                enum activation a, float slope)
{
    struct rows_call call = {.to = op_din(c, n, 0),
                             .from = op_dout(c, n),
                             .out = op_out(c, n),
                             .is_backward = true,
                             .activation = a,
                             .slope = slope};
    if (call.to.data == NULL) return;
    call.adds = op_din_adds(c, n, 0);
    rows_run(work, activation_piece, &call, call.to.rows);
}

#define ACTIVATION(name, activation, slope)                                                                            \
    void KERNEL(name##_forward_f32)(const struct cpu_work *work, const struct op_context *c,                           \
                                    const struct graph_node *n)                                                        \
    {                                                                                                                  \
        activation_forward(work, c, n, activation, slope);                                                             \
    }                                                                                                                  \
    void KERNEL(name##_backward_f32)(const struct cpu_work *work, const struct op_context *c,                          \
                                     const struct graph_node *n)                                                       \
    {                                                                                                                  \
        activation_backward(work, c, n, activation, slope);                                                            \
    }

static float leaky_slope(const struct graph_node *n)
{
    struct leaky_relu_attr attr;
    memcpy(&attr, n->attr, sizeof attr);
    return attr.slope;
}

ACTIVATION(relu, ACT_RELU, 0)
ACTIVATION(leaky_relu, ACT_LEAKY_RELU, leaky_slope(n))
ACTIVATION(sigmoid, ACT_SIGMOID, 0)
ACTIVATION(tanh, ACT_TANH, 0)
ACTIVATION(softsign, ACT_SOFTSIGN, 0)

/* --- concat ----------------------------------------------------------------------------------- */

static uint32_t concat_groups(const struct graph_node *n)
{
    struct concat_attr attr;
    memcpy(&attr, n->attr, sizeof attr);
    return attr.groups;
}

/* Whether an input already lies within the output (graph/life.h), or its gradient within the output's. */
static bool is_part(struct view part, struct view whole, uint32_t col) { return part.data == whole.data + col; }

static void concat_forward_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct rows_call *call = context;
    uint32_t begin = piece * PIECE_ROWS, end = piece_end(piece, call->to.rows), groups = concat_groups(call->n);
    for (uint32_t k = 0, col = 0; k < call->n->input_count; k++) {
        struct view in = op_in(call->c, call->n, k);
        uint32_t part = in.cols / groups, step = call->to.cols / groups;
        for (uint32_t b = begin; b < end && !is_part(in, call->to, col); b++)
            for (uint32_t g = 0; g < groups; g++)
                memcpy(row_of(call->to, b) + g * step + col, row_of(in, b) + g * part, part * sizeof(float));
        col += part;
    }
}

static void concat_backward_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct rows_call *call = context;
    uint32_t begin = piece * PIECE_ROWS, end = piece_end(piece, call->from.rows), groups = concat_groups(call->n);
    for (uint32_t k = 0, col = 0; k < call->n->input_count; k++) {
        struct view din = op_din(call->c, call->n, k);
        uint32_t part = op_in(call->c, call->n, k).cols / groups, step = call->from.cols / groups;
        bool adds = op_din_adds(call->c, call->n, k);
        bool is_there = is_part(din, call->from, col);
        for (uint32_t b = begin; b < end && din.data != NULL && !is_there; b++) {
            for (uint32_t g = 0; g < groups; g++) {
                float *to = row_of(din, b) + g * part;
                const float *from = row_of(call->from, b) + g * step + col;
                if (adds)
                    for (uint32_t i = 0; i < part; i++) to[i] += from[i];
                else
                    memcpy(to, from, part * sizeof *to);
            }
        }
        col += part;
    }
}

void KERNEL(concat_forward_f32)(const struct cpu_work *work, const struct op_context *c, const struct graph_node *n)
{
    struct rows_call call = {.c = c, .n = n, .to = op_out(c, n)};
    rows_run(work, concat_forward_piece, &call, call.to.rows);
}

void KERNEL(concat_backward_f32)(const struct cpu_work *work, const struct op_context *c, const struct graph_node *n)
{
    struct rows_call call = {.c = c, .n = n, .from = op_dout(c, n)};
    rows_run(work, concat_backward_piece, &call, call.from.rows);
}

/* --- dropout ---------------------------------------------------------------------------------- */

/* random_block() of neighbouring blocks of four columns. */
#define DRAW_COLS (4 * PHILOX_BLOCKS)

ALWAYS_INLINE void draw(vu bits[2 * PHILOX_VECTORS], struct random_stream stream, uint64_t item, uint32_t block)
{
    struct philox x;
    for (uint32_t vector = 0; vector < PHILOX_VECTORS; vector++) {
        x.word[0][vector] = (vw){0} + (item & UINT32_MAX);
        x.word[1][vector] = (vw){0} + (item >> 32);
        x.word[2][vector] = (vw){PHILOX_NUMBERS} + (block + vector * VF / 2);
    }
    philox_draw(bits, &x, stream);
}

static void dropout_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct rows_call *call = context;
    const float kept_scale = 1 / (1 - call->rate);
    for (uint32_t b = piece * PIECE_ROWS; b < piece_end(piece, call->to.rows); b++) {
        float *to = row_of(call->to, b);
        const float *from = row_of(call->from, b);
        for (uint32_t begin = 0; begin < call->to.cols; begin += DRAW_COLS) {
            vu bits[2 * PHILOX_VECTORS];
            draw(bits, call->stream, call->item + b, begin / 4);
            for (uint32_t vector = 0, i = begin; vector < 2 * PHILOX_VECTORS && i < call->to.cols; vector++, i += VF) {
                const size_t left = call->to.cols - i;
                const vf unit = (__builtin_convertvector((vi)(bits[vector] >> 9), vf) + 0.5f) * 0x1p-23f;
                vf kept = (vf)((vi)(vf_load_upto(from + i, left) * kept_scale) & (unit >= call->rate));
                if (call->adds) kept = vf_load_upto(to + i, left) + kept;
                vf_store_upto(to + i, kept, left);
            }
        }
    }
}

static void dropout_run(const struct cpu_work *work, const struct op_context *c, const struct graph_node *n,
                        struct rows_call *call)
{
    struct dropout_attr attr;
    memcpy(&attr, n->attr, sizeof attr);
    call->rate = attr.rate;
    call->stream = random_stream(c->seed, RANDOM_DROPOUT, (uint64_t)(n - c->graph->nodes));
    call->item = c->batch->step << 32 | c->example_begin;
    rows_run(work, attr.rate > 0 ? dropout_piece : activation_piece, call, call->to.rows); /* at rate 0 all are kept */
}

void KERNEL(dropout_forward_f32)(const struct cpu_work *work, const struct op_context *c, const struct graph_node *n)
{
    struct rows_call call = {.to = op_out(c, n), .from = op_in(c, n, 0), .activation = ACT_NONE};
    if (c->training)
        dropout_run(work, c, n, &call);
    else
        rows_run(work, activation_piece, &call, call.to.rows);
}

void KERNEL(dropout_backward_f32)(const struct cpu_work *work, const struct op_context *c, const struct graph_node *n)
{
    struct rows_call call = {.to = op_din(c, n, 0),
                             .from = op_dout(c, n),
                             .out = op_dout(c, n),
                             .is_backward = true,
                             .activation = ACT_NONE};
    if (call.to.data == NULL) return;
    call.adds = op_din_adds(c, n, 0);
    if (c->training)
        dropout_run(work, c, n, &call);
    else
        rows_run(work, activation_piece, &call, call.to.rows);
}

/* --- busy ------------------------------------------------------------------------------------- */

/* At 1,000 rounds a piece takes some 10 us: short against a stage's work, long against its handing out. */
#define BUSY_ROWS 4u

static void busy_piece(void *context, uint32_t piece, void *scratch)
{
    (void)scratch;
    const struct rows_call *call = context;
    uint32_t begin = piece * BUSY_ROWS, rows = call->from.rows;
    uint32_t end = begin + BUSY_ROWS < rows ? begin + BUSY_ROWS : rows;
    struct busy_attr attr;
    memcpy(&attr, call->n->attr, sizeof attr);
    for (uint32_t b = begin; b < end; b++) {
        const float *from = row_of(call->from, b);
        float *to = call->to.data != NULL ? row_of(call->to, b) : NULL;
        if (to != NULL && call->is_backward)
            busy_row_backward(to, call->to.cols, from, call->from.cols, call->adds);
        else if (to != NULL)
            busy_row_forward(to, call->to.cols, from, call->from.cols);
        busy_spend(attr.rounds);
    }
}

static void busy_run(const struct cpu_work *work, struct rows_call *call)
{
    team_run(work->team, busy_piece, call, (call->from.rows + BUSY_ROWS - 1) / BUSY_ROWS);
}

void KERNEL(busy_forward_f32)(const struct cpu_work *work, const struct op_context *c, const struct graph_node *n)
{
    struct rows_call call = {.n = n, .to = op_out(c, n), .from = op_in(c, n, 0)};
    busy_run(work, &call);
}

void KERNEL(busy_backward_f32)(const struct cpu_work *work, const struct op_context *c, const struct graph_node *n)
{
    struct rows_call call = {
        .n = n, .to = op_din(c, n, 0), .from = op_dout(c, n), .is_backward = true, .adds = op_din_adds(c, n, 0)};
    busy_run(work, &call);
}

/* Which examples of a micro-batch go to which experts, and the memory that the experts compute in: it lies in
 * the tensor that the op saves, and serves the reference (op_experts.c) and kernels.
 *
 *     choice b * top + j    the j-th expert of example b, its gate, and its row, or NONE: the expert was full
 *     rows                  by expert, then in the order of choices: all first ones, all second ones, … */
#ifndef HETERPS_GRAPH_EXPERTS_FRAME_H
#define HETERPS_GRAPH_EXPERTS_FRAME_H

#include "engine/base/memory.h"
#include "graph/op.h"

#define EXPERTS_MAX     1024u
#define EXPERTS_TOP_MAX 64u
enum { EXPERTS_X, EXPERTS_GATE, EXPERTS_INPUTS };

struct experts_frame {
    uint32_t *expert;      /* [B, top] */
    uint32_t *row;         /* [B, top] */
    float *gate, *dgate;   /* [B, top]: factor of an expert's output, and its gradient */
    float *p;              /* [B, E]: softmax over all experts */
    float *load;           /* [E]: share of all choices */
    uint32_t *begin;       /* [E + 1]: an expert's first row */
    uint32_t *from;        /* [rows]: a row's choice */
    float *in;             /* [rows, K]: examples; in the end their gradients */
    float *hidden, *out;   /* [rows, H], [rows, N]: after the activation */
    float *dhidden, *dout; /* their gradients before it */
};

/* One of an expert's products, and where its rows lie. */
struct experts_layer {
    uint32_t param; /* its weights [E * in_cols, out_cols]; after them its biases [E, out_cols] */
    uint32_t in_cols, out_cols;
    enum activation activation;
    float *in, *out, *dout;
};

struct experts_run {
    const struct op_context *c;
    const struct graph_node *n;
    struct experts_attr attr;
    uint32_t B, E, K;
    struct experts_frame frame;
    struct experts_layer layer[2];
    uint32_t layer_count;
};

/* Memory for `examples` examples, K inputs and E experts. */
void experts_frame_layout(struct experts_frame *f, struct layout *l, const struct experts_attr *attr, uint32_t examples,
                          uint32_t K, uint32_t E);
void experts_begin(struct experts_run *run, const struct op_context *c, const struct graph_node *n);
/* Forward, in this order: the experts and gates of each example, then the rows of each choice. */
void experts_choose(const struct experts_run *run, uint32_t b);
void experts_queue(const struct experts_run *run);
/* The most rows that an expert may have in this pass. */
uint32_t experts_capacity(const struct experts_run *run);
/* Backward, once frame.dgate of the example is known: the gradient of its logits, if it is wanted. */
void experts_logits_backward(const struct experts_run *run, uint32_t b);

/* An expert's weights: the rows of the parameter that are its own. */
static inline struct view experts_part(struct view of, uint32_t expert, uint32_t rows)
{
    if (of.data) of.data += (size_t)expert * rows * of.stride;
    of.rows = rows;
    return of;
}

#endif

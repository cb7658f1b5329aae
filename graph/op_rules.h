/* The functions behind the lines of ops.def, as op_table.c expects them of every op_<id>.c, and what several of
 * those files share. */
#ifndef HETERPS_GRAPH_OP_RULES_H
#define HETERPS_GRAPH_OP_RULES_H

#include "graph/op.h"

#define OP(id, ...)                                                                                                    \
    extern const struct op_keys op_##id##_keys;                                                                        \
    status op_##id##_parse(const struct op_parse *p);                                                                  \
    status op_##id##_shape(struct op_shape *s, const struct graph_table *tables, uint32_t table_count);                \
    void op_##id##_forward(const struct op_context *c, const struct graph_node *n);                                    \
    void op_##id##_backward(const struct op_context *c, const struct graph_node *n);
#include "graph/ops.def"
#undef OP

/* An op_keys from a table of keys and the struct that they fill. */
#define OP_KEYS(table, type)                                                                                           \
    {                                                                                                                  \
        table, sizeof(table) / sizeof *(table), sizeof(type)                                                           \
    }

/* An elementwise op: as many columns out as in, `flops` operations an element in each pass. */
status elementwise_shape(struct op_shape *s, uint32_t flops);
void elementwise_forward(const struct op_context *c, const struct graph_node *n, enum activation a, float slope);
void elementwise_backward(const struct op_context *c, const struct graph_node *n, enum activation a, float slope);

/* An op on several inputs, element by element: inputs as wide as each other, which is the output's width, or of one column,
 * which stands for as many columns. `flops` operations an input and element in each pass. */
status broadcast_shape(struct op_shape *s, uint32_t flops);

/* A row of a view. */
static inline float *view_row(struct view v, uint32_t row) { return v.data + (size_t)row * v.stride; }
/* Element i of a row of an input that may be of one column. */
static inline float broadcast_at(struct view v, uint32_t row, uint32_t i)
{
    return view_row(v, row)[v.cols == 1 ? 0 : i];
}
/* Writes or adds. */
static inline void grad_put(float *grad, float value, bool adds) { *grad = adds ? *grad + value : value; }

#endif

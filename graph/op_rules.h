/* The functions behind the lines of ops.def, as op_table.c expects them of every op_<id>.c, and functions
 * that several of these files share. */
#ifndef HETERPS_GRAPH_OP_RULES_H
#define HETERPS_GRAPH_OP_RULES_H

#include "graph/op.h"

#define OP(id, ...)                                                                                                    \
    extern const struct op_keys op_##id##_keys;                                                                        \
    status op_##id##_parse(const struct op_parse *p);                                                                  \
    status op_##id##_shape(struct op_shape *s, const struct graph_table *tables, uint32_t table_count);                \
    void op_##id##_forward(const struct op_context *c, const struct graph_node *n);                                    \
    void op_##id##_backward(const struct op_context *c, const struct graph_node *n);                                   \
    void op_##id##_words(const uint8_t *attr, char *text, size_t bytes); /* only of lines that name it */
#include "graph/ops.def"
#undef OP
const char *op_fc_backward_words(const uint8_t *attr);

/* An op_keys from a table of keys and the struct that they fill. */
#define OP_KEYS(table, type)                                                                                           \
    {                                                                                                                  \
        table, sizeof(table) / sizeof *(table), sizeof(type)                                                           \
    }

/* An elementwise op: the output has as many columns as the input;
 * `flops` operations an element in each pass. */
MUST_USE status elementwise_shape(struct op_shape *s, uint32_t flops);
void elementwise_forward(const struct op_context *c, const struct graph_node *n, enum activation a, float slope);
void elementwise_backward(const struct op_context *c, const struct graph_node *n, enum activation a, float slope);

/* An op on several inputs, element by element. Every input is as wide as the output, or has one column, which
 * serves for every column. `flops` operations an input and element in each pass. */
MUST_USE status broadcast_shape(struct op_shape *s, uint32_t flops);

/* --- matches (op_match.c) ----------------------------------------------------------------------- */

#define MATCH_SCALE_MIN 1e-6
#define MATCH_SCALE_MAX 1e6
#define MATCH_EPS_MIN   1e-30
#define MATCH_EPS_MAX   1
struct match_similarity_keys {
    uint32_t similarity;
    float scale, eps;
};
/* INVALID unless a parse rule could have written similarity, scale and eps. */
MUST_USE status match_attr_check(const struct match_attr *attr);

/* --- losses (op_loss.c) -------------------------------------------------------------------------- */

struct loss_keys {
    float weight, margin;
    bool correction;
    float log_z;
};
/* The first line of every loss's keys. */
#define LOSS_WEIGHT_KEY                                                                                                \
    {                                                                                                                  \
        .name = "weight", .type = CFG_F32, .fallback = "1", .max = 1e6, .unit = "",                                    \
        .meaning = "factor of this loss in the sum that is trained on", .offset = offsetof(struct loss_keys, weight)   \
    }
/* The parse function of every loss: fills a loss_attr. */
MUST_USE status loss_parse(const struct op_parse *p);
struct loss_attr loss_attr_of(const uint8_t *attr);
/* Checks a prediction of `cols` columns (0: any number) and a label of one. */
MUST_USE status loss_label_shape(struct op_shape *s, uint32_t cols);
/* Checks logits of a target and of K candidates, and the log_q of each. */
MUST_USE status loss_candidates_shape(struct op_shape *s);
/* INVALID unless loss_parse could have written attr. */
MUST_USE status loss_attr_check(const uint8_t *attr);
/* The factor of an example's loss: the head's weight times the example's. */
float loss_scale(const struct op_context *c, const struct graph_node *n, uint32_t b);
/* The class that a label names, a whole number below `classes`; GRAPH_NONE: it names none. */
static inline uint32_t label_class(float label, uint32_t classes)
{
    if (!(label >= 0 && label < (float)classes)) return GRAPH_NONE;
    uint32_t class = (uint32_t)label;
    return (float)class == label ? class : GRAPH_NONE;
}
/* Whether column j of a row of log probabilities is an accidental hit: the reader drew the target itself. The
 * reader marks a hit by a positive number there; it counts as absent. */
static inline bool log_q_is_hit(const float *log_q, uint32_t j) { return j > 0 && log_q[j] > 0; }

/* --- metrics (metric.c) ----------------------------------------------------------------------- */

struct metric_keys {
    uint32_t k;
};
#define METRIC_K_KEY                                                                                                   \
    {                                                                                                                  \
        .name = "k", .type = CFG_U32, .fallback = "10", .min = 1, .max = OP_COLS_MAX, .unit = "",                      \
        .meaning = "a target of rank 0 to k - 1 counts", .offset = offsetof(struct metric_keys, k)                     \
    }
MUST_USE status metric_parse(const struct op_parse *p);
/* cols_min: the fewest columns of scores; with 1, a score may stand alone, or two against each other. */
MUST_USE status metric_shape(struct op_shape *s, uint32_t cols_min);
/* Fills the output with `value` of two counts: scores above the target's, and others equal to it. */
void metric_forward(const struct op_context *c, const struct graph_node *n,
                    float (*value)(const struct metric_attr *attr, uint32_t above, uint32_t equal));

/* A row of a view. */
static inline float *view_row(struct view v, uint32_t row) { return v.data + (size_t)row * v.stride; }
/* Element i of a row of an input, which may have one column for all. */
static inline float broadcast_at(struct view v, uint32_t row, uint32_t i)
{
    return view_row(v, row)[v.cols == 1 ? 0 : i];
}
/* Writes the value, or adds it. */
static inline void grad_put(float *grad, float value, bool adds) { *grad = adds ? *grad + value : value; }

#endif

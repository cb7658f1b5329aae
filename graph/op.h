/* An op is one line in ops.def, its attributes here, and one file op_<id>.c with its keys, shape rule, plain
 * reference kernels, cost and words. Devices bring faster kernels, cut into pieces:
 * engine/device/cpu/cpu_ops.def, gpu/card_ops.def. engine/eval/heads.c knows all
 * heads. All places: graph/README.md.
 *
 * A kernel sees a context (one slot: its tensors, input, ticket) and a node. In the backward pass, too, this
 * is the forward node; the d-accessors give the gradient of any of its tensors:
 *
 *      in(i) ──▶ forward ──▶ out(i)            din(i) ◀── backward ◀── dout(i)
 *      param(i) ─┘    └─▶ saved(i)             dparam(i) += …              table_grad += … */
#ifndef HETERPS_GRAPH_OP_H
#define HETERPS_GRAPH_OP_H

#include <stdio.h>
#include <string.h>

#include "cfg/key.h"
#include "engine/base/random.h"
#include "graph/graph.h"

/* Where a tensor lies: [rows, cols], stride floats between rows. data == NULL: the tensor is absent. */
struct view {
    float *data;
    uint32_t rows, cols, stride;
};

struct op_context {
    const struct graph *graph;
    struct view *tensor; /* [tensor_count]; batch tensors have rows == batch->example_count   */
    const struct micro_batch *batch;
    const struct ticket *ticket;
    float *const *table_grad; /* [lookup_count]: the step's sums of each lookup, [lane row, dim]; NULL in evaluation */
    uint64_t seed;
    uint32_t example_begin; /* of the micro-batch within its step                              */
    uint32_t slot, input;   /* numbers of the memory of activations and of the batch: for devices that copy them */
    bool training;          /* dropout drops; batch_norm uses the micro-batch's statistics; data_norm gathers its own */
};

enum op_traits {
    OP_LOOKS_UP = 1,  /* reads rows through the ticket                                               */
    OP_READS_IN = 2,  /* its backward pass reads its inputs' values: they stay in memory until then      */
    OP_READS_OUT = 4, /* its backward pass reads its output's values                                     */
    OP_IS_LOSS = 8,   /* a head: its output, [B, 1], is an example's loss times the head's weight and the example's */
    /* a head without a backward pass: its output, [B, 1], is an example's value, averaged in evaluation */
    OP_IS_METRIC = 16,
    /* an example's numbers do not depend on the other examples of its micro-batch; where a micro-batch has
     * several lanes, it adds to gradients lane by lane (graph_lanes_join) */
    OP_JOINS_LANES = 32,
    OP_READS_KEYS = 64,     /* reads the keys of its field, and their log_q; not only how many there are  */
    OP_READS_WEIGHTS = 128, /* reads the weights of examples, as every loss does                          */
};
enum op_inputs {
    OP_INPUTS_ONE,
    OP_INPUTS_MANY,
    OP_INPUTS_FIELDS,
    OP_INPUTS_PAIR,
    OP_INPUTS_PAIR_FIELD, /* two tensors, and a sparse field                                   */
    OP_INPUTS_TREE,       /* the sparse field of trees, and perhaps a tensor, the vectors of their words */
    OP_INPUTS_CANDIDATES, /* logits, then columns of the data: the log_q of [candidates]            */
    OP_INPUTS_LOSS,       /* a prediction, then the label                                      */
    OP_INPUTS_SCORES,     /* one or two tensors, and no label; or one, and the label (metric_attr) */
    OP_INPUTS_NODES       /* scores of a tree's nodes, the sparse field of trees, then the label, the root's */
};

/* Whether input k is a sparse field. */
static inline bool op_input_is_field(enum op_inputs inputs, uint32_t k)
{
    return inputs == OP_INPUTS_FIELDS || (inputs == OP_INPUTS_PAIR_FIELD && k == 2) ||
           (inputs == OP_INPUTS_TREE && k == 0) || (inputs == OP_INPUTS_NODES && k == 1);
}

/* The elementwise functions that fc can end with. */
enum activation { ACT_NONE, ACT_RELU, ACT_LEAKY_RELU, ACT_SIGMOID, ACT_TANH, ACT_SOFTSIGN, ACT_COUNT };
extern const char *const activation_names[ACT_COUNT + 1]; /* "none", "relu", …, NULL */
float activation_apply(enum activation a, float slope, float x);
/* d out / d x, from the output. */
float activation_slope(enum activation a, float slope, float out);

/* The prediction of a loss for an example, from row x of its first input; the labels that it takes follow. */
enum op_predicts {
    OP_PREDICTS_SCORE,       /* x[0]; the label is any number, or there is none                        */
    OP_PREDICTS_PROBABILITY, /* sigmoid(x[0]), of label 1; the label is 0 to 1                         */
    OP_PREDICTS_CLASSES,     /* softmax(x), of two classes only that of class 1; the label is a class's number */
};

/* Attributes, as in graph_node.attr. */
enum pool { POOL_SUM, POOL_MEAN, POOL_MAX, POOL_NONE, POOL_COUNT };
extern const char *const pool_names[POOL_COUNT + 1]; /* "sum", "mean", …, NULL */
struct embed_bag_attr {
    uint32_t table;
    uint32_t pool; /* max saves the winning occurrences, [B, fields * dim] u32 key positions (ROW_NONE: no key) */
    uint32_t dim;
    /* set by the compiler: number among the nodes that look up a table. Two lookups of one table may lie in
     * different stages, so each has sums of its own. */
    uint32_t lookup;
};
struct concat_attr {
    uint32_t groups; /* equal parts of each input; the output has the first part of all, then the second, … */
};
/* Glorot's uniform, whose width follows from the shape. */
#define FC_INIT_GLOROT ((uint8_t)INIT_COUNT)
struct fc_attr {
    uint32_t units;
    float slope; /* of leaky ReLU                                                           */
    float input_slope;
    float init_scale;
    uint8_t init; /* of the weight: enum random_init with init_scale, or FC_INIT_GLOROT       */
    uint8_t has_bias;
    uint8_t activation;       /* enum activation, of this op's output                                    */
    uint8_t dout_is_dz;       /* fusion: the consumer has already multiplied dout by the activation's slope */
    uint8_t input_activation; /* fusion: multiply din by this slope at the input                          */
    uint8_t precision;        /* PRECISION_F32, … (cfg/settings.h), of the factors of its products */
    uint8_t reserved[2];
    uint32_t groups; /* runs of equally many inputs; each goes through the same weights to `units` outputs */
};
enum match_similarity { MATCH_DOT, MATCH_COSINE };
struct match_attr {
    uint32_t similarity;
    uint32_t has_bias; /* 0 or 1; of dot */
    float scale, eps;
};
struct fm_attr {
    uint32_t dim;
    uint32_t is_reduced; /* 0 or 1 */
};
struct interact_attr {
    uint32_t dim;
    uint32_t has_self; /* 0 or 1 */
};
/* The output of pair (i, j), i > j or with self i >= j. */
static inline uint32_t interact_pair(struct interact_attr attr, uint32_t i, uint32_t j)
{
    return (uint32_t)((uint64_t)i * (i + 2 * attr.has_self - 1) / 2) + j;
}
struct attention_pool_attr {
    uint32_t is_softmax; /* 0 or 1 */
};
struct leaky_relu_attr {
    float slope;
};
struct dropout_attr {
    float rate;
};
struct batch_norm_attr {
    float eps, momentum;
};
/* The parameters of batch_norm, in this order; the op saves the mean and the variance of its forward pass. */
enum { BATCH_NORM_WEIGHT, BATCH_NORM_BIAS, BATCH_NORM_MEAN, BATCH_NORM_VARIANCE, BATCH_NORM_PARAMS };
struct data_norm_attr {
    float eps, decay;
};
/* The parameters of data_norm, in this order. */
enum { DATA_NORM_SIZE, DATA_NORM_SUM, DATA_NORM_SQUARE_SUM, DATA_NORM_PARAMS };
struct softmax_attr {
    uint32_t groups;
};
/* Which nodes of a micro-batch are computed together (sched/trees/batching.def);
 * results do not depend on it. */
enum tree_batching { TREE_BY_HEIGHT, TREE_AGENDA, TREE_PER_NODE, TREE_LEARNED, TREE_BATCHINGS };
struct tree_attr {
    uint32_t units, state_count; /* a state's numbers; states that parents see          */
    uint32_t dim;                /* of a word's vector                                  */
    uint32_t gives;              /* 0: the root's first state, 1: that of all nodes     */
    uint32_t batching;           /* enum tree_batching                                  */
    uint32_t automaton_words;    /* of learned batching (graph/automaton.h); they follow the cells of the program */
};
/* Words of a tree's program that are its cells. */
static inline uint32_t tree_cell_words(const struct graph_node *n)
{
    struct tree_attr attr;
    memcpy(&attr, n->attr, sizeof attr);
    return n->program_count - attr.automaton_words;
}
/* E, the number of experts, is the number of the gate's columns. */
struct experts_attr {
    uint32_t units, hidden; /* of an expert; hidden 0: it has one layer                 */
    uint32_t activation;    /* enum activation: of the hidden layer, or of the only one */
    uint32_t top;           /* experts of an example                                    */
    float capacity;         /* of an expert's equal share of a micro-batch; 0: any      */
    float balance;          /* factor of the load loss                                  */
};
struct slice_attr {
    uint32_t begin, end; /* columns; end 0: after the last */
};
/* The columns that a slice of an input of `cols` takes. */
static inline uint32_t slice_end(struct slice_attr attr, uint32_t cols) { return attr.end == 0 ? cols : attr.end; }
struct reshape_attr {
    uint32_t rows, is_transposed;
};
struct sum_pool_attr {
    uint32_t dim, rows;
};
/* Attributes of every loss; each reads its own. */
struct loss_attr {
    float weight;      /* factor of the head                                                          */
    float margin;      /* hinge                                                                       */
    float log_z;       /* nce: logarithm of the normalising constant                                 */
    uint32_t corrects; /* nce: subtracts log(K q) from a logit                                        */
};
/* Losses over many columns save [B, LOSS_SAVED_COLS]: an example's unweighted loss, the greatest logit, and
 * the sum of exp(logit - greatest). nce saves the first alone. */
enum { LOSS_SAVED_LOSS, LOSS_SAVED_GREATEST, LOSS_SAVED_SUM, LOSS_SAVED_COLS };
/* shared_softmax: a loss, and the match whose similarities it is over. */
struct shared_softmax_attr {
    struct loss_attr loss;
    struct match_attr match; /* without bias */
};
struct metric_attr {
    uint32_t k;         /* hit_rate, ndcg: ranks below it count                                          */
    uint32_t has_label; /* the second input is the label                                                 */
};
struct busy_attr {
    uint32_t rounds;
    uint32_t units; /* outputs; 0: as many as inputs */
};
/* The work of busy for one example, and for one row in each pass. */
void busy_spend(uint32_t rounds);
void busy_row_forward(float *out, uint32_t out_cols, const float *in, uint32_t in_cols);
void busy_row_backward(float *din, uint32_t in_cols, const float *dout, uint32_t out_cols, bool adds);
_Static_assert(sizeof(struct fc_attr) <= NODE_ATTR_BYTES && sizeof(struct shared_softmax_attr) <= NODE_ATTR_BYTES,
               "the longest of them");

/* No tensor is wider, and no parameter has more numbers. So no size or cost that is computed
 * from a graph overflows 64 bits. */
#define OP_COLS_MAX    (1u << 24)
#define OP_PRODUCT_MAX ((uint64_t)1 << 36)

/* A call of a shape rule: input shapes are given; the rule sets outputs, parameters, saved tensors. */
#define OP_PARAMS_MAX 32
/* A parameter's first value, besides those of enum random_init: init_scale, everywhere. */
#define TENSOR_INIT_CONSTANT ((uint8_t)INIT_COUNT)
#define OP_SAVED_MAX         2
struct op_shape {
    /* given */
    const uint8_t *attr;
    uint32_t input_count;
    const uint32_t *input_cols; /* [input_count]; 0 for fields                                           */
    const uint32_t *input_keys; /* [input_count]: ids_max of fields, 0 for others                        */
    const uint32_t *program;    /* [program_count]: as the node's                                          */
    uint32_t program_count;
    uint32_t rules; /* of the graph (cfg/rules.h): an older graph may have what newer rules refuse */
    /* set by the rule */
    uint32_t output_cols;
    struct {
        const char *name; /* suffix: "weight", "bias"                                                    */
        uint32_t rows, cols;
        uint8_t init; /* as graph_tensor.init                                                            */
        float init_scale;
        /* A statistic has no gradient: the backward pass adds sums over examples to its dparam, and `rule`,
         * an internal one (graph/optimizer.h), makes its next value from these sums. */
        bool is_statistic;
        struct graph_optimizer rule;
    } param[OP_PARAMS_MAX];
    uint32_t param_count;
    char text[OP_PARAMS_MAX][24]; /* for names that the rule makes up */
    struct {
        const char *name;
        uint32_t cols;
        enum tensor_type type;
        bool is_single; /* one row a micro-batch, not an example                                         */
    } saved[OP_SAVED_MAX];
    uint32_t saved_count;
    /* cost of an example */
    uint64_t flops_forward, flops_backward;
};

/* Measures one input for a shape rule. `fields`: the graph's or the compiler's; the
 * tensor of a field names one of them. */
static inline void op_input_measure(const struct graph_tensor *t, const struct graph_field *fields, uint32_t *cols,
                                    uint32_t *keys)
{
    bool is_field = t->kind == TENSOR_FIELD;
    *cols = is_field ? 0 : t->cols;
    *keys = is_field ? fields[t->cols].ids_max : 0;
}

/* A call of an op's parse rule: its section's keys are read already, into `keys` (the op's key struct). */
struct op_parse {
    const struct ini *ini;
    const struct ini_section *section;
    const void *keys;
    uint8_t *attr;     /* out: zeroed                                                                        */
    const char *label; /* as the section names it; "": the section names none                           */
    /* finds a [table NAME]; GRAPH_NONE if there is none */
    uint32_t (*table_find)(const struct op_parse *, const char *name);
    uint32_t (*table_dim)(const struct op_parse *, uint32_t table);
    /* Compiles the [cell NAME] of every kind of nodes into the node's program. `states`: names, separated by
     * commas; fills *state_count with their number. */
    status (*cells_add)(const struct op_parse *, const char *states, uint32_t *state_count);
    /* Puts an automaton that is learned from the data (graph_source) after
     * the cells; *word_count: its words. */
    status (*automaton_add)(const struct op_parse *, uint32_t *word_count);
    void *compiler;
};

/* The keys of an op's section besides those that every op has; at most OP_KEYS_MAX. */
#define OP_KEYS_MAX 16
struct op_keys {
    const struct cfg_key *items; /* [count]; offsets are into the op's key struct                        */
    uint32_t count;
    uint32_t bytes; /* of the key struct                                                    */
};

struct op {
    const char *name, *section, *kind, *source; /* kind: "" for the only op of its section                        */
    enum op_inputs inputs;
    uint32_t traits;
    const struct op_keys *keys;
    status (*parse)(const struct op_parse *);
    /* INVALID, with a sentence without place: attributes or input shapes are impossible. Also runs on every
     * loaded graph, so it trusts nothing in attr. `tables`: the graph's. */
    status (*shape)(struct op_shape *, const struct graph_table *tables, uint32_t table_count);
    /* Reference kernels: plain, whole, one thread. forward writes out and saved; backward writes din (where
     * wanted; adds where din_adds) and adds to dparam and table_grad. */
    void (*forward)(const struct op_context *, const struct graph_node *);
    void (*backward)(const struct op_context *, const struct graph_node *);
    /* Of some ops; these follow the others in the op's line: */
    enum activation activation; /* elementwise: the function; its gradient follows from its output */
    enum op_predicts predicts;  /* a loss                                                        */
    /* Words for people about a node's attributes, after the section's name: ", dim 8". NULL: none. */
    void (*words)(const uint8_t *attr, char *text, size_t bytes);
    /* Words about work that the backward pass took over from neighbouring nodes. NULL: it never does. */
    const char *(*backward_words)(const uint8_t *attr);
};
extern const struct op op_table[OP_ID_COUNT];

/* Most keys that an example has in the field that is input i of the node. */
static inline uint32_t op_keys_max(const struct graph *g, const struct graph_node *n, uint32_t i)
{
    return g->fields[g->tensors[g->args[n->arg_begin + i]].cols].ids_max;
}
static inline uint32_t op_arg(const struct op_context *c, const struct graph_node *n, uint32_t i)
{
    return c->graph->args[n->arg_begin + i];
}
static inline struct view op_in(const struct op_context *c, const struct graph_node *n, uint32_t i)
{
    return c->tensor[op_arg(c, n, i)];
}
static inline struct view op_param(const struct op_context *c, const struct graph_node *n, uint32_t i)
{
    return c->tensor[op_arg(c, n, n->input_count + i)];
}
static inline struct view op_out(const struct op_context *c, const struct graph_node *n)
{
    return c->tensor[op_arg(c, n, n->input_count + n->param_count)];
}
static inline struct view op_saved(const struct op_context *c, const struct graph_node *n, uint32_t i)
{
    return c->tensor[op_arg(c, n, n->input_count + n->param_count + n->output_count + i)];
}
/* The gradient of tensor t; data == NULL if no node needs it. */
static inline struct view op_grad(const struct op_context *c, uint32_t tensor)
{
    uint32_t grad = c->graph->tensors[tensor].grad;
    return grad == GRAPH_NONE ? (struct view){0} : c->tensor[grad];
}
static inline struct view op_din(const struct op_context *c, const struct graph_node *n, uint32_t i)
{
    return op_grad(c, op_arg(c, n, i));
}
static inline struct view op_dparam(const struct op_context *c, const struct graph_node *n, uint32_t i)
{
    return op_grad(c, op_arg(c, n, n->input_count + i));
}
static inline struct view op_dout(const struct op_context *c, const struct graph_node *n)
{
    return op_grad(c, op_arg(c, n, n->input_count + n->param_count));
}
/* --- heads: the losses and the metrics ---------------------------------------------------------- */

/* The first op of an op's section. A section's ops need not be neighbours: new ops come last. */
uint32_t op_section_first(uint32_t op);
static inline bool op_is_head(uint32_t op) { return (op_table[op].traits & (OP_IS_LOSS | OP_IS_METRIC)) != 0; }
/* The first head among the forward nodes from `node` on; forward_count: there is none. Tensors that a head
 * reads and writes stay in the slot until the end of the forward pass. */
static inline uint32_t graph_head_next(const struct graph *g, uint32_t node)
{
    while (node < g->forward_count && !op_is_head(g->nodes[node].op)) node++;
    return node;
}
static inline uint32_t graph_loss_next(const struct graph *g, uint32_t node)
{
    while (node < g->forward_count && !(op_table[g->nodes[node].op].traits & OP_IS_LOSS)) node++;
    return node;
}
/* The match whose output a head over drawn candidates reads, or the head itself if it matches: evaluation
 * ranks all words by the match (engine/eval/rank.h), so its inputs stay in the slot, too. GRAPH_NONE: the
 * node is no head, or reads something else. */
uint32_t graph_match_of(const struct graph *g, uint32_t head);
/* How this match, which is not NONE, compares its first input with the vectors of its second. */
struct match_attr graph_match_attr(const struct graph *g, uint32_t match);
/* The field of candidates that a head with a match is over; GRAPH_NONE: its candidates are other columns. */
uint32_t graph_candidates_of(const struct graph *g, uint32_t head);
/* The input of a forward node that is a label; GRAPH_NONE: none. */
uint32_t op_label_input(const struct graph_node *n);
/* How many columns of a loss's first input, from the first on, are an example's prediction: all, or those of
 * a tree's root if the others are of its other nodes. */
uint32_t op_predict_cols(const struct graph *g, const struct graph_node *loss);
/* The labels that a head takes: any number, or 0 to `max`, or only the whole
 * numbers 0 to `max`, the classes. */
struct label_range {
    float max; /* 0: any */
    bool is_class;
    bool is_of_nodes; /* numbers of a tree's other nodes, too */
};
/* The labels that all heads that read label `label` take. */
struct label_range graph_label_range(const struct graph *g, uint32_t label);
/* INVALID: the head does not take a label, so the loss would be NaN; "WHERE example_begin + b: label …".
 * Readers refuse such numbers; but a vocabulary may have more words than there are classes. */
MUST_USE status op_labels_check(const struct op_context *c, const struct graph_node *n, const char *where,
                                uint64_t example_begin);
/* The weight of an example of the micro-batch. */
static inline float batch_weight(const struct micro_batch *m, uint32_t b) { return m->weight ? m->weight[b] : 1; }

/* Whether input i's gradient is added to the gradient that is there already. No backward pass: false. */
static inline bool op_din_adds(const struct op_context *c, const struct graph_node *n, uint32_t i)
{
    return n->other != GRAPH_NONE && c->graph->args[c->graph->nodes[n->other].arg_begin + i] != 0;
}

/* An example's keys in shared_softmax: the key of its target, and the keys of the words drawn for it. */
struct shared_keys {
    const uint64_t *key;
    uint32_t count, owner;
    const float *log_q; /* [count], or more; NULL: the field has no drawn candidates */
};
static inline struct shared_keys shared_keys_of(const struct op_context *c, const struct graph_node *n, uint32_t b)
{
    const struct graph *g = c->graph;
    const uint32_t field = g->tensors[op_arg(c, n, 2)].cols, home = b * g->field_count + field;
    const uint32_t begin = c->batch->key_begin[home];
    const float *numbers = c->batch->dense + (size_t)b * g->header->dense_stride;
    return (struct shared_keys){.key = c->batch->key + begin,
                                .count = c->batch->key_begin[home + 1] - begin,
                                .owner = b,
                                .log_q = g->fields[field].negative_count ? numbers + g->fields[field].log_q : NULL};
}
/* Whether key j > 0 counts as a candidate; not for an example whose target it is (shared_keys_hit). */
static inline bool shared_keys_count(const struct shared_keys *of, uint32_t j)
{
    return j < of->count && !(of->log_q && of->log_q[j] > 0);
}
static inline bool shared_keys_hit(const struct shared_keys *own, const struct shared_keys *of, uint32_t j)
{
    return own->count > 0 && own->key[0] == of->key[j];
}

/* Keys that example b has in the field of an attention_pool; at most as many as there are scores. */
static inline uint32_t attention_key_count(const struct op_context *c, const struct graph_node *n, uint32_t b)
{
    uint32_t home = b * c->graph->field_count + c->graph->tensors[op_arg(c, n, 2)].cols, most = op_in(c, n, 0).cols;
    uint32_t count = c->batch->key_begin[home + 1] - c->batch->key_begin[home];
    CHECK(count <= most);
    return count;
}

#endif

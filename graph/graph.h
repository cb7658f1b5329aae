/* The compiled graph. Memory and file have the same form: a header, then fixed-size little-endian records in
 * 64-byte aligned sections. So a file is read whole, validated once and used in place.
 *
 *   header | text | strings | tensors | args | nodes | layers | fields | denses | labels | tables |
 *   optimizers | updates | vocabularies | words
 *
 * Data flows one way: nodes are in the order of execution, first all forward nodes, then all backward nodes;
 * updates follow once a step. Records refer to each other by index, to names by byte offset into `strings`.
 *
 *   kind          memory                           shape           offset
 *   FIELD         keys in the slot's micro_batch   -               -                    a sparse input column
 *   DENSE, LABEL  the slot's micro_batch           [B, cols]       floats / example     columns of numbers, of labels
 *   ACTIVATION    the slot's arena                 [B, cols]       bytes / micro-batch  also gradients; kept by ops
 *                                                  or [1, cols]                         of the micro-batch as a whole
 *   PARAM         the run's parameters             [rows, cols]    floats
 *   PARAM_GRAD    a lane's gradients               as its PARAM    floats, as its PARAM; an alias's after all of these
 *
 * A PARAM is an alias if its node uses the parameter of an earlier node. It has the same numbers and a
 * gradient of its own, because the two nodes may lie in stages that run at the same time. The update adds the
 * alias's gradient to the owner's, in the order of nodes. */
#ifndef HETERPS_GRAPH_GRAPH_H
#define HETERPS_GRAPH_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/batch.h"
#include "cfg/rules.h"
#include "engine/base/row_life.h"
#include "engine/base/status.h"

#define GRAPH_MAGIC "HPSGRAPH"
/* The magic of a graph file that also holds a model after the graph (engine/model/lean.h). */
#define GRAPH_MODEL_MAGIC "HPSMODEL"
#define GRAPH_VERSION     ((uint32_t)RULES_NEWEST)
#define GRAPH_VERSION_OLDEST                                                                                           \
    ((uint32_t)RULES_OLDEST) /* that is read: its records are the same, its rules are its own */
#define GRAPH_NONE              UINT32_MAX
#define GRAPH_COUNT_MAX         (1u << 24) /* records of a kind */
#define GRAPH_STRINGS_BYTES_MAX (1u << 30)
#define GRAPH_TABLES_MAX        256u

typedef enum {
#define OP(id, ...) OP_ID_##id,
#include "graph/ops.def"
#undef OP
    OP_ID_COUNT
} op_id;

typedef enum {
#define OPTIMIZER(id, ...) OPTIMIZER_ID_##id,
#include "graph/optimizers.def"
#undef OPTIMIZER
    OPTIMIZER_ID_COUNT
} optimizer_id;

typedef enum {
#define SCHEDULE(id, ...) SCHEDULE_ID_##id,
#include "graph/schedules.def"
#undef SCHEDULE
    SCHEDULE_ID_COUNT
} schedule_id;

enum tensor_kind {
    TENSOR_FIELD,
    TENSOR_DENSE,
    TENSOR_LABEL,
    TENSOR_ACTIVATION,
    TENSOR_PARAM,
    TENSOR_PARAM_GRAD,
    TENSOR_KIND_COUNT
};
enum tensor_type { TENSOR_F32, TENSOR_U32, TENSOR_TYPE_COUNT };
enum graph_pass { PASS_FORWARD, PASS_BACKWARD, PASS_COUNT };

struct graph_tensor {
    uint32_t name; /* string                                                             */
    uint8_t kind;
    uint8_t type;
    uint8_t init;     /* PARAM: enum random_init, or TENSOR_INIT_CONSTANT                    */
    uint8_t is_alias; /* PARAM and its gradient: 1 if it has the numbers of an earlier parameter    */
    uint32_t rows;    /* PARAM: rows; ACTIVATION: 1, or 0; 0: one row an example              */
    uint32_t cols;    /* FIELD: index of the field                                           */
    uint32_t stride;  /* floats from row to row, >= cols                                     */
    float init_scale;
    uint64_t offset; /* see the table above                                                 */
    uint32_t grad;   /* its gradient's tensor, or NONE                                      */
    uint32_t update; /* PARAM and its gradient: the update that changes it; else 0          */
};
_Static_assert(sizeof(struct graph_tensor) == 40, "the file's record");

/* A backward kernel reads its forward node's tensors and their gradients (graph/op.h), so a backward
 * node has no tensors of its own. Its args are flags, one for each input of the forward node. 1: the
 * input's gradient is added to the gradient that is there already, because another consumer's backward
 * node runs first and writes it. */
#define NODE_ATTR_BYTES 32
struct graph_node {
    uint32_t op; /* op_id      */
    uint32_t pass;
    uint32_t layer;
    uint32_t name;
    uint32_t other; /* forward: its backward node, or NONE; backward: its forward node    */
    /* forward: tensors in this order from args[arg_begin] on */
    uint32_t arg_begin;
    uint32_t input_count, param_count, output_count, saved_count;
    uint32_t program_begin, program_count; /* args[program_begin ..]: the cells of a tree (graph/cell.h) … */
    uint8_t attr[NODE_ATTR_BYTES];         /* the op's own struct, at most this long; rest zero */
};
_Static_assert(sizeof(struct graph_node) == 80, "the file's record");

struct graph_layer {
    uint32_t name;
    uint32_t reserved;
    uint64_t param_count;   /* floats                                                      */
    uint64_t flops_forward; /* an example                                                  */
    uint64_t flops_backward;
    uint64_t input_bytes, output_bytes; /* an example: what it reads of other layers, what others read of it */
};

/* How negatives are drawn from a vocabulary; its words are numbered from the most frequent on. */
enum sampler {
    SAMPLER_LOG_UNIFORM, /* P(i) = log((i + 2) / (i + 1)) / log(words + 1): Zipf's law               */
    SAMPLER_EMPIRICAL,   /* P(i) ~ count(i)^power                                                    */
    SAMPLER_UNIFORM,
    SAMPLER_COUNT
};

/* A column of the data: a sparse field, a numeric column, or a label.
 * Members of other kinds are 0 or NONE. */
struct graph_field {
    uint32_t name;       /* of its tensor                                                         */
    uint32_t column;     /* string: its name in the data; of candidates, that of the target's     */
    uint32_t ids_max;    /* fields: greatest number of keys                                      */
    uint32_t vocabulary; /* fields, labels: their words, no others, or NONE; a label is then a word's number */
    uint64_t seed;       /* fields: of the hash of keys; fields with one seed give a text one key */
    /* Candidates: a field of the target's key and of negative_count keys that the reader draws.
     * From log_q on the reader writes the logarithms of their probabilities, as 1 +
     * negative_count numbers of the example. */
    uint32_t negative_count; /* 0: an ordinary field                                              */
    uint32_t sampler;
    uint32_t log_q;
    float sampler_power;
    float mean, scale; /* numeric columns: x becomes (x - mean) * scale after the transform        */
};
_Static_assert(sizeof(struct graph_field) == 48, "the file's record");

/* The known words of columns, from the most frequent on. */
struct graph_vocabulary {
    uint32_t name;
    uint32_t unknown;                /* number of the word that stands for all other texts, or NONE  */
    uint32_t word_begin, word_count; /* its words, among the words of all vocabularies            */
    uint64_t count;                  /* sum over its words                                        */
    uint64_t source;                 /* hash of the section by which it was read                 */
};
struct graph_word {
    uint64_t count; /* how often the word occurred */
    uint32_t text;  /* string                    */
    uint32_t reserved;
};

/* How the vectors of rows are stored (graph/row_vector.h), and the widest vector in bfloat16. */
enum table_store { TABLE_F32, TABLE_BF16, TABLE_STORE_COUNT };
#define ROW_BF16_DIM_MAX 4096u

struct graph_table {
    uint32_t name;
    uint32_t dim;
    uint32_t span_floats; /* vector, state, the optimizer's counter of updates, the counters of its life */
    uint16_t init;        /* enum random_init                                              */
    uint16_t store;       /* enum table_store: up to version 10 the upper half of init, and 0 */
    float init_scale;
    uint32_t optimizer;     /* index of optimizers                                           */
    uint32_t field_count;   /* fields that look it up                                      */
    uint32_t key_count_max; /* greatest number of keys that they have in an example        */
    struct row_life life;
};
/* The counters of a row's life follow the floats of its optimizer. */
static inline uint32_t graph_table_rule_floats(const struct graph_table *table)
{
    return table->span_floats - (table->life.counts ? ROW_COUNTER_FLOATS : 0);
}

#define OPTIMIZER_PARAM_COUNT 6
struct graph_optimizer {
    uint32_t kind; /* optimizer_id */
    float learning_rate;
    float l1, l2;
    float clip_value, clip_norm;        /* 0: off                                         */
    float param[OPTIMIZER_PARAM_COUNT]; /* meaning: the optimizer's key table             */
};

#define SCHEDULE_PARAM_COUNT 3
struct graph_schedule {
    uint32_t kind; /* schedule_id */
    uint32_t reserved;
    double param[SCHEDULE_PARAM_COUNT]; /* meaning: the schedule's key table              */
};

/* One update a step: of a run of parameters, or of the rows of a table that the step touched. Updates of
 * parameters come first, one run after another: all trained parameters, then the statistics of batch_norm and
 * data_norm. Within a run parameters lie in the order of their nodes, each on a multiple of 16 floats and
 * without other gaps, so the nodes of a stage own one stretch of it (graph_params_of_nodes). */
struct graph_update {
    uint32_t optimizer;
    uint32_t table;                     /* or NONE: parameters                                                  */
    uint64_t param_offset, param_count; /* floats                                            */
};

enum graph_section {
    SECTION_TEXT,
    SECTION_STRINGS,
    SECTION_TENSORS,
    SECTION_ARGS,
    SECTION_NODES,
    SECTION_LAYERS,
    SECTION_FIELDS,
    SECTION_DENSES,
    SECTION_LABELS,
    SECTION_TABLES,
    SECTION_OPTIMIZERS,
    SECTION_UPDATES,
    SECTION_VOCABULARIES,
    SECTION_WORDS,
    SECTION_COUNT
};

struct graph_header {
    char magic[8];
    uint32_t version; /* that of its rules                                                      */
    uint32_t header_bytes;
    uint64_t file_bytes;
    uint64_t checksum;   /* xxh3-64 of the file with this field zero                            */
    uint64_t model_hash; /* of parameters, tables, fields, on which a trained model depends; not of the recipe */
    uint64_t numbering;  /* graph_numbering() of the program that compiled the graph */
    struct {
        uint64_t offset, count; /* bytes from the start; records (bytes for text and strings) */
    } section[SECTION_COUNT];
    uint32_t name; /* of the model                                                */
    uint32_t batch, micro, lanes;
    uint32_t dense_count, dense_stride, key_count_max;
    uint32_t weight, group;   /* strings: names of the columns of examples' weights and groups; "": none */
    uint32_t has_value;       /* 1: keys have values                                        */
    uint64_t param_floats;    /* length of the parameters, padding included                   */
    uint64_t grad_floats;     /* of a lane's gradients: the parameters', then the aliases'        */
    uint64_t state_floats;    /* of the dense optimizer's state                               */
    uint64_t slot_bytes;      /* of a slot's activations, for `micro` examples                */
    uint64_t slot_eval_bytes; /* the same when only forward nodes run                         */
    uint64_t seed;
    uint64_t period;                /* steps, of the life of rows; 0: endless                  */
    struct graph_schedule schedule; /* of every learning rate                                 */
};

struct graph {
    const struct graph_header *header;
    const char *text; /* the model text it was compiled from, canonical, --set applied        */
    const char *strings;
    const struct graph_tensor *tensors;
    const uint32_t *args;
    const struct graph_node *nodes;
    const struct graph_layer *layers;
    const struct graph_field *fields; /* [field_count]  */
    const struct graph_field *denses; /* [header->dense_count] */
    const struct graph_field *labels; /* [label_count]  */
    const struct graph_table *tables;
    const struct graph_optimizer *optimizers;
    const struct graph_update *updates;
    const struct graph_vocabulary *vocabularies;
    const struct graph_word *words;
    uint32_t label_count, vocabulary_count, word_count;
    uint32_t text_bytes, tensor_count, arg_count, node_count, forward_count, layer_count, field_count, table_count,
        optimizer_count, update_count;
    uint32_t lookup_count; /* forward nodes that look up a table, numbered in their order                 */
    /* Lanes that every micro-batch has side by side (graph_lanes_join); 0 and 1:
     * a micro-batch is in one lane. */
    uint32_t joined;
    void *joined_records; /* owned: header and tensors, where they are not the image's       */
    /* owns one of: */
    void *owned; /* malloc'd image                                              */
    size_t bytes;
};

static inline const char *graph_string(const struct graph *g, uint32_t offset) { return g->strings + offset; }
static inline struct batch_shape graph_batch(const struct graph *g)
{
    return (struct batch_shape){g->header->batch, g->header->micro, g->header->lanes, g->joined};
}
struct example_shape graph_example(const struct graph *g);
/* Where a column's tensor (DENSE, LABEL) lies in a micro-batch. */
static inline float *graph_column_data(const struct graph_tensor *t, const struct micro_batch *m)
{
    return (t->kind == TENSOR_LABEL ? m->label : m->dense) + t->offset;
}

/* Fills serves[field_count] with 1 if the table looks up keys of the field, else 0. */
void graph_table_serves(const struct graph *g, uint32_t table, uint8_t *serves);
/* The lookups of a table in their order: fills lookups[0 ..
 * returned - 1], at most lookup_count; NULL: only counts. */
uint32_t graph_table_lookups(const struct graph *g, uint32_t table, uint32_t *lookups);
/* The first forward node that looks the table up. */
uint32_t graph_table_first_node(const struct graph *g, uint32_t table);
/* The run of floats, padding included, that the forward nodes [node_begin, node_end) own in an update of
 * parameters. *count 0: none. Aliases belong to their owner's node. The runs of neighbouring ranges of nodes
 * lie side by side; together they are the whole update. */
void graph_params_of_nodes(const struct graph *g, uint32_t node_begin, uint32_t node_end, uint32_t update,
                           uint64_t *offset, uint64_t *count);
/* An alias: node `node` uses the `count` floats of parameters from `offset` on, which belong to node `owner`.
 * The alias's gradient begins at `grad`. */
struct graph_alias {
    uint64_t offset, count, grad;
    uint32_t node, owner;
};
/* The aliases of parameters within floats [offset, offset + count), in the order of their nodes: fills
 * aliases[0 .. returned - 1]; NULL: only counts. */
uint32_t graph_aliases(const struct graph *g, uint64_t offset, uint64_t count, struct graph_alias *aliases);
/* For each layer the smallest run of layers around it that shares no rows and no parameters with layers
 * outside the run: fills first[layer_count] and last[layer_count]. */
void graph_ties(const struct graph *g, uint32_t *first, uint32_t *last);
/* Rows of an activation for which a slot has room; bytes from its first to its last number;
 * and where it ends in the slot. */
static inline uint32_t graph_activation_rows(const struct graph_header *h, const struct graph_tensor *t)
{
    return t->rows ? t->rows : h->micro;
}
static inline uint64_t graph_activation_bytes(const struct graph_header *h, const struct graph_tensor *t)
{
    return ((uint64_t)t->stride * (graph_activation_rows(h, t) - 1) + t->cols) * sizeof(float);
}
static inline uint64_t graph_activation_end(const struct graph_header *h, const struct graph_tensor *t)
{
    return t->offset + graph_activation_bytes(h, t);
}

struct vocabulary_settings; /* cfg/settings.h */
/* Questions of compiling to the data. io/ reads it; the graph keeps the answers alone. */
struct graph_source {
    void *context;
    /* The words of [vocabulary NAME], from the most frequent on, equally frequent ones by their bytes; hands
     * each to `word`. `source` is the hash of the vocabulary's settings that the graph keeps. */
    status (*words)(void *context, const struct vocabulary_settings *settings, const char *name, uint64_t source,
                    status (*word)(void *to, const char *text, size_t bytes, uint64_t count), void *to);
    /* Mean and standard deviation of numeric columns after the transform, for transform = standard: fills
     * mean[count] and deviation[count]. */
    status (*moments)(void *context, const char *const *columns, uint32_t count, double *mean, double *deviation);
    /* An automaton (graph/automaton.h) over kind_count kinds of nodes, for batching = learned of [tree NAME],
     * learned from the column of trees: fills words[AUTOMATON_WORDS_MAX]. */
    status (*automaton)(void *context, const char *tree, uint32_t kind_count, uint32_t *words, size_t *word_count);
};

/* Compiles model text; a text that names no rules (cfg/rules.h) is compiled by the newest. `assignments`:
 * count of "section.key=value" that override the text. `path` is for messages. `source` is asked only if the
 * text has a vocabulary, standardised columns or a [tree] with learned batching; NULL: such a text is an
 * error. The graph owns its image: graph_close. */
MUST_USE status graph_compile(struct graph *graph, const char *path, const char *text, size_t text_bytes,
                              const char *const *assignments, uint32_t assignment_count,
                              const struct graph_source *source);
/* The same for a text that a graph has kept: by the rules that it names, or the oldest. */
MUST_USE status graph_compile_kept(struct graph *graph, const char *path, const char *text, size_t text_bytes,
                                   const struct graph_source *source);
/* The same for the text of `known`, with assignments: by the rules by which `known`
 * was compiled, and with its words. */
MUST_USE status graph_compile_again(struct graph *graph, const char *path, const struct graph *known,
                                    const char *const *set, uint32_t set_count);
/* A source that answers from `known`, for compiling its text again with the same vocabularies. INVALID: the
 * text reads a vocabulary by other settings. Keeps `known`. */
struct graph_source graph_source_of(const struct graph *known);
/* Examples of a micro-batch where train.micro is 0: at most this many, a divisor of a lane's examples. */
#define GRAPH_MICRO_USUAL 512u
/* For a training on one node in one stage. Where a lane is one micro-batch of less than usual size, and
 * all ops allow it (OP_JOINS_LANES), the graph's micro-batches become micro-batches of 2, 4, … lanes,
 * whole branches of the tree of lanes. Weights, packed once a micro-batch, are then packed less often, and
 * only the sum of these lanes takes memory. header->lanes then counts the joined micro-batches, and
 * `joined` the lanes of each. The bytes that training leaves do not change. `path` is for messages. Where
 * joining is not possible, nothing changes. */
void graph_lanes_join(struct graph *graph, const char *path);
/* Lanes of a micro-batch; lanes of the recipe, joined or not;
 * and examples of one of them that are added at once. */
static inline uint32_t graph_joined(const struct graph *g) { return g->joined > 1 ? g->joined : 1; }
static inline uint32_t graph_lane_count(const struct graph *g) { return g->header->lanes * graph_joined(g); }
static inline uint32_t graph_lane_micro(const struct graph *g) { return g->header->micro / graph_joined(g); }
/* Writes the image atomically. */
MUST_USE status graph_write(const struct graph *graph, const char *path);
/* Reads and validates a file. Whatever its bytes are: either every index, offset and shape in it holds, or
 * INVALID/CORRUPT says what is wrong at which byte. */
MUST_USE status graph_open(struct graph *graph, const char *path);
/* The same from memory. Keeps `image` until graph_close and does not free it. For tests and fuzzing. */
MUST_USE status graph_open_memory(struct graph *graph, const char *path, const uint8_t *image, size_t bytes);
void graph_close(struct graph *graph);
/* As graph_open; with assignments ("section.key=value") the text that the graph keeps is compiled again, by
 * the rules by which it was compiled. */
MUST_USE status graph_open_set(struct graph *graph, const char *path, const char *const *set, uint32_t set_count);

#endif

/* The compiler's working state: the graph's records in growing lists, shared by the passes of compile*.c.
 *
 *   text ──compile_parse──▶ forward nodes ──compile_fuse──▶ fewer nodes ──compile_backward──▶ + backward nodes, updates
 *        ──compile_memory──▶ offsets ──compile.c──▶ image ──graph_bind──▶ validated graph */
#ifndef HETERPS_GRAPH_COMPILER_H
#define HETERPS_GRAPH_COMPILER_H

#include "cfg/settings.h"
#include "graph/op.h"
#include "graph/optimizer.h"

/* A growing array of records of one kind. */
struct list {
    void *items;
    uint32_t count, max;
    size_t item_bytes;
};

/* Names, each with a number, found by hash; the names lie in the compiler's strings. `items` are `max`
 * entries of type name_place; `max` is a power of two; `count` entries are taken. */
struct name_place {
    uint32_t name, number; /* offset of the name + 1; 0: free */
};

struct compiler {
    struct ini ini;
    struct settings settings;
    const struct graph_source *source; /* or NULL */
    struct list strings, tensors, args, nodes, layers, fields, denses, labels, tables, optimizers, updates,
        vocabularies, words;
    /* graph_optimizer: the rule of each run of statistics. Until compile_backward makes the updates, a
     * parameter's `update` is 0 if it is trained, else 1 + its run. Until compile_memory places an alias,
     * its `offset` is the number of its owner's tensor. */
    struct list statistics;
    /* name_place: of these records, by name or column */
    struct list tensor_names, dense_names, field_names, label_names;
    uint32_t label_tensor; /* of the first label; the others follow */
    uint32_t forward_count;
    struct graph_header header; /* batch, counts and totals as they become known */
};

/* Appends one zeroed record and points the pointer at `record` to it; it is valid until the next append.
 * MEMORY: no memory is left, or GRAPH_COUNT_MAX is reached. */
MUST_USE status list_add(struct list *list, void *record);
#define LIST_AT(list, type, index) (&((type *)(list).items)[index])
static inline struct graph_tensor *compiler_tensor(struct compiler *c, uint32_t i)
{
    return LIST_AT(c->tensors, struct graph_tensor, i);
}
static inline struct graph_node *compiler_node(struct compiler *c, uint32_t i)
{
    return LIST_AT(c->nodes, struct graph_node, i);
}
static inline uint32_t *compiler_args(struct compiler *c, const struct graph_node *n)
{
    return LIST_AT(c->args, uint32_t, n->arg_begin);
}
static inline const char *compiler_string(const struct compiler *c, uint32_t offset)
{
    return (const char *)c->strings.items + offset;
}
MUST_USE status compiler_string_add(struct compiler *c, const char *text, uint32_t *offset);
/* NONE: no tensor has the name. Labels are found by label_names alone, because a column may be both a
 * label and a field or a number. */
uint32_t compiler_tensor_find(struct compiler *c, const char *name);
MUST_USE status compiler_tensor_add(struct compiler *c, const char *name, enum tensor_kind kind, uint32_t cols,
                                    uint32_t *index);
/* The only output of a forward node. */
static inline uint32_t compiler_output(struct compiler *c, const struct graph_node *n)
{
    return compiler_args(c, n)[n->input_count + n->param_count];
}

/* Fills in the keys that every op's section has; returns how many. Offsets are private to compile_parse.c. */
#define OP_COMMON_KEYS_MAX 4
uint32_t op_common_keys(const struct op *op, struct cfg_key keys[OP_COMMON_KEYS_MAX]);

/* compile_columns.c: one line about a format, for the reference. */
void format_print(FILE *out, bool as_markdown, uint32_t format);
void formats_print(FILE *out, bool as_markdown);

/* compile_names.c: letters, digits, _ - . but - and . may not come first. */
bool is_name(const char *text);
/* Splits the number off the end of a name: "C12" gives 1 and 12. False: there is none, or a leading zero. */
bool name_split(const char *name, size_t *stem_bytes, uint32_t *number);
/* The number of the name; NONE: it has none. */
uint32_t name_number(const struct compiler *c, const struct list *names, const char *name);
/* Gives the name at this offset a number, unless it has one. MEMORY. */
MUST_USE status name_number_add(const struct compiler *c, struct list *names, uint32_t name, uint32_t number);
/* Calls `each` for every name of the list, ranges written out. */
typedef status name_each(struct compiler *, const struct ini_section *, const struct ini_entry *, const char *name,
                         void *context);
MUST_USE status names_each(struct compiler *c, const struct ini_section *section, const struct ini_entry *entry,
                           const char *text, name_each *each, void *context);

/* Reads the text into fields, tables, optimizers, forward nodes, tensors and layers. */
MUST_USE status compile_parse(struct compiler *c, const struct graph_source *source);
/* The part of compile_parse that reads vocabularies, then the columns of the data with their tensors. */
MUST_USE status compile_columns(struct compiler *c, const struct graph_source *source);
MUST_USE status compile_vocabularies(struct compiler *c, const struct graph_source *source);
/* The tensor of a numeric column by itself; NONE: there is no such column. */
MUST_USE status compiler_dense_column(struct compiler *c, const char *name, uint32_t *tensor);
/* Merges an activation into the fc before it, and an activation's gradient into the fc after it. */
void compile_fuse(struct compiler *c);
/* Adds gradients, backward nodes and updates; refuses ops that the loss does not depend on. */
MUST_USE status compile_backward(struct compiler *c);
/* Places activations by liveness, parameters one after another; sums up layers. */
MUST_USE status compile_memory(struct compiler *c);

#endif

/* The rows of a model's tables by ascending key, for writers of files: keys alone, or with
 * vectors, any number of times. Here are the rows of a model's own store; engine/node/sorted.h
 * gives the rows of several nodes.
 *
 *     of a table: open ──▶ row_count, left_out ──▶ begin ──▶ next … row_count times ──▶ begin … ──▶ close */
#ifndef HETERPS_ENGINE_MODEL_MODEL_SORTED_H
#define HETERPS_ENGINE_MODEL_MODEL_SORTED_H

#include "engine/model/model.h"

struct model_sorted {
    const struct model_sorted_vt *vt;
    struct {
        uint64_t row_count, left_out;
    } table[GRAPH_TABLES_MAX]; /* of open tables */
};
/* Rows whose score in the model's period is below `score` are left out. */
struct model_sorted_filter {
    bool has_score;
    float score;
};
struct model_sorted_vt {
    /* INVALID: rows of the table have no score. Several tables may be open; one is walked at a time. */
    status (*open)(struct model_sorted *, uint32_t table, const struct model_sorted_filter *filter);
    status (*begin)(struct model_sorted *, uint32_t table, bool has_vectors);
    /* Called row_count times; *vector [dim], with has_vectors, stays until the next call. */
    status (*next)(struct model_sorted *, uint64_t *key, const float **vector);
    /* Also for a table that is not open, or that could not be opened. */
    void (*close)(struct model_sorted *, uint32_t table);
};

/* The rows of a model's own store, which nobody else uses meanwhile. Takes 8 bytes for each row of an open
 * table, as part "order of rows", and room for some thousand rows. */
struct model_sorted_own {
    struct model_sorted sorted; /* first: a struct model_sorted * is a struct model_sorted_own * */
    const struct model *model;
    struct {
        uint64_t *key; /* ascending */
        uint64_t room;
    } keys[GRAPH_TABLES_MAX];
    uint32_t at_table;
    uint64_t at, copied; /* the next row; rows below `copied` have been copied to `spans` */
    bool has_vectors;
    float *spans;  /* [MODEL_SORTED_AT_ONCE, the widest table's floats] */
    float *vector; /* [the widest table's dim], behind `spans`: of the row given last, as float32 */
};
#define MODEL_SORTED_AT_ONCE 4096u
/* Keeps the model. MEMORY; closed in any case. */
MUST_USE status model_sorted_own_open(struct model_sorted_own *own, const struct model *model);
void model_sorted_own_close(struct model_sorted_own *own);

#endif

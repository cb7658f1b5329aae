/* The rows of a model's tables by ascending key, as whatever is written of them has them, whoever holds them:
 * keys alone, or with their vectors, as often as wanted. These here are the model's own; on several nodes those
 * of all (engine/node/sorted.h).
 *
 *     open ──▶ row_count, left_out ──▶ begin ──▶ next … row_count times ──▶ begin … ──▶ close            of a table */
#ifndef HETERPS_ENGINE_MODEL_MODEL_SORTED_H
#define HETERPS_ENGINE_MODEL_MODEL_SORTED_H

#include "engine/model/model.h"

struct model_sorted {
    const struct model_sorted_vt *vt;
    struct {
        uint64_t row_count, left_out;
    } table[GRAPH_TABLES_MAX]; /* of those that are open */
};
/* Rows whose score in the model's period is below this are left out. */
struct model_sorted_filter {
    bool has_score;
    float score;
};
struct model_sorted_vt {
    /* INVALID: rows of the table have no score. Several may be open, one is gone through at a time. */
    status (*open)(struct model_sorted *, uint32_t table, const struct model_sorted_filter *filter);
    status (*begin)(struct model_sorted *, uint32_t table, bool has_vectors);
    /* row_count times; *vector [dim], with has_vectors, stays until the next call. */
    status (*next)(struct model_sorted *, uint64_t *key, const float **vector);
    /* Also of one that is not open, or that could not be opened. */
    void (*close)(struct model_sorted *, uint32_t table);
};

/* The rows that a model's own store has; nobody else uses that meanwhile. Takes 8 bytes a row of a table that is open,
 * as part "order of rows", and room for some thousand rows. */
struct model_sorted_own {
    struct model_sorted sorted; /* first: a struct model_sorted * is a struct model_sorted_own * */
    const struct model *model;
    struct {
        uint64_t *key; /* ascending */
        uint64_t room;
    } keys[GRAPH_TABLES_MAX];
    uint32_t at_table;
    uint64_t at, copied; /* the next row; those before it have been copied to `spans` */
    bool has_vectors;
    float *spans;  /* [MODEL_SORTED_AT_ONCE, the widest table's floats] */
    float *vector; /* [the widest table's dim], behind them: of the row that was given last, as float32 */
};
#define MODEL_SORTED_AT_ONCE 4096u
/* Keeps the model. MEMORY; closed in any case. */
MUST_USE status model_sorted_own_open(struct model_sorted_own *own, const struct model *model);
void model_sorted_own_close(struct model_sorted_own *own);

#endif

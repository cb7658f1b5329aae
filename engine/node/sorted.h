/* Rows of tables by ascending key, those of all nodes, as rank 0 writes them. Each node sorts
 * its own rows; rank 0 says what it wants, and merges what the others send, of which it holds a
 * block a node (engine/node/talk.h).
 *
 *     rank 0   open ──▶ begin ──▶ next … ──▶ close ──▶ … ──▶ sorted_nodes_end          of whatever is written
 *     others   sorted_serve: hear what ──▶ keys, or keys and vectors ──▶ … ──▶ the end
 *
 * Between jobs, by the main threads. */
#ifndef HETERPS_ENGINE_NODE_SORTED_H
#define HETERPS_ENGINE_NODE_SORTED_H

#include "engine/model/model_sorted.h"
#include "engine/node/reduce.h"

/* What comes from a node. */
struct sorted_from {
    const uint8_t *data; /* of the block that is held */
    uint32_t left;
    bool is_held, is_there; /* a block; its next row, which is … */
    uint64_t key, rows_left;
    float *vector;
};
struct sorted_nodes {
    struct model_sorted sorted; /* first: a struct model_sorted * is a struct sorted_nodes * */
    struct reduce *reduce;
    struct model_sorted_own own;
    struct sorted_from from[REDUCE_NODES_MAX]; /* 0: this node's own */
    uint64_t row_count[GRAPH_TABLES_MAX][REDUCE_NODES_MAX];
    uint32_t at_table, last; /* the node whose row was given last; the next call moves it on */
    bool has_vectors, is_under_way;
    float *vectors; /* [REDUCE_NODES_MAX, the widest table's dim] */
};

/* By rank 0; the model is rank 0's part. MEMORY; sorted_nodes_close follows in any case. */
MUST_USE status sorted_nodes_open(struct sorted_nodes *nodes, struct reduce *reduce, const struct model *model);
/* Tells the others that rank 0 is done. Not after a failure, which ends the job. */
MUST_USE status sorted_nodes_end(struct sorted_nodes *nodes);
void sorted_nodes_close(struct sorted_nodes *nodes);

/* By another node: serves rank 0 until it is done. Fails as its store, or the exchange. */
MUST_USE status sorted_serve(struct reduce *reduce, const struct model *model);

#endif

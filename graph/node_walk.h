/* A walk over the nodes of an example's tree that have a number, from the last node on: where a loss at every
 * node finds its classes. Reads the keys alone (engine/base/tree.h). */
#ifndef HETERPS_GRAPH_NODE_WALK_H
#define HETERPS_GRAPH_NODE_WALK_H

#include <math.h>
#include <string.h>

#include "engine/base/tree.h"
#include "graph/op.h"

/* number, place: of the node that node_walk_next() has found; place 0 is the example's last node. */
struct node_walk {
    const uint64_t *key;
    uint32_t left, place;
    float number;
};

/* n: a node whose second input is the field of the trees; b: the example. */
static inline struct node_walk node_walk_begin(const struct op_context *c, const struct graph_node *n, uint32_t b)
{
    const struct micro_batch *m = c->batch;
    const uint32_t home = b * c->graph->field_count + c->graph->tensors[op_arg(c, n, 1)].cols;
    return (struct node_walk){
        .key = m->key + m->key_begin[home], .left = m->key_begin[home + 1] - m->key_begin[home], .place = UINT32_MAX};
}

/* False: no other node has a number. */
static inline bool node_walk_next(struct node_walk *w)
{
    while (w->left > 0) {
        const uint64_t key = w->key[--w->left];
        if (key & TREE_AGAIN) continue;
        const uint32_t bits = (uint32_t)(key >> TREE_NUMBER_SHIFT);
        memcpy(&w->number, &bits, sizeof bits);
        w->place++;
        if (!isnan(w->number)) return true;
    }
    return false;
}

#endif

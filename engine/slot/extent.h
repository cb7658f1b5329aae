/* What a stage has of a graph: its nodes, the parameters and tables that its updates change, and how these
 * are cut among those who update.
 *
 * Sums and updates are cut alike, between blocks (graph/clip.h). Part p is a run of whole blocks, in the
 * order of nodes, out of all that the stage's updates change. All parts have about as many floats, or parts
 * have them in proportion to weights. So whoever has a part adds, squares and updates it, and nobody else has
 * to know its sums. */
#ifndef HETERPS_ENGINE_SLOT_EXTENT_H
#define HETERPS_ENGINE_SLOT_EXTENT_H

#include "engine/model/model.h"
#include "graph/graph.h"

/* A run of parameters that one dense update of the graph changes, and their state: state_count arrays of
 * `count` floats. */
struct param_run {
    uint32_t update;
    uint64_t offset, count;              /* floats of the parameters                                */
    uint64_t state_offset, state_stride; /* floats of the state; from one of its arrays to the next */
    uint32_t state_count;
};

struct extent {
    uint32_t forward_begin, forward_end, backward_begin, backward_end; /* nodes */
    bool looks_up;
    struct param_run *runs; /* [run_count] */
    uint32_t run_count;
    uint32_t *tables; /* [table_count]: whose first look-up is here */
    uint32_t table_count;
    uint32_t block_begin, block_count; /* of the blocks of the whole graph whose norm is bounded */
    uint32_t part_count;
    uint64_t *cut_float; /* [part_count + 1, run_count]: where a part begins in a run           */
    uint32_t *cut_block; /* [part_count + 1]: at which block whose norm is bounded, from block_begin on */
};

/* What the update changes of the parameters of the forward nodes [node_begin, node_end). False: nothing,
 * or the update is one of a table. */
bool param_run_find(struct param_run *run, const struct graph *g, const struct model *model, uint32_t node_begin,
                    uint32_t node_end, uint32_t update);
/* Finds the nodes of the layers. */
void extent_nodes_find(struct extent *e, const struct graph *g, uint32_t first_layer, uint32_t last_layer);
/* Lays out and, with an arena, fills the lists of an extent whose nodes are
 * known, cut in part_count parts. */
void extent_layout(struct extent *e, struct layout *l, const struct graph *g, const struct model *model,
                   uint32_t part_count);
/* Likewise, in proportion to weights [part_count], one of which is above 0. */
void extent_layout_by(struct extent *e, struct layout *l, const struct graph *g, const struct model *model,
                      uint32_t part_count, const uint16_t *weights);

/* The part's floats of the run: [*begin, *end) of the parameters. */
static inline void extent_part(const struct extent *e, uint32_t part, uint32_t run, uint64_t *begin, uint64_t *end)
{
    *begin = e->cut_float[(size_t)part * e->run_count + run];
    *end = e->cut_float[(size_t)(part + 1) * e->run_count + run];
}

#endif

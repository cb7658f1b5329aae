/* Itineraries (sched/trees/itinerary.h) as the batches of a run. */
#include "engine/device/cpu/tree_batches.h"

#include "sched/trees/itinerary.h"

static const batching_id policies[TREE_BATCHINGS] = {
    [TREE_BY_HEIGHT] = BATCHING_ID_by_height,
    [TREE_AGENDA] = BATCHING_ID_agenda,
    [TREE_PER_NODE] = BATCHING_ID_per_node,
    [TREE_LEARNED] = BATCHING_ID_learned,
};

static size_t place(struct itinerary *it, struct itinerary_scratch *scratch, uint8_t *memory, size_t nodes,
                    size_t edges)
{
    struct layout l = {.base = memory};
    itinerary_layout(it, &l, nodes);
    itinerary_scratch_layout(scratch, &l, nodes, edges);
    return l.bytes;
}

size_t tree_batches_bytes(uint32_t examples, uint32_t key_max)
{
    struct itinerary it;
    struct itinerary_scratch scratch;
    const size_t keys = (size_t)examples * key_max; /* a node has one key, and one edge */
    return place(&it, &scratch, NULL, keys, keys);
}

void tree_batches_make(struct tree_run *r, void *memory, size_t bytes)
{
    const struct batching policy = {
        .id = policies[r->attr.batching],
        .automaton =
            automaton_of(r->c->graph->args + r->n->program_begin + tree_cell_words(r->n), r->attr.automaton_words)};
    struct itinerary it;
    struct itinerary_scratch scratch;
    const struct tree_nodes *nodes = &r->frame.nodes;
    if (policy.id == BATCHING_ID_by_height || nodes->count == 0) return; /* the batches by height are made already */
    CHECK(place(&it, &scratch, memory, nodes->count, nodes->child_begin[nodes->count]) <= bytes);
    itinerary_make(&it, nodes, r->cells.kind_count, &policy, &scratch);
    tree_batches_set(r, it.order, it.batch_begin, it.batch_count);
}

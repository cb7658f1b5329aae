/* Lists of nodes with itineraries, in memory of their own. */
#ifndef HETERPS_TESTS_SCHED_TREES_FIXTURE_H
#define HETERPS_TESTS_SCHED_TREES_FIXTURE_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sched/trees/itinerary.h"
#include "sched/trees/random_trees.h"
#include "sched/trees/tree_place.h"

struct trees_fixture {
    struct tree_nodes nodes;
    struct itinerary itinerary;
    struct itinerary_scratch scratch;
    double *value; /* [nodes] */
    void *memory[2];
};

/* Everything lies in a block that the sanitizers know, each array to its last byte;
 * filled with what is no zero. */
static inline void fixture_open(struct trees_fixture *f, size_t node_max, size_t edge_max)
{
    for (int pass = 0; pass < 2; pass++) {
        struct layout l = {.align = 8}, s = {.align = 8};
        if (pass) {
            l.base = f->memory[0];
            s.base = f->memory[1];
        }
        random_trees_layout(&f->nodes, &l, node_max, edge_max);
        itinerary_layout(&f->itinerary, &l, node_max);
        LAYOUT_TAKE(&l, f->value, node_max);
        itinerary_scratch_layout(&f->scratch, &s, node_max, edge_max);
        if (pass) break;
        f->memory[0] = malloc(l.bytes);
        f->memory[1] = malloc(s.bytes);
        assert_non_null(f->memory[0]);
        assert_non_null(f->memory[1]);
        memset(f->memory[0], 0xaa, l.bytes);
        memset(f->memory[1], 0xaa, s.bytes);
    }
    f->nodes.count = 0;
    f->nodes.child_begin[0] = 0;
}

static inline void fixture_close(struct trees_fixture *f)
{
    free(f->memory[0]);
    free(f->memory[1]);
}

/* Lists of units with a clock, in one block as above, which the caller frees. */
static inline void *units_open(struct place_units *units, uint32_t list_count, size_t unit_max,
                               struct place_clock *clock)
{
    void *memory = NULL;
    for (int pass = 0; pass < 2; pass++) {
        struct layout l = {.base = memory, .align = 8};
        for (uint32_t i = 0; i < list_count; i++) place_units_layout(&units[i], &l, unit_max, unit_max);
        place_clock_layout(clock, &l, unit_max);
        if (pass) break;
        memory = malloc(l.bytes);
        assert_non_null(memory);
        memset(memory, 0xaa, l.bytes);
    }
    return memory;
}

static inline void fixture_clear(struct trees_fixture *f) { f->nodes.count = 0; }

static inline uint32_t put(struct trees_fixture *f, uint32_t kind, uint32_t child_count, uint32_t a, uint32_t b)
{
    return tree_node_put(&f->nodes, kind, (uint32_t[]){a, b}, child_count);
}

static inline uint32_t batches(struct trees_fixture *f, batching_id id, uint32_t kind_count)
{
    itinerary_make(&f->itinerary, &f->nodes, kind_count, &(struct batching){.id = id}, &f->scratch);
    return f->itinerary.batch_count;
}

/* Each node once, in an earlier batch than its parents; batches of one kind, ascending. */
static inline void itinerary_check(const struct trees_fixture *f)
{
    const struct itinerary *it = &f->itinerary;
    const struct tree_nodes *nodes = &f->nodes;
    uint32_t *batch_of = malloc((nodes->count + 1) * sizeof *batch_of);
    assert_non_null(batch_of);
    memset(batch_of, 0xff, nodes->count * sizeof *batch_of);
    assert_int_equal(it->batch_begin[0], 0);
    assert_int_equal(it->batch_begin[it->batch_count], nodes->count);
    for (uint32_t b = 0; b < it->batch_count; b++) {
        assert_true(it->batch_begin[b] < it->batch_begin[b + 1]);
        for (uint32_t i = it->batch_begin[b]; i < it->batch_begin[b + 1]; i++) {
            uint32_t node = it->order[i];
            assert_true(node < nodes->count && batch_of[node] == UINT32_MAX);
            batch_of[node] = b;
            assert_int_equal(nodes->kind[node], it->batch_kind[b]);
            if (i > it->batch_begin[b]) assert_true(it->order[i - 1] < node);
        }
    }
    for (uint32_t i = 0; i < nodes->count; i++) {
        assert_true(batch_of[i] < it->batch_count);
        for (uint32_t e = nodes->child_begin[i]; e < nodes->child_begin[i + 1]; e++)
            assert_true(batch_of[nodes->child[e]] < batch_of[i]);
    }
    free(batch_of);
}

#endif

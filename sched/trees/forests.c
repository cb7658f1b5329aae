/* Draws lists of trees. */
#include "sched/trees/forests.h"

#include <stdlib.h>
#include <string.h>

#include "sched/trees/random_trees.h"

struct forests_scratch {
    struct tree_nodes nodes;
    struct itinerary_scratch itinerary;
};

static void forests_layout(struct forests *f, struct forests_scratch *s, const struct forests_options *o,
                           struct layout *l)
{
    const size_t nodes = (size_t)o->trees * (2 * o->leaves_max - 1), units = 2 * nodes;
    LAYOUT_TAKE(l, f->unit, o->count);
    LAYOUT_TAKE(l, f->node, o->count);
    LAYOUT_TAKE(l, f->units, o->count);
    LAYOUT_TAKE(l, f->nodes, o->count);
    struct place_units unused, *unit = l->base ? f->unit : NULL, *node = l->base ? f->node : NULL;
    for (uint32_t i = 0; i < o->count; i++) {
        place_units_layout(unit ? &unit[i] : &unused, l, units, units);
        place_units_layout(node ? &node[i] : &unused, l, nodes, nodes);
    }
    place_clock_layout(&f->clock, l, units);
    LAYOUT_TAKE(l, f->device, units);
    LAYOUT_TAKE(l, f->other, units);
    LAYOUT_TAKE(l, f->scratch, 5 * units + 1);
    random_trees_layout(&s->nodes, l, nodes, nodes);
    itinerary_scratch_layout(&s->itinerary, l, units, units);
}

static void forest_draw(struct forests *f, struct forests_scratch *s, const struct forests_options *o, uint32_t list,
                        struct draw *d)
{
    static const struct batching by_height = {.id = BATCHING_ID_by_height};
    s->nodes.count = s->nodes.child_begin[0] = 0;
    for (uint32_t t = 0; t < o->trees; t++)
        random_binary_add(&s->nodes, o->leaves_min + draw_below(d, o->leaves_max - o->leaves_min + 1), d);
    for (uint32_t i = 0; i < s->nodes.count; i++)
        s->nodes.kind[i] = (uint8_t)(s->nodes.kind[i] == BINARY_LEAF ? o->leaf_kind : o->inner_kind);
    place_units_of_nodes(&f->unit[list], &s->nodes, o->output_kind);
    place_units_of_nodes(&f->node[list], &s->nodes, TREE_NONE);
    place_units_batch(&f->unit[list], &by_height, &s->itinerary);
    place_units_batch(&f->node[list], &by_height, &s->itinerary);
    f->units[list] = &f->unit[list];
    f->nodes[list] = &f->node[list];
    f->node_count += (double)s->nodes.count / o->count;
}

status forests_open(struct forests *f, const struct forests_options *o)
{
    struct forests_scratch s;
    struct layout l = {0};
    CHECK(o->count > 0 && o->trees > 0 && o->leaves_min > 0 && o->leaves_min <= o->leaves_max);
    *f = (struct forests){.count = o->count};
    forests_layout(f, &s, o, &l);
    f->memory = aligned_alloc(CACHE_LINE_BYTES, arena_bytes(l.bytes));
    if (f->memory == NULL) FAIL(MEMORY, "no memory for %u lists of %u trees", o->count, o->trees);
    memset(f->memory, 0, l.bytes);
    l = (struct layout){.base = f->memory};
    forests_layout(f, &s, o, &l);
    struct draw d = draw_make(o->seed, DRAW_TREES);
    for (uint32_t i = 0; i < o->count; i++) forest_draw(f, &s, o, i, &d);
    return ST_OK;
}

void forests_close(struct forests *f)
{
    free(f->memory);
    *f = (struct forests){0};
}

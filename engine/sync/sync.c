/* The table of synchronisations, and what they share: sums of gradients, what a stage sums and updates. */
#include "engine/sync/sync.h"

#include <stdlib.h>
#include <string.h>

#include "cfg/settings.h"
#include "engine/base/parts.h"
#include "io/store/store_save.h"

#define SYNC(id, vt) extern const struct sync_vt vt;
#include "engine/sync/syncs.def"
#undef SYNC

#define SYNC(id, vt) [SYNC_##id] = &vt,
static const struct sync_vt *const vts[] = {
#include "engine/sync/syncs.def"
};

bool sync_by_lane(uint32_t kind)
{
    CHECK(kind < sizeof vts / sizeof *vts);
    return vts[kind]->by_lane;
}

status sync_check(uint32_t kind, uint32_t pipeline_count)
{
    if (!sync_by_lane(kind) || pipeline_count == 1) return ST_OK;
    FAIL(INVALID,
         "train.pipelines = %u needs train.sync = wsp or asp; under bsp give a stage replicas, and train.lanes",
         pipeline_count);
}

/* Whether one worker computes all lanes, in order, so that they end one after another. Not where parameters
 * are used again: further uses are added when all have ended. */
static bool sync_folds(const struct sync *s)
{
    const struct sync_site *site = &s->site;
    const struct graph *g = site->graph;
    if (!s->vt->by_lane || site->exchange || site->pipeline_count > 1 || site->stage_count > 1) return false;
    const struct stage *stage = site->stages[0];
    return stage->kind->has_cores && !stage->kind->has_memory && stage->replica_count * stage->kind->streams == 1 &&
           graph_aliases(g, 0, g->header->param_floats, NULL) == 0;
}

static uint32_t set_count(const struct sync *s)
{
    if (!s->vt->by_lane) return s->site.pipeline_count;
    return s->folds ? fold_places(((s->lanes.count - 1) >> s->fold_shift) + 1) : s->lanes.count;
}

static void sync_layout(struct sync *s, struct layout *l)
{
    const struct graph *g = s->site.graph;
    const struct batch_shape shape = graph_batch(g);
    if (s->clipped) {
        s->block_count = clip_blocks_list(g, 0, g->forward_count, NULL);
        LAYOUT_TAKE(l, s->blocks, s->block_count);
        LAYOUT_TAKE(l, s->squares, (size_t)s->site.pipeline_count * s->block_count);
        if (l->arena) (void)clip_blocks_list(g, 0, g->forward_count, s->blocks);
    }
    gradients_layout(&s->gradients, l, g, set_count(s), (uint64_t)shape.batch / shape.lanes * s->lanes.count);
}

static status memory_open(struct sync *s)
{
    struct layout sum = {0}, taken = {.arena = &s->arena};
    sync_layout(s, &sum);
    if (sum.bytes == SIZE_MAX)
        FAIL(MEMORY, "the gradients of %u lanes need more bytes than any machine has; lower train.batch or train.lanes",
             s->lanes.count);
    TRY(arena_open(&s->arena, "gradients", sum.bytes));
    sync_layout(s, &taken);
    return ST_OK;
}

status sync_open(struct sync **out, const struct sync_site *site)
{
    const struct sync_vt *vt = vts[site->kind];
    struct sync *s = aligned_alloc(CACHE_LINE_BYTES, arena_bytes(vt->bytes));
    *out = NULL;
    if (s == NULL) FAIL(MEMORY, "no memory for a synchronisation");
    memset(s, 0, vt->bytes);
    s->vt = vt;
    s->site = *site;
    CHECK(site->exchange == NULL || site->exchange->is_bf16 == site->is_bf16);
    s->lanes = site->exchange ? site->exchange->own : (struct fold_lanes){0, graph_batch(site->graph).lanes};
    s->clipped = clip_optimizer(site->graph);
    s->folds = sync_folds(s);
    s->fold_shift = s->folds && graph_joined(site->graph) > 1;
    status st = memory_open(s);
    if (st == ST_OK) st = vt->open(s);
    if (st != ST_OK) {
        sync_close(s);
        return st;
    }
    *out = s;
    return ST_OK;
}

void sync_close(struct sync *s)
{
    if (s == NULL) return;
    s->vt->close(s);
    arena_close(&s->arena);
    free(s);
}

status sync_sum_run(struct sync *s, const struct updater *w, const struct stage *stage, const struct update *u,
                    uint32_t part)
{
    const struct extent *e = &stage->extent;
    const uint32_t first = e->block_begin + e->cut_block[part], count = e->cut_block[part + 1] - e->cut_block[part];
    double *squares = s->squares + (size_t)stage->pipeline_index * s->block_count;
    return update_sum(w, u, s->blocks + first, count, squares + first);
}

status sync_update_run(struct sync *s, const struct updater *w, const struct stage *stage, const struct update *u,
                       uint32_t part)
{
    const struct extent *e = &stage->extent;
    uint64_t begin, end;
    for (uint32_t r = 0; r < e->run_count; r++) {
        extent_part(e, part, r, &begin, &end);
        TRY(update_params(w, u, &e->runs[r], begin, end));
    }
    for (uint32_t i = 0; i < e->table_count; i++) {
        const uint32_t t = e->tables[i];
        part_of(u->rows[t].row_count, part, e->part_count, 1, &begin, &end);
        if (begin == end) continue;
        store_rows_change(s->site.model->store, t, u->rows[t].span + begin, (uint32_t)(end - begin));
        TRY(update_rows(w, u, t, (uint32_t)begin, (uint32_t)end));
    }
    return ST_OK;
}

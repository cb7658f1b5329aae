/* Takes the memory of an exchange between nodes, and finds what is the same in every
 * step: slices, pieces, shards. */
#include <stdlib.h>
#include <string.h>

#include "engine/node/waves_internal.h"
#include "graph/clip.h"
#include "io/store/store_ticket.h"

static const struct exchange_vt reduce_vt = {.begin = round_begin,
                                             .ask = step_ask,
                                             .tell = step_tell,
                                             .carry = hops_carry,
                                             .look = look_ask,
                                             .look_end = look_end,
                                             .job_begin = job_begin,
                                             .job_end = job_end,
                                             .job_stop = job_stop};

static void lanes_check(const struct reduce_options *o)
{
    CHECK(o->rank < o->node_count && o->node_count <= REDUCE_NODES_MAX);
    if (o->stages || o->has_waves) return;
    CHECK(o->lane_begin[o->node_count] == o->graph->header->lanes);
    CHECK(o->lane_begin[0] == 0 && o->lane_begin[1] > 0);
    for (uint32_t n = 0; n < o->node_count; n++) CHECK(o->lane_begin[n] <= o->lane_begin[n + 1]);
}

/* The runs of a node's lanes. */
static uint32_t runs_of(const struct reduce_options *o, uint32_t node, struct fold_lanes runs[FOLD_RUNS_MAX])
{
    const struct fold_lanes lanes = {o->lane_begin[node], o->lane_begin[node + 1] - o->lane_begin[node]};
    return lanes.count ? fold_runs(lanes, o->graph->header->lanes, runs) : 0;
}

static uint32_t examples_of(const struct reduce_options *o, uint32_t node)
{
    return o->graph->header->batch / o->graph->header->lanes * (o->lane_begin[node + 1] - o->lane_begin[node]);
}

/* Lists the runs of all nodes, in order of lanes; `pieces` NULL: only counts them. */
static uint32_t pieces_list(const struct reduce_options *o, struct exchange_piece *pieces)
{
    struct fold_lanes runs[FOLD_RUNS_MAX];
    uint32_t count = 0;
    for (uint32_t n = 0; n < o->node_count; n++) {
        const uint32_t run_count = runs_of(o, n, runs);
        for (uint32_t i = 0; i < run_count; i++, count++)
            if (pieces) pieces[count] = (struct exchange_piece){.run = runs[i], .node = n};
    }
    return count;
}

static void shapes_fill(struct reduce *r, const struct reduce_options *o)
{
    struct fold_lanes runs[FOLD_RUNS_MAX];
    for (uint32_t n = 0; n < o->node_count; n++) {
        struct asked_shape *asker = &r->shapes[n];
        *asker = (struct asked_shape){.graph = o->graph,
                                      .owner_count = o->node_count,
                                      .owner_of = r->owner_of,
                                      .example_max = examples_of(o, n),
                                      .run_count = runs_of(o, n, runs)};
        asked_shape_wants(asker);
    }
}

/* What a graph with tables needs. */
static void rows_layout(struct reduce *r, struct layout *l, const struct reduce_options *o)
{
    struct exchange_rows *rows = &r->exchange.rows;
    ring_layout(l->arena ? &r->asked_ring : NULL, l, ASKED_MAX, RING_ONE);
    LAYOUT_TAKE(l, r->own_pieces, o->graph->table_count);
    LAYOUT_TAKE(l, r->row_count, o->graph->table_count);
    LAYOUT_TAKE(l, r->own_rows, o->graph->table_count);
    const size_t own = asked_floats_max(&rows->shape);
    for (int i = 0; i < 2; i++) LAYOUT_TAKE(l, rows->values[i], own);
    const bool has_early = !owned_lives(o->graph);
    if (has_early) LAYOUT_TAKE(l, r->late, own);
    LAYOUT_TAKE(l, rows->pieces, asked_piece_floats_max(&rows->shape) * rows->shape.run_count);
    for (uint32_t n = 0; n < o->node_count; n++) {
        struct peer peer = {0};
        const struct asked_shape asker = {.graph = o->graph, .example_max = examples_of(o, n)};
        if (n != o->rank) LAYOUT_TAKE(l, peer.values, asked_floats_max(&asker));
        if (n != o->rank && has_early)
            LAYOUT_TAKE(l, peer.shared, asked_bits_bytes(asked_keys_max(&rows->shape)) / sizeof *peer.shared);
        if (n != o->rank) LAYOUT_TAKE(l, peer.row_count, o->graph->table_count);
        looks_layout(r, l, n, &peer);
        if (l->arena) r->peers[n] = peer;
    }
    evict_layout(r, l);
    ring_layout(l->arena ? &r->looks.ring : NULL, l, EXCHANGE_LOOKS_MAX, RING_ONE);
}

/* The nodes of a mask of the options; mask 0: all. */
static uint64_t those_of(const struct reduce_options *o, uint64_t mask)
{
    const uint64_t all = UINT64_MAX >> (64 - o->node_count);
    CHECK((mask & ~all) == 0);
    return mask ? mask : all;
}

/* Floats of the layer's parameters. */
static uint64_t layer_floats(const struct graph *g, uint32_t layer)
{
    struct extent e = {0};
    uint64_t floats = 0, begin, count;
    extent_nodes_find(&e, g, layer, layer);
    for (uint32_t u = 0; u < g->update_count; u++) {
        if (g->updates[u].table != GRAPH_NONE) continue;
        graph_params_of_nodes(g, e.forward_begin, e.forward_end, u, &begin, &count);
        floats += count;
    }
    return floats;
}

/* Cuts the layers in buckets of at least `least` floats, from the last layer on; the first bucket has
 * what is left, if this has floats at all. Returns how many; first [buckets]: the first layer of
 * each, from the last bucket on. */
static uint32_t buckets_cut(const struct graph *g, uint64_t least, uint32_t first[EXCHANGE_BUCKETS_MAX + 1])
{
    uint64_t left = 0, floats = 0;
    uint32_t count = 0;
    for (uint32_t layer = 0; layer < g->layer_count; layer++) left += layer_floats(g, layer);
    if (least < left / EXCHANGE_BUCKETS_MAX + 1) least = left / EXCHANGE_BUCKETS_MAX + 1;
    for (uint32_t layer = g->layer_count; layer-- > 0;) {
        const uint64_t more = layer_floats(g, layer);
        floats += more;
        left -= more;
        if (floats < least || left == 0) continue;
        first[count++] = layer;
        floats = 0;
    }
    first[count++] = 0;
    return count;
}

static void buckets_find(struct exchange *x, const struct reduce_options *o)
{
    uint32_t first[EXCHANGE_BUCKETS_MAX + 1], end = o->graph->layer_count;
    x->bucket_count = buckets_cut(o->graph, o->bucket_floats ? o->bucket_floats : UINT64_MAX, first);
    for (uint32_t i = 0; i < x->bucket_count; i++) {
        extent_nodes_find(&x->slices[x->bucket_count - 1 - i], o->graph, first[i], end - 1);
        end = first[i];
    }
}

/* Slices of a bucket, one behind the other, of the nodes that have one; another node's is empty, and
 * begins where the next one does. */
static void slices_layout(struct extent *e, struct layout *l, const struct reduce_options *o)
{
    const uint64_t slices = those_of(o, o->slices);
    extent_layout(e, l, o->graph, o->model, (uint32_t)__builtin_popcountll(slices));
    const uint64_t *cut_float = e->cut_float;
    const uint32_t *cut_block = e->cut_block;
    LAYOUT_TAKE(l, e->cut_float, (size_t)(o->node_count + 1) * e->run_count);
    LAYOUT_TAKE(l, e->cut_block, o->node_count + 1);
    e->part_count = o->node_count;
    for (uint32_t n = 0, cut = 0; n <= o->node_count && l->arena; n++) {
        e->cut_block[n] = cut_block[cut];
        memcpy(&e->cut_float[(size_t)n * e->run_count], &cut_float[(size_t)cut * e->run_count],
               e->run_count * sizeof *cut_float);
        cut += n < o->node_count && (slices >> n & 1);
    }
}

/* Where nodes have stages: the extents of all, and the numbers of rows that nodes tell each other. */
static void stages_layout(struct reduce *r, struct layout *l, const struct reduce_options *o)
{
    const uint32_t tables = o->graph->table_count;
    LAYOUT_TAKE(l, o->stages->extents, o->stages->count);
    for (uint32_t s = 0; s < o->stages->count; s++) {
        struct extent e = {0};
        extent_nodes_find(&e, o->graph, o->stages->first_layer[s],
                          s + 1 < o->stages->count ? o->stages->first_layer[s + 1] - 1 : o->graph->layer_count - 1);
        extent_layout(&e, l, o->graph, o->model, 1);
        if (l->arena) o->stages->extents[s] = e;
    }
    LAYOUT_TAKE(l, r->peers, o->node_count);
    if (tables > 0) LAYOUT_TAKE(l, r->row_count, tables);
    if (tables > 0) LAYOUT_TAKE(l, r->own_rows, tables);
    for (uint32_t n = 0; n < o->node_count; n++) {
        struct peer peer = {0};
        if (n != o->rank && tables > 0) LAYOUT_TAKE(l, peer.row_count, tables);
        talk_layout(r, l, n, &peer);
        if (l->arena) r->peers[n] = peer;
    }
    if (l->arena) r->exchange.rows.row_count = r->row_count;
    if (l->arena) r->exchange.rows.own_row_count = r->own_rows;
}

/* This node has the rows of its own stages' tables. */
static void tables_take(const struct reduce *r, const struct reduce_options *o)
{
    o->model->share = (struct model_share){
        .owner = o->rank, .owner_count = o->node_count, .owner_of_table = o->stages->node_of_table};
    for (uint32_t t = 0; t < r->graph->table_count; t++)
        if (o->stages->node_of_table[t] != o->rank) store_table_leave(o->model->store, t);
}

/* Where nodes are workers: talk between jobs, waves, looks, and the rows that workers ask for. */
static void workers_layout(struct reduce *r, struct layout *l, const struct reduce_options *o)
{
    struct exchange *x = &r->exchange;
    LAYOUT_TAKE(l, r->peers, o->node_count);
    LAYOUT_TAKE(l, r->shapes, o->node_count);
    if (o->graph->table_count > 0) LAYOUT_TAKE(l, r->own_rows, o->graph->table_count);
    if (o->graph->table_count > 0) LAYOUT_TAKE(l, r->owner_of, SHARD_COUNT);
    if (l->arena && r->owner_of) shards_share(r->owner_of, those_of(o, o->rows));
    x->look_shape.owner_of = x->rows.shape.owner_of = r->owner_of;
    for (uint32_t n = 0; n < o->node_count; n++) {
        struct peer peer = {0};
        if (l->arena) r->shapes[n] = (struct asked_shape){.graph = o->graph}; /* a step of all is never asked for */
        talk_layout(r, l, n, &peer);
        if (o->graph->table_count > 0) looks_layout(r, l, n, &peer);
        if (l->arena) r->peers[n] = peer;
    }
    if (o->graph->table_count > 0) ring_layout(l->arena ? &r->looks.ring : NULL, l, EXCHANGE_LOOKS_MAX, RING_ONE);
    waves_layout(r, l);
    asks_layout(r, l);
}

static void reduce_layout(struct reduce *r, struct layout *l, const struct reduce_options *o)
{
    struct exchange *x = &r->exchange;
    if (o->stages) {
        stages_layout(r, l, o);
        return;
    }
    if (o->has_waves) {
        workers_layout(r, l, o);
        return;
    }
    x->piece_count = pieces_list(o, NULL);
    LAYOUT_TAKE(l, r->peers, o->node_count);
    LAYOUT_TAKE(l, r->shapes, o->node_count);
    LAYOUT_TAKE(l, x->pieces, x->piece_count);
    LAYOUT_TAKE(l, x->joins, x->piece_count);
    LAYOUT_TAKE(l, r->runs, x->piece_count);
    for (uint32_t bucket = 0; bucket < x->bucket_count; bucket++) slices_layout(&x->slices[bucket], l, o);
    if (o->graph->table_count > 0) LAYOUT_TAKE(l, r->owner_of, SHARD_COUNT);
    if (l->arena) {
        (void)pieces_list(o, x->pieces);
        for (uint32_t i = 0; i < x->piece_count; i++) r->runs[i] = x->pieces[i].run;
        fold_joins(r->runs, x->piece_count, x->joins);
        if (r->owner_of) shards_share(r->owner_of, those_of(o, o->rows));
        x->look_shape.owner_of = r->owner_of;
        shapes_fill(r, o);
        x->rows.shape = r->shapes[o->rank];
    }
    if (o->graph->table_count > 0) rows_layout(r, l, o);
    for (uint32_t n = 0; n < o->node_count; n++) {
        struct peer peer = {0};
        talk_layout(r, l, n, &peer);
        if (l->arena) r->peers[n].talk = peer.talk;
    }
}

/* This node has rows of its own, which others ask for. */
static status owned_rows_open(struct reduce *r, const struct reduce_options *o)
{
    const struct owned_options options = {
        .graph = o->graph, .model = o->model, .node_count = o->node_count, .shape = r->shapes, .runs = r->runs};
    TRY(owned_open(&r->owned, &options));
    o->model->share = (struct model_share){.owner = o->rank, .owner_count = o->node_count, .owner_of = r->owner_of};
    return ST_OK;
}

static status rows_open(struct reduce *r, const struct reduce_options *o)
{
    struct exchange_rows *rows = &r->exchange.rows;
    TRY(owned_rows_open(r, o));
    for (uint32_t t = 0; t < o->graph->table_count; t++) r->own_pieces[t] = owned_pieces(r->owned, o->rank, t);
    rows->own_pieces = r->own_pieces;
    rows->of_owned = owned_gradients(r->owned);
    rows->row_count = r->row_count;
    return ST_OK;
}

static void sums_layout(struct reduce *r, struct layout *l)
{
    struct exchange *x = &r->exchange;
    const uint64_t floats = slices_floats(x, x->rank, 0, x->bucket_count);
    for (uint32_t i = 0; i < x->piece_count; i++) {
        struct exchange_piece piece = x->pieces[i];
        const bool is_own = piece.node == x->rank;
        if (!is_own) LAYOUT_TAKE(l, piece.sums, floats);
        if (x->is_bf16) LAYOUT_TAKE(l, piece.wire, is_own ? r->graph->header->param_floats : floats);
        if (l->arena) x->pieces[i] = piece;
    }
}

/* After the layout, which has cut the slices. */
static status sums_open(struct reduce *r)
{
    struct layout sum = {0}, taken = {.arena = &r->sums_arena};
    sums_layout(r, &sum);
    TRY(arena_open(&r->sums_arena, "sums of nodes", sum.bytes));
    sums_layout(r, &taken);
    return ST_OK;
}

/* For stages or workers, which need no slices. */
static status parts_unsliced_open(struct reduce *r, const struct reduce_options *o)
{
    struct layout sum = {0}, taken = {.arena = &r->arena};
    r->exchange.bucket_count = 1;
    reduce_layout(r, &sum, o);
    TRY(arena_open(&r->arena, "nodes", sum.bytes));
    reduce_layout(r, &taken, o);
    if (o->stages) tables_take(r, o);
    return o->has_waves && o->graph->table_count > 0 ? owned_rows_open(r, o) : ST_OK;
}

static status parts_open(struct reduce *r, const struct reduce_options *o)
{
    const struct batch_shape shape = graph_batch(o->graph);
    struct exchange *x = &r->exchange;
    struct layout sum = {0}, taken = {.arena = &r->arena};
    lanes_check(o);
    r->graph = o->graph;
    r->model = o->model;
    r->post = o->post;
    r->lane_begin = o->lane_begin;
    r->rank_of = o->rank_of;
    r->micros_a_lane = batch_micro_count(shape) / shape.lanes;
    r->is_bounded = clip_optimizer(o->graph) != NULL;
    x->vt = &reduce_vt;
    x->rank = o->rank;
    x->node_count = o->node_count;
    x->is_bf16 = o->is_bf16;
    x->stages = o->stages;
    x->own = o->stages || o->has_waves
                 ? (struct fold_lanes){0, shape.lanes}
                 : (struct fold_lanes){o->lane_begin[o->rank], o->lane_begin[o->rank + 1] - o->lane_begin[o->rank]};
    if (o->graph->table_count > 0 && !o->stages)
        x->look_shape = (struct asked_shape){
            .graph = o->graph, .owner_count = o->node_count, .example_max = shape.micro, .run_count = 1};
    if (o->graph->table_count > 0 && o->has_waves) {
        x->rows.shape = x->look_shape;
        x->rows.shape.is_whole = true;
    }
    if (o->stages || o->has_waves) return parts_unsliced_open(r, o);
    x->run_count = runs_of(o, o->rank, x->runs);
    x->rows.shape =
        (struct asked_shape){.graph = o->graph, .example_max = examples_of(o, o->rank), .run_count = x->run_count};
    buckets_find(x, o);
    reduce_layout(r, &sum, o);
    TRY(arena_open(&r->arena, "nodes", sum.bytes));
    reduce_layout(r, &taken, o);
    if (o->graph->table_count > 0) TRY(rows_open(r, o));
    if (o->graph->table_count == 0 || x->own.count == 0) x->rows.shape.graph = NULL; /* there is nothing to wait for */
    return sums_open(r);
}

status reduce_open(struct reduce **out, const struct reduce_options *o)
{
    struct reduce *r = aligned_alloc(CACHE_LINE_BYTES, arena_bytes(sizeof *r));
    *out = NULL;
    if (r == NULL) FAIL(MEMORY, "no memory for an exchange between nodes");
    memset(r, 0, sizeof *r);
    const status st = parts_open(r, o);
    if (st != ST_OK)
        reduce_close(r);
    else
        *out = r;
    return st;
}

void reduce_close(struct reduce *r)
{
    if (r == NULL) return;
    stream_close(r);
    owned_close(r->owned);
    arena_close(&r->sums_arena);
    arena_close(&r->arena);
    free(r);
}

struct exchange *reduce_exchange(struct reduce *r) { return &r->exchange; }

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

/* The runs of a node's lanes; of node_count nodes. */
static uint32_t runs_of(const struct exchange_division *d, uint32_t node, uint32_t lane_count,
                        struct fold_lanes runs[FOLD_RUNS_MAX])
{
    const struct fold_lanes lanes = {d->lane_begin[node], d->lane_begin[node + 1] - d->lane_begin[node]};
    return lanes.count ? fold_runs(lanes, lane_count, runs) : 0;
}

static uint32_t examples_of(const struct graph *g, const struct exchange_division *d, uint32_t node)
{
    return g->header->batch / g->header->lanes * (d->lane_begin[node + 1] - d->lane_begin[node]);
}

/* Lists the runs of all nodes, in order of lanes; `pieces` NULL: only counts them. */
static uint32_t pieces_list(const struct exchange_division *d, const struct reduce_options *o,
                            struct exchange_piece *pieces)
{
    struct fold_lanes runs[FOLD_RUNS_MAX];
    uint32_t count = 0;
    for (uint32_t n = 0; n < o->node_count; n++) {
        const uint32_t run_count = runs_of(d, n, o->graph->header->lanes, runs);
        for (uint32_t i = 0; i < run_count; i++, count++)
            if (pieces) pieces[count] = (struct exchange_piece){.run = runs[i], .node = n};
    }
    return count;
}

/* The division of the lanes, which may be a new one. */
static struct exchange_division *division_take(struct exchange *x, const struct reduce_options *o,
                                               const uint32_t *lane_begin)
{
    for (uint32_t i = 0; i < x->division_count; i++)
        if (memcmp(x->divisions[i].lane_begin, lane_begin, (o->node_count + 1) * sizeof *lane_begin) == 0)
            return &x->divisions[i];
    CHECK(x->division_count < EXCHANGE_BUCKETS_MAX);
    struct exchange_division *d = &x->divisions[x->division_count++];
    d->lane_begin = lane_begin;
    d->own = (struct fold_lanes){lane_begin[o->rank], lane_begin[o->rank + 1] - lane_begin[o->rank]};
    d->run_count = runs_of(d, o->rank, o->graph->header->lanes, d->runs);
    d->piece_count = pieces_list(d, o, NULL);
    return d;
}

static void divisions_layout(struct exchange *x, struct layout *l, const struct reduce_options *o)
{
    struct fold_lanes *runs;
    for (uint32_t i = 0; i < x->division_count; i++) {
        struct exchange_division *d = &x->divisions[i];
        LAYOUT_TAKE(l, d->pieces, d->piece_count);
        LAYOUT_TAKE(l, d->joins, d->piece_count);
        LAYOUT_TAKE(l, runs, d->piece_count);
        if (!l->arena) continue;
        (void)pieces_list(d, o, d->pieces);
        for (uint32_t p = 0; p < d->piece_count; p++) runs[p] = d->pieces[p].run;
        fold_joins(runs, d->piece_count, d->joins);
    }
}

/* Of those who ask for rows. */
static void shapes_fill(struct reduce *r, const struct reduce_options *o)
{
    const struct exchange_division *d = r->exchange.division_of[0];
    struct fold_lanes runs[FOLD_RUNS_MAX];
    for (uint32_t p = 0; p < d->piece_count; p++) r->runs[p] = d->pieces[p].run;
    for (uint32_t n = 0; n < o->node_count; n++) {
        struct asked_shape *asker = &r->shapes[n];
        *asker = (struct asked_shape){.graph = o->graph,
                                      .owner_count = o->node_count,
                                      .owner_of = r->owner_of,
                                      .example_max = examples_of(o->graph, d, n),
                                      .run_count = runs_of(d, n, o->graph->header->lanes, runs)};
        asked_shape_wants(asker);
    }
}

/* How many rows the tables have, and each node of them. */
static void counts_layout(struct reduce *r, struct layout *l, const struct reduce_options *o)
{
    const uint32_t tables = o->graph->table_count;
    LAYOUT_TAKE(l, r->row_count, tables);
    LAYOUT_TAKE(l, r->own_rows, tables);
    for (uint32_t n = 0; n < o->node_count; n++)
        for (int i = 0; i < 2 && n != o->rank; i++) {
            uint64_t *count;
            LAYOUT_TAKE(l, count, tables);
            if (l->arena) r->peers[n].row_count[i] = count;
        }
}

/* What a graph with tables needs. */
static void rows_layout(struct reduce *r, struct layout *l, const struct reduce_options *o)
{
    struct exchange_rows *rows = &r->exchange.rows;
    ring_layout(l->arena ? &r->asked_ring : NULL, l, ASKED_MAX, RING_ONE);
    LAYOUT_TAKE(l, r->own_pieces, o->graph->table_count);
    const size_t own = asked_floats_max(&rows->shape);
    for (int i = 0; i < 2; i++) LAYOUT_TAKE(l, rows->values[i], own);
    const bool has_early = !owned_lives(o->graph);
    if (has_early) LAYOUT_TAKE(l, r->late, own);
    LAYOUT_TAKE(l, rows->pieces, asked_piece_floats_max(&rows->shape) * rows->shape.run_count);
    for (uint32_t n = 0; n < o->node_count; n++) {
        struct peer peer = {0};
        const struct asked_shape asker = {.graph = o->graph,
                                          .example_max = examples_of(o->graph, r->exchange.division_of[0], n)};
        if (l->arena) peer = r->peers[n];
        if (n != o->rank) LAYOUT_TAKE(l, peer.values, asked_floats_max(&asker));
        if (n != o->rank && has_early)
            LAYOUT_TAKE(l, peer.shared, asked_bits_bytes(asked_keys_max(&rows->shape)) / sizeof *peer.shared);
        looks_layout(r, l, n, &peer);
        if (l->arena) r->peers[n] = peer;
    }
    ring_layout(l->arena ? &r->looks.ring : NULL, l, EXCHANGE_LOOKS_MAX, RING_ONE);
}

/* The nodes of a mask of the options; mask 0: all. */
static uint64_t those_of(const struct reduce_options *o, uint64_t mask)
{
    const uint64_t all = UINT64_MAX >> (64 - o->node_count);
    CHECK((mask & ~all) == 0);
    return mask ? mask : all;
}

/* Floats of the parameters of the forward nodes [node_begin, node_end). */
static uint64_t nodes_floats(const struct graph *g, uint32_t node_begin, uint32_t node_end)
{
    uint64_t floats = 0, begin, count;
    for (uint32_t u = 0; u < g->update_count; u++) {
        if (g->updates[u].table != GRAPH_NONE) continue;
        graph_params_of_nodes(g, node_begin, node_end, u, &begin, &count);
        floats += count;
    }
    return floats;
}

static uint64_t layer_floats(const struct graph *g, uint32_t layer)
{
    struct extent e = {0};
    extent_nodes_find(&e, g, layer, layer);
    return nodes_floats(g, e.forward_begin, e.forward_end);
}

static uint64_t layers_floats(const struct graph *g, uint32_t begin, uint32_t end)
{
    uint64_t floats = 0;
    for (uint32_t layer = begin; layer < end; layer++) floats += layer_floats(g, layer);
    return floats;
}

/* Cuts the layers [begin, end) in at most `most` buckets of at least `least` floats, from the last layer on;
 * the first bucket has what is left, if this has floats at all. Returns how many; first [buckets]: the first
 * layer of each, from the last bucket on. */
static uint32_t buckets_cut(const struct graph *g, uint32_t begin, uint32_t end, uint64_t least, uint32_t most,
                            uint32_t first[EXCHANGE_BUCKETS_MAX + 1])
{
    uint64_t left = layers_floats(g, begin, end), floats = 0;
    uint32_t count = 0;
    if (least < left / most + 1) least = left / most + 1;
    for (uint32_t layer = end; layer-- > begin;) {
        const uint64_t more = layer_floats(g, layer);
        floats += more;
        left -= more;
        if (floats < least || left == 0) continue;
        first[count++] = layer;
        floats = 0;
    }
    first[count++] = begin;
    return count;
}

/* Adds the buckets of the layers [begin, end), which have this division. */
static void buckets_add(struct exchange *x, const struct reduce_options *o, uint32_t begin, uint32_t end, uint32_t most,
                        const uint32_t *lane_begin)
{
    uint32_t first[EXCHANGE_BUCKETS_MAX + 1];
    const uint32_t count =
        buckets_cut(o->graph, begin, end, o->bucket_floats ? o->bucket_floats : UINT64_MAX, most, first);
    struct exchange_division *d = division_take(x, o, lane_begin);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t bucket = x->bucket_count + count - 1 - i;
        extent_nodes_find(&x->slices[bucket], o->graph, first[i], end - 1);
        x->division_of[bucket] = d;
        if (o->stages && d->own.count == 0) x->absent |= UINT32_C(1) << bucket;
        end = first[i];
    }
    x->bucket_count += count;
}

/* The layer behind a stage. */
static uint32_t stage_end(const struct reduce_options *o, uint32_t stage)
{
    return stage + 1 < o->stages->count ? o->stages->first_layer[stage + 1] : o->graph->layer_count;
}

/* The buckets of stages: the first one, without layers, and at least one for neighbouring stages that are
 * alike and have parameters. */
static void stages_buckets_find(struct exchange *x, const struct reduce_options *o)
{
    const struct exchange_stages *stages = o->stages;
    const uint32_t sections = exchange_stages_sections(stages);
    CHECK(sections < EXCHANGE_BUCKETS_MAX);
    x->bucket_count = 1;
    for (uint32_t s = 0, end; s < stages->count; s = end) {
        for (end = s + 1; end < stages->count && exchange_stages_are_alike(stages, s, end);) end++;
        const uint32_t first = stages->first_layer[s], behind = stage_end(o, end - 1);
        if (!exchange_stage_is_whole(stages, s) && layers_floats(o->graph, first, behind) > 0)
            buckets_add(x, o, first, behind, (EXCHANGE_BUCKETS_MAX - 1) / sections, exchange_stage_begin(stages, s));
    }
    if (o->graph->table_count > 0 && stages->node_of_table == NULL)
        x->division_of[0] = division_take(x, o, exchange_stage_begin(stages, stages->rows_stage));
}

/* Slices of a bucket, one behind the other, of the nodes that have parts of it; another node's is empty, and
 * begins where the next one does. */
static void slices_layout(struct extent *e, struct layout *l, const struct reduce_options *o, const uint16_t *parts)
{
    uint16_t weights[REDUCE_NODES_MAX];
    uint32_t count = 0;
    for (uint32_t n = 0; n < o->node_count; n++)
        if (parts[n]) weights[count++] = parts[n];
    extent_layout_by(e, l, o->graph, o->model, count, weights);
    const uint64_t *cut_float = e->cut_float;
    const uint32_t *cut_block = e->cut_block;
    LAYOUT_TAKE(l, e->cut_float, (size_t)(o->node_count + 1) * e->run_count);
    LAYOUT_TAKE(l, e->cut_block, o->node_count + 1);
    e->part_count = o->node_count;
    for (uint32_t n = 0, cut = 0; n <= o->node_count && l->arena; n++) {
        e->cut_block[n] = cut_block[cut];
        memcpy(&e->cut_float[(size_t)n * e->run_count], &cut_float[(size_t)cut * e->run_count],
               e->run_count * sizeof *cut_float);
        cut += n < o->node_count && parts[n];
    }
}

/* The extents of all stages, where nodes have stages. */
static void stages_layout(struct layout *l, const struct reduce_options *o)
{
    LAYOUT_TAKE(l, o->stages->extents, o->stages->count);
    for (uint32_t s = 0; s < o->stages->count; s++) {
        struct extent e = {0};
        extent_nodes_find(&e, o->graph, o->stages->first_layer[s], stage_end(o, s) - 1);
        extent_layout(&e, l, o->graph, o->model, 1);
        if (l->arena) o->stages->extents[s] = e;
    }
}

/* The nodes that have lanes of a division; NULL: all. */
static uint64_t nodes_of(const struct exchange_division *d, const struct reduce_options *o)
{
    uint64_t nodes = 0;
    for (uint32_t n = 0; n < o->node_count; n++) nodes |= (uint64_t)(d == NULL || division_has(d, n)) << n;
    return nodes;
}

/* How many buckets as large as the largest one the division's floats make. Values wait for all sums where the
 * norm is bounded: then there is one. */
static double buckets_of(const struct exchange *x, const struct exchange_division *d, const struct graph *g)
{
    uint64_t all = 0, largest = 0;
    for (uint32_t bucket = 0; bucket < x->bucket_count; bucket++) {
        if (x->division_of[bucket] != d) continue;
        const uint64_t floats = nodes_floats(g, x->slices[bucket].forward_begin, x->slices[bucket].forward_end);
        all += floats;
        if (floats > largest) largest = floats;
    }
    return largest == 0 || clip_optimizer(g) ? 1 : (double)all / (double)largest;
}

/* The parts [node_count] that nodes have of the slices of buckets, or of the rows, of a division. NULL: of a
 * bucket without layers. */
static const uint16_t *parts_of(struct reduce *r, const struct exchange_division *d, const struct reduce_options *o,
                                enum share_what what)
{
    const uint64_t holders = o->stages ? nodes_of(d, o) : those_of(o, what == SHARE_ROWS ? o->rows : o->slices);
    const struct share_options options = {.what = what,
                                          .node_count = o->node_count,
                                          .lane_begin = d ? d->lane_begin : NULL,
                                          .holders = holders,
                                          .bandwidth = d ? o->bandwidth : NULL,
                                          .buckets = buckets_of(&r->exchange, d, o->graph)};
    r->is_uneven[what] |= share_make(r->parts[what], &options);
    return r->parts[what];
}

/* This node has the rows of the tables that its own stages have whole, and no others. */
static void tables_take(const struct reduce *r, const struct reduce_options *o)
{
    const uint8_t *node_of = o->stages->node_of_table;
    o->model->share = (struct model_share){
        .owner = o->rank, .owner_count = o->node_count, .owner_of_table = node_of, .owner_of = r->owner_of};
    for (uint32_t t = 0; t < r->graph->table_count; t++)
        if (node_of == NULL || node_of[t] != o->rank) store_table_leave(o->model->store, t);
}

/* Where nodes are workers: talk between jobs, waves, looks, and the rows that workers ask for. */
static void workers_layout(struct reduce *r, struct layout *l, const struct reduce_options *o)
{
    struct exchange *x = &r->exchange;
    LAYOUT_TAKE(l, r->peers, o->node_count);
    LAYOUT_TAKE(l, r->shapes, o->node_count);
    if (o->graph->table_count > 0) LAYOUT_TAKE(l, r->own_rows, o->graph->table_count);
    if (o->graph->table_count > 0) LAYOUT_TAKE(l, r->owner_of, SHARD_COUNT);
    if (l->arena && r->owner_of) {
        uint16_t parts[REDUCE_NODES_MAX];
        for (uint32_t n = 0; n < o->node_count; n++) parts[n] = those_of(o, o->rows) >> n & 1;
        shards_share(r->owner_of, parts, o->node_count);
    }
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
    const bool has_tables = o->graph->table_count > 0, has_owners = has_tables && x->division_of[0];
    if (o->has_waves) {
        workers_layout(r, l, o);
        return;
    }
    LAYOUT_TAKE(l, r->peers, o->node_count);
    if (o->stages) stages_layout(l, o);
    divisions_layout(x, l, o);
    for (uint32_t bucket = 0; bucket < x->bucket_count; bucket++)
        slices_layout(&x->slices[bucket], l, o, parts_of(r, x->division_of[bucket], o, SHARE_SLICES));
    if (has_owners) {
        LAYOUT_TAKE(l, r->shapes, o->node_count);
        LAYOUT_TAKE(l, r->runs, x->division_of[0]->piece_count);
        LAYOUT_TAKE(l, r->owner_of, SHARD_COUNT);
    }
    if (l->arena && has_owners) {
        shards_share(r->owner_of, parts_of(r, x->division_of[0], o, SHARE_ROWS), o->node_count);
        x->look_shape.owner_of = r->owner_of;
        shapes_fill(r, o);
        x->rows.shape = r->shapes[o->rank];
    }
    if (has_tables) counts_layout(r, l, o);
    if (has_owners && may_own_rows(r, o->rank)) rows_layout(r, l, o);
    if (has_owners) evict_layout(r, l);
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
    return ST_OK;
}

static void sums_layout(struct reduce *r, struct layout *l, const struct exchange_division *d)
{
    struct exchange *x = &r->exchange;
    const uint64_t floats = slices_floats(x, x->rank, d, x->bucket_count);
    for (uint32_t i = 0; i < d->piece_count; i++) {
        struct exchange_piece piece = d->pieces[i];
        const bool is_own = piece.node == x->rank;
        if (!is_own) LAYOUT_TAKE(l, piece.sums, floats);
        if (x->is_bf16) LAYOUT_TAKE(l, piece.wire, is_own ? r->graph->header->param_floats : floats);
        if (l->arena) d->pieces[i] = piece;
    }
}

/* After the layout, which has cut the slices. */
static status sums_open(struct reduce *r)
{
    struct layout sum = {0}, taken = {.arena = &r->sums_arena};
    for (uint32_t i = 0; i < r->exchange.division_count; i++) sums_layout(r, &sum, &r->exchange.divisions[i]);
    TRY(arena_open(&r->sums_arena, "sums of nodes", sum.bytes));
    for (uint32_t i = 0; i < r->exchange.division_count; i++) sums_layout(r, &taken, &r->exchange.divisions[i]);
    return ST_OK;
}

static status memory_open(struct reduce *r, const struct reduce_options *o)
{
    struct layout sum = {0}, taken = {.arena = &r->arena};
    reduce_layout(r, &sum, o);
    TRY(arena_open(&r->arena, "nodes", sum.bytes));
    reduce_layout(r, &taken, o);
    return ST_OK;
}

/* For workers, which need no slices. */
static status workers_open(struct reduce *r, const struct reduce_options *o)
{
    struct exchange *x = &r->exchange;
    x->bucket_count = 1;
    x->own = (struct fold_lanes){0, o->graph->header->lanes};
    x->asks_rows = true;
    if (o->graph->table_count > 0) {
        x->rows.shape = x->look_shape;
        x->rows.shape.is_whole = true;
        x->rows.lanes = x->own;
    }
    TRY(memory_open(r, o));
    return o->graph->table_count > 0 ? owned_rows_open(r, o) : ST_OK;
}

/* The own lanes, and who shares which buckets. */
static void buckets_find(struct exchange *x, const struct reduce_options *o)
{
    if (o->stages) {
        x->own = exchange_stages_hull(o->stages, o->rank);
        stages_buckets_find(x, o);
    } else {
        buckets_add(x, o, 0, o->graph->layer_count, EXCHANGE_BUCKETS_MAX, o->lane_begin);
        x->own = x->divisions[0].own;
    }
}

static status parts_open(struct reduce *r, const struct reduce_options *o)
{
    const struct batch_shape shape = graph_batch(o->graph);
    struct exchange *x = &r->exchange;
    const bool has_tables = o->graph->table_count > 0;
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
    if (has_tables)
        x->look_shape = (struct asked_shape){
            .graph = o->graph, .owner_count = o->node_count, .example_max = shape.micro, .run_count = 1};
    if (o->has_waves) return workers_open(r, o);
    buckets_find(x, o);
    x->asks_rows = o->stages == NULL || (has_tables && asks_rows(r, o->rank));
    if (!x->asks_rows) x->look_shape.graph = NULL;
    if (x->division_of[0]) {
        x->rows.lanes = x->division_of[0]->own;
        x->rows.shape = (struct asked_shape){.graph = o->graph,
                                             .example_max = examples_of(o->graph, x->division_of[0], o->rank),
                                             .run_count = x->division_of[0]->run_count};
    }
    TRY(memory_open(r, o));
    if (has_tables && x->asks_rows) TRY(rows_open(r, o));
    if (o->stages && !x->asks_rows) tables_take(r, o);
    x->rows.row_count = r->row_count;
    x->rows.own_row_count = r->own_rows;
    if (!has_tables || !x->asks_rows || x->rows.lanes.count == 0)
        x->rows.shape.graph = NULL; /* there is nothing to wait for */
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

const uint16_t *reduce_parts(const struct reduce *r, enum share_what what)
{
    return r->is_uneven[what] ? r->parts[what] : NULL;
}

/* Which rows are on the card, and what moves. */
#include "engine/device/card/card_rows.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engine/device/cpu/cpu_device.h"
#include "graph/row_vector.h"
#include "io/store/store_rows.h"
#include "io/store/store_save.h"

/* Most rows that are packed and moved at a time. */
#define CHUNK_ROWS 8192u

static status finish(const struct gpu_work *w, struct gpu_event *event)
{
    TRY(gpu_record(w->gpu, w->stream, event));
    return gpu_wait(w->gpu, event);
}

/* --- opening ------------------------------------------------------------------------------------ */

static bool has_tier(const struct card_rows *r, uint32_t table)
{
    return r->training && !r->is_shared && !store_takes_turns(r->model->store) &&
           !row_life_is_on(&r->graph->tables[table].life);
}

/* Whether the stage has look-ups of the table, and all of them. */
static status table_is_own(const struct graph *g, uint32_t table, uint32_t node_begin, uint32_t node_end, bool *is_own)
{
    uint32_t own = 0, all = 0;
    for (uint32_t i = 0; i < g->forward_count; i++) {
        struct embed_bag_attr attr;
        if (!(op_table[g->nodes[i].op].traits & OP_LOOKS_UP)) continue;
        memcpy(&attr, g->nodes[i].attr, sizeof attr);
        if (attr.table != table) continue;
        all++;
        own += i >= node_begin && i < node_end;
    }
    *is_own = own > 0;
    if (own == 0 || own == all) return ST_OK;
    FAIL(INVALID, "table %s is looked up on a card and by other stages: give all its layers to one stage, or to cpu",
         graph_string(g, g->tables[table].name));
}

static void maps_layout(struct card_rows *r, struct layout *l)
{
    for (uint32_t i = 0; i < r->table_count; i++) {
        struct card_table *t = &r->tables[i];
        const size_t rows = t->tier_rows ? store_row_max(r->model->store, t->table) : 0;
        LAYOUT_TAKE(l, t->lookups, t->use_count);
        LAYOUT_TAKE(l, t->grad, t->use_count);
        LAYOUT_TAKE(l, t->slot_of, rows);
        LAYOUT_TAKE(l, t->seen, rows);
        LAYOUT_TAKE(l, t->row_of, t->tier_rows);
        LAYOUT_TAKE(l, t->home, t->tier_rows);
        LAYOUT_TAKE(l, t->is_used, t->tier_rows);
        LAYOUT_TAKE(l, t->is_changed, t->tier_rows);
        LAYOUT_TAKE(l, t->shared_slot, t->step_rows_max);
        LAYOUT_TAKE(l, t->shared_row, t->step_rows_max);
        LAYOUT_TAKE(l, t->cold_span, t->chunk);
        LAYOUT_TAKE(l, t->cold_occurrences, t->chunk);
        LAYOUT_TAKE(l, t->cold_clicks, t->chunk);
        LAYOUT_TAKE(l, t->cold_key, t->chunk);
        LAYOUT_TAKE(l, t->leaving, t->chunk);
        LAYOUT_TAKE(l, t->coming, t->chunk);
        LAYOUT_TAKE(l, t->coming_row, t->chunk);
    }
    LAYOUT_TAKE(l, r->table_grad, r->graph->lookup_count);
}

static uint64_t sum_of_spans(const struct card_rows *r)
{
    uint64_t floats = 0;
    for (uint32_t i = 0; i < r->table_count; i++)
        if (has_tier(r, r->tables[i].table))
            floats += (uint64_t)r->tables[i].stride * r->graph->tables[r->tables[i].table].key_count_max;
    return floats;
}

static status tables_find(struct card_rows *r, uint32_t node_begin, uint32_t node_end, uint64_t tier_bytes)
{
    const struct graph *g = r->graph;
    r->tables = calloc(g->table_count + 1, sizeof *r->tables);
    if (r->tables == NULL) FAIL(MEMORY, "no memory to describe tables on a card");
    for (uint32_t i = 0; i < g->table_count; i++) {
        bool is_own;
        TRY(table_is_own(g, i, node_begin, node_end, &is_own));
        if (!is_own) continue;
        struct card_table *t = &r->tables[r->table_count++];
        *t = (struct card_table){.table = i,
                                 .dim = g->tables[i].dim,
                                 .vector = row_vector_floats(&g->tables[i]),
                                 .floats = g->tables[i].span_floats,
                                 .stride = (g->tables[i].span_floats + 3) / 4 * 4,
                                 .use_count = graph_table_lookups(g, i, NULL),
                                 .uniques_max = g->header->micro * g->tables[i].key_count_max,
                                 .step_rows_max = g->header->batch * g->tables[i].key_count_max};
        t->chunk = t->step_rows_max < CHUNK_ROWS ? t->step_rows_max : CHUNK_ROWS;
    }
    const uint64_t floats = sum_of_spans(r);
    for (uint32_t i = 0; i < r->table_count; i++) {
        struct card_table *t = &r->tables[i];
        if (!has_tier(r, t->table)) continue;
        /* Tables get rows in proportion to the most keys that an example has. */
        const uint64_t rows = tier_bytes / sizeof(float) * g->tables[t->table].key_count_max / floats,
                       most = store_row_max(r->model->store, t->table);
        t->tier_rows = rows < most ? (uint32_t)rows : (uint32_t)most;
    }
    return ST_OK;
}

status card_rows_open(struct card_rows *r, const struct card_rows_options *o)
{
    const struct graph *g = o->graph;
    *r = (struct card_rows){.graph = g,
                            .model = o->model,
                            .lanes = o->training ? o->lanes : 0,
                            .training = o->training,
                            .is_shared = o->is_shared};
    TRY(tables_find(r, o->node_begin, o->node_end, o->tier_bytes));
    if (r->table_count == 0) return ST_OK;
    struct layout sum = {0};
    maps_layout(r, &sum);
    TRY(memory_take("rows on a card", sum.bytes, &r->maps));
    r->maps_bytes = sum.bytes;
    struct layout taken = {.base = r->maps};
    maps_layout(r, &taken);
    for (uint32_t i = 0; i < r->table_count; i++) {
        struct card_table *t = &r->tables[i];
        (void)graph_table_lookups(g, t->table, t->lookups);
        if (t->tier_rows) memset(t->slot_of, 0xff, store_row_max(o->model->store, t->table) * sizeof *t->slot_of);
    }
    return o->training && !o->is_shared ? cpu_device_open(&r->host, g, 1, NULL, NULL) : ST_OK;
}

void card_rows_close(struct card_rows *r)
{
    device_close(r->host);
    memory_give("rows on a card", r->maps, r->maps_bytes);
    free(r->tables);
    *r = (struct card_rows){0};
}

void card_rows_layout(struct card_rows *r, struct layout *card, struct layout *pinned)
{
    for (uint32_t i = 0; i < r->table_count && r->training; i++) {
        struct card_table *t = &r->tables[i];
        const uint32_t packed = t->floats > t->dim ? t->floats : t->dim; /* spans, or sums */
        LAYOUT_TAKE(card, t->tier, (size_t)t->tier_rows * t->stride);
        for (uint32_t use = 0; use < t->use_count; use++)
            LAYOUT_TAKE(card, t->grad[use], (size_t)t->step_rows_max * t->dim);
        LAYOUT_TAKE(card, t->grad_list, t->use_count);
        LAYOUT_TAKE(card, t->span_list, (size_t)t->step_rows_max + t->chunk);
        LAYOUT_TAKE(card, t->counts, t->step_rows_max);
        if (r->graph->tables[t->table].store == TABLE_BF16) LAYOUT_TAKE(card, t->key, t->step_rows_max);
        LAYOUT_TAKE(card, t->packed, (size_t)t->chunk * packed);
        if (r->lanes > 1) LAYOUT_TAKE(card, t->last_lane_row, t->step_rows_max);
        if (r->lanes > 1) LAYOUT_TAKE(card, t->lane_rows, t->step_rows_max);
        LAYOUT_TAKE(pinned, t->span_list_host, t->step_rows_max);
        LAYOUT_TAKE(pinned, t->chunk_list_host, t->chunk);
        LAYOUT_TAKE(pinned, t->index_host, t->step_rows_max);
        LAYOUT_TAKE(pinned, t->packed_host, (size_t)t->chunk * packed);
        for (uint32_t use = 0; use < t->use_count; use++) r->table_grad[t->lookups[use]] = t->grad[use];
    }
}

void card_stream_rows_layout(const struct card_rows *r, struct card_stream_rows *s, struct layout *card,
                             struct layout *pinned)
{
    for (uint32_t i = 0; i < r->table_count; i++) {
        const struct card_table *t = &r->tables[i];
        struct card_stream_table *of = &s->table[i];
        LAYOUT_TAKE(card, of->span, t->uniques_max);
        LAYOUT_TAKE(card, of->cold, (size_t)t->uniques_max * t->vector);
        LAYOUT_TAKE(pinned, of->span_host, t->uniques_max);
        LAYOUT_TAKE(pinned, of->cold_host, (size_t)t->uniques_max * t->vector);
    }
}

status card_rows_begin(struct card_rows *r, struct gpu *gpu, struct gpu_stream *stream, struct gpu_event *event)
{
    const struct gpu_work w = {.gpu = gpu, .stream = stream};
    for (uint32_t i = 0; i < r->table_count && r->training; i++) {
        const struct card_table *t = &r->tables[i];
        for (uint32_t use = 0; use < t->use_count; use++)
            TRY(gpu_clear(gpu, stream, t->grad[use], (size_t)t->step_rows_max * t->dim * sizeof(float)));
        TRY(gpu_copy(gpu, stream, t->grad_list, t->grad, t->use_count * sizeof *t->grad_list));
        TRY(finish(&w, event));
    }
    return ST_OK;
}

/* --- a micro-batch ------------------------------------------------------------------------------- */

static float *tier_span(const struct card_table *t, uint32_t slot) { return t->tier + (size_t)slot * t->stride; }

static status copy(const struct gpu_work *w, void *to, const void *from, size_t bytes)
{
    return bytes == 0 ? ST_OK : gpu_copy(w->gpu, w->stream, to, from, bytes);
}

/* Lists where the micro-batch's rows are, for their update on this card (is_updated), too, and packs
 * the vectors of cold rows.
 * Returns the number of cold rows. */
static uint32_t spans_fill(const struct card_table *t, const struct card_stream_table *of,
                           const struct ticket_table *from, bool is_updated)
{
    uint32_t cold = 0;
    for (uint32_t u = 0; u < from->unique_count; u++) {
        uint32_t slot = CARD_NONE;
        if (is_updated && t->tier_rows && from->row[u] != ROW_NONE) slot = t->slot_of[from->row[u]];
        if (is_updated) {
            /* Relaxed, both: every stream that has the row writes the same,
             * and the update comes after all passes. */
            atomic_store_explicit(&t->shared_slot[from->step_row[u]], slot, memory_order_relaxed);
            if (slot == CARD_NONE)
                atomic_store_explicit(&t->shared_row[from->step_row[u]], from->row[u], memory_order_relaxed);
        }
        if (slot != CARD_NONE) {
            of->span_host[u] = tier_span(t, slot);
            continue;
        }
        memcpy(of->cold_host + (size_t)cold * t->vector, from->span[u], t->vector * sizeof(float));
        of->span_host[u] = of->cold + (size_t)cold++ * t->vector;
    }
    return cold;
}

status card_rows_forward(struct card_rows *r, const struct gpu_work *w, struct card_stream_rows *s,
                         const struct op_context *c, struct ticket *to, uint64_t *bytes)
{
    const size_t keys = c->batch->key_count;
    for (uint32_t i = 0; i < r->table_count; i++) {
        const struct card_table *t = &r->tables[i];
        const struct card_stream_table *of = &s->table[i];
        const struct ticket_table *from = &c->ticket->table[t->table];
        struct ticket_table *card = &to->table[t->table];
        const size_t uniques = from->unique_count, cold = spans_fill(t, of, from, c->training && !r->is_shared);
        card->span = of->span;
        TRY(copy(w, of->span, of->span_host, uniques * sizeof *of->span));
        TRY(copy(w, of->cold, of->cold_host, cold * t->vector * sizeof *of->cold));
        TRY(copy(w, card->unique_of, from->unique_of, keys * sizeof *card->unique_of));
        *bytes += uniques * sizeof *of->span + cold * t->vector * sizeof *of->cold + keys * sizeof *card->unique_of;
        if (!c->training) continue;
        const size_t occurrences = from->occurrence_begin[uniques];
        TRY(copy(w, card->occurrence_begin, from->occurrence_begin, (uniques + 1) * sizeof *card->occurrence_begin));
        TRY(copy(w, card->occurrence, from->occurrence, occurrences * sizeof *card->occurrence));
        TRY(copy(w, card->lane_row, from->lane_row, uniques * sizeof *card->lane_row));
        *bytes += (2 * uniques + 1 + occurrences) * sizeof *card->occurrence;
    }
    return ST_OK;
}

/* --- moving rows --------------------------------------------------------------------------------- */

/* Moves rows from their places on the card, in chunk_list_host, to packed_host (is_home), or back. */
static status rows_pack(const struct gpu_work *w, struct gpu_event *event, const struct card_table *t, uint32_t count,
                        bool is_home)
{
    float **list = t->span_list + t->step_rows_max;
    const size_t bytes = (size_t)count * t->floats * sizeof(float);
    TRY(copy(w, list, t->chunk_list_host, count * sizeof *list));
    if (!is_home) TRY(copy(w, t->packed, t->packed_host, bytes));
    TRY(gpu_rows_pack(w, list, t->packed, count, t->floats, is_home));
    if (is_home) TRY(copy(w, t->packed_host, t->packed, bytes));
    return finish(w, event);
}

/* Copies the rows in these places of the tier home. */
static status rows_go_home(struct card_rows *r, const struct gpu_work *w, struct gpu_event *event, struct card_table *t,
                           const uint32_t *slots, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) t->chunk_list_host[i] = tier_span(t, slots[i]);
    TRY(rows_pack(w, event, t, count, true));
    for (uint32_t i = 0; i < count; i++) t->cold_span[i] = t->home[slots[i]];
    store_rows_change(r->model->store, t->table, t->cold_span, count);
    for (uint32_t i = 0; i < count; i++) {
        memcpy(t->cold_span[i], t->packed_host + (size_t)i * t->floats, t->floats * sizeof(float));
        t->is_changed[slots[i]] = 0;
    }
    r->moved_home += count;
    return ST_OK;
}

/* Finds a place for a row: a free place, or that of a row that goes home. CARD_NONE: all places that the hand
 * may still look at were used since it last passed. The place counts as used at once, and the hand looks at
 * each place once a step at most, so no place is given twice. */
static uint32_t place_find(struct card_table *t, uint32_t *looks)
{
    uint32_t slot = CARD_NONE;
    if (t->resident_count < t->tier_rows) slot = t->resident_count++;
    for (; slot == CARD_NONE && *looks > 0; --*looks) {
        const uint32_t at = t->hand;
        t->hand = at + 1 < t->tier_rows ? at + 1 : 0;
        if (!t->is_used[at]) slot = at;
        t->is_used[at] = 0;
    }
    if (slot != CARD_NONE) t->is_used[slot] = 1;
    return slot;
}

/* Relaxed: passes of the step are over. */
static uint32_t row_of_step(const struct card_table *t, uint32_t step_row)
{
    return atomic_load_explicit(&t->shared_row[step_row], memory_order_relaxed);
}

/* Chooses, among the step's cold rows from *at on, at most a chunk of rows that move in, and
 * the rows that make room for them. */
static uint32_t coming_choose(struct card_table *t, uint32_t cold_count, uint32_t *at, uint32_t *looks,
                              uint32_t *leaving)
{
    uint32_t coming = 0;
    *leaving = 0;
    for (; *at < cold_count && coming < t->chunk; ++*at) {
        const uint32_t step_row = t->index_host[*at], row = row_of_step(t, step_row);
        if (row == ROW_NONE) continue;
        const bool is_first = !t->seen[row];
        t->seen[row] = 1;
        if (is_first) continue;
        const uint32_t slot = place_find(t, looks);
        if (slot == CARD_NONE) continue;
        if (t->home[slot] != NULL) {
            t->slot_of[t->row_of[slot]] = CARD_NONE;
            t->seen[t->row_of[slot]] = 0;
            if (t->is_changed[slot]) t->leaving[(*leaving)++] = slot;
        }
        t->coming[coming] = slot;
        t->coming_row[coming++] = step_row;
    }
    return coming;
}

/* After the update: moves in the cold rows that an earlier step has had.
 * index_host has the step's cold rows. */
static status rows_move_in(struct card_rows *r, const struct gpu_work *w, struct gpu_event *event, struct card_table *t,
                           const struct table_update *update, uint32_t cold_count)
{
    uint32_t looks = t->tier_rows < 2 * cold_count ? t->tier_rows : 2 * cold_count;
    for (uint32_t at = 0; at < cold_count;) {
        uint32_t leaving, coming = coming_choose(t, cold_count, &at, &looks, &leaving);
        if (leaving > 0) TRY(rows_go_home(r, w, event, t, t->leaving, leaving));
        for (uint32_t i = 0; i < coming; i++) {
            const uint32_t slot = t->coming[i], row = row_of_step(t, t->coming_row[i]);
            float *home = update->span[t->coming_row[i]];
            t->chunk_list_host[i] = tier_span(t, slot);
            memcpy(t->packed_host + (size_t)i * t->floats, home, t->floats * sizeof(float));
            t->slot_of[row] = slot;
            t->row_of[slot] = row;
            t->home[slot] = home;
            t->is_changed[slot] = 0;
        }
        if (coming > 0) TRY(rows_pack(w, event, t, coming, false));
        r->moved_in += coming;
    }
    return ST_OK;
}

/* --- updates ------------------------------------------------------------------------------------- */

/* Makes the card's form of the update: its sums are on the card,
 * and so are the lists that find a row's sums. */
static status sums_give(const struct gpu_work *w, const struct card_table *t, const struct table_update *update,
                        struct table_update *card)
{
    *card = *update;
    card->grad = t->grad_list;
    if (update->lane_rows == NULL) return ST_OK;
    card->last_lane_row = t->last_lane_row;
    card->lane_rows = t->lane_rows;
    TRY(copy(w, t->last_lane_row, update->last_lane_row, update->row_count * sizeof *t->last_lane_row));
    return copy(w, t->lane_rows, update->lane_rows, update->lane_row_count * sizeof *t->lane_rows);
}

/* The CPU updates the cold rows index_host[begin, begin + count), whose sums the card adds up. */
static status cold_update(struct card_rows *r, const struct gpu_work *w, struct gpu_event *event, struct card_table *t,
                          const struct table_update *update, const struct table_update *card, uint32_t begin,
                          uint32_t count)
{
    const uint32_t *index = t->index_host + begin;
    TRY(copy(w, t->counts, index, count * sizeof *index));
    TRY(gpu_rows_take(w, card, t->counts, count, t->packed));
    TRY(copy(w, t->packed_host, t->packed, (size_t)count * t->dim * sizeof(float)));
    TRY(finish(w, event));
    struct table_update cold = *update;
    cold.row_count = count;
    cold.span = t->cold_span;
    cold.grad = &t->packed_host;
    cold.lanes = cold.use_count = 1;
    cold.last_lane_row = NULL;
    cold.lane_rows = NULL;
    for (uint32_t i = 0; i < count; i++) {
        t->cold_span[i] = update->span[index[i]];
        if (update->occurrence_count) t->cold_occurrences[i] = update->occurrence_count[index[i]];
        if (update->click_count) t->cold_clicks[i] = update->click_count[index[i]];
        if (update->key) t->cold_key[i] = update->key[index[i]];
    }
    if (update->occurrence_count) cold.occurrence_count = t->cold_occurrences;
    if (update->click_count) cold.click_count = t->cold_clicks;
    if (update->key) cold.key = t->cold_key;
    return device_update_rows(r->host, &cold);
}

/* The card updates the resident rows, whose span_list_host is not NULL. */
static status resident_update(const struct gpu_work *w, const struct card_table *t, struct table_update card)
{
    TRY(copy(w, t->span_list, t->span_list_host, card.row_count * sizeof *t->span_list));
    card.span = t->span_list;
    if (card.occurrence_count) {
        TRY(copy(w, t->counts, card.occurrence_count, card.row_count * sizeof *t->counts));
        card.occurrence_count = t->counts;
    }
    if (t->key) {
        TRY(copy(w, t->key, card.key, card.row_count * sizeof *t->key));
        card.key = t->key;
    }
    return gpu_update_rows(w, &card);
}

status card_rows_update(struct card_rows *r, const struct gpu_work *w, struct gpu_event *event,
                        const struct table_update *update)
{
    const uint32_t table = (uint32_t)(update->table - r->graph->tables);
    struct card_table *t = r->tables;
    while (t->table != table) t++;
    uint32_t cold_count = 0;
    for (uint32_t i = 0; i < update->row_count; i++) {
        const uint32_t slot = atomic_load_explicit(&t->shared_slot[i], memory_order_relaxed);
        t->span_list_host[i] = slot == CARD_NONE ? NULL : tier_span(t, slot);
        if (slot == CARD_NONE)
            t->index_host[cold_count++] = i;
        else
            t->is_used[slot] = t->is_changed[slot] = 1;
    }
    struct table_update card;
    TRY(sums_give(w, t, update, &card));
    if (cold_count < update->row_count) TRY(resident_update(w, t, card));
    for (uint32_t begin = 0; begin < cold_count; begin += t->chunk)
        TRY(cold_update(r, w, event, t, update, &card, begin,
                        cold_count - begin < t->chunk ? cold_count - begin : t->chunk));
    r->cold_rows += cold_count;
    r->resident_rows += update->row_count - cold_count;
    TRY(finish(w, event));
    return t->tier_rows ? rows_move_in(r, w, event, t, update, cold_count) : ST_OK;
}

status card_rows_fetch(struct card_rows *r, const struct gpu_work *w, struct gpu_event *event,
                       const struct table_fetch *fetch)
{
    const struct card_table *t = r->tables;
    const size_t bytes = (size_t)fetch->lane_row_count * r->graph->tables[fetch->table].dim * sizeof(float);
    while (t->table != fetch->table) t++;
    for (uint32_t use = 0; use < fetch->use_count && bytes > 0; use++) {
        TRY(copy(w, fetch->to[use], t->grad[use], bytes));
        TRY(gpu_clear(w->gpu, w->stream, t->grad[use], bytes));
    }
    r->cold_rows += fetch->row_count;
    return finish(w, event);
}

status card_rows_settle(struct card_rows *r, const struct gpu_work *w, struct gpu_event *event)
{
    for (uint32_t i = 0; i < r->table_count && r->training; i++) {
        struct card_table *t = &r->tables[i];
        uint32_t count = 0;
        for (uint32_t slot = 0; slot < t->resident_count; slot++) {
            if (t->is_changed[slot]) t->leaving[count++] = slot;
            if (count == 0 || (count < t->chunk && slot + 1 < t->resident_count)) continue;
            TRY(rows_go_home(r, w, event, t, t->leaving, count));
            count = 0;
        }
    }
    return ST_OK;
}

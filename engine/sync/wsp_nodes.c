/* Waves between nodes (waves.h), as a worker has them: it gives what its wave has changed, and adds what others' waves
 * have before its next forward pass at each stage.
 *
 *     stage s   update … update, end of wave w ──▶ change = weights - base, base = weights ──last stage──▶ wave w may go
 *     stage s   before its next forward pass:      weights += sums of round r, base += those, for each r that is here
 *
 * `base` is as between pipelines (wsp.c). Where in a wave's floats a weight is follows from the graph alone, so nodes
 * may have plans of their own: parameters lie where the model has them, and the state behind.
 *
 * Rows of tables every node has itself, of all nodes, in RAM: a letter has what a wave has changed of those that it has
 * touched, and who adds that makes the rows that it has not seen. Each node adds waves in the same order, round by round
 * and in order of workers, also its own: beside a row that own waves have changed it keeps what rounds alone make of it,
 * which the row becomes when the last of these waves is among them. So rows have the same bytes on all nodes at a job's
 * end.
 *
 * At a job's end the sums of all waves are added, and the dense part becomes the values of the slices' owners on all. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cfg/settings.h"
#include "engine/base/clock.h"
#include "engine/sync/waves.h"
#include "engine/sync/wsp_internal.h"
#include "graph/optimizer.h"
#include "io/store/store_rows.h"
#include "io/store/store_save.h"
#include "io/store/store_ticket.h"

/* A row that own waves have changed whose rounds are not all here: what it would be without them is kept beside it. */
struct own_row {
    float *span;
    uint64_t key, last_wave; /* that has changed it                     */
    uint32_t next;           /* of its bucket, or of those that are free */
};
/* Those of a table; ROW_NONE: there is none. */
struct own_rows {
    uint32_t max, count, free, used; /* used: numbers below it have been given */
    uint32_t *bucket;                /* [bucket_mask + 1]                   */
    uint32_t bucket_mask;
    struct own_row *row;             /* [max]                               */
    float *settled;                  /* [max, span_floats]: values by rounds alone                      */
    float *base;                     /* [max, span_floats]: of those of the wave under way, before it   */
    uint32_t *of_wave;               /* [of_wave_count]: these                                          */
    uint32_t of_wave_count, of_wave_max;
    /* what the store fills, some keys at a time */
    struct ticket_table found;
    uint32_t *unique, found_max;
};

/* Of a letter: the rows of a table behind it, keys and then floats. */
struct letter_rows {
    uint64_t table, count;
};

struct wsp_nodes {
    struct bell bell; /* of who settles */
    struct exchange *exchange;
    struct exchange_waves *x;
    uint64_t floats; /* of the dense part, and what slices need to have one at least each */
    struct arena *arena;
    /* under the turn of each table's stage */
    struct own_rows *rows; /* [table_count] */
    /* moved between jobs, and by who ends a wave at the first stage */
    uint64_t wait_ns; /* under the gate's claim: since when a minibatch waits for rounds; 0: none does */
    uint64_t base, given;   /* the first wave of the job that runs; own waves below it are given */
    size_t letter_bytes;    /* of the letter of the wave under way */
    bool has_change;        /* that has changed something of the dense part */
    bool is_given;          /* the last own wave of the job is              */
    /* under the claim of telling: as of the last own minibatch */
    uint64_t *row_count; /* [table_count] */
    uint32_t ticket;
    struct failure failure; /* what the exchange has failed with, before … */
    _Atomic bool shared_is_failed;
};

/* --- memory ------------------------------------------------------------------------------------- */

static uint32_t rows_max(const struct sync_site *site, uint32_t table)
{
    return site->in_flight * site->graph->header->micro * site->graph->tables[table].key_count_max;
}

/* Bytes of a letter's rows of a table. */
static size_t letter_rows_bytes(const struct graph *g, uint64_t table, uint64_t count)
{
    const size_t floats = count * g->tables[table].span_floats;
    return sizeof(struct letter_rows) + count * sizeof(uint64_t) + ((floats + 1) & ~(size_t)1) * sizeof(float);
}

/* Bytes before a letter's rows. */
static size_t letter_begin(const struct sync_site *site)
{
    return sizeof(struct wave_head) + site->in_flight * sizeof(struct wave_record);
}

status wsp_nodes_find(struct wsp *wsp)
{
    const struct sync_site *site = &wsp->sync.site;
    if (site->exchange == NULL) return ST_OK;
    CHECK(site->exchange->waves && site->pipeline_count == 1);
    struct wsp_nodes *nodes = aligned_alloc(CACHE_LINE_BYTES, arena_bytes(sizeof *nodes));
    if (nodes == NULL) FAIL(MEMORY, "no memory for waves of nodes");
    memset(nodes, 0, sizeof *nodes);
    nodes->exchange = site->exchange;
    nodes->x = site->exchange->waves;
    nodes->floats = site->graph->header->param_floats + site->graph->header->state_floats;
    const uint64_t least = (uint64_t)16 * nodes->x->worker_count;
    if (nodes->floats < least) nodes->floats = least;
    wsp->nodes = nodes;
    wsp->worker_count = nodes->x->worker_count;
    wsp->shared_told = &nodes->x->shared_told;
    return ST_OK;
}

/* Own waves whose rounds are not here are D + 1 at most, the one under way and one that is being sent aside. */
static void rows_layout(struct wsp *wsp, struct layout *l, uint32_t table)
{
    const struct sync_site *site = &wsp->sync.site;
    const size_t floats = site->graph->tables[table].span_floats;
    struct own_rows rows = {.of_wave_max = rows_max(site, table), .free = ROW_NONE, .bucket_mask = 1};
    rows.max = rows.of_wave_max * (site->clock_distance + 3);
    while (rows.bucket_mask < rows.max) rows.bucket_mask *= 2;
    LAYOUT_TAKE(l, rows.bucket, rows.bucket_mask);
    LAYOUT_TAKE(l, rows.row, rows.max);
    LAYOUT_TAKE(l, rows.settled, rows.max * floats);
    LAYOUT_TAKE(l, rows.base, rows.max * floats);
    LAYOUT_TAKE(l, rows.of_wave, rows.of_wave_max);
    rows.found_max = site->graph->header->micro * site->graph->tables[table].key_count_max;
    LAYOUT_TAKE(l, rows.found.row, rows.found_max);
    LAYOUT_TAKE(l, rows.found.span, rows.found_max);
    LAYOUT_TAKE(l, rows.found.occurrence_begin, rows.found_max + 1);
    LAYOUT_TAKE(l, rows.unique, rows.found_max);
    rows.bucket_mask--;
    if (!l->arena) return;
    for (uint32_t i = 0; i <= rows.bucket_mask; i++) rows.bucket[i] = ROW_NONE;
    wsp->nodes->rows[table] = rows;
}

static void slices_cut(struct wsp_nodes *nodes)
{
    struct exchange_waves *x = nodes->x;
    for (uint32_t u = 0; u < x->worker_count; u++) x->cut[u] = nodes->floats * u / x->worker_count & ~UINT64_C(15);
    x->cut[x->worker_count] = nodes->floats;
}

/* Arrays of places, each of so many floats. */
static float **places_take(struct layout *l, size_t count, uint64_t floats)
{
    float **places, *place;
    LAYOUT_TAKE(l, places, count);
    for (size_t i = 0; i < count; i++) {
        LAYOUT_TAKE(l, place, floats);
        if (l->arena) places[i] = place;
    }
    return places;
}

void wsp_nodes_layout(struct wsp *wsp, struct layout *l)
{
    struct wsp_nodes *nodes = wsp->nodes;
    struct exchange_waves *x = nodes->x;
    const struct sync_site *site = &wsp->sync.site;
    const struct graph *g = site->graph;
    slices_cut(nodes);
    x->in_flight = site->in_flight;
    x->place_count = (uint32_t)WAVES_PLACES(site->clock_distance);
    x->letter_max = letter_begin(site);
    for (uint32_t t = 0; t < g->table_count; t++) x->letter_max += letter_rows_bytes(g, t, rows_max(site, t));
    const size_t come = (size_t)x->worker_count * x->place_count;
    const uint64_t own = x->cut[x->worker + 1] - x->cut[x->worker];
    for (uint32_t i = 0; i < WAVES_SENDS; i++) {
        LAYOUT_TAKE(l, x->letter[i], x->letter_max);
        LAYOUT_TAKE(l, x->change[i], nodes->floats);
    }
    uint8_t *letter;
    LAYOUT_TAKE(l, x->come_letter, come);
    for (size_t i = 0; i < come; i++) {
        LAYOUT_TAKE(l, letter, x->letter_max);
        if (l->arena) x->come_letter[i] = letter;
    }
    LAYOUT_TAKE(l, x->come_bytes, come);
    LAYOUT_TAKE(l, x->come_has_change, come);
    x->come_change = places_take(l, come, own);
    x->sums = places_take(l, x->place_count, nodes->floats);
    x->out = places_take(l, (size_t)x->worker_count * WAVES_SENDS, own);
    LAYOUT_TAKE(l, nodes->rows, g->table_count);
    LAYOUT_TAKE(l, nodes->row_count, g->table_count);
    for (uint32_t t = 0; t < g->table_count; t++) rows_layout(wsp, l, t);
}

/* The number of the wave under way, as of the first stage … */
static uint64_t own_wave(const struct wsp_nodes *nodes) { return nodes->given; }
/* … and of any, which may be a wave ahead: that of its next update. */
static uint64_t stage_wave(const struct wsp *wsp, const struct stage *stage)
{
    return wsp->nodes->base + wsp_stage_of(wsp, stage)->applied / wsp->wave;
}

/* --- letters of others -------------------------------------------------------------------------- */

/* The rows at `at` of a letter that has so many bytes; false: there are none, or they are none. */
static bool letter_rows_at(const struct graph *g, const uint8_t *letter, size_t bytes, size_t at,
                           struct letter_rows *rows)
{
    if (bytes - at < sizeof *rows) return false;
    memcpy(rows, letter + at, sizeof *rows);
    return rows->table < g->table_count && rows->count <= UINT32_MAX &&
           letter_rows_bytes(g, rows->table, rows->count) <= bytes - at;
}

static status letter_rows_check(const struct sync_site *site, uint32_t worker, const uint8_t *letter, size_t bytes)
{
    uint64_t seen = 0;
    struct letter_rows rows;
    for (size_t at = letter_begin(site); at < bytes;) {
        if (!letter_rows_at(site->graph, letter, bytes, at, &rows) || rows.count > rows_max(site, (uint32_t)rows.table))
            FAIL(INVALID, "node %u sent rows of a wave that are none: it does not run the same program", worker);
        if (seen >> rows.table & 1) FAIL(INVALID, "node %u sent rows of a table twice in a wave", worker);
        seen |= UINT64_C(1) << rows.table;
        at += letter_rows_bytes(site->graph, rows.table, rows.count);
    }
    return ST_OK;
}

static status head_check(const struct sync_site *site, uint32_t worker, uint64_t wave, const struct wave_head *head)
{
    if (head->in_flight != site->in_flight || head->clock_distance != site->clock_distance)
        FAIL(INVALID,
             "node %u has waves of %u minibatches and a clock distance of %u, and this node of %u, and of %u: give all "
             "nodes the same --set train.in_flight=N, and train.clock_distance",
             worker, head->in_flight, head->clock_distance, site->in_flight, site->clock_distance);
    if (head->wave != wave || head->record_count > head->in_flight)
        FAIL(INVALID, "node %u sent wave %" PRIu64 " of %u minibatches; expected wave %" PRIu64 " of at most %u", worker,
             head->wave, head->record_count, wave, head->in_flight);
    return ST_OK;
}

/* By the node's thread: a letter has come; what it has finished is told when it is its turn. */
static status letter_come(void *context, uint32_t worker, uint64_t wave, const uint8_t *letter, size_t bytes)
{
    struct wsp *wsp = context;
    const struct sync_site *site = &wsp->sync.site;
    struct wave_head head;
    memcpy(&head, letter, sizeof head);
    TRY(head_check(site, worker, wave, &head));
    if (bytes < letter_begin(site)) FAIL(INVALID, "node %u sent a wave of %zu bytes, which is too short", worker, bytes);
    TRY(letter_rows_check(site, worker, letter, bytes));
    for (uint32_t i = 0; i < head.record_count; i++) {
        struct wave_record of;
        memcpy(&of, letter + sizeof head + i * sizeof of, sizeof of);
        /* Acquire pairs with wsp_records_tell(): the record that was record_count before is free. */
        const uint64_t told = atomic_load_explicit(wsp->shared_told, memory_order_acquire);
        struct record *record = &wsp->records[of.step % wsp->record_count];
        if (of.step % wsp->worker_count != worker || of.step < told || of.step - told >= wsp->record_count ||
            of.example_count > site->graph->header->batch ||
            atomic_load_explicit(&record->shared_is_there, memory_order_relaxed))
            FAIL(INVALID, "node %u has finished step %" PRIu64 ", while steps from %" PRIu64 " on are awaited", worker,
                 of.step, told);
        record->done = (struct step_done){of.step, of.epoch, (uint32_t)of.example_count, of.loss, NULL, 0};
        /* Release pairs with wsp_records_tell(). */
        atomic_store_explicit(&record->shared_is_there, true, memory_order_release);
    }
    bell_ring(sync_stage(&wsp->sync, 0, 0)->bell);
    return ST_OK;
}

bool wsp_nodes_tells(const struct wsp *wsp)
{
    /* Relaxed: who tells looks again; acquire, as there. */
    const uint64_t told = atomic_load_explicit(wsp->shared_told, memory_order_relaxed);
    return atomic_load_explicit(&wsp->records[told % wsp->record_count].shared_is_there, memory_order_acquire);
}

void wsp_nodes_record_fill(struct wsp *wsp, struct step_done *done)
{
    struct wsp_nodes *nodes = wsp->nodes;
    const size_t bytes = wsp->sync.site.graph->table_count * sizeof *nodes->row_count;
    if (done->row_count) {
        memcpy(nodes->row_count, done->row_count, bytes);
        nodes->ticket = done->ticket;
    }
    done->row_count = nodes->row_count;
    done->ticket = nodes->ticket;
}

/* --- rounds --------------------------------------------------------------------------------------- */

/* Where in a wave's floats the run is. */
static uint64_t run_begin(const struct wsp *wsp, const struct run *run)
{
    return (run->is_state ? wsp->sync.site.graph->header->param_floats : 0) + run->offset;
}

static void exchange_failed(struct wsp *wsp, status st)
{
    struct wsp_nodes *nodes = wsp->nodes;
    if (!atomic_load_explicit(&nodes->shared_is_failed, memory_order_relaxed)) failure_keep(&nodes->failure, st);
    /* Release pairs with the acquire in settle_look(). */
    atomic_store_explicit(&nodes->shared_is_failed, true, memory_order_release);
    bell_ring(&nodes->bell);
}

static uint32_t *bucket_of(const struct own_rows *rows, const float *span)
{
    return &rows->bucket[(((uintptr_t)span >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 32) & rows->bucket_mask];
}

/* The number of the row there, or ROW_NONE. */
static uint32_t own_row_of(const struct own_rows *rows, const float *span)
{
    uint32_t row = *bucket_of(rows, span);
    while (row != ROW_NONE && rows->row[row].span != span) row = rows->row[row].next;
    return row;
}

static uint32_t own_row_make(struct own_rows *rows, float *span, uint64_t key, uint32_t floats)
{
    uint32_t *bucket = bucket_of(rows, span), row = rows->free;
    if (row == ROW_NONE)
        row = rows->used++;
    else
        rows->free = rows->row[row].next;
    CHECK(row < rows->max);
    rows->row[row] = (struct own_row){.span = span, .key = key, .last_wave = UINT64_MAX, .next = *bucket};
    memcpy(rows->settled + (size_t)row * floats, span, floats * sizeof *span);
    *bucket = row;
    rows->count++;
    return row;
}

static void own_row_drop(struct own_rows *rows, uint32_t row)
{
    uint32_t *at = bucket_of(rows, rows->row[row].span);
    while (*at != row) at = &rows->row[*at].next;
    *at = rows->row[row].next;
    rows->row[row].next = rows->free;
    rows->free = row;
    rows->count--;
}

static void floats_add(float *to, const float *change, uint32_t floats)
{
    for (uint32_t i = 0; i < floats; i++) to[i] += change[i];
}

/* Adds what another node has changed of a row. */
static void row_add(const struct own_rows *rows, uint64_t own_wave, float *span, const float *change, uint32_t floats)
{
    const uint32_t row = own_row_of(rows, span);
    floats_add(span, change, floats);
    if (row == ROW_NONE) return;
    floats_add(rows->settled + (size_t)row * floats, change, floats);
    if (rows->row[row].last_wave == own_wave) floats_add(rows->base + (size_t)row * floats, change, floats);
}

/* A round has what this node has changed itself; with the last of it the row is as on all nodes. */
static void own_row_add(struct own_rows *rows, uint64_t round, float *span, const float *change, uint32_t floats)
{
    const uint32_t row = own_row_of(rows, span);
    CHECK(row != ROW_NONE);
    float *settled = rows->settled + (size_t)row * floats;
    floats_add(settled, change, floats);
    if (rows->row[row].last_wave != round) return;
    memcpy(span, settled, floats * sizeof *span);
    own_row_drop(rows, row);
}

static status rows_find(struct own_rows *rows, struct store *store, uint32_t table, const uint64_t *key, uint32_t count)
{
    struct ticket ticket = {0};
    const struct asked_keys asked = {.key = key, .count = count, .unique = rows->unique};
    TRY(store_resolve_begin(store));
    TRY(store_resolve(store, table, STORE_CREATE, &asked, &rows->found));
    return store_resolve_end(store, STORE_CREATE, false, &ticket);
}

/* Adds the rows of a table in a worker's letter of the round, whose keys are there once each. */
static status table_add(struct wsp *wsp, const struct stage *stage, uint32_t worker, uint64_t round, uint32_t table,
                        const uint64_t *key, uint32_t count)
{
    struct wsp_nodes *nodes = wsp->nodes;
    struct own_rows *rows = &nodes->rows[table];
    struct store *store = wsp->sync.site.model->store;
    const uint32_t floats = wsp->sync.site.graph->tables[table].span_floats;
    const float *change = (const float *)(const void *)(key + count);
    for (uint32_t first = 0, some; first < count; first += some) {
        some = count - first < rows->found_max ? count - first : rows->found_max;
        pthread_mutex_lock(&nodes->x->store_lock);
        const status st = rows_find(rows, store, table, key + first, some);
        pthread_mutex_unlock(&nodes->x->store_lock);
        TRY(st);
        if (rows->found.unique_count != some)
            FAIL(INVALID, "a wave has a row of table \"%s\" twice: not all nodes run the same program",
                 graph_string(wsp->sync.site.graph, wsp->sync.site.graph->tables[table].name));
        store_rows_change(store, table, rows->found.span, some);
        for (uint32_t i = 0; i < some; i++) {
            const float *of_row = change + (size_t)(first + i) * floats;
            if (worker == nodes->x->worker)
                own_row_add(rows, round, rows->found.span[i], of_row, floats);
            else
                row_add(rows, stage_wave(wsp, stage), rows->found.span[i], of_row, floats);
        }
    }
    return ST_OK;
}

static bool has_table(const struct stage *stage, uint64_t table)
{
    for (uint32_t i = 0; i < stage->extent.table_count; i++)
        if (stage->extent.tables[i] == table) return true;
    return false;
}

/* The letter of a worker's wave, if there is such a wave. */
static const uint8_t *letter_of(const struct wsp_nodes *nodes, uint32_t worker, uint64_t wave, size_t *bytes)
{
    const size_t place = (size_t)worker * nodes->x->place_count + wave % nodes->x->place_count;
    struct wave_head head;
    *bytes = nodes->x->come_bytes[place];
    if (*bytes == 0) return NULL;
    memcpy(&head, nodes->x->come_letter[place], sizeof head);
    return head.wave == wave ? nodes->x->come_letter[place] : NULL;
}

/* Adds the rows of the stage's tables of all waves of this number, in order of workers. */
static status rows_add(struct wsp *wsp, const struct stage *stage, uint64_t wave)
{
    const struct sync_site *site = &wsp->sync.site;
    struct letter_rows rows;
    for (uint32_t v = 0; v < wsp->worker_count; v++) {
        size_t bytes;
        const uint8_t *letter = letter_of(wsp->nodes, v, wave, &bytes);
        for (size_t at = letter_begin(site); letter && at < bytes;) {
            CHECK(letter_rows_at(site->graph, letter, bytes, at, &rows));
            if (has_table(stage, rows.table))
                TRY(table_add(wsp, stage, v, wave, (uint32_t)rows.table,
                              (const uint64_t *)(const void *)(letter + at + sizeof rows), (uint32_t)rows.count));
            at += letter_rows_bytes(site->graph, rows.table, rows.count);
        }
    }
    return ST_OK;
}

/* Rounds of rows below it may be added: of waves that are given; all, when the last one of the job is. */
static uint64_t rows_until(const struct wsp_nodes *nodes)
{
    /* Acquire pairs with wave_give(): the own letter. is_given is of who settles, when no worker is at work. */
    return nodes->is_given ? UINT64_MAX : atomic_load_explicit(&nodes->x->shared_given, memory_order_acquire);
}

static void round_add(struct wsp *wsp, const struct stage *stage, uint64_t round)
{
    const struct wsp_stage *s = wsp_stage_of(wsp, stage);
    const struct exchange_waves *x = wsp->nodes->x;
    for (uint32_t r = 0; r < s->run_count; r++) {
        const struct run *run = &s->runs[r];
        const float *sums = x->sums[round % x->place_count] + run_begin(wsp, run);
        float *weight = wsp_run_floats(wsp->pipelines, run, false), *base = wsp_run_floats(wsp->pipelines, run, true);
        for (uint64_t i = 0; i < run->count; i++) {
            weight[i] += sums[i];
            base[i] += sums[i];
        }
    }
    for (uint32_t v = 0; v < wsp->worker_count; v++) {
        size_t bytes;
        struct wave_head head;
        if (v == x->worker) continue;
        const uint8_t *letter = letter_of(wsp->nodes, v, round, &bytes);
        if (letter == NULL) continue;
        memcpy(&head, letter, sizeof head);
        s->included[v] = head.minibatches;
    }
}

/* Adds rounds below `until` to a stage's weights, and, as far as it has given its own waves, to its rows. */
static status rounds_add(struct wsp *wsp, const struct stage *stage, uint64_t until)
{
    struct wsp_stage *s = wsp_stage_of(wsp, stage);
    for (; s->rounds < until; s->rounds++) round_add(wsp, stage, s->rounds);
    for (; s->row_rounds < until && s->row_rounds < rows_until(wsp->nodes); s->row_rounds++)
        if (stage->extent.table_count > 0) TRY(rows_add(wsp, stage, s->row_rounds));
    return ST_OK;
}

/* Rounds that the minibatch needs, and with train.exact all that it has. */
static uint64_t rounds_needed(const struct wsp *wsp, uint64_t number)
{
    const struct sync_site *site = &wsp->sync.site;
    return wsp->nodes->base + wsp_waves_needed(number, site->in_flight, site->clock_distance);
}

bool wsp_nodes_admit(struct wsp *wsp, uint64_t step)
{
    struct wsp_nodes *nodes = wsp->nodes;
    struct exchange_waves *x = nodes->x;
    const uint64_t number = wsp->pipelines->started, wave = nodes->base + number / wsp->sync.site.in_flight,
                   needed = rounds_needed(wsp, number);
    enum exchange_word word;
    if (step >= exchange_granted(nodes->exchange, &word)) return false;
    /* Acquire pairs with own_step() of the node's thread: the place of the wave is free. */
    if (number % wsp->sync.site.in_flight == 0 &&
        (atomic_load_explicit(&x->shared_busy, memory_order_acquire) >> wave % WAVES_SENDS & 1))
        return false;
    /* Acquire pairs with waves_step(): the sums, and the letters. */
    const bool is_here = atomic_load_explicit(&x->shared_rounds, memory_order_acquire) >= needed;
    /* Relaxed: for who says for whom a node waits, and how long. */
    atomic_store_explicit(&x->shared_needed, is_here ? 0 : needed, memory_order_relaxed);
    if (!is_here && nodes->wait_ns == 0) nodes->wait_ns = clock_ns();
    if (!is_here || nodes->wait_ns == 0) return is_here;
    atomic_fetch_add_explicit(&x->shared_waited_ns, clock_ns() - nodes->wait_ns, memory_order_relaxed);
    nodes->wait_ns = 0;
    return true;
}

void wsp_nodes_forward(struct wsp *wsp, const struct stage *stage, uint64_t number)
{
    /* Acquire pairs with waves_step(), as above. */
    const uint64_t here = atomic_load_explicit(&wsp->nodes->x->shared_rounds, memory_order_acquire);
    CHECK(here >= rounds_needed(wsp, number));
    const status st = rounds_add(wsp, stage, wsp->sync.site.is_exact ? rounds_needed(wsp, number) : here);
    if (st != ST_OK) wsp->sync.site.host->fail(wsp->sync.site.host, st);
}

/* --- the own wave --------------------------------------------------------------------------------- */

void wsp_nodes_rows_note(struct wsp *wsp, const struct stage *stage, const struct step_rows *rows)
{
    const uint64_t wave = stage_wave(wsp, stage);
    for (uint32_t i = 0; i < stage->extent.table_count; i++) {
        const uint32_t t = stage->extent.tables[i], floats = wsp->sync.site.graph->tables[t].span_floats;
        struct own_rows *of = &wsp->nodes->rows[t];
        for (uint32_t r = 0; r < rows[t].row_count; r++) {
            float *span = rows[t].span[r];
            uint32_t row = own_row_of(of, span);
            if (row == ROW_NONE) row = own_row_make(of, span, rows[t].key[r], floats);
            if (of->row[row].last_wave == wave) continue;
            of->row[row].last_wave = wave;
            memcpy(of->base + (size_t)row * floats, span, floats * sizeof *span);
            CHECK(of->of_wave_count < of->of_wave_max);
            of->of_wave[of->of_wave_count++] = row;
        }
    }
}

/* Writes what the wave has changed of a table to its letter. */
static void rows_write(struct wsp *wsp, uint32_t table, uint8_t *letter)
{
    struct wsp_nodes *nodes = wsp->nodes;
    struct own_rows *of = &nodes->rows[table];
    const struct graph *g = wsp->sync.site.graph;
    const struct letter_rows rows = {.table = table, .count = of->of_wave_count};
    const uint32_t floats = g->tables[table].span_floats;
    uint8_t *at = letter + nodes->letter_bytes;
    if (rows.count == 0) return;
    uint64_t *key = (uint64_t *)(void *)(at + sizeof rows);
    float *change = (float *)(void *)(key + rows.count);
    memcpy(at, &rows, sizeof rows);
    for (uint32_t r = 0; r < rows.count; r++) {
        const uint32_t row = of->of_wave[r];
        const float *base = of->base + (size_t)row * floats;
        key[r] = of->row[row].key;
        for (uint32_t i = 0; i < floats; i++) *change++ = of->row[row].span[i] - base[i];
    }
    if (rows.count * floats % 2) *change = 0;
    nodes->letter_bytes += letter_rows_bytes(g, table, rows.count);
    of->of_wave_count = 0;
}

void wsp_nodes_wave_end(struct wsp *wsp, const struct stage *stage)
{
    struct wsp_nodes *nodes = wsp->nodes;
    const struct wsp_stage *s = wsp_stage_of(wsp, stage);
    /* Nobody ends a wave before the first stage has given the one before it: with its last minibatch that of this wave
     * has been let in. */
    const uint32_t place = own_wave(nodes) % WAVES_SENDS;
    for (uint32_t r = 0; r < s->run_count; r++) {
        const struct run *run = &s->runs[r];
        float *change = nodes->x->change[place] + run_begin(wsp, run);
        const float *weight = wsp_run_floats(wsp->pipelines, run, false);
        float *base = wsp_run_floats(wsp->pipelines, run, true);
        for (uint64_t i = 0; i < run->count; i++) {
            change[i] = weight[i] - base[i];
            base[i] = weight[i];
        }
    }
    nodes->has_change |= s->run_count > 0;
    for (uint32_t i = 0; i < stage->extent.table_count; i++)
        rows_write(wsp, stage->extent.tables[i], nodes->x->letter[place]);
}

/* The wave may go: of so many minibatches of the job, `count` in it. */
static void wave_give(struct wsp *wsp, uint64_t minibatches, uint32_t count, bool is_last)
{
    struct wsp_nodes *nodes = wsp->nodes;
    struct exchange_waves *x = nodes->x;
    const uint32_t place = own_wave(nodes) % WAVES_SENDS;
    const struct wave_head head = {.wave = own_wave(nodes),
                                   .minibatches = minibatches,
                                   .in_flight = wsp->sync.site.in_flight,
                                   .clock_distance = wsp->sync.site.clock_distance,
                                   .record_count = count,
                                   .is_last = is_last};
    memcpy(x->letter[place], &head, sizeof head);
    x->letter_bytes[place] = nodes->letter_bytes;
    /* For the own part of its round: letters of this worker are this thread's. */
    const size_t own = (size_t)x->worker * x->place_count + head.wave % x->place_count;
    memcpy(x->come_letter[own], x->letter[place], nodes->letter_bytes);
    x->come_bytes[own] = nodes->letter_bytes;
    x->has_change[place] = nodes->has_change;
    nodes->letter_bytes = letter_begin(&wsp->sync.site);
    nodes->has_change = false;
    nodes->given++;
    if (is_last) nodes->is_given = true; /* by who settles */
    /* Relaxed: published by the release behind it, which pairs with the acquire of the node's thread. */
    atomic_fetch_or_explicit(&x->shared_busy, UINT32_C(1) << place, memory_order_relaxed);
    atomic_store_explicit(&x->shared_given, nodes->given, memory_order_release);
    nodes->exchange->vt->carry(nodes->exchange);
}

void wsp_nodes_done(struct wsp *wsp, uint64_t number, const struct step_done *done)
{
    struct wsp_nodes *nodes = wsp->nodes;
    const uint32_t in_flight = wsp->sync.site.in_flight, index = (uint32_t)(number % in_flight);
    const struct wave_record record = {
        .step = done->step, .epoch = done->epoch, .loss = done->loss_sum, .example_count = done->example_count};
    memcpy(nodes->x->letter[own_wave(nodes) % WAVES_SENDS] + sizeof(struct wave_head) + index * sizeof record, &record,
           sizeof record);
    if (index + 1 == in_flight) wave_give(wsp, number + 1, in_flight, false);
}

/* --- a job ---------------------------------------------------------------------------------------- */

void wsp_nodes_begin(struct wsp *wsp)
{
    struct wsp_nodes *nodes = wsp->nodes;
    nodes->given = nodes->base;
    nodes->letter_bytes = letter_begin(&wsp->sync.site);
    nodes->has_change = false;
    for (uint32_t i = 0; i < wsp->sync.site.stage_count; i++) wsp->stages[i].rounds = wsp->stages[i].row_rounds = nodes->base;
    nodes->is_given = false;
    for (uint32_t t = 0; t < wsp->sync.site.graph->table_count; t++) CHECK(nodes->rows[t].count == 0);
}

struct settling {
    struct wsp *wsp;
    uint64_t rounds; /* until more than these are here, …                      */
    bool of_sums;    /* … or it is known that there are no more of sums        */
    uint32_t busy;   /* or, unless 0, until this place is free                 */
};

/* The round of values of the job; UINT64_MAX: it is not known yet. */
static uint64_t end_of(const struct wsp_nodes *nodes)
{
    /* Acquire pairs with wave_note(): the letters of all. */
    const uint64_t end = atomic_load_explicit(&nodes->x->shared_end, memory_order_acquire);
    return end > nodes->base ? end - 1 : UINT64_MAX;
}

static bool settle_look(void *context)
{
    const struct settling *s = context;
    const struct wsp_nodes *nodes = s->wsp->nodes;
    /* Acquire, all: what belongs to it is there. */
    if (atomic_load_explicit(&nodes->shared_is_failed, memory_order_acquire)) return true;
    if (s->busy) return (atomic_load_explicit(&nodes->x->shared_busy, memory_order_acquire) & s->busy) == 0;
    return atomic_load_explicit(&nodes->x->shared_rounds, memory_order_acquire) > s->rounds ||
           (s->of_sums && end_of(nodes) == s->rounds);
}

static status settle_await(struct settling *s)
{
    struct wsp_nodes *nodes = s->wsp->nodes;
    bell_await(&nodes->bell, false, settle_look, s);
    if (!atomic_load_explicit(&nodes->shared_is_failed, memory_order_acquire)) return ST_OK;
    return failure_adopt(&nodes->failure);
}

/* Gives what is left of the last wave. */
static status last_give(struct wsp *wsp)
{
    struct wsp_nodes *nodes = wsp->nodes;
    const struct sync_site *site = &wsp->sync.site;
    const uint64_t number = wsp->pipelines->started;
    const uint32_t left = (uint32_t)(number % site->in_flight);
    TRY(settle_await(&(struct settling){.wsp = wsp, .busy = UINT32_C(1) << own_wave(nodes) % WAVES_SENDS}));
    for (uint32_t i = site->stage_count; i-- > 0 && left > 0;) wsp_nodes_wave_end(wsp, site->stages[i]);
    wave_give(wsp, number, left, true);
    return ST_OK;
}

/* Adds all rounds of sums. */
static status sums_add(struct wsp *wsp, uint64_t *end)
{
    struct wsp_nodes *nodes = wsp->nodes;
    const struct sync_site *site = &wsp->sync.site;
    for (uint64_t added = nodes->base;; added++) {
        TRY(settle_await(&(struct settling){.wsp = wsp, .rounds = added, .of_sums = true}));
        *end = end_of(nodes);
        if (added == *end) return ST_OK;
        for (uint32_t i = 0; i < site->stage_count; i++) TRY(rounds_add(wsp, site->stages[i], added + 1));
    }
}

/* Copies floats [begin, end) of the dense part, in one of both directions. */
static void dense_copy(const struct wsp *wsp, float *floats, uint64_t begin, uint64_t end, bool to_model)
{
    const struct graph_header *h = wsp->sync.site.graph->header;
    for (uint32_t is_state = 0; is_state < 2; is_state++) {
        const uint64_t first = is_state ? h->param_floats : 0, count = is_state ? h->state_floats : h->param_floats,
                       from = begin > first ? begin : first, until = end < first + count ? end : first + count;
        float *model = is_state ? wsp->sync.site.model->state : wsp->sync.site.model->param;
        if (from >= until) continue;
        if (to_model)
            memcpy(model + (from - first), floats + from, (until - from) * sizeof *model);
        else
            memcpy(floats + from, model + (from - first), (until - from) * sizeof *model);
    }
}

status wsp_nodes_settle(struct wsp *wsp)
{
    struct wsp_nodes *nodes = wsp->nodes;
    struct exchange_waves *x = nodes->x;
    uint64_t end;
    /* Relaxed: for who says for whom a node waits. */
    atomic_store_explicit(&x->shared_needed, UINT64_MAX, memory_order_relaxed);
    TRY(last_give(wsp));
    TRY(sums_add(wsp, &end));
    float *values = x->sums[end % x->place_count];
    dense_copy(wsp, values, x->cut[x->worker], x->cut[x->worker + 1], false);
    /* Release pairs with has_values(). */
    atomic_store_explicit(&x->shared_values, end + 1, memory_order_release);
    nodes->exchange->vt->carry(nodes->exchange);
    TRY(settle_await(&(struct settling){.wsp = wsp, .rounds = end}));
    dense_copy(wsp, values, 0, nodes->floats, true);
    nodes->base = end + 1;
    wsp_records_tell(wsp);
    atomic_store_explicit(&x->shared_needed, 0, memory_order_relaxed);
    return ST_OK;
}

/* --- opening -------------------------------------------------------------------------------------- */

static void exchange_over(void *context, enum exchange_round round, uint32_t bucket, status st)
{
    struct wsp *wsp = context;
    (void)round;
    (void)bucket;
    if (st != ST_OK) {
        exchange_failed(wsp, st);
        wsp->sync.site.host->fail(wsp->sync.site.host, failure_adopt(&wsp->nodes->failure));
        return;
    }
    bell_ring(sync_stage(&wsp->sync, 0, 0)->bell); /* of the gate */
    bell_ring(&wsp->nodes->bell);
}

void wsp_nodes_open(struct wsp *wsp)
{
    struct wsp_nodes *nodes = wsp->nodes;
    struct exchange_waves *x = nodes->x;
    /* Behind the slowest a worker may have all that the clock lets in, and what is told with waves only. */
    x->ahead_steps = (uint64_t)wsp->record_count / 2 + wsp->worker_count;
    x->come = letter_come;
    x->context = wsp;
    nodes->exchange->site = (struct exchange_site){
        .param = wsp->sync.site.model->param, .over = exchange_over, .context = wsp};
}

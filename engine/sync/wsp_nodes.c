/* Waves between nodes (waves.h), the worker's side: it gives what its wave has changed, and adds what others'
 * waves have changed before its next forward pass at each stage.
 *
 *     stage s   update … update, end of wave w ──▶ change = weights - base, base = weights ──all stages──▶ wave w goes
 *     stage s   before its next forward pass:      weights += sums of round r, base += those, for each r that is here
 *     its rows  as their owners have them after a round, and what own waves have changed since (wsp_rows.h)
 *
 * `base` is as between pipelines (wsp.c). Where a weight's place is in a wave's floats says wsp_slices.h.
 *
 * At a job's end the sums of all waves are added, and the dense part of all becomes what the slices' owners
 * have. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cfg/settings.h"
#include "engine/base/clock.h"
#include "engine/sync/waves.h"
#include "engine/sync/wsp_internal.h"
#include "engine/sync/wsp_rows.h"
#include "engine/sync/wsp_slices.h"
#include "graph/optimizer.h"
#include "io/store/shard.h"

struct wsp_nodes {
    struct bell bell; /* of the thread that settles */
    struct exchange *exchange;
    struct exchange_waves *x;
    uint64_t floats; /* of the dense part; at least 16 for each slice */
    struct arena *arena;
    struct wsp_slices slices;
    /* under the turn of each table's stage */
    struct own_rows *rows; /* [table_count] */
    /* moved between jobs, and when a wave ends at the first stage */
    uint64_t wait_ns;     /* under the gate's claim: since when a minibatch waits for rounds; 0: none does */
    uint64_t base, given; /* the first wave of the job that runs; own waves below it are given             */
    bool has_change;      /* the wave under way has changed the dense part                                 */
    uint64_t begun;       /* under the gate's claim: minibatches of the job that have begun …              */
    bool looks_up;        /* a stage with a table is here; else the node has no use for rows               */
    uint64_t asked;       /* … and, of all jobs, how many have asked for rows                              */
    uint32_t *row_counts; /* [table_count, worker_count]: of the wave that is given, by owner              */
    /* the node's thread's */
    uint64_t *told; /* [worker_count]: minibatches of the job that a worker's letters have told */
    /* under the claim of telling */
    uint64_t *row_count;    /* [table_count]: so far, of waves that are not all told, too */
    uint32_t ticket;        /* of the last own minibatch                                  */
    struct failure failure; /* of the exchange; set before …                              */
    _Atomic bool shared_is_failed;
};

/* --- memory ------------------------------------------------------------------------------------- */

/* Bytes before a letter's rows. */
static size_t letter_begin(const struct sync_site *site)
{
    return sizeof(struct wave_head) + site->in_flight * sizeof(struct wave_record);
}

/* Checks that 31 bits number a table's rows, and 32 bits the bytes of a message. */
static status sizes_check(const struct wsp *wsp)
{
    const struct sync_site *site = &wsp->sync.site;
    struct exchange_waves *x = wsp->nodes->x;
    uint64_t slice = 0, bytes = letter_begin(site), rows = 0;
    (void)wsp_slices_cut(wsp, x->cut, NULL);
    for (uint32_t u = 0; u < x->worker_count; u++)
        if (x->cut[u + 1] - x->cut[u] > slice) slice = x->cut[u + 1] - x->cut[u];
    bytes += slice * sizeof(float);
    for (uint32_t t = 0; t < site->graph->table_count; t++) {
        const uint64_t of_table = wave_rows_max(site, t);
        rows = of_table > rows ? of_table : rows;
        bytes += letter_rows_bytes(site->graph, t, of_table);
    }
    const uint64_t own = OWN_WAVES(site->clock_distance), late = x->worker_count * WAVES_PLACES(site->clock_distance),
                   kept = site->is_exact && late > own ? late : own;
    if (rows * kept > INT32_MAX)
        FAIL(INVALID,
             "a wave may change %" PRIu64 " rows of a table, and a node keeps those of %" PRIu64 " waves: more than "
             "%d; lower train.clock_distance, train.in_flight or train.batch",
             rows, kept, INT32_MAX);
    if (bytes > UINT32_MAX)
        FAIL(INVALID,
             "a wave may have %" PRIu64 " bytes, more than a message's %u; lower train.in_flight or train.batch", bytes,
             UINT32_MAX);
    return ST_OK;
}

status wsp_nodes_find(struct wsp *wsp)
{
    const struct sync_site *site = &wsp->sync.site;
    if (site->exchange == NULL) return ST_OK;
    CHECK(site->exchange->waves && site->pipeline_count == 1);
    for (uint32_t t = 0; t < site->graph->table_count; t++)
        if (site->graph->tables[t].store == TABLE_BF16)
            FAIL(INVALID,
                 "table \"%s\" has store = bf16: under train.sync = wsp nodes add up what each has changed of rows, "
                 "and sums are not rounded; use store = f32, or train.sync = bsp",
                 graph_string(site->graph, site->graph->tables[t].name));
    struct wsp_nodes *nodes = aligned_alloc(CACHE_LINE_BYTES, arena_bytes(sizeof *nodes));
    if (nodes == NULL) FAIL(MEMORY, "no memory for waves of nodes");
    memset(nodes, 0, sizeof *nodes);
    nodes->exchange = site->exchange;
    nodes->x = site->exchange->waves;
    wsp->nodes = nodes;
    wsp->worker_count = nodes->x->worker_count;
    wsp->shared_told = &nodes->x->shared_told;
    return sizes_check(wsp);
}

/* An array of `count` places of `floats` each. */
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
    nodes->slices.count = wsp_slices_cut(wsp, x->cut, NULL);
    LAYOUT_TAKE(l, nodes->slices.stretches, nodes->slices.count);
    if (l->arena) (void)wsp_slices_cut(wsp, x->cut, nodes->slices.stretches);
    nodes->floats = x->cut[x->worker_count];
    x->in_flight = site->in_flight;
    x->place_count = (uint32_t)WAVES_PLACES(site->clock_distance);
    x->letter_max = letter_begin(site);
    for (uint32_t t = 0; t < g->table_count; t++) x->letter_max += letter_rows_bytes(g, t, wave_rows_max(site, t));
    x->stage_count = site->stage_count;
    x->is_exact = site->is_exact;
    x->clock_distance = site->clock_distance;
    x->own_letter_max = x->letter_max + (size_t)g->table_count * x->worker_count * LETTER_ROWS_BYTES_LEAST;
    LAYOUT_TAKE(l, x->shared_added, x->stage_count);
    LAYOUT_TAKE(l, x->shared_rows, g->table_count);
    const size_t come = (size_t)x->worker_count * x->place_count;
    const uint64_t own = x->cut[x->worker + 1] - x->cut[x->worker];
    for (uint32_t i = 0; i < WAVES_SENDS; i++) {
        LAYOUT_TAKE(l, x->letter[i], x->own_letter_max);
        LAYOUT_TAKE(l, x->rows_begin[i], x->worker_count + 1);
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
    x->sums = places_take(l, WAVES_ROUNDS, nodes->floats);
    x->out = places_take(l, (size_t)x->worker_count * WAVES_SENDS, own);
    wave_rows_layout(&x->rows, l, site, (uint32_t)come);
    LAYOUT_TAKE(l, nodes->row_counts, (size_t)g->table_count * x->worker_count);
    LAYOUT_TAKE(l, nodes->rows, g->table_count);
    LAYOUT_TAKE(l, nodes->told, x->worker_count);
    LAYOUT_TAKE(l, nodes->row_count, g->table_count);
    for (uint32_t t = 0; t < g->table_count; t++) own_rows_layout(l->arena ? &nodes->rows[t] : NULL, l, site, t);
}

/* The number of the wave under way at the first stage … */
static uint64_t own_wave(const struct wsp_nodes *nodes) { return nodes->given; }
/* … and at any stage, which may be a wave ahead: the wave of its next update. */
static uint64_t stage_wave(const struct wsp *wsp, const struct stage *stage)
{
    return wsp->nodes->base + wsp_stage_of(wsp, stage)->applied / wsp->wave;
}

/* --- letters of others -------------------------------------------------------------------------- */

/* `told`: the job's minibatches of which the worker's earlier letters have told. */
static status head_check(const struct sync_site *site, uint32_t worker, uint64_t wave, uint64_t told,
                         const struct wave_head *head)
{
    if (head->in_flight != site->in_flight || head->clock_distance != site->clock_distance)
        FAIL(INVALID,
             "node %u has waves of %u minibatches and a clock distance of %u, and this node of %u, and of %u: "
             "give all nodes the same --set train.in_flight=N, and train.clock_distance",
             worker, head->in_flight, head->clock_distance, site->in_flight, site->clock_distance);
    if (head->is_exact != site->is_exact)
        FAIL(INVALID, "train.exact is %s on node %u, and %s on this node: give all nodes the same",
             head->is_exact ? "yes" : "no", worker, site->is_exact ? "yes" : "no");
    const bool is_whole = head->record_count == head->in_flight;
    if (head->wave != wave || head->is_last > 1 || is_whole == head->is_last || head->record_count > head->in_flight ||
        head->minibatches != told + head->record_count)
        FAIL(INVALID,
             "node %u sent wave %" PRIu64 " of %u minibatches, of %" PRIu64 " in all; expected wave %" PRIu64
             " of %u, or of fewer if it is the last, behind %" PRIu64,
             worker, head->wave, head->record_count, head->minibatches, wave, head->in_flight, told);
    return ST_OK;
}

/* By the node's thread: a letter has come. Its minibatches are told when it is their turn. */
static status letter_come(void *context, uint32_t worker, uint64_t wave, const uint8_t *letter, size_t bytes)
{
    struct wsp *wsp = context;
    const struct sync_site *site = &wsp->sync.site;
    struct wave_head head;
    memcpy(&head, letter, sizeof head);
    TRY(head_check(site, worker, wave, wsp->nodes->told[worker], &head));
    if (bytes < letter_begin(site))
        FAIL(INVALID, "node %u sent a wave of %zu bytes, which is too short", worker, bytes);
    const bool tells = wsp->nodes->x->tellers >> worker & 1;
    for (uint32_t i = 0; i < head.record_count && tells; i++) {
        struct wave_record of;
        memcpy(&of, letter + sizeof head + i * sizeof of, sizeof of);
        /* Acquire pairs with wsp_records_tell(): the record that was record_count before is free. */
        const uint64_t told = atomic_load_explicit(wsp->shared_told, memory_order_acquire);
        struct record *record = &wsp->records[of.step % wsp->record_count];
        if (of.step % wsp->nodes->x->turn_count != wsp->nodes->x->turn_of[worker] || of.step < told ||
            of.step - told >= wsp->record_count || of.example_count > site->graph->header->batch ||
            atomic_load_explicit(&record->shared_is_there, memory_order_relaxed))
            FAIL(INVALID, "node %u has finished step %" PRIu64 ", while steps from %" PRIu64 " on are awaited", worker,
                 of.step, told);
        record->done = (struct step_done){of.step, of.epoch, (uint32_t)of.example_count, of.loss, NULL, 0};
        /* Release pairs with wsp_records_tell(). */
        atomic_store_explicit(&record->shared_is_there, true, memory_order_release);
    }
    wsp->nodes->told[worker] = head.is_last ? 0 : head.minibatches;
    bell_ring(sync_stage(&wsp->sync, 0, 0)->bell);
    return ST_OK;
}

bool wsp_nodes_tells(const struct wsp *wsp)
{
    /* Relaxed: whoever tells looks again. Acquire, as in wsp_records_tell(). */
    const uint64_t told = atomic_load_explicit(wsp->shared_told, memory_order_relaxed);
    return atomic_load_explicit(&wsp->records[told % wsp->record_count].shared_is_there, memory_order_acquire);
}

void wsp_nodes_record_fill(struct wsp *wsp, struct step_done *done)
{
    struct wsp_nodes *nodes = wsp->nodes;
    const struct sync_site *site = &wsp->sync.site;
    for (uint32_t t = 0; t < site->graph->table_count; t++) /* Relaxed: a figure. */
        nodes->row_count[t] = atomic_load_explicit(&nodes->x->shared_rows[t], memory_order_relaxed);
    if (done->row_count) nodes->ticket = done->ticket;
    done->row_count = nodes->row_count;
    done->ticket = nodes->ticket;
}

/* --- rounds --------------------------------------------------------------------------------------- */

/* Whether other nodes have a stage that this one has: else nobody gets its changes, or has others. */
static bool has_sharers(const struct exchange_waves *x) { return x->sharers != UINT64_C(1) << x->worker; }

static void exchange_failed(struct wsp *wsp, status st)
{
    struct wsp_nodes *nodes = wsp->nodes;
    if (!atomic_load_explicit(&nodes->shared_is_failed, memory_order_relaxed)) failure_keep(&nodes->failure, st);
    /* Release pairs with the acquire in settle_look(). */
    atomic_store_explicit(&nodes->shared_is_failed, true, memory_order_release);
    bell_ring(&nodes->bell);
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

static void round_take(struct wsp *wsp, const struct stage *stage, uint64_t round)
{
    const struct wsp_stage *kept = wsp_stage_of(wsp, stage);
    const struct exchange_waves *x = wsp->nodes->x;
    for (uint32_t r = 0; r < kept->run_count && has_sharers(x); r++) {
        const struct run *run = &kept->runs[r];
        float *weight = wsp_run_floats(wsp->pipelines, run, false), *base = wsp_run_floats(wsp->pipelines, run, true);
        for (uint64_t at = 0, count; at < run->count; at += count) {
            const float *sums = x->sums[round % WAVES_ROUNDS] + wsp_slices_place(&wsp->nodes->slices, run, at, &count);
            for (uint64_t i = 0; i < count; i++) {
                weight[at + i] += sums[i];
                base[at + i] += sums[i];
            }
        }
    }
    for (uint32_t v = 0; v < wsp->worker_count; v++) {
        size_t bytes;
        struct wave_head head;
        if (v == x->worker) continue;
        const uint8_t *letter = letter_of(wsp->nodes, v, round, &bytes);
        if (letter == NULL) continue;
        memcpy(&head, letter, sizeof head);
        kept->included[v] = head.minibatches;
    }
}

/* The node's thread may overwrite what the stage has added. */
static void added_tell(struct wsp *wsp, const struct stage *stage)
{
    /* Release pairs with waves_added(). */
    atomic_store_explicit(&wsp->nodes->x->shared_added[stage->index], wsp_stage_of(wsp, stage)->rounds,
                          memory_order_release);
}

/* Adds rounds below `until` to a stage's weights. */
static void rounds_add(struct wsp *wsp, const struct stage *stage, uint64_t until)
{
    struct wsp_stage *kept = wsp_stage_of(wsp, stage);
    const uint64_t before = kept->rounds;
    for (; kept->rounds < until; kept->rounds++) round_take(wsp, stage, kept->rounds);
    if (kept->rounds == before) return;
    added_tell(wsp, stage);
    wsp->nodes->exchange->vt->carry(wsp->nodes->exchange);
}

/* The minibatch needs the rounds below it, and with train.exact has no others. */
static uint64_t rounds_needed(const struct wsp *wsp, uint64_t number)
{
    const struct sync_site *site = &wsp->sync.site;
    return wsp->nodes->base + wsp_waves_needed(number, site->in_flight, site->clock_distance);
}

/* Whether the clock lets the next minibatch begin. */
static bool clock_allows(struct wsp *wsp, uint64_t step)
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
    /* Relaxed: they only say for whom a node waits, and how long. */
    atomic_store_explicit(&x->shared_needed, is_here ? 0 : needed, memory_order_relaxed);
    if (!is_here && nodes->wait_ns == 0) nodes->wait_ns = clock_ns();
    if (!is_here || nodes->wait_ns == 0) return is_here;
    atomic_fetch_add_explicit(&x->shared_waited_ns, clock_ns() - nodes->wait_ns, memory_order_relaxed);
    nodes->wait_ns = 0;
    return true;
}

/* The next minibatch begins, unless the job ends before it, and asks for its rows. */
static bool minibatch_begin(struct wsp *wsp, const struct input *input)
{
    struct wsp_nodes *nodes = wsp->nodes;
    struct exchange *exchange = nodes->exchange;
    const uint64_t step = input->batch.step;
    enum exchange_word word;
    if (!exchange_begins(exchange, step)) return false;
    nodes->begun++;
    const bool asks = input->asked && nodes->looks_up;
    if (asks) {
        input->asked->round = rounds_needed(wsp, wsp->pipelines->started);
        nodes->x->asked = input->asked;
        /* Release pairs with own_ask() of the node's thread. */
        atomic_store_explicit(&nodes->x->shared_asked, ++nodes->asked, memory_order_release);
    }
    /* Of the last granted step rank 0 now says that the job goes no further (grant.c). */
    if (asks || step + nodes->x->turn_count >= exchange_granted(exchange, &word)) exchange->vt->carry(exchange);
    return true;
}

bool wsp_nodes_admit(struct wsp *wsp, const struct input *input)
{
    struct wsp_nodes *nodes = wsp->nodes;
    if (nodes->begun == wsp->pipelines->started &&
        !(clock_allows(wsp, input->batch.step) && minibatch_begin(wsp, input)))
        return false;
    /* Acquire pairs with own_answer_tell() of the node's thread: the rows. */
    return atomic_load_explicit(&nodes->x->shared_answered, memory_order_acquire) == nodes->asked;
}

void wsp_nodes_forward(struct wsp *wsp, const struct stage *stage, uint64_t number)
{
    /* Acquire pairs with waves_step(): the sums, and the letters. */
    const uint64_t here = atomic_load_explicit(&wsp->nodes->x->shared_rounds, memory_order_acquire);
    CHECK(here >= rounds_needed(wsp, number));
    rounds_add(wsp, stage, wsp->sync.site.is_exact ? rounds_needed(wsp, number) : here);
}

/* --- the own wave --------------------------------------------------------------------------------- */

/* The rounds that a row's value has, as its owner has said. */
static uint64_t level_of(const struct exchange_waves *x, const struct asked_step *asked, uint64_t key)
{
    return asked->level[x->owner_of[shard_of(key)]];
}

void wsp_nodes_rows_read(struct wsp *wsp, const struct stage *stage, const struct input *input)
{
    const struct asked_step *asked = input->asked;
    for (uint32_t i = 0; i < stage->extent.table_count; i++) {
        const uint32_t t = stage->extent.tables[i];
        const struct step_rows *rows = &asked->rows[t];
        for (uint32_t r = 0; r < rows->row_count; r++)
            own_rows_read(&wsp->nodes->rows[t], rows->key[r], level_of(wsp->nodes->x, asked, rows->key[r]),
                          asked->values + (rows->span[r] - asked->live), rows->span[r]);
    }
}

void wsp_nodes_rows_keep(struct wsp *wsp, const struct stage *stage, const struct input *input)
{
    const struct asked_step *asked = input->asked;
    const uint64_t wave = stage_wave(wsp, stage);
    if (input->batch.step_example_count == 0) return; /* nothing was updated */
    for (uint32_t i = 0; i < stage->extent.table_count; i++) {
        const uint32_t t = stage->extent.tables[i];
        const struct step_rows *rows = &asked->rows[t];
        for (uint32_t r = 0; r < rows->row_count; r++)
            own_rows_keep(&wsp->nodes->rows[t], wave, rows->key[r], level_of(wsp->nodes->x, asked, rows->key[r]),
                          asked->values + (rows->span[r] - asked->live), rows->span[r]);
    }
}

void wsp_nodes_wave_end(struct wsp *wsp, const struct stage *stage)
{
    struct wsp_nodes *nodes = wsp->nodes;
    const struct wsp_stage *kept = wsp_stage_of(wsp, stage);
    /* No stage ends a wave before the first stage has given the one before: its last minibatch is
     * let in when that one's is done. */
    const uint32_t place = own_wave(nodes) % WAVES_SENDS;
    if (!has_sharers(nodes->x)) return;
    for (uint32_t r = 0; r < kept->run_count; r++) {
        const struct run *run = &kept->runs[r];
        const float *weight = wsp_run_floats(wsp->pipelines, run, false);
        float *base = wsp_run_floats(wsp->pipelines, run, true);
        for (uint64_t at = 0, count; at < run->count; at += count) {
            float *change = nodes->x->change[place] + wsp_slices_place(&nodes->slices, run, at, &count);
            for (uint64_t i = 0; i < count; i++) {
                change[i] = weight[at + i] - base[at + i];
                base[at + i] = weight[at + i];
            }
        }
    }
    nodes->has_change |= kept->run_count > 0;
}

/* Writes what the wave has changed of rows, owner by owner. All stages have ended it. */
static void rows_write(struct wsp *wsp, uint32_t place)
{
    struct wsp_nodes *nodes = wsp->nodes;
    const struct exchange_waves *x = nodes->x;
    const struct graph *g = wsp->sync.site.graph;
    uint8_t *at[WAVES_WORKERS_MAX];
    uint64_t *begin = x->rows_begin[place];
    memset(nodes->row_counts, 0, (size_t)g->table_count * x->worker_count * sizeof *nodes->row_counts);
    for (uint32_t t = 0; t < g->table_count; t++)
        own_rows_count(&nodes->rows[t], own_wave(nodes), x->owner_of, nodes->row_counts + (size_t)t * x->worker_count);
    begin[0] = letter_begin(&wsp->sync.site);
    for (uint32_t o = 0; o < x->worker_count; o++) {
        begin[o + 1] = begin[o];
        for (uint32_t t = 0; t < g->table_count; t++) {
            const uint32_t count = nodes->row_counts[(size_t)t * x->worker_count + o];
            if (count > 0) begin[o + 1] += letter_rows_bytes(g, t, count);
        }
        at[o] = x->letter[place] + begin[o];
    }
    CHECK(begin[x->worker_count] <= x->own_letter_max);
    for (uint32_t t = 0; t < g->table_count; t++)
        own_rows_write(&nodes->rows[t], own_wave(nodes), t, x->owner_of, x->worker_count,
                       nodes->row_counts + (size_t)t * x->worker_count, at);
}

/* The wave may go, with `count` minibatches; `minibatches`: of the job so far. */
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
                                   .is_last = is_last,
                                   .is_exact = wsp->sync.site.is_exact};
    memcpy(x->letter[place], &head, sizeof head);
    rows_write(wsp, place);
    x->has_change[place] = nodes->has_change;
    nodes->has_change = false;
    nodes->given++;
    /* Relaxed: published by the release after it, which pairs with the acquire of the node's thread. */
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
    nodes->wait_ns = 0;
    nodes->begun = 0;
    nodes->has_change = false;
    for (uint32_t i = 0; i < wsp->sync.site.stage_count; i++)
        wsp->stages[i].rounds = nodes->base; /* which added_tell() has told */
    for (uint32_t t = 0; t < wsp->sync.site.graph->table_count; t++) own_rows_clear(&nodes->rows[t]);
}

struct settling {
    struct wsp *wsp;
    uint64_t rounds; /* waits until more than these are here, …  */
    bool of_sums;    /* … or it is known that no more sums come  */
    uint32_t busy;   /* unless 0: waits until this place is free */
};

/* The job's round of values; UINT64_MAX: not known yet. */
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
    /* Acquire, all: what each of them announces is there. */
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

/* Gives the last wave, of what is left. */
static status last_give(struct wsp *wsp)
{
    struct wsp_nodes *nodes = wsp->nodes;
    const struct sync_site *site = &wsp->sync.site;
    const uint64_t number = wsp->pipelines->started;
    const uint32_t left = (uint32_t)(number % site->in_flight);
    TRY(settle_await(&(struct settling){.wsp = wsp, .busy = UINT32_C(1) << own_wave(nodes) % WAVES_SENDS}));
    for (uint32_t i = site->stage_count; i-- > 0 && left > 0;)
        if (site->stages[i]->is_here) wsp_nodes_wave_end(wsp, site->stages[i]);
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
        for (uint32_t i = 0; i < site->stage_count; i++)
            if (site->stages[i]->is_here) rounds_add(wsp, site->stages[i], added + 1);
    }
}

status wsp_nodes_settle(struct wsp *wsp)
{
    struct wsp_nodes *nodes = wsp->nodes;
    struct exchange_waves *x = nodes->x;
    uint64_t end;
    /* Relaxed: it only says for whom a node waits. */
    atomic_store_explicit(&x->shared_needed, UINT64_MAX, memory_order_relaxed);
    TRY(last_give(wsp));
    TRY(sums_add(wsp, &end));
    float *values = x->sums[end % WAVES_ROUNDS];
    wsp_slices_copy(&nodes->slices, wsp->sync.site.model, values, x->cut[x->worker], x->cut[x->worker + 1], false);
    /* Release pairs with has_values(). */
    atomic_store_explicit(&x->shared_values, end + 1, memory_order_release);
    nodes->exchange->vt->carry(nodes->exchange);
    TRY(settle_await(&(struct settling){.wsp = wsp, .rounds = end}));
    wsp_slices_copy(&nodes->slices, wsp->sync.site.model, values, 0, nodes->floats, true);
    nodes->base = end + 1;
    for (uint32_t i = 0; i < wsp->sync.site.stage_count; i++) {
        wsp->stages[i].rounds = nodes->base;
        if (wsp->sync.site.stages[i]->is_here) added_tell(wsp, wsp->sync.site.stages[i]);
    }
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
    /* Waves alone tell what all have done; a worker may be ahead of it by all that the clock lets in. Steps
     * are granted that far ahead, anew when half are used. */
    x->ahead_steps = wsp->record_count;
    for (uint32_t i = 0; i < wsp->sync.site.stage_count; i++) {
        const struct stage *stage = wsp->sync.site.stages[i];
        nodes->looks_up |= stage->is_here && stage->extent.table_count > 0;
        /* Relaxed: no thread is at work. Nobody waits for a stage that is elsewhere. */
        if (!stage->is_here) atomic_store_explicit(&x->shared_added[i], UINT64_MAX, memory_order_relaxed);
    }
    x->come = letter_come;
    x->context = wsp;
    nodes->exchange->site =
        (struct exchange_site){.param = wsp->sync.site.model->param, .over = exchange_over, .context = wsp};
}

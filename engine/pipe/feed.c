/* A feed's memory, and the consumer's side of it. */
#include "engine/pipe/feed_internal.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/thread.h"
#include "io/store/store_life.h"
#include "io/store/store_rows.h"

/* --- memory ----------------------------------------------------------------------------------- */

/* Which of a step's micro-batches are the consumer's; without lanes it has an empty one. */
static uint32_t own_micros(const struct feed_options *o, uint32_t *first)
{
    const struct batch_shape shape = graph_batch(o->graph);
    const uint32_t a_lane = batch_micro_count(shape) / shape.lanes;
    struct fold_lanes lanes = o->exchange ? o->exchange->own : o->lanes;
    if ((o->exchange == NULL && lanes.count == 0) || o->all_lanes) lanes = (struct fold_lanes){0, shape.lanes};
    *first = 0;
    if (feed_is_told(o)) return 1;
    *first = a_lane * lanes.begin;
    return a_lane * lanes.count;
}

/* Most distinct rows that the consumer's part of a step can touch in a table; the compiler has
 * bounded a whole step's by 2^31. */
static uint32_t step_rows_max(const struct feed_options *o, uint32_t table)
{
    uint32_t first;
    return own_micros(o, &first) * o->graph->header->micro * o->graph->tables[table].key_count_max;
}

/* Blocks of rows: a run of inputs covers at most (inputs - 1) / micros + 2 steps, and the consumer may still
 * be at the update of one more. Where steps of one micro-batch overtake each other (wsp, asp), each input can
 * keep a block of its own while one is being filled: these are enough, too. */
static uint32_t steps_ahead_of(const struct feed_options *o)
{
    uint32_t first;
    return (o->input_count - 1) / own_micros(o, &first) + 3;
}

/* In training: whether the table has keys without a row. */
static bool is_choosy(const struct feed_options *o, uint32_t table)
{
    return o->training && o->exchange == NULL && store_admission(o->model->store, table) != NULL;
}

/* Whether rows of the table die; fills what an update wants to know of a step's rows. */
static bool step_rows_wanted(const struct feed_options *o, uint32_t t, struct step_rows_wants *wants)
{
    const struct graph_table *table = &o->graph->tables[t];
    const bool lives = store_lives(o->model->store, t), counts = lives && table->life.counts;
    const bool tells = o->exchange && table->life.admit > 1; /* for keys that are not admitted */
    /* Nodes that have lanes add rows lane by lane. */
    const bool by_lane = batch_has_lanes(graph_batch(o->graph)) || exchange_of_steps(o->exchange);
    *wants = (struct step_rows_wants){.shows = counts || tells ||
                                               optimizer_reads_shows(&o->graph->optimizers[table->optimizer]),
                                      .clicks = counts,
                                      /* with counters a row may get its vector: by a score, or because it was
                                       * saved without one by another recipe */
                                      .keys = counts || (table->store == TABLE_BF16 && o->exchange == NULL) || o->waves,
                                      .lanes = by_lane,
                                      .nobody_floats = lives ? table->span_floats : 0};
    return counts;
}

/* On several nodes, where rows are only read. */
static void looks_layout(struct layout *l, const struct feed_options *o, struct feed *feed)
{
    struct key_numbers *numbers;
    struct exchange_look *looks;
    LAYOUT_TAKE(l, numbers, o->graph->table_count);
    LAYOUT_TAKE(l, looks, o->input_count);
    exchange_look_numbers_layout(numbers, l, o->exchange);
    for (uint32_t i = 0; i < o->input_count; i++) exchange_look_layout(l->arena ? &looks[i] : NULL, l, o->exchange);
    if (!l->arena) return;
    feed->key_numbers = numbers;
    feed->looks = looks;
}

/* What a feed has besides where it trains on several nodes. */
static void asked_layout(struct layout *l, const struct feed_options *o, struct feed *feed, uint32_t steps_ahead)
{
    const struct graph *g = o->graph;
    struct asked_step *asked;
    struct key_numbers *numbers;
    uint32_t *step_inputs, first;
    if (g->table_count == 0) return;
    LAYOUT_TAKE(l, asked, steps_ahead);
    LAYOUT_TAKE(l, numbers, g->table_count);
    LAYOUT_TAKE(l, step_inputs, own_micros(o, &first));
    for (uint32_t s = 0; s < steps_ahead; s++)
        asked_step_layout(l->arena ? &asked[s] : NULL, l, &o->exchange->rows.shape);
    for (uint32_t t = 0; t < g->table_count; t++)
        key_numbers_layout(l->arena ? &numbers[t] : NULL, l, &o->exchange->rows.shape, t);
    if (!l->arena) return;
    feed->asked = asked;
    feed->key_numbers = numbers;
    feed->step_inputs = step_inputs;
}

static uint32_t numberers_of(const struct feed_options *o)
{
    return o->exchange == NULL && o->graph->table_count > 0 ? o->numberers : 0;
}

/* Threads that number keys, and a place for keys in every ticket. */
static void numbering_layout(struct layout *l, const struct feed_options *o, struct feed *feed)
{
    const struct graph *g = o->graph;
    const uint32_t count = numberers_of(o);
    const size_t key_count_max = store_key_count_max(o->model->store);
    if (count == 0) return;
    numberers_layout(l->arena ? &feed->numberers : NULL, l, count, o->input_count, key_count_max);
    for (uint32_t s = 0; s < o->input_count; s++)
        for (uint32_t t = 0; t < g->table_count; t++) {
            uint64_t *key;
            LAYOUT_TAKE(l, key, key_count_max);
            if (l->arena) feed->inputs[s].ticket.table[t].key = key;
        }
}

static void feed_layout(struct layout *l, const struct feed_options *o, struct feed *feed)
{
    const struct graph *g = o->graph;
    uint32_t spans[GRAPH_TABLES_MAX];
    const bool is_look_up = !o->training && o->exchange == NULL;
    bool with_scratch = is_look_up;
    for (uint32_t t = 0; t < g->table_count; t++) {
        spans[t] = is_look_up || is_choosy(o, t) ? g->tables[t].span_floats : 0; /* floats in scratch */
        with_scratch |= is_choosy(o, t);
    }
    struct input *inputs;
    LAYOUT_TAKE(l, inputs, o->input_count);
    for (uint32_t s = 0; s < o->input_count; s++) input_layout(l, l->arena ? &inputs[s] : NULL, g, spans, with_scratch);
    ring_layout(l->arena ? &feed->ready : NULL, l, o->input_count, RING_ONE);
    ring_layout(l->arena ? &feed->free : NULL, l, o->input_count, RING_MANY);
    uint32_t *read;
    LAYOUT_TAKE(l, read, o->input_count);
    if (l->arena) feed->inputs = inputs;
    if (l->arena) feed->read = read;
    numbering_layout(l, o, feed);
    uint32_t steps_ahead = steps_ahead_of(o);
    row_gate_layout(l->arena ? &feed->gate : NULL, l, o->input_count, steps_ahead);
    if (o->exchange && !o->training && g->table_count > 0) looks_layout(l, o, feed);
    if (!o->training) return;
    if (o->exchange && !feed_is_told(o)) asked_layout(l, o, feed, steps_ahead);
    uint64_t *block_step;
    uint32_t *spare;
    LAYOUT_TAKE(l, block_step, steps_ahead);
    LAYOUT_TAKE(l, spare, steps_ahead);
    if (l->arena) feed->block_step = block_step;
    if (l->arena) feed->spare = spare;
    ring_layout(l->arena ? &feed->free_blocks : NULL, l, steps_ahead, RING_MANY);
    if (l->arena) feed->steps_ahead = steps_ahead;
    if (feed_is_told(o)) return;
    struct row_numbers *numbers;
    LAYOUT_TAKE(l, numbers, g->table_count);
    struct step_rows *steps;
    LAYOUT_TAKE(l, steps, (size_t)steps_ahead * g->table_count);
    for (uint32_t t = 0; t < g->table_count; t++) {
        uint32_t rows_max = step_rows_max(o, t);
        struct step_rows_wants wants;
        bool sweeps = step_rows_wanted(o, t, &wants);
        if (l->arena) feed->sweeps |= sweeps && o->exchange == NULL; /* else owners sweep */
        row_numbers_layout(l->arena ? &numbers[t] : NULL, l, rows_max, batch_micro_count(graph_batch(g)));
        for (uint32_t s = 0; s < steps_ahead; s++)
            step_rows_layout(l->arena ? &steps[s * g->table_count + t] : NULL, l, rows_max, wants);
    }
    if (!l->arena) return;
    feed->numbers = numbers;
    feed->steps = steps;
    for (uint32_t s = 0; s < steps_ahead && feed->asked; s++) feed->asked[s].rows = &steps[s * g->table_count];
}

static size_t feed_bytes(const struct feed_options *options)
{
    struct layout sum = {0};
    feed_layout(&sum, options, NULL);
    return sum.bytes;
}

static status feed_source_open(struct reader **source, const struct feed_options *o)
{
    static const struct reader_vt nothing_vt = {0};
    static struct reader nothing = {.vt = &nothing_vt, .paths = "no data"};
    if (feed_is_told(o))
        *source = &nothing;
    else if (o->source)
        *source = o->source;
    else
        return cached_reader_open(source, &o->reader, &o->cache, o->cache_kept);
    return ST_OK;
}

static status feed_open_of(struct feed **out, const struct feed_options *o)
{
    struct feed *feed = aligned_alloc(_Alignof(struct feed), sizeof *feed);
    if (feed == NULL) FAIL(MEMORY, "no memory for a feed");
    memset(feed, 0, sizeof *feed);
    feed->graph = o->graph;
    feed->model = o->model;
    feed->shape = graph_batch(o->graph);
    feed->micro_count = own_micros(o, &feed->micro_first);
    feed->example = graph_example(o->graph);
    feed->training = o->training;
    feed->exchange = o->exchange;
    feed->waves = o->waves;
    feed->turn = o->waves && !o->all_lanes ? o->waves->turn : 0;
    feed->turn_count = o->waves && !o->all_lanes ? o->waves->turn_count : 1;
    feed->is_told = feed_is_told(o);
    feed->all_lanes = o->all_lanes;
    feed->is_by_step = o->training && o->is_by_step;
    feed->epochs = o->epochs;
    feed->steps_max = o->steps_max;
    feed->held_input = NUMBER_NONE;
    feed->cut_step = STEP_NONE;
    feed->processors = o->processors;
    feed->processor_count = o->processor_count;
    feed->ready_bell = &feed->own_bell;
    feed->input_count = o->input_count;
    status st = arena_open(&feed->arena, o->training ? "inputs" : "evaluation inputs", feed_bytes(o));
    if (st == ST_OK) {
        struct layout place = {.arena = &feed->arena};
        feed_layout(&place, o, feed);
        st = feed_source_open(&feed->source, o);
    }
    if (st != ST_OK) {
        arena_close(&feed->arena);
        free(feed);
        return st;
    }
    for (uint32_t s = 0; s < o->input_count; s++) {
        feed->inputs[s].index = s;
        CHECK(ring_try_push(&feed->free, s));
    }
    for (uint32_t block = 0; block < feed->steps_ahead; block++) {
        feed->block_step[block] = STEP_NONE;
        CHECK(ring_try_push(&feed->free_blocks, block));
    }
    /* The next input of a stream may take its time: an input does not wait for the next. */
    if (feed->source->is_stream) feed->numberers = NULL;
    feed->numbering = (struct numberers_options){.store = o->model->store,
                                                 .inputs = feed->inputs,
                                                 .input_count = o->input_count,
                                                 .count = feed->numberers ? numberers_of(o) : 0,
                                                 .processors = o->reader.processors,
                                                 .processor_count = o->reader.processor_count};
    memory_note("threads", feed->numbering.count * THREAD_STACK_BYTES);
    row_gate_open(&feed->gate, o->model->store, &feed->free_bell, feed_team_look, feed);
    if (o->exchange) feed->gate.is_closed = false; /* the store is the node's thread's */
    if (feed->is_told) o->exchange->news_bell = &feed->free_bell;
    CHECK(o->exchange == NULL || o->waves || feed->steps_ahead < EXCHANGE_NEWS);
    *out = feed;
    return ST_OK;
}

status feed_open(struct feed **out, const struct feed_options *options)
{
    struct feed_options o = *options;
    if (o.exchange && !o.training && o.input_count > EXCHANGE_LOOKS_MAX) o.input_count = EXCHANGE_LOOKS_MAX;
    return feed_open_of(out, &o);
}

/* --- starting ----------------------------------------------------------------------------------- */

void feed_bell_set(struct feed *feed, struct bell *bell)
{
    CHECK(!feed->is_started);
    feed->ready_bell = bell;
}

void feed_team_set(struct feed *feed, struct team *team, bool spins)
{
    struct team *before = atomic_load_explicit(&feed->shared_team, memory_order_relaxed);
    atomic_store_explicit(&feed->shared_spins, team && spins, memory_order_relaxed);
    /* Sequentially consistent, with feed_team_look(). */
    atomic_store_explicit(&feed->shared_team, team, memory_order_seq_cst);
    while (atomic_load_explicit(&feed->shared_is_helping, memory_order_seq_cst)) sched_yield();
    if (before) team_helper_set(before, NULL);
    if (team) team_helper_set(team, &feed->free_bell);
}

status feed_start(struct feed *feed, const struct progress *from)
{
    if (from) {
        feed->from = *from;
        feed->epochs += from->first_epoch;
        if (feed->steps_max) feed->steps_max += from->first_step;
    }
    if (feed->numberers) TRY(numberers_start(feed->numberers, &feed->numbering));
    int error = thread_start(&feed->thread, feed_main, feed);
    if (error) FAIL(SYSTEM, "cannot start the reading thread: %s", strerror(error));
    feed->is_started = true;
    return ST_OK;
}

/* --- the consumer's side ---------------------------------------------------------------------- */

static bool ready_pop(struct feed *feed, struct input **input)
{
    uint32_t index;
    if (!ring_try_pop(&feed->ready, &index)) return false;
    *input = &feed->inputs[index];
    return true;
}

enum feed_state feed_try_next(struct feed *feed, struct input **input)
{
    enum feed_state state = FEED_EMPTY;
    if (ready_pop(feed, input)) state = FEED_INPUT;
    /* Acquire pairs with the end of the thread: what it pushed before is there now, so look once more. */
    else if (atomic_load_explicit(&feed->shared_is_done, memory_order_acquire) || feed_is_interrupted(feed))
        state = ready_pop(feed, input) ? FEED_INPUT : FEED_END;
    /* Relaxed: feed_wake only guesses from it whether anything moves. */
    atomic_store_explicit(&feed->shared_is_wanted, state == FEED_EMPTY, memory_order_relaxed);
    return state;
}

status feed_result(const struct feed *feed)
{
    if (!atomic_load_explicit(&feed->shared_is_done, memory_order_acquire)) return ST_OK; /* interrupted */
    return failure_adopt(&feed->result);
}

bool feed_is_cut(const struct feed *feed, const struct input *input)
{
    /* Acquire pairs with the end of the thread. */
    return atomic_load_explicit(&feed->shared_is_done, memory_order_acquire) && input->batch.step == feed->cut_step;
}

bool feed_has_step(const struct feed *feed, const struct input *input)
{
    /* Acquire pairs with input_give(). */
    return !feed->is_by_step || input->batch.step < atomic_load_explicit(&feed->shared_read, memory_order_acquire);
}

void feed_release(struct feed *feed, struct input *input)
{
    if (feed->training && input->batch.is_last) CHECK(ring_try_push(&feed->free_blocks, input->step_block));
    CHECK(ring_try_push(&feed->free, input->index));
    bell_ring(&feed->free_bell);
}

const struct reader_mark *feed_marks(const struct feed *feed, uint32_t *count)
{
    return reader_marks(feed->source, count);
}

void feed_look(struct feed *feed, feed_looker *look, void *context)
{
    feed->look = look;
    feed->look_context = context;
}

uint32_t feed_input_count(const struct feed *feed) { return feed->input_count; }

void *feed_memory(const struct feed *feed, size_t *bytes)
{
    *bytes = feed->arena.size_bytes;
    return feed->arena.base;
}

struct feed_counts feed_counts(const struct feed *feed)
{
    return (struct feed_counts){
        .byte_count = atomic_load_explicit(&feed->shared_bytes, memory_order_relaxed),
        .size_bytes = feed->source->size_bytes,
        .bad_count = atomic_load_explicit(&feed->shared_bad, memory_order_relaxed),
        .cut_count = atomic_load_explicit(&feed->shared_cut, memory_order_relaxed),
        .unknown_count = atomic_load_explicit(&feed->shared_unknown, memory_order_relaxed),
        .example_count = atomic_load_explicit(&feed->shared_examples, memory_order_relaxed),
        .read_ns = atomic_load_explicit(&feed->shared_read_ns, memory_order_relaxed),
        .prepare_ns = atomic_load_explicit(&feed->shared_prepare_ns, memory_order_relaxed),
        .wait_ns = atomic_load_explicit(&feed->shared_wait_ns, memory_order_relaxed),
    };
}

const char *feed_nothing_text(const struct feed *feed)
{
    const struct feed_counts counts = feed_counts(feed);
    if (counts.bad_count && counts.unknown_count) return ": every line is malformed, or its label or target no word";
    if (counts.bad_count) return ": every line is malformed";
    return counts.unknown_count ? ": no label or target is a word of its vocabulary" : "";
}

const char *feed_paths(const struct feed *feed) { return feed->source->paths; }

uint64_t feed_example_estimate(const struct feed *feed) { return feed->source->example_estimate; }

bool feed_is_stream(const struct feed *feed) { return feed->source->is_stream; }

status feed_sweep(struct feed *feed, struct input *input, uint64_t *row_count)
{
    struct store *store = feed->model->store;
    status st = row_gate_hold(&feed->gate);
    if (st == ST_OK) st = store_sweep(store, model_period(feed->graph, input->batch.step + 1));
    if (st == ST_OK) store_find_again(store, &input->batch, &input->ticket);
    for (uint32_t t = 0; t < feed->graph->table_count; t++) row_count[t] = store_row_count(store, t);
    row_gate_let_go(&feed->gate);
    /* Release pairs with the acquire in wanted_look(). */
    atomic_store_explicit(&feed->shared_swept, input->batch.step + 1, memory_order_release);
    bell_ring(&feed->free_bell);
    return st;
}

status feed_hold(struct feed *feed) { return row_gate_hold(&feed->gate); }

void feed_let_go(struct feed *feed) { row_gate_let_go(&feed->gate); }

void feed_interrupt(void *feed_pointer)
{
    struct feed *feed = feed_pointer;
    /* Release pairs with the acquires in feed_is_interrupted(). */
    atomic_store_explicit(&feed->shared_is_interrupted, true, memory_order_release);
    bell_ring(&feed->free_bell);
    bell_ring(feed->ready_bell);
}

bool feed_wake(void *feed_pointer)
{
    struct feed *feed = feed_pointer;
    /* Relaxed, all: a guess. A turn that began since the last call, or an input that the consumer has
     * not asked for yet, is movement. */
    uint32_t turn = atomic_load_explicit(&feed->shared_turn, memory_order_relaxed);
    bool is_stuck = turn % 2 == 1 && turn == feed->turn_seen && ring_depth(&feed->ready) == 0 &&
                    atomic_load_explicit(&feed->shared_is_wanted, memory_order_relaxed);
    feed->turn_seen = turn;
    if (is_stuck) feed_interrupt(feed);
    return is_stuck;
}

/* Waits for the thread to end; false if it is left behind. */
static bool thread_end(struct feed *feed)
{
    feed_interrupt(feed);
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += 1;
    if (pthread_timedjoin_np(feed->thread, NULL, &deadline) == 0) return true;
    /* A thread that waits for a pipe to which nobody writes cannot be woken. It is left to the exit, and
     * touches nothing but this feed if it comes back. Acquire pairs with the release in source_enter();
     * release with the acquire in source_leave(). */
    uint32_t phase = IN_SOURCE;
    if (atomic_compare_exchange_strong_explicit(&feed->shared_phase, &phase, LEFT_BEHIND, memory_order_acq_rel,
                                                memory_order_relaxed)) {
        pthread_detach(feed->thread);
        numberers_stop(feed->numberers); /* they would number in a store that is gone */
        return false;
    }
    pthread_join(feed->thread, NULL);
    return true;
}

void feed_end(struct feed *feed)
{
    if (feed == NULL || !feed->is_started) return;
    feed->is_started = false;
    feed->is_behind = !thread_end(feed);
}

void feed_close(struct feed *feed)
{
    feed_end(feed);
    if (feed == NULL || feed->is_behind) return;
    if (feed->looks) feed->exchange->vt->look_end(feed->exchange);
    numberers_stop(feed->numberers);
    memory_note("threads", -(size_t)feed->numbering.count * THREAD_STACK_BYTES); /* taken back, modulo 2^64 */
    reader_close(feed->source);
    arena_close(&feed->arena);
    free(feed);
}

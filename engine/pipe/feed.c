/* The feed's thread.
 *
 * Three rings of numbers, each with a cell for every number there is, so a push always finds room:
 *
 *     free ──input──▶ thread ──input──▶ ready ──▶ consumer ──input──▶ free
 *     free_blocks ──step's rows──▶ thread, with a step's first input … consumer, with its last ──▶ free_blocks
 *
 * The thread sleeps at free_bell, which a team that it helps rings too, the consumer at its own. Nothing is allocated and no lock is taken while it runs: files are
 * opened, unpacked and shuffled in memory taken by feed_open. */
#include "engine/pipe/feed.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/cores.h"
#include "engine/base/thread.h"
#include "engine/device/cpu/team.h"
#include "engine/pipe/row_gate.h"
#include "engine/base/trace.h"

#define NUMBER_NONE UINT32_MAX
#define STEP_NONE   UINT64_MAX
/* Examples that a resumed run drops between two looks at whether it should stop. */
#define SKIP_EXAMPLES UINT64_C(65536)
/* The thread leaves a team of two to its caller where it has been idle for less than one part in IDLE_PARTS of the time lately, which is about
 * RECENT_INPUTS inputs: what two cores share then costs more than the second one gives. */
#define IDLE_PARTS    3u
#define RECENT_INPUTS 16u

/* What the thread is at, for who wants it to end: a call of the source may wait for a pipe that nobody writes to, and cannot be
 * woken from that. Who gives up on it exchanges IN_SOURCE for LEFT_BEHIND; everything else ends soon. */
enum phase { AT_WORK, IN_SOURCE, LEFT_BEHIND };

struct feed {
    /* set once */
    const struct graph *graph;
    struct model *model;
    struct batch_shape shape;
    struct example_shape example;
    bool training;
    bool sweeps; /* rows die, or are too many, when steps end */
    uint64_t epochs, steps_max;
    struct progress from;
    struct reader *source;
    struct arena arena;
    struct input *inputs;
    uint32_t input_count;
    const int *processors; /* the caller's */
    uint32_t processor_count;
    struct step_rows *steps; /* [steps_ahead, table_count]: blocks of rows, a step each               */
    uint32_t steps_ahead;
    struct ring ready, free, free_blocks;
    struct bell *ready_bell; /* the consumer's */
    struct bell own_bell;    /* that, where it has none */
    struct bell free_bell;   /* the thread's */
    pthread_t thread;
    bool is_started;
    /* the thread's */
    struct row_numbers *numbers; /* [table_count]                                                 */
    uint32_t held_input;         /* taken and not used, or NUMBER_NONE                            */
    uint64_t
        *block_step; /* [steps_ahead], training: the gate's number of the step that a block is out with, or STEP_NONE */
    uint32_t *
        spare; /* [spare_count]: blocks that have come back                                                            */
    uint32_t spare_count;
    struct row_gate gate;
    bool is_left; /* it has been left behind: everything but the feed's own memory may be gone */
    uint64_t read_ns, prepare_ns, wait_ns;
    bool is_away; /* it helps no team of two                                          */
    uint64_t busy_seen_ns, busy_recent_ns, wait_seen_ns, wait_recent_ns; /* away_decide's                  */
    /* written by the thread before shared_is_done, read after it */
    status result;
    char message[4096];
    /* seen by all */
    _Atomic uint64_t shared_bytes, shared_bad, shared_cut, shared_unknown, shared_read_ns, shared_prepare_ns,
        shared_wait_ns;
    _Atomic bool shared_is_done;        /* the thread has ended                                       */
    _Atomic bool shared_is_interrupted; /* it should end                                              */
    _Atomic uint32_t shared_phase;
    _Atomic uint64_t shared_swept; /* steps below it have been swept, if they were to be                */
    /* Odd while the thread works towards the next input, even while it waits for a free one or has ended; changes with every input. */
    _Atomic uint32_t shared_turn;
    _Atomic(struct team *) shared_team; /* that the thread helps, or NULL                               */
    _Atomic bool shared_is_helping;     /* the thread may be in it                                      */
    _Atomic bool shared_spins;          /* the team's members do                                        */
    _Atomic bool shared_is_wanted;      /* the consumer's last question found nothing                        */
    uint32_t turn_seen;                 /* feed_wake's: shared_turn at its last call                          */
};

static bool team_look(void *context);

/* --- memory ----------------------------------------------------------------------------------- */

/* Most distinct rows that a step can touch in a table; the compiler has bounded it by 2^31. */
static uint32_t step_rows_max(const struct graph *g, uint32_t table)
{
    return g->header->batch * g->tables[table].key_count_max;
}

/* Blocks of rows: a run of inputs covers at most (inputs - 1) / micros + 2 steps, and the consumer may still be at the update of
 * one more. Where steps of one micro-batch overtake each other (wsp, asp), each input can keep a block of its own, and one is
 * being filled: there are so many too. */
static uint32_t steps_ahead_of(const struct graph *g, uint32_t input_count)
{
    return (input_count - 1) / batch_micro_count(graph_batch(g)) + 3;
}

/* Of training: whether a table has keys without a row. */
static bool is_choosy(const struct feed_options *o, uint32_t table)
{
    return o->training && store_admission(o->model->store, table) != NULL;
}

/* Whether rows of the table die; fills what an update wants to know of a step's rows. */
static bool step_rows_wanted(const struct feed_options *o, uint32_t t, struct step_rows_wants *wants)
{
    const struct graph_table *table = &o->graph->tables[t];
    const bool lives = store_lives(o->model->store, t), counts = lives && table->life.counts;
    *wants = (struct step_rows_wants){.shows = counts || optimizer_reads_shows(&o->graph->optimizers[table->optimizer]),
                                      .clicks = counts,
                                      .keys = counts && table->life.vector_score > 0,
                                      .nobody_floats = lives ? table->span_floats : 0};
    return counts;
}

static void feed_layout(struct layout *l, const struct feed_options *o, struct feed *feed)
{
    const struct graph *g = o->graph;
    uint32_t spans[GRAPH_TABLES_MAX];
    bool with_scratch = !o->training;
    for (uint32_t t = 0; t < g->table_count; t++) {
        spans[t] = !o->training || is_choosy(o, t) ? g->tables[t].span_floats : 0; /* floats in scratch */
        with_scratch |= is_choosy(o, t);
    }
    struct input *inputs;
    LAYOUT_TAKE(l, inputs, o->input_count);
    for (uint32_t s = 0; s < o->input_count; s++) input_layout(l, l->arena ? &inputs[s] : NULL, g, spans, with_scratch);
    ring_layout(l->arena ? &feed->ready : NULL, l, o->input_count, RING_ONE);
    ring_layout(l->arena ? &feed->free : NULL, l, o->input_count, RING_MANY);
    if (l->arena) feed->inputs = inputs;
    uint32_t steps_ahead = steps_ahead_of(g, o->input_count);
    row_gate_layout(l->arena ? &feed->gate : NULL, l, o->input_count, steps_ahead);
    if (!o->training) return;
    uint64_t *block_step;
    uint32_t *spare;
    LAYOUT_TAKE(l, block_step, steps_ahead);
    LAYOUT_TAKE(l, spare, steps_ahead);
    if (l->arena) feed->block_step = block_step;
    if (l->arena) feed->spare = spare;
    ring_layout(l->arena ? &feed->free_blocks : NULL, l, steps_ahead, RING_MANY);
    struct row_numbers *numbers;
    LAYOUT_TAKE(l, numbers, g->table_count);
    struct step_rows *steps;
    LAYOUT_TAKE(l, steps, (size_t)steps_ahead * g->table_count);
    for (uint32_t t = 0; t < g->table_count; t++) {
        uint32_t rows_max = step_rows_max(g, t);
        struct step_rows_wants wants;
        bool sweeps = step_rows_wanted(o, t, &wants);
        if (l->arena) feed->sweeps |= sweeps;
        row_numbers_layout(l->arena ? &numbers[t] : NULL, l, rows_max, batch_micro_count(graph_batch(g)));
        for (uint32_t s = 0; s < steps_ahead; s++)
            step_rows_layout(l->arena ? &steps[s * g->table_count + t] : NULL, l, rows_max, wants);
    }
    if (!l->arena) return;
    feed->numbers = numbers;
    feed->steps = steps;
    feed->steps_ahead = steps_ahead;
}

static size_t feed_bytes(const struct feed_options *options)
{
    struct layout sum = {0};
    feed_layout(&sum, options, NULL);
    return sum.bytes;
}

static status feed_source_open(struct reader **source, const struct feed_options *o)
{
    if (o->source == NULL) return cached_reader_open(source, &o->reader, &o->cache, o->cache_kept);
    *source = o->source;
    return ST_OK;
}

status feed_open(struct feed **out, const struct feed_options *o)
{
    struct feed *feed = aligned_alloc(_Alignof(struct feed), sizeof *feed);
    if (feed == NULL) FAIL(MEMORY, "no memory for a feed");
    memset(feed, 0, sizeof *feed);
    feed->graph = o->graph;
    feed->model = o->model;
    feed->shape = graph_batch(o->graph);
    feed->example = graph_example(o->graph);
    feed->training = o->training;
    feed->epochs = o->epochs;
    feed->steps_max = o->steps_max;
    feed->held_input = NUMBER_NONE;
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
    row_gate_open(&feed->gate, o->model->store, &feed->free_bell, team_look, feed);
    *out = feed;
    return ST_OK;
}

/* --- the thread ------------------------------------------------------------------------------- */

/* Where the thread is in the data. */
struct place {
    uint64_t epoch, step;
    uint32_t step_block; /* training: of the step's rows                                            */
    uint32_t step_examples;
    bool is_end;  /* of the pass                                                                    */
    bool is_open; /* false: the feed was interrupted, and the thread ends                           */
};

static bool is_interrupted(const struct feed *feed)
{
    /* Acquire pairs with the release in feed_interrupt(). */
    return atomic_load_explicit(&feed->shared_is_interrupted, memory_order_acquire);
}

/* Relaxed: feed_wake() only compares it with what it was a second ago. */
static void turn_add(struct feed *feed, uint32_t count)
{
    atomic_fetch_add_explicit(&feed->shared_turn, count, memory_order_relaxed);
}

/* Around calls of the source that may wait. */
static void source_enter(struct feed *feed)
{
    /* Release pairs with the acquire in thread_end(): who leaves the thread behind does so after all that it has done before. */
    atomic_store_explicit(&feed->shared_phase, IN_SOURCE, memory_order_release);
}
/* Returns whether the thread should go on. */
static bool source_leave(struct feed *feed)
{
    /* Acquire pairs with thread_end(), and nothing that follows is done before it; release as above. */
    feed->is_left = atomic_exchange_explicit(&feed->shared_phase, AT_WORK, memory_order_acq_rel) == LEFT_BEHIND;
    return !feed->is_left && !is_interrupted(feed);
}

/* --- the thread: inputs and rows ----------------------------------------------------------------- */

/* Works off what the team has to do just now, if there is one; returns whether there was anything. */
static bool team_look(void *context)
{
    struct feed *feed = context;
    /* Relaxed: whether the thread comes a moment late decides nothing. */
    if (atomic_load_explicit(&feed->shared_team, memory_order_relaxed) == NULL) return false;
    /* Sequentially consistent, both, with feed_team_set(): of "I am in, which team?" and "another team, is anyone in?" at least one sees
     * the other. Release: who sees the thread out sees it done. */
    atomic_store_explicit(&feed->shared_is_helping, true, memory_order_seq_cst);
    struct team *team = atomic_load_explicit(&feed->shared_team, memory_order_seq_cst);
    bool has_helped = team && team_help(team);
    atomic_store_explicit(&feed->shared_is_helping, false, memory_order_release);
    return has_helped;
}

/* Tells the team, if there is one, whether the thread comes. */
static void away_tell(struct feed *feed, bool is_away)
{
    feed->is_away = is_away;
    /* As in team_look(). */
    atomic_store_explicit(&feed->shared_is_helping, true, memory_order_seq_cst);
    struct team *team = atomic_load_explicit(&feed->shared_team, memory_order_seq_cst);
    if (team) team_helper_away_set(team, is_away);
    atomic_store_explicit(&feed->shared_is_helping, false, memory_order_release);
}

/* What has been added to a sum since the last call, and what was added lately. */
static void recent_add(uint64_t *recent_ns, uint64_t *seen_ns, uint64_t now_ns)
{
    *recent_ns += now_ns - *seen_ns - *recent_ns / RECENT_INPUTS;
    *seen_ns = now_ns;
}

/* Behind every input, once it is known how long a wait is. */
static void away_decide(struct feed *feed)
{
    if (feed->wait_ns == 0) return;
    recent_add(&feed->busy_recent_ns, &feed->busy_seen_ns, feed->read_ns + feed->prepare_ns);
    recent_add(&feed->wait_recent_ns, &feed->wait_seen_ns, feed->wait_ns);
    away_tell(feed, feed->wait_recent_ns * IDLE_PARTS < feed->busy_recent_ns + feed->wait_recent_ns);
}

struct wanted {
    struct feed *feed;
    struct ring *ring;    /* NULL: nothing but work for the team … */
    uint64_t swept_above; /* … or, unless 0, the sweep at the end of step swept_above - 1 */
    uint32_t number;
    bool is_found;
};
static bool wanted_look(void *context)
{
    struct wanted *w = context;
    w->is_found = w->ring && ring_try_pop(w->ring, &w->number);
    /* Acquire pairs with the release in feed_sweep(): the store is as it has left it. */
    if (w->swept_above)
        w->is_found = atomic_load_explicit(&w->feed->shared_swept, memory_order_acquire) >= w->swept_above;
    return w->is_found || is_interrupted(w->feed) || team_look(w->feed);
}

/* Helps the team until what is wanted is there, or the feed is interrupted. */
static void help(struct feed *feed, struct wanted *wanted)
{
    do {
        /* A helper spins as members do. Alone the thread does not: all inputs are full, so the consumer has work for longer than a spin
         * lasts, and wants the core for it. Relaxed: either will do. */
        bool spins = !feed->is_away && atomic_load_explicit(&feed->shared_spins, memory_order_relaxed);
        bell_await(&feed->free_bell, spins, wanted_look, wanted);
    } while (!wanted->is_found && !is_interrupted(feed));
}

/* The number that was left over from the end of a pass, or the next that the consumer gives back. False if interrupted. */
static bool number_take(struct feed *feed, struct ring *ring, uint32_t *held, const struct place *at, uint32_t micro,
                        uint32_t *number)
{
    *number = *held;
    *held = NUMBER_NONE;
    if (*number != NUMBER_NONE || ring_try_pop(ring, number)) return !is_interrupted(feed);
    uint64_t begin_ns = clock_ns();
    struct wanted wanted = {.feed = feed, .ring = ring};
    turn_add(feed, 1);
    help(feed, &wanted);
    turn_add(feed, 1);
    uint64_t end_ns = clock_ns();
    feed->wait_ns += end_ns - begin_ns;
    trace_span(TRACE_WAIT, "no free input", begin_ns, end_ns, at->step, micro);
    *number = wanted.number;
    return wanted.is_found && !is_interrupted(feed);
}

/* Shows the consumer the inputs whose rows have come, in order; if `wait`, at least one, of those that there are. */
static status inputs_show(struct feed *feed, bool wait)
{
    uint32_t index;
    for (bool is_shown = true; is_shown; wait = false) {
        TRY(row_gate_look(&feed->gate, wait, &index, &is_shown));
        if (!is_shown) continue;
        CHECK(ring_try_push(&feed->ready, index));
        bell_ring(feed->ready_bell);
        turn_add(feed, 2);
    }
    return ST_OK;
}

/* Goes on with rows under way as long as there is nothing else to do than to wait for the ring. */
static status ring_await(struct feed *feed, const struct ring *ring)
{
    while (row_gate_is_waiting(&feed->gate) && ring_depth(ring) == 0 && !is_interrupted(feed))
        TRY(inputs_show(feed, true));
    return ST_OK;
}

/* A block has come back, and with it the last input of its step. */
static void block_back(struct feed *feed, uint32_t block)
{
    if (feed->block_step[block] != STEP_NONE) row_gate_step_over(&feed->gate, feed->block_step[block]);
    feed->block_step[block] = STEP_NONE;
    feed->spare[feed->spare_count++] = block;
}

/* Takes those back that have come; if there is none at all, waits for one. */
static status blocks_take_back(struct feed *feed, struct place *at, bool wait)
{
    uint32_t block, held = NUMBER_NONE;
    while (ring_try_pop(&feed->free_blocks, &block)) {
        block_back(feed, block);
        wait = false;
    }
    if (!wait) return ST_OK;
    TRY(ring_await(feed, &feed->free_blocks));
    at->is_open = number_take(feed, &feed->free_blocks, &held, at, 0, &block);
    if (at->is_open) block_back(feed, block);
    return ST_OK;
}

/* Of at->step_block, for the step that begins. */
static status block_take(struct feed *feed, struct place *at)
{
    TRY(blocks_take_back(feed, at, feed->spare_count == 0));
    if (!at->is_open) return ST_OK;
    at->step_block = feed->spare[--feed->spare_count];
    feed->block_step[at->step_block] = row_gate_step_begin(&feed->gate);
    return ST_OK;
}

/* The step had no example. */
static void block_give_back(struct feed *feed, uint32_t block)
{
    row_gate_step_cancel(&feed->gate, feed->block_step[block]);
    feed->block_step[block] = STEP_NONE;
    block_back(feed, block);
}

/* Until RAM has room for the rows of one more micro-batch: steps have to end for that. */
static status room_await(struct feed *feed, struct place *at)
{
    for (bool has_room = false;;) {
        TRY(row_gate_room(&feed->gate, &has_room));
        if (has_room) return ST_OK;
        TRY(blocks_take_back(feed, at, true));
        if (!at->is_open) return ST_OK;
    }
}

static struct step_rows *block_of(const struct feed *feed, uint32_t block)
{
    return &feed->steps[(size_t)block * feed->graph->table_count];
}

static void step_begin(struct feed *feed, struct step_rows *rows)
{
    for (uint32_t t = 0; t < feed->graph->table_count; t++) step_rows_begin(&feed->numbers[t], &rows[t]);
}

/* --- the thread: reading ------------------------------------------------------------------------ */

static void counts_publish(struct feed *feed)
{
    struct reader_counts counts = reader_counts(feed->source);
    /* Relaxed: figures for people, ordered with nothing. */
    atomic_store_explicit(&feed->shared_bytes, counts.byte_count, memory_order_relaxed);
    atomic_store_explicit(&feed->shared_bad, counts.bad_count, memory_order_relaxed);
    atomic_store_explicit(&feed->shared_cut, counts.cut_count, memory_order_relaxed);
    atomic_store_explicit(&feed->shared_unknown, counts.unknown_count, memory_order_relaxed);
    atomic_store_explicit(&feed->shared_read_ns, feed->read_ns, memory_order_relaxed);
    atomic_store_explicit(&feed->shared_prepare_ns, feed->prepare_ns, memory_order_relaxed);
    atomic_store_explicit(&feed->shared_wait_ns, feed->wait_ns, memory_order_relaxed);
}

/* Starts a pass and drops its first `skip` examples. */
static status pass_begin(struct feed *feed, struct place *at, uint64_t skip)
{
    at->is_end = false;
    uint64_t begin_ns = clock_ns();
    source_enter(feed);
    status st = reader_start(feed->source, at->epoch);
    at->is_open = source_leave(feed);
    for (uint64_t left = skip; st == ST_OK && at->is_open && left > 0 && !at->is_end;) {
        uint64_t count = left < SKIP_EXAMPLES ? left : SKIP_EXAMPLES;
        source_enter(feed);
        st = reader_skip(feed->source, count, &at->is_end);
        at->is_open = source_leave(feed);
        left -= count;
    }
    if (feed->is_left) return ST_OK;
    uint64_t end_ns = clock_ns();
    feed->read_ns += end_ns - begin_ns;
    if (skip) trace_span(TRACE_READ, "skip", begin_ns, end_ns, at->step, 0);
    return st;
}

/* Fills the input with the step's next examples, up to a micro-batch or the end of the pass. */
static status input_read(struct feed *feed, struct place *at, uint32_t micro, struct input *input)
{
    uint64_t begin_ns = clock_ns();
    struct micro_batch *m = &input->batch;
    micro_batch_clear(m);
    source_enter(feed);
    status st = reader_fill(feed->source, m, feed->shape.micro, &at->is_end);
    at->is_open = source_leave(feed);
    if (feed->is_left) return ST_OK;
    at->step_examples += m->example_count;
    m->step = at->step;
    m->epoch = at->epoch;
    m->micro_index = micro;
    m->is_last = at->is_end || micro + 1 == batch_micro_count(feed->shape);
    m->step_example_count = at->step_examples;
    uint64_t end_ns = clock_ns();
    feed->read_ns += end_ns - begin_ns;
    trace_span(TRACE_READ, "read", begin_ns, end_ns, at->step, micro);
    return st;
}

/* Whether rows go when the input's step ends. */
static status sweep_decide(struct feed *feed, const struct place *at, struct input *input)
{
    input->is_sweep = false;
    if (!feed->sweeps || !input->batch.is_last) return ST_OK;
    TRY(row_gate_is_crowded(&feed->gate, &input->is_sweep));
    input->is_sweep |= model_period(feed->graph, at->step + 1) > model_period(feed->graph, at->step);
    return ST_OK;
}

/* Until the rows have gone: what follows is prepared with those that are left. */
static status sweep_await(struct feed *feed, struct place *at)
{
    while (row_gate_is_waiting(&feed->gate) && !is_interrupted(feed)) TRY(inputs_show(feed, true));
    struct wanted wanted = {.feed = feed, .swept_above = at->step + 1};
    uint64_t begin_ns = clock_ns();
    turn_add(feed, 1);
    help(feed, &wanted);
    turn_add(feed, 1);
    uint64_t end_ns = clock_ns();
    feed->wait_ns += end_ns - begin_ns;
    trace_span(TRACE_WAIT, "rows go", begin_ns, end_ns, at->step, 0);
    at->is_open = !is_interrupted(feed);
    return ST_OK;
}

/* Finds or makes the rows of the input's keys. */
static status input_prepare(struct feed *feed, const struct place *at, struct input *input)
{
    uint64_t begin_ns = clock_ns();
    const struct micro_batch *m = &input->batch;
    TRY(row_gate_prepare(&feed->gate, m, feed->training ? STORE_CREATE : STORE_LOOKUP, &input->ticket));
    input->step_rows = NULL;
    if (feed->training) {
        input->step_block = at->step_block;
        input->step_rows = block_of(feed, at->step_block);
        row_gate_step_ticket(&feed->gate, feed->block_step[at->step_block], input->ticket.number);
        for (uint32_t t = 0; t < input->ticket.table_count; t++) {
            const uint32_t before = input->step_rows[t].row_count;
            step_rows_add(&feed->numbers[t], &input->step_rows[t], &input->ticket.table[t]);
            step_rows_judge(&input->step_rows[t], before, &input->ticket.table[t], m, feed->graph->field_count,
                            feed->graph->tables[t].life.click_label, feed->graph->label_count);
        }
        TRY(sweep_decide(feed, at, input));
    }
    uint64_t end_ns = clock_ns();
    feed->prepare_ns += end_ns - begin_ns;
    trace_span(TRACE_PREPARE, "prepare", begin_ns, end_ns, at->step, m->micro_index);
    return ST_OK;
}

/* One step, or none if the pass has ended with the step before. */
static status step_read(struct feed *feed, struct place *at)
{
    at->step_examples = 0;
    for (uint32_t micro = 0; micro < batch_micro_count(feed->shape) && !at->is_end; micro++) {
        uint32_t index;
        if (micro == 0 && feed->training) {
            TRY(block_take(feed, at));
            if (!at->is_open) return ST_OK;
            step_begin(feed, block_of(feed, at->step_block));
        }
        TRY(ring_await(feed, &feed->free));
        at->is_open = number_take(feed, &feed->free, &feed->held_input, at, micro, &index);
        if (!at->is_open) return ST_OK;
        struct input *input = &feed->inputs[index];
        TRY(input_read(feed, at, micro, input));
        if (!at->is_open) return ST_OK;
        if (at->step_examples == 0) { /* nobody has seen this input, nor the step's block */
            CHECK(micro == 0 && at->is_end);
            feed->held_input = index;
            if (feed->training) block_give_back(feed, at->step_block);
            return ST_OK;
        }
        if (feed->training) TRY(room_await(feed, at));
        if (!at->is_open) return ST_OK;
        TRY(input_prepare(feed, at, input));
        counts_publish(feed);
        away_decide(feed);
        const bool is_sweep = input->is_sweep;
        row_gate_wait(&feed->gate, index, &input->ticket);
        TRY(inputs_show(feed, false));
        if (is_sweep) TRY(sweep_await(feed, at));
        if (!at->is_open) return ST_OK;
    }
    at->step++;
    return ST_OK;
}

/* One pass: fills inputs until the data or `steps_max` ends, or the feed is interrupted. */
static status pass_run(struct feed *feed, struct place *at, uint64_t skip)
{
    TRY(pass_begin(feed, at, skip));
    while (at->is_open && !at->is_end && (feed->steps_max == 0 || at->step < feed->steps_max)) TRY(step_read(feed, at));
    return ST_OK;
}

/* Shows what still waits for its rows. */
static status waiting_end(struct feed *feed)
{
    while (row_gate_is_waiting(&feed->gate) && !is_interrupted(feed)) TRY(inputs_show(feed, true));
    return ST_OK;
}

static void feed_fail(struct feed *feed, status st)
{
    if (st == ST_OK || feed->result != ST_OK) return;
    feed->result = st;
    snprintf(feed->message, sizeof feed->message, "%s", status_message());
}

static void *feed_main(void *argument)
{
    struct feed *feed = argument;
    struct place at = {.epoch = feed->from.epoch, .step = feed->from.step, .is_open = true};
    uint64_t skip = feed->from.epoch_examples;
    status st = ST_OK;
    cores_pin(feed->processors, feed->processor_count);
    trace_thread("reading");
    turn_add(feed, 1);
    for (; at.epoch < feed->epochs && at.is_open && st == ST_OK; at.epoch++) {
        if (feed->steps_max && at.step >= feed->steps_max) break;
        st = pass_run(feed, &at, skip);
        skip = 0;
    }
    if (feed->is_left) return NULL;
    feed_fail(feed, st);
    feed_fail(feed, waiting_end(feed));            /* what is prepared comes before a failure of what is not */
    feed_fail(feed, row_gate_settle(&feed->gate)); /* nothing is on its way to the feed's memory when that goes */
    counts_publish(feed);
    turn_add(feed, 1);
    /* Release pairs with the acquires in feed_try_next() and feed_result(): result, message and the last input come before it. */
    atomic_store_explicit(&feed->shared_is_done, true, memory_order_release);
    bell_ring(feed->ready_bell);
    away_tell(feed, false);
    help(feed, &(struct wanted){.feed = feed});
    return NULL;
}

void feed_bell_set(struct feed *feed, struct bell *bell)
{
    CHECK(!feed->is_started);
    feed->ready_bell = bell;
}

void feed_team_set(struct feed *feed, struct team *team, bool spins)
{
    struct team *before = atomic_load_explicit(&feed->shared_team, memory_order_relaxed);
    atomic_store_explicit(&feed->shared_spins, team && spins, memory_order_relaxed);
    /* Sequentially consistent, with team_look(). */
    atomic_store_explicit(&feed->shared_team, team, memory_order_seq_cst);
    while (atomic_load_explicit(&feed->shared_is_helping, memory_order_seq_cst)) sched_yield();
    if (before) team_helper_set(before, NULL);
    if (team) team_helper_set(team, &feed->free_bell);
}

status feed_start(struct feed *feed, const struct progress *from)
{
    if (from) feed->from = *from;
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
    else if (atomic_load_explicit(&feed->shared_is_done, memory_order_acquire) || is_interrupted(feed))
        state = ready_pop(feed, input) ? FEED_INPUT : FEED_END;
    /* Relaxed: feed_wake only guesses from it whether anything moves. */
    atomic_store_explicit(&feed->shared_is_wanted, state == FEED_EMPTY, memory_order_relaxed);
    return state;
}

status feed_result(const struct feed *feed)
{
    if (!atomic_load_explicit(&feed->shared_is_done, memory_order_acquire)) return ST_OK; /* interrupted */
    return feed->result == ST_OK ? ST_OK : status_adopt(feed->result, feed->message);
}

void feed_release(struct feed *feed, struct input *input)
{
    if (feed->training && input->batch.is_last) CHECK(ring_try_push(&feed->free_blocks, input->step_block));
    CHECK(ring_try_push(&feed->free, input->index));
    bell_ring(&feed->free_bell);
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
        .read_ns = atomic_load_explicit(&feed->shared_read_ns, memory_order_relaxed),
        .prepare_ns = atomic_load_explicit(&feed->shared_prepare_ns, memory_order_relaxed),
        .wait_ns = atomic_load_explicit(&feed->shared_wait_ns, memory_order_relaxed),
    };
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
    /* Release pairs with the acquires in is_interrupted(). */
    atomic_store_explicit(&feed->shared_is_interrupted, true, memory_order_release);
    bell_ring(&feed->free_bell);
    bell_ring(feed->ready_bell);
}

bool feed_wake(void *feed_pointer)
{
    struct feed *feed = feed_pointer;
    /* Relaxed, all: a guess. A turn that began since the last call, or a input that the consumer has not asked for yet, is movement. */
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
    /* A thread that waits for a pipe nobody writes to cannot be woken: it is left to the exit, and touches nothing but this feed
     * should it come back. Acquire pairs with the release in source_enter(); release with the acquire in source_leave(). */
    uint32_t phase = IN_SOURCE;
    if (atomic_compare_exchange_strong_explicit(&feed->shared_phase, &phase, LEFT_BEHIND, memory_order_acq_rel,
                                                memory_order_relaxed)) {
        pthread_detach(feed->thread);
        return false;
    }
    pthread_join(feed->thread, NULL);
    return true;
}

void feed_close(struct feed *feed)
{
    if (feed == NULL || (feed->is_started && !thread_end(feed))) return;
    reader_close(feed->source);
    arena_close(&feed->arena);
    free(feed);
}

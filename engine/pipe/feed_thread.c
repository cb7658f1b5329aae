/* The feed's thread: reads, finds rows, numbers them, and helps a team while it has to wait. */
#include "engine/pipe/feed_internal.h"

#include <inttypes.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/cores.h"
#include "engine/base/doing.h"
#include "engine/base/trace.h"

/* Examples that a resumed run drops between two looks at whether it should stop. */
#define SKIP_EXAMPLES UINT64_C(65536)
/* The thread leaves a team of two to its caller where, over about the last RECENT_INPUTS
 * inputs, it has been idle for less than one part in IDLE_PARTS of the time: sharing then costs
 * more than the second core gives. */
#define IDLE_PARTS    3u
#define RECENT_INPUTS 16u

/* Where the thread is in the data. */
struct feed_place {
    uint64_t epoch, step;
    uint32_t step_block; /* training: of the step's rows                                            */
    uint32_t step_examples;
    uint32_t input; /* of the step, that is being filled or held back, or NUMBER_NONE              */
    bool is_end;    /* of the pass                                                                    */
    bool is_open;   /* false: the feed was interrupted, and the thread ends                           */
};

/* Relaxed: feed_wake() only compares it with what it was a second ago. */
static void turn_add(struct feed *feed, uint32_t count)
{
    atomic_fetch_add_explicit(&feed->shared_turn, count, memory_order_relaxed);
}

/* Around calls of the source that may wait. */
static void source_enter(struct feed *feed)
{
    /* Release pairs with the acquire in thread_end(): whoever leaves the thread behind does so
     * after all that it has done before. */
    atomic_store_explicit(&feed->shared_phase, IN_SOURCE, memory_order_release);
}
/* Returns whether the thread should go on. */
static bool source_leave(struct feed *feed)
{
    /* Acquire pairs with thread_end(), and nothing that follows is done before it; release as above. */
    feed->is_left = atomic_exchange_explicit(&feed->shared_phase, AT_WORK, memory_order_acq_rel) == LEFT_BEHIND;
    return !feed->is_left && !feed_is_interrupted(feed);
}

/* --- inputs and rows ----------------------------------------------------------------------------- */

bool feed_team_look(void *context)
{
    struct feed *feed = context;
    /* Relaxed: whether the thread comes a moment late decides nothing. */
    if (atomic_load_explicit(&feed->shared_team, memory_order_relaxed) == NULL) return false;
    /* Sequentially consistent, both, with feed_team_set(): of "I am in, which team?" and "another team, is
     * anyone in?" at least one sees the other. Release: whoever sees the thread out sees its work done. */
    atomic_store_explicit(&feed->shared_is_helping, true, memory_order_seq_cst);
    struct team *team = atomic_load_explicit(&feed->shared_team, memory_order_seq_cst);
    bool has_helped = team && team_help(team);
    atomic_store_explicit(&feed->shared_is_helping, false, memory_order_release);
    return has_helped;
}

/* Tells the team, if there is one, whether the thread stays away. */
static void away_tell(struct feed *feed, bool is_away)
{
    feed->is_away = is_away;
    /* As in feed_team_look(). */
    atomic_store_explicit(&feed->shared_is_helping, true, memory_order_seq_cst);
    struct team *team = atomic_load_explicit(&feed->shared_team, memory_order_seq_cst);
    if (team) team_helper_away_set(team, is_away);
    atomic_store_explicit(&feed->shared_is_helping, false, memory_order_release);
}

/* Adds what a sum has gained since the last call to what it gained lately, which fades. */
static void recent_add(uint64_t *recent_ns, uint64_t *seen_ns, uint64_t now_ns)
{
    *recent_ns += now_ns - *seen_ns - *recent_ns / RECENT_INPUTS;
    *seen_ns = now_ns;
}

/* After every input, once there has been a wait. */
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
    uint64_t swept_above; /* … or, unless 0, the sweep at the end of step swept_above - 1 … */
    uint64_t news_above;  /* … or news of step news_above - 1 */
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
    /* Acquire pairs with the release in news_arrived(). */
    if (w->news_above)
        w->is_found = atomic_load_explicit(&w->feed->exchange->shared_news, memory_order_acquire) >= w->news_above;
    return w->is_found || feed_is_interrupted(w->feed) || feed_team_look(w->feed);
}

/* Helps the team until what is wanted is there, or the feed is interrupted. */
static void help(struct feed *feed, struct wanted *wanted)
{
    do {
        /* A helper spins as members do. Alone the thread does not: all inputs are full, so the consumer has
         * work for longer than a spin lasts, and wants the core for it. Relaxed: either will do. */
        bool spins = !feed->is_away && atomic_load_explicit(&feed->shared_spins, memory_order_relaxed);
        bell_await(&feed->free_bell, spins, wanted_look, wanted);
    } while (!wanted->is_found && !feed_is_interrupted(feed));
}

/* Takes the number that was left over at the end of a pass, or the next that the consumer
 * gives back. False if interrupted. */
static bool number_take(struct feed *feed, struct ring *ring, uint32_t *held, const struct feed_place *at,
                        uint32_t micro, uint32_t *number)
{
    *number = *held;
    *held = NUMBER_NONE;
    if (*number != NUMBER_NONE || ring_try_pop(ring, number)) return !feed_is_interrupted(feed);
    uint64_t begin_ns = clock_ns();
    struct wanted wanted = {.feed = feed, .ring = ring};
    turn_add(feed, 1);
    help(feed, &wanted);
    turn_add(feed, 1);
    uint64_t end_ns = clock_ns();
    feed->wait_ns += end_ns - begin_ns;
    trace_span(TRACE_WAIT, "no free input", begin_ns, end_ns, at->step, micro);
    *number = wanted.number;
    return wanted.is_found && !feed_is_interrupted(feed);
}

/* Shows the consumer the inputs whose rows have come, in order; `wait`: at least one, if any waits. */
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
    while (row_gate_is_waiting(&feed->gate) && ring_depth(ring) == 0 && !feed_is_interrupted(feed))
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

/* Takes back the blocks that have come; `wait`: waits for one if none has. */
static status blocks_take_back(struct feed *feed, struct feed_place *at, bool wait)
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

/* The step had no example. */
static void block_give_back(struct feed *feed, uint32_t block)
{
    row_gate_step_cancel(&feed->gate, feed->block_step[block]);
    feed->block_step[block] = STEP_NONE;
    block_back(feed, block);
}

/* Waits until RAM has room for the rows of one more micro-batch, for which steps have to end. */
static status room_await(struct feed *feed, struct feed_place *at)
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

static void step_begin(struct feed *feed, uint32_t block)
{
    struct step_rows *rows = block_of(feed, block);
    if (feed->asked) {
        asked_step_begin(&feed->asked[block], &feed->exchange->rows.shape, feed->key_numbers);
        feed->step_input_count = 0;
        return;
    }
    for (uint32_t t = 0; t < feed->graph->table_count; t++) step_rows_begin(&feed->numbers[t], &rows[t]);
}

/* --- reading ------------------------------------------------------------------------------------ */

static void counts_publish(struct feed *feed)
{
    struct reader_counts counts = reader_counts(feed->source);
    /* Relaxed: figures for people, ordered with nothing. */
    atomic_store_explicit(&feed->shared_bytes, counts.byte_count - counts.held_bytes, memory_order_relaxed);
    atomic_store_explicit(&feed->shared_bad, counts.bad_count, memory_order_relaxed);
    atomic_store_explicit(&feed->shared_cut, counts.cut_count, memory_order_relaxed);
    atomic_store_explicit(&feed->shared_unknown, counts.unknown_count, memory_order_relaxed);
    atomic_store_explicit(&feed->shared_examples, feed->example_count, memory_order_relaxed);
    atomic_store_explicit(&feed->shared_read_ns, feed->read_ns, memory_order_relaxed);
    atomic_store_explicit(&feed->shared_prepare_ns, feed->prepare_ns, memory_order_relaxed);
    atomic_store_explicit(&feed->shared_wait_ns, feed->wait_ns, memory_order_relaxed);
}

/* Starts a pass and drops its first `skip` examples. */
static status pass_begin(struct feed *feed, struct feed_place *at, uint64_t skip)
{
    at->is_end = false;
    uint64_t begin_ns = clock_ns();
    uint64_t passed = 0;
    source_enter(feed);
    status st = reader_pass_start(
        feed->source, (struct reader_pass){.number = at->epoch - feed->from.first_epoch, .epoch = at->epoch});
    at->is_open = source_leave(feed);
    if (st == ST_OK && at->is_open && skip) {
        const struct model_data *data = &feed->model->data;
        source_enter(feed);
        st = reader_seek(feed->source, skip, data->mark, data->mark_count, &passed);
        at->is_open = source_leave(feed);
    }
    for (uint64_t left = skip - passed; st == ST_OK && at->is_open && left > 0 && !at->is_end;) {
        uint64_t count = left < SKIP_EXAMPLES ? left : SKIP_EXAMPLES;
        source_enter(feed);
        st = reader_skip(feed->source, count, NULL, &at->is_end);
        at->is_open = source_leave(feed);
        left -= count;
    }
    if (st == ST_OK && at->is_open && at->is_end)
        st = status_fail(ST_INVALID, __FILE__, __LINE__,
                         "%s: expected more than the %" PRIu64 " examples of the pass that are done, found the end: "
                         "these are not the data in which the save's training has stopped",
                         feed->source->paths, skip);
    if (feed->is_left) return ST_OK;
    uint64_t end_ns = clock_ns();
    feed->read_ns += end_ns - begin_ns;
    if (skip) trace_span(TRACE_READ, "skip", begin_ns, end_ns, at->step, 0);
    return st;
}

/* Notes where in the data the micro-batch belongs; it ends where the thread is. */
static void place_note(const struct feed *feed, const struct feed_place *at, uint32_t micro, struct micro_batch *m)
{
    m->step = at->step;
    m->epoch = at->epoch;
    m->pass = at->epoch - feed->from.first_epoch;
    m->micro_index = micro;
    m->is_last = at->is_end || micro + 1 == batch_micro_count(feed->shape);
    m->step_example_count = at->step_examples;
}

/* Fills `m` with the step's next examples, up to a micro-batch or the end of the pass. */
static status micro_read(struct feed *feed, struct feed_place *at, uint32_t micro, struct micro_batch *m)
{
    uint64_t begin_ns = clock_ns();
    micro_batch_clear(m);
    source_enter(feed);
    doing_begin(DOING_reading);
    status st = reader_fill(feed->source, m, feed->shape.micro, &at->is_end);
    doing_end(DOING_reading);
    at->is_open = source_leave(feed);
    if (feed->is_left) return ST_OK;
    at->step_examples += m->example_count;
    feed->example_count += m->example_count;
    place_note(feed, at, micro, m);
    uint64_t end_ns = clock_ns();
    feed->read_ns += end_ns - begin_ns;
    trace_span(TRACE_READ, "read", begin_ns, end_ns, at->step, micro);
    if (st != ST_OK || feed->look == NULL || !at->is_open) return st;
    bool is_enough = false;
    st = feed->look(feed->look_context, m, at->is_end, &is_enough);
    if (is_enough) feed->look = NULL;
    return st;
}

/* Passes over the examples of a micro-batch that is another's. */
static status micro_pass(struct feed *feed, struct feed_place *at, uint32_t micro)
{
    const uint64_t begin_ns = clock_ns();
    uint64_t passed;
    source_enter(feed);
    doing_begin(DOING_reading);
    const status st = reader_skip(feed->source, feed->shape.micro, &passed, &at->is_end);
    doing_end(DOING_reading);
    at->is_open = source_leave(feed);
    if (feed->is_left) return ST_OK;
    at->step_examples += (uint32_t)passed;
    feed->example_count += passed;
    const uint64_t end_ns = clock_ns();
    feed->read_ns += end_ns - begin_ns;
    trace_span(TRACE_READ, "pass over", begin_ns, end_ns, at->step, micro);
    return st;
}

/* Whether rows go when the input's step ends. */
static status sweep_decide(struct feed *feed, struct input *input)
{
    const uint64_t step = input->batch.step;
    input->is_sweep = false;
    if (!feed->sweeps || !input->batch.is_last) return ST_OK;
    TRY(row_gate_is_crowded(&feed->gate, &input->is_sweep));
    input->is_sweep |= model_period(feed->graph, step + 1) > model_period(feed->graph, step);
    return ST_OK;
}

/* Waits until the rows have gone: later inputs get the rows that are left. */
static status sweep_await(struct feed *feed, struct feed_place *at, uint64_t step)
{
    while (row_gate_is_waiting(&feed->gate) && !feed_is_interrupted(feed)) TRY(inputs_show(feed, true));
    struct wanted wanted = {.feed = feed, .swept_above = step + 1};
    uint64_t begin_ns = clock_ns();
    turn_add(feed, 1);
    help(feed, &wanted);
    turn_add(feed, 1);
    uint64_t end_ns = clock_ns();
    feed->wait_ns += end_ns - begin_ns;
    trace_span(TRACE_WAIT, "rows go", begin_ns, end_ns, step, 0);
    at->is_open = !feed_is_interrupted(feed);
    return ST_OK;
}

/* Whether the input's lane looks rows up on this node, as all lanes do where the consumer gets all of
 * them; an input without rows has none of any table. */
static bool looks_up(const struct feed *feed, struct input *input)
{
    const uint32_t lane = batch_lane_of(feed->shape, input->batch.micro_index);
    if (feed->all_lanes || exchange_has_lane(feed->exchange->rows.lanes, lane)) return true;
    for (uint32_t t = 0; t < input->ticket.table_count; t++) input->ticket.table[t].unique_count = 0;
    return false;
}

/* Numbers the input's keys; with the step's last input, asks the owners for the step's rows. */
static void input_ask(struct feed *feed, struct input *input)
{
    const struct exchange_rows *rows = &feed->exchange->rows;
    struct asked_step *asked = &feed->asked[input->step_block];
    const struct micro_batch *m = &input->batch;
    input->step_rows = asked->rows;
    input->is_sweep = false;
    if (looks_up(feed, input)) {
        asked_step_add(asked, &rows->shape, feed->key_numbers, m, batch_lane_of(feed->shape, m->micro_index),
                       &input->ticket);
        feed->step_inputs[feed->step_input_count++] = input->index;
    }
    if (!m->is_last) return;
    asked->step = m->step;
    input->asked = feed->waves ? asked : NULL;
    asked_step_close(asked, &rows->shape, feed->key_numbers, feed->waves ? asked->live : rows->values[m->step % 2]);
    /* The inputs before may be out already: the consumer looks at spans when the rows are there. */
    for (uint32_t i = 0; i < feed->step_input_count; i++)
        asked_step_spans(asked, feed->graph->table_count, &feed->inputs[feed->step_inputs[i]].ticket);
    if (!feed->waves) feed->exchange->vt->ask(feed->exchange, asked);
}

/* The same, where rows are only read. */
static void input_look(struct feed *feed, struct input *input)
{
    struct exchange_look *look = &feed->looks[input->index];
    input->step_rows = NULL;
    input->is_sweep = false;
    input->look = looks_up(feed, input) && input->batch.example_count ? look : NULL;
    if (input->look) exchange_look_make(feed->exchange, look, feed->key_numbers, &input->batch, &input->ticket);
}

/* Finds or makes the rows of the input's keys. */
static status input_prepare(struct feed *feed, struct input *input)
{
    uint64_t begin_ns = clock_ns();
    const struct micro_batch *m = &input->batch;
    if (feed->numberers) numberers_await(feed->numberers, input->index);
    if (feed->asked || feed->looks) {
        if (feed->asked)
            input_ask(feed, input);
        else
            input_look(feed, input);
        feed->prepare_ns += clock_ns() - begin_ns;
        return ST_OK;
    }
    TRY(row_gate_prepare(&feed->gate, m, feed->training ? STORE_CREATE : STORE_LOOKUP, &input->ticket));
    input->step_rows = NULL;
    if (feed->training) {
        input->step_rows = block_of(feed, input->step_block);
        const uint32_t lane = batch_lane_of(feed->shape, m->micro_index);
        const bool is_joined = feed->shape.joined > 1;
        struct step_lanes lanes;
        if (is_joined) step_lanes_of(&lanes, m, feed->shape, feed->graph->field_count);
        row_gate_step_ticket(&feed->gate, feed->block_step[input->step_block], input->ticket.number);
        for (uint32_t t = 0; t < input->ticket.table_count; t++) {
            const uint32_t before = input->step_rows[t].row_count;
            if (is_joined)
                step_rows_add_joined(&feed->numbers[t], &input->step_rows[t], &input->ticket.table[t], &lanes);
            else
                step_rows_add(&feed->numbers[t], &input->step_rows[t], &input->ticket.table[t], lane);
            step_rows_keys(&input->step_rows[t], &input->ticket.table[t], m->key);
            step_rows_judge(&input->step_rows[t], before, &input->ticket.table[t], m, feed->graph->field_count,
                            feed->graph->tables[t].life.click_label, feed->graph->label_count);
        }
        TRY(sweep_decide(feed, input));
    }
    uint64_t end_ns = clock_ns();
    feed->prepare_ns += end_ns - begin_ns;
    trace_span(TRACE_PREPARE, "prepare", begin_ns, end_ns, m->step, m->micro_index);
    return ST_OK;
}

/* What has been read is numbered, and dropped. */
static void read_drop(struct feed *feed)
{
    for (; feed->read_begin < feed->read_end; feed->read_begin++)
        if (feed->numberers) numberers_await(feed->numberers, feed->read[feed->read_begin % feed->input_count]);
}

/* Gives the consumer the oldest input that has been read, as soon as its rows are there. */
static status oldest_try(struct feed *feed, struct feed_place *at)
{
    const uint32_t index = feed->read[feed->read_begin % feed->input_count];
    struct input *input = &feed->inputs[index];
    if (feed->training) TRY(room_await(feed, at));
    if (!at->is_open) return ST_OK;
    if (feed->is_told) {
        input->step_rows = NULL;
        input->is_sweep = false;
    } else {
        if (feed->training && input->batch.micro_index == feed->micro_first) step_begin(feed, input->step_block);
        TRY(input_prepare(feed, input));
    }
    feed->read_begin++;
    counts_publish(feed);
    away_decide(feed);
    const bool is_sweep = input->is_sweep;
    const uint64_t step = input->batch.step;
    row_gate_wait(&feed->gate, index, &input->ticket);
    TRY(inputs_show(feed, false));
    return is_sweep ? sweep_await(feed, at, step) : ST_OK;
}

/* The same; after a failure drops what has been read. */
static status oldest_give(struct feed *feed, struct feed_place *at)
{
    const status st = oldest_try(feed, at);
    if (st != ST_OK) read_drop(feed);
    return st;
}

/* Gives the consumer the oldest inputs until `left` are left. */
static status read_give(struct feed *feed, struct feed_place *at, uint32_t left)
{
    while (at->is_open && feed->read_end - feed->read_begin > left) TRY(oldest_give(feed, at));
    return ST_OK;
}

/* An input of the step under way has been read. Its rows are found when its keys are
 * numbered, while later inputs are read. */
static status input_give(struct feed *feed, struct feed_place *at, uint32_t index)
{
    const uint32_t most = feed->input_count / 2, ahead = 2 * feed->numbering.count;
    /* Release pairs with feed_has_step(); the bell is rung when the input is shown. */
    if (feed->inputs[index].batch.is_last)
        atomic_store_explicit(&feed->shared_read, feed->inputs[index].batch.step + 1, memory_order_release);
    feed->inputs[index].step_block = at->step_block;
    feed->read[feed->read_end++ % feed->input_count] = index;
    if (feed->numberers) numberers_push(feed->numberers, index);
    return read_give(feed, at, ahead < most ? ahead : most);
}

/* Takes at->step_block, for the step that begins. If none is free,
 * first gives the consumer inputs to give back. */
static status block_take(struct feed *feed, struct feed_place *at)
{
    while (at->is_open && feed->spare_count == 0 && ring_depth(&feed->free_blocks) == 0 &&
           feed->read_begin < feed->read_end)
        TRY(oldest_give(feed, at));
    if (!at->is_open) return ST_OK;
    TRY(blocks_take_back(feed, at, feed->spare_count == 0));
    if (!at->is_open) return ST_OK;
    at->step_block = feed->spare[--feed->spare_count];
    feed->block_step[at->step_block] = row_gate_step_begin(&feed->gate);
    return ST_OK;
}

/* Takes at->input, for micro-batch `micro`. If none is free, first gives the consumer inputs to give back. */
static status input_take(struct feed *feed, struct feed_place *at, uint32_t micro)
{
    while (at->is_open && feed->held_input == NUMBER_NONE && ring_depth(&feed->free) == 0 &&
           feed->read_begin < feed->read_end)
        TRY(oldest_give(feed, at));
    if (!at->is_open) return ST_OK;
    TRY(ring_await(feed, &feed->free));
    at->is_open = number_take(feed, &feed->free, &feed->held_input, at, micro, &at->input);
    return ST_OK;
}

/* Gives the consumer its last input of a step, with the number of the step's examples. The input
 * was held back while others' later micro-batches were read; if the step has ended before the
 * consumer's part, it is an empty one. */
static status last_give(struct feed *feed, struct feed_place *at)
{
    if (at->input == NUMBER_NONE) {
        TRY(input_take(feed, at, feed->micro_first));
        if (!at->is_open) return ST_OK;
        micro_batch_clear(&feed->inputs[at->input].batch);
        place_note(feed, at, feed->micro_first, &feed->inputs[at->input].batch);
    }
    struct micro_batch *m = &feed->inputs[at->input].batch;
    m->is_last = true;
    m->step_example_count = at->step_examples;
    return input_give(feed, at, at->input);
}

/* The step had no example: nobody has seen its block, nor what was to be its first input. */
static void step_cancel(struct feed *feed, struct feed_place *at)
{
    CHECK(at->is_end);
    feed->held_input = at->input;
    if (feed->training) block_give_back(feed, at->step_block);
}

/* Tells nodes without lanes, if this is node 0. */
static void news_tell(struct feed *feed, const struct feed_place *at, struct exchange_news news)
{
    if (feed->training && feed->exchange && !feed->is_told && !feed->waves)
        feed->exchange->vt->tell(feed->exchange, at->step, news);
}

/* Reads over another worker's step. */
static status step_pass(struct feed *feed, struct feed_place *at)
{
    for (uint32_t micro = 0; micro < batch_micro_count(feed->shape) && !at->is_end && at->is_open; micro++)
        TRY(micro_pass(feed, at, micro));
    if (at->is_open && at->step_examples > 0) at->step++;
    return ST_OK;
}

/* Reads one step, or none if the pass has ended with the step before. */
static status step_read(struct feed *feed, struct feed_place *at)
{
    bool has_last = false;
    at->step_examples = 0;
    at->input = NUMBER_NONE;
    if (at->step % feed->turn_count != feed->turn) return step_pass(feed, at);
    for (uint32_t micro = 0; micro < batch_micro_count(feed->shape) && !at->is_end; micro++) {
        const bool is_own = micro - feed->micro_first < feed->micro_count;
        if (micro == 0 && feed->training) {
            TRY(block_take(feed, at));
            if (!at->is_open) return ST_OK;
        }
        if (is_own) TRY(input_take(feed, at, micro));
        if (!at->is_open) return ST_OK;
        TRY(is_own ? micro_read(feed, at, micro, &feed->inputs[at->input].batch) : micro_pass(feed, at, micro));
        if (!at->is_open) return ST_OK;
        if (at->step_examples == 0) {
            step_cancel(feed, at);
            return ST_OK;
        }
        if (!is_own) continue;
        const bool is_last = feed->inputs[at->input].batch.is_last;
        has_last |= is_last;
        if (!is_last && micro + 1 == feed->micro_first + feed->micro_count) continue; /* held back */
        TRY(input_give(feed, at, at->input));
        if (!at->is_open) return ST_OK;
        at->input = NUMBER_NONE;
    }
    if (!has_last) TRY(last_give(feed, at));
    news_tell(feed, at, (struct exchange_news){.epoch = at->epoch, .example_count = at->step_examples});
    at->step++;
    return ST_OK;
}

/* One pass: fills inputs until the data or `steps_max` ends, or the feed is interrupted. */
static status pass_run(struct feed *feed, struct feed_place *at, uint64_t skip)
{
    TRY(pass_begin(feed, at, skip));
    while (at->is_open && !at->is_end && (feed->steps_max == 0 || at->step < feed->steps_max)) TRY(step_read(feed, at));
    return read_give(feed, at, 0);
}

/* Without lanes: an input for each step, as long as node 0 tells of any. */
static status told_run(struct feed *feed, struct feed_place *at)
{
    for (;; at->step++) {
        struct wanted wanted = {.feed = feed, .news_above = at->step + 1};
        help(feed, &wanted);
        at->is_open = wanted.is_found && !feed_is_interrupted(feed);
        if (!at->is_open) return ST_OK;
        const struct exchange_news news = feed->exchange->news[at->step % EXCHANGE_NEWS];
        if (news.is_failed) FAIL(INVALID, "node 0 cannot read on");
        if (news.example_count == 0) return ST_OK;
        at->epoch = news.epoch;
        at->step_examples = news.example_count;
        at->input = NUMBER_NONE;
        TRY(block_take(feed, at));
        if (at->is_open) TRY(last_give(feed, at));
        if (!at->is_open) return ST_OK;
    }
}

/* Shows the inputs that still wait for their rows. */
static status waiting_end(struct feed *feed)
{
    while (row_gate_is_waiting(&feed->gate) && !feed_is_interrupted(feed)) TRY(inputs_show(feed, true));
    return ST_OK;
}

static void feed_fail(struct feed *feed, status st)
{
    if (st != ST_OK && !failure_is(&feed->result)) failure_keep(&feed->result, st);
}

/* The consumer still gets what was read before the end, or before a failure of reading. A
 * failure of its rows comes first. */
static status reading_end(struct feed *feed, struct feed_place *at, status of_reading)
{
    struct failure failure = {0};
    if (of_reading != ST_OK) failure_keep(&failure, of_reading);
    const status st = read_give(feed, at, 0);
    read_drop(feed);
    return st != ST_OK || of_reading == ST_OK ? st : failure_adopt(&failure);
}

void *feed_main(void *argument)
{
    struct feed *feed = argument;
    struct feed_place at = {.epoch = feed->from.epoch, .step = feed->from.step, .is_open = true};
    uint64_t skip = feed->from.epoch_examples;
    status st = ST_OK;
    cores_pin(feed->processors, feed->processor_count);
    trace_thread("reading");
    turn_add(feed, 1);
    if (feed->is_told) st = told_run(feed, &at);
    for (; at.epoch < feed->epochs && at.is_open && st == ST_OK && !feed->is_told; at.epoch++) {
        if (feed->steps_max && at.step >= feed->steps_max) break;
        st = pass_run(feed, &at, skip);
        skip = 0;
    }
    if (feed->is_left) return NULL;
    if (st != ST_OK && (feed->asked || feed->is_by_step)) feed->cut_step = at.step;
    feed_fail(feed, reading_end(feed, &at, st));
    news_tell(feed, &at, (struct exchange_news){.is_failed = failure_is(&feed->result)});
    feed_fail(feed, waiting_end(feed));            /* what is prepared comes before a failure of what is not */
    feed_fail(feed, row_gate_settle(&feed->gate)); /* nothing is on its way to the feed's memory when it goes */
    counts_publish(feed);
    turn_add(feed, 1);
    /* Release pairs with the acquires in feed_try_next() and feed_result(): result, message and
     * the last input come before it. */
    atomic_store_explicit(&feed->shared_is_done, true, memory_order_release);
    bell_ring(feed->ready_bell);
    away_tell(feed, false);
    help(feed, &(struct wanted){.feed = feed});
    return NULL;
}

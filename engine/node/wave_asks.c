/* Rows that workers ask owners for (engine/sync/waves.h), minibatch by minibatch.
 *
 *     KIND_ASK     worker v to owner u: a letter with keys of u (engine/slot/asked.h); the step is the round whose
 *                  forerunners the values must have
 *     KIND_ANSWER  owner u to worker v: whole spans, in the order of the letter; the step is the round whose
 *                  forerunners they have
 *
 * A worker asks again when it has all answers, so an owner has one place for each worker's letter and answer.
 * It answers when it has the rounds: those that the worker's clock waits for, and with them the worker's own
 * wave, which follows when the worker has computed it. */
#include <inttypes.h>

#include "engine/node/waves_internal.h"

#include "engine/base/doing.h"

void asks_layout(struct reduce *r, struct layout *l)
{
    const struct asked_shape *shape = &r->exchange.rows.shape;
    for (uint32_t n = 0; n < r->exchange.node_count && r->graph->table_count > 0; n++) {
        uint8_t *bytes = NULL;
        float *values = NULL;
        if (n != r->exchange.rank) LAYOUT_TAKE(l, bytes, asked_letter_bytes_max(shape));
        if (n != r->exchange.rank) LAYOUT_TAKE(l, values, asked_floats_max(shape));
        if (!l->arena) continue;
        waves_of(r)->ask[n].bytes = bytes;
        r->peers[n].values = values;
    }
}

/* --- the worker's ------------------------------------------------------------------------------- */

/* Sends the letters of the minibatch that has begun, to owners of any of its rows. */
static status letters_send(struct reduce *r)
{
    struct waves *waves = waves_of(r);
    struct exchange_waves *x = &waves->of_exchange;
    const struct asked_step *asked = x->asked;
    doing_begin(DOING_rows);
    for (uint32_t i = 0; i < x->worker_count; i++) {
        const uint32_t to = (x->worker + i) % x->worker_count;
        uint8_t *letter = asked->letters + asked->letter_begin[to];
        const size_t bytes = asked->letter_begin[to + 1] - asked->letter_begin[to];
        if (asked->float_begin[to] == asked->float_begin[to + 1]) continue;
        waves->owes |= UINT64_C(1) << to;
        if (to != x->worker) {
            figure_add(&r->shared_rows_bytes, bytes);
            TRY(part_send(r, to, KIND_ASK, asked->round, letter, bytes));
            continue;
        }
        TRY(asked_letter_read(&waves->ask[to].letter, &r->exchange.rows.shape, letter, bytes));
        waves->ask[to].round = asked->round;
        waves->ask[to].is_here = true;
    }
    return ST_OK;
}

/* An owner's values are in their place; they have the rounds below `level`. */
static void values_come(struct reduce *r, uint32_t owner, uint64_t level)
{
    struct waves *waves = waves_of(r);
    waves->of_exchange.asked->level[owner] = level;
    waves->owes &= ~(UINT64_C(1) << owner);
}

static status own_ask(struct reduce *r)
{
    struct waves *waves = waves_of(r);
    struct exchange_waves *x = &waves->of_exchange;
    /* Acquire pairs with minibatch_begin(): what is asked for. */
    if (atomic_load_explicit(&x->shared_asked, memory_order_acquire) == waves->asked) return ST_OK;
    waves->asked++;
    return letters_send(r);
}

static void own_answer_tell(struct reduce *r)
{
    struct waves *waves = waves_of(r);
    struct exchange_waves *x = &waves->of_exchange;
    /* Relaxed: only this thread writes it. */
    if (waves->owes != 0 || atomic_load_explicit(&x->shared_answered, memory_order_relaxed) == waves->asked) return;
    doing_end(DOING_rows);
    /* Release pairs with wsp_nodes_admit(): the values. */
    atomic_store_explicit(&x->shared_answered, waves->asked, memory_order_release);
    gate_ring(r);
}

/* --- the owner's -------------------------------------------------------------------------------- */

/* Answers a worker's letter, if this owner has the rounds. */
static status answer(struct reduce *r, uint32_t worker)
{
    struct waves *waves = waves_of(r);
    struct exchange_waves *x = &waves->of_exchange;
    struct ask *ask = &waves->ask[worker];
    size_t rows = 0, floats = 0;
    if (!ask->is_here || waves_here(waves) < ask->round) return ST_OK;
    const struct asked_step *own = worker == x->worker ? x->asked : NULL;
    /* Without train.exact the rows have all rounds that are here. */
    const uint64_t level = x->is_exact ? ask->round : x->rows.level;
    ask->is_here = false;
    for (uint32_t t = 0; t < r->graph->table_count; t++) {
        rows += ask->letter.count[t];
        floats += (size_t)ask->letter.count[t] * asked_row_floats(&r->exchange.rows.shape, t);
    }
    figure_add(&r->shared_asked_rows, rows);
    TRY(wave_rows_values(&x->rows, &ask->letter, level,
                         own ? own->values + own->float_begin[worker] : r->peers[worker].values));
    if (own) {
        values_come(r, worker, level);
        return ST_OK;
    }
    figure_add(&r->shared_rows_bytes, floats * sizeof(float));
    return part_send(r, worker, KIND_ANSWER, level, r->peers[worker].values, floats * sizeof(float));
}

status asks_step(struct reduce *r)
{
    const struct waves *waves = waves_of(r);
    if (r->owned == NULL || store_is_held(r)) return ST_OK;
    TRY(own_ask(r));
    for (uint32_t v = 0; v < waves->of_exchange.worker_count; v++) TRY(answer(r, v));
    own_answer_tell(r);
    return ST_OK;
}

/* --- messages ----------------------------------------------------------------------------------- */

static bool ask_expect(struct reduce *r, uint32_t from, uint64_t step, uint64_t bytes, struct reduce_message *message)
{
    if (r->exchange.waves == NULL || r->owned == NULL || waves_of(r)->ask[from].is_here) return false;
    const size_t most = asked_letter_bytes_max(&r->exchange.rows.shape);
    message->step = step;
    message->bytes = bytes < most ? bytes : most;
    message->part[0].iov_base = waves_of(r)->ask[from].bytes;
    return true;
}

static status ask_arrived(struct reduce *r, uint32_t from, const struct reduce_message *message)
{
    const struct waves *waves = waves_of(r);
    const struct exchange_waves *x = &waves->of_exchange;
    struct ask *ask = &waves_of(r)->ask[from];
    TRY(asked_letter_read(&ask->letter, &r->exchange.rows.shape, ask->bytes, message->bytes));
    if (x->is_exact && message->step < x->rows.level)
        FAIL(INVALID,
             "node %u asks for rows after the rounds of waves below %" PRIu64 ", and has sent waves that need those "
             "below %" PRIu64,
             reduce_name(r, from), message->step, x->rows.level);
    ask->round = message->step;
    ask->is_here = asked_keys_count(r->graph, ask->letter.count) > 0; /* else nobody waits for an answer */
    return ST_OK;
}

static bool answer_expect(struct reduce *r, uint32_t from, uint64_t step, uint64_t bytes,
                          struct reduce_message *message)
{
    (void)bytes;
    if (r->exchange.waves == NULL || !(waves_of(r)->owes >> from & 1)) return false;
    const struct asked_step *asked = r->exchange.waves->asked;
    message->step = step;
    message->bytes = (asked->float_begin[from + 1] - asked->float_begin[from]) * sizeof(float);
    message->part[0].iov_base = asked->values + asked->float_begin[from];
    return true;
}

static status answer_arrived(struct reduce *r, uint32_t from, const struct reduce_message *message)
{
    const struct exchange_waves *x = r->exchange.waves;
    const uint64_t round = x->asked->round;
    if (message->step < round || (x->is_exact && message->step > round))
        FAIL(INVALID, "node %u answers with rows after the rounds of waves below %" PRIu64 "; expected %" PRIu64 "%s",
             reduce_name(r, from), message->step, round, x->is_exact ? "" : " or more");
    values_come(r, from, message->step);
    return ST_OK;
}

const struct message_kind ask_kind = {.expect = ask_expect, .arrived = ask_arrived},
                          answer_kind = {.expect = answer_expect, .arrived = answer_arrived};

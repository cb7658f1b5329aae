/* Waves of workers that are nodes (engine/sync/waves.h) as messages. Own waves go out to the
 * owners of slices, which add them up. What others' waves have changed of the own slice is added
 * up for each worker, and sent to it.
 *
 *     KIND_WAVE    worker v to owner u: v's letter, with what its wave has changed of u's rows, and behind it what
 *                  the wave has changed of u's slice
 *     KIND_ROUND   owner u to worker v: what the waves of that number of all others have changed of u's slice, added
 *                  up in order of workers, when the waves of the nodes that have a stage of u's are there; at the
 *                  end of a job u's slice itself; and how many rows u has. Nothing of sums where the two have no
 *                  stage in common
 *     KIND_ADDED   worker v to owner u: rounds below the step are in v's weights, and their places free
 *
 * A message's step is twice the number of the wave or round, plus one if there are changes, or the values
 * themselves. Rows that a worker asks for are in wave_asks.c.
 */
#include <inttypes.h>
#include <string.h>

#include "engine/node/waves_internal.h"

/* In place of sums that its receiver does not use; a slice has more. */
#define NOTHING_BYTES sizeof(uint64_t)

static float *own_slice(const struct exchange_waves *x, float *floats) { return floats + x->cut[x->worker]; }
static uint64_t slice_floats_of(const struct exchange_waves *x, uint32_t node)
{
    return x->cut[node + 1] - x->cut[node];
}
static uint64_t slice_bytes(const struct exchange_waves *x, uint32_t node)
{
    return slice_floats_of(x, node) * sizeof(float);
}
static uint64_t place_of(const struct exchange_waves *x, uint32_t worker, uint64_t wave)
{
    return (uint64_t)worker * x->place_count + wave % x->place_count;
}

/* Who has which steps and stages. */
static void turns_find(struct exchange_waves *x, const struct exchange_stages *stages)
{
    for (uint32_t n = 0; n < x->worker_count; n++) {
        x->turn_of[n] = stages ? stages->worker_of[n] : (uint8_t)n;
        x->tellers |= UINT64_C(1) << n;
        x->sharers |= UINT64_C(1) << n;
    }
    x->turn = x->turn_of[x->worker];
    x->turn_count = stages ? stages->worker_count : x->worker_count;
    if (stages == NULL) return;
    x->tellers = stages->nodes_of[stages->count - 1];
    x->sharers = UINT64_C(1) << x->worker;
    for (uint32_t s = 0; s < stages->count; s++)
        if (stages->nodes_of[s] >> x->worker & 1) x->sharers |= stages->nodes_of[s];
}

static bool shares(const struct exchange_waves *x, uint32_t node) { return x->sharers >> node & 1; }

void waves_layout(struct reduce *r, struct layout *l)
{
    const uint32_t tables = r->graph->table_count;
    struct waves *waves;
    struct row_counts taken = {0};
    LAYOUT_TAKE(l, waves, 1);
    LAYOUT_TAKE(l, taken.out, (size_t)r->exchange.node_count * WAVES_SENDS * tables);
    LAYOUT_TAKE(l, taken.come, (size_t)r->exchange.node_count * tables);
    LAYOUT_TAKE(l, taken.known, (size_t)r->exchange.node_count * tables);
    if (!l->arena) return;
    r->exchange.waves = &waves->of_exchange;
    waves->of_exchange.worker = r->exchange.rank;
    waves->of_exchange.worker_count = r->exchange.node_count;
    turns_find(&waves->of_exchange, r->exchange.stages);
    waves->end = NOT_YET;
    for (uint32_t n = 0; n < r->exchange.node_count; n++) waves->now[n].last = waves->next[n].last = NOT_YET;
    waves->of_exchange.owner_of = r->owner_of;
    waves->rows = taken;
}

/* --- what is there ------------------------------------------------------------------------------ */

/* Whether the letters of this number of all other workers are there. A worker has none after its last; this
 * counts when all have had their last: then the number of rounds is known. A worker alone waits for
 * itself. */
static bool is_whole(const struct waves *waves, uint64_t round)
{
    const struct exchange_waves *x = &waves->of_exchange;
    for (uint32_t v = 0; v < x->worker_count; v++)
        if ((v != x->worker || x->worker_count == 1) && waves->now[v].heard <= round && waves->end == NOT_YET)
            return false;
    return waves->end == NOT_YET || round < waves->end;
}

/* Whether all that is added up for a worker in this round is there: the waves of the nodes that have a stage
 * of this owner. Others change nothing of its slice, and may be behind. An owner whose stages nobody else has
 * waits for its own wave. */
static bool has_changes(const struct waves *waves, uint64_t round, uint32_t but)
{
    const struct exchange_waves *x = &waves->of_exchange;
    uint64_t awaited = x->sharers & ~(UINT64_C(1) << but);
    if (awaited == 0) awaited = x->sharers;
    for (uint32_t v = 0; v < x->worker_count && waves->end == NOT_YET; v++)
        if ((awaited >> v & 1) && waves->now[v].heard <= round) return false;
    return waves->end == NOT_YET || round < waves->end;
}

/* Adds up what these waves have changed of the own slice. */
static void round_add(const struct waves *waves, uint64_t round, uint32_t but, float *to)
{
    const struct exchange_waves *x = &waves->of_exchange;
    const uint64_t count = slice_floats_of(x, x->worker);
    bool is_first = true;
    for (uint32_t v = 0; v < x->worker_count; v++) {
        const uint64_t place = place_of(x, v, round);
        if (v == but || waves->now[v].heard <= round || !x->come_has_change[place]) continue;
        const float *change = x->come_change[place];
        for (uint64_t i = 0; is_first && i < count; i++) to[i] = change[i];
        for (uint64_t i = 0; !is_first && i < count; i++) to[i] += change[i];
        is_first = false;
    }
    if (is_first) memset(to, 0, count * sizeof *to);
}

/* A worker's wave is there, of the job that runs or of the next. */
static void wave_note(struct waves *waves, uint32_t worker, uint64_t wave, bool is_last)
{
    struct wave_worker *of = waves->end != NOT_YET && wave > waves->end ? &waves->next[worker] : &waves->now[worker];
    uint64_t end = 0;
    of->heard = wave + 1;
    if (is_last) of->last = wave + 1;
    for (uint32_t v = 0; v < waves->of_exchange.worker_count; v++) {
        if (waves->now[v].last == NOT_YET) return;
        if (waves->now[v].last > end) end = waves->now[v].last;
    }
    waves->end = end;
    /* Release pairs with the acquire of the thread that settles. */
    atomic_store_explicit(&waves->of_exchange.shared_end, end + 1, memory_order_release);
}

/* Waves below it have places that are free, or theirs: rounds of the waves that were there before have been
 * given to all, and are in this worker's weights and in this owner's rows. */
static uint64_t waves_free(const struct waves *waves)
{
    const struct exchange_waves *x = &waves->of_exchange;
    uint64_t used = waves_added(x);
    used = x->rows.level < used ? x->rows.level : used;
    for (uint32_t n = 0; n < x->worker_count; n++) {
        const uint64_t given = n == x->worker ? waves->come[n] : waves->given[n];
        used = given < used ? given : used;
    }
    return used + x->place_count;
}

/* The worker for which places wait: it has been given the fewest rounds,
 * and has not said that it has added them. */
static uint32_t late_worker(const struct waves *waves)
{
    const struct exchange_waves *x = &waves->of_exchange;
    uint32_t late = x->worker == 0 ? 1 : 0;
    for (uint32_t n = 0; n < x->worker_count; n++)
        if (n != x->worker && waves->given[n] < waves->given[late]) late = n;
    return late;
}

/* The number of a worker's next wave; NOT_YET: this node does not know. */
static uint64_t wave_next(const struct waves *waves, uint32_t worker)
{
    const struct wave_worker *now = &waves->now[worker], *next = &waves->next[worker];
    if (now->last == NOT_YET) return now->heard;
    if (waves->end == NOT_YET || next->last != NOT_YET) return NOT_YET;
    return next->heard > waves->end ? next->heard : waves->end + 1;
}

/* --- rows ---------------------------------------------------------------------------------------- */

/* Adds up how many rows the owners have told of. */
static void rows_tell(struct reduce *r)
{
    const struct waves *waves = waves_of(r);
    const uint32_t tables = r->graph->table_count;
    for (uint32_t t = 0; t < tables; t++) {
        uint64_t rows = 0;
        for (uint32_t n = 0; n < r->exchange.node_count; n++) rows += waves->rows.known[(size_t)n * tables + t];
        /* Relaxed: a figure. */
        atomic_store_explicit(&waves->of_exchange.shared_rows[t], rows, memory_order_relaxed);
    }
}

/* How many rows this owner has. */
static void rows_count(struct reduce *r)
{
    struct waves *waves = waves_of(r);
    const uint32_t tables = r->graph->table_count;
    for (uint32_t t = 0; t < tables; t++) {
        r->own_rows[t] = store_row_count(r->model->store, t);
        waves->rows.known[(size_t)r->exchange.rank * tables + t] = r->own_rows[t];
    }
    rows_tell(r);
}

void waves_start(struct reduce *r, uint64_t step)
{
    if (r->exchange.waves == NULL) return;
    /* Relaxed: no wave has come. */
    atomic_store_explicit(&r->exchange.waves->shared_told, step, memory_order_relaxed);
    rows_count(r);
}

static struct wave_letter letter_of(const struct exchange_waves *x, uint32_t worker, uint64_t wave)
{
    const uint64_t place = place_of(x, worker, wave);
    return (struct wave_letter){.place = (uint32_t)place,
                                .worker = worker,
                                .round = wave,
                                .at = x->come_letter[place],
                                .begin = sizeof(struct wave_head) + x->in_flight * sizeof(struct wave_record),
                                .bytes = x->come_bytes[place]};
}

/* Rounds below it may be in this owner's rows: they are here, and no worker wants an earlier one. With
 * train.exact a worker that has given all waves below c wants rounds from c - D - 1 on. */
static uint64_t level_next(const struct waves *waves)
{
    const struct exchange_waves *x = &waves->of_exchange;
    const uint64_t here = waves_here(waves), ahead = x->clock_distance + UINT64_C(1);
    if (waves->end != NOT_YET || !x->is_exact) return waves->end != NOT_YET ? waves->end : here;
    return here > ahead ? here - ahead : 0;
}

/* Adds the rounds whose turn it is to this owner's rows. */
static status level_step(struct reduce *r)
{
    struct waves *waves = waves_of(r);
    struct exchange_waves *x = &waves->of_exchange;
    const uint64_t before = x->rows.level, until = level_next(waves);
    for (; x->rows.level < until; x->rows.level++)
        for (uint32_t v = 0; v < x->worker_count; v++) {
            const struct wave_letter letter = letter_of(x, v, x->rows.level);
            if (waves->now[v].heard > x->rows.level) TRY(wave_rows_add(&x->rows, &letter));
        }
    if (waves->end != NOT_YET) x->rows.level = waves->end + 1; /* from where the next job begins */
    if (x->rows.level > before) rows_count(r);
    return ST_OK;
}

/* --- the own wave ------------------------------------------------------------------------------- */

static status wave_send(struct reduce *r, uint64_t wave)
{
    struct waves *waves = waves_of(r);
    struct exchange_waves *x = &waves->of_exchange;
    const uint32_t place = (uint32_t)(wave % WAVES_SENDS);
    const bool has_change = x->has_change[place];
    const uint64_t own = place_of(x, x->worker, wave);
    struct wave_head head;
    memcpy(&head, x->letter[place], sizeof head);
    CHECK(head.wave == wave);
    if (wave >= waves_free(waves))
        FAIL(INVALID, "node %u has not confirmed that it has added the rounds of waves that it was given, %" PRIu64,
             reduce_name(r, late_worker(waves)), waves->given[late_worker(waves)]);
    const uint64_t *begin = x->rows_begin[place];
    const size_t own_bytes = begin[x->worker + 1] - begin[x->worker];
    memcpy(x->come_letter[own], x->letter[place], begin[0]);
    memcpy(x->come_letter[own] + begin[0], x->letter[place] + begin[x->worker], own_bytes);
    x->come_bytes[own] = begin[0] + own_bytes;
    const struct wave_letter letter = letter_of(x, x->worker, wave);
    TRY(wave_rows_come(&x->rows, &letter));
    x->come_has_change[own] = has_change;
    if (has_change) memcpy(x->come_change[own], own_slice(x, x->change[place]), slice_bytes(x, x->worker));
    for (uint32_t i = 1; i < x->worker_count; i++) {
        const uint32_t to = (x->worker + i) % x->worker_count;
        const bool is_sent = has_change && shares(x, to);
        struct reduce_message message = {.kind = KIND_WAVE,
                                         .step = 2 * wave + is_sent,
                                         .part = {{x->letter[place], begin[0]},
                                                  {x->letter[place] + begin[to], begin[to + 1] - begin[to]},
                                                  {x->change[place] + x->cut[to], slice_bytes(x, to)}},
                                         .part_count = is_sent ? 3 : 2};
        for (uint32_t p = 0; p < message.part_count; p++) message.bytes += message.part[p].iov_len;
        figure_add(&r->shared_rows_bytes, message.part[0].iov_len + message.part[1].iov_len);
        TRY(message_send(r, to, &message));
        waves->sent_until[place][to] = r->peers[to].given;
    }
    waves->sent_wave[place] = true;
    wave_note(waves, x->worker, wave, head.is_last);
    return ST_OK;
}

/* Whether all messages up to these are sent. */
static bool are_sent(const struct reduce *r, const uint64_t until[REDUCE_NODES_MAX])
{
    for (uint32_t n = 0; n < r->exchange.node_count; n++)
        if (n != r->exchange.rank && r->peers[n].sent < until[n]) return false;
    return true;
}

/* Sends the waves that this worker has given, and frees their places. */
static status own_step(struct reduce *r)
{
    struct waves *waves = waves_of(r);
    struct exchange_waves *x = &waves->of_exchange;
    /* Acquire pairs with the release in wave_give(). */
    const uint64_t given = atomic_load_explicit(&x->shared_given, memory_order_acquire);
    for (uint64_t next; (next = wave_next(waves, x->worker)) < given;) TRY(wave_send(r, next));
    /* Relaxed: only this thread clears. */
    uint32_t busy = atomic_load_explicit(&x->shared_busy, memory_order_relaxed), freed = 0;
    for (uint32_t i = 0; i < WAVES_SENDS; i++)
        if ((busy >> i & 1) && waves->sent_wave[i] && are_sent(r, waves->sent_until[i])) {
            waves->sent_wave[i] = false;
            freed |= UINT32_C(1) << i;
        }
    if (freed == 0) return ST_OK;
    /* Release pairs with the acquire before a place is filled anew. */
    atomic_fetch_and_explicit(&x->shared_busy, ~freed, memory_order_release);
    gate_ring(r);
    return ST_OK;
}

/* --- rounds ------------------------------------------------------------------------------------- */

/* Whether the own slice's values of the job's end are there. */
static bool has_values(const struct waves *waves, uint64_t round)
{
    /* Acquire pairs with the release of the thread that settles. */
    return round == waves->end && waves->of_exchange.rows.level == round + 1 &&
           atomic_load_explicit(&waves->of_exchange.shared_values, memory_order_acquire) == round + 1;
}

/* Says what this worker has added, one message to each at a time. */
static status added_send(struct reduce *r)
{
    static const uint64_t nothing = 0;
    struct waves *waves = waves_of(r);
    const struct exchange_waves *x = &waves->of_exchange;
    const uint64_t added = waves_added(x);
    for (uint32_t n = 0; n < x->worker_count; n++) {
        if (n == x->worker || added <= waves->told[n] || r->peers[n].sent < waves->told_until[n]) continue;
        TRY(part_send(r, n, KIND_ADDED, added, &nothing, sizeof nothing));
        waves->told[n] = added;
        waves->told_until[n] = r->peers[n].given;
    }
    return ST_OK;
}

/* Sends a worker its next round; *is_sent false: it is not whole, or has no place, here or there. */
static status round_send(struct reduce *r, uint32_t to, bool *is_sent)
{
    struct waves *waves = waves_of(r);
    struct exchange_waves *x = &waves->of_exchange;
    const uint64_t round = waves->given[to], place = (uint64_t)to * WAVES_SENDS + round % WAVES_SENDS;
    const bool is_values = has_values(waves, round);
    struct iovec sums = {own_slice(x, x->sums[round % WAVES_ROUNDS]), slice_bytes(x, x->worker)};
    *is_sent = false;
    if (round >= waves->added[to] + WAVES_ROUNDS) return ST_OK;
    if (!is_values) {
        if (!has_changes(waves, round, to) || r->peers[to].sent < waves->given_until[to][round % WAVES_SENDS])
            return ST_OK;
        sums.iov_base = x->out[place];
        if (shares(x, to))
            round_add(waves, round, to, x->out[place]);
        else
            sums.iov_len = NOTHING_BYTES;
    }
    const size_t rows_bytes = r->graph->table_count * sizeof(uint64_t);
    uint64_t *rows = waves->rows.out + place * r->graph->table_count;
    memcpy(rows, waves->rows.known + (size_t)x->worker * r->graph->table_count, rows_bytes);
    TRY(message_send(r, to,
                     &(struct reduce_message){.kind = KIND_ROUND,
                                              .step = 2 * round + is_values,
                                              .part = {sums, {rows, rows_bytes}},
                                              .part_count = rows_bytes ? 2 : 1,
                                              .bytes = sums.iov_len + rows_bytes}));
    waves->given[to]++;
    waves->given_until[to][round % WAVES_SENDS] = r->peers[to].given;
    *is_sent = true;
    return ST_OK;
}

/* Adds up the own slice of the next round for this worker; false: not yet. */
static bool own_round_add(struct waves *waves)
{
    struct exchange_waves *x = &waves->of_exchange;
    const uint64_t round = waves->come[x->worker];
    const bool is_values = has_values(waves, round);
    if (round >= waves_added(x) + WAVES_ROUNDS) return false;
    if (!is_values && !has_changes(waves, round, x->worker)) return false;
    if (!is_values) round_add(waves, round, x->worker, own_slice(x, x->sums[round % WAVES_ROUNDS]));
    waves->come[x->worker]++;
    return true;
}

/* Whether the next round is here. */
static bool round_is_here(const struct waves *waves)
{
    const uint64_t round = waves->round;
    for (uint32_t o = 0; o < waves->of_exchange.worker_count; o++)
        if (waves->come[o] <= round) return false;
    return round == waves->end || is_whole(waves, round);
}

/* When all rounds are here, and all others have theirs, the next job is the one that runs. */
static bool job_step(struct waves *waves)
{
    const uint32_t count = waves->of_exchange.worker_count;
    if (waves->end == NOT_YET || waves->round <= waves->end) return false;
    for (uint32_t n = 0; n < count; n++)
        if (n != waves->of_exchange.worker && waves->given[n] <= waves->end) return false;
    CHECK(waves->of_exchange.rows.level == waves->end + 1);
    for (uint32_t n = 0; n < count; n++) {
        waves->now[n] = waves->next[n];
        if (waves->now[n].heard <= waves->end) waves->now[n].heard = waves->end + 1;
        waves->next[n] = (struct wave_worker){.last = NOT_YET};
    }
    waves->end = NOT_YET;
    return true;
}

status waves_step(struct reduce *r)
{
    struct waves *waves = waves_of(r);
    if (waves == NULL) return ST_OK;
    struct exchange_waves *x = &waves->of_exchange;
    const uint64_t before = waves->round;
    TRY(added_send(r));
    for (bool is_changed = true; is_changed;) {
        TRY(own_step(r));
        TRY(level_step(r));
        is_changed = own_round_add(waves);
        for (uint32_t i = 1; i < x->worker_count; i++) {
            bool is_sent;
            TRY(round_send(r, (x->worker + i) % x->worker_count, &is_sent));
            is_changed |= is_sent;
        }
        for (; round_is_here(waves); waves->round++) is_changed = true;
        is_changed |= job_step(waves);
    }
    TRY(asks_step(r));
    if (waves->round == before) return ST_OK;
    /* Release pairs with acquires in wsp_nodes.c. */
    atomic_store_explicit(&x->shared_rounds, waves->round, memory_order_release);
    gate_ring(r);
    return ST_OK;
}

uint64_t waves_waits(const struct reduce *r)
{
    const struct waves *waves = waves_of(r);
    const struct exchange_waves *x = &waves->of_exchange;
    uint64_t silent = 0, owes = 0;
    /* Relaxed: for messages. */
    if (atomic_load_explicit(&x->shared_needed, memory_order_relaxed) <= waves->round) {
        const uint64_t rows = waves->owes & ~(UINT64_C(1) << x->worker);
        /* An owner that waits for this node's wave before it answers is not late itself. */
        const bool is_own_late = rows != 0 && waves->end == NOT_YET && waves->now[x->worker].heard < x->asked->round;
        return is_own_late ? 0 : rows;
    }
    for (uint32_t n = 0; n < x->worker_count; n++) {
        if (n == x->worker) continue;
        if (waves->now[n].last == NOT_YET && waves->now[n].heard <= waves->round) silent |= UINT64_C(1) << n;
        if (waves->come[n] <= waves->round) owes |= UINT64_C(1) << n;
    }
    /* An owner itself waits for the waves of others. */
    return silent ? silent : owes;
}

/* The least that a node sends with a wave, and for the waves of all others that are added up. */
uint64_t waves_least_bytes(const struct reduce *r)
{
    const struct exchange_waves *x = r->exchange.waves;
    uint64_t bytes = 0;
    for (uint32_t n = 0; n < x->worker_count; n++)
        if (n != x->worker && shares(x, n)) bytes += slice_bytes(x, n) + slice_bytes(x, x->worker);
    return bytes;
}

/* --- messages ----------------------------------------------------------------------------------- */

static status wave_may_come(const struct reduce *r, uint32_t from)
{
    const struct waves *waves = waves_of(r);
    if (waves == NULL || wave_next(waves, from) == NOT_YET || wave_next(waves, from) < waves_free(waves)) return ST_OK;
    FAIL(INVALID,
         "node %u sent wave %" PRIu64 ", and there is room for waves below %" PRIu64 ": it does not wait for the "
         "others, as train.clock_distance says",
         reduce_name(r, from), wave_next(waves, from), waves_free(waves));
}

static bool wave_expect(struct reduce *r, uint32_t from, uint64_t step, uint64_t bytes, struct reduce_message *message)
{
    struct waves *waves = waves_of(r);
    if (waves == NULL) return false;
    const struct exchange_waves *x = &waves->of_exchange;
    const uint64_t wave = wave_next(waves, from), place = place_of(x, from, wave),
                   changes = step & 1 ? slice_bytes(x, x->worker) : 0;
    if (wave == NOT_YET || (changes > 0 && !shares(x, from))) return false;
    message->step = 2 * wave + (step & 1);
    message->bytes = bytes < changes + sizeof(struct wave_head) ? changes + sizeof(struct wave_head)
                     : bytes - changes > x->letter_max          ? changes + x->letter_max
                                                                : bytes;
    message->part[0] = (struct iovec){x->come_letter[place], message->bytes - changes};
    message->part[1] = (struct iovec){x->come_change[place], changes};
    message->part_count = changes ? 2 : 1;
    return true;
}

static status wave_arrived(struct reduce *r, uint32_t from, const struct reduce_message *message)
{
    struct waves *waves = waves_of(r);
    struct exchange_waves *x = &waves->of_exchange;
    const uint64_t wave = message->step / 2, place = place_of(x, from, wave);
    struct wave_head head;
    x->come_bytes[place] = message->part[0].iov_len;
    x->come_has_change[place] = message->step & 1;
    memcpy(&head, x->come_letter[place], sizeof head);
    const struct wave_letter letter = letter_of(x, from, wave);
    TRY(wave_rows_come(&x->rows, &letter));
    TRY(x->come(x->context, from, wave, x->come_letter[place], x->come_bytes[place])); /* from here on steps are told */
    wave_note(waves, from, wave, head.is_last);
    return ST_OK;
}

static status round_may_come(const struct reduce *r, uint32_t from)
{
    const struct waves *waves = waves_of(r);
    if (waves == NULL) return ST_OK;
    const uint64_t end = waves_added(&waves->of_exchange) + WAVES_ROUNDS;
    if (waves->come[from] < end) return ST_OK;
    FAIL(INVALID,
         "node %u sent round %" PRIu64 " of waves, and there is room for rounds below %" PRIu64 ": it does not wait "
         "for receipts",
         reduce_name(r, from), waves->come[from], end);
}

static bool round_expect_next(struct reduce *r, uint32_t from, uint64_t step, uint64_t bytes,
                              struct reduce_message *message)
{
    struct waves *waves = waves_of(r);
    (void)bytes;
    if (waves == NULL) return false;
    const struct exchange_waves *x = &waves->of_exchange;
    message->step = 2 * waves->come[from] + (step & 1);
    const uint32_t tables = r->graph->table_count;
    const uint64_t sums = (step & 1) || shares(x, from) ? slice_bytes(x, from) : NOTHING_BYTES;
    message->bytes = sums + tables * sizeof(uint64_t);
    message->part[0] = (struct iovec){x->sums[waves->come[from] % WAVES_ROUNDS] + x->cut[from], sums};
    message->part[1] = (struct iovec){waves->rows.come + (size_t)from * tables, tables * sizeof(uint64_t)};
    message->part_count = tables ? 2 : 1;
    return true;
}

static status round_arrived(struct reduce *r, uint32_t from, const struct reduce_message *message)
{
    struct waves *waves = waves_of(r);
    const uint32_t tables = r->graph->table_count;
    (void)message;
    waves->come[from]++;
    memcpy(waves->rows.known + (size_t)from * tables, waves->rows.come + (size_t)from * tables,
           tables * sizeof(uint64_t));
    rows_tell(r);
    return ST_OK;
}

static bool added_expect(struct reduce *r, uint32_t from, uint64_t step, uint64_t bytes, struct reduce_message *message)
{
    (void)bytes;
    message->step = step;
    message->bytes = sizeof r->peers[from].word;
    message->part[0].iov_base = &r->peers[from].word;
    return r->exchange.waves != NULL;
}

static status added_arrived(struct reduce *r, uint32_t from, const struct reduce_message *message)
{
    struct waves *waves = waves_of(r);
    if (message->step < waves->added[from] || message->step > waves->given[from])
        FAIL(INVALID,
             "node %u says that it has added rounds of waves below %" PRIu64 "; expected a number from %" PRIu64
             " to %" PRIu64,
             reduce_name(r, from), message->step, waves->added[from], waves->given[from]);
    waves->added[from] = message->step;
    return ST_OK;
}

const struct message_kind wave_kind = {.expect = wave_expect, .arrived = wave_arrived, .may_come = wave_may_come},
                          round_kind = {.expect = round_expect_next,
                                        .arrived = round_arrived,
                                        .may_come = round_may_come},
                          added_kind = {.expect = added_expect, .arrived = added_arrived};

/* Letters of steps, and their rows, where the graph has tables.
 *
 * A node sends a step's letter when the step before is open: then every owner is done with the step before
 * that, whose place the letter takes. An owner sends the rows that the step before lacks at once: no update
 * changes their values. It sends the rows that both steps share when it has updated for the step before:
 *
 *     asker   ──letter──▶  owner  ──EARLY: bits, values──▶  asker        while the step before is computed
 *                                 ──ROWS: the other values──▶            after its update
 *
 * EARLY has a bit for each key of the letter: whether the row is shared. Where rows of any table come and go,
 * or RAM lacks room for the rows of two steps, an owner finds the rows of all tables after the update, and
 * sends all of them in ROWS. Letters are settled in order of askers, so rows have the same numbers in every
 * run: all rows of a step wait for a letter that is late, but for those of askers before its own. A step is
 * open when all its rows, and the values of the step before, have come. */
#include <inttypes.h>
#include <string.h>

#include "engine/node/reduce_internal.h"

#include "engine/base/doing.h"

/* By the thread that reads. */
void step_ask(struct exchange *x, const struct asked_step *asked)
{
    struct reduce *r = (struct reduce *)x;
    const uint32_t number = r->asked_count++ % ASKED_MAX;
    r->asked_waits[number] = asked;
    CHECK(ring_try_push(&r->asked_ring, number));
    r->post->vt->wake(r->post);
}

/* How many rows a letter asks for. */
static uint64_t asked_rows(const struct reduce *r, uint32_t from, uint64_t step)
{
    uint64_t rows = 0;
    for (uint32_t t = 0; t < r->graph->table_count; t++) rows += owned_key_count(r->owned, from, t, step);
    return rows;
}

/* Counts the rows of a letter that has come. */
static void asked_count(struct reduce *r, uint32_t from, uint64_t step)
{
    figure_add(&r->shared_asked_rows, asked_rows(r, from, step));
    if (from == r->exchange.rank) return;
    figure_add(&r->shared_rows_bytes, owned_floats(r->owned, from, step) * sizeof(float));
}

/* Sends the letters of the next step, if they are there and it is their time. */
static status letters_send(struct reduce *r)
{
    const struct exchange *x = &r->exchange;
    uint32_t number;
    if (r->asked || !ring_try_pop(&r->asked_ring, &number)) return ST_OK;
    const struct asked_step *asked = r->asked = r->asked_waits[number];
    doing_begin(DOING_rows);
    CHECK(asked->step == r->open_until);
    for (uint32_t i = 0; i < x->node_count; i++) {
        const uint32_t to = (x->rank + i) % x->node_count;
        if (!may_own_rows(r, to)) continue;
        uint8_t *letter = asked->letters + asked->letter_begin[to];
        const size_t bytes = asked->letter_begin[to + 1] - asked->letter_begin[to];
        if (to != x->rank) {
            const size_t floats = asked->float_begin[to + 1] - asked->float_begin[to];
            figure_add(&r->shared_rows_bytes,
                       asked_keys_bytes(&x->rows.shape, asked->count, to) + floats * sizeof(float));
            TRY(part_send(r, to, KIND_LETTER, asked->step, letter, bytes));
            continue;
        }
        memcpy(owned_letter_place(r->owned, to, asked->step), letter, bytes);
        TRY(owned_letter_arrived(r->owned, to, asked->step, bytes));
        asked_count(r, to, asked->step);
    }
    return ST_OK;
}

/* Copies rows that the node has asked itself for to where passes read them. */
static void own_copy(struct reduce *r, uint64_t step, enum owned_part part)
{
    const struct exchange *x = &r->exchange;
    CHECK(r->asked && r->asked->step == step);
    owned_values(r->owned, x->rank, step, part, true, x->rows.values[step % 2] + r->asked->float_begin[x->rank]);
}

static uint64_t bits_count(const uint64_t *bits, size_t bytes)
{
    uint64_t count = 0;
    for (size_t i = 0; i < bytes / sizeof *bits; i++) count += (uint64_t)__builtin_popcountll(bits[i]);
    return count;
}

/* Sends a node the rows of its letter that the step before lacks, if there are any; once. */
static status early_send(struct reduce *r, uint32_t n, uint64_t step)
{
    struct peer *peer = &r->peers[n];
    if (peer->early_until > step) return ST_OK;
    peer->early_until = step + 1;
    peer->early_floats = owned_part_floats(r->owned, n, step, OWNED_EARLY);
    if (peer->early_floats == 0) return ST_OK;
    size_t bits_bytes;
    const uint64_t *bits = owned_shared(r->owned, n, step, &bits_bytes);
    figure_add(&r->shared_early_rows, asked_rows(r, n, step) - bits_count(bits, bits_bytes));
    if (n == r->exchange.rank) {
        own_copy(r, step, OWNED_EARLY);
        return ST_OK;
    }
    owned_values(r->owned, n, step, OWNED_EARLY, false, peer->values);
    const size_t values_bytes = peer->early_floats * sizeof(float);
    const struct reduce_message message = {
        .kind = KIND_EARLY,
        .step = step,
        .part = {{(void *)(uintptr_t)bits, bits_bytes}, {peer->values, values_bytes}},
        .part_count = 2,
        .bytes = bits_bytes + values_bytes};
    return message_send(r, n, &message);
}

/* Sends rows to the askers whose letters are settled. */
static status rows_send(struct reduce *r)
{
    const struct exchange *x = &r->exchange;
    for (uint32_t n = 0; n < x->node_count; n++) {
        struct peer *peer = &r->peers[n];
        const uint64_t step = peer->rows_sent;
        if (!asks_rows(r, n) || !owned_is_settled(r->owned, n, step)) continue;
        if (step > r->updated_until) {
            TRY(early_send(r, n, step));
            continue;
        }
        const enum owned_part part = peer->early_floats ? OWNED_SHARED : OWNED_ALL;
        const size_t bytes = owned_part_floats(r->owned, n, step, part) * sizeof(float);
        const size_t before = peer->early_floats; /* of what may still be under way */
        peer->rows_sent++;
        peer->early_floats = 0;
        if (owned_floats(r->owned, n, step) == 0) continue; /* nobody waits for any */
        if (n == x->rank) {
            own_copy(r, step, part);
            peer->next_rows = step + 1;
            continue;
        }
        if (bytes == 0) continue; /* all rows were early */
        owned_values(r->owned, n, step, part, false, peer->values + before);
        TRY(part_send(r, n, KIND_ROWS, step, peer->values + before, bytes));
    }
    return ST_OK;
}

/* Whether a node owes no rows of the step that is asked for. */
static bool has_rows_of(const struct reduce *r, uint32_t node)
{
    const struct asked_step *asked = r->asked;
    return r->peers[node].next_rows > asked->step || asked->float_begin[node] == asked->float_begin[node + 1];
}

uint64_t rows_waits(const struct reduce *r)
{
    uint64_t waits = 0;
    for (uint32_t n = 0; n < r->exchange.node_count; n++)
        if (n != r->exchange.rank && r->asked && r->values_until >= r->asked->step && !has_rows_of(r, n))
            waits |= UINT64_C(1) << n;
    return waits;
}

/* Opens the step that is asked for when its rows have come. */
static void rows_look(struct reduce *r)
{
    struct exchange *x = &r->exchange;
    if (r->asked == NULL || r->values_until < r->asked->step) return;
    for (uint32_t n = 0; n < x->node_count; n++)
        if (!has_rows_of(r, n)) return;
    x->rows.asked = r->asked;
    r->open_until = r->asked->step + 1;
    for (uint32_t n = 0; n < x->node_count; n++) {
        r->peers[n].next_rows = r->open_until;
        r->peers[n].early_come = 0;
    }
    r->asked = NULL;
    doing_end(DOING_rows);
    /* Release pairs with the acquire in exchange_has_rows(): values, and what is asked for. */
    atomic_store_explicit(&x->rows.shared_step, r->open_until, memory_order_release);
    gate_ring(r);
}

/* Does all that can be done. */
status rows_step(struct reduce *r)
{
    if (r->owned == NULL || r->exchange.waves || store_is_held(r)) return ST_OK;
    for (uint64_t open = r->open_until + 1; open != r->open_until;) {
        open = r->open_until;
        TRY(letters_send(r));
        TRY(owned_settle(r->owned, r->evicting.is_bounded ? r->values_until : r->updated_until));
        TRY(rows_send(r));
        rows_look(r);
    }
    return ST_OK;
}

/* --- whose the store is ------------------------------------------------------------------------- */

static bool hold_look(void *context)
{
    const struct reduce *r = context;
    /* Acquire, both: what the node's thread has done to the store is visible; or the exchange has
     * failed. Relaxed: the own count. */
    return atomic_load_explicit(&r->shared_held, memory_order_acquire) ==
               atomic_load_explicit(&r->shared_hold, memory_order_relaxed) ||
           atomic_load_explicit(&r->shared_is_failed, memory_order_acquire);
}

status store_hold(struct reduce *r)
{
    if (r->owned == NULL) return ST_OK;
    /* Relaxed: what matters is what the other thread has done. */
    atomic_fetch_add_explicit(&r->shared_hold, 1, memory_order_relaxed);
    r->post->vt->wake(r->post);
    bell_await(&r->talk_bell, false, hold_look, r);
    return atomic_load_explicit(&r->shared_is_failed, memory_order_acquire) ? failure_adopt(&r->failure) : ST_OK;
}

void store_let_go(struct reduce *r)
{
    if (r->owned == NULL) return;
    /* Release pairs with the acquire in store_is_held(): what was done to the store meanwhile. */
    atomic_fetch_add_explicit(&r->shared_hold, 1, memory_order_release);
    r->post->vt->wake(r->post);
}

bool store_is_held(struct reduce *r)
{
    const uint32_t hold = atomic_load_explicit(&r->shared_hold, memory_order_acquire);
    if (hold % 2 == 0) return false;
    /* Release pairs with hold_look(). */
    atomic_store_explicit(&r->shared_held, hold, memory_order_release);
    bell_ring(&r->talk_bell);
    return true;
}

/* --- messages --------------------------------------------------------------------------------- */

static bool letter_expect(struct reduce *r, uint32_t from, uint64_t step, uint64_t bytes,
                          struct reduce_message *message)
{
    const size_t most = r->owned ? asked_letter_bytes_max(&r->shapes[from]) : 0;
    (void)step;
    if (r->owned == NULL || r->exchange.waves || !asks_rows(r, from)) return false;
    message->step = r->peers[from].next_letter;
    /* Of a later step nobody can ask: the step before is open at nobody until it has this node's
     * values, which follow its update for the step before that. That update reads the letter whose
     * place this one would take. */
    if (message->step > r->updated_until + 1) return false;
    message->bytes = bytes < most ? bytes : most;
    message->part[0].iov_base = owned_letter_place(r->owned, from, message->step);
    return true;
}

static status letter_arrived(struct reduce *r, uint32_t from, const struct reduce_message *message)
{
    TRY(owned_letter_arrived(r->owned, from, message->step, message->bytes));
    asked_count(r, from, message->step);
    r->peers[from].next_letter++;
    return ST_OK;
}

/* Where the values of the rows that the node was asked for belong, and how many floats they have. */
static float *values_of(const struct reduce *r, uint32_t from, size_t *floats)
{
    const struct asked_step *asked = r->asked;
    *floats = asked->float_begin[from + 1] - asked->float_begin[from];
    return r->exchange.rows.values[asked->step % 2] + asked->float_begin[from];
}

/* [table_count]: how many keys the node was asked for. */
static const uint32_t *counts_of(const struct reduce *r, uint32_t from)
{
    return r->asked->count + (size_t)from * r->graph->table_count;
}

static bool early_expect(struct reduce *r, uint32_t from, uint64_t step, uint64_t bytes, struct reduce_message *message)
{
    struct peer *peer = &r->peers[from];
    size_t floats;
    (void)step;
    if (r->asked == NULL || has_rows_of(r, from) || peer->shared == NULL || peer->early_come > 0) return false;
    float *values = values_of(r, from, &floats);
    const size_t bits = asked_bits_bytes(asked_keys_count(r->graph, counts_of(r, from)));
    /* One row at least, all at most; how many, the bits say (early_arrived). */
    if (bytes <= bits || bytes > bits + floats * sizeof *values || (bytes - bits) % sizeof *values > 0) return false;
    message->step = r->asked->step;
    message->bytes = bytes;
    message->part_count = 2;
    message->part[0] = (struct iovec){peer->shared, bits};
    message->part[1] = (struct iovec){values, bytes - bits};
    return true;
}

static status early_arrived(struct reduce *r, uint32_t from, const struct reduce_message *message)
{
    struct peer *peer = &r->peers[from];
    const uint32_t *count = counts_of(r, from);
    const size_t come = message->part[1].iov_len / sizeof(float),
                 expected = asked_part_floats(r->graph, count, peer->shared, false);
    size_t floats;
    float *values = values_of(r, from, &floats);
    if (come != expected)
        FAIL(INVALID,
             "node %u sent %zu floats of rows of step %" PRIu64
             " early; expected %zu, as its bits say: it does not train the same graph in the same way",
             reduce_name(r, from), come, message->step, expected);
    asked_part_spread(r->graph, count, peer->shared, false, values, values);
    peer->early_come = come;
    if (come == floats) peer->next_rows = message->step + 1;
    return ST_OK;
}

static bool rows_expect(struct reduce *r, uint32_t from, uint64_t step, uint64_t bytes, struct reduce_message *message)
{
    size_t floats;
    (void)step;
    (void)bytes;
    if (r->asked == NULL || has_rows_of(r, from)) return false;
    float *values = values_of(r, from, &floats);
    message->step = r->asked->step;
    message->bytes = (floats - r->peers[from].early_come) * sizeof *values;
    message->part[0].iov_base = r->peers[from].early_come ? r->late + r->asked->float_begin[from] : values;
    return true;
}

static status rows_arrived(struct reduce *r, uint32_t from, const struct reduce_message *message)
{
    struct peer *peer = &r->peers[from];
    size_t floats;
    float *values = values_of(r, from, &floats);
    if (peer->early_come)
        asked_part_spread(r->graph, counts_of(r, from), peer->shared, true, r->late + r->asked->float_begin[from],
                          values);
    peer->next_rows = message->step + 1;
    return ST_OK;
}

const struct message_kind letter_kind = {.expect = letter_expect, .arrived = letter_arrived},
                          early_kind = {.expect = early_expect, .arrived = early_arrived},
                          rows_kind = {.expect = rows_expect, .arrived = rows_arrived};

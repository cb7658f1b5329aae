/* Looks: rows as they are, which are only read, between two steps.
 *
 *     asker   look ──letters, to nodes that own any of its keys──▶ owners ──values──▶ asker
 *
 * An asker has at most LOOKS_MAX looks under way, and an owner as many places for each asker's letters and
 * answers; so a letter and its answer always find their places. An answer's place is free again when the
 * asker has sent the letter that needs it, since the asker then has the answer. */
#include <string.h>
#include <time.h>

#include "engine/node/reduce_internal.h"

/* How often a thread that waits for the end asks. */
#define END_LOOK_NS 50000

/* --- the asker's ------------------------------------------------------------------------------ */

void look_ask(struct exchange *x, struct exchange_look *look)
{
    struct reduce *r = (struct reduce *)x;
    const uint32_t number = r->looks.asked_count++ % EXCHANGE_LOOKS_MAX;
    /* Relaxed: published by the push. */
    atomic_store_explicit(&look->shared_is_done, false, memory_order_relaxed);
    r->looks.waits[number] = look;
    CHECK(ring_try_push(&r->looks.ring, number));
    r->post->vt->wake(r->post);
}

void look_end(struct exchange *x)
{
    struct reduce *r = (struct reduce *)x;
    /* Acquire, both: nobody writes into a look any more. */
    while (atomic_load_explicit(&r->looks.shared_done, memory_order_acquire) != r->looks.asked_count &&
           !atomic_load_explicit(&r->shared_is_failed, memory_order_acquire))
        nanosleep(&(struct timespec){.tv_nsec = END_LOOK_NS}, NULL);
}

/* A node has answered the look. Its maker may use it again as soon as it is shown to be done. */
static void look_answered(struct reduce *r, uint64_t number)
{
    struct looks *looks = &r->looks;
    struct exchange_look *look = looks->flight[number % LOOKS_MAX];
    if (--looks->left[number % LOOKS_MAX] > 0) return;
    while (looks->begin < looks->end && looks->left[looks->begin % LOOKS_MAX] == 0) looks->begin++;
    /* Release, both: with exchange_look_is_done(), and with look_end(). */
    atomic_store_explicit(&look->shared_is_done, true, memory_order_release);
    atomic_fetch_add_explicit(&looks->shared_done, 1, memory_order_release);
    gate_ring(r);
}

static bool owes(const struct exchange_look *look, uint32_t node)
{
    return look->asked.float_begin[node] < look->asked.float_begin[node + 1];
}

/* Sends the letters of a look that has just got its number. */
static status letters_send(struct reduce *r, struct exchange_look *look)
{
    const struct exchange *x = &r->exchange;
    const struct asked_step *asked = &look->asked;
    const uint64_t number = asked->step;
    uint32_t *left = &r->looks.left[number % LOOKS_MAX];
    *left = 1; /* this thread */
    for (uint32_t n = 0; n < x->node_count; n++) *left += n != x->rank && owes(look, n);
    for (uint32_t i = 1; i < x->node_count; i++) {
        const uint32_t to = (x->rank + i) % x->node_count;
        if (!owes(look, to)) continue;
        TRY(part_send(r, to, KIND_LOOK, asked->step, asked->letters + asked->letter_begin[to],
                      asked->letter_begin[to + 1] - asked->letter_begin[to]));
    }
    if (owes(look, x->rank)) {
        struct asked_letter letter;
        const uint8_t *at = asked->letters + asked->letter_begin[x->rank];
        TRY(asked_letter_read(&letter, &x->look_shape, at,
                              asked->letter_begin[x->rank + 1] - asked->letter_begin[x->rank]));
        TRY(owned_look(r->owned, &letter, r->own_rows, look->values + asked->float_begin[x->rank]));
    }
    look_answered(r, number);
    return ST_OK;
}

status looks_step(struct reduce *r)
{
    struct looks *looks = &r->looks;
    uint32_t number;
    if (r->owned == NULL) return ST_OK;
    while (looks->end - looks->begin < LOOKS_MAX && ring_try_pop(&looks->ring, &number)) {
        struct exchange_look *look = looks->flight[looks->end % LOOKS_MAX] = looks->waits[number];
        look->asked.step = looks->end++;
        TRY(letters_send(r, look));
    }
    return ST_OK;
}

static bool looked_expect(struct reduce *r, uint32_t from, uint64_t step, uint64_t bytes,
                          struct reduce_message *message)
{
    const struct looks *looks = &r->looks;
    struct peer *peer = &r->peers[from];
    (void)step;
    (void)bytes;
    if (peer->looked < looks->begin) peer->looked = looks->begin; /* looks before asked this peer for nothing */
    while (peer->looked < looks->end && !owes(looks->flight[peer->looked % LOOKS_MAX], from)) peer->looked++;
    if (peer->looked == looks->end) return false;
    struct exchange_look *look = looks->flight[peer->looked % LOOKS_MAX];
    message->step = peer->looked;
    message->bytes = (look->asked.float_begin[from + 1] - look->asked.float_begin[from]) * sizeof(float);
    message->part[0].iov_base = look->values + look->asked.float_begin[from];
    return true;
}

static status looked_arrived(struct reduce *r, uint32_t from, const struct reduce_message *message)
{
    r->peers[from].looked = message->step + 1;
    look_answered(r, message->step);
    return ST_OK;
}

/* --- the owner's ------------------------------------------------------------------------------ */

static bool look_expect(struct reduce *r, uint32_t from, uint64_t step, uint64_t bytes, struct reduce_message *message)
{
    struct peer *peer = &r->peers[from];
    const size_t most = r->owned ? asked_letter_bytes_max(&r->exchange.look_shape) : 0;
    if (r->owned == NULL) return false;
    message->step = step < peer->look_next ? peer->look_next : step;
    message->bytes = bytes < most ? bytes : most;
    message->part[0].iov_base = peer->look_letter[peer->look_count % LOOKS_MAX];
    return true;
}

static status look_arrived(struct reduce *r, uint32_t from, const struct reduce_message *message)
{
    struct peer *peer = &r->peers[from];
    struct asked_letter letter;
    const uint32_t place = peer->look_count++ % LOOKS_MAX;
    const struct graph *g = r->graph;
    size_t floats = 0;
    peer->look_next = message->step + 1;
    TRY(asked_letter_read(&letter, &r->exchange.look_shape, peer->look_letter[place], message->bytes));
    for (uint32_t t = 0; t < g->table_count; t++) floats += (size_t)letter.count[t] * row_vector_floats(&g->tables[t]);
    if (floats == 0) return ST_OK; /* nobody waits for an answer */
    TRY(owned_look(r->owned, &letter, r->own_rows, peer->look_values[place]));
    return part_send(r, from, KIND_LOOKED, message->step, peer->look_values[place], floats * sizeof(float));
}

const struct message_kind look_kind = {.expect = look_expect, .arrived = look_arrived},
                          looked_kind = {.expect = looked_expect, .arrived = looked_arrived};

void looks_layout(struct reduce *r, struct layout *l, uint32_t node, struct peer *peer)
{
    const struct asked_shape *shape = &r->exchange.look_shape;
    for (uint32_t i = 0; i < LOOKS_MAX && node != r->exchange.rank; i++) {
        LAYOUT_TAKE(l, peer->look_letter[i], asked_letter_bytes_max(shape));
        LAYOUT_TAKE(l, peer->look_values[i], asked_floats_max(shape));
    }
}

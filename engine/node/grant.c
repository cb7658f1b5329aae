/* One master of time: every node runs the same jobs, and rank 0 says how far each goes.
 *
 *     rank 0   job begins ──▶ a few steps ahead are granted ── as steps end, the next ones, up to the job's bound
 *              somebody wants to stop ──▶ what has been granted is the end, or what a stream has given by then
 *
 * A node begins no step that is not granted, and its job is over behind the last step that is. A grant may mark
 * its last step: behind that all nodes keep what rank 0 then wants to know of all. */
#include <inttypes.h>

#include "engine/node/reduce_internal.h"

/* By the main thread. */
void job_begin(struct exchange *x, uint64_t step, uint64_t until)
{
    struct reduce *r = (struct reduce *)x;
    struct grants *g = &r->grants;
    if (until > EXCHANGE_STEP_MAX) until = EXCHANGE_STEP_MAX;
    /* Relaxed: published below. */
    atomic_store_explicit(&g->shared_from, step < until ? step : until, memory_order_relaxed);
    atomic_store_explicit(&g->shared_until, until, memory_order_relaxed);
    /* Release pairs with the acquire in grants_step(). */
    atomic_fetch_add_explicit(&x->shared_job, 1, memory_order_release);
    atomic_store_explicit(&r->shared_runs, true, memory_order_relaxed); /* for who looks now and then */
    r->post->vt->wake(r->post);
}

void job_end(struct exchange *x)
{
    atomic_store_explicit(&((struct reduce *)x)->shared_runs, false, memory_order_relaxed);
}

void job_stop(struct exchange *x)
{
    struct reduce *r = (struct reduce *)x;
    /* Relaxed, both: a job's number, and nothing else. */
    atomic_store_explicit(&r->grants.shared_wish, atomic_load_explicit(&x->shared_job, memory_order_relaxed),
                          memory_order_relaxed);
    r->post->vt->wake(r->post);
}

/* Release pairs with exchange_granted(). */
static void grant_set(struct reduce *r, uint64_t job, uint64_t until, enum exchange_word word)
{
    atomic_store_explicit(&r->exchange.shared_grant[job % EXCHANGE_JOBS], exchange_grant(job, until, word),
                          memory_order_release);
    gate_ring(r);
}

/* Before the grant of the steps up to there. Release pairs with reduce_marked(). */
static void mark_set(struct reduce *r, uint64_t until)
{
    atomic_store_explicit(&r->grants.shared_marked, until, memory_order_release);
}

void reduce_mark(struct reduce *r) { atomic_store_explicit(&r->grants.shared_mark_wish, true, memory_order_relaxed); }

uint64_t reduce_marked(const struct reduce *r)
{
    return atomic_load_explicit(&r->grants.shared_marked, memory_order_acquire);
}

/* Rank 0's: grants what may be granted of its job. */
static status grants_send(struct reduce *r, uint64_t job)
{
    struct grants *g = &r->grants;
    const bool is_new = job != g->job;
    if (is_new) {
        g->job = job;
        g->until = atomic_load_explicit(&g->shared_from, memory_order_relaxed);
        g->word = EXCHANGE_GOES_ON;
    }
    if (g->word != EXCHANGE_GOES_ON) return ST_OK;
    /* A wish that comes when its job has been granted to the bound is one for the next. */
    const bool is_wished = g->wish > g->stopped && g->wish <= job;
    const uint64_t bound = atomic_load_explicit(&g->shared_until, memory_order_relaxed), all = reduce_done(r),
                   done = all > g->until ? g->until : all,
                   ahead = r->exchange.waves ? r->exchange.waves->ahead_steps : GRANT_STEPS;
    uint64_t until = done + ahead < bound ? done + ahead : bound;
    g->word = is_wished ? EXCHANGE_STOPPED : until == bound ? EXCHANGE_BOUND : EXCHANGE_GOES_ON;
    if (is_wished) until = g->until; /* what is granted is run: somebody may have begun it */
    if (is_wished) g->stopped = job;
    if (!is_new && g->word == EXCHANGE_GOES_ON && until < g->until + ahead / 2) return ST_OK;
    /* Relaxed: a wish, and nothing else. */
    const bool is_marked =
        until > g->until && atomic_exchange_explicit(&g->shared_mark_wish, false, memory_order_relaxed);
    g->until = until;
    if (is_marked) mark_set(r, until);
    grant_set(r, job, until, g->word);
    uint64_t *body = &g->body[g->body_count++ % GRANT_CELLS];
    *body = job << 3 | (uint64_t)is_marked << 2 | g->word;
    for (uint32_t n = 1; n < r->exchange.node_count; n++) TRY(part_send(r, n, KIND_GRANT, until, body, sizeof *body));
    return ST_OK;
}

status grants_step(struct reduce *r)
{
    static const uint64_t nothing = 0;
    struct grants *g = &r->grants;
    const uint64_t wish = atomic_load_explicit(&g->shared_wish, memory_order_relaxed);
    /* Acquire pairs with job_begin(). */
    const uint64_t job = atomic_load_explicit(&r->exchange.shared_job, memory_order_acquire);
    if (job == 0) return ST_OK;
    const bool is_new = wish > g->wish;
    if (is_new) g->wish = wish;
    if (g->wish > g->stopped) stream_stop(r);
    if (r->exchange.rank == 0) return grants_send(r, job);
    return is_new ? part_send(r, 0, KIND_WISH, wish, &nothing, sizeof nothing) : ST_OK;
}

/* --- messages --------------------------------------------------------------------------------- */

static bool word_expect(struct reduce *r, uint32_t from, uint64_t step, struct reduce_message *message)
{
    message->step = step;
    message->bytes = sizeof r->peers[from].word;
    message->part[0].iov_base = &r->peers[from].word;
    return true;
}

static bool grant_expect(struct reduce *r, uint32_t from, uint64_t step, uint64_t bytes, struct reduce_message *message)
{
    (void)bytes;
    return from == 0 && step <= EXCHANGE_STEP_MAX && word_expect(r, from, step, message);
}

static status grant_arrived(struct reduce *r, uint32_t from, const struct reduce_message *message)
{
    const uint64_t word = r->peers[from].word, job = word >> 3,
                   own = atomic_load_explicit(&r->exchange.shared_job, memory_order_acquire);
    if (job > own && job - own >= EXCHANGE_JOBS)
        FAIL(INVALID, "node %u grants steps of job %" PRIu64 "; expected one near job %" PRIu64, reduce_name(r, from),
             job, own);
    if (word >> 2 & 1) mark_set(r, message->step); /* perhaps of the next job */
    if (job < own) return ST_OK;                   /* it is over here, with the data or a pass of them */
    grant_set(r, job, message->step, (enum exchange_word)(word & 3));
    return ST_OK;
}

static bool wish_expect(struct reduce *r, uint32_t from, uint64_t step, uint64_t bytes, struct reduce_message *message)
{
    (void)bytes;
    return r->exchange.rank == 0 && word_expect(r, from, step, message);
}

static status wish_arrived(struct reduce *r, uint32_t from, const struct reduce_message *message)
{
    struct grants *g = &r->grants;
    (void)from;
    if (message->step > g->wish) g->wish = message->step;
    return ST_OK;
}

const struct message_kind grant_kind = {.expect = grant_expect, .arrived = grant_arrived},
                          wish_kind = {.expect = wish_expect, .arrived = wish_arrived};

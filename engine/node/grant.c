/* One master of time: every node runs the same jobs, and rank 0 says how far each goes.
 *
 *     rank 0   job begins ──▶ a few steps ahead are granted ── as steps end, the next ones, up to the job's bound
 *              somebody wants to stop ──▶ what has been granted is the end, or what a stream has given by then
 *              it is time for a save ──▶ the same, but that other jobs follow
 *
 * A node begins no step that is not granted, and its job is over after the last step that is. A grant may
 * mark its last step: after this step all nodes keep what rank 0 then wants to know of all.
 *
 * Workers of waves are granted steps far ahead. Where one wants to stop, rank 0 halts them all:
 * each begins nothing more and says what it has begun. The greatest of these steps is the end, to
 * which the nodes that are behind run. */
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
    atomic_store_explicit(&r->shared_runs, true, memory_order_relaxed); /* looked at now and then */
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

void reduce_job_cut(struct reduce *r)
{
    /* Relaxed, both: a job's number, and nothing else. */
    const uint64_t job = atomic_load_explicit(&r->exchange.shared_job, memory_order_relaxed);
    if (atomic_exchange_explicit(&r->grants.shared_cut, job, memory_order_relaxed) != job) r->post->vt->wake(r->post);
}

bool reduce_job_is_cut(const struct reduce *r)
{
    /* Relaxed, both: written before the grant that has ended the job, which this thread has read. */
    return atomic_load_explicit(&r->grants.shared_is_cut, memory_order_relaxed) ==
           atomic_load_explicit(&r->exchange.shared_job, memory_order_relaxed);
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

/* A grant's word: of which job, whether its last step is marked, and what becomes of the job. */
static uint64_t word_of(uint64_t job, bool is_marked, enum exchange_word word)
{
    return job << 3 | (uint64_t)is_marked << 2 | word;
}

/* By rank 0: grants steps below `until` to all; a halt is for others. */
static status word_send(struct reduce *r, uint64_t job, uint64_t until, enum exchange_word word)
{
    struct grants *g = &r->grants;
    /* Relaxed: a wish, and nothing else. */
    const bool is_marked = word != EXCHANGE_HALT && until > g->until &&
                           atomic_exchange_explicit(&g->shared_mark_wish, false, memory_order_relaxed);
    uint64_t *body = &g->body[g->body_count++ % GRANT_CELLS];
    *body = word_of(job, is_marked, word);
    if (is_marked) mark_set(r, until);
    if (word != EXCHANGE_HALT) {
        g->until = until;
        g->word = word;
        grant_set(r, job, until, word);
    }
    for (uint32_t n = 1; n < r->exchange.node_count; n++) TRY(part_send(r, n, KIND_GRANT, until, body, sizeof *body));
    return ST_OK;
}

/* Halts the job here until its last word. Returns below which step this worker's steps are begun. */
static uint64_t halt_take(struct reduce *r, uint64_t job)
{
    /* Sequentially consistent, both: exchange_begins(). */
    atomic_store_explicit(&r->exchange.shared_halted, job, memory_order_seq_cst);
    return atomic_load_explicit(&r->exchange.shared_begun, memory_order_seq_cst);
}

/* Whether somebody wants the job to end for good. After a job was granted to its bound,
 * or cut, a wish is for the next. */
static bool is_wished(const struct grants *g, uint64_t job) { return g->wish > g->stopped && g->wish <= job; }

/* Before the word that ends the job early: notes why. */
static void end_note(struct grants *g, uint64_t job)
{
    if (is_wished(g, job))
        g->stopped = job;
    else
        atomic_store_explicit(&g->shared_is_cut, job, memory_order_relaxed);
}

/* By rank 0: ends the job of workers after the last step that any of them has begun. */
static status halt_send(struct reduce *r, uint64_t job, uint64_t from)
{
    struct grants *g = &r->grants;
    const uint32_t count = r->exchange.node_count;
    if (g->halted == 0) {
        const uint64_t own = halt_take(r, job);
        g->halted = 1;
        g->begun = own > from ? own : from;
        TRY(word_send(r, job, g->until, EXCHANGE_HALT));
    }
    if ((uint32_t)__builtin_popcountll(g->halted) < count) return ST_OK;
    end_note(g, job);
    return word_send(r, job, g->begun, EXCHANGE_STOPPED);
}

/* Whether rank 0 has begun all its own steps below the bound. Before that workers do not hear that no more
 * steps come, so that a wish to stop does not come too late for the job. */
static bool is_begun(const struct reduce *r, uint64_t from, uint64_t bound)
{
    const uint32_t turns = r->exchange.waves->turn_count; /* rank 0 has the first */
    /* Relaxed: the gate wakes this thread for the last one. */
    uint64_t next = atomic_load_explicit(&r->exchange.shared_begun, memory_order_relaxed);
    if (next < from) next = from;
    return next + (turns - next % turns) % turns >= bound;
}

/* By rank 0: grants what may be granted of its job. */
static status grants_send(struct reduce *r, uint64_t job)
{
    struct grants *g = &r->grants;
    const bool is_new = job != g->job;
    const uint64_t from = atomic_load_explicit(&g->shared_from, memory_order_relaxed);
    if (is_new) {
        g->job = job;
        g->until = from;
        g->word = EXCHANGE_GOES_ON;
        g->halted = 0;
    }
    if (g->word != EXCHANGE_GOES_ON) return ST_OK;
    const struct exchange_waves *waves = r->exchange.waves;
    const bool is_over = is_wished(g, job) || atomic_load_explicit(&g->shared_cut, memory_order_relaxed) == job;
    if (is_over && waves) return halt_send(r, job, from);
    const uint64_t bound = atomic_load_explicit(&g->shared_until, memory_order_relaxed), all = reduce_done(r),
                   done = all > g->until ? g->until : all, ahead = waves ? waves->ahead_steps : GRANT_STEPS;
    if (is_over) { /* what is granted is run: somebody may have begun it */
        end_note(g, job);
        return word_send(r, job, g->until, EXCHANGE_STOPPED);
    }
    const uint64_t until = done + ahead < bound ? done + ahead : bound;
    const bool is_last = until == bound && (waves == NULL || is_begun(r, from, bound)),
               is_worth = until >= g->until + ahead / 2 || (until == bound && g->until < bound);
    if (!is_new && !is_last && !is_worth) return ST_OK;
    return word_send(r, job, until, is_last ? EXCHANGE_BOUND : EXCHANGE_GOES_ON);
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
    if ((word & 3) != EXCHANGE_HALT) {
        grant_set(r, job, message->step, (enum exchange_word)(word & 3));
        return ST_OK;
    }
    if (r->exchange.waves == NULL)
        FAIL(INVALID, "node %u halts a job, whose steps all nodes share: it does not run the same program",
             reduce_name(r, from));
    uint64_t *body = &r->grants.body[r->grants.body_count++ % GRANT_CELLS];
    *body = job;
    return part_send(r, 0, KIND_BEGUN, halt_take(r, job), body, sizeof *body);
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

static bool begun_expect(struct reduce *r, uint32_t from, uint64_t step, uint64_t bytes, struct reduce_message *message)
{
    (void)bytes;
    return r->exchange.rank == 0 && r->exchange.waves && word_expect(r, from, step, message);
}

static status begun_arrived(struct reduce *r, uint32_t from, const struct reduce_message *message)
{
    struct grants *g = &r->grants;
    if (g->halted == 0 || r->peers[from].word != g->job) return ST_OK; /* of a job that the data have ended */
    if (message->step > g->until)
        FAIL(INVALID, "node %u has begun steps below %" PRIu64 "; granted are those below %" PRIu64,
             reduce_name(r, from), message->step, g->until);
    g->halted |= UINT64_C(1) << from;
    if (message->step > g->begun) g->begun = message->step;
    return ST_OK;
}

const struct message_kind grant_kind = {.expect = grant_expect, .arrived = grant_arrived},
                          wish_kind = {.expect = wish_expect, .arrived = wish_arrived},
                          begun_kind = {.expect = begun_expect, .arrived = begun_arrived};

/* The gang of threads behind team.h.
 *
 * A run is a generation. Each member has a share of its pieces, the same part of every run, so a member
 * mostly reads what it has written itself; a member whose share is done helps the next ones. A share is a
 * word of (generation, pieces left). To claim a piece, a member lowers the word by one, but only while the
 * generation is the one whose work the member has read. Finished pieces are counted: the caller waits for
 * pieces, never for members. Nobody misses a member that sleeps, or that the system has taken off its core
 * between two pieces; when it comes late, it finds another generation or no piece left.
 *                  finished == count?
 *        member                                                       │ claim (g, left → left - 1) │ work │ … none left
 *                  finished += its pieces
 *
 * team_run is called about ten times a micro-batch, some 20 to 2000 us apart. */
#include "engine/device/cpu/team.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/bell.h"
#include "engine/base/cores.h"
#include "engine/base/futex.h"
#include "engine/base/memory.h"
#include "engine/base/thread.h"

/* Pieces in the low 24 bits, generation above: at 10^5 runs a second, 40 bits come round after four months,
 * and only a member that slept through exactly all of them could take one generation for another. */
#define PIECE_BITS 24
#define PIECE_MASK ((UINT64_C(1) << PIECE_BITS) - 1)

#define NOWHERE    (-1)

struct member {
    struct team *team;
    void *scratch;
    pthread_t thread;
    uint64_t delay_count; /* pieces delayed so far: part of the draw */
    uint32_t job_seen;
    uint32_t index;
    int processor; /* to pin itself to, or NOWHERE */
    /* all members */
    _Alignas(64) _Atomic uint64_t shared_share; /* generation << PIECE_BITS | pieces left */
};

struct team {
    /* set once */
    struct member *members; /* [member_count + 1]: the last is the helper */
    void *scratch_block;
    size_t scratch_bytes, block_bytes;
    uint32_t member_count, started_count;
    _Atomic bool shared_is_alone; /* the caller runs everything by itself */
    _Atomic bool shared_spins; /* false where threads outnumber processors: the one that is waited for needs the core */
    /* written by the caller between runs, read by members after a claim */
    uint64_t delay_seed;
    uint32_t delay_ns_max;
    struct bell *helper_bell;          /* NULL: nobody helps */
    _Atomic uint32_t shared_is_helped; /* the last member stays away; a futex word */
    /* written by the caller between runs; a late member may read them at any time and then fails to claim */
    _Atomic(team_work *) shared_work;
    _Atomic(void *) shared_context;
    _Atomic uint32_t shared_piece_count;
    /* all members */
    _Alignas(64) _Atomic uint32_t shared_finished; /* pieces of this run; a futex word */
    _Atomic uint32_t shared_caller_sleeps;
    _Alignas(64) _Atomic uint32_t shared_job; /* counts runs with more than one member; a futex word */
    _Atomic uint32_t shared_sleepers;
    _Atomic bool shared_closed;
};

/* Spreads a counter over 64 bits: enough for random delays. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 32) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 29) * UINT64_C(0x9e3779b97f4a7c15);
    return x ^ x >> 32;
}

static void delay(struct member *m)
{
    const struct team *team = m->team;
    uint64_t draw = mix(mix(team->delay_seed + m->index) + m->delay_count++);
    uint64_t end_ns = clock_ns() + draw % team->delay_ns_max;
    while (clock_ns() < end_ns)
        if (draw & 1) sched_yield();
}

/* The first piece of a member's share of `piece_count`. */
static uint32_t share_begin(const struct team *team, uint32_t member, uint32_t piece_count)
{
    return (uint32_t)((uint64_t)piece_count * member / team->member_count);
}

/* Claims pieces of the share of member `owner` and works until none of the current generation is
 * left; returns how many m has done. */
static uint32_t share_work_off(struct member *m, uint32_t owner)
{
    struct team *team = m->team;
    _Atomic uint64_t *share = &team->members[owner].shared_share;
    uint32_t done = 0;
    /* Acquire pairs with the release in team_run(): the work of this generation, and all that was written
     * before the run, is visible with the word that announces it. */
    uint64_t claim = atomic_load_explicit(share, memory_order_acquire);
    for (;;) {
        uint32_t left = (uint32_t)(claim & PIECE_MASK);
        if (left == 0) return done;
        /* Relaxed: the acquire of `claim` orders these loads. The values may belong to a later run than
         * `claim`; then all pieces of claim's run are done, the word has moved on, and the exchange below
         * fails. If the exchange succeeds, our piece was open until now, the run could not end, and the
         * values are this run's. The word itself must say that no piece is left: with the next run's count,
         * read early, this run would seem to have more pieces. */
        team_work *work = atomic_load_explicit(&team->shared_work, memory_order_relaxed);
        void *context = atomic_load_explicit(&team->shared_context, memory_order_relaxed);
        uint32_t piece_count = atomic_load_explicit(&team->shared_piece_count, memory_order_relaxed);
        uint32_t piece = share_begin(team, owner + 1, piece_count) - left;
        /* Acquire on failure: the word may now be another generation's, whose work is read next.
         * Acquire on success, too: another member may have written the word, and its exchange
         * continues the caller's release. */
        if (!atomic_compare_exchange_weak_explicit(share, &claim, claim - 1, memory_order_acquire,
                                                   memory_order_acquire))
            continue;
        if (team->delay_ns_max != 0) delay(m);
        work(context, piece, m->scratch);
        done++;
        claim = atomic_load_explicit(share, memory_order_acquire);
    }
}

/* Works off m's own share, then what is left of the others'. A member that looks while the caller is still
 * announcing a run may miss pieces; the caller itself misses none. */
static uint32_t work_off(struct member *m)
{
    uint32_t done = 0, member_count = m->team->member_count;
    for (uint32_t i = 0; i < member_count; i++) done += share_work_off(m, (m->index + i) % member_count);
    return done;
}

/* Returns whether there were pieces. */
static bool member_work(struct member *m)
{
    struct team *team = m->team;
    uint32_t done = work_off(m);
    if (done == 0) return false;
    /* Release: the caller, who acquires the full count, sees what our pieces wrote. Sequentially consistent,
     * as are the caller's flag and its look at the count in caller_wait(). piece_count is read before the
     * addition: until then the run cannot end. */
    uint32_t piece_count = atomic_load_explicit(&team->shared_piece_count, memory_order_relaxed);
    uint32_t finished = atomic_fetch_add_explicit(&team->shared_finished, done, memory_order_seq_cst) + done;
    if (finished == piece_count && atomic_load_explicit(&team->shared_caller_sleeps, memory_order_seq_cst))
        futex_wake(&team->shared_finished, 1);
    return true;
}

/* The last member sleeps here as long as there is a helper. */
static void member_rest(struct team *team)
{
    /* Relaxed: whether the member works decides nothing but speed. */
    while (atomic_load_explicit(&team->shared_is_helped, memory_order_relaxed)) futex_wait(&team->shared_is_helped, 1);
}

static void *member_main(void *argument)
{
    struct member *m = argument;
    struct team *team = m->team;
    if (m->processor != NOWHERE) cores_pin(&m->processor, 1);
    for (;;) {
        if (m->index == team->member_count - 1) member_rest(team);
        /* Acquire pairs with the increment in team_run(): a member that sees the job sees the shares. */
        uint32_t job = atomic_load_explicit(&team->shared_job, memory_order_acquire);
        if (atomic_load_explicit(&team->shared_spins, memory_order_relaxed))
            for (struct spin s = {0}; job == m->job_seen && spin_more(&s);)
                job = atomic_load_explicit(&team->shared_job, memory_order_acquire);
        if (job == m->job_seen) {
            /* Sequentially consistent, with the caller's increment of job and its look at
             * sleepers: of "I sleep, is there a job?" and "there is a job, does anyone
             * sleep?" at least one sees the other. */
            atomic_fetch_add_explicit(&team->shared_sleepers, 1, memory_order_seq_cst);
            if (atomic_load_explicit(&team->shared_job, memory_order_seq_cst) == m->job_seen)
                futex_wait(&team->shared_job, m->job_seen);
            /* Relaxed: a count that is high for a moment costs the caller a needless wake. */
            atomic_fetch_sub_explicit(&team->shared_sleepers, 1, memory_order_relaxed);
            continue;
        }
        m->job_seen = job;
        /* Relaxed: set before the job that woke us, which was acquired. */
        if (atomic_load_explicit(&team->shared_closed, memory_order_relaxed)) return NULL;
        (void)member_work(m);
    }
}

/* Waits until the members have finished `count` pieces. */
static void caller_wait(struct team *team, uint32_t count)
{
    /* Acquire pairs with the members' additions: all of them form one release sequence, so the full
     * count makes every piece visible. */
    uint32_t finished = atomic_load_explicit(&team->shared_finished, memory_order_acquire);
    if (atomic_load_explicit(&team->shared_spins, memory_order_relaxed))
        for (struct spin s = {0}; finished != count && spin_more(&s);)
            finished = atomic_load_explicit(&team->shared_finished, memory_order_acquire);
    while (finished != count) {
        /* Sequentially consistent, with the last member's addition and its look at this flag. */
        atomic_store_explicit(&team->shared_caller_sleeps, 1, memory_order_seq_cst);
        finished = atomic_load_explicit(&team->shared_finished, memory_order_seq_cst);
        if (finished != count) futex_wait(&team->shared_finished, finished);
        finished = atomic_load_explicit(&team->shared_finished, memory_order_acquire);
    }
    /* Relaxed: a member that still sees it set wakes nobody. */
    atomic_store_explicit(&team->shared_caller_sleeps, 0, memory_order_relaxed);
}

void team_run(struct team *team, team_work *work, void *context, uint32_t piece_count)
{
    struct member *self = &team->members[0];
    CHECK(piece_count <= PIECE_MASK);
    if (team_member_count(team) == 1 || piece_count <= 1) {
        for (uint32_t piece = 0; piece < piece_count; piece++) {
            if (team->delay_ns_max != 0) delay(self);
            work(context, piece, self->scratch);
        }
        return;
    }
    /* Relaxed: the release below announces them, and all pieces of the last run are finished. */
    atomic_store_explicit(&team->shared_work, work, memory_order_relaxed);
    atomic_store_explicit(&team->shared_context, context, memory_order_relaxed);
    atomic_store_explicit(&team->shared_piece_count, piece_count, memory_order_relaxed);
    atomic_store_explicit(&team->shared_finished, 0, memory_order_relaxed);
    uint64_t generation = (atomic_load_explicit(&self->shared_share, memory_order_relaxed) >> PIECE_BITS) + 1;
    for (uint32_t i = 0; i < team->member_count; i++) {
        uint32_t count = share_begin(team, i + 1, piece_count) - share_begin(team, i, piece_count);
        /* Release pairs with the acquires in share_work_off(). */
        atomic_store_explicit(&team->members[i].shared_share, generation << PIECE_BITS | count, memory_order_release);
    }
    /* Sequentially consistent, with a member that goes to sleep; see member_main(). */
    atomic_fetch_add_explicit(&team->shared_job, 1, memory_order_seq_cst);
    uint32_t sleepers = atomic_load_explicit(&team->shared_sleepers, memory_order_seq_cst);
    if (sleepers > 0) futex_wake(&team->shared_job, sleepers < piece_count ? sleepers : piece_count - 1);
    if (team->helper_bell) bell_ring(team->helper_bell);
    uint32_t done = work_off(self);
    /* Acquire (of acquire-release): makes the others' pieces visible when caller_wait() is not called. */
    uint32_t finished = atomic_fetch_add_explicit(&team->shared_finished, done, memory_order_acq_rel) + done;
    if (finished != piece_count) caller_wait(team, piece_count);
}

void team_helper_away_set(struct team *team, bool is_away)
{
    /* Relaxed: how a run is cut changes nothing in it. */
    if (team->member_count == 2) atomic_store_explicit(&team->shared_is_alone, is_away, memory_order_relaxed);
}

static void helped_set(struct team *team, bool is_helped)
{
    atomic_store_explicit(&team->shared_is_helped, is_helped, memory_order_relaxed);
    if (!is_helped) futex_wake(&team->shared_is_helped, 1);
}

void team_helper_set(struct team *team, struct bell *bell)
{
    if (team->member_count == 1) return;
    team->helper_bell = bell;
    team_helper_away_set(team, false);
    helped_set(team, bell != NULL);
}

bool team_help(struct team *team)
{
    struct member *m = &team->members[team->member_count];
    /* Acquire pairs with the increment in team_run(), as in member_main(). */
    uint32_t job = atomic_load_explicit(&team->shared_job, memory_order_acquire);
    if (job == m->job_seen) return false;
    m->job_seen = job;
    return member_work(m);
}

void team_delay_set(struct team *team, uint64_t seed, uint32_t max_ns)
{
    team->delay_seed = seed;
    team->delay_ns_max = max_ns;
}

void team_spin_set(struct team *team, bool spins)
{
    /* Relaxed: a member that has not yet seen it waits as before. */
    atomic_store_explicit(&team->shared_spins, spins, memory_order_relaxed);
}

uint32_t team_member_count(const struct team *team)
{
    return atomic_load_explicit(&team->shared_is_alone, memory_order_relaxed) ? 1 : team->member_count;
}

static status member_start(struct member *m)
{
    int error = thread_start(&m->thread, member_main, m);
    if (error != 0)
        FAIL(SYSTEM, "cannot start thread %u of a team of %u: %s", m->index + 1, m->team->member_count,
             strerror(error));
    m->team->started_count++;
    memory_note("threads", THREAD_STACK_BYTES);
    return ST_OK;
}

status team_open(struct team **out, uint32_t member_count, size_t scratch_bytes, const int *processors)
{
    CHECK(member_count >= 1);
    status st;
    *out = NULL;
    struct team *team = aligned_alloc(64, (sizeof *team + 63) / 64 * 64);
    if (team == NULL) FAIL(MEMORY, "no memory to describe a team of %u", member_count);
    memset(team, 0, sizeof *team);
    team->member_count = member_count;
    /* Two members' scratch never share a line, nor the pair of lines that a core fetches together. */
    team->scratch_bytes = (scratch_bytes + 127) / 128 * 128;
    uint32_t place_count = member_count > 1 ? member_count + 1 : 1; /* and the helper */
    team->block_bytes = (size_t)place_count * team->scratch_bytes;
    /* Whole huge pages, unless most of them would stay empty: a product reads packed
     * factors in many places at once. */
    if (team->block_bytes >= HUGE_PAGE_BYTES / 4)
        team->block_bytes = (team->block_bytes + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    team->members = aligned_alloc(64, place_count * sizeof *team->members);
    if (team->members == NULL) {
        free(team);
        FAIL(MEMORY, "no memory to describe a team of %u", member_count);
    }
    memset(team->members, 0, place_count * sizeof *team->members);
    if (team->block_bytes > 0) TRY_GOTO(memory_take("kernel scratch", team->block_bytes, &team->scratch_block), fail);
    struct cores cores;
    if (member_count > 1) {
        cores_allowed(&cores);
        team_spin_set(team, cores.count >= member_count);
    }
    for (uint32_t i = 0; i < place_count; i++) {
        struct member *m = &team->members[i];
        m->team = team;
        m->index = i < member_count ? i : member_count - 1; /* the helper's share is the last member's */
        m->processor = processors && i < member_count ? processors[i] : NOWHERE;
        if (team->block_bytes > 0) m->scratch = (uint8_t *)team->scratch_block + i * team->scratch_bytes;
        /* Member 0 is whoever calls team_run, the helper whoever calls team_help. */
        if (i > 0 && i < member_count) TRY_GOTO(member_start(m), fail);
    }
    *out = team;
    return ST_OK;
fail:
    team_close(team);
    return st;
}

void team_close(struct team *team)
{
    if (team == NULL) return;
    /* Relaxed: the increment of job releases it. */
    atomic_store_explicit(&team->shared_closed, true, memory_order_relaxed);
    atomic_fetch_add_explicit(&team->shared_job, 1, memory_order_seq_cst);
    futex_wake(&team->shared_job, UINT32_MAX);
    helped_set(team, false);
    for (uint32_t i = 1; i <= team->started_count; i++) pthread_join(team->members[i].thread, NULL);
    memory_note("threads", -(size_t)team->started_count * THREAD_STACK_BYTES); /* taken back, modulo 2^64 */
    memory_give("kernel scratch", team->scratch_block, team->block_bytes);
    free(team->members);
    free(team);
}

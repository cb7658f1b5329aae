/* Rank 0: it claims an incarnation, gathers nodes, numbers generations, and says who is in. */
#include <string.h>

#include "engine/node/member_internal.h"

#define COVER_WORK 5000u /* calls of missed_within: some milliseconds at most */

/* Rank 0 tells all, and waits until they have gone. */
void member_end(struct member *m, uint64_t code, enum member_reason reason, uint32_t rank)
{
    if (m->phase == MEMBER_ENDING || m->phase == MEMBER_ENDED) return;
    for (uint32_t c = 0; c < MEMBER_CHANNELS_MAX; c++)
        if (m->channel[c].is_up && m->channel[c].rank != MEMBER_NONE) frame_put(m, c, FRAME_STOP)->value = code;
    m->phase = MEMBER_ENDING;
    m->exit_status = (int)code;
    m->exit_reason = reason;
    m->exit_rank = rank;
    m->end_ns = m->now_ns + m->o.timeout_ns;
    m->decide_ns = m->progress_end_ns = NEVER;
}

void member_ending_look(struct member *m)
{
    bool is_alone = true;
    for (uint32_t c = 0; c < MEMBER_CHANNELS_MAX; c++)
        if (m->channel[c].is_up && m->channel[c].rank != MEMBER_NONE) is_alone = false;
    if (is_alone || m->now_ns >= m->end_ns) leave(m, (uint64_t)m->exit_status, m->exit_reason, m->exit_rank);
}

/* --- rank 0: generations ------------------------------------------------------------------------- */

static void roster_tell(struct member *m, uint32_t channel)
{
    struct member_frame *f = frame_put(m, channel, FRAME_ROSTER);
    f->roster = m->roster;
}

static void meeting_begin(struct member *m)
{
    m->phase = MEMBER_MEETING;
    if (!MEMBER_PLANTED(PLANT_VOTE_KEPT)) m->ready = bit(0);
    m->ready |= bit(0);
    memset(m->missed, 0, sizeof m->missed);
    m->decide_ns = NEVER;
    m->end_ns = m->now_ns + (m->o.is_partial ? 2 : 1) * m->o.timeout_ns; /* others give up sooner (member_mesh_late) */
    for (uint32_t r = 1; r < m->o.nodes; r++)
        if (is_in(m->roster.mask, r) && m->to[r] != MEMBER_NONE) roster_tell(m, m->to[r]);
}

static void meeting_look(struct member *m)
{
    if (m->phase != MEMBER_MEETING || (m->roster.mask & ~m->ready) != 0) return;
    m->phase = MEMBER_RUNNING;
    m->end_ns = NEVER;
    m->step_least = 0;
    memset(m->steps, 0, sizeof m->steps);
    memset(m->waits_of, 0, sizeof m->waits_of);
    m->progress_end_ns = m->o.progress_ns ? m->now_ns + m->o.progress_ns : NEVER;
    for (uint32_t r = 1; r < m->o.nodes; r++)
        if (is_in(m->roster.mask, r)) (void)frame_put(m, m->to[r], FRAME_GO);
    put(m, OUTPUT_BEGIN)->frame.roster = m->roster;
}

/* `lost` are out: forms the next generation of the others and of the nodes that wait. */
static void form(struct member *m, uint64_t lost)
{
    const bool has_begun = m->phase == MEMBER_RUNNING;
    uint64_t survivors = m->roster.mask & ~lost & (m->present | bit(0)), next;
    m->roster.losses++;
    m->decide_ns = m->progress_end_ns = NEVER;
    if (m->roster.losses >= MEMBER_LOSSES_MAX) {
        member_end(m, MEMBER_EXIT_AGAIN, REASON_LOSSES, (uint32_t)__builtin_ctzll(lost));
        return;
    }
    next = survivors | (m->waiting & ~m->roster.barred);
    for (uint32_t r = 1; r < m->o.nodes && count_of(next) < m->o.min; r++) next |= m->waiting & bit(r);
    if (count_of(next) < m->o.min) {
        member_end(m, MEMBER_EXIT_AGAIN, REASON_TOO_FEW, (uint32_t)__builtin_ctzll(lost));
        return;
    }
    const uint64_t told = m->roster.mask & lost;
    m->roster.generation++;
    m->roster.mask = next;
    for (uint32_t r = 1; r < m->o.nodes; r++) {
        if (is_in(told, r) && m->to[r] != MEMBER_NONE) roster_tell(m, m->to[r]); /* that it is out */
        if (!is_in(next, r)) continue;
        if (!is_in(survivors, r)) {
            m->roster.nonce[r] = m->waiting_nonce[r];
            m->roster.says[r] = m->waiting_says[r];
            m->to[r] = m->waiting_to[r];
            m->waiting_to[r] = MEMBER_NONE;
            m->waiting &= ~bit(r);
            m->present |= bit(r);
        }
    }
    m->present &= next;
    if (!has_begun) {
        meeting_begin(m);
        return;
    }
    for (uint32_t r = 1; r < m->o.nodes; r++)
        if (is_in(next, r)) roster_tell(m, m->to[r]);
    m->leaving = survivors & ~bit(0);
    m->phase = MEMBER_LEAVING;
    m->end_ns = m->now_ns + m->o.timeout_ns / 2;
}

/* A node that has begun starts anew on hearing of it, which ends its link; then rank 0 does. A node
 * that has waited goes on in place. */
void member_leaving_look(struct member *m)
{
    bool is_alone = true;
    for (uint32_t r = 1; r < m->o.nodes; r++)
        if (is_in(m->leaving, r) && m->to[r] != MEMBER_NONE) is_alone = false;
    if (is_alone || m->now_ns >= m->end_ns) anew(m, &m->roster);
}

void member_lose(struct member *m, uint64_t lost)
{
    if (m->phase == MEMBER_CLAIMING || m->phase == MEMBER_GATHERING) m->present &= ~lost;
    if ((m->phase != MEMBER_MEETING && m->phase != MEMBER_RUNNING) || (lost & m->roster.mask) == 0) return;
    m->present &= ~lost;
    form(m, lost & m->roster.mask);
}

/* The ranks of `in` that a rank misses: one does not reach the other. */
static uint64_t missed_of(const struct member *m, uint64_t in, uint32_t rank)
{
    uint64_t missed = m->missed[rank];
    for (uint32_t k = 1; k < m->o.nodes; k++)
        if (is_in(m->missed[k], rank)) missed |= bit(k);
    return missed & in & ~bit(rank) & ~bit(0);
}

/* The rank of `in` that misses most others, the highest of several; 0: none misses any. */
static uint32_t missed_worst(const struct member *m, uint64_t in)
{
    uint32_t worst = 0, worst_count = 0;
    for (uint32_t r = 1; r < m->o.nodes; r++) {
        const uint32_t count = is_in(in, r) ? count_of(missed_of(m, in, r)) : 0;
        if (count && count >= worst_count) worst = r, worst_count = count;
    }
    return worst;
}

/* Whether at most `budget` ranks can leave `in` so that no pair is left, and which; each call counts down
 * `work`. Either the worst one leaves, or all that it misses. */
static bool missed_within(const struct member *m, uint64_t in, uint32_t budget, uint64_t *out, uint32_t *work)
{
    const uint32_t worst = missed_worst(m, in);
    *out = 0;
    if (worst == 0) return true;
    if (budget == 0 || *work == 0) return false;
    --*work;
    const uint64_t others = missed_of(m, in, worst);
    if (missed_within(m, in & ~bit(worst), budget - 1, out, work)) {
        *out |= bit(worst);
        return true;
    }
    if (count_of(others) > budget || !missed_within(m, in & ~others, budget - count_of(others), out, work))
        return false;
    *out |= others;
    return true;
}

/* The fewest ranks that must leave so that no such pair is left;
 * where they take too long to find, some ranks. */
static uint64_t missed_cover(const struct member *m)
{
    uint32_t work = COVER_WORK;
    uint64_t in = m->roster.mask, out = 0;
    for (uint32_t budget = 0; work; budget++)
        if (missed_within(m, in, budget, &out, &work)) return out;
    for (uint32_t worst; (worst = missed_worst(m, in)) != 0;) in &= ~bit(worst);
    return m->roster.mask & ~in;
}

void member_missed_decide(struct member *m)
{
    const uint64_t out = missed_cover(m);
    m->decide_ns = NEVER;
    m->roster.barred |= out;
    if (out) member_lose(m, out);
}

/* Not all have met in time. */
void member_meeting_late(struct member *m)
{
    uint64_t out = missed_cover(m);
    m->roster.barred |= out;
    if (out == 0) out = m->roster.mask & ~m->ready;
    member_lose(m, out);
}

void member_gathering_look(struct member *m)
{
    const uint64_t all = m->roster.generation ? m->roster.mask : m->o.nodes == 64 ? UINT64_MAX : bit(m->o.nodes) - 1;
    const bool is_late = m->now_ns >= m->end_ns, is_whole = (all & ~(m->present | bit(0))) == 0;
    if (m->phase != MEMBER_GATHERING || (!is_late && !is_whole)) return;
    if (m->roster.generation && !is_whole) { /* some nodes that were told do not come */
        m->phase = MEMBER_MEETING;
        form(m, all & ~(m->present | bit(0)));
        return;
    }
    if (m->roster.generation == 0) {
        m->roster.generation = 1;
        m->roster.mask = m->present | bit(0);
        if (count_of(m->roster.mask) < m->o.min) {
            member_end(m, MEMBER_EXIT_AGAIN, REASON_TOO_FEW, (uint32_t)__builtin_ctzll(all & ~m->roster.mask));
            return;
        }
    }
    meeting_begin(m);
    meeting_look(m); /* alone */
}

static void refuse(struct member *m, uint32_t channel, enum member_reason reason)
{
    frame_put(m, channel, FRAME_REFUSE)->value = reason;
    close_channel(m, channel);
}

static void wait_add(struct member *m, uint32_t channel, const struct member_frame *f)
{
    const uint32_t r = f->rank;
    if (is_in(m->waiting, r) && m->waiting_nonce[r] != f->nonce) {
        refuse(m, channel, REASON_TWICE);
        return;
    }
    if (is_in(m->waiting, r) && m->waiting_to[r] != channel) close_channel(m, m->waiting_to[r]);
    if (m->roster.nonce[r] != f->nonce) m->roster.barred &= ~bit(r); /* another process, perhaps elsewhere */
    m->waiting |= bit(r);
    m->waiting_nonce[r] = f->nonce;
    m->waiting_says[r] = f->value;
    m->waiting_to[r] = channel;
    (void)frame_put(m, channel, FRAME_WAIT);
}

static void hello_take(struct member *m, uint32_t channel, const struct member_frame *f)
{
    const uint32_t r = f->rank;
    if (f->incarnation > m->roster.incarnation) { /* we have slept, and the job has been started again */
        member_end(m, MEMBER_EXIT_AGAIN, REASON_NEWER, r);
        return;
    }
    if (r == 0 || r >= m->o.nodes) {
        refuse(m, channel, REASON_TWICE);
        return;
    }
    if (f->facts != m->o.facts) {
        refuse(m, channel, REASON_FACTS);
        return;
    }
    m->channel[channel].rank = r;
    const bool is_of_roster = m->roster.generation && is_in(m->roster.mask, r) && m->roster.nonce[r] == f->nonce &&
                              f->generation == m->roster.generation && f->incarnation == m->roster.incarnation;
    const bool is_first_start = m->roster.generation == 0;
    if (m->phase == MEMBER_CLAIMING || (m->phase == MEMBER_GATHERING && (is_first_start || is_of_roster))) {
        if (is_in(m->present, r) && m->roster.nonce[r] != f->nonce) {
            refuse(m, channel, REASON_TWICE);
            return;
        }
        if (m->to[r] != MEMBER_NONE && m->to[r] != channel) close_channel(m, m->to[r]);
        m->roster.nonce[r] = f->nonce;
        m->roster.says[r] = f->value;
        m->to[r] = channel;
        m->present |= bit(r);
        member_gathering_look(m);
        return;
    }
    /* A node that is in, and comes again, has lost what it had. */
    const bool was_in = is_in(m->roster.mask, r) && m->roster.nonce[r] == f->nonce && m->to[r] != channel;
    wait_add(m, channel, f);
    if (was_in && m->to[r] != MEMBER_NONE) {
        close_channel(m, m->to[r]);
        member_lose(m, bit(r));
    }
}

static void beat_take(struct member *m, uint32_t r, const struct member_frame *f)
{
    if (m->phase != MEMBER_RUNNING || f->generation != m->roster.generation) return;
    if (f->value > m->steps[r]) m->steps[r] = f->value; /* rank 0 may know of more (EVENT_STEP) */
    m->waits_of[r] = f->mask;
}

void member_progress_look(struct member *m)
{
    uint64_t least = NEVER;
    m->steps[0] = m->step;
    m->waits_of[0] = m->waits;
    for (uint32_t r = 0; r < m->o.nodes; r++)
        if (is_in(m->roster.mask, r) && m->steps[r] < least) least = m->steps[r];
    if (least > m->step_least) {
        m->step_least = least;
        m->roster.losses = 0;
        if (m->o.progress_ns) m->progress_end_ns = m->now_ns + m->o.progress_ns;
    }
    if (m->now_ns < m->progress_end_ns) return;
    /* Stuck is a node that is waited for and waits for nobody; else the nodes that have done least. */
    uint64_t awaited = 0, stuck = 0, behind = 0;
    for (uint32_t r = 0; r < m->o.nodes; r++) {
        if (!is_in(m->roster.mask, r)) continue;
        awaited |= m->waits_of[r];
        if (m->waits_of[r] == 0) stuck |= bit(r);
        if (m->steps[r] == least) behind |= bit(r);
    }
    stuck &= awaited & m->roster.mask;
    if (stuck == 0) stuck = behind;
    if (is_in(stuck, 0)) {
        member_end(m, MEMBER_EXIT_AGAIN, REASON_FIRST_STUCK, 0);
        return;
    }
    m->progress_end_ns = NEVER;
    m->roster.barred |= stuck;
    m->stuck |= stuck;
    member_lose(m, stuck);
}

void member_first_frame(struct member *m, uint32_t channel, const struct member_frame *f)
{
    const uint32_t r = m->channel[channel].rank;
    if (f->kind == FRAME_HELLO && r != MEMBER_NONE) { /* once a channel */
        if (r != f->rank) member_channel_down(m, channel, MEMBER_NONE);
        return;
    }
    if (f->kind == FRAME_HELLO) {
        if (m->phase != MEMBER_ENDING) hello_take(m, channel, f);
        return;
    }
    const bool is_now = (f->generation == m->roster.generation && f->incarnation == m->roster.incarnation) ||
                        MEMBER_PLANTED(PLANT_OLD_FRAME);
    if (r == MEMBER_NONE || m->to[r] != channel) return; /* of a node that waits */
    if (f->kind == FRAME_STOP) member_end(m, f->value, REASON_FINISHED, r);
    if (!is_now || m->phase == MEMBER_LEAVING || m->phase == MEMBER_ENDING) return;
    if (f->kind == FRAME_READY && m->phase == MEMBER_MEETING) {
        m->ready |= bit(r);
        m->missed[r] = 0;
        meeting_look(m);
    }
    if (f->kind == FRAME_BEAT) beat_take(m, r, f);
    if (f->kind == FRAME_LOST) {
        m->missed[r] = f->mask;
        if (m->phase == MEMBER_RUNNING && m->decide_ns == NEVER) m->decide_ns = m->now_ns + m->o.timeout_ns / 4;
    }
}

/* The machine of member.h. */
#include "engine/node/member.h"

#include <stddef.h>
#include <string.h>

#include "engine/base/status.h"

/* For tests that plant bugs, which include this file. */
#ifndef MEMBER_PLANTED
#define MEMBER_PLANTED(bug) false
#endif

#define NEVER UINT64_MAX

static void channel_down(struct member *m, uint32_t channel, uint32_t rank);

static bool is_first(const struct member *m) { return m->o.rank == 0; }
static uint64_t bit(uint32_t rank) { return UINT64_C(1) << rank; }
static bool is_in(uint64_t mask, uint32_t rank) { return mask >> rank & 1; }
static uint32_t count_of(uint64_t mask) { return (uint32_t)__builtin_popcountll(mask); }

/* --- output ------------------------------------------------------------------------------------ */

static struct member_output *put(struct member *m, enum member_output_kind kind)
{
    CHECK(m->output_count < MEMBER_OUTPUTS_MAX);
    struct member_output *out = &m->output[m->output_count++];
    out->kind = kind;
    out->channel = out->rank = MEMBER_NONE;
    out->value = out->at_ns = 0;
    out->reason = REASON_NONE;
    return out;
}

static struct member_frame *send(struct member *m, uint32_t channel, enum member_frame_kind kind)
{
    struct member_output *out = put(m, OUTPUT_SEND);
    out->channel = channel;
    out->frame = (struct member_frame){.kind = kind,
                                       .rank = m->o.rank,
                                       .incarnation = m->roster.incarnation,
                                       .generation = m->roster.generation,
                                       .nonce = m->o.nonce,
                                       .facts = m->o.facts};
    return &out->frame;
}

static void close_channel(struct member *m, uint32_t channel)
{
    if (channel == MEMBER_NONE || !m->channel[channel].is_up) return;
    for (uint32_t r = 0; r < m->o.nodes; r++) {
        if (m->to[r] == channel) m->to[r] = MEMBER_NONE;
        if (m->waiting_to[r] == channel) {
            m->waiting_to[r] = MEMBER_NONE;
            m->waiting &= ~bit(r);
        }
    }
    m->channel[channel].is_up = false;
    put(m, OUTPUT_CLOSE)->channel = channel;
}

static void leave(struct member *m, uint64_t code, enum member_reason reason, uint32_t rank)
{
    struct member_output *out = put(m, OUTPUT_EXIT);
    out->value = code;
    out->reason = reason;
    out->rank = rank;
    m->phase = MEMBER_ENDED;
}

static void anew(struct member *m, const struct member_roster *roster)
{
    static const struct member_roster none;
    struct member_output *out = put(m, OUTPUT_ANEW);
    out->frame.roster = roster ? *roster : none;
    out->frame.roster.incarnation =
        roster ? roster->incarnation : m->roster.incarnation; /* so that no older start is joined */
    m->phase = MEMBER_ENDED;
}

/* Rank 0 tells all, and waits until they have gone. */
static void end(struct member *m, uint64_t code, enum member_reason reason, uint32_t rank)
{
    if (m->phase == MEMBER_ENDING || m->phase == MEMBER_ENDED) return;
    for (uint32_t c = 0; c < MEMBER_CHANNELS_MAX; c++)
        if (m->channel[c].is_up && m->channel[c].rank != MEMBER_NONE) send(m, c, FRAME_STOP)->value = code;
    m->phase = MEMBER_ENDING;
    m->exit_status = (int)code;
    m->exit_reason = reason;
    m->exit_rank = rank;
    m->end_ns = m->now_ns + m->o.timeout_ns;
}

static void ending_look(struct member *m)
{
    bool is_alone = true;
    for (uint32_t c = 0; c < MEMBER_CHANNELS_MAX; c++)
        if (m->channel[c].is_up && m->channel[c].rank != MEMBER_NONE) is_alone = false;
    if (is_alone || m->now_ns >= m->end_ns) leave(m, (uint64_t)m->exit_status, m->exit_reason, m->exit_rank);
}

/* --- rank 0: generations ------------------------------------------------------------------------- */

static void roster_tell(struct member *m, uint32_t channel)
{
    struct member_frame *f = send(m, channel, FRAME_ROSTER);
    f->roster = m->roster;
}

static void meeting_begin(struct member *m)
{
    m->phase = MEMBER_MEETING;
    if (!MEMBER_PLANTED(PLANT_VOTE_KEPT)) m->ready = bit(0);
    m->ready |= bit(0);
    memset(m->missed, 0, sizeof m->missed);
    m->decide_ns = NEVER;
    m->end_ns = m->now_ns + m->o.timeout_ns;
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
        if (is_in(m->roster.mask, r)) (void)send(m, m->to[r], FRAME_GO);
    put(m, OUTPUT_BEGIN)->frame.roster = m->roster;
}

/* `lost` are out: the next generation is of the others and of those who wait. */
static void form(struct member *m, uint64_t lost)
{
    const bool has_begun = m->phase == MEMBER_RUNNING;
    uint64_t survivors = m->roster.mask & ~lost & (m->present | bit(0)), next;
    m->roster.losses++;
    m->progress_end_ns = NEVER;
    if (m->roster.losses >= MEMBER_LOSSES_MAX) {
        end(m, MEMBER_EXIT_AGAIN, REASON_LOSSES, (uint32_t)__builtin_ctzll(lost));
        return;
    }
    next = survivors | (m->waiting & ~m->roster.barred);
    for (uint32_t r = 1; r < m->o.nodes && count_of(next) < m->o.min; r++) next |= m->waiting & bit(r);
    if (count_of(next) < m->o.min) {
        end(m, MEMBER_EXIT_AGAIN, REASON_TOO_FEW, (uint32_t)__builtin_ctzll(lost));
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
    m->phase = MEMBER_LEAVING;
    m->end_ns = m->now_ns + m->o.timeout_ns / 2;
}

/* They start anew as they hear of it, which ends their links; then this one does. */
static void leaving_look(struct member *m)
{
    bool is_alone = true;
    for (uint32_t r = 1; r < m->o.nodes; r++)
        if (is_in(m->roster.mask, r) && m->to[r] != MEMBER_NONE) is_alone = false;
    if (is_alone || m->now_ns >= m->end_ns) anew(m, &m->roster);
}

static void lose(struct member *m, uint64_t lost)
{
    if (m->phase == MEMBER_CLAIMING || m->phase == MEMBER_GATHERING) m->present &= ~lost;
    if ((m->phase != MEMBER_MEETING && m->phase != MEMBER_RUNNING) || (lost & m->roster.mask) == 0) return;
    m->present &= ~lost;
    form(m, lost & m->roster.mask);
}

/* Of pairs that do not reach each other: who must leave so that none is left. */
static uint64_t missed_cover(struct member *m)
{
    uint64_t out = 0;
    for (;;) {
        uint32_t worst = 0, worst_count = 0;
        for (uint32_t r = 1; r < m->o.nodes; r++) {
            uint32_t pairs = 0;
            if (!is_in(m->roster.mask & ~out, r)) continue;
            for (uint32_t k = 1; k < m->o.nodes; k++)
                pairs +=
                    k != r && is_in(m->roster.mask & ~out, k) && (is_in(m->missed[r], k) || is_in(m->missed[k], r));
            if (pairs && pairs >= worst_count) worst = r, worst_count = pairs;
        }
        if (worst_count == 0) return out;
        out |= bit(worst);
    }
}

static void missed_decide(struct member *m)
{
    const uint64_t out = missed_cover(m);
    m->decide_ns = NEVER;
    m->roster.barred |= out;
    if (out) lose(m, out);
}

/* Not all have met in time. */
static void meeting_late(struct member *m)
{
    uint64_t out = missed_cover(m);
    m->roster.barred |= out;
    if (out == 0) out = m->roster.mask & ~m->ready;
    lose(m, out);
}

static void gathering_look(struct member *m)
{
    const uint64_t all = m->roster.generation ? m->roster.mask : m->o.nodes == 64 ? UINT64_MAX : bit(m->o.nodes) - 1;
    const bool is_late = m->now_ns >= m->end_ns, is_whole = (all & ~(m->present | bit(0))) == 0;
    if (m->phase != MEMBER_GATHERING || (!is_late && !is_whole)) return;
    if (m->roster.generation && !is_whole) { /* of those who were told some do not come */
        m->phase = MEMBER_MEETING;
        form(m, all & ~(m->present | bit(0)));
        return;
    }
    if (m->roster.generation == 0) {
        m->roster.generation = 1;
        m->roster.mask = m->present | bit(0);
        if (count_of(m->roster.mask) < m->o.min) {
            end(m, MEMBER_EXIT_AGAIN, REASON_TOO_FEW, (uint32_t)__builtin_ctzll(all & ~m->roster.mask));
            return;
        }
    }
    meeting_begin(m);
    meeting_look(m); /* alone */
}

static void refuse(struct member *m, uint32_t channel, enum member_reason reason)
{
    send(m, channel, FRAME_REFUSE)->value = reason;
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
    m->waiting_to[r] = channel;
    (void)send(m, channel, FRAME_WAIT);
}

static void hello_take(struct member *m, uint32_t channel, const struct member_frame *f)
{
    const uint32_t r = f->rank;
    if (f->incarnation > m->roster.incarnation) { /* we have slept, and the job has been started again */
        end(m, MEMBER_EXIT_AGAIN, REASON_NEWER, r);
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
        m->to[r] = channel;
        m->present |= bit(r);
        gathering_look(m);
        return;
    }
    /* One who is in, and comes again, has lost what it had. */
    const bool was_in = is_in(m->roster.mask, r) && m->roster.nonce[r] == f->nonce && m->to[r] != channel;
    wait_add(m, channel, f);
    if (was_in && m->to[r] != MEMBER_NONE) {
        close_channel(m, m->to[r]);
        lose(m, bit(r));
    }
}

static void beat_take(struct member *m, uint32_t r, const struct member_frame *f)
{
    if (m->phase != MEMBER_RUNNING || f->generation != m->roster.generation || f->value < m->steps[r]) return;
    m->steps[r] = f->value;
    m->waits_of[r] = f->mask;
}

static void progress_look(struct member *m)
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
    /* Who is waited for and waits for nobody is stuck; else who has done least. */
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
        end(m, MEMBER_EXIT_AGAIN, REASON_FIRST_STUCK, 0);
        return;
    }
    m->progress_end_ns = NEVER;
    m->roster.barred |= stuck;
    lose(m, stuck);
}

static void first_frame(struct member *m, uint32_t channel, const struct member_frame *f)
{
    const uint32_t r = m->channel[channel].rank;
    if (f->kind == FRAME_HELLO && r != MEMBER_NONE) { /* once a channel */
        if (r != f->rank) channel_down(m, channel, MEMBER_NONE);
        return;
    }
    if (f->kind == FRAME_HELLO) {
        if (m->phase != MEMBER_ENDING) hello_take(m, channel, f);
        return;
    }
    const bool is_now = (f->generation == m->roster.generation && f->incarnation == m->roster.incarnation) ||
                        MEMBER_PLANTED(PLANT_OLD_FRAME);
    if (r == MEMBER_NONE || m->to[r] != channel) return; /* of one who waits */
    if (f->kind == FRAME_STOP) end(m, f->value, REASON_FINISHED, r);
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

/* --- others ------------------------------------------------------------------------------------ */

static void first_connect(struct member *m)
{
    put(m, OUTPUT_CONNECT)->rank = 0;
    m->connect_again_ns = NEVER;
}

/* Links to lower ranks are ours to begin, and higher ones begin theirs. */
static void mesh_connect(struct member *m)
{
    for (uint32_t r = 1; r < m->o.rank; r++)
        if (is_in(m->roster.mask, r) && m->to[r] == MEMBER_NONE) put(m, OUTPUT_CONNECT)->rank = r;
    m->connect_again_ns = m->now_ns + m->o.timeout_ns / 4;
}

static uint64_t mesh_missed(const struct member *m)
{
    uint64_t missed = 0;
    for (uint32_t r = 1; r < m->o.nodes; r++)
        if (r != m->o.rank && is_in(m->roster.mask, r) && m->to[r] == MEMBER_NONE) missed |= bit(r);
    return missed;
}

static void missed_tell(struct member *m)
{
    if (m->to[0] != MEMBER_NONE) send(m, m->to[0], FRAME_LOST)->mask = mesh_missed(m);
}

static void mesh_look(struct member *m)
{
    if (m->phase != MEMBER_MESHING || mesh_missed(m) != 0) return;
    m->phase = MEMBER_READY;
    m->connect_again_ns = NEVER;
    (void)send(m, m->to[0], FRAME_READY);
}

static void mesh_take(struct member *m, uint32_t channel, const struct member_frame *f)
{
    const uint32_t r = f->rank;
    struct member_channel *c = &m->channel[channel];
    if (channel == m->to[0] || (c->rank != MEMBER_NONE && c->rank != r)) {
        channel_down(m, channel, MEMBER_NONE);
        return;
    }
    if (f->incarnation != m->roster.incarnation || f->generation != m->roster.generation) {
        if (f->generation < m->roster.generation && f->incarnation <= m->roster.incarnation)
            channel_down(m, channel, MEMBER_NONE);
        else
            c->mesh = *f; /* its roster has come before ours */
        return;
    }
    if (r == 0 || r >= m->o.nodes || !is_in(m->roster.mask, r) || m->roster.nonce[r] != f->nonce) {
        channel_down(m, channel, MEMBER_NONE);
        return;
    }
    if (m->phase != MEMBER_MESHING) return;
    if (m->to[r] != MEMBER_NONE && m->to[r] != channel) close_channel(m, m->to[r]);
    c->rank = r;
    m->to[r] = channel;
    c->mesh.kind = FRAME_HELLO;
    if (!c->is_asked) (void)send(m, channel, FRAME_MESH);
    mesh_look(m);
}

static void roster_take(struct member *m, const struct member_frame *f)
{
    const struct member_roster *new = &f->roster;
    const bool is_older = new->incarnation < m->roster.incarnation ||
                          (new->incarnation == m->roster.incarnation &&new->generation <= m->roster.generation);
    const bool is_told_again = new->incarnation == m->roster.incarnation &&new->generation == m->roster.generation &&
                               (m->phase == MEMBER_JOINING || m->phase == MEMBER_WAITING);
    if (is_older && !is_told_again && !MEMBER_PLANTED(PLANT_OLD_FRAME)) return;
    const bool is_ours = is_in(new->mask, m->o.rank) && new->nonce[m->o.rank] == m->o.nonce;
    if (m->phase == MEMBER_RUNNING || !is_ours) {
        anew(m, is_ours ? new : NULL);
        return;
    }
    for (uint32_t r = 1; r < m->o.nodes; r++)
        if (r != m->o.rank) close_channel(m, m->to[r]);
    m->roster = *new;
    m->phase = MEMBER_MESHING;
    m->end_ns = NEVER;
    mesh_connect(m);
    for (uint32_t c = 0; c < MEMBER_CHANNELS_MAX; c++)
        if (m->channel[c].is_up && m->channel[c].mesh.kind == FRAME_MESH) {
            const struct member_frame mesh = m->channel[c].mesh;
            m->channel[c].mesh.kind = FRAME_HELLO;
            mesh_take(m, c, &mesh);
        }
    mesh_look(m);
}

static void other_frame(struct member *m, uint32_t channel, const struct member_frame *f)
{
    if (f->kind == FRAME_MESH) {
        mesh_take(m, channel, f);
        return;
    }
    if (channel != m->to[0]) return; /* beats of others are heard by their channel */
    if (f->incarnation < m->roster.incarnation && f->kind != FRAME_REFUSE) { /* a rank 0 that has slept */
        channel_down(m, channel, MEMBER_NONE);
        return;
    }
    const bool is_now = f->generation == m->roster.generation || MEMBER_PLANTED(PLANT_OLD_FRAME);
    switch (f->kind) {
    case FRAME_ROSTER: roster_take(m, f); break;
    case FRAME_WAIT:
        if (m->phase == MEMBER_JOINING) {
            m->phase = MEMBER_WAITING;
            m->end_ns = NEVER;
        }
        break;
    case FRAME_REFUSE: /* another process of this rank may be about to end */
        m->exit_reason = (enum member_reason)f->value;
        if (f->value != REASON_TWICE) leave(m, 1, m->exit_reason, 0);
        break;
    case FRAME_STOP: leave(m, f->value, REASON_FINISHED, 0); break;
    case FRAME_GO:
        if (!is_now || m->phase != MEMBER_READY) break;
        m->phase = MEMBER_RUNNING;
        put(m, OUTPUT_BEGIN)->frame.roster = m->roster;
        break;
    default: break;
    }
}

static void other_lost(struct member *m, uint32_t rank)
{
    if (rank == 0) {
        if (m->phase == MEMBER_JOINING) {
            m->connect_again_ns = m->now_ns + m->o.timeout_ns / 8;
            if (m->exit_reason == REASON_NONE) m->end_ns = m->now_ns + m->o.connect_ns;
        } else if (m->phase ==
                   MEMBER_RUNNING) { /* perhaps it is this node that was cut off: then another generation is there */
            anew(m, NULL);
        } else {
            m->phase = MEMBER_JOINING;
            m->end_ns = m->now_ns + m->o.connect_ns;
            m->connect_again_ns = m->now_ns + m->o.timeout_ns / 8;
        }
        return;
    }
    if (m->phase == MEMBER_READY) m->phase = MEMBER_MESHING;
    if (m->phase == MEMBER_MESHING) m->connect_again_ns = m->now_ns + m->o.timeout_ns / 8;
    if (m->phase == MEMBER_MESHING || m->phase == MEMBER_RUNNING) missed_tell(m);
}

/* --- events ------------------------------------------------------------------------------------ */

static void channel_down(struct member *m, uint32_t channel, uint32_t rank)
{
    if (channel == MEMBER_NONE) { /* a connection that did not come about */
        if (!is_first(m) && m->phase != MEMBER_WAITING && m->connect_again_ns == NEVER)
            m->connect_again_ns = m->now_ns + m->o.timeout_ns / 8;
        if (!is_first(m) && rank != 0 && m->phase == MEMBER_MESHING) missed_tell(m);
        return;
    }
    if (!m->channel[channel].is_up) return;
    const uint32_t r = m->channel[channel].rank;
    const bool is_used = r != MEMBER_NONE && m->to[r] == channel;
    close_channel(m, channel);
    if (!is_used) return;
    if (is_first(m))
        lose(m, bit(r));
    else
        other_lost(m, r);
}

static void channel_up(struct member *m, uint32_t channel, uint32_t rank)
{
    CHECK(channel < MEMBER_CHANNELS_MAX);
    m->channel[channel] = (struct member_channel){
        .is_up = true, .is_asked = rank != MEMBER_NONE, .rank = MEMBER_NONE, .heard_ns = m->now_ns};
    if (rank == MEMBER_NONE || is_first(m)) return;
    if (rank == 0) {
        if (m->phase != MEMBER_JOINING || m->to[0] != MEMBER_NONE) {
            close_channel(m, channel);
            return;
        }
        m->channel[channel].rank = 0;
        m->to[0] = channel;
        (void)send(m, channel, FRAME_HELLO);
    } else if (m->phase == MEMBER_MESHING) {
        (void)send(m, channel, FRAME_MESH);
    } else {
        close_channel(m, channel);
    }
}

static void beats_send(struct member *m)
{
    for (uint32_t c = 0; c < MEMBER_CHANNELS_MAX; c++)
        if (m->channel[c].is_up && m->channel[c].rank != MEMBER_NONE) {
            struct member_frame *f = send(m, c, FRAME_BEAT);
            f->value = m->step;
            f->mask = m->waits;
        }
    m->beat_ns = m->now_ns + m->o.timeout_ns / 4;
    if (MEMBER_PLANTED(PLANT_MISSED_TIMER) && m->phase == MEMBER_RUNNING) m->beat_ns = NEVER;
}

static void timer_look(struct member *m)
{
    if (m->now_ns >= m->beat_ns) beats_send(m);
    for (uint32_t c = 0; c < MEMBER_CHANNELS_MAX && m->phase != MEMBER_ENDED; c++)
        if (m->channel[c].is_up && m->now_ns - m->channel[c].heard_ns >= m->o.timeout_ns)
            channel_down(m, c, MEMBER_NONE);
    if (m->phase == MEMBER_ENDED) return;
    if (m->now_ns >= m->decide_ns) missed_decide(m);
    if (m->now_ns >= m->connect_again_ns) {
        m->connect_again_ns = NEVER;
        if (m->phase == MEMBER_JOINING && m->to[0] == MEMBER_NONE) first_connect(m);
        if (m->phase == MEMBER_MESHING) {
            mesh_connect(m);
            missed_tell(m);
        }
    }
    if (m->now_ns >= m->end_ns) {
        if (m->phase == MEMBER_GATHERING)
            gathering_look(m);
        else if (m->phase == MEMBER_MEETING)
            meeting_late(m);
        else if (m->phase == MEMBER_JOINING &&
                 m->to[0] != MEMBER_NONE) /* rank 0 is there, and says when it has waited enough */
            m->end_ns = m->now_ns + m->o.connect_ns;
        else if (m->phase == MEMBER_JOINING)
            leave(m, MEMBER_EXIT_AGAIN, m->exit_reason ? m->exit_reason : REASON_NO_FIRST, 0);
    }
    if (is_first(m) && m->phase == MEMBER_RUNNING) progress_look(m);
}

static void start(struct member *m)
{
    m->beat_ns = m->now_ns + m->o.timeout_ns / 4;
    if (!is_first(m)) {
        m->phase = MEMBER_JOINING;
        m->end_ns = m->now_ns + m->o.connect_ns;
        first_connect(m);
        return;
    }
    if (m->roster.generation) {
        m->phase = MEMBER_GATHERING;
        m->end_ns = m->now_ns + m->o.timeout_ns;
        gathering_look(m);
        return;
    }
    m->phase = MEMBER_CLAIMING;
    m->roster.incarnation = m->o.incarnation_last + 1;
    put(m, OUTPUT_CLAIM)->value = m->roster.incarnation;
    if (MEMBER_PLANTED(PLANT_CLAIM_EARLY)) m->phase = MEMBER_GATHERING, m->end_ns = m->now_ns + m->o.connect_ns;
}

static void claimed(struct member *m, bool is_ours)
{
    if (m->phase != MEMBER_CLAIMING) {
        if (!is_ours) end(m, MEMBER_EXIT_AGAIN, REASON_NEWER, 0);
        return;
    }
    if (!is_ours && !MEMBER_PLANTED(PLANT_TWO_FIRST)) {
        m->roster.incarnation++;
        put(m, OUTPUT_CLAIM)->value = m->roster.incarnation;
        return;
    }
    m->phase = MEMBER_GATHERING;
    m->end_ns = m->now_ns + m->o.connect_ns;
    gathering_look(m);
}

void member_open(struct member *m, const struct member_options *options)
{
    memset(m, 0, offsetof(struct member, output));
    m->output_count = 0;
    CHECK(options->nodes >= 1 && options->nodes <= MEMBER_NODES_MAX && options->rank < options->nodes);
    m->o = *options;
    m->roster = options->roster;
    if (is_first(m)) m->roster.nonce[0] = options->nonce;
    m->end_ns = m->beat_ns = m->decide_ns = m->progress_end_ns = m->connect_again_ns = NEVER;
    for (uint32_t r = 0; r < MEMBER_NODES_MAX; r++) m->to[r] = m->waiting_to[r] = MEMBER_NONE;
}

static void event_take(struct member *m, const struct member_event *e)
{
    switch (e->kind) {
    case EVENT_START: start(m); break;
    case EVENT_UP: channel_up(m, e->channel, e->rank); break;
    case EVENT_DOWN: channel_down(m, e->channel, e->rank); break;
    case EVENT_FRAME:
        if (!m->channel[e->channel].is_up) break;
        m->channel[e->channel].heard_ns = m->now_ns;
        if (is_first(m))
            first_frame(m, e->channel, e->frame);
        else
            other_frame(m, e->channel, e->frame);
        break;
    case EVENT_TIMER: timer_look(m); break;
    case EVENT_CLAIMED: claimed(m, e->value != 0); break;
    case EVENT_STEP:
        m->step = e->value;
        if (is_first(m) && m->phase == MEMBER_RUNNING) progress_look(m);
        break;
    case EVENT_WAITS: m->waits = e->mask; break;
    case EVENT_FINISH:
        if (is_first(m))
            end(m, e->value, REASON_FINISHED, 0);
        else if (m->to[0] != MEMBER_NONE)
            send(m, m->to[0], FRAME_STOP)->value = e->value;
        break;
    }
}

void member_step(struct member *m, const struct member_event *event, uint64_t now_ns)
{
    m->output_count = 0;
    m->now_ns = now_ns;
    if (m->phase == MEMBER_ENDED) return;
    event_take(m, event);
    if (m->phase == MEMBER_LEAVING) leaving_look(m);
    if (m->phase == MEMBER_ENDING) ending_look(m);
    if (m->phase == MEMBER_ENDED) return;
    uint64_t at_ns = m->beat_ns;
    const uint64_t ends[] = {m->end_ns, m->decide_ns, m->connect_again_ns, m->progress_end_ns};
    for (uint32_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (ends[i] < at_ns) at_ns = ends[i];
    put(m, OUTPUT_TIMER)->at_ns = at_ns;
}

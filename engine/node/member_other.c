/* A node that is not rank 0 joins, links to the others of the roster, begins when it is told,
 * and says whom it does not reach. */
#include "engine/node/member_internal.h"

void member_first_connect(struct member *m)
{
    put(m, OUTPUT_CONNECT)->rank = 0;
    m->connect_again_ns = NEVER;
}

/* This node begins links to lower ranks; higher ranks begin theirs. */
void member_mesh_connect(struct member *m)
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

void member_missed_tell(struct member *m)
{
    if (m->to[0] != MEMBER_NONE) frame_put(m, m->to[0], FRAME_LOST)->mask = mesh_missed(m);
}

static void ready(struct member *m)
{
    m->phase = MEMBER_READY;
    m->connect_again_ns = m->end_ns = NEVER;
    (void)frame_put(m, m->to[0], FRAME_READY);
}

static void mesh_look(struct member *m)
{
    if (m->phase == MEMBER_MESHING && mesh_missed(m) == 0) ready(m);
}

void member_mesh_late(struct member *m) { ready(m); }

static void mesh_take(struct member *m, uint32_t channel, const struct member_frame *f)
{
    const uint32_t r = f->rank;
    struct member_channel *c = &m->channel[channel];
    if (channel == m->to[0] || (c->rank != MEMBER_NONE && c->rank != r)) {
        member_channel_down(m, channel, MEMBER_NONE);
        return;
    }
    if (f->incarnation != m->roster.incarnation || f->generation != m->roster.generation) {
        if (f->generation < m->roster.generation && f->incarnation <= m->roster.incarnation)
            member_channel_down(m, channel, MEMBER_NONE);
        else
            c->mesh = *f; /* its roster has come before ours */
        return;
    }
    if (r == 0 || r >= m->o.nodes || !is_in(m->roster.mask, r) || m->roster.nonce[r] != f->nonce) {
        member_channel_down(m, channel, MEMBER_NONE);
        return;
    }
    if (m->phase != MEMBER_MESHING) return;
    if (m->to[r] != MEMBER_NONE && m->to[r] != channel) close_channel(m, m->to[r]);
    c->rank = r;
    m->to[r] = channel;
    c->mesh.kind = FRAME_HELLO;
    if (!c->is_asked) (void)frame_put(m, channel, FRAME_MESH);
    mesh_look(m);
}

static void roster_take(struct member *m, const struct member_frame *f)
{
    const struct member_roster *told = &f->roster;
    const bool is_older = told->incarnation < m->roster.incarnation ||
                          (told->incarnation == m->roster.incarnation && told->generation <= m->roster.generation);
    const bool is_told_again = told->incarnation == m->roster.incarnation && told->generation == m->roster.generation &&
                               (m->phase == MEMBER_JOINING || m->phase == MEMBER_WAITING);
    if (is_older && !is_told_again && !MEMBER_PLANTED(PLANT_OLD_FRAME)) return;
    const bool is_ours = is_in(told->mask, m->o.rank) && told->nonce[m->o.rank] == m->o.nonce;
    if (m->phase == MEMBER_RUNNING || !is_ours) {
        anew(m, is_ours ? told : NULL);
        return;
    }
    for (uint32_t r = 1; r < m->o.nodes; r++)
        if (r != m->o.rank) close_channel(m, m->to[r]);
    m->roster = *told;
    m->phase = MEMBER_MESHING;
    m->end_ns = m->o.is_partial ? m->now_ns + m->o.timeout_ns / 4 * 3 : NEVER;
    member_mesh_connect(m);
    for (uint32_t channel = 0; channel < MEMBER_CHANNELS_MAX; channel++)
        if (m->channel[channel].is_up && m->channel[channel].mesh.kind == FRAME_MESH) {
            const struct member_frame mesh = m->channel[channel].mesh;
            m->channel[channel].mesh.kind = FRAME_HELLO;
            mesh_take(m, channel, &mesh);
        }
    mesh_look(m);
}

void member_other_frame(struct member *m, uint32_t channel, const struct member_frame *f)
{
    if (f->kind == FRAME_MESH) {
        mesh_take(m, channel, f);
        return;
    }
    if (channel != m->to[0]) return; /* beats of others are heard by their channel */
    if (f->incarnation < m->roster.incarnation && f->kind != FRAME_REFUSE) { /* a rank 0 that has slept */
        member_channel_down(m, channel, MEMBER_NONE);
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

void member_other_lost(struct member *m, uint32_t rank)
{
    if (rank == 0) {
        if (m->phase == MEMBER_JOINING) {
            m->connect_again_ns = m->now_ns + m->o.timeout_ns / 64;
            if (m->exit_reason == REASON_NONE) m->end_ns = m->now_ns + m->o.connect_ns;
        } else if (m->phase ==
                   MEMBER_RUNNING) { /* perhaps it is this node that was cut off: then another generation is there */
            anew(m, NULL);
        } else {
            m->phase = MEMBER_JOINING;
            m->end_ns = m->now_ns + m->o.connect_ns;
            m->connect_again_ns = m->now_ns + m->o.timeout_ns / 64;
        }
        return;
    }
    if (m->phase == MEMBER_READY && !m->o.is_partial) m->phase = MEMBER_MESHING;
    if (m->phase == MEMBER_MESHING) m->connect_again_ns = m->now_ns + m->o.timeout_ns / 64;
    if (m->phase == MEMBER_MESHING || m->phase == MEMBER_RUNNING) member_missed_tell(m);
}

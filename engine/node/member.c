/* The machine of member.h: events, channels and timers. */
#include "engine/node/member_internal.h"

#include <stddef.h>
#include <string.h>

void member_channel_down(struct member *m, uint32_t channel, uint32_t rank)
{
    if (channel == MEMBER_NONE) { /* a connection that did not come about */
        const uint64_t again_ns = m->now_ns + m->o.timeout_ns / 64;
        if (!is_first(m) && m->phase != MEMBER_WAITING && again_ns < m->connect_again_ns)
            m->connect_again_ns = again_ns;
        if (!is_first(m) && rank != 0 && m->phase == MEMBER_MESHING) member_missed_tell(m);
        return;
    }
    if (!m->channel[channel].is_up) return;
    const uint32_t r = m->channel[channel].rank;
    const bool is_used = r != MEMBER_NONE && m->to[r] == channel;
    close_channel(m, channel);
    if (!is_used) return;
    if (is_first(m))
        member_lose(m, bit(r));
    else
        member_other_lost(m, r);
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
        frame_put(m, channel, FRAME_HELLO)->value = m->o.says;
    } else if (m->phase == MEMBER_MESHING) {
        (void)frame_put(m, channel, FRAME_MESH);
    } else {
        close_channel(m, channel);
    }
}

static void beats_send(struct member *m)
{
    for (uint32_t c = 0; c < MEMBER_CHANNELS_MAX; c++)
        if (m->channel[c].is_up && m->channel[c].rank != MEMBER_NONE) {
            struct member_frame *f = frame_put(m, c, FRAME_BEAT);
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
            member_channel_down(m, c, MEMBER_NONE);
    if (m->phase == MEMBER_ENDED) return;
    if (m->now_ns >= m->decide_ns) member_missed_decide(m);
    if (m->now_ns >= m->connect_again_ns) {
        m->connect_again_ns = NEVER;
        if (m->phase == MEMBER_JOINING && m->to[0] == MEMBER_NONE) member_first_connect(m);
        if (m->phase == MEMBER_MESHING) {
            member_mesh_connect(m);
            member_missed_tell(m);
        }
    }
    if (m->now_ns >= m->end_ns) {
        if (m->phase == MEMBER_GATHERING)
            member_gathering_look(m);
        else if (m->phase == MEMBER_MEETING)
            member_meeting_late(m);
        else if (m->phase == MEMBER_JOINING &&
                 m->to[0] != MEMBER_NONE) /* rank 0 is there, and says when it has waited enough */
            m->end_ns = m->now_ns + m->o.connect_ns;
        else if (m->phase == MEMBER_MESHING)
            member_mesh_late(m);
        else if (m->phase == MEMBER_JOINING)
            leave(m, MEMBER_EXIT_AGAIN, m->exit_reason ? m->exit_reason : REASON_NO_FIRST, 0);
    }
    if (is_first(m) && m->phase == MEMBER_RUNNING) member_progress_look(m);
}

static void start(struct member *m)
{
    m->beat_ns = m->now_ns + m->o.timeout_ns / 4;
    if (!is_first(m)) {
        m->phase = MEMBER_JOINING;
        m->end_ns = m->now_ns + m->o.connect_ns;
        member_first_connect(m);
        return;
    }
    if (m->roster.generation) {
        m->phase = MEMBER_GATHERING;
        m->end_ns = m->now_ns + m->o.timeout_ns;
        member_gathering_look(m);
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
        if (!is_ours) member_end(m, MEMBER_EXIT_AGAIN, REASON_NEWER, 0);
        return;
    }
    if (!is_ours && !MEMBER_PLANTED(PLANT_TWO_FIRST)) {
        m->roster.incarnation++;
        put(m, OUTPUT_CLAIM)->value = m->roster.incarnation;
        return;
    }
    m->phase = MEMBER_GATHERING;
    m->end_ns = m->now_ns + m->o.connect_ns;
    member_gathering_look(m);
}

void member_open(struct member *m, const struct member_options *options)
{
    memset(m, 0, offsetof(struct member, output));
    m->output_count = 0;
    CHECK(options->nodes >= 1 && options->nodes <= MEMBER_NODES_MAX && options->rank < options->nodes);
    m->o = *options;
    m->roster = options->roster;
    if (is_first(m)) m->roster.nonce[0] = options->nonce;
    if (is_first(m)) m->roster.says[0] = options->says;
    m->end_ns = m->beat_ns = m->decide_ns = m->progress_end_ns = m->connect_again_ns = NEVER;
    for (uint32_t r = 0; r < MEMBER_NODES_MAX; r++) m->to[r] = m->waiting_to[r] = MEMBER_NONE;
}

static void event_take(struct member *m, const struct member_event *e)
{
    switch (e->kind) {
    case EVENT_START: start(m); break;
    case EVENT_UP: channel_up(m, e->channel, e->rank); break;
    case EVENT_DOWN: member_channel_down(m, e->channel, e->rank); break;
    case EVENT_HEARD:
        if (m->channel[e->channel].is_up) m->channel[e->channel].heard_ns = m->now_ns;
        break;
    case EVENT_FRAME:
        if (!m->channel[e->channel].is_up) break;
        m->channel[e->channel].heard_ns = m->now_ns;
        if (is_first(m))
            member_first_frame(m, e->channel, e->frame);
        else
            member_other_frame(m, e->channel, e->frame);
        break;
    case EVENT_TIMER: timer_look(m); break;
    case EVENT_CLAIMED: claimed(m, e->value != 0); break;
    case EVENT_STEP:
        m->step = e->value;
        for (uint32_t r = 1; r < m->o.nodes && is_first(m); r++)
            if (is_in(e->mask, r) && m->steps[r] < e->value) m->steps[r] = e->value;
        if (is_first(m) && m->phase == MEMBER_RUNNING) member_progress_look(m);
        break;
    case EVENT_WAITS: m->waits = e->mask; break;
    case EVENT_REST:
        if (m->o.progress_ns) m->progress_end_ns = m->now_ns + m->o.progress_ns;
        break;
    case EVENT_FINISH:
        if (is_first(m))
            member_end(m, e->value, REASON_FINISHED, 0);
        else if (m->to[0] != MEMBER_NONE)
            frame_put(m, m->to[0], FRAME_STOP)->value = e->value;
        break;
    }
}

void member_step(struct member *m, const struct member_event *event, uint64_t now_ns)
{
    m->output_count = 0;
    m->now_ns = now_ns;
    if (m->phase == MEMBER_ENDED) return;
    event_take(m, event);
    if (m->phase == MEMBER_LEAVING) member_leaving_look(m);
    if (m->phase == MEMBER_ENDING) member_ending_look(m);
    if (m->phase == MEMBER_ENDED) return;
    uint64_t at_ns = m->beat_ns;
    const uint64_t ends[] = {m->end_ns, m->decide_ns, m->connect_again_ns, m->progress_end_ns};
    for (uint32_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (ends[i] < at_ns) at_ns = ends[i];
    put(m, OUTPUT_TIMER)->at_ns = at_ns;
}

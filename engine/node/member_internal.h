/* What the files of the machine share.
 *
 *     member.c         events, channels, timers
 *     member_first.c   rank 0: who is in, generation by generation
 *     member_other.c   the others: linked to rank 0, and to each other */
#ifndef HETERPS_ENGINE_NODE_MEMBER_INTERNAL_H
#define HETERPS_ENGINE_NODE_MEMBER_INTERNAL_H

#include "engine/base/status.h"
#include "engine/node/member.h"

/* For tests that plant bugs, which include these files. */
#ifndef MEMBER_PLANTED
#define MEMBER_PLANTED(bug) false
#endif

#define NEVER UINT64_MAX

static inline bool is_first(const struct member *m) { return m->o.rank == 0; }
static inline uint64_t bit(uint32_t rank) { return UINT64_C(1) << rank; }
static inline bool is_in(uint64_t mask, uint32_t rank) { return mask >> rank & 1; }
static inline uint32_t count_of(uint64_t mask) { return (uint32_t)__builtin_popcountll(mask); }

/* --- output ------------------------------------------------------------------------------------ */

static inline struct member_output *put(struct member *m, enum member_output_kind kind)
{
    CHECK(m->output_count < MEMBER_OUTPUTS_MAX);
    struct member_output *out = &m->output[m->output_count++];
    out->kind = kind;
    out->channel = out->rank = MEMBER_NONE;
    out->value = out->at_ns = 0;
    out->reason = REASON_NONE;
    return out;
}

static inline struct member_frame *frame_put(struct member *m, uint32_t channel, enum member_frame_kind kind)
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

static inline void close_channel(struct member *m, uint32_t channel)
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

static inline void leave(struct member *m, uint64_t code, enum member_reason reason, uint32_t rank)
{
    struct member_output *out = put(m, OUTPUT_EXIT);
    out->value = code;
    out->reason = reason;
    out->rank = rank;
    m->phase = MEMBER_ENDED;
}

static inline void anew(struct member *m, const struct member_roster *roster)
{
    static const struct member_roster none;
    struct member_output *out = put(m, OUTPUT_ANEW);
    out->frame.roster = roster ? *roster : none;
    out->frame.roster.incarnation =
        roster ? roster->incarnation : m->roster.incarnation; /* so that no older start is joined */
    m->phase = MEMBER_ENDED;
}

/* --- member.c ---------------------------------------------------------------------------------- */

/* A channel has ended, or is to end: does what follows from it. MEMBER_NONE: a
 * connection to `rank` did not come about. */
void member_channel_down(struct member *m, uint32_t channel, uint32_t rank);

/* --- member_first.c ---------------------------------------------------------------------------- */

/* Ends the job: tells all, and waits until they have gone, or for a while (member_ending_look). */
void member_end(struct member *m, uint64_t code, enum member_reason reason, uint32_t rank);
void member_ending_look(struct member *m);
/* A generation has been told. When all have gone to begin it, rank 0 goes, too. */
void member_leaving_look(struct member *m);
/* The ranks `lost` are out. */
void member_lose(struct member *m, uint64_t lost);
/* All ranks have had time to say whom they do not reach. */
void member_missed_decide(struct member *m);
/* Not all ranks have met in time. */
void member_meeting_late(struct member *m);
/* Whether all ranks are there, or the time to wait for them is up. */
void member_gathering_look(struct member *m);
/* Whether steps go on. */
void member_progress_look(struct member *m);
void member_first_frame(struct member *m, uint32_t channel, const struct member_frame *f);

/* --- member_other.c ---------------------------------------------------------------------------- */

void member_first_connect(struct member *m);
void member_mesh_connect(struct member *m);
/* Tells rank 0 who is not reached. */
void member_missed_tell(struct member *m);
/* Of a partial job: nodes that are not linked yet will not be. */
void member_mesh_late(struct member *m);
void member_other_frame(struct member *m, uint32_t channel, const struct member_frame *f);
/* The channel to a rank of the roster, or to rank 0, has ended. */
void member_other_lost(struct member *m, uint32_t rank);

#endif

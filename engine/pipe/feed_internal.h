/* Between the two sides of a feed: feed.c, which opens it and is the consumer's, and feed_thread.c.
 *
 * Three rings of numbers, each with a cell for every number there is, so a push always finds room:
 *
 *     free ──input──▶ thread ──input──▶ ready ──▶ consumer ──input──▶ free
 *     free_blocks ──step's rows──▶ thread, with a step's first input … consumer, with its last ──▶ free_blocks
 *
 * The thread sleeps at free_bell, which a team that it helps rings too; the consumer sleeps at its own bell.
 * While the thread runs, nothing is allocated and no lock is taken: files are opened, unpacked and shuffled
 * in memory that feed_open has taken. */
#ifndef HETERPS_ENGINE_PIPE_FEED_INTERNAL_H
#define HETERPS_ENGINE_PIPE_FEED_INTERNAL_H

#include <stdatomic.h>

#include "engine/device/cpu/team.h"
#include "engine/pipe/feed.h"
#include "engine/pipe/numberers.h"
#include "engine/pipe/row_gate.h"

#define NUMBER_NONE UINT32_MAX
#define STEP_NONE   UINT64_MAX

/* What the thread is doing, for a caller that wants it to end. A call of the source may wait for a pipe
 * to which nobody writes, and cannot be woken. A caller that gives up exchanges IN_SOURCE for
 * LEFT_BEHIND; everything else ends soon. */
enum phase { AT_WORK, IN_SOURCE, LEFT_BEHIND };

struct feed {
    /* set once */
    const struct graph *graph;
    struct model *model;
    struct batch_shape shape;
    struct example_shape example;
    uint32_t micro_first, micro_count; /* the consumer's, of a step's micro-batches */
    struct exchange *exchange;         /* with other nodes, or NULL */
    struct exchange_waves *waves;      /* likewise, of workers */
    uint32_t turn, turn_count;         /* the consumer's is step `turn` of every turn_count */
    bool training;
    bool is_by_step;
    bool is_told;   /* node 0 tells the steps: the consumer's node has no lanes */
    bool all_lanes; /* the consumer gets other nodes' lanes, too, and their rows */
    bool sweeps;    /* at ends of steps rows die, or are too many */
    uint64_t epochs, steps_max;
    feed_looker *look; /* or NULL */
    void *look_context;
    struct progress from;
    struct reader *source;
    struct arena arena;
    struct input *inputs;
    uint32_t input_count;
    struct numberers *numberers; /* or NULL */
    struct numberers_options numbering;
    const int *processors; /* the caller's */
    uint32_t processor_count;
    struct step_rows *steps; /* [steps_ahead, table_count]: blocks of rows, a step each               */
    uint32_t steps_ahead;
    struct ring ready, free, free_blocks;
    struct bell *ready_bell; /* the consumer's */
    struct bell own_bell;    /* rung where the consumer has no bell */
    struct bell free_bell;   /* the thread's */
    pthread_t thread;
    bool is_started, is_behind; /* is_behind: it was left, with all memory */
    /* the thread's */
    struct row_numbers *numbers; /* [table_count]                                                 */
    uint32_t held_input;         /* taken and not used, or NUMBER_NONE                            */
    /* [input_count]: inputs that are read and whose rows are not found yet, entry n at n % input_count */
    uint32_t *read;
    uint64_t read_begin, read_end;
    /* of one of several nodes */
    struct asked_step *asked;        /* [steps_ahead], one a block; NULL: the rows are found here        */
    struct key_numbers *key_numbers; /* [table_count]                                                   */
    struct exchange_look *looks;     /* [input_count], likewise where rows are only read                 */
    uint32_t *step_inputs;           /* [step_input_count]: of the step being read                      */
    uint32_t step_input_count;
    /* [steps_ahead], training: the gate's number of the step that a block is out with, or STEP_NONE */
    uint64_t *block_step;
    uint32_t *spare; /* [spare_count]: blocks that have come back */
    uint32_t spare_count;
    struct row_gate gate;
    bool is_left; /* the thread was left: everything but the feed's own memory may be gone */
    uint64_t example_count, read_ns, prepare_ns, wait_ns;
    bool is_away;                                                        /* it helps no team of two */
    uint64_t busy_seen_ns, busy_recent_ns, wait_seen_ns, wait_recent_ns; /* away_decide's */
    /* written by the thread before shared_is_done, read after it */
    struct failure result;
    uint64_t cut_step; /* its data cannot be read, so nobody asks for its rows; or STEP_NONE */
    /* seen by all */
    _Atomic uint64_t shared_bytes, shared_bad, shared_cut, shared_unknown, shared_examples, shared_read_ns,
        shared_prepare_ns, shared_wait_ns;
    _Atomic bool shared_is_done;        /* the thread has ended                                       */
    _Atomic bool shared_is_interrupted; /* it should end                                              */
    _Atomic uint32_t shared_phase;
    _Atomic uint64_t shared_read;  /* steps below it are read to their ends */
    _Atomic uint64_t shared_swept; /* steps below it have been swept, if they had to be                 */
    /* Odd while the thread works towards the next input, also while it waits for a free one or has
     * ended; changes with every input. */
    _Atomic uint32_t shared_turn;
    _Atomic(struct team *) shared_team; /* the team that the thread helps, or NULL                      */
    _Atomic bool shared_is_helping;     /* the thread may be in it                                      */
    _Atomic bool shared_spins;          /* members of the team spin                                     */
    _Atomic bool shared_is_wanted;      /* the consumer's last question found nothing                        */
    uint32_t turn_seen;                 /* feed_wake's: shared_turn at its last call                          */
};

static inline bool feed_is_interrupted(const struct feed *feed)
{
    /* Acquire pairs with the release in feed_interrupt(). */
    return atomic_load_explicit(&feed->shared_is_interrupted, memory_order_acquire);
}

/* Whether the data of training is not read here, but told by node 0. */
static inline bool feed_is_told(const struct feed_options *o) { return o->training && !exchange_computes(o->exchange); }

/* The thread; of the feed. */
void *feed_main(void *feed);
/* Does what the team has to do just now, if there is a team; returns whether there was anything. */
bool feed_team_look(void *feed);

#endif

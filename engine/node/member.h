/* Who is in: a node's part in the membership of a training over several nodes, as a pure state machine. It
 * sees links, frames and the clock only as events, and acts only by what it puts out, so that the same code
 * runs over sockets and under a simulator with seeds.
 *
 *     rank 0   CLAIMING ──▶ GATHERING ──▶ MEETING ──▶ RUNNING ──▶ LEAVING ──▶ started anew     any ──▶ ENDING
 *              the number   hellos of     all are     steps       a loss: the next generation is told,
 *              is durable   all           linked                  all begin again from the last save
 *     others   JOINING ──▶ MESHING ──▶ READY ──▶ RUNNING ──▶ started anew
 *              WAITING: not in the present generation; may be in the next
 *
 * Rank 0 alone numbers generations, and says who is in. After a loss (a link that ends, silence, two
 * nodes that do not reach each other, no progress) the next generation has the survivors and the nodes
 * that wait. A node that has begun starts anew by exec, with the roster; another goes on in place. Three
 * losses without a step between, fewer than `min` nodes, or no rank 0: exit 75. Where nodes do not reach
 * each other, the fewest leave that must. They are in again only where `min` needs them; else what
 * separates them would do so for ever.
 *
 * The number of a job's start, its incarnation, is greater than that of any start before. Rank 0 draws it,
 * and has it claimed before anybody hears of it. A real node draws it from its clock, and claims it nowhere;
 * under the simulator it has to be durable in storage that all starts share. */
#ifndef HETERPS_ENGINE_NODE_MEMBER_H
#define HETERPS_ENGINE_NODE_MEMBER_H

#include <stdbool.h>
#include <stdint.h>

#define MEMBER_NODES_MAX    64u
#define MEMBER_CHANNELS_MAX 256u
#define MEMBER_OUTPUTS_MAX  1024u
#define MEMBER_NONE         UINT32_MAX
#define MEMBER_LOSSES_MAX   3u
#define MEMBER_EXIT_AGAIN   75

/* What a start anew gets; on rank 0 with its counts. */
struct member_roster {
    uint64_t incarnation, generation; /* from 1; 0: none                */
    uint64_t mask;                    /* bit r: rank r is in            */
    uint64_t nonce[MEMBER_NODES_MAX]; /* which process has the rank     */
    uint64_t says[MEMBER_NODES_MAX];  /* what it says of itself         */
    uint64_t barred;                  /* ranks that others do not reach */
    uint32_t losses;                  /* without a step between         */
};

struct member_options {
    uint32_t rank, nodes, min;   /* nodes: 1 .. MEMBER_NODES_MAX; min: fewer do not go on, 1 .. nodes */
    uint64_t nonce;              /* random, of this process, for its life                             */
    uint64_t facts;              /* hash of all that nodes must have in common                        */
    uint64_t says;               /* of this node, for all (engine/node/division.h)                    */
    uint64_t timeout_ns;         /* of silence                                                        */
    uint64_t connect_ns;         /* until nodes have found each other                                 */
    uint64_t progress_ns;        /* without a step; 0: no bound                                       */
    uint64_t incarnation_last;   /* of rank 0: the greatest that is claimed                           */
    struct member_roster roster; /* of a start anew; generation 0: the first start, or one that waits */
    /* A job that looks at links, on all nodes: two nodes that do not reach each other are both in. */
    bool is_partial;
};

enum member_frame_kind {
    FRAME_HELLO,  /* to rank 0: incarnation and generation (0: none) of its roster, nonce, facts; value: its words */
    FRAME_WAIT,   /* not in this generation                                                                        */
    FRAME_REFUSE, /* never in; value: enum member_reason                                                           */
    FRAME_ROSTER, /* roster                                                                                        */
    FRAME_MESH,   /* between nodes other than rank 0: who this is                                                  */
    FRAME_READY,  /* to rank 0: linked to all                                                                      */
    FRAME_GO,     /* all are linked: steps begin                                                                   */
    FRAME_BEAT,   /* alive; to rank 0: value: steps that are done, mask: whom it waits for                         */
    FRAME_LOST,   /* to rank 0: mask: who is not reached                                                           */
    FRAME_STOP    /* value: exit status                                                                            */
};
struct member_frame {
    enum member_frame_kind kind;
    uint32_t rank; /* of the sender */
    uint64_t incarnation, generation, nonce, facts, value, mask;
    struct member_roster roster; /* of FRAME_ROSTER */
};

enum member_event_kind {
    EVENT_START, /* once, first                                                            */
    EVENT_UP,    /* channel; rank: to which it was asked for; MEMBER_NONE: it was accepted */
    EVENT_DOWN,  /* channel; or MEMBER_NONE and rank: a connection that did not come about */
    EVENT_HEARD, /* channel: bytes came there that are no frame, or wait for this node     */
    EVENT_FRAME, /* channel, frame                                                         */
    EVENT_TIMER,
    /* value: whether the incarnation is ours; false: somebody has it, or, later, a save finds a greater one
     * claimed, so that nothing that is saved here will ever be read */
    EVENT_CLAIMED,
    EVENT_STEP,  /* value: steps that are done here, and by the ranks of mask               */
    EVENT_WAITS, /* mask: whom the step waits for                                           */
    EVENT_REST,  /* on rank 0: no step is to be run now                                     */
    EVENT_FINISH /* value: the exit status: complete (rank 0), failed, or stopped and saved */
};
struct member_event {
    enum member_event_kind kind;
    uint32_t channel, rank;
    uint64_t value, mask;
    const struct member_frame *frame;
};

enum member_reason {
    REASON_NONE,
    REASON_FINISHED,
    REASON_FACTS,      /* the node `rank` differs                                  */
    REASON_TWICE,      /* two processes have this rank                             */
    REASON_TOO_FEW,    /* fewer than min are left                                  */
    REASON_LOSSES,     /* three, without a step                                    */
    REASON_NO_FIRST,   /* rank 0 is not found, or was lost                         */
    REASON_NEWER,      /* another start of the job has a greater number            */
    REASON_FIRST_STUCK /* rank 0 itself makes no progress                          */
};

enum member_output_kind {
    OUTPUT_CONNECT, /* to rank                                                     */
    OUTPUT_CLOSE,   /* channel: nothing more of it is heard                        */
    OUTPUT_SEND,    /* channel, frame                                              */
    OUTPUT_TIMER,   /* at_ns: in place of the one before                           */
    OUTPUT_CLAIM,   /* value: incarnation, to be made durable if nobody has it     */
    OUTPUT_BEGIN,   /* roster: steps begin                                         */
    OUTPUT_ANEW,    /* roster, perhaps of generation 0: exec; this machine is done */
    OUTPUT_EXIT     /* value: status; reason, rank                                 */
};
struct member_output {
    enum member_output_kind kind;
    uint32_t channel, rank;
    uint64_t value, at_ns;
    enum member_reason reason;
    struct member_frame frame; /* of OUTPUT_SEND; of OUTPUT_BEGIN and OUTPUT_ANEW its roster alone */
};

enum member_phase {
    MEMBER_CLAIMING,
    MEMBER_GATHERING,
    MEMBER_MEETING,
    MEMBER_JOINING,
    MEMBER_WAITING,
    MEMBER_MESHING,
    MEMBER_READY,
    MEMBER_RUNNING,
    MEMBER_LEAVING,
    MEMBER_ENDING,
    MEMBER_ENDED
};

struct member_channel {
    bool is_up, is_asked; /* is_asked: by us */
    uint32_t rank;        /* MEMBER_NONE: not known yet */
    uint64_t heard_ns;
    struct member_frame mesh; /* a frame that came before our roster; kind FRAME_MESH: there is one */
};

struct member {
    struct member_options o;
    enum member_phase phase;
    struct member_roster roster;
    struct member_channel channel[MEMBER_CHANNELS_MAX];
    uint32_t to[MEMBER_NODES_MAX]; /* channel of a rank of the roster, or of one that has said hello; MEMBER_NONE */
    uint64_t now_ns, end_ns, beat_ns, decide_ns, progress_end_ns, connect_again_ns; /* UINT64_MAX: not awaited */
    uint64_t step, waits;                                                           /* of this node */
    int exit_status;
    enum member_reason exit_reason;
    uint32_t exit_rank;
    /* of rank 0 */
    uint64_t leaving;                                  /* ranks that start anew before this one does */
    uint64_t present, ready;                           /* of the generation                          */
    uint64_t waiting, waiting_nonce[MEMBER_NODES_MAX]; /* for the next                               */
    uint64_t waiting_says[MEMBER_NODES_MAX];
    uint32_t waiting_to[MEMBER_NODES_MAX]; /* their channels          */
    uint64_t missed[MEMBER_NODES_MAX];     /* whom a rank does not reach */
    uint64_t steps[MEMBER_NODES_MAX], waits_of[MEMBER_NODES_MAX];
    uint64_t stuck; /* ranks that were lost for want of progress */
    uint64_t step_least;
    /* put out by the last member_step, in this order */
    struct member_output output[MEMBER_OUTPUTS_MAX];
    uint32_t output_count;
};

void member_open(struct member *m, const struct member_options *options);
/* Takes an event at now_ns, which never goes back, and puts out what is to be done. After OUTPUT_ANEW or
 * OUTPUT_EXIT nothing more is put out. */
void member_step(struct member *m, const struct member_event *event, uint64_t now_ns);

#endif

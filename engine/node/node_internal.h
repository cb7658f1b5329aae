/* What the files of a node share.
 *
 *     node.c          opening and closing; what the main thread asks
 *     node_thread.c   the thread: events of links, asks of the main thread, time
 *     node_member.c   membership: its frames, what it puts out, and in which words a node ends
 *     node_ask.c      what the main thread asks for
 *     probe.c         how links are, for who looks at a cluster */
#ifndef HETERPS_ENGINE_NODE_NODE_INTERNAL_H
#define HETERPS_ENGINE_NODE_NODE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/base/bell.h"
#include "engine/node/member_frame.h"
#include "engine/node/node.h"
#include "engine/node/probe.h"
#include "engine/node/reduce.h"
#include "engine/node/stages.h"
#include "io/net/link.h"

/* Kinds of messages, behind those of the exchange. */
enum node_kind {
    KIND_FRAME = 32, /* of membership                                                   */
    KIND_FACTS,      /* a text, before a hello                                          */
    KIND_WHY,        /* a text, before a frame that ends something                      */
    KIND_GIVEN,      /* of main threads, where there is no exchange                     */
    KIND_HERE,       /* before a hello; tag: the port where this node listens           */
    KIND_PLACES,     /* before a roster: where others listen, struct node_there each    */
    KIND_ECHO,       /* to be answered at once …                                        */
    KIND_ECHOED,     /* … by this; tag: the time there                                  */
    KIND_SWAP        /* of node_swap                                                    */
};
enum node_cookie { COOKIE_REDUCE, COOKIE_STREAM, COOKIE_GIVEN, COOKIE_FACTS, COOKIE_SWAP, COOKIE_LETTER };

#define LETTER_BYTES 1024u
#define LETTERS      512u
#define WHY_BYTES    LETTER_BYTES
#define FOLLOW_MAX   128u
#define EVENTS_MAX   64u
#define INDEX_NONE   UINT32_MAX

/* Where a node listens; both ends are of one version of the program, as facts say. */
struct node_there {
    uint32_t rank;
    struct address address;
};

/* A small message on its way. */
struct node_letter {
    bool is_used;
    uint32_t link;
    uint8_t bytes[LETTER_BYTES];
};

struct node_link {
    enum { NODE_LINK_FREE, NODE_LINK_ASKED, NODE_LINK_UP, NODE_LINK_CLOSING } state;
    uint32_t rank;                   /* to which it was asked for, or MEMBER_NONE             */
    uint32_t index;                  /* of the node of this generation, or INDEX_NONE         */
    bool is_waiting;                 /* a message that comes has no place yet                 */
    struct link_event waiting;       /* this message                                          */
    uint16_t port;                   /* where it listens, if it has said so                   */
    uint32_t letters;                /* that are not sent yet                                 */
    uint64_t close_end_ns;           /* closing: what is not sent by then is dropped          */
    uint64_t heard_bytes;            /* at the last look                                      */
    uint8_t in[LETTER_BYTES];        /* a frame, or a text                                    */
    void *drain;                     /* of a failed node: where unwanted messages go, or NULL */
    char refusal[FACTS_WORDS_BYTES]; /* how its facts differ, in its words; "": they do not   */
    char warning[FACTS_WORDS_BYTES]; /* the same in this node's words                         */
};

enum node_state { STATE_MEETING, STATE_RUNNING, STATE_FAILED, STATE_OVER };
enum node_ask { ASK_NONE, ASK_LISTEN, ASK_BEGIN, ASK_GIVE, ASK_TAKE, ASK_ECHO, ASK_SWAP };

/* Of probe.c: the thread's while an echo or a swap is asked for, else the main thread's. */
struct node_probing {
    struct probe_echo *echo; /* [echo_count]: that are to come */
    uint32_t echo_count;
    uint64_t begin_ns, begin_real_ns; /* of the one that is under way        */
    uint64_t out_left, in_left;
    uint32_t under_way; /* messages of a swap */
    /* by rank; set before STATE_RUNNING, and never again */
    bool has_path[MEMBER_NODES_MAX];
    struct link_path path[MEMBER_NODES_MAX];
    char why[MEMBER_NODES_MAX][WHY_BYTES];
};

struct node {
    struct post post; /* first: a struct post * is a struct node * */
    struct node_options o;
    struct arena arena;
    struct address address[MEMBER_NODES_MAX]; /* where each listens, as far as it is known */
    struct links *links;
    struct member *member;
    struct node_link *link; /* [link_count] */
    uint32_t link_count;
    bool is_dead[MEMBER_CHANNELS_MAX]; /* closed in this turn: its other events are dropped */
    bool has_waiting;                  /* a message waits for its place                     */
    struct node_letter *letters;       /* [LETTERS]                                         */
    char *facts_in;                    /* [FACTS_BYTES_MAX] of node 0                       */
    pthread_t thread;
    bool is_started;
    /* the generation: set by the thread before STATE_RUNNING, and never again */
    uint32_t index, count;
    uint32_t rank_of[MEMBER_NODES_MAX], link_of[MEMBER_NODES_MAX];
    uint64_t says[MEMBER_NODES_MAX];      /* of themselves                      */
    struct division division;             /* the main thread's, of node_divide  */
    uint32_t bandwidth[MEMBER_NODES_MAX]; /* likewise, if has_bandwidth */
    bool has_bandwidth;
    struct exchange_stages stages; /* likewise, of a plan                */
    struct reduce *reduce;         /* the main thread's until ASK_LISTEN */
    /* the thread's */
    struct link_event events[EVENTS_MAX];
    struct member_event follow[FOLLOW_MAX]; /* events that membership's outputs cause */
    uint32_t follow_count;
    uint32_t facts_link; /* whose facts are coming, or MEMBER_NONE */
    uint32_t refused;    /* times in a row that rank 0 has refused a connection */
    uint64_t timer_ns, tick_ns, notice_ns;
    uint64_t begin_step; /* the first step, set by the main thread */
    bool listens, has_begun, is_timer, is_stuck_noted;
    char why[WHY_BYTES];         /* what another node, or this one, says before an end */
    char lost[WHY_BYTES];        /* the last node that was lost, and how               */
    char connect_why[WHY_BYTES]; /* the last connection that did not come about        */
    /* asks of the main thread: its fields are set before shared_ask */
    struct {
        uint32_t index;
        const void *from;
        void *to;
        uint64_t bytes;
        bool is_under_way;
    } ask;
    _Atomic uint32_t shared_ask; /* the thread makes it ASK_NONE when it is done */
    struct node_probing probing;
    char finish_why[WHY_BYTES];
    _Atomic uint32_t shared_finish; /* exit status + 1: the main thread is done */
    _Atomic uint32_t shared_state;
    _Atomic uint64_t shared_waits; /* a bit a rank: for whom the step has waited at the last look */
    struct bell bell;              /* of the main thread */
    _Atomic bool shared_leave;     /* nobody wakes the thread any more */
    struct bell leave_bell;        /* of the thread, then */
    struct failure result;         /* set once, before STATE_FAILED or STATE_OVER */
};

static inline bool node_is_first(const struct node *n) { return n->o.place->rank == 0; }
static inline enum node_state node_state(const struct node *n)
{
    /* Acquire pairs with node_state_set(). */
    return (enum node_state)atomic_load_explicit(&n->shared_state, memory_order_acquire);
}
static inline void node_state_set(struct node *n, enum node_state state)
{
    atomic_store_explicit(&n->shared_state, state, memory_order_release);
    bell_ring(&n->bell);
}
static inline status node_job_ended(void)
{
    return status_fail(ST_PEER_LOST, __FILE__, __LINE__, "the job has ended while this node was at work");
}
/* "node 2 at 10.0.0.7:4711" */
#define PLACE_TEXT_BYTES (ADDRESS_TEXT_BYTES + 24u)
const char *node_place_text(const struct node *n, uint32_t rank, char text[PLACE_TEXT_BYTES]);

/* --- node.c -------------------------------------------------------------------------------------- */

/* By the main thread: makes the node's thread do what `ask` and `probing` say. */
MUST_USE status node_asked(struct node *n, enum node_ask what);

/* --- node_thread.c ----------------------------------------------------------------------------- */

void *node_main(void *node);
/* Nothing more is computed; the first failure counts. */
void node_fail(struct node *n, status failure);
/* The same for a failure of this node's own, of which the others hear. */
void node_break(struct node *n, status failure);
/* Sends a small message; drops it if the link is not up, or there is no room. */
void node_letter_send(struct node *n, uint32_t link, enum node_kind kind, uint64_t tag, const void *bytes,
                      size_t count);
void node_link_close(struct node *n, uint32_t link);

/* --- node_member.c ------------------------------------------------------------------------------ */

/* Gives the machine an event, and does what it puts out. */
void node_member_tell(struct node *n, struct member_event event);
/* A frame has come, or facts, or words. */
void node_frame_take(struct node *n, uint32_t link, uint32_t bytes);
void node_facts_take(struct node *n, uint32_t link, uint32_t bytes);
void node_why_take(struct node *n, uint32_t link, uint32_t bytes);
/* Whether a loss now is why this node ends: a generation's first loss is; nodes that end
 * for it close their links, too. */
bool node_loss_is_news(const struct node *n);
/* Takes node 0's word where others listen. */
void node_places_take(struct node *n, uint32_t link, uint32_t bytes);
/* Logs for whom this node waits. */
void node_notice(struct node *n);

/* --- node_ask.c --------------------------------------------------------------------------------- */

/* Look whether what the main thread asks for can be done; take a message if it waits for
 * this; tell it that all is done. */
void node_ask_look(struct node *n);
bool node_given_arrives(struct node *n, uint32_t link, const struct link_event *event);
void node_ask_done(struct node *n);

/* --- probe.c ------------------------------------------------------------------------------------ */

/* ASK_ECHO or ASK_SWAP. */
void node_probe_begin(struct node *n, enum node_ask ask);
void node_echo_take(struct node *n, const struct link_event *event);
void node_echoed_take(struct node *n, const struct link_event *event);
bool node_swap_arrives(struct node *n, const struct link_event *event);
void node_swap_arrived(struct node *n, const struct link_event *event);
void node_swap_sent(struct node *n, const struct link_event *event);
/* Of a partial job: note why there is no link to a rank, and, when the job begins, what links there are. */
void node_probe_why(struct node *n, uint32_t rank, const char *why);
void node_probe_paths(struct node *n);

#endif

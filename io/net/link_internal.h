/* What the files of links share: the two directions of a link, and its life.
 *
 *     link.c           lives: listen, connect, greet, lose, close; events; the loop
 *     link_send.c      queue to vectors
 *     link_receive.c   vectors to memory */
#ifndef HETERPS_IO_NET_LINK_INTERNAL_H
#define HETERPS_IO_NET_LINK_INTERNAL_H

#include <stdatomic.h>
#include <sys/socket.h>

#include "io/net/frame.h"
#include "io/net/link.h"
#include "io/net/secure.h"
#include "io/uring.h"

/* Of a send or a receive: bytes that have just been moved are checked while they lie
 * in the second-level cache. */
#define BATCH_BYTES  (256u << 10)
#define STAGE_BYTES  4096u /* of a receive that may bring a header */
#define VEC_MAX      48u
#define SEALED_BYTES (132u << 10) /* of a sealed send: two pieces, and some headers */
#define SLOTS        32u          /* checks of a send or a receive: a power of two */
#define WHY_BYTES    320u

enum link_state {
    LINK_IS_FREE,
    LINK_IS_CONNECTING,
    LINK_IS_GREETING, /* waits for the other end's greeting */
    LINK_IS_OPEN,
    LINK_IS_LOST /* until link_close */
};

/* A check behind its header, if it has one: as they lie on the wire. */
struct slot {
    uint8_t header[FRAME_HEADER_BYTES];
    uint8_t check[FRAME_CHECK_MAX];
};

struct queued {
    struct frame_header header;
    struct iovec part[LINK_PARTS_MAX];
    uint32_t part_count;
    uint64_t cookie;
    uint64_t wire_bytes;  /* header, payload and checks */
    uint64_t check_first; /* number of the header's check; pieces follow */
    uint64_t made_count;  /* checks that are in their slots, or were */
};

struct sender {
    bool is_busy; /* a request is in flight */
    struct msghdr message;
    struct iovec vec[VEC_MAX];
    /* The greeting, and the confirming message of a sealed link's initiator: sent before all messages. */
    uint8_t greeting[FRAME_GREETING_BYTES + FRAME_HEADER_BYTES + FRAME_CHECK_MAX];
    uint32_t greeting_begin, greeting_end;
    struct queued *queue; /* [queued_max], a ring */
    uint32_t head, count;
    uint64_t at;             /* wire bytes of the first message that are sent */
    uint64_t number;         /* number of the next message's first check */
    struct slot slot[SLOTS]; /* of a plain link */
    /* of a sealed link */
    struct secure_cipher cipher;
    uint8_t *sealed; /* [SEALED_BYTES]: sealed bytes that are not sent yet */
    uint32_t sealed_begin, sealed_end;
    uint64_t sealed_number; /* checks below this number have been sealed */
};

enum receive_phase {
    RECEIVE_GREETING,
    RECEIVE_CONFIRM,
    RECEIVE_HEADER,
    RECEIVE_PLACE, /* waits for link_receive */
    RECEIVE_BODY
};
struct receiver {
    bool is_busy, is_direct; /* is_direct: the request in flight goes to the payload's place, not to stage */
    bool is_told;            /* an event of this direction waits to be taken: nothing further is looked at before */
    enum receive_phase phase;
    struct msghdr message;
    struct iovec vec[VEC_MAX];
    uint64_t moved_bytes;
    uint32_t stage_begin, stage_end;
    struct frame_header header;
    struct iovec part[LINK_PARTS_MAX];
    uint32_t part_count;
    uint64_t at;     /* bytes of the body, with checks, that have come */
    uint64_t number; /* number of the body's first check, or of the next header's */
    struct slot slot[SLOTS];
    uint8_t stage[STAGE_BYTES];
    struct secure_cipher cipher;
};

struct link {
    enum link_state state;
    bool is_incoming, is_awaiting; /* is_awaiting: the request of LINK_IS_CONNECTING is in flight */
    bool is_late;                  /* the reason why it is lost                                   */
    /* lost before it was open, so the caller never sees it: freed when its requests are done */
    bool is_unseen;
    int fd;
    struct address peer;
    uint64_t end_ns; /* of connecting and greeting */
    struct sender sender;
    struct receiver receiver;
    struct secure_handshake handshake;
    status code;
    char why[WHY_BYTES];
};

struct listener {
    int fd;
    bool is_awaiting;
    uint64_t rest_end_ns; /* until then nobody is accepted; 0: accepts at once */
};

struct links {
    struct links_options o;
    struct uring *uring;
    frame_check *check;
    uint32_t check_bytes;
    bool is_sealed;
    uint8_t *piece; /* [FRAME_PIECE_BYTES], if sealed: for a piece that lies in several vectors */
    /* The first bytes of points in others' greetings: recent_count so far, of which the last are kept. */
    uint64_t recent[LINK_RECENT], recent_count;
    struct link *link;           /* [o.link_count] */
    struct uring_request *ready; /* [2 * o.link_count + LINK_LISTENERS_MAX] */
    struct uring_done *done;     /* the same */
    struct link_event *event;    /* [event_max], a ring */
    uint32_t event_head, event_count, event_max;
    uint64_t next_end_ns; /* the first of the links' end_ns and listeners' rests, or a moment before */
    struct listener listener[LINK_LISTENERS_MAX];
    uint32_t listener_count;
    int wake_fd; /* an eventfd(2) */
    bool is_awaiting_wake, is_woken;
    _Atomic bool shared_is_rung; /* links_wake has written, and nobody has read it yet */
    struct link_counts counts;
};

/* Loses the link, once: code and reason. After it, only its requests are still under way. */
void link_lose(struct links *all, struct link *l, status code, const char *format, ...) PRINTF_LIKE(4, 5);
void link_tell(struct links *all, struct link *l, const struct link_event *event);
/* The whole greeting has come: goes on, or loses the link. */
void link_greeted(struct links *all, struct link *l, const uint8_t greeting[FRAME_GREETING_BYTES]);
/* The other end has proved who it is. */
void link_opened(struct links *all, struct link *l);

/* Whether there is something to send; if so, prepares the request. */
bool sender_prepare(struct links *all, struct link *l, struct uring_request *request);
/* Notes bytes that have gone. */
void sender_moved(struct links *all, struct link *l, uint64_t bytes);
/* Looks at the bytes that have come, and prepares the request for more; false: no more are wanted now. */
bool receiver_prepare(struct links *all, struct link *l, struct uring_request *request);
void receiver_moved(struct links *all, struct link *l, uint64_t bytes);
/* Where receiving breaks off, or nothing: " within a message of kind 3, after 100 of its 4120 bytes". */
const char *receiver_where(const struct links *all, const struct link *l, char *text, size_t bytes);

#endif

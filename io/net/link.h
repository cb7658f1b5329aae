/* Links: TCP connections to other nodes that carry messages (frame.h), all driven by one thread.
 *
 *     link_send ──▶ queue ──▶ sendmsg, up to 256 KiB of one or several messages, from the sender's memory
 *     links_wait ──▶ LINK_ARRIVES: kind, tag, bytes ──▶ link_receive: where to ──▶ recvmsg to there ──▶ LINK_ARRIVED
 *
 * Sends and receives are requests of io/uring.h: io_uring, or poll(2) where it is refused. A payload goes
 * from the sender's vectors to the receiver's without a copy of ours, with two exceptions. The first 4 KiB of
 * a message may come together with its header. A sealed payload (secure.h) is encrypted into a buffer of its
 * link, and decrypted where it arrives. Back pressure is TCP's: a link whose message has no place yet is not
 * read from, and the other links go on.
 *
 * A link is a number below link_count, from its first event, or from link_connect, until link_close. Whoever
 * connects in vain, or with garbage, or too slowly, is counted (struct link_counts) and never seen. All
 * memory is taken at open; nothing is allocated and no lock is taken later. Workload: full mesh of up to 64
 * nodes; messages of 24 B to some MiB, some ten thousand a second. */
#ifndef HETERPS_IO_NET_LINK_H
#define HETERPS_IO_NET_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "engine/base/memory.h"
#include "engine/base/status.h"
#include "io/net/address.h"

struct links;
struct uring_faults;
struct secure_key;

#define LINK_PARTS_MAX     8u
#define LINK_KEYS_MAX      2u
#define LINK_COUNT_MAX     2000u
#define LINK_LISTENERS_MAX 4u

struct links_options {
    uint32_t link_count;        /* at a time, with links that have not greeted yet: 1 .. LINK_COUNT_MAX         */
    uint32_t queued_max;        /* messages of a link that wait to be sent, or are being sent: 1 .. 65536       */
    uint32_t message_bytes_max; /* of an incoming payload: a larger one ends the link                           */
    /* Accepted connections that have not greeted yet. Further ones are closed at once, so that the rest of
     * link_count is kept for nodes that are meant to come. */
    uint32_t half_open_max;
    uint32_t same_host_max; /* of these, of one host; 0: LINK_SAME_HOST_MAX                               */
    uint64_t greeting_ns;   /* an accepted connection has this long to greet; 0: a second                   */
    uint64_t spin_ns;       /* links_wait looks this long before it sleeps; 0: it sleeps at once            */
    uint64_t prologue;      /* of protocol, program, job: both ends of a link have the same                 */
    /* Links that begin here are sealed by the first key; links that begin at the other end by any of the
     * keys, so that one key can follow another. Kept. */
    const struct secure_key *keys;
    uint32_t key_count; /* at most LINK_KEYS_MAX; 0: links are plain, and whoever reaches the port is trusted */
    /* Sealed links that begin here use ChaCha20-Poly1305, even where AES-256-GCM runs: for a
     * cluster where a processor lacks AES. */
    bool chacha_only;
    bool poll_only;              /* io_uring is not tried */
    struct uring_faults *faults; /* NULL, but in tests                                                          */
};

/* What links_open takes from the arena. */
size_t links_bytes(const struct links_options *options);
/* *why: NULL, or the reason why io_uring is refused; poll(2) is then used. Keeps keys and faults of the
 * options. With keys: call after secure_start. */
MUST_USE status links_open(struct links **links, struct arena *arena, const struct links_options *options,
                           const char **why);
/* Ends all links at once, whatever is under way. NULL is ignored. The arena stays the caller's. */
void links_close(struct links *links);
/* "io_uring" or "poll" */
const char *links_name(const struct links *links);

/* Listens at an address, port 0: any free port; up to LINK_LISTENERS_MAX times. *bound, if
 * not NULL: that address. SYSTEM. */
MUST_USE status links_listen(struct links *links, const struct address *address, struct address *bound);
/* Takes a socket that listens already, left by a parent; closed with the links. */
MUST_USE status links_listen_at(struct links *links, int socket);
/* Begins to connect, until the clock (clock_ns) says end_ns; LINK_OPENED or LINK_LOST follows. FULL: all
 * link_count links are taken. SYSTEM. */
MUST_USE status link_connect(struct links *links, const struct address *address, uint64_t end_ns, uint32_t *link);
/* Ends the link at once: no further event of it comes, its number is free,
 * and its memory is the caller's again. */
void link_close(struct links *links, uint32_t link);

/* `part` must stay until LINK_SENT, or until link_close. */
struct link_message {
    uint16_t kind; /* below FRAME_KIND_END */
    uint64_t tag;
    struct iovec part[LINK_PARTS_MAX]; /* the payload, one after another; below 4 GiB in all */
    uint32_t part_count;
};
/* Queues a message behind those of the link, which is open or lost (the message then goes nowhere);
 * links_submit or links_wait sends it. False: queued_max messages are queued. */
bool link_send(struct links *links, uint32_t link, const struct link_message *message, uint64_t cookie);
/* Says where the payload of a message told by LINK_ARRIVES goes: vectors of event.bytes in all, which stay
 * until LINK_ARRIVED or link_close. Until then their contents may be anything. */
void link_receive(struct links *links, uint32_t link, const struct iovec *parts, uint32_t part_count);

enum link_event_kind {
    LINK_OPENED,  /* both ends have greeted; incoming: the other end has connected                    */
    LINK_ARRIVES, /* kind, tag, bytes of a message with a payload: call link_receive                                 */
    LINK_ARRIVED, /* the same, whole and checked; for a message without payload the only event                       */
    LINK_SENT,    /* cookie: the kernel has all of the message                                                       */
    LINK_LOST,    /* code, and link_why; only link_close follows                                                     */
};
struct link_event {
    enum link_event_kind what;
    uint32_t link;
    bool incoming;
    uint16_t kind;
    uint32_t bytes;
    uint64_t tag, cookie;
    status code; /* PEER_LOST; INVALID, CORRUPT: a node would not send these bytes; SYSTEM */
};
/* Hands all queued messages to the kernel. Never waits. */
MUST_USE status links_submit(struct links *links);
/* Does links_submit, then puts up to `max` events in the order in which they happened; *count: how many.
 * Waits for the first until the clock says end_ns; 0: does not wait; UINT64_MAX: without end. 0 events: the
 * time is over, or somebody has called links_wake. SYSTEM: the kernel takes no requests. */
MUST_USE status links_wait(struct links *links, struct link_event *events, uint32_t max, uint64_t end_ns,
                           uint32_t *count);
/* By any thread: the present or the next call of links_wait returns soon, perhaps without events. */
void links_wake(struct links *links);

/* Why a link was lost, a sentence, until link_close; and the address of its other end. */
const char *link_why(const struct links *links, uint32_t link);
const struct address *link_peer(const struct links *links, uint32_t link);
/* Bytes that have come so far, also within a message: a link that sends is not silent. */
uint64_t link_received_bytes(const struct links *links, uint32_t link);
/* The address of this end: a node that has connected tells others to reach it there. */
MUST_USE status link_own(const struct links *links, uint32_t link, struct address *own);

struct link_counts {
    uint64_t sent_bytes, received_bytes; /* on the wire */
    uint64_t sent_count, received_count; /* messages    */
    uint64_t opened_count, lost_count;
    /* connections from outside that came to nothing: */
    /* closed at once: half_open_max, link_count, or same_host_max of one host were half open */
    uint64_t crowded_count;
    uint64_t late_count;    /* did not greet in time                                                        */
    uint64_t garbage_count; /* greeted with something else, or ended before                                  */
    char garbage_why[160];  /* of the last one of garbage_count: its address, the reason                      */
};
#define LINK_SAME_HOST_MAX 4u
#define LINK_RECENT        1024u /* greetings that are remembered, so that none is answered twice */
const struct link_counts *links_counts(const struct links *links);

#endif

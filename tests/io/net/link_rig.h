/* Two ends of links in one thread, each with links of its own,
 * and sockets that behave otherwise than links do. */
#ifndef HETERPS_TESTS_LINK_RIG_H
#define HETERPS_TESTS_LINK_RIG_H

#include "tests/io/io_test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "engine/base/clock.h"
#include "io/net/frame.h"
#include "io/net/link.h"
#include "io/net/secure.h"
#include "io/uring.h"

#define RIG_NONE    UINT32_MAX
#define RIG_WAIT_NS UINT64_C(60000000000) /* longer than anything takes on a busy machine */

/* Two keys, of which links are sealed by the first. */
static const struct secure_key rig_keys[2] = {{"the first key has thirty-two byt"},
                                              {"the second one has them as well!"}};

static inline int rig_start(void **state)
{
    (void)state;
    return secure_start() == ST_OK ? 0 : -1;
}

struct end {
    struct arena arena;
    struct links *links;
    uint32_t link; /* of the last LINK_OPENED, or RIG_NONE */
    uint32_t sent_count, lost_count;
    struct link_event last;                                          /* the last event but LINK_SENT */
    void (*on_event)(struct end *e, const struct link_event *event); /* NULL: arrivals are not expected */
    void *context;
};

static inline struct links_options rig_options(void)
{
    return (struct links_options){.link_count = 8,
                                  .queued_max = 16,
                                  .message_bytes_max = 64 << 20,
                                  .half_open_max = 6,
                                  .greeting_ns = RIG_WAIT_NS,
                                  .prologue = 77};
}

static inline void end_open(struct end *e, const struct links_options *options)
{
    const char *why;
    *e = (struct end){.link = RIG_NONE};
    assert_ok(arena_open(&e->arena, "test", links_bytes(options)));
    assert_ok(links_open(&e->links, &e->arena, options, &why));
    assert_int_equal(e->arena.used_bytes, e->arena.size_bytes); /* the plan is what is taken */
    if (options->poll_only) assert_string_equal(links_name(e->links), "poll");
}

static inline void end_close(struct end *e)
{
    links_close(e->links);
    arena_close(&e->arena);
}

/* Takes what has come about, waiting at most until end_ns for it. Returns how many events. */
static inline uint32_t end_turn(struct end *e, uint64_t end_ns)
{
    struct link_event event[5];
    uint32_t count;
    assert_ok(links_wait(e->links, event, 5, end_ns, &count));
    for (uint32_t i = 0; i < count; i++) {
        if (event[i].what == LINK_OPENED) e->link = event[i].link;
        if (event[i].what == LINK_SENT)
            e->sent_count++;
        else
            e->last = event[i];
        e->lost_count += event[i].what == LINK_LOST;
        if (e->on_event) e->on_event(e, &event[i]);
    }
    return count;
}

/* Lets both work until `done`, or fails. */
#define RIG_UNTIL(a, b, done)                                                                                          \
    do {                                                                                                               \
        uint64_t rig_end_ns = clock_ns() + RIG_WAIT_NS;                                                                \
        while (!(done)) {                                                                                              \
            end_turn((a), clock_ns() + 1000000);                                                                       \
            if ((b) != NULL) end_turn((b), 0);                                                                         \
            if (clock_ns() > rig_end_ns) fail_msg("%s: not within a minute", #done);                                   \
        }                                                                                                              \
    } while (0)

static inline struct address rig_loopback(bool is_v6)
{
    struct address loopback;
    assert_ok(address_parse(&loopback, is_v6 ? "[::1]:0" : "127.0.0.1:0", 0));
    return loopback;
}

/* Whether this machine has IPv6 on loopback. */
static inline bool rig_has_v6(void)
{
    struct address loopback = rig_loopback(true);
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    bool has = fd >= 0 && bind(fd, &loopback.any, address_bytes(&loopback)) == 0;
    if (fd >= 0) close(fd);
    return has;
}

/* b listens, a connects, both have opened. */
static inline void rig_join(struct end *a, struct end *b, bool is_v6)
{
    struct address here = rig_loopback(is_v6), bound;
    uint32_t link;
    assert_ok(links_listen(b->links, &here, &bound));
    assert_ok(link_connect(a->links, &bound, clock_ns() + RIG_WAIT_NS, &link));
    RIG_UNTIL(a, b, a->link != RIG_NONE && b->link != RIG_NONE);
    assert_int_equal(a->link, link);
    struct address own;
    assert_ok(link_own(a->links, a->link, &own));
    assert_true(address_port(&own) == address_port(link_peer(b->links, b->link)));
    assert_true(address_same_host(&own, link_peer(b->links, b->link)));
}

/* A plain socket to where b listens, blocking. */
static inline int rig_socket(struct end *b, struct address *bound)
{
    struct address here = rig_loopback(false);
    if (bound->any.sa_family == 0) assert_ok(links_listen(b->links, &here, bound));
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, &bound->any, address_bytes(bound)), 0);
    return fd;
}

static inline void rig_write(int fd, const void *data, size_t bytes)
{
    assert_int_equal(send(fd, data, bytes, MSG_NOSIGNAL), bytes);
}

/* Whether the other end has closed, what it sent before being dropped, within a minute; b works meanwhile. */
static inline bool rig_is_closed(int fd, struct end *b)
{
    uint64_t end_ns = clock_ns() + RIG_WAIT_NS;
    while (clock_ns() < end_ns) {
        char bytes[256];
        end_turn(b, clock_ns() + 1000000);
        ssize_t got = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN)) return true;
    }
    return false;
}

#endif

/* Between the two sides of a web client: web.c, whoever asks, and web_thread.c with web_answer.c, which fetch. */
#ifndef HETERPS_IO_NET_WEB_INTERNAL_H
#define HETERPS_IO_NET_WEB_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include <event2/dns.h>
#include <event2/event.h>
#include <event2/http.h>

#include "engine/base/bell.h"
#include "io/net/web.h"
#include "io/net/web_address.h"

enum lane_state { LANE_IDLE, LANE_ASKING, LANE_ENDED, LANE_WAITING };

/* What is to be done about an answer. */
enum web_verdict {
    WEB_NONE,   /* there was none                                      */
    WEB_TAKE,   /* its body is what was asked for                      */
    WEB_MOVED,  /* ask elsewhere: lane.to                              */
    WEB_WHOLE,  /* ask once more, without a range                      */
    WEB_STATUS, /* its body is what GETFILESTATUS says          */
    WEB_EMPTY,  /* there is nothing from that byte on                  */
    WEB_LATER,  /* ask again after a while: lane.why                   */
    WEB_FAIL    /* it is over: web.failed                              */
};

#define WEB_WHY_BYTES    256u
#define WEB_STATUS_BYTES 4096u

/* A connection, and what it is asked for. The thread's. */
struct lane {
    struct web *web;
    struct evhttp_connection *connection; /* or NULL                                  */
    char connected[WEB_HOST_BYTES];       /* whom it leads to                         */
    struct evhttp_request *request;       /* under way, or NULL                       */
    struct event *timer;                  /* turns the lane (web_thread.c)            */
    enum lane_state state;
    enum web_verdict verdict;
    struct web_address to;
    uint32_t moved_count;
    bool is_status;  /* it is asked for what the data is, and not for them */
    bool asks_whole; /* without a range                                  */
    bool has_answer; /* the body is complete                             */
    bool is_refused; /* the connection                                   */
    uint64_t piece;  /* number of the piece that it fills                */
    uint64_t asked;  /* first byte of the range asked for                */
    uint64_t skip;   /* bytes of the body that come before it            */
    uint64_t ignored_bytes;
    uint32_t got, told; /* bytes of the piece; those that the asker knows of */
    uint32_t tries;     /* without a byte                                    */
    uint64_t since_ns;  /* of the request, or of the last byte               */
    uint64_t behind_ns; /* when bytes failed to come; 0: they do come        */
    char why[WEB_WHY_BYTES];
};

struct web_piece {
    /* Written by the thread, with release: bytes from its begin on. */
    _Atomic uint32_t shared_got;
};

/* What is wanted: written by the asker while the thread does not look, which is told by shared_ask. */
struct web_ask {
    struct web_address address;
    bool has_facts;
    struct web_facts facts;
    uint64_t at, end;
};

struct web {
    /* set once */
    struct web_options o;
    struct event_base *base;
    struct evdns_base *dns; /* without servers: turns numbers into addresses, and nothing else */
    struct event *wake;
    int wake_fd;
    pthread_t thread;
    bool is_started;
    /* the asker's */
    struct web_ask ask;
    uint64_t read_piece;
    uint32_t read_used;
    /* the thread's */
    struct lane lane[WEB_CONNECTIONS_MAX];
    uint32_t run;                  /* number of the ask that is worked on   */
    uint64_t end;                  /* of what is read: ask.end, or the data's */
    uint64_t next_piece;           /* that no lane has yet                  */
    bool is_hdfs;                  /* ask.address is WebHDFS's              */
    bool has_status;               /* it has said what the data is, in this run */
    bool has_ended;                /* and has been asked once more, behind the last byte */
    char status[WEB_STATUS_BYTES]; /* what it says of the data    */
    size_t status_bytes;
    bool is_met;   /* somebody has answered once            */
    bool is_known; /* facts are                             */
    bool is_failed;
    /* written by the thread before shared_is_known, shared_is_failed */
    struct web_facts facts;
    struct failure failed;
    /* both */
    struct web_piece piece[WEB_PIECES_MAX];
    _Atomic uint32_t shared_ask, shared_run; /* numbers: the ask's, and the one that has begun   */
    _Atomic uint64_t shared_taken;           /* pieces that the asker is done with              */
    _Atomic uint64_t shared_end;             /* byte where the data ends; UINT64_MAX: unknown   */
    _Atomic bool shared_is_known, shared_is_failed, shared_is_over;
    struct bell bell; /* of the asker  */
    struct bell room; /* of the thread, where one stream fills the ring */
};

/* Bytes of a piece. */
static inline uint32_t web_piece_bytes(const struct web *web, uint64_t piece)
{
    const uint64_t begin = web->ask.at + piece * web->o.piece_bytes, left = web->end > begin ? web->end - begin : 0;
    return left < web->o.piece_bytes ? (uint32_t)left : web->o.piece_bytes;
}
/* The next byte that a lane wants. */
static inline uint64_t web_lane_byte(const struct lane *lane)
{
    return lane->web->ask.at + lane->piece * lane->web->o.piece_bytes + lane->got;
}
/* Whether all comes by one connection. */
static inline bool web_is_stream(const struct web *web) { return web->is_known && !web->facts.has_ranges; }

/* The thread; of the web. */
void *web_main(void *web);
/* Somebody writes to wake_fd; a lane's timer. */
void web_on_wake(evutil_socket_t fd, short what, void *web);
void web_on_turn(evutil_socket_t fd, short what, void *lane);

/* What the answer's head says, which is kept: facts of a first one, where to ask, why not. */
enum web_verdict web_answer_judge(struct lane *lane, struct evhttp_request *request);

/* Makes facts those of the data that is read: of the first answer, or of an earlier reading. */
void web_facts_take(struct web *web, const struct web_facts *facts);
/* Keeps a first answer's facts; of a later one they have to be the same, else the run ends: false. */
bool web_facts_hold(struct lane *lane, const struct web_facts *facts);
/* Ends the run: with this thread's message. */
void web_fail(struct web *web, status st);

#endif

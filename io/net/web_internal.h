/* Between the two sides of a web client: web.c asks; web_thread.c and web_answer.c fetch. */
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

/* What to do about an answer. */
enum web_verdict {
    WEB_NONE,   /* there was no answer                                 */
    WEB_TAKE,   /* take its body: the bytes that were asked for        */
    WEB_MOVED,  /* ask elsewhere: lane.to                              */
    WEB_WHOLE,  /* ask again, without a range                          */
    WEB_STATUS, /* take its body: that of GETFILESTATUS         */
    WEB_EMPTY,  /* there is no byte from the asked one on              */
    WEB_LATER,  /* ask again after a while: lane.why                   */
    WEB_FAIL    /* the run has failed: web.failed                      */
};

#define WEB_WHY_BYTES    256u
#define WEB_STATUS_BYTES 4096u

/* A connection, and its present request. The thread's. */
struct lane {
    struct web *web;
    struct evhttp_connection *connection; /* or NULL                                  */
    char connected[WEB_HOST_BYTES];       /* the host to which it leads               */
    struct evhttp_request *request;       /* under way, or NULL                       */
    struct event *timer;                  /* turns the lane (web_thread.c)            */
    enum lane_state state;
    enum web_verdict verdict;
    struct web_address to;
    uint32_t moved_count;
    bool is_status;  /* it asks for the file status, not for data */
    bool asks_whole; /* it asks without a range                          */
    bool has_answer; /* the body is complete                             */
    bool is_refused; /* the connection was refused                       */
    uint64_t piece;  /* number of the piece that it fills                */
    uint64_t asked;  /* first byte of the range asked for                */
    uint64_t skip;   /* bytes of the body before that byte               */
    uint64_t ignored_bytes;
    uint32_t got, told; /* bytes of the piece; bytes that the asker knows of */
    uint32_t tries;     /* tries without a byte                              */
    uint64_t since_ns;  /* time of the request, or of the last byte          */
    uint64_t behind_ns; /* time when bytes failed to come; 0: they do come   */
    char why[WEB_WHY_BYTES];
};

struct web_piece {
    /* Written by the thread, with release: how many bytes, from the piece's begin on. */
    _Atomic uint32_t shared_got;
};

/* What the asker wants. It writes this while the thread does not look, which shared_ask tells. */
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
    struct evdns_base *dns; /* without servers: only turns numbers into addresses */
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
    uint32_t run;                  /* number of the present ask             */
    uint64_t end;                  /* the end of the bytes to read: ask.end, or the data's */
    uint64_t next_piece;           /* the first that no lane has yet        */
    bool is_hdfs;                  /* ask.address is of WebHDFS             */
    bool has_status;               /* WebHDFS has told the file status in this run */
    bool has_ended;                /* and was asked again, after the last byte */
    char status[WEB_STATUS_BYTES]; /* its text of the file status */
    size_t status_bytes;
    bool is_met;   /* a server has answered once            */
    bool is_known; /* facts are known                       */
    bool is_failed;
    /* written by the thread before shared_is_known, shared_is_failed */
    struct web_facts facts;
    struct failure failed;
    /* both */
    struct web_piece piece[WEB_PIECES_MAX];
    _Atomic uint32_t shared_ask, shared_run; /* numbers: of the ask, and of the run that has begun */
    _Atomic uint64_t shared_taken;           /* pieces that the asker is done with              */
    _Atomic uint64_t shared_end;             /* byte where the data ends; UINT64_MAX: unknown   */
    _Atomic bool shared_is_known, shared_is_failed, shared_is_over;
    struct bell bell; /* for the asker */
    struct bell room; /* for the thread, when one stream has filled the ring */
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
/* Whether one connection brings all bytes. */
static inline bool web_is_stream(const struct web *web) { return web->is_known && !web->facts.has_ranges; }

/* The thread; its argument is the web. */
void *web_main(void *web);
/* Called when somebody writes to wake_fd; by a lane's timer. */
void web_on_wake(evutil_socket_t fd, short what, void *web);
void web_on_turn(evutil_socket_t fd, short what, void *lane);

/* Judges the answer's head; keeps the facts of a first answer, where else to ask, or why not. */
enum web_verdict web_answer_judge(struct lane *lane, struct evhttp_request *request);

/* Keeps the facts of the data that is read: of the first answer, or of an earlier reading. */
void web_facts_take(struct web *web, const struct web_facts *facts);
/* Keeps a first answer's facts; a later answer must have the same, else the run fails: false. */
bool web_facts_hold(struct lane *lane, const struct web_facts *facts);
/* Fails the run, with this thread's message. */
void web_fail(struct web *web, status st);

#endif

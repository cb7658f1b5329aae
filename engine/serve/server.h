/* What the parts of the server share: the models, the requests that wait, and how one is worked on. Everything here
 * is the HTTP thread's.
 *
 *     http ──▶ route.c: who may, where to ──▶ a page, a figure: answered at once
 *                                        └──▶ request_put ──desk──▶ … ──▶ finish ──▶ http_reply */
#ifndef HETERPS_ENGINE_SERVE_SERVER_H
#define HETERPS_ENGINE_SERVE_SERVER_H

#include "engine/http/access.h"
#include "engine/http/exposition.h"
#include "engine/http/http.h"
#include "engine/serve/figures.h"
#include "engine/serve/line.h"
#include "engine/serve/servant.h"
#include "engine/serve/serve.h"

/* Where requests meet a desk. */
struct counter {
    struct served *model;
    struct desk *desk;
    struct figures *figures; /* that its requests are noted in; NULL: nowhere */
    uint32_t waiting;        /* requests on the desk */
};

/* A save of a model at work. */
struct version {
    struct counter counter;
    struct served *model;
    struct servant *servant;
    const char *name;      /* the save's tag */
    struct event *answers; /* its desk's fd */
    struct lines lines;    /* of values by column */
    struct version *next;  /* of those that leave */
};

/* A model: the version that requests go to, and those that still answer what they have been asked. */
struct served {
    struct server *server;
    const char *name, *graph, *model; /* as they were given */
    struct version *version, *leaving;
    struct figures figures;
    struct servant_counts before; /* of versions that have left */
    struct watch *watch;          /* versions.c */
    struct teaching *teaching;    /* learn.c; NULL: it does not learn */
};

struct server {
    const struct serve_options *options;
    struct event_base *base;
    struct http *http;
    struct tokens *tokens; /* NULL: everybody may ask */
    struct served *models; /* [model_count]; the first is that of paths without a name */
    uint32_t model_count;
    struct event *ring, *drain, *signals[2];
    uint32_t puts;   /* since desks were rung     */
    size_t held_max; /* of requests in memory     */
    bool is_draining;
    uint64_t drain_end_ns;
    struct failure result; /* what a model's work failed with */
};

/* A request whose lines are computed. */
struct request {
    struct evhttp_request *http;
    struct counter *counter;
    struct version *version; /* NULL: of one who teaches */
    struct evbuffer *lines;  /* of the answer, so far */
    bool is_cut;             /* there was no memory for some of them */
    size_t held;             /* bytes of its text, and of the lines */
    int refused_code;        /* of a text whose beginning is wrong */
    /* what `finish` needs besides, or NULL; freed with the request */
    void *detail;
    void (*detail_free)(void *detail);
    /* Answers it when all lines are there. */
    void (*finish)(struct server *server, struct request *request, const struct ask *ask);
};

/* What becomes of a request's lines. */
struct request_end {
    void (*finish)(struct server *server, struct request *request, const struct ask *ask);
    void *detail; /* taken in any case */
    void (*detail_free)(void *detail);
    struct ask_wants wants;
    int refused_code; /* 0: 400 */
    size_t bytes_max; /* of the text; 0: serve.body */
};
/* Takes the text out of the buffer and puts it on the desk of the model's version; `finish` follows. Where it is too
 * large, or there is no room, the answer says so: 413, or 503 with Retry-After. */
void request_put(struct server *server, struct served *model, struct evhttp_request *http, struct evbuffer *text,
                 struct request_end end);
/* The same on a counter's desk; whether there was room. */
bool request_put_at(struct server *server, struct counter *counter, struct evhttp_request *http, struct evbuffer *text,
                    struct request_end end);
/* Takes what the counter's desk has of answers. */
void request_pieces(struct counter *counter);
/* Whether the body is packed, which nobody unpacks here: then it is answered, by 415. */
bool request_is_packed(struct server *server, struct evhttp_request *http);
/* Headers that every answer of a model has: its version, and malformed lines. */
void request_headers(const struct request *request, const struct ask *ask);
/* Takes what a model's threads have done (an event's callback; context: struct version). */
void request_answers(evutil_socket_t fd, short what, void *version);
/* Wakes the threads that have something to read (likewise; context: struct server); request_ring_soon: when the thread
 * has done what there is to do. */
void request_ring(evutil_socket_t unused, short what, void *server);
void request_ring_soon(void *server);

/* Forgets a request that nobody waits for any more: when the server is closed. */
void request_drop(void *request);

/* versions.c. Opens the model as its directory has it now, and, where that can have another save later, watches it.
 * What servant_open fails with. */
MUST_USE status versions_open(struct served *model);
/* Ends all versions; what has been asked of them is answered to nobody. */
void versions_close(struct served *model);
/* A version has answered all that it was asked, and ended. */
void version_left(struct version *version);
/* Requests that the model's versions have. */
uint32_t versions_waiting(const struct served *model);
/* All that its versions have computed. */
struct servant_counts versions_counts(const struct served *model);
/* Routes: which version it is, and which others there are; and another one, by its name or "newest". */
void version_get(struct server *server, struct served *model, struct evhttp_request *request);
void version_post(struct server *server, struct served *model, struct evhttp_request *request);

/* learn.c, where the server learns. Opens what learns from the lines that come, behind what the model's directory has;
 * what the training says that cannot begin. */
MUST_USE status learn_open(struct served *model);
/* Ends it behind its last whole step, which is saved. One that is not open is ignored. */
void learn_close(struct served *model);
/* Requests on its desk; and whether everything that has been taken in whole steps is learned. */
struct counter *learn_counter(const struct served *model);
bool learn_is_idle(const struct served *model);
/* Keeps the lines of a request for labels that come later, if it has an id, somebody learns, and there is no more of
 * them than a request may have. */
void learn_keep(struct served *model, const char *id, struct evbuffer *lines);
/* The id that the query of the request has, into `id`, else NULL. */
#define LEARN_ID_BYTES 129u
const char *learn_id(struct evhttp_request *request, char id[LEARN_ID_BYTES]);
void learn_metrics(const struct server *server, struct evbuffer *to);
void learn_post(struct server *server, struct served *model, struct evhttp_request *request);
void learn_position(struct server *server, struct served *model, struct evhttp_request *request);

/* Answers of pages (page.c), each a route. */
void page_get(struct server *server, struct served *model, struct evhttp_request *request);
void page_post(struct server *server, struct served *model, struct evhttp_request *request);
void page_figures(struct server *server, struct served *model, struct evhttp_request *request);

/* Answers requests whose path, behind "/v2", is this (infer.c). */
void infer_route(struct server *server, const char *path, struct evhttp_request *request);

/* The model of that name; of no name the first. NULL: there is none. */
struct served *server_model(const struct server *server, const char *name);
/* struct http_options.handle; context: struct server. */
void route(void *server, struct evhttp_request *request);

#endif

/* What the parts of the server share: the models, the requests that wait, and how a request is worked on.
 * Everything here belongs to the HTTP thread.
 *
 *     http ──▶ route.c: who may, which page ──▶ a page, figures: answered at once
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

/* A desk, and the requests on it. */
struct counter {
    struct served *model;
    struct desk *desk;
    struct figures *figures; /* count its requests; NULL: nothing does */
    uint32_t waiting;        /* requests on the desk                   */
};

/* A save of a model at work. */
struct version {
    struct counter counter;
    struct served *model;
    struct servant *servant;
    const char *name;      /* the save's tag */
    struct event *answers; /* its desk's fd */
    struct lines lines;    /* makes lines of values by column */
    struct version *next;  /* in the list of versions that leave */
};

/* A model: the version that requests go to, and older versions that still have requests to answer. */
struct served {
    struct server *server;
    const char *name, *graph, *model; /* as they were given */
    struct version *version, *leaving;
    struct figures figures;
    struct servant_counts before; /* what versions that have left counted */
    struct watch *watch;          /* versions.c */
    struct teaching *teaching;    /* learn.c; NULL: it does not learn */
};

struct server {
    const struct serve_options *options;
    struct event_base *base;
    struct http *http;
    struct tokens *tokens; /* NULL: everybody may ask */
    struct served *models; /* [model_count]; the first serves paths without a name */
    uint32_t model_count;
    struct event *ring, *drain, *signals[2];
    uint32_t puts;   /* texts put down since the desks were rung */
    size_t held_max; /* bytes of requests in memory              */
    bool is_draining;
    uint64_t drain_end_ns;
    struct failure result; /* what a model's work failed with */
};

/* Answers a request with what is wrong, as http_reply_text does. */
typedef void request_wrong(struct http *http, struct evhttp_request *request, int code, const char *format, ...)
    PRINTF_LIKE(4, 5);
/* Bytes of requests and answers in memory, in multiples of the largest request. */
#define HELD_BODIES 4u

/* A request whose lines are computed. */
struct request {
    struct evhttp_request *http;
    struct counter *counter;
    struct version *version; /* NULL: the request teaches            */
    struct evbuffer *lines;  /* of the answer, so far                */
    bool is_cut;             /* there is no memory for the lines     */
    request_wrong *wrong;    /* answers it if they cannot be had     */
    size_t held;             /* bytes of the text and of the lines   */
    /* what else `finish` needs, or NULL; freed with the request */
    void *detail;
    void (*detail_free)(void *detail);
    /* Answers it when all lines are there. */
    void (*finish)(struct server *server, struct request *request, const struct ask *ask);
};

/* What becomes of a request's lines. */
struct request_end {
    void (*finish)(struct server *server, struct request *request, const struct ask *ask);
    void *detail; /* request_put takes it in any case */
    void (*detail_free)(void *detail);
    request_wrong *wrong; /* NULL: http_reply_text */
    struct ask_wants wants;
    size_t bytes_max; /* of the text; 0: serve.body */
};
/* Moves the text from the buffer to the desk of the model's version; `finish` follows. A text that is too
 * large is answered by 413, one without room on the desk by 503 with Retry-After. */
void request_put(struct server *server, struct served *model, struct evhttp_request *http, struct evbuffer *text,
                 struct request_end end);
/* The same with the counter's desk; true: there was room. */
bool request_put_at(struct server *server, struct counter *counter, struct evhttp_request *http, struct evbuffer *text,
                    struct request_end end);
/* Takes the answers that the counter's desk has. */
void request_pieces(struct counter *counter);
/* Whether the body is compressed, which the server does not read. Such a request is answered by `wrong`, with
 * 415. */
bool request_is_packed(struct server *server, struct evhttp_request *http, request_wrong *wrong);
/* Sets the headers that every answer of a model has: its version, its malformed lines. */
void request_headers(const struct request *request, const struct ask *ask);
/* Takes the answers of a model's threads (an event's callback; context: struct version). */
void request_answers(evutil_socket_t fd, short what, void *version);
/* Wakes the threads that have texts to read (an event's callback; context: struct server).
 * request_ring_soon: after the events at hand. */
void request_ring(evutil_socket_t unused, short what, void *server);
void request_ring_soon(void *server);

/* Drops a request without an answer, when the server closes. */
void request_drop(void *request);
/* Answers a request that is no longer on a desk: nobody will compute its lines. */
void request_give_up(void *request);

/* versions.c. Opens the model's newest save, and watches a directory for later ones.
 * Fails as servant_open does. */
MUST_USE status versions_open(struct served *model);
/* Ends all versions; their requests get no answer. */
void versions_close(struct served *model);
/* A version has answered all its requests, and has ended. */
void version_left(struct version *version);
/* Requests on the desks of the model's versions. */
uint32_t versions_waiting(const struct served *model);
/* What all versions of the model have computed. */
struct servant_counts versions_counts(const struct served *model);
/* Routes: tell the version and the other saves; take another one, by its name or "newest". */
void version_get(struct server *server, struct served *model, struct evhttp_request *request);
void version_post(struct server *server, struct served *model, struct evhttp_request *request);

/* learn.c, where the server learns. Opens a learner that begins with the newest save of the model's
 * directory. Fails as learner_open does. */
MUST_USE status learn_open(struct served *model);
/* Ends the learner after its last whole step, which is saved; a model without a learner is ignored. */
void learn_close(struct served *model);
/* The learner's desk with its requests; and whether every whole step is learned. */
struct counter *learn_counter(const struct served *model);
bool learn_is_idle(const struct served *model);
/* Keeps a request's lines for labels that come later, if the request has an id, the model learns, and the
 * lines are no larger than a request may be. */
void learn_keep(struct served *model, const char *id, struct evbuffer *lines);
/* Copies the id of the request's query into `id`; NULL: the query has none. */
#define LEARN_ID_BYTES 129u
const char *learn_id(struct evhttp_request *request, char id[LEARN_ID_BYTES]);
void learn_metrics(const struct server *server, struct evbuffer *to);
void learn_post(struct server *server, struct served *model, struct evhttp_request *request);
void learn_position(struct server *server, struct served *model, struct evhttp_request *request);

/* Routes of the pages (page.c). */
void page_get(struct server *server, struct served *model, struct evhttp_request *request);
void page_post(struct server *server, struct served *model, struct evhttp_request *request);
void page_figures(struct server *server, struct served *model, struct evhttp_request *request);

/* Answers a request of the Open Inference Protocol; path: what stands behind "/v2" (infer.c). */
void infer_route(struct server *server, const char *path, struct evhttp_request *request);

/* The model of that name; without a name the first. NULL: there is none. */
struct served *server_model(const struct server *server, const char *name);
/* struct http_options.handle; context: struct server. */
void route(void *server, struct evhttp_request *request);

#endif

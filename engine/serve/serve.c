/* Opens models and the server, runs until a signal, and then answers the requests that have come. */
#include "engine/serve/serve.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/inputs.h"
#include "engine/base/log.h"
#include "engine/base/memory.h"
#include "engine/base/stop.h"
#include "engine/base/thread.h"
#include "engine/http/blocks.h"
#include "engine/serve/inference.h"
#include "engine/serve/server.h"

#define LISTEN_FLAG "--listen"
/* Priorities of events: the base has three; an event made without one has the middle one. */
#define PRIORITIES   3
#define PRIORITY_LOW 2
/* Memory of an idle connection: the server's, libevent's, and buffers. */
#define CONNECTION_BYTES ((size_t)4 << 10)
#define DRAIN_LOOK_US    20000
#define SECOND_NS        UINT64_C(1000000000)

/* --- ending ----------------------------------------------------------------------------------- */

static bool all_are_answered(const struct server *s)
{
    for (uint32_t i = 0; i < s->model_count; i++) {
        const struct counter *taught = learn_counter(&s->models[i]);
        if (versions_waiting(&s->models[i]) || (taught && taught->waiting)) return false;
        if (!learn_is_idle(&s->models[i])) return false;
    }
    return http_busy_count(s->http) == 0;
}

/* Looks from time to time whether all requests are answered. */
static void on_drain(evutil_socket_t unused, short what, void *context)
{
    struct server *s = context;
    (void)unused, (void)what;
    if (all_are_answered(s) || clock_ns() > s->drain_end_ns) event_base_loopbreak(s->base);
}

static void on_signal(evutil_socket_t number, short what, void *context)
{
    struct server *s = context;
    (void)what;
    if (s->is_draining) _exit(128 + (int)number);
    s->is_draining = true;
    s->drain_end_ns = clock_ns() + s->options->patience_s * SECOND_NS;
    log_info("serve    ending: no further connections; requests that have come are answered");
    http_drain(s->http);
    request_ring_soon(s);
    event_add(s->drain, &(struct timeval){.tv_usec = DRAIN_LOOK_US});
}

/* --- opening ---------------------------------------------------------------------------------- */

static status access_check(struct server *s)
{
    const struct serve_options *o = s->options;
    if (o->token_file && o->insecure) FAIL(USAGE, "--token-file and --insecure exclude each other");
    return access_open(&s->tokens, &(struct access_options){.flag = LISTEN_FLAG,
                                                            .listen = o->listen,
                                                            .token_file = o->token_file,
                                                            .insecure = o->insecure});
}

static status model_open_one(struct server *s, uint32_t i)
{
    const struct serve_options *o = s->options;
    struct served *m = &s->models[i];
    *m = (struct served){
        .server = s, .name = o->models[i].name, .graph = o->models[i].graph, .model = o->models[i].model};
    s->model_count = i + 1;
    TRY(versions_open(m));
    if (o->learn) TRY(learn_open(m));
    const size_t body = servant_setup(m->version->servant)->settings.serve_body;
    if (s->held_max < HELD_BODIES * body) s->held_max = HELD_BODIES * body;
    return ST_OK;
}

static status events_open(struct server *s)
{
    static const int signals[2] = {SIGTERM, SIGINT};
    s->base = http_base_new(true);
    if (s->base == NULL || event_base_priority_init(s->base, PRIORITIES) != 0)
        FAIL(SYSTEM, "libevent cannot make an event base");
    s->ring = event_new(s->base, -1, 0, request_ring, s);
    s->drain = event_new(s->base, -1, EV_PERSIST, on_drain, s);
    bool is_open = s->ring && s->drain && event_priority_set(s->ring, PRIORITY_LOW) == 0;
    for (uint32_t i = 0; i < 2; i++) {
        s->signals[i] = evsignal_new(s->base, signals[i], on_signal, s);
        is_open = is_open && s->signals[i];
    }
    if (!is_open) FAIL(MEMORY, "no memory for a server's events");
    return ST_OK;
}

static status server_open(struct server *s)
{
    const struct serve_options *o = s->options;
    TRY(access_check(s));
    stop_signals_leave();
    inputs_stop(); /* else the files of every version would be noted */
    TRY(events_open(s));
    s->models = calloc(o->model_count, sizeof *s->models);
    if (s->models == NULL) FAIL(MEMORY, "no memory for %u models", o->model_count);
    for (uint32_t i = 0; i < o->model_count; i++) TRY(model_open_one(s, i));
    TRY(http_open(&s->http, &(struct http_options){.base = s->base,
                                                   .flag = LISTEN_FLAG,
                                                   .fewer = ", or lower --connections",
                                                   .listen = o->listen,
                                                   .connection_max = o->connections,
                                                   .connection_most = SERVE_CONNECTIONS,
                                                   .idle_s = o->idle_s,
                                                   .patience_s = o->patience_s,
                                                   .body_max = s->held_max / HELD_BODIES,
                                                   .held_max = s->held_max,
                                                   .handle = route,
                                                   .gone = request_ring_soon,
                                                   .context = s}));
    memory_note("http", s->held_max + BLOCKS_KEPT_MAX + INFERENCE_MEMORY_BYTES +
                            http_connection_max(s->http) * CONNECTION_BYTES);
    for (uint32_t i = 0; i < 2; i++)
        if (event_add(s->signals[i], NULL) != 0) FAIL(SYSTEM, "libevent cannot wait for signals");
    return ST_OK;
}

static void events_free(struct event *const *events, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (events[i]) event_free(events[i]);
}

/* All that is learned is saved before anything else ends; a signal now ends the process at once. */
static void server_close(struct server *s)
{
    events_free(s->signals, 2);
    http_close(s->http);
    for (uint32_t i = 0; i < s->model_count; i++) learn_close(&s->models[i]);
    for (uint32_t i = 0; i < s->model_count; i++) versions_close(&s->models[i]);
    events_free((struct event *const[]){s->ring, s->drain}, 2);
    if (s->base) event_base_free(s->base);
    free(s->models);
    free(s->tokens);
}

static void start_tell(const struct server *s)
{
    log_info("serve    http://%s", http_address(s->http));
    log_event_begin("serve");
    log_event_text("address", http_address(s->http));
    log_event_open_array("models");
    for (uint32_t i = 0; i < s->model_count; i++) {
        log_info("model    %s: version %s of %s", s->models[i].name, s->models[i].version->name, s->models[i].model);
        log_event_open(NULL);
        log_event_text("name", s->models[i].name);
        log_event_text("version", s->models[i].version->name);
        log_event_close();
    }
    log_event_close_array();
    log_event_end();
}

status serve_run(const struct serve_options *options)
{
    struct server s = {.options = options};
    thread_answer();
    blocks_keep();
    status st = server_open(&s);
    if (st == ST_OK) {
        start_tell(&s);
        event_base_dispatch(s.base);
    } else {
        failure_keep(&s.result, st);
    }
    server_close(&s);
    blocks_drop();
    return failure_adopt(&s.result);
}

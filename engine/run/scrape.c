/* Keeps what a training tells, and answers with it on a thread of its own. */
#include "engine/run/scrape.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "cfg/key.h"
#include "engine/base/doing.h"
#include "engine/base/heap.h"
#include "engine/base/log.h"
#include "engine/base/memory.h"
#include "engine/base/steady.h"
#include "engine/base/stop.h"
#include "engine/base/thread.h"
#include "engine/http/access.h"
#include "engine/http/exposition.h"
#include "engine/node/probe.h"
#include "engine/node/stream.h"
#include "engine/run/report.h"
#include "io/store/store_figures.h"

#define FLAG        "--metrics"
#define CONNECTIONS 64u
#define IDLE_S      60u
#define PATIENCE_S  10u
#define BODY_BYTES  ((size_t)1 << 10) /* no client sends one */
#define HELD_BYTES  ((size_t)4 << 20)
#define NS          1e-9

enum scrape_state { STATE_BEFORE, STATE_READY, STATE_OVER };

/* A figure of a loss. The names are the graph's, and are set before the count that includes the figure. */
struct scrape_figure {
    const char *head, *key;
    _Atomic double shared_value;
};

struct scrape {
    struct event_base *base;
    struct http *http;
    struct tokens *tokens;
    struct event *end;
    int end_fd; /* written to when the thread has to end; -1: none */
    pthread_t thread;
    bool is_started;
    struct train_watch watch;
    /* under the lock, lent by the training */
    pthread_mutex_t lock;
    const struct session *session;
    bool is_lent;            /* the training has begun, and is not over */
    const struct feed *feed; /* NULL: the session uses a model, and does not train */
    /* [table_count of the graph], made before the first step */
    _Atomic uint64_t *shared_rows;
    _Atomic bool shared_has_rows; /* a step has told the numbers of rows */
    /* Relaxed, all: each is a figure by itself, ordered with nothing. */
    _Alignas(64) _Atomic uint32_t shared_state;
    _Atomic uint64_t shared_step, shared_begun_step, shared_epoch, shared_examples;
    _Atomic uint64_t shared_wall_ns, shared_busy_ns[WORK_COUNT], shared_worker_count, shared_pause_ns;
    _Atomic uint64_t shared_saves, shared_saved_step, shared_window;
    _Atomic double shared_save_s, shared_save_last_s, shared_loss, shared_rate;
    struct scrape_figure *figure; /* of progressive validation: room for all the graph's figures */
    _Atomic uint32_t shared_figure_count;
};

#define PUT(place, value) atomic_store_explicit(&(place), value, memory_order_relaxed)
#define GET(place)        atomic_load_explicit(&(place), memory_order_relaxed)

/* --- what the training tells ------------------------------------------------------------------ */

static void on_step(void *context, const struct progress *progress, const uint64_t *row_count)
{
    struct scrape *s = context;
    const uint32_t tables = s->session->setup.graph.table_count;
    PUT(s->shared_step, progress->step);
    PUT(s->shared_epoch, progress->epoch);
    PUT(s->shared_examples, progress->examples);
    for (uint32_t t = 0; t < tables; t++) PUT(s->shared_rows[t], row_count[t]);
    PUT(s->shared_has_rows, true);
}

static void on_looked(void *context, const struct train_look *look)
{
    struct scrape *s = context;
    PUT(s->shared_wall_ns, look->times.wall_ns);
    for (int k = 0; k < WORK_COUNT; k++) PUT(s->shared_busy_ns[k], look->times.busy_ns[k]);
    PUT(s->shared_worker_count, look->times.worker_count);
    PUT(s->shared_pause_ns, look->pause_ns);
    if (look->is_over) PUT(s->shared_state, STATE_OVER);
}

/* Each call has the same figures. */
static void on_told(void *context, const struct report_progress *progress)
{
    struct scrape *s = context;
    const struct heads *heads = progress->heads;
    uint32_t count = 0;
    PUT(s->shared_loss, progress->loss);
    PUT(s->shared_rate, progress->rate);
    PUT(s->shared_window, progress->window);
    for (uint32_t h = 0; progress->window && h < heads->count; h++)
        for (uint32_t k = 0; k < heads->items[h].figure_count; k++, count++) {
            struct scrape_figure *f = &s->figure[count];
            if (GET(s->shared_figure_count) == 0) f->head = heads->items[h].name;
            if (GET(s->shared_figure_count) == 0) f->key = heads->items[h].figures[k].key;
            PUT(f->shared_value, heads->items[h].values[k]);
        }
    /* Release pairs with the acquire in figures_put(): a thread that sees the count sees the names. */
    if (count) atomic_store_explicit(&s->shared_figure_count, count, memory_order_release);
}

static void on_saved(void *context, const struct progress *progress, double seconds)
{
    struct scrape *s = context;
    PUT(s->shared_saves, GET(s->shared_saves) + 1);
    PUT(s->shared_saved_step, progress->step);
    PUT(s->shared_save_s, GET(s->shared_save_s) + seconds);
    PUT(s->shared_save_last_s, seconds);
}

static void on_begun(void *context, struct feed *feed, const struct progress *from)
{
    struct scrape *s = context;
    PUT(s->shared_step, from->step);
    PUT(s->shared_begun_step, from->step);
    PUT(s->shared_epoch, from->epoch);
    PUT(s->shared_examples, from->examples);
    pthread_mutex_lock(&s->lock);
    s->feed = feed;
    s->is_lent = true;
    pthread_mutex_unlock(&s->lock);
    PUT(s->shared_state, STATE_READY);
}

static void on_ending(void *context)
{
    struct scrape *s = context;
    PUT(s->shared_state, STATE_OVER);
    pthread_mutex_lock(&s->lock);
    s->is_lent = false;
    pthread_mutex_unlock(&s->lock);
}

/* --- figures ---------------------------------------------------------------------------------- */

static void phase_put(struct evbuffer *to, const char *name, const char *phase, double value)
{
    evbuffer_add_printf(to, "%s{phase=\"%s\"} %.9g\n", name, phase, value);
}

static void progress_put(struct scrape *s, struct evbuffer *to)
{
    exposition_u64(to, "heterps_train_step", "gauge", "Steps that are done, of all runs.", GET(s->shared_step));
    exposition_u64(to, "heterps_train_epoch", "gauge", "Passes over the data that are finished.", GET(s->shared_epoch));
    exposition_u64(to, "heterps_train_examples_total", "counter", "Examples of the steps that are done, of all runs.",
                   GET(s->shared_examples));
    if (isfinite(GET(s->shared_rate)))
        exposition_f64(to, "heterps_train_examples_per_second", "gauge", "Examples a second, as of the last report.",
                       GET(s->shared_rate));
    if (isfinite(GET(s->shared_loss)))
        exposition_f64(to, "heterps_train_loss", "gauge", "Mean loss of the examples of the last report.",
                       GET(s->shared_loss));
}

/* Figures of each loss, over examples predicted before training learned from them. */
static void figures_put(struct scrape *s, struct evbuffer *to)
{
    /* Acquire pairs with the release in on_told(). */
    const uint32_t count = atomic_load_explicit(&s->shared_figure_count, memory_order_acquire);
    if (count == 0) return;
    exposition_u64(to, "heterps_train_window", "gauge", "How many examples heterps_train_figure is over.",
                   GET(s->shared_window));
    exposition_head(to, "heterps_train_figure", "gauge",
                    "Progressive validation: a figure of a loss over the last examples, "
                    "each predicted before it was learned from.");
    for (uint32_t i = 0; i < count; i++)
        if (isfinite(GET(s->figure[i].shared_value)))
            evbuffer_add_printf(to, "heterps_train_figure{head=\"%s\",figure=\"%s\"} %.9g\n", s->figure[i].head,
                                s->figure[i].key, GET(s->figure[i].shared_value));
}

/* Where time went; a worker that does nothing else waits. */
static void times_put(struct scrape *s, struct evbuffer *to, const struct feed_counts *read)
{
    static const char *const works[WORK_COUNT] = {"forward", "backward", "update"};
    static const char seconds[] = "heterps_train_worker_seconds_total", share[] = "heterps_train_time_share",
                      reading[] = "heterps_train_reading_seconds_total";
    const double wall = (double)GET(s->shared_wall_ns) * NS, all = wall * (double)GET(s->shared_worker_count),
                 pause = (double)GET(s->shared_pause_ns) * NS, parsing = (double)read->read_ns * NS,
                 rows = (double)read->prepare_ns * NS;
    double busy = 0;
    exposition_f64(to, "heterps_train_seconds_total", "counter", "Time in which steps were made.", wall);
    exposition_f64(to, "heterps_train_pause_seconds_total", "counter",
                   "Time in which training stood still: to evaluate, to save, to plan anew.", pause);
    exposition_u64(to, "heterps_train_workers", "gauge", "Threads, or gangs of them, that compute.",
                   GET(s->shared_worker_count));
    exposition_head(to, seconds, "counter", "Where the time of all workers went, added up.");
    for (int k = 0; k < WORK_COUNT; k++) {
        const double own = (double)GET(s->shared_busy_ns[k]) * NS;
        phase_put(to, seconds, works[k], own);
        busy += own;
    }
    exposition_head(to, reading, "counter", "Where the time of the thread that reads went.");
    phase_put(to, reading, "parsing", parsing);
    phase_put(to, reading, "rows", rows);
    phase_put(to, reading, "waiting", (double)read->wait_ns * NS);
    if (!(wall > 0)) return;
    exposition_head(to, share, "gauge",
                    "Shares of the time since the first step: of the thread that reads, of the workers, and of all, "
                    "paused to evaluate and to save.");
    phase_put(to, share, "reading", fmin((parsing + rows) / wall, 1));
    phase_put(to, share, "computing", all > 0 ? fmin(busy / all, 1) : 0);
    phase_put(to, share, "waiting", all > busy ? (all - busy) / all : 0);
    phase_put(to, share, "paused", pause / (wall + pause));
}

static void data_put(struct evbuffer *to, const struct feed_counts *read)
{
    exposition_u64(to, "heterps_train_examples_read_total", "counter", "Examples that this run has read.",
                   read->example_count);
    exposition_u64(to, "heterps_train_bad_lines_total", "counter", "Malformed lines that were skipped.",
                   read->bad_count);
}

static void saves_put(struct scrape *s, struct evbuffer *to)
{
    exposition_u64(to, "heterps_train_saves_total", "counter", "Saves that are complete.", GET(s->shared_saves));
    exposition_f64(to, "heterps_train_save_seconds_total", "counter",
                   "Time that saves have taken, beside training or in its place.", GET(s->shared_save_s));
    if (GET(s->shared_saves) == 0) return;
    exposition_u64(to, "heterps_train_saved_step", "gauge", "Step of the last save.", GET(s->shared_saved_step));
    exposition_f64(to, "heterps_train_last_save_seconds", "gauge", "Time that the last save has taken.",
                   GET(s->shared_save_last_s));
}

/* --- figures of tables ------------------------------------------------------------------------ */

static uint64_t ram_of(const struct store_counts *c) { return c->touched - c->disk.fetched; }
static uint64_t fetched_of(const struct store_counts *c) { return c->disk.fetched; }
static uint64_t ram_rows_of(const struct store_counts *c) { return c->ram_rows; }
static uint64_t ssd_rows_of(const struct store_counts *c) { return c->disk_rows; }
static uint64_t reads_of(const struct store_counts *c) { return c->disk.read_count; }
static uint64_t read_bytes_of(const struct store_counts *c) { return c->disk.read_bytes; }
static uint64_t written_bytes_of(const struct store_counts *c) { return c->disk.write_bytes; }

static const struct {
    const char *name, *type, *help;
    uint64_t (*value)(const struct store_counts *counts);
} tiers[] = {
    {"heterps_train_ram_hits_total", "counter", "Rows of micro-batches that were found in RAM, or were new.", ram_of},
    {"heterps_train_ssd_hits_total", "counter", "Rows of micro-batches that were fetched from SSD.", fetched_of},
    {"heterps_train_ram_rows", "gauge", "Rows in RAM, of which some may be on SSD, too.", ram_rows_of},
    {"heterps_train_ssd_rows", "gauge", "Rows on SSD.", ssd_rows_of},
    {"heterps_train_ssd_reads_total", "counter", "Reads from SSD for rows.", reads_of},
    {"heterps_train_ssd_read_bytes_total", "counter", "Bytes read from SSD for rows.", read_bytes_of},
    {"heterps_train_ssd_written_bytes_total", "counter", "Bytes of rows written to SSD.", written_bytes_of},
};

static void tables_put(struct scrape *s, struct evbuffer *to)
{
    const struct graph *g = &s->session->setup.graph;
    const struct store *store = s->session->setup.model.store;
    if (g->table_count == 0 || !GET(s->shared_has_rows)) return;
    exposition_head(to, "heterps_train_rows", "gauge", "Rows of a table, as of the last step.");
    for (uint32_t t = 0; t < g->table_count; t++)
        evbuffer_add_printf(to, "heterps_train_rows{table=\"%s\"} %" PRIu64 "\n", graph_string(g, g->tables[t].name),
                            GET(s->shared_rows[t]));
    for (size_t i = 0; store_has_home(store) && i < sizeof tiers / sizeof *tiers; i++) {
        exposition_head(to, tiers[i].name, tiers[i].type, tiers[i].help);
        for (uint32_t t = 0; t < g->table_count; t++) {
            const struct store_counts counts = store_counts_told(store, t);
            evbuffer_add_printf(to, "%s{table=\"%s\"} %" PRIu64 "\n", tiers[i].name, graph_string(g, g->tables[t].name),
                                tiers[i].value(&counts));
        }
    }
}

/* For each other node, by rank: whether the step waits for it now, and the time of all rounds
 * whose last part was this node's. */
static void others_put(struct node *node, struct evbuffer *to)
{
    static const char waits[] = "heterps_train_waits_for", last[] = "heterps_train_round_last_seconds_total";
    const struct reduce_rounds rounds = reduce_rounds(node_reduce(node));
    const uint64_t mask = node_waits(node);
    exposition_f64(to, "heterps_train_round_seconds_total", "counter",
                   "Time in which rounds of sums and values were under way, "
                   "from the own part to the last of the others'.",
                   (double)rounds.ns * 1e-9);
    exposition_head(to, last, "counter", "Time of the rounds whose last part was this node's.");
    for (uint32_t n = 0; n < node_count(node); n++)
        if (n != node_index(node))
            evbuffer_add_printf(to, "%s{node=\"%u\"} %.9g\n", last, node_rank(node, n),
                                (double)rounds.last_ns[n] * 1e-9);
    exposition_head(to, waits, "gauge",
                    "Whether the step was waiting for this node at the last look: four times a second.");
    for (uint32_t n = 0; n < node_count(node); n++)
        if (n != node_index(node))
            evbuffer_add_printf(to, "%s{node=\"%u\"} %u\n", waits, node_rank(node, n),
                                (unsigned)(mask >> node_rank(node, n) & 1));
}

static void nodes_put(struct scrape *s, struct node *node, struct evbuffer *to)
{
    if (node == NULL) return;
    struct reduce *reduce = node_reduce(node);
    const struct reduce_rows rows = reduce_rows(reduce);
    const uint64_t steps = GET(s->shared_step) - GET(s->shared_begun_step);
    exposition_u64(to, "heterps_train_rank", "gauge", "This node's rank.", node_rank(node, node_index(node)));
    exposition_u64(to, "heterps_train_nodes", "gauge", "Nodes of the training.", node_count(node));
    exposition_u64(to, "heterps_train_sent_bytes_total", "counter", "Bytes that this node has sent to others.",
                   reduce_sent_bytes(reduce));
    exposition_u64(
        to, "heterps_train_sent_bytes_least_total", "counter",
        "The least bytes that this node had to send for the steps done: sums and values of the dense part, keys, rows.",
        steps * reduce_least_bytes(reduce) + rows.least_bytes + reduce_stream_bytes(reduce));
    exposition_u64(to, "heterps_train_asked_rows_total", "counter",
                   "Rows that all nodes have asked this node for, itself included.", rows.asked);
    exposition_u64(to, "heterps_train_early_rows_total", "counter",
                   "Of these rows, those sent before the update of the step in front.", rows.early);
    others_put(node, to);
}

static void doing_put(struct evbuffer *to)
{
    exposition_head(to, "heterps_train_doing", "gauge", "How many threads, or rounds between nodes, do this now.");
    for (int i = 0; i < DOING_COUNT; i++)
        evbuffer_add_printf(to, "heterps_train_doing{what=\"%s\"} %u\n", doing_name((enum doing)i),
                            doing_count((enum doing)i));
}

static void metrics_put(void *context, struct evbuffer *to)
{
    struct scrape *s = context;
    exposition_build(to);
    exposition_u64(to, "heterps_resident_memory_bytes", "gauge", "Resident memory of the process.",
                   memory_resident_bytes());
    exposition_u64(to, "heterps_resident_memory_max_bytes", "gauge", "The largest resident memory so far.",
                   memory_resident_bytes_max());
    exposition_u64(to, "heterps_planned_memory_bytes", "gauge", "The plan of memory.", memory_planned_bytes());
    saves_put(s, to);
    doing_put(to);
    pthread_mutex_lock(&s->lock);
    if (s->is_lent && s->feed) {
        const struct feed_counts read = feed_counts(s->feed);
        progress_put(s, to);
        figures_put(s, to);
        times_put(s, to, &read);
        data_put(to, &read);
        tables_put(s, to);
    }
    if (s->is_lent) nodes_put(s, s->session->node, to);
    pthread_mutex_unlock(&s->lock);
}

/* --- requests --------------------------------------------------------------------------------- */

static void healthz(struct scrape *s, struct evhttp_request *request) { http_reply_text(s->http, request, 200, "ok"); }

static void readyz(struct scrape *s, struct evhttp_request *request)
{
    const uint32_t state = GET(s->shared_state);
    if (state == STATE_BEFORE)
        http_reply_text(s->http, request, 503, "training has not begun yet");
    else if (state == STATE_OVER || stop_requested())
        http_reply_text(s->http, request, 503, "training is ending");
    else
        http_reply_text(s->http, request, 200, "ok");
}

static void metrics(struct scrape *s, struct evhttp_request *request)
{
    if (access_allows(s->http, s->tokens, request)) exposition_reply(s->http, request, metrics_put, s);
}

static const struct {
    const char *path;
    void (*answer)(struct scrape *scrape, struct evhttp_request *request);
} routes[] = {{"/metrics", metrics}, {"/healthz", healthz}, {"/readyz", readyz}};

static void handle(void *context, struct evhttp_request *request)
{
    struct scrape *s = context;
    const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(request);
    const char *path = uri ? evhttp_uri_get_path(uri) : NULL;
    for (size_t i = 0; path && i < sizeof routes / sizeof *routes; i++) {
        if (strcmp(path, routes[i].path) != 0) continue;
        if (evhttp_request_get_command(request) != EVHTTP_REQ_POST) {
            routes[i].answer(s, request);
            return;
        }
        evhttp_add_header(evhttp_request_get_output_headers(request), "Allow", "GET, HEAD");
        http_reply_text(s->http, request, 405, "this path takes GET");
        return;
    }
    http_reply_text(s->http, request, 404, "there is nothing here; GET /metrics has figures of the training");
}

static void gone(void *context) { (void)context; }

/* --- opening and closing ---------------------------------------------------------------------- */

static void on_end(evutil_socket_t unused, short what, void *context)
{
    (void)unused, (void)what;
    event_base_loopbreak(((struct scrape *)context)->base);
}

static void *scrape_main(void *context)
{
    struct scrape *s = context;
    steady_leave_out();
    event_base_dispatch(s->base);
    return NULL;
}

/* The address for this rank; *text is malloc'd. http_open refuses a text that is no address. */
static status address_make(char **text, const struct scrape_options *o)
{
    const char *colon = strrchr(o->listen, ':');
    uint64_t port;
    const bool is_port = colon && cfg_parse_u64(colon + 1, &port) && port <= UINT16_MAX;
    if (!is_port || port == 0 || o->rank == 0) return heap_text(text, "%s", o->listen);
    if (port + o->rank > UINT16_MAX)
        FAIL(USAGE, FLAG " %s: node %u would listen at the port plus its rank, which is above %u", o->listen, o->rank,
             UINT16_MAX);
    return heap_text(text, "%.*s:%" PRIu64, (int)(colon - o->listen), o->listen, port + o->rank);
}

static status listen_begin(struct scrape *s, const struct scrape_options *o, const char *listen)
{
    TRY(access_open(&s->tokens,
                    &(struct access_options){
                        .flag = FLAG, .listen = listen, .token_file = o->token_file, .insecure = o->insecure}));
    s->base = http_base_new(false);
    if (s->base == NULL) FAIL(SYSTEM, "libevent cannot make an event base");
    s->end_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->end = s->end_fd >= 0 ? event_new(s->base, s->end_fd, EV_READ, on_end, s) : NULL;
    if (s->end == NULL || event_add(s->end, NULL) != 0) FAIL(MEMORY, "no memory for the events of " FLAG);
    TRY(http_open(&s->http, &(struct http_options){.base = s->base,
                                                   .flag = FLAG,
                                                   .listen = listen,
                                                   .connection_max = CONNECTIONS,
                                                   .idle_s = IDLE_S,
                                                   .patience_s = PATIENCE_S,
                                                   .body_max = BODY_BYTES,
                                                   .held_max = HELD_BYTES,
                                                   .handle = handle,
                                                   .gone = gone,
                                                   .context = s}));
    return ST_OK;
}

void scrape_memory_note(void) { memory_note("http", HELD_BYTES + THREAD_STACK_BYTES); }

/* Listens, but answers nobody yet. */
static status scrape_make(struct scrape **out, const struct scrape_options *o)
{
    struct scrape *s = aligned_alloc(_Alignof(struct scrape), sizeof *s);
    char *listen = NULL;
    *out = NULL;
    if (s == NULL) FAIL(MEMORY, "no memory for " FLAG);
    memset(s, 0, sizeof *s);
    s->end_fd = -1;
    PUT(s->shared_loss, (double)NAN);
    PUT(s->shared_rate, (double)NAN);
    pthread_mutex_init(&s->lock, NULL);
    status st = address_make(&listen, o);
    if (st == ST_OK) st = listen_begin(s, o, listen);
    free(listen);
    if (st != ST_OK) {
        scrape_close(s);
        return st;
    }
    *out = s;
    return ST_OK;
}

status scrape_check(const struct scrape_options *o)
{
    struct scrape *s;
    TRY(scrape_make(&s, o));
    scrape_close(s);
    return ST_OK;
}

status scrape_open(struct scrape **out, const struct scrape_options *o)
{
    struct scrape *s;
    *out = NULL;
    TRY(scrape_make(&s, o));
    const int error = thread_start(&s->thread, scrape_main, s);
    s->is_started = error == 0;
    if (error) {
        scrape_close(s);
        FAIL(SYSTEM, "cannot start a thread for " FLAG ": %s", strerror(error));
    }
    log_info("metrics  http://%s/metrics", http_address(s->http));
    log_event_begin("metrics");
    log_event_text("address", http_address(s->http));
    log_event_end();
    *out = s;
    return ST_OK;
}

void scrape_close(struct scrape *s)
{
    static const uint64_t one = 1;
    if (s == NULL) return;
    if (s->is_started) {
        CHECK(write(s->end_fd, &one, sizeof one) == sizeof one);
        pthread_join(s->thread, NULL);
    }
    http_close(s->http);
    if (s->end) event_free(s->end);
    if (s->end_fd >= 0) close(s->end_fd);
    if (s->base) event_base_free(s->base);
    pthread_mutex_destroy(&s->lock);
    free(s->shared_rows);
    free(s->figure);
    free(s->tokens);
    free(s);
}

status scrape_watch(struct scrape *s, const struct session *session, const struct train_watch **watch)
{
    const struct graph *g = &session->setup.graph;
    uint32_t heads = 0;
    for (uint32_t i = graph_head_next(g, 0); i < g->forward_count; i = graph_head_next(g, i + 1)) heads++;
    s->session = session;
    s->shared_rows = calloc((size_t)g->table_count + 1, sizeof *s->shared_rows);
    s->figure = calloc((size_t)heads * HEAD_FIGURES_MAX + 1, sizeof *s->figure);
    if (s->shared_rows == NULL || s->figure == NULL)
        FAIL(MEMORY, "no memory for figures of %u tables and %u heads", g->table_count, heads);
    s->watch = (struct train_watch){.context = s,
                                    .begun = on_begun,
                                    .ending = on_ending,
                                    .saved = on_saved,
                                    .told = on_told,
                                    .step_done = on_step,
                                    .looked = on_looked};
    *watch = &s->watch;
    return ST_OK;
}

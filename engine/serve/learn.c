/* Learning over HTTP: takes labelled lines, or labels for lines that came before,
 * and tells how far learning is. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <event2/keyvalq_struct.h>
#include <sys/stat.h>

#include "cfg/key.h"
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/serve/join.h"
#include "engine/serve/labelled.h"
#include "engine/serve/learner.h"
#include "engine/serve/server.h"
#include "io/store/filed.h"

#define SECOND_NS UINT64_C(1000000000)

struct teaching {
    struct counter counter;
    struct learner *learner;
    struct join *join; /* NULL: no line waits for labels */
    struct event *answers;
};

/* --- opening and closing ---------------------------------------------------------------------- */

static void on_answers(evutil_socket_t unused, short what, void *context)
{
    struct teaching *t = context;
    (void)unused, (void)what;
    request_pieces(&t->counter);
}

/* Refuses a directory in which another model of this server learns: each would replace the other's saves. */
static status alone_check(const struct served *m)
{
    const struct server *s = m->server;
    struct stat own, other;
    for (const struct served *before = s->models; before < m; before++)
        if (stat(m->model, &own) == 0 && stat(before->model, &other) == 0 && own.st_dev == other.st_dev &&
            own.st_ino == other.st_ino)
            FAIL(USAGE,
                 "--learn: expected a directory of its own for each model, found %s for both %s and %s, "
                 "which would replace each other's saves; copy it",
                 m->model, before->name, m->name);
    return ST_OK;
}

static status teaching_open(struct served *m, struct teaching *t)
{
    const struct serve_options *o = m->server->options;
    const struct settings *settings = &servant_setup(m->version->servant)->settings;
    const struct store *store = servant_setup(m->version->servant)->model.store;
    if (store_has_home(store) && !filed_is(store_home(store)))
        FAIL(USAGE,
             "--learn: expected rows in memory, found store.ssd: a directory of rows on disk is one run's alone");
    TRY(alone_check(m));
    TRY(learner_open(&t->learner, &(struct learner_options){.graph = m->graph,
                                                            .model = m->model,
                                                            .set = o->set,
                                                            .set_count = o->set_count,
                                                            .threads = o->learn_threads,
                                                            .isa = o->isa}));
    t->counter = (struct counter){.model = m, .desk = learner_desk(t->learner)};
    if (settings->serve_join) TRY(join_open(&t->join, settings->serve_join * SECOND_NS, settings->serve_join_ram));
    if (t->join) memory_note("lines that wait for labels", settings->serve_join_ram);
    t->answers = event_new(m->server->base, desk_fd(t->counter.desk), EV_READ | EV_PERSIST, on_answers, t);
    if (t->answers == NULL || event_add(t->answers, NULL) != 0) FAIL(MEMORY, "no memory for the events of learning");
    return ST_OK;
}

status learn_open(struct served *m)
{
    m->teaching = calloc(1, sizeof *m->teaching);
    if (m->teaching == NULL) FAIL(MEMORY, "no memory for learning");
    return teaching_open(m, m->teaching);
}

void learn_close(struct served *m)
{
    struct teaching *t = m->teaching;
    if (t == NULL) return;
    if (t->answers) event_free(t->answers);
    const status st = learner_close(t->learner, request_drop);
    if (st != ST_OK && !failure_is(&m->server->result)) failure_keep(&m->server->result, st);
    join_close(t->join);
    free(t);
    m->teaching = NULL;
}

struct counter *learn_counter(const struct served *m)
{
    return m->teaching && m->teaching->learner ? &m->teaching->counter : NULL;
}

bool learn_is_idle(const struct served *m) { return m->teaching == NULL || learner_is_idle(m->teaching->learner); }

/* --- ids -------------------------------------------------------------------------------------- */

/* What a request's query says about a key. BAD: it cannot be read, or the value is empty or too long, so
 * the client's intent is unknown. */
enum said { SAID_NOTHING, SAID_VALUE, SAID_BAD };
static enum said query_get(struct evhttp_request *request, const char *key, char *value, size_t bytes)
{
    struct evkeyvalq pairs;
    const char *query = evhttp_uri_get_query(evhttp_request_get_evhttp_uri(request));
    if (query == NULL) return SAID_NOTHING;
    if (evhttp_parse_query_str(query, &pairs) != 0) return SAID_BAD;
    const char *found = evhttp_find_header(&pairs, key);
    const enum said said = found == NULL ? SAID_NOTHING : *found != 0 && strlen(found) < bytes ? SAID_VALUE : SAID_BAD;
    if (said == SAID_VALUE) strcpy(value, found);
    evhttp_clear_headers(&pairs);
    return said;
}

const char *learn_id(struct evhttp_request *request, char id[LEARN_ID_BYTES])
{
    return query_get(request, "id", id, LEARN_ID_BYTES) == SAID_VALUE ? id : NULL;
}

static size_t body_max(const struct served *m) { return servant_setup(m->version->servant)->settings.serve_body; }

void learn_keep(struct served *m, const char *id, struct evbuffer *lines)
{
    struct teaching *t = m->teaching;
    if (t == NULL || t->join == NULL || id == NULL || *id == 0 || strlen(id) >= LEARN_ID_BYTES) return;
    const size_t bytes = evbuffer_get_length(lines);
    if (bytes > body_max(m)) return; /* the request is then refused */
    char *text = join_put(t->join, id, bytes, clock_ns());
    if (text) evbuffer_copyout(lines, text, bytes);
}

/* --- lines ------------------------------------------------------------------------------------ */

static void learn_finish(struct server *s, struct request *r, const struct ask *ask)
{
    request_headers(r, ask);
    http_reply(s->http, r->http, 200, "text/plain; charset=utf-8", r->lines);
}

/* Puts the lines on the desk. False: it cannot, and the request is answered. bytes_max:
 * of the lines; 0: serve.body. */
static bool lines_learn(struct server *s, struct served *m, struct evhttp_request *request, struct evbuffer *lines,
                        size_t bytes_max)
{
    struct learner_state state;
    char after[24];
    struct request_end end = {.finish = learn_finish, .bytes_max = bytes_max};
    learner_look(m->teaching->learner, &state);
    if (!state.is_learning) {
        http_reply_text(s->http, request, 503, "learning has ended; the log says why");
        return false;
    }
    const enum said said = query_get(request, "after", after, sizeof after);
    end.wants.has_after = said == SAID_VALUE;
    if (said == SAID_BAD || (said == SAID_VALUE && !cfg_parse_u64(after, &end.wants.after))) {
        http_reply_text(s->http, request, 400, "after: expected a sequence number, found \"%.20s\"",
                        said == SAID_VALUE ? after : "");
        return false;
    }
    return request_put_at(s, &m->teaching->counter, request, lines, end);
}

/* Learns from labels for the lines that came under an id. */
static void labels_learn(struct server *s, struct served *m, struct evhttp_request *request, const char *id)
{
    struct teaching *t = m->teaching;
    struct evbuffer *body = evhttp_request_get_input_buffer(request), *lines = evbuffer_new();
    const size_t label_bytes = evbuffer_get_length(body);
    const char *labels = label_bytes ? (const char *)evbuffer_pullup(body, -1) : "";
    size_t bytes = 0;
    const char *text = t->join ? join_find(t->join, id, clock_ns(), &bytes) : NULL;
    if (text == NULL)
        http_reply_text(s->http, request, 404,
                        "no lines wait under the id %.128s: they came more than serve.join seconds ago, "
                        "were learned from, or never came",
                        id);
    else if (label_bytes > body_max(m))
        http_reply_text(s->http, request, 413, "a request has at most serve.body = %zu bytes, this one %zu",
                        body_max(m), label_bytes);
    else if (lines == NULL || labels == NULL)
        http_reply_text(s->http, request, 503, "no memory for labels");
    else if (labelled_put(servant_setup(m->version->servant), text, bytes, labels, label_bytes, lines) != ST_OK)
        http_reply_text(s->http, request, 400, "%s", status_message());
    else if (lines_learn(s, m, request, lines, SIZE_MAX)) /* lines and labels are each within serve.body */
        join_take(t->join, id);
    if (lines) evbuffer_free(lines);
}

static bool learns(struct server *s, const struct served *m, struct evhttp_request *request)
{
    if (m->teaching == NULL) http_reply_text(s->http, request, 404, "no model learns here; start serve with --learn");
    return m->teaching != NULL;
}

void learn_post(struct server *s, struct served *m, struct evhttp_request *request)
{
    char id[LEARN_ID_BYTES], after[24];
    if (!learns(s, m, request) || request_is_packed(s, request, http_reply_text)) return;
    const enum said said = query_get(request, "id", id, sizeof id);
    if (s->is_draining)
        http_reply_text(s->http, request, 503, "the server is ending");
    else if (said == SAID_BAD)
        http_reply_text(s->http, request, 400, "id: expected 1 to %zu bytes, in a query KEY=VALUE&KEY=VALUE",
                        sizeof id - 1);
    else if (said == SAID_VALUE && query_get(request, "after", after, sizeof after) != SAID_NOTHING)
        http_reply_text(s->http, request, 400,
                        "after: labels for an id have no place in a sequence; give id or after, not both");
    else if (said == SAID_VALUE)
        labels_learn(s, m, request, id);
    else
        (void)lines_learn(s, m, request, evhttp_request_get_input_buffer(request), 0);
}

void learn_position(struct server *s, struct served *m, struct evhttp_request *request)
{
    struct learner_state state;
    if (!learns(s, m, request)) return;
    learner_look(m->teaching->learner, &state);
    http_reply_text(s->http, request, 200, "%" PRIu64, state.saved);
}

/* --- figures ---------------------------------------------------------------------------------- */

static uint64_t learning_of(const struct learner_state *at, const struct join_counts *j)
{
    return (void)j, at->is_learning;
}
static uint64_t read_of(const struct learner_state *at, const struct join_counts *j) { return (void)j, at->read; }
static uint64_t learned_of(const struct learner_state *at, const struct join_counts *j) { return (void)j, at->learned; }
static uint64_t saved_of(const struct learner_state *at, const struct join_counts *j) { return (void)j, at->saved; }
static uint64_t step_of(const struct learner_state *at, const struct join_counts *j) { return (void)j, at->step; }
static uint64_t bad_of(const struct learner_state *at, const struct join_counts *j) { return (void)j, at->bad_lines; }
static uint64_t window_of(const struct learner_state *at, const struct join_counts *j) { return (void)j, at->window; }
static uint64_t waiting_of(const struct learner_state *at, const struct join_counts *j) { return (void)at, j->count; }
static uint64_t joined_of(const struct learner_state *at, const struct join_counts *j) { return (void)at, j->taken; }
static uint64_t expired_of(const struct learner_state *at, const struct join_counts *j) { return (void)at, j->expired; }
static uint64_t crowded_of(const struct learner_state *at, const struct join_counts *j) { return (void)at, j->crowded; }

static const struct {
    const char *name, *type, *help;
    uint64_t (*value)(const struct learner_state *state, const struct join_counts *join);
} numbers[] = {
    {"heterps_learning", "gauge", "1 while the model learns, 0 after a failure.", learning_of},
    {"heterps_learn_read", "gauge", "Sequence number of the last example that was read.", read_of},
    {"heterps_learn_learned", "gauge", "Sequence number of the last example that was learned from.", learned_of},
    {"heterps_learn_saved", "gauge", "Sequence number of the last example of the last save.", saved_of},
    {"heterps_learn_step", "gauge", "Steps of training that are done.", step_of},
    {"heterps_learn_bad_lines_total", "counter", "Malformed lines that were to be learned from.", bad_of},
    {"heterps_learn_window", "gauge", "Examples that the figures of progressive validation are over.", window_of},
    {"heterps_join_waiting", "gauge", "Requests whose lines wait for labels.", waiting_of},
    {"heterps_join_taken_total", "counter", "Requests whose labels came.", joined_of},
    {"heterps_join_expired_total", "counter", "Requests whose labels did not come in time.", expired_of},
    {"heterps_join_crowded_total", "counter", "Requests whose lines made room for others.", crowded_of},
};

/* Writes the figures of the model's losses. */
static void figures_put(const struct served *m, struct evbuffer *to)
{
    struct learner *learner = m->teaching->learner;
    struct learner_figure *figure = calloc((size_t)learner_figure_max(learner) + 1, sizeof *figure);
    const uint32_t count = figure ? learner_figures(learner, figure) : 0;
    for (const struct learner_figure *f = figure; f < figure + count; f++)
        if (isfinite(f->value))
            evbuffer_add_printf(to, "heterps_learn_figure{model=\"%s\",head=\"%s\",figure=\"%s\"} %.9g\n", m->name,
                                f->head, f->key, f->value);
    free(figure);
}

static void looks_put(const struct server *s, struct learner_state *state, struct join_counts *join,
                      struct evbuffer *to)
{
    for (uint32_t index = 0; index < s->model_count; index++) {
        const struct teaching *t = s->models[index].teaching;
        learner_look(t->learner, &state[index]);
        join[index] = t->join ? join_counts(t->join, clock_ns()) : (struct join_counts){0};
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        exposition_head(to, numbers[i].name, numbers[i].type, numbers[i].help);
        for (uint32_t index = 0; index < s->model_count; index++)
            evbuffer_add_printf(to, "%s{model=\"%s\"} %" PRIu64 "\n", numbers[i].name, s->models[index].name,
                                numbers[i].value(&state[index], &join[index]));
    }
    exposition_head(to, "heterps_learn_figure", "gauge",
                    "Progressive validation: a figure of a loss over the last examples, "
                    "each predicted before it was learned from.");
    for (uint32_t index = 0; index < s->model_count; index++) figures_put(&s->models[index], to);
}

void learn_metrics(const struct server *s, struct evbuffer *to)
{
    if (!s->options->learn) return;
    struct learner_state *state = calloc(s->model_count, sizeof *state);
    struct join_counts *join = calloc(s->model_count, sizeof *join);
    if (state && join) looks_put(s, state, join, to);
    free(state);
    free(join);
}

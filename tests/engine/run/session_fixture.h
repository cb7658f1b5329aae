/* What the tests of a training share: sessions of a small model, opened from a graph file and assignments as
 * a command opens them, and the events that are written meanwhile. A session, and all that it does, is in a
 * scope of its own. Include after cmocka.h. */
#ifndef HETERPS_TESTS_ENGINE_RUN_SESSION_FIXTURE_H
#define HETERPS_TESTS_ENGINE_RUN_SESSION_FIXTURE_H

#include <jansson.h>
#include <sys/mman.h>

#include "engine/base/log.h"
#include "engine/base/memory.h"
#include "engine/base/scope.h"
#include "engine/run/session.h"
#include "tests/engine/fixture_clicks.h"

/* Dense part: 5 units of 4 fields of 4 floats and 3 numbers, and y: 100 + 6 parameters,
 * each with 2 floats of state. */
static const char session_text[] = "[model]\nname = small\n"
                                   "[data]\ndense = I1..I3\nsparse = C1..C4\n"
                                   "[table emb]\ndim = 4\noptimizer = adagrad 0.05\n"
                                   "[embedding e]\ntable = emb\ninput = C1..C2\npool = sum\n"
                                   "[embedding w]\ntable = emb\ninput = C3..C4\npool = sum\n"
                                   "[concat x]\ninput = e, w, dense\n"
                                   "[fc h1]\ninput = x\nunits = 5\nactivation = relu\n"
                                   "[fc y]\ninput = h1\nunits = 1\n"
                                   "[loss bce]\ninput = y\nlabel = label\n"
                                   "[train]\nbatch = 32\noptimizer = adam 0.01\n"
                                   "[store]\nram = 1MiB\n";

FIXTURE static int session_fixture_open(void **state)
{
    struct graph graph;
    (void)state;
    if (fixture_directory_make("test_session") != 0) return -1;
    alarm(300); /* what hangs ends the program, and so fails the test */
    assert_ok(graph_compile(&graph, "small.cfg", session_text, sizeof session_text - 1, NULL, 0, NULL));
    assert_ok(graph_write(&graph, fixture_path("small.bin")));
    graph_close(&graph);
    return 0;
}

/* The same, with data of `examples` examples and 100 others to evaluate on;
 * their paths have room for 256 bytes. */
FIXTURE static int session_fixture_open_data(void **state, uint32_t examples, char *data_path, char *eval_path)
{
    if (session_fixture_open(state) != 0) return -1;
    snprintf(data_path, 256, "%s", fixture_path("data.tsv"));
    snprintf(eval_path, 256, "%s", fixture_path("eval.tsv"));
    fixture_data(data_path, 0, examples, NULL);
    fixture_data(eval_path, 10000, 100, NULL);
    return 0;
}

FIXTURE static int session_fixture_close(void **state)
{
    (void)state;
    return fixture_directory_remove();
}

/* A session, the scope it is in, and what has been written since it was opened. */
struct opened {
    struct session session;
    struct scope *scope, *before;
    char graph_path[256];
    int out_saved, err_saved, out, err;
    char text[1 << 16]; /* of standard error, once it is closed */
    json_t *events;     /* those of standard output, likewise   */
};

/* What is said is kept from here on, up to opened_end. */
FIXTURE static void opened_keep(struct opened *o)
{
    fflush(NULL);
    o->out_saved = dup(STDOUT_FILENO);
    o->err_saved = dup(STDERR_FILENO);
    o->out = memfd_create("out", MFD_CLOEXEC);
    o->err = memfd_create("err", MFD_CLOEXEC);
    assert_true(o->out_saved >= 0 && o->err_saved >= 0 && o->out >= 0 && o->err >= 0);
    dup2(o->out, STDOUT_FILENO);
    dup2(o->err, STDERR_FILENO);
}

/* Opens the small model for training on two threads with assignments, up to NULL, and by the plan of a file,
 * unless that is NULL; what it says is kept from here on. */
FIXTURE static void opened_begin_planned(struct opened *o, const char *const *set, enum log_format format,
                                         const char *plan)
{
    uint32_t count = 0;
    memset(o, 0, sizeof *o);
    while (set && set[count]) count++;
    snprintf(o->graph_path, sizeof o->graph_path, "%s", fixture_path("small.bin"));
    assert_ok(scope_open(&o->scope));
    o->before = scope_enter(o->scope);
    log_open(format, 0);
    const struct session_options options = {
        .setup = {.graph_path = o->graph_path, .set = set, .set_count = count, .training = true},
        .crew = {.threads = 2, .share = true},
        .plan = plan};
    assert_ok(session_open(&o->session, &options));
    opened_keep(o);
}

FIXTURE static void opened_begin(struct opened *o, const char *const *set, enum log_format format)
{
    opened_begin_planned(o, set, format, NULL);
}

/* Ends the keeping: what has been said is in o->text, and its events are in o->events. */
FIXTURE static void opened_end(struct opened *o)
{
    static char lines[1 << 20];
    fflush(NULL);
    dup2(o->out_saved, STDOUT_FILENO);
    dup2(o->err_saved, STDERR_FILENO);
    close(o->out_saved);
    close(o->err_saved);
    ssize_t out_bytes = pread(o->out, lines, sizeof lines - 1, 0),
            err_bytes = pread(o->err, o->text, sizeof o->text - 1, 0);
    close(o->out);
    close(o->err);
    assert_true(out_bytes >= 0 && err_bytes >= 0);
    lines[out_bytes] = 0;
    o->text[err_bytes] = 0;
    o->events = json_array();
    for (char *line = lines, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        json_error_t error;
        *end = 0;
        json_t *event = json_loads(line, 0, &error);
        if (event == NULL) fail_msg("%s: %s", error.text, line);
        assert_int_equal(json_array_append_new(o->events, event), 0);
    }
}

/* Nothing of it is left in the plan of memory but notes, or closing the scope stops the program. */
FIXTURE static void opened_close(struct opened *o)
{
    json_decref(o->events);
    session_close(&o->session);
    scope_enter(o->before);
    scope_close(o->scope);
}

/* The steps of the events of that name: "3 6 9"; in one of two buffers, in turn. */
FIXTURE static const char *event_steps(const struct opened *o, const char *name)
{
    static char texts[2][512];
    static int next;
    char *text = texts[next = !next];
    size_t index, end = 0;
    json_t *event;
    text[0] = 0;
    json_array_foreach(o->events, index, event)
    {
        if (strcmp(json_string_value(json_object_get(event, "event")), name) != 0) continue;
        end += (size_t)snprintf(text + end, sizeof texts[0] - end, "%s%lld", end ? " " : "",
                                json_integer_value(json_object_get(event, "step")));
    }
    return text;
}

/* The last event of that name. */
FIXTURE static json_t *event_last(const struct opened *o, const char *name)
{
    for (size_t i = json_array_size(o->events); i-- > 0;) {
        json_t *event = json_array_get(o->events, i);
        if (strcmp(json_string_value(json_object_get(event, "event")), name) == 0) return event;
    }
    fail_msg("there is no event %s", name);
    return NULL;
}
FIXTURE static double event_number(const struct opened *o, const char *name, const char *field)
{
    json_t *value = json_object_get(event_last(o, name), field);
    if (!json_is_number(value)) fail_msg("the event %s has no number %s", name, field);
    return json_number_value(value);
}
FIXTURE static const char *event_text(const struct opened *o, const char *name, const char *field)
{
    json_t *value = json_object_get(event_last(o, name), field);
    if (!json_is_string(value)) fail_msg("the event %s has no text %s", name, field);
    return json_string_value(value);
}

/* Stderr has this piece. */
FIXTURE static void assert_told(const struct opened *o, const char *part)
{
    if (strstr(o->text, part) == NULL) fail_msg("\"%s\" is not in: %s", part, o->text);
}

#endif

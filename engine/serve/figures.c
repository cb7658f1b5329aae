/* Counts and writes the server's figures. */
#include "engine/serve/figures.h"

#include <inttypes.h>
#include <math.h>

#include "engine/base/memory.h"
#include "engine/serve/server.h"

static const double bounds[FIGURES_BOUNDS] = {0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02,
                                              0.05,   0.1,    0.2,   0.5,   1,     5};

void figures_add(struct figures *f, uint64_t nanoseconds, uint64_t bad_lines)
{
    const double seconds = (double)nanoseconds * 1e-9;
    uint32_t i = 0;
    while (i < FIGURES_BOUNDS && seconds > bounds[i]) i++;
    f->within[i]++;
    f->requests++;
    f->bad_lines += bad_lines;
    f->seconds += seconds;
}

double figures_quantile(const struct figures *f, double share)
{
    uint64_t sum = 0;
    if (f->requests == 0) return (double)NAN;
    for (uint32_t i = 0; i < FIGURES_BOUNDS; i++) {
        sum += f->within[i];
        if ((double)sum >= share * (double)f->requests) return bounds[i];
    }
    return (double)INFINITY;
}

/* --- Prometheus ------------------------------------------------------------------------------- */

/* Writes one number for each model. */
static void of_models(const struct server *s, struct evbuffer *to, const char *name, const char *type, const char *help,
                      uint64_t (*value)(const struct served *model))
{
    exposition_head(to, name, type, help);
    for (uint32_t i = 0; i < s->model_count; i++)
        evbuffer_add_printf(to, "%s{model=\"%s\"} %" PRIu64 "\n", name, s->models[i].name, value(&s->models[i]));
}

static uint64_t waiting_of(const struct served *m) { return versions_waiting(m); }
static uint64_t step_of(const struct served *m) { return servant_setup(m->version->servant)->model.progress.step; }
static uint64_t examples_of(const struct served *m) { return versions_counts(m).examples; }
static uint64_t batches_of(const struct served *m) { return versions_counts(m).batches; }
static uint64_t bad_lines_of(const struct served *m) { return m->figures.bad_lines; }

static void seconds_of_models(const struct server *s, struct evbuffer *to)
{
    static const char name[] = "heterps_request_duration_seconds";
    exposition_head(to, name, "histogram", "From a request's last byte to its answer.");
    for (uint32_t index = 0; index < s->model_count; index++) {
        const struct figures *f = &s->models[index].figures;
        const char *model = s->models[index].name;
        uint64_t sum = 0;
        for (uint32_t i = 0; i < FIGURES_BOUNDS; i++) {
            sum += f->within[i];
            evbuffer_add_printf(to, "%s_bucket{model=\"%s\",le=\"%g\"} %" PRIu64 "\n", name, model, bounds[i], sum);
        }
        evbuffer_add_printf(to, "%s_bucket{model=\"%s\",le=\"+Inf\"} %" PRIu64 "\n", name, model, f->requests);
        evbuffer_add_printf(to, "%s_sum{model=\"%s\"} %.9g\n", name, model, f->seconds);
        evbuffer_add_printf(to, "%s_count{model=\"%s\"} %" PRIu64 "\n", name, model, f->requests);
    }
}

void figures_metrics(void *context, struct evbuffer *to)
{
    const struct server *s = context;
    int code;
    uint64_t count;
    exposition_build(to);
    exposition_head(to, "heterps_http_answers_total", "counter", "Answers by their code.");
    for (uint32_t i = 0; http_answers(s->http, i, &code, &count); i++)
        evbuffer_add_printf(to, "heterps_http_answers_total{code=\"%d\"} %" PRIu64 "\n", code, count);
    exposition_u64(to, "heterps_http_connections", "gauge", "Open connections.", http_connection_count(s->http));
    exposition_u64(to, "heterps_http_connections_max", "gauge", "Connections that may be open.",
                   http_connection_max(s->http));
    exposition_u64(to, "heterps_http_held_bytes", "gauge", "Requests and answers in memory.", http_held_bytes(s->http));
    exposition_u64(to, "heterps_resident_memory_bytes", "gauge", "Resident memory of the process.",
                   memory_resident_bytes());
    of_models(s, to, "heterps_requests_waiting", "gauge", "Requests that are worked on or wait for it.", waiting_of);
    of_models(s, to, "heterps_model_step", "gauge", "Step of training of the model that is served.", step_of);
    of_models(s, to, "heterps_examples_total", "counter", "Examples that have been computed.", examples_of);
    of_models(s, to, "heterps_batches_total", "counter", "Micro-batches that have been computed.", batches_of);
    of_models(s, to, "heterps_bad_lines_total", "counter", "Malformed lines of requests.", bad_lines_of);
    seconds_of_models(s, to);
    learn_metrics(s, to);
}

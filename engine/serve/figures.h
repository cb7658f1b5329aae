/* What the server has done, in numbers: for Prometheus, and for people. Kept by the HTTP thread, a few additions a
 * request. */
#ifndef HETERPS_ENGINE_SERVE_FIGURES_H
#define HETERPS_ENGINE_SERVE_FIGURES_H

#include <event2/buffer.h>
#include <stdint.h>

struct server;
struct served;

/* Of a model's requests: how long each took from its last byte to its answer, in a count for each bound (figures.c)
 * and one above all. */
#define FIGURES_BOUNDS 13u
struct figures {
    uint64_t requests, bad_lines;
    uint64_t within[FIGURES_BOUNDS + 1]; /* not added up */
    double seconds;
};

/* A request of `nanoseconds` is answered, of whose lines so many were malformed. */
void figures_add(struct figures *figures, uint64_t nanoseconds, uint64_t bad_lines);
/* The time within which the share of requests was answered, in seconds: the bound above it; INFINITY: beyond all;
 * NaN: there was none. */
double figures_quantile(const struct figures *figures, double share);
/* All of the server's, as exposition_reply asks for them (context: struct server). */
void figures_metrics(void *server, struct evbuffer *to);

#endif

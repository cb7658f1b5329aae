/* What the server has done, in numbers, for Prometheus and for people. The HTTP thread
 * counts, by a few additions a request. */
#ifndef HETERPS_ENGINE_SERVE_FIGURES_H
#define HETERPS_ENGINE_SERVE_FIGURES_H

#include <event2/buffer.h>
#include <stdint.h>

struct server;
struct served;

/* A model's requests: how long each took from its last byte to its answer, as a histogram: a count for each
 * bound (figures.c), and one above the last. */
#define FIGURES_BOUNDS 13u
struct figures {
    uint64_t requests, bad_lines;
    uint64_t within[FIGURES_BOUNDS + 1]; /* between two bounds: not cumulated */
    double seconds;
};

/* Counts a request that was answered within `nanoseconds`, and its malformed lines. */
void figures_add(struct figures *figures, uint64_t nanoseconds, uint64_t bad_lines);
/* The time within which that share of the requests was answered, in seconds, rounded up to a bound. INFINITY:
 * beyond the last bound; NaN: there was no request. */
double figures_quantile(const struct figures *figures, double share);
/* Writes all figures of the server, for exposition_reply (context: struct server). */
void figures_metrics(void *server, struct evbuffer *to);

#endif

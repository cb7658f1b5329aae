/* Schedules of the learning rate: a factor that depends on the numbers of the step and of the pass alone, so
 * a resumed run goes on with the same bytes. One line each in schedules.def. */
#ifndef HETERPS_GRAPH_SCHEDULE_H
#define HETERPS_GRAPH_SCHEDULE_H

#include "graph/graph.h"
#include "graph/keyed.h"

struct schedule {
    const char *name, *source;
    const struct keyed_param *params; /* the first is warmup; ends with name == NULL */
    double (*factor)(const double *param, uint64_t n, uint64_t pass);
};
extern const struct schedule schedule_table[SCHEDULE_ID_COUNT];

/* The factor of every learning rate at update t, from 1, in a pass over the data, from 0. In double, by
 * functions of our own: the same bits on every machine. */
double schedule_factor(const struct graph_schedule *s, uint64_t t, uint64_t pass);
/* Reads "NAME [KEY=VALUE …]" ("cosine steps=100000 warmup=1000"); keys that the text does not name have
 * their defaults. Any other text is INVALID, with a sentence without place (expected, found, the nearest
 * name): the caller adds file and line. */
MUST_USE status schedule_parse(const char *text, uint32_t rules, struct graph_schedule *out);
/* INVALID, with a sentence without place, unless schedule_parse could give the kind and every number. */
MUST_USE status schedule_validate(const struct graph_schedule *s);

#endif

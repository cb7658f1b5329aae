/* Hill climbing from a given plan: what method climb does from every start, and others from their best plans. */
#ifndef HETERPS_SCHED_CLIMB_H
#define HETERPS_SCHED_CLIMB_H

#include "sched/draw.h"
#include "sched/search.h"

/* Changes `types` [L], whose score is given, by the first move that is found to lower it, until none does or the search
 * is over; returns the score then. The moves: another type for a layer, another type for a stage, and a boundary
 * between two stages put anywhere within them. They are tried in an order drawn from `draw`. Borrows all; allocates
 * nothing. */
double climb(struct search *search, struct draw *draw, type_index *types, double score);

#endif

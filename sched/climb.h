/* Hill climbing from a given plan: method climb does it from every start, rl+polish from its best plans. */
#ifndef HETERPS_SCHED_CLIMB_H
#define HETERPS_SCHED_CLIMB_H

#include "sched/draw.h"
#include "sched/search.h"

/* Changes `types` [L], whose score is given, by the first move that lowers the score, until no move does or
 * the search is over; returns the last score. A move gives a layer another type, gives a stage another type,
 * or shifts the boundary between two stages to any layer of the two. Moves are tried in an order drawn from
 * `draw`. Borrows all; allocates nothing. */
double climb(struct search *search, struct draw *draw, type_index *types, double score);

#endif

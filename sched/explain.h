/* A solution in words: why each layer went where it went, and what the runner-up would cost. For an
 * engineer who does not know the paper.
 *
 * The runner-up of a layer is the best plan with this layer alone on another type: the other layers keep
 * their types, and the units of all stages are chosen anew. If a layer's neighbours would have to move with
 * it, its runner-up is dear, and the words say so. */
#ifndef HETERPS_SCHED_EXPLAIN_H
#define HETERPS_SCHED_EXPLAIN_H

#include <stdio.h>

#include "sched/solution.h"

/* A layer on another type, all others where they are. */
struct explain_change {
    uint32_t layer, type;      /* the other type; GRAPH_NONE: there is one type only */
    uint32_t stage_count;      /* of the changed plan                                */
    struct cost_result result; /* with units chosen anew                             */
    double rate;               /* USD an hour of all its units and nodes             */
};
/* The best change of a layer, by score. stages[L] becomes the changed plan's with their units;
 * types[L] is scratch. Borrows all. */
struct explain_change explain_layer(const struct cost_model *model, const struct solution *chosen, uint32_t layer,
                                    type_index *types, struct cost_stage *stages);
/* Writes what else changes into buffer: "2 further cuts, 1.2 KiB more to move an example; 5 more
 * gpu1, 2 fewer cpu-core; …"; or why the change is infeasible. Cuts a text that is too long.
 * `stages` as explain_layer left them. */
char *explain_change_text(const struct cost_model *model, const struct solution *chosen,
                          const struct explain_change *change, const struct cost_stage *stages, char *buffer,
                          size_t bytes);
/* Bytes at the front of a text of explain_change_text that only say that the change is infeasible. */
size_t explain_prefix(const char *text);
/* Says whether the layer's type computes it most cheaply; if not, what computing and the plan would cost on
 * the cheapest type. types[L], stages[L]: scratch. */
char *explain_layer_text(const struct cost_model *model, const struct solution *chosen, uint32_t layer,
                         type_index *types, struct cost_stage *stages, char *buffer, size_t bytes);
/* Why a solution is infeasible: "at most 147,890 of 396,015 examples/s, because …", into
 * buffer, cut where it is too short. */
char *explain_infeasible_text(const struct cost_model *model, const struct solution *solution, char *buffer,
                              size_t bytes);
/* Where the times of the instance come from, one sentence for each source, into buffer,
 * cut where it is too short. */
char *explain_sources_text(const struct instance *instance, char *buffer, size_t bytes);
/* "fc0..fc3", each name cut to `width` characters. */
char *explain_stage_name(const struct instance *instance, const struct cost_stage *stage, uint32_t width, char *buffer,
                         size_t bytes);

/* The costs of a plan with the fewest units, for throughputs from `throughput_from` up to the greatest that
 * the limits allow, in rising order; returns how many points, at most `room`. stages[L] is scratch. */
struct explain_point {
    double throughput, cost;
};
uint32_t explain_provisions(const struct cost_model *model, const struct solution *solution, double throughput_from,
                            struct cost_stage *stages, struct explain_point *points, uint32_t room);

/* Writes totals, stages, layers and what the figures rest on, in lines of at most 120 characters. MEMORY. The
 * caller asks for errors of `out` (ferror). */
MUST_USE status explain_write(FILE *out, const struct solution *chosen);

/* Writes a table, a line a method: cost; gap to the proven cost, else to the least cost here; throughput over
 * the one asked for; stages, evaluations, seconds, and what ended the method; for infeasible plans, how far
 * they are from feasible. All solutions are of one instance; the first is the chosen one. */
void compare_write(FILE *out, const struct solution *solutions, uint32_t count);
/* Writes the link that each cut crosses, a line a plan; writes nothing unless there are two nodes. MEMORY. */
MUST_USE status compare_links_write(FILE *out, const struct solution *solutions, uint32_t count);
/* Writes a line for each plan that was tried (engine/plan/trial.h): predicted and measured figures, and the
 * share of the time in which it waited for processors. */
void trials_write(FILE *out, const struct solution *solutions, uint32_t count);
/* The cost to which gaps of a comparison refer: the proven cost, else the least; 0: none is feasible. */
double compare_reference(const struct solution *solutions, uint32_t count, bool *is_proven);
/* The end of a method: "proof", "evaluations", "seconds", "user"; or "itself": it had nothing more to try. */
const char *compare_end_text(const struct solution *solution);

#endif

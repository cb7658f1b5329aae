/* Makes a scheduling problem from a user's files: an instance file; a layer table, or a net by name, with a
 * cluster, by declared rates; or a graph and a cluster, measured here. */
#ifndef HETERPS_ENGINE_PLAN_PLANNER_H
#define HETERPS_ENGINE_PLAN_PLANNER_H

#include "sched/cluster.h"
#include "sched/instance.h"
#include "sched/search.h"

#define PLANNER_CLASSES 1000u
#define PLANNER_BATCH   256.0

struct planner_source {
    const char *instance_path; /* alone, or …                                                    */
    const char *layers_path;   /* … with cluster_path, or …                                      */
    const char *net;           /* … a net of sched/nets with cluster_path, or …                  */
    uint32_t classes;          /* of the net; 0: PLANNER_CLASSES                                 */
    double batch;              /* B_o of a layer table or net; 0: PLANNER_BATCH                  */
    const char *graph_path;    /* … with cluster_path                                            */
    const char *const *set;    /* "section.key=value" of the graph, [set_count]                  */
    uint32_t set_count;
    const char *cluster_path;
    const char *data, *isa; /* of profiling: NULL: as the graph says; the best here           */
    bool no_cache;
};

struct planner {
    struct graph graph; /* where there is one */
    struct cluster cluster;
    struct instance instance; /* its throughput_limit resolved */
};

/* A goal "throughput = max" means the cheapest plan of at least this share of the greatest throughput. */
#define PLANNER_MAX_SHARE    0.98
#define PLANNER_GOAL_SECONDS 3.0 /* for finding the greatest, before a plan is made */

/* USAGE: the source is none of the four, or says of one what another alone has. */
MUST_USE status planner_source_check(const struct planner_source *source);
static inline double planner_batch(const struct planner_source *s) { return s->batch > 0 ? s->batch : PLANNER_BATCH; }
static inline uint32_t planner_classes(const struct planner_source *s)
{
    return s->classes > 0 ? s->classes : PLANNER_CLASSES;
}

/* Checks the source first. Also fails as profiling, estimating and reading fail. */
MUST_USE status planner_open(struct planner *planner, const struct planner_source *source);
void planner_close(struct planner *planner);
/* Sets the instance's throughput_limit for a goal of `throughput` examples/s. Infinite: PLANNER_MAX_SHARE of
 * the greatest throughput that is found within `seconds`, or until `progress` says to stop (NULL: never). */
MUST_USE status planner_goal_set(struct instance *instance, double throughput, double seconds,
                                 search_progress *progress, void *context);
/* Leaves to each of `pipelines` pipelines its part of the units. USAGE: a type has too few. */
MUST_USE status planner_units_share(struct instance *instance, uint32_t pipelines);

#endif

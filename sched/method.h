/* What a scheduling method is: one line in methods.def and one function of this form. */
#ifndef HETERPS_SCHED_METHOD_H
#define HETERPS_SCHED_METHOD_H

#include "sched/search.h"

enum method_kind { METHOD_FIXED, METHOD_SAMPLED, METHOD_LEARNED, METHOD_PROOF };
typedef enum {
#define METHOD(id, ...) METHOD_ID_##id,
#include "sched/methods.def"
#undef METHOD
    METHOD_ID_COUNT
} method_id;

struct method {
    const char *name;
    enum method_kind kind;
    const char *meaning;
    /* Searches until it is done or search_is_over(); MEMORY, or INVALID where the method cannot work on the
     * instance (with a sentence: "brute: 4^20 plans are too many"). Uses no other source of randomness than the
     * search's seed. */
    status (*run)(struct search *);
};
extern const struct method method_table[METHOD_ID_COUNT];
/* GRAPH_NONE if there is none of that name. */
uint32_t method_find(const char *name);

#define METHOD(id, ...) MUST_USE status method_##id(struct search *search);
#include "sched/methods.def"
#undef METHOD

/* Which types are CPUs: by device; where all are sim, as in an instance that gives none: type 0. */
bool method_type_is_cpu(const struct instance *instance, uint32_t type);

/* The greatest throughput that any plan reaches within the limits, and that plan (types[L], stages[L]). By branch and
 * bound on tau, in method_exact.c; where the options' seconds or progress end it first, or the instance has too many
 * possible stages for it, the best plan found, not proven. Of `options` only these count; NULL: nothing ends it. */
struct fastest {
    double throughput; /* 0: no plan gives every stage a unit */
    double bound;      /* none reaches more                   */
    uint32_t stage_count;
    bool is_proven;
    enum search_end ended_by;
};
MUST_USE status exact_fastest(const struct cost_model *model, const struct search_options *options, type_index *types,
                              struct cost_stage *stages, struct fastest *fastest);

#endif

/* A scheduling method is one line in methods.def and one function of this form. */
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
    /* Searches until it is done or search_is_over(); MEMORY; INVALID, with a sentence ("brute: 4^20
     * plans are too many"), if the method cannot work on the instance. Its only source of
     * randomness is the search's seed. */
    status (*run)(struct search *);
};
extern const struct method method_table[METHOD_ID_COUNT];
/* GRAPH_NONE: no method has this name. */
uint32_t method_find(const char *name);

#define METHOD(id, ...) MUST_USE status method_##id(struct search *search);
#include "sched/methods.def"
#undef METHOD

/* Whether a type is a CPU: by its device; if all devices are sim (given
 * or by default) or paced, type 0 alone. */
bool method_type_is_cpu(const struct instance *instance, uint32_t type);

/* The greatest throughput that any plan reaches within the limits, and that plan (types[L], stages[L]).
 * By branch and bound on tau, in method_exact.c. If the options' seconds or progress end it first, or
 * the instance has too many possible stages, it is the best plan found, not proven. No other option
 * counts; NULL: nothing ends it. */
struct fastest {
    double throughput; /* 0: no plan gives every stage a unit */
    double bound;      /* no plan reaches more                */
    uint32_t stage_count;
    bool is_proven;
    enum search_end ended_by;
};
MUST_USE status exact_fastest(const struct cost_model *model, const struct search_options *options, type_index *types,
                              struct cost_stage *stages, struct fastest *fastest);

#endif

/* Shared by the two parts of method exact: least paths over stages and the search for the least
 * path within limits (exact_paths.c); the greatest throughput and the least cost
 * (method_exact.c, which explains the whole). */
#ifndef HETERPS_SCHED_EXACT_PATHS_H
#define HETERPS_SCHED_EXACT_PATHS_H

#include "sched/method.h"

#define NO_TYPE UINT32_MAX
#define GAP     1e-12 /* relative: a smaller saving may be rounding */

struct segment {
    struct cost_time time;
    uint16_t first, last, type;
    uint16_t place, next; /* here, and of the next stage; 0 after the last layer */
};

/* A segment with its units for the tau at hand. */
struct item {
    double weight; /* of the objective */
    double least;  /* with multipliers: its weight and that of the least path after its last layer */
    uint32_t segment, k;
    uint16_t last, type, place, next;
};

/* The least of several paths, and the least of the paths that differ from it in the type
 * next to the meeting point. */
struct least_two {
    double best, second;
    uint32_t type;
    uint32_t best_item, second_item;
};

struct interval {
    double a, b;  /* both included */
    double bound; /* USD: no plan at a tau of the interval costs less */
    double split; /* a < split <= b: the halves are [a, before split] and [split, b] */
    uint32_t depth;
    size_t id_begin;
    uint32_t id_count; /* segments that a cheaper plan may contain */
};

/* A beginning of plans in the depth-first search: up to a layer and its type. A second
 * beginning up to the same layer and type leads nowhere better, if it is no cheaper and uses no
 * fewer units of any scarce type. */
#define LABEL_TYPES  32   /* scarce types; where there are more, beginnings are not compared */
#define LABEL_GROUPS 1024 /* of states, by hash                                           */
#define LABEL_PLACES 16   /* the latest of a group                                        */
struct label {
    double weight;
    uint32_t state;
    uint16_t used[LABEL_TYPES];
};
struct label_group {
    uint32_t count;
    struct label labels[LABEL_PLACES];
};

struct exact {
    const struct cost_model *model;
    uint32_t layer_count, type_count;
    uint32_t node_count;
    uint32_t place_count;
    bool is_coupled;       /* a path weighs more than its segments */
    struct search *search; /* says when to stop */
    bool offers;           /* plans that come up are offered to the search */
    uint64_t look_ns;
    bool is_cut;
    /* all segments that fit the limits at the greatest tau, ordered by first layer */
    struct segment *segments;
    uint32_t segment_count, segment_room;
    /* lists of segments: of every interval on the stack */
    uint32_t *ids;
    size_t id_count, id_room;
    struct interval *intervals;
    uint32_t interval_count, interval_room;
    /* the problem at hand: items of layer l are begin[l] … begin[l + 1] - 1 */
    struct item *items;
    uint32_t *begin; /* [L + 1] */
    /* [L + 1, places]: paths of layers l … L - 1 that begin on a place; paths of layers 0 … l - 1 before a
     * stage on it */
    struct least_two *ahead, *behind;
    double a, b; /* the interval of tau */
    /* [T] */
    double *multiplier, *multiplier_best;
    uint64_t *used;            /* [T] units on the path */
    uint64_t *units;           /* [T] the same, of a coupled path */
    double cutoff;             /* only smaller weights matter */
    bool wants_any;            /* any path within the limits will do */
    type_index *types;         /* [L]: the path */
    type_index *found_types;   /* [L]: the least one within limits */
    double found;              /* its weight; infinite: none */
    uint32_t *trail;           /* [L] items of the depth-first search */
    struct cost_stage *stages; /* [L] */
    uint64_t nodes, nodes_max;
    struct label_group *groups; /* [LABEL_GROUPS] */
    uint32_t *scarce;           /* [T] types whose limit a path could break */
    uint32_t scarce_count;      /* 0: beginnings are not compared           */
    double *held;               /* [nodes] bytes of parameters of a beginning */
    uint32_t *visits;           /* [nodes] and its stages                      */
    uint32_t *place_of;         /* [L] where its layers are                    */
    uint32_t first_rows;        /* the first layer with rows; L: none          */
    uint32_t *reserve;          /* [L + 1, T] units that layers l … L - 1 may want, at most their type's limit */
};

/* Opens the search for plans with ET <= tau. If is_cut is set then, some stages may be missing, and
 * only exact_close may follow. INVALID: there are too many possible stages; MEMORY. exact_close
 * also frees what a failure leaves. */
MUST_USE status exact_open(struct exact *x, const struct cost_model *m, double tau);
void exact_close(struct exact *x);
/* Whether the time is up. Looks at the clock, and lets the search look at it,
 * at most a few hundred times a second. */
bool exact_cut(struct exact *x);

/* Makes the items of listed segments for tau in [a, b]. The objective: money, or shares of the limits with
 * wants_any. */
void exact_items_make(struct exact *x, const uint32_t *ids, uint32_t id_count, double a, double b);
/* Raises the bound of the items by multipliers; infinite: there is no path. is_solved: the bound is the least
 * weight, and its path is found. */
double exact_ascend(struct exact *x, bool *is_solved);
/* Drops the items that no path below the cutoff contains. */
void exact_items_drop(struct exact *x);
/* Searches up to nodes_max nodes of the remaining items. True: the search ended, so
 * `found`, or the cutoff, is least. */
bool exact_search(struct exact *x, uint64_t nodes_max);

#endif

/* Where nodes of trees are computed: devices with rates of their own, links between them, and the time that a
 * placement takes (DynPartition, sections 4 to 6).
 *
 * A unit is a node, or a node's output (what the model says of the node). Units come in an order in which
 * children are before parents, and every device computes its own units in this order. A unit takes
 *
 *     seconds                      on its device
 *     latency + bytes * a_byte     for its value, once to each device that needs it
 *
 * Asynchronous: devices and links work side by side; a unit begins when its device is free and its
 * children's values are there; a value leaves when it is computed and its link is free. Synchronous: units
 * and messages come one after the other.
 *
 * Together: units of one batch (place_units_batch) on one device are computed at once, in seconds[…] of their
 * number, so that they share the cost of a launch; their values from another device travel in one message.
 * Inputs of nodes (words) come from device 0, the host, and values of roots go there:
 *
 *     batch          device 0                        device 1
 *     leaves         3 of them: seconds[0][leaf](3)  1 message of 5 words, 5 of them: seconds[1][leaf](5)
 *     height 1       1 message of 2 values, 4        0
 *
 * Times are in seconds, and a function of the arguments alone. */
#ifndef HETERPS_SCHED_TREES_TREE_PLACE_H
#define HETERPS_SCHED_TREES_TREE_PLACE_H

#include "sched/trees/itinerary.h"

#define PLACE_DEVICES_MAX 8u
#define PLACE_KINDS_MAX   16u
#define PLACE_EXACT_MAX   20u /* units                                        */
/* Policies that learn or climb place a piece of a batch at once: units with about equal slack in a
 * stretch of the list. A unit's slack is the number of levels by which the longest path through it is
 * shorter than the longest of all. */
#define PLACE_SLACKS    16u
#define PLACE_STRETCHES 4u
#define PLACE_PIECES    (PLACE_SLACKS * PLACE_STRETCHES)
#define PLACE_NEVER     (-1.0)
#define PLACE_SIZES     16u /* times are given for 1, 2, 4, … units together */

struct place_units {
    uint32_t count;
    uint8_t *kind;         /* [count]                                                        */
    bool *is_output;       /* [count]: it is its child's output                              */
    bool *is_root;         /* [count]: no node has it as its child                           */
    bool *is_right;        /* [count]: it, or a unit above it, is in the right half of a root's children */
    uint32_t *child_begin; /* [count + 1]                                                    */
    uint32_t *child;       /* [child_begin[count]]: earlier units                            */
    /* place_units_batch */
    struct itinerary it; /* a batch's units by piece, then ascending */
    uint8_t *piece;      /* [count]: PLACE_STRETCHES * slack + stretch of the list */
};

struct place_link {
    double latency, a_byte;
};

struct place_machine {
    uint32_t device_count;
    bool is_synchronous, is_together;
    double bytes[PLACE_KINDS_MAX];       /* of the value of a unit of a kind                      */
    double input_bytes[PLACE_KINDS_MAX]; /* together: of such a unit's inputs from device 0        */
    double root_bytes;                   /* together: from a root to device 0                     */
    /* of 1 << i units; must not fall with i */
    double seconds[PLACE_DEVICES_MAX][PLACE_KINDS_MAX][PLACE_SIZES];
    struct place_link link[PLACE_DEVICES_MAX][PLACE_DEVICES_MAX]; /* from, to */
};

/* The figures of a placement. */
struct place_result {
    double seconds;
    uint32_t transfers; /* messages */
    double transfer_bytes;
    uint32_t launches; /* of units; together: of each batch on each of its devices */
};

/* Seconds of `count` units of a kind together, by straight lines through the given
 * sizes, also above the last. */
double place_seconds(const struct place_machine *m, uint32_t device, uint32_t kind, uint32_t count);

/* Room for unit_max units with child_max children in all. */
void place_units_layout(struct place_units *u, struct layout *l, size_t unit_max, size_t child_max);
/* A unit for every node, of the node's kind. Unless output_kind is TREE_NONE, an output of this kind follows
 * each: twice as many units, and one more child for each node. */
void place_units_of_nodes(struct place_units *u, const struct tree_nodes *nodes, uint32_t output_kind);
/* Sets which units are computed together if they are on one device: nodes by the policy, and after them all
 * outputs. Scratch must have room for as many nodes. */
void place_units_batch(struct place_units *u, const struct batching *policy, struct itinerary_scratch *scratch);

/* --- time ------------------------------------------------------------------------------------- */

/* The state of a placement; units are placed one after the other, 0 first. */
struct place_clock {
    double busy_until[PLACE_DEVICES_MAX];
    double link_busy_until[PLACE_DEVICES_MAX][PLACE_DEVICES_MAX];
    struct place_result result;
    uint8_t *device;                    /* [count]                                                      */
    double (*there)[PLACE_DEVICES_MAX]; /* [count]: when a unit's value is on a device, or NEVER        */
};

void place_clock_layout(struct place_clock *c, struct layout *l, size_t unit_max);
void place_clock_begin(struct place_clock *c);
/* Returns the time at which the unit is done. */
double place_clock_add(struct place_clock *c, const struct place_units *u, const struct place_machine *m, uint32_t unit,
                       uint32_t device);
/* Together: the units of a batch, placed by device[count]; batches one after the other, 0 first. */
void place_clock_add_batch(struct place_clock *c, const struct place_units *u, const struct place_machine *m,
                           uint32_t batch, const uint8_t *device);
/* Together, after the last batch: values of roots go to device 0. */
void place_clock_end(struct place_clock *c, const struct place_units *u, const struct place_machine *m);
/* The figures of a placement of all units: device[count]. */
struct place_result place_time(struct place_clock *c, const struct place_units *u, const struct place_machine *m,
                               const uint8_t *device);

/* Seconds of a unit on its fastest device. */
double place_least_seconds(const struct place_units *u, const struct place_machine *m, uint32_t unit);
/* Seconds that every placement takes at least: the greater of the critical path, with every unit on its best
 * device and no time for travel, and the load, shared evenly by devices. Together, the load is that of a run
 * of batches, shared so that the busiest device has least to do, with what must come before and after the
 * run. Scratch: [5 * count + 1]. */
double place_bound(const struct place_units *u, const struct place_machine *m, double *scratch);

/* --- policies --------------------------------------------------------------------------------- */

struct place_policy; /* sched/trees/place_learn.h */

typedef enum {
#define PLACE(id, ...) PLACE_ID_##id,
#include "sched/trees/place.def"
#undef PLACE
    PLACE_ID_COUNT
} place_id;

struct place_options {
    uint64_t seed;                     /* of random: a seed draws the same devices for the same count of units */
    uint32_t first, second;            /* devices of left_right (left, right) and of state_output (state, output) */
    const struct place_policy *policy; /* of learned; NULL: place_policy_first */
    uint32_t trials;                   /* of learned and climbed, at most                */
    uint8_t *scratch;                  /* the same: [count]                              */
};

extern const char *const place_names[PLACE_ID_COUNT];

/* Places all units: device[count]. The clock is scratch. USAGE: too many units for exact. */
MUST_USE status place_make(uint8_t *device, place_id id, const struct place_units *u, const struct place_machine *m,
                           const struct place_options *options, struct place_clock *clock);

#endif

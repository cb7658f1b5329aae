/* Where nodes of trees are computed: devices with rates of their own, the links between them, and how long a placement
 * takes (DynPartition, sections 4 to 6).
 *
 * What is placed is a unit: a node, or what is said of a node (its output). Units come in an order in which children
 * are before parents, and every device computes its own in this order. A unit takes
 *
 *     seconds                      on its device
 *     latency + bytes * a_byte     for its value to a device where it is needed, once a device
 *
 * Asynchronous: devices and links work side by side; a unit begins when its device is free and its children's values
 * are there, and a value leaves when it is computed and its link is free. Synchronous: one thing after the other.
 *
 * Times are in seconds, and a function of the arguments alone. */
#ifndef HETERPS_SCHED_TREES_PLACE_H
#define HETERPS_SCHED_TREES_PLACE_H

#include "engine/base/memory.h"
#include "engine/base/tree.h"

#define PLACE_DEVICES_MAX 8u
#define PLACE_KINDS_MAX   16u
#define PLACE_EXACT_MAX   20u /* units */

struct place_units {
    uint32_t count;
    uint8_t *kind;         /* [count]                                                        */
    bool *is_output;       /* [count]: says what is said of its child                        */
    bool *is_root;         /* [count]: no node has it as its child                           */
    bool *is_right;        /* [count]: it or one above it is in the right half of a root's children */
    uint32_t *child_begin; /* [count + 1]                                                    */
    uint32_t *child;       /* [child_begin[count]]: earlier units                            */
};

struct place_link {
    double latency, a_byte;
};

struct place_machine {
    uint32_t device_count;
    bool is_synchronous;
    double bytes[PLACE_KINDS_MAX]; /* of the value of a unit of a kind */
    double seconds[PLACE_DEVICES_MAX][PLACE_KINDS_MAX];
    struct place_link link[PLACE_DEVICES_MAX][PLACE_DEVICES_MAX]; /* from, to */
};

/* What a placement comes to. */
struct place_result {
    double seconds;
    uint32_t transfers;
    double transfer_bytes;
};

/* Room for unit_max units with child_max children in all. */
void place_units_layout(struct place_units *u, struct layout *l, size_t unit_max, size_t child_max);
/* A unit for every node, of the node's kind. Where output_kind is not TREE_NONE, another of this kind behind each, its
 * output: twice as many units, and one more child a node. */
void place_units_of_nodes(struct place_units *u, const struct tree_nodes *nodes, uint32_t output_kind);

/* --- time ------------------------------------------------------------------------------------- */

/* Units are placed one after the other, 0 first. */
struct place_clock {
    double busy_until[PLACE_DEVICES_MAX];
    double link_busy_until[PLACE_DEVICES_MAX][PLACE_DEVICES_MAX];
    struct place_result result;
    uint8_t *device;                    /* [count]                                                      */
    double (*there)[PLACE_DEVICES_MAX]; /* [count]: when a unit's value is on a device; below 0: never  */
};

void place_clock_layout(struct place_clock *c, struct layout *l, size_t unit_max);
void place_clock_begin(struct place_clock *c);
/* Returns when the unit is done. */
double place_clock_add(struct place_clock *c, const struct place_units *u, const struct place_machine *m, uint32_t unit,
                       uint32_t device);
/* The same for all units: device[count]. */
struct place_result place_time(struct place_clock *c, const struct place_units *u, const struct place_machine *m,
                               const uint8_t *device);

/* What a unit takes on the device that suits it most. */
double place_least_seconds(const struct place_units *u, const struct place_machine *m, uint32_t unit);
/* No placement takes less: the critical path if every unit had its best device and values travelled at once, and the
 * load if devices shared it evenly. Scratch: [count]. */
double place_bound(const struct place_units *u, const struct place_machine *m, double *scratch);

/* --- policies --------------------------------------------------------------------------------- */

typedef enum {
#define PLACE(id, ...) PLACE_ID_##id,
#include "sched/trees/place.def"
#undef PLACE
    PLACE_ID_COUNT
} place_id;

struct place_options {
    uint64_t seed;          /* of random: a seed draws the same devices for the same count of units */
    uint32_t first, second; /* devices of left_right (left, right) and of state_output (state, output) */
};

extern const char *const place_names[PLACE_ID_COUNT];

/* Places all units: device[count]. The clock is scratch. USAGE: too many units for exact. */
MUST_USE status place_make(uint8_t *device, place_id id, const struct place_units *u, const struct place_machine *m,
                           const struct place_options *options, struct place_clock *clock);

#endif

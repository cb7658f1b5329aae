/* Random numbers one after another, and random plans, for methods that sample. A method's draws
 * depend on the search's seed alone. */
#ifndef HETERPS_SCHED_DRAW_H
#define HETERPS_SCHED_DRAW_H

#include <stdint.h>

#include "engine/base/random.h"
#include "sched/cost.h"

struct draw {
    struct random_stream stream;
    uint64_t item;
    uint32_t word[4];
    uint32_t left; /* of word */
};

/* Draws of two purposes with one seed differ. A seed must repeat its plan, so append only. */
enum draw_purpose {
    DRAW_CLIMB = 1,
    DRAW_GENETIC = 2,
    DRAW_BO = 3,
    DRAW_BATCHING = 4,
    DRAW_TREES = 5,
    DRAW_PLACEMENT = 6,
    DRAW_DQN = 7,
    DRAW_DQN_TREES = 8,
    DRAW_JITTER = 9,
    DRAW_PLACE_LEARN = 10
};
static inline struct draw draw_make(uint64_t seed, enum draw_purpose purpose)
{
    return (struct draw){.stream = random_stream(seed, RANDOM_SCHEDULE, purpose)};
}

static inline uint32_t draw_u32(struct draw *d)
{
    if (d->left == 0) {
        random_block(d->stream, d->item++, 0, d->word);
        d->left = 4;
    }
    return d->word[--d->left];
}
/* A number of 0 … n - 1, n >= 1, all equally likely up to a share of n / 2^32. */
static inline uint32_t draw_below(struct draw *d, uint32_t n) { return (uint32_t)((uint64_t)draw_u32(d) * n >> 32); }
/* A number in (0, 1). */
static inline double draw_unit(struct draw *d) { return random_unit_f32(draw_u32(d)); }

/* Every layer's type at random. */
static inline void draw_plan_uniform(struct draw *d, type_index *types, uint32_t layer_count, uint32_t type_count)
{
    for (uint32_t l = 0; l < layer_count; l++) types[l] = (type_index)draw_below(d, type_count);
}
/* `segments` runs of layers, each on a random type. Good plans have few stages, while a uniform draw has
 * nearly as many stages as layers. */
static inline void draw_plan_segments(struct draw *d, type_index *types, uint32_t layer_count, uint32_t type_count,
                                      uint32_t segments)
{
    type_index first = (type_index)draw_below(d, type_count);
    for (uint32_t l = 0; l < layer_count; l++) types[l] = first;
    while (--segments > 0) {
        uint32_t begin = draw_below(d, layer_count), end = begin + 1 + draw_below(d, layer_count - begin);
        type_index type = (type_index)draw_below(d, type_count);
        for (uint32_t l = begin; l < end; l++) types[l] = type;
    }
}

#endif

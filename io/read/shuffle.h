/* A window that mixes the order of examples: it holds N of them, gives one drawn at random, and fills its
 * place with the next of the file; at the end of the pass it draws until nothing is left. The order is a
 * function of (seed, epoch, N, data).
 *
 *     file order ──keep──▶ [ record | record | … | record ] ──draw──▶ another order
 *
 * Workload: one draw and one keep an example; a record of Criteo is 376 bytes. */
#ifndef HETERPS_IO_READ_SHUFFLE_H
#define HETERPS_IO_READ_SHUFFLE_H

#include "engine/base/batch.h"
#include "engine/base/random.h"

/* One example by itself, in somebody's memory: a format writes it, a micro-batch or a window takes it. */
struct reader_example {
    bool is_bad;
    uint32_t cut_count, unknown_count; /* the format adds these to the reader's counts of these names    */
    uint32_t lost_count, list_longest; /* keys that its cut lists have lost; keys of the longest list      */
    float weight;
    uint64_t group;
    float *label;      /* [label_count]                                                             */
    float *dense;      /* [dense_count]                                                             */
    uint64_t *key;     /* [key_count_max]                                                           */
    float *value;      /* beside key; NULL where keys have no values                                */
    uint32_t *key_end; /* [field_count]: the keys of field f are key[key_end[f - 1] .. key_end[f])    */
};

/* An example in one piece of memory, for windows and for whoever keeps examples for later. */
size_t example_record_bytes(struct example_shape shape);
/* Points into a record, aligned to 8 bytes, and takes weight, group and is_bad from it. */
void example_record_at(struct example_shape shape, uint8_t *record, struct reader_example *example);
/* Writes weight, group and is_bad into the record; the other parts lie there already. */
void example_record_keep(uint8_t *record, const struct reader_example *example);

struct shuffle {
    struct example_shape shape;
    uint32_t window;
    size_t record_bytes;
    uint8_t *record; /* [window] */
    /* of the pass */
    struct random_stream stream;
    uint64_t draw_count;
    uint64_t next;  /* random bits of the next draw, whose record has been prefetched */
    uint32_t held;  /* records that hold an example, the hole included */
    uint32_t hole;  /* record that was drawn last; window: none */
    uint64_t *seen; /* [window bits]: scratch of shuffle_oldest */
};

size_t shuffle_bytes(struct example_shape shape, uint32_t window);
void shuffle_place(struct shuffle *shuffle, struct arena *arena, struct example_shape shape, uint32_t window);

/* Empties the window for the pass `epoch`. */
void shuffle_start(struct shuffle *shuffle, uint64_t seed, uint64_t epoch);

/* How a pass goes on after its first `drawn` draws without making them. Every place of the window then holds
 * the example that was put there last, so it is enough to read from the oldest of these examples on.
 *
 *     shuffle_oldest ──▶ from that example of the pass on: shuffle_put, up to drawn + window - 2 ──▶ shuffle_go_on
 *
 * While the window is full: drawn > 0, and the pass has at least drawn + window - 1 examples. */
uint64_t shuffle_oldest(struct shuffle *shuffle, uint64_t drawn);
/* *example points into the place of this example of the pass: fill it, then put it. */
void shuffle_place_of(const struct shuffle *shuffle, uint64_t number, struct reader_example *example);
void shuffle_put(struct shuffle *shuffle, uint64_t number, const struct reader_example *example);
void shuffle_go_on(struct shuffle *shuffle, uint64_t drawn);

/* If there is a free place, *example points into it: fill all of it, then keep it. */
bool shuffle_room(struct shuffle *shuffle, struct reader_example *example);
void shuffle_keep(struct shuffle *shuffle, const struct reader_example *example);

/* Examples that have been kept and not drawn. */
static inline uint32_t shuffle_held(const struct shuffle *shuffle)
{
    return shuffle->held - (shuffle->hole < shuffle->window);
}

/* Draws an example; false if the window is empty. *example is valid until the next call. A draw while there
 * is room means that the file has ended. */
bool shuffle_draw(struct shuffle *shuffle, struct reader_example *example);

#endif

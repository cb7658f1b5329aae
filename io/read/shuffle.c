/* The window that mixes the order of examples. */
#include "io/read/shuffle.h"

#include <string.h>

#include "engine/base/status.h"

/* A record, each part there only if the shape has it:
 *     head | label [label_count] | dense [dense_count] | key_end [field_count] | value [key_count_max] |
 *          (to 8 bytes) | key [key_count_max]
 */
#define PREFETCH_BYTES 1024u /* of a record; the processor's own prefetch goes on from there */
struct record_head {
    uint64_t group;
    float weight;
    uint32_t is_bad;
};

static size_t key_offset_bytes(struct example_shape shape)
{
    size_t bytes = sizeof(struct record_head) + sizeof(float) * ((size_t)shape.label_count + shape.dense_count) +
                   sizeof(uint32_t) * shape.field_count;
    if (shape.has_value) bytes += sizeof(float) * shape.key_count_max;
    return (bytes + 7) & ~(size_t)7;
}

size_t example_record_bytes(struct example_shape shape)
{
    return key_offset_bytes(shape) + sizeof(uint64_t) * shape.key_count_max;
}

void example_record_at(struct example_shape shape, uint8_t *record, struct reader_example *example)
{
    struct record_head *head = (struct record_head *)record;
    example->group = head->group;
    example->weight = head->weight;
    example->is_bad = head->is_bad;
    example->label = (float *)(head + 1);
    example->dense = example->label + shape.label_count;
    example->key_end = (uint32_t *)(example->dense + shape.dense_count);
    example->value = shape.has_value ? (float *)(example->key_end + shape.field_count) : NULL;
    example->key = (uint64_t *)(record + key_offset_bytes(shape));
}

void example_record_keep(uint8_t *record, const struct reader_example *example)
{
    *(struct record_head *)record =
        (struct record_head){.group = example->group, .weight = example->weight, .is_bad = example->is_bad};
}

static size_t seen_words(uint32_t window) { return ((size_t)window + 63) / 64; }

size_t shuffle_bytes(struct example_shape shape, uint32_t window)
{
    return arena_bytes(example_record_bytes(shape) * window) + arena_bytes(sizeof(uint64_t) * seen_words(window));
}

void shuffle_place(struct shuffle *shuffle, struct arena *arena, struct example_shape shape, uint32_t window)
{
    *shuffle = (struct shuffle){.shape = shape, .window = window, .record_bytes = example_record_bytes(shape)};
    shuffle->record = arena_take(arena, shuffle->record_bytes * window);
    shuffle->seen = arena_take(arena, sizeof(uint64_t) * seen_words(window));
    shuffle->hole = window;
}

static uint64_t bits_of(const struct shuffle *shuffle, uint64_t draw)
{
    uint32_t bits[4];
    random_block(shuffle->stream, draw, 0, bits);
    return (uint64_t)bits[0] << 32 | bits[1];
}

void shuffle_start(struct shuffle *shuffle, uint64_t seed, uint64_t epoch)
{
    shuffle->stream = random_stream(seed, RANDOM_SHUFFLE, epoch);
    shuffle->draw_count = 0;
    shuffle->held = 0;
    shuffle->hole = shuffle->window;
    shuffle->next = bits_of(shuffle, 0);
}

static struct record_head *head_at(const struct shuffle *shuffle, uint32_t index)
{
    return (struct record_head *)(shuffle->record + shuffle->record_bytes * index);
}

static void example_at(const struct shuffle *shuffle, uint32_t index, struct reader_example *example)
{
    example_record_at(shuffle->shape, (uint8_t *)head_at(shuffle, index), example);
}

bool shuffle_room(struct shuffle *shuffle, struct reader_example *example)
{
    bool has_hole = shuffle->hole < shuffle->window;
    if (!has_hole && shuffle->held == shuffle->window) return false;
    example_at(shuffle, has_hole ? shuffle->hole : shuffle->held, example);
    return true;
}

void shuffle_keep(struct shuffle *shuffle, const struct reader_example *example)
{
    bool has_hole = shuffle->hole < shuffle->window;
    struct record_head *head = head_at(shuffle, has_hole ? shuffle->hole : shuffle->held);
    CHECK(example->label == (float *)(head + 1));
    example_record_keep((uint8_t *)head, example);
    if (has_hole)
        shuffle->hole = shuffle->window;
    else
        shuffle->held++;
}

/* A record of `held`; the product's high word is uniform up to held / 2^64. */
static uint32_t record_among(uint32_t held, uint64_t bits) { return (uint32_t)((unsigned __int128)bits * held >> 64); }

static uint32_t record_of(const struct shuffle *shuffle, uint64_t bits) { return record_among(shuffle->held, bits); }

/* --- going on after a number of draws ------------------------------------------------------------ */

/* The record of a draw from a full window. */
static uint32_t full_record_of(const struct shuffle *shuffle, uint64_t draw)
{
    return record_among(shuffle->window, bits_of(shuffle, draw));
}

/* The window is filled in order, then each example takes the place of the draw before it. */
static uint32_t record_of_example(const struct shuffle *shuffle, uint64_t number)
{
    return number < shuffle->window ? (uint32_t)number : full_record_of(shuffle, number - shuffle->window);
}

uint64_t shuffle_oldest(struct shuffle *shuffle, uint64_t drawn)
{
    const uint64_t window = shuffle->window;
    uint64_t left = window;
    memset(shuffle->seen, 0, sizeof(uint64_t) * seen_words(shuffle->window));
    for (uint64_t draw = drawn; draw--;) {
        uint32_t record = full_record_of(shuffle, draw);
        uint64_t *word = &shuffle->seen[record / 64], bit = UINT64_C(1) << record % 64;
        left -= (*word & bit) == 0;
        *word |= bit;
        /* The last draw has left a hole; the place of an earlier draw has the example that came next. */
        if (left == 0) return draw + 1 == drawn ? drawn + window - 1 : window + draw;
    }
    uint64_t oldest = 0;
    while (oldest < window && shuffle->seen[oldest / 64] >> oldest % 64 & 1) oldest++;
    return oldest;
}

void shuffle_place_of(const struct shuffle *shuffle, uint64_t number, struct reader_example *example)
{
    example_at(shuffle, record_of_example(shuffle, number), example);
}

void shuffle_put(struct shuffle *shuffle, uint64_t number, const struct reader_example *example)
{
    example_record_keep((uint8_t *)head_at(shuffle, record_of_example(shuffle, number)), example);
}

void shuffle_go_on(struct shuffle *shuffle, uint64_t drawn)
{
    shuffle->held = shuffle->window;
    shuffle->hole = full_record_of(shuffle, drawn - 1);
    shuffle->draw_count = drawn;
    shuffle->next = bits_of(shuffle, drawn);
}

bool shuffle_draw(struct shuffle *shuffle, struct reader_example *example)
{
    if (shuffle->hole < shuffle->window) {
        /* Nothing came to fill the hole: the last record moves in. */
        uint32_t last = --shuffle->held;
        if (shuffle->hole != last)
            memcpy(head_at(shuffle, shuffle->hole), head_at(shuffle, last), shuffle->record_bytes);
        shuffle->hole = shuffle->window;
    }
    if (shuffle->held == 0) return false;
    shuffle->hole = record_of(shuffle, shuffle->next);
    example_at(shuffle, shuffle->hole, example);
    /* No near cache holds a window. As long as it stays full, the next draw is from as many records. */
    shuffle->next = bits_of(shuffle, ++shuffle->draw_count);
    const uint8_t *ahead = shuffle->record + shuffle->record_bytes * record_of(shuffle, shuffle->next);
    for (size_t at = 0; at < shuffle->record_bytes && at < PREFETCH_BYTES; at += CACHE_LINE_BYTES)
        __builtin_prefetch(ahead + at, 1);
    return true;
}

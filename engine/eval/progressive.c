/* Samples of what training has predicted: cells by micro-batch, a ring of the last of them, a copy of that. */
#include "engine/eval/progressive.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"

/* Where a micro-batch's samples wait until its step is told. */
struct cell {
    _Alignas(64) _Atomic uint32_t shared_state;
    uint64_t step; /* of the micro-batch in it */
};
enum { CELL_FREE, CELL_BUSY, CELL_FULL };

/* A loss's samples. */
struct samples {
    union head_sample *cell, *ring, *kept; /* [cell_count, micro], [window], [window]; NULL: the head is no loss */
};

struct progressive {
    /* set once */
    struct heads heads;
    struct arena arena;
    struct batch_shape batch;
    uint32_t window, cell_count;
    bool has_weight;
    struct cell *cells;                             /* [cell_count]: by cell_of */
    struct samples *samples;                        /* [heads.count] */
    float *cell_weight, *ring_weight, *kept_weight; /* as samples; NULL: all are 1 */
    /* by who ends steps */
    uint64_t ring_end; /* examples that have entered the window: number n is at n % window */
    /* of the copy */
    uint32_t kept_count;
};

static bool is_loss(const struct head *head) { return op_table[head->node->op].traits & OP_IS_LOSS; }

static void layout_make(struct layout *l, struct progressive *p)
{
    const size_t in_cells = (size_t)p->cell_count * p->batch.micro;
    LAYOUT_TAKE(l, p->cells, p->cell_count);
    LAYOUT_TAKE(l, p->samples, p->heads.count);
    for (uint32_t i = 0; i < p->heads.count; i++) {
        struct samples none = {0}, *s = l->arena ? &p->samples[i] : &none;
        if (!is_loss(&p->heads.items[i])) continue;
        LAYOUT_TAKE(l, s->cell, in_cells);
        LAYOUT_TAKE(l, s->ring, p->window);
        LAYOUT_TAKE(l, s->kept, p->window);
    }
    if (!p->has_weight) return;
    LAYOUT_TAKE(l, p->cell_weight, in_cells);
    LAYOUT_TAKE(l, p->ring_weight, p->window);
    LAYOUT_TAKE(l, p->kept_weight, p->window);
}

status progressive_open(struct progressive **out, const struct graph *g, uint32_t window, uint32_t cell_count)
{
    *out = NULL;
    struct progressive *p = calloc(1, sizeof *p);
    if (p == NULL) FAIL(MEMORY, "no memory for the figures of progress");
    *p = (struct progressive){
        .batch = graph_batch(g), .window = window, .cell_count = cell_count, .has_weight = graph_example(g).has_weight};
    struct layout sum = {0}, place = {.arena = &p->arena};
    status st;
    TRY_GOTO(heads_open(&p->heads, g), failed);
    for (uint32_t i = 0; i < p->heads.count; i++) p->heads.items[i].metrics.has_group = false;
    TRY_GOTO(heads_reserve(&p->heads, window), failed);
    layout_make(&sum, p);
    TRY_GOTO(arena_open(&p->arena, "progress", sum.bytes), failed);
    layout_make(&place, p);
    *out = p;
    return ST_OK;
failed:
    progressive_close(p);
    return st;
}

void progressive_close(struct progressive *p)
{
    if (p == NULL) return;
    heads_close(&p->heads);
    arena_close(&p->arena);
    free(p);
}

/* Apart for those that are under way: micro-batches of one step, or, where steps overlap, steps of one micro-batch. */
static uint32_t cell_of(const struct progressive *p, uint64_t step, uint32_t micro_index)
{
    return (uint32_t)((step + micro_index) % p->cell_count);
}

void progressive_take(struct progressive *p, const struct slot *slot)
{
    const struct micro_batch *m = &slot->input->batch;
    const uint32_t index = cell_of(p, m->step, m->micro_index);
    struct cell *cell = &p->cells[index];
    uint32_t is_free = CELL_FREE;
    /* Acquire pairs with the release in progressive_step(): what was there has been copied. */
    if (!atomic_compare_exchange_strong_explicit(&cell->shared_state, &is_free, CELL_BUSY, memory_order_acquire,
                                                 memory_order_relaxed))
        return;
    const struct op_context c = {.graph = p->heads.graph, .tensor = slot->tensor, .batch = m};
    const size_t begin = (size_t)index * p->batch.micro;
    for (uint32_t i = 0; i < p->heads.count; i++)
        if (p->samples[i].cell) head_samples(&p->heads.items[i], &c, false, p->samples[i].cell + begin);
    if (p->has_weight) memcpy(p->cell_weight + begin, m->weight, m->example_count * sizeof *m->weight);
    cell->step = m->step;
    atomic_store_explicit(&cell->shared_state, CELL_FULL, memory_order_release);
}

/* `count` items to the ring, the first as number ring_end. */
static void ring_put(const struct progressive *p, void *ring, const void *from, uint32_t count, size_t item_bytes)
{
    const uint32_t skipped = count > p->window ? count - p->window : 0, rest = count - skipped;
    const uint32_t at = (uint32_t)((p->ring_end + skipped) % p->window),
                   first = rest < p->window - at ? rest : p->window - at;
    const uint8_t *source = (const uint8_t *)from + skipped * item_bytes;
    memcpy((uint8_t *)ring + at * item_bytes, source, first * item_bytes);
    memcpy(ring, source + first * item_bytes, (rest - first) * item_bytes);
}

void progressive_step(struct progressive *p, const struct step_done *done)
{
    for (uint32_t m = 0; (uint64_t)m * p->batch.micro < done->example_count; m++) {
        const uint32_t index = cell_of(p, done->step, m), left = done->example_count - m * p->batch.micro,
                       count = left < p->batch.micro ? left : p->batch.micro;
        const size_t begin = (size_t)index * p->batch.micro;
        struct cell *cell = &p->cells[index];
        /* Acquire pairs with the release in progressive_take(). */
        if (atomic_load_explicit(&cell->shared_state, memory_order_acquire) != CELL_FULL || cell->step != done->step)
            continue;
        for (uint32_t i = 0; i < p->heads.count; i++)
            if (p->samples[i].cell)
                ring_put(p, p->samples[i].ring, p->samples[i].cell + begin, count, sizeof *p->samples[i].cell);
        if (p->has_weight) ring_put(p, p->ring_weight, p->cell_weight + begin, count, sizeof *p->cell_weight);
        p->ring_end += count;
        /* Release pairs with the acquire in progressive_take(). */
        atomic_store_explicit(&cell->shared_state, CELL_FREE, memory_order_release);
    }
}

/* The oldest first. */
static void ring_copy(const struct progressive *p, void *to, const void *ring, size_t item_bytes)
{
    const uint32_t begin = (uint32_t)((p->ring_end - p->kept_count) % p->window),
                   first = p->kept_count < p->window - begin ? p->kept_count : p->window - begin;
    memcpy(to, (const uint8_t *)ring + begin * item_bytes, first * item_bytes);
    memcpy((uint8_t *)to + first * item_bytes, ring, (p->kept_count - first) * item_bytes);
}

void progressive_keep(struct progressive *p)
{
    p->kept_count = p->ring_end < p->window ? (uint32_t)p->ring_end : p->window;
    for (uint32_t i = 0; i < p->heads.count; i++)
        if (p->samples[i].ring) ring_copy(p, p->samples[i].kept, p->samples[i].ring, sizeof *p->samples[i].ring);
    if (p->has_weight) ring_copy(p, p->kept_weight, p->ring_weight, sizeof *p->ring_weight);
}

uint64_t progressive_measure(struct progressive *p, const struct heads **heads)
{
    *heads = &p->heads;
    for (uint32_t i = 0; i < p->heads.count; i++)
        if (p->samples[i].kept)
            head_samples_measure(&p->heads.items[i], p->samples[i].kept, p->kept_weight, p->kept_count);
    return p->kept_count;
}

/* Samples of training's predictions: cells by micro-batch, a ring of the last samples, a copy of the ring. */
#include "engine/eval/progressive.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/node/talk.h"

/* Holds a micro-batch's samples until its step is told. */
struct progressive_cell {
    _Alignas(64) _Atomic uint32_t shared_state;
    uint64_t step; /* the micro-batch's */
};
enum { CELL_FREE, CELL_BUSY, CELL_FULL };

/* The samples of a loss. */
struct samples {
    union head_sample *cell, *ring, *kept; /* [cell_count, micro], [window], [window]; NULL: the head is no loss */
    union head_sample *line;               /* [window]; on rank 0 of several nodes: measured */
};

/* With several nodes: a run of one node's examples, in a block;
 * a record for each follows. count 0: the last piece. */
struct progressive_piece {
    uint64_t first, count;
};

struct progressive {
    /* set once */
    struct heads heads;
    struct arena arena;
    struct batch_shape batch;
    uint32_t window, cell_count;
    bool has_weight;
    struct progressive_cell *cells;                 /* [cell_count]: by cell_of */
    struct samples *samples;                        /* [heads.count] */
    float *cell_weight, *ring_weight, *kept_weight; /* as samples; NULL: all are 1 */
    struct reduce *reduce;                          /* with several nodes; NULL: one node, without the following */
    bool measures;                                  /* this node does */
    uint32_t record_bytes;                          /* of an example's record: a sample of each loss, and a weight */
    bool *ring_own;                                 /* [window]: this node has predicted the example */
    float *line_weight;
    /* by the thread that ends steps */
    uint64_t ring_end; /* examples that have entered the window: number n is at n % window */
    /* the copy: the oldest first; with several nodes number n at n % window, own samples as of the last
     * progressive_keep, other nodes' as they have come */
    uint32_t kept_count;
    uint64_t kept_end, joined_end; /* with several nodes: numbers below are kept; are on rank 0 */
    uint64_t own_count;            /* of the numbers between them: predicted by this node */
    bool *kept_own;                /* [window] */
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
        if (p->measures) LAYOUT_TAKE(l, s->line, p->window);
    }
    if (p->reduce) LAYOUT_TAKE(l, p->ring_own, p->window);
    if (p->reduce) LAYOUT_TAKE(l, p->kept_own, p->window);
    if (!p->has_weight) return;
    if (p->measures) LAYOUT_TAKE(l, p->line_weight, p->window);
    LAYOUT_TAKE(l, p->cell_weight, in_cells);
    LAYOUT_TAKE(l, p->ring_weight, p->window);
    LAYOUT_TAKE(l, p->kept_weight, p->window);
}

static size_t piece_bytes(const struct progressive *p, uint64_t count)
{
    return sizeof(struct progressive_piece) + count * p->record_bytes;
}

static status nodes_open(struct progressive *p)
{
    if (p->reduce == NULL) return ST_OK;
    p->measures = reduce_rank(p->reduce) == 0;
    p->cell_count = 2 * batch_micro_count(p->batch); /* of the open step, and of the step being closed */
    for (uint32_t i = 0; i < p->heads.count; i++)
        if (is_loss(&p->heads.items[i])) p->record_bytes += (uint32_t)sizeof(union head_sample);
    if (p->has_weight) p->record_bytes += (uint32_t)sizeof(float);
    if (piece_bytes(p, 1) > TALK_BYTES)
        FAIL(INVALID, "an example of %u heads has more figures than %u bytes; --set train.progressive=0",
             p->heads.count, TALK_BYTES);
    return ST_OK;
}

status progressive_open(struct progressive **out, const struct graph *g, uint32_t window, uint32_t cell_count,
                        struct reduce *reduce)
{
    *out = NULL;
    struct progressive *p = calloc(1, sizeof *p);
    if (p == NULL) FAIL(MEMORY, "no memory for the figures of progress");
    *p = (struct progressive){.batch = graph_batch(g),
                              .window = window,
                              .cell_count = cell_count,
                              .has_weight = graph_example(g).has_weight,
                              .reduce = reduce};
    struct layout sum = {0}, place = {.arena = &p->arena};
    status st;
    TRY_GOTO(heads_open(&p->heads, g), failed);
    for (uint32_t i = 0; i < p->heads.count; i++) p->heads.items[i].metrics.has_group = false;
    TRY_GOTO(nodes_open(p), failed);
    if (p->reduce == NULL || p->measures) TRY_GOTO(heads_reserve(&p->heads, window), failed);
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

/* Different for micro-batches under way: those of one step, or, where steps overlap, of steps of one
 * micro-batch; with several nodes those of two steps. */
static uint32_t cell_of(const struct progressive *p, uint64_t step, uint32_t micro_index)
{
    if (p->reduce) return (uint32_t)(step % 2) * (p->cell_count / 2) + micro_index;
    return (uint32_t)((step + micro_index) % p->cell_count);
}

void progressive_take(struct progressive *p, const struct slot *slot)
{
    const struct micro_batch *m = &slot->input->batch;
    const uint32_t index = cell_of(p, m->step, m->micro_index);
    struct progressive_cell *cell = &p->cells[index];
    if (m->example_count == 0) return; /* a short step has no example for this node, and is not told */
    uint32_t is_free = CELL_FREE;
    /* Acquire pairs with the release in progressive_step(): the samples before have been copied. */
    if (!atomic_compare_exchange_strong_explicit(&cell->shared_state, &is_free, CELL_BUSY, memory_order_acquire,
                                                 memory_order_relaxed))
        return;
    const struct op_context c = {.graph = p->heads.graph, .tensor = slot->tensor, .batch = m};
    const size_t begin = (size_t)index * p->batch.micro;
    for (uint32_t i = 0; i < p->heads.count; i++)
        if (p->samples[i].cell) head_samples(&p->heads.items[i], &c, p->samples[i].cell + begin);
    if (p->has_weight) memcpy(p->cell_weight + begin, m->weight, m->example_count * sizeof *m->weight);
    cell->step = m->step;
    atomic_store_explicit(&cell->shared_state, CELL_FULL, memory_order_release);
}

/* With several nodes: the first number that is kept and not yet on rank 0. */
static uint64_t rest_begin(const struct progressive *p)
{
    const uint64_t oldest = p->kept_end - p->kept_count;
    return p->joined_end > oldest ? p->joined_end : oldest;
}

/* Puts `count` items into the ring, the first as number ring_end. */
static void ring_put(const struct progressive *p, void *ring, const void *from, uint32_t count, size_t item_bytes)
{
    const uint32_t skipped = count > p->window ? count - p->window : 0, rest = count - skipped;
    const uint32_t at = (uint32_t)((p->ring_end + skipped) % p->window),
                   first = rest < p->window - at ? rest : p->window - at;
    const uint8_t *source = (const uint8_t *)from + skipped * item_bytes;
    memcpy((uint8_t *)ring + at * item_bytes, source, first * item_bytes);
    memcpy(ring, source + first * item_bytes, (rest - first) * item_bytes);
}

/* Moves the window by `count` examples; is_own: this node has predicted them. */
static void ring_pass(struct progressive *p, uint32_t count, bool is_own)
{
    for (uint32_t i = count > p->window ? count - p->window : 0; i < count && p->reduce; i++)
        p->ring_own[(p->ring_end + i) % p->window] = is_own;
    p->ring_end += count;
}

void progressive_step(struct progressive *p, const struct step_done *done)
{
    for (uint32_t micro = 0; (uint64_t)micro * p->batch.micro < done->example_count; micro++) {
        const uint32_t index = cell_of(p, done->step, micro), left = done->example_count - micro * p->batch.micro,
                       count = left < p->batch.micro ? left : p->batch.micro;
        const size_t begin = (size_t)index * p->batch.micro;
        struct progressive_cell *cell = &p->cells[index];
        /* Acquire pairs with the release in progressive_take(). */
        if (atomic_load_explicit(&cell->shared_state, memory_order_acquire) != CELL_FULL || cell->step != done->step) {
            if (p->reduce) ring_pass(p, count, false);
            continue;
        }
        for (uint32_t i = 0; i < p->heads.count; i++)
            if (p->samples[i].cell)
                ring_put(p, p->samples[i].ring, p->samples[i].cell + begin, count, sizeof *p->samples[i].cell);
        if (p->has_weight) ring_put(p, p->ring_weight, p->cell_weight + begin, count, sizeof *p->cell_weight);
        ring_pass(p, count, true);
        /* Release pairs with the acquire in progressive_take(). */
        atomic_store_explicit(&cell->shared_state, CELL_FREE, memory_order_release);
    }
}

/* Copies the ring, the oldest first. */
static void ring_copy(const struct progressive *p, void *to, const void *ring, size_t item_bytes)
{
    const uint32_t begin = (uint32_t)((p->kept_end - p->kept_count) % p->window),
                   first = p->kept_count < p->window - begin ? p->kept_count : p->window - begin;
    memcpy(to, (const uint8_t *)ring + begin * item_bytes, first * item_bytes);
    memcpy((uint8_t *)to + first * item_bytes, ring, (p->kept_count - first) * item_bytes);
}

/* Keeps the samples that this node has predicted since the last time, at their places in the ring. */
static void own_keep(struct progressive *p)
{
    memcpy(p->kept_own, p->ring_own, p->window * sizeof *p->kept_own);
    p->own_count = 0;
    for (uint64_t n = rest_begin(p); n < p->kept_end; n++) {
        const uint32_t at = (uint32_t)(n % p->window);
        if (!p->kept_own[at]) continue;
        p->own_count++;
        for (uint32_t i = 0; i < p->heads.count; i++)
            if (p->samples[i].kept) p->samples[i].kept[at] = p->samples[i].ring[at];
        if (p->has_weight) p->kept_weight[at] = p->ring_weight[at];
    }
}

void progressive_keep(struct progressive *p)
{
    p->kept_count = p->ring_end < p->window ? (uint32_t)p->ring_end : p->window;
    p->kept_end = p->ring_end;
    if (p->reduce) {
        own_keep(p);
        return;
    }
    for (uint32_t i = 0; i < p->heads.count; i++)
        if (p->samples[i].ring) ring_copy(p, p->samples[i].kept, p->samples[i].ring, sizeof *p->samples[i].ring);
    if (p->has_weight) ring_copy(p, p->kept_weight, p->ring_weight, sizeof *p->ring_weight);
}

/* --- several nodes ---------------------------------------------------------------------------- */

/* Writes the kept samples of a place as a record. */
static void record_write(const struct progressive *p, uint32_t place, uint8_t *to)
{
    for (uint32_t i = 0; i < p->heads.count; i++) {
        if (p->samples[i].kept == NULL) continue;
        memcpy(to, &p->samples[i].kept[place], sizeof *p->samples[i].kept);
        to += sizeof *p->samples[i].kept;
    }
    if (p->has_weight) memcpy(to, &p->kept_weight[place], sizeof *p->kept_weight);
}

static void record_read(const struct progressive *p, uint32_t place, const uint8_t *from)
{
    for (uint32_t i = 0; i < p->heads.count; i++) {
        if (p->samples[i].kept == NULL) continue;
        memcpy(&p->samples[i].kept[place], from, sizeof *p->samples[i].kept);
        from += sizeof *p->samples[i].kept;
    }
    if (p->has_weight) memcpy(&p->kept_weight[place], from, sizeof *p->kept_weight);
}

/* On other nodes: the next piece from *number on that fits into `room` bytes; false:
 * no piece is left, or fits. */
static bool piece_next(const struct progressive *p, uint64_t *number, size_t room, struct progressive_piece *piece)
{
    uint64_t n = *number;
    for (; n < p->kept_end && !p->kept_own[n % p->window];) n++;
    *number = n;
    for (; n < p->kept_end && p->kept_own[n % p->window] && piece_bytes(p, n + 1 - *number) <= room;) n++;
    *piece = (struct progressive_piece){*number, n - *number};
    *number = n;
    return piece->count > 0;
}

static status own_say(const struct progressive *p)
{
    uint64_t number = rest_begin(p);
    struct progressive_piece piece;
    uint8_t *at;
    while (piece_next(p, &number, TALK_BYTES, &piece)) {
        uint32_t used = 0;
        TRY(reduce_say_place(p->reduce, 0, &at));
        do {
            memcpy(at + used, &piece, sizeof piece);
            used += (uint32_t)sizeof piece;
            for (uint64_t n = piece.first; n < piece.first + piece.count; n++, used += p->record_bytes)
                record_write(p, (uint32_t)(n % p->window), at + used);
        } while (piece_next(p, &number, TALK_BYTES - used, &piece));
        reduce_say(p->reduce, 0, used);
    }
    return ST_OK;
}

status progressive_joined(struct progressive *p)
{
    static const struct progressive_piece none = {0};
    if (p->reduce == NULL || p->measures) return ST_OK;
    return reduce_say_all(p->reduce, 0, &none, sizeof none);
}

static status none_come(void)
{
    FAIL(INVALID, "a node has sent figures of progress that cannot be right: not all nodes run the same program");
}

/* Takes in a node's block; *left: examples that are still missing. */
static status block_take(struct progressive *p, const uint8_t *at, uint32_t bytes, uint64_t *left, bool *is_last)
{
    struct progressive_piece piece;
    for (uint32_t used = 0; used < bytes; used += (uint32_t)piece_bytes(p, piece.count)) {
        if (bytes - used < sizeof piece) return none_come();
        memcpy(&piece, at + used, sizeof piece);
        *is_last = piece.count == 0;
        if (*is_last) return bytes == sizeof piece ? ST_OK : none_come();
        if (piece.count > *left || piece.first < rest_begin(p) || piece.first > p->kept_end - piece.count ||
            piece_bytes(p, piece.count) > bytes - used)
            return none_come();
        const uint8_t *record = at + used + sizeof piece;
        for (uint64_t n = piece.first; n < piece.first + piece.count; n++, record += p->record_bytes)
            record_read(p, (uint32_t)(n % p->window), record);
        *left -= piece.count;
    }
    return ST_OK;
}

static status all_hear(struct progressive *p)
{
    uint64_t left = p->kept_end - rest_begin(p) - p->own_count;
    for (uint32_t n = 1; n < reduce_node_count(p->reduce); n++)
        for (bool is_last = false; !is_last;) {
            const uint8_t *at;
            uint32_t bytes;
            TRY(reduce_hear(p->reduce, n, &at, &bytes));
            const status st = block_take(p, at, bytes, &left, &is_last);
            reduce_heard(p->reduce, n);
            if (st != ST_OK) return st;
        }
    if (left > 0)
        FAIL(INVALID, "figures of progress lack %" PRIu64 " examples: not all nodes run the same program", left);
    return ST_OK;
}

status progressive_join(struct progressive *p)
{
    if (p->reduce == NULL) return ST_OK;
    TRY(p->measures ? all_hear(p) : own_say(p));
    p->joined_end = p->kept_end;
    return ST_OK;
}

static uint64_t line_measure(struct progressive *p)
{
    if (!p->measures) return 0;
    if (p->has_weight) ring_copy(p, p->line_weight, p->kept_weight, sizeof *p->line_weight);
    for (uint32_t i = 0; i < p->heads.count; i++) {
        struct samples *s = &p->samples[i];
        if (s->kept == NULL) continue;
        ring_copy(p, s->line, s->kept, sizeof *s->line);
        head_samples_measure(&p->heads.items[i], s->line, p->line_weight, p->kept_count);
    }
    return p->kept_count;
}

uint64_t progressive_measure(struct progressive *p, const struct heads **heads)
{
    *heads = &p->heads;
    if (p->reduce) return line_measure(p);
    for (uint32_t i = 0; i < p->heads.count; i++)
        if (p->samples[i].kept)
            head_samples_measure(&p->heads.items[i], p->samples[i].kept, p->kept_weight, p->kept_count);
    return p->kept_count;
}

/* The feed's thread, and the numbering of a step's rows. */
#include "engine/feed.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engine/pipe/thread.h"

/* Numbers the distinct rows of one step in one table: row number of the store -> number within the step. Open
 * addressing over stamped cells, so that a new step needs no clearing. */
struct row_numbers {
    struct row_cell {
        uint32_t stamp, row, step_row;
    } * cells;
    uint32_t cell_mask;
    uint32_t stamp; /* of the current step; 0 is never used */
};

#define SLOT_NONE UINT32_MAX
/* Examples that a resumed run drops between two looks at whether it should stop. */
#define SKIP_EXAMPLES UINT64_C(65536)

struct feed {
    /* set once */
    const struct graph *graph;
    struct model *model;
    struct batch_shape shape;
    struct example_shape example;
    bool training;
    uint64_t epochs, steps_max;
    struct progress from;
    struct reader *reader;
    const char *paths; /* the caller's, who keeps them as long as the feed */
    struct arena arena;
    struct slot *slots;
    uint32_t slot_count;
    uint32_t *dense_column, *field_column, *ids_max; /* the reader keeps pointers to these */
    struct ring ready, free;
    pthread_t thread;
    bool is_started;
    /* the thread's */
    struct row_numbers *numbers; /* [table_count]                                                 */
    struct step_rows *steps;     /* [steps_ahead, table_count]: of step s at s % steps_ahead      */
    uint32_t steps_ahead;
    uint32_t held; /* a slot that was taken and not used, or SLOT_NONE                               */
    status result;
    char message[4096];
    /* seen by both */
    _Atomic uint64_t shared_bytes, shared_bad, shared_cut;
    _Atomic bool shared_is_done;
    _Atomic bool shared_waits;     /* the consumer is in feed_next                                     */
    _Atomic uint64_t shared_taken; /* slots that it has been given                                     */
    uint64_t taken_seen;           /* feed_wake's: shared_taken at its last call                        */
};

/* --- memory ----------------------------------------------------------------------------------- */

/* Most distinct rows that a step can touch in a table; the compiler has bounded it by 2^31. */
static uint32_t step_rows_max(const struct graph *g, uint32_t table)
{
    return g->header->batch * g->tables[table].key_count_max;
}

static uint32_t cell_count_of(uint32_t rows_max)
{
    uint32_t cells = 16;
    while (cells < 2 * (uint64_t)rows_max && cells < (1u << 31)) cells *= 2;
    return cells;
}

/* Steps that can have a slot in flight, or be half read, at once: a run of slots covers at most (slots - 1) / micros
 * + 2 steps, and the consumer may still be at the update of one more. */
static uint32_t steps_ahead_of(const struct graph *g, uint32_t slot_count)
{
    return (slot_count - 1) / batch_micro_count(graph_batch(g)) + 3;
}

/* Adds up, or hands out, everything a feed keeps: one list, so that the sum cannot differ from what is taken. */
struct layout {
    struct arena *arena; /* NULL: only sum */
    size_t bytes;
};
static void *layout_take(struct layout *l, size_t bytes)
{
    l->bytes += arena_bytes(bytes);
    return l->arena ? arena_take(l->arena, bytes) : NULL;
}

static void slot_layout(struct layout *l, const struct feed_options *o, struct slot *slot, const uint32_t *spans)
{
    const struct graph *g = o->graph;
    struct batch_shape shape = graph_batch(g);
    struct example_shape example = graph_example(g);
    bool with_scratch = !o->training;
    size_t batch_bytes = micro_batch_bytes(shape, example),
           ticket = ticket_bytes(shape, example, g->table_count, spans, with_scratch);
    uint64_t activation_bytes = o->training ? g->header->slot_bytes : g->header->slot_eval_bytes;
    l->bytes += batch_bytes + ticket;
    if (l->arena) {
        micro_batch_place(&slot->batch, l->arena, shape, example);
        ticket_place(&slot->ticket, l->arena, shape, example, g->table_count, spans, with_scratch);
    }
    struct view *views = layout_take(l, g->tensor_count * sizeof *views);
    uint8_t *activations = layout_take(l, activation_bytes);
    if (!l->arena) return;
    slot->tensor = views;
    for (uint32_t t = 0; t < g->tensor_count; t++) {
        const struct graph_tensor *tensor = &g->tensors[t];
        views[t] = (struct view){.rows = tensor->rows, .cols = tensor->cols, .stride = tensor->stride};
        switch ((enum tensor_kind)tensor->kind) {
        case TENSOR_DENSE: views[t].data = slot->batch.dense; break;
        case TENSOR_LABEL: views[t].data = slot->batch.label; break;
        case TENSOR_ACTIVATION: /* gradients have no place in an evaluation slot, and are not read there */
            if (tensor->offset < activation_bytes) views[t].data = (float *)(activations + tensor->offset);
            break;
        case TENSOR_PARAM: views[t].data = o->model->param + tensor->offset; break;
        default: break;
        }
    }
}

static void feed_layout(struct layout *l, const struct feed_options *o, struct feed *feed)
{
    const struct graph *g = o->graph;
    uint32_t spans[GRAPH_TABLES_MAX];
    for (uint32_t t = 0; t < g->table_count; t++) spans[t] = g->tables[t].span_floats;
    struct slot *slots = layout_take(l, o->slot_count * sizeof *slots);
    for (uint32_t s = 0; s < o->slot_count; s++) slot_layout(l, o, l->arena ? &slots[s] : NULL, spans);
    l->bytes += 2 * ring_bytes(o->slot_count);
    uint32_t *columns = layout_take(l, (g->header->dense_count + 2 * g->field_count) * sizeof *columns);
    if (l->arena) {
        ring_place(&feed->ready, l->arena, o->slot_count);
        ring_place(&feed->free, l->arena, o->slot_count);
        feed->slots = slots;
        feed->dense_column = columns;
        feed->field_column = columns + g->header->dense_count;
        feed->ids_max = feed->field_column + g->field_count;
        for (uint32_t i = 0; i < g->header->dense_count; i++) feed->dense_column[i] = g->denses[i].column;
        for (uint32_t i = 0; i < g->field_count; i++)
            feed->field_column[i] = g->fields[i].column, feed->ids_max[i] = g->fields[i].ids_max;
    }
    if (!o->training) return;
    uint32_t steps_ahead = steps_ahead_of(g, o->slot_count);
    struct row_numbers *numbers = layout_take(l, g->table_count * sizeof *numbers);
    struct step_rows *steps = layout_take(l, (size_t)steps_ahead * g->table_count * sizeof *steps);
    for (uint32_t t = 0; t < g->table_count; t++) {
        uint32_t rows_max = step_rows_max(g, t), cells = cell_count_of(rows_max);
        struct row_cell *row_cells = layout_take(l, cells * sizeof *row_cells);
        if (l->arena) numbers[t] = (struct row_numbers){row_cells, cells - 1, 0};
        for (uint32_t s = 0; s < steps_ahead; s++) {
            float **span = layout_take(l, rows_max * sizeof *span);
            if (l->arena) steps[s * g->table_count + t].span = span;
        }
    }
    if (!l->arena) return;
    feed->numbers = numbers;
    feed->steps = steps;
    feed->steps_ahead = steps_ahead;
}

size_t feed_bytes(const struct feed_options *options)
{
    struct layout sum = {0};
    feed_layout(&sum, options, NULL);
    return sum.bytes;
}

status feed_open(struct feed **out, const struct feed_options *o)
{
    struct feed *feed = calloc(1, sizeof *feed);
    if (feed == NULL) FAIL(MEMORY, "no memory for a feed");
    feed->graph = o->graph;
    feed->model = o->model;
    feed->shape = graph_batch(o->graph);
    feed->example = graph_example(o->graph);
    feed->training = o->training;
    feed->epochs = o->epochs;
    feed->steps_max = o->steps_max;
    feed->held = SLOT_NONE;
    feed->paths = o->reader.paths;
    feed->slot_count = o->slot_count;
    status st = arena_open(&feed->arena, o->training ? "slots" : "evaluation slots", feed_bytes(o));
    if (st == ST_OK) {
        struct layout place = {.arena = &feed->arena};
        feed_layout(&place, o, feed);
        struct reader_options reader = o->reader;
        reader.schema.example = feed->example;
        reader.schema.ids_max = feed->ids_max;
        reader.schema.dense_column = feed->dense_column;
        reader.schema.field_column = feed->field_column;
        st = reader_open(&feed->reader, &reader);
    }
    if (st != ST_OK) {
        arena_close(&feed->arena);
        free(feed);
        return st;
    }
    for (uint32_t s = 0; s < o->slot_count; s++) {
        feed->slots[s].index = s;
        CHECK(ring_try_push(&feed->free, s));
    }
    *out = feed;
    return ST_OK;
}

/* --- the thread ------------------------------------------------------------------------------- */

static struct step_rows *step_begin(struct feed *feed, uint64_t step)
{
    struct step_rows *rows = &feed->steps[(step % feed->steps_ahead) * feed->graph->table_count];
    for (uint32_t t = 0; t < feed->graph->table_count; t++) {
        rows[t].row_count = 0;
        struct row_numbers *n = &feed->numbers[t];
        if (++n->stamp == 0) { /* the stamps have run out: old ones must not be taken for new */
            memset(n->cells, 0, ((size_t)n->cell_mask + 1) * sizeof *n->cells);
            n->stamp = 1;
        }
    }
    return rows;
}

/* Gives every unique of the ticket its number within the step. */
static void step_number(struct feed *feed, struct ticket *ticket, struct step_rows *rows)
{
    for (uint32_t t = 0; t < ticket->table_count; t++) {
        struct ticket_table *table = &ticket->table[t];
        struct row_numbers *n = &feed->numbers[t];
        for (uint32_t u = 0; u < table->unique_count; u++) {
            uint32_t row = table->row[u], at = (row * 2654435769u) & n->cell_mask;
            while (n->cells[at].stamp == n->stamp && n->cells[at].row != row) at = (at + 1) & n->cell_mask;
            if (n->cells[at].stamp != n->stamp) {
                n->cells[at] = (struct row_cell){n->stamp, row, rows[t].row_count};
                rows[t].span[rows[t].row_count++] = table->span[u];
            }
            table->step_row[u] = n->cells[at].step_row;
        }
    }
}

/* A free slot: the one left over from the end of a pass, or the next that the consumer gives back. */
static bool slot_take(struct feed *feed, uint32_t *index)
{
    if (feed->held == SLOT_NONE) return ring_pop(&feed->free, index);
    *index = feed->held;
    feed->held = SLOT_NONE;
    return true;
}

static void counts_publish(struct feed *feed)
{
    struct reader_counts counts = reader_counts(feed->reader);
    /* Relaxed: figures for the progress line, ordered with nothing. */
    atomic_store_explicit(&feed->shared_bytes, counts.byte_count, memory_order_relaxed);
    atomic_store_explicit(&feed->shared_bad, counts.bad_count, memory_order_relaxed);
    atomic_store_explicit(&feed->shared_cut, counts.cut_count, memory_order_relaxed);
}

/* One pass: fills slots until the data or `steps_max` ends. *is_open is false once the consumer has closed the
 * rings. */
static status pass_run(struct feed *feed, uint64_t epoch, uint64_t *step, uint64_t skip, bool *is_open)
{
    uint32_t micro_count = batch_micro_count(feed->shape);
    bool is_end = false;
    TRY(reader_start(feed->reader, epoch));
    for (uint64_t left = skip; left > 0 && !is_end;) {
        uint64_t count = left < SKIP_EXAMPLES ? left : SKIP_EXAMPLES;
        TRY(reader_skip(feed->reader, count, &is_end));
        if (!(*is_open = !ring_is_closed(&feed->free))) return ST_OK;
        left -= count;
    }
    while (!is_end && (feed->steps_max == 0 || *step < feed->steps_max)) {
        struct step_rows *rows = feed->training ? step_begin(feed, *step) : NULL;
        uint32_t step_examples = 0;
        for (uint32_t micro = 0; micro < micro_count && !is_end; micro++) {
            uint32_t index;
            if (!(*is_open = slot_take(feed, &index))) return ST_OK;
            struct slot *slot = &feed->slots[index];
            struct micro_batch *m = &slot->batch;
            micro_batch_clear(m);
            TRY(reader_fill(feed->reader, m, feed->shape.micro, &is_end));
            /* Closed while this waited for input: whoever closed may have freed what the slot would use. */
            if (!(*is_open = !ring_is_closed(&feed->free))) return ST_OK;
            step_examples += m->example_count;
            if (step_examples == 0) { /* the pass ended with the step before: nobody has seen this slot */
                CHECK(micro == 0 && is_end);
                feed->held = index;
                break;
            }
            m->step = *step;
            m->epoch = epoch;
            m->micro_index = micro;
            m->is_last = is_end || micro + 1 == micro_count;
            m->step_example_count = step_examples;
            TRY(store_prepare(feed->model->store, m, feed->training ? STORE_CREATE : STORE_LOOKUP, &slot->ticket));
            if (feed->training) step_number(feed, &slot->ticket, rows);
            for (uint32_t t = 0; t < feed->graph->tensor_count; t++)
                if (feed->graph->tensors[t].rows == 0) slot->tensor[t].rows = m->example_count;
            slot->step_rows = rows;
            counts_publish(feed);
            if (!(*is_open = ring_push(&feed->ready, index))) return ST_OK;
        }
        if (step_examples) ++*step;
    }
    return ST_OK;
}

static void *feed_main(void *argument)
{
    struct feed *feed = argument;
    uint64_t step = feed->from.step, skip = feed->from.epoch_examples;
    bool is_open = true;
    status st = ST_OK;
    for (uint64_t epoch = feed->from.epoch; epoch < feed->epochs && is_open && st == ST_OK; epoch++) {
        if (feed->steps_max && step >= feed->steps_max) break;
        st = pass_run(feed, epoch, &step, skip, &is_open);
        skip = 0;
    }
    counts_publish(feed);
    feed->result = st;
    if (st != ST_OK) snprintf(feed->message, sizeof feed->message, "%s", status_message());
    /* Release pairs with the acquire in feed_next and feed_close: result and message come before it. */
    atomic_store_explicit(&feed->shared_is_done, true, memory_order_release);
    ring_close(&feed->ready);
    return NULL;
}

status feed_start(struct feed *feed, const struct progress *from)
{
    if (from) feed->from = *from;
    int error = thread_start(&feed->thread, NULL, feed_main, feed);
    if (error) FAIL(SYSTEM, "cannot start the reading thread: %s", strerror(error));
    feed->is_started = true;
    return ST_OK;
}

/* --- the consumer's side ---------------------------------------------------------------------- */

status feed_next(struct feed *feed, struct slot **slot)
{
    uint32_t index;
    *slot = NULL;
    /* Relaxed, both: feed_wake only guesses from them whether anything moves. */
    atomic_store_explicit(&feed->shared_waits, true, memory_order_relaxed);
    bool is_there = ring_pop(&feed->ready, &index);
    atomic_store_explicit(&feed->shared_waits, false, memory_order_relaxed);
    if (is_there) {
        atomic_fetch_add_explicit(&feed->shared_taken, 1, memory_order_relaxed);
        *slot = &feed->slots[index];
        return ST_OK;
    }
    if (!atomic_load_explicit(&feed->shared_is_done, memory_order_acquire)) return ST_OK; /* interrupted */
    return feed->result == ST_OK ? ST_OK : status_adopt(feed->result, feed->message);
}

void feed_release(struct feed *feed, struct slot *slot)
{
    store_release(feed->model->store, &slot->ticket);
    (void)ring_push(&feed->free, slot->index); /* never full: there are no more slots than cells */
}

struct feed_counts feed_counts(const struct feed *feed)
{
    return (struct feed_counts){
        .byte_count = atomic_load_explicit(&feed->shared_bytes, memory_order_relaxed),
        .size_bytes = reader_size_bytes(feed->reader),
        .bad_count = atomic_load_explicit(&feed->shared_bad, memory_order_relaxed),
        .cut_count = atomic_load_explicit(&feed->shared_cut, memory_order_relaxed),
    };
}

const char *feed_paths(const struct feed *feed) { return feed->paths; }

uint64_t feed_example_estimate(const struct feed *feed) { return reader_example_estimate(feed->reader); }

bool feed_is_stream(const struct feed *feed) { return reader_is_stream(feed->reader); }

void feed_interrupt(void *feed_pointer)
{
    struct feed *feed = feed_pointer;
    ring_close(&feed->free);
    ring_close(&feed->ready);
}

bool feed_wake(void *feed_pointer)
{
    struct feed *feed = feed_pointer;
    uint64_t taken = atomic_load_explicit(&feed->shared_taken, memory_order_relaxed);
    bool is_stuck = atomic_load_explicit(&feed->shared_waits, memory_order_relaxed) && taken == feed->taken_seen;
    feed->taken_seen = taken;
    if (is_stuck) feed_interrupt(feed);
    return is_stuck;
}

void feed_close(struct feed *feed)
{
    if (feed == NULL) return;
    if (feed->is_started) {
        feed_interrupt(feed);
        /* A thread that waits for a pipe nobody writes to cannot be woken: after a second it is left to the exit. */
        struct timespec deadline;
        clock_gettime(CLOCK_REALTIME, &deadline);
        deadline.tv_sec += 1;
        if (pthread_timedjoin_np(feed->thread, NULL, &deadline) != 0) return;
    }
    reader_close(feed->reader);
    arena_close(&feed->arena);
    free(feed);
}

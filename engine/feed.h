/* A feed turns data files into prepared slots, on a thread of its own that runs ahead of the computation:
 *
 *     reader ──▶ slot's micro_batch ──▶ store_prepare: ticket ──▶ step rows ──ready ring──▶ consumer ──free ring──▶ (again)
 *
 * The feed alone decides which example belongs to which micro-batch and step, and it creates rows in the order of the data, so
 * nothing downstream depends on timing. A training feed numbers the rows that a step touches (ticket_table.step_row), so that
 * gradients are summed per row of the step; an evaluation feed only looks rows up. */
#ifndef HETERPS_ENGINE_FEED_H
#define HETERPS_ENGINE_FEED_H

#include <pthread.h>

#include "engine/model.h"
#include "engine/pipe/ring.h"
#include "graph/op.h"
#include "io/reader.h"
#include "io/store.h"

/* The preallocated memory of one micro-batch in flight. */
struct slot {
    uint32_t index;
    struct micro_batch batch;
    struct ticket ticket;
    /* [tensor_count]: rows is the example count for all but parameters, which are shared; gradients of parameters are
     * set by the trainer, for the slot's lane. */
    struct view *tensor;
    /* [table_count] of the slot's step; training only. The feed adds to them until the step's last micro-batch: to be
     * read with that one only. */
    struct step_rows *step_rows;
};

/* The rows that a step touches in one table, in order of first occurrence. */
struct step_rows {
    uint32_t row_count;
    float **span; /* [row_count] */
};

struct feed_options {
    const struct graph *graph;
    struct model *model;
    bool training; /* create rows and number them by step, several passes; else one pass of look-ups */
    uint32_t slot_count;
    uint64_t epochs, steps_max; /* training: bounds; steps_max 0: none                         */
    struct reader_options reader;
};

/* What the feed has read so far; safe to ask from another thread. */
struct feed_counts {
    uint64_t byte_count, size_bytes; /* of the current pass's files; size 0: unknown            */
    uint64_t bad_count, cut_count;
};

struct feed;
/* Memory that feed_open takes, by the same sum. */
size_t feed_bytes(const struct feed_options *options);
/* Opens the reader (a wrong path fails here) and takes all memory, but reads nothing yet. */
MUST_USE status feed_open(struct feed **feed, const struct feed_options *options);
/* Starts the thread, in training behind what `from` says is done; NULL: at the beginning. */
MUST_USE status feed_start(struct feed *feed, const struct progress *from);
/* The next micro-batch in order, or NULL at the end of the data. Fails with what the feed failed with. */
MUST_USE status feed_next(struct feed *feed, struct slot **slot);
/* Gives a slot back. The last slot of a step is given back after the step's update. */
void feed_release(struct feed *feed, struct slot *slot);
struct feed_counts feed_counts(const struct feed *feed);
/* The paths it reads, as they were given; for messages. */
const char *feed_paths(const struct feed *feed);
/* About how many examples a pass has; 0 if that cannot be told. */
uint64_t feed_example_estimate(const struct feed *feed);
/* The data can be read only once. */
bool feed_is_stream(const struct feed *feed);
/* Unblocks both ends; from a signal handler too. feed_next then gives what is ready, and NULL. */
void feed_interrupt(void *feed);
/* For stop_listen: interrupts if the consumer waits and has been given nothing since the last call; returns whether it did. From a
 * signal handler on the consumer's thread. */
bool feed_wake(void *feed);
/* Stops the thread and gives the memory back; a thread that is stuck reading a pipe is left behind, with its memory. */
void feed_close(struct feed *feed);

#endif

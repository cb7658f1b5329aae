/* Threads that number the keys of a feed's inputs, the asker's half of their tickets (io/store/store_ticket.h),
 * while the feed's thread reads those behind them and finds the rows of those before: of all that a key takes
 * it is the most. Rows that are there already they find, too, where these have their numbers for good
 * (store_number); new ones are made by the feed's thread.
 *
 *     feed's thread   input, read ──push──▶ todo ring ──▶ any numberer: ticket numbered
 *                     ──▶ await ── rows are found, in order of the data
 *
 * Who waits for an input that nobody has begun numbers it. Which thread numbers an input changes nothing. No locks.
 *
 * Workload: 2,048 examples of 26 to 214 keys, 10 ns a key. */
#ifndef HETERPS_ENGINE_PIPE_NUMBERERS_H
#define HETERPS_ENGINE_PIPE_NUMBERERS_H

#include "engine/slot/slot.h"

struct numberers_options {
    const struct store *store;
    struct input *inputs; /* [input_count], whose tickets have a place for keys */
    uint32_t input_count;
    uint32_t count; /* of threads, beside the feed's                  */
    /* kept: where they run; none: anywhere */
    const int *processors;
    uint32_t processor_count;
};

struct numberers;
/* Lays out their memory for inputs of so many keys; *numberers: NULL without an arena. Their threads' stacks
 * are for the caller to plan. */
void numberers_layout(struct numberers **numberers, struct layout *l, uint32_t count, uint32_t input_count,
                      size_t key_count_max);
/* Starts the threads. SYSTEM: one cannot be; numberers_stop follows in any case. */
MUST_USE status numberers_start(struct numberers *numberers, const struct numberers_options *options);
/* Ends them, once nothing is under way (numberers_await). NULL is ignored. */
void numberers_stop(struct numberers *numberers);

/* --- the feed's thread ------------------------------------------------------------------------------- */

/* The input, which is read and is not under way, is to be numbered. */
void numberers_push(struct numberers *numberers, uint32_t index);
/* Until the input that was pushed is numbered. */
void numberers_await(struct numberers *numberers, uint32_t index);

#endif

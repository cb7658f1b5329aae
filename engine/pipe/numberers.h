/* Threads that number the keys of a feed's inputs: the asker's half of their tickets
 * (io/store/store_ticket.h). They work while the feed's thread reads later inputs and finds the rows of
 * earlier ones, because numbering takes the most of a key's time. They also find existing rows whose numbers
 * are final (store_number); the feed's thread makes new rows.
 *
 *     feed's thread   input, read ──push──▶ todo ring ──▶ any numberer: ticket numbered
 *                     ──▶ await ── rows are found, in order of the data
 *
 * Whoever waits for an input that nobody has begun numbers it. Which thread numbers an
 * input changes nothing. No locks.
 *
 * Workload: 2,048 examples of 26 to 214 keys, 10 ns a key. */
#ifndef HETERPS_ENGINE_PIPE_NUMBERERS_H
#define HETERPS_ENGINE_PIPE_NUMBERERS_H

#include "engine/slot/slot.h"

struct numberers_options {
    const struct store *store;
    struct input *inputs; /* [input_count], with tickets that have memory for keys */
    uint32_t input_count;
    uint32_t count; /* of threads, beside the feed's                  */
    /* kept: where they run; none: anywhere */
    const int *processors;
    uint32_t processor_count;
};

struct numberers;
/* Lays out memory for inputs of at most key_count_max keys. *numberers: NULL without an arena. The caller
 * plans the stacks of the threads. */
void numberers_layout(struct numberers **numberers, struct layout *l, uint32_t count, uint32_t input_count,
                      size_t key_count_max);
/* Starts the threads. SYSTEM: one cannot be started; numberers_stop follows in any case. */
MUST_USE status numberers_start(struct numberers *numberers, const struct numberers_options *options);
/* Ends the threads, once nothing is under way (numberers_await). NULL is ignored. */
void numberers_stop(struct numberers *numberers);

/* --- the feed's thread ------------------------------------------------------------------------------- */

/* Hands over an input that is read and not under way, to be numbered. */
void numberers_push(struct numberers *numberers, uint32_t index);
/* Waits until the pushed input is numbered. */
void numberers_await(struct numberers *numberers, uint32_t index);

#endif

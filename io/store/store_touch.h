/* Makes memory of a store resident before the thread that creates rows needs it, on a thread of its own,
 * while the first lines are read and parsed, and after that beside the creating thread. The kernel, or the
 * machine below it, must find and clear a page first, and this holds up whoever touches it. The index is
 * touched at random, so the first micro-batch would meet every page of it.
 *
 * Workload: the index once, if the data has enough keys to touch all of it; then TOUCH_AHEAD_BYTES of
 * each table beyond its present rows, in pieces of a huge page, no further than the data may need. The
 * store gives the same without it. */
#ifndef HETERPS_IO_STORE_STORE_TOUCH_H
#define HETERPS_IO_STORE_STORE_TOUCH_H

#include "io/store/store.h"

/* Starts the thread (the caller plans its stack), which ends when nothing is left to do, and at
 * store_close at the latest. `example_estimate`: of the data from which rows are created; 0: unknown,
 * and only memory for rows is touched, ahead of them. Once for a store, while nobody creates rows.
 * SYSTEM: a thread cannot be started. */
MUST_USE status store_touch_start(struct store *store, uint64_t example_estimate);

#endif

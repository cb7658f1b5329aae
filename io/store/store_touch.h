/* Makes memory of a store resident before the thread that creates rows needs it: on a thread of its own, while
 * that one reads and parses the first lines and then beside it. A page that the kernel must find and clear
 * first, or the machine below it, holds up whoever touches it: of the index, which is touched at random, the
 * first micro-batch would meet every page.
 *
 * Workload: the index once, if the data has keys enough to touch all of it; then of each table
 * TOUCH_AHEAD_BYTES of rows ahead of those that there are, in pieces of a huge page, no further than the data
 * may need. What the store gives never depends on it. */
#ifndef HETERPS_IO_STORE_STORE_TOUCH_H
#define HETERPS_IO_STORE_STORE_TOUCH_H

#include "io/store/store.h"

/* Starts the thread (its stack is for the caller to plan), which ends by itself when nothing is left to do, and
 * at store_close at the latest. `example_estimate`: of the data that rows are created from; 0: unknown, and
 * only rows ahead of others are touched. Once for a store, while nobody creates rows. SYSTEM: a thread cannot
 * be started. */
MUST_USE status store_touch_start(struct store *store, uint64_t example_estimate);

#endif

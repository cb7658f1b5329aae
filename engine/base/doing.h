/* What the process is doing at this moment, by kinds that others ask for from outside: figures of --metrics,
 * and tests that kill or stop a node at a moment of a kind. A thread that begins or ends something counts;
 * several kinds may go on at once. Some ten relaxed additions a step. */
#ifndef HETERPS_ENGINE_BASE_DOING_H
#define HETERPS_ENGINE_BASE_DOING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* clang-format off */
#define DOINGS(X)                                                                 \
    X(handshake, "meets the other nodes, and compares itself with them")          \
    X(recovery,  "goes on from a save, until its first step is done")             \
    X(reading,   "reads and parses data")                                         \
    X(rows,      "has asked other nodes for rows of a step")                      \
    X(sums,      "rounds of sums and values between nodes are under way")         \
    X(update,    "updates parameters or rows")                                    \
    X(save,      "saves")                                                         \
    X(eval,      "evaluates")
/* clang-format on */
#define DOING_ENUM(name, text) DOING_##name,
enum doing { DOINGS(DOING_ENUM) DOING_COUNT };

/* By any thread. */
void doing_begin(enum doing what);
void doing_end(enum doing what);
/* How many threads are doing it. */
uint32_t doing_count(enum doing what);
const char *doing_name(enum doing what);

#endif

/* A feed turns data files into prepared inputs, on a thread of its own that runs ahead of the computation:
 *
 *     reader ──▶ input's micro_batch ──▶ store_prepare: ticket ──▶ step rows ──ready ring──▶ consumer ──free ring──▶ …
 *                                   └─ numberers, of several inputs at a time ─┘
 *
 * Where rows may be on a disk, an input whose rows are on their way waits, while the thread goes on with the
 * next ones; they become ready in order. Rows of a step stay in RAM until the consumer has given its last input
 * back.
 *
 * While all inputs are full, the thread can help a team (engine/device/cpu/team.h): with as many threads as
 * cores none is displaced by another.
 *
 * The consumer never waits here: it asks, and does something else or waits at a bell of its own, which the feed rings.
 *
 * The feed alone decides which example belongs to which micro-batch and step, and it creates rows in the order
 * of the data, so nothing downstream depends on timing. A training feed numbers the rows that a step touches
 * (ticket_table.step_row), so that gradients are summed per row of the step; an evaluation feed only looks rows
 * up. */
#ifndef HETERPS_ENGINE_PIPE_FEED_H
#define HETERPS_ENGINE_PIPE_FEED_H

#include <pthread.h>

#include "engine/model/model.h"
#include "engine/base/bell.h"
#include "engine/base/ring.h"
#include "engine/slot/slot.h"
#include "engine/sync/exchange.h"
#include "engine/sync/waves.h"
#include "graph/op.h"
#include "io/cache/cached_reader.h"
#include "io/store/store.h"

struct feed_options {
    const struct graph *graph;
    struct model *model;
    bool training; /* create rows and number them by step, several passes; else one pass of look-ups */
    uint32_t input_count;
    /* On several nodes, or NULL: of the data, all of which it reads, the consumer gets the micro-batches of its own
     * lanes; of a step that ends before them an empty one. Rows are asked for, and not found here; where they are only
     * read, there are fewer inputs than asked for if those are more than EXCHANGE_LOOKS_MAX. A node without lanes reads
     * nothing, and gets an empty micro-batch for each step that node 0 tells it of. */
    struct exchange *exchange;
    bool all_lanes; /* the consumer gets those of all nodes' lanes: where rows are only read */
    /* Of nodes that are workers, or NULL, and exchange is, too: of steps that all read in turn the consumer gets its
     * own, unless all_lanes. */
    struct exchange_waves *waves;
    uint64_t epochs,
        steps_max; /* training: bounds, from first_epoch and first_step of where it starts; steps_max 0: none */
    /* What it reads: files, as cached_reader_open opens them … */
    struct reader_options reader; /* with the graph's schema, which stays until close           */
    struct data_cache_budget cache;
    struct data_cache **cache_kept;
    /* … or, unless NULL, any other reader, which is closed with the feed. */
    struct reader *source;
    const int *processors; /* [processor_count], kept until close: the thread's; none: it runs anywhere */
    uint32_t processor_count;
    /* Threads that number keys (numberers.h), on the reader's processors; 0: they are numbered as their rows are found.
     * Not of several nodes. */
    uint32_t numberers;
};

/* What the feed has read so far; safe to ask from another thread. */
struct feed_counts {
    uint64_t byte_count, size_bytes; /* of the current pass's files, less what waits to be mixed; size 0: unknown */
    uint64_t bad_count, cut_count, unknown_count;
    uint64_t example_count; /* read since it was opened, whatever becomes of them; not those that were passed over */
    /* where its thread's time went: reading and parsing; rows, found or made, and numbered; without a free input */
    uint64_t read_ns, prepare_ns, wait_ns;
};

/* How many of them beside so many threads that parse: a rule, and no measurement. Each has an input of its own. */
static inline uint32_t feed_numberers(uint32_t readers) { return readers / 2; }

struct team;
struct feed;
/* Opens the reader (a wrong path fails here) and takes all memory, but reads nothing yet. */
MUST_USE status feed_open(struct feed **feed, const struct feed_options *options);
/* Lets the feed ring this bell, which must outlive it, whenever feed_try_next may have another answer: after
 * each input that is ready, when the thread ends, when the feed is interrupted. Before feed_start; without it
 * the feed rings one that nobody listens to. */
void feed_bell_set(struct feed *feed, struct bell *bell);
/* Starts the thread (its stack is for the caller to plan), in training behind what `from` says is done, with
 * the help of the marks of the model's data; NULL: at the beginning. */
MUST_USE status feed_start(struct feed *feed, const struct progress *from);

/* At the end of the step of the input, its last one, with is_sweep: removes rows (store_sweep), tells how many
 * each table has left, and lets the thread go on, which has waited for that. The input can still be run
 * forward. A worker; IO, CORRUPT as store_sweep. */
MUST_USE status feed_sweep(struct feed *feed, struct input *input, uint64_t *row_count);

/* From now on the thread helps the team while it has no free input, or has come to its end; NULL: none. Returns
 * when it is out of the one before. While it helps a team no other feed does. `spins`: as bell_await's. Between
 * the team's runs. */
void feed_team_set(struct feed *feed, struct team *team, bool spins);

enum feed_state {
    FEED_INPUT, /* *input is the next micro-batch in order                                                */
    FEED_EMPTY, /* there may be one later                                                                */
    FEED_END    /* there will be none: feed_result says why                                              */
};
/* Never waits. One thread at a time, handed over by release and acquire as the end of a ring is. *input is set
 * with FEED_INPUT only. */
enum feed_state feed_try_next(struct feed *feed, struct input **input);
/* After FEED_END: what the feed failed with; ST_OK at the end of the data, or if it was interrupted. */
MUST_USE status feed_result(const struct feed *feed);
/* Of several nodes: whether the input belongs to a step that reading has failed within, so that its rows never come,
 * and it can only be given back. */
bool feed_is_cut(const struct feed *feed, const struct input *input);
/* Gives an input back; any thread. The last one of a step (batch.is_last) is given back after the step's
 * update: with it go the step's rows. */
void feed_release(struct feed *feed, struct input *input);
uint32_t feed_input_count(const struct feed *feed);
/* The memory that all inputs lie in. */
void *feed_memory(const struct feed *feed, size_t *bytes);
struct feed_counts feed_counts(const struct feed *feed);
/* The paths it reads; for messages. */
const char *feed_paths(const struct feed *feed);
/* Marks of its text so far (reader_marks). */
const struct reader_mark *feed_marks(const struct feed *feed, uint32_t *count);
/* About how many examples a pass has; 0 if that cannot be told. */
uint64_t feed_example_estimate(const struct feed *feed);
/* The data can be read only once. */
bool feed_is_stream(const struct feed *feed);
/* Keeps the feed's thread out of the store until feed_let_go, which follows in any case, and waits until the
 * rows of every input are resident: for who saves or evaluates the model between two steps. IO, CORRUPT: what
 * store_settle says. */
MUST_USE status feed_hold(struct feed *feed);
void feed_let_go(struct feed *feed);
/* Ends the feed early: feed_try_next gives what is ready, and FEED_END. Any thread; from a signal handler too. */
void feed_interrupt(void *feed);
/* For stop_listen: interrupts if the consumer has asked in vain and the thread has been at the same micro-batch
 * ever since the last call, as when it waits for a pipe; returns whether it did. From a signal handler; one
 * caller. */
bool feed_wake(void *feed);
/* Stops the thread; only feed_close may follow. NULL is ignored. */
void feed_end(struct feed *feed);
/* Stops the thread, if it has not ended, and gives the memory back; a thread that is stuck reading a pipe is left
 * behind, with its memory. */
void feed_close(struct feed *feed);

#endif

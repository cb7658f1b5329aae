/* A feed turns data files into prepared inputs, on a thread of its own that runs ahead of the computation:
 *
 *     reader ──▶ input's micro_batch ──▶ store_prepare: ticket ──▶ step rows ──ready ring──▶ consumer ──free ring──▶ …
 *                                   └─ numberers, of several inputs at a time ─┘
 *
 * Where rows may be on a disk, an input waits until its rows are there, while the thread goes on with
 * the next inputs; they become ready in order. Rows of a step stay in RAM until the consumer has
 * given the step's last input back.
 *
 * While all inputs are full, the thread can help a team (engine/device/cpu/team.h): if there are as many
 * threads as cores, no thread then displaces another.
 *
 * The consumer never waits here. It asks, then does something else or waits at its own bell, which the feed
 * rings.
 *
 * The feed alone decides which example belongs to which micro-batch and step, and it creates rows in
 * the order of the data, so nothing downstream depends on timing. A training feed numbers the rows that
 * a step touches (ticket_table.step_row), so that gradients are summed per row of the step; an
 * evaluation feed only looks rows up. */
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
    /* On several nodes, else NULL. The feed reads all data, and passes over the examples of others; the
     * consumer gets the micro-batches of its own lanes, and an empty one for a step that ends before them.
     * Rows are asked for, and not found here. Where rows are only read, there are at most
     * EXCHANGE_LOOKS_MAX inputs. A node without lanes reads nothing, and gets an empty micro-batch for each
     * step of which node 0 tells it. */
    struct exchange *exchange;
    /* Where stages lie on several nodes: the lanes that the consumer gets, as exchange->own; count 0: all. */
    struct fold_lanes lanes;
    /* feed_has_step is asked: a step goes in when it is read. */
    bool is_by_step;
    bool all_lanes; /* the consumer gets the micro-batches of all nodes: where rows are only read */
    /* Where nodes are workers, else NULL. Steps belong to the nodes in turn: the consumer gets its own steps,
     * or, with all_lanes, all. Letters for rows are written here, and sent by the consumer (input->asked). */
    struct exchange_waves *waves;
    /* training: bounds, from first_epoch and first_step of where it starts; steps_max 0: none */
    uint64_t epochs, steps_max;
    /* What it reads: files, as cached_reader_open opens them … */
    struct reader_options reader; /* with the graph's schema, which stays until close           */
    struct data_cache_budget cache;
    struct data_cache **cache_kept;
    /* … or, unless NULL, any other reader, which is closed with the feed. */
    struct reader *source;
    const int *processors; /* [processor_count], kept until close: the thread's; none: it runs anywhere */
    uint32_t processor_count;
    /* Threads that number keys (numberers.h), on the reader's processors; 0: keys are numbered when their
     * rows are found. Not on several nodes. */
    uint32_t numberers;
};

/* What the feed has read so far; safe to ask from another thread. */
struct feed_counts {
    uint64_t byte_count, size_bytes; /* of the current pass's files, less what waits to be mixed; size 0: unknown */
    uint64_t bad_count, cut_count, unknown_count;
    uint64_t example_count; /* read since the feed was opened, whether used or not, except those skipped at start */
    /* where its thread's time went: reading and parsing; rows, found or made,
     * and numbered; without a free input */
    uint64_t read_ns, prepare_ns, wait_ns;
};

/* Numberers beside `readers` threads that parse: a rule, not a measurement.
 * Each numberer has an input of its own. */
static inline uint32_t feed_numberers(uint32_t readers) { return readers / 2; }

struct team;
struct feed;
/* Opens the reader (a wrong path fails here) and takes all memory, but reads nothing yet. */
MUST_USE status feed_open(struct feed **feed, const struct feed_options *options);
/* Lets the feed ring this bell, which must outlive it, whenever feed_try_next may have another answer: after
 * each input that is ready, when the thread ends, when the feed is interrupted. Before feed_start; without a
 * bell the feed rings one that nobody listens to. */
void feed_bell_set(struct feed *feed, struct bell *bell);
/* Starts the thread (the caller plans its stack). In training it goes on after what `from` says is done, with
 * the help of the marks of the model's data; NULL: it starts at the beginning. */
MUST_USE status feed_start(struct feed *feed, const struct progress *from);

/* At the end of a step whose last input has is_sweep: removes rows (store_sweep), tells how many rows each
 * table has left, and lets the thread go on, which has waited for this. The input can still be run forward.
 * By a worker. IO, CORRUPT as store_sweep. */
MUST_USE status feed_sweep(struct feed *feed, struct input *input, uint64_t *row_count);

/* From now on the thread helps this team while it has no free input, or has come to its end; NULL: no team.
 * Returns when the thread is out of the team before. While a feed helps a team no other feed may. `spins`: as
 * bell_await's. Between the team's runs. */
void feed_team_set(struct feed *feed, struct team *team, bool spins);

enum feed_state {
    FEED_INPUT, /* *input is the next micro-batch in order                                                */
    FEED_EMPTY, /* there may be one later                                                                */
    FEED_END    /* there will be none: feed_result says why                                              */
};
/* Never waits. One thread at a time, handed over by release and acquire like the end of a ring.
 * *input is set with FEED_INPUT only. */
enum feed_state feed_try_next(struct feed *feed, struct input **input);
/* After FEED_END: the feed's failure; ST_OK at the end of the data, or if the feed was interrupted. */
MUST_USE status feed_result(const struct feed *feed);
/* With is_by_step, in training: whether the input's step is read to its end. Other nodes wait for what this
 * one makes of a step that it has begun, so it begins none that it cannot end. */
bool feed_has_step(const struct feed *feed, const struct input *input);
/* On several nodes: whether reading has failed within the step of the input, so that its rows never come
 * and it can only be given back. */
bool feed_is_cut(const struct feed *feed, const struct input *input);
/* Gives an input back; any thread. Give back the last input of a step (batch.is_last) after the step's
 * update: the step's rows go with it. */
void feed_release(struct feed *feed, struct input *input);
/* Before feed_start: `look` is shown each micro-batch, before rows are made of it, by the
 * feed's thread, until it has seen enough; is_end: none comes after it. What it fails with
 * ends the feed. Keeps the context. */
typedef status feed_looker(void *context, const struct micro_batch *m, bool is_end, bool *is_enough);
void feed_look(struct feed *feed, feed_looker *look, void *context);
uint32_t feed_input_count(const struct feed *feed);
/* The memory in which all inputs lie. */
void *feed_memory(const struct feed *feed, size_t *bytes);
struct feed_counts feed_counts(const struct feed *feed);
/* Why no example has come, to stand behind "no examples": ": …", or "". */
const char *feed_nothing_text(const struct feed *feed);
/* The paths that it reads; for messages. */
const char *feed_paths(const struct feed *feed);
/* The marks of its text so far (reader_marks). */
const struct reader_mark *feed_marks(const struct feed *feed, uint32_t *count);
/* About how many examples a pass has; 0: unknown. */
uint64_t feed_example_estimate(const struct feed *feed);
/* Whether the data can be read only once. */
bool feed_is_stream(const struct feed *feed);
/* Keeps the feed's thread out of the store until feed_let_go, which must follow in any case, and
 * waits until the rows of every input are in RAM: for saving or evaluating the model between two
 * steps. IO, CORRUPT as store_settle. */
MUST_USE status feed_hold(struct feed *feed);
void feed_let_go(struct feed *feed);
/* Ends the feed early: feed_try_next gives the inputs that are ready, then FEED_END. Any thread, and signal
 * handlers. */
void feed_interrupt(void *feed);
/* For stop_listen: interrupts the feed if the consumer has asked in vain and the thread has been at
 * the same micro-batch since the last call, as when it waits for a pipe. Returns whether it did.
 * From a signal handler; one caller. */
bool feed_wake(void *feed);
/* Stops the thread; only feed_close may follow. NULL is ignored. */
void feed_end(struct feed *feed);
/* Stops the thread, if it has not ended, and gives the memory back. A thread that is stuck reading a
 * pipe is left, with its memory. */
void feed_close(struct feed *feed);

#endif

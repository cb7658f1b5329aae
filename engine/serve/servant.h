/* A saved model at work: opened with a crew of its own, in a scope of its own, and a thread that runs the forward
 * pass over what is put on its desk, until the desk ends.
 *
 *     asker ──desk──▶ feed: lines, rows ──▶ pipeline ──▶ lines of predictions ──desk──▶ asker
 * */
#ifndef HETERPS_ENGINE_SERVE_SERVANT_H
#define HETERPS_ENGINE_SERVE_SERVANT_H

#include <stdatomic.h>

#include "engine/crew/crew.h"
#include "engine/serve/desk.h"

struct servant_options {
    const char *graph, *model; /* paths, kept; the model as model_load takes it */
    const char *const *set;    /* [set_count], kept: as setup_options           */
    uint32_t set_count;
    uint32_t threads;
    const char *isa;
    bool is_beside; /* others answer meanwhile, and go before what only reads the model */
};

struct servant;
/* Opens all, loads the model, and starts to work. What setup_open, crew_open and model_load fail with; INVALID: the
 * model predicts words; MEMORY. */
MUST_USE status servant_open(struct servant **servant, const struct servant_options *options);
/* Ends the work: what is on the desk is computed for nobody, and `drop` is called with each owner. NULL is ignored. */
void servant_close(struct servant *servant, void (*drop)(void *owner));

/* Words that a line can have at most, of a model that predicts words; 0: it does not. */
uint32_t servant_top_max(const struct servant *servant);
struct desk *servant_desk(const struct servant *servant);
const struct setup *servant_setup(const struct servant *servant);
/* Whether the work is over: then the desk's fd is readable, too; and what it failed with. */
bool servant_is_over(const struct servant *servant);
MUST_USE status servant_result(const struct servant *servant);
/* Micro-batches and examples that have been computed, and malformed lines. */
struct servant_counts {
    uint64_t batches, examples, bad_lines;
};
struct servant_counts servant_counts(const struct servant *servant);

#endif

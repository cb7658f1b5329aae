/* A saved model at work, with a scope, a crew and a thread of its own. The thread runs the forward pass over
 * the texts on its desk until the desk ends.
 *
 *     asker ──desk──▶ feed: lines, rows ──▶ pipeline ──▶ lines of predictions ──desk──▶ asker */
#ifndef HETERPS_ENGINE_SERVE_SERVANT_H
#define HETERPS_ENGINE_SERVE_SERVANT_H

#include <stdatomic.h>

#include "engine/crew/crew.h"
#include "engine/serve/desk.h"

struct servant_options {
    const char *graph, *model; /* paths, lent; model: as model_load takes it */
    const char *const *set;    /* [set_count], lent: as in setup_options     */
    uint32_t set_count;
    uint32_t threads;
    const char *isa;
    bool is_beside; /* another version answers meanwhile: reading this model gives way to it */
};

struct servant;
/* Loads the model, and starts to work. Fails as setup_open, crew_open and model_load do; INVALID:
 * the model predicts words; MEMORY. */
MUST_USE status servant_open(struct servant **servant, const struct servant_options *options);
/* Ends the work; calls `drop` with the owner of each text still on the desk. NULL is ignored. */
void servant_close(struct servant *servant, void (*drop)(void *owner));

/* The most words that a line of predictions can have; 0: the model does not predict words. */
uint32_t servant_top_max(const struct servant *servant);
struct desk *servant_desk(const struct servant *servant);
const struct setup *servant_setup(const struct servant *servant);
/* Whether the work has ended, which also makes the desk's descriptor readable; and what it failed with. */
bool servant_is_over(const struct servant *servant);
MUST_USE status servant_result(const struct servant *servant);
/* Micro-batches and examples computed so far, and malformed lines. */
struct servant_counts {
    uint64_t batches, examples, bad_lines;
};
struct servant_counts servant_counts(const struct servant *servant);

#endif

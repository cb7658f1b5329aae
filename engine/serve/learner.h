/* A training whose lines come one by one, in a scope and on threads of its own. It begins with the newest
 * save of a model's directory, and saves there.
 *
 *     asker ──desk──▶ feed: lines, numbered as they are read ──▶ steps, in order
 *        ▲               │                                         └──every `publish`──▶ a save in the directory
 *        └── a sequence number for each example, nan for a malformed line
 *
 * An example's sequence number is the number of examples that the model has learned from, this one included.
 * A save has the number of its last example, so a run that goes on from the save counts on. The same lines in
 * the same order give the bytes of a training from a file. A step waits until its batch is full; no save has
 * the examples of a step that waits, and the client sends them again to the run that goes on. */
#ifndef HETERPS_ENGINE_SERVE_LEARNER_H
#define HETERPS_ENGINE_SERVE_LEARNER_H

#include "cfg/ini.h"
#include "engine/serve/desk.h"

struct learner_options {
    const char *graph, *model; /* paths, lent; model: a directory with a save */
    const char *const *set;    /* [set_count], lent: as in setup_options      */
    uint32_t set_count;
    uint32_t threads; /* 0: half of the processors */
    const char *isa;
};

struct learner;
/* Opens the training, loads the model, and starts; returns when the training is ready for lines. Fails as a
 * training does before its first step. */
MUST_USE status learner_open(struct learner **learner, const struct learner_options *options);
/* Ends after the last whole step, and saves; calls `drop` with the owner of each text still on the desk.
 * Returns the failure of the training, if it has failed. NULL is ignored. */
MUST_USE status learner_close(struct learner *learner, void (*drop)(void *owner));

/* The desk where learning takes labelled lines and answers with sequence numbers.
 * After a failure every text is refused, and told why. */
struct desk *learner_desk(const struct learner *learner);
/* Whether every whole step of the lines read so far is done. */
bool learner_is_idle(const struct learner *learner);

struct learner_state {
    bool is_learning;              /* false: it has failed */
    uint64_t read, learned, saved; /* the last sequence number given, learned from, saved */
    uint64_t step, bad_lines;
    uint64_t window; /* examples that the figures of progressive validation are over */
};
/* The state at this moment. */
void learner_look(struct learner *learner, struct learner_state *state);

/* Progressive validation: figures of losses over the last examples, each predicted before the model learned
 * from it. */
struct learner_figure {
    char head[INI_NAME_BYTES_MAX + 1], key[32];
    double value;
};
/* How many figures there can be. */
uint32_t learner_figure_max(const struct learner *learner);
/* Copies the figures of this moment to `to` [learner_figure_max]; returns how many there are. */
uint32_t learner_figures(struct learner *learner, struct learner_figure *to);

#endif

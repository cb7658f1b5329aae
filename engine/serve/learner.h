/* A training whose data are lines that come one by one: in a scope of its own, on threads of its own, from a model's
 * directory back into it.
 *
 *     asker ──desk──▶ feed: lines, numbered as they are read ──▶ steps, in order
 *        ▲               │                                         └──every `publish`──▶ a save in the directory
 *        └── a sequence number of each example, nan of a malformed line
 *
 * The sequence number of an example is how many examples the model has then learned from in all. So the number
 * of a save's last example is in the save, a run that goes on from it counts on, and the same lines in the same
 * order give the bytes of a training from a file. A step is done when its examples are there: those of one that
 * is not full are in no save, and have to be sent again to who goes on. */
#ifndef HETERPS_ENGINE_SERVE_LEARNER_H
#define HETERPS_ENGINE_SERVE_LEARNER_H

#include "cfg/ini.h"
#include "engine/serve/desk.h"

struct learner_options {
    const char *graph, *model; /* paths, kept; the model a directory with a save */
    const char *const *set;    /* [set_count], kept: as setup_options            */
    uint32_t set_count;
    uint32_t threads; /* 0: half of the processors */
    const char *isa;
};

struct learner;
/* Opens a training of its own, loads the model, and starts; returns when lines can be learned from. What a training
 * fails with before its first step. */
MUST_USE status learner_open(struct learner **learner, const struct learner_options *options);
/* Ends behind the last whole step, which is saved; `drop` is called with the owner of what is still on the desk.
 * Returns what learning has failed with, if it has. NULL is ignored. */
MUST_USE status learner_close(struct learner *learner, void (*drop)(void *owner));

/* Whose texts are lines, and whose answers numbers. Where learning has failed, texts are refused as a whole, with why.
 */
struct desk *learner_desk(const struct learner *learner);
/* Whether all whole steps of what has been read are done. */
bool learner_is_idle(const struct learner *learner);

/* Progressive validation: figures over the last `window` examples, each predicted before it was learned from. */
#define LEARNER_FIGURES_MAX 32u
struct learner_figure {
    char head[INI_NAME_BYTES_MAX + 1], key[32];
    double value;
};
struct learner_state {
    bool is_learning;              /* else it has failed */
    uint64_t read, learned, saved; /* sequence numbers: the last that was given, learned from, saved */
    uint64_t step, bad_lines;
    uint64_t window;
    struct learner_figure figure[LEARNER_FIGURES_MAX];
    uint32_t figure_count;
};
/* As it is now. */
void learner_look(struct learner *learner, struct learner_state *state);

#endif

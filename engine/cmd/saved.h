/* Shared by the verbs that use a saved model: eval, predict, serve. */
#ifndef HETERPS_ENGINE_CMD_SAVED_H
#define HETERPS_ENGINE_CMD_SAVED_H

#include "engine/cmd/command.h"
#include "engine/crew/crew.h"

/* First in the verb's options. */
struct saved_options {
    const char *model, *isa;
    uint32_t threads;
    struct flag_list set;
};

#define SAVED_FLAG_MODEL                                                                                               \
    {                                                                                                                  \
        .name = "--model", .type = FLAG_TEXT, .value = "DIR",                                                          \
        .meaning =                                                                                                     \
            "the saved model; DIR/manifest.STEP.json: an older save of it; default: that of GRAPH, if it has one",     \
        .offset = offsetof(struct saved_options, model)                                                                \
    }
/* Flags that say how the model is run. */
#define SAVED_FLAGS                                                                                                    \
    {.name = "--threads",                                                                                              \
     .type = FLAG_U32,                                                                                                 \
     .value = "N",                                                                                                     \
     .meaning = "computing threads; never changes the result",                                                         \
     .offset = offsetof(struct saved_options, threads),                                                                \
     .min = 1,                                                                                                         \
     .max = 1024},                                                                                                     \
        {.name = "--isa",                                                                                              \
         .type = FLAG_TEXT,                                                                                            \
         .value = "NAME",                                                                                              \
         .meaning = "instruction set: base, avx2, avx512, avx512bf16, amx; default: the best here",                    \
         .offset = offsetof(struct saved_options, isa)},                                                               \
    {                                                                                                                  \
        .name = "--set", .type = FLAG_LIST, .value = "SECTION.KEY=VALUE",                                              \
        .meaning = "override a setting of the graph; may be repeated", .offset = offsetof(struct saved_options, set)   \
    }

/* The path of the model: `model` or, where this is NULL, the graph's own
 * (engine/model/lean.h). USAGE: it has none. */
MUST_USE status saved_model(const char *graph_path, const char *model, const char **path);

/* Opens set-up and crew for the graph, calls `use`, and closes them.
 * Fails as setup_open, crew_open and `use` do. */
MUST_USE status saved_run(const char *graph_path, const struct saved_options *options,
                          status (*use)(struct crew *crew, const struct saved_options *options));

#endif

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
        "--model", FLAG_TEXT, "DIR",                                                                                   \
            "the saved model; DIR/manifest.STEP.json: an older save of it; default: that of GRAPH, if it has one",     \
            offsetof(struct saved_options, model), 0, 0, false                                                         \
    }
/* Flags that say how the model is run. */
#define SAVED_FLAGS                                                                                                    \
    {"--threads",                                                                                                      \
     FLAG_U32,                                                                                                         \
     "N",                                                                                                              \
     "computing threads; never changes the result",                                                                    \
     offsetof(struct saved_options, threads),                                                                          \
     1,                                                                                                                \
     1024,                                                                                                             \
     false},                                                                                                           \
        {"--isa",                                                                                                      \
         FLAG_TEXT,                                                                                                    \
         "NAME",                                                                                                       \
         "instruction set: base, avx2, avx512, avx512bf16, amx; default: the best here",                               \
         offsetof(struct saved_options, isa),                                                                          \
         0,                                                                                                            \
         0,                                                                                                            \
         false},                                                                                                       \
    {                                                                                                                  \
        "--set", FLAG_LIST, "SECTION.KEY=VALUE", "override a setting of the graph; may be repeated",                   \
            offsetof(struct saved_options, set), 0, 0, false                                                           \
    }

/* The path of the model: `model` or, where this is NULL, the graph's own (engine/model/lean.h). USAGE: it has none. */
MUST_USE status saved_model(const char *graph_path, const char *model, const char **path);

/* Opens set-up and crew for the graph, calls `use`, and closes them. Fails as setup_open, crew_open and `use` do. */
MUST_USE status saved_run(const char *graph_path, const struct saved_options *options,
                          status (*use)(struct crew *crew, const struct saved_options *options));

#endif

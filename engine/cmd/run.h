/* Shared by the verbs that train or say what training would do: the flags of a training, and
 * the way from them to train_run. */
#ifndef HETERPS_ENGINE_CMD_RUN_H
#define HETERPS_ENGINE_CMD_RUN_H

#include "engine/cmd/anew.h"
#include "engine/cmd/command.h"
#include "engine/run/scrape.h"

/* Which of several nodes this is. */
struct run_nodes {
    const char *list, *coordinator, *key_file;   /* list: --nodes; NULL: one node */
    const char *lanes;                           /* --lanes, or NULL            */
    uint32_t rank, key_fd, listen_fd, roster_fd; /* RUN_NONE: no flag */
    bool insecure;
};
#define RUN_NONE UINT32_MAX
/* The defaults that are not 0. */
#define RUN_OPTIONS .nodes = {.rank = RUN_NONE, .key_fd = RUN_NONE, .listen_fd = RUN_NONE, .roster_fd = RUN_NONE}

/* Lines of a table of flags, for a struct run_nodes at AT of TYPE. MEANING: what the nodes are for. */
#define RUN_NODES_FLAGS(TYPE, AT, MEANING, INSECURE)                                                                   \
    {.name = "--nodes",                                                                                                \
     .type = FLAG_TEXT,                                                                                                \
     .value = "A:PORT,B:PORT,…",                                                                                       \
     .meaning = MEANING ": where they listen, in order of ranks; or their number",                                     \
     .offset = offsetof(TYPE, AT.list)},                                                                               \
        {.name = "--coordinator",                                                                                      \
         .type = FLAG_TEXT,                                                                                            \
         .value = "A:PORT",                                                                                            \
         .meaning = "with --nodes N, their number: where node 0 listens",                                              \
         .offset = offsetof(TYPE, AT.coordinator)},                                                                    \
        {.name = "--rank",                                                                                             \
         .type = FLAG_U32,                                                                                             \
         .value = "N",                                                                                                 \
         .meaning = "with --nodes: which of them this one is, from 0",                                                 \
         .offset = offsetof(TYPE, AT.rank),                                                                            \
         .max = MEMBER_NODES_MAX - 1},                                                                                 \
        {.name = "--key-file",                                                                                         \
         .type = FLAG_TEXT,                                                                                            \
         .value = "FILE",                                                                                              \
         .meaning = "with --nodes: the key that all nodes share (see `heterps-run key`)",                              \
         .offset = offsetof(TYPE, AT.key_file)},                                                                       \
        {.name = "--key-fd",                                                                                           \
         .type = FLAG_U32,                                                                                             \
         .value = "N",                                                                                                 \
         .meaning = "with --nodes: a descriptor to read the key from, given by a launcher",                            \
         .offset = offsetof(TYPE, AT.key_fd),                                                                          \
         .max = 1 << 20},                                                                                              \
        {.name = "--insecure",                                                                                         \
         .type = FLAG_SWITCH,                                                                                          \
         .meaning = "with --nodes: no key; whoever reaches the port is trusted, and anybody reads along" INSECURE,     \
         .offset = offsetof(TYPE, AT.insecure)},                                                                       \
    {                                                                                                                  \
        .name = "--listen-fd", .type = FLAG_U32, .value = "N",                                                         \
        .meaning = "with --nodes: a socket that listens already, given by a launcher",                                 \
        .offset = offsetof(TYPE, AT.listen_fd), .min = 3, .max = 1 << 20                                               \
    }

/* The flags of `train`; without any: zeros, and RUN_OPTIONS. */
struct run_options {
    const char *data, *out, *resume, *continued, *init, *plan, *trace, *isa, *tensorboard, *metrics, *token_file;
    struct scrape *scrape;          /* --metrics', once open; NULL: none */
    struct session_cluster cluster; /* path NULL: no cluster */
    uint32_t threads;
    bool share, dry_run, again;
    const struct train_use *use; /* what a verb does with `resume` on several nodes; NULL: trains */
    struct run_nodes nodes;
    struct flag_list eval, set;
    status (*look)(void *context, struct session *session, const struct train_options *options,
                   const struct eval_sets *eval);
    void *look_context; /* both as in struct train_options */
};

/* What the flags of nodes say, for a session. Has the key, and stays until the session is closed. */
struct run_place {
    struct session_nodes nodes; /* place.count 0: one node */
    struct anew anew;           /* from the process before this one; for the next one */
};
/* Which node this is, by flags, or by the environment, which counts where a key is given; count 0: one node.
 * Fails as place_parse and place_from_environment do. */
MUST_USE status run_place_find(struct node_place *place, const struct run_options *options);
/* Fills `place` from the flags. USAGE: flags that exclude each other; also fails as
 * run_place_find, key_read and anew_read do. */
MUST_USE status run_place_take(struct run_place *place, const struct run_options *options);

/* USAGE: options->trace, which is given, lies in a model's directory. Also fails as model_dir_of does. */
MUST_USE status run_trace_check(const struct run_options *options);

/* What --metrics says, for a node; *is_given: whether it is given. USAGE: flags that exclude each other. */
MUST_USE status run_metrics_take(struct scrape_options *metrics, const struct run_options *options,
                                 const struct node_place *place, bool *is_given);

/* The flags by which to follow a verb that uses a saved model on several nodes. NULL: not given. */
struct run_shown {
    const char *trace, *metrics, *token_file;
};
/* For one node. USAGE: one of these flags is given. */
MUST_USE status run_shown_check(const struct run_shown *shown);

/* Flags of a verb that uses a saved model on several nodes, beside SAVED_FLAGS and
 * RUN_NODES_FLAGS. SHOWN: a struct run_shown. */
#define RUN_USE_FLAGS(TYPE, AT, AGAIN, SHOWN)                                                                          \
    {.name = "--lanes",                                                                                                \
     .type = FLAG_TEXT,                                                                                                \
     .value = "N",                                                                                                     \
     .meaning = "with --nodes: as for a training",                                                                     \
     .offset = offsetof(TYPE, AT.lanes)},                                                                              \
        {.name = "--trace",                                                                                            \
         .type = FLAG_WRITE,                                                                                           \
         .value = "FILE",                                                                                              \
         .meaning = "with --nodes: write what every thread does, for chrome://tracing or Perfetto",                    \
         .offset = offsetof(TYPE, SHOWN.trace)},                                                                       \
        {.name = "--metrics",                                                                                          \
         .type = FLAG_TEXT,                                                                                            \
         .value = "ADDR:PORT",                                                                                         \
         .meaning = "with --nodes: answer GET /metrics (figures for Prometheus), "                                     \
                    "/healthz and /readyz at PORT + the node's rank",                                                  \
         .offset = offsetof(TYPE, SHOWN.metrics)},                                                                     \
        {.name = "--token-file",                                                                                       \
         .type = FLAG_TEXT,                                                                                            \
         .value = "FILE",                                                                                              \
         .meaning = "with --metrics: tokens, one a line: only clients that send one may ask for figures",              \
         .offset = offsetof(TYPE, SHOWN.token_file)},                                                                  \
        {.name = "--roster-fd",                                                                                        \
         .type = FLAG_U32,                                                                                             \
         .value = "N",                                                                                                 \
         .meaning = "with --nodes: the file that a node leaves when it starts itself anew",                            \
         .offset = offsetof(TYPE, AT.roster_fd),                                                                       \
         .min = 3,                                                                                                     \
         .max = 1 << 20},                                                                                              \
    {                                                                                                                  \
        .name = "--again", .type = FLAG_SWITCH, .meaning = "given by `launch` to a node that it starts again",         \
        .offset = offsetof(TYPE, AGAIN)                                                                                \
    }
/* Uses a saved model on several nodes: options->use is this verb's, options->resume names the model. USAGE:
 * no model; INVALID: the data are a stream. Also fails as run_verb does. */
MUST_USE status run_use(const char *graph, const struct run_options *options);

/* Does the verb train for this graph, or what options->use does on several nodes. */
MUST_USE status run_verb(const char *graph, const struct run_options *options);
/* Opens a session by the options and trains; run_verb does the trace. USAGE: flags that exclude each other;
 * also fails as session_open and train_run do. */
MUST_USE status run_train(const char *graph, const struct run_options *options);
/* The verb doctor. */
MUST_USE status run_doctor(const char *const *positionals, const void *options);

#endif

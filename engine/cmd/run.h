/* Shared by the verbs that train or say what training would do: the flags of a training, and the way from them to
 * train_run. */
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
    {"--nodes",                                                                                                        \
     FLAG_TEXT,                                                                                                        \
     "A:PORT,B:PORT,…",                                                                                                \
     MEANING ": where they listen, in order of ranks; or their number",                                                \
     offsetof(TYPE, AT.list),                                                                                          \
     0,                                                                                                                \
     0,                                                                                                                \
     false},                                                                                                           \
        {"--coordinator",                                                                                              \
         FLAG_TEXT,                                                                                                    \
         "A:PORT",                                                                                                     \
         "with --nodes N, their number: where node 0 listens",                                                         \
         offsetof(TYPE, AT.coordinator),                                                                               \
         0,                                                                                                            \
         0,                                                                                                            \
         false},                                                                                                       \
        {"--rank",                                                                                                     \
         FLAG_U32,                                                                                                     \
         "N",                                                                                                          \
         "with --nodes: which of them this one is, from 0",                                                            \
         offsetof(TYPE, AT.rank),                                                                                      \
         0,                                                                                                            \
         MEMBER_NODES_MAX - 1,                                                                                         \
         false},                                                                                                       \
        {"--key-file",                                                                                                 \
         FLAG_TEXT,                                                                                                    \
         "FILE",                                                                                                       \
         "with --nodes: the key that all nodes share (see `heterps-run key`)",                                         \
         offsetof(TYPE, AT.key_file),                                                                                  \
         0,                                                                                                            \
         0,                                                                                                            \
         false},                                                                                                       \
        {"--key-fd",                                                                                                   \
         FLAG_U32,                                                                                                     \
         "N",                                                                                                          \
         "with --nodes: a descriptor to read the key from, given by a launcher",                                       \
         offsetof(TYPE, AT.key_fd),                                                                                    \
         0,                                                                                                            \
         1 << 20,                                                                                                      \
         false},                                                                                                       \
        {"--insecure",                                                                                                 \
         FLAG_SWITCH,                                                                                                  \
         NULL,                                                                                                         \
         "with --nodes: no key; whoever reaches the port is trusted, and anybody reads along" INSECURE,                \
         offsetof(TYPE, AT.insecure),                                                                                  \
         0,                                                                                                            \
         0,                                                                                                            \
         false},                                                                                                       \
    {                                                                                                                  \
        "--listen-fd", FLAG_U32, "N", "with --nodes: a socket that listens already, given by a launcher",              \
            offsetof(TYPE, AT.listen_fd), 3, 1 << 20, false                                                            \
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
/* Which node this is, by flags, or by the environment, which counts where a key is given; count 0: one node. Fails as
 * place_parse and place_from_environment do. */
MUST_USE status run_place_find(struct node_place *place, const struct run_options *options);
/* Fills `place` from the flags. USAGE: flags that exclude each other; also fails as run_place_find, key_read and
 * anew_read do. */
MUST_USE status run_place_take(struct run_place *place, const struct run_options *options);

/* What --metrics says, for a node; *is_given: whether it is given. USAGE: flags that exclude each other. */
MUST_USE status run_metrics_take(struct scrape_options *metrics, const struct run_options *options,
                                 const struct node_place *place, bool *is_given);

/* The flags by which to follow a verb that uses a saved model on several nodes. NULL: not given. */
struct run_shown {
    const char *trace, *metrics, *token_file;
};
/* For one node. USAGE: one of these flags is given. */
MUST_USE status run_shown_check(const struct run_shown *shown);

/* Flags of a verb that uses a saved model on several nodes, beside SAVED_FLAGS and RUN_NODES_FLAGS. SHOWN: a struct
 * run_shown. */
#define RUN_USE_FLAGS(TYPE, AT, AGAIN, SHOWN)                                                                          \
    {"--lanes", FLAG_TEXT, "N", "with --nodes: as for a training", offsetof(TYPE, AT.lanes), 0, 0, false},             \
        {"--trace",                                                                                                    \
         FLAG_WRITE,                                                                                                   \
         "FILE",                                                                                                       \
         "with --nodes: write what every thread does, for chrome://tracing or Perfetto",                               \
         offsetof(TYPE, SHOWN.trace),                                                                                  \
         0,                                                                                                            \
         0,                                                                                                            \
         false},                                                                                                       \
        {"--metrics",                                                                                                  \
         FLAG_TEXT,                                                                                                    \
         "ADDR:PORT",                                                                                                  \
         "with --nodes: answer GET /metrics (figures for Prometheus), /healthz and /readyz at PORT + the node's rank", \
         offsetof(TYPE, SHOWN.metrics),                                                                                \
         0,                                                                                                            \
         0,                                                                                                            \
         false},                                                                                                       \
        {"--token-file",                                                                                               \
         FLAG_TEXT,                                                                                                    \
         "FILE",                                                                                                       \
         "with --metrics: tokens, one a line: only clients that send one may ask for figures",                         \
         offsetof(TYPE, SHOWN.token_file),                                                                             \
         0,                                                                                                            \
         0,                                                                                                            \
         false},                                                                                                       \
        {"--roster-fd",                                                                                                \
         FLAG_U32,                                                                                                     \
         "N",                                                                                                          \
         "with --nodes: the file that a node leaves when it starts itself anew",                                       \
         offsetof(TYPE, AT.roster_fd),                                                                                 \
         3,                                                                                                            \
         1 << 20,                                                                                                      \
         false},                                                                                                       \
    {                                                                                                                  \
        "--again", FLAG_SWITCH, NULL, "given by `launch` to a node that it starts again", offsetof(TYPE, AGAIN), 0, 0, \
            false                                                                                                      \
    }
/* Uses a saved model on several nodes: options->use is this verb's, options->resume names the model. USAGE: no model;
 * INVALID: the data are a stream. Also fails as run_verb does. */
MUST_USE status run_use(const char *graph, const struct run_options *options);

/* Does the verb train for this graph, or what options->use does on several nodes. */
MUST_USE status run_verb(const char *graph, const struct run_options *options);
/* Opens a session by the options and trains; run_verb does the trace. USAGE: flags that exclude each other; also fails
 * as session_open and train_run do. */
MUST_USE status run_train(const char *graph, const struct run_options *options);
/* The verb doctor. */
MUST_USE status run_doctor(const char *const *positionals, const void *options);

#endif

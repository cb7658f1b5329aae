/* What the verbs that train, or say what training would do, share: the flags of a training, and the way from
 * them to train_run. */
#ifndef HETERPS_ENGINE_CMD_RUN_H
#define HETERPS_ENGINE_CMD_RUN_H

#include "engine/cmd/anew.h"
#include "engine/cmd/command.h"
#include "engine/run/scrape.h"

/* Of which of several nodes this is one. */
struct run_nodes {
    const char *list, *coordinator, *key_file;   /* --nodes: NULL: there is one */
    const char *lanes;                           /* --lanes, or NULL            */
    uint32_t rank, key_fd, listen_fd, roster_fd; /* RUN_NONE: not given */
    bool insecure;
};
#define RUN_NONE UINT32_MAX
/* With no flag given, but what is not 0 then. */
#define RUN_OPTIONS .nodes = {.rank = RUN_NONE, .key_fd = RUN_NONE, .listen_fd = RUN_NONE, .roster_fd = RUN_NONE}

/* Lines of a table of flags, for a struct run_nodes at AT of TYPE; MEANING: what nodes are for. */
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
         "with --nodes: the key of all of them (see `heterps-run key`)",                                               \
         offsetof(TYPE, AT.key_file),                                                                                  \
         0,                                                                                                            \
         0,                                                                                                            \
         false},                                                                                                       \
        {"--key-fd",                                                                                                   \
         FLAG_U32,                                                                                                     \
         "N",                                                                                                          \
         "with --nodes: a descriptor that the key is read from, as a launcher hands it over",                          \
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
        "--listen-fd", FLAG_U32, "N", "with --nodes: a socket that listens already, as a launcher hands it over",      \
            offsetof(TYPE, AT.listen_fd), 3, 1 << 20, false                                                            \
    }

/* By the flags of `train`; all zero, but RUN_OPTIONS: none is given. */
struct run_options {
    const char *data, *out, *resume, *continued, *init, *plan, *trace, *isa, *tensorboard, *metrics, *token_file;
    struct scrape *scrape;          /* of --metrics, once it is open; NULL: none */
    struct session_cluster cluster; /* path NULL: there is none */
    uint32_t threads;
    bool share, dry_run, again;
    const struct train_use *use; /* of a verb that uses `resume` on several nodes; NULL: trains */
    struct run_nodes nodes;
    struct flag_list eval, set;
    status (*look)(void *context, struct session *session, const struct train_options *options,
                   const struct eval_sets *eval);
    void *look_context; /* both as in struct train_options */
};

/* What the flags of nodes say, for a session; it holds the key, and stays until that is closed. */
struct run_place {
    struct session_nodes nodes; /* place.count 0: there is one node */
    struct anew anew;           /* of a start before this one, and what the next one gets */
};
/* Which node this is, by flags or by the environment, which counts where a key is given; count 0: there is one. As
 * place_parse and place_from_environment. */
MUST_USE status run_place_find(struct node_place *place, const struct run_options *options);
/* USAGE: flags that exclude each other; as run_place_find, key_read, anew_read. */
MUST_USE status run_place_take(struct run_place *place, const struct run_options *options);

/* What --metrics says, of a node; whether it is given. USAGE: flags that exclude each other. */
MUST_USE status run_metrics_take(struct scrape_options *metrics, const struct run_options *options,
                                 const struct node_place *place, bool *is_given);

/* How a verb that uses a saved model is followed on several nodes: --trace, --metrics, --token-file; NULL: not
 * given. */
struct run_shown {
    const char *trace, *metrics, *token_file;
};
/* USAGE: one of them is given, and there is one node. */
MUST_USE status run_shown_check(const struct run_shown *shown);

/* Of a verb that uses a saved model, on several nodes, as SAVED_FLAGS and RUN_NODES_FLAGS have them: the flags that the
 * others lack; SHOWN: a struct run_shown. */
#define RUN_USE_FLAGS(TYPE, AT, AGAIN, SHOWN)                                                                          \
    {"--lanes", FLAG_TEXT, "N", "with --nodes: as of a training", offsetof(TYPE, AT.lanes), 0, 0, false},              \
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
         "with --metrics: tokens, a line each: only who sends one may ask for figures",                                \
         offsetof(TYPE, SHOWN.token_file),                                                                             \
         0,                                                                                                            \
         0,                                                                                                            \
         false},                                                                                                       \
        {"--roster-fd",                                                                                                \
         FLAG_U32,                                                                                                     \
         "N",                                                                                                          \
         "with --nodes: what a node that starts itself anew leaves to itself",                                         \
         offsetof(TYPE, AT.roster_fd),                                                                                 \
         3,                                                                                                            \
         1 << 20,                                                                                                      \
         false},                                                                                                       \
    {                                                                                                                  \
        "--again", FLAG_SWITCH, NULL, "as `launch` says to a node that it starts again", offsetof(TYPE, AGAIN), 0, 0,  \
            false                                                                                                      \
    }
/* Uses a saved model on several nodes, as `options` say, whose `use` is this verb's, and `resume` its model. USAGE: no
 * model; INVALID: data that are a stream. As run_verb. */
MUST_USE status run_use(const char *graph, const struct run_options *options);

/* The verb train, for this graph; and what else is done on several nodes. */
MUST_USE status run_verb(const char *graph, const struct run_options *options);
/* Opens a session for them and trains, but for the trace. As session_open and train_run fail; USAGE: flags that
 * exclude each other. */
MUST_USE status run_train(const char *graph, const struct run_options *options);
/* The verb doctor. */
MUST_USE status run_doctor(const char *const *positionals, const void *options);

#endif

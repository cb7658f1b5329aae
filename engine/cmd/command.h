/* A verb of the program is one file here with one `struct command`: its flags are a table from which parsing,
 * checking and `VERB --help` come. main.c lists the verbs. Every verb also takes --log text|json, -v, -q and --help;
 * those that run models, --gpu. */
#ifndef HETERPS_ENGINE_CMD_COMMAND_H
#define HETERPS_ENGINE_CMD_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "engine/model/model_spare.h"

enum flag_type {
    FLAG_TEXT,   /* const char *                                      */
    FLAG_READ,   /* the same, of files that are read, separated by commas (inputs.h) */
    FLAG_WRITE,  /* the same, of a file that is written: none that is read, or that is a model's (model_spare.h) */
    FLAG_LIST,   /* struct flag_list: may be given several times      */
    FLAG_SETS,   /* struct flag_list of data sets that are read, [NAME=]FILE,… (engine/eval/eval_sets.h) */
    FLAG_U32,    /* uint32_t                                          */
    FLAG_U64,    /* uint64_t                                          */
    FLAG_F64,    /* double                                            */
    FLAG_SWITCH, /* bool; takes no value                              */
};
#define FLAG_LIST_MAX 256
struct flag_list {
    const char *item[FLAG_LIST_MAX];
    uint32_t count;
};
struct flag {
    const char *name; /* "--rows", or "-o"                            */
    enum flag_type type;
    const char *value; /* how --help names the value: "N"; NULL for a switch */
    const char *meaning;
    size_t offset;   /* in the options struct                        */
    double min, max; /* numbers: both included                       */
    bool is_required;
};
#define COMMAND_POSITIONALS_MAX 3
/* What follows "--", of a verb that takes it: the words of another command. */
struct command_rest {
    char **words;
    uint32_t count;
};
struct command {
    const char *name;
    const char
        *positionals;    /* "GRAPH", "criteo", "[GRAPH]": space-separated; in brackets: may be left out, is NULL then */
    const char *summary; /* one line                               */
    const char *help;    /* further paragraphs for --help, or NULL */
    const struct flag *flags;
    uint32_t flag_count;
    size_t options_bytes;
    const void *defaults;   /* options before flags; NULL: zeros      */
    bool opens_positionals; /* they are files that are read (inputs.h) */
    /* what of models its outputs may replace */
    enum model_spare replaces;
    bool takes_rest;        /* its options begin with a struct command_rest */
    /* takes --gpu; started anew with the CUDA side where there is a card (engine/image/image.h) */
    bool uses_cards;
    /* Does the work; a failure is printed by main. `options` was filled by the flags. */
    status (*run)(const char *const positionals[COMMAND_POSITIONALS_MAX], const void *options);
};

extern const struct command command_compile, command_train, command_plan_memory, command_eval, command_predict,
    command_export, command_import, command_inspect, command_gen, command_profile, command_plan, command_pretrain,
    command_simulate, command_bench, command_fsck, command_devices, command_doctor, command_key, command_serve,
    command_launch, command_trace, command_doctor_cluster;

/* Parses argv (after the verb, `skip` words of it) and runs; returns the program's exit status. */
int command_run(const struct command *command, int skip, int argument_count, char **arguments);
void command_help(const struct command *command);

/* Flags of every verb, those of verbs that use cards included. */
const struct flag *command_global_flags(size_t *count);

/* help.c: NULL: there is no such verb, or none near. */
const struct command *command_find(const char *name);
const char *command_nearest(const char *name);
/* The verbs in the order of help, NULL behind the last. title: of the group that verb i begins, or NULL. */
const struct command *command_at(size_t i, const char **title);
/* What `heterps-run help` says of words and of exit statuses. */
extern const char help_of_words[], help_of_exits[];
/* `heterps-run help TOPIC`, "" for all verbs. USAGE: nothing is known of it; what is near. */
MUST_USE status help(const char *topic);

#endif

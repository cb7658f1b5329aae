/* A verb of the program is one file here with one `struct command`. Parsing, checking and `VERB --help` come
 * from its table of flags. verb_help.c lists the verbs. Every verb also takes --log text|json, -v, -q and
 * --help; verbs that run models take --gpu. */
#ifndef HETERPS_ENGINE_CMD_COMMAND_H
#define HETERPS_ENGINE_CMD_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"
#include "engine/model/model_spare.h"

enum flag_type {
    FLAG_TEXT,   /* const char *                                      */
    FLAG_READ,   /* the same, of files to read, separated by commas (inputs.h) */
    FLAG_WRITE,  /* the same, of a file to write, which must not be one to read, nor a model's (model_spare.h) */
    FLAG_LIST,   /* struct flag_list: may be given several times      */
    FLAG_SETS,   /* struct flag_list of data sets to read, [NAME=]FILE,… (engine/eval/eval_sets.h) */
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
/* The words after "--", for a verb that takes the words of another command. */
struct command_rest {
    char **words;
    uint32_t count;
};
struct command {
    const char *name;
    /* "GRAPH", "criteo", "[GRAPH]": space-separated; in brackets: may be left out, then NULL */
    const char *positionals;
    const char *summary; /* one line                               */
    const char *help;    /* further paragraphs for --help, or NULL */
    const struct flag *flags;
    uint32_t flag_count;
    size_t options_bytes;
    const void *defaults;   /* options before flags; NULL: zeros      */
    bool opens_positionals; /* they are files to read (inputs.h) */
    /* which files of models its outputs may replace */
    enum model_spare replaces;
    bool takes_rest; /* its options begin with a struct command_rest */
    /* takes --gpu; starts anew with the CUDA side where there is a card (engine/image/image.h) */
    bool uses_cards;
    /* Does the work; command_run prints its failure. `options`: filled by the flags. */
    status (*run)(const char *const positionals[COMMAND_POSITIONALS_MAX], const void *options);
};

extern const struct command command_compile, command_train, command_plan_memory, command_eval, command_predict,
    command_export, command_import, command_inspect, command_gen, command_profile, command_plan, command_pretrain,
    command_simulate, command_bench, command_fsck, command_devices, command_doctor, command_key, command_serve,
    command_launch, command_trace, command_doctor_cluster;

/* What the words behind the verb say: fills positionals, NULL where there is none, and options
 * [options_bytes], which keep pointers to the words; does nothing else. Fails as the verb would, USAGE. */
MUST_USE status command_words_read(const struct command *command, uint32_t count, char **words,
                                   const char *positionals[COMMAND_POSITIONALS_MAX], void *options);
/* Parses argv (after the verb, `skip` words of it) and runs; returns the program's exit status. */
int command_run(const struct command *command, int skip, int argument_count, char **arguments);
void command_help(const struct command *command);

/* Flags of every verb, those of verbs that use cards included. */
const struct flag *command_global_flags(size_t *count);

/* verb_help.c. NULL: there is no such verb, or none with a similar name. */
const struct command *command_find(const char *name);
const char *command_nearest(const char *name);
/* The verbs in the order of help, NULL after the last. title: of the group that verb i begins, or NULL. */
const struct command *command_at(size_t i, const char **title);
/* What `heterps-run help` says about words and exit statuses. */
extern const char help_of_words[], help_of_exits[];
/* `heterps-run help TOPIC`; "": lists all verbs. USAGE: there is no such topic;
 * the message names a similar one. */
MUST_USE status help(const char *topic);

#endif

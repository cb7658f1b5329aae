/* heterps-run help [WORD]: lists the verbs, or says what the program's tables know about a word. */
#include <stdio.h>
#include <string.h>

#include "engine/cmd/command.h"
#include "engine/cmd/manual.h"
#include "graph/reference.h"
#include "sched/estimate.h"

/* In the order of help; a title begins a group. */
static const struct {
    const char *title;
    const struct command *command;
} verbs[] = {
    {"Models", &command_compile},
    {NULL, &command_train},
    {NULL, &command_eval},
    {NULL, &command_predict},
    {NULL, &command_serve},
    {NULL, &command_export},
    {NULL, &command_import},
    {NULL, &command_inspect},
    {NULL, &command_fsck},
    {NULL, &command_gen},
    {"This machine", &command_doctor},
    {NULL, &command_plan_memory},
    {NULL, &command_devices},
    {NULL, &command_bench},
    {"Nodes", &command_launch},
    {NULL, &command_key},
    {NULL, &command_trace},
    {"Plans", &command_profile},
    {NULL, &command_plan},
    {NULL, &command_simulate},
    {NULL, &command_pretrain},
};
#define VERB_COUNT (sizeof verbs / sizeof *verbs)

const char help_of_words[] =
    "`heterps-run help WORD` explains a word: a verb, an op, a section or key of a model (fc, train, batch),\n"
    "a format, an optimizer; `heterps-run help settings` lists all sections and keys of a model, "
    "`help cluster` those of a cluster,\n"
    "`help layers` those of a layer table, `help notices` the licences of the libraries in the program. "
    "`heterps-run VERB --help`\n"
    "is `heterps-run help VERB`.";
const char help_of_exits[] =
    "0 done, 1 failed, 2 wrong command line, 75 nodes were stopped, or too few are left: start again,\n"
    "130 or 143 stopped by a signal after saving, 141 nobody reads the output any more.";

static void verbs_print(void)
{
    printf("heterps-run %s: trains and serves sparse deep models\n\n"
           "  heterps-run compile model.cfg -o graph.bin\n"
           "  heterps-run graph.bin --data train.tsv --eval test.tsv --out model\n"
           "  heterps-run predict graph.bin --model model --data new.tsv\n\n",
           HETERPS_VERSION);
    for (size_t i = 0; i < VERB_COUNT; i++) {
        if (verbs[i].title) printf("%s%s:\n", i ? "\n" : "", verbs[i].title);
        printf("  %-12s %s\n", verbs[i].command->name, verbs[i].command->summary);
    }
    printf("\n%s\nExit status: %s\n", help_of_words, help_of_exits);
}

const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < VERB_COUNT; i++)
        if (strcmp(verbs[i].command->name, name) == 0) return verbs[i].command;
    return NULL;
}

const struct command *command_at(size_t i, const char **title)
{
    if (i >= VERB_COUNT) return NULL;
    *title = verbs[i].title;
    return verbs[i].command;
}

const char *command_nearest(const char *name)
{
    const char *names[VERB_COUNT + 1] = {0};
    for (size_t i = 0; i < VERB_COUNT; i++) names[i] = verbs[i].command->name;
    return ini_nearest(name, names);
}

typedef const struct cfg_key *keys_of_kind(const char *kind, size_t *key_count);

/* The sections of a text and their keys. */
static void keys_print(const char *const *kinds, keys_of_kind *keys_of)
{
    for (; *kinds; kinds++) {
        size_t count;
        const struct cfg_key *keys = keys_of(*kinds, &count);
        printf("\n[%s]\n", *kinds);
        cfg_print(stdout, keys, count);
    }
}

static void word_look(struct reference_word *w, const char *const *kinds, keys_of_kind *keys_of, const char *text)
{
    for (; *kinds; kinds++) {
        size_t count;
        char title[64];
        const struct cfg_key *keys = keys_of(*kinds, &count);
        snprintf(title, sizeof title, "%s, of %s", *kinds, text);
        reference_word_keys(w, title, *kinds, keys, count);
    }
}

/* Topics that help() lists as a whole; also offered for a mistyped word. */
static const char *const topics[] = {"settings", "cluster", "layers", "notices", NULL};

/* Says what any of the tables knows about a word. */
static status word_help(const char *word)
{
    struct reference_word w = {.out = stdout, .word = word};
    for (size_t i = 0; i < VERB_COUNT; i++)
        if (reference_word_is(&w, verbs[i].command->name)) command_help(verbs[i].command);
    for (size_t i = 0; topics[i]; i++) (void)reference_word_is(&w, topics[i]);
    reference_word_print(&w);
    word_look(&w, cluster_kinds, cluster_keys, "a cluster");
    word_look(&w, layer_table_kinds, layer_table_keys, "a layer table");
    if (w.is_known) return ST_OK;
    char near[512] = "";
    for (uint32_t i = 0; i < w.near_count; i++)
        snprintf(near + strlen(near), sizeof near - strlen(near), "%s%s", i ? ", " : "; similar words: ", w.near[i]);
    FAIL(USAGE,
         "no help on \"%s\": expected a verb, a section, an op, a key, a format, an optimizer, settings, cluster, "
         "layers or notices%s",
         word, near);
}

status help(const char *topic)
{
    bool as_markdown = strcmp(topic, "settings.md") == 0;
    if (*topic == 0)
        verbs_print();
    else if (strcmp(topic, "cluster") == 0)
        keys_print(cluster_kinds, cluster_keys);
    else if (strcmp(topic, "layers") == 0)
        keys_print(layer_table_kinds, layer_table_keys);
    else if (as_markdown || strcmp(topic, "settings") == 0)
        reference_print(stdout, as_markdown);
    else if (strcmp(topic, "notices") == 0)
        notices_print(stdout);
    else if (strcmp(topic, "man") == 0)
        manual_print(stdout);
    else if (strcmp(topic, "bash") == 0)
        completion_print(stdout);
    else
        return word_help(topic);
    return ST_OK;
}

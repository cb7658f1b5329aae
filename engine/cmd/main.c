/* The program: finds the verb and runs it. Without a verb the first argument is a graph, to be trained. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cfg/ini.h"
#include "engine/base/log.h"
#include "engine/cmd/command.h"
#include "engine/image/image.h"
#include "graph/reference.h"
#include "sched/estimate.h"

/* In the order of help; a title begins a group. */
static const struct {
    const char *title;
    const struct command *command;
} verbs[] = {
    {"Models", &command_compile}, {NULL, &command_train},
    {NULL, &command_eval},        {NULL, &command_predict},
    {NULL, &command_export},      {NULL, &command_import},
    {NULL, &command_inspect},     {NULL, &command_fsck},
    {NULL, &command_gen},         {"This machine", &command_doctor},
    {NULL, &command_plan_memory}, {NULL, &command_devices},
    {NULL, &command_bench},       {"Plans", &command_profile},
    {NULL, &command_plan},        {NULL, &command_simulate},
    {NULL, &command_pretrain},
};
#define VERB_COUNT (sizeof verbs / sizeof *verbs)

static void help(void)
{
    printf("heterps-run %s: trains and serves sparse deep models\n\n"
           "  heterps-run compile model.cfg -o graph.bin\n"
           "  heterps-run graph.bin --data train.tsv --eval test.tsv --out model\n"
           "  heterps-run predict graph.bin --model model --data new.tsv\n\n",
           HETERPS_VERSION);
    for (size_t i = 0; i < VERB_COUNT; i++) {
        if (verbs[i].title) printf("%s%s:\n", i ? "\n" : "", verbs[i].title);
        printf("  %-11s %s\n", verbs[i].command->name, verbs[i].command->summary);
    }
    printf(
        "\n`heterps-run VERB --help` lists the flags of a verb, `heterps-run help settings` all settings of a model,\n"
        "`heterps-run help cluster` those of a cluster, `heterps-run help layers` those of a layer table.\n"
        "Exit status: 0 done, 1 failed, 2 wrong command line, 130 or 143 stopped by a signal after saving,\n"
        "141 nobody reads the output any more.\n");
}

/* The sections of a text and their keys. */
static void keys_print(const char *const *kinds, const struct cfg_key *keys_of(const char *kind, size_t *key_count))
{
    for (; *kinds; kinds++) {
        size_t count;
        const struct cfg_key *keys = keys_of(*kinds, &count);
        printf("\n[%s]\n", *kinds);
        cfg_print(stdout, keys, count);
    }
}

static const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < VERB_COUNT; i++)
        if (strcmp(verbs[i].command->name, name) == 0) return verbs[i].command;
    return NULL;
}

static status help_on(const char *topic)
{
    const struct command *command = command_find(topic);
    bool as_markdown = strcmp(topic, "settings.md") == 0;
    if (command)
        command_help(command);
    else if (strcmp(topic, "cluster") == 0)
        keys_print(cluster_kinds, cluster_keys);
    else if (strcmp(topic, "layers") == 0)
        keys_print(layer_table_kinds, layer_table_keys);
    else if (as_markdown || strcmp(topic, "settings") == 0)
        reference_print(stdout, as_markdown);
    else if (*topic == 0)
        help();
    else
        FAIL(USAGE, "no help on \"%s\": expected a verb, settings, cluster or layers", topic);
    return ST_OK;
}

/* The exit status of what has only printed. */
static int told(status st)
{
    if (st == ST_OK) st = log_results_check();
    if (st != ST_OK && st != ST_UNREAD) log_error("%s", status_message());
    return status_exit(st);
}

/* A standard stream that was closed gets /dev/null, or the next file opened would take its number, and be written
 * to. Read-only, so that results written to a closed standard output fail instead of vanishing. */
static void streams_open(void)
{
    int fd = open("/dev/null", O_RDONLY);
    while (fd >= 0 && fd <= STDERR_FILENO) fd = dup(fd);
    if (fd > STDERR_FILENO) close(fd);
}

/* Rows on a disk and saves of them have many files open: as many as we may have. */
static void files_allow(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argument_count, char **arguments)
{
    streams_open();
    files_allow();
    /* A closed pipe, or a file-size limit, is an error of the write that meets it, not the end of the program. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    log_open(LOG_TEXT, 0);
    if (argument_count < 2) {
        log_error("expected a verb or a graph; see `heterps-run --help`");
        return 2;
    }
    const char *first = arguments[1];
    const bool is_help = strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0 || strcmp(first, "help") == 0;
    if (is_help) return told(help_on(argument_count > 2 ? arguments[2] : ""));
    if (strcmp(first, "--version") == 0 && argument_count == 2) {
        printf("heterps-run %s\n", HETERPS_VERSION);
        return told(ST_OK);
    }
    if (strcmp(first, IMAGE_PROBE_FLAG) == 0 && argument_count == 2) return image_probe();
    const struct command *command = command_find(first);
    if (command) return command_run(command, 2, argument_count, arguments);
    /* A word that is neither a verb nor looks like a path is more likely a mistyped verb than a graph. */
    if (first[0] != '-' && strpbrk(first, "./") == NULL) {
        const char *names[VERB_COUNT + 1] = {0};
        for (size_t i = 0; i < VERB_COUNT; i++) names[i] = verbs[i].command->name;
        const char *near = ini_nearest(first, names);
        if (access(first, F_OK) != 0) { /* which waits for nobody, as opening a pipe would */
            if (near)
                log_error("unknown verb \"%s\"; did you mean \"%s\"?", first, near);
            else
                log_error("\"%s\" is neither a verb nor a file; see `heterps-run --help`", first);
            return 2;
        }
    }
    return command_run(&command_train, 1, argument_count, arguments);
}

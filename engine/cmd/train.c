/* heterps-run GRAPH (or: heterps-run train GRAPH): trains, evaluates, saves. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cmd/command.h"
#include "engine/train.h"

struct run_options {
    const char *data, *eval, *out, *resume, *isa;
    uint32_t threads;
    struct flag_list set;
};
static const struct flag flags[] = {
    {"--data", FLAG_TEXT, "FILE",
     "training data: files separated by commas, .gz or not; - is standard input; default: data.path of the graph",
     offsetof(struct run_options, data), 0, 0, false},
    {"--eval", FLAG_TEXT, "FILE", "evaluation data; default: data.eval of the graph",
     offsetof(struct run_options, eval), 0, 0, false},
    {"--out", FLAG_TEXT, "DIR", "save the model here at the end, at a signal, and every checkpoint.every steps",
     offsetof(struct run_options, out), 0, 0, false},
    {"--resume", FLAG_TEXT, "DIR", "go on from a saved model, and save there unless --out says otherwise",
     offsetof(struct run_options, resume), 0, 0, false},
    {"--threads", FLAG_U32, "N", "computing threads; default: all processors of this process; never changes the result",
     offsetof(struct run_options, threads), 1, 1024, false},
    {"--isa", FLAG_TEXT, "NAME", "instruction set: base, avx2, avx512; default: the best here",
     offsetof(struct run_options, isa), 0, 0, false},
    {"--set", FLAG_LIST, "SECTION.KEY=VALUE", "override a setting of the graph; may be repeated",
     offsetof(struct run_options, set), 0, 0, false},
};

/* Appends " WORD", quoted for a shell if it needs that. */
static void word_add(FILE *out, const char *word)
{
    bool is_plain = *word != 0;
    for (const char *p = word; *p; p++) is_plain = is_plain && (isalnum((unsigned char)*p) || strchr("_-./=,:+", *p));
    fputs(is_plain ? " " : " '", out);
    for (const char *p = word; *p; p++) *p == '\'' ? fputs("'\\''", out) : fputc(*p, out);
    if (!is_plain) fputc('\'', out);
}

/* The command line that goes on with what this one does. malloc'd: the caller's. */
static char *resume_command(const char *graph, const struct run_options *o, const struct train_options *t)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) return NULL;
    fputs("heterps-run", out);
    word_add(out, graph);
    const char *const pairs[][2] = {{"--data", o->data}, {"--eval", o->eval}, {"--resume", t->out}, {"--isa", o->isa}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (pairs[i][1]) fprintf(out, " %s", pairs[i][0]), word_add(out, pairs[i][1]);
    for (uint32_t i = 0; i < o->set.count; i++) fputs(" --set", out), word_add(out, o->set.item[i]);
    return fclose(out) == 0 ? text : NULL;
}

static status train(struct session *s, const struct run_options *o, char **data, char **eval)
{
    struct train_options options = {
        .data = o->data, .eval = o->eval, .out = o->out ? o->out : o->resume, .resume = o->resume};
    if (options.data == NULL && *s->settings.data_path) options.data = *data = session_paths(s, s->settings.data_path);
    if (options.eval == NULL && *s->settings.data_eval) options.eval = *eval = session_paths(s, s->settings.data_eval);
    if (options.data == NULL) FAIL(USAGE, "no training data: give --data FILE, or set data.path in the model");
    if (o->resume) TRY(model_dir_find(o->resume)); /* or the check below would make a mistyped directory */
    if (options.out) TRY(model_dir_check(&s->graph, options.out));
    char *command = resume_command(s->graph_path, o, &options);
    options.resume_command = command ? command : "--resume";
    status st = train_run(s, &options);
    free(command);
    return st;
}

static status run(const char *const *positionals, const void *options_pointer)
{
    const struct run_options *o = options_pointer;
    struct session session;
    TRY(session_open(&session,
                     &(struct session_options){positionals[0], o->set.item, o->set.count, o->threads, o->isa}));
    char *data = NULL, *eval = NULL;
    status st = train(&session, o, &data, &eval);
    session_close(&session);
    free(data);
    free(eval);
    return st;
}

const struct command command_train = {.name = "train",
                                      .positionals = "GRAPH",
                                      .summary = "train a graph: the verb when none is given",
                                      .flags = flags,
                                      .flag_count = sizeof flags / sizeof *flags,
                                      .options_bytes = sizeof(struct run_options),
                                      .run = run,
                                      .help = "SIGINT and SIGTERM finish the step, save when --out is given, and say "
                                              "how to go on; a second signal ends at once."};

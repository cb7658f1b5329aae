/* Parses a verb's flags by its table, prints its help, and turns its status into an exit status. */
#include "engine/cmd/command.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cfg/key.h"
#include "engine/base/inputs.h"
#include "engine/base/log.h"
#include "engine/base/stop.h"
#include "engine/base/trust.h"
#include "engine/eval/eval_sets.h"
#include "engine/image/image.h"
#include "gpu/blas.h"

/* Flags of every verb. */
struct global_options {
    const char *log, *gpu, *blas;
    bool is_verbose, is_quiet, is_help, trusts_paths;
};
static const struct flag global_flags[] = {
    {.name = "--log",
     .type = FLAG_TEXT,
     .value = "FORMAT",
     .meaning = "text, or json: one object a line on standard output",
     .offset = offsetof(struct global_options, log)},
    {.name = "-v",
     .type = FLAG_SWITCH,
     .meaning = "more details",
     .offset = offsetof(struct global_options, is_verbose)},
    {.name = "-q",
     .type = FLAG_SWITCH,
     .meaning = "warnings and errors only",
     .offset = offsetof(struct global_options, is_quiet)},
    {.name = "--help", .type = FLAG_SWITCH, .meaning = "this text", .offset = offsetof(struct global_options, is_help)},
    {.name = "--trust-paths",
     .type = FLAG_SWITCH,
     .meaning = "let a graph name paths outside its own folder to write to, and servers to read from",
     .offset = offsetof(struct global_options, trusts_paths)},
    /* last: for verbs that use cards alone */
    {.name = "--gpu",
     .type = FLAG_TEXT,
     .value = "WHEN",
     .meaning = "cards: off, auto (if there are any), on; default: HETERPS_GPU, or auto",
     .offset = offsetof(struct global_options, gpu)},
    {.name = "--blas",
     .type = FLAG_TEXT,
     .value = "WHEN",
     .meaning = "rounded products on cards of other compute capabilities than 9.0: "
                "auto (by cuBLASLt, if installed), off; default: auto",
     .offset = offsetof(struct global_options, blas)},
};
#define CARD_FLAGS      2u
#define GLOBAL_FLAG_MAX (sizeof global_flags / sizeof *global_flags)
static size_t global_flag_count(const struct command *c) { return GLOBAL_FLAG_MAX - (c->uses_cards ? 0 : CARD_FLAGS); }

const struct flag *command_global_flags(size_t *count)
{
    *count = GLOBAL_FLAG_MAX;
    return global_flags;
}

static void flags_print(const struct flag *flags, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char left[64];
        snprintf(left, sizeof left, "%s%s%s", flags[i].name, flags[i].value ? " " : "",
                 flags[i].value ? flags[i].value : "");
        printf("  %-22s %s%s\n", left, flags[i].meaning, flags[i].is_required ? " (required)" : "");
    }
}

void command_help(const struct command *c)
{
    bool is_train = strcmp(c->name, "train") == 0;
    printf("heterps-run %s%s%s%s [flags]%s\n  %s\n\n", is_train ? "" : c->name,
           is_train          ? ""
           : *c->positionals ? " "
                             : "",
           c->positionals, is_train ? " [train is the verb when none is given]" : "",
           c->takes_rest ? " -- COMMAND" : "", c->summary);
    flags_print(c->flags, c->flag_count);
    flags_print(global_flags, global_flag_count(c));
    if (c->help) printf("\n%s\n", c->help);
}

static const struct flag *flag_find(const struct flag *flags, size_t count, const char *name, size_t name_bytes)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(flags[i].name) == name_bytes && memcmp(flags[i].name, name, name_bytes) == 0) return &flags[i];
    return NULL;
}

static status flag_store(const struct flag *flag, const char *text, uint8_t *options, bool is_repeated)
{
    void *at = options + flag->offset;
    uint64_t whole = 0;
    double number = 0;
    if (is_repeated && flag->type != FLAG_LIST && flag->type != FLAG_SETS) FAIL(USAGE, "%s is given twice", flag->name);
    switch (flag->type) {
    case FLAG_SWITCH: *(bool *)at = true; return ST_OK;
    case FLAG_TEXT:
    case FLAG_READ:
    case FLAG_WRITE:
        if (*text == '\0') FAIL(USAGE, "%s: expected a value, %s, found nothing", flag->name, flag->value);
        *(const char **)at = text;
        return ST_OK;
    case FLAG_LIST:
    case FLAG_SETS: {
        struct flag_list *list = at;
        if (flag->type == FLAG_SETS && *text == '\0')
            FAIL(USAGE, "%s: expected a value, %s, found nothing", flag->name, flag->value);
        if (list->count == FLAG_LIST_MAX) FAIL(USAGE, "%s is given more than %d times", flag->name, FLAG_LIST_MAX);
        list->item[list->count++] = text;
        return ST_OK;
    }
    case FLAG_U32:
    case FLAG_U64:
        if (!cfg_parse_u64(text, &whole) || (double)whole < flag->min || (double)whole > flag->max)
            FAIL(USAGE, "%s: expected a whole number from %.0f to %.0f, found \"%s\"", flag->name, flag->min, flag->max,
                 text);
        if (flag->type == FLAG_U32)
            *(uint32_t *)at = (uint32_t)whole;
        else
            *(uint64_t *)at = whole;
        return ST_OK;
    case FLAG_F64:
        if (!cfg_parse_f64(text, &number) || !(number >= flag->min && number <= flag->max))
            FAIL(USAGE, "%s: expected a number from %g to %g, found \"%s\"", flag->name, flag->min, flag->max, text);
        *(double *)at = number;
        return ST_OK;
    }
    CHECK(false);
}

static status flag_unknown(const struct command *c, const char *name)
{
    const char *names[128];
    size_t count = 0;
    for (uint32_t i = 0; i < c->flag_count; i++) names[count++] = c->flags[i].name;
    for (size_t i = 0; i < global_flag_count(c); i++) names[count++] = global_flags[i].name;
    names[count] = NULL;
    const char *near = ini_nearest(name, names);
    bool is_train = strcmp(c->name, "train") == 0;
    if (near) FAIL(USAGE, "unknown flag %s; did you mean %s?", name, near);
    FAIL(USAGE, "unknown flag %s; `heterps-run %s --help` lists them", name, is_train ? "train" : c->name);
}

static status arguments_parse(const struct command *c, int count, char **arguments, const char **positionals,
                              uint32_t *positional_count, uint8_t *options, struct global_options *global)
{
    CHECK(c->flag_count <= 64);
    uint64_t seen = 0, seen_global = 0;
    bool only_positionals = false;
    for (int i = 0; i < count; i++) {
        const char *argument = arguments[i];
        if (only_positionals || argument[0] != '-' || argument[1] == 0) {
            if (*positional_count == COMMAND_POSITIONALS_MAX) FAIL(USAGE, "unexpected argument \"%s\"", argument);
            positionals[(*positional_count)++] = argument;
            continue;
        }
        if (strcmp(argument, "--") == 0 && c->takes_rest) {
            *(struct command_rest *)(void *)options =
                (struct command_rest){arguments + i + 1, (uint32_t)(count - i - 1)};
            break;
        }
        if (strcmp(argument, "--") == 0) {
            only_positionals = true;
            continue;
        }
        size_t name_bytes = argument[1] == '-' ? strcspn(argument, "=") : strlen(argument);
        const struct flag *flag = flag_find(c->flags, c->flag_count, argument, name_bytes);
        uint8_t *target = options;
        uint64_t *seen_set = &seen;
        size_t index = flag ? (size_t)(flag - c->flags) : 0;
        if (flag == NULL) {
            flag = flag_find(global_flags, global_flag_count(c), argument, name_bytes);
            target = (uint8_t *)global;
            seen_set = &seen_global;
            index = flag ? (size_t)(flag - global_flags) : 0;
        }
        if (flag == NULL) return flag_unknown(c, argument);
        const char *value = argument[name_bytes] == '=' ? argument + name_bytes + 1 : NULL;
        if (flag->type == FLAG_SWITCH && value) FAIL(USAGE, "%s takes no value", flag->name);
        if (flag->type != FLAG_SWITCH && value == NULL) {
            if (i + 1 == count) FAIL(USAGE, "%s: expected a value, %s", flag->name, flag->value);
            value = arguments[++i];
        }
        TRY(flag_store(flag, value, target, *seen_set >> index & 1));
        *seen_set |= (uint64_t)1 << index;
    }
    if (global->is_help) return ST_OK;
    for (uint32_t i = 0; i < c->flag_count; i++)
        if (c->flags[i].is_required && !(seen >> i & 1))
            FAIL(USAGE, "%s %s is missing", c->flags[i].name, c->flags[i].value ? c->flags[i].value : "");
    uint32_t expected = 0;
    char names[128], *save = NULL;
    snprintf(names, sizeof names, "%s", c->positionals);
    for (char *name = strtok_r(names, " ", &save); name; name = strtok_r(NULL, " ", &save), expected++)
        if (expected >= *positional_count && name[0] != '[')
            FAIL(USAGE, "expected %s; see `heterps-run %s --help`", name, c->name);
    if (*positional_count > expected) FAIL(USAGE, "unexpected argument \"%s\"", positionals[expected]);
    return ST_OK;
}

/* Notes as inputs the data sets that the command line names. */
static status sets_note(const struct flag *flag, const struct flag_list *texts)
{
    struct eval_sets sets;
    TRY(eval_sets_parse(&sets, flag->name, texts->item, texts->count));
    for (uint32_t i = 0; i < sets.count; i++) TRY(inputs_add(flag->name, sets.item[i].paths));
    return ST_OK;
}

/* Refuses an output of the command line that is one of its inputs or a file of a model. */
static status outputs_check(const struct command *c, const char *const *positionals, uint32_t positional_count,
                            const uint8_t *options)
{
    for (uint32_t i = 0; c->opens_positionals && i < positional_count; i++) TRY(inputs_add(NULL, positionals[i]));
    for (int pass = FLAG_READ; pass <= FLAG_WRITE; pass++)
        for (uint32_t i = 0; i < c->flag_count; i++) {
            const struct flag *flag = &c->flags[i];
            const char *value;
            if (pass == FLAG_READ && flag->type == FLAG_SETS)
                TRY(sets_note(flag, (const void *)(options + flag->offset)));
            if ((int)flag->type != pass) continue;
            memcpy(&value, options + flag->offset, sizeof value);
            if (value == NULL) continue;
            TRY(pass == FLAG_READ ? inputs_add(flag->name, value) : inputs_spare(value));
            if (pass == FLAG_WRITE) TRY(model_spare(value, c->replaces));
        }
    return ST_OK;
}

/* Trusts settings of the command line; with --trust-paths the graph's, too. */
static void trust_take(const struct command *c, const uint8_t *options, const struct global_options *global)
{
    const struct flag *set = flag_find(c->flags, c->flag_count, "--set", strlen("--set"));
    if (global->trusts_paths || set == NULL) return;
    const struct flag_list *list = (const void *)(options + set->offset);
    trust_only(list->item, list->count);
}

status command_words_read(const struct command *c, uint32_t count, char **words,
                          const char *positionals[COMMAND_POSITIONALS_MAX], void *options)
{
    struct global_options global = {0};
    uint32_t positional_count = 0;
    memset(options, 0, c->options_bytes);
    if (c->defaults) memcpy(options, c->defaults, c->options_bytes);
    for (uint32_t i = 0; i < COMMAND_POSITIONALS_MAX; i++) positionals[i] = NULL;
    return arguments_parse(c, (int)count, words, positionals, &positional_count, options, &global);
}

int command_run(const struct command *c, int skip, int argument_count, char **arguments)
{
    const char *positionals[COMMAND_POSITIONALS_MAX] = {0};
    uint32_t positional_count = 0;
    struct global_options global = {.log = "text", .blas = "auto"};
    uint8_t *options = calloc(1, c->options_bytes + 1);
    status st = options == NULL ? status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory for options") : ST_OK;
    if (st == ST_OK && c->defaults) memcpy(options, c->defaults, c->options_bytes);
    if (st == ST_OK)
        st = arguments_parse(c, argument_count - skip, arguments + skip, positionals, &positional_count, options,
                             &global);
    bool is_json = strcmp(global.log, "json") == 0;
    if (st == ST_OK && !is_json && strcmp(global.log, "text") != 0)
        st = status_fail(ST_USAGE, __FILE__, __LINE__, "--log: expected text or json, found \"%s\"", global.log);
    if (st == ST_OK && strcmp(global.blas, "off") == 0)
        gpu_blas_deny();
    else if (st == ST_OK && strcmp(global.blas, "auto") != 0)
        st = status_fail(ST_USAGE, __FILE__, __LINE__, "--blas: expected auto or off, found \"%s\"", global.blas);
    log_open(is_json ? LOG_JSON : LOG_TEXT, global.is_verbose ? 1 : global.is_quiet ? -1 : 0);
    if (st == ST_OK && global.is_help) {
        command_help(c);
    } else if (st == ST_OK) {
        trust_take(c, options, &global);
        st = outputs_check(c, positionals, positional_count, options);
        if (st == ST_OK && c->uses_cards) st = image_start(global.gpu, arguments);
        if (st == ST_OK) st = c->run(positionals, options);
    }
    free(options);
    if (st == ST_OK) st = log_results_check();
    /* `predict | head` has got what it wants: no error to report. */
    if (st != ST_OK && st != ST_UNREAD) log_error("%s", status_message());
    return st == ST_STOPPED && stop_signal() ? 128 + stop_signal() : status_exit(st);
}

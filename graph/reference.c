/* Prints the reference of model texts. */
#include "graph/reference.h"

#include <string.h>

#include "graph/compiler.h"
#include "graph/schedule.h"

static void keys_print(FILE *out, bool as_markdown, const char *section, const struct cfg_key *keys, size_t count)
{
    if (as_markdown) {
        cfg_print_markdown(out, section, keys, count);
    } else {
        fprintf(out, "\n[%s]\n", section);
        cfg_print(out, keys, count);
    }
}

/* A line of what is named by a text with keys. */
static void named_print(FILE *out, bool as_markdown, const char *name, const struct keyed_param *params,
                        const char *source)
{
    fprintf(out, as_markdown ? "| `%s` |" : "  %-11s", name);
    for (const struct keyed_param *p = params; p->name; p++) {
        fprintf(out, as_markdown ? " `%s=%.15g`" : " %s=%.15g", p->name, p->fallback);
        if (p->until) fprintf(out, " (by rules up to %u: %.15g)", p->until, p->before);
    }
    fprintf(out, as_markdown ? " | %s |\n" : "  (%s)\n", source);
}

/* What an op takes, in the order of enum op_inputs. */
static const char *const inputs_names[] = {
    [OP_INPUTS_ONE] = "one input",
    [OP_INPUTS_MANY] = "one input or more",
    [OP_INPUTS_FIELDS] = "sparse fields",
    [OP_INPUTS_PAIR] = "two inputs",
    [OP_INPUTS_PAIR_FIELD] = "two inputs, a sparse field",
    [OP_INPUTS_CANDIDATES] = "logits, log_q of candidates",
    [OP_INPUTS_LOSS] = "a prediction; a label",
    [OP_INPUTS_SCORES] = "scores; perhaps a label",
};

/* Every op in a line, then the keys: those that all have, those of sections with kinds, and each one's own. */
static void ops_print(FILE *out, bool as_markdown)
{
    struct cfg_key keys[OP_COMMON_KEYS_MAX];
    fprintf(out, as_markdown ? "### Ops\n\n| section | takes | computes, or where it comes from |\n|---|---|---|\n"
                             : "\nOps: section; what it takes; what it computes, or where it comes from\n");
    for (uint32_t i = 0; i < OP_ID_COUNT; i++) {
        const struct op *op = &op_table[i];
        char section[64];
        snprintf(section, sizeof section, *op->kind ? "[%s] kind = %s" : "[%s]", op->section, op->kind);
        fprintf(out, as_markdown ? "| `%s` | %s | %s |\n" : "  %-32s %s; %s\n", section, inputs_names[op->inputs],
                op->source);
    }
    if (as_markdown) fputc('\n', out);
    keys_print(out, as_markdown, "any op", keys, op_common_keys(&op_table[0], keys));
    const char *section = "";
    for (uint32_t i = 0; i < OP_ID_COUNT; i++) {
        const struct op *op = &op_table[i];
        char title[64];
        if (*op->kind && strcmp(op->section, section) != 0) {
            section = op->section;
            uint32_t count = op_common_keys(op, keys), shared = op_common_keys(&op_table[0], keys);
            op_common_keys(op, keys);
            snprintf(title, sizeof title, "any %s", section);
            keys_print(out, as_markdown, title, keys + shared, count - shared);
        }
        if (op->keys->count == 0) continue;
        snprintf(title, sizeof title, *op->kind ? "%s NAME, kind %s" : "%s NAME", op->section, op->kind);
        keys_print(out, as_markdown, title, op->keys->items, op->keys->count);
    }
}

void reference_print(FILE *out, bool as_markdown)
{
    size_t count;
    for (const char *const *kind = settings_kinds; *kind; kind++) {
        const struct cfg_key *keys = settings_keys(*kind, &count);
        keys_print(out, as_markdown, *kind, keys, count);
    }
    for (const char *const *kind = settings_named_kinds; *kind; kind++) {
        char section[64];
        const struct cfg_key *keys = settings_keys(*kind, &count);
        snprintf(section, sizeof section, "%s NAME", *kind);
        keys_print(out, as_markdown, section, keys, count);
    }
    ops_print(out, as_markdown);
    formats_print(out, as_markdown);
    fprintf(out, as_markdown ? "\n### Optimizers\n\nA name, a learning rate, further keys, as in `adam 0.001 "
                               "beta1=0.9`\n\n| name | keys and defaults | source |\n|---|---|---|\n"
                             : "\nOptimizers: a name, a learning rate, further keys, as in `adam 0.001 beta1=0.9`\n");
    for (uint32_t i = 0; i < OPTIMIZER_ID_COUNT; i++)
        if (!optimizer_table[i].is_internal)
            named_print(out, as_markdown, optimizer_table[i].name, optimizer_table[i].params,
                        optimizer_table[i].source);
    fprintf(out,
            as_markdown
                ? "\n### Schedules\n\nA name, then keys, as in `cosine steps=100000 warmup=1000`. At update t every "
                  "learning "
                  "rate is multiplied by a factor: up to `warmup` by t / warmup, then by what the name says, n being "
                  "the number of updates that came before this one since then\n\n| name | keys and defaults | factor "
                  "|\n|---|---|---|\n"
                : "\nSchedules: a name, then keys, as in `cosine steps=100000 warmup=1000`; at update t <= warmup the "
                  "factor of every learning rate is t / warmup, then as here, n counting the updates since\n");
    for (uint32_t i = 0; i < SCHEDULE_ID_COUNT; i++)
        named_print(out, as_markdown, schedule_table[i].name, schedule_table[i].params, schedule_table[i].source);
}

/* Prints the reference of model texts. */
#include "graph/reference.h"

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
    for (const struct keyed_param *p = params; p->name; p++)
        fprintf(out, as_markdown ? " `%s=%.15g`" : " %s=%.15g", p->name, p->fallback);
    fprintf(out, as_markdown ? " | %s |\n" : "  (%s)\n", source);
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
    for (uint32_t i = 0; i < OP_ID_COUNT; i++) {
        const struct op *op = &op_table[i];
        char section[64];
        struct cfg_key all[OP_COMMON_KEYS_MAX + OP_KEYS_MAX];
        uint32_t key_count = op_common_keys(op, all);
        for (uint32_t k = 0; k < op->keys->count; k++) all[key_count++] = op->keys->items[k];
        snprintf(section, sizeof section, *op->kind ? "%s NAME, kind %s" : "%s NAME", op->section, op->kind);
        keys_print(out, as_markdown, section, all, key_count);
    }
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

/* Prints the reference of model texts. */
#include "graph/reference.h"

#include "graph/compiler.h"

static void keys_print(FILE *out, bool as_markdown, const char *section, const struct cfg_key *keys, size_t count)
{
    if (as_markdown) {
        cfg_print_markdown(out, section, keys, count);
    } else {
        fprintf(out, "\n[%s]\n", section);
        cfg_print(out, keys, count);
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
    for (uint32_t i = 0; i < OP_ID_COUNT; i++) {
        const struct op *op = &op_table[i];
        char section[64];
        struct cfg_key all[OP_COMMON_KEYS_MAX + OP_KEYS_MAX];
        uint32_t key_count = op_common_keys(op, all);
        for (uint32_t k = 0; k < op->keys->count; k++) all[key_count++] = op->keys->items[k];
        snprintf(section, sizeof section, *op->kind ? "%s NAME, kind %s" : "%s NAME", op->section, op->kind);
        keys_print(out, as_markdown, section, all, key_count);
    }
    fprintf(out, as_markdown ? "### Optimizers\n\nA name, a learning rate, further keys, as in `adam 0.001 "
                               "beta1=0.9`\n\n| name | keys and defaults | source |\n|---|---|---|\n"
                             : "\nOptimizers: a name, a learning rate, further keys, as in `adam 0.001 beta1=0.9`\n");
    for (uint32_t i = 0; i < OPTIMIZER_ID_COUNT; i++) {
        const struct optimizer *o = &optimizer_table[i];
        if (o->is_internal) continue;
        fprintf(out, as_markdown ? "| `%s` |" : "  %-8s", o->name);
        for (const struct optimizer_param *p = o->params; p->name; p++)
            fprintf(out, as_markdown ? " `%s=%g`" : " %s=%g", p->name, (double)p->fallback);
        fprintf(out, as_markdown ? " | %s |\n" : "  (%s)\n", o->source);
    }
}

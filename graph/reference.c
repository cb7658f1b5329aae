/* Prints the reference of model texts, for people. The reference kernels of ops are
 * in their own files, op_*.c. */
#include "graph/reference.h"

#include <string.h>

#include "engine/base/nearest.h"
#include "graph/compile_cell.h"
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

/* Prints the line of a name with its keys. */
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

/* The inputs that ops take, in the order of enum op_inputs. */
static const char *const inputs_names[] = {
    [OP_INPUTS_ONE] = "one input",
    [OP_INPUTS_MANY] = "one input or more",
    [OP_INPUTS_FIELDS] = "sparse fields",
    [OP_INPUTS_PAIR] = "two inputs",
    [OP_INPUTS_PAIR_FIELD] = "two inputs, a sparse field",
    [OP_INPUTS_TREE] = "the field of trees; perhaps their words' vectors",
    [OP_INPUTS_CANDIDATES] = "logits, log_q of candidates",
    [OP_INPUTS_LOSS] = "a prediction; a label",
    [OP_INPUTS_SCORES] = "scores; perhaps a label",
    [OP_INPUTS_NODES] = "scores of all nodes, the field of trees; a label",
};

/* "[loss] kind = bce", as the texts have it. */
static const char *op_title(char title[64], const struct op *op)
{
    snprintf(title, 64, *op->kind ? "[%s] kind = %s" : "[%s]", op->section, op->kind);
    return title;
}

/* Orders ops by section, sections by their first op; a new op comes last in ops.def. */
static void ops_order(uint32_t order[OP_ID_COUNT])
{
    for (uint32_t first = 0, count = 0; first < OP_ID_COUNT; first++)
        for (uint32_t i = first; i < OP_ID_COUNT; i++)
            if (op_section_first(i) == first) order[count++] = i;
}

/* Prints every op in a line, then the keys: those of all ops, those of sections
 * with kinds, and each op's own. */
static void ops_print(FILE *out, bool as_markdown)
{
    struct cfg_key keys[OP_COMMON_KEYS_MAX];
    uint32_t order[OP_ID_COUNT];
    ops_order(order);
    fprintf(out, as_markdown ? "### Ops\n\n| section | takes | computes, or where it comes from |\n|---|---|---|\n"
                             : "\nOps: section; what it takes; what it computes, or where it comes from\n");
    for (uint32_t i = 0; i < OP_ID_COUNT; i++) {
        const struct op *op = &op_table[order[i]];
        char title[64];
        fprintf(out, as_markdown ? "| `%s` | %s | %s |\n" : "  %-32s %s; %s\n", op_title(title, op),
                inputs_names[op->inputs], op->source);
    }
    if (as_markdown) fputc('\n', out);
    keys_print(out, as_markdown, "any op", keys, op_common_keys(&op_table[0], keys));
    const char *section = "";
    for (uint32_t i = 0; i < OP_ID_COUNT; i++) {
        const struct op *op = &op_table[order[i]];
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

/* --- a word ----------------------------------------------------------------------------------- */

bool reference_word_is(struct reference_word *w, const char *name)
{
    const char *near = NULL;
    uint32_t distance;
    if (strcmp(w->word, name) == 0) return w->is_known = true;
    nearest_offer(&near, &distance, w->word, name);
    if (near == NULL && (strlen(w->word) < 3 || strstr(name, w->word) == NULL)) return false;
    for (uint32_t i = 0; i < w->near_count; i++)
        if (strcmp(w->near[i], name) == 0) return false;
    if (w->near_count < REFERENCE_NEAR_MAX) w->near[w->near_count++] = name;
    return false;
}

void reference_word_keys(struct reference_word *w, const char *title, const char *kind, const struct cfg_key *keys,
                         size_t count)
{
    size_t kind_bytes = strlen(kind);
    bool is_dotted = strncmp(w->word, kind, kind_bytes) == 0 && w->word[kind_bytes] == '.';
    if (reference_word_is(w, kind)) {
        keys_print(w->out, false, title, keys, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        bool is_key = reference_word_is(w, keys[i].name);
        if (is_dotted && strcmp(w->word + kind_bytes + 1, keys[i].name) == 0) is_key = w->is_known = true;
        if (is_key) keys_print(w->out, false, title, &keys[i], 1);
    }
}

/* Prints an op with all its keys if its section or kind is the word;
 * else prints its own keys that are the word. */
static void word_op(struct reference_word *w, const struct op *op)
{
    struct cfg_key keys[OP_COMMON_KEYS_MAX];
    char title[64];
    bool is_section = reference_word_is(w, op->section), is_kind = *op->kind && reference_word_is(w, op->kind);
    if (!is_section && !is_kind) {
        snprintf(title, sizeof title, *op->kind ? "%s NAME, kind %s" : "%s NAME", op->section, op->kind);
        reference_word_keys(w, title, op->section, op->keys->items, op->keys->count);
        return;
    }
    op_title(title, op);
    fprintf(w->out, "\n%s: takes %s; computes, or comes from: %s\n", title, inputs_names[op->inputs], op->source);
    cfg_print(w->out, keys, op_common_keys(op, keys));
    cfg_print(w->out, op->keys->items, op->keys->count);
}

/* Prints a format, and the keys of [data] whose meaning begins with the format's name. */
static void word_format(const struct reference_word *w, uint32_t format)
{
    const char *name = cfg_data_formats[format];
    size_t count, name_bytes = strlen(name);
    const struct cfg_key *keys = settings_keys("data", &count);
    fprintf(w->out, "\ndata.format = %s: a line; numeric columns; fields; labels\n", name);
    format_print(w->out, false, format);
    for (size_t i = 0; i < count; i++)
        if (strncmp(keys[i].meaning, name, name_bytes) == 0 && strchr(": ", keys[i].meaning[name_bytes]))
            cfg_print(w->out, &keys[i], 1);
}

void reference_word_print(struct reference_word *w)
{
    size_t count;
    for (const char *const *kind = settings_kinds; *kind; kind++) {
        const struct cfg_key *keys = settings_keys(*kind, &count);
        reference_word_keys(w, *kind, *kind, keys, count);
    }
    for (const char *const *kind = settings_named_kinds; *kind; kind++) {
        char title[64];
        const struct cfg_key *keys = settings_keys(*kind, &count);
        snprintf(title, sizeof title, "%s NAME", *kind);
        reference_word_keys(w, title, *kind, keys, count);
    }
    for (uint32_t i = 0; i < OP_ID_COUNT; i++) word_op(w, &op_table[i]);
    if (reference_word_is(w, "cell")) cell_reference_print(w->out, false);
    struct cfg_key common[OP_COMMON_KEYS_MAX];
    reference_word_keys(w, "any op", "op", common, op_common_keys(&op_table[0], common));
    for (uint32_t i = 0; i < DATA_FORMAT_COUNT; i++)
        if (reference_word_is(w, cfg_data_formats[i])) word_format(w, i);
    for (uint32_t i = 0; i < OPTIMIZER_ID_COUNT; i++) {
        const struct optimizer *o = &optimizer_table[i];
        if (o->is_internal || !reference_word_is(w, o->name)) continue;
        fprintf(w->out, "\noptimizer = %s RATE KEY=VALUE ..., of [train] and [table NAME]\n", o->name);
        named_print(w->out, false, o->name, o->params, o->source);
    }
    for (uint32_t i = 0; i < SCHEDULE_ID_COUNT; i++) {
        if (!reference_word_is(w, schedule_table[i].name)) continue;
        fprintf(w->out, "\ntrain.schedule = %s KEY=VALUE ...: what every learning rate is multiplied by\n",
                schedule_table[i].name);
        named_print(w->out, false, schedule_table[i].name, schedule_table[i].params, schedule_table[i].source);
    }
}

/* --- all -------------------------------------------------------------------------------------- */

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
    cell_reference_print(out, as_markdown);
    formats_print(out, as_markdown);
    fprintf(out, as_markdown ? "\n### Optimizers\n\n"
                               "A name, a learning rate, further keys, as in `adam 0.001 beta1=0.9`\n\n"
                               "| name | keys and defaults | source |\n"
                               "|---|---|---|\n"
                             : "\nOptimizers: a name, a learning rate, further keys, as in `adam 0.001 beta1=0.9`\n");
    for (uint32_t i = 0; i < OPTIMIZER_ID_COUNT; i++)
        if (!optimizer_table[i].is_internal)
            named_print(out, as_markdown, optimizer_table[i].name, optimizer_table[i].params,
                        optimizer_table[i].source);
    fprintf(out,
            as_markdown
                ? "\n### Schedules\n\n"
                  "A name, then keys, as in `cosine steps=100000 warmup=1000`. "
                  "At update t every learning rate is multiplied by a factor: up to `warmup` by t / warmup, "
                  "then by what the name says, n being the number of updates that came before this one since then, "
                  "and p the pass over this training's data, 1 at first\n\n"
                  "| name | keys and defaults | factor |\n"
                  "|---|---|---|\n"
                : "\nSchedules: a name, then keys, as in `cosine steps=100000 warmup=1000`; "
                  "at update t <= warmup the factor of every learning rate is t / warmup, then as here, "
                  "n counting the updates since, p the passes over this training's data\n");
    for (uint32_t i = 0; i < SCHEDULE_ID_COUNT; i++)
        named_print(out, as_markdown, schedule_table[i].name, schedule_table[i].params, schedule_table[i].source);
}

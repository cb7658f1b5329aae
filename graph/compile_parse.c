/* Reads model text into the compiler's records: columns, tables and optimizers first, then each op's
 * section, in order, into a forward node with its tensors. A name must be defined above the line that uses
 * it, so a graph cannot have a cycle. */
#include "engine/base/heap.h"
#include "engine/base/tree.h"
#include "graph/automaton.h"
#include "graph/compile_cell.h"
#include "graph/compiler.h"
#include "graph/graph_internal.h"
#include "graph/init.h"
#include "graph/schedule.h"

#include <stdlib.h>
#include <string.h>

/* The keys of every op's section, beside the op's own. */
struct common_keys {
    const char *input, *label, *layer, *kind;
};
static const struct cfg_key common_keys[] = {
    {.name = "input",
     .type = CFG_TEXT,
     .unit = "",
     .meaning = "what goes in: names of columns or of sections above, separated by commas",
     .offset = offsetof(struct common_keys, input)},
    {.name = "layer",
     .type = CFG_TEXT,
     .fallback = "",
     .unit = "",
     .meaning = "scheduling layer; neighbouring ops of one layer share its name; empty: a layer of its own",
     .offset = offsetof(struct common_keys, layer)},
};
static const struct cfg_key label_key = {.name = "label",
                                         .type = CFG_TEXT,
                                         .fallback = "",
                                         .unit = "",
                                         .meaning = "the label's name; empty: the only one of [data]",
                                         .offset = offsetof(struct common_keys, label)};

static const struct cfg_key scores_label_key = {.name = "label",
                                                .type = CFG_TEXT,
                                                .fallback = "",
                                                .unit = "",
                                                .meaning = "the label's name, a number of a class or 0 and 1; empty: "
                                                           "without one the first column of candidates is the target",
                                                .offset = offsetof(struct common_keys, label)};

static const struct cfg_key kind_key = {.name = "kind",
                                        .type = CFG_TEXT,
                                        .fallback = "",
                                        .unit = "",
                                        .meaning = "which op of this section",
                                        .offset = offsetof(struct common_keys, kind)};

/* The op of a section; kind: the section's key `kind`, or "" for the default. NULL: there is none. */
static const struct op *op_of_kind(const char *section, const char *kind)
{
    for (uint32_t i = 0; i < OP_ID_COUNT; i++)
        if (strcmp(op_table[i].section, section) == 0 && (!*kind || strcmp(op_table[i].kind, kind) == 0))
            return &op_table[i];
    return NULL;
}

uint32_t op_common_keys(const struct op *op, struct cfg_key keys[OP_COMMON_KEYS_MAX])
{
    uint32_t count = sizeof common_keys / sizeof *common_keys;
    memcpy(keys, common_keys, sizeof common_keys);
    if (op->inputs == OP_INPUTS_LOSS || op->inputs == OP_INPUTS_NODES) keys[count++] = label_key;
    if (op->inputs == OP_INPUTS_SCORES) keys[count++] = scores_label_key;
    if (*op->kind) {
        keys[count] = kind_key;
        keys[count++].fallback = op_of_kind(op->section, "")->kind;
    }
    return count;
}

/* --- what a name stands for ------------------------------------------------------------------- */

uint32_t compiler_tensor_find(struct compiler *c, const char *name) { return name_number(c, &c->tensor_names, name); }

status compiler_tensor_add(struct compiler *c, const char *name, enum tensor_kind kind, uint32_t cols, uint32_t *index)
{
    uint32_t name_offset;
    TRY(compiler_string_add(c, name, &name_offset));
    struct graph_tensor *t;
    TRY(list_add(&c->tensors, &t));
    t->name = name_offset;
    t->kind = (uint8_t)kind;
    t->cols = cols;
    t->stride = cols;
    t->grad = GRAPH_NONE;
    *index = c->tensors.count - 1;
    if (kind == TENSOR_LABEL) return ST_OK;
    return name_number_add(c, &c->tensor_names, name_offset, *index);
}

static status arg_add(struct compiler *c, uint32_t value)
{
    uint32_t *arg;
    TRY(list_add(&c->args, &arg));
    *arg = value;
    return ST_OK;
}

/* Fails with the names that are possible. */
static status unknown_name(struct compiler *c, const struct ini_section *section, const struct ini_entry *entry,
                           const char *name)
{
    const char **names = malloc((c->tensors.count + 3) * sizeof *names);
    uint32_t count = 0;
    if (names != NULL) {
        for (uint32_t i = 0; i < c->tensors.count; i++)
            if (compiler_tensor(c, i)->kind != TENSOR_PARAM)
                names[count++] = compiler_string(c, compiler_tensor(c, i)->name);
        names[count++] = "sparse";
        names[count] = NULL;
    }
    const char *near = names ? ini_nearest(name, names) : NULL;
    status st =
        near ? ini_fail(&c->ini, section, entry, "nothing above is called \"%s\"; did you mean \"%s\"?", name, near)
             : ini_fail(&c->ini, section, entry,
                        "nothing above is called \"%s\" (a name must be defined before it is used)", name);
    free(names);
    return st;
}

/* --- tables and optimizers -------------------------------------------------------------------- */

/* Adds the optimizer of rows of row_dim numbers, or, if row_dim is 0, of the parameters. `values`: l1, l2,
 * clip_value and clip_norm of its section. */
static status optimizer_add(struct compiler *c, const struct ini_section *section, const char *text, uint32_t row_dim,
                            struct graph_optimizer values, uint32_t *index)
{
    struct graph_optimizer *o;
    char chosen[OPTIMIZER_AUTO_BYTES];
    TRY(list_add(&c->optimizers, &o));
    if (strcmp(text, OPTIMIZER_AUTO) == 0) {
        optimizer_auto(&c->ini, c->settings.model_rules, c->settings.train_batch, row_dim, chosen, sizeof chosen);
        text = chosen;
    }
    if (optimizer_parse(text, c->settings.model_rules, o) != ST_OK)
        return ini_fail(&c->ini, section, section ? ini_entry_find(section, "optimizer") : NULL, "%s",
                        status_message());
    o->l1 = values.l1;
    o->l2 = values.l2;
    o->clip_value = values.clip_value;
    o->clip_norm = values.clip_norm;
    *index = c->optimizers.count - 1;
    return ST_OK;
}

/* Reads a [table]'s rules of its rows' life. life_labels_find finds click_label, when losses are known. */
static status life_read(struct compiler *c, const struct ini_section *section, const struct table_settings *table,
                        struct row_life *life)
{
    *life = (struct row_life){.row_max = table->rows,
                              .admit_keys = table->admit_keys,
                              .admit = table->admit,
                              .admit_by = table->admit_by == ADMIT_BLOOM && c->settings.model_rules >= 10
                                              ? ADMIT_BLOOM_SHARDS
                                              : table->admit_by,
                              .counts = table->ttl || table->delete_score > 0 || table->rows || table->vector_score > 0,
                              .ttl = table->ttl,
                              .click_label = GRAPH_NONE,
                              .decay = table->decay,
                              .score_show = table->score_show,
                              .score_click = table->score_click,
                              .delete_score = table->delete_score,
                              .vector_score = table->vector_score};
    const char *key = table->ttl ? "ttl" : "delete_score";
    if ((table->ttl || table->delete_score > 0) && c->settings.store_period == 0)
        return ini_fail(&c->ini, section, ini_entry_find(section, key),
                        "%s needs an end of periods, and store.period is 0; set it to a number of steps", key);
    if (*table->click_label == 0) return ST_OK;
    for (uint32_t l = 0; l < c->labels.count; l++)
        if (strcmp(compiler_string(c, LIST_AT(c->labels, struct graph_field, l)->name), table->click_label) == 0)
            life->click_label = l;
    if (life->click_label == GRAPH_NONE)
        return ini_fail(&c->ini, section, ini_entry_find(section, "click_label"),
                        "expected a label of [data], found \"%s\"", table->click_label);
    return ST_OK;
}

/* Finds the click of tables that name none: the label of the first bce,
 * which predicts the label's probability. */
static void life_labels_find(struct compiler *c)
{
    uint32_t label = GRAPH_NONE;
    for (uint32_t n = 0; n < c->nodes.count && label == GRAPH_NONE; n++) {
        const struct graph_node *node = compiler_node(c, n);
        if (op_table[node->op].predicts != OP_PREDICTS_PROBABILITY) continue;
        const struct graph_tensor *tensor = compiler_tensor(c, compiler_args(c, node)[node->input_count - 1]);
        if (tensor->kind == TENSOR_LABEL) label = (uint32_t)tensor->offset;
    }
    for (uint32_t i = 0; i < c->tables.count; i++) {
        struct row_life *life = &LIST_AT(c->tables, struct graph_table, i)->life;
        if (life->counts && life->click_label == GRAPH_NONE) life->click_label = label;
    }
}

static status tables_parse(struct compiler *c)
{
    const struct ini_section *train = ini_find(&c->ini, "train", "");
    const struct settings *s = &c->settings;
    uint32_t index = 0;
    struct graph_optimizer dense = {
        .l1 = s->train_l1, .l2 = s->train_l2, .clip_value = s->train_clip_value, .clip_norm = s->train_clip_norm};
    TRY(optimizer_add(c, train, s->train_optimizer, 0, dense, &index));
    if (optimizer_is_for_rows(LIST_AT(c->optimizers, struct graph_optimizer, index)))
        return ini_fail(&c->ini, train, train ? ini_entry_find(train, "optimizer") : NULL,
                        "expected a rule for parameters, found \"%s\", which works on rows of tables only; "
                        "write it into [table NAME], and another here",
                        s->train_optimizer);
    if (schedule_choose(&c->ini, s->train_schedule, s->model_rules, &c->header.schedule) != ST_OK)
        return ini_fail(&c->ini, train, train ? ini_entry_find(train, "schedule") : NULL, "%s", status_message());
    for (uint32_t i = 0; i < c->ini.section_count; i++) {
        const struct ini_section *section = &c->ini.sections[i];
        if (strcmp(section->kind, "table") != 0) continue;
        if (!is_name(section->name))
            return ini_fail(&c->ini, section, NULL, "expected [table NAME] with a name of letters, digits, _ - .");
        if (c->tables.count == GRAPH_TABLES_MAX)
            return ini_fail(&c->ini, section, NULL, "more than %u tables", GRAPH_TABLES_MAX);
        struct table_settings settings;
        TRY(settings_read_named(&c->ini, section, "table", &settings));
        enum random_init init;
        float init_scale;
        if (init_parse(settings.init, &init, &init_scale) != ST_OK)
            return ini_fail(&c->ini, section, ini_entry_find(section, "init"), "%s", status_message());
        uint32_t optimizer = 0;
        struct graph_optimizer rows = {
            .l1 = settings.l1, .l2 = settings.l2, .clip_value = settings.clip_value, .clip_norm = settings.clip_norm};
        TRY(optimizer_add(c, *settings.optimizer ? section : train,
                          *settings.optimizer ? settings.optimizer : s->train_optimizer, settings.dim, rows,
                          &optimizer));
        if (settings.store == ROW_STORE_BF16 && s->model_rules < ROW_STORE_RULES)
            return ini_fail(&c->ini, section, ini_entry_find(section, "store"),
                            "store = bf16 needs [model] rules of %d or more, and the text says %u; leave rules out",
                            ROW_STORE_RULES, s->model_rules);
        if (settings.store == ROW_STORE_BF16 && settings.dim > ROW_BF16_DIM_MAX)
            return ini_fail(&c->ini, section, ini_entry_find(section, "dim"),
                            "expected a dim of 1 to %u with store = bf16, found %u", ROW_BF16_DIM_MAX, settings.dim);
        uint32_t name;
        struct row_life life;
        TRY(life_read(c, section, &settings, &life));
        TRY(compiler_string_add(c, section->name, &name));
        struct graph_table *table;
        TRY(list_add(&c->tables, &table));
        *table = (struct graph_table){.name = name,
                                      .dim = settings.dim,
                                      .init = (uint16_t)init,
                                      .store = (uint16_t)settings.store,
                                      .init_scale = init_scale,
                                      .optimizer = optimizer,
                                      .life = life};
        table->span_floats = optimizer_table_floats(LIST_AT(c->optimizers, struct graph_optimizer, optimizer), table);
    }
    return ST_OK;
}

static uint32_t table_find(const struct op_parse *p, const char *name)
{
    struct compiler *c = p->compiler;
    for (uint32_t i = 0; i < c->tables.count; i++)
        if (strcmp(compiler_string(c, LIST_AT(c->tables, struct graph_table, i)->name), name) == 0) return i;
    return GRAPH_NONE;
}

static uint32_t table_dim(const struct op_parse *p, uint32_t table)
{
    struct compiler *c = p->compiler;
    return LIST_AT(c->tables, struct graph_table, table)->dim;
}

/* --- cells ------------------------------------------------------------------------------------ */

#define NAMES_BYTES_MAX 4096u

/* Cuts "a, b" into names: fills names with at most `max`, which point into copy [NAMES_BYTES_MAX];
 * returns how many the text has. */
static uint32_t names_cut(const char *text, char copy[NAMES_BYTES_MAX], const char **names, uint32_t max)
{
    uint32_t count = 0;
    snprintf(copy, NAMES_BYTES_MAX, "%s", text);
    for (char *rest = copy, *name; (name = strtok_r(rest, ", \t", &rest)) != NULL; count++)
        if (count < max) names[count] = name;
    return count;
}

/* Checks that each [cell NAME] is one of data.kinds. */
static status cells_are_kinds(struct compiler *c, const char *const *kinds, uint32_t kind_count)
{
    for (uint32_t i = 0; i < c->ini.section_count; i++) {
        const struct ini_section *section = &c->ini.sections[i];
        uint32_t k = 0;
        if (strcmp(section->kind, "cell") != 0) continue;
        while (k < kind_count && strcmp(kinds[k], section->name) != 0) k++;
        if (k == kind_count)
            return ini_fail(&c->ini, section, NULL, "expected the name of a kind of nodes, data.kinds = %s",
                            c->settings.data_kinds);
    }
    return ST_OK;
}

static status cells_add(const struct op_parse *p, const char *states, uint32_t *state_count)
{
    struct compiler *c = p->compiler;
    const uint32_t node = c->nodes.count - 1;
    char kinds_copy[NAMES_BYTES_MAX], states_copy[NAMES_BYTES_MAX];
    const char *kinds[TREE_KINDS_MAX], *names[CELL_STATES_MAX];
    uint32_t kind_count = names_cut(c->settings.data_kinds, kinds_copy, kinds, TREE_KINDS_MAX);
    *state_count = names_cut(states, states_copy, names, CELL_STATES_MAX);
    if (*state_count == 0 || *state_count > CELL_STATES_MAX)
        return ini_fail(&c->ini, p->section, ini_entry_find(p->section, "state"),
                        "expected 1 to %u names, separated by commas, found %u", CELL_STATES_MAX, *state_count);
    TRY(cells_are_kinds(c, kinds, kind_count));
    compiler_node(c, node)->program_begin = c->args.count;
    for (uint32_t k = 0; k < kind_count; k++) {
        const struct ini_section *cell = ini_find(&c->ini, "cell", kinds[k]);
        uint32_t *words, word_count;
        if (cell == NULL)
            return ini_fail(&c->ini, p->section, NULL, "expected a [cell %s], for data.kinds has this kind of nodes",
                            kinds[k]);
        TRY(cell_compile(&c->ini, cell, names, *state_count, &words, &word_count));
        status st = ST_OK;
        for (uint32_t i = 0; i < word_count && st == ST_OK; i++) st = arg_add(c, words[i]);
        free(words);
        TRY(st);
    }
    compiler_node(c, node)->program_count = c->args.count - compiler_node(c, node)->program_begin;
    return ST_OK;
}

static status automaton_add(const struct op_parse *p, uint32_t *word_count)
{
    struct compiler *c = p->compiler;
    const uint32_t node = c->nodes.count - 1;
    uint32_t *words = NULL;
    size_t count = 0;
    char kinds_copy[NAMES_BYTES_MAX];
    const char *kinds[TREE_KINDS_MAX];
    const uint32_t kind_count = names_cut(c->settings.data_kinds, kinds_copy, kinds, TREE_KINDS_MAX);
    const struct ini_entry *entry = ini_entry_find(p->section, "batching");
    if (c->source == NULL || c->source->automaton == NULL)
        return ini_fail(&c->ini, p->section, entry, "learned batching needs the data when the model is compiled");
    TRY(heap_room(&words, AUTOMATON_WORDS_MAX, sizeof *words, "words of an automaton"));
    status st = c->source->automaton(c->source->context, p->section->name, kind_count, words, &count);
    if (st == ST_INVALID) st = ini_fail(&c->ini, p->section, entry, "%s", status_message());
    for (size_t i = 0; i < count && st == ST_OK; i++) st = arg_add(c, words[i]);
    free(words);
    *word_count = (uint32_t)count;
    compiler_node(c, node)->program_count = c->args.count - compiler_node(c, node)->program_begin;
    return st;
}

/* --- ops -------------------------------------------------------------------------------------- */

/* Checks that the column `tree` of data.format = trees, which holds nodes, goes into
 * ops on nodes, and no other does. */
static status field_suits(struct compiler *c, const struct ini_section *section, const struct ini_entry *entry,
                          const struct op *op, uint32_t field)
{
    const char *name = compiler_string(c, LIST_AT(c->fields, struct graph_field, field)->column);
    bool holds_nodes = c->settings.data_format == DATA_TREES && strcmp(name, "tree") == 0;
    if (holds_nodes == (op->inputs == OP_INPUTS_TREE || op->inputs == OP_INPUTS_NODES)) return ST_OK;
    if (holds_nodes)
        return ini_fail(&c->ini, section, entry, "the column tree holds nodes, which go into a [tree]; expected word");
    return ini_fail(&c->ini, section, entry, "expected the column tree of data.format = trees, found %s of %s", name,
                    cfg_data_formats[c->settings.data_format]);
}

static status input_add(struct compiler *c, const struct ini_section *section, const struct ini_entry *entry,
                        const char *name, void *context)
{
    const struct op *op = context;
    if (strcmp(name, "sparse") == 0) {
        if (op->inputs != OP_INPUTS_FIELDS)
            return ini_fail(&c->ini, section, entry,
                            "a sparse field goes through an [embedding] first; \"sparse\" cannot go into [%s]",
                            op->section);
        if (c->fields.count == 0) return ini_fail(&c->ini, section, entry, "[data] names no sparse fields");
        /* Fields are the first tensors; candidates must be named. */
        for (uint32_t i = 0; i < c->fields.count; i++)
            if (LIST_AT(c->fields, struct graph_field, i)->negative_count == 0) {
                TRY(field_suits(c, section, entry, op, i));
                TRY(arg_add(c, i));
            }
        return ST_OK;
    }
    uint32_t tensor = compiler_tensor_find(c, name);
    if (tensor == GRAPH_NONE) TRY(compiler_dense_column(c, name, &tensor));
    if (tensor == GRAPH_NONE && name_number(c, &c->label_names, name) != GRAPH_NONE)
        return ini_fail(&c->ini, section, entry, "the label \"%s\" cannot be an input", name);
    if (tensor == GRAPH_NONE || compiler_tensor(c, tensor)->kind == TENSOR_PARAM)
        return unknown_name(c, section, entry, name);
    bool is_field = compiler_tensor(c, tensor)->kind == TENSOR_FIELD;
    uint32_t k = c->args.count - compiler_node(c, c->nodes.count - 1)->arg_begin;
    if (is_field != op_input_is_field(op->inputs, k))
        return ini_fail(&c->ini, section, entry,
                        is_field ? "\"%s\" is a sparse field: it goes through an [embedding] first"
                                 : "expected sparse fields, but \"%s\" is not one",
                        name);
    if (is_field) TRY(field_suits(c, section, entry, op, compiler_tensor(c, tensor)->cols));
    return arg_add(c, tensor);
}

static status layer_add(struct compiler *c, const struct ini_section *section, const char *name, uint32_t *index)
{
    const char *wanted = *name ? name : section->name;
    const struct ini_entry *entry = ini_entry_find(section, "layer");
    if (!is_name(wanted)) return ini_fail(&c->ini, section, entry, "expected a name, found \"%s\"", wanted);
    for (uint32_t i = 0; i < c->layers.count; i++) {
        if (strcmp(compiler_string(c, LIST_AT(c->layers, struct graph_layer, i)->name), wanted) != 0) continue;
        if (i + 1 != c->layers.count)
            return ini_fail(&c->ini, section, entry, "the ops of layer \"%s\" do not follow one another", wanted);
        *index = i;
        return ST_OK;
    }
    uint32_t name_offset;
    TRY(compiler_string_add(c, wanted, &name_offset));
    struct graph_layer *layer;
    TRY(list_add(&c->layers, &layer));
    layer->name = name_offset;
    *index = c->layers.count - 1;
    return ST_OK;
}

/* Reads the section's keys: the common ones, and behind them the op's own. */
static status op_keys_read(struct compiler *c, const struct op *op, const struct ini_section *section,
                           struct common_keys *common, void **own)
{
    struct cfg_key keys[OP_COMMON_KEYS_MAX + OP_KEYS_MAX];
    CHECK(op->keys->count <= OP_KEYS_MAX);
    uint32_t count = op_common_keys(op, keys);
    size_t own_offset = (sizeof *common + 15) & ~(size_t)15;
    for (uint32_t i = 0; i < op->keys->count; i++) {
        keys[count] = op->keys->items[i];
        keys[count++].offset += own_offset;
    }
    uint8_t *values = calloc(1, own_offset + op->keys->bytes);
    if (values == NULL) FAIL(MEMORY, "no memory to compile the model");
    status st = cfg_read(&c->ini, section, keys, count, values);
    memcpy(common, values, sizeof *common);
    if (st == ST_OK && op->keys->bytes) {
        *own = malloc(op->keys->bytes);
        if (*own != NULL)
            memcpy(*own, values + own_offset, op->keys->bytes);
        else
            st = status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory to compile the model");
    }
    free(values);
    return st;
}

/* Marks a statistic as a part of the last run, or of a new run if its rule differs. */
static status statistic_add(struct compiler *c, const struct ini_section *section, struct graph_tensor *t,
                            const struct graph_optimizer *rule)
{
    struct list *runs = &c->statistics;
    if (runs->count == 0 || memcmp(LIST_AT(*runs, struct graph_optimizer, runs->count - 1), rule, sizeof *rule) != 0) {
        if (runs->count + 1 == PARAM_UPDATES_MAX)
            return ini_fail(&c->ini, section, ini_entry_find(section, optimizer_table[rule->kind].params[0].name),
                            "expected the rule of statistics (a momentum, a decay) to change at most %u times from one "
                            "section to the next, found one change more; give neighbouring ones the same",
                            PARAM_UPDATES_MAX - 2);
        struct graph_optimizer *run;
        TRY(list_add(runs, &run));
        *run = *rule;
    }
    t->update = runs->count;
    return ST_OK;
}

/* Finds the node whose parameters this node uses by its key `share`; NONE: it has its own. */
static status owner_find(struct compiler *c, const struct op *op, const struct ini_section *section,
                         uint32_t node_index, const struct op_shape *shape, uint32_t *owner)
{
    const struct ini_entry *entry = ini_entry_find(section, "share");
    *owner = GRAPH_NONE;
    if (entry == NULL || !*entry->value) return ST_OK;
    for (uint32_t i = 0; i < node_index; i++)
        if (strcmp(compiler_string(c, compiler_node(c, i)->name), entry->value) == 0) *owner = i;
    if (*owner == GRAPH_NONE || &op_table[compiler_node(c, *owner)->op] != op)
        return ini_fail(&c->ini, section, entry, "expected the name of an [%s] above, found \"%s\"", op->section,
                        entry->value);
    const struct graph_node *node = compiler_node(c, *owner);
    if (node->param_count != shape->param_count)
        return ini_fail(&c->ini, section, entry, "expected %u parameters as [%s %s] has, found %u", node->param_count,
                        op->section, entry->value, shape->param_count);
    for (uint32_t i = 0; i < shape->param_count; i++) {
        const struct graph_tensor *t = compiler_tensor(c, compiler_args(c, node)[node->input_count + i]);
        if (t->rows != shape->param[i].rows || t->cols != shape->param[i].cols)
            return ini_fail(&c->ini, section, entry, "expected a %s of %u by %u as [%s %s] has, found %u by %u",
                            shape->param[i].name, t->rows, t->cols, op->section, entry->value, shape->param[i].rows,
                            shape->param[i].cols);
    }
    return ST_OK;
}

/* Runs the op's shape rule, then adds its parameters, output and saved tensors. */
static status op_shape_add(struct compiler *c, const struct op *op, const struct ini_section *section,
                           uint32_t node_index)
{
    struct graph_node *node = compiler_node(c, node_index);
    uint32_t *cols = malloc((2 * (size_t)node->input_count + 1) * sizeof *cols), *keys = cols + node->input_count;
    if (cols == NULL) FAIL(MEMORY, "no memory to compile the model");
    for (uint32_t i = 0; i < node->input_count; i++)
        op_input_measure(compiler_tensor(c, compiler_args(c, node)[i]), c->fields.items, &cols[i], &keys[i]);
    struct op_shape shape = {.attr = node->attr,
                             .input_count = node->input_count,
                             .input_cols = cols,
                             .input_keys = keys,
                             .program = LIST_AT(c->args, uint32_t, node->program_begin),
                             .program_count = node->program_count,
                             .rules = c->settings.model_rules};
    status st = op->shape(&shape, c->tables.items, c->tables.count);
    free(cols);
    if (st != ST_OK) return ini_fail(&c->ini, section, NULL, "%s", status_message());

    uint32_t index, owner;
    TRY(owner_find(c, op, section, node_index, &shape, &owner));
    for (uint32_t i = 0; i < shape.param_count; i++) {
        char name[2 * INI_NAME_BYTES_MAX + 2];
        snprintf(name, sizeof name, "%s.%s", section->name, shape.param[i].name);
        if (compiler_tensor_find(c, name) != GRAPH_NONE)
            return ini_fail(&c->ini, section, NULL, "the name \"%s\" is taken", name);
        TRY(compiler_tensor_add(c, name, TENSOR_PARAM, shape.param[i].cols, &index));
        struct graph_tensor *t = compiler_tensor(c, index);
        t->rows = shape.param[i].rows;
        t->init = shape.param[i].init;
        t->init_scale = shape.param[i].init_scale;
        if (shape.param[i].is_statistic) TRY(statistic_add(c, section, t, &shape.param[i].rule));
        if (owner != GRAPH_NONE) {
            CHECK(!shape.param[i].is_statistic);
            uint32_t of = compiler_args(c, compiler_node(c, owner))[compiler_node(c, owner)->input_count + i];
            t->is_alias = 1;
            t->offset = compiler_tensor(c, of)->is_alias ? compiler_tensor(c, of)->offset : of;
        }
        TRY(arg_add(c, index));
    }
    TRY(compiler_tensor_add(c, section->name, TENSOR_ACTIVATION, shape.output_cols, &index));
    TRY(arg_add(c, index));
    for (uint32_t i = 0; i < shape.saved_count; i++) {
        char name[2 * INI_NAME_BYTES_MAX + 2];
        snprintf(name, sizeof name, "%s.%s", section->name, shape.saved[i].name);
        TRY(compiler_tensor_add(c, name, TENSOR_ACTIVATION, shape.saved[i].cols, &index));
        compiler_tensor(c, index)->type = (uint8_t)shape.saved[i].type;
        compiler_tensor(c, index)->rows = shape.saved[i].is_single;
        TRY(arg_add(c, index));
    }
    node = compiler_node(c, node_index);
    node->param_count = shape.param_count;
    node->output_count = 1;
    node->saved_count = shape.saved_count;
    struct graph_layer *layer = LIST_AT(c->layers, struct graph_layer, node->layer);
    layer->flops_forward += shape.flops_forward;
    layer->flops_backward += shape.flops_backward;
    for (uint32_t i = 0; i < shape.param_count && owner == GRAPH_NONE; i++)
        layer->param_count += (uint64_t)shape.param[i].rows * shape.param[i].cols;
    return ST_OK;
}

/* Adds the label that an op names; without a name, the only label. */
static status label_add(struct compiler *c, const struct ini_section *section, const char *name)
{
    const struct ini_entry *entry = ini_entry_find(section, "label");
    if (!*name && c->labels.count == 1) name = compiler_string(c, LIST_AT(c->labels, struct graph_field, 0)->name);
    if (!*name)
        return ini_fail(&c->ini, section, entry, "expected label = NAME, one of the %u labels of [data]",
                        c->labels.count);
    uint32_t label = name_number(c, &c->label_names, name);
    if (label == GRAPH_NONE) return ini_fail(&c->ini, section, entry, "expected a label of [data], found \"%s\"", name);
    return arg_add(c, c->label_tensor + label);
}

static status input_count_check(struct compiler *c, const struct op *op, const struct ini_section *section,
                                uint32_t count, bool has_label)
{
    static const struct {
        uint32_t least, most;
        const char *text;
    } expected[] = {
        [OP_INPUTS_ONE] = {1, 1, "one input"},
        [OP_INPUTS_MANY] = {1, UINT32_MAX, "one or more inputs"},
        [OP_INPUTS_FIELDS] = {1, UINT32_MAX, "one or more inputs"},
        [OP_INPUTS_PAIR] = {2, 2, "two inputs"},
        [OP_INPUTS_PAIR_FIELD] = {3, 3, "three inputs, the last a sparse field"},
        [OP_INPUTS_TREE] = {1, 2, "the field of trees, and perhaps the vectors of their words"},
        [OP_INPUTS_CANDIDATES] = {2, 2, "two inputs, logits and the log_q of [candidates]"},
        [OP_INPUTS_LOSS] = {1, 1, "one input"},
        [OP_INPUTS_SCORES] = {1, 2, "one or two inputs"},
        [OP_INPUTS_NODES] = {2, 2, "two inputs, scores of all nodes and the field of trees"},
    };
    enum op_inputs kind = op->inputs == OP_INPUTS_SCORES && has_label ? OP_INPUTS_LOSS : op->inputs;
    if (count >= expected[kind].least && count <= expected[kind].most) return ST_OK;
    return ini_fail(&c->ini, section, ini_entry_find(section, "input"), "expected %s, found %u", expected[kind].text,
                    count);
}

static status op_parse_section(struct compiler *c, const struct op *op, const struct ini_section *section)
{
    if (!is_name(section->name))
        return ini_fail(&c->ini, section, NULL, "expected [%s NAME] with a name of letters, digits, _ - .",
                        op->section);
    if (compiler_tensor_find(c, section->name) != GRAPH_NONE ||
        name_number(c, &c->label_names, section->name) != GRAPH_NONE || strcmp(section->name, "sparse") == 0)
        return ini_fail(&c->ini, section, NULL, "the name \"%s\" is taken by a column or a section above",
                        section->name);
    struct common_keys common;
    void *own = NULL;
    TRY(op_keys_read(c, op, section, &common, &own));
    if (common.label == NULL) common.label = ""; /* the op has no such key */
    status st = ST_OK;
    uint32_t layer = 0, name;
    TRY_GOTO(layer_add(c, section, common.layer, &layer), done);
    TRY_GOTO(compiler_string_add(c, section->name, &name), done);
    struct graph_node *node;
    TRY_GOTO(list_add(&c->nodes, &node), done);
    const uint32_t node_index = c->nodes.count - 1;
    *node = (struct graph_node){.op = (uint32_t)(op - op_table),
                                .pass = PASS_FORWARD,
                                .layer = layer,
                                .name = name,
                                .other = GRAPH_NONE,
                                .arg_begin = c->args.count};
    struct op_parse parse = {&c->ini,    section,   own,       node->attr,    common.label,
                             table_find, table_dim, cells_add, automaton_add, c};
    TRY_GOTO(op->parse(&parse), done);
    compiler_node(c, node_index)->arg_begin = c->args.count; /* after its program */
    const struct ini_entry *input = ini_entry_find(section, "input");
    TRY_GOTO(names_each(c, section, input, common.input, input_add, (void *)op), done);
    TRY_GOTO(input_count_check(c, op, section, c->args.count - compiler_node(c, node_index)->arg_begin, *common.label),
             done);
    const uint32_t *inputs = compiler_args(c, compiler_node(c, node_index));
    if (op->inputs == OP_INPUTS_CANDIDATES && compiler_tensor(c, inputs[1])->kind != TENSOR_DENSE)
        TRY_GOTO(ini_fail(&c->ini, section, input,
                          "expected the log_q of [candidates] as the second input, found \"%s\"",
                          compiler_string(c, compiler_tensor(c, inputs[1])->name)),
                 done);
    if (op->inputs == OP_INPUTS_LOSS || op->inputs == OP_INPUTS_NODES ||
        (op->inputs == OP_INPUTS_SCORES && *common.label))
        TRY_GOTO(label_add(c, section, common.label), done);
    node = compiler_node(c, node_index);
    node->input_count = c->args.count - node->arg_begin;
    st = op_shape_add(c, op, section, node_index);
done:
    free(own);
    return st;
}

static status unknown_section(struct compiler *c, const struct ini_section *section)
{
    const char *kinds[OP_ID_COUNT + 32];
    uint32_t count = 0;
    for (const char *const *kind = settings_kinds; *kind; kind++) kinds[count++] = *kind;
    for (const char *const *kind = settings_named_kinds; *kind; kind++) kinds[count++] = *kind;
    for (uint32_t i = 0; i < OP_ID_COUNT; i++) kinds[count++] = op_table[i].section;
    kinds[count++] = "cell";
    kinds[count] = NULL;
    const char *near = ini_nearest(section->kind, kinds);
    if (near) return ini_fail(&c->ini, section, NULL, "unknown section; did you mean [%s]?", near);
    return ini_fail(&c->ini, section, NULL, "unknown section; `heterps-run help settings` lists them");
}

static status op_find(struct compiler *c, const struct ini_section *section, const struct op **op)
{
    *op = op_of_kind(section->kind, "");
    if (*op == NULL) return unknown_section(c, section);
    const struct ini_entry *entry = *(*op)->kind ? ini_entry_find(section, "kind") : NULL;
    if (entry == NULL) return ST_OK;
    *op = op_of_kind(section->kind, entry->value);
    if (*op != NULL && *entry->value) return ST_OK;
    char kinds[256] = "";
    for (uint32_t i = 0, end = 0; i < OP_ID_COUNT && end < sizeof kinds; i++)
        if (strcmp(op_table[i].section, section->kind) == 0)
            end += (uint32_t)snprintf(kinds + end, sizeof kinds - end, "%s%s", end ? ", " : "", op_table[i].kind);
    return ini_fail(&c->ini, section, entry, "expected a kind of [%s], %s, found \"%s\"", section->kind, kinds,
                    entry->value);
}

status compile_parse(struct compiler *c, const struct graph_source *source)
{
    c->source = source;
    TRY(settings_read(&c->ini, &c->settings));
    uint32_t empty;
    TRY(compiler_string_add(c, "", &empty));
    TRY(compile_columns(c, source));
    TRY(tables_parse(c));
    for (uint32_t i = 0; i < c->ini.section_count; i++) {
        const struct ini_section *section = &c->ini.sections[i];
        size_t key_count;
        if (settings_keys(section->kind, &key_count) != NULL || strcmp(section->kind, "cell") == 0) continue;
        const struct op *op;
        TRY(op_find(c, section, &op));
        TRY(op_parse_section(c, op, section));
    }
    c->forward_count = c->nodes.count;
    life_labels_find(c);
    return compiler_string_add(c, c->settings.model_name, &c->header.name);
}

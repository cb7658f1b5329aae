/* Compiles model text into a graph: runs the passes of compiler.h in order and lays the records out as
 * an image (graph.h), which is then bound and validated exactly like an image read from a file. The
 * same text gives the same bytes. */
#include "graph/compiler.h"
#include "graph/graph_internal.h"

#include <stdlib.h>
#include <string.h>
#define XXH_STATIC_LINKING_ONLY /* a state that is ours */
#include <xxhash.h>

/* --- what a trained model depends on ---------------------------------------------------------- */

/* The part of a forward node that belongs to the model: fills its attributes, and returns the
 * number of words of its program. Learned batching does not belong to it, nor does its
 * automaton; other batchings always did. */
static uint32_t model_attr(const struct graph_node *n, uint8_t to[NODE_ATTR_BYTES])
{
    struct tree_attr tree;
    memcpy(to, n->attr, NODE_ATTR_BYTES);
    memcpy(&tree, n->attr, sizeof tree);
    if (n->op != OP_ID_tree || tree.batching != TREE_LEARNED) return n->program_count;
    tree.batching = tree.automaton_words = 0;
    memcpy(to, &tree, sizeof tree);
    return tree_cell_words(n);
}

/* Hashes parameters, tables, columns and forward ops, but nothing of the recipe (batch, learning rates,
 * paths) and no memory offset, so that a model trained under one recipe is served under another. */
static uint64_t model_hash(struct compiler *c)
{
    XXH3_state_t own, *state = &own;
    XXH3_64bits_reset(state);
#define HASH(value)       XXH3_64bits_update(state, &(value), sizeof(value))
#define HASH_TEXT(offset) XXH3_64bits_update(state, compiler_string(c, offset), strlen(compiler_string(c, offset)) + 1)
    for (uint32_t i = 0; i < c->fields.count; i++) {
        const struct graph_field *f = LIST_AT(c->fields, struct graph_field, i);
        HASH_TEXT(f->name);
        HASH(f->ids_max);
        HASH(f->seed);
        HASH(f->negative_count);
    }
    for (uint32_t i = 0; i < c->denses.count; i++) {
        const struct graph_field *f = LIST_AT(c->denses, struct graph_field, i);
        HASH_TEXT(f->name);
        HASH(f->mean);
        HASH(f->scale);
    }
    for (uint32_t i = 0; i < c->words.count; i++) HASH_TEXT(LIST_AT(c->words, struct graph_word, i)->text);
    for (uint32_t i = 0; i < c->vocabularies.count; i++) {
        HASH(LIST_AT(c->vocabularies, struct graph_vocabulary, i)->word_count);
        HASH(LIST_AT(c->vocabularies, struct graph_vocabulary, i)->unknown);
    }
    /* The columns that use the words; models without vocabularies keep their hash
     * from before there were any. */
    for (uint32_t i = 0; i < c->fields.count && c->vocabularies.count; i++)
        HASH(LIST_AT(c->fields, struct graph_field, i)->vocabulary);
    for (uint32_t i = 0; i < c->labels.count && c->vocabularies.count; i++)
        HASH(LIST_AT(c->labels, struct graph_field, i)->vocabulary);
    uint32_t rules[3] = {c->settings.data_format, c->settings.data_transform, c->settings.data_missing};
    HASH(rules);
    HASH(c->settings.data_missing_value);
    for (uint32_t i = 0; i < c->tables.count; i++) {
        const struct graph_table *table = LIST_AT(c->tables, struct graph_table, i);
        HASH_TEXT(table->name);
        HASH(table->dim);
        const uint32_t init = table->init;
        HASH(init);
        if (table->store != TABLE_F32) HASH(table->store); /* others keep their hash from before `store` */
        HASH(table->init_scale);
        HASH(LIST_AT(c->optimizers, struct graph_optimizer, table->optimizer)->kind);
        /* Counters of rows are dated by the period. */
        if (table->life.counts) HASH(c->settings.store_period);
    }
    HASH(LIST_AT(c->optimizers, struct graph_optimizer, 0)->kind);
    for (uint32_t i = 0; i < c->tensors.count; i++) {
        const struct graph_tensor *t = compiler_tensor(c, i);
        if (t->kind != TENSOR_PARAM) continue;
        HASH_TEXT(t->name);
        HASH(t->rows);
        HASH(t->cols);
        if (t->is_alias) HASH_TEXT(compiler_tensor(c, (uint32_t)t->offset)->name); /* its owner: compiler.h */
    }
    for (uint32_t i = 0; i < c->forward_count; i++) {
        const struct graph_node *n = compiler_node(c, i);
        const char *name = op_table[n->op].name;
        if (op_table[n->op].traits & OP_IS_METRIC) continue; /* it measures the model, and is no part of it */
        XXH3_64bits_update(state, name, strlen(name) + 1);
        uint8_t attr[NODE_ATTR_BYTES];
        const uint32_t program_words = model_attr(n, attr);
        HASH(attr);
        if (program_words)
            XXH3_64bits_update(state, LIST_AT(c->args, uint32_t, n->program_begin), program_words * sizeof(uint32_t));
        for (uint32_t k = 0; k < n->input_count; k++) HASH_TEXT(compiler_tensor(c, compiler_args(c, n)[k])->name);
    }
    HASH(c->settings.train_seed);
    return XXH3_64bits_digest(state);
}

/* --- the image -------------------------------------------------------------------------------- */

static status image_write(struct compiler *c, uint8_t **image, size_t *image_bytes)
{
    struct graph_header *h = &c->header;
    memcpy(h->magic, GRAPH_MAGIC, sizeof h->magic);
    h->version = c->settings.model_rules;
    h->header_bytes = sizeof *h;
    h->numbering = graph_numbering();
    h->seed = c->settings.train_seed;
    h->period = c->settings.store_period;
    struct list text = {.item_bytes = 1};
    size_t text_bytes;
    text.items = ini_text(&c->ini, &text_bytes);
    if (text.items == NULL) FAIL(MEMORY, "no memory to compile the model");
    text.count = (uint32_t)text_bytes;
    const struct list *sections[SECTION_COUNT] = {[SECTION_TEXT] = &text,
                                                  [SECTION_STRINGS] = &c->strings,
                                                  [SECTION_TENSORS] = &c->tensors,
                                                  [SECTION_ARGS] = &c->args,
                                                  [SECTION_NODES] = &c->nodes,
                                                  [SECTION_LAYERS] = &c->layers,
                                                  [SECTION_FIELDS] = &c->fields,
                                                  [SECTION_DENSES] = &c->denses,
                                                  [SECTION_LABELS] = &c->labels,
                                                  [SECTION_VOCABULARIES] = &c->vocabularies,
                                                  [SECTION_WORDS] = &c->words,
                                                  [SECTION_TABLES] = &c->tables,
                                                  [SECTION_OPTIMIZERS] = &c->optimizers,
                                                  [SECTION_UPDATES] = &c->updates};
    uint64_t offset = arena_bytes(sizeof *h);
    for (int i = 0; i < SECTION_COUNT; i++) {
        h->section[i].offset = offset;
        h->section[i].count = sections[i]->count;
        offset += arena_bytes(sections[i]->count * sections[i]->item_bytes);
    }
    h->file_bytes = offset;
    uint8_t *bytes = aligned_alloc(CACHE_LINE_BYTES, offset);
    if (bytes != NULL) {
        memset(bytes, 0, offset);
        memcpy(bytes, h, sizeof *h);
        for (int i = 0; i < SECTION_COUNT; i++)
            if (sections[i]->count)
                memcpy(bytes + h->section[i].offset, sections[i]->items, sections[i]->count * sections[i]->item_bytes);
        uint64_t checksum = XXH3_64bits(bytes, offset);
        memcpy(bytes + offsetof(struct graph_header, checksum), &checksum, sizeof checksum);
    }
    free(text.items);
    if (bytes == NULL) FAIL(MEMORY, "no memory to compile the model");
    *image = bytes;
    *image_bytes = offset;
    return ST_OK;
}

/* is_of_graph: the text is that of a graph, which names its rules, or has the oldest. */
static status compile(struct compiler *c, const char *const *assignments, uint32_t assignment_count, bool is_of_graph,
                      const struct graph_source *source, uint8_t **image, size_t *image_bytes)
{
    for (uint32_t i = 0; i < assignment_count; i++) TRY(ini_set(&c->ini, assignments[i], settings_kinds));
    if (!is_of_graph) TRY(rules_settle(&c->ini));
    TRY(compile_parse(c, source));
    c->header.model_hash = model_hash(c); /* before fusion, which may differ between versions of the compiler */
    compile_fuse(c);
    TRY(compile_backward(c));
    TRY(compile_memory(c));
    return image_write(c, image, image_bytes);
}

static status text_compile(struct graph *graph, const char *path, const char *text, size_t text_bytes,
                           const char *const *assignments, uint32_t assignment_count, bool is_of_graph,
                           const struct graph_source *source)
{
    memset(graph, 0, sizeof *graph);
    struct compiler c = {.strings.item_bytes = 1,
                         .tensors.item_bytes = sizeof(struct graph_tensor),
                         .args.item_bytes = sizeof(uint32_t),
                         .nodes.item_bytes = sizeof(struct graph_node),
                         .layers.item_bytes = sizeof(struct graph_layer),
                         .fields.item_bytes = sizeof(struct graph_field),
                         .denses.item_bytes = sizeof(struct graph_field),
                         .labels.item_bytes = sizeof(struct graph_field),
                         .vocabularies.item_bytes = sizeof(struct graph_vocabulary),
                         .words.item_bytes = sizeof(struct graph_word),
                         .tables.item_bytes = sizeof(struct graph_table),
                         .optimizers.item_bytes = sizeof(struct graph_optimizer),
                         .updates.item_bytes = sizeof(struct graph_update),
                         .statistics.item_bytes = sizeof(struct graph_optimizer)};
    uint8_t *image = NULL;
    size_t image_bytes = 0;
    TRY(ini_parse(&c.ini, path, text, text_bytes));
    status st = compile(&c, assignments, assignment_count, is_of_graph, source, &image, &image_bytes);
    ini_free(&c.ini);
    for (struct list *list = &c.strings; list <= &c.label_names; list++) free(list->items);
    if (st != ST_OK) return st;
    st = graph_bind(graph, path, image, image_bytes);
    if (st != ST_OK) {
        free(image);
        return st;
    }
    graph->owned = image;
    return ST_OK;
}

status graph_compile(struct graph *graph, const char *path, const char *text, size_t text_bytes,
                     const char *const *assignments, uint32_t assignment_count, const struct graph_source *source)
{
    return text_compile(graph, path, text, text_bytes, assignments, assignment_count, false, source);
}

status graph_compile_kept(struct graph *graph, const char *path, const char *text, size_t text_bytes,
                          const struct graph_source *source)
{
    return text_compile(graph, path, text, text_bytes, NULL, 0, true, source);
}

status graph_compile_again(struct graph *graph, const char *path, const struct graph *known, const char *const *set,
                           uint32_t set_count)
{
    const struct graph_source source = graph_source_of(known);
    return text_compile(graph, path, known->text, known->text_bytes, set, set_count, true, &source);
}

status graph_open_set(struct graph *graph, const char *path, const char *const *set, uint32_t set_count)
{
    TRY(graph_open(graph, path));
    if (set_count == 0) return ST_OK;
    struct graph opened = *graph;
    status st = graph_compile_again(graph, path, &opened, set, set_count);
    graph_close(&opened);
    return st;
}

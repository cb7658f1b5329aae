/* Trees as bracketed text, one example a line, as the Stanford Sentiment Treebank has them:
 *
 *     (3 (2 It) (4 (2 's) (3 good)))                  a number, then a word or children, or both
 *     (add:2.84 (sin:0.84 (const:1)) (const:2))       a kind, perhaps a number, then the same
 *     (add (const:1) (#0))                            node 0 of the line, once more
 *
 *     (3 runs (1 dog (0 the)) (2 fast))               a word and children, as dependency trees have them
 *
 * Nodes are counted from 0 in the order in which their brackets close. A node that names no kind is of the
 * first kind if it has no children, else of the second. The field word has the keys of the words, in the
 * order of the nodes; the field tree has a key a node (engine/base/tree.h). The label is the number of the
 * root, the last node without a parent, or what data.label_map makes of its text.
 *
 * Nothing is cut: a line with more words or nodes than ids_max is malformed. Open brackets
 * lie on a stack of ids_max places.
 *
 * Workload: a node of 8 bytes, 40 ns. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/nearest.h"
#include "engine/base/tree.h"
#include "io/read/decimal.h"
#include "io/read/label_map.h"
#include "io/read/text_field.h"

/* A bracket that is open. */
struct open_node {
    uint32_t kind; /* or NONE: the node names no kind */
    uint32_t child_count;
    float number;
    bool has_word, is_again;
    uint64_t word; /* the word's key */
};

struct trees {
    struct text_fields texts;
    uint32_t field_count, label_count;
    uint32_t word_field, tree_field; /* field_count: none */
    const struct reader_column *label;
    struct label_map label_map;
    bool label_optional;
    const struct reader_kind *kind;
    uint32_t kind_count;
    uint32_t *name_bytes; /* [kind_count] */
    uint32_t word_max, tree_max;
    uint64_t *word_key, *tree_key; /* [word_max], [tree_max]: of the line */
    struct open_node *open;        /* [tree_max]                          */
};

/* A line that is being parsed. */
struct line {
    const char *begin, *at, *end;
    uint32_t depth, word_count, key_count, node_count;
    const char *root; /* text of the number of the last node without a parent; root_bytes 0: it has no number */
    size_t root_bytes;
    float root_number;
    char *why;
};

static uint32_t ids_max_of(const struct reader_schema *s, const char *name)
{
    for (uint32_t f = 0; f < s->example.field_count && s->field; f++)
        if (strcmp(s->field[f].name, name) == 0) return s->field[f].ids_max;
    return 0;
}

static size_t trees_bytes(const struct reader_options *options)
{
    const struct reader_schema *s = &options->schema;
    return arena_bytes(sizeof(struct trees)) + text_fields_bytes(s) + label_map_bytes(s->label_map) +
           arena_bytes(sizeof(uint32_t) * s->kind_count) + arena_bytes(sizeof(uint64_t) * ids_max_of(s, "word")) +
           arena_bytes(sizeof(uint64_t) * ids_max_of(s, "tree")) +
           arena_bytes(sizeof(struct open_node) * ids_max_of(s, "tree"));
}

/* Finds the columns. Without kinds of nodes only words are counted, of the only column with words. */
static status fields_find(struct trees *t, const struct reader_schema *s)
{
    for (uint32_t f = 0; f < t->field_count; f++) {
        bool is_tree = strcmp(s->field[f].name, "tree") == 0;
        uint32_t *place = is_tree ? &t->tree_field : &t->word_field;
        if (!is_tree && strcmp(s->field[f].name, "word") != 0)
            FAIL(INVALID, "trees have the columns word and tree; expected one of them, found \"%s\"", s->field[f].name);
        if (*place < f || s->field[f].negative_count)
            FAIL(INVALID, "expected the column %s once, and no candidates of it", s->field[f].name);
        *place = f;
    }
    if (t->kind_count == 0 && t->word_field == t->field_count)
        FAIL(INVALID, "words of trees are those of the column word");
    if (t->kind_count && t->tree_field == t->field_count)
        FAIL(INVALID, "expected the column tree in data.sparse, found it nowhere");
    return ST_OK;
}

/* Whether every node's number is a label. */
static bool labels_are_of_nodes(const struct trees *t)
{
    return t->label_count > 0 && t->label && t->label->label_is_of_nodes;
}

static status trees_place(void **state, struct arena *arena, const struct reader_options *options)
{
    const struct reader_schema *s = &options->schema;
    struct example_shape shape = s->example;
    if (shape.dense_count) FAIL(INVALID, "trees have no numeric columns; the graph uses %u", shape.dense_count);
    if (shape.has_weight || shape.has_group) FAIL(INVALID, "trees have no column of weights or groups");
    if (shape.field_count && !s->field) FAIL(INVALID, "the columns of trees have names: word, tree");
    if (shape.label_count > 1)
        FAIL(INVALID, "trees have one label, the root's number; the graph uses %u", shape.label_count);
    struct trees *t = arena_take(arena, sizeof *t);
    *t = (struct trees){.field_count = shape.field_count,
                        .label_count = shape.label_count,
                        .word_field = shape.field_count,
                        .tree_field = shape.field_count,
                        .label = s->label,
                        .label_optional = options->label_optional,
                        .kind = s->kind,
                        .kind_count = s->kind_count,
                        .word_max = ids_max_of(s, "word"),
                        .tree_max = ids_max_of(s, "tree")};
    TRY(fields_find(t, s));
    CHECK(shape.key_count_max >= t->word_max + t->tree_max && t->kind_count <= TREE_KINDS_MAX);
    TRY(label_map_place(&t->label_map, arena, s->label_map));
    if (labels_are_of_nodes(t) && s->label_map && *s->label_map)
        FAIL(INVALID,
             "data.label_map maps roots, and the model has a loss at every node, of its number; "
             "expected an empty one, found \"%.40s\"",
             s->label_map);
    t->name_bytes = arena_take(arena, sizeof *t->name_bytes * t->kind_count);
    for (uint32_t k = 0; k < t->kind_count; k++) t->name_bytes[k] = (uint32_t)strlen(t->kind[k].name);
    t->word_key = arena_take(arena, sizeof *t->word_key * t->word_max);
    t->tree_key = arena_take(arena, sizeof *t->tree_key * t->tree_max);
    t->open = arena_take(arena, sizeof *t->open * t->tree_max);
    TRY(text_fields_place(&t->texts, arena, options, false));
    *state = t;
    return ST_OK;
}

static size_t column_of(const struct line *l, const char *at) { return (size_t)(at - l->begin) + 1; }

/* A text up to the next blank or bracket. */
static inline size_t token_bytes(const struct line *l)
{
    static const bool ends[256] = {[' '] = true, ['\t'] = true, ['('] = true, [')'] = true};
    const char *end = l->at;
    while (end < l->end && !ends[(unsigned char)*end]) end++;
    return (size_t)(end - l->at);
}

/* A number that a float holds. */
static bool number_find(const char *text, size_t bytes, float *number)
{
    double wide;
    return decimal_parse_ahead(text, bytes, &wide, number);
}

static enum reader_found again_parse(const struct line *l, const char *text, size_t bytes, struct open_node *node)
{
    char quote[READER_QUOTE_BYTES];
    uint32_t number = 0;
    bool is_number = bytes > 1 && bytes < 10;
    for (size_t i = 1; i < bytes && is_number; i++) {
        is_number = text[i] >= '0' && text[i] <= '9';
        number = number * 10 + (uint32_t)(text[i] - '0');
    }
    if (!is_number || number >= l->node_count)
        return reader_bad(l->why, "column %zu: expected # and a node that came before, of %u, found %s",
                          column_of(l, text), l->node_count, reader_quote(quote, text, bytes));
    node->is_again = true;
    node->kind = number;
    return FOUND_EXAMPLE;
}

/* Refuses a head that is neither a number nor a kind. */
static enum reader_found head_refuse(const struct trees *t, const struct line *l, const char *text, size_t bytes)
{
    char quote[READER_QUOTE_BYTES], word[NEAREST_BYTES_MAX];
    const char *near = NULL;
    uint32_t distance = 0;
    if (decimal_is_beyond(text, bytes))
        return reader_bad(l->why, "column %zu: expected " DECIMAL_WITHIN ", found %s", column_of(l, text),
                          reader_quote(quote, text, bytes));
    snprintf(word, sizeof word, "%.*s", (int)(bytes < sizeof word ? bytes : sizeof word - 1), text);
    word[strcspn(word, ":")] = 0;
    for (uint32_t k = 0; k < t->kind_count; k++) nearest_offer(&near, &distance, word, t->kind[k].name);
    return reader_bad(l->why, "column %zu: expected a number, or a kind of data.kinds, found %s%s%.40s%s",
                      column_of(l, text), reader_quote(quote, text, bytes), near ? "; did you mean " : "",
                      near ? near : "", near ? "?" : "");
}

/* Refuses a number that is no label, where every node's is one. */
static enum reader_found number_check(const struct trees *t, const struct line *l, const char *text, size_t bytes,
                                      float number)
{
    char expected[LABEL_MAP_EXPECTED_BYTES], quote[READER_QUOTE_BYTES];
    if (!labels_are_of_nodes(t) || t->label_optional || label_is_in_range(t->label, number)) return FOUND_EXAMPLE;
    return reader_bad(l->why, "column %zu: a node's number is its label: expected %s, found %s", column_of(l, text),
                      label_range_expected(t->label, expected), reader_quote(quote, text, bytes));
}

/* A node without a parent begins. What came before it is no root, but a node like all others. */
static enum reader_found root_begin(const struct trees *t, struct line *l)
{
    const size_t bytes = l->root_bytes;
    l->root_bytes = 0;
    return bytes ? number_check(t, l, l->root, bytes, l->root_number) : FOUND_EXAMPLE;
}

/* Takes the head behind an opening bracket: a number, a kind, or both. */
static enum reader_found head_parse(const struct trees *t, struct line *l, struct open_node *node)
{
    char quote[READER_QUOTE_BYTES];
    const char *text = l->at, *number = text;
    size_t bytes = token_bytes(l), name = 0;
    *node = (struct open_node){.kind = READER_NONE, .number = NAN};
    l->at += bytes;
    if (l->depth == 1 && root_begin(t, l) == FOUND_BAD) return FOUND_BAD;
    if (bytes > 0 && *text == '#') return again_parse(l, text, bytes, node);
    if (bytes == 0 || !number_find(text, bytes, &node->number)) {
        while (name < bytes && text[name] != ':') name++;
        for (uint32_t k = 0; k < t->kind_count; k++)
            if (t->name_bytes[k] == name && memcmp(t->kind[k].name, text, name) == 0) node->kind = k;
        if (node->kind == READER_NONE) return head_refuse(t, l, text, bytes);
        if (name == bytes) return FOUND_EXAMPLE;
        number = text + name + 1;
        bytes -= name + 1;
        if (bytes == 0 || !number_find(number, bytes, &node->number))
            return reader_bad(l->why, "column %zu: expected %s behind \"%s:\", found %s", column_of(l, number),
                              decimal_is_beyond(number, bytes) ? DECIMAL_WITHIN : "a number", t->kind[node->kind].name,
                              reader_quote(quote, number, bytes));
    }
    if (l->depth > 1) return number_check(t, l, number, bytes, node->number);
    l->root = number;
    l->root_bytes = bytes;
    l->root_number = node->number;
    return FOUND_EXAMPLE;
}

static enum reader_found word_take(const struct trees *t, struct line *l)
{
    struct open_node *node = l->depth ? &t->open[l->depth - 1] : NULL;
    char quote[READER_QUOTE_BYTES];
    const char *text = l->at;
    size_t bytes = token_bytes(l);
    l->at += bytes;
    if (node == NULL || node->has_word || node->child_count || node->is_again)
        return reader_bad(l->why, "column %zu: expected a bracket, found %s", column_of(l, text),
                          reader_quote(quote, text, bytes));
    node->has_word = true;
    if (t->word_field < t->field_count && !text_field_find(&t->texts.field[t->word_field], text, bytes, &node->word))
        return reader_bad(l->why, "column %zu: expected a word of the vocabulary, found %s; give it an unknown word",
                          column_of(l, text), reader_quote(quote, text, bytes));
    return FOUND_EXAMPLE;
}

static bool kind_suits(const struct reader_kind *kind, const struct open_node *node)
{
    return node->child_count >= kind->children_min && node->child_count <= kind->children_max &&
           (node->has_word || !kind->needs_word) && (isfinite(node->number) || !kind->needs_number);
}

static enum reader_found kind_refuse(const struct line *l, const char *place, const struct reader_kind *kind,
                                     const struct open_node *node)
{
    const uint32_t least = kind->children_min, most = kind->children_max, found = node->child_count;
    const size_t column = column_of(l, place);
    char takes[48];
    if (found >= least && found <= most)
        return reader_bad(l->why, "column %zu: expected a %s in a node of kind %.60s, found none", column,
                          kind->needs_word && !node->has_word ? "word" : "number", kind->name);
    if (least == most)
        snprintf(takes, sizeof takes, "%u %s", least, least == 1 ? "child" : "children");
    else if (most == TREE_CHILDREN_MAX)
        snprintf(takes, sizeof takes, "at least %u %s", least, least == 1 ? "child" : "children");
    else
        snprintf(takes, sizeof takes, "%u to %u children", least, most);
    return reader_bad(l->why, "column %zu: a node of kind %.60s takes %s, found %u", column, kind->name, takes, found);
}

/* A bracket closes: writes the node's key. */
static enum reader_found node_close(const struct trees *t, struct line *l, const char *place)
{
    const struct open_node *node = &t->open[--l->depth];
    if (l->key_count == t->tree_max)
        return reader_bad(l->why, "column %zu: expected at most %u nodes, ids_max of the column tree, found more",
                          column_of(l, place), t->tree_max);
    if (l->depth) {
        struct open_node *parent = &t->open[l->depth - 1];
        if (parent->is_again)
            return reader_bad(l->why, "column %zu: expected no children of a node that is named once more, found some",
                              column_of(l, place));
        if (parent->child_count == TREE_CHILDREN_MAX)
            return reader_bad(l->why, "column %zu: expected at most %u children, found more", column_of(l, place),
                              TREE_CHILDREN_MAX);
        parent->child_count++;
    }
    if (node->is_again) {
        t->tree_key[l->key_count++] = tree_key_again(node->kind);
        return FOUND_EXAMPLE;
    }
    bool is_inner = node->child_count > 0 && t->kind_count > 1;
    uint32_t kind = node->kind != READER_NONE ? node->kind : is_inner;
    if (!kind_suits(&t->kind[kind], node)) return kind_refuse(l, place, &t->kind[kind], node);
    bool has_word = node->has_word && t->word_field < t->field_count;
    if (has_word && l->word_count == t->word_max)
        return reader_bad(l->why, "column %zu: expected at most %u words, ids_max of the column word, found more",
                          column_of(l, place), t->word_max);
    if (has_word) t->word_key[l->word_count++] = node->word;
    t->tree_key[l->key_count++] = tree_key(kind, node->child_count, has_word, node->number);
    l->node_count++;
    return FOUND_EXAMPLE;
}

/* The next bracket or word. */
static enum reader_found item_parse(const struct trees *t, struct line *l)
{
    const char *place = l->at;
    if (*place != '(' && *place != ')') return word_take(t, l);
    l->at++;
    if (*place == ')' && l->depth == 0)
        return reader_bad(l->why, "column %zu: expected a bracket that opens, found \")\"", column_of(l, place));
    if (*place == ')') return node_close(t, l, place);
    if (l->depth == t->tree_max)
        return reader_bad(l->why,
                          "column %zu: expected at most %u open brackets, ids_max of the column tree, found more",
                          column_of(l, place), t->tree_max);
    return head_parse(t, l, &t->open[l->depth++]);
}

static enum reader_found label_take(const struct trees *t, const struct line *l, struct reader_example *e)
{
    char expected[LABEL_MAP_EXPECTED_BYTES], quote[READER_QUOTE_BYTES];
    if (t->label_count == 0) return FOUND_EXAMPLE;
    e->label[0] = 0;
    if (l->root_bytes == 0 && t->label_optional) return FOUND_EXAMPLE;
    if (l->root_bytes == 0)
        return reader_bad(l->why, "column %zu: the root has no number, which is the label", column_of(l, l->end));
    bool is_label = label_map_find(&t->label_map, l->root, l->root_bytes, &e->label[0]);
    if (is_label && (t->label_optional || label_is_in_range(t->label, e->label[0]))) return FOUND_EXAMPLE;
    return reader_bad(l->why, "column %zu: the root's number is the label: expected %s, found %s",
                      column_of(l, l->root),
                      is_label ? label_range_expected(t->label, expected)
                               : label_map_expected(&t->label_map, l->root, l->root_bytes, expected),
                      reader_quote(quote, l->root, l->root_bytes));
}

static enum reader_found trees_parse(void *state, const char *line, size_t bytes, struct reader_example *e, char *why)
{
    const struct trees *t = state;
    struct line l = {.begin = line, .at = line, .end = line + bytes, .why = why};
    if (t->kind_count == 0) return FOUND_NONE; /* only words are counted */
    for (;;) {
        while (l.at < l.end && (*l.at == ' ' || *l.at == '\t')) l.at++;
        if (l.at == l.end) break;
        if (item_parse(t, &l) == FOUND_BAD) return FOUND_BAD;
    }
    if (l.depth)
        return reader_bad(why, "column %zu: expected %u brackets that close, found the end of the line",
                          column_of(&l, l.end), l.depth);
    if (l.key_count == 0) return reader_bad(why, "expected a tree, found blanks");
    uint32_t key_count = 0;
    for (uint32_t f = 0; f < t->field_count; f++) {
        bool is_tree = f == t->tree_field;
        uint32_t count = is_tree ? l.key_count : l.word_count;
        memcpy(e->key + key_count, is_tree ? t->tree_key : t->word_key, count * sizeof *e->key);
        e->key_end[f] = key_count += count;
    }
    for (uint32_t i = 0; e->value && i < key_count; i++) e->value[i] = 1;
    return label_take(t, &l, e);
}

/* Hands over the texts that are neither heads nor brackets. */
static status trees_words(void *state, const char *line, size_t bytes,
                          status (*word)(void *to, const char *text, size_t bytes), void *to)
{
    (void)state;
    struct line l = {.begin = line, .at = line, .end = line + bytes};
    bool is_head = false;
    while (l.at < l.end) {
        if (*l.at == '(' || *l.at == ')' || *l.at == ' ' || *l.at == '\t') {
            is_head = *l.at++ == '(';
            continue;
        }
        const char *text = l.at;
        size_t count = token_bytes(&l);
        l.at += count;
        if (!is_head) TRY(word(to, text, count));
        is_head = false;
    }
    return ST_OK;
}

const struct reader_format_functions reader_trees = {
    .name = "trees",
    .bytes = trees_bytes,
    .place = trees_place,
    .lines_are_apart = true,
    .parse = trees_parse,
    .words = trees_words,
};

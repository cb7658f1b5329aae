/* The columns of the data that the model uses, from [data], [column NAME] and [candidates NAME]; and the
 * vocabularies, whose words the caller's source reads. Fields become the first tensors, in their order. All
 * numeric columns together are "dense"; a numeric column gets a tensor of its own when an op names it. */
#include "engine/base/tree.h"
#include "graph/compiler.h"
#include "graph/graph_internal.h"
#include "graph/op.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* --- what columns a format has ---------------------------------------------------------------- */

/* Names that a format gives its columns of one kind. */
struct format_names {
    struct {
        const char *prefix; /* followed by a number from first to last; NULL: none                   */
        uint32_t first, last;
    } range[2];
    const char *names[4]; /* others                                                                 */
    bool is_any;
    const char *text; /* for messages */
};
#define NO_COLUMNS                                                                                                     \
    {                                                                                                                  \
        .text = "none"                                                                                                 \
    }
#define ANY_COLUMNS                                                                                                    \
    {                                                                                                                  \
        .is_any = true, .text = "any"                                                                                  \
    }
static const struct format {
    struct format_names dense, sparse, label;
    bool has_value;
    const char *key_space; /* all its fields have the keys of this name; NULL: each its own          */
    const char *line;      /* the form of a line, for the reference                                 */
} formats[DATA_FORMAT_COUNT] = {
    [DATA_CRITEO] = {{{{"I", 1, 13}}, {0}, false, "I1..I13"},
                     {{{"C", 1, 26}, {"I", 1, 13}}, {0}, false, "C1..C26, and I1..I13 by their texts"},
                     {.is_any = true, .text = "one"},
                     false,
                     NULL,
                     "label, 13 integers, 26 texts, separated by tabs; any of them may be empty"},
    [DATA_CSV] = {ANY_COLUMNS, ANY_COLUMNS, ANY_COLUMNS, false, NULL,
                  "values between data.separator, named by the first line or by data.columns; "
                  "lists of keys, quotes, weights and groups"},
    [DATA_LIBSVM] = {NO_COLUMNS,
                     {.names = {"features"}, .text = "features"},
                     {.is_any = true, .text = "one"},
                     true,
                     "features",
                     "label id:value id:value …"},
    [DATA_LIBFFM] = {NO_COLUMNS,
                     {{{"F", 0, 65535}}, {0}, false, "F0..F65535, by the number of the field"},
                     {.is_any = true, .text = "one"},
                     true,
                     "features",
                     "label field:id:value …"},
    [DATA_LIBFM] = {NO_COLUMNS,
                    {{{"F", 1, 65535}}, {"features"}, false, "features, or F1..F65535 by the place in the line"},
                    {.is_any = true, .text = "one"},
                    true,
                    "features",
                    "label id:value id:value …"},
    [DATA_PAIRS] = {NO_COLUMNS,
                    {.names = {"user", "item", "history"}, .text = "user, item, history"},
                    NO_COLUMNS,
                    false,
                    NULL,
                    "user item item …: an example each pair"},
    [DATA_TOKENS] = {NO_COLUMNS,
                     {.names = {"context", "next"}, .text = "context, next"},
                     {.names = {"next"}, .text = "next"},
                     false,
                     "next",
                     "words separated by blanks: an example each word, with the words before it in its file"},
    [DATA_TREES] = {NO_COLUMNS,
                    {.names = {"word", "tree"}, .text = "word, tree"},
                    {.names = {"label"}, .text = "label, the root's number"},
                    false,
                    NULL,
                    "(3 (2 It) (4 (2 's) (3 good))): a tree; a node is a number, a kind of data.kinds or kind:number, "
                    "then a word, nodes, or both"},
};

void format_print(FILE *out, bool as_markdown, uint32_t format)
{
    const struct format *entry = &formats[format];
    fprintf(out, as_markdown ? "| `%s` | %s | %s | %s | %s |\n" : "  %-8s %s; %s; %s; %s\n", cfg_data_formats[format],
            entry->line, entry->dense.text, entry->sparse.text, entry->label.text);
}

void formats_print(FILE *out, bool as_markdown)
{
    fprintf(
        out,
        as_markdown
            ? "### Formats\n\n| `data.format` | a line | numeric columns | fields | labels |\n|---|---|---|---|---|\n"
            : "\nFormats: a line; numeric columns; fields; labels\n");
    for (uint32_t i = 0; i < DATA_FORMAT_COUNT; i++) format_print(out, as_markdown, i);
}

static bool names_have(const struct format_names *known, const char *name)
{
    size_t stem;
    uint32_t number;
    for (uint32_t i = 0; i < 4 && known->names[i]; i++)
        if (strcmp(known->names[i], name) == 0) return true;
    bool has_number = name_split(name, &stem, &number);
    for (uint32_t i = 0; i < 2 && known->range[i].prefix && has_number; i++)
        if (stem == strlen(known->range[i].prefix) && strncmp(name, known->range[i].prefix, stem) == 0 &&
            number >= known->range[i].first && number <= known->range[i].last)
            return true;
    return known->is_any;
}

/* The seed of a column's keys: one rule for all formats, so a text in a column of one name has one key. */
static uint64_t seed_of(const struct compiler *c, const char *name)
{
    const struct format *format = &formats[c->settings.data_format];
    size_t stem;
    uint32_t number;
    bool is_numbered = c->settings.model_rules <= 8 && c->settings.data_format == DATA_CRITEO && *name == 'C';
    if (is_numbered && name_split(name, &stem, &number)) return number - 1;
    const char *space = format->key_space ? format->key_space : name;
    return XXH3_64bits(space, strlen(space));
}

/* --- columns ---------------------------------------------------------------------------------- */

/* A list of names in [data] that becomes records. */
struct column_list {
    struct list *list, *columns;
    const struct format_names *names;
    enum tensor_kind kind;
};

static status column_settings_find(struct compiler *c, const char *name, struct column_settings *settings,
                                   const struct ini_section **section)
{
    *section = ini_find(&c->ini, "column", name);
    return settings_read_named(&c->ini, *section, "column", settings);
}

static uint32_t vocabulary_find(const struct compiler *c, const char *name)
{
    for (uint32_t i = 0; i < c->vocabularies.count; i++)
        if (strcmp(compiler_string(c, LIST_AT(c->vocabularies, struct graph_vocabulary, i)->name), name) == 0) return i;
    return GRAPH_NONE;
}

/* Checks ids_max where all features of a line are one list: its default, one key, would
 * be next to nothing of the data. */
static status list_is_bounded(struct compiler *c)
{
    const struct ini_section *data = ini_find(&c->ini, "data", "");
    const uint32_t format = c->settings.data_format;
    if (format == DATA_TREES && ini_entry_find(data, "ids_max") == NULL)
        return ini_fail(&c->ini, data, ini_entry_find(data, "sparse"),
                        "a tree is a list of its nodes, and of their words; say how many of them a line may have, "
                        "as in ids_max = 128");
    if (format == DATA_PAIRS && ini_entry_find(data, "ids_max") == NULL)
        return ini_fail(&c->ini, data, ini_entry_find(data, "sparse"),
                        "\"history\" is a list of a user's items; "
                        "say how many of them count, as in [column history] ids_max = 50");
    if (c->settings.model_rules <= 8 || (format != DATA_LIBSVM && format != DATA_LIBFM)) return ST_OK;
    if (ini_entry_find(data, "ids_max") != NULL) return ST_OK;
    return ini_fail(&c->ini, data, ini_entry_find(data, "sparse"),
                    "\"features\" is a list of all features of a line; say how many of them a line may have, "
                    "as in ids_max = 100");
}

/* Sets a field or a label by [column NAME]. */
static status column_settle(struct compiler *c, const char *name, enum tensor_kind kind, struct graph_field *f)
{
    struct column_settings settings;
    const struct ini_section *section;
    TRY(column_settings_find(c, name, &settings, &section));
    f->vocabulary = GRAPH_NONE;
    if (*settings.vocabulary) {
        f->vocabulary = vocabulary_find(c, settings.vocabulary);
        if (f->vocabulary == GRAPH_NONE)
            return ini_fail(&c->ini, section, ini_entry_find(section, "vocabulary"), "there is no [vocabulary %s]",
                            settings.vocabulary);
    }
    if (kind != TENSOR_FIELD) return ST_OK;
    f->ids_max = settings.ids_max ? settings.ids_max : c->settings.data_ids_max;
    bool is_list = strcmp(name, "features") == 0 || c->settings.data_format == DATA_TREES ||
                   (c->settings.data_format == DATA_PAIRS && strcmp(name, "history") == 0);
    if (is_list && settings.ids_max == 0) TRY(list_is_bounded(c));
    if (c->settings.data_format == DATA_TOKENS && strcmp(name, "context") == 0) f->ids_max = c->settings.data_window;
    f->seed = seed_of(c, *settings.keys_of ? settings.keys_of : name);
    return ST_OK;
}

static status column_add(struct compiler *c, const struct ini_section *section, const struct ini_entry *entry,
                         const char *name, void *context)
{
    const struct column_list *list = context;
    if (!names_have(list->names, name)) {
        const char *format = cfg_data_formats[c->settings.data_format];
        return ini_fail(&c->ini, section, entry, "expected a column of the %s format (%s), found \"%s\"", format,
                        list->names->text, name);
    }
    if (name_number(c, list->columns, name) != GRAPH_NONE)
        return ini_fail(&c->ini, section, entry, "the column \"%s\" is named twice", name);
    struct graph_field field = {.vocabulary = GRAPH_NONE, .log_q = GRAPH_NONE, .scale = 1};
    TRY(compiler_string_add(c, name, &field.name));
    field.column = field.name;
    if (list->kind != TENSOR_DENSE) TRY(column_settle(c, name, list->kind, &field));
    struct graph_field *record;
    TRY(list_add(list->list, &record));
    *record = field;
    return name_number_add(c, list->columns, field.column, list->list->count - 1);
}

static status candidates_add(struct compiler *c, const struct ini_section *section)
{
    struct candidates_settings settings;
    TRY(settings_read_named(&c->ini, section, "candidates", &settings));
    if (!is_name(section->name))
        return ini_fail(&c->ini, section, NULL, "expected [candidates NAME] with a name of letters, digits, _ - .");
    const struct format *format = &formats[c->settings.data_format];
    const struct ini_entry *of = ini_entry_find(section, "of");
    if (!names_have(&format->sparse, settings.of))
        return ini_fail(&c->ini, section, of, "expected a column of the %s format (%s), found \"%s\"",
                        cfg_data_formats[c->settings.data_format], format->sparse.text, settings.of);
    struct graph_field field = {.scale = 1};
    TRY(column_settle(c, settings.of, TENSOR_FIELD, &field));
    if (field.vocabulary == GRAPH_NONE)
        return ini_fail(&c->ini, section, of,
                        "candidates are drawn from a vocabulary: give [column %s] a line vocabulary = NAME",
                        settings.of);
    TRY(compiler_string_add(c, section->name, &field.name));
    TRY(compiler_string_add(c, settings.of, &field.column));
    field.ids_max = 1 + settings.negatives;
    field.negative_count = settings.negatives;
    field.sampler = settings.sampler;
    field.sampler_power = settings.power;
    field.log_q = c->header.dense_stride;
    c->header.dense_stride += field.ids_max;
    if (c->header.dense_stride > OP_COLS_MAX)
        return ini_fail(&c->ini, section, NULL, "expected at most %u numbers an example, found %u", OP_COLS_MAX,
                        c->header.dense_stride);
    struct graph_field *record;
    TRY(list_add(&c->fields, &record));
    *record = field;
    return name_number_add(c, &c->field_names, field.column, c->fields.count - 1);
}

/* The tensor of a numeric column by itself, made when an op first names it; NONE: there is no such column. */
status compiler_dense_column(struct compiler *c, const char *name, uint32_t *tensor)
{
    *tensor = GRAPH_NONE;
    uint32_t i = name_number(c, &c->dense_names, name);
    if (i == GRAPH_NONE) return ST_OK;
    TRY(compiler_tensor_add(c, name, TENSOR_DENSE, 1, tensor));
    compiler_tensor(c, *tensor)->stride = c->header.dense_stride;
    compiler_tensor(c, *tensor)->offset = i;
    return ST_OK;
}

/* Checks that no other column has the name; a column of texts may be a label as well. */
static status name_is_free(struct compiler *c, const struct ini_section *section, const struct ini_entry *entry,
                           const char *name, bool is_label)
{
    uint32_t tensor = compiler_tensor_find(c, name);
    if (tensor == GRAPH_NONE || (is_label && compiler_tensor(c, tensor)->kind == TENSOR_FIELD)) return ST_OK;
    return ini_fail(&c->ini, section, entry, "\"%s\" is another column's name", name);
}

static status tensors_add(struct compiler *c, const struct ini_section *data)
{
    struct graph_header *h = &c->header;
    uint32_t index;
    for (uint32_t i = 0; i < c->fields.count; i++) {
        const char *name = compiler_string(c, LIST_AT(c->fields, struct graph_field, i)->name);
        TRY(name_is_free(c, data, NULL, name, false));
        TRY(compiler_tensor_add(c, name, TENSOR_FIELD, i, &index));
        compiler_tensor(c, index)->stride = 0;
    }
    if (h->dense_count) {
        TRY(compiler_tensor_add(c, "dense", TENSOR_DENSE, h->dense_count, &index));
        compiler_tensor(c, index)->stride = h->dense_stride;
    }
    for (uint32_t i = 0; i < c->fields.count; i++) {
        const struct graph_field *f = LIST_AT(c->fields, struct graph_field, i);
        if (f->negative_count == 0) continue;
        char name[INI_NAME_BYTES_MAX + 8];
        snprintf(name, sizeof name, "%s.log_q", compiler_string(c, f->name));
        TRY(compiler_tensor_add(c, name, TENSOR_DENSE, f->ids_max, &index));
        compiler_tensor(c, index)->stride = h->dense_stride;
        compiler_tensor(c, index)->offset = LIST_AT(c->fields, struct graph_field, i)->log_q;
    }
    c->label_tensor = c->tensors.count;
    for (uint32_t i = 0; i < c->labels.count; i++) {
        const char *name = compiler_string(c, LIST_AT(c->labels, struct graph_field, i)->name);
        TRY(name_is_free(c, data, data ? ini_entry_find(data, "label") : NULL, name, true));
        TRY(compiler_tensor_add(c, name, TENSOR_LABEL, 1, &index));
        compiler_tensor(c, index)->stride = c->labels.count;
        compiler_tensor(c, index)->offset = i;
    }
    return ST_OK;
}

/* Checks that the column named by keys_of is a field, and has keys of its own. */
static status keys_of_check(struct compiler *c, const struct ini_section *section, const char *keys_of)
{
    const struct ini_entry *entry = ini_entry_find(section, "keys_of");
    struct column_settings other;
    const struct ini_section *other_section;
    if (!*keys_of) return ST_OK;
    if (name_number(c, &c->field_names, keys_of) == GRAPH_NONE)
        return ini_fail(&c->ini, section, entry,
                        "expected a column that [data] names in sparse, or [candidates] in of, found \"%s\"", keys_of);
    TRY(column_settings_find(c, keys_of, &other, &other_section));
    if (*other.keys_of && strcmp(other.keys_of, keys_of) != 0)
        return ini_fail(&c->ini, section, entry,
                        "expected a column with keys of its own, found \"%s\", which has those of \"%s\"", keys_of,
                        other.keys_of);
    return ST_OK;
}

/* Checks that each [column NAME] is used, and each of its keys: unused ones are mistyped. */
static status columns_are_used(struct compiler *c)
{
    for (uint32_t i = 0; i < c->ini.section_count; i++) {
        struct column_settings settings;
        const struct ini_section *section = &c->ini.sections[i];
        if (strcmp(section->kind, "column") != 0) continue;
        bool is_field = name_number(c, &c->field_names, section->name) != GRAPH_NONE;
        if (!is_field && name_number(c, &c->label_names, section->name) == GRAPH_NONE)
            return ini_fail(&c->ini, section, NULL,
                            "expected a column that [data] names in sparse or label, or [candidates] in of");
        TRY(settings_read_named(&c->ini, section, "column", &settings));
        if (!is_field && (settings.ids_max || *settings.keys_of))
            return ini_fail(&c->ini, section, ini_entry_find(section, settings.ids_max ? "ids_max" : "keys_of"),
                            "the label \"%s\" has no keys; expected nothing but vocabulary", section->name);
        TRY(keys_of_check(c, section, settings.keys_of));
    }
    return ST_OK;
}

/* Sets mean and scale of every numeric column, for transform = standard. */
static status columns_standardise(struct compiler *c, const struct graph_source *source)
{
    uint32_t count = c->denses.count;
    if (c->settings.data_transform != TRANSFORM_STANDARD || count == 0) return ST_OK;
    if (source == NULL || source->moments == NULL)
        FAIL(INVALID, "%s: transform = standard needs the data when the model is compiled", c->ini.path);
    const char **names = calloc(count, sizeof *names);
    double *mean = calloc(2 * (size_t)count, sizeof *mean), *deviation = mean + count;
    status st = names && mean ? ST_OK : status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory for %u columns", count);
    for (uint32_t i = 0; i < count && st == ST_OK; i++)
        names[i] = compiler_string(c, LIST_AT(c->denses, struct graph_field, i)->column);
    if (st == ST_OK) st = source->moments(source->context, names, count, mean, deviation);
    for (uint32_t i = 0; i < count && st == ST_OK; i++) {
        struct graph_field *f = LIST_AT(c->denses, struct graph_field, i);
        f->mean = (float)mean[i];
        /* A column of one value carries nothing: it becomes 0. */
        f->scale = deviation[i] > 0 ? (float)(1 / deviation[i]) : 0;
        if (!isfinite(f->mean) || !isfinite(f->scale))
            st = status_fail(ST_INVALID, __FILE__, __LINE__, "%s: the column %s has no finite mean and deviation",
                             c->ini.path, names[i]);
    }
    free(names);
    free(mean);
    return st;
}

#define KIND_SEPARATORS ", \t"
#define KIND_BYTES_MAX  60
#define KINDS_BYTES_MAX 4000u

/* A kind's name stands where a number may stand, so it must not begin like a number. */
static bool kind_is_named(const char *name, size_t bytes)
{
    bool is_name = bytes > 0 && bytes <= KIND_BYTES_MAX && !(*name >= '0' && *name <= '9') && *name != '-';
    for (size_t i = 0; i < bytes && is_name; i++)
        is_name = (name[i] >= 'a' && name[i] <= 'z') || (name[i] >= 'A' && name[i] <= 'Z') ||
                  (name[i] >= '0' && name[i] <= '9') || name[i] == '_' || name[i] == '-';
    return is_name;
}

/* Checks that data.kinds of trees has 1 to TREE_KINDS_MAX names, each once. */
static status kinds_check(struct compiler *c, const struct ini_section *data)
{
    const struct ini_entry *entry = data ? ini_entry_find(data, "kinds") : NULL;
    const char *kinds = c->settings.data_kinds, *at = kinds + strspn(kinds, KIND_SEPARATORS);
    uint32_t count = 0;
    if (c->settings.data_format != DATA_TREES) return ST_OK;
    if (strlen(kinds) > KINDS_BYTES_MAX)
        return ini_fail(&c->ini, data, entry, "expected at most %u characters, found %zu", KINDS_BYTES_MAX,
                        strlen(kinds));
    for (; *at; count++) {
        const size_t bytes = strcspn(at, KIND_SEPARATORS);
        if (!kind_is_named(at, bytes))
            return ini_fail(&c->ini, data, entry,
                            "expected names of at most %u letters, digits, _ and -, which begin with a letter or _, "
                            "found \"%.*s\"",
                            KIND_BYTES_MAX, (int)bytes, at);
        for (const char *before = kinds + strspn(kinds, KIND_SEPARATORS); before < at;) {
            const size_t length = strcspn(before, KIND_SEPARATORS);
            if (length == bytes && memcmp(before, at, bytes) == 0)
                return ini_fail(&c->ini, data, entry, "the kind %.*s is named twice", (int)bytes, at);
            before += length;
            before += strspn(before, KIND_SEPARATORS);
        }
        at += bytes;
        at += strspn(at, KIND_SEPARATORS);
    }
    if (count == 0 || count > TREE_KINDS_MAX)
        return ini_fail(&c->ini, data, entry, "expected 1 to %u kinds of nodes, found %u", TREE_KINDS_MAX, count);
    return ST_OK;
}

status compile_columns(struct compiler *c, const struct graph_source *source)
{
    const struct ini_section *data = ini_find(&c->ini, "data", "");
    const struct settings *s = &c->settings;
    const struct format *format = &formats[s->data_format];
    struct graph_header *h = &c->header;
    struct column_list dense = {&c->denses, &c->dense_names, &format->dense, TENSOR_DENSE},
                       sparse = {&c->fields, &c->field_names, &format->sparse, TENSOR_FIELD},
                       label = {&c->labels, &c->label_names, &format->label, TENSOR_LABEL};
    TRY(kinds_check(c, data));
    TRY(compile_vocabularies(c, source));
    TRY(names_each(c, data, data ? ini_entry_find(data, "dense") : NULL, s->data_dense, column_add, &dense));
    TRY(names_each(c, data, data ? ini_entry_find(data, "sparse") : NULL, s->data_sparse, column_add, &sparse));
    h->dense_count = h->dense_stride = c->denses.count;
    for (uint32_t i = 0; i < c->ini.section_count; i++)
        if (strcmp(c->ini.sections[i].kind, "candidates") == 0) TRY(candidates_add(c, &c->ini.sections[i]));
    /* The default names a column that only formats with free names have. */
    const struct ini_entry *label_entry = data ? ini_entry_find(data, "label") : NULL;
    if (label_entry || names_have(&format->label, s->data_label))
        TRY(names_each(c, data, label_entry, s->data_label, column_add, &label));
    TRY(columns_are_used(c));
    uint64_t key_count_max = 0;
    for (uint32_t i = 0; i < c->fields.count; i++) key_count_max += LIST_AT(c->fields, struct graph_field, i)->ids_max;
    if (key_count_max > INT32_MAX)
        return ini_fail(&c->ini, data, NULL, "expected at most %d keys an example, found %" PRIu64, INT32_MAX,
                        key_count_max);
    h->key_count_max = (uint32_t)key_count_max;
    h->has_value = format->has_value;
    TRY(compiler_string_add(c, s->data_weight, &h->weight));
    TRY(compiler_string_add(c, s->data_format == DATA_PAIRS ? "user" : s->data_group, &h->group));
    TRY(columns_standardise(c, source));
    return tensors_add(c, data);
}

/* --- vocabularies ----------------------------------------------------------------------------- */

/* A vocabulary while it is read. */
struct vocabulary_read {
    struct compiler *c;
    const struct ini_section *section;
    const char *unknown;
    struct graph_vocabulary *record;
};

static status word_add(void *to, const char *text, size_t bytes, uint64_t count)
{
    struct vocabulary_read *r = to;
    char *copy = strndup(text, bytes);
    if (copy == NULL) FAIL(MEMORY, "no memory for the words of a vocabulary");
    uint32_t offset;
    status st = compiler_string_add(r->c, copy, &offset);
    bool is_unknown = *r->unknown && strcmp(copy, r->unknown) == 0;
    free(copy);
    TRY(st);
    struct graph_word *word;
    TRY(list_add(&r->c->words, &word));
    *word = (struct graph_word){.count = count, .text = offset};
    if (is_unknown) r->record->unknown = r->record->word_count;
    r->record->word_count++;
    r->record->count += count;
    return ST_OK;
}

/* The hash of all settings that the words depend on. */
static uint64_t source_hash(const struct compiler *c, const struct vocabulary_settings *settings)
{
    char text[4096];
    int bytes = snprintf(text, sizeof text, "%s|%s|%s|%u|%u|%s", cfg_data_formats[c->settings.data_format],
                         *settings->path ? settings->path : c->settings.data_path, settings->column,
                         settings->count_min, settings->words_max, settings->unknown);
    return XXH3_64bits(text, (size_t)bytes < sizeof text ? (size_t)bytes : sizeof text);
}

static status vocabulary_add(struct compiler *c, const struct ini_section *section, const struct graph_source *source)
{
    struct vocabulary_settings settings;
    TRY(settings_read_named(&c->ini, section, "vocabulary", &settings));
    if (!is_name(section->name))
        return ini_fail(&c->ini, section, NULL, "expected [vocabulary NAME] with a name of letters, digits, _ - .");
    if (source == NULL || source->words == NULL)
        return ini_fail(&c->ini, section, NULL, "a vocabulary needs its data when the model is compiled");
    if (!*settings.path) settings.path = c->settings.data_path;
    if (!*settings.path)
        return ini_fail(&c->ini, section, NULL, "expected a path to count words in, here or in [data], found none");
    struct graph_vocabulary record = {
        .unknown = GRAPH_NONE, .word_begin = c->words.count, .source = source_hash(c, &settings)};
    TRY(compiler_string_add(c, section->name, &record.name));
    struct vocabulary_read read = {c, section, settings.unknown, &record};
    if (source->words(source->context, &settings, section->name, record.source, word_add, &read) != ST_OK)
        return ini_fail(&c->ini, section, NULL, "%s", status_message());
    if (record.word_count == 0) return ini_fail(&c->ini, section, NULL, "%s holds no word", settings.path);
    if (*settings.unknown && record.unknown == GRAPH_NONE) {
        /* The unknown word stands only for texts that are too rare to be words. */
        TRY(word_add(&read, settings.unknown, strlen(settings.unknown), 1));
    }
    struct graph_vocabulary *v;
    TRY(list_add(&c->vocabularies, &v));
    *v = record;
    return ST_OK;
}

status compile_vocabularies(struct compiler *c, const struct graph_source *source)
{
    for (uint32_t i = 0; i < c->ini.section_count; i++)
        if (strcmp(c->ini.sections[i].kind, "vocabulary") == 0) TRY(vocabulary_add(c, &c->ini.sections[i], source));
    return ST_OK;
}

/* --- a source of what another graph knows ------------------------------------------------------- */

static status known_words(void *context, const struct vocabulary_settings *settings, const char *name, uint64_t source,
                          status (*word)(void *to, const char *text, size_t bytes, uint64_t count), void *to)
{
    (void)settings;
    const struct graph *g = context;
    for (uint32_t i = 0; i < g->vocabulary_count; i++) {
        const struct graph_vocabulary *v = &g->vocabularies[i];
        if (strcmp(graph_string(g, v->name), name) != 0) continue;
        if (v->source != source)
            FAIL(INVALID, "its words were counted when the graph was compiled; "
                          "compile the model text again to count by other settings");
        for (uint32_t w = 0; w < v->word_count; w++) {
            const struct graph_word *known = &g->words[v->word_begin + w];
            const char *text = graph_string(g, known->text);
            TRY(word(to, text, strlen(text), known->count));
        }
        return ST_OK;
    }
    FAIL(INVALID, "the graph was compiled without this vocabulary; compile the model text again");
}

/* Whether the text that a graph was compiled from standardises its numeric columns. */
static status known_standardises(const struct graph *g, bool *standardises)
{
    struct ini ini;
    struct settings settings = {0};
    TRY(ini_parse(&ini, "the graph's text", g->text, g->text_bytes));
    status st = settings_read(&ini, &settings);
    *standardises = settings.data_transform == TRANSFORM_STANDARD;
    ini_free(&ini);
    return st;
}

static status known_moments(void *context, const char *const *columns, uint32_t count, double *mean, double *deviation)
{
    const struct graph *g = context;
    bool standardises;
    TRY(known_standardises(g, &standardises));
    const uint32_t known_count = g->header->dense_count;
    for (uint32_t i = 0, known = 0; i < count; i++, known++) { /* usually the next one */
        uint32_t passed = 0;
        for (; passed < known_count; passed++, known++) {
            if (known >= known_count) known = 0;
            if (strcmp(graph_string(g, g->denses[known].column), columns[i]) == 0) break;
        }
        if (passed == known_count || !standardises)
            FAIL(INVALID,
                 "the column %s was not standardised when the graph was compiled; compile the model text again",
                 columns[i]);
        mean[i] = (double)g->denses[known].mean;
        deviation[i] = g->denses[known].scale == 0 ? 0 : 1 / (double)g->denses[known].scale;
    }
    return ST_OK;
}

static status known_automaton(void *context, const char *tree, uint32_t kind_count, uint32_t *words, size_t *word_count)
{
    const struct graph *g = context;
    for (uint32_t i = 0; i < g->forward_count; i++) {
        const struct graph_node *n = &g->nodes[i];
        if (n->op != OP_ID_tree || strcmp(graph_string(g, n->name), tree) != 0) continue;
        const uint32_t cell_words = tree_cell_words(n), *known = g->args + n->program_begin + cell_words;
        *word_count = n->program_count - cell_words;
        if (*word_count == 0 || known[0] != kind_count) break;
        memcpy(words, known, *word_count * sizeof *words);
        return ST_OK;
    }
    FAIL(INVALID,
         "nothing was learned of these kinds of nodes when the graph was compiled; compile the model text again");
}

struct graph_source graph_source_of(const struct graph *known)
{
    return (struct graph_source){
        .context = (void *)known, .words = known_words, .moments = known_moments, .automaton = known_automaton};
}

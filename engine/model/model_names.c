/* Makes and reads the names of files in a model's directory (engine/model/model_names.h). */
#include "engine/model/model_names.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/heap.h"

_Static_assert(sizeof MANIFEST_NAME == sizeof MANIFEST_STEM MANIFEST_END, "one name");

static bool is_safe(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("_.-", c) != NULL;
}

status model_file_stem(char **stem, const char *table)
{
    const size_t bytes_max = 3 * strlen(table) + 1;
    char *out = *stem = malloc(bytes_max);
    if (out == NULL) FAIL(MEMORY, "no memory for the name of a file of %s, %zu bytes", table, bytes_max);
    for (const char *in = table; *in; in++)
        if (is_safe(*in))
            *out++ = *in;
        else
            out += sprintf(out, "%%%02X", (unsigned char)*in);
    *out = 0;
    return ST_OK;
}

status model_data_name(char **name, const char *stem, uint64_t step, uint32_t generation, const char *end)
{
    return generation == 0 ? heap_text(name, "%s.%" PRIu64 "%s", stem, step, end)
                           : heap_text(name, "%s.%" PRIu64 "-%u%s", stem, step, generation, end);
}

/* Takes `end` off a text of *length bytes, if the text ends with it and is longer. */
static bool end_take(const char *text, size_t *length, const char *end)
{
    size_t bytes = strlen(end);
    if (*length <= bytes || memcmp(text + *length - bytes, end, bytes) != 0) return false;
    *length -= bytes;
    return true;
}

/* Takes one or more digits off the end, and the byte `before` in front of them. */
static bool digits_take(const char *text, size_t *length, char before)
{
    size_t end = *length;
    while (end > 0 && isdigit((unsigned char)text[end - 1])) end--;
    if (end == *length || end == 0 || text[end - 1] != before) return false;
    *length = end - 1;
    return true;
}

/* Takes STEP or STEP-GENERATION off the end, and the '.' in front of it. */
static bool tag_take(const char *text, size_t *length)
{
    size_t with_generation = *length;
    if (digits_take(text, &with_generation, '-') && digits_take(text, &with_generation, '.')) {
        *length = with_generation;
        return true;
    }
    return digits_take(text, length, '.');
}

static bool is_text(const char *text, size_t length, const char *expected)
{
    return length == strlen(expected) && memcmp(text, expected, length) == 0;
}

static enum model_name_kind kind_of(const char *name, size_t length)
{
    size_t end = length;
    if (digits_take(name, &end, '.') && end_take(name, &end, ".tmp"))
        return kind_of(name, end) != MODEL_NAME_OTHER || is_text(name, end, MANIFEST_NAME) ? MODEL_NAME_TEMPORARY
                                                                                           : MODEL_NAME_OTHER;
    end = length;
    if (end_take(name, &end, MANIFEST_END))
        return tag_take(name, &end) && is_text(name, end, MANIFEST_STEM) ? MODEL_NAME_MANIFEST : MODEL_NAME_OTHER;
    end = length;
    if (end_take(name, &end, DENSE_END))
        return tag_take(name, &end) && is_text(name, end, DENSE_NAME) ? MODEL_NAME_DATA : MODEL_NAME_OTHER;
    return (end_take(name, &end, ROWS_END) || end_take(name, &end, SEGMENT_END) ||
            end_take(name, &end, ADMISSION_END)) &&
                   tag_take(name, &end) && end > 0
               ? MODEL_NAME_DATA
               : MODEL_NAME_OTHER;
}

enum model_name_kind model_name_kind(const char *name) { return kind_of(name, strlen(name)); }

bool manifest_names(const struct manifest *m, const char *name)
{
    for (uint32_t t = 0; t < m->table_count; t++) {
        const char *admission = m->tables[t].admission.name;
        if (admission != NULL && strcmp(admission, name) == 0) return true;
        for (uint32_t i = 0; i < m->tables[t].part_count; i++)
            if (strcmp(m->tables[t].part[i].file.name, name) == 0) return true;
    }
    return strcmp(m->dense.name, name) == 0;
}

status manifest_older_name(char **name, const struct manifest *m)
{
    const char *dense = m->dense.name;
    size_t end = strlen(dense), stem = end;
    if (end_take(dense, &end, DENSE_END) && (stem = end, tag_take(dense, &stem)))
        return heap_text(name, "%s%.*s%s", MANIFEST_STEM, (int)(end - stem), dense + stem, MANIFEST_END);
    return model_data_name(name, MANIFEST_STEM, m->progress.step, 0, MANIFEST_END); /* no name of a save */
}

bool model_name_has_tag_of(const char *manifest, const char *name)
{
    const char *tag = manifest + sizeof MANIFEST_STEM; /* behind the '.' */
    size_t tag_bytes = strlen(tag) - strlen(MANIFEST_END), end = strlen(name);
    if (!end_take(name, &end, DENSE_END) && !end_take(name, &end, ROWS_END) && !end_take(name, &end, ADMISSION_END))
        end_take(name, &end, SEGMENT_END);
    return end > tag_bytes && name[end - tag_bytes - 1] == '.' && memcmp(name + end - tag_bytes, tag, tag_bytes) == 0;
}

/* Reads name maps (the format is in the header): a copy of the text is cut into
 * names in place. Once a start. */
#include "engine/model/name_map.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"

/* Names come from files: a message shows this many bytes of a name. */
#define NAME_SHOWN ".120s"

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/* Cuts white space off both ends, in place. */
static char *trimmed(char *begin, char *end)
{
    while (begin < end && is_space(*begin)) begin++;
    while (end > begin && is_space(end[-1])) end--;
    *end = 0;
    return begin;
}

/* Where the line's comment begins, or the line's end. */
static char *comment_find(char *line, char *end)
{
    for (char *c = line; c < end; c++)
        if (*c == '#' && (c == line || is_space(c[-1]))) return c;
    return end;
}

static int theirs_compare(const void *a, const void *b)
{
    const struct name_pair *x = a, *y = b;
    int order = strcmp(x->theirs, y->theirs);
    return order ? order : (x->line > y->line) - (x->line < y->line);
}

static int ours_compare(const void *a, const void *b)
{
    const struct name_pair *x = a, *y = b;
    int order = strcmp(x->ours, y->ours);
    return order ? order : (x->line > y->line) - (x->line < y->line);
}

/* For pairs sorted by one of the two names: fails if two of these names are the same. */
static status twice_check(const struct name_map *map, const char *path, bool is_ours)
{
    for (uint32_t i = 1; i < map->count; i++) {
        const struct name_pair *p = &map->pairs[i - 1], *q = &map->pairs[i];
        const char *name = is_ours ? q->ours : q->theirs;
        if (strcmp(is_ours ? p->ours : p->theirs, name) == 0)
            FAIL(INVALID, "%s:%u: \"%" NAME_SHOWN "\" stands %s of \"=\" in line %u too", path, q->line, name,
                 is_ours ? "right" : "left", p->line);
    }
    return ST_OK;
}

static status line_read(struct name_map *map, const char *path, uint32_t line, char *begin, char *end)
{
    char *content = trimmed(begin, comment_find(begin, end));
    if (*content == 0) return ST_OK;
    char *equals = strchr(content, '='), *content_end = content + strlen(content);
    if (equals == NULL)
        FAIL(INVALID, "%s:%u: expected \"theirs = ours\", found \"%" NAME_SHOWN "\"", path, line, content);
    struct name_pair *pair = &map->pairs[map->count];
    *pair = (struct name_pair){trimmed(content, equals), trimmed(equals + 1, content_end), line};
    if (*pair->theirs == 0 || *pair->ours == 0 || strchr(pair->ours, '=') != NULL)
        FAIL(INVALID, "%s:%u: expected \"theirs = ours\", found \"%" NAME_SHOWN " = %" NAME_SHOWN "\"", path, line,
             pair->theirs, pair->ours);
    map->count++;
    return ST_OK;
}

static status lines_read(struct name_map *map, const char *path, size_t bytes)
{
    char *text = map->text, *text_end = text + bytes;
    uint32_t line = 0, line_max = 1;
    for (const char *c = text; c < text_end; c++) {
        if (*c == 0) FAIL(INVALID, "%s: byte %td: expected text, found a NUL byte", path, c - text);
        line_max += *c == '\n';
    }
    map->pairs = calloc(line_max, sizeof *map->pairs);
    if (map->pairs == NULL) FAIL(MEMORY, "%s: no memory for %u lines", path, line_max);
    for (char *begin = text; begin < text_end;) {
        char *end = memchr(begin, '\n', (size_t)(text_end - begin));
        if (end == NULL) end = text_end;
        TRY(line_read(map, path, ++line, begin, end));
        begin = end + 1;
    }
    qsort(map->pairs, map->count, sizeof *map->pairs, ours_compare);
    TRY(twice_check(map, path, true));
    qsort(map->pairs, map->count, sizeof *map->pairs, theirs_compare);
    return twice_check(map, path, false);
}

status name_map_parse(struct name_map *map, const char *path, const char *text, size_t bytes)
{
    *map = (struct name_map){0};
    file_mark_skip(&text, &bytes);
    if (bytes >= UINT32_MAX) FAIL(INVALID, "%s: expected less than 4 GiB of names, found %zu bytes", path, bytes);
    map->text = malloc(bytes + 1);
    if (map->text == NULL) FAIL(MEMORY, "%s: no memory for %zu bytes", path, bytes);
    if (bytes > 0) memcpy(map->text, text, bytes);
    map->text[bytes] = 0;
    status st = lines_read(map, path, bytes);
    if (st != ST_OK) name_map_free(map);
    return st;
}

void name_map_free(struct name_map *map)
{
    free(map->pairs);
    free(map->text);
    *map = (struct name_map){0};
}

const struct name_pair *name_map_find(const struct name_map *map, const char *theirs)
{
    const struct name_pair key = {.theirs = theirs};
    /* Line 0 comes before every line, so the comparison is by name alone. */
    uint32_t begin = 0, end = map->count;
    while (begin < end) {
        uint32_t middle = begin + (end - begin) / 2;
        if (theirs_compare(&map->pairs[middle], &key) < 0)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin < map->count && strcmp(map->pairs[begin].theirs, theirs) == 0 ? &map->pairs[begin] : NULL;
}

/* Reads data.label_map, and labels by it. */
#include "io/read/label_map.h"

#include <stdio.h>
#include <string.h>

#include "io/read/decimal.h"

static uint32_t entries_max(const char *text)
{
    uint32_t count = 1;
    for (; *text; text++) count += *text == ',';
    return count;
}

size_t label_map_bytes(const char *text)
{
    if (!text || !*text) return 0;
    return arena_bytes(sizeof(struct label_entry) * entries_max(text)) + arena_bytes(strlen(text));
}

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

static const char *blanks_skip(const char *at)
{
    while (is_blank(*at)) at++;
    return at;
}

/* Copies a text in quotation marks to *to, which moves behind it; returns where the text
 * ends in the map, NULL: nowhere. */
static const char *quoted_take(const char *at, char **to)
{
    for (at++; *at; at++) {
        if (*at == '"' && *++at != '"') return at;
        *(*to)++ = *at;
    }
    return NULL;
}

static const struct label_entry *entry_find(const struct label_map *map, const char *text, size_t bytes)
{
    for (uint32_t i = 0; i < map->count; i++)
        if (map->entry[i].bytes == bytes && memcmp(map->entry[i].text, text, bytes) == 0) return &map->entry[i];
    return NULL;
}

/* One TEXT=NUMBER from `at` on; returns where it ends, at a comma or at the end of the
 * map; NULL: it has another form. */
static const char *entry_take(const char *at, char **to, struct label_entry *entry, bool *is_others)
{
    const char *text = *to, *end;
    *is_others = false;
    if (*at == '"') {
        at = quoted_take(at, to);
        if (!at) return NULL;
        at = blanks_skip(at);
        end = at + strcspn(at, ",");
        if (*at != '=') return NULL;
    } else {
        end = at + strcspn(at, ",");
        const char *equals = memrchr(at, '=', (size_t)(end - at));
        if (!equals) return NULL;
        size_t bytes = (size_t)(equals - at);
        while (bytes && is_blank(at[bytes - 1])) bytes--;
        if (bytes == 0) return NULL;
        *is_others = bytes == 1 && *at == '*';
        *to = mempcpy(*to, at, bytes);
        at = equals;
    }
    const char *number = blanks_skip(at + 1), *stop = end;
    while (stop > number && is_blank(stop[-1])) stop--;
    double ignored;
    if (!decimal_parse(number, (size_t)(stop - number), &ignored, &entry->value)) return NULL;
    entry->text = text;
    entry->bytes = (uint32_t)(*to - text);
    return end;
}

status label_map_place(struct label_map *map, struct arena *arena, const char *text)
{
    *map = (struct label_map){0};
    if (!text || !*text) return ST_OK;
    map->entry = arena_take(arena, sizeof *map->entry * entries_max(text));
    char *to = arena_take(arena, strlen(text));
    for (const char *at = text;; at++) {
        struct label_entry entry;
        bool is_others;
        at = blanks_skip(at);
        const char *end = entry_take(at, &to, &entry, &is_others);
        if (!end)
            FAIL(INVALID,
                 "data.label_map: expected TEXT=NUMBER, separated by commas, as in yes=1, *=0; found \"%.40s\"", at);
        if (is_others ? map->has_others : entry_find(map, entry.text, entry.bytes) != NULL)
            FAIL(INVALID, "data.label_map: the text \"%.*s\" comes twice", (int)(entry.bytes < 40 ? entry.bytes : 40),
                 entry.text);
        if (is_others) {
            map->has_others = true;
            map->others = entry.value;
        } else {
            map->entry[map->count++] = entry;
        }
        at = end;
        if (!*at) return ST_OK;
    }
}

bool label_map_find(const struct label_map *map, const char *text, size_t bytes, float *label)
{
    double ignored;
    const bool is_number = map->count == 0 && !map->has_others;
    if (is_number && bytes == 1 && *text >= '0' && *text <= '9') { /* nearly always */
        *label = (float)(*text - '0');
        return true;
    }
    if (is_number) return decimal_parse(text, bytes, &ignored, label);
    const struct label_entry *entry = entry_find(map, text, bytes);
    if (!entry && (bytes == 0 || !map->has_others)) return false;
    *label = entry ? entry->value : map->others;
    return true;
}

const char *label_map_expected(const struct label_map *map, const char *text, size_t bytes,
                               char out[LABEL_MAP_EXPECTED_BYTES])
{
    if (map->count == 0)
        return map->has_others ? "a text" : decimal_is_beyond(text, bytes) ? DECIMAL_WITHIN : "a number";
    size_t used = 0;
    for (uint32_t i = 0; i < map->count && used < LABEL_MAP_EXPECTED_BYTES - 40; i++)
        used += (size_t)snprintf(out + used, LABEL_MAP_EXPECTED_BYTES - used, "%s%.*s",
                                 i == 0                ? ""
                                 : i + 1 == map->count ? " or "
                                                       : ", ",
                                 (int)(map->entry[i].bytes < 24 ? map->entry[i].bytes : 24), map->entry[i].text);
    return out;
}

bool label_is_in_range(const struct reader_column *column, float label)
{
    if (!column || column->label_max == 0) return true;
    return label >= 0 && label <= column->label_max && (!column->label_is_class || label == (float)(uint32_t)label);
}

const char *label_range_expected(const struct reader_column *column, char out[LABEL_MAP_EXPECTED_BYTES])
{
    if (column->label_is_class)
        snprintf(out, LABEL_MAP_EXPECTED_BYTES, "the number of a class, 0 to %g", (double)column->label_max);
    else
        snprintf(out, LABEL_MAP_EXPECTED_BYTES,
                 "0 to %g (data.label_map says what other labels stand for, as in -1=0, 1=1)",
                 (double)column->label_max);
    return out;
}

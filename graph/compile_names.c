/* Names in model text, and lists of them: "a, b, C1..C26". */
#include "graph/compiler.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

bool is_name(const char *text)
{
    if (!*text) return false;
    for (const char *p = text; *p; p++)
        if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') || *p == '_' ||
              (*p == '-' && p > text) || (*p == '.' && p > text)))
            return false;
    return true;
}

bool name_split(const char *name, size_t *stem_bytes, uint32_t *number)
{
    size_t bytes = strlen(name), digits = 0;
    while (digits < bytes && name[bytes - digits - 1] >= '0' && name[bytes - digits - 1] <= '9') digits++;
    if (digits == 0 || digits > 8 || (digits > 1 && name[bytes - digits] == '0')) return false;
    *stem_bytes = bytes - digits;
    *number = 0;
    for (size_t i = bytes - digits; i < bytes; i++) *number = *number * 10 + (uint32_t)(name[i] - '0');
    return true;
}

/* The place of a name, or the free place where it belongs; one must be free. */
static struct name_place *place_of(const struct compiler *c, const struct list *names, const char *name)
{
    uint32_t mask = names->max - 1, i = (uint32_t)XXH3_64bits(name, strlen(name)) & mask;
    struct name_place *places = names->items;
    while (places[i].name && strcmp(compiler_string(c, places[i].name - 1), name) != 0) i = (i + 1) & mask;
    return &places[i];
}

uint32_t name_number(const struct compiler *c, const struct list *names, const char *name)
{
    if (names->count == 0) return GRAPH_NONE;
    const struct name_place *place = place_of(c, names, name);
    return place->name ? place->number : GRAPH_NONE;
}

/* Doubles the places. */
static status names_grow(const struct compiler *c, struct list *names)
{
    struct list more = {.count = names->count, .max = names->max ? 2 * names->max : 64};
    more.items = calloc(more.max, sizeof(struct name_place));
    if (more.items == NULL) FAIL(MEMORY, "no memory for the names of %u records", names->count);
    for (uint32_t i = 0; i < names->max; i++) {
        const struct name_place *place = LIST_AT(*names, struct name_place, i);
        if (place->name) *place_of(c, &more, compiler_string(c, place->name - 1)) = *place;
    }
    free(names->items);
    *names = more;
    return ST_OK;
}

status name_number_add(const struct compiler *c, struct list *names, uint32_t name, uint32_t number)
{
    if (names->count >= names->max / 2) TRY(names_grow(c, names));
    struct name_place *place = place_of(c, names, compiler_string(c, name));
    if (place->name) return ST_OK;
    *place = (struct name_place){name + 1, number};
    names->count++;
    return ST_OK;
}

status names_each(struct compiler *c, const struct ini_section *section, const struct ini_entry *entry,
                  const char *text, name_each *each, void *context)
{
    while (*text) {
        size_t bytes = strcspn(text, ",");
        char item[2 * INI_NAME_BYTES_MAX + 4];
        const char *begin = text, *end = text + bytes;
        while (begin < end && (*begin == ' ' || *begin == '\t')) begin++;
        while (end > begin && (end[-1] == ' ' || end[-1] == '\t')) end--;
        if ((size_t)(end - begin) >= sizeof item)
            return ini_fail(&c->ini, section, entry, "a name of %zu bytes is too long", (size_t)(end - begin));
        memcpy(item, begin, (size_t)(end - begin));
        item[end - begin] = 0;
        text += bytes + (text[bytes] == ',');
        char *dots = strstr(item, "..");
        if (dots == NULL) {
            if (!is_name(item) || strlen(item) >= INI_NAME_BYTES_MAX)
                return ini_fail(&c->ini, section, entry,
                                "expected a name of letters, digits, _ - . between commas, found \"%s\"", item);
            TRY(each(c, section, entry, item, context));
            continue;
        }
        *dots = 0;
        size_t stem, last_stem;
        uint32_t first, last;
        if (!is_name(item) || !is_name(dots + 2) || !name_split(item, &stem, &first) ||
            !name_split(dots + 2, &last_stem, &last) || stem != last_stem || memcmp(item, dots + 2, stem) != 0 ||
            last < first || stem + 9 >= INI_NAME_BYTES_MAX)
            return ini_fail(&c->ini, section, entry, "expected a range like C1..C26, found \"%s..%s\"", item, dots + 2);
        if (last - first > 100000)
            return ini_fail(&c->ini, section, entry, "the range %s..%s has more than 100000 names", item, dots + 2);
        for (uint32_t i = first; i <= last; i++) {
            char name[INI_NAME_BYTES_MAX + 12];
            snprintf(name, sizeof name, "%.*s%u", (int)stem, item, i);
            TRY(each(c, section, entry, name, context));
        }
    }
    return ST_OK;
}

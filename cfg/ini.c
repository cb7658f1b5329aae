/* Reads, changes and writes INI text. A model is a few hundred lines read once; but anyone may have written
 * the text, so every step is linear in its bytes: a hash table finds the names already seen.
 *
 * All strings, sections and entries lie in a chain of blocks that ini->memory owns. An array grows
 * by moving to a piece of twice the size when its count reaches a power of two; the old piece
 * stays in the chain until ini_free. */
#include "cfg/ini.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "engine/base/nearest.h"

#define BLOCK_BYTES       ((size_t)16 << 10)
#define EXCERPT_BYTES_MAX 60 /* of the user's text in a message */

struct ini_block {
    struct ini_block *next;
    size_t used_bytes, size_bytes;
    _Alignas(16) unsigned char data[];
};

/* Bytes that live as long as the ini, or NULL. */
static void *ini_take(struct ini *ini, size_t bytes)
{
    bytes = (bytes + 15) & ~(size_t)15;
    struct ini_block *block = ini->memory;
    if (!block || bytes > block->size_bytes - block->used_bytes) {
        size_t size = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        struct ini_block *added = malloc(sizeof *added + size);
        if (!added) return NULL;
        *added = (struct ini_block){.next = block, .size_bytes = size};
        ini->memory = block = added;
    }
    void *taken = block->data + block->used_bytes;
    block->used_bytes += bytes;
    return taken;
}

static char *ini_copy(struct ini *ini, const char *text, size_t bytes)
{
    char *copy = ini_take(ini, bytes + 1);
    if (!copy) return NULL;
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    return copy;
}

/* Room for element `count` of an array: the array itself, or a larger copy; NULL if memory is short. */
static void *ini_grow(struct ini *ini, void *array, uint32_t count, size_t element_bytes)
{
    if (count > 0 && (count & (count - 1)) != 0) return array;
    void *grown = ini_take(ini, (count == 0 ? 1 : (size_t)count * 2) * element_bytes);
    if (grown && count > 0) memcpy(grown, array, count * element_bytes);
    return grown;
}

void ini_free(struct ini *ini)
{
    for (struct ini_block *block = ini->memory, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    *ini = (struct ini){0};
}

/* A piece of the text that is read. */
struct ini_piece {
    const char *begin;
    size_t bytes;
};

static bool is_space(char c) { return c == ' ' || c == '\t'; }
static bool is_comment(char c) { return c == ';' || c == '#'; }

static struct ini_piece piece_trim(struct ini_piece p)
{
    while (p.bytes > 0 && is_space(p.begin[0])) p.begin++, p.bytes--;
    while (p.bytes > 0 && is_space(p.begin[p.bytes - 1])) p.bytes--;
    return p;
}

/* Where the piece's first comment begins, or the end of the piece. */
static size_t comment_find(struct ini_piece p)
{
    for (size_t i = 0; i < p.bytes; i++)
        if (is_comment(p.begin[i]) && (i == 0 || is_space(p.begin[i - 1]))) return i;
    return p.bytes;
}

static bool is_key(struct ini_piece p)
{
    for (size_t i = 0; i < p.bytes; i++) {
        char c = p.begin[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!is_letter && !(c >= '0' && c <= '9') && c != '_' && c != '-') return false;
    }
    return p.bytes > 0;
}

/* For %.*s%s: the beginning of a piece, and dots where the piece goes on. */
#define EXCERPT(p)                                                                                                     \
    ((p).bytes > EXCERPT_BYTES_MAX ? EXCERPT_BYTES_MAX : (int)(p).bytes), (p).begin,                                   \
        ((p).bytes > EXCERPT_BYTES_MAX ? "..." : "")

/* Names seen so far, for ini_parse alone: open addressing, at most half full, indices begin at 1, and 0 is
 * free. An item is a section (entry_index SEEN_SECTION) or an entry of a section. */
#define SEEN_SECTION UINT32_MAX
struct seen_item {
    uint32_t section_index_plus1, entry_index;
};
struct seen {
    struct seen_item *items;
    size_t mask;
};

static bool is_same_section(const struct ini_section *section, const char *kind, const char *name)
{
    return strcmp(section->kind, kind) == 0 && strcmp(section->name, name) == 0;
}

/* The item of a section (key NULL), or of a key in the section of that index; if there is none,
 * the free item where it belongs. */
static struct seen_item *seen_find(const struct seen *seen, const struct ini *ini, uint32_t section_index,
                                   const char *key)
{
    const struct ini_section *section = &ini->sections[section_index];
    uint64_t hash =
        key ? XXH3_64bits_withSeed(key, strlen(key), section_index)
            : XXH3_64bits_withSeed(section->kind, strlen(section->kind),
                                   XXH3_64bits_withSeed(section->name, strlen(section->name), SEEN_SECTION));
    for (size_t i = hash & seen->mask;; i = (i + 1) & seen->mask) {
        struct seen_item *item = &seen->items[i];
        if (item->section_index_plus1 == 0) return item;
        if ((item->entry_index == SEEN_SECTION) != (key == NULL)) continue;
        const struct ini_section *other = &ini->sections[item->section_index_plus1 - 1];
        if (key ? other == section && strcmp(other->entries[item->entry_index].key, key) == 0
                : is_same_section(other, section->kind, section->name))
            return item;
    }
}

static status section_add(struct ini *ini, const char *kind, const char *name, uint32_t line)
{
    struct ini_section *sections = ini_grow(ini, ini->sections, ini->section_count, sizeof *sections);
    if (!kind || !name || !sections) FAIL(MEMORY, "%s: memory for its sections", ini->path);
    ini->sections = sections;
    sections[ini->section_count++] = (struct ini_section){.kind = kind, .name = name, .line = line};
    return ST_OK;
}

static status entry_add(struct ini *ini, struct ini_section *section, const char *key, const char *value, uint32_t line)
{
    struct ini_entry *entries = ini_grow(ini, section->entries, section->entry_count, sizeof *entries);
    if (!key || !value || !entries) FAIL(MEMORY, "%s: memory for its entries", ini->path);
    section->entries = entries;
    entries[section->entry_count++] = (struct ini_entry){.key = key, .value = value, .line = line};
    return ST_OK;
}

/* "[kind name]", trimmed. */
static status parse_section(struct ini *ini, struct seen *seen, struct ini_piece text, uint32_t line)
{
    const char *close = memchr(text.begin, ']', text.bytes);
    if (!close)
        FAIL(INVALID, "%s:%u: expected ']' after the section's name, found \"%.*s%s\"", ini->path, line, EXCERPT(text));
    struct ini_piece behind = {close + 1, (size_t)(text.begin + text.bytes - close - 1)};
    if (behind.bytes > 0)
        FAIL(INVALID, "%s:%u: expected the end of the line after ']', found \"%.*s%s\"", ini->path, line,
             EXCERPT(behind));
    struct ini_piece inner = piece_trim((struct ini_piece){text.begin + 1, text.bytes - 2});
    struct ini_piece kind = inner;
    for (kind.bytes = 0; kind.bytes < inner.bytes && !is_space(inner.begin[kind.bytes]);) kind.bytes++;
    struct ini_piece name = piece_trim((struct ini_piece){inner.begin + kind.bytes, inner.bytes - kind.bytes});
    if (kind.bytes == 0) FAIL(INVALID, "%s:%u: expected [kind] or [kind name], found \"[]\"", ini->path, line);
    for (size_t i = 0; i < inner.bytes; i++) {
        bool is_in_name = inner.begin + i >= name.begin;
        if (inner.begin[i] == '[' || (is_in_name && is_space(inner.begin[i])))
            FAIL(INVALID, "%s:%u: expected [kind] or [kind name], found \"%.*s%s\"", ini->path, line, EXCERPT(text));
    }
    if (kind.bytes > INI_NAME_BYTES_MAX || name.bytes > INI_NAME_BYTES_MAX)
        FAIL(INVALID, "%s:%u: expected names of at most %u bytes, found \"%.*s%s\"", ini->path, line,
             INI_NAME_BYTES_MAX, EXCERPT(text));
    if (ini->section_count == INI_SECTIONS_MAX)
        FAIL(INVALID, "%s:%u: expected at most %u sections, found another", ini->path, line, INI_SECTIONS_MAX);
    TRY(section_add(ini, ini_copy(ini, kind.begin, kind.bytes), ini_copy(ini, name.begin, name.bytes), line));
    struct seen_item *item = seen_find(seen, ini, ini->section_count - 1, NULL);
    if (item->section_index_plus1 != 0)
        FAIL(INVALID, "%s:%u: [%.*s%s%.*s] is here a second time; the first is in line %u", ini->path, line,
             (int)kind.bytes, kind.begin, name.bytes > 0 ? " " : "", (int)name.bytes, name.begin,
             ini->sections[item->section_index_plus1 - 1].line);
    *item = (struct seen_item){ini->section_count, SEEN_SECTION};
    return ST_OK;
}

/* "key = value", trimmed. */
static status parse_entry(struct ini *ini, struct seen *seen, struct ini_piece text, uint32_t line)
{
    const char *equals = memchr(text.begin, '=', text.bytes);
    if (!equals)
        FAIL(INVALID, "%s:%u: expected key = value or [section], found \"%.*s%s\"", ini->path, line, EXCERPT(text));
    struct ini_piece key = piece_trim((struct ini_piece){text.begin, (size_t)(equals - text.begin)});
    struct ini_piece value = piece_trim((struct ini_piece){equals + 1, (size_t)(text.begin + text.bytes - equals - 1)});
    if (!is_key(key))
        FAIL(INVALID, "%s:%u: expected a key of letters, digits, _ and - before '=', found \"%.*s%s\"", ini->path, line,
             EXCERPT(key));
    if (key.bytes > INI_NAME_BYTES_MAX)
        FAIL(INVALID, "%s:%u: expected a key of at most %u bytes, found %zu: \"%.*s%s\"", ini->path, line,
             INI_NAME_BYTES_MAX, key.bytes, EXCERPT(key));
    if (value.bytes > INI_VALUE_BYTES_MAX)
        FAIL(INVALID, "%s:%u: %.*s: expected a value of at most %u bytes, found %zu", ini->path, line, (int)key.bytes,
             key.begin, INI_VALUE_BYTES_MAX, value.bytes);
    if (ini->section_count == 0)
        FAIL(INVALID, "%s:%u: expected a [section] before the first key, found \"%.*s%s\"", ini->path, line,
             EXCERPT(text));
    uint32_t section_index = ini->section_count - 1;
    struct ini_section *section = &ini->sections[section_index];
    char *key_copy = ini_copy(ini, key.begin, key.bytes), *value_copy = ini_copy(ini, value.begin, value.bytes);
    if (key_copy) {
        struct seen_item *item = seen_find(seen, ini, section_index, key_copy);
        if (item->section_index_plus1 != 0)
            return ini_fail(ini, section, &(struct ini_entry){key_copy, "", line},
                            "is here a second time; the first is in line %u", section->entries[item->entry_index].line);
        *item = (struct seen_item){section_index + 1, section->entry_count};
    }
    return entry_add(ini, section, key_copy, value_copy, line);
}

static status parse_lines(struct ini *ini, struct seen *seen, struct ini_piece text)
{
    uint32_t line = 0;
    while (text.bytes > 0) {
        line++;
        const char *newline = memchr(text.begin, '\n', text.bytes);
        struct ini_piece whole = {text.begin, newline ? (size_t)(newline - text.begin) : text.bytes};
        size_t taken_bytes = whole.bytes + (newline != NULL);
        text.begin += taken_bytes, text.bytes -= taken_bytes;
        if (newline && whole.bytes > 0 && whole.begin[whole.bytes - 1] == '\r') whole.bytes--;
        for (size_t i = 0; i < whole.bytes; i++)
            if (((unsigned char)whole.begin[i] < 0x20 && whole.begin[i] != '\t') || whole.begin[i] == 0x7f)
                FAIL(INVALID, "%s:%u: expected text, found byte 0x%02x in column %zu", ini->path, line,
                     (unsigned char)whole.begin[i], i + 1);
        struct ini_piece content = piece_trim((struct ini_piece){whole.begin, comment_find(whole)});
        if (content.bytes == 0) continue;
        if (content.begin[0] == '[')
            TRY(parse_section(ini, seen, content, line));
        else
            TRY(parse_entry(ini, seen, content, line));
    }
    return ST_OK;
}

/* Writes the canonical text to `out`, unless `out` is NULL, and returns the text's bytes. */
static size_t text_write(const struct ini *ini, char *out)
{
    size_t bytes = 0;
#define PUT(string)                                                                                                    \
    do {                                                                                                               \
        size_t string_bytes_ = strlen(string);                                                                         \
        if (out) memcpy(out + bytes, string, string_bytes_);                                                           \
        bytes += string_bytes_;                                                                                        \
    } while (0)
    for (uint32_t i = 0; i < ini->section_count; i++) {
        const struct ini_section *section = &ini->sections[i];
        PUT(i > 0 ? "\n[" : "[");
        PUT(section->kind);
        PUT(section->name[0] ? " " : "");
        PUT(section->name);
        PUT("]\n");
        for (uint32_t j = 0; j < section->entry_count; j++) {
            const struct ini_entry *entry = &section->entries[j];
            PUT(entry->key);
            /* After a space, a value that begins with ';' would be a comment. */
            PUT(entry->value[0] == '\0' || is_comment(entry->value[0]) ? " =" : " = ");
            PUT(entry->value);
            PUT("\n");
        }
    }
#undef PUT
    return bytes;
}

char *ini_text(const struct ini *ini, size_t *bytes)
{
    *bytes = text_write(ini, NULL);
    char *text = malloc(*bytes + 1);
    if (text == NULL) return NULL;
    CHECK(text_write(ini, text) == *bytes);
    text[*bytes] = '\0';
    return text;
}

/* Parses into an ini that has its path; after a failure the caller frees the ini. */
static status parse(struct ini *ini, struct ini_piece text)
{
    if (text.bytes > INI_TEXT_BYTES_MAX)
        FAIL(INVALID, "%s: expected at most %u bytes, found %zu", ini->path, INI_TEXT_BYTES_MAX, text.bytes);
    if (text.bytes >= 3 && memcmp(text.begin, "\xEF\xBB\xBF", 3) == 0)
        text.begin += 3, text.bytes -= 3; /* byte order mark */

    size_t line_count = 1, item_count = 16;
    for (size_t i = 0; i < text.bytes; i++) line_count += text.begin[i] == '\n';
    while (item_count < 2 * line_count) item_count *= 2;
    struct seen seen = {.items = calloc(item_count, sizeof *seen.items), .mask = item_count - 1};
    if (!seen.items) FAIL(MEMORY, "%s: memory to read it", ini->path);
    status st = parse_lines(ini, &seen, text);
    free(seen.items);
    TRY(st);
    /* A canonical text that is too long could not be read again. */
    size_t canonical_bytes = text_write(ini, NULL);
    if (canonical_bytes > INI_TEXT_BYTES_MAX)
        FAIL(INVALID, "%s: expected at most %u bytes with one space on each side of '=', found %zu", ini->path,
             INI_TEXT_BYTES_MAX, canonical_bytes);
    return ST_OK;
}

status ini_parse(struct ini *ini, const char *path, const char *text, size_t bytes)
{
    *ini = (struct ini){0};
    ini->path = ini_copy(ini, path, strlen(path));
    if (!ini->path) FAIL(MEMORY, "%s: memory to read it", path);
    status st = parse(ini, (struct ini_piece){text, bytes});
    if (st != ST_OK) ini_free(ini);
    return st;
}

const struct ini_section *ini_find(const struct ini *ini, const char *kind, const char *name)
{
    for (uint32_t i = 0; i < ini->section_count; i++)
        if (is_same_section(&ini->sections[i], kind, name)) return &ini->sections[i];
    return NULL;
}

const struct ini_entry *ini_entry_find(const struct ini_section *section, const char *key)
{
    for (uint32_t i = 0; i < section->entry_count; i++)
        if (strcmp(section->entries[i].key, key) == 0) return &section->entries[i];
    return NULL;
}

status ini_fail(const struct ini *ini, const struct ini_section *section, const struct ini_entry *entry,
                const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    status_describe(format, arguments);
    va_end(arguments);
    const char *message = status_message();

    if (!section) FAIL(INVALID, "%s: %s", ini->path ? ini->path : "settings", message);
    const char *word = section->name[0] ? section->name : section->kind;
    if (entry && entry->line == 0) FAIL(USAGE, "--set %s.%s: %s", word, entry->key, message);
    if (!entry && section->line == 0) FAIL(USAGE, "--set %s: %s", word, message);
    FAIL(INVALID, "%s:%u: [%s%s%s]%s%s: %s", ini->path, entry ? entry->line : section->line, section->kind,
         section->name[0] ? " " : "", section->name, entry ? " " : "", entry ? entry->key : "", message);
}

const char *ini_nearest(const char *word, const char *const *names)
{
    const char *nearest = NULL;
    uint32_t distance = 0;
    for (; *names; names++) nearest_offer(&nearest, &distance, word, *names);
    return nearest;
}

static bool is_in(const char *word, const char *const *names)
{
    for (; names && *names; names++)
        if (strcmp(word, *names) == 0) return true;
    return false;
}

/* Whether --set calls the section `word`: by name, or by kind where no other section has that kind. */
static bool is_called(const struct ini *ini, const struct ini_section *section, const char *word)
{
    if (section->name[0] && strcmp(section->name, word) == 0) return true;
    if (strcmp(section->kind, word) != 0) return false;
    if (!section->name[0]) return true;
    for (uint32_t i = 0; i < ini->section_count; i++)
        if (&ini->sections[i] != section && strcmp(ini->sections[i].kind, word) == 0) return false;
    return true;
}

/* "no section is called WORD", with the name that the user may have meant. */
static status fail_unknown(const struct ini *ini, const char *assignment, const char *word, const char *const *kinds)
{
    uint32_t of_kind_count = 0, distance = 0;
    const char *nearest = NULL, *example = "";
    for (uint32_t i = 0; i < ini->section_count; i++) {
        const struct ini_section *section = &ini->sections[i];
        if (strcmp(section->kind, word) == 0) of_kind_count++, example = section->name;
        nearest_offer(&nearest, &distance, word, section->name[0] ? section->name : section->kind);
    }
    for (; kinds && *kinds; kinds++) nearest_offer(&nearest, &distance, word, *kinds);
    if (of_kind_count > 1)
        FAIL(USAGE, "--set %s: there are %u sections [%s ...]; name one, as in %s.key=value", assignment, of_kind_count,
             word, example);
    if (nearest)
        FAIL(USAGE, "--set %s: no section of %s is called \"%s\"; did you mean \"%s\"?", assignment, ini->path, word,
             nearest);
    FAIL(USAGE, "--set %s: no section of %s is called \"%s\"", assignment, ini->path, word);
}

/* The section that `word` calls; *section is NULL if there is none but `word` is one of kinds. */
static status section_resolve(struct ini *ini, const char *assignment, const char *word, const char *const *kinds,
                              struct ini_section **section)
{
    *section = NULL;
    for (uint32_t i = 0; i < ini->section_count; i++) {
        struct ini_section *other = &ini->sections[i];
        if (!is_called(ini, other, word)) continue;
        if (*section)
            FAIL(USAGE, "--set %s: \"%s\" may be [%s%s%s] in line %u or [%s%s%s] in line %u", assignment, word,
                 (*section)->kind, (*section)->name[0] ? " " : "", (*section)->name, (*section)->line, other->kind,
                 other->name[0] ? " " : "", other->name, other->line);
        *section = other;
    }
    if (!*section && !is_in(word, kinds)) return fail_unknown(ini, assignment, word, kinds);
    /* A section of another kind has the name of a kind whose section could be made, too. */
    if (*section && is_in(word, kinds) && strcmp((*section)->kind, word) != 0)
        FAIL(USAGE, "--set %s: \"%s\" may be [%s %s] in line %u or a section [%s]; write [%s] into %s", assignment,
             word, (*section)->kind, (*section)->name, (*section)->line, word, word, ini->path);
    return ST_OK;
}

/* Sets a key of the section, or of a new section [kind] if `section` is NULL. The texts belong to the ini. */
static status entry_put(struct ini *ini, struct ini_section *section, const char *kind, const char *key,
                        const char *value)
{
    struct ini_entry *entry = section ? (struct ini_entry *)(uintptr_t)ini_entry_find(section, key) : NULL;
    /* The text grows by at most "\n[kind]\nkey = value\n". */
    if (text_write(ini, NULL) + strlen(kind) + strlen(key) + strlen(value) + 8 > INI_TEXT_BYTES_MAX)
        FAIL(USAGE, "--set %s.%s=%s: with it %s would have more than %u bytes", kind, key, value, ini->path,
             INI_TEXT_BYTES_MAX);
    if (!section) {
        if (ini->section_count == INI_SECTIONS_MAX)
            FAIL(USAGE, "--set %s.%s=%s: %s has %u sections already", kind, key, value, ini->path, INI_SECTIONS_MAX);
        TRY(section_add(ini, kind, "", 0));
        section = &ini->sections[ini->section_count - 1];
    }
    if (!entry) return entry_add(ini, section, key, value, 0);
    *entry = (struct ini_entry){.key = entry->key, .value = value, .line = 0};
    return ST_OK;
}

status ini_set(struct ini *ini, const char *assignment, const char *const *kinds)
{
    const char *equals = strchr(assignment, '=');
    if (!equals) FAIL(USAGE, "--set %s: expected section.key=value, found no '='", assignment);
    const char *dot = memrchr(assignment, '.', (size_t)(equals - assignment));
    if (!dot) FAIL(USAGE, "--set %s: expected section.key=value, found no '.' before the '='", assignment);
    struct ini_piece word = piece_trim((struct ini_piece){assignment, (size_t)(dot - assignment)});
    struct ini_piece key = piece_trim((struct ini_piece){dot + 1, (size_t)(equals - dot - 1)});
    struct ini_piece value = piece_trim((struct ini_piece){equals + 1, strlen(equals + 1)});
    if (word.bytes == 0 || word.bytes > INI_NAME_BYTES_MAX)
        FAIL(USAGE, "--set %s: expected a section of 1 to %u bytes, found %zu", assignment, INI_NAME_BYTES_MAX,
             word.bytes);
    if (!is_key(key) || key.bytes > INI_NAME_BYTES_MAX)
        FAIL(USAGE, "--set %s: expected a key of at most %u letters, digits, _ and -, found \"%.*s%s\"", assignment,
             INI_NAME_BYTES_MAX, EXCERPT(key));
    if (value.bytes > INI_VALUE_BYTES_MAX)
        FAIL(USAGE, "--set %.*s: expected a value of at most %u bytes, found %zu", (int)(equals - assignment),
             assignment, INI_VALUE_BYTES_MAX, value.bytes);
    for (size_t i = 0; i < value.bytes; i++) {
        unsigned char c = (unsigned char)value.begin[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            FAIL(USAGE, "--set %.*s: expected text, found byte 0x%02x", (int)(equals - assignment), assignment, c);
        /* The value is kept as text, where white space and this character would begin a comment. */
        if (i > 0 && is_comment(value.begin[i]) && is_space(value.begin[i - 1]))
            FAIL(USAGE, "--set %s: a value cannot hold '%c' after white space", assignment, c);
    }

    char *word_copy = ini_copy(ini, word.begin, word.bytes);
    char *key_copy = ini_copy(ini, key.begin, key.bytes), *value_copy = ini_copy(ini, value.begin, value.bytes);
    if (!word_copy || !key_copy || !value_copy) FAIL(MEMORY, "--set %s: memory to keep it", assignment);
    struct ini_section *section;
    TRY(section_resolve(ini, assignment, word_copy, kinds, &section));
    return entry_put(ini, section, word_copy, key_copy, value_copy);
}

status ini_put(struct ini *ini, const char *kind, const char *key, const char *value)
{
    char *kind_copy = ini_copy(ini, kind, strlen(kind)), *key_copy = ini_copy(ini, key, strlen(key));
    char *value_copy = ini_copy(ini, value, strlen(value));
    if (!kind_copy || !key_copy || !value_copy) FAIL(MEMORY, "%s: memory to keep %s.%s", ini->path, kind, key);
    struct ini_section *section = (struct ini_section *)(uintptr_t)ini_find(ini, kind, "");
    return entry_put(ini, section, kind_copy, key_copy, value_copy);
}

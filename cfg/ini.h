/* A total reader for INI text: any bytes give sections and entries with their lines, or one error with file,
 * line, expected and found. A section is `[kind name]` (name optional), an entry `key = value`; a comment
 * starts with ';' or '#' at the start of a line or after white space. Errors are repeated sections (same
 * kind and name), repeated keys in a section, a byte below 0x20 other than tab and CR before LF, and
 * anything longer than the limits below. */
#ifndef HETERPS_CFG_INI_H
#define HETERPS_CFG_INI_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

#define INI_NAME_BYTES_MAX  128u   /* kind, name, key            */
#define INI_VALUE_BYTES_MAX 16384u /* value                      */
#define INI_TEXT_BYTES_MAX  (1u << 20)
#define INI_SECTIONS_MAX    10000u

struct ini_entry {
    const char *key, *value; /* trimmed; the value may be empty      */
    uint32_t line;           /* 1-based; 0: set on the command line  */
};
struct ini_section {
    const char *kind, *name; /* name: "" if there is none            */
    uint32_t line;
    struct ini_entry *entries;
    uint32_t entry_count;
};
struct ini {
    const char *path; /* for messages                                 */
    struct ini_section *sections;
    uint32_t section_count;
    void *memory; /* owns all strings                                */
};

/* Parses text[0..bytes) (it need not end in NUL). Keeps no argument. On failure *ini is empty. */
MUST_USE status ini_parse(struct ini *ini, const char *path, const char *text, size_t bytes);
void ini_free(struct ini *ini);

/* Applies "section.key=value" (--set). The section is named by its name ("h1.units=256"), or by its kind if
 * it has no name or is the only one of its kind ("train.batch=512"). An existing entry is replaced, a new one
 * added (cfg_read says whether the key exists). An absent section is made if its kind is one of `kinds`
 * (NULL-terminated: sections that a model may leave out, like "store"). USAGE, with the nearest known name,
 * if the assignment names no section or is ambiguous. */
MUST_USE status ini_set(struct ini *ini, const char *assignment, const char *const *kinds);

/* Sets a key of the section [kind] without a name; makes the section if it is absent. USAGE:
 * the text would become too long. */
MUST_USE status ini_put(struct ini *ini, const char *kind, const char *key, const char *value);

/* All of it as canonical text (sections and entries in order, one "key = value" a line, no comments): parses
 * to the same ini. malloc'd: yours; NULL: no memory. */
char *ini_text(const struct ini *ini, size_t *bytes);

const struct ini_section *ini_find(const struct ini *ini, const char *kind, const char *name);
const struct ini_entry *ini_entry_find(const struct ini_section *section, const char *key);

/* "PATH:LINE: [kind name] key: MESSAGE", or "--set kind.key: MESSAGE" (USAGE) when the entry came from the
 * command line. `entry` may be NULL (the section itself). Always returns a failure. */
MUST_USE status ini_fail(const struct ini *ini, const struct ini_section *section, const struct ini_entry *entry,
                         const char *format, ...) PRINTF_LIKE(4, 5);

/* The name in `names` (NULL-terminated) nearest to `word` by edit distance, or NULL if no name is near (more
 * than a third of the letters differ). For "did you mean". */
const char *ini_nearest(const char *word, const char *const *names);

#endif

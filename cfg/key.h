/* A setting is one line of a table: name, type, default, range, unit, meaning. Reading,
 * checking, --help and the reference of cfg/README.md all come from this line (cfg/keys.def for
 * the run, graph/op_*.c for the ops). */
#ifndef HETERPS_CFG_KEY_H
#define HETERPS_CFG_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cfg/ini.h"
#include "cfg/rules.h"

enum cfg_type {
    CFG_U32,    /* uint32_t; decimal, with k, M, G (powers of 1000) accepted                        */
    CFG_U64,    /* uint64_t; likewise                                                               */
    CFG_F32,    /* float; finite                                                                    */
    CFG_F64,    /* double; finite                                                                   */
    CFG_BOOL,   /* bool; yes | no | true | false | on | off | 1 | 0                                  */
    CFG_TEXT,   /* const char *; any text, points into the ini                                       */
    CFG_CHOICE, /* uint32_t; index in `choices`                                                     */
    CFG_BYTES,  /* uint64_t; 4096, 64KiB, 1.5GiB, 2GB: a number and an optional unit                  */
};

struct cfg_key {
    const char *name;
    enum cfg_type type;
    const char *fallback;       /* default as text; NULL: the key is required                              */
    double min, max;            /* for numbers, both included                                              */
    const char *unit;           /* "" if the key has no unit                                               */
    const char *meaning;        /* one line for --help                                                     */
    size_t offset;              /* of the field in the struct that cfg_read fills                          */
    const char *const *choices; /* CFG_CHOICE: NULL-terminated                                        */
    uint32_t until;             /* UNTIL (cfg/rules.h): rules up to these had                               */
    const char *before;         /* this default; until = 0: the default never changed                       */
    uint32_t older;             /* OLDER: rules up to these, fewer than until, had                          */
    const char *oldest;         /* this default; older = 0: there was no older one                          */
};

/* The key's default by the rules of the text; NULL: the key is required. */
const char *cfg_default(const struct ini *ini, const struct cfg_key *key);

/* Reads every key of a section into *out by the table; section == NULL gives the defaults. Unknown keys (with
 * the nearest known), wrong types and values out of range fail with file, line, expected and found. Texts
 * point into the ini, or at the table's default: copy a text to keep it past ini_free. */
MUST_USE status cfg_read(const struct ini *ini, const struct ini_section *section, const struct cfg_key *keys,
                         size_t key_count, void *out);

/* One "  name  type  default  range  unit  meaning" line a key, aligned; for --help and, as a Markdown table, for
 * cfg/README.md. */
void cfg_print(FILE *out, const struct cfg_key *keys, size_t key_count);
void cfg_print_markdown(FILE *out, const char *section, const struct cfg_key *keys, size_t key_count);

/* Total parsers for the types above, for command-line flags: false if the whole text is not of the type. */
bool cfg_parse_u64(const char *text, uint64_t *value);
bool cfg_parse_f64(const char *text, double *value);
bool cfg_parse_bytes(const char *text, uint64_t *value);

#endif

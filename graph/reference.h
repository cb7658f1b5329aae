/* Every section and key of a model text, from the tables that also check them: for help and cfg/README.md. */
#ifndef HETERPS_GRAPH_REFERENCE_H
#define HETERPS_GRAPH_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cfg/key.h"

void reference_print(FILE *out, bool as_markdown);

/* A word that is looked up in the tables: entries with it are printed, names near it are kept. */
#define REFERENCE_NEAR_MAX 8
struct reference_word {
    FILE *out;
    const char *word;
    bool is_known;
    const char *near[REFERENCE_NEAR_MAX];
    uint32_t near_count;
};
/* Whether the word is this name; keeps a name near to the word. */
bool reference_word_is(struct reference_word *w, const char *name);
/* Prints the section of this kind if the word names it, else each of its keys that the word names: "batch",
 * "train.batch". `title`: "train", "table NAME". */
void reference_word_keys(struct reference_word *w, const char *title, const char *kind, const struct cfg_key *keys,
                         size_t count);
/* Looks the word up in everything that a model text has: sections, ops, kinds, keys,
 * formats, optimizers, schedules. */
void reference_word_print(struct reference_word *w);

#endif

/* The rules by which a model text is read. When a newer version changes a default or a rule, graphs compiled
 * before keep theirs: [model] rules is the version of graphs whose rules and defaults hold. A compiled
 * graph's text has this key (graph_compile writes the newest into a text without it). Texts of graphs of
 * version 8, and of their saves, lack it, and mean 8.
 *
 * To change a default: its line in keys.def, or in the table of an optimizer, gets the new one, and UNTIL(8,
 * "the old one") at its end; if the key had another default before, OLDER(8, "the oldest one") follows. Other
 * differences ask rules_of, or settings.model_rules:
 *
 *   9   the field `features` needs an ids_max; [fm] needs two vectors (graph/compile_columns.c, graph/op_fm.c)
 *       keys of Criteo's columns have the columns' names for seeds, as in all formats, and not their numbers
 *       (graph/compile_columns.c)
 *   10  admit_by = bloom has a filter for every shard of a table's keys (graph/compile_parse.c)
 *   11  the word `auto` is the default optimizer (graph/optimizer_auto.c); the rules decide its meaning
 *       a table's store may be bf16 (graph/compile_parse.c)
 *   12  an fc with less than a tile of a matrix unit multiplies in float32, whatever train.precision
 *       (graph/compile_fuse.c)
 *   13  `auto` for rows of one number in a model without hidden layers is another (graph/optimizer_auto.c)
 *   14  the word `auto` is the default schedule (graph/optimizer_auto.c) */
#ifndef HETERPS_CFG_RULES_H
#define HETERPS_CFG_RULES_H

#include "cfg/ini.h"

enum { RULES_OLDEST = 8, RULES_NEWEST = 14 };

/* The least rules that allow a table's `store`. */
#define ROW_STORE_RULES 11

/* After a key's other members: rules up to these had another default. */
#define UNTIL(rules, value) .until = (rules), .before = (value)
/* Rules up to these, fewer than UNTIL's, had yet another. */
#define OLDER(rules, value) .older = (rules), .oldest = (value)

/* The rules of a text; RULES_OLDEST if it says none, or no number. */
uint32_t rules_of(const struct ini *ini);
/* Gives a text without rules the newest. */
MUST_USE status rules_settle(struct ini *ini);

#endif

/* By which rules a model text is read. When a default or a rule of a newer version differs, graphs that were
 * compiled before keep theirs: [model] rules is the version of graphs whose rules and defaults hold. A compiled
 * graph's text says it (graph_compile writes the newest into one that does not); texts of graphs of version 8,
 * and of saves by them, do not, and are of 8.
 *
 * To change a default: its line in keys.def, or in the table of an optimizer, gets the new one, and UNTIL(8,
 * "the old one") at its end; a key that had one before that, too, OLDER(8, "the oldest one") behind it. What
 * else differs asks rules_of, or settings.model_rules: the list.
 *
 *   9   the field `features` needs an ids_max; [fm] needs two vectors (graph/compile_columns.c, graph/op_fm.c)
 *       keys of Criteo's columns have their names for seeds, as those of all formats, and not their numbers
 *       (graph/compile_columns.c)
 *   10  admit_by = bloom has a filter for every shard of a table's keys (graph/compile_parse.c)
 *   11  the word `auto` is the default optimizer (graph/optimizer_auto.c); what it stands for is theirs
 *       a table's store may be bf16 (graph/compile_parse.c)
 *   12  an fc with less than a tile of a matrix unit multiplies in float32, whatever train.precision
 *       (graph/compile_fuse.c)
 *   13  `auto` for rows of one number in a model without hidden layers is another (graph/optimizer_auto.c) */
#ifndef HETERPS_CFG_RULES_H
#define HETERPS_CFG_RULES_H

#include "cfg/ini.h"

enum { RULES_OLDEST = 8, RULES_NEWEST = 13 };

/* The least that a table's store needs. */
#define ROW_STORE_RULES 11

/* Behind a key's other members: up to these rules its default was another. */
#define UNTIL(rules, value) .until = (rules), .before = (value)
/* And up to these, fewer, yet another. */
#define OLDER(rules, value) .older = (rules), .oldest = (value)

/* The rules that a text says; RULES_OLDEST if it says none, or no number. */
uint32_t rules_of(const struct ini *ini);
/* Makes a text that says none say the newest. */
MUST_USE status rules_settle(struct ini *ini);

#endif

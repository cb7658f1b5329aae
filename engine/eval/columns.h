/* The texts of some columns of the data, beside its examples: whoever reads is told the lines (struct
 * reader_listener), whoever gets the examples takes their texts, in the same order.
 *
 *     reader ──line──▶ columns that were asked for ──queue──▶ columns_next, once for each example
 *
 * Of formats whose columns have names: csv, each file by the names in its own first line or by data.columns;
 * criteo: label, I1..I13, C1..C26. A text is what is between the separators without spaces around it, as it is
 * in the line, quotation marks included; where a line lacks the labels, as for prediction it may, theirs is
 * empty. Memory: the queue, as long as reading is ahead, grows by doubling. */
#ifndef HETERPS_ENGINE_EVAL_COLUMNS_H
#define HETERPS_ENGINE_EVAL_COLUMNS_H

#include "engine/crew/setup.h"
#include "io/read/reader.h"

struct columns;
struct column_text {
    const char *text;
    size_t bytes;
};

/* `names` as data.columns has them: "C1, label". INVALID: the format has no names, or not these; of csv with a
 * line of names the reader says that. MEMORY. Keeps the set-up. */
MUST_USE status columns_open(struct columns **columns, const struct setup *setup, const char *names);
/* NULL is ignored; after the reader. */
void columns_close(struct columns *columns);
/* For the reader of the data. */
const struct reader_listener *columns_listener(struct columns *columns);

uint32_t columns_count(const struct columns *columns);
const char *columns_name(const struct columns *columns, uint32_t i);
/* texts[columns_count]: of the next example; valid until the next call. One thread at a time; the reader may be
 * at work on another. MEMORY. */
MUST_USE status columns_next(struct columns *columns, struct column_text *texts);

#endif

/* The texts of some columns of the data, beside its examples. The reader tells its lines (struct
 * reader_listener); the consumer of the examples takes their texts, in the same order.
 *
 *     reader ──line──▶ wanted columns ──queue──▶ columns_next, once for each example
 *
 * Five formats have names for columns: csv, each file by the names in its own first line or by data.columns;
 * criteo: label, I1..I13, C1..C26; libsvm, libfm and libffm: label, features (all of a line, as they stand),
 * of libsvm qid, of libfm F1, F2, … by the place in the line. A text is what lies between the separators,
 * without spaces around it but with its quotation marks. Lines for prediction may lack the labels, whose
 * texts are then empty. Memory: the queue holds what is read ahead, and grows by doubling. */
#ifndef HETERPS_ENGINE_EVAL_COLUMNS_H
#define HETERPS_ENGINE_EVAL_COLUMNS_H

#include "engine/base/file.h"
#include "engine/crew/setup.h"
#include "io/read/reader.h"

struct columns;
struct column_text {
    const char *text;
    size_t bytes;
};

/* Whether the data of the set-up's graph is of such a format. */
bool columns_have_names(const struct setup *setup);
/* `names`, which the flag `giver` gives, has the form of data.columns: "C1, label". INVALID: the format has
 * no names, or not these; for csv with a line of names the reader fails instead. MEMORY. Keeps the set-up and
 * `giver`. */
MUST_USE status columns_open(struct columns **columns, const struct setup *setup, const char *giver, const char *names);
/* NULL is ignored; the reader is closed before. */
void columns_close(struct columns *columns);
/* For the reader of the data. */
const struct reader_listener *columns_listener(struct columns *columns);

uint32_t columns_count(const struct columns *columns);
const char *columns_name(const struct columns *columns, uint32_t i);
/* Sets texts[columns_count] to the next example's, valid until the next call. One thread at a time, also
 * while the reader works on another thread. MEMORY. */
MUST_USE status columns_next(struct columns *columns, struct column_text *texts);
/* Makes one of these texts its value: of csv without the quotation marks around it, and with one mark for
 * two. */
void columns_marks_remove(struct columns *columns, struct column_text *text);
/* Writes a text as a cell of a line whose cells have tabs between them: as it stands; or, if it has a tab
 * that no quotation marks of csv hold, between marks, with its own marks doubled (RFC 4180, section 2, rules
 * 6 and 7). */
MUST_USE status columns_text_put(const struct columns *columns, struct column_text text, struct file_writer *writer);

#endif

/* Lists that are longer than ids_max, which are cut: which part of all keys is lost. */
#ifndef HETERPS_IO_READ_READER_LISTS_H
#define HETERPS_IO_READ_READER_LISTS_H

#include "io/read/reader_text.h"

/* Counts an example's keys; NULL: the pass is over. INVALID: too many keys are lost. Whoever predicts goes
 * on, for every line is to be answered, and is told once. */
MUST_USE status reader_lists_count(struct reader_text *text, const struct reader_example *example);

#endif

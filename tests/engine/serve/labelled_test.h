/* Set-ups of formats with labels, for tests of labels that come apart from their lines. */
#ifndef HETERPS_TESTS_LABELLED_TEST_H
#define HETERPS_TESTS_LABELLED_TEST_H

#include "engine/serve/labelled.h"

/* `columns` NULL: csv with a header. Of csv the labels are "click" and, of two, "buy". */
static inline struct setup labelled_setup(uint32_t format, uint32_t label_count, const char *columns)
{
    static const struct reader_column label[] = {{.name = "click"}, {.name = "buy"}};
    return (struct setup){.settings.data_format = format,
                          .schema.reader = {.example.label_count = label_count,
                                            .label = label,
                                            .separator = ',',
                                            .has_header = columns == NULL,
                                            .has_quotes = true,
                                            .columns = columns ? columns : ""}};
}

#endif

/* A net under construction: values of the graph's tensors, the data's columns
 * as inputs, tables as constants. */
#ifndef HETERPS_ENGINE_ONNX_EXPORTER_H
#define HETERPS_ENGINE_ONNX_EXPORTER_H

#include "engine/crew/setup.h"
#include "engine/onnx/onnx_net.h"

/* What the net has of a field: numbers of values; 0: not made yet. */
struct exporter_field {
    uint32_t keys;          /* INT64 [examples, ids_max] */
    uint32_t present, mask; /* whether each key is there, as BOOL and as FLOAT */
    uint32_t values;        /* FLOAT, where keys have values */
};
struct exporter {
    struct setup *setup;
    const struct graph *graph;
    struct onnx net;
    uint32_t *value;              /* [tensor_count]: each tensor's value; 0: not made yet */
    struct exporter_field *field; /* [field_count]                                      */
    uint32_t *rows;               /* [table_count, field_count]: FLOAT [examples, ids_max, dim] */
    uint32_t numbers;             /* FLOAT [examples, dense_count]: all numeric columns, transformed */
    uint64_t row_count;
};
MUST_USE status exporter_open(struct exporter *e);
void exporter_close(struct exporter *e);
/* Checks whether tables with row_count [table_count] rows fit into a file; 0: the table is
 * left out. INVALID: they do not. */
MUST_USE status exporter_tables_fit(const struct graph *g, const uint64_t *row_count);
/* Makes the value of a tensor that has numeric columns of the data. */
MUST_USE status exporter_numbers(struct exporter *e, uint32_t tensor);
/* Makes the values of a field's keys. */
MUST_USE status exporter_keys(struct exporter *e, uint32_t field);
/* Makes the rows of a field's keys in a table, each times its key's value; zeros where there is no key.
 * INVALID: in this table a key without a row is not zeros, or a key is 0. */
MUST_USE status exporter_rows(struct exporter *e, uint32_t table, uint32_t field, uint32_t *rows);

#endif

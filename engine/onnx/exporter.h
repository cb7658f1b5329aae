/* What a net is made of, as far as it is made: values of the graph's tensors, the data's columns as inputs, tables as
 * constants. */
#ifndef HETERPS_ENGINE_ONNX_EXPORTER_H
#define HETERPS_ENGINE_ONNX_EXPORTER_H

#include "engine/crew/setup.h"
#include "engine/onnx/onnx_net.h"

/* A field of which something is asked: values, or 0. */
struct exporter_field {
    uint32_t keys;          /* INT64 [examples, ids_max] */
    uint32_t present, mask; /* of each key whether it is there: as BOOL, as FLOAT */
    uint32_t values;        /* FLOAT, where keys have them */
};
struct exporter {
    struct setup *setup;
    const struct graph *graph;
    struct onnx net;
    uint32_t *value;              /* [tensor_count]: what is made of it; 0: nothing yet */
    struct exporter_field *field; /* [field_count]                                      */
    uint32_t *rows;               /* [table_count, field_count]: FLOAT [examples, ids_max, dim] */
    uint32_t numbers;             /* FLOAT [examples, dense_count]: all of them, transformed    */
    uint64_t row_count;
};
MUST_USE status exporter_open(struct exporter *e);
void exporter_close(struct exporter *e);
/* Whether tables of so many rows [table_count] fit into a file, 0 of those that are left out. INVALID: they do not. */
MUST_USE status exporter_tables_fit(const struct graph *g, const uint64_t *row_count);
/* Makes the value of a tensor of the data's numeric columns. */
MUST_USE status exporter_numbers(struct exporter *e, uint32_t tensor);
/* Makes what there is of a field's keys. */
MUST_USE status exporter_keys(struct exporter *e, uint32_t field);
/* The rows of a field's keys in a table, each times its key's value; zeros where there is no key. INVALID: keys without
 * a row are not zeros there; a key is 0. */
MUST_USE status exporter_rows(struct exporter *e, uint32_t table, uint32_t field, uint32_t *rows);

#endif

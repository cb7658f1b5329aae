/* Gathers the rows of an example's keys and pools them, a field at a time: out [B, S*D], where columns
 * s*D .. s*D+D-1 pool the rows of field s. A field without keys gives zeros. Without pooling, out [B,
 * sum over s of ids_max(s)*D]: a field's rows one after another, in the order of its keys, then zeros if
 * it has fewer than ids_max keys.
 *
 *   keys of (b, field)   key_begin[b * field_count + field] ..          row of a position   span[unique_of[position]]
 *
 *   sum    y = sum of rows              drow += dy
 *   mean   y = sum of rows * 1/n        drow += dy * 1/n
 *   max    y[d] = max over rows         drow[d] += dy[d] for the first row that has the maximum; its position is saved
 *   none   y_i = row of the i-th key    drow += dy_i
 *
 * If keys have values, "row" is the key's value times the row in all of these, and
 * drow is multiplied by the value.
 *
 * Backward goes by unique key, and within a key by occurrence in example order, so the sum of a row has
 * one order. Each op adds to sums of its own (attr.lookup), because two lookups of one table may lie in
 * stages that run at the same time. */
#include "graph/op_rules.h"
#include "graph/row_vector.h"

#include <inttypes.h>
#include <string.h>

const char *const pool_names[POOL_COUNT + 1] = {
    [POOL_SUM] = "sum", [POOL_MEAN] = "mean", [POOL_MAX] = "max", [POOL_NONE] = "none"};
struct embed_bag_keys {
    const char *table;
    uint32_t pool;
};
static const struct cfg_key embed_bag_keys[] = {
    {.name = "table",
     .type = CFG_TEXT,
     .unit = "",
     .meaning = "the [table NAME] whose rows the keys name",
     .offset = offsetof(struct embed_bag_keys, table)},
    {.name = "pool",
     .type = CFG_CHOICE,
     .fallback = "sum",
     .unit = "",
     .meaning = "what a field's rows become when it has several keys; none: "
                "they stay apart, ids_max of them, zeros after the last",
     .offset = offsetof(struct embed_bag_keys, pool),
     .choices = pool_names},
};
const struct op_keys op_embed_bag_keys = OP_KEYS(embed_bag_keys, struct embed_bag_keys);

static struct embed_bag_attr attr_of(const uint8_t *bytes)
{
    struct embed_bag_attr attr;
    memcpy(&attr, bytes, sizeof attr);
    return attr;
}

status op_embed_bag_parse(const struct op_parse *p)
{
    const struct embed_bag_keys *keys = p->keys;
    struct embed_bag_attr attr = {.table = p->table_find(p, keys->table), .pool = keys->pool};
    if (attr.table == GRAPH_NONE)
        return ini_fail(p->ini, p->section, ini_entry_find(p->section, "table"),
                        "expected the name of a table, found \"%s\"; there is no [table %s]", keys->table, keys->table);
    attr.dim = p->table_dim(p, attr.table);
    memcpy(p->attr, &attr, sizeof attr);
    return ST_OK;
}

void op_embed_bag_words(const uint8_t *attr, char *text, size_t bytes)
{
    snprintf(text, bytes, ", %s", pool_names[attr_of(attr).pool]);
}

status op_embed_bag_shape(struct op_shape *shape, const struct graph_table *tables, uint32_t table_count)
{
    struct embed_bag_attr attr = attr_of(shape->attr);
    if (shape->input_count == 0) FAIL(INVALID, "expected one or more sparse fields, found none");
    for (uint32_t i = 0; i < shape->input_count; i++)
        if (shape->input_cols[i] != 0) FAIL(INVALID, "expected sparse fields only; input %u is none", i + 1);
    if (attr.table >= table_count) FAIL(INVALID, "expected a table below %u, found %u", table_count, attr.table);
    if (attr.dim == 0 || attr.dim != tables[attr.table].dim)
        FAIL(INVALID, "expected the table's dim of %u, found %u", tables[attr.table].dim, attr.dim);
    if (attr.pool >= POOL_COUNT) FAIL(INVALID, "expected a pool below %d, found %u", POOL_COUNT, attr.pool);
    uint64_t vectors = shape->input_count;
    if (attr.pool == POOL_NONE) {
        vectors = 0;
        for (uint32_t i = 0; i < shape->input_count; i++) vectors += shape->input_keys[i];
    }
    uint64_t cols = vectors * attr.dim;
    if (vectors == 0 || cols > OP_COLS_MAX)
        FAIL(INVALID, "expected 1 to %u columns, found %" PRIu64 " vectors of %u", OP_COLS_MAX, vectors, attr.dim);
    shape->output_cols = (uint32_t)cols;
    if (attr.pool == POOL_MAX) {
        shape->saved[0].name = "argmax";
        shape->saved[0].cols = shape->output_cols;
        shape->saved[0].type = TENSOR_U32;
        shape->saved_count = 1;
    }
    /* For a field with one key; without pooling, for a field with all its keys. */
    shape->flops_forward = shape->flops_backward = cols;
    return ST_OK;
}

static uint32_t field_of(const struct op_context *c, const struct graph_node *n, uint32_t input)
{
    return c->graph->tensors[op_arg(c, n, input)].cols;
}

/* Columns of the output that input s fills. */
static uint32_t width_of(const struct op_context *c, const struct graph_node *n, const struct embed_bag_attr *attr,
                         uint32_t s)
{
    return attr->pool == POOL_NONE ? c->graph->fields[field_of(c, n, s)].ids_max * attr->dim : attr->dim;
}

static float value_of(const struct micro_batch *m, uint32_t position)
{
    return m->value != NULL ? m->value[position] : 1;
}

static void pool_max(float *out, uint32_t *argmax, const struct graph_table *table, const float *row, float value,
                     uint32_t position)
{
    for (uint32_t d = 0; d < table->dim; d++) {
        float x = row_vector_get(table, row, d) * value;
        if (argmax[d] != ROW_NONE && !(x > out[d])) continue;
        out[d] = x;
        argmax[d] = position;
    }
}

void op_embed_bag_forward(const struct op_context *c, const struct graph_node *n)
{
    struct embed_bag_attr attr = attr_of(n->attr);
    const struct micro_batch *m = c->batch;
    const struct ticket_table *t = &c->ticket->table[attr.table];
    const struct graph_table *table = &c->graph->tables[attr.table];
    struct view out = op_out(c, n);
    for (uint32_t b = 0; b < out.rows; b++) {
        uint32_t col = 0;
        for (uint32_t s = 0; s < n->input_count; s++) {
            uint32_t width = width_of(c, n, &attr, s);
            float *out_bs = view_row(out, b) + col;
            uint32_t *argmax_bs = NULL;
            if (attr.pool == POOL_MAX) argmax_bs = (uint32_t *)(void *)view_row(op_saved(c, n, 0), b) + col;
            for (uint32_t i = 0; i < width; i++) out_bs[i] = 0;
            for (uint32_t d = 0; d < attr.dim && argmax_bs; d++) argmax_bs[d] = ROW_NONE;

            uint32_t home = b * c->graph->field_count + field_of(c, n, s);
            uint32_t begin = m->key_begin[home], end = m->key_begin[home + 1];
            CHECK(attr.pool != POOL_NONE || (uint64_t)(end - begin) * attr.dim <= width);
            for (uint32_t position = begin; position < end; position++) {
                const float *row = t->span[t->unique_of[position]];
                float *to = attr.pool == POOL_NONE ? out_bs + (size_t)(position - begin) * attr.dim : out_bs;
                float value = value_of(m, position);
                if (argmax_bs)
                    pool_max(to, argmax_bs, table, row, value, position);
                else
                    for (uint32_t d = 0; d < attr.dim; d++) to[d] += row_vector_get(table, row, d) * value;
            }
            if (attr.pool == POOL_MEAN && end > begin) {
                float share = 1.0f / (float)(end - begin);
                for (uint32_t d = 0; d < attr.dim; d++) out_bs[d] *= share;
            }
            col += width;
        }
    }
}

/* Adds the part of a key's occurrence in the gradient, through the input whose columns begin at col. */
static void occurrence_add(const struct op_context *c, const struct graph_node *n, const struct embed_bag_attr *attr,
                           uint32_t position, uint32_t col, float *drow)
{
    const struct micro_batch *m = c->batch;
    uint32_t home = m->key_home[position], b = home / c->graph->field_count;
    const float *dout_bs = view_row(op_dout(c, n), b) + col;
    float factor = value_of(m, position);
    if (attr->pool == POOL_MAX) {
        const uint32_t *argmax_bs = (const uint32_t *)(const void *)view_row(op_saved(c, n, 0), b) + col;
        for (uint32_t d = 0; d < attr->dim; d++)
            if (argmax_bs[d] == position) drow[d] += dout_bs[d] * factor;
        return;
    }
    if (attr->pool == POOL_NONE) dout_bs += (size_t)(position - m->key_begin[home]) * attr->dim;
    if (attr->pool == POOL_MEAN) factor *= 1.0f / (float)(m->key_begin[home + 1] - m->key_begin[home]);
    for (uint32_t d = 0; d < attr->dim; d++) drow[d] += dout_bs[d] * factor;
}

void op_embed_bag_backward(const struct op_context *c, const struct graph_node *n)
{
    struct embed_bag_attr attr = attr_of(n->attr);
    const struct ticket_table *t = &c->ticket->table[attr.table];
    float *table_grad = c->table_grad[attr.lookup];
    for (uint32_t u = 0; u < t->unique_count; u++) {
        for (uint32_t i = t->occurrence_begin[u]; i < t->occurrence_begin[u + 1]; i++) {
            uint32_t position = t->occurrence[i], field = c->batch->key_home[position] % c->graph->field_count;
            float *drow = table_grad + (size_t)t->lane_row[graph_joined(c->graph) > 1 ? position : u] * attr.dim;
            /* The op may name a field twice, and fields of other ops not at all. */
            for (uint32_t s = 0, col = 0; s < n->input_count; col += width_of(c, n, &attr, s++))
                if (field_of(c, n, s) == field) occurrence_add(c, n, &attr, position, col, drow);
        }
    }
}

/* Checks every record of a graph before anything uses it, so that no other code has to: indices are in range;
 * sizes fit their memory and no product of sizes overflows; shapes are those that the ops' rules give;
 * forward nodes read what earlier nodes have written; backward nodes mirror them; every parameter belongs to
 * one node; nothing is overwritten while it is needed. A graph that passes may compute nonsense, but cannot
 * make a kernel leave its memory. Runs once a graph, with plain loops. */
#include "graph/graph_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "graph/init.h"
#include "graph/life.h"
#include "graph/op.h"
#include "graph/optimizer.h"
#include "graph/schedule.h"

#define FLOATS_MAX ((uint64_t)1 << 38) /* of parameters, of a slot: 1 TiB */
#define FLOPS_MAX  ((uint64_t)1 << 60)

/* The checker's knowledge of a tensor, beside its record. */
enum tensor_state {
    IS_WRITTEN = 1,      /* by a forward node                              */
    IS_GRADIENT = 2,     /* of another tensor                              */
    IS_GRAD_WRITTEN = 4, /* its gradient, by a backward node               */
    IS_OWNED = 8,        /* a parameter: by a forward node                 */
};
struct check {
    const struct graph *g;
    const char *path;
    const uint8_t *image;
    uint8_t *states;      /* [tensor_count]: enum tensor_state */
    uint32_t *input_cols; /* [2 * arg_count + 1]: scratch of a node, its inputs' columns and then keys */
    uint64_t *param_end;  /* [update_count + 1]: end of the claimed part of each run of parameters */
    uint32_t *owners;     /* [tensor_count]: trained parameters that nodes have claimed, by offset            */
    uint32_t owner_count;
    uint64_t alias_end;    /* end of the gradients of aliases claimed so far */
    uint32_t lookup_count; /* of the nodes so far */
};

/* Fails with "PATH: byte N: MESSAGE"; `record` lies at byte N of the file. */
static status bad(const struct check *c, const void *record, const char *format, ...) PRINTF_LIKE(3, 4);
static status bad(const struct check *c, const void *record, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    status_describe(format, arguments);
    va_end(arguments);
    FAIL(INVALID, "%s: byte %zu: %s", c->path, (size_t)((const uint8_t *)record - c->image), status_message());
}

/* Checks that a value is below a bound. */
static status below(const struct check *c, const uint32_t *value, uint32_t bound, const char *what)
{
    if (*value < bound) return ST_OK;
    return bad(c, value, "expected %s below %u, found %u", what, bound, *value);
}

static status within(const struct check *c, const uint32_t *value, uint32_t least, uint32_t most, const char *what)
{
    if (*value >= least && *value <= most) return ST_OK;
    return bad(c, value, "expected %s of %u to %u, found %u", what, least, most, *value);
}

static status within64(const struct check *c, const uint64_t *value, uint64_t most, const char *what)
{
    if (*value <= most) return ST_OK;
    return bad(c, value, "expected %s of at most %" PRIu64 ", found %" PRIu64, what, most, *value);
}

static status zero(const struct check *c, const uint32_t *reserved)
{
    if (*reserved == 0) return ST_OK;
    return bad(c, reserved, "expected zeros in reserved places, found %u", *reserved);
}

static status name_check(const struct check *c, const uint32_t *name)
{
    return below(c, name, (uint32_t)c->g->header->section[SECTION_STRINGS].count, "a name");
}

/* --- what stands alone ------------------------------------------------------------------------ */

static status strings_check(const struct check *c)
{
    const struct graph *g = c->g;
    uint64_t bytes = g->header->section[SECTION_STRINGS].count;
    if (bytes == 0 || g->strings[bytes - 1] != 0)
        return bad(c, g->strings + bytes, "expected strings that end in a zero byte, found none");
    for (uint64_t i = 0; i < bytes; i++)
        if (((uint8_t)g->strings[i] < 0x20 && g->strings[i] != 0) || g->strings[i] == 0x7f)
            return bad(c, &g->strings[i], "expected text without control characters, found 0x%02x",
                       (uint8_t)g->strings[i]);
    return ST_OK;
}

static status batch_check(const struct check *c)
{
    const struct graph *g = c->g;
    const struct graph_header *h = g->header;
    TRY(name_check(c, &h->name));
    TRY(within(c, &h->batch, 1, 1u << 24, "a batch"));
    TRY(within(c, &h->micro, 1, MICRO_MAX, "a micro-batch"));
    TRY(within(c, &h->lanes, 1, 1024, "lanes"));
    if (h->batch % h->micro != 0)
        return bad(c, &h->micro, "expected a divisor of the batch, %u, found %u", h->batch, h->micro);
    if (h->batch / h->micro % h->lanes != 0)
        return bad(c, &h->lanes, "expected a divisor of the %u micro-batches, found %u", h->batch / h->micro, h->lanes);
    if (h->dense_count != h->section[SECTION_DENSES].count)
        return bad(c, &h->dense_count, "expected %" PRIu64 " numeric columns, found %u",
                   h->section[SECTION_DENSES].count, h->dense_count);
    TRY(within(c, &h->dense_stride, h->dense_count, OP_COLS_MAX, "a stride"));
    if ((uint64_t)h->batch * h->key_count_max > INT32_MAX ||
        (uint64_t)h->micro * ((uint64_t)g->field_count + 1) > INT32_MAX)
        return bad(c, &h->key_count_max,
                   "expected a batch of at most 2^31 keys, found %u examples of %u keys and %u fields", h->batch,
                   h->key_count_max, g->field_count);
    if ((uint64_t)h->micro * h->dense_stride > FLOATS_MAX)
        return bad(c, &h->dense_stride, "expected fewer numbers in a micro-batch, found a stride of %u",
                   h->dense_stride);
    if (schedule_validate(&h->schedule) != ST_OK) return bad(c, &h->schedule, "%s", status_message());
    TRY(zero(c, &h->schedule.reserved));
    TRY(within64(c, &h->param_floats, FLOATS_MAX, "parameters"));
    TRY(within64(c, &h->grad_floats, FLOATS_MAX, "gradients"));
    TRY(within64(c, &h->state_floats, FLOATS_MAX * OPTIMIZER_PARAM_COUNT, "optimizer state"));
    TRY(within64(c, &h->slot_bytes, FLOATS_MAX * sizeof(float), "bytes of a slot"));
    return within64(c, &h->slot_eval_bytes, h->slot_bytes, "bytes of a slot in evaluation");
}

/* Checks the vocabulary of a field or a label. */
static status vocabulary_of_check(const struct check *c, const struct graph_field *f)
{
    return f->vocabulary == GRAPH_NONE ? ST_OK : below(c, &f->vocabulary, c->g->vocabulary_count, "a vocabulary");
}

/* Checks a column; its record must not have members of other kinds. */
static status column_check(const struct check *c, const struct graph_field *f, enum tensor_kind kind)
{
    TRY(name_check(c, &f->name));
    TRY(name_check(c, &f->column));
    TRY(within(c, &f->ids_max, kind == TENSOR_FIELD, kind == TENSOR_FIELD ? UINT16_MAX : 0, "ids_max"));
    TRY(vocabulary_of_check(c, f));
    if (!isfinite(f->mean) || !isfinite(f->scale) || (kind != TENSOR_DENSE && (f->mean != 0 || f->scale != 1)))
        return bad(c, &f->mean, "expected a finite mean and scale, 0 and 1 but of numeric columns, found %g and %g",
                   (double)f->mean, (double)f->scale);
    if (f->negative_count != 0 && kind == TENSOR_FIELD) return ST_OK;
    if (f->negative_count != 0 || f->sampler != 0 || f->sampler_power != 0 || f->log_q != GRAPH_NONE ||
        (kind != TENSOR_FIELD && f->seed != 0) || (kind == TENSOR_DENSE && f->vocabulary != GRAPH_NONE))
        return bad(c, &f->vocabulary, "expected a column without a sampler, found one with");
    return ST_OK;
}

/* Checks that the log probabilities of candidates follow the numeric columns, one field after another. */
static status candidates_check(const struct check *c, const struct graph_field *f, uint32_t *end)
{
    if (f->vocabulary == GRAPH_NONE) return bad(c, &f->vocabulary, "expected a vocabulary of candidates, found none");
    TRY(within(c, &f->negative_count, f->ids_max - 1, f->ids_max - 1, "negatives"));
    TRY(below(c, &f->sampler, SAMPLER_COUNT, "a sampler"));
    if (!(f->sampler_power >= 0 && f->sampler_power <= 2))
        return bad(c, &f->sampler_power, "expected a power of 0 to 2, found %g", (double)f->sampler_power);
    TRY(within(c, &f->log_q, *end, *end, "a place of log probabilities"));
    *end += f->ids_max;
    return ST_OK;
}

static status columns_check(const struct check *c)
{
    const struct graph *g = c->g;
    const struct graph_header *h = g->header;
    uint64_t key_count_max = 0;
    uint32_t numbers = h->dense_count;
    for (uint32_t i = 0; i < g->field_count; i++) {
        const struct graph_field *f = &g->fields[i];
        TRY(column_check(c, f, TENSOR_FIELD));
        if (f->negative_count != 0) TRY(candidates_check(c, f, &numbers));
        key_count_max += f->ids_max;
    }
    if (h->key_count_max != key_count_max)
        return bad(c, &h->key_count_max, "expected %" PRIu64 " keys an example, found %u", key_count_max,
                   h->key_count_max);
    TRY(within(c, &h->dense_stride, numbers, OP_COLS_MAX, "a stride"));
    for (uint32_t i = 0; i < h->dense_count; i++) TRY(column_check(c, &g->denses[i], TENSOR_DENSE));
    for (uint32_t i = 0; i < g->label_count; i++) TRY(column_check(c, &g->labels[i], TENSOR_LABEL));
    TRY(name_check(c, &h->weight));
    TRY(name_check(c, &h->group));
    return within(c, &h->has_value, 0, 1, "a flag");
}

/* Checks that words follow one another, vocabulary by vocabulary, from the most frequent on. */
static status vocabularies_check(const struct check *c)
{
    const struct graph *g = c->g;
    uint32_t begin = 0;
    for (uint32_t i = 0; i < g->vocabulary_count; i++) {
        const struct graph_vocabulary *v = &g->vocabularies[i];
        uint64_t count = 0;
        TRY(name_check(c, &v->name));
        TRY(within(c, &v->word_begin, begin, begin, "a first word"));
        TRY(within(c, &v->word_count, 1, g->word_count - begin, "words"));
        if (v->unknown != GRAPH_NONE) TRY(below(c, &v->unknown, v->word_count, "an unknown word"));
        for (uint32_t w = begin; w < begin + v->word_count; w++) {
            TRY(name_check(c, &g->words[w].text));
            TRY(zero(c, &g->words[w].reserved));
            TRY(within64(c, &g->words[w].count, (uint64_t)1 << 40, "occurrences"));
            if (g->words[w].count == 0) return bad(c, &g->words[w].count, "expected words that occur, found none");
            count += g->words[w].count;
        }
        if (v->count != count)
            return bad(c, &v->count, "expected %" PRIu64 " occurrences of words, found %" PRIu64, count, v->count);
        begin += v->word_count;
    }
    if (begin != g->word_count)
        return bad(c, g->words, "expected %u words of %u vocabularies, found %u", begin, g->vocabulary_count,
                   g->word_count);
    return ST_OK;
}

static status init_check(const struct check *c, const void *record, uint32_t init, float scale)
{
    if (init >= INIT_COUNT) return bad(c, record, "expected an init below %d, found %u", INIT_COUNT, init);
    if (!(scale >= 0 && scale <= INIT_SCALE_MAX))
        return bad(c, record, "expected an init scale of 0 to %g, found %g", (double)INIT_SCALE_MAX, (double)scale);
    return ST_OK;
}

static status life_check(const struct check *c, const struct row_life *life)
{
    TRY(within(c, &life->admit, 1, ADMIT_MAX, "an admit"));
    TRY(within(c, &life->admit_by, ADMIT_EXACT, ADMIT_BLOOM_SHARDS, "an admit_by"));
    TRY(within(c, &life->counts, 0, 1, "counts"));
    if (life->admit_keys == 0 || life->admit_keys > LIFE_KEYS_MAX || life->row_max > UINT32_MAX)
        return bad(c, life, "expected 1 to %.0f admit_keys and at most %u rows, found %" PRIu64 " and %" PRIu64,
                   LIFE_KEYS_MAX * 1.0, UINT32_MAX, life->admit_keys, life->row_max);
    if (life->click_label != GRAPH_NONE) TRY(below(c, &life->click_label, c->g->label_count, "a label"));
    const float factor[] = {life->score_show, life->score_click, life->delete_score, life->vector_score};
    for (size_t i = 0; i < sizeof factor / sizeof *factor; i++)
        if (!(factor[i] >= 0 && factor[i] <= LIFE_SCORE_MAX))
            return bad(c, life, "expected scores of 0 to %g, found %g", (double)LIFE_SCORE_MAX, (double)factor[i]);
    if (!(life->decay > 0 && life->decay <= 1))
        return bad(c, &life->decay, "expected a decay above 0, to 1, found %g", (double)life->decay);
    /* The compiler sets counts for each of these; what trains looks at one or the other. */
    if (life->counts == 0 && (life->row_max > 0 || life->ttl > 0 || life->delete_score > 0 || life->vector_score > 0))
        return bad(c, &life->counts,
                   "expected counts for a table with rows, ttl, delete_score or vector_score, found 0");
    return ST_OK;
}

static status tables_check(const struct check *c)
{
    const struct graph *g = c->g;
    for (uint32_t i = 0; i < g->optimizer_count; i++)
        if (optimizer_validate(&g->optimizers[i]) != ST_OK) return bad(c, &g->optimizers[i], "%s", status_message());
    for (uint32_t i = 0; i < g->table_count; i++) {
        const struct graph_table *table = &g->tables[i];
        TRY(name_check(c, &table->name));
        TRY(within(c, &table->dim, 1, 65536, "a dim"));
        TRY(below(c, &table->optimizer, g->optimizer_count, "an optimizer"));
        if (optimizer_table[g->optimizers[table->optimizer].kind].is_internal)
            return bad(c, &table->optimizer, "expected an optimizer that trains, found %s",
                       optimizer_table[g->optimizers[table->optimizer].kind].name);
        TRY(life_check(c, &table->life));
        const uint32_t stores = g->header->version < ROW_STORE_RULES ? TABLE_F32 : TABLE_STORE_COUNT - 1;
        if (table->store > stores)
            return bad(c, &table->store, "expected a store of 0 to %u, found %u", stores, table->store);
        if (table->store == TABLE_BF16) TRY(within(c, &table->dim, 1, ROW_BF16_DIM_MAX, "a dim in bf16"));
        const uint32_t span_floats = optimizer_table_floats(&g->optimizers[table->optimizer], table);
        if (table->span_floats != span_floats)
            return bad(c, &table->span_floats, "expected rows of %u floats, found %u", span_floats, table->span_floats);
        TRY(init_check(c, &table->init, table->init, table->init_scale));
    }
    return ST_OK;
}

/* Checks that updates cover the parameters once, in at most PARAM_UPDATES_MAX runs one after another, of
 * which only the first may be of trained parameters, and then every table once. */
static status updates_check(const struct check *c)
{
    const struct graph *g = c->g;
    uint64_t param_floats = 0, state_floats = 0;
    uint32_t table = 0;
    for (uint32_t i = 0; i < g->update_count; i++) {
        const struct graph_update *u = &g->updates[i];
        TRY(below(c, &u->optimizer, g->optimizer_count, "an optimizer"));
        if (u->table == GRAPH_NONE) {
            if (table != 0 || i >= PARAM_UPDATES_MAX)
                return bad(c, &u->table,
                           "expected at most %u updates of parameters, before those of tables, found update %u",
                           PARAM_UPDATES_MAX, i);
            if (i > 0 && !optimizer_table[g->optimizers[u->optimizer].kind].is_internal)
                return bad(c, &u->optimizer, "expected a rule of statistics behind the first update, found %s",
                           optimizer_table[g->optimizers[u->optimizer].kind].name);
            if (optimizer_is_for_rows(&g->optimizers[u->optimizer]))
                return bad(c, &u->optimizer, "expected a rule for parameters, found %s, which is for tables only",
                           optimizer_table[g->optimizers[u->optimizer].kind].name);
            if (u->param_offset != param_floats)
                return bad(c, &u->param_offset, "expected parameters from %" PRIu64 " on, found %" PRIu64, param_floats,
                           u->param_offset);
            TRY(within64(c, &u->param_count, g->header->param_floats - param_floats, "parameters"));
            c->param_end[i] = u->param_offset;
            param_floats += u->param_count;
            state_floats += u->param_count * optimizer_table[g->optimizers[u->optimizer].kind].state_count;
            continue;
        }
        TRY(below(c, &u->table, g->table_count, "a table"));
        if (u->table != table) return bad(c, &u->table, "expected the update of table %u, found %u", table, u->table);
        if (u->optimizer != g->tables[table].optimizer)
            return bad(c, &u->optimizer, "expected the table's optimizer, %u, found %u", g->tables[table].optimizer,
                       u->optimizer);
        if (u->param_offset != 0 || u->param_count != 0)
            return bad(c, &u->param_offset, "expected no parameters in the update of a table, found some");
        table++;
    }
    if (table != g->table_count)
        return bad(c, &g->header->section[SECTION_UPDATES], "expected an update of each of %u tables, found %u",
                   g->table_count, table);
    if (param_floats != g->header->param_floats)
        return bad(c, &g->header->param_floats, "expected updates of %" PRIu64 " parameters, found %" PRIu64,
                   g->header->param_floats, param_floats);
    if (state_floats != g->header->state_floats)
        return bad(c, &g->header->state_floats, "expected %" PRIu64 " floats of state, found %" PRIu64, state_floats,
                   g->header->state_floats);
    return ST_OK;
}

/* --- tensors ---------------------------------------------------------------------------------- */

static status param_check(const struct check *c, const struct graph_tensor *t)
{
    TRY(within(c, &t->rows, 1, OP_COLS_MAX, "rows"));
    if ((uint64_t)t->rows * t->cols > OP_PRODUCT_MAX)
        return bad(c, &t->rows, "expected at most %" PRIu64 " numbers, found %u by %u", OP_PRODUCT_MAX, t->rows,
                   t->cols);
    if (t->stride != t->cols)
        return bad(c, &t->stride, "expected rows of %u without a gap, found a stride of %u", t->cols, t->stride);
    TRY(within64(c, &t->offset, c->g->header->grad_floats, "an offset"));
    TRY(below(c, &t->update, c->g->update_count, "an update"));
    const struct graph_update *u = &c->g->updates[t->update];
    if (u->table != GRAPH_NONE)
        return bad(c, &t->update, "expected an update of parameters, found update %u of a table", t->update);
    if (t->kind == TENSOR_PARAM_GRAD && t->is_alias) return ST_OK; /* where: alias_own */
    if (t->offset < u->param_offset || t->offset + graph_param_floats(t) > u->param_offset + u->param_count)
        return bad(c, &t->offset,
                   "expected a parameter within the %" PRIu64 " floats from %" PRIu64
                   " on of its update, found %u by %u from %" PRIu64 " on",
                   u->param_count, u->param_offset, t->rows, t->cols, t->offset);
    return ST_OK;
}

static status tensor_check(const struct check *c, const struct graph_tensor *t)
{
    const struct graph *g = c->g;
    TRY(name_check(c, &t->name));
    if (t->kind >= TENSOR_KIND_COUNT || t->type >= TENSOR_TYPE_COUNT)
        return bad(c, &t->kind, "expected a kind below %d and a type below %d, found %u and %u", TENSOR_KIND_COUNT,
                   TENSOR_TYPE_COUNT, t->kind, t->type);
    if (t->type != TENSOR_F32 && t->kind != TENSOR_ACTIVATION)
        return bad(c, &t->type, "expected integers in activations only, found them in kind %u", t->kind);
    bool is_constant = t->kind == TENSOR_PARAM && t->init == TENSOR_INIT_CONSTANT;
    TRY(init_check(c, &t->init, is_constant ? INIT_ZEROS : t->init, t->init_scale));
    bool is_param = t->kind == TENSOR_PARAM || t->kind == TENSOR_PARAM_GRAD;
    if (t->is_alias > is_param)
        return bad(c, &t->is_alias, "expected an alias of a parameter to be marked with 1, found %u in kind %u",
                   t->is_alias, t->kind);
    if (!is_param) TRY(within(c, &t->update, 0, 0, "an update of what is no parameter"));
    if (t->kind == TENSOR_FIELD) return below(c, &t->cols, g->field_count, "a field");
    TRY(within(c, &t->cols, 1, OP_COLS_MAX, "columns"));
    TRY(within(c, &t->stride, t->cols, OP_COLS_MAX + 16, "a stride"));
    if (is_param) return param_check(c, t);
    TRY(within(c, &t->rows, 0, t->kind == TENSOR_ACTIVATION, "rows"));
    if (t->kind == TENSOR_ACTIVATION) {
        TRY(within64(c, &t->offset, g->header->slot_bytes, "an offset"));
        if (t->offset % CACHE_LINE_BYTES != 0)
            return bad(c, &t->offset, "expected an offset on a cache line, found %" PRIu64, t->offset);
    } else if (t->kind == TENSOR_DENSE) {
        if (t->offset > OP_COLS_MAX || t->offset + t->cols > g->header->dense_stride ||
            t->stride != g->header->dense_stride)
            return bad(c, &t->cols,
                       "expected columns within the %u numbers of an example, found %u from %" PRIu64 " on",
                       g->header->dense_stride, t->cols, t->offset);
    } else if (t->cols != 1 || t->stride != g->label_count || t->offset >= g->label_count) {
        return bad(c, &t->cols, "expected one of %u labels of one column, found another", g->label_count);
    }
    return ST_OK;
}

static status grad_check(const struct check *c, const struct graph_tensor *t)
{
    if (t->grad == GRAPH_NONE) return ST_OK;
    TRY(below(c, &t->grad, c->g->tensor_count, "a gradient"));
    const struct graph_tensor *d = &c->g->tensors[t->grad];
    bool fits = (t->kind == TENSOR_PARAM && d->kind == TENSOR_PARAM_GRAD && d->is_alias == t->is_alias &&
                 (t->is_alias || d->offset == t->offset) && d->update == t->update) ||
                (t->kind == TENSOR_ACTIVATION && d->kind == TENSOR_ACTIVATION && t->type == TENSOR_F32 &&
                 d->type == TENSOR_F32);
    if (!fits || d->rows != t->rows || d->cols != t->cols || d->grad != GRAPH_NONE || d == t)
        return bad(c, &t->grad, "expected a gradient of the tensor's kind and shape, found tensor %u", t->grad);
    if (c->states[t->grad] & IS_GRADIENT)
        return bad(c, &t->grad, "expected a gradient of one tensor, found tensor %u, which is another's", t->grad);
    c->states[t->grad] |= IS_GRADIENT;
    return ST_OK;
}

static status tensors_check(const struct check *c)
{
    const struct graph *g = c->g;
    for (uint32_t i = 0; i < g->tensor_count; i++) TRY(tensor_check(c, &g->tensors[i]));
    for (uint32_t i = 0; i < g->tensor_count; i++) TRY(grad_check(c, &g->tensors[i]));
    for (uint32_t i = 0; i < g->tensor_count; i++)
        if (g->tensors[i].kind == TENSOR_PARAM_GRAD && !(c->states[i] & IS_GRADIENT))
            return bad(c, &g->tensors[i], "expected the gradient of a parameter, found one of none");
    return ST_OK;
}

/* --- nodes ------------------------------------------------------------------------------------ */

static status node_check(const struct check *c, const struct graph_node *n)
{
    const struct graph *g = c->g;
    TRY(below(c, &n->op, OP_ID_COUNT, "an op"));
    TRY(below(c, &n->pass, PASS_COUNT, "a pass"));
    TRY(below(c, &n->layer, g->layer_count, "a layer"));
    TRY(name_check(c, &n->name));
    TRY(within(c, &n->input_count, 1, GRAPH_COUNT_MAX, "inputs"));
    TRY(within(c, &n->param_count, 0, OP_PARAMS_MAX, "parameters"));
    TRY(within(c, &n->output_count, n->pass == PASS_FORWARD, n->pass == PASS_FORWARD, "outputs"));
    TRY(within(c, &n->saved_count, 0, OP_SAVED_MAX, "saved tensors"));
    uint64_t arg_end = (uint64_t)n->arg_begin + n->input_count + n->param_count + n->output_count + n->saved_count;
    if (arg_end > g->arg_count)
        return bad(c, &n->arg_begin, "expected arguments below %u, found %" PRIu64, g->arg_count, arg_end);
    bool is_tree = n->op == OP_ID_tree && n->pass == PASS_FORWARD;
    uint64_t program_end = (uint64_t)n->program_begin + n->program_count;
    if (program_end > (is_tree ? g->arg_count : 0))
        return bad(c, &n->program_begin, "expected a program within %u words, found it end at %" PRIu64,
                   is_tree ? g->arg_count : 0, program_end);
    return ST_OK;
}

/* Whether a tensor may be input k of a node. */
static bool input_fits(const struct check *c, const struct graph_node *n, uint32_t k, uint32_t tensor)
{
    const struct graph_tensor *t = &c->g->tensors[tensor];
    if (op_input_is_field(op_table[n->op].inputs, k)) return t->kind == TENSOR_FIELD;
    if (op_table[n->op].inputs == OP_INPUTS_CANDIDATES && k == 1) return t->kind == TENSOR_DENSE;
    if (k == op_label_input(n)) return t->kind == TENSOR_LABEL;
    return t->kind == TENSOR_DENSE ||
           (t->kind == TENSOR_ACTIVATION && t->type == TENSOR_F32 && t->rows == 0 && c->states[tensor] & IS_WRITTEN);
}

/* Checks a tensor that a forward node writes: no other node may write it. */
static status output_check(const struct check *c, const uint32_t *arg, uint32_t rows, uint32_t cols,
                           enum tensor_type type)
{
    const struct graph_tensor *t = &c->g->tensors[*arg];
    if (t->kind != TENSOR_ACTIVATION || t->type != type || t->rows != rows || t->cols != cols)
        return bad(c, arg,
                   "expected a result of %u columns of type %d in %u rows (0: one an example), "
                   "found tensor %u of kind %u, %u columns of type %u in %u rows",
                   cols, type, rows, *arg, t->kind, t->cols, t->type, t->rows);
    if (c->states[*arg] & (IS_WRITTEN | IS_GRADIENT))
        return bad(c, arg, "expected a tensor that no other node writes, found %u", *arg);
    c->states[*arg] |= IS_WRITTEN;
    return ST_OK;
}

/* Checks that an alias has place and shape of a trained parameter that an earlier node has
 * claimed, and that its gradient comes right behind that of the alias before, or behind the
 * parameters': so no gradients overlap. */
static status alias_own(struct check *c, const uint32_t *arg)
{
    const struct graph *g = c->g;
    const struct graph_tensor *t = &g->tensors[*arg];
    uint32_t begin = 0, end = c->owner_count;
    while (begin < end) {
        uint32_t middle = begin + (end - begin) / 2;
        if (g->tensors[c->owners[middle]].offset < t->offset)
            begin = middle + 1;
        else
            end = middle;
    }
    const struct graph_tensor *owner = begin < c->owner_count ? &g->tensors[c->owners[begin]] : NULL;
    if (owner == NULL || owner->offset != t->offset || owner->rows != t->rows || owner->cols != t->cols ||
        owner->update != t->update)
        return bad(c, t,
                   "expected an alias of a trained parameter of an earlier node, %u by %u from %" PRIu64
                   " on, found none there",
                   t->rows, t->cols, t->offset);
    if (c->states[*arg] & IS_OWNED) return bad(c, arg, "expected an alias of one node, found %u a second time", *arg);
    c->states[*arg] |= IS_OWNED;
    if (t->grad == GRAPH_NONE) return ST_OK;
    const struct graph_tensor *d = &g->tensors[t->grad];
    if (d->offset != c->alias_end)
        return bad(c, &d->offset, "expected the gradient of an alias from %" PRIu64 " on, found it from %" PRIu64 " on",
                   c->alias_end, d->offset);
    c->alias_end += graph_param_floats(d);
    return ST_OK;
}

/* Checks that a parameter comes right behind the one before it in its update, so that it belongs to this node
 * alone, and the nodes of a stage own one stretch; and that its update fits it. */
/* rule: the statistic's; NULL: the parameter is trained. */
static status param_own(struct check *c, const uint32_t *arg, const struct graph_optimizer *rule)
{
    const struct graph_tensor *t = &c->g->tensors[*arg];
    if (t->is_alias && rule == NULL) return alias_own(c, arg);
    if (t->is_alias) return bad(c, &t->is_alias, "expected a statistic of the node's own, found an alias");
    if (t->offset != c->param_end[t->update])
        return bad(c, &t->offset,
                   "expected parameters in the order of their nodes and without gaps, this one from %" PRIu64
                   " on, found it from %" PRIu64 " on",
                   c->param_end[t->update], t->offset);
    c->param_end[t->update] += graph_param_floats(t);
    c->states[*arg] |= IS_OWNED;
    if (rule == NULL) c->owners[c->owner_count++] = *arg;
    const struct graph_optimizer *o = &c->g->optimizers[c->g->updates[t->update].optimizer];
    if (rule == NULL ? optimizer_table[o->kind].is_internal : rule->kind != o->kind)
        return bad(c, &t->update, "expected %s for this parameter, found %s",
                   rule == NULL ? "an optimizer that trains" : optimizer_table[rule->kind].name,
                   optimizer_table[o->kind].name);
    if (rule != NULL && memcmp(o, rule, sizeof *rule) != 0)
        return bad(c, &t->update, "expected %s with the op's %s of %g, found another", optimizer_table[o->kind].name,
                   optimizer_table[o->kind].params[0].name, (double)rule->param[0]);
    return ST_OK;
}

/* Checks the node's tensors against the op's shape rule. */
static status shape_check(struct check *c, const struct graph_node *n)
{
    const struct graph *g = c->g;
    const uint32_t *args = &g->args[n->arg_begin], *params = args + n->input_count, *output = params + n->param_count,
                   *saved = output + 1;
    uint32_t *input_keys = c->input_cols + n->input_count;
    struct op_shape s = {.attr = n->attr,
                         .input_count = n->input_count,
                         .input_cols = c->input_cols,
                         .input_keys = input_keys,
                         .program = g->args + n->program_begin,
                         .program_count = n->program_count,
                         .rules = g->header->version};
    for (uint32_t k = 0; k < n->input_count; k++)
        op_input_measure(&g->tensors[args[k]], g->fields, &c->input_cols[k], &input_keys[k]);
    if (op_table[n->op].shape(&s, g->tables, g->table_count) != ST_OK) return bad(c, n, "%s", status_message());
    if (n->param_count != s.param_count || n->saved_count != s.saved_count)
        return bad(c, &n->param_count, "expected %u parameters and %u saved tensors, found %u and %u", s.param_count,
                   s.saved_count, n->param_count, n->saved_count);
    for (uint32_t k = 0; k < s.param_count; k++) {
        const struct graph_tensor *t = &g->tensors[params[k]];
        if (t->kind != TENSOR_PARAM || t->rows != s.param[k].rows || t->cols != s.param[k].cols)
            return bad(c, &params[k], "expected a parameter of %u by %u, found tensor %u of kind %u, %u by %u",
                       s.param[k].rows, s.param[k].cols, params[k], t->kind, t->rows, t->cols);
        TRY(param_own(c, &params[k], s.param[k].is_statistic ? &s.param[k].rule : NULL));
    }
    TRY(output_check(c, output, 0, s.output_cols, TENSOR_F32));
    for (uint32_t k = 0; k < s.saved_count; k++)
        TRY(output_check(c, &saved[k], s.saved[k].is_single, s.saved[k].cols, s.saved[k].type));
    return ST_OK;
}

/* Checks that lookups are numbered in the order of their nodes. */
static status lookup_check(struct check *c, const struct graph_node *n)
{
    struct embed_bag_attr attr;
    if (!(op_table[n->op].traits & OP_LOOKS_UP)) return ST_OK;
    memcpy(&attr, n->attr, sizeof attr);
    if (attr.lookup != c->lookup_count)
        return bad(c, n->attr + offsetof(struct embed_bag_attr, lookup), "expected lookup %u, found %u",
                   c->lookup_count, attr.lookup);
    c->lookup_count++;
    return ST_OK;
}

static status forward_check(struct check *c, const struct graph_node *n)
{
    const struct graph *g = c->g;
    const struct op *op = &op_table[n->op];
    const uint32_t *args = &g->args[n->arg_begin], count = n->input_count + n->param_count + 1 + n->saved_count;
    for (uint32_t k = 0; k < count; k++) TRY(below(c, &args[k], g->tensor_count, "a tensor"));
    for (uint32_t k = 0; k < n->input_count; k++)
        if (!input_fits(c, n, k, args[k]))
            return bad(c, &args[k], "expected an input of %s %s that is known here, found tensor %u", op->name,
                       graph_string(g, n->name), args[k]);
    TRY(shape_check(c, n));
    TRY(lookup_check(c, n));
    for (uint32_t k = 0; k < count; k++) {
        const struct graph_tensor *t = &g->tensors[args[k]];
        if (t->kind == TENSOR_ACTIVATION && graph_activation_end(g->header, t) > g->header->slot_eval_bytes)
            return bad(c, &t->offset,
                       "expected a tensor within the %" PRIu64
                       " bytes of a slot in evaluation, found one up to %" PRIu64,
                       g->header->slot_eval_bytes, graph_activation_end(g->header, t));
    }
    return ST_OK;
}

/* Checks that a gradient that a backward node reads or writes lies within the slot. */
static status gradient_place_check(const struct check *c, uint32_t tensor)
{
    const struct graph_tensor *d = &c->g->tensors[c->g->tensors[tensor].grad];
    if (d->kind == TENSOR_ACTIVATION && graph_activation_end(c->g->header, d) > c->g->header->slot_bytes)
        return bad(c, &d->offset, "expected a tensor within the %" PRIu64 " bytes of a slot, found one up to %" PRIu64,
                   c->g->header->slot_bytes, graph_activation_end(c->g->header, d));
    return ST_OK;
}

static status backward_check(const struct check *c, const struct graph_node *n)
{
    const struct graph *g = c->g;
    const struct graph_node *forward = &g->nodes[n->other];
    const uint32_t *inputs = &g->args[forward->arg_begin], *flags = &g->args[n->arg_begin];
    uint32_t output = inputs[forward->input_count + forward->param_count];
    if (n->input_count != forward->input_count || n->param_count != 0 || n->saved_count != 0)
        return bad(c, &n->input_count, "expected a flag for each of %u inputs, found %u, %u and %u arguments",
                   forward->input_count, n->input_count, n->param_count, n->saved_count);
    if (op_table[n->op].traits & OP_IS_METRIC) return bad(c, n, "expected no backward node of a metric, found one");
    if (!(op_table[n->op].traits & OP_IS_LOSS)) {
        if (g->tensors[output].grad == GRAPH_NONE || !(c->states[output] & IS_GRAD_WRITTEN))
            return bad(c, n, "expected a gradient of tensor %u that an earlier node has written, found none", output);
        TRY(gradient_place_check(c, output));
    }
    for (uint32_t k = 0; k < n->input_count; k++) {
        bool has_grad = g->tensors[inputs[k]].grad != GRAPH_NONE;
        uint32_t expected = has_grad && c->states[inputs[k]] & IS_GRAD_WRITTEN;
        if (flags[k] != expected)
            return bad(c, &flags[k], "expected %u, since the gradient of tensor %u is %s, found %u", expected,
                       inputs[k], expected ? "written already" : "not written yet", flags[k]);
        if (has_grad) TRY(gradient_place_check(c, inputs[k]));
        c->states[inputs[k]] |= IS_GRAD_WRITTEN;
    }
    return ST_OK;
}

/* Checks that forward and backward nodes name each other, that backward nodes come in the reverse order of
 * their forward nodes, and that a layer's nodes are neighbours. */
static status order_check(const struct check *c)
{
    const struct graph *g = c->g;
    for (uint32_t i = 0; i < g->node_count; i++) {
        const struct graph_node *n = &g->nodes[i];
        bool is_forward = i < g->forward_count;
        TRY(node_check(c, n));
        if ((n->pass == PASS_FORWARD) != is_forward)
            return bad(c, &n->pass, "expected no forward node behind a backward one, found node %u", i);
        if (is_forward && n->other == GRAPH_NONE) continue;
        TRY(below(c, &n->other, g->node_count, "a node"));
        const struct graph_node *other = &g->nodes[n->other];
        if ((n->other < g->forward_count) == is_forward || other->other != i || other->op != n->op ||
            other->layer != n->layer)
            return bad(c, &n->other, "expected the %s node of node %u, found node %u",
                       is_forward ? "backward" : "forward", i, n->other);
        if (i > g->forward_count && n[-1].other <= n->other && !is_forward)
            return bad(c, &n->other, "expected a forward node before %u, found %u", n[-1].other, n->other);
    }
    for (uint32_t i = 0; i < g->forward_count; i++) {
        uint32_t layer = g->nodes[i].layer, before = i == 0 ? 0 : g->nodes[i - 1].layer;
        if (layer != before && (i == 0 || layer != before + 1))
            return bad(c, &g->nodes[i].layer, "expected layer %u or the next, found %u", before, layer);
    }
    if (g->forward_count == 0 || g->nodes[g->forward_count - 1].layer + 1 != g->layer_count)
        return bad(c, &g->header->section[SECTION_LAYERS],
                   "expected nodes in each of %u layers, found none in the last", g->layer_count);
    return ST_OK;
}

/* Checks that nodes have claimed every parameter, every float of an update,
 * and every float of the gradients. */
static status owners_check(const struct check *c)
{
    const struct graph *g = c->g;
    for (uint32_t i = 0; i < g->tensor_count; i++)
        if (g->tensors[i].kind == TENSOR_PARAM && !(c->states[i] & IS_OWNED))
            return bad(c, &g->tensors[i], "expected a parameter of a node, found one of none");
    for (uint32_t i = 0; i < g->update_count && g->updates[i].table == GRAPH_NONE; i++)
        if (c->param_end[i] != g->updates[i].param_offset + g->updates[i].param_count)
            return bad(c, &g->updates[i].param_count, "expected an update of %" PRIu64 " floats, found %" PRIu64,
                       c->param_end[i] - g->updates[i].param_offset, g->updates[i].param_count);
    if (c->alias_end != g->header->grad_floats)
        return bad(c, &g->header->grad_floats, "expected %" PRIu64 " floats of gradients, found %" PRIu64, c->alias_end,
                   g->header->grad_floats);
    return ST_OK;
}

static status nodes_check(struct check *c)
{
    const struct graph *g = c->g;
    bool has_loss = false;
    TRY(order_check(c));
    c->alias_end = g->header->param_floats;
    for (uint32_t i = 0; i < g->forward_count; i++) {
        const struct graph_node *n = &g->nodes[i];
        TRY(forward_check(c, n));
        has_loss |= (op_table[n->op].traits & OP_IS_LOSS) != 0;
    }
    if (!has_loss) return bad(c, g->nodes, "expected a loss, found none");
    TRY(owners_check(c));
    for (uint32_t i = g->forward_count; i < g->node_count; i++) TRY(backward_check(c, &g->nodes[i]));
    return ST_OK;
}

/* Checks that no two activations in use at the same time share bytes. */
static status places_check(const struct check *c)
{
    struct life life;
    uint32_t tensor;
    if (life_collision_find(c->g, &tensor, &life) != ST_OK) FAIL(MEMORY, "%s: no memory to check the graph", c->path);
    if (tensor == GRAPH_NONE) return ST_OK;
    const struct graph_tensor *t = &c->g->tensors[tensor];
    return bad(c, &t->offset,
               "expected tensor %u at a place that is free from node %u to %u, found bytes %" PRIu64 " to %" PRIu64
               " of the slot, where another tensor is in use",
               tensor, life.begin, life.end, t->offset, graph_activation_end(c->g->header, t));
}

/* --- what follows from the nodes -------------------------------------------------------------- */

static status layers_check(const struct check *c)
{
    const struct graph *g = c->g;
    for (uint32_t i = 0; i < g->layer_count; i++) {
        const struct graph_layer *l = &g->layers[i];
        TRY(name_check(c, &l->name));
        TRY(zero(c, &l->reserved));
        TRY(within64(c, &l->param_count, FLOATS_MAX, "parameters"));
        TRY(within64(c, &l->flops_forward, FLOPS_MAX, "operations"));
        TRY(within64(c, &l->flops_backward, FLOPS_MAX, "operations"));
        TRY(within64(c, &l->input_bytes, FLOATS_MAX, "bytes"));
        TRY(within64(c, &l->output_bytes, FLOATS_MAX, "bytes"));
    }
    return ST_OK;
}

/* Checks the numbers of fields and keys that each table serves. */
static status serves_check(const struct check *c)
{
    const struct graph *g = c->g;
    uint8_t *serves = malloc((size_t)g->field_count + 1);
    if (serves == NULL) FAIL(MEMORY, "%s: no memory to check the graph", c->path);
    status st = ST_OK;
    for (uint32_t i = 0; i < g->table_count && st == ST_OK; i++) {
        const struct graph_table *table = &g->tables[i];
        graph_table_serves(g, i, serves);
        uint32_t field_count = 0, key_count_max = 0;
        for (uint32_t field = 0; field < g->field_count; field++) {
            field_count += serves[field];
            key_count_max += serves[field] ? g->fields[field].ids_max : 0;
        }
        if (field_count == 0 || table->field_count != field_count || table->key_count_max != key_count_max)
            st = bad(c, &table->field_count, "expected a table of %u fields and %u keys, found %u and %u", field_count,
                     key_count_max, table->field_count, table->key_count_max);
    }
    free(serves);
    return st;
}

static status all_check(struct check *c)
{
    TRY(strings_check(c));
    TRY(batch_check(c));
    TRY(vocabularies_check(c));
    TRY(columns_check(c));
    TRY(tables_check(c));
    TRY(updates_check(c));
    TRY(tensors_check(c));
    TRY(nodes_check(c));
    TRY(places_check(c));
    TRY(layers_check(c));
    return serves_check(c);
}

status graph_check(const struct graph *graph, const char *path, const uint8_t *image)
{
    struct check c = {.g = graph, .path = path, .image = image};
    c.states = calloc((size_t)graph->tensor_count + 1, 1);
    c.input_cols = calloc(2 * (size_t)graph->arg_count + 1, sizeof *c.input_cols);
    c.param_end = calloc((size_t)graph->update_count + 1, sizeof *c.param_end);
    c.owners = calloc((size_t)graph->tensor_count + 1, sizeof *c.owners);
    status st = ST_OK;
    if (c.states == NULL || c.input_cols == NULL || c.param_end == NULL || c.owners == NULL)
        st = status_fail(ST_MEMORY, __FILE__, __LINE__, "%s: no memory to check the graph", path);
    if (st == ST_OK) st = all_check(&c);
    free(c.states);
    free(c.input_cols);
    free(c.param_end);
    free(c.owners);
    return st;
}

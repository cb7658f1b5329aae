/* Measures the sparse path on a hand-made graph of one lookup, without data and model text. A micro-batch is
 * drawn, then each part is timed on it: caches are as in training, where a micro-batch is new, too. */
#include "engine/bench/sparse.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/cores.h"
#include "engine/base/fmath.h"
#include "engine/base/memory.h"
#include "engine/bench/watch.h"
#include "engine/device/cpu/cpu_device.h"
#include "engine/slot/step_rows.h"
#include "graph/op.h"
#include "graph/optimizer.h"
#include "io/store/store_rows.h"
#include "io/store/store_ticket.h"

#define PART       "benchmark"
#define FIELDS_MAX 64u

const char *const sparse_part_names[SPARSE_PART_COUNT + 1] = {"prepare",  "number", "forward",
                                                              "backward", "update", NULL};

struct sparse_bench {
    struct sparse_bench_options o;
    uint64_t draw; /* the state of draw_u64 */
    double zipf_reach;
    /* the graph */
    struct graph graph;
    struct graph_header header;
    struct graph_table table;
    struct graph_optimizer optimizer;
    struct graph_field field[FIELDS_MAX];
    struct graph_tensor tensor[FIELDS_MAX + 2];
    struct view view[FIELDS_MAX + 2];
    uint32_t args[2 * FIELDS_MAX + 1];
    struct graph_node node[2];
    /* data of the graph */
    struct arena arena;
    struct micro_batch batch;
    struct ticket ticket;
    struct step_rows rows;
    struct row_numbers numbers;
    float *grad;
    float *block; /* resolved: the spans */
    size_t block_bytes;
    struct store *store; /* keyed */
    struct op_context context;
    struct device *device;
};

/* --- drawing ------------------------------------------------------------------------------------ */

static uint64_t mix(uint64_t bits)
{
    bits = (bits ^ bits >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    bits = (bits ^ bits >> 27) * UINT64_C(0x94d049bb133111eb);
    return bits ^ bits >> 31;
}
static uint64_t draw_u64(uint64_t *draw) { return mix(*draw += UINT64_C(0x9e3779b97f4a7c15)); }
/* Uniform in 0 .. count - 1. */
static uint64_t draw_below(uint64_t *draw, uint64_t count)
{
    return (uint64_t)((unsigned __int128)draw_u64(draw) * count >> 64);
}

static double power(double x, double exponent) { return fmath_exp(exponent * fmath_log(x)); }

/* The continuous distribution of density x^-skew on [1, count + 1), cut to whole numbers: Zipf's law, up
 * to the last digits of its head. */
static uint64_t draw_rank(struct sparse_bench *b, uint64_t count)
{
    if (b->o.skew == 0) return draw_below(&b->draw, count);
    double u = (double)(draw_u64(&b->draw) >> 11) * 0x1p-53;
    double x = b->o.skew == 1 ? power((double)count + 1, u) : power(1 + u * b->zipf_reach, 1 / (1 - b->o.skew));
    uint64_t rank = (uint64_t)x - 1;
    return rank < count ? rank : count - 1;
}

static uint64_t ranks_of_field(const struct sparse_bench *b) { return b->o.row_count / b->o.field_count; }
static uint64_t key_of(uint32_t field, uint64_t rank) { return mix((uint64_t)field << 48 | (rank + 1)); }

/* --- micro-batches ------------------------------------------------------------------------------ */

static uint32_t positions_of(const struct sparse_bench *b)
{
    return b->o.example_count * b->o.field_count * b->o.keys_a_field;
}

/* `next`: each field takes the ranks from there on, in order, to make the rows; NULL: keys are drawn. */
static void keys_draw(struct sparse_bench *b, const uint64_t *next)
{
    struct micro_batch *m = &b->batch;
    uint64_t ranks = ranks_of_field(b), step = 0;
    uint32_t homes = b->o.example_count * b->o.field_count, per = b->o.keys_a_field;
    for (uint32_t position = 0; position < homes * per; position++) {
        uint32_t field = position / per % b->o.field_count;
        uint64_t rank = next ? (*next + step / (b->o.field_count * per) * per + position % per) % ranks : 0;
        m->key[position] = key_of(field, next ? rank : draw_rank(b, ranks));
        step++;
    }
}

/* The ticket of a micro-batch whose keys all differ. */
static void rows_draw(struct sparse_bench *b)
{
    struct ticket_table *t = &b->ticket.table[0];
    t->unique_count = positions_of(b);
    for (uint32_t row = 0; row < t->unique_count; row++) {
        t->span[row] = b->block + draw_below(&b->draw, b->o.row_count) * b->table.span_floats;
        b->rows.span[row] = t->span[row];
    }
    b->rows.row_count = t->unique_count;
}

static void row_init(void *context, uint32_t table, uint64_t key, float *span)
{
    const struct sparse_bench *b = context;
    (void)table;
    for (uint32_t i = 0; i < b->table.span_floats; i++) span[i] = (float)(key >> 40) * 0x1p-24f;
}

static status rows_create(struct sparse_bench *b)
{
    for (uint64_t next = 0; next < ranks_of_field(b); next += (uint64_t)b->o.example_count * b->o.keys_a_field) {
        keys_draw(b, &next);
        TRY(store_prepare(b->store, &b->batch, STORE_CREATE, &b->ticket));
    }
    return ST_OK;
}

/* --- opening ------------------------------------------------------------------------------------ */

static void graph_make(struct sparse_bench *b)
{
    const struct sparse_bench_options *o = &b->o;
    uint32_t fields = o->field_count, out = fields, cols = fields * o->dim;
    b->optimizer = (struct graph_optimizer){.kind = o->optimizer, .learning_rate = 1e-6f};
    for (uint32_t i = 0; optimizer_table[o->optimizer].params[i].name != NULL; i++) b->optimizer.param[i] = 1e-6f;
    b->table = (struct graph_table){.dim = o->dim,
                                    .span_floats = optimizer_span_floats(&b->optimizer, o->dim),
                                    .field_count = fields,
                                    .key_count_max = fields * o->keys_a_field};
    b->header = (struct graph_header){.batch = o->example_count, .micro = o->example_count, .lanes = 1};
    for (uint32_t f = 0; f < fields; f++) {
        b->field[f].ids_max = o->keys_a_field;
        b->tensor[f] = (struct graph_tensor){.kind = TENSOR_FIELD, .cols = f, .grad = GRAPH_NONE};
        b->args[f] = f;
    }
    uint32_t stride = odd_lines_floats(cols); /* as the compiler does */
    b->tensor[out] = b->tensor[out + 1] =
        (struct graph_tensor){.kind = TENSOR_ACTIVATION, .cols = cols, .stride = stride, .grad = GRAPH_NONE};
    b->tensor[out].grad = out + 1;
    b->args[fields] = out;
    struct embed_bag_attr attr = {.table = 0, .pool = POOL_SUM, .dim = o->dim, .lookup = 0};
    b->node[0] = (struct graph_node){
        .op = OP_ID_embed_bag, .pass = PASS_FORWARD, .other = 1, .input_count = fields, .output_count = 1};
    b->node[1] = (struct graph_node){.op = OP_ID_embed_bag, .pass = PASS_BACKWARD, .other = 0, .arg_begin = fields + 1};
    memcpy(b->node[0].attr, &attr, sizeof attr);
    b->graph = (struct graph){.header = &b->header,
                              .tensors = b->tensor,
                              .args = b->args,
                              .nodes = b->node,
                              .fields = b->field,
                              .tables = &b->table,
                              .optimizers = &b->optimizer,
                              .tensor_count = fields + 2,
                              .arg_count = 2 * fields + 1,
                              .node_count = 2,
                              .forward_count = 1,
                              .field_count = fields,
                              .table_count = 1,
                              .optimizer_count = 1,
                              .lookup_count = 1};
}

static struct batch_shape batch_of(const struct sparse_bench *b)
{
    return (struct batch_shape){.batch = b->o.example_count, .micro = b->o.example_count, .lanes = 1};
}
static struct example_shape example_of(const struct sparse_bench *b)
{
    return (struct example_shape){.field_count = b->o.field_count, .key_count_max = b->table.key_count_max};
}

static void arena_lay(struct sparse_bench *b, struct layout *l)
{
    struct batch_shape batch = batch_of(b);
    struct example_shape example = example_of(b);
    uint32_t out = b->o.field_count, positions = positions_of(b);
    l->bytes += micro_batch_bytes(batch, example) + ticket_bytes(batch, example, 1, &b->table.span_floats, false);
    if (l->arena) {
        micro_batch_place(&b->batch, l->arena, batch, example);
        ticket_place(&b->ticket, l->arena, batch, example, 1, &b->table.span_floats, false);
    }
    row_numbers_layout(&b->numbers, l, positions, 1);
    step_rows_layout(&b->rows, l, positions, (struct step_rows_wants){.shows = optimizer_reads_shows(&b->optimizer)});
    float *grad;
    LAYOUT_TAKE(l, grad, (size_t)positions * b->o.dim);
    b->grad = grad;
    for (uint32_t index = out; index < out + 2; index++) {
        const struct graph_tensor *tensor = &b->tensor[index];
        float *data;
        LAYOUT_TAKE(l, data, (size_t)b->o.example_count * tensor->stride);
        b->view[index] = (struct view){data, b->o.example_count, tensor->cols, tensor->stride};
    }
}

static void batch_shape_fill(struct sparse_bench *b)
{
    struct micro_batch *m = &b->batch;
    struct ticket_table *t = &b->ticket.table[0];
    uint32_t per = b->o.keys_a_field, homes = b->o.example_count * b->o.field_count;
    m->example_count = m->step_example_count = b->o.example_count;
    m->is_last = true;
    m->key_count = homes * per;
    for (uint32_t home = 0; home <= homes; home++) m->key_begin[home] = home * per;
    for (uint32_t position = 0; position < m->key_count; position++) {
        m->key_home[position] = position / per;
        t->unique_of[position] = t->occurrence_begin[position] = t->occurrence[position] = position;
        t->step_row[position] = t->lane_row[position] = position;
    }
    t->occurrence_begin[m->key_count] = m->key_count;
    struct view dout = b->view[b->o.field_count + 1];
    for (size_t i = 0; i < (size_t)dout.rows * dout.stride; i++) dout.data[i] = 1e-3f;
}

static status spans_open(struct sparse_bench *b)
{
    if (!b->o.is_keyed) {
        void *block;
        b->block_bytes = (size_t)b->o.row_count * b->table.span_floats * sizeof(float);
        TRY(memory_take(PART, b->block_bytes, &block));
        b->block = block;
        for (size_t i = 0; i < b->block_bytes / sizeof(float); i++) b->block[i] = 0.5f;
        return ST_OK;
    }
    uint8_t serves[FIELDS_MAX];
    memset(serves, 1, sizeof serves);
    struct store_table_options table = {.name = "bench",
                                        .span_floats = b->table.span_floats,
                                        .serves = serves,
                                        .share = 1,
                                        .row_init = row_init,
                                        .context = b};
    struct store_options options = {.table_count = 1, .table = &table, .batch = batch_of(b), .example = example_of(b)};
    /* Room for all rows, and a little more for the store's own bytes of a row. */
    uint64_t rows = b->o.row_count > positions_of(b) ? b->o.row_count : positions_of(b);
    options.ram_bytes = rows * (b->table.span_floats * sizeof(float) + 48) + (1 << 16);
    TRY(store_open(&b->store, &options));
    return rows_create(b);
}

status sparse_bench_open(struct sparse_bench **out, const struct sparse_bench_options *o)
{
    *out = NULL;
    CHECK(o->field_count >= 1 && o->field_count <= FIELDS_MAX && o->row_count >= o->field_count);
    struct sparse_bench *b = calloc(1, sizeof *b);
    if (b == NULL) FAIL(MEMORY, "no memory to describe a benchmark");
    b->o = *o;
    b->draw = 1;
    b->zipf_reach = o->skew == 1 ? 0 : power((double)ranks_of_field(b) + 1, 1 - o->skew) - 1;
    graph_make(b);
    struct layout sum = {0}, place = {.arena = &b->arena};
    arena_lay(b, &sum);
    status st = arena_open(&b->arena, PART, sum.bytes);
    if (st == ST_OK) {
        arena_lay(b, &place);
        batch_shape_fill(b);
        st = spans_open(b);
    }
    if (st == ST_OK) st = cpu_device_open(&b->device, &b->graph, o->threads, o->processors, o->isa);
    if (st != ST_OK) {
        sparse_bench_close(b);
        return st;
    }
    b->context = (struct op_context){.graph = &b->graph,
                                     .tensor = b->view,
                                     .batch = &b->batch,
                                     .ticket = &b->ticket,
                                     .table_grad = &b->grad,
                                     .training = true};
    *out = b;
    return ST_OK;
}

void sparse_bench_close(struct sparse_bench *b)
{
    if (b == NULL) return;
    device_close(b->device);
    store_close(b->store);
    memory_give(PART, b->block, b->block_bytes);
    arena_close(&b->arena);
    free(b);
}

/* --- measuring ---------------------------------------------------------------------------------- */

static bool runs(const struct sparse_bench *b, enum sparse_part part)
{
    bool is_there = b->o.is_keyed || part >= SPARSE_FORWARD;
    return is_there && (b->o.only == 0 || (b->o.only >> part & 1));
}

static status part_run(struct sparse_bench *b, enum sparse_part part)
{
    const struct table_update update = {.table = &b->table,
                                        .optimizer = &b->optimizer,
                                        .row_count = b->rows.row_count,
                                        .span = b->rows.span,
                                        .grad = &b->grad,
                                        .lanes = 1,
                                        .use_count = 1,
                                        .occurrence_count = b->rows.occurrence_count,
                                        .scale = 1.0f / (float)b->o.example_count,
                                        .rate = b->optimizer.learning_rate,
                                        .t = 1};
    switch (part) {
    case SPARSE_PREPARE: return store_prepare(b->store, &b->batch, STORE_CREATE, &b->ticket);
    case SPARSE_NUMBER:
        step_rows_begin(&b->numbers, &b->rows);
        step_rows_add(&b->numbers, &b->rows, &b->ticket.table[0], 0);
        return ST_OK;
    case SPARSE_FORWARD: return device_submit(b->device, &b->context, &b->node[0], 1);
    case SPARSE_BACKWARD: return device_submit(b->device, &b->context, &b->node[1], 1);
    case SPARSE_UPDATE: return device_update_rows(b->device, &update);
    case SPARSE_PART_COUNT: break;
    }
    return ST_OK;
}

static status round_run(struct sparse_bench *b, double ns[SPARSE_PART_COUNT])
{
    if (b->o.is_keyed)
        keys_draw(b, NULL);
    else
        rows_draw(b);
    uint64_t since = watch_ns(b->o.threads);
    for (enum sparse_part part = 0; part < SPARSE_PART_COUNT; part++) {
        if (!runs(b, part)) continue;
        TRY(part_run(b, part));
        uint64_t now = watch_ns(b->o.threads);
        ns[part] += (double)(now - since);
        since = now;
    }
    return ST_OK;
}

status sparse_bench_run(struct sparse_bench *b, uint64_t keys, struct sparse_figures *figures)
{
    double ns[SPARSE_PART_COUNT] = {0}, uniques = 0;
    uint64_t done = 0;
    for (; done < keys; done += positions_of(b)) {
        TRY(round_run(b, ns));
        uniques += b->ticket.table[0].unique_count;
    }
    for (int part = 0; part < SPARSE_PART_COUNT; part++) figures->ns[part] = ns[part] / (double)done;
    figures->unique_share = uniques / (double)done;
    return ST_OK;
}

/* --- the table ---------------------------------------------------------------------------------- */

float *sparse_bench_table(const struct sparse_bench *b, uint64_t *row_count)
{
    *row_count = b->o.is_keyed ? store_row_count(b->store, 0) : b->o.row_count;
    float *table = b->o.is_keyed ? store_span(b->store, 0, 0) : b->block;
    CHECK(!b->o.is_keyed || store_span(b->store, 0, 1) == table + b->table.span_floats);
    return table;
}

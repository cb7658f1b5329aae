/* How near embedding tables come to what memory can do with random rows: embed_bag's forward pass over rows that have been resolved, and
 * SGD's update of rows, by the kernels of training. The limit reads (writes) rows of the same table at random places that it computes as it
 * goes, and asks for them as far ahead as is best; ours finds their addresses in a ticket, as the store leaves them. */
#include "engine/bench/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cfg/key.h"
#include "engine/base/log.h"
#include "engine/bench/hand_graph.h"
#include "graph/device.h"

#define PART        "bench table"
#define BYTES_LEAST (UINT64_C(64) << 20)
/* A repeat visits so many rows, in blocks of a micro-batch or a step. */
#define ROWS        UINT64_C(2000000)
#define ROWS_QUICK  UINT64_C(200000)
#define EXAMPLES    256u
#define FIELDS      26u
#define GATHER_ROWS (EXAMPLES * FIELDS)
#define UPDATE_ROWS (512u * FIELDS)

/* --- the table ---------------------------------------------------------------------------------- */

uint64_t bench_table_bytes(const struct bench *b)
{
    if (b->o->bytes) return b->o->bytes < BYTES_LEAST ? BYTES_LEAST : b->o->bytes;
    if (b->o->quick) return BYTES_LEAST;
    uint64_t half = memory_available_bytes() / 2;
    return half < BYTES_LEAST ? BYTES_LEAST : half < BENCH_BYTES_MAX ? half : BENCH_BYTES_MAX;
}

struct fill {
    const struct bench_table *table;
    uint32_t threads;
};
static void table_fill(void *context, uint32_t thread)
{
    const struct fill *fill = context;
    uint64_t floats = fill->table->bytes / sizeof(float);
    for (uint64_t i = floats / fill->threads * thread; i < floats; i++) {
        if (thread + 1 < fill->threads && i == floats / fill->threads * (thread + 1)) break;
        fill->table->data[i] = 0.5f;
    }
}

status bench_table_open(struct bench_table *table, const struct bench *b)
{
    uint64_t wanted = bench_table_bytes(b) & ~(BYTES_LEAST - 1), bytes = wanted;
    char have[16], want[16];
    while (bytes > BYTES_LEAST && bytes > memory_available_bytes()) bytes = bytes / 2 & ~(BYTES_LEAST - 1);
    for (;;) {
        void *block;
        status st = memory_take(PART, bytes, &block);
        *table = (struct bench_table){block, bytes};
        if (st == ST_OK) break;
        if (bytes <= BYTES_LEAST) return st;
        bytes = bytes / 2 & ~(BYTES_LEAST - 1);
    }
    if (bytes < wanted)
        log_warning("not enough memory for a table of %s: going on with %s", cfg_bytes_text(want, sizeof want, wanted),
                    cfg_bytes_text(have, sizeof have, bytes));
    struct fill fill = {table, b->cores.count};
    watch_run(fill.threads, NULL, table_fill, &fill);
    return ST_OK;
}

void bench_table_close(struct bench_table *table)
{
    memory_give(PART, table->data, table->bytes);
    *table = (struct bench_table){0};
}

/* --- rows that are resolved ---------------------------------------------------------------------- */

/* A block is what one call of the kernel takes. */
struct resolved {
    float **span; /* [block_count, block_rows] */
    uint32_t block_rows, block_count;
    uint64_t draw;
};

static status resolved_open(struct resolved *r, uint32_t block_rows, bool is_quick)
{
    *r = (struct resolved){.block_rows = block_rows,
                           .block_count = (uint32_t)((is_quick ? ROWS_QUICK : ROWS) / block_rows)};
    r->span = malloc((size_t)r->block_count * block_rows * sizeof *r->span);
    if (r->span == NULL) FAIL(MEMORY, "bench: no memory for the addresses of rows");
    return ST_OK;
}

/* Other rows of the table. Not timed. */
static void resolved_draw(struct resolved *r, const struct bench_table *table, uint32_t row_bytes)
{
    uint64_t row_count = table->bytes / row_bytes;
    for (size_t i = 0; i < (size_t)r->block_count * r->block_rows; i++) {
        r->draw = r->draw * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint64_t row = (uint64_t)((unsigned __int128)r->draw * row_count >> 64);
        r->span[i] = table->data + row * (row_bytes / sizeof(float));
    }
}

/* A graph of one embed_bag: fields of a key each, a micro-batch, a ticket whose rows are all distinct. */
struct bag {
    struct hand_graph h;
    struct graph_table table;
    struct graph_field field[FIELDS];
    struct ticket_table ticket_table;
    struct ticket ticket;
    uint32_t key_begin[GATHER_ROWS + 1], key_home[GATHER_ROWS], number[GATHER_ROWS + 1];
    struct device *device;
};

static status bag_open(struct bag *x, const struct bench *b, uint32_t dim, uint32_t threads)
{
    struct hand_graph *h = &x->h;
    struct embed_bag_attr attr = {.pool = POOL_SUM, .dim = dim};
    struct hand_tensors in = {.count = FIELDS};
    memset(x, 0, sizeof *x);
    hand_open(h, EXAMPLES, 1);
    x->table = (struct graph_table){.dim = dim, .span_floats = dim};
    h->graph.tables = &x->table;
    h->graph.table_count = 1;
    h->graph.fields = x->field;
    h->graph.field_count = FIELDS;
    for (uint32_t f = 0; f < FIELDS; f++) {
        x->field[f].ids_max = 1;
        in.t[f] = hand_field(h, f);
    }
    for (uint32_t i = 0; i <= GATHER_ROWS; i++) x->key_begin[i] = x->number[i] = i;
    memcpy(x->key_home, x->number, sizeof x->key_home);
    h->batch.key_count = GATHER_ROWS;
    h->batch.key_begin = x->key_begin;
    h->batch.key_home = x->key_home;
    x->ticket_table = (struct ticket_table){.unique_count = GATHER_ROWS,
                                            .unique_of = x->number,
                                            .row = x->number,
                                            .occurrence_begin = x->number,
                                            .occurrence = x->number,
                                            .step_row = x->number};
    x->ticket = (struct ticket){1, &x->ticket_table};
    h->context.ticket = &x->ticket;
    h->context.training = true;
    uint32_t cols = FIELDS * dim, out = hand_tensor_grad(h, EXAMPLES, cols, (cols / 16 | 1) * 16);
    hand_node(h, OP_ID_embed_bag, in, (struct hand_tensors){0}, out, (struct hand_tensors){0}, &attr, sizeof attr,
              NULL);
    return cpu_device_open(&x->device, &h->graph, threads, bench_processors(b, threads), b->isa_name);
}

static void bag_close(struct bag *x)
{
    if (x->device) x->device->vt->close(x->device);
    hand_close(&x->h);
}

/* Rows a second. */
static double bag_gather(struct bag *x, const struct resolved *r, uint32_t threads)
{
    uint64_t begin = watch_ns(threads);
    for (uint32_t i = 0; i < r->block_count; i++) {
        x->ticket_table.span = r->span + (size_t)i * r->block_rows;
        CHECK(device_submit(x->device, &x->h.context, &x->h.node[0], 1) == ST_OK);
    }
    return (double)r->block_count * r->block_rows * 1e9 / (double)(watch_ns(threads) - begin);
}

static double bag_update(struct bag *x, const struct resolved *r, float *grad, uint32_t threads)
{
    static const struct graph_optimizer sgd = {.kind = OPTIMIZER_ID_sgd, .learning_rate = 1e-6f};
    uint64_t begin = watch_ns(threads);
    for (uint32_t i = 0; i < r->block_count; i++)
        CHECK(x->device->vt->update_rows(x->device, &(struct table_update){.table = &x->table,
                                                                           .optimizer = &sgd,
                                                                           .row_count = r->block_rows,
                                                                           .span = r->span + (size_t)i * r->block_rows,
                                                                           .grad = &grad,
                                                                           .lanes = 1,
                                                                           .use_count = 1,
                                                                           .scale = 1,
                                                                           .rate = 1e-6f,
                                                                           .t = 1}) == ST_OK);
    return (double)r->block_count * r->block_rows * 1e9 / (double)(watch_ns(threads) - begin);
}

static status rows_measure(const struct bench *b, const struct bench_table *table, struct resolved *r,
                           uint32_t row_bytes, bool updates, uint32_t threads)
{
    struct bag *x = malloc(sizeof *x);
    float *grad = calloc((size_t)r->block_rows, row_bytes);
    struct series ours = {0}, limit = {0};
    struct limit_rows l = {.table = table->data,
                           .row_count = table->bytes / row_bytes,
                           .row_bytes = row_bytes,
                           .updates = updates,
                           .isa = b->isa,
                           .seed = 1};
    uint64_t rows = (uint64_t)r->block_count * r->block_rows;
    char name[64], bytes[16];
    if (x == NULL || grad == NULL) FAIL(MEMORY, "bench: no memory for gradients of rows");
    status st = bag_open(x, b, row_bytes / (uint32_t)sizeof(float), threads);
    for (uint32_t i = 0; i <= b->repeats && st == ST_OK; i++) { /* the first time only warms up */
        double top = limit_rows(&l, rows / threads, threads, bench_processors(b, threads));
        resolved_draw(r, table, row_bytes);
        double rate = updates ? bag_update(x, r, grad, threads) : bag_gather(x, r, threads);
        if (i == 0) continue;
        series_add(&ours, rate * 1e-6);
        series_add(&limit, top * 1e-6);
    }
    bag_close(x);
    free(x);
    free(grad);
    TRY(st);
    snprintf(name, sizeof name, "rows of %u B, table of %s", row_bytes,
             cfg_bytes_text(bytes, sizeof bytes, table->bytes));
    bench_tell(&(struct bench_figure){.subject = updates ? "update" : "gather",
                                      .name = name,
                                      .unit = "M rows/s",
                                      .threads = threads,
                                      .ours = &ours,
                                      .limit = &limit,
                                      .limit_name = updates ? "rows updated" : "rows read",
                                      .detail = {{"row_bytes", row_bytes}, {"table_bytes", (double)table->bytes}}},
               true);
    return ST_OK;
}

static status rows_run(const struct bench *b, bool updates)
{
    static const uint32_t sizes[] = {64, 256};
    struct bench_table table;
    struct resolved resolved;
    bench_heading(updates ? "update" : "gather");
    bench_columns();
    TRY(bench_table_open(&table, b));
    status st = resolved_open(&resolved, updates ? UPDATE_ROWS : GATHER_ROWS, b->o->quick);
    for (uint32_t t = 0; t < b->thread_count_count; t++)
        for (size_t i = 0; i < 2 && st == ST_OK; i++)
            st = rows_measure(b, &table, &resolved, sizes[i], updates, b->thread_counts[t]);
    free(resolved.span);
    bench_table_close(&table);
    return st;
}

status bench_gather(const struct bench *b) { return rows_run(b, false); }
status bench_update(const struct bench *b) { return rows_run(b, true); }

/* How fast the store turns the keys of micro-batches into rows, from millions of keys, against reading as many random rows of its own table:
 * a look-up must visit one line of the index, and leaves its mark there. */
#include "engine/bench/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "io/store.h"

#define KEYS_MAX    UINT64_C(50000000)
#define SPAN_FLOATS 16u
/* Of the store's budget a row: its span, and its part of the index. */
#define ROW_BYTES (SPAN_FLOATS * 4 + 26)
#define EXAMPLES  256u
#define FIELDS    26u
#define KEYS      (EXAMPLES * FIELDS)
#define BATCHES   300u

static const struct batch_shape shape = {EXAMPLES, EXAMPLES, 1};
static const struct example_shape example = {.field_count = FIELDS, .key_count_max = FIELDS};

struct keys {
    struct store *store;
    uint64_t key_count;
    struct arena arena;
    struct micro_batch batch;
    struct ticket ticket;
    uint64_t *drawn; /* [BATCHES * KEYS] */
    uint64_t draw;
};

static void row_init(void *context, uint32_t table, uint64_t key, float *span)
{
    (void)context, (void)table;
    for (uint32_t i = 0; i < SPAN_FLOATS; i++) span[i] = (float)(key % 97);
}

/* Key n: a bijection, so all are distinct. */
static uint64_t key_of(uint64_t n)
{
    n = (n + 1) * UINT64_C(0x9e3779b97f4a7c15);
    return (n ^ n >> 32) * UINT64_C(0xbf58476d1ce4e5b9);
}

static status store_fill(struct keys *k)
{
    struct micro_batch *m = &k->batch;
    for (uint64_t begin = 0; begin < k->key_count; begin += KEYS) {
        for (uint32_t i = 0; i < KEYS; i++) m->key[i] = key_of((begin + i) % k->key_count);
        TRY(store_prepare(k->store, m, STORE_CREATE, &k->ticket));
        store_release(k->store, &k->ticket);
    }
    return ST_OK;
}

static status keys_open(struct keys *k, const struct bench *b)
{
    static const uint32_t span_floats[] = {SPAN_FLOATS};
    uint8_t serves[FIELDS];
    uint64_t budget = bench_table_bytes(b), wanted = budget / ROW_BYTES < KEYS_MAX ? budget / ROW_BYTES : KEYS_MAX;
    memset(k, 0, sizeof *k);
    memset(serves, 1, sizeof serves);
    k->key_count = wanted;
    while (k->key_count * ROW_BYTES > memory_available_bytes() && k->key_count > KEYS) k->key_count /= 2;
    if (k->key_count < wanted)
        log_warning("not enough memory for %" PRIu64 " keys: going on with %" PRIu64, wanted, k->key_count);
    const struct store_table_options table = {
        .name = "bench", .span_floats = SPAN_FLOATS, .serves = serves, .share = 1, .row_init = row_init};
    const struct store_options options = {.ram_bytes = (k->key_count + KEYS) * ROW_BYTES,
                                          .table_count = 1,
                                          .table = &table,
                                          .batch = shape,
                                          .example = example};
    TRY(store_open(&k->store, &options));
    TRY(arena_open(&k->arena, "bench keys",
                   micro_batch_bytes(shape, example) + ticket_bytes(shape, example, 1, span_floats, false) +
                       arena_bytes(BATCHES * KEYS * sizeof *k->drawn)));
    micro_batch_place(&k->batch, &k->arena, shape, example);
    ticket_place(&k->ticket, &k->arena, shape, example, 1, span_floats, false);
    k->drawn = arena_take(&k->arena, BATCHES * KEYS * sizeof *k->drawn);
    struct micro_batch *m = &k->batch;
    m->example_count = EXAMPLES;
    m->key_count = KEYS;
    for (uint32_t i = 0; i <= KEYS; i++) m->key_begin[i] = i;
    for (uint32_t i = 0; i < KEYS; i++) m->key_home[i] = i;
    return store_fill(k);
}

static void keys_close(struct keys *k)
{
    arena_close(&k->arena);
    store_close(k->store);
}

/* Keys a second. Those of a repeat are drawn beforehand, into the batch that is looked up next. */
static status keys_measure(struct keys *k, uint32_t batches, double *rate)
{
    for (uint64_t i = 0; i < (uint64_t)batches * KEYS; i++) {
        k->draw = k->draw * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        k->drawn[i] = key_of((uint64_t)((unsigned __int128)k->draw * k->key_count >> 64));
    }
    uint64_t *own = k->batch.key, begin = watch_ns(1);
    status st = ST_OK;
    for (uint32_t i = 0; i < batches && st == ST_OK; i++) {
        k->batch.key = k->drawn + (size_t)i * KEYS;
        st = store_prepare(k->store, &k->batch, STORE_CREATE, &k->ticket);
        store_release(k->store, &k->ticket);
    }
    *rate = (double)batches * KEYS * 1e9 / (double)(watch_ns(1) - begin);
    k->batch.key = own;
    return st;
}

status bench_lookup(const struct bench *b)
{
    struct keys keys;
    struct series ours = {0}, limit = {0};
    uint32_t batches = b->o->quick ? BATCHES / 10 : BATCHES;
    bench_heading("lookup");
    bench_columns();
    status st = keys_open(&keys, b);
    struct limit_rows l = {.row_bytes = SPAN_FLOATS * sizeof(float), .isa = b->isa, .seed = 1};
    if (st == ST_OK) {
        l.table = store_span(keys.store, 0, 0);
        l.row_count = keys.key_count;
        CHECK(store_span(keys.store, 0, 1) == l.table + SPAN_FLOATS && (uintptr_t)l.table % 64 == 0);
    }
    for (uint32_t i = 0; i <= b->repeats && st == ST_OK; i++) { /* the first time only warms up */
        double top = limit_rows(&l, (uint64_t)batches * KEYS, 1, NULL), rate = 0;
        st = keys_measure(&keys, batches, &rate);
        if (i == 0 || st != ST_OK) continue;
        series_add(&ours, rate * 1e-6);
        series_add(&limit, top * 1e-6);
    }
    if (st == ST_OK) {
        char name[64];
        snprintf(name, sizeof name, "of %.2f M keys, spans of 64 B", (double)keys.key_count * 1e-6);
        bench_tell(&(struct bench_figure){.subject = "lookup",
                                          .name = name,
                                          .unit = "M keys/s",
                                          .threads = 1,
                                          .ours = &ours,
                                          .limit = &limit,
                                          .limit_name = "rows read",
                                          .detail = {{"keys", (double)keys.key_count}}},
                   true);
    }
    keys_close(&keys);
    return st;
}

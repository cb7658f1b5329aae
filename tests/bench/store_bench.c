/* Rows a second that the store gives when most rows are on a disk. Tickets have random keys, and several
 * tickets are under way at a time; get: every row is read; update: every row is read and written.
 *
 *     store_bench DIRECTORY [ROWS [RAM [SECONDS [LIVE [WHAT…]]]]]
 *
 * ROWS (default 4,000,000) rows of 16 floats are made. The store has RAM bytes for them, index and buffers
 * included (0, the default: a quarter of the rows' bytes), and a disk of which a part LIVE (0.85) is live.
 * Then each WHAT (get:uniform, get:zipf, update:zipf, update:uniform) runs for SECONDS (5); the second half
 * counts. The first line tells the RAM that a row takes beside its floats, if it is in RAM and if it is on
 * the disk. Then a line for each WHAT:
 *
 *     WHAT  rows a second  reads a row  bytes written over bytes of rows that left
 *
 * A ticket has 13,312 keys, as 512 examples of 26 fields do, and a row counts as often as it occurs. Zipf:
 * exponent 1.05, the ranks scattered over the keys. Keys are drawn before the clock starts.
 * tests/others/rows_rocksdb.cc and rows_lmdb.c do the same with other stores. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "io/store/store_figures.h"
#include "io/store/store_rows.h"
#include "io/store/store_ticket.h"

#define EXAMPLES    512u
#define FIELDS      26u
#define TICKET_KEYS (EXAMPLES * FIELDS)
#define FLOATS      16u
#define TICKETS     4u /* under way */
#define LIVE        0.85
/* Most rows a second that are expected: keys are drawn for this rate. */
#define RATE_MAX UINT64_C(4000000)

static const struct batch_shape shape = {.batch = EXAMPLES, .micro = EXAMPLES, .lanes = 1};
static const struct example_shape example = {.field_count = FIELDS, .key_count_max = FIELDS};
static uint64_t row_count;
static volatile float sink;

static void must(status st)
{
    if (st == ST_OK) return;
    fprintf(stderr, "store_bench: %s\n", status_message());
    exit(2);
}

static void row_init(void *context, uint32_t table, uint64_t key, float *span)
{
    (void)context, (void)table;
    for (uint32_t i = 0; i < FLOATS; i++) span[i] = (float)(key % 65536) + (float)i;
}

static uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static uint64_t key_draw(uint64_t *state, bool is_zipf)
{
    if (!is_zipf) return random_next(state) % row_count;
    /* The inverse of the integral of x^-1.05. */
    const double unit = ((double)(random_next(state) >> 11) + 0.5) * 0x1p-53;
    const double rank = pow(1 - unit * (1 - pow((double)row_count, -0.05)), -20);
    return ((uint64_t)rank * UINT64_C(0x9e3779b97f4a7c15) >> 8) % row_count;
}

/* --- tickets ---------------------------------------------------------------------------------- */

static struct store *store;
static struct micro_batch batch;
static struct ticket ticket[TICKETS]; /* ticket n at n % TICKETS */
static uint64_t begun, ended;         /* [ended, begun) are under way */

static void rows_use(const struct ticket_table *table, bool updates)
{
    float sum = 0;
    for (uint32_t u = 0; u < table->unique_count; u++) {
        float *span = table->span[u];
        for (uint32_t i = 0; i < FLOATS; i++) sum += span[i];
        for (uint32_t i = 0; updates && i < FLOATS; i++) span[i] += 1;
    }
    sink = sum;
}

/* The oldest ticket: waits for its rows, uses and releases them. */
static void ticket_end(bool updates)
{
    struct ticket *first = &ticket[ended % TICKETS];
    while (!store_ready(store, first)) must(store_poll(store, true));
    rows_use(&first->table[0], updates);
    store_release(store, first->number);
    ended++;
}

static void ticket_begin(const uint64_t *key, uint32_t count, bool updates)
{
    for (bool has_room = false;;) {
        must(store_make_room(store, &has_room));
        if (has_room && begun - ended < TICKETS) break;
        ticket_end(updates);
    }
    micro_batch_clear(&batch);
    batch.example_count = EXAMPLES;
    batch.key_count = count;
    memcpy(batch.key, key, count * sizeof *key);
    for (uint32_t h = 0; h <= TICKET_KEYS; h++) batch.key_begin[h] = h < count ? h : count;
    must(store_prepare(store, &batch, STORE_CREATE, &ticket[begun++ % TICKETS]));
}

static void tickets_end(bool updates)
{
    while (ended < begun) ticket_end(updates);
}

/* --- what is measured ---------------------------------------------------------------------------- */

static void rows_make(void)
{
    uint64_t key[TICKET_KEYS];
    for (uint64_t next = 0; next < row_count;) {
        uint32_t count = 0;
        while (count < TICKET_KEYS && next < row_count) key[count++] = next++;
        ticket_begin(key, count, false);
    }
    tickets_end(false);
    must(store_settle(store));
}

static void measure(const char *what, double seconds)
{
    const bool updates = strncmp(what, "update:", 7) == 0, is_zipf = strstr(what, ":zipf") != NULL;
    const uint64_t key_count = (uint64_t)(seconds * (double)RATE_MAX) / TICKET_KEYS * TICKET_KEYS;
    uint64_t *key = malloc(key_count * sizeof *key), random = UINT64_C(88172645463325252);
    if (key == NULL) abort();
    for (uint64_t i = 0; i < key_count; i++) key[i] = key_draw(&random, is_zipf);
    struct store_counts from = {0};
    uint64_t at = 0, tickets = 0;
    const uint64_t begin_ns = clock_ns(), half_ns = begin_ns + (uint64_t)(seconds * 0.5e9),
                   end_ns = begin_ns + (uint64_t)(seconds * 1e9);
    uint64_t from_ns = 0, now_ns;
    for (; (now_ns = clock_ns()) < end_ns; at = (at + TICKET_KEYS) % key_count) {
        if (from_ns == 0 && now_ns >= half_ns) {
            from_ns = now_ns;
            from = store_counts(store, 0);
        }
        tickets += from_ns != 0;
        ticket_begin(&key[at], TICKET_KEYS, updates);
    }
    tickets_end(updates);
    const double rows = (double)(tickets * TICKET_KEYS), time = (double)(clock_ns() - from_ns) * 1e-9;
    const struct store_counts to = store_counts(store, 0);
    const double put = (double)(to.disk.put - from.disk.put) * FLOATS * sizeof(float);
    printf("%-14s %10.0f rows/s  %6.3f reads a row  %5.2f written\n", what, rows / time,
           (double)(to.disk.read_count - from.disk.read_count) / rows,
           put ? (double)(to.disk.write_bytes - from.disk.write_bytes) / put : 0);
    fflush(stdout);
    free(key);
}

static uint64_t planned_bytes(const char *name)
{
    struct memory_part part;
    for (size_t i = 0; memory_part_get(i, &part); i++)
        if (strcmp(part.name, name) == 0) return part.planned_bytes;
    return 0;
}

static void sizes_tell(void)
{
    const uint64_t disk_rows = store_counts(store, 0).disk.row_max, ram_rows = store_row_max(store, 0) - disk_rows;
    printf("sizes          %10" PRIu64 " rows in RAM, %.2f B each; %" PRIu64
           " on disk, %.2f B each; buffers %.1f MiB\n",
           ram_rows, (double)planned_bytes("store index") / (double)ram_rows, disk_rows,
           (double)planned_bytes("store disk index") / (double)row_count,
           (double)planned_bytes("store disk buffers") / 0x1p20);
}

int main(int argc, char **argv)
{
    static const char *const all[] = {"get:uniform", "get:zipf", "update:zipf"};
    static const uint8_t serves[FIELDS] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                           1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    static const uint32_t floats = FLOATS;
    if (argc < 2) {
        fprintf(stderr, "usage: store_bench DIRECTORY [ROWS [RAM [SECONDS [LIVE [WHAT...]]]]]\n");
        return 2;
    }
    row_count = argc > 2 ? strtoull(argv[2], NULL, 10) : 4000000;
    const uint64_t quarter = row_count * FLOATS * sizeof(float) / 4,
                   ram_bytes = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
    const double seconds = argc > 4 ? strtod(argv[4], NULL) : 5, live = argc > 5 ? strtod(argv[5], NULL) : LIVE;
    const struct store_table_options table = {
        .name = "rows", .span_floats = FLOATS, .serves = serves, .share = 1, .row_init = row_init};
    const struct store_options options = {.ram_bytes = ram_bytes ? ram_bytes : quarter,
                                          .disk_bytes =
                                              (uint64_t)((double)(row_count * (FLOATS + 2) * sizeof(float)) / live),
                                          .path = argv[1],
                                          .ticket_max = TICKETS,
                                          .table_count = 1,
                                          .table = &table,
                                          .batch = shape,
                                          .example = example};
    struct arena arena;
    must(store_open(&store, &options));
    must(arena_open(&arena, "tickets",
                    TICKETS * ticket_bytes(shape, example, 1, &floats, false) + micro_batch_bytes(shape, example)));
    for (uint32_t i = 0; i < TICKETS; i++) ticket_place(&ticket[i], &arena, shape, example, 1, &floats, false);
    micro_batch_place(&batch, &arena, shape, example);
    rows_make();
    sizes_tell();
    for (int i = 0; i < (argc > 6 ? argc - 6 : 3); i++) measure(argc > 6 ? argv[6 + i] : all[i], seconds);
    arena_close(&arena);
    store_close(store);
    return 0;
}

/* A store with a disk, or another home, beside one that has all rows in RAM: the same tickets give the same
 * rows with the same values, whatever leaves RAM and comes back, and in the end both hold the same. */
#include "tests/io/io_test.h"

#include "io/store/segment.h"
#include "io/store/store_figures.h"
#include "io/store/store_rows.h"
#include "io/store/store_save.h"
#include "io/store/store_ticket.h"
#include "io/uring.h"
#include "tests/io/store/home_remote.h"

#define MICRO       64u
#define FIELDS      2u
#define TABLES      2u
#define TICKETS_MAX 12u
#define KEYS        9000u
#define SPAN_MAX    86u
#define ROWS_MAX    70000u        /* of a table */
#define RAM_BYTES   (8600u << 10) /* index and buffers of the disk, and about a third of the rows */

static const struct batch_shape batch = {.batch = MICRO, .micro = MICRO, .lanes = 1};
static const struct example_shape shape = {.field_count = FIELDS, .key_count_max = FIELDS};
static const uint8_t serves[TABLES][FIELDS] = {{1, 1}, {0, 1}};
static const uint32_t spans[TABLES] = {SPAN_MAX, 11};

static void row_init(void *context, uint32_t table, uint64_t key, float *span)
{
    (void)context;
    for (uint32_t i = 0; i < spans[table]; i++) {
        if (span[i] != 0) fail_msg("a new row of table %u is not zero", table);
        span[i] = (float)(key % 65536) + (float)i / 64;
    }
}

struct side {
    struct store *store;
    struct arena arena;
    struct ticket ticket[TICKETS_MAX], look_up;
    struct micro_batch m[TICKETS_MAX];
};

/* What reads and writes of the next disk meet, or NULL. */
static struct uring_faults *faults;
/* What the next store has in place of a disk, or NULL. */
static const struct home_kind *home;

static void side_open(struct side *side, uint64_t ram_bytes, uint64_t disk_bytes, bool io_threads, uint32_t tag_bits)
{
    struct store_table_options tables[TABLES];
    for (uint32_t t = 0; t < TABLES; t++)
        tables[t] = (struct store_table_options){.name = t == 0 ? "emb" : "wide",
                                                 .span_floats = spans[t],
                                                 .serves = serves[t],
                                                 .share = t == 0 ? 6 : 11, /* of bytes about 3 to 1 */
                                                 .row_init = row_init,
                                                 .unseen_is_zeros = t == 0};
    const struct store_options options = {.ram_bytes = ram_bytes,
                                          .disk_bytes = disk_bytes,
                                          .path = test_path("rows"),
                                          .io_threads = io_threads,
                                          .tag_bits = tag_bits,
                                          .faults = faults,
                                          .home = home,
                                          .ticket_max = TICKETS_MAX,
                                          .table_count = TABLES,
                                          .table = tables,
                                          .batch = batch,
                                          .example = shape};
    memset(side, 0, sizeof *side);
    assert_ok(store_open(&side->store, &options));
    size_t bytes = (TICKETS_MAX + 1) * ticket_bytes(batch, shape, TABLES, spans, true) +
                   TICKETS_MAX * micro_batch_bytes(batch, shape);
    assert_ok(arena_open(&side->arena, "test", bytes));
    for (uint32_t i = 0; i < TICKETS_MAX; i++) {
        micro_batch_place(&side->m[i], &side->arena, batch, shape);
        ticket_place(&side->ticket[i], &side->arena, batch, shape, TABLES, spans, false);
    }
    ticket_place(&side->look_up, &side->arena, batch, shape, TABLES, spans, true);
}

static void side_close(struct side *side)
{
    store_close(side->store);
    arena_close(&side->arena);
}

/* Some keys far more often than others. */
static void batch_fill(struct micro_batch *m, uint64_t *random, uint64_t keys)
{
    micro_batch_clear(m);
    for (uint32_t e = 0; e < MICRO; e++) {
        for (uint32_t f = 0; f < FIELDS; f++) {
            uint64_t r = test_random(random), key = r % 3 ? r / 3 % 50 : r / 3 % keys;
            m->key_home[m->key_count] = e * FIELDS + f;
            m->key[m->key_count++] = key * UINT64_C(0x9e3779b97f4a7c15) + f; /* table 1 sees field 1's keys only */
            m->key_begin[e * FIELDS + f + 1] = m->key_count;
        }
        m->example_count++;
    }
}

static void batch_copy(struct micro_batch *to, const struct micro_batch *from)
{
    micro_batch_clear(to);
    to->example_count = from->example_count;
    to->key_count = from->key_count;
    memcpy(to->key, from->key, from->key_count * sizeof *to->key);
    memcpy(to->key_home, from->key_home, from->key_count * sizeof *to->key_home);
    memcpy(to->key_begin, from->key_begin, (MICRO * FIELDS + 1) * sizeof *to->key_begin);
}

static void ticket_compare(const struct ticket *one, const struct ticket *other, bool rows_too)
{
    for (uint32_t t = 0; t < TABLES; t++) {
        const struct ticket_table *x = &one->table[t], *y = &other->table[t];
        assert_int_equal(x->unique_count, y->unique_count);
        if (rows_too) assert_int_equal(x->row_count, y->row_count);
        for (uint32_t u = 0; u < x->unique_count; u++) {
            assert_int_equal(x->occurrence_begin[u + 1], y->occurrence_begin[u + 1]);
            assert_memory_equal(x->span[u], y->span[u], spans[t] * sizeof(float));
        }
    }
}

/* What a step's update does. */
static void ticket_update(struct ticket *ticket)
{
    for (uint32_t t = 0; t < TABLES; t++)
        for (uint32_t u = 0; u < ticket->table[t].unique_count; u++)
            for (uint32_t i = 0; i < spans[t]; i++) ticket->table[t].span[u][i] += 1.0f / 1024 * (float)(u % 7 + i);
}

struct pair {
    uint64_t key;
    float span[SPAN_MAX];
};

static int pair_compare(const void *a, const void *b)
{
    uint64_t key = ((const struct pair *)a)->key, other_key = ((const struct pair *)b)->key;
    return (key > other_key) - (key < other_key);
}

static uint64_t side_list(struct side *side, uint32_t table, uint64_t row_count, uint32_t ticket, struct pair *pairs)
{
    struct store_walk walk;
    uint64_t count = 0;
    const float *span;
    assert_ok(store_walk_open(&walk, side->store, table, row_count, ticket));
    for (;; count++) {
        assert_ok(store_walk_next(&walk, &pairs[count].key, &span));
        if (span == NULL) break;
        assert_true(count < ROWS_MAX);
        memcpy(pairs[count].span, span, spans[table] * sizeof *span);
    }
    assert_int_equal(count, walk.row_count);
    store_walk_close(&walk);
    qsort(pairs, count, sizeof *pairs, pair_compare);
    return count;
}

/* Rows that exist once the ticket is done, though more have been prepared. */
static void rows_compare(struct side *ram, struct side *disk, const struct ticket *ticket)
{
    static struct pair a[ROWS_MAX + 1], b[ROWS_MAX + 1];
    assert_ok(store_settle(disk->store));
    for (uint32_t t = 0; t < TABLES; t++) {
        const struct store_counts now = store_counts(disk->store, t), told = store_counts_told(disk->store, t);
        assert_int_equal(told.ram_rows, now.ram_rows);
        assert_int_equal(told.disk_rows, now.disk_rows);
        assert_int_equal(told.touched, now.touched);
        assert_int_equal(told.disk.fetched, now.disk.fetched);
        assert_int_equal(told.disk.read_count, now.disk.read_count);
        assert_int_equal(told.disk.read_bytes, now.disk.read_bytes);
        assert_int_equal(told.disk.write_bytes, now.disk.write_bytes);
        assert_true(now.touched > 0);
        assert_int_equal(store_counts_told(ram->store, t).touched, 0);
        uint64_t count = side_list(ram, t, ticket->table[t].row_count, ticket->number, a);
        assert_int_equal(side_list(disk, t, 0, ticket->number, b), count);
        assert_int_equal(count, ticket->table[t].row_count);
        for (uint64_t i = 0; i < count; i++) {
            assert_int_equal(a[i].key, b[i].key);
            assert_memory_equal(a[i].span, b[i].span, spans[t] * sizeof(float));
        }
        for (uint64_t i = 0; i < count; i += 501) {
            float copy[SPAN_MAX];
            assert_ok(store_copy(disk->store, t, &a[i].key, 1, copy));
            assert_memory_equal(a[i].span, copy, spans[t] * sizeof(float));
        }
    }
}

/* The same of both. */
static void look_up(struct side *ram, struct side *disk, const struct micro_batch *m)
{
    assert_ok(store_prepare(ram->store, m, STORE_LOOKUP, &ram->look_up));
    assert_ok(store_prepare(disk->store, m, STORE_LOOKUP, &disk->look_up));
    while (!store_ready(disk->store, &disk->look_up)) assert_ok(store_poll(disk->store, true));
    ticket_compare(&ram->look_up, &disk->look_up, false);
}

static void run(uint64_t ram_bytes, bool io_threads, uint32_t tag_bits, uint32_t rounds)
{
    static struct side ram, disk;
    uint64_t random = 99;
    uint32_t done = 0, prepared = 0;
    side_open(&ram, 64 << 20, 0, false, 0);
    side_open(&disk, ram_bytes, 32 << 20, io_threads, tag_bits);
    assert_true(store_has_home(disk.store) && !store_has_home(ram.store));
    while (done < rounds) {
        /* Some tickets ahead, as far as there is room. */
        bool has_room = true;
        uint32_t ahead = (uint32_t)(test_random(&random) % TICKETS_MAX);
        while (has_room && prepared < done + ahead && prepared < rounds) {
            assert_ok(store_make_room(disk.store, &has_room));
            if (!has_room) break;
            uint32_t i = prepared++ % TICKETS_MAX;
            batch_fill(&ram.m[i], &random, KEYS);
            batch_copy(&disk.m[i], &ram.m[i]);
            assert_ok(store_prepare(ram.store, &ram.m[i], STORE_CREATE, &ram.ticket[i]));
            assert_ok(store_prepare(disk.store, &disk.m[i], STORE_CREATE, &disk.ticket[i]));
        }
        if (prepared == done) continue;
        /* The oldest one is worked on, and released now or later. */
        uint32_t i = done++ % TICKETS_MAX;
        while (!store_ready(disk.store, &disk.ticket[i])) assert_ok(store_poll(disk.store, true));
        ticket_compare(&ram.ticket[i], &disk.ticket[i], tag_bits == 0);
        ticket_update(&ram.ticket[i]);
        ticket_update(&disk.ticket[i]);
        if (test_random(&random) % 3 || prepared + 4 > done + TICKETS_MAX)
            store_release(disk.store, disk.ticket[i].number);
        if (done % (tag_bits ? 40 : 200) == 0) rows_compare(&ram, &disk, &ram.ticket[i]);
        if (done % 50) continue;
        struct micro_batch *m = &ram.m[(prepared + 1) % TICKETS_MAX]; /* nobody's just now */
        if (prepared + 2 > done + TICKETS_MAX) continue;
        assert_ok(store_settle(disk.store));
        batch_fill(m, &random, 2 * KEYS);
        look_up(&ram, &disk, m);
        /* As after the ticket that is done: what others ahead of it have made is not there. */
        uint64_t row_count[TABLES];
        for (uint32_t t = 0; t < TABLES; t++) row_count[t] = ram.ticket[i].table[t].row_count;
        assert_ok(store_sees_until(ram.store, row_count, ram.ticket[i].number));
        assert_ok(store_sees_until(disk.store, row_count, disk.ticket[i].number));
        look_up(&ram, &disk, m);
        store_sees_all(ram.store);
        store_sees_all(disk.store);
    }
    rows_compare(&ram, &disk, &ram.ticket[(done - 1) % TICKETS_MAX]);
    for (uint32_t t = 0; t < TABLES; t++)
        assert_int_equal(store_row_count(ram.store, t), store_row_count(disk.store, t));
    assert_true(store_used_bytes(disk.store) < store_used_bytes(ram.store) * 2 / 3);
    side_close(&ram);
    side_close(&disk);
}

static void store_with_disk__random_tickets__as_in_ram(void **state)
{
    (void)state;
    run(RAM_BYTES, false, 0, 1000);
    run(RAM_BYTES, true, 0, 500);
}

/* Keys that are taken for each other on disk: rows that turn out to be new when they arrive. */
static void store_with_disk__short_tags__as_in_ram(void **state)
{
    (void)state;
    run(RAM_BYTES, false, 10, 500);
}

/* Every key is asked for, since only the answer tells whether there is a row. */
static void store_with_remote_home__answers_come_later__as_in_ram(void **state)
{
    (void)state;
    home = &remote_home;
    run(3 << 20, false, 1, 500);
    home = NULL;
}

static void store_rows_change__with_remote_home__is_told_before(void **state)
{
    (void)state;
    static struct side side;
    float *span[2];
    home = &remote_home;
    side_open(&side, 3 << 20, 32 << 20, false, 0);
    home = NULL;
    for (uint64_t k = 0; k < 2; k++) assert_ok(store_put(side.store, 0, k, &span[k]));
    store_rows_change(side.store, 0, span, 2);
    assert_int_equal(remote_last->changed, 2);
    assert_string_equal(store_disk_name(side.store), "memory");
    side_close(&side);
}

static void store_insert__beyond_ram__rows_go_to_disk(void **state)
{
    (void)state;
    static struct side disk;
    static uint64_t keys[KEYS];
    float *span, copy[SPAN_MAX];
    side_open(&disk, RAM_BYTES, 32 << 20, false, 0);
    for (uint64_t i = 0; i < KEYS; i++) {
        keys[i] = i * i * UINT64_C(0x9e3779b97f4a7c15);
        assert_ok(store_insert(disk.store, 0, keys[i], &span));
        for (uint32_t k = 0; k < SPAN_MAX; k++) assert_true(span[k] == 0);
        span[SPAN_MAX - 1] = (float)i;
    }
    assert_int_equal(store_row_count(disk.store, 0), KEYS);
    for (uint64_t i = 0; i < KEYS; i += 97) {
        assert_ok(store_copy(disk.store, 0, &keys[i], 1, copy));
        assert_true(copy[SPAN_MAX - 1] == (float)i);
    }
    assert_fails(INVALID, "already", store_insert(disk.store, 0, keys[5], &span));
    side_close(&disk);
}

/* Steps of keys that nobody has had, on both sides, until the disk says no. Returns what the disk said,
 * and the last ticket that was prepared. */
static status sides_fill(struct side *ram, struct side *disk, uint32_t *last)
{
    uint64_t key = 0;
    for (uint32_t n = 0;; n++) {
        bool has_room = true;
        const uint32_t i = n % TICKETS_MAX;
        struct micro_batch *m = &ram->m[i];
        TRY(store_make_room(disk->store, &has_room));
        assert_true(has_room);
        micro_batch_clear(m);
        for (uint32_t e = 0; e < MICRO; e++, m->example_count++)
            for (uint32_t f = 0; f < FIELDS; f++) {
                m->key_home[m->key_count] = e * FIELDS + f;
                m->key[m->key_count++] = ++key * UINT64_C(0x9e3779b97f4a7c15);
                m->key_begin[e * FIELDS + f + 1] = m->key_count;
            }
        batch_copy(&disk->m[i], m);
        assert_ok(store_prepare(ram->store, m, STORE_CREATE, &ram->ticket[i]));
        TRY(store_prepare(disk->store, &disk->m[i], STORE_CREATE, &disk->ticket[i]));
        while (!store_ready(disk->store, &disk->ticket[i])) TRY(store_poll(disk->store, true));
        ticket_update(&ram->ticket[i]);
        ticket_update(&disk->ticket[i]);
        store_release(disk->store, disk->ticket[i].number);
        *last = i;
    }
}

/* The put that has no room comes in the middle of rows that leave: the row stays in RAM, and
 * all rows are there to be saved. */
static void store_make_room__disk_is_full__every_row_is_there(void **state)
{
    (void)state;
    static struct side ram, disk;
    uint32_t last = 0;
    bool has_room;
    side_open(&ram, 64 << 20, 0, false, 0);
    side_open(&disk, RAM_BYTES, 32 << 20, false, 0);
    assert_fails(FULL, "raise store.ssd", sides_fill(&ram, &disk, &last));
    for (int again = 0; again < 2; again++) {
        const struct ticket *ticket = &ram.ticket[last];
        assert_ok(store_settle(disk.store));
        for (uint32_t t = 0; t < TABLES; t++) {
            struct store_counts counts = store_counts(disk.store, t);
            assert_int_equal(counts.ram_rows + counts.disk_rows, ticket->table[t].row_count);
        }
        if (again == 0) rows_compare(&ram, &disk, ticket);
        assert_fails(FULL, "raise store.ssd", store_make_room(disk.store, &has_room));
    }
    side_close(&ram);
    side_close(&disk);
}

/* A drive that fails then: said with file and byte, now and by every later call; no
 * row is in two places, or in none. */
static void store_make_room__drive_fails__says_so_and_goes_on_saying_it(void **state)
{
    (void)state;
    for (int variant = 0; variant < 4; variant++) {
        static struct side ram, disk;
        struct uring_faults failing = {
            .seed = (uint64_t)variant, .spared = 3 + 20 * (uint64_t)variant, .align_bytes = SEGMENT_ALIGN_BYTES};
        uint32_t last = 0;
        failing.one_in[variant % 2 ? URING_ENOSPC : URING_EIO] = 1;
        side_open(&ram, 16 << 20, 0, false, 0);
        faults = &failing;
        side_open(&disk, RAM_BYTES, 32 << 20, variant / 2, 0);
        assert_fails(IO, variant % 2 ? "No space left on device" : "Input/output error",
                     sides_fill(&ram, &disk, &last));
        assert_non_null(strstr(status_message(), ".segment at byte "));
        for (uint32_t t = 0; t < TABLES; t++) {
            struct store_counts counts = store_counts(disk.store, t);
            assert_int_equal(counts.ram_rows + counts.disk_rows, store_row_count(disk.store, t));
        }
        assert_fails(IO, ".segment at byte ", store_poll(disk.store, false));
        assert_fails(IO, ".segment at byte ", store_settle(disk.store));
        side_close(&ram);
        side_close(&disk);
        faults = NULL;
    }
}

static int remove_all(void **state)
{
    unlink(test_path("rows/lock"));
    rmdir(test_path("rows"));
    return test_directory_remove(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(store_with_disk__random_tickets__as_in_ram),
        cmocka_unit_test(store_with_disk__short_tags__as_in_ram),
        cmocka_unit_test(store_with_remote_home__answers_come_later__as_in_ram),
        cmocka_unit_test(store_rows_change__with_remote_home__is_told_before),
        cmocka_unit_test(store_insert__beyond_ram__rows_go_to_disk),
        cmocka_unit_test(store_make_room__disk_is_full__every_row_is_there),
        cmocka_unit_test(store_make_room__drive_fails__says_so_and_goes_on_saying_it),
    };
    return cmocka_run_group_tests(tests, test_directory_make, remove_all) ? 1 : 0;
}

#include "io/store/store_save.h"

#include <sched.h>
#include <string.h>

#include "io/store/store_internal.h"

#define PART_MARKS  "row marks"
#define PART_BUFFER "checkpoint buffer"
/* How many rows ahead marks are prefetched. */
#define FETCH_AHEAD 16u

/* The states of a row's mark. The last save has decided the meaning of each pair. */
enum mark { MARK_NONE, MARK_CHANGED_0, MARK_CHANGED_1, MARK_CLEAN_0, MARK_CLEAN_1, MARK_BUSY, MARK_COUNT };

/* A row in the buffer. Zero at first: its turn is counted from its index on. */
struct entry {
    _Atomic uint64_t shared_turn; /* + index: its number if it is free; its number + 1 if it is filled */
    uint64_t key;
    uint32_t table;
    float span[];
};

struct marks_table {
    uint64_t *key;                     /* [row_max], with a home: the index cannot tell it */
    _Atomic uint8_t *shared_mark;      /* [row_max]                           */
    uint64_t inverse, limit;           /* of the stride's odd part; rows at begin */
    uint32_t shift;                    /* the stride's even part: its power of two */
    _Atomic uint64_t shared_row_count; /* rows that have a mark               */
    _Atomic uint64_t shared_changed;   /* rows that are CHANGED               */
};

struct store_marks {
    struct arena arena;
    /* set between saves, while nobody changes a row */
    uint8_t changed, clean; /* the marks to write now */
    bool is_pending[MARK_COUNT];
    uint32_t entry_count;
    size_t entry_bytes;
    uint8_t *entries;
    size_t marks_bytes, keys_bytes, entries_bytes;
    uint8_t *marks;
    uint64_t *keys;
    struct bell room_bell; /* for threads that wait for room in the buffer */
    uint64_t head;         /* the saver's: next entry to take  */
    _Alignas(64) _Atomic uint64_t shared_tail;
    _Atomic uint64_t shared_wait_ns; /* for room, in this save */
    _Alignas(64) _Atomic bool shared_is_saving, shared_is_given_up;
    struct marks_table table[];
};

/* --- opening ---------------------------------------------------------------------------------- */

/* The inverse of an odd number, modulo 2^64, by Newton's iteration: each step doubles the number
 * of right bits, three at first. */
static uint64_t inverse_of(uint64_t odd)
{
    uint64_t x = odd;
    for (int i = 0; i < 5; i++) x *= 2 - odd * x;
    return x;
}

static status marks_open(struct store *store)
{
    struct arena arena;
    size_t own_bytes = sizeof(struct store_marks) + store->table_count * sizeof(struct marks_table);
    CHECK(store->marks == NULL);
    TRY(arena_open(&arena, PART_MARKS, arena_bytes(own_bytes)));
    struct store_marks *m = arena_take(&arena, own_bytes);
    m->arena = arena;
    m->changed = MARK_CHANGED_0;
    m->clean = MARK_CLEAN_0;
    store->marks = m;
    for (uint32_t t = 0; t < store->table_count; t++) {
        const struct store_table *table = &store->table[t];
        const size_t stride = table->stride_floats * sizeof(float);
        CHECK(row_count_of(table) == 0);
        m->table[t].shift = (uint32_t)__builtin_ctzll(stride);
        m->table[t].inverse = inverse_of(stride >> m->table[t].shift);
        m->marks_bytes += table->row_max;
    }
    void *block;
    TRY(memory_take(PART_MARKS, m->marks_bytes, &block));
    m->marks = block;
    uint64_t at = 0;
    for (uint32_t t = 0; t < store->table_count; at += store->table[t++].row_max)
        m->table[t].shared_mark = (_Atomic uint8_t *)m->marks + at;
    m->keys_bytes = store->home != NULL ? m->marks_bytes * sizeof *m->keys : 0;
    if (m->keys_bytes) {
        TRY(memory_take(PART_MARKS, m->keys_bytes, &block));
        m->keys = block;
        for (uint32_t t = 0; t < store->table_count; t++)
            m->table[t].key = m->keys + ((uint8_t *)m->table[t].shared_mark - m->marks);
    }
    return ST_OK;
}

status store_save_open(struct store *store, uint64_t buffer_bytes)
{
    size_t entry_bytes = sizeof(struct entry);
    void *block;
    for (uint32_t t = 0; t < store->table_count; t++) {
        const size_t bytes = sizeof(struct entry) + store->table[t].span_floats * sizeof(float);
        if (arena_bytes(bytes) > entry_bytes) entry_bytes = arena_bytes(bytes);
    }
    const uint64_t entries = buffer_bytes / entry_bytes;
    if (entries < 2)
        FAIL(INVALID, "checkpoint.buffer = %zu bytes hold less than two rows of %zu bytes; raise it",
             (size_t)buffer_bytes, entry_bytes);
    TRY(marks_open(store));
    struct store_marks *m = store->marks;
    m->entry_bytes = entry_bytes;
    m->entry_count = (uint32_t)(entries < UINT32_MAX ? entries : UINT32_MAX);
    m->entries_bytes = m->entry_count * m->entry_bytes;
    TRY(memory_take(PART_BUFFER, m->entries_bytes, &block));
    m->entries = block;
    return ST_OK;
}

void marks_close(struct store *store)
{
    struct store_marks *m = store->marks;
    if (m == NULL) return;
    memory_give(PART_MARKS, m->marks, m->marks_bytes);
    if (m->keys) memory_give(PART_MARKS, m->keys, m->keys_bytes);
    memory_give(PART_BUFFER, m->entries, m->entries_bytes);
    struct arena arena = m->arena; /* the marks themselves lie in it */
    arena_close(&arena);
}

static uint64_t key_of(const struct store *store, uint32_t table, uint64_t row)
{
    const uint64_t *key = store->marks->table[table].key;
    return key != NULL ? key[row] : row_key(&store->table[table], row);
}

void marks_row_key(struct store *store, uint32_t table_index, uint64_t row, uint64_t key)
{
    if (store->marks != NULL && store->marks->table[table_index].key != NULL)
        store->marks->table[table_index].key[row] = key;
}

/* --- the buffer -------------------------------------------------------------------------------- */

static struct entry *entry_of(const struct store_marks *m, uint64_t number)
{
    return (struct entry *)(void *)(m->entries + number % m->entry_count * m->entry_bytes);
}

/* An entry's turn is the number that it has next, stored without its index,
 * so that zeroed memory is a free buffer. */
static uint64_t turn_of(const struct store_marks *m, const struct entry *entry, uint64_t number)
{
    return atomic_load_explicit(&entry->shared_turn, memory_order_acquire) + number % m->entry_count;
}

struct saves_place {
    struct store_marks *marks;
    struct entry *entry; /* NULL: no entry yet */
    uint64_t number;
};

static bool is_given_up(const struct store_marks *m)
{
    return atomic_load_explicit(&m->shared_is_given_up, memory_order_acquire);
}

/* For bell_await: reserves the next entry, if it is free (the bounded queue of D. Vyukov). */
static bool place_look(void *context)
{
    struct saves_place *p = context;
    struct store_marks *m = p->marks;
    if (is_given_up(m)) return true;
    for (;;) {
        uint64_t number = atomic_load_explicit(&m->shared_tail, memory_order_relaxed);
        struct entry *entry = entry_of(m, number);
        /* Acquire pairs with the release in store_save_drop(): the saver is done with the entry. */
        uint64_t turn = turn_of(m, entry, number);
        if (turn < number) return false;
        if (turn > number || !atomic_compare_exchange_weak_explicit(&m->shared_tail, &number, number + 1,
                                                                    memory_order_relaxed, memory_order_relaxed))
            continue;
        p->entry = entry;
        p->number = number;
        return true;
    }
}

static void count_add(_Atomic uint64_t *shared_count, uint64_t count)
{
    /* Relaxed: read when nobody is at work. */
    atomic_fetch_add_explicit(shared_count, count, memory_order_relaxed);
}

/* Puts the row, which is the caller's, into the buffer. */
static void row_buffer(const struct store *store, uint32_t table_index, uint64_t row)
{
    struct store_marks *m = store->marks;
    const struct store_table *table = &store->table[table_index];
    struct saves_place place = {.marks = m};
    if (!place_look(&place)) {
        const uint64_t begin_ns = clock_ns();
        bell_await(&m->room_bell, true, place_look, &place);
        count_add(&m->shared_wait_ns, clock_ns() - begin_ns);
    }
    if (place.entry == NULL) return;
    place.entry->key = key_of(store, table_index, row);
    place.entry->table = table_index;
    memcpy(place.entry->span, span_of(table, row), table->span_floats * sizeof(float));
    /* Release pairs with the acquire in store_save_peek(). */
    atomic_store_explicit(&place.entry->shared_turn, place.number + 1 - place.number % m->entry_count,
                          memory_order_release);
}

bool store_save_peek(struct store *store, struct saved_row *row)
{
    const struct store_marks *m = store->marks;
    const struct entry *entry = entry_of(m, m->head);
    if (turn_of(m, entry, m->head) != m->head + 1) return false;
    *row = (struct saved_row){.table = entry->table, .key = entry->key, .span = entry->span};
    return true;
}

void store_save_drop(struct store *store)
{
    struct store_marks *m = store->marks;
    struct entry *entry = entry_of(m, m->head);
    const uint64_t next = m->head + m->entry_count;
    atomic_store_explicit(&entry->shared_turn, next - m->head % m->entry_count, memory_order_release);
    m->head++;
    bell_ring(&m->room_bell);
}

/* --- marks ------------------------------------------------------------------------------------ */

/* Makes sure that the save under way has the row, or needs it no more; returns the row's old mark. */
static uint8_t row_part(const struct store *store, uint32_t table_index, uint64_t row)
{
    struct store_marks *m = store->marks;
    _Atomic uint8_t *mark = &m->table[table_index].shared_mark[row];
    for (uint32_t looks = 1;; looks++) {
        /* Acquire pairs with the release in store_save_take(): the row is copied before it changes. */
        uint8_t seen = atomic_load_explicit(mark, memory_order_acquire);
        if (seen == MARK_BUSY) {
            spin_pause();
            if (looks % 64 == 0) sched_yield();
            continue;
        }
        if (!m->is_pending[seen]) return seen;
        uint8_t before = seen;
        if (!atomic_compare_exchange_strong_explicit(mark, &seen, m->changed, memory_order_acq_rel,
                                                     memory_order_relaxed))
            continue;
        row_buffer(store, table_index, row);
        return before;
    }
}

static uint64_t row_of(const struct store_table *table, const struct marks_table *of, const float *span)
{
    return ((uint64_t)((const char *)span - (const char *)table->span) >> of->shift) * of->inverse;
}

void store_rows_change(struct store *store, uint32_t table_index, float *const *span, uint32_t count)
{
    struct store_marks *m = store->marks;
    home_change(store->home, table_index, span, count);
    if (m == NULL) return;
    const struct store_table *table = &store->table[table_index];
    struct marks_table *of = &m->table[table_index];
    const bool is_saving = atomic_load_explicit(&m->shared_is_saving, memory_order_acquire);
    const uint8_t changed = m->changed;
    uint64_t row_count = 0, changed_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (i + FETCH_AHEAD < count)
            __builtin_prefetch((const void *)&of->shared_mark[row_of(table, of, span[i + FETCH_AHEAD])], 1);
        const uint64_t row = row_of(table, of, span[i]);
        uint8_t before = atomic_load_explicit(&of->shared_mark[row], memory_order_relaxed);
        if (before == changed) continue;
        if (is_saving) before = row_part(store, table_index, row);
        /* Relaxed: the saver leaves this mark alone, and the next save begins after all updates. */
        atomic_store_explicit(&of->shared_mark[row], changed, memory_order_relaxed);
        row_count += before == MARK_NONE;
        changed_count++;
    }
    if (changed_count) count_add(&of->shared_changed, changed_count);
    if (row_count) count_add(&of->shared_row_count, row_count);
}

void marks_row_leave(struct store *store, uint32_t table_index, uint64_t row)
{
    struct store_marks *m = store->marks;
    if (m == NULL) return;
    struct marks_table *of = &m->table[table_index];
    uint8_t before = row_part(store, table_index, row);
    atomic_store_explicit(&of->shared_mark[row], MARK_NONE, memory_order_relaxed);
    if (before == MARK_NONE) return;
    count_add(&of->shared_row_count, (uint64_t)-1);
    if (before == m->changed) count_add(&of->shared_changed, (uint64_t)-1);
}

void marks_row_come(struct store *store, uint32_t table_index, uint64_t row, bool is_saved)
{
    struct store_marks *m = store->marks;
    if (m == NULL) return;
    struct marks_table *of = &m->table[table_index];
    atomic_store_explicit(&of->shared_mark[row], is_saved ? m->clean : m->changed, memory_order_relaxed);
    count_add(&of->shared_row_count, 1);
    if (!is_saved) count_add(&of->shared_changed, 1);
}

/* --- saves ------------------------------------------------------------------------------------ */

uint64_t store_save_rows(const struct store *store, uint32_t table)
{
    return atomic_load_explicit(&store->marks->table[table].shared_row_count, memory_order_relaxed);
}

uint64_t store_save_changed(const struct store *store, uint32_t table)
{
    return atomic_load_explicit(&store->marks->table[table].shared_changed, memory_order_relaxed);
}

void store_save_begin(struct store *store, bool is_full, uint64_t *row_count)
{
    struct store_marks *m = store->marks;
    CHECK(!is_given_up(m) && !atomic_load_explicit(&m->shared_is_saving, memory_order_relaxed));
    const uint8_t pending = m->changed, old = m->clean;
    memset(m->is_pending, 0, sizeof m->is_pending);
    m->is_pending[pending] = true;
    m->changed = pending == MARK_CHANGED_0 ? MARK_CHANGED_1 : MARK_CHANGED_0;
    if (is_full) {
        m->is_pending[old] = true;
        m->clean = old == MARK_CLEAN_0 ? MARK_CLEAN_1 : MARK_CLEAN_0;
    }
    for (uint32_t t = 0; t < store->table_count; t++) {
        struct marks_table *of = &m->table[t];
        uint64_t changed = atomic_exchange_explicit(&of->shared_changed, 0, memory_order_relaxed);
        row_count[t] = is_full ? store_save_rows(store, t) : changed;
        of->limit = rows_end(&store->table[t]);
    }
    /* Release: whoever changes a row sees which marks are pending. */
    atomic_store_explicit(&m->shared_is_saving, true, memory_order_release);
}

bool store_save_take(struct store *store, uint32_t table_index, uint64_t *cursor, uint64_t *key, float *span)
{
    struct store_marks *m = store->marks;
    const struct store_table *table = &store->table[table_index];
    struct marks_table *of = &m->table[table_index];
    for (uint64_t row = *cursor; row < of->limit; row++) {
        uint8_t seen = atomic_load_explicit(&of->shared_mark[row], memory_order_relaxed);
        /* Acquire: the row's values, from the thread that has marked it. If it fails, the
         * row is in the buffer, or will be. */
        if (!m->is_pending[seen] ||
            !atomic_compare_exchange_strong_explicit(&of->shared_mark[row], &seen, MARK_BUSY, memory_order_acquire,
                                                     memory_order_relaxed))
            continue;
        *key = key_of(store, table_index, row);
        memcpy(span, span_of(table, row), table->span_floats * sizeof *span);
        atomic_store_explicit(&of->shared_mark[row], m->clean, memory_order_release);
        *cursor = row + 1;
        return true;
    }
    *cursor = of->limit;
    return false;
}

uint64_t store_save_end(struct store *store, bool is_given_up_now)
{
    struct store_marks *m = store->marks;
    if (is_given_up_now) {
        atomic_store_explicit(&m->shared_is_given_up, true, memory_order_release);
        bell_ring(&m->room_bell);
    }
    atomic_store_explicit(&m->shared_is_saving, false, memory_order_release);
    return atomic_exchange_explicit(&m->shared_wait_ns, 0, memory_order_relaxed);
}

/* --- rows of the home ------------------------------------------------------------------------------- */

uint64_t store_stretch_bytes(const struct store *store, uint32_t table)
{
    return home_stretch_bytes(store->home, table);
}

status store_disk_write_out(struct store *store) { return home_write_out(store->home); }

bool store_stretch_next(struct store *store, uint32_t table, bool is_full, uint64_t *number,
                        struct home_stretch *stretch)
{
    if (!home_stretch_next(store->home, table, is_full, *number, stretch)) return false;
    *number = stretch->number;
    return true;
}

/* Rows out of files that do not change. */
#include "io/store/filed.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/heap.h"
#include "engine/base/memory.h"
#include "io/store/cold_index.h"
#include "io/uring.h"

#define PART_INDEX   "index of rows in files"
#define PART_KEPT    "rows of files"
#define PART_BUFFERS "reads of rows in files"
#define READS        256u
#define DONE_COUNT   32u
#define KEY_BYTES    sizeof(uint64_t)
/* About how many rows batches under way bring; bounds of batches. */
#define ROWS_AHEAD  32768u
#define BATCHES_MIN 2u
#define BATCHES_MAX 16u
#define NO_PLACE    UINT32_MAX

struct part_file {
    struct filed_part at;
    char *path;
    uint64_t place; /* of its first row */
};

/* Copies of rows. A row's place chooses its entry, and the last row that came there stays; the key is kept,
 * too, because a candidate's place may have another key's row. */
struct kept {
    uint64_t *key;   /* [count]                 */
    uint32_t *place; /* [count]; NO_PLACE: the entry is empty */
    float *span;     /* [count, span_floats]    */
    uint64_t count;
};

struct table {
    const char *name;
    uint32_t span_floats;
    struct cold_index index;
    struct kept kept;
    void *kept_block;
    size_t kept_bytes;
    struct part_file *part;
    uint32_t part_count;
    uint64_t place_count;
    struct home_counts counts;
};

struct wanted {
    struct home_row row;
    uint32_t place;
};
struct filed_batch {
    struct wanted *wanted; /* [fetch_max] */
    uint32_t count, next, left;
    bool is_open;
};
struct reading {
    uint8_t *bytes; /* of the key and span */
    uint32_t done_bytes, size_bytes;
    uint32_t batch, wanted;
};

struct filed {
    struct home home; /* the first: a home is its filed */
    struct arena arena;
    uint32_t table_count, fetch_max;
    struct uring *uring;
    void *context;
    void (*arrived)(void *context, const struct home_row *row, bool is_found);
    struct failure failure;
    struct filed_batch batch[BATCHES_MAX]; /* batch n is at [n % batch_count] */
    uint32_t batch_count;
    uint64_t begun_count;
    struct reading reading[READS];
    uint32_t spare[READS], spare_count;
    struct uring_request request[READS];
    uint32_t request_count;
    struct table table[];
};

static struct filed *filed_of(const struct home *home) { return (struct filed *)(uintptr_t)home; }
static struct filed_batch *batch_of(struct filed *f, uint64_t number) { return &f->batch[number % f->batch_count]; }

/* --- budget ----------------------------------------------------------------------------------- */

static size_t row_bytes(uint32_t span_floats) { return KEY_BYTES + span_floats * sizeof(float); }
static size_t kept_row_bytes(uint32_t span_floats) { return row_bytes(span_floats) + sizeof(uint32_t); }

uint64_t filed_table_least(uint64_t rows) { return cold_index_bytes(rows) + CACHE_LINE_BYTES; }

uint64_t filed_table_most(uint64_t rows, uint32_t span_floats)
{
    return filed_table_least(rows) + rows * kept_row_bytes(span_floats);
}

static uint32_t batch_count_of(const struct home_options *o)
{
    const uint32_t count = ROWS_AHEAD / o->fetch_max;
    return count < BATCHES_MIN ? BATCHES_MIN : count < BATCHES_MAX ? count : BATCHES_MAX;
}

static struct uring_options uring_options_of(const struct home_options *o)
{
    return (struct uring_options){
        .depth = READS, .thread_count = 8, .threads_only = o->io_threads, .faults = o->faults};
}

static void filed_layout(struct layout *l, const struct home_options *o, struct filed *f)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < o->table_count; i++)
        if (row_bytes(o->table[i].span_floats) > bytes) bytes = row_bytes(o->table[i].span_floats);
    for (uint32_t batch = 0; batch < batch_count_of(o); batch++) {
        struct wanted *wanted;
        LAYOUT_TAKE(l, wanted, o->fetch_max);
        if (l->arena) f->batch[batch].wanted = wanted;
    }
    for (uint32_t i = 0; i < READS; i++) {
        uint8_t *room;
        LAYOUT_TAKE(l, room, bytes);
        if (l->arena) f->reading[i].bytes = room;
    }
}

static size_t own_bytes(const struct home_options *o)
{
    return sizeof(struct filed) + o->table_count * sizeof(struct table);
}

uint64_t filed_fixed_bytes(const struct home_options *o)
{
    const struct uring_options uring = uring_options_of(o);
    struct layout sum = {.bytes = arena_bytes(own_bytes(o)) + uring_bytes(&uring)};
    filed_layout(&sum, o, NULL);
    return sum.bytes;
}

static uint64_t filed_ram_bytes(const struct home_options *o)
{
    uint64_t sum = filed_fixed_bytes(o);
    for (uint32_t i = 0; i < o->table_count; i++) sum += o->table[i].bytes;
    return sum;
}

static uint64_t filed_row_bytes(uint32_t span_floats) { return row_bytes(span_floats); }

/* --- opening and closing ---------------------------------------------------------------------- */

static status table_open(struct table *t, const struct home_table_options *options, uint32_t tag_bits)
{
    t->name = options->name;
    t->span_floats = options->span_floats;
    if (options->rows >= COLD_PLACES_MAX)
        FAIL(INVALID, "table \"%s\": expected fewer than %u rows, found %" PRIu64, options->name, COLD_PLACES_MAX,
             options->rows);
    const uint64_t least = filed_table_least(options->rows);
    if (options->bytes < least)
        FAIL(INVALID, "table \"%s\": the index of %" PRIu64 " rows needs %" PRIu64 " bytes, and %" PRIu64 " are left",
             options->name, options->rows, least, options->bytes);
    TRY(cold_index_open(&t->index, PART_INDEX, options->rows, tag_bits ? tag_bits : 32));
    t->counts.row_max = options->rows;
    t->kept.count = (options->bytes - least) / kept_row_bytes(options->span_floats);
    if (t->kept.count == 0) return ST_OK;
    t->kept_bytes = t->kept.count * kept_row_bytes(options->span_floats);
    TRY(memory_take(PART_KEPT, t->kept_bytes, &t->kept_block));
    t->kept.key = t->kept_block;
    t->kept.span = (float *)(t->kept.key + t->kept.count);
    t->kept.place = (uint32_t *)(t->kept.span + t->kept.count * t->span_floats);
    memset(t->kept.place, 0xff, t->kept.count * sizeof *t->kept.place);
    return ST_OK;
}

static void filed_close(struct home *home)
{
    struct filed *f = filed_of(home);
    uring_close(f->uring);
    for (uint32_t i = 0; i < f->table_count; i++) {
        struct table *table = &f->table[i];
        for (uint32_t part = 0; part < table->part_count; part++) {
            close(table->part[part].at.fd);
            free(table->part[part].path);
        }
        free(table->part);
        if (table->index.cell) cold_index_close(&table->index);
        if (table->kept_block) memory_give(PART_KEPT, table->kept_block, table->kept_bytes);
    }
    struct arena arena = f->arena; /* the home itself lies in it */
    arena_close(&arena);
}

static status part_add(struct table *t, const struct filed_part *at)
{
    TRY(heap_room(&t->part, t->part_count + 1, sizeof *t->part, "files of rows"));
    struct part_file *p = &t->part[t->part_count];
    *p = (struct part_file){.at = *at, .place = t->place_count};
    if (t->place_count + at->row_count >= COLD_PLACES_MAX)
        FAIL(FULL, "%s: with its %" PRIu64 " rows the files of table \"%s\" have more than can be told apart, %u",
             at->path, at->row_count, t->name, COLD_PLACES_MAX);
    TRY(heap_text(&p->path, "%s", at->path));
    t->place_count += at->row_count;
    t->part_count++;
    return ST_OK;
}

status filed_part_add(struct home *home, uint32_t table, const struct filed_part *at)
{
    const status st = part_add(&filed_of(home)->table[table], at);
    if (st != ST_OK) close(at->fd);
    return st;
}

/* The part that has a place, and the byte of the place in its file. */
static const struct part_file *part_of(const struct table *t, uint32_t place, uint64_t *byte)
{
    uint32_t low = 0, high = t->part_count;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        *(t->part[middle].place <= place ? &low : &high) = middle;
    }
    const struct part_file *p = &t->part[low];
    const uint64_t row = place - p->place;
    *byte = p->at.offset_bytes + row / p->at.group_rows * p->at.group_bytes + row % p->at.group_rows * p->at.row_bytes;
    return p;
}

static status key_read(const struct table *t, uint32_t place, uint64_t *key)
{
    uint64_t byte;
    const struct part_file *p = part_of(t, place, &byte);
    const ssize_t got = pread(p->at.fd, key, sizeof *key, (off_t)byte);
    if (got == (ssize_t)sizeof *key) return ST_OK;
    FAIL(IO, "cannot read %s at byte %" PRIu64 ": %s", p->path, byte, got < 0 ? strerror(errno) : "it ends there");
}

status filed_row(struct home *home, uint32_t table, uint64_t row, uint64_t key)
{
    struct table *t = &filed_of(home)->table[table];
    uint32_t place[COLD_CANDIDATES_MAX];
    const uint32_t here = (uint32_t)(t->part[t->part_count - 1].place + row),
                   count = cold_index_find(&t->index, key, place);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t found;
        TRY(key_read(t, place[i], &found));
        if (found != key) continue;
        cold_index_move(&t->index, key, place[i], here);
        return ST_OK;
    }
    if (t->index.row_count == t->index.row_max || !cold_index_add(&t->index, key, here))
        FAIL(INVALID, "%s: expected at most %" PRIu64 " keys of table \"%s\", found more",
             t->part[t->part_count - 1].path, t->index.row_max, t->name);
    return ST_OK;
}

/* --- rows ------------------------------------------------------------------------------------- */

static const float *kept_find(const struct table *t, uint64_t key, uint32_t place)
{
    if (t->kept.count == 0) return NULL;
    const uint64_t at = place % t->kept.count;
    return t->kept.place[at] == place && t->kept.key[at] == key ? t->kept.span + at * t->span_floats : NULL;
}

static void kept_put(struct table *t, uint64_t key, uint32_t place, const float *span)
{
    if (t->kept.count == 0) return;
    const uint64_t at = place % t->kept.count;
    t->kept.place[at] = place;
    t->kept.key[at] = key;
    memcpy(t->kept.span + at * t->span_floats, span, t->span_floats * sizeof *span);
}

static void arrived_update(struct filed *f)
{
    while (f->home.arrived < f->begun_count) {
        const struct filed_batch *b = batch_of(f, f->home.arrived + 1);
        if (b->is_open || b->left) return;
        f->home.arrived++;
    }
}

static void wanted_end(struct filed *f, struct filed_batch *b, const struct wanted *w, const float *span)
{
    struct table *t = &f->table[w->row.table];
    if (span) memcpy(w->row.span, span, t->span_floats * sizeof *span);
    t->counts.fetched += span != NULL;
    b->left--;
    f->arrived(f->context, &w->row, span != NULL);
}

/* Asks for the rest of a read. */
static void reading_ask(struct filed *f, uint32_t index)
{
    const struct reading *r = &f->reading[index];
    const struct wanted *w = &f->batch[r->batch].wanted[r->wanted];
    uint64_t byte;
    const struct part_file *p = part_of(&f->table[w->row.table], w->place, &byte);
    f->request[f->request_count++] = (struct uring_request){.kind = URING_READ,
                                                            .fd = p->at.fd,
                                                            .buffer = r->bytes + r->done_bytes,
                                                            .bytes = r->size_bytes - r->done_bytes,
                                                            .offset_bytes = byte + r->done_bytes,
                                                            .tag = index};
}

/* Gives a row that is kept, or asks for a read; a read must be free. */
static void wanted_begin(struct filed *f, uint32_t batch, uint32_t index)
{
    struct filed_batch *b = &f->batch[batch];
    const struct wanted *w = &b->wanted[index];
    struct table *t = &f->table[w->row.table];
    const float *kept = kept_find(t, w->row.key, w->place);
    if (kept != NULL) {
        wanted_end(f, b, w, kept);
        return;
    }
    struct reading *r = &f->reading[f->spare[--f->spare_count]];
    *r = (struct reading){
        .bytes = r->bytes, .size_bytes = (uint32_t)row_bytes(t->span_floats), .batch = batch, .wanted = index};
    t->counts.read_count++;
    t->counts.read_bytes += r->size_bytes;
    reading_ask(f, (uint32_t)(r - f->reading));
}

static status flush(struct filed *f)
{
    const uint32_t count = f->request_count;
    f->request_count = 0;
    return count ? uring_submit(f->uring, f->request, count) : ST_OK;
}

/* Goes on with the wanted rows, as long as reads are free. */
static status pump(struct filed *f)
{
    for (uint64_t n = f->home.arrived + 1; n <= f->begun_count; n++) {
        struct filed_batch *b = batch_of(f, n);
        while (!b->is_open && b->next < b->count && f->spare_count)
            wanted_begin(f, (uint32_t)(n % f->batch_count), b->next++);
    }
    arrived_update(f);
    return flush(f);
}

/* The bytes at the place are there: of the row, or of another row whose key has the same tag. Then the
 * reading goes on to the next possible place. */
static void reading_end(struct filed *f, uint32_t index)
{
    struct reading *r = &f->reading[index];
    struct filed_batch *b = &f->batch[r->batch];
    struct wanted *w = &b->wanted[r->wanted];
    struct table *t = &f->table[w->row.table];
    uint64_t key;
    uint32_t place[COLD_CANDIDATES_MAX], next = 0;
    memcpy(&key, r->bytes, KEY_BYTES);
    if (key == w->row.key) {
        const float *span = (const float *)(const void *)(r->bytes + KEY_BYTES);
        kept_put(t, key, w->place, span);
        wanted_end(f, b, w, span);
    } else {
        const uint32_t count = cold_index_find(&t->index, w->row.key, place);
        t->counts.false_count++;
        while (next < count && place[next] <= w->place) next++;
        if (next < count) {
            w->place = place[next];
            r->done_bytes = 0;
            reading_ask(f, index);
            return;
        }
        wanted_end(f, b, w, NULL);
    }
    f->spare[f->spare_count++] = index;
}

static status done_take(struct filed *f, const struct uring_done *done)
{
    const uint32_t index = (uint32_t)done->tag;
    struct reading *r = &f->reading[index];
    if (done->result == -EAGAIN || done->result == -EINTR) {
        reading_ask(f, index);
        return ST_OK;
    }
    if (done->result <= 0) {
        const struct wanted *w = &f->batch[r->batch].wanted[r->wanted];
        uint64_t byte;
        const struct part_file *p = part_of(&f->table[w->row.table], w->place, &byte);
        FAIL(IO, "cannot read %s at byte %" PRIu64 ": %s", p->path, byte + r->done_bytes,
             done->result < 0 ? strerror(-done->result) : "it ends there");
    }
    r->done_bytes += (uint32_t)done->result;
    if (r->done_bytes < r->size_bytes)
        reading_ask(f, index);
    else
        reading_end(f, index);
    return ST_OK;
}

static status look(struct filed *f, bool wait)
{
    struct uring_done done[DONE_COUNT];
    TRY(flush(f));
    if (wait) uring_await(f->uring, 1);
    for (uint32_t count = DONE_COUNT; count == DONE_COUNT;) {
        count = uring_reap(f->uring, done, DONE_COUNT, 0);
        for (uint32_t i = 0; i < count; i++) TRY(done_take(f, &done[i]));
        TRY(pump(f));
    }
    return ST_OK;
}

/* --- as a home -------------------------------------------------------------------------------- */

static status filed_poll(struct home *home, bool wait)
{
    struct filed *f = filed_of(home);
    if (failure_is(&f->failure)) return failure_adopt(&f->failure);
    const status st = look(f, wait);
    if (st != ST_OK) failure_keep(&f->failure, st);
    return st;
}

static status filed_settle(struct home *home)
{
    struct filed *f = filed_of(home);
    TRY(failure_adopt(&f->failure));
    while (f->home.arrived < f->begun_count) TRY(filed_poll(home, true));
    return ST_OK;
}

static status filed_ask(struct home *home)
{
    struct filed *f = filed_of(home);
    while (f->begun_count - f->home.arrived == f->batch_count) TRY(filed_poll(home, true));
    struct filed_batch *b = batch_of(f, ++f->begun_count);
    b->count = b->next = b->left = 0;
    b->is_open = true;
    return ST_OK;
}

static void filed_prefetch(const struct home *home, uint32_t table, uint64_t key)
{
    cold_index_prefetch(&filed_of(home)->table[table].index, key);
}

static bool filed_find(struct home *home, const struct home_row *row)
{
    struct filed *f = filed_of(home);
    struct filed_batch *b = batch_of(f, f->begun_count);
    uint32_t place[COLD_CANDIDATES_MAX];
    CHECK(row->is_copy && b->is_open);
    if (cold_index_find(&f->table[row->table].index, row->key, place) == 0) return false;
    CHECK(b->count < f->fetch_max);
    b->wanted[b->count++] = (struct wanted){.row = *row, .place = place[0]};
    return true;
}

static status filed_bring(struct home *home, uint64_t *number)
{
    struct filed *f = filed_of(home);
    struct filed_batch *b = batch_of(f, f->begun_count);
    b->left = b->count;
    b->is_open = false;
    *number = f->begun_count;
    return pump(f);
}

/* No row comes here: rows in files are only looked up. */
static status filed_put(struct home *home, uint32_t table, uint64_t key, const float *span)
{
    (void)key, (void)span;
    FAIL(FULL, "table \"%s\": its rows lie in the files of a save, and no row can be added",
         filed_of(home)->table[table].name);
}
static void filed_walk_begin(struct home *home, uint32_t table) { (void)home, (void)table; }
static status filed_walk_next(struct home *home, uint64_t *key, const float **span)
{
    (void)key, (void)span;
    FAIL(INVALID, "table \"%s\": rows that lie in the files of a save are looked up, and not gone through",
         filed_of(home)->table[0].name);
}
static void filed_walk_end(struct home *home) { (void)home; }

static struct home_counts filed_counts(const struct home *home, uint32_t table)
{
    struct home_counts counts = filed_of(home)->table[table].counts;
    counts.row_count = filed_of(home)->table[table].index.row_count;
    return counts;
}

uint64_t filed_row_count(const struct home *home, uint32_t table)
{
    return filed_of(home)->table[table].index.row_count;
}

static const char *filed_words(const struct home *home)
{
    return strcmp(uring_name(filed_of(home)->uring), "threads") == 0 ? "threads, by the page cache"
                                                                     : "io_uring, by the page cache";
}

static const struct home_vt vt = {.close = filed_close,
                                  .ask = filed_ask,
                                  .find = filed_find,
                                  .bring = filed_bring,
                                  .put = filed_put,
                                  .poll = filed_poll,
                                  .settle = filed_settle,
                                  .walk_begin = filed_walk_begin,
                                  .walk_next = filed_walk_next,
                                  .walk_end = filed_walk_end,
                                  .counts = filed_counts,
                                  .words = filed_words,
                                  .prefetch = filed_prefetch};

bool filed_is(const struct home *home) { return home != NULL && home->vt == &vt; }

static status filed_open(struct home **home, const struct home_options *o)
{
    struct arena arena;
    TRY(arena_open(&arena, PART_BUFFERS, filed_fixed_bytes(o)));
    struct filed *f = arena_take(&arena, own_bytes(o));
    filed_layout(&(struct layout){.arena = &arena}, o, f);
    f->home.vt = &vt;
    f->table_count = o->table_count;
    f->fetch_max = o->fetch_max;
    f->batch_count = batch_count_of(o);
    f->context = o->context;
    f->arrived = o->arrived;
    for (uint32_t i = 0; i < READS; i++) f->spare[f->spare_count++] = i;
    status st = ST_OK;
    for (uint32_t i = 0; i < o->table_count && st == ST_OK; i++)
        st = table_open(&f->table[i], &o->table[i], o->tag_bits);
    const char *why;
    const struct uring_options uring = uring_options_of(o);
    f->arena = arena;
    if (st == ST_OK) st = uring_open(&f->uring, &f->arena, &uring, &why);
    if (st != ST_OK) {
        filed_close(&f->home);
        return st;
    }
    *home = &f->home;
    return ST_OK;
}

const struct home_kind filed_home = {
    .ram_bytes = filed_ram_bytes, .row_bytes = filed_row_bytes, .table_bytes_least = 0, .open = filed_open};

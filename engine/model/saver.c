#include "engine/model/saver.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/bell.h"
#include "engine/base/heap.h"
#include "engine/base/log.h"
#include "engine/base/steady.h"
#include "engine/base/thread.h"
#include "engine/model/model_dir.h"
#include "engine/model/model_names.h"
#include "engine/model/model_save.h"
#include "io/store/store_rows.h"
#include "io/store/store_save.h"

#define PART_COPY   "checkpoint copy"
#define PART_BUFFER "checkpoint buffer"
/* Bytes of the blocks of all tables' files together; of a table's block at least;
 * of one copy from a segment. */
#define BLOCKS_BYTES    ((size_t)8 << 20)
#define BLOCK_BYTES_MIN ((size_t)64 << 10)
#define COPY_BYTES      ((size_t)1 << 20)
/* While training stands still, a save that gets no row for so long has failed. */
#define SILENCE_NS UINT64_C(10000000000)
/* A full save is made when all files together would have CHAIN_TIMES a full save's bytes, or when a table has
 * CHAIN_FILES_MAX files of rows. Segments do not count as files: saves share them for long. */
#define CHAIN_TIMES     2
#define CHAIN_FILES_MAX 256u

/* A table in the saves of this run. */
struct saver_table {
    struct manifest_part *chain; /* [chain_count], oldest first; owns the parts' names   */
    uint32_t chain_count, chain_max;
    uint32_t linked_count; /* the chain's last parts: segments added by this save */
    uint64_t row_count;    /* in this save                                                */
    uint64_t written_count;
    uint64_t cursor;
    struct save_rows rows;
    uint8_t *block;
    size_t block_bytes;
};
/* A stretch of blocks to be copied, because its file cannot be linked. */
struct stretch_copy {
    char *name;
    struct home_stretch from;
};

struct saver {
    /* set once */
    const struct model *model;
    struct store *store;
    const char *path;
    uint32_t keep, table_count;
    struct model frozen; /* the dense part as of the save's step */
    uint8_t *copy_block, *buffer;
    size_t copy_bytes, buffer_bytes;
    /* the main thread's; during a save the saver's */
    struct save save;
    struct saver_done done;
    struct saver_table *table;
    struct manifest_part **old_chain; /* [table_count]: the chains that a full save replaces */
    uint32_t *old_count;
    struct stretch_copy *copies;
    uint32_t copy_count;
    bool is_copying; /* links are refused */
    bool is_broken;  /* a save has failed */
    bool waits;      /* threads that change a row of this save still wait for the saver */
    uint64_t begin_ns;
    struct failure result;
    pthread_t thread;
    bool is_started, is_busy;
    struct bell bell;
    _Atomic bool shared_is_asked, shared_is_done, shared_is_closing;
    _Atomic bool shared_is_awaited; /* the main thread waits: training stands still */
};

/* --- opening ---------------------------------------------------------------------------------- */

static size_t block_bytes_of(const struct graph *g, uint32_t table)
{
    size_t each = BLOCKS_BYTES / g->table_count;
    size_t bytes =
        row_writer_block_bytes(g->tables[table].span_floats, each > BLOCK_BYTES_MIN ? each : BLOCK_BYTES_MIN);
    return arena_bytes(bytes);
}

static status memory_open(struct saver *s, uint64_t buffer_bytes)
{
    const struct graph *g = s->model->graph;
    void *block;
    s->copy_bytes = (size_t)(g->header->param_floats + g->header->state_floats) * sizeof(float);
    TRY(memory_take(PART_COPY, s->copy_bytes, &block));
    s->copy_block = block;
    s->buffer_bytes = COPY_BYTES;
    for (uint32_t t = 0; t < g->table_count; t++) s->buffer_bytes += block_bytes_of(g, t);
    TRY(memory_take(PART_BUFFER, s->buffer_bytes, &block));
    s->buffer = block;
    size_t at = COPY_BYTES;
    for (uint32_t t = 0; t < g->table_count; t++) {
        s->table[t].block = s->buffer + at;
        s->table[t].block_bytes = row_writer_block_bytes(g->tables[t].span_floats, block_bytes_of(g, t));
        at += block_bytes_of(g, t);
    }
    memory_note("threads", THREAD_STACK_BYTES);
    return store_save_open(s->store, buffer_bytes);
}

status saver_open(struct saver **out, const struct saver_options *o)
{
    const uint32_t table_count = o->model->graph->table_count;
    struct saver *s = aligned_alloc(_Alignof(struct saver), sizeof *s);
    if (s == NULL) FAIL(MEMORY, "no memory for a saver");
    memset(s, 0, sizeof *s);
    s->model = o->model;
    s->store = o->model->store;
    s->path = o->path;
    s->keep = o->keep;
    s->table_count = table_count;
    s->table = calloc((size_t)table_count + 1, sizeof *s->table);
    s->old_chain = calloc((size_t)table_count + 1, sizeof *s->old_chain);
    s->old_count = calloc((size_t)table_count + 1, sizeof *s->old_count);
    status st = ST_OK;
    if (s->table == NULL || s->old_chain == NULL || s->old_count == NULL)
        st = status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory to save %u tables", table_count);
    if (st == ST_OK) st = memory_open(s, o->buffer_bytes);
    if (st != ST_OK) {
        saver_close(s);
        return st;
    }
    *out = s;
    return ST_OK;
}

static void chain_free(struct manifest_part *chain, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) free((char *)(uintptr_t)chain[i].file.name);
    free(chain);
}

static void old_chains_free(struct saver *s)
{
    for (uint32_t t = 0; t < s->table_count; t++) {
        chain_free(s->old_chain[t], s->old_count[t]);
        s->old_chain[t] = NULL;
        s->old_count[t] = 0;
    }
}

static void copies_free(struct saver *s)
{
    for (uint32_t i = 0; i < s->copy_count; i++) {
        close(s->copies[i].from.fd);
        free(s->copies[i].name);
    }
    s->copy_count = 0;
}

void saver_close(struct saver *s)
{
    if (s == NULL) return;
    if (s->is_busy) saver_wait(s);
    if (s->is_started) {
        atomic_store_explicit(&s->shared_is_closing, true, memory_order_release);
        bell_ring(&s->bell);
        pthread_join(s->thread, NULL);
    }
    if (s->is_busy) save_end(&s->save);
    for (uint32_t t = 0; s->table != NULL && t < s->table_count; t++)
        chain_free(s->table[t].chain, s->table[t].chain_count);
    if (s->old_chain != NULL && s->old_count != NULL) old_chains_free(s);
    memory_give(PART_COPY, s->copy_block, s->copy_bytes);
    memory_give(PART_BUFFER, s->buffer, s->buffer_bytes);
    copies_free(s); /* left by a save that failed to begin */
    free(s->copies);
    free(s->table);
    free(s->old_chain);
    free(s->old_count);
    free(s);
}

/* --- beginning -------------------------------------------------------------------------------- */

/* Adds a part under a copy of `name`. */
static status chain_add(struct saver_table *table, const struct manifest_part *part, const char *name)
{
    char *copy;
    if (table->chain_count == table->chain_max) {
        const uint32_t max = 2 * table->chain_max + 16;
        TRY(heap_room(&table->chain, max, sizeof *table->chain, "files of a table"));
        table->chain_max = max;
    }
    TRY(heap_text(&copy, "%s", name));
    struct manifest_part *added = &table->chain[table->chain_count++];
    *added = *part;
    added->file.name = copy;
    return ST_OK;
}

static uint64_t chain_bytes(const struct manifest_part *chain, uint32_t count)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) sum += chain[i].file.bytes;
    return sum;
}

/* A file of an earlier save that is gone; NULL: all are there. */
static const char *gone_find(const struct saver *s)
{
    for (uint32_t t = 0; t < s->table_count; t++)
        for (uint32_t i = 0; i < s->table[t].chain_count; i++)
            if (!model_file_is_there(s->path, s->table[t].chain[i].file.name)) return s->table[t].chain[i].file.name;
    return NULL;
}

/* Forgets all chains if files of theirs are gone, so that this save is whole: someone has moved the
 * directory away, or emptied it. What is there now is claimed as at the start. */
static status chains_check(struct saver *s)
{
    const char *gone = gone_find(s);
    if (gone == NULL) return ST_OK;
    log_warning("out %s: %s of an earlier save of this run is gone: the save of step %" PRIu64
                " is whole, and needs no file of earlier ones",
                s->path, gone, s->frozen.progress.step);
    for (uint32_t t = 0; t < s->table_count; t++) {
        struct saver_table *table = &s->table[t];
        chain_free(table->chain, table->chain_count);
        table->chain = NULL;
        table->chain_count = table->chain_max = 0;
    }
    return model_dir_check(s->model->graph, s->path);
}

/* Whether this save begins a new chain. */
static bool full_choose(const struct saver *s)
{
    uint64_t chains = 0, full = 0;
    for (uint32_t t = 0; t < s->table_count; t++) {
        const struct saver_table *table = &s->table[t];
        const uint64_t row_bytes = sizeof(uint64_t) + s->model->graph->tables[t].span_floats * sizeof(float);
        uint32_t file_count = 0;
        for (uint32_t i = 0; i < table->chain_count; i++) file_count += table->chain[i].number == 0;
        if (table->chain_count == 0 || file_count == CHAIN_FILES_MAX) return true;
        chains += chain_bytes(table->chain, table->chain_count) + store_save_changed(s->store, t) * row_bytes;
        full += store_save_rows(s->store, t) * row_bytes + store_stretch_bytes(s->store, t);
    }
    return chains > CHAIN_TIMES * full;
}

/* The segment's name in the directory; NULL: it is not there. */
static const char *link_find(const struct manifest_part *chain, uint32_t count, uint64_t number)
{
    for (uint32_t i = 0; i < count; i++)
        if (chain[i].number == number) return chain[i].file.name;
    return NULL;
}

/* Gives the segment a name in the directory, too; false: the link is refused. */
static bool segment_link(struct saver *s, const char *from, const char *name)
{
    char to[FILE_PATH_BYTES];
    bool is_linked = link(from, file_path_join(to, s->path, name)) == 0;
    if (!is_linked && !s->is_copying)
        log_warning("rows on disk are copied into %s, not linked: %s: %s", s->path, from, strerror(errno));
    return is_linked;
}

/* Lists a stretch for the thread to copy; its file stays open. */
static status copy_add(struct saver *s, const struct home_stretch *stretch, const char *name)
{
    s->is_copying = true;
    TRY(heap_room(&s->copies, s->copy_count + 1, sizeof *s->copies, "files of rows to be copied"));
    struct stretch_copy *copy = &s->copies[s->copy_count];
    *copy = (struct stretch_copy){.from = *stretch};
    TRY(heap_text(&copy->name, "%s", name));
    copy->from.fd = fcntl(stretch->fd, F_DUPFD_CLOEXEC, 3);
    if (copy->from.fd < 0) {
        free(copy->name);
        FAIL(IO, "%s: %s", stretch->path, strerror(errno));
    }
    s->copy_count++;
    return ST_OK;
}

/* Makes a name for a segment that no earlier save names. malloc'd. */
static status stretch_name(const struct saver *s, uint32_t t, uint64_t number, char **name)
{
    char *stem, *numbered = NULL;
    TRY(model_file_stem(&stem, graph_string(s->model->graph, s->model->graph->tables[t].name)));
    status st = heap_text(&numbered, "%s.%08" PRIu64, stem, number);
    if (st == ST_OK) st = model_data_name(name, numbered, s->frozen.progress.step, s->save.generation, SEGMENT_END);
    free(stem);
    free(numbered);
    return st;
}

static status stretch_add(struct saver *s, uint32_t t, const struct home_stretch *stretch)
{
    struct saver_table *table = &s->table[t];
    struct manifest_part part = {.file.bytes =
                                     (uint64_t)(stretch->block_end - stretch->block_begin) * stretch->block_bytes,
                                 .file.xxh3 = stretch->xxh3,
                                 .number = stretch->number,
                                 .is_hashed = true,
                                 .block_bytes = stretch->block_bytes,
                                 .block_begin = stretch->block_begin,
                                 .block_end = stretch->block_end};
    const char *present = link_find(table->chain, table->chain_count, stretch->number);
    if (present == NULL) present = link_find(s->old_chain[t], s->old_count[t], stretch->number);
    if (s->is_copying) present = NULL;
    char *name = NULL;
    status st = present == NULL ? stretch_name(s, t, stretch->number, &name) : ST_OK;
    if (st == ST_OK) st = chain_add(table, &part, present ? present : name);
    if (st == ST_OK) table->linked_count++;
    if (st == ST_OK && present == NULL && (s->is_copying || !segment_link(s, stretch->path, name)))
        st = copy_add(s, stretch, name);
    free(name);
    return st;
}

static status stretches_add(struct saver *s, bool is_full)
{
    TRY(store_disk_write_out(s->store));
    for (uint32_t t = 0; t < s->table_count; t++) {
        struct saver_table *table = &s->table[t];
        struct home_stretch stretch;
        uint64_t number = 0;
        table->linked_count = 0;
        if (is_full) {
            s->old_chain[t] = table->chain;
            s->old_count[t] = table->chain_count;
            table->chain = NULL;
            table->chain_count = table->chain_max = 0;
        }
        while (store_stretch_next(s->store, t, is_full, &number, &stretch)) TRY(stretch_add(s, t, &stretch));
    }
    return ST_OK;
}

static void *saver_main(void *argument);
static status rows_put(void *context, struct save *save);

static status begin(struct saver *s, const uint64_t *row_count, uint32_t ticket)
{
    const struct graph_header *h = s->model->graph->header;
    if (!s->is_started) {
        int error = thread_start(&s->thread, saver_main, s);
        if (error) FAIL(SYSTEM, "cannot start the saving thread: %s", strerror(error));
        s->is_started = true;
    }
    s->begin_ns = clock_ns();
    s->frozen = *s->model;
    s->frozen.param = (float *)(void *)s->copy_block;
    s->frozen.state = s->frozen.param + h->param_floats;
    memcpy(s->frozen.param, s->model->param, h->param_floats * sizeof(float));
    memcpy(s->frozen.state, s->model->state, h->state_floats * sizeof(float));
    s->save = (struct save){.model = &s->frozen, .path = s->path, .keep = s->keep, .rows_put = rows_put, .context = s};
    TRY(save_begin(&s->save));
    TRY(chains_check(s));
    bool is_full = full_choose(s);
    TRY(stretches_add(s, is_full));
    s->done = (struct saver_done){.progress = s->frozen.progress, .is_full = is_full};
    uint64_t written_count[GRAPH_TABLES_MAX];
    store_save_begin(s->store, is_full, written_count);
    s->waits = true;
    for (uint32_t t = 0; t < s->table_count; t++) {
        s->table[t].cursor = 0;
        s->table[t].written_count = written_count[t];
        s->table[t].row_count = store_row_count_at(s->store, t, row_count[t], ticket);
        s->done.row_count += s->table[t].row_count;
        s->done.written_count += written_count[t];
        CHECK(!is_full || store_has_home(s->store) || s->table[t].row_count == written_count[t]);
    }
    return ST_OK;
}

status saver_begin(struct saver *s, const uint64_t *row_count, uint32_t ticket)
{
    CHECK(!s->is_busy && !s->is_broken);
    status st = begin(s, row_count, ticket);
    if (st != ST_OK) {
        s->is_broken = true;
        save_end(&s->save);
        return st;
    }
    s->is_busy = true;
    atomic_store_explicit(&s->shared_is_done, false, memory_order_relaxed);
    /* Release pairs with the acquire in asked(). */
    atomic_store_explicit(&s->shared_is_asked, true, memory_order_release);
    bell_ring(&s->bell);
    return ST_OK;
}

/* --- the thread -------------------------------------------------------------------------------- */

static status file_sync(const char *path, int fd)
{
    if (fd < 0 || fsync(fd) != 0) FAIL(IO, "%s: fsync: %s", path, strerror(errno));
    return ST_OK;
}

static status link_sync(const struct saver *s, const char *name)
{
    char path[FILE_PATH_BYTES];
    int fd = open(file_path_join(path, s->path, name), O_RDONLY | O_CLOEXEC);
    if (fd < 0) FAIL(IO, "%s: %s", path, strerror(errno));
    status st = file_sync(path, fd);
    close(fd);
    return st;
}

/* Copies the blocks to a file of their own, at the same offsets: a hole is in front of them. */
static status blocks_copy(struct saver *s, const struct stretch_copy *copy, const char *path, int fd)
{
    const struct home_stretch *from = &copy->from;
    uint64_t at = (uint64_t)from->block_begin * from->block_bytes, end = (uint64_t)from->block_end * from->block_bytes;
    while (at < end) {
        size_t count = end - at < COPY_BYTES ? (size_t)(end - at) : COPY_BYTES;
        ssize_t got = pread(from->fd, s->buffer, count, (off_t)at), put = 0;
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) FAIL(IO, "%s at byte %" PRIu64 ": %s", from->path, at, got ? strerror(errno) : "it ends there");
        while (put < got) {
            ssize_t now = pwrite(fd, s->buffer + put, (size_t)(got - put), (off_t)at + put);
            if (now < 0 && errno == EINTR) continue;
            if (now < 0) FAIL(IO, "%s at byte %" PRIu64 ": %s", path, at, strerror(errno));
            put += now;
        }
        s->save.bytes += (uint64_t)got;
        at += (uint64_t)got;
    }
    return file_sync(path, fd);
}

static status segment_copy(struct saver *s, const struct stretch_copy *copy)
{
    char path[FILE_PATH_BYTES];
    int fd = open(file_path_join(path, s->path, copy->name), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) FAIL(IO, "%s: %s", path, strerror(errno));
    status st = blocks_copy(s, copy, path, fd);
    if (close(fd) != 0 && st == ST_OK) FAIL(IO, "%s: close: %s", path, strerror(errno));
    return st;
}

static bool is_copied(const struct saver *s, const char *name)
{
    for (uint32_t i = 0; i < s->copy_count; i++)
        if (strcmp(s->copies[i].name, name) == 0) return true;
    return false;
}

/* Copies and syncs segments, so that all that the save names are on the disk. */
static status segments_put(struct saver *s)
{
    for (uint32_t i = 0; i < s->copy_count; i++) TRY(segment_copy(s, &s->copies[i]));
    for (uint32_t t = 0; t < s->table_count; t++) {
        const struct saver_table *table = &s->table[t];
        for (uint32_t i = table->chain_count - table->linked_count; i < table->chain_count; i++) {
            const struct manifest_file *file = &table->chain[i].file;
            if (is_copied(s, file->name)) continue;
            s->done.linked_bytes += file->bytes;
            TRY(link_sync(s, file->name));
        }
    }
    return ST_OK;
}

static status span_put(struct saver *s, const struct saved_row *row)
{
    struct row_writer *w = &s->table[row->table].rows.rows;
    TRY(row_writer_room(w));
    memcpy(row_writer_span(w), row->span, w->header.span_floats * sizeof(float));
    row_writer_key(w, row->key);
    return ST_OK;
}

/* Writes the buffer's rows; *is_any: there was a row. */
static status buffer_empty(struct saver *s, bool *is_any)
{
    struct saved_row row;
    *is_any = false;
    while (store_save_peek(s->store, &row)) {
        TRY(span_put(s, &row));
        store_save_drop(s->store);
        *is_any = true;
    }
    return ST_OK;
}

static bool is_complete(const struct saver_table *table) { return table->rows.rows.row_count == table->written_count; }

static status rows_write(struct saver *s)
{
    bool is_any;
    for (uint32_t t = 0; t < s->table_count; t++) {
        struct row_writer *w = &s->table[t].rows.rows;
        uint64_t key;
        while (!is_complete(&s->table[t])) {
            TRY(buffer_empty(s, &is_any));
            if (is_complete(&s->table[t])) break;
            TRY(row_writer_room(w));
            if (!store_save_take(s->store, t, &s->table[t].cursor, &key, row_writer_span(w))) break;
            row_writer_key(w, key);
        }
    }
    /* The remaining rows are in the buffer, or on their way there. */
    uint64_t seen_ns = clock_ns();
    for (uint32_t t = 0; t < s->table_count;) {
        if (is_complete(&s->table[t])) {
            t++;
            continue;
        }
        bool is_awaited = atomic_load_explicit(&s->shared_is_awaited, memory_order_acquire);
        TRY(buffer_empty(s, &is_any));
        if (is_any || !is_awaited) seen_ns = clock_ns();
        if (clock_ns() - seen_ns > SILENCE_NS)
            FAIL(SYSTEM,
                 "%s: table %u: %" PRIu64 " rows were to be saved, and %" PRIu64 " have come; please report this",
                 s->path, t, s->table[t].written_count, s->table[t].rows.rows.row_count);
        if (!is_any) sched_yield();
    }
    return ST_OK;
}

/* Whether the save writes a file of rows for the table. */
static bool has_rows(const struct saver *s, uint32_t t) { return s->done.is_full || s->table[t].written_count > 0; }

static status tables_put(struct saver *s)
{
    for (uint32_t t = 0; t < s->table_count; t++) {
        struct saver_table *table = &s->table[t];
        struct manifest_table *said = &s->save.manifest.tables[t];
        table->rows = (struct save_rows){0};
        said->rows = table->row_count;
        for (uint32_t i = 0; i < table->chain_count; i++) TRY(manifest_part_add(said, &table->chain[i]));
        if (has_rows(s, t))
            TRY(save_rows_open(&s->save, t, &table->rows, table->written_count, table->block, table->block_bytes));
    }
    return rows_write(s);
}

/* From here on nobody waits for the thread. */
static void rows_end(struct saver *s, status st)
{
    if (s->waits) s->done.wait_ms = (double)store_save_end(s->store, st != ST_OK) * 1e-6;
    s->waits = false;
}

static status rows_put(void *context, struct save *save)
{
    struct saver *s = context;
    for (uint32_t t = 0; t < s->table_count; t++) s->table[t].rows = (struct save_rows){0};
    status st = tables_put(s);
    rows_end(s, st);
    if (st == ST_OK) st = segments_put(s);
    for (uint32_t t = 0; t < s->table_count && st == ST_OK; t++)
        if (has_rows(s, t)) st = save_rows_commit(save, t, &s->table[t].rows);
    for (uint32_t t = 0; t < s->table_count && st != ST_OK; t++) save_rows_abort(&s->table[t].rows);
    return st;
}

/* Adds this save's files of rows to the chains, on which the next save builds. */
static status chains_grow(struct saver *s)
{
    for (uint32_t t = 0; t < s->table_count; t++) {
        const struct manifest_table *said = &s->save.manifest.tables[t];
        if (!has_rows(s, t)) continue;
        const struct manifest_part *part = &said->part[said->part_count - 1];
        TRY(chain_add(&s->table[t], part, part->file.name));
    }
    old_chains_free(s);
    return ST_OK;
}

static bool asked(void *context)
{
    struct saver *s = context;
    /* Acquire pairs with saver_begin() and saver_close(). */
    return atomic_load_explicit(&s->shared_is_asked, memory_order_acquire) ||
           atomic_load_explicit(&s->shared_is_closing, memory_order_acquire);
}

static void *saver_main(void *argument)
{
    struct saver *s = argument;
    steady_leave_out();
    for (;;) {
        bell_await(&s->bell, false, asked, s);
        if (!atomic_load_explicit(&s->shared_is_asked, memory_order_acquire)) return NULL;
        atomic_store_explicit(&s->shared_is_asked, false, memory_order_relaxed);
        status st = save_run(&s->save);
        rows_end(s, st); /* for a failure before the rows */
        if (st == ST_OK) st = chains_grow(s);
        failure_keep(&s->result, st);
        copies_free(s);
        s->done.bytes = s->save.bytes;
        s->done.ms = (double)(clock_ns() - s->begin_ns) * 1e-6;
        /* Release pairs with the acquire in saver_is_done(). */
        atomic_store_explicit(&s->shared_is_done, true, memory_order_release);
        bell_ring(&s->bell);
    }
}

/* --- its end ----------------------------------------------------------------------------------- */

bool saver_is_busy(const struct saver *s) { return s->is_busy; }

static bool done_look(void *context)
{
    struct saver *s = context;
    return atomic_load_explicit(&s->shared_is_done, memory_order_acquire);
}

bool saver_is_done(struct saver *s) { return s->is_busy && done_look(s); }

void saver_wait(struct saver *s)
{
    if (!s->is_busy) return;
    atomic_store_explicit(&s->shared_is_awaited, true, memory_order_release);
    bell_await(&s->bell, false, done_look, s);
    atomic_store_explicit(&s->shared_is_awaited, false, memory_order_release);
}

status saver_take(struct saver *s, struct saver_done *done)
{
    CHECK(saver_is_done(s));
    s->is_busy = false;
    save_end(&s->save);
    *done = s->done;
    s->is_broken = failure_is(&s->result);
    return failure_adopt(&s->result);
}

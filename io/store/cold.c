/* Opening and closing the cold tier, its budget, and what follows when a transfer is done. */
#include "io/store/cold.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "io/store/cold_internal.h"

#define PART_INDEX   "store disk index"
#define PART_BUFFERS "store disk buffers"

/* SEGMENTS_WANTED segments a table, as far as a segment's bytes stay within the bounds. */
#define SEGMENTS_WANTED     128u
#define SEGMENTS_MIN        8u
#define SEGMENT_BYTES_LEAST ((uint64_t)1 << 20)
#define SEGMENT_BYTES_MOST  ((uint64_t)32 << 20)
/* Segments without lasting rows: the open one, and those that cleaning needs. */
#define SEGMENTS_SPARE 3u
/* At most nine tenths of the other segments' rows may be live, or cleaning would move rows without end. */
#define LIVE_PART(rows) ((rows) / 10 * 9)
/* Finished transfers to take at once: then the next reads are asked for. */
#define DONE_COUNT 16u
/* A thread that waits is woken when this part of the transfers is done:
 * the others keep the disk busy meanwhile. */
#define WAKE_PART 8u
#define SUFFIX    ".segment"
#define PROBE     "probe.segment"

/* --- budget ----------------------------------------------------------------------------------- */

static struct segment_shape shape_of(uint32_t span_floats, uint64_t disk_bytes)
{
    uint64_t bytes = disk_bytes / SEGMENTS_WANTED;
    if (bytes < SEGMENT_BYTES_LEAST) bytes = SEGMENT_BYTES_LEAST;
    if (bytes > SEGMENT_BYTES_MOST) bytes = SEGMENT_BYTES_MOST;
    return segment_shape_of(span_floats, bytes - SEGMENT_ALIGN_BYTES);
}

/* At most as many segments as places can tell apart. */
static uint32_t segment_count_of(const struct segment_shape *shape, uint64_t disk_bytes)
{
    uint64_t count = disk_bytes / segment_bytes(shape), most = COLD_PLACES_MAX / segment_rows(shape);
    return (uint32_t)(count < most ? count : most);
}

uint64_t cold_row_max(uint32_t span_floats, uint64_t disk_bytes)
{
    struct segment_shape shape = shape_of(span_floats, disk_bytes);
    uint32_t count = segment_count_of(&shape, disk_bytes);
    return count < SEGMENTS_MIN ? 0 : LIVE_PART((uint64_t)(count - SEGMENTS_SPARE) * segment_rows(&shape));
}

static uint32_t chunk_blocks_of(const struct segment_shape *shape)
{
    uint32_t count = COLD_CHUNK_BYTES / shape->block_bytes;
    if (count > shape->block_count) count = shape->block_count;
    return count ? count : 1;
}

/* A chunk has room for the segment's trailer. */
static size_t chunk_bytes_of(const struct segment_shape *shape)
{
    return (size_t)chunk_blocks_of(shape) * shape->block_bytes + SEGMENT_ALIGN_BYTES;
}

static uint32_t read_bytes_of(const struct home_options *o)
{
    uint32_t bytes = COLD_READ_BYTES;
    for (uint32_t t = 0; t < o->table_count; t++) {
        struct segment_shape shape = shape_of(o->table[t].span_floats, o->table[t].bytes);
        if (shape.block_bytes > bytes) bytes = shape.block_bytes;
    }
    return bytes;
}

static size_t buffer_bytes_of(const struct home_options *o)
{
    size_t bytes = (size_t)COLD_READS * read_bytes_of(o);
    for (uint32_t t = 0; t < o->table_count; t++) {
        struct segment_shape shape = shape_of(o->table[t].span_floats, o->table[t].bytes);
        bytes += (COLD_CHUNKS + COLD_CLEANS) * chunk_bytes_of(&shape);
    }
    return bytes;
}

static struct uring_options uring_options_of(const struct home_options *o)
{
    return (struct uring_options){.depth = COLD_READS + o->table_count * (COLD_CHUNKS + COLD_CLEANS),
                                  .thread_count = 8,
                                  .threads_only = o->io_threads,
                                  .faults = o->faults};
}

static uint32_t batch_count_of(const struct home_options *o)
{
    uint32_t count = COLD_ROWS_AHEAD / o->fetch_max;
    if (count < COLD_BATCHES_MIN) count = COLD_BATCHES_MIN;
    return count < COLD_BATCHES_MAX ? count : COLD_BATCHES_MAX;
}

static void cold_layout(struct layout *l, const struct home_options *o, struct cold *cold)
{
    for (uint32_t t = 0; t < o->table_count; t++) {
        struct segment_shape shape = shape_of(o->table[t].span_floats, o->table[t].bytes);
        struct segment *segment;
        LAYOUT_TAKE(l, segment, segment_count_of(&shape, o->table[t].bytes));
        if (l->arena) cold->table[t].segment = segment;
    }
    for (uint32_t b = 0; b < batch_count_of(o); b++) {
        struct cold_batch batch = {0};
        LAYOUT_TAKE(l, batch.fetch, o->fetch_max);
        LAYOUT_TAKE(l, batch.order, o->fetch_max);
        if (l->arena) cold->batch[b] = batch;
    }
    uint64_t *sort;
    LAYOUT_TAKE(l, sort, 2 * (size_t)o->fetch_max);
    if (l->arena) cold->sort = sort;
}

static size_t arena_bytes_of(const struct home_options *o)
{
    struct uring_options uring = uring_options_of(o);
    struct layout sum = {.bytes = arena_bytes(sizeof(struct cold) + o->table_count * sizeof(struct cold_table)) +
                                  uring_bytes(&uring)};
    cold_layout(&sum, o, NULL);
    return sum.bytes;
}

static uint64_t disk_ram_bytes(const struct home_options *o)
{
    uint64_t sum = arena_bytes_of(o) + buffer_bytes_of(o);
    for (uint32_t t = 0; t < o->table_count; t++)
        sum += cold_index_bytes(cold_row_max(o->table[t].span_floats, o->table[t].bytes));
    return sum;
}

static uint64_t disk_row_bytes(uint32_t span_floats)
{
    struct segment_shape shape = segment_shape_of(span_floats, SEGMENT_BYTES_MOST);
    return shape.block_bytes / shape.block_rows;
}

/* --- opening ---------------------------------------------------------------------------------- */

const char *cold_segment_path(const struct cold *cold, const struct cold_table *table, uint32_t segment,
                              char name[COLD_NAME_BYTES])
{
    snprintf(name, COLD_NAME_BYTES, "%s/%s.%08" PRIu64 SUFFIX, cold->path, table->name, table->segment[segment].number);
    return name;
}

/* Whether a file has the name of a segment, NAME.DIGITS.segment with at least eight digits, or the name that
 * directory_is_direct() tries. A saved segment has a step behind such digits: NAME.DIGITS.STEP.segment. */
static bool is_segment(const char *name)
{
    size_t end = strlen(name), digits = 0;
    if (strcmp(name, PROBE) == 0) return true;
    if (end <= strlen(SUFFIX) || strcmp(name + end - strlen(SUFFIX), SUFFIX) != 0) return false;
    end -= strlen(SUFFIX);
    while (digits < end && name[end - digits - 1] >= '0' && name[end - digits - 1] <= '9') digits++;
    if (digits < 8 || end <= digits + 1 || name[end - digits - 1] != '.') return false;
    end -= digits + 1;
    digits = 0;
    while (digits < end && name[end - digits - 1] >= '0' && name[end - digits - 1] <= '9') digits++;
    return digits < 8;
}

/* Open files besides those of segments. */
#define FILES_OTHER 64u

/* Every segment is an open file, and a save that has to copy it opens it again. */
static uint64_t disk_files(const struct home *home)
{
    const struct cold *cold = cold_of(home);
    uint64_t count = FILES_OTHER;
    for (uint32_t t = 0; t < cold->table_count; t++) count += 2 * (uint64_t)cold->table[t].segment_count;
    return count;
}

static status files_check(const struct cold *cold)
{
    struct rlimit limit;
    const uint64_t needed = disk_files(&cold->home);
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || needed <= limit.rlim_cur) return ST_OK;
    FAIL(SYSTEM,
         "rows on disk need %" PRIu64 " open files, and this process may have %" PRIu64
         "; raise that limit (ulimit -n), or lower store.ssd",
         needed, (uint64_t)limit.rlim_cur);
}

/* Claims the directory, and removes segments that a dead process left in it. */
static status directory_open(struct cold *cold)
{
    char name[COLD_NAME_BYTES];
    TRY(file_directory_make(cold->path));
    snprintf(name, sizeof name, "%s/lock", cold->path);
    cold->lock_fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (cold->lock_fd < 0) FAIL(IO, "cannot open %s: %s", name, strerror(errno));
    if (flock(cold->lock_fd, LOCK_EX | LOCK_NB) != 0)
        FAIL(SYSTEM,
             "%s is in use: another process, or this one, has locked it; give store.path a directory of its own",
             cold->path);
    DIR *directory = opendir(cold->path);
    if (directory == NULL) FAIL(IO, "cannot read directory %s: %s", cold->path, strerror(errno));
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        if (!is_segment(entry->d_name)) continue;
        (void)unlinkat(dirfd(directory), entry->d_name, 0);
    }
    closedir(directory);
    return ST_OK;
}

/* Whether files of this directory can be read past the page cache. */
static bool directory_is_direct(const struct cold *cold)
{
    char name[COLD_NAME_BYTES];
    bool is_direct;
    snprintf(name, sizeof name, "%s/" PROBE, cold->path);
    return file_probe(name, &is_direct) == ST_OK && is_direct;
}

static status table_open(struct cold_table *table, const struct home_table_options *options, uint32_t tag_bits,
                         uint8_t **buffer)
{
    table->name = options->name;
    table->disk_bytes = options->bytes;
    table->shape = shape_of(options->span_floats, options->bytes);
    table->segment_count = table->free_count = segment_count_of(&table->shape, options->bytes);
    for (uint32_t s = 0; s < table->segment_count; s++) table->segment[s].fd = -1;
    if (table->segment_count < SEGMENTS_MIN)
        FAIL(INVALID,
             "table \"%s\": %" PRIu64 " bytes on disk are %" PRIu32 " segments of %" PRIu64
             " bytes, and at least %u are needed; raise store.ssd",
             options->name, options->bytes, table->segment_count, segment_bytes(&table->shape), SEGMENTS_MIN);
    table->row_max = cold_row_max(options->span_floats, options->bytes);
    table->open = table->filling = table->victim = COLD_NONE;
    table->chunk_blocks = table->clean_blocks = chunk_blocks_of(&table->shape);
    for (uint32_t i = 0; i < COLD_CHUNKS; i++, *buffer += chunk_bytes_of(&table->shape))
        table->chunk[i].write.bytes = *buffer;
    for (uint32_t i = 0; i < COLD_CLEANS; i++, *buffer += chunk_bytes_of(&table->shape)) {
        table->clean[i].bytes = *buffer;
        table->clean_begin[i] = COLD_NONE;
    }
    return cold_index_open(&table->index, PART_INDEX, table->row_max, tag_bits);
}

static void disk_close(struct home *home)
{
    struct cold *cold = cold_of(home);
    uring_close(cold->uring);
    for (uint32_t t = 0; t < cold->table_count; t++) {
        struct cold_table *table = &cold->table[t];
        for (uint32_t s = 0; s < table->segment_count && table->segment != NULL; s++) {
            char name[COLD_NAME_BYTES];
            if (table->segment[s].fd < 0) continue;
            close(table->segment[s].fd);
            (void)unlink(cold_segment_path(cold, table, s, name));
        }
        cold_index_close(&table->index);
    }
    if (cold->lock_fd >= 0) close(cold->lock_fd);
    memory_give(PART_BUFFERS, cold->buffer, cold->buffer_bytes);
    struct arena arena = cold->arena; /* the cold tier itself lies in it */
    arena_close(&arena);
}

/* --- transfers ---------------------------------------------------------------------------------- */

status cold_transfer(struct cold *cold, enum cold_kind kind, struct transfer *transfer, uint64_t tag)
{
    transfer->is_busy = true;
    if (cold->request_count == COLD_REQUESTS) TRY(cold_flush(cold));
    cold->request[cold->request_count++] =
        (struct uring_request){.kind = kind == COLD_WRITE ? URING_WRITE : URING_READ,
                               .fd = cold->table[transfer->table].segment[transfer->segment].fd,
                               .buffer = transfer->bytes + transfer->done_bytes,
                               .bytes = transfer->size_bytes - transfer->done_bytes,
                               .offset_bytes = transfer->offset_bytes + transfer->done_bytes,
                               .tag = tag};
    return ST_OK;
}

status cold_flush(struct cold *cold)
{
    uint32_t count = cold->request_count;
    cold->request_count = 0;
    return count ? uring_submit(cold->uring, cold->request, count) : ST_OK;
}

bool cold_in_flight(const struct cold *cold) { return cold->request_count || uring_in_flight(cold->uring); }

/* Notes how much of a transfer is done; asks for the rest, if there is a rest. */
static status transfer_done(struct cold *cold, enum cold_kind kind, struct transfer *transfer,
                            const struct uring_done *done)
{
    const struct cold_table *table = &cold->table[transfer->table];
    char name[COLD_NAME_BYTES];
    if (done->result == -EAGAIN || done->result == -EINTR) return cold_transfer(cold, kind, transfer, done->tag);
    transfer->is_busy = false;
    const uint64_t offset_bytes = transfer->offset_bytes + transfer->done_bytes;
    if (done->result < 0)
        FAIL(IO, "cannot %s %s at byte %" PRIu64 ": %s", kind == COLD_WRITE ? "write" : "read",
             cold_segment_path(cold, table, transfer->segment, name), offset_bytes, strerror(-done->result));
    if (done->result == 0)
        FAIL(IO, "%s ends at byte %" PRIu64 ", expected %" PRIu64 " bytes",
             cold_segment_path(cold, table, transfer->segment, name), offset_bytes,
             transfer->offset_bytes + transfer->size_bytes);
    transfer->done_bytes += (uint32_t)done->result;
    if (transfer->done_bytes == transfer->size_bytes) return ST_OK;
    if (cold->is_direct) transfer->done_bytes = transfer->done_bytes / SEGMENT_ALIGN_BYTES * SEGMENT_ALIGN_BYTES;
    if (transfer->offset_bytes + transfer->done_bytes == offset_bytes) /* for ever the same part of a block */
        FAIL(IO, "%s ends within the %u bytes from byte %" PRIu64 " on, expected %" PRIu64 " bytes",
             cold_segment_path(cold, table, transfer->segment, name), (unsigned)SEGMENT_ALIGN_BYTES, offset_bytes,
             transfer->offset_bytes + transfer->size_bytes);
    return cold_transfer(cold, kind, transfer, done->tag);
}

static status done_take(struct cold *cold, const struct uring_done *done)
{
    const enum cold_kind kind = (enum cold_kind)(done->tag >> 48);
    struct cold_table *table = &cold->table[done->tag >> 32 & 0xffff];
    const uint32_t index = (uint32_t)done->tag;
    struct transfer *transfer = kind == COLD_FETCH   ? &cold->read[index].read
                                : kind == COLD_WRITE ? &table->chunk[index].write
                                                     : &table->clean[index];
    TRY(transfer_done(cold, kind, transfer, done));
    if (transfer->is_busy) return ST_OK;
    if (kind == COLD_FETCH) return cold_fetch_done(cold, &cold->read[index]);
    if (kind == COLD_WRITE) table->chunk[index].is_used = false;
    return ST_OK; /* cleaning itself looks whether its chunk is there */
}

static status done_look(struct cold *cold, bool wait)
{
    struct uring_done done[DONE_COUNT];
    TRY(cold_flush(cold));
    if (wait) uring_await(cold->uring, uring_in_flight(cold->uring) / WAKE_PART + 1);
    uint32_t count = uring_reap(cold->uring, done, DONE_COUNT, 0);
    for (uint32_t i = 0; i < count; i++) TRY(done_take(cold, &done[i]));
    if (count == 0) return ST_OK; /* nothing has become free since the last time */
    TRY(cold_fetch_pump(cold));
    return cold_flush(cold);
}

status cold_poll(struct cold *cold, bool wait)
{
    /* What came together with a failure is lost: waiting for it would never end. */
    if (failure_is(&cold->failure)) return failure_adopt(&cold->failure);
    status st = done_look(cold, wait);
    if (st != ST_OK) failure_keep(&cold->failure, st);
    return st;
}

status cold_settle(struct cold *cold)
{
    TRY(failure_adopt(&cold->failure)); /* also where nothing is in flight */
    while (cold->home.arrived < cold->begun_count || cold_in_flight(cold)) TRY(cold_poll(cold, true));
    return ST_OK;
}

void cold_segment_drop(struct cold *cold, struct cold_table *table, uint32_t index)
{
    struct segment *segment = &table->segment[index];
    char name[COLD_NAME_BYTES];
    /* The fetch of a live row may be at another of its possible places; it comes to this
     * segment next, so the segment stays. */
    if (segment->state != SEGMENT_DYING || segment->fetch_count || segment->live_count) return;
    close(segment->fd);
    (void)unlink(cold_segment_path(cold, table, index, name));
    *segment = (struct segment){.fd = -1};
    table->free_count++;
}

/* --- as a home ---------------------------------------------------------------------------------- */

static struct home_counts disk_counts(const struct home *home, uint32_t t)
{
    const struct cold_table *table = &cold_of(home)->table[t];
    struct home_counts counts = table->counts;
    counts.row_count = table->index.row_count;
    counts.row_max = table->row_max;
    return counts;
}

static const char *disk_words(const struct home *home)
{
    const struct cold *cold = cold_of(home);
    if (strcmp(uring_name(cold->uring), "threads") == 0)
        return cold->is_direct ? "threads" : "threads, by the page cache";
    return cold->is_direct ? "io_uring" : "io_uring, by the page cache";
}

static status disk_poll(struct home *home, bool wait) { return cold_poll(cold_of(home), wait); }
static status disk_settle(struct home *home) { return cold_settle(cold_of(home)); }

static const struct home_vt vt = {.close = disk_close,
                                  .ask = cold_ask,
                                  .find = cold_find,
                                  .bring = cold_bring,
                                  .put = cold_put,
                                  .poll = disk_poll,
                                  .settle = disk_settle,
                                  .walk_begin = cold_walk_begin,
                                  .walk_next = cold_walk_next,
                                  .walk_remove = cold_walk_remove,
                                  .walk_end = cold_walk_end,
                                  .counts = disk_counts,
                                  .words = disk_words,
                                  .prefetch = cold_prefetch,
                                  .write_out = cold_write_out,
                                  .stretch_next = cold_stretch_next,
                                  .stretch_bytes = cold_stretch_bytes,
                                  .files = disk_files};

static status disk_open(struct home **home, const struct home_options *o)
{
    struct arena arena;
    TRY(arena_open(&arena, PART_BUFFERS, arena_bytes_of(o)));
    struct cold *cold = arena_take(&arena, sizeof *cold + o->table_count * sizeof(struct cold_table));
    cold->home.vt = &vt;
    cold->table_count = o->table_count;
    cold_layout(&(struct layout){.arena = &arena}, o, cold);
    cold->path = o->path;
    cold->lock_fd = -1;
    cold->fetch_max = o->fetch_max;
    cold->batch_count = batch_count_of(o);
    cold->number_next = 1;
    cold->context = o->context;
    cold->is_resident = o->is_resident;
    cold->arrived = o->arrived;
    cold->is_dead = o->is_dead;
    cold->buffer_bytes = buffer_bytes_of(o);
    cold->arena = arena;
    void *block;
    status st = memory_take(PART_BUFFERS, cold->buffer_bytes, &block);
    if (st == ST_OK) {
        cold->buffer = block;
        uint8_t *buffer = block;
        for (uint32_t i = 0; i < COLD_READS; i++, buffer += read_bytes_of(o)) {
            cold->read[i].read.bytes = buffer;
            cold->free_read[i] = i;
        }
        cold->reads_bytes = (size_t)(buffer - cold->buffer);
        cold->free_read_count = COLD_READS;
        for (uint32_t t = 0; t < o->table_count && st == ST_OK; t++)
            st = table_open(&cold->table[t], &o->table[t], o->tag_bits ? o->tag_bits : 32, &buffer);
    }
    if (st == ST_OK) st = files_check(cold);
    if (st == ST_OK) st = directory_open(cold);
    if (st == ST_OK) {
        const char *why;
        struct uring_options uring = uring_options_of(o);
        cold->is_direct = directory_is_direct(cold);
        st = uring_open(&cold->uring, &cold->arena, &uring, &why);
    }
    if (st != ST_OK) {
        disk_close(&cold->home);
        return st;
    }
    *home = &cold->home;
    return ST_OK;
}

const struct home_kind cold_home = {.ram_bytes = disk_ram_bytes,
                                    .row_bytes = disk_row_bytes,
                                    .table_bytes_least = SEGMENTS_MIN * SEGMENT_BYTES_LEAST,
                                    .open = disk_open};

/* The data cache: blocks in RAM and in a file, and whether that file is of this data. */
#include "io/data_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "engine/base/log.h"

#define MAGIC   UINT64_C(0x3165686361637068) /* "hpcache1" */
#define VERSION 1u
/* Of each path: its first and last bytes, and SAMPLES runs between them at equal distances. */
#define END_BYTES    ((size_t)1 << 20)
#define SAMPLE_BYTES ((size_t)64 << 10)
#define SAMPLES      16u
/* What the kernel is asked to read ahead: some blocks. */
#define AHEAD_BYTES ((off_t)8 << 20)

/* Little-endian, as they are. */
struct file_head {
    uint64_t magic;
    uint32_t version, path_count;
    uint64_t schema;
    uint64_t hash; /* of what stands before it and of the sources behind it */
};
struct file_source {
    uint64_t name_hash, size_bytes, modified_ns, content_hash;
};
struct file_tail {
    uint64_t magic, block_count, row_count, end_bytes; /* end: of the blocks, where this begins */
    uint64_t hash;                                     /* of what stands before it, seeded by the head's */
};

enum state { EMPTY, WRITING, WHOLE, OFF };

struct data_cache {
    /* set once */
    struct arena arena;
    struct data_cache_budget budget;
    char *paths, *path, *new_path;
    bool is_stream;
    struct file_head head;
    struct file_source *source, *found; /* [path_count]: of the data, and of what is looked at */
    uint8_t *sample;                    /* [END_BYTES] */
    uint8_t *ram;                       /* [ram_bytes] */
    uint8_t *block;
    struct block_writer writer;
    struct block_reader reader;
    struct micro_batch tile; /* examples that are given one by one */
    uint32_t *key_end;
    /* the blocks */
    enum state state;
    uint64_t block_count, row_count;
    uint64_t ram_count, ram_used; /* the first blocks are in RAM, too */
    uint64_t file_used;           /* head and blocks                  */
    int fd;                       /* -1: no file                     */
    bool is_new;                  /* it is PATH.new yet               */
    uint64_t text_begin;          /* writing: text before the block that is being filled */
    char why[512];                /* a block is not what was written */
    /* a pass that reads */
    uint64_t index, ram_at, file_at, row; /* index: the next block */
    uint32_t tile_at;
    struct block_counts sum;
    uint64_t text_bytes;
};

/* --- what the data is ------------------------------------------------------------------------- */

static uint32_t paths_count(const char *paths)
{
    uint32_t count = 1;
    for (; *paths; paths++) count += *paths == ',';
    return count;
}

static status sample_hash(struct data_cache *c, int fd, const char *name, uint64_t at, size_t bytes, uint64_t *hash)
{
    ssize_t got = pread(fd, c->sample, bytes, (off_t)at);
    if (got < 0) FAIL(IO, "%s at byte %" PRIu64 ": %s", name, at, strerror(errno));
    *hash = XXH3_64bits_withSeed(c->sample, (size_t)got, *hash);
    return ST_OK;
}

static status content_hash(struct data_cache *c, int fd, const char *name, uint64_t size, uint64_t *hash)
{
    *hash = size;
    TRY(sample_hash(c, fd, name, 0, END_BYTES, hash));
    for (uint64_t i = 1; size > END_BYTES && i <= SAMPLES; i++)
        TRY(sample_hash(c, fd, name, size / (SAMPLES + 1) * i, SAMPLE_BYTES, hash));
    return size > END_BYTES ? sample_hash(c, fd, name, size - END_BYTES, END_BYTES, hash) : ST_OK;
}

static status source_take(struct data_cache *c, const char *name, struct file_source *s)
{
    struct stat about;
    *s = (struct file_source){.name_hash = XXH3_64bits(name, strlen(name))};
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &about) != 0) {
        status st = status_fail(ST_IO, __FILE__, __LINE__, "%s: %s", name, strerror(errno));
        if (fd >= 0) close(fd);
        return st;
    }
    s->size_bytes = (uint64_t)about.st_size;
    s->modified_ns = (uint64_t)about.st_mtim.tv_sec * 1000000000 + (uint64_t)about.st_mtim.tv_nsec;
    status st = content_hash(c, fd, name, s->size_bytes, &s->content_hash);
    close(fd);
    return st;
}

static const char *path_at(const struct data_cache *c, uint32_t index)
{
    const char *path = c->paths;
    for (; index; index--) path += strlen(path) + 1;
    return path;
}

static status sources_take(struct data_cache *c, struct file_source *source)
{
    for (uint32_t i = 0; !c->is_stream && i < c->head.path_count; i++) TRY(source_take(c, path_at(c, i), &source[i]));
    return ST_OK;
}

static uint64_t head_hash(const struct file_head *head, const struct file_source *source)
{
    return XXH3_64bits_withSeed(source, head->path_count * sizeof *source,
                                XXH3_64bits(head, offsetof(struct file_head, hash)));
}

/* Says how `was` differs from the data; false if it does not. */
static bool difference(const struct data_cache *c, const struct file_source *was, char *why, size_t bytes)
{
    for (uint32_t i = 0; i < c->head.path_count; i++) {
        const struct file_source *is = &c->source[i];
        const char *name = path_at(c, i);
        if (is->name_hash != was[i].name_hash)
            snprintf(why, bytes, "it is of another file than %s", name);
        else if (is->size_bytes != was[i].size_bytes)
            snprintf(why, bytes, "%s has %" PRIu64 " bytes, and had %" PRIu64, name, is->size_bytes, was[i].size_bytes);
        else if (is->content_hash != was[i].content_hash)
            snprintf(why, bytes, "%s has changed", name);
        else if (is->modified_ns != was[i].modified_ns)
            snprintf(why, bytes, "%s has been written to since", name);
        else
            continue;
        return true;
    }
    return false;
}

/* --- the file --------------------------------------------------------------------------------- */

static uint64_t blocks_begin(const struct data_cache *c)
{
    return sizeof c->head + c->head.path_count * sizeof *c->source;
}

static bool read_all(int fd, void *out, size_t bytes, uint64_t at)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t got = pread(fd, (uint8_t *)out + done, bytes - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) {
            if (got == 0) errno = ENODATA;
            return false;
        }
        done += (size_t)got;
    }
    return true;
}

static bool write_all(int fd, const void *data, size_t bytes, uint64_t at)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t put = pwrite(fd, (const uint8_t *)data + done, bytes - done, (off_t)(at + done));
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return false;
        done += (size_t)put;
    }
    return true;
}

static void file_close(struct data_cache *c)
{
    if (c->fd < 0) return;
    if (c->is_new) unlink(c->new_path);
    close(c->fd);
    c->fd = -1;
    c->is_new = false;
}

/* Whether an earlier run's file is of this data, and whole; if not, why, or "" where there is none. */
static bool file_fits(struct data_cache *c, char *why, size_t bytes)
{
    struct file_head head;
    struct file_tail tail;
    struct stat about;
    *why = 0;
    c->fd = open(c->path, O_RDONLY | O_CLOEXEC);
    if (c->fd < 0) {
        if (errno != ENOENT) snprintf(why, bytes, "%s", strerror(errno));
        return false;
    }
    size_t source_bytes = c->head.path_count * sizeof *c->found;
    if (fstat(c->fd, &about) != 0 || (uint64_t)about.st_size < blocks_begin(c) + sizeof tail ||
        !read_all(c->fd, &head, sizeof head, 0) || !read_all(c->fd, c->found, source_bytes, sizeof head) ||
        !read_all(c->fd, &tail, sizeof tail, (uint64_t)about.st_size - sizeof tail) || head.magic != MAGIC)
        snprintf(why, bytes, "it is no data cache");
    else if (head.version != VERSION)
        snprintf(why, bytes, "it is of version %" PRIu32 ", and this program's is %u", head.version, VERSION);
    else if (head.path_count != c->head.path_count)
        snprintf(why, bytes, "it is of %" PRIu32 " files, and the data of %" PRIu32, head.path_count,
                 c->head.path_count);
    else if (head.hash != head_hash(&head, c->found))
        snprintf(why, bytes, "its head is not what was written");
    else if (difference(c, c->found, why, bytes))
        return false;
    else if (head.schema != c->head.schema)
        snprintf(why, bytes, "columns, settings or the program have changed");
    else if (tail.magic != MAGIC || tail.end_bytes + sizeof tail != (uint64_t)about.st_size ||
             tail.hash != XXH3_64bits_withSeed(&tail, offsetof(struct file_tail, hash), head.hash))
        snprintf(why, bytes, "its end is not what was written");
    if (*why) return false;
    c->block_count = tail.block_count;
    c->row_count = tail.row_count;
    c->file_used = tail.end_bytes;
    return true;
}

static void file_find(struct data_cache *c)
{
    char why[4352];
    if (c->budget.ssd_bytes == 0 || c->is_stream) return;
    if (file_fits(c, why, sizeof why)) {
        c->state = WHOLE;
        (void)posix_fadvise(c->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
        log_info("cache    %s: %" PRIu64 " examples, %" PRIu64 " MiB, read in place of the text", c->path, c->row_count,
                 c->file_used >> 20);
        return;
    }
    file_close(c);
    if (*why) log_info("cache    %s: %s; it is written anew", c->path, why);
}

static void file_fails(struct data_cache *c, const char *doing, const char *why)
{
    log_warning("cache: %s: %s: %s; no file is kept", c->new_path, doing, why);
    file_close(c);
}

static void file_begin(struct data_cache *c)
{
    if (c->budget.ssd_bytes == 0) return;
    c->fd = open(c->new_path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (c->fd < 0) {
        file_fails(c, "opening", strerror(errno));
        return;
    }
    if (flock(c->fd, LOCK_EX | LOCK_NB) != 0) {
        file_fails(c, "locking", errno == EWOULDBLOCK ? "another run writes it" : strerror(errno));
        return;
    }
    c->is_new = true;
    c->file_used = blocks_begin(c);
    if (ftruncate(c->fd, 0) != 0 || !write_all(c->fd, &c->head, sizeof c->head, 0) ||
        !write_all(c->fd, c->source, c->head.path_count * sizeof *c->source, sizeof c->head))
        file_fails(c, "writing", strerror(errno));
}

static void file_put(struct data_cache *c, size_t bytes)
{
    if (c->fd < 0) return;
    if (bytes + c->file_used + sizeof(struct file_tail) > c->budget.ssd_bytes) {
        char why[128];
        snprintf(why, sizeof why, "the data takes more than cache.ssd = %" PRIu64 " bytes", c->budget.ssd_bytes);
        file_fails(c, "writing", why);
    } else if (!write_all(c->fd, c->block, bytes, c->file_used)) {
        file_fails(c, "writing", strerror(errno));
    } else {
        c->file_used += bytes;
    }
}

/* Gives the file its end and its name; that of a stream stays nameless. */
static void file_end(struct data_cache *c)
{
    struct file_tail tail = {
        .magic = MAGIC, .block_count = c->block_count, .row_count = c->row_count, .end_bytes = c->file_used};
    if (c->fd < 0 || c->is_stream) return;
    tail.hash = XXH3_64bits_withSeed(&tail, offsetof(struct file_tail, hash), c->head.hash);
    if (!write_all(c->fd, &tail, sizeof tail, c->file_used) || fsync(c->fd) != 0)
        file_fails(c, "writing", strerror(errno));
    else if (rename(c->new_path, c->path) != 0)
        file_fails(c, "renaming", strerror(errno));
    else
        c->is_new = false;
}

/* --- opening ---------------------------------------------------------------------------------- */

/* The name of the file, in `out` if that is not NULL; its bytes with the final 0. */
static size_t path_make(const struct data_cache_options *o, char *out)
{
    const char *given = o->budget.path;
    if (given && *given) {
        if (out) strcpy(out, given);
        return strlen(given) + 1;
    }
    size_t bytes = strcspn(o->paths, ",");
    if (out) {
        memcpy(out, o->paths, bytes);
        strcpy(out + bytes, ".cache");
    }
    return bytes + sizeof ".cache";
}

static void cache_layout(struct data_cache **cache, struct layout *l, const struct data_cache_options *o)
{
    struct data_cache *c, none;
    struct block_shape shape = block_shape_of(o->shape);
    struct batch_shape tile = {.batch = BLOCK_TILE, .micro = BLOCK_TILE, .lanes = 1};
    struct example_shape example = o->shape;
    uint32_t path_count = paths_count(o->paths);
    LAYOUT_TAKE(l, c, 1);
    if (!c) c = &none;
    example.dense_stride = example.dense_count;
    c->paths = layout_take(l, strlen(o->paths) + 1, 1);
    c->path = layout_take(l, path_make(o, NULL), 1);
    c->new_path = layout_take(l, path_make(o, NULL) + 4, 1);
    LAYOUT_TAKE(l, c->source, path_count);
    LAYOUT_TAKE(l, c->found, path_count);
    c->sample = layout_take(l, END_BYTES, 1);
    c->block = layout_take(l, block_bytes_max(shape), 1);
    LAYOUT_TAKE(l, c->key_end, example.field_count);
    l->bytes += block_writer_bytes(shape) + block_reader_bytes(shape) + micro_batch_bytes(tile, example);
    if (l->arena) {
        block_writer_place(&c->writer, l->arena, shape);
        block_reader_place(&c->reader, l->arena, shape, o->isa);
        micro_batch_place(&c->tile, l->arena, tile, example);
    }
    c->ram = layout_take(l, o->budget.ram_bytes, 1);
    if (l->arena) *cache = c;
}

status data_cache_open(struct data_cache **out, const struct data_cache_options *o)
{
    struct data_cache *c;
    struct layout sum = {0};
    struct arena arena;
    bool has_path = o->budget.path && *o->budget.path;
    if (o->is_stream && o->budget.ssd_bytes && !has_path)
        FAIL(INVALID, "cache.ssd is set and the data is a stream, which gives the file no name; give cache.path");
    cache_layout(NULL, &sum, o);
    TRY(arena_open(&arena, "data cache", sum.bytes));
    struct layout place = {.arena = &arena};
    cache_layout(&c, &place, o);
    c->arena = arena;
    c->budget = o->budget;
    c->is_stream = o->is_stream;
    c->fd = -1;
    strcpy(c->paths, o->paths);
    for (char *at = c->paths; (at = strchr(at, ',')) != NULL;) *at++ = 0;
    path_make(o, c->path);
    stpcpy(stpcpy(c->new_path, c->path), ".new");
    c->head = (struct file_head){
        .magic = MAGIC, .version = VERSION, .path_count = paths_count(o->paths), .schema = o->schema};
    status st = sources_take(c, c->source);
    if (st != ST_OK) {
        arena_close(&arena);
        return st;
    }
    c->head.hash = head_hash(&c->head, c->source);
    file_find(c);
    *out = c;
    return ST_OK;
}

void data_cache_close(struct data_cache *c)
{
    if (!c) return;
    file_close(c);
    struct arena arena = c->arena; /* the cache itself lies in it */
    arena_close(&arena);
}

void data_cache_drop(struct data_cache *c)
{
    if (c->fd >= 0 && !c->is_new) unlink(c->path);
    file_close(c);
    c->state = OFF;
}

status data_cache_start(struct data_cache *c, enum data_cache_pass *pass)
{
    char why[4352];
    TRY(sources_take(c, c->found));
    struct file_source *was = c->source;
    c->source = c->found;
    c->found = was;
    bool is_changed = difference(c, was, why, sizeof why);
    c->head.hash = head_hash(&c->head, c->source);
    if (is_changed && c->state == WHOLE) {
        log_info("cache    %s: it is written anew", why);
        c->state = EMPTY;
    }
    if (c->state == WHOLE) {
        c->index = c->ram_at = c->row = 0;
        c->file_at = blocks_begin(c);
        c->reader.row_count = c->reader.row = 0;
        c->sum = (struct block_counts){0};
        micro_batch_clear(&c->tile);
        c->tile_at = 0;
    } else if (c->state != OFF) {
        file_close(c);
        c->state = WRITING;
        c->block_count = c->row_count = c->ram_count = c->ram_used = c->text_begin = 0;
        block_writer_clear(&c->writer);
        file_begin(c);
    }
    *pass = c->state == WHOLE ? DATA_CACHE_READS : c->state == OFF ? DATA_CACHE_RESTS : DATA_CACHE_WRITES;
    return ST_OK;
}

/* --- a pass that writes ----------------------------------------------------------------------- */

static uint64_t block_seed(const struct data_cache *c, uint64_t index) { return c->head.hash ^ index; }

static void ram_put(struct data_cache *c, uint64_t index, size_t bytes)
{
    if (index != c->ram_count || bytes > c->budget.ram_bytes - c->ram_used) return;
    memcpy(c->ram + c->ram_used, c->block, bytes);
    c->ram_used += bytes;
    c->ram_count++;
}

static status block_end(struct data_cache *c, uint64_t text_bytes)
{
    size_t bytes = block_write(&c->writer, block_seed(c, c->block_count), text_bytes - c->text_begin, c->block);
    c->text_begin = text_bytes;
    c->row_count += c->writer.rows.example_count;
    file_put(c, bytes);
    ram_put(c, c->block_count++, bytes);
    block_writer_clear(&c->writer);
    if (c->fd >= 0 || c->ram_count == c->block_count) return ST_OK;
    c->state = OFF;
    if (c->is_stream)
        FAIL(INVALID,
             "the data is a stream, and after %" PRIu64 " examples no longer fits into cache.ram = %" PRIu64
             " and cache.ssd = %" PRIu64 " bytes; give more, or a file",
             c->row_count, c->budget.ram_bytes, c->budget.ssd_bytes);
    log_warning("cache: %" PRIu64 " examples no longer fit into cache.ram = %" PRIu64 " and cache.ssd = %" PRIu64
                " bytes; every pass reads the text",
                c->row_count, c->budget.ram_bytes, c->budget.ssd_bytes);
    return ST_OK;
}

status data_cache_add(struct data_cache *c, const struct reader_example *example, struct block_counts counts,
                      uint64_t text_bytes)
{
    struct micro_batch *m = &c->writer.rows;
    struct example_shape e = c->writer.shape.example;
    if (c->state != WRITING) return ST_OK;
    if (!block_writer_has_room(&c->writer)) TRY(block_end(c, text_bytes));
    uint32_t row = m->example_count++, key_count = e.field_count ? example->key_end[e.field_count - 1] : 0;
    memcpy(m->label + (size_t)row * e.label_count, example->label, e.label_count * sizeof *m->label);
    memcpy(m->dense + (size_t)row * e.dense_count, example->dense, e.dense_count * sizeof *m->dense);
    memcpy(m->key + m->key_count, example->key, key_count * sizeof *m->key);
    if (m->value) memcpy(m->value + m->key_count, example->value, key_count * sizeof *m->value);
    uint32_t *begin = m->key_begin + (size_t)row * e.field_count + 1;
    for (uint32_t f = 0; f < e.field_count; f++) begin[f] = m->key_count + example->key_end[f];
    m->key_count += key_count;
    if (m->weight) m->weight[row] = example->weight;
    if (m->group) m->group[row] = example->group;
    m->is_bad[row] = example->is_bad;
    c->writer.counts[row] = counts;
    c->writer.counts[row + 1] = (struct block_counts){0};
    return ST_OK;
}

status data_cache_finish(struct data_cache *c, struct block_counts counts, uint64_t text_bytes)
{
    char why[4352];
    if (c->state != WRITING) return ST_OK;
    c->writer.counts[c->writer.rows.example_count] = counts;
    TRY(block_end(c, text_bytes));
    if (c->state != WRITING) return ST_OK;
    TRY(sources_take(c, c->found));
    if (difference(c, c->found, why, sizeof why)) {
        log_warning("cache: the data was written to while it was read, and is not kept");
        c->state = EMPTY;
        return ST_OK;
    }
    file_end(c);
    c->state = c->fd >= 0 || c->ram_count == c->block_count ? WHOLE : OFF;
    log_detail("cache    %" PRIu64 " examples in %" PRIu64 " blocks, %" PRIu64 " bytes of %" PRIu64 " of text",
               c->row_count, c->block_count, c->fd >= 0 ? c->file_used : c->ram_used, text_bytes);
    return ST_OK;
}

/* --- a pass that reads ------------------------------------------------------------------------ */

static void sum_add(struct data_cache *c)
{
    struct block_counts *sum = &c->reader.sum;
    c->sum.bad += sum->bad;
    c->sum.cut += sum->cut;
    c->sum.unknown += sum->unknown;
    *sum = (struct block_counts){0};
}

/* The bytes of a block at the front of `head`; 0: they cannot be. */
static size_t block_bytes(const struct data_cache *c, const uint8_t *head)
{
    uint32_t bytes;
    memcpy(&bytes, head + BLOCK_BYTES_AT, sizeof bytes);
    return bytes >= BLOCK_HEAD_BYTES && bytes <= block_bytes_max(c->writer.shape) ? bytes : 0;
}

/* Goes to the next block. */
static status block_next(struct data_cache *c)
{
    const char *where = c->index < c->ram_count ? "RAM" : c->path;
    uint64_t at = c->index < c->ram_count ? c->ram_at : c->file_at;
    const uint8_t *block = c->index < c->ram_count ? c->ram + c->ram_at : c->block;
    bool is_read = c->index < c->ram_count || read_all(c->fd, c->block, BLOCK_HEAD_BYTES, c->file_at);
    size_t bytes = is_read ? block_bytes(c, block) : 0;
    if (is_read && bytes && block == c->block) {
        (void)posix_fadvise(c->fd, (off_t)(c->file_at + bytes), AHEAD_BYTES, POSIX_FADV_WILLNEED);
        is_read = read_all(c->fd, c->block, bytes, c->file_at);
    }
    status st = ST_CORRUPT;
    if (!is_read)
        snprintf(c->why, sizeof c->why, "%s", strerror(errno));
    else if (bytes == 0)
        snprintf(c->why, sizeof c->why, "its head is none");
    else if ((st = block_open(&c->reader, block, bytes, block_seed(c, c->index))) != ST_OK)
        snprintf(c->why, sizeof c->why, "%s", status_message());
    if (st != ST_OK) {
        c->reader.row_count = c->reader.row = 0;
        FAIL(CORRUPT, "%s: block %" PRIu64 " of the data cache, at byte %" PRIu64 ": %s", where, c->index, at, c->why);
    }
    if (block == c->block) ram_put(c, c->index, bytes);
    c->ram_at += bytes;
    c->file_at += bytes;
    c->text_bytes += c->reader.text_bytes;
    c->index++;
    return ST_OK;
}

/* Goes to a block that has rows left. */
static status rows_find(struct data_cache *c, bool *over)
{
    *over = false;
    while (c->reader.row == c->reader.row_count) {
        sum_add(c);
        *over = c->index == c->block_count;
        if (*over) return ST_OK;
        TRY(block_next(c));
    }
    return ST_OK;
}

static status rows_take(struct data_cache *c, struct micro_batch *m, uint32_t limit, uint32_t dense_stride, bool *over)
{
    *over = false;
    while (m->example_count < limit) {
        TRY(rows_find(c, over));
        if (*over) return ST_OK;
        block_take(&c->reader, m, limit, dense_stride);
    }
    sum_add(c);
    return ST_OK;
}

status data_cache_fill(struct data_cache *c, struct micro_batch *m, uint32_t limit, uint32_t dense_stride, bool *over)
{
    uint32_t before = m->example_count;
    status st = rows_take(c, m, limit, dense_stride, over);
    c->row += m->example_count - before;
    return st;
}

status data_cache_next(struct data_cache *c, struct reader_example *example, bool *over)
{
    struct example_shape e = c->writer.shape.example;
    struct micro_batch *m = &c->tile;
    *over = false;
    if (c->tile_at == m->example_count) {
        /* Of one block at a time, so that what the text had is told where it had it, within a tile. */
        TRY(rows_find(c, over));
        if (*over) return ST_OK;
        micro_batch_clear(m);
        c->tile_at = 0;
        block_take(&c->reader, m, BLOCK_TILE, e.dense_count);
        sum_add(c);
    }
    uint32_t row = c->tile_at++, home = row * e.field_count;
    const uint32_t *begin = m->key_begin + home;
    for (uint32_t f = 0; f < e.field_count; f++) c->key_end[f] = begin[f + 1] - begin[0];
    *example = (struct reader_example){.is_bad = m->is_bad[row],
                                       .weight = m->weight ? m->weight[row] : 1,
                                       .group = m->group ? m->group[row] : 0,
                                       .label = m->label + (size_t)row * e.label_count,
                                       .dense = m->dense + (size_t)row * e.dense_count,
                                       .key = m->key + begin[0],
                                       .value = m->value ? m->value + begin[0] : NULL,
                                       .key_end = c->key_end};
    c->row++;
    return ST_OK;
}

status data_cache_skip(struct data_cache *c, uint64_t count, bool *over)
{
    uint64_t left = count, held = c->tile.example_count - c->tile_at;
    *over = false;
    held = held < left ? held : left;
    c->tile_at += (uint32_t)held;
    c->row += held;
    for (left -= held; left && !*over;) {
        TRY(rows_find(c, over));
        uint32_t skipped = block_skip(&c->reader, left);
        left -= skipped;
        c->row += skipped;
    }
    sum_add(c);
    return ST_OK;
}

struct block_counts data_cache_counts(struct data_cache *c)
{
    struct block_counts sum = c->sum;
    c->sum = (struct block_counts){0};
    return sum;
}

uint64_t data_cache_text_bytes(const struct data_cache *c) { return c->text_bytes; }
uint64_t data_cache_row(const struct data_cache *c) { return c->row; }

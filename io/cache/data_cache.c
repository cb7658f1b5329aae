/* The data cache: its blocks, in RAM and in the file, and the passes over them. */
#include "io/cache/data_cache.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/paths.h"
#include "io/cache/block_order.h"
#include "io/cache/cache_file.h"

/* Blocks are rarely smaller: the list of blocks has room for one block per BLOCK_BYTES_MIN bytes of the
 * budgets, besides BLOCKS_MIN. */
#define BLOCK_BYTES_MIN ((uint64_t)32 << 10)
#define BLOCKS_MIN      ((uint64_t)65536)

enum state { EMPTY, WRITING, WHOLE, OFF };

struct data_cache {
    /* set once */
    struct arena arena;
    struct data_cache_budget budget;
    uint64_t seed;
    const struct notices *notices;
    char *path;
    struct data_sources sources;
    struct cache_file file;
    uint8_t *ram; /* [ram_bytes] */
    struct block_writer writer;
    struct block_reader *reader; /* [reader_count]: 1, or as many as a window has blocks */
    uint32_t reader_count;
    struct block_order order;
    struct block_group group; /* examples that are permuted */
    struct micro_batch tile;  /* examples that are given one by one */
    uint32_t *key_end;
    uint64_t block_count_max;
    /* the blocks */
    enum state state;
    struct cache_place *place; /* [block_count_max] */
    uint64_t block_count, row_count;
    uint64_t ram_count, ram_pages; /* blocks in RAM, and their pages */
    uint64_t text_begin;           /* writing: text before the block that is being filled */
    /* a pass that reads */
    bool by_blocks;
    uint64_t index;  /* blocks that were opened: the next block's place in the pass */
    uint64_t wanted; /* places in the pass whose blocks were asked for */
    uint64_t row;
    uint32_t tile_at, group_at;
    uint32_t group_count; /* rows of the group */
    struct block_counts sum;
    uint64_t text_bytes;
};

/* --- opening ---------------------------------------------------------------------------------- */

/* Writes the name of the file to `out` if it is not NULL; returns room for its bytes, with the final 0. */
static size_t path_make(const struct data_cache_options *o, char *out)
{
    const char *given = o->budget.path, *suffix = o->budget.suffix ? o->budget.suffix : "";
    const char *paths = o->paths, *name;
    bool is_given = given && *given;
    size_t bytes;
    if (is_given)
        name = given, bytes = strlen(given);
    else
        CHECK(paths_next(&paths, &name, &bytes));
    if (out) {
        char *end = is_given ? mempcpy(out, name, bytes) : path_take(out, name, bytes);
        stpcpy(stpcpy(end, suffix), is_given ? "" : ".cache");
    }
    return bytes + strlen(suffix) + sizeof ".cache";
}

static void cache_layout(struct data_cache **cache, struct layout *l, const struct data_cache_options *o)
{
    struct data_cache *c, none;
    struct block_shape shape = block_shape_of(o->shape);
    uint32_t window = o->budget.window;
    struct batch_shape tile = {.batch = BLOCK_TILE, .micro = BLOCK_TILE, .lanes = 1};
    struct example_shape example = o->shape;
    LAYOUT_TAKE(l, c, 1);
    if (!c) c = &none;
    example.dense_stride = example.dense_count;
    c->reader_count = window ? window : 1;
    c->block_count_max = (o->budget.ram_bytes + o->budget.ssd_bytes) / BLOCK_BYTES_MIN + BLOCKS_MIN;
    c->path = layout_take(l, path_make(o, NULL), 1);
    if (l->arena) path_make(o, c->path);
    LAYOUT_TAKE(l, c->place, c->block_count_max);
    LAYOUT_TAKE(l, c->key_end, example.field_count);
    LAYOUT_TAKE(l, c->reader, c->reader_count);
    data_sources_layout(&c->sources, l, o->paths, o->is_stream);
    struct cache_file_options file = {.path = l->arena ? c->path : "",
                                      .sources = &c->sources,
                                      .schema = o->schema,
                                      .bytes_max = o->budget.ssd_bytes,
                                      .block_count_max = (uint32_t)c->block_count_max,
                                      .row_count_max = shape.row_count_max,
                                      .block_bytes_max = block_bytes_max(shape),
                                      .held_count = c->reader_count,
                                      .io_threads = o->io_threads,
                                      .notices = o->notices};
    l->bytes += cache_file_uring_bytes(&file);
    cache_file_layout(&c->file, l, &file);
    if (window) {
        block_order_layout(&c->order, l, shape, window, c->block_count_max);
        block_group_layout(&c->group, l, shape, BLOCK_GROUP_PIECES * block_piece_rows(shape));
    }
    l->bytes +=
        block_writer_bytes(shape) + c->reader_count * block_reader_bytes(shape) + micro_batch_bytes(tile, example);
    if (l->arena) {
        block_writer_place(&c->writer, l->arena, shape);
        for (uint32_t i = 0; i < c->reader_count; i++) block_reader_place(&c->reader[i], l->arena, shape, o->isa);
        micro_batch_place(&c->tile, l->arena, tile, example);
    }
    c->ram = layout_take(l, o->budget.ram_bytes, 1);
    if (l->arena) *cache = c;
}

static void file_find(struct data_cache *c)
{
    char why[4352];
    if (cache_file_find(&c->file, c->place, &c->block_count, why, sizeof why)) {
        c->state = WHOLE;
        for (uint64_t i = 0; i < c->block_count; i++) c->row_count += c->place[i].row_count;
        notices_tell(c->notices, NOTICE_INFO,
                     "cache    %s: %" PRIu64 " examples, %" PRIu64 " MiB, read in place of the text", c->path,
                     c->row_count, c->file.used_bytes >> 20);
    } else if (*why) {
        notices_tell(c->notices, NOTICE_INFO, "cache    %s: %s; it is written anew", c->path, why);
    }
}

status data_cache_open(struct data_cache **out, const struct data_cache_options *o)
{
    struct data_cache *c;
    struct layout sum = {0};
    struct arena arena;
    bool has_path = o->budget.path && *o->budget.path;
    const char *rest = o->paths, *first = "";
    size_t first_bytes = 0;
    const bool is_address = paths_next(&rest, &first, &first_bytes) && path_is_address(first, first_bytes);
    if ((o->is_stream || is_address) && o->budget.ssd_bytes && !has_path)
        FAIL(INVALID, "cache.ssd is set and the data is %s, which gives the file no name; give cache.path",
             is_address ? "an address" : "a stream");
    cache_layout(NULL, &sum, o);
    TRY(arena_open(&arena, "data cache", sum.bytes));
    struct layout place = {.arena = &arena};
    cache_layout(&c, &place, o);
    c->arena = arena;
    c->budget = o->budget;
    c->budget.path = c->budget.suffix = NULL;
    c->seed = o->seed;
    c->notices = o->notices;
    status st = cache_file_open(&c->file, &arena);
    if (st == ST_OK) st = cache_file_check(&c->file);
    if (st == ST_OK && o->budget.ssd_bytes && !o->is_stream) cache_file_know(c->path, &c->sources);
    if (st == ST_OK) st = data_sources_look(&c->sources, c->sources.source);
    if (st != ST_OK) {
        data_cache_close(c);
        return st;
    }
    cache_file_head_make(&c->file);
    file_find(c);
    *out = c;
    return ST_OK;
}

void data_cache_close(struct data_cache *c)
{
    if (!c) return;
    cache_file_close(&c->file);
    data_sources_close(&c->sources);
    struct arena arena = c->arena; /* the cache itself lies in it */
    arena_close(&arena);
}

void data_cache_drop(struct data_cache *c)
{
    cache_file_leave(&c->file, true);
    c->state = EMPTY;
}

static void blocks_clear(struct data_cache *c)
{
    c->block_count = c->row_count = c->ram_count = c->ram_pages = c->text_begin = 0;
    block_writer_clear(&c->writer);
}

static void pass_begin(struct data_cache *c, uint64_t epoch, bool by_blocks)
{
    c->index = c->wanted = c->row = 0;
    c->sum = (struct block_counts){0};
    c->by_blocks = by_blocks;
    for (uint32_t i = 0; i < c->reader_count; i++) c->reader[i].row_count = c->reader[i].row = 0;
    if (by_blocks) block_order_start(&c->order, c->seed, epoch, c->block_count);
    micro_batch_clear(&c->tile);
    c->tile_at = c->group_at = c->group_count = 0;
}

/* Whether later passes are possible from the cache alone. */
static bool is_needed(const struct data_cache *c) { return c->sources.is_stream || c->budget.window; }

/* Not all of the data is kept: says why, and what to do where later passes need the cache. `is_late`: a
 * pass begins that would need it. */
static status cache_give_up(struct data_cache *c, bool is_late)
{
    char why[4608], after[64] = "";
    const struct data_cache_budget *b = &c->budget;
    const char *remedy = c->file.why[0] == 0 ? "more"
                         : c->row_count      ? "more room, another cache.path"
                                             : "another cache.path";
    c->state = OFF;
    cache_file_leave(&c->file, true);
    if (c->file.why[0])
        snprintf(why, sizeof why, "%s%s", c->file.why, b->ram_bytes ? ", and cache.ram is full" : "");
    else
        snprintf(why, sizeof why, "it no longer fits into cache.ram = %" PRIu64 " and cache.ssd = %" PRIu64 " bytes",
                 b->ram_bytes, b->ssd_bytes);
    if (c->row_count) snprintf(after, sizeof after, "after %" PRIu64 " examples ", c->row_count);
    if (c->budget.is_bounded && !is_late && is_needed(c)) {
        notices_tell(c->notices, NOTICE_WARNING, "cache: %s%s; a second pass would be refused", after, why);
        return ST_OK;
    }
    if (c->sources.is_stream)
        FAIL(INVALID, "the data is a stream, all of which has to be in the cache, and %s%s; give %s, or a file", after,
             why, remedy);
    if (b->window)
        FAIL(INVALID,
             "cache.shuffle = blocks needs all of the data in the cache, and %s%s; give %s, or cache.shuffle = none",
             after, why, remedy);
    notices_tell(c->notices, NOTICE_WARNING, "cache: %s%s; every pass reads the text", after, why);
    return ST_OK;
}

/* Begins the file. Without a file, a cache that has no memory either can only fail later. */
static status file_begin(struct data_cache *c)
{
    cache_file_begin(&c->file);
    if (c->file.why[0] == 0) return ST_OK;
    if (is_needed(c) && c->budget.ram_bytes == 0) return cache_give_up(c, false);
    notices_tell(c->notices, NOTICE_WARNING, "cache: %s; no file is kept", c->file.why);
    return ST_OK;
}

status data_cache_start(struct data_cache *c, uint64_t epoch, bool by_blocks, enum data_cache_pass *pass)
{
    char why[4352];
    struct data_sources *s = &c->sources;
    TRY(data_sources_look(s, s->found));
    struct data_source *was = s->source;
    s->source = s->found;
    s->found = was;
    bool is_changed = data_sources_differ(s, was, why, sizeof why);
    if (c->state == OFF && is_needed(c)) return cache_give_up(c, true);
    cache_file_release_all(&c->file);
    cache_file_poll(&c->file);
    if (is_changed && c->state == WHOLE) {
        notices_tell(c->notices, NOTICE_INFO, "cache    %s: it is written anew", why);
        c->state = EMPTY;
    }
    if (c->state == WHOLE) {
        pass_begin(c, epoch, by_blocks);
    } else if (c->state != OFF) {
        cache_file_leave(&c->file, false);
        cache_file_head_make(&c->file);
        blocks_clear(c);
        c->state = WRITING;
        TRY(file_begin(c));
    }
    *pass = c->state == WHOLE ? DATA_CACHE_READS : c->state == OFF ? DATA_CACHE_RESTS : DATA_CACHE_WRITES;
    return ST_OK;
}

/* --- a pass that writes ----------------------------------------------------------------------- */

static uint64_t block_seed(const struct data_cache *c, uint64_t number) { return c->file.head.hash ^ number; }

/* Keeps a block in memory if there is room. */
static void ram_put(struct data_cache *c, struct cache_place *place, const uint8_t *block)
{
    uint64_t pages = (place->bytes + CACHE_PAGE - 1) / CACHE_PAGE;
    if ((c->ram_pages + pages) * CACHE_PAGE > c->budget.ram_bytes || c->ram_pages >= CACHE_RAM_NONE) return;
    memcpy(c->ram + c->ram_pages * CACHE_PAGE, block, place->bytes);
    place->ram_page = (uint32_t)c->ram_pages;
    c->ram_pages += pages;
    c->ram_count++;
}

/* Whether all blocks so far are in RAM or in the file. */
static bool is_kept(const struct data_cache *c) { return c->file.fd >= 0 || c->ram_count == c->block_count; }

static status block_end(struct data_cache *c, uint64_t text_bytes)
{
    bool has_place = c->block_count < c->block_count_max;
    if (has_place) {
        uint8_t *block = cache_file_room(&c->file);
        struct cache_place *place = &c->place[c->block_count];
        size_t bytes = block_write(&c->writer, block_seed(c, c->block_count), text_bytes - c->text_begin, block);
        *place = (struct cache_place){
            .bytes = (uint32_t)bytes, .row_count = c->writer.rows.example_count, .ram_page = CACHE_RAM_NONE};
        if (c->ram_count == c->block_count || c->file.fd >= 0) ram_put(c, place, block);
        cache_file_put(&c->file, place);
        c->block_count++;
    }
    c->text_begin = text_bytes;
    c->row_count += c->writer.rows.example_count;
    block_writer_clear(&c->writer);
    return has_place && is_kept(c) ? ST_OK : cache_give_up(c, false);
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
    TRY(data_sources_look(&c->sources, c->sources.found));
    if (data_sources_differ(&c->sources, c->sources.found, why, sizeof why)) {
        notices_tell(c->notices, NOTICE_WARNING, "cache: the data was written to while it was read, and is not kept");
        c->state = EMPTY;
        return ST_OK;
    }
    cache_file_end(&c->file, c->place, c->block_count);
    if (!is_kept(c)) return cache_give_up(c, false);
    c->state = WHOLE;
    notices_tell(c->notices, NOTICE_DETAIL,
                 "cache    %" PRIu64 " examples in %" PRIu64 " blocks, %" PRIu64 " bytes of %" PRIu64 " of text",
                 c->row_count, c->block_count, c->file.fd >= 0 ? c->file.used_bytes : c->ram_pages * CACHE_PAGE,
                 text_bytes);
    return ST_OK;
}

/* --- a pass that reads: blocks ------------------------------------------------------------------ */

static void sum_add(struct data_cache *c, struct block_reader *r)
{
    c->sum.bad += r->sum.bad;
    c->sum.cut += r->sum.cut;
    c->sum.unknown += r->sum.unknown;
    r->sum = (struct block_counts){0};
}

/* The block at a place of the pass. */
static uint32_t number_at(const struct data_cache *c, uint64_t at)
{
    return c->by_blocks ? c->order.block[at] : (uint32_t)at;
}

/* Asks for the next blocks, as far as there are buffers. */
static void blocks_want(struct data_cache *c)
{
    if (c->wanted < c->index) c->wanted = c->index;
    for (; c->wanted < c->block_count; c->wanted++) {
        uint32_t number = number_at(c, c->wanted);
        const struct cache_place *place = &c->place[number];
        if (place->ram_page == CACHE_RAM_NONE && !cache_file_want(&c->file, number, place)) return;
    }
}

/* Opens the next block of the pass. */
static status block_next(struct data_cache *c, struct block_reader *r)
{
    uint32_t number = number_at(c, c->index);
    struct cache_place *place = &c->place[number];
    bool is_ram = place->ram_page != CACHE_RAM_NONE;
    uint64_t at = (uint64_t)(is_ram ? place->ram_page : place->file_page) * CACHE_PAGE;
    const uint8_t *block = is_ram ? c->ram + at : cache_file_get(&c->file, number, place);
    status st = block == NULL ? status_fail(ST_CORRUPT, __FILE__, __LINE__, "%s",
                                            c->file.fd < 0 && c->file.why[0] ? c->file.why : strerror(errno))
                              : block_open(r, block, place->bytes, block_seed(c, number));
    if (st == ST_OK && r->row_count != place->row_count)
        st = status_fail(ST_CORRUPT, __FILE__, __LINE__, "it has %" PRIu32 " rows, expected %" PRIu32, r->row_count,
                         place->row_count);
    if (st != ST_OK) {
        r->row_count = r->row = 0;
        FAIL(CORRUPT, "%s: block %" PRIu32 " of the data cache, at byte %" PRIu64 ": %s", is_ram ? "RAM" : c->path,
             number, at, status_message());
    }
    if (!is_ram) ram_put(c, place, block);
    c->text_bytes += r->text_bytes;
    c->index++;
    blocks_want(c);
    cache_file_poll(&c->file);
    return ST_OK;
}

/* --- in the order of the files -------------------------------------------------------------------- */

/* Goes to a block that has rows left. */
static status rows_find(struct data_cache *c, bool *over)
{
    struct block_reader *r = c->reader;
    *over = false;
    while (r->row == r->row_count) {
        sum_add(c, r);
        *over = c->index == c->block_count;
        if (c->index) cache_file_release(&c->file, number_at(c, c->index - 1));
        if (*over) return ST_OK;
        TRY(block_next(c, r));
    }
    return ST_OK;
}

static status rows_take(struct data_cache *c, struct micro_batch *m, uint32_t limit, uint32_t dense_stride, bool *over)
{
    *over = false;
    while (m->example_count < limit) {
        TRY(rows_find(c, over));
        if (*over) return ST_OK;
        block_take(c->reader, m, limit, dense_stride);
    }
    sum_add(c, c->reader);
    return ST_OK;
}

/* --- in the order of blocks ----------------------------------------------------------------------- */

static uint32_t rows_of(const void *context, uint32_t number)
{
    const struct data_cache *c = context;
    return c->place[number].row_count;
}

/* Goes to the next window and opens its blocks. */
static status window_open(struct data_cache *c, bool *over)
{
    for (uint32_t slot = 0; slot < c->order.slot_count; slot++)
        cache_file_release(&c->file, c->order.block[c->order.begin + slot]);
    *over = !block_order_window(&c->order, rows_of, c);
    for (uint32_t slot = 0; slot < c->order.slot_count; slot++) {
        TRY(block_next(c, &c->reader[slot]));
        sum_add(c, &c->reader[slot]); /* counts of a block without rows */
    }
    return ST_OK;
}

/* Goes to the next group, or, if it has at most `skips` rows, past it. */
static status group_next(struct data_cache *c, uint64_t skips, uint64_t *skipped, bool *over)
{
    uint32_t count, row_count;
    const struct block_piece *piece;
    block_group_clear(&c->group);
    *skipped = c->group_at = c->group_count = 0;
    *over = false;
    while (piece = block_order_group(&c->order, &count, &row_count), count == 0) {
        TRY(window_open(c, over));
        if (*over) return ST_OK;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct block_reader *r = &c->reader[piece[i].slot];
        block_seek(r, piece[i].piece);
        if (row_count <= skips)
            *skipped += block_skip(r, piece[i].row_count);
        else
            block_group_take(&c->group, r, piece[i].row_count);
        sum_add(c, r);
    }
    if (*skipped == 0) c->group_count = row_count;
    return ST_OK;
}

static status mixed_take(struct data_cache *c, struct micro_batch *m, uint32_t limit, uint32_t dense_stride, bool *over)
{
    uint64_t skipped;
    *over = false;
    while (m->example_count < limit) {
        if (c->group_at == c->group_count) {
            TRY(group_next(c, 0, &skipped, over));
            if (*over) return ST_OK;
        }
        uint32_t left = c->group_count - c->group_at, room = limit - m->example_count;
        uint32_t count = left < room ? left : room;
        block_group_give(&c->group, c->reader, m, dense_stride, c->order.row + c->group_at, count);
        c->group_at += count;
    }
    return ST_OK;
}

/* --- in either --------------------------------------------------------------------------------- */

status data_cache_fill(struct data_cache *c, struct micro_batch *m, uint32_t limit, uint32_t dense_stride, bool *over)
{
    uint32_t before = m->example_count;
    status st = c->by_blocks ? mixed_take(c, m, limit, dense_stride, over) : rows_take(c, m, limit, dense_stride, over);
    c->row += m->example_count - before;
    return st;
}

/* Fills the tile again, when all its examples have been given. */
static status tile_next(struct data_cache *c, bool *over)
{
    uint32_t dense_count = c->writer.shape.example.dense_count;
    micro_batch_clear(&c->tile);
    c->tile_at = 0;
    if (c->by_blocks) {
        TRY(mixed_take(c, &c->tile, BLOCK_TILE, dense_count, over));
        *over = c->tile.example_count == 0;
        return ST_OK;
    }
    /* From one block at a time, so that the counts of the text are told where they belong, within a tile. */
    TRY(rows_find(c, over));
    if (*over) return ST_OK;
    block_take(c->reader, &c->tile, BLOCK_TILE, dense_count);
    sum_add(c, c->reader);
    return ST_OK;
}

status data_cache_next(struct data_cache *c, struct reader_example *example, bool *over)
{
    struct example_shape e = c->writer.shape.example;
    struct micro_batch *m = &c->tile;
    *over = false;
    if (c->tile_at == m->example_count) {
        TRY(tile_next(c, over));
        if (*over) return ST_OK;
    }
    uint32_t row = c->tile_at++;
    const uint32_t *begin = m->key_begin + (size_t)row * e.field_count;
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
    *over = false;
    for (uint64_t left = count; left && !*over;) {
        uint64_t skipped = c->tile.example_count - c->tile_at, held = c->group_count - c->group_at;
        if (skipped) {
            skipped = skipped < left ? skipped : left;
            c->tile_at += (uint32_t)skipped;
        } else if (held) {
            skipped = held < left ? held : left;
            c->group_at += (uint32_t)skipped;
        } else if (c->by_blocks) {
            TRY(group_next(c, left, &skipped, over));
        } else {
            TRY(rows_find(c, over));
            skipped = *over ? 0 : block_skip(c->reader, left);
            if (!*over) sum_add(c, c->reader);
        }
        left -= skipped;
        c->row += skipped;
    }
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

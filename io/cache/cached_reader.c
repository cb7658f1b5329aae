/* Examples from the text or from the data cache. */
#include "io/cache/cached_reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include "io/cache/data_cache.h"

struct cached_reader {
    struct reader reader;
    /* set at open */
    struct reader *from; /* the text; closed with this reader */
    struct data_cache *cache;
    struct data_cache **kept;   /* where to leave the cache when closing, or NULL */
    bool has_window;            /* passes but the first are in an order of blocks */
    uint64_t text_bytes_before; /* data_cache_text_bytes at open */
    const struct notices *notices;
    /* since open */
    bool is_started;             /* some pass was started */
    struct reader_counts beside; /* to add to the text's counts, modulo 2^64 */
    /* of the pass */
    enum data_cache_pass pass;
    struct reader_example drawn; /* the cache's last example */
    struct reader_counts told;   /* counts of the text that the cache has been told, those before the last example */
    uint64_t number;             /* examples that the pass has given or skipped */
    struct reader_pass run;      /* the pass */
    bool by_blocks;              /* the pass is in an order of blocks */
    bool was_rebuilt;            /* the cache was made anew in the middle of the pass */
};

static struct cached_reader *cached_of(struct reader *reader) { return (struct cached_reader *)reader; }

/* --- counts ------------------------------------------------------------------------------------ */

static struct reader_counts cached_counts(const struct reader *reader)
{
    const struct cached_reader *c = (const struct cached_reader *)reader;
    struct reader_counts counts = reader_counts(c->from);
    counts.line_count += c->beside.line_count;
    counts.bad_count += c->beside.bad_count;
    counts.cut_count += c->beside.cut_count;
    counts.unknown_count += c->beside.unknown_count;
    counts.byte_count += data_cache_text_bytes(c->cache) - c->text_bytes_before;
    return counts;
}

/* The text since the counts were `before` was read again: it is not counted, but for its bytes. */
static void counts_return(struct cached_reader *c, struct reader_counts before)
{
    struct reader_counts now = cached_counts(&c->reader);
    c->beside.line_count += before.line_count - now.line_count;
    c->beside.bad_count += before.bad_count - now.bad_count;
    c->beside.cut_count += before.cut_count - now.cut_count;
    c->beside.unknown_count += before.unknown_count - now.unknown_count;
}

static void cache_counts_take(struct cached_reader *c)
{
    struct block_counts since = data_cache_counts(c->cache);
    c->beside.bad_count += since.bad;
    c->beside.cut_count += since.cut;
    c->beside.unknown_count += since.unknown;
}

/* --- a pass ------------------------------------------------------------------------------------ */

/* A further pass over the text, beside those of the run: never the first, and in an order of its own. */
static const struct reader_pass again = {.number = UINT64_MAX, .epoch = UINT64_MAX};

/* Adds an example of the text to the cache, with the counts since the one before; NULL: the text is over. */
static status cache_add(struct cached_reader *c, const struct reader_example *example)
{
    struct reader_counts is = reader_counts(c->from), *was = &c->told;
    struct block_counts since = {.bad = (uint32_t)(is.bad_count - was->bad_count),
                                 .cut = (uint32_t)(is.cut_count - was->cut_count),
                                 .unknown = (uint32_t)(is.unknown_count - was->unknown_count)};
    uint64_t text_bytes = is.byte_count - was->byte_count;
    was->bad_count = is.bad_count;
    was->cut_count = is.cut_count;
    was->unknown_count = is.unknown_count;
    if (!example) c->pass = DATA_CACHE_RESTS;
    return example ? data_cache_add(c->cache, example, since, text_bytes)
                   : data_cache_finish(c->cache, since, text_bytes);
}

/* Reads all of the text into the cache, and gives nothing of it. */
static status cache_build(struct cached_reader *c)
{
    struct reader_counts before = cached_counts(&c->reader);
    bool over = false;
    notices_tell(c->notices, NOTICE_INFO,
                 "cache    the text is read to be cached: further epochs are in an order of blocks");
    c->told = reader_counts(c->from);
    TRY(reader_pass_start(c->from, again));
    while (!over) {
        const struct reader_example *found;
        TRY(reader_next(c->from, NULL, &found, &over));
        TRY(cache_add(c, over ? NULL : found));
    }
    counts_return(c, before);
    return ST_OK;
}

/* Begins a pass in an order of blocks, in whatever state the cache is. */
static status blocks_start(struct cached_reader *c)
{
    for (uint32_t builds = 0;; builds++) {
        TRY(data_cache_start(c->cache, c->run.epoch, true, &c->pass));
        if (c->pass == DATA_CACHE_READS) return ST_OK;
        if (builds == 2)
            FAIL(INVALID, "cache.shuffle = blocks needs all of the data in the cache, "
                          "which cannot be made while the data is written to; cache.shuffle = none goes without");
        TRY(cache_build(c));
    }
}

/* A block is damaged: goes on after the examples that the pass has had, from the text, or
 * from a cache that is made anew. */
static status cache_leave(struct cached_reader *c, status failed)
{
    bool over;
    if (failed != ST_CORRUPT || c->reader.is_stream || c->was_rebuilt) return failed;
    notices_tell(c->notices, NOTICE_WARNING, "%s; the %s", status_message(),
                 c->by_blocks ? "cache is made anew" : "pass goes on from the text");
    data_cache_drop(c->cache);
    cache_counts_take(c);
    struct reader_counts before = cached_counts(&c->reader);
    if (c->by_blocks) {
        c->was_rebuilt = true;
        TRY(blocks_start(c));
        TRY(data_cache_skip(c->cache, c->number, &over));
        (void)data_cache_counts(c->cache);
    } else {
        c->pass = DATA_CACHE_RESTS;
        TRY(reader_pass_start(c->from, again));
        TRY(reader_skip(c->from, c->number, NULL, &over));
    }
    counts_return(c, before);
    return ST_OK;
}

static status cached_next(struct reader *reader, struct reader_example *place, const struct reader_example **found,
                          bool *over)
{
    struct cached_reader *c = cached_of(reader);
    while (c->pass == DATA_CACHE_READS) {
        status st = data_cache_next(c->cache, &c->drawn, over);
        if (st == ST_OK) {
            cache_counts_take(c);
            *found = &c->drawn;
            c->number += !*over;
            return ST_OK;
        }
        TRY(cache_leave(c, st));
    }
    TRY(reader_next(c->from, place, found, over));
    if (c->pass == DATA_CACHE_WRITES) TRY(cache_add(c, *over ? NULL : *found));
    c->number += !*over;
    return ST_OK;
}

/* Fills whole runs from the cache, as long as the pass comes from there. */
static status cached_fill(struct reader *reader, struct micro_batch *m, uint32_t limit, bool *over)
{
    struct cached_reader *c = cached_of(reader);
    *over = false;
    while (m->example_count < limit && !*over && c->pass == DATA_CACHE_READS) {
        uint32_t before = m->example_count;
        status st = data_cache_fill(c->cache, m, limit, reader->shape.dense_stride, over);
        c->number += m->example_count - before;
        cache_counts_take(c);
        if (st != ST_OK) TRY(cache_leave(c, st));
    }
    return *over ? ST_OK : reader_fill_by_next(reader, m, limit, over);
}

static status cached_skip(struct reader *reader, uint64_t count, uint64_t *passed, bool *over)
{
    struct cached_reader *c = cached_of(reader);
    *over = false;
    while (*passed < count && !*over && c->pass == DATA_CACHE_READS) {
        uint64_t before = data_cache_row(c->cache);
        status st = data_cache_skip(c->cache, count - *passed, over);
        uint64_t skipped = data_cache_row(c->cache) - before;
        c->number += skipped;
        *passed += skipped;
        cache_counts_take(c);
        if (st != ST_OK) TRY(cache_leave(c, st));
    }
    if (*over || *passed == count) return ST_OK;
    if (c->pass == DATA_CACHE_WRITES) return reader_skip_by_next(reader, count - *passed, passed, over);
    uint64_t skipped;
    const status st = reader_skip(c->from, count - *passed, &skipped, over);
    c->number += skipped;
    *passed += skipped;
    return st;
}

/* Examples that come from the text and go into no cache can be skipped without reading them. */
static status cached_seek(struct reader *reader, uint64_t count, const struct reader_mark *mark, uint32_t mark_count,
                          uint64_t *passed)
{
    struct cached_reader *c = cached_of(reader);
    if (c->pass == DATA_CACHE_RESTS) TRY(reader_seek(c->from, count, mark, mark_count, passed));
    c->number += *passed;
    return ST_OK;
}

static const struct reader_mark *cached_marks(const struct reader *reader, uint32_t *count)
{
    return reader_marks(((const struct cached_reader *)reader)->from, count);
}

static status cached_start(struct reader *reader, struct reader_pass pass)
{
    struct cached_reader *c = cached_of(reader);
    /* The first block, which is read at open, belongs to the first pass. */
    bool is_first = !c->is_started;
    c->number = 0;
    c->run = pass;
    c->pass = DATA_CACHE_RESTS;
    c->was_rebuilt = false;
    c->by_blocks = c->has_window && pass.number > 0;
    if (c->by_blocks)
        TRY(blocks_start(c));
    else
        TRY(data_cache_start(c->cache, pass.epoch, false, &c->pass));
    if (c->pass != DATA_CACHE_READS) TRY(reader_pass_start(c->from, pass));
    c->is_started = true;
    c->told = reader_counts(c->from);
    if (is_first) c->told.byte_count = 0;
    return ST_OK;
}

static bool cached_is_mixed(const struct reader *reader) { return ((const struct cached_reader *)reader)->by_blocks; }

static void cached_close(struct reader *reader)
{
    struct cached_reader *c = cached_of(reader);
    reader_close(c->from);
    if (c->kept)
        *c->kept = c->cache;
    else
        data_cache_close(c->cache);
    free(c);
}

static const struct reader_vt cached_vt = {.start = cached_start,
                                           .next = cached_next,
                                           .fill = cached_fill,
                                           .skip = cached_skip,
                                           .seek = cached_seek,
                                           .marks = cached_marks,
                                           .is_mixed = cached_is_mixed,
                                           .counts = cached_counts,
                                           .close = cached_close};

/* --- opening ----------------------------------------------------------------------------------- */

static void hash_text(XXH3_state_t *hash, const char *text)
{
    XXH3_64bits_update(hash, text ? text : "", text ? strlen(text) + 1 : 1);
}
static void hash_number(XXH3_state_t *hash, double number) { XXH3_64bits_update(hash, &number, sizeof number); }

static void hash_columns(XXH3_state_t *hash, const struct reader_column *column, uint32_t count)
{
    hash_number(hash, column ? count : -1.0);
    for (uint32_t i = 0; column && i < count; i++) {
        hash_text(hash, column[i].name);
        XXH3_64bits_update(hash, &column[i].seed, sizeof column[i].seed);
        hash_number(hash, column[i].ids_max);
        hash_number(hash, column[i].vocabulary);
        hash_number(hash, column[i].negative_count > 0);
        hash_number(hash, column[i].mean);
        hash_number(hash, column[i].scale);
        hash_number(hash, column[i].label_max); /* a line with another label is bad, and not kept */
        hash_number(hash, column[i].label_is_class);
        hash_number(hash, column[i].label_is_of_nodes);
    }
}

/* A hash of all that decides what a line becomes before anything is drawn: the data cache is valid for it. */
static uint64_t options_hash(const struct reader_options *o, struct example_shape shape)
{
    const struct reader_schema *s = &o->schema;
    XXH3_state_t hash;
    XXH3_INITSTATE(&hash);
    XXH3_64bits_reset(&hash);
    hash_text(&hash, HETERPS_VERSION);
    const double numbers[] = {
        o->format,         o->lines,         o->held_out,          o->label_optional,  o->bad_skip,
        o->bad_keep,       o->unknown_keep,  s->ids_over_is_error, s->ids_over_is_few, s->log1p,
        s->missing_is_key, s->missing_value, s->has_header,        s->has_quotes,      s->separator,
        s->list_separator, s->window,        shape.dense_count,    shape.field_count,  shape.key_count_max,
        shape.label_count, shape.has_weight, shape.has_group,      shape.has_value,    s->vocabulary_count};
    XXH3_64bits_update(&hash, numbers, sizeof numbers);
    hash_columns(&hash, s->dense, shape.dense_count);
    hash_columns(&hash, s->field, shape.field_count);
    hash_columns(&hash, s->label, shape.label_count);
    const char *const texts[] = {s->weight, s->group, s->label_map, s->columns, s->missing_text};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) hash_text(&hash, texts[i]);
    hash_number(&hash, s->kind_count);
    for (uint32_t k = 0; k < s->kind_count; k++) {
        const struct reader_kind *kind = &s->kind[k];
        hash_text(&hash, kind->name);
        hash_number(&hash, kind->children_min);
        hash_number(&hash, kind->children_max);
        hash_number(&hash, kind->needs_word);
        hash_number(&hash, kind->needs_number);
    }
    for (uint32_t v = 0; v < s->vocabulary_count; v++) {
        hash_number(&hash, s->vocabulary[v].unknown);
        hash_number(&hash, s->vocabulary[v].word_count);
        for (uint32_t w = 0; w < s->vocabulary[v].word_count; w++) hash_text(&hash, s->vocabulary[v].text[w]);
    }
    return XXH3_64bits_digest(&hash);
}

/* Takes the cache that was left, or opens a new one. */
static status cache_open(struct cached_reader *c, const struct reader_options *options,
                         const struct data_cache_budget *budget)
{
    if (c->kept && *c->kept) {
        c->cache = *c->kept;
        c->text_bytes_before = data_cache_text_bytes(c->cache);
        *c->kept = NULL;
        return ST_OK;
    }
    return data_cache_open(&c->cache, &(struct data_cache_options){.budget = *budget,
                                                                   .shape = c->reader.shape,
                                                                   .paths = options->paths,
                                                                   .is_stream = c->reader.is_stream,
                                                                   .io_threads = options->io_threads,
                                                                   .seed = options->seed,
                                                                   .schema = options_hash(options, c->reader.shape),
                                                                   .isa = options->isa,
                                                                   .notices = options->notices});
}

/* Puts a reader with a cache in the text's place. */
static status text_wrap(struct reader **text, const struct reader_options *options,
                        const struct data_cache_budget *budget, struct data_cache **kept)
{
    struct cached_reader *c = calloc(1, sizeof *c);
    if (c == NULL) FAIL(MEMORY, "no memory for a reader");
    c->reader = **text;
    c->reader.vt = &cached_vt;
    c->from = *text;
    c->kept = kept;
    c->has_window = budget->window > 0;
    c->notices = options->notices;
    status st = cache_open(c, options, budget);
    if (st == ST_OK)
        *text = &c->reader;
    else
        free(c);
    return st;
}

status cached_reader_open(struct reader **out, const struct reader_options *options,
                          const struct data_cache_budget *budget, struct data_cache **kept)
{
    struct reader *reader;
    TRY(reader_open(&reader, options));
    bool has_cache = !options->lists_words && (budget->ram_bytes || budget->ssd_bytes);
    status st = has_cache ? text_wrap(reader_files_from(reader), options, budget, kept) : ST_OK;
    if (st != ST_OK) {
        reader_close(reader);
        return st;
    }
    *out = reader;
    return ST_OK;
}

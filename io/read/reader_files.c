/* Examples out of the text or the data cache. */
#include "io/read/reader_files.h"

#include <stdio.h>

/* --- a pass ------------------------------------------------------------------------------------ */

/* Adds an example of the text to the cache, with what was counted since the one before; NULL: the text is over. */
static status cache_add(struct reader_files *files, const struct reader_example *example)
{
    struct reader_counts *is = &files->text.counts, *was = &files->told;
    struct block_counts since = {.bad = (uint32_t)(is->bad_count - was->bad_count),
                                 .cut = (uint32_t)(is->cut_count - was->cut_count),
                                 .unknown = (uint32_t)(is->unknown_count - was->unknown_count)};
    uint64_t text_bytes = files->text.source.byte_count - was->byte_count;
    was->bad_count = is->bad_count;
    was->cut_count = is->cut_count;
    was->unknown_count = is->unknown_count;
    if (!example) files->pass = DATA_CACHE_RESTS;
    return example ? data_cache_add(files->cache, example, since, text_bytes)
                   : data_cache_finish(files->cache, since, text_bytes);
}

static void cache_counts_take(struct reader_files *files)
{
    struct block_counts since = data_cache_counts(files->cache);
    files->text.counts.bad_count += since.bad;
    files->text.counts.cut_count += since.cut;
    files->text.counts.unknown_count += since.unknown;
}

/* Reads all of the text on its way into the cache, of which nothing is given. What it counts is not counted again. */
static status cache_build(struct reader_files *files)
{
    struct reader_counts counts = files->text.counts;
    bool over = false;
    notices_tell(files->notices, NOTICE_INFO,
                 "cache    the text is read to be cached: further epochs are in an order of blocks");
    TRY(reader_text_start(&files->text, UINT64_MAX));
    files->told = counts;
    files->told.byte_count = files->text.source.byte_count;
    while (!over) {
        const struct reader_example *found;
        TRY(reader_text_next(&files->text, &files->spare, &found, &over));
        TRY(cache_add(files, over ? NULL : found));
    }
    files->text.counts = counts;
    return ST_OK;
}

/* Begins a pass in an order of blocks, from whatever the cache is. */
static status blocks_start(struct reader_files *files)
{
    for (uint32_t builds = 0;; builds++) {
        TRY(data_cache_start(files->cache, files->epoch, true, &files->pass));
        if (files->pass == DATA_CACHE_READS) return ST_OK;
        if (builds == 2)
            FAIL(INVALID,
                 "cache.shuffle = blocks needs all of the data in the cache, which cannot be made while the data is "
                 "written to; cache.shuffle = none goes without");
        TRY(cache_build(files));
    }
}

/* A block is not what was written: goes on behind the examples that the pass has had, from the text, or from a cache that is made anew. */
static status cache_leave(struct reader_files *files, status failed)
{
    char message[2048];
    bool over;
    if (failed != ST_CORRUPT || files->text.source.is_stream || files->was_rebuilt) return failed;
    snprintf(message, sizeof message, "%s", status_message());
    notices_tell(files->notices, NOTICE_WARNING, "%s; the %s", message,
                 files->by_blocks ? "cache is made anew" : "pass goes on from the text");
    data_cache_drop(files->cache);
    cache_counts_take(files);
    struct reader_counts counts = files->text.counts;
    if (files->by_blocks) {
        files->was_rebuilt = true;
        TRY(blocks_start(files));
        TRY(data_cache_skip(files->cache, files->number, &over));
        (void)data_cache_counts(files->cache);
    } else {
        files->pass = DATA_CACHE_RESTS;
        TRY(reader_text_start(&files->text, UINT64_MAX));
        for (uint64_t left = files->number; left; left--) {
            const struct reader_example *found;
            TRY(reader_text_next(&files->text, &files->spare, &found, &over));
        }
    }
    files->text.counts = counts;
    return ST_OK;
}

status reader_files_next(struct reader_files *files, struct reader_example *place, const struct reader_example **found,
                         bool *over)
{
    while (files->pass == DATA_CACHE_READS) {
        status st = data_cache_next(files->cache, &files->drawn, over);
        if (st == ST_OK) {
            cache_counts_take(files);
            *found = &files->drawn;
            files->number += !*over;
            return ST_OK;
        }
        TRY(cache_leave(files, st));
    }
    TRY(reader_text_next(&files->text, place, found, over));
    if (files->pass == DATA_CACHE_WRITES) TRY(cache_add(files, *over ? NULL : *found));
    files->number += !*over;
    return ST_OK;
}

status reader_files_fill(struct reader_files *files, struct micro_batch *m, uint32_t limit, uint32_t dense_stride,
                         bool *over)
{
    uint32_t before = m->example_count;
    status st = data_cache_fill(files->cache, m, limit, dense_stride, over);
    files->number += m->example_count - before;
    cache_counts_take(files);
    return st == ST_OK ? ST_OK : cache_leave(files, st);
}

status reader_files_skip(struct reader_files *files, uint64_t count, bool *over)
{
    uint64_t before = data_cache_row(files->cache);
    status st = data_cache_skip(files->cache, count, over);
    uint64_t skipped = data_cache_row(files->cache) - before;
    files->number += skipped;
    cache_counts_take(files);
    return st == ST_OK ? ST_OK : cache_leave(files, st);
}

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
    }
}

/* Of all that decides what a line becomes before anything is drawn: what the data cache is valid for. */
static uint64_t options_hash(const struct reader_options *o, struct example_shape shape)
{
    const struct reader_schema *s = &o->schema;
    XXH3_state_t hash;
    XXH3_INITSTATE(&hash);
    XXH3_64bits_reset(&hash);
    hash_text(&hash, HETERPS_VERSION);
    const double numbers[] = {o->format,
                              o->lines,
                              o->held_out,
                              o->label_optional,
                              o->bad_skip,
                              o->bad_keep,
                              s->ids_over_is_error,
                              s->log1p,
                              s->missing_is_key,
                              s->missing_value,
                              s->has_header,
                              s->has_quotes,
                              s->separator,
                              s->list_separator,
                              s->window,
                              shape.dense_count,
                              shape.field_count,
                              shape.key_count_max,
                              shape.label_count,
                              shape.has_weight,
                              shape.has_group,
                              shape.has_value,
                              s->vocabulary_count};
    XXH3_64bits_update(&hash, numbers, sizeof numbers);
    hash_columns(&hash, s->dense, shape.dense_count);
    hash_columns(&hash, s->field, shape.field_count);
    hash_columns(&hash, s->label, shape.label_count);
    const char *const texts[] = {s->weight, s->group, s->label_map, s->columns, s->missing_text};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) hash_text(&hash, texts[i]);
    for (uint32_t v = 0; v < s->vocabulary_count; v++) {
        hash_number(&hash, s->vocabulary[v].unknown);
        hash_number(&hash, s->vocabulary[v].word_count);
        for (uint32_t w = 0; w < s->vocabulary[v].word_count; w++) hash_text(&hash, s->vocabulary[v].text[w]);
    }
    return XXH3_64bits_digest(&hash);
}

static status cache_open(struct reader_files *files, const struct reader_options *options, struct example_shape parsed)
{
    if (options->lists_words || (options->cache.ram_bytes == 0 && options->cache.ssd_bytes == 0)) return ST_OK;
    files->cache_kept = options->cache_kept;
    files->has_window = options->cache.window > 0;
    if (files->cache_kept && *files->cache_kept) {
        files->cache = *files->cache_kept;
        files->text_bytes_before = data_cache_text_bytes(files->cache);
        *files->cache_kept = NULL;
        return ST_OK;
    }
    return data_cache_open(&files->cache, &(struct data_cache_options){.budget = options->cache,
                                                                       .shape = parsed,
                                                                       .paths = options->paths,
                                                                       .is_stream = files->text.source.is_stream,
                                                                       .io_threads = options->io_threads,
                                                                       .seed = options->seed,
                                                                       .schema = options_hash(options, parsed),
                                                                       .isa = options->isa,
                                                                       .notices = options->notices});
}

size_t reader_files_bytes(const struct reader_options *options, struct example_shape shape)
{
    return reader_text_bytes(options, shape);
}

status reader_files_open(struct reader_files *files, struct arena *arena, const struct reader_options *options,
                         struct example_shape shape, const struct reader_example *spare)
{
    *files = (struct reader_files){.notices = options->notices, .spare = *spare};
    TRY(reader_text_open(&files->text, arena, options, shape, spare));
    status st = cache_open(files, options, shape);
    if (st != ST_OK) reader_text_close(&files->text);
    return st;
}

void reader_files_close(struct reader_files *files)
{
    reader_text_close(&files->text);
    if (files->cache_kept)
        *files->cache_kept = files->cache;
    else
        data_cache_close(files->cache);
}

status reader_files_start(struct reader_files *files, uint64_t epoch)
{
    /* The first block, which is read at open, is of the first pass. */
    bool is_first = !files->is_started;
    files->number = 0;
    files->epoch = epoch;
    files->pass = DATA_CACHE_RESTS;
    files->was_rebuilt = false;
    files->by_blocks = files->has_window && epoch > 0;
    if (files->by_blocks)
        TRY(blocks_start(files));
    else if (files->cache)
        TRY(data_cache_start(files->cache, epoch, false, &files->pass));
    if (files->pass != DATA_CACHE_READS) TRY(reader_text_start(&files->text, epoch));
    files->is_started = true;
    files->told = files->text.counts;
    files->told.byte_count = is_first ? 0 : files->text.source.byte_count;
    return ST_OK;
}

struct reader_counts reader_files_counts(const struct reader_files *files)
{
    struct reader_counts counts = files->text.counts;
    counts.byte_count = files->text.source.byte_count;
    if (files->cache) counts.byte_count += data_cache_text_bytes(files->cache) - files->text_bytes_before;
    return counts;
}

/* The files of a training's data, and marks of their text. They are looked at once a start. */
#include "engine/model/model_data.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/heap.h"
#include "engine/base/paths.h"
#include "io/cache/cache_file.h"

static bool is_regular(const char *path)
{
    struct stat about;
    if (path_is_address(path, strlen(path))) return true; /* a file, if its server tells the size */
    return strcmp(path, "-") != 0 && stat(path, &about) == 0 && S_ISREG(about.st_mode);
}

/* Keeps each name with its final 0, in the room that the list takes. False: a name is of a stream, or of an
 * absent file, which the reader reports. */
static bool names_take(struct model_data *d, const char *paths)
{
    bool all_regular = true;
    char *end = d->names;
    const char *name;
    size_t bytes;
    while (paths_next(&paths, &name, &bytes)) {
        d->file[d->file_count++].name = end;
        char *kept = end;
        end = path_take(end, name, bytes);
        *end++ = 0;
        all_regular = all_regular && is_regular(kept);
        kept[path_shown_bytes(kept, strlen(kept))] = 0; /* saves keep no secrets */
    }
    return all_regular;
}

/* *is_known: all sources have sizes; else an address is a stream. */
static status sources_take(struct model_data *d, const char *paths, const char *cache, bool *is_known)
{
    struct data_sources sources;
    struct layout sum = {0};
    struct arena arena;
    data_sources_layout(&sources, &sum, paths, false);
    TRY(arena_open(&arena, "reader", sum.bytes));
    struct layout place = {.arena = &arena};
    data_sources_layout(&sources, &place, paths, false);
    if (cache) cache_file_know(cache, &sources);
    status st = data_sources_look(&sources, sources.source);
    *is_known = true;
    for (uint32_t i = 0; st == ST_OK && i < d->file_count; i++) {
        d->file[i].bytes = sources.source[i].size_bytes;
        d->file[i].xxh3 = sources.source[i].content_hash;
        *is_known = *is_known && d->file[i].bytes != DATA_SOURCE_STREAM;
    }
    data_sources_close(&sources);
    arena_close(&arena);
    return st;
}

status model_data_look(struct model_data *d, const char *paths, const char *cache)
{
    const uint32_t count = paths_count(paths);
    *d = (struct model_data){0};
    TRY(heap_text(&d->names, "%s", paths));
    d->file = calloc(count, sizeof *d->file);
    if (d->file == NULL) {
        model_data_close(d);
        FAIL(MEMORY, "no memory for the names of %u files", count);
    }
    bool is_known = names_take(d, paths);
    const status st = is_known ? sources_take(d, paths, cache, &is_known) : ST_OK;
    if (st != ST_OK || !is_known) model_data_close(d);
    return st;
}

void model_data_close(struct model_data *d)
{
    free(d->file);
    free(d->names);
    *d = (struct model_data){0};
}

void model_data_mark(struct model_data *d, const struct reader_mark *mark, uint32_t count, uint64_t examples)
{
    uint32_t n = 0, back = 1, kept = 0;
    struct reader_mark found[MODEL_MARKS_MAX];
    while (n < count && mark[n].example <= examples) n++;
    for (; back <= n && kept < MODEL_MARKS_MAX; back *= 2) found[kept++] = mark[n - back];
    for (uint32_t i = 0; i < kept; i++) d->mark[i] = found[kept - 1 - i];
    d->mark_count = kept;
}

status model_data_compare(const char *path, const struct model_data *saved, const struct model_data *present)
{
    static const char todo[] = "to go on with the pass of the save, give its data; to train the model on other data, "
                               "in a new pass and with all its state, give --continue in place of --resume";
    if (saved->file_count == 0 || present->file_count == 0) return ST_OK;
    if (saved->file_count != present->file_count)
        FAIL(INVALID, "%s: its training has stopped in %u file%s of data (%s%s), found %u (%s%s); %s", path,
             saved->file_count, saved->file_count == 1 ? "" : "s", saved->file[0].name,
             saved->file_count == 1 ? "" : ", …", present->file_count, present->file[0].name,
             present->file_count == 1 ? "" : ", …", todo);
    for (uint32_t i = 0; i < saved->file_count; i++) {
        const struct model_data_file *was = &saved->file[i], *is = &present->file[i];
        if (was->bytes != is->bytes)
            FAIL(INVALID,
                 "%s: its training has stopped in %s of %" PRIu64 " bytes, found %s of %" PRIu64
                 " bytes: it is other data; %s",
                 path, was->name, was->bytes, is->name, is->bytes, todo);
        if (was->xxh3 != is->xxh3)
            FAIL(INVALID,
                 "%s: its training has stopped in %s, found %s, which has as many bytes, but different ones; %s", path,
                 was->name, is->name, todo);
    }
    return ST_OK;
}

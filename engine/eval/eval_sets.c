/* Reads sets from texts, and opens their feeds, one after another. */
#include "engine/eval/eval_sets.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/memory.h"
#include "engine/base/paths.h"
#include "io/cache/data_cache.h"

#define NAME_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"

/* --- texts -------------------------------------------------------------------------------------- */

struct eval_sets eval_sets_of(const char *paths) { return (struct eval_sets){.item = {{.paths = paths}}, .count = 1}; }

/* Whether the list's first path exists. */
static bool first_exists(const char *paths)
{
    char path[PATH_MAX];
    const char *name;
    size_t bytes;
    struct stat found;
    return paths_next(&paths, &name, &bytes) && stat(path_copy(path, name, bytes), &found) == 0;
}

status eval_set_parse(struct eval_set *set, const char *flag, const char *text)
{
    const size_t bytes = strspn(text, NAME_LETTERS);
    *set = (struct eval_set){.paths = text};
    if (bytes == 0 || text[bytes] != '=' || first_exists(text)) return ST_OK;
    if (bytes > EVAL_SET_NAME_MAX)
        FAIL(USAGE, "%s %s: the set's name has %zu letters, %u at most are possible", flag, text, bytes,
             EVAL_SET_NAME_MAX);
    if (text[bytes + 1] == 0) FAIL(USAGE, "%s %s: expected files behind the name, found nothing", flag, text);
    memcpy(set->name, text, bytes);
    set->paths = text + bytes + 1;
    return ST_OK;
}

/* Checks that the last of several sets can stand beside the sets before it. */
static status last_check(const struct eval_sets *sets, const char *flag)
{
    const struct eval_set *last = &sets->item[sets->count - 1];
    char room[PATHS_SHOWN_BYTES], last_room[PATHS_SHOWN_BYTES];
    for (uint32_t i = 0; i + 1 < sets->count; i++) {
        const struct eval_set *other = &sets->item[i];
        const struct eval_set *unnamed = !*other->name ? other : !*last->name ? last : NULL;
        if (unnamed)
            FAIL(USAGE,
                 "%s %s has no name; several sets need one each, of letters, digits, _ . and -: %s NAME=FILE; "
                 "files separated by commas are one set",
                 flag, paths_shown(room, unnamed->paths), flag);
        if (strcmp(other->name, last->name) == 0)
            FAIL(USAGE, "%s: two sets are called %s, %s and %s; give them different names", flag, last->name,
                 paths_shown(room, other->paths), paths_shown(last_room, last->paths));
        if (paths_name_stdin(other->paths) && paths_name_stdin(last->paths))
            FAIL(USAGE, "%s: the sets %s and %s both read standard input; give one of them a file", flag, other->name,
                 last->name);
    }
    return ST_OK;
}

status eval_sets_parse(struct eval_sets *sets, const char *flag, const char *const *texts, uint32_t count)
{
    sets->count = 0;
    if (count > EVAL_SETS_MAX)
        FAIL(USAGE, "%s is given %u times; at most %u sets are possible", flag, count, EVAL_SETS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        TRY(eval_set_parse(&sets->item[sets->count++], flag, texts[i]));
        TRY(last_check(sets, flag));
    }
    return ST_OK;
}

bool eval_sets_name_stdin(const struct eval_sets *sets)
{
    for (uint32_t i = 0; i < sets->count; i++)
        if (paths_name_stdin(sets->item[i].paths)) return true;
    return false;
}

/* --- feeds -------------------------------------------------------------------------------------- */

void eval_feeds_begin(struct eval_feeds *f, const struct eval_sets *sets)
{
    *f = (struct eval_feeds){.sets = *sets};
    for (uint32_t i = 0; i < sets->count; i++) {
        const struct eval_set *set = &sets->item[i];
        snprintf(f->suffix[i], sizeof f->suffix[i], ".eval%s%s", *set->name ? "." : "", set->name);
        f->options[i] = (struct evaluate_options){
            .paths = set->paths, .cache = {.suffix = f->suffix[i]}, .cache_kept = &f->cache[i]};
    }
}

void eval_feeds_shut(struct eval_feeds *f)
{
    feed_close(f->feed);
    f->feed = NULL;
}

void eval_feeds_close(struct eval_feeds *f)
{
    eval_feeds_shut(f);
    for (uint32_t i = 0; i < f->sets.count; i++) data_cache_close(f->cache[i]);
    f->sets.count = 0;
}

status eval_feeds_open(struct eval_feeds *f, struct crew *crew, uint32_t i)
{
    if (f->feed && f->at == i) return ST_OK;
    eval_feeds_shut(f);
    f->at = i;
    if (!exchange_computes(crew->options.exchange)) return ST_OK;
    return evaluate_open(crew, &f->options[i], &f->feed);
}

status eval_feeds_reserve(struct eval_feeds *f, struct crew *crew, struct heads *heads)
{
    uint32_t largest = 0;
    size_t largest_bytes = 0;
    if (!exchange_computes(crew->options.exchange)) return ST_OK;
    for (uint32_t i = 0; i < f->sets.count; i++) {
        TRY(eval_feeds_open(f, crew, i));
        TRY(evaluate_reserve(crew, f->feed, heads));
        if (f->sets.count == 1) return ST_OK; /* stays open until it is read, also a stream */
        if (feed_is_stream(f->feed))
            FAIL(INVALID,
                 "%s: the set %s is a stream, which can be opened once, and several sets are opened in turn; "
                 "give a file, or that set alone",
                 feed_paths(f->feed), f->sets.item[i].name);
        /* Without a cache, which stays open. */
        const size_t planned_bytes = memory_planned_bytes();
        eval_feeds_shut(f);
        const size_t bytes = planned_bytes - memory_planned_bytes();
        if (bytes > largest_bytes) largest = i;
        if (bytes > largest_bytes) largest_bytes = bytes;
    }
    return f->sets.count ? eval_feeds_open(f, crew, largest) : ST_OK;
}

status eval_feeds_measure(struct eval_feeds *f, struct crew *crew, struct heads *heads, struct by_value *by)
{
    const char *name = f->sets.item[f->at].name;
    CHECK(f->feed || !exchange_computes(crew->options.exchange));
    return evaluate_measure_as(crew, f->feed, heads, *name ? name : NULL, by);
}

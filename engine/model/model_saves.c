/* Lists the saves of a model's directory by age, and removes old ones (engine/model/model_saves.h). */
#include "engine/model/model_saves.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/heap.h"
#include "engine/base/log.h"
#include "engine/model/model_dir.h"
#include "engine/model/model_names.h"

void older_saves_free(struct older_saves *older)
{
    for (uint32_t i = 0; i < older->count; i++) {
        free(older->items[i].name);
        manifest_free(&older->items[i].manifest);
    }
    free(older->items);
    *older = (struct older_saves){0};
}

static bool older_has(const struct older_saves *older, const char *name)
{
    for (uint32_t i = 0; i < older->count; i++)
        if (strcmp(older->items[i].name, name) == 0) return true;
    return false;
}

/* Takes the manifest, also when the call fails. */
static status older_add(struct older_saves *older, const char *name, struct manifest *manifest, bool is_read)
{
    char *copy;
    status st = heap_text(&copy, "%s", name);
    if (st == ST_OK) st = heap_room(&older->items, older->count + 1, sizeof *older->items, "saves");
    if (st != ST_OK) {
        free(copy);
        manifest_free(manifest);
        return st;
    }
    older->items[older->count++] = (struct older_save){.name = copy, .manifest = *manifest, .is_read = is_read};
    return ST_OK;
}

/* The save written last comes first. Saves without a number, of programs that kept
 * one save only, go by step. */
static int older_compare(const void *a, const void *b)
{
    const struct older_save *x = a, *y = b;
    const struct manifest *p = &x->manifest, *q = &y->manifest;
    if (x->is_read != y->is_read) return x->is_read ? -1 : 1;
    if (p->save != q->save) return p->save > q->save ? -1 : 1;
    if (p->progress.step != q->progress.step) return p->progress.step > q->progress.step ? -1 : 1;
    return strcmp(x->name, y->name);
}

static status newest_add(struct older_saves *older, const char *path)
{
    struct manifest manifest;
    char *name;
    TRY(manifest_load(&manifest, path, MANIFEST_NAME));
    status st = manifest_older_name(&name, &manifest);
    if (st != ST_OK) manifest_free(&manifest);
    if (st == ST_OK) st = older_add(older, name, &manifest, true);
    if (st == ST_OK) older->items[0].is_newest = true;
    free(name);
    return st;
}

/* Adds the save of a name in the directory, if the name is a manifest's and not in the list yet. */
static status name_add(struct older_saves *older, const char *path, const char *name)
{
    struct manifest manifest;
    /* The newest has both names if a save was killed between giving the second and taking manifest.json. */
    if (model_name_kind(name) != MODEL_NAME_MANIFEST || older_has(older, name)) return ST_OK;
    status st = manifest_load(&manifest, path, name);
    if (st == ST_MEMORY) return st;
    if (st != ST_OK)
        log_warning("an older save cannot be read, "
                    "so no file that it may need is removed until it is mended or deleted: %s",
                    status_message());
    return older_add(older, name, &manifest, st == ST_OK);
}

status older_saves_list(struct older_saves *older, const char *path)
{
    status st = ST_OK;
    if (model_file_is_there(path, MANIFEST_NAME)) TRY(newest_add(older, path));
    DIR *directory = opendir(path);
    if (directory == NULL) FAIL(IO, "%s: %s", path, strerror(errno));
    for (struct dirent *entry; st == ST_OK && (entry = readdir(directory)) != NULL;)
        st = name_add(older, path, entry->d_name);
    closedir(directory);
    TRY(st);
    if (older->count) qsort(older->items, older->count, sizeof *older->items, older_compare);
    return ST_OK;
}

/* Whether a kept save needs a data file; a save that cannot be read may need any. */
static bool is_needed(const struct older_saves *older, const struct manifest *newest, const char *name)
{
    bool answer = manifest_names(newest, name);
    for (uint32_t i = 0; i < older->count && !answer; i++)
        answer = !older->items[i].is_read || manifest_names(&older->items[i].manifest, name);
    return answer;
}

void older_saves_thin(const char *path, struct older_saves *older, const struct manifest *newest, uint32_t keep)
{
    uint32_t kept = 0;
    bool is_removed = false;
    for (uint32_t i = 0; i < older->count; i++) {
        struct older_save *o = &older->items[i];
        if (!o->is_read || i + 1 < keep) {
            struct older_save same = *o;
            *o = older->items[kept];
            older->items[kept++] = same;
        } else {
            is_removed = model_file_remove(path, o->name) || is_removed;
        }
    }
    for (uint32_t i = kept; i < older->count; i++) {
        free(older->items[i].name);
        manifest_free(&older->items[i].manifest);
    }
    older->count = kept;
    /* Else a manifest that comes back after a power cut would name files that are gone. */
    if (is_removed && model_dir_sync(path) != ST_OK) return;
    DIR *directory = opendir(path);
    if (directory == NULL) return;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        const char *name = entry->d_name;
        enum model_name_kind kind = model_name_kind(name);
        if (kind == MODEL_NAME_TEMPORARY || (kind == MODEL_NAME_DATA && !is_needed(older, newest, name)))
            unlinkat(dirfd(directory), name, 0);
    }
    closedir(directory);
}

void older_saves_warn(const char *path, uint32_t keep)
{
    struct older_saves older = {0};
    uint32_t count = 0;
    uint64_t first_step = UINT64_MAX, last_step = 0;
    if (older_saves_list(&older, path) == ST_OK)
        for (uint32_t i = keep - 1; i < older.count && older.items[i].is_read; i++, count++) {
            const uint64_t step = older.items[i].manifest.progress.step;
            first_step = step < first_step ? step : first_step;
            last_step = step > last_step ? step : last_step;
        }
    if (count > 1)
        log_warning("out %s: the next save removes %u older ones, of steps %" PRIu64 " to %" PRIu64
                    " (checkpoint.keep = %u); to keep them, give --set checkpoint.keep=%u, or --out another directory",
                    path, count, first_step, last_step, keep, older.count + 1);
    older_saves_free(&older);
}

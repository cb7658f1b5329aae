/* The list of files that a run reads: a few, added while the run opens, never removed. */
#include "engine/base/inputs.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/heap.h"
#include "engine/base/paths.h"

struct input {
    dev_t device;
    ino_t inode;
    const char *what; /* or NULL */
    char *path;
    struct input *next;
};
/* A new input is put in front of the others, with release; a reader loads the front with acquire, and
 * inputs behind it never change. */
static _Atomic(struct input *) shared_inputs;

static atomic_bool shared_is_stopped;

/* Whether `found` is this input. A removed file's inode may go to another file, so an input counts only
 * while its name still leads to it. */
static bool input_is(const struct input *i, const struct stat *found)
{
    struct stat named;
    return i->device == found->st_dev && i->inode == found->st_ino && stat(i->path, &named) == 0 &&
           named.st_dev == i->device && named.st_ino == i->inode;
}

static const struct input *input_find(const struct stat *found)
{
    const struct input *i = atomic_load_explicit(&shared_inputs, memory_order_acquire);
    while (i != NULL && !input_is(i, found)) i = i->next;
    return i;
}

static status input_add(const char *what, const char *path)
{
    struct stat found;
    if (atomic_load_explicit(&shared_is_stopped, memory_order_relaxed)) return ST_OK;
    if (stat(path, &found) != 0 || !S_ISREG(found.st_mode) || input_find(&found) != NULL) return ST_OK;
    struct input *input = calloc(1, sizeof *input);
    if (input == NULL) FAIL(MEMORY, "%s: no memory to note that it is read", path);
    *input = (struct input){.device = found.st_dev, .inode = found.st_ino, .what = what};
    status st = heap_text(&input->path, "%s", path);
    if (st != ST_OK) {
        free(input);
        return st;
    }
    input->next = atomic_load_explicit(&shared_inputs, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&shared_inputs, &input->next, input, memory_order_release,
                                                  memory_order_relaxed))
        continue;
    return ST_OK;
}

void inputs_stop(void) { atomic_store_explicit(&shared_is_stopped, true, memory_order_relaxed); }

status inputs_add(const char *what, const char *paths)
{
    char path[PATH_MAX];
    const char *name;
    size_t bytes;
    TRY(input_add(what, paths)); /* what takes a single file takes its commas as they are */
    while (paths_next(&paths, &name, &bytes)) TRY(input_add(what, path_copy(path, name, bytes)));
    return ST_OK;
}

status inputs_spare_found(const char *path, const struct stat *found)
{
    const struct input *input = S_ISREG(found->st_mode) ? input_find(found) : NULL;
    if (input == NULL) return ST_OK;
    FAIL(USAGE, "%s is to be written, and is the same file as %s%s%s, which is read; give another name", path,
         input->what ? input->what : "", input->what ? " " : "", input->path);
}

status inputs_spare(const char *path)
{
    struct stat found;
    return stat(path, &found) == 0 ? inputs_spare_found(path, &found) : ST_OK;
}

/* A model's directory: whether a save may go there, which process may save, and how files there are read and
 * removed. */
#include "engine/model/model_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/model/model_names.h"
#include "engine/model/recipe.h"

bool model_file_is_there(const char *directory, const char *name)
{
    char path[FILE_PATH_BYTES];
    struct stat ignored;
    return lstat(file_path_join(path, directory, name), &ignored) == 0 || errno != ENOENT;
}

status manifest_load(struct manifest *manifest, const char *directory, const char *name)
{
    struct file_map map = {0};
    char path[FILE_PATH_BYTES];
    *manifest = (struct manifest){0};
    TRY(file_map_read(&map, file_path_join(path, directory, name)));
    status st = manifest_read(manifest, path, map.data, map.bytes);
    file_map_close(&map);
    return st;
}

/* A directory without a manifest has to be empty, or to hold what a killed first save
 * left: the lock, and data. */
static status leftovers_check(const char *path)
{
    DIR *directory = opendir(path);
    if (directory == NULL) FAIL(IO, "%s: %s", path, strerror(errno));
    bool is_ours = model_file_is_there(path, MODEL_LOCK_NAME);
    char foreign[256] = "";
    for (struct dirent *entry; (entry = readdir(directory)) != NULL && foreign[0] == 0;) {
        const char *name = entry->d_name;
        enum model_name_kind kind = model_name_kind(name);
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
            (is_ours && (kind == MODEL_NAME_DATA || kind == MODEL_NAME_TEMPORARY ||
                         strcmp(name, MODEL_LOCK_NAME) == 0 || strcmp(name, MODEL_BEST_NAME) == 0)))
            continue;
        snprintf(foreign, sizeof foreign, "%s", name);
    }
    closedir(directory);
    if (foreign[0] != 0)
        FAIL(INVALID, "%s: not empty, and holds no model (\"%s\" is there, no %s); give a new or empty directory", path,
             foreign, MANIFEST_NAME);
    return ST_OK;
}

/* Descriptors of this process's locks, which the kernel drops when the process ends. Under claims_lock. */
struct claim {
    int fd;
    struct claim *next;
};
static struct claim *claims;
static pthread_mutex_t claims_lock = PTHREAD_MUTEX_INITIALIZER;

static bool is_claimed(const struct stat *lock)
{
    struct stat held;
    for (const struct claim *c = claims; c != NULL; c = c->next)
        if (fstat(c->fd, &held) == 0 && held.st_dev == lock->st_dev && held.st_ino == lock->st_ino) return true;
    return false;
}

static status claim_locked(const char *path, const char *lock_path)
{
    int fd = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (fd < 0) FAIL(IO, "%s: %s", lock_path, strerror(errno));
    struct stat lock;
    if (fstat(fd, &lock) == 0 && is_claimed(&lock)) {
        close(fd);
        return ST_OK;
    }
    /* Some network file systems know no locks (ENOLCK, EOPNOTSUPP, ENOSYS):
     * there the directory stays unclaimed. */
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        close(fd);
        FAIL(SYSTEM,
             "%s: another process writes to this directory, or store.path, "
             "which rows on disk need for themselves, names it",
             path);
    }
    struct claim *claim = malloc(sizeof *claim);
    if (claim == NULL) {
        close(fd);
        FAIL(MEMORY, "%s: no memory to claim the directory", path);
    }
    *claim = (struct claim){.fd = fd, .next = claims};
    claims = claim;
    return ST_OK;
}

static status claim(const char *path)
{
    char lock_path[FILE_PATH_BYTES];
    file_path_join(lock_path, path, MODEL_LOCK_NAME);
    pthread_mutex_lock(&claims_lock);
    status st = claim_locked(path, lock_path);
    pthread_mutex_unlock(&claims_lock);
    return st;
}

/* Checks that a file can be made there; leaves none. */
static status writable_check(const char *path)
{
    struct file_writer writer = {0};
    char manifest_path[FILE_PATH_BYTES];
    status st = file_writer_open(&writer, file_path_join(manifest_path, path, MANIFEST_NAME));
    file_writer_abort(&writer);
    return st;
}

/* Another graph's model is not replaced: it may be the only copy of long work. */
static status same_graph_check(const struct graph *graph, const char *path)
{
    struct manifest manifest;
    TRY(manifest_load(&manifest, path, MANIFEST_NAME));
    char name[64], what[RECIPE_WHAT_BYTES];
    snprintf(name, sizeof name, "%s", manifest.model);
    uint64_t hash = manifest.model_hash;
    bool is_same = hash == graph->header->model_hash,
         is_told = !is_same && recipe_differs(path, &manifest, graph, what);
    manifest_free(&manifest);
    if (is_same) return ST_OK;
    FAIL(MISMATCH,
         "%s: holds a model of another graph (\"%s\", hash %016" PRIx64 "; this one is %016" PRIx64 ")%s%s; "
         "give another directory, or remove it",
         path, name, hash, graph->header->model_hash, is_told ? ": " : "", is_told ? what : "");
}

/* A copy made of links (cp -rs, data under git-annex or DVC) shares its files with another directory: a save
 * would replace that directory's manifest, and so take its model away. */
static status links_check(const char *path)
{
    static const char *const names[] = {MANIFEST_NAME, MODEL_LOCK_NAME};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char file_path[FILE_PATH_BYTES];
        struct stat about;
        if (lstat(file_path_join(file_path, path, names[i]), &about) == 0 && S_ISLNK(about.st_mode))
            FAIL(INVALID,
                 "%s: a link, and a save here would change the directory that it leads to; give another directory, or "
                 "copy the model (cp -rL)",
                 file_path);
    }
    return ST_OK;
}

status model_dir_check(const struct graph *graph, const char *path)
{
    TRY(file_directory_make(path));
    TRY(links_check(path));
    if (model_file_is_there(path, MANIFEST_NAME)) {
        TRY(same_graph_check(graph, path));
    } else {
        TRY(leftovers_check(path));
    }
    TRY(claim(path));
    return writable_check(path);
}

status model_dir_sync(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int sync_errno = fd < 0 || fsync(fd) != 0 ? errno : 0;
    if (fd >= 0) close(fd);
    if (sync_errno != 0 && sync_errno != EINVAL) FAIL(IO, "%s: fsync: %s", path, strerror(sync_errno));
    return ST_OK;
}

bool model_file_remove(const char *directory, const char *name)
{
    char path[FILE_PATH_BYTES];
    return unlink(file_path_join(path, directory, name)) == 0;
}

/* Saves a model into a directory so that a kill or a failure at any moment leaves a whole save there.
 *
 *     before                    new files                     manifest renamed              old files removed
 *     manifest.json ─▶ 100      manifest.json ─▶ 100          manifest.json ─▶ 200          manifest.json ─▶ 200
 *     dense.100, emb.100        dense.100, emb.100            dense.100, emb.100
 *                               dense.200, emb.200            dense.200, emb.200            dense.200, emb.200
 *
 * Every file is fsynced before its name appears. A file that no manifest names is a leftover: the next save that succeeds removes it.
 * Called once a checkpoint. */
#include "engine/manifest.h"
#include "engine/model.h"

#include <ctype.h>
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

#include "io/row_file.h"

#define LOCK_NAME  "lock"
#define DENSE_NAME "dense"
#define DENSE_END  ".safetensors"
#define ROWS_END   ".rows"

/* --- names ------------------------------------------------------------------------------------ */

static bool is_safe(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("_.-", c) != NULL;
}

char *model_file_stem(const char *table)
{
    char *stem = malloc(3 * strlen(table) + 1), *out = stem;
    CHECK(stem != NULL);
    for (const char *in = table; *in; in++)
        if (is_safe(*in))
            *out++ = *in;
        else
            out += sprintf(out, "%%%02X", (unsigned char)*in);
    *out = 0;
    return stem;
}

/* STEM.STEP.END, or STEM.STEP-GENERATION.END. malloc'd. */
static char *data_name(const char *stem, uint64_t step, uint32_t generation, const char *end)
{
    char *name = NULL;
    int length = generation == 0 ? asprintf(&name, "%s.%" PRIu64 "%s", stem, step, end)
                                 : asprintf(&name, "%s.%" PRIu64 "-%u%s", stem, step, generation, end);
    CHECK(length >= 0);
    return name;
}

/* Takes `end` off a text of *length bytes, if it ends so and something is left. */
static bool end_take(const char *text, size_t *length, const char *end)
{
    size_t bytes = strlen(end);
    if (*length <= bytes || memcmp(text + *length - bytes, end, bytes) != 0) return false;
    *length -= bytes;
    return true;
}

/* Takes digits off the end, at least one, and the byte `before` in front of them. */
static bool digits_take(const char *text, size_t *length, char before)
{
    size_t end = *length;
    while (end > 0 && isdigit((unsigned char)text[end - 1])) end--;
    if (end == *length || end == 0 || text[end - 1] != before) return false;
    *length = end - 1;
    return true;
}

/* Whether a name is one that a save gives, other than manifest and lock: NAME.STEP[-GENERATION].END, or a temporary
 * of it. */
static bool is_data_name(const char *name)
{
    size_t length = strlen(name), whole = length;
    bool is_temporary = digits_take(name, &length, '.') && end_take(name, &length, ".tmp");
    if (!is_temporary) length = whole;
    if (is_temporary && length == strlen(MANIFEST_NAME) && memcmp(name, MANIFEST_NAME, length) == 0) return true;
    bool is_dense = end_take(name, &length, DENSE_END);
    if (!is_dense && !end_take(name, &length, ROWS_END)) return false;
    size_t no_generation = length;
    if (!digits_take(name, &no_generation, '-') || !digits_take(name, &no_generation, '.')) {
        no_generation = length;
        if (!digits_take(name, &no_generation, '.')) return false;
    }
    length = no_generation;
    return is_dense ? length == strlen(DENSE_NAME) && memcmp(name, DENSE_NAME, length) == 0 : length > 0;
}

static bool is_named(const struct manifest *m, const char *name)
{
    for (uint32_t i = 0; i < m->table_count; i++)
        if (strcmp(m->tables[i].file.name, name) == 0) return true;
    return strcmp(m->dense.name, name) == 0;
}

/* --- the directory ---------------------------------------------------------------------------- */

static bool is_there(const char *directory, const char *name)
{
    char *path = file_path_join(directory, name);
    struct stat ignored;
    bool answer = lstat(path, &ignored) == 0 || errno != ENOENT;
    free(path);
    return answer;
}

static status manifest_load(struct manifest *manifest, const char *directory)
{
    struct file_map map = {0};
    char *path = file_path_join(directory, MANIFEST_NAME);
    status st = file_map_open(&map, path);
    if (st == ST_OK) st = manifest_read(manifest, path, map.data, map.bytes);
    file_map_close(&map);
    free(path);
    return st;
}

/* A directory without a manifest is empty, or holds what a first save left when it was killed: the lock, and data. */
static status leftovers_check(const char *path)
{
    DIR *directory = opendir(path);
    if (directory == NULL) FAIL(IO, "%s: %s", path, strerror(errno));
    bool is_ours = is_there(path, LOCK_NAME);
    char foreign[256] = "";
    for (struct dirent *entry; (entry = readdir(directory)) != NULL && foreign[0] == 0;) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
            (is_ours && (is_data_name(name) || strcmp(name, LOCK_NAME) == 0)))
            continue;
        snprintf(foreign, sizeof foreign, "%s", name);
    }
    closedir(directory);
    if (foreign[0] != 0)
        FAIL(INVALID, "%s: not empty, and holds no model (\"%s\" is there, no %s); give a new or empty directory", path,
             foreign, MANIFEST_NAME);
    return ST_OK;
}

/* Descriptors of the locks that this process holds; the kernel drops them when it ends. Under claims_lock. */
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
    /* Some network file systems know no locks (ENOLCK, EOPNOTSUPP, ENOSYS): there the directory stays unclaimed. */
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        close(fd);
        FAIL(SYSTEM, "%s: another process writes to this directory", path);
    }
    struct claim *claim = malloc(sizeof *claim);
    CHECK(claim != NULL);
    *claim = (struct claim){.fd = fd, .next = claims};
    claims = claim;
    return ST_OK;
}

static status claim(const char *path)
{
    char *lock_path = file_path_join(path, LOCK_NAME);
    pthread_mutex_lock(&claims_lock);
    status st = claim_locked(path, lock_path);
    pthread_mutex_unlock(&claims_lock);
    free(lock_path);
    return st;
}

/* A file can be made there, which leaves nothing behind. */
static status writable_check(const char *path)
{
    struct file_writer writer = {0};
    char *manifest_path = file_path_join(path, MANIFEST_NAME);
    status st = file_writer_open(&writer, manifest_path);
    file_writer_abort(&writer);
    free(manifest_path);
    return st;
}

/* Another graph's model is not replaced: it may be the only copy of long work. */
static status same_graph_check(const struct graph *graph, const char *path)
{
    struct manifest manifest;
    TRY(manifest_load(&manifest, path));
    char name[64];
    snprintf(name, sizeof name, "%s", manifest.model);
    uint64_t hash = manifest.model_hash;
    manifest_free(&manifest);
    if (hash != graph->header->model_hash)
        FAIL(MISMATCH,
             "%s: holds a model of another graph (\"%s\", hash %016" PRIx64 "; this one is %016" PRIx64
             "); give another directory, or remove it",
             path, name, hash, graph->header->model_hash);
    return ST_OK;
}

status model_dir_check(const struct graph *graph, const char *path)
{
    TRY(file_directory_make(path));
    if (is_there(path, MANIFEST_NAME)) {
        TRY(same_graph_check(graph, path));
    } else {
        TRY(leftovers_check(path));
    }
    TRY(claim(path));
    return writable_check(path);
}

/* Removes what earlier saves left. What cannot be removed stays: it harms nobody, and the save has succeeded. */
static void leftovers_remove(const char *path, const struct manifest *manifest)
{
    DIR *directory = opendir(path);
    if (directory == NULL) return;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        if (is_data_name(entry->d_name) && !is_named(manifest, entry->d_name))
            unlinkat(dirfd(directory), entry->d_name, 0);
    closedir(directory);
}

/* --- saving ----------------------------------------------------------------------------------- */

struct save {
    const struct model *model;
    const char *path;
    struct model_arrays arrays;
    struct manifest manifest; /* of this save */
    char *dense_name, **table_name;
};

static status save_names(struct save *s)
{
    const struct graph *g = s->model->graph;
    uint64_t step = s->model->progress.step;
    s->table_name = calloc((size_t)g->table_count + 1, sizeof *s->table_name);
    if (s->table_name == NULL) FAIL(MEMORY, "%s: no memory for the names of %u tables", s->path, g->table_count);
    /* The first generation of which nothing is there. */
    bool is_taken = true;
    for (uint32_t generation = 0; is_taken; generation++) {
        free(s->dense_name);
        s->dense_name = data_name(DENSE_NAME, step, generation, DENSE_END);
        is_taken = is_there(s->path, s->dense_name);
        for (uint32_t t = 0; t < g->table_count; t++) {
            char *stem = model_file_stem(graph_string(g, g->tables[t].name));
            free(s->table_name[t]);
            s->table_name[t] = data_name(stem, step, generation, ROWS_END);
            free(stem);
            is_taken = is_taken || is_there(s->path, s->table_name[t]);
        }
        if (generation == UINT32_MAX) FAIL(IO, "%s: no free name for step %" PRIu64, s->path, step);
    }
    return ST_OK;
}

static status save_describe(struct save *s, const uint64_t *row_count)
{
    const struct graph *g = s->model->graph;
    TRY(model_arrays_list(&s->arrays, s->model, true));
    TRY(manifest_make(&s->manifest, g->table_count, s->arrays.count));
    TRY(save_names(s));
    struct manifest *m = &s->manifest;
    m->model = graph_string(g, g->header->name);
    m->model_hash = g->header->model_hash;
    m->progress = s->model->progress;
    m->dense.name = s->dense_name;
    for (uint32_t t = 0; t < g->table_count; t++)
        m->tables[t] = (struct manifest_table){.name = graph_string(g, g->tables[t].name),
                                               .dim = g->tables[t].dim,
                                               .span_floats = g->tables[t].span_floats,
                                               .rows = row_count ? row_count[t] : store_row_count(s->model->store, t),
                                               .file.name = s->table_name[t]};
    for (uint32_t i = 0; i < m->tensor_count; i++)
        m->tensors[i] = (struct manifest_tensor){.name = s->arrays.items[i].name,
                                                 .shape = {s->arrays.items[i].rows, s->arrays.items[i].cols}};
    return ST_OK;
}

enum { SAVE_DENSE = -1, SAVE_MANIFEST = -2 };

static status content_put(struct save *s, struct file_writer *writer, int64_t what)
{
    if (what == SAVE_MANIFEST) return manifest_put(&s->manifest, writer);
    if (what == SAVE_DENSE) return model_arrays_put(&s->arrays, writer);
    const struct manifest_table *t = &s->manifest.tables[what];
    return row_file_put(writer, t->name, t->dim, t->span_floats, s->model->store, (uint32_t)what, t->rows);
}

/* Writes table `what`, the dense file or the manifest, and notes bytes and checksum. */
static status save_file(struct save *s, const char *name, int64_t what, struct manifest_file *file)
{
    struct file_writer writer = {0};
    char *path = file_path_join(s->path, name);
    status st = file_writer_open(&writer, path);
    if (st == ST_OK) st = content_put(s, &writer, what);
    if (st == ST_OK && file != NULL) {
        file->bytes = writer.written_bytes;
        file->xxh3 = file_writer_hash(&writer);
    }
    if (st == ST_OK) st = file_writer_commit(&writer);
    if (st != ST_OK) file_writer_abort(&writer);
    free(path);
    return st;
}

static status save_files(struct save *s)
{
    struct manifest *m = &s->manifest;
    TRY(save_file(s, m->dense.name, SAVE_DENSE, &m->dense));
    for (uint32_t t = 0; t < m->table_count; t++) TRY(save_file(s, m->tables[t].file.name, t, &m->tables[t].file));
    return save_file(s, MANIFEST_NAME, SAVE_MANIFEST, NULL);
}

/* After a failure: removes what this save wrote, unless the directory's manifest may already be the new one (its
 * rename was done, and the directory's fsync failed). This thread's last failure stays what it was. */
static void save_undo(struct save *s)
{
    struct manifest present;
    char *message = strdup(status_message());
    bool is_old = !is_there(s->path, MANIFEST_NAME);
    if (!is_old && manifest_load(&present, s->path) == ST_OK) {
        is_old = !is_named(&present, s->dense_name);
        manifest_free(&present);
    }
    for (int64_t t = SAVE_DENSE; is_old && t < s->manifest.table_count; t++) {
        char *path = file_path_join(s->path, t == SAVE_DENSE ? s->dense_name : s->table_name[t]);
        unlink(path);
        free(path);
    }
    (void)status_adopt(ST_OK, message ? message : "");
    free(message);
}

status model_save(const struct model *model, const uint64_t *row_count, const char *path)
{
    TRY(model_dir_check(model->graph, path));
    struct save s = {.model = model, .path = path};
    status st = save_describe(&s, row_count);
    if (st == ST_OK) {
        st = save_files(&s);
        if (st == ST_OK)
            leftovers_remove(path, &s.manifest);
        else
            save_undo(&s);
    }
    for (uint32_t t = 0; s.table_name != NULL && t < model->graph->table_count; t++) free(s.table_name[t]);
    free(s.table_name);
    free(s.dense_name);
    manifest_free(&s.manifest);
    model_arrays_free(&s.arrays);
    return st;
}

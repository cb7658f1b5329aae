/* Saves a model into a directory so that a kill or a failure at any moment leaves whole saves there, and only such.
 *
 *     before                   new files, older name        manifest renamed             too old removed (keep = 2)
 *     manifest.json ─▶ 200     manifest.json ─▶ 200         manifest.json ─▶ 300         manifest.json ─▶ 300
 *                              manifest.200.json ─▶ 200     manifest.200.json ─▶ 200     manifest.200.json ─▶ 200
 *     manifest.100.json ─▶ 100 manifest.100.json ─▶ 100     manifest.100.json ─▶ 100
 *     dense.100, emb.100       dense.100, emb.100           dense.100, emb.100
 *     dense.200, emb.200       dense.200, emb.200           dense.200, emb.200           dense.200, emb.200
 *                              dense.300, emb.300           dense.300, emb.300           dense.300, emb.300
 *
 * Every file is fsynced before its name appears; manifests that are too old go before the files that they name, with an fsync of the
 * directory between. A file that no manifest names is a leftover: the next save that succeeds removes it. Called once a checkpoint. */
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

#include "engine/base/log.h"
#include "io/row_file.h"

#define LOCK_NAME     "lock"
#define MANIFEST_STEM "manifest"
#define MANIFEST_END  ".json"
#define DENSE_NAME    "dense"
#define DENSE_END     ".safetensors"
#define ROWS_END      ".rows"
_Static_assert(sizeof MANIFEST_NAME == sizeof MANIFEST_STEM MANIFEST_END, "one name");

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

/* Takes STEP or STEP-GENERATION off the end, and the '.' in front of it. */
static bool tag_take(const char *text, size_t *length)
{
    size_t with_generation = *length;
    if (digits_take(text, &with_generation, '-') && digits_take(text, &with_generation, '.')) {
        *length = with_generation;
        return true;
    }
    return digits_take(text, length, '.');
}

static bool is_text(const char *text, size_t length, const char *expected)
{
    return length == strlen(expected) && memcmp(text, expected, length) == 0;
}

/* What a name in the directory is by its looks. */
enum name_kind {
    NAME_OTHER,    /* not ours, or manifest.json, or the lock         */
    NAME_DATA,     /* NAME.STEP[-GENERATION].END                      */
    NAME_MANIFEST, /* manifest.STEP[-GENERATION].json: an older save's */
    NAME_TEMPORARY /* of any file that a save writes                  */
};

static enum name_kind name_kind_of(const char *name, size_t length)
{
    size_t end = length;
    if (digits_take(name, &end, '.') && end_take(name, &end, ".tmp"))
        return name_kind_of(name, end) != NAME_OTHER || is_text(name, end, MANIFEST_NAME) ? NAME_TEMPORARY : NAME_OTHER;
    end = length;
    if (end_take(name, &end, MANIFEST_END))
        return tag_take(name, &end) && is_text(name, end, MANIFEST_STEM) ? NAME_MANIFEST : NAME_OTHER;
    end = length;
    if (end_take(name, &end, DENSE_END))
        return tag_take(name, &end) && is_text(name, end, DENSE_NAME) ? NAME_DATA : NAME_OTHER;
    return end_take(name, &end, ROWS_END) && tag_take(name, &end) && end > 0 ? NAME_DATA : NAME_OTHER;
}

static bool is_named(const struct manifest *m, const char *name)
{
    for (uint32_t i = 0; i < m->table_count; i++)
        if (strcmp(m->tables[i].file.name, name) == 0) return true;
    return strcmp(m->dense.name, name) == 0;
}

/* The second name of a manifest: manifest.TAG.json, its tag being that of its dense file. malloc'd. */
static char *older_name(const struct manifest *m)
{
    const char *dense = m->dense.name;
    char *name = NULL;
    size_t end = strlen(dense), stem = end;
    if (end_take(dense, &end, DENSE_END) && (stem = end, tag_take(dense, &stem))) {
        CHECK(asprintf(&name, "%s%.*s%s", MANIFEST_STEM, (int)(end - stem), dense + stem, MANIFEST_END) >= 0);
        return name;
    }
    return data_name(MANIFEST_STEM, m->progress.step, 0, MANIFEST_END); /* written by no save, but whole */
}

/* Whether a data file has the tag of an older manifest's name. */
static bool has_tag_of(const char *manifest, const char *name)
{
    const char *tag = manifest + sizeof MANIFEST_STEM; /* behind the '.' */
    size_t tag_bytes = strlen(tag) - strlen(MANIFEST_END), end = strlen(name);
    if (!end_take(name, &end, DENSE_END)) end_take(name, &end, ROWS_END);
    return end > tag_bytes && name[end - tag_bytes - 1] == '.' && memcmp(name + end - tag_bytes, tag, tag_bytes) == 0;
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

static status manifest_load(struct manifest *manifest, const char *directory, const char *name)
{
    struct file_map map = {0};
    char *path = file_path_join(directory, name);
    *manifest = (struct manifest){0};
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
        enum name_kind kind = name_kind_of(name, strlen(name));
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
            (is_ours && (kind == NAME_DATA || kind == NAME_TEMPORARY || strcmp(name, LOCK_NAME) == 0 ||
                         strcmp(name, MODEL_BEST_NAME) == 0)))
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
    TRY(manifest_load(&manifest, path, MANIFEST_NAME));
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

/* fsync of the directory itself. A file system that cannot says EINVAL. */
static status directory_sync(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int sync_errno = fd < 0 || fsync(fd) != 0 ? errno : 0;
    if (fd >= 0) close(fd);
    if (sync_errno != 0 && sync_errno != EINVAL) FAIL(IO, "%s: fsync: %s", path, strerror(sync_errno));
    return ST_OK;
}

/* Whether there was such a file, and now is none. */
static bool name_remove(const char *directory, const char *name)
{
    char *path = file_path_join(directory, name);
    bool is_removed = unlink(path) == 0;
    free(path);
    return is_removed;
}

/* --- the saves that are there ----------------------------------------------------------------- */

struct older_save {
    char *name; /* manifest.TAG.json, which the newest of them gets only when another becomes manifest.json */
    struct manifest manifest;
    bool is_read;   /* else its age and its files are not known                                        */
    bool is_newest; /* is manifest.json                                                                */
};
struct older_saves {
    struct older_save *items;
    uint32_t count;
};

static void older_free(struct older_saves *older)
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

/* Takes name and manifest. */
static void older_add(struct older_saves *older, char *name, const struct manifest *manifest, bool is_read)
{
    older->items = realloc(older->items, (older->count + 1) * sizeof *older->items);
    CHECK(older->items != NULL && name != NULL);
    older->items[older->count++] = (struct older_save){.name = name, .manifest = *manifest, .is_read = is_read};
}

/* The save written last comes first. Those without a number are of programs that kept no more than one: by step, then. */
static int older_compare(const void *a, const void *b)
{
    const struct older_save *x = a, *y = b;
    const struct manifest *p = &x->manifest, *q = &y->manifest;
    if (x->is_read != y->is_read) return x->is_read ? -1 : 1;
    if (p->save != q->save) return p->save > q->save ? -1 : 1;
    if (p->progress.step != q->progress.step) return p->progress.step > q->progress.step ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Lists the saves of a directory, the newest under the name that it is going to have. What cannot be read of older ones is kept as
 * it is, since nobody knows what it was worth. */
static status older_list(struct older_saves *older, const char *path)
{
    struct manifest manifest;
    if (is_there(path, MANIFEST_NAME)) {
        TRY(manifest_load(&manifest, path, MANIFEST_NAME));
        older_add(older, older_name(&manifest), &manifest, true);
        older->items[0].is_newest = true;
    }
    DIR *directory = opendir(path);
    if (directory == NULL) FAIL(IO, "%s: %s", path, strerror(errno));
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        const char *name = entry->d_name;
        /* The newest is there under both names if a save was killed between giving it one and taking the other. */
        if (name_kind_of(name, strlen(name)) != NAME_MANIFEST || older_has(older, name)) continue;
        bool is_read = manifest_load(&manifest, path, name) == ST_OK;
        if (!is_read) log_warning("an older save stays as it is, because it cannot be read: %s", status_message());
        older_add(older, strdup(name), &manifest, is_read);
    }
    closedir(directory);
    if (older->count) qsort(older->items, older->count, sizeof *older->items, older_compare);
    return ST_OK;
}

/* Whether a save that is kept needs a data file. */
static bool is_needed(const struct older_saves *older, const struct manifest *newest, const char *name)
{
    bool answer = is_named(newest, name);
    for (uint32_t i = 0; i < older->count && !answer; i++) {
        const struct older_save *o = &older->items[i];
        answer = o->is_read ? is_named(&o->manifest, name) : has_tag_of(o->name, name);
    }
    return answer;
}

/* Removes the saves that are too old, and what no save names. What cannot be removed stays: it harms nobody, and the save has
 * succeeded. */
static void leftovers_remove(const char *path, struct older_saves *older, const struct manifest *newest, uint32_t keep)
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
            is_removed = name_remove(path, o->name) || is_removed;
        }
    }
    for (uint32_t i = kept; i < older->count; i++) {
        free(older->items[i].name);
        manifest_free(&older->items[i].manifest);
    }
    older->count = kept;
    /* A manifest that came back after a power cut would name what is gone. */
    if (is_removed && directory_sync(path) != ST_OK) return;
    DIR *directory = opendir(path);
    if (directory == NULL) return;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        const char *name = entry->d_name;
        enum name_kind kind = name_kind_of(name, strlen(name));
        if (kind == NAME_TEMPORARY || (kind == NAME_DATA && !is_needed(older, newest, name)))
            unlinkat(dirfd(directory), name, 0);
    }
    closedir(directory);
}

/* --- saving ----------------------------------------------------------------------------------- */

struct save {
    const struct model *model;
    const char *path;
    struct model_arrays arrays;
    struct older_saves older;
    struct store_walk walk[GRAPH_TABLES_MAX]; /* of each table's rows */
    struct manifest manifest;                 /* of this save */
    char *dense_name, **table_name;
    const char *linked_name; /* that the save before this one got from this one, or NULL */
    uint64_t bytes;
};

static status save_names(struct save *s)
{
    const struct graph *g = s->model->graph;
    uint64_t step = s->model->progress.step;
    s->table_name = calloc((size_t)g->table_count + 1, sizeof *s->table_name);
    if (s->table_name == NULL) FAIL(MEMORY, "%s: no memory for the names of %u tables", s->path, g->table_count);
    /* The first generation of which nothing is there, not even an older save that cannot be read. */
    bool is_taken = true;
    for (uint32_t generation = 0; is_taken; generation++) {
        free(s->dense_name);
        s->dense_name = data_name(DENSE_NAME, step, generation, DENSE_END);
        char *older = data_name(MANIFEST_STEM, step, generation, MANIFEST_END);
        is_taken = is_there(s->path, s->dense_name) || is_there(s->path, older);
        free(older);
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

static status save_describe(struct save *s, const struct model_save_options *o)
{
    const struct graph *g = s->model->graph;
    TRY(older_list(&s->older, s->path));
    TRY(model_arrays_list(&s->arrays, s->model, true));
    TRY(manifest_make(&s->manifest, g->table_count, s->arrays.count));
    for (uint32_t t = 0; t < g->table_count; t++) {
        uint64_t row_count = o->row_count ? o->row_count[t] : store_row_count(s->model->store, t);
        TRY(store_walk_open(&s->walk[t], s->model->store, t, row_count, o->ticket));
    }
    TRY(save_names(s));
    struct manifest *m = &s->manifest;
    m->model = graph_string(g, g->header->name);
    m->model_hash = g->header->model_hash;
    m->progress = s->model->progress;
    m->best = s->model->best;
    m->text = g->text;
    m->text_bytes = g->text_bytes;
    m->save = 1;
    for (uint32_t i = 0; i < s->older.count; i++)
        if (s->older.items[i].manifest.save >= m->save) m->save = s->older.items[i].manifest.save + 1;
    m->dense.name = s->dense_name;
    for (uint32_t t = 0; t < g->table_count; t++)
        m->tables[t] =
            (struct manifest_table){.name = graph_string(g, g->tables[t].name),
                                    .optimizer = optimizer_table[g->optimizers[g->tables[t].optimizer].kind].name,
                                    .dim = g->tables[t].dim,
                                    .span_floats = g->tables[t].span_floats,
                                    .rows = s->walk[t].row_count,
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
    return row_file_put(writer, t->name, t->dim, t->span_floats, &s->walk[what]);
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
    uint64_t bytes = writer.written_bytes;
    if (st == ST_OK) st = file_writer_commit(&writer);
    if (st == ST_OK)
        s->bytes += bytes;
    else
        file_writer_abort(&writer);
    free(path);
    return st;
}

static status file_copy(const char *from, const char *to)
{
    struct file_map map;
    struct file_writer writer = {0};
    TRY(file_map_open(&map, from));
    status st = file_writer_open(&writer, to);
    if (st == ST_OK) st = file_writer_put(&writer, map.data, map.bytes);
    if (st == ST_OK) st = file_writer_commit(&writer);
    if (st != ST_OK) file_writer_abort(&writer);
    file_map_close(&map);
    return st;
}

/* Gives manifest.json its second name. If another file has the name, it is of a save that was killed here, or was put there: it is
 * replaced. */
static status newest_link(struct save *s, const char *name)
{
    char *from = file_path_join(s->path, MANIFEST_NAME), *to = file_path_join(s->path, name);
    status st = ST_OK;
    bool was_there = is_there(s->path, name);
    if (linkat(AT_FDCWD, from, AT_FDCWD, to, AT_SYMLINK_FOLLOW) == 0)
        st = directory_sync(s->path);
    else /* the name is taken, or the file system knows no links */
        st = file_copy(from, to);
    if (!was_there) s->linked_name = name;
    free(from);
    free(to);
    return st;
}

static status save_files(struct save *s, uint32_t keep)
{
    struct manifest *m = &s->manifest;
    TRY(save_file(s, m->dense.name, SAVE_DENSE, &m->dense));
    for (uint32_t t = 0; t < m->table_count; t++) TRY(save_file(s, m->tables[t].file.name, t, &m->tables[t].file));
    for (uint32_t i = 0; i < s->older.count && keep > 1; i++)
        if (s->older.items[i].is_newest) TRY(newest_link(s, s->older.items[i].name));
    return save_file(s, MANIFEST_NAME, SAVE_MANIFEST, NULL);
}

/* After a failure: removes what this save wrote, unless the directory's manifest may already be the new one (its
 * rename was done, and the directory's fsync failed). This thread's last failure stays what it was. */
static void save_undo(struct save *s)
{
    struct manifest present;
    char *message = strdup(status_message());
    bool is_old = !is_there(s->path, MANIFEST_NAME);
    if (!is_old && manifest_load(&present, s->path, MANIFEST_NAME) == ST_OK) {
        is_old = !is_named(&present, s->dense_name);
        manifest_free(&present);
    }
    if (is_old && s->linked_name != NULL) name_remove(s->path, s->linked_name);
    for (int64_t t = SAVE_DENSE; is_old && t < s->manifest.table_count; t++)
        name_remove(s->path, t == SAVE_DENSE ? s->dense_name : s->table_name[t]);
    (void)status_adopt(ST_OK, message ? message : "");
    free(message);
}

status model_save(const struct model *model, const struct model_save_options *o, uint64_t *bytes)
{
    TRY(model_dir_check(model->graph, o->path));
    struct save s = {.model = model, .path = o->path};
    status st = save_describe(&s, o);
    if (st == ST_OK) {
        st = save_files(&s, o->keep);
        if (st == ST_OK)
            leftovers_remove(o->path, &s.older, &s.manifest, o->keep);
        else
            save_undo(&s);
    }
    if (bytes != NULL) *bytes = s.bytes;
    for (uint32_t t = 0; t < model->graph->table_count; t++) store_walk_close(&s.walk[t]);
    for (uint32_t t = 0; s.table_name != NULL && t < model->graph->table_count; t++) free(s.table_name[t]);
    free(s.table_name);
    free(s.dense_name);
    manifest_free(&s.manifest);
    model_arrays_free(&s.arrays);
    older_free(&s.older);
    return st;
}

/* heterps-run fsck: whether files on disk are whole, byte for byte. For a model's directory: every save in
 * it, every file that the saves name, what else lies there, and who holds its lock; or a single file. fsck
 * writes nothing and takes no lock, so it may run while a training saves there.
 *
 *     DIR ──▶ manifests, the newest first ──▶ each: as a load verifies it
 *                                                ──damaged──▶ file by file, block by block: a line a fault
 *         ──▶ names that no manifest has: leftovers of a run that was killed, no fault */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "engine/base/heap.h"
#include "engine/base/log.h"
#include "engine/base/words.h"
#include "engine/cmd/command.h"
#include "engine/crew/setup.h"
#include "engine/model/lean.h"
#include "engine/model/model_names.h"
#include "engine/model/model_saved.h"
#include "io/store/admission.h"
#include "sched/policy.h"

#define MANIFEST_FIRST "manifest."
#define MANIFEST_LAST  ".json"

struct found {
    uint64_t file_count, bytes, save_count, whole_count, fault_count;
    char usable[FILE_PATH_BYTES]; /* PATH of the newest whole save, or "" */
};

/* --- what is told ----------------------------------------------------------------------------- */

/* A line of the report for people: a result, so it goes to standard output. */
static void line(const char *what, const char *format, ...) PRINTF_LIKE(2, 3);
static void line(const char *what, const char *format, ...)
{
    if (log_format() != LOG_TEXT) return;
    va_list arguments;
    va_start(arguments, format);
    printf("%-8s ", what);
    vprintf(format, arguments);
    putchar('\n');
    va_end(arguments);
}

/* Tells a fault: bytes [begin, end) of a file are wrong; begin == end: the file as a whole is.
 * `text` says file and place in words. */
static void fault_tell(struct found *found, const char *path, uint64_t begin, uint64_t end, const char *text)
{
    found->fault_count++;
    line("fault", "%s", text);
    log_event_begin("fault");
    log_event_text("file", path);
    if (begin < end) {
        log_event_u64("begin", begin);
        log_event_u64("end", end);
    }
    log_event_text("text", text);
    log_event_end();
}

static void fault(struct found *found, const char *path, uint64_t begin, uint64_t end, const char *format, ...)
    PRINTF_LIKE(5, 6);
static void fault(struct found *found, const char *path, uint64_t begin, uint64_t end, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    status_describe(format, arguments);
    va_end(arguments);
    fault_tell(found, path, begin, end, status_message());
}

/* --- a damaged file --------------------------------------------------------------------------- */

/* Tells damaged blocks; neighbours count as one place. */
static void blocks_tell(struct found *found, const struct row_file *rows)
{
    struct row_file_block run = {0};
    uint64_t count = row_file_block_count(rows);
    for (uint64_t i = 0; i <= count; i++) {
        struct row_file_block block = {.is_whole = true};
        if (i < count) block = row_file_block(rows, i);
        if (block.is_whole && run.end != 0) {
            fault(found, rows->path, run.begin, run.end,
                  "%s: bytes %" PRIu64 " to %" PRIu64 " (rows %" PRIu64 " to %" PRIu64 ") do not match their checksum",
                  rows->path, run.begin, run.end - 1, run.row_begin, run.row_end - 1);
            run = (struct row_file_block){0};
        } else if (!block.is_whole) {
            if (run.end == 0) run = block;
            run.end = block.end;
            run.row_end = block.row_end;
        }
    }
}

enum file_kind { FILE_DENSE, FILE_ROWS, FILE_ADMISSION };

/* Tells faults in a file's own structure: all of a file of rows, the first of any other. */
static void structure_tell(struct found *found, const char *path, const struct file_map *map, enum file_kind kind)
{
    struct row_file rows;
    struct safetensors tensors;
    if (kind == FILE_ADMISSION) {
        if (admission_file_check(path, map->data, map->bytes) != ST_OK)
            fault_tell(found, path, 0, map->bytes, status_message());
    } else if (kind == FILE_DENSE) {
        if (safetensors_open(&tensors, path, map->data, map->bytes) == ST_OK)
            safetensors_close(&tensors);
        else
            fault_tell(found, path, 0, map->bytes, status_message());
    } else if (row_file_open(&rows, path, map->data, map->bytes) == ST_OK) {
        blocks_tell(found, &rows);
    } else {
        fault_tell(found, path, 0, map->bytes < sizeof rows.header ? map->bytes : sizeof rows.header, status_message());
    }
}

/* Tells the first byte that the disk cannot read; other faults at this place follow from it. */
static void unreadable_tell(struct found *found, const char *path, const struct file_map *map)
{
    if (file_map_check(map, path) != ST_OK) fault_tell(found, path, 0, map->bytes, status_message());
}

/* Tells what is wrong with a file that a manifest names; returns whether anything is. */
static bool file_tell(struct found *found, const struct model_saved *s, const struct manifest_file *file,
                      enum file_kind kind)
{
    uint64_t before = found->fault_count;
    struct file_map map;
    char path[FILE_PATH_BYTES];
    file_path_join(path, s->directory, file->name);
    if (file_map_open(&map, path) != ST_OK) {
        fault_tell(found, path, 0, 0, status_message());
    } else {
        if (map.bytes != file->bytes) {
            uint64_t begin = map.bytes < file->bytes ? map.bytes : file->bytes,
                     end = map.bytes < file->bytes ? file->bytes : map.bytes;
            fault(found, path, begin, end,
                  "%s: %zu bytes, where %s says %" PRIu64 ": bytes %" PRIu64 " to %" PRIu64 " are %s", path, map.bytes,
                  s->manifest_path, file->bytes, begin, end - 1, map.bytes < file->bytes ? "missing" : "too many");
        } else {
            const uint64_t hash = XXH3_64bits(map.data, map.bytes);
            unreadable_tell(found, path, &map);
            structure_tell(found, path, &map, kind);
            if (found->fault_count == before && hash != file->xxh3)
                fault(found, path, 0, map.bytes, "%s: bytes 0 to %zu do not match the checksum in %s", path,
                      map.bytes - 1, s->manifest_path);
        }
        file_map_close(&map);
    }
    return found->fault_count > before;
}

/* The same for a segment: each block says whether it is as written; if all are,
 * whether they are this save's. */
static bool segment_tell(struct found *found, const struct model_saved *s, const struct manifest_table *table,
                         const struct manifest_part *part)
{
    uint64_t before = found->fault_count;
    struct manifest_table one = *table;
    struct manifest_part stretch = *part;
    struct model_rows rows;
    one.part = &stretch;
    one.part_count = 1;
    status st = model_rows_open(&rows, s->directory, &one);
    for (uint32_t b = part->block_begin; st == ST_OK && b < part->block_end; b++) {
        stretch.block_begin = b;
        stretch.block_end = b + 1;
        stretch.is_hashed = false;
        const uint64_t begin = (uint64_t)b * part->block_bytes;
        if (model_rows_part_verify(&rows, 0, s->manifest_path) != ST_OK)
            fault_tell(found, rows.part[0].path, begin, begin + part->block_bytes, status_message());
    }
    if (st != ST_OK) fault_tell(found, part->file.name, 0, 0, status_message());
    if (st == ST_OK) unreadable_tell(found, rows.part[0].path, &rows.part[0].map);
    stretch = *part;
    if (found->fault_count == before && model_rows_part_verify(&rows, 0, s->manifest_path) != ST_OK)
        fault_tell(found, rows.part[0].path, (uint64_t)part->block_begin * part->block_bytes,
                   (uint64_t)part->block_end * part->block_bytes, status_message());
    model_rows_close(&rows);
    return found->fault_count > before;
}

/* --- a save ----------------------------------------------------------------------------------- */

/* A segment that was filled between saves comes in several stretches: it is one file. */
static uint32_t files_of(const struct manifest *m)
{
    uint32_t count = 1;
    for (uint32_t t = 0; t < m->table_count; t++) {
        const struct manifest_part *part = m->tables[t].part;
        count += m->tables[t].admission.name != NULL;
        for (uint32_t i = 0; i < m->tables[t].part_count; i++) {
            uint32_t before = i;
            while (before > 0 && strcmp(part[before - 1].file.name, part[i].file.name) != 0) before--;
            count += before == 0;
        }
    }
    return count;
}

static void save_describe(const struct manifest *m, char *text, size_t bytes_max)
{
    char rows_text[27], bytes_text[16];
    uint64_t rows = 0, bytes = m->dense.bytes;
    for (uint32_t t = 0; t < m->table_count; t++) {
        rows += m->tables[t].rows;
        bytes += manifest_table_bytes(&m->tables[t]) + m->tables[t].admission.bytes;
    }
    snprintf(text, bytes_max, "step %" PRIu64 ", %s rows, %s, %s", m->progress.step, words_whole(rows_text, rows),
             words_plural(WORDS, files_of(m), "file"), words_size(bytes_text, bytes));
}

static void save_tell(const char *path, const struct manifest *m, bool is_whole)
{
    char text[128];
    if (m != NULL) save_describe(m, text, sizeof text);
    if (log_verbosity() >= 0 || !is_whole)
        line("save", "%s: %s%s%s", path, m ? text : "", m ? ": " : "",
             is_whole ? "whole" : "lost, by the faults that follow");
    log_event_begin("save");
    log_event_text("path", path);
    if (m != NULL) {
        log_event_u64("step", m->progress.step);
        log_event_u64("save", m->save);
    }
    log_event_text("state", is_whole ? "whole" : "lost");
    log_event_end();
}

/* Warns that a whole save of a version before 4 may have another save's segments in place of its own. */
static void unknown_tell(const char *path, const struct manifest *m)
{
    for (uint32_t t = 0; t < m->table_count; t++)
        for (uint32_t i = 0; i < m->tables[t].part_count; i++) {
            if (m->tables[t].part[i].number == 0 || m->tables[t].part[i].is_hashed) continue;
            line("note",
                 "%s: its version has no checksums of segments: each segment is whole, but may be of another save",
                 path);
            return;
        }
}

static void save_count(struct found *found, const struct manifest *m)
{
    found->file_count += files_of(m);
    found->bytes += m->dense.bytes;
    for (uint32_t t = 0; t < m->table_count; t++)
        found->bytes += manifest_table_bytes(&m->tables[t]) + m->tables[t].admission.bytes;
}

/* Tells the faults of a save that does not verify, file by file. `why`: what loading it says. */
static void save_damaged(struct found *found, const struct model_saved *s, const char *why)
{
    const struct manifest *m = &s->manifest;
    bool is_found = file_tell(found, s, &m->dense, FILE_DENSE);
    for (uint32_t t = 0; t < m->table_count; t++) {
        if (m->tables[t].admission.name != NULL && file_tell(found, s, &m->tables[t].admission, FILE_ADMISSION))
            is_found = true;
        for (uint32_t i = 0; i < m->tables[t].part_count; i++) {
            const struct manifest_part *part = &m->tables[t].part[i];
            bool is_damaged = part->number ? segment_tell(found, s, &m->tables[t], part)
                                           : file_tell(found, s, &part->file, FILE_ROWS);
            is_found = is_found || is_damaged;
        }
    }
    /* Each file agrees with the manifest, and the whole does not: files of another model. */
    if (!is_found) fault_tell(found, s->manifest_path, 0, 0, why);
}

static bool is_there(const char *path)
{
    struct stat ignored;
    return stat(path, &ignored) == 0;
}

/* A manifest alone, without its files. */
static status manifest_map(struct manifest *m, const char *path)
{
    struct file_map map = {0};
    *m = (struct manifest){0};
    status st = file_map_read(&map, path);
    if (st == ST_OK) st = manifest_read(m, path, map.data, map.bytes);
    file_map_close(&map);
    return st;
}

/* Tells a save that lacks a file, or whose manifest is none. */
static status save_lost(struct found *found, const char *path, const char *why)
{
    struct model_saved listed = {0};
    struct stat about;
    status st = model_dir_of(path, &listed.directory);
    if (st == ST_OK) st = heap_text(&listed.manifest_path, "%s", path);
    const bool is_read = st == ST_OK && manifest_map(&listed.manifest, path) == ST_OK;
    if (st == ST_OK) save_tell(path, is_read ? &listed.manifest : NULL, false);
    if (is_read) {
        save_count(found, &listed.manifest);
        save_damaged(found, &listed, why);
    } else if (st == ST_OK) {
        fault_tell(found, path, 0, stat(path, &about) == 0 ? (uint64_t)about.st_size : 0, why);
    }
    model_saved_close(&listed);
    return st;
}

/* Verifies the save of the manifest at a path. Ignores a save that a training has removed meanwhile. */
static status save_check(struct found *found, const char *path)
{
    struct model_saved saved;
    status st = model_saved_open(&saved, path);
    bool is_open = st == ST_OK;
    if (is_open) st = model_saved_verify(&saved);
    const bool is_gone = !is_there(path) && found->save_count > 0;
    if (is_gone || st == ST_MEMORY) {
        if (is_open) model_saved_close(&saved);
        return is_gone ? ST_OK : st;
    }
    struct failure why;
    failure_keep(&why, st);
    found->save_count++;
    if (st == ST_OK) {
        found->whole_count++;
        if (*found->usable == 0) snprintf(found->usable, sizeof found->usable, "%s", path);
        save_count(found, &saved.manifest);
        save_tell(path, &saved.manifest, true);
        unknown_tell(path, &saved.manifest);
    } else if (is_open) {
        save_count(found, &saved.manifest);
        save_tell(path, &saved.manifest, false);
        save_damaged(found, &saved, why.message);
    } else {
        return save_lost(found, path, why.message);
    }
    model_saved_close(&saved);
    return ST_OK;
}

/* --- a directory ------------------------------------------------------------------------------ */

struct save_name {
    char *name;
    struct manifest manifest;
    bool is_newest, is_read;
};
struct listing {
    struct save_name *saves;
    char **names; /* all other names */
    uint32_t save_count, name_count, unread_count;
};

static bool is_manifest(const char *name)
{
    size_t bytes = strlen(name), last = strlen(MANIFEST_LAST);
    return strncmp(name, MANIFEST_FIRST, strlen(MANIFEST_FIRST)) == 0 && bytes >= last &&
           strcmp(name + bytes - last, MANIFEST_LAST) == 0;
}

/* The save written last, manifest.json's, comes first; a manifest that cannot be read comes last. */
static int save_compare(const void *a, const void *b)
{
    const struct save_name *x = a, *y = b;
    if (x->is_newest != y->is_newest) return x->is_newest ? -1 : 1;
    if (x->is_read != y->is_read) return x->is_read ? -1 : 1;
    if (x->manifest.save != y->manifest.save) return x->manifest.save > y->manifest.save ? -1 : 1;
    if (x->manifest.progress.step != y->manifest.progress.step)
        return x->manifest.progress.step > y->manifest.progress.step ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int name_compare(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static status listing_add(struct listing *l, const char *directory, const char *name)
{
    char path[FILE_PATH_BYTES];
    if (!is_manifest(name)) {
        TRY(heap_room(&l->names, l->name_count + 1, sizeof *l->names, "names"));
        return heap_text(&l->names[l->name_count++], "%s", name);
    }
    TRY(heap_room(&l->saves, l->save_count + 1, sizeof *l->saves, "saves"));
    struct save_name *save = &l->saves[l->save_count++];
    *save = (struct save_name){.is_newest = strcmp(name, MANIFEST_NAME) == 0};
    TRY(heap_text(&save->name, "%s", name));
    save->is_read = manifest_map(&save->manifest, file_path_join(path, directory, name)) == ST_OK;
    l->unread_count += !save->is_read;
    return ST_OK;
}

static status listing_open(struct listing *l, const char *path)
{
    status st = ST_OK;
    DIR *directory = opendir(path);
    if (directory == NULL) FAIL(IO, "%s: %s", path, strerror(errno));
    for (struct dirent *entry; st == ST_OK && (entry = readdir(directory)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            st = listing_add(l, path, entry->d_name);
    closedir(directory);
    TRY(st);
    if (l->save_count) qsort(l->saves, l->save_count, sizeof *l->saves, save_compare);
    if (l->name_count) qsort(l->names, l->name_count, sizeof *l->names, name_compare);
    return ST_OK;
}

static void listing_close(struct listing *l)
{
    for (uint32_t i = 0; i < l->save_count; i++) {
        free(l->saves[i].name);
        manifest_free(&l->saves[i].manifest);
    }
    for (uint32_t i = 0; i < l->name_count; i++) free(l->names[i]);
    free(l->saves);
    free(l->names);
}

static bool is_named(const struct listing *l, const char *name)
{
    for (uint32_t i = 0; i < l->save_count; i++)
        if (l->saves[i].is_read && manifest_names(&l->saves[i].manifest, name)) return true;
    return false;
}

/* The process that holds a directory's lock; 0: none that can be seen. From the kernel's list: trying the
 * lock could make a training that starts at this moment be refused. Compares the inode alone, because the
 * list's device number is not everywhere stat(2)'s. */
static uint64_t lock_holder(const char *directory)
{
    char path[FILE_PATH_BYTES], text[256];
    struct stat lock;
    uint64_t holder = 0;
    bool is_lock = stat(file_path_join(path, directory, MODEL_LOCK_NAME), &lock) == 0 && S_ISREG(lock.st_mode);
    FILE *list = is_lock ? fopen("/proc/locks", "re") : NULL;
    while (list != NULL && holder == 0 && fgets(text, sizeof text, list) != NULL) {
        uint64_t process, file;
        if (sscanf(text, "%*u: FLOCK %*s WRITE %" SCNu64 " %*x:%*x:%" SCNu64, &process, &file) == 2 &&
            file == (uint64_t)lock.st_ino)
            holder = process;
    }
    if (list != NULL) fclose(list);
    return holder;
}

/* Counts the files that the saves name: a file that several name, as saves share rows, is one. */
static void files_count(struct found *found, const struct listing *l, const char *directory)
{
    found->file_count = found->bytes = 0;
    for (uint32_t i = 0; i < l->name_count; i++) {
        struct stat about;
        char path[FILE_PATH_BYTES];
        if (!is_named(l, l->names[i]) || stat(file_path_join(path, directory, l->names[i]), &about) != 0) continue;
        found->file_count++;
        found->bytes += (uint64_t)about.st_size;
    }
}

static void leftovers_tell(const struct listing *l, const char *directory)
{
    for (uint32_t i = 0; i < l->name_count; i++) {
        const char *name = l->names[i];
        if (strcmp(name, MODEL_LOCK_NAME) == 0 || strcmp(name, MODEL_BEST_NAME) == 0 || is_named(l, name)) continue;
        struct stat about;
        char path[FILE_PATH_BYTES], bytes_text[16];
        if (lstat(file_path_join(path, directory, name), &about) != 0) continue;
        if (log_verbosity() >= 0)
            line("leftover", "%s, %s: no manifest%s names it", path, words_size(bytes_text, (uint64_t)about.st_size),
                 l->unread_count ? " that can be read" : "");
        log_event_begin("leftover");
        log_event_text("file", path);
        log_event_u64("bytes", (uint64_t)about.st_size);
        log_event_end();
    }
}

static void lock_tell(const char *directory)
{
    uint64_t process = lock_holder(directory);
    if (process == 0) return;
    if (log_verbosity() >= 0) line("lock", "process %" PRIu64 " writes to %s", process, directory);
    log_event_begin("lock");
    log_event_text("path", directory);
    log_event_u64("process", process);
    log_event_end();
}

static status directory_check(struct found *found, const char *path);

static status best_check(struct found *found, const struct listing *l, const char *path)
{
    bool is_listed = false;
    for (uint32_t i = 0; i < l->name_count; i++) is_listed = is_listed || strcmp(l->names[i], MODEL_BEST_NAME) == 0;
    if (!is_listed) return ST_OK;
    struct found best = {0};
    char best_path[FILE_PATH_BYTES];
    status st = directory_check(&best, file_path_join(best_path, path, MODEL_BEST_NAME));
    /* `best.usable` is left out: the best model has no older save to go back to */
    found->file_count += best.file_count;
    found->bytes += best.bytes;
    found->save_count += best.save_count;
    found->whole_count += best.whole_count;
    found->fault_count += best.fault_count;
    return st;
}

static status directory_check(struct found *found, const char *path)
{
    struct listing l = {0};
    char manifest[FILE_PATH_BYTES];
    status st = listing_open(&l, path);
    bool has_newest = l.save_count > 0 && l.saves[0].is_newest;
    if (st == ST_OK && !has_newest && l.save_count > 0) {
        file_path_join(manifest, path, MANIFEST_NAME);
        fault(found, manifest, 0, 0, "%s: is missing, while there are older saves: the newest one is lost", manifest);
    }
    for (uint32_t i = 0; i < l.save_count && st == ST_OK; i++)
        st = save_check(found, file_path_join(manifest, path, l.saves[i].name));
    if (st == ST_OK) {
        files_count(found, &l, path);
        leftovers_tell(&l, path);
        lock_tell(path);
        st = best_check(found, &l, path);
    }
    listing_close(&l);
    return st;
}

/* Says how to go on. A training that resumes from an older save can save into the
 * directory if manifest.json can be read. */
static void usable_tell(const struct found *found, const char *path)
{
    struct manifest newest;
    char newest_path[FILE_PATH_BYTES];
    file_path_join(newest_path, path, MANIFEST_NAME);
    bool is_read = manifest_map(&newest, newest_path) == ST_OK, is_newest = strcmp(found->usable, newest_path) == 0;
    if (is_read) manifest_free(&newest);
    line("use", "--resume %s%s, or --model %s", is_newest ? path : found->usable, is_read ? "" : " --out ANOTHER",
         is_newest ? path : found->usable);
}

/* --- a file ----------------------------------------------------------------------------------- */

static status policy_check(const char *path)
{
    struct policy *policy = NULL;
    TRY(policy_read(&policy, path));
    policy_free(policy);
    return ST_OK;
}

static status graph_check_file(const char *path)
{
    struct graph graph;
    TRY(graph_open(&graph, path));
    status st = setup_text_check(&graph, path);
    if (st == ST_OK && lean_is(path)) st = lean_verify(&graph, path);
    graph_close(&graph);
    return st;
}

static const struct {
    const char *kind, *magic, *ending;
    bool (*is)(const char *path);      /* NULL: what has the magic, or the ending, is of this kind */
    status (*check)(const char *path); /* NULL: structure_tell */
    const char *scope;                 /* what "whole" means     */
} kinds[] = {
    {"graph and model", GRAPH_MAGIC, NULL, lean_is, graph_check_file,
     "the checksums of both, every record, key and number"},
    {"graph", GRAPH_MAGIC, NULL, NULL, graph_check_file, "its checksum and every record"},
    {"policy", "hetepols", NULL, NULL, policy_check, "its checksum and every weight"},
    {"rows", ROW_FILE_MAGIC, ".rows", NULL, NULL, "header and every block"},
    {"safetensors", NULL, ".safetensors", NULL, NULL,
     "its header; of its data there is no checksum but in the manifest of a model's directory"},
};
#define KIND_COUNT (sizeof kinds / sizeof *kinds)

static status file_check(struct found *found, const char *path)
{
    struct file_map map;
    TRY(file_map_open(&map, path));
    size_t kind = 0, bytes = strlen(path);
    for (; kind < KIND_COUNT; kind++) {
        size_t ending = kinds[kind].ending ? strlen(kinds[kind].ending) : 0;
        if (kinds[kind].is && !kinds[kind].is(path)) continue;
        if (kinds[kind].magic && map.bytes >= 8 && memcmp(map.data, kinds[kind].magic, 8) == 0) break;
        if (ending && bytes > ending && strcmp(path + bytes - ending, kinds[kind].ending) == 0) break;
    }
    if (kind == KIND_COUNT) {
        fault(found, path, 0, 8,
              "%s: bytes 0 to 7: expected the beginning of a graph or a policy, or a name that ends in .rows, "
              ".safetensors or " MANIFEST_LAST " (a model's manifest); found neither",
              path);
    } else if (kinds[kind].check == NULL) {
        structure_tell(found, path, &map, kinds[kind].magic != NULL);
        unreadable_tell(found, path, &map);
    } else if (kinds[kind].check(path) != ST_OK) {
        fault_tell(found, path, 0, map.bytes, status_message());
    }
    found->file_count++;
    found->bytes += map.bytes;
    if (found->fault_count == 0 && log_verbosity() >= 0)
        line("file", "%s: %s, whole: %s", path, kinds[kind].kind, kinds[kind].scope);
    file_map_close(&map);
    return ST_OK;
}

/* --- the verb --------------------------------------------------------------------------------- */

static bool ends_in(const char *text, const char *end)
{
    size_t bytes = strlen(text), end_bytes = strlen(end);
    return bytes >= end_bytes && strcmp(text + bytes - end_bytes, end) == 0;
}

static status check(struct found *found, const char *path, bool *is_directory)
{
    struct stat about;
    if (stat(path, &about) != 0) FAIL(IO, "%s: %s", path, strerror(errno));
    *is_directory = S_ISDIR(about.st_mode);
    if (!*is_directory && !ends_in(path, MANIFEST_LAST)) return file_check(found, path);
    if (*is_directory)
        TRY(directory_check(found, path));
    else
        TRY(save_check(found, path));
    if (found->save_count == 0 && found->fault_count == 0)
        FAIL(INVALID, "%s: expected a save, found no %s; a first save that was killed leaves nothing to use", path,
             MANIFEST_NAME);
    return ST_OK;
}

static status run(const char *const *positionals, const void *options)
{
    (void)options;
    const char *path = positionals[0];
    struct found found = {0};
    bool is_directory = false;
    status st = check(&found, path, &is_directory);
    if (st == ST_OK) {
        char text[16];
        if (found.fault_count == 0 && is_directory && log_verbosity() >= 0)
            line("whole", "%s: %s, %s, %s", path, words_plural(WORDS, found.save_count, "save"),
                 words_plural(WORDS, found.file_count, "file"), words_size(text, found.bytes));
        if (found.fault_count != 0 && is_directory && *found.usable) usable_tell(&found, path);
        log_event_begin("fsck");
        log_event_u64("saves", found.save_count);
        log_event_u64("whole", found.whole_count);
        log_event_u64("files", found.file_count);
        log_event_u64("bytes", found.bytes);
        log_event_u64("faults", found.fault_count);
        if (*found.usable) log_event_text("usable", found.usable);
        log_event_end();
    }
    if (st == ST_OK && found.fault_count != 0) {
        const char *faults = found.fault_count == 1 ? "fault" : "faults";
        if (found.save_count == 0)
            st = status_fail(ST_CORRUPT, __FILE__, __LINE__, "%s: %" PRIu64 " %s", path, found.fault_count, faults);
        else
            st = status_fail(ST_CORRUPT, __FILE__, __LINE__,
                             "%s: %" PRIu64 " %s: %" PRIu64 " of %" PRIu64 " saves can be used", path,
                             found.fault_count, faults, found.whole_count, found.save_count);
    }
    return st;
}

const struct command command_fsck = {
    .name = "fsck",
    .positionals = "PATH",
    .summary = "verify every byte of a model's directory, of a save in it, or of a file",
    .run = run,
    .help = "PATH is a model's directory, DIR/manifest.STEP.json, or a graph, with a model behind it or without,\n"
            "a policy, a .rows or .safetensors file.\n"
            "Prints a line for each save (whole, or lost) and for each fault (file, bytes, what they should be); "
            "a file that no save names\n"
            "is a leftover, and no fault. If a save is lost, the last line says which one can be used, and how. "
            "Exit status: 0 whole, 1 faults.\n"
            "Nothing is written; a training may save to the directory meanwhile."};

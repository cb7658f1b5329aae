/* What a power cut would leave of a directory: the calls that make files and names last stand before the C
 * library's, for the library as well, and note when a file is replaced or removed too early. A file lasts as
 * it was at its last fsync, a name since its directory's. The faults are:
 *
 *     a file is renamed that would be empty, or half there
 *     a .json file, which names others, comes to be while one of these would be gone, or half there a file is
 *     replaced or removed while what comes in its place would be gone, or while a .json file that has been
 *     removed, and may name it, would be there again
 *
 * Of a .segment, which is written on beside, it knows only that there has been an fsync. No call waits for a
 * disk. Include in one file of a program. */
#ifndef HETERPS_TESTS_POWER_CUT_H
#define HETERPS_TESTS_POWER_CUT_H

#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "engine/base/file.h"

#define POWER_FILES_MAX 4096u

/* As of an fsync: of a file its bytes, of a name that it is there. */
struct power_file {
    uint64_t inode, bytes, hash;
};
struct power_name {
    uint64_t directory, inode;
    char name[256];
};
static struct {
    atomic_flag is_taken;
    char root[1024]; /* what is in it is looked at; "": nothing */
    uint32_t file_count, name_count;
    struct power_file file[POWER_FILES_MAX];
    struct power_name name[POWER_FILES_MAX];
    unsigned file_syncs, directory_syncs;
    long sync_ns;     /* an fsync takes so long */
    char fault[2048]; /* the first; "": none    */
} power;

static inline void power_take(void)
{
    while (atomic_flag_test_and_set(&power.is_taken)) continue;
}
static inline void power_give(void) { atomic_flag_clear(&power.is_taken); }

static inline bool power_ends_with(const char *name, const char *end)
{
    size_t bytes = strlen(name), end_bytes = strlen(end);
    return bytes >= end_bytes && strcmp(name + bytes - end_bytes, end) == 0;
}

static inline void power_fault(const char *name, const char *what, const char *other)
{
    if (*power.fault == 0) snprintf(power.fault, sizeof power.fault, "%s %s%s", name, what, other);
}

static inline bool power_full(uint32_t count)
{
    if (count == POWER_FILES_MAX) power_fault("power_cut.h", "has no room for more files", "");
    return count == POWER_FILES_MAX;
}

/* Of the first bytes of a file that this path leads to. */
static inline uint64_t power_hash(const char *path, uint64_t bytes)
{
    char piece[16384];
    XXH3_state_t *state = XXH3_createState();
    XXH3_64bits_reset(state);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && bytes > 0) {
        ssize_t got = read(fd, piece, bytes < sizeof piece ? (size_t)bytes : sizeof piece);
        if (got <= 0) break;
        XXH3_64bits_update(state, piece, (size_t)got);
        bytes -= (uint64_t)got;
    }
    if (fd >= 0) close(fd);
    uint64_t hash = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return hash;
}

static inline struct power_file *power_file(uint64_t inode)
{
    for (uint32_t i = 0; i < power.file_count; i++)
        if (power.file[i].inode == inode) return &power.file[i];
    return NULL;
}

/* Whether the file, as it is, would be there. */
static inline bool power_lasts(const char *path)
{
    struct stat now;
    if (stat(path, &now) != 0) return false;
    const struct power_file *file = power_file(now.st_ino);
    if (file == NULL || power_ends_with(path, ".segment")) return file != NULL;
    return file->bytes == (uint64_t)now.st_size && power_hash(path, file->bytes) == file->hash;
}

static inline struct power_name *power_name(uint64_t directory, const char *name)
{
    for (uint32_t i = 0; i < power.name_count; i++)
        if (power.name[i].directory == directory && strcmp(power.name[i].name, name) == 0) return &power.name[i];
    return NULL;
}

static inline bool power_is_watched(const char *path)
{
    return *power.root && strncmp(path, power.root, strlen(power.root)) == 0;
}

/* What is not meant to last. */
static inline bool power_is_passing(const char *name) { return strstr(name, ".tmp.") || strcmp(name, "lock") == 0; }

/* Calls `look` with each name of a directory that is to last. */
static inline void power_walk(const char *path, void (*look)(uint64_t directory, const char *path, const char *name))
{
    struct stat directory;
    DIR *names = stat(path, &directory) == 0 ? opendir(path) : NULL;
    for (struct dirent *entry; names && (entry = readdir(names));) {
        char whole[FILE_PATH_BYTES];
        file_path_join(whole, path, entry->d_name);
        struct stat file;
        if (lstat(whole, &file) == 0 && S_ISREG(file.st_mode) && !power_is_passing(entry->d_name))
            look(directory.st_ino, whole, entry->d_name);
    }
    if (names) closedir(names);
}

static inline void power_name_keep(uint64_t directory, const char *path, const char *name)
{
    struct stat file;
    if (power_full(power.name_count) || stat(path, &file) != 0) return;
    struct power_name *to = &power.name[power.name_count++];
    *to = (struct power_name){.directory = directory, .inode = file.st_ino};
    snprintf(to->name, sizeof to->name, "%s", name);
}

static inline void power_directory_sync(uint64_t directory, const char *path)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < power.name_count; i++)
        if (power.name[i].directory != directory) power.name[kept++] = power.name[i];
    power.name_count = kept;
    power_walk(path, power_name_keep);
}

static inline void power_file_keep(uint64_t directory, const char *path, const char *name)
{
    struct stat file;
    (void)directory, (void)name;
    if (stat(path, &file) != 0) return;
    struct power_file *to = power_file(file.st_ino);
    if (to == NULL && power_full(power.file_count)) return;
    if (to == NULL) to = &power.file[power.file_count++];
    *to = (struct power_file){file.st_ino, (uint64_t)file.st_size, power_hash(path, (uint64_t)file.st_size)};
}

/* --- what would be missing ---------------------------------------------------------------------- */

static const char *power_what; /* is about to happen to whom */

static inline void power_name_look(uint64_t directory, const char *path, const char *name)
{
    const struct power_name *known = power_name(directory, name);
    struct stat file;
    if (stat(path, &file) == 0 && (known == NULL || known->inode != file.st_ino))
        power_fault(power_what, "before this name lasts: ", name);
}

static inline void power_bytes_look(uint64_t directory, const char *path, const char *name)
{
    (void)directory;
    if (!power_lasts(path)) power_fault(power_what, "before the bytes last of ", name);
}

/* Looks at the directory of a path that is about to change. */
static inline void power_look(const char *path, const char *what, bool whole_too, bool json_too)
{
    char directory[FILE_PATH_BYTES], name[FILE_PATH_BYTES], text[512];
    struct stat is;
    const char *slash = strrchr(path, '/');
    snprintf(directory, sizeof directory, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    snprintf(text, sizeof text, "%.255s is %s", slash ? slash + 1 : path, what);
    power_what = text;
    power_walk(directory, power_name_look);
    if (whole_too) power_walk(directory, power_bytes_look);
    for (uint32_t i = 0; json_too && i < power.name_count && stat(directory, &is) == 0; i++) {
        file_path_join(name, directory, power.name[i].name);
        if (power.name[i].directory == is.st_ino && power_ends_with(name, ".json") && access(name, F_OK) != 0)
            power_fault(text, "while this would be there again: ", power.name[i].name);
    }
}

static inline void power_removes(const char *path)
{
    const char *slash = strrchr(path, '/');
    power_take();
    if (power_is_watched(path) && !power_is_passing(slash ? slash + 1 : path) && access(path, F_OK) == 0)
        power_look(path, "removed", false, !power_ends_with(path, ".json"));
    power_give();
}

/* --- the calls ---------------------------------------------------------------------------------- */

static inline void power_path(int fd, char *path, size_t bytes)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t got = readlink(link, path, bytes - 1);
    path[got > 0 ? got : 0] = 0;
}

int fsync(int fd)
{
    char path[FILE_PATH_BYTES];
    struct stat file;
    if (fstat(fd, &file) != 0) return -1;
    power_path(fd, path, sizeof path);
    power_take();
    if (S_ISDIR(file.st_mode)) {
        power.directory_syncs++;
        power_directory_sync(file.st_ino, path);
    } else {
        power.file_syncs++;
        power_file_keep(0, path, path);
    }
    power_give();
    if (power.sync_ns) nanosleep(&(struct timespec){.tv_nsec = power.sync_ns}, NULL);
    return 0;
}
int fdatasync(int fd) { return fsync(fd); }

int rename(const char *from, const char *to)
{
    power_take();
    const bool names_others = power_ends_with(to, ".json"), is_watched = power_is_watched(to);
    if (is_watched && !power_lasts(from)) power_fault(to, "is renamed before its bytes last", "");
    if (is_watched && (names_others || access(to, F_OK) == 0)) power_look(to, "replaced", names_others, names_others);
    power_give();
    return (int)syscall(SYS_rename, from, to);
}

int unlink(const char *path)
{
    power_removes(path);
    return (int)syscall(SYS_unlink, path);
}

int unlinkat(int directory, const char *name, int flags)
{
    char in[FILE_PATH_BYTES], path[FILE_PATH_BYTES];
    power_path(directory, in, sizeof in);
    file_path_join(path, in, name);
    if (directory >= 0 && flags == 0) power_removes(path);
    return (int)syscall(SYS_unlinkat, directory, name, flags);
}

/* --- for tests ---------------------------------------------------------------------------------- */

/* From now on, of a directory and of the directories in it; what is in the directory lasts. */
static inline void power_begin(const char *directory)
{
    struct stat is;
    power_take();
    power.file_count = power.name_count = power.file_syncs = power.directory_syncs = 0;
    power.fault[0] = 0;
    snprintf(power.root, sizeof power.root, "%s", directory);
    if (stat(directory, &is) == 0) {
        power_directory_sync(is.st_ino, directory);
        power_walk(directory, power_file_keep);
    }
    power_give();
}

/* What has gone wrong since; "": nothing, and all that is in the directory lasts. */
static inline const char *power_end(const char *directory)
{
    char inside[FILE_PATH_BYTES];
    power_take();
    power_look(file_path_join(inside, directory, "all"), "over", true, true);
    power_give();
    return power.fault;
}

#endif

/* How files are packed: their first bytes, and windows of zstd. */
#include "io/read/packing.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ZSTD_STATIC_LINKING_ONLY /* frame headers */
#include <zstd.h>

#include "engine/base/paths.h"

/* First bytes of a packed file; ? is any byte. `unpack`: the program that unpacks what this one does not. */
static const struct magic {
    const char *name, *text;
    size_t bytes;
    enum packing packing;
    const char *unpack;
} magics[] = {
    {"gzip", "\x1f\x8b", 2, PACKING_GZIP, NULL},
    {"zstd", "\x28\xb5\x2f\xfd", 4, PACKING_ZSTD, NULL},
    {"zstd", "\x50\x2a\x4d\x18", 4, PACKING_ZSTD, NULL}, /* a frame to skip, with which pzstd begins */
    {"xz", "\3757zXZ\0", 6, PACKING_NONE, "xz -dc"},
    {"bzip2", "BZh?1AY&SY", 10, PACKING_NONE, "bzip2 -dc"},
    {"lz4", "\x04\x22\x4d\x18", 4, PACKING_NONE, "lz4 -dc"},
    {"zip", "PK\x03\x04", 4, PACKING_NONE, "unzip -p"},
    {"7-zip", "7z\xbc\xaf\x27\x1c", 6, PACKING_NONE, "7z x -so"},
    {"compress", "\x1f\x9d", 2, PACKING_NONE, "uncompress -c"},
};

/* The magic that the bytes begin with, or NULL; *is_cut: more bytes would tell. */
static const struct magic *magic_find(const uint8_t *bytes, size_t count, bool *is_cut)
{
    *is_cut = count == 0;
    for (size_t i = 0; i < sizeof magics / sizeof *magics; i++) {
        const struct magic *m = &magics[i];
        size_t same = 0;
        while (same < count && same < m->bytes && (m->text[same] == '?' || (uint8_t)m->text[same] == bytes[same]))
            same++;
        if (same == m->bytes) return m;
        *is_cut |= same == count;
    }
    return NULL;
}

status packing_find(const char *name, const uint8_t *bytes, size_t count, enum packing *packing, bool *is_cut)
{
    const struct magic *m = magic_find(bytes, count, is_cut);
    *packing = m ? m->packing : PACKING_NONE;
    if (m == NULL || m->unpack == NULL) return ST_OK;
    FAIL(INVALID,
         "%s is packed by %s, which is not read here, but gzip and zstd are; "
         "pack it so, or give its text to standard input, as in %s FILE | heterps-run … --data -",
         name, m->name, m->unpack);
}

/* What to plan for a file that begins so. */
static size_t zstd_window_of(const uint8_t *first, size_t bytes)
{
    ZSTD_frameHeader header;
    if (ZSTD_getFrameHeader(&header, first, bytes) != 0 || header.windowSize <= PACKING_WINDOW_BYTES)
        return PACKING_WINDOW_BYTES; /* a frame to skip has a window of 0 */
    return header.windowSize < PACKING_WINDOW_BYTES_MAX ? (size_t)header.windowSize : PACKING_WINDOW_BYTES_MAX;
}

size_t packing_zstd_window(const char *paths)
{
    char path[PATH_MAX];
    uint8_t first[ZSTD_FRAMEHEADERSIZE_MAX];
    size_t window = 0;
    const char *name;
    size_t bytes;
    while (paths_next(&paths, &name, &bytes)) {
        struct stat about;
        bool is_cut;
        const bool is_named = !path_is_address(name, bytes) && strcmp(path_copy(path, name, bytes), "-") != 0;
        if (is_named && stat(path, &about) != 0) continue; /* opening reports it */
        if (window == 0 && !(is_named && S_ISREG(about.st_mode))) window = PACKING_WINDOW_BYTES;
        if (!is_named || !S_ISREG(about.st_mode)) continue;
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t got = fd < 0 ? 0 : pread(fd, first, sizeof first, 0);
        if (fd >= 0) close(fd);
        const struct magic *m = got > 0 ? magic_find(first, (size_t)got, &is_cut) : NULL;
        if (m == NULL || m->packing != PACKING_ZSTD) continue;
        const size_t wanted = zstd_window_of(first, (size_t)got);
        if (wanted > window) window = wanted;
    }
    return window;
}

/* Reads and makes key files. */
#include "io/net/link_key.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/file.h"

static void core_deny(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_CORE, &limit) != 0) return;
    limit.rlim_cur = 0;
    (void)setrlimit(RLIMIT_CORE, &limit);
}

/* Keeps the key out of swap and cores; where the system refuses, this program is no worse than others. */
static void key_guard(struct secure_key *key)
{
    core_deny();
    (void)mlock(key, sizeof *key);
}

static status file_check(int fd, const char *name)
{
    struct stat about;
    if (fstat(fd, &about) != 0) FAIL(IO, "%s: %s", name, strerror(errno));
    if (S_ISFIFO(about.st_mode)) return ST_OK;
    if (!S_ISREG(about.st_mode))
        FAIL(INVALID, "%s: expected a key file, found %s", name, file_kind_name(about.st_mode));
    if (about.st_mode & (S_IRWXG | S_IRWXO))
        FAIL(INVALID, "%s: expected a key file that nobody but its owner may open, found mode %03o; run: chmod 600 %s",
             name, (unsigned)about.st_mode & 0777, name);
    if (about.st_uid != geteuid() && about.st_uid != 0)
        FAIL(INVALID, "%s: expected a key file of user %u or of root, found one of user %u", name, (unsigned)geteuid(),
             (unsigned)about.st_uid);
    return ST_OK;
}

static int digit_value(uint8_t c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static status text_parse(struct secure_key *key, const uint8_t *text, size_t bytes, const char *name)
{
    if (bytes == KEY_TEXT_BYTES && text[KEY_TEXT_BYTES - 1] == '\n') bytes--;
    bool is_key = bytes == KEY_TEXT_BYTES - 1;
    for (size_t i = 0; is_key && i < SECURE_KEY_BYTES; i++) {
        const int high = digit_value(text[2 * i]), low = digit_value(text[2 * i + 1]);
        is_key = high >= 0 && low >= 0;
        if (is_key) key->bytes[i] = (uint8_t)(high << 4 | low);
    }
    if (is_key) return ST_OK;
    sodium_memzero(key, sizeof *key);
    FAIL(INVALID,
         "%s: expected a key, 64 hexadecimal digits and a line's end, found something else; "
         "make one by `heterps-run key -o FILE`",
         name);
}

static status fd_read(struct secure_key *key, int fd, const char *name)
{
    uint8_t text[KEY_TEXT_BYTES + 1];
    size_t bytes = 0;
    TRY(file_check(fd, name));
    key_guard(key);
    while (bytes < sizeof text) {
        ssize_t got = read(fd, text + bytes, sizeof text - bytes);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) FAIL(IO, "%s: %s", name, strerror(errno));
        if (got == 0) break;
        bytes += (size_t)got;
    }
    status st = text_parse(key, text, bytes, name);
    sodium_memzero(text, sizeof text);
    return st;
}

status key_read(struct secure_key *key, const char *path)
{
    /* Does not wait for a pipe's other end: a pipe is no key file. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) FAIL(IO, "%s: %s", path, strerror(errno));
    struct stat about;
    status st = ST_OK;
    if (fstat(fd, &about) == 0 && S_ISFIFO(about.st_mode))
        st = status_fail(ST_INVALID, __FILE__, __LINE__, "%s: expected a key file, found a pipe", path);
    if (st == ST_OK) st = fd_read(key, fd, path);
    close(fd);
    return st;
}

status key_read_fd(struct secure_key *key, int fd)
{
    char name[32];
    snprintf(name, sizeof name, "descriptor %d", fd);
    status st = fd_read(key, fd, name);
    close(fd);
    return st;
}

/* Writes a new file, which survives a crash. */
static status file_make(const char *path, const char text[KEY_TEXT_BYTES])
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST)
        FAIL(USAGE, "%s is there already; a key is made under a new name, so that none that is in use is lost", path);
    if (fd < 0) FAIL(IO, "%s: %s", path, strerror(errno));
    bool is_written =
        fchmod(fd, 0600) == 0 && write(fd, text, KEY_TEXT_BYTES) == (ssize_t)KEY_TEXT_BYTES && fsync(fd) == 0;
    const int error = is_written ? 0 : errno;
    if (close(fd) == 0 && is_written) return ST_OK;
    (void)unlink(path);
    FAIL(IO, "%s: %s", path, strerror(error ? error : errno));
}

static status text_make(char text[KEY_TEXT_BYTES + 1])
{
    struct secure_key key;
    key_guard(&key);
    TRY(secure_start());
    randombytes_buf(key.bytes, sizeof key.bytes);
    sodium_bin2hex(text, KEY_TEXT_BYTES, key.bytes, sizeof key.bytes);
    sodium_memzero(&key, sizeof key);
    text[KEY_TEXT_BYTES - 1] = '\n';
    text[KEY_TEXT_BYTES] = 0;
    return ST_OK;
}

status key_keep_memory(int *fd, const char text[KEY_TEXT_BYTES])
{
    core_deny();
    *fd = memfd_create("key", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*fd >= 0 && fchmod(*fd, 0600) == 0 && write(*fd, text, KEY_TEXT_BYTES) == (ssize_t)KEY_TEXT_BYTES &&
        fcntl(*fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) == 0)
        return ST_OK;
    const int error = errno;
    if (*fd >= 0) close(*fd);
    FAIL(SYSTEM, "no file in memory for a key: %s", strerror(error));
}

status key_make_memory(int *fd)
{
    char text[KEY_TEXT_BYTES + 1];
    TRY(text_make(text));
    const status st = key_keep_memory(fd, text);
    sodium_memzero(text, sizeof text);
    return st;
}

status key_make(const char *path)
{
    char text[KEY_TEXT_BYTES + 1];
    TRY(text_make(text));
    status st = strcmp(path, "-") == 0 ? ST_OK : file_make(path, text);
    if (strcmp(path, "-") == 0) (void)fputs(text, stdout); /* a failure to write shows at the end */
    sodium_memzero(text, sizeof text);
    return st;
}

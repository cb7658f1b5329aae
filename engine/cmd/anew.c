/* Writes what the new process needs, and becomes the new process. */
#include "engine/cmd/anew.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/heap.h"

#define ROSTER_FLAG "--roster-fd"
#define AGAIN_FLAG  "--again"
#define SEALS       (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

/* The program that reads the file is the one that wrote it: the file never outlives the process. */
static const char magic[8] = "HPSANEW1";
struct anew_file {
    char magic[8];
    struct anew anew;
};

status anew_read(struct anew *anew, int fd)
{
    struct anew_file file;
    const ssize_t got = pread(fd, &file, sizeof file, 0);
    const int seals = fcntl(fd, F_GET_SEALS);
    close(fd);
    if (got != (ssize_t)sizeof file || memcmp(file.magic, magic, sizeof magic) != 0 || seals < 0 ||
        (seals & SEALS) != SEALS)
        FAIL(INVALID,
             "--roster-fd %d: expected the file that a node leaves when it starts itself anew, found another one", fd);
    *anew = file.anew;
    sodium_memzero(&file, sizeof file);
    return ST_OK;
}

static status anew_write(const struct anew *anew, int *fd)
{
    struct anew_file file;
    memset(&file, 0, sizeof file);
    memcpy(file.magic, magic, sizeof magic);
    file.anew = *anew;
    *fd = memfd_create("roster", MFD_ALLOW_SEALING);
    const bool is_written =
        *fd >= 0 && write(*fd, &file, sizeof file) == (ssize_t)sizeof file && fcntl(*fd, F_ADD_SEALS, SEALS) == 0;
    sodium_memzero(&file, sizeof file);
    if (!is_written) FAIL(SYSTEM, "no file in memory to start anew with: %s", strerror(errno));
    return ST_OK;
}

/* The words of this process's command line, one after another, each ended by 0. */
static status words_read(char **words, size_t *bytes)
{
    char *text = NULL;
    size_t used = 0;
    const int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    if (fd < 0) FAIL(SYSTEM, "/proc/self/cmdline: %s", strerror(errno));
    for (ssize_t got = 1; got > 0; used += (size_t)got) {
        status st = heap_room(&text, used + 4096, 1, "the command line");
        if (st == ST_OK && (got = read(fd, text + used, 4095)) < 0)
            st = status_fail(ST_SYSTEM, __FILE__, __LINE__, "/proc/self/cmdline: %s", strerror(errno));
        if (st == ST_OK) continue;
        free(text);
        close(fd);
        return st;
    }
    close(fd);
    text[used] = 0;
    *words = text;
    *bytes = used;
    return ST_OK;
}

/* The same words, without the roster of an earlier start, and with the two flags. The words stay
 * in `text`; the list is malloc'd. */
static status words_make(char *text, size_t bytes, char *roster, char ***words)
{
    size_t count = 0;
    *words = calloc(bytes + 4, sizeof **words);
    if (*words == NULL) FAIL(MEMORY, "no memory for the command line");
    bool has_again = false;
    for (char *at = text; at < text + bytes; at += strlen(at) + 1) {
        if (strncmp(at, ROSTER_FLAG "=", strlen(ROSTER_FLAG "=")) == 0) continue;
        has_again |= strcmp(at, AGAIN_FLAG) == 0;
        (*words)[count++] = at;
    }
    if (!has_again) (*words)[count++] = (char *)(uintptr_t)AGAIN_FLAG;
    (*words)[count] = roster;
    return ST_OK;
}

status anew_start(const struct anew *anew)
{
    char *text = NULL, **words, roster[64];
    size_t bytes = 0;
    int fd;
    sigset_t none;
    TRY(words_read(&text, &bytes));
    TRY(anew_write(anew, &fd));
    snprintf(roster, sizeof roster, ROSTER_FLAG "=%d", fd);
    TRY(words_make(text, bytes, roster, &words));
    /* This thread blocks all signals; the new process has to get them. */
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
    (void)alarm(0);
    execv("/proc/self/exe", words);
    const int error = errno;
    close(fd);
    free(words);
    free(text);
    FAIL(SYSTEM, "this node cannot start itself anew: %s", strerror(error));
}

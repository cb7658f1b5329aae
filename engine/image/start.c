/* Chooses between the CPU program and the image, and lets the image take over (image.h). */
#include "engine/image/image.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "gpu/gpu.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010u /* Linux 6.3 */
#endif

/* How long to wait for the driver: cards that no process keeps awake take seconds each to start. A user who
 * insists on cards waits longer. */
#define PROBE_SECONDS        10
#define PROBE_SECONDS_NEEDED 60
#define ENDING_MS            500

static const char *const devices[] = {"/dev/nvidiactl", "/dev/dxg"};
static const char *const places[] = {
    "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib",
#define GPU_PLACE(directory) directory,
#include "gpu/places.def"
#undef GPU_PLACE
};
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* --- is there anything to try ---------------------------------------------------------------------- */

static bool has_library(const char *directory, size_t directory_bytes)
{
    char path[4096];
    const int bytes = snprintf(path, sizeof path, "%.*s/libcuda.so.1", (int)directory_bytes, directory);
    return bytes > 0 && (size_t)bytes < sizeof path && access(path, F_OK) == 0;
}

/* Whether a device or a driver library is in one of the usual places. The loader may know other places, but
 * hardly on a machine without the device. */
static bool is_worth_trying(void)
{
    for (size_t i = 0; i < COUNT(devices); i++)
        if (access(devices[i], F_OK) == 0) return true;
    const char *path = getenv("LD_LIBRARY_PATH");
    while (path && *path) {
        const size_t bytes = strcspn(path, ":;");
        if (bytes > 0 && has_library(path, bytes)) return true;
        path += bytes + (path[bytes] != 0);
    }
    for (size_t i = 0; i < COUNT(places); i++)
        if (has_library(places[i], strlen(places[i]))) return true;
    return false;
}

/* --- the image as a file --------------------------------------------------------------------------- */

static status image_file(int *fd)
{
    int file = memfd_create("heterps-run", MFD_CLOEXEC | MFD_EXEC);
    if (file < 0 && errno == EINVAL) file = memfd_create("heterps-run", MFD_CLOEXEC); /* older kernels */
    if (file < 0) FAIL(SYSTEM, "no file in memory for the CUDA side: memfd_create: %s", strerror(errno));
    for (const uint8_t *at = image.begin; at < image.end;) {
        const ssize_t written = write(file, at, (size_t)(image.end - at));
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) {
            const int error = written < 0 ? errno : ENOSPC;
            close(file);
            FAIL(SYSTEM, "no memory for the CUDA side (%zu bytes): %s", (size_t)(image.end - image.begin),
                 strerror(error));
        }
        at += written;
    }
    *fd = file;
    return ST_OK;
}

/* Returns only if it fails. */
static void image_become(int fd, char **arguments) { fexecve(fd, arguments, environ); }

/* --- the probe ------------------------------------------------------------------------------------- */

/* In the child, which must not write to the user's terminal, outlive the parent, or leave a core file. */
_Noreturn static void probe_run(int fd, int told, pid_t parent)
{
    char *const arguments[] = {"heterps-run", IMAGE_PROBE_FLAG, NULL};
    const struct rlimit no_core = {0, 0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    (void)setrlimit(RLIMIT_CORE, &no_core);
    const int none = open("/dev/null", O_RDONLY);
    if (none >= 0) dup2(none, STDIN_FILENO);
    dup2(told, STDOUT_FILENO);
    dup2(told, STDERR_FILENO);
    if (none > STDERR_FILENO) close(none);
    fexecve(fd, arguments, environ);
    const int error = errno;
    dprintf(STDOUT_FILENO, "it cannot be run: %s%s\n", strerror(error),
            error == ENOENT ? " (no dynamic loader, /lib64/ld-linux-x86-64.so.2)" : "");
    _exit(1);
}

/* Cuts what the child said to its first line, for a sentence. */
static void tidy(char *text, size_t bytes)
{
    text[bytes] = 0;
    text[strcspn(text, "\n")] = 0;
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f) *p = '?';
}

/* Reads what the child says until it ends; false: the deadline came first. */
static bool probe_listen(int told, char *text, size_t text_bytes, uint64_t deadline_ns)
{
    size_t bytes = 0;
    char rest[256];
    for (bool is_open = true; is_open;) {
        const uint64_t now = clock_ns();
        if (now >= deadline_ns) break;
        struct pollfd wait = {told, POLLIN, 0};
        const int ready = poll(&wait, 1, (int)((deadline_ns - now) / 1000000 + 1));
        if (ready <= 0) continue; /* a signal, or the deadline */
        const bool is_room = bytes + 1 < text_bytes;
        const ssize_t got = is_room ? read(told, text + bytes, text_bytes - 1 - bytes) : read(told, rest, sizeof rest);
        if (got == 0 || (got < 0 && errno != EINTR)) is_open = false;
        if (got > 0 && is_room) bytes += (size_t)got;
    }
    tidy(text, bytes);
    return clock_ns() < deadline_ns;
}

/* Waits until the deadline at most, as a process that hangs within the driver may ignore even SIGKILL. */
static bool probe_ended(pid_t child, int *how, uint64_t deadline_ns)
{
    const struct timespec moment = {0, 1000000};
    for (;;) {
        const pid_t ended = waitpid(child, how, WNOHANG);
        if (ended == child) return true;
        if (clock_ns() >= deadline_ns) return false;
        nanosleep(&moment, NULL);
    }
}

static status probe(int fd, int seconds)
{
    int ends[2], how = 0;
    char text[512];
    const pid_t self = getpid();
    struct sigaction ours = {.sa_handler = SIG_DFL}, theirs; /* if it were ignored, no exit status would come */
    if (pipe2(ends, O_CLOEXEC) != 0) FAIL(SYSTEM, "no pipe to the probe of the CUDA side: %s", strerror(errno));
    const uint64_t deadline_ns = clock_ns() + (uint64_t)seconds * UINT64_C(1000000000);
    sigaction(SIGCHLD, &ours, &theirs);
    const pid_t child = fork();
    if (child == 0) probe_run(fd, ends[1], self);
    const int error = errno;
    close(ends[1]);
    if (child < 0) {
        close(ends[0]);
        sigaction(SIGCHLD, &theirs, NULL);
        FAIL(SYSTEM, "no process to probe the CUDA side: fork: %s", strerror(error));
    }
    const bool is_over = probe_listen(ends[0], text, sizeof text, deadline_ns) && probe_ended(child, &how, deadline_ns);
    close(ends[0]);
    if (!is_over) {
        kill(child, SIGKILL);
        (void)probe_ended(child, &how, clock_ns() + ENDING_MS * UINT64_C(1000000));
    }
    sigaction(SIGCHLD, &theirs, NULL);
    if (!is_over) FAIL(SYSTEM, "the driver does not answer within %d s: does `nvidia-smi`?", seconds);
    if (WIFSIGNALED(how))
        FAIL(SYSTEM, "the driver crashes when it is started (%s)%s%s", strsignal(WTERMSIG(how)), *text ? ": " : "",
             text);
    if (WEXITSTATUS(how) != 0) FAIL(SYSTEM, "%s", *text ? text : "the probe of the CUDA side failed without a word");
    return ST_OK;
}

/* --- the choice ------------------------------------------------------------------------------------ */

/* Returns only if the image cannot take over; the failure says why. */
static status take_over(char **arguments, bool is_needed)
{
    int fd = -1;
    if (!is_worth_trying())
        FAIL(SYSTEM,
             "no driver of a card: neither %s nor %s is there, "
             "nor libcuda.so.1 in LD_LIBRARY_PATH and the usual directories",
             devices[0], devices[1]);
    TRY(image_file(&fd));
    const status st = probe(fd, is_needed ? PROBE_SECONDS_NEEDED : PROBE_SECONDS);
    if (st == ST_OK) image_become(fd, arguments);
    const int error = errno;
    close(fd);
    if (st != ST_OK) return st;
    FAIL(SYSTEM, "the probe of the CUDA side has succeeded, but it cannot be run: %s", strerror(error));
}

/* -1: another word */
static int choice_of(const char *word)
{
    static const char *const words[] = {"off", "auto", "on"};
    for (int i = 0; i < (int)COUNT(words); i++)
        if (strcmp(word, words[i]) == 0) return i;
    return -1;
}

status image_start(const char *choice, char **arguments)
{
    const char *why, *asked = choice ? choice : getenv(IMAGE_CHOICE_DEFAULT);
    if (asked == NULL || (choice == NULL && *asked == 0)) asked = "auto";
    const int chosen = choice_of(asked);
    const char *where = choice ? "--gpu" : IMAGE_CHOICE_DEFAULT;
    if (chosen < 0) FAIL(USAGE, "%s: expected off, auto or on, found \"%s\"", where, asked);
    const bool is_needed = chosen == choice_of("on");
    if (image.kind == IMAGE_SELF) prctl(PR_SET_NAME, "heterps-run"); /* else a descriptor's number */
    if (chosen == choice_of("off")) {
        char off[64];
        snprintf(off, sizeof off, "%s is off", where);
        gpu_deny(off);
    } else if (image.kind == IMAGE_CARRIED) {
        if (take_over(arguments, is_needed) != ST_OK && !is_needed) log_detail("no cards: %s", status_message());
        gpu_deny(status_message());
    }
    /* The image has taken over because a child has found a card. It opens the driver only when it has to:
     * after opening it a process cannot fork children that use cards. */
    if (is_needed && image.kind != IMAGE_SELF && gpu_count(&why) == 0)
        FAIL(SYSTEM, "%s on: there is no card: %s; without a card: --gpu off", where, why);
    return ST_OK;
}

int image_probe(void)
{
    const char *why;
    if (gpu_count(&why) > 0) return 0;
    printf("%s\n", why);
    return fflush(stdout) == 0 ? 1 : 2;
}

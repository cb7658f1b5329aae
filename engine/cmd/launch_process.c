/* What every process of `launch` needs, local or on a host: its words, its cores, what is set between fork
 * and exec, and its streams, whose lines are passed on. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/cmd/launch.h"

#define WORDS_OWN  8u  /* added to the command                  */
#define WORD_BYTES 48u /* of an added word */

/* --- what they say ------------------------------------------------------------------------------- */

static void line_write(struct launch_stream *s, uint32_t rank, uint32_t bytes)
{
    char name[16];
    /* A line of JSON names its node itself. */
    const int named = s->is_named && *s->line != '{' ? snprintf(name, sizeof name, "[%u] ", rank) : 0;
    char whole[LAUNCH_LINE_BYTES + sizeof name + 1];
    memcpy(whole, name, (size_t)named);
    memcpy(whole + named, s->line, bytes);
    uint32_t said = bytes;
    while (said > 0 && (s->line[said - 1] == '\n' || s->line[said - 1] == '\r')) said--;
    snprintf(s->last, sizeof s->last, "%.*s", (int)said, s->line);
    /* If nobody reads, the training goes on; that results are lost is said at the end (log_results_check). */
    log_pass(s->to, whole, (size_t)named + bytes);
}

/* Passes on whole lines; a line longer than the room, in pieces. */
static void lines_pass(struct launch_stream *s, uint32_t rank, bool is_end)
{
    for (;;) {
        const char *stop = memchr(s->line, '\n', s->used);
        uint32_t bytes = stop ? (uint32_t)(stop - s->line) + 1 : s->used == LAUNCH_LINE_BYTES || is_end ? s->used : 0;
        if (bytes == 0) return;
        line_write(s, rank, bytes);
        s->used -= bytes;
        memmove(s->line, s->line + bytes, s->used);
    }
}

void launch_stream_read(struct launch_stream *s, uint32_t rank)
{
    while (s->from >= 0) {
        const ssize_t got = read(s->from, s->line + s->used, LAUNCH_LINE_BYTES - s->used);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == EAGAIN) return;
        if (got > 0) s->used += (uint32_t)got;
        lines_pass(s, rank, got <= 0);
        if (got > 0) continue;
        close(s->from);
        s->from = -1;
    }
}

void launch_stream_begin(struct launch_stream *s, int from, int to, bool is_named)
{
    *s = (struct launch_stream){.from = from, .to = to, .is_named = is_named};
    (void)fcntl(from, F_SETFL, O_NONBLOCK);
}

/* --- what they are started with ------------------------------------------------------------------ */

const char *launch_flag(const struct command_rest *rest, const char *flag)
{
    const size_t bytes = strlen(flag);
    for (uint32_t i = 0; i < rest->count; i++) {
        if (strncmp(rest->words[i], flag, bytes) != 0) continue;
        if (rest->words[i][bytes] == '=') return rest->words[i] + bytes + 1;
        if (rest->words[i][bytes] == 0) return i + 1 < rest->count ? rest->words[i + 1] : "";
    }
    return NULL;
}

char **launch_words(const struct launch *l, uint32_t rank, bool is_again, uint32_t *count)
{
    const struct command_rest *rest = &l->rest;
    const size_t words_bytes = (rest->count + WORDS_OWN + 2) * sizeof(char *);
    char **words = calloc(1, words_bytes + WORD_BYTES), *own = (char *)words + words_bytes;
    uint32_t n = 0;
    if (words == NULL) return NULL;
    words[n++] = (char *)(uintptr_t) "heterps-run";
    for (uint32_t i = 0; i < rest->count; i++) words[n++] = rest->words[i];
    for (uint32_t i = 0; i < 2; i++)
        if (l->place[i]) words[n++] = l->place[i];
    snprintf(own, WORD_BYTES, "--rank=%u", rank);
    words[n++] = own;
    if (log_format() == LOG_JSON && !launch_flag(rest, "--log")) words[n++] = (char *)(uintptr_t) "--log=json";
    if (is_again && !launch_flag(rest, "--again")) words[n++] = (char *)(uintptr_t) "--again";
    *count = n;
    return words;
}

void launch_cores_set(const struct cores *cores, uint32_t index, uint32_t n)
{
    const uint32_t count = cores->count, begin = count >= n ? (uint32_t)((uint64_t)count * index / n) : index % count,
                   end = count >= n ? (uint32_t)((uint64_t)count * (index + 1) / n) : begin + 1;
    cores_pin(cores->processor + begin, end - begin);
}

void launch_child_begin(pid_t parent, int input, int output, int error)
{
    sigset_t none;
    if (input < 0) input = open("/dev/null", O_RDONLY);
    if (input < 0) _exit(1);
    (void)dup2(input, STDIN_FILENO);
    if (input > STDERR_FILENO) close(input);
    if (output >= 0) (void)dup2(output, STDOUT_FILENO);
    if (error >= 0) (void)dup2(error, STDERR_FILENO);
    (void)setpgid(0, 0); /* a terminal's Ctrl-C goes to the launcher, which passes it on once */
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (getppid() != parent) _exit(1);
}

_Noreturn void launch_node_become(char **words, uint32_t count, int key_fd, int listen_fd)
{
    char path[32], key_word[WORD_BYTES], listen_word[WORD_BYTES];
    snprintf(path, sizeof path, "/proc/self/fd/%d", key_fd);
    const int key = open(path, O_RDONLY); /* with a position of its own in the key's file */
    if (key < 0 || (listen_fd >= 0 && fcntl(listen_fd, F_SETFD, 0) != 0)) _exit(1);
    snprintf(key_word, sizeof key_word, "--key-fd=%d", key);
    snprintf(listen_word, sizeof listen_word, "--listen-fd=%d", listen_fd);
    words[count++] = key_word;
    if (listen_fd >= 0) words[count++] = listen_word;
    words[count] = NULL;
    execv("/proc/self/exe", words);
    dprintf(STDERR_FILENO, "heterps-run: error: cannot start a node: %s\n", strerror(errno));
    _exit(1);
}

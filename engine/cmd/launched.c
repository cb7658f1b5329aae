/* The far end of `launch --hosts`: heterps-run --launched, which ssh starts on a host. Standard input brings
 * the order; its end, for any reason, ends the node. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/cmd/launch.h"
#include "engine/run/session.h"

#define NO_ORDER "standard input: expected an order of `launch`, which starts this by itself"

static bool input_take(void *to, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        const ssize_t got = read(STDIN_FILENO, (char *)to + at, bytes - at);
        if (got == 0 || (got < 0 && errno != EINTR)) return false;
        if (got > 0) at += (size_t)got;
    }
    return true;
}

/* Finds the words in the order's text; NULL after them, and room for two more. False: the
 * text has another number of words. */
static bool words_find(const struct launch_order *o, char *text, char **words)
{
    char *at = text, *end = text + o->text_bytes;
    if (o->text_bytes == 0 || end[-1] != 0) return false;
    at += strlen(at) + 1; /* the directory */
    for (uint32_t i = 0; i < o->word_count; i++) {
        if (at == end) return false;
        words[i] = at;
        at += strlen(at) + 1;
    }
    return at == end && o->share < o->share_count;
}

static status node_start(const struct launch_order *o, const char *directory, char **words, int key_fd, pid_t *pid)
{
    struct cores cores;
    if (chdir(directory) != 0)
        FAIL(USAGE,
             "%s: %s: every host needs the directory in which launch is started, "
             "with the graph and the data by the same paths",
             directory, strerror(errno));
    cores_allowed(&cores);
    const pid_t self = getpid();
    *pid = fork();
    if (*pid < 0) FAIL(SYSTEM, "cannot start a node: fork: %s", strerror(errno));
    if (*pid > 0) return ST_OK;
    launch_child_begin(self, -1, -1, -1);
    launch_cores_set(&cores, o->share, o->share_count);
    launch_node_become(words, o->word_count, key_fd, -1);
}

static volatile sig_atomic_t is_signalled;
static void on_signal(int number)
{
    (void)number;
    is_signalled = 1;
}

/* Waits until the node has ended; passes on what standard input, or a signal to this process, says about
 * stopping. Returns waitpid's status. */
static int node_await(pid_t pid)
{
    uint64_t end_ns = 0;  /* when the node is killed; 0: never */
    bool is_told = false; /* the node was told to stop */
    int how;
    while (waitpid(pid, &how, WNOHANG) != pid) {
        if (is_signalled && !is_told) {
            is_told = true;
            (void)kill(pid, SIGTERM);
        }
        struct pollfd input = {.fd = end_ns ? -1 : STDIN_FILENO, .events = POLLIN};
        char byte = LAUNCHED_STOP;
        if (end_ns && clock_ns() >= end_ns) (void)kill(pid, SIGKILL);
        if (poll(&input, 1, LAUNCH_LOOK_MS) <= 0) continue;
        const bool is_end = read(STDIN_FILENO, &byte, 1) <= 0;
        if (is_end) end_ns = clock_ns() + SESSION_STOP_NS;
        if (is_end && is_told) continue; /* a second signal would end it at once */
        is_told |= byte == LAUNCHED_STOP;
        if (byte == LAUNCHED_STOP || byte == LAUNCHED_KILL) (void)kill(pid, byte == LAUNCHED_STOP ? SIGTERM : SIGKILL);
    }
    return how;
}

/* Runs an order whose text has been read. */
static status order_run(struct launch_order *o, char *text, int *how)
{
    int key_fd;
    pid_t pid;
    char **words = calloc(o->word_count + 4, sizeof *words);
    if (words == NULL) FAIL(MEMORY, "no memory for the words of a node");
    status st = words_find(o, text, words) ? key_keep_memory(&key_fd, o->key)
                                           : status_fail(ST_INVALID, __FILE__, __LINE__, NO_ORDER);
    sodium_memzero(o->key, sizeof o->key);
    if (st == ST_OK) {
        st = node_start(o, text, words, key_fd, &pid);
        close(key_fd);
    }
    free(words);
    if (st == ST_OK) *how = node_await(pid);
    return st;
}

int launched_run(void)
{
    struct launch_order order;
    int how = 0;
    if (!input_take(&order, sizeof order)) return 1; /* the launcher is gone */
    if (memcmp(order.magic, LAUNCH_ORDER_MAGIC, sizeof order.magic) != 0 || order.text_bytes > LAUNCH_ORDER_BYTES_MAX ||
        order.word_count > order.text_bytes) {
        log_error(NO_ORDER);
        return 2;
    }
    const int signals[] = {SIGTERM, SIGINT, SIGHUP};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        (void)sigaction(signals[i], &(struct sigaction){.sa_handler = on_signal}, NULL);
    char *text = malloc(order.text_bytes + 1);
    status st = ST_PEER_LOST;
    if (text && input_take(text, order.text_bytes)) {
        st = order_run(&order, text, &how);
        if (st != ST_OK) log_error("%s", status_message());
    }
    free(text);
    if (st != ST_OK) return status_exit(st);
    return WIFSIGNALED(how) ? LAUNCH_SIGNAL_STATUS + WTERMSIG(how) : WEXITSTATUS(how);
}

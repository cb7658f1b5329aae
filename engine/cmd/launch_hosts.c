/* `launch --hosts A,B,…`: starts a process on each host by an ssh that stays. Standard input of the ssh
 * carries the order, and later says when to end; its end ends the node. No word of the user goes through the
 * host's shell, and the key goes through this input alone.
 *
 *     launch ──order, T, K──▶ ssh ──▶ sshd ──▶ heterps-run --launched ──fork, exec──▶ node        (launched.c) */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/heap.h"
#include "engine/base/log.h"
#include "engine/cmd/launch.h"
#include "engine/node/place.h"

#define SSH_WORDS_MAX     32u
#define SSH_COMMAND_BYTES 4096u
#define SHELL_NOT_RUN     126 /* a shell's status: the command cannot be run; 127: it is not there */
#define SHELL_NOT_HERE    127

/* --- ssh ----------------------------------------------------------------------------------------- */

/* The words of the command line, NULL after them. */
struct ssh {
    char *word[SSH_WORDS_MAX];
    char port[8], host[2 * HOST_BYTES], command[SSH_COMMAND_BYTES];
};
static void ssh_words(struct ssh *ssh, const struct launch *l, uint32_t rank, const char *command)
{
    /* ssh asks nothing on a terminal, forwards nothing, shares no connection, and notices a dead one. For
     * host keys ssh's own files hold. */
    static const char *const always[] = {"-T",
                                         "-x",
                                         "-a",
                                         "-oBatchMode=yes",
                                         "-oClearAllForwardings=yes",
                                         "-oControlMaster=no",
                                         "-oControlPath=none",
                                         "-oRemoteCommand=none",
                                         "-oConnectTimeout=20",
                                         "-oServerAliveInterval=10",
                                         "-oServerAliveCountMax=3"};
    const struct host *h = &l->hosts.host[rank];
    uint32_t n = 0;
    ssh->word[n++] = (char *)(uintptr_t) "ssh";
    for (size_t i = 0; i < sizeof always / sizeof *always; i++) ssh->word[n++] = (char *)(uintptr_t)always[i];
    if (l->ssh_config) {
        ssh->word[n++] = (char *)(uintptr_t) "-F";
        ssh->word[n++] = (char *)(uintptr_t)l->ssh_config;
    }
    if (h->port) {
        snprintf(ssh->port, sizeof ssh->port, "%u", h->port);
        ssh->word[n++] = (char *)(uintptr_t) "-p";
        ssh->word[n++] = ssh->port;
    }
    snprintf(ssh->host, sizeof ssh->host, "%s%s%s", h->user, *h->user ? "@" : "", h->name);
    /* The same shell for the command, whatever the user's login shell is. */
    snprintf(ssh->command, sizeof ssh->command, "exec sh -c '%s'", command);
    ssh->word[n++] = (char *)(uintptr_t) "--";
    ssh->word[n++] = ssh->host;
    ssh->word[n++] = ssh->command;
    ssh->word[n] = NULL;
    CHECK(n < SSH_WORDS_MAX && strchr(command, '\'') == NULL);
}

_Noreturn void launch_ssh_become(const struct launch *l, uint32_t rank, const char *command)
{
    struct ssh ssh;
    ssh_words(&ssh, l, rank, command);
    execvp(ssh.word[0], ssh.word);
    dprintf(STDERR_FILENO, "heterps-run: error: cannot start ssh: %s\n", strerror(errno));
    _exit(1);
}

void launch_ssh_text(const struct launch *l, uint32_t rank, char *text, size_t bytes)
{
    const struct host *h = &l->hosts.host[rank];
    char port[16] = "";
    if (h->port) snprintf(port, sizeof port, "-p %u ", h->port);
    snprintf(text, bytes, "ssh %s%s%s%s-- %s%s%s true", l->ssh_config ? "-F " : "", l->ssh_config ? l->ssh_config : "",
             l->ssh_config ? " " : "", port, h->user, *h->user ? "@" : "", h->name);
}

/* --- before -------------------------------------------------------------------------------------- */

static bool is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0 || strcmp(address, "localhost") == 0;
}

/* Where node 0 listens: at the address by which ssh has reached its host, which other hosts most
 * likely reach, too, whatever name ssh uses. If this is a loopback address and other nodes are
 * elsewhere: at the host's name. */
static status coordinator_find(struct launch *l)
{
    const char *address = l->reached[0];
    bool is_spread = false;
    if (launch_flag(&l->rest, "--coordinator")) return ST_OK;
    for (uint32_t r = 1; r < l->count; r++) is_spread |= !is_loopback(l->reached[r]);
    if (*address == 0 || (is_loopback(address) && is_spread)) address = l->hosts.host[0].name;
    if (is_loopback(address) && is_spread)
        FAIL(USAGE,
             "--hosts: the others do not reach the first host at %s: give the name that they know it by, "
             "or, behind --, --coordinator ADDRESS:PORT",
             address);
    return heap_text(&l->place[1], strchr(address, ':') ? "--coordinator=[%s]:%u" : "--coordinator=%s:%u", address,
                     NODE_PORT);
}

static status hosts_begin(struct launch *l)
{
    TRY(launch_carry(l));
    TRY(coordinator_find(l));
    TRY(heap_text(&l->place[0], "--nodes=%u", l->count));
    log_info("launch   %u nodes by ssh; node 0 on %s listens at %s", l->count, l->hosts.host[0].name,
             l->place[1] ? l->place[1] + strlen("--coordinator=") : launch_flag(&l->rest, "--coordinator"));
    return ST_OK;
}

/* --- a node -------------------------------------------------------------------------------------- */

static bool is_same_host(const struct host *a, const struct host *b)
{
    return strcmp(a->user, b->user) == 0 && strcmp(a->name, b->name) == 0 && a->port == b->port;
}

/* Makes the far end's order, with the key; `order` has LAUNCH_ORDER_BYTES_MAX bytes. */
static status order_make(const struct launch *l, uint32_t rank, bool is_again, char *order, size_t *bytes)
{
    struct launch_order *o = (void *)order;
    char *at = order + sizeof *o, *end = order + LAUNCH_ORDER_BYTES_MAX;
    memset(o, 0, sizeof *o);
    memcpy(o->magic, LAUNCH_ORDER_MAGIC, sizeof o->magic);
    for (uint32_t r = 0; r < l->count; r++) {
        const bool is_there = is_same_host(&l->hosts.host[r], &l->hosts.host[rank]);
        o->share_count += is_there;
        o->share += is_there && r < rank;
    }
    if (getcwd(at, (size_t)(end - at)) == NULL) FAIL(SYSTEM, "the working directory: %s", strerror(errno));
    at += strlen(at) + 1;
    char **words = launch_words(l, rank, is_again, &o->word_count);
    if (words == NULL) FAIL(MEMORY, "no memory for the words of a node");
    bool fits = true;
    for (uint32_t i = 0; i < o->word_count && fits; i++) {
        const size_t word_bytes = strlen(words[i]) + 1;
        fits = word_bytes <= (size_t)(end - at);
        if (fits) at = (char *)memcpy(at, words[i], word_bytes) + word_bytes;
    }
    free(words);
    if (!fits) FAIL(USAGE, "the command to launch is longer than the %u bytes that go by ssh", LAUNCH_ORDER_BYTES_MAX);
    o->text_bytes = (uint32_t)(at - order - (ptrdiff_t)sizeof *o);
    *bytes = (size_t)(at - order);
    if (pread(l->key_fd, o->key, sizeof o->key, 0) == (ssize_t)sizeof o->key) return ST_OK;
    FAIL(SYSTEM, "the key in memory cannot be read");
}

static status hosts_prepare(struct launch *l, uint32_t rank, bool is_again, int *input)
{
    struct launch_process *p = &l->process[rank];
    static _Alignas(16) char order[LAUNCH_ORDER_BYTES_MAX];
    size_t bytes = 0;
    int ends[2];
    if (p->order_fd >= 0) close(p->order_fd);
    p->order_fd = -1;
    status st = order_make(l, rank, is_again, order, &bytes);
    if (st == ST_OK && pipe2(ends, O_CLOEXEC) != 0)
        st = status_fail(ST_SYSTEM, __FILE__, __LINE__, "a pipe to node %u: %s", rank, strerror(errno));
    if (st == ST_OK) {
        *input = ends[0];
        p->order_fd = ends[1];
        (void)fcntl(p->order_fd, F_SETFL, O_NONBLOCK);
        if (write(p->order_fd, order, bytes) != (ssize_t)bytes)
            st = status_fail(ST_SYSTEM, __FILE__, __LINE__, "a pipe to node %u does not take %zu bytes at once", rank,
                             bytes);
        if (st != ST_OK) close(*input);
    }
    sodium_memzero(order, sizeof order);
    return st;
}

static void hosts_become(struct launch *l, uint32_t rank, bool is_again)
{
    char command[256];
    (void)is_again;
    snprintf(command, sizeof command, "exec \"" LAUNCH_FOLDER "/run-%s\" " LAUNCHED_FLAG, l->program);
    launch_ssh_become(l, rank, command);
}

static void hosts_tell(struct launch *l, uint32_t rank, int number)
{
    const char byte = number == SIGKILL ? LAUNCHED_KILL : LAUNCHED_STOP;
    (void)!write(l->process[rank].order_fd, &byte, 1); /* fails if the process has ended meanwhile */
}

static enum launch_end hosts_ended(struct launch *l, uint32_t rank, int how, char *text)
{
    const struct launch_process *p = &l->process[rank];
    const int code = WIFEXITED(how) ? WEXITSTATUS(how) : LAUNCH_SSH_FAILED;
    snprintf(text, LAUNCH_HOW_BYTES, "with exit status %d", code);
    const bool says_why = WIFEXITED(how) && *p->error.last;
    if (code == LAUNCH_SSH_FAILED)
        snprintf(text, LAUNCH_HOW_BYTES, "ssh: %.80s", says_why ? p->error.last : "the connection is lost");
    if (code == LAUNCH_SSH_FAILED) return LAUNCH_UNREACHED;
    if (code == SHELL_NOT_RUN || code == SHELL_NOT_HERE)
        snprintf(text, LAUNCH_HOW_BYTES, "the program cannot be run there");
    const int by = code - LAUNCH_SIGNAL_STATUS;
    const bool is_killed =
        code > LAUNCH_SIGNAL_STATUS && by != SIGPIPE; /* 141 is the node's own status: nobody reads its output */
    if (is_killed) snprintf(text, LAUNCH_HOW_BYTES, "by signal %d", by);
    return code == 0 ? LAUNCH_WELL : is_killed || code == MEMBER_EXIT_AGAIN ? LAUNCH_AGAIN : LAUNCH_FAILED;
}

static void hosts_name(const struct launch *l, uint32_t rank, char *text)
{
    snprintf(text, LAUNCH_NAME_BYTES, "node %u on %s", rank, l->hosts.host[rank].name);
}

const struct launch_way launch_way_hosts = {.begin = hosts_begin,
                                            .prepare = hosts_prepare,
                                            .become = hosts_become,
                                            .tell = hosts_tell,
                                            .ended = hosts_ended,
                                            .name = hosts_name};

/* `launch --local N`: processes of this machine. Listens for each of them, so that no other program takes its
 * port, and shares the cores out. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/cmd/launch.h"
#include "io/net/address.h"

#define BACKLOG 128 /* connections that wait to be accepted */

/* Opens a socket that listens on loopback at a free port. A node that ends shuts the socket down; the socket
 * then keeps its port only if the kernel did not choose it. So the kernel chooses a port for a first socket,
 * and this one is bound to it while the first one is open. */
static status socket_open(int *out, struct address *here)
{
    const int yes = 1;
    socklen_t size = sizeof *here;
    TRY(address_parse(here, "127.0.0.1:0", 0));
    const int first = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
              fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool is_open = first >= 0 && fd >= 0 && setsockopt(first, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
                         setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
                         bind(first, &here->any, address_bytes(here)) == 0 &&
                         getsockname(first, &here->any, &size) == 0 && bind(fd, &here->any, address_bytes(here)) == 0 &&
                         listen(fd, BACKLOG) == 0;
    const int error = errno;
    if (first >= 0) close(first);
    *out = fd;
    if (is_open) return ST_OK;
    FAIL(SYSTEM, "listening on 127.0.0.1: %s", strerror(error));
}

static status sockets_open(struct launch *l)
{
    size_t bytes;
    FILE *out = open_memstream(&l->place[0], &bytes);
    if (out == NULL) FAIL(MEMORY, "no memory for the places of nodes");
    fputs("--nodes=", out);
    status st = ST_OK;
    for (uint32_t r = 0; r < l->count && st == ST_OK; r++) {
        struct address here;
        char text[ADDRESS_TEXT_BYTES];
        st = socket_open(&l->process[r].listen_fd, &here);
        if (st == ST_OK) fprintf(out, "%s%s", r ? "," : "", address_text(text, &here));
    }
    if (fclose(out) != 0 && st == ST_OK)
        st = status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory for the places of nodes");
    return st;
}

static status local_begin(struct launch *l)
{
    TRY(sockets_open(l));
    log_info("launch   %u node%s on %u core%s of this machine%s", l->count, l->count == 1 ? "" : "s", l->cores.count,
             l->cores.count == 1 ? "" : "s",
             l->count > l->cores.count ? ", which they share: several have the same one" : "");
    return ST_OK;
}

static status local_prepare(struct launch *l, uint32_t rank, bool is_again, int *input)
{
    *input = -1;
    if (rank == 0 && !is_again) *input = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    /* A node that has ended has shut the socket down; the socket keeps its port. */
    if (listen(l->process[rank].listen_fd, BACKLOG) == 0) return ST_OK;
    FAIL(SYSTEM, "listening for node %u: %s", rank, strerror(errno));
}

static void local_become(struct launch *l, uint32_t rank, bool is_again)
{
    uint32_t count;
    char **words = launch_words(l, rank, is_again, &count);
    if (words == NULL) return;
    launch_cores_set(&l->cores, rank, l->count);
    launch_node_become(words, count, l->key_fd, l->process[rank].listen_fd);
}

static void local_tell(struct launch *l, uint32_t rank, int number) { (void)kill(l->process[rank].pid, number); }

static enum launch_end local_ended(struct launch *l, uint32_t rank, int how, char *text)
{
    (void)l;
    (void)rank;
    if (WIFSIGNALED(how)) {
        snprintf(text, LAUNCH_HOW_BYTES, "by signal %d", WTERMSIG(how));
        return LAUNCH_AGAIN;
    }
    snprintf(text, LAUNCH_HOW_BYTES, "with exit status %d", WEXITSTATUS(how));
    return WEXITSTATUS(how) == 0 ? LAUNCH_WELL : WEXITSTATUS(how) == MEMBER_EXIT_AGAIN ? LAUNCH_AGAIN : LAUNCH_FAILED;
}

static void local_name(const struct launch *l, uint32_t rank, char *text)
{
    (void)l;
    snprintf(text, LAUNCH_NAME_BYTES, "node %u", rank);
}

const struct launch_way launch_way_local = {.begin = local_begin,
                                            .prepare = local_prepare,
                                            .become = local_become,
                                            .tell = local_tell,
                                            .ended = local_ended,
                                            .name = local_name};

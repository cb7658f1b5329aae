/* heterps-run launch --local N -- GRAPH …: a training on N processes of this machine, as on N nodes. Makes a key and
 * listens for each of them, so that no port is free in between; starts them, each on its share of the cores; passes
 * on what they say, line by line; and starts whoever is lost again, to go on from the last save.
 *
 *     this process ──fork, exec──▶ node 0 … N - 1     --nodes, --rank, --key-fd, --listen-fd
 *                  ◀──pipes────── what they say
 *                  ──SIGTERM────▶ all of them: they finish the step, save, and end with 75 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/cores.h"
#include "engine/base/heap.h"
#include "engine/base/log.h"
#include "engine/cmd/command.h"
#include "engine/model/manifest.h"
#include "engine/model/model.h"
#include "engine/node/member.h"
#include "io/net/address.h"
#include "io/net/key.h"

#define LOOK_MS      50
#define GRACE_NS     UINT64_C(2000000000) /* in which others end by themselves after a failure */
#define KILL_NS      UINT64_C(10000000000)
#define RESTARTS_MAX 3u /* without a new save between */
#define BACKLOG      128
#define LINE_BYTES   8192u
#define WORDS_OWN    8u /* added to the command */

struct launch_options {
    struct command_rest rest;
    uint32_t local;
};
static const struct flag flags[] = {
    {"--local", FLAG_U32, "N", "so many processes on this machine", offsetof(struct launch_options, local), 1,
     MEMBER_NODES_MAX, true},
};

/* What a process says on one of its streams. */
struct stream {
    int from, to;  /* a pipe, or -1: it has ended; where lines go                        */
    bool is_named; /* lines begin with the rank: not those of a program's results        */
    uint32_t used;
    char line[LINE_BYTES];
};

struct process {
    pid_t pid; /* 0: it does not run */
    int listen_fd;
    struct stream out, error;
};

struct launch {
    const struct launch_options *o;
    struct cores cores;
    int key_fd;
    char *nodes; /* --nodes=… */
    char *dir;   /* where saves go, or NULL */
    struct process process[MEMBER_NODES_MAX];
    uint32_t restarts;       /* since the last new save */
    struct stat saved;       /* the newest save that has been seen */
    int failed, failed_rank; /* exit status of the first that has failed; 0: none has */
    bool is_stopping;        /* a signal has asked */
    bool is_complete;        /* node 0, which is the last, has ended well */
    uint64_t end_ns;         /* when those that are left are made to end; 0: not */
    bool is_told, is_killed; /* to end: by SIGTERM, by SIGKILL */
};

/* --- what they say ------------------------------------------------------------------------------- */

static void line_write(struct stream *s, uint32_t rank, uint32_t bytes)
{
    char name[16];
    const int named = s->is_named ? snprintf(name, sizeof name, "[%u] ", rank) : 0;
    char whole[LINE_BYTES + sizeof name + 1];
    memcpy(whole, name, (size_t)named);
    memcpy(whole + named, s->line, bytes);
    for (size_t at = 0, end = (size_t)named + bytes; at < end;) {
        const ssize_t got = write(s->to, whole + at, end - at);
        if (got < 0 && errno != EINTR) return; /* nobody reads: the training goes on */
        if (got > 0) at += (size_t)got;
    }
}

/* Passes on whole lines; a longer one than there is room for in pieces. */
static void lines_pass(struct stream *s, uint32_t rank, bool is_end)
{
    for (;;) {
        const char *stop = memchr(s->line, '\n', s->used);
        uint32_t bytes = stop ? (uint32_t)(stop - s->line) + 1 : s->used == LINE_BYTES || is_end ? s->used : 0;
        if (bytes == 0) return;
        line_write(s, rank, bytes);
        s->used -= bytes;
        memmove(s->line, s->line + bytes, s->used);
    }
}

/* What there is now; at its end the stream is closed. */
static void stream_read(struct stream *s, uint32_t rank)
{
    while (s->from >= 0) {
        const ssize_t got = read(s->from, s->line + s->used, LINE_BYTES - s->used);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == EAGAIN) return;
        if (got > 0) s->used += (uint32_t)got;
        lines_pass(s, rank, got <= 0);
        if (got > 0) continue;
        close(s->from);
        s->from = -1;
    }
}

/* --- one process --------------------------------------------------------------------------------- */

/* The cores of a process: its share of them, or, if there are more processes than cores, one in turn. */
static void cores_set(const struct launch *l, uint32_t rank)
{
    const uint32_t count = l->cores.count, n = l->o->local;
    const uint32_t begin = count >= n ? (uint32_t)((uint64_t)count * rank / n) : rank % count,
                   end = count >= n ? (uint32_t)((uint64_t)count * (rank + 1) / n) : begin + 1;
    cores_pin(l->cores.processor + begin, end - begin);
}

/* The value of a flag among the words, or NULL. */
static const char *flag_value(const struct command_rest *rest, const char *flag)
{
    const size_t bytes = strlen(flag);
    for (uint32_t i = 0; i < rest->count; i++) {
        if (strncmp(rest->words[i], flag, bytes) != 0) continue;
        if (rest->words[i][bytes] == '=') return rest->words[i] + bytes + 1;
        if (rest->words[i][bytes] == 0) return i + 1 < rest->count ? rest->words[i + 1] : "";
    }
    return NULL;
}

/* In the child: becomes node `rank`. */
_Noreturn static void node_become(const struct launch *l, uint32_t rank, bool is_again, const int out[2],
                                  const int error[2], pid_t parent)
{
    const struct command_rest *rest = &l->o->rest;
    char **words = calloc(rest->count + WORDS_OWN + 2, sizeof *words), own[WORDS_OWN][48], path[32];
    uint32_t count = 0;
    sigset_t none;
    (void)setpgid(0, 0); /* a terminal's Ctrl-C is for the launcher, which passes it on once */
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (words == NULL || getppid() != parent) _exit(1);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    cores_set(l, rank);
    snprintf(path, sizeof path, "/proc/self/fd/%d", l->key_fd);
    const int key = open(path, O_RDONLY), input = open("/dev/null", O_RDONLY); /* a place in the key of its own */
    if (key < 0 || input < 0 || fcntl(l->process[rank].listen_fd, F_SETFD, 0) != 0) _exit(1);
    (void)dup2(input, STDIN_FILENO);
    (void)dup2(out[1], STDOUT_FILENO);
    (void)dup2(error[1], STDERR_FILENO);
    words[count++] = (char *)(uintptr_t) "heterps-run";
    for (uint32_t i = 0; i < rest->count; i++) words[count++] = rest->words[i];
    words[count++] = l->nodes;
    snprintf(own[0], sizeof own[0], "--rank=%u", rank);
    snprintf(own[1], sizeof own[1], "--key-fd=%d", key);
    snprintf(own[2], sizeof own[2], "--listen-fd=%d", l->process[rank].listen_fd);
    for (uint32_t i = 0; i < 3; i++) words[count++] = own[i];
    if (is_again && !flag_value(rest, "--again")) words[count++] = (char *)(uintptr_t) "--again";
    execv("/proc/self/exe", words);
    dprintf(STDERR_FILENO, "heterps-run: error: cannot start a node: %s\n", strerror(errno));
    _exit(1);
}

static void stream_begin(struct stream *s, int from, int to, bool is_named)
{
    s->from = from;
    s->to = to;
    s->is_named = is_named;
    s->used = 0;
    (void)fcntl(from, F_SETFL, O_NONBLOCK);
}

static status process_start(struct launch *l, uint32_t rank, bool is_again)
{
    struct process *p = &l->process[rank];
    int out[2], error[2];
    const pid_t self = getpid();
    /* A node that has ended has shut the socket down, which keeps its port. */
    if (listen(p->listen_fd, BACKLOG) != 0) FAIL(SYSTEM, "listening for node %u: %s", rank, strerror(errno));
    if (pipe2(out, O_CLOEXEC) != 0) FAIL(SYSTEM, "a pipe from node %u: %s", rank, strerror(errno));
    if (pipe2(error, O_CLOEXEC) != 0) {
        close(out[0]);
        close(out[1]);
        FAIL(SYSTEM, "a pipe from node %u: %s", rank, strerror(errno));
    }
    p->pid = fork();
    if (p->pid == 0) node_become(l, rank, is_again, out, error, self);
    const int why = errno;
    close(out[1]);
    close(error[1]);
    if (p->pid < 0) {
        p->pid = 0;
        close(out[0]);
        close(error[0]);
        FAIL(SYSTEM, "cannot start node %u: fork: %s", rank, strerror(why));
    }
    stream_begin(&p->out, out[0], STDOUT_FILENO, rank > 0);
    stream_begin(&p->error, error[0], STDERR_FILENO, true);
    return ST_OK;
}

/* --- all of them --------------------------------------------------------------------------------- */

static volatile sig_atomic_t received_signal, received_count;
static void on_signal(int number)
{
    received_signal = number;
    received_count++;
}

static void all_signal(struct launch *l, int number)
{
    for (uint32_t r = 0; r < l->o->local; r++)
        if (l->process[r].pid > 0) (void)kill(l->process[r].pid, number);
}

static uint32_t running_count(const struct launch *l)
{
    uint32_t count = 0;
    for (uint32_t r = 0; r < l->o->local; r++) count += l->process[r].pid > 0;
    return count;
}

/* Whether there is a save that was not there at the last look. */
static bool has_saved(struct launch *l)
{
    char path[4096];
    struct stat now;
    if (l->dir == NULL) return false;
    snprintf(path, sizeof path, "%s/%s", l->dir, MANIFEST_NAME);
    if (stat(path, &now) != 0) return false;
    const bool is_new = now.st_ino != l->saved.st_ino || now.st_mtim.tv_sec != l->saved.st_mtim.tv_sec ||
                        now.st_mtim.tv_nsec != l->saved.st_mtim.tv_nsec;
    l->saved = now;
    return is_new;
}

/* It was lost, or says that it may go on: starts it again, unless that has led nowhere. */
static status process_again(struct launch *l, uint32_t rank, const char *how)
{
    if (has_saved(l)) l->restarts = 0;
    if (l->restarts >= RESTARTS_MAX * l->o->local)
        FAIL(AGAIN, "node %u has ended (%s), and %u starts before have led to no new save", rank, how, l->restarts);
    l->restarts++;
    log_warning("node %u has ended (%s): it is started again", rank, how);
    return process_start(l, rank, true);
}

static status process_ended(struct launch *l, uint32_t rank, int how)
{
    char text[64];
    const int code = WIFEXITED(how) ? WEXITSTATUS(how) : 0;
    l->process[rank].pid = 0;
    if (WIFSIGNALED(how))
        snprintf(text, sizeof text, "by signal %d", WTERMSIG(how));
    else
        snprintf(text, sizeof text, "with exit status %d", code);
    log_detail("launch   node %u has ended %s", rank, text);
    if (l->end_ns) return ST_OK;
    if (rank == 0 && WIFEXITED(how) && code == 0) {
        l->is_complete = true;
        l->end_ns = clock_ns() + GRACE_NS; /* of one that was started again and has come too late */
        return ST_OK;
    }
    if (l->is_stopping && (WIFSIGNALED(how) || code == 0 || code == MEMBER_EXIT_AGAIN)) return ST_OK;
    if (WIFSIGNALED(how) || code == MEMBER_EXIT_AGAIN) return process_again(l, rank, text);
    if (code == 0) return ST_OK;
    l->failed = code;
    l->failed_rank = (int)rank;
    l->end_ns = clock_ns() + GRACE_NS;
    return ST_OK;
}

/* Takes note of whoever has ended, when all that it has said is passed on. */
static status ends_look(struct launch *l)
{
    for (uint32_t r = 0; r < l->o->local; r++) {
        struct process *p = &l->process[r];
        int how;
        if (p->pid <= 0 || waitpid(p->pid, &how, WNOHANG) != p->pid) continue;
        stream_read(&p->out, r);
        stream_read(&p->error, r);
        TRY(process_ended(l, r, how));
    }
    return ST_OK;
}

static void signals_look(struct launch *l)
{
    static int seen;
    if (received_count == seen) return;
    seen = received_count;
    if (!l->is_stopping) log_info("launch   asks all nodes to finish the step, to save, and to end");
    all_signal(l, l->is_stopping ? SIGKILL : SIGTERM);
    l->is_stopping = true;
}

/* Whoever is left after a failure, and has not ended by itself. */
static void ends_make(struct launch *l)
{
    const uint64_t now = clock_ns();
    if (l->end_ns == 0 || now < l->end_ns) return;
    if (!l->is_told) all_signal(l, SIGTERM);
    if (l->is_told && !l->is_killed && now >= l->end_ns + KILL_NS) {
        all_signal(l, SIGKILL);
        l->is_killed = true;
    }
    l->is_told = true;
}

static void streams_await(struct launch *l)
{
    struct pollfd fds[2 * MEMBER_NODES_MAX];
    struct stream *streams[2 * MEMBER_NODES_MAX];
    uint32_t ranks[2 * MEMBER_NODES_MAX];
    nfds_t count = 0;
    for (uint32_t r = 0; r < l->o->local; r++)
        for (int i = 0; i < 2; i++) {
            struct stream *s = i ? &l->process[r].error : &l->process[r].out;
            if (s->from < 0) continue;
            fds[count] = (struct pollfd){s->from, POLLIN, 0};
            ranks[count] = r;
            streams[count++] = s;
        }
    if (poll(fds, count, LOOK_MS) <= 0) return;
    for (nfds_t i = 0; i < count; i++)
        if (fds[i].revents) stream_read(streams[i], ranks[i]);
}

static status all_run(struct launch *l)
{
    for (uint32_t r = 0; r < l->o->local; r++) TRY(process_start(l, r, false));
    while (running_count(l) > 0) {
        streams_await(l);
        signals_look(l);
        TRY(ends_look(l));
        ends_make(l);
    }
    if (l->is_complete) return ST_OK;
    if (l->is_stopping && l->failed == 0)
        FAIL(AGAIN, "all nodes have stopped, as signal %d has asked", (int)received_signal);
    if (l->failed == 2) FAIL(USAGE, "node %d has failed, and with it the job", l->failed_rank);
    if (l->failed) FAIL(SYSTEM, "node %d has failed, and with it the job", l->failed_rank);
    return ST_OK;
}

/* --- before -------------------------------------------------------------------------------------- */

/* Where the nodes save: --out, or where they go on. */
static status saves_find(struct launch *l, const struct command_rest *rest)
{
    const char *out = flag_value(rest, "--out"), *resume = flag_value(rest, "--resume"),
               *from = resume ? resume : flag_value(rest, "--continue");
    if (out) return heap_text(&l->dir, "%s", out);
    return from ? model_dir_of(from, &l->dir) : ST_OK;
}

static status rest_check(const struct command_rest *rest)
{
    static const char *const ours[] = {"--nodes", "--rank", "--key-file", "--key-fd", "--listen-fd", "--roster-fd"};
    if (rest->count == 0)
        FAIL(USAGE, "expected the command to launch behind --, as in: heterps-run launch --local 4 -- graph.bin --data "
                    "train.tsv");
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (flag_value(rest, ours[i])) FAIL(USAGE, "%s is launch's to give; leave it out", ours[i]);
    return ST_OK;
}

/* A socket that listens on loopback, at a port that is free. It keeps that port when a node that ends has shut it
 * down, as it would not one that the kernel has chosen for it: it is another socket, which is bound to what was
 * chosen for the first one while that is still there. */
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
    FILE *out = open_memstream(&l->nodes, &bytes);
    if (out == NULL) FAIL(MEMORY, "no memory for the places of nodes");
    fputs("--nodes=", out);
    status st = ST_OK;
    for (uint32_t r = 0; r < l->o->local && st == ST_OK; r++) {
        struct address here;
        char text[ADDRESS_TEXT_BYTES];
        st = socket_open(&l->process[r].listen_fd, &here);
        if (st == ST_OK) fprintf(out, "%s%s", r ? "," : "", address_text(text, &here));
    }
    if (fclose(out) != 0 && st == ST_OK)
        st = status_fail(ST_MEMORY, __FILE__, __LINE__, "no memory for the places of nodes");
    return st;
}

static status run(const char *const *positionals, const void *options_pointer)
{
    const struct launch_options *o = options_pointer;
    (void)positionals;
    TRY(rest_check(&o->rest));
    struct launch *l = calloc(1, sizeof *l);
    if (l == NULL) FAIL(MEMORY, "no memory for %u processes", o->local);
    *l = (struct launch){.o = o, .key_fd = -1};
    for (uint32_t r = 0; r < o->local; r++)
        l->process[r] = (struct process){.listen_fd = -1, .out.from = -1, .error.from = -1};
    status st = saves_find(l, &o->rest);
    (void)has_saved(l);
    cores_allowed(&l->cores);
    const struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (st == ST_OK) st = key_make_memory(&l->key_fd);
    if (st == ST_OK) st = sockets_open(l);
    if (st == ST_OK)
        log_info("launch   %u nodes on %u core%s of this machine%s", o->local, l->cores.count,
                 l->cores.count == 1 ? "" : "s",
                 o->local > l->cores.count ? ", which they share: several have the same one" : "");
    if (st == ST_OK) st = all_run(l);
    struct failure failure;
    failure_keep(&failure, st);
    all_signal(l, SIGKILL);
    for (uint32_t r = 0; r < o->local; r++) {
        if (l->process[r].pid > 0) (void)waitpid(l->process[r].pid, NULL, 0);
        if (l->process[r].listen_fd >= 0) close(l->process[r].listen_fd);
    }
    if (l->key_fd >= 0) close(l->key_fd);
    free(l->nodes);
    free(l->dir);
    free(l);
    return failure_adopt(&failure);
}

const struct command command_launch = {
    .name = "launch",
    .positionals = "",
    .takes_rest = true,
    .summary = "train on several processes of this machine, as on several nodes",
    .help = "heterps-run launch --local 4 -- graph.bin --data train.tsv --out model\n\n"
            "Starts the command behind -- so many times, as the nodes of one training, with a key of their own, and "
            "each with its share "
            "of the cores;\nwhere there are fewer cores than processes, they share them. Lines of standard error begin "
            "with the number of the node "
            "that says them;\nstandard output is that of node 0. A node that is lost is started again: with --out the "
            "job goes on from the last save. "
            "SIGINT and\nSIGTERM finish the step, save, and end all with 75; a second one ends them at once. With "
            "--metrics ADDR:PORT\neach node answers at PORT + its number, or, with port 0, at one of its own, which it "
            "says.\nExit "
            "status: 0 if the training is "
            "complete, 75 if it can go on (--again), else that of the node that has failed.",
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(struct launch_options),
    .run = run};

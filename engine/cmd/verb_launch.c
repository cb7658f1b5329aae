/* heterps-run launch --local N | --hosts A,B,… -- GRAPH …: a training on N processes of this machine, or on
 * hosts that ssh reaches, as on N nodes. Makes a key and hands it over, starts a process for each node,
 * passes on the lines that they print, and starts a lost process again, to go on from the last save.
 *
 *     this process ──fork, exec──▶ node 0 … N - 1     --nodes, --rank, --key-fd, --listen-fd      (launch_local.c)
 *                  ──ssh─────────▶ its far end ──fork, exec──▶ node R     the order by standard input (launch_hosts.c)
 *                  ◀──pipes────── what they say
 *                  ──SIGTERM────▶ all of them: they finish the step, save, and end with 75 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cfg/settings.h"
#include "engine/base/clock.h"
#include "engine/base/heap.h"
#include "engine/base/log.h"
#include "engine/base/paths.h"
#include "engine/cmd/launch.h"
#include "engine/cmd/run.h"
#include "engine/model/manifest.h"
#include "engine/model/model.h"

#define RESTARTS_MAX 3u /* a process, without a new save between */
/* Before a host that was not reached is tried again: 1, 2, 4, 8, 16 s, then 30 s each time. */
#define MISS_DOUBLINGS   5u
#define MISS_SECONDS_MAX 30u
#define SECOND_NS        UINT64_C(1000000000)
#define MISS_SHORT_NS    UINT64_C(30000000000) /* a process that has run longer had reached its host */

struct launch_options {
    struct command_rest rest;
    uint32_t local;
    const char *hosts, *ssh_config;
};
static const struct flag flags[] = {
    {.name = "--local",
     .type = FLAG_U32,
     .value = "N",
     .meaning = "start N processes on this machine",
     .offset = offsetof(struct launch_options, local),
     .min = 1,
     .max = MEMBER_NODES_MAX},
    {.name = "--hosts",
     .type = FLAG_TEXT,
     .value = "A,B,…",
     .meaning = "or start one on each of these hosts, by ssh: [USER@]HOST[:PORT],…, or @FILE; "
                "a host that is listed twice gets two, which share its cores",
     .offset = offsetof(struct launch_options, hosts)},
    {.name = "--ssh-config",
     .type = FLAG_TEXT,
     .value = "FILE",
     .meaning = "with --hosts: what ssh reads in place of ~/.ssh/config (ssh -F)",
     .offset = offsetof(struct launch_options, ssh_config)},
};

/* --- one process --------------------------------------------------------------------------------- */

static void pipe_close(const int ends[2])
{
    for (int i = 0; i < 2; i++)
        if (ends[i] >= 0) close(ends[i]);
}

/* In the child: becomes the process, or ends. */
_Noreturn static void child_run(struct launch *l, uint32_t rank, bool is_again, int input, int out, int error,
                                pid_t parent)
{
    launch_child_begin(parent, input, out, error);
    l->way->become(l, rank, is_again);
    _exit(1);
}

static status process_start(struct launch *l, uint32_t rank, bool is_again)
{
    struct launch_process *p = &l->process[rank];
    int out[2] = {-1, -1}, error[2] = {-1, -1}, input = -1;
    const pid_t self = getpid();
    TRY(l->way->prepare(l, rank, is_again, &input));
    p->pid = 0;
    if (pipe2(out, O_CLOEXEC) == 0 && pipe2(error, O_CLOEXEC) == 0) {
        p->pid = fork();
        if (p->pid == 0) child_run(l, rank, is_again, input, out[1], error[1], self);
    }
    const int why = errno;
    if (input >= 0) close(input);
    if (p->pid <= 0) {
        p->pid = 0;
        pipe_close(out);
        pipe_close(error);
        FAIL(SYSTEM, "cannot start node %u: %s", rank, strerror(why));
    }
    close(out[1]);
    close(error[1]);
    launch_stream_begin(&p->out, out[0], STDOUT_FILENO, rank > 0);
    launch_stream_begin(&p->error, error[0], STDERR_FILENO, true);
    p->begin_ns = clock_ns();
    p->again_ns = 0;
    p->done_ns = 0;
    return ST_OK;
}

/* --- all of them --------------------------------------------------------------------------------- */

static volatile sig_atomic_t received_signal, received_count;
static void on_signal(int number)
{
    received_signal = number;
    received_count++;
}

int launch_signals_count(void) { return received_count; }

static void all_signal(struct launch *l, int number)
{
    for (uint32_t r = 0; r < l->count; r++)
        if (l->process[r].pid > 0) l->way->tell(l, r, number);
}

static uint32_t running_count(const struct launch *l)
{
    uint32_t count = 0;
    for (uint32_t r = 0; r < l->count; r++) count += l->process[r].pid > 0;
    return count;
}

/* Whether there is a new save since the last look. */
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

/* Starts a process again that was lost, or says that it may go on, unless such starts have led to no new
 * save. While others run, starts for a host that is not reached do not count. */
static status process_again(struct launch *l, uint32_t rank, const char *how, bool is_unreached)
{
    struct launch_process *p = &l->process[rank];
    char name[LAUNCH_NAME_BYTES];
    l->way->name(l, rank, name);
    if (has_saved(l)) l->restarts = 0;
    const bool counts = !is_unreached || running_count(l) == 0;
    if (counts && l->restarts >= RESTARTS_MAX * l->count)
        FAIL(AGAIN, "%s has ended (%s), and the last %u starts have led to no new save", name, how, l->restarts);
    l->restarts += counts;
    if (!is_unreached) {
        log_warning("%s has ended (%s): it is started again", name, how);
        return process_start(l, rank, true);
    }
    p->misses = clock_ns() - p->begin_ns > MISS_SHORT_NS ? 0 : p->misses;
    uint32_t seconds = p->misses < MISS_DOUBLINGS ? 1u << p->misses : MISS_SECONDS_MAX;
    p->misses++;
    p->again_ns = clock_ns() + seconds * SECOND_NS;
    log_warning("%s has ended (%s): it is started again in %u s", name, how, seconds);
    return ST_OK;
}

/* Whether the data are a stream: a node that has ended cannot read it again, so all end. */
static bool is_read_once(const struct launch *l) { return l->data && paths_have_stream(l->data); }

/* The node that has failed first, as a failed node says. The failure of another node, of which it has heard,
 * begins with that node's number; that node may end later. */
static uint32_t failed_first(const struct launch *l, uint32_t rank)
{
    static const char mark[] = "error: node ";
    const char *named = strstr(l->process[rank].error.last, mark);
    if (named == NULL) return rank;
    char *end;
    const unsigned long number = strtoul(named + sizeof mark - 1, &end, 10);
    return strncmp(end, ": ", 2) == 0 && number < l->count ? (uint32_t)number : rank;
}

static status process_ended(struct launch *l, uint32_t rank, int how)
{
    char text[LAUNCH_HOW_BYTES];
    const enum launch_end end = l->way->ended(l, rank, how, text);
    l->process[rank].pid = 0;
    log_detail("launch   node %u has ended %s", rank, text);
    if (l->end_ns) return ST_OK;
    if (rank == 0 && end == LAUNCH_WELL) {
        l->is_complete = true;
        l->end_ns = clock_ns() + LAUNCH_GRACE_NS; /* for a node that was started again and has come too late */
        return ST_OK;
    }
    if (end == LAUNCH_WELL) l->process[rank].done_ns = clock_ns();
    if (end == LAUNCH_WELL || (l->is_stopping && end != LAUNCH_FAILED)) return ST_OK;
    if (end != LAUNCH_FAILED && !is_read_once(l)) return process_again(l, rank, text, end == LAUNCH_UNREACHED);
    if (end != LAUNCH_FAILED) {
        char name[LAUNCH_NAME_BYTES];
        l->way->name(l, rank, name);
        log_warning("%s has ended (%s), and the data are a stream, which cannot be read again: start all nodes again "
                    "with the stream from its beginning, and, where there is a save, with --resume",
                    name, text);
    }
    l->failed = WIFEXITED(how) ? WEXITSTATUS(how) : 1;
    l->failed_rank = (int)failed_first(l, rank);
    l->end_ns = clock_ns() + LAUNCH_GRACE_NS;
    return ST_OK;
}

/* Node 0 ends last. If it was lost after others had ended, it does the job once more and needs them: starts
 * nodes again that had ended before node 0's last start. If a node's end was seen only after this start, the
 * node is started again if node 0 then runs longer than an end takes. */
static status done_again(struct launch *l)
{
    const struct launch_process *first = &l->process[0];
    const uint64_t now = clock_ns();
    for (uint32_t r = 1; r < l->count && first->pid > 0 && !l->is_stopping && l->end_ns == 0; r++) {
        const struct launch_process *p = &l->process[r];
        if (p->done_ns == 0 || p->begin_ns > first->begin_ns) continue;
        if (p->done_ns > first->begin_ns && now - p->done_ns < LAUNCH_GRACE_NS) continue;
        char name[LAUNCH_NAME_BYTES];
        l->way->name(l, r, name);
        log_warning("%s had ended when node 0 was lost: it is started again", name);
        TRY(process_start(l, r, true));
    }
    return ST_OK;
}

/* Notes processes that have ended, after passing on all that they have said. */
static status ends_look(struct launch *l)
{
    for (uint32_t r = 0; r < l->count; r++) {
        struct launch_process *p = &l->process[r];
        int how;
        if (p->pid <= 0 || waitpid(p->pid, &how, WNOHANG) != p->pid) continue;
        launch_stream_read(&p->out, r);
        launch_stream_read(&p->error, r);
        TRY(process_ended(l, r, how));
    }
    return done_again(l);
}

/* Starts processes whose time has come; *waiting: how many still wait. */
static status waiting_look(struct launch *l, uint32_t *waiting)
{
    *waiting = 0;
    for (uint32_t r = 0; r < l->count; r++) {
        struct launch_process *p = &l->process[r];
        if (p->again_ns == 0) continue;
        if (l->is_stopping || l->end_ns)
            p->again_ns = 0;
        else if (clock_ns() < p->again_ns)
            (*waiting)++;
        else
            TRY(process_start(l, r, true));
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
    if (l->is_stopping && l->killed_ns == 0) l->killed_ns = clock_ns();
    l->is_stopping = true;
}

/* Ends processes that have not ended by themselves after a failure or the job's end. If a far end does not
 * listen, kills its ssh at last. */
static void ends_make(struct launch *l)
{
    const uint64_t now = clock_ns();
    if (l->end_ns && now >= l->end_ns && l->killed_ns == 0) {
        if (!l->is_told) all_signal(l, SIGTERM);
        if (now >= l->end_ns + LAUNCH_KILL_NS) {
            all_signal(l, SIGKILL);
            l->killed_ns = now;
        }
        l->is_told = true;
    }
    for (uint32_t r = 0; l->killed_ns && now >= l->killed_ns + LAUNCH_GRACE_NS && r < l->count; r++)
        if (l->process[r].pid > 0) (void)kill(l->process[r].pid, SIGKILL);
}

static void streams_await(struct launch *l)
{
    struct pollfd fds[2 * MEMBER_NODES_MAX];
    struct launch_stream *streams[2 * MEMBER_NODES_MAX];
    uint32_t ranks[2 * MEMBER_NODES_MAX];
    nfds_t count = 0;
    for (uint32_t r = 0; r < l->count; r++)
        for (int i = 0; i < 2; i++) {
            struct launch_stream *s = i ? &l->process[r].error : &l->process[r].out;
            if (s->from < 0) continue;
            fds[count] = (struct pollfd){s->from, POLLIN, 0};
            ranks[count] = r;
            streams[count++] = s;
        }
    if (poll(fds, count, LAUNCH_LOOK_MS) <= 0) return;
    for (nfds_t i = 0; i < count; i++)
        if (fds[i].revents) launch_stream_read(streams[i], ranks[i]);
}

static status all_run(struct launch *l)
{
    for (uint32_t r = 0; r < l->count; r++) TRY(process_start(l, r, false));
    for (uint32_t waiting = 0; running_count(l) + waiting > 0;) {
        streams_await(l);
        signals_look(l);
        TRY(ends_look(l));
        TRY(waiting_look(l, &waiting));
        ends_make(l);
    }
    if (l->is_complete) return ST_OK;
    if (l->is_stopping && l->failed == 0)
        FAIL(AGAIN, "all nodes have stopped, as signal %d has asked", (int)received_signal);
    char name[LAUNCH_NAME_BYTES];
    l->way->name(l, (uint32_t)l->failed_rank, name);
    if (l->failed == 2) FAIL(USAGE, "%s has failed, and with it the job", name);
    if (l->failed) FAIL(SYSTEM, "%s has failed, and with it the job", name);
    return ST_OK;
}

/* Ends all processes still running; a far end is told, and has a moment to obey. */
static void all_end(struct launch *l)
{
    const uint64_t end_ns = clock_ns() + LAUNCH_GRACE_NS;
    all_signal(l, SIGKILL);
    for (uint32_t r = 0; r < l->count; r++) {
        struct launch_process *p = &l->process[r];
        while (p->pid > 0 && p->order_fd >= 0 && clock_ns() < end_ns) {
            if (waitpid(p->pid, NULL, WNOHANG) == p->pid) p->pid = 0;
            (void)poll(NULL, 0, LAUNCH_LOOK_MS);
        }
        if (p->pid > 0 && kill(p->pid, SIGKILL) == 0) (void)waitpid(p->pid, NULL, 0);
        if (p->listen_fd >= 0) close(p->listen_fd);
        if (p->order_fd >= 0) close(p->order_fd);
    }
}

/* --- before -------------------------------------------------------------------------------------- */

/* Where the nodes save: --out, or the directory that they go on from. */
static status saves_find(struct launch *l, const struct command_rest *rest)
{
    const char *out = launch_flag(rest, "--out"), *resume = launch_flag(rest, "--resume"),
               *from = resume ? resume : launch_flag(rest, "--continue");
    if (out) return heap_text(&l->dir, "%s", out);
    return from ? model_dir_of(from, &l->dir) : ST_OK;
}

/* data.path of the graph, with the command's --set. */
static status graph_data_find(const char *path, const struct run_options *training, char **data)
{
    struct graph graph;
    struct ini ini;
    struct settings settings;
    TRY(graph_open_set(&graph, path, training->set.item, training->set.count));
    status st = ini_parse(&ini, path, graph.text, graph.text_bytes);
    if (st == ST_OK) {
        st = settings_read(&ini, &settings);
        if (st == ST_OK && *settings.data_path) st = paths_beside(data, path, settings.data_path);
        ini_free(&ini);
    }
    graph_close(&graph);
    return st;
}

/* What the nodes will read. A command that is wrong is left to the nodes, which say so; and so is a graph
 * that is not here, but on the hosts. */
static status data_find(struct launch *l)
{
    const char *given = launch_flag(&l->rest, "--data"), *positionals[COMMAND_POSITIONALS_MAX];
    const struct command *verb = command_find(l->rest.words[0]);
    const uint32_t verb_words = verb != NULL;
    if (given) return heap_text(&l->data, "%s", given);
    if (verb && verb != &command_train) return ST_OK;
    struct run_options *training = malloc(sizeof *training);
    if (training == NULL) FAIL(MEMORY, "no memory for options");
    const bool is_read = command_words_read(&command_train, l->rest.count - verb_words, l->rest.words + verb_words,
                                            positionals, training) == ST_OK;
    if (is_read && positionals[0] && graph_data_find(positionals[0], training, &l->data) != ST_OK)
        log_detail("launch   cannot tell what the nodes read: %s", status_message());
    free(training);
    return ST_OK;
}

/* A verb that runs on nodes has flags that say which; of doctor --cluster the node itself takes them. */
static status verb_check(const struct command_rest *rest)
{
    const struct command *verb = command_find(rest->words[0]);
    bool is_for_nodes = verb == NULL || verb == &command_doctor;
    for (uint32_t i = 0; verb && i < verb->flag_count; i++) is_for_nodes |= strcmp(verb->flags[i].name, "--nodes") == 0;
    if (is_for_nodes) return ST_OK;
    FAIL(USAGE,
         "%s does not run on nodes: launch starts train, or a graph, eval, predict, export and doctor --cluster; "
         "leave out launch and --",
         verb->name);
}

static status options_check(const struct launch_options *o)
{
    static const char *const ours[] = {"--nodes", "--rank", "--key-file", "--key-fd", "--listen-fd", "--roster-fd"};
    if ((o->local != 0) == (o->hosts != NULL))
        FAIL(USAGE, "give --local N, for processes of this machine, or --hosts A,B,…, for one on each of these hosts");
    if (o->ssh_config && o->hosts == NULL) FAIL(USAGE, "--ssh-config is for --hosts: give --hosts, too");
    if (o->rest.count == 0)
        FAIL(USAGE, "expected the command to launch behind --, as in: "
                    "heterps-run launch --local 4 -- graph.bin --data train.tsv");
    TRY(verb_check(&o->rest));
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (launch_flag(&o->rest, ours[i])) FAIL(USAGE, "launch itself gives %s; leave it out", ours[i]);
    if (o->local && launch_flag(&o->rest, "--coordinator"))
        FAIL(USAGE, "launch itself gives --coordinator; leave it out");
    return ST_OK;
}

static status launch_open(struct launch *l, const struct launch_options *o)
{
    *l = (struct launch){.way = o->local ? &launch_way_local : &launch_way_hosts,
                         .rest = o->rest,
                         .count = o->local,
                         .ssh_config = o->ssh_config,
                         .key_fd = -1};
    for (uint32_t r = 0; r < MEMBER_NODES_MAX; r++)
        l->process[r] = (struct launch_process){.listen_fd = -1, .order_fd = -1, .out.from = -1, .error.from = -1};
    if (o->hosts) {
        TRY(hosts_read(&l->hosts, o->hosts));
        l->count = l->hosts.count;
    }
    TRY(saves_find(l, &l->rest));
    TRY(data_find(l));
    if (o->hosts && l->data && paths_name_stdin(l->data))
        FAIL(USAGE,
             "%s -: nodes that are started by ssh have no standard input; "
             "give files, or a FIFO of the first host, which node 0 reads for all",
             launch_flag(&l->rest, "--data") ? "--data" : "data.path =");
    (void)has_saved(l);
    cores_allowed(&l->cores);
    return key_make_memory(&l->key_fd);
}

static status run(const char *const *positionals, const void *options_pointer)
{
    const struct launch_options *o = options_pointer;
    (void)positionals;
    TRY(options_check(o));
    struct launch *l = malloc(sizeof *l);
    if (l == NULL) FAIL(MEMORY, "no memory for processes");
    const struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    status st = launch_open(l, o);
    if (st == ST_OK) st = l->way->begin(l);
    if (st == ST_OK) st = all_run(l);
    struct failure failure;
    failure_keep(&failure, st);
    all_end(l);
    if (l->key_fd >= 0) close(l->key_fd);
    for (uint32_t i = 0; i < 2; i++) free(l->place[i]);
    free(l->dir);
    free(l->data);
    free(l);
    return failure_adopt(&failure);
}

const struct command command_launch = {
    .name = "launch",
    .positionals = "",
    .takes_rest = true,
    .summary = "train on several processes of this machine, or on several hosts, as on several nodes",
    .help =
        "heterps-run launch --local 4 -- graph.bin --data train.tsv --out model\n"
        "heterps-run launch --hosts node1,node2,anna@node3:2222 -- graph.bin --data train.tsv --out model\n\n"
        "Starts the command that follows -- in N processes, the nodes of one training, with a key of their own; "
        "each has its share of the cores,\n"
        "or, where there are fewer cores than processes, shares them. "
        "Lines of standard error begin with the number of the node that says them;\n"
        "standard output is that of node 0. A node that is lost is started again: "
        "with --out the job goes on from the last save. SIGINT and\n"
        "SIGTERM finish the step, save, and end all with 75; a second one ends them at once. With --metrics ADDR:PORT\n"
        "each node answers at PORT + its number, or, with port 0, at one of its own, which it says.\n"
        "Exit status: 0 if the training is complete, 75 if it can go on (--again), "
        "else that of the node that has failed.\n\n"
        "With --hosts, `ssh HOST true` has to succeed without a question: "
        "keys, users, ports and jumps are those of ssh's own files, and\n"
        "host keys are checked as they say. The program is copied to every host, into ~/.cache/heterps, "
        "unless it is there with the right\n"
        "SHA-256; the key goes by ssh's standard input, and is in no file. "
        "The directory in which launch is started has to be there on\n"
        "every host, and in it, by the same paths, the graph and the data; "
        "--out is the first host's, unless all share it. Node 0 is\n"
        "on the first host, and listens at port 4711 of the address by which ssh has reached it, "
        "unless --coordinator ADDR:PORT, behind --,\n"
        "says otherwise; the others listen at free ports. "
        "A host that is not reached any more is tried again while others train; when\n"
        "launch ends, in whatever way, the nodes finish the step, save, and end.",
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(struct launch_options),
    .run = run};

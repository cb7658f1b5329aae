/* Measures how fast two and four processes sum the gradients of a dense model over loopback, with the
 * code of training. Each process is a node (engine/node/node.h) with its thread, its links and its part
 * in the membership, and runs the exchange of a step: pieces of the sums go to their slices' owners,
 * which join them along the tree of lanes, and values come back. Beside each repeat the same processes
 * move the same bytes through plain sockets, all ways at once, in as many rounds, and add up as many
 * floats by a plain ring (bench_net_ring.c).
 *
 *     process 0   control ◀─▶ control of every other one: all meet before each repeat
 *     each pair   probe   ◀─▶ probe     plain sockets
 *                 node    ◀─▶ node      links, plain or sealed
 *
 * The update between sums and values is left out, so values are the parameters as they are; only once, before
 * all repeats, the values are the sums, and are checked. Once, two and four processes add up the same four
 * lanes, by links and by the ring: a note tells how many floats differ between the two counts. */
#include "engine/bench/bench_net.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/bell.h"
#include "engine/base/clock.h"
#include "engine/base/isa.h"
#include "engine/base/log.h"
#include "engine/base/random.h"
#include "engine/base/words.h"
#include "engine/device/cpu/cpu_device.h"
#include "engine/node/node.h"
#include "io/net/secure.h"

#define PROCESSES_MAX 4u
#define PIECE_BYTES   (256u << 10) /* of a call of the copy */
#define TIMEOUT_NS    UINT64_C(20000000000)
#define BACKLOG       16
#define BUCKET_FLOATS ((uint64_t)1 << 18) /* cluster.bucket's default */

/* Sizes of sums: the parameters of one or two layers of `first` and `second` units. */
static const struct {
    uint32_t first, second;
    uint32_t turns, turns_quick; /* in a repeat */
    bool is_latency;             /* told as microseconds of a turn, else as bytes a second */
    bool is_quick;               /* measured by --quick, too */
} sizes[] = {{4096, 4080, 1, 1, false, false}, {1024, 1008, 8, 2, false, true}, {15, 0, 200, 20, true, true}};
#define SIZE_COUNT (sizeof sizes / sizeof *sizes)

/* A process, and all that it opens. */
struct party {
    uint32_t rank, count;
    int control[PROCESSES_MAX]; /* of process 0: to all others; of others: [0] */
    int probe[PROCESSES_MAX];   /* to each other process                           */
    struct node_place place;
    struct secure_key key;
    bool is_sealed;
    /* of a size */
    struct graph graph;
    struct model model;
    struct facts facts;
    struct node *node;
    struct exchange *x;
    struct device *device;
    struct arena arena;
    struct gradients gradients;
    struct updater updater;
    double *loss;
    uint64_t step, floats;
    struct bell bell;
    _Atomic uint32_t shared_over; /* rounds that are over; UINT32_MAX: after a failure */
    uint32_t begun;
};

/* --- meeting ------------------------------------------------------------------------------------- */

static status byte_take(int fd)
{
    char byte;
    errno = 0;
    return read(fd, &byte, 1) == 1 ? ST_OK : net_probe_lost("a pipe");
}

static status byte_give(int fd)
{
    errno = 0;
    return write(fd, "", 1) == 1 ? ST_OK : net_probe_lost("a pipe");
}

/* Waits for all processes. */
static status meet(const struct party *p)
{
    if (p->rank > 0) {
        TRY(byte_give(p->control[0]));
        return byte_take(p->control[0]);
    }
    for (uint32_t i = 1; i < p->count; i++) TRY(byte_take(p->control[i]));
    for (uint32_t i = 1; i < p->count; i++) TRY(byte_give(p->control[i]));
    return ST_OK;
}

/* --- the copy ------------------------------------------------------------------------------------ */

/* Sends every other process its share, and receives as much from it. */
static status copy_round(struct party *p, const uint8_t *out, uint8_t *in)
{
    const uint64_t all = p->floats * sizeof(float), share = all / p->count;
    uint64_t sent[PROCESSES_MAX] = {0}, got[PROCESSES_MAX] = {0};
    for (;;) {
        struct pollfd ready[PROCESSES_MAX];
        nfds_t count = 0;
        bool has_moved = false;
        for (uint32_t i = 0; i < p->count; i++) {
            if (i == p->rank || (sent[i] == share && got[i] == share)) continue;
            const uint64_t send_left = share - sent[i], left = share - got[i];
            errno = 0;
            ssize_t n = send_left ? send(p->probe[i], out + i * share + sent[i],
                                         send_left < PIECE_BYTES ? send_left : PIECE_BYTES, MSG_DONTWAIT | MSG_NOSIGNAL)
                                  : 0;
            if (n < 0 && errno != EAGAIN) return net_probe_lost("the socket");
            if (n > 0) sent[i] += (uint64_t)n;
            has_moved |= n > 0;
            n = left ? recv(p->probe[i], in + i * share + got[i], left < PIECE_BYTES ? left : PIECE_BYTES, MSG_DONTWAIT)
                     : 0;
            if (left && (n == 0 || (n < 0 && errno != EAGAIN))) return net_probe_lost("the socket");
            if (n > 0) got[i] += (uint64_t)n;
            has_moved |= n > 0;
            ready[count++] = (struct pollfd){
                .fd = p->probe[i], .events = (short)((sent[i] < share ? POLLOUT : 0) | (got[i] < share ? POLLIN : 0))};
        }
        if (count == 0) return ST_OK;
        if (!has_moved) (void)poll(ready, count, -1);
    }
}

/* Moves the exchange's two rounds, between its memory. */
static status copy_turn(struct party *p)
{
    uint8_t *param = (uint8_t *)p->model.param, *grad = (uint8_t *)p->gradients.param[0];
    TRY(copy_round(p, grad, param));
    return copy_round(p, param, grad);
}

/* --- the exchange -------------------------------------------------------------------------------- */

static void over(void *context, enum exchange_round round, uint32_t bucket, status st)
{
    struct party *p = context;
    (void)bucket;
    if ((round == EXCHANGE_ROWS || round == EXCHANGE_VALUES) && st == ST_OK) return;
    /* Release pairs with the acquire in is_over(): the sums or values are there. */
    if (st != ST_OK)
        atomic_store_explicit(&p->shared_over, UINT32_MAX, memory_order_release);
    else
        atomic_fetch_add_explicit(&p->shared_over, 1, memory_order_release);
    bell_ring(&p->bell);
}

static bool is_over(void *context)
{
    const struct party *p = context;
    return atomic_load_explicit(&p->shared_over, memory_order_acquire) >= p->begun;
}

/* Waits for one more round. */
static status round_await(struct party *p)
{
    p->begun++;
    bell_await(&p->bell, false, is_over, p);
    if (atomic_load_explicit(&p->shared_over, memory_order_relaxed) == UINT32_MAX)
        FAIL(PEER_LOST, "bench net: another process has ended");
    return ST_OK;
}

/* Copies the sums of the own slice of a bucket to the parameters. They are in this process's gradients if the
 * first piece is its own, else where that piece has come, at `come`. */
static void sums_keep(struct party *p, uint32_t bucket)
{
    const struct exchange_piece *first = &p->x->divisions[0].pieces[0];
    const float *come = first->sums;
    uint64_t begin, end;
    for (uint32_t index = 0; index <= bucket; index++)
        for (uint32_t r = 0; r < p->x->slices[index].run_count; r++) {
            extent_part(&p->x->slices[index], p->rank, r, &begin, &end);
            if (index == bucket)
                memcpy(p->model.param + begin, first->node == p->rank ? p->gradients.param[0] + begin : come,
                       (end - begin) * sizeof(float));
            if (come) come += end - begin;
        }
}

/* Sums, and gives all processes the parameters; is_kept: the sums go into the parameters first. */
static status exchange_turn(struct party *p, bool is_kept)
{
    const struct update update = {.param_grad = p->gradients.param, .lanes = 1, .t = p->step + 1, .is_joined = true};
    struct exchange *x = p->x;
    for (uint32_t bucket = x->bucket_count; bucket-- > 0;) x->vt->begin(x, EXCHANGE_SUMS, bucket);
    for (uint32_t bucket = x->bucket_count; bucket-- > 0;) {
        TRY(round_await(p));
        TRY(exchange_sum_run(x, &p->updater, bucket, &x->slices[bucket], &update, NULL, NULL, p->rank));
        if (is_kept) sums_keep(p, bucket);
        x->vt->begin(x, EXCHANGE_VALUES, bucket);
    }
    TRY(round_await(p));
    p->step++;
    return ST_OK;
}

/* Checks that the exchange sums: every process finds the sum of all ranks + 1. */
static status exchange_check(struct party *p)
{
    const float expected = (float)(p->count * (p->count + 1)) / 2;
    for (uint64_t i = 0; i < p->floats; i++) p->gradients.param[0][i] = (float)(p->rank + 1);
    TRY(exchange_turn(p, true));
    for (uint32_t bucket = 0; bucket < p->x->bucket_count; bucket++)
        for (uint32_t r = 0; r < p->x->slices[bucket].run_count; r++) {
            const struct param_run *run = &p->x->slices[bucket].runs[r];
            for (uint64_t i = run->offset; i < run->offset + run->count; i++)
                if (p->model.param[i] != expected)
                    FAIL(CORRUPT, "bench net: parameter %llu of process %u is %g; expected the sum %g",
                         (unsigned long long)i, p->rank, (double)p->model.param[i], (double)expected);
        }
    return ST_OK;
}

/* --- the ring ------------------------------------------------------------------------------------ */

static status ring_turn(struct party *p)
{
    const struct net_ring ring = {.rank = p->rank,
                                  .count = p->count,
                                  .next = p->probe[(p->rank + 1) % p->count],
                                  .before = p->probe[(p->rank + p->count - 1) % p->count],
                                  .floats = p->floats};
    return net_ring(&ring, p->gradients.param[0], p->model.param);
}

/* The size whose bits are compared. */
#define BITS_SIZE 1u
enum { BITS_LINKS, BITS_RING, BITS_COUNT };
/* Process 0's sums: of two processes, of four. */
static float *bits[BITS_COUNT][2];

/* Draws the own lanes of four, and adds them up as the tree of lanes does. */
static void lanes_fill(struct party *p)
{
    const uint32_t lanes = PROCESSES_MAX / p->count;
    float *sums = p->gradients.param[0];
    memset(sums, 0, p->floats * sizeof *sums);
    for (uint32_t lane = p->rank * lanes; lane < (p->rank + 1) * lanes; lane++) {
        random_fill(p->model.param, p->floats, INIT_NORMAL, 1, random_stream(1, RANDOM_GEN, lane), 0);
        for (uint64_t i = 0; i < p->floats; i++) sums[i] += p->model.param[i];
    }
}

static status bits_keep(const struct party *p, uint32_t by, const float *from)
{
    float **at = &bits[by][p->count > 2];
    if (p->rank > 0) return ST_OK;
    *at = malloc(p->floats * sizeof **at);
    if (*at == NULL) FAIL(MEMORY, "bench net: no memory for sums");
    memcpy(*at, from, p->floats * sizeof **at);
    return ST_OK;
}

/* Percent of the slices' floats that differ between the sums of two and of four processes. */
static double bits_differ(const struct party *p, uint32_t by)
{
    uint64_t differ = 0, all = 0;
    for (uint32_t bucket = 0; bucket < p->x->bucket_count; bucket++)
        for (uint32_t r = 0; r < p->x->slices[bucket].run_count; r++) {
            const struct param_run *run = &p->x->slices[bucket].runs[r];
            all += run->count;
            for (uint64_t i = run->offset; i < run->offset + run->count; i++)
                differ += memcmp(&bits[by][0][i], &bits[by][1][i], sizeof(float)) != 0;
        }
    return 100.0 * (double)differ / (double)all;
}

static status bits_look(struct party *p)
{
    lanes_fill(p);
    TRY(exchange_turn(p, true));
    TRY(bits_keep(p, BITS_LINKS, p->model.param));
    lanes_fill(p);
    TRY(ring_turn(p));
    TRY(bits_keep(p, BITS_RING, p->gradients.param[0]));
    if (p->rank > 0 || p->count == 2) return ST_OK;
    const double links = bits_differ(p, BITS_LINKS), ring = bits_differ(p, BITS_RING);
    bench_note("the same four lanes by 2 and by 4: floats that differ: by links %.1f %%, by a ring %.1f %%", links,
               ring);
    log_event_begin("bits");
    log_event_f64("links_differ_percent", links);
    log_event_f64("ring_differ_percent", ring);
    log_event_end();
    for (uint32_t by = 0; by < BITS_COUNT; by++)
        for (uint32_t k = 0; k < 2; k++) free(bits[by][k]);
    memset(bits, 0, sizeof bits);
    return ST_OK;
}

/* --- opening -------------------------------------------------------------------------------------- */

static status graph_make(struct party *p, uint32_t size)
{
    char text[512], second[64] = "";
    const bool is_deep = sizes[size].second > 0;
    if (is_deep) snprintf(second, sizeof second, "[fc h2]\ninput = h1\nunits = %u\n", sizes[size].second);
    snprintf(text, sizeof text,
             "[model]\nname = sums\n[data]\ndense = I1..I13\n[fc h1]\ninput = dense\nunits = %u\n%s"
             "[fc y]\ninput = h%u\nunits = 1\n[loss bce]\ninput = y\n"
             "[train]\nbatch = %u\nmicro = 1\nlanes = %u\noptimizer = sgd 0.1\n",
             sizes[size].first, second, is_deep ? 2u : 1u, p->count, p->count);
    TRY(graph_compile(&p->graph, "sums", text, strlen(text), NULL, 0, NULL));
    p->floats = p->graph.header->param_floats;
    return model_open(&p->model, &p->graph, &(struct model_budget){0});
}

static void layout(struct party *p, struct layout *l, uint32_t losses)
{
    gradients_layout(&p->gradients, l, &p->graph, 1, 1);
    LAYOUT_TAKE(l, p->loss, 2 * losses);
    LAYOUT_TAKE(l, p->updater.scratch, gradients_scratch(&p->graph, 1));
}

static status node_make(struct party *p)
{
    TRY(facts_make(&p->facts,
                   &(struct facts_options){
                       .graph = &p->graph, .isa = isa_names[isa_best()], .node_count = p->count, .verb = "bench net"}));
    const struct node_options options = {.place = &p->place,
                                         .graph = &p->graph,
                                         .key = p->is_sealed ? &p->key : NULL,
                                         .facts = &p->facts,
                                         .min = p->count,
                                         .bucket_floats = BUCKET_FLOATS,
                                         .timeout_ns = TIMEOUT_NS,
                                         .connect_ns = TIMEOUT_NS};
    TRY(node_open(&p->node, &options));
    TRY(node_divide(p->node));
    TRY(node_join(p->node, &p->model));
    p->x = reduce_exchange(node_reduce(p->node));
    p->x->site = (struct exchange_site){.param = p->model.param,
                                        .param_grad = p->gradients.param,
                                        .loss = p->loss,
                                        .loss_count = p->count,
                                        .over = over,
                                        .context = p};
    return node_begin(p->node, 0);
}

static status party_open(struct party *p, const struct bench *b, uint32_t size)
{
    struct layout sum = {0}, taken = {.arena = &p->arena};
    TRY(graph_make(p, size));
    layout(p, &sum, p->count);
    TRY(arena_open(&p->arena, "links", sum.bytes));
    layout(p, &taken, p->count);
    TRY(cpu_device_open(&p->device, &p->graph, 1, NULL, b->isa_name));
    p->updater.graph = &p->graph;
    p->updater.gradients = &p->gradients;
    p->updater.device = p->device;
    model_init(&p->model);
    return node_make(p);
}

/* Ends the node with status `st`, and closes everything; node 0's end is the end of all. */
static status party_close(struct party *p, status st)
{
    struct failure failure;
    failure_keep(&failure, st);
    if (p->node) st = node_end(p->node, st);
    if (!failure_is(&failure)) failure_keep(&failure, st);
    node_close(p->node);
    facts_free(&p->facts);
    if (p->device) device_close(p->device);
    arena_close(&p->arena);
    model_close(&p->model);
    graph_close(&p->graph);
    return failure_adopt(&failure);
}

/* --- measuring ------------------------------------------------------------------------------------ */

/* The measurements, in turn. */
enum turn { TURN_COPY, TURN_EXCHANGE, TURN_RING, TURN_COUNT };

static status turn_run(struct party *p, enum turn turn)
{
    switch (turn) {
    case TURN_COPY: return copy_turn(p);
    case TURN_EXCHANGE: return exchange_turn(p, false);
    case TURN_RING: return ring_turn(p);
    case TURN_COUNT: break;
    }
    return ST_OK;
}

/* Seconds of one of `count` turns. */
static status turns(struct party *p, uint32_t count, enum turn turn, double *seconds)
{
    TRY(meet(p));
    const uint64_t begin_ns = clock_ns();
    for (uint32_t i = 0; i < count; i++) TRY(turn_run(p, turn));
    TRY(meet(p));
    *seconds = (double)(clock_ns() - begin_ns) * 1e-9 / count;
    return ST_OK;
}

static void figure_tell(const struct party *p, uint32_t size, const char *how, const struct series *ours,
                        const struct series *limit)
{
    char name[64], bytes[WORDS_SIZE_BYTES];
    snprintf(name, sizeof name, "%s summed by %u, %s", words_size(bytes, p->floats * sizeof(float)), p->count, how);
    bench_tell(
        &(struct bench_figure){.subject = "net",
                               .name = name,
                               .unit = sizes[size].is_latency ? "us" : "GB/s",
                               .threads = p->count,
                               .less_is_better = sizes[size].is_latency,
                               .ours = ours,
                               .limit = limit,
                               .limit_name = "duplex copy",
                               .detail = {{"summed_bytes", (double)(p->floats * sizeof(float))}, {"nodes", p->count}}},
        true);
}

/* The figure of a turn: microseconds, or GB/s that a process moves each way, in two rounds. */
static double value_of(const struct party *p, uint32_t size, double seconds)
{
    const double bytes = 2.0 * (double)(p->floats * sizeof(float)) * (p->count - 1) / p->count;
    return sizes[size].is_latency ? seconds * 1e6 : bytes * 1e-9 / seconds;
}

static status party_measure(struct party *p, const struct bench *b, uint32_t size)
{
    const uint32_t count = b->o->quick ? sizes[size].turns_quick : sizes[size].turns;
    struct series of[TURN_COUNT] = {0};
    double seconds;
    TRY(exchange_check(p));
    if (size == BITS_SIZE && !p->is_sealed) TRY(bits_look(p));
    for (uint32_t r = 0; r < b->repeats + 1; r++)
        for (uint32_t turn = 0; turn < TURN_COUNT; turn++) {
            if (turn == TURN_RING && p->is_sealed) continue;
            TRY(turns(p, count, (enum turn)turn, &seconds));
            if (r > 0)
                series_add(&of[turn], value_of(p, size, seconds)); /* the first warms up: the kernel's buffers grow */
        }
    if (p->rank > 0) return ST_OK;
    figure_tell(p, size, p->is_sealed ? "sealed" : "plain", &of[TURN_EXCHANGE], &of[TURN_COPY]);
    if (!p->is_sealed) figure_tell(p, size, "ring", &of[TURN_RING], &of[TURN_COPY]);
    return ST_OK;
}

static status party_run(struct party *p, const struct bench *b, uint32_t size)
{
    const int *processors = bench_processors(b, p->count);
    if (processors) cores_pin(&processors[p->rank], 1);
    status st = party_open(p, b, size);
    if (st == ST_OK) st = party_measure(p, b, size);
    return party_close(p, st);
}

/* --- processes ------------------------------------------------------------------------------------ */

static void party_ends_close(struct party *p)
{
    for (uint32_t i = 0; i < p->count; i++) {
        if (p->control[i] >= 0) close(p->control[i]);
        if (p->probe[i] >= 0) close(p->probe[i]);
        p->control[i] = p->probe[i] = -1;
    }
}

static status listener_open(struct address *here, int *fd)
{
    socklen_t bytes = sizeof *here;
    TRY(address_parse(here, "127.0.0.1:0", 0));
    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*fd >= 0 && bind(*fd, &here->any, address_bytes(here)) == 0 && listen(*fd, BACKLOG) == 0 &&
        getsockname(*fd, &here->any, &bytes) == 0)
        return ST_OK;
    FAIL(SYSTEM, "bench net: listening on 127.0.0.1: %s", strerror(errno));
}

/* Opens sockets between all processes. */
static status parties_join(struct party p[PROCESSES_MAX], uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        int ends[2];
        for (uint32_t k = 0; k < i; k++) {
            TRY(net_probe_open(ends));
            p[i].probe[k] = ends[0];
            p[k].probe[i] = ends[1];
        }
        if (i > 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
            FAIL(SYSTEM, "bench net: %s", strerror(errno));
        if (i > 0) p[0].control[i] = ends[0], p[i].control[0] = ends[1];
        TRY(listener_open(&p[0].place.address[i], &p[i].place.listen_fd));
    }
    return ST_OK;
}

/* Another process's work; never returns. */
static _Noreturn void other_run(struct party p[PROCESSES_MAX], uint32_t rank, const struct bench *b, uint32_t size,
                                pid_t parent)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    for (uint32_t i = 0; i < p->count; i++) {
        if (i == rank) continue;
        close(p[i].place.listen_fd);
        party_ends_close(&p[i]);
    }
    log_open(LOG_TEXT, -1);
    const status st = party_run(&p[rank], b, size);
    if (st != ST_OK && st != ST_PEER_LOST) log_error("%s", status_message()); /* else another process says why */
    _exit(status_exit(st));
}

static status parties_run(struct party p[PROCESSES_MAX], const struct bench *b, uint32_t size)
{
    const uint32_t count = p->count;
    const pid_t parent = getpid();
    pid_t other[PROCESSES_MAX] = {0};
    status st = ST_OK;
    fflush(NULL);
    for (uint32_t i = 1; i < count && st == ST_OK; i++) {
        other[i] = fork();
        if (other[i] == 0) other_run(p, i, b, size, parent);
        if (other[i] < 0)
            st = status_fail(ST_SYSTEM, __FILE__, __LINE__, "bench net: another process: %s", strerror(errno));
    }
    for (uint32_t i = 1; i < count; i++) {
        close(p[i].place.listen_fd);
        party_ends_close(&p[i]);
    }
    if (st == ST_OK) st = party_run(&p[0], b, size);
    party_ends_close(&p[0]);
    for (uint32_t i = 1; i < count; i++) {
        int how;
        if (other[i] <= 0) continue;
        if (st != ST_OK) (void)kill(other[i], SIGKILL);
        while (waitpid(other[i], &how, 0) < 0 && errno == EINTR) continue;
    }
    if (bench_processors(b, count)) cores_pin(b->cores.processor, b->cores.mask_count);
    return st;
}

static status parties_do(const struct bench *b, uint32_t count, uint32_t size, bool is_sealed)
{
    static struct party p[PROCESSES_MAX];
    memset(p, 0, sizeof p);
    randombytes_buf(p[0].key.bytes, sizeof p[0].key.bytes);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < PROCESSES_MAX; k++) p[i].control[k] = p[i].probe[k] = -1;
        p[i].rank = i;
        p[i].count = count;
        p[i].is_sealed = is_sealed;
        p[i].place.listen_fd = -1;
        p[i].key = p[0].key;
    }
    const status st = parties_join(p, count);
    for (uint32_t i = 0; i < count && st != ST_OK; i++) {
        if (p[i].place.listen_fd >= 0) close(p[i].place.listen_fd);
        party_ends_close(&p[i]);
    }
    if (st != ST_OK) return st;
    for (uint32_t i = 0; i < count; i++) {
        p[i].place.rank = i;
        p[i].place.count = count;
        memcpy(p[i].place.address, p[0].place.address, sizeof p[i].place.address);
    }
    return parties_run(p, b, size);
}

status net_reduce(const struct bench *b)
{
    for (uint32_t count = 2; count <= PROCESSES_MAX; count += 2)
        for (uint32_t size = 0; size < SIZE_COUNT; size++)
            for (uint32_t is_sealed = 0; is_sealed < 2; is_sealed++)
                if (!b->o->quick || sizes[size].is_quick) TRY(parties_do(b, count, size, is_sealed));
    return ST_OK;
}

/* Measures links between two processes over loopback, plain and sealed: bytes both ways at once, and messages
 * there and back. Beside each repeat the same processes move the same bytes through a plain socket: both ways
 * at once, by as few and as large calls as the socket takes; there and back, by calls that do not sleep. Sums
 * of gradients between two and four processes are in bench_net_reduce.c.
 *
 *     this process   control ◀──────────▶ control   the other, forked; both do the same steps, and meet before each
 *                    probe   ◀──────────▶ probe     plain sockets
 *                    links   ◀──────────▶ links     plain, sealed by AES-256-GCM, by ChaCha20-Poly1305 */
#include "engine/bench/bench_net.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/futex.h"
#include "engine/base/log.h"
#include "engine/base/words.h"
#include "io/net/link.h"
#include "io/net/secure.h"

#define MIB           (UINT64_C(1) << 20)
#define BYTES         (64 * MIB) /* each way */
#define BYTES_QUICK   (8 * MIB)
#define MESSAGE_BYTES (1u << 20)
#define PIECE_BYTES   (256u << 10) /* of a call of the probe */
#define TURN_BYTES    1024u
#define TURNS         5000u
#define TURNS_QUICK   500u
#define QUEUED        8u
#define JOIN_NS       UINT64_C(10000000000)

static const struct {
    const char *name;
    enum frame_seal seal;
} ways[] = {{"plain", FRAME_PLAIN}, {"AES-256-GCM", FRAME_AESGCM}, {"ChaCha20", FRAME_CHACHA}};
#define WAY_COUNT (sizeof ways / sizeof *ways)

/* One of the two processes. */
struct side {
    bool is_first;
    int control, probe;
    struct links *links[WAY_COUNT]; /* NULL: this processor cannot */
    uint32_t link[WAY_COUNT];
    struct arena arena;
    struct secure_key key;
    uint64_t bytes;
    uint32_t turns;
    uint8_t *out, *in; /* [bytes] */
};

/* --- the probe ---------------------------------------------------------------------------------- */

status net_probe_lost(const char *what)
{
    FAIL(PEER_LOST, "bench net: %s between two processes: %s", what, errno ? strerror(errno) : "it has ended");
}

/* Sends all of `out` and receives all of `in`. */
static status probe_exchange(struct side *s)
{
    uint64_t sent = 0, got = 0;
    while (sent < s->bytes || got < s->bytes) {
        bool has_moved = false;
        errno = 0;
        if (sent < s->bytes) {
            const uint64_t left = s->bytes - sent;
            ssize_t n =
                send(s->probe, s->out + sent, left < PIECE_BYTES ? left : PIECE_BYTES, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (n < 0 && errno != EAGAIN) return net_probe_lost("the socket");
            if (n > 0) sent += (uint64_t)n;
            has_moved = n > 0;
        }
        if (got < s->bytes) {
            const uint64_t left = s->bytes - got;
            ssize_t n = recv(s->probe, s->in + got, left < PIECE_BYTES ? left : PIECE_BYTES, MSG_DONTWAIT);
            if (n == 0 || (n < 0 && errno != EAGAIN)) return net_probe_lost("the socket");
            if (n > 0) got += (uint64_t)n;
            has_moved |= n > 0;
        }
        if (has_moved) continue;
        struct pollfd ready = {.fd = s->probe,
                               .events = (short)((sent < s->bytes ? POLLOUT : 0) | (got < s->bytes ? POLLIN : 0))};
        (void)poll(&ready, 1, -1);
    }
    return ST_OK;
}

static status probe_receive(struct side *s)
{
    for (uint32_t got = 0; got < TURN_BYTES;) {
        ssize_t n = recv(s->probe, s->in + got, TURN_BYTES - got, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN)) return net_probe_lost("the socket");
        if (n > 0) got += (uint32_t)n;
        if (n < 0) spin_pause();
    }
    return ST_OK;
}

static status probe_turns(struct side *s)
{
    for (uint32_t i = 0; i < s->turns; i++) {
        if (!s->is_first) TRY(probe_receive(s));
        if (send(s->probe, s->out, TURN_BYTES, MSG_NOSIGNAL) != TURN_BYTES) return net_probe_lost("the socket");
        if (s->is_first) TRY(probe_receive(s));
    }
    return ST_OK;
}

/* --- links -------------------------------------------------------------------------------------- */

/* Takes events; puts each message behind the one before. Counts the bytes received and the messages sent. */
static status links_turn(struct side *s, uint32_t way, uint64_t *got, uint32_t *sent)
{
    struct link_event event[2 * QUEUED];
    uint32_t count;
    TRY(links_wait(s->links[way], event, 2 * QUEUED, UINT64_MAX, &count));
    for (uint32_t i = 0; i < count; i++) {
        if (event[i].what == LINK_LOST) FAIL(PEER_LOST, "bench net: %s", link_why(s->links[way], event[i].link));
        if (event[i].what == LINK_ARRIVES)
            link_receive(s->links[way], event[i].link, &(struct iovec){s->in + *got, event[i].bytes}, 1);
        *sent += event[i].what == LINK_SENT;
        if (event[i].what == LINK_ARRIVED) *got += event[i].bytes;
    }
    return ST_OK;
}

static status links_exchange(struct side *s, uint32_t way)
{
    uint64_t queued = 0, got = 0;
    uint32_t sent = 0;
    while (got < s->bytes || sent < s->bytes / MESSAGE_BYTES) {
        while (queued < s->bytes) {
            const struct link_message m = {.part = {{s->out + queued, MESSAGE_BYTES}}, .part_count = 1};
            if (!link_send(s->links[way], s->link[way], &m, 0)) break;
            queued += MESSAGE_BYTES;
        }
        TRY(links_turn(s, way, &got, &sent));
    }
    return ST_OK;
}

static status links_turns(struct side *s, uint32_t way)
{
    const struct link_message m = {.part = {{s->out, TURN_BYTES}}, .part_count = 1};
    uint32_t sent = 0;
    for (uint32_t i = 0; i < s->turns; i++) {
        uint64_t got = 0;
        if (!s->is_first)
            while (got == 0) TRY(links_turn(s, way, &got, &sent));
        CHECK(link_send(s->links[way], s->link[way], &m, 0));
        if (!s->is_first) TRY(links_submit(s->links[way]));
        got = 0;
        if (s->is_first)
            while (got == 0) TRY(links_turn(s, way, &got, &sent));
    }
    while (sent < s->turns) { /* the last one's event may not have come yet */
        uint64_t none = 0;
        TRY(links_turn(s, way, &none, &sent));
    }
    return ST_OK;
}

/* --- steps of both ------------------------------------------------------------------------------- */

enum test { TEST_BYTES, TEST_TURNS, TEST_COUNT };

/* Waits for the other process. */
static status meet(struct side *s)
{
    char byte = 0;
    errno = 0;
    if (s->is_first && write(s->control, &byte, 1) != 1) return net_probe_lost("a pipe");
    if (read(s->control, &byte, 1) != 1) return net_probe_lost("a pipe");
    if (!s->is_first && write(s->control, &byte, 1) != 1) return net_probe_lost("a pipe");
    return ST_OK;
}

/* Does a test, or its limit; *value: GB/s each way, or microseconds of a round trip. */
static status side_step(struct side *s, enum test test, uint32_t way, bool is_limit, double *value)
{
    TRY(meet(s));
    const uint64_t begin_ns = clock_ns();
    if (test == TEST_BYTES)
        TRY(is_limit ? probe_exchange(s) : links_exchange(s, way));
    else
        TRY(is_limit ? probe_turns(s) : links_turns(s, way));
    TRY(meet(s));
    const double ns = (double)(clock_ns() - begin_ns);
    *value = test == TEST_BYTES ? (double)s->bytes / ns : ns / 1000 / s->turns;
    return ST_OK;
}

static void figure_tell(const struct side *s, enum test test, uint32_t way, const struct series *ours,
                        const struct series *limit)
{
    char name[64], size[WORDS_SIZE_BYTES];
    const uint64_t bytes = test == TEST_BYTES ? s->bytes : TURN_BYTES;
    snprintf(name, sizeof name, "%s %s, %s", words_size(size, bytes),
             test == TEST_BYTES ? "both ways" : "there and back", ways[way].name);
    bench_tell(&(struct bench_figure){.subject = "net",
                                      .name = name,
                                      .unit = test == TEST_BYTES ? "GB/s" : "us",
                                      .threads = 2,
                                      .less_is_better = test == TEST_TURNS,
                                      .ours = ours,
                                      .limit = limit,
                                      .limit_name = test == TEST_BYTES ? "duplex copy" : "spinning round trip",
                                      .detail = {{"bytes", (double)bytes}}},
               true);
}

/* Runs all tests, on both processes; the first process tells figures. */
static status steps(const struct bench *b, struct side *s)
{
    double value;
    for (enum test test = 0; test < TEST_COUNT; test++)
        for (uint32_t way = 0; way < WAY_COUNT; way++) {
            struct series ours = {0}, limit = {0};
            if (s->links[way] == NULL) continue;
            TRY(side_step(s, test, way, true, &value)); /* warms up: the kernel's buffers grow with use */
            TRY(side_step(s, test, way, false, &value));
            for (uint32_t r = 0; r < b->repeats; r++) {
                TRY(side_step(s, test, way, true, &value));
                series_add(&limit, value);
                TRY(side_step(s, test, way, false, &value));
                series_add(&ours, value);
            }
            if (s->is_first) figure_tell(s, test, way, &ours, &limit);
        }
    return ST_OK;
}

/* --- two processes -------------------------------------------------------------------------------- */

static struct links_options options_of(const struct side *s, uint32_t way)
{
    return (struct links_options){.link_count = 2,
                                  .queued_max = QUEUED,
                                  .message_bytes_max = MESSAGE_BYTES,
                                  .half_open_max = 1,
                                  .spin_ns = SPIN_NS,
                                  .keys = &s->key,
                                  .key_count = ways[way].seal != FRAME_PLAIN,
                                  .chacha_only = ways[way].seal == FRAME_CHACHA};
}

static bool way_runs(uint32_t way) { return ways[way].seal == FRAME_PLAIN || secure_seal_runs(ways[way].seal); }

/* Opens memory and links; the first side's links listen at here[]. */
static status side_open(struct side *s, struct address here[WAY_COUNT])
{
    size_t bytes = 2 * arena_bytes(s->bytes);
    const char *why;
    for (uint32_t way = 0; way < WAY_COUNT; way++) {
        const struct links_options o = options_of(s, way);
        if (way_runs(way)) bytes += links_bytes(&o);
    }
    TRY(arena_open(&s->arena, "links", bytes));
    s->out = arena_take(&s->arena, s->bytes);
    s->in = arena_take(&s->arena, s->bytes);
    memset(s->out, 1, s->bytes);
    memset(s->in, 2, s->bytes);
    for (uint32_t way = 0; way < WAY_COUNT; way++) {
        const struct links_options o = options_of(s, way);
        if (!way_runs(way)) continue;
        TRY(links_open(&s->links[way], &s->arena, &o, &why));
        if (why && s->is_first && way == 0) bench_note("io_uring is refused here (%s): by poll", why);
        if (s->is_first) TRY(links_listen(s->links[way], &here[way], &here[way]));
    }
    return ST_OK;
}

static void side_close(struct side *s)
{
    for (uint32_t way = 0; way < WAY_COUNT; way++) links_close(s->links[way]);
    arena_close(&s->arena);
}

/* Way by way, the other side connects and the first waits for it. */
static status side_join(struct side *s, const struct address here[WAY_COUNT])
{
    for (uint32_t way = 0; way < WAY_COUNT; way++) {
        const uint64_t end_ns = clock_ns() + JOIN_NS;
        struct link_event event = {.what = LINK_LOST};
        uint32_t count = 0, link;
        if (s->links[way] == NULL) continue;
        if (!s->is_first) TRY(link_connect(s->links[way], &here[way], end_ns, &link));
        TRY(links_wait(s->links[way], &event, 1, end_ns, &count));
        if (count == 0) FAIL(PEER_LOST, "bench net: the other process does not connect");
        if (event.what == LINK_LOST) FAIL(PEER_LOST, "bench net: %s", link_why(s->links[way], event.link));
        s->link[way] = event.link;
        TRY(meet(s));
    }
    return ST_OK;
}

static status side_run(const struct bench *b, struct side *s, struct address here[WAY_COUNT])
{
    const int *processors = bench_processors(b, 2);
    if (processors) cores_pin(&processors[!s->is_first], 1);
    TRY(side_join(s, here));
    return steps(b, s);
}

status net_probe_open(int fd[2])
{
    struct address here;
    socklen_t bytes = sizeof here;
    const int yes = 1;
    TRY(address_parse(&here, "127.0.0.1:0", 0));
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fd[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fd[1] = -1;
    if (listener >= 0 && fd[0] >= 0 && bind(listener, &here.any, address_bytes(&here)) == 0 &&
        listen(listener, 1) == 0 && getsockname(listener, &here.any, &bytes) == 0 &&
        connect(fd[0], &here.any, bytes) == 0)
        fd[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    const int error = errno;
    if (listener >= 0) close(listener);
    if (fd[1] >= 0) {
        for (int i = 0; i < 2; i++) (void)setsockopt(fd[i], IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        return ST_OK;
    }
    if (fd[0] >= 0) close(fd[0]);
    FAIL(SYSTEM, "bench net: two sockets joined over loopback: %s", strerror(error));
}

/* The other process's work; never returns. It prints nothing: the first process tells the loss. */
static _Noreturn void other_run(const struct bench *b, struct side *s, struct address here[WAY_COUNT], pid_t parent)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* it ends with the first process, however that ends */
    if (getppid() != parent) _exit(1);
    status st = side_open(s, here);
    if (st == ST_OK) st = side_run(b, s, here);
    _exit(status_exit(st));
}

static status pair_run(const struct bench *b, struct side s[2])
{
    struct address here[WAY_COUNT];
    for (uint32_t way = 0; way < WAY_COUNT; way++) TRY(address_parse(&here[way], "127.0.0.1:0", 0));
    status st = side_open(&s[0], here);
    const pid_t parent = getpid(), other = st == ST_OK ? fork() : 0;
    if (st == ST_OK && other == 0) {
        /* Only the first side's ends are closed here, so that each process notices the
         * other's end; its memory stays. */
        close(s[0].control);
        close(s[0].probe);
        other_run(b, &s[1], here, parent);
    }
    if (other < 0) st = status_fail(ST_SYSTEM, __FILE__, __LINE__, "bench net: a second process: %s", strerror(errno));
    close(s[1].control);
    close(s[1].probe);
    if (st == ST_OK) st = side_run(b, &s[0], here);
    side_close(&s[0]);
    close(s[0].control);
    close(s[0].probe);
    if (other > 0) {
        int how;
        while (waitpid(other, &how, 0) < 0 && errno == EINTR) continue;
    }
    if (bench_processors(b, 2)) cores_pin(b->cores.processor, b->cores.mask_count);
    return st;
}

status bench_net(const struct bench *b)
{
    struct side s[2] = {{.is_first = true}, {.is_first = false}};
    int control[2], probe[2];
    bench_heading("net");
    bench_columns();
    if (b->cores.count < 2) {
        bench_note("left out: needs two cores, and this process may use one");
        log_warning("bench net: left out: needs two cores, and this process may use one");
        return ST_OK;
    }
    TRY(secure_start());
    TRY(net_probe_open(probe));
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control) != 0) {
        const int error = errno;
        close(probe[0]);
        close(probe[1]);
        FAIL(SYSTEM, "bench net: %s", strerror(error));
    }
    randombytes_buf(s[0].key.bytes, sizeof s[0].key.bytes);
    s[1].key = s[0].key;
    for (int i = 0; i < 2; i++) {
        s[i].control = control[i];
        s[i].probe = probe[i];
        s[i].bytes = b->o->quick ? BYTES_QUICK : BYTES;
        s[i].turns = b->o->quick ? TURNS_QUICK : TURNS;
    }
    TRY(pair_run(b, s));
    return net_reduce(b);
}

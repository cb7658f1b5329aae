/* Echoes and swaps between three nodes of one process, each with its thread, and one main thread each: all
 * come back, all bytes come, and what is told of a path is that of the connection. */
#include "tests/io/io_test.h"

#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/node/probe.h"

#define NODES  3u
#define ECHOES 50u

static struct facts facts = {.text = (char *)(uintptr_t) "of a test\n", .bytes = 10, .hash = 5};
static const struct secure_key key = {"the key of a test has 32 bytes."};
static struct node_place places[NODES];

/* What each node does; it must not fail on its thread, so it counts what is wrong. */
struct one {
    uint32_t rank, wrong;
    struct probe_echo echo[ECHOES];
    uint8_t *out, *in; /* [PROBE_PIECE_BYTES] */
    struct link_path path[NODES];
    bool has_path[NODES];
    char why[NODES][200];
};

/* Sizes below a piece, of several, and none. */
static const uint64_t sizes[][2] = {
    {1, 0}, {0, 1}, {100, 70000}, {PROBE_PIECE_BYTES, PROBE_PIECE_BYTES}, {9u << 20, (5u << 20) + 3}, {0, 3u << 20}};

static status pair_do(struct one *o, struct node *n, uint32_t low, uint32_t high)
{
    const bool is_high = o->rank == high;
    const uint32_t other = is_high ? low : high;
    if (o->rank != low && !is_high) return ST_OK;
    uint64_t word = 0;
    if (is_high) TRY(node_echo(n, low, o->echo, ECHOES));
    TRY(is_high ? node_give(n, low, &word, sizeof word) : node_take(n, high, &word, sizeof word));
    for (uint32_t i = 0; i < ECHOES && is_high; i++) {
        const int64_t ns = (int64_t)o->echo[i].ns;
        /* one clock: read between the beginning and the end */
        o->wrong += ns == 0 || o->echo[i].ahead_ns > ns / 2 + 1000000 || o->echo[i].ahead_ns < -ns / 2 - 1000000;
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const uint64_t out = sizes[i][is_high], in = sizes[i][!is_high];
        memset(o->out, (int)(1 + 10 * o->rank + i), PROBE_PIECE_BYTES);
        memset(o->in, 0, PROBE_PIECE_BYTES);
        TRY(node_swap(n, other, o->out, out, o->in, in));
        for (uint64_t k = 0; k < in && k < PROBE_PIECE_BYTES; k++)
            o->wrong += o->in[k] != (uint8_t)(1 + 10 * other + i);
        for (uint64_t k = in; k < PROBE_PIECE_BYTES; k++) o->wrong += o->in[k] != 0;
    }
    return ST_OK;
}

static status one_run(struct one *o)
{
    struct node *n;
    const struct node_options options = {.place = &places[o->rank],
                                         .key = &key,
                                         .facts = &facts,
                                         .min = 1,
                                         .timeout_ns = UINT64_C(4000000000),
                                         .connect_ns = UINT64_C(60000000000),
                                         .is_partial = true};
    TRY(node_open(&n, &options));
    status st = node_count(n) == NODES ? ST_OK : status_fail(ST_INVALID, __FILE__, __LINE__, "not all have come");
    for (uint32_t r = 0; r < NODES && st == ST_OK; r++) {
        const struct link_path *path = node_path(n, r);
        o->has_path[r] = path != NULL;
        if (path) o->path[r] = *path;
        snprintf(o->why[r], sizeof o->why[r], "%.150s", node_path_why(n, r));
        o->wrong += node_rank(n, r) != r;
    }
    for (uint32_t high = 1; high < NODES; high++)
        for (uint32_t low = 0; low < high && st == ST_OK; low++)
            if (o->rank != low || high != 2 || low != 1 || o->has_path[2]) /* of 1 and 2 only if they are linked */
                if (o->rank != 2 || low != 1 || o->has_path[1]) st = pair_do(o, n, low, high);
    /* Node 0 is done when all are. */
    uint64_t word = 0;
    for (uint32_t r = 1; r < NODES && st == ST_OK; r++)
        if (o->rank == 0 || o->rank == r)
            st = o->rank ? node_give(n, 0, &word, sizeof word) : node_take(n, r, &word, sizeof word);
    st = node_end(n, st);
    node_close(n);
    return st;
}

static void *one_main(void *argument)
{
    struct one *o = argument;
    o->out = malloc(PROBE_PIECE_BYTES);
    o->in = malloc(PROBE_PIECE_BYTES);
    if (o->out == NULL || o->in == NULL || one_run(o) != ST_OK) {
        fprintf(stderr, "# node %u: %s\n", o->rank, status_message());
        o->wrong += 1000000;
    }
    free(o->out);
    free(o->in);
    return NULL;
}

/* A socket that listens at a free port. */
static int listener(struct address *at)
{
    socklen_t bytes = sizeof *at;
    assert_ok(address_parse(at, "127.0.0.1:0", 0));
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0 && bind(fd, &at->any, address_bytes(at)) == 0 && listen(fd, 16) == 0);
    assert_int_equal(getsockname(fd, &at->any, &bytes), 0);
    return fd;
}

/* Node 2 looks for node 1 where nobody is, if so asked. */
static void all_run(struct one all[NODES], bool is_misled)
{
    pthread_t thread[NODES];
    struct address at[NODES], nowhere;
    int fd[NODES];
    for (uint32_t r = 0; r < NODES; r++) fd[r] = listener(&at[r]);
    close(listener(&nowhere));
    for (uint32_t r = 0; r < NODES; r++) {
        places[r] = (struct node_place){.rank = r, .count = NODES, .listen_fd = fd[r]};
        memcpy(places[r].address, at, sizeof at);
        if (r == 2 && is_misled) places[r].address[1] = nowhere;
        all[r] = (struct one){.rank = r};
    }
    for (uint32_t r = 0; r < NODES; r++) assert_int_equal(pthread_create(&thread[r], NULL, one_main, &all[r]), 0);
    for (uint32_t r = 0; r < NODES; r++) pthread_join(thread[r], NULL);
    for (uint32_t r = 0; r < NODES; r++) {
        assert_int_equal(all[r].wrong, 0);
        assert_false(all[r].has_path[r]);
        close(fd[r]);
    }
}

static void nodes__that_reach_each_other__echo_and_swap(void **state)
{
    (void)state;
    static struct one all[NODES];
    char text[ADDRESS_TEXT_BYTES], listens[ADDRESS_TEXT_BYTES];
    all_run(all, false);
    for (uint32_t r = 0; r < NODES; r++)
        for (uint32_t k = 0; k < NODES; k++) {
            if (k == r) continue;
            const struct link_path *path = &all[r].path[k], *back = &all[k].path[r];
            assert_true(all[r].has_path[k]);
            assert_true(path->seal != FRAME_PLAIN && path->mtu_bytes > path->segment_bytes);
            assert_true(path->segment_bytes > 0);
            assert_int_equal(address_port(&path->own), address_port(&back->peer));
            /* the higher one connects */
            address_text(text, r > k ? &path->peer : &path->own);
            address_text(listens, &places[0].address[r > k ? k : r]);
            assert_string_equal(text, listens);
        }
}

static void nodes__that_do_not__are_in_all_the_same(void **state)
{
    (void)state;
    static struct one all[NODES];
    all_run(all, true);
    assert_false(all[2].has_path[1]);
    assert_false(all[1].has_path[2]);
    assert_true(all[2].has_path[0] && all[0].has_path[2] && all[1].has_path[0] && all[0].has_path[1]);
    assert_non_null(strstr(all[2].why[1], "cannot connect"));
    assert_string_equal(all[1].why[2], "");
}

static void an_echo__tells_how_far_the_other_clock_is_ahead(void **state)
{
    (void)state;
    const uint64_t noon = UINT64_C(1700000000000000000);
    assert_int_equal(probe_echo_of(noon, noon + 200, 400).ahead_ns, 0);
    assert_int_equal(probe_echo_of(noon, noon + 5200, 400).ahead_ns, 5000);
    assert_true(probe_echo_of(noon, noon - 4800, 400).ahead_ns == -5000);
    assert_int_equal(probe_echo_of(noon, noon, 400).ns, 400);
}

static int start(void **state)
{
    (void)state;
    return secure_start() == ST_OK ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_echo__tells_how_far_the_other_clock_is_ahead),
        cmocka_unit_test(nodes__that_reach_each_other__echo_and_swap),
        cmocka_unit_test(nodes__that_do_not__are_in_all_the_same),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}

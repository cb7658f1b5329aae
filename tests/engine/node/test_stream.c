/* A stream on its way from node 0 to the others: every taker gets the bytes and the ends of files as they
 * were given, however late messages are; a taker that is slow makes the giver wait; a failure, and the end of
 * the exchange, reach whoever waits; and a wish to stop is readable where the giver waits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/node/stream.h"

#define NODES  4u
#define SERVER 2u
#define BYTES  3000000u
#define FILES  3u
static const uint32_t lane_begin[NODES + 1] = {0, 1, 2, 2, 4};
#include "tests/engine/node/ends_fixture.h"

static void all_open(uint64_t seed)
{
    ends_open(seed);
    for (uint32_t n = 0; n < NODES; n++) {
        assert_null(reduce_stream(ends[n].reduce));
        assert_ok(reduce_stream_open(ends[n].reduce)); /* and no step has begun */
        assert_non_null(reduce_stream(ends[n].reduce));
    }
    post_start(&net);
}

static uint8_t byte_at(uint64_t at) { return (uint8_t)(at * 31 + (at >> 9)); }
/* Pieces of all sizes, some greater than a block. */
static size_t piece_at(uint64_t at) { return (size_t)(1 + at * 7919 % (at % 5 ? 60000 : 700000)); }

static status stream_give(struct end *end)
{
    struct source_share *share = reduce_stream(end->reduce);
    uint8_t *bytes = malloc(BYTES);
    status st = ST_OK;
    for (uint64_t f = 0, at = 0; f < FILES && st == ST_OK; f++) {
        for (const uint64_t file_end = at + BYTES / FILES; at < file_end && st == ST_OK;) {
            const size_t most = (size_t)(file_end - at), count = piece_at(at) < most ? piece_at(at) : most;
            for (size_t i = 0; i < count; i++) bytes[i] = byte_at(at + i);
            st = share->vt->give(share, bytes, count);
            at += count;
            if (st == ST_OK) atomic_store(&end->had, at);
        }
        if (st == ST_OK) st = share->vt->give(share, NULL, 0);
    }
    free(bytes);
    return st;
}

static status stream_take(struct end *end)
{
    struct source_share *share = reduce_stream(end->reduce);
    static _Thread_local uint8_t bytes[100003];
    size_t count;
    for (uint64_t f = 0, at = 0; f < FILES; f++, at = f * (BYTES / FILES)) {
        do {
            TRY(share->vt->take(share, bytes, 1 + at % sizeof bytes, &count));
            for (size_t i = 0; i < count; i++) CHECK(bytes[i] == byte_at(at + i));
            atomic_store(&end->had, at += count);
        } while (count > 0);
        CHECK(at == (f + 1) * (BYTES / FILES));
    }
    return ST_OK;
}

static void *read_all(void *context)
{
    struct end *end = context;
    end->st = end == &ends[0] ? stream_give(end) : stream_take(end);
    failure_keep(&end->failure, end->st);
    return NULL;
}

static void begin(uint32_t n) { assert_int_equal(pthread_create(&ends[n].thread, NULL, read_all, &ends[n]), 0); }
static void join(uint32_t n) { assert_int_equal(pthread_join(ends[n].thread, NULL), 0); }

/* Waits until the giver has given nothing for a while; what it has given. */
static uint64_t given_settle(void)
{
    uint64_t had = 0;
    for (uint64_t before = UINT64_MAX; before != had;) {
        before = had;
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
        had = atomic_load(&ends[0].had);
    }
    return had;
}

static void stream__any_messages__takers_get_what_is_given(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        all_open(seed);
        for (uint32_t n = 0; n < NODES; n++)
            if (n != SERVER) begin(n);
        for (uint32_t n = 0; n < NODES; n++) {
            if (n == SERVER) continue;
            join(n);
            assert_int_equal(ends[n].st, ST_OK);
            assert_int_equal(ends[n].had, BYTES);
        }
        assert_true(reduce_stream_bytes(ends[0].reduce) >= 2 * BYTES);
        assert_int_equal(net.bytes[SERVER], 0);
        all_close();
    }
}

/* Of one that takes nothing there are four blocks on the way, and the other one waits with the giver. */
static void stream__a_taker_is_slow__the_giver_waits(void **state)
{
    (void)state;
    all_open(4);
    begin(0);
    begin(3);
    const uint64_t given = given_settle();
    assert_true(given > 0 && given <= 4u << 18);
    assert_true(atomic_load(&ends[3].had) <= 5u << 18);
    begin(1);
    for (uint32_t n = 0; n < NODES; n++)
        if (n != SERVER) join(n);
    assert_int_equal(ends[0].st | ends[1].st | ends[3].st, ST_OK);
    all_close();
}

static void stream__reading_fails__all_fail_by_its_sentence(void **state)
{
    (void)state;
    char text[32];
    size_t count;
    all_open(5);
    struct source_share *first = reduce_stream(ends[0].reduce);
    assert_ok(first->vt->give(first, "abc", 3));
    const status st = status_fail(ST_IO, __FILE__, __LINE__, "the pipe has burst");
    assert_int_equal(first->vt->give_failure(first, st), ST_IO);
    assert_string_equal(status_message(), "the pipe has burst");
    for (uint32_t n = 1; n < NODES; n++) {
        struct source_share *share = reduce_stream(ends[n].reduce);
        if (n == SERVER) continue;
        assert_ok(share->vt->take(share, text, sizeof text, &count));
        assert_int_equal(count, 3);
        for (int again = 0; again < 2; again++) {
            assert_int_equal(share->vt->take(share, text, sizeof text, &count), ST_IO);
            assert_string_equal(status_message(), "the pipe has burst");
        }
    }
    all_close();
}

static void post_again(void)
{
    atomic_store(&net.shared_is_over, false);
    post_start(&net);
}

static void stream__the_exchange_fails_or_training_ends__who_waits_hears_it(void **state)
{
    (void)state;
    for (int is_failure = 0; is_failure < 2; is_failure++) {
        all_open(6);
        begin(0);
        begin(3);
        (void)given_settle();             /* both wait */
        if (is_failure) post_close(&net); /* its thread's is what follows */
        for (uint32_t n = 0; n < NODES; n++)
            if (is_failure)
                reduce_fail(ends[n].reduce, status_fail(ST_PEER_LOST, __FILE__, __LINE__, "a node is gone"));
            else
                reduce_stream_end(ends[n].reduce);
        for (uint32_t n = 0; n < NODES; n += 3) {
            join(n);
            assert_int_equal(ends[n].failure.code, is_failure ? ST_PEER_LOST : ST_STOPPED);
            struct pollfd stop = {.fd = reduce_stream(ends[0].reduce)->stop_fd, .events = POLLIN};
            assert_int_equal(poll(&stop, 1, 0), 1);
        }
        if (is_failure) post_again();
        all_close();
    }
}

/* Of any node, also when no step can end. */
static void stream__a_node_wants_to_stop__node_0_reads_no_further(void **state)
{
    (void)state;
    all_open(7);
    struct pollfd stop = {.fd = reduce_stream(ends[0].reduce)->stop_fd, .events = POLLIN};
    assert_int_equal(poll(&stop, 1, 0), 0);
    post_close(&net);
    for (uint32_t n = 0; n < NODES; n++) reduce_start(ends[n].reduce, 0);
    post_again();
    for (uint32_t n = 0; n < NODES; n++) {
        struct exchange *x = reduce_exchange(ends[n].reduce);
        x->vt->job_begin(x, 0, 2);
    }
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL); /* it is granted to its bound */
    assert_int_equal(poll(&stop, 1, 0), 0);
    struct exchange *x = reduce_exchange(ends[SERVER].reduce);
    x->vt->job_stop(x);
    assert_int_equal(poll(&stop, 1, 10000), 1);
    all_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stream__any_messages__takers_get_what_is_given),
        cmocka_unit_test(stream__a_taker_is_slow__the_giver_waits),
        cmocka_unit_test(stream__reading_fails__all_fail_by_its_sentence),
        cmocka_unit_test(stream__the_exchange_fails_or_training_ends__who_waits_hears_it),
        cmocka_unit_test(stream__a_node_wants_to_stop__node_0_reads_no_further),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}

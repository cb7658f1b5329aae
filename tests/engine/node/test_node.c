/* What the main thread asks of the node's thread, which answers at once here: pieces that are given and
 * taken, and what is known when a job has ended. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/mman.h>

#include "engine/node/node_internal.h"

/* In place of the node's thread, which is woken: takes down what is asked, or the job has ended. */
static struct node node;
static char asked[256];
static bool is_deaf;
static void fake_wake(void)
{
    const uint32_t what = atomic_load(&node.shared_ask);
    const size_t used = strlen(asked);
    if (is_deaf) return;
    if (what == ASK_GIVE)
        snprintf(asked + used, sizeof asked - used, "%u<%llu@%p ", node.ask.index, (unsigned long long)node.ask.bytes,
                 node.ask.from);
    else if (what == ASK_TAKE)
        snprintf(asked + used, sizeof asked - used, "%u>%llu@%p ", node.ask.index, (unsigned long long)node.ask.bytes,
                 node.ask.to);
    else
        snprintf(asked + used, sizeof asked - used, "%u ", what);
    atomic_store(&node.shared_ask, ASK_NONE);
}
#define links_wake(links) ((void)(links), fake_wake())
#include "engine/node/node.c"

static void begin(uint32_t index, uint32_t count)
{
    memset(&node, 0, sizeof node);
    node.index = index;
    node.count = count;
    node_state_set(&node, STATE_RUNNING);
    asked[0] = 0;
    is_deaf = false;
}

/* Node 0 gives everybody the bytes, in order; the others take them from node 0. */
static void node_tell__each_node__gives_to_all_or_takes(void **state)
{
    (void)state;
    char data[8], expected[256];
    begin(0, 4);
    assert_int_equal(node_tell(&node, data, sizeof data), ST_OK);
    snprintf(expected, sizeof expected, "1<8@%p 2<8@%p 3<8@%p ", (void *)data, (void *)data, (void *)data);
    assert_string_equal(asked, expected);
    snprintf(expected, sizeof expected, "0>8@%p ", (void *)data);
    for (uint32_t index = 1; index < 4; index++) {
        begin(index, 4);
        assert_int_equal(node_tell(&node, data, sizeof data), ST_OK);
        assert_string_equal(asked, expected);
    }
    begin(0, 1);
    assert_int_equal(node_tell(&node, data, sizeof data), ST_OK);
    assert_string_equal(asked, "");
}

/* A message has less than 4 GiB. */
static void node_give_and_take__more_than_a_message__pieces(void **state)
{
    (void)state;
    const uint64_t bytes = 2 * GIVE_BYTES + 5;
    uint8_t *data = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char expected[256];
    assert_true(data != MAP_FAILED);
    for (int takes = 0; takes < 2; takes++) {
        begin(0, 9);
        assert_int_equal(takes ? node_take(&node, 7, data, bytes) : node_give(&node, 7, data, bytes), ST_OK);
        const char way = takes ? '>' : '<';
        snprintf(expected, sizeof expected, "7%c1073741824@%p 7%c1073741824@%p 7%c5@%p ", way, (void *)data, way,
                 (void *)(data + GIVE_BYTES), way, (void *)(data + 2 * GIVE_BYTES));
        assert_string_equal(asked, expected);
        begin(0, 9);
        assert_int_equal(takes ? node_take(&node, 7, data, 0) : node_give(&node, 7, data, 0), ST_OK);
        assert_string_equal(asked, "");
    }
    munmap(data, bytes);
}

/* Nobody answers any more: with the job's failure, or as it has ended; what was to be given may well have
 * gone. */
static void node_asked__job_has_ended__fails_but_for_what_is_given(void **state)
{
    (void)state;
    char data[8];
    for (int fails = 0; fails < 2; fails++)
        for (uint32_t over = 0; over < 2; over++) {
            begin(1, 2);
            is_deaf = true;
            if (fails) failure_keep(&node.result, status_fail(ST_IO, __FILE__, __LINE__, "the disk is full"));
            node_state_set(&node, over ? STATE_OVER : STATE_FAILED);
            assert_int_equal(node_give(&node, 0, data, sizeof data), fails ? ST_IO : ST_OK);
            atomic_store(&node.shared_ask, ASK_NONE);
            const status st = node_take(&node, 0, data, sizeof data);
            assert_true(fails ? st == ST_IO : st != ST_OK);
            if (fails) assert_string_equal(status_message(), "the disk is full");
        }
}

static void node_ends_soon__by_state__has_failed_or_is_over(void **state)
{
    (void)state;
    begin(0, 2);
    assert_false(node_ends_soon(&node)); /* timeout_ns = 0: it looks once */
    node_state_set(&node, STATE_MEETING);
    assert_false(node_ends_soon(&node));
    node_state_set(&node, STATE_FAILED);
    assert_true(node_ends_soon(&node));
    node_state_set(&node, STATE_OVER);
    assert_true(node_ends_soon(&node));
}

/* The step is there before the ask. */
static void node_begin__a_step__is_asked_for(void **state)
{
    (void)state;
    begin(0, 2);
    assert_int_equal(node_begin(&node, 77), ST_OK);
    assert_int_equal(node.begin_step, 77);
    assert_int_equal(node_listen(&node), ST_OK);
    assert_string_equal(asked, "2 1 ");
    assert_int_equal(node_end(&node, ST_IO), ST_IO); /* which has not started */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(node_tell__each_node__gives_to_all_or_takes),
        cmocka_unit_test(node_give_and_take__more_than_a_message__pieces),
        cmocka_unit_test(node_asked__job_has_ended__fails_but_for_what_is_given),
        cmocka_unit_test(node_ends_soon__by_state__has_failed_or_is_over),
        cmocka_unit_test(node_begin__a_step__is_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}

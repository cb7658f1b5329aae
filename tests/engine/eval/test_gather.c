/* Pieces that nodes have of steps: taken in by the first in the order of steps and of nodes, whatever their
 * sizes and the messages' timing; what a node fails with comes, and what is no piece is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "engine/eval/gather.h"

#define NODES 3u
static const uint32_t lane_begin[NODES + 1] = {0, 1, 3, 4};
#include "tests/engine/node/ends_fixture.h"

#define STEPS 40u
/* What has been taken in, one behind the other: step and node of every byte. */
static uint8_t taken[STEPS * NODES * 100000u][2];
static size_t taken_count;
static uint32_t fails_at; /* bytes taken, from which on taking in fails; 0: never      */
static uint32_t failing;  /* the node that fails at step 7; 0: none                    */

/* Of a node in a step, of two thirds of which there is nothing; some do not fit a block. */
static uint32_t bytes_of(uint64_t step, uint32_t node)
{
    const uint64_t draw = (step * 31 + node * 17 + 5) * UINT64_C(0x9E3779B97F4A7C15) >> 40;
    return step % 5 == 3 && node > 0 ? 0 : draw % 7 == 0 ? 70000 + draw % 20000 : draw % 3 == 0 ? 0 : draw % 900 + 1;
}

static void byte_take(uint64_t step, uint32_t node)
{
    taken[taken_count][0] = (uint8_t)step;
    taken[taken_count++][1] = (uint8_t)node;
}

static status take(void *context, const void *piece, uint32_t bytes)
{
    (void)context;
    CHECK((uintptr_t)piece % 8 == 0);
    for (const uint8_t *at = piece; bytes >= 2; at += 2, bytes -= 2) byte_take(at[0], at[1]);
    if (fails_at && taken_count >= fails_at) FAIL(IO, "the disk is full");
    return bytes == 0 ? ST_OK : status_fail(ST_INVALID, __FILE__, __LINE__, "half a word");
}

/* A node says its words of a step, in pieces of up to `most` bytes. */
static status step_say(struct gather *g, uint64_t step, uint32_t node, uint32_t most)
{
    for (uint32_t left = bytes_of(step, node) * 2; left > 0;) {
        uint8_t *at;
        uint32_t room;
        TRY(gather_place(g, step, 2, &at, &room));
        uint32_t count = left < room ? left : room;
        count = (count < most ? count : most) & ~1u;
        for (uint32_t i = 0; i < count; i += 2) at[i] = (uint8_t)step, at[i + 1] = (uint8_t)node;
        gather_put(g, count);
        left -= count;
    }
    if (step % 3) gather_step_end(g, step); /* or the next one tells */
    return ST_OK;
}

static status steps_run(struct gather *g, uint32_t node)
{
    for (uint64_t step = 0; step < STEPS; step++) {
        if (node == failing && node > 0 && step == 7) FAIL(CORRUPT, "a line is none");
        if (node > 0) TRY(step_say(g, step, node, node == 1 ? 61 : UINT32_MAX));
        if (node == 0) TRY(gather_until(g, step));
        for (uint32_t i = 0; node == 0 && i < bytes_of(step, 0); i++) byte_take(step, 0);
    }
    return ST_OK;
}

static void *end_main(void *context)
{
    struct end *end = context;
    struct gather g;
    gather_begin(&g, end->reduce, take, NULL);
    const status st = gather_end(&g, steps_run(&g, (uint32_t)(end - ends)));
    end->st = reduce_agree(end->reduce, st);
    failure_keep(&end->failure, end->st);
    return NULL;
}

static void all_do(uint64_t seed)
{
    taken_count = 0;
    ends_open(seed);
    post_start(&net);
    for (uint32_t n = 0; n < NODES; n++) assert_int_equal(pthread_create(&ends[n].thread, NULL, end_main, &ends[n]), 0);
    for (uint32_t n = 0; n < NODES; n++) assert_int_equal(pthread_join(ends[n].thread, NULL), 0);
    all_close();
}

static void gather__pieces_of_any_size__in_the_order_of_steps_and_nodes(void **state)
{
    (void)state;
    fails_at = failing = 0;
    for (uint64_t seed = 0; seed < 3; seed++) {
        size_t at = 0;
        all_do(seed);
        for (uint32_t n = 0; n < NODES; n++) assert_ok(ends[n].st);
        for (uint32_t step = 0; step < STEPS; step++)
            for (uint32_t n = 0; n < NODES; n++)
                for (uint32_t i = 0; i < bytes_of(step, n); i++, at++)
                    if (at >= taken_count || taken[at][0] != step || taken[at][1] != n)
                        fail_msg("word %zu: expected step %u of node %u, found step %u of node %u", at, step, n,
                                 taken[at][0], taken[at][1]);
        assert_int_equal(at, taken_count);
    }
}

static void gather__a_node_fails__all_have_its_sentence(void **state)
{
    (void)state;
    fails_at = 0;
    for (failing = 1; failing < NODES; failing++) {
        char expected[64];
        snprintf(expected, sizeof expected, "node %u: a line is none", failing);
        all_do(failing);
        for (uint32_t n = 0; n < NODES; n++) {
            assert_int_equal(ends[n].st, ST_CORRUPT);
            assert_string_equal(ends[n].failure.message, expected);
        }
    }
}

static void gather__taking_in_fails__the_others_are_heard_to_their_end(void **state)
{
    (void)state;
    failing = 0;
    fails_at = 1000;
    all_do(1);
    for (uint32_t n = 0; n < NODES; n++) {
        assert_int_equal(ends[n].st, ST_IO);
        assert_string_equal(ends[n].failure.message, n ? "node 0: the disk is full" : "the disk is full");
    }
}

/* --- what is none ------------------------------------------------------------------------------- */

static struct {
    uint64_t step;
    uint32_t bytes; /* as the piece says */
    uint16_t is_last, code;
    uint32_t count; /* that there are    */
} hostile;

static void *hostile_main(void *context)
{
    struct end *end = context;
    uint8_t *at;
    end->st = reduce_say_place(end->reduce, 0, &at);
    if (end->st != ST_OK) return NULL;
    memset(at, 'x', TALK_BYTES);
    memcpy(at, &hostile, 16);
    reduce_say(end->reduce, 0, hostile.count);
    return NULL;
}

static void *honest_main(void *context)
{
    struct end *end = context;
    struct gather g;
    gather_begin(&g, end->reduce, take, NULL);
    end->st = gather_end(&g, ST_OK);
    failure_keep(&end->failure, end->st);
    return NULL;
}

static void gather__what_is_no_piece__refused(void **state)
{
    (void)state;
    static const struct {
        uint64_t step;
        uint32_t bytes;
        uint16_t is_last, code;
        uint32_t count;
    } cases[] = {
        {0, 0, 0, 0, 15}, {0, 8, 0, 0, 16},          {0, 9, 0, 0, 25},          {0, UINT32_MAX, 0, 0, 4096},
        {0, 8, 0, 1, 24}, {UINT64_MAX, 0, 1, 0, 16}, {UINT64_MAX, 8, 1, 1, 24}, {UINT64_MAX, 8, 1, ST_COUNT, 24},
        {0, 0, 0, 0, 17},
    };
    fails_at = failing = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memcpy(&hostile, &cases[i], sizeof hostile);
        ends_open(i);
        post_start(&net);
        assert_int_equal(pthread_create(&ends[0].thread, NULL, honest_main, &ends[0]), 0);
        assert_int_equal(pthread_create(&ends[1].thread, NULL, hostile_main, &ends[1]), 0);
        assert_int_equal(pthread_create(&ends[2].thread, NULL, honest_main, &ends[2]), 0);
        for (uint32_t n = 0; n < NODES; n++) assert_int_equal(pthread_join(ends[n].thread, NULL), 0);
        all_close();
        if (ends[0].st != ST_INVALID) fail_msg("case %zu: %s", i, ends[0].failure.message);
        assert_non_null(strstr(ends[0].failure.message, "node 1 sent a piece of an evaluation that cannot be right"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gather__pieces_of_any_size__in_the_order_of_steps_and_nodes),
        cmocka_unit_test(gather__a_node_fails__all_have_its_sentence),
        cmocka_unit_test(gather__taking_in_fails__the_others_are_heard_to_their_end),
        cmocka_unit_test(gather__what_is_no_piece__refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

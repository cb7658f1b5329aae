/* Talk between rank 0 and other nodes: blocks come in order and whole, however late, both ways at
 * once; whoever is not heard makes others wait; all agree on the first failure; and who waits is
 * woken when the exchange has failed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/node/talk.h"

#define NODES 3u
static const uint32_t lane_begin[NODES + 1] = {0, 1, 2, 4};
#include "tests/engine/node/ends_fixture.h"

static void all_open(uint64_t seed)
{
    ends_open(seed);
    for (uint32_t n = 0; n < NODES; n++) reduce_start(ends[n].reduce, 0);
    post_start(&net);
}

static void all_do(void *(*work)(void *))
{
    for (uint32_t n = 0; n < NODES; n++) {
        ends[n].st = ST_OK;
        assert_int_equal(pthread_create(&ends[n].thread, NULL, work, &ends[n]), 0);
    }
    for (uint32_t n = 0; n < NODES; n++) assert_int_equal(pthread_join(ends[n].thread, NULL), 0);
}

/* --- what is said --------------------------------------------------------------------------------- */

#define LETTERS 40u

static uint32_t letter_bytes(uint32_t from, uint32_t to, uint32_t letter)
{
    static const uint32_t bytes[] = {1, 7, TALK_BYTES, 4096, TALK_BYTES - 1, 33};
    return bytes[(from * 5 + to * 3 + letter) % 6];
}
static uint8_t letter_byte(uint32_t from, uint32_t to, uint32_t letter, uint32_t at)
{
    return (uint8_t)(from * 31 + to * 17 + letter * 7 + at * (letter + 1));
}

static status letters_say(struct reduce *r, uint32_t to)
{
    const uint32_t from = reduce_rank(r);
    for (uint32_t k = 0; k < LETTERS; k++) {
        uint8_t *at;
        TRY(reduce_say_place(r, to, &at));
        const uint32_t bytes = letter_bytes(from, to, k);
        for (uint32_t b = 0; b < bytes; b++) at[b] = letter_byte(from, to, k, b);
        reduce_say(r, to, bytes);
    }
    return ST_OK;
}

static status letters_hear(struct reduce *r, uint32_t from)
{
    const uint32_t to = reduce_rank(r);
    for (uint32_t k = 0; k < LETTERS; k++) {
        const uint8_t *at;
        uint32_t bytes;
        TRY(reduce_hear(r, from, &at, &bytes));
        CHECK(bytes == letter_bytes(from, to, k));
        for (uint32_t b = 0; b < bytes; b++) CHECK(at[b] == letter_byte(from, to, k, b));
        reduce_heard(r, from);
    }
    return ST_OK;
}

static void *say_main(void *context)
{
    struct end *end = context;
    for (uint32_t n = 0; n < NODES && end->st == ST_OK; n++)
        if (n != reduce_rank(end->reduce) && (n == 0 || reduce_rank(end->reduce) == 0))
            end->st = letters_say(end->reduce, n);
    return NULL;
}

static void *both_main(void *context)
{
    struct end *end = context;
    CHECK(pthread_create(&end->other_thread, NULL, say_main, end) == 0);
    for (uint32_t n = NODES; n-- > 0;) /* not in the order in which they are said */
        if (n != reduce_rank(end->reduce) && (n == 0 || reduce_rank(end->reduce) == 0))
            CHECK(letters_hear(end->reduce, n) == ST_OK);
    CHECK(pthread_join(end->other_thread, NULL) == 0);
    return NULL;
}

static void talk__both_ways_at_once__whole_and_in_order(void **state)
{
    (void)state;
    /* Rank 0 says to node 1 first, and hears node 2 first, so each end has to hear while it says. */
    for (uint64_t seed = 0; seed < 4; seed++) {
        all_open(seed);
        all_do(both_main);
        for (uint32_t n = 0; n < NODES; n++) assert_int_equal(ends[n].st, ST_OK);
        all_close();
    }
}

/* --- what all agree on ------------------------------------------------------------------------------ */

static uint32_t failing; /* a bit a node */
static void *agree_main(void *context)
{
    struct end *end = context;
    const uint32_t rank = reduce_rank(end->reduce);
    uint64_t told = rank == 0 ? 42 : 0;
    status st = ST_OK;
    if (failing & 1u << rank) st = status_fail(ST_IO, __FILE__, __LINE__, "disk %u is full", rank);
    end->st = reduce_agree(end->reduce, st);
    failure_keep(&end->failure, end->st);
    if (end->st == ST_OK) end->st = reduce_tell(end->reduce, &told, sizeof told);
    if (end->st == ST_OK) CHECK(told == 42);
    return NULL;
}

static void reduce_agree__any_fail__all_have_the_first_failure(void **state)
{
    (void)state;
    static const char *const expected[] = {"node 0: disk 0 is full", "node 1: disk 1 is full",
                                           "node 2: disk 2 is full"};
    all_open(1);
    for (failing = 0; failing < 1u << NODES; failing++) {
        all_do(agree_main);
        for (uint32_t n = 0; n < NODES; n++) {
            assert_int_equal(ends[n].st, failing ? ST_IO : ST_OK);
            const bool is_first = n == 0 && failing & 1; /* its own failure needs no name of a node */
            const char *message = is_first ? "disk 0 is full" : expected[failing ? __builtin_ctz(failing) : 0];
            if (failing) assert_string_equal(ends[n].failure.message, message);
        }
    }
    all_close();
}

/* --- what wakes who waits ------------------------------------------------------------------------- */

static void *hear_main(void *context)
{
    struct end *end = context;
    const uint8_t *at;
    uint32_t bytes;
    end->st = reduce_hear(end->reduce, reduce_rank(end->reduce) ? 0 : 1, &at, &bytes);
    failure_keep(&end->failure, end->st);
    return NULL;
}

static void reduce_fail__while_nodes_wait__wakes_them_with_the_failure(void **state)
{
    (void)state;
    all_open(2);
    for (uint32_t n = 0; n < NODES; n++)
        assert_int_equal(pthread_create(&ends[n].thread, NULL, hear_main, &ends[n]), 0);
    /* most threads wait by then; a thread that does not wait yet is told too */
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    for (uint32_t n = 0; n < NODES; n++)
        reduce_fail(ends[n].reduce, status_fail(ST_PEER_LOST, __FILE__, __LINE__, "node 1 is gone"));
    for (uint32_t n = 0; n < NODES; n++) {
        assert_int_equal(pthread_join(ends[n].thread, NULL), 0);
        assert_int_equal(ends[n].st, ST_PEER_LOST);
        assert_string_equal(ends[n].failure.message, "node 1 is gone");
    }
    all_close();
}

/* Blocks that nobody has room for, or expects. */
static void reduce_place__blocks_that_cannot_be__refused(void **state)
{
    (void)state;
    struct iovec part[REDUCE_PARTS_MAX];
    uint32_t count;
    struct reduce *r;
    all_open(3);
    r = ends[1].reduce; /* which hears rank 0 alone */
    assert_int_equal(reduce_place(r, 2, KIND_BLOCK, 0, 8, part, &count), ST_INVALID);
    assert_int_equal(reduce_place(r, 0, KIND_BLOCK, 1, 8, part, &count), ST_INVALID);
    assert_int_equal(reduce_place(r, 0, KIND_BLOCK, 0, TALK_BYTES + 1, part, &count), ST_INVALID);
    assert_int_equal(reduce_place(r, 0, KIND_BLOCK, 0, 0, part, &count), ST_INVALID);
    assert_int_equal(reduce_place(r, 0, KIND_TAKEN, 0, 8, part, &count), ST_INVALID); /* of nothing */
    assert_int_equal(reduce_place(r, 2, KIND_GRANT, 4, 8, part, &count), ST_INVALID); /* rank 0 grants */
    assert_int_equal(reduce_place(r, 0, KIND_WISH, 1, 8, part, &count), ST_INVALID);  /* and is wished of */
    assert_int_equal(reduce_place(r, 0, KIND_LOOK, 0, 8, part, &count), ST_INVALID);  /* there are no tables */
    for (uint32_t k = 0; k < TALK_PLACES; k++) {
        assert_ok(reduce_place(r, 0, KIND_BLOCK, k, 8, part, &count));
        assert_ok(reduce_arrived(r, 0));
    }
    /* nobody has heard one */
    assert_int_equal(reduce_place(r, 0, KIND_BLOCK, TALK_PLACES, 8, part, &count), ST_INVALID);
    all_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(talk__both_ways_at_once__whole_and_in_order),
        cmocka_unit_test(reduce_agree__any_fail__all_have_the_first_failure),
        cmocka_unit_test(reduce_fail__while_nodes_wait__wakes_them_with_the_failure),
        cmocka_unit_test(reduce_place__blocks_that_cannot_be__refused),
    };
    alarm(120); /* what hangs ends the program, and so fails the test */
    return cmocka_run_group_tests(tests, NULL, NULL);
}

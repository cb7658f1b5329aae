/* How a process of `bench net` waits for rounds of the exchange, which are told one by one here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* In place of the library's, for what is static in it. */
#include "engine/bench/bench_net_reduce.c"

static void is_over__rounds_told__as_many_as_have_begun(void **state)
{
    (void)state;
    struct party p = {.begun = 2};
    assert_false(is_over(&p));
    over(&p, EXCHANGE_SUMS, 0, ST_OK);
    over(&p, EXCHANGE_ROWS, 0, ST_OK); /* these two are no rounds of their own */
    over(&p, EXCHANGE_VALUES, 0, ST_OK);
    assert_false(is_over(&p));
    over(&p, EXCHANGE_STEP, 0, ST_OK);
    assert_true(is_over(&p));
    p.begun = 3;
    assert_false(is_over(&p));
}

static void round_await__another_has_ended__fails(void **state)
{
    (void)state;
    struct party p = {.begun = 0};
    over(&p, EXCHANGE_SUMS, 0, ST_OK);
    assert_int_equal(round_await(&p), ST_OK);
    over(&p, EXCHANGE_VALUES, 0, ST_PEER_LOST);
    assert_int_equal(round_await(&p), ST_PEER_LOST);
    assert_string_equal(status_message(), "bench net: another process has ended");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_over__rounds_told__as_many_as_have_begun),
        cmocka_unit_test(round_await__another_has_ended__fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}

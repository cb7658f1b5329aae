/* A store without a home of rows: what is asked of none is done, and nothing is there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "io/store/home.h"

static void home__none__has_nothing_and_is_never_waited_for(void **state)
{
    (void)state;
    uint64_t batch = 7, key;
    float value;
    const float *span = &value;
    struct home_stretch stretch;
    const struct home_row row = {.key = 1};
    assert_int_equal(home_ask(NULL), ST_OK);
    assert_false(home_find(NULL, &row));
    assert_int_equal(home_bring(NULL, &batch), ST_OK);
    assert_int_equal(batch, 0);
    assert_true(home_has_arrived(NULL, 0));
    assert_true(home_has_arrived(NULL, 5));
    assert_int_equal(home_poll(NULL, true), ST_OK);
    assert_int_equal(home_settle(NULL), ST_OK);
    home_walk_begin(NULL, 0);
    assert_int_equal(home_walk_next(NULL, &key, &span), ST_OK);
    assert_null(span);
    home_walk_end(NULL);
    assert_int_equal(home_write_out(NULL), ST_OK);
    assert_false(home_stretch_next(NULL, 0, true, 0, &stretch));
    assert_int_equal(home_stretch_bytes(NULL, 0), 0);
    const struct home_counts counts = home_counts(NULL, 0);
    assert_true(counts.row_count == 0 && counts.fetched == 0);
    assert_int_equal(home_files(NULL), 0);
    home_prefetch(NULL, 0, 1);
    home_change(NULL, 0, NULL, 1);
    home_close(NULL);
}

/* One that knows of files nothing, and of batches what has arrived. */
static status settled(struct home *home)
{
    home->arrived = 9;
    return ST_OK;
}

static void home__optional_calls_that_it_lacks__give_nothing(void **state)
{
    (void)state;
    static const struct home_vt few = {.settle = settled};
    struct home home = {.vt = &few};
    struct home_stretch stretch;
    home.arrived = 4;
    assert_true(home_has_arrived(&home, 4));
    assert_false(home_has_arrived(&home, 5));
    assert_int_equal(home_settle(&home), ST_OK);
    assert_true(home_has_arrived(&home, 9));
    home_prefetch(&home, 0, 1);
    home_change(&home, 0, NULL, 1);
    assert_int_equal(home_write_out(&home), ST_OK);
    assert_false(home_stretch_next(&home, 0, true, 0, &stretch));
    assert_int_equal(home_stretch_bytes(&home, 0), 0);
    assert_int_equal(home_files(&home), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(home__none__has_nothing_and_is_never_waited_for),
        cmocka_unit_test(home__optional_calls_that_it_lacks__give_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}

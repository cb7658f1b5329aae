/* Which instruction set is chosen by name, and without one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/base/isa.h"

static void isa_find__names__give_their_set_whether_it_runs_or_not(void **state)
{
    (void)state;
    for (int i = 0; i < ISA_COUNT; i++) {
        enum isa isa;
        assert_true(isa_find(isa_names[i], &isa));
        assert_int_equal(isa, i);
    }
    assert_null(isa_names[ISA_COUNT]);
}

static void isa_find__no_name__is_the_last_that_runs(void **state)
{
    (void)state;
    enum isa isa;
    assert_true(isa_find(NULL, &isa));
    assert_int_equal(isa, isa_best());
    assert_true(isa_runs_here(isa));
    for (int i = isa + 1; i < ISA_COUNT; i++) assert_false(isa_runs_here((enum isa)i));
}

static void isa_find__unknown_names__are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"", "mmx", "avx", "avx2 ", "AVX2", "avx512bf"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        enum isa isa;
        enum isa_io isa_io = ISA_IO_avx2;
        assert_false(isa_find(names[i], &isa));
        assert_false(isa_io_find(names[i], &isa_io));
        assert_int_equal(isa_io, ISA_IO_base);
    }
}

static void isa_io_find__each_name__is_itself_or_base_where_it_does_not_run(void **state)
{
    (void)state;
    int best = ISA_IO_base;
    enum isa_io isa;
    for (int i = 0; i < ISA_IO_COUNT; i++) {
        bool runs = isa_io_runs_here((enum isa_io)i);
        assert_int_equal(isa_io_find(isa_io_names[i], &isa), runs);
        assert_int_equal(isa, runs ? i : ISA_IO_base);
        if (runs) best = i;
    }
    assert_true(isa_io_find(NULL, &isa));
    assert_int_equal(isa, best);
}

static void sets__one_that_runs__has_those_before_it(void **state)
{
    (void)state;
    for (int i = 1; i < ISA_COUNT; i++)
        if (isa_runs_here((enum isa)i)) assert_true(isa_runs_here((enum isa)(i - 1)));
    for (int i = 1; i < ISA_IO_COUNT; i++)
        if (isa_io_runs_here((enum isa_io)i)) assert_true(isa_io_runs_here((enum isa_io)(i - 1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(isa_find__names__give_their_set_whether_it_runs_or_not),
        cmocka_unit_test(isa_find__no_name__is_the_last_that_runs),
        cmocka_unit_test(isa_find__unknown_names__are_refused),
        cmocka_unit_test(isa_io_find__each_name__is_itself_or_base_where_it_does_not_run),
        cmocka_unit_test(sets__one_that_runs__has_those_before_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}

/* What rank 0 notes of nodes that are lost before there is a generation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/node/member_internal.h"

/* A node that goes while nodes gather is not waited for as one that is there. */
static void member_lose__while_nodes_gather__is_there_no_more(void **state)
{
    (void)state;
    static const enum member_phase phases[] = {MEMBER_CLAIMING, MEMBER_GATHERING, MEMBER_ENDED};
    static struct member m;
    for (size_t i = 0; i < 3; i++) {
        m = (struct member){.phase = phases[i], .present = 6};
        m.o.nodes = 4;
        m.roster.mask = 15;
        member_lose(&m, 4);
        assert_int_equal(m.present, i < 2 ? 2 : 6);
        assert_int_equal(m.phase, phases[i]);
        assert_int_equal(m.roster.mask, 15);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(member_lose__while_nodes_gather__is_there_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}

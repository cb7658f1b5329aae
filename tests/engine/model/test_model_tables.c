/* Accounts of tables of several nodes, added up. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/model/model_tables.h"

/* Every number but those of evictions, which each node makes with all others. */
static void model_tables_add__two_nodes__sums_but_of_evictions(void **state)
{
    (void)state;
    struct table_account one[2], more[2], expected[2];
    uint64_t *numbers[] = {(uint64_t *)one, (uint64_t *)more, (uint64_t *)expected};
    for (size_t i = 0; i < 2 * (sizeof *one / sizeof *numbers[0]); i++) {
        numbers[0][i] = 3 + i;
        numbers[1][i] = 1000 * i;
        numbers[2][i] = 3 + 1001 * i;
    }
    for (int t = 0; t < 2; t++) {
        expected[t].life.evictions = one[t].life.evictions;
        expected[t].life.eviction_ns = one[t].life.eviction_ns;
    }
    model_tables_add(one, more, 2);
    assert_memory_equal(one, expected, sizeof one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(model_tables_add__two_nodes__sums_but_of_evictions)};
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}

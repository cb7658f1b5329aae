/* Slots that cross between stages of several nodes, in little: whoever has which lanes of a stage,
 * and in whatever order messages come, one node's bytes. Drawn plans: tests/engine/node/test_stages.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/engine/node/stages_fixture.h"

static void hops__plans_on_several_nodes__one_nodes_bytes(void **state)
{
    (void)state;
    static const struct drawn plans_of_nodes[] = {
        {.plan = "0-4:1:1@0 5-8:1:1@1", .node_count = 2},
        {.plan = "0-4:1:1@1 5-5:1:1@0 6-8:1:1@1", .node_count = 2},
        {.plan = "0-4:1:1@0+1+2 5-5:1:1@1+2 6-8:1:1@0", .node_count = 3},
        {.plan = "0-0:1:1@2 1-4:2:2@0+1 5-8:1:1@0", .node_count = 3},
    };
    const struct outcome expected = alone(NULL);
    for (size_t i = 0; i < sizeof plans_of_nodes / sizeof *plans_of_nodes; i++)
        stages_train(expected, &plans_of_nodes[i], NULL, 2 + i);
}

static void hops__rows_of_tables__one_nodes_bytes(void **state)
{
    (void)state;
    static const struct drawn rows_elsewhere = {.plan = "0-4:1:1@1 5-8:1:1@0", .node_count = 2};
    text = tables_text;
    stages_train(alone(NULL), &rows_elsewhere, NULL, 1);
    text = model_text;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hops__plans_on_several_nodes__one_nodes_bytes),
        cmocka_unit_test(hops__rows_of_tables__one_nodes_bytes),
    };
    return cmocka_run_group_tests(tests, few_open, fixture_close) ? 1 : 0;
}

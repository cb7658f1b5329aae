/* What of a model fits a net: sizes of its tables. e2e/test_onnx.sh: nets predict what models do. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/onnx/exporter.h"
#include "tests/engine/model/model_fixture.h"

static void fails(const uint64_t *row_count, const char *first, const char *second)
{
    assert_int_equal(exporter_tables_fit(&fixture_graph, row_count), ST_INVALID);
    if (strstr(status_message(), first) == NULL || strstr(status_message(), second) == NULL)
        fail_msg("%s", status_message());
}

/* Of 4 numbers a row has 16 bytes, and its key and number as many; of 3, 28 together. */
static void exporter_tables_fit__sizes__bound_of_a_file(void **state)
{
    (void)state;
    assert_ok(exporter_tables_fit(&fixture_graph, (const uint64_t[]){0, 0}));
    assert_ok(exporter_tables_fit(&fixture_graph, (const uint64_t[]){65535999, 0}));
    fails((const uint64_t[]){65536000, 0}, "table emb has 65536000 rows of 4 numbers", "--for serving");
    assert_ok(exporter_tables_fit(&fixture_graph, (const uint64_t[]){0, 74000000}));
    fails((const uint64_t[]){0, 75000000}, "table side.car has 75000000 rows of 3 numbers",
          "fewer rows (rows of [table side.car])");
    fails((const uint64_t[]){40000000, 60000000}, "table side.car has 60000000 rows", "at most 2 GiB");
    fails((const uint64_t[]){UINT64_MAX / 64, 0}, "table emb has", "--for serving");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(exporter_tables_fit__sizes__bound_of_a_file, fixture_open, fixture_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}

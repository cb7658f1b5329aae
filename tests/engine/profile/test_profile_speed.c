/* How fast a graph trains here, in a number: of whole passes, more for a gang; data that is not
 * there fails as in any profile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "engine/profile/profile_speed.h"
#include "tests/engine/fixture_files.h"

static const char text[] = "[data]\ndense = I1..I13\n[fc h]\ninput = dense\nunits = UNITS\nactivation = relu\n"
                           "[fc y]\ninput = h\nunits = 1\n[loss bce]\ninput = y\n[train]\nbatch = 64\n";

static status speed_of(const char *units, const char *data, double *speed)
{
    char model[sizeof text + 16];
    struct graph graph;
    struct cores cores;
    const char *at = strstr(text, "UNITS");
    snprintf(model, sizeof model, "%.*s%s%s", (int)(at - text), text, units, at + 5);
    assert_ok(graph_compile(&graph, "m.cfg", model, strlen(model), NULL, 0, NULL));
    cores_allowed(&cores);
    const struct profile_speed_options options = {.graph = &graph,
                                                  .graph_path = "m.bin",
                                                  .data = data,
                                                  .store_path = "",
                                                  .cores = &cores,
                                                  .threads = 1,
                                                  .seconds = 0.1};
    const status st = profile_speed(&options, speed);
    graph_close(&graph);
    return st;
}

static void profile_speed__more_work__fewer_examples(void **state)
{
    (void)state;
    double small, large;
    assert_ok(speed_of("8", NULL, &small)); /* generated rows */
    assert_ok(speed_of("4000", NULL, &large));
    printf("# examples a second: %.0f and %.0f\n", small, large);
    assert_true(large > 1 && small > 4 * large);
}

static void profile_speed__no_data__fails_by_its_path(void **state)
{
    (void)state;
    double speed;
    assert_int_equal(speed_of("8", "/missing/data.tsv", &speed), ST_IO);
    assert_non_null(strstr(status_message(), "/missing/data.tsv"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(profile_speed__more_work__fewer_examples),
        cmocka_unit_test(profile_speed__no_data__fails_by_its_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

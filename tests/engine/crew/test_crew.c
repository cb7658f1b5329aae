/* The plan of a run that is given none. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "engine/crew/crew.h"
#include "engine/crew/setup.h"

static const char text[] = "[data]\ndense = I1..I3\nsparse = C1\n[fc h]\ninput = dense\nunits = 4\n"
                           "[fc y]\ninput = h\nunits = 1\n[loss bce]\ninput = y\nlabel = label\n";
static struct setup setup = {.training = true};

static int graph_make(void **state)
{
    (void)state;
    return graph_compile(&setup.graph, "small.cfg", text, sizeof text - 1, NULL, 0, NULL) == ST_OK ? 0 : -1;
}

static int graph_remove(void **state)
{
    (void)state;
    graph_close(&setup.graph);
    return 0;
}

/* The cores that the one stage has; 0: it is refused. */
static uint32_t cores_of(uint32_t threads, uint32_t pipelines, bool training, bool share)
{
    struct crew crew;
    crew_begin(&crew, &(struct crew_options){.threads = threads});
    setup.training = training;
    setup.settings.train_pipelines = pipelines;
    if (crew_plan_default(&crew, &setup, share) != ST_OK) return 0;
    assert_int_equal(crew.plan.stage_count, 1);
    uint32_t k = crew.plan.stages[0].k;
    plan_free(&crew.plan);
    return k;
}

static void crew_plan_default__pipelines__share_the_threads(void **state)
{
    (void)state;
    assert_int_equal(cores_of(6, 1, true, false), 6);
    assert_int_equal(cores_of(6, 2, true, false), 3);
    assert_int_equal(cores_of(7, 3, true, false), 2);
    assert_int_equal(cores_of(3, 3, true, false), 1);
    assert_int_equal(cores_of(6, 2, false, false), 6); /* of training alone */
}

static void crew_plan_default__more_pipelines_than_threads__need_share(void **state)
{
    (void)state;
    assert_int_equal(cores_of(2, 3, true, false), 0);
    assert_non_null(strstr(status_message(), "train.pipelines = 3 need a core each, this process may use 2;"));
    assert_int_equal(cores_of(2, 3, true, true), 1);
    assert_int_equal(cores_of(2, 3, false, false), 2);
}

static void crew_begin__no_threads_asked_for__are_those_of_the_process(void **state)
{
    (void)state;
    struct crew crew;
    crew_begin(&crew, &(struct crew_options){0});
    assert_true(crew.threads >= 1);
    assert_int_equal(crew.threads, crew.cores.count);
    crew_begin(&crew, &(struct crew_options){.threads = crew.cores.count + 1});
    assert_int_equal(crew.threads, crew.cores.count + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crew_plan_default__pipelines__share_the_threads),
        cmocka_unit_test(crew_plan_default__more_pipelines_than_threads__need_share),
        cmocka_unit_test(crew_begin__no_threads_asked_for__are_those_of_the_process),
    };
    return cmocka_run_group_tests(tests, graph_make, graph_remove) ? 1 : 0;
}

/* The table of kinds of devices: every device that a plan can name has a row, and its facts fit together, for
 * who asks them relies on that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "engine/device/kind.h"

static void device_kind__every_device_of_a_plan__has_a_row(void **state)
{
    (void)state;
    static const struct {
        enum resource_device device;
        bool has_cores, has_memory, imitates;
    } rows[] = {{RESOURCE_CPU, true, false, false},
                {RESOURCE_CUDA, false, true, false},
                {RESOURCE_EMU, false, true, false},
                {RESOURCE_SIM, false, false, true},
                {RESOURCE_PACED, false, false, true}};
    assert_int_equal(sizeof rows / sizeof *rows, RESOURCE_DEVICE_COUNT);
    for (size_t i = 0; i < RESOURCE_DEVICE_COUNT; i++) {
        const struct device_kind *kind = device_kind(rows[i].device); /* stops the program where there is none */
        assert_int_equal(kind->has_cores, rows[i].has_cores);
        assert_int_equal(kind->has_memory, rows[i].has_memory);
        assert_int_equal(kind->imitates, rows[i].imitates);
        assert_int_equal(kind->has_memory, resource_is_card(rows[i].device));
        assert_int_equal(kind->imitates, resource_is_imitated(rows[i].device));
    }
}

static void device_kind__of_a_stage__is_that_of_its_type(void **state)
{
    (void)state;
    struct resource_type types[] = {{.name = "a", .device = RESOURCE_SIM}, {.name = "b", .device = RESOURCE_CPU}};
    struct plan_stage stages[] = {{.type = 1}, {.type = 0}};
    const struct plan plan = {.types = types, .stages = stages, .type_count = 2, .stage_count = 2};
    assert_ptr_equal(device_kind_of(&plan, 0), device_kind(RESOURCE_CPU));
    assert_ptr_equal(device_kind_of(&plan, 1), device_kind(RESOURCE_SIM));
}

#define ALIKE(kind, a, b)                                                                                              \
    do {                                                                                                               \
        if ((a) != (b)) fail_msg("device %d: %s is not %s", kind, #a, #b);                                             \
    } while (0)

static void device_kind__facts__fit_together(void **state)
{
    (void)state;
    for (int i = 0; i < RESOURCE_DEVICE_COUNT; i++) {
        const struct device_kind *kind = device_kind((enum resource_device)i);
        assert_non_null(kind->open);
        assert_true(kind->streams > 0 && kind->replicas_max > 0);
        /* A unit that is no core has a name, which messages give it. */
        ALIKE(i, kind->has_cores, kind->unit == NULL);
        if (kind->imitates || kind->has_memory) ALIKE(i, kind->has_cores, false);
        /* What a stage's devices share is opened, asked and closed. */
        ALIKE(i, kind->stage_open != NULL, kind->stage_close != NULL);
        ALIKE(i, kind->stage_open != NULL, kind->stage_figures != NULL);
        if (kind->stage_join != NULL) ALIKE(i, kind->stage_open != NULL, true);
        /* Replicas with parts of their own know each other; bsp has a bit for each (engine/sync/bsp.c). */
        if (kind->has_memory && kind->replicas_max > 1) ALIKE(i, kind->stage_join != NULL, true);
        if (kind->has_memory) ALIKE(i, kind->replicas_max <= 64, true);
    }
}

static uint32_t closed;
struct device_stage {
    int nothing;
};
static struct device_stage shared;
static status shared_open(struct device_stage **stage, const struct device_stage_options *options)
{
    (void)options;
    *stage = &shared;
    return ST_OK;
}
static status shared_join(struct device_stage *stage)
{
    (void)stage;
    FAIL(INVALID, "joined");
}
static void shared_close(struct device_stage *stage)
{
    assert_ptr_equal(stage, &shared);
    closed++;
}
static struct device_figures shared_figures(const struct device_stage *stage)
{
    (void)stage;
    return (struct device_figures){.front_bytes = 7};
}

/* Callers need not know which functions a row has. */
static void device_stage__row_with_and_without_functions__defaults(void **state)
{
    (void)state;
    static const struct device_kind bare = {.has_cores = true}, whole = {.stage_open = shared_open,
                                                                         .stage_join = shared_join,
                                                                         .stage_close = shared_close,
                                                                         .stage_figures = shared_figures};
    struct device_stage *stage = &shared;
    assert_int_equal(device_stage_open(&bare, &stage, NULL), ST_OK);
    assert_null(stage);
    assert_int_equal(device_stage_join(&bare, stage), ST_OK);
    assert_int_equal(device_stage_figures(&bare, stage).front_bytes, 0);
    device_slow_set(&bare, NULL, NULL);
    device_stage_close(&bare, stage);
    assert_int_equal(device_stage_open(&whole, &stage, NULL), ST_OK);
    assert_int_equal(device_stage_join(&whole, stage), ST_INVALID);
    assert_int_equal(device_stage_figures(&whole, stage).front_bytes, 7);
    assert_int_equal(device_stage_figures(&whole, NULL).front_bytes, 0);
    device_stage_close(&whole, NULL);
    assert_int_equal(closed, 0);
    device_stage_close(&whole, stage);
    assert_int_equal(closed, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(device_kind__every_device_of_a_plan__has_a_row),
        cmocka_unit_test(device_kind__of_a_stage__is_that_of_its_type),
        cmocka_unit_test(device_kind__facts__fit_together),
        cmocka_unit_test(device_stage__row_with_and_without_functions__defaults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

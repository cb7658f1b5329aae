/* Devices and slowings as texts: read, written, and what is none refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "graph/op.h"
#include "sched/resource.h"

static void resource_device__every_one__reads_as_it_is_written(void **state)
{
    (void)state;
    static const char *const texts[] = {"cpu", "cuda:0", "cuda:7", "cuda:999", "emu", "sim"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char text[32];
        struct resource_type type = {.device_index = 5};
        assert_true(resource_device_parse(texts[i], &type));
        assert_string_equal(resource_device_text(&type, text, sizeof text), texts[i]);
    }
}

static void resource_device_parse__none__is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"",        "CPU",       "cuda",    "cuda:", "cuda:-1",
                                        "cuda:00", "cuda:1000", "cuda:1 ", "gpu"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct resource_type type = {0};
        if (resource_device_parse(texts[i], &type)) fail_msg("read: \"%s\"", texts[i]);
    }
}

static void resource_slow_parse__sections__slow_their_ops(void **state)
{
    (void)state;
    struct resource_slow slow = {.from_step = 3};
    char text[RESOURCE_SLOW_BYTES + 1];
    assert_int_equal(resource_slow_parse("fc 4,embedding  2.5", &slow), ST_OK);
    assert_true(resource_is_slowed(&slow));
    assert_true(slow.op[OP_ID_fc] == 4 && slow.op[OP_ID_embed_bag] == 2.5f && slow.op[OP_ID_concat] == 1);
    assert_int_equal(slow.from_step, 3);
    assert_string_equal(resource_slow_text(&slow, text, sizeof text), "embedding 2.5, fc 4");
    /* The later word counts. */
    assert_int_equal(resource_slow_parse("all 3, fc 1", &slow), ST_OK);
    for (uint32_t i = 0; i < OP_ID_COUNT; i++) assert_true(slow.op[i] == (i == OP_ID_fc ? 1 : 3));
}

/* Steps of 0 to 23 in which it counts. */
static void resource_slow__by_turns__counts_in_its_steps(void **state)
{
    (void)state;
    static const struct {
        uint64_t from, count, every;
        const char *steps;
    } cases[] = {{3, 0, 0, "...#####################"},
                 {3, 2, 0, "...##..................."},
                 {3, 2, 8, "...##......##......##..."},
                 {0, 1, 2, "#.#.#.#.#.#.#.#.#.#.#.#."}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct resource_slow slow = {0};
        assert_int_equal(resource_slow_parse("fc 2", &slow), ST_OK);
        slow.from_step = cases[i].from, slow.for_steps = cases[i].count, slow.every_steps = cases[i].every;
        assert_int_equal(resource_slow_turns_check(&slow), ST_OK);
        for (uint64_t step = 0; step < 24; step++)
            assert_int_equal(resource_is_slowed_at(&slow, step), cases[i].steps[step] == '#');
        assert_int_equal(resource_slow_parse("", &slow), ST_OK);
        assert_false(resource_is_slowed_at(&slow, cases[i].from));
        assert_int_equal(resource_slow_turns_check(&slow), ST_OK);
        assert_int_equal(slow.from_step + slow.for_steps + slow.every_steps, 0);
    }
    static const uint64_t wrong[][2] = {{0, 1}, {2, 2}, {3, 2}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct resource_slow slow = {.for_steps = wrong[i][0], .every_steps = wrong[i][1]};
        assert_int_equal(resource_slow_parse("fc 2", &slow), ST_OK);
        assert_int_equal(resource_slow_turns_check(&slow), ST_INVALID);
        assert_non_null(strstr(status_message(), "less than slow_every"));
    }
}

static void resource_slow_parse__nothing_slowed__is_not_slowed(void **state)
{
    (void)state;
    static const char *const texts[] = {"", " , ", "fc 1", "all 7, all 1"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct resource_slow slow;
        char text[8] = "x";
        memset(&slow, 0xAA, sizeof slow);
        assert_int_equal(resource_slow_parse(texts[i], &slow), ST_OK);
        assert_false(resource_is_slowed(&slow));
        assert_string_equal(resource_slow_text(&slow, text, sizeof text), "");
    }
}

/* Every section, with a factor that has all digits of a float. */
static void resource_slow_text__every_op__reads_as_the_same(void **state)
{
    (void)state;
    struct resource_slow slow = {0}, read = {0};
    char text[RESOURCE_SLOW_BYTES + 1];
    for (uint32_t i = 0; i < OP_ID_COUNT; i++) {
        const uint32_t first = op_section_first(i);
        slow.op[i] = first < i ? slow.op[first] : 1000.0f / (3.0f + (float)i);
    }
    resource_slow_text(&slow, text, sizeof text);
    assert_true(strlen(text) < RESOURCE_SLOW_BYTES);
    assert_int_equal(resource_slow_parse(text, &read), ST_OK);
    assert_memory_equal(read.op, slow.op, sizeof slow.op);
}

static void resource_slow_text__short_buffer__is_cut(void **state)
{
    (void)state;
    struct resource_slow slow = {0};
    char text[8];
    assert_int_equal(resource_slow_parse("embedding 2, fc 3", &slow), ST_OK);
    assert_string_equal(resource_slow_text(&slow, text, sizeof text), "embeddi");
}

static void resource_slow_parse__wrong__says_what_was_expected(void **state)
{
    (void)state;
    static const char factors[] =
        "expected ops and factors from 1 to 1000, as in \"fc 4, embedding 2.5\" or \"all 3\", found ";
    static const char *const texts[] = {"fc",     "fc 0.5", "fc 1001", "fc 4 5",  "fc -1",
                                        "fc 1e2", "FC 4",   "4 fc",    "fc 1.2.3"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct resource_slow slow;
        assert_int_equal(resource_slow_parse(texts[i], &slow), ST_INVALID);
        if (strncmp(status_message(), factors, strlen(factors)) != 0) fail_msg("%s: %s", texts[i], status_message());
    }
    struct resource_slow slow;
    assert_int_equal(resource_slow_parse("fc 2, fcc 4", &slow), ST_INVALID);
    assert_string_equal(status_message(), "expected a section of the model text, or all, found \"fcc\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resource_device__every_one__reads_as_it_is_written),
        cmocka_unit_test(resource_device_parse__none__is_refused),
        cmocka_unit_test(resource_slow_parse__sections__slow_their_ops),
        cmocka_unit_test(resource_slow__by_turns__counts_in_its_steps),
        cmocka_unit_test(resource_slow_parse__nothing_slowed__is_not_slowed),
        cmocka_unit_test(resource_slow_text__every_op__reads_as_the_same),
        cmocka_unit_test(resource_slow_text__short_buffer__is_cut),
        cmocka_unit_test(resource_slow_parse__wrong__says_what_was_expected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}

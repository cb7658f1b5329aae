/* Gradients of shared parameters: what is added to what, and what is left alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "graph/alias.h"

#define FLOATS 160
#define LANES  3

/* Of 64 parameters, floats 16 to 47 have two further uses, the last 16 of them a third. */
static const struct graph_alias aliases[] = {{.offset = 16, .count = 32, .grad = 64},
                                             {.offset = 16, .count = 32, .grad = 96},
                                             {.offset = 32, .count = 16, .grad = 128}};

static void lanes_fill(float lanes[LANES][FLOATS], float *grad[LANES])
{
    for (uint32_t l = 0; l < LANES; l++) {
        grad[l] = lanes[l];
        for (uint32_t i = 0; i < FLOATS; i++) lanes[l][i] = 1.0f / (float)(1 + (i * 7919 + l * 104729) % 1009);
    }
}

static void aliases_fold__any_parts__adds_use_after_use_and_clears(void **state)
{
    (void)state;
    static const uint64_t parts[][5] = {{0, 64, 64, 64, 64}, {0, 16, 32, 48, 64}, {0, 24, 40, 41, 64}};
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
        float before[LANES][FLOATS], after[LANES][FLOATS], *grad[LANES];
        lanes_fill(before, grad);
        lanes_fill(after, grad);
        for (int k = 0; k < 4; k++) aliases_fold(aliases, 3, grad, LANES, parts[p][k], parts[p][k + 1]);
        for (uint32_t l = 0; l < LANES; l++)
            for (uint32_t i = 0; i < FLOATS; i++) {
                float expected = before[l][i];
                if (i >= 16 && i < 48) expected = expected + before[l][64 + i - 16] + before[l][96 + i - 16];
                if (i >= 32 && i < 48) expected = expected + before[l][128 + i - 32];
                if (i >= 64 && i < 144) expected = 0;
                assert_true(after[l][i] == expected);
            }
    }
}

static void aliases_fold__another_part_or_lane__is_left_alone(void **state)
{
    (void)state;
    float before[LANES][FLOATS], after[LANES][FLOATS], *grad[LANES];
    lanes_fill(before, grad);
    lanes_fill(after, grad);
    aliases_fold(aliases, 3, grad, LANES, 0, 16);
    aliases_fold(aliases, 3, grad, LANES, 48, 64);
    aliases_fold(aliases, 0, grad, LANES, 0, 64);
    assert_memory_equal(before, after, sizeof before);
    aliases_fold(aliases, 3, grad, 1, 0, 64);
    assert_memory_not_equal(before[0], after[0], sizeof before[0]);
    assert_memory_equal(before[1], after[1], sizeof before[1] * (LANES - 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(aliases_fold__any_parts__adds_use_after_use_and_clears),
        cmocka_unit_test(aliases_fold__another_part_or_lane__is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}

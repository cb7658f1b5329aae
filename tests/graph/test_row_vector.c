/* Vectors of rows in bfloat16: what is stored, what rounds which way, and what the noise depends on. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "graph/optimizer.h"
#include "graph/row_vector.h"

#define SEED UINT64_C(77)

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static void row_vector__any_dim__has_half_the_bytes_and_the_same_state(void **state)
{
    (void)state;
    static const struct {
        uint32_t dim, f32, bf16;
    } cases[] = {{1, 2, 2}, {2, 4, 3}, {7, 14, 11}, {16, 32, 24}};
    const struct graph_optimizer adagrad = {.kind = OPTIMIZER_ID_adagrad};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct graph_table t = {.dim = cases[i].dim};
        assert_int_equal(optimizer_table_floats(&adagrad, &t), cases[i].f32);
        t.store = TABLE_BF16;
        assert_int_equal(optimizer_table_floats(&adagrad, &t), cases[i].bf16);
        t.life.counts = 1;
        assert_int_equal(optimizer_table_floats(&adagrad, &t), cases[i].bf16 + ROW_COUNTER_FLOATS);
    }
}

/* Two in the place of a float, the first one lower, behind an odd last one a zero;
 * to nearest, of two the even. */
static void row_vector_write__numbers__are_the_nearest_where_they_belong(void **state)
{
    (void)state;
    const struct graph_table t = {.dim = 3, .store = TABLE_BF16};
    const float from[3] = {1.0f + 0x1p-8f, -2.0f, 1.0f + 0x3p-8f};
    float span[3] = {9, 9, 9}, back[3];
    uint16_t half[6];
    row_vector_write(&t, span, from);
    memcpy(half, span, sizeof half);
    assert_int_equal(half[0], 0x3f80);
    assert_int_equal(half[1], 0xc000);
    assert_int_equal(half[2], 0x3f82);
    assert_int_equal(half[3], 0);
    assert_true(span[2] == 9);
    row_vector_read(&t, span, back);
    assert_true(back[0] == 1 && back[1] == -2 && back[2] == 1.015625f);
}

/* Of 1 + f 2^-7, a share f of the draws rounds up, and the mean is the number. */
static void row_vector_round__many_keys__is_the_number_on_average(void **state)
{
    (void)state;
    enum { DIM = 8, KEYS = 20000 };
    static const float shares[DIM] = {0, 0.125f, 0.25f, 0.5f, 0.75f, 0.9375f, 0.0625f, 0.5f};
    float vector[DIM];
    for (uint32_t i = 0; i < DIM; i++) vector[i] = (i % 2 ? -1.0f : 1.0f) * (1 + shares[i] * 0x1p-7f);
    double away[DIM] = {0};
    for (uint64_t key = 0; key < KEYS; key++) {
        float span[DIM / 2] = {0};
        row_vector_round(row_noise(SEED, 3, 5), key, vector, DIM, span);
        for (uint32_t i = 0; i < DIM; i++) {
            const float x = fabsf(bf16_get(span, i));
            assert_true(x == 1 || x == 1 + 0x1p-7f);
            away[i] += x > 1;
        }
    }
    for (uint32_t i = 0; i < DIM; i++) { /* four standard deviations, and exact where the number is one */
        const double share = (double)shares[i], found = away[i] / KEYS;
        if (fabs(found - share) > 4 * sqrt(share * (1 - share) / KEYS))
            fail_msg("column %u rounds away %.4f of the time, expected %.4f", i, found, share);
    }
}

static void row_vector_round__what_is_one_or_none__stays(void **state)
{
    (void)state;
    const float vector[6] = {INFINITY, -INFINITY, NAN, 0, -0.0f, 0x1p-133f};
    for (uint64_t key = 0; key < 1000; key++) {
        float span[3] = {0};
        row_vector_round(row_noise(SEED, 0, 1), key, vector, 6, span);
        assert_true(bf16_get(span, 0) == INFINITY && bf16_get(span, 1) == -INFINITY && isnan(bf16_get(span, 2)));
        assert_int_equal(bits_of(bf16_get(span, 3)), 0);
        assert_int_equal(bits_of(bf16_get(span, 4)), 0x80000000u);
        assert_true(bf16_get(span, 5) == 0x1p-133f);
    }
}

/* Another seed, table, step, key or column draws anew; nothing else does. */
static void row_vector_round__noise__depends_on_seed_table_step_key_and_column(void **state)
{
    (void)state;
    enum { DIM = 40 };
    float vector[DIM];
    for (uint32_t i = 0; i < DIM; i++) vector[i] = 1 + 0x1p-8f;
    const struct {
        uint64_t seed, step, key;
        uint32_t table;
    } cases[] = {{1, 2, 3, 4}, {2, 2, 3, 4}, {1, 3, 3, 4},
                 {1, 2, 4, 4}, {1, 2, 3, 5}, {1, 2, 3 + (UINT64_C(1) << 40), 4}};
    float span[sizeof cases / sizeof *cases][DIM / 2], part[DIM / 2] = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        row_vector_round(row_noise(cases[i].seed, cases[i].table, cases[i].step), cases[i].key, vector, DIM, span[i]);
        for (size_t k = 0; k < i; k++) assert_memory_not_equal(span[i], span[k], sizeof *span);
        assert_memory_not_equal(span[i], (const char *)span[i] + 16, 16);
    }
    row_vector_round(row_noise(1, 4, 2), 3, vector, 10, part); /* a row that trains fewer columns */
    assert_memory_equal(part, span[0], 20);
    for (uint32_t i = 10; i < DIM; i++) assert_true(bf16_get(part, i) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_vector__any_dim__has_half_the_bytes_and_the_same_state),
        cmocka_unit_test(row_vector_write__numbers__are_the_nearest_where_they_belong),
        cmocka_unit_test(row_vector_round__many_keys__is_the_number_on_average),
        cmocka_unit_test(row_vector_round__what_is_one_or_none__stays),
        cmocka_unit_test(row_vector_round__noise__depends_on_seed_table_step_key_and_column),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}

/* The index of rows on disk: what was put in is found, 95 % full, and nothing else but what shares a tag. */
#include "tests/io/io_test.h"

#include "io/store/cold_index.h"

#define ROWS 60000u

static uint64_t key_of(uint32_t row, uint64_t seed)
{
    uint64_t state = seed + row;
    return test_random(&state);
}

static bool is_found(const struct cold_index *index, uint64_t key, uint32_t place, uint32_t *candidate_count)
{
    uint32_t found[COLD_CANDIDATES_MAX];
    bool is_there = false;
    *candidate_count = cold_index_find(index, key, found);
    for (uint32_t i = 0; i < *candidate_count; i++) {
        is_there |= found[i] == place;
        if (i > 0) assert_true(found[i] > found[i - 1]);
    }
    assert_int_equal(cold_index_has(index, key, place), is_there);
    return is_there;
}

static void check_rows(uint64_t seed, uint32_t tag_bits, uint64_t *other_count)
{
    struct cold_index index;
    uint32_t count;
    *other_count = 0;
    assert_ok(cold_index_open(&index, "test", ROWS, tag_bits));
    assert_in_range(cold_index_bytes(ROWS), 8 * ROWS, 8.5 * ROWS + 128);
    for (uint32_t r = 0; r < ROWS; r++) assert_true(cold_index_add(&index, key_of(r, seed), r));
    assert_false(cold_index_add(&index, 1, 1)); /* row_max */
    for (uint32_t r = 0; r < ROWS; r++) {
        assert_true(is_found(&index, key_of(r, seed), r, &count));
        *other_count += count - 1;
    }
    for (uint32_t r = 0; r < ROWS; r++) {
        (void)is_found(&index, key_of(r, seed + UINT64_C(1000000007)), 0, &count); /* never put in */
        *other_count += count;
    }
    /* A third goes, a third moves, and as many as went come. */
    for (uint32_t r = 0; r < ROWS; r += 3) cold_index_remove(&index, key_of(r, seed), r);
    for (uint32_t r = 1; r < ROWS; r += 3) cold_index_move(&index, key_of(r, seed), r, r + ROWS);
    for (uint32_t r = 0; r < ROWS; r += 3)
        assert_true(cold_index_add(&index, key_of(r, seed + UINT64_C(77777777)), r + 2 * ROWS));
    assert_int_equal(index.row_count, ROWS);
    for (uint32_t r = 0; r < ROWS; r++) {
        if (r % 3 == 0) {
            assert_true(is_found(&index, key_of(r, seed + UINT64_C(77777777)), r + 2 * ROWS, &count));
            assert_false(is_found(&index, key_of(r, seed), r, &count));
        } else {
            assert_true(is_found(&index, key_of(r, seed), r % 3 == 1 ? r + ROWS : r, &count));
        }
    }
    cold_index_close(&index);
}

static void full_index_finds_all(void **state)
{
    (void)state;
    uint64_t other_count;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        check_rows(seed << 40, 32, &other_count);
        assert_int_equal(other_count, 0);
    }
}

/* With short tags keys are taken for each other all the time, and yet everybody's own
 * place is among the candidates. */
static void shared_tags_give_candidates(void **state)
{
    (void)state;
    uint64_t other_count;
    check_rows(1, 8, &other_count);
    assert_in_range(other_count, ROWS / 50, ROWS);
}

/* Keys that nobody could tell apart: an index refuses what it cannot hold, and keeps the rest. */
static void equal_keys_are_refused_in_the_end(void **state)
{
    (void)state;
    struct cold_index index;
    uint32_t count = 0, found;
    assert_ok(cold_index_open(&index, "test", ROWS, 32));
    while (count < 100 && cold_index_add(&index, 12345, count)) count++;
    assert_in_range(count, 8, COLD_CANDIDATES_MAX);
    for (uint32_t r = 0; r < count; r++) assert_true(is_found(&index, 12345, r, &found));
    assert_int_equal(found, count);
    assert_int_equal(index.row_count, count);
    cold_index_close(&index);
}

static void smallest_index(void **state)
{
    (void)state;
    struct cold_index index;
    uint32_t count;
    assert_ok(cold_index_open(&index, "test", 1, 32));
    assert_true(cold_index_add(&index, 0, 0));
    assert_true(is_found(&index, 0, 0, &count));
    cold_index_remove(&index, 0, 0);
    assert_false(is_found(&index, 0, 0, &count));
    cold_index_close(&index);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_index_finds_all),
        cmocka_unit_test(shared_tags_give_candidates),
        cmocka_unit_test(equal_keys_are_refused_in_the_end),
        cmocka_unit_test(smallest_index),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

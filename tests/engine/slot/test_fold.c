/* Runs of lanes and the order in which they join, against the tree itself: level by level sum[i] = sum[2i] +
 * sum[2i+1], an odd last one passing through. Sums are written down as text with brackets, so that two are
 * equal only if every addition is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/slot/fold.h"

#define LANES_MAX 33u
#define TEXT      512u

/* "(left+right)" in place of left. */
static void join(char left[TEXT], const char right[TEXT])
{
    const size_t first = strlen(left), second = strlen(right);
    assert_true(first + second + 4 <= TEXT);
    memmove(left + 1, left, first);
    left[0] = '(';
    left[first + 1] = '+';
    memcpy(left + first + 2, right, second);
    memcpy(left + first + 2 + second, ")", 2);
}

/* The sum of `count` texts along the tree, into the first. */
static void tree(char (*sum)[TEXT], uint32_t count)
{
    for (; count > 1; count = (count + 1) / 2)
        for (uint32_t i = 0; i < (count + 1) / 2; i++) {
            memmove(sum[i], sum[2 * i], TEXT);
            if (2 * i + 1 < count) join(sum[i], sum[2 * i + 1]);
        }
}

static void lanes_name(char (*sum)[TEXT], uint32_t begin, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) snprintf(sum[i], TEXT, "%u", begin + i);
}

/* Cuts `lane_count` lanes among owners at the marked places, and compares.
 * Returns how many pieces there were. */
static uint32_t owners_try(uint32_t lane_count, const uint8_t *is_cut)
{
    static char whole[LANES_MAX][TEXT], piece[LANES_MAX][TEXT], lanes[LANES_MAX][TEXT];
    struct fold_lanes runs[LANES_MAX + FOLD_RUNS_MAX];
    struct fold_join joins[LANES_MAX];
    uint32_t count = 0;
    for (uint32_t begin = 0, end = 1; begin < lane_count; begin = end, end++) {
        while (end < lane_count && !is_cut[end]) end++;
        const uint32_t had = fold_runs((struct fold_lanes){begin, end - begin}, lane_count, runs + count);
        uint32_t lane = begin;
        for (uint32_t i = count; i < count + had; lane += runs[i++].count) assert_int_equal(runs[i].begin, lane);
        assert_int_equal(lane, end); /* all lanes, each once */
        count += had;
    }
    for (uint32_t i = 0; i < count; i++) {
        lanes_name(lanes, runs[i].begin, runs[i].count);
        tree(lanes, runs[i].count);
        strcpy(piece[i], lanes[0]);
    }
    fold_joins(runs, count, joins);
    for (uint32_t i = 0; i + 1 < count; i++) join(piece[joins[i].left], piece[joins[i].right]);
    lanes_name(whole, 0, lane_count);
    tree(whole, lane_count);
    assert_string_equal(piece[0], whole[0]);
    return count;
}

static void fold__any_cut_of_up_to_twelve_lanes__adds_as_the_tree(void **state)
{
    (void)state;
    for (uint32_t lane_count = 1; lane_count <= 12; lane_count++)
        for (uint32_t cuts = 0; cuts < 1u << (lane_count - 1); cuts++) {
            uint8_t is_cut[LANES_MAX] = {0};
            for (uint32_t i = 1; i < lane_count; i++) is_cut[i] = cuts >> (i - 1) & 1;
            (void)owners_try(lane_count, is_cut);
        }
}

static void fold__random_cuts_of_many_lanes__adds_as_the_tree(void **state)
{
    (void)state;
    srand(1);
    for (uint32_t i = 0; i < 400; i++) {
        uint8_t is_cut[LANES_MAX] = {0};
        const uint32_t lane_count = 13 + (uint32_t)rand() % (LANES_MAX - 12);
        for (uint32_t lane = 1; lane < lane_count; lane++) is_cut[lane] = rand() % 5 == 0;
        (void)owners_try(lane_count, is_cut);
    }
}

/* Lanes end one after another, the step with the last of them: of a tree of `lane_count` the first `come`. */
static void order_try(uint32_t lane_count, uint32_t come)
{
    static char place[LANES_MAX][TEXT], whole[LANES_MAX][TEXT];
    for (uint32_t lane = 0; lane < come; lane++) {
        uint32_t top = fold_place(lane);
        assert_true(top < fold_places(lane_count));
        snprintf(place[top], TEXT, "%u", lane);
        for (uint32_t left = fold_join_count(lane, lane + 1 == come); left > 0; left--, top--)
            join(place[top - 1], place[top]);
        assert_int_equal(top + 1, lane + 1 == come ? 1 : fold_place(lane + 1));
    }
    /* Lanes that do not come are zeros, which pass what they are added to through. */
    lanes_name(whole, 0, come);
    tree(whole, come);
    assert_string_equal(place[0], whole[0]);
}

static void fold_place__lanes_in_order__join_as_the_tree_in_few_places(void **state)
{
    (void)state;
    for (uint32_t lane_count = 1; lane_count <= LANES_MAX; lane_count++)
        for (uint32_t come = 1; come <= lane_count; come++) order_try(lane_count, come);
    assert_int_equal(fold_places(1), 1);
    assert_int_equal(fold_places(2), 2);
    assert_int_equal(fold_places(4), 3);
    assert_int_equal(fold_places(16), 5);
    assert_int_equal(fold_places(1024), 11);
}

static void fold_runs__aligned_shares__are_one_piece_each(void **state)
{
    (void)state;
    struct fold_lanes runs[FOLD_RUNS_MAX];
    for (uint32_t nodes = 1; nodes <= 16; nodes *= 2)
        for (uint32_t node = 0; node < nodes; node++) {
            const struct fold_lanes own = {16 / nodes * node, 16 / nodes};
            assert_int_equal(fold_runs(own, 16, runs), 1);
            assert_memory_equal(&runs[0], &own, sizeof own);
        }
    /* The right edge of a tree whose lanes are no power of two is a branch, however few lanes it has. */
    assert_int_equal(fold_runs((struct fold_lanes){8, 3}, 11, runs), 1);
    assert_int_equal(fold_runs((struct fold_lanes){8, 3}, 12, runs), 2);
    assert_int_equal(fold_runs((struct fold_lanes){3, 5}, 8, runs), 2);
    assert_int_equal(fold_runs((struct fold_lanes){1, 14}, 16, runs), 6); /* 1, 2-3, 4-7, 8-11, 12-13, 14 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fold__any_cut_of_up_to_twelve_lanes__adds_as_the_tree),
        cmocka_unit_test(fold__random_cuts_of_many_lanes__adds_as_the_tree),
        cmocka_unit_test(fold_place__lanes_in_order__join_as_the_tree_in_few_places),
        cmocka_unit_test(fold_runs__aligned_shares__are_one_piece_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Placements: what one takes, counted by hand and by a second reading of the rules; what each policy gives;
 * that exact is the least of all, and the bound never above it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/sched/trees/trees_fixture.h"

#define NODES_MAX 64u
#define OUTPUT    BINARY_KINDS

static struct trees_fixture trees;
static struct place_units units;
static struct place_clock place_clock;
static void *memory;

static int group_open(void **state)
{
    (void)state;
    fixture_open(&trees, NODES_MAX, NODES_MAX);
    memory = units_open(&units, 1, 2 * NODES_MAX, &place_clock);
    return 0;
}

static int group_close(void **state)
{
    (void)state;
    fixture_close(&trees);
    free(memory);
    return 0;
}

/* ((a b) (c d)): 0 a, 1 b, 2 of both, 3 c, 4 d, 5 of both, 6 of 2 and 5. */
static void four_leaves(uint32_t output_kind)
{
    fixture_clear(&trees);
    put(&trees, BINARY_LEAF, 0, 0, 0);
    put(&trees, BINARY_LEAF, 0, 0, 0);
    put(&trees, BINARY_INNER, 2, 0, 1);
    put(&trees, BINARY_LEAF, 0, 0, 0);
    put(&trees, BINARY_LEAF, 0, 0, 0);
    put(&trees, BINARY_INNER, 2, 3, 4);
    put(&trees, BINARY_INNER, 2, 2, 5);
    place_units_of_nodes(&units, &trees.nodes, output_kind);
}

/* A value travels in 0.5 + 4 * 0.25 one way and in 2 back. */
static struct place_machine two_devices(bool is_synchronous)
{
    struct place_machine m = {.device_count = 2, .is_synchronous = is_synchronous};
    m.seconds[0][BINARY_LEAF][0] = 1;
    m.seconds[0][BINARY_INNER][0] = 3;
    m.seconds[0][OUTPUT][0] = 1;
    m.seconds[1][BINARY_LEAF][0] = 2;
    m.seconds[1][BINARY_INNER][0] = 2;
    m.seconds[1][OUTPUT][0] = 2;
    m.bytes[BINARY_LEAF] = m.bytes[BINARY_INNER] = 4;
    m.link[0][1] = (struct place_link){0.5, 0.25};
    m.link[1][0] = (struct place_link){1, 0.25};
    return m;
}

static struct place_result took(const struct place_machine *m, const char *digits)
{
    uint8_t device[2 * NODES_MAX];
    for (uint32_t i = 0; i < units.count; i++) device[i] = (uint8_t)(digits[i] - '0');
    return place_time(&place_clock, &units, m, device);
}

static void place_time__by_hand__is_right(void **state)
{
    (void)state;
    const struct place_machine together = two_devices(false), apart = two_devices(true);
    four_leaves(TREE_NONE);
    assert_int_equal(units.count, 7);
    assert_float_equal(took(&together, "0000000").seconds, 4 * 1 + 3 * 3, 1e-12);
    assert_float_equal(took(&together, "1111111").seconds, 4 * 2 + 3 * 2, 1e-12);
    /* Left: 1, 2, 5. Right: 2, 4, 6, whose value is on device 0 at 8 and the root done at 11. */
    const struct place_result side = took(&together, "0001110");
    assert_float_equal(side.seconds, 11, 1e-12);
    assert_int_equal(side.transfers, 1);
    assert_float_equal(side.transfer_bytes, 4, 0);
    assert_float_equal(took(&apart, "0001110").seconds, 1 + 1 + 3 + 2 + 2 + 2 + 2 + 3, 1e-12);
    /* Leaves on 0 (done at 1, 2, 3, 4), inner ones on 1: the link gives a value each 1.5
     * from 1 on: 2.5, 4, 5.5, 7. */
    const struct place_result levels = took(&together, "0010011");
    assert_float_equal(levels.seconds, 7 + 2 + 2, 1e-12);
    assert_int_equal(levels.transfers, 4);
}

static void place_time__value_needed_twice__travels_once(void **state)
{
    (void)state;
    const struct place_machine m = two_devices(false);
    fixture_clear(&trees);
    put(&trees, BINARY_LEAF, 0, 0, 0);
    put(&trees, BINARY_INNER, 2, 0, 0);
    put(&trees, BINARY_INNER, 2, 0, 1);
    place_units_of_nodes(&units, &trees.nodes, TREE_NONE);
    const struct place_result r = took(&m, "011");
    assert_int_equal(r.transfers, 1);
    assert_float_equal(r.seconds, 1 + 1.5 + 2 + 2, 1e-12);
    assert_int_equal(took(&m, "000").transfers, 0);
}

static void units__of_nodes_with_outputs__say_where_they_lie(void **state)
{
    (void)state;
    four_leaves(OUTPUT);
    assert_int_equal(units.count, 14);
    for (uint32_t i = 0; i < 14; i++) {
        assert_int_equal(units.is_output[i], i % 2);
        assert_int_equal(units.kind[i], i % 2 ? OUTPUT : i == 4 || i >= 10 ? BINARY_INNER : BINARY_LEAF);
        assert_int_equal(units.is_root[i], i == 12);
        assert_int_equal(units.is_right[i], i >= 6 && i < 12); /* 3, 4, 5 and their outputs */
        assert_int_equal(units.child_begin[i + 1] - units.child_begin[i], i % 2                           ? 1
                                                                          : units.kind[i] == BINARY_INNER ? 2
                                                                                                          : 0);
    }
    assert_int_equal(units.child[units.child_begin[12]], 4);
    assert_int_equal(units.child[units.child_begin[12] + 1], 10);
    assert_int_equal(units.child[units.child_begin[13]], 12);
}

static void assert_placed(place_id id, const struct place_machine *m, const struct place_options *o, const char *digits)
{
    uint8_t device[2 * NODES_MAX];
    assert_int_equal(place_make(device, id, &units, m, o, &place_clock), ST_OK);
    for (uint32_t i = 0; i < units.count; i++) assert_int_equal(device[i] + '0', digits[i]);
}

static void place_make__fixed_policies__are_as_named(void **state)
{
    (void)state;
    const struct place_options forth = {.first = 0, .second = 1}, back = {.first = 1, .second = 0};
    struct place_machine m = two_devices(false);
    four_leaves(OUTPUT);
    assert_placed(PLACE_ID_left_right, &m, &forth, "00000011111100");
    assert_placed(PLACE_ID_left_right, &m, &back, "11111100000011");
    assert_placed(PLACE_ID_state_output, &m, &forth, "01010101010101");
    assert_placed(PLACE_ID_state_output, &m, &back, "10101010101010");
    assert_placed(PLACE_ID_one, &m, &forth, "00000000000000"); /* 20 and 28 */
    m.seconds[0][OUTPUT][0] = 3;
    assert_placed(PLACE_ID_one, &m, &forth, "11111111111111"); /* 34 and 28 */
}

static void place_make__random__is_even_and_of_the_seed(void **state)
{
    (void)state;
    struct place_machine m = two_devices(false);
    uint8_t device[2][2 * NODES_MAX];
    uint32_t on[3] = {0}, differ = 0;
    m.device_count = 3;
    four_leaves(OUTPUT);
    for (uint64_t seed = 0; seed < 1000; seed++) {
        for (int k = 0; k < 2; k++)
            assert_int_equal(
                place_make(device[k], PLACE_ID_random, &units, &m, &(struct place_options){.seed = seed}, &place_clock),
                ST_OK);
        assert_memory_equal(device[0], device[1], units.count);
        for (uint32_t i = 0; i < units.count; i++) on[device[0][i]]++;
        differ += device[0][0] != device[0][1];
    }
    for (int place = 0; place < 3; place++)
        assert_true(on[place] > 4400 && on[place] < 4933); /* of 14,000: three standard deviations and more */
    assert_true(differ > 600 && differ < 733);
}

static struct place_machine random_machine(struct draw *d)
{
    struct place_machine m = {.device_count = 1 + draw_below(d, 3), .is_synchronous = draw_below(d, 2)};
    for (uint32_t k = 0; k <= OUTPUT; k++) {
        m.bytes[k] = draw_unit(d);
        for (uint32_t i = 0; i < m.device_count; i++) m.seconds[i][k][0] = draw_unit(d) + 2 * draw_unit(d);
    }
    for (uint32_t i = 0; i < m.device_count; i++)
        for (uint32_t k = 0; k < m.device_count; k++)
            m.link[i][k] = (struct place_link){0.3 * draw_unit(d), 0.3 * draw_unit(d)};
    return m;
}

/* The least of every placement there is. */
static double least_of_all(const struct place_machine *m)
{
    uint8_t device[2 * NODES_MAX] = {0};
    double least = INFINITY;
    for (;;) {
        const double seconds = place_time(&place_clock, &units, m, device).seconds;
        if (seconds < least) least = seconds;
        uint32_t i = 0;
        while (i < units.count && ++device[i] == m->device_count) device[i++] = 0;
        if (i == units.count) return least;
    }
}

static void place_make__exact__is_the_least_of_all_and_above_the_bound(void **state)
{
    (void)state;
    struct draw d = draw_make(3, DRAW_TREES);
    uint32_t mixed = 0;
    for (int trial = 0; trial < 60; trial++) {
        double scratch[10 * NODES_MAX + 1];
        uint8_t device[2 * NODES_MAX];
        const struct place_machine m = random_machine(&d);
        fixture_clear(&trees);
        random_binary_add(&trees.nodes, 1 + draw_below(&d, 3), &d);
        place_units_of_nodes(&units, &trees.nodes, draw_below(&d, 2) ? OUTPUT : TREE_NONE);
        assert_int_equal(place_make(device, PLACE_ID_exact, &units, &m, &(struct place_options){0}, &place_clock),
                         ST_OK);
        const double exact = place_time(&place_clock, &units, &m, device).seconds, least = least_of_all(&m);
        assert_float_equal(exact, least, 1e-9);
        assert_true(place_bound(&units, &m, scratch) <= exact + 1e-9);
        for (uint32_t i = 1; i < units.count; i++)
            if (device[i] != device[0]) {
                mixed++;
                break;
            }
    }
    assert_true(mixed > 20);
}

static void place_bound__path_or_load__is_reached(void **state)
{
    (void)state;
    double scratch[10 * NODES_MAX + 1];
    struct place_machine m = two_devices(false);
    four_leaves(TREE_NONE);
    assert_float_equal(place_bound(&units, &m, scratch), 5, 1e-12); /* a path of 1 + 2 + 2; (4 * 1 + 3 * 2) / 2 */
    m.seconds[0][BINARY_LEAF][0] = 10.75, m.seconds[1][BINARY_LEAF][0] = 10;
    assert_float_equal(place_bound(&units, &m, scratch), 4 * 10 / 2. + 3, 1e-12);
    m.is_synchronous = true;
    assert_float_equal(place_bound(&units, &m, scratch), 46, 1e-12);
}

static void place_make__too_many_for_exact__says_what_to_take(void **state)
{
    (void)state;
    const struct place_machine m = two_devices(false);
    uint8_t device[2 * NODES_MAX];
    fixture_clear(&trees);
    for (uint32_t i = 0; i <= PLACE_EXACT_MAX; i++) put(&trees, BINARY_LEAF, 0, 0, 0);
    place_units_of_nodes(&units, &trees.nodes, TREE_NONE);
    assert_int_equal(place_make(device, PLACE_ID_exact, &units, &m, &(struct place_options){0}, &place_clock),
                     ST_USAGE);
    assert_string_equal(status_message(),
                        "placement exact tries every placement of up to 20 units, these are 21; take another one");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(place_time__by_hand__is_right),
        cmocka_unit_test(place_time__value_needed_twice__travels_once),
        cmocka_unit_test(units__of_nodes_with_outputs__say_where_they_lie),
        cmocka_unit_test(place_make__fixed_policies__are_as_named),
        cmocka_unit_test(place_make__random__is_even_and_of_the_seed),
        cmocka_unit_test(place_make__exact__is_the_least_of_all_and_above_the_bound),
        cmocka_unit_test(place_bound__path_or_load__is_reached),
        cmocka_unit_test(place_make__too_many_for_exact__says_what_to_take),
    };
    return cmocka_run_group_tests(tests, group_open, group_close);
}

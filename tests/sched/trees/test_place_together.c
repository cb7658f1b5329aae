/* Nodes computed together: what a placement takes, counted by hand and by a second reading of the rules; that
 * exact is the least of all and the bound never above it; where outputs and pieces lie. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sched/trees/forests.h"
#include "sched/trees/place_learn.h"
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
    fixture_open(&trees, 2 * NODES_MAX, 2 * NODES_MAX);
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

static void units_of_trees(uint32_t output_kind)
{
    static const struct batching by_height = {.id = BATCHING_ID_by_height};
    place_units_of_nodes(&units, &trees.nodes, output_kind);
    place_units_batch(&units, &by_height, &trees.scratch);
}

/* ((a b) (c d)): 0 a, 1 b, 2 of both, 3 c, 4 d, 5 of both, 6 of 2 and 5. */
static void four_leaves(uint32_t output_kind)
{
    fixture_clear(&trees);
    for (uint32_t i = 0; i < 2; i++) {
        put(&trees, BINARY_LEAF, 0, 0, 0);
        put(&trees, BINARY_LEAF, 0, 0, 0);
        put(&trees, BINARY_INNER, 2, 3 * i, 3 * i + 1);
    }
    put(&trees, BINARY_INNER, 2, 2, 5);
    units_of_trees(output_kind);
}

/* Device 0: a launch costs nothing, a leaf 1, an inner one 3; device 1: a launch 2, a node 0.5. */
static struct place_machine two_devices(void)
{
    struct place_machine m = {.device_count = 2, .is_together = true, .root_bytes = 2};
    for (uint32_t i = 0; i < PLACE_SIZES; i++) {
        m.seconds[0][BINARY_LEAF][i] = 1 << i;
        m.seconds[0][BINARY_INNER][i] = 3 << i;
        m.seconds[0][OUTPUT][i] = 0.25 * (1 << i);
        for (uint32_t k = 0; k <= OUTPUT; k++) m.seconds[1][k][i] = 2 + 0.5 * (1 << i);
    }
    m.bytes[BINARY_LEAF] = m.bytes[BINARY_INNER] = 4;
    m.input_bytes[BINARY_LEAF] = 8;
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

static void place_seconds__between_and_behind_sizes__is_straight(void **state)
{
    (void)state;
    struct place_machine m = two_devices();
    assert_float_equal(place_seconds(&m, 0, BINARY_LEAF, 0), 0, 0);
    assert_float_equal(place_seconds(&m, 1, BINARY_LEAF, 1), 2.5, 1e-12);
    assert_float_equal(place_seconds(&m, 1, BINARY_LEAF, 7), 5.5, 1e-12);
    assert_float_equal(place_seconds(&m, 1, BINARY_LEAF, 100000), 50002, 1e-6);
    m.seconds[1][BINARY_LEAF][2] = 10;
    assert_float_equal(place_seconds(&m, 1, BINARY_LEAF, 3), 6.5, 1e-12);
}

static void place_time__together_by_hand__is_right(void **state)
{
    (void)state;
    struct place_machine m = two_devices();
    four_leaves(TREE_NONE);
    const struct place_result host = took(&m, "0000000"), card = took(&m, "1111111");
    assert_float_equal(host.seconds, 4 + 6 + 3, 1e-12);
    assert_int_equal(host.launches, 3);
    assert_int_equal(host.transfers, 0);
    /* 32 bytes of words come by 8.5; 4 leaves, 2 inner ones, the root; its 2 bytes go back in 1.5. */
    assert_float_equal(card.seconds, 8.5 + 4 + 3 + 2.5 + 1.5, 1e-12);
    assert_int_equal(card.launches, 3);
    assert_int_equal(card.transfers, 2);
    assert_float_equal(card.transfer_bytes, 34, 1e-12);
    /* Leaves on 0 until 4, their 16 bytes on 1 at 8.5, two inner ones until 11.5,
     * 8 bytes back at 14.5, the root. */
    const struct place_result mixed = took(&m, "0010010");
    assert_float_equal(mixed.seconds, 8.5 + 3 + 3 + 3, 1e-12);
    assert_int_equal(mixed.transfers, 2);
    assert_int_equal(mixed.launches, 3);
    /* Side by side: 2 and its leaves on 0 until 5; 5's words on 1 at 4.5, its leaves until 7.5, 5
     * until 10, its 4 bytes on 0 at 12. */
    const struct place_result sides = took(&m, "0001110");
    assert_float_equal(sides.seconds, 12 + 3, 1e-12);
    assert_int_equal(sides.launches, 5);
    m.is_synchronous = true;
    assert_float_equal(took(&m, "0001110").seconds, 4.5 + 2 + 3 + 3 + 2.5 + 2 + 3, 1e-12);
}

static void place_time__value_for_two_batches__travels_once(void **state)
{
    (void)state;
    const struct place_machine m = two_devices();
    fixture_clear(&trees);
    put(&trees, BINARY_LEAF, 0, 0, 0);
    put(&trees, BINARY_INNER, 2, 0, 0);
    put(&trees, BINARY_INNER, 2, 0, 1);
    units_of_trees(TREE_NONE);
    const struct place_result r = took(&m, "011");
    assert_int_equal(r.transfers, 2); /* the leaf's value, and the root's */
    assert_float_equal(r.transfer_bytes, 6, 0);
    assert_float_equal(r.seconds, 1 + 1.5 + 2.5 + 2.5 + 1.5, 1e-12);
}

static void place_units_batch__outputs__are_one_batch_at_the_end(void **state)
{
    (void)state;
    const uint32_t begins[] = {0, 4, 6, 7, 14}, kinds[] = {BINARY_LEAF, BINARY_INNER, BINARY_INNER, OUTPUT};
    four_leaves(OUTPUT);
    assert_int_equal(units.it.batch_count, 4);
    for (uint32_t b = 0; b < 4; b++) {
        assert_int_equal(units.it.batch_begin[b + 1], begins[b + 1]);
        assert_int_equal(units.it.batch_kind[b], kinds[b]);
    }
    uint32_t seen = 0;
    for (uint32_t i = 0; i < 14; i++) {
        seen |= 1u << units.it.order[i];
        assert_int_equal(units.is_output[units.it.order[i]], i >= 7);
        assert_int_equal(units.piece[i] / PLACE_STRETCHES, 0); /* all paths are as long */
        if (i % 2) assert_true(units.piece[i] - units.piece[i - 1] <= 1);
    }
    assert_int_equal(seen, (1 << 14) - 1);
}

/* (a (b (c d))): a has slack of two of three levels, b of one. */
static void place_units_batch__short_paths__have_slack(void **state)
{
    (void)state;
    fixture_clear(&trees);
    for (uint32_t i = 0; i < 4; i++) put(&trees, BINARY_LEAF, 0, 0, 0);
    put(&trees, BINARY_INNER, 2, 2, 3);
    put(&trees, BINARY_INNER, 2, 1, 4);
    put(&trees, BINARY_INNER, 2, 0, 5);
    units_of_trees(TREE_NONE);
    const uint32_t slack[] = {2, 1, 0, 0, 0, 0, 0};
    for (uint32_t i = 0; i < 7; i++) assert_int_equal(units.piece[i] / PLACE_STRETCHES, slack[i] * PLACE_SLACKS / 4);
    for (uint32_t i = 1; i < 4; i++) assert_true(units.piece[units.it.order[i - 1]] <= units.piece[units.it.order[i]]);
}

/* --- random machines ---------------------------------------------------------------------------- */

static struct place_machine random_machine(struct draw *d)
{
    struct place_machine m = {.device_count = 1 + draw_below(d, 3),
                              .is_synchronous = draw_below(d, 4) == 0,
                              .is_together = true,
                              .root_bytes = draw_below(d, 2) ? draw_unit(d) : 0};
    for (uint32_t k = 0; k <= OUTPUT; k++) {
        m.bytes[k] = draw_unit(d);
        m.input_bytes[k] = draw_below(d, 2) ? draw_unit(d) : 0;
        for (uint32_t i = 0; i < m.device_count; i++) {
            m.seconds[i][k][0] = 0.1 + 2 * draw_unit(d);
            for (uint32_t s = 1; s < PLACE_SIZES; s++) m.seconds[i][k][s] = m.seconds[i][k][s - 1] * (1 + draw_unit(d));
        }
    }
    for (uint32_t i = 0; i < m.device_count; i++)
        for (uint32_t k = 0; k < m.device_count; k++)
            m.link[i][k] = (struct place_link){0.3 * draw_unit(d), 0.3 * draw_unit(d)};
    return m;
}

static void random_trees(struct draw *d, uint32_t leaves_max)
{
    fixture_clear(&trees);
    trees.nodes.child_begin[0] = 0;
    for (uint32_t t = 1 + draw_below(d, 2); t > 0; t--)
        random_binary_add(&trees.nodes, 1 + draw_below(d, leaves_max), d);
    units_of_trees(draw_below(d, 2) ? OUTPUT : TREE_NONE);
}

/* The rules once more, asynchronous: a value at a time, looked for in all batches before. */
static double read_again(const struct place_machine *m, const uint8_t *device)
{
    double done[2 * NODES_MAX], there[2 * NODES_MAX][3], busy[3] = {0}, link[3][3] = {{0}}, end = 0;
    for (uint32_t i = 0; i < units.count; i++)
        for (uint32_t to = 0; to < 3; to++) there[i][to] = -1;
    for (uint32_t b = 0; b < units.it.batch_count; b++)
        for (uint32_t to = 0; to < m->device_count; to++) {
            double bytes[3] = {0}, begin[3] = {0}, at = busy[to];
            uint32_t here[2 * NODES_MAX], count = 0;
            for (uint32_t i = units.it.batch_begin[b]; i < units.it.batch_begin[b + 1]; i++)
                if (device[units.it.order[i]] == to) here[count++] = units.it.order[i];
            if (count == 0) continue;
            bool asked[2 * NODES_MAX] = {false};
            for (uint32_t i = 0; i < count; i++) {
                if (to != 0) bytes[0] += m->input_bytes[units.kind[here[i]]];
                for (uint32_t e = units.child_begin[here[i]]; e < units.child_begin[here[i] + 1]; e++) {
                    const uint32_t child = units.child[e], from = device[child];
                    if (from == to || there[child][to] >= 0 || asked[child]) continue;
                    asked[child] = true;
                    bytes[from] += m->bytes[units.kind[child]];
                    if (done[child] > begin[from]) begin[from] = done[child];
                }
            }
            for (uint32_t from = 0; from < m->device_count; from++) {
                if (bytes[from] == 0) continue;
                if (link[from][to] > begin[from]) begin[from] = link[from][to];
                link[from][to] = begin[from] + m->link[from][to].latency + bytes[from] * m->link[from][to].a_byte;
                if (link[from][to] > end) end = link[from][to];
                for (uint32_t c = 0; c < units.count; c++)
                    if (asked[c] && device[c] == from) there[c][to] = link[from][to];
                if (link[from][to] > at) at = link[from][to];
            }
            for (uint32_t i = 0; i < count; i++)
                for (uint32_t e = units.child_begin[here[i]]; e < units.child_begin[here[i] + 1]; e++) {
                    const uint32_t child = units.child[e];
                    const double when = device[child] == to ? done[child] : there[child][to];
                    if (when > at) at = when;
                }
            busy[to] = at + place_seconds(m, to, units.it.batch_kind[b], count);
            if (busy[to] > end) end = busy[to];
            for (uint32_t i = 0; i < count; i++) done[here[i]] = busy[to];
        }
    for (uint32_t from = 1; from < m->device_count; from++) {
        double begin = link[from][0], bytes = 0;
        for (uint32_t i = 0; i < units.count; i++)
            if (units.is_root[i] && device[i] == from) {
                bytes += m->root_bytes;
                if (done[i] > begin) begin = done[i];
            }
        if (bytes > 0) end = fmax(end, begin + m->link[from][0].latency + bytes * m->link[from][0].a_byte);
    }
    return end;
}

static void place_time__random_placements__equals_a_second_reading(void **state)
{
    (void)state;
    struct draw d = draw_make(5, DRAW_TREES);
    for (int trial = 0; trial < 200; trial++) {
        struct place_machine m = random_machine(&d);
        uint8_t device[2 * NODES_MAX];
        m.is_synchronous = false;
        random_trees(&d, 12);
        for (uint32_t i = 0; i < units.count; i++) device[i] = (uint8_t)draw_below(&d, m.device_count);
        assert_float_equal(place_time(&place_clock, &units, &m, device).seconds, read_again(&m, device), 1e-9);
    }
}

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

static void place_make__exact_together__is_the_least_of_all_and_above_the_bound(void **state)
{
    (void)state;
    struct draw d = draw_make(3, DRAW_TREES);
    uint32_t tried = 0, mixed = 0;
    while (tried < 60) {
        double scratch[10 * NODES_MAX + 1];
        uint8_t device[2 * NODES_MAX];
        const struct place_machine m = random_machine(&d);
        random_trees(&d, 3);
        if (pow(m.device_count, units.count) > 20000) continue;
        tried++;
        assert_int_equal(place_make(device, PLACE_ID_exact, &units, &m, &(struct place_options){0}, &place_clock),
                         ST_OK);
        const double exact = place_time(&place_clock, &units, &m, device).seconds;
        assert_float_equal(exact, least_of_all(&m), 1e-9);
        const double bound = place_bound(&units, &m, scratch);
        assert_true(bound <= exact + 1e-9 && bound > 0.2 * exact);
        for (uint32_t i = 1; i < units.count; i++)
            if (device[i] != device[0]) {
                mixed++;
                break;
            }
    }
    assert_true(mixed > 15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(place_seconds__between_and_behind_sizes__is_straight),
        cmocka_unit_test(place_time__together_by_hand__is_right),
        cmocka_unit_test(place_time__value_for_two_batches__travels_once),
        cmocka_unit_test(place_units_batch__outputs__are_one_batch_at_the_end),
        cmocka_unit_test(place_units_batch__short_paths__have_slack),
        cmocka_unit_test(place_time__random_placements__equals_a_second_reading),
        cmocka_unit_test(place_make__exact_together__is_the_least_of_all_and_above_the_bound),
    };
    return cmocka_run_group_tests(tests, group_open, group_close);
}

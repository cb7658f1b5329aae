/* Automata in words: what is put is found again, any words are a valid automaton or refused, and none makes a
 * wrong itinerary. What has been learned needs fewer batches than the agenda, and never more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>

#include "sched/trees/automaton_learn.h"
#include "tests/sched/trees/trees_fixture.h"

static uint32_t words[AUTOMATON_WORDS_MAX];

/* A state of two kinds. */
static struct automaton_sight sight_of(uint32_t a, uint32_t b, uint32_t most)
{
    struct automaton_sight sight = {.most = most};
    sight.kinds[a / 32] |= UINT32_C(1) << a % 32;
    sight.kinds[b / 32] |= UINT32_C(1) << b % 32;
    return sight;
}

static void automaton__states_put_in_any_order__are_found(void **state)
{
    (void)state;
    struct automaton automaton;
    struct draw d = draw_make(5, DRAW_TREES);
    size_t count = 1;
    uint8_t take[20][20] = {{0}};
    memset(take, 0xff, sizeof take);
    words[0] = 100;
    for (uint32_t i = 0; i < 300; i++) {
        uint32_t a = draw_below(&d, 20), b = draw_below(&d, 20);
        if (a >= b) continue;
        struct automaton_sight sight = sight_of(a * 5, b * 5, a * 5);
        take[a][b] = (uint8_t)(draw_below(&d, 2) ? a * 5 : b * 5);
        automaton_put(words, &count, &sight, take[a][b]);
        assert_int_equal(automaton_read(&automaton, words, count, 100), ST_OK);
    }
    for (uint32_t a = 0; a < 20; a++)
        for (uint32_t b = a + 1; b < 20; b++) {
            struct automaton_sight sight = sight_of(a * 5, b * 5, a * 5), other = sight_of(a * 5, b * 5, b * 5);
            assert_int_equal(automaton_take(&automaton, &sight), take[a][b] == 0xff ? AUTOMATON_NONE : take[a][b]);
            assert_int_equal(automaton_take(&automaton, &other), AUTOMATON_NONE);
        }
    while (count > 1) {
        automaton_drop(words, &count, draw_below(&d, (uint32_t)(count / AUTOMATON_STATE_WORDS)));
        assert_int_equal(automaton_read(&automaton, words, count, 100), ST_OK);
    }
}

static void refused(const uint32_t *wrong, size_t count, const char *message)
{
    struct automaton automaton;
    assert_int_equal(automaton_read(&automaton, wrong, count, 3), ST_INVALID);
    assert_string_equal(status_message(), message);
}

static void automaton_read__wrong_words__are_refused_by_place(void **state)
{
    (void)state;
    struct automaton automaton;
    const uint32_t good[] = {3, 3, 0, 0, 0, 0x000, 3, 0, 0, 0, 0x101, 5, 0, 0, 0, 0x200};
    uint32_t bad[16];
    assert_int_equal(automaton_read(&automaton, good, 16, 3), ST_OK);
    assert_int_equal(automaton.state_count, 3);
    assert_int_equal(automaton_read(&automaton, good, 1, 3), ST_OK);
    refused(good, 0, "a batching automaton of 0 words; expected 1 and 5 a state, of at most 4096 states");
    refused(good, 15, "a batching automaton of 15 words; expected 1 and 5 a state, of at most 4096 states");
    refused(words, AUTOMATON_WORDS_MAX + 5,
            "a batching automaton of 20486 words; expected 1 and 5 a state, of at most 4096 states");
#define WITH(place, value, message)                                                                                    \
    do {                                                                                                               \
        memcpy(bad, good, sizeof good);                                                                                \
        bad[place] = (value);                                                                                          \
        refused(bad, 16, message);                                                                                     \
    } while (0)
    WITH(0, 4, "a batching automaton of 4 kinds, where there are 3 (at most 128)");
    WITH(1, 11, "a batching automaton: word 1: kind 3 of 3");
    WITH(4, 1, "a batching automaton: word 4: kind 96 of 3");
    WITH(5, 2, "a batching automaton: word 5: kinds 0 and 2; expected two that are ready");
    WITH(5, 0x200, "a batching automaton: word 5: kinds 2 and 0; expected two that are ready");
    WITH(5, 0xffffff00, "a batching automaton: word 5: kinds 16777215 and 0; expected two that are ready");
    WITH(5, 0x100, "a batching automaton: word 6: a state that does not come behind the one before");
    WITH(11, 3, "a batching automaton: word 15: kinds 2 and 0; expected two that are ready");
    uint32_t too_many[] = {TREE_KINDS_MAX + 1};
    assert_int_equal(automaton_read(&automaton, too_many, 1, TREE_KINDS_MAX + 1), ST_INVALID);
}

/* Words at random, and good ones with some changed: whatever is read gives a right itinerary with no
 * more batches than the agenda's. */
static void automaton_read__any_words__are_refused_or_of_use(void **state)
{
    (void)state;
    struct trees_fixture f;
    struct draw d = draw_make(6, DRAW_TREES);
    uint32_t accepted = 0, kinds = 3;
    fixture_open(&f, 200, 600);
    random_graph_add(&f.nodes, 200, kinds, 20, &d);
    uint32_t agenda = batches(&f, BATCHING_ID_agenda, kinds);
    for (uint32_t round = 0; round < 20000; round++) {
        struct batching policy = {.id = BATCHING_ID_learned};
        size_t count = 1;
        words[0] = kinds;
        for (uint32_t i = draw_below(&d, 6); i > 0; i--) {
            uint32_t a = draw_below(&d, 3), b = draw_below(&d, 3);
            struct automaton_sight sight = sight_of(a, b, a);
            automaton_put(words, &count, &sight, b);
        }
        for (uint32_t i = draw_below(&d, 4); i > 0; i--)
            words[draw_below(&d, (uint32_t)count)] = draw_below(&d, 2) ? draw_u32(&d) : draw_below(&d, 8);
        count += draw_below(&d, 8) == 0;
        if (automaton_read(&policy.automaton, words, count, kinds) != ST_OK) continue;
        accepted++;
        itinerary_make(&f.itinerary, &f.nodes, kinds, &policy, &f.scratch);
        assert_in_range(f.itinerary.batch_count, 1, agenda);
        itinerary_check(&f);
    }
    printf("# %u of 20000 were automata\n", accepted);
    assert_in_range(accepted, 2000, 18000);
    fixture_close(&f);
}

/* --- learning --------------------------------------------------------------------------------- */

#define SETS 20u

struct family {
    const char *name;
    uint32_t kind_count, set_count;
    double share; /* of the agenda's batches, at most, on sets that it did not learn from */
};
static const struct family families[] = {
    {"25 trees of MathFunc", MATH_KINDS, SETS, 0.95},
    {"graphs of three kinds", GRAPH_KINDS, SETS, 0.96},
    {"binary trees", BINARY_KINDS, SETS, 1},
};

static void family_add(struct trees_fixture *f, uint32_t family, struct draw *d)
{
    fixture_clear(f);
    for (uint32_t t = 0; t < 25 && family != 1; t++)
        if (family == 0)
            random_math_add(&f->nodes, f->value, 40 + t, d);
        else
            random_binary_add(&f->nodes, 1 + draw_below(d, 30), d);
    if (family == 1) random_graph_add(&f->nodes, 500, GRAPH_KINDS, 50, d);
}

/* Batches by a policy of all sets, none of which may have more than the agenda. */
static uint64_t sum_batches(struct trees_fixture *sets, uint32_t kind_count, const struct batching *policy)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < SETS; i++) {
        uint32_t agenda = batches(&sets[i], BATCHING_ID_agenda, kind_count);
        itinerary_make(&sets[i].itinerary, &sets[i].nodes, kind_count, policy, &sets[i].scratch);
        itinerary_check(&sets[i]);
        assert_true(sets[i].itinerary.batch_count <= agenda);
        assert_true(sets[i].itinerary.batch_count >= itinerary_bound(&sets[i].nodes, kind_count, &sets[i].scratch));
        sum += sets[i].itinerary.batch_count;
    }
    return sum;
}

static void automaton_learn__families__needs_fewer_batches_than_agenda(void **state)
{
    (void)state;
    static struct trees_fixture sets[SETS], others[SETS];
    struct tree_nodes list[SETS];
    struct draw d = draw_make(8, DRAW_TREES);
    for (uint32_t i = 0; i < SETS; i++) {
        fixture_open(&sets[i], 2000, 3000);
        fixture_open(&others[i], 2000, 3000);
    }
    for (uint32_t family = 0; family < sizeof families / sizeof *families; family++) {
        const struct family *of = &families[family];
        for (uint32_t i = 0; i < SETS; i++) {
            family_add(&sets[i], family, &d);
            family_add(&others[i], family, &d);
            list[i] = sets[i].nodes;
        }
        static uint32_t again[AUTOMATON_WORDS_MAX];
        const struct learn_options options = {.seed = 4, .sweeps = 100};
        const struct batching agenda = {.id = BATCHING_ID_agenda};
        struct batching learned = {.id = BATCHING_ID_learned};
        struct learn_report report, report_again;
        size_t count, count_again;
        assert_int_equal(automaton_learn(words, &count, list, SETS, of->kind_count, &options, &report), ST_OK);
        assert_int_equal(automaton_learn(again, &count_again, list, SETS, of->kind_count, &options, &report_again),
                         ST_OK);
        assert_int_equal(count, count_again);
        assert_memory_equal(words, again, count * sizeof *words);
        assert_int_equal(automaton_read(&learned.automaton, words, count, of->kind_count), ST_OK);
        assert_int_equal(report.agenda, sum_batches(sets, of->kind_count, &agenda));
        assert_int_equal(report.learned, sum_batches(sets, of->kind_count, &learned));
        uint64_t by_agenda = sum_batches(others, of->kind_count, &agenda),
                 by_learned = sum_batches(others, of->kind_count, &learned);
        printf("# %s: learned from %u: agenda %" PRIu64 ", learned %" PRIu64 ", bound %" PRIu64
               ", %u states; others: agenda %" PRIu64 ", learned %" PRIu64 "\n",
               of->name, SETS, report.agenda, report.learned, report.bound, learned.automaton.state_count, by_agenda,
               by_learned);
        if (of->share < 1) assert_true(report.learned < report.agenda);
        assert_true((double)by_learned <= of->share * (double)by_agenda);
    }
    for (uint32_t i = 0; i < SETS; i++) {
        fixture_close(&sets[i]);
        fixture_close(&others[i]);
    }
}

/* Hundreds of small lists of any kinds: what is learned is never worse, and what is reported is so. */
static void automaton_learn__random_lists__is_never_worse_than_agenda(void **state)
{
    (void)state;
    struct trees_fixture f[3];
    struct tree_nodes list[3];
    struct draw d = draw_make(9, DRAW_TREES);
    uint32_t better = 0;
    for (uint32_t i = 0; i < 3; i++) fixture_open(&f[i], 100, 300);
    for (uint32_t round = 0; round < 300; round++) {
        uint32_t kinds = 1 + draw_below(&d, 6), sets = draw_below(&d, 4);
        uint64_t agenda = 0, learned = 0, bound = 0;
        for (uint32_t i = 0; i < sets; i++) {
            fixture_clear(&f[i]);
            random_graph_add(&f[i].nodes, draw_below(&d, 100), kinds, 1 + draw_below(&d, 20), &d);
            list[i] = f[i].nodes;
        }
        size_t count;
        struct learn_report report;
        struct batching policy = {.id = BATCHING_ID_learned};
        const struct learn_options options = {.seed = round, .sweeps = 20};
        assert_int_equal(automaton_learn(words, &count, list, sets, kinds, &options, &report), ST_OK);
        assert_int_equal(automaton_read(&policy.automaton, words, count, kinds), ST_OK);
        for (uint32_t i = 0; i < sets; i++) {
            agenda += batches(&f[i], BATCHING_ID_agenda, kinds);
            bound += itinerary_bound(&f[i].nodes, kinds, &f[i].scratch);
            itinerary_make(&f[i].itinerary, &f[i].nodes, kinds, &policy, &f[i].scratch);
            itinerary_check(&f[i]);
            learned += f[i].itinerary.batch_count;
        }
        assert_int_equal(report.agenda, agenda);
        assert_int_equal(report.learned, learned);
        assert_int_equal(report.bound, bound);
        assert_true(bound <= learned && learned <= agenda);
        better += learned < agenda;
    }
    printf("# %u of 300 lists are shorter than by agenda\n", better);
    assert_true(better > 50);
    for (uint32_t i = 0; i < 3; i++) fixture_close(&f[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(automaton__states_put_in_any_order__are_found),
        cmocka_unit_test(automaton_read__wrong_words__are_refused_by_place),
        cmocka_unit_test(automaton_read__any_words__are_refused_or_of_use),
        cmocka_unit_test(automaton_learn__families__needs_fewer_batches_than_agenda),
        cmocka_unit_test(automaton_learn__random_lists__is_never_worse_than_agenda),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

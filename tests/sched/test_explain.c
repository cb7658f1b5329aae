/* Explanations: the runner-up of a layer is the cheapest there is, the words say what differs, lines fit, and
 * nothing in a name gets out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <xxhash.h>

#include "sched/explain.h"
#include "engine/base/words.h"
#include "tests/sched/solution_fixture.h"

static struct fixture f;
static type_index types[FIXTURE_LAYERS];
static struct cost_stage stages[FIXTURE_LAYERS];

static char *explained(const struct solution *solution)
{
    static char *text;
    static size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    assert_int_equal(explain_write(out, solution), ST_OK);
    assert_int_equal(fclose(out), 0);
    return text;
}

static char *compared(uint32_t count)
{
    static char *text;
    static size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    compare_write(out, f.solutions, count);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) fail_msg("expected \"%s\" in:\n%s", part, text);
}

/* Every line is at most 120 characters, ends without blanks, and is text. */
static void assert_lines_are_good(char *text)
{
    for (char *line = text, *end; *line; line = end + 1) {
        end = strchr(line, '\n');
        assert_non_null(end);
        *end = 0;
        if (words_width(line) > 120) fail_msg("%u characters: %s", words_width(line), line);
        for (const char *at = line; *at; at++) assert_true((unsigned char)*at >= 0x20 && *at != 0x7F);
        *end = '\n';
    }
}

/* --- other types ------------------------------------------------------------------------------ */

static void explain_layer__any_layer__is_the_cheapest_single_change(void **state)
{
    (void)state;
    fixture_open(&f, 12, 9, 100000);
    fixture_solve(&f);
    for (uint32_t l = 0; l < 12; l++) {
        struct explain_change change = explain_layer(&f.model, &f.solutions[0], l, types, stages);
        double best = INFINITY;
        for (uint32_t t = 0; t < 9; t++) {
            type_index plan[FIXTURE_LAYERS];
            struct cost_stage other[FIXTURE_LAYERS];
            memcpy(plan, f.solutions[0].types, sizeof plan);
            if (plan[l] == t) continue;
            plan[l] = (type_index)t;
            best = fmin(best, provision_exact(&f.model, other, cost_stages(&f.model, plan, other)).score);
        }
        assert_true(change.result.score == best);
        assert_int_equal(change.layer, l);
        assert_int_equal(types[l], change.type);
        assert_true(change.type != f.solutions[0].types[l]);
        /* What is left in `stages` is that plan. */
        assert_true(cost_of(&f.model, stages, change.stage_count).cost == change.result.cost);
        double rate = 0; /* USD an hour */
        for (uint32_t s = 0; s < change.stage_count; s++) rate += f.model.price[stages[s].type] * stages[s].k;
        assert_true(change.rate == rate);
    }
    fixture_close(&f);
}

static void explain_layer__one_type__has_no_other(void **state)
{
    (void)state;
    char text[256];
    fixture_open(&f, 5, 1, 0);
    fixture_solve(&f);
    struct explain_change change = explain_layer(&f.model, &f.solutions[0], 2, types, stages);
    assert_int_equal(change.type, GRAPH_NONE);
    assert_string_equal(explain_change_text(&f.model, &f.solutions[0], &change, stages, text, sizeof text),
                        "there is no other type");
    fixture_close(&f);
}

/* Six layers on cores but one in the middle, 2, which is moved away from its neighbours. */
static void change_open(double throughput_limit)
{
    fixture_open(&f, 6, 2, throughput_limit);
    fixture_solution(&f, "cpu", false);
}

static void explain_change_text__layer_leaves_its_neighbours__counts_cuts_bytes_and_units(void **state)
{
    (void)state;
    char text[1024];
    change_open(1000);
    struct explain_change change = explain_layer(&f.model, &f.solutions[0], 2, types, stages);
    assert_int_equal(change.stage_count, 3);
    explain_change_text(&f.model, &f.solutions[0], &change, stages, text, sizeof text);
    /* cut_bytes is 512 + 64 l behind layer l: 576 and 640. */
    assert_has(text, "2 further cuts, 1.19 KiB more to move an example; ");
    assert_has(text, "more gpu1");
    assert_has(text, "; USD an hour ");
    fixture_close(&f);
}

static void explain_change_text__bytes_not_known__tells_seconds(void **state)
{
    (void)state;
    char text[1024];
    change_open(1000);
    for (uint32_t l = 0; l < 6; l++) f.layers[l].cut_bytes = 0;
    struct explain_change change = explain_layer(&f.model, &f.solutions[0], 5, types, stages);
    explain_change_text(&f.model, &f.solutions[0], &change, stages, text, sizeof text);
    assert_has(text, "1 further cut, ");
    assert_has(text, "µs less to move an example; ");
    fixture_close(&f);
}

static void explain_change_text__no_units_left__says_which_stage_lacks_them(void **state)
{
    (void)state;
    char text[1024];
    change_open(10000);
    f.types[1].resource.limit = f.model.limit[1] = 1;
    f.times[1 * 2 + 1].oct *= 1000;
    cost_model_free(&f.model);
    assert_int_equal(cost_model_open(&f.model, &f.instance), ST_OK);
    struct explain_change change = explain_layer(&f.model, &f.solutions[0], 1, types, stages);
    assert_false(change.result.is_feasible);
    explain_change_text(&f.model, &f.solutions[0], &change, stages, text, sizeof text);
    char most[128], number[WORDS_BYTES], rounder[WORDS_BYTES];
    assert_string_not_equal(words_number(number, change.result.throughput, 4),
                            words_number(rounder, change.result.throughput, 3));
    snprintf(most, sizeof most, "infeasible: at most %s of 10,000 examples/s", number);
    assert_has(text, most);
    assert_has(text, " of 10,000 examples/s, because embedding_1 on gpu1 would need more than the 1 unit there is");
    assert_int_equal(explain_prefix(text), strlen("infeasible: "));
    /* Where the part that does not divide is too slow, no unit helps. */
    f.times[1 * 2 + 1].alpha = 0;
    f.types[1].resource.limit = 9;
    cost_model_free(&f.model);
    assert_int_equal(cost_model_open(&f.model, &f.instance), ST_OK);
    change = explain_layer(&f.model, &f.solutions[0], 1, types, stages);
    explain_change_text(&f.model, &f.solutions[0], &change, stages, text, sizeof text);
    assert_has(text, "an example however many units it has");
    /* A buffer that is too small cuts. */
    explain_change_text(&f.model, &f.solutions[0], &change, stages, text, 20);
    assert_int_equal(strlen(text), 19);
    fixture_close(&f);
}

/* What a layer costs on its own, on the type that computes it for least, and what the plan
 * would cost with it there. */
static void explain_layer_text__cheaper_elsewhere__tells_what_the_plan_would_cost(void **state)
{
    (void)state;
    uint32_t dearer = 0, infeasible = 0, cheapest = 0;
    fixture_open(&f, 12, 9, 100000);
    f.types[0].resource.limit = f.model.limit[0] = 12;
    fixture_solve(&f);
    for (uint32_t s = 0; s < f.solution_count; s++)
        for (uint32_t l = 0; l < 12; l++) {
            const struct solution *chosen = &f.solutions[s];
            char text[256], expected[64];
            type_index plan[FIXTURE_LAYERS];
            struct cost_stage other[FIXTURE_LAYERS];
            double least = INFINITY, usd[9];
            for (type_index type = 0; type < 9; type++) {
                const struct cost_time *time = &f.model.times[l * 9 + type];
                usd[type] = (time->compute + time->compute_shared) * f.model.price[type];
            }
            memcpy(plan, chosen->types, sizeof plan);
            for (type_index type = 0; type < 9; type++)
                if (type != chosen->types[l] && usd[type] < least) least = usd[plan[l] = type];
            explain_layer_text(&f.model, chosen, l, types, stages, text, sizeof text);
            if (usd[chosen->types[l]] <= least) {
                assert_has(text, "cheapest to compute here: ");
                cheapest++;
                continue;
            }
            assert_has(text, "cheaper to compute on ");
            struct cost_result there = provision_exact(&f.model, other, cost_stages(&f.model, plan, other));
            if (!there.is_feasible) {
                assert_has(text, "; but the plan would be infeasible");
                infeasible++;
            } else if (chosen->result.is_feasible && there.cost > chosen->result.cost) {
                snprintf(expected, sizeof expected, "; but the plan would cost %s",
                         words_change(WORDS, there.cost / chosen->result.cost));
                assert_has(text, expected);
                dearer++;
            } else {
                assert_null(strstr(text, "; but"));
            }
        }
    assert_true(dearer > 0 && infeasible > 0 && cheapest > 0);
    fixture_close(&f);
}

/* --- other throughputs ------------------------------------------------------------------------ */

static void explain_provisions__from_what_is_asked__none_is_cheaper_than_the_chosen(void **state)
{
    (void)state;
    enum { ROOM = 2000 };
    static struct explain_point points[ROOM];
    fixture_open(&f, 12, 4, 50000);
    fixture_solve(&f);
    const struct solution *chosen = &f.solutions[0];
    uint32_t count = explain_provisions(&f.model, chosen, 50000, stages, points, ROOM);
    bool has_chosen = false;
    assert_true(count > 20);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(points[i].throughput >= 50000 * (1 - 1e-12));
        assert_true(i == 0 || points[i].throughput > points[i - 1].throughput);
        assert_true(points[i].cost >= chosen->result.cost * (1 - 1e-12));
        has_chosen =
            has_chosen || fabs(points[i].throughput - chosen->result.throughput) < 1e-6 * chosen->result.throughput;
    }
    assert_true(has_chosen);
    /* The last is the greatest that the limits allow. */
    assert_int_equal(
        explain_provisions(&f.model, chosen, points[count - 1].throughput * (1 + 1e-6), stages, points, ROOM), 0);
    /* With room for one: the first. */
    double first = points[0].throughput;
    assert_int_equal(explain_provisions(&f.model, chosen, 50000, stages, points, 1), 1);
    assert_true(points[0].throughput == first);
    fixture_close(&f);
}

/* --- the whole -------------------------------------------------------------------------------- */

static void explain_write__plan__begins_with_totals_and_explains_each_layer(void **state)
{
    (void)state;
    fixture_open(&f, 20, 16, 150000);
    fixture_solve(&f);
    f.solutions[0].rl_cost = f.solutions[0].result.cost * 1.25;
    char *text = explained(&f.solutions[0]), line[64];
    assert_memory_equal(text, "plan        fixture: 20 layers on 16 types, in ", 46);
    assert_has(text, "\ncost        ");
    assert_has(text, "; proven: no plan costs less\n");
    assert_has(text, "of the 150,000 asked");
    assert_has(text, "reinforcement learning alone found ");
    assert_has(text, "(+25 %)");
    for (uint32_t l = 0; l < 20; l++) {
        snprintf(line, sizeof line, "\n  %-28s", f.layers[l].name);
        assert_has(text, line);
    }
    assert_true(strstr(text, "\ncost ") < strstr(text, "\nstages ") &&
                strstr(text, "\nstages ") < strstr(text, "\nlayers "));
    assert_has(text, " are as the instance gives them.");
    assert_has(text, "\n\nlayers "); /* parts are apart */
    assert_lines_are_good(text);
    free(text);
    fixture_close(&f);
}

static void explain_write__not_measured__says_what_the_figures_rest_on(void **state)
{
    (void)state;
    char words[1024];
    fixture_open(&f, 5, 3, 1000);
    f.types[0].source = INSTANCE_MEASURED;
    f.types[1].source = INSTANCE_STORED;
    f.types[2].source = INSTANCE_DECLARED;
    for (uint32_t l = 0; l < 5; l++) {
        f.times[l * 3].alpha_low = 0.98;
        f.times[l * 3].alpha_high = 1;
    }
    explain_sources_text(&f.instance, words, sizeof words);
    assert_has(words, "Times of cpu-core are measured on this machine.");
    assert_has(words, "Times of gpu1 are stored: measured elsewhere");
    assert_has(words, "Times of gpu2 are declared: ");
    assert_has(words, "How far 5 of these 10 layer times divide among units (alpha) is assumed");
    for (uint32_t l = 0; l < 5; l++) f.times[l * 3 + 1] = f.times[l * 3];
    explain_sources_text(&f.instance, words, sizeof words);
    assert_null(strstr(words, "assumed"));
    fixture_close(&f);
}

static void explain_write__hostile_names__fit_and_are_text(void **state)
{
    (void)state;
    fixture_open(&f, 20, 6, 150000);
    fixture_solve(&f);
    for (uint32_t l = 0; l < 20; l++) {
        memset(f.names[l], l % 2 ? 'W' : 0xFF, RESOURCE_NAME_BYTES);
        memcpy(f.names[l], "\x1b[2J\n%s%n", 9);
    }
    for (uint32_t t = 0; t < 6; t++) memset(f.names[FIXTURE_LAYERS + t], 'a' + (int)t, RESOURCE_NAME_BYTES);
    f.instance.name = f.names[0];
    for (uint32_t s = 0; s < f.solution_count; s++) {
        char *text = explained(&f.solutions[s]);
        assert_lines_are_good(text);
        free(text);
    }
    fixture_close(&f);
}

static void explain_write__infeasible__says_why_and_goes_on(void **state)
{
    (void)state;
    fixture_open(&f, 8, 2, 9e9);
    fixture_solve(&f);
    char *text = explained(&f.solutions[0]);
    assert_has(text, "\ninfeasible  at most ");
    assert_has(text, "no plan does better");
    assert_has(text, "\nlayers ");
    assert_lines_are_good(text);
    free(text);
    /* No plan at all. */
    f.solutions[0].stage_count = 0;
    f.solutions[0].result = (struct cost_result){0};
    text = explained(&f.solutions[0]);
    assert_has(text, "\ninfeasible  exact has proposed no plan");
    assert_null(strstr(text, "\nlayers "));
    free(text);
    fixture_close(&f);
}

static void explain_write__no_unit_for_a_stage__tells_no_stages(void **state)
{
    (void)state;
    fixture_open(&f, 8, 2, 1000);
    f.types[0].resource.limit = f.model.limit[0] = 1;
    fixture_solve(&f);
    char *text = explained(&f.solutions[4]);
    assert_has(text, "\ninfeasible  the stages on cpu-core need a unit each, and it has 1");
    assert_null(strstr(text, "\nstages "));
    free(text);
    fixture_close(&f);
}

/* Whole texts of plans of several sizes, good ones and bad ones, by a fingerprint: a text that is
 * meant to change gets another one. */
static void explain_write__plans_of_all_sizes__in_the_same_words(void **state)
{
    (void)state;
    static const struct {
        uint32_t layers, types;
        double limit;
        uint64_t fingerprint;
    } cases[] = {{5, 2, 5000, UINT64_C(0xb9a1bad37a4df065)},
                 {20, 16, 150000, UINT64_C(0x767d670c20223d26)},
                 {5, 1, 0, UINT64_C(0x96075018c6440cee)},
                 {24, 12, 1200000, UINT64_C(0x17a5447c3c5849db)},
                 {64, 3, 3000, UINT64_C(0x1419fab97ca4cb42)}};
    bool is_good = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t hash = 0;
        struct explain_point points[8];
        fixture_open(&f, cases[i].layers, cases[i].types, cases[i].limit);
        fixture_solve(&f);
        for (uint32_t s = 0; s < f.solution_count; s++) {
            char *text = explained(&f.solutions[s]);
            hash = XXH3_64bits_withSeed(text, strlen(text), hash);
            free(text);
            const uint32_t count = explain_provisions(&f.model, &f.solutions[s], 100, stages, points, 8);
            hash = XXH3_64bits_withSeed(points, count * sizeof *points, hash);
        }
        for (uint32_t count = 1; count <= f.solution_count; count += 3) {
            char *text = compared(count);
            hash = XXH3_64bits_withSeed(text, strlen(text), hash);
            free(text);
        }
        fixture_close(&f);
        if (hash != cases[i].fingerprint) print_message("# case %zu: 0x%016" PRIx64 "\n", i, hash);
        is_good = is_good && hash == cases[i].fingerprint;
    }
    assert_true(is_good);
}

/* --- methods side by side --------------------------------------------------------------------- */

static void compare_write__several__a_line_each_with_its_gap(void **state)
{
    (void)state;
    fixture_open(&f, 20, 16, 150000);
    fixture_solve(&f);
    f.solutions[1].result.cost = f.solutions[0].result.cost * 1.28;
    char *text = compared(8), expected[64];
    uint32_t line_count = 0;
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++) line_count++;
    assert_int_equal(line_count, 9);
    assert_has(text, "over proven");
    snprintf(expected, sizeof expected, "\nexact%20s%14s", words_number(WORDS, f.solutions[0].result.cost, 4), "0 %");
    assert_has(text, expected);
    assert_has(text, "+28 %");
    assert_false(f.solutions[5].result.is_feasible);
    snprintf(expected, sizeof expected, "\ncpu%22s%14s%12s%9s", "-", "infeasible",
             words_count(WORDS, f.solutions[5].result.throughput),
             words_share(WORDS, f.solutions[5].result.throughput / 150000));
    assert_has(text, expected);
    assert_has(text, "  evaluations\n");
    assert_has(text, "  proof\n");
    assert_lines_are_good(text);
    free(text);
    fixture_close(&f);
}

static void compare_write__none_proven__gaps_are_to_the_best(void **state)
{
    (void)state;
    bool is_proven;
    fixture_open(&f, 6, 3, 1000);
    fixture_solve(&f);
    f.solutions[0].is_proven = false;
    f.solutions[2].result.cost = f.solutions[0].result.cost / 2;
    assert_true(compare_reference(f.solutions, 8, &is_proven) == f.solutions[2].result.cost);
    assert_false(is_proven);
    char *text = compared(8);
    assert_has(text, "over best");
    free(text);
    for (uint32_t s = 0; s < 8; s++) f.solutions[s].result.is_feasible = false;
    assert_true(compare_reference(f.solutions, 8, &is_proven) == 0);
    free(compared(8));
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(explain_layer__any_layer__is_the_cheapest_single_change),
        cmocka_unit_test(explain_layer__one_type__has_no_other),
        cmocka_unit_test(explain_change_text__layer_leaves_its_neighbours__counts_cuts_bytes_and_units),
        cmocka_unit_test(explain_change_text__bytes_not_known__tells_seconds),
        cmocka_unit_test(explain_change_text__no_units_left__says_which_stage_lacks_them),
        cmocka_unit_test(explain_layer_text__cheaper_elsewhere__tells_what_the_plan_would_cost),
        cmocka_unit_test(explain_provisions__from_what_is_asked__none_is_cheaper_than_the_chosen),
        cmocka_unit_test(explain_write__plan__begins_with_totals_and_explains_each_layer),
        cmocka_unit_test(explain_write__not_measured__says_what_the_figures_rest_on),
        cmocka_unit_test(explain_write__hostile_names__fit_and_are_text),
        cmocka_unit_test(explain_write__infeasible__says_why_and_goes_on),
        cmocka_unit_test(explain_write__no_unit_for_a_stage__tells_no_stages),
        cmocka_unit_test(explain_write__plans_of_all_sizes__in_the_same_words),
        cmocka_unit_test(compare_write__several__a_line_each_with_its_gap),
        cmocka_unit_test(compare_write__none_proven__gaps_are_to_the_best),
    };
    int failure_count = cmocka_run_group_tests(tests, NULL, NULL);
    return failure_count ? 1 : 0;
}

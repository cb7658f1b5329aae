/* Training with stages on emulated cards: the bytes of one card on several, the CPU's rows, what is
 * moved, and what is refused or fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/engine/device/card/card_fixture.h"
#include "tests/engine/pipe/pipeline_fixture.h"

#include <math.h>

#include "gpu/now.h"

#define DATA_ROWS 43u /* steps of 32 and 11 examples: the last one has a short micro-batch, and lanes without any */
#define STEPS     2u
#define ROWS_ROWS 200u /* of the tests of rows: seven steps a pass */

static char data_path[128], rows_path[128], eval_path[128];

static int group_open(void **state)
{
    if (fixture_open(state) != 0) return -1;
    snprintf(data_path, sizeof data_path, "%s", fixture_path("data.tsv"));
    snprintf(rows_path, sizeof rows_path, "%s", fixture_path("rows.tsv"));
    snprintf(eval_path, sizeof eval_path, "%s", fixture_path("eval.tsv"));
    fixture_data(data_path, 0, DATA_ROWS, NULL);
    fixture_data(rows_path, 0, ROWS_ROWS, NULL);
    fixture_data(eval_path, 10000, 10, NULL);
    return 0;
}

static int test_begin(void **state)
{
    (void)state;
    cards_begin();
    cards_are(3, 0, 0);
    return 0;
}

#define ON_CPU   "0-7:1:1"
#define ON_ONE   "0-1:1:1 2-7:1:1e"
#define ON_TWO   "0-1:1:1 2-7:2:2e"
#define ON_THREE "0-1:1:1 2-7:3:3e"

static void whole_open(struct training *t, const char *const *set, const char *data, const struct setup *setup)
{
    assert_ok(training_open(t, card_model_text, set, data, setup));
    training_start(t, NULL);
}

/* The stage that is on cards has moved this. */
static struct device_figures figures_of(const struct training *t, uint32_t stage)
{
    const struct station *station = &t->pipeline->stations[stage];
    return device_stage_figures(station->stage.kind, station->devices);
}

/* --- one card, or several ------------------------------------------------------------------------ */

struct outcome {
    uint64_t model, told, predictions;
};
/* With a pause after `pause` steps, in which parameters go home and come back. */
static struct outcome run_whole(const char *const *set, const struct setup *setup, uint64_t pause)
{
    struct training t;
    whole_open(&t, set, data_path, setup);
    if (pause) assert_ok(training_until(&t, pause));
    if (pause) assert_ok(pipeline_check(t.pipeline));
    assert_ok(training_until(&t, UINT64_MAX));
    assert_int_equal(t.model.progress.step, STEPS);
    const struct outcome outcome = {training_hash(&t), XXH3_64bits_digest(t.told), training_predict(&t, eval_path)};
    training_close(&t);
    return outcome;
}

/* More cards, another order of their work, other cuts, a pause: the bytes of one card. */
static void cards_check(const char *const *set)
{
    static const struct {
        struct setup setup;
        uint64_t pause;
    } ways[] = {{{.plan = ON_ONE, .threads = 1}, 0},
                {{.plan = ON_TWO, .threads = 1, .delay_seed = 1, .delay_ns_max = 200000}, 0},
                {{.plan = ON_THREE, .threads = 1, .in_flight = 7}, 1},
                {{.plan = "0-1:1:1 2-3:1:1e 4-7:2:2e", .threads = 1, .in_flight = 3}, 0}};
    struct outcome expected = {0};
    for (uint32_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        cards_are(3, 0, 11 * i);
        const struct outcome outcome = run_whole(set, &ways[i].setup, ways[i].pause);
        if (i == 0) expected = outcome;
        if (outcome.model != expected.model) fail_msg("%s: other parameters or state", ways[i].setup.plan);
        if (outcome.told != expected.told) fail_msg("%s: other losses", ways[i].setup.plan);
        if (outcome.predictions != expected.predictions) fail_msg("%s: other predictions", ways[i].setup.plan);
    }
}

static void stage__on_one_two_three_cards__same_bytes(void **state)
{
    (void)state;
    cards_check(NULL);
}

static void stage__norm_bounded_on_one_two_three_cards__same_bytes(void **state)
{
    (void)state;
    static const char *const set[] = {"train.clip_norm=0.1", NULL};
    cards_check(set);
}

/* So that what all cards agree on is not wrong. */
static void stage__on_a_card__learns_what_the_cpu_learns(void **state)
{
    (void)state;
    struct training cpu, card;
    static const char *const set[] = {"train.clip_norm=0.1", NULL};
    whole_open(&cpu, set, data_path, &(struct setup){.plan = ON_CPU, .threads = 1});
    whole_open(&card, set, data_path, &(struct setup){.plan = ON_TWO, .threads = 1});
    assert_ok(training_until(&cpu, UINT64_MAX));
    assert_ok(training_until(&card, UINT64_MAX));
    for (uint64_t i = 0; i < cpu.graph.header->param_floats; i++)
        if (!(fabsf(cpu.model.param[i] - card.model.param[i]) <= 1e-4f))
            fail_msg("parameter %d is %g, on the CPU %g", (int)i, (double)card.model.param[i],
                     (double)cpu.model.param[i]);
    training_close(&card);
    training_close(&cpu);
}

/* --- rows ---------------------------------------------------------------------------------------- */

#define ROWS_MAX      4096u
#define ROWS_ON_CARD  "0-1:1:1e 2-7:1:1"
#define SPAN_BYTES    64u /* of a row: vector and sums of squares, 8 floats each */
#define STEP_ROWS_MAX 128u

/* The rows of each step, in order of first occurrence. */
struct step_of_rows {
    uint32_t count, row[STEP_ROWS_MAX];
};
static uint32_t steps_read(struct step_of_rows *steps, const char *const *set)
{
    struct training t;
    struct input *input;
    uint32_t step = 0;
    whole_open(&t, set, rows_path, &(struct setup){.plan = ON_CPU, .threads = 1});
    for (enum feed_state state; (state = feed_try_next(t.feed, &input)) != FEED_END;) {
        if (state == FEED_EMPTY) continue;
        const struct ticket_table *table = &input->ticket.table[0];
        struct step_of_rows *of = &steps[step];
        for (uint32_t u = 0; u < table->unique_count; u++) {
            uint32_t i = 0;
            while (i < of->count && of->row[i] != table->row[u]) i++;
            assert_true(i < STEP_ROWS_MAX && table->row[u] < ROWS_MAX);
            of->row[i] = table->row[u];
            if (i == of->count) of->count++;
        }
        step += input->batch.is_last;
        feed_release(t.feed, input);
    }
    training_close(&t);
    return step;
}

/* Which rows are resident, by the rule of engine/device/card/card_rows.h, for a tier of `tier` rows; the job
 * ends after step `pause` and after the last. */
static struct device_row_figures rows_simulate(const struct step_of_rows *steps, uint32_t step_count, uint32_t pause,
                                               uint32_t tier)
{
    static uint32_t place_of[ROWS_MAX], row_of[ROWS_MAX]; /* place + 1, or 0 */
    static bool is_seen[ROWS_MAX], is_used[ROWS_MAX], is_changed[ROWS_MAX];
    struct device_row_figures f = {0};
    uint32_t taken = 0, hand = 0, cold[STEP_ROWS_MAX];
    memset(place_of, 0, sizeof place_of), memset(is_seen, 0, sizeof is_seen);
    for (uint32_t s = 0; s < step_count; s++) {
        uint32_t cold_count = 0;
        for (uint32_t i = 0; i < steps[s].count; i++) {
            const uint32_t row = steps[s].row[i], place = place_of[row];
            if (place == 0) cold[cold_count++] = row;
            if (place != 0) is_used[place - 1] = is_changed[place - 1] = true;
        }
        f.resident += steps[s].count - cold_count;
        f.cold += cold_count;
        uint32_t looks = tier < 2 * cold_count ? tier : 2 * cold_count; /* the hand goes round once at most */
        for (uint32_t i = 0; i < cold_count && tier > 0; i++) {
            uint32_t place = ROWS_MAX;
            if (!is_seen[cold[i]]) {
                is_seen[cold[i]] = true;
                continue;
            }
            if (taken < tier) place = taken++, row_of[place] = ROWS_MAX;
            for (; place == ROWS_MAX && looks > 0; looks--, hand = (hand + 1) % tier) {
                if (!is_used[hand]) place = hand;
                is_used[hand] = false;
            }
            if (place == ROWS_MAX) continue;
            if (row_of[place] != ROWS_MAX) {
                place_of[row_of[place]] = 0;
                is_seen[row_of[place]] = false;
                f.moved_home += is_changed[place];
            }
            is_used[place] = true;
            is_changed[place] = false;
            row_of[place] = cold[i];
            place_of[cold[i]] = place + 1;
            f.moved_in++;
        }
        for (uint32_t i = 0; i < taken && (s + 1 == pause || s + 1 == step_count); i++) {
            f.moved_home += is_changed[i];
            is_changed[i] = false;
        }
    }
    return f;
}

static const char *const two_passes[] = {"train.epochs=2", NULL};
#define PAUSE 5u

/* However many rows stay on the card, all are the CPU's, also after a job in the middle; and as many are
 * resident and move as the rule says. */
static void rows__some_resident__bytes_of_the_cpu_and_counted(void **state)
{
    (void)state;
    static struct step_of_rows steps[32];
    const uint32_t step_count = steps_read(steps, two_passes), tiers[] = {0, 20, ROWS_MAX};
    uint64_t hashes[2] = {0};
    for (uint32_t i = 0; i <= sizeof tiers / sizeof *tiers; i++) {
        struct training t;
        const uint32_t tier = i == 0 ? 0 : tiers[i - 1];
        const struct setup setup = {
            .plan = i == 0 ? ON_CPU : ROWS_ON_CARD, .threads = 1, .card_row_bytes = tier * SPAN_BYTES};
        whole_open(&t, two_passes, rows_path, &setup);
        assert_int_equal(t.graph.tables[0].span_floats * sizeof(float), SPAN_BYTES);
        for (uint32_t job = 0; job < 2; job++) {
            assert_ok(training_until(&t, job ? UINT64_MAX : PAUSE));
            if (i == 0) hashes[job] = training_hash(&t);
            if (training_hash(&t) != hashes[job]) fail_msg("%u rows on the card: other bytes after job %u", tier, job);
        }
        assert_int_equal(t.model.progress.step, step_count);
        const struct device_row_figures f = figures_of(&t, 0).rows;
        const struct device_row_figures expected = rows_simulate(steps, step_count, PAUSE, tier);
        if (i > 0 && memcmp(&f, &expected, sizeof f) != 0)
            fail_msg("%u rows on the card: resident %d, cold %d, moved in %d, home %d; expected %d, %d, %d, %d", tier,
                     (int)f.resident, (int)f.cold, (int)f.moved_in, (int)f.moved_home, (int)expected.resident,
                     (int)expected.cold, (int)expected.moved_in, (int)expected.moved_home);
        if (tier == 20) assert_true(f.moved_in > 20 && f.moved_home > 20); /* some made room for others */
        training_close(&t);
    }
}

/* Rows that come and go stay with the host. */
static void rows__that_come_and_go__all_cold_with_bytes_of_the_cpu(void **state)
{
    (void)state;
    static const char *const set[] = {"train.epochs=2", "emb.admit=2", "emb.ttl=2", "store.period=4", NULL};
    uint64_t expected = 0;
    for (int is_card = 0; is_card <= 1; is_card++) {
        struct training t;
        whole_open(&t, set, rows_path,
                   &(struct setup){.plan = is_card ? ROWS_ON_CARD : ON_CPU, .threads = 1, .card_row_bytes = 1 << 20});
        assert_ok(training_until(&t, UINT64_MAX));
        if (!is_card) expected = training_hash(&t);
        assert_int_equal(training_hash(&t), expected);
        const struct device_row_figures f = figures_of(&t, 0).rows;
        if (is_card) assert_true(f.cold > 0 && f.resident + f.moved_in + f.moved_home == 0);
        training_close(&t);
    }
}

/* Memory of all cards with so many bytes for rows that stay, of two tables. */
static int64_t cards_bytes(const char *plan, uint64_t row_bytes)
{
    static const char text[] = "[data]\ndense = I1..I3\nsparse = C1..C4\n[table a]\ndim = 8\n[table b]\ndim = 8\n"
                               "[embedding e]\ntable = a\ninput = C1..C3\n[embedding w]\ntable = b\ninput = C4\n"
                               "[concat h]\ninput = e, w, dense\n[fc y]\ninput = h\nunits = 1\n"
                               "[loss bce]\ninput = y\n[train]\nbatch = 32\nmicro = 4\nlanes = 4\n";
    struct training t;
    int64_t bytes = 0;
    cards_begin();
    assert_ok(training_open(&t, text, NULL, data_path,
                            &(struct setup){.plan = plan, .threads = 1, .card_row_bytes = row_bytes}));
    for (uint32_t i = 0; i < CARDS_SEEN_MAX; i++) bytes += cards_seen[i].gpu ? (int64_t)cards_seen[i].memory_bytes : 0;
    training_start(&t, NULL);
    training_close(&t);
    return bytes;
}

/* Stages of one card have its room for rows together. */
static void rows__of_two_stages_of_a_card__share_its_room(void **state)
{
    (void)state;
    static const char *const plans[] = {"0-4:1:1e", "0-0:1:1e 1-4:1:1e"};
    const int64_t room = 100 * SPAN_BYTES, slack = 4 * 256;
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        const int64_t taken = cards_bytes(plans[i], (uint64_t)room) - cards_bytes(plans[i], 0);
        if (taken > room + slack || taken < room - slack)
            fail_msg("%s: %d bytes of %d", plans[i], (int)taken, (int)room);
    }
}

/* --- what is moved ------------------------------------------------------------------------------- */

static uint64_t extent_bytes(const struct extent *e, bool with_state)
{
    uint64_t floats = 0;
    for (uint32_t r = 0; r < e->run_count; r++)
        floats += e->runs[r].count * (1 + (with_state ? e->runs[r].state_count : 0));
    return floats * sizeof(float);
}

/* What a card says to have moved is what crosses, examples times its bytes; and what it was seen to copy,
 * beside parameters and state before and after the job and a few words a micro-batch. */
static void figures__bytes_moved__those_that_cross(void **state)
{
    (void)state;
    static const struct {
        const char *plan;
        uint32_t front, behind, other; /* floats an example */
    } cases[] = {
        /* x and its gradient, the label; the loss, what was predicted */
        {ON_ONE, 2 * 35 + 1, 0, 2},
        {"0-1:1:1 2-2:1:1e 3-7:1:1", 2 * 35, 2 * 35, 0}, /* n and its gradient                      */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct training t;
        card_refuse(CALL_CAPTURE, 1, true); /* then every copy is seen */
        whole_open(&t, NULL, data_path, &(struct setup){.plan = cases[i].plan, .threads = 2});
        const struct extent *e = &t.pipeline->stations[1].stage.extent;
        const uint64_t in_before = cards_seen[0].in_bytes, out_before = cards_seen[0].out_bytes;
        assert_ok(training_until(&t, UINT64_MAX));
        const struct device_figures figures = figures_of(&t, 1);
        assert_int_equal(figures.front_bytes, (uint64_t)DATA_ROWS * cases[i].front * sizeof(float));
        assert_int_equal(figures.behind_bytes, (uint64_t)DATA_ROWS * cases[i].behind * sizeof(float));
        assert_int_equal(figures.other_bytes, (uint64_t)DATA_ROWS * cases[i].other * sizeof(float));
        const uint64_t micros = (DATA_ROWS + 3) / 4,
                       now = micros * (sizeof(struct gpu_now) + t.graph.table_count * sizeof(uint32_t)),
                       in = cards_seen[0].in_bytes - in_before - extent_bytes(e, true) - now,
                       out = cards_seen[0].out_bytes - out_before - extent_bytes(e, true);
        assert_int_equal(in + out, figures.front_bytes + figures.behind_bytes + figures.other_bytes);
        training_close(&t);
        card_refuse_nothing();
    }
}

/* --- what fails ---------------------------------------------------------------------------------- */

/* A call that a card refuses ends the job with its words, and which pass it was of. A pass that fails before
 * its step has updated leaves the model of the step before. */
static void stage__card_refuses_a_call__job_ends_with_its_message_fault(void **state)
{
    (void)state;
    static const struct {
        enum card_call call;
        bool for_good;
        int64_t n;
        bool is_pass;
    } cases[] = {
        {CALL_REPLAY, false, 1, true},  {CALL_REPLAY, false, 17, true}, {CALL_WAIT, false, 9, false},
        {CALL_LAUNCH, true, 40, false}, {CALL_COPY, true, 30, false},   {CALL_COPY, false, 1, false},
    };
    uint64_t hashes[STEPS + 1];
    struct training t;
    const struct setup setup = {.plan = ON_TWO, .threads = 1};
    const size_t planned = memory_planned_bytes();
    whole_open(&t, NULL, data_path, &setup);
    hashes[0] = training_hash(&t);
    for (uint64_t step = 0; step < STEPS; step++) {
        assert_ok(training_until(&t, step + 1));
        hashes[step + 1] = training_hash(&t);
    }
    training_close(&t);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char words[128];
        snprintf(words, sizeof words, REFUSED("%s"), card_call_names[cases[i].call]);
        whole_open(&t, NULL, data_path, &setup);
        card_refuse(cases[i].call, cases[i].n, cases[i].for_good);
        const status st = training_until(&t, UINT64_MAX);
        if (st == ST_OK) fail_msg("%s: nothing fails", words);
        assert_int_equal(st, ST_SYSTEM);
        assert_message(words);
        if (cases[i].is_pass) assert_message("stage n..bce, ");
        if (cases[i].is_pass) assert_message(" examples in step ");
        if (strstr(status_message(), "forward pass of")) {
            assert_true(t.model.progress.step < STEPS);
            assert_int_equal(training_hash(&t), hashes[t.model.progress.step]);
        }
        training_close(&t);
        card_refuse_nothing();
        assert_int_equal(memory_planned_bytes(), planned);
    }
}

/* --- what is refused ----------------------------------------------------------------------------- */

#define TEXT_BEGIN                                                                                                     \
    "[data]\ndense = I1..I3\nsparse = C1..C4\n[table emb]\ndim = 3\n[embedding e]\ntable = emb\ninput = C1..C2\n"
#define TEXT_END "[fc y]\ninput = h\nunits = 1\n[loss bce]\ninput = y\n[train]\nbatch = 32\nmicro = 4\nlanes = 4\n"
#define FIVE(x)  x x x x x
/* Layers: 0 e, 1 a, 2 h, 3 y, 4 bce. */
static const char interact_text[] = TEXT_BEGIN
    "[fc a]\ninput = e\nunits = 2\n[interact h]\ndim = 2\ninput = " FIVE(FIVE("a, a, ") "a, a, a, ") "\n" TEXT_END;
/* Layers: 0 e, 1 w, 2 h, 3 y, 4 bce. */
static const char tables_text[] =
    TEXT_BEGIN "[embedding w]\ntable = emb\ninput = C3..C4\n[concat h]\ninput = e, w, dense\n" TEXT_END;

static void stage__cannot_be_on_cards__says_why(void **state)
{
    (void)state;
    static const char *const two_lanes[] = {"train.lanes=2", NULL};
    static const char *const waves[] = {"train.sync=wsp", "train.micro=32", "train.lanes=1", NULL};
    static const struct {
        const char *text, *plan;
        const char *const *set;
        uint32_t cards;
        uint64_t card_bytes;
        status st;
        const char *message;
    } cases[] = {
        {interact_text, "0-1:1:1 2-4:1:1e", NULL, 1, 0, ST_INVALID,
         "stage h..bce is on emu: a card runs interact with at most 64 inputs, and h has 65: place its layer on"},
        {card_model_text, "0-4:1:1 5-7:1:1e", NULL, 1, 0, ST_INVALID,
         "stage h3..bce is on emu, and [h3] shares its parameters with [h2] of another stage: give both to one stage"},
        {tables_text, "0-0:1:1 1-4:1:1e", NULL, 1, 0, ST_INVALID,
         "table emb is looked up on a card and by other stages: give all its layers to one stage, or to cpu"},
        {card_model_text, "0-7:2:2e", NULL, 2, 0, ST_INVALID,
         "stage e..bce is on 2 cards and looks rows up, which one card does, or the CPU: give it k = 1"},
        {card_model_text, ON_THREE, two_lanes, 3, 0, ST_INVALID,
         "stage n..bce is on 3 cards, and steps have 2 lanes, which each run on one: raise train.lanes"},
        {card_model_text, ON_TWO, NULL, 1, 0, ST_USAGE,
         "stage n..bce is on emu; this machine has 1 card: give its layers to another type"},
        {card_model_text, ON_ONE, waves, 1, 0, ST_INVALID, "is on a card, which needs train.sync = bsp"},
        {card_model_text, ON_ONE, NULL, 1, 1000000, ST_MEMORY, "bytes for stage n..bce: parameters and state"},
        {card_model_text, ON_ONE, NULL, 1, 1000000, ST_MEMORY,
         "1000000 are free; free memory of the card, lower train.in_flight or train.micro, or give layers to other"},
        {card_model_text, "0-1:1:1e 2-7:1:1", NULL, 1, 1000000, ST_MEMORY,
         "; free memory of the card, lower store.gpu, train.in_flight or train.micro, or give layers to other types"},
    };
    const size_t planned = memory_planned_bytes();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct training t;
        const struct setup setup = {.plan = cases[i].plan, .threads = 2};
        cards_are(cases[i].cards, cases[i].card_bytes, 0);
        const status st = training_open(&t, cases[i].text, cases[i].set, data_path, &setup);
        if (st == ST_OK) fail_msg("%s was opened, expected: %s", cases[i].plan, cases[i].message);
        assert_message(cases[i].message);
        assert_int_equal(st, cases[i].st);
        assert_int_equal(memory_planned_bytes(), planned);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(stage__on_one_two_three_cards__same_bytes, test_begin),
        cmocka_unit_test_setup(stage__norm_bounded_on_one_two_three_cards__same_bytes, test_begin),
        cmocka_unit_test_setup(stage__on_a_card__learns_what_the_cpu_learns, test_begin),
        cmocka_unit_test_setup(rows__some_resident__bytes_of_the_cpu_and_counted, test_begin),
        cmocka_unit_test_setup(rows__that_come_and_go__all_cold_with_bytes_of_the_cpu, test_begin),
        cmocka_unit_test_setup(rows__of_two_stages_of_a_card__share_its_room, test_begin),
        cmocka_unit_test_setup(figures__bytes_moved__those_that_cross, test_begin),
        cmocka_unit_test_setup(stage__card_refuses_a_call__job_ends_with_its_message_fault, test_begin),
        cmocka_unit_test_setup(stage__cannot_be_on_cards__says_why, test_begin),
    };
    return cmocka_run_group_tests(tests, group_open, fixture_close) ? 1 : 0;
}

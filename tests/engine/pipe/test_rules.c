/* Rules of training within a pipeline: what a bounded norm does to a step, what the feed counts for
 * the rules, that a run which is stopped goes on with the same bytes whatever its optimizer and
 * schedule, and which rules wsp refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "io/store/store_rows.h"
#include "tests/engine/pipe/pipeline_fixture.h"

#include <math.h>

/* Layers: 0 e, 1 x, 2 h1, 3 y, 4 bce. The table is looked up twice,
 * and C1 twice as well: its keys count once. */
static const char model_text[] = "[model]\nname = rules\n"
                                 "[data]\ndense = I1..I3\nsparse = C1..C6\n"
                                 "[table emb]\ndim = 5\ninit = uniform 0.1\noptimizer = adagrad 0.05\n"
                                 "[embedding e]\ntable = emb\ninput = C1..C5\n"
                                 "[embedding e2]\ntable = emb\ninput = C1, C6\n"
                                 "[concat x]\ninput = e, e2, dense\n"
                                 "[fc h1]\ninput = x\nunits = 12\nactivation = relu\n"
                                 "[fc y]\ninput = h1\nunits = 1\n"
                                 "[loss bce]\ninput = y\n"
                                 "[train]\nbatch = 32\nmicro = 8\nlanes = 2\nepochs = 2\noptimizer = sgd 1\n"
                                 "[store]\nram = 1MiB\n";
#define DATA_ROWS 250u
#define STEPS     (2 * ((DATA_ROWS + 31) / 32))

static char data_path[128];
static const struct setup alone = {.threads = 1}, stages = {.plan = "0-2:1:1 3-5:1:1", .threads = 2, .share = true};

static int group_open(void **state)
{
    if (fixture_open(state) != 0) return -1;
    snprintf(data_path, sizeof data_path, "%s", fixture_path("data.tsv"));
    fixture_data(data_path, 0, DATA_ROWS, NULL);
    return 0;
}

/* The parameters' change in the first step; yours. */
static float *first_step(const char *const *set, uint64_t *count)
{
    struct training t;
    assert_ok(training_open(&t, model_text, set, data_path, &alone));
    training_start(&t, NULL);
    *count = t.graph.updates[0].param_count;
    float *change = malloc(*count * sizeof *change);
    assert_non_null(change);
    memcpy(change, t.model.param, *count * sizeof *change);
    assert_ok(training_until(&t, 1));
    for (uint64_t i = 0; i < *count; i++) change[i] = t.model.param[i] - change[i];
    training_close(&t);
    return change;
}

static double norm_of(const float *x, uint64_t count)
{
    double sum = 0;
    for (uint64_t i = 0; i < count; i++) sum += (double)x[i] * (double)x[i];
    return sqrt(sum);
}

/* With plain descent at rate 1 the step is the gradient. */
static void clip_norm__gradient_is_longer__is_scaled_to_it(void **state)
{
    (void)state;
    uint64_t count;
    float *free_step = first_step(NULL, &count);
    double norm = norm_of(free_step, count);
    char half[64], twice[64];
    snprintf(half, sizeof half, "train.clip_norm=%.9g", norm / 2);
    snprintf(twice, sizeof twice, "train.clip_norm=%.9g", norm * 2);
    float *halved = first_step((const char *const[]){half, NULL}, &count),
          *same = first_step((const char *const[]){twice, NULL}, &count);
    assert_true(fabs(norm_of(halved, count) / norm - 0.5) < 1e-5);
    for (uint64_t i = 0; i < count; i++) {
        assert_true(fabs((double)halved[i] - (double)free_step[i] / 2) < 1e-6);
        assert_true(same[i] == free_step[i]);
    }
    free(free_step), free(halved), free(same);
}

/* A row's step: bounded by clip_norm, each element by clip_value. */
static void table_clips__rows_of_the_step__are_bounded(void **state)
{
    (void)state;
    static const char *const sets[][5] = {
        {"emb.optimizer=sgd 1", "emb.init=zeros", "emb.clip_norm=1e-3", NULL},
        {"emb.optimizer=sgd 1", "emb.init=zeros", "emb.clip_value=1e-4", NULL},
        {"emb.optimizer=sgd 1", "emb.init=zeros", NULL},
    };
    uint32_t bounded[3] = {0}, rows = 0;
    for (size_t k = 0; k < 3; k++) {
        struct training t;
        assert_ok(training_open(&t, model_text, sets[k], data_path, &alone));
        training_start(&t, NULL);
        assert_ok(training_until(&t, 1));
        rows = (uint32_t)t.row_count[0];
        for (uint32_t r = 0; r < rows; r++) {
            const float *w = store_span(t.model.store, 0, r);
            double norm = norm_of(w, 5), most = 0;
            for (int d = 0; d < 5; d++) most = fmax(most, fabs((double)w[d]));
            if (k == 0) assert_true(norm < 1e-3 * (1 + 1e-6)), bounded[k] += norm > 0.9999e-3;
            if (k == 1) assert_true(most <= (double)1e-4f), bounded[k] += most == (double)1e-4f;
            if (k == 2) bounded[k] += norm > 1e-3 && most > 1e-4;
        }
        training_close(&t);
    }
    assert_true(rows > 50 && bounded[0] >= bounded[2] && bounded[1] >= bounded[2] && bounded[2] > 0);
}

/* Rows of the step as the reader's keys count them. */
static void feed__rule_reads_shows__counts_occurrences(void **state)
{
    (void)state;
    static const char *const set[] = {"emb.optimizer=adagrad_row 0.1", NULL};
    struct training t;
    assert_ok(training_open(&t, model_text, set, data_path, &alone));
    training_start(&t, NULL);
    uint64_t keys[32 * 6];
    uint32_t key_count = 0, checked = 0;
    for (bool is_last = false; !is_last;) {
        struct input *input;
        enum feed_state got = feed_try_next(t.feed, &input);
        assert_true(got != FEED_END);
        if (got == FEED_EMPTY) continue;
        for (uint32_t k = 0; k < input->batch.key_count; k++) keys[key_count++] = input->batch.key[k];
        is_last = input->batch.is_last;
        if (is_last) {
            const struct step_rows *rows = &input->step_rows[0];
            for (uint32_t r = 0; r < rows->row_count; r++) {
                uint32_t row = 0, expected = 0;
                while (store_span(t.model.store, 0, row) != rows->span[r]) row++;
                for (uint32_t k = 0; k < key_count; k++) expected += keys[k] == store_key(t.model.store, 0, row);
                assert_int_equal(rows->occurrence_count[r], expected);
                checked += expected > 1;
            }
        }
        feed_release(t.feed, input);
    }
    assert_true(checked > 3);
    training_close(&t);
}

static uint64_t run_part(const char *const *set, const char *from, const char *to, uint64_t step,
                         const struct setup *setup)
{
    struct training t;
    assert_ok(training_open(&t, model_text, set, data_path, setup));
    training_start(&t, from);
    assert_ok(training_until(&t, step));
    if (to) training_save(&t, to);
    uint64_t hash = training_hash(&t);
    training_close(&t);
    return hash;
}

/* Dense rule, rule of rows, schedule. */
static const char *const recipes[][4] = {
    {"train.optimizer=sgd 0.2", "emb.optimizer=adagrad_row 0.05", "train.schedule=passes", NULL},
    {"train.optimizer=momentum 0.02", "emb.optimizer=momentum 0.1 nesterov=1", "train.schedule=step every=3", NULL},
    {"train.optimizer=ftrl 0.1", "emb.optimizer=ftrl 0.1 l1=1e-4", "train.schedule=linear steps=12 warmup=4", NULL},
    {"train.optimizer=adamw 0.01", "emb.optimizer=adamw 0.01 decay=0.1",
     "train.schedule=cosine steps=9 floor=0.1 warmup=5", NULL},
    {"train.clip_norm=0.05", "emb.clip_norm=0.001", "train.schedule=step every=2 factor=0.7 warmup=3", NULL},
};

static void every_rule__stopped_half_way_and_resumed__same_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
        char name[] = {'r', (char)('0' + i), 0};
        const char *saved = fixture_path(name);
        uint64_t expected = run_part(recipes[i], NULL, NULL, UINT64_MAX, &alone);
        for (uint64_t step = 1; step < STEPS; step += 5) {
            run_part(recipes[i], NULL, saved, step, &stages);
            if (run_part(recipes[i], saved, NULL, UINT64_MAX, &stages) != expected)
                fail_msg("%s, %s: other bytes after a stop at step %d", recipes[i][0], recipes[i][2], (int)step);
        }
    }
}

/* The second pass of the schedule is one at half of the rates. */
static void schedule_passes__second_pass__has_half_of_the_rates(void **state)
{
    (void)state;
    static const char *const passes[] = {"train.optimizer=sgd 0.2", "train.schedule=passes", NULL},
                             *const whole[] = {"train.optimizer=sgd 0.2", NULL},
                             *const half[] = {"train.optimizer=sgd 0.1", "emb.optimizer=adagrad 0.025", NULL};
    const char *saved = fixture_path("first");
    const uint64_t first = run_part(passes, NULL, NULL, STEPS / 2, &alone),
                   both = run_part(passes, NULL, NULL, UINT64_MAX, &alone);
    assert_int_equal(run_part(whole, NULL, saved, STEPS / 2, &alone), first);
    assert_int_equal(run_part(half, saved, NULL, UINT64_MAX, &alone), both);
    assert_true(run_part(whole, saved, NULL, UINT64_MAX, &alone) != both);
}

/* One stage, one minibatch in flight: wsp is bsp with a lane. */
static void wsp__one_stage_and_a_bounded_norm__is_as_bsp(void **state)
{
    (void)state;
    static const char *const bsp[] = {"train.micro=32", "train.lanes=1", "train.clip_norm=0.05",
                                      "train.schedule=passes", NULL};
    static const char *const wsp[] = {"train.micro=32",
                                      "train.lanes=1",
                                      "train.clip_norm=0.05",
                                      "train.schedule=passes",
                                      "train.sync=wsp",
                                      "train.in_flight=1",
                                      NULL};
    assert_int_equal(run_part(bsp, NULL, NULL, UINT64_MAX, &alone), run_part(wsp, NULL, NULL, UINT64_MAX, &alone));
    struct training t;
    assert_int_equal(training_open(&t, model_text, wsp, data_path, &stages), ST_INVALID);
    assert_message("train.clip_norm = 0.05");
    assert_message("under wsp the plan's 2 stages");
    assert_message("a plan of one stage");
}

static void wsp__two_pipelines_and_a_rule_that_cannot_be_added__is_refused(void **state)
{
    (void)state;
    static const char *const rules[] = {"adam", "adamw", "momentum", "ftrl"};
    for (size_t i = 0; i < 4; i++) {
        char rule[64];
        snprintf(rule, sizeof rule, "train.optimizer=%s 0.1", rules[i]);
        const char *const set[] = {
            "train.micro=32", "train.lanes=1", "train.sync=wsp", "train.pipelines=2", rule, NULL};
        struct training t;
        assert_int_equal(training_open(&t, model_text, set, data_path, &stages), ST_INVALID);
        assert_message("train.pipelines = 2 under wsp");
        assert_message(rules[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clip_norm__gradient_is_longer__is_scaled_to_it),
        cmocka_unit_test(table_clips__rows_of_the_step__are_bounded),
        cmocka_unit_test(feed__rule_reads_shows__counts_occurrences),
        cmocka_unit_test(every_rule__stopped_half_way_and_resumed__same_bytes),
        cmocka_unit_test(schedule_passes__second_pass__has_half_of_the_rates),
        cmocka_unit_test(wsp__one_stage_and_a_bounded_norm__is_as_bsp),
        cmocka_unit_test(wsp__two_pipelines_and_a_rule_that_cannot_be_added__is_refused),
    };
    return cmocka_run_group_tests(tests, group_open, fixture_close) ? 1 : 0;
}

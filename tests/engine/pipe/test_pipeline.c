/* The promise of bsp: one result, whatever the plan, the threads, the slots, the timing, and the
 * steps at which training was stopped and resumed; and what becomes of a run when a device, a number
 * or the data fail under a plan. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/engine/pipe/pipeline_fixture.h"

#include <math.h>

/* Everything that could depend on timing: two look-ups of one table and three uses of one weight in
 * layers far apart, dropout, batch normalisation, data normalisation of numeric columns and of what
 * has a gradient, means, rules with and without counters. Layers: 0 e, 1 w, 2 x, 3 h1, 4 n1, 5 d1,
 * 6 e2, 7 x2, 8 h2, 9 y, 10 bce. */
static const char model_text[] = "[model]\nname = all\n"
                                 "[data]\ndense = I1..I3\nsparse = C1..C6\nshuffle = 100\n"
                                 "[table emb]\ndim = 4\ninit = uniform 0.1\noptimizer = adagrad 0.05\n"
                                 "[table side]\ndim = 3\noptimizer = adam 0.01\nl2 = 0.001\n"
                                 "[embedding e]\ntable = emb\ninput = C1..C3\n"
                                 "[embedding w]\ntable = side\ninput = C6\n"
                                 "[data_norm i]\ninput = dense\nlayer = x\n"
                                 "[concat x]\ninput = e, w, i\n"
                                 "[fc h1]\ninput = x\nunits = 12\nactivation = relu\n"
                                 "[fc s1]\ninput = h1\nunits = 5\nactivation = tanh\nlayer = h1\n"
                                 "[batch_norm n1]\ninput = h1\n"
                                 "[dropout d1]\ninput = n1\nrate = 0.3\n"
                                 "[embedding e2]\ntable = emb\ninput = C4, C5\npool = mean\n"
                                 "[data_norm n2]\ninput = e2\ndecay = 0.99\nlayer = x2\n"
                                 "[fc s2]\ninput = d1\nunits = 5\nshare = s1\nlayer = x2\n"
                                 "[concat x2]\ninput = d1, n2, s1, s2\n"
                                 "[fc h2]\ninput = x2\nunits = 12\nactivation = tanh\n"
                                 "[fc s3]\ninput = h2\nunits = 5\nshare = s1\nlayer = h2\n"
                                 "[fc y]\ninput = s3\nunits = 1\n"
                                 "[loss bce]\ninput = y\n"
                                 "[train]\nbatch = 32\nmicro = 8\nlanes = 2\nepochs = 2\noptimizer = adam 0.01\n"
                                 "[store]\nram = 1MiB\n";

#define DATA_ROWS                                                                                                      \
    SCALED(427u, 155u) /* a last step of 11 or 27 examples: a short micro-batch, and one or none missing */
#define STEPS        (2 * ((DATA_ROWS + 31) / 32))
#define RUNS_A_PLAN  SCALED(20u, 3u)
#define STOPS        SCALED(50u, 12u)
#define DELAY_NS_MAX 40000u

static char data_path[128], eval_path[128];

static int group_open(void **state)
{
    if (fixture_open(state) != 0) return -1;
    snprintf(data_path, sizeof data_path, "%s", fixture_path("data.tsv"));
    snprintf(eval_path, sizeof eval_path, "%s", fixture_path("eval.tsv"));
    fixture_data(data_path, 0, DATA_ROWS, NULL);
    fixture_data(eval_path, 10000, 100, NULL);
    return 0;
}

/* Ways to run the same training. Of more threads than there are processors nothing is pinned. */
static const struct setup setups[] = {
    {.plan = "0-5:1:1 6-10:1:1", .threads = 2}, /* two stages of one core, pinned where there are two */
    {.plan = "0-2:1:1 3-5:1:1 6-10:1:1",
     .threads = 2,
     .share = true},                                           /* a pool                                        */
    {.plan = "0-3:2:2 4-6:1:1 7-10:2:2", .threads = 5},        /* replicas beside a stage that has none               */
    {.plan = "0-5:2:1 6-10:2:1", .threads = 2, .share = true}, /* a pool of one gang of two                           */
    {.plan = "0-4:2:1 5-10:1:1", .threads = 3},                /* a gang of two with cores of its own                 */
    {.plan = "0-0:1:1 1-1:1:1 2-2:1:1 3-3:1:1 4-4:1:1 5-5:1:1 6-6:1:1 7-7:1:1 8-8:1:1 9-9:1:1 10-10:1:1",
     .threads = 3,
     .share = true},                       /* a stage a layer                                     */
    {.plan = "0-10:3:3 +1", .threads = 4}, /* more replicas than lanes, and a service core        */
};
#define SETUP_COUNT (sizeof setups / sizeof *setups)

static struct setup setup_random(size_t index, uint64_t *random)
{
    struct setup setup = setups[index];
    setup.in_flight = (uint32_t)draw(random, 10); /* 0: as many as the plan needs */
    setup.delay_seed = draw(random, UINT64_MAX);
    setup.delay_ns_max = draw(random, 5) == 0 ? 0 : DELAY_NS_MAX;
    return setup;
}

/* What a training leaves behind. */
struct outcome {
    uint64_t model, told, predictions;
};
static struct outcome run_whole(const char *const *set, const struct setup *setup)
{
    struct training t;
    assert_ok(training_open(&t, model_text, set, data_path, setup));
    training_start(&t, NULL);
    assert_ok(training_until(&t, UINT64_MAX));
    assert_true(t.is_end);
    assert_int_equal(t.model.progress.examples, 2 * (uint64_t)DATA_ROWS);
    assert_int_equal(t.model.progress.step, STEPS);
    struct outcome outcome = {training_hash(&t), XXH3_64bits_digest(t.told), training_predict(&t, eval_path)};
    training_close(&t);
    return outcome;
}

static const struct setup alone = {.threads = 1};

static void assert_same_outcome(struct outcome a, struct outcome b, const char *what, uint32_t run)
{
    if (a.model != b.model) fail_msg("%s, run %u: other parameters, state or rows", what, run);
    if (a.told != b.told) fail_msg("%s, run %u: other losses or row counts by step", what, run);
    if (a.predictions != b.predictions) fail_msg("%s, run %u: other predictions", what, run);
}

static void bsp__any_plan_slots_and_timing__same_bytes(void **state)
{
    (void)state;
    struct outcome expected = run_whole(NULL, &alone);
    uint64_t random = 1;
    for (size_t i = 0; i < SETUP_COUNT; i++) {
        for (uint32_t run = 0; run < RUNS_A_PLAN; run++) {
            struct setup setup = setup_random(i, &random);
            assert_same_outcome(expected, run_whole(NULL, &setup), setup.plan, run);
        }
    }
    printf("# %zu plans, %u runs each under random delays, %u steps a run\n", SETUP_COUNT, RUNS_A_PLAN, STEPS);
}

static void bsp__four_lanes__same_bytes_whatever_the_plan(void **state)
{
    (void)state;
    static const char *const set[] = {"train.lanes=4", "train.optimizer=adagrad 0.05", "side.optimizer=sgd 0.1", NULL};
    struct outcome expected = run_whole(set, &alone);
    uint64_t random = 2;
    for (size_t i = 0; i < SETUP_COUNT; i++) {
        struct setup setup = setup_random(i, &random);
        assert_same_outcome(expected, run_whole(set, &setup), setup.plan, 0);
    }
}

/* All stages' gradients together make the norm: its order of additions is no plan's. Far below the norms that
 * come, so that every step is scaled. */
static void bsp__norm_bounded__same_bytes_whatever_the_plan(void **state)
{
    (void)state;
    static const char *const sets[][8] = {
        {"train.clip_norm=0.01", "train.optimizer=momentum 0.2", "emb.clip_norm=0.001",
         "train.schedule=cosine steps=20 warmup=5", "side.optimizer=adagrad_row 0.05", NULL},
        {"train.clip_norm=0.02", "train.lanes=4", "train.optimizer=adamw 0.01", "emb.optimizer=ftrl 0.1 l1=1e-5", NULL},
        {"train.clip_norm=0", "train.lanes=4", "train.optimizer=adamw 0.01", "emb.optimizer=ftrl 0.1 l1=1e-5", NULL},
    };
    uint64_t random = 6;
    struct outcome expected[3];
    for (size_t k = 0; k < 3; k++) {
        expected[k] = run_whole(sets[k], &alone);
        for (size_t i = 0; i < SETUP_COUNT; i++)
            for (uint32_t run = 0; run < SCALED(3u, 1u); run++) {
                struct setup setup = setup_random(i, &random);
                assert_same_outcome(expected[k], run_whole(sets[k], &setup), setup.plan, run);
            }
    }
    assert_true(expected[1].model != expected[2].model);
}

/* Where nothing is random, equal bytes would mean nothing. */
static void bsp__another_recipe__other_bytes(void **state)
{
    (void)state;
    static const char *const recipes[] = {
        "train.seed=2",       "data.shuffle=0",       "data.shuffle=101",
        "train.lanes=1",      "d1.rate=0.31",         "train.micro=16",
        "n1.momentum=0.8",    "side.l2=0.002",        "side.l1=0.001",
        "train.l1=0.001",     "side.clip_value=1e-4", "train.clip_value=1e-4",
        "emb.clip_norm=1e-4", "train.clip_norm=1e-4", "train.schedule=constant warmup=10"};
    struct outcome expected = run_whole(NULL, &alone);
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
        const char *const set[] = {recipes[i], NULL};
        struct outcome other = run_whole(set, &alone);
        if (other.model == expected.model || other.predictions == expected.predictions)
            fail_msg("%s: the same bytes", recipes[i]);
        /* All but the moving averages, which only evaluation reads, change what training computes. */
        assert_int_equal(other.told == expected.told, strcmp(recipes[i], "n1.momentum=0.8") == 0);
    }
}

/* --- stopped and resumed ---------------------------------------------------------------------- */

/* Loads `from` (NULL: begins), trains to `step`, saves to `to`. */
static uint64_t run_part(const char *from, const char *to, uint64_t step, const struct setup *setup)
{
    struct training t;
    assert_ok(training_open(&t, model_text, NULL, data_path, setup));
    training_start(&t, from);
    assert_ok(training_until(&t, step));
    assert_int_equal(t.model.progress.step, step < STEPS ? step : STEPS);
    if (to) training_save(&t, to);
    uint64_t hash = training_hash(&t);
    training_close(&t);
    return hash;
}

static void bsp__stopped_at_any_step_resumed_under_another_plan__same_bytes(void **state)
{
    (void)state;
    uint64_t expected = run_whole(NULL, &alone).model, random = 3;
    const char *saved = fixture_path("saved");
    for (uint32_t i = 0; i < STOPS; i++) {
        struct setup before = setup_random(draw(&random, SETUP_COUNT), &random);
        struct setup after = setup_random(draw(&random, SETUP_COUNT), &random);
        uint64_t step = 1 + draw(&random, STEPS - 1);
        run_part(NULL, saved, step, &before);
        if (run_part(saved, NULL, UINT64_MAX, &after) != expected)
            fail_msg("stopped after step %d under %s, resumed under %s: other bytes", (int)step, before.plan,
                     after.plan);
    }
    printf("# stopped at %u random steps of %u\n", STOPS, STEPS);
}

/* One training in many parts, each under a plan of its own. */
static void bsp__stopped_after_every_step__same_bytes(void **state)
{
    (void)state;
    uint64_t expected = run_whole(NULL, &alone).model, random = 4, hash = 0;
    const char *saved = fixture_path("chain");
    for (uint64_t step = 1; step <= STEPS; step++) {
        struct setup setup = setup_random(draw(&random, SETUP_COUNT), &random);
        hash = run_part(step > 1 ? saved : NULL, saved, step, &setup);
    }
    assert_int_equal(hash, expected);
}

/* What checkpoints and evaluations do to a training that goes on: jobs of random lengths, a check and
 * predictions between. */
static void bsp__paused_checked_and_evaluated_between_steps__same_bytes(void **state)
{
    (void)state;
    struct outcome expected = run_whole(NULL, &alone);
    uint64_t random = 5;
    for (size_t i = 0; i < SETUP_COUNT; i++) {
        struct setup setup = setup_random(i, &random);
        struct training t;
        assert_ok(training_open(&t, model_text, NULL, data_path, &setup));
        training_start(&t, NULL);
        while (!t.is_end) {
            assert_ok(training_until(&t, t.model.progress.step + 1 + draw(&random, 4)));
            assert_ok(pipeline_check(t.pipeline));
            if (draw(&random, 2)) (void)training_predict(&t, eval_path);
        }
        struct outcome outcome = {training_hash(&t), XXH3_64bits_digest(t.told), training_predict(&t, eval_path)};
        training_close(&t);
        assert_same_outcome(expected, outcome, setup.plan, 0);
    }
}

/* A stop comes from the main thread while workers work: the step is finished, and what follows is as if there
 * had been none. */
static void bsp__stopped_by_the_main_thread__ends_after_a_whole_step(void **state)
{
    (void)state;
    static const char *const set[] = {"train.epochs=40", NULL};
    struct training t;
    assert_ok(training_open(&t, model_text, set, data_path, &alone));
    training_start(&t, NULL);
    uint64_t hashes[40 * STEPS / 2 + 1];
    for (uint64_t step = 0; !t.is_end; step++) {
        assert_int_equal(t.model.progress.step, step);
        hashes[step] = training_hash(&t);
        assert_ok(training_until(&t, step + 1));
    }
    training_close(&t);
    for (size_t i = 0; i < 3; i++) {
        struct setup setup = setups[i];
        setup.delay_ns_max = 1000000; /* so long that the first tick comes before the end */
        assert_ok(training_open(&t, model_text, set, data_path, &setup));
        training_start(&t, NULL);
        t.wants_stop = true;
        assert_ok(training_until(&t, UINT64_MAX));
        assert_false(t.is_end);
        assert_in_range(t.model.progress.step, 1, 40 * STEPS / 2 - 1);
        assert_int_equal(training_hash(&t), hashes[t.model.progress.step]);
        t.wants_stop = false;
        pipeline_delay_set(t.pipeline, 0, 0);
        assert_ok(training_until(&t, 40 * STEPS / 2 - 1));
        assert_int_equal(training_hash(&t), hashes[40 * STEPS / 2 - 1]);
        training_close(&t);
    }
}

/* --- failures --------------------------------------------------------------------------------- */

/* The hash of the model after each step. */
static void hashes_fill(uint64_t hashes[STEPS + 1])
{
    struct training t;
    assert_ok(training_open(&t, model_text, NULL, data_path, &alone));
    training_start(&t, NULL);
    hashes[0] = training_hash(&t);
    for (uint64_t step = 0; step < STEPS; step++) {
        assert_ok(training_until(&t, step + 1));
        hashes[step + 1] = training_hash(&t);
    }
    training_close(&t);
}

/* A device that refuses the n-th call of a kind: the table of functions around the real one. */
enum call { CALL_FORWARD, CALL_BACKWARD, CALL_UPDATE, CALL_COUNT };
static const char *const call_names[] = {"forward", "backward", "update"};
static struct {
    const struct device_vt *inner;
    enum call call;
    _Atomic int64_t shared_left;
    _Atomic uint64_t shared_step; /* of the refused call; updates do not say which */
} fault;
#define FAULT_MESSAGE "device of the test: refused a %s call, as it was told to"

static status fault_call(enum call call, uint64_t step)
{
    if (call != fault.call || atomic_fetch_sub(&fault.shared_left, 1) != 1) return ST_OK;
    atomic_store(&fault.shared_step, step);
    FAIL(SYSTEM, FAULT_MESSAGE, call_names[call]);
}
static status fault_submit(struct device *d, const struct op_context *c, const struct graph_node *nodes, uint32_t count)
{
    TRY(fault_call(count && nodes->pass == PASS_FORWARD ? CALL_FORWARD : CALL_BACKWARD, c->batch->step));
    return fault.inner->submit(d, c, nodes, count);
}
static status fault_update_rows(struct device *d, const struct table_update *update)
{
    TRY(fault_call(CALL_UPDATE, update->t - 1));
    return fault.inner->update_rows(d, update);
}
static status fault_update_params(struct device *d, const struct param_update *update)
{
    TRY(fault_call(CALL_UPDATE, update->t - 1));
    return fault.inner->update_params(d, update);
}
static status fault_sum_params(struct device *d, const struct param_sums *sums)
{
    TRY(fault_call(CALL_UPDATE, sums->t - 1));
    return fault.inner->sum_params(d, sums);
}
static void fault_close(struct device *d) { fault.inner->close(d); }
static const struct device_vt fault_vt = {.name = "fault",
                                          .submit = fault_submit,
                                          .update_rows = fault_update_rows,
                                          .update_params = fault_update_params,
                                          .sum_params = fault_sum_params,
                                          .close = fault_close};

static void fault_plant(struct training *t, enum call call, int64_t n)
{
    fault.inner = pipeline_device(t->pipeline)->vt;
    fault.call = call;
    atomic_store(&fault.shared_left, n);
    for (uint32_t i = 0; i < t->pipeline->worker_count; i++) t->pipeline->workers[i].device->vt = &fault_vt;
}

/* Trains until the device refuses a call; returns whether it came to that. */
static bool run_faulty(const char *const *set, const struct setup *setup, enum call call, int64_t n,
                       const uint64_t *hashes)
{
    struct training t;
    char message[256];
    snprintf(message, sizeof message, FAULT_MESSAGE, call_names[call]);
    assert_ok(training_open(&t, model_text, set, data_path, setup));
    training_start(&t, NULL);
    fault_plant(&t, call, n);
    status st = training_until(&t, UINT64_MAX);
    bool came = atomic_load(&fault.shared_left) <= 0;
    if (came) {
        assert_int_equal(st, ST_SYSTEM);
        assert_string_equal(status_message(), message);
        /* The step in which it happened is not told, nor any after it. Steps are told in order, so none
         * before it is missing but under wsp, where those that the clock lets run beside the first
         * unfinished one are lost with it. */
        uint64_t step = atomic_load(&fault.shared_step), lost = step - t.model.progress.step;
        uint64_t lost_max = t.pipeline->by_lane ? 0
                                                : (uint64_t)(t.pipeline->sync->site.clock_distance + 3) *
                                                      t.pipeline->in_flight * t.pipeline->pipeline_count;
        if (lost > lost_max) fail_msg("refused in step %d, told until %d", (int)step, (int)t.model.progress.step);
        if (hashes) assert_int_equal(training_hash(&t), hashes[t.model.progress.step]);
    } else {
        assert_int_equal(st, ST_OK);
    }
    training_close(&t);
    return came;
}

/* In a forward pass no stage has updated yet: the model is that of the last finished step. */
static void bsp__device_fails_in_forward__model_is_of_the_last_step_fault(void **state)
{
    (void)state;
    uint64_t hashes[STEPS + 1], random = 6;
    hashes_fill(hashes);
    for (size_t i = 0; i < SETUP_COUNT; i++)
        for (uint32_t run = 0; run < SCALED(6, 2); run++) {
            struct setup setup = setup_random(i, &random);
            assert_true(run_faulty(NULL, &setup, CALL_FORWARD, 1 + (int64_t)draw(&random, STEPS * 3), hashes));
        }
}

static void bsp__device_fails_in_backward_or_update__stops_with_its_message_fault(void **state)
{
    (void)state;
    uint64_t random = 7;
    uint32_t came = 0;
    for (size_t i = 0; i < SETUP_COUNT; i++)
        for (uint32_t run = 0; run < SCALED(10, 4); run++) {
            struct setup setup = setup_random(i, &random);
            enum call call = run % 2 ? CALL_UPDATE : CALL_BACKWARD;
            came += run_faulty(NULL, &setup, call, 1 + (int64_t)draw(&random, STEPS), NULL);
        }
    assert_int_equal(came, SETUP_COUNT * SCALED(10, 4));
}

/* Every worker's device at once, as when a machine goes down: one message, the first. */
static void bsp__every_device_fails__first_message_wins_fault(void **state)
{
    (void)state;
    for (size_t i = 0; i < SETUP_COUNT; i++) assert_true(run_faulty(NULL, &setups[i], CALL_FORWARD, 1, NULL));
}

static void wsp__device_fails__stops_with_its_message_fault(void **state)
{
    (void)state;
    static const char *const set[] = {"train.sync=wsp",
                                      "train.lanes=1",
                                      "train.micro=0",
                                      "train.pipelines=2",
                                      "train.batch=8",
                                      "train.clock_distance=1",
                                      "train.optimizer=sgd 0.1",
                                      "side.optimizer=adam 0.01",
                                      NULL};
    static const struct setup of[] = {{.plan = "0-8:1:1 9-9:1:1 10-10:1:1", .threads = 6},
                                      {.plan = "0-8:1:1 9-9:1:1 10-10:1:1", .threads = 2, .share = true},
                                      {.threads = 1}};
    uint64_t random = 8;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        for (uint32_t run = 0; run < SCALED(9, 3); run++) {
            struct setup setup = of[i];
            setup.in_flight = (uint32_t)draw(&random, 5);
            setup.delay_seed = draw(&random, 1000);
            setup.delay_ns_max = DELAY_NS_MAX;
            setup.share |= setup.plan == NULL; /* two pipelines on one core */
            assert_true(
                run_faulty(set, &setup, (enum call)(run % CALL_COUNT), 1 + (int64_t)draw(&random, STEPS), NULL));
        }
}

static void bsp__diverges_under_a_plan__names_step_and_op_and_keeps_the_last_step(void **state)
{
    (void)state;
    static const char *const set[] = {"train.optimizer=sgd 1e6", "h2.activation=none", NULL};
    uint64_t hash = 0, step = 0;
    for (size_t i = 0; i <= SETUP_COUNT; i++) {
        struct setup setup = i == SETUP_COUNT ? alone : setups[i];
        struct training t;
        setup.delay_seed = i;
        setup.delay_ns_max = DELAY_NS_MAX;
        assert_ok(training_open(&t, model_text, set, data_path, &setup));
        training_start(&t, NULL);
        assert_int_equal(training_until(&t, UINT64_MAX), ST_DIVERGED);
        char place[64];
        snprintf(place, sizeof place, "step %d: the loss is not finite", (int)t.model.progress.step);
        assert_message(place);
        assert_message("in the output of [");
        if (i == 0) {
            hash = training_hash(&t);
            step = t.model.progress.step;
        }
        /* Under every plan at the same step, with the same parameters. */
        assert_int_equal(t.model.progress.step, step);
        assert_int_equal(training_hash(&t), hash);
        training_close(&t);
    }
}

static void bsp__data_fail_under_a_plan__model_is_of_the_last_step_fault(void **state)
{
    (void)state;
    uint64_t hashes[STEPS + 1], random = 9;
    static const char *const set[] = {"data.shuffle=0", "train.epochs=1", NULL};
    struct training t;
    assert_ok(training_open(&t, model_text, set, data_path, &alone));
    training_start(&t, NULL);
    for (uint64_t step = 0; !t.is_end; step++) {
        hashes[step] = training_hash(&t);
        assert_ok(training_until(&t, step + 1));
    }
    training_close(&t);
    /* After 77 good lines: in the second micro-batch of the third step. */
    const char *bad = fixture_path("bad.tsv");
    fixture_data(bad, 0, 77, "1\tnonsense\n");
    fixture_data(bad, 77, 50, NULL);
    for (size_t i = 0; i < SETUP_COUNT; i++) {
        struct setup setup = setup_random(i, &random);
        assert_ok(training_open(&t, model_text, set, bad, &setup));
        training_start(&t, NULL);
        assert_int_equal(training_until(&t, UINT64_MAX), ST_INVALID);
        assert_message("bad.tsv:78");
        assert_int_equal(t.model.progress.step, 2);
        assert_int_equal(training_hash(&t), hashes[2]);
        training_close(&t);
    }
}

static void bsp__store_is_full_under_a_plan__model_is_of_the_last_step_fault(void **state)
{
    (void)state;
    static const char *const set[] = {"emb.dim=64", "side.dim=64", "store.ram=1MiB", "data.shuffle=0", NULL};
    const char *large = fixture_path("large.tsv");
    fixture_data(large, 0, 3000, NULL);
    uint64_t hash = 0, step = 0, random = 10;
    for (size_t i = 0; i <= SETUP_COUNT; i++) {
        struct training t;
        struct setup setup = i == 0 ? alone : setup_random(i - 1, &random);
        assert_ok(training_open(&t, model_text, set, large, &setup));
        training_start(&t, NULL);
        assert_int_equal(training_until(&t, UINT64_MAX), ST_FULL);
        assert_message("store.ram");
        if (i == 0) {
            hash = training_hash(&t);
            step = t.model.progress.step;
            assert_in_range(step, 1, 90);
        }
        assert_int_equal(t.model.progress.step, step);
        assert_int_equal(training_hash(&t), hash);
        training_close(&t);
    }
}

/* --- one feed, several pipelines -------------------------------------------------------------- */

/* Opens the pipeline anew under another plan, between two jobs:
 * on the slots of the feed, which rings `bell`. */
static void reopen(struct training *t, const struct setup *setup, struct bell *bell)
{
    struct plan plan;
    struct pipeline *pipeline;
    char json[4096];
    if (setup->plan) {
        plan_json(json, sizeof json, setup->plan);
        assert_ok(plan_parse(&plan, &t->graph, "plan.json", json, strlen(json)));
    } else {
        assert_ok(plan_single(&plan, &t->graph, setup->threads));
    }
    struct pipeline_options options = {.graph = &t->graph,
                                       .model = &t->model,
                                       .plan = &plan,
                                       .share = setup->share,
                                       .cores = &t->cores,
                                       .core_count = setup->threads,
                                       .training = true,
                                       .sync = t->settings.train_sync,
                                       .in_flight = setup->in_flight,
                                       .pipeline_count = t->settings.train_pipelines,
                                       .clock_distance = t->settings.train_clock_distance,
                                       .input_count = feed_input_count(t->feed),
                                       .feed_bell = bell};
    struct pipeline_rest rest = pipeline_leave(t->pipeline);
    pipeline_close(t->pipeline);
    assert_ok(pipeline_open(&pipeline, &options));
    assert_int_equal(pipeline_input_count(pipeline), feed_input_count(t->feed));
    assert_ptr_equal(pipeline_feed_bell(pipeline), bell);
    pipeline_delay_set(pipeline, setup->delay_seed, setup->delay_ns_max);
    pipeline_enter(pipeline, rest);
    plan_free(&t->plan);
    t->pipeline = pipeline;
    t->plan = plan;
    pipeline->plan = &t->plan;
}

static void bsp__reopened_under_other_plans__same_bytes(void **state)
{
    (void)state;
    struct outcome expected = run_whole(NULL, &alone);
    uint64_t random = 12;
    size_t planned_bytes = memory_planned_bytes();
    uint32_t reopened_count = 0;
    for (uint32_t run = 0; run < SCALED(8u, 3u); run++) {
        struct bell bell = {0};
        struct training t;
        struct setup setup = setup_random(run % SETUP_COUNT, &random);
        assert_ok(training_open(&t, model_text, NULL, data_path, &setup));
        reopen(&t, &setup, &bell);
        feed_bell_set(t.feed, &bell);
        training_start(&t, NULL);
        while (!t.is_end) {
            assert_ok(training_until(&t, t.model.progress.step + 1 + draw(&random, 4)));
            if (draw(&random, 2)) assert_ok(pipeline_check(t.pipeline));
            setup = setup_random(draw(&random, SETUP_COUNT), &random);
            reopen(&t, &setup, &bell);
            reopened_count++;
            if (draw(&random, 2)) assert_ok(pipeline_check(t.pipeline));
            if (draw(&random, 3) == 0) (void)training_predict(&t, eval_path);
        }
        struct outcome outcome = {training_hash(&t), XXH3_64bits_digest(t.told), training_predict(&t, eval_path)};
        training_close(&t);
        assert_same_outcome(expected, outcome, "reopened", run);
        assert_int_equal(memory_planned_bytes(), planned_bytes);
    }
    printf("# reopened %u times under random plans\n", reopened_count);
}

/* A stop finds a slot of the next step at the gate: it goes over to the next pipeline. */
static void bsp__stopped_and_reopened__loses_no_slot(void **state)
{
    (void)state;
    static const char *const set[] = {"train.epochs=12", NULL};
    struct training t;
    struct bell bell = {0};
    uint32_t held_count = 0, run = 0;
    assert_ok(training_open(&t, model_text, set, data_path, &alone));
    training_start(&t, NULL);
    assert_ok(training_until(&t, UINT64_MAX));
    uint64_t expected = training_hash(&t);
    training_close(&t);
    assert_ok(training_open(&t, model_text, set, data_path, &setups[0]));
    reopen(&t, &setups[0], &bell);
    feed_bell_set(t.feed, &bell);
    training_start(&t, NULL);
    t.wants_stop = true; /* at the first tick of each job, after 100 ms */
    while (!t.is_end) {
        struct setup setup = setups[run++ % 3];
        setup.delay_seed = run;
        setup.delay_ns_max = 400000;
        reopen(&t, &setup, &bell);
        assert_ok(training_until(&t, UINT64_MAX));
        held_count += t.pipeline->train_held != NULL;
    }
    assert_int_equal(training_hash(&t), expected);
    assert_true(held_count > 0);
    printf("# %u stops, %u of them with a slot at the gate\n", run - 1, held_count);
    training_close(&t);
}

static void wsp__reopened_under_other_plans__goes_on(void **state)
{
    (void)state;
    static const char *const set[] = {"train.sync=wsp",
                                      "train.micro=0",
                                      "train.batch=8",
                                      "train.lanes=1",
                                      "train.optimizer=adagrad 0.01",
                                      "side.optimizer=sgd 0.1",
                                      "train.pipelines=2",
                                      "train.epochs=4",
                                      NULL};
    static const struct setup plans[] = {{.plan = "0-10:1:1", .threads = 2},
                                         {.plan = "0-8:1:1 9-10:1:1", .threads = 4},
                                         {.plan = "0-8:1:1 9-9:1:1 10-10:1:1", .threads = 2, .share = true},
                                         {.plan = "0-8:2:1 9-10:1:1", .threads = 6}};
    size_t planned_bytes = memory_planned_bytes();
    struct bell bell = {0};
    struct training t;
    uint64_t random = 13;
    assert_ok(training_open(&t, model_text, set, data_path, &plans[1]));
    reopen(&t, &plans[1], &bell);
    feed_bell_set(t.feed, &bell);
    training_start(&t, NULL);
    while (!t.is_end) {
        assert_ok(training_until(&t, t.model.progress.step + 1 + draw(&random, 30)));
        struct setup setup = plans[draw(&random, 4)];
        setup.delay_seed = draw(&random, UINT64_MAX);
        setup.delay_ns_max = DELAY_NS_MAX;
        reopen(&t, &setup, &bell);
    }
    assert_int_equal(t.model.progress.examples, 4 * (uint64_t)DATA_ROWS);
    training_close(&t);
    assert_int_equal(memory_planned_bytes(), planned_bytes);
}

/* As many in flight as the plan wants and there are inputs; without room for one a pipeline, it says so. */
static void pipeline_open__inputs_given__keeps_to_them(void **state)
{
    (void)state;
    static const struct {
        uint32_t input_count, wanted, in_flight;
    } cases[] = {{100, 5, 5}, {100, 0, 4}, {8, 5, 4}, {5, 5, 1}, {4, 5, 1}, {2, 5, 1}, {1, 5, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct training t;
        struct setup setup = {.plan = "0-5:1:1 6-10:1:1", .threads = 2};
        assert_ok(training_open(&t, model_text, NULL, data_path, &setup));
        struct pipeline *pipeline;
        struct pipeline_options options = {.graph = &t.graph,
                                           .model = &t.model,
                                           .plan = &t.plan,
                                           .cores = &t.cores,
                                           .core_count = 2,
                                           .training = true,
                                           .in_flight = cases[i].wanted,
                                           .pipeline_count = 1,
                                           .input_count = cases[i].input_count};
        status st = pipeline_open(&pipeline, &options);
        assert_int_equal(st, cases[i].in_flight ? ST_OK : ST_INVALID);
        if (st != ST_OK) assert_message("need 2 inputs or more, found 1");
        if (st == ST_OK) assert_int_equal(pipeline->in_flight, cases[i].in_flight);
        pipeline_close(pipeline);
        training_close(&t);
    }
}

/* --- what does not fit ------------------------------------------------------------------------ */

static void pipeline_open__does_not_fit__says_why(void **state)
{
    (void)state;
    struct training t;
    static const char *const two_pipelines[] = {"train.pipelines=2", NULL};
    struct setup setup = {.plan = "0-5:2:2 6-10:1:1 +1", .threads = 2};
    assert_int_equal(training_open(&t, model_text, NULL, data_path, &setup), ST_USAGE);
    assert_message("needs 4 cores (stages 2 + 1, service 1), this process may use 2");
    assert_message("--share");
    setup.share = true;
    assert_ok(training_open(&t, model_text, NULL, data_path, &setup));
    training_close(&t);
    assert_int_equal(training_open(&t, model_text, two_pipelines, data_path, &alone), ST_INVALID);
    assert_message("train.pipelines = 2 needs train.sync = wsp or asp");
    setup.in_flight = 70000;
    assert_int_equal(training_open(&t, model_text, NULL, data_path, &setup), ST_INVALID);
    assert_message("train.in_flight = 70000");
}

/* Many openings and closings, some before anything has run. */
static void pipeline_close__at_any_moment__ends(void **state)
{
    (void)state;
    uint64_t random = 11;
    for (uint32_t i = 0; i < SCALED(100u, 20u); i++) {
        struct setup setup = setup_random(i % SETUP_COUNT, &random);
        struct training t;
        assert_ok(training_open(&t, model_text, NULL, data_path, &setup));
        if (i % 3) training_start(&t, NULL);
        if (i % 3 == 2) assert_ok(training_until(&t, draw(&random, 4)));
        training_close(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bsp__any_plan_slots_and_timing__same_bytes),
        cmocka_unit_test(bsp__four_lanes__same_bytes_whatever_the_plan),
        cmocka_unit_test(bsp__norm_bounded__same_bytes_whatever_the_plan),
        cmocka_unit_test(bsp__another_recipe__other_bytes),
        cmocka_unit_test(bsp__stopped_at_any_step_resumed_under_another_plan__same_bytes),
        cmocka_unit_test(bsp__stopped_after_every_step__same_bytes),
        cmocka_unit_test(bsp__paused_checked_and_evaluated_between_steps__same_bytes),
        cmocka_unit_test(bsp__stopped_by_the_main_thread__ends_after_a_whole_step),
        cmocka_unit_test(bsp__device_fails_in_forward__model_is_of_the_last_step_fault),
        cmocka_unit_test(bsp__device_fails_in_backward_or_update__stops_with_its_message_fault),
        cmocka_unit_test(bsp__every_device_fails__first_message_wins_fault),
        cmocka_unit_test(wsp__device_fails__stops_with_its_message_fault),
        cmocka_unit_test(bsp__diverges_under_a_plan__names_step_and_op_and_keeps_the_last_step),
        cmocka_unit_test(bsp__data_fail_under_a_plan__model_is_of_the_last_step_fault),
        cmocka_unit_test(bsp__store_is_full_under_a_plan__model_is_of_the_last_step_fault),
        cmocka_unit_test(bsp__reopened_under_other_plans__same_bytes),
        cmocka_unit_test(bsp__stopped_and_reopened__loses_no_slot),
        cmocka_unit_test(wsp__reopened_under_other_plans__goes_on),
        cmocka_unit_test(pipeline_open__inputs_given__keeps_to_them),
        cmocka_unit_test(pipeline_open__does_not_fit__says_why),
        cmocka_unit_test(pipeline_close__at_any_moment__ends),
    };
    return cmocka_run_group_tests(tests, group_open, fixture_close) ? 1 : 0;
}

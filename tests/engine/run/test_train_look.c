/* How a training looks at its plan and at itself between jobs and while one runs, with a pipeline, a clock
 * and a planner that are made up: after which steps, with which figures, and what follows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/engine/run/session_fixture.h"

#include "engine/base/clock.h"
#include "engine/base/doing.h"
#include "engine/base/stop.h"
#include "engine/base/trace.h"
#include "engine/node/stream.h"
#include "engine/node/tables.h"
#include "engine/node/talk.h"
#include "engine/run/train_internal.h"

#define STEP_NS UINT64_C(10000000)
#define BATCH   32u

/* In place of the clock, the pipeline, the planner and the report. */
static struct {
    uint64_t ns;
    struct progress *progress;
    /* the pipeline */
    uint64_t last;    /* the data's last step */
    char untils[256]; /* bounds of the jobs, in order */
    uint32_t jobs;
    /* the planner */
    bool is_due, is_changed;
    status replans;
    uint64_t plan_ns; /* what planning anew takes */
    uint32_t looked, replanned, failed;
    uint64_t examples; /* of the last look */
    char at[256];      /* steps of all looks */
    /* the report */
    uint32_t told;
    uint64_t told_step, pause_ns;
    char why[512];
    bool told_changed;
    bool is_told_due;
    struct report_progress now; /* the last one; its progress is `now_at` */
    struct progress now_at;
    uint32_t kept, stepped, recovered;
    /* the other nodes: node 0 marks steps */
    uint32_t index, marks, joined, let_go;
    uint64_t marked;
    status joins;
    /* in a tick */
    bool is_stopped, save_is_over;
    uint32_t drained;
} fake;

static void number_add(char *text, size_t bytes, uint64_t number)
{
    const size_t used = strlen(text);
    snprintf(text + used, bytes - used, "%s%llu", used ? " " : "", (unsigned long long)number);
}
static status fake_train(const struct train_job *job, bool *is_end)
{
    struct progress *p = fake.progress;
    number_add(fake.untils, sizeof fake.untils, job->step_until);
    fake.jobs++;
    const uint64_t to = job->step_until < fake.last ? job->step_until : fake.last;
    fake.ns += (to - p->step) * STEP_NS;
    p->examples += (to - p->step) * BATCH;
    p->step = to;
    *is_end = to == fake.last;
    return ST_OK;
}
static bool fake_look(uint64_t examples, char *why, size_t why_bytes)
{
    fake.looked++;
    fake.examples = examples;
    number_add(fake.at, sizeof fake.at, fake.progress->step);
    snprintf(why, why_bytes, "stage 1 is slow");
    return fake.is_due;
}
static status fake_replan(bool *is_changed)
{
    fake.replanned++;
    fake.ns += fake.plan_ns;
    *is_changed = fake.is_changed;
    return fake.replans == ST_OK ? ST_OK : status_fail(fake.replans, __FILE__, __LINE__, "made up");
}
static void fake_tell(uint64_t step, const char *why, bool is_changed)
{
    fake.told++;
    fake.told_step = step;
    snprintf(fake.why, sizeof fake.why, "%s", why);
    fake.told_changed = is_changed;
}
static double fake_progress(const struct report_progress *now)
{
    fake.now = *now;
    fake.now_at = *now->progress;
    fake.told++;
    return 125;
}
static uint64_t fake_measure(void) { return 64; }
static status fake_join(void)
{
    fake.joined++;
    return fake.joins == ST_OK ? ST_OK : status_fail(fake.joins, __FILE__, __LINE__, "made up");
}
static status fake_fail(status st)
{
    fake.failed++;
    return st;
}
#define clock_ns()                                  fake.ns
#define feed_start(feed, from)                      ST_OK
#define stop_listen(wake, context)                  ((void)(wake), (void)(context))
#define stop_requested()                            fake.is_stopped
#define pipeline_train(pipeline, job, is_end)       fake_train(job, is_end)
#define pipeline_times(pipeline, times)             ((times)->wall_ns = fake.ns)
#define pipeline_figures(pipeline, figures)         memset(figures, 0, sizeof *(figures))
#define replanner_look(replanner, figures, n, w, b) fake_look(n, w, b)
#define session_replan(s, is_changed)               ((void)(s), fake_replan(is_changed))
#define report_replan(report, step, why, changed)   fake_tell(step, why, changed)
#define report_pause(report, ns)                    (fake.pause_ns += (ns))
#define report_is_due(report)                       fake.is_told_due
#define train_save_and_fail(t, st)                  ((void)(t), fake_fail(st))
#define train_save_due(t)                           ST_OK
#define train_saves_look(t)                         fake.save_is_over
#define train_saves_time(t)                         false
#define train_nodes_reading(t)                      ST_OK
#define train_nodes_job_end(t, is_end)              ((void)(is_end), ST_OK)
#define train_nodes_data_end(t)                     ST_OK
#define train_is_stopped(t)                         fake.is_stopped
#define trace_tell()                                (fake.drained++)
#define report_progress(report, now)                fake_progress(now)
#define feed_counts(feed)                           ((struct feed_counts){.bad_count = 3})
#define progressive_step(progressive, done)         ((void)(done), fake.stepped++)
#define progressive_keep(progressive)               (fake.kept++)
#define progressive_measure(progressive, heads)     fake_measure()
#define progressive_join(progressive)               fake_join()
#define progressive_joined(progressive)             (fake.let_go++, ST_OK)
#define node_index(node)                            fake.index
#define node_reduce(node)                           NULL
#define reduce_mark(reduce)                         (fake.marks++)
#define reduce_marked(reduce)                       fake.marked
#define doing_end(what)                             (fake.recovered += (what) == DOING_recovery)
#include "engine/run/train.c"

static struct session session;
static struct trainer t;
static struct train_options options;
static struct train_watch watch;
static struct train_look looks[32];
static uint32_t look_count;
static void on_looked(void *context, const struct train_look *look)
{
    (void)context;
    looks[look_count++ % 32] = *look;
}
static void on_begun(void *context, struct feed *feed, const struct progress *from)
{
    (void)context, (void)feed, (void)from;
}

/* A training at step 10, with a plan that was made for a cluster. */
static void begin(void)
{
    memset(&fake, 0, sizeof fake);
    memset(&session, 0, sizeof session);
    fake.progress = &session.setup.model.progress;
    look_count = 0;
    watch = (struct train_watch){.begun = on_begun, .looked = on_looked};
    options = (struct train_options){.watch = &watch};
    session.replanner = (struct replanner *)(void *)&fake; /* is there, and never looked into */
    session.setup.model.progress = (struct progress){.step = 10, .examples = 10 * BATCH};
    session.setup.settings.train_epochs = 1;
    t = (struct trainer){.session = &session, .options = &options, .eval_step = UINT64_MAX};
    fake.ns = UINT64_C(5000000000);
}

/* The last look was at step 10, and now it is step 10 + `steps`, `ns` later. */
static status looked(uint64_t every, uint64_t steps, uint64_t ns)
{
    look_begin(&t);
    t.look_every = every;
    session.setup.model.progress.step += steps;
    session.setup.model.progress.examples += steps * BATCH;
    fake.ns += ns;
    return plan_look(&t);
}

static void plan_look__steps_since_the_last__not_before_they_are_over(void **state)
{
    (void)state;
    begin();
    assert_ok(looked(16, 15, STEP_NS));
    assert_int_equal(fake.looked, 0);
    assert_true(t.look_step == 10 && t.look_every == 16);
    begin();
    assert_ok(looked(16, 16, STEP_NS));
    assert_int_equal(fake.looked, 1);
    assert_int_equal(fake.examples, 16 * BATCH); /* since the last look */
    assert_int_equal(fake.replanned, 0);
    assert_int_equal(fake.told, 0);
    assert_true(t.look_step == 26 && t.look_examples == 26 * BATCH && t.look_ns == fake.ns);
    begin();
    session.replanner = NULL;
    assert_ok(looked(16, 100, STEP_NS));
    assert_int_equal(fake.looked, 0);
}

/* As many steps as a second has had, at least one. */
static void plan_look__steps_take_long_or_not__the_next_look_is_a_second_away(void **state)
{
    (void)state;
    static const struct {
        uint64_t steps, ns, every;
    } cases[] = {
        {16, 500000000, 32}, {16, 1000000000, 16}, {16, 4000000000, 4},  {1, 3000000000, 1},
        {16, 1000, 16000},   {16, 2000000, 8000},  {20, 1250000000, 16},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin();
        assert_ok(looked(1, cases[i].steps, cases[i].ns));
        assert_int_equal(t.look_every, cases[i].every);
    }
}

static void plan_look__another_plan_is_due__is_made_and_told(void **state)
{
    (void)state;
    for (int is_changed = 0; is_changed < 2; is_changed++) {
        begin();
        fake.is_due = true;
        fake.is_changed = is_changed;
        fake.plan_ns = 700000000;
        assert_ok(looked(16, 20, 500000000));
        assert_true(fake.replanned == 1 && fake.told == 1 && fake.told_changed == is_changed);
        assert_int_equal(fake.told_step, 30);
        assert_string_equal(fake.why, "stage 1 is slow");
        assert_int_equal(fake.pause_ns, 700000000);
        /* The time of planning is none of steps, neither of those before nor of those to come. */
        assert_int_equal(t.look_every, 40);
        assert_int_equal(t.look_ns, UINT64_C(5000000000) + 500000000 + 700000000);
    }
}

static void plan_look__no_plan_can_be_made__saves_and_fails(void **state)
{
    (void)state;
    begin();
    fake.is_due = true;
    fake.replans = ST_MEMORY;
    assert_int_equal(looked(16, 20, 500000000), ST_MEMORY);
    assert_true(fake.failed == 1 && fake.told == 0);
}

/* Jobs end where something is due: looks a second apart, of 100 steps each, the first after 16 steps, and
 * what is due at multiples. */
static void loop__plan_for_a_cluster__jobs_end_at_looks(void **state)
{
    (void)state;
    begin();
    fake.last = 260;
    session.setup.settings.eval_every = 70;
    assert_ok(loop(&t));
    assert_string_equal(fake.untils, "26 70 126 140 210 226 280");
    assert_string_equal(fake.at, "26 126 226");
    assert_int_equal(t.save_ns, UINT64_C(5000000000)); /* checkpoint.seconds count from the first step on */
    assert_int_equal(fake.examples, 100 * BATCH);
    begin();
    session.replanner = NULL;
    fake.last = 260;
    session.setup.settings.eval_every = 70;
    session.setup.settings.checkpoint_every = 100;
    assert_ok(loop(&t));
    assert_string_equal(fake.untils, "70 100 140 200 210 280");
    assert_int_equal(fake.looked, 0);
}

/* Whoever follows hears after each job where the time has gone, and that it goes on. */
static void loop__watched__each_job_is_looked_at(void **state)
{
    (void)state;
    begin();
    session.replanner = NULL;
    fake.last = 250;
    session.setup.settings.checkpoint_every = 100;
    t.report.pause_ns = 77;
    assert_ok(loop(&t));
    assert_string_equal(fake.untils, "100 200 300");
    assert_int_equal(look_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        static const uint64_t steps[] = {90, 190, 240};
        assert_true(!looks[i].is_over && looks[i].pause_ns == 77);
        assert_int_equal(looks[i].times.wall_ns, UINT64_C(5000000000) + steps[i] * STEP_NS);
    }
    look_tell(&t, true);
    assert_true(look_count == 4 && looks[3].is_over);
    watch.looked = NULL;
    look_tell(&t, false);
    options.watch = NULL;
    look_tell(&t, false);
    assert_int_equal(look_count, 4);
}

/* Each of three reasons ends the job; what is told and written is so in any case. */
static void tick__wish_to_stop_save_or_failure__ends_the_job(void **state)
{
    (void)state;
    for (uint32_t reasons = 0; reasons < 8; reasons++) {
        begin();
        fake.is_stopped = reasons & 1;
        fake.save_is_over = reasons >> 1 & 1;
        fake.is_told_due = true;
        if (reasons >> 2) failure_keep(&t.standing_failure, status_fail(ST_IO, __FILE__, __LINE__, "made up"));
        assert_int_equal(tick(&t), reasons != 0);
        assert_true(look_count == 1 && !looks[0].is_over && fake.drained == 1);
        assert_int_equal(atomic_load(&t.standing.shared_state), reasons >> 2 ? STANDING_NONE : STANDING_WANTED);
    }
}

/* --- how training goes ---------------------------------------------------------------------------- */

static uint64_t row_count[3], rows_done[3]; /* the third: behind the last table */
static struct graph graph;

/* A step of 32 examples, whose loss is 16, ends. */
static void step_end(uint64_t epoch)
{
    rows_done[0] += 3, rows_done[1] += 5;
    fake.ns += STEP_NS;
    step_done(&t, &(struct step_done){
                      .epoch = epoch, .example_count = BATCH, .loss_sum = 16, .row_count = rows_done, .ticket = 9});
}
static void begin_steps(bool has_window, bool has_nodes)
{
    begin();
    watch = (struct train_watch){.begun = on_begun, .looked = on_looked};
    options.watch = NULL;
    graph.table_count = 2;
    memset(row_count, 0, sizeof row_count);
    memcpy(rows_done, (const uint64_t[]){0, 0, 7}, sizeof rows_done);
    t.graph = &graph;
    t.row_count = row_count;
    t.examples_reported = 10 * BATCH;
    if (has_window) t.progressive = (struct progressive *)(void *)&fake;
    if (has_nodes) t.node = (struct node *)(void *)&fake;
}
static uint32_t state_now(void) { return atomic_load(&t.standing.shared_state); }

static void step_done__passes__progress_counts_both(void **state)
{
    (void)state;
    begin_steps(false, false);
    step_end(0);
    step_end(0);
    const struct progress *p = &session.setup.model.progress;
    assert_true(p->step == 12 && p->examples == 12 * BATCH && p->epoch == 0 && p->epoch_examples == 2 * BATCH);
    assert_true(p->pass_examples == 0);
    step_end(1);
    assert_true(p->step == 13 && p->epoch == 1 && p->epoch_examples == BATCH && p->pass_examples == 2 * BATCH);
    assert_true(row_count[0] == 9 && row_count[1] == 15 && row_count[2] == 0);
    assert_true(t.ticket == 9 && t.loss_sum == 48);
    assert_true(state_now() == STANDING_NONE && fake.kept == 0);
}

/* The time of recovery ends with the first step, once, and only where there is one. */
static void step_done__first_after_a_save__recovery_is_over(void **state)
{
    (void)state;
    begin_steps(false, false);
    step_end(0);
    assert_int_equal(fake.recovered, 0);
    t.recovers = 1;
    step_end(0);
    step_end(0);
    assert_int_equal(fake.recovered, 1);
}

/* It is asked for when it is time, taken at the end of the next step, and told at the next look. */
static void standing_look__time_to_tell__what_the_next_step_leaves_is_told(void **state)
{
    (void)state;
    for (int has_window = 0; has_window < 2; has_window++) {
        begin_steps(has_window, false);
        step_end(0);
        standing_look(&t);
        assert_true(state_now() == STANDING_NONE && fake.told == 0);
        fake.is_told_due = true;
        standing_look(&t);
        assert_int_equal(state_now(), STANDING_WANTED);
        standing_look(&t);
        assert_int_equal(state_now(), STANDING_WANTED);
        assert_int_equal(fake.told, 0);
        step_end(0);
        const uint64_t then_ns = fake.ns;
        assert_int_equal(state_now(), STANDING_THERE);
        assert_true(fake.kept == (uint32_t)has_window && fake.stepped == 2 * (uint32_t)has_window);
        step_end(0); /* is not told */
        fake.is_told_due = false;
        standing_look(&t);
        assert_true(state_now() == STANDING_NONE && fake.told == 1);
        assert_true(fake.now_at.step == 12 && fake.now_at.examples == 12 * BATCH && fake.now.ns == then_ns);
        assert_true(fake.now.loss == 0.5 && fake.now.counts.bad_count == 3);
        assert_true(fake.now.window == (has_window ? 64 : 0) && fake.joined == 0 && fake.let_go == 0);
        /* The next one is of what follows. */
        t.loss_sum += 16;
        standing_take(&t);
        assert_int_equal(fake.kept, 2 * has_window);
        standing_look(&t);
        assert_true(fake.told == 2 && fake.now_at.step == 13 && fake.now.loss == 1);
        standing_take(&t);
        standing_look(&t); /* no example since */
        assert_int_equal(fake.told, 2);
    }
}

/* Several nodes tell after the step that node 0 has marked, whoever looks. */
static void standing_look__nodes__node_0_marks_and_all_join(void **state)
{
    (void)state;
    begin_steps(true, true);
    fake.is_told_due = true;
    standing_look(&t);
    standing_look(&t); /* marks no second step */
    assert_true(state_now() == STANDING_WANTED && fake.marks == 1);
    fake.marked = 12;
    step_end(0);
    assert_int_equal(state_now(), STANDING_WANTED);
    step_end(0);
    assert_true(state_now() == STANDING_THERE && fake.kept == 1);
    standing_look(&t);
    assert_true(fake.told == 1 && fake.now_at.step == 12 && fake.joined == 1 && fake.let_go == 1 && fake.marks == 1);
    begin_steps(true, true);
    fake.index = 1;
    fake.is_told_due = true;
    standing_look(&t);
    assert_true(state_now() == STANDING_NONE && fake.marks == 0);
    fake.marked = 11;
    step_end(0);
    assert_int_equal(state_now(), STANDING_THERE);
    fake.joins = ST_PEER_LOST;
    standing_look(&t);
    assert_true(failure_is(&t.standing_failure) && fake.told == 0);
    standing_look(&t); /* no second time */
    assert_int_equal(fake.joined, 1);
    assert_true(tick(&t));
}

/* Nodes without figures to join tell each for itself. Where no step has been, there is nothing to tell. */
static void standing_look__nothing_to_join__each_tells_its_own(void **state)
{
    (void)state;
    begin_steps(false, true);
    fake.index = 1;
    fake.is_told_due = true;
    standing_look(&t);
    assert_true(state_now() == STANDING_WANTED && fake.marks == 0);
    step_end(0);
    standing_look(&t);
    assert_true(fake.told == 1 && fake.joined == 0 && fake.let_go == 0);
    begin_steps(false, false);
    progress_tell(&t);
    assert_int_equal(fake.told, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan_look__steps_since_the_last__not_before_they_are_over),
        cmocka_unit_test(plan_look__steps_take_long_or_not__the_next_look_is_a_second_away),
        cmocka_unit_test(plan_look__another_plan_is_due__is_made_and_told),
        cmocka_unit_test(plan_look__no_plan_can_be_made__saves_and_fails),
        cmocka_unit_test(loop__plan_for_a_cluster__jobs_end_at_looks),
        cmocka_unit_test(loop__watched__each_job_is_looked_at),
        cmocka_unit_test(step_done__passes__progress_counts_both),
        cmocka_unit_test(step_done__first_after_a_save__recovery_is_over),
        cmocka_unit_test(standing_look__time_to_tell__what_the_next_step_leaves_is_told),
        cmocka_unit_test(standing_look__nothing_to_join__each_tells_its_own),
        cmocka_unit_test(standing_look__nodes__node_0_marks_and_all_join),
        cmocka_unit_test(tick__wish_to_stop_save_or_failure__ends_the_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}

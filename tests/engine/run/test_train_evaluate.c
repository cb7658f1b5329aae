/* Evaluations of a training, with sets, a store and figures that are made up: which sets are measured after a
 * step, whether the model is the best or has diverged, and which rows are seen meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/engine/run/session_fixture.h"

#include <math.h>

#include "engine/base/clock.h"
#include "engine/base/doing.h"
#include "engine/base/stop.h"
#include "engine/base/trace.h"
#include "engine/node/stream.h"
#include "engine/node/tables.h"
#include "engine/node/talk.h"
#include "engine/run/train_internal.h"
#include "io/store/store_ticket.h"

/* In place of the clock, the sets' feeds, the store, the report and saves. */
static struct {
    uint64_t ns;
    char done[256]; /* what has been done, in order */
    uint32_t opened, bests, failed, saved_failed;
    status opens[3], measures[3]; /* of the set */
    double values[3];             /* of the first head, set by set */
    uint64_t pause_ns;
    uint32_t paused;
    struct exchange exchange;
    uint64_t own_rows[1];
    const uint64_t *seen; /* rows that evaluation sees; NULL: all */
    uint32_t seen_ticket, seen_all;
    status holds;
    const struct feed *listened[3]; /* feeds that a signal wakes, in order; [2]: the last one */
    uint32_t listens;
    bool is_woken;
    int doing; /* evaluations begun, without those ended */
    uint32_t done_count;
} fake;
static struct figure_kind kinds[3]; /* the third: no figure of a head */
static struct head heads[2];

static void note(const char *what)
{
    const size_t used = strlen(fake.done);
    snprintf(fake.done + used, sizeof fake.done - used, "%s%s", used ? " " : "", what);
}
static status fake_status(status st) { return st == ST_OK ? ST_OK : status_fail(st, __FILE__, __LINE__, "made up"); }
static status fake_open(uint32_t set)
{
    fake.opened = set;
    return fake_status(fake.opens[set]);
}
static status fake_measure(void)
{
    assert_int_equal(fake.doing, 1);
    note("measure");
    fake.ns += 300;
    heads[0].values[1] = fake.values[fake.opened];
    return fake_status(fake.measures[fake.opened]);
}
static void fake_report(const char *set, uint64_t step)
{
    char text[64];
    snprintf(text, sizeof text, "%s@%llu", set, (unsigned long long)step);
    note(text);
}
static status fake_see(const uint64_t *rows, uint32_t ticket)
{
    fake.seen = rows;
    fake.seen_ticket = ticket;
    note("see");
    return ST_OK;
}
static void fake_listen(bool (*wake)(void *), const void *feed)
{
    fake.listened[fake.listens < 2 ? fake.listens : 2] = feed;
    fake.listens++;
    fake.is_woken = wake != NULL;
}
static status fake_best(void)
{
    fake.bests++;
    note("best");
    return ST_OK;
}
#define clock_ns()                                 fake.ns
#define stop_listen(wake, context)                 fake_listen(wake, context)
#define eval_feeds_open(feeds, crew, i)            fake_open(i)
#define eval_feeds_measure(feeds, crew, heads, by) fake_measure()
#define eval_feeds_shut(feeds)                     note("shut")
#define feed_hold(feed)                            fake_status(fake.holds)
#define feed_let_go(feed)                          note("go")
#define store_sees_until(store, rows, ticket)      ((void)(store), fake_see(rows, ticket))
#define store_sees_all(store)                      (fake.seen_all++, note("all"))
#define report_eval(report, set, heads, step)      fake_report(set, step)
#define report_pause(report, ns)                   (fake.pause_ns += (ns), fake.paused++)
#define train_best_save(t)                         fake_best()
#define train_fail_unsaved(t, st)                  ((void)(t), fake.failed++, st)
#define train_save_and_fail(t, st)                 ((void)(t), fake.saved_failed++, st)
#define node_reduce(node)                          NULL
#define reduce_exchange(reduce)                    ((void)(reduce), &fake.exchange)
#define reduce_own_rows(reduce)                    ((void)(reduce), fake.own_rows)
#define doing_begin(what)                          (fake.doing += (what) == DOING_eval)
#define doing_end(what)                            (fake.doing -= (what) == DOING_eval, fake.done_count++)
#include "engine/run/train.c"

static struct session session;
static struct train_options options;
static struct trainer t;
static uint64_t rows[1];

/* A training after step 20, with two sets, and two heads whose second figure is a loss. */
static void begin(bool may_stop)
{
    memset(&fake, 0, sizeof fake);
    memset(&session, 0, sizeof session);
    memset(heads, 0, sizeof heads);
    kinds[0] = (struct figure_kind){.key = "auc", .text = "AUC", .better = 1};
    kinds[1] = (struct figure_kind){.key = "logloss", .text = "log loss", .better = -1, .is_loss = true};
    for (int i = 0; i < 2; i++) {
        heads[i].figures = kinds;
        heads[i].figure_count = 2;
        heads[i].section = "loss";
        heads[i].name = i ? "second" : "first";
        heads[i].values[0] = NAN; /* of one class alone; no divergence */
        heads[i].values[1] = 0.5;
    }
    session.setup.model.progress.step = 20;
    options = (struct train_options){0};
    t = (struct trainer){.session = &session,
                         .options = &options,
                         .eval_step = UINT64_MAX,
                         .feed = (struct feed *)(void *)&fake,
                         .row_count = rows,
                         .ticket = 4,
                         .heads = {.items = heads, .count = 2}};
    t.eval.sets.count = 2;
    t.eval.feed = (struct feed *)(void *)&fake.ns;
    snprintf(t.eval.sets.item[0].name, sizeof t.eval.sets.item[0].name, "near");
    snprintf(t.eval.sets.item[1].name, sizeof t.eval.sets.item[1].name, "far");
    for (int i = 0; i < 3; i++) fake.values[i] = 0.5;
    t.stop = (struct early_stop){.patience = 2, .best = &session.setup.model.best};
    if (may_stop) t.stop.head = &heads[0], t.stop.figure = 1;
}

/* Set by set, each with the rows of the step seen, once a step; the first one's figures say what is best. */
static void evaluate__two_sets__both_once_and_the_first_decides(void **state)
{
    (void)state;
    begin(true);
    assert_ok(evaluate(&t));
    assert_string_equal(fake.done, "see measure near@20 shut all go best see measure far@20 shut all go");
    assert_true(fake.bests == 1 && t.eval_step == 20 && fake.seen == rows && fake.seen_ticket == 4);
    assert_true(fake.paused == 2 && fake.pause_ns == 600 && fake.doing == 0 && fake.done_count == 2);
    /* A signal wakes whichever feed is waited for. */
    assert_true(fake.listens == 4 && fake.listened[0] == t.eval.feed && fake.listened[1] == t.feed);
    assert_true(fake.listened[2] == t.feed && fake.is_woken);
    assert_true(session.setup.model.best.step == 20 && session.setup.model.best.evaluations_since == 0);
    fake.done[0] = 0;
    assert_ok(evaluate(&t));
    assert_string_equal(fake.done, "");
    session.setup.model.progress.step = 21;
    fake.values[1] = 0.1; /* the second set's is better: is none of it */
    assert_ok(evaluate(&t));
    assert_string_equal(fake.done, "see measure near@21 shut all go see measure far@21 shut all go");
    assert_true(session.setup.model.best.step == 20 && session.setup.model.best.evaluations_since == 1);
    begin(false);
    assert_ok(evaluate(&t));
    assert_int_equal(fake.bests, 0);
}

/* What fails for the first set is not tried for the second; a signal is no failure. */
static void evaluate__first_set_fails__ends_there(void **state)
{
    (void)state;
    begin(true);
    fake.measures[0] = ST_IO;
    assert_int_equal(evaluate(&t), ST_IO);
    assert_string_equal(fake.done, "see measure shut all go");
    begin(true);
    fake.holds = ST_MEMORY;
    assert_int_equal(evaluate(&t), ST_MEMORY);
    assert_string_equal(fake.done, "shut all go");
    begin(true);
    fake.opens[0] = ST_IO;
    assert_int_equal(evaluate(&t), ST_IO);
    assert_string_equal(fake.done, "");
    begin(true);
    fake.measures[0] = ST_STOPPED;
    assert_ok(evaluate(&t));
    assert_string_equal(fake.done, "see measure shut all go");
    assert_int_equal(fake.bests, 0);
}

/* A loss that is not finite, of whichever head, ends training; any other figure may be undefined. */
static void evaluate__loss_is_not_finite__has_diverged(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        begin(true);
        fake.values[0] = i == 0 ? INFINITY : 0.5;
        if (i == 1) heads[1].values[1] = NAN;
        assert_int_equal(evaluate_due(&t), ST_DIVERGED);
        assert_message(i == 0 ? "step 20: the evaluation's log loss of [loss first] is not finite"
                              : "step 20: the evaluation's log loss of [loss second] is not finite");
        assert_true(fake.failed == 1 && fake.saved_failed == 0 && fake.bests == 0);
    }
    begin(false);
    assert_ok(evaluate_due(&t)); /* an AUC that is not there */
    /* A head without a loss, such as one of ranks. */
    begin(false);
    kinds[1].is_loss = false;
    heads[1].values[1] = NAN;
    assert_ok(evaluate_due(&t));
    begin(false);
    fake.measures[1] = ST_IO;
    assert_int_equal(evaluate_due(&t), ST_IO);
    assert_true(fake.failed == 0 && fake.saved_failed == 1);
}

/* Rows behind the last step are not seen by those who find rows themselves; where owners do, they know. */
static void evaluate__nodes__rows_are_seen_where_they_are_found(void **state)
{
    (void)state;
    begin(false);
    t.node = (struct node *)(void *)&fake;
    fake.exchange.asks_rows = true;
    assert_ok(evaluate(&t));
    assert_string_equal(fake.done, "measure near@20 shut go measure far@20 shut go");
    assert_true(fake.listens == 4 && !fake.is_woken); /* none may end before the others */
    assert_true(fake.seen == NULL && fake.seen_all == 0);
    begin(false);
    t.node = (struct node *)(void *)&fake;
    assert_ok(evaluate(&t));
    assert_true(fake.seen == fake.own_rows && fake.seen_all == 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evaluate__two_sets__both_once_and_the_first_decides),
        cmocka_unit_test(evaluate__first_set_fails__ends_there),
        cmocka_unit_test(evaluate__loss_is_not_finite__has_diverged),
        cmocka_unit_test(evaluate__nodes__rows_are_seen_where_they_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}

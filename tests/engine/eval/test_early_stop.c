/* Early stopping, evaluation by evaluation: what counts as better, and when it is over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "engine/eval/early_stop.h"
#include "engine/model/model.h"

static const struct figure_kind kinds[] = {{.key = "auc", .text = "AUC", .digits = 5, .better = 1},
                                           {.key = "logloss", .text = "log loss", .digits = 5, .better = -1}};

struct watched {
    struct head head;
    struct best best;
    struct early_stop stop;
};

static void watch(struct watched *w, uint32_t figure, uint32_t patience)
{
    memset(w, 0, sizeof *w);
    w->head = (struct head){.name = "bce", .figures = kinds, .figure_count = 2};
    w->stop = (struct early_stop){.head = &w->head, .figure = figure, .patience = patience, .best = &w->best};
}

static bool is_better(struct watched *w, uint64_t step, double value)
{
    bool better;
    w->head.values[w->stop.figure] = value;
    assert_int_equal(early_stop_take(&w->stop, step, &better), ST_OK);
    assert_int_equal(w->best.evaluated_step, step);
    return better;
}

/* An evaluation as good as the best is not better: the earlier one stays the best, and patience runs out. */
static void early_stop_take__equal_figure__is_not_better(void **state)
{
    (void)state;
    for (uint32_t figure = 0; figure < 2; figure++) {
        struct watched w;
        const double worse = figure ? 0.7 : 0.3, better = figure ? 0.3 : 0.7;
        watch(&w, figure, 2);
        assert_true(is_better(&w, 10, 0.5));
        assert_false(is_better(&w, 20, 0.5));
        assert_true(w.best.step == 10 && w.best.evaluations_since == 1);
        assert_false(early_stop_is_over(&w.stop));
        assert_true(is_better(&w, 30, better));
        assert_true(w.best.step == 30 && w.best.evaluations_since == 0 && w.best.value == better);
        assert_false(is_better(&w, 40, worse));
        assert_false(early_stop_is_over(&w.stop));
        assert_false(is_better(&w, 50, better));
        assert_true(early_stop_is_over(&w.stop));
        assert_true(w.best.step == 30 && w.best.value == better);
    }
}

static void early_stop_take__no_figure__is_invalid(void **state)
{
    (void)state;
    struct watched w;
    bool better;
    watch(&w, 0, 1);
    w.head.values[0] = NAN;
    assert_int_equal(early_stop_take(&w.stop, 7, &better), ST_INVALID);
    assert_non_null(strstr(status_message(), "train.stop = bce.auc: the evaluation of step 7 has no such figure"));
}

/* A run that finds nothing left to train evaluates the last save's model once more. */
static void early_stop_take__the_same_step_again__counts_once(void **state)
{
    (void)state;
    struct watched w;
    watch(&w, 0, 2);
    assert_true(is_better(&w, 10, 0.5));
    assert_false(is_better(&w, 20, 0.4));
    assert_false(is_better(&w, 20, 0.4));
    assert_int_equal(w.best.evaluations_since, 1);
    assert_false(early_stop_is_over(&w.stop));
    assert_true(is_better(&w, 20, 0.6)); /* of other data */
    assert_false(is_better(&w, 30, 0.4));
    assert_int_equal(w.best.evaluations_since, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(early_stop_take__the_same_step_again__counts_once),
        cmocka_unit_test(early_stop_take__equal_figure__is_not_better),
        cmocka_unit_test(early_stop_take__no_figure__is_invalid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}

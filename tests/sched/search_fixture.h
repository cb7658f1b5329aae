/* What the tests of methods share: a number that stands for all that a search has
 * found. Include after cmocka.h. */
#ifndef HETERPS_TESTS_SCHED_SEARCH_FIXTURE_H
#define HETERPS_TESTS_SCHED_SEARCH_FIXTURE_H

#include "sched/method.h"

/* Runs a method, which has to succeed, with options that keep the curve. Stands for when better plans were
 * found, and for the last of them. */
static inline uint64_t search_fingerprint(const struct cost_model *model, method_id method,
                                          const struct search_options *options)
{
    struct search search;
    assert_int_equal(search_open(&search, model, options), ST_OK);
    assert_int_equal(method_table[method].run(&search), ST_OK);
    uint64_t hash = search.curve_count;
    for (uint32_t c = 0; c < search.curve_count; c++)
        hash = (hash ^ search.curve[c].evaluations) * UINT64_C(0x9e3779b97f4a7c15);
    for (uint32_t l = 0; l < model->layer_count; l++) hash = (hash ^ search.best[l]) * UINT64_C(0x9e3779b97f4a7c15);
    search_close(&search);
    return hash;
}

#endif

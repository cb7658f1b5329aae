/* Tasks on places and links: times counted by hand, fairness by its definition,
 * and rules that random graphs keep. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sched/draw.h"
#include "sched/flow.h"

#define NEAR 1e-9

static void ran(struct flow *f) { assert_int_equal(flow_run(f), ST_OK); }

static void flow_run__one_place__serves_who_was_ready_first(void **state)
{
    (void)state;
    struct flow f = {0};
    const uint32_t card = flow_place_add(&f), other = flow_place_add(&f);
    const uint32_t early = flow_task_add(&f, other, 1), late = flow_task_add(&f, card, 3);
    const uint32_t second = flow_task_add(&f, card, 2), third = flow_task_add(&f, card, 5);
    /* second waits for early (1 s) and is ready before third, which waits for two of other. */
    const uint32_t early_too = flow_task_add(&f, other, 1);
    flow_after(&f, third, early_too);
    flow_after(&f, second, early);
    flow_after(&f, second, FLOW_NONE);
    ran(&f);
    assert_float_equal(f.tasks[late].end, 3, NEAR);
    assert_float_equal(f.tasks[second].ready, 1, NEAR);
    assert_float_equal(f.tasks[second].begin, 3, NEAR);
    assert_float_equal(f.tasks[second].end, 5, NEAR);
    assert_float_equal(f.tasks[third].ready, 2, NEAR);
    assert_float_equal(f.tasks[third].end, 10, NEAR);
    assert_float_equal(f.seconds, 10, NEAR);
    assert_float_equal(f.places[card].busy, 10, NEAR);
    assert_float_equal(f.places[other].busy, 2, NEAR);
    flow_free(&f);
}

/* Of the tasks that are ready, those that are first go before others that were ready earlier; among them
 * the one that was ready first does. */
static void flow_run__tasks_that_are_first__are_served_before_others(void **state)
{
    (void)state;
    struct flow f = {0};
    const uint32_t card = flow_place_add(&f), clock = flow_place_add(&f);
    uint32_t tick[2], task[4];
    for (uint32_t i = 0; i < 2; i++) tick[i] = flow_task_add(&f, clock, 1);
    const uint32_t running = flow_task_add(&f, card, 5);
    for (uint32_t i = 0; i < 4; i++) task[i] = flow_task_add(&f, card, 1);
    flow_after(&f, task[3], tick[0]); /* tasks 0 and 1 are ready at once, 3 after 1 s, 2 after 2 s */
    flow_after(&f, task[2], tick[1]);
    flow_first(&f, task[2]);
    flow_first(&f, task[3]);
    ran(&f);
    assert_float_equal(f.tasks[running].begin, 0, NEAR);
    assert_float_equal(f.tasks[task[3]].begin, 5, NEAR);
    assert_float_equal(f.tasks[task[2]].begin, 6, NEAR);
    assert_float_equal(f.tasks[task[0]].begin, 7, NEAR);
    assert_float_equal(f.tasks[task[1]].begin, 8, NEAR);
    flow_free(&f);
}

/* Ready at once, through meetings of others or not: the one that was added first. */
static void flow_run__ready_at_once__goes_by_number(void **state)
{
    (void)state;
    struct flow f = {0};
    const uint32_t card = flow_place_add(&f);
    const uint32_t start = flow_task_add(&f, FLOW_NONE, 1);
    const uint32_t first = flow_task_add(&f, card, 1), second = flow_task_add(&f, card, 1);
    const uint32_t meeting = flow_task_add(&f, FLOW_NONE, 0), meeting_too = flow_task_add(&f, FLOW_NONE, 0);
    flow_after(&f, second, start);
    flow_after(&f, meeting, start);
    flow_after(&f, meeting_too, meeting);
    flow_after(&f, first, meeting_too);
    ran(&f);
    assert_float_equal(f.tasks[first].begin, 1, NEAR);
    assert_float_equal(f.tasks[second].begin, 2, NEAR);
    flow_free(&f);
}

static void flow_run__two_on_a_link__share_it_until_one_is_gone(void **state)
{
    (void)state;
    struct flow f = {0};
    const uint32_t wire = flow_link_add(&f, 10);
    const uint32_t small = flow_transfer_add(&f, FLOW_NONE, 20, &wire, 1);
    const uint32_t large = flow_transfer_add(&f, FLOW_NONE, 50, &wire, 1);
    const uint32_t later = flow_transfer_add(&f, FLOW_NONE, 10, &wire, 1);
    flow_after(&f, later, small);
    ran(&f);
    /* 5 each for 4 s; then large (30 left) with later: 2 s, and 20 alone. */
    assert_float_equal(f.tasks[small].end, 4, NEAR);
    assert_float_equal(f.tasks[later].end, 6, NEAR);
    assert_float_equal(f.tasks[large].end, 8, NEAR);
    assert_float_equal(f.links[wire].bytes, 80, NEAR);
    flow_free(&f);
}

/* What one link holds back leaves the others' rest to tasks that can use it. */
static void flow_run__unlike_links__rates_are_max_min_fair(void **state)
{
    (void)state;
    struct flow f = {0};
    const uint32_t narrow = flow_link_add(&f, 2), wide = flow_link_add(&f, 10), both[] = {narrow, wide};
    const uint32_t held[2] = {flow_transfer_add(&f, FLOW_NONE, 4, both, 2),
                              flow_transfer_add(&f, FLOW_NONE, 4, both, 2)};
    const uint32_t free_one = flow_transfer_add(&f, FLOW_NONE, 32, &wide, 1);
    ran(&f);
    /* 1, 1 and 8. */
    assert_float_equal(f.tasks[held[0]].end, 4, NEAR);
    assert_float_equal(f.tasks[held[1]].end, 4, NEAR);
    assert_float_equal(f.tasks[free_one].end, 4, NEAR);
    flow_free(&f);
}

/* A stream sends one after another, each after its latency; and nothing goes without bytes or links. */
static void flow_run__transfers_of_one_place__follow_each_other(void **state)
{
    (void)state;
    struct flow f = {0};
    const uint32_t stream = flow_place_add(&f), wire = flow_link_add(&f, 10);
    const uint32_t a = flow_transfer_add(&f, stream, 20, &wire, 1), b = flow_transfer_add(&f, stream, 10, &wire, 1);
    const uint32_t none = flow_transfer_add(&f, FLOW_NONE, 0, &wire, 1),
                   local = flow_transfer_add(&f, FLOW_NONE, 9, NULL, 0);
    f.tasks[b].seconds = 0.5;
    ran(&f);
    assert_float_equal(f.tasks[a].end, 2, NEAR);
    assert_float_equal(f.tasks[b].begin, 2, NEAR);
    assert_float_equal(f.tasks[b].end, 3.5, NEAR);
    assert_float_equal(f.tasks[none].end, 0, 0);
    assert_float_equal(f.tasks[local].end, 0, 0);
    assert_float_equal(f.places[stream].busy, 3.5, NEAR);
    flow_free(&f);
}

static void flow_run__ring_of_tasks__is_refused(void **state)
{
    (void)state;
    struct flow f = {0};
    flow_task_add(&f, FLOW_NONE, 1);
    const uint32_t a = flow_task_add(&f, FLOW_NONE, 1), b = flow_task_add(&f, FLOW_NONE, 1);
    flow_after(&f, a, b);
    flow_after(&f, b, a);
    assert_int_equal(flow_run(&f), ST_INVALID);
    assert_non_null(strstr(status_message(), "task 1 of 3"));
    flow_free(&f);
}

/* Random graphs: nothing before what it waits for, no place twice at once, no link over its rate, and no idle
 * place while a task waits for it. */
static void flow_run__random_graphs__keep_to_the_rules(void **state)
{
    (void)state;
    enum { TASKS = 60, PLACES = 4, LINKS = 5 };
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct draw d = draw_make(seed, DRAW_TREES);
        struct flow f = {0};
        for (uint32_t p = 0; p < PLACES; p++) flow_place_add(&f);
        for (uint32_t l = 0; l < LINKS; l++) flow_link_add(&f, 1 + draw_below(&d, 9));
        double bytes[LINKS] = {0};
        for (uint32_t t = 0; t < TASKS; t++) {
            const uint32_t place = draw_below(&d, PLACES + 1), from = draw_below(&d, LINKS);
            const uint32_t links[] = {from, (from + 1 + draw_below(&d, LINKS - 1)) % LINKS};
            const double amount = place == PLACES ? draw_below(&d, 10) : 1 + draw_below(&d, 9);
            if (draw_below(&d, 2) == 0) {
                flow_task_add(&f, place == PLACES ? FLOW_NONE : place, amount / 8);
            } else {
                flow_transfer_add(&f, place == PLACES ? FLOW_NONE : place, amount, links, 2);
                for (uint32_t k = 0; k < 2; k++) bytes[links[k]] += amount;
            }
            for (uint32_t k = draw_below(&d, 3); k-- > 0 && t > 0;) flow_after(&f, t, draw_below(&d, t));
        }
        ran(&f);
        for (uint32_t e = 0; e < f.edge_count; e++)
            assert_true(f.tasks[f.edges[e].after].ready >= f.tasks[f.edges[e].before].end);
        for (uint32_t l = 0; l < LINKS; l++) {
            assert_float_equal(f.links[l].bytes, bytes[l], NEAR);
            assert_true(f.seconds * f.links[l].rate >= bytes[l] * (1 - NEAR));
        }
        for (uint32_t a = 0; a < TASKS; a++) {
            const struct flow_task *x = &f.tasks[a];
            assert_true(x->ready <= x->begin && x->begin + x->seconds <= x->end * (1 + NEAR));
            if (x->place == FLOW_NONE) assert_true(x->begin == x->ready);
            bool is_served = x->place == FLOW_NONE || x->begin == x->ready;
            for (uint32_t b = 0; b < TASKS; b++) {
                const struct flow_task *y = &f.tasks[b];
                if (a == b || x->place == FLOW_NONE || x->place != y->place) continue;
                assert_true(x->end <= y->begin || y->end <= x->begin);
                is_served = is_served || x->begin == y->end;
                if (x->ready < y->ready || (x->ready == y->ready && a < b)) assert_true(x->begin <= y->begin);
            }
            assert_true(is_served);
        }
        flow_free(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flow_run__one_place__serves_who_was_ready_first),
        cmocka_unit_test(flow_run__tasks_that_are_first__are_served_before_others),
        cmocka_unit_test(flow_run__ready_at_once__goes_by_number),
        cmocka_unit_test(flow_run__two_on_a_link__share_it_until_one_is_gone),
        cmocka_unit_test(flow_run__unlike_links__rates_are_max_min_fair),
        cmocka_unit_test(flow_run__transfers_of_one_place__follow_each_other),
        cmocka_unit_test(flow_run__ring_of_tasks__is_refused),
        cmocka_unit_test(flow_run__random_graphs__keep_to_the_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

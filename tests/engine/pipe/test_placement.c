/* Placement: every unit of a plan has a core of its own where they fit; where they do not, a sum says
 * so, or a pool shares the cores. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "engine/device/card/card.h"
#include "engine/pipe/placement.h"

/* Layers e x h1 h2 bce, as the graph's file has them. */
static const char strings[] = "e\0x\0h1\0h2\0bce";
static const struct graph_layer layers[] = {{.name = 0}, {.name = 2}, {.name = 4}, {.name = 7}, {.name = 10}};
static const struct graph graph = {.strings = strings, .layers = layers, .layer_count = 5};

#define STAGES_MAX 3
struct hand_plan {
    struct plan plan;
    struct resource_type type[2];
    struct plan_stage stage[STAGES_MAX];
};

/* Stages e..x, h1, h2..bce of `stage_count` > 0 units and replicas. */
static const struct plan *hand_plan(struct hand_plan *h, uint32_t stage_count, const uint32_t *k,
                                    const uint32_t *replicas, uint32_t service_cores)
{
    static const uint32_t first[] = {0, 2, 3}, last[] = {1, 2, 4};
    memset(h, 0, sizeof *h);
    h->type[0] = (struct resource_type){.name = "core", .device = RESOURCE_CPU};
    h->type[1] = (struct resource_type){.name = "v100", .device = RESOURCE_CUDA, .device_index = 3};
    for (uint32_t s = 0; s < stage_count; s++)
        h->stage[s] = (struct plan_stage){
            .first_layer = first[s], .last_layer = last[s], .k = k[s], .replicas = replicas ? replicas[s] : 1};
    h->plan = (struct plan){.types = h->type,
                            .stages = h->stage,
                            .type_count = 2,
                            .stage_count = stage_count,
                            .service_cores = service_cores,
                            .method = ""};
    return &h->plan;
}

/* Processors 10, 11, …: places of the mask are not numbers from 0. */
static const struct cores *hand_cores(uint32_t count, bool is_whole)
{
    static struct cores cores;
    cores = (struct cores){.count = count, .is_whole = is_whole};
    for (uint32_t i = 0; i < count; i++) cores.processor[i] = 10 + (int)i;
    return &cores;
}

static void make(struct placement *p, const struct plan *plan, uint32_t pipelines, uint32_t core_count, bool share)
{
    if (placement_make(p, plan, &graph, pipelines, hand_cores(core_count, true), core_count, share) != ST_OK)
        fail_msg("%s", status_message());
}

static void assert_refused(const struct plan *plan, uint32_t pipelines, uint32_t core_count, const char *message)
{
    struct placement p, empty = {0};
    memset(&p, 0xAA, sizeof p);
    assert_int_equal(placement_make(&p, plan, &graph, pipelines, hand_cores(core_count, true), core_count, false),
                     ST_USAGE);
    assert_string_equal(status_message(), message);
    assert_memory_equal(&p, &empty, sizeof p);
}

static void assert_worker(const struct placement *p, uint32_t w, uint32_t pipeline, uint32_t stage, uint32_t core_count,
                          const int *processors)
{
    assert_true(w < p->worker_count);
    assert_int_equal(p->worker[w].pipeline, pipeline);
    assert_int_equal(p->worker[w].stage_begin, stage);
    assert_int_equal(p->worker[w].stage_end, stage + 1);
    assert_int_equal(p->worker[w].core_count, core_count);
    assert_memory_equal(p->worker[w].processors, processors, core_count * sizeof(int));
}

/* All lines of placement_tell, each ended by a newline. */
static void line_add(void *context, const char *line)
{
    strcat(context, line);
    strcat(context, "\n");
}
static const char *told(const struct placement *p, const struct plan *plan)
{
    static char text[4096];
    text[0] = 0;
    assert_int_equal(placement_tell(p, plan, &graph, line_add, text), ST_OK);
    return text;
}

#define K(...) ((const uint32_t[]){__VA_ARGS__})

/* --- dedicated -------------------------------------------------------------------------------- */

static void placement_make__exact_fit__gives_every_unit_a_core(void **state)
{
    (void)state;
    struct hand_plan h;
    struct placement p;
    const struct plan *plan = hand_plan(&h, 3, K(1, 2, 1), NULL, 1);
    make(&p, plan, 1, 5, false);
    assert_false(p.is_shared);
    assert_int_equal(p.worker_count, 3);
    assert_worker(&p, 0, 0, 0, 1, (int[]){10});
    assert_worker(&p, 1, 0, 1, 2, (int[]){11, 12});
    assert_worker(&p, 2, 0, 2, 1, (int[]){13});
    assert_int_equal(p.service_count, 1);
    assert_int_equal(p.service[0], 14);
    assert_string_equal(told(&p, plan), "stage 0 (e..x): 1 worker of 1 core on processor 10\n"
                                        "stage 1 (h1): 1 worker of 2 cores on processors 11, 12\n"
                                        "stage 2 (h2..bce): 1 worker of 1 core on processor 13\n"
                                        "service: 1 core on processor 14\n");
    placement_free(&p);
    assert_null(p.memory);
    assert_null(p.worker);
}

static void placement_make__cores_left_over__are_for_service(void **state)
{
    (void)state;
    struct hand_plan h;
    struct placement p;
    const struct plan *plan = hand_plan(&h, 2, K(1, 1), NULL, 0);
    make(&p, plan, 1, 7, false);
    assert_int_equal(p.worker_count, 2);
    assert_worker(&p, 0, 0, 0, 1, (int[]){10});
    assert_worker(&p, 1, 0, 1, 1, (int[]){11});
    assert_int_equal(p.service_count, 5);
    assert_memory_equal(p.service, ((int[]){12, 13, 14, 15, 16}), 5 * sizeof(int));
    placement_free(&p);
}

static void placement_make__replicas__are_gangs_of_neighbours(void **state)
{
    (void)state;
    struct hand_plan h;
    struct placement p;
    const struct plan *plan = hand_plan(&h, 2, K(6, 2), K(3, 2), 2);
    make(&p, plan, 1, 10, false);
    assert_int_equal(p.worker_count, 5);
    assert_worker(&p, 0, 0, 0, 2, (int[]){10, 11});
    assert_worker(&p, 1, 0, 0, 2, (int[]){12, 13});
    assert_worker(&p, 2, 0, 0, 2, (int[]){14, 15});
    assert_worker(&p, 3, 0, 1, 1, (int[]){16});
    assert_worker(&p, 4, 0, 1, 1, (int[]){17});
    assert_int_equal(p.service_count, 2);
    assert_memory_equal(p.service, ((int[]){18, 19}), 2 * sizeof(int));
    assert_string_equal(told(&p, plan), "stage 0 (e..x): 3 workers of 2 cores on processors 10-15\n"
                                        "stage 1 (h1): 2 workers of 1 core on processors 16, 17\n"
                                        "service: 2 cores on processors 18, 19\n");
    placement_free(&p);
}

static void placement_make__pipelines__are_placed_one_after_another(void **state)
{
    (void)state;
    struct hand_plan h;
    struct placement p;
    const struct plan *plan = hand_plan(&h, 2, K(2, 1), K(2, 1), 1);
    make(&p, plan, 2, 7, true); /* share is given and not needed */
    assert_false(p.is_shared);
    assert_int_equal(p.pipeline_count, 2);
    assert_int_equal(p.worker_count, 6);
    for (uint32_t v = 0; v < 2; v++) {
        int first = 10 + 3 * (int)v;
        assert_worker(&p, 3 * v, v, 0, 1, (int[]){first});
        assert_worker(&p, 3 * v + 1, v, 0, 1, (int[]){first + 1});
        assert_worker(&p, 3 * v + 2, v, 1, 1, (int[]){first + 2});
    }
    assert_int_equal(p.service[0], 16);
    assert_string_equal(told(&p, plan),
                        "stage 0 (e..x): 4 workers of 1 core in 2 pipelines on processors 10, 11, 13, 14\n"
                        "stage 1 (h1): 2 workers of 1 core in 2 pipelines on processors 12, 15\n"
                        "service: 1 core on processor 16\n");
    placement_free(&p);
}

static void placement_make__quota_or_not_all_processors__pins_nothing(void **state)
{
    (void)state;
    struct hand_plan h;
    struct placement p;
    const struct plan *plan = hand_plan(&h, 2, K(1, 2), NULL, 1);
    for (int kind = 0; kind < 3; kind++)
        for (int share = 0; share < 2; share++) {
            uint32_t core_count = share ? 3 : 4;
            const struct cores *cores = kind == 0   ? hand_cores(core_count, false)
                                        : kind == 1 ? hand_cores(core_count - 1, true)
                                                    : hand_cores(core_count + 1, true);
            assert_int_equal(placement_make(&p, plan, &graph, 1, cores, core_count, share), ST_OK);
            assert_int_equal(p.is_shared, share);
            for (uint32_t w = 0; w < p.worker_count; w++) assert_null(p.worker[w].processors);
            assert_null(p.service);
            assert_int_equal(p.service_count, share ? 0 : 1);
            assert_string_equal(told(&p, plan), share ? "2 stages share 3 workers of 1 core, not pinned\n"
                                                      : "stage 0 (e..x): 1 worker of 1 core, not pinned\n"
                                                        "stage 1 (h1): 1 worker of 2 cores, not pinned\n"
                                                        "service: 1 core, not pinned\n");
            placement_free(&p);
        }
}

/* --- refused ---------------------------------------------------------------------------------- */

static void placement_make__one_core_too_many__says_the_sum(void **state)
{
    (void)state;
    struct hand_plan h;
    const struct plan *plan = hand_plan(&h, 3, K(1, 2, 1), NULL, 1);
    assert_refused(
        plan, 1, 4,
        "the plan needs 5 cores (stages 1 + 2 + 1, service 1), this process may use 4; lower k, or give --share");
    assert_refused(plan, 2, 8,
                   "the plan needs 9 cores (2 pipelines of stages 1 + 2 + 1, service 1), this process may use 8; "
                   "lower k or train.pipelines, or give --share");
    plan = hand_plan(&h, 1, K(2), NULL, 0);
    assert_refused(plan, 1, 1, "the plan needs 2 cores (stage 2), this process may use 1; lower k, or give --share");
}

static void placement_make__card__has_streams_and_no_cores(void **state)
{
    (void)state;
    struct hand_plan h;
    struct placement p;
    const struct plan *plan = hand_plan(&h, 3, K(1, 2, 1), K(1, 2, 1), 0);
    h.stage[2].type = 1;
    for (int share = 0; share < 2; share++) {
        assert_int_equal(placement_make(&p, plan, &graph, 1, hand_cores(3, true), 3, share), ST_OK);
        assert_int_equal(p.worker_count, 3 + CARD_STREAMS);
        assert_false(p.is_shared);
        for (uint32_t w = 3; w < p.worker_count; w++) {
            assert_int_equal(p.worker[w].stage_begin, 2);
            assert_int_equal(p.worker[w].core_count, 0);
            assert_null(p.worker[w].processors);
        }
        placement_free(&p);
    }
}

static void placement_make__cards__each_have_streams(void **state)
{
    (void)state;
    struct hand_plan h;
    struct placement p;
    const struct plan *plan = hand_plan(&h, 3, K(1, 2, 4), K(1, 2, 4), 0);
    h.stage[2].type = 1;
    assert_int_equal(placement_make(&p, plan, &graph, 1, hand_cores(3, true), 3, false), ST_OK);
    assert_int_equal(p.worker_count, 3 + 4 * CARD_STREAMS);
    placement_free(&p);
}

static void placement_make__too_many_cards__are_refused_with_the_stage(void **state)
{
    (void)state;
    struct hand_plan h;
    struct placement p;
    const struct plan *plan = hand_plan(&h, 3, K(1, 2, 65), K(1, 2, 65), 0);
    h.stage[2].type = 1;
    assert_int_equal(placement_make(&p, plan, &graph, 1, hand_cores(8, true), 8, false), ST_USAGE);
    assert_string_equal(status_message(), "stage 2 (h2..bce) is on 65 units of cuda:3; expected at most 64 cards");
    assert_null(p.memory);
}

/* --- pools ------------------------------------------------------------------------------------ */

static void placement_make__share__makes_a_pool_without_a_core_left_over(void **state)
{
    (void)state;
    static const struct {
        uint32_t k, replicas, core_count, gang_cores;
    } cases[] = {
        {4, 1, 2, 2},                  /* no wider than the cores                 */
        {9, 3, 7, 1},                  /* 3 does not divide 7                     */
        {9, 3, 6, 3},   {12, 3, 6, 3}, /* nor 4 the 6, but 3 does     */
        {16, 2, 12, 6}, {5, 5, 3, 1},  {7, 1, 1, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hand_plan h;
        struct placement p;
        const struct plan *plan = hand_plan(&h, 3, K(1, cases[i].k, 1), K(1, cases[i].replicas, 1), 2);
        make(&p, plan, 1, cases[i].core_count, true);
        assert_true(p.is_shared);
        assert_int_equal(p.worker_count * cases[i].gang_cores, cases[i].core_count);
        for (uint32_t w = 0; w < p.worker_count; w++) {
            assert_int_equal(p.worker[w].pipeline, PLACEMENT_ALL);
            assert_int_equal(p.worker[w].stage_begin, 0);
            assert_int_equal(p.worker[w].stage_end, 3);
            assert_int_equal(p.worker[w].core_count, cases[i].gang_cores);
            for (uint32_t c = 0; c < cases[i].gang_cores; c++)
                assert_int_equal(p.worker[w].processors[c], 10 + w * cases[i].gang_cores + c);
        }
        assert_int_equal(p.service_count, 0);
        assert_null(p.service);
        placement_free(&p);
    }
}

static void placement_tell__pool__is_one_line(void **state)
{
    (void)state;
    struct hand_plan h;
    struct placement p;
    const struct plan *plan = hand_plan(&h, 3, K(1, 2, 1), K(1, 2, 1), 1);
    make(&p, plan, 1, 2, true);
    assert_string_equal(told(&p, plan), "3 stages share 2 workers of 1 core on processors 10, 11\n");
    placement_free(&p);
    make(&p, plan, 4, 1, true);
    assert_string_equal(told(&p, plan), "3 stages of 4 pipelines share 1 worker of 1 core on processor 10\n");
    placement_free(&p);
}

/* --- imitated units ---------------------------------------------------------------------------- */

static void placement_make__sim__needs_no_cores(void **state)
{
    (void)state;
    static const struct cores one = {.count = 1, .is_whole = true, .processor = {10}};
    struct hand_plan h;
    struct placement p;
    const struct plan *plan = hand_plan(&h, 3, K(600, 512, 1), K(300, 1, 1), 0);
    h.type[0].device = RESOURCE_SIM;
    if (placement_make(&p, plan, &graph, 1, &one, 1, false) != ST_OK) fail_msg("%s", status_message());
    assert_false(p.is_shared);
    assert_int_equal(p.worker_count, 302);
    for (uint32_t w = 0; w < 302; w++) {
        assert_int_equal(p.worker[w].core_count, 0);
        assert_int_equal(p.worker[w].unit_count, w < 300 ? 2 : w < 301 ? 512 : 1);
        assert_int_equal(p.worker[w].stage_begin, w < 300 ? 0 : w - 299);
        assert_null(p.worker[w].processors);
    }
    assert_string_equal(told(&p, plan), "stage 0 (e..x): 300 workers imitate 2 units each\n"
                                        "stage 1 (h1): 1 worker imitates 512 units\n"
                                        "stage 2 (h2..bce): 1 worker imitates 1 unit\n"
                                        "service: 1 core on processor 10\n");
    placement_free(&p);
    /* Service cores are cores. */
    h.plan.service_cores = 2;
    assert_refused(plan, 1, 1,
                   "the plan needs 2 cores (stages 0, service 2), this process may use 1; lower k, or give --share");
    make(&p, plan, 1, 1, true);
    assert_true(p.is_shared);
    assert_int_equal(p.worker_count, 302);
    placement_free(&p);
    h.plan.stages[0].k = h.plan.stages[0].replicas = 1000;
    h.plan.service_cores = 0;
    assert_refused(plan, 20, 1,
                   "the plan needs 20040 workers; expected at most 16384: lower replicas of stages on sim");
}

static void placement_make__sim_beside_cpu__counts_only_cpu(void **state)
{
    (void)state;
    struct hand_plan h;
    struct placement p;
    const struct plan *plan = hand_plan(&h, 3, K(2, 40, 1), K(2, 1, 1), 1);
    h.type[1].device = RESOURCE_SIM;
    h.stage[1].type = 1;
    make(&p, plan, 1, 4, false);
    assert_string_equal(told(&p, plan), "stage 0 (e..x): 2 workers of 1 core on processors 10, 11\n"
                                        "stage 1 (h1): 1 worker imitates 40 units\n"
                                        "stage 2 (h2..bce): 1 worker of 1 core on processor 12\n"
                                        "service: 1 core on processor 13\n");
    placement_free(&p);
    assert_refused(plan, 2, 4,
                   "the plan needs 7 cores (2 pipelines of stages 2 + 1, service 1), this process may use 4; "
                   "lower k or train.pipelines, or give --share");
    make(&p, plan, 2, 3, true);
    assert_true(p.is_shared);
    assert_string_equal(told(&p, plan), "2 stages of 2 pipelines share 3 workers of 1 core on processors 10-12\n"
                                        "stage 1 (h1): 2 workers imitate 40 units each in 2 pipelines\n");
    assert_int_equal(p.worker_count, 5);
    for (uint32_t w = 0; w < 5; w++) {
        assert_int_equal(p.worker[w].pipeline, w < 3 ? PLACEMENT_ALL : w - 3);
        assert_int_equal(p.worker[w].core_count, w < 3 ? 1 : 0);
    }
    placement_free(&p);
}

/* --- all small cases -------------------------------------------------------------------------- */

/* Each processor is in one gang or in service, and the gangs are as the plan says. */
static void assert_sound(const struct placement *p, const struct plan *plan, uint32_t pipelines, uint32_t core_count)
{
    uint32_t used[64] = {0}, used_count = 0;
    for (uint32_t w = 0; w < p->worker_count; w++)
        for (uint32_t c = 0; c < p->worker[w].core_count; c++) used[p->worker[w].processors[c] - 10]++;
    for (uint32_t c = 0; c < p->service_count; c++) used[p->service[c] - 10]++;
    for (uint32_t i = 0; i < 64; i++) {
        assert_true(used[i] <= (i < core_count));
        used_count += used[i];
    }
    assert_int_equal(used_count, core_count);
    if (p->is_shared) return;
    assert_true(p->service_count >= plan->service_cores);
    for (uint32_t v = 0; v < pipelines; v++)
        for (uint32_t s = 0; s < plan->stage_count; s++) {
            uint32_t workers = 0, cores = 0;
            for (uint32_t w = 0; w < p->worker_count; w++)
                if (p->worker[w].pipeline == v && p->worker[w].stage_begin == s) {
                    workers++;
                    cores += p->worker[w].core_count;
                }
            assert_int_equal(workers, plan->stages[s].replicas);
            assert_int_equal(cores, plan->stages[s].k);
        }
}

static void placement_make__all_small_plans__fit_exactly_when_the_sum_does(void **state)
{
    (void)state;
    uint32_t dedicated = 0, shared = 0, refused = 0;
    for (uint32_t i = 0; i < 4 * 4 * 3 * 3 * 9 * 2; i++) {
        struct hand_plan h;
        struct placement p;
        uint32_t rest = i, k[2], replicas[2];
        k[0] = 1 + rest % 4, rest /= 4;
        k[1] = 1 + rest % 4, rest /= 4;
        uint32_t service = rest % 3;
        rest /= 3;
        uint32_t pipelines = 1 + rest % 3;
        rest /= 3;
        uint32_t core_count = 1 + rest % 9;
        rest /= 9;
        bool share = rest == 1;
        replicas[0] = k[0], replicas[1] = k[1] % 2 == 0 ? 2 : 1;
        const struct plan *plan = hand_plan(&h, 2, k, replicas, service);
        bool fits = pipelines * (k[0] + k[1]) + service <= core_count;
        status st = placement_make(&p, plan, &graph, pipelines, hand_cores(core_count, true), core_count, share);
        if (!fits && !share) {
            assert_int_equal(st, ST_USAGE);
            refused++;
            continue;
        }
        assert_int_equal(st, ST_OK);
        assert_int_equal(p.is_shared, !fits);
        assert_sound(&p, plan, pipelines, core_count);
        *(fits ? &dedicated : &shared) += 1;
        placement_free(&p);
    }
    assert_true(dedicated > 100 && shared > 100 && refused > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(placement_make__exact_fit__gives_every_unit_a_core),
        cmocka_unit_test(placement_make__cores_left_over__are_for_service),
        cmocka_unit_test(placement_make__replicas__are_gangs_of_neighbours),
        cmocka_unit_test(placement_make__pipelines__are_placed_one_after_another),
        cmocka_unit_test(placement_make__quota_or_not_all_processors__pins_nothing),
        cmocka_unit_test(placement_make__one_core_too_many__says_the_sum),
        cmocka_unit_test(placement_make__card__has_streams_and_no_cores),
        cmocka_unit_test(placement_make__cards__each_have_streams),
        cmocka_unit_test(placement_make__too_many_cards__are_refused_with_the_stage),
        cmocka_unit_test(placement_make__share__makes_a_pool_without_a_core_left_over),
        cmocka_unit_test(placement_tell__pool__is_one_line),
        cmocka_unit_test(placement_make__sim__needs_no_cores),
        cmocka_unit_test(placement_make__sim_beside_cpu__counts_only_cpu),
        cmocka_unit_test(placement_make__all_small_plans__fit_exactly_when_the_sum_does),
    };
    int failure_count = cmocka_run_group_tests(tests, NULL, NULL);
    return failure_count ? 1 : 0;
}

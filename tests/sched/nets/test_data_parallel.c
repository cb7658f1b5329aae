/* Steps of training counted by hand, on a net of three layers: what each way of training waits for, and
 * what jobs take from each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sched/nets/data_parallel.h"

#define NEAR   1e-6
#define PLENTY 1e12

/* Parameters of 40 and 400 bytes; behind the pool a value of 16 bytes an image. At two images a
 * step and 0.01 s an operation the convolution takes 0.2 s forwards and 0.4 s backwards, what is
 * fully connected 0.4 s and 0.8 s. */
static struct net_layer layers[] = {
    {.name = "conv0", .kind = NET_CONV, .params = 10, .cut_elems = 5, .flops = 30},
    {.name = "mpool0", .kind = NET_POOL, .cut_elems = 4},
    {.name = "affine0", .kind = NET_FC, .params = 100, .cut_elems = 1, .flops = 60},
};
static const struct net small = {.name = "small", .layer_count = 3, .layers = layers, .batch = 2};
static const uint32_t apart[] = {0, 1, 2, 3};

static struct parallel_job job_of(enum parallel_way way, uint32_t workers, uint32_t servers)
{
    return (struct parallel_job){.net = &small,
                                 .way = way,
                                 .flop_seconds = 0.01,
                                 .batch = 2,
                                 .worker_count = workers,
                                 .server_count = servers,
                                 .machine = apart,
                                 .front_last = 1};
}

static double step_of(struct parallel_job job, double process_rate, double link_rate, bool overlaps)
{
    const struct parallel_machines machines = {4, link_rate, process_rate, overlaps};
    assert_int_equal(parallel_run(&machines, &job, 1, 5), ST_OK);
    assert_float_equal(job.images_per_second * job.step_seconds, 2. * job.worker_count, NEAR);
    return job.step_seconds;
}

static void parallel_run__servers__pulls_computes_and_pushes(void **state)
{
    (void)state;
    const struct parallel_job one = job_of(PARALLEL_SERVERS, 1, 1);
    assert_float_equal(step_of(one, 40, PLENTY, false), 11 + 1.8 + 11, NEAR);
    assert_float_equal(step_of(one, PLENTY, 40, false), 11 + 1.8 + 11, NEAR);
    /* The convolution's 1 s of pulling is over before the rest's 10 s,
     * and its push waits for that of the rest. */
    assert_float_equal(step_of(one, 40, PLENTY, true), 11 + 0.4 + 0.8 + 10 + 1, NEAR);
    assert_float_equal(step_of(one, PLENTY, PLENTY, true), 1.8, NEAR);
}

static void parallel_run__more_workers__share_the_servers_link(void **state)
{
    (void)state;
    assert_float_equal(step_of(job_of(PARALLEL_SERVERS, 2, 1), 40, 60, false), 880. / 60 + 1.8 + 880. / 60, NEAR);
    /* The larger layer alone on the second server: 800 bytes over its link. */
    assert_float_equal(step_of(job_of(PARALLEL_SERVERS, 2, 2), PLENTY, 40, false), 20 + 1.8 + 20, NEAR);
    /* Two cards on one machine pull and push once, and a server beside them is not over a link. */
    struct parallel_job together = job_of(PARALLEL_SERVERS, 2, 1);
    together.machine = (const uint32_t[]){0, 0, 1};
    assert_float_equal(step_of(together, PLENTY, 40, false), 11 + 1.8 + 11, NEAR);
    together.machine = (const uint32_t[]){0, 0, 0};
    assert_float_equal(step_of(together, 80, 1, false), 5.5 + 1.8 + 5.5, NEAR);
}

static void parallel_run__all_reduce__goes_round_the_ring(void **state)
{
    (void)state;
    const struct parallel_job two = job_of(PARALLEL_ALL_REDUCE, 2, 0);
    /* 2 (W - 1) / W of 440 bytes. */
    assert_float_equal(step_of(two, 40, PLENTY, false), 1.8 + 11, NEAR);
    assert_float_equal(step_of(two, PLENTY, 40, false), 1.8 + 11, NEAR);
    assert_float_equal(step_of(job_of(PARALLEL_ALL_REDUCE, 4, 0), 40, PLENTY, false), 1.8 + 16.5, NEAR);
    /* The larger layer's 10 s begin 1.4 s after the step. */
    assert_float_equal(step_of(two, 40, PLENTY, true), 1.4 + 10 + 1, NEAR);
    struct parallel_job together = two;
    together.machine = (const uint32_t[]){2, 2};
    assert_float_equal(step_of(together, 40, 1, false), 1.8 + 11, NEAR);
}

static void parallel_run__ralp__back_takes_one_worker_at_a_time(void **state)
{
    (void)state;
    /* Front's parameters 1 s each way, activations and their gradients 0.8 s. */
    assert_float_equal(step_of(job_of(PARALLEL_RALP, 1, 1), 40, PLENTY, false), 1 + 0.2 + 0.8 + 1.2 + 0.8 + 0.4 + 1,
                       NEAR);
    assert_float_equal(step_of(job_of(PARALLEL_RALP, 2, 1), 40, PLENTY, false), 1 + 0.2 + 0.8 + 2 * 1.2 + 0.8 + 0.4 + 1,
                       NEAR);
    assert_float_equal(step_of(job_of(PARALLEL_RALP, 3, 1), PLENTY, PLENTY, false), 0.2 + 3 * 1.2 + 0.4, NEAR);
    /* Two nodes of the back: all activations to both, half of the time on each. */
    assert_float_equal(step_of(job_of(PARALLEL_RALP, 1, 2), 40, PLENTY, false), 1 + 0.2 + 1.6 + 0.6 + 1.6 + 0.4 + 1,
                       NEAR);
    assert_float_equal(step_of(job_of(PARALLEL_RALP, 2, 2), PLENTY, PLENTY, false), 0.2 + 1.2 + 0.4, NEAR);
    /* Two cards of one machine share its process: activations 1.6 s, one push. */
    struct parallel_job together = job_of(PARALLEL_RALP, 2, 1);
    together.machine = (const uint32_t[]){0, 0, 1};
    assert_float_equal(step_of(together, 40, PLENTY, false), 1 + 0.2 + 1.6 + 2 * 1.2 + 0.8 + 0.4 + 1, NEAR);
}

static void parallel_run__several_jobs__share_links_and_nothing_else(void **state)
{
    (void)state;
    const struct parallel_machines machines = {4, 40, PLENTY, false};
    struct parallel_job jobs[4];
    /* Two take turns: one pushes while the other pulls. Four want each link for 44 s a step,
     * and leave it idle where several compute. */
    for (uint32_t count = 2; count <= 4; count += 2) {
        for (uint32_t j = 0; j < count; j++) jobs[j] = job_of(PARALLEL_SERVERS, 1, 1);
        assert_int_equal(parallel_run(&machines, jobs, count, 8), ST_OK);
        for (uint32_t j = 0; j < count; j++) {
            if (count == 2) assert_float_equal(jobs[j].step_seconds, 23.8, NEAR);
            if (count == 4) assert_in_range((uint64_t)jobs[j].step_seconds, 44, 60);
            assert_float_equal(jobs[j].compute_seconds, 1.8, NEAR);
        }
    }
    /* A job that is three times as slow: each has its own speed. */
    jobs[0] = job_of(PARALLEL_ALL_REDUCE, 2, 0);
    jobs[1] = job_of(PARALLEL_ALL_REDUCE, 2, 0);
    jobs[1].machine = (const uint32_t[]){2, 3};
    jobs[1].flop_seconds *= 12.8 * 3 / 1.8 - 11 / 1.8;
    assert_int_equal(parallel_run(&machines, jobs, 2, 4), ST_OK);
    assert_float_equal(jobs[0].step_seconds, 12.8, NEAR);
    assert_float_equal(jobs[1].step_seconds, 3 * 12.8, NEAR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parallel_run__servers__pulls_computes_and_pushes),
        cmocka_unit_test(parallel_run__more_workers__share_the_servers_link),
        cmocka_unit_test(parallel_run__all_reduce__goes_round_the_ring),
        cmocka_unit_test(parallel_run__ralp__back_takes_one_worker_at_a_time),
        cmocka_unit_test(parallel_run__several_jobs__share_links_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

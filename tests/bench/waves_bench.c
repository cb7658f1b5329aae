/* What a clock distance spares workers that are nodes (engine/sync/waves.h): four of them in this process, with
 * messages by a post and waves of one minibatch, whose time is drawn, and slept.
 *
 *     waves_bench            in the root of the source; WAVES=N, SEED=N in the environment (default 1,000, 1)
 *
 * Workers of equal mean: of 100 waves 85 take 0.5 to 1.5 units, the others 3 to 5. And workers whose waves take a
 * unit, and one of them two, for good. Beside each the event simulation of the same waves, with the times that they
 * have really taken:
 *
 *     end(v, c) = max(end(v, c - 1), end(u, c - D - 1) of all others u) + time(v, c)
 *
 * HetPipe (Park et al., USENIX ATC 2020, section 8.4): waiting at D = 4 is 62 % of that at D = 0. Status 1 if the time
 * of all is more than 5 % off the simulation, or if D helps behind a worker that is always slow by more than 5 %. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/engine/node/nodes_fixture.h"

#include "engine/base/clock.h"
#include "engine/sync/waves.h"

#define WORKERS   4u
#define WAVES_MAX 10000u
#define UNIT_NS   4000000.0

static const char bench_text[] = "[model]\nname = waves\n[data]\ndense = I1..I3\n"
                                 "[fc h1]\ninput = dense\nunits = 8\n[fc y]\ninput = h1\nunits = 1\n"
                                 "[loss bce]\ninput = y\n"
                                 "[train]\nbatch = 1\nsync = wsp\noptimizer = sgd 0.01\n";

static const struct device_vt *inner;
static uint32_t waves;
static double drawn[WORKERS][WAVES_MAX], taken[WORKERS][WAVES_MAX];
static uint64_t started[WORKERS]; /* of each, by its worker */
static uint64_t first_ns, last_ns[WORKERS];

static status bench_submit(struct device *d, const struct op_context *c, const struct graph_node *nodes, uint32_t count)
{
    uint32_t n = 0;
    if (!c->training || count == 0 || nodes->pass != PASS_FORWARD) return inner->submit(d, c, nodes, count);
    while (c->graph != &runners[n].training.graph) n++;
    const uint64_t begin_ns = clock_ns(), wave = started[n]++;
    const status st = inner->submit(d, c, nodes, count);
    nanosleep(&(struct timespec){.tv_nsec = (long)drawn[n][wave]}, NULL);
    last_ns[n] = clock_ns();
    taken[n][wave] = (double)(last_ns[n] - begin_ns);
    return st;
}
static status bench_update(struct device *d, const struct param_update *update)
{
    return inner->update_params(d, update);
}
static void bench_close(struct device *d) { inner->close(d); }
static const struct device_vt bench_vt = {
    .name = "sleeping", .submit = bench_submit, .update_params = bench_update, .close = bench_close};

static void bench_look(uint32_t node, struct training *t)
{
    (void)node;
    inner = pipeline_device(t->pipeline)->vt;
    for (uint32_t i = 0; i < t->pipeline->worker_count; i++) t->pipeline->workers[i].device->vt = &bench_vt;
}

static void times_draw(uint64_t seed, bool is_slow)
{
    for (uint32_t v = 0; v < WORKERS; v++)
        for (uint32_t c = 0; c < waves; c++) {
            const double x = (double)draw(&seed, 1000000) / 1e6;
            drawn[v][c] = (draw(&seed, 100) < 85 ? 0.5 + x : 3 + 2 * x) * UNIT_NS;
            if (is_slow) drawn[v][c] = v == 0 ? 2 * UNIT_NS : UNIT_NS;
        }
}

struct figures {
    double wall, waiting; /* seconds; of a worker and wave, in ms */
};

static struct figures simulate(uint32_t distance)
{
    static double end[WORKERS][WAVES_MAX];
    struct figures f = {0};
    for (uint32_t c = 0; c < waves; c++)
        for (uint32_t v = 0; v < WORKERS; v++) {
            const double own = c ? end[v][c - 1] : 0;
            double begin = own;
            for (uint32_t u = 0; u < WORKERS && c > distance; u++)
                if (u != v && end[u][c - distance - 1] > begin) begin = end[u][c - distance - 1];
            end[v][c] = begin + taken[v][c];
            f.waiting += begin - own;
            if (end[v][c] > f.wall) f.wall = end[v][c];
        }
    return (struct figures){f.wall * 1e-9, f.waiting * 1e-6 / waves / WORKERS};
}

static struct figures measure(uint32_t distance)
{
    char assignment[64];
    const char *set[] = {assignment, NULL};
    const struct cut cut = {.node_count = WORKERS};
    struct figures f = {0};
    snprintf(assignment, sizeof assignment, "train.clock_distance=%u", distance);
    memset(started, 0, sizeof started);
    text = bench_text;
    node_waves = 1;
    node_look = bench_look;
    nodes_open(&cut, set, 1, NULL);
    net.sleep_ns_max = 0;
    first_ns = clock_ns();
    nodes_run(UINT64_MAX / 4);
    for (uint32_t n = 0; n < WORKERS; n++) {
        const double wall = (double)(last_ns[n] - first_ns) * 1e-9;
        assert_int_equal(started[n], waves);
        if (wall > f.wall) f.wall = wall;
        f.waiting += (double)reduce_rounds(runners[n].training.reduce).ns * 1e-6 / waves / WORKERS;
    }
    nodes_close();
    return f;
}

static double off(double measured, double simulated) { return simulated > 0 ? measured / simulated - 1 : measured; }

static void waves__any_distance__wait_as_simulated(void **state)
{
    static const uint32_t distances[] = {0, 1, 2, 4, 8, 32};
    const char *wanted = getenv("WAVES"), *seed = getenv("SEED");
    uint32_t bad = 0;
    (void)state;
    alarm(0); /* it takes its time */
    waves = wanted ? (uint32_t)atoi(wanted) : 1000;
    assert_in_range(waves, 10, WAVES_MAX);
    rows = (uint64_t)WORKERS * waves;
    data = fixture_path("waves.tsv");
    fixture_data(data, 0, (uint32_t)rows, NULL);
    for (int is_slow = 0; is_slow <= 1; is_slow++) {
        double first_waiting = 0, first_wall = 0;
        times_draw(seed ? strtoull(seed, NULL, 10) : 1, is_slow);
        printf(
            "# %s, %u waves each\n#   D   wall s  simulated   off   waiting ms a wave  simulated   off  of D = 0's\n",
            is_slow ? "one of four workers half as fast" : "four workers of equal mean", waves);
        for (uint32_t i = 0; i < sizeof distances / sizeof *distances; i++) {
            const struct figures m = measure(distances[i]), s = simulate(distances[i]);
            if (i == 0) first_waiting = m.waiting, first_wall = m.wall;
            const double of_first = m.waiting / first_waiting;
            printf("# %3u  %7.2f  %9.2f  %+3.0f%%  %18.3f  %9.3f  %+3.0f%%  %6.0f%%\n", distances[i], m.wall, s.wall,
                   100 * off(m.wall, s.wall), m.waiting, s.waiting, 100 * off(m.waiting, s.waiting), 100 * of_first);
            bad += off(m.wall, s.wall) > 0.05 || off(m.wall, s.wall) < -0.05;
            if (is_slow) bad += m.wall < 0.95 * first_wall && distances[i] > 0;
        }
    }
    assert_int_equal(bad, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(waves__any_distance__wait_as_simulated)};
    return cmocka_run_group_tests(tests, group_open, fixture_close) ? 1 : 0;
}

/* The waiting that a clock distance spares workers that are nodes (engine/sync/waves.h). Four workers are in
 * this process, with messages by a post. Their waves have some minibatches, whose times are drawn, and slept.
 *
 *     waves_bench      in the root of the source; of the environment WAVES=N (1,000), SEED=N (1), IN_FLIGHT=N
 *                      (minibatches of a wave, 4), JITTER=FILE (times of recorded waves, one a line, to draw from)
 *
 * Workers of equal mean: of 100 waves 85 take 0.5 to 1.5 units, the others 3 to 5; or waves take
 * recorded times over their mean. Then workers whose waves take a unit, but two units on one of them,
 * always. Beside each is the event simulation of the same minibatches, with the times that they really
 * took; p is a minibatch, n(p) the number of others' waves that it needs (sched/workers/wave.h), w(u, n)
 * the end of the n-th wave of u:
 *
 *     end(v, p) = max(end(v, p - 1), w(u, n(p)) of all others u) + time(v, p)
 *
 * A worker waits, as HetPipe counts it (Park et al., USENIX ATC 2020, section 8.4), from the end of its
 * wave until all others have ended their waves of D waves before. It is idle only while it has no
 * minibatch to compute, for it goes on with all minibatches of its next wave but the last. The paper:
 * waiting at D = 4 is 62 % of waiting at D = 0, and 18 % of the waiting is idle. Status 1 if the time of
 * all is more than 5 % off the simulation, or, with a worker that is always slow, 5 % below the
 * simulation of the same times at D = 0. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/engine/node/nodes_fixture.h"

#include <math.h>

#include "engine/base/clock.h"
#include "engine/sync/waves.h"
#include "sched/workers/wave.h"

#define WORKERS       4u
#define WAVES_MAX     10000u
#define IN_FLIGHT_MAX 8u
#define UNIT_NS       8000000.0

static const char bench_text[] = "[model]\nname = waves\n[data]\ndense = I1..I3\n"
                                 "[fc h1]\ninput = dense\nunits = 8\n[fc y]\ninput = h1\nunits = 1\n"
                                 "[loss bce]\ninput = y\n"
                                 "[train]\nbatch = 1\nsync = wsp\noptimizer = sgd 0.01\n";

static const struct device_vt *inner;
static uint32_t waves, in_flight = 4;
static double drawn[WORKERS][WAVES_MAX]; /* ns of a wave */
/* Of each minibatch: how long it has taken, and when it has begun and ended, in ns since the first began. */
static double taken[WORKERS][WAVES_MAX * IN_FLIGHT_MAX], begun[WORKERS][WAVES_MAX * IN_FLIGHT_MAX],
    ended[WORKERS][WAVES_MAX * IN_FLIGHT_MAX];
static uint64_t started[WORKERS]; /* of each, by its worker */
static uint64_t first_ns;

static status bench_submit(struct device *d, const struct op_context *c, const struct graph_node *nodes, uint32_t count)
{
    uint32_t n = 0;
    if (!c->training || count == 0 || nodes->pass != PASS_FORWARD) return inner->submit(d, c, nodes, count);
    while (c->graph != &runners[n].training.graph) n++;
    const uint64_t minibatch = started[n]++;
    begun[n][minibatch] = (double)(clock_ns() - first_ns);
    const status st = inner->submit(d, c, nodes, count);
    nanosleep(&(struct timespec){.tv_nsec = (long)(drawn[n][minibatch / in_flight] / in_flight)}, NULL);
    ended[n][minibatch] = (double)(clock_ns() - first_ns);
    taken[n][minibatch] = ended[n][minibatch] - begun[n][minibatch];
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

static uint32_t recorded_count;
static double recorded[65536]; /* over their mean */
static void recorded_read(const char *path)
{
    double sum = 0;
    FILE *in = fopen(path, "r");
    if (in == NULL) fail_msg("JITTER=%s cannot be read", path);
    while (recorded_count < sizeof recorded / sizeof *recorded && fscanf(in, "%lf", &recorded[recorded_count]) == 1 &&
           recorded[recorded_count] > 0)
        sum += recorded[recorded_count++];
    if (recorded_count == 0 || !feof(in)) fail_msg("JITTER=%s: expected up to 65536 times above 0, one a line", path);
    fclose(in);
    for (uint32_t i = 0; i < recorded_count; i++) recorded[i] *= recorded_count / sum;
}

static void times_draw(uint64_t seed, bool is_slow)
{
    for (uint32_t v = 0; v < WORKERS; v++)
        for (uint32_t wave = 0; wave < waves; wave++) {
            const double x = (double)draw(&seed, 1000000) / 1e6;
            drawn[v][wave] = (draw(&seed, 100) < 85 ? 0.5 + x : 3 + 2 * x) * UNIT_NS;
            if (recorded_count) drawn[v][wave] = recorded[draw(&seed, recorded_count)] * UNIT_NS;
            if (is_slow) drawn[v][wave] = v == 0 ? 2 * UNIT_NS : UNIT_NS;
        }
}

struct figures {
    double wall;          /* seconds */
    double waiting, idle; /* of a worker and wave, in ms */
};

/* Figures from the moments at which minibatches begin and end. */
static struct figures figures_of(double (*begin)[WAVES_MAX * IN_FLIGHT_MAX], double (*end)[WAVES_MAX * IN_FLIGHT_MAX],
                                 uint32_t distance)
{
    struct figures f = {0};
    for (uint32_t v = 0; v < WORKERS; v++) {
        for (uint32_t wave = distance; wave < waves; wave++) {
            const double own = end[v][(wave + 1) * in_flight - 1];
            double others = own;
            for (uint32_t u = 0; u < WORKERS; u++)
                if (end[u][(wave - distance + 1) * in_flight - 1] > others)
                    others = end[u][(wave - distance + 1) * in_flight - 1];
            f.waiting += (others - own) * 1e-6 / waves / WORKERS;
        }
        for (uint32_t p = 1; p < waves * in_flight; p++)
            f.idle += (begin[v][p] - end[v][p - 1]) * 1e-6 / waves / WORKERS;
        f.wall = fmax(f.wall, end[v][waves * in_flight - 1] * 1e-9);
    }
    return f;
}

static struct figures simulate(uint32_t distance)
{
    static double begin[WORKERS][WAVES_MAX * IN_FLIGHT_MAX], end[WORKERS][WAVES_MAX * IN_FLIGHT_MAX];
    for (uint32_t p = 0; p < waves * in_flight; p++)
        for (uint32_t v = 0; v < WORKERS; v++) {
            const uint64_t needed = wsp_waves_needed(p, in_flight, distance);
            begin[v][p] = p ? end[v][p - 1] : 0;
            for (uint32_t u = 0; u < WORKERS && needed > 0; u++)
                if (u != v) begin[v][p] = fmax(begin[v][p], end[u][needed * in_flight - 1]);
            end[v][p] = begin[v][p] + taken[v][p];
        }
    return figures_of(begin, end, distance);
}

static struct figures measure(uint32_t distance)
{
    char assignment[64];
    const char *set[] = {assignment, NULL};
    const struct cut cut = {.node_count = WORKERS};
    snprintf(assignment, sizeof assignment, "train.clock_distance=%u", distance);
    memset(started, 0, sizeof started);
    text = bench_text;
    node_waves = in_flight;
    node_look = bench_look;
    nodes_open(&cut, set, 1, NULL);
    net.sleep_ns_max = 0;
    first_ns = clock_ns();
    nodes_run(UINT64_MAX / 4);
    for (uint32_t n = 0; n < WORKERS; n++) assert_int_equal(started[n], waves * in_flight);
    nodes_close();
    return figures_of(begun, ended, distance);
}

static double off(double measured, double simulated) { return simulated > 0 ? measured / simulated - 1 : measured; }

static void waves__any_distance__wait_as_simulated(void **state)
{
    static const uint32_t distances[] = {0, 1, 2, 4, 8, 32};
    const char *wanted = getenv("WAVES"), *seed = getenv("SEED"), *flight = getenv("IN_FLIGHT"),
               *jitter = getenv("JITTER");
    uint32_t bad = 0;
    (void)state;
    alarm(0); /* the bench takes its time */
    waves = wanted ? (uint32_t)atoi(wanted) : 1000;
    assert_in_range(waves, 40, WAVES_MAX);
    if (flight) in_flight = (uint32_t)atoi(flight);
    assert_in_range(in_flight, 1, IN_FLIGHT_MAX);
    if (jitter) recorded_read(jitter);
    rows = (uint64_t)WORKERS * waves * in_flight;
    data = fixture_path("waves.tsv");
    fixture_data(data, 0, (uint32_t)rows, NULL);
    for (int is_slow = 0; is_slow <= 1; is_slow++) {
        double first_waiting = 0;
        times_draw(seed ? strtoull(seed, NULL, 10) : 1, is_slow);
        printf("# %s, %u waves of %u minibatches each\n"
               "#   D   wall s  simulated   off   waits ms a wave  simulated  of D = 0's  of it idle  simulated\n",
               is_slow  ? "one of four workers half as fast"
               : jitter ? "four workers, times as recorded"
                        : "four workers of equal mean",
               waves, in_flight);
        for (uint32_t i = 0; i < sizeof distances / sizeof *distances; i++) {
            const struct figures m = measure(distances[i]), s = simulate(distances[i]);
            if (i == 0) first_waiting = m.waiting;
            printf("# %3u  %7.2f  %9.2f  %+3.0f%%  %15.3f  %9.3f  %9.0f%%", distances[i], m.wall, s.wall,
                   100 * off(m.wall, s.wall), m.waiting, s.waiting, 100 * m.waiting / first_waiting);
            if (m.waiting > 0.05 * first_waiting) /* else the idle time is that between minibatches */
                printf("  %9.0f%%  %8.0f%%", 100 * m.idle / m.waiting, 100 * s.idle / s.waiting);
            printf("\n");
            fflush(stdout);
            bad += off(m.wall, s.wall) > 0.05 || off(m.wall, s.wall) < -0.05;
            if (is_slow) bad += m.wall < 0.95 * simulate(0).wall; /* of the same times */
        }
    }
    assert_int_equal(bad, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(waves__any_distance__wait_as_simulated)};
    return cmocka_run_group_tests(tests, group_open, fixture_close) ? 1 : 0;
}

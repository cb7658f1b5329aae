/* Profiles: fits find what was put in, and their intervals hold it as often as they say; layers of known cost
 * get times in proportion; together they come to what training takes; stored, declared and kept times are
 * used where they should be. What is measured is told after "#": a program that is run by hand on a quiet
 * machine shows how near it comes. It compares times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "engine/base/random.h"
#include "engine/base/fit.h"
#include "engine/base/stop.h"
#include "engine/profile/profile.h"
#include "engine/profile/profile_data.h"
#include "engine/profile/profile_run.h"
#include "tests/engine/pipe/pipeline_fixture.h"

/* --- fits ------------------------------------------------------------------------------------- */

/* Normally distributed enough: the sum of twelve uniform numbers. */
static double noise(uint64_t *state)
{
    double sum = -6;
    for (int i = 0; i < 12; i++) sum += (double)draw(state, 1u << 30) / (1u << 30);
    return sum;
}

static void fit_line__on_a_line__finds_it(void **state)
{
    (void)state;
    const double x[] = {256, 128, 64, 32}, y[] = {2.56 + .1, 1.28 + .1, .64 + .1, .32 + .1};
    struct fit_line line = fit_line(x, y, 4);
    assert_true(fabs(line.fixed - .1) < 1e-12 && fabs(line.slope - .01) < 1e-12);
    assert_true(line.has_interval);
    assert_true(line.fixed_low <= line.fixed && line.fixed <= line.fixed_high &&
                line.fixed_high - line.fixed_low < 1e-9);
    line = fit_line(x, y, 2);
    assert_true(fabs(line.fixed - .1) < 1e-12 && !line.has_interval);
    line = fit_line(x, y, 1);
    assert_true(line.fixed == 0 && fabs(line.slope - 2.66 / 256) < 1e-12);
}

static void fit_line__would_be_below_zero__is_a_proportion_or_constant(void **state)
{
    (void)state;
    const double x[] = {4, 2, 1}, steep[] = {4.4, 1.9, 0.8}, falling[] = {0.9, 1.0, 1.1};
    struct fit_line line = fit_line(x, steep, 3);
    assert_true(line.fixed == 0 && line.slope > 0.8 && line.slope < 1.1);
    line = fit_line(x, falling, 3);
    assert_true(line.slope == 0 && line.fixed > 0.9 && line.fixed < 1.1);
    assert_true(line.slope_low == 0 && line.fixed_low <= line.fixed && line.fixed <= line.fixed_high);
}

static void fit_line__noise__interval_holds_95_percent(void **state)
{
    (void)state;
    uint64_t random = 1;
    uint32_t fixed_held = 0, slope_held = 0;
    for (uint32_t trial = 0; trial < 4000; trial++) {
        double x[] = {256, 192, 128, 64, 32}, y[5];
        for (int i = 0; i < 5; i++) y[i] = (50 + x[i]) * (1 + 0.02 * noise(&random));
        struct fit_line line = fit_line(x, y, 5);
        fixed_held += line.fixed_low <= 50 && 50 <= line.fixed_high;
        slope_held += line.slope_low <= 1 && 1 <= line.slope_high;
    }
    print_message("# the line's interval holds the truth in %.1f %% and %.1f %%\n", fixed_held / 40., slope_held / 40.);
    assert_in_range(fixed_held, 3740, 3860);
    assert_in_range(slope_held, 3740, 3860);
}

static void fit_share__noise__interval_holds_95_percent(void **state)
{
    (void)state;
    uint64_t random = 2;
    uint32_t held = 0;
    for (uint32_t trial = 0; trial < 4000; trial++) {
        double k[] = {1, 2, 4, 8, 16}, seconds[5];
        for (int i = 0; i < 5; i++) seconds[i] = (1 - .8 + .8 / k[i]) * (1 + 0.01 * noise(&random));
        struct fit_share fit = fit_share(k, seconds, 5);
        held += fit.has_interval && fit.low <= .8 && .8 <= fit.high;
    }
    print_message("# alpha's interval holds the truth in %.1f %%\n", held / 40.);
    assert_in_range(held, 3740, 3860);
}

static void fit_share__edges__are_kept(void **state)
{
    (void)state;
    const double k[] = {1, 2, 4}, none[] = {1, 1, 1}, whole[] = {1, .5, .25}, worse[] = {1, 1.2, 1.5},
                 better[] = {1, .4, .1}, two[] = {1, .6};
    assert_true(fabs(fit_share(k, none, 3).share) < 1e-12);
    assert_true(fabs(fit_share(k, whole, 3).share - 1) < 1e-12);
    assert_true(fit_share(k, worse, 3).share == 0);
    assert_true(fit_share(k, better, 3).share == 1);
    struct fit_share fit = fit_share(k, two, 2);
    assert_true(fabs(fit.share - .8) < 1e-12 && !fit.has_interval && fit.low == 0 && fit.high == 0);
}

static void fit_student__known_values__are_met(void **state)
{
    (void)state;
    assert_true(fabs(fit_student(1) - 12.706) < 1e-3);
    assert_true(fabs(fit_student(30) - 2.042) < 1e-3);
    assert_true(fabs(fit_student(31) - 2.0395) < 3e-3);
    assert_true(fabs(fit_student(60) - 2.0003) < 2e-3);
    assert_true(fabs(fit_student(1000) - 1.9623) < 1e-3);
}

static void fit_quantile__any_order__is_interpolated(void **state)
{
    (void)state;
    double values[] = {5, 1, 4, 2, 3};
    assert_true(fit_quantile(values, 5, 0.5) == 3);
    assert_true(fit_quantile(values, 5, 0.25) == 2);
    assert_true(fit_quantile(values, 4, 0.25) == 1.75);
    assert_true(fit_quantile(values, 1, 0.25) == 1);
}

/* --- measuring -------------------------------------------------------------------------------- */

static const char busy_text[] = "[model]\nname = busy\n"
                                "[data]\nsparse = C1..C4\ndense = I1..I13\n"
                                "[table emb]\ndim = 4\n"
                                "[embedding e]\ntable = emb\ninput = sparse\n"
                                "[busy b1]\ninput = e\nrounds = 1000\n"
                                "[busy b2]\ninput = b1\nrounds = 4000\n"
                                "[busy b3]\ninput = b2\nrounds = 2000\n"
                                "[fc y]\ninput = b3\nunits = 1\n"
                                "[loss bce]\ninput = y\n"
                                "[train]\nbatch = 64\nmicro = 32\n[store]\nram = 4MiB\n";
static const char network_text[] = "[model]\nname = net\n"
                                   "[data]\nsparse = C1..C26\ndense = I1..I13\n"
                                   "[table emb]\ndim = 8\n"
                                   "[embedding e]\ntable = emb\ninput = sparse\n"
                                   "[concat x]\ninput = e, dense\n"
                                   "[fc h1]\ninput = x\nunits = 256\nactivation = relu\n"
                                   "[fc h2]\ninput = h1\nunits = 128\nactivation = relu\n"
                                   "[fc y]\ninput = h2\nunits = 1\n"
                                   "[loss bce]\ninput = y\n"
                                   "[train]\nbatch = 256\nmicro = 64\n[store]\nram = 16MiB\n";
enum { E, X, H1, H2, Y, BCE, LAYERS };

#define CPU  "[type cpu]\ndevice = cpu\nprice_per_hour = 0.04\nlimit = 48\n"
#define GOAL "[goal]\nexamples = 1000\nthroughput = 500\nservice_cores = 1\n"

struct profiled {
    struct graph graph;
    struct cluster cluster;
    struct instance instance;
};

static status profiled_open(struct profiled *p, const char *text, const char *cluster, struct profile_options o,
                            bool is_cached)
{
    *p = (struct profiled){0};
    assert_ok(graph_compile(&p->graph, "test.cfg", text, strlen(text), NULL, 0, NULL));
    assert_ok(cluster_parse(&p->cluster, fixture_path("cluster.cfg"), cluster, strlen(cluster)));
    o.graph = &p->graph;
    o.graph_path = "test.bin";
    o.cluster = &p->cluster;
    return is_cached ? profile_cached(&p->instance, &o) : profile_measure(&p->instance, &o);
}

static void profiled_close(struct profiled *p)
{
    instance_free(&p->instance);
    cluster_free(&p->cluster);
    graph_close(&p->graph);
}

static void assert_profiled(struct profiled *p, const char *text, const char *cluster, struct profile_options o)
{
    if (profiled_open(p, text, cluster, o, false) != ST_OK) fail_msg("%s", status_message());
}

static void assert_refused(status code, const char *text, const char *cluster, const char *message,
                           const char *other_message)
{
    struct profiled p;
    assert_int_equal(profiled_open(&p, text, cluster, (struct profile_options){.seconds = 0.05}, false), code);
    assert_message(message);
    assert_message(other_message);
    assert_null(p.instance.memory);
    profiled_close(&p);
}

static double oct(const struct profiled *p, uint32_t layer, uint32_t type)
{
    return instance_time(&p->instance, layer, type)->oct;
}

static void profile_measure__busy_layers__cost_in_proportion(void **state)
{
    (void)state;
    struct profiled p;
    assert_profiled(&p, busy_text, CPU GOAL, (struct profile_options){.seconds = 0.3});
    double b1 = oct(&p, 1, 0), b2 = oct(&p, 2, 0), b3 = oct(&p, 3, 0);
    print_message("# busy layers of 1 : 4 : 2 cost 1 : %.2f : %.2f\n", b2 / b1, b3 / b1);
    assert_true(b2 / b1 > 3.2 && b2 / b1 < 4.8);
    assert_true(b3 / b1 > 1.6 && b3 / b1 < 2.4);
    for (uint32_t l = 0; l < p.instance.layer_count; l++) {
        const struct instance_time *time = instance_time(&p.instance, l, 0);
        assert_true(time->oct > 0 && time->fixed >= 0 && time->fixed <= time->oct);
        assert_true(time->alpha >= 0 && time->alpha <= 1 && time->beta >= 0 && time->beta <= 1);
        assert_true(time->alpha_low <= time->alpha_high);
    }
    assert_true(instance_time(&p.instance, 2, 0)->fixed < 0.2 * b2);
    assert_true(p.instance.service_seconds > 0);
    profiled_close(&p);
}

static void profile_measure__instance__says_what_graph_and_cluster_say(void **state)
{
    (void)state;
    struct profiled p;
    assert_profiled(&p, busy_text, CPU GOAL, (struct profile_options){.seconds = 0.05});
    const struct instance *instance = &p.instance;
    assert_string_equal(instance->name, "busy");
    assert_true(instance->batch == 32 && instance->examples == 1000 && instance->epochs == 1 &&
                instance->throughput_limit == 500);
    assert_int_equal(instance->service_cores, 1);
    assert_true(instance->has_graph_hash && instance->graph_hash == p.graph.header->model_hash);
    assert_string_equal(instance->layers[0].name, "e");
    assert_string_equal(instance->layers[0].kind, "embedding");
    assert_string_equal(instance->layers[2].kind, "busy");
    assert_true(instance->layers[1].cut_bytes > 0 && instance->layers[5].cut_bytes == 0);
    assert_true(instance_time(instance, 1, 0)->odt > 0 && instance_time(instance, 5, 0)->odt == 0);
    assert_int_equal(instance->types[0].source, INSTANCE_MEASURED);
    assert_int_equal(instance->types[0].resource.limit, 48);
    assert_true(instance->types[0].resource.price_per_hour == 0.04);
    /* The cluster's cores, and one for reading, are more than here; a step of 64 has two micro-batches. */
    struct cores cores;
    cores_allowed(&cores);
    assert_int_equal(instance->run.cores, cores.count > 49 ? cores.count : 49);
    assert_int_equal(instance->run.micros, 2);
    profiled_close(&p);
    assert_profiled(&p, busy_text, CPU "[goal]\nthroughput = max\n", (struct profile_options){.seconds = 0.05});
    assert_true(p.instance.throughput_limit == 0 && p.instance.examples > 0);
    profiled_close(&p);
}

static void profile_measure__here__limits_units_to_this_machine(void **state)
{
    (void)state;
    struct profiled p;
    struct cores cores;
    cores_allowed(&cores);
    assert_profiled(&p, busy_text,
                    CPU "[type far]\ndevice = cuda\nprice_per_hour = 1\nlimit = 2000\nflops = 1e12\n"
                        "memory_bandwidth = 1e11\nlink_bandwidth = 1e9\n" GOAL,
                    (struct profile_options){.seconds = 0.05, .here = true});
    assert_int_equal(p.instance.types[0].resource.limit, cores.count < 3 ? 1 : cores.count > 49 ? 48 : cores.count - 1);
    assert_int_equal(p.instance.types[1].resource.limit, 2000);
    assert_int_equal(p.instance.run.cores, cores.count);
    profiled_close(&p);
}

static void assert_limits(const char *text, uint32_t cores, uint32_t a, uint32_t b, uint32_t c)
{
    struct cluster cluster;
    uint32_t limits[3];
    assert_ok(cluster_parse(&cluster, "cluster.cfg", text, strlen(text)));
    assert_ok(profile_limits(&cluster, cores, limits));
    assert_true(limits[0] == a && limits[1] == b && limits[2] == c);
    cluster_free(&cluster);
}

static void profile_limits__several_cpu_types__share_the_cores(void **state)
{
    (void)state;
    const char *text = "[type few]\ndevice = cpu\nprice_per_hour = 1\nlimit = 16\n"
                       "[type card]\ndevice = cuda\nprice_per_hour = 1\nlimit = 99\nprofile = card.json\n"
                       "[type many]\ndevice = cpu\nprice_per_hour = 1\nlimit = 48\nprofile = stored.json\n"
                       "[goal]\nservice_cores = 2\n";
    assert_limits(text, 66, 16, 99, 48); /* all fit */
    assert_limits(text, 65, 16, 99, 47);
    assert_limits(text, 34, 8, 99, 24); /* in proportion */
    assert_limits(text, 5, 1, 99, 2);
    assert_limits(text, 4, 1, 99, 1); /* not even in proportion: one each */
    struct cluster cluster;
    uint32_t limits[3];
    assert_ok(cluster_parse(&cluster, "cluster.cfg", text, strlen(text)));
    assert_int_equal(profile_limits(&cluster, 3, limits), ST_INVALID);
    assert_message(
        "cluster.cfg: the types few and many of device cpu need a core of this machine each, which has 1 beside");
    assert_message("give --share, or fewer types");
    cluster_free(&cluster);
}

/* In a process of its own: a signal that has been asked for stays so. */
static void profile_measure__signal__stops_it(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        struct profiled p;
        stop_listen(NULL, NULL);
        raise(SIGINT);
        status st = profiled_open(&p, busy_text, CPU GOAL, (struct profile_options){.seconds = 100}, false);
        bool is_told = strstr(status_message(), "stopped by a signal while the graph was measured") != NULL;
        _exit(st == ST_STOPPED && is_told && p.instance.memory == NULL ? 0 : 1);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result) && WEXITSTATUS(result) == 0);
}

static void profile_measure__other_batch__follows_the_line(void **state)
{
    (void)state;
    struct profiled p, twice;
    assert_profiled(&p, busy_text, CPU GOAL, (struct profile_options){.seconds = 0.2});
    assert_profiled(&twice, busy_text, CPU GOAL, (struct profile_options){.seconds = 0.2, .batch = 128});
    assert_true(twice.instance.batch == 128);
    double ratio = oct(&twice, 2, 0) / oct(&p, 2, 0);
    print_message("# four times the examples take %.2f times as long\n", ratio);
    assert_true(ratio > 3.2 && ratio < 4.8);
    profiled_close(&p);
    profiled_close(&twice);
}

static void profile_measure__slowed_type__takes_so_many_times_as_long(void **state)
{
    (void)state;
    struct profiled p;
    const char *cluster =
        CPU "[type slow]\ndevice = cpu\nslow = fc 4\nprice_per_hour = 0.01\nlimit = 4\n"
            "[type later]\ndevice = cpu\nslow = fc 4\nslow_from = 10\nprice_per_hour = 0.01\nlimit = 4\n" GOAL;
    assert_profiled(&p, network_text, cluster, (struct profile_options){.seconds = 0.3});
    /* As the cpu device does it: what is measured once, times the factor;
     * updates of parameters by fc's factor. */
    assert_true(fabs(oct(&p, H1, 1) / oct(&p, H1, 0) - 4) < 1e-6);
    assert_true(fabs(oct(&p, E, 1) / oct(&p, E, 0) - 1) < 1e-6);
    assert_true(instance_time(&p.instance, H2, 1)->alpha - instance_time(&p.instance, H2, 0)->alpha < 1e-6);
    assert_true(oct(&p, H1, 2) == oct(&p, H1, 0)); /* not slowed yet: the same measurement */
    profiled_close(&p);
    assert_profiled(&p, network_text, cluster, (struct profile_options){.seconds = 0.1, .step = 10});
    assert_true(oct(&p, H1, 2) == oct(&p, H1, 1));
    profiled_close(&p);
}

static double process_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* The processor time of a training on one core, reading included, against what the profile says of its layers
 * and of reading. */
static void profile_measure__all_layers__come_to_what_training_takes(void **state)
{
    (void)state;
    struct profiled p;
    struct training t;
    const uint32_t rows = 256 * SCALED(20, 2);
    fixture_data(fixture_path("clicks.tsv"), 0, rows, NULL);
    assert_profiled(&p, network_text, CPU GOAL,
                    (struct profile_options){.seconds = 0.5, .data = fixture_path("clicks.tsv")});
    double predicted = p.instance.service_seconds, measured = INFINITY;
    for (uint32_t l = 0; l < p.instance.layer_count; l++) predicted += oct(&p, l, 0) / p.instance.batch;
    const char *epochs[] = {"train.epochs=4", NULL};
    assert_ok(training_open(&t, network_text, epochs, fixture_path("clicks.tsv"), &(struct setup){.threads = 1}));
    training_start(&t, NULL);
    for (uint32_t epoch = 1; epoch <= 4; epoch++) { /* rows are new in the first, and memory is */
        double begin = process_seconds();
        assert_ok(training_until(&t, epoch * (rows / 256)));
        double took = (process_seconds() - begin) / rows;
        if (epoch > 1 && took < measured) measured = took;
    }
    training_close(&t);
    print_message("# an example takes %.2f us, the profile says %.2f (%+.1f %%)\n", measured * 1e6, predicted * 1e6,
                  100 * (predicted / measured - 1));
    assert_true(predicted / measured > 0.5 && predicted / measured < SCALED(1.6, 3));
    profiled_close(&p);
}

static void profile_measure__data_that_can_be_read_once__is_left_alone(void **state)
{
    (void)state;
    struct profiled p;
    assert_int_equal(mkfifo(fixture_path("pipe"), 0600), 0);
    assert_profiled(&p, busy_text, CPU GOAL, (struct profile_options){.seconds = 0.05, .data = fixture_path("pipe")});
    profiled_close(&p);
    assert_profiled(&p, busy_text, CPU GOAL, (struct profile_options){.seconds = 0.05, .data = "-"});
    profiled_close(&p);
    assert_int_equal(profiled_open(&p, busy_text, CPU GOAL,
                                   (struct profile_options){.seconds = 0.05, .data = "/nowhere/clicks.tsv"}, false),
                     ST_IO);
    assert_message("/nowhere/clicks.tsv");
    profiled_close(&p);
}

static void profile_measure__few_rows__are_read_again_and_none_refused(void **state)
{
    (void)state;
    struct profiled p;
    fixture_data(fixture_path("three.tsv"), 0, 3, NULL);
    assert_profiled(&p, busy_text, CPU GOAL,
                    (struct profile_options){.seconds = 0.05, .data = fixture_path("three.tsv")});
    profiled_close(&p);
    close(open(fixture_path("empty.tsv"), O_CREAT | O_WRONLY, 0600));
    assert_int_equal(profiled_open(&p, busy_text, CPU GOAL,
                                   (struct profile_options){.seconds = 0.05, .data = fixture_path("empty.tsv")}, false),
                     ST_INVALID);
    assert_message("empty.tsv: no examples");
    profiled_close(&p);
}

static void profile_measure__lanes_and_single_examples__are_measured(void **state)
{
    (void)state;
    struct profiled p;
    char text[2048];
    static const char *const trains[] = {"batch = 64\nmicro = 8\nlanes = 8\n", "batch = 1\nmicro = 1\n",
                                         "batch = 8192\nmicro = 16\noptimizer = adam 0.001\n"};
    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof text, "%.*s[train]\n%s[store]\nram = 4MiB\n",
                 (int)(strstr(busy_text, "[train]") - busy_text), busy_text, trains[i]);
        assert_profiled(&p, text, CPU GOAL, (struct profile_options){.seconds = 0.1});
        assert_true(p.instance.batch == p.graph.header->micro);
        profiled_close(&p);
    }
}

/* --- stored and declared ---------------------------------------------------------------------- */

#define RATES                                                                                                          \
    "flops = 1e12\nmemory_bandwidth = 1e11\nlink_bandwidth = 1e9\nalpha = 0.5\nbeta = 0.25\nbatch_overhead = 1e-3\n"

static void profile_measure__type_from_elsewhere__is_marked(void **state)
{
    (void)state;
    struct profiled here, there;
    assert_profiled(&here, network_text, "[type v100]\ndevice = cpu\nprice_per_hour = 1\nlimit = 8\n" GOAL,
                    (struct profile_options){.seconds = 0.1});
    assert_ok(instance_write(&here.instance, fixture_path("v100.json")));
    assert_profiled(&there, network_text,
                    "[type v100]\ndevice = cuda\nprice_per_hour = 2\nlimit = 4\nprofile = v100.json\n"
                    "[type declared]\ndevice = cuda\nprice_per_hour = 3\nlimit = 2\n" RATES GOAL,
                    (struct profile_options){.seconds = 0.1, .batch = 128});
    const struct instance *instance = &there.instance;
    assert_int_equal(instance->types[0].source, INSTANCE_STORED);
    assert_int_equal(instance->types[1].source, INSTANCE_DECLARED);
    assert_true(instance->types[0].resource.price_per_hour == 2 && instance->types[0].resource.limit == 4);
    for (uint32_t l = 0; l < LAYERS; l++) {
        const struct instance_time *from = instance_time(&here.instance, l, 0), *to = instance_time(instance, l, 0);
        assert_true(fabs(to->oct - (from->fixed + (from->oct - from->fixed) * 2)) < 1e-12);
        assert_true(fabs(to->odt - from->odt * 2) < 1e-12);
        assert_true(to->alpha == from->alpha && to->fixed == from->fixed);
        assert_true(oct(&there, l, 1) > 1e-3 && instance_time(instance, l, 1)->alpha == 0.5);
    }
    assert_true(instance->service_seconds > 0); /* reading is always measured here */
    profiled_close(&there);
    profiled_close(&here);
}

static void profile_measure__stored_and_slowed__is_multiplied_once(void **state)
{
    (void)state;
    struct profiled p;
    const char *cluster = "[type a]\ndevice = cpu\nprice_per_hour = 3\nlimit = 2\n"
                          "[type b]\ndevice = cpu\nslow = fc 3\nprice_per_hour = 3\nlimit = 2\n" GOAL;
    assert_profiled(&p, network_text, cluster, (struct profile_options){.seconds = 0.1});
    assert_ok(instance_write(&p.instance, fixture_path("ab.json")));
    double plain = oct(&p, H1, 0), slowed = oct(&p, H1, 1);
    profiled_close(&p);
    assert_profiled(&p, network_text,
                    "[type a]\ndevice = cpu\nslow = fc 3\nprice_per_hour = 3\nlimit = 2\nprofile = ab.json\n"
                    "[type b]\ndevice = cpu\nslow = fc 3\nprice_per_hour = 3\nlimit = 2\nprofile = ab.json\n" GOAL,
                    (struct profile_options){.seconds = 0.05});
    assert_int_equal(p.instance.types[0].source, INSTANCE_STORED);
    assert_true(fabs(oct(&p, H1, 0) / plain - 3) < 1e-9 && fabs(oct(&p, H1, 1) / slowed - 1) < 1e-9);
    profiled_close(&p);
    assert_profiled(&p, network_text,
                    "[type a]\ndevice = sim\nslow = fc 3\nprice_per_hour = 3\nlimit = 2\nprofile = ab.json\n" GOAL,
                    (struct profile_options){.seconds = 0.05});
    assert_true(fabs(oct(&p, H1, 0) / plain - 1) < 1e-9);
    profiled_close(&p);
}

static void profile_measure__type_that_is_nowhere__is_refused(void **state)
{
    (void)state;
    struct profiled p;
    assert_refused(ST_INVALID, busy_text, CPU "[type v100]\ndevice = cuda:1\nprice_per_hour = 1\nlimit = 8\n" GOAL,
                   "cluster.cfg:5: [type v100]: device cuda:1 is not here", "profile = FILE");
    assert_refused(ST_IO, busy_text, "[type v]\nprice_per_hour = 1\nlimit = 8\nprofile = gone.json\n" GOAL, "gone.json",
                   "");
    assert_profiled(&p, busy_text, CPU GOAL, (struct profile_options){.seconds = 0.05});
    assert_ok(instance_write(&p.instance, fixture_path("busy.json")));
    profiled_close(&p);
    assert_refused(ST_INVALID, busy_text, "[type v]\nprice_per_hour = 1\nlimit = 8\nprofile = busy.json\n" GOAL,
                   "cluster.cfg:1: [type v]: its stored profile", "busy.json has no type of this name, but \"cpu\"");
    assert_refused(ST_MISMATCH, network_text, "[type cpu]\nprice_per_hour = 1\nlimit = 8\nprofile = busy.json\n" GOAL,
                   "busy.json: layer 1 is \"b1\"", "is \"x\"");
}

/* --- kept ------------------------------------------------------------------------------------- */

static uint32_t files_count(const char *path, char *name, size_t bytes)
{
    char command[600];
    uint32_t count = 0;
    snprintf(command, sizeof command, "ls %s", path);
    FILE *list = popen(command, "r");
    while (fscanf(list, "%255s", name) == 1) count++;
    (void)bytes;
    pclose(list);
    return count;
}

/* The seconds of b2 from profile_cached. */
static double cached(const char *text, const char *cluster, struct profile_options o)
{
    struct profiled p;
    if (profiled_open(&p, text, cluster, o, true) != ST_OK) fail_msg("%s", status_message());
    double seconds = oct(&p, 2, 0);
    profiled_close(&p);
    return seconds;
}

static void profile_cached__same_question__is_answered_from_the_file(void **state)
{
    (void)state;
    char folder[512], file[1024], name[256];
    struct profiled p;
    snprintf(folder, sizeof folder, "%s/cache/deeper/heterps-run", fixture_directory);
    setenv("XDG_CACHE_HOME", fixture_path("cache/deeper"), 1);
    struct profile_options brief = {.seconds = 0.05, .spread_max = INFINITY}, any = {.spread_max = INFINITY};
    double first = cached(busy_text, CPU GOAL, brief);
    assert_int_equal(files_count(folder, name, sizeof name), 1);
    assert_true(cached(busy_text, CPU GOAL, any) == first);
    /* Prices and goals are those of the text, whatever was kept. */
    assert_ok(profiled_open(
        &p, busy_text, "[type cpu]\ndevice = cpu\nprice_per_hour = 0.5\nlimit = 3\n[goal]\nexamples = 7\n", any, true));
    assert_true(oct(&p, 2, 0) == first && p.instance.types[0].resource.price_per_hour == 0.5);
    assert_true(p.instance.types[0].resource.limit == 3 && p.instance.examples == 7 &&
                p.instance.throughput_limit == 0);
    assert_int_equal(p.instance.types[0].source, INSTANCE_MEASURED);
    profiled_close(&p);
    assert_int_equal(files_count(folder, name, sizeof name), 1);
    /* A bound of time measures anew, and keeps that. */
    double second = cached(busy_text, CPU GOAL, brief);
    assert_true(second != first);
    assert_true(cached(busy_text, CPU GOAL, any) == second);
    /* A damaged file is as good as none; nor is another graph's under this name. */
    snprintf(file, sizeof file, "%s/%s", folder, name);
    assert_int_equal(truncate(file, 100), 0);
    double third = cached(busy_text, CPU GOAL, brief);
    assert_true(third != second && cached(busy_text, CPU GOAL, any) == third);
}

/* Examples of an epoch from profile_cached. */
static double cached_examples(const char *cluster, struct profile_options o)
{
    struct profiled p;
    assert_ok(profiled_open(&p, busy_text, cluster, o, true));
    double examples = p.instance.examples;
    profiled_close(&p);
    return examples;
}

static void profile_cached__examples__are_those_of_each_goal(void **state)
{
    (void)state;
    char folder[512], name[256];
    const char *none = CPU "[goal]\nthroughput = 500\n";
    snprintf(folder, sizeof folder, "%s/goals/heterps-run", fixture_directory);
    setenv("XDG_CACHE_HOME", fixture_path("goals"), 1);
    fixture_data(fixture_path("goals.tsv"), 0, 300, NULL);
    struct profile_options brief = {.seconds = 0.02, .spread_max = INFINITY}, any = {.spread_max = INFINITY};
    assert_true(cached_examples(CPU GOAL, brief) == 1000); /* generated rows: no number but the goal's */
    assert_true(cached_examples(none, any) == 1e6);
    assert_true(cached_examples(CPU "[goal]\nexamples = 7\n", any) == 7);
    brief.data = any.data = fixture_path("goals.tsv");
    assert_true(cached_examples(CPU GOAL, brief) == 1000);
    double data = cached_examples(none, any);
    assert_true(data > 150 && data < 600);
    assert_true(cached_examples(CPU GOAL, any) == 1000);
    assert_int_equal(files_count(folder, name, sizeof name), 2); /* all others were answered from these */
}

static void profile_cached__busy_machine__is_not_kept(void **state)
{
    (void)state;
    char folder[512], name[256];
    snprintf(folder, sizeof folder, "%s/busy/heterps-run", fixture_directory);
    setenv("XDG_CACHE_HOME", fixture_path("busy"), 1);
    assert_true(cached(busy_text, CPU GOAL, (struct profile_options){.seconds = SCALED(0.2, 1), .spread_max = 1e-12}) >
                0);
    assert_int_equal(files_count(folder, name, sizeof name), 0);
    assert_true(cached(busy_text, CPU GOAL, (struct profile_options){.seconds = 0.02, .spread_max = INFINITY}) > 0);
    assert_int_equal(files_count(folder, name, sizeof name), 1);
}

static void profile_cached__other_question__is_measured(void **state)
{
    (void)state;
    char folder[512], name[256];
    snprintf(folder, sizeof folder, "%s/other/heterps-run", fixture_directory);
    setenv("XDG_CACHE_HOME", fixture_path("other"), 1);
    struct profile_options o = {.seconds = 0.02, .spread_max = INFINITY};
    (void)cached(busy_text, CPU GOAL, o);
    uint32_t count = 1;
    o.batch = 64;
    (void)cached(busy_text, CPU GOAL, o);
    assert_int_equal(files_count(folder, name, sizeof name), ++count);
    o.batch = 0;
    o.isa = "base";
    (void)cached(busy_text, CPU GOAL, o);
    assert_int_equal(files_count(folder, name, sizeof name), ++count);
    o.isa = NULL;
    (void)cached(busy_text, "[type cpu]\ndevice = cpu\nslow = busy 2\nprice_per_hour = 0.04\nlimit = 48\n" GOAL, o);
    assert_int_equal(files_count(folder, name, sizeof name), ++count);
    (void)cached(busy_text, "[type core]\ndevice = cpu\nprice_per_hour = 0.04\nlimit = 48\n" GOAL, o);
    assert_int_equal(files_count(folder, name, sizeof name), ++count);
    char text[2048];
    snprintf(text, sizeof text, "%s", busy_text);
    /* the parameters, and so the model's hash, are the same */
    memcpy(strstr(text, "rounds = 4000"), "rounds = 5000", 13);
    (void)cached(text, CPU GOAL, o);
    assert_int_equal(files_count(folder, name, sizeof name), ++count);
    fixture_data(fixture_path("some.tsv"), 0, 100, NULL);
    o.data = fixture_path("some.tsv");
    (void)cached(busy_text, CPU GOAL, o);
    assert_int_equal(files_count(folder, name, sizeof name), ++count);
    fixture_data(fixture_path("some.tsv"), 100, 1, NULL);
    (void)cached(busy_text, CPU GOAL, o);
    assert_int_equal(files_count(folder, name, sizeof name), ++count);
    /* a stored profile is another when its file is */
    struct profiled p;
    o.data = NULL;
    assert_ok(profiled_open(&p, busy_text, CPU GOAL, o, false));
    for (uint32_t examples = 1; examples < 3; examples++) {
        p.instance.examples = examples;
        assert_ok(instance_write(&p.instance, fixture_path("kept.json")));
        (void)cached(busy_text, "[type cpu]\nprice_per_hour = 1\nlimit = 8\nprofile = kept.json\n" GOAL, o);
        assert_int_equal(files_count(folder, name, sizeof name), ++count);
    }
    profiled_close(&p);
}

static void profile_cached__no_folder__measures_each_time(void **state)
{
    (void)state;
    setenv("XDG_CACHE_HOME", "/proc/nowhere", 1);
    struct profile_options o = {.seconds = 0.02};
    assert_true(cached(busy_text, CPU GOAL, o) > 0);
    setenv("XDG_CACHE_HOME", "relative", 1);
    setenv("HOME", "", 1);
    assert_true(cached(busy_text, CPU GOAL, o) > 0);
    assert_int_not_equal(access("relative", F_OK), 0);
}

/* --- transfers -------------------------------------------------------------------------------- */

static void profile_move__more_bytes__take_longer(void **state)
{
    (void)state;
    const double bytes[] = {4096, 65536, 4 << 20};
    double seconds[3];
    struct cores cores;
    cores_allowed(&cores);
    for (uint32_t core_count = 1; core_count <= 2; core_count++) {
        int other = cores.is_whole && cores.count > 1 ? cores.processor[1] : -1;
        assert_ok(profile_move(bytes, seconds, 3, core_count, other, 0.15));
        print_message("# %s 4 KiB, 64 KiB, 4 MiB: %.2f us, %.2f us, %.1f us\n", core_count == 1 ? "copying" : "moving",
                      seconds[0] * 1e6, seconds[1] * 1e6, seconds[2] * 1e6);
        assert_true(seconds[0] > 0 && seconds[2] > seconds[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fit_line__on_a_line__finds_it),
        cmocka_unit_test(fit_line__would_be_below_zero__is_a_proportion_or_constant),
        cmocka_unit_test(fit_line__noise__interval_holds_95_percent),
        cmocka_unit_test(fit_share__noise__interval_holds_95_percent),
        cmocka_unit_test(fit_share__edges__are_kept),
        cmocka_unit_test(fit_student__known_values__are_met),
        cmocka_unit_test(fit_quantile__any_order__is_interpolated),
        cmocka_unit_test(profile_measure__busy_layers__cost_in_proportion),
        cmocka_unit_test(profile_measure__instance__says_what_graph_and_cluster_say),
        cmocka_unit_test(profile_measure__here__limits_units_to_this_machine),
        cmocka_unit_test(profile_limits__several_cpu_types__share_the_cores),
        cmocka_unit_test(profile_measure__signal__stops_it),
        cmocka_unit_test(profile_measure__other_batch__follows_the_line),
        cmocka_unit_test(profile_measure__slowed_type__takes_so_many_times_as_long),
        cmocka_unit_test(profile_measure__all_layers__come_to_what_training_takes),
        cmocka_unit_test(profile_measure__data_that_can_be_read_once__is_left_alone),
        cmocka_unit_test(profile_measure__few_rows__are_read_again_and_none_refused),
        cmocka_unit_test(profile_measure__lanes_and_single_examples__are_measured),
        cmocka_unit_test(profile_measure__type_from_elsewhere__is_marked),
        cmocka_unit_test(profile_measure__stored_and_slowed__is_multiplied_once),
        cmocka_unit_test(profile_measure__type_that_is_nowhere__is_refused),
        cmocka_unit_test(profile_cached__same_question__is_answered_from_the_file),
        cmocka_unit_test(profile_cached__examples__are_those_of_each_goal),
        cmocka_unit_test(profile_cached__busy_machine__is_not_kept),
        cmocka_unit_test(profile_cached__other_question__is_measured),
        cmocka_unit_test(profile_cached__no_folder__measures_each_time),
        cmocka_unit_test(profile_move__more_bytes__take_longer),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close) ? 1 : 0;
}

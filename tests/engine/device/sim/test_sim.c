/* The device sim takes the time that a plan says and moves the bytes of the cuts, beside stages on cpu too; a
 * slowed cpu takes longer for the same bytes; and a simulated plan reaches its predicted throughput, on
 * instances as they come. It compares times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "engine/device/cpu/cpu_device.h"
#include "engine/device/sim/pace.h"
#include "engine/device/sim/paced.h"
#include "engine/device/sim/sim_device.h"
#include "engine/plan/simulate.h"
#include "graph/cut.h"
#include "tests/engine/pipe/pipeline_fixture.h"

/* Layers: 0 e, 1 x, 2 h1, 3 h2, 4 y, 5 bce. x skips h1; e2 looks up its field behind the first cuts. */
static const char model_text[] = "[data]\ndense = I1..I3\nsparse = C1..C4\nids_max = 2\n"
                                 "[table emb]\ndim = 4\n"
                                 "[embedding e]\ntable = emb\ninput = C1..C3\n"
                                 "[concat x]\ninput = e, dense\n"
                                 "[fc h1]\ninput = x\nunits = 12\nactivation = relu\n"
                                 "[embedding e2]\ntable = emb\ninput = C4\nlayer = h2\n"
                                 "[concat x2]\ninput = h1, e2, x\nlayer = h2\n"
                                 "[fc h2]\ninput = x2\nunits = 8\nactivation = tanh\nlayer = h2\n"
                                 "[fc y]\ninput = h2\nunits = 1\n"
                                 "[loss bce]\ninput = y\n"
                                 "[train]\nbatch = 32\nmicro = 8\nepochs = 1\n"
                                 "[store]\nram = 1MiB\n";
#define DATA_ROWS 107u /* a last step of 11 examples */
#define ET        2e-6

static char data_path[128];

static int group_open(void **state)
{
    if (fixture_open(state) != 0) return -1;
    snprintf(data_path, sizeof data_path, "%s", fixture_path("data.tsv"));
    fixture_data(data_path, 0, DATA_ROWS, NULL);
    return 0;
}

/* A training of model_text under a plan by hand. */
struct hand {
    struct training t;
    struct resource_type types[3];
    struct plan_stage stages[6];
};

/* Stages that end with these layers, on "c" cpu, "s" sim or "p" paced: "s1 c2 s5". */
static void hand_open(struct hand *h, const char *stages, const char *const *set, struct resource_slow slow)
{
    static const struct setup alone = {.threads = 1};
    assert_ok(training_open(&h->t, model_text, set, data_path, &alone));
    pipeline_close(h->t.pipeline);
    feed_close(h->t.feed);
    plan_free(&h->t.plan);
    h->types[0] = (struct resource_type){.name = "core", .device = RESOURCE_CPU, .slow = slow};
    h->types[1] = (struct resource_type){.name = "card", .device = RESOURCE_SIM, .slow = slow};
    h->types[2] = (struct resource_type){.name = "unit", .device = RESOURCE_PACED, .slow = slow};
    h->t.plan = (struct plan){.types = h->types, .stages = h->stages, .type_count = 3, .time_scale = 1};
    char kind;
    unsigned last;
    int length;
    for (uint32_t next = 0; sscanf(stages, " %c%u%n", &kind, &last, &length) == 2; stages += length, next = last + 1)
        h->stages[h->t.plan.stage_count++] = (struct plan_stage){.first_layer = next,
                                                                 .last_layer = last,
                                                                 .type = kind == 'c'   ? 0
                                                                         : kind == 's' ? 1
                                                                                       : 2,
                                                                 .k = kind == 'c' ? 1 : 3,
                                                                 .replicas = 1,
                                                                 .et = ET};
    struct cores cores = {.count = 6};
    struct pipeline_options options = {.graph = &h->t.graph,
                                       .model = &h->t.model,
                                       .plan = &h->t.plan,
                                       .cores = &cores,
                                       .core_count = 6,
                                       .training = true,
                                       .sync = h->t.settings.train_sync,
                                       .pipeline_count = 1};
    assert_ok(pipeline_open(&h->t.pipeline, &options));
    struct feed_options feed = {
        .graph = &h->t.graph,
        .model = &h->t.model,
        .training = true,
        .input_count = pipeline_input_count(h->t.pipeline),
        .epochs = h->t.settings.train_epochs,
        .reader = {.format = READER_CRITEO, .paths = data_path, .schema = h->t.schema.reader, .part = "reader"}};
    assert_ok(feed_open(&h->t.feed, &feed));
    feed_bell_set(h->t.feed, pipeline_feed_bell(h->t.pipeline));
    training_start(&h->t, NULL);
}

static struct cut cut_of(const struct graph *g, uint32_t layer)
{
    struct cut cut;
    assert_int_equal(graph_cut(g, layer, &cut, NULL, NULL, NULL, NULL), ST_OK);
    return cut;
}

/* --- bytes ------------------------------------------------------------------------------------ */

static void sim__any_stages__moves_what_crosses_the_cuts(void **state)
{
    (void)state;
    static const char *const wsp[] = {"train.sync=wsp", "train.micro=0", "train.batch=8", "train.optimizer=sgd 0.1",
                                      NULL};
    static const struct {
        const char *plan;
        const char *const *set;
    } cases[] = {
        {"s0 s1 s2 s3 s4 s5", NULL}, {"s1 s5", NULL}, {"c1 s2 s5", NULL}, {"s0 c2 s3 c5", NULL}, {"s5", NULL},
        {"c0 s4 c5", NULL},          {"c2 c5", NULL}, {"s3 s4 s5", wsp}, /* one stage looks the table up */
        {"c3 s4 c5", wsp},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hand h = {0};
        hand_open(&h, cases[i].plan, cases[i].set, (struct resource_slow){0});
        assert_ok(training_until(&h.t, UINT64_MAX));
        assert_int_equal(h.t.model.progress.examples, DATA_ROWS);
        assert_ok(pipeline_check(h.t.pipeline));
        struct pipeline_figures f;
        pipeline_figures(h.t.pipeline, &f);
        for (uint32_t s = 0; s < f.stage_count; s++) {
            struct cut cut = cut_of(&h.t.graph, h.stages[s].last_layer);
            bool is_sim = h.stages[s].type == 1, is_behind_sim = s + 1 < f.stage_count && h.stages[s + 1].type == 1;
            assert_int_equal(f.stage[s].cut_bytes, (is_behind_sim ? cut.forward_bytes * DATA_ROWS : 0) +
                                                       (is_sim ? cut.backward_bytes * DATA_ROWS : 0));
            assert_int_equal(f.stage[s].core_count, is_sim ? 3 : 1);
            assert_int_equal(f.stage[s].worker_count, 1);
        }
        h.t.plan = (struct plan){0};
        training_close(&h.t);
    }
}

/* Rows, parameters and losses of what is on sim do not move, and what is on cpu beside it
 * trains on finite numbers. */
static void sim__loss_on_sim__is_zero_and_nothing_moves(void **state)
{
    (void)state;
    struct hand h = {0};
    hand_open(&h, "s1 s5", NULL, (struct resource_slow){0});
    training_losses_keep(&h.t, 1);
    struct model *model = &h.t.model;
    size_t bytes = h.t.graph.header->param_floats * sizeof(float);
    float *before = malloc(bytes);
    assert_non_null(before);
    memcpy(before, model->param, bytes);
    assert_ok(training_until(&h.t, UINT64_MAX));
    assert_true(h.t.loss[0] == 0);
    assert_memory_equal(before, model->param, bytes);
    free(before);
    h.t.plan = (struct plan){0};
    training_close(&h.t);
}

/* --- time ------------------------------------------------------------------------------------- */

/* A context of four examples, all of whose tensors lie in one block. */
struct single {
    struct graph graph;
    struct micro_batch batch;
    struct view tensor[64];
    struct op_context context;
    float *memory;
    struct resource_type type;
    struct plan_stage stage;
    struct plan plan;
};
static void task_open(struct single *k, const char *slow, double et, double time_scale)
{
    memset(k, 0, sizeof *k);
    assert_ok(graph_compile(&k->graph, "test.cfg",
                            "[data]\ndense = I1\n[fc a]\ninput = dense\nunits = 2\n[relu r]\ninput = a\n"
                            "[fc y]\ninput = r\nunits = 1\n[loss l]\ninput = y\n[train]\nbatch = 4\n",
                            sizeof "[data]\ndense = I1\n[fc a]\ninput = dense\nunits = 2\n[relu r]\ninput = a\n"
                                   "[fc y]\ninput = r\nunits = 1\n[loss l]\ninput = y\n[train]\nbatch = 4\n" -
                                1,
                            NULL, 0, NULL));
    assert_true(k->graph.tensor_count <= 64);
    k->memory = calloc(4096, sizeof *k->memory);
    assert_non_null(k->memory);
    for (uint32_t tensor = 0; tensor < k->graph.tensor_count; tensor++)
        k->tensor[tensor] =
            (struct view){k->memory + 64 * tensor, 4, k->graph.tensors[tensor].cols, k->graph.tensors[tensor].stride};
    k->batch.example_count = 4;
    k->context = (struct op_context){.graph = &k->graph, .tensor = k->tensor, .batch = &k->batch, .training = true};
    k->type = (struct resource_type){.name = "card", .device = RESOURCE_SIM};
    assert_ok(resource_slow_parse(slow, &k->type.slow));
    k->stage = (struct plan_stage){.last_layer = k->graph.layer_count - 1, .k = 6, .replicas = 2, .et = et};
    k->plan = (struct plan){
        .types = &k->type, .stages = &k->stage, .type_count = 1, .stage_count = 1, .time_scale = time_scale};
}
static void task_close(struct single *k)
{
    graph_close(&k->graph);
    free(k->memory);
}

/* Seconds of `count` micro-batches, forward and backward, one after another. */
static double tasks_time(struct single *k, struct device *device, uint32_t count)
{
    const struct graph *g = &k->graph;
    uint64_t begin_ns = clock_ns();
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(device_submit(device, &k->context, g->nodes, g->forward_count), ST_OK);
        assert_int_equal(
            device_submit(device, &k->context, g->nodes + g->forward_count, g->node_count - g->forward_count), ST_OK);
    }
    return (double)(clock_ns() - begin_ns) * 1e-9;
}

/* The sum of many tasks is late by one wake, not by one for each (which would be a third here); a wake may be
 * late by much, for the machine is shared. */
static void sim__tasks_one_after_another__take_the_planned_time_in_all(void **state)
{
    (void)state;
    static const struct {
        const char *slow;
        uint64_t from_step;
        double et, time_scale, expected;
    } cases[] = {
        {"", 0, 50e-6, 1, 50e-6 * 2 * 4},          /* two replicas make an example every et seconds: one, every 2 et */
        {"", 0, 5e-6, 10, 50e-6 * 2 * 4},          /* scaled                                                          */
        {"fc 3, relu 2", 0, 50e-6, 1, 150e-6 * 8}, /* the greatest factor of its ops                                  */
        {"embedding 9", 0, 50e-6, 1, 50e-6 * 8},   /* of which it has none                                            */
        {"all 3", 5, 50e-6, 1, 50e-6 * 8},         /* not yet                                                         */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct single k;
        struct device *device;
        enum { COUNT = 250 };
        task_open(&k, cases[i].slow, cases[i].et, cases[i].time_scale);
        k.type.slow.from_step = cases[i].from_step;
        assert_ok(sim_device_open(&device, &k.graph, &k.plan, 0));
        double seconds = tasks_time(&k, device, COUNT), planned = COUNT * cases[i].expected;
        /* The machine may have stood still for a moment: again, then, but for what the last wake was late. */
        for (uint32_t tries = 0; tries < 3 && seconds > planned * 1.15 + 0.01; tries++)
            seconds = tasks_time(&k, device, COUNT);
        if (seconds < planned * 0.95) fail_msg("case %zu: %g s of %g", i, seconds, planned);
        if (seconds > planned * 1.15 + 0.01) fail_msg("case %zu: %g s of %g", i, seconds, planned);
        printf("# %d tasks of %.0f us: %.2f%% late\n", 2 * COUNT, cases[i].expected * 1e6 / 2,
               100 * (seconds / planned - 1));
        if (cases[i].from_step > 0) {
            k.batch.step = cases[i].from_step;
            /* But for what the last wake was late: three times as long, not once. */
            assert_true(tasks_time(&k, device, 50) > 2 * 50 * cases[i].expected);
        }
        device_close(device);
        task_close(&k);
    }
}

static void pace__slow_by_turns__takes_longer_in_its_steps(void **state)
{
    (void)state;
    struct single k;
    struct pace pace;
    task_open(&k, "fc 3", 150e-6, 1);
    k.type.slow.from_step = 5;
    k.type.slow.for_steps = 2;
    k.type.slow.every_steps = 8;
    assert_ok(pace_open(&pace, &k.graph, &k.plan, 0));
    for (k.batch.step = 0; k.batch.step < 16; k.batch.step++) {
        const uint64_t times = k.batch.step % 8 == 5 || k.batch.step % 8 == 6 ? 3 : 1;
        assert_in_range(pace_pass_ns(&pace, &k.context, PASS_FORWARD, k.graph.forward_count), 400000 * times - 2,
                        400000 * times + 2);
    }
    task_close(&k);
}

/* What is cut takes as long as the whole, and each node of a pass its part. */
static void pace__pieces_of_a_pass__take_their_share(void **state)
{
    (void)state;
    struct single k;
    struct pace pace;
    task_open(&k, "", 150e-6, 1);
    const uint32_t counts[PASS_COUNT] = {k.graph.forward_count, k.graph.node_count - k.graph.forward_count};
    const uint64_t whole_ns[PASS_COUNT] = {400000, 800000};
    assert_ok(pace_open(&pace, &k.graph, &k.plan, 0));
    for (enum graph_pass pass = PASS_FORWARD; pass < PASS_COUNT; pass++) {
        assert_in_range(pace_pass_ns(&pace, &k.context, pass, counts[pass]), whole_ns[pass] - 2, whole_ns[pass] + 2);
        for (uint32_t count = 1; count < counts[pass]; count++) {
            const uint64_t part_ns = whole_ns[pass] * count / counts[pass];
            assert_in_range(pace_pass_ns(&pace, &k.context, pass, count), part_ns - 2, part_ns + 2);
        }
    }
    task_close(&k);
}

/* A device that had nothing to do does not make up for it. */
static void sim__after_a_pause__takes_the_whole_time_again(void **state)
{
    (void)state;
    struct single k;
    struct device *device;
    task_open(&k, "", 125e-6, 1);
    assert_ok(sim_device_open(&device, &k.graph, &k.plan, 0));
    for (uint32_t i = 0; i < 3; i++) {
        /* But for what the last wake was late. */
        double seconds = tasks_time(&k, device, 20);
        if (i == 0) assert_true(seconds >= 0.02);
        if (i > 0) assert_true(seconds >= 0.01);
        usleep(20000);
    }
    device_close(device);
    task_close(&k);
}

static void sim_device_open__no_time_or_too_long__is_refused(void **state)
{
    (void)state;
    struct single k;
    struct device *device;
    task_open(&k, "", 0, 1);
    assert_int_equal(sim_device_open(&device, &k.graph, &k.plan, 0), ST_INVALID);
    assert_string_equal(status_message(),
                        "stage 0 (a..l) is on sim, but the plan does not say how long it takes: expected et > 0");
    k.stage.et = 1e300;
    assert_int_equal(sim_device_open(&device, &k.graph, &k.plan, 0), ST_INVALID);
    assert_message("lower time_scale");
    assert_null(device);
    task_close(&k);
}

/* Tensor by tensor: a stage in the middle writes what begins in it and is wanted elsewhere, and
 * leaves the rest of the slot alone. */
static void sim_submit__stage_in_the_middle__writes_what_it_gives(void **state)
{
    (void)state;
    struct single k;
    struct device *device;
    float *memory = malloc(64 * 64 * 8 * sizeof *memory);
    assert_non_null(memory);
    task_open(&k, "", 1e-9, 1);
    graph_close(&k.graph);
    assert_ok(graph_compile(&k.graph, "test.cfg", model_text, sizeof model_text - 1, NULL, 0, NULL));
    const struct graph *g = &k.graph;
    assert_true(g->tensor_count <= 64);
    for (uint32_t i = 0; i < 64 * 64 * 8; i++) memory[i] = 7;
    for (uint32_t tensor = 0; tensor < g->tensor_count; tensor++)
        k.tensor[tensor] = (struct view){memory + 512 * tensor, 8, g->tensors[tensor].cols, 64};
    uint64_t key[8];
    uint32_t key_begin[8 * 4 + 1] = {0};
    for (uint32_t i = 0; i < 8; i++) key[i] = i;
    for (uint32_t home = 0; home < 32; home++) key_begin[home + 1] = key_begin[home] + (home % 4 == 3);
    k.batch = (struct micro_batch){.example_count = 8, .key = key, .key_begin = key_begin, .key_count = 8};
    k.stage = (struct plan_stage){.first_layer = 2, .last_layer = 2, .k = 1, .replicas = 1, .et = 1e-9};
    assert_ok(sim_device_open(&device, g, &k.plan, 0));
    for (uint32_t pass = 0; pass < PASS_COUNT; pass++) {
        uint32_t front[64], behind[64], front_count, behind_count;
        bool is_forward = pass == PASS_FORWARD;
        struct cut cut;
        assert_int_equal(graph_cut(g, 1, &cut, is_forward ? front : NULL, is_forward ? &front_count : NULL,
                                   is_forward ? NULL : front, is_forward ? NULL : &front_count),
                         ST_OK);
        assert_int_equal(graph_cut(g, 2, &cut, is_forward ? behind : NULL, is_forward ? &behind_count : NULL,
                                   is_forward ? NULL : behind, is_forward ? NULL : &behind_count),
                         ST_OK);
        for (uint32_t i = 0; i < 64 * 64 * 8; i++) memory[i] = 7;
        uint32_t at = is_forward ? 0 : g->forward_count;
        while (g->nodes[at].layer != 2) at++;
        assert_int_equal(device_submit(device, &k.context, &g->nodes[at], 1), ST_OK);
        uint32_t given_count = 0;
        for (uint32_t tensor = 0; tensor < g->tensor_count; tensor++) {
            bool is_front = false, is_behind = false;
            for (uint32_t i = 0; i < front_count; i++) is_front |= front[i] == tensor;
            for (uint32_t i = 0; i < behind_count; i++) is_behind |= behind[i] == tensor;
            bool is_given = is_forward ? is_behind && !is_front : is_front && !is_behind;
            given_count += is_given;
            for (uint32_t b = 0; b < 8; b++)
                for (uint32_t i = 0; i < 64; i++)
                    assert_true(memory[512 * tensor + 64 * b + i] == (is_given && i < g->tensors[tensor].cols ? 0 : 7));
        }
        /* h1 forward; back nothing that is not added to behind: the gradient of x comes from there too. */
        assert_int_equal(given_count, is_forward ? 1 : 0);
    }
    struct sim_moved moved = sim_device_moved(device);
    assert_int_equal(moved.forward_bytes, 8 * cut_of(g, 1).forward_bytes);
    assert_int_equal(moved.backward_bytes, 8 * cut_of(g, 2).backward_bytes);
    device_close(device);
    free(memory);
    task_close(&k);
}

/* --- paced ------------------------------------------------------------------------------------ */

static void paced__any_stages__learn_what_cores_do(void **state)
{
    (void)state;
    static const char *const plans[] = {"c5", "p5", "p1 c3 p5", "c0 p5", "p0 p2 p5"};
    uint64_t cores = 0;
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        struct hand h = {0};
        hand_open(&h, plans[i], NULL, (struct resource_slow){0});
        assert_ok(training_until(&h.t, UINT64_MAX));
        assert_int_equal(h.t.model.progress.examples, DATA_ROWS);
        if (i == 0) cores = training_hash(&h.t);
        assert_int_equal(training_hash(&h.t), cores);
        h.t.plan = (struct plan){0};
        training_close(&h.t);
    }
}

/* As of sim; and what computes longer than its time is counted, and ends when it is done. */
static void paced__tasks__take_the_planned_time_and_tell_overruns(void **state)
{
    (void)state;
    struct single k;
    struct device *device;
    enum { COUNT = 50 };
    task_open(&k, "fc 3", 100e-6, 1);
    assert_ok(paced_device_open(&device, &k.graph, &k.plan, 0, "base"));
    double seconds = tasks_time(&k, device, COUNT);
    for (uint32_t tries = 0; tries < 3 && seconds > COUNT * 2.4e-3 * 1.15 + 0.01; tries++)
        seconds = tasks_time(&k, device, COUNT);
    if (seconds < COUNT * 2.4e-3 * 0.95 || seconds > COUNT * 2.4e-3 * 1.15 + 0.01)
        fail_msg("%g s of %g", seconds, COUNT * 2.4e-3);
    assert_int_equal(paced_device_passes(device).count % (2 * COUNT), 0);
    assert_true(paced_device_passes(device).overrun_count < paced_device_passes(device).count / 4);
    device_close(device);
    k.stage.et = 1e-12;
    assert_ok(paced_device_open(&device, &k.graph, &k.plan, 0, "base"));
    (void)tasks_time(&k, device, COUNT);
    assert_int_equal(paced_device_passes(device).count, 2 * COUNT);
    assert_int_equal(paced_device_passes(device).overrun_count, 2 * COUNT);
    device_close(device);
    k.stage.et = 0;
    k.type.device = RESOURCE_PACED;
    assert_int_equal(paced_device_open(&device, &k.graph, &k.plan, 0, NULL), ST_INVALID);
    assert_string_equal(status_message(),
                        "stage 0 (a..l) is on paced, but the plan does not say how long it takes: expected et > 0");
    assert_null(device);
    task_close(&k);
}

/* --- slowed cpus ------------------------------------------------------------------------------ */

static double cpu_seconds(struct single *k, const struct resource_slow *slow, enum graph_pass pass, uint64_t step)
{
    const struct graph *g = &k->graph;
    struct device *device;
    double least = INFINITY;
    assert_ok(cpu_device_open(&device, g, 1, NULL, NULL));
    cpu_device_slow_set(device, slow);
    k->batch.step = step;
    /* The least of several: the machine is shared. */
    for (uint32_t i = 0; i < 15; i++) {
        uint64_t begin_ns = clock_ns();
        const struct graph_node *nodes = pass == PASS_FORWARD ? g->nodes : g->nodes + g->forward_count;
        uint32_t count = pass == PASS_FORWARD ? g->forward_count : g->node_count - g->forward_count;
        assert_int_equal(device_submit(device, &k->context, nodes, count), ST_OK);
        double seconds = (double)(clock_ns() - begin_ns) * 1e-9;
        if (seconds < least) least = seconds;
    }
    device_close(device);
    return least;
}

static void cpu__slowed_op__takes_its_factor_from_its_step_on(void **state)
{
    (void)state;
    static const char text[] = "[data]\ndense = I1\n[fc a]\ninput = dense\nunits = 2\n"
                               "[busy b]\ninput = a\nrounds = 50000\n[fc y]\ninput = b\nunits = 1\n"
                               "[loss l]\ninput = y\n[train]\nbatch = 4\n";
    struct single k;
    struct resource_slow busy, fc;
    task_open(&k, "", 1, 1);
    graph_close(&k.graph);
    assert_ok(graph_compile(&k.graph, "test.cfg", text, sizeof text - 1, NULL, 0, NULL));
    for (uint32_t tensor = 0; tensor < k.graph.tensor_count; tensor++) {
        k.tensor[tensor] =
            (struct view){k.memory + 64 * tensor, k.graph.tensors[tensor].rows ? k.graph.tensors[tensor].rows : 4,
                          k.graph.tensors[tensor].cols, k.graph.tensors[tensor].stride};
    }
    assert_ok(resource_slow_parse("busy 4", &busy));
    assert_ok(resource_slow_parse("fc 4", &fc));
    busy.from_step = 3;
    for (int pass = 0; pass < PASS_COUNT; pass++) {
        double free = cpu_seconds(&k, NULL, pass, 3), slowed = cpu_seconds(&k, &busy, pass, 3),
               before = cpu_seconds(&k, &busy, pass, 2), other = cpu_seconds(&k, &fc, pass, 3);
        printf("# pass %d: %.0f us, slowed %.0f, before its step %.0f, another op slowed %.0f\n", pass, free * 1e6,
               slowed * 1e6, before * 1e6, other * 1e6);
        assert_true(slowed > 3.2 * free && slowed < 6 * free);
        assert_true(before < 1.6 * free && other < 1.6 * free);
    }
    task_close(&k);
}

static void cpu__slowed_training__same_bytes(void **state)
{
    (void)state;
    uint64_t hashes[3];
    for (uint32_t i = 0; i < 3; i++) {
        struct hand h = {0};
        struct resource_slow slow = {0};
        if (i > 0) assert_ok(resource_slow_parse("all 3", &slow));
        slow.from_step = 2;
        hand_open(&h, i < 2 ? "c1 c5" : "c5", NULL, slow);
        assert_ok(training_until(&h.t, UINT64_MAX));
        hashes[i] = training_hash(&h.t);
        h.t.plan = (struct plan){0};
        training_close(&h.t);
    }
    assert_int_equal(hashes[0], hashes[1]);
    assert_int_equal(hashes[0], hashes[2]);
}

/* --- simulated plans -------------------------------------------------------------------------- */

/* The first plan of a random instance that can be provisioned, of about `stages` stages. */
static void random_plan(const struct instance *instance, struct solution *solution, uint64_t seed)
{
    struct cost_model model;
    type_index types[INSTANCE_LAYERS_MAX];
    assert_ok(cost_model_open(&model, instance));
    solution->instance = instance;
    solution->method = "test";
    solution->memory = solution->stages = calloc(instance->layer_count, sizeof *solution->stages);
    assert_non_null(solution->memory);
    uint64_t random = seed;
    for (uint32_t tries = 0; tries < 1000 && !solution->result.is_feasible; tries++) {
        uint32_t type = 0;
        for (uint32_t l = 0; l < instance->layer_count; l++) {
            if (draw(&random, 3) == 0) type = (uint32_t)draw(&random, instance->type_count);
            types[l] = (type_index)type;
        }
        solution->stage_count = cost_stages(&model, types, solution->stages);
        solution->result = provision_exact(&model, solution->stages, solution->stage_count);
    }
    assert_true(solution->result.is_feasible);
    cost_model_free(&model);
}

static void simulate_seed(uint64_t seed, uint32_t sync, double tolerance)
{
    struct instance instance;
    struct solution solution = {0};
    struct graph graph, names;
    struct plan plan;
    struct simulation m;
    double factor;
    assert_ok(instance_random(&instance, seed, 5 + (uint32_t)seed % 8, 3));
    random_plan(&instance, &solution, seed);
    struct simulate_shape shape = {sync, simulate_step_micro_count(solution.stage_count)};
    assert_ok(simulate_graph_make(&graph, &instance, &shape, &factor));
    assert_ok(simulate_names_make(&names, &instance));
    assert_int_equal(graph.layer_count, instance.layer_count);
    assert_ok(simulate_plan_make(&plan, &solution));
    struct simulate_options options = {.graph = &graph, .names = &names, .plan = &plan, .sync = sync, .batches = 60};
    size_t planned = memory_planned_bytes();
    assert_ok(simulate_run(&m, &options));
    assert_int_equal(memory_planned_bytes(), planned);
    double ratio = m.measured / m.predicted;
    for (uint32_t tries = 0; tries < 3 && !(fabs(ratio - 1) < tolerance); tries++) {
        simulation_free(&m);
        assert_ok(simulate_run(&m, &options));
        ratio = m.measured / m.predicted;
    }
    printf("# seed %d, %u layers, %u stages, %s: %.1f%% of the prediction\n", (int)seed, instance.layer_count,
           m.stage_count, cfg_syncs[sync], 100 * ratio);
    assert_true(fabs(m.predicted / solution.result.throughput - 1) < 1e-12);
    if (!(fabs(ratio - 1) < tolerance)) fail_msg("measured %g of %g", m.measured, m.predicted);
    for (uint32_t s = 0; s < m.stage_count; s++) {
        assert_int_equal(m.stages[s].moved_bytes, m.stages[s].predicted_bytes);
        assert_int_equal(m.stages[s].moved_bytes == 0, s + 1 == m.stage_count);
    }
    simulation_free(&m);
    plan_free(&plan);
    graph_close(&graph);
    graph_close(&names);
    solution_free(&solution);
    instance_free(&instance);
}

/* The tolerance, and a second try, are for a machine that others use; alone it is 1 %. */
static void simulate__random_instances_wsp__reach_the_prediction(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) simulate_seed(seed, SYNC_WSP, 0.15);
}

/* Filling and draining are part of a step. */
static void simulate__random_instances_bsp__reach_most_of_it(void **state)
{
    (void)state;
    simulate_seed(5, SYNC_BSP, 0.2);
}

static void simulate_graph_make__wide_cuts__are_scaled_by_one_factor(void **state)
{
    (void)state;
    struct instance instance;
    struct graph g;
    double factor;
    struct simulate_shape shape = {SYNC_WSP, 1};
    assert_ok(instance_random(&instance, 3, 6, 2));
    for (uint32_t l = 0; l < 6; l++) {
        instance.layers[l].in_bytes = 400;
        instance.layers[l].cut_bytes = l == 1 ? 8e6 : l == 2 ? 8e4 : l == 3 ? 0 : 80;
    }
    assert_ok(simulate_graph_make(&g, &instance, &shape, &factor));
    /* 1,000,000 floats * 16 examples are 976.6 times 64 KiB. */
    assert_true(factor == 977);
    static const uint32_t cols[] = {1, 1024, 10, 1, 1};
    for (uint32_t l = 0; l < 5; l++) {
        struct cut cut = cut_of(&g, l);
        assert_int_equal(cut.backward_bytes, 4 * cols[l]);
        assert_int_equal(cut.forward_bytes, 4 * cols[l] + 4); /* and the label */
    }
    graph_close(&g);
    instance_free(&instance);
}

/* Times that a plan leaves out follow from the instance; without one they are asked for. */
static void simulate_plan_turn__no_times__takes_those_of_the_instance(void **state)
{
    (void)state;
    struct instance instance;
    struct graph names;
    assert_ok(instance_random(&instance, 3, 6, 2));
    assert_ok(simulate_names_make(&names, &instance));
    struct resource_type types[] = {instance.types[1].resource, {.name = "other"}};
    struct plan_stage stages[] = {{.last_layer = 3, .k = 2, .replicas = 2},
                                  {.first_layer = 4, .last_layer = 5, .k = 1, .et = 7}};
    struct plan plan = {.types = types, .stages = stages, .type_count = 2, .stage_count = 2, .service_cores = 3};
    assert_int_equal(simulate_plan_turn(&plan, &names, NULL), ST_INVALID);
    assert_message("stages[0] of the plan");
    assert_ok(simulate_plan_turn(&plan, &names, &instance));
    struct cost_model model;
    assert_ok(cost_model_open(&model, &instance));
    struct cost_time time = cost_segment(&model, 0, 3, 1);
    assert_true(stages[0].et == cost_et(&time, 2) && stages[1].et == 7);
    cost_model_free(&model);
    assert_int_equal(types[0].device, RESOURCE_SIM);
    assert_int_equal(stages[0].replicas, 1);
    assert_int_equal(plan.service_cores, 0);
    stages[1] = (struct plan_stage){.first_layer = 4, .last_layer = 5, .type = 1, .k = 1};
    assert_int_equal(simulate_plan_turn(&plan, &names, &instance), ST_INVALID);
    assert_message("is on \"other\"");
    graph_close(&names);
    instance_free(&instance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sim__any_stages__moves_what_crosses_the_cuts),
        cmocka_unit_test(sim__loss_on_sim__is_zero_and_nothing_moves),
        cmocka_unit_test(sim__tasks_one_after_another__take_the_planned_time_in_all),
        cmocka_unit_test(pace__slow_by_turns__takes_longer_in_its_steps),
        cmocka_unit_test(pace__pieces_of_a_pass__take_their_share),
        cmocka_unit_test(sim__after_a_pause__takes_the_whole_time_again),
        cmocka_unit_test(sim_device_open__no_time_or_too_long__is_refused),
        cmocka_unit_test(sim_submit__stage_in_the_middle__writes_what_it_gives),
        cmocka_unit_test(paced__any_stages__learn_what_cores_do),
        cmocka_unit_test(paced__tasks__take_the_planned_time_and_tell_overruns),
        cmocka_unit_test(cpu__slowed_op__takes_its_factor_from_its_step_on),
        cmocka_unit_test(cpu__slowed_training__same_bytes),
        cmocka_unit_test(simulate__random_instances_wsp__reach_the_prediction),
        cmocka_unit_test(simulate__random_instances_bsp__reach_most_of_it),
        cmocka_unit_test(simulate_graph_make__wide_cuts__are_scaled_by_one_factor),
        cmocka_unit_test(simulate_plan_turn__no_times__takes_those_of_the_instance),
    };
    int failure_count = cmocka_run_group_tests(tests, group_open, fixture_close);
    return failure_count ? 1 : 0;
}

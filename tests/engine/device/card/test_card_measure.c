/* Times of a card under a clock of the test's own: each look at it takes a millisecond, so that a
 * figure, which wants 2 ms, is half of one, however fast the emulated card is. Counts of its calls say
 * what was timed, and how often. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/base/scope.h"
#include "engine/base/stop.h"
#include "engine/device/card/measure.h"
#include "engine/device/cpu/cpu_device.h"
#include "engine/slot/step_update.h"
#include "tests/engine/device/card/card_fixture.h"
#include "tests/engine/fixture_clock.h"
#include "tests/engine/pipe/pipeline_fixture.h"

#include <math.h>
#include <sched.h>
#include <signal.h>

#define STEP_NS 1000000u
#define SECONDS 0.5e-3 /* of two runs between two looks */
#define LAYERS  8u     /* e, x, n, h1, h2, h3, y, bce; h2 and h3 are tied */
#define SIZES   2u

/* Each stage on an emulated card has its memory cleared first, which takes a sanitizer many seconds. */
#if defined __SANITIZE_ADDRESS__
#define LONG_SKIP() skip()
#else
#define LONG_SKIP() ((void)0)
#endif

static char data_path[128];

static int group_open(void **state)
{
    if (fixture_open(state) != 0) return -1;
    snprintf(data_path, sizeof data_path, "%s", fixture_path("data.tsv"));
    fixture_data(data_path, 0, 8, NULL);
    return 0;
}

/* A micro-batch of four examples that has been through both passes on the CPU. */
struct measured {
    struct training t;
    struct arena arena, gradients_arena;
    struct slot slot;
    struct gradients gradients;
    struct op_context context;
    struct resource_type type;
    struct card_measure_options options;
    struct card_times times;
    uint32_t updates; /* calls of rows_update */
    /* Of the clock while all layers are a stage, which is from the sixth call on; 0: as before. */
    uint32_t whole_step_ns;
    uint32_t tables; /* bits of the tables that rows_update was called for */
};

static const double sizes[SIZES] = {4, 1}, moves[] = {1000, 70000, 64};

static status rows_update(void *context, struct device *device, uint32_t table)
{
    struct measured *m = context;
    assert_non_null(device);
    if (++m->updates == 6 && m->whole_step_ns) fixture_clock_set(m->whole_step_ns, false);
    m->tables |= 1u << table;
    return ST_OK;
}

static void begin(struct measured *m, uint64_t row_bytes)
{
    struct layout sum = {0}, taken = {.arena = &m->arena}, sums = {0}, sums_taken = {.arena = &m->gradients_arena};
    struct input *input;
    *m = (struct measured){.type = {.name = "card", .device = RESOURCE_EMU, .limit = 1}};
    cards_begin();
    fixture_clock_set(0, false);
    assert_ok(training_open(&m->t, card_model_text, NULL, data_path, &(struct setup){.threads = 1}));
    const struct graph *g = &m->t.graph;
    assert_int_equal(g->layer_count, LAYERS);
    slot_layout(&sum, NULL, g, true);
    assert_ok(arena_open(&m->arena, "test", sum.bytes));
    slot_layout(&taken, &m->slot, g, true);
    gradients_layout(&m->gradients, &sums, g, g->header->lanes, g->header->batch);
    assert_ok(arena_open(&m->gradients_arena, "test", sums.bytes));
    gradients_layout(&m->gradients, &sums_taken, g, g->header->lanes, g->header->batch);
    training_start(&m->t, NULL);
    while (feed_try_next(m->t.feed, &input) != FEED_INPUT) sched_yield();
    slot_bind(&m->slot, input, g, &m->t.model);
    for (uint32_t tensor = 0; tensor < g->tensor_count; tensor++)
        if (g->tensors[tensor].kind == TENSOR_PARAM_GRAD)
            m->slot.tensor[tensor].data = m->gradients.param[0] + g->tensors[tensor].offset;
    m->context = slot_context(&m->slot, g, m->gradients.table, true);
    struct device *cpu;
    assert_ok(cpu_device_open(&cpu, g, 1, NULL, "base"));
    assert_ok(device_submit(cpu, &m->context, g->nodes, g->node_count));
    device_close(cpu);
    m->options = (struct card_measure_options){.graph = g,
                                               .model = &m->t.model,
                                               .type = &m->type,
                                               .slots = &m->slot,
                                               .contexts = &m->context,
                                               .slot_count = 1,
                                               .step_share = 2,
                                               .sizes = sizes,
                                               .size_count = SIZES,
                                               .move_bytes = moves,
                                               .move_count = 3,
                                               .row_bytes = row_bytes,
                                               .rows_update = rows_update,
                                               .rows_context = m,
                                               .seconds = 1000};
    fixture_clock_set(STEP_NS, false);
}

static void end(struct measured *m)
{
    fixture_clock_set(0, false);
    card_times_free(&m->times);
    assert_null(m->times.pass);
    arena_close(&m->gradients_arena);
    arena_close(&m->arena);
    training_close(&m->t);
}

static void time_check(const char *what, uint32_t layer, double seconds, double expected)
{
    if (!(fabs(seconds - expected) <= 1e-9))
        fail_msg("%s of layer %u: %g s, expected %g", what, layer, seconds, expected);
}

/* Of a sample: 0.0005 s where it is two runs between two looks. A layer's own figure; h2 and h3 share one;
 * updates of rows are looked at once. The layer that looks rows up has that share of its time alone that all
 * layers as a stage take beyond the others, which are six figures, and at least a twentieth. */
static void times_check(const struct measured *m, double sample, double rows_update, double rows_share)
{
    for (uint32_t s = 0; s < SIZES; s++)
        for (uint32_t l = 0; l < LAYERS; l++) {
            /* Of a table's rows fewer examples take their share, whatever they are timed with. */
            const double share = l == 0 ? sizes[s] / 4 * rows_share : 1;
            time_check("pass", l, m->times.pass[s * LAYERS + l], l == 4 || l == 5 ? sample / 2 : share * sample);
        }
    const double updates[LAYERS] = {2 * rows_update, 0, sample, sample, sample / 2, sample / 2, sample, 0};
    for (uint32_t l = 0; l < LAYERS; l++) time_check("update", l, m->times.update[l], updates[l]);
}

static void card_measure__layers__a_figure_each_and_shares_of_tied_ones(void **state)
{
    (void)state;
    struct measured m;
    begin(&m, 1 << 20);
    assert_ok(card_measure(&m.times, &m.options));
    times_check(&m, SECONDS, 1e-3, 0.05);
    /* In and out, seven times; nothing else is copied by the card that stays open. */
    for (uint32_t i = 0; i < 3; i++) time_check("move", i, m.times.move[i], 0.5e-3);
    assert_int_equal(card_calls(0, CALL_COPY), 2 * 7 * 3);
    assert_int_equal(card_calls(0, CALL_WAIT), 2 * 7 * 3);
    assert_int_equal(card_calls(0, CALL_LAUNCH), 0);
    assert_int_equal(m.updates, 6);
    assert_int_equal(m.tables, 1);
    assert_null(cards_seen[0].gpu);
    assert_null(cards_seen[1].gpu);
    end(&m);
}

static void card_measure__slower_as_a_whole__rows_have_what_is_beyond_the_others(void **state)
{
    (void)state;
    LONG_SKIP();
    /* Two micro-batches between two looks: 6.5 ms are half of a figure more
     * than the six of the other layers. */
    static const struct {
        uint32_t step_ns;
        double share;
    } cases[] = {{6500000, 0.5}, {7500000, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct measured m;
        begin(&m, 1 << 20);
        m.whole_step_ns = cases[i].step_ns;
        assert_ok(card_measure(&m.times, &m.options));
        times_check(&m, SECONDS, 1e-3, cases[i].share);
        end(&m);
    }
}

/* Launches of the last run that is measured, all layers: three steps in which rows move; then two
 * micro-batches, once to warm up and twice a sample. */
static uint64_t launches(uint32_t samples)
{
    enum { PASSES = 29, MICROS = 2 };
    return PASSES * (3 + MICROS * (1 + 2 * samples));
}

static void card_measure__less_time__fewer_samples(void **state)
{
    (void)state;
    LONG_SKIP();
    /* Looks of a figure: one at first, one after warming up, then three a sample,
     * of which the last sees 1 + 3 n ms. */
    static const struct {
        double limit;
        uint32_t samples;
    } cases[] = {{3.9e-3, 1}, {4.1e-3, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct measured m;
        begin(&m, 0);
        m.options.seconds = cases[i].limit * (LAYERS * (SIZES + 1) + 1) / 0.9;
        assert_ok(card_measure(&m.times, &m.options));
        assert_int_equal(card_calls(1, CALL_LAUNCH), launches(cases[i].samples));
        times_check(&m, SECONDS, 1e-3, 0.05);
        end(&m);
    }
}

/* A sample is of 2 ms and more, but of no more than 256 runs. */
static void card_measure__faster_and_slower_clocks__repeats_of_a_sample(void **state)
{
    (void)state;
    LONG_SKIP();
    static const struct {
        uint64_t step_ns;
        double repeats;
    } cases[] = {{700000, 3}, {5000, 256}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct measured m;
        begin(&m, 0);
        m.options.seconds = 0;
        m.options.size_count = i < 1 ? SIZES : 0;
        fixture_clock_set(cases[i].step_ns, false);
        assert_ok(card_measure(&m.times, &m.options));
        const double sample = (double)cases[i].step_ns * 1e-9 / cases[i].repeats;
        if (i < 1) times_check(&m, sample, (double)cases[i].step_ns * 1e-9, 0.05);
        time_check("update", 2, m.times.update[2], sample);
        end(&m);
    }
}

static void card_measure__refused_calls__say_so_and_leave_nothing(void **state)
{
    (void)state;
    static const struct {
        enum card_call call;
        int64_t n;
    } cases[] = {{CALL_STREAM, 1}, {CALL_EVENT, 1},  {CALL_TAKE, 1},  {CALL_HOST_TAKE, 1},
                 {CALL_COPY, 2},   {CALL_WAIT, 2},   {CALL_TAKE, 2},  {CALL_LAUNCH, 1},
                 {CALL_COPY, 45},  {CALL_LAUNCH, 9}, {CALL_WAIT, 60}, {CALL_PIN, 9999}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const enum card_call call = cases[i].call;
        const int64_t n = cases[i].n;
        struct measured m;
        begin(&m, 0);
        m.options.seconds = 0;
        card_refuse(call, n, false);
        const status st = card_measure(&m.times, &m.options);
        const bool is_refused = n < 9999;
        assert_int_equal(st, is_refused ? ST_SYSTEM : ST_OK);
        if (is_refused) assert_message(card_call_names[call]);
        assert_int_equal(m.times.pass == NULL, is_refused);
        assert_int_equal(m.times.move == NULL, is_refused);
        assert_null(cards_seen[0].gpu);
        assert_null(cards_seen[1].gpu);
        card_refuse_nothing();
        end(&m);
    }
}

static void card_measure__asked_to_stop__keeps_nothing(void **state)
{
    (void)state;
    struct measured m;
    struct scope *scope, *before;
    begin(&m, 0);
    assert_ok(scope_open(&scope));
    before = scope_enter(scope);
    stop_ask(scope, SIGINT);
    assert_int_equal(card_measure(&m.times, &m.options), ST_STOPPED);
    assert_message("stopped by a signal while a card was measured; nothing of it is kept");
    assert_null(m.times.update);
    scope_enter(before);
    scope_close(scope);
    end(&m);
}

static void cards_here__types__count_from_theirs_on(void **state)
{
    (void)state;
    struct resource_type type = {.device = RESOURCE_EMU};
    setenv("HETERPS_EMU_CARDS", "3", 1);
    assert_int_equal(cards_here(&type), 3);
    type.device_index = 2;
    assert_int_equal(cards_here(&type), 1);
    assert_true(card_is_here(&type));
    type.device_index = 3;
    assert_int_equal(cards_here(&type), 0);
    assert_false(card_is_here(&type));
    type = (struct resource_type){.device = RESOURCE_CPU};
    assert_int_equal(cards_here(&type), 0);
    type.device = RESOURCE_SIM;
    assert_int_equal(cards_here(&type), 0);
    unsetenv("HETERPS_EMU_CARDS");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(card_measure__layers__a_figure_each_and_shares_of_tied_ones),
        cmocka_unit_test(card_measure__slower_as_a_whole__rows_have_what_is_beyond_the_others),
        cmocka_unit_test(card_measure__less_time__fewer_samples),
        cmocka_unit_test(card_measure__faster_and_slower_clocks__repeats_of_a_sample),
        cmocka_unit_test(card_measure__refused_calls__say_so_and_leave_nothing),
        cmocka_unit_test(card_measure__asked_to_stop__keeps_nothing),
        cmocka_unit_test(cards_here__types__count_from_theirs_on),
    };
    return cmocka_run_group_tests(tests, group_open, fixture_close) ? 1 : 0;
}

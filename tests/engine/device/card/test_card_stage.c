/* A stage on emulated cards by itself, driven by hand: what goes there before a job and comes
 * home after it, by which card; which work is written down, replayed and forgotten; and what
 * becomes of an opening that fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/device/card/stage.h"
#include "tests/engine/device/card/card_fixture.h"
#include "tests/engine/pipe/pipeline_fixture.h"

#include <math.h>
#include <sched.h>

#define DATA_ROWS 15u /* three whole micro-batches and a short one: lanes 0, 0, 1, 1 */
#define MICROS    4u

static char data_path[128];

static int group_open(void **state)
{
    if (fixture_open(state) != 0) return -1;
    snprintf(data_path, sizeof data_path, "%s", fixture_path("data.tsv"));
    fixture_data(data_path, 0, DATA_ROWS, NULL);
    return 0;
}

/* --- by hand ------------------------------------------------------------------------------------- */

/* A stage, on as many cards as its plan says, and its first micro-batches. The training has graph, model and
 * feed; its own pipeline is on the CPU and idle. */
struct by_hand {
    struct training t;
    struct plan plan;
    struct extent extent;
    struct arena arena;
    struct card_stage *card[CARDS_SEEN_MAX];
    struct device *device[CARDS_SEEN_MAX]; /* the first of each card */
    uint32_t count;
    struct input *input[MICROS];
    struct slot slot[MICROS]; /* bound to the input of the same number */
    struct arena slots;
    void *inputs; /* [input_bytes]: where they lie */
    size_t input_bytes;
};

static status card_open_by_hand(struct by_hand *h, uint32_t stage, bool training, uint32_t replica)
{
    const struct device_stage_options of = {.graph = &h->t.graph,
                                            .model = &h->t.model,
                                            .plan = &h->plan,
                                            .stage = stage,
                                            .extent = &h->extent,
                                            .slots = h->slots.base,
                                            .slots_bytes = h->slots.size_bytes,
                                            .slot_count = MICROS,
                                            .input_count = feed_input_count(h->t.feed),
                                            .lanes = {.count = h->t.graph.header->lanes},
                                            .training = training};
    const struct card_stage_options options = {.of = &of, .replica = replica, .replica_count = h->count};
    TRY(card_stage_open(&h->card[replica], &options));
    return card_device_open(&h->device[replica], h->card[replica]);
}

/* All but the cards. */
static void hand_begin(struct by_hand *h, const char *plan, uint32_t stage)
{
    char json[4096];
    struct layout sum = {0}, taken = {.arena = &h->arena}, slots_sum = {0}, slots_taken = {.arena = &h->slots};
    memset(h, 0, sizeof *h);
    assert_ok(training_open(&h->t, card_model_text, NULL, data_path, &(struct setup){.threads = 1}));
    plan_json(json, sizeof json, plan);
    assert_ok(plan_parse(&h->plan, &h->t.graph, "plan.json", json, strlen(json)));
    const struct plan_stage *of = &h->plan.stages[stage];
    h->count = of->replicas;
    extent_nodes_find(&h->extent, &h->t.graph, of->first_layer, of->last_layer);
    extent_layout(&h->extent, &sum, &h->t.graph, &h->t.model, h->count);
    assert_ok(arena_open(&h->arena, "test", sum.bytes));
    extent_layout(&h->extent, &taken, &h->t.graph, &h->t.model, h->count);
    for (uint32_t i = 0; i < MICROS; i++) slot_layout(&slots_sum, NULL, &h->t.graph, true);
    assert_ok(arena_open(&h->slots, "test", slots_sum.bytes));
    for (uint32_t i = 0; i < MICROS; i++) {
        slot_layout(&slots_taken, &h->slot[i], &h->t.graph, true);
        h->slot[i].index = i;
    }
    h->inputs = feed_memory(h->t.feed, &h->input_bytes);
}

static void cards_close(struct by_hand *h)
{
    for (uint32_t r = 0; r < h->count; r++) {
        device_close(h->device[r]);
        card_stage_close(h->card[r]);
        h->device[r] = NULL;
        h->card[r] = NULL;
    }
}

static void hand_end(struct by_hand *h)
{
    cards_close(h);
    arena_close(&h->slots);
    arena_close(&h->arena);
    plan_free(&h->plan);
    training_close(&h->t);
}

static void hand_open(struct by_hand *h, const char *plan, uint32_t stage, bool training)
{
    hand_begin(h, plan, stage);
    for (uint32_t r = 0; r < h->count; r++) assert_ok(card_open_by_hand(h, stage, training, r));
}

static void inputs_take(struct by_hand *h)
{
    training_start(&h->t, NULL);
    for (uint32_t i = 0; i < MICROS; i++) {
        while (feed_try_next(h->t.feed, &h->input[i]) != FEED_INPUT) sched_yield();
        slot_bind(&h->slot[i], h->input[i], &h->t.graph, &h->t.model);
    }
}

static struct op_context context_by_hand(const struct by_hand *h, uint32_t slot, bool training)
{
    return slot_context(&h->slot[slot], &h->t.graph, NULL, training);
}
static status forward(struct by_hand *h, struct device *device, uint32_t slot, bool training)
{
    const struct op_context c = context_by_hand(h, slot, training);
    return device_submit(device, &c, h->t.graph.nodes, h->t.graph.forward_count);
}
static status backward(struct by_hand *h, struct device *device, uint32_t slot)
{
    const struct op_context c = context_by_hand(h, slot, true);
    const struct graph *g = &h->t.graph;
    return device_submit(device, &c, g->nodes + g->forward_count, g->node_count - g->forward_count);
}

/* --- what goes there and comes back --------------------------------------------------------------- */

#define SCRIBBLE 0x5c5c5c5cu

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static void model_number(struct model *m)
{
    const struct graph_header *header = m->graph->header;
    for (uint64_t i = 0; i < header->param_floats; i++) m->param[i] = (float)(i + 1);
    for (uint64_t i = 0; i < header->state_floats; i++) m->state[i] = -(float)(i + 1);
}
static void model_scribble(struct model *m)
{
    memset(m->param, SCRIBBLE & 0xff, m->graph->header->param_floats * sizeof(float));
    memset(m->state, SCRIBBLE & 0xff, m->graph->header->state_floats * sizeof(float));
}

/* Whether a float of a numbered model that was scribbled over is back: 1, 0. */
static uint32_t number_is_back(float x, float number)
{
    if (bits_of(x) != SCRIBBLE) assert_int_equal(bits_of(x), bits_of(number));
    return bits_of(x) != SCRIBBLE;
}

/* Exactly the floats that the parts of the cards `settled` have, and their state,
 * are back; of other stages none. */
static void model_check(const struct by_hand *h, const bool *settled)
{
    const struct model *m = &h->t.model;
    uint64_t param_count = 0, state_count = 0, param_expected = 0, state_expected = 0;
    for (uint64_t i = 0; i < m->graph->header->param_floats; i++)
        param_count += number_is_back(m->param[i], (float)(i + 1));
    for (uint64_t i = 0; i < m->graph->header->state_floats; i++)
        state_count += number_is_back(m->state[i], -(float)(i + 1));
    for (uint32_t r = 0; r < h->count; r++)
        for (uint32_t run = 0; run < h->extent.run_count; run++) {
            const struct param_run *of = &h->extent.runs[run];
            uint64_t begin, end;
            extent_part(&h->extent, r, run, &begin, &end);
            for (uint64_t i = begin; i < end; i++) {
                assert_int_equal(bits_of(m->param[i]) != SCRIBBLE, settled[r]);
                for (uint32_t k = 0; k < of->state_count; k++)
                    assert_int_equal(bits_of(m->state[of->state_offset + k * of->state_stride + i - of->offset]) !=
                                         SCRIBBLE,
                                     settled[r]);
            }
            param_expected += settled[r] ? end - begin : 0;
            state_expected += settled[r] ? (end - begin) * of->state_count : 0;
        }
    assert_int_equal(param_count, param_expected);
    assert_int_equal(state_count, state_expected);
}

/* A part belongs to one card, which brings it home and nothing else. */
static void settle__of_each_card__brings_its_part_home(void **state)
{
    (void)state;
    static const char *const plans[] = {"0-2:1:1 3-7:1:1e", "0-2:1:1 3-7:3:3e"};
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        struct by_hand h;
        bool settled[CARDS_SEEN_MAX] = {false};
        hand_open(&h, plans[i], 1, true);
        model_number(&h.t.model);
        for (uint32_t r = 0; r < h.count; r++) assert_ok(device_begin(h.device[r], h.inputs, h.input_bytes));
        model_scribble(&h.t.model);
        for (uint32_t r = h.count; r-- > 0;) {
            uint64_t floats = 0;
            for (uint32_t run = 0; run < h.extent.run_count; run++) {
                uint64_t begin, end;
                extent_part(&h.extent, r, run, &begin, &end);
                floats += end - begin;
            }
            assert_true(floats > 0);
            assert_ok(device_settle(h.device[r]));
            settled[r] = true;
            model_check(&h, settled);
        }
        hand_end(&h);
    }
}

static void settle__nothing_trained__leaves_the_host_alone(void **state)
{
    (void)state;
    static const bool settled[CARDS_SEEN_MAX] = {false};
    struct by_hand h;
    hand_open(&h, "0-2:1:1 3-7:1:1e", 1, false);
    model_number(&h.t.model);
    assert_ok(device_begin(h.device[0], h.inputs, h.input_bytes));
    model_scribble(&h.t.model);
    assert_ok(device_settle(h.device[0]));
    model_check(&h, settled);
    hand_end(&h);
}

/* Of several streams the first begins and settles for all. */
static void begin_settle__of_further_streams__nothing_is_copied(void **state)
{
    (void)state;
    struct by_hand h;
    struct device *other;
    hand_open(&h, "0-2:1:1 3-7:1:1e", 1, true);
    assert_ok(card_device_open(&other, h.card[0]));
    const uint64_t copies = card_calls(0, CALL_COPY);
    assert_ok(device_begin(other, h.inputs, h.input_bytes));
    assert_ok(device_settle(other));
    device_leave(other, h.inputs, h.input_bytes);
    assert_int_equal(card_calls(0, CALL_COPY), copies);
    assert_int_equal(card_calls(0, CALL_PIN) + card_calls(0, CALL_UNPIN), 1);
    device_close(other);
    hand_end(&h);
}

/* --- what is written down -------------------------------------------------------------------------- */

static void assert_lists(uint64_t captures, uint64_t replays)
{
    if (card_calls(0, CALL_CAPTURE) != captures || card_calls(0, CALL_REPLAY) != replays)
        fail_msg("%d passes written down and %d replayed, expected %d and %d", (int)card_calls(0, CALL_CAPTURE),
                 (int)card_calls(0, CALL_REPLAY), (int)captures, (int)replays);
}

/* Each pass of each slot with each input, of each stream, once; of backward passes one a lane. */
static void submit__again__replays_what_is_written_down(void **state)
{
    (void)state;
    struct by_hand h;
    struct device *other;
    hand_open(&h, "0-7:1:1e", 0, true);
    inputs_take(&h);
    assert_ok(card_device_open(&other, h.card[0]));
    assert_ok(device_begin(h.device[0], NULL, 0));
    assert_ok(forward(&h, h.device[0], 0, true));
    assert_lists(0, 0);                           /* where the place of inputs is not known */
    assert_int_equal(card_calls(0, CALL_PIN), 1); /* slots */
    assert_ok(device_begin(h.device[0], h.inputs, h.input_bytes));
    assert_ok(device_begin(h.device[0], h.inputs, h.input_bytes));
    assert_int_equal(card_calls(0, CALL_PIN), 2);
    static const struct {
        bool is_other, is_backward, training;
        uint32_t slot, captures, replays;
    } passes[] = {
        {false, false, true, 0, 1, 1},  {false, false, true, 0, 1, 2},  /* training … */
        {false, false, false, 0, 2, 3}, {false, false, false, 0, 2, 4}, /* … and evaluation apart */
        {false, true, true, 0, 3, 5},   {false, true, true, 0, 3, 6},   /* lane 0 */
        {false, false, true, 1, 4, 7},  {false, true, true, 1, 5, 8},   /* another slot of lane 0 */
        {false, false, true, 2, 6, 9},  {false, true, true, 2, 7, 10},  /* lane 1 */
        {true, false, true, 0, 8, 11},  {true, false, true, 0, 8, 12},  /* another stream */
        {false, false, true, 3, 8, 12}, {false, true, true, 3, 8, 12},  /* short ones are given as they are */
        {false, true, true, 2, 8, 13},
    };
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        struct device *device = passes[i].is_other ? other : h.device[0];
        assert_ok(passes[i].is_backward ? backward(&h, device, passes[i].slot)
                                        : forward(&h, device, passes[i].slot, passes[i].training));
        assert_lists(passes[i].captures, passes[i].replays);
    }
    for (uint32_t input = 1; input <= 2; input++) { /* other inputs in a slot, in turn */
        slot_bind(&h.slot[0], h.input[input], &h.t.graph, &h.t.model);
        assert_ok(forward(&h, h.device[0], 0, true));
        assert_lists(8 + input, 13 + input);
    }
    slot_bind(&h.slot[0], h.input[0], &h.t.graph, &h.t.model);
    assert_ok(forward(&h, h.device[0], 0, true));
    assert_lists(10, 16);
    device_close(other);
    hand_end(&h);
    assert_int_equal(card_calls(0, CALL_LIST_CLOSE), 10);
    assert_int_equal(card_calls(0, CALL_UNPIN), 2);
}

/* Work that is written down names addresses, so nothing is where they may become others'. */
static void submit__memory_not_kept_in_place__nothing_is_written_down(void **state)
{
    (void)state;
    for (uint32_t refused = 1; refused <= 2; refused++) { /* slots, inputs */
        struct by_hand h;
        card_refuse(CALL_PIN, refused, false);
        hand_open(&h, "0-7:1:1e", 0, true);
        inputs_take(&h);
        assert_ok(device_begin(h.device[0], h.inputs, h.input_bytes));
        assert_ok(forward(&h, h.device[0], 0, true));
        assert_ok(backward(&h, h.device[0], 0));
        assert_lists(0, 0);
        hand_end(&h);
        assert_int_equal(card_calls(0, CALL_UNPIN), 1);
    }
}

/* The head's input: what the last layers make of all others. */
static void outputs_take(const struct by_hand *h, float *y)
{
    const struct graph *g = &h->t.graph;
    for (uint32_t i = 0; i < MICROS; i++) {
        const struct op_context c = context_by_hand(h, i, true);
        const struct graph_node *loss = &g->nodes[graph_loss_next(g, 0)];
        const struct view out = op_out(&c, loss);
        for (uint32_t b = 0; b < 4; b++) {
            y[4 * i + b] = b < h->input[i]->batch.example_count ? out.data[(size_t)b * out.stride] : 0;
            out.data[(size_t)b * out.stride] = NAN;
        }
    }
}

/* Given as it is, written down, replayed, and where nothing can be written down, which
 * is tried four times and no more. */
static void submit__given_or_replayed__same_bytes(void **state)
{
    (void)state;
    struct by_hand h;
    float given[4 * MICROS], other[4 * MICROS];
    hand_open(&h, "0-7:1:1e", 0, true);
    inputs_take(&h);
    for (uint32_t way = 0; way < 4; way++) {
        /* 0: place not known; 1, 2: written down, replayed; 3: behind a card that writes nothing down */
        if (way == 3) cards_close(&h);
        if (way == 3) assert_ok(card_open_by_hand(&h, 0, true, 0));
        if (way == 3) card_refuse(CALL_CAPTURE, 1, true);
        assert_ok(device_begin(h.device[0], way == 0 ? NULL : h.inputs, way == 0 ? 0 : h.input_bytes));
        for (uint32_t i = 0; i < MICROS; i++) assert_ok(forward(&h, h.device[0], i, true));
        if (way == 3) /* four more, of which only the first is tried to be written down */
            for (uint32_t i = 0; i < MICROS; i++) assert_ok(forward(&h, h.device[0], i % 3, true));
        if (way == 3) assert_lists(4, 0);
        outputs_take(&h, way == 0 ? given : other);
        for (uint32_t i = 0; i < 4 * MICROS && way == 0; i++) assert_true(given[i] > 0 || i >= DATA_ROWS);
        if (way > 0) assert_memory_equal(given, other, sizeof given);
    }
    hand_end(&h);
}

/* Work that names the memory of inputs goes with them, and only that. */
static void leave__inputs_given_back__forgets_their_lists(void **state)
{
    (void)state;
    struct by_hand h;
    hand_open(&h, "0-7:1:1e", 0, true);
    inputs_take(&h);
    assert_ok(device_begin(h.device[0], h.inputs, h.input_bytes));
    assert_ok(forward(&h, h.device[0], 0, true));
    assert_ok(backward(&h, h.device[0], 0));
    assert_ok(forward(&h, h.device[0], 2, false));
    assert_lists(3, 3);
    uint8_t elsewhere[64];
    device_leave(h.device[0], elsewhere, sizeof elsewhere);
    device_leave(h.device[0], (uint8_t *)h.inputs + h.input_bytes, 1 << 20);
    assert_int_equal(card_calls(0, CALL_LIST_CLOSE) + card_calls(0, CALL_UNPIN), 0);
    assert_ok(forward(&h, h.device[0], 0, true));
    assert_lists(3, 4);
    device_leave(h.device[0], h.inputs, h.input_bytes);
    assert_int_equal(card_calls(0, CALL_LIST_CLOSE), 3);
    assert_int_equal(card_calls(0, CALL_UNPIN), 1);
    assert_ok(device_begin(h.device[0], h.inputs, h.input_bytes));
    assert_int_equal(card_calls(0, CALL_PIN), 3);
    assert_ok(forward(&h, h.device[0], 0, true));
    assert_ok(backward(&h, h.device[0], 0));
    assert_lists(5, 6);
    hand_end(&h);
    assert_int_equal(card_calls(0, CALL_LIST_CLOSE), 5);
}

/* --- what fails ----------------------------------------------------------------------------------- */

/* The input can be given back: nothing copies from it any more. */
static void submit__card_refuses_a_launch__waits_for_what_was_given_fault(void **state)
{
    (void)state;
    struct by_hand h;
    hand_open(&h, "0-7:1:1e", 0, true);
    inputs_take(&h);
    assert_ok(device_begin(h.device[0], NULL, 0));
    card_refuse(CALL_LAUNCH, 3, false);
    assert_int_equal(forward(&h, h.device[0], 0, true), ST_SYSTEM);
    assert_message("stage e..bce, forward pass of 4 examples in step 0: " REFUSED("launch"));
    assert_false(atomic_load(&cards_seen[0].is_under_way));
    assert_ok(forward(&h, h.device[0], 0, true));
    card_refuse(CALL_LAUNCH, 3, false);
    assert_int_equal(backward(&h, h.device[0], 0), ST_SYSTEM);
    assert_message("stage e..bce, backward pass of 4 examples in step 0: " REFUSED("launch"));
    assert_false(atomic_load(&cards_seen[0].is_under_way));
    hand_end(&h);
}

/* Whichever call fails: its message, and all that was taken is given back (a card
 * that is closed checks that). */
static void open__a_call_fails__gives_all_back_fault(void **state)
{
    (void)state;
    static const struct {
        enum card_call call;
        bool is_last; /* of its kind, not the first */
    } cases[] = {{CALL_TAKE, false},  {CALL_HOST_TAKE, false}, {CALL_STREAM, false},
                 {CALL_STREAM, true}, {CALL_EVENT, false},     {CALL_EVENT, true},
                 {CALL_COPY, true},   {CALL_CLEAR, true},      {CALL_WAIT, true}};
    struct by_hand h;
    const size_t planned = memory_planned_bytes();
    uint64_t calls[CALL_REFUSABLE];
    hand_begin(&h, "0-7:1:1e", 0);
    const size_t planned_by_hand = memory_planned_bytes();
    assert_ok(card_open_by_hand(&h, 0, true, 0));
    for (int call = 0; call < CALL_REFUSABLE; call++) calls[call] = card_calls(0, (enum card_call)call);
    cards_close(&h);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint64_t n = cases[i].is_last ? calls[cases[i].call] : 1;
        char words[128];
        snprintf(words, sizeof words, REFUSED("%s"), card_call_names[cases[i].call]);
        card_refuse(cases[i].call, (int64_t)n, false);
        if (card_open_by_hand(&h, 0, true, 0) != ST_SYSTEM) fail_msg("%s: opened", words);
        assert_string_equal(status_message(), words);
        cards_close(&h);
        assert_null(cards_seen[0].gpu);
        assert_int_equal(memory_planned_bytes(), planned_by_hand);
    }
    hand_end(&h);
    assert_int_equal(memory_planned_bytes(), planned);
}

static int test_begin(void **state)
{
    (void)state;
    cards_begin();
    cards_are(3, 0, 3);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(settle__of_each_card__brings_its_part_home, test_begin),
        cmocka_unit_test_setup(settle__nothing_trained__leaves_the_host_alone, test_begin),
        cmocka_unit_test_setup(begin_settle__of_further_streams__nothing_is_copied, test_begin),
        cmocka_unit_test_setup(submit__again__replays_what_is_written_down, test_begin),
        cmocka_unit_test_setup(submit__memory_not_kept_in_place__nothing_is_written_down, test_begin),
        cmocka_unit_test_setup(submit__given_or_replayed__same_bytes, test_begin),
        cmocka_unit_test_setup(leave__inputs_given_back__forgets_their_lists, test_begin),
        cmocka_unit_test_setup(submit__card_refuses_a_launch__waits_for_what_was_given_fault, test_begin),
        cmocka_unit_test_setup(open__a_call_fails__gives_all_back_fault, test_begin),
    };
    return cmocka_run_group_tests(tests, group_open, fixture_close) ? 1 : 0;
}

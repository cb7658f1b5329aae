/* A freshly opened model: its first values are a function of the graph and its seed. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/engine/model/model_fixture.h"

static void model_open__twice__same_values(void **state)
{
    (void)state;
    struct model a, b;
    fixture_model(&a, 0, 0);
    fixture_model(&b, 0, 0);
    fixture_assert_equal(&a, &b, NULL);
    assert_int_equal(a.progress.step, 0);
    model_close(&a);
    model_close(&b);
}

static void model_open__another_seed__other_weights(void **state)
{
    (void)state;
    struct graph graph;
    struct model a, b;
    fixture_compile(&graph, "train.seed=2");
    fixture_model(&a, 0, 0);
    assert_ok(model_open(&b, &graph, &(struct model_budget){.ram_bytes = FIXTURE_RAM_BYTES}));
    model_init(&b);
    assert_memory_not_equal(a.param, b.param, 16 * sizeof(float));
    float span_a[64] = {0}, span_b[64] = {0};
    model_row_init(&a, 0, 5, span_a);
    model_row_init(&b, 0, 5, span_b);
    assert_memory_not_equal(span_a, span_b, 4 * sizeof(float));
    model_close(&a);
    model_close(&b);
    graph_close(&graph);
}

/* Nothing is to lie there. */
static void model_open__no_tables_and_a_disk__opens_without(void **state)
{
    (void)state;
    static const char dense[] = "[data]\ndense = I1..I3\n[fc y]\ninput = dense\nunits = 1\n[loss bce]\ninput = y\n";
    struct graph graph;
    struct model model;
    assert_ok(graph_compile(&graph, "m.cfg", dense, sizeof dense - 1, NULL, 0, NULL));
    assert_ok(model_open(&model, &graph,
                         &(struct model_budget){.ram_bytes = FIXTURE_RAM_BYTES,
                                                .disk_bytes = (uint64_t)16 << 20,
                                                .path = "/missing/directory/rows"}));
    assert_false(store_has_home(model.store));
    model_close(&model);
    graph_close(&graph);
}

/* Parameter p, element e: value e % 4 of item e / 4 of stream p. */
static void model_open__parameters__are_the_documented_draws_golden(void **state)
{
    (void)state;
    struct model model;
    uint32_t param_index = 0;
    fixture_model(&model, 0, 0);
    for (uint32_t i = 0; i < fixture_graph.tensor_count; i++) {
        const struct graph_tensor *t = &fixture_graph.tensors[i];
        if (t->kind != TENSOR_PARAM) continue;
        struct random_stream stream = random_stream(fixture_graph.header->seed, RANDOM_PARAM, param_index++);
        for (uint32_t row = 0; row < t->rows; row++)
            for (uint32_t col = 0; col < t->cols; col++) {
                uint64_t e = (uint64_t)row * t->cols + col;
                float four[4];
                random_fill(four, 4, t->init, t->init_scale, stream, e / 4);
                assert_memory_equal(&model.param[t->offset + (uint64_t)row * t->stride + col], &four[e % 4],
                                    sizeof(float));
            }
    }
    assert_int_equal(param_index, 4);
    model_close(&model);
}

static void model_row_init__any_key__vector_state_and_zero_counter(void **state)
{
    (void)state;
    struct model model;
    fixture_model(&model, 0, 0);
    for (uint32_t table_index = 0; table_index < fixture_graph.table_count; table_index++) {
        const struct graph_table *table = &fixture_graph.tables[table_index];
        const struct graph_optimizer *o = &fixture_graph.optimizers[table->optimizer];
        const struct optimizer *rule = &optimizer_table[o->kind];
        float span[64] = {0}, vector[64];
        const uint64_t key = UINT64_MAX - 7;
        model_row_init(&model, table_index, key, span);
        random_fill(vector, table->dim, table->init, table->init_scale,
                    random_stream(fixture_graph.header->seed, RANDOM_ROW, table_index), key);
        assert_memory_equal(span, vector, table->dim * sizeof(float));
        for (uint32_t s = 0; s < rule->state_count; s++)
            for (uint32_t k = 0; k < table->dim; k++)
                assert_true(span[table->dim * (1 + s) + k] == rule->state_init(o, s));
        for (uint32_t k = table->dim * (1 + rule->state_count); k < 64; k++) assert_true(span[k] == 0);
        assert_true(table->span_floats >= table->dim * (1 + rule->state_count));
    }
    model_close(&model);
}

static void model_open__optimizer_with_a_first_state__has_it(void **state)
{
    (void)state;
    struct graph graph;
    struct model model;
    fixture_compile(&graph, "train.optimizer=adagrad 0.1 initial_accumulator=0.25");
    assert_ok(model_open(&model, &graph, &(struct model_budget){.ram_bytes = FIXTURE_RAM_BYTES}));
    model_init(&model);
    assert_true(graph.header->state_floats >= graph.header->param_floats);
    for (uint64_t i = 0; i < graph.header->state_floats; i++) assert_true(model.state[i] == 0.25f);
    model_close(&model);
    graph_close(&graph);
}

/* A batch_norm starts as what leaves its normalised input alone; its statistics are saved by
 * name and have no optimizer state. */
static void model_open__batch_norm__starts_at_ones_and_zeros(void **state)
{
    (void)state;
    static const char text[] = "[data]\ndense = I1..I3\n[batch_norm n]\ninput = dense\n[fc y]\ninput = n\nunits = 1\n"
                               "[loss bce]\ninput = y\n[train]\nbatch = 8\noptimizer = adagrad 0.1\n";
    static const struct {
        const char *name;
        float first;
    } expected[] = {{"n.weight", 1},      {"n.weight.state0", 0}, {"n.bias", 0},
                    {"n.bias.state0", 0}, {"n.mean", 0},          {"n.variance", 1},
                    {"y.weight", 2},      {"y.weight.state0", 0}, {"y.bias.state0", 0}};
    struct graph graph;
    struct model model;
    struct model_arrays arrays;
    assert_ok(graph_compile(&graph, "norm.cfg", text, sizeof text - 1, NULL, 0, NULL));
    assert_ok(model_open(&model, &graph, &(struct model_budget){.ram_bytes = FIXTURE_RAM_BYTES}));
    model_init(&model);
    assert_ok(model_arrays_list(&arrays, &model, true));
    assert_int_equal(arrays.count, 10);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const struct model_array *array = arrays.items;
        while (array < arrays.items + arrays.count && strcmp(array->name, expected[i].name) != 0) array++;
        if (array == arrays.items + arrays.count) fail_msg("no array %s", expected[i].name);
        for (uint32_t k = 0; k < array->cols; k++)
            if (expected[i].first < 2) assert_true(array->data[k] == expected[i].first);
    }
    assert_int_equal(graph.header->state_floats, graph.updates[0].param_count);
    model_arrays_free(&arrays);
    model_close(&model);
    graph_close(&graph);
}

/* A data_norm has statistics only: as of ten thousand examples around 0 with deviation 1. */
static void model_open__data_norm__starts_at_ten_thousand_examples(void **state)
{
    (void)state;
    static const char text[] = "[data]\ndense = I1..I3\n[data_norm n]\ninput = dense\n[fc y]\ninput = n\nunits = 1\n"
                               "[loss bce]\ninput = y\n[train]\nbatch = 8\noptimizer = adagrad 0.1\n";
    static const struct {
        const char *name;
        float first;
    } expected[] = {{"n.size", 1e4f}, {"n.sum", 0}, {"n.square_sum", 1e4f}};
    struct graph graph;
    struct model model;
    struct model_arrays arrays;
    assert_ok(graph_compile(&graph, "norm.cfg", text, sizeof text - 1, NULL, 0, NULL));
    assert_ok(model_open(&model, &graph, &(struct model_budget){.ram_bytes = FIXTURE_RAM_BYTES}));
    model_init(&model);
    assert_ok(model_arrays_list(&arrays, &model, true));
    assert_int_equal(arrays.count, 7); /* and weight and bias of y, each with its state */
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const struct model_array *array = arrays.items;
        while (array < arrays.items + arrays.count && strcmp(array->name, expected[i].name) != 0) array++;
        if (array == arrays.items + arrays.count) fail_msg("no array %s", expected[i].name);
        for (uint32_t k = 0; k < array->cols; k++) assert_true(array->data[k] == expected[i].first);
    }
    model_arrays_free(&arrays);
    model_close(&model);
    graph_close(&graph);
}

static void model_open__graph_whose_update_leaves_the_parameters__is_refused(void **state)
{
    (void)state;
    struct graph graph = fixture_graph;
    struct graph_header header = *fixture_graph.header;
    struct model model;
    graph.header = &header;
    header.state_floats--;
    assert_int_equal(model_open(&model, &graph, &(struct model_budget){.ram_bytes = FIXTURE_RAM_BYTES}), ST_INVALID);
    header.state_floats++;
    header.param_floats--;
    assert_int_equal(model_open(&model, &graph, &(struct model_budget){.ram_bytes = FIXTURE_RAM_BYTES}), ST_INVALID);
    model_close(&model);
}

static void model_close__everything__gives_memory_back(void **state)
{
    (void)state;
    struct model model;
    fixture_model(&model, 1, 10);
    model_close(&model);
    size_t before = memory_planned_bytes();
    fixture_model(&model, 1, 10);
    assert_true(memory_planned_bytes() > before);
    model_close(&model);
    assert_int_equal(memory_planned_bytes(), before);
    model_close(&model); /* closed is closed */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(model_open__twice__same_values),
        cmocka_unit_test(model_open__another_seed__other_weights),
        cmocka_unit_test(model_open__no_tables_and_a_disk__opens_without),
        cmocka_unit_test(model_open__parameters__are_the_documented_draws_golden),
        cmocka_unit_test(model_row_init__any_key__vector_state_and_zero_counter),
        cmocka_unit_test(model_open__optimizer_with_a_first_state__has_it),
        cmocka_unit_test(model_open__data_norm__starts_at_ten_thousand_examples),
        cmocka_unit_test(model_open__batch_norm__starts_at_ones_and_zeros),
        cmocka_unit_test(model_open__graph_whose_update_leaves_the_parameters__is_refused),
        cmocka_unit_test(model_close__everything__gives_memory_back),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close) ? 1 : 0;
}

/* Where the tensors of a slot lie, what they are bound to, and what ops find of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "engine/slot/slot.h"
#include "tests/engine/fixture_files.h"

static const char text[] = "[data]\ndense = I1..I3\nsparse = C1..C2\n"
                           "[table emb]\ndim = 4\noptimizer = adagrad 0.05\n"
                           "[embedding e]\ntable = emb\ninput = C1..C2\n"
                           "[concat x]\ninput = e, dense\n"
                           "[fc h]\ninput = x\nunits = 5\nactivation = relu\n"
                           "[fc y]\ninput = h\nunits = 1\n"
                           "[loss bce]\ninput = y\nlabel = label\n"
                           "[train]\nbatch = 24\nmicro = 8\noptimizer = adam 0.01\n";

static struct graph graph;
static struct model model;

static int open_all(void **state)
{
    (void)state;
    if (graph_compile(&graph, "test.cfg", text, sizeof text - 1, NULL, 0, NULL) != ST_OK) return -1;
    return model_open(&model, &graph, &(struct model_budget){.ram_bytes = 1 << 20}) == ST_OK ? 0 : -1;
}

static int close_all(void **state)
{
    (void)state;
    model_close(&model);
    graph_close(&graph);
    return 0;
}

struct rig {
    struct arena arena;
    struct slot slot;
    struct input input;
};

static void rig_layout(struct rig *r, struct layout *l, bool training)
{
    const uint32_t spans[] = {graph.tables[0].span_floats};
    slot_layout(l, &r->slot, &graph, training);
    input_layout(l, &r->input, &graph, spans, true);
}

static void rig_open(struct rig *r, bool training)
{
    struct layout sum = {0}, taken = {.arena = &r->arena};
    memset(r, 0, sizeof *r);
    rig_layout(r, &sum, training);
    assert_ok(arena_open(&r->arena, "test", sum.bytes));
    rig_layout(r, &taken, training);
    r->slot.index = 3;
    r->input.index = 2;
}

/* Every float of a batch's examples is there for each activation, and no two that are written in the forward
 * pass before either is read begin at the same place. */
static void slot_layout__activations_lie_where_the_graph_says(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, true);
    const float *first = NULL;
    uint32_t count = 0;
    for (uint32_t t = 0; t < graph.tensor_count; t++) {
        const struct graph_tensor *tensor = &graph.tensors[t];
        const struct view *view = &r.slot.tensor[t];
        assert_int_equal(view->rows, tensor->rows);
        assert_int_equal(view->cols, tensor->cols);
        assert_int_equal(view->stride, tensor->stride);
        if (tensor->kind != TENSOR_ACTIVATION) {
            assert_null(view->data);
            continue;
        }
        if (first == NULL) first = view->data - tensor->offset / sizeof(float);
        assert_ptr_equal(view->data, first + tensor->offset / sizeof(float));
        count++;
    }
    assert_true(count >= 8); /* of four layers, and their gradients */
    /* The last byte is the arena's. */
    memset((void *)(uintptr_t)first, 0x5A, graph.header->slot_bytes);
    arena_close(&r.arena);
}

static void slot_layout__of_an_evaluation__has_no_gradients(void **state)
{
    (void)state;
    struct rig r;
    uint32_t without = 0, with = 0;
    assert_true(graph.header->slot_eval_bytes < graph.header->slot_bytes);
    rig_open(&r, false);
    for (uint32_t t = 0; t < graph.tensor_count; t++) {
        const struct graph_tensor *tensor = &graph.tensors[t];
        if (tensor->kind != TENSOR_ACTIVATION) continue;
        const bool is_there = tensor->offset < graph.header->slot_eval_bytes;
        assert_int_equal(r.slot.tensor[t].data != NULL, is_there);
        with += is_there;
        without += !is_there;
    }
    assert_true(with >= 4 && without > 0);
    arena_close(&r.arena);
}

static void slot_bind__tensors_are_the_inputs_and_the_models(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, true);
    r.input.batch.example_count = 6;
    slot_bind(&r.slot, &r.input, &graph, &model);
    assert_ptr_equal(r.slot.input, &r.input);
    uint32_t columns = 0, params = 0;
    for (uint32_t t = 0; t < graph.tensor_count; t++) {
        const struct graph_tensor *tensor = &graph.tensors[t];
        const struct view *view = &r.slot.tensor[t];
        assert_int_equal(view->rows, tensor->rows ? tensor->rows : 6);
        if (tensor->kind == TENSOR_DENSE) assert_ptr_equal(view->data, r.input.batch.dense);
        if (tensor->kind == TENSOR_LABEL) assert_ptr_equal(view->data, r.input.batch.label);
        if (tensor->kind == TENSOR_PARAM) assert_ptr_equal(view->data, model.param + tensor->offset);
        columns += tensor->kind == TENSOR_DENSE || tensor->kind == TENSOR_LABEL;
        params += tensor->kind == TENSOR_PARAM;
    }
    assert_int_equal(columns, 2);
    assert_int_equal(params, 4);
    arena_close(&r.arena);
}

static void slot_context__examples_begin_behind_those_of_micro_batches_before(void **state)
{
    (void)state;
    struct rig r;
    float *grad[] = {NULL};
    rig_open(&r, true);
    r.input.batch.micro_index = 2;
    slot_bind(&r.slot, &r.input, &graph, &model);
    const struct op_context c = slot_context(&r.slot, &graph, grad, true);
    assert_int_equal(c.example_begin, 16);
    assert_int_equal(c.slot, 3);
    assert_int_equal(c.input, 2);
    assert_int_equal(c.seed, graph.header->seed);
    assert_true(c.training);
    assert_ptr_equal(c.tensor, r.slot.tensor);
    assert_ptr_equal(c.batch, &r.input.batch);
    assert_ptr_equal(c.ticket, &r.input.ticket);
    assert_ptr_equal(c.table_grad, grad);
    assert_false(slot_context(&r.slot, &graph, NULL, false).training);
    arena_close(&r.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slot_layout__activations_lie_where_the_graph_says),
        cmocka_unit_test(slot_layout__of_an_evaluation__has_no_gradients),
        cmocka_unit_test(slot_bind__tensors_are_the_inputs_and_the_models),
        cmocka_unit_test(slot_context__examples_begin_behind_those_of_micro_batches_before),
    };
    return cmocka_run_group_tests(tests, open_all, close_all) ? 1 : 0;
}

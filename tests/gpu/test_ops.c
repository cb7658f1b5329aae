/* Every op that a card runs, emulated, against the reference (card_rig.h); that a barrier which is missing is
 * found; products by a library. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gpu/emu.h"
#include "gpu/emu/gpu_emu.h"
#include "tests/gpu/card_rig.h"

static uint32_t capability = 90, core_count = 1;
static struct gpu *emulated;
static status rig_gpu_open(uint64_t seed, struct gpu **gpu)
{
    TRY(gpu_emu_open(gpu, 0, seed));
    (*gpu)->capability = capability;
    (*gpu)->core_count = core_count;
    emulated = *gpu;
    return ST_OK;
}
static void rig_gpu_close(struct gpu *gpu) { gpu_close(gpu); }

/* --- a stand-in for cuBLASLt ------------------------------------------------------------------- */

static uint32_t blas_taken;
static bool blas_refuses;
static float blas_number(const struct gpu_blas_product *p, const void *memory, size_t i)
{
    if (p->is_tf32) return ((const float *)memory)[i];
    const uint32_t bits = (uint32_t)((const uint16_t *)memory)[i] << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
/* The emulated card's memory is the host's. */
static status blas_multiply(struct gpu_blas *blas, struct gpu_stream *stream, const struct gpu_blas_product *p,
                            bool *is_taken)
{
    struct gpu_event *event;
    (void)blas;
    *is_taken = !blas_refuses;
    if (blas_refuses) return ST_OK;
    blas_taken++;
    ok(gpu_event_open(emulated, &event));
    ok(gpu_record(emulated, stream, event));
    ok(gpu_wait(emulated, event));
    gpu_event_close(emulated, event);
    memset(p->workspace, 0xff, p->workspace_bytes);
    for (uint32_t m = 0; m < p->rows; m++)
        for (uint32_t i = 0; i < p->cols; i++) {
            float *to = &p->result[(size_t)m * p->result_stride + i];
            double sum = p->adds ? (double)*to : 0;
            for (uint32_t t = 0; t < p->terms; t++)
                sum += (double)(blas_number(p, p->left,
                                            p->left_is_transposed ? (size_t)t * p->left_stride + m
                                                                  : (size_t)m * p->left_stride + t) *
                                blas_number(p, p->right,
                                            p->right_is_transposed ? (size_t)i * p->right_stride + t
                                                                   : (size_t)t * p->right_stride + i));
            sum += p->bias ? (double)p->bias[i] : 0;
            *to = (float)(p->is_relu && sum < 0 ? 0 : sum);
        }
    return ST_OK;
}
static void blas_close(struct gpu_blas *blas) { (void)blas; }
static const struct gpu_blas_vt blas_vt = {blas_multiply, blas_close};
static struct gpu_blas blas_stand_in = {&blas_vt};

static void gpu_op__text__equals_reference(void **state)
{
    ok(text_run(*state, EXAMPLES, 1));
    ok(text_run(*state, EXAMPLES - 5, 2));
}

/* Trees, of several seeds: forests, and graphs; all examples in one group, in two, a group each; without
 * nodes, and keys that are no trees. */
static void gpu_op__trees__equals_reference(void **state)
{
    for (core_count = 1; core_count <= EXAMPLES; core_count += core_count == 2 ? EXAMPLES - 2 : 1)
        ok(text_run(*state, EXAMPLES, core_count));
    core_count = EXAMPLES;
    ok(text_run(*state, 1, 4));
    ok(text_run(*state, EXAMPLES - 1, 5));
    rig_trees = TREES_EMPTY;
    ok(text_run(*state, EXAMPLES, 6));
    rig_trees = TREES_STRANGE;
    ok(text_run(*state, EXAMPLES, 7));
    rig_trees = TREES_WHOLE;
    core_count = 1;
}

static void gpu_op__wide__equals_reference(void **state)
{
    (void)state;
    core_count = 2;
    ok(wide_trees_run(1));
    core_count = 1;
    edges_run(8); /* not wide, but outside what gradients are tried on, too */
    ok(text_run(&wide, 200, 3));
    ok(text_run(&wide, 70, 4));
    ok(text_run(&wide_bf16, 70, 5));
    capability = 80;
    ok(text_run(&wide_bf16, 70, 5));
    capability = 90;
}
static void gpu_op__wide_experts_and_candidates__equal_reference(void **state)
{
    const double before = error_worst;
    (void)state;
    error_worst = 0;
    wide_heads_run(20);
    printf("# worst error of sums of 2,945 terms %.1e, tolerance %.1e\n", error_worst, 8 * TOLERANCE);
    error_worst = before;
}
/* Where both scores are 0 the loss is too, and only just: no gradient. Differences around such a point
 * are none, so op_texts has it not. */
static void gpu_op__hinge_at_its_edge__equals_reference(void **state)
{
    (void)state;
    static const struct op_text edge = {"hinge_at_its_edge",
                                        "[data]\ndense = I1..I3\n[train]\nbatch = 40\noptimizer = sgd 0.1\n"
                                        "[fc h]\ninput = dense\nunits = 1\nactivation = relu\n"
                                        "[fc i]\ninput = dense\nunits = 1\nactivation = relu\n"
                                        "[loss l]\nkind = hinge\nmargin = 0\ninput = h, i\n"};
    ok(text_run(&edge, 40, 1));
}
/* Cards whose matrix units know neither multiply rounded float32 for bfloat16, and float32 for TF32. */
static void gpu_op__rounded_on_an_old_card__equals_reference(void **state)
{
    (void)state;
    capability = 75;
    ok(text_run(&wide_bf16, 20, 6));
    ok(text_run(&wide_tf32, 20, 7));
    capability = 90;
}
/* Within the rounding, but not nearer than that: it does round. */
static void gpu_op__tf32__is_near_the_reference(void **state)
{
    const double before = error_worst;
    (void)state;
    tolerance = TF32_TOLERANCE;
    error_worst = 0;
    ok(text_run(&wide_tf32, 70, 5));
    printf("# worst error of TF32 %.1e, tolerance %.1e\n", error_worst, TF32_TOLERANCE);
    assert_true(error_worst > 10 * TOLERANCE);
    error_worst = before;
    tolerance = TOLERANCE;
}

/* Without any one barrier some text must fail; those of rounded products test_products.c leaves out. Runs
 * last: what ran before has reached them all. */
static void gpu_op__barrier_dropped__is_found(void **state)
{
    (void)state;
    const struct emu_site *sites[64];
    const uint32_t count = emu_sites(sites, 64);
    assert_true(count > 0 && count <= 64);
    for (uint32_t i = 0; i < count; i++) {
        if (strstr(sites[i]->file, "gpu/product_") != NULL) continue;
        emu_drop(sites[i]);
        status st = ST_OK;
        const bool is_of_trees = strstr(sites[i]->file, "gpu/cells") != NULL;
        for (size_t t = 0; is_of_trees && t < TREE_TEXT_COUNT && st == ST_OK; t++)
            st = text_run(&tree_texts[t], EXAMPLES, 1 + i);
        if (st == ST_OK && is_of_trees) st = wide_trees_run(1 + i);
        for (size_t t = 0; !is_of_trees && t < OP_TEXT_COUNT && st == ST_OK; t++)
            st = text_run(&op_texts[t], EXAMPLES, 1 + i);
        if (st == ST_OK && !is_of_trees) st = text_run(&wide, 133, 1 + i);
        if (st == ST_OK && !is_of_trees) st = text_run(&wide_bf16, 133, 1 + i);
        capability = 80;
        if (st == ST_OK && !is_of_trees) st = text_run(&wide_bf16, 7, 1 + i);
        capability = 90;
        emu_drop(NULL);
        if (st != ST_INVALID) fail_msg("%s:%d: %s is not missed", sites[i]->file, sites[i]->line, sites[i]->called);
    }
    printf("# %u barriers, each missed where it is left out\n", count);
}

/* Every op that the table has was run by some text. */
static void gpu_op__table__is_covered(void **state)
{
    (void)state;
    bool is_seen[OP_ID_COUNT] = {false};
    for (size_t t = 0; t < OP_TEXT_COUNT; t++) {
        struct graph g;
        ok(graph_compile(&g, "test.cfg", op_texts[t].text, strlen(op_texts[t].text), NULL, 0, NULL));
        for (uint32_t i = 0; i < g.forward_count; i++) is_seen[g.nodes[i].op] = true;
        graph_close(&g);
    }
    for (size_t t = 0; t < TREE_TEXT_COUNT; t++) {
        struct graph g;
        ok(graph_compile(&g, "test.cfg", tree_texts[t].text, strlen(tree_texts[t].text), NULL, 0, NULL));
        for (uint32_t i = 0; i < g.forward_count; i++) is_seen[g.nodes[i].op] = true;
        graph_close(&g);
    }
    for (uint32_t op = 0; op < OP_ID_COUNT; op++)
        if (gpu_op_table[op].forward != NULL && !is_seen[op]) fail_msg("no text has %s", op_table[op].name);
}

/* Both products of each fc but the last, and the gradient of the widest weights. */
#define CHAIN_PRODUCTS 11u
static void gpu_op__rounded_by_a_library__equals_reference(void **state)
{
    const double before = error_worst;
    (void)state;
    capability = 80; /* 9.0 has kernels that need no library */
    rig_blas = &blas_stand_in;
    tolerance = 4 * TOLERANCE; /* the reference's own sums, of 520 terms */
    ok(text_run(&chain_bf16, 66, 7));
    assert_int_equal(blas_taken, CHAIN_PRODUCTS);
    blas_refuses = true;
    ok(text_run(&chain_bf16, 66, 8));
    assert_int_equal(blas_taken, CHAIN_PRODUCTS);
    blas_refuses = false;
    tolerance = TF32_TOLERANCE;
    ok(text_run(&chain_tf32, 66, 9));
    assert_int_equal(blas_taken, 2 * CHAIN_PRODUCTS);
    capability = 90;
    ok(text_run(&chain_tf32, 66, 9));
    assert_int_equal(blas_taken, 2 * CHAIN_PRODUCTS);
    rig_blas = NULL;
    tolerance = TOLERANCE;
    error_worst = before;
}

static void gpu_op_runs__too_many_inputs__says_so(void **state)
{
    (void)state;
    struct graph g;
    ok(graph_compile(&g, "test.cfg", wide.text, strlen(wide.text), NULL, 0, NULL));
    for (uint32_t i = 0; i < g.forward_count; i++) ok(gpu_op_runs(&g, &g.nodes[i]));
    struct graph_node node = g.nodes[0];
    node.op = OP_ID_interact;
    node.input_count = 65;
    assert_int_equal(gpu_op_runs(&g, &node), ST_INVALID);
    assert_non_null(strstr(status_message(), "at most 64 inputs"));
    graph_close(&g);
}

#define TEXTS (OP_TEXT_COUNT + TREE_TEXT_COUNT)
int main(void)
{
    static char names[TEXTS][96];
    struct CMUnitTest tests[TEXTS + 9];
    memset(tests, 0, sizeof tests);
    for (size_t i = 0; i < TEXTS; i++) {
        const bool is_tree = i >= OP_TEXT_COUNT;
        const struct op_text *text = is_tree ? &tree_texts[i - OP_TEXT_COUNT] : &op_texts[i];
        snprintf(names[i], sizeof names[i], "gpu_op__%s__equals_reference", text->name);
        tests[i] =
            (struct CMUnitTest){names[i], is_tree ? gpu_op__trees__equals_reference : gpu_op__text__equals_reference,
                                NULL, NULL, (void *)(uintptr_t)text};
    }
    tests[TEXTS] = (struct CMUnitTest)cmocka_unit_test(gpu_op__wide__equals_reference);
    tests[TEXTS + 1] = (struct CMUnitTest)cmocka_unit_test(gpu_op__table__is_covered);
    tests[TEXTS + 2] = (struct CMUnitTest)cmocka_unit_test(gpu_op_runs__too_many_inputs__says_so);
    tests[TEXTS + 3] = (struct CMUnitTest)cmocka_unit_test(gpu_op__rounded_on_an_old_card__equals_reference);
    tests[TEXTS + 4] = (struct CMUnitTest)cmocka_unit_test(gpu_op__rounded_by_a_library__equals_reference);
    tests[TEXTS + 5] = (struct CMUnitTest)cmocka_unit_test(gpu_op__tf32__is_near_the_reference);
    tests[TEXTS + 6] = (struct CMUnitTest)cmocka_unit_test(gpu_op__hinge_at_its_edge__equals_reference);
    tests[TEXTS + 7] = (struct CMUnitTest)cmocka_unit_test(gpu_op__wide_experts_and_candidates__equal_reference);
    tests[TEXTS + 8] = (struct CMUnitTest)cmocka_unit_test(gpu_op__barrier_dropped__is_found);
    const int result = cmocka_run_group_tests(tests, NULL, NULL);
    printf("# worst error %.1e, tolerance %.1e\n", error_worst, TOLERANCE);
    return result;
}

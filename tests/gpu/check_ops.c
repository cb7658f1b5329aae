/* Usage: check_ops [CARD] Every op and every update on a real card against the reference and the CPU
 * (card_rig.h, update_rig.h, product_rig.h): for machines with one, where tests/gpu.sh runs it; test_ops.c
 * and test_updates.c do the same on emulated cards. Takes whatever driver is found, and needs nothing else.
 * Prints a line a check. Exit status 1 if one fails, 77 if there is no card. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static jmp_buf next_check;
static unsigned check_count, fail_count;
static const char *check_name;
#define fail_msg(...)                                                                                                  \
    do {                                                                                                               \
        printf("not ok %u - %s\n# ", ++check_count, check_name);                                                       \
        printf(__VA_ARGS__);                                                                                           \
        putchar('\n');                                                                                                 \
        fail_count++;                                                                                                  \
        longjmp(next_check, 1);                                                                                        \
    } while (0)

#include "gpu/product.h"
#include "tests/gpu/card_rig.h"
#include "tests/gpu/product_rig.h"
#include "tests/gpu/update_rig.h"

/* One card for all checks. */
static struct gpu *card_gpu;
static status rig_gpu_open(uint64_t seed, struct gpu **gpu)
{
    (void)seed;
    *gpu = card_gpu;
    return ST_OK;
}
static void rig_gpu_close(struct gpu *gpu) { (void)gpu; }

#define CHECK_THAT(name, ...)                                                                                          \
    do {                                                                                                               \
        check_name = name;                                                                                             \
        if (setjmp(next_check) == 0) {                                                                                 \
            __VA_ARGS__;                                                                                               \
            printf("ok %u - %s\n", ++check_count, check_name);                                                         \
        }                                                                                                              \
        fflush(stdout);                                                                                                \
    } while (0)

static void text_check(const struct op_text *text)
{
    CHECK_THAT(text->name, ok(text_run(text, EXAMPLES, 1)); ok(text_run(text, 1, 2)));
}

int main(int argc, char **argv)
{
    const uint32_t index = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    struct gpu_facts facts;
    struct gpu_blas *blas = NULL;
    const char *why;
    if (gpu_count(&why) == 0) {
        printf("1..0 # SKIP %s\n", why);
        return 77;
    }
    if (gpu_describe(index, &facts) != ST_OK || gpu_open(index, &card_gpu) != ST_OK ||
        gpu_blas_open(card_gpu, &blas, &why) != ST_OK) {
        printf("not ok 1 - the card opens\n# %s\n", status_message());
        return 1;
    }
    printf("# card %u: %s; cuBLASLt: %s\n", index, facts.name, blas ? gpu_blas_library(&why) : why);
    for (size_t i = 0; i < OP_TEXT_COUNT; i++) text_check(&op_texts[i]);
    const uint32_t core_count = card_gpu->core_count;
    for (size_t i = 0; i < TREE_TEXT_COUNT; i++) text_check(&tree_texts[i]);
    CHECK_THAT("wide_trees", ok(wide_trees_run(1)));
    card_gpu->core_count = 2; /* two groups of examples, not one each */
    for (size_t i = 0; i < TREE_TEXT_COUNT; i++) text_check(&tree_texts[i]);
    CHECK_THAT("wide_trees", ok(wide_trees_run(2)));
    card_gpu->core_count = core_count;
    CHECK_THAT("wide", ok(text_run(&wide, 200, 3)));
    CHECK_THAT("edges", edges_run(8));
    CHECK_THAT("wide experts and candidates", wide_heads_run(9));
    const double f32_worst = error_worst;
    error_worst = 0;
    const bool is_for_library = card_gpu->capability != PRODUCT_PACKED_CAPABILITY;
    tolerance = BF16_TOLERANCE;
    CHECK_THAT("wide_bf16", ok(text_run(&wide_bf16, 200, 4)));
    CHECK_THAT("wide_bf16, few examples", ok(text_run(&wide_bf16, 7, 5)));
    CHECK_THAT("chain_bf16", ok(text_run(&chain_bf16, 66, 6)));
    rig_blas = blas;
    if (blas != NULL && is_for_library) CHECK_THAT("chain_bf16, by cuBLASLt", ok(text_run(&chain_bf16, 66, 7)));
    rig_blas = NULL;
    const double bf16_worst = error_worst;
    error_worst = 0;
    tolerance = TF32_TOLERANCE;
    CHECK_THAT("wide_tf32", ok(text_run(&wide_tf32, 200, 8)));
    CHECK_THAT("wide_tf32, few examples", ok(text_run(&wide_tf32, 7, 9)));
    CHECK_THAT("chain_tf32", ok(text_run(&chain_tf32, 66, 10)));
    rig_blas = blas;
    if (blas != NULL && is_for_library) CHECK_THAT("chain_tf32, by cuBLASLt", ok(text_run(&chain_tf32, 66, 11)));
    CHECK_THAT("float32 products", product_check_all(PRECISION_F32));
    if (card_gpu->capability >= PRODUCT_MMA_CAPABILITY) {
        CHECK_THAT("bfloat16 products", product_check_all(PRECISION_BF16));
        CHECK_THAT("TF32 products", product_check_all(PRECISION_TF32));
    }
    CHECK_THAT("updates of rows", update_rows_check_all());
    CHECK_THAT("updates of parameters", update_params_check_all());
    CHECK_THAT("sums of parameters", sum_params_check_all());
    printf("1..%u\n# worst errors (tolerances): float32 %.1e (%.1e), bfloat16 %.1e (%.1e), TF32 %.1e (%.1e)\n",
           check_count, f32_worst, TOLERANCE, bf16_worst, BF16_TOLERANCE, error_worst, TF32_TOLERANCE);
    gpu_blas_close(blas);
    if (fail_count == 0) gpu_close(card_gpu);
    return fail_count > 0;
}

/* Which kernel and which grid a product gets, by its shape and the card: the largest tile that gives enough
 * blocks work, and of packed factors the fastest tile and number of parts by the times of an H100. The card
 * of these tests only notes its launches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "cfg/settings.h"
#include "gpu/ops.h"
#include "gpu/product.h"

static struct {
    enum gpu_kernel kernel;
    struct gpu_dim grid;
    struct product_args args;
    uint32_t products;
} seen;
/* Launches of other kernels add parts. */
static status launch_see(struct gpu *gpu, struct gpu_stream *stream, enum gpu_kernel kernel, struct gpu_dim grid,
                         struct gpu_dim block, const void *args, uint32_t args_bytes)
{
    (void)gpu, (void)stream, (void)block;
    if (kernel == GPU_KERNEL_parts_add) return ST_OK;
    seen.kernel = kernel;
    seen.grid = grid;
    assert_int_equal(args_bytes, sizeof seen.args);
    memcpy(&seen.args, args, sizeof seen.args);
    seen.products++;
    return ST_OK;
}
static const struct gpu_vt card_vt = {.name = "none", .launch = launch_see};

enum pass { FORWARD, DWEIGHT };
static const struct choice {
    uint32_t capability, precision;
    enum pass pass;
    uint32_t rows, cols, terms;
    /* expected */
    const char *kernel;
    uint32_t blocks, parts; /* blocks: of one part, but for packed factors of all */
} choices[] = {
#define OF(capability, precision, pass) capability, PRECISION_##precision, pass
    /* 96 blocks are enough, 95 are not; a tile wants more columns than the next one has. */
    {OF(80, F32, FORWARD), 96 * 128, 128, 8, "f32_forward_128x128", 96, 1},
    {OF(80, F32, FORWARD), 95 * 128, 128, 8, "f32_forward_64x64", 380, 1},
    {OF(80, F32, FORWARD), 96 * 128, 65, 8, "f32_forward_128x128", 96, 1},
    {OF(80, F32, FORWARD), 96 * 128, 64, 8, "f32_forward_64x64", 192, 1},
    {OF(80, F32, FORWARD), 96 * 64, 17, 8, "f32_forward_64x64", 96, 1},
    {OF(80, F32, FORWARD), 96 * 64, 16, 8, "f32_forward_64x16", 96, 1},
    {OF(80, F32, FORWARD), 1, 1000, 8, "f32_forward_64x16", 63, 1},
    {OF(80, BF16, FORWARD), 48 * 256, 256, 8, "bf16_forward_256x128", 96, 1},
    {OF(80, BF16, FORWARD), 47 * 256, 256, 8, "bf16_forward_128x128", 188, 1},
    {OF(80, TF32, FORWARD), 48 * 256, 129, 8, "tf32_forward_256x128", 96, 1},
    {OF(80, TF32, FORWARD), 96 * 128, 128, 8, "tf32_forward_128x128", 96, 1},
    {OF(75, TF32, FORWARD), 96 * 128, 128, 8, "f32_forward_128x128", 96, 1},
    {OF(90, F32, FORWARD), 96 * 128, 128, 8, "f32_forward_128x128", 96, 1},
    /* Blocks of parts of 256 terms or more count, too; 264 blocks in all are wanted. */
    {OF(80, F32, DWEIGHT), 512, 512, 6 * 256, "f32_dweight_128x128", 16, 6},
    {OF(80, F32, DWEIGHT), 512, 512, 5 * 256, "f32_dweight_64x64", 64, 5},
    {OF(80, F32, DWEIGHT), 512, 512, 256, "f32_dweight_64x16", 256, 1},
    {OF(80, F32, DWEIGHT), 1024, 1024, 4096, "f32_dweight_128x128", 64, 5},
    /* Packed factors, on 132 multiprocessors. */
    {OF(90, BF16, FORWARD), 4096, 4096, 4096, "bf16_packed_128x256", 132, 1},
    {OF(90, TF32, FORWARD), 8192, 1024, 1024, "tf32_packed_128x256", 132, 1},
    {OF(90, BF16, FORWARD), 2048, 640, 4096, "bf16_packed_128x128", 80, 1},
    {OF(90, TF32, FORWARD), 2048, 640, 4096, "tf32_packed_128x128", 80, 1},
    {OF(90, BF16, FORWARD), 16384, 128, 256, "bf16_packed_128x64", 256, 1},
    {OF(90, TF32, FORWARD), 1024, 64, 512, "tf32_packed_128x64", 8, 1},
    {OF(90, BF16, DWEIGHT), 512, 256, 65536, "bf16_packed_128x128", 128, 16},
    {OF(90, BF16, DWEIGHT), 1024, 1024, 8192, "bf16_packed_128x64", 128, 1},
    {OF(90, TF32, DWEIGHT), 1024, 1024, 8192, "tf32_packed_128x256", 128, 4},
    {OF(90, BF16, DWEIGHT), 256, 128, 2048, "bf16_packed_128x64", 32, 8},
    {OF(90, BF16, DWEIGHT), 256, 128, 2000, "bf16_packed_128x64", 32, 8},
    {OF(90, BF16, FORWARD), 133 * 128, 128, 55 * 64, "bf16_packed_128x128", 133, 1}, /* as fast as 128x64: the larger */
};

static void product__any_shape__gets_its_tile(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        const struct choice *c = &choices[i];
        struct gpu gpu = {.vt = &card_vt, .capability = c->capability, .core_count = 132};
        const struct gpu_work w = {.gpu = &gpu};
        const struct gpu_blas_product p = {.rows = c->rows,
                                           .cols = c->cols,
                                           .terms = c->terms,
                                           .left_is_transposed = c->pass == DWEIGHT,
                                           .workspace_bytes = (size_t)16 * c->rows * c->cols * sizeof(float)};
        seen.products = 0;
        assert_int_equal(gpu_product(&w, &p, c->precision), ST_OK);
        assert_int_equal(seen.products, 1);
        const uint32_t parts = seen.grid.y > 1 ? seen.grid.y : seen.args.parts ? seen.args.parts : 1;
        if (strstr(c->kernel, "_packed_")) assert_int_equal(seen.args.part_terms % 64, 0);
        if (strcmp(gpu_kernel_names[seen.kernel], c->kernel) != 0 || seen.grid.x != c->blocks || parts != c->parts)
            fail_msg("case %zu, %u x %u, %u terms: %s, %u blocks, %u parts; expected %s, %u, %u", i, c->rows, c->cols,
                     c->terms, gpu_kernel_names[seen.kernel], seen.grid.x, parts, c->kernel, c->blocks, c->parts);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(product__any_shape__gets_its_tile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Launches of fc: how a gradient of weights is cut in parts, so that all of a card has work. */
#include "gpu/product.h"

#include "cfg/settings.h"
#include "gpu/ops.h"

static uint32_t tiles_of(uint32_t count) { return (count + PRODUCT_TILE - 1) / PRODUCT_TILE; }
static uint32_t rows_of(const struct gpu_work *w, uint32_t groups)
{
    const uint64_t tiles = ((uint64_t)w->micro * groups + PRODUCT_TILE - 1) / PRODUCT_TILE;
    return tiles < GPU_GRID_Y_MAX ? (uint32_t)tiles : GPU_GRID_Y_MAX;
}
static bool is_bf16(const struct fc_attr *attr) { return attr->precision == PRECISION_BF16; }

GPU_RUN(fc_forward)
{
    const struct fc_attr attr = GPU_ATTR(fc_attr, n);
    struct view weight = op_param(c, n, 0);
    const struct fc_forward_args args = {.now = w->now,
                                         .in = gpu_in_of(op_in(c, n, 0)),
                                         .weight = weight.data,
                                         .bias = attr.has_bias ? op_param(c, n, 1).data : NULL,
                                         .out = gpu_out_of(op_out(c, n)),
                                         .K = weight.rows,
                                         .N = weight.cols,
                                         .groups = attr.groups,
                                         .activation = attr.activation,
                                         .is_bf16 = is_bf16(&attr),
                                         .slope = attr.slope};
    return gpu_launch(w->gpu, w->stream, GPU_KERNEL_fc_forward,
                      (struct gpu_dim){tiles_of(args.N), rows_of(w, attr.groups), 1},
                      (struct gpu_dim){PRODUCT_THREADS, 1, 1}, &args, sizeof args);
}

/* Rows of a part: as many parts as give the card `PARTS_BLOCKS` blocks, none of fewer than 8 visits of its tile, as far as the scratch memory
 * goes; a function of the graph alone, and so the order of additions is. */
#define PARTS_BLOCKS 512u
static uint32_t part_rows_of(const struct gpu_work *w, uint32_t groups, uint32_t blocks, size_t part_floats)
{
    const uint32_t rows = w->micro * groups, least = 8 * PRODUCT_DEPTH;
    uint32_t parts = (PARTS_BLOCKS + blocks - 1) / blocks;
    if (parts > w->scratch_floats / part_floats) parts = (uint32_t)(w->scratch_floats / part_floats);
    CHECK(parts > 0); /* gpu_scratch_floats */
    uint32_t part_rows = (rows + parts - 1) / parts;
    if (part_rows < least) part_rows = least;
    return (part_rows + PRODUCT_DEPTH - 1) / PRODUCT_DEPTH * PRODUCT_DEPTH;
}
static uint32_t parts_of(const struct gpu_work *w, uint32_t groups, uint32_t part_rows)
{
    const uint32_t rows = w->micro * groups;
    return rows == 0 ? 1 : (rows + part_rows - 1) / part_rows;
}

static status parts_add(const struct gpu_work *w, float *to, uint32_t count, uint32_t part_count)
{
    const struct parts_add_args args = {w->now, w->scratch, to, count, part_count};
    const uint32_t block = 256, blocks = (count + block - 1) / block;
    return gpu_launch(w->gpu, w->stream, GPU_KERNEL_parts_add, (struct gpu_dim){blocks, 1, 1},
                      (struct gpu_dim){block, 1, 1}, &args, sizeof args);
}

static status dweight_run(const struct gpu_work *w, const struct fc_attr *attr, struct view in, const struct fc_dz *dz,
                          struct view dweight)
{
    const uint32_t K = dweight.rows, N = dweight.cols,
                   part_rows = part_rows_of(w, attr->groups, tiles_of(K) * tiles_of(N), (size_t)K * N),
                   parts = parts_of(w, attr->groups, part_rows);
    const struct fc_dweight_args args = {w->now, gpu_in_of(in), *dz,       w->scratch,   K,
                                         N,      attr->groups,  part_rows, is_bf16(attr)};
    TRY(gpu_launch(w->gpu, w->stream, GPU_KERNEL_fc_dweight, (struct gpu_dim){tiles_of(N), tiles_of(K), parts},
                   (struct gpu_dim){PRODUCT_THREADS, 1, 1}, &args, sizeof args));
    return parts_add(w, dweight.data, K * N, parts);
}

static status dbias_run(const struct gpu_work *w, const struct fc_attr *attr, const struct fc_dz *dz, struct view dbias)
{
    const uint32_t N = dbias.cols, blocks = (N + 31) / 32, part_rows = part_rows_of(w, attr->groups, blocks, N),
                   parts = parts_of(w, attr->groups, part_rows);
    const struct fc_dbias_args args = {w->now, *dz, w->scratch, N, attr->groups, part_rows};
    TRY(gpu_launch(w->gpu, w->stream, GPU_KERNEL_fc_dbias, (struct gpu_dim){blocks, 1, parts},
                   (struct gpu_dim){32, 8, 1}, &args, sizeof args));
    return parts_add(w, dbias.data, N, parts);
}

GPU_RUN(fc_backward)
{
    const struct fc_attr attr = GPU_ATTR(fc_attr, n);
    struct view in = op_in(c, n, 0), weight = op_param(c, n, 0), din = op_din(c, n, 0), dweight = op_dparam(c, n, 0),
                dbias = attr.has_bias ? op_dparam(c, n, 1) : (struct view){0};
    const struct fc_dz dz = {gpu_in_of(op_dout(c, n)), gpu_in_of(op_out(c, n)),
                             attr.dout_is_dz ? ACT_NONE : attr.activation, attr.slope};
    if (dbias.data != NULL) TRY(dbias_run(w, &attr, &dz, dbias));
    if (dweight.data != NULL) TRY(dweight_run(w, &attr, in, &dz, dweight));
    if (din.data == NULL) return ST_OK;
    const struct fc_din_args args = {.now = w->now,
                                     .dz = dz,
                                     .weight = weight.data,
                                     .in = gpu_in_of(in),
                                     .din = gpu_out_of(din),
                                     .K = weight.rows,
                                     .N = weight.cols,
                                     .groups = attr.groups,
                                     .input_activation = attr.input_activation,
                                     .adds = op_din_adds(c, n, 0),
                                     .is_bf16 = is_bf16(&attr),
                                     .input_slope = attr.input_slope};
    return gpu_launch(w->gpu, w->stream, GPU_KERNEL_fc_din,
                      (struct gpu_dim){tiles_of(args.K), rows_of(w, attr.groups), 1},
                      (struct gpu_dim){PRODUCT_THREADS, 1, 1}, &args, sizeof args);
}

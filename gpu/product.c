/* Launches of fc: chooses kernels, prepares factors in scratch memory, and sums gradients of
 * weights in parts, so that all of a card has work. All choices, and so the order of additions,
 * follow from the graph and the card alone. */
#include "gpu/product.h"

#include "cfg/settings.h"
#include "gpu/elementwise.h"
#include "gpu/ops.h"

static uint32_t divide_up(uint32_t a, uint32_t b) { return (a + b - 1) / b; }

/* --- which kernel ---------------------------------------------------------------------------------- */

enum pass { FORWARD = PASS_OF_FORWARD, DIN = PASS_OF_DIN, DWEIGHT = PASS_OF_DWEIGHT, PASSES };
struct tile {
    uint32_t rows, cols;
    enum gpu_kernel kernel[PASSES];
};
#define TILE(type, r, c)                                                                                               \
    {                                                                                                                  \
        r, c,                                                                                                          \
        {                                                                                                              \
            GPU_KERNEL_##type##_forward_##r##x##c, GPU_KERNEL_##type##_din_##r##x##c,                                  \
                GPU_KERNEL_##type##_dweight_##r##x##c                                                                  \
        }                                                                                                              \
    }
/* The largest first. */
static const struct tile f32_tiles[] = {TILE(f32, 128, 128), TILE(f32, 64, 64), TILE(f32, 64, 16)},
                         bf16_tiles[] = {TILE(bf16, 256, 128), TILE(bf16, 128, 128), TILE(bf16, 64, 64)},
                         tf32_tiles[] = {TILE(tf32, 256, 128), TILE(tf32, 128, 128), TILE(tf32, 64, 64)};
#define TILES 3
/* By kind of factors. */
static const struct tile *const tiles_of[FACTOR_KINDS] = {
    [FACTOR_F32] = f32_tiles, [FACTOR_F32_ROUNDED] = f32_tiles, [FACTOR_BF16] = bf16_tiles, [FACTOR_TF32] = tf32_tiles};

/* The largest tile that the columns fill and that gives TILES_LEAST blocks work; else the smallest. A card
 * has room for hundreds of blocks. */
#define TILES_LEAST 96u
static const struct tile *tile_choose(enum factor_kind kind, uint32_t rows, uint32_t cols, uint32_t parts_most)
{
    const struct tile *t = tiles_of[kind], *last = t + TILES - 1;
    while (t < last && (cols <= t[1].cols ||
                        (uint64_t)divide_up(rows, t->rows) * divide_up(cols, t->cols) * parts_most < TILES_LEAST))
        t++;
    return t;
}

/* Kernels of rows in runs, of the tiles of f32_tiles. */
static const enum gpu_kernel runs_kernels[TILES][2] = {{GPU_KERNEL_runs_forward_128x128, GPU_KERNEL_runs_din_128x128},
                                                       {GPU_KERNEL_runs_forward_64x64, GPU_KERNEL_runs_din_64x64},
                                                       {GPU_KERNEL_runs_forward_64x16, GPU_KERNEL_runs_din_64x16}};

/* Kernels of packed factors (gpu/product_packed.h). room: blocks at once on a multiprocessor.
 * Nanoseconds on an H100: step_ns for 128 bytes of a tile's terms, where every multiprocessor has tiles;
 * end_ns for a tile's beginning and end. From the times of heterps-run bench card --shape MxNxK, for
 * shapes with few and with many of either. */
static const struct packed_tile {
    uint32_t cols, room, step_ns, end_ns;
    enum gpu_kernel bf16, tf32;
} packed_tiles[] = {{256, 1, 630, 4000, GPU_KERNEL_bf16_packed_128x256, GPU_KERNEL_tf32_packed_128x256},
                    {128, 2, 400, 3000, GPU_KERNEL_bf16_packed_128x128, GPU_KERNEL_tf32_packed_128x128},
                    {64, 2, 280, 400, GPU_KERNEL_bf16_packed_128x64, GPU_KERNEL_tf32_packed_128x64}};
#define PARTS_ADD_NS        3000.0
#define PARTS_BYTES_EACH_NS 3000.0
struct packed_plan {
    const struct packed_tile *tile;
    uint32_t parts, part_terms, blocks; /* blocks: the grid's */
};
static double packed_ns(const struct packed_tile *tile, uint32_t tiles, uint32_t parts, uint32_t steps,
                        uint32_t core_count, double part_bytes)
{
    const uint32_t each = divide_up(tiles * parts, core_count);
    return (double)each * steps * tile->step_ns + (double)divide_up(each, tile->room) * tile->end_ns +
           (parts > 1 ? PARTS_ADD_NS + parts * part_bytes / PARTS_BYTES_EACH_NS : 0);
}
static struct packed_plan packed_choose(const struct gpu *gpu, enum factor_kind kind, uint32_t rows, uint32_t cols,
                                        uint32_t terms, uint32_t parts_most)
{
    const uint32_t stage = kind == FACTOR_BF16 ? 64 : 32;
    struct packed_plan best = {.tile = NULL};
    double least = 0;
    for (size_t i = 0; i < sizeof packed_tiles / sizeof *packed_tiles; i++)
        for (uint32_t wanted = 1; wanted <= parts_most; wanted++) {
            const struct packed_tile *tile = &packed_tiles[i];
            const uint32_t tiles = divide_up(rows, PACKED_ROWS) * divide_up(cols, tile->cols),
                           part_terms = divide_up(divide_up(terms, wanted), 64) * 64,
                           parts = divide_up(terms, part_terms), room = gpu->core_count * tile->room;
            const double ns =
                packed_ns(tile, tiles, parts, divide_up(part_terms, stage), gpu->core_count, 8.0 * rows * cols);
            if (best.tile != NULL && ns >= least) continue;
            least = ns;
            best = (struct packed_plan){tile, parts, part_terms, tiles * parts < room ? tiles * parts : room};
        }
    return best;
}

/* --- a node's products ------------------------------------------------------------------------------ */

/* Scratch memory that is not yet taken. */
struct scratch {
    float *at;
    size_t floats;
};
struct fc {
    const struct gpu_work *w;
    struct fc_attr attr;
    uint32_t M, K, N; /* M: rows of the largest micro-batch */
    enum factor_kind kind;
    bool is_packed; /* our kernels take packed factors */
    struct scratch scratch;
};

/* Floats for a prepared factor, packed or not, in multiples of 256 bytes: room for float32 even if it is
 * bfloat16, so that cards with and without bfloat16 have one plan. */
static size_t prepared_floats(uint32_t rows, uint32_t cols)
{
    return (size_t)(divide_up(rows, 64) * 64) * (divide_up(cols, 64) * 64);
}
bool gpu_fc_is_rounded(const struct graph_node *n) { return GPU_ATTR(fc_attr, n).precision != PRECISION_F32; }
size_t gpu_fc_scratch_floats(const struct graph *g, const struct graph_node *n)
{
    const struct fc_attr attr = GPU_ATTR(fc_attr, n);
    const struct graph_tensor *weight = &g->tensors[g->args[n->arg_begin + n->input_count]];
    const uint32_t M = g->header->micro * attr.groups, K = weight->rows, N = weight->cols;
    size_t floats = prepared_floats(M, N) + PREPARE_PARTS * (size_t)N;
    if (gpu_fc_is_rounded(n)) floats += prepared_floats(M, N) + prepared_floats(M, K) + prepared_floats(K, N);
    return floats;
}
static float *scratch_take(struct scratch *s, size_t floats)
{
    float *taken = s->at;
    CHECK(floats <= s->floats); /* gpu_fc_scratch_floats */
    s->at += floats;
    s->floats -= floats;
    return taken;
}

/* graph/op_fc.c says what a precision means on cards without matrix units for it. */
static enum factor_kind kind_of(const struct gpu *gpu, uint32_t precision)
{
    const bool has_units = gpu->capability >= PRODUCT_MMA_CAPABILITY;
    switch (precision) {
    case PRECISION_BF16: return has_units ? FACTOR_BF16 : FACTOR_F32_ROUNDED;
    case PRECISION_TF32: return has_units ? FACTOR_TF32 : FACTOR_F32;
    default: return FACTOR_F32;
    }
}

static bool is_packed(const struct gpu *gpu, enum factor_kind kind)
{
    return gpu->capability == PRODUCT_PACKED_CAPABILITY && (kind == FACTOR_BF16 || kind == FACTOR_TF32);
}

static struct fc fc_of(const struct gpu_work *w, const struct op_context *c, const struct graph_node *n)
{
    const struct view weight = op_param(c, n, 0);
    struct fc fc = {.w = w, .attr = GPU_ATTR(fc_attr, n), .scratch = {w->scratch, w->scratch_floats}};
    fc.M = w->micro * fc.attr.groups;
    fc.K = weight.rows;
    fc.N = weight.cols;
    fc.kind = kind_of(w->gpu, fc.attr.precision);
    fc.is_packed = is_packed(w->gpu, fc.kind);
    return fc;
}

static bool is_aligned(struct view v, uint32_t width, uint32_t groups)
{
    return (uintptr_t)v.data % 16 == 0 && v.stride % 4 == 0 && (groups == 1 || width % 4 == 0);
}
static struct product_factor factor_of(struct view v, uint32_t width, uint32_t groups)
{
    return (struct product_factor){v.data, v.stride, width, groups, is_aligned(v, width, groups)};
}
static struct product_result result_of(struct view v, uint32_t width, uint32_t groups)
{
    return (struct product_result){v.data, v.stride, width, groups, is_aligned(v, width, groups)};
}

static status parts_add(const struct gpu_work *w, const float *parts, float *to, uint32_t count, uint32_t part_count)
{
    const struct parts_add_args args = {w->now, parts, to, count, part_count};
    const uint32_t block = 256;
    return gpu_launch(w->gpu, w->stream, GPU_KERNEL_parts_add, (struct gpu_dim){divide_up(count, block), 1, 1},
                      (struct gpu_dim){block, 1, 1}, &args, sizeof args);
}

/* Prepares the factor *f of `rows` rows; is_copied: *f becomes a copy, of the node's kind. Adds the sums of
 * the columns to col_sums, unless NULL. out: f is multiplied by the slope at this output, unless NULL. */
static status prepare(struct fc *fc, struct product_factor *f, uint32_t rows, bool is_of_batch, bool is_copied,
                      const struct product_factor *out, float *col_sums)
{
    uint32_t width = 1;
    while (4 * width < f->width && width < 32) width *= 2;
    const uint32_t height = PRODUCT_THREADS / width, stride = divide_up(f->width, 8) * 8,
                   blocks = divide_up(stride, 4 * width),
                   parts_most = col_sums != NULL ? PREPARE_PARTS : divide_up(PREPARE_BLOCKS, blocks),
                   part_rows = divide_up(divide_up(rows, parts_most), height) * height,
                   parts = divide_up(rows, part_rows);
    struct factor_prepare_args args = {.now = fc->w->now,
                                       .from = *f,
                                       .rows = rows,
                                       .cols = f->width,
                                       .to_stride = stride,
                                       .part_rows = part_rows,
                                       .groups = is_of_batch ? fc->attr.groups : 0,
                                       .kind = fc->kind};
    if (out != NULL) {
        args.out = *out;
        args.activation = fc->attr.activation;
        args.slope = fc->attr.slope;
    }
    if (is_copied) args.to = scratch_take(&fc->scratch, prepared_floats(rows, f->width));
    struct scratch rest = fc->scratch;
    if (col_sums != NULL) args.sums = scratch_take(&rest, (size_t)parts * f->width);
    TRY(gpu_launch(fc->w->gpu, fc->w->stream, GPU_KERNEL_factor_prepare, (struct gpu_dim){blocks, parts, 1},
                   (struct gpu_dim){width, height, 1}, &args, sizeof args));
    if (is_copied) *f = (struct product_factor){args.to, stride, f->width, 1, true};
    return col_sums == NULL ? ST_OK : parts_add(fc->w, args.sums, col_sums, f->width, parts);
}
/* The same for a product with rounded factors. */
static status round_factor(struct fc *fc, struct product_factor *f, uint32_t rows, bool is_of_batch)
{
    return fc->kind == FACTOR_F32 ? ST_OK : prepare(fc, f, rows, is_of_batch, true, NULL, NULL);
}

/* Factors that one launch packs. */
struct packing {
    struct factor_pack_args args;
    uint32_t count, blocks;
};
/* Adds a factor of `rows` rows. *as_rows: packed with its rows as rows, its columns as terms;
 * *as_terms: the other way; NULL: not packed so. out as above. has_sums, for the first factor
 * only: room for sums of columns. */
static void pack_add(struct fc *fc, struct packing *packing, const struct product_factor *from, uint32_t rows,
                     bool is_of_batch, const struct product_factor *out, bool has_sums, struct product_factor *as_rows,
                     struct product_factor *as_terms)
{
    const uint32_t side = PACKED_BLOCK_ROWS, height = divide_up(rows, side), width = divide_up(from->width, side),
                   parts_most = has_sums ? PREPARE_PARTS : divide_up(PREPARE_BLOCKS, width);
    struct pack_factor *packed = &packing->args.factor[packing->count++];
    CHECK(packing->count <= PACK_FACTORS && (packing->count == 1 || !has_sums));
    *packed = (struct pack_factor){.from = *from,
                                   .rows = rows,
                                   .cols = from->width,
                                   .rows_stride = height * side,
                                   .terms_stride = width * side,
                                   .part_rows = divide_up(height, parts_most) * side,
                                   .groups = is_of_batch ? fc->attr.groups : 0};
    packed->blocks = divide_up(rows, packed->part_rows) * width;
    packing->blocks += packed->blocks;
    if (out != NULL) {
        packed->out = *out;
        packing->args.activation = fc->attr.activation;
        packing->args.slope = fc->attr.slope;
    }
    if (as_rows != NULL) {
        packed->rows_to = scratch_take(&fc->scratch, prepared_floats(rows, packed->cols));
        *as_rows = (struct product_factor){packed->rows_to, packed->rows_stride, packed->cols, 1, true};
    }
    if (as_terms != NULL) {
        packed->terms_to = scratch_take(&fc->scratch, prepared_floats(rows, packed->cols));
        *as_terms = (struct product_factor){packed->terms_to, packed->terms_stride, rows, 1, true};
    }
}
/* Packs. col_sums: gets the sums of the first factor's columns added, or NULL. */
static status pack_run(const struct fc *fc, struct packing *packing, float *col_sums)
{
    struct pack_factor *first = &packing->args.factor[0];
    const uint32_t parts = divide_up(first->rows, first->part_rows), side = PACKED_BLOCK_ROWS;
    struct scratch rest = fc->scratch;
    packing->args.now = fc->w->now;
    packing->args.kind = fc->kind;
    if (col_sums != NULL) first->sums = scratch_take(&rest, (size_t)parts * first->cols);
    TRY(gpu_launch(fc->w->gpu, fc->w->stream, GPU_KERNEL_factor_pack, (struct gpu_dim){packing->blocks, 1, 1},
                   (struct gpu_dim){side / 4, PRODUCT_THREADS / (side / 4), 1}, &packing->args, sizeof packing->args));
    return col_sums == NULL ? ST_OK : parts_add(fc->w, first->sums, col_sums, first->cols, parts);
}

/* Runs a product of packed factors; sets pass and parts of args. */
static status packed_run(const struct fc *fc, enum pass pass, const struct packed_plan *plan, struct product_args *args)
{
    const struct packed_tile *tile = plan->tile;
    args->pass = pass;
    args->parts = plan->parts;
    args->part_terms = plan->part_terms;
    return gpu_launch(fc->w->gpu, fc->w->stream, fc->kind == FACTOR_BF16 ? tile->bf16 : tile->tf32,
                      (struct gpu_dim){plan->blocks, 1, 1}, (struct gpu_dim){PACKED_THREADS(tile->cols), 1, 1}, args,
                      sizeof *args);
}

static status tile_run(const struct gpu_work *w, enum pass pass, const struct tile *t, uint32_t parts,
                       const struct product_args *args)
{
    const struct gpu_dim grid = {divide_up(args->rows, t->rows) * divide_up(args->cols, t->cols), parts, 1};
    return gpu_launch(w->gpu, w->stream, t->kernel[pass], grid, (struct gpu_dim){PRODUCT_THREADS, 1, 1}, args,
                      sizeof *args);
}
static status product_run(const struct fc *fc, enum pass pass, const struct tile *t, uint32_t parts,
                          const struct product_args *args)
{
    return tile_run(fc->w, pass, t, parts, args);
}

#define BLAS_SIDE_LEAST    64u
#define BLAS_DWEIGHT_LEAST (512u * 512)
#define BLAS_WORKSPACE     ((size_t)32 << 20)
/* Whether there is a library, and the product is worth it. */
static bool blas_wants(const struct fc *fc, enum pass pass, const struct product_args *args)
{
    const struct product_result *result = &args->result;
    if (fc->w->blas == NULL || !(fc->kind == FACTOR_BF16 || fc->kind == FACTOR_TF32) || args->rows < BLAS_SIDE_LEAST ||
        args->cols < BLAS_SIDE_LEAST || args->terms < BLAS_SIDE_LEAST ||
        (result->groups > 1 && result->stride != result->groups * result->width))
        return false;
    /* Where din is added to an old value, only our kernels can multiply the new part by the slope. Narrower
     * gradients of weights are summed in parts, for which the library fixes no order. */
    if (pass == DIN) return !(args->activation != ACT_NONE && args->adds);
    return pass == FORWARD || args->rows * args->cols >= BLAS_DWEIGHT_LEAST;
}
/* Gives the library the product, with all rows: prepared factors have zeros behind the rows of the
 * micro-batch. Of the work after the sums the library does bias and relu; the caller does the rest. */
static status blas_run(const struct fc *fc, enum pass pass, const struct product_args *args, bool *is_taken)
{
    const struct product_result *result = &args->result;
    const size_t bytes = fc->scratch.floats * sizeof(float);
    *is_taken = false;
    if (!blas_wants(fc, pass, args)) return ST_OK;
    const struct gpu_blas_product p = {.left = args->left.data,
                                       .right = args->right.data,
                                       .result = result->data,
                                       .bias = args->bias,
                                       .left_stride = args->left.stride,
                                       .right_stride = args->right.stride,
                                       .result_stride = result->groups > 1 ? result->width : result->stride,
                                       .rows = args->rows,
                                       .cols = args->cols,
                                       .terms = args->terms,
                                       .left_is_transposed = pass == DWEIGHT,
                                       .right_is_transposed = pass == DIN,
                                       .is_tf32 = fc->kind == FACTOR_TF32,
                                       .is_relu = pass == FORWARD && args->activation == ACT_RELU,
                                       .adds = args->adds,
                                       .workspace = fc->scratch.at,
                                       .workspace_bytes = bytes < BLAS_WORKSPACE ? bytes : BLAS_WORKSPACE};
    return fc->w->blas->vt->multiply(fc->w->blas, fc->w->stream, &p, is_taken);
}

/* --- the passes -------------------------------------------------------------------------------------- */

GPU_RUN(fc_forward)
{
    struct fc fc = fc_of(w, c, n);
    const struct view out = op_out(c, n);
    struct product_args args = {.now = w->now,
                                .left = factor_of(op_in(c, n, 0), fc.K, fc.attr.groups),
                                .right = factor_of(op_param(c, n, 0), fc.N, 1),
                                .result = result_of(out, fc.N, fc.attr.groups),
                                .bias = fc.attr.has_bias ? op_param(c, n, 1).data : NULL,
                                .rows = fc.M,
                                .cols = fc.N,
                                .terms = fc.K,
                                .groups = fc.attr.groups,
                                .activation = fc.attr.activation,
                                .slope = fc.attr.slope};
    if (fc.is_packed) {
        const struct packed_plan plan = packed_choose(w->gpu, fc.kind, fc.M, fc.N, fc.K, 1);
        struct packing packing = {.count = 0};
        pack_add(&fc, &packing, &args.left, fc.M, true, NULL, false, &args.left, NULL);
        pack_add(&fc, &packing, &args.right, fc.K, false, NULL, false, NULL, &args.right);
        TRY(pack_run(&fc, &packing, NULL));
        return packed_run(&fc, FORWARD, &plan, &args);
    }
    TRY(round_factor(&fc, &args.left, fc.M, true));
    TRY(round_factor(&fc, &args.right, fc.K, false));
    bool is_taken;
    TRY(blas_run(&fc, FORWARD, &args, &is_taken));
    if (is_taken && fc.attr.activation > ACT_RELU)
        return GPU_EACH(w, activation_forward, out.cols, .in = gpu_in_of(out), .out = gpu_out_of(out), .cols = out.cols,
                        .activation = fc.attr.activation, .slope = fc.attr.slope);
    if (is_taken) return ST_OK;
    return product_run(&fc, FORWARD, tile_choose(fc.kind, fc.M, fc.N, 1), 1, &args);
}

/* Computes din, which the slope multiplies last. */
static status din_run(struct fc *fc, struct product_args *args, struct view in, struct view din)
{
    const struct scratch before = fc->scratch;
    const bool has_slope = args->activation != ACT_NONE;
    bool is_taken;
    TRY(round_factor(fc, &args->right, fc->K, false));
    TRY(blas_run(fc, DIN, args, &is_taken));
    fc->scratch = before;
    if (!is_taken) return product_run(fc, DIN, tile_choose(fc->kind, fc->M, fc->K, 1), 1, args);
    if (!has_slope) return ST_OK;
    return GPU_EACH(fc->w, activation_backward, din.cols, .out = gpu_in_of(in), .dout = gpu_in_of(din),
                    .din = gpu_out_of(din), .cols = din.cols, .activation = args->activation, .slope = args->slope);
}
static status din_packed(const struct fc *fc, struct product_args *args)
{
    const struct packed_plan plan = packed_choose(fc->w->gpu, fc->kind, fc->M, fc->K, fc->N, 1);
    return packed_run(fc, DIN, &plan, args);
}

/* Most parts in which a gradient of weights can be summed; parts are then added in order. */
static uint32_t parts_most(const struct fc *fc)
{
    const size_t room = fc->scratch.floats / ((size_t)fc->K * fc->N);
    const uint32_t most = divide_up(fc->M, PART_ROWS);
    return room < most ? (uint32_t)room : most;
}
/* Parts, at most `most`, with which all of a card has work. */
static uint32_t parts_wanted(const struct tile *t, uint32_t rows, uint32_t cols, uint32_t most)
{
    const uint32_t parts = divide_up(PART_BLOCKS, divide_up(rows, t->rows) * divide_up(cols, t->cols));
    return parts < most ? parts : most;
}
/* Computes dweight by our kernels, in parts. */
static status dweight_own(struct fc *fc, struct product_args *args)
{
    const uint32_t count = fc->K * fc->N;
    const struct tile *t = tile_choose(fc->kind, fc->K, fc->N, divide_up(fc->M, PART_ROWS));
    float *dweight = args->result.data;
    uint32_t parts = parts_wanted(t, fc->K, fc->N, parts_most(fc));
    if (parts <= 1) {
        args->part_terms = fc->M;
        args->parts = 1;
        return product_run(fc, DWEIGHT, t, 1, args);
    }
    args->part_terms = divide_up(fc->M, parts);
    parts = divide_up(fc->M, args->part_terms);
    args->parts = parts;
    args->result.data = fc->scratch.at;
    args->adds = false;
    TRY(product_run(fc, DWEIGHT, t, parts, args));
    return parts_add(fc->w, args->result.data, dweight, count, parts);
}
static status dweight_packed(struct fc *fc, struct product_args *args)
{
    const uint32_t most = parts_most(fc);
    const struct packed_plan plan = packed_choose(fc->w->gpu, fc->kind, fc->K, fc->N, fc->M, most ? most : 1);
    float *dweight = args->result.data;
    if (plan.parts == 1) return packed_run(fc, DWEIGHT, &plan, args);
    args->result.data = fc->scratch.at;
    args->adds = false;
    TRY(packed_run(fc, DWEIGHT, &plan, args));
    return parts_add(fc->w, args->result.data, dweight, fc->K * fc->N, plan.parts);
}

static status dweight_run(struct fc *fc, struct product_args *args)
{
    bool is_taken;
    TRY(round_factor(fc, &args->left, fc->M, true));
    TRY(blas_run(fc, DWEIGHT, args, &is_taken));
    return is_taken ? ST_OK : dweight_own(fc, args);
}

/* The layer, and *pass, of the product p. */
static struct fc fc_of_product(const struct gpu_work *w, const struct gpu_blas_product *p, uint32_t precision,
                               enum pass *pass)
{
    *pass = p->left_is_transposed ? DWEIGHT : p->right_is_transposed ? DIN : FORWARD;
    struct fc fc = {.w = w,
                    .attr = {.groups = 1},
                    .kind = kind_of(w->gpu, precision),
                    .scratch = {p->workspace, p->workspace_bytes / sizeof(float)}};
    fc.is_packed = is_packed(w->gpu, fc.kind);
    fc.M = *pass == DWEIGHT ? p->terms : p->rows;
    fc.K = *pass == FORWARD ? p->terms : *pass == DIN ? p->cols : p->rows;
    fc.N = *pass == DIN ? p->terms : p->cols;
    return fc;
}
size_t gpu_factors_floats(uint32_t rows, uint32_t cols, uint32_t terms)
{
    return prepared_floats(rows, terms) + prepared_floats(terms, cols);
}
status gpu_factors_prepare(const struct gpu_work *w, const struct gpu_blas_product *p, uint32_t precision,
                           bool for_library, struct gpu_blas_product *ready)
{
    enum pass pass;
    struct fc fc = fc_of_product(w, p, precision, &pass);
    const bool right_is_batch = pass == DWEIGHT;
    const uint32_t right_rows = right_is_batch ? fc.M : fc.K;
    struct product_factor left = {p->left, p->left_stride, pass == DIN ? fc.N : fc.K, 1, p->left_stride % 4 == 0},
                          right = {p->right, p->right_stride, fc.N, 1, p->right_stride % 4 == 0};
    *ready = *p;
    if (fc.is_packed && !for_library) {
        struct packing packing = {.count = 0};
        pack_add(&fc, &packing, &left, fc.M, true, NULL, false, pass == DWEIGHT ? NULL : &left,
                 pass == DWEIGHT ? &left : NULL);
        pack_add(&fc, &packing, &right, right_rows, right_is_batch, NULL, false, pass == DIN ? &right : NULL,
                 pass == DIN ? NULL : &right);
        TRY(pack_run(&fc, &packing, NULL));
    } else {
        TRY(round_factor(&fc, &left, fc.M, true));
        TRY(round_factor(&fc, &right, right_rows, right_is_batch));
    }
    ready->left = left.data, ready->left_stride = left.stride;
    ready->right = right.data, ready->right_stride = right.stride;
    ready->workspace = fc.scratch.at, ready->workspace_bytes = fc.scratch.floats * sizeof(float);
    return ST_OK;
}
status gpu_product(const struct gpu_work *w, const struct gpu_blas_product *p, uint32_t precision)
{
    enum pass pass;
    struct fc fc = fc_of_product(w, p, precision, &pass);
    const uint32_t left_width = pass == DWEIGHT ? p->rows : p->terms, right_width = pass == DIN ? p->terms : p->cols,
                   step = fc.kind == FACTOR_BF16 ? 8 : 4;
    struct product_args args = {.now = w->now,
                                .left = {p->left, p->left_stride, left_width, 1, p->left_stride % step == 0},
                                .right = {p->right, p->right_stride, right_width, 1, p->right_stride % step == 0},
                                .result = {p->result, p->result_stride, p->cols, 1, p->result_stride % 4 == 0},
                                .bias = p->bias,
                                .rows = p->rows,
                                .cols = p->cols,
                                .terms = p->terms,
                                .groups = 1,
                                .activation = p->is_relu ? ACT_RELU : ACT_NONE,
                                .adds = p->adds};
    if (fc.is_packed && pass != DWEIGHT) {
        const struct packed_plan plan = packed_choose(w->gpu, fc.kind, p->rows, p->cols, p->terms, 1);
        return packed_run(&fc, pass, &plan, &args);
    }
    if (pass == DWEIGHT) return fc.is_packed ? dweight_packed(&fc, &args) : dweight_own(&fc, &args);
    return product_run(&fc, pass, tile_choose(fc.kind, p->rows, p->cols, 1), 1, &args);
}

/* din, dweight: complete but for dz; one may be NULL. out: dz is multiplied by the
 * slope at this output, unless NULL. */
static status backward_packed(struct fc *fc, const struct product_factor *dz, const struct product_factor *out,
                              float *dbias, struct product_args *din, struct product_args *dweight)
{
    struct packing packing = {.count = 0};
    pack_add(fc, &packing, dz, fc->M, true, out, dbias != NULL, din != NULL ? &din->left : NULL,
             dweight != NULL ? &dweight->right : NULL);
    if (din != NULL) pack_add(fc, &packing, &din->right, fc->K, false, NULL, false, &din->right, NULL);
    if (dweight != NULL) pack_add(fc, &packing, &dweight->left, fc->M, true, NULL, false, NULL, &dweight->left);
    TRY(pack_run(fc, &packing, dbias));
    if (din != NULL) TRY(din_packed(fc, din));
    return dweight != NULL ? dweight_packed(fc, dweight) : ST_OK;
}

GPU_RUN(fc_backward)
{
    struct fc fc = fc_of(w, c, n);
    struct view in_view = op_in(c, n, 0), din = op_din(c, n, 0), dweight = op_dparam(c, n, 0);
    float *dbias = fc.attr.has_bias ? op_dparam(c, n, 1).data : NULL;
    const struct product_factor in = factor_of(in_view, fc.K, fc.attr.groups),
                                out = factor_of(op_out(c, n), fc.N, fc.attr.groups);
    struct product_factor dz = factor_of(op_dout(c, n), fc.N, fc.attr.groups);
    struct product_args din_args = {.now = w->now,
                                    .right = factor_of(op_param(c, n, 0), fc.N, 1),
                                    .result = result_of(din, fc.K, fc.attr.groups),
                                    .output = in,
                                    .rows = fc.M,
                                    .cols = fc.K,
                                    .terms = fc.N,
                                    .groups = fc.attr.groups,
                                    .activation = fc.attr.input_activation,
                                    .adds = din.data != NULL && op_din_adds(c, n, 0),
                                    .slope = fc.attr.input_slope},
                        dweight_args = {.now = w->now,
                                        .left = in,
                                        .result = {dweight.data, fc.N, fc.N, 1, fc.N % 4 == 0},
                                        .rows = fc.K,
                                        .cols = fc.N,
                                        .terms = fc.M,
                                        .groups = fc.attr.groups,
                                        .adds = true};
    const bool has_slope = !fc.attr.dout_is_dz && fc.attr.activation != ACT_NONE,
               is_factor = dweight.data != NULL || din.data != NULL,
               is_copied = is_factor && (has_slope || fc.kind != FACTOR_F32);
    if (fc.is_packed && is_factor)
        return backward_packed(&fc, &dz, has_slope ? &out : NULL, dbias, din.data != NULL ? &din_args : NULL,
                               dweight.data != NULL ? &dweight_args : NULL);
    if (is_copied || dbias != NULL) TRY(prepare(&fc, &dz, fc.M, true, is_copied, has_slope ? &out : NULL, dbias));
    din_args.left = dweight_args.right = dz;
    if (din.data != NULL) TRY(din_run(&fc, &din_args, in_view, din));
    return dweight.data != NULL ? dweight_run(&fc, &dweight_args) : ST_OK;
}

/* --- for other ops ------------------------------------------------------------------------------------- */

struct gpu_parts gpu_f32_parts(uint32_t rows, uint32_t cols, uint32_t terms)
{
    const uint32_t most = divide_up(terms, PART_ROWS),
                   wanted = parts_wanted(tile_choose(FACTOR_F32, rows, cols, most), rows, cols, most),
                   part_terms = divide_up(terms, wanted ? wanted : 1);
    return (struct gpu_parts){part_terms ? divide_up(terms, part_terms) : 1, part_terms};
}
status gpu_f32_product(const struct gpu_work *w, const struct product_args *args)
{
    if (args->rows == 0 || args->cols == 0) return ST_OK;
    const struct tile *t = tile_choose(FACTOR_F32, args->rows, args->cols, args->parts);
    return tile_run(w, (enum pass)args->pass, t, args->parts, args);
}
status gpu_f32_runs(const struct gpu_work *w, const struct product_args *args, const uint32_t *begin, uint32_t count)
{
    struct product_runs_args runs = {*args, begin, count};
    if (args->pass == PASS_OF_DWEIGHT) {
        runs.of.parts = 1; /* of a run */
        runs.of.range = begin;
        return tile_run(w, DWEIGHT, tile_choose(FACTOR_F32, args->rows, args->cols, count), count, &runs.of);
    }
    const uint32_t usual = divide_up(args->rows, count); /* rows of a run: where they fill half a tile, take that */
    const struct tile *t = tile_choose(FACTOR_F32, usual, args->cols, count);
    if (t == f32_tiles && usual <= f32_tiles[1].rows) t++;
    const uint32_t full = args->rows / t->rows, tiles = args->rows - full < count ? args->rows : full + count;
    if (tiles == 0 || args->cols == 0) return ST_OK;
    return gpu_launch(w->gpu, w->stream, runs_kernels[t - f32_tiles][args->pass],
                      (struct gpu_dim){tiles * divide_up(args->cols, t->cols), 1, 1},
                      (struct gpu_dim){PRODUCT_THREADS, 1, 1}, &runs, sizeof runs);
}
status gpu_f32_terms(const struct gpu_work *w, const struct product_args *args, float *scratch, size_t scratch_floats)
{
    struct product_args own = *args;
    struct fc fc = {.w = w,
                    .attr = {.groups = 1},
                    .M = args->terms,
                    .K = args->rows,
                    .N = args->cols,
                    .kind = FACTOR_F32,
                    .scratch = {scratch, scratch_floats}};
    return dweight_own(&fc, &own);
}
status gpu_ranges_sum(const struct gpu_work *w, const struct ranges_sum_args *args, uint32_t range_count)
{
    return gpu_launch(w->gpu, w->stream, GPU_KERNEL_ranges_sum,
                      (struct gpu_dim){divide_up(args->cols, RANGES_COLS), range_count, 1},
                      (struct gpu_dim){RANGES_COLS, RANGES_ROWS, 1}, args, sizeof *args);
}

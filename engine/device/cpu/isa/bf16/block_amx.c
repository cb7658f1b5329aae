/* A block of terms of a product in bfloat16 by the matrix unit (amx.h); product_bf16.c goes through the
 * blocks.
 *
 *     right   [panel][step][PANEL]                       pack_bf16.h: sixteen steps of half a panel are a tile
 *     left    [strip][step / 16][row of 32][16 words]    strip_amx.h: packed before, or here, a strip at a time
 *
 *     block: rows x columns        for each strip of 32 rows (32 KiB, stay in L1)
 *                                      for each panel (256 KiB together, stay in L2): 2 x 2 tiles of sums, 4 products
 *                                      for 4 loads
 *
 * Four products keep the unit busy for most of the time that their loads leave. Meanwhile the core brings the
 * previous panel's sums to their end, row after row, until the unit's new sums are stored in their place, and
 * asks for the lines where this panel's sums go. The core does nothing else: what it packs beside the unit
 * costs as much as what it packs before.
 *
 * An element's terms are added 32 at a time, in the order of TILE_ADD, from the first term of each group on;
 * zeros fill up a group's last 32. */
#include "engine/device/cpu/isa/bf16/amx.h"
#include "engine/device/cpu/isa/bf16/strip_amx.h"

#if HAS_TILES

#define TILE_FLOATS (16 * 16)
#define SUMS        (BF16_ROWS * PANEL) /* floats of a strip's sums with a panel */
_Static_assert(VF == 16 && 2 * BLOCK_STEPS == PRODUCT_TERMS &&
                   PRODUCT_TERMS / AMX_TERMS * STRIP_STEP <= PRODUCT_TERMS * PRODUCT_LEFT &&
                   SUMS * sizeof(float) <= PRODUCT_TILE_BYTES,
               "scratch");

/* Rows of a panel's width to be asked for, one a row of sums; `row` 0: nothing, the same line again. */
struct ask {
    const float *at;
    size_t row;
};
static const float no_lines[PANEL] __attribute__((aligned(64)));

/* The core's work while the unit multiplies a panel. */
struct side {
    /* the end of the panel before */
    uint32_t rows; /* 0: none */
    const float *sums;
    float *result;
    size_t result_row;
    const float *bias, *output;
    size_t output_row;
    /* where this panel's sums go, to be written; outputs that they meet, and the next panel's waiting sums */
    struct ask write, read[2];
};

/* Brings a row of the panel before to its end. */
ALWAYS_INLINE void row_end(struct side *side, const enum tile_end end)
{
#pragma GCC unroll 2
    for (uint32_t v = 0; v < PANEL; v += VF) {
        vf sum = vf_load(side->sums + v);
        if (end == TILE_BIAS || end == TILE_BIAS_RELU) sum += vf_load(side->bias + v);
        if (end == TILE_BIAS_RELU) sum = vf_activation(ACT_RELU, 0, sum);
        if (end == TILE_SLOPE_RELU) sum = vf_activation_grad(ACT_RELU, 0, vf_load(side->output + v), sum);
        if (end == TILE_ADDS) sum = vf_load(side->result + v) + sum;
        vf_store(side->result + v, sum);
    }
    side->sums += PANEL;
    side->result += side->result_row;
    if (end == TILE_SLOPE_RELU) side->output += side->output_row;
}

ALWAYS_INLINE void row_ask(struct side *side)
{
    prefetch_write(side->write.at);
    prefetch_write(side->write.at + VF);
    side->write.at += side->write.row;
#pragma GCC unroll 2
    for (uint32_t i = 0; i < 2; i++) {
        prefetch_read(side->read[i].at);
        prefetch_read(side->read[i].at + VF);
        side->read[i].at += side->read[i].row;
    }
}

#define END_CASE(name)                                                                                                 \
    case name:                                                                                                         \
        for (uint32_t r = 0; r < side->rows; r++) row_end(side, name);                                                 \
        break;
static void rows_end(struct side *side, enum tile_end end)
{
    switch (end) {
        END_CASE(TILE_BIAS)
        END_CASE(TILE_BIAS_RELU)
        END_CASE(TILE_SLOPE_RELU)
        END_CASE(TILE_ADDS)
        END_CASE(TILE_WAITS)
    case TILE_BY_PARTS: break;
    }
    side->rows = 0;
}

/* A strip with a panel: to [32, PANEL] = sums (NULL: zeros) + strip x panel. */
struct visit {
    const float *strip, *panel, *sums;
    uint32_t steps; /* of tiles */
    float *to;
    size_t to_row;
};

ALWAYS_INLINE void tiles_begin(const bool has_rows, const bool has_cols, const float *sums)
{
    if (sums == NULL) {
        TILE_ZERO(0);
        if (has_cols) TILE_ZERO(1);
        if (has_rows) TILE_ZERO(2);
        if (has_rows && has_cols) TILE_ZERO(3);
    } else {
        TILE_LOAD(0, sums, PANEL);
        if (has_cols) TILE_LOAD(1, sums + VF, PANEL);
        if (has_rows) TILE_LOAD(2, sums + VF * PANEL, PANEL);
        if (has_rows && has_cols) TILE_LOAD(3, sums + VF * PANEL + VF, PANEL);
    }
}

ALWAYS_INLINE void tiles_step(const bool has_rows, const bool has_cols, const float *strip, const float *panel)
{
    TILE_LOAD(4, strip, VF);
    TILE_LOAD_ONCE(6, panel, PANEL);
    TILE_ADD(0, 4, 6);
    if (has_cols) {
        TILE_LOAD_ONCE(7, panel + VF, PANEL);
        TILE_ADD(1, 4, 7);
    }
    if (has_rows) {
        TILE_LOAD(5, strip + TILE_FLOATS, VF);
        TILE_ADD(2, 5, 6);
        if (has_cols) TILE_ADD(3, 5, 7);
    }
}

ALWAYS_INLINE void tiles_end(const bool has_rows, const bool has_cols, float *to, size_t to_row)
{
    TILE_STORE(0, to, to_row);
    if (has_cols) TILE_STORE(1, to + VF, to_row);
    if (has_rows) TILE_STORE(2, to + VF * to_row, to_row);
    if (has_rows && has_cols) TILE_STORE(3, to + VF * to_row + VF, to_row);
}

/* All four tiles, beside them the end of a whole panel's rows (or, with `has_end` false, of none). */
ALWAYS_INLINE void tiles_whole(const struct visit *visit, struct side *side_in, const bool has_end,
                               const enum tile_end end)
{
    struct side side = *side_in;
    const float *strip = visit->strip, *panel = visit->panel;
    const uint32_t steps = visit->steps, each = (BF16_ROWS + steps - 1) / steps;
    tiles_begin(true, true, visit->sums);
    for (uint32_t step = 0, row = 0; step < steps; step++, strip += STRIP_STEP, panel += AMX_STEPS * PANEL) {
        tiles_step(true, true, strip, panel);
        for (uint32_t i = 0; i < each && row < BF16_ROWS; i++, row++) {
            row_ask(&side);
            if (has_end && row < side.rows) row_end(&side, end);
        }
    }
    tiles_end(true, true, visit->to, visit->to_row);
    side_in->rows = 0;
}

typedef void visit_whole(const struct visit *visit, struct side *side);
#define VISIT_WHOLE(name, has_end, end)                                                                                \
    static __attribute__((noinline)) void name(const struct visit *visit, struct side *side)                           \
    {                                                                                                                  \
        tiles_whole(visit, side, has_end, end);                                                                        \
    }
VISIT_WHOLE(visit_alone, false, TILE_WAITS)
VISIT_WHOLE(visit_waits, true, TILE_WAITS)
VISIT_WHOLE(visit_bias, true, TILE_BIAS)
VISIT_WHOLE(visit_bias_relu, true, TILE_BIAS_RELU)
VISIT_WHOLE(visit_slope_relu, true, TILE_SLOPE_RELU)
VISIT_WHOLE(visit_adds, true, TILE_ADDS)

/* Fewer tiles. */
ALWAYS_INLINE void tiles_part(const struct visit *visit, const bool has_rows, const bool has_cols)
{
    const float *strip = visit->strip, *panel = visit->panel;
    tiles_begin(has_rows, has_cols, visit->sums);
    for (uint32_t step = 0; step < visit->steps; step++, strip += STRIP_STEP, panel += AMX_STEPS * PANEL)
        tiles_step(has_rows, has_cols, strip, panel);
    tiles_end(has_rows, has_cols, visit->to, visit->to_row);
}

static void visit_run(uint32_t rows, uint32_t cols, const struct visit *visit, enum tile_end end, struct side *side)
{
    static visit_whole *const wholes[] = {[TILE_WAITS] = visit_waits,
                                          [TILE_BIAS] = visit_bias,
                                          [TILE_BIAS_RELU] = visit_bias_relu,
                                          [TILE_SLOPE_RELU] = visit_slope_relu,
                                          [TILE_ADDS] = visit_adds};
    if (rows > VF && cols > VF) {
        (side->rows > 0 ? wholes[end] : visit_alone)(visit, side);
        return;
    }
    rows_end(side, end);
    if (rows > VF)
        tiles_part(visit, true, false);
    else if (cols > VF)
        tiles_part(visit, false, true);
    else
        tiles_part(visit, false, false);
}

/* A block's factors, and where its results are. */
struct amx_block {
    const struct product *p;
    struct product_place at;
    struct terms of;
    const struct bf16_arrays *to;
    const float *right, *output; /* right: packed */
    float *result;
    enum tile_end end;
};

/* Multiplies the strip of rows [r, r + rows) by panel c; the sums end or wait. */
static void panel_multiply(const struct amx_block *b, const float *strip, uint32_t r, uint32_t rows, uint32_t c,
                           struct side *side)
{
    const struct product *p = b->p;
    const struct product_place *at = &b->at;
    const uint32_t col = c * PANEL, cols = at->cols - col < PANEL ? at->cols - col : PANEL;
    const uint32_t number = r / BF16_ROWS * panels_of(at->cols) + c;
    float *waiting = b->to->waiting + (size_t)number * SUMS, *tile = b->to->tile,
          *result = b->result + r * p->result_row + col;
    const float *output = b->output != NULL ? b->output + r * p->output_row + col : NULL;
    const bool is_whole = b->of.is_last && cols == PANEL && b->end != TILE_BY_PARTS;
    const bool is_direct = is_whole && b->end == TILE_WAITS && rows % VF == 0;
    struct visit visit = {.strip = strip,
                          .panel = b->right + c * panel_words_of(p, b->of),
                          .sums = b->of.is_first ? NULL : waiting,
                          .steps = steps_of(b->of.count, true) / AMX_STEPS,
                          .to = !b->of.is_last ? waiting
                                : is_direct    ? result
                                               : tile,
                          .to_row = is_direct ? p->result_row : PANEL};
    const struct ask nothing = {no_lines, 0};
    side->write = is_whole ? (struct ask){result, p->result_row} : nothing;
    side->read[0] = is_whole && output != NULL ? (struct ask){output, p->output_row} : nothing;
    side->read[1] = b->of.is_first ? nothing : (struct ask){waiting + SUMS, PANEL};
    visit_run(rows, cols, &visit, b->end, side);
    if (!b->of.is_last || is_direct) return;
    if (!is_whole) {
        KERNEL(product_finish)(p, at->group, tile, at->row + r, rows, at->col + col);
        return;
    }
    side->rows = rows;
    side->sums = tile;
    side->result = result;
    side->bias = p->bias != NULL ? p->bias + at->col + col : NULL;
    side->output = output;
}

void SET_KERNEL(product_bf16_block)(const struct product *p, struct product_place at, struct terms of,
                                    const struct bf16_arrays *to)
{
    const bool packs_right = p->right_packs == 0, packs_left = p->pack_count == p->right_packs;
    if (packs_right) right_pack_any(p, of, at.col, at.cols, p->packed, panel_words_of(p, of), to->col_sums);
    const float *left =
        p->left + (at.group + of.group) * p->left_group + at.row * p->left_row + of.begin * p->left_term;
    struct amx_block b = {
        .p = p,
        .at = at,
        .of = of,
        .to = to,
        .right = packs_right ? p->packed : right_packed(p, of, at.col),
        .output = p->output != NULL ? p->output + at.group * p->output_group + at.row * p->output_row + at.col : NULL,
        .result = p->result + at.group * p->result_group + at.row * p->result_row + at.col,
        .end = tile_end_of(p),
    };
    struct side side = {.result_row = p->result_row, .output_row = p->output_row};
    uint32_t before = tiny_flush();
    tiles_open();
    for (uint32_t r = 0; r < at.rows; r += BF16_ROWS) {
        const uint32_t rows = at.rows - r < BF16_ROWS ? at.rows - r : BF16_ROWS;
        const float *strip = packs_left ? to->left : strip_packed(p, at.group, of, at.row + r);
        if (packs_left) strips_pack(p, of, left + r * p->left_row, rows, to->left);
        for (uint32_t c = 0; c < panels_of(at.cols); c++) panel_multiply(&b, strip, r, rows, c, &side);
    }
    rows_end(&side, b.end);
    tiles_close();
    tiny_restore(before);
}

/* Tiles take pairs alone. */
bool SET_KERNEL(bf16_pairs_are_faster)(void) { return true; }

#endif

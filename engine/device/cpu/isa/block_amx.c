/* A block of terms of a product in bfloat16 by the matrix unit (product_bf16.c has what is around it, amx.h the unit).
 *
 *     right   packed[panel][group of terms][step][PANEL]      a step is a word of two terms; sixteen steps of half a panel are a tile, and
 *     left    [step / 16][row][16 words]                      sixteen rows of a strip too
 *
 *     block: rows x columns       for each strip of 32 rows, packed (32 KiB, stay in L1)
 *                                     for each panel (512 KiB together, stay in L2): 2 x 2 tiles of sums, 4 products for 4 loads
 *
 * The unit takes 64 cycles for four products, and nothing else for most of them. Meanwhile the core brings the sums of the panel before to
 * their end, row after row, and packs a part of the strip that comes next: the sums lie in two places in turn, and so do strips.
 *
 * An element's terms are added 32 at a time, as TILE_ADD has it, from the first one on of each group; a group's last ones are filled up by
 * zeros. */
#include "engine/device/cpu/isa/amx.h"
#include "engine/device/cpu/isa/pack_bf16.h"

#if HAS_TILES

#define TILE_FLOATS (16 * 16)
#define STRIP_STEP  (2 * TILE_FLOATS) /* floats of a strip's AMX_STEPS steps */
#define STRIP       (PRODUCT_TERMS / AMX_TERMS * STRIP_STEP)
#define SUMS        (BF16_ROWS * PANEL) /* floats of a strip's sums with a panel */
_Static_assert(VF == 16 && 2 * BLOCK_STEPS == PRODUCT_TERMS && 2 * STRIP <= PRODUCT_TERMS * PRODUCT_LEFT &&
                   2 * SUMS * sizeof(float) <= PRODUCT_TILE_BYTES,
               "scratch");

/* A strip that is being packed, unit after unit: the terms of a step's tile of one row, or of sixteen rows where these lie side by side. */
struct strip {
    const float *left;
    size_t left_row, left_term;
    uint32_t rows, terms;
    float *to;
    uint32_t row, term; /* of the next unit */
    uint32_t units;     /* left */
};

static struct strip strip_of(const struct product *p, const float *left, uint32_t rows, uint32_t terms, float *to)
{
    struct strip s = {
        .left = left, .left_row = p->left_row, .left_term = p->left_term, .rows = rows, .terms = terms, .to = to};
    s.units = (p->left_term == 1 ? rows : (rows + VF - 1) / VF) * ((terms + AMX_TERMS - 1) / AMX_TERMS);
    return s;
}

static void units_along(struct strip *s, uint32_t count)
{
    for (; count > 0; count--) {
        const float *from = s->left + s->row * s->left_row + s->term;
        uint32_t left = s->terms - s->term;
        vf low = vf_load_upto(from, left), high = vf_load_or_zero(from + VF, left > VF ? left - VF : 0);
        prefetch_read(from + LEFT_ROWS_AHEAD * s->left_row);
        prefetch_read(from + LEFT_ROWS_AHEAD * s->left_row + VF);
        vf_store(s->to + s->term / AMX_TERMS * STRIP_STEP + s->row * VF, vf_pairs_along(low, high));
        if ((s->term += AMX_TERMS) >= s->terms) s->term = 0, s->row++;
    }
}

static void units_across(struct strip *s, uint32_t count)
{
    float words[TILE_FLOATS] __attribute__((aligned(64)));
    for (; count > 0; count--) {
        const float *from = s->left + s->term * s->left_term + s->row;
        uint32_t terms = s->terms - s->term < AMX_TERMS ? s->terms - s->term : AMX_TERMS, rows = s->rows - s->row;
        for (uint32_t t = 0; t < AMX_TERMS; t += 2, from += 2 * s->left_term) {
            vf term = t < terms ? vf_load_upto(from, rows) : (vf){0},
               next = t + 1 < terms ? vf_load_upto(from + s->left_term, rows) : (vf){0};
            prefetch_far(from + BF16_ROWS);
            prefetch_far(from + BF16_ROWS + s->left_term);
            vf_store(words + t / 2 * VF, vf_pairs_across(term, next));
        }
        words_transpose(s->to + s->term / AMX_TERMS * STRIP_STEP + s->row * VF, VF, words);
        if ((s->row += VF) >= s->rows) s->row = 0, s->term += AMX_TERMS;
    }
}

/* What the core does while the unit multiplies. */
struct side {
    /* the end of the sums of the panel before */
    enum tile_end end;
    const float *sums;
    float *result;
    const float *bias, *output;
    size_t result_row, output_row;
    uint32_t rows, rows_each;                 /* left, and in a step */
    const float *result_ahead, *output_ahead; /* what the sums that are being multiplied will meet */
    /* the next strip */
    struct strip strip;
    uint32_t units, units_each; /* left in this panel, and in a step */
};

#define END_ROWS(expression)                                                                                           \
    for (uint32_t r = 0; r < rows; r++) {                                                                              \
        _Pragma("GCC unroll 2") for (uint32_t v = 0; v < PANEL; v += VF)                                               \
        {                                                                                                              \
            float *to = result + v;                                                                                    \
            vf s = vf_load(sums + v);                                                                                  \
            vf_store(to, expression);                                                                                  \
        }                                                                                                              \
        sums += PANEL, result += side->result_row, output += side->output_row;                                         \
    }
static void ends_run(struct side *side, uint32_t rows)
{
    const float *sums = side->sums, *bias = side->bias, *output = side->output;
    float *result = side->result;
    for (uint32_t r = 0; r < rows && side->result_ahead != NULL; r++) {
        prefetch_write(side->result_ahead);
        prefetch_write(side->result_ahead + VF);
        side->result_ahead += side->result_row;
        if (side->output_ahead == NULL) continue;
        prefetch_read(side->output_ahead);
        prefetch_read(side->output_ahead + VF);
        side->output_ahead += side->output_row;
    }
    switch (side->end) {
    case TILE_BIAS: END_ROWS(s + vf_load(bias + v)) break;
    case TILE_BIAS_RELU: END_ROWS(vf_activation(ACT_RELU, 0, s + vf_load(bias + v))) break;
    case TILE_SLOPE_RELU: END_ROWS(vf_activation_grad(ACT_RELU, 0, vf_load(output + v), s)) break;
    case TILE_ADDS: END_ROWS(vf_load(to) + s) break;
    default: END_ROWS(s) break;
    }
    side->sums = sums, side->result = result, side->output = output;
    side->rows -= rows;
}

static void units_run(struct side *side, uint32_t count)
{
    if (side->strip.left_term == 1)
        units_along(&side->strip, count);
    else
        units_across(&side->strip, count);
    side->strip.units -= count;
    side->units -= count;
}

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

ALWAYS_INLINE void side_step(struct side *side)
{
    if (side->rows > 0) ends_run(side, least(side->rows, side->rows_each));
    if (side->units > 0) units_run(side, least(side->units, side->units_each));
}

/* Shares what is to be done out over the steps of a panel, the last ones of `panels` before the strip is needed. */
static void side_share(struct side *side, uint32_t panels, uint32_t steps)
{
    side->rows_each = (side->rows + steps - 1) / steps;
    side->units = (side->strip.units + panels - 1) / panels;
    side->units_each = (side->units + steps - 1) / steps;
}

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

/* to [rows, columns] = sums (zeros, if that is NULL) + strip x panel; of one tile's rows or columns, or of two's. */
ALWAYS_INLINE void tiles_multiply(const bool has_rows, const bool has_cols, const float *strip, const float *panel,
                                  uint32_t steps, const float *sums, float *to, size_t to_row, struct side *side)
{
    tiles_begin(has_rows, has_cols, sums);
    for (uint32_t s = 0; s < steps; s++, strip += STRIP_STEP, panel += AMX_STEPS * PANEL) {
        TILE_LOAD(4, strip, VF);
        TILE_LOAD(6, panel, PANEL);
        TILE_ADD(0, 4, 6);
        if (has_cols) {
            TILE_LOAD(7, panel + VF, PANEL);
            TILE_ADD(1, 4, 7);
        }
        if (has_rows) {
            TILE_LOAD(5, strip + TILE_FLOATS, VF);
            TILE_ADD(2, 5, 6);
            if (has_cols) TILE_ADD(3, 5, 7);
        }
        side_step(side);
    }
    TILE_STORE(0, to, to_row);
    if (has_cols) TILE_STORE(1, to + VF, to_row);
    if (has_rows) TILE_STORE(2, to + VF * to_row, to_row);
    if (has_rows && has_cols) TILE_STORE(3, to + VF * to_row + VF, to_row);
}

static void strip_multiply(uint32_t rows, uint32_t cols, const float *strip, const float *panel, uint32_t steps,
                           const float *sums, float *to, size_t to_row, struct side *side)
{
    if (rows > VF && cols > VF)
        tiles_multiply(true, true, strip, panel, steps, sums, to, to_row, side);
    else if (rows > VF)
        tiles_multiply(true, false, strip, panel, steps, sums, to, to_row, side);
    else if (cols > VF)
        tiles_multiply(false, true, strip, panel, steps, sums, to, to_row, side);
    else
        tiles_multiply(false, false, strip, panel, steps, sums, to, to_row, side);
}

/* A block's factors, packed or about to be, and where its results are. */
struct amx_block {
    const struct product *p;
    struct product_place at;
    struct terms of;
    const struct bf16_arrays *to;
    const float *left, *right, *output; /* right: packed */
    float *result;
    size_t panel_words;
    uint32_t panels;
    enum tile_end end;
};

/* Sums of a strip with panel c, which end or wait. */
static void panel_multiply(const struct amx_block *b, uint32_t r, uint32_t rows, uint32_t c, struct side *side)
{
    const struct product *p = b->p;
    const struct product_place *at = &b->at;
    uint32_t col = c * PANEL, cols = least(at->cols - col, PANEL), steps = steps_of(b->of.count, true) / AMX_STEPS;
    uint32_t number = r / BF16_ROWS * b->panels + c;
    float *waiting = b->to->waiting + (size_t)number * SUMS, *tile = b->to->tile + number % 2 * SUMS,
          *result = b->result + r * p->result_row + col;
    const float *strip = b->to->left + r / BF16_ROWS % 2 * STRIP, *sums = b->of.is_first ? NULL : waiting;
    const float *output = b->output != NULL ? b->output + r * p->output_row + col : NULL;
    bool is_whole = b->of.is_last && cols == PANEL && b->end != TILE_BY_PARTS;
    side->result_ahead = is_whole ? result : NULL;
    side->output_ahead = is_whole ? output : NULL;
    side_share(side, b->panels - c, steps);
    if (!b->of.is_last) {
        strip_multiply(rows, cols, strip, b->right + c * b->panel_words, steps, sums, waiting, PANEL, side);
        return;
    }
    bool is_direct = is_whole && b->end == TILE_WAITS && rows % VF == 0;
    strip_multiply(rows, cols, strip, b->right + c * b->panel_words, steps, sums, is_direct ? result : tile,
                   is_direct ? p->result_row : PANEL, side);
    if (is_direct) return;
    if (!is_whole) {
        KERNEL(product_finish)(p, at->group, tile, at->row + r, rows, at->col + col);
        return;
    }
    side->sums = tile;
    side->result = result;
    side->bias = p->bias != NULL ? p->bias + at->col + col : NULL;
    side->output = output;
    side->rows = rows;
}

void KERNEL(product_bf16_block)(const struct product *p, struct product_place at, struct terms of,
                                const struct bf16_arrays *to)
{
    size_t panel_words = packed_panel_words(p), steps_all = steps_of(p->terms, true);
    const float *right = p->packed;
    if (p->pack_count == 0)
        right_pack_any(p, of, at.col, at.cols, p->packed, panel_words = (size_t)steps_of(of.count, true) * PANEL,
                       to->col_sums);
    else
        right += at.col / PANEL * panel_words + (of.group * steps_all + steps_of(of.begin, true)) * PANEL;
    struct amx_block b = {
        .p = p,
        .at = at,
        .of = of,
        .to = to,
        .left = p->left + (at.group + of.group) * p->left_group + at.row * p->left_row + of.begin * p->left_term,
        .right = right,
        .output = p->output != NULL ? p->output + at.group * p->output_group + at.row * p->output_row + at.col : NULL,
        .result = p->result + at.group * p->result_group + at.row * p->result_row + at.col,
        .panel_words = panel_words,
        .panels = (at.cols + PANEL - 1) / PANEL,
        .end = tile_end_of(p),
    };
    struct side side = {.end = b.end, .result_row = p->result_row, .output_row = p->output_row};
    uint32_t before = tiny_flush();
    tiles_open();
    side.strip = strip_of(p, b.left, least(at.rows, BF16_ROWS), of.count, to->left);
    side.units = side.strip.units;
    units_run(&side, side.units);
    for (uint32_t r = 0; r < at.rows; r += BF16_ROWS) {
        uint32_t next = r + BF16_ROWS;
        side.strip = strip_of(p, b.left + next * p->left_row, next < at.rows ? least(at.rows - next, BF16_ROWS) : 0,
                              of.count, to->left + next / BF16_ROWS % 2 * STRIP);
        for (uint32_t c = 0; c < b.panels; c++) panel_multiply(&b, r, least(at.rows - r, BF16_ROWS), c, &side);
    }
    if (side.rows > 0) ends_run(&side, side.rows);
    tiles_close();
    tiny_restore(before);
}

/* The one way. */
bool KERNEL(bf16_pairs_are_faster)(void) { return true; }

#endif

/* A block of terms of a product in bfloat16 by the matrix unit (amx.h); product_bf16.c goes through the
 * blocks.
 *
 *     right   packed[panel][group of terms][step][PANEL]      a step is a word of two terms; sixteen steps of half a
 *     left    [step / 16][row][16 words]                      panel are a tile, and sixteen rows of a strip too
 *
 *     block: rows x columns       for each strip of 32 rows, packed (32 KiB, stay in L1)
 *                                     for each panel (512 KiB together, stay in L2): 2 x 2 tiles of sums, 4 products
 *                                     for 4 loads
 *
 * Four products keep the unit busy for most of the time that their loads leave. Meanwhile the core brings the
 * previous panel's sums to their end, row after row, until the unit's new sums are stored in their place. The
 * core also packs a part of the next strip, beside this one.
 *
 * An element's terms are added 32 at a time, in the order of TILE_ADD, from the first term of each group on;
 * zeros fill up a group's last 32. */
#include "engine/device/cpu/isa/bf16/amx.h"
#include "engine/device/cpu/isa/bf16/pack_bf16.h"

#if HAS_TILES

#define TILE_FLOATS (16 * 16)
#define STRIP_STEP  (2 * TILE_FLOATS) /* floats of a strip's AMX_STEPS steps */
#define STRIP       (PRODUCT_TERMS / AMX_TERMS * STRIP_STEP)
#define SUMS        (BF16_ROWS * PANEL) /* floats of a strip's sums with a panel */
_Static_assert(VF == 16 && 2 * BLOCK_STEPS == PRODUCT_TERMS && 2 * STRIP <= PRODUCT_TERMS * PRODUCT_LEFT &&
                   SUMS * sizeof(float) <= PRODUCT_TILE_BYTES,
               "scratch");

/* A strip that is being packed, unit after unit. A unit is a row's terms of one tile, or, where rows lie
 * side by side, a quarter of a tile. */
struct strip {
    const float *left;
    size_t left_row, left_term;
    uint32_t rows, terms;
    float *to;
    uint32_t row, term, part; /* of the next unit */
    uint32_t units;           /* left */
    float *words;             /* [TILE_FLOATS]: a tile on its way, where rows lie side by side */
};
#define PARTS 4u /* of such a tile: the first two pack its terms, the others transpose it */

static struct strip strip_of(const struct product *p, const float *left, uint32_t rows, uint32_t terms, float *to,
                             float *words)
{
    struct strip s = {.left = left,
                      .left_row = p->left_row,
                      .left_term = p->left_term,
                      .rows = rows,
                      .terms = terms,
                      .to = to,
                      .words = words};
    s.units = (p->left_term == 1 ? rows : (rows + VF - 1) / VF * PARTS) * ((terms + AMX_TERMS - 1) / AMX_TERMS);
    return s;
}

static uint32_t least(uint32_t one, uint32_t other) { return one < other ? one : other; }

/* Units of one row, side by side. */
static void units_along(struct strip *s, uint32_t count)
{
    const float *from = s->left + s->row * s->left_row + s->term, *ahead = from + LEFT_ROWS_AHEAD * s->left_row;
    float *to = s->to + s->term / AMX_TERMS * STRIP_STEP + s->row * VF;
    uint32_t whole = least(count, (s->terms - s->term) / AMX_TERMS);
    for (uint32_t i = 0; i < whole; i++, from += AMX_TERMS, ahead += AMX_TERMS, to += STRIP_STEP) {
        prefetch_read(ahead);
        prefetch_read(ahead + VF);
        vf_store(to, vf_pairs_along(vf_load(from), vf_load(from + VF)));
    }
    s->term += whole * AMX_TERMS;
    uint32_t left = s->terms - s->term;
    if (whole < count && left > 0) {
        prefetch_read(ahead);
        prefetch_read(ahead + left - 1);
        vf_store(to, vf_pairs_along(vf_load_upto(from, left), vf_load_or_zero(from + VF, left > VF ? left - VF : 0)));
        s->term = s->terms;
        whole++;
    }
    if (s->term == s->terms) s->term = 0, s->row++;
    s->units -= whole;
}

/* One unit. */
static void unit_across(struct strip *s)
{
    s->units--;
    if (s->part < PARTS / 2) {
        const uint32_t begin = s->part * (AMX_TERMS / 2), terms = s->terms - s->term, rows = s->rows - s->row;
        const float *from = s->left + (s->term + begin) * s->left_term + s->row;
        float *words = s->words + begin / 2 * VF;
        for (uint32_t t = begin; t < begin + AMX_TERMS / 2; t += 2, from += 2 * s->left_term, words += VF) {
            vf term = t < terms ? vf_load_upto(from, rows) : (vf){0},
               next = t + 1 < terms ? vf_load_upto(from + s->left_term, rows) : (vf){0};
            prefetch_far(from + BF16_ROWS);
            prefetch_far(from + BF16_ROWS + s->left_term);
            vf_store(words, vf_pairs_across(term, next));
        }
        s->part++;
        return;
    }
    const uint32_t begin = (s->part - PARTS / 2) * (VF / 2);
    words_transpose(s->to + s->term / AMX_TERMS * STRIP_STEP + (s->row + begin) * VF, VF, s->words + begin, VF / 2);
    s->part = (s->part + 1) % PARTS;
    if (s->part == 0 && (s->row += VF) >= s->rows) s->row = 0, s->term += AMX_TERMS;
}

/* Rows of a panel's width that will be needed. */
struct ask {
    const float *at;
    size_t row;
    uint32_t rows;
};

/* The core's work while the unit multiplies. */
struct side {
    /* the end of the previous panel's sums */
    enum tile_end end;
    const float *sums;
    float *result;
    const float *bias, *output;
    size_t result_row, output_row;
    uint32_t rows, rows_each; /* left, and in a step */
    /* to ask for: where this panel's sums go, to be written; outputs that they meet and the next
     * panel's waiting sums, to be read */
    struct ask write, read[2];
    uint32_t ask_each;
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

static void units_run(struct strip *strip, uint32_t count)
{
    const uint32_t end = strip->units - count;
    while (strip->units > end)
        if (strip->left_term == 1)
            units_along(strip, strip->units - end);
        else
            unit_across(strip);
}

ALWAYS_INLINE void side_step(struct side *side)
{
    if (side->rows > 0) ends_run(side, least(side->rows, side->rows_each));
    for (uint32_t i = 0; i < side->ask_each; i++) {
        if (side->write.rows > 0) {
            prefetch_write(side->write.at);
            prefetch_write(side->write.at + VF);
            side->write.at += side->write.row, side->write.rows--;
        }
        for (uint32_t k = 0; k < 2; k++) {
            struct ask *read = &side->read[k];
            if (read->rows == 0) continue;
            prefetch_read(read->at);
            prefetch_read(read->at + VF);
            read->at += read->row, read->rows--;
        }
    }
    if (side->units > 0) {
        uint32_t count = least(side->units, side->units_each);
        side->units -= count;
        units_run(&side->strip, count);
    }
}

/* Spreads the core's work over the steps of a panel; the next strip is to be packed after `panels` panels. */
static void side_share(struct side *side, uint32_t rows, uint32_t panels, uint32_t steps)
{
    side->rows_each = (side->rows + steps - 1) / steps;
    side->ask_each = (rows + steps - 1) / steps;
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

/* to [rows, columns] = sums (NULL: zeros) + strip x panel; rows and columns of one tile, or of two. */
ALWAYS_INLINE void tiles_multiply(const bool has_rows, const bool has_cols, const float *strip, const float *panel,
                                  uint32_t steps, const float *sums, float *to, size_t to_row, struct side *side)
{
    tiles_begin(has_rows, has_cols, sums);
    for (uint32_t step = 0; step < steps; step++, strip += STRIP_STEP, panel += AMX_STEPS * PANEL) {
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

/* Multiplies a strip by panel c; the sums end or wait. */
static void panel_multiply(const struct amx_block *b, uint32_t r, uint32_t rows, uint32_t c, struct side *side)
{
    const struct product *p = b->p;
    const struct product_place *at = &b->at;
    uint32_t col = c * PANEL, cols = least(at->cols - col, PANEL), steps = steps_of(b->of.count, true) / AMX_STEPS;
    uint32_t number = r / BF16_ROWS * b->panels + c;
    float *waiting = b->to->waiting + (size_t)number * SUMS, *tile = b->to->tile,
          *result = b->result + r * p->result_row + col;
    const float *strip = b->to->left + r / BF16_ROWS % 2 * STRIP, *sums = b->of.is_first ? NULL : waiting;
    const float *output = b->output != NULL ? b->output + r * p->output_row + col : NULL;
    bool is_whole = b->of.is_last && cols == PANEL && b->end != TILE_BY_PARTS;
    side->write = (struct ask){b->of.is_last ? result : waiting, b->of.is_last ? p->result_row : PANEL,
                               is_whole || (!b->of.is_last && b->of.is_first) ? rows : 0};
    side->read[0] = (struct ask){output, p->output_row, is_whole && output != NULL ? rows : 0};
    side->read[1] = (struct ask){waiting + SUMS, PANEL, b->of.is_first ? 0 : rows};
    side_share(side, rows, b->panels - c, steps);
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

void SET_KERNEL(product_bf16_block)(const struct product *p, struct product_place at, struct terms of,
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
    float words[TILE_FLOATS] __attribute__((aligned(64)));
    side.strip = strip_of(p, b.left, least(at.rows, BF16_ROWS), of.count, to->left, words);
    units_run(&side.strip, side.strip.units);
    for (uint32_t r = 0; r < at.rows; r += BF16_ROWS) {
        uint32_t next = r + BF16_ROWS;
        side.strip = strip_of(p, b.left + next * p->left_row, next < at.rows ? least(at.rows - next, BF16_ROWS) : 0,
                              of.count, to->left + next / BF16_ROWS % 2 * STRIP, words);
        for (uint32_t c = 0; c < b.panels; c++) panel_multiply(&b, r, least(at.rows - r, BF16_ROWS), c, &side);
    }
    if (side.rows > 0) ends_run(&side, side.rows);
    tiles_close();
    tiny_restore(before);
}

/* Tiles take pairs alone. */
bool SET_KERNEL(bf16_pairs_are_faster)(void) { return true; }

#endif

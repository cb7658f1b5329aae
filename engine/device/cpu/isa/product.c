/* Products of matrices in pieces: all but a few percent of the time of a click model's dense part
 * (product.h).
 *
 * A piece is some rows times some panels of PANEL columns:
 *
 *              terms                PANEL            for each PRODUCT_TERMS terms, and at most PRODUCT_COLS columns:
 *          ┌──────────┐        ┌─┬─┬─┬─┬─┐               pack these panels of the right factor (512 KiB, stay in L2)
 *    rows  │ left     │  terms │ │#│#│ │ │ right         for each TILE of rows (28 KiB of the left factor, stay in L1)
 *          │──────────│        │ │#│#│ │ │                   for each panel: TILE x PANEL sums in registers,
 *          │##########│ TILE   └─┴─┴─┴─┴─┘                       one multiply-add an element and term
 *          └──────────┘                                          then bias and activation, or slope, or adding
 *
 * If all blocks of a piece's columns fit into the member's scratch, they stay there for the next pieces
 * of the same columns (struct kept). Such pieces are small: members end together, even if the system
 * takes one off its core for a while.
 *
 * Complete sums of a block are added to the sums of the blocks before, which wait in the result, and which by
 * then have been fetched. With ADDS, each block's sums are added to the result itself. A piece has as many
 * groups of rows as it can, so that a panel that is packed once serves them all.
 *
 * A block's terms are added in order, one after another, from zero, and then the blocks' sums, whatever the
 * tile, the piece or the group; blocks begin at multiples of PRODUCT_TERMS, or ADDS_TERMS. So the bytes do
 * not depend on how rows and columns are cut. The left factor is read in place: a tile walks TILE rows of it
 * forward (or, for a transposed one, TILE neighbouring columns down). Rows an odd number of cache lines apart
 * spread best over the cache's sets. */
#include "engine/device/cpu/isa/product.h"

#include "engine/device/cpu/isa/product_pack.h"
#include "engine/device/cpu/isa/product_thin.h"
#include "engine/device/cpu/isa/tile.h"

/* Blocks of a product that ADDS are lower and wider: its left factor is transposed, and
 * each block packs its tiles again. */
#define ADDS_TERMS (PRODUCT_TERMS / 2)
#define ADDS_COLS  (PRODUCT_COLS * 2)

/* A product of several lanes has one block of terms: it adds to the result only once. */
_Static_assert(GRAPH_MICRO_USUAL <= PRODUCT_TERMS && GRAPH_MICRO_USUAL < 1u << LANE_LEVELS, "a block of lanes");
static uint32_t adds_terms(const struct product *p) { return p->lane_terms ? PRODUCT_TERMS : ADDS_TERMS; }

/* Sums of lanes that wait for others: after lane i one sum for each bit of i + 1. */
struct lane_sums {
    float sums[LANE_LEVELS][TILE * PANEL] __attribute__((aligned(CACHE_LINE_BYTES)));
    uint32_t count;
};

_Static_assert(TILE *PANEL * sizeof(float) <= PRODUCT_TILE_BYTES && LEFT_STEP <= PRODUCT_LEFT &&
                   PRODUCT_COLS % PANEL == 0,
               "scratch");

static uint32_t divide_up(uint32_t a, uint32_t b) { return (a + b - 1) / b; }

/* Passes finished sums of rows [row_begin, row_begin + rows) and columns [col, col + cols) on to the result.
 * An instance's constants cost nothing in its loop: the end, the usual activations, a full panel. */
ALWAYS_INLINE void finish(const struct product *p, enum product_end end, enum activation activation, uint32_t cols,
                          const float *sums, uint32_t row_begin, uint32_t rows, uint32_t col)
{
    for (uint32_t r = 0; r < rows; r++, sums += PANEL) {
        float *to = p->result + (row_begin + r) * p->result_row + col;
#pragma GCC unroll 2
        for (uint32_t c = 0; c < cols; c += VF) {
            size_t left = cols - c;
            vf sum = vf_load(sums + c);
            if (end == PRODUCT_ACTIVATES) {
                if (p->bias != NULL) sum += vf_load_upto(p->bias + col + c, left);
                sum = vf_activation(activation, p->slope, sum);
            } else if (end == PRODUCT_SLOPES) {
                if (activation != ACT_NONE) {
                    const float *output = p->output + (row_begin + r) * p->output_row + col + c;
                    sum = vf_activation_grad(activation, p->slope, vf_load_upto(output, left), sum);
                }
                if (p->adds) sum = vf_load_upto(to + c, left) + sum;
            } else {
                sum = vf_load_upto(to + c, left) + sum;
            }
            vf_store_upto(to + c, sum, left);
        }
    }
}

ALWAYS_INLINE void finish_activation(const struct product *p, enum product_end end, uint32_t cols, const float *sums,
                                     uint32_t row_begin, uint32_t rows, uint32_t col)
{
    if (p->activation == ACT_NONE)
        finish(p, end, ACT_NONE, cols, sums, row_begin, rows, col);
    else if (p->activation == ACT_RELU)
        finish(p, end, ACT_RELU, cols, sums, row_begin, rows, col);
    else
        finish(p, end, p->activation, cols, sums, row_begin, rows, col);
}

ALWAYS_INLINE void finish_end(const struct product *p, uint32_t cols, const float *sums, uint32_t row_begin,
                              uint32_t rows, uint32_t col)
{
    switch (p->end) {
    case PRODUCT_ACTIVATES: finish_activation(p, PRODUCT_ACTIVATES, cols, sums, row_begin, rows, col); break;
    case PRODUCT_SLOPES: finish_activation(p, PRODUCT_SLOPES, cols, sums, row_begin, rows, col); break;
    case PRODUCT_ADDS: finish(p, PRODUCT_ADDS, ACT_NONE, cols, sums, row_begin, rows, col); break;
    }
}

static void sums_finish(const struct product *p, const float *sums, uint32_t row_begin, uint32_t rows, uint32_t col,
                        uint32_t cols)
{
    if (cols == PANEL)
        finish_end(p, PANEL, sums, row_begin, rows, col);
    else
        finish_end(p, cols, sums, row_begin, rows, col);
}

/* Group g of a product's rows, or of its terms. */
static struct product group_of(const struct product *p, uint32_t g)
{
    struct product group = *p;
    group.left += g * p->left_group;
    group.right += g * p->right_group;
    group.result += g * p->result_group;
    if (p->output != NULL) group.output += g * p->output_group;
    return group;
}

void KERNEL(product_finish)(const struct product *p, uint32_t group, const float *sums, uint32_t row_begin,
                            uint32_t rows, uint32_t col)
{
    struct product of_group = group_of(p, group);
    sums_finish(&of_group, sums, row_begin, rows, col, p->cols - col < PANEL ? p->cols - col : PANEL);
}

/* Rows, columns and terms of a block; is_first and is_last: there are no terms before, and none behind. */
struct product_range {
    uint32_t row, rows, col, cols, begin, terms;
    bool is_first, is_last;
};

/* Memory that a row of tiles asks for. Each tile asks for its neighbour's result; the last one for that of
 * the next row's first tile, and for the next row's left factor. */
struct row_ahead {
    const float *left;                 /* the next row's, terms side by side; or NULL */
    const float *result, *result_next; /* of this row, and of the next one or NULL */
    const float *output, *output_next; /* the outputs that these meet; or NULL */
    size_t result_row, output_row;
    struct tile_far right; /* of the next block's first panel, some terms; the same of its other columns */
    uint32_t right_cols;
    const float *left_far; /* the next left factor, if transposed, all of whose terms the row asks for; or NULL */
    size_t left_far_term;
    uint32_t left_far_terms, left_far_each; /* all, and of a tile */
};

/* Memory that the tile from column c on asks for. */
ALWAYS_INLINE struct tile_ahead tile_ahead_of(const struct row_ahead *row, uint32_t c, bool is_last)
{
    struct tile_ahead ahead = {.left = is_last ? row->left : NULL,
                               .result = is_last ? row->result_next : row->result + c + PANEL,
                               .output = is_last ? row->output_next : row->output,
                               .result_row = row->result_row,
                               .output_row = row->output_row};
    if (!is_last && row->output != NULL) ahead.output += c + PANEL;
    if (c < row->right_cols) ahead.far[0] = (struct tile_far){row->right.at + c, row->right.row, row->right.rows};
    uint32_t begin = c / PANEL * row->left_far_each;
    if (begin < row->left_far_terms)
        ahead.far[1] = (struct tile_far){row->left_far + begin * row->left_far_term, row->left_far_term,
                                         count_from(begin, row->left_far_terms, row->left_far_each)};
    return ahead;
}

/* A row of tiles: its factors, and where its sums go. */
struct tile_row {
    const float *left, *panel;
    size_t left_row, left_term, panel_term, panel_step; /* panel_step: from a panel to the next */
    uint32_t terms, cols;
    uint32_t lane_terms; /* of each of several lanes; 0: there is one */
    float *packs;        /* where whole panels are packed on the way; or NULL */
    float *col_sums;     /* where the sums of the columns of what was packed are added; or NULL */
    float *result;
    size_t result_row, output_row;
    const float *bias, *output;
    struct row_ahead ahead;
};

/* A whole tile of several lanes: each one's terms, then their sums along the tree. */
ALWAYS_INLINE void lanes_multiply(const struct tile_row *f, size_t left_row, size_t left_term, const float *panel,
                                  size_t panel_term, const struct tile_ahead *ahead, float *packed, vf sum[TILE][2])
{
    static const struct tile_ahead nothing;
    struct lane_sums wait;
    wait.count = 0;
    for (uint32_t t = 0, lane = 0; t < f->terms; t += f->lane_terms, lane++) {
#pragma GCC unroll 16
        for (uint32_t r = 0; r < TILE; r++) sum[r][0] = sum[r][1] = (vf){0};
        tile_multiply(false, TILE, 2, f->left + t * left_term, left_row, left_term, panel + t * panel_term, panel_term,
                      count_from(t, f->terms, f->lane_terms), lane == 0 ? ahead : &nothing,
                      packed != NULL ? packed + t * PANEL : NULL, sum);
        const bool is_last = f->terms - t <= f->lane_terms;
        for (uint32_t bit = is_last ? UINT32_MAX : lane; (bit & 1) && wait.count > 0; bit >>= 1) {
            const float *before = wait.sums[--wait.count];
#pragma GCC unroll 16
            for (uint32_t r = 0; r < TILE; r++)
                for (uint32_t v = 0; v < 2; v++) sum[r][v] = vf_load(before + r * PANEL + v * VF) + sum[r][v];
        }
        if (is_last) break;
        float *to = wait.sums[wait.count++];
#pragma GCC unroll 16
        for (uint32_t r = 0; r < TILE; r++)
            for (uint32_t v = 0; v < 2; v++) vf_store(to + r * PANEL + v * VF, sum[r][v]);
    }
}

/* Multiplies the whole panels of a row of whole tiles, and brings the sums to their end in the result, added
 * to what waits there if goes_on. All in one loop: while one tile's last sums are added, the processor must
 * already be at the next one's first. */
ALWAYS_INLINE void tiles_whole(const struct tile_row *f, size_t left_row, size_t left_term, bool goes_on,
                               enum tile_end end, size_t panel_term, bool packs, bool has_lanes)
{
    size_t result_row = f->result_row;
    for (uint32_t c = 0; c + PANEL <= f->cols; c += PANEL) {
        float *result = f->result + c, *packed = packs ? f->packs + c * f->terms : NULL;
        struct tile_ahead ahead = tile_ahead_of(&f->ahead, c, c + PANEL >= f->cols);
        const float *panel = f->panel + c / PANEL * f->panel_step;
        vf sum[TILE][2];
#pragma GCC unroll 16
        for (uint32_t r = 0; r < TILE; r++) sum[r][0] = sum[r][1] = (vf){0};
        if (has_lanes)
            lanes_multiply(f, left_row, left_term, panel, panel_term, &ahead, packed, sum);
        else
            tile_multiply(false, TILE, 2, f->left, left_row, left_term, panel, panel_term, f->terms, &ahead, packed,
                          sum);
        if (goes_on) {
#pragma GCC unroll 16
            for (uint32_t r = 0; r < TILE; r++) {
                sum[r][0] = vf_load(result + r * result_row) + sum[r][0];
                sum[r][1] = vf_load(result + r * result_row + VF) + sum[r][1];
            }
        }
        tile_sums_end(end, sum, result, result_row, f->bias != NULL ? f->bias + c : NULL,
                      f->output != NULL ? f->output + c : NULL, f->output_row);
        if (packs && f->col_sums != NULL) panel_sums(packed, f->terms, f->lane_terms, f->col_sums + c);
    }
}

/* The three kinds of left factor, each with panels that are packed already,
 * and with panels that these tiles pack. */
typedef void row_whole(const struct tile_row *f, bool goes_on, enum tile_end end);
#define ROW_WHOLE(name, left_row, left_term, panel_term, packs, has_lanes)                                             \
    static __attribute__((noinline)) void name(const struct tile_row *f, bool goes_on, enum tile_end end)              \
    {                                                                                                                  \
        tiles_whole(f, left_row, left_term, goes_on, end, panel_term, packs, has_lanes);                               \
    }
ROW_WHOLE(row_along, f->left_row, 1, PANEL, false, false)
ROW_WHOLE(row_across, 1, f->left_term, PANEL, false, false)
ROW_WHOLE(row_packed, 1, LEFT_STEP, PANEL, false, false)
ROW_WHOLE(row_along_packs, f->left_row, 1, f->panel_term, true, false)
ROW_WHOLE(row_across_packs, 1, f->left_term, f->panel_term, true, false)
ROW_WHOLE(row_packed_packs, 1, LEFT_STEP, f->panel_term, true, false)
/* With ADDS, the left factor is transposed, and has more than one row. */
ROW_WHOLE(lanes_across, 1, f->left_term, PANEL, false, true)
ROW_WHOLE(lanes_packed, 1, LEFT_STEP, PANEL, false, true)
ROW_WHOLE(lanes_across_packs, 1, f->left_term, f->panel_term, true, true)
ROW_WHOLE(lanes_packed_packs, 1, LEFT_STEP, f->panel_term, true, true)

/* A part of a tile, fewer rows or columns, with `panel`, whose terms lie panel_term apart. Writes its sums
 * to `sums`, PANEL apart. */
static void tile_part(const struct tile_row *f, const struct tile_ahead *ahead, const float *panel, size_t panel_term,
                      uint32_t rows, uint32_t cols, float *sums)
{
    if (f->left_term == 1) {
        if (cols > VF)
            tile_dispatch(false, rows, 2, f->left, f->left_row, 1, panel, panel_term, f->terms, ahead, sums, PANEL,
                          true);
        else
            tile_dispatch(false, rows, 1, f->left, f->left_row, 1, panel, panel_term, f->terms, ahead, sums, PANEL,
                          true);
    } else {
        if (cols > VF)
            tile_dispatch(false, rows, 2, f->left, 1, f->left_term, panel, panel_term, f->terms, ahead, sums, PANEL,
                          true);
        else
            tile_dispatch(false, rows, 1, f->left, 1, f->left_term, panel, panel_term, f->terms, ahead, sums, PANEL,
                          true);
    }
}

/* tile_part() for several lanes. */
static __attribute__((noinline)) void lanes_part(const struct tile_row *f, const struct tile_ahead *ahead,
                                                 const float *panel, size_t panel_term, uint32_t rows, uint32_t cols,
                                                 float *sums)
{
    static const struct tile_ahead nothing;
    struct lane_sums wait;
    wait.count = 0;
    for (uint32_t t = 0, lane = 0; t < f->terms; t += f->lane_terms, lane++) {
        struct tile_row of_lane = *f;
        of_lane.left += t * f->left_term;
        of_lane.terms = count_from(t, f->terms, f->lane_terms);
        tile_part(&of_lane, lane == 0 ? ahead : &nothing, panel + t * panel_term, panel_term, rows, cols, sums);
        const bool is_last = f->terms - t <= f->lane_terms;
        for (uint32_t bit = is_last ? UINT32_MAX : lane; (bit & 1) && wait.count > 0; bit >>= 1) {
            const float *before = wait.sums[--wait.count];
            for (uint32_t r = 0; r < rows; r++)
                for (uint32_t c = 0; c < cols; c += VF)
                    vf_store(sums + r * PANEL + c, vf_load(before + r * PANEL + c) + vf_load(sums + r * PANEL + c));
        }
        if (!is_last) memcpy(wait.sums[wait.count++], sums, rows * PANEL * sizeof *sums);
    }
}

/* If goes_on, adds the sums that wait in the result to a part's sums, rows x cols. Unless is_last, the
 * sums wait in the result again. */
static void sums_wait(float *result, size_t result_row, float *sums, uint32_t rows, uint32_t cols, bool goes_on,
                      bool is_last)
{
    for (uint32_t r = 0; r < rows; r++, result += result_row, sums += PANEL)
        for (uint32_t c = 0; c < cols; c += VF) {
            vf sum = vf_load(sums + c);
            if (goes_on) sum = vf_load_upto(result + c, cols - c) + sum;
            if (is_last)
                vf_store(sums + c, sum);
            else
                vf_store_upto(result + c, sum, cols - c);
        }
}

/* A block of the right factor, columns side by side, that will be packed after this one; no terms: none.
 * Nothing is asked for of a block whose terms are side by side: pack_cols asks, and asking in tiles costs
 * more than it gains (d input, M = N = K = 512: 2 % of the time). */
struct block_ahead {
    const float *right;
    uint32_t terms, cols;
};

/* Some terms of the next block's first panel: the part that tile i of `tiles`,
 * one below the other, asks for. */
static struct tile_far right_ahead(const struct product *p, const struct block_ahead *next, uint32_t i, uint32_t tiles)
{
    uint32_t begin = (uint32_t)((uint64_t)next->terms * i / tiles),
             end = (uint32_t)((uint64_t)next->terms * (i + 1) / tiles);
    return (struct tile_far){next->right + begin * p->right_term, p->right_term, end - begin};
}

/* A block of the right factor. Its whole panels are packed before; or few rows read them in
 * place; or the first tile that reads a panel packs it, for which the sums leave time. A
 * part of a panel is packed before. */
enum block_way { BLOCK_PACKED, BLOCK_IN_PLACE, BLOCK_PACKS };
struct right_block {
    enum block_way way;
    const float *right; /* where it lies */
    float *panels;
    float *col_sums; /* BLOCK_PACKS: of the panels' columns; or NULL */
    struct block_ahead next;
};

/* The whole panels of a block whose columns lie side by side, or are packed, of few rows: strips, then what
 * is left of them. Returns where they end. */
static uint32_t strips_multiply(const struct product *p, struct product_range at, const struct right_block *block,
                                bool goes_on, bool is_last, float *tile)
{
    const bool is_packed = block->way == BLOCK_PACKED;
    const float *right = is_packed ? block->panels : block->right;
    size_t right_term = is_packed ? PANEL : p->right_term, panel_step = is_packed ? (size_t)PANEL * at.terms : PANEL;
    const float *left = p->left + at.row * p->left_row + at.begin * p->left_term;
    uint32_t wide = THIN_PANELS(at.rows), c = 0;
    while (c + PANEL <= at.cols) {
        uint32_t panels = c + wide * PANEL <= at.cols ? wide : 1;
        (panels > 1 ? strip_wide : strip_one)(at.rows, left, p->left_row, p->left_term, right + c / PANEL * panel_step,
                                              right_term, panel_step, at.terms, tile);
        for (uint32_t i = 0; i < panels; i++, c += PANEL) {
            float *to = p->result + at.row * p->result_row + at.col + c, *sums = tile + i * at.rows * PANEL;
            if (goes_on || !is_last) sums_wait(to, p->result_row, sums, at.rows, PANEL, goes_on, is_last);
            if (is_last) sums_finish(p, sums, at.row, at.rows, at.col + c, PANEL);
        }
    }
    return c;
}

/* Memory that row i of `tiles` rows of tiles asks for, whose left factor is f's: the next row's, if there is
 * one, and what comes behind this block. The rows of a transposed left factor, of the next tile or of the
 * next block's first one, lie so far apart that nothing else fetches them ahead (M = 2048, N = 64, K = 1024:
 * 0.70 of the peak, without 0.39). */
static struct row_ahead row_ahead_of(const struct product *p, struct product_range at, const struct right_block *block,
                                     const struct tile_row *f, uint32_t i, uint32_t tiles, bool is_last)
{
    bool has_next = i + 1 < tiles;
    const float *output = is_last ? f->output : NULL;
    struct row_ahead ahead = {
        .left = p->left_term == 1 ? f->left + TILE * p->left_row : NULL,
        .result = f->result,
        .result_next = has_next ? f->result + TILE * p->result_row : NULL,
        .output = output,
        .output_next = has_next && output != NULL ? output + TILE * p->output_row : NULL,
        .result_row = p->result_row,
        .output_row = p->output_row,
        .right = right_ahead(p, &block->next, i, tiles),
        .right_cols = block->next.cols,
        .left_far_term = p->left_term,
    };
    uint32_t end_term = at.begin + at.terms;
    if (p->left_term != 1 && has_next) {
        ahead.left_far = f->left + TILE * p->left_row;
        ahead.left_far_terms = at.terms;
    } else if (p->left_term != 1 && end_term < p->terms) {
        ahead.left_far = p->left + at.row * p->left_row + end_term * p->left_term;
        ahead.left_far_terms = count_from(end_term, p->terms, at.terms);
    }
    ahead.left_far_each = divide_up(at.terms, divide_up(at.cols, PANEL));
    return ahead;
}

/* Multiplies a block of the left factor by one of the right factor. */
static void block_multiply(const struct product *p, struct product_range at, const struct right_block *block,
                           float *tile, float *left)
{
    uint32_t tiles = divide_up(at.rows, TILE);
    bool adds = p->end == PRODUCT_ADDS || p->adds;
    bool is_packed = p->left_term != 1 && at.cols >= LEFT_PACKED_PANELS * PANEL;
    bool goes_on = !at.is_first && !adds, is_last = at.is_last || adds;
    enum tile_end end = is_last ? tile_end_of(p) : TILE_WAITS;
    for (uint32_t i = 0; i < tiles; i++) {
        uint32_t r = at.row + i * TILE, rows = count_from(r, at.row + at.rows, TILE);
        bool packs = block->way == BLOCK_PACKS && i == 0, is_in_place = block->way == BLOCK_IN_PLACE || packs;
        struct tile_row f = {.left = p->left + r * p->left_row + at.begin * p->left_term,
                             .panel = is_in_place ? block->right : block->panels,
                             .left_row = p->left_row,
                             .left_term = p->left_term,
                             .panel_term = is_in_place ? p->right_term : PANEL,
                             .panel_step = PANEL * (is_in_place ? p->right_col : at.terms),
                             .terms = at.terms,
                             .cols = at.cols,
                             .lane_terms = p->lane_terms < at.terms ? p->lane_terms : 0,
                             .packs = block->panels,
                             .col_sums = block->col_sums,
                             .result = p->result + r * p->result_row + at.col,
                             .result_row = p->result_row,
                             .output_row = p->output_row,
                             .bias = p->bias != NULL ? p->bias + at.col : NULL,
                             .output = p->output != NULL ? p->output + r * p->output_row + at.col : NULL};
        f.ahead = row_ahead_of(p, at, block, &f, i, tiles, is_last);
        if (is_packed) {
            left_pack(left, f.left, p->left_term, rows, at.terms);
            f.left = left;
            f.left_term = LEFT_STEP;
        }
        uint32_t c = 0;
        if ((block->way == BLOCK_IN_PLACE && p->right_col == 1) || (p->whole != NULL && at.rows <= THIN_ROWS)) {
            c = strips_multiply(p, at, block, goes_on, is_last, tile);
        } else if (rows == TILE && block->way != BLOCK_IN_PLACE && end != TILE_BY_PARTS) {
            static row_whole *const rows_whole[3][2] = {
                {row_along, row_along_packs}, {row_across, row_across_packs}, {row_packed, row_packed_packs}};
            static row_whole *const lanes_whole[2][2] = {{lanes_across, lanes_across_packs},
                                                         {lanes_packed, lanes_packed_packs}};
            if (f.lane_terms)
                lanes_whole[is_packed][packs](&f, goes_on, end);
            else
                rows_whole[is_packed ? 2 : p->left_term != 1][packs](&f, goes_on, end);
            c = at.cols / PANEL * PANEL;
        }
        for (; c < at.cols; c += PANEL) {
            uint32_t cols = count_from(c, at.cols, PANEL);
            struct tile_ahead ahead = tile_ahead_of(&f.ahead, c, c + PANEL >= at.cols);
            if (is_in_place && cols == PANEL && p->right_col != 1)
                tile_thin(rows, f.left, p->left_row, block->right + c * p->right_col, p->right_col, at.terms, tile);
            else
                (f.lane_terms ? lanes_part : tile_part)(&f, &ahead, block->panels + c * at.terms, panel_width(cols),
                                                        rows, cols, tile);
            if (goes_on || !is_last) sums_wait(f.result + c, p->result_row, tile, rows, cols, goes_on, is_last);
            if (is_last) sums_finish(p, tile, r, rows, at.col + c, cols);
        }
    }
}

/* The blocks that lie in a member's scratch. Other ops may write there, but never such
 * a number (PRODUCT_NUMBERS). */
struct kept {
    uint64_t number;
    uint32_t col;
};
_Static_assert(sizeof(struct kept) <= PRODUCT_KEPT_BYTES && ADDS_COLS * ADDS_TERMS <= PRODUCT_KEPT, "scratch");

static uint32_t tile_rows(const struct product *p) { return p->bf16 != NULL ? p->bf16->rows : TILE; }

/* Where the rows of chunk `chunk` begin: whole tiles, the same number in each but for one. */
static uint32_t row_begin(const struct product *p, uint32_t chunk)
{
    uint32_t tiles = divide_up(p->rows, tile_rows(p)),
             row = (uint32_t)((uint64_t)tiles * chunk / p->row_chunks) * tile_rows(p);
    return row < p->rows ? row : p->rows;
}

/* A piece's place. A member's share (engine/device/cpu/team.c) is some units of rows and groups; its pieces
 * of the first columns come first. */
static struct product_place place_of(const struct product *p, uint32_t piece)
{
    uint32_t begin = piece / (p->share_units * p->col_chunks) * p->share_units, left = p->units - begin;
    uint32_t units = left < p->share_units ? left : p->share_units;
    piece -= begin * p->col_chunks;
    uint32_t unit = begin + piece % units, row_chunk = unit % p->row_chunks;
    struct product_place at = {.row = row_begin(p, row_chunk),
                               .col = piece / units * p->piece_cols,
                               .group = unit / p->row_chunks * p->piece_groups};
    at.rows = row_begin(p, row_chunk + 1) - at.row;
    at.cols = count_from(at.col, p->cols, p->piece_cols);
    at.groups = count_from(at.group, p->row_groups, p->piece_groups);
    return at;
}

void KERNEL(product_pack)(const struct product *p, uint32_t piece) { p->bf16->pack(p, piece); }

/* The block that will be packed after the one that begins at `right`, of group t of terms: its next terms,
 * the next group's, or the next piece's columns, which are most often the same member's. */
static struct block_ahead block_after(const struct product *p, struct product_range at, uint32_t t,
                                      uint32_t block_terms, const float *right)
{
    uint32_t end = at.begin + at.terms, col = at.col + at.cols;
    if (end < p->terms)
        return (struct block_ahead){right + at.terms * p->right_term, count_from(end, p->terms, block_terms), at.cols};
    uint32_t terms = p->terms < block_terms ? p->terms : block_terms;
    if (t + 1 < p->term_groups)
        return (struct block_ahead){p->right + (t + 1) * p->right_group + at.col, terms, at.cols};
    return (struct block_ahead){p->right + col, terms, count_from(col, p->cols, at.cols)};
}

void KERNEL(product_piece)(const struct product *p, uint32_t piece, void *scratch)
{
    struct product_place place = place_of(p, piece);
    if (p->bf16 != NULL) {
        p->bf16->piece(p, place, scratch);
        return;
    }
    uint32_t group_begin = place.group, groups = place.groups;
    struct product_range at = {.row = place.row, .rows = place.rows, .col = place.col, .cols = place.cols};
    float *panels = scratch, *left = panels + PRODUCT_KEPT, *tile = left + PRODUCT_TERMS * PRODUCT_LEFT;
    struct kept *kept = (struct kept *)(tile + PRODUCT_TILE_BYTES / sizeof *tile);
    float *col_sums = p->col_sums != NULL && at.row == 0 ? p->col_sums + at.col : NULL;
    uint32_t block_terms = p->end == PRODUCT_ADDS ? adds_terms(p) : PRODUCT_TERMS;
    bool is_thin = p->whole == NULL && col_sums == NULL && p->lane_terms == 0 &&
                   (uint64_t)at.rows * groups <= THIN_ROWS && (p->right_col == 1 || p->left_term == 1);
    bool keeps = p->keeps && !is_thin;
    bool is_kept = p->whole != NULL || (keeps && col_sums == NULL && kept->number == p->number && kept->col == at.col);
    enum block_way way = BLOCK_PACKED;
    if (is_thin)
        way = BLOCK_IN_PLACE; /* too few rows to be worth packing a panel for */
    else if (!is_kept && p->right_col == 1 && at.rows >= TILE && tile_end_of(p) != TILE_BY_PARTS)
        way = BLOCK_PACKS;
    for (uint32_t t = 0; t < p->term_groups; t++) {
        for (at.begin = 0; at.begin < p->terms; at.begin += block_terms) {
            at.terms = count_from(at.begin, p->terms, block_terms);
            at.is_first = t == 0 && at.begin == 0;
            at.is_last = t + 1 == p->term_groups && at.begin + at.terms == p->terms;
            const float *right = p->right + t * p->right_group + at.begin * p->right_term + at.col * p->right_col;
            struct right_block block = {.way = way, .right = right, .col_sums = col_sums};
            block.panels = keeps ? panels + (size_t)(t * p->terms + at.begin) * p->piece_cols : panels;
            if (p->whole != NULL)
                block.panels = (float *)p->whole + at.begin * whole_cols(p->cols) + (size_t)at.col * at.terms;
            if (!is_thin && !is_kept && p->right_col == 1) block.next = block_after(p, at, t, block_terms, right);
            uint32_t packed_from = way == BLOCK_PACKED ? 0 : at.cols / PANEL * PANEL;
            const float *rest = right + packed_from * p->right_col;
            float *to = block.panels + packed_from * at.terms;
            const bool sums_apart = col_sums != NULL && p->lane_terms > 0;
            if (sums_apart)
                lanes_col_sums(rest, p->right_term, at.terms, at.cols - packed_from, p->lane_terms,
                               col_sums + packed_from);
            if (!is_kept && p->right_col == 1)
                pack_rows(to, rest, p->right_term, at.terms, at.cols - packed_from,
                          col_sums != NULL && !sums_apart ? col_sums + packed_from : NULL);
            else if (!is_kept)
                pack_cols(to, rest, p->right_col, at.terms, at.cols - packed_from);
            for (uint32_t g = 0; g < groups; g++) {
                struct product group = group_of(p, t + group_begin + g);
                block_multiply(&group, at, &block, tile, left);
                if (way == BLOCK_PACKS) block.way = BLOCK_PACKED;
                block.next.cols = 0;
            }
        }
    }
    *kept = (struct kept){keeps ? p->number : 0, at.col};
}

/* Cuts columns into blocks, each of which one member packs, then groups, then rows, so that every member has
 * the same number of units. Each piece packs its columns again unless they are kept, so there are no more
 * pieces than keep the members busy, and in step. */
#define PIECES_EACH      2u
#define PIECES_EACH_KEPT 8u
/* The first of a piece's strips is packed before anything is multiplied (bf16/block_amx.c). */
#define PIECES_EACH_TILES 4u
void KERNEL(product_cut)(struct product *p, uint32_t members)
{
    uint32_t cols_most = p->end == PRODUCT_ADDS && p->lane_terms == 0 ? ADDS_COLS : PRODUCT_COLS,
             col_chunks = divide_up(p->cols, p->bf16 != NULL ? p->bf16->cols : cols_most);
    /* A right factor that is packed already can be cut by columns as well:
     * few rows would not keep all members busy. */
    if (p->whole != NULL && members > 1 && divide_up(p->rows, TILE) < PIECES_EACH * members)
        col_chunks = divide_up(col_chunks, members) * members;
    p->piece_cols = divide_up(divide_up(p->cols, PANEL), col_chunks) * PANEL;
    p->col_chunks = divide_up(p->cols, p->piece_cols);
    p->keeps = members > 1 && p->whole == NULL &&
               (p->bf16 != NULL || (uint64_t)p->term_groups * p->terms * p->piece_cols <= PRODUCT_KEPT);
    uint32_t each = !p->keeps ? PIECES_EACH : tile_rows(p) > TILE ? PIECES_EACH_TILES : PIECES_EACH_KEPT;
    uint32_t wanted = members == 1 ? 1 : each * members;
    wanted = divide_up(wanted, p->col_chunks);
    if (wanted > 1) wanted = divide_up(wanted, members) * members;
    p->piece_groups = divide_up(p->row_groups, wanted);
    uint32_t group_chunks = divide_up(p->row_groups, p->piece_groups),
             tiles = divide_up(p->rows + !p->rows, tile_rows(p));
    wanted = divide_up(wanted, group_chunks);
    p->row_chunks = wanted < tiles ? wanted : tiles;
    p->units = p->row_chunks * group_chunks;
    p->share_units = divide_up(p->units, members);
    p->piece_count = p->col_chunks * p->units;
    if (p->bf16 != NULL) p->bf16->cut(p, members);
}

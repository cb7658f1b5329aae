/* Cells over trees: places of values, a block's product of a few rows, and turns forward and backward. */
#include "gpu/cells.h"

#include "gpu/each.h"
#include "gpu/math.h"

/* --- places of values ------------------------------------------------------------------------------- */

struct tree_lists {
    const struct tree_head *head;
    const struct tree_row *row;
    const struct tree_edge *edge;
    const struct tree_turn *turn;
    const uint32_t *group;
};
DEVICE struct tree_lists lists_of(const struct tree_args *a)
{
    const struct tree_head *head = (const struct tree_head *)(const void *)a->words;
    return (struct tree_lists){head, (const struct tree_row *)(const void *)(a->words + head->rows_at),
                               (const struct tree_edge *)(const void *)(a->words + head->edges_at),
                               (const struct tree_turn *)(const void *)(a->words + head->turns_at),
                               a->words + head->groups_at};
}
/* A number of a node's vectors, or of one of its edges'. */
struct tree_spot {
    uint32_t row, edge, i;
};

DEVICE size_t state_at(const struct tree_args *a, const struct tree_lists *l, uint32_t row, uint32_t state, uint32_t i)
{
    return ((size_t)row * a->register_count + a->kinds[l->row[row].kind].state[state]) * a->units + i;
}
DEVICE size_t word_at(const struct tree_args *a, const struct tree_row *row, uint32_t stride, uint32_t i)
{
    return (size_t)row->example * stride + (size_t)row->word * a->dim + i;
}
/* The edge that a state comes over. */
DEVICE uint32_t edge_of(const struct tree_lists *l, struct tree_spot at, uint32_t operand)
{
    return CELL_OPERAND_KIND(operand) == CELL_STATE ? l->row[at.row].edge + CELL_OPERAND_CHILD(operand) : at.edge;
}
DEVICE float value_of(const struct tree_args *a, const struct tree_lists *l, struct tree_spot at, uint32_t operand)
{
    const uint32_t index = CELL_OPERAND_INDEX(operand);
    switch (CELL_OPERAND_KIND(operand)) {
    case CELL_REGISTER: return a->reg[((size_t)at.row * a->register_count + index) * a->units + at.i];
    case CELL_EDGE: return a->edge[((size_t)at.edge * a->edge_count + index) * a->units + at.i];
    case CELL_WORD: return a->x.data[word_at(a, &l->row[at.row], a->x.stride, at.i)];
    case CELL_NUMBER: return l->row[at.row].number;
    case CELL_CONSTANT: return a->constants[a->kinds[l->row[at.row].kind].constant_begin + index];
    default: return a->reg[state_at(a, l, l->edge[edge_of(l, at, operand)].child, index, at.i)];
    }
}
/* Where the gradient of a value is added, or NULL: nobody wants it. */
DEVICE float *gradient_of(const struct tree_args *a, const struct tree_lists *l, struct tree_spot at, uint32_t operand)
{
    const uint32_t index = CELL_OPERAND_INDEX(operand);
    switch (CELL_OPERAND_KIND(operand)) {
    case CELL_REGISTER: return &a->dreg[((size_t)at.row * a->register_count + index) * a->units + at.i];
    case CELL_EDGE: return &a->dedge[((size_t)at.edge * a->edge_count + index) * a->units + at.i];
    case CELL_WORD: return a->dx.data ? &a->dx.data[word_at(a, &l->row[at.row], a->dx.stride, at.i)] : (float *)0;
    case CELL_STATE:
    case CELL_CHILD_STATE:
        return &a->dchild[((size_t)edge_of(l, at, operand) * a->state_count + index) * a->units + at.i];
    default: return (float *)0;
    }
}
DEVICE void gradient_add(float *to, float d)
{
    if (to) *to += d;
}
/* Where a register lies: operand `to` of a step. */
DEVICE float *register_of(const struct tree_args *a, struct tree_spot at, uint32_t operand)
{
    const uint32_t index = CELL_OPERAND_INDEX(operand);
    return CELL_OPERAND_KIND(operand) == CELL_EDGE
               ? &a->edge[((size_t)at.edge * a->edge_count + index) * a->units + at.i]
               : &a->reg[((size_t)at.row * a->register_count + index) * a->units + at.i];
}

/* --- steps ------------------------------------------------------------------------------------------ */

/* sum(…) or prod(…) over a node's edges, but for edge `without`. */
DEVICE float fold(const struct tree_args *a, const struct tree_lists *l, struct tree_spot at, const struct cell_step *s,
                  uint32_t without)
{
    float all = s->op == CELL_PROD ? 1 : 0;
    for (at.edge = l->row[at.row].edge; at.edge < l->row[at.row + 1].edge; at.edge++) {
        if (at.edge == without) continue;
        const float x = value_of(a, l, at, s->a);
        all = s->op == CELL_PROD ? all * x : all + x;
    }
    return all;
}
#define NO_EDGE 0xffffffffu

DEVICE void step_forward(const struct tree_args *a, const struct tree_lists *l, struct tree_spot at,
                         const struct cell_step *s)
{
    float *to = register_of(a, at, s->to);
    if (s->op == CELL_SUM || s->op == CELL_PROD) {
        *to = fold(a, l, at, s, NO_EDGE);
        return;
    }
    const float x = value_of(a, l, at, s->a);
    switch (s->op) {
    case CELL_ADD: *to = x + value_of(a, l, at, s->b); break;
    case CELL_SUBTRACT: *to = x - value_of(a, l, at, s->b); break;
    case CELL_MULTIPLY: *to = x * value_of(a, l, at, s->b); break;
    case CELL_FMA: *to = *to + x * value_of(a, l, at, s->b); break;
    case CELL_ACTIVATE: *to = gpu_activation(s->b, 0, x); break;
    case CELL_SIN: *to = gpu_sin(x); break;
    case CELL_COS: *to = gpu_cos(x); break;
    default: *to = x; break;
    }
}

DEVICE void step_backward(const struct tree_args *a, const struct tree_lists *l, struct tree_spot at,
                          const struct cell_step *s)
{
    const float d = *gradient_of(a, l, at, s->to);
    if (s->op == CELL_SUM || s->op == CELL_PROD) {
        for (at.edge = l->row[at.row].edge; at.edge < l->row[at.row + 1].edge; at.edge++)
            gradient_add(gradient_of(a, l, at, s->a), s->op == CELL_SUM ? d : d * fold(a, l, at, s, at.edge));
        return;
    }
    float *da = gradient_of(a, l, at, s->a), *db = (float *)0, dx = d, dy = d;
    switch (s->op) {
    case CELL_ADD:
    case CELL_SUBTRACT:
        db = gradient_of(a, l, at, s->b);
        dy = s->op == CELL_SUBTRACT ? -d : d;
        break;
    case CELL_MULTIPLY:
    case CELL_FMA:
        db = gradient_of(a, l, at, s->b);
        dx = d * value_of(a, l, at, s->b);
        dy = d * value_of(a, l, at, s->a);
        break;
    case CELL_ACTIVATE: dx = d * gpu_slope(s->b, 0, *register_of(a, at, s->to)); break;
    case CELL_SIN: dx = d * gpu_cos(value_of(a, l, at, s->a)); break;
    case CELL_COS: dx = -d * gpu_sin(value_of(a, l, at, s->a)); break;
    default: break;
    }
    if (da) *da = s->to == s->a ? dx : *da + dx;
    gradient_add(db, dy);
}

/* Runs steps [begin, end) for a number of a node, or for the same number of each of its edges. */
DEVICE void steps_forward(const struct tree_args *a, const struct tree_lists *l, struct tree_spot at, uint32_t begin,
                          uint32_t end)
{
    for (uint32_t i = begin; i < end; i++) {
        const struct cell_step s = a->steps[i];
        if (CELL_OPERAND_KIND(s.to) == CELL_EDGE)
            for (at.edge = l->row[at.row].edge; at.edge < l->row[at.row + 1].edge; at.edge++)
                step_forward(a, l, at, &s);
        else
            step_forward(a, l, at, &s);
    }
}
DEVICE void steps_backward(const struct tree_args *a, const struct tree_lists *l, struct tree_spot at, uint32_t begin,
                           uint32_t end)
{
    for (uint32_t i = end; i > begin; i--) {
        const struct cell_step s = a->steps[i - 1];
        if (CELL_OPERAND_KIND(s.to) == CELL_EDGE)
            for (at.edge = l->row[at.row].edge; at.edge < l->row[at.row + 1].edge; at.edge++)
                step_backward(a, l, at, &s);
        else
            step_backward(a, l, at, &s);
    }
}

/* Threads of the block over each number of some rows. */
#define EACH_SPOT(at, t, cols)                                                                                         \
    for (struct tree_spot at = {(t).begin + threadIdx.x / (cols), 0, threadIdx.x % (cols)}; at.row < (t).end;          \
         at.i += blockDim.x, at.row += at.i / (cols), at.i %= (cols))

/* --- products --------------------------------------------------------------------------------------- */

/* Rows, and what they are multiplied by: out[r] = left[r] right (+ bias). */
struct tree_factors {
    const float *left, *right, *bias;
    float *out;
    size_t left_stride, out_stride;
    uint32_t rows, terms, cols;
};

/* sum[r] += the tile's first R rows times a column. Many loads of the column are under way at once: a turn
 * has few rows, so it waits for weights more than it multiplies. */
DEVICE void tile_multiply(float sum[TREE_TILE_ROWS], const float *tile, const float *right, size_t stride,
                          uint32_t terms, const uint32_t R)
{
    const uint32_t loads = R <= 2 ? 32 : 16;
    uint32_t k = 0;
    for (; k + loads <= terms; k += loads) {
        float w[32];
        UNROLL for (uint32_t j = 0; j < loads; j++) w[j] = right[(k + j) * stride];
        UNROLL for (uint32_t j = 0; j < loads; j += 4) UNROLL for (uint32_t r = 0; r < R; r++)
        {
            const float4 x = *(const float4 *)(tile + r * TREE_TILE_TERMS + k + j);
            sum[r] = __fmaf_rn(x.x, w[j], sum[r]);
            sum[r] = __fmaf_rn(x.y, w[j + 1], sum[r]);
            sum[r] = __fmaf_rn(x.z, w[j + 2], sum[r]);
            sum[r] = __fmaf_rn(x.w, w[j + 3], sum[r]);
        }
    }
    UNROLL for (; k < terms; k++)
    {
        const float w = right[k * stride];
        UNROLL for (uint32_t r = 0; r < R; r++) sum[r] = __fmaf_rn(tile[r * TREE_TILE_TERMS + k], w, sum[r]);
    }
}
/* The rows that are multiplied together where there are `rows`; the tile has zeros behind these. */
DEVICE uint32_t tile_rows(uint32_t rows) { return rows <= 2 ? rows : rows <= 4 ? 4 : TREE_TILE_ROWS; }

DEVICE void tile_fill(float *tile, const struct tree_factors *f, uint32_t row, uint32_t term)
{
    const uint32_t rows = min(f->rows - row, TREE_TILE_ROWS), terms = min(f->terms - term, TREE_TILE_TERMS);
    for (uint32_t r = 0; r < tile_rows(rows); r++)
        for (uint32_t k = threadIdx.x; k < terms; k += blockDim.x)
            tile[r * TREE_TILE_TERMS + k] = r < rows ? f->left[(row + r) * f->left_stride + term + k] : 0;
}

/* The block's threads multiply; all threads come. They meet before the first read of `left`, but not behind
 * the last write. */
DEVICE void rows_multiply(const struct tree_factors *f, float *tile)
{
    for (uint32_t row = 0; row < f->rows; row += TREE_TILE_ROWS) {
        const uint32_t rows = min(f->rows - row, TREE_TILE_ROWS);
        for (uint32_t first = 0; first < f->cols; first += blockDim.x) {
            const uint32_t col = first + threadIdx.x;
            float sum[TREE_TILE_ROWS] = {0};
            for (uint32_t term = 0; term < f->terms; term += TREE_TILE_TERMS) {
                if (first == 0 || f->terms > TREE_TILE_TERMS) {
                    __syncthreads();
                    tile_fill(tile, f, row, term);
                    __syncthreads();
                }
                if (col >= f->cols) continue;
                const uint32_t terms = min(f->terms - term, TREE_TILE_TERMS);
                const float *right = f->right + (size_t)term * f->cols + col;
                switch (tile_rows(rows)) {
                case 1: tile_multiply(sum, tile, right, f->cols, terms, 1); break;
                case 2: tile_multiply(sum, tile, right, f->cols, terms, 2); break;
                case 4: tile_multiply(sum, tile, right, f->cols, terms, 4); break;
                default: tile_multiply(sum, tile, right, f->cols, terms, TREE_TILE_ROWS); break;
                }
            }
            if (col >= f->cols) continue;
            UNROLL for (uint32_t r = 0; r < TREE_TILE_ROWS; r++) if (r < rows) f->out[(row + r) * f->out_stride + col] =
                f->bias ? sum[r] + f->bias[col] : sum[r];
        }
    }
}

/* A product of the turn's rows, or of their edges; by the weight, or, backward, by its transpose: then the
 * turn's first row or edge is row din_row of din. */
DEVICE struct tree_factors factors_of(const struct tree_args *a, const struct tree_lists *l, uint32_t product,
                                      struct tree_turn t, const uint32_t is_backward, uint32_t din_row)
{
    const struct tree_product *p = &a->products[product];
    const uint32_t begin = p->is_edge ? l->row[t.begin].edge : t.begin, end = p->is_edge ? l->row[t.end].edge : t.end,
                   inputs = p->is_edge ? a->edge_inputs : a->node_inputs,
                   outputs = (p->is_edge ? a->edge_count : a->register_count) * a->units;
    float *const in = (p->is_edge ? a->edge_in : a->in) + (size_t)begin * inputs + p->in_begin;
    struct tree_factors f = {.right = a->weight[product], .rows = end - begin};
    if (is_backward) {
        f.left = (p->is_edge ? a->dedge : a->dreg) + (size_t)begin * outputs + p->out_begin;
        f.left_stride = outputs;
        f.out = a->din + (size_t)din_row * a->input_cols;
        f.out_stride = a->input_cols;
        f.terms = p->cols, f.cols = p->terms;
    } else {
        f.left = in;
        f.left_stride = inputs;
        f.bias = a->bias[product];
        f.out = (p->is_edge ? a->edge : a->reg) + (size_t)begin * outputs + p->out_begin;
        f.out_stride = outputs;
        f.terms = p->terms, f.cols = p->cols;
    }
    return f;
}

DEVICE uint32_t operand_cols(const struct tree_args *a, uint32_t operand)
{
    return CELL_OPERAND_KIND(operand) == CELL_WORD ? a->dim : a->units;
}

/* Gathers the inputs of a product's rows. */
DEVICE void inputs_gather(const struct tree_args *a, const struct tree_lists *l, const struct tree_product *p,
                          struct tree_turn t)
{
    const struct tree_turn rows = p->is_edge ? (struct tree_turn){l->row[t.begin].edge, l->row[t.end].edge} : t;
    const uint32_t inputs = p->is_edge ? a->edge_inputs : a->node_inputs;
    float *in = p->is_edge ? a->edge_in : a->in;
    EACH_SPOT(to, rows, p->terms)
    {
        struct tree_spot at = {p->is_edge ? l->edge[to.row].row : to.row, to.row, to.i};
        uint32_t k = 0;
        while (at.i >= operand_cols(a, p->input[k])) at.i -= operand_cols(a, p->input[k++]);
        in[(size_t)to.row * inputs + p->in_begin + to.i] = value_of(a, l, at, p->input[k]);
    }
}

/* Adds the gradients of a product's inputs where they belong: one thread for a number of a node, through all
 * its edges. */
DEVICE void inputs_spread(const struct tree_args *a, const struct tree_lists *l, const struct tree_product *p,
                          struct tree_turn t, uint32_t din_row)
{
    const uint32_t cols = a->dim > a->units ? a->dim : a->units, first = p->is_edge ? l->row[t.begin].edge : t.begin;
    EACH_SPOT(at, t, cols)
    {
        const uint32_t begin = p->is_edge ? l->row[at.row].edge : at.row,
                       end = p->is_edge ? l->row[at.row + 1].edge : at.row + 1;
        for (uint32_t from = begin; from < end; from++) {
            const float *din = a->din + (size_t)(din_row + from - first) * a->input_cols + at.i;
            at.edge = from;
            for (uint32_t k = 0; k < p->input_count; k++) {
                const uint32_t there = operand_cols(a, p->input[k]);
                if (at.i < there) gradient_add(gradient_of(a, l, at, p->input[k]), *din);
                din += there;
            }
        }
    }
}

/* --- forward ---------------------------------------------------------------------------------------- */

/* A turn's steps, cut at its products. */
DEVICE void turn_forward(const struct tree_args *a, const struct tree_lists *l, struct tree_turn t, float *tile)
{
    const struct tree_kind *kind = &a->kinds[l->row[t.begin].kind];
    for (uint32_t begin = kind->step_begin, end = begin; begin < kind->step_end; begin = end + 1) {
        for (end = begin; end < kind->step_end && a->steps[end].op != CELL_PRODUCT;) end++;
        EACH_SPOT(at, t, a->units)
        steps_forward(a, l, at, begin, end);
        if (end == kind->step_end) break;
        const uint32_t product = a->steps[end].a;
        if (a->products[product].is_early) continue;
        __syncthreads();
        inputs_gather(a, l, &a->products[product], t);
        const struct tree_factors f = factors_of(a, l, product, t, 0, 0);
        rows_multiply(&f, tile);
        __syncthreads();
    }
    __syncthreads();
}

/* Writes the outputs of the block's examples. */
DEVICE void output_write(const struct tree_args *a, const struct tree_lists *l)
{
    const uint32_t *nodes = a->words + l->head->examples_at, begin = blockIdx.x * l->head->group_examples,
                   end = min(begin + l->head->group_examples, a->now->example_count);
    for (uint32_t b = begin; b < end; b++) {
        const uint32_t is_strange = nodes[b] == TREE_STRANGE, count = is_strange ? 0 : nodes[b],
                       there = a->gives_nodes ? count * a->units
                               : count > 0    ? a->units
                                              : 0;
        for (uint32_t i = there + threadIdx.x; i < a->out_cols; i += blockDim.x)
            out_row(a->out, b)[i] = is_strange ? __uint_as_float(0x7fc00000u) : 0;
    }
    for (uint32_t turn = l->group[blockIdx.x]; turn < l->group[blockIdx.x + 1]; turn++)
        EACH_SPOT(at, l->turn[turn], a->units)
        {
            const struct tree_row *row = &l->row[at.row];
            if (a->gives_nodes || row->place == 0)
                out_row(a->out, row->example)[(size_t)row->place * a->units + at.i] =
                    a->reg[state_at(a, l, at.row, 0, at.i)];
        }
}

KERNEL_BOUND(tree_forward, TREE_THREADS_MAX)
{
    SHARED(float, tile, TREE_TILE_ROWS *TREE_TILE_TERMS);
    const struct tree_lists l = lists_of(&a);
    if (blockIdx.x >= l.head->group_count) return;
    for (uint32_t turn = l.group[blockIdx.x]; turn < l.group[blockIdx.x + 1]; turn++)
        turn_forward(&a, &l, l.turn[turn], tile);
    output_write(&a, &l);
}

/* The rows of a kind that a block takes at a time: the at-th of them; none are left where begin >= end. */
DEVICE struct tree_turn early_turn(const struct tree_args *a, const struct tree_lists *l, uint32_t kind, uint32_t at)
{
    const uint32_t *first = a->words + l->head->kinds_at + kind, begin = first[0] + at * TREE_TILE_ROWS;
    return (struct tree_turn){begin, min(begin + TREE_TILE_ROWS, first[1])};
}

KERNEL_BOUND(tree_early_forward, TREE_THREADS_MAX)
{
    SHARED(float, tile, TREE_TILE_ROWS *TREE_TILE_TERMS);
    const struct tree_lists l = lists_of(&a);
    const struct tree_product *p = &a.products[a.product];
    for (uint32_t i = blockIdx.x;; i += gridDim.x) {
        const struct tree_turn t = early_turn(&a, &l, p->kind, i);
        if (t.begin >= t.end) break;
        inputs_gather(&a, &l, p, t);
        const struct tree_factors f = factors_of(&a, &l, a.product, t, 0, 0);
        rows_multiply(&f, tile);
    }
}

/* --- backward --------------------------------------------------------------------------------------- */

/* Begins the gradients of a number of a node: those of its states, from the output and from its parents. */
DEVICE void gradients_begin(const struct tree_args *a, const struct tree_lists *l, struct tree_spot at)
{
    const struct tree_row *row = &l->row[at.row];
    const struct tree_kind *kind = &a->kinds[row->kind];
    const uint32_t U = a->units, S = a->state_count, *parent = a->words + l->head->parents_at;
    float *dreg = a->dreg + (size_t)at.row * a->register_count * U + at.i;
    for (uint32_t r = 0; r < a->register_count; r++) dreg[(size_t)r * U] = 0;
    for (size_t e = (size_t)row[0].edge * a->edge_count; e < (size_t)row[1].edge * a->edge_count; e++)
        a->dedge[e * U + at.i] = 0;
    for (size_t e = (size_t)row[0].edge * S; e < (size_t)row[1].edge * S; e++) a->dchild[e * U + at.i] = 0;
    if (a->gives_nodes || row->place == 0)
        dreg[(size_t)kind->state[0] * U] = in_row(a->dout, row->example)[(size_t)row->place * U + at.i];
    for (uint32_t up = row[0].parent; up < row[1].parent; up++)
        for (uint32_t state = 0; state < S; state++)
            dreg[(size_t)kind->state[state] * U] += a->dchild[((size_t)parent[up] * S + state) * U + at.i];
}

DEVICE void turn_backward(const struct tree_args *a, const struct tree_lists *l, struct tree_turn t, float *tile)
{
    const struct tree_kind *kind = &a->kinds[l->row[t.begin].kind];
    EACH_SPOT(at, t, a->units)
    gradients_begin(a, l, at);
    for (uint32_t end = kind->step_end;;) {
        uint32_t begin = end;
        while (begin > kind->step_begin && a->steps[begin - 1].op != CELL_PRODUCT) begin--;
        EACH_SPOT(at, t, a->units)
        steps_backward(a, l, at, begin, end);
        if (begin == kind->step_begin) break;
        end = begin - 1;
        const uint32_t product = a->steps[end].a;
        if (a->products[product].is_early) continue;
        const uint32_t din_row = blockIdx.x * l->head->group_rows;
        const struct tree_factors f = factors_of(a, l, product, t, 1, din_row);
        rows_multiply(&f, tile);
        __syncthreads();
        inputs_spread(a, l, &a->products[product], t, din_row);
        __syncthreads();
    }
    __syncthreads();
}

KERNEL_BOUND(tree_backward, TREE_THREADS_MAX)
{
    SHARED(float, tile, TREE_TILE_ROWS *TREE_TILE_TERMS);
    const struct tree_lists l = lists_of(&a);
    if (blockIdx.x >= l.head->group_count) return;
    const uint32_t first = blockIdx.x * l.head->group_examples,
                   last = min(first + l.head->group_examples, a.now->example_count);
    for (uint32_t b = first; b < last && a.dx.data && !a.dx_adds; b++)
        for (uint32_t i = threadIdx.x; i < a.dx_cols; i += blockDim.x) out_row(a.dx, b)[i] = 0;
    __syncthreads();
    for (uint32_t turn = l.group[blockIdx.x + 1]; turn > l.group[blockIdx.x]; turn--)
        turn_backward(&a, &l, l.turn[turn - 1], tile);
}

KERNEL_BOUND(tree_early_backward, TREE_THREADS_MAX)
{
    SHARED(float, tile, TREE_TILE_ROWS *TREE_TILE_TERMS);
    const struct tree_lists l = lists_of(&a);
    const struct tree_product *p = &a.products[a.product];
    for (uint32_t i = blockIdx.x;; i += gridDim.x) {
        const struct tree_turn t = early_turn(&a, &l, p->kind, i);
        if (t.begin >= t.end) break;
        const struct tree_factors f = factors_of(&a, &l, a.product, t, 1, t.begin);
        rows_multiply(&f, tile);
        __syncthreads();
        inputs_spread(&a, &l, p, t, t.begin);
    }
}

/* --- parameters ------------------------------------------------------------------------------------- */

KERNEL(tree_transpose)
{
    SHARED(float, tile, TREE_SIDE *(TREE_SIDE + 1));
    const uint32_t z = blockIdx.z, terms = a.terms[z], cols = a.cols[z], col = blockIdx.x * TREE_SIDE,
                   term = blockIdx.y * TREE_SIDE;
    for (uint32_t k = threadIdx.y; k < TREE_SIDE; k += blockDim.y)
        if (term + k < terms && col + threadIdx.x < cols)
            tile[k * (TREE_SIDE + 1) + threadIdx.x] = a.from[z][(size_t)(term + k) * cols + col + threadIdx.x];
    __syncthreads();
    for (uint32_t k = threadIdx.y; k < TREE_SIDE; k += blockDim.y)
        if (col + k < cols && term + threadIdx.x < terms)
            a.to[z][(size_t)(col + k) * terms + term + threadIdx.x] = tile[threadIdx.x * (TREE_SIDE + 1) + k];
}
